//! Implements [`View`] for the Time view.

use super::state::TimeState;
use crate::report::{CommonOptions, ExportShape, LabelId, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::views::view::{View, fingerprint_of};
use crate::tui::widgets::legend::{Mark, ViewHelp};
use crate::tui::widgets::line::Below;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

impl View for TimeState {
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool {
        super::update(self, context, action, area, picture)
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme) {
        super::draw_view(frame, area, self, context, picture, theme);
    }

    fn details(&self, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
        super::details(self, context, picture, below)
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of(self)
    }

    fn follow(&mut self, context: &mut Context, picture: &Picture) {
        super::follow(self, context, picture);
    }

    fn hidden_rows(&self, context: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        super::hidden_rows(self, context, picture, area)
    }

    fn opened(&mut self, context: &mut Context, _: Option<&Picture>, _: &[LabelId]) {
        context.ask(|query| query.timeline = true);
    }

    fn help(&self) -> ViewHelp {
        ViewHelp {
            has_boxes: false,
            marks: &[Mark::Cut, Mark::Threads, Mark::Kernel, Mark::Inlined],
            mouse: &["drag range", "Shift-wheel pan"],
        }
    }

    fn copy_hint(&self) -> &'static str {
        "Enter lists the samples: there y copies a name, Y a stack"
    }

    fn shows_without_samples(&self, picture: &Picture) -> bool {
        // When the selected range is empty, the rest of the timeline is shown, so that another range can be selected.
        let is_chosen = !picture.query.common.filter.time.is_everything();
        is_chosen && picture.timeline.as_ref().is_some_and(|timeline| !timeline.rows.is_empty())
    }

    fn exported(
        &self,
        picture: &Picture,
        common: &mut CommonOptions,
        shape: ExportShape,
    ) -> (ReportView, String) {
        super::exported(self, picture, common, shape)
    }

    fn copied(&self, context: &Context, picture: &Picture) -> Vec<String> {
        super::selected_names(self, context, picture)
    }
}
