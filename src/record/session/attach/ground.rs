//! What is known, read and asked for before the kernel side is there, whatever that will be.

use crate::base::failure::{Failure, status};
use crate::base::{privilege, units};
use crate::profile::{Meta, Profile, RuntimeFrames};
use crate::record::collect::collector::Collector;
use crate::record::collect::kernel_frames::KernelFrames;
use crate::record::environment::machine::{SAMPLE_CLOCK, system_meta};
use crate::record::environment::namespaces;
use crate::record::interpreters::ALL_LANGUAGES;
use crate::record::kernel::drain::RingSource;
use crate::record::kernel::perf_event;
use crate::record::kernel::wait_config::WaitConfig;
use crate::record::modules::{ModuleFiles, TableCache};
use crate::record::options::{CallGraph, Rate, RecordOptions, Target};
use crate::record::process::proc_fs;
use crate::record::session::Start;
use crate::record::session::sampling::Sampling;
use crate::record::target::search::FoundTarget;
use std::path::PathBuf;

/// Facts that every kernel side is attached by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) start: &'a Start<'a>,
    /// CPUs that are online.
    pub(super) cpus: &'a [u32],
    /// Sampling rate, Hz.
    pub(super) hz: u32,
    /// Samples in the kernel are left out.
    pub(super) user_only: bool,
}

/// A kernel side that is attached to the target, and what is known of that.
pub(super) struct AttachedSide<'obj> {
    pub(super) sampling: Sampling<'obj>,
    pub(super) rings: Box<dyn RingSource>,
    pub(super) collector: Collector,
    /// How waits are recorded; `None` if they are not.
    pub(super) waits: Option<WaitConfig>,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
    /// What samples instead of BPF programs, why, and what that lacks: a notice, too.
    pub(super) substitute: Option<String>,
}

impl Ground<'_> {
    /// A collector that knows the target and what is mapped in it, for the events that are recorded but for waits.
    ///
    /// # Errors
    ///
    /// When the target cannot be read, or has nothing of what is asked for.
    pub(super) fn read(&self, has_waits: bool) -> anyhow::Result<Collector> {
        let Start { options, found, preload, command, is_watched } = self.start;
        let meta = meta(options, found, command.clone(), self.cpus.len(), self.hz);
        let meta = Meta { user_only: self.user_only, ..meta };
        let mut collector = collector(options, meta, has_waits, *is_watched)?;
        read_target(&mut collector, options, found, preload)?;
        look_for_runtimes(&mut collector, options, found)?;
        Ok(collector)
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
        pid_namespace: namespaces::pid_namespace(),
        is_command: matches!(options.target, Target::Launch(_)),
        ..system_meta()
    }
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
    let kernel_frames = KernelFrames::new(!meta.user_only || has_waits);
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
pub(super) fn add_waits(collector: &mut Collector, waits: Option<&WaitConfig>, why_not: Option<String>) {
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
