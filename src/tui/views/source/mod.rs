//! The Source view: what each line and each instruction of one function cost, as `prof annotate` has it. Reading sources and
//! code is the work of `report/code`.

mod draw;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub(crate) use state::SourceState;

use crate::report::LabelKey;
use crate::tui::app::action::{Action, Effect};
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::compute::source_sheet::{SheetRow, SourceSheet};
use crate::tui::widgets::table;
use ratatui::layout::Rect;
use std::path::Path;

/// Does what `action` means here, where the view takes `area`; false when it means nothing.
fn update(
    view: &mut SourceState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    if *action == Action::Back {
        return view.go_back(context);
    }
    let Some(sheet) = &picture.source else { return false };
    let rows = sheet.rows(&picture.recording.profile, &view.expanded);
    let table = table::Frame { area: draw::table_area(picture, area), count: rows.len() };
    let selected = rows.get(view.list.cursor(rows.len())).copied();
    match action {
        Action::Right => {
            let callee = selected.and_then(|row| sheet.line_of(row)).and_then(|line| line.callee.clone());
            follow_call(view, context, callee, "nothing is called from this line");
        }
        Action::Left => {
            follow_call(
                view,
                context,
                sheet.annotation.caller.clone(),
                "no caller of this function is known",
            );
        }
        Action::OpenEditor => open_editor(context, picture, sheet, selected),
        Action::NextMatch => next_match(view, context, picture, &rows, table.rows(), true),
        Action::PreviousMatch => next_match(view, context, picture, &rows, table.rows(), false),
        _ => match table.update(&mut view.list, action) {
            Some(table::TableEvent::Moved | table::TableEvent::Heading(_)) => {}
            Some(table::TableEvent::Opened) => {
                // A double click has selected it just now.
                let selected = rows.get(view.list.cursor(rows.len())).copied();
                toggle(view, context, picture, sheet, selected);
            }
            None => return false,
        },
    }
    view.remember(picture);
    true
}

fn follow_call(view: &mut SourceState, context: &mut Context, key: Option<LabelKey>, nothing: &str) {
    match key {
        Some(key) => view.show(context, key),
        None => context.show_message(nothing),
    }
}

/// Shows or hides the instructions of the selected line.
fn toggle(
    view: &mut SourceState,
    context: &mut Context,
    picture: &Picture,
    sheet: &SourceSheet,
    selected: Option<SheetRow>,
) {
    let line = selected.and_then(|row| sheet.line_of(row)).filter(|line| line.line > 0);
    let Some(line) = line else {
        context.show_message("this line has no code");
        return;
    };
    if line.groups.iter().all(|group| group.instructions.is_empty()) {
        context.show_message("no instruction of this line is known");
        return;
    }
    let place = (picture.recording.profile.tables.string(line.file).to_owned(), line.line);
    if !view.expanded.remove(&place) {
        view.expanded.insert(place.clone());
    }
    // An instruction that was selected may be gone: its line is not.
    let rows = sheet.rows(&picture.recording.profile, &view.expanded);
    let is_line = |row: &SheetRow| matches!(row, SheetRow::Line { file, number, .. } if (*file, *number) == (line.file, line.line));
    if let Some(at) = rows.iter().position(is_line) {
        view.list.follow(at);
    }
}

/// Asks for the user's editor, at the selected line.
fn open_editor(context: &mut Context, picture: &Picture, sheet: &SourceSheet, selected: Option<SheetRow>) {
    let place = match selected {
        Some(SheetRow::Line { file, number, .. }) => Some((file, number)),
        Some(SheetRow::File(file)) => Some((file, 1)),
        Some(SheetRow::Inlined { line, group }) => {
            sheet.annotation.lines[line].groups[group].chain.last().map(|inner| (inner.file, inner.line))
        }
        Some(row) => sheet.line_of(row).map(|line| (line.file, line.line)),
        None => None,
    };
    let path = place.map(|(file, line)| {
        let as_compiled = || Path::new(picture.recording.profile.tables.string(file));
        (sheet.path(file).unwrap_or_else(as_compiled), line)
    });
    match path.filter(|(path, _)| !path.as_os_str().is_empty()) {
        Some((path, line)) => context.effects.push(Effect::OpenEditor(path.to_owned(), line.max(1))),
        None => context.show_message("no source line is known here"),
    }
}

fn next_match(
    view: &mut SourceState,
    context: &mut Context,
    picture: &Picture,
    rows: &[SheetRow],
    height: usize,
    forward: bool,
) {
    let (Some(search), Some(sheet)) = (&context.search, &picture.source) else {
        context.show_message("search first: /");
        return;
    };
    let count = rows.len();
    let is_match = |at: usize| search.matches_text(&draw::row_text(picture, sheet, rows[at]));
    match view.list.next_match(count, forward, is_match) {
        Some(found) => view.list.select(found, count, height),
        None => context.show_message("nothing matches in this function"),
    }
}
