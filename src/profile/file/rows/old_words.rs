//! Facts that files of versions up to 0.1.0 have in words only; newer files have a field for each.

use crate::profile::contents::End;

/// The limit that the rule of an event names, ns: 1,000 for `waits of 1us and more`. 0 if it
/// names none.
pub(in crate::profile::file) fn limit_in_words(rule: &str) -> u64 {
    let limit = rule.split_once(" and more").and_then(|(limit, _)| limit.rsplit_once("of "));
    let limit = limit.and_then(|(_, limit)| humantime::parse_duration(limit).ok());
    limit.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}

/// Whether the event that drove the sampling was a timer.
pub(super) fn is_timer(clock: &str) -> bool {
    matches!(clock, "cpu-clock" | "task-clock")
}

/// Why waits were not recorded although they were asked for, if one of the notices says so.
pub(super) fn why_no_waits(notices: &[String]) -> Option<String> {
    let words = ["not while it waits", "off-CPU time is not"];
    notices.iter().find(|notice| words.iter().any(|words| notice.contains(words))).cloned()
}

/// Whether a recording ended because its file could not be written on.
pub(super) fn is_failed_write(reason: &str) -> bool {
    reason.starts_with(End::WRITING_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_old_files_is_in_the_rule() {
        assert_eq!(limit_in_words("waits of 1us and more"), 1_000);
        let share = "waits of 2ms 500us and more, as many as 0.5% of each CPU's time allow";
        assert_eq!(limit_in_words(share), 2_500_000);
        for rule in [
            "",
            "every wait",
            "waits of and more",
            "waits of 1parsec and more",
            "of 99999999999999y and more",
        ] {
            assert_eq!(limit_in_words(rule), 0, "{rule}");
        }
    }

    #[test]
    fn other_facts_of_old_files_are_in_their_words() {
        assert!(is_timer("cpu-clock") && is_timer("task-clock") && !is_timer("cycles") && !is_timer(""));
        let notice = |text: &str| vec!["frames are cut".to_owned(), text.to_owned()];
        for why in [
            "kthreadd (pid 2) is of the kernel: it is recorded while it runs, not while it waits",
            "off-CPU time is not recorded: no BTF",
        ] {
            assert_eq!(why_no_waits(&notice(why)).as_deref(), Some(why));
        }
        assert_eq!(why_no_waits(&notice("another")), None);
        assert!(is_failed_write("writing the file failed: no space left on device"));
        assert!(!is_failed_write("duration reached"));
    }
}
