//! Facts that a function's instructions tell about the Go runtime: addresses of variables and types, frame sizes.

use super::strings::word;
use crate::runtimes::TargetMemory;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// Function by its full Go name: its process addresses.
pub(crate) type GoFunctions<'a> = &'a dyn Fn(&str) -> Option<Range<u64>>;

/// Longest function that is read, bytes: the ones needed have at most some 2,000.
const MAX_FUNCTION_BYTES: usize = 32 << 10;
/// Instructions at the start of a function among which its frame is set up.
const PROLOGUE: usize = 8;

/// The same and of the end of one, bytes.
const PROLOGUE_BYTES: u64 = 64;
const EPILOGUE_BYTES: u64 = 16;

/// Instructions of one function of the process.
pub(crate) struct GoCode {
    instructions: Vec<Instruction>,
}

impl GoCode {
    /// Reads and decodes the function in `range`, process addresses; `None` if it cannot be read or is longer than 32 KiB.
    pub(crate) fn read<M: TargetMemory>(memory: &M, range: &Range<u64>) -> Option<Self> {
        let size = range.end.checked_sub(range.start)?;
        let bytes = memory.range(range.start, size, MAX_FUNCTION_BYTES)?;
        let decoder = Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE);
        Some(GoCode { instructions: decoder.into_iter().collect() })
    }

    /// Address loaded into rax, the register of the first argument, last before the first call of `callee`.
    pub(crate) fn argument_of_call(&self, callee: u64) -> Option<u64> {
        let call = self.instructions.iter().position(|instruction| calls(instruction, callee))?;
        let before = self.instructions.get(..call)?.iter().rev();
        before.take(PROLOGUE).find_map(|instruction| loaded_address(instruction, Register::RAX))
    }

    /// Whether a call ends at an address.
    pub(crate) fn has_call_before(&self, address: u64) -> bool {
        self.instructions.iter().any(|instruction| {
            instruction.next_ip() == address
                && matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
        })
    }

    /// Addresses of variables and constants that the function uses.
    pub(crate) fn references(&self) -> BTreeSet<u64> {
        let relative = self.instructions.iter().filter(|instruction| instruction.is_ip_rel_memory_operand());
        relative.map(Instruction::ip_rel_memory_address).collect()
    }

    /// Variables of a word that the function compares or loads, in the order of its code.
    pub(crate) fn variables(&self) -> Vec<u64> {
        let is_used = |instruction: &&Instruction| {
            matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Mov)
                && instruction.is_ip_rel_memory_operand()
                && instruction.memory_size().size() == 8
        };
        self.instructions.iter().filter(is_used).map(Instruction::ip_rel_memory_address).collect()
    }

    /// Slice variable that the function uses all three words of: pointer, length, capacity. `None` if there is not exactly
    /// one.
    pub(crate) fn slice_variable(&self) -> Option<u64> {
        let references = self.references();
        let is_slice = |at: &u64| [8, 16].iter().all(|more| references.contains(&at.wrapping_add(*more)));
        let mut slices = references.iter().copied().filter(is_slice);
        slices.next().filter(|_| slices.next().is_none())
    }

    /// Table of strings that the function picks its result from, and the number of its entries: `cmp al, count`,
    /// `lea base, [table]`, `mov rax, [base + index]`.
    pub(crate) fn string_table(&self) -> Option<(u64, u64)> {
        let mut count = None;
        let mut bases = FxHashMap::default();
        for instruction in &self.instructions {
            match instruction.mnemonic() {
                Mnemonic::Cmp if count.is_none() && instruction.op1_kind() == OpKind::Immediate8 => {
                    count = Some(u64::from(instruction.immediate8()));
                }
                Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
                    bases.insert(instruction.op0_register(), instruction.ip_rel_memory_address());
                }
                Mnemonic::Mov if instruction.memory_index() != Register::None => {
                    let table = bases.get(&instruction.memory_base());
                    if let (Some(&table), Some(count)) = (table, count) {
                        return Some((table, count));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Offset from the thread pointer (fs base) at which the function finds the goroutine: given in the instruction, in a
    /// register before it, or by the loader in a table of the program.
    pub(crate) fn thread_local_offset<M: TargetMemory>(&self, memory: &M) -> Option<i64> {
        let mut known = FxHashMap::default();
        for instruction in &self.instructions {
            let target = instruction.op0_register();
            if instruction.mnemonic() != Mnemonic::Mov || instruction.op0_kind() != OpKind::Register {
                continue;
            }
            if instruction.op1_kind() == OpKind::Memory && instruction.memory_segment() == Register::FS {
                let base: i64 = match instruction.memory_base() {
                    Register::None => 0,
                    base => *known.get(&base)?,
                };
                return Some(base.wrapping_add(instruction.memory_displacement64().cast_signed()));
            }
            let value = match instruction.op1_kind() {
                OpKind::Immediate32to64 => Some(instruction.immediate32to64()),
                OpKind::Immediate64 => Some(instruction.immediate64().cast_signed()),
                OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
                    memory.u64(instruction.ip_rel_memory_address()).map(u64::cast_signed)
                }
                _ => None,
            };
            match value {
                Some(value) => known.insert(target, value),
                None => known.remove(&target),
            };
        }
        None
    }

    /// Bytes from the stack pointer to where the frame pointer points, in the body of the function; `None` if it sets up
    /// none.
    pub(crate) fn frame_pointer_above_stack_pointer(&self) -> Option<u64> {
        let (depth, set) = self.prologue(None)?;
        u64::try_from(depth - set?.depth).ok()
    }

    /// Bytes of the frame after the prologue or before the instruction at `end`, and where the frame pointer was set.
    fn prologue(&self, end: Option<u64>) -> Option<(i64, Option<FramePointerSet>)> {
        let (mut depth, mut set) = (0i64, None);
        for instruction in self.instructions.iter().take(PROLOGUE) {
            if end == Some(instruction.ip()) {
                break;
            }
            let target = instruction.op0_register();
            let mut sets = |depth| set = Some(FramePointerSet { address: instruction.ip(), depth });
            match instruction.mnemonic() {
                Mnemonic::Push => depth += 8,
                Mnemonic::Sub | Mnemonic::Add if target == Register::RSP => {
                    let bytes = immediate(instruction)?;
                    let grows = instruction.mnemonic() == Mnemonic::Sub;
                    depth += if grows { bytes } else { -bytes };
                }
                Mnemonic::Mov if target == Register::RBP && instruction.op1_register() == Register::RSP => {
                    sets(depth);
                }
                Mnemonic::Lea if target == Register::RBP && instruction.memory_base() == Register::RSP => {
                    sets(depth - instruction.memory_displacement64().cast_signed());
                }
                Mnemonic::Call | Mnemonic::Ret => break,
                _ => {}
            }
        }
        Some((depth, set))
    }
}

/// Instruction that sets the frame pointer, and the bytes from there to the return address.
struct FramePointerSet {
    address: u64,
    depth: i64,
}

/// Return address of a function that was interrupted at any instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptedReturn {
    /// Above what the frame pointer points to: the frame is the function's own.
    ByFramePointer,
    /// Bytes above the stack pointer: the frame pointer is still or again the caller's.
    AboveStackPointer(u64),
    Unknown,
}

impl InterruptedReturn {
    /// Looks at the start of `function` and at the instructions from `address` in it on.
    pub(crate) fn find<M: TargetMemory>(memory: &M, function: &Range<u64>, address: u64) -> Self {
        Self::look(memory, function, address).unwrap_or(InterruptedReturn::Unknown)
    }

    fn look<M: TargetMemory>(memory: &M, function: &Range<u64>, address: u64) -> Option<Self> {
        if !function.contains(&address) {
            return None;
        }
        let start = function.start..function.end.min(function.start.checked_add(PROLOGUE_BYTES)?);
        let code = GoCode::read(memory, &start)?;
        let (depth, set) = code.prologue(None)?;
        let Some(set) = set else {
            // Go's compiler gives a frame pointer to each function that has a frame.
            return (depth == 0).then_some(InterruptedReturn::AboveStackPointer(0));
        };
        if address <= set.address {
            let (depth, _) = code.prologue(Some(address))?;
            return Some(InterruptedReturn::AboveStackPointer(depth.try_into().ok()?));
        }
        let rest = address..function.end.min(address.checked_add(EPILOGUE_BYTES)?);
        let rest = GoCode::read(memory, &rest)?.instructions;
        let returns =
            |at: usize| rest.get(at).is_some_and(|instruction| instruction.mnemonic() == Mnemonic::Ret);
        let first = rest.first()?;
        let frees = first.mnemonic() == Mnemonic::Add && first.op0_register() == Register::RSP;
        if returns(0) {
            return Some(InterruptedReturn::AboveStackPointer(0));
        }
        if frees && returns(1) {
            // Go older than 1.21 takes the frame pointer back first.
            return Some(InterruptedReturn::AboveStackPointer(immediate(first)?.try_into().ok()?));
        }
        Some(InterruptedReturn::ByFramePointer)
    }
}

/// Tells whether the instruction that ends at `address` is a direct call of one of `callees`.
pub(crate) fn is_after_call<M: TargetMemory>(memory: &M, address: u64, callees: &[u64]) -> bool {
    const CALL: u8 = 0xe8;
    let Some(bytes) = address.checked_sub(8).and_then(|start| memory.bytes::<8>(start)) else { return false };
    let distance = word(&bytes, 0).map_or(0, |word| ((word >> 32) as u32).cast_signed());
    bytes.get(3) == Some(&CALL) && callees.contains(&address.wrapping_add_signed(i64::from(distance)))
}

/// Tells whether a call can have pushed `address`: the instruction that ends there is one, of whatever form.
pub(crate) fn follows_call<M: TargetMemory>(memory: &M, address: u64) -> bool {
    let bytes = address.checked_sub(7).and_then(|start| memory.bytes::<7>(start));
    let Some([a, b, c, d, e, f, g]) = bytes else { return false };
    // `call [register + distance]` and the like: the middle bits of the second byte are 2.
    let is_indirect = |code: u8, operand: u8| code == 0xff && operand & 0x38 == 0x10;
    c == 0xe8
        || [(f, g), (e, f), (d, e), (b, c), (a, b)].iter().any(|(code, operand)| is_indirect(*code, *operand))
}

fn calls(instruction: &Instruction, callee: u64) -> bool {
    instruction.code() == Code::Call_rel32_64 && instruction.near_branch_target() == callee
}

/// Address that `lea target, [rip + …]` loads.
fn loaded_address(instruction: &Instruction, target: Register) -> Option<u64> {
    let loads = instruction.mnemonic() == Mnemonic::Lea && instruction.op0_register() == target;
    (loads && instruction.is_ip_rel_memory_operand()).then(|| instruction.ip_rel_memory_address())
}

fn immediate(instruction: &Instruction) -> Option<i64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 => Some(instruction.immediate8to64()),
        OpKind::Immediate32to64 => Some(instruction.immediate32to64()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::go::tests::synthetic::SyntheticMemory;

    const AT: u64 = 0x40_1000;

    #[test]
    fn return_addresses_follow_calls() {
        let follows = |code: &[u8]| {
            let mut memory = SyntheticMemory::default();
            memory.add(AT, [&vec![0x90; 8 - code.len()], code].concat());
            follows_call(&memory, AT + 8)
        };
        // call rel32; call rdx; call [rcx]; call [r12]; call [rsp + 8]; call [rip + 0x100]; call [rax + 0x100]
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd2],
            &[0xff, 0x11],
            &[0x41, 0xff, 0x14, 0x24],
            &[0xff, 0x54, 0x24, 8],
            &[0xff, 0x15, 0, 1, 0, 0],
            &[0xff, 0x90, 0, 1, 0, 0],
        ] {
            assert!(follows(call), "{call:x?}");
        }
        // nop; ret; jmp rel32; push [rip]; inc rax
        for other in
            [&[0x90][..], &[0xc3], &[0xe9, 1, 2, 3, 4], &[0xff, 0x35, 0, 1, 0, 0], &[0x48, 0xff, 0xc0]]
        {
            assert!(!follows(other), "{other:x?}");
        }
        assert!(!follows_call(&SyntheticMemory::default(), AT), "nothing there");
        assert!(!follows_call(&SyntheticMemory::default(), 3));
    }

    fn code(bytes: &[u8]) -> GoCode {
        let mut memory = SyntheticMemory::default();
        memory.add(AT, bytes.to_vec());
        GoCode::read(&memory, &(AT..AT + bytes.len() as u64)).unwrap()
    }

    #[test]
    fn argument_of_a_call_is_the_last_address_in_rax() {
        // lea rax, [rip + 0x100]; nop dword [rax]; call AT + 0x200
        let bytes = [0x48, 0x8d, 0x05, 0, 1, 0, 0, 0x0f, 0x1f, 0, 0xe8, 0xf1, 1, 0, 0];
        assert_eq!(code(&bytes).argument_of_call(AT + 0x200), Some(AT + 0x107));
        assert_eq!(code(&bytes).argument_of_call(AT + 0x208), None);
        assert_eq!(code(&bytes[..9]).argument_of_call(AT + 0x200), None, "truncated");
    }

    #[test]
    fn slice_variable_has_three_words() {
        // mov rsi, [rip + 0x108]; mov rbx, [rip + 0xf9]; mov rdi, [rip + 0x102]
        let bytes =
            [0x48, 0x8b, 0x35, 8, 1, 0, 0, 0x48, 0x8b, 0x1d, 0xf9, 0, 0, 0, 0x48, 0x8b, 0x3d, 2, 1, 0, 0];
        assert_eq!(code(&bytes).slice_variable(), Some(AT + 0x107));
        assert_eq!(code(&bytes[..14]).slice_variable(), None);
    }

    #[test]
    fn string_table_has_a_bound() {
        // cmp al, 0x2f; lea rdx, [rip + 0x10]; mov rax, [rdx + rcx]
        let bytes = [0x3c, 0x2f, 0x48, 0x8d, 0x15, 0x10, 0, 0, 0, 0x48, 0x8b, 0x04, 0x0a];
        assert_eq!(code(&bytes).string_table(), Some((AT + 0x19, 0x2f)));
        assert_eq!(code(&bytes[2..]).string_table(), None);
    }

    #[test]
    fn thread_local_offset_in_all_three_forms() {
        let read = |bytes: &[u8]| code(bytes).thread_local_offset(&SyntheticMemory::default());
        // mov rbx, fs:[-8]
        assert_eq!(read(&[0x64, 0x48, 0x8b, 0x1c, 0x25, 0xf8, 0xff, 0xff, 0xff]), Some(-8));
        // mov rcx, -8; mov rbx, fs:[rcx]
        let by_register = [0x48, 0xc7, 0xc1, 0xf8, 0xff, 0xff, 0xff, 0x64, 0x48, 0x8b, 0x19];
        assert_eq!(read(&by_register), Some(-8));
        // mov rcx, [rip + 4]; mov rbx, fs:[rcx]; the word
        let by_table = [0x48, 0x8b, 0x0d, 4, 0, 0, 0, 0x64, 0x48, 0x8b, 0x19];
        let mut memory = SyntheticMemory::default();
        memory.add_words(AT + 11, &[(-0x60i64).cast_unsigned()]);
        assert_eq!(code(&by_table).thread_local_offset(&memory), Some(-0x60));
        assert_eq!(read(&by_table), None, "table not readable");
        assert_eq!(read(&by_register[7..]), None, "register unknown");
    }

    #[test]
    fn frame_pointer_is_found_in_old_and_new_prologues() {
        // sub rsp, 0x68; mov [rsp + 0x60], rbp; lea rbp, [rsp + 0x60]
        let old = [0x48, 0x83, 0xec, 0x68, 0x48, 0x89, 0x6c, 0x24, 0x60, 0x48, 0x8d, 0x6c, 0x24, 0x60];
        assert_eq!(code(&old).frame_pointer_above_stack_pointer(), Some(0x60));
        // push rbp; mov rbp, rsp; sub rsp, 0x48
        let new = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x48];
        assert_eq!(code(&new).frame_pointer_above_stack_pointer(), Some(0x48));
        // push rbp; mov rbp, rsp; add rsp, -0x80
        let negative = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xc4, 0x80];
        assert_eq!(code(&negative).frame_pointer_above_stack_pointer(), Some(0x80));
        assert_eq!(code(&old[..4]).frame_pointer_above_stack_pointer(), None);
    }

    #[test]
    fn return_address_of_interrupted_functions() {
        let find = |bytes: &[u8], at: u64| {
            let mut memory = SyntheticMemory::default();
            memory.add(AT, bytes.to_vec());
            InterruptedReturn::find(&memory, &(AT..AT + bytes.len() as u64), AT + at)
        };
        let (own, above) = (InterruptedReturn::ByFramePointer, InterruptedReturn::AboveStackPointer);
        // xor ecx, ecx; inc rcx; jmp back; ret
        let leaf = [0x31, 0xc9, 0x48, 0xff, 0xc1, 0xeb, 0xfb, 0xc3];
        assert_eq!([2, 5, 7].map(|at| find(&leaf, at)), [above(0); 3]);
        // push rbp; mov rbp, rsp; sub rsp, 0x10; nop; add rsp, 0x10; pop rbp; ret
        let new = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];
        assert_eq!([4, 8, 9, 13, 14].map(|at| find(&new, at)), [own, own, own, own, above(0)]);
        assert_eq!([0, 1].map(|at| find(&new, at)), [above(0), above(8)], "before it has its frame");
        // sub rsp, 0x18; mov [rsp+0x10], rbp; lea rbp, [rsp+0x10]; nop; mov rbp, [rsp+0x10]; add rsp, 0x18; ret
        let old = [
            0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x48, 0x8d, 0x6c, 0x24, 0x10, 0x90, 0x48,
            0x8b, 0x6c, 0x24, 0x10, 0x48, 0x83, 0xc4, 0x18, 0xc3,
        ];
        let found = [0, 4, 9, 14, 15, 20, 24].map(|at| find(&old, at));
        let expected = [above(0), above(0x18), above(0x18), own, own, above(0x18), above(0)];
        assert_eq!(found, expected);
        // push rbx; ret
        assert_eq!(find(&[0x53, 0xc3], 1), InterruptedReturn::Unknown);
        assert_eq!(find(&[], 0), InterruptedReturn::Unknown);
    }

    #[test]
    fn call_before_an_address() {
        let mut memory = SyntheticMemory::default();
        // nop; nop; nop; call AT + 0x108
        memory.add(AT, vec![0x90, 0x90, 0x90, 0xe8, 0, 1, 0, 0]);
        assert!(is_after_call(&memory, AT + 8, &[AT, AT + 0x108]));
        assert!(!is_after_call(&memory, AT + 8, &[AT]));
        assert!(!is_after_call(&memory, 4, &[AT]));
    }
}
