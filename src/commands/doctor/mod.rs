//! `prof doctor`: does `prof` work here, and if not, what fixes it? Every check tries the real thing; settings are only
//! read to explain a failure. What a setting means is known in `record/environment`.

pub(crate) mod check;
mod container;
mod possible;

use crate::base::failure::{Failure, status};
use crate::base::{privilege, safe_text, units};
use crate::commands::doctor::check::{Check, CheckVerdict};
use crate::profile::{EventKind, Outcome, Profile, ThreadTime, counter};
use crate::record::{
    FoundTarget, MAX_CPU_CLOCK_HZ, Output, RecordOptions, Sampler, Session, Start, TableCacheOrNot, Target,
    WaitOptions, find, hit_prices, kernel_standstill, read_loader_messages, start_opener, sysctl_advice,
};
use crate::report::{Runtime, module_file};
use crate::symbols::PerfMapSource;
use serde::Serialize;
use std::fmt::Write as _;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Options of `prof doctor`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DoctorOptions {
    /// The process whose stacks are tried, instead of a thread of our own.
    pub(crate) pid: Option<u32>,
    /// Whether to print `prof.doctor/1` instead of text.
    pub(crate) json: bool,
}

/// Number of stacks to try.
const WANTED_STACKS: u64 = 12;
/// Longest time to wait for these stacks.
const PATIENCE: Duration = Duration::from_secs(3);
/// Number of calls between the test thread's start and its loop.
const TEST_DEPTH: u32 = 16;

/// Runs all checks.
///
/// # Errors
///
/// Fails only when the process to try does not exist; all other problems are checks that failed.
pub(crate) fn examine(options: &DoctorOptions) -> anyhow::Result<Vec<Check>> {
    let mut checks = container::checks();
    let has_failed = |checks: &[Check]| checks.iter().any(|check| check.verdict == CheckVerdict::Fail);
    if has_failed(&checks) {
        return Ok(checks);
    }
    let target = Target::Pids(vec![options.pid.unwrap_or_else(std::process::id)]);
    let events = vec![Sampler::Clock, Sampler::Waits(WaitOptions::default())];
    let record = RecordOptions { target, events, ..RecordOptions::default() };
    let found = find(&record)?;
    checks.extend(options.pid.and_then(container::target));
    let cache = start_opener(&Output::Stdout, &record, &[], None)?;
    privilege::keep_attaching()?;
    // Read the names before the right to see them is given up.
    let kernel_names = container::kernel_names();
    let probes = probes();
    let system = possible::whole_system();
    checks.extend(recording(&record, &found, cache, options.pid.is_none()));
    if !has_failed(&checks) {
        checks.push(kernel_names);
        checks.push(probes);
        checks.push(sample_rate());
        if options.pid.is_none() {
            checks.push(possible::own_processes(&checks));
        }
        checks.push(system);
    }
    Ok(checks)
}

/// Loads and attaches everything, and records some stacks.
fn recording(
    options: &RecordOptions,
    found: &FoundTarget,
    cache: TableCacheOrNot,
    is_own: bool,
) -> Vec<Check> {
    read_loader_messages(false);
    let own_thread = is_own.then(TestThread::start);
    let mut objects = [const { MaybeUninit::uninit() }; 2];
    let start = Start { options, found, launched: None, cache, command: Vec::new(), is_watched: false };
    let mut session = match Session::attach(&mut objects, start) {
        Ok(session) => session,
        Err(error) => return vec![failed("programs", &error)],
    };
    let mut checks = vec![programs(&session)];
    checks.extend(kernel_standstill().map(|bug| {
        Check::new("kernel", CheckVerdict::Warn, bug)
            .fix("sample by the clock (-e cpu), or use a newer kernel")
    }));
    let recorded = session.begin(None).and_then(|()| {
        privilege::keep_watching()?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && session.collector.totals.samples() < WANTED_STACKS {
            std::thread::sleep(Duration::from_millis(20));
            session.take()?;
        }
        session.stop("enough")?;
        session.close_books(false, None)
    });
    drop(own_thread);
    if let Err(error) = recorded {
        checks.push(failed("sampling", &error));
        return checks;
    }
    let profile = &session.collector.profile;
    let label = safe_text::terminal(&found.label);
    checks.extend([clock(profile), waits(profile), stacks(profile, &label, is_own)]);
    for &pid in &found.pids {
        let Some(process) = session.collector.processes.get_mut(pid) else { continue };
        checks.extend(process.interpreter().describe().map(language));
        checks.extend(process.goroutines().describe().map(language));
        checks.extend(process.managed_mut().describe(pid).map(language));
        let collector = &session.collector;
        checks.extend(unread_language(pid, &collector.processes.code_files(pid, &collector.files)));
    }
    checks
}

