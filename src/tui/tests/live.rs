//! Live recordings on the screen: a rolled-up past, and the recent part in full resolution.

use super::session::{Session, theme};
use crate::profile::FrameId;
use crate::record::live::Simulation;
use crate::report::tests::fixture::Build;
use crate::report::{Analysis, CommonOptions, FilterOptions, Seen, ThreadSplit, TimeRange, Timeline};
use crate::tui::app::action::{Action, Effect, LiveCommand, Tab};
use crate::tui::app::context::LiveState;
use crate::tui::app::query::{SamplesQuery, Window};
use crate::tui::app::state::App;
use crate::tui::compute::picture::Picture;
use crate::tui::views::time::state::Panel;
use crate::tui::widgets::theme::ColorDepth;
use std::sync::Arc;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// A recording of `seconds` with `threads` threads that share one CPU, downsampled as in live mode.
fn watched(seconds: u64, threads: u32) -> Analysis {
    let mut simulation = Simulation::new(threads);
    for _ in 0..seconds / 10 {
        simulation.pass(Duration::from_secs(10), 9_990, 0, 40);
        simulation.downsample();
    }
    let (mut snapshot, _) = simulation.snapshot();
    if let Some(end) = &mut snapshot.profile.end {
        // Fixed costs, independent of what this test uses.
        (end.cpu_ns, end.recording_cpu_ns, end.bpf_ns) = (2 * SECOND_NS, Some(SECOND_NS), 0);
    }
    Analysis::new(snapshot.profile, snapshot.integrity)
}

fn session(seconds: u64, tab: Tab) -> Session {
    let mut session = Session::new(watched(seconds, 3), None, tab);
    session.app.context.live = Some(LiveState::default());
    session
}

#[test]
fn flame_of_what_goes_on_on_all_screens() {
    insta::assert_snapshot!(session(130, Tab::Flame).snapshot());
}

/// On a crowded machine a notice came between a key and its answer, which was never seen.
#[test]
fn a_notice_of_the_recorder_waits_until_the_answer_to_a_key_is_gone() {
    let mut session = session(130, Tab::Flame);
    session.app.context.toast = None;
    session.app.context.notice = Some("memory is full".to_owned());
    assert!(session.text().contains("memory is full"), "{}", session.text());
    session.press(&[Action::Mouse]);
    let answer = "the terminal has the mouse";
    assert!(session.text().contains(answer), "{}", session.text());
    session.app.context.notice = Some("files are too many".to_owned());
    assert!(session.text().contains(answer), "{}", session.text());
    session.press(&[Action::Redraw]);
    assert!(session.text().contains("files are too many"), "{}", session.text());
    session.press(&[Action::Redraw]);
    assert!(!session.text().contains("files are too many"), "{}", session.text());
}

/// Clear takes effect at once; the next picture comes later.
/// The answers to keys stayed until the next key, whatever came after them.
#[test]
fn an_answer_ends_when_what_it_says_is_over() {
    let mut session = session(10, Tab::Flame);
    let picture = session.app.context.picture.take().unwrap();
    session.app.update(&Action::Enter);
    assert_eq!(session.app.context.toast.as_deref(), Some("there is no picture yet"));
    session.app.set_picture(picture);
    assert_eq!(session.app.context.toast, None);
    // That nothing more can be zoomed is read for some seconds, and then hides what goes on.
    session.app.update(&Action::Enter);
    let said = session.app.context.toast.clone();
    assert!(said.as_ref().is_some_and(|said| said.starts_with("this is as wide as it gets")), "{said:?}");
    let at = |seconds: u64| {
        watched(10, 3).changed(|recording| {
            recording.profile.end.as_mut().unwrap().duration_ns = seconds * SECOND_NS;
        })
    };
    for (seconds, stays) in [(11, true), (13, true), (14, false)] {
        session.recording = Arc::new(at(seconds));
        session.picture();
        assert_eq!(session.app.context.toast.is_some(), stays, "{seconds}");
    }
    // What the recorder answers, such as where a file is, stays.
    session.app.context.show_message("saved prof.data");
    session.recording = Arc::new(at(30));
    session.picture();
    assert_eq!(session.app.context.toast.as_deref(), Some("saved prof.data"));
}

