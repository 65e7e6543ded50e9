//! What recording cost, in words.

use crate::base::units;
use crate::report::recording::Recording;

/// For one line: what `prof` used of a CPU while it recorded, and the CPU time that it took before and after. Of a recording
/// that goes on it is that of the last seconds. `None` when it is not known.
pub(crate) fn cost_words(recording: &Recording) -> Option<String> {
    if let Some(late) = recording.late_cost {
        return Some(units::cpu_shares(late));
    }
    let end = recording.profile.end.as_ref()?;
    let Some(shares) = end.while_recording() else {
        let all_ns = end.cpu_ns.saturating_add(end.bpf_ns);
        return (all_ns > 0).then(|| format!("prof {} CPU in all", units::duration(all_ns)));
    };
    let around = end
        .before_after_ns()
        .map_or(String::new(), |ns| format!(", {} before and after", units::duration(ns)));
    Some(format!("{}{around}", units::cpu_shares(shares)))
}

/// The same in fewest words: what `prof` and its BPF programs used together. `None` where that is not known as a share.
pub(crate) fn cost_sum_words(recording: &Recording) -> Option<String> {
    let of_all = || recording.profile.end.as_ref()?.while_recording();
    recording.late_cost.or_else(of_all).map(units::cpu_share_sum)
}

/// The same in several lines, with what belongs to no share.
pub(crate) fn cost_lines(recording: &Recording) -> Vec<String> {
    let Some(end) = &recording.profile.end else { return Vec::new() };
    let late_cost = recording.late_cost;
    let mut lines = Vec::new();
    lines.extend(late_cost.map(|late| format!("{} in the last 10 s", units::cpu_shares(late))));
    lines.extend(end.while_recording().map(|all| format!("{} while recording", units::cpu_shares(all))));
    lines.extend(end.before_after_ns().map(|ns| match late_cost {
        Some(_) => format!("{} of CPU time for setting up", units::duration(ns)),
        None => format!("{} of CPU time before and after", units::duration(ns)),
    }));
    if end.max_rss_bytes > 0 {
        lines.push(format!("{} of memory at most", units::bytes(end.max_rss_bytes)));
    }
    lines
}
