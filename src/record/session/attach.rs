//! How a session comes about: events are opened, the target is read, the programs are loaded, and tables go to the kernel.

use super::state::{Books, Refusals};
use super::{Session, Start, TABLE_PATIENCE};
use crate::base::failure::{Failure, status};
use crate::base::{privilege, units};
use crate::profile::{Meta, Profile, RuntimeFrames};
use crate::record::collect::collector::Collector;
use crate::record::collect::kernel_frames::KernelFrames;
use crate::record::counter::PerfCounter;
use crate::record::environment::kernel_types::TypesLack;
use crate::record::environment::machine::{SAMPLE_CLOCK, effective_hz, online_cpus, system_meta};
use crate::record::environment::namespaces::{Translation, monotonic_ns};
use crate::record::environment::{descriptors, memory_limit, namespaces, rights, seccomp};
use crate::record::interpreters::ALL_LANGUAGES;
use crate::record::kernel::attach::{KernelConfig, KernelSide};
use crate::record::kernel::capacity::{page_capacity, row_capacity};
use crate::record::kernel::drain::Drain;
use crate::record::kernel::perf_event::{self, SidebandRing};
use crate::record::kernel::wait_config::WaitConfig;
use crate::record::modules::{ModuleFiles, TableCache, Wanted};
use crate::record::options::{CallGraph, Children, Rate, RecordOptions, Target};
use crate::record::process::exits::Exits;
use crate::record::process::proc_fs;
use crate::record::target::search::FoundTarget;
use anyhow::Context;
use libbpf_rs::OpenObject;
use rustc_hash::FxHashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time from the start of attaching after which all that runs is sampled, whether its tables are there or not: until they are, its
/// samples are rescued, as far as there is room for copies of large stacks.
const FIRST_SAMPLE_PATIENCE: Duration = Duration::from_secs(1);
/// The same where there is room for copies of all stacks, since they are small.
const SMALL_STACKS_PATIENCE: Duration = Duration::from_millis(200);

