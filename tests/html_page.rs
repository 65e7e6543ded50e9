//! The HTML page, and the flame graph as SVG, in a browser: `prof export` writes it of a recording that is made here, headless
//! Chromium opens it, and a script that is added to a copy types and clicks as a person would.

#![allow(clippy::unwrap_used, reason = "all of it is test code; the lint only spares `#[test]` functions")]

use browser::{exported, exported_as, frame, recording};
use chromium::seen;
use demo_profile::PERIOD_NS;
use prof::internals::profile::{FrameId, Profile, Sample, Task};
use serde_json::Value;
use std::fs;
use std::process::Command;

#[path = "support/browser.rs"]
mod browser;
#[path = "support/chromium.rs"]
mod chromium;
#[path = "support/demo_profile.rs"]
mod demo_profile;
mod support;

fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn the_keyboard_and_the_search_work() {
    let folder = tempfile::tempdir().unwrap();
    let page = exported(recording(), folder.path());
    let script = r#"
        seen.title = document.title;
        seen.first = rows()[0];
        seen.noun = text("noun");
        // Else that is a matter of when the browser draws.
        graph.draw();
        seen.drawn = graph.drawn;
        seen.threads = names_at(graph.layers[0], 1);
        press("ArrowUp"); press("ArrowUp"); press("ArrowUp"); press("ArrowUp");
        seen.details = text("details");
        press("Enter");
        seen.trail = text("trail");
        seen.zoomed = text("details");
        seen.hash = location.hash;
        press("ArrowUp");
        seen.above = text("details");
        press("Escape");
        seen.hash_after = location.hash;
        seen.trail_after = text("trail");
        seen.magenta_before = pixels([230, 0, 230]);
        type("HASH");
        seen.none = text("found");
        type("hash|walk");
        seen.found = text("found");
        seen.found_rows = rows().map((row) => row[6]);
        seen.magenta = pixels([230, 0, 230]);
        press("n");
        seen.next = text("details");
        type("(");
        seen.problem = text("found");
        seen.is_invalid = document.getElementById("search").getAttribute("aria-invalid");
        seen.all_rows = rows().length;
        type("");
        seen.is_valid = document.getElementById("search").getAttribute("aria-invalid");
        document.getElementById("theme").click();
        seen.theme = [document.documentElement.className, pixels([23, 25, 29]) > 1000];
    "#;
    let Some(seen) = seen(&page, "", script) else { return };
    assert_eq!(seen["title"], "ingest on-CPU, 2.00 s");
    let samples = |n: u64| format!("{:.1} ms", (n * PERIOD_NS) as f64 / 1e6);
    let first = list(&seen["first"]);
    assert_eq!(first[..7], ["66.7%", "8.4", &samples(80), "66.7%", &samples(80), "80", "hash"]);
    assert_eq!(first[7..], ["ingest", "/src/ingest.c:7"]);
    assert_eq!(seen["noun"], "samples");
    assert!(seen["drawn"].as_u64().unwrap() >= 10, "{seen}");
    let total = |n: u64| n * PERIOD_NS;
    assert_eq!(seen["threads"], serde_json::json!([["worker-# ×2", total(110)], ["ingest", total(10)]]));
    // The root, the heaviest thread class, main and run.
    let details = seen["details"].as_str().unwrap();
    assert!(
        details.starts_with("run  /usr/bin/ingest  /src/ingest.c:7total 110 ms  ·  91.7% of all"),
        "{details}"
    );
    assert!(details.ends_with("110 samples"), "{details}");
    assert_eq!(seen["trail"], "all › worker-# ×2 › main › run");
    assert!(seen["zoomed"].as_str().unwrap().contains("100.0% of zoom"));
    let above = seen["above"].as_str().unwrap();
    assert!(above.starts_with("hash  ") && above.contains("66.7% of all  ·  72.7% of zoom"), "{above}");
    assert!(seen["hash"].as_str().unwrap().starts_with("#zoom="), "{seen}");
    assert_eq!((&seen["hash_after"], &seen["trail_after"]), (&"".into(), &"".into()));
    assert_eq!(seen["none"], "no match", "capitals are meant");
    assert!(seen["found"].as_str().unwrap().starts_with("75.0% of all  (4 boxes)"), "{}", seen["found"]);
    assert_eq!(list(&seen["found_rows"]), ["hash", "walk"]);
    assert_eq!(seen["magenta_before"], 0);
    assert!(seen["magenta"].as_u64().unwrap() > 1000);
    assert!(
        seen["next"].as_str().unwrap().starts_with("hash")
            || seen["next"].as_str().unwrap().starts_with("walk")
    );
    assert!(seen["problem"].as_str().unwrap().contains("Unterminated group"), "{}", seen["problem"]);
    assert_eq!((&seen["is_invalid"], &seen["is_valid"]), (&"true".into(), &"false".into()));
    assert_eq!(seen["all_rows"], 5, "a search that is none hides nothing");
    assert_eq!(seen["theme"], serde_json::json!(["dark", true]));
}

