//! A kernel side of perf events of tasks, where there can be no BPF programs: who runs `prof` may not load them, or the kernel
//! cannot run them.

use super::ground::{AttachedSide, Ground};
use crate::base::failure::{Failure, status};
use crate::base::opener;
use crate::profile::{EventKind, RuntimeFrames};
use crate::record::collect::collector::Collector;
use crate::record::environment::rights::{CONTAINER_OPTIONS, is_in_container};
use crate::record::environment::seccomp;
use crate::record::interpreters::ALL_LANGUAGES;
use crate::record::kernel::perf::open::{EventCpus, EventPlan, FunctionReading, Inherits};
use crate::record::kernel::perf::refusal::EventRefusal;
use crate::record::kernel::perf::side::{EventOptions, EventSide, EventTargets, ThreadThere};
use crate::record::kernel::wait_config::WaitConfig;
use crate::record::options::{Children, RecordOptions, Target};
use crate::record::process::proc_fs;
use crate::record::session::Start;
use crate::record::session::sampling::Sampling;
use crate::record::target::search::FoundTarget;

/// Functions that only BPF programs read.
const LANGUAGES: &str =
    "functions of Python, Ruby, PHP and Perl in waits, and in samples whose thread runs on at once";

/// Opens the events and reads the target, in this order. `refused` is why there are no BPF programs.
///
/// # Errors
///
/// A [`Failure`] that says what is missing.
pub(super) fn attach<'obj>(ground: Ground<'_>, refused: anyhow::Error) -> anyhow::Result<AttachedSide<'obj>> {
    let Start { options, found, launched, is_watched, .. } = *ground.start;
    if let Some(event) = only_by_programs(options) {
        return Err(refused.context(format!("-e {event} needs BPF programs")));
    }
    // What may come is not looked at: it may be anything.
    let is_system_wide = options.target == Target::System;
    let early = if is_system_wide { None } else { Some(ground.survey()?) };
    let languages = early.as_ref().map_or(ALL_LANGUAGES, |survey| survey.interpreters);
    let reading = match early.as_ref() {
        _ if languages == 0 || options.runtime == RuntimeFrames::Off => FunctionReading::No,
        // Rings cannot be exchanged without rights that were given up.
        Some(survey) if launched.is_some() && !survey.is_interpreter && !opener::is_running() => {
            FunctionReading::OnceThere
        }
        _ => FunctionReading::FromStart,
    };
    let (mut side, rings) = match open(ground, reading) {
        Ok(opened) => opened,
        // For the whole machine, and where nothing is allowed, the right to BPF programs is what is missing.
        Err(refusal) if refusal.is_denied() && (options.target == Target::System || is_filtered()) => {
            return Err(refused);
        }
        Err(refusal) => return Err(refusal.failure(&found.label).into()),
    };
    if let Some(child) = launched {
        // While this process may open events of others.
        side.add_launched(child.pid).map_err(|refusal| refusal.failure("the command"))?;
    }
    let with_kernel = side.has_kernel();
    let ground = Ground { user_only: !with_kernel, ..ground };
    let survey = match early {
        Some(survey) => survey,
        None => ground.survey()?,
    };
    let mut collector = ground.read(ground.open(false)?, &survey)?;
    let waits = add_waits(&mut collector, options, &side, (ground.hz, is_watched));
    collector.interpreters.loaded = if reading == FunctionReading::No { 0 } else { languages };
    collector.interpreters.is_read_outside = true;
    collector.goroutines.is_wanted &= options.goroutines().is_some();
    let substitute = Some(note(&refused, found, with_kernel, waits.is_some()));
    let sampling = Sampling::Events(Box::new(side));
    Ok(AttachedSide {
        sampling,
        rings,
        collector,
        waits,
        notices: survey.notice.into_iter().collect(),
        substitute,
    })
}

/// The first event that only BPF programs can record.
fn only_by_programs(options: &RecordOptions) -> Option<&str> {
    // Events of the scheduler have no registers of those that wait.
    let lock = options.waits().filter(|waits| waits.futexes_only).map(|_| EventKind::LOCK_NAME);
    let probe = options.probes().next().map(|(probe, _)| &*probe.kind.name);
    lock.or(probe).or(options.heap().map(|_| EventKind::HEAP_NAME))
}

/// Has the collector take waits, if they are wanted: with stacks of `hz` a second and thread, where the events have them.
fn add_waits(
    collector: &mut Collector,
    options: &RecordOptions,
    side: &EventSide,
    (hz, is_watched): (u32, bool),
) -> Option<WaitConfig> {
    let waits = options.waits().map(|waits| WaitConfig {
        min_block: waits.min_block,
        max_overhead_ppm: 0,
        is_watched,
        futexes_only: false,
        is_early: false,
    })?;
    let stacks = match side.has_wait_stacks() {
        true => format!("stacks of {hz} a second and thread"),
        false => "without stacks".to_owned(),
    };
    let described = format!("{}, {stacks}", waits.describe());
    collector.add_waits(EventKind::OFF_CPU, described, waits.min_duration_ns());
    Some(waits)
}

