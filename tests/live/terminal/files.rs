//! Files in a real terminal, and what it cannot show.

use crate::harness::machine::turn;
use crate::harness::pane::Terminal;
use crate::harness::profiler::{Recording, binary};
use crate::harness::running::{Running, UNTIL_ENDED};
use std::path::Path;
use std::process::Command;

pub(crate) fn recorded_shares() -> Option<Recording> {
    let program = Running::fixture("shares", &[UNTIL_ENDED])?;
    Some(Recording::of_pid(program.pid(), "1500ms"))
}

pub(crate) fn quoted(path: &Path) -> String {
    path.to_str().expect("a path is text").to_owned()
}

#[test]
fn a_file_is_shown_searched_zoomed_and_inverted() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(100, 30) else { return };
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    terminal.wait_for("share_fifty");
    terminal.type_text("/share_fif");
    terminal.wait_for("1 function");
    terminal.press(&["Enter"]);
    terminal.press(&["Enter"]);
    let zoomed = terminal.wait_for("of zoom");
    assert!(zoomed.contains("share_fifty"), "{zoomed}");
    // The way to the box that fills the screen now.
    terminal.wait_for("› share_fifty");
    terminal.press(&["Escape", "Escape", "0"]);
    terminal.wait_without("› share_fifty");
    terminal.type_text("i");
    terminal.wait_for("inverted");
    terminal.type_text("i");
    terminal.wait_without("inverted");
    // A filter, and the same without.
    terminal.wait_for("share_thirty");
    terminal.type_text("/share_fif");
    terminal.press(&["Enter"]);
    terminal.type_text("f");
    terminal.wait_without("share_thirty");
    terminal.type_text("u");
    terminal.wait_for("share_thirty");
    // A range of time, which other views follow, and an end to it.
    terminal.type_text("4");
    terminal.wait_for("chooses a range");
    // All of it: in the first part the program may not have had a CPU.
    terminal.type_text("[G]");
    terminal.wait_for("clears it");
    terminal.type_text("1");
    terminal.wait_for("share_fifty");
    terminal.type_text("4");
    terminal.wait_for("clears it");
    terminal.type_text("0");
    terminal.wait_without("clears it");
    terminal.type_text("?");
    terminal.wait_for("Help");
    terminal.type_text("?");
    terminal.wait_without("Help");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn without_a_terminal_it_names_the_report() {
    let output = Command::new(binary()).arg("tui").output().expect("prof can be run");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("prof report"), "{output:?}");
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_is_told_of_the_report() {
    let Some(terminal) = Terminal::open(80, 24) else { return };
    terminal.start(&format!("TERM=dumb {} tui no-such-file", binary().display()));
    let screen = terminal.wait_for("over\n");
    assert!(screen.contains("TERM=dumb") && screen.contains("prof report"), "{screen}");
    terminal.assert_given_back(2);
}

#[test]
fn a_file_that_is_not_whole_says_so_when_it_is_opened() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    let whole = std::fs::read(recording.file()).expect("the recording can be read");
    std::fs::write(terminal.file("cut.data"), &whole[..whole.len() - 20])
        .expect("a part of it can be written");
    terminal.start_prof("tui cut.data");
    let is_said_below = |screen: &str| screen.contains("is incomplete") && screen.contains("share_fifty");
    terminal.wait_until("message below the picture", is_said_below);
    let report = Command::new(binary()).arg("report").arg(terminal.file("cut.data")).output();
    let said = String::from_utf8(report.expect("prof can be run").stderr).expect("it is text");
    assert!(said.contains("is incomplete"), "{said}");
    // The first key takes the message away; the notes keep it.
    terminal.type_text("!");
    terminal.wait_for("the file is incomplete");
    terminal.type_text("xq");
    terminal.assert_given_back(0);
}

#[test]
fn a_small_terminal_says_what_it_needs_and_recovers() {
    let Some(_turn) = turn() else { return };
    let Some(recording) = recorded_shares() else { return };
    let Some(terminal) = Terminal::open(30, 8) else { return };
    terminal.start_prof(&format!("tui {}", quoted(&recording.file())));
    terminal.wait_for("40x10");
    terminal.run(&["resize-window", "-x", "80", "-y", "24"]);
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}

#[test]
fn a_target_that_cannot_be_recorded_is_refused_on_the_normal_screen() {
    let Some(_turn) = turn() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    terminal.start_prof("tui -p 4000000");
    terminal.wait_for("no such process");
    terminal.assert_given_back(1);
}

#[test]
fn a_process_is_chosen_from_the_list_and_watched() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let Some(terminal) = Terminal::open(100, 24) else { return };
    let watch = format!("prof live -p {}", program.pid());
    terminal.start_prof("");
    terminal.wait_for("COMMAND");
    terminal.type_text(&format!("/{}", program.pid()));
    terminal.wait_for(&watch);
    terminal.press(&["Enter"]);
    terminal.wait_for("LIVE");
    terminal.wait_for("share_fifty");
    terminal.type_text("q");
    terminal.wait_for(&watch);
    terminal.assert_given_back(0);
    // Nothing is chosen: the terminal is as it was. Esc goes back, and there is nothing to go back to.
    terminal.start_prof("top");
    terminal.wait_for("COMMAND");
    terminal.press(&["Escape"]);
    terminal.wait_for("nothing to go back to; q quits");
    terminal.type_text("q");
    terminal.assert_given_back(0);
}
