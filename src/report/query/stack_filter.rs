//! Filters that look at whole stacks and change them: focus, drop, collapse. Each works on what the one before it left.

use super::filter::{matching_threads, pattern};
use super::named_since::{NamedSince, PathStart};
use crate::base::failure::Failure;
use crate::profile::{Profile, TaskId};
use crate::report::model::label::{LabelId, Labels, Step};
use crate::report::model::label_key::LabelKey;
use crate::report::model::label_kind::LabelKind;
use crate::report::options::{PathStep, StackFilter};

/// Stack filters made ready for the labels of one selection.
#[derive(Debug)]
pub(crate) struct StackFilters {
    filters: Vec<Ready>,
}

/// One filter, with the labels that it means.
#[derive(Debug)]
enum Ready {
    Keep { is_meant: Vec<bool> },
    KeepMatching { is_meant: Vec<bool>, is_thread_meant: Vec<bool> },
    Drop { is_meant: Vec<bool> },
    CutBelow { is_meant: Vec<bool>, is_reason: Vec<bool> },
    Collapse { is_meant: Vec<bool>, step: Option<Step> },
    OneCall { is_meant: Vec<bool> },
    Under { paths: Vec<Vec<Meant>> },
    EndingIn { paths: Vec<Vec<Meant>> },
}

/// One step of a path that is asked for.
#[derive(Debug)]
struct Meant {
    is_meant: Vec<bool>,
    is_inlined: bool,
}

impl Meant {
    fn is((meant, step): (&Meant, &Step)) -> bool {
        meant.is_inlined == step.is_inlined && has(&meant.is_meant, step.label)
    }
}

/// The steps of paths from the root or from the leaf.
fn steps_of(
    labels: &Labels,
    since: &NamedSince<'_>,
    start: PathStart,
    paths: &[Vec<PathStep>],
) -> Vec<Vec<Meant>> {
    let step_of = |path: &[PathStep], place: usize| -> Vec<Meant> {
        let step = &path[place];
        let Some(steps) = since.steps(&step.label) else {
            let is_meant = labels.iter().map(|label| label.is(&step.label)).collect();
            return vec![Meant { is_meant, is_inlined: step.is_inlined }];
        };
        let way = start.way(steps, place + 1 == path.len());
        let meant = |step: &Step| Meant {
            is_meant: labels.ids().map(|id| id == step.label).collect(),
            is_inlined: step.is_inlined,
        };
        way.iter().map(meant).collect()
    };
    let path_of = |path: &Vec<PathStep>| (0..path.len()).flat_map(|place| step_of(path, place)).collect();
    paths.iter().map(path_of).collect()
}

/// The functions that a filter names.
fn keys_of(filter: &StackFilter) -> Vec<&LabelKey> {
    match filter {
        StackFilter::Focus(key)
        | StackFilter::Drop(key)
        | StackFilter::CollapseFunction(key)
        | StackFilter::CollapseRecursion(key) => vec![key],
        StackFilter::Under(paths) | StackFilter::EndingIn(paths) => {
            paths.iter().flatten().map(|step| &step.label).collect()
        }
        StackFilter::Matching(_) | StackFilter::CollapseModule(_) => Vec::new(),
    }
}

impl StackFilters {
    /// Finds the labels that `filters` mean, and adds those that they need.
    ///
    /// # Errors
    ///
    /// A usage failure for a pattern that is no regular expression.
    pub(crate) fn new(
        filters: &[StackFilter],
        labels: &mut Labels,
        profile: &Profile,
        samples_of_frame: &[u64],
    ) -> Result<Self, Failure> {
        let since = NamedSince::new(profile, labels, samples_of_frame, filters.iter().flat_map(keys_of));
        let mut ready = Vec::with_capacity(filters.len());
        for (number, filter) in filters.iter().enumerate() {
            let exactly = |labels: &Labels, key: &LabelKey| {
                let mut is_meant: Vec<bool> = labels.iter().map(|label| label.is(key)).collect();
                since.functions(key).for_each(|function| is_meant[function.index()] = true);
                is_meant
            };
            ready.push(match filter {
                StackFilter::Focus(key) => Ready::Keep { is_meant: exactly(labels, key) },
                StackFilter::Drop(key) => Ready::Drop { is_meant: exactly(labels, key) },
                StackFilter::Matching(wanted) => {
                    let pattern = pattern("--focus", &wanted.text)?;
                    Ready::KeepMatching {
                        is_meant: labels.iter().map(|label| label.matches(&pattern)).collect(),
                        is_thread_meant: matching_threads(wanted, &profile.tables)?,
                    }
                }
                StackFilter::CollapseFunction(key) => Ready::CutBelow {
                    is_meant: exactly(labels, key),
                    is_reason: labels.iter().map(|label| matches!(label.kind, LabelKind::Wait(_))).collect(),
                },
                StackFilter::CollapseModule(module) => {
                    let is_meant = labels.iter().map(|label| label.module == *module).collect();
                    Ready::Collapse { is_meant, step: labels.collapsed_step(number, module) }
                }
                StackFilter::CollapseRecursion(key) => Ready::OneCall { is_meant: exactly(labels, key) },
                StackFilter::Under(paths) => {
                    Ready::Under { paths: steps_of(labels, &since, PathStart::Root, paths) }
                }
                StackFilter::EndingIn(paths) => {
                    Ready::EndingIn { paths: steps_of(labels, &since, PathStart::Leaf, paths) }
                }
            });
        }
        Ok(StackFilters { filters: ready })
    }

