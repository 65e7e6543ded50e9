//! The Source view as the rest of the screen knows it.

use super::state::SourceState;
use crate::report::{CommonOptions, ExportShape, LabelId, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::query::Query;
use crate::tui::app::search::Search;
use crate::tui::compute::picture::Picture;
use crate::tui::views::view::{View, all_of, fingerprint_of};
use crate::tui::widgets::legend::{Mark, ViewHelp};
use crate::tui::widgets::line::Below;
use crate::tui::widgets::table;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

impl View for SourceState {
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool {
        super::update(self, context, action, area, picture)
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme) {
        super::draw::draw(frame, area, self, context, picture, theme);
    }

    fn details(&self, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
        super::draw::details(self, context, picture, below)
    }

    fn selected(&self, picture: &Picture) -> Vec<LabelId> {
        self.function.as_ref().and_then(|key| picture.label_of(key)).into_iter().collect()
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of(self)
    }

    fn opened(&mut self, context: &mut Context, picture: Option<&Picture>, selected: &[LabelId]) {
        if let Some(picture) = picture {
            SourceState::opened(self, context, picture, selected);
        }
    }

    fn follow(&mut self, context: &mut Context, picture: &Picture) {
        // A picture of the function before says nothing of the rows of this one.
        if picture.query.source == context.query.source {
            SourceState::follow(self, picture);
        }
    }

    fn hidden_rows(&self, _: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        let Some(sheet) = &picture.source else { return (0, 0) };
        let count = sheet.rows(&picture.recording.profile, &self.expanded).len();
        table::Frame { area: super::draw::table_area(picture, area), count }.hidden_rows(self.list)
    }

    fn help(&self) -> ViewHelp {
        ViewHelp { has_boxes: false, marks: &[Mark::CutOrLeftOut], mouse: &[] }
    }

    fn is_unset(&self, query: &Query) -> bool {
        query.source.is_none()
    }

    fn exported(&self, _: &Picture, _: &mut CommonOptions, shape: ExportShape) -> (ReportView, String) {
        (ReportView::Flat, all_of("all functions", shape))
    }

    fn finds_threads(&self, _: &Search, _: &Picture) -> bool {
        false
    }
}
