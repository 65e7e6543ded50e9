//! The table of functions of a comparison, as in `prof diff`: what each cost in the base and on the new side.

use crate::base::safe_text;
use crate::diff::{Comparison, DiffRow, RowValue, ValueStyle, interval_words};
use crate::report::{NameStyle, SortKey, module_stem};
use crate::tui::app::context::{Context, NameDetail};
use crate::tui::compute::change::{Change, ChangedRow, value_of};
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::change_line;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::list::ListState;
use crate::tui::widgets::table;
use crate::tui::widgets::table::{PlacedColumns, TableColumn};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangesColumn {
    Base,
    New,
    Delta,
    Change,
    Interval,
    Name,
    Module,
}

fn placed(columns: usize) -> PlacedColumns<ChangesColumn> {
    let column = |id, heading, width, is_number, rank| TableColumn { id, heading, width, is_number, rank };
    let all = vec![
        column(ChangesColumn::Base, "BASE", 8, true, 1),
        column(ChangesColumn::New, "NEW", 8, true, 1),
        column(ChangesColumn::Delta, "DELTA", 9, true, 0),
        column(ChangesColumn::Change, "CHANGE", 8, true, 0),
        column(ChangesColumn::Interval, "95% CHANGE", 15, true, 3),
        column(ChangesColumn::Name, "FUNCTION", 18, false, 0),
        column(ChangesColumn::Module, "MODULE", 12, false, 2),
    ];
    PlacedColumns::new(all, columns, ChangesColumn::Name, usize::MAX)
}

/// The name of a row as it is shown now, safe for a terminal.
pub(super) fn name(context: &Context, picture: &Picture, change: &Change, row: &ChangedRow) -> String {
    let style = if context.names == NameDetail::Short { NameStyle::Short } else { NameStyle::Full };
    match row.label {
        Some(label) => context.name(picture.labels.get(label)),
        None => safe_text::terminal(&change.functions.labels[row.number as usize].text(style)).into_owned(),
    }
}

/// Draws the table into `area`, from the last row to the first if `is_reversed`.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    (list, is_reversed): (ListState, bool),
    context: &Context,
    (picture, change): (&Picture, &Change),
    theme: &Theme,
) {
    let value = value_of(picture.query.sort);
    let heading = |id: ChangesColumn, text: &'static str| match (id, value) {
        (ChangesColumn::Name, RowValue::Own) => format!("{text} (self)"),
        (ChangesColumn::Name, RowValue::Total) => format!("{text} (total)"),
        _ => {
            let is_sorted =
                if picture.query.sort == SortKey::Count { ChangesColumn::New } else { ChangesColumn::Delta };
            table::sorted_heading(text, id == is_sorted, is_reversed)
        }
    };
    let style = ValueStyle::of(&change.functions);
    let count = change.rows.len();
    let list = (list, count);
    let row = |at: usize| change.rows.get(if is_reversed { count.checked_sub(at + 1)? } else { at });
    table::draw(
        frame.buffer_mut(),
        area,
        &placed(area.width.into()),
        list,
        theme,
        heading,
        |id, at, width| {
            let Some(row) = row(at) else { return (String::new(), Style::new()) };
            let difference = row.difference(&change.functions, value);
            let tone = theme.changed(change_line::tone(difference));
            match id {
                ChangesColumn::Base => (style.cell(difference.base), Style::new()),
                ChangesColumn::New => (style.cell(difference.new), Style::new()),
                ChangesColumn::Delta => (style.delta(difference.delta()), tone),
                ChangesColumn::Change => (change_line::cell(difference), tone),
                ChangesColumn::Interval => (interval_words(difference), Style::new()),
                ChangesColumn::Name => {
                    let name = name(context, picture, change, row);
                    let is_match = context.search.as_ref().is_some_and(|search| is_match(search, row, &name));
                    let plain = if difference.outcome.is_real() { Style::new() } else { theme.faint() };
                    (theme.fit(&name, width), if is_match { theme.matched(plain) } else { plain })
                }
                ChangesColumn::Module => {
                    let module = module_stem(&change.functions.labels[row.number as usize].key.module);
                    (safe_text::terminal(module).into_owned(), theme.faint())
                }
            }
        },
    );
}

/// Whether a search matches a row: a function that is gone by the name that is shown.
pub(super) fn is_match(search: &crate::tui::app::search::Search, row: &ChangedRow, name: &str) -> bool {
    row.label.map_or_else(|| search.matches_text(name), |label| search.matches(label.index()))
}

/// Details of a function that the picture's side does not have.
pub(super) fn details(
    context: &Context,
    (picture, change): (&Picture, &Change),
    row: &ChangedRow,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let Below { theme, columns, .. } = below;
    let functions: &Comparison = &change.functions;
    let name = theme.fit(&format!(" {}", name(context, picture, change, row)), columns);
    let where_it_is = if change.shows_base() { "not in the base" } else { "gone: B shows the base" };
    let room = columns.saturating_sub(safe_text::width(&name) + 3);
    let of: &DiffRow = &functions.rows[row.number as usize];
    let values = [Some(of.value(RowValue::Own)), Some(of.value(RowValue::Total))];
    vec![
        Line::from(vec![
            Span::styled(name, theme.heading()),
            Span::raw(format!("   {}", theme.fit(where_it_is, room))),
        ]),
        Line::from(change_line::of_values(change, values, theme, columns)),
    ]
}
