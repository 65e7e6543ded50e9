//! The namespaces that `prof` runs in, and what follows from them for numbers of processes and for times.
//!
//! Numbers are those of the PID namespace of `prof` everywhere in user space: `/proc`, the side-band, `fork` and the user
//! have them; the kernel side translates. Times are those of the initial time namespace, which BPF programs and perf
//! events have, whichever process loads them; [`monotonic_ns`] translates.

use crate::base::failure::{Failure, status};
use crate::bpf::ProfSkel;
use libbpf_rs::ProgramInput;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::{fs, io};

/// Kinds of namespaces that matter to a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespaceKind {
    /// Numbers of processes.
    Pid,
    /// Mounted file systems.
    Mount,
    /// Users and capabilities.
    User,
    /// Roots of cgroups.
    Cgroup,
    /// Offsets of CLOCK_MONOTONIC and CLOCK_BOOTTIME.
    Time,
}

impl NamespaceKind {
    /// All kinds.
    pub(crate) const ALL: [NamespaceKind; 5] = [
        NamespaceKind::Pid,
        NamespaceKind::Mount,
        NamespaceKind::User,
        NamespaceKind::Cgroup,
        NamespaceKind::Time,
    ];

    /// Name of its file in `/proc/PID/ns`.
    fn file(self) -> &'static str {
        match self {
            NamespaceKind::Pid => "pid",
            NamespaceKind::Mount => "mnt",
            NamespaceKind::User => "user",
            NamespaceKind::Cgroup => "cgroup",
            NamespaceKind::Time => "time",
        }
    }

    /// Returns the name for people.
    pub(crate) fn label(self) -> &'static str {
        match self {
            NamespaceKind::Mount => "mount",
            other => other.file(),
        }
    }

    /// Inode of the initial namespace (include/linux/proc_ns.h, since 6.18 include/uapi/linux/nsfs.h). That of mounts
    /// has a fixed one since 6.18 only.
    fn initial_inode(self) -> u64 {
        match self {
            NamespaceKind::Mount => 0xeffffff8,
            NamespaceKind::Time => 0xeffffffa,
            NamespaceKind::Cgroup => 0xeffffffb,
            NamespaceKind::Pid => 0xeffffffc,
            NamespaceKind::User => 0xeffffffd,
        }
    }
}

/// Which namespace of its kind a process is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespacePlace {
    /// The initial one: the machine's own.
    Initial,
    /// Another one, by its inode.
    Other(u64),
    /// The namespace is not known.
    Unknown,
}

/// The namespace of `kind` that this process is in.
pub(crate) fn own(kind: NamespaceKind) -> NamespacePlace {
    place(kind, inode("/proc/self/ns", kind), || match own(NamespaceKind::Pid) {
        NamespacePlace::Initial => inode("/proc/1/ns", kind),
        // Another process has the number there.
        _ => Err(io::ErrorKind::Unsupported.into()),
    })
}

fn inode(folder: &str, kind: NamespaceKind) -> io::Result<u64> {
    Ok(fs::metadata(Path::new(folder).join(kind.file()))?.ino())
}

/// `first` gives the inode of the namespace of the machine's first process.
fn place(
    kind: NamespaceKind,
    own: io::Result<u64>,
    first: impl FnOnce() -> io::Result<u64>,
) -> NamespacePlace {
    match own {
        Ok(inode) if inode == kind.initial_inode() => NamespacePlace::Initial,
        Ok(inode) if kind == NamespaceKind::Mount => match first() {
            Ok(first) if first == inode => NamespacePlace::Initial,
            Ok(_) => NamespacePlace::Other(inode),
            Err(_) => NamespacePlace::Unknown,
        },
        Ok(inode) => NamespacePlace::Other(inode),
        // A kernel without such namespaces.
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/ns/mnt").exists() => {
            NamespacePlace::Initial
        }
        Err(_) => NamespacePlace::Unknown,
    }
}

/// The kinds of namespaces of which process `pid` is in another one than this process; `None` if that is not known.
pub(crate) fn apart(pid: u32) -> Option<Vec<NamespaceKind>> {
    let of_pid = format!("/proc/{pid}/ns");
    let is_apart =
        |kind: NamespaceKind| Some(inode(&of_pid, kind).ok()? != inode("/proc/self/ns", kind).ok()?);
    // A kernel may not have all kinds.
    let kinds =
        NamespaceKind::ALL.into_iter().filter(|kind| Path::new("/proc/self/ns").join(kind.file()).exists());
    let apart = kinds.map(|kind| Some((kind, is_apart(kind)?))).collect::<Option<Vec<_>>>()?;
    Some(apart.into_iter().filter(|(_, is_apart)| *is_apart).map(|(kind, _)| kind).collect())
}

/// Inode of the PID namespace that numbers are of; 0 for the initial one.
pub(crate) fn pid_namespace() -> u64 {
    match own(NamespaceKind::Pid) {
        NamespacePlace::Initial | NamespacePlace::Unknown => 0,
        NamespacePlace::Other(inode) => inode,
    }
}

