//! What actions do to the state. Draws nothing, reads nothing, writes nothing.

use super::action::{Action, Effect, Tab};
use super::query::keep_threads;
use super::refusal::Before;
use super::search::Search;
use super::state::{App, Names, Overlay, Prompt};
use crate::report::{
    Direction, LabelId, LabelKind, Metric, NamePattern, SortKey, Space, StackFilter, ThreadFilter,
};
use crate::tui::compute::picture::Picture;
use crate::tui::views::{callers, flame, threads, time, top};
use crate::tui::widgets::help;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;
use tui_input::Input;

impl App {
    /// Does what `action` means.
    pub fn update(&mut self, action: &Action) {
        self.toast = None;
        let before = Before::action(self, action);
        self.everywhere(action);
        self.measure_search();
        if let Some(why) = before.and_then(|before| before.refusal(self, action)) {
            self.tell(why);
        }
    }

    /// What is selected in the open view, root first; the last is the function.
    pub fn selected(&self) -> Vec<LabelId> {
        let Some(picture) = &self.picture else { return Vec::new() };
        match self.tab {
            Tab::Flame => flame::selected(self, picture),
            Tab::Top => top::selected(self, picture),
            Tab::Callers => callers::selected(self, picture),
            Tab::Time => time::selected(self, picture),
            Tab::Threads => threads::selected(self, picture),
        }
    }

    fn everywhere(&mut self, action: &Action) {
        match action {
            Action::Quit => self.is_done = true,
            Action::Nothing(why) => self.tell(why.clone()),
            Action::Suspend => self.effects.push(Effect::Suspend),
            Action::Redraw => self.effects.push(Effect::Redraw),
            Action::CloseOverlay => self.overlay = None,
            Action::InOverlay(action) => {
                let is_key =
                    !matches!(**action, Action::Scroll { .. } | Action::Drag(_) | Action::Release(_));
                if !help::scroll(self, action) && is_key {
                    self.overlay = None;
                }
            }
            Action::Help => self.show(Overlay::Help),
            Action::Notes => self.show(Overlay::Notes),
            Action::Open(tab) => self.open(*tab),
            Action::NextTab => self.open_beside(1),
            Action::PreviousTab => self.open_beside(Tab::ALL.len() - 1),
            Action::Mouse => {
                self.has_mouse = !self.has_mouse;
                self.effects.push(Effect::Mouse(self.has_mouse));
                self.tell(if self.has_mouse {
                    "the mouse works here"
                } else {
                    "the mouse is the terminal's: M takes it back"
                });
            }
            Action::Search => {
                let text = String::new();
                self.prompt = Some(Prompt::Search {
                    input: Input::new(text),
                    problem: None,
                    before: self.search.clone().map(Box::new),
                });
            }
            Action::Edit(request) => self.edit(*request),
            Action::Accept => self.accept(),
            Action::Cancel => self.cancel(),
            Action::Export => self.prompt = Some(Prompt::Export),
            Action::ExportAs(shape) => {
                self.prompt = None;
                self.export(*shape);
            }
            Action::NextWindow
            | Action::Freeze
            | Action::Faster
            | Action::Slower
            | Action::Clear
            | Action::Save => {
                self.live_action(action);
            }
            _ => self.with_picture(action),
        }
    }

    fn show(&mut self, overlay: Overlay) {
        self.overlay = Some(overlay);
        self.overlay_line = 0;
    }

