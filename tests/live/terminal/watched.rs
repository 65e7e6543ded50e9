//! A recording that is watched while it runs.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{messages, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED};
use prof::internals::profile::{EventKind, Profile};
use prof::internals::record::live::{Ended, Live, LiveEvent, Simulation, Snapshot, own_memory_kb};
use prof::internals::record::{Output, live};
use std::process::Command;
use std::time::{Duration, Instant};

fn watch(pid: u32) -> Live {
    live::watch(["live", "-p", &pid.to_string()]).expect("the fixture can be attached")
}

/// The events until `is_wanted` says so of a snapshot.
fn snapshot_that(live: &Live, what: &str, is_wanted: impl Fn(&Snapshot) -> bool) -> Box<Snapshot> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        match live.events().recv_timeout(Duration::from_millis(200)) {
            Ok(LiveEvent::Snapshot(snapshot)) if is_wanted(&snapshot) => return snapshot,
            Ok(LiveEvent::Ended(ended)) => panic!("it ended before {what}: {ended:?}"),
            _ => {}
        }
    }
    panic!("no snapshot {what}");
}

fn end_of(live: &Live) -> Ended {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if let Ok(LiveEvent::Ended(ended)) = live.events().recv_timeout(Duration::from_millis(200)) {
            return ended;
        }
    }
    panic!("it did not end");
}

fn has_function(profile: &Profile, name: &str) -> bool {
    profile.symbols.functions().iter().any(|function| profile.tables.string(function.name) == name)
}

fn samples(profile: &Profile) -> (u64, u64) {
    let event = profile.event_of(&EventKind::ON_CPU).expect("running threads are sampled");
    (event.observations(), event.total_weight())
}

#[test]
fn the_first_snapshot_has_names_and_the_targets_end_gives_the_last_one() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let live = watch(shares.pid());
    let has_names = |snapshot: &Snapshot| {
        ["main", "one_round", "share_fifty"].iter().all(|name| has_function(&snapshot.profile, name))
    };
    let first = snapshot_that(&live, "with names", has_names);
    assert!(first.number <= 3, "the first {} snapshots had no names", first.number - 1);
    let alive = first.profile.thread_times.first().expect("the time of the thread is known");
    assert!(!alive.has_ended);
    snapshot_that(&live, "with more samples", |next| samples(&next.profile).0 > samples(&first.profile).0);
    drop(shares);
    let ended = end_of(&live);
    assert_eq!((ended.reason.as_str(), ended.failure.as_deref()), ("target ended", None));
    let last = &ended.snapshot.profile;
    assert!(samples(last).0 > samples(&first.profile).0);
    assert_eq!(last.thread_times.len(), 1, "the kernel's word takes the place of an estimate");
    assert!(has_function(last, "share_twenty"));
    // Still there to be saved.
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = Output::File { path: folder.path().join("after"), force: false };
    let saved = live.save(last.clone(), &output).expect("it can be saved");
    let seen: u64 = last.events.iter().map(prof::internals::profile::Event::observations).sum();
    assert_eq!(saved.samples, seen, "what was seen");
}

/// Detail 14 of the promises: a recording has its names and its code on any machine.
#[test]
fn what_is_saved_is_what_prof_report_reads() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let live = watch(shares.pid());
    snapshot_that(&live, "with 500 samples", |snapshot| samples(&snapshot.profile).0 > 500);
    live.stop();
    let ended = end_of(&live);
    assert_eq!(ended.reason, "stopped");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = Output::File { path: folder.path().join("seen"), force: false };
    let saved = live.save(ended.snapshot.profile.clone(), &output).expect("it can be saved");
    let (read, integrity) = prof::internals::profile::read_path(&saved.path).expect("it can be read");
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!(samples(&read), samples(&ended.snapshot.profile));
    let again = live.save(ended.snapshot.profile.clone(), &output);
    assert!(again.is_err(), "an existing file is replaced");
    let report = prof().args(["report", "--json"]).arg(&saved.path).output().expect("`timeout` can be run");
    assert!(report.status.success(), "{}", messages(&report));
    let report: serde_json::Value = serde_json::from_str(&text(&report)).expect("it is JSON");
    assert_eq!(report["samples"].as_u64(), Some(samples(&read).0), "{report:#}");
}

#[test]
fn clearing_forgets_what_was_seen() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let live = watch(shares.pid());
    live.set_interval(Duration::from_millis(250));
    snapshot_that(&live, "with 1000 samples", |snapshot| samples(&snapshot.profile).0 > 1_000);
    live.clear();
    let fresh = snapshot_that(&live, "with fewer", |snapshot| samples(&snapshot.profile).0 < 1_000);
    let last = fresh.profile.events[0].last_time_ns().unwrap_or(0);
    assert!(last <= fresh.profile.duration_ns() + 1_000_000_000, "times count from the clearing");
    snapshot_that(&live, "with names again", |snapshot| has_function(&snapshot.profile, "share_fifty"));
}

/// The waits of a profile: start and length, ns.
fn waits(profile: &Profile) -> Vec<(u64, u64)> {
    let event = profile.event_of(&EventKind::OFF_CPU).expect("waits are recorded");
    event.samples().filter_map(|sample| Some((sample.time_ns, sample.wait?.duration_ns))).collect()
}

