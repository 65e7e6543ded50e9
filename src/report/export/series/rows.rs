//! Samples of one event, added up by service, stack and labels.

use super::code_tables::{CodeOf, CodeTables};
use super::events::{SentEvent, SentPart};
use super::options::{SampleLabel, SeriesOptions};
use super::services::{ServiceValues, ServicesOf, value_of};
use crate::profile::{LabelSetId, Profile, TaskId};
use crate::report::export::tools::stacks::{FrameTexts, Numbered};
use crate::report::model::amount::Amount;
use crate::report::model::group::{Group, GroupKey};
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Labels of a sample as (key, value), in the order in which they were asked for, after those of its span.
pub(super) type SentLabels = Vec<(String, String)>;

/// Most series of one event: what is beyond these is sent as one service, [`OTHERS`].
const MOST_SERVICES: usize = 256;
/// Name of the service that stands for all that are too light to be series of their own.
const OTHERS: &str = "other";
/// Keys of labels that say which span a thread worked for.
pub(super) const SPAN: &str = "span_id";
pub(super) const TRACE: &str = "trace_id";

/// Samples with the same stack and labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentRow {
    /// Index of the stack.
    pub(super) stack: u32,
    /// Index of the set of labels.
    pub(super) labels: u32,
    /// A value for each of the event's.
    pub(super) values: Vec<i64>,
}

/// The samples of one service, as they are added up.
#[derive(Debug, Default)]
struct ServiceRows {
    program: String,
    index: FxHashMap<(u32, u32), usize>,
    /// All of the event, and of the heap what is still there.
    rows: Vec<(u32, u32, [Amount; 2])>,
    weight: u64,
}

impl ServiceRows {
    fn add(&mut self, (stack, labels): (u32, u32), amounts: [Amount; 2]) {
        let next = self.rows.len();
        let at = *self.index.entry((stack, labels)).or_insert(next);
        if at == next {
            self.rows.push((stack, labels, [Amount::default(); 2]));
        }
        let sums = &mut self.rows[at].2;
        sums.iter_mut().zip(amounts).for_each(|(sum, amount)| sum.add(amount));
        self.weight = self.weight.saturating_add(amounts[0].weight);
    }
}

/// Sets of labels by which samples are told apart: of those that agree in all labels that are sent, the first.
#[derive(Debug)]
pub(super) struct SentSets(Vec<Option<LabelSetId>>);

impl SentSets {
    pub(super) fn of(profile: &Profile, options: &SeriesOptions) -> Self {
        let (tables, keys) = (&profile.tables, options.service_keys());
        let is_sent = |key: &str| {
            let is_asked =
                |label: &SampleLabel| matches!(label, SampleLabel::Recorded(other) if other == key);
            keys.contains(&key) || key == SPAN || key == TRACE || options.sample_labels.iter().any(is_asked)
        };
        let mut first: FxHashMap<Vec<(&str, &str)>, LabelSetId> = FxHashMap::default();
        let sets = (0..tables.label_sets().len() as u32).map(LabelSetId);
        let same = sets.map(|set| {
            let labels: Vec<_> = tables.labels(set).filter(|(key, _)| is_sent(key)).collect();
            (!labels.is_empty()).then(|| *first.entry(labels).or_insert(set))
        });
        SentSets(same.collect())
    }

    fn same(&self, set: Option<LabelSetId>) -> Option<LabelSetId> {
        self.0.get(set?.index()).copied().flatten()
    }
}

/// Sums of samples by what they have in common and by their labels, in the order of the recording.
#[derive(Debug, Default)]
pub(super) struct AmountsByLabels {
    parts: FxHashMap<GroupKey, Vec<(Option<LabelSetId>, Amount)>>,
    /// Place of each part in its list.
    index: FxHashMap<(GroupKey, Option<LabelSetId>), usize>,
}

