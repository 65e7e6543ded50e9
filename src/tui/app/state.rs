//! The state of the interface: what the views share, and each view's own state. It changes only in [`App::update`] and
//! with each new picture.

use super::action::{Effect, Tab};
use super::choices::marked_place::MarkedPlace;
use super::context::{Context, Prompt};
use super::query::Query;
use crate::base::failure::Failure;
use crate::tui::compute::picture::Picture;
use crate::tui::views::all::Views;
use crate::tui::views::view::View;
use ratatui::layout::Size;
use std::sync::Arc;

/// The whole state.
#[derive(Debug, Clone)]
pub struct App {
    /// State that the views share.
    pub(crate) context: Context,
    /// State of each view.
    pub(crate) views: Views,
    /// Marked places, in the order of their names in the context.
    pub(crate) places: Vec<MarkedPlace>,
}

impl App {
    /// Initial state, before the first picture.
    pub fn new(query: Query, size: Size) -> Self {
        App { context: Context::new(query, size), views: Views::default(), places: Vec::new() }
    }

    /// The view of a tab.
    pub(crate) fn view(&self, tab: Tab) -> &dyn View {
        self.views.of(tab)
    }

    /// The view of a tab, and the state that all views share.
    pub(crate) fn view_mut(&mut self, tab: Tab) -> (&mut dyn View, &mut Context) {
        (self.views.of_mut(tab), &mut self.context)
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
        self.context.outdate_message(&picture);
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
        self.context.show_message(failure.message.clone());
        match &self.context.picture {
            Some(picture) => self.context.query = picture.query.clone(),
            None => self.context.problem = Some(failure.clone()),
        }
    }

    /// Recomputes the share of the search.
    pub(crate) fn measure_search(&mut self) {
        if let (Some(search), Some(picture)) = (&mut self.context.search, &self.context.picture) {
            let top = picture.find(&self.views.flame.zoom);
            search.measure(picture, &top);
        }
    }

    /// Takes the side effects to carry out.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        self.context.take_effects()
    }
}
