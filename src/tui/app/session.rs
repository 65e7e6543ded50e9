//! One terminal session: every event wakes one queue, and the screen is drawn once per batch.

use super::action::{Action, Effect, LiveCommand, LiveCommands, LiveUpdate};
use super::context::LiveState;
use super::diff_base::DiffBase;
use super::query::Query;
use super::state::App;
use crate::base::failure::{Failure, status};
use crate::base::mailbox::Notify;
use crate::report::{Analysis, Seen};
use crate::tui::compute::worker::{Done, Job, Worker};
use crate::tui::options::TuiOptions;
use crate::tui::screen;
use crate::tui::terminal::events::Outside;
use crate::tui::terminal::guard::TerminalGuard;
use crate::tui::terminal::suspend::suspend;
use crate::tui::terminal::translator::Translator;
use crate::tui::terminal::{editor, events, tty};
use crate::tui::widgets::theme::Theme;
use anyhow::Context;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Capacity of the event queue while the terminal is slow; when it is full, input waits in the terminal.
const MOST_WAITING: usize = 256;

/// Longest time until a panic in another thread is noticed, since nothing reports it.
const SEE_FAILURE: Duration = Duration::from_secs(1);

/// Base of the exit status of a process that was ended by a signal.
const SIGNAL_STATUS: u8 = 128;

/// Source of recordings.
#[derive(Debug)]
pub(crate) enum SessionSource {
    /// A file that was read, and the one to compare it with.
    File(Arc<Analysis>, Option<DiffBase>),
    /// A recording that is going on.
    Live {
        /// Updates that the recording sends.
        updates: Box<dyn LiveUpdates>,
        /// Channel that sends commands to the recording.
        commands: LiveCommands,
    },
}

/// Updates that a live recording sends. Each is kept until it is taken, of snapshots only the newest.
pub(crate) trait LiveUpdates: fmt::Debug {
    /// Calls `notify`, on any thread, each time that something has arrived.
    fn on_arrival(&self, notify: Notify);

    /// Takes the next update that is no snapshot.
    fn next(&mut self) -> Option<LiveUpdate>;

    /// Takes the newest snapshot, if it was not taken before.
    fn newest(&mut self) -> Option<Arc<Analysis>>;
}

/// An event of the session.
#[derive(Debug)]
enum SessionMessage {
    Outside(Outside),
    /// The worker has replied, or the live recording has sent something.
    Arrived,
}

/// State of one session.
struct ScreenSession {
    app: App,
    theme: Theme,
    terminal: TerminalGuard,
    worker: Worker,
    translator: Translator,
    updates: Option<Box<dyn LiveUpdates>>,
    /// The newest snapshot of a live recording that was received.
    newest: Option<Arc<Analysis>>,
    commands: Option<LiveCommands>,
    /// The exit status, once the session is over.
    over: Option<u8>,
}

/// Shows `source` until the user quits; returns the exit status.
///
/// # Errors
///
/// When the terminal cannot be used or goes away.
pub(crate) fn run_source(options: &TuiOptions, source: SessionSource) -> anyhow::Result<u8> {
    let ended = run_until_over(options, source);
    // Once a signal has ended the session, writes to a terminal that no one reads fail.
    tty::ended_by().map_or(ended, |signal| Ok(SIGNAL_STATUS + signal as u8))
}

