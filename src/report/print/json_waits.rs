//! Parts of `prof.report/2` that are about waits.

use crate::base::units::percent;
use crate::profile::{Reason, WakerKind};
use crate::report::model::label::LabelId;
use crate::report::model::totals::{Times, Totals};
use crate::report::naming::name;
use crate::report::naming::style::NameStyle;
use crate::report::options::ReportOptions;
use crate::report::query::same_path::short_waits_name_of;
use crate::report::query::selection::Selection;
use crate::report::waits::hidden_idle::{HiddenIdle, IdlePlace};
use crate::report::waits::site::WaitSite;
use crate::report::waits::table::{WaitRow, WaitTable};
use crate::report::waits::waker::WokenBy;
use serde::Serialize;

/// Where the whole time of threads went.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TotalsFields {
    threads: u64,
    lifetime_ns: u64,
    pub(crate) on_cpu_ns: u64,
    pub(crate) no_cpu_ns: u64,
    pub(crate) blocked_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) unaccounted_ns: i64,
    sampled_on_cpu_ns: u64,
    /// The times are the scheduler's, in a sum over all threads but for those of which it has none.
    is_by_scheduler: bool,
    /// Of the threads those whose times are sums of samples and waits: kernel threads, for one.
    threads_by_samples: u64,
    /// Threads that were there at the start and of whose time there is no account.
    #[serde(skip_serializing_if = "is_zero")]
    threads_unaccounted: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TotalsFields {
    pub(crate) fn of(totals: &Totals) -> Self {
        let threads = totals.threads.len() as u64;
        let sum = Self::of_times(&totals.times, threads, totals.threads_by_samples());
        let threads_unaccounted = totals.unaccounted_threads;
        TotalsFields { is_by_scheduler: totals.is_by_scheduler, threads_unaccounted, ..sum }
    }

    pub(super) fn of_times(times: &Times, threads: u64, threads_by_samples: u64) -> Self {
        TotalsFields {
            threads,
            lifetime_ns: times.lifetime_ns,
            on_cpu_ns: times.on_cpu_ns,
            no_cpu_ns: times.no_cpu_ns,
            blocked_ns: times.blocked_ns(),
            idle_ns: times.idle_ns(),
            unaccounted_ns: times.unaccounted_ns(),
            sampled_on_cpu_ns: times.sampled_ns,
            is_by_scheduler: threads_by_samples == 0,
            threads_by_samples,
            threads_unaccounted: 0,
        }
    }
}

/// A row of the table of waits. The fields that rows of functions have, too, mean what they mean there.
#[derive(Debug, Serialize)]
pub(crate) struct WaitFields {
    function: String,
    raw_name: String,
    module: String,
    file: Option<String>,
    line: Option<u32>,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    samples: u64,
    self_pct: f64,
    self_error_pct: f64,
    total_pct: f64,
    threads: u64,
    reason: &'static str,
    wait_ns: u64,
    error_ns: u64,
    /// Of the time and of the number what is idle; 0 without `--idle`, where such waits are in no row.
    idle_ns: u64,
    idle_count: u64,
    count: u64,
    mean_ns: u64,
    p99_ns: Option<u64>,
    longest_ns: Option<u64>,
    call: Option<String>,
    called_by: Option<String>,
    woken_by: Vec<WakerFields>,
}

#[derive(Debug, Serialize)]
struct WakerFields {
    kind: &'static str,
    name: String,
    thread: String,
    function: Option<String>,
    share_pct: f64,
}

/// Idle waits that are in no row.
#[derive(Debug, Serialize)]
pub(crate) struct HiddenIdleFields {
    wait_ns: u64,
    count: u64,
    places: Vec<IdlePlaceFields>,
}

#[derive(Debug, Serialize)]
struct IdlePlaceFields {
    function: String,
    reason: &'static str,
    wait_ns: u64,
    count: u64,
}

impl HiddenIdleFields {
    pub(crate) fn of(hidden: &HiddenIdle, names: NameStyle) -> Self {
        let place = |place: &IdlePlace| IdlePlaceFields {
            function: name::in_style(&place.function, names).into_owned(),
            reason: place.reason.label(),
            wait_ns: place.amount.weight,
            count: place.amount.count(),
        };
        HiddenIdleFields {
            wait_ns: hidden.amount.weight,
            count: hidden.amount.count(),
            places: hidden.places.iter().map(place).collect(),
        }
    }
}

/// The rows of the table of waits.
pub(super) fn wait_rows(selection: &Selection<'_>, options: &ReportOptions) -> Vec<WaitFields> {
    let table = WaitTable::new(selection, options.sort);
    let shown = table.shown(options.limits_for_programs(), options.sort, selection.base());
    let names = options.common.names_for_programs();
    shown.iter().map(|row| fields(selection, row, names)).collect()
}

fn fields(selection: &Selection<'_>, row: &WaitRow, names: NameStyle) -> WaitFields {
    let total = selection.base().weight;
    let label = |label: LabelId| selection.labels.get(label);
    let [place, called_by] = row.site.labels();
    let place = place.map(label);
    let function = place.map_or_else(|| place_name(selection, row), |label| label.name_in(names).to_owned());
    let line = place.and_then(|label| label.line.as_ref());
    let share = percent(row.amount.weight, total);
    WaitFields {
        raw_name: place.map_or_else(|| function.clone(), |label| label.raw_name.clone()),
        function,
        module: place.map_or(String::new(), |label| label.module.clone()),
        file: line.map(|source| source.file.clone()),
        line: line.map(|source| source.line).filter(|line| *line > 0),
        own: row.amount.weight,
        total: row.amount.weight,
        samples: row.amount.samples,
        self_pct: share,
        self_error_pct: selection.error_points(row.amount),
        total_pct: share,
        threads: row.threads,
        reason: row.reason.label(),
        wait_ns: row.amount.weight,
        error_ns: row.amount.error_ns(),
        idle_ns: row.idle.weight,
        idle_count: row.idle.count(),
        count: row.amount.count(),
        mean_ns: row.mean_ns,
        p99_ns: row.p99_ns,
        longest_ns: row.longest_ns,
        call: row.call.map(|call| label(call).name_in(names).to_owned()),
        called_by: called_by.map(|caller| label(caller).name_in(names).to_owned()),
        woken_by: row.woken_by.iter().map(|waker| waker_fields(waker, names)).collect(),
    }
}

/// Replaces the function of a site that has none.
pub(super) fn place_name(selection: &Selection<'_>, row: &WaitRow) -> String {
    match row.site {
        WaitSite::Call { .. } if row.reason == Reason::Fault => "[page fault]".to_owned(),
        WaitSite::Call { .. } => "[no stack]".to_owned(),
        WaitSite::NoCpu => "[no CPU]".to_owned(),
        WaitSite::Short => format!("[{}]", short_waits_name_of(&selection.shown, row.mean_ns)),
    }
}

fn waker_fields(waker: &WokenBy, names: NameStyle) -> WakerFields {
    WakerFields {
        kind: match waker.kind {
            WakerKind::Thread => "thread",
            WakerKind::SoftInterrupt => "softirq",
            WakerKind::Interrupt => "interrupt",
            _ => "unknown",
        },
        name: waker.name_in(names).into_owned(),
        thread: waker.thread.clone(),
        function: waker.function.as_deref().map(|function| name::in_style(function, names).into_owned()),
        share_pct: waker.share_percent,
    }
}
