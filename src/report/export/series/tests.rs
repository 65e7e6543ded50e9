//! Series of small recordings; sums of arbitrary ones.

use super::otlp_messages::{OtlpProfiles, OtlpValueKind};
use super::pprof_bytes::SentPprof;
use super::*;
use crate::base::failure::status;
use crate::profile::{Outcome, Reason};
use crate::report::analysis::Analysis;
use crate::report::model::metric::Metric;
use crate::report::options::{CommonOptions, FilterOptions};
use crate::report::tests::fixture::{Build, PERIOD_NS};
use crate::report::tests::property::{observations, recording, recording_of_waits, waits};
use proptest::prelude::*;
use prost::Message;
use std::collections::BTreeMap;

const START_NS: u64 = 1_795_262_400_000_000_000;

/// Sums by name of the series and name of the value.
type Sums = BTreeMap<(String, String), u64>;

fn add(sums: &mut Sums, series: &str, value: &str, number: i64) {
    *sums.entry((series.to_owned(), value.to_owned())).or_default() += u64::try_from(number).unwrap();
}

/// The sums of parts as pprof.
fn pprof_sums(batch: &SeriesBatch, chunks: &[SeriesChunk]) -> Sums {
    let mut sums = Sums::new();
    for chunk in chunks {
        let profile = SentPprof::decode(&*pprof_profile(batch, chunk).0).unwrap();
        let text = |index: i64| &profile.strings[index as usize];
        for sample in &profile.samples {
            for (kind, value) in profile.types.iter().zip(&sample.values) {
                add(&mut sums, &batch.series[chunk.series].event.name, text(kind.kind), *value);
            }
        }
    }
    sums
}

/// The sums of parts as OTLP, in the way that receivers add them up.
fn otlp_sums(batch: &SeriesBatch, chunks: &[SeriesChunk]) -> Sums {
    let message = OtlpProfiles::decode(&*otlp_request(batch, chunks)).unwrap();
    let dictionary = message.dictionary.unwrap();
    let text = |index: i32| dictionary.strings[index as usize].as_str();
    let profiles: usize = message.resources.iter().map(|resource| resource.scopes[0].profiles.len()).sum();
    assert_eq!(chunks.iter().map(|chunk| otlp_profiles(batch, chunk)).sum::<Option<usize>>(), Some(profiles));
    let mut sums = Sums::new();
    for profile in message.resources.iter().flat_map(|resource| &resource.scopes[0].profiles) {
        let kind = text(profile.sample_type.unwrap().kind);
        let is_cpu = profile.period_type.is_some_and(|period| text(period.kind) == "cpu");
        let times = if is_cpu { profile.period } else { 1 };
        for sample in &profile.samples {
            let name = if is_cpu { "process_cpu" } else { "" };
            add(&mut sums, name, if is_cpu { "cpu" } else { kind }, sample.values[0] * times);
            let stack = &dictionary.stacks[sample.stack as usize];
            assert!(stack.locations.iter().all(|at| *at > 0 && (*at as usize) < dictionary.locations.len()));
        }
    }
    sums
}

/// Sums by name of the first value and stack, leaf first: functions with their files and lines, machine frames apart.
type StackSums = BTreeMap<(String, Vec<Vec<(String, String, i64)>>), i64>;

/// Those of parts as pprof.
fn pprof_stacks(batch: &SeriesBatch, chunks: &[SeriesChunk]) -> StackSums {
    let mut sums = StackSums::new();
    for chunk in chunks {
        let profile = SentPprof::decode(&*pprof_profile(batch, chunk).0).unwrap();
        let text = |index: i64| profile.strings[index as usize].clone();
        let functions: BTreeMap<_, _> = profile.functions.iter().map(|row| (row.id, row)).collect();
        let locations: BTreeMap<_, _> = profile.locations.iter().map(|row| (row.id, row)).collect();
        assert_eq!(functions.len(), profile.functions.len(), "each has an id of its own");
        assert_eq!(locations.len(), profile.locations.len(), "each has an id of its own");
        assert!(!functions.contains_key(&0) && !locations.contains_key(&0));
        let lines = |location: &u64| {
            let lines = locations[location].lines.iter().map(|line| {
                let function = functions[&line.function];
                (text(function.name), text(function.file), line.line)
            });
            lines.collect()
        };
        for sample in &profile.samples {
            let stack = sample.locations.iter().map(lines).collect();
            *sums.entry((text(profile.types[0].kind), stack)).or_default() += sample.values[0];
        }
    }
    sums
}

