//! The screen before there is a profile: the last recording, and running processes to record or to watch.
//!
//! Knows nothing of how processes are found or recorded: it is given rows, and returns what was chosen. No picture is computed
//! here, so it has a small loop of its own.

pub(crate) mod draw;
pub(crate) mod list;
#[cfg(test)]
mod tests;

use super::terminal::events::{self, Outside};
use super::terminal::guard::TerminalGuard;
use super::terminal::suspend::suspend;
use super::terminal::translator::Translator;
use super::terminal::tty;
use super::widgets::theme::Theme;
use crate::report::ColorWhen;
use anyhow::Context as _;
use crossterm::event::Event;
use list::{Event as ListEvent, ProcessList};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often processes are looked at, unless that takes long.
const INTERVAL: Duration = Duration::from_secs(1);
/// The second look, which is the first to know who is busy.
const SECOND_LOOK: Duration = Duration::from_millis(250);
/// A look may take this part of the time.
const REST_FACTOR: u32 = 20;
/// Events that may wait while the terminal is slow.
const MOST_WAITING: usize = 64;

/// A process that can be chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProcessRow {
    /// Its number.
    pub(crate) pid: u32,
    /// What it uses of one CPU, percent; `None` while that is not known.
    pub(crate) cpu_percent: Option<f64>,
    /// How many threads it has.
    pub(crate) threads: u64,
    /// Its command line. Any characters.
    pub(crate) command: String,
}

/// A recording that can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRecording {
    /// The file.
    pub(crate) path: PathBuf,
    /// How long ago it was written; `None` if the clock was set back since.
    pub(crate) age: Option<Duration>,
    /// Its size, bytes.
    pub(crate) bytes: u64,
}

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A process, to be watched live.
    Watch(u32),
    /// A process, to be recorded.
    Record(u32),
    /// The whole machine, to be watched live.
    WatchAll,
    /// The last recording, to be opened.
    Open,
    /// Nothing.
    Leave,
    /// Nothing: this signal ends the program.
    Signal(i32),
}

enum Message {
    Outside(Outside),
    Rows(Vec<ProcessRow>),
    Failed(std::io::Error),
}

/// Shows processes, looked up by `look` again and again, until something is chosen.
///
/// # Errors
///
/// When the terminal cannot be used, or processes cannot be listed.
pub(crate) fn choose(
    last: Option<LastRecording>,
    look: impl FnMut() -> std::io::Result<Vec<ProcessRow>> + Send + 'static,
) -> anyhow::Result<Choice> {
    let theme = Theme::of_terminal(ColorWhen::Auto, false);
    let mut translator = Translator::after_a_question(Instant::now());
    let (queue, inbox) = sync_channel(MOST_WAITING);
    let tell = queue.clone();
    events::listen(move |outside| tell.send(Message::Outside(outside)).is_ok())
        .context("cannot listen to the terminal")?;
    watch(look, queue).context("cannot start a thread")?;
    let mut terminal = TerminalGuard::take(false).context("cannot use the terminal")?;
    let mut list = ProcessList::new(last);
    loop {
        list.set_size(terminal.screen.size()?);
        terminal.screen.draw(|frame| draw::draw(frame, &list, &theme)).map(|_| ())?;
        anyhow::ensure!(terminal.is_ours(), "a thread of prof has failed");
        match inbox.recv()? {
            Message::Rows(rows) => list.set_rows(rows),
            Message::Failed(error) => return Err(error).context("cannot list processes: /proc"),
            Message::Outside(Outside::Gone) => return Ok(Choice::Signal(signal_hook::consts::SIGHUP)),
            Message::Outside(Outside::Signal(SIGCONT)) => terminal.enter()?,
            Message::Outside(Outside::Signal(SIGTSTP)) => pause(&mut terminal)?,
            Message::Outside(Outside::Signal(_)) => {
                if let Some(signal) = tty::ended_by() {
                    return Ok(Choice::Signal(signal));
                }
            }
            Message::Outside(Outside::Input(Event::Key(key))) => {
                if translator.is_of_answer(&key, Instant::now()) {
                    continue;
                }
                match list.press(&key) {
                    Some(ListEvent::Chosen(choice)) => return Ok(choice),
                    Some(ListEvent::Suspended) => pause(&mut terminal)?,
                    None => {}
                }
            }
            Message::Outside(Outside::Input(_)) => {}
        }
    }
}

/// Gives the terminal back and stops, as the shell expects it.
fn pause(terminal: &mut TerminalGuard) -> anyhow::Result<()> {
    terminal.leave();
    suspend().context("cannot stop")?;
    Ok(terminal.enter()?)
}

/// Looks at processes on a thread of its own: on a machine with many of them that takes a while.
fn watch(
    mut look: impl FnMut() -> std::io::Result<Vec<ProcessRow>> + Send + 'static,
    tell: SyncSender<Message>,
) -> std::io::Result<()> {
    thread::Builder::new().name("prof-processes".into()).spawn(move || {
        let mut rest = SECOND_LOOK;
        loop {
            let began = Instant::now();
            let message = look().map_or_else(Message::Failed, Message::Rows);
            if tell.send(message).is_err() {
                return;
            }
            thread::sleep(rest.max(began.elapsed() * REST_FACTOR));
            rest = INTERVAL;
        }
    })?;
    Ok(())
}
