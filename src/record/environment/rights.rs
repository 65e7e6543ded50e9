//! The capabilities that a recording uses, what each of them buys, and how to say that one is missing.
//!
//! [`CAPABILITIES`] is the one list: README.md and the manual page of `prof record` have it from here (tests/man_pages.rs),
//! and so have errors and `prof doctor`.

use super::namespaces::{self, NamespaceKind, NamespacePlace};
use super::seccomp;
use crate::base::failure::{Failure, status};
use rustix::thread::{CapabilitySet, capabilities};
use std::path::Path;

/// Options with which a container has to be started, for the container engines that there are.
pub(crate) const CONTAINER_OPTIONS: &str =
    "--cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE --cap-add SYSLOG";

/// A capability that a recording uses.
#[derive(Debug, Clone, Copy)]
pub struct Capability {
    /// Name of the capability in capabilities(7).
    pub name: &'static str,
    /// The one bit.
    pub(crate) set: CapabilitySet,
    /// Use of the capability in a recording.
    pub buys: &'static str,
    /// Loss without the capability.
    pub without: &'static str,
}

/// Number of [`CAPABILITIES`] that no recording by BPF programs can do without; they come first.
const NEEDED: usize = 2;

/// Capabilities that a recording uses; root has all of them.
pub const CAPABILITIES: [Capability; 6] = [
    Capability {
        name: "CAP_BPF",
        set: CapabilitySet::BPF,
        buys: "loads the BPF programs",
        without: "perf events sample instead, and have less: own processes only, and no stacks of waits",
    },
    Capability {
        name: "CAP_PERFMON",
        set: CapabilitySet::PERFMON,
        buys: "samples CPUs and reads stacks, with kernel.perf_event_paranoid at 2 or lower",
        without: "the same",
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        set: CapabilitySet::SYS_PTRACE,
        buys: "reads the mappings of other users' processes",
        without: "other users' processes have no names and their stacks end early (on newer kernels only those in containers)",
    },
    Capability {
        name: "CAP_DAC_READ_SEARCH",
        set: CapabilitySet::DAC_READ_SEARCH,
        buys: "opens programs and libraries that only others may read",
        without: "programs that this user may not read have no names, and stacks in them end early",
    },
    Capability {
        name: "CAP_CHECKPOINT_RESTORE",
        set: CapabilitySet::CHECKPOINT_RESTORE,
        buys: "with the two above, opens mapped files that were deleted or replaced",
        without: "deleted and replaced files have no names, and stacks in them end early",
    },
    Capability {
        name: "CAP_SYSLOG",
        set: CapabilitySet::SYSLOG,
        buys: "reads the names of kernel functions",
        without: "kernel functions have no names, unless kernel.kptr_restrict is 0 and kernel.perf_event_paranoid 1 or lower",
    },
];

/// The rights that this process could put in effect.
fn permitted() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted)
}

/// Returns the capabilities among [`CAPABILITIES`] that `held` lacks.
fn missing(held: CapabilitySet) -> impl Iterator<Item = &'static Capability> {
    // Before Linux 5.8 CAP_SYS_ADMIN included some of them, and still does.
    let by_admin = match held.contains(CapabilitySet::SYS_ADMIN) {
        true => CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::CHECKPOINT_RESTORE,
        false => CapabilitySet::empty(),
    };
    CAPABILITIES.iter().filter(move |capability| !(held | by_admin).contains(capability.set))
}

/// The missing capabilities without which nothing can be recorded.
fn missing_needed(held: CapabilitySet) -> Vec<&'static str> {
    let needed =
        |capability: &&Capability| CAPABILITIES[..NEEDED].iter().any(|one| one.name == capability.name);
    missing(held).filter(needed).map(|capability| capability.name).collect()
}

/// Share of a recording's rights that this process has, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Every capability.
    All,
    /// Enough to record; this is lost.
    Some(String),
    /// Too few to record by BPF programs; these are missing.
    TooFew(String),
}

impl Rights {
    /// The rights of this process.
    pub(crate) fn of_this_process() -> Self {
        Rights::of(permitted())
    }

