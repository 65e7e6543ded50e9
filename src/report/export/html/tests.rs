//! The whole page: the embedded data, and that names cannot break out of it.

use crate::profile::EventKind;
use crate::report::analysis::Analysis;
use crate::report::export::{ExportFormat, render as export};
use crate::report::options::{ExportOptions, Format, ThreadSplit};
use crate::report::tests::fixture::{Build, ingest};
use crate::report::tests::fixture_waits::waiting;
use crate::report::tests::hostile::{assert_harmless, hostile, hostile_waits, xml_texts};
use crate::report::{
    CommonOptions, FilterOptions, Metric, Page, ReportOptions, ReportView, ThreadFilter, TimeRange, render,
};
use serde_json::Value;

fn page(recording: &Analysis, options: &ExportOptions) -> String {
    String::from_utf8(export(recording, ExportFormat::HTML, options).unwrap()).unwrap()
}

/// The JSON document of a page, as text and parsed.
fn data(page: &str) -> (String, Value) {
    let (_, rest) = page.split_once("<script id=\"data\" type=\"application/json\">").unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    (text.to_owned(), serde_json::from_str(text).unwrap())
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Asserts that the page embeds what `report --json` prints with the same options: sums, and every row of the table.
fn assert_equals_report(recording: &Analysis, common: &CommonOptions) {
    let options = ExportOptions { common: common.clone(), ..ExportOptions::default() };
    let (_, data) = data(&page(recording, &options));
    let events = data["events"].as_array().unwrap();
    assert!(!events.is_empty());
    for event in events {
        let metric = Metric::named(event["id"].as_str().unwrap());
        let common = CommonOptions { metric: Some(metric), ..common.clone() };
        let options = ReportOptions {
            common,
            view: ReportView::Flat,
            format: Format::Json,
            ..ReportOptions::default()
        };
        let report: Value =
            serde_json::from_str(&render(recording, &options, &Page::PLAIN).unwrap()).unwrap();
        assert_eq!(event["total"], report["total"]);
        assert_eq!(event["samples"], report["samples"]);
        assert_eq!(event["unit"], report["unit"]);
        // A report also has hints on what to run next, which a page has no use for.
        let [of_page, of_report] = [&event["notes"], &report["notes"]].map(|notes| notes.as_array().unwrap());
        assert!(of_report.starts_with(of_page) && of_report.len() <= of_page.len() + 3, "{of_report:?}");
        let tree = &event["tree"];
        assert_eq!(numbers(&tree["own"]).iter().sum::<f64>(), report["total"].as_f64().unwrap());
        assert_eq!(tree["own"].as_array().unwrap().len(), tree["up"].as_array().unwrap().len());
        let rows = &event["rows"];
        let of_report = report["rows"].as_array().unwrap();
        assert_eq!(rows["label"].as_array().unwrap().len(), of_report.len());
        for (row, reported) in of_report.iter().enumerate() {
            let label = rows["label"][row].as_u64().unwrap() as usize;
            let labels = &data["labels"];
            let full = labels["full"][label].as_str().unwrap();
            let name = if full.is_empty() { labels["name"][label].as_str().unwrap() } else { full };
            assert_eq!(name, reported["function"]);
            let module = labels["module"][label].as_u64().unwrap() as usize;
            assert_eq!(labels["modules"][module], reported["module"]);
            assert_eq!((&rows["own"][row], &rows["total"][row]), (&reported["self"], &reported["total"]));
            assert_eq!(rows["n"][row].as_f64().unwrap().round() as u64, reported["count"].as_u64().unwrap());
            let place = rows["places"][rows["place"][row].as_u64().unwrap() as usize].as_str().unwrap();
            let line = reported["line"].as_u64().map_or(String::new(), |line| format!(":{line}"));
            assert_eq!(place, format!("{}{line}", reported["file"].as_str().unwrap_or_default()));
        }
    }
}

#[test]
fn totals_and_rows_are_those_of_the_report() {
    let filtered = |filter| CommonOptions { filter, ..CommonOptions::default() };
    for common in [
        CommonOptions::default(),
        CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() },
        CommonOptions { inline: false, ..CommonOptions::default() },
        filtered(FilterOptions { idle: true, ..FilterOptions::default() }),
        filtered(FilterOptions { focus: Some("handle_batch".into()), ..FilterOptions::default() }),
        filtered(FilterOptions { threads: vec![ThreadFilter::named("worker")], ..FilterOptions::default() }),
        filtered(FilterOptions {
            time: TimeRange { from_ns: Some(1_000_000_000), to_ns: Some(3_000_000_000) },
            ..FilterOptions::default()
        }),
    ] {
        assert_equals_report(&waiting(), &common);
    }
    assert_equals_report(&ingest(), &CommonOptions::default());
}

