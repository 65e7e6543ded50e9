//! The times of threads, against the kernel's own books: `/proc/PID/task/TID/schedstat` and `getrusage`.

use crate::harness::fixture;
use crate::harness::machine::{StolenTime, now_ns, turn, turn_alone};
use crate::harness::postgres::Postgres;
use crate::harness::profiler::{Recording, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED, times_of_threads};
use crate::waits::recorded::Waits;
use prof::internals::profile::{EventKind, Profile, Reason, ThreadTime};
use prof::internals::record::live::LiveEvent;
use prof::internals::record::{Output, live};
use std::collections::HashMap;
use std::iter;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// What the kernel may take to choose a thread for a CPU: its books give that to the one that comes, `prof` to the one that
/// leaves or to no one, ns. 4,000 to 8,000 where a hypervisor shares the machine out.
const CHOOSING_NS: u64 = 10_000;

/// Whether a time is the kernel's, within 1 % or 2 ms. What a hypervisor takes is time on CPU for one side and not for the other.
fn is_near(found_ns: u64, books_ns: u64, stolen_ns: u64) -> bool {
    found_ns.abs_diff(books_ns) <= (books_ns / 100).max(2_000_000) + stolen_ns
}

#[test]
fn times_of_threads_are_those_of_the_kernels_own_books() {
    let Some(_turn) = turn_alone() else { return };
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
        let choosing_ns = CHOOSING_NS * (left + lost);
        assert!(is_near(time.on_cpu_ns, on_cpu_ns, stolen_ns + choosing_ns), "on CPU: {line}, and {time:?}");
        // The choosing is in one or the other: both together lose nothing.
        let ready_ns = time.on_cpu_ns + time.no_cpu_ns;
        let least = |ready_ns, books_ns| ready_ns >= books_ns || is_near(ready_ns, books_ns, stolen_ns);
        assert!(least(ready_ns, on_cpu_ns + no_cpu_ns), "on CPU or runnable: {line}, and {time:?}");
        assert!(least(time.no_cpu_ns + choosing_ns, no_cpu_ns), "runnable: {line}, and {time:?}");
        // Not more either, but for its wakings and what it waited for a CPU between reading the books and its end.
        let later = usize::try_from(time.switches.saturating_sub(left + lost)).unwrap_or(usize::MAX);
        let last_ns: u64 = no_cpu_waits(&waits.profile, tid).iter().rev().take(later).sum();
        let most_ns = no_cpu_ns + WAKING_NS * left + last_ns;
        assert!(
            time.no_cpu_ns <= most_ns || is_near(time.no_cpu_ns, most_ns, stolen_ns),
            "runnable for longer: {line}, and {time:?}"
        );
        // The books were read before its end, and printing may have to wait.
        assert!(
            time.switches.abs_diff(left + lost) <= 10 + (left + lost) / 100,
            "left its CPU {left} times, lost it {lost} times: {time:?}"
        );
    }
}

/// How long a thread waited for a CPU, each time, ns.
fn no_cpu_waits(profile: &Profile, tid: u64) -> Vec<u64> {
    let event = profile.event_of(&EventKind::OFF_CPU).expect("waits are recorded");
    let of_thread = event.samples().filter(|row| u64::from(profile.tables.task(row.task).tid) == tid);
    let waits = of_thread.filter_map(|row| row.wait.map(|wait| (row.time_ns, wait)));
    let mut waits: Vec<(u64, u64)> = (waits.filter(|(_, wait)| wait.reason == Reason::NoCpu))
        .map(|(time_ns, wait)| (time_ns, wait.duration_ns))
        .collect();
    waits.sort_unstable();
    waits.into_iter().map(|(_, duration_ns)| duration_ns).collect()
}

/// The sum over the threads of `pids`.
fn books_of(pids: &[u32]) -> Books {
    let threads = pids.iter().flat_map(|pid| times_of_threads(*pid));
    threads.fold(Books::default(), |sum, times| Books {
        on_cpu_ns: sum.on_cpu_ns + times.ran.as_nanos() as u64,
        no_cpu_ns: sum.no_cpu_ns + times.queued.as_nanos() as u64,
    })
}

/// The kernel's books of some processes, read again and again beside a recording.
struct Reader {
    is_over: Arc<AtomicBool>,
    readings: JoinHandle<Vec<(u64, Books)>>,
}

impl Reader {
    fn start(pids: &[u32]) -> Reader {
        let (pids, is_over) = (pids.to_vec(), Arc::new(AtomicBool::new(false)));
        let is_enough = Arc::clone(&is_over);
        let readings = std::thread::spawn(move || {
            let mut readings = Vec::new();
            while !is_enough.load(Ordering::Relaxed) {
                readings.push((now_ns(), books_of(&pids)));
                std::thread::sleep(Duration::from_millis(25));
            }
            readings.push((now_ns(), books_of(&pids)));
            readings
        });
        Reader { is_over, readings }
    }