/// Those of parts as OTLP.
fn otlp_stacks(batch: &SeriesBatch, chunks: &[SeriesChunk]) -> StackSums {
    let message = OtlpProfiles::decode(&*otlp_request(batch, chunks)).unwrap();
    let dictionary = message.dictionary.unwrap();
    let text = |index: i32| dictionary.strings[index as usize].clone();
    let lines = |location: &i32| {
        let lines = dictionary.locations[*location as usize].lines.iter().map(|line| {
            let function = &dictionary.functions[line.function as usize];
            (text(function.name), text(function.file), line.line)
        });
        lines.collect()
    };
    let mut sums = StackSums::new();
    for profile in message.resources.iter().flat_map(|resource| &resource.scopes[0].profiles) {
        for sample in &profile.samples {
            let stack = dictionary.stacks[sample.stack as usize].locations.iter().map(lines).collect();
            let kind = text(profile.sample_type.unwrap().kind);
            *sums.entry((kind, stack)).or_default() += sample.values[0];
        }
    }
    sums
}

fn sum(sums: &Sums, value: &str) -> u64 {
    sums.iter().filter(|((_, name), _)| name == value).map(|(_, sum)| sum).sum()
}

/// Two services and a thread of the kernel, one of them with labels on some of its samples, and waits.
fn services() -> Analysis {
    let mut build = Build::new();
    build.meta().hostname = "host1".to_owned();
    build.meta().start_unix_ns = START_NS;
    let [shop, worker] = [build.task(7, 7, "shop", "shop"), build.task(7, 8, "worker", "shop")];
    let cut = build.task(9, 9, "a-program-with-", "a-program-with-");
    let kernel = build.task(2, 2, "kworker/0:1", "kworker/0:1");
    build.label(&[
        ("service_name", "checkout"),
        ("pod", "p1"),
        ("container_id", "abc"),
        ("span_id", "0123456789abcdef"),
    ]);
    build.add(shop, 2, &["/usr/bin/shop:main", "/usr/bin/shop:pay⇒card"]);
    build.label(&[]);
    build.add(worker, 3, &["/lib/libc.so.6:start", "/usr/bin/shop:work"]);
    build.add(cut, 4, &["/opt/a-program-with-a-long-name:main"]);
    build.add_ended(kernel, 5, &["[kernel]:worker"], Outcome::NoUserStack);
    build.wait(worker, Reason::Lock, 5_000_000, 1_234_567, &["/lib/libc.so.6:start", "/lib/libc.so.6:lock"]);
    build.thread_time(shop, 0, 0, 0);
    build.short_waits(Reason::Lock, 3, 700);
    build.finish()
}

fn labels_of(batch: &SeriesBatch) -> Vec<String> {
    let all = batch.series.iter().map(|series| {
        let labels = series.labels.iter().map(|(key, value)| format!("{key}={value}"));
        format!("{} {}", series.event.name, labels.collect::<Vec<_>>().join(","))
    });
    all.collect()
}

#[test]
fn series_are_of_services_and_events_and_of_nothing_else() {
    let recording = services();
    let batch = SeriesBatch::of(&recording, &SeriesOptions::default()).unwrap();
    assert_eq!(
        labels_of(&batch),
        [
            "off_cpu host=host1,pod=p1,service_name=checkout",
            "process_cpu host=host1,pod=p1,service_name=checkout",
            "process_cpu host=host1,service_name=a-program-with-a-long-name",
            "process_cpu host=host1,service_name=kernel",
        ],
        "short waits and threads without labels are of their process's service"
    );
    let sums = pprof_sums(&batch, &batch.chunks());
    assert_eq!(sum(&sums, "cpu"), 14 * PERIOD_NS);
    assert_eq!(sum(&sums, "samples"), 14);
    assert_eq!(sum(&sums, "off_cpu"), 1_234_567 + 700);
}

#[test]
fn options_name_the_service_the_host_and_labels() {
    let recording = services();
    let options = SeriesOptions {
        service: Some("all".to_owned()),
        host: HostLabel::Named("h2".to_owned()),
        labels: vec![("env".to_owned(), "prod".to_owned()), ("pod".to_owned(), "mine".to_owned())],
        events: vec![Metric::ON_CPU],
        ..SeriesOptions::default()
    };
    let batch = SeriesBatch::of(&recording, &options).unwrap();
    // Where a sample runs is still told apart, but for what an option says.
    assert!(batch.series.iter().all(|series| {
        series.event.name == "process_cpu"
            && series.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
                == ["env=prod", "host=h2", "pod=mine", "service_name=all"]
    }));
    let sums = pprof_sums(&batch, &batch.chunks());
    assert_eq!(sum(&sums, "cpu"), 14 * PERIOD_NS);
    let none = SeriesOptions { events: vec![Metric::HEAP], ..SeriesOptions::default() };
    assert_eq!(SeriesBatch::of(&recording, &none).unwrap_err().status, status::NO_MATCH);
}

