//! Running programs in a real terminal: all that can be done with a profile while it grows, and with what was saved of it.

use crate::harness::machine::{turn, turn_alone};
use crate::harness::pane::{PATIENCE, Terminal};
use crate::harness::postgres::Postgres;
use crate::harness::profiler::binary;
use crate::harness::running::{Running, UNTIL_ENDED};
use std::process::Command;
use std::time::{Duration, Instant};

/// What is known of a program.
struct Known {
    /// A function that is wide, on most stacks but not on all.
    function: &'static str,
    /// One that is wide, too, and on other stacks, or above it.
    other: &'static str,
}

/// Goes through the views while the program is watched, and looks at what each step shows.
fn drive(terminal: &Terminal, known: &Known) {
    let Known { function, other } = known;
    terminal.wait_for("LIVE");
    terminal.wait_for(function);
    terminal.wait_for(other);
    // The way to a box has other words while names are missing.
    terminal.wait_without("reading names");
    // What is typed is found while it is typed.
    terminal.type_text(&format!("/{function}"));
    terminal.wait_until("found function", |screen| {
        screen.contains("1 function") && screen.contains("% of zoom") && screen.contains("Enter keep")
    });
    terminal.press(&["Enter"]);
    terminal.wait_for("n N next");
    // Into it and back.
    terminal.press(&["Enter"]);
    terminal.wait_until("zoom", |screen| {
        screen.contains(&format!("› {function}")) && screen.contains("of zoom 100.0%")
    });
    terminal.type_text("0");
    terminal.wait_without(&format!("› {function}"));
    // The picture stands still, and moves again.
    terminal.type_text(" ");
    terminal.wait_for("FROZEN");
    // Below the picture a message comes and goes, frozen or not.
    let still = |screen: &str| -> Vec<String> {
        let picture = screen.lines().skip(1).take_while(|line| !line.starts_with('─'));
        picture.map(str::to_owned).collect()
    };
    let before = still(&terminal.settled());
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(still(&terminal.screen()), before, "what is frozen moved");
    terminal.type_text(" ");
    terminal.wait_without("FROZEN");
    // Only stacks with it: it is all there is. And without the filter.
    let selected = |share: &'static str, is_so: bool| {
        move |screen: &str| {
            let found = screen.lines().any(|line| line.starts_with(" self ") && line.contains(share));
            found == is_so && screen.lines().any(|line| line.starts_with(" self "))
        }
    };
    terminal.wait_until("function with a part of the time", selected("total 100.0%", false));
    terminal.type_text("f");
    terminal.wait_until("function with all the time", selected("total 100.0%", true));
    terminal.type_text("u");
    terminal.wait_until("function with a part of the time", selected("total 100.0%", false));
    terminal.press(&["Escape"]);
    terminal.wait_without("n N next");
    terminal.type_text("i");
    terminal.wait_for("inverted");
    terminal.type_text("i");
    terminal.wait_without("inverted");
    terminal.wait_for(function);
    // A range of time, which other views follow, and an end to it.
    let samples = |screen: &str| -> Option<u64> {
        let all = screen.lines().find(|line| line.starts_with("▏all · "))?;
        all.split(' ').nth(2)?.replace(',', "").parse().ok()
    };
    terminal.wait_until("number of samples", |screen| samples(screen).is_some());
    terminal.type_text("4");
    terminal.wait_for("chooses a range");
    // A third of it: in the first hundredths of a second there may be nothing.
    terminal.type_text("[");
    terminal.press(&["Right"; 30]);
    terminal.type_text("]");
    terminal.wait_for("clears it");
    terminal.type_text("1");
    let is_part = |screen: &str| screen.contains("[time ") && samples(screen) > Some(0);
    let part = samples(&terminal.wait_until("part of the samples", is_part)).expect("they are counted");
    terminal.type_text("40");
    terminal.wait_without("clears it");
    terminal.type_text("1");
    // All of them now, however few there were when the range was chosen.
    let is_whole = |screen: &str| !screen.contains("[time ") && samples(screen) > Some(part);
    terminal.wait_until("all samples", is_whole);
}

