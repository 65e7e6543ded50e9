//! From a recording and what is asked of it to the samples that are shown, or to why there are none.

use super::filter::{meant_labels, meant_sets};
use super::selection::Selection;
use super::{advice, filter_words, notes};
use crate::base::failure::{Failure, status};
use crate::base::{safe_text, units};
use crate::profile::{End, EventKind, Profile, counter};
use crate::report::analysis::Analysis;
use crate::report::heap::heap_blocks::all_blocks;
use crate::report::model::metric::{self, Metric, Shown};
use crate::report::model::sample_labels::SampleLabels;
use crate::report::model::totals::Totals;
use crate::report::naming::nearest::nearest_hint;
use crate::report::options::{CommonOptions, FilterOptions, ReportView};
use crate::report::recording::Recording;

impl Recording {
    /// Notes on what is wrong with the recording, how much it matters and what would fix it, most important first; and on
    /// what a view of running time does not show: that threads waited, too. Quotes foreign names.
    pub(crate) fn notes(&self, selection: &Selection<'_>, options: &CommonOptions) -> Vec<String> {
        let mut all = notes::report_notes(self, selection, options);
        all.extend(advice::longest_wait(selection));
        all
    }

    /// The events that hold the time that was asked for.
    ///
    /// # Errors
    ///
    /// Status 3 when the profile does not have them.
    pub(crate) fn shown(&self, metric: Option<Metric>) -> Result<Shown<'_>, Failure> {
        Shown::of(&self.profile, metric).map_err(|failure| {
            let problem = notes::missing_part(&self.profile, &self.integrity);
            if let Some(why) = self.why_no_waits().filter(|_| metric != Some(Metric::ON_CPU)) {
                return Failure::new(status::NO_MATCH, format!("the recording has no waits: {why}"));
            }
            match problem.filter(|_| self.profile.events.is_empty()) {
                Some(problem) => nothing_read("samples", &problem, self.integrity.is_being_written),
                None => failure,
            }
        })
    }

    /// Why waits were not recorded although they were asked for.
    fn why_no_waits(&self) -> Option<&str> {
        let why = self.profile.meta.why_no_waits.as_str();
        (!why.is_empty() && metric::waits_of(&self.profile).is_none()).then_some(why)
    }

    /// Why nothing is left to show.
    pub(crate) fn no_match(&self, selection: &Selection<'_>, options: &CommonOptions) -> Failure {
        let noun = &*selection.shown.noun;
        if let Some(words) = filter_words::description(&options.filter) {
            let all = selection.count_of_whole().saturating_add(selection.hidden_idle.count());
            let whole = units::counted(all, noun);
            let failure = Failure::new(status::NO_MATCH, format!("none of {whole} matches {words}"));
            let hints = nearest_names(selection, &options.filter).into_iter();
            let failure =
                hints.chain(known_labels(&self.profile, &options.filter)).fold(failure, Failure::hint);
            return failure.hint(what_is_in_it(options));
        }
        if !selection.hidden_idle.is_empty() {
            let idle = units::counted(selection.hidden_idle.count(), noun);
            let time = units::duration(selection.hidden_idle.weight);
            return Failure::new(status::NO_MATCH, format!("all waits are idle: {idle}, {time}"))
                .hint("to see them:  --idle");
        }
        if let Some(problem) = notes::missing_part(&self.profile, &self.integrity) {
            return nothing_read(&format!("{noun}s"), &problem, self.integrity.is_being_written);
        }
        if self.profile.end.as_ref().is_some_and(End::is_in_delay) {
            let message = format!("the recording has no {noun}s: it {}", End::IN_DELAY);
            return Failure::new(status::NO_MATCH, message).hint("record with a shorter delay:  -D");
        }
        let unaccounted = self.profile.counter(counter::THREADS_UNACCOUNTED);
        let has_run = selection.shown.sampled.is_some() && notes::unrecorded(&self.profile).is_some();
        if unaccounted > 0 && !has_run {
            let threads = units::counted(unaccounted, "thread");
            let message = format!("the recording has no {noun}s, and no account of the time of {threads}");
            return Failure::new(status::NO_MATCH, message).hint("to see why:  prof doctor -p PID");
        }
        if let Some(why) = notes::unaccounted_note(&self.profile) {
            return Failure::new(status::NO_MATCH, format!("the recording has no {noun}s: {why}"));
        }
        let blocks = self.no_such_block(selection);
        if let Some(failure) =
            blocks.or_else(|| self.nothing_yet(selection)).or_else(|| self.no_blocks(selection))
        {
            return failure;
        }
        if selection.shown.sampled.is_none() {
            return Failure::new(status::NO_MATCH, "the recording has no waits: the target did not wait");
        }
        if !selection.shown.metric().is_time() {
            return self.nothing_counted(selection);
        }
        if self.profile.end.as_ref().is_some_and(End::is_before_first_sample) {
            let message = format!("the recording has no {noun}s: the target ended before the first of them");
            return Failure::new(status::NO_MATCH, message).hint("from its start on:  prof record COMMAND");
        }
        if let Some(why) = notes::unrecorded(&self.profile) {
            return Failure::new(status::NO_MATCH, format!("the recording has no samples: {why}"))
                .hint("to see why:  prof doctor");
        }
        self.hardly_ran(selection.shown.sampled.map_or(0, |event| event.info().period))
    }

    /// Error for a recording of blocks of memory none of which counts.
    fn no_such_block(&self, selection: &Selection<'_>) -> Option<Failure> {
        let all = all_blocks(&self.profile).filter(|all| all.observations() > 0)?;
        let (title, blocks) = (&selection.shown.title, units::count(all.observations()));
        let failure =
            Failure::new(status::NO_MATCH, format!("none of {blocks} sampled blocks counts as `{title}`"));
        Some(failure.hint("all that was allocated:  prof report --heap --allocated"))
    }

    /// Error for a recording of an event that has no samples.
    fn nothing_counted(&self, selection: &Selection<'_>) -> Failure {
        let title = &selection.shown.title;
        let lost = selection.shown.sampled.map_or(0, |event| self.profile.lost_samples(event.kind()));
        let why = match lost {
            0 => format!("no {title} were counted"),
            lost => format!("{} of {title} were lost", units::counted(lost, "sample")),
        };
        Failure::new(status::NO_MATCH, format!("the recording has no {}s: {why}", selection.shown.noun))
    }

    /// Error for a recording of the heap in which no block was sampled.
    fn no_blocks(&self, selection: &Selection<'_>) -> Option<Failure> {
        selection.shown.sampled.filter(|event| event.kind().is(&EventKind::HEAP))?;
        let lost = self.profile.lost_samples(&EventKind::HEAP);
        let why = match lost {
            0 => "the target allocated nothing that was sampled".to_owned(),
            lost => format!("{} of them were lost", units::counted(lost, "sample")),
        };
        let failure = Failure::new(status::NO_MATCH, format!("the recording has no blocks: {why}"));
        let of_heap = self.profile.notices().filter(|notice| notice.starts_with("heap: "));
        Some(of_heap.map(|notice| safe_text::message(notice).into_owned()).fold(failure, Failure::hint))
    }

    /// Error for a recording that goes on, has nothing to show so far and has lost nothing.
    fn nothing_yet(&self, selection: &Selection<'_>) -> Option<Failure> {
        let is_going_on = self.profile.end.as_ref().is_some_and(End::is_of_picture);
        let lost = selection.shown.sampled.map_or(0, |event| self.profile.lost_samples(event.kind()));
        (is_going_on && lost == 0 && notes::unrecorded(&self.profile).is_none()).then(|| {
            let noun = &selection.shown.noun;
            Failure::new(status::NO_MATCH, format!("there are no {noun}s yet: the recording goes on"))
        })
    }

    /// Error that what was sampled every `period_ns` of running (0: not known) did not run for long, if at all.
    fn hardly_ran(&self, period_ns: u64) -> Failure {
        let ran_ns = self.profile.thread_times.iter().map(|time| time.on_cpu_ns).fold(0, u64::saturating_add);
        let is_accounted = self.profile.thread_times.iter().any(|time| !time.is_unknown());
        let why = match ran_ns {
            0 if is_accounted => "the target did not run".to_owned(),
            0 if period_ns == 0 => "the target hardly ran, if at all".to_owned(),
            0 => {
                let period = units::duration(period_ns);
                format!("the target ran for less than the {period} between two samples, if at all")
            }
            _ => format!("the target ran for {} in all", units::duration(ran_ns)),
        };
        Failure::new(status::NO_MATCH, format!("the recording has no samples: {why}"))
            .hint("a waiting program uses no CPU; record it while it works")
    }
}

