//! The distinct stacks of a selection by their text, as a tree: common frames are stored once, however deep and however
//! many stacks share them. Lines are generated one by one as they are written.

use crate::base::safe_text;
use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Step};
use crate::report::naming::style::NameStyle;
use crate::report::naming::thread_class::ThreadClasses;
use crate::report::options::ThreadSplit;
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;

/// Index of a text of a [`TextTree`].
type TextId = u32;

/// Index of a node of a [`TextTree`]; node 0 is the root, which has no text.
type TextNodeId = u32;

/// A frame below its callers.
#[derive(Debug)]
struct TextTreeNode {
    text: TextId,
    /// Number of frames from the thread to this one, both included; 0 for the root.
    depth: u32,
    /// Amount of the stacks that end here.
    own: Amount,
    /// Children, sorted by text.
    children: Vec<TextNodeId>,
}

/// The distinct stacks: `comm;root;…;leaf`, `comm (tid 7)` where threads are not merged, `root;…;leaf` where all are.
#[derive(Debug)]
pub(super) struct TextTree {
    texts: Vec<String>,
    nodes: Vec<TextTreeNode>,
    /// Boxes of a stack that are threads, not frames: none where all threads are merged.
    threads: u32,
}

/// Order of the frames of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackOrder {
    /// The thread, its root frame, and down to the leaf.
    RootFirst,
    /// The leaf, its caller, and so on up to the thread.
    LeafFirst,
}

/// Order of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Sorted by bytes.
    Bytes,
    /// Frame by frame: stacks that share a caller are adjacent, and a stack comes before its extensions.
    Frames,
}

/// A pending step of the traversal.
enum Visit {
    /// Emit the stack that ends here.
    Stack(TextNodeId),
    /// Descend to the stacks that continue from here.
    Below(TextNodeId),
    /// Truncate the text to this length, bytes.
    Back(usize),
}

/// The text in front of the stacks of each task, by task id; empty where all threads are merged.
pub(super) fn thread_texts(selection: &Selection<'_>) -> Vec<String> {
    thread_names(selection).iter().map(|name| safe_text::folded(name)).collect()
}

/// The same, as foreign text.
pub(super) fn thread_names(selection: &Selection<'_>) -> Vec<String> {
    let split = selection.thread_split().unwrap_or(ThreadSplit::Name);
    let tables = &selection.profile.tables;
    ThreadClasses::of(tables, split).names_of_tasks(tables)
}

impl TextTree {
    /// The tree of `selection`, with names in the style of `names`.
    pub(super) fn new(selection: &Selection<'_>, names: NameStyle, order: StackOrder) -> Self {
        let mut builder = Builder {
            selection,
            names,
            ids: FxHashMap::default(),
            of_label: vec![[TextId::MAX; KINDS]; selection.labels.iter().count()],
            children: FxHashMap::default(),
            last: Vec::new(),
            tree: TextTree { texts: Vec::new(), nodes: Vec::new(), threads: 0 },
        };
        let root = builder.text(String::new());
        builder.tree.nodes.push(TextTreeNode {
            text: root,
            depth: 0,
            own: Amount::default(),
            children: Vec::new(),
        });
        let names = thread_texts(selection);
        let has_threads = !names.is_empty();
        builder.tree.threads = has_threads.into();
        let threads: Vec<TextId> = names.into_iter().map(|name| builder.text(name)).collect();
        let mut path = Vec::new();
        selection.for_each_path(|steps, groups| {
            path.clear();
            path.extend(has_threads.then_some(root));
            path.extend(steps.iter().map(|step| builder.text_of(step)));
            let mut thread = 0;
            if order == StackOrder::LeafFirst {
                path.reverse();
                thread = path.len().saturating_sub(1);
            }
            for group in groups {
                if has_threads {
                    path[thread] = threads[group.task.index()];
                }
                builder.add(&path, group.amount);
            }
        });
        builder.finish()
    }

    /// Removes boxes with less than `least` of the weight; their weight is added to their callers.
    pub(super) fn without_less_than(&mut self, least: f64, count: bool) {
        let totals = self.totals();
        self.cut(|id, _| (value(totals[id as usize], count) as f64) < least);
    }