#[test]
fn the_event_that_was_asked_for_comes_first_and_the_others_are_there() {
    let ids = |metric| {
        let common = CommonOptions { metric, ..CommonOptions::default() };
        let (_, data) = data(&page(&waiting(), &ExportOptions { common, ..ExportOptions::default() }));
        let events = data["events"].as_array().unwrap();
        events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(None), ["on-cpu", "off-cpu", "wall"]);
    assert_eq!(ids(Some(Metric::WALL)), ["wall", "on-cpu", "off-cpu"]);
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 3, &["/x:main"]);
    build.counter(EventKind::counted("page-faults", "page faults"), task, [2, 100], &["/x:main", "/x:touch"]);
    let (_, data) = data(&page(&build.finish(), &ExportOptions::default()));
    let event = &data["events"][1];
    assert_eq!(
        (&event["id"], &event["unit"], &event["total"]),
        (&"page-faults".into(), &"count".into(), &200.into())
    );
}

#[test]
fn threads_that_are_one_are_one_box() {
    let start = |split| {
        let common = CommonOptions { threads: split, ..CommonOptions::default() };
        assert_equals_report(&ingest(), &common);
        let (_, data) = data(&page(&ingest(), &ExportOptions { common, ..ExportOptions::default() }));
        let tree = &data["events"][0]["tree"];
        let names = data["labels"]["name"].as_array().unwrap();
        // The children of the root: the rows after it, as long as their parent is box 0.
        let on_root = tree["up"].as_array().unwrap().iter().skip(1).take_while(|up| **up == 0).count();
        let label = |row: usize| tree["at"][row].as_u64().unwrap() as usize / 4;
        let shown: Vec<_> = (1..=on_root).map(|row| names[label(row)].as_str().unwrap().to_owned()).collect();
        (data["threads"].as_str().unwrap().to_owned(), shown.join(", "))
    };
    let expected = |threads: &str, shown: &str| (threads.to_owned(), shown.to_owned());
    assert_eq!(start(None), expected("class", "worker, ingest"));
    assert_eq!(start(Some(ThreadSplit::None)), expected("merged", "all threads"));
    assert_eq!(
        start(Some(ThreadSplit::Each)),
        expected("each", "worker (tid 4313), worker (tid 4314), ingest (tid 4312)")
    );
}

#[test]
fn the_embedded_document_of_the_demo() {
    let (text, _) = data(&page(&ingest(), &ExportOptions::default()));
    // One field per line, with the numbers of a column on the same line.
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION").replace(",\"", ",\n\"");
    insta::assert_snapshot!(text);
}

#[test]
fn equal_input_gives_equal_bytes() {
    let options = ExportOptions::default();
    assert_eq!(page(&waiting(), &options), page(&waiting(), &options));
}

#[test]
fn title_and_line_below_can_be_chosen() {
    let title = Some("A </title> & B".to_owned());
    let options = ExportOptions { title, no_meta: true, ..ExportOptions::default() };
    let page = page(&ingest(), &options);
    assert_eq!(xml_texts(&page, "title"), ["A </title> & B"]);
    assert!(!page.contains("prof record") && !page.contains("2026-11-21"));
}

#[test]
fn hostile_names_stay_names() {
    for recording in [hostile(), hostile_waits()] {
        let common = CommonOptions {
            filter: FilterOptions { idle: true, ..FilterOptions::default() },
            ..CommonOptions::default()
        };
        let page = page(&recording, &ExportOptions { common, ..ExportOptions::default() });
        let (text, data) = data(&page);
        assert_harmless(&text, "html data");
        assert_harmless(&page.replace('\t', " "), "html");
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        assert!(
            data["labels"]["name"]
                .as_array()
                .unwrap()
                .iter()
                .any(|name| name == "</script><script>alert(1)</script>")
        );
        // A strict parser sees only our own elements.
        assert_eq!(xml_texts(&page, "script").len(), 2);
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script").count(), 2);
        assert_eq!(xml_texts(&page, "title").len(), 1);
        assert_eq!(page.matches("<!--").count(), 0);
    }
}

#[test]
fn a_page_needs_no_network() {
    let page = page(&ingest(), &ExportOptions::default());
    for reference in ["src=", "href=\"http", "url(", "@import", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn what_the_page_is_made_of_is_small() {
    let bytes =
        super::PAGE.len() + super::STYLE.len() + super::SCRIPTS.iter().map(|part| part.len()).sum::<usize>();
    assert!(bytes < 60_500, "{bytes} bytes");
}

#[test]
fn a_recording_without_weight_is_no_page() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.counter(EventKind::counted("page-faults", "page faults"), task, [1, 0], &["/x:main"]);
    let common = CommonOptions { metric: Some(Metric::named("page-faults")), ..CommonOptions::default() };
    let options = ExportOptions { common, ..ExportOptions::default() };
    let failure = export(&build.finish(), ExportFormat::HTML, &options).unwrap_err().to_string();
    assert!(failure.contains("no weight"), "{failure}");
}