/// What a hit of a probe costs here.
fn probes() -> Check {
    const NAME: &str = "probes";
    match hit_prices() {
        Some((emulated, stepped)) => Check::new(
            NAME,
            CheckVerdict::Ok,
            format!(
                "a hit of -e uprobe costs {} where the kernel emulates the instruction (nop, push), {} where it single-steps it",
                units::duration(emulated),
                units::duration(stepped)
            ),
        ),
        None if cfg!(not(target_arch = "x86_64")) => Check::new(
            NAME,
            CheckVerdict::Ok,
            "what a hit of -e uprobe costs is not measured on this processor",
        ),
        None => Check::new(
            NAME,
            CheckVerdict::Warn,
            "instructions cannot be probed here (-e uprobe, usdt): the kernel has no uprobes, or this user may not use them",
        ),
    }
}

/// What samples here.
fn programs(session: &Session<'_>) -> Check {
    const NAME: &str = "programs";
    if let Some(note) = &session.substitute {
        return Check::new(NAME, CheckVerdict::Warn, note);
    }
    let load_ms = session.load_time().as_secs_f64() * 1e3;
    let most = session.most_verified().map_or_else(String::new, |most| format!("; {most}"));
    Check::new(NAME, CheckVerdict::Ok, format!("all BPF programs load, in {load_ms:.0} ms{most}"))
}

/// What is shown of a language that the target runs, but whose functions are not read.
fn unread_language(pid: u32, paths: &[&str]) -> Option<Check> {
    let (shown, cure) = Runtime::of_files(paths.iter().map(|path| module_file(path)))?.unread()?;
    let map = PerfMapSource::of(pid).ok().map(|source| source.path());
    let has_map = |map: &String| std::fs::metadata(format!("/proc/{pid}/root{map}")).is_ok();
    Some(match map.filter(has_map) {
        Some(map) => Check::new("language", CheckVerdict::Ok, format!("{shown}: {map}")),
        None => Check::new("language", CheckVerdict::Warn, shown).fix(cure),
    })
}

/// Whether the functions of a language that the target runs are recorded.
fn language(runtime: Result<String, String>) -> Check {
    const NAME: &str = "language";
    match runtime {
        Ok(known) => Check::new(NAME, CheckVerdict::Ok, safe_text::terminal(&known)),
        Err(why) => Check::new(NAME, CheckVerdict::Warn, safe_text::terminal(&why)),
    }
}

/// Whether waits were recorded, and whether all time of the test's threads was accounted for.
fn waits(profile: &Profile) -> Check {
    const NAME: &str = "waits";
    if profile.event_of(&EventKind::OFF_CPU).is_none() {
        let why = match profile.meta.why_no_waits.as_str() {
            "" => "off-CPU time is not recorded",
            why => why,
        };
        return Check::new(NAME, CheckVerdict::Warn, why).fix("Linux 5.18 or later, with BTF");
    }
    if let Some(silent) = silent_threads(profile) {
        return Check::new(
            NAME,
            CheckVerdict::Warn,
            format!("the kernel reported {silent} neither running nor waiting"),
        )
        .fix("record another target: some sandboxes and virtual machines hide their threads");
    }
    let sum = |of: fn(&ThreadTime) -> u64| profile.thread_times.iter().map(of).sum::<u64>();
    let known = sum(|time| time.on_cpu_ns.saturating_add(time.no_cpu_ns).saturating_add(time.blocked_ns));
    let whole = sum(|time| time.to_ns.saturating_sub(time.from_ns));
    let threads = units::counted(profile.thread_times.len() as u64, "thread");
    let share = units::percent(known, whole.max(1));
    let verdict = if (99.0..=101.0).contains(&share) { CheckVerdict::Ok } else { CheckVerdict::Warn };
    Check::new(NAME, verdict, format!("{share:.1}% of the time of {threads} accounted for"))
}

/// The number of threads in the target, if the kernel reported nothing about any of them.
fn silent_threads(profile: &Profile) -> Option<String> {
    let silent = profile.counter(counter::THREADS_UNACCOUNTED);
    (silent > 0 && profile.thread_times.is_empty()).then(|| units::counted(silent, "thread"))
}

fn failed(name: &'static str, error: &anyhow::Error) -> Check {
    let check = Check::new(name, CheckVerdict::Fail, format!("{error:#}"));
    match error.downcast_ref::<Failure>().and_then(|failure| failure.hints.first()) {
        Some(hint) => check.fix(hint.strip_prefix("now:").unwrap_or(hint).trim_start()),
        None => check,
    }
}

fn clock(profile: &Profile) -> Check {
    let (clock, hz) = (&profile.meta.clock, profile.meta.effective_hz);
    let detail = format!(
        "{clock} at {} Hz; kernel code with interrupts off is charged to where interrupts are enabled again",
        units::count(hz.into())
    );
    Check::new("clock", CheckVerdict::Ok, detail)
}

