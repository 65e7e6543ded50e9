//! Callers and callees of selected functions, with all occurrences of a function merged.

use crate::base::units::percent;
use crate::report::model::amount::Amount;
use crate::report::model::label::LabelId;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use regex::Regex;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A function with its direct callers and callees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peek {
    /// The function.
    pub(crate) label: LabelId,
    /// Amount of samples that end in it.
    pub(crate) own: Amount,
    /// Amount of samples with it on their stack.
    pub(crate) total: Amount,
    /// Direct callers, heaviest first; `None` where it is the outermost frame. A sample counts once per distinct caller
    /// on its stack.
    pub(crate) callers: Vec<(Option<LabelId>, Amount)>,
    /// Direct callees, heaviest first, counted in the same way.
    pub(crate) callees: Vec<(LabelId, Amount)>,
}

#[derive(Debug, Default)]
struct Neighbours {
    own: Amount,
    total: Amount,
    callers: FxHashMap<Option<LabelId>, Amount>,
    callees: FxHashMap<LabelId, Amount>,
}

/// The functions that a report with these `options` shows.
pub(crate) fn shown<'p>(found: &'p [Peek], selection: &Selection<'_>, options: &ReportOptions) -> &'p [Peek] {
    let share = |found: &Peek| percent(found.total.weight, selection.total.weight);
    options.limits_for_programs().of(found, share)
}

/// The functions whose names match `pattern`, heaviest total first.
pub(crate) fn peek(selection: &Selection<'_>, pattern: &Regex) -> Vec<Peek> {
    let labels = &selection.labels;
    let is_chosen: Vec<bool> = labels.iter().map(|label| label.matches(pattern)).collect();
    let mut found: FxHashMap<LabelId, Neighbours> = FxHashMap::default();
    let mut chosen = BTreeSet::new();
    let mut callers = BTreeSet::new();
    let mut callees = BTreeSet::new();
    selection.for_each_path(|path, groups| {
        chosen.clear();
        callers.clear();
        callees.clear();
        for (at, step) in path.iter().enumerate().filter(|(_, step)| is_chosen[step.label.index()]) {
            chosen.insert(step.label);
            callers.insert((step.label, at.checked_sub(1).map(|caller| path[caller].label)));
            if let Some(callee) = path.get(at + 1) {
                callees.insert((step.label, callee.label));
            }
        }
        let amount = groups.amount;
        for label in &chosen {
            found.entry(*label).or_default().total.add(amount);
        }
        for (label, caller) in &callers {
            found.entry(*label).or_default().callers.entry(*caller).or_default().add(amount);
        }
        for (label, callee) in &callees {
            found.entry(*label).or_default().callees.entry(*callee).or_default().add(amount);
        }
        if let Some(leaf) = selection.rows_of(path).last().filter(|leaf| is_chosen[leaf.label.index()]) {
            found.entry(leaf.label).or_default().own.add(amount);
        }
    });
    let name = |label: LabelId| (labels.get(label).order_key(), label);
    let mut peeks: Vec<Peek> = (found.into_iter())
        .map(|(label, neighbours)| {
            let mut callers: Vec<_> = neighbours.callers.into_iter().collect();
            callers.sort_by_key(|(caller, amount)| (Reverse(amount.weight), caller.map(name)));
            let mut callees: Vec<_> = neighbours.callees.into_iter().collect();
            callees.sort_by_key(|(callee, amount)| (Reverse(amount.weight), name(*callee)));
            Peek { label, own: neighbours.own, total: neighbours.total, callers, callees }
        })
        .collect();
    peeks.sort_by_key(|peek| (Reverse(peek.total.weight), name(peek.label)));
    peeks
}
