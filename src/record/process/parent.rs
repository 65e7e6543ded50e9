//! The process that has started this one. A signal of the kernel at its end (PR_SET_PDEATHSIG) does not reach a process that has given up its
//! user: so it is asked for.

use rustix::process::{Pid, getppid};

/// The process that has started this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parent(Option<Pid>);

impl Parent {
    /// The one with this number, as it has said itself: it may have ended before this process could ask.
    pub(crate) fn of(pid: u32) -> Self {
        Parent(i32::try_from(pid).ok().and_then(Pid::from_raw))
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
        assert!(!Parent::of(std::os::unix::process::parent_id()).has_ended());
        assert!(Parent::of(std::process::id()).has_ended(), "it is no child of itself");
        assert!(Parent(None).has_ended());
    }
}
