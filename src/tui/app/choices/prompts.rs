//! How the prompts change the state: the search, lists and names that are typed.

use crate::tui::app::action::Action;
use crate::tui::app::context::Prompt;
use crate::tui::app::search::Search;
use crate::tui::app::state::App;
use crate::tui::compute::picture::Picture;

impl App {
    pub(in crate::tui::app) fn search_selected(&mut self, picture: &Picture) {
        let Some(label) = self.selected().last().map(|id| picture.labels.get(*id)) else {
            self.context.show_message("select a function first");
            return;
        };
        self.set_search(&format!("^{}$", regex::escape(&label.name)));
    }

    /// Searches for `text`, and reports a bad pattern.
    pub(in crate::tui::app) fn set_search(&mut self, text: &str) {
        match Search::new(text) {
            Ok(mut search) => {
                if let Some(picture) = &self.context.picture {
                    search.find(picture);
                }
                self.context.search = Some(search);
            }
            Err(problem) => self.context.show_message(format!("cannot search that: {problem}")),
        }
    }

    /// Applies an edit of what is typed.
    pub(in crate::tui::app) fn edit(&mut self, request: tui_input::InputRequest) {
        match &mut self.context.prompt {
            Some(Prompt::Search { input, .. }) => {
                input.handle(request);
                self.search_typed();
            }
            Some(Prompt::List { input, cursor, .. }) => {
                input.handle(request);
                *cursor = 0;
            }
            Some(Prompt::PlaceName { input }) => {
                input.handle(request);
            }
            Some(Prompt::Export) | None => {}
        }
    }

    /// Searches for what is typed so far.
    pub(in crate::tui::app) fn search_typed(&mut self) {
        let Some(Prompt::Search { input, problem, .. }) = &mut self.context.prompt else { return };
        let text = input.value().to_owned();
        if text.is_empty() {
            *problem = None;
            self.context.search = None;
            return;
        }
        match Search::new(&text) {
            Ok(mut search) => {
                *problem = None;
                if let Some(picture) = &self.context.picture {
                    search.find(picture);
                }
                self.context.search = Some(search);
            }
            // The last valid search stays.
            Err(why) => *problem = Some(why),
        }
    }

    /// Accepts what is typed.
    pub(in crate::tui::app) fn accept(&mut self) {
        match self.context.prompt.take() {
            Some(Prompt::Search { input, before, .. }) if input.value().is_empty() => {
                // Nothing typed: back to the previous search.
                self.context.search = before.map(|before| *before);
            }
            // The prompt stays open with the error, so that the text can be fixed.
            open @ Some(Prompt::Search { problem: Some(_), .. }) => self.context.prompt = open,
            Some(Prompt::Search { input, .. }) => {
                self.remember_search(input.value());
                self.next_match();
            }
            Some(Prompt::List { list, input, cursor }) => self.choose(list, input.value(), cursor),
            Some(Prompt::PlaceName { input }) => self.keep_place(input.value()),
            Some(Prompt::Export) | None => {}
        }
    }

    /// Goes to the next match, if there is one.
    pub(in crate::tui::app) fn next_match(&mut self) {
        if let (Some(picture), Some(areas)) = (self.context.picture.clone(), self.context.areas()) {
            self.view_action(&Action::NextMatch, areas.body, &picture);
            self.context.toast = None;
        }
    }

    /// Discards what is typed, and the search if it is one.
    pub(in crate::tui::app) fn cancel(&mut self) {
        if let Some(Prompt::Search { .. }) = self.context.prompt.take() {
            self.context.search = None;
        }
    }
}
