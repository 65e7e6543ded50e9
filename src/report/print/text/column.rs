//! Tables whose columns are as wide as what they hold.

use super::page::{HEADING, Page, padded, push_line};
use crate::base::safe_text;

/// A column: its heading, and one cell for each row.
pub(in crate::report::print) struct Column {
    /// Text above the cells.
    pub(in crate::report::print) heading: &'static str,
    /// Columns of the page that it takes.
    pub(in crate::report::print) width: usize,
    /// Whether its cells end at its right edge.
    is_number: bool,
    cells: Vec<String>,
}

impl Column {
    /// A column of numbers.
    pub(in crate::report::print) fn number(heading: &'static str, cells: Vec<String>) -> Self {
        Column::new(heading, true, cells)
    }

    /// A column of text.
    pub(in crate::report::print) fn text(heading: &'static str, cells: Vec<String>) -> Self {
        Column::new(heading, false, cells)
    }

    fn new(heading: &'static str, is_number: bool, cells: Vec<String>) -> Self {
        let widest = cells.iter().map(|cell| safe_text::width(cell)).max().unwrap_or(0);
        Column { heading, width: widest.max(safe_text::width(heading)), is_number, cells }
    }

    fn placed(&self, text: &str) -> String {
        if !self.is_number {
            return padded(text, self.width);
        }
        format!("{:missing$}{text}", "", missing = self.width.saturating_sub(safe_text::width(text)))
    }
}

/// Columns of the page that all of them take, with the spaces after each.
pub(in crate::report::print) fn width_of(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width + 2).sum()
}

/// Leaves out columns with these headings, one after the other, until the others take `room` columns of the page at most.
pub(in crate::report::print) fn leave_out(columns: &mut Vec<Column>, headings: &[&str], room: usize) {
    for heading in headings {
        if width_of(columns) <= room {
            return;
        }
        columns.retain(|column| column.heading != *heading);
    }
}

/// Appends a table: the headings, then the rows. All columns have equally many cells.
pub(in crate::report::print) fn push_table(out: &mut String, columns: &[Column], page: &Page) {
    let line = |cell: &dyn Fn(&Column) -> String| columns.iter().map(cell).collect::<Vec<_>>().join("  ");
    push_line(out, &page.styled(HEADING, line(&|column| column.placed(column.heading)).trim_end()));
    let rows = columns.iter().map(|column| column.cells.len()).min().unwrap_or(0);
    for row in 0..rows {
        push_line(out, &line(&|column| column.placed(&column.cells[row])));
    }
}
