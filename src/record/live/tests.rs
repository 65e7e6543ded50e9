//! Tests of what a live recording keeps, with synthetic updates.

use super::archive::Archive;
use super::control::Control;
use super::delta::Delta;
use super::keeper::Keeper;
use super::message::{LiveRequest, Message};
use super::names_for::names_for;
use super::save::save;
use super::*;
use crate::base::mailbox::{MailReceiver, MailSender, mailbox};
use crate::bpf::Doing;
use crate::profile::{
    End, Event, EventInfo, EventKind, Frame, FrameId, HeapBlock, Integrity, LabelSetId, Merged, Meta, Module,
    ModuleId, ModuleKind, Profile, Reason, Sample, Stack, StackId, StringId, Task, TaskId, ThreadTime, Wait,
};
use crate::record::names::symbolize::kernel_location;
use crate::record::options::Output;
use crate::record::waits::living::Living;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

mod downsampling;

const SECOND_NS: u64 = 1_000_000_000;
const PERIOD_NS: u64 = 1_001_001;

fn event(kind: EventKind, period: u64) -> EventInfo {
    EventInfo { kind, sampling: "a rule".to_owned(), period, ..EventInfo::default() }
}

fn archive() -> (Archive, Receiver<Message>) {
    let (sender, receiver) = channel();
    let events = vec![event(EventKind::ON_CPU, PERIOD_NS), event(EventKind::OFF_CPU, 0)];
    (Archive::new(Meta::default(), events, names_for(&sender)), receiver)
}

/// A keeper, and the receiver of the work that it has done on other threads.
fn keeper(archive: Archive, events: MailSender<LiveEvent>) -> (Keeper, Receiver<Message>) {
    let (sender, receiver) = channel();
    (Keeper::new(archive, events, Arc::new(Control::default()), sender, 999), receiver)
}

/// The first update of a recorder: one module, `stacks` stacks of two frames, a thread; and names.
fn beginning(stacks: u32) -> Delta {
    let module = Module { path: StringId(1), kind: ModuleKind::Kernel, ..Module::default() };
    let frames = (0..=stacks).map(|address| Frame { address: address.into(), ..Frame::default() });
    let stack = |number| match number {
        0 => Stack { parent: None, frame: FrameId(0) },
        _ => Stack { parent: Some(StackId(0)), frame: FrameId(number) },
    };
    Delta {
        strings: vec!["".into(), "[kernel]".into(), "worker".into()],
        modules: vec![module],
        tasks: vec![Task { tid: 7, comm: StringId(2), ..Task::default() }],
        frames: frames.collect(),
        stacks: (0..=stacks).map(stack).collect(),
        named: (0..=stacks).map(|n| (FrameId(n), vec![kernel_location(&format!("function_{n}"))])).collect(),
        ..Delta::default()
    }
}

fn running(time_ns: u64, stack: u32) -> Sample {
    Sample { time_ns, stack: Some(StackId(stack)), weight: PERIOD_NS, ..Sample::default() }
}

fn waiting(time_ns: u64, stack: u32, duration_ns: u64, weight: u64) -> Sample {
    let wait = Wait { duration_ns, reason: Reason::Lock, ..Wait::default() };
    Sample { wait: Some(wait), weight, ..running(time_ns, stack) }
}

/// A block of memory that is there for so long, or still is there.
fn block(time_ns: u64, stack: u32, [size, weight]: [u64; 2], lifetime_ns: Option<u64>) -> Sample {
    Sample { block: Some(HeapBlock { size, lifetime_ns }), weight, ..running(time_ns, stack) }
}

/// An update at `now_ns`.
fn delta_of(now_ns: u64, on_cpu: Vec<Sample>, off_cpu: Vec<Sample>) -> Delta {
    let end = End { duration_ns: now_ns, threads: 1, ..End::default() };
    Delta { samples: vec![on_cpu, off_cpu], end, ..Delta::default() }
}

/// Merges as the keeper has another thread do.
fn downsample(archive: &mut Archive) -> Option<String> {
    let mut downsampling = archive.begin_downsampling().expect("none is under way");
    downsampling.run();
    archive.end_downsampling(downsampling)
}

/// Sums of weight, number of samples, the number that they are weighted as, and variance.
fn sums(event: &Event) -> [u64; 4] {
    let mut sums = [0; 4];
    for sample in event.samples() {
        let one = sample.statistics();
        sums[0] += sample.weight;
        sums[1] += one.samples;
        sums[2] += one.count_thousandths;
        sums[3] += one.variance_us2;
    }
    sums
}

