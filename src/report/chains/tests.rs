use crate::profile::{Reason, TaskId, Waker, WakerKind};
use crate::report::options::{CommonOptions, FilterOptions, TimeRange};
use crate::report::tests::fixture::Build;
use crate::report::tests::fixture_waits::MS;
use crate::report::{Analysis, ChargedTo};

const APP: &str = "/usr/bin/app";

fn thread(task: TaskId, stack: Option<crate::profile::StackId>) -> Waker {
    Waker { kind: WakerKind::Thread, task: Some(task), stack }
}

/// `ask` waits for 10 ms for `serve`, which runs, waits from 2 to 6 ms for `store`, and runs again. `store` waits for a disk from 3
/// to 5 ms and has no samples.
fn three_threads() -> Analysis {
    let mut build = Build::new();
    let [ask, serve, store] =
        [(1, "ask"), (2, "serve"), (3, "store")].map(|(tid, name)| build.task(1, tid, name, "app"));
    let kernel = "[kernel]:futex_wait";
    let [wait, lock] = ["get", "put"].map(|name| format!("{APP}:{name}"));
    let unlock = build.stack(&[&format!("{APP}:save"), &format!("{APP}:unlock"), "[kernel]:futex_wake"]);
    let irq = Waker { kind: WakerKind::SoftInterrupt, ..Waker::default() };
    build.thinned_wait(ask, Reason::Lock, [0, 10 * MS, 20 * MS], &[&wait, kernel], thread(serve, None));
    build.thinned_wait(
        serve,
        Reason::Lock,
        [2 * MS, 4 * MS, 4 * MS],
        &[&lock, kernel],
        thread(store, unlock),
    );
    build.thinned_wait(
        store,
        Reason::Disk,
        [3 * MS, 2 * MS, 2 * MS],
        &[&format!("{APP}:save"), "[kernel]:io_schedule"],
        irq,
    );
    build.go_to(0);
    build.add(serve, 1, &[&format!("{APP}:parse")]); // at 1 ms
    build.go_to(6 * MS);
    build.add(serve, 2, &[&format!("{APP}:answer")]); // at 7 and 8 ms
    build.finish()
}

/// The stacks of the chains of a recording with their time in us.
fn chains(recording: Analysis, options: CommonOptions) -> Vec<(String, u64)> {
    let (recording, options) = CommonOptions { chains: true, ..options }.of_waits(recording).unwrap();
    let selection = recording.select(&options).unwrap();
    let mut lines: Vec<(String, u64)> = Vec::new();
    selection.for_each_path(|steps, groups| {
        let names: Vec<&str> =
            steps.iter().map(|step| selection.labels.get(step.label).name.as_str()).collect();
        lines.push((names.join(";"), groups.amount.weight / 1_000));
    });
    lines.sort();
    lines
}

#[test]
fn a_wait_is_what_was_done_meanwhile_by_those_that_ended_it() {
    let all = chains(three_threads(), CommonOptions::default());
    let of_ask: Vec<(&str, u64)> = all
        .iter()
        .filter(|(stack, _)| stack.starts_with("get;"))
        .map(|(stack, us)| (stack.as_str(), *us))
        .collect();
    // Each counts twice: the wait stands for two.
    assert_eq!(
        of_ask,
        [
            ("get;[woken by serve];answer", 8_000),
            ("get;[woken by serve];parse", 4_000),
            ("get;[woken by serve];put;[woken by store];save;io_schedule;[disk]", 4_000),
            ("get;[woken by serve];put;[woken by store];save;unlock", 4_000),
        ]
    );
    let sum: u64 = all.iter().map(|(_, us)| us).sum();
    assert_eq!(sum, 26_000, "all waits, whole: {all:?}");
}

#[test]
fn counts_of_parts_add_up_to_the_waits() {
    let (recording, options) =
        CommonOptions { chains: true, ..CommonOptions::default() }.of_waits(three_threads()).unwrap();
    let selection = recording.select(&options).unwrap();
    assert_eq!(selection.total.count(), 4, "one of two, and two of one");
    assert_eq!(selection.total.weight, 26 * MS);
}

#[test]
fn only_the_part_in_a_time_is_followed() {
    let time = TimeRange { from_ns: Some(6 * MS), to_ns: Some(8 * MS) };
    let filter = FilterOptions { time, ..FilterOptions::default() };
    let all = chains(three_threads(), CommonOptions { filter, ..CommonOptions::default() });
    assert_eq!(all, [("get;[woken by serve];answer".to_owned(), 4_000)]);
}

#[test]
fn with_locks_only_waits_for_these_are_followed() {
    let options = CommonOptions { locks: Some(ChargedTo::Waiter), ..CommonOptions::default() };
    let all = chains(three_threads(), options);
    assert!(all.iter().all(|(stack, _)| !stack.starts_with("save")), "{all:?}");
    assert!(all.iter().any(|(stack, _)| stack.ends_with("[disk]")), "{all:?}");
}

#[test]
fn a_chain_without_end_is_cut() {
    let mut build = Build::new();
    let tasks: Vec<TaskId> =
        (1..=20).map(|tid| build.task(1, tid, &format!("t{}", (b'a' + tid as u8) as char), "app")).collect();
    for pair in tasks.windows(2) {
        let stack = [&*format!("{APP}:get"), "[kernel]:futex_wait"];
        build.thinned_wait(pair[0], Reason::Lock, [0, 10 * MS, 10 * MS], &stack, thread(pair[1], None));
    }
    let options = CommonOptions { chains: true, ..CommonOptions::default() };
    let (recording, _) = options.of_waits(build.finish()).unwrap();
    assert_eq!(recording.profile.counter(super::only_chains::CUT), 8);
    let depth = |stack| recording.profile.tables.stack_frames(stack).count();
    let stacks = recording.profile.events.iter().flat_map(|event| event.samples()).filter_map(|s| s.stack);
    assert_eq!(stacks.map(depth).max(), Some(2 * 11 + 2));
}

#[test]
fn a_recording_without_waits_has_no_chains() {
    let mut build = Build::new();
    let task = build.task(1, 1, "app", "app");
    build.add(task, 10, &[&format!("{APP}:main")]);
    let failure = CommonOptions { chains: true, ..CommonOptions::default() }.of_waits(build.finish());
    assert!(failure.unwrap_err().message.contains("has no waits"));
}
