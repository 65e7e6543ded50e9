//! Which samples count, and which labels of their stacks: filter options made ready to use.

use crate::base::failure::Failure;
use crate::profile::{LabelSet, LabelSetId, Sample, ShortWaits, StringId, Tables, Task, TaskId, ThreadTime};
use crate::report::model::amount::Amount;
use crate::report::model::label::{Label, LabelId, Labels};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::name;
use crate::report::naming::thread_class::{ThreadClasses, thread_class};
use crate::report::options::{FilterOptions, LabelPattern, NamePattern, Space, ThreadFilter, TimeRange};
use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

/// Most memory that one compiled pattern may take, bytes.
const PATTERN_BYTES: usize = 4 << 20;

/// Compiles the value of `option`.
///
/// # Errors
///
/// A usage failure that names the option and what is wrong with the pattern.
pub(crate) fn pattern(option: &str, text: &str) -> Result<Regex, Failure> {
    RegexBuilder::new(text).size_limit(PATTERN_BYTES).build().map_err(|error| {
        let why = match &error {
            regex::Error::Syntax(text) => {
                text.lines().last().unwrap_or_default().trim_start_matches("error: ")
            }
            _ => "the expression is too big",
        };
        Failure::usage(format!("`{option} {text}` is not a regular expression: {why}"))
            .hint(format!("for the text itself:  {option} '{}'", regex::escape(text)))
    })
}

/// Which of the threads of `tables` have a matching name, by [`TaskId`].
pub(super) fn matching_threads(wanted: &NamePattern, tables: &Tables) -> Result<Vec<bool>, Failure> {
    let pattern = pattern("--thread", &wanted.text)?;
    let classes = ThreadClasses::of(tables, wanted.threads);
    let is_match = |task: &Task| match classes.is_by_process() {
        true => pattern.is_match(tables.string(task.process)),
        false => pattern.is_match(&classes.plain_title(classes.key_of(task))),
    };
    Ok(tables.tasks().iter().map(is_match).collect())
}

/// Which of the threads of `tables` a filter means, by [`TaskId`].
fn meant_threads(filter: &ThreadFilter, tables: &Tables) -> Result<Vec<bool>, Failure> {
    let those = |is_meant: &dyn Fn(&Task) -> bool| Ok(tables.tasks().iter().map(is_meant).collect());
    match filter {
        ThreadFilter::OfProcesses(pids) => those(&|task| pids.contains(&task.pid)),
        ThreadFilter::Ids(tids) => those(&|task| tids.contains(&task.tid)),
        ThreadFilter::Row(key) => {
            // A thread may change its name, also that of its process, and is the same.
            let is_of = |task: &Task| {
                is_of_class(tables.string(task.comm), &key.thread)
                    && tables.string(task.process) == key.process
            };
            those(&|task| match (key.tid, key.pid) {
                (Some(tid), _) => tid == task.tid,
                (None, Some(pid)) => pid == task.pid,
                (None, None) => is_of(task),
            })
        }
        ThreadFilter::Classes(names) => {
            those(&|task| names.iter().any(|name| is_of_class(tables.string(task.comm), name)))
        }
        ThreadFilter::Matching(wanted) => matching_threads(wanted, tables),
        ThreadFilter::OfProcessesMatching(text) => {
            let pattern = pattern("--process", text)?;
            those(&|task| pattern.is_match(tables.string(task.process)))
        }
    }
}

/// Whether threads called `name` are shown as `class`: by that name, where all of the class have one, or by that of the class.
fn is_of_class(name: &str, class: &str) -> bool {
    name == class || thread_class(name) == class
}

/// Which sets of labels have one that any of `patterns` means, by [`LabelSetId`].
pub(super) fn meant_sets(patterns: &[LabelPattern], tables: &Tables) -> Result<Vec<bool>, Failure> {
    let value = |wanted: &LabelPattern| {
        wanted.value.as_ref().map(|text| pattern(&format!("--label {}=", wanted.key), text)).transpose()
    };
    let values = patterns.iter().map(value).collect::<Result<Vec<Option<Regex>>, Failure>>()?;
    let is_meant = |set| {
        tables.labels(set).any(|(key, value)| {
            patterns.iter().zip(&values).any(|(wanted, pattern)| {
                wanted.key == key && pattern.as_ref().is_none_or(|pattern| pattern.is_match(value))
            })
        })
    };
    Ok((0..tables.label_sets().len() as u32).map(|set| is_meant(LabelSetId(set))).collect())
}

