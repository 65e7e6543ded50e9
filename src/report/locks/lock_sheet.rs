//! The table of locks of a screen: it has the names of its rows, and outlives the selection that they are of.

use super::ChargedTo;
use super::lock_waits::only_locks;
use super::place::LockKey;
use super::table::{LockRow, LockRowKey, LockTable};
use crate::base::failure::Failure;
use crate::profile::{EventKind, FUTEX_LABEL, LOCK_LABEL, Profile, Reason};
use crate::report::analysis::Analysis;
use crate::report::grouping::Grouping;
use crate::report::model::label::Labels;
use crate::report::model::label_key::LabelKey;
use crate::report::naming::style::NameStyle;
use crate::report::options::{CommonOptions, FilterOptions, LabelPattern, StackFilter, ThreadFilter};
use crate::report::query::selection::Selection;
use std::sync::Arc;

/// The table of the locks of a recording.
#[derive(Debug, Clone)]
pub(crate) struct LockSheet {
    /// What it was made of.
    recording: Arc<Analysis>,
    /// The waits for locks in it, with idle ones or without.
    locks: Arc<Analysis>,
    with_idle: bool,
    charged_to: ChargedTo,
    /// What a row is: a lock, or who waited, or who let go.
    pub(crate) by: Grouping,
    /// The rows, largest first.
    pub(crate) rows: Vec<LockLine>,
    /// Time of all of them, ns.
    pub(crate) wait_ns: u64,
}

/// One row with its names, which are foreign text.
#[derive(Debug, Clone)]
pub(crate) struct LockLine {
    pub(crate) row: LockRow,
    /// The lock of most of the time.
    pub(crate) lock: String,
    /// Functions that waited, or that let go, innermost first; of rows of locks none.
    pub(crate) functions: [Option<String>; 2],
    /// Places that waited, with the time of each, largest first.
    pub(crate) waiters: Vec<(String, u64)>,
    /// Who ended the waits, likewise.
    pub(crate) releasers: Vec<(String, u64)>,
    /// The functions that waited, of rows of such, innermost first.
    pub(crate) waited_in: Vec<LabelKey>,
}

/// Whether any wait says for which lock it was.
pub(crate) fn has_locks(profile: &Profile) -> bool {
    let is_of_waits = |kind: &EventKind| {
        [EventKind::OFF_CPU, EventKind::LOCK, EventKind::GOROUTINE_WAITS].iter().any(|one| kind.is(one))
    };
    let tables = &profile.tables;
    profile.events.iter().any(|event| is_of_waits(event.kind()) && !event.is_empty())
        && tables
            .label_sets()
            .iter()
            .flat_map(|set| set.iter())
            .any(|(key, _)| tables.string(*key) == FUTEX_LABEL)
}

impl LockSheet {
    /// The table of a recording by these options. `before` is what was shown before.
    ///
    /// # Errors
    ///
    /// When the recording has no waits for locks, or an option is wrong.
    pub(crate) fn new(
        recording: &Arc<Analysis>,
        common: &CommonOptions,
        by: Grouping,
        before: Option<&LockSheet>,
    ) -> Result<Self, Failure> {
        let with_idle = common.filter.idle;
        let charged_to = ChargedTo::of_table(by);
        let is_same = |sheet: &&LockSheet| {
            Arc::ptr_eq(&sheet.recording, recording)
                && (sheet.with_idle, sheet.charged_to) == (with_idle, charged_to)
        };
        let locks = match before.filter(is_same) {
            Some(known) => Arc::clone(&known.locks),
            None => Arc::new(only_locks(Analysis::clone(recording), charged_to, with_idle)?),
        };
        let mut options = CommonOptions { metric: None, locks: None, ..common.clone() };
        // Idle ones are gone. Among those that are left, others would look idle.
        options.filter.idle = true;
        let selection = Selection::new(&locks, locks.shown(None)?, &options)?;
        let table = LockTable::new(&selection, by);
        let rows = table.rows.into_iter().map(|row| LockLine::new(row, &selection.labels)).collect();
        let wait_ns = selection.total.weight;
        drop(selection);
        Ok(LockSheet { recording: Arc::clone(recording), locks, with_idle, charged_to, by, rows, wait_ns })
    }
}