#[test]
fn what_samples_do_not_say_other_labels_do_and_a_host_may_be_one_of_theirs() {
    let mut build = Build::new();
    build.meta().hostname = "in-the-recording".to_owned();
    let [labelled, plain] = [build.task(7, 7, "shop", "shop"), build.task(8, 8, "cat", "cat")];
    build.label(&[("service_name", "checkout"), ("host", "web-1"), ("env", "test")]);
    build.add(labelled, 2, &["/usr/bin/shop:main"]);
    build.label(&[]);
    build.add(plain, 3, &["/usr/bin/cat:main"]);
    let other_labels = [("env", "prod"), ("host", "node-1")];
    let options = SeriesOptions {
        host: HostLabel::OfSamples,
        series_labels: vec!["env".to_owned(), "host".to_owned()],
        ..SeriesOptions::default()
    };
    let recording = build.finish();
    let labels = |options: &SeriesOptions| labels_of(&SeriesBatch::of(&recording, options).unwrap());
    assert_eq!(
        labels(&options),
        ["process_cpu env=test,host=web-1,service_name=checkout", "process_cpu service_name=cat"]
    );
    let other_labels = other_labels.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    assert_eq!(
        labels(&SeriesOptions { other_labels, ..options }),
        [
            "process_cpu env=prod,host=node-1,service_name=cat",
            "process_cpu env=test,host=web-1,service_name=checkout"
        ]
    );
}

#[test]
fn samples_have_the_labels_that_are_asked_for_and_their_span() {
    let recording = services();
    let labels = |options: &SeriesOptions| {
        let batch = SeriesBatch::of(&recording, options).unwrap();
        let mut keys = std::collections::BTreeSet::new();
        for chunk in batch.chunks() {
            let profile = SentPprof::decode(&*pprof_profile(&batch, &chunk).0).unwrap();
            let labels = profile.samples.iter().flat_map(|sample| &sample.labels);
            keys.extend(labels.map(|label| {
                format!("{}={}", profile.strings[label.key as usize], profile.strings[label.text as usize])
            }));
        }
        Vec::from_iter(keys)
    };
    assert_eq!(labels(&SeriesOptions::default()), ["span_id=0123456789abcdef"]);
    let words = ["thread", "reason", "container_id"].map(SampleLabel::of).to_vec();
    let asked = labels(&SeriesOptions { sample_labels: words, ..SeriesOptions::default() });
    for label in ["container_id=abc", "thread=worker", "thread=shop", "span_id=0123456789abcdef"] {
        assert!(asked.iter().any(|other| other == label), "{label} {asked:?}");
    }
    assert!(asked.iter().any(|label| label.starts_with("reason=")), "{asked:?}");
    // Receivers divide a profile by this label of its samples.
    let words = vec![SampleLabel::of("service_name")];
    let options = SeriesOptions { sample_labels: words, ..SeriesOptions::default() };
    let batch = SeriesBatch::of(&recording, &options).unwrap();
    let counts: Vec<_> = batch.chunks().iter().map(|chunk| otlp_profiles(&batch, chunk)).collect();
    assert!(counts.contains(&None) && counts.contains(&Some(1)), "{counts:?}");
}

#[test]
fn a_profile_names_its_program_first_and_an_inlined_function_before_its_caller() {
    let recording = services();
    let batch = SeriesBatch::of(&recording, &SeriesOptions::default()).unwrap();
    let is_shop = |series: &crate::report::export::series::batch::SentSeries| {
        series.program == "shop" && series.event.name == "process_cpu"
    };
    let series = batch.series.iter().position(is_shop).unwrap();
    let chunk = SeriesChunk { series, rows: 0..batch.series[series].rows.len() };
    let (bytes, id) = pprof_profile(&batch, &chunk);
    let profile = SentPprof::decode(&*bytes).unwrap();
    let text = |index: i64| profile.strings[index as usize].as_str();
    assert_eq!(text(profile.mappings[0].file), "/usr/bin/shop");
    let names = |location: &crate::report::pprof_messages::PprofLocation| {
        let of = |id: u64| profile.functions.iter().find(|function| function.id == id).unwrap();
        let name = |function: u64| text(of(function).name).to_owned();
        location.lines.iter().map(|line| name(line.function)).collect::<Vec<_>>()
    };
    let all: Vec<Vec<String>> = profile.locations.iter().map(names).collect();
    assert!(all.contains(&vec!["card".to_owned(), "pay".to_owned()]), "{all:?}");
    assert_eq!((profile.time_ns as u64, profile.period as u64), (START_NS, PERIOD_NS));
    assert!(id.starts_with(&format!("{:08x}", (START_NS / 1_000_000) >> 16)), "{id}");
    assert_eq!(pprof_profile(&batch, &chunk).1, id, "it is the same whenever it is sent");
}

