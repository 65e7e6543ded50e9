//! One session at the terminal: everything that happens goes through one queue; then the screen is drawn once.

use super::TuiOptions;
use super::action::{Action, Effect, Feed, LiveCommand, LiveCommands};
use super::app::{App, Live};
use super::events::{self, Outside};
use super::query::Query;
use super::screen;
use super::terminal::TerminalGuard;
use super::theme::Theme;
use super::translator::Translator;
use super::worker::{Done, Job, Worker};
use crate::failure::{Failure, status};
use crate::report::Recording;
use anyhow::Context;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Events that may wait while the terminal is slow; then whoever sends them waits.
const MOST_WAITING: usize = 256;

/// Base of the exit status of a process that a signal ended.
const SIGNAL_STATUS: u8 = 128;

/// Where recordings come from.
#[derive(Debug)]
pub enum Source {
    /// A file that was read.
    File(Arc<Recording>),
    /// A recording that is going on. Its sender must not wait: what is not taken in time is old.
    Live {
        /// What it tells.
        feed: Receiver<Feed>,
        /// Where it hears commands.
        commands: LiveCommands,
    },
}

/// What happens.
#[derive(Debug)]
enum Message {
    Outside(Outside),
    Done(Done),
    Feed(Feed),
    /// A newer recording lies in the slot.
    Recording,
}

type Newest = Arc<Mutex<Option<Arc<Recording>>>>;

/// Everything of one session.
struct Session {
    app: App,
    theme: Theme,
    terminal: TerminalGuard,
    worker: Worker,
    translator: Translator,
    newest: Newest,
    commands: Option<LiveCommands>,
    /// The exit status, once it is over.
    over: Option<u8>,
}

/// Shows `source` until the user has enough; returns the exit status.
///
/// # Errors
///
/// When the terminal cannot be used or goes away.
pub fn run_source(options: &TuiOptions, source: Source) -> anyhow::Result<u8> {
    let (queue, inbox) = sync_channel(MOST_WAITING);
    let tell = queue.clone();
    let worker = Worker::start(move |done| {
        let _ = tell.send(Message::Done(done));
    })
    .context("cannot start a thread")?;
    let query = Query::new(options.common.clone());
    // While the terminal is asked for its colours.
    worker.ask(Job::Query(query.clone()));
    let newest = Newest::default();
    let mut live = None;
    let mut warning = None;
    let commands = match source {
        Source::File(recording) => {
            warning = recording.warning(&options.common.input);
            worker.ask(Job::Recording(recording));
            None
        }
        Source::Live { feed, commands } => {
            live = Some(Live::default());
            forward(feed, queue.clone(), Arc::clone(&newest)).context("cannot start a thread")?;
            Some(commands)
        }
    };
    let theme = Theme::of_terminal(options.color, options.ascii);
    let translator = Translator::after_a_question(Instant::now());
    let tell = queue.clone();
    events::listen(move |outside| tell.send(Message::Outside(outside)).is_ok())
        .context("cannot listen to the terminal")?;
    let terminal = TerminalGuard::take(options.mouse).context("cannot use the terminal")?;
    let size = terminal.screen.size().context("cannot tell the size of the terminal")?;
    let mut app = App::new(query, size);
    app.open(options.tab);
    app.has_mouse = options.mouse;
    app.live = live;
    app.toast = warning;
    let mut session = Session { app, theme, terminal, worker, translator, newest, commands, over: None };
    session.run(&inbox)
}