fn run_until_over(options: &TuiOptions, source: SessionSource) -> anyhow::Result<u8> {
    let (queue, inbox) = sync_channel(MOST_WAITING);
    let waker = queue.clone();
    let notify: Notify = Arc::new(move || {
        // If the queue is full, the session is awake, and looks for what has arrived when it has emptied the queue.
        let _ = waker.try_send(SessionMessage::Arrived);
    });
    let worker = Worker::start().context("cannot start a thread")?;
    worker.done().on_message(Arc::clone(&notify));
    let mut query = Query::new(options.common.clone());
    query.source_dirs.clone_from(&options.source_dirs);
    let mut live = None;
    let mut warning = None;
    let (updates, commands) = match source {
        SessionSource::File(recording, base) => {
            let of_base = match (&base, &options.base) {
                (Some(DiffBase::Recording(base, _)), Some(input)) => base.0.warning(input),
                _ => None,
            };
            let warnings = [of_base, recording.warning(&options.common.input)];
            warning = warnings.into_iter().flatten().reduce(|a, b| format!("{a}; {b}"));
            query.base = base;
            worker.ask(Job::Recording(recording));
            (None, None)
        }
        SessionSource::Live { updates, commands } => {
            live = Some(LiveState::default());
            updates.on_arrival(notify);
            (Some(updates), Some(commands))
        }
    };
    // Computed while the terminal is asked for its colours.
    worker.ask(Job::Query(Box::new(query.clone())));
    let theme = Theme::of_terminal(options.color, options.ascii);
    let translator = Translator::after_a_question(Instant::now());
    events::listen(move |outside| queue.send(SessionMessage::Outside(outside)).is_ok())
        .context("cannot listen to the terminal")?;
    let terminal = TerminalGuard::take(options.mouse).context("cannot use the terminal")?;
    let size = terminal.screen.size().context("cannot tell the size of the terminal")?;
    let mut app = App::new(query, size);
    app.open(options.tab);
    app.context.has_mouse = options.mouse;
    app.context.is_ascii = theme.is_ascii();
    app.context.live = live;
    app.context.toast = warning;
    let mut session = ScreenSession {
        app,
        theme,
        terminal,
        worker,
        translator,
        updates,
        newest: None,
        commands,
        over: None,
    };
    session.run(&inbox)
}

impl ScreenSession {
    fn run(&mut self, inbox: &Receiver<SessionMessage>) -> anyhow::Result<u8> {
        loop {
            self.draw()?;
            if let Some(status) = self.over {
                return Ok(status);
            }
            let message = loop {
                match inbox.recv_timeout(SEE_FAILURE) {
                    Ok(message) => break message,
                    Err(RecvTimeoutError::Timeout) => self.see_failure()?,
                    Err(RecvTimeoutError::Disconnected) => return Ok(status::FAILED),
                }
            };
            self.take(message)?;
            // Everything that has arrived meanwhile becomes one redraw.
            while self.over.is_none()
                && let Ok(message) = inbox.try_recv()
            {
                self.take(message)?;
            }
            self.take_arrived()?;
            if let Some(status) = self.over {
                return Ok(status);
            }
        }
    }