/// Kinds of data that the kernel side has otherwise than user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Translation {
    /// Whether process numbers differ.
    pub(crate) has_own_numbers: bool,
    /// Whether times differ.
    has_own_clock: bool,
}

impl Translation {
    /// Returns the translation for this process.
    pub(crate) fn of_self() -> Self {
        Translation {
            has_own_numbers: own(NamespaceKind::Pid) != NamespacePlace::Initial,
            has_own_clock: own(NamespaceKind::Time) != NamespacePlace::Initial,
        }
    }

    /// Whether there is any.
    pub(crate) fn is_needed(self) -> bool {
        self.has_own_numbers || self.has_own_clock
    }
}

/// More than clocks of the kernel disagree by, ns.
const CLOCK_TOLERANCE_NS: u64 = 1_000_000;

/// Has the kernel side find the PID namespace of this process, and checks that both have the same number for this thread,
/// and the same time.
///
/// # Errors
///
/// When they have not: whatever was recorded would be another process's, or of another time.
pub(crate) fn agree_with_kernel(skeleton: &ProfSkel<'_>) -> anyhow::Result<()> {
    let refusal = |why: String| {
        Failure::new(status::FAILED, format!("cannot tell in which namespaces prof runs: {why}"))
            .hint("run prof on the host: it sees the processes of all containers")
    };
    let before_ns = monotonic_ns();
    let run = skeleton.progs.find_namespace.test_run(ProgramInput::default());
    let after_ns = monotonic_ns();
    run.map_err(|error| refusal(format!("{error:#}")))?;
    let Some(found) = skeleton.maps.bss_data.as_deref().map(|bss| bss.namespace) else {
        return Err(refusal("the kernel side shares no memory with prof".to_owned()).into());
    };
    let number = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    if found.number != number {
        return Err(
            refusal(format!("the kernel calls thread {number} by the number {}", found.number)).into()
        );
    }
    let (earliest_ns, latest_ns) =
        (before_ns.saturating_sub(CLOCK_TOLERANCE_NS), after_ns + CLOCK_TOLERANCE_NS);
    if !(earliest_ns..=latest_ns).contains(&found.time_ns) {
        return Err(
            refusal(format!("at {before_ns} ns it is {} ns by the kernel's clock", found.time_ns)).into()
        );
    }
    Ok(())
}

/// Checks that `/proc` has the numbers of the PID namespace of this process, that times can be translated, and that threads
/// can be started.
///
/// # Errors
///
/// A [`Failure`] that names what is wrong: whatever was recorded would be called by wrong numbers or times.
pub(crate) fn check() -> Result<(), Failure> {
    check_proc()?;
    for kind in [NamespaceKind::Pid, NamespaceKind::Time] {
        let of_children = fs::metadata(format!("/proc/self/ns/{}_for_children", kind.file()));
        if is_another(inode("/proc/self/ns", kind), of_children.map(|about| about.ino())) {
            let name = kind.label();
            return Err(Failure::new(
                status::FAILED,
                format!("cannot start threads: a new {name} namespace applies to children of prof, not to prof itself"),
            )
            .hint(format!("start prof as such a child:  unshare --{name} --fork … prof …")));
        }
    }
    if own(NamespaceKind::Time) != NamespacePlace::Initial && clock_offset_ns().is_none() {
        return Err(Failure::new(
            status::FAILED,
            "cannot tell times: prof runs in a time namespace, and `/proc/self/timens_offsets` cannot be read",
        )
        .hint("or run prof on the host: it sees the processes of all containers"));
    }
    Ok(())
}