#[test]
fn functions_of_one_name_stay_apart_in_both_protocols() {
    let mut build = Build::new();
    let task = build.task(1, 1, "a", "a");
    for (number, leaf) in ["/a:same", "/b:same", "/c:same⇒other", "/c:other⇒same"].iter().enumerate() {
        build.add(task, number as u64 + 1, &["/a:main", "/b:same", leaf]);
        build.add(task, 10, &["/a:main", "/b:main", leaf]);
    }
    let batch = SeriesBatch::of(&build.finish(), &SeriesOptions::default()).unwrap();
    let stacks = pprof_stacks(&batch, &batch.chunks());
    assert_eq!(stacks.len(), 8, "{stacks:?}");
    assert_eq!(stacks.values().sum::<i64>(), 50);
    assert_eq!(stacks, otlp_stacks(&batch, &batch.chunks()));
}

#[test]
fn a_dictionary_begins_with_zeros_and_has_spans_as_links() {
    let recording = services();
    let options = SeriesOptions { sample_labels: vec![SampleLabel::Pid], ..SeriesOptions::default() };
    let batch = SeriesBatch::of(&recording, &options).unwrap();
    let message = OtlpProfiles::decode(&*otlp_request(&batch, &batch.chunks())).unwrap();
    let dictionary = message.dictionary.unwrap();
    assert_eq!(dictionary.strings[0], "");
    assert_eq!(dictionary.mappings[0], Default::default());
    assert_eq!(dictionary.locations[0], Default::default());
    assert_eq!(dictionary.functions[0], Default::default());
    assert_eq!(dictionary.attributes[0], Default::default());
    assert_eq!(dictionary.stacks[0], Default::default());
    assert_eq!(dictionary.links.len(), 2);
    assert_eq!(dictionary.links[1].span, [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    let resources: Vec<Vec<String>> = message
        .resources
        .iter()
        .map(|resource| {
            let attributes = resource.resource.as_ref().unwrap().attributes.iter();
            attributes.map(|attribute| attribute.key.clone()).collect()
        })
        .collect();
    assert!(resources.contains(&vec![
        "host.name".to_owned(),
        "k8s.pod.name".to_owned(),
        "service.name".to_owned()
    ]));
    let numbers = dictionary.attributes.iter().filter_map(|attribute| attribute.value.as_ref()?.kind.clone());
    assert!(numbers.into_iter().any(|kind| kind == OtlpValueKind::Number(7)));
}

#[test]
fn parts_of_a_recording_have_times_of_their_own() {
    let mut build = Build::new();
    build.meta().start_unix_ns = START_NS;
    let task = build.task(1, 1, "a", "a");
    for number in 0..100 {
        build.add(task, 1, &[&format!("/a:f{number}")]);
    }
    let batch = SeriesBatch::of(&build.finish(), &SeriesOptions::default()).unwrap();
    let parts: Vec<SeriesChunk> =
        (0..10).map(|part| SeriesChunk { series: 0, rows: part * 10..part * 10 + 10 }).collect();
    let sums = pprof_sums(&batch, &parts);
    assert_eq!(sum(&sums, "cpu"), 100 * PERIOD_NS);
    let profiles: Vec<(i64, String)> = parts
        .iter()
        .map(|part| {
            let (bytes, id) = pprof_profile(&batch, part);
            (SentPprof::decode(&*bytes).unwrap().time_ns / 1_000_000, id)
        })
        .collect();
    let times: std::collections::BTreeSet<_> = profiles.iter().collect();
    assert_eq!(times.len(), 10, "{profiles:?}");
    let end = ((START_NS + batch.duration_ns) / 1_000_000) as i64;
    assert!(profiles.iter().all(|(time, _)| *time >= (START_NS / 1_000_000) as i64 && *time < end));
}

#[test]
fn a_recording_can_end_when_it_is_sent_and_only_a_part_can_be_sent() {
    let recording = services();
    let time = crate::report::TimeRange { from_ns: Some(2_000_000), to_ns: None };
    let common = CommonOptions {
        filter: FilterOptions { time, ..FilterOptions::default() },
        ..CommonOptions::default()
    };
    let options = SeriesOptions { ended_unix_ns: Some(2 * START_NS), common, ..SeriesOptions::default() };
    let batch = SeriesBatch::of(&recording, &options).unwrap();
    assert_eq!(batch.started_unix_ns + batch.duration_ns, 2 * START_NS);
    assert_eq!(batch.duration_ns, recording.profile.duration_ns() - 2_000_000);
}

#[test]
fn addresses_of_code_without_a_name_are_sent_only_if_they_are_asked_for() {
    let mut build = Build::new();
    build.meta().start_unix_ns = START_NS;
    let task = build.task(1, 1, "a", "a");
    for at in ["/opt/libfoo.so:+0x1234", "/opt/libfoo.so:+0x1238", "/opt/libfoo.so:+0x2000"] {
        build.add(task, 3, &["/a:main", at]);
    }
    let recording = build.finish();
    for with_addresses in [false, true] {
        let options = SeriesOptions { with_addresses, ..SeriesOptions::default() };
        let batch = SeriesBatch::of(&recording, &options).unwrap();
        let [chunk] = &batch.chunks()[..] else { panic!("it is one profile") };
        let profile = SentPprof::decode(&*pprof_profile(&batch, chunk).0).unwrap();
        let addresses = profile.locations.iter().filter(|location| location.address != 0).count();
        assert_eq!(addresses, if with_addresses { 3 } else { 0 });
        assert_eq!(sum(&pprof_sums(&batch, &batch.chunks()), "cpu"), 9 * PERIOD_NS);
        assert!(profile.locations.iter().all(|location| location.lines.len() == 1));
    }
}

#[test]
fn the_heap_is_what_was_allocated_and_what_is_left() {
    let mut build = Build::new();
    build.meta().start_unix_ns = START_NS;
    let task = build.task(1, 1, "a", "a");
    build.block(task, 1, [512, 4096], None, &["/a:main", "/a:keep"]);
    build.block(task, 2, [512, 8192], Some(1), &["/a:main", "/a:free"]);
    let batch = SeriesBatch::of(&build.finish(), &SeriesOptions::default()).unwrap();
    assert_eq!(labels_of(&batch), ["memory service_name=a"]);
    let sums = pprof_sums(&batch, &batch.chunks());
    let of = ["alloc_space", "inuse_space", "alloc_objects", "inuse_objects"].map(|name| sum(&sums, name));
    assert_eq!(of, [12_288, 4_096, 24, 8]);
    assert_eq!(sum(&otlp_sums(&batch, &batch.chunks()), "inuse_space"), 4_096);
}

/// Sums are those of the report to the nanosecond, however the recording is divided.
fn check_sums(recording: &Analysis, cuts: usize) -> Result<(), TestCaseError> {
    let total = |metric| {
        let common = CommonOptions { metric: Some(metric), ..CommonOptions::default() };
        recording.select(&common).map_or(0, |selection| selection.total.weight)
    };
    let totals = [Metric::ON_CPU, Metric::OFF_CPU].map(total);
    let Ok(batch) = SeriesBatch::of(recording, &SeriesOptions::default()) else {
        prop_assert_eq!(totals, [0, 0]);
        return Ok(());
    };
    let mut parts = vec![batch.chunks()];
    for _ in 0..cuts {
        let divided = parts.into_iter().map(|part| halves(&part).map_or(vec![part], Vec::from));
        parts = divided.flatten().collect();
    }
    let mut sums = [[0; 2]; 2];
    for part in &parts {
        for (sums, of) in sums.iter_mut().zip([pprof_sums(&batch, part), otlp_sums(&batch, part)]) {
            sums[0] += sum(&of, "cpu");
            sums[1] += sum(&of, "off_cpu");
        }
    }
    prop_assert_eq!(sums[0], totals);
    prop_assert_eq!(sums[1], totals);
    for part in &parts {
        prop_assert_eq!(pprof_stacks(&batch, part), otlp_stacks(&batch, part));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn running_time_is_that_of_the_report(observations in observations(), cuts in 0usize..6) {
        check_sums(&recording(&observations), cuts)?;
    }

    #[test]
    fn waiting_time_is_that_of_the_report(waits in waits(), cuts in 0usize..6) {
        check_sums(&recording_of_waits(&waits), cuts)?;
    }
}
