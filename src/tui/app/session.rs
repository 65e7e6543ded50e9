//! One session at the terminal: everything that happens goes through one queue; then the screen is drawn once.

use super::action::{Action, Effect, Feed, LiveCommand, LiveCommands, Seen};
use super::feed::FeedReceiver;
use super::query::Query;
use super::state::{App, Live};
use crate::base::failure::{Failure, status};
use crate::report::Recording;
use crate::tui::compute::worker::{Done, Job, Worker};
use crate::tui::options::TuiOptions;
use crate::tui::terminal::events::Outside;
use crate::tui::terminal::guard::TerminalGuard;
use crate::tui::terminal::suspend::suspend;
use crate::tui::terminal::translator::Translator;
use crate::tui::terminal::{events, tty};
use crate::tui::widgets::screen;
use crate::tui::widgets::theme::Theme;
use anyhow::Context;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Events that may wait while the terminal is slow; then whoever sends them waits.
const MOST_WAITING: usize = 256;

/// How long it takes at most to see that a thread has failed, of which no one tells.
const SEE_FAILURE: Duration = Duration::from_secs(1);

/// Base of the exit status of a process that a signal ended.
const SIGNAL_STATUS: u8 = 128;

/// Where recordings come from.
#[derive(Debug)]
pub enum Source {
    /// A file that was read.
    File(Arc<Recording>),
    /// A recording that is going on.
    Live {
        /// What it tells.
        feed: FeedReceiver,
        /// Where it hears commands.
        commands: LiveCommands,
    },
}

/// What happens.
#[derive(Debug)]
enum Message {
    Outside(Outside),
    Done(Done),
    /// The live recording has told something.
    Told,
}

