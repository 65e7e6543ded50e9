//! What to look at next: what a report of running time does not show, the largest first, each with its size and one command.

use super::selection::Selection;
use super::waits_note;
use super::waits_note::Advice;
use crate::base::safe_text;
use crate::base::units::{count, counted, duration, honest_percent_text, percent};
use crate::profile::Profile;
use crate::report::analysis::Analysis;
use crate::report::model::label::LabelId;
use crate::report::model::metric::Metric;
use crate::report::model::totals::Totals;
use crate::report::naming::name;
use crate::report::options::{CommonOptions, Grouping, ReportView};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// More would not be read.
const MOST: usize = 3;
/// A function has this share of all time, percent, before what is inlined into it is worth a note.
const INLINES_OF_PERCENT: f64 = 10.0;
/// And inlined functions have this share of its time.
const INLINES_PERCENT: f64 = 60.0;
/// A thread with this share of the CPU time, percent, is where to look.
const THREAD_PERCENT: f64 = 60.0;
/// Least number of threads for the note: of fewer, one has most of the time as a rule.
const LEAST_THREADS: usize = 4;
/// Time without a CPU, in percent of the time with or without one, from which on CPUs were short.
const NO_CPU_PERCENT: f64 = 10.0;
/// Number of waits per second, too short to be kept, from which on ...
const SHORT_WAITS_PER_SECOND: u64 = 1_000;
/// ... and this share of all waits, percent, they are worth a note.
const SHORT_WAITS_PERCENT: f64 = 50.0;

/// Note on what the threads of a view of running time waited for longest. Quotes foreign names.
pub(super) fn longest_wait(selection: &Selection<'_>) -> Option<String> {
    let is_running = selection.shown.metric() == Metric::ON_CPU;
    let waits = selection.waits().filter(|_| is_running)?;
    waits_note::advice(waits, selection.total).map(|advice| advice.text)
}

/// The notes under a report of running time, at most three. They quote foreign names.
pub(crate) fn next_steps(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &CommonOptions,
    view: &ReportView,
) -> Vec<String> {
    if selection.shown.metric() != Metric::ON_CPU {
        return Vec::new();
    }
    let mut found = Vec::new();
    found.extend(selection.waits().and_then(|waits| waits_note::advice(waits, selection.total)));
    found.extend(inlines(selection));
    if *view != ReportView::Threads {
        if !options.filter.is_on_threads() {
            found.extend(one_thread(selection));
        }
        if !found.iter().any(|advice: &Advice| advice.is_of_cpus) {
            found.extend(no_cpu(recording, options));
        }
    }
    found.extend(selection.waits().and_then(|waits| short_waits(recording, waits)));
    found.sort_by(|a, b| b.size_percent.total_cmp(&a.size_percent));
    found.into_iter().take(MOST).map(|advice| advice.text).collect()
}

/// A function most of whose time is in others that were inlined into it: its lines say more.
fn inlines(selection: &Selection<'_>) -> Option<Advice> {
    if selection.labels.grouping() != Grouping::Function {
        return None;
    }
    // Of each function that has code of its own: its time, and that of what is inlined into it.
    let mut times: FxHashMap<LabelId, [u64; 2]> = FxHashMap::default();
    selection.for_each_path(|path, groups| {
        let (Some(leaf), Some(host)) = (path.last(), path.iter().rev().find(|step| !step.is_inlined)) else {
            return;
        };
        let weight = groups.amount.weight;
        let [all, inlined] = times.entry(host.label).or_default();
        *all = all.saturating_add(weight);
        if leaf.is_inlined {
            *inlined = inlined.saturating_add(weight);
        }
    });
    let name = |label: LabelId| selection.labels.get(label).name.as_str();
    let order = |label: LabelId| selection.labels.get(label).order_key();
    let (host, [all, inlined]) =
        times.into_iter().max_by_key(|(label, [all, _])| (*all, Reverse(order(*label))))?;
    let (share, of_it) = (percent(all, selection.base().weight), percent(inlined, all));
    (share >= INLINES_OF_PERCENT && of_it >= INLINES_PERCENT).then(|| {
        let text = format!(
            "{} of the time is in {}, {of_it:.0}% of that in functions inlined into it: prof annotate {}",
            honest_percent_text(share),
            name::short(name(host)),
            safe_text::shell_line([name(host)])
        );
        Advice::new(share, text)
    })
}

