//! A case: where a thread stood, what it had mapped, its tables and its stack.

use prof::internals::unwind::arch::architecture::SIGNATURE_MASK_48_BITS;
use prof::internals::unwind::{
    Architecture, FrameState, MappedModule, Memory, MemoryError, ModuleCode, ModuleMap, Table,
};

/// General registers of x86-64 and the program counter, as in `PROF_REGISTERS`.
pub(crate) const REGISTERS: usize = 17;
/// The same on arm64.
pub(crate) const AARCH64_REGISTERS: usize = 33;

/// `enum prof_image_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ImageState {
    NotLoaded = 0,
    Ready = 1,
    FramePointers = 2,
    NoTable = 3,
    Generated = 4,
    Unreadable = 5,
}

#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) state: ImageState,
    /// Empty unless ready.
    pub(crate) table: Table,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Process address less the module's own.
    pub(crate) bias: u64,
    /// Index into the case's images.
    pub(crate) image: u32,
}

/// Readable memory.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for Piece {
    /// A failing case is printed; thousands of bytes would hide the rest.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:#x} and {} bytes on", self.start, self.bytes.len())
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Case {
    /// DWARF numbers, the program counter last. Their number says which processor it is.
    pub(crate) registers: Vec<u64>,
    /// The program counter is a return address, as in a system call.
    pub(crate) is_return: bool,
    /// Only what a caller has is known: program counter, stack and frame pointer.
    pub(crate) has_few_registers: bool,
    pub(crate) images: Vec<Image>,
    /// In ascending order.
    pub(crate) mappings: Vec<Mapping>,
    /// In ascending order.
    pub(crate) memory: Vec<Piece>,
    /// What uretprobes have replaced.
    pub(crate) uprobes: Option<Uprobes>,
    /// Where the thread's own data lie.
    pub(crate) thread_pointer: Option<u64>,
}

/// Return addresses that a uretprobe has replaced, as the kernel keeps them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uprobes {
    /// The address that is on the stack in their place.
    pub(crate) trampoline: u64,
    /// Address of the slot, and what was there; the innermost call's first.
    pub(crate) replaced: Vec<(u64, u64)>,
}

const IS_RETURN: u32 = 1;
const FEW_REGISTERS: u32 = 2;
const HAS_UPROBES: u32 = 16;
const HAS_THREAD_POINTER: u32 = 32;
pub(crate) const IN_MORE_TABLES: u8 = 64;

impl Case {
    /// The state that the user-space walk starts from.
    pub(crate) fn start(&self) -> FrameState {
        let (&pc, general) = self.registers.split_last().unwrap();
        let mut state = FrameState {
            is_return_address: self.is_return,
            thread_pointer: self.thread_pointer,
            ..FrameState::caller(pc, 0, 0)
        };
        if self.registers.len() == AARCH64_REGISTERS {
            (state.architecture, state.signature_mask) = (Architecture::Aarch64, SIGNATURE_MASK_48_BITS);
        }
        let of_callers = [state.architecture.stack_pointer(), state.architecture.frame_pointer()];
        let is_known = |(number, _): &(u8, u64)| !self.has_few_registers || of_callers.contains(number);
        state.general = (0..).zip(general.iter().copied()).filter(is_known).collect();
        state
    }

    /// The binary form, as described in `walker.h`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (mut rows, mut pages, mut rules, mut images) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut row_count, mut page_count, mut rule_count) = (0u32, 0u32, 0u16);
        for Image { state, table } in &self.images {
            for number in [page_count, table.pages.len() as u32, table.first_page as u32, *state as u32] {
                images.extend(number.to_le_bytes());
            }
            for page in table.kernel_pages(row_count) {
                pages.extend(page.row.iter().flat_map(|row| row.to_le_bytes()));
            }
            for row in &table.rows {
                rows.extend(row.pc_low.to_le_bytes());
                rows.extend((row.rule + rule_count).to_le_bytes());
            }
            rules.extend(table.rules.iter().flat_map(|rule| rule.to_bytes()));
            page_count += table.pages.len() as u32;
            row_count += table.rows.len() as u32;
            rule_count += table.rules.len() as u16;
        }
        let flags = u32::from(self.is_return) * IS_RETURN
            + u32::from(self.has_few_registers) * FEW_REGISTERS
            + u32::from(self.uprobes.is_some()) * HAS_UPROBES
            + u32::from(self.thread_pointer.is_some()) * HAS_THREAD_POINTER;
        let mut bytes = Vec::new();
        for number in [
            flags,
            row_count,
            page_count,
            u32::from(rule_count),
            self.images.len() as u32,
            self.mappings.len() as u32,
            self.memory.len() as u32,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.registers.iter().flat_map(|value| value.to_le_bytes()));
        for part in [rows, pages, rules, images] {
            bytes.extend(part);
        }
        for mapping in &self.mappings {
            for number in [mapping.start, mapping.end, mapping.bias, u64::from(mapping.image)] {
                bytes.extend(number.to_le_bytes());
            }
        }
        for piece in &self.memory {
            bytes.extend(piece.start.to_le_bytes());
            bytes.extend((piece.bytes.len() as u64).to_le_bytes());
            bytes.extend(&piece.bytes);
        }
        if let Some(Uprobes { trampoline, replaced }) = &self.uprobes {
            bytes.extend(trampoline.to_le_bytes());
            bytes.extend((replaced.len() as u64).to_le_bytes());
            bytes.extend(
                replaced.iter().flat_map(|(slot, original)| [*slot, *original]).flat_map(u64::to_le_bytes),
            );
        }
        bytes.extend(self.thread_pointer.iter().flat_map(|address| address.to_le_bytes()));
        bytes
    }

    fn byte(&self, address: u64) -> Option<u8> {
        self.memory.iter().find_map(|piece| {
            let offset = usize::try_from(address.checked_sub(piece.start)?).ok()?;
            piece.bytes.get(offset).copied()
        })
    }
}

impl ModuleMap for Case {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        let mapping = self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        let image = &self.images[mapping.image as usize];
        let code = match image.state {
            ImageState::Ready => ModuleCode::Table(&image.table),
            ImageState::NotLoaded => ModuleCode::NotLoaded,
            _ => ModuleCode::Jit,
        };
        Some(MappedModule { bias: mapping.bias, code })
    }
}

impl Memory for Case {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        let mut bytes = [0; 8];
        for (at, byte) in (0..).zip(&mut bytes) {
            *byte = self.byte(address.wrapping_add(at)).ok_or(MemoryError::Unreadable)?;
        }
        Ok(u64::from_le_bytes(bytes))
    }
}
