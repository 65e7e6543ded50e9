//! Lines of source files for the recording, if the user asks for them: the lines of the code that is kept, and some
//! around them.
//!
//! A file is only read with the user's rights, and only if it has the name of a source file and the reader of the
//! recording could read it as well: debug information is untrusted and can name any file.

use crate::base::opener;
use crate::profile::code::source_text::SourceText;
use crate::profile::{Profile, StringId, counter};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

/// Lines kept before and after those of code.
const AROUND: u32 = 10;
/// Largest gap in lines between two parts that is kept, too.
const GAP: u32 = 20;
/// Most files kept.
const MOST_FILES: usize = 200;
/// Most bytes that are read of a file.
const MOST_FILE_BYTES: u64 = 16 << 20;
/// Most text kept of all files, bytes.
const MOST_TEXT_BYTES: usize = 2 << 20;
/// Adds the source lines of the code that is kept to the profile.
pub(super) fn keep(profile: &mut Profile) {
    let mut left_out = 0;
    let mut text_bytes = 0;
    for (file, lines) in wanted(profile).into_iter().take(MOST_FILES) {
        let path = profile.tables.string(file);
        let Some(text) = read(path) else {
            left_out += 1;
            continue;
        };
        let all: Vec<&str> = text.lines().collect();
        for (first, last) in parts(&lines, all.len() as u32) {
            let part = all[first as usize - 1..last as usize].join("\n");
            if text_bytes + part.len() > MOST_TEXT_BYTES {
                left_out += 1;
                break;
            }
            text_bytes += part.len();
            profile.sources.push(SourceText { file, first_line: first, text: part });
        }
    }
    profile.count(counter::SOURCES_LEFT_OUT, left_out);
}

/// The lines of instructions and calls, by file.
fn wanted(profile: &Profile) -> BTreeMap<StringId, BTreeSet<u32>> {
    let mut wanted: BTreeMap<StringId, BTreeSet<u32>> = BTreeMap::new();
    for code in &profile.code {
        let runs = code.runs.iter().map(|run| (run.file, run.line));
        let calls = code.inlined.iter().map(|call| (call.file, call.line));
        for (file, line) in runs.chain(calls).filter(|(file, line)| *file != StringId(0) && *line > 0) {
            wanted.entry(file).or_default().insert(line);
        }
    }
    wanted
}

/// First and last lines of the parts of a file of `all` lines around the given lines.
fn parts(lines: &BTreeSet<u32>, all: u32) -> Vec<(u32, u32)> {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &line in lines.iter().filter(|line| **line <= all) {
        let (from, to) = (line.saturating_sub(AROUND).max(1), line.saturating_add(AROUND).min(all));
        match parts.last_mut() {
            Some((_, last)) if from <= last.saturating_add(GAP) => *last = to,
            _ => parts.push((from, to)),
        }
    }
    parts
}

/// The text of a source file.
fn read(path: &str) -> Option<String> {
    let file = opener::source(Path::new(path)).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;
    use crate::profile::code::function_code::{CodeRun, FunctionCode};

    #[test]
    fn lines_around_code_are_kept_and_gaps_are_not() {
        let lines = |lines: &[u32]| lines.iter().copied().collect::<BTreeSet<u32>>();
        assert_eq!(parts(&lines(&[5, 30, 100]), 105), [(1, 40), (90, 105)]);
        assert_eq!(parts(&lines(&[200]), 105), []);
    }

    #[test]
    fn only_sources_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (source, other) = (folder.path().join("a.c"), folder.path().join("shadow"));
        let text: String = (1..=50).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&source, &text).unwrap();
        std::fs::write(&other, &text).unwrap();
        let fifo = folder.path().join("fifo.c");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        let mut profile = Profile::new(Meta::default());
        for path in [&source, &other, &fifo, &folder.path().join("gone.c")] {
            let file = profile.tables.intern_string(path.to_str().unwrap());
            let runs = vec![CodeRun { file, line: 40, ..CodeRun::default() }];
            profile.code.push(FunctionCode { runs, ..FunctionCode::default() });
        }
        keep(&mut profile);
        let [kept] = &profile.sources[..] else { panic!("{:?}", profile.sources) };
        assert_eq!((kept.first_line, kept.text.lines().count()), (30, 21));
        assert!(kept.text.starts_with("line 30\n") && kept.text.ends_with("line 50"));
        assert_eq!(profile.counter(counter::SOURCES_LEFT_OUT), 3);
    }
}
