//! What a window says of its recording, as metrics.

use crate::agent::metrics::{AgentMetrics, MetricName};
use crate::profile::{self, EventKind, Outcome, Profile, counter};
use rustc_hash::FxHashSet;
use std::fs;
use std::path::Path;

/// Counters of what was lost, by the word for it.
const LOST: [(&str, &str); 6] = [
    ("ring_full", counter::LOST_RING_FULL),
    ("counts_full", counter::LOST_COUNTS),
    ("waits_full", counter::LOST_WAITS),
    ("bad_record", counter::LOST_BAD_RECORD),
    ("sideband", counter::LOST_SIDEBAND),
    ("left_out_by_rules", counter::SAMPLES_LEFT_OUT),
];

/// Counters of what could not be learned of processes, by the word for it.
const IDENTITY_PROBLEMS: [(&str, &str); 3] = [
    ("malformed_attributes", counter::LABELS_MALFORMED),
    ("ended", counter::LABELS_OF_ENDED),
    ("pod_list", counter::POD_LISTS_FAILED),
];

/// Reads a window; `None` if it cannot be read.
pub(super) fn read_window(path: &Path) -> Option<Profile> {
    profile::read_path(path).ok().map(|(profile, _)| profile)
}

/// Adds a window to the metrics.
pub(super) fn add_window(metrics: &AgentMetrics, profile: Option<Profile>) {
    let Some(profile) = profile else {
        metrics.add(MetricName::WindowsSkipped, "unreadable", 1);
        return;
    };
    metrics.add(MetricName::Windows, "", 1);
    metrics.add(MetricName::WindowsSkipped, "not_written", profile.counter(counter::WINDOWS_LOST));
    metrics.add(MetricName::WindowsSkipped, "removed_unsent", profile.counter(counter::WINDOWS_REMOVED));
    for event in &profile.events {
        let name = event.kind().name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        metrics.add(MetricName::Samples, &name, event.len() as u64);
    }
    for (cause, name) in LOST {
        metrics.add(MetricName::SamplesLost, cause, profile.counter(name));
    }
    metrics.add(MetricName::ProcessesLeftOut, "", profile.counter(counter::PROCESSES_LEFT_OUT));
    metrics.add(MetricName::SeriesMerged, "", profile.counter(counter::LABELS_MERGED));
    for (reason, name) in IDENTITY_PROBLEMS {
        metrics.add(MetricName::IdentityProblems, reason, profile.counter(name));
    }
    add_stacks(metrics, &profile);
    let processes: FxHashSet<u32> = profile.tables.tasks().iter().map(|task| task.pid).collect();
    metrics.set(MetricName::Processes, "", processes.len() as u64);
    let mut services = FxHashSet::default();
    for set in 0..profile.tables.label_sets().len() as u32 {
        services.extend(
            profile
                .tables
                .labels(profile::LabelSetId(set))
                .filter(|(key, _)| *key == "service_name")
                .map(|(_, value)| value),
        );
    }
    metrics.set(MetricName::Services, "", services.len() as u64);
    if let Some(end) = &profile.end {
        metrics.add_real(MetricName::CpuSeconds, "bpf", end.bpf_ns as f64 / 1e9);
        metrics.set_real(MetricName::WindowSeconds, "", end.duration_ns as f64 / 1e9);
    }
}

/// Samples of running threads whose stacks are not whole, by what ended them.
fn add_stacks(metrics: &AgentMetrics, profile: &Profile) {
    for sample in profile.event_of(&EventKind::ON_CPU).into_iter().flat_map(|event| event.samples()) {
        let is_whole = matches!(sample.outcome, Outcome::Complete | Outcome::NoUserStack | Outcome::Unset);
        if !is_whole {
            metrics.add(MetricName::StacksIncomplete, sample.outcome.key(), 1);
        }
    }
}

/// Resident memory of a process, bytes; 0 if it is not there.
pub(super) fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// What processes use.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct FamilyUse {
    /// Resident memory, bytes; what several share counts for each.
    pub(super) resident_bytes: u64,
    /// CPU time, with that of children that have ended, s.
    pub(super) cpu_s: f64,
}

/// What a process uses, and all that it and these have started.
pub(super) fn family_use(pid: u32) -> FamilyUse {
    let mut sum = FamilyUse::default();
    let mut family = vec![pid];
    while let Some(pid) = family.pop() {
        sum.resident_bytes += resident_bytes(pid);
        sum.cpu_s += cpu_seconds(pid);
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    sum
}

/// CPU time of a process and of its children that have ended, s; 0 if it is not there.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything; utime is the 12th field after it, in ticks.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn what_a_family_uses_has_its_grandchildren() {
        // A shell that waits for a shell that waits for a program.
        let script = "sh -c 'sleep 1000 & echo $!; wait' & wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("there is a shell");
        let mut line = String::new();
        let out = shell.stdout.as_mut().expect("it is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("it says a number");
        let sleeper: u32 = line.trim().parse().expect("it is a number");
        let (all, last) = (family_use(shell.id()), family_use(sleeper));
        assert!(last.resident_bytes > 0 && all.resident_bytes > 2 * last.resident_bytes, "{all:?} {last:?}");
        let own = cpu_seconds(std::process::id());
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 300 || cpu_seconds(std::process::id()) <= own {}
        assert_eq!(cpu_seconds(u32::MAX), 0.0);
        let _ = Command::new("kill").arg(sleeper.to_string()).status();
        let _ = shell.kill();
        let _ = shell.wait();
    }
}
