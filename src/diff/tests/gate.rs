//! The gate: what trips it, and when the data are insufficient.

use super::fixture::{Paths, compared, gated, printed, runs, sides};
use crate::diff::gate::verdicts::{GateOutcome, exit_status};
use crate::diff::options::{DiffFormat, DiffOptions, GateOptions};
use crate::report::Page;

/// The exit status and the reason of the first verdict for these rules.
fn judged(count: u64, rules: &[&str]) -> (u8, String) {
    let (_, verdicts) = compared(sides(count), &gated(rules));
    (exit_status(&verdicts), verdicts[0].why.clone())
}

#[test]
fn what_grew_trips() {
    let (status, why) = judged(5, &["self:number>+10%"]);
    assert_eq!(status, 4);
    assert!(why.starts_with("number +30."), "{why}");
    assert_eq!(judged(5, &["self:number"]).0, 4, "5% is the default");
    assert_eq!(judged(5, &["self:^(number|fast)$>+10%"]).0, 4);
    let (status, why) = judged(5, &["self:fast>+10%"]);
    assert_eq!((status, why.as_str()), (4, "fast new"));
}

#[test]
fn what_did_not_grow_passes() {
    let (status, why) = judged(5, &["total>+5%"]);
    assert_eq!(status, 0);
    assert!(why.starts_with("total -2"), "{why}");
    assert_eq!(judged(5, &["self:ZSTD>+10%"]).0, 0, "an improvement");
    assert_eq!(judged(5, &["self:number>+40%"]).0, 0, "it grew by less");
}

#[test]
fn one_verdict_of_several_is_enough() {
    assert_eq!(judged(5, &["total>+5%", "self:number>+10%"]).0, 4);
    assert_eq!(judged(5, &["self:no_such_function", "self:number>+10%"]).0, 4);
    assert_eq!(judged(5, &["self:no_such_function", "total"]).0, 3);
}

#[test]
fn a_function_that_is_on_neither_side_is_no_pass() {
    let (status, why) = judged(5, &["self:no_such_function>+10%"]);
    assert_eq!((status, why.as_str()), (3, "no function of either side has such a name"));
    // One that only calls others is there.
    let (status, why) = judged(5, &["self:^main$>+10%"]);
    assert_eq!(
        (status, why.as_str()),
        (3, "main has no self time on either side: its time is in what it calls")
    );
}

#[test]
fn few_runs_are_too_little() {
    let (status, why) = judged(4, &["self:number>+10%"]);
    assert_eq!((status, why.as_str()), (3, "4 and 4 runs are too few"));
}

#[test]
fn one_recording_trips_only_if_that_is_asked_for() {
    let (status, why) = judged(1, &["self:number>+10%"]);
    assert_eq!((status, why.as_str()), (3, "one recording says nothing of how runs differ"));
    let options = gated(&["self:number>+10%"]);
    let options =
        DiffOptions { gate: GateOptions { single_run_ok: true, ..options.gate.clone() }, ..options };
    let (comparison, verdicts) = compared(sides(1), &options);
    assert!(comparison.is_within_run());
    assert_eq!(exit_status(&verdicts), 4, "{verdicts:?}");
}

#[test]
fn what_would_not_have_been_found_is_no_pass() {
    let paths: Paths<'_> = &[(&["/x:main"], 95), (&["/x:main", "/x:small"], 5)];
    let sides = || [runs("base", 5, paths), runs("new", 5, paths)];
    let (_, verdicts) = compared(sides(), &gated(&["self:small>+5%"]));
    assert_eq!(verdicts[0].outcome, GateOutcome::TooLittle);
    assert!(verdicts[0].why.contains("would have been found"), "{}", verdicts[0].why);
    let needed = verdicts[0].needed.as_deref().unwrap();
    assert!(needed.starts_with("about ") && needed.contains("runs a side"), "{needed}");
    // The total is known accurately enough.
    let (_, verdicts) = compared(sides(), &gated(&["total>+10%"]));
    assert_eq!(verdicts[0].outcome, GateOutcome::Pass, "{}", verdicts[0].why);
}

#[test]
fn the_verdict_is_in_the_document() {
    let options = DiffOptions { format: DiffFormat::Json, ..gated(&["self:number>+10%", "total>+5%"]) };
    let json: serde_json::Value = serde_json::from_str(&printed(sides(5), &options, &Page::PLAIN)).unwrap();
    assert_eq!(json["gate"]["status"], 4);
    assert_eq!(json["gate"]["verdicts"][0]["verdict"], "tripped");
    assert_eq!(json["gate"]["verdicts"][0]["functions"][0], "number");
    assert_eq!(json["gate"]["verdicts"][1]["verdict"], "pass");
}