impl AmountsByLabels {
    pub(super) fn of(selection: &Selection<'_>, sets: &SentSets) -> Self {
        let mut sums = AmountsByLabels::default();
        selection.for_each_sample(|_, sample, amount| {
            let (key, set) = (selection.key_of(sample), sets.same(sample.labels));
            let parts = sums.parts.entry(key).or_default();
            let at = *sums.index.entry((key, set)).or_insert(parts.len());
            if at == parts.len() {
                parts.push((set, Amount::default()));
            }
            parts[at].1.add(amount);
        });
        sums
    }

    /// The parts of a group. One of waits that were only counted is one part.
    fn parts(&self, group: &Group) -> Vec<(Option<LabelSetId>, Amount)> {
        self.parts.get(&group.key()).cloned().unwrap_or_else(|| vec![(None, group.amount)])
    }

    fn of_part(&self, group: &Group, labels: Option<LabelSetId>) -> Amount {
        let part =
            self.index.get(&(group.key(), labels)).and_then(|at| self.parts.get(&group.key())?.get(*at));
        part.map(|(_, amount)| *amount).unwrap_or_default()
    }
}

/// Adds up the samples of an event.
pub(super) struct EventRows<'b, 's, 'p> {
    pub(super) selection: &'s Selection<'p>,
    pub(super) services: &'b mut ServicesOf<'p>,
    pub(super) label_sets: &'b mut Numbered<SentLabels>,
    pub(super) options: &'s SeriesOptions,
    pub(super) sets: &'b SentSets,
    /// Of the heap, the blocks that are still there.
    pub(super) kept: Option<AmountsByLabels>,
}

impl EventRows<'_, '_, '_> {
    /// The rows of each service, with the name of one of its programs. None of them is of nothing but zeros.
    pub(super) fn collect(
        mut self,
        code: &mut CodeTables,
        event: &SentEvent,
    ) -> Vec<(ServiceValues, String, Vec<SentRow>)> {
        let style = self.options.common.names_for_programs();
        let selection = self.selection;
        let texts = FrameTexts::new(selection, style);
        let amounts = AmountsByLabels::of(selection, self.sets);
        let mut code = CodeOf::new(code, selection, self.options);
        let mut services: BTreeMap<ServiceValues, ServiceRows> = BTreeMap::new();
        selection.for_each_path(|path, groups| {
            let stack = code.stack(texts.without_reason(path));
            for group in groups {
                for (set, amount) in amounts.parts(group) {
                    let kept = self.kept.as_ref().map(|kept| kept.of_part(group, set)).unwrap_or_default();
                    let (values, program) = self.services.of(group.task, set);
                    let labels = self.labels(group, set);
                    let rows = services.entry(values).or_default();
                    if rows.program.is_empty() {
                        rows.program = program;
                    }
                    rows.add((stack, labels), [amount, kept]);
                }
            }
        });
        let rows = join_lightest(services).into_iter();
        let sent = rows.map(|(service, rows)| (service, rows.program, sent_rows(&rows.rows, event)));
        sent.filter(|(.., rows)| !rows.is_empty()).collect()
    }

    /// Index of the labels that samples of this group get which were recorded with these.
    fn labels(&mut self, group: &Group, set: Option<LabelSetId>) -> u32 {
        let profile = self.selection.profile;
        let recorded = |key: &str| {
            let found = set.and_then(|set| profile.tables.labels(set).find(|(other, _)| *other == key));
            found.map(|(_, value)| value_of(value)).filter(|value| !value.is_empty())
        };
        let mut labels = SentLabels::new();
        let mut add = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                labels.push((key.to_owned(), value));
            }
        };
        for (key, digits) in [(SPAN, 16), (TRACE, 32)] {
            let is_id =
                |value: &String| value.len() == digits && value.bytes().all(|c| c.is_ascii_hexdigit());
            add(key, recorded(key).filter(is_id));
        }
        for label in &self.options.sample_labels {
            match label {
                SampleLabel::Reason => {
                    add("reason", group.activity.reason().map(|reason| reason.label().to_owned()))
                }
                SampleLabel::Recorded(key) if key == SPAN || key == TRACE => {}
                SampleLabel::Recorded(key) => add(key, recorded(key)),
                SampleLabel::Thread => add("thread", thread_text(profile, group.task)),
                SampleLabel::Pid => add("pid", Some(profile.tables.task(group.task).pid.to_string())),
                SampleLabel::Tid => add("tid", Some(profile.tables.task(group.task).tid.to_string())),
            }
        }
        self.label_sets.number(labels)
    }
}

