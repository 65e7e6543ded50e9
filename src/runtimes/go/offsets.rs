//! Offsets of what is read of a goroutine and of a thread of the Go runtime (`g` and `m` in `src/runtime/runtime2.go`).

use super::types::{GoField, GoKind, GoType};
use crate::runtimes::TargetMemory;
use rustc_hash::FxHashMap;

/// Largest part of a goroutine's description that is read, bytes; it has some 500.
const MAX_GOROUTINE_BYTES: u32 = 4096;

/// Offsets in the description of a goroutine, bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoroutineFields {
    /// Bytes from the start that hold all of these.
    pub(crate) bytes: usize,
    pub(crate) stack_low: usize,
    pub(crate) stack_high: usize,
    /// Thread that runs it.
    pub(crate) m: usize,
    pub(crate) sched_sp: usize,
    pub(crate) sched_pc: usize,
    pub(crate) sched_bp: usize,
    /// Registers at the entry of a system call. Go older than 1.23 does not keep the frame pointer.
    pub(crate) syscall_sp: usize,
    pub(crate) syscall_pc: usize,
    pub(crate) syscall_bp: Option<usize>,
    /// 32 bits.
    pub(crate) status: usize,
    pub(crate) id: usize,
    /// Nanoseconds of the monotonic clock.
    pub(crate) wait_since: usize,
    /// One byte.
    pub(crate) wait_reason: usize,
    /// One byte, counted up whenever the goroutine stops running.
    pub(crate) stops: Option<usize>,
    /// Since Go 1.21.
    pub(crate) parent_id: Option<usize>,
    /// Address of the `go` statement.
    pub(crate) created_at: usize,
    pub(crate) start_function: usize,
    pub(crate) labels: usize,
}

/// Offsets in the description of a thread, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoMachineOffsets {
    /// Goroutine that it runs.
    pub(crate) current_goroutine: usize,
    /// Thread id of the kernel, in the process's own namespace.
    pub(crate) thread_id: usize,
}

/// A description without a field, by name; the name of the type itself if its description has another form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingGoField(pub(crate) &'static str);

impl GoroutineFields {
    /// Reads the offsets from Go's description of the type.
    pub(crate) fn of<M: TargetMemory>(memory: &M, goroutine: &GoType) -> Result<Self, MissingGoField> {
        let fields = StructFields::of(memory, goroutine, "g")?;
        let stack = fields.inner(memory, "stack")?;
        let sched = fields.inner(memory, "sched")?;
        let mut offsets = GoroutineFields {
            bytes: 0,
            stack_low: stack.offset("lo", 8)?,
            stack_high: stack.offset("hi", 8)?,
            m: fields.offset("m", 8)?,
            sched_sp: sched.offset("sp", 8)?,
            sched_pc: sched.offset("pc", 8)?,
            sched_bp: sched.offset("bp", 8)?,
            syscall_sp: fields.offset("syscallsp", 8)?,
            syscall_pc: fields.offset("syscallpc", 8)?,
            syscall_bp: fields.offset("syscallbp", 8).ok(),
            status: fields.offset("atomicstatus", 4)?,
            id: fields.offset("goid", 8)?,
            wait_since: fields.offset("waitsince", 8)?,
            wait_reason: fields.offset("waitreason", 1)?,
            stops: fields.offset("trackingSeq", 1).ok(),
            parent_id: fields.offset("parentGoid", 8).ok(),
            created_at: fields.offset("gopc", 8)?,
            start_function: fields.offset("startpc", 8)?,
            labels: fields.offset("labels", 8)?,
        };
        offsets.bytes = offsets.end().ok_or(MissingGoField("goid"))?;
        Ok(offsets)
    }

    /// End of the last field; `None` if that is too far for a goroutine.
    fn end(&self) -> Option<usize> {
        let optional = [self.syscall_bp, self.parent_id].into_iter().flatten();
        let fixed =
            [self.sched_bp, self.id, self.wait_since, self.created_at, self.start_function, self.labels];
        let last = fixed.into_iter().chain(optional).max()?;
        let last = last.max(self.wait_reason).max(self.stops.unwrap_or(0)).max(self.stack_high).max(self.m);
        (last < MAX_GOROUTINE_BYTES as usize).then_some(last + 8)
    }
}

impl GoMachineOffsets {
    /// Reads the offsets from Go's description of the type, or of the padded one that has it at its start (Go 1.25).
    pub(crate) fn of<M: TargetMemory>(memory: &M, machine: &GoType) -> Result<Self, MissingGoField> {
        let mut fields = StructFields::of(memory, machine, "m")?;
        if let Ok(inner) = fields.inner(memory, "m") {
            fields = inner;
        }
        Ok(GoMachineOffsets {
            current_goroutine: fields.offset("curg", 8)?,
            thread_id: fields.offset("procid", 8)?,
        })
    }
}

/// Fields of a struct that may be a part of another.
struct StructFields {
    base: u32,
    fields: FxHashMap<String, GoField>,
}

impl StructFields {
    fn of<M: TargetMemory>(memory: &M, of_type: &GoType, name: &'static str) -> Result<Self, MissingGoField> {
        let fields = of_type.fields(memory).ok_or(MissingGoField(name))?;
        Ok(StructFields { base: 0, fields })
    }

    /// Offset of a field whose values have `size` bytes, from the start of the outermost struct.
    fn offset(&self, name: &'static str, size: u64) -> Result<usize, MissingGoField> {
        let field = self.fields.get(name).filter(|field| field.of_type.size == size);
        let field = field.ok_or(MissingGoField(name))?;
        Ok(self.base.saturating_add(field.offset) as usize)
    }

    fn inner<M: TargetMemory>(&self, memory: &M, name: &'static str) -> Result<Self, MissingGoField> {
        let field = self.fields.get(name).filter(|field| field.of_type.kind == GoKind::Struct);
        let field = field.ok_or(MissingGoField(name))?;
        let inner = Self::of(memory, &field.of_type, name)?;
        Ok(StructFields { base: self.base.saturating_add(field.offset), ..inner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::go::tests::synthetic::{SyntheticMemory, TypeWriter};

    #[test]
    fn missing_field_or_one_of_another_size_is_named() {
        let mut memory = SyntheticMemory::default();
        let mut types = TypeWriter::new(0x10000);
        let [word, half] = [8, 4].map(|size| types.plain(size));
        let stack = types.structure(16, &[("lo", 0, word), ("hi", 8, word)]);
        let sched = types.structure(16, &[("sp", 0, word), ("pc", 8, half)]);
        let goroutine = types.structure(64, &[("stack", 0, stack), ("m", 16, word), ("sched", 24, sched)]);
        let no_struct = types.structure(64, &[("stack", 0, word)]);
        let machine = types.structure(64, &[("curg", 0, word)]);
        types.write(&mut memory);
        let of = |address| GoroutineFields::of(&memory, &GoType::read(&memory, address).unwrap());
        assert_eq!(of(goroutine), Err(MissingGoField("pc")));
        assert_eq!(of(no_struct), Err(MissingGoField("stack")));
        assert_eq!(of(word), Err(MissingGoField("g")));
        let machine = GoMachineOffsets::of(&memory, &GoType::read(&memory, machine).unwrap());
        assert_eq!(machine, Err(MissingGoField("procid")));
    }
}
