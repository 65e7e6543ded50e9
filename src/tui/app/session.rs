//! One terminal session: every event goes through one queue, and the screen is drawn once per batch.

use super::action::{Action, Effect, Feed, LiveCommand, LiveCommands};
use super::context::LiveState;
use super::diff_base::DiffBase;
use super::query::Query;
use super::state::App;
use crate::base::failure::{Failure, status};
use crate::base::mailbox::MailReceiver;
use crate::report::Analysis;
use crate::tui::compute::seen::Seen;
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
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Capacity of the event queue while the terminal is slow; when it is full, senders block.
const MOST_WAITING: usize = 256;

/// Longest time until a panic in another thread is noticed, since nothing reports it.
const SEE_FAILURE: Duration = Duration::from_secs(1);

/// Base of the exit status of a process that was ended by a signal.
const SIGNAL_STATUS: u8 = 128;

/// Where recordings come from.
#[derive(Debug)]
pub(crate) enum SessionSource {
    /// A file that was read, and the one to compare it with.
    File(Arc<Analysis>, Option<DiffBase>),
    /// A recording that is going on.
    Live {
        /// Updates from the recording.
        feed: MailReceiver<Feed>,
        /// Channel that sends commands to the recording.
        commands: LiveCommands,
    },
}

/// An event of the session.
#[derive(Debug)]
enum SessionMessage {
    Outside(Outside),
    Done(Done),
    /// The live recording has sent an update.
    News,
}

/// State of one session.
struct ScreenSession {
    app: App,
    theme: Theme,
    terminal: TerminalGuard,
    worker: Worker,
    translator: Translator,
    feed: Option<MailReceiver<Feed>>,
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
    let tell = queue.clone();
    let worker = Worker::start(move |done| {
        let _ = tell.send(SessionMessage::Done(done));
    })
    .context("cannot start a thread")?;
    let mut query = Query::new(options.common.clone());
    query.source_dirs.clone_from(&options.source_dirs);
    let mut live = None;
    let mut warning = None;
    let (feed, commands) = match source {
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
        SessionSource::Live { feed, commands } => {
            live = Some(LiveState::default());
            forward(feed.clone(), queue.clone()).context("cannot start a thread")?;
            (Some(feed), Some(commands))
        }
    };
    // Computed while the terminal is asked for its colours.
    worker.ask(Job::Query(Box::new(query.clone())));
    let theme = Theme::of_terminal(options.color, options.ascii);
    let translator = Translator::after_a_question(Instant::now());
    let tell = queue.clone();
    events::listen(move |outside| tell.send(SessionMessage::Outside(outside)).is_ok())
        .context("cannot listen to the terminal")?;
    let terminal = TerminalGuard::take(options.mouse).context("cannot use the terminal")?;
    let size = terminal.screen.size().context("cannot tell the size of the terminal")?;
    let mut app = App::new(query, size);
    app.open(options.tab);
    app.context.has_mouse = options.mouse;
    app.context.is_ascii = theme.is_ascii();
    app.context.live = live;
    app.context.toast = warning;
    let mut session =
        ScreenSession { app, theme, terminal, worker, translator, feed, newest: None, commands, over: None };
    session.run(&inbox)
}

/// Announces each update of a live recording; the update itself stays in its mailbox until it is taken.
fn forward(feed: MailReceiver<Feed>, queue: SyncSender<SessionMessage>) -> std::io::Result<()> {
    thread::Builder::new().name("prof-feed".into()).spawn(move || {
        while feed.wait() {
            if queue.send(SessionMessage::News).is_err() {
                // The screen is gone. On any other end, the last update still has to be taken.
                return feed.hang_up();
            }
        }
    })?;
    Ok(())
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
            SessionMessage::Done(Done::Picture) => {
                if let Some(picture) = self.worker.take() {
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
            }
            SessionMessage::Done(Done::Problem(query, failure)) => {
                if *query == self.app.context.query {
                    self.app.set_problem(&failure);
                }
            }
            SessionMessage::Done(Done::Exported(Ok(exported))) => self.app.context.show_message(exported.words()),
            SessionMessage::Done(Done::Exported(Err(why))) => self.app.context.show_message(why),
            SessionMessage::Done(Done::Ended) => anyhow::bail!("the thread that computes has failed"),
            SessionMessage::News => {
                while let Some(news) = self.take_news() {
                    self.receive(news);
                }
            }
        }
        Ok(())
    }

    fn is_frozen(&self) -> bool {
        self.app.context.live.as_ref().is_some_and(|live| live.is_frozen)
    }

    /// Hands the newest snapshot to the worker, which may have replaced it with the held one.
    fn look_at_newest(&mut self) {
        let newest = self.feed.as_ref().and_then(|feed| feed.take(|news| matches!(news, Feed::Recording(_))));
        if let Some(Feed::Recording(recording)) = newest {
            self.newest = Some(recording);
        }
        if let Some(recording) = &self.newest {
            self.worker.ask(Job::Recording(Arc::clone(recording)));
        }
    }

    /// The next update; while the picture is frozen, snapshots stay in the mailbox.
    fn take_news(&self) -> Option<Feed> {
        let is_frozen = self.is_frozen();
        self.feed.as_ref()?.take(|news| !is_frozen || !matches!(news, Feed::Recording(_)))
    }

    fn receive(&mut self, news: Feed) {
        let Some(live) = &mut self.app.context.live else { return };
        match news {
            Feed::Recording(recording) => {
                self.newest = Some(Arc::clone(&recording));
                self.worker.ask(Job::Recording(recording));
            }
            Feed::Status(status) => live.status = status,
            Feed::Answer(text) => self.app.context.show_message(text),
            Feed::Notice(text) => self.app.context.notice = Some(text),
            Feed::Ended { why } => {
                live.ended = Some(why.clone());
                // The last picture is complete: there is nothing left to freeze.
                if std::mem::take(&mut live.is_frozen) {
                    self.look_at_newest();
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
                Effect::Resume => self.look_at_newest(),
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