#[test]
fn the_names_and_numbers_of_a_recorder_that_begins_anew_are_those_of_the_same_frames() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(10));
    archive.apply(delta_of(SECOND_NS, vec![running(1, 3), running(2, 4)], vec![]));
    // From here on stack 1 is what was stack 4.
    archive.apply(Delta { was_reset: true, ..delta_of(2 * SECOND_NS, vec![running(3, 4)], vec![]) });
    assert!(archive.table_rows() < 20, "what nothing refers to is gone: {} rows", archive.table_rows());
    let mut again = beginning(1);
    again.frames[1].address = 4;
    again.named = Vec::new();
    again.samples = vec![vec![running(4, 1)], vec![]];
    archive.apply(again);
    let profile = archive.profile("test");
    let name = |sample: Sample| {
        let frame = profile.tables.stack_frames(sample.stack.expect("it has one")).next().expect("a frame");
        let location = profile.symbols.locations(frame)[0];
        profile.tables.string(profile.symbols.function(location.function).name).to_owned()
    };
    let names: Vec<String> = profile.events[0].samples().map(name).collect();
    assert_eq!(names, ["function_3", "function_4", "function_4", "function_4"]);
}

#[test]
fn labels_stay_those_of_their_samples_when_a_recorder_begins_anew() {
    let (mut archive, _receiver) = archive();
    // The texts have other numbers after the recorder has started over; the sets have not.
    let with_sets = |texts: [&str; 3], sets: &[[u32; 2]]| {
        let set = |[key, value]: &[u32; 2]| vec![(StringId(*key), StringId(*value))].into_boxed_slice();
        let mut delta = beginning(3);
        delta.strings.extend(texts.map(Box::from));
        delta.label_sets = sets.iter().map(set).collect();
        delta
    };
    let sample = |time_ns, set| Sample { labels: Some(LabelSetId(set)), ..running(time_ns, 1) };
    archive.apply(with_sets(["gil", "held", "wanted"], &[[3, 4], [3, 5]]));
    let first = vec![running(1, 1), sample(2, 0), sample(3, 1)];
    archive.apply(Delta { was_reset: true, ..delta_of(SECOND_NS, first, vec![]) });
    let mut again = with_sets(["wanted", "held", "gil"], &[[5, 4], [5, 3]]);
    again.samples = vec![vec![sample(4, 1), sample(5, 0)], vec![]];
    archive.apply(again);
    let profile = archive.profile("test");
    let value = |sample: Sample| profile.tables.labels(sample.labels?).map(|(_, value)| value).next();
    let values: Vec<Option<&str>> = profile.events[0].samples().map(value).collect();
    assert_eq!(values, [None, Some("held"), Some("wanted"), Some("wanted"), Some("held")]);
}

#[test]
fn clearing_begins_a_new_time_and_keeps_the_rest_of_a_wait() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(3));
    let counters = [("lost_waits".to_owned(), 5)].into_iter().collect();
    let mut first = delta_of(10 * SECOND_NS, vec![running(SECOND_NS, 1)], vec![waiting(0, 1, 5, 5)]);
    (first.counters, first.lost) = (counters, 3);
    archive.apply(first);
    archive.clear();
    assert_eq!((archive.rows(), archive.observed(), archive.duration_ns(), archive.lost()), (0, 0, 0, 0));
    let late = running(9 * SECOND_NS, 1);
    // Half of it was before.
    let wait = waiting(8 * SECOND_NS, 2, 4 * SECOND_NS, 8 * SECOND_NS);
    let mut second = delta_of(15 * SECOND_NS, vec![late, running(14 * SECOND_NS, 2)], vec![wait]);
    (second.counters, second.lost) = ([("lost_waits".to_owned(), 7)].into_iter().collect(), 4);
    let time = |from_ns| ThreadTime { from_ns, to_ns: 15 * SECOND_NS, ..ThreadTime::default() };
    second.thread_times = vec![time(0), time(12 * SECOND_NS)];
    archive.apply(second);
    let profile = archive.profile("test");
    let on_cpu: Vec<u64> = profile.events[0].samples().map(|sample| sample.time_ns).collect();
    assert_eq!(on_cpu, [4 * SECOND_NS]);
    let off_cpu: Vec<(u64, u64, u64)> = (profile.events[1].samples())
        .map(|sample| (sample.time_ns, sample.weight, sample.wait.map_or(0, |wait| wait.duration_ns)))
        .collect();
    assert_eq!(off_cpu, [(0, 4 * SECOND_NS, 2 * SECOND_NS)]);
    assert_eq!((profile.duration_ns(), profile.counter("lost_waits"), archive.lost()), (5 * SECOND_NS, 2, 1));
    assert_eq!(profile.meta.start_mono_ns, 10 * SECOND_NS);
    let lives: Vec<(u64, u64)> = profile.thread_times.iter().map(|time| (time.from_ns, time.to_ns)).collect();
    assert_eq!(lives, [(2 * SECOND_NS, 5 * SECOND_NS)], "what a thread did since is not known");
}

