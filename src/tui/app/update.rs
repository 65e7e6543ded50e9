//! How actions change the state. Does no drawing and no I/O.

use super::action::{Action, Effect, Tab};
use super::context::{ListOf, NO_PICTURE, NameDetail, Overlay, Prompt};
use super::diff_base::DiffBase;
use super::query::keep_threads;
use super::refusal;
use super::state::App;
use crate::profile::RuntimeFrames;
use crate::report::{
    ChargedTo, Direction, FilterPart, HeapView, LabelId, LabelKind, Metric, NamePattern, SortKey, Space,
    StackFilter, ThreadFilter, ThreadSplit, filter_parts,
};
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::chips::ChipOf;
use crate::tui::widgets::theme::Theme;
use crate::tui::widgets::{chips, help};
use ratatui::layout::{Position, Rect};
use std::sync::Arc;
use tui_input::Input;

impl App {
    /// Applies `action` to the state.
    pub fn update(&mut self, action: &Action) {
        self.context.take_message_away();
        let before = self.seen();
        self.everywhere(action);
        self.measure_search();
        self.context.date_message();
        let said = self.context.toast.is_some() || !self.context.effects.is_empty();
        if let Some(why) = refusal::words(action).filter(|_| !said && before == self.seen()) {
            self.context.show_message(why);
            self.context.date_message();
        }
    }

    /// The selected stack of the open view, root first; the last is the selected function.
    pub(crate) fn selected(&self) -> Vec<LabelId> {
        let Some(picture) = &self.context.picture else { return Vec::new() };
        self.view(self.context.tab).selected(picture)
    }

    /// State that an action without effect or message can still change: the open view, its fingerprint, and the search.
    fn seen(&self) -> (Tab, u64, Option<String>) {
        let tab = self.context.tab;
        let search = self.context.search.as_ref().map(|search| search.text.clone());
        (tab, self.view(tab).fingerprint(), search)
    }

    fn everywhere(&mut self, action: &Action) {
        match action {
            Action::Quit => self.context.is_done = true,
            Action::Nothing(why) => self.context.show_message(why.clone()),
            Action::Suspend => self.context.effects.push(Effect::Suspend),
            Action::Redraw => self.context.effects.push(Effect::Redraw),
            Action::CloseOverlay => self.context.overlay = None,
            Action::InOverlay(action) => {
                let is_key =
                    !matches!(**action, Action::Scroll { .. } | Action::Drag(_) | Action::Release(_));
                let of_view = self.view(self.context.tab).help();
                if !help::scroll(of_view, &mut self.context, action) && is_key {
                    self.context.overlay = None;
                }
            }
            Action::Help => self.show(Overlay::Help),
            Action::Notes => self.show(Overlay::Notes),
            Action::Open(tab) => self.open(*tab),
            Action::NextTab => self.open_neighbour(1),
            Action::PreviousTab => self.open_neighbour(self.context.tabs().len() - 1),
            Action::Mouse => self.take_mouse(),
            Action::Search => {
                let text = String::new();
                self.context.prompt = Some(Prompt::Search {
                    input: Input::new(text),
                    problem: None,
                    before: self.context.search.clone().map(Box::new),
                });
            }
            Action::Edit(request) => self.edit(*request),
            Action::Accept => self.accept(),
            Action::Cancel => self.cancel(),
            Action::PromptUp => self.move_in_prompt(false),
            Action::PromptDown => self.move_in_prompt(true),
            Action::Complete => self.complete(),
            Action::Actions => self.open_list(ListOf::Actions),
            Action::Places => self.open_list(ListOf::Places),
            Action::MarkPlace => self.mark_place(),
            Action::Export => self.context.prompt = Some(Prompt::Export),
            Action::ExportAs(shape) => {
                self.context.prompt = None;
                self.export(*shape);
            }
            Action::NextWindow
            | Action::Freeze
            | Action::Faster
            | Action::Slower
            | Action::Clear
            | Action::Save => {
                self.context.live_action(action);
            }
            _ => self.with_picture(action),
        }
    }

    fn take_mouse(&mut self) {
        self.context.has_mouse = !self.context.has_mouse;
        self.context.effects.push(Effect::Mouse(self.context.has_mouse));
        self.context.show_message(if self.context.has_mouse {
            "the mouse works here"
        } else {
            "the terminal has the mouse; M takes it back"
        });
    }

    fn show(&mut self, overlay: Overlay) {
        self.context.overlay = Some(overlay);
        self.context.overlay_line = 0;
    }