    fn with_picture(&mut self, action: &Action) {
        let Some(picture) = self.picture.clone() else { return self.tell("there is no picture yet") };
        // The last line says so, whatever the view has to go back from.
        if *action == Action::Back && self.search.take().is_some() {
            return;
        }
        let is_done = match action {
            Action::Click(at) if self.click_tab(*at) => true,
            _ => self.areas().is_some_and(|areas| self.view_action(action, areas.body, &picture)),
        };
        if is_done {
            return;
        }
        match action {
            Action::Back => self.back(),
            Action::SearchSelected => self.search_selected(&picture),
            Action::KeepMatches => self.keep_matches(),
            Action::Focus
            | Action::Drop
            | Action::CollapseFunction
            | Action::CollapseModule
            | Action::CollapseRecursion => self.filter_selected(action, &picture),
            Action::Undo => self.undo_last(),
            Action::UndoAll => self.undo_all(),
            Action::Invert => self.ask(|query| {
                query.direction = match query.direction {
                    Direction::TopDown => Direction::BottomUp,
                    Direction::BottomUp => Direction::TopDown,
                };
            }),
            Action::NextMetric => self.next_metric(&picture),
            Action::SplitThreads => {
                self.ask(|query| query.each_thread = !query.each_thread);
                self.tell(if self.query.each_thread {
                    "each thread for itself: T puts those of one name together"
                } else {
                    "threads of one name together"
                });
            }
            Action::KernelFrames => {
                self.ask(|query| {
                    let space = &mut query.common.filter.space;
                    *space = if *space == Space::User { Space::All } else { Space::User };
                });
                self.tell(if self.query.common.filter.space == Space::User {
                    "kernel frames are hidden: K shows them"
                } else {
                    "kernel frames are shown"
                });
            }
            Action::InlinedFrames => {
                self.ask(|query| query.common.inline = !query.common.inline);
                self.tell(if self.query.common.inline {
                    "inlined functions are shown"
                } else {
                    "inlined functions count for their callers: I shows them"
                });
            }
            Action::Names => {
                self.names = match self.names {
                    Names::Short => Names::Full,
                    Names::Full => Names::WithModule,
                    Names::WithModule => Names::Short,
                };
                self.tell(match self.names {
                    Names::Short => "short names",
                    Names::Full => "full names",
                    Names::WithModule => "full names with their module",
                });
            }
            Action::Sort => self.ask(|query| {
                query.sort = match query.sort {
                    SortKey::SelfWeight => SortKey::TotalWeight,
                    SortKey::TotalWeight => SortKey::Count,
                    SortKey::Count => SortKey::SelfWeight,
                };
            }),
            Action::CopyName => self.copy(&picture, false),
            Action::CopyStack => self.copy(&picture, true),
            _ => {}
        }
    }

    fn view_action(&mut self, action: &Action, area: Rect, picture: &Arc<Picture>) -> bool {
        match self.tab {
            Tab::Flame => flame::update(self, action, area, picture),
            Tab::Top => top::update(self, action, area, picture),
            Tab::Callers => callers::update(self, action, area, picture),
            Tab::Time => time::update(self, action, area, picture),
            Tab::Threads => threads::update(self, action, area, picture),
        }
    }

    /// Opens a view.
    pub fn open(&mut self, tab: Tab) {
        if Tab::ALL.contains(&tab) {
            let from = std::mem::replace(&mut self.tab, tab);
            match tab {
                Tab::Callers => callers::opened(self, from),
                Tab::Time => time::opened(self),
                Tab::Flame | Tab::Top | Tab::Threads => {}
            }
        }
    }

    fn open_beside(&mut self, steps: usize) {
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        self.open(Tab::ALL[(at + steps) % Tab::ALL.len()]);
    }

    fn click_tab(&mut self, at: Position) -> bool {
        let Some(tabs) = self.areas().and_then(|areas| areas.tabs) else { return false };
        let found = crate::tui::widgets::screen::tab_at(tabs, self.tab, at);
        if let Some(tab) = found {
            self.open(tab);
        }
        found.is_some()
    }

    /// One step back, to fewer filters (overlays, prompts, the search and the zoom come before). A range of time that was
    /// cleared stays so: only `u` brings it back.
    fn back(&mut self) {
        let now = self.query.common.filter.clone();
        while let Some(mut before) = self.undo.pop() {
            before.space = now.space;
            if now.time.is_everything() {
                before.time = now.time;
            }
            if before != now {
                return self.ask(|query| query.common.filter = before);
            }
        }
    }

    fn undo_last(&mut self) {
        match self.undo.pop() {
            Some(mut before) => {
                // Its own key turns that round.
                before.space = self.query.common.filter.space;
                self.ask(|query| query.common.filter = before);
            }
            None => self.tell("no filter to undo"),
        }
    }

    fn undo_all(&mut self) {
        self.undo.truncate(1);
        self.undo_last();
    }

    fn next_metric(&mut self, picture: &Picture) {
        let all = &picture.metrics;
        let now = self.query.common.metric.or(picture.event.metric);
        let at = all.iter().position(|metric| Some(*metric) == now).unwrap_or(0);
        let Some(next) = all.get((at + 1) % all.len().max(1)).filter(|_| all.len() > 1) else {
            self.tell(match all.first() {
                Some(Metric::OnCpu) => "the recording holds running time only",
                Some(Metric::OffCpu) => "the recording holds waits only",
                _ => "the recording holds one metric only",
            });
            return;
        };
        let next = *next;
        self.ask(|query| query.common.metric = Some(next));
    }

