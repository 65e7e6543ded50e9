//! One function with its source and its machine code, as the Source view draws it.

use crate::base::failure::Failure;
use crate::profile::{Profile, StringId};
use crate::report::{
    Amount, Analysis, AnnotatedLine, Annotation, AsmSyntax, CommonOptions, Grouping, LabelKey, Selection,
    SourceTexts, label_of, read_sources,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Lines around those with code that are shown.
const CONTEXT: u32 = 3;
/// Largest number of lines of a function that are all shown; of longer ones, only the lines near its code are.
const MOST_LINES: u32 = 5_000;

/// A line of a source: path of the file as the compiler recorded it, and number.
pub(crate) type LinePlace = (String, u32);

/// A row of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SheetRow {
    /// The lines of a file follow.
    File(StringId),
    /// A line; `at` is its number in the annotation, where it has code.
    Line { file: StringId, number: u32, at: Option<usize> },
    /// Code of a line that is inlined there: numbers of the line and of the group.
    Inlined { line: usize, group: usize },
    /// An instruction of the annotation, by its number.
    Instruction(usize),
    /// Lines are left out.
    Gap,
}

/// The function.
#[derive(Debug)]
pub(crate) struct SourceSheet {
    /// Key by which the function was asked for.
    pub(crate) key: LabelKey,
    /// Name of the function in full. Foreign text.
    pub(crate) name: String,
    /// Costs of the function.
    pub(crate) annotation: Annotation,
    sources: SourceTexts,
    /// Folders in which its source was looked for.
    pub(super) folders: Vec<PathBuf>,
}

impl SourceSheet {
    /// The function `key` of `selection`, which was made with `options`; `None` when no sample has it. Its source is looked for
    /// in `folders` first.
    ///
    /// # Errors
    ///
    /// As for a selection.
    pub(crate) fn new(
        recording: &Analysis,
        selection: &Selection<'_>,
        options: &CommonOptions,
        key: &LabelKey,
        folders: &[PathBuf],
    ) -> Result<Option<Self>, Failure> {
        let label = label_of(selection.profile, &selection.labels, &selection.quality.samples_of_frame, key);
        let Some(label) = label.map(|label| selection.labels.get(label)) else { return Ok(None) };
        let by_address = by_address(recording, options)?;
        let annotation =
            Annotation::new(&by_address, &label.name, &label.module, options.inline, AsmSyntax::default());
        if annotation.total.is_empty() {
            return Ok(None);
        }
        let inner = annotation.lines.iter().flat_map(|line| &line.groups).flat_map(|group| &group.chain);
        let files = annotation.lines.iter().map(|line| line.file).chain(inner.map(|step| step.file));
        let sources = read_sources(&recording.profile, files, folders);
        let (key, name, folders) = (key.clone(), label.name.clone(), folders.to_vec());
        Ok(Some(SourceSheet { key, name, annotation, sources, folders }))
    }

    /// The text of a line. Foreign text.
    pub(crate) fn text(&self, file: StringId, line: u32) -> Option<&str> {
        self.sources.get(&file)?.line(line)
    }

    /// The file on this machine, if it is there.
    pub(crate) fn path(&self, file: StringId) -> Option<&Path> {
        self.sources.get(&file)?.path.as_deref()
    }

    /// Remark on the text of a file: that it is not there, or was written after the recording.
    pub(crate) fn remark(&self, file: StringId) -> Option<&str> {
        self.sources.get(&file)?.remark.as_deref()
    }

    /// Whole of which a line has a share: the samples in the code of the function, or all where none end in it.
    pub(crate) fn whole(&self) -> Amount {
        let own = self.annotation.in_code();
        if own.is_empty() { self.annotation.total } else { own }
    }

