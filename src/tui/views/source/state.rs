//! What the user did to the view, and which function it shows.

use crate::report::{LabelId, LabelKey, Labels};
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::compute::source_sheet::{LinePlace, SheetRow, SourceSheet};
use crate::tui::widgets::list::ListState;
use std::collections::BTreeSet;

/// A row that is found again in another picture: its line, and the address of an instruction of it.
type SheetRowKey = (LinePlace, Option<u64>);

/// State of the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct SourceState {
    /// The function that is shown.
    pub(super) function: Option<LabelKey>,
    /// Functions that were shown before, oldest first.
    pub(super) history: Vec<LabelKey>,
    /// Lines whose instructions are shown.
    pub(super) expanded: BTreeSet<LinePlace>,
    /// Which row is selected, and which are shown.
    pub(super) list: ListState,
    /// The function of which that is the selected row.
    selected_in: Option<LabelKey>,
    selected: Option<SheetRowKey>,
}

impl SourceState {
    /// Shows another function.
    pub(super) fn show(&mut self, context: &mut Context, key: LabelKey) {
        if self.function.as_ref() != Some(&key) {
            self.history.extend(self.function.replace(key.clone()));
        }
        context.ask(|query| query.source = Some(key));
    }

    /// Shows the function before; false when there is none.
    pub(super) fn go_back(&mut self, context: &mut Context) -> bool {
        let Some(key) = self.history.pop() else { return false };
        self.function = Some(key.clone());
        context.ask(|query| query.source = Some(key));
        true
    }

    /// The view is opened: with the function that is `selected` in the view before, with the one that was shown last, or with the
    /// one in which most is spent.
    pub(super) fn opened(&mut self, context: &mut Context, picture: &Picture, selected: &[LabelId]) {
        let hottest = || {
            let rows = picture.table.rows.iter().filter(|row| picture.labels.get(row.label).kind.is_code());
            rows.max_by_key(|row| row.own.weight).map(|row| picture.labels.get(row.label).key())
        };
        let chosen = function_of(&picture.labels, selected);
        if let Some(key) = chosen.or_else(|| self.function.clone()).or_else(hottest) {
            self.show(context, key);
        }
    }

    /// Follows the selected row into another picture; of another function it is the row in which most is spent.
    pub(super) fn follow(&mut self, picture: &Picture) {
        let Some(sheet) = &picture.source else { return };
        let rows = sheet.rows(&picture.recording.profile, &self.expanded);
        if self.selected_in.as_ref() != Some(&sheet.key) {
            // Some lines above it show where it is.
            let at = sheet.hottest(&rows);
            self.list = ListState { cursor: at, offset: at.saturating_sub(ABOVE) };
        } else if let Some(selected) = &self.selected {
            let found = rows.iter().position(|row| row_key(picture, sheet, *row).as_ref() == Some(selected));
            found.into_iter().for_each(|at| self.list.follow(at));
        }
        self.remember(picture);
    }

    /// Remembers what the selected row is.
    pub(super) fn remember(&mut self, picture: &Picture) {
        let Some(sheet) = &picture.source else { return };
        let rows = sheet.rows(&picture.recording.profile, &self.expanded);
        let row = rows.get(self.list.cursor(rows.len()));
        self.selected_in = Some(sheet.key.clone());
        self.selected = row.and_then(|row| row_key(picture, sheet, *row));
    }
}

/// Lines above the one in which most is spent when a function is shown first.
const ABOVE: usize = 5;

/// The key of the function that is selected in another view; `None` if that is no code.
fn function_of(labels: &Labels, selected: &[LabelId]) -> Option<LabelKey> {
    let label = labels.get(*selected.last()?);
    label.kind.is_code().then(|| label.key())
}

fn row_key(picture: &Picture, sheet: &SourceSheet, row: SheetRow) -> Option<SheetRowKey> {
    let path = |file| picture.recording.profile.tables.string(file).to_owned();
    Some(match row {
        SheetRow::Line { file, number, .. } => ((path(file), number), None),
        SheetRow::Instruction(at) => {
            let line = sheet.line_of(row)?;
            ((path(line.file), line.line), Some(sheet.annotation.instructions[at].at.address))
        }
        SheetRow::Inlined { .. } | SheetRow::File(_) | SheetRow::Gap => return None,
    })
}
