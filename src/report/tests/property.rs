//! What holds for any profile: trees add up, filters part the samples, recursion counts once.

use super::fixture::{Build, PERIOD_NS};
use crate::profile::{Outcome, Reason, Waker};
use crate::report::views::heaviest_paths::heaviest_paths;
use crate::report::*;
use proptest::collection::vec;
use proptest::prelude::*;

const FUNCTIONS: [&str; 8] =
    ["/x:a", "/x:b", "/x:c⇒d", "/x:d", "/l.so:a", "/l.so:+0x10", "[kernel]:k", "/x:a⇒b⇒c"];

/// A stack (root first, may be empty), its thread, its number of samples and how its walk ended.
pub(crate) type Observed = (Vec<usize>, u32, u64, bool);

pub(crate) fn observations() -> impl Strategy<Value = Vec<Observed>> {
    vec((vec(0..FUNCTIONS.len(), 0..7), 1u32..4, 1u64..5, any::<bool>()), 1..20)
}

pub(crate) fn recording(observations: &[Observed]) -> Analysis {
    let mut build = Build::new();
    for (stack, tid, samples, is_complete) in observations {
        let task = build.task(1, *tid, &format!("t{}", tid % 2), "p");
        let path: Vec<&str> = stack.iter().map(|index| FUNCTIONS[*index]).collect();
        let outcome = if *is_complete { Outcome::Complete } else { Outcome::BadUnwindInfo };
        build.add_ended(task, *samples, &path, outcome);
    }
    build.finish()
}

/// A wait of some reason, stack, thread, start, length and how many it is weighted as.
#[derive(Debug, Clone)]
pub(crate) struct Waited {
    reason: usize,
    stack: Vec<usize>,
    tid: u32,
    start_ns: u64,
    length_ns: u64,
    times: u64,
}

impl Waited {
    fn weight(&self) -> u64 {
        self.length_ns * self.times
    }
}

/// Time of the short waits of each recording of waits, ns.
const SHORT_NS: u64 = 7;

pub(crate) fn waits() -> impl Strategy<Value = Vec<Waited>> {
    let wait =
        (0..Reason::ALL.len(), vec(0..FUNCTIONS.len(), 1..7), 1u32..4, 0u64..1_000, 1u64..1_000, 1u64..4);
    let wait = wait.prop_map(|(reason, stack, tid, start_ns, length_ns, times)| Waited {
        reason,
        stack,
        tid,
        start_ns,
        length_ns,
        times,
    });
    vec(wait, 1..20)
}

pub(crate) fn recording_of_waits(waits: &[Waited]) -> Analysis {
    let mut build = Build::new();
    for wait in waits {
        let task = build.task(1, wait.tid, &format!("t{}", wait.tid % 2), "p");
        let path: Vec<&str> = wait.stack.iter().map(|index| FUNCTIONS[*index]).collect();
        let numbers = [wait.start_ns, wait.length_ns, wait.weight()];
        build.thinned_wait(task, Reason::ALL[wait.reason], numbers, &path, Waker::default());
    }
    let task = build.task(1, 1, "t1", "p");
    build.thread_time(task, 1, 2, 3);
    build.short_waits(Reason::Lock, 3, SHORT_NS);
    build.finish()
}

fn filtered(recording: &Analysis, filter: FilterOptions) -> Amount {
    let options = CommonOptions { filter, ..Default::default() };
    Selection::new(recording, recording.shown(None).unwrap(), &options).unwrap().total
}

fn assert_sums(tree: &CallTree) {
    for (id, node) in tree.nodes() {
        let children: u64 = tree.children(id).iter().map(|id| tree.node(*id).total.weight).sum();
        assert_eq!(node.total.weight, tree.own(id).weight + children);
    }
    let roots: u64 = tree.roots().iter().map(|id| tree.node(*id).total.weight).sum();
    assert_eq!(roots, tree.total().weight);
}

