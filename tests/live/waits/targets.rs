//! Waits of threads that come and go, of one thread, of a command, and what `-e` leaves out.

use crate::harness::fixture;
use crate::harness::machine::{tool_or_skip, turn, turn_alone};
use crate::harness::profiler::{Recording, binary};
use crate::harness::running::{Running, UNTIL_ENDED, children, wait_for, wait_for_samples};
use crate::waits::recorded::Waits;
use prof::internals::profile::{EventKind, Reason, Sample, ThreadTime};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};

/// Records a fixture for 1.5 s and asserts that its totals hold. Gives what the fixture printed, too.
fn recorded(fixture: &str, options: &[&str]) -> Option<(Waits, String)> {
    let program = Running::fixture(fixture, &[UNTIL_ENDED])?;
    let recording = Recording::of_pid_with(program.pid(), "1500ms", options);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    Some((waits, program.finish()))
}

/// Detail 2 of the promises: running and waiting time add up to the time that passed.
#[test]
fn the_time_of_threads_that_begin_and_end_adds_up() {
    let Some(_turn) = turn() else { return };
    for (fixture, least) in [("shortlived", 20), ("spawner", 20), ("waitexec", 60), ("threads", 4)] {
        let Some((waits, _)) = recorded(fixture, &["-e", "off"]) else { return };
        let times = &waits.profile.thread_times;
        let ended = times.iter().filter(|time| time.has_ended).count();
        assert!(ended >= least, "{fixture}: {ended} of {} threads have ended", times.len());
        let whole = |time: &&ThreadTime| time.to_ns - time.from_ns > waits.profile.duration_ns() * 9 / 10;
        assert!(times.iter().filter(whole).count() < 6, "{fixture}: threads are older than they can be");
    }
}

#[test]
fn threads_that_sleep_while_another_executes_a_program_have_waited_until_then() {
    let Some(_turn) = turn() else { return };
    let Some((waits, printed)) = recorded("waitexec", &[]) else { return };
    let starts: Vec<u64> = printed.lines().filter_map(|line| line.parse().ok()).collect();
    let span = waits.span_ns();
    let executed = starts.iter().filter(|start| span.contains(start)).count();
    assert!(executed > 2, "executed {executed} times: {printed}");
    let sleeping = |sample: &Sample| waits.has(sample.stack, &["sleep_on"]);
    let mut found = 0;
    for sample in waits.event().samples().filter(sleeping) {
        let wait = sample.wait.expect("every row of off-cpu is a wait");
        let from_ns = span.start + sample.time_ns;
        let during = from_ns..from_ns + wait.duration_ns;
        let outlived = starts.iter().find(|start| during.contains(start));
        assert!(outlived.is_none(), "{during:?} is longer than a program lived, until {outlived:?}");
        found += 1;
    }
    // Two in every program; of the first and the last one perhaps none.
    assert!(found >= 2 * (executed - 1), "{found} waits of sleepers in {executed} programs");
}

/// They are on no list any more when they leave their CPUs for the last time, and the recorder may have taken those.
#[test]
fn threads_that_run_until_the_end_of_their_process_are_accounted_for() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("runningexit") else { return };
    for _ in 0..4 {
        let recording = Recording::with(["--", program.to_str().expect("a path is text")]);
        let waits = Waits::read(&recording.file());
        waits.assert_totals();
        let times = &waits.profile.thread_times;
        let ended = times.iter().filter(|time| time.has_ended).count();
        assert_eq!(ended, 4, "{times:#?}, {:?}, {:?}", waits.profile.counters, waits.profile.end);
    }
}