fn thread_text(profile: &Profile, task: TaskId) -> Option<String> {
    let name = value_of(profile.tables.string(profile.tables.task(task).comm));
    (!name.is_empty()).then_some(name)
}

/// Makes one service of all but the heaviest, where there are too many.
fn join_lightest(mut services: BTreeMap<ServiceValues, ServiceRows>) -> BTreeMap<ServiceValues, ServiceRows> {
    if services.len() <= MOST_SERVICES {
        return services;
    }
    let mut weights: Vec<(u64, ServiceValues)> =
        services.iter().map(|(values, rows)| (rows.weight, values.clone())).collect();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let keys = weights.first().map_or(1, |(_, values)| values.len());
    let mut others = vec![String::new(); keys];
    others[0] = OTHERS.to_owned();
    for (_, values) in weights.split_off(MOST_SERVICES - 1) {
        let Some(light) = services.remove(&values) else { continue };
        let joined = services.entry(others.clone()).or_default();
        light.rows.into_iter().for_each(|(stack, labels, amounts)| joined.add((stack, labels), amounts));
    }
    services
}

/// Rows with a number for each value. Counts are known in thousandths: each is the difference of rounded sums, so that all
/// add up to the rounded sum.
fn sent_rows(rows: &[(u32, u32, [Amount; 2])], event: &SentEvent) -> Vec<SentRow> {
    let mut thousandths = vec![0u64; event.values.len()];
    let mut value = |at: usize, part: SentPart, [all, kept]: [Amount; 2]| {
        let amount = if matches!(part, SentPart::Count | SentPart::Weight) { all } else { kept };
        if !part.is_count() {
            return amount.weight;
        }
        let before = rounded(thousandths[at]);
        thousandths[at] = thousandths[at].saturating_add(amount.count_thousandths);
        rounded(thousandths[at]) - before
    };
    let mut sent = Vec::with_capacity(rows.len());
    for (stack, labels, amounts) in rows {
        let parts = event.values.iter().enumerate();
        let values: Vec<i64> = parts.map(|(at, (_, part))| signed(value(at, *part, *amounts))).collect();
        if values.iter().any(|value| *value > 0) {
            sent.push(SentRow { stack: *stack, labels: *labels, values });
        }
    }
    sent
}

fn rounded(thousandths: u64) -> u64 {
    thousandths / 1000 + u64::from(thousandths % 1000 >= 500)
}

/// `number` in the type of the messages, which have no larger ones.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_are_too_many_become_one_and_lose_nothing() {
        let service = |number: usize| vec![format!("s{number:04}"), String::new()];
        let mut services: BTreeMap<ServiceValues, ServiceRows> = BTreeMap::new();
        for number in 0..1_000 {
            services
                .entry(service(number))
                .or_default()
                .add((number as u32, 0), [Amount::sample(number as u64 + 1); 2]);
        }
        let joined = join_lightest(services);
        assert_eq!(joined.len(), MOST_SERVICES);
        assert_eq!(joined.values().map(|rows| rows.weight).sum::<u64>(), 500_500);
        let others = joined.iter().find(|(values, _)| values[0] == OTHERS).unwrap().1;
        assert_eq!((others.rows.len(), others.weight), (745, 745 * 746 / 2));
    }
}
