//! The thread that keeps what was seen, has it named and merged, and makes the snapshots that are shown.

use super::archive::Archive;
use super::control::Control;
use super::delta::Delta;
use super::events::{Ended, LiveEvent, Snapshot, Status};
use crate::base::mailbox::MailSender;
use crate::profile::{End, FrameId, Integrity, Profile, counter};
use crate::record::live::message::{LiveRequest, Message, RecorderEnd};
use crate::record::names::lookup::Urgency;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Time after the start when the first snapshot is made, if it has samples, and all have names.
const FIRST_EARLY: Duration = Duration::from_millis(120);
/// Time after the start when the first snapshot is made even without names, if it has samples.
const FIRST_UNNAMED: Duration = Duration::from_millis(300);
/// Time after the start when the first snapshot is made in any case.
const FIRST_LATE: Duration = Duration::from_millis(600);
/// While names are missing, the first few snapshots follow each other at this interval.
const UNNAMED_INTERVAL: Duration = Duration::from_millis(300);
const UNNAMED_PICTURES: u64 = 3;
/// Interval between status events.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a status waits for a snapshot that is about to be made.
const STATUS_PATIENCE: Duration = Duration::from_millis(250);
/// Interval at which the past is merged.
const DOWNSAMPLE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of intervals after which a snapshot is made even if there is nothing new.
const QUIET_INTERVALS: u32 = 10;
/// Time after a look at the threads in which the first snapshot may be made: the names of what the look found take a while.
const FIRST_LOOK_AGE: Duration = Duration::from_millis(100);
/// Time that a snapshot waits for a look at the threads.
const LOOK_PATIENCE: Duration = Duration::from_secs(3);
/// Time that the last snapshot waits for names.
const LAST_NAMES: Duration = Duration::from_secs(3);
/// Number of table rows above which unused rows are looked for.
const MANY_TABLE_ROWS: usize = 1 << 19;

/// Notice for when new stacks are no longer kept whole.
const STACKS_DIFFER: &str = "stacks hardly ever repeat: new ones keep only outer and inner frames, and less than a minute is kept in full";

/// The occasion for which a snapshot may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The living threads have just been looked at.
    Look,
    Other,
}

/// The keeper's state.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(crate) archive: Archive,
    pub(crate) events: MailSender<LiveEvent>,
    pub(crate) control: Arc<Control>,
    /// Sender of messages to this keeper.
    sender: Sender<Message>,
    hz: u32,
    interval: Duration,
    started: Instant,
    last_snapshot: Option<Instant>,
    last_status: Option<Instant>,
    last_downsampling: Instant,
    last_look: Option<Instant>,
    snapshots: u64,
    /// Whether the last snapshot was made while names were missing.
    lacks_names: bool,
    /// Whether to clear the archive after the next look at the threads.
    clears_at_look: bool,
    /// Number of table rows when unused ones were dropped last.
    table_rows: usize,
    end: Option<(Box<RecorderEnd>, Instant)>,
    is_end_sent: bool,
    /// Snapshots that wait for names, and where to send them.
    incomplete: Vec<(Box<Profile>, Sender<Box<Profile>>)>,
    /// Messages sent about names that were not read, each once, because the map of a process is read again and again.
    refused: BTreeSet<String>,
}

