//! The thread that records: it empties the rings as `prof record` does, and waits for no other thread.

use super::delta::{Cursor, Delta};
use super::message::{Message, RecorderEnd};
use crate::base::pace::{Pace, thread_cpu_time};
use crate::base::{opener, privilege};
use crate::profile::{EventInfo, Meta};
use crate::record::environment::descriptors;
use crate::record::live::control::Control;
use crate::record::options::{RecordOptions, Target};
use crate::record::services::TableCacheOrNot;
use crate::record::session::stop_reason::StopReason;
use crate::record::session::until_end::{GoesOn, RecordingLoop, Sink};
use crate::record::session::{Session, Start};
use crate::record::target::launch::Child;
use crate::record::target::run_as::RunAs;
use crate::record::target::search::FoundTarget;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Interval between looks at the living threads until the first snapshot has been made, which is for `EARLIEST`.
const EARLIEST_LOOKS: Duration = Duration::from_millis(75);
const EARLIEST: Duration = Duration::from_millis(300);
/// The same until the first few have been made, which is for `EARLY`.
const EARLY_LOOKS: Duration = Duration::from_millis(150);
const EARLY: Duration = Duration::from_millis(1200);
/// Looks may take one part in this many of a CPU.
const LOOK_REST: u32 = 250;
/// Interval between updates when nothing is new; otherwise they are sent at once.
const QUIET_INTERVAL: Duration = Duration::from_millis(300);

/// Facts that are known once a target is attached.
#[derive(Debug, Clone)]
pub(crate) struct Attached {
    /// Metadata of the recording.
    pub(crate) meta: Meta,
    /// Events that are recorded.
    pub(crate) events: Vec<EventInfo>,
    /// Notices for the user about decisions made at the start.
    pub(crate) notices: Vec<String>,
}

/// What a live recording begins with.
#[derive(Debug)]
pub(super) struct LiveStart<'a> {
    pub(super) options: &'a RecordOptions,
    /// The target, found.
    pub(super) found: &'a FoundTarget,
    /// The cache of unwind tables, or why there is none.
    pub(super) cache: TableCacheOrNot,
    /// The recorder's own command line.
    pub(super) command_line: Vec<String>,
}

/// Notifies the keeper when the recording thread panics: no more data will come after the last snapshot.
struct PanicNote<'a>(&'a Sender<Message>);

impl Drop for PanicNote<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let end = RecorderEnd {
                reason: "the recording failed".to_owned(),
                last_delta: None,
                command_status: None,
                command_signal: None,
                failure: Some(anyhow::anyhow!("the recording thread has failed")),
            };
            let _ = self.0.send(Message::Ended(Box::new(end)));
        }
    }
}

/// Attaches, sends the result to `attached`, and records until there is a reason to end. Updates go to `sender`.
pub(super) fn run(
    start: LiveStart<'_>,
    control: &Control,
    attached: &Sender<anyhow::Result<Attached>>,
    sender: &Sender<Message>,
) {
    let _note = PanicNote(sender);
    descriptors::raise_limit();
    let mut objects = [const { MaybeUninit::uninit() }; 2];
    let options = start.options;
    let has_launched = matches!(options.target, Target::Launch(_));
    let begun = begin(start, control, &mut objects);
    let (mut session, mut child) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // The receiver is gone, or gets the error.
            let _ = attached.send(Err(error));
            return;
        }
    };
    let profile = &session.collector.profile;
    let answer = Attached {
        meta: profile.meta.clone(),
        events: profile.events.iter().map(|event| event.info().clone()).collect(),
        notices: std::mem::take(&mut session.notices),
    };
    if attached.send(Ok(answer)).is_err() {
        return;
    }
    let mut cursor = Cursor::default();
    let duration = options.duration;
    let mut watch = RecordingLoop { session: &mut session, child: &mut child, has_launched, duration };
    let end = match watch.until_end(&mut LiveSink::new(control, &mut cursor, sender)) {
        Ok(Some(reason)) => last_delta(&mut session, &mut cursor, reason).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    if let Some(timer) = child.as_mut().filter(|_| !has_launched) {
        // The timer command has no further use.
        timer.signal(libc::SIGTERM);
        timer.wait();
    }
    if matches!(end, Ok(None)) {
        return;
    }
    session.halt();
    let launched = child.as_mut().filter(|_| has_launched);
    let end = recorder_end(end, launched);
    // The keeper may be gone already.
    let _ = sender.send(Message::Ended(Box::new(end)));
}

