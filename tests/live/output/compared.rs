//! Two commands recorded by turns and compared: a planted regression is found, and what goes wrong is said.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{messages, prof, text};
use serde_json::Value;

/// Detail 23 of the promises: a comparison tells change from noise in every view, and can fail a build.
#[test]
fn a_planted_regression_trips_the_gate() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("regressed") else { return };
    let program = program.to_str().expect("a plain path");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let runs = folder.path().join("runs");
    let output = prof()
        .args(["bench", "-n", "5", "--discard-output", "--json", "--keep"])
        .arg(&runs)
        .args(["--fail-on", "self:^may_grow$>+10%", "--base", &format!("{program} 100")])
        // So much that it is found among five runs whatever else this machine does meanwhile.
        .args(["--new", &format!("{program} 600")])
        .output()
        .expect("`timeout` can be run");
    let said = messages(&output);
    assert_eq!(output.status.code(), Some(4), "{said}\n{}", text(&output));
    assert!(said.contains("5 runs of base (") && said.contains(": about "), "{said}");
    assert!(said.contains("FAIL (may_grow +"), "{said}");
    let json: Value = serde_json::from_str(&text(&output)).expect("JSON");
    assert_eq!((&json["schema"], &json["per"]), (&"prof.diff/1".into(), &"run".into()));
    let rows = json["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["function"] == "may_grow").expect("the function");
    let ratio = row["self"]["ratio"].as_f64().expect("a ratio");
    assert!((3.0..12.0).contains(&ratio), "500 % were planted: {row}");
    assert_eq!(row["self"]["k"], serde_json::json!([5, 5]));

    // The recordings can be compared again, in other ways.
    let pattern = |name: &str| runs.join(format!("{name}-*.data"));
    let again = prof().arg("diff").args([pattern("base"), pattern("new")]).arg("--tree").output();
    let again = again.expect("`timeout` can be run");
    assert_eq!(again.status.code(), Some(0), "{}", messages(&again));
    assert!(text(&again).contains("may_grow"), "{}", text(&again));
    let single = [runs.join("base-01.data"), runs.join("new-01.data")];
    let single = prof().arg("diff").args(single).args(["--fail-on", "total>+5%"]).output();
    let single = single.expect("`timeout` can be run");
    assert_eq!(single.status.code(), Some(3), "one recording a side never trips");
    assert!(text(&single).contains("within-run noise only"), "{}", text(&single));
}

#[test]
fn a_command_that_fails_ends_a_comparison_with_its_status() {
    let Some(_turn) = turn() else { return };
    let bench = |options: &[&str]| {
        let output = prof().arg("bench").args(options).output().expect("`timeout` can be run");
        (output.status.code(), messages(&output))
    };
    let (status, said) =
        bench(&["--base", "true", "--new", "sh -c 'echo no luck >&2; exit 7'", "--discard-output"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("ended with status 7 in the warm-up") && said.contains("it said: no luck"),
        "{said}"
    );
    let (status, said) = bench(&["--base", "/no/such/program", "--new", "true"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("could not be recorded"), "{said}");
}
