//! Compares the screen with the report of the same recording, to the last digit that either prints.

use super::screen::{PLAIN, TestScreen};
use crate::report::tests::fixture::ingest;
use crate::report::tests::fixture_waits::waiting;
use crate::report::{
    Analysis, BoxOf, CommonOptions, Direction, Format, LabelKind, Metric, NamePattern, NameStyle, NodeId,
    Page, ReportOptions, ReportView, ThreadFilter, ThreadSplit, render,
};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::tree_path::TreePath;
use serde_json::Value;
use std::sync::Arc;

fn cases() -> [(Analysis, Metric); 4] {
    [
        (ingest(), Metric::ON_CPU),
        (waiting(), Metric::ON_CPU),
        (waiting(), Metric::OFF_CPU),
        (waiting(), Metric::WALL),
    ]
}

/// Options for one metric, with full names.
fn common(metric: Metric) -> CommonOptions {
    CommonOptions { metric: Some(metric), names: Some(NameStyle::Full), ..CommonOptions::default() }
}

/// A screen wide enough that no number and no name is cut.
fn wide(recording: &Analysis, common: &CommonOptions) -> TestScreen {
    TestScreen::with(recording.clone(), common.clone(), 240, 60)
}

/// The output of `prof report` with nothing left out.
fn report(recording: &Analysis, common: &CommonOptions, view: ReportView, format: Format) -> String {
    let (rows, min_percent) = (Some(0), Some(0.0));
    let options =
        ReportOptions { common: common.clone(), view, format, rows, min_percent, ..Default::default() };
    render(recording, &options, &Page { width: 240, ..Page::PLAIN }).unwrap()
}

fn json(recording: &Analysis, common: &CommonOptions, view: ReportView) -> Vec<Value> {
    let rows = match view {
        ReportView::Peek(_) => "peek",
        ReportView::Threads => "thread_rows",
        _ => "tree",
    };
    let text = report(recording, common, view, Format::Json);
    let report: Value = serde_json::from_str(&text).unwrap();
    report[rows].as_array().unwrap().clone()
}

/// Names of the threads: roots of the call tree on the screen, absent from the tree of the report.
fn threads(recording: &Analysis, common: &CommonOptions) -> Vec<String> {
    let screen = wide(recording, common);
    let picture = screen.app.context.picture.as_ref().unwrap();
    let roots = picture.tree.roots().iter();
    roots.map(|id| picture.labels.get(picture.tree.node(*id).label).name.clone()).collect()
}

/// The details of the selection: its name and its numbers.
fn details(screen: &TestScreen) -> [String; 2] {
    let text = screen.text(&PLAIN);
    let lines: Vec<&str> = text.lines().collect();
    [lines[lines.len() - 3].to_owned(), lines[lines.len() - 2].to_owned()]
}

/// The text between `from` and `to`.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let Some((_, text)) = text.split_once(from) else { return "" };
    text.split_once(to).map_or(text, |(text, _)| text).trim()
}

