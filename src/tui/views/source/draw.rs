//! Draws the view.

use super::state::SourceState;
use crate::base::safe_text;
use crate::base::units::{percent, percent_text};
use crate::diff::{ValueStyle, interval_words};
use crate::profile::StringId;
use crate::report::{Amount, LabelKey, module_file, short};
use crate::tui::app::context::Context;
use crate::tui::compute::boxes::BoxChange;
use crate::tui::compute::change::Change;
use crate::tui::compute::line_changes::LineChanges;
use crate::tui::compute::picture::Picture;
use crate::tui::compute::source_sheet::{SheetRow, SourceSheet};
use crate::tui::widgets::change_line;
use crate::tui::widgets::details::function_details;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::table;
use crate::tui::widgets::table::{PlacedColumns, TableColumn};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

/// Shares of the function from which on a row is marked, percent.
const WARM_PERCENT: f64 = 1.0;
const HOT_PERCENT: f64 = 10.0;
/// Lines of the table that no other text takes away.
const LEAST_TABLE: usize = 4;
/// Columns of a tab in a source.
const TAB: &str = "    ";

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceColumn {
    Own,
    OwnTime,
    Total,
    Base,
    New,
    Change,
    Interval,
    Line,
    Text,
}

fn placed(lines: Option<&LineChanges>, columns: usize) -> PlacedColumns<SourceColumn> {
    let column = |id, heading, width, is_number, rank| TableColumn { id, heading, width, is_number, rank };
    let of_change = [
        column(SourceColumn::Base, "BASE", 8, true, 2),
        column(SourceColumn::New, "NEW", 8, true, 2),
        column(SourceColumn::Change, "CHANGE", 8, true, 1),
        column(SourceColumn::Interval, "95% CHANGE", 15, true, 4),
        column(SourceColumn::Total, "TOTAL%", 6, true, 3),
    ];
    let of_one = [
        column(SourceColumn::OwnTime, "SELF", 9, true, 2),
        column(SourceColumn::Total, "TOTAL%", 6, true, 1),
    ];
    let mut all = vec![column(SourceColumn::Own, "SELF%", 6, true, 0)];
    match lines {
        Some(_) => all.extend(of_change),
        None => all.extend(of_one),
    }
    all.extend([
        column(SourceColumn::Line, "LINE", 6, true, 0),
        column(SourceColumn::Text, "SOURCE", 20, false, 0),
    ]);
    PlacedColumns::new(all, columns, SourceColumn::Text, usize::MAX)
}

/// Draws the view into `area`.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &SourceState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    let Some(sheet) = &picture.source else {
        let text = match &picture.query.source {
            Some(key) => {
                format!(" no sample of {} passes the filters", safe_text::terminal(&short(&key.name())))
            }
            None => " no function with code is here".to_owned(),
        };
        let text = theme.fit(&text, area.width.into());
        return frame.render_widget(Line::from(text), Rect { height: area.height.min(1), ..area });
    };
    let rows = sheet.rows(&picture.recording.profile, &view.expanded);
    let above = lines_above(picture, area);
    for (text, y) in above.iter().zip(area.y..) {
        let line = Line::styled(format!(" {text}"), theme.note());
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
    let area = table_area(picture, area);
    let list = (view.list, rows.len());
    let lines = picture.change.as_ref().and_then(|change| change.lines());
    let placed = placed(lines, area.width.into());
    let heading = |_, text: &'static str| text.to_owned();
    table::draw(frame.buffer_mut(), area, &placed, list, theme, heading, |id, at, width| {
        rows.get(at).map_or_else(
            || (String::new(), Style::new()),
            |row| cell(context, picture, theme, sheet, *row, id, width),
        )
    });
}

/// Why the lines are not compared, where they are not: the columns of a comparison are missing. Safe for a terminal.
fn lines_above(picture: &Picture, area: Rect) -> Vec<String> {
    let why = picture.change.as_ref().and_then(|change| change.why_no_lines());
    let lines = why
        .map(|why| safe_text::wrapped(&safe_text::terminal(why), usize::from(area.width).saturating_sub(2)));
    // The table has a heading and some rows.
    lines.unwrap_or_default().into_iter().take(usize::from(area.height).saturating_sub(LEAST_TABLE)).collect()
}