    fn of(held: CapabilitySet) -> Self {
        let needed = missing_needed(held);
        if !needed.is_empty() {
            return Rights::TooFew(format!("{} missing", needed.join(" and ")));
        }
        let lost: Vec<String> = missing(held)
            .map(|capability| format!("without {}: {}", capability.name, capability.without))
            .collect();
        if lost.is_empty() { Rights::All } else { Rights::Some(lost.join("; ")) }
    }
}

/// Whether this process lacks a capability of [`CAPABILITIES`], by its name. Those of a user namespace count for what is in it, which
/// the kernel's own data and CPUs are not.
pub(crate) fn lacks(name: &str) -> bool {
    is_in_user_namespace() || missing(permitted()).any(|capability| capability.name == name)
}

fn is_in_user_namespace() -> bool {
    matches!(namespaces::own(NamespaceKind::User), NamespacePlace::Other(_))
}

/// The commands that give a `prof` at `program` its capabilities, for members of the group `prof`: all who run it can look
/// into all processes.
pub(crate) fn lasting_fix(program: &str) -> String {
    let names: Vec<String> = CAPABILITIES.iter().map(|capability| capability.name.to_lowercase()).collect();
    format!(
        "sudo groupadd -f prof; sudo chgrp prof {program}; sudo chmod 0750 {program}; \
         sudo setcap {}+ep {program}; sudo usermod -aG prof $USER",
        names.join(",")
    )
}

/// The program's own path for a command line, or a way to find it where that needs quotes.
pub(crate) fn own_path() -> String {
    let is_plain =
        |path: &String| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
    std::env::current_exe()
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .filter(is_plain)
        .unwrap_or_else(|| "$(which prof)".to_owned())
}

/// Whether this process is in a container, by what those of Docker, Podman, Kubernetes and systemd have in common.
pub(crate) fn is_in_container() -> bool {
    let is_other = |kind| matches!(namespaces::own(kind), NamespacePlace::Other(_));
    is_other(NamespaceKind::Pid)
        || is_other(NamespaceKind::Cgroup)
        // A machine may be made of a container's files.
        || (is_other(NamespaceKind::Mount)
            && ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"]
                .iter()
                .any(|file| Path::new(file).exists()))
}