#[test]
fn a_picture_from_before_time_began_again_says_so() {
    let mut session = session(130, Tab::Flame);
    session.press(&[Action::Clear]);
    assert!(session.text().contains("LIVE (before Ctrl-R)"), "{}", session.text());
    let recording =
        watched(10, 3).changed(|recording| recording.profile.meta.start_mono_ns += 130 * SECOND_NS);
    session.recording = Arc::new(recording);
    session.picture();
    assert!(!session.text().contains("before Ctrl-R"), "{}", session.text());
}

#[test]
fn top_of_what_goes_on_on_all_screens() {
    let mut session = session(100, Tab::Top);
    for seconds in [110, 120, 130] {
        session.recording = Arc::new(watched(seconds, 3));
        session.picture();
    }
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn help_of_what_goes_on_on_all_screens() {
    let mut session = session(130, Tab::Flame);
    session.press(&[Action::Help]);
    insta::assert_snapshot!(session.snapshot());
}

#[test]
fn a_downsampled_past_on_all_screens() {
    insta::assert_snapshot!(session(130, Tab::Time).snapshot());
}

#[test]
fn a_downsampled_past_as_a_heat_map_on_all_screens() {
    let mut session = session(130, Tab::Time);
    session.press(&[Action::HeatMap]);
    insta::assert_snapshot!(session.snapshot());
}

/// Different stacks of one thread in the same bucket have the same time, so the time alone does not identify them.
#[test]
fn a_stack_of_a_downsampled_past_stays_selected() {
    let mut session = session(130, Tab::Time);
    let time = TimeRange { from_ns: Some(0), to_ns: Some(SECOND_NS) };
    session.app.context.query.samples_at = Some(SamplesQuery { time, row: None });
    session.app.views.time.panel = Panel::Samples;
    session.picture();
    for _ in 0..7 {
        session.press(&[Action::Down]);
    }
    let selected = |session: &Session| {
        let picture = session.app.context.picture.clone().unwrap();
        let samples_at = picture.samples_at.as_ref().unwrap();
        let sample =
            samples_at.samples[session.app.views.time.samples.cursor(samples_at.samples.len())].clone();
        (sample.tid, sample.bucket_ns, samples_at.stacks[sample.stack].clone())
    };
    let before = selected(&session);
    assert!(before.1 > 0, "{before:?} is not added up");
    session.picture();
    assert_eq!(selected(&session), before);
}

#[test]
fn no_thread_ran_longer_than_there_was_time() {
    // After 13 minutes there are buckets of one second and of ten.
    for (seconds, threads) in [(130, 1), (780, 1), (780, 4)] {
        let recording = watched(seconds, threads);
        assert!(recording.rollup_time().until_ns().unwrap() >= (seconds - 61) * SECOND_NS);
        let buckets = 960;
        let by_thread = CommonOptions { threads: Some(ThreadSplit::Each), ..CommonOptions::default() };
        let timeline = Timeline::new(&recording, &by_thread, buckets, 0).unwrap();
        assert_eq!(timeline.rows.len(), threads as usize);
        let period_ns = 1_001_001;
        for (number, bucket) in timeline.rows.iter().flat_map(|row| row.buckets.iter().enumerate()) {
            // A sample counts for its whole period, wherever in the period the bucket begins.
            assert!(
                bucket.on_cpu_ns <= timeline.bucket_ns + period_ns,
                "{seconds} s: {bucket:?} of {} ns at {number}",
                timeline.bucket_ns
            );
        }
        let sum: u64 = timeline.rows.iter().map(|row| row.sum.on_cpu_ns).sum();
        let all = recording.profile.events[0].total_weight();
        assert!(sum <= all && all - sum < all / 1_000, "{sum} of {all}");
        // A single thread that always ran: every second is the same.
        if threads == 1 {
            let grid = timeline.heat.grid(2_000, 10);
            let whole = (seconds / 20 * 20) as usize * grid.rows;
            let cells = &grid.cells[..whole.min(grid.cells.len())];
            let (least, most) = (cells.iter().min().unwrap(), cells.iter().max().unwrap());
            assert!(most - least <= 3 * period_ns + most / 50, "{least} to {most}");
        }
    }
}

#[test]
fn rollup_is_shown_in_all_views_and_in_the_notes() {
    for tab in Tab::ALL {
        let mut session = session(130, *tab);
        assert!(session.text().contains("rollup before"), "{}", session.text());
    }
    let mut session = session(130, Tab::Time);
    assert!(session.text().contains("in buckets of 1 s"), "{}", session.text());
    session.press(&[Action::Notes]);
    assert!(session.text().contains("are merged into buckets of 1 s"), "{}", session.text());
    // The last ten seconds are in full resolution.
    session.press(&[Action::CloseOverlay, Action::NextWindow, Action::NextWindow]);
    assert_eq!(session.app.context.query.window, Window::TenSeconds);
    assert!(!session.text().contains("rollup") && !session.text().contains("buckets"), "{}", session.text());
}

/// Detail 16 of the promises: live boxes keep their places, and time can be frozen, cut and followed.
#[test]
fn time_follows_the_window() {
    let mut session = session(130, Tab::Time);
    for (window, from_s) in [(Window::Minute, 70), (Window::TenSeconds, 120), (Window::All, 0)] {
        session.press(&[Action::NextWindow]);
        assert_eq!(session.app.context.query.window, window);
        let picture = session.app.context.picture.clone().unwrap();
        let timeline = picture.timeline.as_ref().unwrap();
        assert_eq!((timeline.start_ns, timeline.duration_ns), (from_s * SECOND_NS, 130 * SECOND_NS));
        let sum: u64 = timeline.rows.iter().map(|row| row.sum.on_cpu_ns).sum();
        let all = picture.total.weight;
        assert!(sum.abs_diff(all) <= all / 1_000, "{sum} of {all}");
        let text = session.text();
        let start = if from_s == 0 { " 0s".to_owned() } else { format!("{from_s}.0s") };
        assert!(text.contains(&start) && text.contains("130.0s"), "{text}");
    }
    // The selection is moved into the window, and so is the start of a range.
    session.app.views.time.at_ns = 5 * SECOND_NS;
    session.press(&[Action::NextWindow, Action::NextWindow, Action::RangeStart]);
    assert_eq!(session.app.context.query.common.filter.time.from_ns, Some(120 * SECOND_NS));
    session.press(&[Action::Whole, Action::HeatMap]);
    assert!(session.text().contains("+0 ms") && session.text().contains("120.0s"), "{}", session.text());
}

#[test]
fn samples_of_which_only_the_sum_is_left_say_so() {
    let mut session = session(130, Tab::Time);
    session.press(&[Action::Enter]);
    let text = session.text();
    assert!(text.contains("0-1 s") && text.contains("samples"), "{text}");
    session.press(&[Action::RangeStart, Action::RangeEnd]);
    let TimeRange { from_ns: Some(from_ns), to_ns: Some(to_ns) } =
        session.app.context.query.common.filter.time
    else {
        panic!("no range")
    };
    assert_eq!((from_ns % SECOND_NS, to_ns - from_ns), (0, SECOND_NS));
}

#[test]
fn on_a_narrow_screen_the_trend_goes_first() {
    let mut session = session(20, Tab::Top);
    // A picture arrives while the recording is live.
    session.picture();
    let heading = |session: &mut Session, columns| {
        session.lines((columns, 24), &theme(ColorDepth::True, false)).swap_remove(2)
    };
    // A screen of full width shows all columns.
    for columns in [80, 120] {
        let full = heading(&mut session, columns);
        for column in ["SELF%v", "±", "TOTAL%", " SELF ", "FUNCTION", "MODULE", "TREND"] {
            assert!(full.contains(column), "{column} in {columns}: {full}");
        }
    }
    let narrow = heading(&mut session, 76);
    assert!(!narrow.contains("TREND") && narrow.contains("MODULE") && narrow.contains('±'), "{narrow}");
}

/// Detail 5 of the promises: what was lost and what recording cost is on every screen.
#[test]
fn what_it_costs_is_said_at_80_columns() {
    let mut session = session(130, Tab::Flame);
    let header = session.text().lines().next().unwrap().to_owned();
    assert!(
        header.contains("prof+BPF 0.8%") && header.contains("LIVE") && header.contains("note"),
        "{header}"
    );
}

#[test]
fn names_that_are_being_read_are_no_reason_to_install_anything() {
    let recording = || {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 50, &["/x:main", "/usr/lib/libfoo.so:+0x2000"]);
        build.finish()
    };
    let frames = recording().profile.tables.frames().len() as u32;
    let symbols = recording().profile.symbols.clone();
    let unnamed: Vec<FrameId> = (0..frames).map(FrameId).filter(|frame| !symbols.is_named(*frame)).collect();
    assert_eq!(unnamed.len(), 1);
    let seen = |recording: Analysis| {
        let mut session = Session::new(recording, None, Tab::Flame);
        let notes = session.app.context.picture.clone().unwrap().notes.join(", ");
        (notes, session.text().contains("reading names"))
    };
    let (notes, is_said) = seen(recording());
    assert!(notes.contains("install its debug symbols") && !is_said, "{notes}");
    let (notes, is_said) = seen(recording().changed(|recording| recording.names_to_come = unnamed));
    assert_eq!(notes, "names are being read: 50.0% of frames have none yet");
    assert!(is_said);
}

