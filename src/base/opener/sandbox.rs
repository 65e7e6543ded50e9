//! Gives up everything that a process which reads foreign files has no use for: its user, its capabilities, system calls,
//! and writing files. What it may still do is read what anyone may read, and use what it has open.
//!
//! Each step holds on its own; a kernel without one of them leaves the others. A process whose capabilities are not its user's
//! own does not go on with them.

use super::client;
use crate::base::failure::Failure;
use crate::base::privilege;
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::set_no_new_privs;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The first of the user ids that no system gives to anyone; a recorder takes the one of its process id, so that no other
/// process is of the same user.
const FIRST_FREE_USER: u32 = 0x7000_0000;
/// The user without rights, where a user namespace has no others.
const NOBODY: u32 = 65534;

/// What of it the kernel gave. A process does this once.
static CONFINED: OnceLock<Confinement> = OnceLock::new();

/// What a process has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Confinement {
    /// The user that it became, from root.
    pub(crate) user: Option<u32>,
    /// System calls are refused that it does not need.
    pub(crate) filters_calls: bool,
    /// It cannot write, make or remove files.
    pub(crate) is_read_only: bool,
}

impl Confinement {
    /// Says it in words, for `-v`.
    pub(crate) fn describe(self) -> String {
        let user = self.user.map_or("own user".to_owned(), |user| format!("user {user}"));
        let has = |is: bool, what: &str| if is { format!(", {what}") } else { format!(", no {what}") };
        let (calls, files) = (has(self.filters_calls, "seccomp filter"), has(self.is_read_only, "Landlock"));
        format!("files are read as {user} without capabilities{calls}{files}")
    }
}

/// What this process has given up, if it did.
pub(crate) fn confinement() -> Option<Confinement> {
    CONFINED.get().copied()
}

/// Gives up what the opener keeps for this process. Does nothing where no opener runs.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn enter() -> Result<(), Failure> {
    enter_with(Network::Refused)
}

/// Whether a process may reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Network {
    /// It may not.
    #[default]
    Refused,
    /// It asks servers.
    Used,
}

/// [`enter`], for a process that may ask servers.
///
/// # Errors
///
/// As [`enter`].
pub(super) fn enter_with(network: Network) -> Result<(), Failure> {
    if !client::is_running() || CONFINED.get().is_some() {
        return Ok(());
    }
    let user = become_no_one();
    if user.is_some() {
        client::have_files_made();
    }
    privilege::keep_nothing()?;
    let _ = set_no_new_privs(true);
    // What it has in memory is of other users' processes.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    limit_memory();
    // A user who is not root has files of its own to write: those of the recording.
    let is_read_only = client::makes_files() && refuse_writing();
    let filters_calls = filter_calls(network);
    let _ = CONFINED.set(Confinement { user, filters_calls, is_read_only });
    Ok(())
}

/// Gives up everything for good: files are neither opened nor written, and what a process can do beyond computing with what it
/// has been given is refused in a later step ([`keep_computing`]). For a process that is single-threaded.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn close_off() -> Result<(), Failure> {
    become_no_one();
    privilege::keep_nothing()?;
    let _ = set_no_new_privs(true);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    let _ = setrlimit(Resource::Fsize, none);
    let nothing = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V5))?
            .create()?
            .restrict_self()
    };
    let _ = nothing();
    filter_calls(Network::Refused);
    Ok(())
}

/// Has the kernel refuse every call but those that a program makes to compute with descriptors that it has.
pub(crate) fn keep_computing() {
    let rules = COMPUTING.into_iter().map(|call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let Ok(arch) = std::env::consts::ARCH.try_into() else { return };
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch);
    if let Some(filter) = filter.ok().and_then(|filter| BpfProgram::try_from(filter).ok()) {
        // A kernel without seccomp leaves the other steps.
        let _ = seccompiler::apply_filter(&filter);
    }
}