/// Why the kernel refuses BPF programs and perf events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Capabilities count in the initial user namespace only.
    UserNamespace,
    /// Some capabilities are missing.
    Capabilities(Vec<&'static str>),
    /// A filter refuses these system calls.
    Seccomp(Vec<&'static str>),
    /// `kernel.perf_event_paranoid` has this value, which only CAP_SYS_ADMIN is above.
    Paranoid(i32),
    /// The cause is none of these.
    Unknown,
}

impl Refusal {
    /// Finds the reason why this process was refused something.
    pub(crate) fn of_self() -> Self {
        if is_in_user_namespace() {
            return Refusal::UserNamespace;
        }
        let missing = missing_needed(permitted());
        if !missing.is_empty() {
            return Refusal::Capabilities(missing);
        }
        let filtered = seccomp::filtered_calls();
        if !filtered.is_empty() {
            return Refusal::Seccomp(filtered);
        }
        let settings = crate::profile::AddressSettings::of_this_kernel(!lacks("CAP_SYSLOG"));
        match settings.map(|settings| settings.perf_event_paranoid) {
            Some(value) if value > 2 && !permitted().contains(CapabilitySet::SYS_ADMIN) => {
                Refusal::Paranoid(value)
            }
            _ => Refusal::Unknown,
        }
    }

    /// The reason, in words that can follow a colon.
    pub(crate) fn why(&self) -> String {
        match self {
            Refusal::UserNamespace => {
                "prof runs in a user namespace, whose capabilities do not count for BPF programs".to_owned()
            }
            Refusal::Capabilities(missing) => format!("{} missing", missing.join(" and ")),
            Refusal::Seccomp(calls) => format!("a seccomp filter refuses {}", calls.join(" and ")),
            Refusal::Paranoid(value) => {
                format!("kernel.perf_event_paranoid is {value}, which asks for CAP_SYS_ADMIN")
            }
            Refusal::Unknown => {
                "the kernel refused (lockdown or another security module can cause that)".to_owned()
            }
        }
    }

    /// Advice on what to do, most useful first; each where or how, and what.
    pub(crate) fn cures(&self) -> Vec<(&'static str, String)> {
        let is_root = rustix::process::geteuid().is_root();
        match self {
            Refusal::UserNamespace => vec![
                ("now", "run the same command outside of it, as root".to_owned()),
                (
                    "rootful",
                    format!("sudo podman run … or docker run --userns=host …, with {CONTAINER_OPTIONS}"),
                ),
            ],
            Refusal::Capabilities(_) if is_in_container() => vec![
                ("container", format!("start it with {CONTAINER_OPTIONS}")),
                ("host", "or run prof there: it sees the processes of all containers".to_owned()),
            ],
            Refusal::Capabilities(_) if is_root => {
                let who = "a service (CapabilityBoundingSet=), setpriv or capsh removed them from root: run prof outside";
                vec![("now", who.to_owned())]
            }
            Refusal::Capabilities(_) => {
                vec![("now", "run prof with sudo".to_owned()), ("lasting", lasting_fix(&own_path()))]
            }
            Refusal::Seccomp(_) => vec![
                (
                    "container",
                    "start it with --security-opt seccomp=unconfined, or with a profile that allows both"
                        .to_owned(),
                ),
                ("service", "SystemCallFilter=bpf perf_event_open".to_owned()),
            ],
            Refusal::Paranoid(_) => vec![("now", sysctl_advice("kernel.perf_event_paranoid=2"))],
            Refusal::Unknown => Vec::new(),
        }
    }
}

/// Returns advice on changing a setting of the kernel from here: in a container /proc/sys is read-only, as a rule.
pub(crate) fn sysctl_advice(setting: &str) -> String {
    if is_sysctl_read_only() {
        format!("on the host: sudo sysctl {setting}")
    } else {
        format!("sudo sysctl {setting}")
    }
}

/// Whether /proc/sys cannot be written.
pub(crate) fn is_sysctl_read_only() -> bool {
    rustix::fs::statvfs("/proc/sys")
        .is_ok_and(|about| about.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// A failure of `what` because a right is missing; names the right and the ways to get it.
pub(crate) fn not_permitted(what: &str) -> Failure {
    let refusal = Refusal::of_self();
    let failure = Failure::new(status::NOT_PERMITTED, format!("{what}: {}", refusal.why()));
    let cure = |failure: Failure, (place, cure): (&str, String)| {
        failure.hint(format!("{:<11}{cure}", format!("{place}:")))
    };
    let mut failure = refusal.cures().into_iter().fold(failure, cure);
    if matches!(refusal, Refusal::Capabilities(_)) {
        for capability in &CAPABILITIES {
            failure = failure.hint(format!("           {} {}", capability.name, capability.buys));
        }
    }
    cure(failure, ("details", "prof doctor".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_it_costs() {
        let all = CAPABILITIES.iter().fold(CapabilitySet::empty(), |all, capability| all | capability.set);
        assert_eq!(Rights::of(all), Rights::All);
        let Rights::Some(lost) = Rights::of(all - CapabilitySet::SYSLOG - CapabilitySet::SYS_PTRACE) else {
            panic!("two are missing");
        };
        assert!(lost.starts_with("without CAP_SYS_PTRACE: other users' processes"), "{lost}");
        assert!(lost.contains("; without CAP_SYSLOG: "), "{lost}");
        assert_eq!(Rights::of(CapabilitySet::PERFMON), Rights::TooFew("CAP_BPF missing".to_owned()));
        assert_eq!(
            Rights::of(CapabilitySet::empty()),
            Rights::TooFew("CAP_BPF and CAP_PERFMON missing".to_owned())
        );
        let old = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE;
        assert!(matches!(Rights::of(old), Rights::Some(_)), "CAP_SYS_ADMIN includes both");
    }

    #[test]
    fn the_lasting_fix_opens_the_program_to_a_group_before_it_gets_capabilities() {
        let fix = lasting_fix("/opt/prof");
        let places: Vec<usize> = [
            "groupadd -f prof",
            "chgrp prof /opt/prof",
            "chmod 0750 /opt/prof",
            "setcap cap_bpf,cap_perfmon,",
        ]
        .iter()
        .map(|part| fix.find(part).unwrap_or_else(|| panic!("no `{part}` in {fix}")))
        .collect();
        // chgrp takes capabilities away again.
        assert!(places.is_sorted(), "{fix}");
        for capability in &CAPABILITIES {
            assert!(fix.contains(&capability.name.to_lowercase()), "{fix}");
        }
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
