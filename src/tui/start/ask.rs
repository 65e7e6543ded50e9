//! The event loop of the list of processes: draws, and waits for a key or new rows until something is chosen.

use super::choice::{Choice, LastRecording, ProcessRow};
use super::draw;
use super::list::{ListEvent, ProcessList};
use crate::report::ColorWhen;
use crate::tui::terminal::events::{self, Outside};
use crate::tui::terminal::guard::TerminalGuard;
use crate::tui::terminal::suspend::suspend;
use crate::tui::terminal::translator::Translator;
use crate::tui::terminal::tty;
use crate::tui::widgets::theme::Theme;
use anyhow::Context as _;
use crossterm::event::Event;
use signal_hook::consts::{SIGCONT, SIGTSTP};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between scans of the processes, unless a scan takes long.
const INTERVAL: Duration = Duration::from_secs(1);
/// Delay before the second scan, the first that can tell CPU usage.
const SECOND_LOOK: Duration = Duration::from_millis(250);
/// A scan may take one part in this many of the time.
const REST_FACTOR: u32 = 20;
/// Capacity of the event queue while the terminal is slow.
const MOST_WAITING: usize = 64;

enum StartMessage {
    Outside(Outside),
    Rows(Vec<ProcessRow>),
    Failed(std::io::Error),
}

/// Shows processes, which `look` scans again and again, until something is chosen.
///
/// # Errors
///
/// Fails when the terminal cannot be used, or processes cannot be listed.
pub(crate) fn choose(
    last: Option<LastRecording>,
    look: impl FnMut() -> std::io::Result<Vec<ProcessRow>> + Send + 'static,
) -> anyhow::Result<Choice> {
    let theme = Theme::of_terminal(ColorWhen::Auto, false);
    let mut translator = Translator::after_a_question(Instant::now());
    let (queue, inbox) = sync_channel(MOST_WAITING);
    let tell = queue.clone();
    events::listen(move |outside| tell.send(StartMessage::Outside(outside)).is_ok())
        .context("cannot listen to the terminal")?;
    watch(look, queue).context("cannot start a thread")?;
    let mut terminal = TerminalGuard::take(false).context("cannot use the terminal")?;
    let mut list = ProcessList::new(last);
    loop {
        list.set_size(terminal.screen.size()?);
        terminal.screen.draw(|frame| draw::draw(frame, &list, &theme)).map(|_| ())?;
        anyhow::ensure!(terminal.is_ours(), "a thread of prof has failed");
        match inbox.recv()? {
            StartMessage::Rows(rows) => list.set_rows(rows),
            StartMessage::Failed(error) => return Err(error).context("cannot list processes: /proc"),
            StartMessage::Outside(Outside::Gone) => return Ok(Choice::Signal(signal_hook::consts::SIGHUP)),
            StartMessage::Outside(Outside::Signal(SIGCONT)) => terminal.enter()?,
            StartMessage::Outside(Outside::Signal(SIGTSTP)) => pause(&mut terminal)?,
            StartMessage::Outside(Outside::Signal(_)) => {
                if let Some(signal) = tty::ended_by() {
                    return Ok(Choice::Signal(signal));
                }
            }
            StartMessage::Outside(Outside::Input(Event::Key(key))) => {
                if translator.is_of_answer(&key, Instant::now()) {
                    continue;
                }
                match list.press(&key) {
                    Some(ListEvent::Chosen(choice)) => return Ok(choice),
                    Some(ListEvent::Suspended) => pause(&mut terminal)?,
                    None => {}
                }
            }
            StartMessage::Outside(Outside::Input(_)) => {}
        }
    }
}

/// Restores the terminal and stops, as the shell expects.
fn pause(terminal: &mut TerminalGuard) -> anyhow::Result<()> {
    terminal.leave();
    suspend().context("cannot stop")?;
    Ok(terminal.enter()?)
}

/// Scans processes on a thread of its own, since that takes a while on a machine with many of them.
fn watch(
    mut look: impl FnMut() -> std::io::Result<Vec<ProcessRow>> + Send + 'static,
    tell: SyncSender<StartMessage>,
) -> std::io::Result<()> {
    thread::Builder::new().name("prof-processes".into()).spawn(move || {
        let mut rest = SECOND_LOOK;
        loop {
            let began = Instant::now();
            let message = look().map_or_else(StartMessage::Failed, StartMessage::Rows);
            if tell.send(message).is_err() {
                return;
            }
            thread::sleep(rest.max(began.elapsed() * REST_FACTOR));
            rest = INTERVAL;
        }
    })?;
    Ok(())
}
