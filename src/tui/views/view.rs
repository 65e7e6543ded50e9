//! The interface between a view and the rest of the screen.

use crate::report::{CommonOptions, ExportShape, LabelId, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::query::Query;
use crate::tui::app::search::Search;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::legend::ViewHelp;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A view: its state, its keys and how it is drawn.
pub(crate) trait View {
    /// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool;

    /// Draws the view into `area`.
    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme);

    /// Lines with details of the selection.
    fn details(&self, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>>;

    /// The selected stack, root first; the last is the selected function.
    fn selected(&self, picture: &Picture) -> Vec<LabelId> {
        let _ = picture;
        Vec::new()
    }

    /// Names to copy, innermost first. Foreign text.
    fn copied(&self, context: &Context, picture: &Picture) -> Vec<String> {
        let _ = context;
        self.selected(picture).iter().rev().map(|id| picture.labels.get(*id).name.clone()).collect()
    }

    /// The report view to export, and a description of what a file of this shape holds of it. `common` holds the filters;
    /// those of the view are added.
    fn exported(
        &self,
        picture: &Picture,
        common: &mut CommonOptions,
        shape: ExportShape,
    ) -> (ReportView, String);

    /// Whether a search finds only threads in this view.
    fn finds_threads(&self, search: &Search, picture: &Picture) -> bool {
        let _ = picture;
        search.functions == 0 && search.threads > 0
    }

    /// Hash of everything that the user can change in the view: a key that leaves it unchanged did nothing.
    fn fingerprint(&self) -> u64;

    /// Chooses what to show when the view is opened; `selected` is the selection of the view before.
    fn opened(&mut self, context: &mut Context, picture: Option<&Picture>, selected: &[LabelId]) {
        let _ = (context, picture, selected);
    }

    /// Keeps the selection in another picture. `context` still holds the previous one.
    fn follow(&mut self, context: &mut Context, picture: &Picture) {
        let _ = (context, picture);
    }

    /// Rows above and below those that are seen, where the view takes `area`.
    fn hidden_rows(&self, context: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        let _ = (context, picture, area);
        (0, 0)
    }

    /// The order of what is seen, in words.
    fn order_words(&self, context: &Context) -> Option<&'static str> {
        let _ = context;
        None
    }

    /// Whether stacks are drawn from the leaf to the root.
    fn is_inverted(&self, context: &Context) -> bool {
        let _ = context;
        false
    }

    /// Returns the entries of the help that explain the view.
    fn help(&self) -> ViewHelp;

    /// Returns what to do first when there is nothing to copy.
    fn copy_hint(&self) -> &'static str {
        "select a function first"
    }

    /// Whether the view has something to show of a picture without samples.
    fn shows_without_samples(&self, picture: &Picture) -> bool {
        let _ = picture;
        false
    }

    /// Whether the view waits for the first picture to choose what it shows.
    fn is_unset(&self, query: &Query) -> bool {
        let _ = query;
        false
    }
}

/// Names the content of a file of all that a view shows: the `rows` of the view as text, else stacks.
pub(super) fn all_of(rows: &str, shape: ExportShape) -> String {
    if shape.is_of_stacks() { "all stacks".to_owned() } else { rows.to_owned() }
}

/// The [`View::fingerprint`] of a view with this state.
pub(super) fn fingerprint_of(state: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    state.hash(&mut hasher);
    hasher.finish()
}