#[test]
fn a_wait_that_lasts_all_the_time_grows_in_the_pictures_and_is_recorded_once() {
    let Some(_turn) = turn() else { return };
    let sleeper = Running::start(Command::new("sleep").arg(UNTIL_ENDED));
    let live = watch(sleeper.pid());
    let longest = |snapshot: &Snapshot| {
        let waits = waits(&snapshot.profile);
        assert!(waits.len() <= 1, "one thread waits once: {waits:?}");
        waits.first().map_or(0, |(_, duration_ns)| *duration_ns)
    };
    let first = snapshot_that(&live, "with the wait", |snapshot| longest(snapshot) > 0);
    let (before, known) = (longest(&first), &first.profile.thread_times[0]);
    assert_eq!(waits(&first.profile)[0].0, 0, "it has waited since the start");
    assert_eq!(known.blocked_ns, before, "the account of the thread's time has it too");
    let stack = first.profile.event_of(&EventKind::OFF_CPU).and_then(|event| event.samples().next()?.stack);
    let frames = first.profile.tables.stack_frames(stack.expect("it has a stack")).count();
    assert!(frames > 3, "{frames} frames");
    snapshot_that(&live, "with a longer wait", |snapshot| longest(snapshot) > before + 1_000_000_000);
    live.stop();
    let ended = end_of(&live);
    let (last, length_ns) = (&ended.snapshot.profile, ended.snapshot.profile.duration_ns());
    assert_eq!(waits(last), [(0, length_ns)], "the wait and its part so far are one");
    let time = &last.thread_times[0];
    assert_eq!(time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns, length_ns);
}

#[test]
fn a_recording_that_is_watched_ends_by_itself_or_with_the_command_beside_it() {
    let Some(_turn) = turn() else { return };
    let sleeper = Running::start(Command::new("sleep").arg(UNTIL_ENDED));
    let pid = sleeper.pid().to_string();
    let began = Instant::now();
    let live = live::watch(["live", "-p", &pid, "-d", "1s", "-D", "500ms"]).expect("it can be attached");
    assert!(began.elapsed() >= Duration::from_millis(500), "it begins after the delay");
    let ended = end_of(&live);
    assert_eq!(ended.reason, "duration reached");
    assert!(ended.snapshot.profile.duration_ns() >= 1_000_000_000, "the delay does not count");
    let live = live::watch(["live", "-p", &pid, "--", "sleep", "0.5"]).expect("it can be attached");
    let ended = end_of(&live);
    assert_eq!((ended.reason.as_str(), ended.command_status), ("command ended", None));
}

/// Most memory that a day of a busy program may take, kB.
const MOST_MEMORY_KB: u64 = 512 << 10;

#[test]
#[ignore = "the next test runs it, in a process of its own"]
fn a_day_goes_by() {
    let mut simulation = Simulation::new(16);
    for _ in 0..24 {
        simulation.pass(Duration::from_secs(3_600), 120_000, 60_000, 1_200);
        simulation.downsample();
        assert!(simulation.snapshot().0.profile.duration_ns() > 0);
    }
    let (rows, table_rows) = simulation.rows_kept();
    let (_, most_kb) = own_memory_kb();
    println!("{rows} rows of samples, {table_rows} of tables");
    assert!(rows <= 500_000 && most_kb < MOST_MEMORY_KB, "{rows} rows, {most_kb} kB");
}

#[test]
fn memory_stays_bounded_over_a_day() {
    let tests = std::env::current_exe().expect("a test knows its own program");
    let day = Command::new(tests)
        .args(["--ignored", "--exact", "terminal::watched::a_day_goes_by", "--nocapture"])
        .output()
        .expect("the tests can be run");
    assert!(day.status.success(), "{}", String::from_utf8_lossy(&day.stderr));
    assert!(String::from_utf8_lossy(&day.stdout).contains("rows of samples"), "it was not run");
}

#[test]
fn a_target_that_cannot_be_attached_is_the_error_of_record() {
    let Some(_turn) = turn() else { return };
    let mut child = Command::new("true").spawn().expect("`true` can be run");
    child.wait().expect("own child");
    let pid = child.id().to_string();
    let error = live::watch(["live", "-p", &pid]).expect_err("nobody is there");
    let record = prof().args(["record", "-p", &pid]).output().expect("`timeout` can be run");
    assert!(messages(&record).contains(&error.to_string()), "{error} / {}", messages(&record));
    let error = live::watch(["live", "/nonexistent/program"]).expect_err("there is no such program");
    let failure =
        error.downcast_ref::<prof::internals::base::failure::Failure>().expect("it says what to do");
    assert_eq!(failure.status, 127);
}

#[test]
fn a_launched_command_is_watched_in_silence_to_its_end() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let live = live::watch(["live".as_ref(), program.as_os_str(), "2".as_ref()]).expect("it can be started");
    let ended = end_of(&live);
    assert_eq!((ended.reason.as_str(), ended.command_status), ("command ended", Some(0)));
    assert!(has_function(&ended.snapshot.profile, "share_fifty"));
}
