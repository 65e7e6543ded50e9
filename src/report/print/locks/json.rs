//! The part of `prof.report/2` that is about locks.

use crate::base::units::percent;
use crate::report::grouping::Grouping;
use crate::report::locks::table::{LockRow, LockRowKey, LockTable};
use crate::report::naming::style::NameStyle;
use crate::report::options::ReportOptions;
use crate::report::query::selection::Selection;
use serde::Serialize;

/// A row of a table of locks. The fields that rows of functions have, too, mean what they mean there.
#[derive(Debug, Serialize)]
pub(crate) struct LockFields {
    /// The lock, the function that waited, or the one that released it.
    function: String,
    module: String,
    #[serde(rename = "self")]
    own: u64,
    total: u64,
    samples: u64,
    self_pct: f64,
    total_pct: f64,
    threads: u64,
    kind: &'static str,
    /// `holder` where a thread holds the lock while others wait, else `signaller`.
    role: &'static str,
    called_by: Option<String>,
    /// The lock of most of the time.
    lock: LockJson,
    /// Number of different locks.
    locks: u64,
    wait_ns: u64,
    error_ns: u64,
    count: u64,
    mean_ns: u64,
    p99_ns: u64,
    longest_ns: u64,
    waiters: Vec<PartFields>,
    released_by: Vec<PartFields>,
}

#[derive(Debug, Serialize)]
struct LockJson {
    name: String,
    /// Process address, in hexadecimal.
    address: Option<String>,
    /// Process; `null` for a lock in shared memory.
    pid: Option<u32>,
    process: String,
    memory: Option<String>,
    /// Function that allocated the block that the lock is in; not there where that was not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_by: Option<String>,
    module: Option<String>,
    module_address: Option<u64>,
}

/// A part of a row: a place that waited, or one that released the lock.
#[derive(Debug, Serialize)]
struct PartFields {
    function: Option<String>,
    called_by: Option<String>,
    wait_ns: u64,
    share_pct: f64,
}

/// The rows of the table of locks.
pub(in crate::report::print) fn lock_rows(
    selection: &Selection<'_>,
    options: &ReportOptions,
    by: Grouping,
) -> Vec<LockFields> {
    let table = LockTable::new(selection, by);
    let shown = table.shown(options.limits_for_programs(), selection.base());
    let names = options.common.names_for_programs();
    shown.iter().map(|row| fields(selection, row, names)).collect()
}

fn fields(selection: &Selection<'_>, row: &LockRow, names: NameStyle) -> LockFields {
    let share = percent(row.amount.weight, selection.base().weight);
    let [function, called_by] = row.functions(&selection.labels, names);
    let lock = LockJson {
        name: row.lock_name(names),
        address: row.lock.address.map(|address| format!("{address:#x}")),
        pid: row.lock.pid,
        process: selection.profile.tables.string(row.lock.process).to_owned(),
        memory: row.name.memory.clone(),
        allocated_by: row.name.allocated_by.clone(),
        module: row.name.module.clone(),
        module_address: row.name.module_address,
    };
    let module = match &row.key {
        LockRowKey::Lock(_) => row.name.module.clone().unwrap_or_default(),
        LockRowKey::Waiter(site) => {
            site.labels()[0].map_or(String::new(), |label| selection.labels.get(label).module.clone())
        }
        LockRowKey::Releaser(..) => String::new(),
    };
    let is_lock = matches!(row.key, LockRowKey::Lock(_));
    let part = |function, called_by, wait_ns| PartFields {
        function,
        called_by,
        wait_ns,
        share_pct: row.share(wait_ns),
    };
    let label_name = |label| selection.labels.get(label).name_in(names).to_owned();
    LockFields {
        function: function
            .unwrap_or_else(|| if is_lock { lock.name.clone() } else { "[no stack]".to_owned() }),
        module,
        own: row.amount.weight,
        total: row.amount.weight,
        samples: row.amount.samples,
        self_pct: share,
        total_pct: share,
        threads: row.threads,
        kind: row.kind.word(),
        role: row.role(),
        called_by,
        lock,
        locks: row.locks,
        wait_ns: row.amount.weight,
        error_ns: row.amount.error_ns(),
        count: row.amount.count(),
        mean_ns: row.mean_ns,
        p99_ns: row.p99_ns,
        longest_ns: row.longest_ns,
        waiters: (row.waiters.iter())
            .map(|(site, time)| {
                let [function, caller] = site.labels().map(|label| label.map(label_name));
                part(function, caller, *time)
            })
            .collect(),
        released_by: (row.releasers.iter())
            .map(|(one, time)| part(Some(one.name_in(names)), one.caller_in(names), *time))
            .collect(),
    }
}
