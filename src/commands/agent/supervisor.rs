//! The process that the user starts: it keeps the rights of the agent, starts its parts, and starts them again.

use super::check::work_words;
use super::counters;
use super::folders::{HeldFolders, waiting_files, write_replacing};
use super::log::say;
use super::pause::Pauses;
use super::tally::{AgentTally, RECORDER_ENDED, RecorderState};
use crate::agent::config::{AgentConfig, change_between};
use crate::agent::sampling::{day_of, is_recorded_host};
use crate::base::failure::{self, Failure, status};
use crate::base::{privilege, units};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Interval at which parts are looked at that do not run, or should know something.
const TICK: Duration = Duration::from_secs(1);
/// The same where all is as it should be: the end of a part and other signals are heard at once.
const CALM_TICK: Duration = Duration::from_secs(10);
/// Wait before a part that has ended is started again: doubled each time, and the shortest again after it has run for so long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const GOOD_RUN: Duration = Duration::from_secs(120);
/// Interval at which a part that was asked to end is looked at.
const ENDING_TICK: Duration = Duration::from_millis(20);
/// Longest time that a part has to end after it was asked to.
const ENDING: Duration = Duration::from_secs(20);

/// Signals that have come.
struct AgentSignals {
    ends: Arc<AtomicBool>,
    reloads: Arc<AtomicBool>,
    pauses: Pauses,
}

impl AgentSignals {
    fn install() -> io::Result<Self> {
        let (ends, reloads) = (Arc::default(), Arc::default());
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&ends))?;
        }
        signal_hook::flag::register(SIGHUP, Arc::clone(&reloads))?;
        let pauses = Pauses::ended_by(&[SIGINT, SIGTERM, SIGHUP, SIGCHLD])?;
        Ok(AgentSignals { ends, reloads, pauses })
    }
}

/// A part of the agent, which runs or waits to be started again.
struct Part {
    name: &'static str,
    /// Whether it can do nothing without the rights of the agent.
    needs_rights: bool,
    child: Option<Child>,
    begun: Instant,
    next: Instant,
    wait: Duration,
}

/// What has become of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    AsBefore,
    Ended,
    /// It has ended, and would end again each time.
    LacksRights,
}

impl Part {
    fn new(name: &'static str, needs_rights: bool) -> Self {
        let now = Instant::now();
        Part { name, needs_rights, child: None, begun: now, next: now, wait: FIRST_WAIT }
    }

    /// Starts it, if it does not run and it is time.
    fn start(&mut self, config: &Path) {
        if self.child.is_some() || Instant::now() < self.next {
            return;
        }
        let mut command = Command::new("/proc/self/exe");
        command.arg0("prof").arg("agent").arg("--config").arg(config).args(["--part", self.name]);
        command.args(["--parent", &std::process::id().to_string()]);
        // Keys of a terminal are for the one that was started.
        match command.process_group(0).spawn() {
            Ok(child) => (self.child, self.begun) = (Some(child), Instant::now()),
            Err(error) => {
                say(&format!("the {} cannot be started: {}", self.name, failure::io_words(&error)));
                self.later();
            }
        }
    }

    /// Notes that it has ended, if it has.
    fn look(&mut self) -> PartState {
        let Some(Ok(Some(ended))) = self.child.as_mut().map(Child::try_wait) else {
            return PartState::AsBefore;
        };
        self.child = None;
        // It has said which.
        if self.needs_rights && ended.code() == Some(status::NOT_PERMITTED.into()) {
            say(&format!("the {} lacks rights, which do not come while it runs: the agent ends", self.name));
            return PartState::LacksRights;
        }
        say(&format!(
            "the {} has ended ({ended}), and is started again in {} s",
            self.name,
            self.wait.as_secs()
        ));
        if self.begun.elapsed() >= GOOD_RUN {
            self.wait = FIRST_WAIT;
        }
        self.later();
        PartState::Ended
    }

    fn later(&mut self) {
        self.next = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
    }

    /// Asks it to end, and waits until it has.
    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // It may have ended by itself.
            let _ =
                privilege::send_signals(|| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        }
        let until = Instant::now() + ENDING;
        while Instant::now() < until {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(ENDING_TICK),
                _ => return self.again(),
            }
        }
        say(&format!("the {} does not end, and is killed", self.name));
        // If even that is refused, it ends once it sees that this process has.
        if privilege::send_signals(|| child.kill()).is_ok() {
            let _ = child.wait();
        }
        self.again();
    }

    /// It may be started at once.
    fn again(&mut self) {
        (self.next, self.wait) = (Instant::now(), FIRST_WAIT);
    }
}

/// The agent as a whole.
struct Agent {
    /// The file of the user.
    path: PathBuf,
    /// What it said when it was right: the parts read this, whenever they are started, and never a file that was not looked at.
    accepted: PathBuf,
    tally: AgentTally,
    /// Whether the sender can read that as it is.
    is_tally_written: bool,
    config: AgentConfig,
    host: String,
    recorder: Part,
    sender: Part,
    /// Folders that no other agent may use.
    held: HeldFolders,
    /// Whether this host is one of those that record today.
    is_recorded: bool,
}