    /// Fails after another thread has panicked: the panic hook has restored the terminal, so drawing would garble the
    /// user's screen.
    fn see_failure(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.terminal.is_ours(), "a thread of prof has failed");
        Ok(())
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        self.see_failure()?;
        let (app, theme) = (&self.app, &self.theme);
        self.terminal.screen.draw(|frame| screen::draw(frame, app, theme)).map(|_| ()).map_err(gone)
    }

    fn take(&mut self, message: SessionMessage) -> anyhow::Result<()> {
        match message {
            SessionMessage::Outside(Outside::Input(event)) => {
                if let Some(action) = self.translator.action(&self.app.context, &event, Instant::now()) {
                    self.act(&action)?;
                }
                if let Some(action) = self.translator.next_action(&self.app.context) {
                    self.act(&action)?;
                }
                self.see_size()?;
            }
            SessionMessage::Outside(Outside::Signal(signal)) => self.signal(signal)?,
            SessionMessage::Outside(Outside::Gone) => self.over = Some(SIGNAL_STATUS + SIGHUP as u8),
            SessionMessage::Arrived => self.take_arrived()?,
        }
        Ok(())
    }

    /// Takes all replies of the worker and all updates of a live recording. While the picture is frozen, snapshots stay
    /// where they are.
    fn take_arrived(&mut self) -> anyhow::Result<()> {
        while let Some(done) = self.worker.done().take(|_| true) {
            self.take_done(done)?;
        }
        while let Some(update) = self.updates.as_mut().and_then(|updates| updates.next()) {
            self.take_update(update);
        }
        if !self.is_frozen() && self.take_snapshot() {
            self.ask_for_newest();
        }
        Ok(())
    }

    fn take_done(&mut self, done: Done) -> anyhow::Result<()> {
        match done {
            Done::Picture(picture) => {
                let old = if self.app.context.holds_back(&picture) {
                    Some(picture)
                } else {
                    let before = self.app.context.picture.clone();
                    self.app.set_picture(picture);
                    before
                };
                old.into_iter().for_each(|old| self.worker.ask(Job::Forget(old)));
                // A new picture can request the next one: its query may have used an address that has a name now.
                self.carry_out()?;
            }
            Done::Problem(query, failure) => {
                if *query == self.app.context.query {
                    self.app.set_problem(&failure);
                }
            }
            Done::Exported(Ok(exported)) => self.app.context.show_message(exported.words()),
            Done::Exported(Err(why)) => self.app.context.show_message(why),
            Done::Ended => anyhow::bail!("the thread that computes has failed"),
        }
        Ok(())
    }

    fn is_frozen(&self) -> bool {
        self.app.context.live.as_ref().is_some_and(|live| live.is_frozen)
    }

    /// Takes the newest snapshot; returns whether there was one.
    fn take_snapshot(&mut self) -> bool {
        let newest = self.updates.as_mut().and_then(|updates| updates.newest());
        let is_new = newest.is_some();
        self.newest = newest.or(self.newest.take());
        is_new
    }

    /// Goes on with the newest snapshot, in place of the one that was held.
    fn resume(&mut self) {
        self.take_snapshot();
        self.ask_for_newest();
    }

    fn ask_for_newest(&self) {
        if let Some(newest) = &self.newest {
            self.worker.ask(Job::Recording(Arc::clone(newest)));
        }
    }

    fn take_update(&mut self, update: LiveUpdate) {
        let Some(live) = &mut self.app.context.live else { return };
        match update {
            LiveUpdate::Status(status) => live.status = status,
            LiveUpdate::Answer(text) => self.app.context.show_message(text),
            LiveUpdate::Notice(text) => self.app.context.notice = Some(text),
            LiveUpdate::Ended { why } => {
                live.ended = Some(why.clone());
                // The last picture is complete: there is nothing left to freeze.
                if std::mem::take(&mut live.is_frozen) {
                    self.resume();
                }
                self.app.context.show_message(why);
            }
        }
    }

    fn act(&mut self, action: &Action) -> anyhow::Result<()> {
        self.app.update(action);
        self.carry_out()
    }

    /// Carries out the side effects that the app requested.
    fn carry_out(&mut self) -> anyhow::Result<()> {
        for effect in self.app.take_effects() {
            match effect {
                Effect::Ask => self.worker.ask(Job::Query(Box::new(self.app.context.query.clone()))),
                Effect::Copy(text) => self.terminal.copy(&text).map_err(gone)?,
                Effect::Mouse(on) => self.terminal.set_mouse(on).map_err(gone)?,
                Effect::Export(job, what) => self.worker.ask(Job::Export(job, what)),
                Effect::Hold(Seen(recording)) => self.worker.ask(Job::Hold(recording)),
                Effect::Resume => self.resume(),
                Effect::Live(command) => self.command(command),
                Effect::OpenEditor(path, line) => self.edit(&path, line)?,
                Effect::Suspend => self.suspend()?,
                Effect::Redraw => self.terminal.redraw().map_err(gone)?,
            }
        }
        if self.app.context.is_done {
            self.over = Some(status::OK);
        }
        Ok(())
    }

    fn command(&mut self, command: LiveCommand) {
        if let Some(commands) = &self.commands
            && commands.send(command).is_err()
        {
            self.app.context.show_message("the recording is over");
        }
    }

    fn signal(&mut self, signal: i32) -> anyhow::Result<()> {
        if let Some(signal) = tty::ended_by() {
            self.over = Some(SIGNAL_STATUS + signal as u8);
            return Ok(());
        }
        match signal {
            SIGTSTP => self.suspend()?,
            // The process that stopped this one may have changed the terminal.
            SIGCONT => {
                self.see_failure()?;
                self.terminal.enter().map_err(gone)?;
            }
            _ => self.see_size()?,
        }
        Ok(())
    }

    /// Restores the terminal and stops, as the shell expects.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.terminal.leave();
        suspend().context("cannot stop")?;
        self.terminal.enter().map_err(gone)?;
        self.see_size()
    }

    /// Gives the terminal to the user's editor until that ends.
    fn edit(&mut self, path: &Path, line: u32) -> anyhow::Result<()> {
        self.terminal.leave();
        let edited = editor::edit(path, line);
        self.terminal.enter().map_err(gone)?;
        if let Err(why) = edited {
            self.app.context.show_message(why);
        }
        self.see_size()
    }

    fn see_size(&mut self) -> anyhow::Result<()> {
        self.app.context.size = self.terminal.screen.size().map_err(gone)?;
        Ok(())
    }
}

/// Treats a failed write to the terminal as a hangup.
fn gone(error: std::io::Error) -> anyhow::Error {
    let message = format!("the terminal is gone: {error}");
    anyhow::Error::from(Failure::new(SIGNAL_STATUS + SIGHUP as u8, message))
}