    /// The rows of the view; those of `expanded` lines are followed by their instructions.
    pub(crate) fn rows(&self, profile: &Profile, expanded: &BTreeSet<LinePlace>) -> Vec<SheetRow> {
        let mut rows = Vec::new();
        let mut at = 0;
        for lines in self.annotation.lines.chunk_by(|a, b| a.file == b.file) {
            let file = lines[0].file;
            let path = profile.tables.string(file);
            rows.push(SheetRow::File(file));
            let numbers: BTreeMap<u32, usize> = lines.iter().map(|line| line.line).zip(at..).collect();
            let mut last = None;
            for number in self.shown_lines(file, &numbers) {
                if last.is_some_and(|last: u32| last + 1 < number) {
                    rows.push(SheetRow::Gap);
                }
                last = Some(number);
                let at = numbers.get(&number).copied();
                rows.push(SheetRow::Line { file, number, at });
                // Code without a line has nothing else to show.
                if let Some(at) = at
                    && (number == 0 || expanded.contains(&(path.to_owned(), number)))
                {
                    self.push_code(at, &mut rows);
                }
            }
            at += lines.len();
        }
        rows
    }

    fn push_code(&self, at: usize, rows: &mut Vec<SheetRow>) {
        for (number, group) in self.annotation.lines[at].groups.iter().enumerate() {
            if !group.chain.is_empty() {
                rows.push(SheetRow::Inlined { line: at, group: number });
            }
            rows.extend(group.instructions.iter().map(|at| SheetRow::Instruction(*at)));
        }
    }

    /// The lines of a file that are shown: those with code, and all between and some around whose text is known.
    fn shown_lines(&self, file: StringId, with_code: &BTreeMap<u32, usize>) -> BTreeSet<u32> {
        let mut shown: BTreeSet<u32> = with_code.keys().copied().collect();
        let has_text = |line: &u32| self.text(file, *line).is_some();
        let numbers: Vec<u32> = with_code.keys().copied().filter(|line| *line > 0).collect();
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return shown };
        let around = |from: u32, to: u32| from.saturating_sub(CONTEXT).max(1)..=to.saturating_add(CONTEXT);
        if last - first <= MOST_LINES {
            shown.extend(around(first, last).filter(has_text));
        } else {
            shown.extend(numbers.iter().flat_map(|line| around(*line, *line)).filter(has_text));
        }
        shown
    }

    /// The line that a row is in, if it has code.
    pub(crate) fn line_of(&self, row: SheetRow) -> Option<&AnnotatedLine> {
        let at = match row {
            SheetRow::Line { at, .. } => at?,
            SheetRow::Inlined { line, .. } => line,
            SheetRow::Instruction(at) => self.annotation.instructions[at].line,
            SheetRow::File(_) | SheetRow::Gap => return None,
        };
        self.annotation.lines.get(at)
    }

    /// Cost of what ends in a row, and of what is there with all that the row calls.
    pub(crate) fn cost(&self, row: SheetRow) -> (Amount, Amount) {
        match row {
            // What is inlined there counts for the line, as its instructions below it do.
            SheetRow::Line { at: Some(at), .. } => {
                let line = &self.annotation.lines[at];
                let mut own = line.own;
                own.add(line.inlined);
                (own, line.total)
            }
            SheetRow::Inlined { line, group } => {
                let own = self.annotation.lines[line].groups[group].own;
                (own, own)
            }
            SheetRow::Instruction(at) => {
                let instruction = &self.annotation.instructions[at];
                (instruction.own, instruction.total)
            }
            SheetRow::Line { at: None, .. } | SheetRow::File(_) | SheetRow::Gap => Default::default(),
        }
    }

    /// The row in which most is spent: by what ends there, else with what it calls.
    pub(crate) fn hottest(&self, rows: &[SheetRow]) -> usize {
        let lines = rows.iter().enumerate().filter(|(_, row)| matches!(row, SheetRow::Line { .. }));
        let weight = |row: &SheetRow| {
            let (own, total) = self.cost(*row);
            (own.weight, total.weight)
        };
        // Of equal ones the first.
        lines.rev().max_by_key(|(_, row)| weight(row)).map_or(0, |(at, _)| at)
    }
}

/// The samples that pass `options`, by address.
///
/// # Errors
///
/// As for a selection.
pub(super) fn by_address<'r>(
    recording: &'r Analysis,
    options: &CommonOptions,
) -> Result<Selection<'r>, Failure> {
    let by_address = CommonOptions { grouping: Grouping::Address, ..options.clone() };
    Selection::new(recording, recording.shown(options.metric)?, &by_address)
}