#[test]
fn what_is_saved_is_what_was_seen() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(5));
    let on_cpu: Vec<Sample> = (0..10_000).map(|at| running(at * PERIOD_NS, (at % 6) as u32)).collect();
    let wait = |at: u64| waiting(at * PERIOD_NS, 2, 1_000 + at, 3_000 + at);
    archive.apply(delta_of(200 * SECOND_NS, on_cpu, (0..1_000).map(wait).collect()));
    downsample(&mut archive);
    let profile = archive.profile("saved");
    let folder = tempfile::tempdir().expect("temporary folder");
    let output = Output::File { path: folder.path().join("seen"), force: false };
    let saved = save(profile.clone(), &output).expect("it can be written");
    assert_eq!((saved.samples, saved.duration), (11_000, Duration::from_secs(200)));
    let (read, integrity) = crate::profile::read_path(&saved.path).expect("it can be read");
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!(
        read.events.iter().map(sums).collect::<Vec<_>>(),
        profile.events.iter().map(sums).collect::<Vec<_>>()
    );
    assert!(read.events[0].len() < 200, "merged rows stay merged: {}", read.events[0].len());
    assert_eq!(read.end, profile.end);
    let refused = save(profile.clone(), &output).expect_err("it is there already");
    assert!(refused.to_string().contains("exists already"), "{refused}");
    assert_eq!(folder.path().read_dir().expect("own folder").count(), 1, "no other file is left");
    let recorded = std::fs::File::open(&saved.path).expect("it is there");
    assert!(crate::profile::lock::lock(&recorded));
    let forced = Output::File { path: saved.path, force: true };
    let refused = save(profile.clone(), &forced).expect_err("it is being written");
    assert!(refused.to_string().contains("it is being written by prof"), "{refused}");
    drop(recorded);
    assert!(save(profile, &forced).is_ok());
}

/// Each thread's times, and where it is blocked, as the rows of a report.
fn threads_of(profile: &Profile) -> Vec<String> {
    let recording = crate::report::Analysis::new(profile.clone(), Integrity::default());
    let options = crate::report::CommonOptions::default();
    let shown = recording.shown(Some(crate::report::Metric::WALL)).expect("it has both");
    let selection = crate::report::Selection::new(&recording, shown, &options).expect("no filters");
    let totals = crate::report::Totals::of(&recording, &options).expect("no filters");
    let totals = totals.expect("it has waits");
    let rows = crate::report::threads_with_times(&selection, &totals).into_iter();
    // The hottest function has another id in another table of names.
    rows.map(|row| format!("{:?}", crate::report::ThreadRow { hottest: None, ..row })).collect()
}

#[test]
fn what_is_saved_has_the_numbers_of_what_was_seen_to_the_last_digit() {
    let (mut archive, _receiver) = archive();
    let mut first = beginning(5);
    first.named.pop();
    archive.apply(first);
    let on_cpu =
        |from: u64| (from..from + 3_000).map(|at| running(at * PERIOD_NS + 7, (at % 6) as u32)).collect();
    let off_cpu = |from: u64| -> Vec<Sample> {
        (from..from + 900).map(|at| waiting(at * PERIOD_NS + 333, 2, 100_001 + at, 300_007 + at)).collect()
    };
    let time = |to_ns: u64| ThreadTime {
        to_ns,
        on_cpu_ns: to_ns / 3 + 1,
        no_cpu_ns: to_ns / 7 + 1,
        blocked_ns: to_ns / 5 + 1,
        ..ThreadTime::default()
    };
    let mut delta = delta_of(130 * SECOND_NS + 1, on_cpu(0), off_cpu(0));
    delta.thread_times = vec![time(3 * SECOND_NS + 11)];
    archive.apply(delta);
    downsample(&mut archive);
    let (mut keeper, _receiver) = keeper(archive, mailbox().0);
    let seen = keeper.snapshot().profile;
    // The recording goes on, but the profile to complete is the one seen before.
    keeper.archive.apply(delta_of(150 * SECOND_NS, on_cpu(140_000), off_cpu(140_000)));
    keeper.archive.name(vec![(FrameId(5), vec![kernel_location("function_5")])]);
    let (reply, answer) = channel();
    keeper.take(Message::Ask(LiveRequest::Complete(Box::new(seen.clone()), reply)));
    keeper.work();
    let complete = answer.try_recv().expect("all names are there");
    assert!(seen.symbols.locations(FrameId(5)).is_empty());
    assert_eq!(complete.symbols.locations(FrameId(5)).len(), 1, "a name that has come since");
    let folder = tempfile::tempdir().expect("temporary folder");
    let output = Output::File { path: folder.path().join("seen"), force: false };
    let saved = save(*complete, &output).expect("it can be written");
    assert_eq!(saved.duration, Duration::from_nanos(130 * SECOND_NS + 1));
    let (read, _) = crate::profile::read_path(&saved.path).expect("it can be read");
    assert_eq!(threads_of(&read), threads_of(&seen));
    assert_ne!(threads_of(&read), threads_of(&keeper.snapshot().profile), "it went on");
}

