//! Which states of threads the metric shows, and how high they stand; for a metric that is no time, how high its samples.

use super::axis::TimeAxis;
use super::column::{Cell, EIGHTHS, cells};
use crate::base::units::duration_in;
use crate::diff::Tone;
use crate::profile::Reason;
use crate::report::{Metric, Timeline, TimelineRow, TimelineState};
use crate::tui::compute::change::Change;
use crate::tui::compute::event_title::EventTitle;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::change_line;
use crate::tui::widgets::theme::Theme;
use ratatui::text::Span;
use std::cmp::Reverse;

/// A timeline with the metric that chooses what is shown of it.
pub(super) struct ShownStates<'p> {
    pub(super) timeline: &'p Timeline,
    event: &'p EventTitle,
    /// Number of CPUs, at least one.
    pub(super) cpus: u64,
    change: Option<&'p Change>,
}

/// Number of CPUs of the machine, at least one.
pub(super) fn cpus_of(picture: &Picture) -> u64 {
    u64::from(picture.recording.profile.meta.cpus).max(1)
}

impl<'p> ShownStates<'p> {
    pub(super) fn of(picture: &'p Picture, timeline: &'p Timeline) -> Self {
        let (event, cpus) = (&picture.event, cpus_of(picture));
        ShownStates { timeline, event, cpus, change: picture.change.as_ref() }
    }

    /// How much the threads of a row have changed, in a comparison.
    pub(super) fn tone(&self, row: &TimelineRow) -> Option<Tone> {
        self.change?.of_threads(row.into()).map(change_line::tone)
    }

    /// Whether the metric counts a state.
    pub(super) fn is_shown(&self, state: TimelineState) -> bool {
        match self.event.metric {
            Metric::ON_CPU => state == TimelineState::Running,
            Metric::OFF_CPU => state != TimelineState::Running,
            // All time; or the samples of a metric that is no time, which has no other states.
            _ => true,
        }
    }

    /// The most threads of a row that are in a shown state at once, in the mean of a column: the height of a full bar.
    pub(super) fn most_threads(&self, row: &TimelineRow, axis: &TimeAxis) -> u64 {
        let threads = (0..axis.columns).map(|column| {
            let (from_ns, to_ns) = axis.time_of(column);
            let states = self.timeline.states_in(row, from_ns, to_ns);
            let shown = states.iter().filter(|(state, _)| self.is_shown(*state));
            // A sample counts as a whole in the column in which it was taken.
            let sum = shown.fold(0u64, |sum, (_, ns)| sum.saturating_add(*ns));
            (sum.saturating_sub((to_ns - from_ns) / 16)).div_ceil(to_ns - from_ns)
        });
        threads.max().unwrap_or(0).clamp(1, row.threads.max(1))
    }

    /// The largest weight of a row in a column, if the metric is no time: the height of a full bar in all rows, which can
    /// thus be compared.
    pub(super) fn most_weight(&self, axis: &TimeAxis) -> u64 {
        let columns = (0..axis.columns).map(|column| axis.time_of(column));
        let weights = columns.flat_map(|(from_ns, to_ns)| {
            self.timeline.rows.iter().map(move |row| self.timeline.weight_in(row, from_ns, to_ns))
        });
        weights.max().unwrap_or(0).max(1)
    }

