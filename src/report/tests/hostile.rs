//! Names that want to break out of an output, through every output.

use super::fixture::Build;
use crate::profile::{Reason, Waker, WakerKind};
use crate::report::print::info;
use crate::report::*;
use quick_xml::events::Event as XmlEvent;

/// Names that a stranger could choose, among them all byte values.
pub(crate) fn hostile_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "\x1b]0;owned\x07",
        "\x1b[2J\u{9b}31m",
        "a\nb\r\tc\0d",
        "\u{202e}txt.exe\u{202c}\u{2066}",
        "</script><script>alert(1)</script>",
        "]]>--><!-- & \" ' <title>x</title>",
        "a;b;c 10",
        "f 12 13",
        "# comment",
        "=cmd|' /C calc'!A0",
        "",
        "   ",
        "\u{fffe}\u{ffff}\u{feff}\u{1fffe}",
        "all (5 ns, 100%)",
        "関数<テンプレート>::メソッド()",
        "operator<(<(",
        "_[k]",
    ]
    .map(String::from)
    .to_vec();
    names.push("x".repeat(1 << 20));
    names.push((0..=255u8).map(char::from).collect());
    let bytes: Vec<u8> = (0..=255).collect();
    names.push(crate::base::safe_text::from_bytes(&bytes));
    names
}

/// Every hostile name as a function, thread, process and module, and in the facts.
pub(crate) fn hostile() -> Analysis {
    let mut build = Build::new();
    for (index, name) in hostile_names().iter().enumerate() {
        let pid = index as u32 + 1;
        let task = build.task(pid, pid, name, name);
        // The fixture's own separator cannot be in a path.
        let name = name.replace(':', "|");
        build.add(task, 3, &["/bin/x:main", &format!("/lib/{name}:{name}⇒{name}")]);
        build.add_ended(
            task,
            2,
            &[&format!("/lib/{name}:+0x{index:x}")],
            crate::profile::Outcome::NoUnwindInfo,
        );
    }
    let every: String = hostile_names().concat();
    let meta = build.meta();
    meta.target.clone_from(&every);
    meta.target_name.clone_from(&every);
    meta.command = hostile_names();
    meta.hostname.clone_from(&every);
    build.count(&every, 1);
    build.finish()
}

/// Every hostile name as that of a function that waits and of one that wakes, of threads, and in the sampling rule.
pub(crate) fn hostile_waits() -> Analysis {
    let mut build = Build::new();
    for (index, name) in hostile_names().iter().enumerate() {
        let pid = index as u32 + 1;
        let task = build.task(pid, pid, name, name);
        let name = name.replace(':', "|");
        let stack = ["/bin/x:main".to_owned(), format!("/lib/{name}:{name}⇒{name}")];
        let stack: Vec<&str> = stack.iter().map(String::as_str).collect();
        let waker_stack = build.stack(&stack);
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            let stack_of_waker = waker_stack.filter(|_| number % 2 == 0);
            let waker = Waker { kind: WakerKind::Thread, task: Some(task), stack: stack_of_waker };
            build.thinned_wait(task, reason, [0, 5_000_000, 6_000_000], &stack, waker);
        }
        build.add(task, 1, &stack);
        build.thread_time(task, 1, 2, 3);
        build.short_waits(Reason::Lock, 4, 5);
    }
    build.finish()
}

/// No character that drives a terminal, apart from the ends of lines and, in tables, tabs.
pub(crate) fn assert_harmless(text: &str, what: &str) {
    let is_bad = |c: &char| {
        (c.is_control() && *c != '\n' && !(what == "tsv" && *c == '\t'))
            || ('\u{202a}'..='\u{202e}').contains(c)
            || ('\u{2066}'..='\u{2069}').contains(c)
    };
    assert_eq!(text.chars().find(is_bad), None, "{what}");
}

