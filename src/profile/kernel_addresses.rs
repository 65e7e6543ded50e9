//! Who may see the kernel's addresses, and with them its functions' names: what decides that, and what to change.

/// The settings that decide it, as they were when the recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressSettings {
    /// kernel.kptr_restrict
    pub kptr_restrict: u32,
    /// kernel.perf_event_paranoid
    pub perf_event_paranoid: i32,
    /// The recorder had CAP_SYSLOG.
    pub has_syslog: bool,
}

impl AddressSettings {
    /// The settings of the running kernel, if they can be read, for one who has CAP_SYSLOG or not.
    pub(crate) fn of_this_kernel(has_syslog: bool) -> Option<Self> {
        let read = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
        Some(AddressSettings {
            kptr_restrict: read("kptr_restrict")?.trim().parse().ok()?,
            perf_event_paranoid: read("perf_event_paranoid")?.trim().parse().ok()?,
            has_syslog,
        })
    }

    /// Which of them hides the addresses, for someone to whom they are hidden. With 0 the kernel shows them where
    /// perf_event_paranoid is 1 or lower, and with 0 and 1 to CAP_SYSLOG (kallsyms_show_value in kernel/ksyms_common.c).
    pub(crate) fn why_hidden(self) -> String {
        let AddressSettings { kptr_restrict, perf_event_paranoid, has_syslog } = self;
        let why = match (kptr_restrict, perf_event_paranoid) {
            (0 | 1, _) if has_syslog => {
                "neither hides them from CAP_SYSLOG: a container or the kernel's lockdown does"
            }
            (0, ..=1) => "neither hides them: a container or the kernel's lockdown does",
            (0, _) => "perf_event_paranoid above 1 hides them without CAP_SYSLOG",
            (1, _) => "kptr_restrict at 1 hides them without CAP_SYSLOG",
            _ => "kptr_restrict at 2 hides them from everyone, root included",
        };
        format!(
            "kernel.kptr_restrict is {kptr_restrict}, kernel.perf_event_paranoid is {perf_event_paranoid}; {why}"
        )
    }

    /// Advice on how to make hidden addresses visible.
    pub(crate) fn fix(self) -> &'static str {
        match (self.kptr_restrict, self.perf_event_paranoid) {
            (0 | 1, _) if self.has_syslog => {
                "start the container with --security-opt systempaths=unconfined (podman: unmask=ALL), or record outside of it"
            }
            (0, ..=1) => "record outside of the container, as root",
            (0, _) => {
                "record as root, give prof cap_syslog (prof doctor), or sudo sysctl kernel.perf_event_paranoid=1"
            }
            (1, _) => "record as root, or give prof cap_syslog (prof doctor)",
            _ => {
                "sudo sysctl kernel.kptr_restrict=1, and record as root or give prof cap_syslog (prof doctor)"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_settings_are_said_and_the_one_in_the_way_is_named() {
        for (kptr_restrict, perf_event_paranoid, why, fix) in [
            // Root in a container that hides /proc/kallsyms was advised to record as root.
            (0, 2, "neither hides them from CAP_SYSLOG", "systempaths=unconfined"),
            (0, 1, "neither hides them", "outside of the container"),
            (
                0,
                2,
                "perf_event_paranoid above 1 hides them without CAP_SYSLOG",
                "kernel.perf_event_paranoid=1",
            ),
            (1, 1, "kptr_restrict at 1 hides them without CAP_SYSLOG", "give prof cap_syslog"),
            (1, 3, "kptr_restrict at 1 hides them without CAP_SYSLOG", "give prof cap_syslog"),
            (2, -1, "from everyone, root included", "kernel.kptr_restrict=1"),
        ] {
            let has_syslog = why.ends_with("from CAP_SYSLOG");
            let settings = AddressSettings { kptr_restrict, perf_event_paranoid, has_syslog };
            let said = settings.why_hidden();
            assert!(said.contains(&format!("kptr_restrict is {kptr_restrict}")), "{said}");
            assert!(said.contains(&format!("perf_event_paranoid is {perf_event_paranoid}")), "{said}");
            assert!(said.contains(why), "{said}");
            assert!(settings.fix().contains(fix), "{}", settings.fix());
        }
    }
}