    /// The total of the largest box after the `most` largest ones; `None` if there are no more boxes than that. Several
    /// boxes may have the same total.
    pub(super) fn least_of_largest(&self, most: usize, count: bool) -> Option<u64> {
        let mut totals: Vec<u64> =
            self.totals().into_iter().map(|total| value(total, count)).filter(|&n| n > 0).collect();
        totals.sort_unstable_by(|a, b| b.cmp(a));
        totals.get(most).copied()
    }

    /// Removes frames deeper than `depth`, not counting the thread; their weight is added to their callers.
    pub(super) fn without_deeper_than(&mut self, depth: u32) {
        let most = depth + self.threads;
        self.cut(|_, node| node.depth > most);
    }

    /// Most frames of a stack, not counting the thread.
    pub(super) fn depth(&self) -> u32 {
        self.nodes.iter().map(|node| node.depth.saturating_sub(self.threads)).max().unwrap_or(0)
    }

    /// Number of boxes if no stack had more than `depth` frames.
    pub(super) fn boxes_within(&self, depth: u32) -> usize {
        self.nodes.iter().filter(|node| node.depth > 0 && node.depth <= depth + self.threads).count()
    }

    /// Size of all lines if no stack had more than `depth` frames, bytes.
    pub(super) fn bytes_within(&self, depth: u32) -> u64 {
        let mut lengths = vec![0u64; self.nodes.len()];
        let mut sum = 0u64;
        // Callers come before callees.
        for (id, node) in self.nodes.iter().enumerate() {
            for &child in &node.children {
                let text = &self.texts[self.nodes[child as usize].text as usize];
                lengths[child as usize] = lengths[id] + text.len() as u64 + 1;
            }
            let is_end = node.own != Amount::default() || node.depth == depth + self.threads;
            if is_end && node.depth <= depth + self.threads {
                sum = sum.saturating_add(lengths[id]);
            }
        }
        sum
    }

    /// Removes the boxes for which `is_cut` is true and everything below them; their weight is added to their callers.
    fn cut(&mut self, is_cut: impl Fn(TextNodeId, &TextTreeNode) -> bool) {
        let totals = self.totals();
        for id in 0..self.nodes.len() {
            let children = std::mem::take(&mut self.nodes[id].children);
            let (cut, kept): (Vec<TextNodeId>, Vec<TextNodeId>) =
                children.into_iter().partition(|&child| is_cut(child, &self.nodes[child as usize]));
            for &child in &cut {
                self.nodes[id].own.add(totals[child as usize]);
            }
            self.empty(cut);
            self.nodes[id].children = kept;
        }
    }

    /// Clears boxes that were cut, and everything below them.
    fn empty(&mut self, mut pending: Vec<TextNodeId>) {
        while let Some(id) = pending.pop() {
            let node = &mut self.nodes[id as usize];
            (node.own, node.depth) = (Amount::default(), 0);
            pending.append(&mut node.children);
        }
    }

    /// Total of each box: what ends in the box or below it.
    fn totals(&self) -> Vec<Amount> {
        let mut totals: Vec<Amount> = self.nodes.iter().map(|node| node.own).collect();
        for (id, node) in self.nodes.iter().enumerate().rev() {
            for &child in &node.children {
                let below = totals[child as usize];
                totals[id].add(below);
            }
        }
        totals
    }

    /// Calls `line` with the text and the value of each stack: its weight, or the number of samples and waits with
    /// `count`. Stacks whose value is 0 are left out.
    ///
    /// # Errors
    ///
    /// Stops at the first error of `line` and returns it.
    pub(super) fn lines<E>(
        &self,
        order: Order,
        count: bool,
        mut line: impl FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut text = String::new();
        let mut pending = vec![Visit::Below(0)];
        while let Some(visit) = pending.pop() {
            match visit {
                Visit::Back(length) => text.truncate(length),
                Visit::Stack(id) => {
                    let length = text.len();
                    self.append(&mut text, id);
                    line(&text, value(self.nodes[id as usize].own, count))?;
                    text.truncate(length);
                }
                Visit::Below(id) => {
                    pending.push(Visit::Back(text.len()));
                    self.append(&mut text, id);
                    let at = pending.len();
                    self.push_children(&mut pending, id, order, count);
                    pending[at..].reverse();
                }
            }
        }
        Ok(())
    }