#[test]
fn a_snapshot_shares_the_samples_and_stays_as_it_was() {
    let (mut archive, _names) = archive();
    archive.apply(beginning(1));
    archive.apply(delta_of(SECOND_NS, (0..50_000).map(|at| running(at, 1)).collect(), vec![]));
    let (mut keeper, receiver) = keeper(archive, mailbox().0);
    let first = keeper.snapshot();
    keeper.archive.apply(delta_of(2 * SECOND_NS, vec![running(SECOND_NS, 0)], vec![]));
    let second = keeper.snapshot();
    assert_eq!((first.number, second.number), (1, 2));
    assert_eq!((first.profile.events[0].len(), second.profile.events[0].len()), (50_000, 50_001));
    assert_eq!(second.profile.duration_ns(), 2 * SECOND_NS);
    drop(receiver);
}

/// The next event, if there is one.
fn next(events: &MailReceiver<LiveEvent>) -> Result<LiveEvent, RecvTimeoutError> {
    events.recv_timeout(Duration::ZERO)
}

/// The next snapshot, skipping other events.
fn picture(events: &MailReceiver<LiveEvent>) -> Snapshot {
    loop {
        if let LiveEvent::Snapshot(snapshot) = next(events).expect("a picture") {
            return *snapshot;
        }
    }
}

#[test]
fn who_clears_sees_it_at_once() {
    let (mut archive, _names) = archive();
    archive.apply(beginning(1));
    archive.apply(delta_of(SECOND_NS, vec![running(5, 1)], vec![]));
    let (sender, events) = mailbox();
    let (mut keeper, _receiver) = keeper(archive, sender);
    keeper.take(Message::Ask(LiveRequest::Clear));
    let snapshot = picture(&events);
    assert_eq!(snapshot.profile.events[0].len(), 0);
}

#[test]
fn a_picture_is_made_right_after_a_look_at_the_threads() {
    let (mut archive, _names) = archive();
    archive.apply(beginning(1));
    let (sender, events) = mailbox();
    let (mut keeper, _receiver) = keeper(archive, sender);
    std::thread::sleep(Duration::from_millis(700));
    let more = |living| Delta { living, ..delta_of(SECOND_NS, vec![running(5, 1)], vec![]) };
    keeper.take(Message::Delta(Box::new(more(None))));
    assert!(next(&events).is_err(), "its threads were not looked at");
    let time = ThreadTime { to_ns: SECOND_NS, on_cpu_ns: SECOND_NS, ..ThreadTime::default() };
    let living = vec![Living { time, doing: Doing::Running, new_wait: None }];
    keeper.take(Message::Delta(Box::new(more(Some(living)))));
    let snapshot = picture(&events);
    assert_eq!(snapshot.profile.thread_times.len(), 1);
}

#[test]
fn a_wait_that_is_not_over_grows_in_pictures_and_is_no_part_of_what_is_kept() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(3));
    let open = |duration_ns| vec![waiting(SECOND_NS, 1, duration_ns, duration_ns)];
    let waits = |archive: &Archive| -> Vec<(u64, u64)> {
        let profile = archive.profile("test");
        let waits = profile.events[1].samples();
        waits.filter_map(|sample| Some((sample.time_ns, sample.wait?.duration_ns))).collect()
    };
    for seconds in [2, 3] {
        let more = delta_of((1 + seconds) * SECOND_NS, vec![], vec![]);
        archive.apply(Delta { open_waits: open(seconds * SECOND_NS), ..more });
        assert_eq!(waits(&archive), [(SECOND_NS, seconds * SECOND_NS)]);
        assert_eq!(archive.rows(), 0);
        assert!(archive.has_changes(), "a wait that has grown is a change");
        archive.clear_changes();
    }
    // Only the part after the clearing counts.
    archive.clear();
    archive.apply(Delta { open_waits: open(5 * SECOND_NS), ..delta_of(6 * SECOND_NS, vec![], vec![]) });
    assert_eq!(waits(&archive), [(0, 2 * SECOND_NS)]);
    // The wait ends: from now on it is like any other.
    archive.apply(delta_of(7 * SECOND_NS, vec![], open(6 * SECOND_NS)));
    assert_eq!((waits(&archive), archive.rows()), (vec![(0, 3 * SECOND_NS)], 1));
}