/// Everything of one session.
struct Session {
    app: App,
    theme: Theme,
    terminal: TerminalGuard,
    worker: Worker,
    translator: Translator,
    feed: Option<FeedReceiver>,
    /// The newest state of a live recording that was handed on.
    newest: Option<Arc<Recording>>,
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
    let mut live = None;
    let mut warning = None;
    let (feed, commands) = match source {
        Source::File(recording) => {
            warning = recording.warning(&options.common.input);
            worker.ask(Job::Recording(recording));
            (None, None)
        }
        Source::Live { feed, commands } => {
            live = Some(Live::default());
            forward(feed.clone(), queue.clone()).context("cannot start a thread")?;
            (Some(feed), Some(commands))
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
    let mut session =
        Session { app, theme, terminal, worker, translator, feed, newest: None, commands, over: None };
    session.run(&inbox)
}

/// Says that a live recording has told something. What that is stays where only the newest waits, however long this does.
fn forward(feed: FeedReceiver, queue: SyncSender<Message>) -> std::io::Result<()> {
    thread::Builder::new().name("prof-feed".into()).spawn(move || {
        while feed.wait() {
            if queue.send(Message::Told).is_err() {
                // No one listens any more. Else what was told last is still to be taken.
                return feed.hang_up();
            }
        }
    })?;
    Ok(())
}

impl Session {
    fn run(&mut self, inbox: &Receiver<Message>) -> anyhow::Result<u8> {
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

    /// A thread that panics gives the terminal back and says why: what is drawn then would be on the user's screen.
    fn see_failure(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.terminal.is_ours(), "a thread of prof has failed");
        Ok(())
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        self.see_failure()?;
        let (app, theme) = (&self.app, &self.theme);
        let drawn = self.terminal.screen.draw(|frame| screen::draw(frame, app, theme)).map(|_| ());
        // It may have waited for a terminal that no one reads.
        if self.is_ended_by_signal() { Ok(()) } else { drawn.map_err(gone) }
    }

    fn is_ended_by_signal(&mut self) -> bool {
        let signal = tty::ended_by();
        self.over = signal.map(|signal| SIGNAL_STATUS + signal as u8).or(self.over);
        signal.is_some()
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
                    let old = if self.app.holds_back(&picture) {
                        Some(picture)
                    } else {
                        let before = self.app.picture.clone();
                        self.app.set_picture(picture);
                        before
                    };
                    old.into_iter().for_each(|old| self.worker.ask(Job::Forget(old)));
                    // A picture can ask for the next one: what it was asked for has a name now.
                    self.carry_out()?;
                }
            }
            Message::Done(Done::Problem(query, failure)) => {
                if *query == self.app.query {
                    self.app.set_problem(&failure);
                }
            }
            Message::Done(Done::Exported(Ok((path, what)))) => {
                // Where that is depends on where this program was started.
                let path = std::path::absolute(&path).unwrap_or(path);
                self.app.tell(format!("wrote {}: {what}", path.display()));
            }
            Message::Done(Done::Exported(Err(why))) => self.app.tell(why),
            Message::Done(Done::Ended) => anyhow::bail!("the thread that computes has failed"),
            Message::Told => {
                while let Some(told) = self.feed.as_ref().and_then(|feed| feed.take(self.is_frozen())) {
                    self.hear(told);
                }
            }
        }
        Ok(())
    }

    fn is_frozen(&self) -> bool {
        self.app.live.as_ref().is_some_and(|live| live.is_frozen)
    }

    /// Hands the newest recording to the worker, which may have had it before and given it up.
    fn look_at_newest(&mut self) {
        if let Some(recording) = self.feed.as_ref().and_then(FeedReceiver::take_recording) {
            self.newest = Some(recording);
        }
        if let Some(recording) = &self.newest {
            self.worker.ask(Job::Recording(Arc::clone(recording)));
        }
    }

    fn hear(&mut self, told: Feed) {
        let Some(live) = &mut self.app.live else { return };
        match told {
            Feed::Recording(recording) => {
                self.newest = Some(Arc::clone(&recording));
                self.worker.ask(Job::Recording(recording));
            }
            Feed::Status(status) => live.status = status,
            Feed::Note(text) => self.app.tell(text),
            Feed::Ended { why } => {
                live.ended = Some(why.clone());
                // The last picture is whole: nothing is left to hold still.
                if std::mem::take(&mut live.is_frozen) {
                    self.look_at_newest();
                }
                self.app.tell(why);
            }
        }
    }

    fn act(&mut self, action: &Action) -> anyhow::Result<()> {
        self.app.update(action);
        self.carry_out()
    }

    /// Does what the app wants of the world outside.
    fn carry_out(&mut self) -> anyhow::Result<()> {
        for effect in self.app.take_effects() {
            match effect {
                Effect::Ask => self.worker.ask(Job::Query(self.app.query.clone())),
                Effect::Copy(text) => self.terminal.copy(&text).map_err(gone)?,
                Effect::Mouse(on) => self.terminal.set_mouse(on).map_err(gone)?,
                Effect::Export(job, Seen(recording), what) => {
                    self.worker.ask(Job::Export(*job, recording, what));
                }
                Effect::Hold(Seen(recording)) => self.worker.ask(Job::Hold(recording)),
                Effect::Resume => self.look_at_newest(),
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
        if self.is_ended_by_signal() {
            return Ok(());
        }
        match signal {
            SIGTSTP => self.suspend()?,
            // Whoever stopped us may have changed the terminal.
            SIGCONT => {
                self.see_failure()?;
                self.terminal.enter().map_err(gone)?;
            }
            _ => self.see_size()?,
        }
        Ok(())
    }

    /// Gives the terminal back and stops, as the shell expects it.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.terminal.leave();
        suspend().context("cannot stop")?;
        self.terminal.enter().map_err(gone)?;
        self.see_size()
    }

    fn see_size(&mut self) -> anyhow::Result<()> {
        self.app.size = self.terminal.screen.size().map_err(gone)?;
        Ok(())
    }
}

/// A terminal that cannot be written to is one that no one looks at.
fn gone(error: std::io::Error) -> anyhow::Error {
    let message = format!("the terminal is gone: {error}");
    anyhow::Error::from(Failure::new(SIGNAL_STATUS + SIGHUP as u8, message))
}
