//! Why a key does nothing now: no key is without an answer.

use super::action::{Action, Tab};
use super::key::{self, Chord, When};
use super::query::Query;
use super::state::App;
use crate::tui::views::callers::CallersState;
use crate::tui::views::flame::FlameState;
use crate::tui::views::threads::ThreadsState;
use crate::tui::views::time::TimeState;
use crate::tui::widgets::list::ListState;
use crossterm::event::KeyCode;

/// What a key means that has no meaning in this view and state: mostly to say why.
pub(super) fn action_of(app: &App, chord: Chord) -> Action {
    let mut found = key::TABLE.iter().filter(|entry| key::bindings(entry).any(|(known, _)| *known == chord));
    let Some(entry) = found.next() else {
        // Keys of views that are planned.
        return Action::Nothing(match chord.0 {
            KeyCode::Char('6' | 'a' | 'e') => "source and machine code are not in this version".to_owned(),
            KeyCode::Char('b') => "comparing two profiles is not in this version".to_owned(),
            _ => "unbound key; ? lists the keys".to_owned(),
        });
    };
    let what = format!("{} {}", entry.keys, entry.words);
    let what = what.trim_end();
    Action::Nothing(match entry.when {
        // It says itself what the recording lacks.
        When::Metrics => return Action::NextMetric,
        When::Live | When::Watched if app.live.is_some() => {
            format!("{what}: not any more, the recording has ended")
        }
        When::Live | When::Watched => format!("{what}: only live, as by prof tui -p PID"),
        When::Always => {
            let views: Vec<String> =
                entry.tabs.iter().map(|tab| format!("{} {}", tab.digit(), tab.name())).collect();
            format!("{what}: only in {}", views.join(", "))
        }
    })
}

/// What an action that may find nothing to do can change.
#[derive(Debug, PartialEq)]
pub(crate) struct Before {
    tab: Tab,
    query: Query,
    search: Option<String>,
    flame: FlameState,
    top: ListState,
    callers: CallersState,
    time: TimeState,
    threads: ThreadsState,
}

impl Before {
    /// The state before `action`, if that may find nothing to do.
    pub(crate) fn action(app: &App, action: &Action) -> Option<Before> {
        words(action).map(|_| Before::of(app))
    }

    fn of(app: &App) -> Before {
        Before {
            tab: app.tab,
            query: app.query.clone(),
            search: app.search.as_ref().map(|search| search.text.clone()),
            flame: app.flame.clone(),
            top: app.top.list,
            callers: app.callers.clone(),
            time: app.time.clone(),
            threads: app.threads.clone(),
        }
    }

    /// Why `action` did nothing, if it did nothing and said nothing.
    pub(crate) fn refusal(&self, app: &App, action: &Action) -> Option<&'static str> {
        words(action).filter(|_| app.toast.is_none() && app.effects.is_empty() && *self == Before::of(app))
    }
}

/// What is said when nothing came of an action; `None` for those of which always something comes.
fn words(action: &Action) -> Option<&'static str> {
    Some(match action {
        Action::Up | Action::PageUp | Action::HalfUp | Action::First => "nothing is above this",
        Action::Down | Action::PageDown | Action::HalfDown | Action::Last => "nothing is below this",
        Action::Left | Action::Right => "nothing is beside this",
        Action::Enter => "nothing is selected",
        Action::Back => "there is nothing to go back from: q quits",
        Action::Whole => "this is all: nothing is zoomed",
        Action::NextMatch | Action::PreviousMatch => "this is the only match",
        Action::SearchSelected => "this is searched already: n goes to the next",
        Action::KeepMatches
        | Action::Focus
        | Action::Drop
        | Action::CollapseFunction
        | Action::CollapseModule
        | Action::CollapseRecursion => "this filter is there already: u takes it back",
        Action::RangeStart => "the range begins here already",
        Action::RangeEnd => "the range ends here already",
        Action::Open(_) => "this view is open already",
        _ => return None,
    })
}
