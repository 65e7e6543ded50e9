//! Call paths are tested by themselves.

use super::fixture::{Paths, compared, options, printed, runs, sides};
use crate::diff::comparison::Comparison;
use crate::diff::difference::{DiffOutcome, Difference};
use crate::diff::options::{DiffFormat, DiffOptions, DiffView};
use crate::report::Page;

/// A function that grows below one caller, and shrinks below another by as much.
const BEFORE: Paths<'_> = &[
    (&["/x:main", "/x:load", "/x:copy"], 1_000),
    (&["/x:main", "/x:save", "/x:copy"], 2_000),
    (&["/x:main", "/x:idle"], 4_000),
    (&["/x:main", "/x:rare", "/x:copy"], 20),
];
const AFTER: Paths<'_> = &[
    (&["/x:main", "/x:load", "/x:copy"], 1_500),
    (&["/x:main", "/x:save", "/x:copy"], 1_500),
    (&["/x:main", "/x:idle"], 4_000),
    (&["/x:main", "/x:rare", "/x:copy"], 40),
];

/// The tests of all paths, by the names of their steps.
fn tested(comparison: &Comparison) -> Vec<(String, Option<Difference>)> {
    let tree = comparison.tree.as_ref().expect("paths were read");
    let name = |row: u32| comparison.labels[row as usize].key.name.clone();
    let path_of = |id: u32| tree.path(id).map(name).collect::<Vec<_>>().join(" < ");
    (0..tree.nodes.len() as u32).map(|id| (path_of(id), tree.node(id).tested)).collect()
}

fn total_of(comparison: &Comparison, name: &str) -> Difference {
    let row = comparison.rows.iter().find(|row| comparison.label(row).key.name == name);
    row.unwrap_or_else(|| panic!("no row {name}")).total
}

#[test]
fn a_function_that_grows_below_one_caller_and_shrinks_below_another_is_noise_and_its_paths_are_not() {
    for count in [1, 5] {
        let (comparison, _) = compared([runs("base", count, BEFORE), runs("new", count, AFTER)], &options());
        assert_eq!(total_of(&comparison, "copy").outcome, DiffOutcome::Noise);
        let tests = tested(&comparison);
        let of = |path: &str| {
            let (_, test) = tests.iter().find(|(name, _)| name == path).unwrap();
            test.map(|test| (test.outcome, test.ratio().map(|ratio| (ratio * 4.0).round())))
        };
        assert_eq!(of("copy < load < main"), Some((DiffOutcome::Changed, Some(6.0))), "{count}");
        assert_eq!(of("load < main"), of("copy < load < main"), "the same samples");
        assert_eq!(of("copy < save < main"), Some((DiffOutcome::Changed, Some(3.0))), "{count}");
        assert_eq!(of("idle < main").map(|(outcome, _)| outcome), Some(DiffOutcome::Noise));
        assert_eq!(of("copy < rare < main"), None, "below 1 %");
    }
}

/// Where a function is on one path alone, the test of the path is that of the function.
#[test]
fn a_path_that_is_the_only_one_of_its_function_has_the_numbers_of_the_function() {
    for count in [1, 5] {
        let (comparison, _) = compared(sides(count), &options());
        let mut compared = 0;
        for (path, test) in tested(&comparison) {
            let name = path.split(" < ").next().unwrap();
            let row = total_of(&comparison, name);
            let Some(test) = test.filter(Difference::is_tested) else {
                assert!(!row.is_tested(), "{path} is too small");
                continue;
            };
            assert_eq!((test.base, test.new), (row.base, row.new), "{path}");
            assert_eq!(test.contrast, row.contrast, "{path}");
            compared += 1;
        }
        assert!(compared >= 6, "{compared}");
    }
}

#[test]
fn boxes_have_the_colours_of_their_own_tests() {
    let sides = || [runs("base", 5, BEFORE), runs("new", 5, AFTER)];
    let svg = DiffOptions { format: DiffFormat::Svg, ..options() };
    let drawn = printed(sides(), &svg, &Page::PLAIN);
    let colors: Vec<&str> = (drawn.split("<title>").filter(|text| text.starts_with("copy ")))
        .map(|text| text.split("fill=\"").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    // Deep red, light blue, and grey below the rare function: copy as a whole is noise.
    let mut sorted = colors.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["#92c5de", "#d0d0d0", "#f4a582"], "{colors:?}");
    let tree = DiffOptions { view: DiffView::Tree, min_percent: Some(0.0), ..options() };
    let text = printed(sides(), &tree, &Page::PLAIN);
    let change_of = |path: &str| {
        let line = text.lines().find(|line| line.ends_with(path)).unwrap();
        line[28..37].trim_end().to_owned()
    };
    assert_eq!(
        ["load", "save", "idle", "rare"].map(change_of),
        ["^    +50%", "v    -25%", "~   noise", "   +97.1%"],
        "{text}"
    );
    let json = DiffOptions { format: DiffFormat::Json, ..tree };
    let json: serde_json::Value = serde_json::from_str(&printed(sides(), &json, &Page::PLAIN)).unwrap();
    let outcomes: Vec<_> = (json["tree"].as_array().unwrap().iter())
        .map(|path| (path["function"].as_str().unwrap(), path["outcome"].as_str().unwrap()))
        .collect();
    assert!(
        outcomes.contains(&("load", "changed")) && outcomes.contains(&("rare", "untested")),
        "{outcomes:?}"
    );
}