/// Decides which samples count. Decisions that need only the sample are made first, once for each task;
/// those about names are made once for each label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampleFilter {
    keep_task: Vec<bool>,
    cpus: Vec<u16>,
    /// Which sets of labels are asked for; `None` where samples without labels count, too.
    keep_labels: Option<Vec<bool>>,
    /// Value of the label that samples are grouped by, by set of labels; empty where they are by none.
    values: Vec<Option<StringId>>,
    time: TimeRange,
}

impl SampleFilter {
    pub(crate) fn new(options: &FilterOptions, tables: &Tables) -> Result<Self, Failure> {
        let mut keep_task = vec![true; tables.tasks().len()];
        for filter in &options.threads {
            let meant = meant_threads(filter, tables)?;
            keep_task.iter_mut().zip(meant).for_each(|(keep, is_meant)| *keep &= is_meant);
        }
        let keep_labels = match options.labels.as_slice() {
            [] => None,
            patterns => Some(meant_sets(patterns, tables)?),
        };
        let (cpus, values) = (options.cpus.clone(), Vec::new());
        Ok(SampleFilter { keep_task, cpus, keep_labels, values, time: options.time })
    }

    /// The same, which groups samples by their labels of this key, if there is one.
    pub(crate) fn grouped_by(mut self, key: Option<&str>, tables: &Tables) -> Self {
        if let Some(key) = key {
            let value = |set: &LabelSet| {
                set.iter().find(|(known, _)| tables.string(*known) == key).map(|(_, value)| *value)
            };
            self.values = tables.label_sets().iter().map(value).collect();
        }
        self
    }

    /// Value of the label that a sample with these labels is grouped by.
    pub(crate) fn value(&self, labels: Option<LabelSetId>) -> Option<StringId> {
        labels.and_then(|set| self.values.get(set.index()).copied().flatten())
    }

    /// Whether the samples of a thread count.
    pub(crate) fn keeps_task(&self, task: TaskId) -> bool {
        self.keep_task.get(task.index()).copied().unwrap_or(false)
    }

    /// Whether it is the thread alone that decides, and tells samples apart.
    pub(crate) fn is_by_thread(&self) -> bool {
        self.is_by_thread_alone() && self.values.is_empty()
    }

    fn is_by_thread_alone(&self) -> bool {
        self.cpus.is_empty() && self.keep_labels.is_none() && self.time.is_everything()
    }

    /// Whether every sample counts, and all of it.
    pub(crate) fn keeps_all(&self) -> bool {
        self.is_by_thread_alone() && self.keep_task.iter().all(|keep| *keep)
    }

    /// The part of the recording that counts.
    pub(crate) fn time(&self) -> TimeRange {
        self.time
    }

    fn keeps_labels(&self, labels: Option<LabelSetId>) -> bool {
        let Some(keep) = &self.keep_labels else { return true };
        labels.and_then(|set| keep.get(set.index()).copied()).unwrap_or(false)
    }

    /// Returns the part of `sample` that counts: of a wait the part that lies in the time range. `None` when nothing does.
    pub(crate) fn amount(&self, sample: &Sample) -> Option<Amount> {
        let is_of_cpus = self.cpus.is_empty() || self.cpus.contains(&sample.cpu);
        if !self.keeps_task(sample.task) || !is_of_cpus || !self.keeps_labels(sample.labels) {
            return None;
        }
        if let Some(merged) = &sample.merged {
            let end_ns = sample.time_ns.saturating_add(merged.span_ns);
            let overlap_ns = self.time.overlap_ns(sample.time_ns, end_ns)?;
            return Some(Amount::of_sample(sample).part(overlap_ns, merged.span_ns));
        }
        let Some(wait) = &sample.wait else {
            return self.time.contains(sample.time_ns).then(|| Amount::sample(sample.weight));
        };
        let end_ns = sample.time_ns.saturating_add(wait.duration_ns);
        let overlap_ns = self.time.overlap_ns(sample.time_ns, end_ns)?;
        Some(Amount::wait(sample.weight, wait.duration_ns, overlap_ns))
    }

    /// Returns the part of the short waits of a thread that counts. Where in its life they were is not known: they are spread
    /// evenly. On which CPU is not known either, and they have no labels.
    pub(crate) fn short_waits(&self, time: &ThreadTime, short: &ShortWaits) -> Option<Amount> {
        if !self.keeps_task(time.task) || !self.cpus.is_empty() || self.keep_labels.is_some() {
            return None;
        }
        if self.time.is_everything() {
            return Some(Amount::counted(short.time_ns, short.count));
        }
        let overlap_ns = self.time.overlap_ns(time.from_ns, time.to_ns)?;
        let life_ns = time.to_ns.saturating_sub(time.from_ns).max(1);
        let part = |all: u64| {
            u64::try_from(u128::from(all) * u128::from(overlap_ns) / u128::from(life_ns)).unwrap_or(all)
        };
        Some(Amount::counted(part(short.time_ns), part(short.count)))
    }
}