#[test]
fn a_link_restores_what_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let page = exported(recording(), folder.path());
    let script = r#"
        seen.metric = document.getElementById("event").selectedOptions[0].textContent;
        seen.title = document.title;
        seen.trail = text("trail");
        seen.search = document.getElementById("search").value;
        seen.found = text("found");
        seen.noun = text("noun");
        seen.legend = text("legend");
        seen.threads = document.getElementById("threads").value;
        seen.icicle = document.getElementById("icicle").getAttribute("aria-pressed");
        seen.hash = location.hash;
        location.hash = '#metric=wall&view=callers';
        window.dispatchEvent(new HashChangeEvent("hashchange"));
        seen.callers = names_at(graph.layers[0], 1);
        seen.waiting = text("legend");
    "#;
    let hash = "#metric=off-cpu&zoom=pthread_mutex_lock&search=futex&threads=%3Dworker-1&root=above";
    let Some(seen) = seen(&page, hash, script) else { return };
    assert_eq!(seen["metric"], "off-CPU  120 ms");
    assert_eq!(seen["title"], "ingest off-CPU, 2.00 s");
    assert_eq!(seen["trail"], "all › worker-1 › main › run › pthread_mutex_lock");
    assert_eq!(seen["search"], "futex");
    assert_eq!(seen["found"], "100.0% of all, 100.0% of zoom  (1 box)");
    assert_eq!((&seen["noun"], &seen["threads"]), (&"waits".into(), &"=worker-1".into()));
    assert_eq!(seen["icicle"], "true");
    let legend = seen["legend"].as_str().unwrap();
    assert!(
        legend.contains("lock") && legend.contains("kernel, waiting") && !legend.contains("JIT"),
        "{legend}"
    );
    let now = seen["hash"].as_str().unwrap();
    assert!(now.contains("metric=off-cpu") && now.contains("search=futex") && now.contains("zoom="), "{now}");
    let callers = seen["callers"].as_array().unwrap();
    assert_eq!(callers[0], serde_json::json!(["[lock]", 120_000_000]));
    assert_eq!(callers[1], serde_json::json!(["hash", 80 * PERIOD_NS]));
}

/// Without a clipboard, as on a page from a server without https, what would be in it is shown.
#[test]
fn names_and_stacks_are_copied_and_stacks_are_inverted_by_a_button() {
    let folder = tempfile::tempdir().unwrap();
    let page = exported(recording(), folder.path());
    let script = r#"
        const copied = [];
        const clipboard = (value) => Object.defineProperty(navigator, "clipboard", { value, configurable: true });
        clipboard({ writeText: (text) => copied.push(text) });
        select({ layer: graph.layers[0], i: graph.layers[0].boxes.at.findIndex((_, i) => graph.name(graph.layers[0], i) === "hash") });
        press("y");
        press("Y");
        seen.copied = copied;
        clipboard(undefined);
        press("y");
        seen.said = text("toast");
        document.getElementById("callers").click();
        seen.callers = names_at(graph.layers[0], 1)[0][0];
        seen.pressed = ["calls", "callers"].map((id) => document.getElementById(id).getAttribute("aria-pressed"));
        seen.legend = text("legend");
    "#;
    let Some(seen) = seen(&page, "", script) else { return };
    assert_eq!(list(&seen["copied"]), ["hash", "worker-# ×2\nmain\nrun\nhash"]);
    assert_eq!(seen["said"], "hash");
    assert_eq!(seen["callers"], "hash");
    assert_eq!(list(&seen["pressed"]), ["false", "true"]);
    assert!(seen["legend"].as_str().unwrap().contains("own code"), "{}", seen["legend"]);
}