proptest! {
    #[test]
    fn trees_add_up_in_both_directions(observations in observations()) {
        let recording = recording(&observations);
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let samples: u64 = observations.iter().map(|(_, _, samples, _)| samples).sum();
        for direction in [Direction::TopDown, Direction::BottomUp] {
            let tree = CallTree::new(&selection, direction);
            assert_sums(&tree);
            prop_assert_eq!(tree.total().weight, samples * PERIOD_NS);
            prop_assert_eq!(tree.total().samples, samples);
        }
    }

    #[test]
    fn own_weights_sum_to_all_and_totals_never_exceed_it(observations in observations()) {
        let recording = recording(&observations);
        for grouping in [Grouping::Function, Grouping::Line, Grouping::Module, Grouping::Thread, Grouping::Process] {
            let options = CommonOptions { grouping, ..Default::default() };
            let selection = recording.select(&options).unwrap();
            let table = FunctionTable::new(&selection, SortKey::SelfWeight);
            let own: u64 = table.rows.iter().map(|row| row.own.weight).sum();
            prop_assert_eq!(own, selection.total.weight);
            for row in &table.rows {
                prop_assert!(row.own.weight <= row.total.weight);
                prop_assert!(row.total.weight <= selection.total.weight);
            }
        }
    }

    #[test]
    fn focus_and_ignore_part_the_samples(observations in observations(), name in "[abcdk+]") {
        let recording = recording(&observations);
        let pattern = regex::escape(&name);
        let kept = filtered(&recording, FilterOptions { focus: Some(pattern.clone()), ..Default::default() });
        let dropped = filtered(&recording, FilterOptions { ignore: Some(pattern), ..Default::default() });
        let all = filtered(&recording, FilterOptions::default());
        prop_assert_eq!(kept.weight + dropped.weight, all.weight);
        prop_assert_eq!(kept.samples + dropped.samples, all.samples);
    }

    #[test]
    fn heaviest_paths_part_the_weight(observations in observations()) {
        let recording = recording(&observations);
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let paths = heaviest_paths(&selection, usize::MAX);
        let sum: u64 = paths.iter().map(|(_, weight)| weight).sum();
        prop_assert_eq!(sum, CallTree::new(&selection, Direction::TopDown).total().weight);
        prop_assert!(paths.windows(2).all(|pair| pair[0].1 >= pair[1].1));
    }

    #[test]
    fn neighbours_of_a_function_cover_its_weight(observations in observations()) {
        let recording = recording(&observations);
        let selection = recording.select(&CommonOptions::default()).unwrap();
        for found in peek(&selection, &regex::Regex::new("^a$").unwrap()) {
            let sum = |amounts: Vec<u64>| amounts.into_iter().sum::<u64>();
            let callers = sum(found.callers.iter().map(|(_, amount)| amount.weight).collect());
            let callees = sum(found.callees.iter().map(|(_, amount)| amount.weight).collect());
            // Recursion can give one sample several callers, never none.
            prop_assert!(callers >= found.total.weight);
            prop_assert!(callees + found.own.weight >= found.total.weight);
        }
    }

    #[test]
    fn a_sandwich_is_as_thick_as_its_function(observations in observations()) {
        let recording = recording(&observations);
        let selection = recording.select(&CommonOptions::default()).unwrap();
        for row in FunctionTable::new(&selection, SortKey::SelfWeight).rows {
            let sandwich = Sandwich::new(&selection, row.label).unwrap();
            prop_assert_eq!((sandwich.own, sandwich.total), (row.own, row.total));
            prop_assert!(sandwich.paths > 0);
            for tree in [&sandwich.callers, &sandwich.callees] {
                assert_sums(tree);
                prop_assert_eq!(tree.roots().len(), 1);
                prop_assert_eq!(tree.total(), row.total);
                let pivots = tree.nodes().filter(|(_, node)| node.label == row.label).count();
                prop_assert_eq!(pivots, 1);
            }
            let callees = &sandwich.callees;
            prop_assert_eq!(callees.own(callees.roots()[0]), row.own);
        }
    }

    #[test]
    fn waits_add_up_whatever_is_shown_of_them(waits in waits()) {
        let recording = recording_of_waits(&waits);
        let weights: u64 = waits.iter().map(|wait| wait.weight()).sum();
        for idle in [true, false] {
            let filter = FilterOptions { idle, ..Default::default() };
            let options = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..Default::default() };
            let shown = recording.shown(options.metric).unwrap();
            let selection = Selection::new(&recording, shown, &options).unwrap();
            prop_assert_eq!(selection.total.weight + selection.hidden_idle.weight, weights + SHORT_NS);
            prop_assert_eq!(selection.whole.weight, selection.total.weight);
            for grouping in [SortKey::SelfWeight, SortKey::Count] {
                let table = WaitTable::new(&selection, grouping);
                let sum: u64 = table.rows.iter().map(|row| row.amount.weight).sum();
                prop_assert_eq!(sum, selection.total.weight);
                let counts: u64 = table.rows.iter().map(|row| row.amount.count_thousandths).sum();
                prop_assert_eq!(counts, selection.total.count_thousandths);
            }
            for direction in [Direction::TopDown, Direction::BottomUp] {
                let tree = CallTree::new(&selection, direction);
                assert_sums(&tree);
                prop_assert_eq!(tree.total().weight, selection.total.weight);
            }
        }
    }

    #[test]
    fn parts_of_the_recording_add_up_to_it(waits in waits(), cut_ns in 0u64..1_000) {
        let recording = recording_of_waits(&waits);
        let total = |from_ns, to_ns| {
            let filter = FilterOptions { time: TimeRange { from_ns, to_ns }, idle: true, ..Default::default() };
            let options = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..Default::default() };
            let shown = recording.shown(options.metric).unwrap();
            Selection::new(&recording, shown, &options).unwrap().total.weight
        };
        let parts = total(None, Some(cut_ns)) + total(Some(cut_ns), None);
        // Each part is rounded down.
        let all = total(None, None);
        prop_assert!(parts <= all && parts + 2 * waits.len() as u64 + 2 >= all, "{} of {}", parts, all);
    }

    #[test]
    fn no_view_of_waits_depends_on_their_order(waits in waits()) {
        let shuffled: Vec<Waited> = waits.iter().rev().cloned().collect();
        let (one, other) = (recording_of_waits(&waits), recording_of_waits(&shuffled));
        for view in [ReportView::Overview, ReportView::Flat, ReportView::Tree, ReportView::BottomUp, ReportView::Threads] {
            let filter = FilterOptions { idle: true, ..Default::default() };
            let common = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..Default::default() };
            let options = ReportOptions { view, common, rows: Some(0), min_percent: Some(0.0), ..Default::default() };
            let one = render(&one, &options, &Page::PLAIN).unwrap();
            let other = render(&other, &options, &Page::PLAIN).unwrap();
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn no_view_depends_on_the_order_of_samples(observations in observations()) {
        let shuffled: Vec<Observed> = observations.iter().rev().cloned().collect();
        let (one, other) = (recording(&observations), recording(&shuffled));
        for view in [ReportView::Flat, ReportView::Tree, ReportView::BottomUp, ReportView::Threads] {
            let options = ReportOptions { view, rows: Some(0), min_percent: Some(0.0), ..Default::default() };
            let one = render(&one, &options, &Page::PLAIN).unwrap();
            let other = render(&other, &options, &Page::PLAIN).unwrap();
            prop_assert_eq!(one, other);
        }
        let text = |recording: &Analysis| {
            folded(&recording.select(&CommonOptions::default()).unwrap(), NameStyle::Full, false)
        };
        prop_assert_eq!(text(&one), text(&other));
    }
}
