//! The futex that a thread slept on.

use super::layout::number;

/// Futex of a wait, and the operation by which the thread waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FutexWait {
    /// Process address of the futex; of several, the first. `None` where it is not known.
    pub(crate) address: Option<u64>,
    /// Command and flags: `prof_wait.futex`.
    operation: u8,
}

impl FutexWait {
    /// By the fields of a `struct prof_wait`; `None` for a wait in something else.
    pub(super) fn of(operation: u8, address: u64) -> Option<Self> {
        let is_futex = u64::from(operation) != number::PROF_FUTEX_NONE;
        is_futex.then_some(FutexWait { address: Some(address).filter(|address| *address != 0), operation })
    }

    /// Name of the command, as in `futex(2)`, in lower case.
    pub(crate) fn command(self) -> &'static str {
        match self.operation {
            _ if self.is_vector() => "waitv",
            operation => match u64::from(operation) & !number::PROF_FUTEX_PRIVATE {
                0 => "wait",
                6 => "lock_pi",
                9 => "wait_bitset",
                11 => "wait_requeue_pi",
                13 => "lock_pi2",
                _ => "other",
            },
        }
    }

    fn is_vector(self) -> bool {
        u64::from(self.operation) == number::PROF_FUTEX_VECTOR
    }

    #[cfg(test)]
    pub(crate) fn private_wait(address: u64) -> Self {
        FutexWait { address: Some(address), operation: number::PROF_FUTEX_PRIVATE as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_names_of_the_manual() {
        let command = |operation| FutexWait::of(operation, 0x10).unwrap().command();
        assert_eq!([command(0), command(0x80), command(0x89)], ["wait", "wait", "wait_bitset"]);
        assert_eq!([command(0x86), command(0x0d), command(0x7f)], ["lock_pi", "lock_pi2", "waitv"]);
        assert_eq!(FutexWait::of(0xff, 0), None);
        assert_eq!(FutexWait::of(0x7f, 0).unwrap().address, None);
    }
}
