//! A recording that can be looked at while it runs.
//!
//! ```text
//! rings ─► recorder ─ news ─► keeper ─ newest snapshot ─► LiveEvents ─► whoever shows it
//!                               │ ▲
//!                         frames│ │names
//!                               ▼ │
//!                            thread pool
//! ```
//!
//! Nobody waits for the one behind: the recorder only hands over what is new, names are looked up beside, and a snapshot
//! that was not taken is replaced by the next one. Memory stays bounded: the past is merged, rows that nothing refers to
//! any more are dropped.

mod accounts;
mod archive;
mod delta;
pub(crate) mod downsample;
mod keeper;
mod mailbox;
mod recorder;
mod renumber;
mod save;
pub(crate) mod simulation;
mod stacks;

#[cfg(test)]
mod tests;

pub use downsample::Rollup;
pub use mailbox::LiveEvents;
pub use recorder::Attached;
pub use save::Saved;
pub use simulation::{Simulation, own_memory_kb};

use super::names::lookup::Names;
use super::options::{RecordOptions, Target};
use super::session::cost::CostOf;
use crate::base::privilege;
use crate::profile::{FrameId, Integrity, Profile};
use archive::Archive;
use keeper::{Keeper, Message, Request};
use recorder::Control;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a snapshot is made when nothing else is asked for.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest and the longest time between two snapshots.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// What a live recording tells.
#[derive(Debug)]
pub enum LiveEvent {
    /// What is known so far.
    Snapshot(Box<Snapshot>),
    /// How it goes, about every second.
    Status(Status),
    /// Something that the user should know.
    Notice(String),
    /// The recording has ended. Snapshots may follow when names come late.
    Ended(Ended),
}

/// Everything that was seen so far, ready to be shown. Times count from the start, or from when it was cleared.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Counts snapshots, from 1.
    pub number: u64,
    /// What was recorded, with an end record as if it ended now.
    pub profile: Profile,
    /// Nothing is missing.
    pub integrity: Integrity,
    /// How rollup the past is, youngest first; empty when all is as it was recorded.
    pub rollup: Vec<Rollup>,
    /// Samples and waits that were dropped because memory was short.
    pub dropped: u64,
    /// Nothing of before this time is left.
    pub begins: Duration,
    /// Frames whose names are still being read.
    pub unnamed: Vec<FrameId>,
    /// What it cost in the last ten seconds.
    pub cost: CostOf,
}

/// How a live recording goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Time since the start, or since it was cleared.
    pub elapsed: Duration,
    /// Samples and waits in this time.
    pub samples: u64,
    /// Samples lost in this time.
    pub lost: u64,
    /// Threads that were seen running.
    pub threads: u32,
    /// Sampling rate, Hz.
    pub hz: u32,
    /// How often a snapshot is made.
    pub interval: Duration,
}

/// How a live recording ended.
#[derive(Debug)]
pub struct Ended {
    /// Why: `target ended`, `command ended`, `stopped`, …
    pub reason: String,
    /// The last picture: with the waits that were not over, as `prof record` has them, unless the recording failed.
    pub snapshot: Box<Snapshot>,
    /// Exit status of a launched command that has ended, as a shell has it.
    pub command_status: Option<i32>,
    /// What went wrong, if that is why.
    pub failure: Option<String>,
}

/// A running recording. Dropping it ends it.
#[derive(Debug)]
pub struct Live {
    attached: Attached,
    events: LiveEvents,
    control: Arc<Control>,
    sender: Sender<Message>,
    threads: Vec<JoinHandle<()>>,
}

impl Live {
    /// Attaches to the target and begins to record. A launched command neither reads from the terminal nor writes to it.
    ///
    /// # Errors
    ///
    /// Those of `prof record`: nothing was started then.
    pub fn start(options: RecordOptions, command_line: Vec<String>) -> anyhow::Result<Live> {
        libbpf_rs::set_print(None);
        let launches = matches!(options.target, Target::Launch(_));
        let control = Arc::new(Control::default());
        let (sender, receiver) = channel();
        let (attached_sender, attached_receiver) = channel();
        crate::record::recorder::start_pool();
        let recorder = {
            let (control, sender) = (Arc::clone(&control), sender.clone());
            std::thread::Builder::new()
                .name("prof-recorder".to_owned())
                .spawn(move || recorder::run(&options, command_line, &control, &attached_sender, &sender))?
        };
        let attached = match attached_receiver.recv() {
            Ok(attached) => attached,
            Err(_) => Err(anyhow::anyhow!("the recording thread has failed")),
        };
        let attached = match attached {
            Ok(attached) => attached,
            Err(error) => {
                // It ends by itself.
                let _ = recorder.join();
                return Err(if launches { crate::record::recorder::before_start(error) } else { error });
            }
        };
        let events = LiveEvents::default();
        for notice in &attached.notices {
            events.send(LiveEvent::Notice(notice.clone()));
        }
        let names = names_for(&sender);
        let archive = Archive::new(attached.meta.clone(), attached.events.clone(), names);
        let keeper = Keeper::new(
            archive,
            events.clone(),
            Arc::clone(&control),
            sender.clone(),
            attached.meta.effective_hz,
        );
        let keeper = std::thread::Builder::new().name("prof-keeper".to_owned()).spawn(move || {
            crate::base::privilege::keep_watching_or_end();
            keeper.run(&receiver);
        });
        let mut live = Live { attached, events, control, sender, threads: vec![recorder] };
        // Without a keeper, dropping `live` ends the recorder.
        live.threads.push(keeper?);
        // What shows it has no need to look into processes.
        privilege::keep_own_files()?;
        Ok(live)
    }

    /// What is recorded.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// Where what it tells comes out.
    pub fn events(&self) -> LiveEvents {
        self.events.clone()
    }

    /// Makes a snapshot this often, within [`INTERVALS`].
    pub fn set_interval(&self, interval: Duration) {
        self.ask(Request::Interval(interval.clamp(INTERVALS.0, INTERVALS.1)));
    }

    /// Forgets what was seen so far: time begins anew.
    pub fn clear(&self) {
        self.ask(Request::Clear);
    }

    /// Ends the recording as the end of its target would. What was seen stays, and can be saved.
    pub fn stop(&self) {
        self.control.stop.store(true, Ordering::Relaxed);
    }

    fn ask(&self, request: Request) {
        // The keeper only ends with `self`, or by a panic that its thread has told of.
        let _ = self.sender.send(Message::Ask(request));
    }
}

/// Names whose answers go to the keeper.
fn names_for(keeper: &Sender<Message>) -> Names {
    let keeper = Mutex::new(keeper.clone());
    Names::to_be_shown(Arc::new(move |answer| {
        // The keeper may be gone, to whom the names matter.
        let _ = keeper.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Named(answer));
    }))
}

impl Drop for Live {
    fn drop(&mut self) {
        self.control.abandon.store(true, Ordering::Relaxed);
        self.ask(Request::Quit);
        for thread in self.threads.drain(..) {
            // A panic was told of when it happened.
            let _ = thread.join();
        }
    }
}
