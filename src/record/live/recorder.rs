//! The thread that records: it empties the rings as `prof record` does, and waits for no one.

use super::delta::{Cursor, Delta};
use super::message::{Message, RecorderEnd};
use crate::base::pace::{Pace, thread_cpu_time};
use crate::base::privilege;
use crate::profile::{EventInfo, Meta};
use crate::record::environment::descriptors;
use crate::record::live::control::Control;
use crate::record::options::{RecordOptions, Target};
use crate::record::recorder::PATIENCE;
use crate::record::session::stop_reason::StopReason;
use crate::record::session::{Session, Start};
use crate::record::target::launch::{Child, files_to_preload};
use crate::record::target::search;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Until the first pictures have been made the threads that live are looked at this often.
const EARLY_LOOKS: Duration = Duration::from_millis(150);
const EARLY: Duration = Duration::from_millis(1200);
/// Looks are not worth more of a CPU than one part of so many.
const LOOK_REST: u32 = 250;
/// What is new is handed over at once; that nothing is new, this often.
const QUIET_INTERVAL: Duration = Duration::from_millis(300);

/// What is known once a target is attached.
#[derive(Debug, Clone)]
pub struct Attached {
    /// Facts about the recording.
    pub meta: Meta,
    /// What is recorded.
    pub events: Vec<EventInfo>,
    /// What was decided at the start that the user should know.
    pub notices: Vec<String>,
}

/// Tells the keeper when the recording thread panics: its last picture is all there will be.
struct PanicNote<'a>(&'a Sender<Message>);

impl Drop for PanicNote<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let end = RecorderEnd {
                reason: "the recording failed".to_owned(),
                news: None,
                command_status: None,
                command_signal: None,
                failure: Some(anyhow::anyhow!("the recording thread has failed")),
            };
            let _ = self.0.send(Message::Ended(Box::new(end)));
        }
    }
}

/// Attaches, says so or why not by `attached`, and records until there is a reason to end. News go to `sender`.
pub(super) fn run(
    options: &RecordOptions,
    command_line: Vec<String>,
    control: &Control,
    attached: &Sender<anyhow::Result<Attached>>,
    sender: &Sender<Message>,
) {
    let _note = PanicNote(sender);
    descriptors::raise_limit();
    let mut objects = [const { MaybeUninit::uninit() }; 2];
    let has_launched = matches!(options.target, Target::Launch(_));
    let begun = search::find(options).and_then(|found| {
        let mut child = match (&options.target, &options.timer) {
            (Target::Launch(command), _) | (_, Some(command)) => {
                Some(Child::spawn_stopped_in_silence(command)?)
            }
            _ => None,
        };
        privilege::keep_attaching()?;
        let launched = child.as_ref().filter(|_| has_launched);
        let preload = launched.map(|child| files_to_preload(&child.program)).unwrap_or_default();
        let start = Start { options, found: &found, preload, command: command_line, is_watched: true };
        let mut session = Session::attach(&mut objects, start)?;
        if let Some(child) = launched {
            session.add_launched(child.pid)?;
        }
        if let Some(delay) = options.delay {
            pass(delay, control, &mut session, &mut child, has_launched)?;
        }
        session.begin(options.duration)?;
        if let Some(child) = &mut child {
            child.release()?;
        }
        session.prefer_reader();
        privilege::keep_recording()?;
        Ok((session, child))
    });
    let (mut session, mut child) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // Who asked is gone, or hears of it.
            let _ = attached.send(Err(error));
            return;
        }
    };
    let profile = &session.collector.profile;
    let news = Attached {
        meta: profile.meta.clone(),
        events: profile.events.iter().map(|event| event.info().clone()).collect(),
        notices: std::mem::take(&mut session.notices),
    };
    if attached.send(Ok(news)).is_err() {
        return;
    }
    let mut cursor = Cursor::default();
    let end = match until_its_end(options, control, &mut session, &mut child, &mut cursor, sender) {
        Ok(Some(reason)) => last_news(&mut session, &mut cursor, reason).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    if let Some(timer) = child.as_mut().filter(|_| !has_launched) {
        // It has no further use.
        timer.signal(libc::SIGTERM);
        timer.wait();
    }
    if matches!(end, Ok(None)) {
        return;
    }
    session.halt();
    let launched = child.as_mut().filter(|_| has_launched);
    let (command_status, command_signal) =
        launched.map_or((None, None), |child| (child.poll(), child.killed_by()));
    let end = match end {
        Ok(news) => RecorderEnd {
            reason: news.as_ref().map(|delta| delta.end.reason.clone()).unwrap_or_default(),
            news,
            command_status,
            command_signal,
            failure: None,
        },
        Err(error) => RecorderEnd {
            reason: "the recording failed".to_owned(),
            news: None,
            command_status,
            command_signal,
            failure: Some(error),
        },
    };
    // No one is there to hear it when everything ends.
    let _ = sender.send(Message::Ended(Box::new(end)));
}