#[test]
fn every_tree_and_table_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    // Deep, with many boxes, so that some are left out.
    for (profile, is_whole) in
        [(recording(), true), (demo_profile::steady(), true), (demo_profile::compiler(), false)]
    {
        let page = exported(profile, folder.path());
        let script = r#"
            const whole_of = (layer) => layer.boxes.total[0];
            seen.events = data.events.map((event, at) => {
                to_event(at);
                change({ threads: "merged", direction: "calls" });
                const of_rows = rows_of(event, "class");
                const counted = new Map(counted_rows(event, threads_of(event, "each")).map((row) => [row.label, row]));
                const wrong = of_rows.filter((row) => { const own = counted.get(row.label); return !own || own.own !== row.own || own.total !== row.total || Math.abs(own.n - row.n) > 1e-6; }).length;
                const calls = whole_of(graph.layers[0]);
                const { boxes } = graph.layers[0];
                let overlapping = 0;
                for (let i = 1; i < boxes.size; i++) {
                    const up = boxes.up[i];
                    if (boxes.x[i] < boxes.x[up] - 1 || boxes.x[i] + boxes.total[i] > boxes.x[up] + boxes.total[up] + 1) overlapping++;
                    if (boxes.depth[i] === boxes.depth[i - 1] && boxes.x[i] < boxes.x[i - 1] + boxes.total[i - 1] - 1) overlapping++;
                }
                const left_out = event.left_out.boxes;
                const heaviest = of_rows[0];
                show_sandwich(heaviest.label);
                const [above, below] = graph.layers;
                const sandwich = [whole_of(above), whole_of(below), below.samples[0]];
                change({ direction: "callers" });
                const own = new Map(names_at(graph.layers[0], 1));
                const self = own.get(graph.name({ boxes: { text: [], at: [heaviest.label << 2] } }, 0));
                graph.draw();
                return { total: event.total, calls, callers: whole_of(graph.layers[0]), wrong, overlapping, left_out,
                    sandwich, heaviest: [heaviest.own, heaviest.total], self, boxes: boxes.size, drawn: graph.drawn };
            });
        "#;
        let Some(seen) = seen(&page, "", script) else { return };
        for event in seen["events"].as_array().unwrap() {
            let total = event["total"].as_f64().unwrap();
            assert_eq!(event["calls"].as_f64(), Some(total), "{event}");
            assert_eq!(event["overlapping"], 0, "{event}");
            assert_eq!(event["left_out"].as_u64() == Some(0), is_whole, "{event}");
            if is_whole {
                assert_eq!(event["wrong"], 0, "the browser counts other rows than prof: {event}");
                assert_eq!(event["callers"].as_f64(), Some(total), "{event}");
                assert_eq!(event["sandwich"][0], event["heaviest"][1], "{event}");
                assert_eq!(event["sandwich"][1], event["heaviest"][1], "{event}");
                assert_eq!(event["self"], event["heaviest"][0], "{event}");
            } else {
                assert!(event["boxes"].as_u64().unwrap() > 60_000, "{event}");
            }
            assert!(event["drawn"].as_u64().unwrap() > 0, "{event}");
        }
    }
}

#[test]
fn wide_names_are_cut_between_characters() {
    let folder = tempfile::tempdir().unwrap();
    let page = exported(recording(), folder.path());
    let script = r#"
        const label = labels.name.findIndex((_, label) => full_name(label).startsWith("日本語"));
        const name = full_name(label);
        seen.cuts = [20, 40, 80, 160, 240, 320, 900].map((room) => {
            const cut = graph.fitter.fit(name, room);
            return [cut, graph.context.measureText(cut).width <= room];
        });
        seen.pieces = [...graphemes(name)].map((piece) => piece);
        seen.name = name;
    "#;
    let Some(seen) = seen(&page, "", script) else { return };
    let pieces = list(&seen["pieces"]);
    let mut starts = vec![String::new()];
    for piece in &pieces {
        starts.push(format!("{}{piece}", starts.last().unwrap()));
    }
    assert!(pieces.contains(&"👩‍👩‍👧‍👦"), "a family is one character: {pieces:?}");
    for cut in seen["cuts"].as_array().unwrap() {
        let (text, fits) = (cut[0].as_str().unwrap(), &cut[1]);
        assert_eq!(fits, true, "{text} is too wide");
        let start = text.strip_suffix('…').unwrap_or(text);
        assert!(starts.iter().any(|whole| whole == start), "{text} is cut inside of a character");
    }
    assert_eq!(seen["cuts"][6][0], seen["name"], "there is room for all of it");
}

