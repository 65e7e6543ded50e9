//! The state of the interface: what the views share, and each view's own state. It changes only in [`App::update`] and
//! with each new picture.

use super::action::{Effect, Tab};
use super::choices::marked_place::MarkedPlace;
use super::context::{Context, Prompt};
use super::query::Query;
use crate::base::failure::Failure;
use crate::tui::compute::picture::Picture;
use crate::tui::views::callers::CallersState;
use crate::tui::views::flame::FlameState;
use crate::tui::views::source::SourceState;
use crate::tui::views::threads::ThreadsState;
use crate::tui::views::time::state::TimeState;
use crate::tui::views::top::TopState;
use crate::tui::views::view::View;
use ratatui::layout::Size;
use std::sync::Arc;

/// The whole state.
#[derive(Debug, Clone)]
pub struct App {
    /// State that the views share.
    pub(crate) context: Context,
    /// The flame graph.
    pub(crate) flame: FlameState,
    /// The table of functions.
    pub(crate) top: TopState,
    /// Callers and callees.
    pub(crate) callers: CallersState,
    /// State of the view of time.
    pub(crate) time: TimeState,
    /// The table of threads.
    pub(crate) threads: ThreadsState,
    /// Source and machine code.
    pub(crate) source: SourceState,
    /// Marked places, in the order of their names in the context.
    pub(crate) places: Vec<MarkedPlace>,
}

impl App {
    /// Initial state, before the first picture.
    pub fn new(query: Query, size: Size) -> Self {
        App {
            context: Context::new(query, size),
            flame: FlameState::default(),
            top: TopState::default(),
            callers: CallersState::default(),
            time: TimeState::default(),
            threads: ThreadsState::default(),
            source: SourceState::default(),
            places: Vec::new(),
        }
    }

    /// The view of a tab.
    pub(crate) fn view(&self, tab: Tab) -> &dyn View {
        match tab {
            Tab::Flame => &self.flame,
            Tab::Top => &self.top,
            Tab::Callers => &self.callers,
            Tab::Time => &self.time,
            Tab::Threads => &self.threads,
            Tab::Source => &self.source,
        }
    }

    /// The view of a tab, and the state that all views share.
    pub(crate) fn view_mut(&mut self, tab: Tab) -> (&mut dyn View, &mut Context) {
        let view: &mut dyn View = match tab {
            Tab::Flame => &mut self.flame,
            Tab::Top => &mut self.top,
            Tab::Callers => &mut self.callers,
            Tab::Time => &mut self.time,
            Tab::Threads => &mut self.threads,
            Tab::Source => &mut self.source,
        };
        (view, &mut self.context)
    }

    /// Shows another picture and keeps the zoom and the selection by name.
    pub fn set_picture(&mut self, picture: Arc<Picture>) {
        if let Some(search) = &mut self.context.search {
            search.find(&picture);
        }
        if let Some(Prompt::Search { before: Some(before), .. }) = &mut self.context.prompt {
            before.find(&picture);
        }
        for tab in Tab::ALL {
            let (view, context) = self.view_mut(*tab);
            view.follow(context, &picture);
        }
        self.context.picture = Some(Arc::clone(&picture));
        self.context.problem = None;
        // It was opened before there was a picture.
        let tab = self.context.tab;
        let is_unset = self.view(tab).is_unset(&self.context.query);
        if is_unset {
            let (view, context) = self.view_mut(tab);
            view.opened(context, Some(&picture), &[]);
        }
        self.measure_search();
    }

    /// Reports that a query failed: the previous picture and its query stay.
    pub(crate) fn set_problem(&mut self, failure: &Failure) {
        self.context.toast = Some(failure.message.clone());
        match &self.context.picture {
            Some(picture) => self.context.query = picture.query.clone(),
            None => self.context.problem = Some(failure.clone()),
        }
    }

    /// Recomputes the share of the search.
    pub(crate) fn measure_search(&mut self) {
        if let (Some(search), Some(picture)) = (&mut self.context.search, &self.context.picture) {
            let top = picture.find(&self.flame.zoom);
            search.measure(picture, &top);
        }
    }

    /// Takes the side effects to carry out.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        self.context.take_effects()
    }
}
