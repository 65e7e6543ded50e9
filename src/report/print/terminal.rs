//! Standard output: its width, its colours, and the pager for text that does not fit.

use super::text::page::Page;
use crate::base::opener::{self, Service};
use crate::base::{own_file, safe_text};
use crate::report::naming::style::NameStyle;
use crate::report::options::ColorWhen;
use anyhow::Context;
use std::fs::File;
use std::io::{self, IsTerminal, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

/// Narrowest and widest page that text is laid out for, columns.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=400;

/// Standard output as a place for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns and rows, when it is a terminal.
    size: Option<(usize, usize)>,
    color: bool,
    may_page: bool,
}

impl Screen {
    /// Looks at standard output.
    pub(crate) fn new(color: ColorWhen, may_page: bool) -> Self {
        let stdout = io::stdout();
        let size = stdout.is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(&stdout).ok();
            let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
            size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
        });
        let color = match color {
            ColorWhen::Auto => anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        };
        // The environment of root through sudo is another user's, so no program that it names is run.
        Screen { size, color, may_page: may_page && size.is_some() && own_file::invoking_user().is_none() }
    }

    /// The page that text is laid out for; `names` overrides the screen's own choice.
    pub(crate) fn page(&self, names: Option<NameStyle>) -> Page {
        let Some((columns, _)) = self.size else {
            let names = names.unwrap_or(Page::PLAIN.names);
            return Page {
                color: self.color,
                names,
                is_ascii: safe_text::is_ascii_locale(false),
                ..Page::PLAIN
            };
        };
        Page {
            width: columns.clamp(*WIDTHS.start(), *WIDTHS.end()),
            cut_names: true,
            color: self.color,
            names: names.unwrap_or(NameStyle::Short),
            is_ascii: safe_text::is_ascii_locale(true),
        }
    }

    /// Prints a document for a program as it is.
    ///
    /// # Errors
    ///
    /// When standard output cannot be written.
    pub(crate) fn print_document(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = io::stdout().lock();
        (stdout.write_all(text.as_bytes()))
            .and_then(|()| stdout.flush())
            .context("cannot write to standard output")
    }

    /// Prints `text` for people, through the pager when it has more lines than the terminal.
    ///
    /// # Errors
    ///
    /// When standard output cannot be written. A reader that leaves early is a broken pipe.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        let text = &safe_text::for_locale(text, self.size.is_some());
        let is_long = self.size.is_some_and(|(_, rows)| text.lines().count() >= rows);
        if self.may_page && is_long && page_through(text) {
            return Ok(());
        }
        self.print_document(text)
    }
}

/// Shows `text` in the pager; false when there is none that runs. It has the user's rights, whatever this process has.
fn page_through(text: &str) -> bool {
    if opener::is_running() {
        return text_file(text)
            .is_ok_and(|file| opener::ask_service(Service::Pager, Vec::new(), Some(file.as_fd())).is_ok());
    }
    let Some(mut pager) = pager() else { return false };
    let Ok(mut child) = pager.stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A user who has seen enough closes the pager: not an error.
        let _ = stdin.write_all(text.as_bytes());
    }
    let _ = child.wait();
    true
}

/// A file in memory that holds `text`, to be read from its beginning.
fn text_file(text: &str) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("text", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Shows the text in a file in the pager, for a process without rights.
///
/// # Errors
///
/// When there is no pager that runs.
pub(crate) fn show_in_pager(text: OwnedFd) -> io::Result<()> {
    let mut pager = pager().filter(|_| own_file::invoking_user().is_none()).ok_or(io::ErrorKind::NotFound)?;
    pager.stdin(text).spawn()?.wait().map(|_| ())
}

/// The pager of the environment, else `less`.
fn pager() -> Option<Command> {
    let from_env = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let command =
        from_env("PROF_PAGER").or_else(|| from_env("PAGER")).unwrap_or_else(|| "less -FIRX".to_owned());
    let mut words = command.split_whitespace();
    let program = words.next().filter(|program| *program != "cat")?;
    let mut pager = Command::new(program);
    pager.args(words);
    if std::env::var_os("LESS").is_none() {
        pager.env("LESS", "FIRX");
    }
    Some(pager)
}
