//! The lines of a function on both sides of a comparison: what each costs, and how sure its change is.

use crate::base::failure::Failure;
use crate::diff::{Difference, PartSums, compare_parts};
use crate::profile::StringId;
use crate::report::{
    AnnotatedLine, Annotation, AsmSyntax, InnermostCalls, Label, LabelId, LabelKey, Selection, label_of,
    module_file,
};
use crate::tui::compute::boxes::{BoxChange, BoxSide, in_order};
use crate::tui::compute::same_source::{SameFiles, SideFiles};
use crate::tui::compute::sides::SeveralTwins;
use crate::tui::compute::source_sheet::{LinePlace, SourceSheet, by_address};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Changes of the lines of a function, or why they are not known.
#[derive(Debug)]
pub(crate) struct LineChanges {
    /// The function.
    pub(super) key: LabelKey,
    lines: FxHashMap<LinePlace, u32>,
    /// Costs of each line in the base and on the new side.
    costs: Vec<[f64; 2]>,
    /// The changes of lines.
    tested: FxHashMap<u64, Difference>,
    why_not: Option<String>,
}

/// The function on one side.
struct SideLines<'s, 'p> {
    side: BoxSide<'s, 'p>,
    selection: Selection<'s>,
    name: String,
    module: String,
}

impl LineChanges {
    /// The lines of the function of `sheet`, which is that of the first of two sides: the base if `shown` is 0. `twin` finds the
    /// function on the other. Where the other side has another build of the module, lines are compared if their file has the
    /// same text: otherwise they are other lines.
    ///
    /// # Errors
    ///
    /// As for a selection; when the sides have different events.
    pub(super) fn new(
        sheet: &SourceSheet,
        here: BoxSide<'_, '_>,
        there: BoxSide<'_, '_>,
        twin: impl Fn(&Label) -> Result<Option<LabelId>, SeveralTwins>,
        shown: usize,
    ) -> Result<Self, Failure> {
        let mut changes = LineChanges {
            key: sheet.key.clone(),
            lines: FxHashMap::default(),
            costs: Vec::new(),
            tested: FxHashMap::default(),
            why_not: None,
        };
        let (selection, other) = (here.selection, there.selection);
        let label =
            label_of(selection.profile, &selection.labels, &selection.quality.samples_of_frame, &sheet.key);
        let Some(label) = label.map(|label| selection.labels.get(label)) else { return Ok(changes) };
        let Ok(twin) = twin(label) else {
            changes.why_not = Some(not_compared("the other side has several functions of this name"));
            return Ok(changes);
        };
        let of_here = SideLines::new(here, Some(label))?;
        let of_there = SideLines::new(there, twin.map(|twin| other.labels.get(twin)))?;
        let annotation = of_there.annotation();
        let has_places = |annotation: &Annotation| annotation.lines.iter().any(|line| line.line > 0);
        if !annotation.total.is_empty() && has_places(&annotation) != has_places(&sheet.annotation) {
            changes.why_not = Some(not_compared("only one side knows any"));
            return Ok(changes);
        }
        let files = match files(sheet, label, selection, other, &annotation) {
            Ok(files) => files,
            Err(why) => {
                changes.why_not = Some(not_compared(&why));
                return Ok(changes);
            }
        };
        // Where hardly a sample ends in its code, as those of waits never do, lines are compared by what they call.
        let by_total = only_calls(&sheet.annotation) && only_calls(&annotation);
        let numbers = [
            changes.add(&sheet.annotation, here, by_total, 0, files.as_ref()),
            changes.add(&annotation, there, by_total, 1, files.as_ref()),
        ];
        changes.costs.iter_mut().for_each(|costs| *costs = in_order(shown, *costs));
        let (of_here, of_there) =
            rayon::join(|| of_here.sums(&numbers[0], by_total), || of_there.sums(&numbers[1], by_total));
        changes.tested = compare_parts(in_order(shown, [of_here, of_there]))?;
        Ok(changes)
    }