/// Texts of all elements `name`; fails unless the document is well-formed XML 1.0.
pub(crate) fn xml_texts(document: &str, name: &str) -> Vec<String> {
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(document.chars().all(is_allowed), "characters that XML forbids");
    let mut reader = quick_xml::Reader::from_str(document);
    reader.config_mut().check_end_names = true;
    reader.config_mut().check_comments = true;
    reader.config_mut().allow_dangling_amp = false;
    let (mut texts, mut depth, mut inside) = (Vec::new(), 0i32, false);
    loop {
        match reader.read_event().unwrap() {
            XmlEvent::Start(start) => {
                depth += 1;
                inside = start.name().as_ref() == name.as_bytes();
                if inside {
                    texts.push(String::new());
                }
                start.attributes().for_each(|attribute| {
                    attribute.unwrap().unescape_value().unwrap();
                });
            }
            XmlEvent::End(_) => {
                depth -= 1;
                inside = false;
            }
            XmlEvent::Text(text) if inside => {
                texts.last_mut().unwrap().push_str(&text.decode().unwrap());
            }
            XmlEvent::GeneralRef(reference) if inside => {
                let resolved = quick_xml::escape::unescape(&format!("&{};", reference.decode().unwrap()))
                    .unwrap()
                    .into_owned();
                texts.last_mut().unwrap().push_str(&resolved);
            }
            XmlEvent::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    texts
}

#[test]
fn text_reports_pass_no_control_characters() {
    let recording = hostile();
    for view in [
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek(".".into()),
    ] {
        for names in [NameStyle::Short, NameStyle::Full, NameStyle::Raw] {
            for width in [40, 80, 120, 200] {
                let page = Page { width, cut_names: width != 80, color: false, names, is_ascii: false };
                let options = ReportOptions { view: view.clone(), rows: Some(0), ..Default::default() };
                let text = render(&recording, &options, &page).unwrap();
                assert_harmless(&text, &format!("{view:?} {names:?} {width}"));
            }
        }
    }
    assert_harmless(&info::render_text(&recording), "info");
}

#[test]
fn views_of_waits_pass_no_control_characters() {
    let recording = hostile_waits();
    let views = [
        ReportView::Waits,
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek(".".into()),
    ];
    for (metric, view) in
        [Metric::OFF_CPU, Metric::WALL].into_iter().flat_map(|m| views.clone().map(|v| (m, v)))
    {
        let filter = FilterOptions { idle: true, ..Default::default() };
        let common = CommonOptions { metric: Some(metric), filter, ..Default::default() };
        for (format, width) in
            [(Format::Text, 80), (Format::Text, 160), (Format::Json, 80), (Format::Tsv, 80)]
        {
            let page =
                Page { width, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };
            let options = ReportOptions {
                common: common.clone(),
                view: view.clone(),
                format,
                rows: Some(0),
                ..Default::default()
            };
            let text = render(&recording, &options, &page).unwrap();
            assert_harmless(&text, if format == Format::Tsv { "tsv" } else { "waits" });
            if format == Format::Tsv {
                let columns = text.lines().next().unwrap().split('\t').count();
                assert!(text.lines().all(|line| line.split('\t').count() == columns), "{view:?}");
            }
        }
        let options = ExportOptions { common, ..ExportOptions::default() };
        let drawn =
            String::from_utf8(export::render(&recording, ExportFormat::SVG, &options).unwrap()).unwrap();
        assert_harmless(&drawn, "svg");
        xml_texts(&drawn, "title");
    }
    assert_harmless(&info::render_text(&recording), "info");
}

#[test]
fn waits_at_the_limit_of_numbers_break_no_view() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    for (index, reason) in Reason::ALL.into_iter().cycle().take(40).enumerate() {
        let numbers = [[0, 0, 0], [u64::MAX, u64::MAX, u64::MAX], [5, 1, u64::MAX], [7, u64::MAX, 1]];
        build.thinned_wait(task, reason, numbers[index % 4], &["/x:main", "/x:f"], Waker::default());
    }
    build.thread_time(task, u64::MAX, u64::MAX, u64::MAX);
    build.short_waits(Reason::Lock, u64::MAX, u64::MAX);
    build.thread_time(task, 1, 1, 1);
    build.short_waits(Reason::Lock, 0, u64::MAX);
    let recording = build.finish();
    let views = [
        ReportView::Overview,
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek(".".into()),
    ];
    for time in [TimeRange::default(), TimeRange { from_ns: Some(3), to_ns: Some(u64::MAX) }] {
        for view in &views {
            for format in [Format::Text, Format::Json, Format::Tsv] {
                let filter = FilterOptions { idle: true, time, ..Default::default() };
                let common = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..Default::default() };
                let options = ReportOptions { view: view.clone(), format, common, ..Default::default() };
                assert!(!render(&recording, &options, &Page::PLAIN).unwrap().is_empty());
            }
        }
    }
    assert!(!info::render_text(&recording).is_empty());
}

