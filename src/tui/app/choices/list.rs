//! The rows of a list that is chosen from by typing.

use super::action_words;
use crate::tui::app::action::Action;
use crate::tui::app::context::{Context, ListOf};
use crate::tui::app::key;

/// Effect of choosing a row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// Does this.
    Act(Action),
    /// Goes back to the place with this number.
    Return(usize),
    /// Searches for this again.
    Search(String),
}

/// A row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListRow {
    /// Text by which the row is found. Foreign text.
    pub(crate) words: String,
    /// The key that does the same, or what kind of row this is.
    pub(crate) aside: String,
    /// More words by which it is found.
    also: String,
    pub(crate) choice: Chosen,
}

/// The rows of a list that have every word of `typed`; those that begin with it come first, and those last in which the words are
/// not to be seen.
pub(crate) fn rows(context: &Context, list: ListOf, typed: &str) -> Vec<ListRow> {
    let all = match list {
        ListOf::Actions => actions(context),
        ListOf::Places => places(context),
    };
    let typed = typed.to_lowercase();
    let words: Vec<&str> = typed.split_whitespace().collect();
    let [mut first, mut others, mut last] = [const { Vec::new() }; 3];
    for row in all {
        let text = format!("{} {}", row.words, row.aside).to_lowercase();
        let all_text = format!("{text} {}", row.also.to_lowercase());
        if text.starts_with(typed.trim()) && words.iter().all(|word| text.contains(word)) {
            first.push(row);
        } else if words.iter().all(|word| text.contains(word)) {
            others.push(row);
        } else if words.iter().all(|word| all_text.contains(word)) {
            last.push(row);
        }
    }
    first.append(&mut others);
    first.append(&mut last);
    first
}

/// Each action that applies, with its keys; it is found by the words of the help and of the line of hints, too.
fn actions(context: &Context) -> Vec<ListRow> {
    let mut rows: Vec<ListRow> = Vec::new();
    let tabs = context.tabs();
    let is_there = |action: &Action| !matches!(action, Action::Open(tab) if !tabs.contains(tab));
    let bindings =
        key::entries(context).flat_map(|entry| entry.bindings.iter().map(move |binding| (entry, binding)));
    for (entry, (chord, action)) in bindings.filter(|(_, (_, action))| is_there(action)) {
        let Some(words) = action_words::words(action) else { continue };
        let choice = Chosen::Act(action.clone());
        let text = key::chord_text(*chord);
        match rows.iter_mut().find(|row| row.choice == choice) {
            Some(row) => row.aside = format!("{} {text}", row.aside),
            None => {
                let key::Entry { group, keys, words: of_help, hint, .. } = entry;
                let also = format!("{group} {keys} {of_help} {hint} {}", action_words::other_words(action));
                rows.push(ListRow { words, aside: text, also, choice });
            }
        }
    }
    rows
}

/// The marked places, the latest first, then the searches.
pub(super) fn places(context: &Context) -> Vec<ListRow> {
    let places = context.places.iter().enumerate().rev().map(|(number, place)| ListRow {
        words: place.name.clone(),
        aside: place.tab.name().to_owned(),
        also: String::new(),
        choice: Chosen::Return(number),
    });
    let searches = context.searches.iter().rev().map(|text| ListRow {
        words: format!("/{text}"),
        aside: "search".to_owned(),
        also: String::new(),
        choice: Chosen::Search(text.clone()),
    });
    places.chain(searches).collect()
}
