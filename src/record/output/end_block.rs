//! The end block: what a recording got, what it lost and what it cost.

use crate::base::{safe_text, units};
use crate::profile::{End, Event, EventKind, Outcome, Profile, ThreadTime, counter};
use crate::record::collect::totals::CollectedTotals;
use crate::record::names::naming::CutShort;
use std::path::Path;

/// Facts of the end block.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    /// The profile with its end record.
    pub(crate) profile: &'a Profile,
    /// Sums over all samples.
    pub(crate) totals: &'a CollectedTotals,
    /// Why available names are missing, if they are.
    pub(crate) cut_short: Option<CutShort>,
    /// Notes on maps of generated code that were not read.
    pub(crate) refused: &'a [String],
    /// Modules whose names could not be read in full.
    pub(crate) unread_modules: u64,
    /// Path of the profile; `None` for standard output.
    pub(crate) path: Option<&'a Path>,
    /// Path under which the previous profile was kept.
    pub(crate) kept_old: Option<&'a Path>,
    /// Size of the profile, bytes.
    pub(crate) bytes: u64,
}

/// The lines that end a recording.
pub(super) fn end_block(summary: &Summary<'_>) -> Vec<String> {
    let Summary { profile, totals, cut_short, refused, path, .. } = summary;
    let end = profile.end.clone().unwrap_or_default();
    let samples = totals.samples();
    let mut lines = vec![saved_line(summary, end.duration_ns)];
    lines.extend(event_lines(profile, totals, &end));
    lines.extend(waits_line(profile, totals));
    lines.extend(thinned_line(profile));
    lines.extend(threads_line(profile));
    if samples > 0 {
        lines.push(quality_line(profile, totals, *cut_short));
        lines.extend(hottest_line(profile, totals));
        lines.extend(cause_line(totals));
    }
    lines.push(cost_line(&end));
    lines.extend(ending_line(&end));
    let file = path.filter(|path| path.as_os_str() != "prof.data");
    let file =
        file.map_or(String::new(), |path| format!(" {}", safe_text::terminal(&path.display().to_string())));
    lines.extend(names_lines(summary, &file));
    let is_of_probe =
        |notice: &&String| profile.events.iter().any(|event| event.kind().is_subject_of(notice));
    let of_probes = end.notices.iter().filter(|notice| is_of_probe(notice) || notice.starts_with("heap: "));
    lines.extend(of_probes.map(|notice| format!("  note     {}", safe_text::message(notice))));
    lines.extend(refused.iter().map(|notice| format!("  note     {}", safe_text::message(notice))));
    if samples == 0 && (profile.counter(counter::UNRECORDED_NS) > 0 || is_silent(profile, totals)) {
        // What is wrong is said in words of its own.
    } else if totals.observations() == 0 {
        lines.push(no_sample_line(profile));
    } else if path.is_some() {
        lines.push(format!("next: prof report{file} | prof export{file} -o flame.svg"));
    }
    lines
}

/// Returns the line with the path, size and length of the recording, and the path of the previous one.
fn saved_line(summary: &Summary<'_>, duration_ns: u64) -> String {
    let (size, seconds) = (units::bytes(summary.bytes), units::duration(duration_ns));
    let shown = |path: &Path| safe_text::terminal(&path.display().to_string()).into_owned();
    let Some(path) = summary.path else { return format!("wrote {size}  {seconds}") };
    let old = summary.kept_old.map(|old| format!("  (previous kept as {})", shown(old)));
    format!("saved {}  {size}  {seconds}{}", shown(path), old.unwrap_or_default())
}

