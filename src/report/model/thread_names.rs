//! One name for each thread: a recording has a row for each name that a thread had, and its account of time is one.
//!
//! The rule: a thread has its last name, in every view and for every filter, and all of its time is under it; so has a
//! process. What a thread did under each name is known of samples and waits, but not of the time that is only added up,
//! so that times divided by name would not make up the whole.

use crate::profile::{Profile, StringId, TaskId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Gives all tasks of a thread its last name, and those of a process that of the process.
pub(crate) fn settle(profile: &mut Profile) {
    let tasks = profile.tables.tasks();
    let mut names: FxHashMap<(u32, u32), StringId> = FxHashMap::default();
    let mut processes: FxHashMap<u32, StringId> = FxHashMap::default();
    let has_changes = tasks.iter().any(|task| {
        *names.entry((task.tid, task.generation)).or_insert(task.comm) != task.comm
            || *processes.entry(task.pid).or_insert(task.process) != task.process
    });
    if !has_changes {
        return;
    }
    // A number that two processes had, one after the other, has no last name.
    let reused: FxHashSet<u32> = tasks
        .iter()
        .filter(|task| task.tid == task.pid && task.generation > 0)
        .map(|task| task.pid)
        .collect();
    let mut last_of_thread: FxHashMap<(u32, u32), (u64, TaskId)> = FxHashMap::default();
    // The first thread has the name of its process; others may not have been seen since that changed.
    let mut last_of_process: FxHashMap<u32, (bool, u64, TaskId)> = FxHashMap::default();
    for (index, seen_ns) in last_seen_ns(profile).into_iter().enumerate() {
        let (row, task) = (tasks[index], TaskId(index as u32));
        let last = last_of_thread.entry((row.tid, row.generation)).or_default();
        *last = (*last).max((seen_ns, task));
        let last = last_of_process.entry(row.pid).or_default();
        *last = (*last).max((row.tid == row.pid, seen_ns, task));
    }
    for index in 0..profile.tables.tasks().len() {
        let task = TaskId(index as u32);
        let row = *profile.tables.task(task);
        let of_thread = last_of_thread.get(&(row.tid, row.generation)).map_or(task, |last| last.1);
        let of_process = last_of_process.get(&row.pid).filter(|_| !reused.contains(&row.pid));
        let of_process = of_process.map_or(of_thread, |last| last.2);
        // The names of a task that was gone through already are the same: the last ones are their own.
        let (comm, process) = (profile.tables.task(of_thread).comm, profile.tables.task(of_process).process);
        profile.tables.rename_task(task, comm, process);
    }
}

/// Returns the time at which each task was last seen, ns: 0 for one that was not.
fn last_seen_ns(profile: &Profile) -> Vec<u64> {
    let mut seen_ns = vec![0; profile.tables.tasks().len()];
    let mut see = |task: TaskId, at_ns: u64| {
        if let Some(seen) = seen_ns.get_mut(task.index()) {
            *seen = at_ns.max(*seen);
        }
    };
    for sample in profile.events.iter().flat_map(|event| event.samples()) {
        let length_ns = sample.wait.map_or(0, |wait| wait.duration_ns);
        let span_ns = sample.merged.map_or(0, |merged| merged.span_ns);
        see(sample.task, sample.time_ns.saturating_add(length_ns.max(span_ns)));
    }
    // A thread's account has its last name.
    for time in &profile.thread_times {
        see(time.task, time.to_ns.saturating_add(1));
    }
    seen_ns
}

#[cfg(test)]
mod tests {
    use crate::profile::Reason;
    use crate::report::tests::fixture::Build;
    use crate::report::tests::fixture_waits::{MS, slices, stack};
    use crate::report::{
        Analysis, CommonOptions, FilterOptions, Metric, NameStyle, Page, ReportOptions, ReportView,
        ThreadFilter, Totals, folded, render, threads, threads_with_times,
    };

    /// A thread that is called `sh` and then runs another program, in which it goes by two names; and one that keeps
    /// its name.
    fn renamed(has_waits: bool) -> Analysis {
        let mut build = Build::new();
        let [shell, program, worker] = [("sh", "sh"), ("program", "program"), ("worker", "program")]
            .map(|(name, process)| build.task(7, 7, name, process));
        let other = build.task(7, 8, "worker", "sh");
        let work = stack(&["main", "work"], &[], &[]);
        for (task, samples) in [(shell, 100), (other, 50), (worker, 20), (program, 30), (worker, 10)] {
            build.add(task, samples, &slices(&work));
        }
        if has_waits {
            let read = stack(&["main", "load"], &["read"], &["folio_wait"]);
            build.wait(shell, Reason::Disk, 300 * MS, 100 * MS, &slices(&read));
            build.wait(worker, Reason::Disk, 600 * MS, 200 * MS, &slices(&read));
            build.thread_time(worker, 160 * MS, 0, 300 * MS);
            build.thread_time(other, 50 * MS, 0, 0);
        }
        build.finish()
    }

    fn by_thread(name: &str) -> CommonOptions {
        let filter = FilterOptions {
            threads: vec![ThreadFilter::named(format!("^{name}$"))],
            ..FilterOptions::default()
        };
        CommonOptions { filter, metric: Some(Metric::ON_CPU), ..CommonOptions::default() }
    }

    #[test]
    fn a_thread_that_changed_its_name_is_one_row_with_all_its_time() {
        for has_waits in [false, true] {
            let recording = renamed(has_waits);
            let options = CommonOptions { metric: Some(Metric::ON_CPU), ..CommonOptions::default() };
            let selection = recording.select(&options).unwrap();
            let rows = match Totals::of(&recording, &options).unwrap() {
                Some(totals) => threads_with_times(&selection, &totals),
                None => threads(&selection),
            };
            let facts: Vec<_> = (rows.iter())
                .map(|row| {
                    (
                        row.thread.as_str(),
                        row.process.as_str(),
                        row.threads,
                        row.processes,
                        row.amount.count(),
                    )
                })
                .collect();
            assert_eq!(facts, [("worker", "program", 2, 1, 210)], "with waits: {has_waits}");
            if let Some(times) = rows[0].times {
                assert_eq!(
                    (times.on_cpu_ns, times.sampled_ns, times.blocked_ns()),
                    (210 * MS, 210 * MS, 300 * MS)
                );
            }
        }
    }

    #[test]
    fn filters_on_threads_know_the_names_that_the_views_show() {
        for has_waits in [false, true] {
            let recording = renamed(has_waits);
            let selection = recording.select(&by_thread("worker")).unwrap();
            assert_eq!(selection.total.count(), 210);
            assert!(
                folded(&selection, NameStyle::Full, true).starts_with("worker;start_thread;main;work 210")
            );
            let failure = recording.select(&by_thread("sh")).unwrap_err();
            assert!(failure.message.ends_with("matches --thread ^sh$"), "{}", failure.message);
            let options = ReportOptions {
                common: by_thread("worker"),
                view: ReportView::Threads,
                ..ReportOptions::default()
            };
            let text = render(&recording, &options, &Page::PLAIN).unwrap();
            assert!(text.contains("\nworker") && !text.contains("\nsh"), "{text}");
        }
    }

    #[test]
    fn threads_that_had_one_number_after_the_other_keep_their_names() {
        let mut build = Build::new();
        let work = stack(&["main", "work"], &[], &[]);
        let first = build.task(7, 7, "first", "first");
        let second = build.next_task(7, 7, 1, "second", "second");
        build.add(first, 10, &slices(&work));
        build.add(second, 20, &slices(&work));
        let recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let names: Vec<_> = threads(&selection).into_iter().map(|row| (row.thread, row.process)).collect();
        assert_eq!(
            names,
            [("second", "second"), ("first", "first")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }
}
