//! What a report of running time does not show: that the threads waited, too.

use super::selection::Selection;
use crate::base::units::{counted, duration, percent};
use crate::profile::{Profile, Reason, StringId};
use crate::report::model::amount::Amount;
use crate::report::naming::name;
use crate::report::waits::site::{WaitSite, WaitSites};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Waits at one place that last this long, in percent of the running time, are worth a note.
const NOTABLE_PERCENT: f64 = 10.0;

/// A note, and how much it is about.
#[derive(Debug)]
pub(super) struct Advice {
    /// In percent of the running time, or of what the note says.
    pub(super) size_percent: f64,
    /// Text of the note. Quotes foreign names.
    pub(super) text: String,
    /// Whether the note says that CPUs were short.
    pub(super) is_of_cpus: bool,
}

impl Advice {
    pub(super) fn new(size_percent: f64, text: String) -> Self {
        Advice { size_percent, text, is_of_cpus: false }
    }
}

/// The threads that waited at one place, and how long.
#[derive(Debug, Default)]
struct Waited {
    time_ns: u64,
    threads: FxHashSet<(u32, u32)>,
    names: FxHashSet<StringId>,
}

/// A note on the longest of `waits`, if they are long compared with `running`.
pub(super) fn advice(waits: &Selection<'_>, running: Amount) -> Option<Advice> {
    let profile = waits.profile;
    let sites = WaitSites::new(profile, &waits.labels);
    let mut sums: FxHashMap<(Reason, WaitSite), Waited> = FxHashMap::default();
    waits.for_each_path(|path, groups| {
        for group in groups {
            let Some(reason) = group.activity.reason() else { continue };
            let site = match sites.of(path, group.activity) {
                // Waits for a CPU are all at one place, kept or not.
                WaitSite::Short if reason == Reason::NoCpu => WaitSite::NoCpu,
                WaitSite::Short => continue,
                site => site,
            };
            let sum = sums.entry((reason, site)).or_default();
            sum.time_ns = sum.time_ns.saturating_add(group.amount.weight);
            let task = profile.tables.task(group.task);
            sum.threads.insert((task.tid, task.generation));
            sum.names.insert(task.comm);
        }
    });
    let place = |site: WaitSite| match site {
        WaitSite::Call { blocked_in, called_by } => {
            let label = waits.labels.get(blocked_in.or(called_by)?);
            Some(name::short(&label.name))
        }
        WaitSite::NoCpu | WaitSite::Short => None,
    };
    // Who waits for a condition, or for other threads, mostly waits for what those do: that is the time to look at.
    let is_for_others = |reason: Reason| matches!(reason, Reason::Condvar | Reason::Futex);
    let is_notable = |sum: &Waited| percent(sum.time_ns, running.weight) >= NOTABLE_PERCENT;
    let ((reason, site), waited) = (sums.into_iter()).max_by_key(|((reason, site), sum)| {
        (!is_for_others(*reason) && is_notable(sum), sum.time_ns, Reverse((*reason, place(*site))))
    })?;
    let size_percent = percent(waited.time_ns, running.weight);
    if size_percent < NOTABLE_PERCENT {
        return None;
    }
    let place = place(site).map_or(String::new(), |place| format!(" in {place}"));
    let (who, time) = (threads_text(profile, &waited), duration(waited.time_ns));
    let size = size_text(size_percent);
    let text =
        format!("{who} also waited {time} {}{place}, {size}: prof report --off-cpu", reason_text(reason));
    Some(Advice { size_percent, text, is_of_cpus: reason == Reason::NoCpu })
}

/// Returns the words for a time, in percent of the running time.
fn size_text(percent: f64) -> String {
    match percent {
        100.0.. => format!("{:.1} times the CPU time", percent / 100.0),
        _ => format!("{percent:.0}% of the CPU time"),
    }
}

fn threads_text(profile: &Profile, waited: &Waited) -> String {
    let threads = waited.threads.len() as u64;
    let mut names = waited.names.iter();
    match (names.next(), names.next()) {
        (Some(name), None) => {
            let name = profile.tables.string(*name);
            if threads == 1 {
                format!("thread `{name}`")
            } else {
                format!("{} named `{name}`", counted(threads, "thread"))
            }
        }
        _ => counted(threads, "thread"),
    }
}

fn reason_text(reason: Reason) -> &'static str {
    match reason {
        Reason::Lock => "for a lock",
        Reason::Disk => "for a disk",
        Reason::Network => "for the network",
        Reason::Pipe => "for the other end of a pipe or a local socket",
        Reason::Poll => "for files to become ready",
        Reason::Sleep => "for time to pass",
        Reason::Fault => "for memory",
        Reason::Child => "for a child",
        Reason::NoCpu => "for a CPU",
        Reason::Stopped => "while stopped",
        Reason::Condvar => "to be notified",
        Reason::Futex => "for other threads",
        Reason::Gil => "for the lock of an interpreter",
        _ => "for something else",
    }
}