    /// What the kernel booked in a span of CLOCK_MONOTONIC, and the longest time between two readings, ns.
    fn in_span(self, span_ns: &Range<u64>) -> (Books, u64) {
        self.is_over.store(true, Ordering::Relaxed);
        let readings = self.readings.join().expect("reading files does not fail");
        let at = |time_ns: u64| {
            let after =
                readings.partition_point(|(read_ns, _)| *read_ns < time_ns).clamp(1, readings.len() - 1);
            let ((from_ns, from), (to_ns, to)) = (readings[after - 1], readings[after]);
            let part = (time_ns as f64 - from_ns as f64) / (to_ns - from_ns) as f64;
            let between = |from: u64, to: u64| (from as f64 + part * (to as f64 - from as f64)) as u64;
            Books {
                on_cpu_ns: between(from.on_cpu_ns, to.on_cpu_ns),
                no_cpu_ns: between(from.no_cpu_ns, to.no_cpu_ns),
            }
        };
        let (start, end) = (at(span_ns.start), at(span_ns.end));
        let gap_ns = readings.windows(2).map(|pair| pair[1].0 - pair[0].0).max();
        let booked =
            Books { on_cpu_ns: end.on_cpu_ns - start.on_cpu_ns, no_cpu_ns: end.no_cpu_ns - start.no_cpu_ns };
        (booked, gap_ns.unwrap_or(0))
    }
}

/// Asserts that on CPU, without one, and blocked are the time of `threads` that live throughout, and that the kernel has the
/// same in its books.
fn assert_booked(what: &str, pids: &[u32], threads: Option<usize>) {
    let stolen = StolenTime::watch();
    let reader = Reader::start(pids);
    let targets = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let recording = Recording::with(["-p", &targets, "-d", "2s"]);
    let stolen_ns = stolen.most_ns();
    let waits = Waits::read(&recording.file());
    let (books, gap_ns) = reader.in_span(&waits.span_ns());
    waits.assert_totals();
    let times = &waits.profile.thread_times;
    assert!(threads.is_none_or(|threads| threads == times.len()), "{what}: {times:?}");
    let lived_ns: u64 = times.iter().map(|time| time.to_ns - time.from_ns).sum();
    if let Some(threads) = threads {
        let due_ns = waits.profile.duration_ns() * threads as u64;
        assert!(lived_ns.abs_diff(due_ns) <= due_ns / 100, "{what}: {threads} threads lived {lived_ns} ns");
    }
    // At both ends a part of what lies between two readings is a guess, half of it at most, for as many as can be at it at once.
    let allowed_ns =
        |books_ns: u64, at_once: u64| (books_ns / 100).max(2_000_000) + stolen_ns + gap_ns * at_once;
    let sum = |of: fn(&ThreadTime) -> u64| times.iter().map(of).sum::<u64>();
    let on_cpu_ns = sum(|time| time.on_cpu_ns);
    let said =
        format!("{what}: on CPU {on_cpu_ns} ns, {books:?} by the kernel, read every {gap_ns} ns at most");
    let choosing_ns = sum(|time| time.switches) * CHOOSING_NS;
    let most_ns = allowed_ns(books.on_cpu_ns, u64::from(waits.profile.meta.cpus)) + choosing_ns;
    assert!(on_cpu_ns.abs_diff(books.on_cpu_ns) <= most_ns, "{said}");
    // The kernel begins to count later, so that this is the least.
    let no_cpu_ns = sum(|time| time.no_cpu_ns);
    let less_ns = allowed_ns(books.no_cpu_ns, times.len() as u64);
    assert!(no_cpu_ns + less_ns >= books.no_cpu_ns, "{said}; without one {no_cpu_ns} ns");
    assert_sum_is_printed(what, &recording.file(), &waits);
}

/// Asserts that the report prints the times that the recording has, and that they are all there is.
fn assert_sum_is_printed(what: &str, file: &Path, waits: &Waits) {
    let report =
        prof().args(["report", "--off-cpu", "--idle"]).arg(file).output().expect("`timeout` can be run");
    let sums = text(&report);
    let begin = sums.lines().skip_while(|line| !line.starts_with("on-CPU "));
    // A line that is too long goes on in the next one.
    let mut lines: Vec<&str> = begin.take(2).collect();
    lines.truncate(if lines.first().is_some_and(|line| line.contains(" = ")) { 1 } else { 2 });
    let line = &*lines.join(" ");
    assert!(!line.is_empty(), "{what}: {sums}");
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
    let backends = postgres.backends();
    assert_booked("postgres", &backends, Some(backends.len()));
}

