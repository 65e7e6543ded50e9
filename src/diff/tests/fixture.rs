//! Small comparisons for tests.

use crate::diff::comparison::Comparison;
use crate::diff::gate::rule::GateRule;
use crate::diff::gate::verdicts::{GateVerdict, apply_rules};
use crate::diff::options::{DiffOptions, GateOptions};
use crate::diff::print::output::render;
use crate::diff::sums::run::{PathSums, RunOptions, RunSums};
use crate::report::tests::fixture::{Build, PERIOD_NS};
use crate::report::{Analysis, CommonOptions, NameStyle, Page};

/// Page of a terminal with 80 columns.
pub(super) const SCREEN: Page =
    Page { width: 80, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };

/// The default options of `prof diff`.
pub(crate) fn options() -> DiffOptions {
    DiffOptions::plain(CommonOptions::default())
}

/// The default options with these gate rules.
pub(super) fn gated(rules: &[&str]) -> DiffOptions {
    let rules = rules.iter().map(|rule| GateRule::parse(rule).expect("a rule")).collect();
    DiffOptions { gate: GateOptions { rules, ..options().gate }, ..options() }
}

/// The sums of a recording.
pub(crate) fn sums(recording: &Analysis, file: &str, common: &CommonOptions, slices: bool) -> RunSums {
    let options = RunOptions { common, paths: PathSums::Tested, slices, threads: None };
    RunSums::of(recording, file.to_owned(), &options).expect("it can be summed up")
}

/// Number of samples of each path of a run, root first.
pub(crate) type Paths<'t> = &'t [(&'t [&'t str], u64)];

/// A recording with these samples, interleaved so that their mix is the same at any time.
pub(crate) fn recording(paths: Paths<'_>) -> Analysis {
    let mut build = Build::new();
    build.meta().target = "ingest".to_owned();
    build.meta().effective_hz = 1_000;
    build.meta().is_command = true;
    let task = build.task(7, 7, "ingest", "ingest");
    let most = paths.iter().map(|(_, samples)| *samples).max().unwrap_or(0);
    for round in 0..most {
        for (path, samples) in paths {
            // Number of samples due in each round.
            let due = |round: u64| round * samples / most;
            build.add(task, due(round + 1) - due(round), path);
        }
    }
    let samples: u64 = paths.iter().map(|(_, samples)| samples).sum();
    build.finish().changed(|recording| {
        let end = recording.profile.end.as_mut().expect("it has ended");
        (end.duration_ns, end.command_status) = (samples * PERIOD_NS, Some(0));
        end.reason = "command ended".to_owned();
    })
}

/// Runs that differ slightly: each path has a few more or fewer samples than in `paths`, in a fixed pattern.
pub(super) fn runs(name: &str, count: u64, paths: Paths<'_>) -> Vec<RunSums> {
    (0..count)
        .map(|run| {
            let varied: Vec<(&[&str], u64)> = (paths.iter().enumerate())
                .map(|(at, (path, samples))| {
                    let swing = (run * 7 + at as u64 * 3) % 5;
                    (*path, (samples + samples * swing / 50).saturating_sub(samples * 2 / 50))
                })
                .collect();
            let file = format!("/tmp/{name}-{:02}.data", run + 1);
            sums(&recording(&varied), &file, &CommonOptions::default(), count == 1)
        })
        .collect()
}

const ZSTD: &str = "/usr/lib/libzstd.so.1.5.5:ZSTD_insertBt1";

/// The samples of a program before and after a change of it.
pub(crate) const BASE: Paths<'_> = &[
    (&["/old/ingest:main", "/old/ingest:compress", ZSTD], 2_000),
    (&["/old/ingest:main", "/old/ingest:parse"], 1_500),
    (&["/old/ingest:main", "/old/ingest:parse", "/old/ingest:number"], 1_000),
    (&["/old/ingest:main", "/old/ingest:tidy"], 500),
    (&["/old/ingest:main", "/old/ingest:rare"], 20),
];
/// After it.
pub(crate) const NEW: Paths<'_> = &[
    (&["/new/ingest:main", "/new/ingest:compress", ZSTD], 400),
    (&["/new/ingest:main", "/new/ingest:compress", "/new/ingest:fast"], 600),
    (&["/new/ingest:main", "/new/ingest:parse"], 1_500),
    (&["/new/ingest:main", "/new/ingest:parse", "/new/ingest:number"], 1_300),
    (&["/new/ingest:main", "/new/ingest:rare"], 30),
];

/// Both sides of a program in which one function became faster and one slower, one is new and one is gone.
pub(super) fn sides(count: u64) -> [Vec<RunSums>; 2] {
    [runs("base", count, BASE), runs("new", count, NEW)]
}

/// Compares `sides`, and applies the rules.
pub(crate) fn compared(sides: [Vec<RunSums>; 2], options: &DiffOptions) -> (Comparison, Vec<GateVerdict>) {
    let comparison = Comparison::new(sides, options.per, &options.gate.rules).expect("they can be compared");
    let verdicts = apply_rules(&comparison, &options.gate).expect("rules are regular expressions");
    (comparison, verdicts)
}

/// Compares `sides` and renders the result.
pub(crate) fn printed(sides: [Vec<RunSums>; 2], options: &DiffOptions, page: &Page) -> String {
    let (comparison, verdicts) = compared(sides, options);
    let printed = render(&comparison, &verdicts, options, page).expect("it can be written");
    String::from_utf8(printed.bytes).expect("text")
}
