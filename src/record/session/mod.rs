//! One recording from attach to end, without output: what `record`, `doctor` and live views share.
//!
//! Order matters. The side-band is opened before /proc is read, so that no mapping is missed; tables
//! are compiled while the BPF programs are verified; samples are processed only as far as the side-band is
//! known.

mod attach;
mod books;
mod changed_cpus;
pub(crate) mod cost;
pub(crate) mod cpu_use;
mod publish;
mod sampling;
pub(super) mod signal_relay;
pub(crate) mod state;
pub(crate) mod stop;
pub(crate) mod stop_reason;
pub(super) mod until_end;
mod window;

use self::state::{EarlierWindows, Refusals};
use super::collect::collector::Collector;
use super::collect::deferred_walks;
use super::environment::namespaces::monotonic_ns;
use super::heap::HeapSampling;
use super::kernel::cpus::CpuWatch;
use super::kernel::drain::{Batch, Drain, wait_for};
use super::kernel::load::verifier::Verified;
use super::kernel::sideband::Sideband;
use super::kernel::wait_config::WaitConfig;
use super::modules::{ModuleFiles, Wanted};
use super::options::RecordOptions;
use super::process::exits::Exits;
use super::process::table::Processes;
use super::process::{mappings, proc_fs};
use super::services::TableCacheOrNot;
use super::target::children;
use super::target::children::Family;
use super::target::launch::Child;
use super::target::search::FoundTarget;
use crate::bpf::{Counter, RescueEvent, SampleEvent};
use crate::profile::counter;
use anyhow::Context as _;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags};
use sampling::Sampling;
use state::Books;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, SystemTime};

/// Time that processes are remembered after their number was reused, and their code after their end, ns.
const FORMER_NS: u64 = 3 * deferred_walks::PATIENCE_NS / 2;
/// Files that are mapped no more are looked for this often, ns.
const CLOSING_INTERVAL_NS: u64 = 5_000_000_000;
/// The target is looked at so often while none of its threads is known to have ended; the kernel reports ends.
const TARGET_LOOK_INTERVAL_NS: u64 = 250_000_000;
/// Time that a sample waits for its stack copy, and a copy for its sample, ns.
const RESCUE_PATIENCE_NS: u64 = 1_000_000_000;
/// Longest wait for the tables of a command that has not begun, and of all that is left at the end.
const TABLE_PATIENCE: Duration = Duration::from_secs(3);

/// A running recording.
#[derive(Debug)]
pub(crate) struct Session<'obj> {
    kernel: Sampling<'obj>,
    cpus: CpuWatch,
    waits: Option<WaitConfig>,
    heap: Option<HeapSampling>,
    /// Empties the rings.
    drain: Drain,
    /// Collector of the samples so far.
    pub(crate) collector: Collector,
    /// Processes named by the target that still run.
    roots: FxHashSet<u32>,
    tids: FxHashSet<u32>,
    /// Samples that are newer than the side-band that was read.
    deferred: Vec<SampleEvent>,
    rescues: FxHashMap<(u64, u32), RescueEvent>,
    is_system_wide: bool,
    follows_children: bool,
    start_ns: u64,
    stop_ns: Option<u64>,
    earlier: EarlierWindows,
    refusals: Refusals,
    /// Processes whose interpreter has not begun yet.
    pending_interpreters: Vec<u32>,
    exits: Exits,
    books: Books,
    /// Entries given to the kernel side so far; each has its number as stamp.
    stamps: u64,
    /// Programs that are sampled no more, and why, in words.
    pub(crate) lost_programs: BTreeSet<String>,
    /// What samples instead of BPF programs, why, and what that lacks.
    pub(crate) substitute: Option<String>,
    /// Decisions made at the start that the user should know.
    pub(crate) notices: Vec<String>,
    is_budget_reached: bool,
    /// Time of the last search for files that are mapped no more, ns.
    last_closing_ns: u64,
    /// Time at which the target is looked at next, ns.
    next_target_look_ns: u64,
    /// There were too many open files.
    is_limit_reached: bool,
    /// Children that are there already and are not recorded are worth a word: the name of their parent, and whether that is
    /// the only process.
    parent: Option<(String, bool)>,
    /// CPU time of this process when sampling began, and when it ended.
    used_ns: (u64, Option<u64>),
}

/// Parameters of the start of a session.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// Options of the recording.
    pub(crate) options: &'a RecordOptions,
    /// The target, found.
    pub(crate) found: &'a FoundTarget,
    /// The command that is recorded, which waits to be released: tables of its files are wanted before any process maps them.
    pub(crate) launched: Option<&'a Child>,
    /// The cache of unwind tables, or why there is none.
    pub(crate) cache: TableCacheOrNot,
    /// The recorder's own command line.
    pub(crate) command: Vec<String>,
    /// Somebody looks at it while it goes on.
    pub(crate) is_watched: bool,
}

