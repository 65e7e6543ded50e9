//! The lines of a function on both sides of a comparison: what ends in each, and how sure its change is.

use crate::base::failure::Failure;
use crate::diff::{Difference, PairSide, PartSums, RowLabel, compare_parts};
use crate::profile::StringId;
use crate::report::{InnermostCalls, Label, Selection, label_of, module_file};
use crate::tui::compute::boxes::{BoxChange, BoxSide, in_order};
use crate::tui::compute::source_sheet::{LinePlace, SourceSheet, by_address};
use rustc_hash::FxHashMap;

/// How the lines of a function have changed.
#[derive(Debug)]
pub(crate) struct LineChanges {
    lines: FxHashMap<LinePlace, u32>,
    /// What ends in each line in the base and on the new side.
    costs: Vec<[f64; 2]>,
    /// The changes of lines that are large enough to be tested.
    tested: FxHashMap<u32, Difference>,
}

/// The function on one side: its name and module, and number of each of its lines.
struct SideLines {
    name: String,
    module: String,
    numbers: FxHashMap<(StringId, u32), u32>,
}

impl LineChanges {
    /// The lines of the function of `sheet`, which is that of the first of two sides: the base if `shown` is 0. `None` when the
    /// other side has another build of the function's module, in which lines are others.
    ///
    /// # Errors
    ///
    /// As for a selection; when the sides have different events.
    pub(super) fn new(
        sheet: &SourceSheet,
        here: BoxSide<'_, '_>,
        there: BoxSide<'_, '_>,
        shown: usize,
    ) -> Result<Option<Self>, Failure> {
        let (selection, other) = (here.selection, there.selection);
        let label =
            label_of(selection.profile, &selection.labels, &selection.quality.samples_of_frame, &sheet.key);
        let Some(label) = label.map(|label| selection.labels.get(label)) else { return Ok(None) };
        let is_same_recording = std::ptr::eq(selection.profile, other.profile);
        if !is_same_recording && !has_same_build(selection, other, &label.module) {
            return Ok(None);
        }
        let key = RowLabel::of(label).key;
        let label_there =
            other.labels.iter().find(|label| label.kind.is_code() && RowLabel::of(label).key == key);
        let PairSide { recording, common, .. } = there.side;
        let sheet_there = match label_there {
            Some(label) => SourceSheet::new(recording, other, common, &label.key(), &[])?,
            None => None,
        };
        let mut changes =
            LineChanges { lines: FxHashMap::default(), costs: Vec::new(), tested: FxHashMap::default() };
        let of_here = changes.add(Some(sheet), Some(label), here, 0);
        let of_there = changes.add(sheet_there.as_ref(), label_there, there, 1);
        changes.costs.iter_mut().for_each(|costs| *costs = in_order(shown, *costs));
        let sums = [sums(here.side, &of_here)?, sums(there.side, &of_there)?];
        changes.tested = compare_parts(in_order(shown, sums))?;
        Ok(Some(changes))
    }

    /// Adds the lines of the function on one side, if it is there.
    fn add(
        &mut self,
        sheet: Option<&SourceSheet>,
        label: Option<&Label>,
        side: BoxSide<'_, '_>,
        at: usize,
    ) -> SideLines {
        let tables = &side.selection.profile.tables;
        let mut numbers = FxHashMap::default();
        for line in sheet.into_iter().flat_map(|sheet| &sheet.annotation.lines) {
            let next = self.costs.len() as u32;
            let place = (tables.string(line.file).to_owned(), line.line);
            let number = *self.lines.entry(place).or_insert(next);
            if number == next {
                self.costs.push([0.0; 2]);
            }
            let weight = line.own.weight.saturating_add(line.inlined.weight);
            self.costs[number as usize][at] += weight as f64 / side.divisor;
            numbers.insert((line.file, line.line), number);
        }
        let (name, module) =
            label.map(|label| (label.name.clone(), label.module.clone())).unwrap_or_default();
        SideLines { name, module, numbers }
    }

    /// How a line has changed; `None` where neither side has samples in it.
    pub(crate) fn of(&self, place: &LinePlace) -> Option<BoxChange<'_>> {
        let number = self.lines.get(place)?;
        let costs = self.costs[*number as usize];
        (costs != [0.0; 2]).then(|| BoxChange { costs, tested: self.tested.get(number) })
    }
}

/// What each of the lines of a function costs on its side.
fn sums(side: PairSide<'_>, lines: &SideLines) -> Result<PartSums, Failure> {
    let selection = by_address(side.recording, side.common)?;
    let calls = InnermostCalls::new(&selection, &lines.name, &lines.module);
    Ok(PartSums::of(side, &selection, |path, _, found| {
        found.extend(calls.line_of_end(path).and_then(|line| lines.numbers.get(&line)));
    }))
}

/// Whether both recordings have this module with one build ID.
fn has_same_build(a: &Selection<'_>, b: &Selection<'_>, module: &str) -> bool {
    let file = module_file(module);
    let builds = [a.profile, b.profile].map(|profile| {
        let tables = &profile.tables;
        let of_file = tables
            .modules()
            .iter()
            .filter(|module| module_file(tables.string(module.path)) == file && !module.build_id.is_empty());
        of_file.map(|module| module.build_id.clone()).collect::<Vec<_>>()
    });
    !builds[0].is_empty() && builds[0].iter().all(|id| builds[1].contains(id))
}
