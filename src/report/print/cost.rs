//! What recording cost, in words and for programs.

use crate::base::units;
use crate::profile::End;
use crate::report::recording::Recording;
use serde::Serialize;

/// Cost of the recording; `null` in a file without an end record.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    /// `null` in files of versions that did not tell it apart.
    while_recording: Option<CostShares>,
    /// CPU time before and after the recording.
    before_after_ns: Option<u64>,
    /// CPU time in all.
    cpu_ns: Option<u64>,
    bpf_ns: Option<u64>,
    max_rss_bytes: Option<u64>,
    /// Number of windows of which it is known, if not of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_windows: Option<u64>,
}

/// Shares of one CPU while the recording went on.
#[derive(Debug, Serialize)]
struct CostShares {
    cpu_pct: f64,
    bpf_pct: f64,
}

impl Cost {
    pub(crate) fn of(recording: &Recording) -> Self {
        let end = recording.cost_end();
        let shares = end.and_then(End::while_recording);
        Cost {
            while_recording: shares
                .map(|shares| CostShares { cpu_pct: shares.cpu_percent, bpf_pct: shares.bpf_percent }),
            before_after_ns: end.and_then(End::before_after_ns),
            cpu_ns: end.map(|end| end.cpu_ns),
            bpf_ns: end.map(|end| end.bpf_ns),
            max_rss_bytes: end.map(|end| end.max_rss_bytes),
            known_windows: recording.windows_with_cost().map(|[known, _]| known),
        }
    }
}

/// For one line: what `prof` used of a CPU while it recorded, and the CPU time that it took before and after. Of a recording
/// that goes on it is that of the last seconds. `None` when it is not known.
pub(crate) fn cost_words(recording: &Recording) -> Option<String> {
    if let Some(late) = recording.late_cost {
        return Some(units::cpu_shares(late));
    }
    let end = recording.cost_end()?;
    let known = windows_words(recording).map_or(String::new(), |words| format!(", {words}"));
    let Some(shares) = end.while_recording() else {
        let all_ns = end.cpu_ns.saturating_add(end.bpf_ns);
        return (all_ns > 0).then(|| format!("prof {} CPU in all{known}", units::duration(all_ns)));
    };
    let around = end
        .before_after_ns()
        .filter(|ns| *ns > 0)
        .map_or(String::new(), |ns| format!(", {} before and after", units::duration(ns)));
    Some(format!("{}{around}{known}", units::cpu_shares(shares)))
}

/// Of which windows that is known, if not of all.
fn windows_words(recording: &Recording) -> Option<String> {
    let [known, all] = recording.windows_with_cost()?;
    Some(format!("known of {} of {}", units::count(known), units::counted(all, "window")))
}

/// The same in fewest words: what `prof` and its BPF programs used together. `None` where that is not known as a share.
pub(crate) fn cost_sum_words(recording: &Recording) -> Option<String> {
    let of_all = || recording.cost_end()?.while_recording();
    recording.late_cost.or_else(of_all).map(units::cpu_share_sum)
}

/// The same in several lines, with what belongs to no share.
pub(crate) fn cost_lines(recording: &Recording) -> Vec<String> {
    let Some(end) = recording.cost_end() else { return Vec::new() };
    let late_cost = recording.late_cost;
    let mut lines = Vec::new();
    lines.extend(late_cost.map(|late| format!("{} in the last 10 s", units::cpu_shares(late))));
    lines.extend(end.while_recording().map(|all| format!("{} while recording", units::cpu_shares(all))));
    lines.extend(end.before_after_ns().filter(|ns| *ns > 0).map(|ns| match late_cost {
        Some(_) => format!("{} of CPU time for setting up", units::duration(ns)),
        None => format!("{} of CPU time before and after", units::duration(ns)),
    }));
    if end.max_rss_bytes > 0 {
        lines.push(format!("{} of memory at most", units::bytes(end.max_rss_bytes)));
    }
    lines.extend(windows_words(recording));
    lines
}