    /// Pushes the steps below a box, in order.
    fn push_children(&self, pending: &mut Vec<Visit>, id: TextNodeId, order: Order, count: bool) {
        let mut visits = Vec::new();
        for &child in &self.nodes[id as usize].children {
            let node = &self.nodes[child as usize];
            let own = value(node.own, count);
            if own > 0 {
                visits.push((own, Visit::Stack(child)));
            }
            if !node.children.is_empty() {
                visits.push((own, Visit::Below(child)));
            }
        }
        if order == Order::Bytes {
            // Compares what follows the callers in a line; for stacks that continue, the part they all share.
            visits.sort_by_cached_key(|(own, visit)| match visit {
                Visit::Stack(id) => format!("{} {own}", self.text(*id)),
                Visit::Below(id) => format!("{};", self.text(*id)),
                Visit::Back(_) => String::new(),
            });
        }
        pending.extend(visits.into_iter().map(|(_, visit)| visit));
    }

    fn append(&self, text: &mut String, id: TextNodeId) {
        if !text.is_empty() {
            text.push(';');
        }
        text.push_str(self.text(id));
    }

    fn text(&self, id: TextNodeId) -> &str {
        &self.texts[self.nodes[id as usize].text as usize]
    }
}

fn value(amount: Amount, count: bool) -> u64 {
    if count { amount.count() } else { amount.weight }
}

/// Number of kinds of steps with different marks.
const KINDS: usize = 3;

/// The mark of each kind in folded lines.
pub(super) const SUFFIXES: [&str; KINDS] = ["", "_[i]", "_[k]"];

/// Index in [`SUFFIXES`] of the mark of a step.
pub(super) fn kind_of(step: &Step) -> usize {
    match step {
        Step { is_kernel: true, .. } => 2,
        Step { is_inlined: true, .. } => 1,
        _ => 0,
    }
}

/// Builds a tree from stacks.
struct Builder<'s, 'p> {
    selection: &'s Selection<'p>,
    names: NameStyle,
    ids: FxHashMap<String, TextId>,
    of_label: Vec<[TextId; KINDS]>,
    children: FxHashMap<(TextNodeId, TextId), TextNodeId>,
    /// The stack that was added last, with its nodes: consecutive stacks share their first frames.
    last: Vec<(TextId, TextNodeId)>,
    tree: TextTree,
}

impl Builder<'_, '_> {
    fn text(&mut self, text: String) -> TextId {
        let next = self.tree.texts.len() as TextId;
        *self.ids.entry(text).or_insert_with_key(|text| {
            self.tree.texts.push(text.clone());
            next
        })
    }

    fn text_of(&mut self, step: &Step) -> TextId {
        let (label, kind) = (step.label.index(), kind_of(step));
        if self.of_label[label][kind] == TextId::MAX {
            let name = step_text(self.selection, step.label, self.names);
            self.of_label[label][kind] = self.text(format!("{name}{}", SUFFIXES[kind]));
        }
        self.of_label[label][kind]
    }

    fn add(&mut self, path: &[TextId], amount: Amount) {
        let shared = self.last.iter().zip(path).take_while(|((text, _), other)| text == *other).count();
        self.last.truncate(shared);
        let mut at = self.last.last().map_or(0, |(_, node)| *node);
        for &text in &path[shared..] {
            let next = self.tree.nodes.len() as TextNodeId;
            let id = *self.children.entry((at, text)).or_insert(next);
            if id == next {
                let depth = self.tree.nodes[at as usize].depth + 1;
                self.tree.nodes.push(TextTreeNode {
                    text,
                    depth,
                    own: Amount::default(),
                    children: Vec::new(),
                });
                self.tree.nodes[at as usize].children.push(id);
            }
            self.last.push((text, id));
            at = id;
        }
        self.tree.nodes[at as usize].own.add(amount);
    }

    fn finish(self) -> TextTree {
        let mut tree = self.tree;
        for id in 0..tree.nodes.len() {
            let mut children = std::mem::take(&mut tree.nodes[id].children);
            children.sort_unstable_by(|a, b| tree.text(*a).cmp(tree.text(*b)));
            tree.nodes[id].children = children;
        }
        tree
    }
}

