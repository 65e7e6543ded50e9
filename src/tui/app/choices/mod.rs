//! Lists that are chosen from by typing: all actions with their keys, and the places and searches to come back to. What an
//! action does stays outside.

mod action_words;
pub(crate) mod list;
pub(crate) mod marked_place;
mod prompts;
#[cfg(test)]
mod tests;

use super::action::Tab;
use super::context::{ListOf, NO_PICTURE, PlaceName, Prompt};
use super::state::App;
use crate::report::NameStyle;
use list::{Chosen, places, rows};
use marked_place::MarkedPlace;
use tui_input::Input;

/// Most searches that are remembered.
const MOST_SEARCHES: usize = 50;

impl App {
    /// Opens a list.
    pub(super) fn open_list(&mut self, list: ListOf) {
        if list == ListOf::Places && places(&self.context).is_empty() {
            return self
                .context
                .show_message("no place is marked and nothing was searched: \" marks a place");
        }
        self.context.prompt = Some(Prompt::List { list, input: Input::default(), cursor: 0 });
    }

    /// Moves in a list, or through earlier searches.
    pub(super) fn move_in_prompt(&mut self, down: bool) {
        match &mut self.context.prompt {
            Some(Prompt::List { list, input, cursor }) => {
                let (list, typed, at) = (*list, input.value().to_owned(), *cursor);
                let last = rows(&self.context, list, &typed).len().saturating_sub(1);
                let next = if down { (at + 1).min(last) } else { at.min(last).saturating_sub(1) };
                if let Some(Prompt::List { cursor, .. }) = &mut self.context.prompt {
                    *cursor = next;
                }
            }
            Some(Prompt::Search { input, .. }) => {
                let searches = &self.context.searches;
                let at = searches.iter().position(|text| text == input.value()).unwrap_or(searches.len());
                let next = if down { at + 1 } else { at.wrapping_sub(1) };
                let text = searches.get(next).cloned().or_else(|| down.then(String::new));
                if let Some(text) = text {
                    *input = Input::new(text);
                    self.search_typed();
                }
            }
            _ => {}
        }
    }

    /// Completes what is typed to the selected row.
    pub(super) fn complete(&mut self) {
        let Some(Prompt::List { list, input, cursor }) = &self.context.prompt else { return };
        let found = rows(&self.context, *list, input.value()).into_iter().nth(*cursor);
        if let (Some(row), Some(Prompt::List { input, cursor, .. })) = (found, &mut self.context.prompt) {
            *input = Input::new(row.words);
            *cursor = 0;
        }
    }

    /// Does what the selected row of a list says.
    pub(super) fn choose(&mut self, list: ListOf, typed: &str, cursor: usize) {
        let Some(row) = rows(&self.context, list, typed).into_iter().nth(cursor) else {
            return self.context.show_message("nothing in the list has these words");
        };
        match row.choice {
            Chosen::Act(action) => self.update(&action),
            Chosen::Return(number) => self.return_to(number),
            Chosen::Search(text) => {
                self.set_search(&text);
                self.next_match();
            }
        }
    }

    /// Asks for the name of the place that is seen now.
    pub(super) fn mark_place(&mut self) {
        let Some(picture) = self.context.picture.clone() else {
            return self.context.show_message(NO_PICTURE);
        };
        let label = self.selected().last().map(|id| picture.labels.get(*id).text(NameStyle::Short));
        let name = label.unwrap_or_else(|| self.context.tab.name().to_owned());
        self.context.prompt = Some(Prompt::PlaceName { input: Input::new(name) });
    }

    /// Remembers what is seen now as `name`; a place of the same name gives way.
    pub(super) fn keep_place(&mut self, name: &str) {
        let name = match name.trim() {
            "" => self.context.tab.name().to_owned(),
            name => name.to_owned(),
        };
        self.context.show_message(format!("marked {name}: ' goes back to it"));
        if let Some(at) = self.context.places.iter().position(|place| place.name == name) {
            self.context.places.remove(at);
            self.places.remove(at);
        }
        self.context.places.push(PlaceName { name, tab: self.context.tab });
        self.places.push(MarkedPlace { query: self.context.query.clone(), views: self.views.clone() });
    }

    /// Goes back to a marked place.
    fn return_to(&mut self, number: usize) {
        let Some(place) = self.places.get(number).cloned() else { return };
        let before = self.context.query.common.filter.clone();
        let MarkedPlace { query, views } = place;
        self.views = views;
        if query.direction != self.context.query.direction {
            self.views.flame = std::mem::take(&mut self.views.flame).for_turn();
        }
        self.context.tab = self.context.places[number].tab;
        self.context.ask(|now| *now = query);
        // A live picture of the same function can be newer than the place.
        if let Some(picture) = self.context.picture.clone() {
            let (source, context) = self.view_mut(Tab::Source);
            source.follow(context, &picture);
        }
        if self.context.query.common.filter != before {
            self.context.undo.push(before);
        }
    }

    /// Remembers an accepted search, the latest last.
    pub(super) fn remember_search(&mut self, text: &str) {
        self.context.searches.retain(|other| other != text);
        self.context.searches.push(text.to_owned());
        let over = self.context.searches.len().saturating_sub(MOST_SEARCHES);
        self.context.searches.drain(..over);
    }
}
