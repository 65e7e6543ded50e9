//! Every view, key and chip of the screen, in a real terminal: of a database and of a thousand threads, while they are recorded.
//!
//! Which keys there are is read from the screen, from the list of actions of each view: a new key is pressed here without
//! another word. Each has to change the picture, or to say why it does not.

mod saved;

use crate::harness::machine::turn;
use crate::harness::pane::{PATIENCE, Terminal};
use crate::harness::postgres::Postgres;
use crate::harness::profiler::binary;
use crate::harness::running::{Running, UNTIL_ENDED, wait_for};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Columns and rows: all actions of a view fit into half of it, and there is a panel at the side.
const SIZE: (u16, u16) = (170, 150);

/// A view: its digit, its tab when it is open, and what is on its screen.
type View = (&'static str, &'static str, &'static str);

const VIEWS: [View; 6] = [
    ("1", "[1 Flame]", "▏all · "),
    ("2", "[2 Top]", "SELF%"),
    ("3", "[3 Callers]", " PIVOT "),
    ("4", "[4 Time]", "chooses a range"),
    ("5", "[5 Threads]", "BLOCKED"),
    ("6", "[6 Source]", "SELF%"),
];

/// What appears after an action, wherever it was asked for; the list of actions has these words for them.
const EFFECTS: [(&str, &str); 17] = [
    ("search", " /_ "),
    ("show the heat map or the bars", "shade ="),
    ("list all actions", "Enter does it"),
    ("list marked places and searches", "Enter does it"),
    ("mark this place", "name of this place"),
    ("export what is shown to a file", "export this view as"),
    ("help: the keys, what colours and marks mean", "Help: "),
    ("show the notes on the recording", "Notes on the recording"),
    ("show the next metric", "off-CPU"),
    ("threads: classes, each, merged", "each thread"),
    ("show or hide idle waits", "with idle"),
    ("show or hide kernel frames", "no kernel"),
    ("show or hide inlined functions", "no inlined"),
    ("window: all, last minute, last ten seconds", "window last 60 s"),
    ("invert the stacks", "inverted"),
    ("save what is shown to a file", "/prof.data"),
    ("show the base of the comparison, or the new side", "[shown: base "),
];

/// What is open after an action until Esc is pressed.
const OPEN: [&str; 6] = [
    " /_ ",
    "Enter does it",
    "name of this place",
    "export this view as",
    "─ any key closes",
    "─ any other key closes",
];

/// How actions begin that mean something else in each view.
const OF_EACH_VIEW: [&str; 7] =
    ["move ", "go to ", "go one step back", "open the selection", "show all", "sort", "reverse"];

/// Actions that end, stop or empty what is driven: they come last.
const LAST: [&str; 3] = ["quit", "suspend the program", "clear what was recorded so far"];

/// What `M` says, which any other key takes away.
const MOUSE: [&str; 2] = ["the mouse works here", "the terminal has the mouse"];

/// A screen that is driven, and a function that is wide on it.
struct Driver {
    terminal: Terminal,
    function: &'static str,
    views: [View; 6],
}

/// The lines between the header, which has a clock, and the last line.
fn picture(screen: &str) -> Vec<&str> {
    let lines: Vec<&str> = screen.lines().collect();
    lines[1..lines.len().saturating_sub(1)].to_vec()
}

fn last_line(screen: &str) -> &str {
    screen.lines().last().unwrap_or_default()
}

/// Whether there is a message, not the line of keys.
fn is_said(last: &str) -> bool {
    !last.trim().is_empty() && !last.ends_with("? help")
}

fn has_mouse_message(screen: &str) -> bool {
    MOUSE.iter().any(|message| last_line(screen).contains(message))
}

/// Whether a filter or a base is on the line below the view.
fn has_chip(screen: &str) -> bool {
    screen.lines().any(|line| line.starts_with('─') && line.contains("×]"))
}

/// What a terminal sends for the button at a column and row, from 1.
fn mouse_report(button: u8, (column, row): (usize, usize), is_pressed: bool) -> String {
    let end = if is_pressed { 'M' } else { 'm' };
    format!("\u{1b}[<{button};{column};{row}{end}")
}

impl Driver {
    /// A new terminal, with an editor that only notes what it was opened at.
    fn new(function: &'static str, views: [View; 6]) -> Option<Driver> {
        let terminal = Terminal::open(SIZE.0, SIZE.1)?;
        let editor = terminal.file("editor");
        std::fs::write(&editor, "#!/bin/sh\necho \"$@\" >edited\n").expect("a script can be written");
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        terminal.type_text("set -m");
        terminal.press(&["Enter"]);
        Some(Driver { terminal, function, views })
    }

    /// Starts `prof tui ARGUMENTS` and waits for the function.
    fn start(&self, arguments: &str) {
        self.terminal.start(&format!("VISUAL= EDITOR=./editor {} tui {arguments}", binary().display()));
        self.wait_for_function();
    }

    /// Waits for the function in the flame graph. Where few samples have been taken it may be in all of them, and not be shown
    /// before the frames that all have are opened.
    fn wait_for_function(&self) {
        const FOLDED: &str = "(t opens)";
        let screen = self
            .terminal
            .wait_until(self.function, |screen| screen.contains(self.function) || screen.contains(FOLDED));
        if !screen.contains(self.function) {
            self.press_for("t", self.function);
        }
    }

    /// Starts `prof tui TARGET` in a new terminal, waits for the function and for all names, and freezes the picture.
    fn watching(target: &str, function: &'static str) -> Option<Driver> {
        let driver = Driver::new(function, VIEWS)?;
        driver.start(target);
        driver.freeze_with_function();
        Some(driver)
    }

    fn freeze_with_function(&self) {
        self.wait_for_function();
        self.terminal.wait_without("reading names");
        self.terminal.type_text(" ");
        self.terminal.wait_for("FROZEN");
    }

    /// Presses a key by its name on the screen.
    fn press(&self, key: &str) {
        if let Some(letter) = key.strip_prefix("Ctrl-") {
            return self.terminal.press(&[&format!("C-{}", letter.to_lowercase())]);
        }
        match key {
            "PgUp" => self.terminal.press(&["PPage"]),
            "PgDn" => self.terminal.press(&["NPage"]),
            "Esc" => self.terminal.press(&["Escape"]),
            "Shift-Tab" => self.terminal.press(&["BTab"]),
            text if text.chars().count() == 1 => self.terminal.type_text(text),
            named => self.terminal.press(&[named]),
        }
    }

    /// Presses a key and waits for what it shows.
    fn press_for(&self, key: &str, words: &str) {
        self.press(key);
        self.terminal.wait_for(words);
    }

    fn press_without(&self, key: &str, words: &str) {
        self.press(key);
        self.terminal.wait_without(words);
    }

    fn open(&self, view: usize) {
        let (digit, tab, words) = self.views[view];
        if !self.terminal.screen().contains(tab) {
            self.press_for(digit, tab);
        }
        let empty = "no sample has ";
        let screen =
            self.terminal.wait_until(words, |screen| screen.contains(words) || screen.contains(empty));
        // A function that a key led to may not be in a later picture: then the one that is always there.
        if !screen.contains(words) {
            self.open(0);
            self.select();
            self.press_for(digit, words);
        }
    }

    /// The actions of the open view, with their keys.
    fn actions(&self) -> Vec<(String, Vec<String>)> {
        self.press_for(":", "Enter does it");
        let screen = self.terminal.settled();
        self.press_without("Esc", "Enter does it");
        let (list, prompt) = screen.trim_end().rsplit_once('\n').expect("the list has lines");
        let count = prompt.split_whitespace().zip(prompt.split_whitespace().skip(1));
        let count = count.filter(|(_, word)| *word == "actions").find_map(|(number, _)| number.parse().ok());
        let count: usize = count.unwrap_or_else(|| panic!("no number of actions in `{prompt}`"));
        let rows = list.lines().rev().take(count).map(|row| {
            let (words, keys) =
                row.trim_end().rsplit_once("  ").unwrap_or_else(|| panic!("`{row}`:\n{screen}"));
            let keys = keys.split_whitespace().map(str::to_owned).collect();
            (words.trim_start_matches('>').trim().to_owned(), keys)
        });
        rows.collect()
    }

    /// Searches for the function, which selects it where it is.
    fn find(&self) {
        self.press_for("/", " /_ ");
        self.terminal.type_text(self.function);
        // A picture that still lacks it may be on the screen.
        let typed = format!("/{}_   ", self.function);
        self.terminal.wait_until("found function", |screen| {
            last_line(screen).split(&typed).nth(1).is_some_and(|found| !found.starts_with("0 "))
        });
        self.press_for("Enter", "n N next");
    }

    fn select(&self) {
        self.find();
        self.press_without("Esc", "n N next");
    }

    /// Takes any message away; returns the screen with that of `M`.
    fn screen_before(&self) -> String {
        let began = Instant::now();
        loop {
            self.press("M");
            for _ in 0..50 {
                let screen = self.terminal.screen();
                if has_mouse_message(&screen) {
                    return screen;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            // A note on the recording may have taken its place.
            assert!(began.elapsed() < PATIENCE, "no message on the mouse:\n{}", self.terminal.screen());
        }
    }

    /// Presses a key in a view: it changes something, or says why not; and what is known of it happens.
    fn drive_key(&self, view: usize, action: &str, key: &str) {
        self.open(view);
        let (digit, name, _) = VIEWS[view];
        if view < 3 {
            match action {
                _ if action.contains(" match") => self.find(),
                "open the selection" => self.select(),
                _ if action.contains(" selected ") => self.select(),
                _ => {}
            }
        }
        let quiet = last_line(&self.terminal.screen()).to_owned();
        let before = self.screen_before();
        self.press(key);
        if action == "give the mouse to the terminal, or take it back" {
            let message = last_line(&before).to_owned();
            self.terminal.wait_until("other message on the mouse", |screen| {
                has_mouse_message(screen) && last_line(screen) != message
            });
            return;
        }
        let is_search = quiet.starts_with(" /");
        let what = format!("answer to {key} ({action}) in {name}");
        let after = self.terminal.wait_until(&what, |screen| {
            let last = last_line(screen);
            let is_answered = is_said(last) && !(is_search && last == quiet);
            let is_drawn = !has_mouse_message(screen);
            // Redrawn, it is the same; the editor has come and gone.
            let may_be_same = matches!(action, "redraw the screen" | "open the editor at the selected line");
            is_drawn && (picture(screen) != picture(&before) || is_answered || may_be_same)
        });
        if action.starts_with("open the view ") && !VIEWS[view].1.contains(key) {
            assert!(after.contains(&format!("[{key} ")), "{key} in view {digit}:\n{after}");
        }
        // Without waits, or of stacks the other way round, there is nothing to invert or to look at.
        if let Some((_, words)) = EFFECTS.iter().find(|(known, _)| *known == action) {
            self.terminal.wait_for(words);
        }
        self.turn_back(action);
    }

    /// Takes back what an action did, as far as others would be in its way.
    fn turn_back(&self, action: &str) {
        let screen = self.terminal.screen();
        if let Some(open) = OPEN.iter().find(|words| screen.contains(*words)) {
            self.press_without("Esc", open);
        }
        match action {
            "show the next metric" => {
                self.press_for("m", "wall clock");
                self.press("m");
                self.terminal.wait_until("metric from before", |screen| {
                    screen.lines().next().is_some_and(|header| header.contains("on-CPU"))
                })
            }
            "threads: classes, each, merged" => {
                self.press_for("T", "threads merged");
                self.press("T");
                self.terminal.wait_without("threads merged")
            }
            "show or hide idle waits" => {
                self.press("o");
                self.terminal.wait_without("with idle")
            }
            "show or hide kernel frames" => {
                self.press("K");
                self.terminal.wait_without("no kernel")
            }
            "show or hide inlined functions" => {
                self.press("I");
                self.terminal.wait_without("no inlined")
            }
            "window: all, last minute, last ten seconds" => {
                self.press_for("w", "window last 10 s");
                self.press("w");
                self.terminal.wait_for("window all")
            }
            "invert the stacks" => {
                self.press("i");
                self.terminal.wait_without("inverted")
            }
            "show the heat map or the bars" => {
                self.press("H");
                self.terminal.wait_without("shade =")
            }
            "show or shorten the trunk" => {
                self.press("t");
                self.terminal.settled()
            }
            "freeze the picture, or go on" => {
                self.press("Space");
                self.terminal.wait_for("FROZEN")
            }
            "go to the next match" | "go to the previous match" | "search the selected name" => {
                self.press("Esc");
                self.terminal.wait_without("n N next")
            }
            "open the selection" if screen.contains("[1 Flame]") => {
                self.press("0");
                self.terminal.wait_for("▏all · ")
            }
            "open the selection" if screen.contains("[4 Time]") => {
                self.press("Esc");
                self.terminal.wait_for(self.views[3].2)
            }
            "show the base of the comparison, or the new side" => {
                self.press("B");
                self.terminal.wait_without("[shown: base ")
            }
            _ => screen,
        };
        let may_filter = ["stacks with", "filter", "collapse", "time range", "open the selection"];
        if may_filter.iter().any(|word| action.contains(word)) && has_chip(&self.terminal.settled()) {
            self.press("U");
            self.terminal.wait_until("line without filters", |screen| !has_chip(screen));
        }
    }

    /// Presses each key, and in each view again those that mean something else there.
    fn drive_views(&self) {
        let mut pressed = BTreeSet::new();
        self.open(0);
        self.select();
        for (view, (_, name, _)) in VIEWS.iter().enumerate() {
            self.open(view);
            let actions = self.actions();
            assert!(actions.len() > 30, "only {} actions in {name}: {actions:?}", actions.len());
            for (action, keys) in actions.iter().filter(|(action, _)| !LAST.contains(&action.as_str())) {
                let is_of_view = OF_EACH_VIEW.iter().any(|words| action.starts_with(words));
                for key in keys {
                    if pressed.insert((action.clone(), key.clone())) || is_of_view {
                        self.drive_key(view, action, key);
                    }
                }
            }
        }
    }

    /// Sends what a terminal sends of the mouse: a button at a column and a row, from 1, pressed or released.
    fn mouse(&self, button: u8, at: (usize, usize), is_pressed: bool) {
        self.terminal.type_text(&mouse_report(button, at, is_pressed));
    }

    fn click(&self, at: (usize, usize)) {
        self.mouse(0, at, true);
        self.mouse(0, at, false);
    }

    /// Clicks twice, in one write: by the time of a second one, a busy machine may have made it another click.
    fn double_click(&self, at: (usize, usize)) {
        let click = [mouse_report(0, at, true), mouse_report(0, at, false)].concat();
        self.terminal.type_text(&click.repeat(2));
    }

    /// Column and row, from 1, of the last character of `words`.
    fn place_of(&self, words: &str) -> (usize, usize) {
        let screen = self.terminal.wait_for(words);
        let found = screen.lines().enumerate().find_map(|(row, line)| {
            let end = line.find(words)? + words.len();
            Some((line[..end].chars().count(), row + 1))
        });
        found.unwrap_or_else(|| panic!("no `{words}`:\n{screen}"))
    }

    /// Takes a chip with these words off by a click.
    fn click_off(&self, words: &str) {
        let screen = self.terminal.wait_until(&format!("chip with `{words}`"), |screen| {
            screen.lines().any(|line| line.starts_with('─') && line.contains(words))
        });
        let line = screen.lines().find(|line| line.starts_with('─') && line.contains(words));
        let chip = line.and_then(|line| line[line.find(words)?..].split_once(']')).expect("a chip ends");
        let (column, row) = self.place_of(&format!("{}]", chip.0));
        self.click((column - 1, row));
        self.terminal.wait_until(&format!("line without `{words}`"), |screen| {
            !screen.lines().any(|line| line.starts_with('─') && line.contains(words))
        });
    }

    /// The mouse is for the program, not for the terminal.
    fn take_mouse(&self) {
        if !last_line(&self.screen_before()).contains(MOUSE[0]) {
            self.press_for("M", MOUSE[0]);
        }
    }

    /// Puts each filter on by its key and takes it off by a click.
    fn drive_chips(&self) {
        self.take_mouse();
        self.open(0);
        for (key, words) in [
            ("f", "[only with "),
            ("d", "[without "),
            ("c", " with all"),
            ("C", " as one"),
            ("r", " without "),
        ] {
            self.select();
            self.press(key);
            self.click_off(words);
        }
        for key in ["F", "&"] {
            self.find();
            self.press(key);
            self.click_off("[only with a match of ");
            self.press_without("Esc", "n N next");
        }
        self.press("K");
        self.click_off("[user ");
        self.open(4);
        self.press("Enter");
        self.click_off("[");
        // A range by the pointer, and then as the base of a comparison.
        self.open(3);
        let row = self.cursor_row();
        self.drag((60, row), (110, row));
        self.click_off("[time ");
        self.drag((60, row), (110, row));
        self.press_for("b", "[base ");
        self.press_for("B", "[shown: base ");
        self.press_for("B", "[base ");
        for (digit, tab, _) in VIEWS {
            self.press_for(digit, tab);
            self.terminal.wait_for("[base ");
        }
        self.click_off("[base ");
    }

    /// The row, from 1, of the selected line of a table or of the bars.
    fn cursor_row(&self) -> usize {
        let screen = self.terminal.settled();
        let row = screen.lines().position(|line| line.starts_with('>'));
        1 + row.unwrap_or_else(|| panic!("nothing is selected:\n{screen}"))
    }

    fn drag(&self, from: (usize, usize), to: (usize, usize)) {
        self.mouse(0, from, true);
        self.mouse(32, to, true);
        self.mouse(0, to, false);
    }

    /// What else the mouse does: tabs, boxes, rows; and that it is given back to the terminal.
    fn drive_mouse(&self) {
        for (message, flag) in [(MOUSE[1], "0"), (MOUSE[0], "1")] {
            self.press_for("M", message);
            wait_for("mouse of the terminal", || {
                (self.terminal.fact("#{mouse_any_flag}") == flag).then_some(())
            });
        }
        self.open(0);
        self.click(self.place_of("2 Top"));
        self.terminal.wait_for("[2 Top]");
        self.click(self.place_of("TOTAL%"));
        self.terminal.wait_for("TOTAL%v");
        let row = self.cursor_row() + 3;
        self.click((10, row));
        let is_selected =
            |screen: &str| screen.lines().nth(row - 1).is_some_and(|line| line.starts_with('>'));
        self.terminal.wait_until("selected row further down", is_selected);
        self.open(0);
        let at = self.place_of(&format!("▏{}", self.function));
        self.double_click(at);
        self.terminal.wait_for(&format!("› {}", self.function));
        self.press_without("0", &format!("› {}", self.function));
    }

    /// Marks a place, leaves it and comes back; finds an action by its words; writes a file by a letter.
    fn drive_prompts(&self) {
        self.open(0);
        self.select();
        self.press_for("\"", "name of this place");
        self.terminal.type_text("here");
        self.press("Enter");
        self.open(4);
        self.press_for("'", "here");
        self.press("Enter");
        self.terminal.wait_for("[1 Flame]");
        self.press_for(":", "Enter does it");
        self.terminal.type_text("open the view time");
        self.terminal.wait_for("1 action ");
        self.press("Enter");
        self.terminal.wait_for("[4 Time]");
        self.open(0);
        self.press_for("x", "export this view as");
        let prompt = self.terminal.settled();
        let letter = last_line(&prompt).split("as: ").nth(1).and_then(|kinds| kinds.split(' ').next());
        self.press(letter.expect("there is a format"));
        self.terminal.wait_for("wrote ");
    }

    /// Goes on with the recording, empties it, stops and continues the program, saves once more, and ends it by `key`.
    fn end(&self, key: &str) {
        self.open(0);
        self.press_without("Space", "FROZEN");
        self.press("Ctrl-R");
        // The message goes after some seconds, in which a crowded machine may have drawn nothing.
        self.terminal.wait_until("cleared", |screen| {
            screen.contains("cleared") || screen.contains("(before Ctrl-R)") || screen.contains("  00:0")
        });
        // The picture from before, which is still there, has the function, too.
        self.terminal.wait_until("function in a picture of what came since", |screen| {
            screen.contains(self.function) && !screen.contains("(before Ctrl-R)")
        });
        self.press("Ctrl-Z");
        self.terminal.assert_given_back(148);
        self.terminal.start("fg");
        self.terminal.wait_for("LIVE");
        self.press_for("Ctrl-S", "(previous kept as prof.data.old)");
        self.press(key);
        self.terminal.assert_given_back(0);
    }

    /// All that is done with a frozen picture.
    fn drive_frozen(&self) {
        self.drive_views();
        self.drive_chips();
        self.drive_mouse();
        self.drive_prompts();
    }

    fn drive_end(&self, last_key: &str) {
        self.end(last_key);
        self.drive_saved();
    }
}

/// The number of samples that the picture on a screen has; 0 where it says none.
fn samples_on(screen: &str) -> u64 {
    let number = screen.split(" samples").next().and_then(|before| before.rsplit(' ').next());
    number.and_then(|number| number.replace(',', "").parse().ok()).unwrap_or(0)
}

/// Detail 15 of the promises: all works over ssh and in scripts.
#[test]
fn every_view_key_and_chip_of_a_database_works_in_a_terminal() {
    let Some(_turn) = turn() else { return };
    let Some(database) = Postgres::start() else { return };
    let _load = database.load();
    let backends: Vec<String> = database.backends().iter().map(u32::to_string).collect();
    let Some(driver) = Driver::watching(&format!("-p {}", backends.join(",")), "Portal") else { return };
    driver.drive_frozen();
    driver.drive_end("q");
}

/// Detail 18 of the promises: the mouse works, and can be given back.
#[test]
fn every_view_key_and_chip_of_a_thousand_threads_works_in_a_terminal() {
    let Some(_turn) = turn() else { return };
    let Some(crowd) = Running::fixture("crowd", &[UNTIL_ENDED]) else { return };
    let Some(driver) = Driver::new("work_in_turn", VIEWS) else { return };
    driver.start(&format!("-F 199 -p {}", crowd.pid()));
    // Of fewer the function may be the trunk of all, and no box of its own.
    driver.terminal.wait_until("picture of a hundred samples", |screen| samples_on(screen) >= 100);
    driver.freeze_with_function();
    // Or a thousand threads would take the CPU from the screen, for nothing: its picture is frozen.
    crowd.signal(Signal::STOP);
    driver.drive_frozen();
    crowd.signal(Signal::CONT);
    driver.drive_end("Ctrl-C");
    // The fixture has lines, but a process that records starts no program of the user's.
    assert!(!driver.terminal.file("edited").exists(), "an editor was opened without the user's rights");
}
