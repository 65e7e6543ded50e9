//! A recording as a batch of series.

use super::code_tables::CodeTables;
use super::events::{SentEvent, is_sent};
use super::options::{HostLabel, SeriesOptions};
use super::rows::{AmountsByLabels, EventRows, SentLabels, SentRow, SentSets, signed};
use super::services::{ServiceValues, ServicesOf, value_of};
use crate::base::failure::{Failure, status};
use crate::report::analysis::Analysis;
use crate::report::export::tools::stacks::{Numbered, recorder_lines};
use crate::report::heap::HeapView;
use crate::report::heap::heap_blocks::all_blocks;
use crate::report::model::metric::{Metric, Shown};
use crate::report::options::CommonOptions;
use crate::report::query::selection::Selection;

/// One event of one service.
#[derive(Debug)]
pub(crate) struct SentSeries {
    /// Labels by which servers know it, in the order of their keys, without its name.
    pub(crate) labels: Vec<(String, String)>,
    /// What was observed.
    pub(crate) event: SentEvent,
    /// Name of a process of the service.
    pub(super) program: String,
    pub(super) rows: Vec<SentRow>,
}

impl SentSeries {
    /// Number of its samples; equal ones are one.
    pub(crate) fn samples(&self) -> usize {
        self.rows.len()
    }

    /// Name and sum of each value, with its unit: `cpu`, `nanoseconds`.
    pub(crate) fn sums(&self) -> Vec<(&str, &'static str, u64)> {
        let sum = |at: usize| {
            let values = self.rows.iter().map(|row| row.values[at].unsigned_abs());
            values.fold(0, u64::saturating_add)
        };
        let values = self.event.values.iter().enumerate();
        values.map(|(at, (what, _))| (what.name.as_str(), what.unit, sum(at))).collect()
    }

    /// Its labels with its name, in the order of their keys.
    pub(crate) fn all_labels(&self) -> Vec<(String, String)> {
        let name = ("__name__".to_owned(), self.event.name.clone());
        // `_` comes before small letters, and after capitals, of which names of labels may begin with some.
        let mut labels: Vec<_> = std::iter::once(name).chain(self.labels.iter().cloned()).collect();
        labels.sort();
        labels
    }
}

/// What is sent of a recording.
#[derive(Debug)]
pub(crate) struct SeriesBatch {
    /// Beginning of what is sent, ns since the Unix epoch.
    pub(crate) started_unix_ns: u64,
    /// Length, ns.
    pub(crate) duration_ns: u64,
    /// Series with their samples, those of a service next to each other. None is empty.
    pub(crate) series: Vec<SentSeries>,
    pub(super) code: CodeTables,
    pub(super) label_sets: Numbered<SentLabels>,
    /// Facts about the recording, for people.
    pub(super) comments: Vec<String>,
}

impl SeriesBatch {
    /// The series of a recording.
    ///
    /// # Errors
    ///
    /// A usage failure for a bad pattern; status 3 when no sample of an event that was asked for passes the filters, or, if none
    /// was asked for, no sample at all.
    pub(crate) fn of(recording: &Analysis, options: &SeriesOptions) -> Result<Self, Failure> {
        let profile = &recording.profile;
        let duration_ns = profile.duration_ns();
        let time = options.common.filter.time;
        let from_ns = time.from_ns.unwrap_or(0).min(duration_ns);
        let to_ns = time.to_ns.unwrap_or(duration_ns).clamp(from_ns, duration_ns);
        let started = match options.ended_unix_ns {
            Some(ended) => ended.saturating_sub(duration_ns),
            None => profile.meta.start_unix_ns,
        };
        let mut batch = SeriesBatch {
            started_unix_ns: started.saturating_add(from_ns),
            duration_ns: to_ns - from_ns,
            series: Vec::new(),
            code: CodeTables::default(),
            label_sets: Numbered::default(),
            comments: recorder_lines(profile),
        };
        let mut services = ServicesOf::new(profile, options.service.as_deref(), options.service_keys());
        for metric in metrics(recording, options) {
            match batch.add(recording, metric, options, &mut services) {
                // Where all are wanted, there need not be some of each.
                Err(failure) if failure.status == status::NO_MATCH && options.events.is_empty() => {}
                added => added?,
            }
        }
        if batch.series.is_empty() {
            // Says why, with what helps.
            recording.select(&CommonOptions {
                metric: options.events.first().copied(),
                ..options.common.clone()
            })?;
            return Err(Failure::new(status::NO_MATCH, "there is nothing to send: no sample passes"));
        }
        batch.code.place_modules();
        batch.series.sort_by(|a, b| (&a.labels, &a.event.name).cmp(&(&b.labels, &b.event.name)));
        Ok(batch)
    }

