//! An error that knows its exit status and what the user can do about it.

use std::fmt;
use std::io;

/// Exit statuses of `prof` itself; `prof record CMD` passes CMD's own status through.
pub(crate) mod status {
    /// All went well.
    pub(crate) const OK: u8 = 0;
    /// Something failed.
    pub(crate) const FAILED: u8 = 1;
    /// The command line is not valid.
    pub(crate) const USAGE: u8 = 2;
    /// No sample matched.
    pub(crate) const NO_MATCH: u8 = 3;
    /// A change that `--fail-on` asks for was found.
    pub(crate) const GATE_TRIPPED: u8 = 4;
    /// Not permitted, or `doctor` found something that keeps `prof` from working.
    pub(crate) const NOT_PERMITTED: u8 = 5;
    /// `record CMD`: `prof` failed before CMD was started.
    pub(crate) const NOT_STARTED: u8 = 125;
    /// `record CMD`: CMD cannot be executed.
    pub(crate) const CANNOT_EXECUTE: u8 = 126;
    /// `record CMD`: CMD was not found.
    pub(crate) const NOT_FOUND: u8 = 127;
    /// The reader of standard output went away (128 + SIGPIPE), as a shell reports it.
    pub(crate) const BROKEN_PIPE: u8 = 141;
}

/// Report of a failure: what failed on what and why, the exit status, and what to do next.
///
/// Travels inside an `anyhow::Error`, with or without further context; `main` finds it in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit status of the process (see [`status`]).
    pub status: u8,
    /// Text on what failed and why: lower case, no full stop, paths in backticks.
    pub(crate) message: String,
    /// Lines that say what to do, most useful first.
    pub(crate) hints: Vec<String>,
}

impl Failure {
    /// A failure with the given exit status and no hint.
    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Failure { status, message: message.into(), hints: Vec::new() }
    }

    /// A command line that is not valid.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(status::USAGE, message)
    }

    /// Says which file the failure is of.
    #[must_use]
    pub(crate) fn in_file(self, file: &str) -> Self {
        Failure { message: format!("`{file}`: {}", self.message), ..self }
    }

    /// Adds a line that says what to do.
    #[must_use]
    pub(crate) fn hint(mut self, line: impl Into<String>) -> Self {
        self.hints.push(line.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The exit status and the lines that standard error gets for `error`; no line at all when the reader
/// of the output went away.
pub(crate) fn explain(error: &anyhow::Error) -> (u8, Vec<String>) {
    if error.chain().any(is_broken_pipe) {
        return (status::BROKEN_PIPE, Vec::new());
    }
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let status = failure.map_or(status::FAILED, |failure| failure.status);
    let text = without_error_numbers(&format!("{error:#}"));
    let mut lines = vec![format!("prof: {}", super::safe_text::message(&text))];
    let hints = failure.map_or(&[][..], |failure| &failure.hints);
    lines.extend(hints.iter().map(|hint| format!("  {}", super::safe_text::message(hint))));
    if hints.is_empty() && error.chain().any(is_out_of_descriptors) {
        lines.push("  this shell allows too few open files; for more:  ulimit -n 4096".to_owned());
    }
    (status, lines)
}

/// `text` without the ` (os error N)` that the standard library appends: the words before it say the same.
pub(crate) fn without_error_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" (os error ") {
        let digits = rest[at + " (os error ".len()..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + " (os error ".len() + digits;
        out.push_str(&rest[..at]);
        if digits == 0 || !rest[end..].starts_with(')') {
            out.push_str(&rest[at..end]);
            rest = &rest[end..];
        } else {
            rest = &rest[end + 1..];
        }
    }
    out + rest
}

fn is_out_of_descriptors(cause: &(dyn std::error::Error + 'static)) -> bool {
    let code = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    code == Some(libc::EMFILE)
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Why the system refused, in words that are the same everywhere; those of an error that the system did not make stay as they
/// are, without the numbers of errors that they quote.
pub(crate) fn io_words(error: &io::Error) -> String {
    if error.raw_os_error().is_none() {
        return without_error_numbers(&error.to_string());
    }
    match error.kind() {
        io::ErrorKind::StorageFull => "no space left on the disk".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::FileTooLarge => "the file size limit is reached".to_owned(),
        _ => without_error_numbers(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_full_disk_has_one_name() {
        assert_eq!(io_words(&io::Error::from_raw_os_error(libc::ENOSPC)), "no space left on the disk");
    }

    #[test]
    fn a_refusal_has_words_and_no_number() {
        assert_eq!(io_words(&io::Error::from_raw_os_error(libc::ENOTDIR)), "Not a directory");
        let own = io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to user 7");
        assert_eq!(io_words(&own), "it belongs to user 7");
        let quoting = io::Error::other("cannot stop it: No such process (os error 3)");
        assert_eq!(io_words(&quoting), "cannot stop it: No such process");
    }

    #[test]
    fn status_and_hints_survive_added_context() {
        let failure = Failure::new(5, "cannot sample CPU 3").hint("run as root");
        let error = Err::<(), _>(failure).context("failed to record").unwrap_err();
        let (status, lines) = explain(&error);
        assert_eq!(status, 5);
        assert_eq!(lines, ["prof: failed to record: cannot sample CPU 3", "  run as root"]);
    }

    #[test]
    fn a_plain_error_exits_with_1_and_prints_its_chain() {
        let error = anyhow::anyhow!("why").context("what");
        assert_eq!(explain(&error), (1, vec!["prof: what: why".to_owned()]));
    }

    #[test]
    fn too_few_open_files_bring_the_command_that_allows_more() {
        let error =
            anyhow::Error::from(std::io::Error::from_raw_os_error(libc::EMFILE)).context("cannot sample");
        let (_, lines) = explain(&error);
        assert!(lines.len() == 2 && lines[1].ends_with("ulimit -n 4096"), "{lines:?}");
    }

    #[test]
    fn numbers_of_the_system_are_left_out() {
        assert_eq!(
            without_error_numbers("a: no space (os error 28) b (os error x) (os error 2)"),
            "a: no space b (os error x)"
        );
    }

    #[test]
    fn a_closed_pipe_is_quiet() {
        let error = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(explain(&error.context("cannot write")), (141, vec![]));
    }

    #[test]
    fn names_in_messages_cannot_drive_the_terminal() {
        let (_, lines) = explain(&anyhow::anyhow!("cannot open `a\x1b[2J`"));
        assert_eq!(lines, ["prof: cannot open `a\\x1b[2J`"]);
    }
}
