//! Whether a step by frame pointer can be right: the call before the return address that it found says so.
//!
//! In code that keeps no frame pointer, rbp belongs to some frame further up, and a step by it leaves the
//! frames between out. The return address that it finds lies after a call. If that is a direct one, it says
//! which function was called, and that has to be the one the step began in.

use crate::record::modules::{FileId, ModuleFiles};
use crate::unwind::{Architecture, CfiSections, ElfImage, is_linkage_stub};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use rustc_hash::FxHashMap;

/// The longest call: prefix, opcode, ModRM, SIB, displacement.
const MAX_CALL_BYTES: usize = 8;
/// Bytes of a function in which it sets its frame pointer up.
const PROLOGUE_BYTES: u64 = 24;
/// `push %rbp; mov %rsp, %rbp`, in both encodings.
const PROLOGUES: [[u8; 4]; 2] = [[0x55, 0x48, 0x89, 0xe5], [0x55, 0x48, 0x8b, 0xec]];
/// Steps that are remembered at most.
const MAX_KNOWN: usize = 1 << 20;

/// An address of a module's own in one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallPlace {
    pub(crate) file: FileId,
    pub(crate) address: u64,
}

/// Destination of a call instruction.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Direct(u64),
    Indirect,
    None,
}

/// Steps by frame pointer that were looked at.
#[derive(Debug, Default)]
pub(crate) struct CallChecks {
    known: FxHashMap<(CallPlace, CallPlace), bool>,
    entries: FxHashMap<FileId, Option<CfiSections>>,
}

impl CallChecks {
    /// Forgets what is known of files that are closed.
    pub(super) fn forget_closed(&mut self, files: &ModuleFiles) {
        self.known.retain(|(callee, caller), _| files.is_open(callee.file) && files.is_open(caller.file));
        self.entries.retain(|file, _| files.is_open(*file));
    }

    /// Whether code at `callee` may have been called from before the return address `caller`, and may keep a frame
    /// pointer. True where nothing is known: the caller is generated code, or calls through a pointer.
    pub(crate) fn agrees(&mut self, callee: CallPlace, caller: CallPlace, files: &ModuleFiles) -> bool {
        if let Some(&known) = self.known.get(&(callee, caller)) {
            return known;
        }
        let agrees = self.look(callee, caller, files);
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert((callee, caller), agrees);
        agrees
    }

    fn look(&mut self, callee: CallPlace, caller: CallPlace, files: &ModuleFiles) -> bool {
        let Some(image) = files.get(caller.file).elf.as_ref() else { return true };
        if image.architecture() != Architecture::X86_64 || image.is_go() {
            return true;
        }
        let before = caller.address.saturating_sub(MAX_CALL_BYTES as u64);
        let Ok(code) = image.read_address(before, caller.address - before) else { return true };
        let target = match call_before(&code, caller.address) {
            Call::Indirect => return true,
            Call::None => return false,
            Call::Direct(target) => target,
        };
        let Ok(start) = image.read_address(target, PROLOGUE_BYTES) else { return true };
        if is_linkage_stub(&start) {
            return true;
        }
        // Nothing with an entry is walked by frame pointers: if the function that was called has one, it is not the one
        // that the step began in.
        if self.has_entry(caller.file, target, image) {
            return false;
        }
        // Built-in functions of a language's runtime jump on into the code that it has generated.
        files.is_generated(callee.file)
            || (callee.file == caller.file
                && target <= callee.address
                && PROLOGUES.iter().any(|prologue| start.windows(4).any(|bytes| bytes == prologue)))
    }

    fn has_entry(&mut self, file: FileId, address: u64, image: &ElfImage) -> bool {
        let load = || CfiSections::load(image).ok();
        let entries = self.entries.entry(file).or_insert_with(load);
        entries.as_ref().is_some_and(|entries| entries.function_start(address).is_some())
    }
}

/// The call instruction that ends at `end`, where `code` does.
fn call_before(code: &[u8], end: u64) -> Call {
    let mut found = Call::None;
    for length in 2..=code.len() {
        let bytes = &code[code.len() - length..];
        let mut decoder = Decoder::with_ip(64, bytes, end.wrapping_sub(length as u64), DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() || instruction.len() != length {
            continue;
        }
        match instruction.flow_control() {
            // Of two readings the one that says less.
            FlowControl::IndirectCall => return Call::Indirect,
            FlowControl::Call if instruction.near_branch_target() != 0 => {
                found = Call::Direct(instruction.near_branch_target());
            }
            // `syscall` is a call too, in a way.
            FlowControl::Call => return Call::Indirect,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_call_says_its_target() {
        // call +0x10
        let code = [0x90, 0x90, 0x90, 0xe8, 0x10, 0, 0, 0];
        assert_eq!(call_before(&code, 0x2000), Call::Direct(0x2010));
    }

    #[test]
    fn calls_through_registers_and_memory_say_nothing() {
        for code in [
            &[0x90, 0x90, 0xff, 0xd0][..],               // call *%rax
            &[0x90, 0x41, 0xff, 0xd4],                   // call *%r12
            &[0x90, 0xff, 0x15, 1, 2, 3, 0],             // call *0x30201(%rip)
            &[0x90, 0xff, 0x54, 0x24, 8],                // call *8(%rsp)
            &[0x90, 0x41, 0xff, 0x94, 0xc4, 8, 0, 0, 0], // call *8(%r12,%rax,8)
        ] {
            assert_eq!(call_before(code, 0x2000), Call::Indirect, "{code:x?}");
        }
    }

    #[test]
    fn code_behind_something_else_is_no_return_address() {
        assert_eq!(call_before(&[0x90, 0x90, 0x90, 0x55, 0x48, 0x89, 0xe5], 0x2000), Call::None);
    }

    #[test]
    fn linkage_stubs_are_known() {
        assert!(is_linkage_stub(&[0xff, 0x25, 1, 2, 3, 4]));
        assert!(is_linkage_stub(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25]));
        assert!(!is_linkage_stub(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]));
    }
}
