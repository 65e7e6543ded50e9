//! The process that has started this one. A signal of the kernel at its end (PR_SET_PDEATHSIG) does not reach a process that has given up its
//! user: so it is asked for.

use rustix::process::{Pid, getppid};

/// The process that has started this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parent(Option<Pid>);

impl Parent {
    /// The one that this process has now.
    pub(crate) fn of_this() -> Self {
        Parent(getppid())
    }

    /// Whether it has ended: this process has another one now.
    pub(crate) fn has_ended(self) -> bool {
        getppid() != self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_lives_has_not_ended() {
        assert!(!Parent::of_this().has_ended());
        assert!(Parent(None).has_ended());
    }
}