    /// Filters by the selected function.
    fn filter_selected(&mut self, action: &Action, picture: &Picture) {
        let Some(label) = self.selected().last().map(|id| picture.labels.get(*id)) else {
            self.tell("select a function first");
            return;
        };
        if label.kind == LabelKind::Task {
            let id = self.selected().last().copied();
            self.filter_thread(action, picture, id);
            return;
        }
        let filter = match action {
            Action::Focus => StackFilter::Focus(label.key()),
            Action::Drop => StackFilter::Drop(label.key()),
            Action::CollapseFunction => StackFilter::CollapseFunction(label.key()),
            Action::CollapseRecursion => StackFilter::CollapseRecursion(label.key()),
            _ if label.module.is_empty() => {
                self.tell("this has no module");
                return;
            }
            _ => StackFilter::CollapseModule(label.module.clone()),
        };
        self.add_filter(filter);
    }

    /// Filters what is left, unless the last filter does just that.
    fn add_filter(&mut self, filter: StackFilter) {
        self.change_filter(|options| {
            if options.stacks.last() != Some(&filter) {
                options.stacks.push(filter);
            }
        });
    }

    fn filter_thread(&mut self, action: &Action, picture: &Picture, id: Option<LabelId>) {
        let Some(label) = id.map(|id| picture.labels.get(id)) else { return };
        if *action != Action::Focus {
            self.tell("this is a thread: f keeps it, u undoes that");
            return;
        }
        let (name, each) = (label.name.as_str(), picture.query.each_thread);
        self.change_filter(|options| keep_threads(options, &[name], each));
    }

    fn search_selected(&mut self, picture: &Picture) {
        let Some(label) = self.selected().last().map(|id| picture.labels.get(*id)) else {
            self.tell("select a function first");
            return;
        };
        self.set_search(&format!("^{}$", regex::escape(&label.name)));
    }

    /// Searches `text`, which is known to be good or told to be bad.
    fn set_search(&mut self, text: &str) {
        match Search::new(text) {
            Ok(mut search) => {
                if let Some(picture) = &self.picture {
                    search.find(picture);
                }
                self.search = Some(search);
            }
            Err(problem) => self.tell(format!("cannot search that: {problem}")),
        }
    }

    fn keep_matches(&mut self) {
        let Some(search) = &self.search else { return self.tell("search first: /") };
        // What was found was found in the picture that is shown.
        let has_tids = self.picture.as_ref().is_some_and(|picture| picture.query.each_thread);
        let pattern = NamePattern { text: search.pattern_text(), has_tids };
        // Where only threads are found, all that they did is kept, also in the table of their times.
        let is_of_threads = match (self.tab, &self.picture) {
            (Tab::Threads, Some(picture)) => threads::has_match(search, picture),
            _ => search.functions == 0 && search.threads > 0,
        };
        if !is_of_threads {
            return self.add_filter(StackFilter::Matching(pattern));
        }
        let filter = ThreadFilter::Matching(pattern);
        self.change_filter(|options| {
            if options.threads.last() != Some(&filter) {
                options.threads.push(filter);
            }
        });
    }

    fn edit(&mut self, request: tui_input::InputRequest) {
        let Some(Prompt::Search { input, problem, .. }) = &mut self.prompt else { return };
        input.handle(request);
        let text = input.value().to_owned();
        if text.is_empty() {
            *problem = None;
            self.search = None;
            return;
        }
        match Search::new(&text) {
            Ok(mut search) => {
                *problem = None;
                if let Some(picture) = &self.picture {
                    search.find(picture);
                }
                self.search = Some(search);
            }
            // The last good one stays.
            Err(why) => *problem = Some(why),
        }
    }

    fn accept(&mut self) {
        let Some(Prompt::Search { problem, input, before }) = self.prompt.take() else { return };
        if input.value().is_empty() {
            // Nothing typed: as it was before.
            self.search = before.map(|before| *before);
        } else if problem.is_some() {
            // It stays on the screen with what is wrong, to be fixed.
            self.prompt = Some(Prompt::Search { problem, input, before });
        } else if let Some(picture) = self.picture.clone() {
            if let Some(areas) = self.areas() {
                self.view_action(&Action::NextMatch, areas.body, &picture);
            }
            self.toast = None;
        }
    }

    fn cancel(&mut self) {
        if let Some(Prompt::Search { .. }) = self.prompt.take() {
            self.search = None;
        }
    }
}
