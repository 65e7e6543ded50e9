//! Translates terminal events to actions: keys, clicks, the wheel. It drops answers of the terminal that look like
//! keys.

use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::key::{action_of_key, chord_of, ctrl};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use ratatui::layout::Position;
use std::time::{Duration, Instant};

/// Two clicks within this time at one place are a double click.
const DOUBLE_CLICK: Duration = Duration::from_millis(400);

/// Rows per notch of the wheel.
const WHEEL_ROWS: i16 = 3;

/// Longest answer of the terminal, in characters.
const LONGEST_ANSWER: usize = 64;

/// Latest start of an answer after its query: over a slow line it can arrive after the query has timed out.
const LATEST_ANSWER: Duration = Duration::from_secs(3);

/// Longest pause between the characters of an answer: what comes later was typed.
const ANSWER_PAUSE: Duration = Duration::from_millis(100);

/// Translates terminal events to actions; remembers the last click.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    last_click: Option<(Instant, Position)>,
    /// Time at which the terminal was queried.
    asked: Option<Instant>,
    /// Number of characters that may still belong to the answer, and when the last one arrived.
    answer: Option<(usize, Instant)>,
    /// A key that was read together with an Esc before it.
    after_esc: Option<KeyEvent>,
}

impl Translator {
    /// A translator for a terminal that was queried at `now`.
    pub(crate) fn after_a_question(now: Instant) -> Self {
        Translator { asked: Some(now), ..Translator::default() }
    }

    /// The action of `event`.
    pub(crate) fn action(&mut self, context: &Context, event: &Event, now: Instant) -> Option<Action> {
        match event {
            Event::Key(key) if self.is_of_answer(key, now) => None,
            // No key is bound with Alt: this is Esc and a key after it, read at once where the machine is busy.
            Event::Key(key) if key.modifiers.contains(KeyModifiers::ALT) && context.prompt.is_none() => {
                self.after_esc =
                    Some(KeyEvent { modifiers: key.modifiers.difference(KeyModifiers::ALT), ..*key });
                action_of_key(context, &KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE))
            }
            Event::Key(key) => action_of_key(context, key),
            Event::Mouse(mouse) => {
                let at = Position::new(mouse.column, mouse.row);
                let is_shifted = mouse.modifiers.contains(KeyModifiers::SHIFT);
                let wheel = |rows: i16| match is_shifted {
                    true => Action::Scroll { at, rows: 0, columns: rows },
                    false => Action::Scroll { at, rows, columns: 0 },
                };
                let action = match mouse.kind {
                    MouseEventKind::Down(MouseButton::Left) => self.click(at, now),
                    MouseEventKind::Drag(MouseButton::Left) => Action::Drag(at),
                    MouseEventKind::Up(MouseButton::Left) => Action::Release(at),
                    MouseEventKind::ScrollUp => wheel(-WHEEL_ROWS),
                    MouseEventKind::ScrollDown => wheel(WHEEL_ROWS),
                    MouseEventKind::ScrollLeft => Action::Scroll { at, rows: 0, columns: -WHEEL_ROWS },
                    MouseEventKind::ScrollRight => Action::Scroll { at, rows: 0, columns: WHEEL_ROWS },
                    _ => return None,
                };
                let is_click = matches!(action, Action::Click(_) | Action::DoubleClick(_));
                match (&context.overlay, &context.prompt) {
                    (Some(_), _) if is_click => Some(Action::CloseOverlay),
                    (Some(_), _) => Some(Action::InOverlay(Box::new(action))),
                    (_, Some(_)) => None,
                    _ => Some(action),
                }
            }
            _ => None,
        }
    }

    /// The action of the key that was read together with the last one, once that one's is done.
    pub(crate) fn next_action(&mut self, context: &Context) -> Option<Action> {
        action_of_key(context, &self.after_esc.take()?)
    }

    /// Whether a key is part of an answer: a terminal that was queried for its colours and answers late seems to type
    /// `ESC ] 11 ; rgb:…`, up to a bell or to `ESC \\`.
    pub(crate) fn is_of_answer(&mut self, event: &KeyEvent, now: Instant) -> bool {
        let chord = chord_of(event);
        if chord == ctrl('c') || chord == ctrl('z') {
            self.answer = None;
            return false;
        }
        let is_soon = self.asked.is_some_and(|asked| now.duration_since(asked) <= LATEST_ANSWER);
        if is_soon && chord == (KeyCode::Char(']'), KeyModifiers::ALT) {
            self.answer = Some((LONGEST_ANSWER, now));
            return true;
        }
        let Some((left, last)) = self.answer.take() else { return false };
        if now.duration_since(last) > ANSWER_PAUSE {
            return false;
        }
        let is_end = chord == ctrl('g') || chord == (KeyCode::Char('\\'), KeyModifiers::ALT);
        self.answer = (left > 1 && !is_end).then_some((left - 1, now));
        true
    }

    fn click(&mut self, at: Position, now: Instant) -> Action {
        match self.last_click.take() {
            Some((then, place)) if place == at && now.duration_since(then) <= DOUBLE_CLICK => {
                Action::DoubleClick(at)
            }
            _ => {
                self.last_click = Some((now, at));
                Action::Click(at)
            }
        }
    }
}
