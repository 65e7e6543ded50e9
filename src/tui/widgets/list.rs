//! A list that is longer than the screen: its selected row and its scroll position.

use crate::tui::app::action::Action;

/// The selected row, and the first one on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ListState {
    /// The selected row.
    pub(crate) cursor: usize,
    /// The first row on the screen.
    pub(crate) offset: usize,
}

impl ListState {
    /// The selected row in a list of `count` rows.
    pub(crate) fn cursor(&self, count: usize) -> usize {
        self.cursor.min(count.saturating_sub(1))
    }

    /// The first row shown of `count` rows in `height` lines, such that no line stays empty that could be filled.
    pub(crate) fn offset(&self, count: usize, height: usize) -> usize {
        self.offset.min(count.saturating_sub(height))
    }

    /// Returns the numbers of rows above and below those in `height` lines, of `count`.
    pub(crate) fn hidden_rows(&self, count: usize, height: usize) -> (u32, u32) {
        let above = self.offset(count, height);
        let below = count.saturating_sub(above + height);
        (u32::try_from(above).unwrap_or(u32::MAX), u32::try_from(below).unwrap_or(u32::MAX))
    }

    /// Moves as `action` says in a list of `count` rows, of which `height` are shown; returns false if it does not move
    /// in a list.
    pub(crate) fn update(&mut self, action: &Action, count: usize, height: usize) -> bool {
        let at = self.cursor(count);
        let page = height.saturating_sub(1).max(1);
        let half = (height / 2).max(1);
        let next = match action {
            Action::Up => at.saturating_sub(1),
            Action::Down => at.saturating_add(1),
            Action::PageUp => at.saturating_sub(page),
            Action::PageDown => at.saturating_add(page),
            Action::HalfUp => at.saturating_sub(half),
            Action::HalfDown => at.saturating_add(half),
            Action::First => 0,
            Action::Last => usize::MAX,
            Action::Scroll { rows, .. } => {
                let offset = self.offset(count, height).saturating_add_signed((*rows).into());
                self.offset = offset;
                self.offset = self.offset(count, height);
                return true;
            }
            _ => return false,
        };
        self.select(next, count, height);
        true
    }

    /// Selects a row and scrolls to it.
    pub(crate) fn select(&mut self, row: usize, count: usize, height: usize) {
        self.cursor = row.min(count.saturating_sub(1));
        let first = (self.cursor + 1).saturating_sub(height.max(1));
        self.offset = self.offset(count, height).clamp(first, self.cursor);
    }

    /// Selects a row that has moved in the list, and keeps its line on the screen.
    pub(crate) fn follow(&mut self, row: usize) {
        self.offset = (self.offset + row).saturating_sub(self.cursor);
        self.cursor = row;
    }

    /// The next row below the selected one, or above it, for which `is_match`; goes on at the other end, and comes to
    /// the selected one last.
    pub(crate) fn next_match(
        &self,
        count: usize,
        forward: bool,
        is_match: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let at = self.cursor(count);
        let is_match = |row: &usize| *row < count && is_match(*row);
        if forward {
            (at + 1..count).chain(0..=at).find(is_match)
        } else {
            (0..at).rev().chain((at..count).rev()).find(is_match)
        }
    }

    /// The row shown at line `line`.
    pub(crate) fn row_at(&self, line: usize, count: usize, height: usize) -> Option<usize> {
        let row = self.offset(count, height) + line;
        (line < height && row < count).then_some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_shown() {
        let mut list = ListState::default();
        for (action, cursor, offset) in [
            (Action::Down, 1, 0),
            (Action::Last, 9, 6),
            (Action::Down, 9, 6),
            (Action::Up, 8, 6),
            (Action::PageUp, 5, 5),
            (Action::First, 0, 0),
            (Action::PageDown, 3, 0),
            (Action::HalfDown, 5, 2),
            (Action::HalfUp, 3, 2),
        ] {
            assert!(list.update(&action, 10, 4));
            assert_eq!((list.cursor, list.offset), (cursor, offset), "{action:?}");
        }
        assert!(!list.update(&Action::Enter, 10, 4));
    }

    #[test]
    fn a_list_that_became_shorter_has_no_empty_rows() {
        let list = ListState { cursor: 90, offset: 80 };
        assert_eq!((list.cursor(5), list.offset(5, 4), list.offset(3, 4)), (4, 1, 0));
        assert_eq!((list.cursor(0), list.row_at(0, 0, 4)), (0, None));
    }

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        let hidden = |offset, count, height| ListState { cursor: 0, offset }.hidden_rows(count, height);
        assert_eq!((hidden(0, 10, 4), hidden(3, 10, 4), hidden(6, 10, 4)), ((0, 6), (3, 3), (6, 0)));
        // More lines than rows, no line at all, and a list that has become shorter.
        assert_eq!((hidden(0, 3, 4), hidden(0, 3, 0), hidden(80, 5, 4)), ((0, 0), (0, 3), (1, 0)));
    }

    #[test]
    fn the_next_match_is_found_round_the_ends() {
        let list = ListState { cursor: 3, offset: 0 };
        let next = |forward, rows: &[usize]| list.next_match(6, forward, |row| rows.contains(&row));
        assert_eq!(
            (next(true, &[1, 3, 5]), next(true, &[1, 3]), next(true, &[3])),
            (Some(5), Some(1), Some(3))
        );
        assert_eq!(
            (next(false, &[1, 3, 5]), next(false, &[3, 5]), next(false, &[3])),
            (Some(1), Some(5), Some(3))
        );
        assert_eq!((next(true, &[]), next(false, &[7])), (None, None));
        assert_eq!(list.next_match(0, true, |_| true), None);
    }

    #[test]
    fn a_row_that_moved_stays_where_it_was_on_the_screen() {
        let mut list = ListState { cursor: 7, offset: 5 };
        list.follow(20);
        assert_eq!((list.cursor, list.offset), (20, 18));
        list.follow(1);
        assert_eq!((list.cursor, list.offset), (1, 0));
    }
}
