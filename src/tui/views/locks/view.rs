//! Implements [`View`] for the Locks view.

use super::{LocksState, ROWS, by, lines};
use crate::report::{ChargedTo, CommonOptions, ExportShape, LabelId, ReportView, keep_lock_waits};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::views::view::{View, fingerprint_of};
use crate::tui::widgets::legend::{Mark, ViewHelp};
use crate::tui::widgets::line::Below;
use crate::tui::widgets::table;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

impl View for LocksState {
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool {
        super::update(self, context, action, area, picture)
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme) {
        super::draw(frame, area, self, context, picture, theme);
    }

    fn details(&self, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
        super::details(self, context, picture, below)
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of(self)
    }

    fn opened(&mut self, context: &mut Context, _: Option<&Picture>, _: &[LabelId]) {
        context.ask(|query| query.locks = Some(ROWS[self.rows]));
    }

    fn follow(&mut self, _: &mut Context, picture: &Picture) {
        super::follow(self, picture);
    }

    fn hidden_rows(&self, _: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        table::Frame { area, count: lines(picture).len() }.hidden_rows(self.list)
    }

    fn order_words(&self, _: &Context) -> Option<&'static str> {
        Some(super::order_words(self))
    }

    fn help(&self) -> ViewHelp {
        ViewHelp { has_boxes: false, marks: &[Mark::Cut], mouse: &["click on a heading sort"] }
    }

    fn shows_without_samples(&self, picture: &Picture) -> bool {
        // The metric may be one of which nothing is there.
        picture.has_locks
    }

    fn exported(
        &self,
        picture: &Picture,
        common: &mut CommonOptions,
        shape: ExportShape,
    ) -> (ReportView, String) {
        if picture.change.is_some() && !shape.is_of_stacks() {
            // A comparison is written as `prof diff` writes it: that has no table of locks.
            return (ReportView::default(), "all functions".to_owned());
        }
        if shape.is_of_stacks() {
            common.metric = super::waits(picture).or(common.metric);
            keep_lock_waits(&mut common.filter);
            return (ReportView::Locks(by(picture)), "all waits for locks".to_owned());
        }
        common.metric = None;
        common.locks = Some(ChargedTo::Waiter);
        (ReportView::Locks(by(picture)), "all locks".to_owned())
    }

    fn copied(&self, _: &Context, picture: &Picture) -> Vec<String> {
        super::selected_line(self, picture).map(|line| line.title()).into_iter().collect()
    }

    fn copy_hint(&self) -> &'static str {
        "select a row first"
    }
}