#[test]
fn times_of_a_go_program_are_those_of_the_kernels_own_books() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("goburn", &[UNTIL_ENDED]) else { return };
    let pids: Vec<u32> = iter::once(program.pid()).collect();
    assert_booked("go", &pids, None);
}

/// Most of them sleep when the recording begins, and on some machines the kernel does not report every switch: the first
/// one that is seen of a thread may be its leaving a CPU.
#[test]
fn times_of_a_crowd_that_sleeps_at_the_start_are_those_of_the_kernels_own_books() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("crowd") else { return };
    let crowd = Running::start_ready(Command::new(program).arg(UNTIL_ENDED));
    let _job = Running::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    assert_booked("crowd", &[crowd.pid()], Some(1001));
}

/// Whether they are buried while the recording lasts or not.
#[test]
fn dead_threads_have_no_time() {
    let Some(_turn) = turn() else { return };
    for what in ["are buried", "stay"] {
        let Some(program) = Running::fixture("dead", &[UNTIL_ENDED]) else { return };
        let pid = program.pid();
        // What is run begins when the recording does.
        let script = match what {
            "stay" => "sleep 2".to_owned(),
            _ => format!("sleep 1; kill -USR1 {pid}; sleep 2"),
        };
        let recording = Recording::with(["-a", "-e", "off", "--", "sh", "-c", &script]);
        let printed = program.finish();
        let dead: Vec<u32> = printed.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        assert_eq!((dead.len(), dead.first()), (2, Some(&pid)), "{printed}");
        let waits = Waits::read(&recording.file());
        waits.assert_totals();
        let tid = |time: &ThreadTime| waits.profile.tables.task(time.task).tid;
        let times: Vec<&ThreadTime> = waits.profile.thread_times.iter().collect();
        let of_dead: Vec<_> = times.iter().filter(|time| dead.contains(&tid(time))).collect();
        assert!(of_dead.is_empty(), "{what}: {of_dead:?}");
        let is_own = |time: &&&ThreadTime| waits.profile.tables.task(time.task).pid == pid;
        let own: Vec<_> = times.iter().filter(is_own).collect();
        assert!(own.len() == 1 && own[0].on_cpu_ns < own[0].blocked_ns / 2, "{what}: {own:?}");
    }
}

/// How long it is known what a thread did.
fn known_ns(time: &ThreadTime) -> u64 {
    time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns
}

/// The counter of the time of waits that were lost.
const LOST_WAIT_NS: &str = "lost_wait_ns";

/// Asserts of a picture that no account is behind what was seen of its thread. Returns the share of the blocked time that is
/// in no row and was not lost, and how much more running time samples make than there was, ns.
fn assert_consistent(profile: &Profile) -> (f64, f64) {
    let mut without_row_ns = 0;
    let mut seen: HashMap<u32, [u64; 3]> = HashMap::new();
    let tid = |task| profile.tables.task(task).tid;
    let off_cpu = profile.event_of(&EventKind::OFF_CPU).expect("waits are recorded");
    for sample in off_cpu.samples() {
        let Some(wait) = sample.wait else { continue };
        let [blocked_ns, no_cpu_ns, last_ns] = seen.entry(tid(sample.task)).or_default();
        *if wait.reason == Reason::NoCpu { no_cpu_ns } else { blocked_ns } += wait.duration_ns;
        *last_ns = (sample.time_ns + wait.duration_ns).max(*last_ns);
    }
    for time in &profile.thread_times {
        // What is not known yet is in no part.
        assert!(known_ns(time) <= time.to_ns - time.from_ns, "{time:?}");
        let [blocked_ns, no_cpu_ns, last_ns] = seen.remove(&tid(time.task)).unwrap_or_default();
        assert!(
            blocked_ns <= time.blocked_ns && no_cpu_ns <= time.no_cpu_ns && last_ns <= time.to_ns,
            "blocked {blocked_ns}, no CPU {no_cpu_ns}, until {last_ns}: {time:?}"
        );
        without_row_ns += time.blocked_ns - blocked_ns;
    }
    assert!(seen.is_empty(), "waits of threads without an account: {seen:?}");
    let on_cpu = profile.event_of(&EventKind::ON_CPU).expect("running threads are sampled");
    let accounted_ns: u64 = profile.thread_times.iter().map(|time| time.on_cpu_ns).sum();
    let (samples, sampled_ns) = (on_cpu.observations(), on_cpu.total_weight());
    // By chance a thread is hit more often than it ran: five times the standard error of a count.
    let chance_ns = sampled_ns as f64 / (samples.max(1) as f64).sqrt() * 5.0;
    let blocked_ns: u64 = profile.thread_times.iter().map(|time| time.blocked_ns).sum();
    // Where the reader has to wait for a CPU, its rings are full, and that is said.
    let missing_ns = without_row_ns.saturating_sub(profile.counter(LOST_WAIT_NS));
    (missing_ns as f64 / blocked_ns.max(1) as f64, sampled_ns as f64 - accounted_ns as f64 - chance_ns)
}

