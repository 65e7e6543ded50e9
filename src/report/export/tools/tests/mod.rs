//! Golden text of every format for a small recording; blocks of the heap; hostile names; sums of arbitrary recordings.

mod heap;
mod hostile;
mod sums;

use super::{perfetto, pprof};
use crate::profile::{EventKind, Meta, Reason, Waker, WakerKind};
use crate::report::analysis::Analysis;
use crate::report::export::{ExportFormat, render};
use crate::report::options::ExportOptions;
use crate::report::tests::fixture::Build;
use crate::report::{CommonOptions, FilterOptions, Metric, TimeRange};
use insta::assert_snapshot;

const MS: u64 = 1_000_000;

/// The format with this name.
pub(super) fn format(name: &str) -> ExportFormat {
    ExportFormat::ALL.into_iter().find(|format| format.name() == name).unwrap()
}

/// Formats for other tools.
pub(super) const FORMATS: [&str; 7] =
    ["pprof", "speedscope", "firefox", "perfetto", "callgrind", "json", "perf-script"];

pub(super) fn bytes(recording: &Analysis, name: &str, options: &ExportOptions) -> Vec<u8> {
    render(recording, format(name), options).unwrap()
}

pub(super) fn options(metric: Option<Metric>) -> ExportOptions {
    let common = CommonOptions { metric, ..CommonOptions::default() };
    ExportOptions { common, ..ExportOptions::default() }
}

fn text(recording: &Analysis, name: &str, options: &ExportOptions) -> String {
    let bytes = bytes(recording, name, options);
    match name {
        "pprof" => pprof::decoded::text(&bytes),
        "perfetto" => perfetto::decoded::text(&bytes),
        _ => String::from_utf8(bytes).unwrap(),
    }
}

/// Everything that formats have to represent: two threads and their waits, one of them weighted up, recursion, inlined
/// functions, kernel frames, a frame without a name, a truncated stack, waits that were only counted, and page faults.
fn small() -> Analysis {
    let mut build = Build::new();
    *build.meta() = Meta {
        command: ["prof", "record", "-e", "cpu,off,page-faults", "-p", "7"].map(String::from).to_vec(),
        kernel: "6.18.0".into(),
        arch: "x86_64".into(),
        start_unix_ns: 1_795_262_400_000_000_000,
        start_mono_ns: 5_000_000_000,
        target: "app (pid 7)".into(),
        target_name: "app".into(),
        clock: "cpu-clock".into(),
        clock_is_timer: true,
        ..Meta::default()
    };
    let main = build.task(7, 7, "app", "app");
    let worker = build.task(7, 8, "worker", "app");
    build.add(
        worker,
        2,
        &["/usr/lib/libc.so.6:start_thread", "/usr/bin/app:work", "/usr/bin/app:walk", "/usr/bin/app:walk"],
    );
    build.add(main, 3, &["/usr/bin/app:main", "/usr/bin/app:parse⇒from_slice⇒read_byte"]);
    build.add(main, 1, &["/usr/bin/app:main", "[kernel]:entry_SYSCALL_64", "[kernel]:sys_read"]);
    build.add_ended(worker, 1, &["/opt/libfoo.so:+0x1234"], crate::profile::Outcome::NoUnwindInfo);
    let lock =
        ["/usr/lib/libc.so.6:start_thread", "/usr/bin/app:work", "/usr/lib/libc.so.6:pthread_mutex_lock"];
    let waker = Waker { kind: WakerKind::Thread, task: Some(main), stack: None };
    build.thinned_wait(worker, Reason::Lock, [20 * MS, 5 * MS, 15 * MS], &lock, waker);
    build.thinned_wait(worker, Reason::NoCpu, [30 * MS, MS, MS], &["/usr/bin/app:work"], Waker::default());
    let softirq = Waker { kind: WakerKind::SoftInterrupt, ..Waker::default() };
    let read = ["/usr/bin/app:main", "[kernel]:entry_SYSCALL_64", "[kernel]:sys_read"];
    build.thinned_wait(main, Reason::Network, [40 * MS, 2_500_000, 2_500_000], &read, softirq);
    build.thread_time(worker, 20 * MS, MS, 9_000 * MS);
    build.short_waits(Reason::Lock, 3, 700);
    build.counter(EventKind::counted("page-faults", "page faults"), main, [2, 10], &["/usr/bin/app:main"]);
    build.finish()
}

#[test]
fn pprof() {
    assert_snapshot!(text(&small(), "pprof", &options(None)));
}

#[test]
fn pprof_of_page_faults() {
    let faults = EventKind::counted("page-faults", "page faults");
    assert_snapshot!(text(&small(), "pprof", &options(Some(Metric::of_kind(&faults)))));
}

/// Stacks that differ in labels only are samples of their own; values add up to those without labels.
#[test]
fn pprof_has_the_labels_of_samples() {
    let recording = |labels: &[(&str, &str)]| {
        let mut build = Build::new();
        let task = build.task(7, 7, "app", "app");
        for (samples, labels) in [(2, &[][..]), (3, labels)] {
            build.label(labels);
            build.add(task, samples, &["/usr/bin/app:main"]);
        }
        build.wait(task, Reason::Pipe, 20 * MS, MS, &["/usr/bin/app:main"]);
        build.finish()
    };
    let labelled = recording(&[("tenant", "alpha\u{1b}"), ("gil", "held")]);
    let text = text(&labelled, "pprof", &options(None));
    let samples: Vec<&str> = text.lines().filter(|line| line.starts_with("sample ")).collect();
    let of_thread = "thread=app process=app tid=7 id pid=7 id";
    assert_eq!(
        samples[..2],
        [
            format!("sample [2, 2000000, 0, 0] at [1] {of_thread}"),
            format!("sample [3, 3000000, 0, 0] at [1] {of_thread} gil=held tenant=alpha\\x1b"),
        ]
    );
    assert_eq!(samples.len(), 3, "{samples:?}");
    let sums = |recording: &Analysis| pprof::decoded::sums(&bytes(recording, "pprof", &options(None)));
    assert_eq!(sums(&labelled), sums(&recording(&[])));
}