/// Name of a step in folded lines.
pub(super) fn step_text(selection: &Selection<'_>, label: LabelId, names: NameStyle) -> String {
    safe_text::folded(&selection.labels.get(label).text(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CommonOptions;
    use crate::report::tests::fixture::Build;
    use std::convert::Infallible;

    fn tree(stacks: &[(u64, &[&str])]) -> TextTree {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        stacks.iter().for_each(|(samples, stack)| build.add(task, *samples, stack));
        let recording = build.finish();
        TextTree::new(
            &recording.select(&CommonOptions::default()).unwrap(),
            NameStyle::Full,
            StackOrder::RootFirst,
        )
    }

    fn lines(tree: &TextTree, order: Order) -> Vec<String> {
        let mut lines = Vec::new();
        let Ok(()) = tree.lines(order, true, |text, value| -> Result<(), Infallible> {
            lines.push(format!("{text} {value}"));
            Ok(())
        });
        lines
    }

    #[test]
    fn lines_are_sorted_by_their_bytes_or_frame_by_frame() {
        let tree = tree(&[
            (5, &["/x:f", "/x:g"]),
            (7, &["/x:f"]),
            (2, &["/x:f (x)"]),
            (3, &["/x:f (x)", "/x:a"]),
            (1, &["/x:f 12x", "/x:b"]),
            (4, &["/x:f!"]),
        ]);
        let by_frames =
            ["t;f 7", "t;f;g 5", "t;f (x) 2", "t;f (x);a 3", "t;f 12x;b 1", "t;f! 4"].map(str::to_owned);
        assert_eq!(lines(&tree, Order::Frames), by_frames);
        let mut sorted = by_frames.to_vec();
        sorted.sort_unstable();
        assert_eq!(lines(&tree, Order::Bytes), sorted);
    }

    #[test]
    fn stacks_start_at_the_leaf_where_that_is_asked_for() {
        let mut build = Build::new();
        let [one, two] = [1, 2].map(|tid| build.task(1, tid, &format!("t{tid}"), "t"));
        build.add(one, 5, &["/x:main", "/x:a", "/x:f"]);
        build.add(two, 2, &["/x:main", "/x:b", "/x:f"]);
        build.add(two, 1, &["/x:main", "/x:b"]);
        let recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let tree = TextTree::new(&selection, NameStyle::Full, StackOrder::LeafFirst);
        assert_eq!(lines(&tree, Order::Frames), ["b;main;t2 1", "f;a;main;t1 5", "f;b;main;t2 2"]);
        assert_eq!(tree.depth(), 3);
    }

    #[test]
    fn what_is_cut_ends_in_its_caller() {
        let stacks: [(u64, &[&str]); 3] =
            [(90, &["/x:a", "/x:b"]), (1, &["/x:a", "/x:b", "/x:c", "/x:d"]), (9, &["/x:a", "/x:e", "/x:f"])];
        let mut narrow = tree(&stacks);
        narrow.without_less_than(2.0, true);
        assert_eq!(lines(&narrow, Order::Frames), ["t;a;b 91", "t;a;e;f 9"]);
        assert_eq!(narrow.depth(), 3);
        let mut deep = tree(&stacks);
        assert_eq!((deep.depth(), deep.bytes_within(4)), (4, 6 + 10 + 8));
        assert_eq!(deep.bytes_within(1), 4);
        deep.without_deeper_than(1);
        assert_eq!((lines(&deep, Order::Frames), deep.bytes_within(4)), (vec!["t;a 100".to_owned()], 4));
    }

    #[test]
    fn frames_are_counted_without_threads_too() {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 1, &["/x:a", "/x:b", "/x:c", "/x:d"]);
        let recording = build.finish();
        for threads in [ThreadSplit::None, ThreadSplit::Each] {
            let common = CommonOptions { threads: Some(threads), ..CommonOptions::default() };
            let selection = recording.select(&common).unwrap();
            let mut tree = TextTree::new(&selection, NameStyle::Full, StackOrder::RootFirst);
            assert_eq!((tree.depth(), tree.boxes_within(4) - tree.boxes_within(3)), (4, 1), "{threads:?}");
            tree.without_deeper_than(2);
            assert_eq!(tree.depth(), 2, "{threads:?}: {:?}", lines(&tree, Order::Frames));
        }
    }

    #[test]
    fn deep_stacks_take_as_much_memory_as_they_have_frames() {
        let names: Vec<String> = (0..4_000).map(|number| format!("/x:function_{number}")).collect();
        let stack: Vec<&str> = names.iter().map(String::as_str).collect();
        let stacks: Vec<(u64, &[&str])> = (1..=stack.len()).map(|depth| (1, &stack[..depth])).collect();
        let tree = tree(&stacks);
        assert_eq!(tree.nodes.len(), 4_002);
        assert!(tree.bytes_within(4_000) > 100_000_000, "{} B", tree.bytes_within(4_000));
    }
}
