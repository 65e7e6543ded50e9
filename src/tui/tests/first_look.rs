//! What is to be seen at the first look, one screen for each: a pool, time as states, an old picture, a trunk, filters. The
//! wide screen and the legend are among the screens of the flame graph.

use super::screen::{COLORS, PLAIN, TestScreen};
use super::session::Session;
use super::threads::pool;
use crate::base::units::CpuShares;
use crate::profile::{Reason, Writer};
use crate::report::tests::fixture::{Build, PERIOD_NS, ingest};
use crate::report::tests::fixture_waits::{MS, slices, stack};
use crate::report::{Analysis, CommonOptions, FilterOptions, Input, Metric, ThreadFilter};
use crate::tui::app::action::Tab;
use crate::tui::app::context::LiveState;
use ratatui::style::Color;
use std::time::Duration;

#[test]
fn a_pool_is_one_box_for_all_its_threads() {
    insta::assert_snapshot!(Session::new(pool(200), None, Tab::Flame).text());
}

/// A pool of eight threads for twenty half seconds: ever more work for a while, and then less.
fn busy_pool() -> Analysis {
    const PART_NS: u64 = 500 * MS;
    /// How many of them run, want a CPU and wait for a lock; the others wait for the disk.
    const PARTS: [[usize; 3]; 20] = [
        [1, 0, 1],
        [1, 0, 1],
        [2, 0, 1],
        [2, 0, 2],
        [3, 0, 2],
        [3, 1, 2],
        [4, 1, 2],
        [4, 2, 1],
        [4, 3, 1],
        [4, 4, 0],
        [4, 3, 1],
        [4, 2, 2],
        [4, 1, 3],
        [3, 1, 4],
        [2, 0, 6],
        [1, 0, 7],
        [1, 0, 7],
        [2, 0, 4],
        [1, 0, 2],
        [1, 0, 1],
    ];
    let own = ["worker_main", "run_loop", "handle_batch"];
    let calling = |last: &'static str, libc: &[&str], kernel: &[&str]| {
        stack(&[&own[..], &[last]].concat(), libc, kernel)
    };
    let work = calling("compress", &[], &[]);
    let lock = calling("pool_get", &["pthread_mutex_lock", "__lll_lock_wait"], &["futex_wait"]);
    let write = calling("write_all", &["fsync"], &["do_fsync", "jbd2_log_wait_commit"]);
    let mut build = Build::new();
    build.meta().cpus = 4;
    for thread in 0..8 {
        let task = build.task(1, 10 + thread as u32, &format!("worker-{thread}"), "pool");
        let (mut on_cpu_ns, mut no_cpu_ns) = (0, 0);
        for (start_ns, [run, want, wait]) in (0..).step_by(PART_NS as usize).zip(PARTS) {
            if thread < run {
                build.go_to(start_ns);
                build.add(task, PART_NS / PERIOD_NS, &slices(&work));
                on_cpu_ns += PART_NS;
            } else if thread < run + want {
                build.wait(task, Reason::NoCpu, start_ns, PART_NS, &slices(&work));
                no_cpu_ns += PART_NS;
            } else if thread < run + want + wait {
                build.wait(task, Reason::Lock, start_ns, PART_NS, &slices(&lock));
            } else {
                build.wait(task, Reason::Disk, start_ns, PART_NS, &slices(&write));
            }
        }
        build.thread_time(task, on_cpu_ns, no_cpu_ns, 10_000 * MS - on_cpu_ns - no_cpu_ns);
    }
    build.finish()
}

#[test]
fn time_is_a_stack_of_what_the_threads_of_a_pool_did() {
    insta::assert_snapshot!(Session::new(busy_pool(), Some(Metric::WALL), Tab::Time).text());
}

#[test]
fn a_picture_that_is_not_renewed_says_how_old_it_is() {
    let mut session = Session::new(ingest(), None, Tab::Flame);
    let length = session.app.context.picture.as_ref().unwrap().duration_ns;
    let mut live = LiveState::default();
    live.status.elapsed = Duration::from_nanos(length) + Duration::from_secs(7);
    session.app.context.live = Some(live);
    let text = session.text();
    insta::assert_snapshot!(text.lines().next().unwrap());
    assert!(text.contains("LIVE 7 s ago"), "{text}");
}

#[test]
fn the_age_of_a_picture_is_an_alarm_after_five_seconds() {
    let mut session = Session::new(ingest(), None, Tab::Flame);
    let length = session.app.context.picture.as_ref().unwrap().duration_ns;
    for (seconds, is_alarm) in [(3, false), (5, false), (6, true)] {
        let mut live = LiveState::default();
        live.status.elapsed = Duration::from_nanos(length) + Duration::from_secs(seconds);
        session.app.context.live = Some(live);
        for theme in [COLORS, PLAIN] {
            let words = format!("{seconds} s ago");
            let line = session.lines((120, 24), &theme).swap_remove(0);
            let column = line.find(&words).unwrap_or_else(|| panic!("{line}"));
            let style = session.buffer((120, 24), &theme)[(column as u16, 0)].style();
            let alarm = theme.alarm();
            let looks_so = style.fg.filter(|fg| *fg != Color::Reset) == alarm.fg
                && style.add_modifier.contains(alarm.add_modifier);
            assert_eq!(looks_so, is_alarm, "{words}: {style:?}");
        }
    }
}

