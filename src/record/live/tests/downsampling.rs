//! What downsampling keeps, and what it gives up.

use super::*;
use crate::record::live::archive::downsample::{DownsampleLimits, Downsampler, Rollup};

/// Pseudo-random numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn folding_keeps_all_sums_and_the_last_minute() {
    let mut numbers = Numbers(1);
    let mut events =
        [Event::new(event(EventKind::ON_CPU, PERIOD_NS)), Event::new(event(EventKind::OFF_CPU, 0))];
    for at in 0..100_000u64 {
        let time_ns = at * SECOND_NS / 200;
        events[0].push(running(time_ns, numbers.below(20) as u32));
        let duration_ns = 1_000 + numbers.below(5_000_000);
        let weight = duration_ns * (1 + numbers.below(4));
        events[1].push(waiting(time_ns, numbers.below(5) as u32, duration_ns, weight));
    }
    let before = events.each_ref().map(sums);
    let now_ns = 500 * SECOND_NS;
    let recent = |event: &Event| -> Vec<Sample> {
        event.samples().filter(|sample| sample.time_ns >= now_ns - 60 * SECOND_NS).collect()
    };
    let longest = events[1].samples().filter_map(|sample| sample.wait).map(|wait| wait.duration_ns).max();
    let recent_before = events.each_ref().map(recent);
    let mut downsampler = Downsampler::default();
    downsampler.downsample(&mut events, now_ns);
    assert_eq!(events.each_ref().map(sums), before);
    assert_eq!(events.each_ref().map(recent), recent_before);
    // 440 seconds with at most 20 stacks each, and a minute of 200 samples a second.
    assert!(events[0].len() <= 440 * 20 + 12_000, "{} rows", events[0].len());
    let waits = events[1].samples().filter_map(|sample| Some((sample.wait?, sample.merged)));
    let whole = waits.filter(|(_, merged)| merged.is_none()).map(|(wait, _)| wait.duration_ns).max();
    assert_eq!(whole, longest, "the longest wait is still known");
    assert_eq!(downsampler.rollup(), [Rollup { before_ns: 60 * SECOND_NS, bucket_ns: SECOND_NS }]);
    // Rows merged already stay as they are.
    let again = events.clone();
    downsampler.downsample(&mut events, now_ns);
    assert_eq!(events.each_ref().map(sums), again.each_ref().map(sums));
    assert_eq!(events[0].len(), again[0].len());
}

#[test]
fn folded_blocks_keep_their_sums_and_about_how_long_they_were_there() {
    let mut numbers = Numbers(1);
    let mut events = [Event::new(event(EventKind::HEAP, 0))];
    for at in 0..50_000u64 {
        let size = 1 + numbers.below(100_000);
        let lifetime_ns = Some(1_000_000 + numbers.below(5) * SECOND_NS).filter(|_| at % 100 > 0);
        events[0].push(block(
            at * SECOND_NS / 100,
            numbers.below(5) as u32,
            [size, size.max(524_288)],
            lifetime_ns,
        ));
    }
    let before = sums(&events[0]);
    let live = |event: &Event, at_ns: u64| -> u64 {
        let is_live =
            |sample: &Sample| sample.block.is_some_and(|block| block.is_live(sample.time_ns, at_ns));
        event.samples().filter(is_live).map(|sample| sample.weight).sum()
    };
    // In the middle of a bucket, whose blocks all begin with it then.
    let times = [250 * SECOND_NS + SECOND_NS / 2, 499 * SECOND_NS];
    let live_before = times.map(|at_ns| live(&events[0], at_ns));
    Downsampler::default().downsample(&mut events, 500 * SECOND_NS);
    assert_eq!(sums(&events[0]), before);
    assert!(events[0].len() < 25_000, "{} rows", events[0].len());
    let [middle, end] = times.map(|at_ns| live(&events[0], at_ns));
    assert_eq!(end, live_before[1], "those of the last minute are as they were");
    assert!(middle.abs_diff(live_before[0]) * 10 < live_before[0], "{middle} of {}", live_before[0]);
}

#[test]
fn a_merged_row_has_the_labels_that_all_of_its_samples_had() {
    let labelled = |time_ns, stack, set: Option<u32>| Sample {
        labels: set.map(LabelSetId),
        ..running(time_ns * SECOND_NS / 10, stack)
    };
    let sets =
        [(1, [Some(0), Some(0), Some(0)]), (2, [Some(0), None, Some(0)]), (3, [Some(0), Some(1), Some(1)])];
    let mut events = [Event::new(event(EventKind::ON_CPU, PERIOD_NS))];
    for (stack, sets) in sets {
        (0..).zip(sets).for_each(|(at, set)| events[0].push(labelled(at, stack, set)));
    }
    let before = sums(&events[0]);
    Downsampler::default().downsample(&mut events, 500 * SECOND_NS);
    assert_eq!(sums(&events[0]), before);
    let mut rows: Vec<_> = events[0].samples().map(|sample| (sample.stack, sample.labels)).collect();
    rows.sort_unstable();
    let row = |stack, set: Option<u32>| (Some(StackId(stack)), set.map(LabelSetId));
    assert_eq!(rows, [row(1, Some(0)), row(2, None), row(3, None)]);
}