/// Right after a clearing there is nothing: a file of that took the place of the one that was saved before.
#[test]
fn a_picture_of_a_recording_without_samples_is_not_saved() {
    let mut empty = Session::new(watched(0, 3), None, Tab::Flame);
    for (live, words) in [
        (LiveState::default(), "not saved: there are no samples yet"),
        (LiveState { is_frozen: true, ..LiveState::default() }, "not saved: there are no samples"),
        (
            LiveState { ended: Some("stopped".into()), ..LiveState::default() },
            "not saved: there are no samples",
        ),
    ] {
        empty.app.context.live = Some(live);
        empty.app.update(&Action::Save);
        assert_eq!(empty.app.take_effects(), []);
        assert_eq!(empty.app.context.toast.as_deref(), Some(words));
    }
    // What a filter leaves does not matter: all of the recording is saved.
    let filter = FilterOptions { focus: Some("no such function".into()), ..FilterOptions::default() };
    let mut session = session(10, Tab::Flame);
    session.app.context.query.common.filter = filter;
    session.picture();
    assert!(session.app.context.picture.as_ref().unwrap().empty.is_some());
    session.app.update(&Action::Save);
    let seen = Seen(Arc::clone(&session.recording));
    assert_eq!(session.app.take_effects(), [Effect::Live(LiveCommand::Save(seen))]);
}

