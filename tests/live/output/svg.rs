//! The flame graph in a browser: `prof export` writes it, headless Chromium opens it, and a script that is
//! added to a copy clicks and searches as a person would.

use crate::chromium;
use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::Recording;
use serde_json::Value;
use std::fs;

/// What a person does, and what is there to be seen then.
const USER: &str = r#"
    const frames = () => [...document.getElementById("frames").children];
    const title = g => g.querySelector("title").textContent;
    const called = name => frames().find(g => title(g).startsWith(name));
    const width = g => parseFloat(g.querySelector("rect").getAttribute("width"));
    const shown = g => getComputedStyle(g).display !== "none";
    const click = node => node.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    seen.titles = frames().map(title);
    const thirty = called("share_thirty"), fifty = called("share_fifty");
    seen.width_before = width(thirty);
    thirty.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
    seen.details = document.getElementById("details").textContent;
    click(thirty.querySelector("rect"));
    seen.width_zoomed = width(thirty);
    seen.other_shown_zoomed = shown(fifty);
    click(document.getElementById("unzoom"));
    seen.width_after = width(thirty);
    seen.other_shown_after = shown(fifty);
    window.prompt = () => errors.push("a dialog");
    click(document.getElementById("search"));
    const input = document.querySelector('#find input');
    input.value = "share_fifty";
    input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    seen.matched = document.getElementById("matched").textContent;
    const fill = g => g.querySelector("rect").getAttribute("fill");
    seen.fill_found = fill(fifty);
    seen.fill_not_found = fill(thirty);
"#;

fn assert_usable(seen: &Value) {
    let number = |name: &str| seen[name].as_f64().unwrap_or_else(|| panic!("no {name} in {seen}"));
    let (before, zoomed, after) = (number("width_before"), number("width_zoomed"), number("width_after"));
    assert!((15.0..45.0).contains(&before), "share_thirty is {before} % wide");
    assert!(zoomed > 99.0, "a click did not zoom: {zoomed} %");
    assert!((after - before).abs() < 0.1, "reset left {after} %, not {before} %");
    assert_eq!(seen["other_shown_zoomed"], false, "zooming left other frames on the screen");
    assert_eq!(seen["other_shown_after"], true, "reset did not bring them back");
    let details = seen["details"].as_str().unwrap_or_default();
    assert!(details.contains("share_thirty"), "the pointer's details are: {details}");
    let matched = seen["matched"].as_str().unwrap_or_default();
    let share = matched.split_once(": ").and_then(|(_, share)| share.trim_end_matches('%').parse().ok());
    assert!(share.is_some_and(|share: f64| (30.0..70.0).contains(&share)), "search found: {matched}");
    assert_ne!(seen["fill_found"], seen["fill_not_found"], "what was found has no colour of its own");
}

#[test]
fn a_flame_graph_zooms_and_searches_in_a_browser() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let recording = Recording::with(["--", program, "2"]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let svg = folder.path().join("flame.svg");
    recording.export(&svg);
    let text = fs::read_to_string(&svg).expect("the flame graph was written");
    assert_no_reference_outside(&text);
    let Some(seen) = chromium::seen(&svg, "", USER) else { return };
    assert_usable(&seen);
    // Seconds, not a bare number of samples.
    let titles = seen["titles"].as_array().expect("titles were collected");
    assert!(titles.iter().all(|title| title.as_str().is_some_and(|text| text.contains('%'))), "{titles:?}");
}

/// A flame graph has to work without network access.
fn assert_no_reference_outside(svg: &str) {
    for reference in ["src=\"http", "href=\"http", "url(http", "@import", "src=\"//", "href=\"//"] {
        assert!(!svg.contains(reference), "the flame graph refers to something outside: {reference}");
    }
}