    /// The time that the threads of a row spent in the shown states of each colour in a part of the recording, the longest
    /// first, with a name in words.
    pub(super) fn sums(
        &self,
        row: &TimelineRow,
        (from_ns, to_ns): (u64, u64),
    ) -> Vec<(TimelineState, String)> {
        let mut sums: Vec<(TimelineState, u64)> = Vec::new();
        for (state, ns) in self.timeline.states_in(row, from_ns, to_ns) {
            match sums.iter_mut().find(|(known, _)| group_of(*known) == group_of(state)) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => sums.push((state, ns)),
            }
        }
        sums.retain(|(state, ns)| self.is_shown(*state) && *ns > 0);
        sums.sort_by_key(|(_, ns)| Reverse(*ns));
        let whole = sums.iter().fold(0u64, |whole, (_, ns)| whole.saturating_add(*ns));
        let words = |state, ns| format!("{} {}", short_name(group_of(state)), duration_in(ns, whole));
        sums.into_iter().map(|(state, ns)| (state, words(state, ns))).collect()
    }

    /// The lines of a row in a part of the recording, the lowest first; `full` threads, or that weight, fill all `lines`.
    /// Where none is in a shown state, what most of the others do stands in the lowest line.
    pub(super) fn column(
        &self,
        row: &TimelineRow,
        (from_ns, to_ns): (u64, u64),
        full: u64,
        lines: usize,
    ) -> Vec<Cell> {
        let mut states = self.timeline.states_in(row, from_ns, to_ns);
        let other =
            states.iter().filter(|(state, ns)| !self.is_shown(*state) && *ns > 0).max_by_key(|(_, ns)| *ns);
        let other = other.map(|(state, _)| *state);
        states.retain(|(state, ns)| self.is_shown(*state) && *ns > 0);
        let full = if self.timeline.is_time { (to_ns - from_ns).saturating_mul(full) } else { full };
        let mut cells = cells(&states, full, lines);
        if let (Some(state), Some(lowest)) = (other, cells.first_mut())
            && lowest.lower.is_none()
        {
            *lowest = Cell { lower: Some((state, 0)), upper: None };
        }
        // Only running and samples have eighths: less than half a line of another state is none, but for what has no other line.
        let has_eighths = |state| matches!(state, TimelineState::Running | TimelineState::Sampled);
        for cell in cells.iter_mut().skip(1) {
            if cell.lower.is_some_and(|(state, eighths)| !has_eighths(state) && 2 * eighths < EIGHTHS)
                && cell.upper.is_none()
            {
                *cell = Cell::default();
            }
        }
        cells
    }

    /// The characters and colours of the states that occur, each with its name; or what a full bar is, if the metric is no
    /// time.
    pub(super) fn legend(&self, theme: &Theme, axis: &TimeAxis) -> Vec<Span<'static>> {
        if !self.timeline.is_time {
            let full = crate::base::units::weight(self.event.unit, self.most_weight(axis), 0);
            let state = TimelineState::Sampled;
            let mark = Span::styled(theme.state_glyph(state), theme.state(state, None));
            let words = match self.timeline.is_level {
                true => format!(" live, up to {full}  "),
                false => format!(" {}, up to {full} a column  ", self.event.title),
            };
            return vec![mark, Span::raw(words)];
        }
        let mut known: Vec<&'static str> = Vec::new();
        let mut spans = Vec::new();
        let rows = || self.timeline.rows.iter();
        let mut states = vec![TimelineState::Running, TimelineState::NoCpu];
        let mut blocked: Vec<TimelineState> =
            rows().flat_map(|row| &row.blocked).map(|(state, _)| *state).collect();
        blocked.sort_by_key(|state| GROUPS.iter().position(|group| *group == group_of(*state)));
        states.extend(blocked);
        for state in states {
            let group = group_of(state);
            let occurs = match state {
                TimelineState::Running => rows().any(|row| row.sum.on_cpu_ns > 0),
                TimelineState::NoCpu => rows().any(|row| row.sum.no_cpu_ns > 0),
                TimelineState::Blocked(_) | TimelineState::Idle | TimelineState::Sampled => true,
            };
            if !occurs || known.contains(&group) {
                continue;
            }
            known.push(group);
            let mark = theme.state_glyph(state);
            spans.push(Span::styled(mark, theme.state(state, None)));
            spans.push(Span::raw(format!(" {group}  ")));
        }
        spans
    }
}

/// Names of the colours, in the order of the stack.
const GROUPS: [&str; 6] = ["running", "no CPU", "lock", "I/O", "other waits", "idle"];

/// The name of a colour where there are few columns.
fn short_name(group: &'static str) -> &'static str {
    match group {
        "running" => "run",
        "other waits" => "wait",
        name => name,
    }
}

/// The name of the colour of a state.
fn group_of(state: TimelineState) -> &'static str {
    let group = match state {
        TimelineState::Running | TimelineState::Sampled => 0,
        TimelineState::NoCpu => 1,
        TimelineState::Blocked(Reason::Lock | Reason::Gil) => 2,
        TimelineState::Blocked(reason) if reason.is_io() => 3,
        TimelineState::Blocked(_) => 4,
        TimelineState::Idle => 5,
    };
    GROUPS[group]
}

/// Name of a state where a number follows the name.
pub(super) fn name_of(state: TimelineState) -> &'static str {
    match state {
        TimelineState::Running => "on-CPU",
        TimelineState::NoCpu => "no CPU",
        TimelineState::Blocked(reason) => reason.label(),
        TimelineState::Idle => "idle",
        TimelineState::Sampled => "sampled",
    }
}