/// Begins to record; returns the recording, and the command that is recorded or used as its timer.
fn begin<'obj>(
    start: LiveStart<'_>,
    control: &Control,
    objects: &'obj mut [MaybeUninit<libbpf_rs::OpenObject>; 2],
) -> anyhow::Result<(Session<'obj>, Option<Child>)> {
    let LiveStart { options, found, cache, command_line } = start;
    let has_launched = matches!(options.target, Target::Launch(_));
    let user = RunAs::find(options.run_as.as_deref())?;
    let mut child =
        options.command().map(|command| Child::spawn_stopped_in_silence(command, user)).transpose()?;
    opener::name_command(child.as_ref().map(|child| child.pid))?;
    privilege::keep_attaching()?;
    let launched = child.as_ref().filter(|_| has_launched);
    let start = Start { options, found, launched, cache, command: command_line, is_watched: true };
    let mut session = Session::attach(objects, start)?;
    let command = launched.map(|child| child.pid);
    if let Some(pid) = command {
        session.add_launched(pid)?;
    }
    let of_heap = session.expect_heap(command)?;
    session.notices.extend(of_heap);
    let mut is_delay_over = true;
    if let Some(delay) = options.delay {
        let duration = options.duration;
        let mut watch = RecordingLoop { session: &mut session, child: &mut child, has_launched, duration };
        is_delay_over = watch.pass(delay, |_| is_asked_to_end(control))?;
    }
    session.begin(options.duration)?;
    if let Some(child) = &mut child {
        child.release()?;
    }
    let of_heap = session.begin_heap_of_command(command.filter(|_| is_delay_over))?;
    session.notices.extend(of_heap);
    privilege::keep_recording()?;
    Ok((session, child))
}

/// Returns the end of the recording and of the recorded command.
fn recorder_end(end: anyhow::Result<Option<Box<Delta>>>, launched: Option<&mut Child>) -> RecorderEnd {
    let (command_status, command_signal) =
        launched.map_or((None, None), |child| (child.poll(), child.killed_by()));
    match end {
        Ok(delta) => RecorderEnd {
            reason: delta.as_ref().map(|delta| delta.end.reason.clone()).unwrap_or_default(),
            last_delta: delta,
            command_status,
            command_signal,
            failure: None,
        },
        Err(error) => RecorderEnd {
            reason: "the recording failed".to_owned(),
            last_delta: None,
            command_status,
            command_signal,
            failure: Some(error),
        },
    }
}

/// Whether the user of a live view wants the recording to end, or the live view is gone.
fn is_asked_to_end(control: &Control) -> GoesOn {
    if control.abandon.load(Ordering::Relaxed) {
        return ControlFlow::Break(None);
    }
    match control.stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(Some(StopReason::Stopped)),
        false => ControlFlow::Continue(()),
    }
}

/// The sink for updates to the keeper.
struct LiveSink<'a> {
    control: &'a Control,
    cursor: &'a mut Cursor,
    sender: &'a Sender<Message>,
    begun: Instant,
    last_sent: Instant,
    next_look: Instant,
    pace: Pace,
}

impl<'a> LiveSink<'a> {
    fn new(control: &'a Control, cursor: &'a mut Cursor, sender: &'a Sender<Message>) -> Self {
        let (begun, pace) = (Instant::now(), Pace::new(LOOK_REST));
        LiveSink { control, cursor, sender, begun, last_sent: begun, next_look: begun + EARLIEST_LOOKS, pace }
    }

    /// Looks at the living threads if that is due or the archive is cleared; returns whether it did.
    fn look(&mut self, session: &mut Session<'_>, resets: bool) -> anyhow::Result<bool> {
        let now = Instant::now();
        if !resets && (now < self.next_look || !self.pace.left(now).is_zero()) {
            return Ok(false);
        }
        let before = thread_cpu_time();
        session.watch_threads()?;
        self.pace.worked(thread_cpu_time().saturating_sub(before), Instant::now());
        if resets {
            self.begun = now;
        }
        self.next_look = now
            + match now - self.begun {
                age if age < EARLIEST => EARLIEST_LOOKS,
                age if age < EARLY => EARLY_LOOKS,
                _ => self.control.interval(),
            };
        // Take the stacks of newly found threads.
        session.take()?;
        Ok(true)
    }
}

impl Sink for LiveSink<'_> {
    fn is_asked_to_end(&mut self, _: Option<&Child>) -> GoesOn {
        is_asked_to_end(self.control)
    }

    fn take(&mut self, session: &mut Session<'_>) -> anyhow::Result<GoesOn> {
        let resets = self.control.reset.swap(false, Ordering::Relaxed);
        let has_looked = self.look(session, resets)?;
        let profile = &session.collector.profile;
        let is_quiet = !has_looked
            && profile.events.iter().all(crate::profile::Event::is_empty)
            && profile.thread_times.is_empty()
            && session.notices.is_empty();
        if is_quiet && self.last_sent.elapsed() < QUIET_INTERVAL {
            return Ok(ControlFlow::Continue(()));
        }
        self.last_sent = Instant::now();
        let delta = self.cursor.take(session, resets)?;
        let is_wanted = self.sender.send(Message::Delta(Box::new(delta))).is_ok();
        Ok(if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(None) })
    }
}

/// Stops the recording; returns the last update, which includes the waits that were not over.
fn last_delta(
    session: &mut Session<'_>,
    cursor: &mut Cursor,
    reason: StopReason,
) -> anyhow::Result<Box<Delta>> {
    session.stop(&reason.text())?;
    Ok(Box::new(cursor.take(session, false)?))
}
