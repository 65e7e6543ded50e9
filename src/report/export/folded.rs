//! Folded stacks: `comm;root;…;leaf WEIGHT`, one line for each distinct stack; `comm (tid 7)` where each thread is for itself.
//!
//! Kernel frames end in `_[k]`, inlined user frames in `_[i]`. The stack of a wait ends in its reason, `[lock]`. The
//! weight is in the event's unit (ns of time), or the number of samples or waits. Lines are sorted by their bytes.

use crate::profile::Task;
use crate::report::amount::Amount;
use crate::report::label::{Step, thread_name};
use crate::report::options::NameStyle;
use crate::report::selection::Selection;
use crate::safe_text;
use std::collections::BTreeMap;

/// Separates the frames of a key. Sorts before every character of a safe name, so that keys sort frame
/// by frame: all stacks that share a caller stand together.
const SEPARATOR: char = '\u{1}';

/// The distinct stacks of a selection, as text, in the order of their frames.
#[derive(Debug)]
pub(super) struct Stacks {
    by_key: BTreeMap<String, Amount>,
}

impl Stacks {
    /// Names are written in the style of `names`.
    pub(super) fn new(selection: &Selection<'_>, names: NameStyle) -> Self {
        let labels: Vec<String> =
            selection.labels.iter().map(|label| safe_text::folded(&label.text(names))).collect();
        let tables = &selection.profile.tables;
        let name = |task: &Task| {
            let tid = selection.each_thread.then_some(task.tid);
            safe_text::folded(&thread_name(tables.string(task.comm), tid))
        };
        let comms: Vec<String> = tables.tasks().iter().map(name).collect();
        let mut by_key: BTreeMap<String, Amount> = BTreeMap::new();
        let mut key = String::new();
        let mut frames = String::new();
        selection.for_each_path(|path, groups| {
            frames.clear();
            for step in path {
                frames.push(SEPARATOR);
                frames.push_str(&labels[step.label.index()]);
                frames.push_str(suffix(step));
            }
            for group in groups {
                key.clear();
                key.push_str(&comms[group.task.index()]);
                key.push_str(&frames);
                match by_key.get_mut(&key) {
                    Some(amount) => amount.add(group.amount),
                    None => {
                        by_key.insert(key.clone(), group.amount);
                    }
                }
            }
        });
        Stacks { by_key }
    }

    /// Lines in the order of their frames, without line ends. Stacks without weight are left out.
    pub(super) fn lines(&self, count: bool) -> impl Iterator<Item = String> + '_ {
        self.by_key.iter().filter_map(move |(key, amount)| {
            let weight = if count { amount.count() } else { amount.weight };
            (weight > 0).then(|| format!("{} {weight}", key.replace(SEPARATOR, ";")))
        })
    }
}

/// What marks a step's kind in folded lines.
pub(super) fn suffix(step: &Step) -> &'static str {
    match step {
        Step { is_kernel: true, .. } => "_[k]",
        Step { is_inlined: true, .. } => "_[i]",
        _ => "",
    }
}

/// The folded stacks of `selection`, weights in the event's unit, or as numbers of samples and waits with `count`.
pub fn folded(selection: &Selection<'_>, names: NameStyle, count: bool) -> String {
    let mut lines: Vec<String> = Stacks::new(selection, names).lines(count).collect();
    lines.sort_unstable();
    let mut out = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        out.push_str(&line);
        out.push('\n');
    }
    out
}
