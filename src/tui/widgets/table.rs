//! Columns of a table: which of them fit, where they begin, and how a row is drawn. Changes nothing.

use super::list::ListState;
use super::theme::Theme;
use crate::base::safe_text;
use crate::tui::app::action::Action;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns in front of the first cell: the mark of the selected row.
pub(crate) const MARK_COLUMNS: usize = 2;
/// Columns between cells.
const GAP: usize = 2;

/// One column of a table; `Id` identifies its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableColumn<Id> {
    /// Identifies the contents.
    pub(crate) id: Id,
    /// Text of the heading.
    pub(crate) heading: &'static str,
    /// Width on the screen, columns; the least width if the column is flexible.
    pub(crate) width: usize,
    /// Whether cells are aligned to the right.
    pub(crate) is_number: bool,
    /// Order in which columns are dropped, the highest rank first; rank 0 never is.
    pub(crate) rank: u8,
}

/// The columns that fit, each with its position on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedColumns<Id> {
    columns: Vec<(usize, TableColumn<Id>)>,
}

impl<Id: Copy + PartialEq> PlacedColumns<Id> {
    /// Drops columns until the rest fits into `width`; then widens the column `flexible` by what is left over, up to
    /// `most`.
    pub(crate) fn new(columns: Vec<TableColumn<Id>>, width: usize, flexible: Id, most: usize) -> Self {
        let mut kept = columns;
        let used = |kept: &[TableColumn<Id>]| {
            MARK_COLUMNS + kept.iter().map(|column| column.width + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while used(&kept) > width {
            let Some(rank) = kept.iter().map(|column| column.rank).max().filter(|rank| *rank > 0) else {
                break;
            };
            kept.retain(|column| column.rank != rank);
        }
        let spare = width.saturating_sub(used(&kept));
        let mut x = MARK_COLUMNS;
        let mut placed = Vec::with_capacity(kept.len());
        for mut column in kept {
            if column.id == flexible {
                column.width = column.width.max((column.width + spare).min(most));
            }
            placed.push((x, column));
            x += column.width + GAP;
        }
        PlacedColumns { columns: placed }
    }

    /// Whether a column has been kept.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.columns.iter().any(|(_, column)| column.id == id)
    }

    /// The width of a column; `None` if it was dropped.
    pub(crate) fn width_of(&self, id: Id) -> Option<usize> {
        self.columns.iter().find(|(_, column)| column.id == id).map(|(_, column)| column.width)
    }

    /// One past the last cell.
    pub(crate) fn end(&self) -> usize {
        self.columns.last().map_or(0, |(start, column)| start + column.width)
    }

    /// The columns that were kept.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TableColumn<Id>> {
        self.columns.iter().map(|(_, column)| column)
    }

    /// The column at `x` cells from the left.
    pub(crate) fn at(&self, x: usize) -> Option<Id> {
        let found =
            self.columns.iter().find(|(start, column)| (*start..start + column.width + 1).contains(&x));
        found.map(|(_, column)| column.id)
    }
}

/// Text of a cell, which must be safe, and its style.
pub(crate) type TableCell = (String, Style);

/// Draws the headings into the first row of `area`, and below them the visible rows of `count`.
pub(crate) fn draw<Id: Copy + PartialEq>(
    buffer: &mut Buffer,
    area: Rect,
    placed: &PlacedColumns<Id>,
    list: (ListState, usize),
    theme: &Theme,
    heading: impl Fn(Id, &'static str) -> String,
    cell: impl Fn(Id, usize, usize) -> TableCell,
) {
    let (list, count) = list;
    if area.height == 0 {
        return;
    }
    for (x, column) in &placed.columns {
        put(buffer, area, 0, *x, column, (heading(column.id, column.heading), theme.heading()), theme);
    }
    let height = usize::from(area.height) - 1;
    let cursor = list.cursor(count);
    for line in 0..height {
        let Some(row) = list.row_at(line, count, height) else { break };
        // Fits, since it is below the height of the screen.
        let y = line as u16 + 1;
        for (x, column) in &placed.columns {
            put(buffer, area, y, *x, column, cell(column.id, row, column.width), theme);
        }
        if row == cursor {
            let place = Rect { y: area.y + y, height: 1, ..area };
            buffer.set_stringn(area.x, place.y, ">", 1, Style::new());
            buffer.set_style(place, theme.selected(Style::new()));
        }
    }
}

/// The heading of the sort column, with a mark for the direction.
pub(crate) fn sorted_heading(text: &str, is_sorted: bool, is_reversed: bool) -> String {
    match (is_sorted, is_reversed) {
        (true, false) => format!("{text}v"),
        (true, true) => format!("{text}^"),
        (false, _) => text.to_owned(),
    }
}

/// Area of a table, and its number of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// The area including the headings.
    pub(crate) area: Rect,
    /// Number of rows, on the screen or not.
    pub(crate) count: usize,
}

/// Effect of an action on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableEvent {
    /// The selection or the scroll position changed.
    Moved,
    /// The selected row is to be opened.
    Opened,
    /// The headings were clicked at this many cells from the left.
    Heading(usize),
}