    /// Changes `path`, which is one of a thread; false when its samples are dropped.
    pub(crate) fn apply(&self, path: &mut Vec<Step>, task: TaskId) -> bool {
        self.filters.iter().all(|filter| filter.apply(path, task))
    }

    /// Whether equal stacks of different threads can have different fates.
    pub(super) fn ask_for_threads(&self) -> bool {
        self.filters.iter().any(|filter| matches!(filter, Ready::KeepMatching { .. }))
    }
}

impl Ready {
    fn apply(&self, path: &mut Vec<Step>, task: TaskId) -> bool {
        match self {
            Ready::Keep { is_meant } => path.iter().any(|step| has(is_meant, step.label)),
            Ready::KeepMatching { is_meant, is_thread_meant } => {
                is_thread_meant.get(task.index()).copied().unwrap_or(false)
                    || path.iter().any(|step| has(is_meant, step.label))
            }
            Ready::Drop { is_meant } => !path.iter().any(|step| has(is_meant, step.label)),
            Ready::CutBelow { is_meant, is_reason } => {
                if let Some(at) = path.iter().position(|step| has(is_meant, step.label)) {
                    // Why a thread waited is no call: it stays, or the wait would look like running.
                    let reason = path[at + 1..].last().copied().filter(|step| has(is_reason, step.label));
                    path.truncate(at + 1);
                    path.extend(reason);
                }
                true
            }
            Ready::Collapse { is_meant, step } => {
                let Some(collapsed) = step else { return true };
                for step in path.iter_mut().filter(|step| has(is_meant, step.label)) {
                    *step = *collapsed;
                }
                path.dedup_by(|next, step| step.label == collapsed.label && next.label == collapsed.label);
                true
            }
            Ready::OneCall { is_meant } => {
                let outermost = path.iter().position(|step| has(is_meant, step.label));
                let innermost = path.iter().rposition(|step| has(is_meant, step.label));
                if let (Some(outermost), Some(innermost)) = (outermost, innermost) {
                    path.drain(outermost + 1..=innermost);
                }
                true
            }
            Ready::Under { paths } => {
                let begins =
                    |start: &[Meant]| path.len() >= start.len() && start.iter().zip(&*path).all(Meant::is);
                paths.iter().any(|start| begins(start))
            }
            Ready::EndingIn { paths } => {
                let ends = |end: &[Meant]| {
                    path.len() >= end.len() && end.iter().zip(path.iter().rev()).all(Meant::is)
                };
                paths.iter().any(|end| ends(end))
            }
        }
    }
}

