//! Code that Erlang's runtime (BEAM) generates, where it keeps frame pointers (`+JPperf true`, `+JPfp true`).
//!
//! Erlang's processes have stacks of their own, anywhere in memory, and C functions that they call run on the thread's. The
//! frame pointer leads from one to the other, and is 0 in the outermost frame of an Erlang process.

use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfImage, Section};
use crate::unwind::limits::Limits;
use crate::unwind::rule::Rule;
use crate::unwind::table::rows::{PAGE_SHIFT, Page, Row, Table};

/// The variable of the runtime that says whether frames have frame pointers (`ErtsFrameLayout`).
const LAYOUT: &[u8] = b"erts_frame_layout";
/// Value of the variable if frames have frame pointers (`ERTS_FRAME_LAYOUT_FP_RA`).
pub(crate) const LAYOUT_WITH_FRAME_POINTERS: u32 = 1;
/// More symbols are not looked at.
const MAX_SYMBOLS: u64 = 1 << 16;

/// Whether a program is called as Erlang's runtime: `beam.smp` and its other builds.
pub(crate) fn is_runtime(name: &str) -> bool {
    name == "beam" || name.strip_prefix("beam.").is_some_and(|rest| rest.ends_with("smp"))
}

/// The module's own address of the 32-bit word that says whether generated code keeps frame pointers.
pub(crate) fn frame_layout(image: &ElfImage) -> Option<u64> {
    const SYMBOL_BYTES: u64 = 24;
    let section = image.section(b".dynsym")?;
    let names = image.section_bytes(image.sections().get(section.link as usize)?).ok()?;
    let size = section.size.min(MAX_SYMBOLS * SYMBOL_BYTES);
    let symbols = image.section_bytes(&Section { size, ..section.clone() }).ok()?;
    symbols.chunks_exact(SYMBOL_BYTES as usize).map(Fields).find_map(|symbol| {
        let is_defined = symbol.u16(6) != Some(0);
        let is_it = is_defined && c_string(&names, symbol.u32(0)? as usize) == Some(LAYOUT);
        is_it.then(|| symbol.u64(8)).flatten()
    })
}

/// The table of this many bytes of such code, from the address 0 on.
pub(crate) fn table(bytes: u64, limits: &Limits) -> Option<Table> {
    let pages =
        usize::try_from(bytes.div_ceil(1 << PAGE_SHIFT)).ok().filter(|&pages| pages <= limits.max_pages)?;
    Some(Table {
        first_page: 0,
        pages: vec![Page { first: 0, count: 1 }; pages],
        rows: vec![Row { pc_low: 0, rule: 1 }],
        rules: vec![Rule::NONE, Rule::FRAME_POINTER_ROOT],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_code_is_followed_by_frame_pointers_on_any_stack() {
        let table = table(0x2_1000, &Limits::default()).unwrap();
        assert_eq!(table.pages.len(), 3);
        assert_eq!(table.lookup(0), Rule::FRAME_POINTER_ROOT);
        assert_eq!(table.lookup(0x2_0fff), Rule::FRAME_POINTER_ROOT);
        assert_eq!(table.lookup(0x3_0000), Rule::NONE);
        assert_eq!(super::table(u64::MAX, &Limits::default()), None);
    }

    #[test]
    fn names_of_the_runtime() {
        assert!(is_runtime("beam.smp") && is_runtime("beam.debug.smp") && is_runtime("beam"));
        assert!(!is_runtime("beamer") && !is_runtime("x.smp") && !is_runtime("beam.txt"));
    }
}