#[test]
fn speedscope() {
    assert_snapshot!(text(&small(), "speedscope", &options(None)));
}

#[test]
fn firefox() {
    assert_snapshot!(text(&small(), "firefox", &options(None)));
}

#[test]
fn perfetto() {
    assert_snapshot!(text(&small(), "perfetto", &options(None)));
}

#[test]
fn callgrind() {
    assert_snapshot!(text(&small(), "callgrind", &options(None)));
}

#[test]
fn json() {
    assert_snapshot!(text(&small(), "json", &options(None)));
}

#[test]
fn perf_script() {
    assert_snapshot!(text(&small(), "perf-script", &options(None)));
}

#[test]
fn the_same_recording_gives_the_same_bytes() {
    for name in FORMATS {
        assert_eq!(bytes(&small(), name, &options(None)), bytes(&small(), name, &options(None)), "{name}");
    }
}

#[test]
fn filters_hold_in_every_format() {
    let recording = small();
    let time = TimeRange { from_ns: Some(21 * MS), to_ns: Some(24 * MS) };
    let filter = FilterOptions { time, focus: Some("mutex".into()), ..FilterOptions::default() };
    let common = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..CommonOptions::default() };
    let options = ExportOptions { common, ..ExportOptions::default() };
    // Part of a wait that is weighted as three.
    let weight = 9 * MS;
    let sums = pprof::decoded::sums(&bytes(&recording, "pprof", &options));
    assert_eq!(sums, [("waits".to_owned(), 3), ("off_cpu".to_owned(), weight)]);
    for name in FORMATS {
        let text = text(&recording, name, &options);
        assert!(text.contains("pthread_mutex_lock") && !text.contains("sys_read"), "{name}: {text}");
    }
    let script = text(&recording, "perf-script", &options);
    assert!(script.contains(" 5.021000:    9000000 off-cpu: \n"), "{script}");
    let (samples, _, slices) = perfetto::decoded::sums(&bytes(&recording, "perfetto", &options));
    assert_eq!(
        (samples, slices.into_iter().collect::<Vec<_>>()),
        (0, vec![("waiting (lock)".to_owned(), 3 * MS)])
    );
}

#[test]
fn what_a_format_cannot_hold_is_said() {
    let recording = small();
    for name in FORMATS {
        let leaf_first = ExportOptions { bottom_up: true, ..options(Some(Metric::ON_CPU)) };
        let notes = format(name).render(&recording, &leaf_first).unwrap().notes().join("\n");
        assert!(notes.contains("--bottom-up has no effect"), "{name}: {notes}");
        let notes = format(name).render(&recording, &options(None)).unwrap().notes().join("\n");
        assert!(notes.contains("page-faults samples are not included"), "{name}: {notes}");
        let is_in_time = ["firefox", "perfetto", "perf-script"].contains(&name);
        assert_eq!(
            notes.contains("3 short waits, 700 ns in all, were only counted"),
            is_in_time,
            "{name}: {notes}"
        );
        let has_lengths = ["firefox", "perfetto"].contains(&name);
        assert_eq!(notes.contains("1 wait kept for several each"), has_lengths, "{name}: {notes}");
    }
}

#[test]
fn numbers_of_samples_stand_for_weights_where_they_are_asked_for() {
    let options = ExportOptions { count: true, ..options(Some(Metric::ON_CPU)) };
    assert!(
        text(&small(), "pprof", &options)
            .starts_with("types samples/count cpu/nanoseconds default samples\n")
    );
    assert!(text(&small(), "callgrind", &options).contains("\nevents: samples cpu_ns\nsummary: 7 7000000\n"));
    let speedscope = text(&small(), "speedscope", &options);
    assert!(speedscope.contains("\"unit\":\"none\",\"startValue\":0,\"endValue\":4,"), "{speedscope}");
    assert!(text(&small(), "perf-script", &options).contains(":          1 cpu-clock: \n"));
}

#[test]
fn the_end_or_the_beginning_of_a_name_chooses_the_format() {
    let chosen = |name: &str| ExportFormat::of_path(std::path::Path::new(name)).map(ExportFormat::name);
    for (name, expected) in [
        ("a/app.pb.gz", "pprof"),
        ("x.PPROF", "pprof"),
        ("x.speedscope.json", "speedscope"),
        ("x.firefox.json", "firefox"),
        ("x.profile.json.gz", "firefox"),
        ("x.json", "json"),
        ("x.json.gz", "json"),
        ("x.perfetto-trace", "perfetto"),
        ("x.pftrace", "perfetto"),
        ("callgrind.out.123", "callgrind"),
        ("x.callgrind", "callgrind"),
        ("x.perf-script", "perf-script"),
        ("x.perf", "perf-script"),
    ] {
        assert_eq!(chosen(name).unwrap(), expected, "{name}");
    }
    let failure = chosen("x.gz").unwrap_err();
    assert!(failure.hints[0].contains("callgrind.out*, .callgrind"), "{:?}", failure.hints);
}