/// Labels that came later, such as those of other filters, are never meant.
fn has(is_meant: &[bool], label: LabelId) -> bool {
    is_meant.get(label.index()).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Reason;
    use crate::report::tests::fixture::Build;
    use crate::report::{
        Analysis, CallTree, CommonOptions, Direction, FilterOptions, Metric, NamePattern, ThreadSplit,
    };

    fn recording() -> Analysis {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 3, &["/x:main", "/x:walk", "/x:walk", "/lib/libz.so:deflate", "/lib/libz.so:crc"]);
        build.add(task, 4, &["/x:main", "/x:walk", "/x:visit", "/x:walk"]);
        build.add(task, 5, &["/x:main", "/x:idle"]);
        build.finish()
    }

    fn key(name: &str, module: &str) -> LabelKey {
        LabelKey::function(name, module)
    }

    /// The stacks that are left, with their ms.
    fn stacks(filters: Vec<StackFilter>) -> Vec<String> {
        stacks_of(&recording(), None, filters)
    }

    fn stacks_of(recording: &Analysis, metric: Option<Metric>, filters: Vec<StackFilter>) -> Vec<String> {
        let filter = FilterOptions { stacks: filters, ..FilterOptions::default() };
        let options = CommonOptions { filter, metric, ..CommonOptions::default() };
        let selection = recording.select(&options).unwrap();
        let tree = CallTree::new(&selection, Direction::TopDown);
        let mut lines: Vec<String> = (tree.ends().iter().filter(|(_, own)| own.weight > 0))
            .map(|(id, own)| {
                let mut names: Vec<&str> =
                    tree.path(*id).map(|node| &*selection.labels.get(node.label).name).collect();
                names.reverse();
                format!("{} {}", names.join(";"), own.weight / 1_000_000)
            })
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn focus_and_drop_mean_one_function_exactly() {
        assert_eq!(stacks(vec![StackFilter::Focus(key("idle", "/x"))]), ["main;idle 5"]);
        assert_eq!(stacks(vec![StackFilter::Drop(key("walk", "/x"))]), ["main;idle 5"]);
        assert_eq!(stacks(vec![StackFilter::Drop(key("walk", "/other"))]).len(), 3);
    }

    #[test]
    fn a_collapsed_function_keeps_the_time_of_what_it_calls() {
        let found = stacks(vec![StackFilter::CollapseFunction(key("walk", "/x"))]);
        assert_eq!(found, ["main;idle 5", "main;walk 7"]);
    }

    #[test]
    fn a_collapsed_function_keeps_why_it_waited() {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        build.add(task, 2, &["/x:main", "/x:take", "/lib/libc.so:lock"]);
        build.wait(task, Reason::Lock, 0, 9_000_000, &["/x:main", "/x:take", "/lib/libc.so:lock"]);
        let found = stacks_of(
            &build.finish(),
            Some(Metric::WALL),
            vec![StackFilter::CollapseFunction(key("take", "/x"))],
        );
        assert_eq!(found, ["main;take 2", "main;take;[futex] 9"]);
    }

    #[test]
    fn a_collapsed_module_is_one_frame() {
        let found = stacks(vec![StackFilter::CollapseModule("/lib/libz.so".into())]);
        assert_eq!(found, ["main;idle 5", "main;walk;visit;walk 4", "main;walk;walk;libz.so 3"]);
    }

    #[test]
    fn collapsed_recursion_keeps_what_the_innermost_call_calls() {
        let found = stacks(vec![StackFilter::CollapseRecursion(key("walk", "/x"))]);
        assert_eq!(found, ["main;idle 5", "main;walk 4", "main;walk;deflate;crc 3"]);
    }

    #[test]
    fn each_filter_works_on_what_the_one_before_left() {
        let collapse = StackFilter::CollapseFunction(key("walk", "/x"));
        let focus = StackFilter::Focus(key("visit", "/x"));
        assert_eq!(stacks(vec![focus.clone(), collapse.clone()]), ["main;walk 4"]);
        let filter = FilterOptions { stacks: vec![collapse, focus], ..FilterOptions::default() };
        let failure = recording().select(&CommonOptions { filter, ..CommonOptions::default() }).unwrap_err();
        assert_eq!(failure.status, 3);
    }

    #[test]
    fn a_path_keeps_what_begins_with_it() {
        let step = |name, is_inlined| PathStep { label: key(name, "/x"), is_inlined };
        let idle = vec![step("main", false), step("idle", false)];
        let walk = vec![step("main", false), step("walk", false), step("visit", false)];
        assert_eq!(stacks(vec![StackFilter::Under(vec![idle.clone()])]), ["main;idle 5"]);
        let both = stacks(vec![StackFilter::Under(vec![idle, walk])]);
        assert_eq!(both, ["main;idle 5", "main;walk;visit;walk 4"]);
        // From the leaf on.
        let end = vec![step("walk", false), step("visit", false)];
        assert_eq!(stacks(vec![StackFilter::EndingIn(vec![end])]), ["main;walk;visit;walk 4"]);
        let filter = StackFilter::Under(vec![vec![step("main", true)]]);
        let filter = FilterOptions { stacks: vec![filter], ..FilterOptions::default() };
        let failure = recording().select(&CommonOptions { filter, ..CommonOptions::default() }).unwrap_err();
        assert_eq!(failure.status, 3);
        assert_eq!(
            stacks(vec![StackFilter::Matching(NamePattern {
                text: "^cr.$".into(),
                threads: ThreadSplit::Name
            })]),
            ["main;walk;walk;deflate;crc 3"]
        );
    }
}