impl Analysis {
    /// Notes for a report in this view: those of [`Recording::notes`], with all that is worth a look next.
    pub(crate) fn notes_for(
        &self,
        selection: &Selection<'_>,
        options: &CommonOptions,
        view: &ReportView,
    ) -> Vec<String> {
        let mut all = notes::report_notes(self, selection, options);
        all.extend(advice::next_steps(self, selection, options, view));
        all
    }

    /// The samples that pass the filters.
    ///
    /// # Errors
    ///
    /// A usage failure for a bad pattern; status 3 when no sample passes.
    pub fn select(&self, options: &CommonOptions) -> Result<Selection<'_>, Failure> {
        let selection = Selection::new(self, self.shown(options.metric)?, options)?;
        if selection.total.is_empty() { Err(self.no_match(&selection, options)) } else { Ok(selection) }
    }

    /// Selects like [`Analysis::select`]; that all waits are idle is an answer, too: there is nothing else to show of them.
    pub(crate) fn select_for_report(&self, options: &CommonOptions) -> Result<Selection<'_>, Failure> {
        let selection = Selection::new(self, self.shown(options.metric)?, options)?;
        if selection.total.is_empty() && !selection.is_all_idle(&options.filter) {
            return Err(self.no_match(&selection, options));
        }
        Ok(selection)
    }

    /// Selects like [`Analysis::select`]; when threads only idled, that is something to show of them, too.
    pub(crate) fn select_for_threads(&self, options: &CommonOptions) -> Result<Selection<'_>, Failure> {
        let selection = Selection::new(self, self.shown(options.metric)?, options)?;
        let is_known = Totals::of(self, options)?.is_some_and(|totals| !totals.threads.is_empty());
        if selection.total.is_empty() && !is_known {
            return Err(self.no_match(&selection, options));
        }
        Ok(selection)
    }
}

