//! The end of a session: what is left is taken, and what was lost is counted.

use super::{Session, TABLE_PATIENCE, cost};
use crate::base::{opener, units};
use crate::bpf::Counter;
use crate::profile::{End, counter};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::attach::CounterValues;
use crate::record::modules::Wanted;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts that were lost of hits of probes: a part of [`counter::LOST_COUNTS`].
const OF_HITS: &str = "lost_counts_of_hits";
/// Less time in the kernel is not worth a word, ns.
const LEAST_UNSAMPLED_NS: u64 = 50_000_000;

/// Sentence on an opener that has ended: each file that was asked for since was refused.
pub(in crate::record) fn lack_of_opener() -> Option<String> {
    opener::has_ended().then(|| {
        "the process that opens files for prof ended during the recording (was it killed?): what came to run after that may have \
         no names, and stacks in it may end early"
            .to_owned()
    })
}

impl Session<'_> {
    /// Returns what is known so far of what `stop` will know: counters, and an end record that lacks what this process used.
    pub(in crate::record) fn so_far(&self) -> anyhow::Result<(BTreeMap<String, u64>, End)> {
        let profile = &self.collector.profile;
        if let Some(end) = &profile.end {
            return Ok((profile.counters.clone(), end.clone()));
        }
        let kernel = self.kernel.counters()?;
        let mut counters = self.collector.profile.counters.clone();
        let of_hits = (counter::LOST_COUNTS, self.kernel.lost_hits());
        let lost = lost_by_kernel(&kernel).into_iter().chain([of_hits]);
        for (name, value) in lost.filter(|(_, value)| *value > 0) {
            *counters.entry(name.to_owned()).or_default() += value;
        }
        let end = End {
            duration_ns: self.elapsed().as_nanos() as u64,
            bpf_ns: kernel.bpf_ns(),
            bpf_runs: kernel.bpf_runs(),
            cpu_ns: cost::own().0,
            recording_cpu_ns: Some(self.recording_cpu_ns()),
            threads: self.collector.totals.threads.len() as u32,
            ..End::default()
        };
        Ok((counters, end))
    }

    /// Stops sampling and takes what is left. The end record still lacks the cost of what follows.
    pub(crate) fn stop(&mut self, reason: &str) -> anyhow::Result<()> {
        self.used_ns.1 = Some(self.used_but_for_setup_ns());
        let taken = self.take_what_is_left();
        // Whatever came of it.
        let of_heap = self.end_heap();
        let of_go_waits = self.collector.go_waits.end();
        let counters = taken?;
        if let Some(copies) = self.collector.copies.take() {
            copies.finish(counters.get(Counter::CopyFull))?;
        }
        self.count_last(&counters);
        let stop_ns = self.stop_ns.unwrap_or_else(monotonic_ns);
        let mut end = End {
            duration_ns: stop_ns.saturating_sub(self.window_start_ns()),
            reason: reason.to_owned(),
            bpf_ns: counters.bpf_ns(),
            bpf_runs: counters.bpf_runs(),
            cpu_ns: cost::own().0,
            recording_cpu_ns: Some(self.recording_cpu_ns()),
            threads: self.collector.totals.threads.len() as u32,
            notices: of_heap
                .into_iter()
                .chain(of_go_waits)
                .chain(self.lacks())
                .chain(self.said_of_lost_programs())
                .collect(),
            ..End::default()
        };
        self.earlier.only_this(&mut end);
        self.collector.profile.end = Some(end);
        Ok(())
    }

    /// Programs that the kernel has ended the sampling of.
    fn said_of_lost_programs(&self) -> impl Iterator<Item = String> {
        self.lost_programs.iter().map(|words| format!("{words}; run prof as root to have it"))
    }

    /// Says what the recording lacks.
    fn lacks(&self) -> Vec<String> {
        let of_cpus = self.cpus.lack(self.stop_ns.unwrap_or_else(monotonic_ns));
        let lacks = [of_cpus, self.lack_of_goroutines(), self.lack_of_kernel_time(), lack_of_opener()];
        lacks.into_iter().flatten().chain(self.kernel.said_of_probes()).collect()
    }

    /// Stops the kernel side, and adds all that it has sent. Returns what it has counted.
    fn take_what_is_left(&mut self) -> anyhow::Result<CounterValues> {
        self.collector.goroutines.end_snapshots();
        let counters = self.kernel.counters();
        let stop_ns = self.kernel.stopper().stop();
        let mut batches = Vec::new();
        if self.waits.is_some() {
            let drain = &self.drain;
            self.kernel.close_waits(|| {
                batches.extend(drain.receive_all()?);
                Ok(())
            })?;
        }
        self.kernel.stop();
        let counters = self.kernel.counters().or(counters)?;
        self.stop_ns = Some(stop_ns);
        self.place_tables(Duration::from_millis(500), Wanted::Whole);
        self.collector.threads_are_watched(Vec::new());
        batches.extend(self.drain.receive_all()?);
        self.add(batches);
        if self.collector.waits_for_tables() {
            self.place_tables(TABLE_PATIENCE, Wanted::Whole);
        }
        self.collector.store_waiting();
        self.collector.look_at_go_heap(stop_ns, true);
        self.collector.look_at_go_waits(stop_ns, true, &self.roots);
        self.collector.store_live_blocks();
        self.collector.take_snapshots();
        Ok(counters)
    }

    /// Says that goroutines were asked for and none was found.
    fn lack_of_goroutines(&self) -> Option<String> {
        let is_asked = self.collector.goroutines.snapshot_overhead.is_some();
        let lacks = is_asked && self.collector.profile.counter(counter::GOROUTINE_SNAPSHOTS) == 0;
        lacks.then(|| {
            "no goroutines are in this recording: no target ran a Go program whose goroutines could be read"
                .to_owned()
        })
    }

    /// Says how much time threads spent where nothing may be sampled.
    fn lack_of_kernel_time(&self) -> Option<String> {
        let unsampled_ns =
            self.kernel.unsampled_ns().filter(|unsampled_ns| *unsampled_ns >= LEAST_UNSAMPLED_NS)?;
        let time = units::duration(unsampled_ns);
        Some(format!(
            "{time} of CPU time were spent in the kernel, which only root may sample: they are in no stack"
        ))
    }

    /// Puts what was counted into the profile, with what only the end can tell.
    fn count_last(&mut self, counters: &CounterValues) {
        self.count(counters);
        let (name, threads) = never_sent(counters);
        self.collector.profile.count(name, threads);
    }

    /// Puts what was counted in this window into its profile.
    pub(super) fn count(&mut self, counters: &CounterValues) {
        let files = &self.collector.files;
        let of_hits = (OF_HITS, self.kernel.lost_hits());
        let of_files = [
            (counter::TABLES_EVICTED, files.evicted),
            (counter::TABLES_FAILED, files.failed),
            (counter::FILES_UNOPENED, files.without_descriptor()),
        ];
        let of_kernel = KERNEL_COUNTERS.map(|(name, counter)| (name, counters.get(counter)));
        let all = lost_by_kernel(counters).into_iter().chain([of_hits]).chain(of_files);
        let of_labels = self.collector.identities.counts();
        for (name, value) in all.chain(self.refusals.counters()).chain(of_kernel).chain(of_labels) {
            let newly = self.earlier.newly(name, value);
            // Two sources of one counter.
            let name = if name == OF_HITS { counter::LOST_COUNTS } else { name };
            self.collector.profile.count(name, newly);
        }
    }

    /// Stops sampling at once, without taking what is left.
    pub(in crate::record) fn halt(&mut self) {
        self.kernel.stop();
        self.end_heap();
    }
}