/// Whether children will be in a different namespace from this process, by the inodes of both. A PID namespace
/// without processes has no inode yet.
fn is_another(own: io::Result<u64>, of_children: io::Result<u64>) -> bool {
    match (own, of_children) {
        (Ok(own), Ok(of_children)) => own != of_children,
        (Ok(_), Err(error)) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Whose numbers `/proc` has.
#[derive(Debug, PartialEq, Eq)]
enum ProcView {
    /// Numbers of this process's PID namespace.
    Own,
    /// Numbers of a namespace around that: this process has the first number there, the second in its own namespace.
    Outer(u32, u32),
    /// Numbers of a namespace that this process is not in.
    Foreign,
    /// Nothing is there.
    None,
}

fn check_proc() -> Result<(), Failure> {
    let status_text = fs::read_to_string("/proc/self/status");
    let (why, cure) = match proc_view(status_text.as_deref().ok(), Path::new("/proc/sys").exists()) {
        ProcView::Own => return Ok(()),
        ProcView::Outer(there, here) => (
            format!(
                "`/proc` belongs to an outer PID namespace, where prof has the number {there}; its own is {here}"
            ),
            "mount its own:  mount -t proc proc /proc   (unshare --mount-proc; nsenter -m with -p)",
        ),
        ProcView::Foreign => (
            "`/proc` belongs to a PID namespace that prof is not in".to_owned(),
            "mount its own:  mount -t proc proc /proc",
        ),
        ProcView::None => ("`/proc` is not mounted".to_owned(), "mount it:  mount -t proc proc /proc"),
    };
    Err(Failure::new(status::FAILED, format!("cannot tell processes apart: {why}"))
        .hint(cure)
        .hint("or run prof on the host: it sees the processes of all containers"))
}

/// Returns the view of /proc by the text of /proc/self/status, and whether the rest of /proc is there. `NSpid` has a process's numbers from the
/// namespace of that mount of /proc down to its own.
fn proc_view(status: Option<&str>, has_proc: bool) -> ProcView {
    let Some(status) = status else { return if has_proc { ProcView::Foreign } else { ProcView::None } };
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    let mut numbers = numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok());
    match (numbers.next(), numbers.next_back()) {
        (Some(there), Some(here)) => ProcView::Outer(there, here),
        _ => ProcView::Own,
    }
}

/// CLOCK_MONOTONIC now as the kernel side has it, ns, without the offset of this process's time namespace: the clock of
/// all samples.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    (now_ns - clock_offset_ns().unwrap_or(0)) as u64
}

/// Time by which CLOCK_MONOTONIC of this process is ahead of the kernel's, ns; `None` if that is not known.
pub(crate) fn clock_offset_ns() -> Option<i64> {
    static OFFSET_NS: OnceLock<Option<i64>> = OnceLock::new();
    *OFFSET_NS.get_or_init(|| {
        if own(NamespaceKind::Time) == NamespacePlace::Initial {
            return Some(0);
        }
        // Those of the namespace that children will be in, which is this one: see `check`.
        parse_offset(&fs::read_to_string("/proc/self/timens_offsets").ok()?)
    })
}

/// The offset of CLOCK_MONOTONIC in the text of /proc/self/timens_offsets, ns.
fn parse_offset(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<i64>().ok());
    let (seconds, nanoseconds) = (numbers.next()??, numbers.next()??);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_of_another_namespace_is_noticed() {
        assert_eq!(proc_view(Some("Pid:\t7\nNSpid:\t7\n"), true), ProcView::Own);
        assert_eq!(proc_view(Some("Pid:\t7\nNSpid:\t4711\t1\n"), true), ProcView::Outer(4711, 1));
        // Equal by chance.
        assert_eq!(proc_view(Some("NSpid:\t12\t9\t12\n"), true), ProcView::Outer(12, 12));
        assert_eq!((proc_view(None, true), proc_view(None, false)), (ProcView::Foreign, ProcView::None));
    }

    #[test]
    fn a_namespace_that_is_only_for_children_is_noticed() {
        let error = |kind: io::ErrorKind| Err(io::Error::from(kind));
        assert!(is_another(Ok(1), Ok(2)) && is_another(Ok(1), error(io::ErrorKind::NotFound)));
        assert!(!is_another(Ok(1), Ok(1)) && !is_another(Ok(1), error(io::ErrorKind::PermissionDenied)));
        assert!(
            !is_another(error(io::ErrorKind::NotFound), error(io::ErrorKind::NotFound)),
            "there are none"
        );
        assert!(check().is_ok(), "tests run where threads can be started");
    }

    #[test]
    fn the_initial_namespaces_are_known_by_their_inodes() {
        let none = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(place(NamespaceKind::Pid, Ok(4_026_531_836), none), NamespacePlace::Initial);
        assert_eq!(
            place(NamespaceKind::Pid, Ok(4_026_532_300), || Ok(4_026_532_300)),
            NamespacePlace::Other(4_026_532_300)
        );
        assert_eq!(
            place(NamespaceKind::Mount, Ok(4_026_531_841), || Ok(4_026_531_841)),
            NamespacePlace::Initial
        );
        assert_eq!(
            place(NamespaceKind::Mount, Ok(4_026_532_300), || Ok(4_026_531_841)),
            NamespacePlace::Other(4_026_532_300)
        );
        assert_eq!(place(NamespaceKind::Mount, Ok(4_026_532_300), none), NamespacePlace::Unknown);
        assert_eq!(place(NamespaceKind::Pid, none(), none), NamespacePlace::Unknown);
        let missing = || Err(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(place(NamespaceKind::Time, missing(), missing), NamespacePlace::Initial);
    }

    #[test]
    fn offsets_of_a_time_namespace_are_parsed() {
        let text = "monotonic      86400       500\nboottime          -7         0\n";
        assert_eq!(parse_offset(text), Some(86_400_000_000_500));
        assert_eq!(parse_offset("monotonic          -2 999999999\n"), Some(-1_000_000_001));
        assert_eq!((parse_offset(""), parse_offset("monotonic 1\n")), (None, None));
        assert_eq!(parse_offset("monotonic 99999999999999 0\n"), None);
    }
}
