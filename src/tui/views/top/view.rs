//! Implements [`View`] for the Top view.

use super::TopState;
use crate::report::{CommonOptions, ExportShape, LabelId, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::views::view::{View, all_of, fingerprint_of};
use crate::tui::widgets::legend::{Mark, ViewHelp};
use crate::tui::widgets::line::Below;
use crate::tui::widgets::table;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

impl View for TopState {
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
        fingerprint_of(&self.list)
    }

    fn selected(&self, picture: &Picture) -> Vec<LabelId> {
        super::selected(self, picture)
    }

    fn follow(&mut self, context: &mut Context, picture: &Picture) {
        super::follow(self, context, picture);
    }

    fn hidden_rows(&self, _: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        table::Frame { area, count: super::count_of(picture) }.hidden_rows(self.list)
    }

    fn help(&self) -> ViewHelp {
        ViewHelp {
            has_boxes: false,
            marks: &[Mark::Cut, Mark::Error, Mark::Places],
            mouse: &["click on a heading sort"],
        }
    }

    fn exported(&self, _: &Picture, _: &mut CommonOptions, shape: ExportShape) -> (ReportView, String) {
        (ReportView::Flat, all_of("all functions", shape))
    }
}