/// The first line of a screen of this width.
fn header(screen: &mut TestScreen, columns: u16) -> String {
    screen.app.context.size.width = columns;
    screen.text(&PLAIN).lines().next().unwrap().to_owned()
}

#[test]
fn losses_costs_and_incomplete_stacks_are_said_however_long_the_target_is() {
    let long = "a-server-with-a-long-name --that --has --many --options";
    let recording = ingest().changed(|recording| recording.profile.meta.target = long.to_owned());
    let mut screen = TestScreen::new(recording, 80, 24);
    let says = |line: &str, parts: &[&str]| {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line:?}");
    };
    let trust = ["stacks 98.9%", "lost 0.2%", "! 1 note"];
    // The name goes as far as there is room.
    let of_file = header(&mut screen, 80);
    says(&of_file, &trust);
    says(&of_file, &[" prof  a-server-with-…  on-CPU  ", "  prof+BPF 0.3% "]);
    says(&header(&mut screen, 160), &[long.split_at(40).0, "3 threads  10.0 s  on-CPU 999 Hz  "]);
    screen.app.context.live = Some(LiveState::default());
    let live = header(&mut screen, 80);
    says(&live, &trust);
    says(&live, &[" prof  a-server…  LIVE  on-CPU  ", "  prof+BPF 0.3% "]);
    // A small screen says at least of what it is.
    says(&header(&mut screen, 40), &["a-server", "on-CPU"]);
}

/// As much as there may be to say of what goes on: there was no room for the name then, not even for its start.
#[test]
fn a_live_header_that_is_full_cuts_the_target_and_keeps_its_start() {
    let target = "a-server-with-a-long-name (pid 4312)".to_owned();
    let recording = ingest().changed(|recording| {
        recording.profile.meta.target = target;
        // An eighth of all samples.
        recording.profile.count("lost_ring_full", 780);
        recording.late_cost = CpuShares::of(100_000_000, 23_000_000, 1_000_000_000);
    });
    let mut screen = TestScreen::new(recording, 80, 24);
    let length = screen.app.context.picture.as_ref().unwrap().duration_ns;
    for age in [0, 7, 12, 125] {
        let mut live = LiveState::default();
        live.status.elapsed = Duration::from_nanos(length) + Duration::from_secs(age);
        screen.app.context.live = Some(live);
        let line = header(&mut screen, 80);
        let age = if age > 0 { format!("LIVE {age} s ago") } else { "LIVE".to_owned() };
        for part in [&*age, "stacks 98.9%", "lost 12.", "prof+BPF 12.3%", " ! 2"] {
            assert!(line.contains(part), "{part:?} in {line:?}");
        }
        let name = line.split("  ").find(|part| part.trim_start().starts_with("a-s"));
        assert!(name.is_some_and(|name| name.ends_with('…')), "{line:?}");
    }
    // Where there is room, nothing of that is missing.
    assert!(header(&mut TestScreen::new(ingest(), 80, 24), 80).starts_with(" prof  ingest"));
}

#[test]
fn the_header_says_which_part_of_a_folder_is_shown_by_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let windows = folder.path().join("windows");
    std::fs::create_dir(&windows).unwrap();
    let mut profile = ingest().into_recording().profile;
    profile.meta.start_unix_ns = 1_780_000_000_000_000_000;
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, true).unwrap();
    std::fs::write(windows.join("a.data"), writer.into_inner()).unwrap();
    let mut screen = TestScreen::new(Analysis::load_quietly(&Input::File(windows)).unwrap(), 160, 24);
    let wide = header(&mut screen, 160);
    assert!(wide.contains("  windows 2026-05-2") && wide.contains(":40.."), "{wide}");
    // The times stay longest.
    let narrow = header(&mut screen, 80);
    assert!(narrow.contains(":40..") && narrow.contains("lost 0.2%") && !narrow.contains("2026"), "{narrow}");
}

#[test]
fn a_short_target_leaves_room_for_more() {
    let mut screen = TestScreen::new(ingest(), 80, 24);
    let line = header(&mut screen, 80);
    assert!(
        line.contains("  ingest  10.0 s  on-CPU  stacks 98.9%  lost 0.2%  prof+BPF 0.3%  ! 1 note"),
        "{line:?}"
    );
}

#[test]
fn a_trunk_is_one_row_and_what_differs_begins_below_it() {
    let mut build = Build::new();
    let task = build.task(1, 1, "clang", "clang");
    let trunk: Vec<String> = (0..17).map(|depth| format!("/usr/lib/libclang.so:step{depth}")).collect();
    let leaves = [("ParseAST", 6), ("EmitBackendOutput", 4)].map(|(name, n)| (format!("/x:{name}"), n));
    for (leaf, samples) in &leaves {
        let path: Vec<&str> = trunk.iter().chain([leaf]).map(String::as_str).collect();
        build.add(task, *samples, &path);
    }
    insta::assert_snapshot!(Session::new(build.finish(), None, Tab::Flame).text());
}

#[test]
fn filters_are_chips_below_the_view() {
    let filter = FilterOptions {
        focus: Some("main".into()),
        threads: vec![ThreadFilter::named("ingest")],
        ..FilterOptions::default()
    };
    let common = CommonOptions { filter, ..CommonOptions::default() };
    insta::assert_snapshot!(TestScreen::with(ingest(), common, 80, 24).text(&PLAIN));
}