/// The new first thread has the number of the old one, whose time ends there.
#[test]
fn a_thread_that_executes_a_program_is_another_one_from_then_on() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("threadexec") else { return };
    let recording = Recording::with(["-e", "off", "--", program.to_str().expect("a path is text")]);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let tables = &waits.profile.tables;
    // Every thread is waited on by its own number: four that are killed, one that executes, and what it becomes.
    let times = &waits.profile.thread_times;
    let is_first = |time: &&ThreadTime| tables.task(time.task).tid == tables.task(time.task).pid;
    assert_eq!((times.len(), times.iter().filter(is_first).count()), (6, 2), "{times:#?}");
    let executes = |sample: &Sample| {
        waits.has(sample.stack, &["execute"]) && sample.wait.is_some_and(|wait| wait.reason == Reason::Sleep)
    };
    let executing = tables.task(waits.event().samples().find(executes).expect("it sleeps before").task).tid;
    let is_executing = |task| tables.task(task).tid == executing;
    let own = times.iter().find(|time| !is_first(time) && is_executing(time.task));
    let own = own.unwrap_or_else(|| panic!("the thread that slept has no account: {times:#?}"));
    let its_waits = waits.sums(|sample| {
        is_executing(sample.task) && sample.wait.is_some_and(|wait| wait.reason != Reason::NoCpu)
    });
    let slept_ns = its_waits.get(&Reason::Sleep).map_or(0, |sum| sum.weight_ns);
    let blocked_ns: u64 = its_waits.values().map(|sum| sum.weight_ns).sum();
    assert!(slept_ns > 900_000_000, "{its_waits:?}");
    assert!(own.blocked_ns.abs_diff(blocked_ns) < blocked_ns / 100, "{blocked_ns} ns in waits: {times:#?}");
    // The sums of the report, which finds most of it idle.
    let report = recording.report_with(&["--threads"]);
    let total = |name: &str| report.number(&format!("/totals/{name}"));
    let lifetime = total("lifetime_ns");
    let sum: f64 = ["on_cpu_ns", "no_cpu_ns", "blocked_ns", "idle_ns"].into_iter().map(total).sum();
    assert!(total("idle_ns") > 0.1 * lifetime, "nothing is idle: {}", report.0);
    assert!((sum - lifetime).abs() < 0.01 * lifetime, "{sum} of {lifetime} ns: {}", report.0);
    assert!(total("unaccounted_ns").abs() < 0.01 * lifetime, "{}", report.0);
}

#[test]
fn running_or_waiting_can_be_left_out() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("waits", &[UNTIL_ENDED]) else { return };
    let pid = program.pid().to_string();
    let off = Recording::with(["-p", &pid, "-d", "1s", "-e", "off"]);
    let waits = Waits::read(&off.file());
    waits.assert_totals();
    assert!(
        waits.profile.event_of(&EventKind::ON_CPU).is_none_or(|event| event.is_empty()),
        "samples of running threads"
    );
    assert!(waits.sums(|sample| waits.has(sample.stack, &["site_sleep"])).contains_key(&Reason::Sleep));
    let cpu = Recording::with(["-p", &pid, "-d", "1s", "-e", "cpu"]);
    let running = Waits::read(&cpu.file()).profile;
    assert!(
        running.event_of(&EventKind::OFF_CPU).is_none() && running.thread_times.is_empty(),
        "waits were recorded"
    );
    assert!(running.event_of(&EventKind::ON_CPU).is_some_and(|event| !event.is_empty()), "no samples");
}

#[test]
fn the_waits_of_one_thread_are_recorded_alone() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("threads", &[UNTIL_ENDED]) else { return };
    let tid = wait_for("the thread early-asleep", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", program.pid())).ok()?;
        // Neither has a name: of those that sleep, the last but main that is born first.
        let mut tids: Vec<u32> =
            tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        tids.sort_unstable();
        tids.get(2).copied()
    });
    let recording = Recording::with(["-t", &tid.to_string(), "-d", "1s"]);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let tids = waits.event().samples().map(|sample| waits.profile.tables.task(sample.task).tid);
    assert!(tids.into_iter().all(|found| found == tid), "waits of other threads");
    let times = &waits.profile.thread_times;
    assert_eq!(times.len(), 1, "times of other threads");
    assert!(times[0].blocked_ns > waits.profile.duration_ns() * 9 / 10, "{times:?}");
}