#[test]
fn threads_are_chosen_by_class_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let page = exported(recording(), folder.path());
    let script = r#"
        seen.choices = [...document.getElementById("threads").options].map((option) => option.value);
        choose("threads", "~worker-#");
        seen.class = [names_at(graph.layers[0], 1), rows().map((row) => [row[6], row[0], row[5]])];
        choose("threads", "=worker-2");
        seen.one = rows().map((row) => [row[6], row[0], row[5]]);
        choose("threads", "merged");
        seen.merged = names_at(graph.layers[0], 1).map(([name]) => name);
        seen.whole = rows().length;
    "#;
    let Some(seen) = seen(&page, "", script) else { return };
    assert_eq!(
        list(&seen["choices"]),
        ["class", "each", "merged", "~worker-#", "=worker-1", "=worker-2", "=ingest"]
    );
    let samples = |n: u64| n * PERIOD_NS;
    assert_eq!(seen["class"][0], serde_json::json!([["worker-1", samples(90)], ["worker-2", samples(20)]]));
    assert_eq!(seen["class"][1][0], serde_json::json!(["hash", "72.7%", "80"]));
    assert_eq!(
        seen["one"],
        serde_json::json!([["hash", "100.0%", "20"], ["main", "0.0%", "0"], ["run", "0.0%", "0"]])
    );
    assert_eq!(seen["merged"], serde_json::json!(["main"]));
    assert_eq!(seen["whole"], 5);
}

/// `recording` with threads whose names differ in numbers that are not folded, or that are alone.
fn recording_of_many_threads() -> Profile {
    let mut profile = recording();
    let process = profile.tables.intern_string("ingest");
    let sample = profile.events[0].samples().next().expect("there is one");
    for (number, name) in
        ["C1 CompilerThre", "C2 CompilerThre", "G1 Conc#0", "G1 Conc#1", "timer-9"].iter().enumerate()
    {
        let comm = profile.tables.intern_string(name);
        let tid = 5000 + number as u32;
        let task = profile.tables.intern_task(Task { pid: 4312, tid, generation: 0, comm, process });
        profile.events[0].push(Sample { task, ..sample });
    }
    profile
}

#[test]
fn classes_of_threads_are_those_of_the_reports() {
    let folder = tempfile::tempdir().unwrap();
    let page = exported(recording_of_many_threads(), folder.path());
    let report = Command::new(env!("CARGO_BIN_EXE_prof"))
        .args(["report", "--tree", "--threads=class", "--on-cpu", "--json"])
        .arg(folder.path().join("made.data"))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let mut expected: Vec<&str> = report["tree"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["depth"] == 0)
        .map(|row| row["function"].as_str().unwrap())
        .collect();
    expected.sort_unstable();
    assert!(expected.contains(&"G1 Conc# ×2") && expected.contains(&"timer-9"), "{expected:?}");
    let script = r#"
        const names = (depth) => names_at(graph.layers[0], depth).map(([name]) => name).sort();
        seen.classes = names(1);
        choose("threads", "~G1 Conc#");
        seen.of_class = names(1);
        choose("threads", "class");
        change({ direction: "callers" });
        seen.callers = [...new Set(graph.layers[0].boxes.text)].filter((text) => text).sort();
    "#;
    let Some(seen) = seen(&page, "", script) else { return };
    let mut classes = list(&seen["classes"]);
    classes.sort_unstable();
    assert_eq!(classes, expected);
    assert_eq!(list(&seen["of_class"]), ["G1 Conc#0", "G1 Conc#1"]);
    assert_eq!(list(&seen["callers"]), ["G1 Conc# ×2", "all", "worker-# ×2"]);
}

#[test]
fn without_scripts_there_is_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let page = exported(recording(), folder.path());
    let text = fs::read_to_string(&page).unwrap();
    // A document that is only parsed runs no scripts, and shows what is there without them.
    let text = serde_json::to_string(&text).unwrap().replace('<', "\\u003c");
    let script = format!(
        "const parsed = new DOMParser().parseFromString({text}, 'text/html');
        seen.note = parsed.querySelector('noscript').textContent;
        seen.rows = [...parsed.querySelectorAll('#rows tr')].map(row => [...row.cells].map(cell => cell.textContent));
        seen.hidden = [...parsed.querySelectorAll('[hidden]')].map(element => element.id);
        seen.facts = parsed.querySelector('#facts').textContent;
        seen.scripts = parsed.querySelectorAll('script').length;"
    );
    let Some(seen) = seen(&page, "", &script) else { return };
    assert!(seen["note"].as_str().unwrap().starts_with("Scripts are off"));
    assert_eq!(list(&seen["rows"][0])[..3], ["66.7%", "8.4", "80.1 ms"]);
    assert_eq!(list(&seen["rows"][0])[6..], ["hash", "/usr/bin/ingest", "/src/ingest.c:7"]);
    assert_eq!(seen["rows"].as_array().unwrap().len(), 5);
    assert_eq!(list(&seen["hidden"]), ["controls", "graph", "more", "toast"]);
    assert!(seen["facts"].as_str().unwrap().contains("stacks 100.0% complete"), "{}", seen["facts"]);
    assert_eq!(seen["scripts"], 2);
}

