//! Where a thread waited, in a few words: the program's own function that made the call, and its caller.

use super::code::is_own;
use super::group::Activity;
use super::label::{LabelId, LabelKind, Labels, Step};
use crate::profile::Reason;

/// A place where threads wait. Waits with one site are one row of a table of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitSite {
    /// In a call of `blocked_in`, the innermost function that is the program's own, which `called_by` had called, the
    /// next of its own. Where a stack has none of the program's own, the innermost function that says something.
    Call {
        /// The function; `None` for a page fault, which is no call.
        blocked_in: Option<LabelId>,
        /// Its caller.
        called_by: Option<LabelId>,
    },
    /// Nowhere: ready to run, on any stack.
    NoCpu,
    /// In waits that were too short to have a stack.
    Short,
}

/// Finds the sites of paths.
#[derive(Debug)]
pub(super) struct WaitSites<'l> {
    labels: &'l Labels,
    is_own: Vec<bool>,
}

impl<'l> WaitSites<'l> {
    pub(super) fn new(labels: &'l Labels) -> Self {
        let is_own = labels.iter().map(|label| is_own(label.kind, &label.module, &label.name)).collect();
        WaitSites { labels, is_own }
    }

    /// The site of a wait whose steps, root first, are `path`.
    pub(super) fn of(&self, path: &[Step], activity: Activity) -> WaitSite {
        match activity {
            Activity::WaitingShortly(_) => return WaitSite::Short,
            Activity::Waiting(Reason::NoCpu) => return WaitSite::NoCpu,
            _ => {}
        }
        let mut own = (path.iter().rev()).map(|step| step.label).filter(|label| self.is_own[label.index()]);
        let first = own.next();
        if activity == Activity::Waiting(Reason::Fault) {
            return WaitSite::Call { blocked_in: None, called_by: first.or_else(|| self.fallback(path)) };
        }
        // A function that calls itself is its own caller only in a sense that nobody asked for.
        let called_by = own.find(|label| Some(*label) != first);
        WaitSite::Call { blocked_in: first.or_else(|| self.fallback(path)), called_by }
    }

    /// The innermost function outside of the kernel: the call that blocked.
    pub(super) fn call(&self, path: &[Step]) -> Option<LabelId> {
        let is_call = |label: &LabelId| {
            matches!(self.kind(*label), LabelKind::Program | LabelKind::Library | LabelKind::Jit)
        };
        path.iter().rev().map(|step| step.label).find(is_call)
    }

    /// The innermost step that says something: of user code, else of the kernel, else whatever there is.
    fn fallback(&self, path: &[Step]) -> Option<LabelId> {
        let mut steps = path.iter().rev().map(|step| step.label);
        let says_where = |label: &LabelId| {
            self.kind(*label) == LabelKind::Kernel && !self.labels.get(*label).name.contains("schedule")
        };
        let is_reason = |label: &LabelId| matches!(self.kind(*label), LabelKind::Wait(_));
        (self.call(path))
            .or_else(|| steps.clone().find(says_where))
            .or_else(|| steps.find(|label| !is_reason(label)))
    }

    fn kind(&self, label: LabelId) -> LabelKind {
        self.labels.get(label).kind
    }
}
