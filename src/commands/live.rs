//! `prof tui TARGET`: shows a recording while it goes on. Joins [`crate::record::live`], which records, and
//! [`crate::tui`], which draws; neither waits for the other.

use crate::base::mailbox::{Mail, MailKind, MailReceiver, MailSender, Notify, mailbox};
use crate::base::units::CpuShares;
use crate::base::{safe_text, units};
use crate::record::RecordOptions;
use crate::record::live::Saved;
use crate::record::live::events::{INTERVALS, LiveEvent, Snapshot, Status};
use crate::record::live::handle::Live;
use crate::report::{Analysis, Recording, Seen, ending_words};
use crate::tui;
use crate::tui::options::TuiOptions;
use crate::tui::{LiveCommand, LiveStatus, LiveUpdate, LiveUpdates, SessionSource};
use anyhow::Context;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

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
    let (answer, answers) = mailbox();
    let (commands, requests) = channel();
    let updates = RecordingUpdates { events: live.events(), answers, last: None, shown: 0 };
    let (recording, output) = (Arc::clone(&live), options.record.output.clone());
    // A separate thread, because saving may have to wait for names. It must not keep `live` when the screen is gone.
    let control = thread::Builder::new()
        .name("prof-control".into())
        .spawn(move || carry_out(&recording, &requests, &output, &answer))
        .context("cannot start a thread")?;
    let source = SessionSource::Live { updates: Box::new(updates), commands };
    let status = tui::run_source(&options.tui, source);
    // The screen has dropped its end of the channel. A save in progress is completed.
    let _ = control.join();
    drop(live);
    status
}

/// The outcome of a command, for the user. Foreign text.
#[derive(Debug)]
struct CommandAnswer(String);

impl Mail for CommandAnswer {
    fn kind(&self) -> MailKind {
        MailKind { rank: 0, most: 100 }
    }
}

/// Updates that a recording, and the commands to it, send to the screen.
#[derive(Debug)]
struct RecordingUpdates {
    events: MailReceiver<LiveEvent>,
    answers: MailReceiver<CommandAnswer>,
    /// The last snapshot, which came with the end of the recording.
    last: Option<Box<Snapshot>>,
    /// Number of the newest snapshot that was taken.
    shown: u64,
}

impl LiveUpdates for RecordingUpdates {
    fn on_arrival(&self, notify: Notify) {
        self.events.on_message(Arc::clone(&notify));
        self.answers.on_message(notify);
    }

    fn next(&mut self) -> Option<LiveUpdate> {
        if let Some(CommandAnswer(text)) = self.answers.take(|_| true) {
            return Some(LiveUpdate::Answer(text));
        }
        match self.events.take(|event| !matches!(event, LiveEvent::Snapshot(_)))? {
            LiveEvent::Snapshot(_) => None,
            LiveEvent::Status(status) => Some(LiveUpdate::Status(progress(&status))),
            LiveEvent::Notice(text) => Some(LiveUpdate::Notice(text)),
            LiveEvent::Ended(ended) => {
                let why = ended.failure.or(ending_words(&ended.snapshot.profile)).unwrap_or(ended.reason);
                self.last = Some(ended.snapshot);
                Some(LiveUpdate::Ended { why })
            }
        }
    }

    fn newest(&mut self) -> Option<Arc<Analysis>> {
        let sent = match self.events.take(|event| matches!(event, LiveEvent::Snapshot(_))) {
            Some(LiveEvent::Snapshot(snapshot)) => Some(snapshot),
            _ => None,
        };
        // A snapshot that came after the end has more names than the last one of the recording.
        let newest = sent.into_iter().chain(self.last.take()).max_by_key(|snapshot| snapshot.number)?;
        if newest.number <= self.shown {
            return None;
        }
        self.shown = newest.number;
        Some(Arc::new(picture(*newest)))
    }
}

fn progress(status: &Status) -> LiveStatus {
    LiveStatus { elapsed: status.elapsed, lost: status.lost }
}

fn picture(snapshot: Snapshot) -> Analysis {
    let cost = snapshot.cost;
    let late_cost = CpuShares::of(cost.cpu_ns, cost.bpf_ns, cost.length_ns);
    let recording = Recording {
        names_to_come: snapshot.unnamed,
        late_cost,
        ..Recording::new(snapshot.profile, snapshot.integrity)
    };
    Analysis::of(recording)
}

/// Carries out the user's commands to the recording, until the screen is gone.
fn carry_out(
    live: &Live,
    requests: &Receiver<LiveCommand>,
    output: &crate::record::Output,
    answers: &MailSender<CommandAnswer>,
) {
    for request in requests {
        let answer = match request {
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
        answers.send(CommandAnswer(answer));
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
