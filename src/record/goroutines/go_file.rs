//! Files that are Go programs: the functions of the runtime that say how it lays out its memory, and its version.

use super::snapshots::GoFunctionStarts;
use crate::elf::ElfImage;
use crate::runtimes::go::is_needed;
use crate::unwind::GoTable;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// First bytes of the section that has the version.
const BUILD_INFO: &[u8] = b"\xff Go buildinf:";
/// Where that section has its flags, the flag that its texts are in it (Go 1.18 and later), and where the first one is.
const FLAGS: usize = 15;
const HAS_TEXTS: u8 = 2;
const TEXTS: usize = 32;
/// Longest version that is believed.
const MOST_VERSION_BYTES: usize = 64;

/// A file that is a Go program.
#[derive(Debug)]
pub(super) struct GoFile {
    /// Module's own addresses of functions, by name.
    functions: FxHashMap<String, Range<u64>>,
    /// Version of Go: `1.26.8`; empty where it is not known.
    pub(super) version: String,
    /// Where functions start; empty where that is not needed.
    pub(super) starts: GoFunctionStarts,
}

impl GoFile {
    /// The Go program that a file is, if its table of functions can be read. `has_stacks`: stacks of its goroutines are to
    /// be walked.
    pub(super) fn of(elf: &ElfImage, has_stacks: bool) -> Option<GoFile> {
        if !elf.is_go() {
            return None;
        }
        let table = GoTable::load(elf)?;
        let functions = table.functions().filter_map(|function| {
            let name = std::str::from_utf8(table.name(&function)?).ok().filter(|name| is_needed(name))?;
            Some((name.to_owned(), function.start..function.end))
        });
        let functions = functions.collect();
        let starts = if has_stacks { function_starts(&table) } else { Arc::default() };
        let section = elf.section(b".go.buildinfo");
        let info = section.and_then(|section| elf.section_bytes(section).ok()).unwrap_or_default();
        Some(GoFile { functions, version: version(&info).unwrap_or_default(), starts })
    }

    /// Process addresses of a function, where the file is mapped with a bias.
    pub(super) fn function(&self, name: &str, bias: u64) -> Option<Range<u64>> {
        let range = self.functions.get(name)?;
        Some(range.start.wrapping_add(bias)..range.end.wrapping_add(bias))
    }
}

/// Where functions start and where the last ends, in ascending order.
fn function_starts(table: &GoTable) -> GoFunctionStarts {
    let mut starts: Vec<u64> =
        table.functions().flat_map(|function| [function.start, function.end]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts.into()
}

/// The version of Go in the section that says how a program was built.
fn version(info: &[u8]) -> Option<String> {
    let has_texts = info.starts_with(BUILD_INFO) && info.get(FLAGS)? & HAS_TEXTS != 0;
    let length = usize::from(*info.get(TEXTS)?);
    if !has_texts || length > MOST_VERSION_BYTES {
        return None;
    }
    let text = std::str::from_utf8(info.get(TEXTS + 1..TEXTS + 1 + length)?).ok()?;
    // What follows are experiments that it was built with.
    let version = text.strip_prefix("go")?.split(' ').next()?;
    Some(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_first_text() {
        let info = |flags: u8, text: &str| {
            let mut bytes = BUILD_INFO.to_vec();
            bytes.resize(TEXTS, 0);
            (bytes[14], bytes[FLAGS]) = (8, flags);
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
            bytes
        };
        assert_eq!(version(&info(2, "go1.26.8")).as_deref(), Some("1.26.8"));
        assert_eq!(version(&info(2, "go1.26.8 X:nodwarf5")).as_deref(), Some("1.26.8"));
        assert_eq!(version(&info(0, "go1.17")), None, "elsewhere");
        assert_eq!(version(&info(2, "go1.26.8")[..36]), None, "cut off");
        assert_eq!(version(b""), None);
    }
}