/// Lets time pass before sampling begins; the command, if there is one, already runs.
fn pass(
    delay: Duration,
    control: &Control,
    session: &mut Session<'_>,
    child: &mut Option<Child>,
    has_launched: bool,
) -> anyhow::Result<()> {
    if let Some(child) = child {
        child.release()?;
    }
    let end = Instant::now() + delay;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let has_ended = child.as_mut().is_some_and(|child| child.poll().is_some())
            || (!has_launched && session.target_has_ended());
        if has_ended || control.abandon.load(Ordering::Relaxed) {
            break;
        }
        session.wait(left.min(PATIENCE), &[])?;
    }
    Ok(())
}

/// Hands over what is new until there is a reason to end; `None` when no one wants to know.
fn until_its_end(
    options: &RecordOptions,
    control: &Control,
    session: &mut Session<'_>,
    child: &mut Option<Child>,
    cursor: &mut Cursor,
    sender: &Sender<Message>,
) -> anyhow::Result<Option<StopReason>> {
    let mut begun = Instant::now();
    let mut last_news = begun;
    let mut next_look = begun + EARLY_LOOKS;
    let mut pace = Pace::new(LOOK_REST);
    loop {
        if control.abandon.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if control.stop.load(Ordering::Relaxed) {
            return Ok(Some(StopReason::Stopped));
        }
        if child.as_mut().is_some_and(|child| child.poll().is_some()) {
            return Ok(Some(StopReason::CommandEnded));
        }
        if !matches!(options.target, Target::Launch(_)) && session.target_has_ended() {
            return Ok(Some(StopReason::TargetEnded));
        }
        if options.duration.is_some_and(|duration| session.elapsed() >= duration) {
            return Ok(Some(StopReason::DurationReached));
        }
        let others: Vec<_> = child.iter().filter_map(Child::ended_fd).collect();
        session.wait(PATIENCE, &others)?;
        let now = Instant::now();
        let resets = control.reset.swap(false, Ordering::Relaxed);
        let has_looked = resets || (now >= next_look && pace.left(now).is_zero());
        if has_looked {
            let before = thread_cpu_time();
            session.watch_threads()?;
            pace.worked(thread_cpu_time().saturating_sub(before), Instant::now());
            if resets {
                begun = now;
            }
            next_look = now + if now - begun < EARLY { EARLY_LOOKS } else { control.interval() };
            // The stacks of those that are new.
            session.take()?;
        }
        let profile = &session.collector.profile;
        let is_quiet = !has_looked
            && profile.events.iter().all(crate::profile::Event::is_empty)
            && profile.thread_times.is_empty()
            && session.notices.is_empty();
        if is_quiet && last_news.elapsed() < QUIET_INTERVAL {
            continue;
        }
        last_news = Instant::now();
        let delta = cursor.take(session, resets)?;
        if sender.send(Message::Delta(Box::new(delta))).is_err() {
            return Ok(None);
        }
    }
}

/// Stops; returns what has come since the last news, waits that were not over among it.
fn last_news(
    session: &mut Session<'_>,
    cursor: &mut Cursor,
    reason: StopReason,
) -> anyhow::Result<Box<Delta>> {
    session.stop(&reason.text())?;
    Ok(Box::new(cursor.take(session, false)?))
}
