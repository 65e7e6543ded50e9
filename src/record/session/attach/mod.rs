//! How a session comes about: the kernel side is attached, the target is read meanwhile, and tables go to the kernel. A file for
//! each kind of kernel side.

mod bpf;
mod events;
mod ground;
mod heap;
mod read_target;
mod survey;

use self::bpf::Unattached;
use self::ground::{AttachedSide, Ground};
use super::state::{Books, EarlierWindows, Refusals};
use super::{Session, Start, TABLE_PATIENCE};
use crate::record::environment::machine::{effective_hz, online_cpus};
use crate::record::environment::memory_limit;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::cpus::CpuWatch;
use crate::record::kernel::drain::Drain;
use crate::record::modules::Wanted;
use crate::record::options::{Children, RecordOptions, Target};
use crate::record::process::exits::Exits;
use crate::record::process::proc_fs;
use crate::record::target::search::FoundTarget;
use anyhow::Context;
use libbpf_rs::OpenObject;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time from the start of attaching after which all that runs is sampled, whether its tables are there or not: until they are, its
/// samples are rescued, as far as there is room for copies of large stacks.
const FIRST_SAMPLE_PATIENCE: Duration = Duration::from_secs(1);
/// The same where there is room for copies of all stacks, since they are small.
const SMALL_STACKS_PATIENCE: Duration = Duration::from_millis(200);
/// Samples are rare up to this frequency, Hz.
const MOST_RARE_HZ: u32 = 49;
/// The most that mappings wait for others: files of processes that have ended are not always found.
const LONGEST_SETTLING: Duration = Duration::from_millis(10);
/// CPUs that come and go are looked for this often; to do so interrupts each of them.
const CPU_INTERVAL: Duration = Duration::from_millis(500);
/// The same where samples are rare.
const RARE_CPU_INTERVAL: Duration = Duration::from_secs(2);
/// Tables are waited for at least this part of the time that attaching has taken: where the kernel checks programs slowly, tables
/// are made slowly, too.
const LEAST_PART: u32 = 4;

impl<'obj> Session<'obj> {
    /// Attaches to the target. Sampling begins with [`Session::begin`].
    ///
    /// # Errors
    ///
    /// A [`Failure`](crate::base::failure::Failure) that names the missing right or feature.
    /// Of the two `objects` the second is used if the kernel refuses the programs of waits.
    pub(crate) fn attach(
        objects: &'obj mut [MaybeUninit<OpenObject>; 2],
        start: Start<'_>,
    ) -> anyhow::Result<Self> {
        let (options, found, began) = (start.options, start.found, Instant::now());
        let mut notices: Vec<String> = found.notices.iter().cloned().chain(memory_limit::notice()).collect();
        let heap = heap::of_options(options)?;
        let cpus = online_cpus()?;
        let hz = effective_hz(options, &mut notices);
        let ground = Ground { start: &start, cpus: &cpus, hz, user_only: options.user_only };
        let side = match bpf::attach(objects, ground) {
            Ok(side) => side,
            Err(Unattached::NoPrograms(refused)) => events::attach(ground, refused)?,
            Err(Unattached::Failed(error)) => return Err(error),
        };
        let AttachedSide { sampling: kernel, rings, collector, waits, notices: of_side, substitute } = side;
        notices.extend(substitute.iter().cloned().chain(of_side));
        let promptness = Promptness::of(options, hz, waits.is_some());
        let drain = Drain::start(rings, Arc::clone(kernel.stopper()), promptness.settling)
            .context("cannot start a thread that reads the ring buffers")?;
        let mut session = Session {
            kernel,
            cpus: CpuWatch::new(&cpus, promptness.cpus),
            waits,
            heap,
            drain,
            is_system_wide: collector.processes.is_system_wide,
            follows_children: options.children != Children::None || collector.processes.is_system_wide,
            collector,
            roots: found.pids.iter().copied().collect(),
            tids: found.tids.iter().copied().collect(),
            deferred: Vec::new(),
            rescues: FxHashMap::default(),
            start_ns: monotonic_ns(),
            stop_ns: None,
            earlier: EarlierWindows::default(),
            refusals: Refusals::default(),
            pending_interpreters: Vec::new(),
            exits: Exits::default(),
            books: Books::default(),
            stamps: 0,
            lost_programs: BTreeSet::new(),
            substitute,
            notices,
            is_budget_reached: false,
            last_closing_ns: 0,
            next_target_look_ns: 0,
            is_limit_reached: false,
            parent: parent(options, found),
            used_ns: (0, None),
        };
        session.prepare(options, found, began)?;
        Ok(session)
    }

    /// Has the kernel side know the target and its tables.
    fn prepare(
        &mut self,
        options: &RecordOptions,
        found: &FoundTarget,
        began: Instant,
    ) -> anyhow::Result<()> {
        self.publish_roots()?;
        let (patience, wanted) = table_patience(options, found, began.elapsed());
        self.place_tables(patience, wanted);
        // What was mapped while the tables were compiled.
        self.take()
    }
}

/// How soon the recorder has to know of something.
struct Promptness {
    /// Time that what happens to a process may wait for what else happens, so that all of it is one batch.
    settling: Duration,
    /// CPUs that come and go are looked for this often.
    cpus: Duration,
}

impl Promptness {
    fn of(options: &RecordOptions, hz: u32, has_waits: bool) -> Self {
        let is_rare = hz <= MOST_RARE_HZ
            && matches!(options.target, Target::System)
            && options.counters().all(|counter| counter.period.is_none());
        if is_rare && !has_waits && options.probes().next().is_none() {
            // A sample that comes before what it needs has a copy of its stack.
            let settling = (Duration::from_secs(1) / hz.max(1) / 5).min(LONGEST_SETTLING);
            Promptness { settling, cpus: RARE_CPU_INTERVAL }
        } else {
            Promptness { settling: Duration::ZERO, cpus: CPU_INTERVAL }
        }
    }
}

/// Name of the target, and whether it is one process, if its children are recorded from now on.
fn parent(options: &RecordOptions, found: &FoundTarget) -> Option<(String, bool)> {
    let is_running = matches!(options.target, Target::Pids(_) | Target::Name(_));
    let follows = is_running && options.children != Children::None;
    follows.then(|| (found.name.clone(), found.pids.len() == 1))
}

/// Returns the time that sampling still waits for tables, when attaching has taken `so_far`, and for which.
fn table_patience(options: &RecordOptions, found: &FoundTarget, so_far: Duration) -> (Duration, Wanted) {
    let patience = match options.target {
        // It has not begun: what is waited for here it does not miss.
        Target::Launch(_) => return (TABLE_PATIENCE.max(so_far / LEAST_PART), Wanted::Whole),
        Target::System => FIRST_SAMPLE_PATIENCE,
        _ if found.pids.iter().all(|&pid| proc_fs::has_small_stacks(pid)) => SMALL_STACKS_PATIENCE,
        _ => FIRST_SAMPLE_PATIENCE,
    };
    (time_left(patience, so_far), Wanted::First)
}

/// What is left of `patience` when attaching has taken `so_far`.
fn time_left(patience: Duration, so_far: Duration) -> Duration {
    patience.saturating_sub(so_far).max(so_far / LEAST_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_waited_for_however_long_the_programs_took() {
        let left = |so_far| time_left(FIRST_SAMPLE_PATIENCE, Duration::from_millis(so_far)).as_millis();
        assert_eq!(left(100), 900, "what takes little is not prolonged");
        assert_eq!(left(1000), 250);
        assert_eq!(left(40_000), 10_000, "a machine of which all is slow");
    }
}
