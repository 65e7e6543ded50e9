//! Restrictions of a container or service on `prof`: namespaces, capabilities, system calls, files of the kernel.

use super::check::{Check, CheckVerdict};
use crate::base::units;
use crate::profile::AddressSettings;
use crate::record::{
    CAPABILITIES, CONTAINER_OPTIONS, NamespaceKind, NamespacePlace, Refusal, Rights, TypesLack,
    check_namespaces, clock_offset_ns, is_in_container, is_sysctl_read_only, lacks_capability, lasting_fix,
    namespaces_apart, own_namespace, own_path,
};
use crate::symbols::{KernelSymbols, SymbolError};
use std::fs;
use std::path::Path;

/// Runs all checks of the container.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = namespaces();
    checks.push(proc());
    // Capabilities in another user namespace do not count.
    if own_namespace(NamespaceKind::User) == NamespacePlace::Initial {
        checks.push(rights());
    }
    checks.push(seccomp());
    checks.push(type_information());
    checks
}

/// One check if all namespaces are the host's, else one for each that is not.
fn namespaces() -> Vec<Check> {
    let places = NamespaceKind::ALL.map(|kind| (kind, own_namespace(kind)));
    let others: Vec<Check> = (places.iter())
        .filter(|(_, place)| *place != NamespacePlace::Initial)
        .map(|(kind, place)| namespace(*kind, *place))
        .collect();
    if others.is_empty() {
        let all = "pid, mount, user, cgroup and time: the host's";
        return vec![Check::new("namespaces", CheckVerdict::Ok, all)];
    }
    others
}

fn namespace(kind: NamespaceKind, place: NamespacePlace) -> Check {
    let name = match kind {
        NamespaceKind::Pid => "pid namespace",
        NamespaceKind::Mount => "mount namespace",
        NamespaceKind::User => "user namespace",
        NamespaceKind::Cgroup => "cgroup namespace",
        NamespaceKind::Time => "time namespace",
    };
    if place == NamespacePlace::Unknown {
        return Check::new(name, CheckVerdict::Ok, "cannot tell whether it is the host's");
    }
    match kind {
        NamespaceKind::Pid => {
            let detail = "not the host's: prof sees the processes in it, by the numbers they have there \
                          (all: --pid=host, or prof on the host)";
            Check::new(name, CheckVerdict::Ok, detail)
        }
        NamespaceKind::Mount => {
            let detail = "not the host's: files of processes are read through /proc/PID/root";
            Check::new(name, CheckVerdict::Ok, detail)
        }
        NamespaceKind::User => refused(name, CheckVerdict::Warn, &Refusal::UserNamespace),
        NamespaceKind::Cgroup => {
            let limit = memory_limit().map_or(String::new(), |bytes| format!(": {}", units::bytes(bytes)));
            let detail = format!("not the host's: tables and buffers count against its memory limit{limit}");
            Check::new(name, CheckVerdict::Ok, detail)
        }
        NamespaceKind::Time => match clock_offset_ns() {
            Some(offset_ns) => {
                let ahead = units::duration(offset_ns.unsigned_abs());
                let way = if offset_ns < 0 { "behind" } else { "ahead of" };
                let detail =
                    format!("not the host's: its clock is {ahead} {way} the host's; times are translated");
                Check::new(name, CheckVerdict::Ok, detail)
            }
            None => Check::new(name, CheckVerdict::Fail, "not the host's, and its offset cannot be read")
                .fix("run prof on the host"),
        },
    }
}

/// The memory limit of the cgroup that this namespace shows as the root, bytes.
fn memory_limit() -> Option<u64> {
    let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let text = files.into_iter().find_map(|file| fs::read_to_string(file).ok())?;
    // Without a limit, the file of cgroup v1 has a number that no machine has.
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
}

fn proc() -> Check {
    const NAME: &str = "proc";
    if let Err(failure) = check_namespaces() {
        let check = Check::new(NAME, CheckVerdict::Fail, failure.message);
        return failure.hints.into_iter().next().map_or(check.clone(), |cure| check.fix(cure));
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if hides_processes(&mounts) && lacks_capability("CAP_SYS_PTRACE") {
        return Check::new(NAME, CheckVerdict::Warn, "`/proc` hides other users' processes (hidepid)")
            .fix("record as root with CAP_SYS_PTRACE");
    }
    let settings =
        if is_sysctl_read_only() { "; /proc/sys is read-only: change settings on the host" } else { "" };
    Check::new(NAME, CheckVerdict::Ok, format!("shows the processes of this PID namespace{settings}"))
}

/// Whether `/proc` hides processes, from the text of /proc/mounts, where the last line for a place counts.
fn hides_processes(mounts: &str) -> bool {
    let options = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        (fields.next()? == "/proc").then_some(())?;
        fields.nth(1).map(str::to_owned)
    };
    let is_hiding =
        |option: &str| option.starts_with("hidepid=") && !matches!(option, "hidepid=0" | "hidepid=off");
    mounts.lines().rev().find_map(options).is_some_and(|options| options.split(',').any(is_hiding))
}