/// One of many threads that has most of the CPU time.
fn one_thread(selection: &Selection<'_>) -> Option<Advice> {
    let tables = &selection.profile.tables;
    let tasks = selection.profile.recorded_tasks();
    let all: FxHashSet<(u32, u32)> = tasks.map(|(_, task)| (task.tid, task.generation)).collect();
    if all.len() < LEAST_THREADS {
        return None;
    }
    let mut times_of_tasks = vec![0u64; tables.tasks().len()];
    for group in selection.groups() {
        let time = &mut times_of_tasks[group.task.index()];
        *time = time.saturating_add(group.amount.weight);
    }
    let mut times: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for (task, of_task) in selection.tasks() {
        let time = times.entry((of_task.tid, of_task.generation)).or_default();
        *time = time.saturating_add(times_of_tasks[task.index()]);
    }
    let ((tid, generation), time) =
        times.into_iter().max_by_key(|(thread, time)| (*time, Reverse(*thread)))?;
    let share = percent(time, selection.base().weight);
    let task = tables.tasks().iter().find(|task| (task.tid, task.generation) == (tid, generation))?;
    (share >= THREAD_PERCENT).then(|| {
        let text = format!(
            "thread `{}` has {} of the CPU time of {}: prof report {}",
            tables.string(task.comm),
            honest_percent_text(share),
            counted(all.len() as u64, "thread"),
            chosen(selection.profile, tid, tables.string(task.comm))
        );
        Advice::new(share, text)
    })
}

/// The option that means a thread: its name, where no other has it.
fn chosen(profile: &Profile, tid: u32, name: &str) -> String {
    let has_name = |task: &&crate::profile::Task| profile.tables.string(task.comm) == name;
    let is_unique = profile.tables.tasks().iter().filter(has_name).all(|task| task.tid == tid);
    match is_unique && !name.is_empty() {
        true => safe_text::shell_line(["--thread", &format!("^{}$", regex::escape(name))]),
        false => format!("--tid {tid}"),
    }
}

/// Advice on threads that were ready to run for long without a CPU. The threads' accounts say that, which know no functions,
/// CPUs or labels: under filters on these there is no such note.
fn no_cpu(recording: &Analysis, options: &CommonOptions) -> Option<Advice> {
    if options.filter.is_on_code() || options.filter.drops_single_samples() {
        return None;
    }
    let times = Totals::of(recording, options).ok()??.times;
    let share = percent(times.no_cpu_ns, times.no_cpu_ns.saturating_add(times.on_cpu_ns));
    (share >= NO_CPU_PERCENT).then(|| {
        let text = format!(
            "threads were ready without a CPU for {}, {} of the time that they could have run: prof report --threads",
            duration(times.no_cpu_ns),
            honest_percent_text(share)
        );
        Advice::new(share, text)
    })
}

/// Advice on waits that are many and mostly too short to be kept.
fn short_waits(recording: &Analysis, waits: &Selection<'_>) -> Option<Advice> {
    let number = waits.short.count();
    let share = percent(number, waits.total.count());
    let seconds = recording.profile.duration_ns() / 1_000_000_000;
    let per_second = number / seconds.max(1);
    (share >= SHORT_WAITS_PERCENT && per_second >= SHORT_WAITS_PER_SECOND).then(|| {
        let text = format!(
            "{} of waits were too short to be kept, {} a second: prof report --off-cpu --sort count",
            honest_percent_text(share),
            count(per_second)
        );
        // That is a share of a number, not of time.
        Advice::new(percent(waits.short.weight, waits.total.weight), text)
    })
}