/// The part of `area` that the table takes.
pub(super) fn table_area(picture: &Picture, area: Rect) -> Rect {
    let above = lines_above(picture, area).len() as u16;
    Rect { y: area.y + above, height: area.height - above, ..area }
}

fn cell(
    context: &Context,
    picture: &Picture,
    theme: &Theme,
    sheet: &SourceSheet,
    row: SheetRow,
    id: SourceColumn,
    width: usize,
) -> table::TableCell {
    let (own, total) = sheet.cost(row);
    let shown = |amount: Amount, text: String| if amount.is_empty() { String::new() } else { text };
    let of_self = percent(own.weight, sheet.whole().weight);
    let heat = match of_self {
        share if share >= HOT_PERCENT => theme.note(),
        share if share >= WARM_PERCENT => theme.heading(),
        _ => Style::new(),
    };
    match id {
        SourceColumn::Own => (shown(own, percent_text(of_self)), heat),
        SourceColumn::OwnTime => (shown(own, picture.weight_text(own.weight)), heat),
        SourceColumn::Base | SourceColumn::New | SourceColumn::Change | SourceColumn::Interval => {
            change_cell(picture, theme, row, id)
        }
        SourceColumn::Total => {
            let share = percent_text(percent(total.weight, sheet.annotation.total.weight));
            (shown(total, share), Style::new())
        }
        SourceColumn::Line => match row {
            SheetRow::Line { number, .. } if number > 0 => (number.to_string(), theme.faint()),
            _ => (String::new(), Style::new()),
        },
        SourceColumn::Text => {
            let text = row_text(picture, sheet, row);
            let is_match = context.search.as_ref().is_some_and(|search| search.matches_text(&text));
            let style = match row {
                _ if is_match => theme.matched(Style::new()),
                SheetRow::File(_) | SheetRow::Inlined { .. } | SheetRow::Gap => theme.faint(),
                SheetRow::Line { .. } | SheetRow::Instruction(_) => Style::new(),
            };
            let text = match row {
                SheetRow::File(_) => theme.fit_end(&text, width),
                _ => theme.fit(&text, width),
            };
            (text, style)
        }
    }
}

/// Returns the change of a row; `None` where it is not known.
fn change_of(picture: &Picture, row: SheetRow) -> Option<(&Change, BoxChange<'_>)> {
    let SheetRow::Line { file, number, .. } = row else { return None };
    let change = picture.change.as_ref()?;
    let place = (picture.recording.profile.tables.string(file).to_owned(), number);
    Some((change, change.lines()?.of(&place)?))
}

/// A cell of a comparison: what ends in a line on a side, or how much that has changed.
fn change_cell(picture: &Picture, theme: &Theme, row: SheetRow, id: SourceColumn) -> table::TableCell {
    let Some((change, of_line)) = change_of(picture, row) else { return (String::new(), Style::new()) };
    let BoxChange { costs: [base, new], tested } = of_line;
    let style = ValueStyle::of(&change.functions);
    match id {
        SourceColumn::Base => (style.cell(base), Style::new()),
        SourceColumn::New => (style.cell(new), Style::new()),
        SourceColumn::Interval => (tested.map_or_else(String::new, interval_words), Style::new()),
        _ => {
            let (words, tone) = change_line::cell_of_part(of_line);
            (words, theme.changed(tone))
        }
    }
}