/// Passes on what a live recording tells. Of recordings only the newest is kept.
fn forward(feed: Receiver<Feed>, queue: SyncSender<Message>, newest: Newest) -> std::io::Result<()> {
    thread::Builder::new().name("prof-feed".into()).spawn(move || {
        for told in feed {
            let message = match told {
                Feed::Recording(recording) => {
                    let mut slot = newest.lock().unwrap_or_else(PoisonError::into_inner);
                    match slot.replace(recording) {
                        // The message about it is still on its way.
                        Some(_) => continue,
                        None => Message::Recording,
                    }
                }
                other => Message::Feed(other),
            };
            if queue.send(message).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

impl Session {
    fn run(&mut self, inbox: &Receiver<Message>) -> anyhow::Result<u8> {
        loop {
            self.draw()?;
            let Ok(message) = inbox.recv() else { return Ok(status::FAILED) };
            self.take(message)?;
            // Everything that has come meanwhile is one change of the screen.
            while self.over.is_none()
                && let Ok(message) = inbox.try_recv()
            {
                self.take(message)?;
            }
            if let Some(status) = self.over {
                return Ok(status);
            }
        }
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let (app, theme) = (&self.app, &self.theme);
        self.terminal.screen.draw(|frame| screen::draw(frame, app, theme)).map_err(gone)?;
        Ok(())
    }

    fn take(&mut self, message: Message) -> anyhow::Result<()> {
        match message {
            Message::Outside(Outside::Input(event)) => {
                if let Some(action) = self.translator.action(&self.app, &event, Instant::now()) {
                    self.act(&action)?;
                }
                self.see_size()?;
            }
            Message::Outside(Outside::Signal(signal)) => self.signal(signal)?,
            Message::Outside(Outside::Gone) => self.over = Some(SIGNAL_STATUS + SIGHUP as u8),
            Message::Done(Done::Picture) => {
                if let Some(picture) = self.worker.take() {
                    let before = self.app.picture.clone();
                    self.app.set_picture(picture);
                    before.into_iter().for_each(|before| self.worker.ask(Job::Forget(before)));
                }
            }
            Message::Done(Done::Problem(query, failure)) => {
                if *query == self.app.query {
                    self.app.set_problem(&failure);
                }
            }
            Message::Done(Done::Exported(Ok((path, what)))) => {
                self.app.tell(format!("wrote {}: {what}", path.display()));
            }
            Message::Done(Done::Exported(Err(why))) => self.app.tell(why),
            Message::Done(Done::Ended) => anyhow::bail!("the thread that computes has failed"),
            Message::Recording => {
                if !self.app.live.as_ref().is_some_and(|live| live.is_frozen) {
                    self.look_at_newest();
                }
            }
            Message::Feed(feed) => self.feed(feed),
        }
        Ok(())
    }

    /// Hands the newest recording to the worker.
    fn look_at_newest(&mut self) {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(recording) = newest {
            self.worker.ask(Job::Recording(recording));
        }
    }

    fn feed(&mut self, feed: Feed) {
        let Some(live) = &mut self.app.live else { return };
        match feed {
            Feed::Recording(recording) => self.worker.ask(Job::Recording(recording)),
            Feed::Status(status) => live.status = status,
            Feed::Note(text) => self.app.tell(text),
            Feed::Ended { why } => {
                live.ended = Some(why.clone());
                // The last picture is whole: nothing is left to hold still.
                live.is_frozen = false;
                self.look_at_newest();
                self.app.tell(why);
            }
        }
    }

    fn act(&mut self, action: &Action) -> anyhow::Result<()> {
        let was_frozen = self.app.live.as_ref().is_some_and(|live| live.is_frozen);
        self.app.update(action);
        if was_frozen && self.app.live.as_ref().is_some_and(|live| !live.is_frozen) {
            self.look_at_newest();
        }
        for effect in self.app.take_effects() {
            match effect {
                Effect::Ask => self.worker.ask(Job::Query(self.app.query.clone())),
                Effect::Copy(text) => self.terminal.copy(&text).map_err(gone)?,
                Effect::Mouse(on) => self.terminal.set_mouse(on).map_err(gone)?,
                Effect::Export(job, what) => self.worker.ask(Job::Export(*job, what)),
                Effect::Live(command) => self.command(command),
                Effect::Suspend => self.suspend()?,
                Effect::Redraw => self.terminal.redraw().map_err(gone)?,
            }
        }
        if self.app.is_done {
            self.over = Some(status::OK);
        }
        Ok(())
    }

    fn command(&mut self, command: LiveCommand) {
        if let Some(commands) = &self.commands
            && commands.send(command).is_err()
        {
            self.app.tell("the recording is over");
        }
    }

    fn signal(&mut self, signal: i32) -> anyhow::Result<()> {
        match signal {
            SIGTERM | SIGHUP | SIGINT | SIGQUIT => self.over = Some(SIGNAL_STATUS + signal as u8),
            SIGTSTP => self.suspend()?,
            // Whoever stopped us may have changed the terminal.
            SIGCONT => self.terminal.enter().map_err(gone)?,
            _ => self.see_size()?,
        }
        Ok(())
    }

    /// Gives the terminal back and stops, as the shell expects it.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.terminal.leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP).context("cannot stop")?;
        self.terminal.enter().map_err(gone)?;
        self.see_size()
    }

    fn see_size(&mut self) -> anyhow::Result<()> {
        self.app.size = self.terminal.screen.size().map_err(gone)?;
        Ok(())
    }
}

/// A terminal that cannot be written to is one that nobody looks at.
fn gone(error: std::io::Error) -> anyhow::Error {
    let message = format!("the terminal is gone: {error}");
    anyhow::Error::from(Failure::new(SIGNAL_STATUS + SIGHUP as u8, message))
}
