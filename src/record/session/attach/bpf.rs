//! A kernel side of BPF programs.

use super::ground::{AttachedSide, Ground, add_waits};
use crate::base::failure::{Failure, status};
use crate::record::counter::PerfCounter;
use crate::record::environment::kernel_types::TypesLack;
use crate::record::environment::namespaces::Translation;
use crate::record::environment::{descriptors, known_bugs, rights, seccomp};
use crate::record::kernel::attach::{KernelConfig, KernelSide};
use crate::record::kernel::perf_event::{self, CpuEvent, SidebandRing};
use crate::record::kernel::wait_config::WaitConfig;
use crate::record::options::{CallGraph, Children, RecordOptions};
use crate::record::probes::attached::AttachedProbes;
use crate::record::probes::plan::ProbePlan;
use crate::record::probes::programs::ProbePrograms;
use crate::record::process::proc_fs;
use crate::record::session::Start;
use crate::record::session::attach::survey::TargetSurvey;
use crate::record::session::sampling::{BpfSampling, CpuEventPlan, Sampling};
use crate::record::target::search::FoundTarget;
use libbpf_rs::OpenObject;
use std::mem::MaybeUninit;

/// Opens the events, loads the programs, gives up the rights that this took, and reads the target, in this order.
///
/// # Errors
///
/// A [`Failure`] that names the missing right or feature, and whether another kernel side may do without.
pub(super) fn attach<'obj>(
    objects: &'obj mut [MaybeUninit<OpenObject>; 2],
    ground: Ground<'_>,
) -> Result<AttachedSide<'obj>, Unattached> {
    let Start { options, found, is_watched, .. } = *ground.start;
    has_types().map_err(Unattached::no_programs)?;
    is_safe().map_err(Unattached::no_programs)?;
    let events =
        AttachedEvents::open(options, found, ground.cpus, ground.hz).map_err(|failure| {
            match failure.status {
                status::NOT_PERMITTED => Unattached::no_programs(failure),
                _ => Unattached::Failed(failure.into()),
            }
        })?;
    let mut why_no_waits = None;
    let waits = wait_config(options, found, is_watched, &mut why_no_waits)?;
    let plan = ProbePlan::make(options, found, ground.start.launched)?;
    let opened = ground.open(waits.is_some() || plan.is_some())?;
    let survey = ground.survey()?;
    let probes = plan.as_ref().map(|plan| plan.programs);
    let config = kernel_config(options, (waits, probes), &survey, ground.all_cpus(), ground.hz);
    let loaded = load(objects, config, options, found, &mut why_no_waits);
    let (kernel, waits) = loaded.map_err(Unattached::unloaded)?;
    let mut notices: Vec<String> = why_no_waits.iter().cloned().chain(survey.notice.clone()).collect();
    notices.extend(plan.iter().flat_map(|plan| plan.notices.iter().cloned()));
    let is_interrupted = options.counters().any(PerfCounter::is_of_processor);
    notices.extend(is_interrupted.then(known_bugs::standstill).flatten());
    let rules = plan.as_ref().map(|plan| plan.events.clone()).unwrap_or_default();
    let first_event = options.counters().count() as u32 + 1;
    let attach = |plan| AttachedProbes::attach(&kernel.skeleton, plan, first_event);
    let probes = plan.map(attach).transpose()?;
    notices.extend(probes.iter().flat_map(|probes| probes.notices.iter().cloned()));
    let mut collector = ground.read(opened, &survey)?;
    rules.into_iter().for_each(|(kind, rule)| collector.add_counter(kind, rule, Some(1)));
    add_waits(&mut collector, waits.as_ref(), why_no_waits);
    let of_cpus = events.sidebands.iter().map(SidebandRing::event).collect::<Result<_, _>>()?;
    let rings = Box::new(kernel.rings(events.sidebands)?);
    let (samplers, counters) = (events.samplers, events.counters);
    let plan = CpuEventPlan {
        on_cpu: options.on_cpu(),
        counters: options.counters().cloned().collect(),
        hz: ground.hz,
        user_only: options.user_only,
    };
    let sampling = Sampling::Bpf(Box::new(BpfSampling { kernel, samplers, counters, of_cpus, plan, probes }));
    Ok(AttachedSide { sampling, rings, collector, waits, notices, substitute: None })
}

/// Why there is no kernel side of BPF programs.
#[derive(Debug)]
pub(super) enum Unattached {
    /// They may not be loaded, or cannot run here.
    NoPrograms(anyhow::Error),
    /// What is wrong is not their fault.
    Failed(anyhow::Error),
}

impl Unattached {
    fn no_programs(failure: Failure) -> Self {
        Unattached::NoPrograms(failure.into())
    }