fn rights() -> Check {
    const NAME: &str = "rights";
    match Rights::of_this_process() {
        Rights::All => {
            let names: Vec<&str> = CAPABILITIES.iter().map(|capability| capability.name).collect();
            Check::new(NAME, CheckVerdict::Ok, names.join(", "))
        }
        Rights::Some(lost) => Check::new(NAME, CheckVerdict::Warn, lost).fix(match is_in_container() {
            true => format!("start the container with {CONTAINER_OPTIONS}"),
            false => lasting_fix(&own_path()),
        }),
        Rights::TooFew(_) if is_in_container() => refused(NAME, CheckVerdict::Warn, &Refusal::of_self()),
        Rights::TooFew(missing) => Check::new(NAME, CheckVerdict::Warn, missing)
            .fix(format!("run as root, or {}", lasting_fix(&own_path()))),
    }
}

/// A check that reports what the kernel would refuse.
fn refused(name: &'static str, verdict: CheckVerdict, refusal: &Refusal) -> Check {
    let check = Check::new(name, verdict, refusal.why());
    match refusal.cures().into_iter().next() {
        Some((_, cure)) => check.fix(cure),
        None => check,
    }
}

fn seccomp() -> Check {
    const NAME: &str = "seccomp";
    let calls = crate::record::filtered_calls();
    if calls.is_empty() {
        return Check::new(NAME, CheckVerdict::Ok, "bpf and perf_event_open are not filtered");
    }
    // Without BPF programs perf events are left.
    let verdict = match calls.contains(&"perf_event_open") {
        true => CheckVerdict::Fail,
        false => CheckVerdict::Warn,
    };
    let check = refused(NAME, verdict, &Refusal::Seccomp(calls));
    // Filters of containers allow the calls that their capabilities are for, so a capability is the better fix.
    let refusal = Refusal::of_self();
    if !matches!(refusal, Refusal::Capabilities(_)) || !is_in_container() {
        return check;
    }
    Check { fix: refused(NAME, verdict, &refusal).fix, ..check }
}

fn type_information() -> Check {
    match TypesLack::of_this_kernel() {
        None => Check::new("btf", CheckVerdict::Ok, "kernel type information is available"),
        Some(lack) => Check::new("btf", CheckVerdict::Warn, lack.why()).fix(lack.cure()),
    }
}

/// The namespaces in which process `pid` differs from `prof`.
pub(super) fn target(pid: u32) -> Option<Check> {
    let apart = namespaces_apart(pid)?;
    if apart.is_empty() {
        return None;
    }
    let labels: Vec<&str> = apart.iter().map(|kind| kind.label()).collect();
    let number = crate::record::innermost_number(pid).filter(|number| *number != pid);
    let number = number.map_or(String::new(), |number| format!("; its own number there is {number}"));
    let detail = format!("pid {pid} is in other namespaces than prof: {}{number}", labels.join(", "));
    Some(Check::new("target", CheckVerdict::Ok, detail))
}

/// Whether kernel functions have names here.
pub(super) fn kernel_names() -> Check {
    const NAME: &str = "kernel names";
    const LIST: &str = "/proc/kallsyms";
    let error = match KernelSymbols::load() {
        Ok(symbols) => {
            return Check::new(
                NAME,
                CheckVerdict::Ok,
                format!("{} kernel symbols", units::count(symbols.len() as u64)),
            );
        }
        Err(error) => error,
    };
    let about = fs::metadata(Path::new(LIST));
    let is_masked = match &about {
        Ok(about) => !about.is_file(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if is_masked {
        return Check::new(NAME, CheckVerdict::Warn, format!("no kernel names: `{LIST}` is hidden here"))
            .fix("start the container with --security-opt systempaths=unconfined (podman: unmask=ALL)");
    }
    match (error, AddressSettings::of_this_kernel(!lacks_capability("CAP_SYSLOG"))) {
        (SymbolError::KernelRestricted, _) if lacks_capability("CAP_SYSLOG") && is_in_container() => {
            Check::new(NAME, CheckVerdict::Warn, "hidden: CAP_SYSLOG is missing")
                .fix("start the container with --cap-add SYSLOG")
        }
        (SymbolError::KernelRestricted, Some(settings)) => {
            let detail = format!("hidden: {}", settings.why_hidden());
            Check::new(NAME, CheckVerdict::Warn, detail).fix(settings.fix())
        }
        (SymbolError::KernelRestricted, None) => {
            Check::new(NAME, CheckVerdict::Warn, "hidden; the settings cannot be read").fix("run as root")
        }
        (error, _) => Check::new(NAME, CheckVerdict::Warn, format!("no kernel names: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_that_hides_processes_is_known_by_its_options() {
        let with = |options: &str| format!("sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n");
        assert!(
            hides_processes(&with("rw,hidepid=invisible")) && hides_processes(&with("rw,hidepid=2,gid=5"))
        );
        assert!(!hides_processes(&with("rw,relatime")) && !hides_processes(&with("rw,hidepid=off")));
        let two = with("rw,hidepid=2") + &with("rw");
        assert!(!hides_processes(&two), "the later one is over the other");
    }

    #[test]
    fn a_namespace_of_which_nothing_is_known_is_no_failure() {
        for kind in NamespaceKind::ALL {
            assert_eq!(namespace(kind, NamespacePlace::Unknown).verdict, CheckVerdict::Ok);
        }
        let user = namespace(NamespaceKind::User, NamespacePlace::Other(1));
        assert!(user.verdict == CheckVerdict::Warn && user.fix.is_some());
    }
}
