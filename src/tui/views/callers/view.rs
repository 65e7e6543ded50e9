//! Implements [`View`] for the Callers view.

use super::CallersState;
use crate::report::{CommonOptions, ExportShape, LabelId, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::query::Query;
use crate::tui::compute::picture::Picture;
use crate::tui::views::view::{View, fingerprint_of};
use crate::tui::widgets::legend::ViewHelp;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

impl View for CallersState {
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool {
        super::update(self, context, action, area, picture)
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme) {
        super::draw::draw(frame, area, self, context, picture, theme);
    }

    fn details(&self, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
        super::draw::details(self, context, picture, below)
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of(self)
    }

    fn selected(&self, picture: &Picture) -> Vec<LabelId> {
        super::selected(self, picture)
    }

    fn follow(&mut self, context: &mut Context, picture: &Picture) {
        super::follow(self, context, picture);
    }

    fn opened(&mut self, context: &mut Context, picture: Option<&Picture>, selected: &[LabelId]) {
        if let Some(picture) = picture {
            super::opened(self, context, picture, selected);
        }
    }

    fn hidden_rows(&self, _: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        super::layout::hidden_rows(self, picture, area)
    }

    fn help(&self) -> ViewHelp {
        use crate::tui::widgets::legend::Mark::{
            Change, CutOrNarrow, Error, Inlined, Kernel, OwnTime, Places,
        };
        ViewHelp {
            has_boxes: true,
            marks: &[OwnTime, Kernel, Inlined, CutOrNarrow, Change, Error, Places],
            mouse: &["Shift-wheel pan"],
        }
    }

    fn is_unset(&self, query: &Query) -> bool {
        query.pivot.is_none()
    }

    fn exported(
        &self,
        picture: &Picture,
        common: &mut CommonOptions,
        shape: ExportShape,
    ) -> (ReportView, String) {
        super::export::exported(picture, common, shape)
    }
}