#[test]
fn a_commands_waits_are_recorded_from_its_start_to_its_end() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("sleepexit") else { return };
    let recording = Recording::with(["--", program.to_str().expect("a path is text"), "0.3", "0"]);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let sleep = waits.sums(|sample| waits.has(sample.stack, &["main"]));
    let slept_ns = sleep.get(&Reason::Sleep).map_or(0, |sum| sum.weight_ns);
    assert!((298_000_000..600_000_000).contains(&slept_ns), "slept for {slept_ns} ns: {sleep:?}");
    let times = &waits.profile.thread_times;
    assert!(times.len() == 1 && times[0].has_ended, "{times:?}");
    assert!(times[0].on_cpu_ns > 15_000_000, "it has worked for 20 ms: {times:?}");
}

/// 32-bit programs have numbers of their own for system calls.
#[test]
fn the_waits_of_a_32_bit_program_have_no_reason_of_another_call() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("wait32", &[]) else { return };
    let recording = Recording::of_pid(program.pid(), "700ms");
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let sums = waits.sums(|_| true);
    assert!(sums.keys().all(|reason| matches!(reason, Reason::Sleep | Reason::NoCpu)), "{sums:?}");
    assert!(sums.get(&Reason::Sleep).is_some_and(|sum| sum.weight_ns > 500_000_000), "{sums:?}");
}

/// Runs a process, and then another that is given the same number, which begins last of all. Others may take the number before it,
/// and keep it; ends with status 9 if they always do.
const REUSE: &str = "for round in 1 2 3 4 5; do
	sleep 0.2 & first=$!; wait
	for try in 1 2 3 4 5 6 7 8 9 10; do
		echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
		sleep 0.3 & last=$!
		[ $last = $first ] && { wait; exit 0; }
		kill $last; wait
	done
done
exit 9";

#[test]
fn two_processes_with_the_same_number_have_waits_of_their_own() {
    let Some(_turn) = turn() else { return };
    let recording = Recording::with(["--", "sh", "-c", REUSE]);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let times = &waits.profile.thread_times;
    let number = |time: &ThreadTime| waits.profile.tables.task(time.task).tid;
    // Those that were given another number have it from time to time, too.
    let last = times.iter().max_by_key(|time| time.from_ns).map(number);
    let same = |time: &&ThreadTime| Some(number(time)) == last;
    let mut blocked_ms: Vec<u64> =
        times.iter().filter(same).map(|time| time.blocked_ns / 1_000_000).collect();
    blocked_ms.sort_unstable();
    let [first, second] = blocked_ms[..] else { panic!("not two with the same number: {times:?}") };
    assert!((190..280).contains(&first) && (290..400).contains(&second), "{first} ms and {second} ms");
    let slept = waits.sums(|sample| sample.wait.is_some_and(|wait| wait.reason == Reason::Sleep));
    let slept_ns = slept.get(&Reason::Sleep).map_or(0, |sum| sum.weight_ns);
    assert!(slept_ns > 495_000_000, "both have slept for {slept_ns} ns");
}

#[test]
fn waits_of_the_whole_machine_are_recorded() {
    let Some(_turn) = turn_alone() else { return };
    let Some(program) = Running::fixture("waits", &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-a", "-e", "cpu,off", "-d", "1500ms"]);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let is_of = |sample: &Sample| waits.profile.tables.task(sample.task).pid == program.pid();
    let sums = waits.sums(|sample| is_of(sample) && waits.has(sample.stack, &["site_stuck"]));
    let stuck_ns = sums.get(&Reason::Poll).map_or(0, |sum| sum.weight_ns);
    let whole_ns = waits.profile.duration_ns();
    assert!(stuck_ns.abs_diff(whole_ns) < whole_ns / 50, "{stuck_ns} ns of {whole_ns}: {sums:?}");
}

#[test]
fn a_delay_is_not_part_of_any_wait() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("waits", &[UNTIL_ENDED]) else { return };
    let pid = program.pid().to_string();
    let recording = Recording::with(["-p", &pid, "-D", "600ms", "-d", "800ms", "-e", "off"]);
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let stuck = waits.sums(|sample| waits.has(sample.stack, &["site_stuck"]));
    let (found_ns, whole_ns) =
        (stuck.values().map(|sum| sum.weight_ns).sum::<u64>(), waits.profile.duration_ns());
    assert!(found_ns.abs_diff(whole_ns) < 2_000_000, "stuck for {found_ns} ns of {whole_ns}");
}