    /// Adds the series of an event.
    fn add<'p>(
        &mut self,
        recording: &'p Analysis,
        metric: Metric,
        options: &SeriesOptions,
        services: &mut ServicesOf<'p>,
    ) -> Result<(), Failure> {
        let common = CommonOptions { metric: Some(metric), ..options.common.clone() };
        if metric == Metric::HEAP {
            return self.add_heap(recording, common, options);
        }
        let selection = recording.select(&common)?;
        self.add_rows(&selection, None, options, services);
        Ok(())
    }

    /// Adds the series of the heap: what was allocated, and what is still there at the end.
    fn add_heap(
        &mut self,
        recording: &Analysis,
        common: CommonOptions,
        options: &SeriesOptions,
    ) -> Result<(), Failure> {
        let is_part = all_blocks(&recording.profile).is_some();
        let part;
        let (recording, common) = match is_part {
            true => (recording, common),
            false => {
                let view = Some(HeapView::LiveAtEnd);
                let (of_heap, common) =
                    CommonOptions { heap: view, ..common }.of_heap(Analysis::clone(recording))?;
                part = of_heap;
                (&part, common)
            }
        };
        let Some(all) = all_blocks(&recording.profile) else { return Ok(()) };
        let whole = Selection::new(recording, Shown::one(all), &common)?;
        if whole.total.is_empty() {
            return Err(recording.no_match(&whole, &common));
        }
        // That nothing is left at the end is an answer, too.
        let sets = SentSets::of(&recording.profile, options);
        let kept = recording.select(&common).ok().map(|kept| AmountsByLabels::of(&kept, &sets));
        let mut services =
            ServicesOf::new(&recording.profile, options.service.as_deref(), options.service_keys());
        self.add_rows(&whole, Some(kept.unwrap_or_default()), options, &mut services);
        Ok(())
    }

    fn add_rows<'p>(
        &mut self,
        selection: &Selection<'p>,
        kept: Option<AmountsByLabels>,
        options: &SeriesOptions,
        services: &mut ServicesOf<'p>,
    ) {
        let Some(event) = selection.shown.events().next() else { return };
        let mut info = event.info().clone();
        if kept.is_some() {
            info.kind = crate::profile::EventKind::HEAP;
        }
        let event = SentEvent::of(&info);
        let host = match &options.host {
            HostLabel::OfRecording => &*selection.profile.meta.hostname,
            HostLabel::Named(name) => name,
            HostLabel::OfSamples => "",
        };
        let sets = SentSets::of(selection.profile, options);
        let rows =
            EventRows { selection, services, label_sets: &mut self.label_sets, options, sets: &sets, kept };
        for (service, program, rows) in rows.collect(&mut self.code, &event) {
            let labels = labels_of(&service, host, options);
            self.series.push(SentSeries { labels, event: event.clone(), program, rows });
        }
    }

    /// Time of the first of the rows of a part of a series, ns since the Unix epoch: parts of a series have times of their own,
    /// in whole ms, since servers take those with one time for one.
    pub(super) fn time_of(&self, series: &SentSeries, first_row: usize) -> u64 {
        let length_ms = self.duration_ns / 1_000_000;
        let rows = series.rows.len().max(1) as u128;
        let shift_ms = u128::from(length_ms) * first_row as u128 / rows;
        let shift_ns = u64::try_from(shift_ms * 1_000_000).unwrap_or(0);
        self.started_unix_ns.saturating_add(shift_ns)
    }

    /// Length as it is sent, ns.
    pub(super) fn signed_duration_ns(&self) -> i64 {
        signed(self.duration_ns)
    }
}

/// The events that are sent.
fn metrics(recording: &Analysis, options: &SeriesOptions) -> Vec<Metric> {
    if !options.events.is_empty() {
        return options.events.clone();
    }
    let mut all = Vec::new();
    for event in recording.profile.events.iter().filter(|event| is_sent(event.kind()) && !event.is_empty()) {
        let metric = Metric::of_kind(event.kind());
        let is_part = all_blocks(&recording.profile).is_some_and(|blocks| std::ptr::eq(blocks, event));
        if !is_part && !all.contains(&metric) {
            all.push(metric);
        }
    }
    // Waits that were only counted have no rows.
    let has_short = recording.profile.thread_times.iter().any(|time| !time.short_waits.is_empty());
    if has_short && !all.contains(&Metric::OFF_CPU) {
        all.push(Metric::OFF_CPU);
    }
    all
}

/// Labels of a series, in the order of their keys.
fn labels_of(service: &ServiceValues, host: &str, options: &SeriesOptions) -> Vec<(String, String)> {
    let mut labels = options.labels.clone();
    let own = options.service_keys().into_iter().zip(service.iter().cloned());
    let others = options.other_labels.iter().map(|(key, value)| (key.as_str(), value_of(value)));
    for (key, value) in own.chain([("host", value_of(host))]).chain(others) {
        if !value.is_empty() && labels.iter().all(|(other, _)| other != key) {
            labels.push((key.to_owned(), value));
        }
    }
    labels.sort();
    labels
}
