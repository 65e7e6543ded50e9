//! The times of threads, against the kernel's own books: `/proc/PID/task/TID/schedstat` and `getrusage`.

use super::fixture;
use super::machine::{StolenTime, turn};
use super::postgres::Postgres;
use super::profiler::Recording;
use super::running::Running;
use super::waits_recorded::Waits;
use prof::profile::ThreadTime;
use std::time::Instant;
use std::{fs, iter};

/// What the kernel has of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct Books {
    on_cpu_ns: u64,
    /// Runnable, and without a CPU.
    no_cpu_ns: u64,
}

/// What may pass from the waking of a thread, where `prof` and `perf sched` begin to count, until it is in the queue of a
/// CPU, where the kernel's books do: an idle CPU of a virtual machine has to be woken up first, ns.
const WAKING_NS: u64 = 50_000;

/// Whether a time is the kernel's, within 1 % or 2 ms. What a hypervisor takes is time on CPU for one side and not for the other.
fn is_near(found_ns: u64, books_ns: u64, stolen_ns: u64) -> bool {
    found_ns.abs_diff(books_ns) <= (books_ns / 100).max(2_000_000) + stolen_ns
}

#[test]
fn times_of_threads_are_those_of_the_kernels_own_books() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("accounts") else { return };
    let stolen = StolenTime::watch();
    let recording = Recording::with(["-e", "off", "--", program.to_str().expect("a path is text")]);
    let stolen_ns = stolen.most_ns();
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let printed = String::from_utf8_lossy(&recording.output).into_owned();
    let accounts = &waits.profile.thread_times;
    assert_eq!((printed.lines().count(), accounts.len()), (5, 6), "five and the first: {accounts:?}");
    for line in printed.lines() {
        let numbers: Vec<u64> =
            line.split(' ').map(|word| word.parse().expect("numbers are printed")).collect();
        let [tid, on_cpu_ns, no_cpu_ns, left, lost] = numbers[..] else { panic!("not of the books: {line}") };
        let of_thread = |time: &&ThreadTime| u64::from(waits.profile.tables.task(time.task).tid) == tid;
        let mut times = waits.profile.thread_times.iter().filter(of_thread);
        let time = times.next().unwrap_or_else(|| panic!("thread {tid} is not accounted for"));
        assert!(times.next().is_none(), "thread {tid} is accounted for twice");
        assert!(is_near(time.on_cpu_ns, on_cpu_ns, stolen_ns), "on CPU: {line}, and {time:?}");
        let least =
            |time: &ThreadTime| time.no_cpu_ns >= no_cpu_ns || is_near(time.no_cpu_ns, no_cpu_ns, stolen_ns);
        assert!(least(time), "runnable: {line}, and {time:?}");
        assert!(
            is_near(time.no_cpu_ns, no_cpu_ns, stolen_ns + WAKING_NS * left),
            "runnable: {line}, and {time:?}"
        );
        // The books were read before its end, and printing may have to wait.
        assert!(
            time.switches.abs_diff(left + lost) <= 10 + (left + lost) / 100,
            "left its CPU {left} times, lost it {lost} times: {time:?}"
        );
    }
}

/// The sum over the threads of `pids`.
fn books_of(pids: &[u32]) -> Books {
    let threads = pids.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten());
    let texts =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    texts.fold(Books::default(), |sum, text| {
        let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
        Books {
            on_cpu_ns: sum.on_cpu_ns + numbers.next().unwrap_or(0),
            no_cpu_ns: sum.no_cpu_ns + numbers.next().unwrap_or(0),
        }
    })
}