/// Detail 16 of the promises: live boxes keep their places, and time can be frozen, cut and followed.
#[test]
fn a_frozen_screen_shows_no_newer_picture() {
    let mut session = session(20, Tab::Flame);
    let first = Arc::clone(&session.app.context.picture.as_ref().unwrap().recording);
    session.app.update(&Action::Freeze);
    let seen = Seen(Arc::clone(&first));
    assert_eq!(session.app.take_effects(), [Effect::Hold(seen.clone())]);
    let newer = Arc::new(watched(30, 3));
    let picture = |recording, app: &App| Picture::new(recording, &app.context.query).unwrap();
    // The picture was being computed when the key was pressed.
    assert!(session.app.context.holds_back(&picture(&newer, &session.app)));
    assert!(!session.app.context.holds_back(&picture(&first, &session.app)));
    session.app.update(&Action::Freeze);
    assert_eq!(session.app.take_effects(), [Effect::Resume]);
    assert!(!session.app.context.holds_back(&picture(&newer, &session.app)));
    // A pending query is sent again, for the frozen recording.
    session.app.update(&Action::Invert);
    session.app.take_effects();
    session.app.update(&Action::Freeze);
    assert_eq!(session.app.take_effects(), [Effect::Hold(seen), Effect::Ask]);
}

#[test]
fn all_of_a_heap_is_saved_and_frozen_whichever_blocks_are_shown() {
    let mut build = Build::new();
    let task = build.task(7, 7, "app", "app");
    build.block(task, 0, [100, 3_000], None, &["/app:main", "/app:keep"]);
    build.block(task, SECOND_NS, [100, 500], Some(5), &["/app:main", "/app:use"]);
    let mut session = Session::new(build.finish(), None, Tab::Flame);
    session.app.context.live = Some(LiveState::default());
    session.picture();
    let seen = Seen(Arc::clone(&session.recording));
    session.app.update(&Action::Save);
    assert_eq!(session.app.take_effects(), [Effect::Live(LiveCommand::Save(seen.clone()))]);
    session.app.update(&Action::Freeze);
    assert_eq!(session.app.take_effects(), [Effect::Hold(seen)]);
    session.app.update(&Action::NextBlocks);
    let picture = Picture::new(&session.recording, &session.app.context.query).unwrap();
    assert!(!session.app.context.holds_back(&picture), "it is of the frozen recording");
}