/// A line for each event but waiting time.
fn event_lines(profile: &Profile, totals: &CollectedTotals, end: &End) -> Vec<String> {
    let is_other = |kind: &EventKind| !kind.is(&EventKind::OFF_CPU) && !kind.is(&EventKind::HEAP_SO_FAR);
    let others = profile.events.iter().enumerate().filter(|(_, event)| is_other(event.kind()));
    let line = |(number, event): (usize, &Event)| {
        let (kind, taken) = (event.kind(), totals.of_event(number));
        // Goroutines are no threads, and threads that only waited were not counted.
        let threads = match end.threads {
            0 => String::new(),
            _ if kind.is_of_goroutines() => String::new(),
            threads => format!(" over {}", units::counted(u64::from(threads), "thread")),
        };
        format!(
            "  {:<8} {} = {}{}{threads}   lost {}",
            kind.title,
            units::counted(taken.samples, &kind.noun),
            if event.info().is_estimate() { "about " } else { "" },
            units::weight(kind.unit, taken.weight, taken.weight),
            units::count(profile.lost_samples(kind)),
        )
    };
    others.map(line).collect()
}

/// Lines on missing names; `file` is the recording's in a command line.
fn names_lines(summary: &Summary<'_>, file: &str) -> Vec<String> {
    let missing = match summary.cut_short {
        Some(CutShort::Asked) => Some("cut short by the signal"),
        Some(CutShort::Late) => Some("incomplete: reading them takes too long"),
        None => None,
    };
    let missing = missing.map(|why| format!("  names    {why}; the rest: prof symbolize{file}"));
    let unread = (summary.unread_modules > 0).then(|| {
        let modules = units::counted(summary.unread_modules, "module");
        format!("  names    {modules} not read in full: prof info --modules{file} says why, as does -v")
    });
    missing.into_iter().chain(unread).collect()
}

/// Line on what prof itself used: while it recorded, and apart from that.
fn cost_line(end: &End) -> String {
    let shares = end.while_recording().map_or(String::new(), |shares| {
        format!("{}, ", units::cpu_shares(shares).trim_start_matches("prof "))
    });
    let around = units::duration(end.before_after_ns().unwrap_or(end.cpu_ns));
    format!("  prof     {shares}{around} before and after, {} memory", units::bytes(end.max_rss_bytes))
}

/// Returns the line about an end that was not asked for.
fn ending_line(end: &End) -> Option<String> {
    let command = match (end.command_signal, end.command_status) {
        (Some(signal), _) => Some(format!("the command was killed by {}", units::signal(signal))),
        (None, Some(status)) if status != 0 => Some(format!("the command exited with {status}")),
        _ => None,
    };
    let reason = (!end.is_as_asked()).then(|| end.reason.replace(End::TARGET_ENDED, "the target ended"));
    let parts: Vec<String> = reason.into_iter().chain(command).collect();
    (!parts.is_empty()).then(|| format!("  end      {}", parts.join(", ")))
}

/// Whether threads were to be recorded, and nothing at all came of any: no sample, no wait, no account.
pub(crate) fn is_silent(profile: &Profile, totals: &CollectedTotals) -> bool {
    totals.observations() == 0
        && profile.thread_times.is_empty()
        && profile.counter(counter::THREADS_UNACCOUNTED) > 0
}

/// Why there is nothing in it, as far as that is known.
fn no_sample_line(profile: &Profile) -> String {
    let end = profile.end.clone().unwrap_or_default();
    let period_ns = 1_000_000_000 / u64::from(profile.meta.effective_hz.max(1));
    let ran_ns = profile.thread_times.iter().map(|time| time.on_cpu_ns).fold(0, u64::saturating_add);
    let accounted = profile.thread_times.iter().any(|time| !time.is_unknown());
    let why = if end.is_in_delay() {
        "sampling had not begun".to_owned()
    } else if end.is_before_first_sample() {
        "there was nothing left to record".to_owned()
    } else if accounted && ran_ns > 0 {
        let period = units::duration(period_ns);
        format!("the target ran for {} in all, and samples are {period} apart", units::duration(ran_ns))
    } else if accounted {
        "the target did not run".to_owned()
    } else if profile.event_of(&EventKind::ON_CPU).is_none() {
        "no such event happened".to_owned()
    } else {
        format!(
            "the target ran for less than the {} between two samples, if at all",
            units::duration(period_ns)
        )
    };
    format!("  no sample: {why}")
}

