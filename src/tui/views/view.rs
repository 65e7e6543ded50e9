//! What a view is to the rest of the screen.

use crate::report::{CommonOptions, LabelId, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::search::Search;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A view: what the user did to it, what keys mean in it, how it is drawn.
pub(crate) trait View {
    /// Does what `action` means here, where the view takes `area`; false when it means nothing.
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool;

    /// Draws the view into `area`.
    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme);

    /// The lines about what is selected.
    fn details(&self, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>>;

    /// The stack that is selected, root first; the last is the selected function.
    fn selected(&self, picture: &Picture) -> Vec<LabelId> {
        let _ = picture;
        Vec::new()
    }

    /// The names that are copied, innermost first. Foreign text.
    fn copied(&self, context: &Context, picture: &Picture) -> Vec<String> {
        let _ = context;
        self.selected(picture).iter().rev().map(|id| picture.labels.get(*id).name.clone()).collect()
    }

    /// What of it is written into a file, and that in words: `common` has the filters, and gets those of the view.
    fn exported(&self, picture: &Picture, common: &mut CommonOptions) -> (ReportView, String);

    /// Whether what the search finds here are threads.
    fn finds_threads(&self, search: &Search, picture: &Picture) -> bool {
        let _ = picture;
        search.functions == 0 && search.threads > 0
    }

    /// Changes with what the user can change in the view: a key after which it is the same did nothing.
    fn fingerprint(&self) -> u64;

    /// Chooses what is to be seen when the view is opened; `selected` was selected in the view before.
    fn opened(&mut self, context: &mut Context, picture: Option<&Picture>, selected: &[LabelId]) {
        let _ = (context, picture, selected);
    }

    /// Follows what is selected into another picture. That of the context is still the one before.
    fn follow(&mut self, context: &mut Context, picture: &Picture) {
        let _ = (context, picture);
    }

    /// The order of what is seen, in words.
    fn order_words(&self, context: &Context) -> Option<&'static str> {
        let _ = context;
        None
    }
}

/// The [`View::fingerprint`] of a view that is what `state` says.
pub(super) fn fingerprint_of(state: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    state.hash(&mut hasher);
    hasher.finish()
}
