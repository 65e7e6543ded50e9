//! Golden output of each format.

use super::fixture::{SCREEN, compared, gated, options, printed, sides};
use crate::diff::options::{DiffFormat, DiffOptions, DiffSort, DiffView};
use crate::diff::per::Per;
use crate::diff::print::output::render;
use crate::report::Page;
use serde_json::Value;

const WIDE: Page = Page { width: 160, ..SCREEN };

#[test]
fn text() {
    insta::assert_snapshot!(printed(sides(5), &gated(&["total>+5%", "self:number>+10%"]), &SCREEN));
}

#[test]
fn text_for_a_file_and_for_a_wide_terminal() {
    insta::assert_snapshot!("plain", printed(sides(5), &options(), &Page::PLAIN));
    insta::assert_snapshot!("wide", printed(sides(5), &options(), &WIDE));
}

#[test]
fn text_of_totals_by_share() {
    let options = DiffOptions { sort: DiffSort::Total, per: Some(Per::Share), ..options() };
    insta::assert_snapshot!(printed(sides(5), &options, &SCREEN));
}

#[test]
fn tree() {
    insta::assert_snapshot!(printed(sides(5), &DiffOptions { view: DiffView::Tree, ..options() }, &SCREEN));
}

#[test]
fn one_recording_a_side() {
    insta::assert_snapshot!(printed(sides(1), &gated(&["total>+5%"]), &SCREEN));
}

#[test]
fn json() {
    let options = DiffOptions { format: DiffFormat::Json, rows: Some(2), ..gated(&["self:number>+10%"]) };
    insta::assert_snapshot!(printed(sides(5), &options, &Page::PLAIN));
}

#[test]
fn the_trees_of_json_add_up() {
    let options = DiffOptions { format: DiffFormat::Json, view: DiffView::Tree, ..options() };
    let json: Value = serde_json::from_str(&printed(sides(5), &options, &Page::PLAIN)).unwrap();
    let paths = json["tree"].as_array().unwrap();
    for (side, value) in [("self_base", "base"), ("self_new", "new")] {
        let sum: f64 = paths.iter().map(|path| path[side].as_f64().unwrap()).sum();
        let total = json["total"][value].as_f64().unwrap();
        assert!((sum - total).abs() < 1e-6 * total, "{side}: {sum} of {total}");
    }
    let rows = json["rows"].as_array().unwrap();
    let sum: f64 = rows.iter().map(|row| row["self"]["new"].as_f64().unwrap()).sum();
    assert!((sum - json["total"]["new"].as_f64().unwrap()).abs() < 1.0, "own values add up, too");
}

#[test]
fn tsv() {
    let text = printed(sides(5), &DiffOptions { format: DiffFormat::Tsv, ..options() }, &Page::PLAIN);
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    assert_eq!((heading.len(), heading[2], heading[14]), (26, "self_base_ns", "total_base_ns"));
    assert!(lines.clone().all(|line| line.len() == heading.len()), "{text}");
    assert_eq!(lines.next().unwrap()[0], "[total]");
    let fast = lines.find(|line| line[0] == "fast").unwrap();
    assert_eq!((fast[2], fast[5], fast[13]), ("0", "", "new"));
}

#[test]
fn trackers() {
    for (format, name) in
        [(DiffFormat::GoBench, "gobench"), (DiffFormat::Bmf, "bmf"), (DiffFormat::Criterion, "criterion")]
    {
        let options = DiffOptions { format, rows: Some(1), ..options() };
        insta::assert_snapshot!(name, printed(sides(5), &options, &Page::PLAIN));
    }
}

#[test]
fn a_differential_flame_graph_is_as_wide_as_the_new_side() {
    let svg = printed(sides(5), &DiffOptions { format: DiffFormat::Svg, ..options() }, &Page::PLAIN);
    let mut reader = quick_xml::Reader::from_str(&svg);
    while reader.read_event().expect("XML") != quick_xml::events::Event::Eof {}
    // 400, 600, 1,500, 1,300 and 30 samples of 1 ms, with slight variation from run to run.
    assert!(svg.contains("<title>all (3,8"), "{svg}");
    assert!(svg.contains("fast (6") && svg.contains("base 5.0") && !svg.contains("tidy ("), "{svg}");
    // The colour of a box corresponds to its change.
    let fill = |name: &str| {
        let (_, from) =
            svg.split_once(&format!("<title>{name} (")).unwrap_or_else(|| panic!("{name} in {svg}"));
        from.split_once("fill=\"").unwrap().1.split_once('"').unwrap().0.to_owned()
    };
    assert_eq!(fill("fast"), "#c2a5cf", "it is new");
    let tones = ["#4393c3", "#92c5de", "#d1e5f0", "#d0d0d0", "#fddbc7", "#f4a582", "#d6604d"];
    let boxes = svg.matches("<title>").count();
    assert!(
        tones.iter().map(|tone| svg.matches(&format!("fill=\"{tone}\"")).count()).sum::<usize>() >= boxes - 1
    );
    assert!(svg.contains("<g id=\"legend\"") && svg.contains("noise or untested"), "{svg}");
}

#[test]
fn a_graph_says_what_it_leaves_out() {
    let graph = |options: DiffOptions| {
        let (comparison, verdicts) = compared(sides(5), &options);
        render(&comparison, &verdicts, &options, &Page::PLAIN).unwrap().notes
    };
    let svg = DiffOptions { format: DiffFormat::Svg, ..options() };
    assert_eq!(graph(svg.clone()), ["left out: 1 box gone from the new side (base 0.50 s)"]);
    let notes = graph(DiffOptions { min_percent: Some(20.0), ..svg });
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[1].starts_with("left out: 3 boxes under 20% of the width or deeper than 1,000 frames"),
        "{notes:?}"
    );
    assert!(notes[1].ends_with("; their callers have their time"), "{notes:?}");
    assert!(graph(options()).is_empty(), "text has all of it");
}
