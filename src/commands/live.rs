//! `prof tui TARGET`: shows a recording while it goes on. Joins [`crate::record::live`], which records, and
//! [`crate::tui`], which draws; neither waits for the other.

use crate::base::mailbox::{MailSender, mailbox};
use crate::base::{safe_text, units};
use crate::profile::CpuShares;
use crate::record::RecordOptions;
use crate::record::live::Saved;
use crate::record::live::events::{INTERVALS, LiveEvent, Snapshot};
use crate::record::live::handle::Live;
use crate::report::{Analysis, Recording, ending_words};
use crate::tui;
use crate::tui::options::TuiOptions;
use crate::tui::{Feed, LiveCommand, LiveStatus, Seen, SessionSource};
use anyhow::Context;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long the thread that passes on events waits for one before it checks whether anyone is still receiving.
const PATIENCE: Duration = Duration::from_secs(1);

/// All options of `prof tui TARGET`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiveOptions {
    /// Options of the recording.
    pub(crate) record: RecordOptions,
    /// Options of the screen.
    pub(crate) tui: TuiOptions,
}

/// Records and shows until the user quits; returns the exit status. Nothing is saved unless the user asks for it.
///
/// # Errors
///
/// Fails when there is no terminal, or when the target cannot be recorded: with the error of `prof record`, before the
/// screen is set up.
pub(crate) fn run(options: &LiveOptions, command_line: Vec<String>) -> anyhow::Result<u8> {
    tui::require_terminal()?;
    if let Some(delay) = options.record.delay {
        // Until then there is nothing to show.
        let line = format!("sampling begins in {}", humantime::format_duration(delay));
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
    let live = Arc::new(Live::start(options.record.clone(), command_line)?);
    let (tell, feed) = mailbox();
    let (commands, orders) = channel();
    let events = live.events();
    let of_events = tell.clone();
    spawn("prof-events", move || {
        let mut status = LiveStatus::default();
        loop {
            match events.recv_timeout(PATIENCE) {
                Ok(event) => {
                    if !pass_on(event, &mut status, &of_events) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    })?;
    let (recording, output) = (Arc::clone(&live), options.record.output.clone());
    // A separate thread, because saving may have to wait for names. It must not keep `live` when the screen is gone.
    let control = spawn("prof-control", move || carry_out(&recording, &orders, &output, &tell))?;
    let status = tui::run_source(&options.tui, SessionSource::Live { feed, commands });
    // The screen has dropped its end of the channel. A save in progress is completed.
    let _ = control.join();
    drop(live);
    status
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).context("cannot start a thread")
}

/// Passes an event of the recording on to the screen. Returns whether the receiver still exists.
fn pass_on(event: LiveEvent, status: &mut LiveStatus, tell: &MailSender<Feed>) -> bool {
    match event {
        LiveEvent::Snapshot(snapshot) => tell.send(picture(*snapshot)),
        LiveEvent::Status(now) => {
            (status.elapsed, status.lost) = (now.elapsed, now.lost);
            tell.send(Feed::Status(status.clone()))
        }
        LiveEvent::Notice(text) => tell.send(Feed::Notice(text)),
        LiveEvent::Ended(ended) => {
            let why = ended.failure.or(ending_words(&ended.snapshot.profile)).unwrap_or(ended.reason);
            tell.send(picture(*ended.snapshot)) && tell.send(Feed::Ended { why })
        }
    }
}

fn picture(snapshot: Snapshot) -> Feed {
    let cost = snapshot.cost;
    let late_cost = CpuShares::of(cost.cpu_ns, cost.bpf_ns, cost.length_ns);
    let recording = Recording {
        names_to_come: snapshot.unnamed,
        late_cost,
        ..Recording::new(snapshot.profile, snapshot.integrity)
    };
    Feed::Recording(Arc::new(Analysis::of(recording)))
}

/// Carries out the user's commands to the recording, until the screen is gone.
fn carry_out(
    live: &Live,
    orders: &Receiver<LiveCommand>,
    output: &crate::record::Output,
    tell: &MailSender<Feed>,
) {
    for order in orders {
        let answer = match order {
            LiveCommand::Refresh(interval) => {
                live.set_interval(interval.clamp(INTERVALS.0, INTERVALS.1));
                continue;
            }
            LiveCommand::Clear => {
                live.clear();
                continue;
            }
            LiveCommand::Save(Seen(recording)) => match live.save(recording.profile.clone(), output) {
                Ok(saved) => said_of(&saved),
                Err(error) => format!("{error:#}"),
            },
        };
        // Without a screen, the answer is lost.
        tell.send(Feed::Answer(answer));
    }
}

fn said_of(saved: &Saved) -> String {
    // The path is relative to where this program was started, which the user may not know.
    let path = std::path::absolute(&saved.path).unwrap_or_else(|_| saved.path.clone()).display().to_string();
    let kept = saved.kept_old.as_ref().map_or(String::new(), |old| {
        format!(" (previous kept as {})", safe_text::terminal(&old.display().to_string()))
    });
    let length = units::duration(u64::try_from(saved.duration.as_nanos()).unwrap_or(u64::MAX));
    let why = saved.misplaced.as_ref().map_or(String::new(), |why| format!(": {}", safe_text::terminal(why)));
    format!("saved {}{why}  {length}  {}{kept}", safe_text::terminal(&path), units::bytes(saved.bytes))
}
