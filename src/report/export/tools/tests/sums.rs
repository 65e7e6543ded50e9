//! For any recording, the sums in each format equal those of the report.

use super::{bytes, options};
use crate::report::analysis::Analysis;
use crate::report::export::tools::{perfetto, pprof};
use crate::report::model::activity::Activity;
use crate::report::options::ExportOptions;
use crate::report::tests::property::{observations, recording, recording_of_waits, waits};
use crate::report::{CommonOptions, FilterOptions, Metric};
use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// Sums in the report: weight of samples, weight of waits, and total length of the waits that are stored one by one.
struct Said {
    samples: u64,
    waits: u64,
    lengths: u64,
}

fn said(recording: &Analysis, options: &ExportOptions) -> Said {
    let sum = |metric| {
        let common = CommonOptions { metric: Some(metric), ..options.common.clone() };
        recording.select(&common).map_or(0, |selection| selection.total.weight)
    };
    let common = CommonOptions { metric: Some(Metric::OFF_CPU), ..options.common.clone() };
    let mut lengths = 0;
    if let Ok(selection) = recording.select(&common) {
        let waits = selection.groups().iter().filter(|group| matches!(group.activity, Activity::Waiting(_)));
        let shown: Vec<_> = waits.map(|group| (group.task, group.stack, group.activity)).collect();
        selection.for_each_wait(|sample, wait, _| {
            let key = (sample.task, sample.stack, selection.reasons.activity(sample));
            lengths += if shown.contains(&key) { wait.duration_ns } else { 0 };
        });
    }
    Said { samples: sum(Metric::ON_CPU), waits: sum(Metric::OFF_CPU), lengths }
}

fn json(recording: &Analysis, name: &str, options: &ExportOptions) -> Value {
    serde_json::from_slice(&bytes(recording, name, options)).unwrap()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn sum_of<'v>(values: impl IntoIterator<Item = &'v Value>) -> u64 {
    values.into_iter().map(|value| value.as_u64().unwrap()).sum()
}

/// The sum of an event in `perf script` text, as inferno reads it.
fn folded_sum(text: &[u8], event: &str) -> u64 {
    let mut options = Options::default();
    options.event_filter = Some(event.to_owned());
    options.nthreads = 1;
    let mut folded = Vec::new();
    Folder::from(options).collapse(text, &mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

/// Columns of callgrind text: the summary, the sum of all self costs, and the sum of what threads called or had as self
/// cost.
fn callgrind_sums(text: &str) -> BTreeMap<String, [u64; 3]> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap();
    let names: Vec<&str> = line("events: ").split(' ').collect();
    let numbers = |line: &str| -> Vec<u64> { line.split(' ').map(|word| word.parse().unwrap()).collect() };
    let summary = numbers(line("summary: "));
    let (mut own, mut outermost) = (vec![0; names.len()], vec![0; names.len()]);
    let (mut is_call, mut is_thread) = (false, false);
    for line in text.lines().skip_while(|line| !line.starts_with("summary")).skip(1) {
        if let Some(object) = line.strip_prefix("ob=") {
            is_thread = object.ends_with("[threads]") || (is_thread_number(text) == Some(object));
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let values = &numbers(line)[1..];
            let add =
                |sums: &mut Vec<u64>| sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            if !is_call {
                add(&mut own);
            }
            if is_thread {
                add(&mut outermost);
            }
            is_call = false;
        }
    }
    names
        .iter()
        .enumerate()
        .map(|(at, name)| ((*name).to_owned(), [summary[at], own[at], outermost[at]]))
        .collect()
}

/// The number that the file uses for the threads' module after its first occurrence.
fn is_thread_number(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("ob=") && line.ends_with("[threads]"))?;
    line.strip_prefix("ob=")?.split(' ').next()
}

fn check(recording: &Analysis, options: &ExportOptions) -> Result<(), TestCaseError> {
    let said = said(recording, options);
    let both = said.samples + said.waits;
    let pprof: BTreeMap<String, u64> =
        pprof::decoded::sums(&bytes(recording, "pprof", options)).into_iter().collect();
    let of = |name: &str| pprof.get(name).copied().unwrap_or(0);
    prop_assert_eq!((of("cpu"), of("off_cpu")), (said.samples, said.waits));
    let callgrind = String::from_utf8(bytes(recording, "callgrind", options)).unwrap();
    let callgrind = callgrind_sums(&callgrind);
    let of = |name: &str| callgrind.get(name).copied().unwrap_or_default();
    prop_assert_eq!(of("cpu_ns"), [said.samples; 3]);
    prop_assert_eq!(of("off_cpu_ns"), [said.waits; 3]);
    let speedscope = json(recording, "speedscope", options);
    let profiles = items(&speedscope["profiles"]);
    prop_assert_eq!(sum_of(profiles.iter().map(|profile| &profile["endValue"])), both);
    prop_assert_eq!(sum_of(profiles.iter().flat_map(|profile| items(&profile["weights"]))), both);
    let stacks = json(recording, "json", options);
    prop_assert_eq!(sum_of(items(&stacks["rows"]).iter().map(|row| &row["weight"])), both);
    prop_assert_eq!(sum_of(items(&stacks["events"]).iter().map(|event| &event["weight"])), both);
    let script = bytes(recording, "perf-script", options);
    prop_assert_eq!(folded_sum(&script, "on-cpu"), said.samples);
    prop_assert_eq!(folded_sum(&script, "off-cpu"), said.waits);
    let (_, weight, slices) = perfetto::decoded::sums(&bytes(recording, "perfetto", options));
    prop_assert_eq!(weight, said.samples);
    let waiting = slices.iter().filter(|(name, _)| *name != "running").map(|(_, ns)| ns).sum::<u64>();
    prop_assert_eq!(waiting, said.lengths);
    Ok(())
}

proptest! {
    #[test]
    fn samples_add_up_in_every_format(observations in observations()) {
        check(&recording(&observations), &options(None))?;
    }

    #[test]
    fn waits_add_up_in_every_format(waits in waits(), idle in any::<bool>()) {
        let filter = FilterOptions { idle, ..FilterOptions::default() };
        let mut options = options(None);
        options.common.filter = filter;
        let recording = recording_of_waits(&waits);
        // All waits may be idle.
        if recording.select(&options.common).is_ok() {
            check(&recording, &options)?;
        }
    }
}
