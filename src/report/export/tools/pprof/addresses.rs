//! Assigns an address range to each module: a recording has module-relative addresses only, and pprof needs disjoint
//! ranges.

use crate::profile::{FrameId, ModuleId, ModuleKind};
use crate::report::model::amount::Amount;
use crate::report::naming::name::module_file;
use crate::report::query::selection::Selection;
use std::collections::BTreeMap;

/// Alignment of the ranges.
const STEP: u64 = 1 << 20;

/// Length at which the kernel cuts process names, bytes.
const COMM_BYTES: usize = 15;

/// A module and its address range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacedModule {
    /// Module id.
    pub(super) module: ModuleId,
    /// Start address; 0 if there is no room for the module.
    pub(super) start: u64,
    /// End address.
    pub(super) limit: u64,
}

/// Samples and largest address in a module.
#[derive(Debug, Clone, Copy, Default)]
struct InModule {
    amount: Amount,
    last_address: u64,
}

/// The modules of all frames of a selection, the main program first.
pub(super) fn place(selection: &Selection<'_>) -> Vec<PlacedModule> {
    let tables = &selection.profile.tables;
    let mut known: BTreeMap<ModuleId, InModule> = BTreeMap::new();
    let mut is_seen = vec![false; tables.frames().len()];
    let mut last: Option<ModuleId> = None;
    selection.for_each_path(|path, groups| {
        last = None;
        for frame in path.iter().filter_map(|step| step.frame) {
            let row = tables.frame(frame);
            if !std::mem::replace(&mut is_seen[frame.index()], true) {
                let module = known.entry(row.module).or_default();
                module.last_address = module.last_address.max(row.lookup_address());
            }
            // Adjacent frames are mostly of one module, so a stack usually counts once.
            if last.replace(row.module) != Some(row.module)
                && let Some(module) = known.get_mut(&row.module)
            {
                module.amount.add(groups.amount);
            }
        }
    });
    let mut modules: Vec<(ModuleId, InModule)> = known.into_iter().collect();
    if let Some(main) = main_program(selection, &modules) {
        modules[..=main].rotate_right(1);
    }
    let mut next = STEP;
    (modules.into_iter())
        .map(|(module, known)| {
            // A module with addresses that cannot be real gets no range, rather than one that overlaps another
            // module's.
            let end = next.checked_add(known.last_address).and_then(|last| last.checked_add(STEP));
            let Some(limit) = end.map(|end| end / STEP * STEP).filter(|limit| *limit < i64::MAX as u64)
            else {
                return PlacedModule { module, start: 0, limit: 0 };
            };
            let start = std::mem::replace(&mut next, limit);
            PlacedModule { module, start, limit }
        })
        .collect()
}

/// Index of the module of the recorded program: the one named like the target, or with that prefix (`python3.11`), then
/// the one named like a process, then the one with the most samples.
fn main_program(selection: &Selection<'_>, modules: &[(ModuleId, InModule)]) -> Option<usize> {
    let profile = selection.profile;
    let tables = &profile.tables;
    let wanted = profile.meta.target_name.as_str();
    let score = |&(id, known): &(ModuleId, InModule)| {
        let module = tables.module(id);
        let file = module_file(tables.string(module.path));
        if module.kind != ModuleKind::Elf || file.contains(".so") {
            return None;
        }
        let end = (0..=COMM_BYTES.min(file.len())).rev().find(|&end| file.is_char_boundary(end)).unwrap_or(0);
        let is_called_so = |name: &str| !name.is_empty() && (file == name || file[..end] == *name);
        let is_process = tables.tasks().iter().any(|task| is_called_so(tables.string(task.process)));
        let begins_so = !wanted.is_empty() && file.starts_with(wanted);
        Some((is_called_so(wanted), begins_so, is_process, known.amount.weight))
    };
    let scored = modules.iter().enumerate().filter_map(|(at, module)| score(module).map(|score| (score, at)));
    // Among equals the first.
    scored.max_by_key(|(score, at)| (*score, std::cmp::Reverse(*at))).map(|(_, at)| at)
}

/// The assigned address of a frame.
pub(super) fn address_of(selection: &Selection<'_>, place: PlacedModule, frame: FrameId) -> u64 {
    let address = selection.profile.tables.frame(frame).lookup_address();
    if place.start == 0 { 0 } else { place.start + address }
}