impl Frame {
    /// Number of lines for rows, below the headings.
    pub(crate) fn rows(self) -> usize {
        usize::from(self.area.height).saturating_sub(1)
    }

    /// Rows above and below those on the screen.
    pub(crate) fn hidden_rows(self, list: ListState) -> (u32, u32) {
        list.hidden_rows(self.count, self.rows())
    }

    /// Applies `action` to any table; `None` if it does nothing in a table.
    pub(crate) fn update(self, list: &mut ListState, action: &Action) -> Option<TableEvent> {
        match action {
            Action::Enter => return Some(TableEvent::Opened),
            Action::Click(at) | Action::DoubleClick(at) => {
                let line = usize::from(at.y.checked_sub(self.area.y).filter(|_| self.area.contains(*at))?);
                let Some(line) = line.checked_sub(1) else {
                    return Some(TableEvent::Heading((at.x - self.area.x).into()));
                };
                list.select(list.row_at(line, self.count, self.rows())?, self.count, self.rows());
                if matches!(action, Action::DoubleClick(_)) {
                    return Some(TableEvent::Opened);
                }
            }
            _ if !list.update(action, self.count, self.rows()) => return None,
            _ => {}
        }
        Some(TableEvent::Moved)
    }
}

fn put<Id>(
    buffer: &mut Buffer,
    area: Rect,
    y: u16,
    x: usize,
    column: &TableColumn<Id>,
    (text, style): TableCell,
    theme: &Theme,
) {
    let text = theme.fit(&text, column.width);
    let missing = column.width.saturating_sub(safe_text::width(&text));
    let x = if column.is_number { x + missing } else { x };
    let Some(room) = usize::from(area.width).checked_sub(x).filter(|room| *room > 0) else { return };
    buffer.set_stringn(area.x + x as u16, area.y + y, text, room, style);
}

/// `values` as a row of bars; the largest value is a full bar.
pub(crate) fn bars(values: &[u64], theme: &Theme) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let full = theme.glyphs.bars.len() as u128 - 1;
    let level = |value: &u64| {
        // Rounded up, so that any nonzero value is visible.
        let level = (u128::from(*value) * full).div_ceil(u128::from(most)) as usize;
        theme.glyphs.bars[level.min(full as usize)]
    };
    values.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Position;

    #[test]
    fn keys_and_clicks_move_and_open_rows() {
        let frame = Frame { area: Rect::new(2, 3, 20, 5), count: 10 };
        let mut list = ListState { cursor: 0, offset: 3 };
        let at = Position::new;
        assert_eq!(frame.rows(), 4);
        assert_eq!(frame.update(&mut list, &Action::Click(at(7, 3))), Some(TableEvent::Heading(5)));
        assert_eq!(frame.update(&mut list, &Action::Click(at(7, 5))), Some(TableEvent::Moved));
        assert_eq!(list.cursor, 4);
        assert_eq!(frame.update(&mut list, &Action::DoubleClick(at(7, 4))), Some(TableEvent::Opened));
        assert_eq!(list.cursor, 3);
        assert_eq!(frame.update(&mut list, &Action::Down), Some(TableEvent::Moved));
        assert_eq!((list.cursor, frame.update(&mut list, &Action::Enter)), (4, Some(TableEvent::Opened)));
        for outside in [at(1, 5), at(7, 2), at(7, 8), at(22, 5)] {
            assert_eq!(frame.update(&mut list, &Action::Click(outside)), None, "{outside}");
        }
        assert_eq!(frame.update(&mut list, &Action::Sort), None);
        assert_eq!(list.cursor, 4);
    }

    fn columns() -> Vec<TableColumn<char>> {
        let column = |id, width, is_number, rank| TableColumn { id, heading: "H", width, is_number, rank };
        vec![
            column('a', 6, true, 0),
            column('b', 5, true, 3),
            column('n', 12, false, 0),
            column('t', 10, false, 4),
        ]
    }

    #[test]
    fn columns_go_by_their_rank() {
        let ids = |width| {
            PlacedColumns::new(columns(), width, 'n', 99).iter().map(|column| column.id).collect::<String>()
        };
        assert_eq!(ids(80), "abnt");
        assert_eq!(ids(40), "abn");
        assert_eq!(ids(26), "an");
        assert_eq!(ids(1), "an");
    }

    #[test]
    fn one_column_takes_what_is_left() {
        let placed = PlacedColumns::new(columns(), 50, 'n', 99);
        let widths: Vec<usize> = placed.iter().map(|column| column.width).collect();
        assert_eq!(widths, [6, 5, 21, 10]);
        assert_eq!(placed.columns.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [2, 10, 17, 40]);
        assert_eq!(
            (placed.at(3), placed.at(20), placed.at(45), placed.at(0)),
            (Some('a'), Some('n'), Some('t'), None)
        );
        let narrow = PlacedColumns::new(columns(), 50, 'n', 15);
        assert_eq!(narrow.iter().map(|column| column.width).collect::<Vec<_>>(), [6, 5, 15, 10]);
    }
}