fn stacks(profile: &Profile, label: &str, is_own: bool) -> Check {
    let outcomes = profile.events.iter().flat_map(|event| event.samples().map(|sample| sample.outcome));
    // Of waits without stacks nothing is known.
    let outcomes: Vec<Outcome> = outcomes.filter(|outcome| *outcome != Outcome::NotKnown).collect();
    let complete = outcomes.iter().filter(|outcome| outcome.is_complete()).count();
    let detail = format!("{complete}/{} test stacks of {label} reach the thread's start", outcomes.len());
    if outcomes.is_empty()
        && let Some(silent) = silent_threads(profile)
    {
        return Check::new(
            "stacks",
            CheckVerdict::Warn,
            format!("nothing of {silent} of {label} was seen running"),
        );
    }
    if outcomes.is_empty() {
        return match is_own {
            true => Check::new("stacks", CheckVerdict::Fail, "a busy thread produced no sample")
                .fix("check the limits on perf events: sysctl kernel.perf_event_paranoid kernel.perf_cpu_time_max_percent"),
            false => Check::new("stacks", CheckVerdict::Warn, format!("{label} used no CPU while it was watched"))
                .fix("try again while it is busy"),
        };
    }
    let Some(worst) = outcomes.iter().find(|outcome| !outcome.is_complete()) else {
        return Check::new("stacks", CheckVerdict::Ok, detail);
    };
    Check::new("stacks", CheckVerdict::Warn, format!("{detail}; others end early: {}", worst.label()))
        .fix("record it: the notes of prof report name the module and the flag that fixes it")
}

fn sample_rate() -> Check {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap_or_default();
    match limit.trim().parse::<u64>() {
        Ok(hz) if hz < 999 => {
            Check::new("sample rate", CheckVerdict::Warn, format!("the kernel allows at most {hz} Hz"))
                .fix(sysctl_advice("kernel.perf_event_max_sample_rate=100000"))
        }
        Ok(hz) => {
            let most = hz.min(MAX_CPU_CLOCK_HZ.into());
            Check::new("sample rate", CheckVerdict::Ok, format!("up to {} Hz", units::count(most)))
        }
        Err(_) => Check::new("sample rate", CheckVerdict::Warn, "the kernel's limit cannot be read"),
    }
}

/// A thread of our own that runs at a known stack depth.
struct TestThread {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TestThread {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || descend(TEST_DEPTH, &seen));
        TestThread { stop, thread: Some(thread) }
    }
}

impl Drop for TestThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread only runs `descend`, which cannot fail.
            let _ = thread.join();
        }
    }
}

#[inline(never)]
fn descend(depth: u32, stop: &AtomicBool) {
    if depth > 0 {
        descend(black_box(depth - 1), stop);
        black_box(depth);
    } else {
        while !stop.load(Ordering::Relaxed) {
            black_box(depth);
        }
    }
}

/// Column where the detail of a check begins.
const DETAIL_COLUMN: usize = 23;

/// The checks as text in lines of at most `width` columns, or as JSON, with the exit status for them.
pub(crate) fn render(checks: &[Check], as_json: bool, width: usize) -> anyhow::Result<(String, u8)> {
    let has_failed = checks.iter().any(|check| check.verdict == CheckVerdict::Fail);
    let exit = if has_failed { status::NOT_PERMITTED } else { status::OK };
    if as_json {
        #[derive(Serialize)]
        struct Document<'a> {
            schema: &'static str,
            works: bool,
            /// Whether it can record all processes; `null` where that was not tried.
            works_for_all: Option<bool>,
            checks: &'a [Check],
        }
        let works_for_all = possible::works_for_all(checks);
        let document = Document { schema: "prof.doctor/1", works: !has_failed, works_for_all, checks };
        return Ok((serde_json::to_string_pretty(&document)? + "\n", exit));
    }
    let mut text = String::new();
    for check in checks {
        let verdict = match check.verdict {
            CheckVerdict::Ok => "ok",
            CheckVerdict::Warn => "warn",
            CheckVerdict::Fail => "FAIL",
        };
        let detail = safe_text::message(&check.detail);
        for (index, line) in
            safe_text::wrapped(&detail, width.saturating_sub(DETAIL_COLUMN)).iter().enumerate()
        {
            match index {
                0 => writeln!(text, "{verdict:<5} {:<16} {line}", check.name)?,
                _ => writeln!(text, "{:DETAIL_COLUMN$}{line}", "")?,
            }
        }
        if let Some(fix) = &check.fix {
            // The fix is for copying, so it is never wrapped.
            writeln!(text, "      fix: {}", safe_text::message(fix))?;
        }
    }
    let verdict = if has_failed { "prof does not work here".to_owned() } else { possible::verdict(checks) };
    for line in safe_text::wrapped(&safe_text::message(&verdict), width) {
        writeln!(text, "{line}")?;
    }
    Ok((text, exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Detail 7 of the promises: a missing privilege is named with the command that grants it.
    #[test]
    fn a_failed_check_decides_the_verdict_and_shows_its_fix() {
        let checks = [
            Check::new("btf", CheckVerdict::Ok, "there"),
            Check::new("programs", CheckVerdict::Fail, "refused").fix("sudo"),
        ];
        let (text, exit) = render(&checks, false, 80).expect("renders");
        assert_eq!(exit, 5);
        assert_eq!(
            text,
            "ok    btf              there\nFAIL  programs         refused\n      fix: sudo\nprof does not work here\n"
        );
        let (json, _) = render(&checks, true, 80).expect("renders");
        let value: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
        assert_eq!(value["schema"], "prof.doctor/1");
        assert_eq!(value["works"], false);
        assert_eq!(value["checks"][1]["verdict"], "fail");
    }
}
