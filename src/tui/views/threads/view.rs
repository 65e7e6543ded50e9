//! Implements [`View`] for the Threads view.

use super::ThreadsState;
use crate::report::{CommonOptions, ExportShape, ReportView};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
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

impl View for ThreadsState {
    fn update(&mut self, context: &mut Context, action: &Action, area: Rect, picture: &Picture) -> bool {
        super::update(self, context, action, area, picture)
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect, context: &Context, picture: &Picture, theme: &Theme) {
        super::draw(frame, area, self, context, picture, theme);
    }

    fn details(&self, _: &Context, picture: &Picture, below: Below<'_>) -> Vec<Line<'static>> {
        super::details(self, picture, below)
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of(self)
    }

    fn follow(&mut self, _: &mut Context, picture: &Picture) {
        super::follow(self, picture);
    }

    fn hidden_rows(&self, _: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
        table::Frame { area, count: picture.threads.len() }.hidden_rows(self.list)
    }

    fn order_words(&self, _: &Context) -> Option<&'static str> {
        Some(super::order_words(self))
    }

    fn help(&self) -> ViewHelp {
        ViewHelp { has_boxes: false, marks: &[Mark::Cut, Mark::Threads], mouse: &["click on a heading sort"] }
    }

    fn shows_without_samples(&self, picture: &Picture) -> bool {
        // Threads that were only idle still have rows, with their idle time.
        !picture.threads.is_empty()
    }

    fn exported(&self, _: &Picture, _: &mut CommonOptions, shape: ExportShape) -> (ReportView, String) {
        (ReportView::Threads, all_of("all threads", shape))
    }

    fn finds_threads(&self, search: &Search, picture: &Picture) -> bool {
        super::has_match(search, picture)
    }
}
