//! Implements [`View`] for the Flame view.

use super::{FlameState, side};
use crate::report::{CommonOptions, Direction, ExportShape, LabelId, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::views::view::{View, fingerprint_of};
use crate::tui::widgets::legend::ViewHelp;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

impl View for FlameState {
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool {
        super::update(self, context, action, side::split(area).0, picture)
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme) {
        let (boxes, side) = side::split(area);
        super::draw(frame, boxes, self, context, picture, theme);
        if let Some(side) = side {
            side::draw(frame, side, self, context, picture, theme);
        }
    }

    fn details(&self, context: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
        super::details::details(self, context, picture, below)
    }

    fn hidden_rows(&self, context: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        super::hidden_rows(self, context, picture, side::split(area).0)
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of(self)
    }

    fn selected(&self, picture: &Picture) -> Vec<LabelId> {
        super::selected(self, picture)
    }

    fn follow(&mut self, context: &mut Context, picture: &Picture) {
        let before = context.picture.as_ref();
        if before.is_some_and(|before| before.query.direction != picture.query.direction) {
            self.turn_round(picture);
        } else {
            let paths = self.history.iter_mut().chain([&mut self.zoom, &mut self.selected]);
            paths.for_each(|path| picture.named_tree().rename(path));
        }
    }

    fn order_words(&self, context: &Context) -> Option<&'static str> {
        Some(super::order_words(self, context))
    }

    fn is_inverted(&self, context: &Context) -> bool {
        context.query.direction == Direction::BottomUp
    }

    fn help(&self) -> ViewHelp {
        use crate::tui::widgets::legend::Mark::{
            Change, CutOrNarrow, Error, Inlined, Kernel, OwnTime, Places, Threads,
        };
        ViewHelp {
            has_boxes: true,
            marks: &[OwnTime, Kernel, Inlined, CutOrNarrow, Change, Threads, Error, Places],
            mouse: &["Shift-wheel pan"],
        }
    }

    fn exported(
        &self,
        picture: &Picture,
        common: &mut CommonOptions,
        _: ExportShape,
    ) -> (ReportView, String) {
        super::export::exported(self, picture, common)
    }
}
