//! Flame graphs as SVG.

use super::*;

/// The SVG, and the texts of its `title` elements.
fn svg(recording: &Analysis, options: &ExportOptions) -> (String, Vec<String>) {
    let drawn = String::from_utf8(export::render(recording, ExportFormat::SVG, options).unwrap()).unwrap();
    let tips = crate::report::tests::hostile::xml_texts(&drawn, "title");
    (drawn, tips)
}

#[test]
fn a_flame_graph_has_title_date_and_durations() {
    let (drawn, tips) = svg(&ingest(), &ExportOptions::default());
    assert!(drawn.contains(">ingest on-CPU, 10.0 s</text>"));
    assert!(drawn.contains(">prof record -p 4312 -d 10s  2026-11-21T12:00:00Z</text>"));
    assert!(tips.contains(&"all (5.550 s, 100%)".to_owned()), "{tips:?}");
    assert!(tips.contains(&"tcp_write_xmit (600 ms, 10.81%)".to_owned()), "{tips:?}");
    assert!(tips.contains(&"SliceRead::parse_str (1.400 s, 25.23%)".to_owned()), "{tips:?}");
    for reference in ["<!DOCTYPE", "href=\"http", "src=", "url(http", "@import"] {
        assert!(!drawn.contains(reference), "{reference}");
    }
}

#[test]
fn boxes_have_short_names_unless_others_are_asked_for() {
    let mut options = ExportOptions::default();
    assert!(
        svg(&ingest(), &options)
            .1
            .iter()
            .any(|tip| tip.starts_with("map&lt;..&gt;::find (") || tip.starts_with("map<..>::find ("))
    );
    options.common.names = Some(NameStyle::Full);
    assert!(svg(&ingest(), &options).1.iter().any(|tip| tip.contains("find(int const")));
}

/// 2,392 samples of a recursion 3,900 frames deep made an SVG of 243 MB, which no browser opens.
#[test]
fn a_flame_graph_has_no_more_boxes_than_a_browser_can_show() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    for stack in 0..400u64 {
        // Each goes its own way after a while, and one of them is wide.
        let frames: Vec<String> =
            (0..400).map(|at| format!("/x:f{}", if at < 20 { 0 } else { stack * 7 + at })).collect();
        let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        build.add(task, if stack == 7 { 50 } else { 1 + stack % 3 }, &frames);
    }
    let (drawn, tips) = svg(&build.finish(), &ExportOptions::default());
    assert!(tips.len() <= 60_010 && tips.len() > 5_000, "{} boxes", tips.len());
    let title = drawn.split("</text>").next().unwrap_or_default();
    assert!(title.contains("left out") && title.contains("stacks cut at"), "{title}");
    assert!(tips.iter().any(|tip| tip.starts_with("all (")), "the whole is there");
}

#[test]
fn equal_input_draws_equal_bytes() {
    let options = ExportOptions::default();
    assert_eq!(svg(&ingest(), &options).0, svg(&ingest(), &options).0);
}

#[test]
fn flame_graph_options_are_obeyed() {
    let options = ExportOptions {
        title: Some("A & B".into()),
        no_meta: true,
        icicle: true,
        ..ExportOptions::default()
    };
    let (drawn, _) = svg(&ingest(), &options);
    assert!(drawn.contains(">A &amp; B</text>") && drawn.contains("var inverted = true"));
    assert!(!drawn.contains("2026-11-21") && !drawn.contains("prof record"));
}

#[test]
fn a_name_that_continues_another_does_not_split_its_box() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 1, &["/x:main", "/x:operator"]);
    build.add(task, 1, &["/x:main", "/x:operator new", "/x:b"]);
    build.add(task, 1, &["/x:main", "/x:operator", "/x:a"]);
    let (_, tips) = svg(&build.finish(), &ExportOptions::default());
    assert_eq!(tips.iter().filter(|tip| tip.starts_with("operator (")).count(), 1, "{tips:?}");
}

#[test]
fn boxes_below_the_asked_share_are_not_drawn() {
    let mut build = Build::new();
    let task = build.task(1, 1, "t", "t");
    build.add(task, 97, &["/x:main", "/x:large"]);
    build.add(task, 3, &["/x:main", "/x:small"]);
    let recording = build.finish();
    let all = ExportOptions::default();
    let has = |tips: &[String], name: &str| tips.iter().any(|tip| tip.starts_with(name));
    let (_, tips) = svg(&recording, &all);
    assert!(has(&tips, "large") && has(&tips, "small"), "{tips:?}");
    let (_, tips) = svg(&recording, &ExportOptions { min_percent: Some(5.0), ..all });
    assert!(has(&tips, "large") && !has(&tips, "small") && has(&tips, "main"), "{tips:?}");
}