/// The waits, when they were recorded.
fn waits_line(profile: &Profile, totals: &CollectedTotals) -> Option<String> {
    let number = profile.events.iter().position(|event| event.kind().is(&EventKind::OFF_CPU))?;
    let sum = |of: fn(&ThreadTime) -> u64| profile.thread_times.iter().map(of).fold(0, u64::saturating_add);
    Some(format!(
        "  off-CPU  {} = {} blocked + {} without a CPU   lost {}",
        units::counted(totals.of_event(number).samples, "wait"),
        units::duration(sum(|time| time.blocked_ns)),
        units::duration(sum(|time| time.no_cpu_ns)),
        units::count(profile.counter(counter::LOST_WAITS)),
    ))
}

/// Waits of which only the time was kept, when there are any.
fn thinned_line(profile: &Profile) -> Option<String> {
    let thinned = profile.counter(counter::WAITS_THINNED);
    let line = || {
        format!(
            "  thinned  {} more dropped by sampling, to stay within --max-overhead",
            units::counted(thinned, "wait")
        )
    };
    (thinned > 0).then(line)
}

/// Line on what became of the time of all threads, when waits were recorded.
fn threads_line(profile: &Profile) -> Option<String> {
    profile.event_of(&EventKind::OFF_CPU)?;
    let (unknown, known): (Vec<&ThreadTime>, Vec<&ThreadTime>) =
        profile.thread_times.iter().partition(|time| time.is_unknown());
    let sum = |of: fn(&ThreadTime) -> u64| known.iter().map(|time| of(time)).fold(0, u64::saturating_add);
    let on_cpu = sum(|time| time.on_cpu_ns);
    let off_cpu = sum(|time| time.no_cpu_ns.saturating_add(time.blocked_ns));
    let mut line = format!(
        "  threads  {} on-CPU + {} off-CPU = {} of {}",
        units::duration(on_cpu),
        units::duration(off_cpu),
        units::duration(on_cpu.saturating_add(off_cpu)),
        units::counted(known.len() as u64, "thread"),
    );
    if !unknown.is_empty() {
        let lives = unknown.iter().map(|time| time.to_ns.saturating_sub(time.from_ns));
        line.push_str(&format!(
            "; {} of {} not accounted",
            units::duration(lives.fold(0, u64::saturating_add)),
            units::counted(unknown.len() as u64, "thread")
        ));
    }
    let unaccounted = profile.counter(counter::THREADS_UNACCOUNTED);
    if unaccounted > 0 {
        let unaccounted_ns = unaccounted.saturating_mul(profile.duration_ns());
        line.push_str(&format!(
            "; {} of {} not accounted",
            units::duration(unaccounted_ns),
            units::counted(unaccounted, "thread")
        ));
    }
    Some(line)
}

fn quality_line(profile: &Profile, totals: &CollectedTotals, cut_short: Option<CutShort>) -> String {
    let samples = totals.samples();
    let complete: u64 =
        totals.outcomes.iter().filter(|(outcome, _)| outcome.is_complete()).map(|(_, count)| count).sum();
    let (named, frames) = totals.named_frames(profile);
    let fp = units::percent(totals.by_frame_pointer, samples);
    let symbols = if cut_short.is_some() {
        String::new()
    } else {
        format!("   symbols {}", units::honest_percent_text(units::percent(named, frames)))
    };
    let interpreters = profile.interpreter_words().map_or(String::new(), |words| format!("   {words}"));
    format!(
        "  stacks   {} complete (dwarf {:.0}, fp {:.0}){symbols}{interpreters}",
        units::honest_percent_text(units::percent(complete, samples)),
        100.0 - fp,
        fp,
    )
}

