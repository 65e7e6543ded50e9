//! Snapshots of all goroutines of Go programs, taken on a thread of their own while the programs run on.
//!
//! Time is cut into equal slots, and each has one snapshot at a random moment in it: a goroutine that is found waiting is
//! weighted as waiting for the length of a slot.

use super::program::GoroutineLabels;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::runtimes::go::{GoLayout, GoSnapshotOptions, GoStackEnd, GoState, Goroutine, GoroutineSnapshot};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Snapshots a second.
pub(crate) const SNAPSHOT_HZ: u64 = 15;
/// Length of a slot, ns.
const SLOT_NS: u64 = 1_000_000_000 / SNAPSHOT_HZ;
/// Cost of reading a goroutine before any was read, ns of CPU time.
const FIRST_COST_NS: u64 = 4_000;
/// Fewest goroutines of all programs together that a snapshot reads, whatever they cost.
const FEWEST_GOROUTINES: u64 = 64;
/// Part of the overhead that is allowed which reading may use: the rest is for what is made of it.
const SHARE_OF_READING: u64 = 2;
/// Longest sleep before the thread looks whether it is to end.
const NAP: Duration = Duration::from_millis(20);
/// Addresses of a stack.
const MOST_FRAMES: usize = 512;

/// Starts of functions and the end of the last, the module's own addresses in ascending order.
pub(crate) type GoFunctionStarts = Arc<[u64]>;

/// A program whose goroutines are read.
#[derive(Debug)]
pub(super) struct SnapshotTarget {
    pub(super) pid: u32,
    pub(super) memory: ProcessMemory,
    pub(super) layout: Arc<GoLayout>,
    pub(super) starts: GoFunctionStarts,
    /// Difference between process addresses and those of the file.
    pub(super) bias: u64,
}

/// Process addresses of the function around one, of a program that is mapped with a bias.
pub(super) fn function_around(starts: &[u64], bias: u64, address: u64) -> Option<Range<u64>> {
    let own = address.wrapping_sub(bias);
    let after = starts.partition_point(|start| *start <= own);
    let (start, end) = (starts.get(after.checked_sub(1)?)?, starts.get(after)?);
    Some(start.wrapping_add(bias)..end.wrapping_add(bias))
}

/// Goroutines that a snapshot has found in one state, at one place and with the same labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundGoroutines {
    /// Process addresses, leaf first: where they go on, then return addresses. Empty for those that run.
    pub(crate) addresses: Vec<u64>,
    /// Whether the first address is a return address, too.
    pub(crate) is_in_call: bool,
    pub(crate) end: GoStackEnd,
    /// Their state, or what they wait for. Foreign text.
    pub(crate) state: String,
    /// Labels that the program gave them.
    pub(crate) labels: GoroutineLabels,
    pub(crate) count: u64,
}

/// A snapshot of the goroutines of one process.
#[derive(Debug, Default)]
pub(crate) struct TakenSnapshot {
    pub(crate) pid: u32,
    /// Number of the slot, from the start of the recording, and its start, CLOCK_MONOTONIC, ns.
    pub(crate) slot: u64,
    pub(crate) start_ns: u64,
    /// Time at which it was taken, CLOCK_MONOTONIC, ns.
    pub(crate) time_ns: u64,
    /// Time that a goroutine which was found is weighted as, ns.
    pub(crate) weight_ns: u64,
    /// Length of time that the snapshot is of, ns.
    pub(crate) span_ns: u64,
    pub(crate) rows: Vec<FoundGoroutines>,
    /// Goroutines that were read, that were left out to keep to the cost, that ran while they were read, and that could not
    /// be read.
    pub(crate) read: u64,
    pub(crate) skipped: u64,
    pub(crate) changed: u64,
    pub(crate) unreadable: u64,
    /// Goroutines without the labels that they have, since these are too many.
    pub(crate) unlabelled: u64,
    /// Slots before it that have no snapshot.
    pub(crate) missed: u64,
    /// CPU time that it took, ns.
    pub(crate) cpu_ns: u64,
    /// Snapshots before it that were dropped, since no one took them in time.
    pub(crate) lost: u64,
}

/// Snapshots that are kept until someone takes them.
const MOST_KEPT: usize = 64;

/// What becomes of the programs that are read.
#[derive(Debug)]
enum TargetChange {
    Add(SnapshotTarget),
    Remove(u32),
}