/// Verdict of the name filters on one label.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Verdict {
    pub(super) is_focus: bool,
    /// Whether the label is of a module that is asked for.
    pub(super) is_of_module: bool,
    pub(crate) is_ignored: bool,
    pub(crate) is_hidden: bool,
}

/// The name filters, with their verdict on every label.
#[derive(Debug)]
pub(crate) struct LabelFilter {
    verdicts: Vec<Verdict>,
    pub(super) has_focus: bool,
    /// Only samples with a frame of some modules are kept.
    pub(super) has_module: bool,
    pub(crate) space: Space,
}

impl LabelFilter {
    pub(crate) fn new(options: &FilterOptions, labels: &Labels, tables: &Tables) -> Result<Self, Failure> {
        let compile =
            |option, text: &Option<String>| text.as_deref().map(|text| pattern(option, text)).transpose();
        let focus = compile("--focus", &options.focus)?;
        let ignore = compile("--ignore", &options.ignore)?;
        let hide = compile("--hide", &options.hide)?;
        let show = compile("--show", &options.show)?;
        let module = compile("--module", &options.module)?;
        let meant_by =
            |re: &Option<Regex>| re.as_ref().map_or_else(Vec::new, |re| meant_labels(re, labels, tables));
        let (focus, ignore, hide) = (meant_by(&focus), meant_by(&ignore), meant_by(&hide));
        let show = show.map(|re| meant_labels(&re, labels, tables));
        let is_in = |meant: &[bool], id: LabelId| meant.get(id.index()).copied().unwrap_or(false);
        let verdicts = (labels.ids().zip(labels.iter()))
            .map(|(id, label)| {
                // Why a thread waited is no function that could be shown.
                let is_left_out = show
                    .as_ref()
                    .is_some_and(|show| !is_in(show, id) && !matches!(label.kind, LabelKind::Wait(_)));
                Verdict {
                    is_focus: is_in(&focus, id),
                    is_ignored: is_in(&ignore, id),
                    is_hidden: is_in(&hide, id) || is_left_out,
                    is_of_module: module.as_ref().is_some_and(|module| is_of_module(module, label)),
                }
            })
            .collect();
        let (has_focus, has_module) = (options.focus.is_some(), module.is_some());
        Ok(LabelFilter { verdicts, has_focus, has_module, space: options.space })
    }

    pub(crate) fn verdict(&self, label: LabelId) -> Verdict {
        self.verdicts.get(label.index()).copied().unwrap_or_default()
    }
}

/// Which labels a pattern means, by id: those whose name, source file or path of the module matches, as in pprof. Each
/// file and each module is looked at once.
pub(super) fn meant_labels(pattern: &Regex, labels: &Labels, tables: &Tables) -> Vec<bool> {
    let mut modules: FxHashMap<&str, bool> = FxHashMap::default();
    let mut is_meant: Vec<bool> = (labels.iter())
        .map(|label| {
            let path = label.module.as_str();
            // Threads have their process there.
            let has_module = label.kind.is_code() && !path.is_empty();
            label.matches(pattern)
                || (has_module && *modules.entry(path).or_insert_with(|| pattern.is_match(path)))
        })
        .collect();
    let mut files: FxHashMap<StringId, bool> = FxHashMap::default();
    for place in labels.places().iter().filter(|place| place.file != StringId(0)) {
        let is_meant = &mut is_meant[place.label.index()];
        *is_meant = *is_meant
            || *files.entry(place.file).or_insert_with(|| pattern.is_match(tables.string(place.file)));
    }
    is_meant
}

/// Whether the path of the module of `label` matches, or its name as reports write it.
fn is_of_module(module: &Regex, label: &Label) -> bool {
    let path = label.module.as_str();
    !path.is_empty()
        && [path, name::module_file(path), name::module_stem(path)].iter().any(|name| module.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_is_a_usage_error_with_a_way_out() {
        let failure = pattern("--focus", "operator(").unwrap_err();
        assert_eq!(failure.status, 2);
        assert_eq!(failure.message, "`--focus operator(` is not a regular expression: unclosed group");
        assert_eq!(failure.hints, [r"for the text itself:  --focus 'operator\('"]);
    }

    #[test]
    fn a_huge_pattern_is_refused() {
        assert!(pattern("--hide", "(a{1000}){1000}").unwrap_err().message.ends_with("too big"));
    }
}