#[test]
fn groupings_pass_no_control_characters() {
    for grouping in [Grouping::Line, Grouping::Module, Grouping::Thread, Grouping::Process] {
        let common = CommonOptions { grouping, ..Default::default() };
        let options = ReportOptions { common, rows: Some(0), ..Default::default() };
        assert_harmless(&render(&hostile(), &options, &Page::PLAIN).unwrap(), grouping.noun());
    }
}

#[test]
fn machine_formats_can_be_read_back() {
    let recording = hostile();
    for view in [
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek(".".into()),
    ] {
        let options = ReportOptions { view, format: Format::Json, ..Default::default() };
        let json = render(&recording, &options, &Page::PLAIN).unwrap();
        assert_harmless(&json, "json");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["samples"], 5 * hostile_names().len());
        let tsv =
            render(&recording, &ReportOptions { format: Format::Tsv, ..options }, &Page::PLAIN).unwrap();
        assert_harmless(&tsv, "tsv");
        let columns = tsv.lines().next().unwrap().split('\t').count();
        assert!(tsv.lines().all(|line| line.split('\t').count() == columns));
        assert!(!tsv.split(['\t', '\n']).any(|cell| cell.starts_with('=')));
    }
    let info = info::render_json(&recording).unwrap();
    assert_harmless(&info, "info json");
    let value: serde_json::Value = serde_json::from_str(&info).unwrap();
    let command: Vec<&str> = value["command"].as_array().unwrap().iter().filter_map(|v| v.as_str()).collect();
    assert_eq!(command, hostile_names());
}

#[test]
fn folded_lines_keep_their_shape_and_weight() {
    let recording = hostile();
    let selection = recording.select(&CommonOptions::default()).unwrap();
    let text = folded(&selection, NameStyle::Full, true);
    assert_harmless(&text, "folded");
    let mut sum = 0;
    for line in text.lines() {
        assert!(!line.starts_with('#'), "{line}");
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        sum += weight.parse::<u64>().unwrap();
        let frames = stack.split(';').count();
        assert!((3..=4).contains(&frames) && !stack.contains(";;"), "{line}");
    }
    assert_eq!(sum, recording.profile.events[0].len() as u64);
}

#[test]
fn weights_at_the_limit_of_numbers_break_no_view() {
    let recording = super::fixture::ingest().changed(|recording| {
        let event = recording.profile.events.remove(0);
        let mut heavy = crate::profile::Event::new(event.info().clone());
        for (index, sample) in event.samples().enumerate() {
            let weight = if index % 3 == 0 { u64::MAX } else { u64::MAX / 3 };
            heavy.push(crate::profile::Sample { weight, time_ns: u64::MAX - index as u64, ..sample });
        }
        recording.profile.events.push(heavy);
        recording.profile.end = None;
    });
    for view in [
        ReportView::Flat,
        ReportView::Tree,
        ReportView::BottomUp,
        ReportView::Threads,
        ReportView::Peek(".".into()),
    ] {
        for format in [Format::Text, Format::Json, Format::Tsv] {
            let options = ReportOptions { view: view.clone(), format, rows: Some(1), ..Default::default() };
            assert!(!render(&recording, &options, &Page::PLAIN).unwrap().is_empty());
        }
    }
    assert!(!info::render_text(&recording).is_empty());
    for format in [ExportFormat::FOLDED, ExportFormat::SVG] {
        let exported = export::render(&recording, format, &ExportOptions::default());
        assert_eq!(exported.is_ok(), format == ExportFormat::FOLDED);
    }
}

#[test]
fn flame_graphs_stay_well_formed_and_lose_nothing() {
    let options = ExportOptions::default();
    let recording = hostile();
    let drawn = String::from_utf8(export::render(&recording, ExportFormat::SVG, &options).unwrap()).unwrap();
    assert_harmless(&drawn, "svg");
    let tips = xml_texts(&drawn, "title");
    let total = recording.profile.events[0].total_weight() / 1_000_000;
    assert!(tips.contains(&format!("all ({total} ms, 100%)")), "{:?}", tips.first());
    // All tips end in inferno's own parenthesis, none in a name's; the first one is the title of the document.
    assert!(tips.iter().skip(1).all(|tip| tip.ends_with("%)")));
    // inferno's, and what is added to it.
    assert_eq!(drawn.matches("<script").count(), 2);
    let options = ExportOptions { subtitle: Some(hostile_names().concat()), ..options };
    let drawn = String::from_utf8(export::render(&recording, ExportFormat::SVG, &options).unwrap()).unwrap();
    xml_texts(&drawn, "title");
}
