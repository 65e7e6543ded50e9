//! What is known, read and asked for before the kernel side is there, whatever that will be.

use crate::base::failure::Failure;
use crate::base::opener::sandbox;
use crate::base::{pace, privilege, units};
use crate::profile::{EventKind, Meta, Profile, RuntimeFrames};
use crate::record::collect::collector::Collector;
use crate::record::collect::kernel_frames::KernelFrames;
#[cfg(feature = "testing")]
use crate::record::collect::stack_copies::StackCopies;
use crate::record::environment::machine::{SAMPLE_CLOCK, present_cpus, system_meta};
use crate::record::environment::namespaces;
use crate::record::heap::HeapSampling;
use crate::record::kernel::drain::RingSource;
use crate::record::kernel::perf_event;
use crate::record::kernel::wait_config::WaitConfig;
use crate::record::modules::ModuleFiles;
use crate::record::options::{CallGraph, Rate, RecordOptions, Target};
use crate::record::services::TableCacheOrNot;
use crate::record::session::Start;
use crate::record::session::attach::read_target::read_target;
use crate::record::session::attach::survey::TargetSurvey;
use crate::record::session::sampling::Sampling;
use crate::record::target::search::FoundTarget;
use crate::record::workers;

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

/// What only a process with rights can open.
pub(super) struct OpenedEarly {
    kernel_frames: KernelFrames,
    #[cfg(feature = "testing")]
    copies: Option<StackCopies>,
}

impl Ground<'_> {
    /// CPUs that are there and off.
    pub(super) fn off_cpus(&self) -> Vec<u32> {
        let present = present_cpus().unwrap_or_default();
        present.into_iter().filter(|cpu| !self.cpus.contains(cpu)).collect()
    }

    /// CPUs that are online or may come.
    pub(super) fn all_cpus(&self) -> Vec<u32> {
        self.cpus.iter().copied().chain(self.off_cpus()).collect()
    }

    /// Looks at the target before anything is attached to it.
    ///
    /// # Errors
    ///
    /// When it has nothing of what is asked for.
    pub(super) fn survey(&self) -> anyhow::Result<TargetSurvey> {
        let Start { options, found, launched, .. } = *self.start;
        TargetSurvey::take(options, found, launched.map(|child| child.program.as_path()))
    }

    /// What the recorder opens while it has the rights to.
    ///
    /// # Errors
    ///
    /// When a file that was asked for cannot be made.
    pub(super) fn open(&self, has_waits: bool) -> anyhow::Result<OpenedEarly> {
        Ok(OpenedEarly {
            kernel_frames: KernelFrames::new(!self.user_only || has_waits),
            #[cfg(feature = "testing")]
            copies: self.start.options.stack_copies.as_deref().map(StackCopies::create).transpose()?,
        })
    }

    /// Gives up the rights that attaching took. Then makes a collector that knows the target and what is mapped in it, for
    /// the events that are recorded but for waits.
    ///
    /// # Errors
    ///
    /// When rights cannot be given up, or the target cannot be read.
    pub(super) fn read(&self, opened: OpenedEarly, survey: &TargetSurvey) -> anyhow::Result<Collector> {
        let Start { options, found, launched, cache, command, is_watched } = self.start;
        give_up_rights()?;
        let meta = meta(options, found, command.clone(), self.cpus.len(), self.hz);
        let meta = Meta { user_only: self.user_only, ..meta };
        let mut collector = collector(options, meta, opened.kernel_frames, cache.clone());
        collector.dumps.is_watched = *is_watched;
        collector.interpreters.loaded = survey.interpreters;
        collector.managed.is_loaded = survey.has_managed;
        collector.goroutines.is_loaded = survey.has_goroutines;
        #[cfg(feature = "testing")]
        {
            collector.copies = opened.copies;
        }
        let program = launched.map(|child| child.program.as_path());
        read_target(&mut collector, options, found, program)?;
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
    kernel_frames: KernelFrames,
    cache: TableCacheOrNot,
) -> Collector {
    let hz = meta.effective_hz;
    let mut files = ModuleFiles::new(options.call_graph != CallGraph::FramePointer);
    files.has_workers = workers::is_running();
    match cache {
        Some(Ok(cache)) => files.use_cache(cache),
        Some(Err(why)) => files.failures.push(format!("unwind tables are not cached: {why}")),
        None => {}
    }
    let mut collector = Collector::new(Profile::new(meta), files, kernel_frames);
    collector.interpreters.is_wanted = options.runtime != RuntimeFrames::Off;
    collector.goroutines.is_wanted = options.runtime != RuntimeFrames::Off;
    collector.managed.is_wanted = options.runtime != RuntimeFrames::Off;
    if options.on_cpu() {
        let rule = format!("{SAMPLE_CLOCK} at {} Hz per CPU", units::count(hz.into()));
        collector.add_samples(rule, perf_event::period_ns(hz));
    }
    collector.goroutines.snapshot_overhead = options.goroutines();
    collector.goroutines.wants_functions = options.heap().is_some() || options.go_waits().is_some();
    if options.goroutines().is_some() {
        collector.add_goroutines();
    }
    if let Some(overhead_ppm) = options.heap() {
        collector.add_heap(HeapSampling::rule(overhead_ppm));
    }
    if let Some(overhead_ppm) = options.go_waits() {
        collector.go_waits.want(overhead_ppm);
    }
    for counter in options.counters() {
        collector.add_counter(counter.kind.clone(), counter.rule(hz), counter.period);
    }
    collector
}

/// Gives up the rights that attaching took, before anything of the target is read. What comes first takes one of them.
fn give_up_rights() -> Result<(), Failure> {
    pace::come_first();
    sandbox::enter()?;
    // They compile tables and look up names, with only the rights that a recording needs to its end.
    pace::start_threads(privilege::keep_watching_or_end)
}

/// Notes how waits are recorded, or why they are not.
pub(super) fn add_waits(collector: &mut Collector, waits: Option<&WaitConfig>, why_not: Option<String>) {
    collector.profile.meta.why_no_waits = why_not.unwrap_or_default();
    if let Some(waits) = waits {
        let kind = if waits.futexes_only { EventKind::LOCK } else { EventKind::OFF_CPU };
        collector.add_waits(kind, waits.describe(), waits.min_duration_ns());
    }
}
