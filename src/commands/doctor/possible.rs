//! What can be recorded here: processes of one's own, and the whole machine.

use super::check::{Check, CheckVerdict};
use crate::record::{Refusal, lacks_capability, try_all_processes};

/// Names of these checks.
const OWN: &str = "own processes";
const SYSTEM: &str = "whole system";

/// Whether processes of one's own can be recorded, when nothing of these checks has failed.
pub(super) fn own_processes(checks: &[Check]) -> Check {
    let is_without_programs =
        checks.iter().any(|check| check.name == "programs" && check.verdict == CheckVerdict::Warn);
    let how = if is_without_programs { "by perf events" } else { "by BPF programs" };
    Check::new(OWN, CheckVerdict::Ok, format!("yes, {how}: prof record CMD, prof record -p PID"))
}

/// Whether all processes can be recorded: tries an event of a CPU, while all rights are in effect.
pub(super) fn whole_system() -> Check {
    let Err(error) = try_all_processes() else {
        let others = if lacks_capability("CAP_SYS_PTRACE") { "" } else { ", and processes of other users" };
        return Check::new(SYSTEM, CheckVerdict::Ok, format!("yes{others}: prof record -a"));
    };
    let refusal = Refusal::of_self();
    let why = match &refusal {
        Refusal::Unknown => error.to_string(),
        known => known.why(),
    };
    let check = Check::new(
        SYSTEM,
        CheckVerdict::Warn,
        format!("no, nor processes of other users (-a, -p PID): {why}"),
    );
    match refusal.cures().into_iter().next() {
        Some((_, cure)) => check.fix(cure),
        None => check,
    }
}

/// Whether all processes can be recorded, if that was tried.
pub(super) fn works_for_all(checks: &[Check]) -> Option<bool> {
    let check = checks.iter().find(|check| check.name == SYSTEM)?;
    Some(check.verdict == CheckVerdict::Ok)
}

/// What works, in a line.
pub(super) fn verdict(checks: &[Check]) -> String {
    let has_fix = checks.iter().any(|check| check.name == SYSTEM && check.fix.is_some());
    match works_for_all(checks) {
        None => "prof works here".to_owned(),
        Some(true) => "prof works here, for all processes (-a)".to_owned(),
        Some(false) if has_fix => {
            "prof works here for your own processes only; for all processes (-a) see the fix above".to_owned()
        }
        Some(false) => "prof works here for your own processes only".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_rights_is_not_said_to_record_everything() {
        let all = |verdict, programs| {
            let mut checks = vec![Check::new("programs", programs, "")];
            checks.push(own_processes(&checks));
            checks.push(Check::new(SYSTEM, verdict, ""));
            checks
        };
        let user = all(CheckVerdict::Warn, CheckVerdict::Warn);
        assert!(
            verdict(&user).starts_with("prof works here for your own processes only"),
            "{}",
            verdict(&user)
        );
        assert!(user[1].detail.starts_with("yes, by perf events"), "{:?}", user[1]);
        assert_eq!(works_for_all(&user), Some(false));
        let root = all(CheckVerdict::Ok, CheckVerdict::Ok);
        assert_eq!(verdict(&root), "prof works here, for all processes (-a)");
        assert!(root[1].detail.starts_with("yes, by BPF programs"), "{:?}", root[1]);
        assert_eq!((works_for_all(&root), works_for_all(&[])), (Some(true), None));
    }

    #[test]
    fn what_is_refused_is_said_with_its_cure() {
        // Tests run with any rights.
        let check = whole_system();
        assert_eq!(check.verdict == CheckVerdict::Ok, check.detail.starts_with("yes"), "{check:?}");
    }
}
