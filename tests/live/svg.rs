//! The flame graph in a browser: `prof export` writes it, headless Chromium opens it, and a script that is
//! added to a copy clicks and searches as a person would.

use super::fixture;
use super::machine::{skip, tool, turn};
use super::profiler::Recording;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs after the page's own scripts, and leaves what it saw in the `data-seen` attribute of the root.
const USER: &str = r#"<script><![CDATA[
window.addEventListener("load", () => setTimeout(() => {
    const seen = { errors };
    const frames = () => [...document.getElementById("frames").children];
    const title = g => g.querySelector("title").textContent;
    const called = name => frames().find(g => title(g).startsWith(name));
    const width = g => parseFloat(g.querySelector("rect").getAttribute("width"));
    const shown = g => getComputedStyle(g).display !== "none";
    const click = node => node.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    try {
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
    } catch (error) {
        errors.push(String(error));
    }
    document.documentElement.setAttribute("data-seen", encodeURIComponent(JSON.stringify(seen)));
}, 200));
]]></script>"#;

/// Runs before them.
const WATCH: &str = r#"<script><![CDATA[
const errors = [];
window.addEventListener("error", event => errors.push(event.message));
]]></script>"#;

fn chromium() -> Option<Command> {
    let Some(program) = ["chromium", "chromium-browser"].into_iter().find_map(tool) else {
        return skip("chromium is not installed");
    };
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg("50").arg(program);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        // Nothing but the file itself may be needed.
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000",
    ]);
    Some(command)
}

/// Opens `page` and returns what the added script saw.
fn watch(page: &Path, state: &Path) -> Option<Value> {
    let output = chromium()?
        .arg(format!("--user-data-dir={}", state.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("`timeout` can be run");
    let dom = String::from_utf8_lossy(&output.stdout);
    let seen = dom.split_once("data-seen=\"").and_then(|(_, rest)| rest.split_once('"'));
    let Some((seen, _)) = seen else {
        panic!("the page's scripts did not run:\n{dom}\n{}", String::from_utf8_lossy(&output.stderr))
    };
    Some(serde_json::from_str(&percent_decode(seen)).expect("the added script writes JSON"))
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).expect("encodeURIComponent writes UTF-8")
}

/// The copy of a flame graph with the two scripts.
fn with_user(svg: &str) -> String {
    let root = svg.find("<svg").expect("an SVG has a root");
    let start = root + svg[root..].find('>').expect("the root's tag ends") + 1;
    let end = svg.rfind("</svg>").expect("an SVG ends");
    [&svg[..start], WATCH, &svg[start..end], USER, &svg[end..]].concat()
}

fn assert_usable(seen: &Value) {
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "scripts failed");
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
    if chromium().is_none() {
        return;
    }
    let Some(program) = fixture::build("shares") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let recording = Recording::with(["--", program, "2"]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let svg = folder.path().join("flame.svg");
    recording.export(&svg);
    let text = fs::read_to_string(&svg).expect("the flame graph was written");
    assert_no_reference_outside(&text);
    let page = folder.path().join("page.svg");
    fs::write(&page, with_user(&text)).expect("a temporary file can be written");
    let Some(seen) = watch(&page, &folder.path().join("state")) else { return };
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
