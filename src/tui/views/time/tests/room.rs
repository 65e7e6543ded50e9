//! The room of a screen: the heat map takes all of its width, rows have the lines that they need.

use super::running;
use crate::report::Analysis;
use crate::report::tests::fixture::Build;
use crate::report::tests::fixture_waits::MS;
use crate::tui::app::action::{Action, Tab};
use crate::tui::tests::session::{Session, theme};
use crate::tui::views::time::layout::TimeLayout;
use crate::tui::widgets::theme::ColorDepth;
use ratatui::layout::Position;

#[test]
fn the_heat_map_takes_the_whole_width_for_the_pointer_too() {
    for milliseconds in [700, 3_015, 7_000, 10_000, 61_000, 75_500] {
        let mut session = Session::new(running(milliseconds), None, Tab::Time);
        session.press(&[Action::HeatMap]);
        for columns in [40, 61, 80, 97, 120, 200] {
            let lines = session.lines((columns, 24), &theme(ColorDepth::True, false));
            // The recording cannot end before the first row of the last column.
            let first = lines.iter().find(|line| line.contains(" +0 ms ")).unwrap();
            assert_eq!(first.chars().count(), usize::from(columns), "{milliseconds} ms: {first}");
            let body = session.app.context.areas().unwrap().body;
            let last = Position::new(columns - 1, body.y);
            session.press(&[Action::Click(last), Action::Release(last)]);
            let picture = session.app.context.picture.clone().unwrap();
            let layout =
                TimeLayout::new(&session.app.views.time, picture.timeline.as_ref().unwrap(), 1, body);
            let grid = layout.grid.as_ref().unwrap();
            let selected = grid.cell_at(session.app.views.time.at_ns);
            assert_eq!(selected, (grid.columns - 1, 0), "{milliseconds} ms in {columns} columns");
        }
    }
}

#[test]
fn the_line_of_the_cpus_says_their_share_beside_short_names() {
    let line = |milliseconds: u64, cpus: u32, size: (u16, u16)| {
        let recording = running(milliseconds).changed(|recording| {
            recording.profile.meta.cpus = cpus;
            recording.profile.end.as_mut().unwrap().duration_ns = 10_000 * MS;
        });
        let mut session = Session::new(recording, None, Tab::Time);
        let lines = session.lines(size, &theme(ColorDepth::True, false));
        lines[usize::from(session.app.context.areas().unwrap().body.y)].clone()
    };
    for (milliseconds, cpus, size, words) in [
        (8_800, 2, (80, 24), "44% of 2 CPUs"),
        (10_000, 16, (80, 24), "6% of 16 CPUs"),
        (10, 1, (80, 24), "<1% of 1 CPU"),
        (8_800, 2, (40, 10), "44% of 2 CPUs"),
        // Where there is less room, the number of CPUs goes first.
        (8_800, 128, (40, 10), "1% of CPUs"),
    ] {
        let line = line(milliseconds, cpus, size);
        assert!(line.starts_with(&format!(" {words} ")), "{words}: {line}");
    }
}

/// Of each of twelve classes three threads.
fn many_pools() -> Analysis {
    let mut build = Build::new();
    for pool in 0..12u8 {
        for number in 0..3u8 {
            let name = format!("pool {}-{number}", char::from(b'a' + pool));
            let task = build.task(1, 1 + u32::from(3 * pool + number), &name, "pools");
            build.add(task, 100 - u64::from(pool), &["/x:main", "/x:work"]);
        }
    }
    build.finish()
}

#[test]
fn many_classes_have_two_lines_each_and_are_scrolled() {
    let mut session = Session::new(many_pools(), None, Tab::Time);
    let names = |session: &mut Session| -> Vec<String> {
        let text = session.text();
        let lines = text.lines().filter(|line| line.contains("pool ") && line.contains("-# ×3"));
        // Not the details of the selection.
        lines
            .filter(|line| line.starts_with(['>', ' ']) && !line.contains(" s   "))
            .map(str::to_owned)
            .collect()
    };
    let shown = names(&mut session);
    assert_eq!(shown.len(), 8, "{}", session.text());
    assert!(shown[0].starts_with(">pool a-# ×3") && shown[7].starts_with(" pool h-# ×3"), "{shown:#?}");
    assert_eq!(session.text().matches("\n to 1 thread").count(), 8, "{}", session.text());
    assert!(session.text().contains(" 4 rows below "), "{}", session.text());
    // The second line of a row is part of it, for the pointer too.
    let y = session.app.context.areas().unwrap().body.y;
    session.press(&[Action::Click(Position::new(2, y + 1 + 3))]);
    assert!(names(&mut session)[1].starts_with(">pool b-# ×3"), "{}", session.text());
    session.press(&[Action::Last]);
    let shown = names(&mut session);
    assert!(shown[0].starts_with(" pool e-# ×3") && shown[7].starts_with(">pool l-# ×3"), "{shown:#?}");
    // A row of a single thread needs no second line.
    session.press(&[Action::SplitThreads]);
    assert!(
        session.text().contains(" rows above") && !session.text().contains("\n to "),
        "{}",
        session.text()
    );
}