/// The text of a row, safe for a terminal.
pub(super) fn row_text(picture: &Picture, sheet: &SourceSheet, row: SheetRow) -> String {
    let string = |id: StringId| picture.recording.profile.tables.string(id);
    let source = |file, line| safe_source(sheet.text(file, line).unwrap_or(""));
    match row {
        SheetRow::File(file) => match string(file) {
            "" => "no source line is known".to_owned(),
            path => safe_text::terminal(path).into_owned(),
        },
        SheetRow::Line { file, number, .. } => source(file, number),
        SheetRow::Inlined { line, group } => {
            let chain = &sheet.annotation.lines[line].groups[group].chain;
            let names: Vec<String> =
                chain.iter().rev().map(|step| safe_text::terminal(&short(&step.name)).into_owned()).collect();
            let Some(last) = chain.last() else { return String::new() };
            let file = safe_text::terminal(module_file(string(last.file))).into_owned();
            let place = if last.line > 0 { format!("{file}:{}", last.line) } else { file };
            let text = source(last.file, last.line);
            format!("  inlined {} {place}  {}", names.join(" < "), text.trim_start())
        }
        SheetRow::Instruction(at) => {
            let instruction = &sheet.annotation.instructions[at];
            let place = match instruction.at.start {
                Some(start) => format!("+{:#x}", instruction.at.address.wrapping_sub(start)),
                None => format!("{:#x}", instruction.at.address),
            };
            let text = instruction.text.as_deref().unwrap_or("[its code is not in the recording]");
            format!("  {place:>7}  {}", safe_text::terminal(text))
        }
        SheetRow::Gap => "…".to_owned(),
    }
}

fn safe_source(text: &str) -> String {
    safe_text::terminal(&text.trim_end().replace('\t', TAB)).into_owned()
}

/// Details of the selection: the function, and of the line its change, what it calls, or why its text is not shown.
pub(super) fn details(
    view: &SourceState,
    context: &Context,
    picture: &Picture,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let Some(sheet) = &picture.source else { return Vec::new() };
    let mut lines = match picture.label_of(&sheet.key) {
        Some(label) => function_details(context, picture, label, None, below),
        None => vec![Line::from(
            below.theme.fit(&format!(" {}", safe_text::terminal(&short(&sheet.name))), below.columns),
        )],
    };
    let rows = sheet.rows(&picture.recording.profile, &view.expanded);
    let row = rows.get(view.list.cursor(rows.len())).copied();
    if let Some((change, of_line)) = row.and_then(|row| change_of(picture, row)).filter(|_| lines.len() > 1) {
        lines.truncate(1);
        lines.push(Line::from(change_line::of_line(change, of_line, below.theme, below.columns)));
        return lines;
    }
    if let Some(words) =
        row.and_then(|row| line_words(picture, sheet, row, below)).filter(|_| lines.len() > 1)
    {
        lines.truncate(1);
        lines.push(Line::from(below.theme.fit(&words, below.columns)));
    }
    lines
}

/// Text on a row besides its costs.
fn line_words(picture: &Picture, sheet: &SourceSheet, row: SheetRow, below: Below<'_>) -> Option<String> {
    let called = |key: &LabelKey| format!(" calls {}", safe_text::terminal(&short(&key.name())));
    let file = match row {
        SheetRow::File(file) => file,
        _ => {
            let line = sheet.line_of(row)?;
            if let Some(callee) = &line.callee {
                return Some(called(callee));
            }
            line.file
        }
    };
    let remark = sheet.remark(file)?;
    let path = picture.recording.profile.tables.string(file);
    Some(format!(" {}", fit_remark(remark, path, below.theme, below.columns.saturating_sub(1))))
}

/// A remark on the file `path` in `columns`: of its path the end stays, and after it what helps.
fn fit_remark(remark: &str, path: &str, theme: &Theme, columns: usize) -> String {
    let remark = safe_text::terminal(remark)
        .replace("; --source-dir names the folder of the sources", "; prof tui --source-dir DIR finds it");
    let path = safe_text::terminal(path);
    match remark.split_once(&*path) {
        Some((before, after)) if !path.is_empty() && safe_text::width(&remark) > columns => {
            let others = safe_text::width(before) + safe_text::width(after);
            format!("{before}{}{after}", theme.fit_end(&path, columns.saturating_sub(others)))
        }
        _ => remark,
    }
}