impl<'obj> Session<'obj> {
    /// Attaches to the target. Sampling begins with [`Session::begin`].
    ///
    /// # Errors
    ///
    /// A [`Failure`] that names the missing right or feature.
    /// Of the two `objects` the second is used if the kernel refuses the programs of waits.
    pub(crate) fn attach(
        objects: &'obj mut [MaybeUninit<OpenObject>; 2],
        start: Start<'_>,
    ) -> anyhow::Result<Self> {
        let Start { options, found, preload, command, is_watched } = start;
        let began = Instant::now();
        let mut notices: Vec<String> = found.notices.iter().cloned().chain(memory_limit::notice()).collect();
        has_types()?;
        let cpus = online_cpus()?;
        let hz = effective_hz(options, &mut notices);
        let events = AttachedEvents::open(options, found, &cpus, hz)?;
        let mut why_no_waits = None;
        let waits = wait_config(options, found, is_watched, &mut why_no_waits)?;
        let meta = meta(options, found, command, cpus.len(), hz);
        let mut collector = collector(options, meta, waits.is_some(), is_watched)?;
        read_target(&mut collector, options, found, &preload)?;
        look_for_runtimes(&mut collector, options, found)?;
        let config = kernel_config(options, waits, &collector, cpus, hz);
        let (kernel, waits) = load(objects, config, options, found, &mut why_no_waits)?;
        notices.extend(why_no_waits.clone());
        add_waits(&mut collector, waits.as_ref(), why_no_waits);
        let drain = Drain::start(kernel.rings(events.sidebands)?, Arc::clone(&kernel.stopper))
            .context("cannot start a thread that reads the ring buffers")?;
        let mut session = Session {
            kernel,
            samplers: events.samplers,
            counters: events.counters,
            waits,
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
            refusals: Refusals::default(),
            pending_interpreters: Vec::new(),
            exits: Exits::default(),
            books: Books::default(),
            stamps: 0,
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

/// Name of the target, and whether it is one process, if its children are recorded from now on.
fn parent(options: &RecordOptions, found: &FoundTarget) -> Option<(String, bool)> {
    let is_running = matches!(options.target, Target::Pids(_) | Target::Name(_));
    let follows = is_running && options.children != Children::None;
    follows.then(|| (found.name.clone(), found.pids.len() == 1))
}

/// Whether the kernel says what its own structures are like.
fn has_types() -> Result<(), Failure> {
    let Some(lack) = TypesLack::of_this_kernel() else { return Ok(()) };
    let what = format!("cannot load the samplers: {}", lack.why());
    Err(Failure::new(status::FAILED, what).hint(lack.cure()))
}

fn kernel_config(
    options: &RecordOptions,
    waits: Option<WaitConfig>,
    collector: &Collector,
    cpus: Vec<u32>,
    hz: u32,
) -> KernelConfig {
    let is_system_wide = collector.processes.is_system_wide;
    KernelConfig {
        filter: options.target.filter(),
        follow_children: options.children != Children::None,
        follow_frame_pointers: options.call_graph != CallGraph::Dwarf,
        on_cpu: options.on_cpu(),
        counters: options.counters().count(),
        translation: Translation::of_self(),
        waits,
        row_capacity: row_capacity(&collector.files, is_system_wide, options.table_budget_bytes),
        page_capacity: page_capacity(&collector.files),
        table_budget_bytes: options.table_budget_bytes,
        hz,
        reads_managed: collector.managed.is_loaded,
        interpreters: collector.interpreters.loaded,
        reads_goroutines: collector.goroutines.is_loaded,
        copy_every_stack: collector.copies.is_some(),
        cpus,
    }
}

/// The perf events of a recording, one of each on every CPU.
struct AttachedEvents {
    samplers: Vec<OwnedFd>,
    /// Events of each counter.
    counters: Vec<Vec<OwnedFd>>,
    sidebands: Vec<SidebandRing>,
}

impl AttachedEvents {
    fn open(options: &RecordOptions, found: &FoundTarget, cpus: &[u32], hz: u32) -> Result<Self, Failure> {
        let sampler = |&cpu: &u32| {
            perf_event::open_sampler(cpu, hz, options.user_only)
                .map_err(|error| sampler_failure(cpu, found, &error))
        };
        let sideband = |&cpu: &u32| {
            SidebandRing::open(cpu).map_err(|error| {
                let what = format!("cannot track mappings on CPU {cpu}");
                if descriptors::is_lack(&error) {
                    return descriptors::lack(&what);
                }
                Failure::new(status::FAILED, format!("{what}: {error}"))
                    .hint("the limit on locked memory may be too low: ulimit -l unlimited")
            })
        };
        let counters = options.counters().map(|counter| counter_events(counter, cpus, hz, options, found));
        Ok(AttachedEvents {
            samplers: cpus.iter().map(sampler).collect::<Result<_, _>>()?,
            counters: counters.collect::<Result<_, _>>()?,
            sidebands: cpus.iter().map(sideband).collect::<Result<_, _>>()?,
        })
    }
}

/// Facts that the profile has from its start on.
fn meta(options: &RecordOptions, found: &FoundTarget, command: Vec<String>, cpus: usize, hz: u32) -> Meta {
    Meta {
        prof_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        cpus: cpus as u32,
        target: found.label.clone(),
        target_name: found.name.clone(),
        target_pids: found.pids.clone(),
        threads_at_start: found.threads,
        requested_hz: match options.rate {
            Rate::Hz(asked) => asked,
            Rate::Default => options.target.default_hz(),
            Rate::Max => hz,
        },
        effective_hz: hz,
        clock: SAMPLE_CLOCK.to_owned(),
        clock_is_timer: true,
        runtime: options.runtime,
        user_only: options.user_only,
        pid_namespace: namespaces::pid_namespace(),
        is_command: matches!(options.target, Target::Launch(_)),
        ..system_meta()
    }
}

/// Returns the configuration of waits, if they are to be recorded and can be; else `why_not` gets the reason, if they are to be.
fn wait_config(
    options: &RecordOptions,
    found: &FoundTarget,
    is_watched: bool,
    why_not: &mut Option<String>,
) -> Result<Option<WaitConfig>, Failure> {
    const OTHERWISE: &str = "record running time:  prof record -e cpu …";
    let has_others = options.events.len() > 1;
    let config = match options.waits().map(WaitConfig::for_this_kernel).transpose() {
        Ok(None) => return Ok(None),
        Ok(Some(config)) => WaitConfig { is_watched, ..config },
        Err(why) if has_others => {
            *why_not = Some(format!("off-CPU time is not recorded: {why}"));
            return Ok(None);
        }
        Err(why) => {
            let what = format!("off-CPU time cannot be recorded on this kernel: {why}");
            return Err(Failure::new(status::FAILED, what).hint(OTHERWISE));
        }
    };
    if found.pids.is_empty() || !found.pids.iter().all(|&pid| proc_fs::is_of_kernel(pid)) {
        return Ok(Some(config));
    }
    let whose = format!("{} is of the kernel", found.label);
    if !has_others {
        let what = format!("{whose}: waits of its threads are not recorded");
        return Err(Failure::new(status::FAILED, what).hint(OTHERWISE));
    }
    *why_not = Some(format!("{whose}: it is recorded while it runs, not while it waits"));
    Ok(None)
}

/// An empty collector of the events that are recorded, but for waits, which have to be loaded first.
fn collector(
    options: &RecordOptions,
    meta: Meta,
    has_waits: bool,
    is_watched: bool,
) -> anyhow::Result<Collector> {
    let hz = meta.effective_hz;
    let mut files = ModuleFiles::new(options.call_graph != CallGraph::FramePointer);
    if files.wants_tables() {
        match TableCache::open() {
            Ok(cache) => files.use_cache(cache),
            Err(why) => files.failures.push(format!("unwind tables are not cached: {why}")),
        }
    }
    let kernel_frames = KernelFrames::new(!options.user_only || has_waits);
    let mut collector = Collector::new(Profile::new(meta), files, kernel_frames);
    collector.dumps.is_watched = is_watched;
    collector.interpreters.is_wanted = options.runtime != RuntimeFrames::Off;
    collector.goroutines.is_wanted = options.runtime != RuntimeFrames::Off;
    collector.managed.is_wanted = options.runtime != RuntimeFrames::Off;
    if options.on_cpu() {
        let rule = format!("{SAMPLE_CLOCK} at {} Hz per CPU", units::count(hz.into()));
        collector.add_samples(rule, perf_event::period_ns(hz));
    }
    collector.goroutines.snapshot_overhead = options.goroutines();
    if options.goroutines().is_some() {
        collector.add_goroutines();
    }
    for counter in options.counters() {
        collector.add_counter(counter.kind.clone(), counter.rule(hz), counter.period);
    }
    #[cfg(feature = "testing")]
    if let Some(path) = &options.stack_copies {
        collector.copies = Some(crate::record::collect::stack_copies::StackCopies::create(path)?);
    }
    Ok(collector)
}

/// Notes how waits are recorded, or why they are not.
fn add_waits(collector: &mut Collector, waits: Option<&WaitConfig>, why_not: Option<String>) {
    collector.profile.meta.why_no_waits = why_not.unwrap_or_default();
    if let Some(waits) = waits {
        collector.add_waits(waits.describe(), waits.min_duration_ns());
    }
}

/// Reads what the target has mapped, and opens what it will map.
fn read_target(
    collector: &mut Collector,
    options: &RecordOptions,
    found: &FoundTarget,
    preload: &[PathBuf],
) -> anyhow::Result<()> {
    collector.files.open_own_vdso();
    for path in preload {
        if let Ok(file) = privilege::as_user(|| std::fs::File::open(path)) {
            collector.files.preload(file, path);
        }
    }
    let is_system_wide = options.target == Target::System;
    collector.processes.is_system_wide = is_system_wide;
    let pids = if is_system_wide { proc_fs::processes()? } else { found.pids.clone() };
    for pid in pids {
        collector.processes.get_or_read(pid, &mut collector.files);
    }
    Ok(())
}

/// Notes whether the target runs an interpreter, a runtime with managed code, or a Go program, whose frames or goroutines are
/// wanted, or may come to run one: that of a command and of the whole machine is not there yet. All others are recorded without
/// the programs that read such frames, which take some milliseconds to load.
fn look_for_runtimes(
    collector: &mut Collector,
    options: &RecordOptions,
    found: &FoundTarget,
) -> Result<(), Failure> {
    let Collector { processes, files, interpreters, managed, goroutines, .. } = collector;
    let is_wanted = options.runtime != RuntimeFrames::Off;
    let may_come = matches!(options.target, Target::System | Target::Launch(_));
    let running = || found.pids.iter().filter_map(|pid| processes.get(*pid));
    interpreters.loaded = match (is_wanted, may_come) {
        (false, _) => 0,
        (true, true) => ALL_LANGUAGES,
        (true, false) => running().fold(0, |all, process| all | interpreters.runtimes(process, files)),
    };
    managed.is_loaded =
        is_wanted && (may_come || running().any(|process| managed.has_runtime(process, files)));
    goroutines.is_loaded =
        is_wanted && (may_come || running().any(|process| goroutines.has_program(process, files)));
    let lacks_goroutines = options.goroutines().is_some() && !goroutines.is_loaded;
    if lacks_goroutines { Err(no_go_program(found)) } else { Ok(()) }
}

/// The failure where snapshots of goroutines are asked for and nothing has some.
fn no_go_program(found: &FoundTarget) -> Failure {
    let what =
        "no target is a Go program whose function table can be read: --goroutines has nothing to record";
    Failure::new(status::FAILED, format!("{}: {what}", found.label)).hint("leave out --goroutines")
}

/// Loads the programs: without those of waits if the kernel refuses them and something else is recorded; `why_no_waits` then
/// gets the reason.
fn load<'obj>(
    objects: &'obj mut [MaybeUninit<OpenObject>; 2],
    config: KernelConfig,
    options: &RecordOptions,
    found: &FoundTarget,
    why_no_waits: &mut Option<String>,
) -> anyhow::Result<(KernelSide<'obj>, Option<WaitConfig>)> {
    let [first, second] = objects;
    let error = match KernelSide::attached(first, &config, &found.tids) {
        Ok(kernel) => return Ok((kernel, config.waits)),
        Err(error) if config.waits.is_none() || options.events.len() < 2 => return Err(error),
        Err(error) => error,
    };
    let config = KernelConfig { waits: None, ..config };
    let kernel = KernelSide::attached(second, &config, &found.tids)?;
    let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hints.first().cloned());
    let hint = hint.unwrap_or("`prof doctor` shows what this kernel lacks".to_owned());
    *why_no_waits = Some(format!("off-CPU time is not recorded: {error:#}; {hint}"));
    Ok((kernel, None))
}

/// Returns the time that sampling still waits for tables, when attaching has taken `so_far`, and for which.
fn table_patience(options: &RecordOptions, found: &FoundTarget, so_far: Duration) -> (Duration, Wanted) {
    let patience = match options.target {
        // It has not begun: what is waited for here it does not miss.
        Target::Launch(_) => return (TABLE_PATIENCE, Wanted::Whole),
        Target::System => FIRST_SAMPLE_PATIENCE,
        _ if found.pids.iter().all(|&pid| proc_fs::has_small_stacks(pid)) => SMALL_STACKS_PATIENCE,
        _ => FIRST_SAMPLE_PATIENCE,
    };
    (patience.saturating_sub(so_far), Wanted::First)
}

/// Hint for a counter that is not there.
const EVENTS_OF_ALL: &str =
    "these software events work everywhere:  -e page-faults, context-switches, cpu-migrations";

/// The events of a counter, one for each CPU.
fn counter_events(
    counter: &PerfCounter,
    cpus: &[u32],
    hz: u32,
    options: &RecordOptions,
    found: &FoundTarget,
) -> Result<Vec<OwnedFd>, Failure> {
    let open = |cpu: &u32| {
        perf_event::open_counter(*cpu, counter, hz, options.user_only).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL)
                    if counter.is_of_processor() =>
                {
                    let what = format!("this machine has no counter for `{}`", counter.kind.name);
                    Failure::new(status::FAILED, what)
                        .hint("a virtual machine has processor counters only if its host exposes them")
                        .hint(EVENTS_OF_ALL)
                }
                Some(libc::ENOENT) => {
                    let what = format!("this kernel has no event `{}`", counter.kind.name);
                    Failure::new(status::FAILED, what).hint(EVENTS_OF_ALL)
                }
                _ => sampler_failure(*cpu, found, &error),
            }
        })
    };
    cpus.iter().map(open).collect()
}

/// Why an event could not be opened.
fn sampler_failure(cpu: u32, found: &FoundTarget, error: &std::io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => rights::not_permitted(&format!("cannot sample {}", found.label)),
        _ if seccomp::filtered_calls().contains(&"perf_event_open") => {
            rights::not_permitted(&format!("cannot sample {}", found.label))
        }
        _ if descriptors::is_lack(error) => descriptors::lack(&format!("cannot sample CPU {cpu}")),
        _ => Failure::new(status::FAILED, format!("cannot sample CPU {cpu}: perf_event_open: {error}"))
            .hint("see what this kernel lacks: prof doctor"),
    }
}