#[test]
fn a_wait_from_before_the_start_to_after_the_end_has_its_stack() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("waits", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "700ms");
    let waits = Waits::read(&recording.file());
    let is_stuck = |sample: &Sample| waits.has(sample.stack, &["again_and_again", "site_stuck"]);
    let stuck: Vec<Sample> = waits.event().samples().filter(is_stuck).collect();
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    let length_ns = stuck[0].wait.expect("a wait").duration_ns;
    assert!(
        length_ns.abs_diff(waits.profile.duration_ns()) < 2_000_000 && stuck[0].time_ns == 0,
        "{stuck:?}"
    );
    assert!(waits.has(stuck[0].stack, &["site_stuck", "do_sys_poll"]), "{:?}", waits.stack(stuck[0].stack));
}

#[test]
fn a_recorder_that_is_killed_leaves_nothing_behind() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("pingpong", &["pipe", "one", UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut recorder = Command::new(binary())
        .args(["record", "-p", &program.pid().to_string(), "-d", "30s", "-o"])
        .arg(folder.path().join("prof.data"))
        .stderr(Stdio::null())
        .spawn()
        .expect("prof can be run");
    wait_for_samples(&folder.path().join("prof.data"));
    kill_process(Pid::from_child(&recorder), Signal::KILL).expect("prof still records");
    recorder.wait().expect("prof is our child");
    assert!(program.is_alive(), "the target was ended");
    let cut = prof::internals::profile::read_path(&folder.path().join("prof.data"));
    let (profile, integrity) = cut.expect("what was written can be read");
    assert!(!integrity.is_complete, "nobody has ended the file");
    assert!(
        profile.event_of(&EventKind::OFF_CPU).is_some_and(|event| !event.is_empty()),
        "no waits were kept"
    );
    // A new recording finds the machine as it was.
    let again = Waits::read(&Recording::of_pid(program.pid(), "500ms").file());
    again.assert_totals();
}

#[test]
fn the_stack_of_a_stranger_who_wakes_is_not_copied() {
    let Some(_turn) = turn() else { return };
    let Some(python) = tool_or_skip("python3") else { return };
    // The child alone is recorded, which its parent wakes.
    let script = "import os, sys
to_child, to_parent = os.pipe(), os.pipe()
if not os.fork():
    while os.read(to_child[0], 1):
        os.write(to_parent[1], b'x')
print('ready', flush=True)
while True:
    os.write(to_child[1], b'x')
    os.read(to_parent[0], 1)
";
    let program = Running::start_ready(Command::new(python).args(["-c", script]));
    // No table is missing, and of the parent no one would know which table to use. On a busy machine the child's own tables may
    // be late, and its stacks are copied until then: each recording finds more of them kept.
    let record = || {
        let waits = Waits::read(&Recording::of_pid(children(program.pid())[0], "1500ms").file());
        waits.assert_totals();
        let wakers = waits.counter("kernel_wakers_sent");
        assert!(wakers > 0, "no one has woken the child");
        (waits.counter("rescued") + waits.counter("rescue_refused"), wakers)
    };
    let mut seen = Vec::new();
    let is_without = (0..4).any(|_| {
        seen.push(record());
        seen.last().is_some_and(|(copies, wakers)| *copies <= wakers / 20)
    });
    assert!(is_without, "stacks copied, and those that woke: {seen:?}");
}