    /// Programs that were not loaded: where they lack descriptors, whatever samples instead lacks them, too, and one setting
    /// gives both enough.
    fn unloaded(error: anyhow::Error) -> Self {
        if descriptors::is_failure_of_lack(&error) {
            Unattached::Failed(error)
        } else {
            Unattached::NoPrograms(error)
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Unattached {
    fn from(error: E) -> Self {
        Unattached::Failed(error.into())
    }
}

/// Whether the kernel says what its own structures are like.
fn has_types() -> Result<(), Failure> {
    let Some(lack) = TypesLack::of_this_kernel() else { return Ok(()) };
    let what = format!("cannot load the samplers: {}", lack.why());
    Err(Failure::new(status::FAILED, what).hint(lack.cure()))
}

/// Whether this kernel may run the programs without harm to the machine.
fn is_safe() -> Result<(), Failure> {
    let Some(bug) = known_bugs::lock_up() else { return Ok(()) };
    let what = format!("cannot load the samplers: {bug}");
    Err(Failure::new(status::FAILED, what).hint("use a newer kernel, of the same version or a later one"))
}

/// The counters of page faults: bit n for the one of number n, from 1.
fn fault_counters(options: &RecordOptions) -> u64 {
    let numbered = (1..u64::BITS).zip(options.counters());
    numbered
        .filter(|(_, counter)| counter.is_of_page_faults())
        .fold(0, |bits, (number, _)| bits | 1 << number)
}

fn kernel_config(
    options: &RecordOptions,
    (waits, probes): (Option<WaitConfig>, Option<ProbePrograms>),
    survey: &TargetSurvey,
    cpus: Vec<u32>,
    hz: u32,
) -> KernelConfig {
    KernelConfig {
        filter: options.target.filter(),
        follow_children: options.children != Children::None,
        follow_frame_pointers: options.call_graph != CallGraph::Dwarf,
        on_cpu: options.on_cpu(),
        counters: options.counters().count(),
        blocks_overhead_ppm: options.heap(),
        fault_counters: fault_counters(options),
        translation: Translation::of_self(),
        waits,
        probes,
        row_capacity: survey.rows,
        page_capacity: survey.pages,
        table_budget_bytes: options.table_budget_bytes,
        hz,
        reads_managed: survey.has_managed,
        interpreters: survey.interpreters,
        reads_goroutines: survey.has_goroutines,
        copy_every_stack: copies_stacks(options),
        cpus,
    }
}

/// Whether a copy of every stack is wanted: of tests alone.
fn copies_stacks(options: &RecordOptions) -> bool {
    #[cfg(feature = "testing")]
    return options.stack_copies.is_some();
    #[cfg(not(feature = "testing"))]
    {
        let _ = options;
        false
    }
}

/// The perf events of a recording, one of each on every CPU.
struct AttachedEvents {
    samplers: Vec<CpuEvent>,
    /// Events of each counter.
    counters: Vec<Vec<CpuEvent>>,
    sidebands: Vec<SidebandRing>,
}

impl AttachedEvents {
    fn open(options: &RecordOptions, found: &FoundTarget, cpus: &[u32], hz: u32) -> Result<Self, Failure> {
        let sampler = |&cpu: &u32| {
            perf_event::open_sampler(cpu, hz, options.user_only)
                .map(|event| CpuEvent { cpu, event })
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

/// Returns the configuration of waits, if they are to be recorded and can be; else `why_not` gets the reason, if they are to be.
fn wait_config(
    options: &RecordOptions,
    found: &FoundTarget,
    is_watched: bool,
    why_not: &mut Option<String>,
) -> Result<Option<WaitConfig>, Unattached> {
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
            let what = format!("off-CPU time cannot be recorded by BPF programs on this kernel: {why}");
            return Err(Unattached::no_programs(Failure::new(status::FAILED, what).hint(OTHERWISE)));
        }
    };
    if found.pids.is_empty() || !found.pids.iter().all(|&pid| proc_fs::is_of_kernel(pid)) {
        return Ok(Some(config));
    }
    let whose = format!("{} is of the kernel", found.label);
    if !has_others {
        let what = format!("{whose}: waits of its threads are not recorded");
        return Err(Failure::new(status::FAILED, what).hint(OTHERWISE).into());
    }
    *why_not = Some(format!("{whose}: it is recorded while it runs, not while it waits"));
    Ok(None)
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

/// The events of a counter, one for each CPU.
fn counter_events(
    counter: &PerfCounter,
    cpus: &[u32],
    hz: u32,
    options: &RecordOptions,
    found: &FoundTarget,
) -> Result<Vec<CpuEvent>, Failure> {
    let open = |cpu: &u32| {
        perf_event::open_counter(*cpu, counter, hz, options.user_only)
            .map(|event| CpuEvent { cpu: *cpu, event })
            .map_err(|error| counter.lack(&error).unwrap_or_else(|| sampler_failure(*cpu, found, &error)))
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
