//! What was recorded, opened as a file: with filters of the command line, and compared.

use super::{Driver, VIEWS, View};
use crate::harness::machine::turn;
use crate::harness::profiler::Recording;
use crate::harness::running::{Running, UNTIL_ENDED};
use crate::terminal::files::quoted;

/// The views of a comparison.
const COMPARED: [View; 6] = {
    let mut views = VIEWS;
    views[1].2 = "DELTA";
    views[3].2 = "█ running";
    views
};

impl Driver {
    /// A filter of the command line is a chip, too, on what was saved.
    pub(super) fn drive_saved(&self) {
        self.start(&format!("prof.data --focus {}", self.function));
        self.terminal.wait_for(VIEWS[0].2);
        self.take_mouse();
        self.click_off("[focus ");
        self.wait_for_function();
        self.press("q");
        self.terminal.assert_given_back(0);
    }

    /// Every view says what it is compared with, and shows the base instead after a key or a click.
    fn drive_sides(&self) {
        const CHIP: &str = "[base base.data]";
        const TURNED: &str = "[shown: base base.data]";
        self.take_mouse();
        for view in 0..self.views.len() {
            self.open(view);
            self.terminal.wait_for("vs base ");
            self.click(self.place_of(CHIP));
            self.terminal.wait_for(TURNED);
            self.press_for("B", CHIP);
        }
        self.open(3);
        self.press_for("b", "the base is base.data");
    }

    /// A file has both sides, or says which of them it has.
    fn drive_exports_of_sides(&self) {
        for (view, letter, words) in [
            (0, "s", "base base.data and new new.data"),
            (0, "h", "the new side alone: B shows the base"),
            (1, "t", "base base.data and new new.data"),
        ] {
            self.open(view);
            self.press_for("x", "export this view as");
            self.press(letter);
            self.terminal.wait_until("written file", |screen| {
                screen.lines().any(|line| line.contains("wrote ") && line.contains(words))
            });
        }
    }
}

/// All CPUs of this machine, as a list with commas.
fn all_cpus() -> String {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("it can be read");
    let number = |text: &str| text.trim().parse::<u16>().expect("CPUs have numbers");
    let all = online.split(',').flat_map(|range| match range.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(range)..=number(range),
    });
    all.map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn every_view_and_key_of_a_comparison_works_in_a_terminal() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("restless", &[UNTIL_ENDED]) else { return };
    let Some(driver) = Driver::new("burn_and_nap", COMPARED) else { return };
    for name in ["base.data", "new.data"] {
        let recording = Recording::of_pid(program.pid(), "1s");
        std::fs::copy(recording.file(), driver.terminal.file(name)).expect("a recording can be copied");
    }
    driver.start("base.data new.data");
    driver.drive_views();
    driver.drive_sides();
    driver.drive_exports_of_sides();
    driver.press("q");
    driver.terminal.assert_given_back(0);
}

#[test]
fn every_filter_of_the_command_line_is_a_chip_that_a_click_takes_off() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid(program.pid(), "1s");
    let Some(driver) = Driver::new("share_fifty", VIEWS) else { return };
    let (file, pid) = (quoted(&recording.file()), program.pid());
    let [of_pid, of_tid, on_cpus] =
        [format!("--pid {pid}"), format!("--tid {pid}"), format!("--cpu {}", all_cpus())];
    // In the order of the chips. Each keeps something, next to any of the others.
    let filters = [
        ("--focus share_", "[focus "),
        ("--ignore '^rest$'", "[ignore "),
        ("--hide '^one_round$'", "[hide "),
        ("--show 'main|share_'", "[show "),
        ("--module shares", "[module "),
        ("--thread shares", "[thread "),
        ("--process shares", "[process "),
        (of_pid.as_str(), "[pid "),
        (of_tid.as_str(), "[tid "),
        (on_cpus.as_str(), "[cpu "),
        ("--time ..1000s", "[time "),
        ("--user", "[user "),
    ];
    // There is no room for all of their chips: as one is taken off, others come.
    driver.terminal.run(&["resize-window", "-x", "100", "-y", "40"]);
    let options = filters.map(|(option, _)| option).join(" ");
    driver.start(&format!("{file} {options}"));
    // A range of time and the kernel's frames have words of their own there.
    driver.terminal.wait_for(" 10 filters ");
    driver.terminal.wait_for(" more]");
    driver.take_mouse();
    for (_, chip) in filters {
        driver.click_off(chip);
    }
    driver.terminal.wait_for("share_thirty");
    driver.press("q");
    driver.terminal.assert_given_back(0);
    // The other half of the stacks is a filter like the others.
    driver.start(&format!("{file} --kernel --focus share_fifty"));
    driver.terminal.wait_for("[kernel ");
    driver.take_mouse();
    driver.click_off("[kernel ");
    driver.press_without("U", "[focus ");
    driver.terminal.wait_for("share_thirty");
    driver.press("q");
    driver.terminal.assert_given_back(0);
}