/// The names nearest to a pattern of `filter` that no function matches.
fn nearest_names(selection: &Selection<'_>, filter: &FilterOptions) -> Option<String> {
    let matches_none = |text: &&String| {
        let pattern = regex::Regex::new(text);
        pattern.is_ok_and(|pattern| {
            let meant = meant_labels(&pattern, &selection.labels, &selection.profile.tables);
            !meant.contains(&true)
        })
    };
    let wanted = [&filter.focus, &filter.show].into_iter().flatten().find(matches_none)?;
    Some(nearest_hint(selection.labels.names_of_code(), wanted))
}

/// The labels that there are, where `filter` asks for others. Foreign text.
fn known_labels(profile: &Profile, filter: &FilterOptions) -> Option<String> {
    let meant = meant_sets(&filter.labels, &profile.tables).ok()?;
    let is_unknown = !filter.labels.is_empty() && !meant.contains(&true);
    is_unknown.then(|| SampleLabels::of(&profile.tables).hint())
}

/// No one knows what was in the part that is missing.
fn nothing_read(nouns: &str, problem: &str, is_being_written: bool) -> Failure {
    let message = format!("the readable part has no {nouns}: the file is incomplete ({problem})");
    let hint = match is_being_written {
        true => "wait a second and try again",
        false => "to record again:  prof record -d 10s -p PID",
    };
    Failure::new(status::NO_MATCH, message).hint(hint)
}

/// Hint that lists what the view of these options is made of.
fn what_is_in_it(options: &CommonOptions) -> &'static str {
    match (options.heap, options.locks) {
        (Some(_), _) => "to see what is in it:  prof report --heap -n 0",
        (None, Some(_)) => "to see what is in it:  prof report --locks -n 0, prof report --threads",
        (None, None) => "to see what is in it:  prof report -n 0, prof report --threads",
    }
}