impl<'obj> Session<'obj> {
    /// Starts sampling; times count from now. It ends by itself after `duration`, whatever this thread does then.
    pub(crate) fn begin(&mut self, duration: Option<Duration>) -> anyhow::Result<()> {
        self.begin_heap()?;
        self.start_ns = self.kernel.start_clock(self.waits.is_some())?;
        let meta = &mut self.collector.profile.meta;
        meta.start_mono_ns = self.start_ns;
        meta.start_unix_ns = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        self.collector.set_start(self.start_ns);
        self.kernel.start_samplers()?;
        self.collector.look_at_go_heap(self.start_ns, false);
        self.collector.look_at_go_waits(self.start_ns, false, &self.roots);
        let length_ns = duration.map(|duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let end_ns = length_ns.map(|length_ns| self.start_ns.saturating_add(length_ns));
        if let Some(end_ns) = end_ns {
            self.drain.set_deadline(end_ns);
        }
        (self.collector.goroutines)
            .begin_snapshots(self.start_ns, end_ns)
            .context("cannot start a thread that reads goroutines")?;
        self.open_books()?;
        self.used_ns = (self.used_but_for_setup_ns(), None);
        self.collector.kernel.start_loading();
        self.note_unrecorded_children();
        self.collector.profile.meta.notices = self.notices.clone();
        Ok(())
    }

    /// Says that processes that were named have children that are there already: who names a server's first process means
    /// those that do its work.
    fn note_unrecorded_children(&mut self) {
        let Some((name, is_one)) = self.parent.take() else { return };
        // The kernel's threads are all children of one of them, and none does the work of another.
        let roots: Vec<u32> = self.roots.iter().copied().filter(|pid| !proc_fs::is_of_kernel(*pid)).collect();
        let is_recorded =
            |pid: &u32| self.collector.processes.get(*pid).is_some_and(|process| process.is_target);
        let family = Family::now();
        let found: Vec<u32> =
            family.descendants(&roots).into_iter().filter(|pid| !is_recorded(pid)).collect();
        let children = family.count_children(&roots, &found);
        self.notices.extend(children::unrecorded(&name, is_one, found.len(), children));
    }

    /// CPU time that this process has used while it recorded, ns.
    fn recording_cpu_ns(&self) -> u64 {
        let (begin_ns, end_ns) = self.used_ns;
        end_ns.unwrap_or_else(|| self.used_but_for_setup_ns()).saturating_sub(begin_ns)
    }

    /// CPU time that this process has used so far, ns, without the reading of the kernel's names: that reading is part of
    /// setting up, although it is done when sampling has begun.
    fn used_but_for_setup_ns(&self) -> u64 {
        cost::own().0.saturating_sub(self.collector.kernel.load_cost_ns())
    }

    /// Makes a process that is about to call exec a target: a launched command.
    pub(crate) fn add_launched(&mut self, pid: u32) -> anyhow::Result<()> {
        self.roots.insert(pid);
        self.collector.profile.meta.target_pids.push(pid);
        self.collector.processes.add_empty(pid);
        self.publish_roots()
    }

    /// Waits until something was recorded, one of `others` is readable, a signal comes, or for `patience`; takes what is
    /// there then.
    ///
    /// # Errors
    ///
    /// When the rings cannot be read.
    pub(crate) fn wait(&mut self, patience: Duration, others: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        let fds = others.iter().copied().chain([self.drain.wakeup()]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        wait_for(&mut fds, patience)?;
        let batches = self.drain.received()?;
        self.add(batches);
        self.collector.take_snapshots();
        self.collector.look_at_go_heap(monotonic_ns(), false);
        self.collector.look_at_go_waits(monotonic_ns(), false, &self.roots);
        if self.waits.is_some() {
            self.kernel.look_for_missed()?;
        }
        let elapsed_ns = self.elapsed().as_nanos() as u64;
        self.kernel.watch_probes(elapsed_ns, self.cpus.count() as u32);
        self.look_at_heap(elapsed_ns);
        self.look_at_cpus();
        Ok(())
    }

    /// Takes everything that was recorded up to now.
    ///
    /// # Errors
    ///
    /// As [`Session::wait`].
    pub(crate) fn take(&mut self) -> anyhow::Result<()> {
        let batches = self.drain.receive_all()?;
        self.add(batches);
        Ok(())
    }

    fn add(&mut self, batches: Vec<Batch>) {
        if batches.is_empty() {
            return;
        }
        let mut known_until_ns = None;
        for mut batch in batches {
            let mut lost_since_ns = None;
            for (time_ns, record) in std::mem::take(&mut batch.sideband) {
                let is_loss = matches!(record, Sideband::Lost(_));
                self.apply(time_ns, record);
                lost_since_ns = lost_since_ns.or(is_loss.then_some(time_ns));
            }
            lost_since_ns.into_iter().for_each(|since_ns| self.read_mappings_again(since_ns));
            if let Some(until_ns) = batch.known_until_ns {
                self.end_processes();
                self.add_samples(batch, until_ns);
                known_until_ns = Some(until_ns);
            }
        }
        self.end_processes();
        // Addresses of mappings without a record were looked up meanwhile.
        self.publish_processes();
        self.place_tables(Duration::ZERO, Wanted::First);
        if let Some(known_until_ns) = known_until_ns {
            self.earlier.known_until_ns = known_until_ns;
            self.collector.files.restore_hot(self.kernel.tables(), known_until_ns);
            self.collector.retry_waiting(known_until_ns);
            self.collector.release_held();
            self.collector.processes.forget_before(known_until_ns.saturating_sub(FORMER_NS));
            if known_until_ns.saturating_sub(self.last_closing_ns) >= CLOSING_INTERVAL_NS {
                self.last_closing_ns = known_until_ns;
                self.close_files(known_until_ns);
            }
        }
    }

    /// Closes files that no one has mapped for a while.
    fn close_files(&mut self, now_ns: u64) {
        let Collector { files, processes, .. } = &mut self.collector;
        for key in files.close_unmapped(&processes.mapped_files(), now_ns, self.kernel.tables()) {
            self.kernel.forget_file(&key);
        }
    }

    /// Notes which processes have ended.
    fn end_processes(&mut self) {
        let now_ns = monotonic_ns();
        for pid in self.exits.take_ended(now_ns, proc_fs::live_thread) {
            // What the target has left counts as live at the end of the recording; ends of its blocks may be still to come.
            if !self.roots.contains(&pid) {
                self.collector.blocks_are_gone(pid, now_ns);
            }
            self.collector.processes.exit(pid, now_ns);
            self.kernel.forget_process(pid);
        }
    }

    /// Adds what was in the rings; of the side-band everything up to `known_until_ns` was applied.
    fn add_samples(&mut self, batch: Batch, known_until_ns: u64) {
        let Batch { samples, thread_times, new_codes, rescues, copies, bad_records, .. } = batch;
        self.collector.profile.count(counter::LOST_BAD_RECORD, bad_records);
        if let Some(known) = &mut self.collector.copies {
            known.take(copies);
        }
        for time in thread_times {
            self.collector.add_thread_time(&time);
        }
        for code in new_codes {
            self.collector.add_code(&code);
        }
        for rescue in rescues {
            self.rescues.insert((rescue.time_ns, rescue.cpu), rescue);
        }
        self.collector.dumps.name_new(&mut self.collector.profile, known_until_ns);
        if self.waits.is_some_and(|waits| waits.is_watched) {
            samples.iter().for_each(|sample| self.collector.note_end(sample));
        }
        samples.iter().for_each(|sample| self.collector.read_labels_early(sample));
        let mut ready = std::mem::take(&mut self.deferred);
        ready.extend(samples);
        ready.sort_by_key(|sample| (sample.time_ns, sample.cpu));
        let is_over = self.stop_ns.is_some();
        for sample in ready {
            if sample.time_ns >= known_until_ns && !is_over {
                self.deferred.push(sample);
                continue;
            }
            let rescue = self.take_rescue(&sample);
            let is_overdue = known_until_ns.saturating_sub(sample.time_ns) > RESCUE_PATIENCE_NS;
            if sample.has_rescue && rescue.is_none() && !is_over && !is_overdue {
                // Another CPU was still writing to the ring of copies when that was read.
                self.collector.note_late(&sample);
                self.deferred.push(sample);
                continue;
            }
            self.collector.add(sample, rescue);
        }
        // Copies whose sample was lost.
        self.rescues.retain(|(time_ns, _), _| known_until_ns.saturating_sub(*time_ns) <= RESCUE_PATIENCE_NS);
    }

    /// The copy that belongs to a sample. Two records may have one time, of which the other one has a copy.
    fn take_rescue(&mut self, sample: &SampleEvent) -> Option<RescueEvent> {
        let key = (sample.time_ns, sample.cpu);
        let is_its_own = |rescue: &RescueEvent| sample.has_rescue && rescue.tgid == sample.tgid;
        self.rescues.get(&key).is_some_and(is_its_own).then(|| self.rescues.remove(&key)).flatten()
    }

    /// Looks at the threads that live: the collector has their times, and [`Collector::open_waits`] their waits once what was
    /// sent of them is taken.
    pub(super) fn watch_threads(&mut self) -> anyhow::Result<()> {
        if self.waits.is_some_and(|waits| waits.is_watched) {
            let threads = self.kernel.watched_threads()?;
            self.collector.threads_are_watched(threads);
        }
        Ok(())
    }

    /// Whether the target has ended. It is looked at after each end of a thread of it, and now and then.
    pub(crate) fn target_has_ended(&mut self) -> bool {
        let now_ns = monotonic_ns();
        if self.is_system_wide || now_ns < self.next_target_look_ns {
            return false;
        }
        self.next_target_look_ns = now_ns + TARGET_LOOK_INTERVAL_NS;
        if self.tids.is_empty() {
            self.roots.iter().all(|&pid| proc_fs::live_thread(pid).is_none())
        } else {
            self.tids.iter().all(|&tid| !proc_fs::is_alive(tid))
        }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.stop_ns.unwrap_or_else(monotonic_ns).saturating_sub(self.start_ns))
    }

    /// Samples lost so far.
    pub(crate) fn lost(&self) -> u64 {
        let of_kernel = self
            .kernel
            .counters()
            .map_or(0, |counters| counters.get(Counter::RingFull) + counters.get(Counter::CountsFull));
        of_kernel + self.kernel.lost_hits() + self.collector.profile.counter(counter::LOST_BAD_RECORD)
    }

    /// Waits lost so far.
    pub(super) fn lost_waits(&self) -> u64 {
        self.kernel.counters().map_or(0, |counters| counters.get(Counter::WaitFull))
    }

    /// Returns the time that the BPF programs took to load, verification included.
    pub(crate) fn load_time(&self) -> Duration {
        self.kernel.load_time()
    }

    /// The program that took the kernel's verifier most, where the kernel tells.
    pub(crate) fn most_verified(&self) -> Option<Verified> {
        self.kernel.most_verified()
    }

    /// Rows of unwind tables written for the kernel side so far, and how long that took.
    pub(crate) fn written_rows(&mut self) -> (u64, Duration) {
        self.kernel.tables().written
    }

    fn apply(&mut self, time_ns: u64, record: Sideband) {
        let collector = &mut self.collector;
        let files = &mut collector.files;
        match record {
            Sideband::Mapped { pid, mapping } => {
                let Some(process) = known(&mut collector.processes, pid, self.is_system_wide, files) else {
                    return;
                };
                if let Some(mapped) = mappings::mapped(pid, &mapping, time_ns, files) {
                    process.map(mapped);
                }
            }
            Sideband::Named { pid, tid, comm, is_exec } => {
                if let Some(process) = collector.processes.get_mut(pid) {
                    if is_exec && let Some(why) = self.kernel.end_at_exec(pid) {
                        let words = format!("`{comm}` {why}: the kernel has ended its sampling");
                        if self.lost_programs.insert(words.clone()) {
                            self.notices.push(format!("{words}; run prof as root to have it"));
                        }
                    }
                    if pid == tid {
                        process.comm = comm;
                    }
                    if is_exec {
                        process.exec_seq += 1;
                        process.exec_ns = time_ns;
                        process.unmap_all(time_ns);
                    }
                }
            }
            Sideband::Forked { pid, tid, parent_pid } if pid == tid && pid != parent_pid => {
                collector.processes.fork(parent_pid, pid, time_ns, self.follows_children);
            }
            Sideband::Forked { .. } => {}
            // The side-band is that of the whole machine.
            Sideband::Exited { pid } => {
                let is_known = collector.processes.get(pid).is_some();
                if is_known || self.kernel.exec_seq(pid).ok().flatten().is_some() {
                    self.exits.note(pid, time_ns);
                    self.next_target_look_ns = 0;
                }
            }
            Sideband::Lost(records) => collector.profile.count(counter::LOST_SIDEBAND, records),
        }
    }

    /// Something was mapped that no one will tell of again, and no one knows when: some time after `since_ns`.
    pub(super) fn read_mappings_again(&mut self, since_ns: u64) {
        let Collector { files, processes, .. } = &mut self.collector;
        for (pid, process) in processes.living_mut() {
            let now_ns = monotonic_ns();
            if let Some(now) = mappings::mappings_now(pid, now_ns, files) {
                process.set_mappings(now, since_ns, now_ns);
            }
        }
    }
}

/// The process if it is recorded; with everything recorded, any process.
fn known<'a>(
    processes: &'a mut Processes,
    pid: u32,
    is_system_wide: bool,
    files: &mut ModuleFiles,
) -> Option<&'a mut mappings::Process> {
    if is_system_wide { Some(processes.get_or_read(pid, files)) } else { processes.get_mut(pid) }
}
