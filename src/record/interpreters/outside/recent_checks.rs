//! Checks of code objects, which are not repeated for each sample: by the rule of the kernel side (`PROF_CODE_CHECKS`).

use crate::bpf::number;
use rustc_hash::FxHashMap;

/// Code objects that are remembered.
const MOST_CODES: usize = 16_384;
const MS_NS: u64 = 1_000_000;

/// What tells a code object from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeCheck {
    /// 0: it could not be read, or is no code object.
    pub(super) value: u32,
    /// It was made with this sample, not before it.
    pub(super) is_new: bool,
}

/// The last check of a code object.
#[derive(Debug, Default)]
struct RecentCheck {
    value: u32,
    /// So often it was the same, at different milliseconds.
    times: u64,
    made_ns: u64,
}

/// Checks of the code objects of one process, by address.
#[derive(Debug, Default)]
pub(super) struct RecentChecks {
    checks: FxHashMap<u64, RecentCheck>,
    /// When code objects were sent with their memory, ns, by address and check.
    sent: FxHashMap<(u64, u32), u64>,
}

impl RecentChecks {
    /// Has the check of the code object at `code` be made again.
    pub(super) fn forget(&mut self, code: u64) {
        self.checks.remove(&code);
    }

    /// Whether the memory of a code object that may be gone soon is to be sent with a sample: now and then, since a sample may
    /// not be believed.
    pub(super) fn is_to_be_sent(&mut self, code: u64, check: u32, now_ns: u64) -> bool {
        if self.sent.len() >= MOST_CODES {
            self.sent.clear();
        }
        let sent_ns = self.sent.get(&(code, check)).copied();
        let is_due = sent_ns
            .is_none_or(|sent_ns| now_ns.saturating_sub(sent_ns) >= number::PROF_CODE_CHECK_MS * MS_NS);
        if is_due {
            self.sent.insert((code, check), now_ns);
        }
        is_due
    }

    /// The check of the code object at `code`, at a time in ns; `make` makes one.
    pub(super) fn check(&mut self, code: u64, now_ns: u64, make: impl FnOnce() -> Option<u32>) -> CodeCheck {
        if self.checks.len() >= MOST_CODES {
            self.checks.clear();
        }
        let known = self.checks.entry(code).or_default();
        let is_certain = known.times >= number::PROF_CODE_CHECKS;
        if is_certain && now_ns.saturating_sub(known.made_ns) < number::PROF_CODE_CHECK_MS * MS_NS {
            return CodeCheck { value: known.value, is_new: false };
        }
        let value = make().unwrap_or(0);
        if value != known.value || value == 0 {
            *known = RecentCheck { value, times: 0, made_ns: now_ns };
        } else if now_ns.saturating_sub(known.made_ns) >= MS_NS {
            known.times += 1;
            known.made_ns = now_ns;
        }
        CodeCheck { value, is_new: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_object_is_sent_now_and_then() {
        let mut checks = RecentChecks::default();
        let mut is_sent = |check, now_ms: u64| checks.is_to_be_sent(8, check, now_ms * MS_NS);
        let later = number::PROF_CODE_CHECK_MS;
        assert!(is_sent(1, 0) && is_sent(2, 0), "two of them");
        assert!(!is_sent(1, later - 1) && is_sent(1, later));
    }

    #[test]
    fn a_code_object_is_trusted_once_it_was_the_same_for_long_and_not_for_ever() {
        let mut checks = RecentChecks::default();
        let mut now_ns = MS_NS;
        for _ in 0..=number::PROF_CODE_CHECKS {
            assert!(checks.check(8, now_ns, || Some(5)).is_new);
            now_ns += MS_NS;
        }
        assert_eq!(checks.check(8, now_ns, || Some(6)), CodeCheck { value: 5, is_new: false });
        now_ns += number::PROF_CODE_CHECK_MS * MS_NS;
        assert_eq!(checks.check(8, now_ns, || Some(6)), CodeCheck { value: 6, is_new: true }, "another one");
        assert!(checks.check(8, now_ns + MS_NS, || Some(6)).is_new, "it has to be the same for long again");
        assert_eq!(checks.check(9, now_ns, || None), CodeCheck { value: 0, is_new: true });
        checks.forget(8);
        assert_eq!(checks.check(8, now_ns, || Some(7)), CodeCheck { value: 7, is_new: true });
    }
}
