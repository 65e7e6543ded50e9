//! One function (the pivot) in the middle: everything that leads to it above, everything it leads to below.
//!
//! All occurrences of the function are merged. A sample counts once, however often the function is on its stack: above
//! are the callers of the outermost call, below is what the innermost call led to. So the callers, the callees plus the
//! function's self weight, and the function's total all have the same sum.

use super::call_tree::{CallTree, TreeBuilder};
use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Step};
use crate::report::query::selection::Selection;

/// The callers and callees of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sandwich {
    /// The function.
    pub(crate) label: LabelId,
    /// Amount of samples that end in it.
    pub(crate) own: Amount,
    /// Amount of samples with it on their stack.
    pub(crate) total: Amount,
    /// The part of `total` with the function on the stack more than once.
    pub(crate) recursive: Amount,
    /// Number of distinct paths from the outermost frame to it.
    pub(crate) paths: usize,
    /// Tree with the function as its only root; callers are below their callees.
    pub(crate) callers: CallTree,
    /// Tree with the function as its only root; callees are below their callers.
    pub(crate) callees: CallTree,
}

impl Sandwich {
    /// The sandwich of `label`, which must be from the selection; `None` if no sample has it on its stack.
    pub(crate) fn new(selection: &Selection<'_>, label: LabelId) -> Option<Self> {
        let (mut callers, mut callees) = (TreeBuilder::default(), TreeBuilder::default());
        let (mut own, mut total, mut recursive) = <(Amount, Amount, Amount)>::default();
        selection.for_each_path(|path, groups| {
            let Some([outermost, innermost]) = Self::calls_of(path, label) else { return };
            let amount = groups.amount;
            total.add(amount);
            if innermost + 1 == path.len() {
                own.add(amount);
            }
            if innermost > outermost {
                recursive.add(amount);
            }
            // The same function, inlined or not.
            let pivot = Step { is_inlined: false, ..path[outermost] };
            callers.add(std::iter::once(pivot).chain(path[..outermost].iter().rev().copied()), amount);
            callees.add(std::iter::once(pivot).chain(path[innermost + 1..].iter().copied()), amount);
        });
        if total.is_empty() {
            return None;
        }
        let callers = callers.finish(&selection.labels);
        let callees = callees.finish(&selection.labels);
        let paths = callers.ends().iter().filter(|(_, own)| !own.is_empty()).count();
        Some(Sandwich { label, own, total, recursive, paths, callers, callees })
    }

    /// The outermost and the innermost call of a function on a path: above the first are its callers, below the second its
    /// callees. `None` where it is not on the path.
    pub(crate) fn calls_of(path: &[Step], label: LabelId) -> Option<[usize; 2]> {
        let is_pivot = |step: &Step| step.label == label;
        let outermost = path.iter().position(is_pivot)?;
        Some([outermost, path.iter().rposition(is_pivot).unwrap_or(outermost)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::{Build, ingest};
    use crate::report::{CallTree, CommonOptions, FunctionTable, NodeId, SortKey, peek};

    fn names<'s>(selection: &'s Selection<'_>, tree: &CallTree, ids: &[NodeId]) -> Vec<(&'s str, u64)> {
        let name = |id: &NodeId| &*selection.labels.get(tree.node(*id).label).name;
        ids.iter().map(|id| (name(id), tree.node(*id).total.samples)).collect()
    }

    fn label(selection: &Selection<'_>, name: &str) -> LabelId {
        let found = selection.labels.ids().find(|id| selection.labels.get(*id).name == name);
        found.expect("a label of that name")
    }

    #[test]
    fn callers_are_above_and_callees_below() {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 3, &["/x:main", "/x:batch", "/x:parse", "/x:string"]);
        build.add(task, 2, &["/x:main", "/x:batch", "/x:check", "/x:parse", "/x:number"]);
        build.add(task, 1, &["/x:main", "/x:reload", "/x:parse"]);
        let recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let sandwich = Sandwich::new(&selection, label(&selection, "parse")).unwrap();
        let up = &sandwich.callers;
        let above = up.children(up.roots()[0]);
        assert_eq!(names(&selection, up, above), [("batch", 3), ("check", 2), ("reload", 1)]);
        let down = &sandwich.callees;
        let below = down.children(down.roots()[0]);
        assert_eq!(names(&selection, down, below), [("string", 3), ("number", 2)]);
        assert_eq!((sandwich.own.samples, sandwich.total.samples, sandwich.paths), (1, 6, 3));
        assert!(sandwich.recursive.is_empty());
    }

    #[test]
    fn recursion_counts_once() {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 4, &["/x:main", "/x:value", "/x:list", "/x:value", "/x:value", "/x:number"]);
        build.add(task, 1, &["/x:main", "/x:value", "/x:list", "/x:value"]);
        let recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let sandwich = Sandwich::new(&selection, label(&selection, "value")).unwrap();
        assert_eq!((sandwich.own.samples, sandwich.total.samples, sandwich.paths), (1, 5, 1));
        assert_eq!(sandwich.recursive.samples, 5);
        let all = |tree: &CallTree| names(&selection, tree, &tree.walk(|_| true));
        assert_eq!(all(&sandwich.callers), [("value", 5), ("main", 5)]);
        assert_eq!(all(&sandwich.callees), [("value", 5), ("number", 4)]);
    }

    #[test]
    fn numbers_are_those_of_the_table_and_of_peek() {
        let recording = ingest();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        for row in FunctionTable::new(&selection, SortKey::SelfWeight).rows {
            let sandwich = Sandwich::new(&selection, row.label).unwrap();
            assert_eq!((sandwich.own, sandwich.total), (row.own, row.total));
            let name = &selection.labels.get(row.label).name;
            let pattern = regex::Regex::new(&format!("^{}$", regex::escape(name))).unwrap();
            let peeks = peek(&selection, &pattern);
            let peek = peeks.iter().find(|peek| peek.label == row.label).unwrap();
            assert_eq!((sandwich.own, sandwich.total), (peek.own, peek.total));
            if !sandwich.recursive.is_empty() {
                continue;
            }
            let (up, down) = (&sandwich.callers, &sandwich.callees);
            let amounts = |tree: &CallTree| -> Vec<(LabelId, Amount)> {
                let children = tree.children(tree.roots()[0]);
                children.iter().map(|id| (tree.node(*id).label, tree.node(*id).total)).collect()
            };
            let callers: Vec<_> =
                peek.callers.iter().filter_map(|(label, amount)| Some(((*label)?, *amount))).collect();
            assert_eq!(amounts(up), callers);
            assert_eq!(amounts(down), peek.callees);
        }
    }
}