#[test]
fn blocks_that_are_live_are_those_of_the_last_look() {
    let (sender, _receiver) = channel();
    let mut archive = Archive::new(Meta::default(), vec![event(EventKind::HEAP, 0)], names_for(&sender));
    archive.apply(beginning(2));
    let kept = block(SECOND_NS, 1, [100, 1_000], None);
    let look = |now_ns, live: &[Sample], freed: Vec<Sample>| Delta {
        live_blocks: Some(live.to_vec()),
        ..delta_of(now_ns, freed, vec![])
    };
    let blocks = |archive: &Archive| -> Vec<(u64, Option<u64>)> {
        let profile = archive.profile("test");
        let samples = profile.events[0].samples();
        samples.filter_map(|sample| Some((sample.time_ns, sample.block?.lifetime_ns))).collect()
    };
    archive.apply(look(2 * SECOND_NS, &[kept, block(SECOND_NS, 2, [8, 9], None)], vec![]));
    assert_eq!((blocks(&archive).len(), archive.rows()), (2, 0));
    // One is freed, and is in the next look no more.
    let freed = block(SECOND_NS, 2, [8, 9], Some(5));
    archive.apply(look(3 * SECOND_NS, &[kept], vec![freed]));
    assert_eq!(blocks(&archive), [(SECOND_NS, Some(5)), (SECOND_NS, None)]);
    archive.apply(delta_of(4 * SECOND_NS, vec![], vec![]));
    assert_eq!(blocks(&archive).len(), 2, "an update without a look");
    // After a clearing, what is live is what was allocated since.
    archive.clear();
    let new = block(5 * SECOND_NS, 1, [100, 1_000], None);
    archive.apply(look(6 * SECOND_NS, &[kept, new], vec![]));
    assert_eq!(blocks(&archive), [(SECOND_NS, None)]);
    // At the end they come as samples.
    archive.apply(look(7 * SECOND_NS, &[], vec![kept, new]));
    assert_eq!((blocks(&archive), archive.rows()), (vec![(SECOND_NS, None)], 1));
}

#[test]
fn a_live_recording_can_be_asked_from_any_thread() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Live>();
    is_shared::<MailReceiver<LiveEvent>>();
    is_shared::<Snapshot>();
}

#[test]
fn who_waits_for_events_of_a_keeper_that_is_gone_is_told() {
    let (archive, _receiver) = archive();
    let (sender, events) = mailbox();
    drop(keeper(archive, sender).0);
    assert_eq!(next(&events).unwrap_err(), RecvTimeoutError::Disconnected);
}

#[test]
fn numbers_of_threads_and_modules_are_translated() {
    let (mut archive, _receiver) = archive();
    archive.apply(beginning(1));
    let mut delta = beginning(1);
    // A second module and thread, whose text has another id in the archive, because names were added in between.
    delta.strings = vec!["/lib/other".into(), "second".into()];
    delta.modules = vec![Module { path: StringId(3), ..Module::default() }];
    delta.tasks = vec![Task { tid: 8, comm: StringId(4), ..Task::default() }];
    delta.frames = vec![Frame { module: ModuleId(1), ..Frame::default() }];
    delta.stacks = vec![Stack { parent: None, frame: FrameId(2) }];
    delta.named = Vec::new();
    delta.samples = vec![vec![Sample { task: TaskId(1), ..running(5, 2) }]];
    archive.apply(delta);
    let profile = archive.profile("test");
    let sample = profile.events[0].sample(0);
    let task = profile.tables.task(sample.task);
    assert_eq!((task.tid, profile.tables.string(task.comm)), (8, "second"));
    let frame = profile.tables.stack_frames(sample.stack.expect("it has one")).next().expect("a frame");
    let module = profile.tables.module(profile.tables.frame(frame).module);
    assert_eq!(profile.tables.string(module.path), "/lib/other");
}
