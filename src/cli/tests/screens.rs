//! The command lines of the terminal interface.

use super::*;
use crate::report::{ChargedTo, HeapView};

#[test]
fn tui_takes_the_words_of_report() {
    let line =
        "prof tui x.data --off-cpu --focus a --ascii --no-mouse --color never --source-dir a --source-dir b";
    let Ok(Request::Tui(options)) = parsed(line) else { panic!("not tui") };
    assert_eq!(options.common.input, Input::File("x.data".into()));
    assert_eq!(
        (options.common.metric, options.common.filter.focus.as_deref()),
        (Some(Metric::OFF_CPU), Some("a"))
    );
    assert!(options.ascii && !options.mouse);
    assert_eq!(options.source_dirs, ["a", "b"].map(std::path::PathBuf::from));
    assert_eq!(options.color, crate::report::ColorWhen::Never);
}

#[test]
fn tui_shows_the_event_of_a_file_that_is_named() {
    let shown = |line: &str| {
        let Ok(Request::Tui(options)) = parsed(line) else { panic!("{line}") };
        options.common.metric
    };
    assert_eq!(shown("prof tui x.data"), None);
    assert_eq!(shown("prof tui x.data -e faults"), Some(Metric::named("page-faults")));
    assert_eq!(shown("prof tui x.data -e off"), Some(Metric::OFF_CPU));
}

#[test]
fn what_is_to_be_shown_live_is_recorded_or_refused() {
    let events = |line: &str| {
        let Ok(Request::Live(options)) = parsed(line) else { panic!("{line}") };
        (options.record.on_cpu(), options.record.waits().is_some())
    };
    for verb in ["prof tui", "prof live", "prof top"] {
        assert_eq!(events(&format!("{verb} -a")), (true, false));
        for option in ["--off-cpu", "--wall"] {
            assert_eq!(events(&format!("{verb} -a {option}")), (true, true));
            assert_eq!(events(&format!("{verb} {option} -p 7")), (true, true));
            let Err(Stop::Failed(failure)) = parsed(&format!("{verb} {option} -e cpu -p 7")) else {
                panic!("{verb} {option}")
            };
            assert_eq!((failure.status, failure.hints.len()), (2, 1));
            assert!(failure.message.contains("which -e cpu does not record"), "{}", failure.message);
            assert!(failure.hints[0].contains(&format!("{option} -e cpu,off")), "{}", failure.hints[0]);
        }
        assert_eq!(events(&format!("{verb} -e off --off-cpu -p 7")), (false, true));
        for option in ["--on-cpu", "--wall"] {
            let (_, text) = refused(&format!("{verb} {option} -e off -p 7"));
            assert!(text.contains("which -e off does not record"), "{text}");
        }
    }
}

#[test]
fn what_is_watched_can_begin_later_and_end_by_itself() {
    for command in ["prof tui", "prof live", "prof top"] {
        let Ok(Request::Live(options)) = parsed(&format!("{command} -d 10s -D 500ms -p 7")) else {
            panic!("{command} is not live");
        };
        assert_eq!(
            (options.record.duration, options.record.delay),
            (Some(Duration::from_secs(10)), Some(Duration::from_millis(500))),
            "{command}"
        );
        assert_eq!(
            options.record,
            recorded("prof record -d 10s -D 500ms -p 7"),
            "{command} records as `prof record` does"
        );
        assert_eq!(refused(&format!("{command} -d 0s -p 7")).0, 2);
    }
    assert_eq!(refused("prof tui -d 10s x.data").0, 2);
    assert_eq!(refused("prof tui -D 10s").0, 2);
}

#[test]
fn a_part_of_one_recording_is_shown_and_no_live_view_or_comparison() {
    let shown = |line: &str| {
        let Ok(Request::Tui(options)) = parsed(line) else { panic!("{line}") };
        options.common
    };
    assert_eq!(shown("prof tui --locks").locks, Some(ChargedTo::Waiter));
    assert_eq!(shown("prof tui x.data --locks --by holder").locks, Some(ChargedTo::Holder));
    assert!(shown("prof tui --chain").chains);
    let leaks = shown("prof tui --heap --leaks");
    assert_eq!(
        (leaks.heap, leaks.metric),
        (Some(HeapView::Leaks), Some(Metric::HEAP)),
        "not the first event"
    );
    for line in [
        "prof tui -p 1 --locks",
        "prof tui a.data b.data --chain",
        "prof tui -p 1 --heap",
        "prof tui --by holder",
    ] {
        assert_eq!(refused(line).0, 2, "{line}");
    }
}