#[test]
fn days_fit_into_bounded_memory_and_lose_nothing_uncounted() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(300));
    archive.downsampler.limits = DownsampleLimits { rows: 4_000, recent_rows: 2_000 };
    let mut numbers = Numbers(2);
    let (mut most_rows, mut notices, mut all) = (0, 0, 0);
    // Three days, a quarter of an hour at a time.
    for quarter in 0..3 * 96u64 {
        let from_ns = quarter * 900 * SECOND_NS;
        let samples = |numbers: &mut Numbers| -> Vec<Sample> {
            (0..400).map(|at| running(from_ns + at * 2 * SECOND_NS, numbers.below(300) as u32)).collect()
        };
        let (on_cpu, off_cpu) = (samples(&mut numbers), samples(&mut numbers));
        let off_cpu = off_cpu.into_iter().map(|sample| {
            let duration_ns = 1 + numbers.below(1_000_000);
            waiting(sample.time_ns, sample.stack.map_or(0, |stack| stack.0), duration_ns, 2 * duration_ns)
        });
        archive.apply(delta_of(from_ns + 900 * SECOND_NS, on_cpu, off_cpu.collect()));
        all += 800;
        notices += usize::from(downsample(&mut archive).is_some());
        most_rows = most_rows.max(archive.rows());
    }
    assert!(most_rows <= 4_000, "{most_rows} rows");
    let profile = archive.profile("test");
    let kept: u64 = profile.events.iter().map(|event| sums(event)[1]).sum();
    assert_eq!(kept + archive.downsampler.dropped, all);
    assert_eq!(profile.counter(crate::profile::counter::SAMPLES_DROPPED), archive.downsampler.dropped);
    assert_eq!(notices > 0, archive.downsampler.dropped > 0, "what is dropped is said");
    let rollup = archive.downsampler.rollup();
    assert!(rollup.len() > 1, "{rollup:?}");
    assert!(rollup.is_sorted_by(|a, b| a.before_ns < b.before_ns && a.bucket_ns < b.bucket_ns), "{rollup:?}");
}

/// Regression: of five minutes of a program that recurses along another path each time, only the last 42 seconds of
/// waits were there, with "lost 0".
#[test]
fn stacks_that_never_repeat_lose_frames_and_no_time() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(300));
    archive.downsampler.limits = DownsampleLimits { rows: 4_000, recent_rows: 2_000 };
    let (mut numbers, mut all_ns) = (Numbers(3), 0);
    for second in 0..300u64 {
        // Waits differ in stack, CPU and length.
        let waits = (0..500).map(|at| {
            let duration_ns = 1_000 + numbers.below(1_900_000);
            let wait = waiting(
                second * SECOND_NS + at * 2_000_000,
                numbers.below(300) as u32,
                duration_ns,
                duration_ns,
            );
            Sample { cpu: numbers.below(64) as u16, ..wait }
        });
        let waits: Vec<Sample> = waits.collect();
        all_ns += waits.iter().map(|wait| wait.weight).sum::<u64>();
        archive.apply(delta_of((second + 1) * SECOND_NS, vec![], waits));
        downsample(&mut archive);
        assert!(archive.rows() <= 4_000, "{} rows after {second} s", archive.rows());
    }
    let profile = archive.profile("test");
    assert_eq!(profile.counter(crate::profile::counter::SAMPLES_DROPPED), 0);
    assert_eq!(profile.events[1].total_weight(), all_ns);
    let late = profile.events[1].samples().filter(|wait| wait.time_ns >= 298 * SECOND_NS);
    assert!(late.count() > 500, "the last seconds are as they were");
}

#[test]
fn a_snapshot_does_not_wait_for_what_is_folded() {
    let (mut archive, _names) = archive();
    archive.apply(beginning(3));
    archive.downsampler.limits = DownsampleLimits { rows: 1_000, recent_rows: 500 };
    archive.apply(delta_of(
        400 * SECOND_NS,
        (0..20_000).map(|at| running(at * 10_000_000, 1)).collect(),
        vec![],
    ));
    let before = sums(&archive.profile("test").events[0]);
    let (mut keeper, receiver) = keeper(archive, mailbox().0);
    assert!(keeper.archive.is_full());
    keeper.work();
    assert_eq!(keeper.snapshot().profile.events[0].len(), 20_000, "nothing is merged yet");
    // Samples that arrive meanwhile stay as they are.
    keeper.archive.apply(delta_of(401 * SECOND_NS, vec![running(400 * SECOND_NS, 2)], vec![]));
    keeper.work();
    keeper.take(receiver.recv_timeout(Duration::from_secs(60)).expect("what was merged comes back"));
    let merged = keeper.snapshot().profile;
    assert!(merged.events[0].len() <= 1_001, "{} rows", merged.events[0].len());
    let last = merged.events[0].samples().last();
    assert_eq!(last.map(|sample| (sample.time_ns, sample.merged)), Some((400 * SECOND_NS, None)));
    let after = sums(&merged.events[0]);
    let one = Merged::of_one(PERIOD_NS, None);
    assert_eq!(
        after,
        [
            before[0] + PERIOD_NS,
            before[1] + 1,
            before[2] + one.count_thousandths,
            before[3] + one.variance_us2
        ]
    );
    assert!(receiver.try_recv().is_err(), "one at a time");
}

#[test]
fn what_was_folded_of_a_time_that_was_cleared_is_forgotten() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(3));
    archive.apply(delta_of(400 * SECOND_NS, (0..20_000).map(|at| running(at, 1)).collect(), vec![]));
    let mut downsampling = archive.begin_downsampling().expect("none is under way");
    assert!(archive.begin_downsampling().is_none(), "one is under way");
    archive.clear();
    downsampling.run();
    assert_eq!(archive.end_downsampling(downsampling), None);
    assert_eq!(archive.rows(), 0);
    assert!(archive.begin_downsampling().is_some(), "the next can begin");
}
