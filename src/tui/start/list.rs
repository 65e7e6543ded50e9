//! The list of processes: which are shown, which is selected, and what keys do. No I/O.

use super::choice::{Choice, LastRecording, ProcessRow};
use crate::tui::app::action::Action;
use crate::tui::app::key::{Chord, chord_of, ctrl};
use crate::tui::widgets::list::ListState;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

/// Outcome of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListEvent {
    /// A choice was made.
    Chosen(Choice),
    /// The program is to stop until the shell continues it.
    Suspended,
}

/// Lines that are not rows of the list: the title, the last recording, the headings, a rule, the details, the keys.
pub(super) const OTHER_LINES: u16 = 6;

/// State of the list.
#[derive(Debug)]
pub(crate) struct ProcessList {
    pub(super) last: Option<LastRecording>,
    /// All processes, busiest first; `None` before the first scan.
    rows: Option<Vec<ProcessRow>>,
    /// Only commands that contain this text are shown, ignoring case.
    pub(super) filter: Input,
    /// Whether the filter is being typed.
    pub(super) is_typing: bool,
    pub(super) list: ListState,
    /// Pid of the selected process. Until a key moves the selection, the busiest process is selected.
    selected: Option<u32>,
    height: usize,
    /// Why the last key had no effect, or what keys there are.
    pub(super) message: Option<String>,
}

/// The keys, as `?` shows them.
const KEYS: &str = "arrows jk PgUp PgDn g G move   Enter watch   r record   a whole machine   o last recording   / find   \
                    Esc all processes again   Ctrl-Z suspend   q quit";

impl ProcessList {
    /// Creates the list, without processes yet.
    pub(crate) fn new(last: Option<LastRecording>) -> Self {
        ProcessList {
            last,
            rows: None,
            filter: Input::default(),
            is_typing: false,
            list: ListState::default(),
            selected: None,
            height: 0,
            message: None,
        }
    }

    /// Sets the size of the screen.
    pub(crate) fn set_size(&mut self, size: Size) {
        self.height = size.height.saturating_sub(OTHER_LINES).into();
    }

    /// Replaces the rows after a scan. The selected process stays selected, wherever it is now.
    pub(crate) fn set_rows(&mut self, rows: Vec<ProcessRow>) {
        self.rows = Some(rows);
        self.select_again();
    }

    /// The processes that pass the filter; `None` before the first scan.
    pub(super) fn shown(&self) -> Option<Vec<&ProcessRow>> {
        let wanted = self.filter.value().to_lowercase();
        let is_shown =
            |row: &&ProcessRow| row.command.to_lowercase().contains(&wanted) || row.pid.to_string() == wanted;
        Some(self.rows.as_ref()?.iter().filter(is_shown).collect())
    }

    /// The selected process.
    pub(super) fn selected(&self) -> Option<&ProcessRow> {
        let shown = self.shown()?;
        shown.get(self.list.cursor(shown.len())).copied()
    }

    fn select_again(&mut self) {
        let shown = self.shown().unwrap_or_default();
        let (place, count) = (shown.iter().position(|row| Some(row.pid) == self.selected), shown.len());
        match place {
            Some(row) => self.list.select(row, count, self.height),
            // The selected process has ended or is filtered out: the one in its row is not what the user meant.
            None => {
                self.selected = None;
                self.list.select(0, count, self.height);
            }
        }
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: &KeyEvent) -> Option<ListEvent> {
        let chord = chord_of(key);
        self.message = None;
        if chord == ctrl('c') {
            return Some(ListEvent::Chosen(Choice::Leave));
        }
        if chord == ctrl('z') {
            return Some(ListEvent::Suspended);
        }
        if self.is_typing && self.typed(key) {
            return None;
        }
        if let Some(action) = movement(chord) {
            let count = self.shown().map_or(0, |shown| shown.len());
            self.list.update(&action, count, self.height);
            self.selected = self.selected().map(|row| row.pid);
            return None;
        }
        let of_process = |choice: fn(u32) -> Choice| Some(choice(self.selected()?.pid));
        let choice = match chord {
            (KeyCode::Enter, _) => of_process(Choice::Watch),
            (KeyCode::Char('r'), KeyModifiers::NONE) => of_process(Choice::Record),
            (KeyCode::Char('a'), KeyModifiers::NONE) => Some(Choice::WatchAll),
            (KeyCode::Char('o'), KeyModifiers::NONE) => self.last.is_some().then_some(Choice::Open),
            (KeyCode::Char('q'), KeyModifiers::NONE) => Some(Choice::Leave),
            (KeyCode::Char('/'), _) => {
                self.is_typing = true;
                None
            }
            (KeyCode::Esc, _) if !self.filter.value().is_empty() => {
                self.filter.reset();
                self.select_again();
                None
            }
            (KeyCode::Esc, _) => {
                self.message = Some("nothing to go back to; q quits".to_owned());
                None
            }
            _ => None,
        };
        if choice.is_none() && !self.is_typing && chord.0 != KeyCode::Esc {
            self.message = Some(self.answer(chord));
        }
        choice.map(ListEvent::Chosen)
    }

    /// The answer to a key that chooses nothing.
    fn answer(&self, chord: Chord) -> String {
        match chord {
            (KeyCode::Char('?') | KeyCode::F(1), _) => KEYS.to_owned(),
            (KeyCode::Enter, _) | (KeyCode::Char('r'), KeyModifiers::NONE) => {
                "no process is selected".to_owned()
            }
            (KeyCode::Char('o'), KeyModifiers::NONE) => {
                "no recording in this folder yet: r makes one".to_owned()
            }
            _ => "unbound key; ? lists the keys".to_owned(),
        }
    }

    /// Handles a key while the filter is typed; returns false if the key does not edit text.
    fn typed(&mut self, key: &KeyEvent) -> bool {
        match key.code {
            // Enter can choose the selection right away.
            KeyCode::Enter => {
                self.is_typing = false;
                return false;
            }
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.reset();
            }
            KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => return false,
            _ => drop(self.filter.handle_event(&Event::Key(*key))),
        }
        self.select_again();
        true
    }
}

fn movement((code, held): (KeyCode, KeyModifiers)) -> Option<Action> {
    Some(match (code, held) {
        (KeyCode::Up | KeyCode::Char('k'), KeyModifiers::NONE) => Action::Up,
        (KeyCode::Down | KeyCode::Char('j'), KeyModifiers::NONE) => Action::Down,
        (KeyCode::PageUp, _) => Action::PageUp,
        (KeyCode::PageDown | KeyCode::Char(' '), _) => Action::PageDown,
        (KeyCode::Home | KeyCode::Char('g'), KeyModifiers::NONE) => Action::First,
        (KeyCode::End | KeyCode::Char('G'), _) => Action::Last,
        _ => return None,
    })
}