/// The middle one of some values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// On a busy machine, with far more threads than could be read one after the other.
#[test]
fn a_live_view_has_the_times_of_the_kernels_own_books_at_any_moment() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("crowd") else { return };
    let crowd = Running::start_ready(Command::new(program).arg(UNTIL_ENDED));
    let _jobs: Vec<Running> =
        (0..3).map(|_| Running::start(Command::new("sh").args(["-c", "while :; do :; done"]))).collect();
    // Waits that go on while a recording ends are no cost of it.
    let recorded =
        Waits::read(&Recording::with(["-p", &crowd.pid().to_string(), "-d", "500ms"]).file()).profile;
    let bpf_ns = recorded.end.as_ref().map_or(0, |end| end.bpf_ns);
    assert!(
        bpf_ns <= recorded.duration_ns() * u64::from(recorded.meta.cpus),
        "{bpf_ns} ns of {} in BPF programs",
        recorded.duration_ns()
    );
    let (stolen, reader) = (StolenTime::watch(), Reader::start(&[crowd.pid()]));
    let live = live::watch(["live", "--max-overhead", "0", "-p", &crowd.pid().to_string()])
        .unwrap_or_else(|error| panic!("{error:#}; the program's end: {:?}", crowd.end()));
    let (began, deadline) = (Instant::now(), Instant::now() + Duration::from_secs(300));
    let mut pictures: Vec<(f64, f64)> = Vec::new();
    // In a single picture the record of an end, or an account, may be late on a crowded machine; where the reader of the rings
    // waits for a CPU itself, all rows are.
    let late = |pictures: &[(f64, f64)]| median(pictures.iter().rev().take(5).map(|picture| picture.0));
    let last = loop {
        assert!(Instant::now() < deadline, "blocked time without a row, or no picture: {pictures:?}");
        if let Ok(LiveEvent::Snapshot(picture)) = live.events().recv_timeout(Duration::from_millis(200)) {
            pictures.push(assert_consistent(&picture.profile));
            let is_long = began.elapsed() >= Duration::from_secs(7) && pictures.len() >= 5;
            if is_long && late(&pictures) <= 0.01 {
                break picture.profile;
            }
        }
    };
    let oversampled_ns = median(pictures.iter().map(|picture| picture.1));
    assert!(oversampled_ns <= 0.0, "running time by samples that there was not: {pictures:?}");
    // Until when the account of one that runs or has waited for long goes.
    let until_ns = last.thread_times.iter().map(|time| time.from_ns + known_ns(time)).max().unwrap_or(0);
    std::thread::sleep(Duration::from_millis(50));
    let start_ns = last.meta.start_mono_ns;
    let (books, gap_ns) = reader.in_span(&(start_ns..start_ns + until_ns));
    let stolen_ns = stolen.most_ns();
    let times = &last.thread_times;
    assert_eq!(times.len(), 1001, "each thread has an account");
    let sum = |of: fn(&ThreadTime) -> u64| times.iter().map(of).sum::<u64>();
    let lived_ns = sum(known_ns);
    // They are looked at one after the other, and what a thread does after it has run meanwhile is not known yet.
    assert!(lived_ns + lived_ns / 33 >= until_ns * 1001, "{lived_ns} of {until_ns} each");
    // What is missing is not accounted for, and said.
    assert!(times.iter().all(|time| time.to_ns >= last.duration_ns()), "{times:?}");
    let on_cpu_ns = sum(|time| time.on_cpu_ns);
    let cpus = u64::from(last.meta.cpus);
    let most_ns = books.on_cpu_ns / 50 + 2_000_000 + stolen_ns + gap_ns / 2 * cpus;
    let choosing_ns = sum(|time| time.switches) * CHOOSING_NS;
    let said = format!(
        "on CPU {on_cpu_ns} ns of {until_ns} each, {books:?} by the kernel, read every {gap_ns} ns at most; \
         {stolen_ns} ns stolen, {choosing_ns} ns to choose threads, {:?}",
        last.counters
    );
    assert!(on_cpu_ns.abs_diff(books.on_cpu_ns) <= most_ns + choosing_ns, "{said}");
    // What is saved says the same.
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = Output::File { path: folder.path().join("seen"), force: false };
    let saved = live.save(last, &output).expect("it can be saved");
    let waits = Waits::read(&saved.path);
    assert_eq!(waits.profile.thread_times.iter().map(|time| time.on_cpu_ns).sum::<u64>(), on_cpu_ns);
    assert_sum_is_printed("saved", &saved.path, &waits);
}