/// Saves what is on the screen and waits for the file.
fn save(terminal: &Terminal) {
    let saved = terminal.file("prof.data");
    terminal.press(&["C-s"]);
    // With the folder that it is in.
    terminal.wait_for("/prof.data");
    let began = Instant::now();
    while !saved.exists() {
        assert!(began.elapsed() < PATIENCE, "nothing is saved:\n{}", terminal.screen());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Reads what was saved as a report and on the screen again.
fn reopen(terminal: &Terminal, function: &str) {
    let report = Command::new(binary()).args(["report", "-n", "0"]).arg(terminal.file("prof.data")).output();
    let report = report.expect("prof can be run");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(text.contains(function), "{text}");
    terminal.start_prof("tui");
    let screen = terminal.wait_for(function);
    assert!(!screen.contains("LIVE") && !screen.contains("ENDED"), "{screen}");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

/// Detail 16 of the promises: live boxes keep their places, and time can be frozen, cut and followed.
#[test]
fn a_program_is_watched_while_it_runs_and_what_was_seen_is_saved() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let Some(terminal) = Terminal::open(100, 30) else { return };
    terminal.start_prof(&format!("tui -p {}", program.pid()));
    drive(&terminal, &Known { function: "share_fifty", other: "share_thirty" });
    terminal.type_text("2");
    terminal.wait_for("SELF%");
    terminal.type_text("1");
    save(&terminal);
    terminal.type_text(" ");
    terminal.wait_for("FROZEN");
    drop(program);
    terminal.wait_for("ENDED");
    terminal.wait_for("share_fifty");
    // What was seen can still be saved; the file from before is kept.
    terminal.press(&["C-s"]);
    terminal.wait_for("previous kept");
    // The first key after a change of size counts.
    terminal.run(&["resize-window", "-x", "90", "-y", "28"]);
    std::thread::sleep(Duration::from_millis(400));
    terminal.type_text("q");
    terminal.assert_given_back(0);
    reopen(&terminal, "share_fifty");
}

#[test]
fn the_screen_follows_the_size_while_it_is_live_and_the_recording_ends_in_time() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let Some(terminal) = Terminal::open(100, 30) else { return };
    terminal.start_prof(&format!("tui -d 8s -p {}", program.pid()));
    terminal.wait_for("share_fifty");
    for (columns, rows) in [(60, 16), (140, 45), (40, 10), (30, 8), (90, 28)] {
        terminal.run(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        // What is drawn reaches from edge to edge, and the recording goes on.
        let what = format!("screen of {columns} columns");
        let screen = terminal.wait_until(&what, |screen| match columns {
            30 => screen.contains("40x10"),
            // The line below the view has words in it.
            _ => screen
                .lines()
                .any(|line| line.starts_with('─') && line.ends_with('─') && line.chars().count() == columns),
        });
        assert!(screen.lines().all(|line| line.chars().count() <= columns), "{screen}");
    }
    terminal.wait_for("ENDED");
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn what_a_program_keeps_is_watched_and_what_it_has_kept_since() {
    let Some(_turn) = turn() else { return };
    // It keeps as much as it frees: 10 GB at most.
    let code = "import time\nkept = []\ndef hoard(): kept.append(bytes([1]) * 200_000)\n\
                def waste(): return len(bytes([2]) * 200_000)\n\
                for n in range(50_000):\n hoard()\n waste()\n time.sleep(0.002)";
    let program = Running::start(Command::new("/usr/bin/python3").args(["-c", code]));
    let Some(terminal) = Terminal::open(110, 30) else { return };
    terminal.start_prof(&format!("tui -e heap -p {}", program.pid()));
    terminal.wait_for("LIVE");
    terminal.wait_for("heap, live at the end");
    // All have the same stack: boxes would be folded into one.
    terminal.type_text("2");
    let screen = terminal.wait_for("hoard");
    assert!(!screen.contains("waste"), "what is freed is not live:\n{screen}");
    // The peak is now, too; then all that was allocated.
    terminal.type_text("LL");
    terminal.wait_for("heap, allocated");
    terminal.wait_for("waste");
    terminal.type_text("LL");
    terminal.wait_for("heap, live at the end");
    terminal.wait_without("waste");
    // From here on it is growth that is shown.
    terminal.press(&["C-r"]);
    terminal.wait_until("two seconds since", |screen| {
        (2..9).any(|second| screen.contains(&format!(" 00:0{second} ")))
    });
    terminal.wait_for("hoard");
    save(&terminal);
    terminal.type_text("q");
    terminal.assert_given_back(0);
    let report = Command::new(binary())
        .args(["report", "--heap", "--allocated"])
        .arg(terminal.file("prof.data"))
        .output();
    let report = report.expect("prof can be run");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(report.status.success() && text.contains("hoard") && text.contains("waste"), "{text}");
}

#[test]
fn a_database_is_watched_with_its_waits() {
    // Others have databases, too.
    let Some(_turn) = turn_alone() else { return };
    let Some(database) = Postgres::start() else { return };
    let _load = database.load();
    let Some(terminal) = Terminal::open(120, 40) else { return };
    terminal.start_prof("tui --name '^postgres$'");
    drive(&terminal, &Known { function: "PortalRun", other: "PostgresMain" });
    terminal.type_text("m");
    terminal.wait_until("picture of waits", |screen| {
        screen.lines().next().is_some_and(|line| line.contains("off-CPU")) && screen.contains(" waits · ")
    });
    terminal.type_text("5");
    terminal.wait_for("BLOCKED");
    save(&terminal);
    terminal.type_text("q");
    terminal.assert_given_back(0);
    reopen(&terminal, "PostgresMain");
}