/// Counters of the kernel side, by their names in profiles.
const KERNEL_COUNTERS: [(&str, Counter); 16] = [
    ("kernel_hits", Counter::Hit),
    ("kernel_filtered", Counter::Filtered),
    ("kernel_numberless", Counter::Numberless),
    ("kernel_idle", Counter::Idle),
    ("kernel_sent", Counter::Sent),
    ("fork_failed", Counter::ForkFailed),
    ("exec_failed", Counter::ExecFailed),
    ("exec_mapped", Counter::ExecMapped),
    ("found_mapping", Counter::FoundMapping),
    ("entry_reused", Counter::EntryReused),
    ("kernel_waits_sent", Counter::WaitSent),
    ("kernel_wait_stacks_ns", Counter::WaitNs),
    ("switches_missed", Counter::SwitchMissed),
    ("switches_without_account", Counter::SwitchNoState),
    ("kernel_wakers_sent", Counter::WakerSent),
    ("kernel_hits_ns", Counter::ProbeNs),
];

/// Threads that have ended without a word of their times, or whose times did not fit, once all others are counted.
fn never_sent(counters: &CounterValues) -> (&'static str, u64) {
    let [begun, sent, full] =
        [Counter::Account, Counter::AccountSent, Counter::ThreadFull].map(|counter| counters.get(counter));
    (counter::LOST_THREAD_TIMES, begun.saturating_sub(sent + full))
}

/// Returns the kernel side's counters of what was lost, by their names in profiles.
fn lost_by_kernel(counters: &CounterValues) -> [(&'static str, u64); 8] {
    [
        (counter::LOST_RING_FULL, counters.get(Counter::RingFull)),
        (counter::LOST_COUNTS, counters.get(Counter::CountsFull)),
        (counter::LOST_BLOCKS, counters.get(Counter::BlocksFull)),
        (counter::LOST_FREES, counters.get(Counter::FreesFull)),
        (counter::LOST_WAITS, counters.get(Counter::WaitFull)),
        (counter::LOST_WAIT_NS, counters.get(Counter::WaitFullNs)),
        (counter::WAITS_THINNED, counters.get(Counter::WaitThinned)),
        (counter::LOST_THREAD_TIMES, counters.get(Counter::ThreadFull) + counters.get(Counter::NoState)),
    ]
}