impl Keeper {
    /// Makes a keeper of `archive` that sends its events to `events`.
    pub(super) fn new(
        archive: Archive,
        events: MailSender<LiveEvent>,
        control: Arc<Control>,
        sender: Sender<Message>,
        hz: u32,
    ) -> Self {
        Keeper {
            archive,
            events,
            control,
            sender,
            hz,
            interval: super::events::DEFAULT_INTERVAL,
            started: Instant::now(),
            last_snapshot: None,
            last_status: None,
            last_downsampling: Instant::now(),
            last_look: None,
            snapshots: 0,
            lacks_names: false,
            clears_at_look: false,
            table_rows: 0,
            end: None,
            is_end_sent: false,
            incomplete: Vec::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Works until it is asked to quit.
    pub(super) fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            let patience = self.next_due().saturating_duration_since(Instant::now());
            let mut next = match receiver.recv_timeout(patience) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            while let Some(message) = next {
                if matches!(message, Message::Ask(LiveRequest::Quit)) {
                    return;
                }
                self.take(message);
                next = receiver.try_recv().ok();
            }
            self.work();
        }
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Delta(delta) => self.apply(*delta),
            Message::Named(mut answer) => {
                if let Some(refused) =
                    answer.refused.take().filter(|refused| self.refused.insert(refused.clone()))
                {
                    self.events.send(LiveEvent::Notice(refused));
                }
                let named = self.archive.names.take(answer);
                self.archive.name(named);
            }
            Message::Downsampled(downsampling) => {
                self.last_downsampling = Instant::now();
                if let Some(notice) = self.archive.end_downsampling(*downsampling) {
                    self.events.send(LiveEvent::Notice(notice));
                }
            }
            Message::Ask(LiveRequest::Clear) => {
                self.archive.clear();
                self.control.reset.store(true, Ordering::Relaxed);
                self.clears_at_look = self.archive.is_looked_at();
                // The user sees the effect at once, and new data as soon as at the start.
                self.show();
                (self.started, self.last_snapshot) = (Instant::now(), None);
            }
            Message::Ask(LiveRequest::Interval(interval)) => {
                self.interval = interval;
                self.control.interval_ms.store(interval.as_millis() as u64, Ordering::Relaxed);
            }
            Message::Ask(LiveRequest::Complete(profile, reply)) => self.incomplete.push((profile, reply)),
            Message::Ask(LiveRequest::Quit) => {}
            Message::Ended(mut end) => {
                if let Some(last_delta) = end.last_delta.take() {
                    self.apply(*last_delta);
                    self.archive.forget_living();
                }
                self.end = Some((end, Instant::now()));
            }
        }
    }

    fn apply(&mut self, mut delta: Delta) {
        for notice in delta.notices.drain(..) {
            self.events.send(LiveEvent::Notice(notice));
        }
        let (was_reset, has_looked) = (delta.was_reset, delta.living.is_some());
        let were_whole = self.archive.has_whole_stacks();
        self.archive.apply(delta);
        if were_whole && !self.archive.has_whole_stacks() {
            self.events.send(LiveEvent::Notice(STACKS_DIFFER.to_owned()));
        }
        self.last_look = if has_looked { Some(Instant::now()) } else { self.last_look };
        if has_looked && std::mem::take(&mut self.clears_at_look) {
            // Clear once more: only after a look is it known what every thread has done so far.
            self.archive.clear();
        }
        // Right after a look at the threads, everything in a snapshot is from the same moment.
        if has_looked && self.end.is_none() && self.is_snapshot_due(Moment::Look) {
            self.show();
        }
        let rows = self.archive.table_rows();
        if was_reset {
            self.table_rows = rows;
        } else if rows > MANY_TABLE_ROWS && rows > 2 * self.table_rows {
            self.control.reset.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the time at which there is something to do next if no message comes.
    fn next_due(&self) -> Instant {
        if self.is_end_sent {
            return Instant::now() + Duration::from_secs(60);
        }
        let status = self.last_status.map_or(self.started, |last| last + self.status_interval());
        let snapshot = match self.last_snapshot {
            Some(last) => last + self.patience(),
            None => Instant::now() + Duration::from_millis(20),
        };
        let names = self.archive.names.next_due().unwrap_or(status);
        // Something that is due may have to wait for something else.
        status.min(snapshot).min(names).max(Instant::now() + Duration::from_millis(5))
    }

    pub(super) fn work(&mut self) {
        let may_wait = self.end.is_none() && self.incomplete.is_empty();
        self.archive.names.look_up(if may_wait { Urgency::Whenever } else { Urgency::Now });
        if self.archive.names.is_idle() {
            for (mut profile, reply) in self.incomplete.drain(..) {
                self.archive.add_names(&mut profile);
                // The thread that asked may be gone.
                let _ = reply.send(profile);
            }
        }
        if self.last_downsampling.elapsed() >= DOWNSAMPLE_INTERVAL || self.archive.is_full() {
            self.downsample();
        }
        if self.end.is_some() {
            self.send_end();
            return;
        }
        if self.last_status.is_none_or(|last| last.elapsed() >= self.status_interval()) {
            self.send_status();
        }
        if self.is_snapshot_due(Moment::Other) {
            self.show();
        }
    }

    /// Time after a status until the next one, if no snapshot is made before.
    fn status_interval(&self) -> Duration {
        if self.archive.has_changes() { STATUS_INTERVAL + STATUS_PATIENCE } else { STATUS_INTERVAL }
    }

    /// Sends a snapshot of everything so far together with the status, so that the screen is drawn only once.
    fn show(&mut self) {
        let snapshot = self.snapshot();
        self.events.send(LiveEvent::Snapshot(Box::new(snapshot)));
        if self.end.is_none() {
            self.send_status();
        }
    }

    /// Merges the past on another thread, while everything else goes on.
    fn downsample(&mut self) {
        let Some(mut downsampling) = self.archive.begin_downsampling() else { return };
        let sender = self.sender.clone();
        rayon::spawn(move || {
            downsampling.run();
            // The keeper may be gone.
            let _ = sender.send(Message::Downsampled(Box::new(downsampling)));
        });
    }

    fn is_snapshot_due(&self, moment: Moment) -> bool {
        let is_first = self.last_snapshot.is_none();
        let has_just_looked = self.last_look.is_some_and(|look| look.elapsed() < FIRST_LOOK_AGE);
        let patience = match moment {
            Moment::Look => Duration::ZERO,
            Moment::Other if self.archive.is_looked_at() && !(is_first && has_just_looked) => LOOK_PATIENCE,
            Moment::Other => Duration::ZERO,
        };
        let Some(last) = self.last_snapshot else {
            let age = self.started.elapsed();
            let is_named = self.archive.names.is_idle();
            let is_early = age >= patience + if is_named { FIRST_EARLY } else { FIRST_UNNAMED };
            return (is_early && self.archive.rows() > 0) || age >= patience + FIRST_LATE;
        };
        match moment {
            // Looks come at the interval of snapshots, give or take their duration.
            Moment::Look => last.elapsed() >= self.patience() / 4 * 3,
            Moment::Other => last.elapsed() >= self.patience() + patience,
        }
    }

    /// Interval until the next snapshot.
    fn patience(&self) -> Duration {
        match self.archive.has_changes() {
            true if self.lacks_names && self.snapshots <= UNNAMED_PICTURES => {
                self.interval.min(UNNAMED_INTERVAL)
            }
            true => self.interval,
            false => self.interval * QUIET_INTERVALS,
        }
    }

    fn reason(&self) -> &str {
        self.end.as_ref().map_or(End::STILL_RECORDING, |(end, _)| &end.reason)
    }

    /// Makes a snapshot of everything so far.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.archive.clear_changes();
        self.last_snapshot = Some(Instant::now());
        self.snapshots += 1;
        let mut profile = self.archive.profile(self.reason());
        if let (Some((recorder, _)), Some(end)) = (&self.end, &mut profile.end) {
            (end.command_status, end.command_signal) = (recorder.command_status, recorder.command_signal);
        }
        if let Some(end) = &mut profile.end {
            end.notices.extend(self.refused.iter().cloned());
        }
        profile.count(counter::PERF_MAPS_REFUSED, self.refused.len() as u64);
        let unnamed: Vec<FrameId> = self.archive.names.to_come().collect();
        self.lacks_names = !unnamed.is_empty();
        Snapshot {
            number: self.snapshots,
            profile,
            integrity: Integrity { is_complete: true, ..Integrity::default() },
            unnamed,

            cost: self.archive.cost_of_late(),
        }
    }

    fn send_status(&mut self) {
        self.last_status = Some(Instant::now());
        self.events.send(LiveEvent::Status(Status {
            elapsed: Duration::from_nanos(self.archive.duration_ns()),
            samples: self.archive.observed(),
            lost: self.archive.lost(),
            threads: self.archive.threads(),
            hz: self.hz,
            interval: self.interval,
        }));
    }

    /// Sends the end once all names are there, or do not come in time; names that come later make another snapshot.
    fn send_end(&mut self) {
        let Some((end, since)) = &self.end else { return };
        if self.is_end_sent {
            if self.archive.has_changes() {
                self.show();
            }
            return;
        }
        if !self.archive.names.is_idle() && since.elapsed() < LAST_NAMES {
            return;
        }
        let (reason, command_status) = (end.reason.clone(), end.command_status);
        let failure = end.failure.as_ref().map(|error| format!("{error:#}"));
        self.is_end_sent = true;
        self.send_status();
        let snapshot = Box::new(self.snapshot());
        self.events.send(LiveEvent::Ended(Ended { reason, snapshot, command_status, failure }));
    }
}