/// The thread that takes snapshots.
#[derive(Debug)]
pub(super) struct Snapshots {
    changes: Sender<TargetChange>,
    taken: Receiver<TakenSnapshot>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Snapshots {
    /// Starts to take snapshots of the programs that are added, which cost at most `overhead_ppm` of a CPU. Slots begin at
    /// `start_ns`; no snapshot is taken after `end_ns`.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(super) fn start(overhead_ppm: u32, start_ns: u64, end_ns: Option<u64>) -> io::Result<Self> {
        let (sender_of_changes, changes) = channel();
        let (sender, taken) = sync_channel(MOST_KEPT);
        let is_over = Arc::new(AtomicBool::new(false));
        let worker = SnapshotWorker {
            start_ns,
            end_ns: end_ns.unwrap_or(u64::MAX),
            changes,
            targets: Vec::new(),
            taken: sender,
            is_over: Arc::clone(&is_over),
            budget_ns: budget_ns(overhead_ppm),
            cost_ns: FIRST_COST_NS,
            lost: 0,
        };
        let thread = std::thread::Builder::new().name("prof-goroutines".to_owned());
        let thread = thread.spawn(move || worker.run())?;
        Ok(Snapshots { changes: sender_of_changes, taken, is_over, thread: Some(thread) })
    }

    /// Has goroutines of a program read from now on.
    pub(super) fn add(&self, target: SnapshotTarget) {
        // The thread may have ended.
        let _ = self.changes.send(TargetChange::Add(target));
    }

    /// Has goroutines of a process not be read any more: it runs another program.
    pub(super) fn remove(&self, pid: u32) {
        let _ = self.changes.send(TargetChange::Remove(pid));
    }

    /// The snapshots that were taken meanwhile.
    pub(super) fn take(&self) -> Vec<TakenSnapshot> {
        self.taken.try_iter().collect()
    }

    /// Takes no more snapshots.
    pub(super) fn stop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has no result, and its panic was reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.stop();
    }
}

/// CPU time that a snapshot may take, ns; `None` without a limit.
fn budget_ns(overhead_ppm: u32) -> Option<u64> {
    let budget = SLOT_NS * u64::from(overhead_ppm) / 1_000_000 / SHARE_OF_READING;
    (overhead_ppm > 0).then_some(budget)
}

/// State of the thread.
struct SnapshotWorker {
    start_ns: u64,
    end_ns: u64,
    changes: Receiver<TargetChange>,
    targets: Vec<SnapshotTarget>,
    taken: SyncSender<TakenSnapshot>,
    is_over: Arc<AtomicBool>,
    budget_ns: Option<u64>,
    /// CPU time that reading a goroutine took lately, ns.
    cost_ns: u64,
    /// Snapshots that no one took in time.
    lost: u64,
}

impl SnapshotWorker {
    fn run(mut self) {
        let mut next_slot = 0;
        loop {
            let due_ns = self.start_ns + next_slot * SLOT_NS + jitter_ns(next_slot);
            if due_ns >= self.end_ns || !self.sleep_until(due_ns) {
                return;
            }
            self.change_targets();
            // Of slots whose moments have passed meanwhile there is no snapshot: this one counts for them, too.
            let missed = monotonic_ns().saturating_sub(due_ns) / SLOT_NS;
            self.take_all(next_slot, missed);
            next_slot += missed + 1;
        }
    }

    /// Takes note of programs that came and went. Memory that a process shares with its parent outlives it.
    fn change_targets(&mut self) {
        for change in self.changes.try_iter() {
            let (TargetChange::Remove(pid) | TargetChange::Add(SnapshotTarget { pid, .. })) = change;
            self.targets.retain(|known| known.pid != pid);
            if let TargetChange::Add(target) = change {
                self.targets.push(target);
            }
        }
        let lives = |pid: u32| {
            Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
        };
        self.targets.retain(|target| lives(target.pid));
    }