/// Detail 25 of the promises: idle time is hidden but counted, and widths are time.
#[test]
fn every_box_has_the_numbers_of_the_tree_of_the_report() {
    let mut compared = 0;
    for (recording, metric) in cases() {
        for thread in threads(&recording, &common(metric)) {
            for (direction, view) in
                [(Direction::TopDown, ReportView::Tree), (Direction::BottomUp, ReportView::BottomUp)]
            {
                let mut common = common(metric);
                let text = format!("^{}$", regex::escape(&thread));
                common.filter.threads =
                    vec![ThreadFilter::Matching(NamePattern { text, threads: ThreadSplit::Name })];
                // On the screen, percentages are relative to the filtered total.
                common.filter.relative = true;
                let rows = json(&recording, &common, view.clone());
                let text = report(&recording, &common, view, Format::Text);
                let printed: Vec<&str> = text
                    .lines()
                    .skip_while(|line| !line.contains("TOTAL%"))
                    .skip(1)
                    .take(rows.len())
                    .collect();
                let mut screen = wide(&recording, &common);
                if direction == Direction::BottomUp {
                    screen.keys("i");
                }
                let picture = Arc::clone(screen.app.context.picture.as_ref().unwrap());
                let is_call =
                    |id: &NodeId| picture.labels.get(picture.tree.node(*id).label).kind != LabelKind::Task;
                let nodes: Vec<NodeId> = picture.tree.walk(|_| true).into_iter().filter(is_call).collect();
                assert_eq!(nodes.len(), rows.len(), "{text}");
                for ((id, row), line) in nodes.into_iter().zip(&rows).zip(printed) {
                    let node = picture.tree.node(id);
                    let label = picture.labels.get(node.label);
                    assert_eq!(row["function"], label.name.as_str(), "{line}");
                    assert_eq!(row["module"], label.module.as_str());
                    assert_eq!(row["total"], node.total.weight);
                    assert_eq!(row["samples"], node.total.samples);
                    assert_eq!(
                        (&row["is_inlined"], &row["is_kernel"]),
                        (&Value::from(node.is_inlined), &Value::from(node.is_kernel))
                    );
                    if direction == Direction::TopDown {
                        assert_eq!(row["self"], picture.tree.own(id).weight);
                    }
                    screen.app.views.flame.selected = picture.path_of(&BoxOf::Node(id));
                    screen.app.views.flame.zoom = screen.app.views.flame.selected.clone();
                    let [name, numbers] = details(&screen);
                    assert!(name.starts_with(&format!(" {}", label.name)), "{name}");
                    let name = &label.name;
                    assert!(screen.text(&PLAIN).contains(&format!("\n▏{name}")), "{}", screen.text(&PLAIN));
                    let own = between(&numbers, "self ", " ");
                    let (share, time) = between(&numbers, "total ", "   ").split_once(' ').unwrap();
                    let shown = format!("{share:>8} {own:>7} {time:>9}  ");
                    assert!(line.starts_with(&shown) && line.contains(name.as_str()), "{line}\n{numbers}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

/// Detail 20 of the promises: callers and callees, inverted stacks, and shares of the zoom.
#[test]
fn callers_and_callees_have_the_numbers_of_peek() {
    let mut compared = 0;
    for (recording, metric) in cases() {
        let common = common(metric);
        let mut screen = wide(&recording, &common);
        screen.act(&Action::Open(Tab::Callers));
        let table = screen.app.context.picture.as_ref().unwrap().table.rows.clone();
        for row in table {
            let label = screen.app.context.picture.as_ref().unwrap().labels.get(row.label).clone();
            if !matches!(label.kind, LabelKind::Program | LabelKind::Library | LabelKind::Kernel) {
                continue;
            }
            screen.app.views.callers.set_pivot(&mut screen.app.context, label.key());
            screen.compute();
            let picture = Arc::clone(screen.app.context.picture.as_ref().unwrap());
            let pivot = picture.pivot.as_ref().unwrap();
            let view = ReportView::Peek(format!("^{}$", regex::escape(&label.name)));
            let found = json(&recording, &common, view.clone());
            let is_it = |row: &&Value| row["module"] == label.module.as_str();
            let found = found.iter().find(is_it).unwrap();
            assert_eq!(found["self"], pivot.sandwich.own.weight);
            assert_eq!(found["total"], pivot.sandwich.total.weight);
            // The pivot line, and the heading of the report.
            let text = report(&recording, &common, view, Format::Text);
            let screen_text = screen.text(&PLAIN);
            let middle = screen_text.lines().find(|line| line.starts_with(" PIVOT")).unwrap();
            let own = between(middle, "  self ", " ");
            let total = between(middle, "  total ", "  ").replacen(' ', "  ", 1);
            let heading = format!("self {own}  total {total}");
            assert!(text.lines().any(|line| line.ends_with(&heading)), "{middle}\n{text}");
            if !pivot.sandwich.recursive.is_empty() {
                continue;
            }
            for (key, side) in [('↑', "callers"), ('↓', "callees")] {
                let neighbours: Vec<&Value> = (found[side].as_array().unwrap().iter())
                    .filter(|row| !row["function"].is_null())
                    .collect();
                let tree = if key == '↑' { &pivot.sandwich.callers } else { &pivot.sandwich.callees };
                let ids = tree.children(tree.roots()[0]);
                assert_eq!(ids.len(), neighbours.len(), "{side} of {}: {text}", label.name);
                // From the widest box to the right, in the order of the report.
                screen.app.views.callers.selected = TreePath::ALL;
                screen.keys(&key.to_string());
                for (id, neighbour) in ids.iter().zip(neighbours) {
                    let node = tree.node(*id);
                    let name = &picture.labels.get(node.label).name;
                    assert_eq!(neighbour["function"], name.as_str());
                    assert_eq!(neighbour["total"], node.total.weight);
                    let [heading, numbers] = details(&screen);
                    if heading.starts_with(" … ") {
                        // The remaining boxes are too narrow for details of their own.
                        break;
                    }
                    assert!(heading.starts_with(&format!(" {name}")), "{heading} is not {name}");
                    let time = between(&numbers, "pivot, ", ",");
                    let line = format!(" {time:>9}  {name}");
                    assert!(text.contains(&line), "{line}\n{numbers}\n{text}");
                    compared += 1;
                    screen.keys("→");
                }
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn every_thread_has_the_numbers_of_the_report() {
    for (recording, metric) in cases() {
        let common = common(metric);
        let mut screen = wide(&recording, &common);
        screen.keys("5");
        let rows = json(&recording, &common, ReportView::Threads);
        let shown = screen.text(&PLAIN);
        let report = report(&recording, &common, ReportView::Threads, Format::Text);
        let table = |text: &str| -> Vec<Vec<String>> {
            let rows = text.lines().skip_while(|line| !line.trim_start().starts_with("THREAD ")).skip(1);
            let cells = |line: &str| -> Vec<String> {
                let words = line.trim_start_matches(['>', ' ']).split("  ").map(str::trim);
                words.filter(|word| !word.is_empty()).map(|word| word.replace(" ×2", "")).collect()
            };
            let is_row = |line: &&str| line.contains("  ") && !line.starts_with("NOTE");
            rows.take_while(is_row).map(cells).collect()
        };
        let (ours, theirs) = (table(&shown), table(&report));
        assert_eq!((ours.len(), theirs.len()), (rows.len(), rows.len()), "{shown}\n{report}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            // The last column is cut by different rules.
            let cells = ours.len().min(theirs.len()) - 1;
            assert!(cells >= 4, "{ours:?}");
            assert_eq!(ours[..cells], theirs[..cells], "{shown}\n{report}");
        }
    }
}
