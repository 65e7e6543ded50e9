//! Code that PHP's JIT compiler generates. It goes on in the frame of the interpreter's loop, which jumps to it and to which
//! it jumps back: a frame in it is left by the rule of the loop's own body.

use crate::elf::ElfImage;
use crate::unwind::limits::Limits;
use crate::unwind::rule::Rule;
use crate::unwind::table::cfi::CfiSections;
use crate::unwind::table::cfi_entry::EntryIn;
use crate::unwind::table::rows::{PAGE_SHIFT, Page, Row, Table};
use crate::unwind::table::sequence::Sequences;

/// The function of the interpreter's loop.
const LOOP: &str = "execute_ex";

/// Whether memory with this path may be that in which PHP generates code: it shares that among its processes.
pub(crate) fn may_be_memory(path: &str) -> bool {
    path.starts_with("/dev/zero") || path.starts_with("/anon_hugepage")
}

/// The rule of the body of the interpreter's loop, if the file is a PHP whose loop has one: the rule of most of its bytes.
pub(crate) fn body_rule(image: &ElfImage, limits: &Limits) -> Option<Rule> {
    let entry = image.exported(LOOP)?.address;
    let cfi = CfiSections::load(image).ok()?;
    let found = cfi.entry_at(entry).filter(|found| found.section == EntryIn::EhFrame)?;
    let mut sequences = Sequences::new(image.architecture());
    sequences.add(&cfi.eh_frame(), cfi.bases(), &[found.offsets], limits, |_, rule| rule).ok()?;
    let own = *sequences.list.first()?;
    let starts = sequences.rows(&own).iter().map(|row| own.start.saturating_add(row.distance.into()));
    let mut ends: Vec<u64> = starts.clone().skip(1).collect();
    ends.push(own.end);
    let (_, start) = starts.zip(ends).map(|(start, end)| (end.saturating_sub(start), start)).max()?;
    sequences.rule_at(start)
}

/// The table of this many bytes of such code, from the address 0 on.
pub(crate) fn table(bytes: u64, body: Rule, limits: &Limits) -> Option<Table> {
    let pages =
        usize::try_from(bytes.div_ceil(1 << PAGE_SHIFT)).ok().filter(|&pages| pages <= limits.max_pages)?;
    Some(Table {
        first_page: 0,
        pages: vec![Page { first: 0, count: 1 }; pages],
        rows: vec![Row { pc_low: 0, rule: 1 }],
        rules: vec![Rule::NONE, body],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::rule::RSP;

    #[test]
    fn all_of_the_code_has_the_frame_of_the_loop() {
        let body = Rule::reg(RSP, 160);
        let table = table(0x2_1000, body, &Limits::default()).unwrap();
        assert_eq!((table.pages.len(), table.lookup(0), table.lookup(0x2_0fff)), (3, body, body));
        assert_eq!(table.lookup(0x3_0000), Rule::NONE);
        assert_eq!(super::table(u64::MAX, body, &Limits::default()), None);
    }

    #[test]
    fn a_file_that_is_no_php_has_no_loop() {
        let own = std::fs::File::open("/proc/self/exe").unwrap();
        let image = ElfImage::open(&own, &Limits::default().elf).unwrap();
        assert_eq!(body_rule(&image, &Limits::default()), None);
    }

    #[test]
    fn generated_code_is_in_memory_that_processes_share() {
        assert!(may_be_memory("/dev/zero (deleted)") && may_be_memory("/anon_hugepage (deleted)"));
        assert!(!may_be_memory("") && !may_be_memory("/memfd:jit (deleted)") && !may_be_memory("/srv/app"));
    }
}
