//! Files that have the right name but are not used, with the reason.

use std::path::Path;

/// Reasons kept per module.
const MAX_REASONS: usize = 8;

/// Files that are not used, one line each: `path: why`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnusedFiles {
    lines: Vec<String>,
}

impl UnusedFiles {
    /// Adds a file, unless it is listed already or the list is full.
    pub(crate) fn add(&mut self, path: &Path, why: &str) {
        self.add_line(format!("{}: {why}", path.display()));
    }

    /// Adds the files of another list.
    pub(crate) fn take(&mut self, other: UnusedFiles) {
        other.lines.into_iter().for_each(|line| self.add_line(line));
    }

    fn add_line(&mut self, line: String) {
        if self.lines.len() < MAX_REASONS && !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// The lines. Foreign text.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// The message for a file whose build ID is not the one looked for.
pub(crate) fn other_build(found: &[u8], wanted: &[u8]) -> String {
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match found {
        [] => format!("it has no build ID, {} is wanted", hex(wanted)),
        found => format!("it is of build {}, not {}", hex(found), hex(wanted)),
    }
}