/// The reason that most incomplete stacks have, when there are any.
fn cause_line(totals: &CollectedTotals) -> Option<String> {
    let (outcome, count) = totals
        .outcomes
        .iter()
        .filter(|(outcome, _)| !outcome.is_complete())
        .max_by_key(|(outcome, count)| (**count, outcome.code()))?;
    let share = units::percent(*count, totals.samples());
    (share >= 1.0).then(|| {
        let (what, hint) = if outcome.has_root() {
            ("lack frames in the middle", "")
        } else {
            ("end early", " (prof report says where)")
        };
        format!("  cut      {share:.1}% of stacks {what}: {}{hint}", outcome.label())
    })
}

fn hottest_line(profile: &Profile, totals: &CollectedTotals) -> Option<String> {
    let by_name = totals.weight_by_leaf(profile);
    let sampled = profile.events.iter().position(|event| !event.has_waits())?;
    let (name, weight) =
        by_name.iter().max_by_key(|(name, weight)| (**weight, std::cmp::Reverse((*name).clone())))?;
    // Reports leave frames of interpreters out, whose time is that of the functions which these run.
    let is_native = name.split('\0').nth(1).is_none_or(|module| module.starts_with('/'));
    if is_native && profile.counter(counter::INTERPRETER_SAMPLES) > 0 {
        return None;
    }
    Some(format!(
        "  hottest  {:.1}% {}",
        units::percent(*weight, totals.of_event(sampled).weight),
        safe_text::fit_tail(&safe_text::terminal(name.split('\0').next().unwrap_or(name)), 60)
    ))
}

/// A word on every outcome, for `-v`.
pub(crate) fn outcome_lines(totals: &CollectedTotals) -> Vec<String> {
    let mut outcomes: Vec<(Outcome, u64)> = totals.outcomes.iter().map(|(&o, &n)| (o, n)).collect();
    outcomes.sort_by_key(|(outcome, count)| (std::cmp::Reverse(*count), outcome.code()));
    outcomes
        .iter()
        .map(|(outcome, count)| format!("  {:>9}  {}", units::count(*count), outcome.label()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{EventId, EventInfo, Meta};

    #[test]
    fn threads_that_gave_no_account_are_not_accounted_for() {
        let mut profile = Profile::new(Meta::default());
        profile.add_event(EventInfo { kind: EventKind::OFF_CPU, ..EventInfo::default() });
        profile.end = Some(crate::profile::End { duration_ns: 4_000_000_000, ..Default::default() });
        profile.thread_times.push(ThreadTime {
            on_cpu_ns: 1_000_000_000,
            blocked_ns: 3_000_000_000,
            ..ThreadTime::default()
        });
        let line = threads_line(&profile).expect("waits are recorded");
        assert_eq!(line, "  threads  1.00 s on-CPU + 3.00 s off-CPU = 4.00 s of 1 thread");
        profile.count(counter::THREADS_UNACCOUNTED, 13);
        let line = threads_line(&profile).expect("waits are recorded");
        assert!(line.ends_with("= 4.00 s of 1 thread; 52.0 s of 13 threads not accounted"), "{line}");
    }

    #[test]
    fn a_target_of_which_nothing_came_is_silent() {
        let mut profile = Profile::new(Meta::default());
        assert!(!is_silent(&profile, &CollectedTotals::default()), "there was no thread to give an account");
        profile.count(counter::THREADS_UNACCOUNTED, 13);
        assert!(is_silent(&profile, &CollectedTotals::default()));
        let mut one_wait = CollectedTotals::default();
        one_wait.add(EventId(0), 7);
        assert!(!is_silent(&profile, &one_wait));
        profile.thread_times.push(ThreadTime::default());
        assert!(!is_silent(&profile, &CollectedTotals::default()), "one slept all the time");
        let silence = crate::record::session::cpu_use::silence("init", 13);
        assert_eq!(
            silence.message,
            "nothing was recorded of init: the kernel reported 13 threads neither running nor waiting"
        );
    }
}