/// Has a process that swells end before the machine does: its addresses are those of all memory that there is, and some more for
/// what is only reserved. What was lower stays so.
fn limit_memory() {
    /// Reserved by allocators, stacks of threads and mapped rings, bytes.
    const RESERVED: u64 = 4 << 30;
    let machine = rustix::system::sysinfo();
    let all = (machine.totalram as u64).saturating_mul(machine.mem_unit.into());
    let most = all.saturating_add(RESERVED);
    let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let now = getrlimit(Resource::As);
    let _ = setrlimit(Resource::As, Rlimit { current: lower(now.current), maximum: lower(now.maximum) });
}

/// Becomes a user that owns nothing, if this process is root's; all threads do.
fn become_no_one() -> Option<u32> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let own = FIRST_FREE_USER.wrapping_add(std::process::id());
    // SAFETY: these calls take numbers, and an empty list.
    [own, NOBODY].into_iter().find(|&id| unsafe {
        // Where groups cannot be given up, in some user namespaces, there are none that count.
        let _ = libc::setgroups(0, std::ptr::null());
        libc::setresgid(id, id, id) == 0 && libc::setresuid(id, id, id) == 0
    })
}

/// Has files only be read from now on, by this thread and those that it starts. What is open stays as it is.
fn refuse_writing() -> bool {
    let all = AccessFs::from_all(ABI::V5);
    let reading = AccessFs::from_read(ABI::V5);
    let ruleset = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .create()?
            .add_rules(path_beneath_rules(["/"], reading))?
            .add_rules(path_beneath_rules(
                ["/dev/null", "/dev/tty"],
                // The size and the modes of a terminal are had by ioctl(2).
                AccessFs::WriteFile | AccessFs::ReadFile | AccessFs::IoctlDev,
            ))?
            .restrict_self()
    };
    ruleset().is_ok_and(|status: landlock::RestrictionStatus| {
        status.ruleset != landlock::RulesetStatus::NotEnforced
    })
}

/// Calls by which a process could gain or do what reading files never takes.
const REFUSED: [libc::c_long; 46] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_mknodat,
    libc::SYS_personality,
    libc::SYS_kcmp,
    libc::SYS_setresuid,
];

/// Calls of a process that only computes: memory, threads, time, and reading and writing what is open.
const COMPUTING: [libc::c_long; 60] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_socketpair,
    libc::SYS_shutdown,
    libc::SYS_ppoll,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fcntl,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_setpriority,
    libc::SYS_getpriority,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_capget,
];

/// Those of them that asking servers takes.
const OF_CLIENTS: [libc::c_long; 3] = [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind];

/// Commands of bpf(2) that make something or find it by number: maps and programs that are there are used by descriptor.
const REFUSED_BPF: [libc::c_int; 11] = [
    0,  // BPF_MAP_CREATE
    5,  // BPF_PROG_LOAD
    6,  // BPF_OBJ_PIN
    7,  // BPF_OBJ_GET
    8,  // BPF_PROG_ATTACH
    13, // BPF_PROG_GET_FD_BY_ID
    14, // BPF_MAP_GET_FD_BY_ID
    17, // BPF_RAW_TRACEPOINT_OPEN
    18, // BPF_BTF_LOAD
    19, // BPF_BTF_GET_FD_BY_ID
    30, // BPF_LINK_GET_FD_BY_ID
];

/// Has the kernel refuse these calls to all threads.
fn filter_calls(network: Network) -> bool {
    call_filter(network).is_some_and(|filter| seccompiler::apply_filter_all_threads(&filter).is_ok())
}

fn call_filter(network: Network) -> Option<BpfProgram> {
    let is_refused = |call: &i64| network == Network::Refused || !OF_CLIENTS.contains(call);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.into_iter().filter(is_refused).map(|call| (call, Vec::new())).collect();
    let bpf = REFUSED_BPF.into_iter().map(|command| {
        let is_it = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, command as u64);
        SeccompRule::new(vec![is_it?])
    });
    rules.insert(libc::SYS_bpf, bpf.collect::<Result<_, _>>().ok()?);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into().ok()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_of_system_calls_can_be_built() {
        assert!(call_filter(Network::Refused).is_some_and(|filter| filter.len() > REFUSED.len()));
        assert!(call_filter(Network::Used).is_some());
    }
}
