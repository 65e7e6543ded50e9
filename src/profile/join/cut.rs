//! A part of a recording, as if only that had been recorded.

use crate::profile::contents::Profile;
use crate::profile::event::{Event, Sample};
use crate::profile::wait::{ThreadTime, Wait};

/// Leaves what was recorded from `from_ns` until `to_ns`, ns since the start. Of waits and times of threads that reach beyond, the part
/// in between stays; how a thread's time is spread over its life is not known, so that its part is in proportion. So is the cost.
pub(crate) fn cut(profile: &mut Profile, from_ns: u64, to_ns: u64) {
    let whole_ns = profile.duration_ns();
    let duration_ns = whole_ns.min(to_ns).saturating_sub(from_ns);
    for event in &mut profile.events {
        let mut left = Event::new(event.info().clone());
        event
            .samples()
            .filter_map(|sample| part_of_sample(sample, from_ns, to_ns))
            .for_each(|sample| left.push(sample));
        *event = left;
    }
    let times = std::mem::take(&mut profile.thread_times);
    profile.thread_times = times.iter().filter_map(|time| part_of_time(time, from_ns, to_ns)).collect();
    let meta = &mut profile.meta;
    meta.start_unix_ns = meta.start_unix_ns.saturating_add(from_ns);
    meta.start_mono_ns = meta.start_mono_ns.saturating_add(from_ns);
    if let Some(end) = &mut profile.end {
        let part = |value: u64| in_proportion(value, duration_ns, whole_ns);
        end.cpu_ns = part(end.cpu_ns);
        end.recording_cpu_ns = end.recording_cpu_ns.map(part);
        (end.bpf_ns, end.bpf_runs) = (part(end.bpf_ns), part(end.bpf_runs));
        end.duration_ns = duration_ns;
    }
}

fn part_of_sample(sample: Sample, from_ns: u64, to_ns: u64) -> Option<Sample> {
    let length_ns = sample.wait.map_or(0, |wait| wait.duration_ns);
    // What was merged has lengths of its own.
    if length_ns == 0 || sample.merged.is_some() {
        let is_in = (from_ns..to_ns).contains(&sample.time_ns);
        return is_in.then(|| Sample { time_ns: sample.time_ns - from_ns, ..sample });
    }
    let (start_ns, end_ns) =
        (sample.time_ns.max(from_ns), sample.time_ns.saturating_add(length_ns).min(to_ns));
    let part_ns = end_ns.checked_sub(start_ns).filter(|part_ns| *part_ns > 0)?;
    let wait = sample.wait.map(|wait| Wait { duration_ns: part_ns, ..wait });
    let weight = in_proportion(sample.weight, part_ns, length_ns);
    Some(Sample { time_ns: start_ns - from_ns, weight, wait, ..sample })
}

fn part_of_time(time: &ThreadTime, from_ns: u64, to_ns: u64) -> Option<ThreadTime> {
    let (start_ns, end_ns) = (time.from_ns.max(from_ns), time.to_ns.min(to_ns));
    let part_ns = end_ns.checked_sub(start_ns)?;
    let length_ns = time.to_ns.saturating_sub(time.from_ns);
    let part = |value: u64| in_proportion(value, part_ns, length_ns);
    let mut new = ThreadTime {
        from_ns: start_ns - from_ns,
        to_ns: end_ns - from_ns,
        on_cpu_ns: part(time.on_cpu_ns),
        no_cpu_ns: part(time.no_cpu_ns),
        blocked_ns: part(time.blocked_ns),
        switches: part(time.switches),
        has_ended: time.has_ended && time.to_ns <= to_ns,
        ..time.clone()
    };
    for waits in &mut new.short_waits {
        (waits.count, waits.time_ns) = (part(waits.count), part(waits.time_ns));
    }
    Some(new)
}

fn in_proportion(value: u64, part_ns: u64, whole_ns: u64) -> u64 {
    if part_ns >= whole_ns {
        return value;
    }
    // Not more than the value.
    (u128::from(value) * u128::from(part_ns) / u128::from(whole_ns)) as u64
}