/// Runs the agent until a signal, or until it turns out that it may not record; returns the exit status.
///
/// # Errors
///
/// When its folder cannot be made or is another agent's, or signals cannot be taken.
pub(super) fn run(path: &Path, config: AgentConfig) -> anyhow::Result<u8> {
    let held = HeldFolders::of(&config, None)?;
    let signals = AgentSignals::install()?;
    let host = config.host.shown_name(|name| std::env::var(name).ok());
    let path = std::path::absolute(path)?;
    let (recorder, sender) = (Part::new("recorder", true), Part::new("sender", false));
    let (accepted, tally) = (accept(&config)?, AgentTally::begin());
    let is_tally_written = tally.write(&config);
    say(&format!("started: {}", work_words(&config)));
    let mut agent = Agent {
        path,
        accepted,
        tally,
        config,
        host,
        recorder,
        sender,
        held,
        is_tally_written,
        is_recorded: true,
    };
    let mut ended = status::OK;
    while !signals.ends.load(Ordering::Relaxed) {
        if signals.reloads.swap(false, Ordering::Relaxed) {
            agent.reload();
        }
        if agent.keep_running() == PartState::LacksRights {
            ended = status::NOT_PERMITTED;
            break;
        }
        signals.pauses.pause(if agent.is_calm() { CALM_TICK } else { TICK });
    }
    // The recorder completes its window, which the sender then still sends.
    agent.recorder.end();
    agent.sender.end();
    Ok(ended)
}

/// Keeps the text of a configuration that is right, for the parts. Returns where.
fn accept(config: &AgentConfig) -> Result<PathBuf, Failure> {
    let place = config.buffer.folder.join("accepted.toml");
    // Headers may be secrets.
    write_replacing(&place, config.text.as_bytes()).map_err(|error| {
        let (place, why) = (place.display(), failure::io_words(&error));
        Failure::new(status::FAILED, format!("cannot keep the configuration as `{place}`: {why}"))
    })?;
    Ok(std::path::absolute(&place).unwrap_or(place))
}

impl Agent {
    /// Whether both parts run, and the sender knows how it is.
    fn is_calm(&self) -> bool {
        self.is_tally_written && self.recorder.child.is_some() && self.sender.child.is_some()
    }

    /// Changes what the sender shows in the metrics.
    fn count(&mut self, change: impl FnOnce(&mut AgentTally)) {
        change(&mut self.tally);
        self.is_tally_written = self.tally.write(&self.config);
    }

    /// Starts what is to run and does not. Returns what has become of the recorder.
    fn keep_running(&mut self) -> PartState {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let is_recorded = is_recorded_host(&self.host, day_of(since), self.config.hosts_share);
        if self.is_recorded != is_recorded {
            self.is_recorded = is_recorded;
            say(if is_recorded {
                "this host records today"
            } else {
                "this host does not record today: hosts_share"
            });
        }
        let state = self.recorder.look();
        match state {
            PartState::AsBefore => {}
            PartState::Ended => self.count(|tally| AgentTally::count(&mut tally.restarts, RECORDER_ENDED)),
            PartState::LacksRights => return state,
        }
        if !is_recorded {
            self.recorder.end();
        } else {
            self.recorder.start(&self.accepted);
        }
        let state_now = match (is_recorded, &self.recorder.child) {
            (false, _) => RecorderState::IsOff,
            (true, None) => RecorderState::Waits,
            (true, Some(_)) => RecorderState::Runs,
        };
        if self.tally.recorder != state_now || !self.is_tally_written {
            self.count(|tally| tally.recorder = state_now);
        }
        self.sender.look();
        self.sender.start(&self.accepted);
        state
    }

    /// Reads the configuration again. One that is wrong changes nothing.
    fn reload(&mut self) {
        let new = match AgentConfig::read(&self.path) {
            Ok(new) => new,
            Err(failure) => return self.refuse(failure),
        };
        let change = change_between(&self.config, &new);
        if change.is_empty() {
            self.count(|tally| AgentTally::count(&mut tally.reloads, "ok"));
            return say("the configuration has not changed");
        }
        let keys: Vec<&str> =
            (change.at_once.iter().chain(&change.recording).chain(&change.agent)).copied().collect();
        let taken = HeldFolders::of(&new, Some(&self.held)).and_then(|held| Ok((held, accept(&new)?)));
        let held = match taken {
            Ok((held, accepted)) => {
                self.accepted = accepted;
                held
            }
            Err(failure) => return self.refuse(failure),
        };
        // What waits to be sent is on the disk: a sender that is started again goes on with it. Only what decides how it is recorded
        // costs the second that the recorder takes to begin again.
        const OF_SENDER: [&str; 2] = ["destinations", "metrics"];
        let before = std::mem::replace(&mut self.config, new);
        self.host = self.config.host.shown_name(|name| std::env::var(name).ok());
        let is_of_recorder = keys.iter().any(|key| !OF_SENDER.contains(key));
        self.count(|tally| {
            AgentTally::count(&mut tally.reloads, "ok");
            if is_of_recorder {
                AgentTally::count(&mut tally.restarts, "configuration");
            }
        });
        if is_of_recorder {
            self.recorder.end();
        }
        self.sender.end();
        // No part uses those of before any more.
        self.held = held;
        say(&format!("the configuration was read again: {}", keys.join(", ")));
        self.leave_buffer(&before);
    }

    /// Goes on as before, as another configuration cannot be had.
    fn refuse(&mut self, failure: Failure) {
        let lines = failure::explain(&failure.into()).1;
        lines.iter().for_each(|line| say(line));
        self.count(|tally| AgentTally::count(&mut tally.reloads, "refused"));
        say("the configuration is not read again: the agent goes on as it is");
    }

    /// Says what stays in the folder of a configuration before, if that had another one.
    fn leave_buffer(&self, before: &AgentConfig) {
        let (old, new) = (&before.buffer.folder, &self.config.buffer.folder);
        if old == new {
            return;
        }
        counters::hand_over(before, &self.config);
        let waiting = waiting_files(old);
        if waiting > 0 {
            say(&format!(
                "{} wait in `{}`, which is not the buffer any more: they are sent once it is again",
                units::counted(waiting, "recording"),
                old.display()
            ));
        }
    }
}