    fn with_picture(&mut self, action: &Action) {
        // A filter can be why there is no picture.
        if self.act_without_picture(action) {
            return;
        }
        let Some(picture) = self.context.picture.clone() else {
            return self.context.show_message(NO_PICTURE);
        };
        // Back ends the search first, as the last line says, whatever the view could go back from.
        if *action == Action::Back && self.context.search.take().is_some() {
            return;
        }
        if self.context.areas().is_some_and(|areas| self.view_action(action, areas.body, &picture)) {
            return;
        }
        match action {
            Action::Back => self.back(),
            Action::Annotate => self.annotate_selected(&picture),
            Action::SearchSelected => self.search_selected(&picture),
            Action::KeepMatches => self.keep_matches(),
            Action::Focus
            | Action::Drop
            | Action::CollapseFunction
            | Action::CollapseModule
            | Action::CollapseRecursion => self.filter_selected(action, &picture),
            Action::Invert => self.context.ask(|query| {
                query.direction = match query.direction {
                    Direction::TopDown => Direction::BottomUp,
                    Direction::BottomUp => Direction::TopDown,
                };
            }),
            Action::NextMetric => self.next_metric(&picture),
            Action::NextBlocks => self.context.ask(|query| {
                query.common.heap = Some(query.common.heap.unwrap_or(HeapView::LiveAtEnd).next());
            }),
            Action::SetBase => self.context.set_base(),
            Action::ShowBase => self.context.turn_sides(),
            Action::SplitThreads => self.split_threads(),
            Action::Idle => self.show_idle(&picture),
            Action::KernelFrames => self.show_kernel_frames(),
            Action::InlinedFrames => self.show_inlined_frames(),
            Action::RuntimeFrames => self.next_runtime_frames(),
            Action::Names => self.next_names(),
            Action::Sort => self.context.ask(|query| {
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

    fn split_threads(&mut self) {
        self.context.ask(|query| {
            query.common.threads = Some(match query.threads() {
                ThreadSplit::Class | ThreadSplit::Name => ThreadSplit::Each,
                ThreadSplit::Each => ThreadSplit::None,
                ThreadSplit::None => ThreadSplit::Class,
            });
        });
        self.context.show_message(match self.context.query.threads() {
            ThreadSplit::Each if self.context.query.base.is_some() => {
                "each thread separately; T merges them. Those of one name are not compared"
            }
            ThreadSplit::Each => "each thread separately; T merges them",
            ThreadSplit::None => "the threads of each process merged; T puts them in classes",
            ThreadSplit::Class | ThreadSplit::Name => {
                "threads whose names differ only in numbers are one; T separates them"
            }
        });
    }

    fn show_idle(&mut self, picture: &Picture) {
        if !picture.metrics.contains(&Metric::OFF_CPU) {
            return self.context.show_message("the recording has no waits, idle or not");
        }
        if self.context.query.common.idle_is_gone {
            return self
                .context
                .show_message("idle waits were left out from the start: prof tui --idle has them");
        }
        self.context.ask(|query| query.common.filter.idle = !query.common.filter.idle);
        self.context.show_message(match self.context.query.common.filter.idle {
            true => "idle waits are shown: o hides them",
            false => "idle waits are hidden",
        });
    }

    fn show_kernel_frames(&mut self) {
        self.context.ask(|query| {
            let space = &mut query.common.filter.space;
            *space = if *space == Space::User { Space::All } else { Space::User };
        });
        self.context.show_message(if self.context.query.common.filter.space == Space::User {
            "kernel frames are hidden: K shows them"
        } else {
            "kernel frames are shown"
        });
    }

    fn show_inlined_frames(&mut self) {
        self.context.ask(|query| query.common.inline = !query.common.inline);
        self.context.show_message(if self.context.query.common.inline {
            "inlined functions are shown"
        } else {
            "inlined functions count as their callers; I shows them"
        });
    }

    fn next_runtime_frames(&mut self) {
        let recorded = self.context.picture.as_ref().map(|picture| picture.recording.profile.meta.runtime);
        let now = self.context.query.common.runtime.or(recorded).unwrap_or_default();
        let next = match now {
            RuntimeFrames::Folded => RuntimeFrames::Full,
            RuntimeFrames::Full => RuntimeFrames::Off,
            RuntimeFrames::Off => RuntimeFrames::Folded,
        };
        self.context.ask(|query| query.common.runtime = Some(next));
        self.context.show_message(match next {
            RuntimeFrames::Folded => "functions of the language, without the interpreter's own frames",
            RuntimeFrames::Full => "all frames of the interpreter are shown",
            RuntimeFrames::Off => "native frames only; R shows the functions of the language",
        });
    }

    fn next_names(&mut self) {
        self.context.names = match self.context.names {
            NameDetail::Short => NameDetail::Full,
            NameDetail::Full => NameDetail::WithModule,
            NameDetail::WithModule => NameDetail::Short,
        };
        self.context.show_message(match self.context.names {
            NameDetail::Short => "short names",
            NameDetail::Full => "full names",
            NameDetail::WithModule => "full names with their module",
        });
    }

    pub(super) fn view_action(&mut self, action: &Action, area: Rect, picture: &Arc<Picture>) -> bool {
        let (view, context) = self.view_mut(self.context.tab);
        let is_done = view.update(context, action, area, picture);
        if let Some(function) = self.context.callers_of.take() {
            self.views.callers.set_pivot(&mut self.context, function);
            self.context.tab = Tab::Callers;
        }
        if let Some(tab) = self.context.opens.take() {
            self.open(tab);
        }
        is_done
    }

    /// Opens a view.
    pub(crate) fn open(&mut self, tab: Tab) {
        let tabs = self.context.tabs();
        if tab == Tab::Locks && self.context.picture.is_some() && !tabs.contains(&tab) {
            return self.context.show_message(match self.context.query.common.locks {
                Some(ChargedTo::Holder | ChargedTo::EitherSide) => {
                    "the stacks are those of holders: prof tui without --by holder has locks"
                }
                _ => "no wait of the recording says for which lock it was",
            });
        }
        if Tab::ALL.contains(&tab) {
            let selected = if tab == self.context.tab { Vec::new() } else { self.selected() };
            self.context.tab = tab;
            let picture = self.context.picture.clone();
            let (view, context) = self.view_mut(tab);
            view.opened(context, picture.as_deref(), &selected);
            // It takes time, in a live view again and again.
            if tab != Tab::Source {
                context.ask(|query| query.source = None);
            }
            if tab != Tab::Locks {
                context.ask(|query| query.locks = None);
            }
        }
    }

    fn open_neighbour(&mut self, steps: usize) {
        let tabs = self.context.tabs();
        let at = tabs.iter().position(|tab| *tab == self.context.tab).unwrap_or(0);
        self.open(tabs[(at + steps) % tabs.len()]);
    }

    fn click_tab(&mut self, at: Position) -> bool {
        let Some(tabs) = self.context.areas().and_then(|areas| areas.tabs) else { return false };
        let found = crate::tui::screen::tab_at(tabs, &self.context, at);
        if let Some(tab) = found {
            self.open(tab);
        }
        found.is_some()
    }

    /// Takes filters off, or opens the view of a tab that is clicked: what needs no picture. False where that is not what the
    /// action means.
    fn act_without_picture(&mut self, action: &Action) -> bool {
        match action {
            Action::Undo => self.undo_last(),
            Action::UndoAll => self.undo_all(),
            Action::Click(at) if self.click_tab(*at) => {}
            Action::Click(at) | Action::DoubleClick(at) => return self.click_chip(*at),
            _ => return false,
        }
        true
    }

    /// Takes off the filter that is clicked.
    fn click_chip(&mut self, at: Position) -> bool {
        let Some(rule) = self.context.areas().map(|areas| areas.rule).filter(|rule| rule.contains(at)) else {
            return false;
        };
        let column = usize::from(at.x - rule.x);
        let chips =
            chips::chips(&self.context.query, rule.width.into(), &Theme::plain(self.context.is_ascii));
        let found = chips.into_iter().find(|chip| chip.columns.contains(&column));
        match found.as_ref().map(|chip| &chip.of) {
            // Another recording cannot be named again: its chip shows the other side.
            Some(ChipOf::Base) => match self.context.query.base {
                Some(DiffBase::Range(_)) => self.context.take_base_off(),
                Some(DiffBase::Recording(..)) | None => self.context.turn_sides(),
            },
            // Its own key turns it round.
            Some(ChipOf::Filter(part @ FilterPart::Space)) => {
                self.context.ask(|query| part.remove(&mut query.common.filter));
            }
            Some(ChipOf::Filter(part)) => self.context.change_filter(|options| part.remove(options)),
            Some(ChipOf::Others(words)) => self.context.show_message(words.join("; ")),
            None => {}
        }
        found.is_some()
    }

    /// One step back, to fewer filters (overlays, prompts, the search and the zoom come before). A range of time that was
    /// cleared stays so: only `u` brings it back.
    fn back(&mut self) {
        let now = self.context.query.common.filter.clone();
        while let Some(mut before) = self.context.undo.pop() {
            (before.space, before.idle) = (now.space, now.idle);
            if now.time.is_everything() {
                before.time = now.time;
            }
            if before != now {
                return self.context.ask(|query| query.common.filter = before);
            }
        }
    }

    fn undo_last(&mut self) {
        match self.context.undo.pop() {
            Some(mut before) => {
                // Their own keys turn these round.
                let now = &self.context.query.common.filter;
                (before.space, before.idle) = (now.space, now.idle);
                self.context.ask(|query| query.common.filter = before);
            }
            None => self.drop_filters(1),
        }
    }

    fn undo_all(&mut self) {
        if self.context.undo.is_empty() {
            return self.drop_filters(usize::MAX);
        }
        self.context.undo.truncate(1);
        self.context.ask(|query| query.common.filter.space = Space::All);
        self.undo_last();
    }

    /// Takes off the last filters of those that no key can undo: those of the command line, and that of user or kernel code.
    fn drop_filters(&mut self, count: usize) {
        let parts = filter_parts(&self.context.query.common.filter);
        let parts: Vec<FilterPart> = parts.into_iter().map(|(part, _)| part).collect();
        if parts.is_empty() {
            return self.context.show_message("no filter to undo");
        }
        // The last first: numbers of those before it stay what they are.
        self.context.ask(|query| {
            parts.iter().rev().take(count).for_each(|part| part.remove(&mut query.common.filter));
        });
    }

    fn next_metric(&mut self, picture: &Picture) {
        let all = &picture.metrics;
        let now = self.context.query.common.metric.unwrap_or(picture.event.metric);
        let at = all.iter().position(|metric| *metric == now).unwrap_or(0);
        let Some(next) = all.get((at + 1) % all.len().max(1)).filter(|_| all.len() > 1) else {
            self.context.show_message(match all.first().copied() {
                Some(Metric::ON_CPU) => "the recording has running time only",
                Some(Metric::OFF_CPU) => "the recording has waits only",
                _ => "the recording has only one metric",
            });
            return;
        };
        let next = *next;
        self.context.ask(|query| query.common.metric = Some(next));
    }

    /// Filters by the selected function.
    fn filter_selected(&mut self, action: &Action, picture: &Picture) {
        let Some(label) = self.selected().last().map(|id| picture.labels.get(*id)) else {
            self.context.show_message("select a function first");
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
                self.context.show_message("this has no module");
                return;
            }
            _ => StackFilter::CollapseModule(label.module.clone()),
        };
        self.add_filter(filter);
    }

    /// Adds a filter, unless it equals the last one.
    fn add_filter(&mut self, filter: StackFilter) {
        self.context.change_filter(|options| {
            if options.stacks.last() != Some(&filter) {
                options.stacks.push(filter);
            }
        });
    }

    fn filter_thread(&mut self, action: &Action, picture: &Picture, id: Option<LabelId>) {
        let Some(label) = id.map(|id| picture.labels.get(id)) else { return };
        if *action != Action::Focus {
            self.context.show_message("this is a thread: f keeps it, u undoes that");
            return;
        }
        let split = picture.query.threads();
        let lighter = picture.lighter_threads.as_ref().filter(|lighter| Some(lighter.label) == id);
        self.context.change_filter(|options| match lighter {
            Some(lighter) => keep_threads(options, &[], &lighter.tids, split),
            None => keep_threads(options, &[label.name.as_str()], &[], split),
        });
    }

    fn annotate_selected(&mut self, picture: &Picture) {
        let label = self.selected().last().map(|id| picture.labels.get(*id));
        if label.is_some_and(|label| label.kind.is_code()) {
            return self.open(Tab::Source);
        }
        self.context.show_message("select a function first");
    }

    fn keep_matches(&mut self) {
        let Some(search) = &self.context.search else { return self.context.show_message("search first: /") };
        // The matches are those of the picture on the screen.
        let threads =
            self.context.picture.as_ref().map_or(ThreadSplit::Class, |picture| picture.query.threads());
        let pattern = NamePattern { text: search.pattern_text(), threads };
        // Where only threads match, everything they did is kept, in the table of their times, too.
        let view = self.view(self.context.tab);
        let is_of_threads =
            (self.context.picture.as_ref()).is_some_and(|picture| view.finds_threads(search, picture));
        if !is_of_threads {
            return self.add_filter(StackFilter::Matching(pattern));
        }
        let filter = ThreadFilter::Matching(pattern);
        self.context.change_filter(|options| {
            if options.threads.last() != Some(&filter) {
                options.threads.push(filter);
            }
        });
    }
}