#[test]
fn an_svg_keeps_its_controls_on_the_screen() {
    let folder = tempfile::tempdir().unwrap();
    let mut profile = recording();
    let frames: Vec<FrameId> =
        (0..90).map(|at| frame(&mut profile, "/usr/bin/ingest", &format!("deep_{at}"))).collect();
    let stack = profile.tables.intern_stack_of(frames);
    let sample = Sample { stack, ..profile.events[0].samples().next().expect("there is one") };
    (0..40).for_each(|_| profile.events[0].push(sample));
    let svg = exported_as(profile, folder.path(), "flame.svg");
    let script = r#"
        const node = (id) => document.getElementById(id);
        const group = (name) => [...node("frames").children].find((g) => g.querySelector("title").textContent.startsWith(name));
        const inside = (id) => { const y = parseFloat(node(id).getAttribute("y")) - window.scrollY; return y > 0 && y < window.innerHeight; };
        window.prompt = () => errors.push("a dialogue");
        seen.title = document.title;
        seen.role = document.documentElement.getAttribute("role");
        seen.is_inverted = inverted;
        seen.is_tall = parseFloat(document.documentElement.getAttribute("height")) > window.innerHeight;
        window.scrollTo(0, 500);
        window.dispatchEvent(new Event("scroll"));
        seen.scroll = window.scrollY;
        seen.inside = ["details", "search", "unzoom", "matched"].map(inside);
        node("search").dispatchEvent(new MouseEvent("click", { bubbles: true }));
        const input = node("find").querySelector("input");
        const enter = () => input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        input.value = "(";
        enter();
        seen.problem = text("matched");
        input.value = "nowhere";
        enter();
        seen.nothing = text("matched");
        input.value = "^hash";
        enter();
        seen.found = text("matched");
        seen.is_closed = node("find") === null;
        group("run (").querySelector("rect").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
        group("hash (").dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
        seen.details = text("details");
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
        const wide = group("👩");
        seen.name = wide.querySelector("title").textContent;
        const rect = wide.querySelector("rect"), label = wide.querySelector("text");
        seen.cuts = ["1%", "4%", "9%", "30%"].map((width) => {
            rect.setAttribute("width", width);
            update_text_for_elements([wide]);
            return [label.textContent, label.getComputedTextLength() <= parseFloat(width) * frames.getAttribute("width") / 100];
        });
    "#;
    let Some(seen) = seen(&svg, "", script) else { return };
    assert_eq!(seen["title"], "ingest on-CPU, 2.00 s");
    assert_eq!(seen["role"], "graphics-document document");
    assert_eq!(
        (&seen["is_inverted"], &seen["is_tall"]),
        (&true.into(), &true.into()),
        "90 frames are taller than a screen"
    );
    assert!(seen["scroll"].as_f64().unwrap() > 100.0, "{seen}");
    assert_eq!(seen["inside"], serde_json::json!([true, true, true, true]));
    assert!(seen["problem"].as_str().unwrap().starts_with("not searched: "), "{}", seen["problem"]);
    assert_eq!(seen["nothing"], "Matched: nothing");
    assert_eq!((&seen["found"], &seen["is_closed"]), (&"Matched: 50.0%".into(), &true.into()));
    // Each thread has a stack of its own: the first `run` is of worker-1, in which 60 of 90 samples are of `hash`.
    let details = seen["details"].as_str().unwrap();
    assert!(details.contains("hash (60.1 ms, 37.50%)") && details.ends_with("66.7% of zoom"), "{details}");
    for cut in seen["cuts"].as_array().unwrap() {
        let text = cut[0].as_str().unwrap();
        assert!(!text.contains('\u{fffd}'), "{text}");
        assert_eq!(cut[1], true, "{text} is too wide");
    }
}