    /// Adds the lines of one side, of all files or of those that can be compared; returns their numbers.
    fn add(
        &mut self,
        annotation: &Annotation,
        side: BoxSide<'_, '_>,
        by_total: bool,
        at: usize,
        files: Option<&SameFiles>,
    ) -> FxHashMap<(StringId, u32), u32> {
        let tables = &side.selection.profile.tables;
        let number = |line: &AnnotatedLine| {
            let next = self.costs.len() as u32;
            let path = match files {
                Some(files) => files.place(at, line.file)?,
                None => tables.string(line.file),
            };
            let place = (path.to_owned(), line.line);
            let number = *self.lines.entry(place).or_insert(next);
            if number == next {
                self.costs.push([0.0; 2]);
            }
            let in_code = line.own.weight.saturating_add(line.inlined.weight);
            let weight = if by_total { line.total.weight } else { in_code };
            self.costs[number as usize][at] += weight as f64 / side.divisor;
            Some(((line.file, line.line), number))
        };
        annotation.lines.iter().filter_map(number).collect()
    }

    /// Returns the change of a line; `None` where neither side has samples in it.
    pub(crate) fn of(&self, place: &LinePlace) -> Option<BoxChange<'_>> {
        let number = self.lines.get(place)?;
        let costs = self.costs[*number as usize];
        (costs != [0.0; 2]).then(|| BoxChange { costs, tested: self.tested.get(&u64::from(*number)) })
    }

    /// Why the lines are not compared, if they are not. Foreign text.
    pub(super) fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }
}

impl<'s, 'p> SideLines<'s, 'p> {
    /// The function with this label, if it is there.
    fn new(side: BoxSide<'s, 'p>, label: Option<&Label>) -> Result<Self, Failure> {
        let (name, module) =
            label.map(|label| (label.name.clone(), label.module.clone())).unwrap_or_default();
        Ok(SideLines { side, selection: by_address(side.side.recording, side.side.common)?, name, module })
    }

    fn annotation(&self) -> Annotation {
        let inline = self.side.side.common.inline;
        Annotation::new(&self.selection, &self.name, &self.module, inline, AsmSyntax::default())
    }

    /// Sums up the cost of each of the lines.
    fn sums(&self, numbers: &FxHashMap<(StringId, u32), u32>, by_total: bool) -> PartSums {
        let calls = InnermostCalls::new(&self.selection, &self.name, &self.module);
        PartSums::of(self.side.side, &self.selection, false, |path, _, found| {
            let line = if by_total { calls.line_of(path) } else { calls.line_of_end(path) };
            found.extend(line.and_then(|line| numbers.get(&line)).map(|number| u64::from(*number)));
        })
    }
}

/// Share of a function's samples below which what ends in its code is nothing to compare lines by.
const LEAST_IN_CODE: f64 = 0.01;

fn only_calls(annotation: &Annotation) -> bool {
    (annotation.in_code().weight as f64) < LEAST_IN_CODE * annotation.total.weight as f64
        || annotation.total.is_empty()
}

fn not_compared(why: &str) -> String {
    format!("lines of source are not compared: {why}")
}

/// The files whose lines can be compared, where not all can: if the module may be of two builds. Else why none is.
fn files(
    sheet: &SourceSheet,
    label: &Label,
    selection: &Selection<'_>,
    other: &Selection<'_>,
    annotation: &Annotation,
) -> Result<Option<SameFiles>, String> {
    let Some(why) = builds_differ(selection, other, label).filter(|_| !annotation.total.is_empty()) else {
        return Ok(None);
    };
    let here = SideFiles::new(selection.profile, &sheet.annotation, sheet);
    let there = SideFiles::new(other.profile, annotation, sheet);
    SameFiles::new(&here, &there).map(Some).map_err(|text| format!("{why}, and {text}"))
}

/// Why the code of a function may not be the same on both sides, from the builds of its module. Foreign text.
fn builds_differ(selection: &Selection<'_>, other: &Selection<'_>, label: &Label) -> Option<String> {
    if std::ptr::eq(selection.profile, other.profile) {
        return None;
    }
    let file = module_file(&label.module);
    let builds = [selection.profile, other.profile].map(|profile| {
        let tables = &profile.tables;
        let is_it = |path: StringId| module_file(tables.string(path)) == file;
        let of_file =
            tables.modules().iter().filter(|module| is_it(module.path) && !module.build_id.is_empty());
        of_file.map(|module| module.build_id.clone()).collect::<BTreeSet<_>>()
    });
    match builds {
        [here, there] if here.is_empty() || there.is_empty() => {
            Some(format!("whether both sides have one build of {file} is not known"))
        }
        [here, there] if here != there => Some(format!("the sides have different builds of {file}")),
        _ => None,
    }
}
