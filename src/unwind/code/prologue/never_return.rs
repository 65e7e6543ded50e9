//! Functions that never return, by their names: code after a call of one is another way's, or another function's.

use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfImage, Section};
use crate::unwind::code::bytes::{ENDBR64, LINKAGE_TABLES};
use crate::unwind::code::function_starts::for_each_function;
use crate::unwind::limits::Limits;
use rustc_hash::FxHashSet;

/// Functions of the C and C++ libraries that end the program, the thread, or the function that calls them.
const NAMES: [&[u8]; 39] = [
    b"_Exit",
    b"_Unwind_Resume",
    b"_ZSt10unexpectedv",
    b"_ZSt9terminatev",
    b"__assert",
    b"__assert_fail",
    b"__assert_perror_fail",
    b"__chk_fail",
    b"__cxa_bad_cast",
    b"__cxa_bad_typeid",
    b"__cxa_call_unexpected",
    b"__cxa_deleted_virtual",
    b"__cxa_pure_virtual",
    b"__cxa_rethrow",
    b"__cxa_throw",
    b"__cxa_throw_bad_array_new_length",
    b"__fortify_fail",
    b"__libc_fatal",
    b"__libc_start_main",
    b"__longjmp_chk",
    b"__stack_chk_fail",
    b"_exit",
    b"_longjmp",
    b"abort",
    b"err",
    b"errc",
    b"errx",
    b"exit",
    b"g_assertion_message",
    b"g_assertion_message_expr",
    b"longjmp",
    b"pthread_exit",
    b"quick_exit",
    b"rust_begin_unwind",
    b"siglongjmp",
    b"thrd_exit",
    b"verr",
    b"verrc",
    b"verrx",
];

/// Beginning of the names of the C++ library's functions that throw (`std::__throw_length_error`).
const THROWS: &[u8] = b"_ZSt";
const THROWS_AFTER_LENGTH: &[u8] = b"__throw_";

/// Relocations that put a function's address into a slot: `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`.
const SLOT_RELOCATIONS: [u32; 2] = [6, 7];
/// More relocations of a table are not looked at.
const MAX_RELOCATIONS: u64 = 1 << 20;

/// Functions that never return.
#[derive(Debug, Default)]
pub(crate) struct NeverReturn {
    /// Their addresses, and those of their entries in linkage tables.
    functions: FxHashSet<u64>,
    /// Words that the dynamic linker fills with their addresses.
    slots: FxHashSet<u64>,
}

impl NeverReturn {
    /// Looks through the symbols and the linkage tables of a module. What cannot be read is not known.
    pub(crate) fn find(image: &ElfImage, limits: &Limits) -> Self {
        let mut found = Self::default();
        for_each_function(image, limits, |symbol| {
            if never_returns(symbol.name) {
                found.functions.insert(symbol.address);
            }
        });
        let tables = image.sections().iter().filter(|s| matches!(&s.name[..], b".rela.plt" | b".rela.dyn"));
        for table in tables {
            found.add_slots(image, table);
        }
        if !found.slots.is_empty() {
            for section in image.sections().iter().filter(|s| LINKAGE_TABLES.contains(&&s.name[..])) {
                found.add_linkage_table(image, section);
            }
        }
        found
    }

    /// Whether a function is one of them.
    pub(crate) fn is_function(&self, address: u64) -> bool {
        self.functions.contains(&address)
    }

    /// Whether one of them is called where a call goes by the word at this address.
    pub(super) fn is_slot(&self, address: u64) -> bool {
        self.slots.contains(&address)
    }

    fn add_slots(&mut self, image: &ElfImage, table: &Section) -> Option<()> {
        const ENTRY_BYTES: usize = 24;
        const SYMBOL_BYTES: usize = 24;
        let size = table.size.min(MAX_RELOCATIONS * ENTRY_BYTES as u64);
        let entries = image.section_bytes(&Section { size, ..table.clone() }).ok()?;
        let symbols = image.section(b".dynsym")?;
        let names = image.sections().get(symbols.link as usize)?;
        let symbols = image.section_bytes(symbols).ok()?;
        let names = image.section_bytes(names).ok()?;
        for entry in entries.chunks_exact(ENTRY_BYTES).map(Fields) {
            let (Some(slot), Some(kind), Some(symbol)) = (entry.u64(0), entry.u32(8), entry.u32(12)) else {
                continue;
            };
            if !SLOT_RELOCATIONS.contains(&kind) {
                continue;
            }
            let at = (symbol as usize).saturating_mul(SYMBOL_BYTES);
            let name = Fields(&symbols).u32(at).and_then(|name| c_string(&names, name as usize));
            if name.is_some_and(never_returns) {
                self.slots.insert(slot);
            }
        }
        Some(())
    }

    /// Entries of a linkage table: `[endbr64]; [bnd] jmp *slot(%rip)`.
    fn add_linkage_table(&mut self, image: &ElfImage, section: &Section) -> Option<()> {
        const ALIGNMENT: usize = 8;
        let bytes = image.section_bytes(section).ok()?;
        for at in (0..bytes.len()).step_by(ALIGNMENT) {
            let entry = &bytes[at..];
            let jump = entry.strip_prefix(&ENDBR64).unwrap_or(entry);
            let jump = jump.strip_prefix(&[0xf2]).unwrap_or(jump);
            let Some(distance) = jump.strip_prefix(&[0xff, 0x25]).and_then(|rest| rest.first_chunk()) else {
                continue;
            };
            let end = section.address.wrapping_add((bytes.len() - jump.len() + 6) as u64);
            let slot = end.wrapping_add_signed(i64::from(i32::from_le_bytes(*distance)));
            if self.is_slot(slot) {
                self.functions.insert(section.address.wrapping_add(at as u64));
            }
        }
        Some(())
    }
}

fn never_returns(name: &[u8]) -> bool {
    let throws = || {
        let rest = name.strip_prefix(THROWS)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest.get(digits..)?.starts_with(THROWS_AFTER_LENGTH).then_some(())
    };
    NAMES.binary_search(&name).is_ok() || throws().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_never_returns() {
        assert!(NAMES.is_sorted());
        for name in ["exit", "abort", "__stack_chk_fail", "_ZSt20__throw_length_errorPKc"] {
            assert!(never_returns(name.as_bytes()), "{name}");
        }
        for name in ["exits", "", "atexit", "_ZSt4endlIcEvv", "_ZSt", "warn"] {
            assert!(!never_returns(name.as_bytes()), "{name}");
        }
    }
}
