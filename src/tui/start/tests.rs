//! The list of processes: what keys do, and screens of several sizes.

use super::choice::{Choice, LastRecording, ProcessRow};
use super::draw::draw;
use super::list::{ListEvent, ProcessList};
use crate::tui::tests::screen::{ASCII, COLORS};
use crate::tui::widgets::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use std::path::PathBuf;
use std::time::Duration;

fn process(pid: u32, cpu_percent: Option<f64>, threads: u64, command: &str) -> ProcessRow {
    ProcessRow { pid, cpu_percent, threads, command: command.to_owned() }
}

fn busy() -> Vec<ProcessRow> {
    vec![
        process(4312, Some(187.4), 8, "/usr/bin/ingest --input big.log"),
        process(911, Some(12.0), 1, "postgres: bench bench [local] SELECT"),
        process(12, Some(0.0), 1, "[systemd]"),
        process(77, None, 2, "evil\u{1b}]0;name\u{7}\n--flag"),
    ]
}

fn list() -> ProcessList {
    let age = Some(Duration::from_secs(125));
    let mut list =
        ProcessList::new(Some(LastRecording { path: PathBuf::from("prof.data"), age, bytes: 123_456 }));
    list.set_size(Size::new(80, 24));
    list.set_rows(busy());
    list
}

fn press(list: &mut ProcessList, code: KeyCode) -> Option<ListEvent> {
    list.press(&KeyEvent::new(code, KeyModifiers::NONE))
}

fn keys(list: &mut ProcessList, text: &str) -> Option<ListEvent> {
    text.chars()
        .map(|c| press(list, if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) }))
        .last()
        .flatten()
}

fn screen(list: &mut ProcessList, (columns, rows): (u16, u16), theme: &Theme) -> String {
    list.set_size(Size::new(columns, rows));
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, list, theme)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.area.rows().map(|row| {
        let line: String = row.columns().map(|cell| buffer[(cell.x, cell.y)].symbol().to_owned()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

const CHOSEN_BUSIEST: Option<ListEvent> = Some(ListEvent::Chosen(Choice::Watch(4312)));

#[test]
fn each_key_chooses_what_it_says() {
    assert_eq!(keys(&mut list(), "\n"), CHOSEN_BUSIEST);
    assert_eq!(keys(&mut list(), "jr"), Some(ListEvent::Chosen(Choice::Record(911))));
    assert_eq!(keys(&mut list(), "Gk\n"), Some(ListEvent::Chosen(Choice::Watch(12))));
    assert_eq!(keys(&mut list(), "a"), Some(ListEvent::Chosen(Choice::WatchAll)));
    assert_eq!(keys(&mut list(), "o"), Some(ListEvent::Chosen(Choice::Open)));
    assert_eq!(keys(&mut list(), "q"), Some(ListEvent::Chosen(Choice::Leave)));
    let held = |c| list().press(&KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    assert_eq!((held('c'), held('z')), (Some(ListEvent::Chosen(Choice::Leave)), Some(ListEvent::Suspended)));
    // Without a process or a recording, there is nothing to choose.
    let mut empty = ProcessList::new(None);
    assert_eq!((keys(&mut empty, "\n"), keys(&mut empty, "r"), keys(&mut empty, "o")), (None, None, None));
}

#[test]
fn the_selected_process_stays_selected_wherever_it_goes() {
    let mut list = list();
    keys(&mut list, "j");
    let mut rows = busy();
    rows.rotate_left(1);
    list.set_rows(rows);
    assert_eq!(keys(&mut list, "\n"), Some(ListEvent::Chosen(Choice::Watch(911))));
    // The selected process has ended: the busiest is selected then, not the one that took its row.
    list.set_rows(busy().into_iter().filter(|row| row.pid != 911).collect());
    assert_eq!(keys(&mut list, "\n"), CHOSEN_BUSIEST);
}

#[test]
fn without_a_key_the_busiest_is_selected() {
    let mut list = list();
    let mut rows = busy();
    rows.swap(0, 1);
    list.set_rows(rows);
    assert_eq!(keys(&mut list, "\n"), Some(ListEvent::Chosen(Choice::Watch(911))));
}

#[test]
fn a_filter_narrows_the_list_and_its_letters_choose_nothing() {
    let mut list = list();
    // The text holds letters that are keys of the list.
    assert_eq!(keys(&mut list, "/postGRes: qr"), None);
    assert!(screen(&mut list, (80, 24), &COLORS).contains("no process matches"));
    press(&mut list, KeyCode::Esc);
    assert_eq!(keys(&mut list, "/POST\n"), Some(ListEvent::Chosen(Choice::Watch(911))));
    let mut list = self::list();
    assert_eq!(
        keys(&mut list, "/77\n"),
        Some(ListEvent::Chosen(Choice::Watch(77))),
        "a number finds its process"
    );
    // The first Esc clears the filter; no Esc leaves the list.
    assert_eq!((press(&mut list, KeyCode::Esc), list.message.as_deref()), (None, None));
    assert_eq!(press(&mut list, KeyCode::Esc), None);
    assert_eq!(list.message.as_deref(), Some("nothing to go back to; q quits"));
}

#[test]
fn a_key_without_effect_says_why_and_one_shows_the_keys() {
    let mut list = list();
    for (key, said) in [(':', "unbound key; ? lists the keys"), ('x', "unbound key"), ('?', "Enter watch")] {
        assert_eq!(keys(&mut list, &key.to_string()), None);
        let message = list.message.clone().unwrap_or_default();
        assert!(message.contains(said), "{key}: {message}");
        assert!(screen(&mut list, (80, 24), &COLORS).contains(said), "{key}");
    }
    // The next key takes the message away.
    keys(&mut list, "j");
    assert_eq!(list.message, None);
    assert!(screen(&mut list, (120, 40), &COLORS).contains("? help"));
    let mut empty = ProcessList::new(None);
    for (key, said) in [
        ('\n', "no process is selected"),
        ('r', "no process is selected"),
        ('o', "no recording in this folder"),
    ] {
        assert_eq!(keys(&mut empty, &key.to_string()), None);
        assert!(empty.message.as_ref().is_some_and(|message| message.contains(said)), "{:?}", empty.message);
    }
}

#[test]
fn processes_on_all_screens() {
    let mut shown = String::new();
    for (size, theme) in [((80, 14), &COLORS), ((120, 14), &COLORS), ((40, 10), &COLORS), ((80, 14), &ASCII)]
    {
        shown += &format!("{}x{}\n{}\n", size.0, size.1, screen(&mut list(), size, theme));
    }
    let mut filtered = list();
    keys(&mut filtered, "/in");
    shown += &format!("a filter\n{}\n", screen(&mut filtered, (80, 14), &COLORS));
    shown += &format!("before the first look\n{}", screen(&mut ProcessList::new(None), (80, 14), &COLORS));
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    insta::assert_snapshot!(shown);
}

#[test]
fn no_screen_is_too_small_to_draw_on() {
    for columns in [1, 2, 39, 40, 41] {
        for rows in [1, 2, 9, 10, 11] {
            screen(&mut list(), (columns, rows), &COLORS);
        }
    }
}