/// Asserts that on CPU, without one, and blocked are the time of `threads` that live throughout, and that the kernel has the
/// same in its books, which are read shortly before and after.
fn assert_booked(what: &str, pids: &[u32], threads: Option<usize>) {
    let stolen = StolenTime::watch();
    let (before, began) = (books_of(pids), Instant::now());
    let targets = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let recording = Recording::with(["-p", &targets, "-d", "2s"]);
    let (after, whole) = (books_of(pids), began.elapsed());
    let stolen_ns = stolen.most_ns();
    let waits = Waits::read(&recording.file());
    waits.assert_totals();
    let times = &waits.profile.thread_times;
    assert!(threads.is_none_or(|threads| threads == times.len()), "{what}: {times:?}");
    let lived_ns: u64 = times.iter().map(|time| time.to_ns - time.from_ns).sum();
    let span_ns = waits.profile.duration_ns();
    if let Some(threads) = threads {
        let due_ns = span_ns * threads as u64;
        assert!(lived_ns.abs_diff(due_ns) <= due_ns / 100, "{what}: {threads} threads lived {lived_ns} ns");
    }
    // Between the readings, and not recorded.
    let outside_ns = u64::try_from(whole.as_nanos()).expect("seconds fit").saturating_sub(span_ns);
    let cpus = u64::from(waits.profile.meta.cpus);
    let sum = |of: fn(&ThreadTime) -> u64| times.iter().map(of).sum::<u64>();
    let allowed_ns = |books_ns: u64| (books_ns / 100).max(2_000_000) + stolen_ns;
    let on_cpu_ns = after.on_cpu_ns - before.on_cpu_ns;
    let found_ns = sum(|time| time.on_cpu_ns);
    assert!(
        found_ns <= on_cpu_ns + allowed_ns(on_cpu_ns),
        "{what}: on CPU {found_ns} ns, {on_cpu_ns} by the kernel"
    );
    let least_ns = on_cpu_ns.saturating_sub(allowed_ns(on_cpu_ns) + cpus * outside_ns);
    assert!(found_ns >= least_ns, "{what}: on CPU {found_ns} ns, {on_cpu_ns} by the kernel");
    // The kernel begins to count later, so that this is the least.
    let no_cpu_ns = after.no_cpu_ns - before.no_cpu_ns;
    let found_ns = sum(|time| time.no_cpu_ns);
    let least_ns = no_cpu_ns.saturating_sub(allowed_ns(no_cpu_ns) + times.len() as u64 * outside_ns);
    assert!(found_ns >= least_ns, "{what}: runnable {found_ns} ns, {no_cpu_ns} by the kernel");
    assert_sum_is_printed(what, &recording, &waits);
}

/// Asserts that the report prints the times that the recording has, and that they are all there is.
fn assert_sum_is_printed(what: &str, recording: &Recording, waits: &Waits) {
    let sums = recording.report_text(&["--off-cpu", "--idle"]);
    let line =
        sums.lines().find(|line| line.starts_with("on-CPU ")).unwrap_or_else(|| panic!("{what}: {sums}"));
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [parts @ .., whole] = &numbers[..] else { panic!("{what}: {line}") };
    let (parts_s, whole_s): (f64, f64) = (parts.iter().sum(), *whole);
    // Each is rounded to what is printed of it.
    assert!((parts_s - whole_s).abs() <= 0.005 * numbers.len() as f64 + 0.01 * whole_s, "{what}: {line}");
    let lived_ns: u64 = waits.profile.thread_times.iter().map(|time| time.to_ns - time.from_ns).sum();
    let lived_s = lived_ns as f64 / 1e9;
    assert!((whole_s - lived_s).abs() <= 0.01 + 0.01 * lived_s, "{what}: {line}, of {lived_s} s");
}

#[test]
fn times_of_a_database_under_load_are_those_of_the_kernels_own_books() {
    let Some(_turn) = turn() else { return };
    let Some(postgres) = Postgres::start() else { return };
    let _clients = postgres.load();
    // pgbench asks for the version on a connection of its own first.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let backends = postgres.backends();
    assert_booked("postgres", &backends, Some(backends.len()));
}

#[test]
fn times_of_a_go_program_are_those_of_the_kernels_own_books() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("goburn", &["20"]) else { return };
    let pids: Vec<u32> = iter::once(program.pid()).collect();
    assert_booked("go", &pids, None);
}

/// Whether they are buried while the recording lasts or not.
#[test]
fn dead_threads_have_no_time() {
    let Some(_turn) = turn() else { return };
    for seconds in ["1", "20"] {
        let Some(program) = Running::fixture("dead", &[seconds]) else { return };
        let pid = program.pid();
        let recording = Recording::with(["-a", "-e", "off", "-d", "2s"]);
        let printed = program.finish();
        let dead: Vec<u32> = printed.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        assert_eq!((dead.len(), dead.first()), (2, Some(&pid)), "{printed}");
        let waits = Waits::read(&recording.file());
        waits.assert_totals();
        let tid = |time: &ThreadTime| waits.profile.tables.task(time.task).tid;
        let times: Vec<&ThreadTime> = waits.profile.thread_times.iter().collect();
        let of_dead: Vec<_> = times.iter().filter(|time| dead.contains(&tid(time))).collect();
        assert!(of_dead.is_empty(), "{seconds} s: {of_dead:?}");
        let is_own = |time: &&&ThreadTime| waits.profile.tables.task(time.task).pid == pid;
        let own: Vec<_> = times.iter().filter(is_own).collect();
        assert!(own.len() == 1 && own[0].on_cpu_ns < own[0].blocked_ns / 2, "{seconds} s: {own:?}");
    }
}