/// Whether a filter refuses perf events.
fn is_filtered() -> bool {
    seccomp::filtered_calls().contains(&"perf_event_open")
}

/// Opens the events: with the kernel's samples if that is wanted and allowed, and so that functions of interpreters can be read.
fn open(ground: Ground<'_>, reading: FunctionReading) -> Result<OpenedEvents, EventRefusal> {
    let wants_kernel = !ground.start.options.user_only;
    match open_with(ground, wants_kernel, reading) {
        Err(refusal) if wants_kernel && refusal.is_denied() => open_with(ground, false, reading),
        other => other,
    }
}

/// Events, and the rings that they write to.
type OpenedEvents = (EventSide, Box<dyn crate::record::kernel::drain::RingSource>);

fn open_with(
    ground: Ground<'_>,
    with_kernel: bool,
    reading: FunctionReading,
) -> Result<OpenedEvents, EventRefusal> {
    let Start { options, found, .. } = *ground.start;
    let plan = EventPlan {
        hz: ground.hz,
        on_cpu: options.on_cpu(),
        waits: options.waits().is_some(),
        counters: options.counters().cloned().collect(),
        wants_kernel: !options.user_only,
        with_kernel,
        inherits: match (&options.target, options.children) {
            (Target::Tids(_), _) => Inherits::Nothing,
            (_, Children::None) => Inherits::Threads,
            (_, Children::New | Children::All) => Inherits::All,
        },
        is_delayed: options.delay.is_some(),
        reading,
        cpus: EventCpus { online: ground.cpus.to_vec(), off: ground.off_cpus() },
    };
    let has_only_own = options.children == Children::None && options.target != Target::System;
    let settings = EventOptions {
        min_block_ns: options
            .waits()
            .map(|waits| u64::try_from(waits.min_block.as_nanos()).unwrap_or(u64::MAX)),
        copies_stacks: copies_stacks(options),
        only: has_only_own.then(|| found.pids.iter().copied().collect()),
    };
    let find = || threads_of(found);
    let targets = match &options.target {
        Target::System => EventTargets::System(all_threads()),
        Target::Launch(_) => EventTargets::Later,
        Target::Pids(_) | Target::Tids(_) | Target::Name(_) => EventTargets::Threads(&find),
    };
    EventSide::open(plan, settings, targets)
}

#[cfg(feature = "testing")]
fn copies_stacks(options: &RecordOptions) -> bool {
    options.stack_copies.is_some()
}

#[cfg(not(feature = "testing"))]
fn copies_stacks(_: &RecordOptions) -> bool {
    false
}

/// The threads of a target that are there.
fn threads_of(found: &FoundTarget) -> Vec<ThreadThere> {
    if found.tids.is_empty() {
        return found.pids.iter().flat_map(|pid| threads_of_process(*pid)).collect();
    }
    let of_tid = |tid: &u32| Some(there(proc_fs::process_of_thread(*tid).ok()??, *tid));
    found.tids.iter().filter_map(of_tid).collect()
}

fn threads_of_process(pid: u32) -> Vec<ThreadThere> {
    proc_fs::threads(pid).unwrap_or_default().into_iter().map(|tid| there(pid, tid)).collect()
}

fn all_threads() -> Vec<ThreadThere> {
    proc_fs::processes().unwrap_or_default().into_iter().flat_map(threads_of_process).collect()
}

fn there(tgid: u32, tid: u32) -> ThreadThere {
    ThreadThere { tgid, tid, comm: proc_fs::comm(tid).unwrap_or_default() }
}

/// Says by what is sampled, why, and what that lacks.
fn note(refused: &anyhow::Error, found: &FoundTarget, with_kernel: bool, has_waits: bool) -> String {
    let is_permitted =
        refused.downcast_ref::<Failure>().is_none_or(|failure| failure.status != status::NOT_PERMITTED);
    let text = format!("{refused:#}");
    let reason = [format!("cannot sample {}: ", found.label), "cannot load the samplers: ".to_owned()];
    let reason = reason.iter().find_map(|head| text.strip_prefix(head)).unwrap_or(&text);
    let whose = if is_permitted { "" } else { "own processes " };
    let who = match is_permitted {
        true => "BPF programs would add".to_owned(),
        false if is_in_container() => format!("{CONTAINER_OPTIONS} add"),
        false if rustix::process::geteuid().is_root() => "these would add".to_owned(),
        false => "root adds".to_owned(),
    };
    let lacks = [
        (!with_kernel).then_some("what runs in the kernel"),
        match (has_waits, with_kernel) {
            (false, _) => None,
            (true, true) => Some("who ended waits"),
            (true, false) => Some("stacks and reasons of waits, and who ended them"),
        },
        (!is_permitted).then_some("other users' processes"),
        Some(LANGUAGES),
    ];
    let lacks: Vec<&str> = lacks.into_iter().flatten().collect();
    format!("{reason}: sampling {whose}by perf events; {who} {}", lacks.join(", "))
}
