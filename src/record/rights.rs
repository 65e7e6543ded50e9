//! The capabilities that a recording uses, what each of them buys, and how to say that one is missing.
//!
//! [`CAPABILITIES`] is the one list: README.md and the manual page of `prof record` have it from here (tests/man_pages.rs),
//! and so have errors and `prof doctor`.

use crate::failure::{Failure, status};
use rustix::thread::{CapabilitySet, capabilities};

/// A capability that a recording uses.
#[derive(Debug, Clone, Copy)]
pub struct Capability {
    /// As capabilities(7) has it.
    pub name: &'static str,
    /// The one bit.
    pub set: CapabilitySet,
    /// What a recording does with it.
    pub buys: &'static str,
    /// What is lost without it.
    pub without: &'static str,
}

/// How many of [`CAPABILITIES`] no recording can do without; they come first.
const NEEDED: usize = 2;

/// What a recording uses; root has all of them.
pub const CAPABILITIES: [Capability; 6] = [
    Capability {
        name: "CAP_BPF",
        set: CapabilitySet::BPF,
        buys: "loads the BPF programs",
        without: "nothing can be recorded",
    },
    Capability {
        name: "CAP_PERFMON",
        set: CapabilitySet::PERFMON,
        buys: "samples CPUs and reads stacks, with kernel.perf_event_paranoid at 2 or lower",
        without: "nothing can be recorded",
    },
    Capability {
        name: "CAP_SYS_PTRACE",
        set: CapabilitySet::SYS_PTRACE,
        buys: "sees what processes of other users have mapped",
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
        without: "kernel functions have none, unless kernel.kptr_restrict is 0 and kernel.perf_event_paranoid 1 or lower",
    },
];

/// The rights that this process could put in effect.
fn permitted() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted)
}

/// Those of [`CAPABILITIES`] that `held` lacks.
fn missing(held: CapabilitySet) -> impl Iterator<Item = &'static Capability> {
    // Before Linux 5.8 CAP_SYS_ADMIN was two of them, and still stands for these.
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

/// What of a recording's rights this process has, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rights {
    /// All.
    All,
    /// Enough to record; this is lost.
    Some(String),
    /// Too few to record; these are missing.
    TooFew(String),
}

impl Rights {
    /// The rights of this process.
    pub fn of_this_process() -> Self {
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

/// The commands that give a `prof` at `program` its capabilities, for members of the group `prof`: whoever runs it can look
/// into all processes.
pub fn lasting_fix(program: &str) -> String {
    let names: Vec<String> = CAPABILITIES.iter().map(|capability| capability.name.to_lowercase()).collect();
    format!(
        "sudo groupadd -f prof; sudo chgrp prof {program}; sudo chmod 0750 {program}; \
         sudo setcap {}+ep {program}; sudo usermod -aG prof $USER",
        names.join(",")
    )
}

/// The program's own path for a command line, or a way to find it where that needs quotes.
pub fn own_path() -> String {
    let is_plain =
        |path: &String| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
    std::env::current_exe()
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .filter(is_plain)
        .unwrap_or_else(|| "$(which prof)".to_owned())
}

/// A failure of `what` because a right is missing; names the right and the ways to get it.
pub(super) fn not_permitted(what: &str) -> Failure {
    let why = match missing_needed(permitted()) {
        missing if missing.is_empty() => why_refused(),
        missing => format!("{} missing", missing.join(" and ")),
    };
    let mut failure = Failure::new(status::NOT_PERMITTED, format!("{what}: {why}"))
        .hint("now:      run the same command with sudo")
        .hint(format!("lasting:  {}", lasting_fix(&own_path())));
    for capability in &CAPABILITIES {
        failure = failure.hint(format!("          {} {}", capability.name, capability.buys));
    }
    failure.hint("details:  prof doctor")
}

/// Why the kernel refuses someone who has what is needed.
fn why_refused() -> String {
    let paranoid =
        crate::profile::AddressSettings::of_this_kernel().map(|settings| settings.perf_event_paranoid);
    match paranoid.filter(|&paranoid| paranoid > 2 && !permitted().contains(CapabilitySet::SYS_ADMIN)) {
        Some(paranoid) => format!(
            "kernel.perf_event_paranoid is {paranoid}: above 2 only root may sample (sudo sysctl kernel.perf_event_paranoid=2)"
        ),
        None => "the kernel refused (a container's seccomp profile or kernel lockdown does that)".to_owned(),
    }
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
        assert!(matches!(Rights::of(old), Rights::Some(_)), "CAP_SYS_ADMIN stands for both");
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
}
