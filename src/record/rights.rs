//! What this process may do, and how to say that it may not.

use super::namespaces::{self, Kind, Place};
use super::seccomp;
use crate::failure::{Failure, status};
use std::path::Path;

/// A capability, by its bit number (capabilities(7)).
type Capability = (u32, &'static str);

/// Capabilities that a recording needs.
const NEEDED: [Capability; 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
/// Those by which it sees more, and what.
const USEFUL: [(Capability, &str); 4] = [
    ((19, "CAP_SYS_PTRACE"), "code and names of other users' processes, and of other containers'"),
    ((34, "CAP_SYSLOG"), "names in the kernel"),
    ((2, "CAP_DAC_READ_SEARCH"), "files that only their owner may read"),
    ((40, "CAP_CHECKPOINT_RESTORE"), "code of files that were deleted or replaced"),
];
const CAP_SYS_ADMIN: u32 = 21;

/// What the container has to be started with, for the container engines that there are.
pub const CONTAINER_OPTIONS: &str = "--cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE --cap-add SYSLOG";

/// The value of a field of /proc/self/status, with its colon.
pub(super) fn status_field(name: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
}

/// The effective capabilities of this process as a bit mask.
fn effective_capabilities() -> u64 {
    let mask = status_field("CapEff:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0)
}

/// The needed capabilities that are missing.
pub fn missing_capabilities() -> Vec<&'static str> {
    missing_of(effective_capabilities())
}

fn missing_of(held: u64) -> Vec<&'static str> {
    if held & 1 << CAP_SYS_ADMIN != 0 {
        return Vec::new();
    }
    NEEDED.iter().filter(|(bit, _)| held & 1 << bit == 0).map(|(_, name)| *name).collect()
}

/// The capabilities that are missing and not needed, with what is not seen without each.
pub fn missing_useful_capabilities() -> Vec<(&'static str, &'static str)> {
    let held = effective_capabilities();
    let has = |bit: u32| held & 1 << bit != 0;
    let missing = USEFUL.iter().filter(|((bit, name), _)| {
        // The strong one stands in for this one only.
        let stronger = *name == "CAP_CHECKPOINT_RESTORE" && has(CAP_SYS_ADMIN);
        !has(*bit) && !stronger
    });
    missing.map(|((_, name), what)| (*name, *what)).collect()
}

/// Whether this process is in a container, by what those of Docker, Podman, Kubernetes and systemd have in common.
pub fn is_in_container() -> bool {
    let is_other = |kind| matches!(namespaces::own(kind), Place::Other(_));
    is_other(Kind::Pid)
        || is_other(Kind::Cgroup)
        || ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"]
            .iter()
            .any(|file| Path::new(file).exists())
}

/// Why the kernel refuses BPF programs and perf events.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Capabilities count in the initial user namespace only.
    UserNamespace,
    /// These are missing.
    Capabilities(Vec<&'static str>),
    /// A filter refuses these system calls.
    Seccomp(Vec<&'static str>),
    /// `kernel.perf_event_paranoid` has this value, which only CAP_SYS_ADMIN is above.
    Paranoid(i32),
    /// By none of these.
    Unknown,
}

impl Refusal {
    /// For this process, which was refused something.
    pub fn of_self() -> Self {
        if matches!(namespaces::own(Kind::User), Place::Other(_)) {
            return Refusal::UserNamespace;
        }
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Refusal::Capabilities(missing);
        }
        let filtered = seccomp::filtered_calls();
        if !filtered.is_empty() {
            return Refusal::Seccomp(filtered);
        }
        match paranoia() {
            Some(value) if value > 2 && effective_capabilities() & 1 << CAP_SYS_ADMIN == 0 => {
                Refusal::Paranoid(value)
            }
            _ => Refusal::Unknown,
        }
    }

    /// The reason, in words that can follow a colon.
    pub fn why(&self) -> String {
        match self {
            Refusal::UserNamespace => {
                "prof runs in a user namespace, whose capabilities count for neither BPF programs nor perf events".to_owned()
            }
            Refusal::Capabilities(missing) => format!("{} missing", missing.join(" and ")),
            Refusal::Seccomp(calls) => format!("a seccomp filter refuses {}", calls.join(" and ")),
            Refusal::Paranoid(value) => {
                format!("kernel.perf_event_paranoid is {value}, which asks for CAP_SYS_ADMIN")
            }
            Refusal::Unknown => "the kernel refused (lockdown or another security module does that)".to_owned(),
        }
    }

    /// What to do, most useful first; each where or how, and what.
    pub fn cures(&self) -> Vec<(&'static str, String)> {
        let is_root = rustix::process::geteuid().is_root();
        match self {
            Refusal::UserNamespace => vec![
                ("now", "run the same command outside of it, as root".to_owned()),
                ("rootful", format!("sudo podman run … or docker run --userns=host …, with {CONTAINER_OPTIONS}")),
            ],
            Refusal::Capabilities(_) if is_in_container() => vec![
                ("container", format!("start it with {CONTAINER_OPTIONS}")),
                ("host", "or run prof there: it sees the processes of all containers".to_owned()),
            ],
            Refusal::Capabilities(_) if is_root => {
                let who = "a service (CapabilityBoundingSet=), setpriv or capsh has taken them from root: run prof outside";
                vec![("now", who.to_owned())]
            }
            Refusal::Capabilities(_) => vec![
                ("now", "run the same command with sudo".to_owned()),
                ("lasting", "sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_checkpoint_restore+ep $(which prof)".to_owned()),
            ],
            Refusal::Seccomp(_) => vec![
                ("container", "start it with --security-opt seccomp=unconfined, or with a profile that allows both".to_owned()),
                ("service", "SystemCallFilter=bpf perf_event_open".to_owned()),
            ],
            Refusal::Paranoid(_) => vec![("now", sysctl_advice("kernel.perf_event_paranoid=2"))],
            Refusal::Unknown => Vec::new(),
        }
    }
}

/// The value of `kernel.perf_event_paranoid`.
fn paranoia() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// How a setting of the kernel is changed from here: in a container /proc/sys is read-only, as a rule.
pub fn sysctl_advice(setting: &str) -> String {
    if is_sysctl_read_only() {
        format!("on the host: sudo sysctl {setting}")
    } else {
        format!("sudo sysctl {setting}")
    }
}

/// Whether /proc/sys cannot be written.
pub fn is_sysctl_read_only() -> bool {
    rustix::fs::statvfs("/proc/sys")
        .is_ok_and(|about| about.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// A failure of `what` because a right is missing; names the right and the ways to get it.
pub(super) fn not_permitted(what: &str) -> Failure {
    let refusal = Refusal::of_self();
    let failure = Failure::new(status::NOT_PERMITTED, format!("{what}: {}", refusal.why()));
    let cures = refusal.cures().into_iter().chain([("details", "prof doctor".to_owned())]);
    cures.fold(failure, |failure, (place, cure)| failure.hint(format!("{:<11}{cure}", format!("{place}:"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_capability_has_both_new_ones() {
        assert_eq!(missing_of(1 << CAP_SYS_ADMIN), [""; 0]);
        assert_eq!(missing_of(1 << 39), ["CAP_PERFMON"]);
        assert_eq!(missing_of(0), ["CAP_PERFMON", "CAP_BPF"]);
    }

    #[test]
    fn every_reason_but_the_unknown_has_a_cure() {
        let known = [
            Refusal::UserNamespace,
            Refusal::Capabilities(vec!["CAP_BPF"]),
            Refusal::Seccomp(vec!["bpf"]),
            Refusal::Paranoid(3),
        ];
        for refusal in known {
            assert!(!refusal.cures().is_empty(), "{refusal:?}");
        }
        assert_eq!(
            Refusal::Seccomp(vec!["perf_event_open", "bpf"]).why(),
            "a seccomp filter refuses perf_event_open and bpf"
        );
    }
}