impl LockLine {
    fn new(row: LockRow, labels: &Labels) -> Self {
        let style = NameStyle::Full;
        let with_caller = |function: String, caller: Option<String>| match caller {
            Some(caller) => format!("{function} < {caller}"),
            None => function,
        };
        let waiters = row.waiters.iter().map(|(site, time)| {
            let [function, caller] =
                site.labels().map(|label| label.map(|label| labels.get(label).name_in(style).to_owned()));
            (with_caller(function.unwrap_or_else(|| "[no stack]".to_owned()), caller), *time)
        });
        let releasers = (row.releasers.iter())
            .map(|(one, time)| (with_caller(one.name_in(style), one.caller_in(style)), *time));
        LockLine {
            lock: row.lock_name(style),
            functions: row.functions(labels, style),
            waiters: waiters.collect(),
            releasers: releasers.collect(),
            waited_in: match &row.key {
                LockRowKey::Waiter(site) => {
                    site.labels().into_iter().flatten().map(|label| labels.get(label).key()).collect()
                }
                LockRowKey::Lock(_) | LockRowKey::Releaser(..) => Vec::new(),
            },
            row,
        }
    }

    /// What the row is about, with the caller of a function. Foreign text.
    pub(crate) fn title(&self) -> String {
        match (&self.row.key, &self.functions) {
            (LockRowKey::Lock(_), _) => self.lock.clone(),
            (_, [Some(function), Some(caller)]) => format!("{function} < {caller}"),
            (_, [Some(function), None]) => function.clone(),
            (_, [None, _]) => "[no stack]".to_owned(),
        }
    }

    /// What tells it from other rows, in other pictures, too: the title, the process and the address of a lock, and whether who
    /// let go held one.
    pub(crate) fn identity(&self) -> LockIdentity {
        let (pid, address, is_held) = match &self.row.key {
            LockRowKey::Lock(lock) => (lock.pid, lock.address, true),
            LockRowKey::Waiter(_) => (None, None, true),
            LockRowKey::Releaser(_, is_held) => (None, None, *is_held),
        };
        (self.title(), pid, address, is_held)
    }

    /// Keeps only the waits of the row. False where nothing of it can be filtered by.
    pub(crate) fn keep_waits(&self, filter: &mut FilterOptions) -> bool {
        match &self.row.key {
            LockRowKey::Lock(LockKey { address: Some(address), pid, .. }) => {
                let value = format!("^{address:#x}$");
                filter.labels = vec![LabelPattern { key: LOCK_LABEL.to_owned(), value: Some(value) }];
                // The address means another lock in other processes.
                filter.threads.extend(pid.map(|pid| ThreadFilter::OfProcesses(vec![pid])));
            }
            LockRowKey::Waiter(_) if !self.waited_in.is_empty() => {
                filter.labels = vec![LabelPattern { key: LOCK_LABEL.to_owned(), value: None }];
                filter.stacks.extend(self.waited_in.iter().cloned().map(StackFilter::Focus));
            }
            _ => return false,
        }
        drop_other_waits(filter);
        true
    }
}

/// What tells a row from others.
pub(crate) type LockIdentity = (String, Option<u32>, Option<u64>, bool);

/// Keeps only waits for locks.
pub(crate) fn keep_lock_waits(filter: &mut FilterOptions) {
    if filter.labels.is_empty() {
        filter.labels = vec![LabelPattern { key: LOCK_LABEL.to_owned(), value: None }];
    }
    drop_other_waits(filter);
}

/// Drops what a table of locks does not count: waits that ended by their timeout, and time ready to run.
fn drop_other_waits(filter: &mut FilterOptions) {
    for reason in [Reason::Sleep, Reason::NoCpu] {
        let key =
            LabelKey::Named { name: format!("[{}]", reason.label()), module: String::new(), line: None };
        filter.stacks.push(StackFilter::Drop(key));
    }
}