    /// Returns whether there is more to do.
    fn sleep_until(&self, due_ns: u64) -> bool {
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            let left = Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()));
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    fn take_all(&mut self, slot: u64, missed: u64) {
        let share = self.targets.len().max(1) as u64;
        let most = self.budget_ns.map_or(u64::MAX, |budget| (budget / self.cost_ns).max(FEWEST_GOROUTINES));
        let most = usize::try_from((most / share).max(1)).unwrap_or(usize::MAX);
        let (mut read, mut all_ns, mut gone) = (0, 0, Vec::new());
        for target in &self.targets {
            let span_ns = SLOT_NS * (missed + 1);
            let start_ns = self.start_ns + slot * SLOT_NS;
            let empty = TakenSnapshot {
                pid: target.pid,
                slot,
                start_ns,
                time_ns: monotonic_ns(),
                span_ns,
                missed,
                ..Default::default()
            };
            let before_ns = thread_cpu_ns();
            let Some(taken) = take(target, most, empty) else {
                gone.push(target.pid);
                continue;
            };
            let cpu_ns = thread_cpu_ns().saturating_sub(before_ns);
            (read, all_ns) = (read + taken.read, all_ns + cpu_ns);
            let lost = std::mem::take(&mut self.lost);
            let taken = TakenSnapshot { cpu_ns, lost, ..taken };
            if self.taken.try_send(taken).is_err() {
                self.lost += 1;
            }
        }
        self.targets.retain(|target| !gone.contains(&target.pid));
        if let Some(cost_ns) = u64::checked_div(all_ns, read) {
            self.cost_ns = ((3 * self.cost_ns + cost_ns) / 4).max(1);
        }
    }
}

/// What goroutines of one row have in common: their stack and its end, their state and their labels.
type FoundKey<'s> = (&'s [u64], GoStackEnd, &'s str, &'s [(String, String)]);

/// Takes the snapshot of one process, of at most so many goroutines. `None` if the process has ended.
fn take(target: &SnapshotTarget, most: usize, empty: TakenSnapshot) -> Option<TakenSnapshot> {
    let options = GoSnapshotOptions {
        most_goroutines: most,
        most_frames: MOST_FRAMES,
        seed: empty.slot,
        ..Default::default()
    };
    let function_around = |address| function_around(&target.starts, target.bias, address);
    let snapshot = GoroutineSnapshot::take(&target.memory, &target.layout, &options, &function_around)?;
    let mut numbers: FxHashMap<FoundKey<'_>, u64> = FxHashMap::default();
    for goroutine in &snapshot.goroutines {
        let state = state_text(goroutine, &target.layout);
        let (addresses, labels) = (snapshot.pcs(goroutine), snapshot.labels(goroutine));
        *numbers.entry((addresses, goroutine.stack_end, state, labels)).or_default() += 1;
    }
    let mut rows: Vec<FoundGoroutines> = (numbers.into_iter())
        .map(|((addresses, end, state, labels), count)| FoundGoroutines {
            addresses: addresses.to_vec(),
            // One that has not run yet goes on at the start of its first function.
            is_in_call: addresses.len() > 2 || state != RUNNABLE,
            end,
            state: state.to_owned(),
            labels: labels.to_vec(),
            count,
        })
        .collect();
    rows.sort_by(|a, b| (&a.state, &a.addresses, &a.labels).cmp(&(&b.state, &b.addresses, &b.labels)));
    Some(TakenSnapshot {
        rows,
        weight_ns: (empty.span_ns as f64 * snapshot.weight()) as u64,
        read: snapshot.goroutines.len() as u64,
        skipped: snapshot.listed.saturating_sub(snapshot.chosen) as u64,
        changed: snapshot.changed as u64,
        unreadable: snapshot.unreadable as u64,
        unlabelled: snapshot.unlabelled as u64,
        ..empty
    })
}

/// State of goroutines that wait for a thread.
const RUNNABLE: &str = "runnable";

/// What a goroutine waits for, or its state.
fn state_text<'l>(goroutine: &Goroutine, layout: &'l GoLayout) -> &'l str {
    let reason = goroutine.wait_reason.and_then(|reason| layout.wait_reason(reason));
    reason.unwrap_or(match goroutine.state {
        GoState::Runnable => RUNNABLE,
        GoState::Running => "running",
        GoState::Syscall => "syscall",
        GoState::Waiting => "waiting",
        GoState::Preempted => "preempted",
        GoState::Leaked => "leaked",
    })
}

/// Time from the start of a slot to its snapshot, ns: another one in each slot, all equally often.
fn jitter_ns(slot: u64) -> u64 {
    let mut bits = slot.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 27;
    ((u128::from(bits) * u128::from(SLOT_NS)) >> 64) as u64
}

/// CPU time of this thread, ns.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_spread_over_their_slots() {
        let mut quarters = [0u32; 4];
        for slot in 0..4000 {
            let jitter = jitter_ns(slot);
            assert!(jitter < SLOT_NS);
            quarters[(4 * jitter / SLOT_NS) as usize] += 1;
        }
        assert!(quarters.iter().all(|quarter| (900..1100).contains(quarter)), "{quarters:?}");
    }

    #[test]
    fn budget_is_a_part_of_a_slot() {
        assert_eq!(budget_ns(0), None);
        assert_eq!(budget_ns(20_000), Some(SLOT_NS / 100));
    }
}
