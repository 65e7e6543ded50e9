//! Why a thread waits, from the system call that it is in and from the kernel functions that it waits in.

use crate::bpf::{REASON_BY_FILE, REASON_BY_FIRST_COUNT, REASON_BY_SECOND_COUNT};
use crate::profile::{Reason, WakerKind, is_kernel_lock};

/// Code for a reason that a file tells: a pipe, a socket, a disk.
const BY_FILE: u8 = REASON_BY_FILE;
/// Codes for reasons that the number of files tells: events of some, or nothing but time.
const SELECT: u8 = REASON_BY_FIRST_COUNT;
const POLL_FILES: u8 = REASON_BY_SECOND_COUNT;
const LOCK: u8 = Reason::Lock.code();
const DISK: u8 = Reason::Disk.code();
const NETWORK: u8 = Reason::Network.code();
const PIPE: u8 = Reason::Pipe.code();
const POLL: u8 = Reason::Poll.code();
const SLEEP: u8 = Reason::Sleep.code();
const FAULT: u8 = Reason::Fault.code();
const CHILD: u8 = Reason::Child.code();
const STOPPED: u8 = Reason::Stopped.code();

/// `futex_wait` of Linux 6.7, by the same number on all processors.
const SYS_FUTEX_WAIT: libc::c_long = 455;

/// System calls and what they wait for, as long as the kernel's stack does not say more.
#[rustfmt::skip]
const SYSTEM_CALLS: &[(libc::c_long, u8)] = &[
    (libc::SYS_futex, LOCK), (libc::SYS_futex_waitv, LOCK), (SYS_FUTEX_WAIT, LOCK), (libc::SYS_flock, LOCK),
    (libc::SYS_fsync, DISK), (libc::SYS_fdatasync, DISK), (libc::SYS_sync, DISK), (libc::SYS_syncfs, DISK),
    (libc::SYS_sync_file_range, DISK), (libc::SYS_msync, DISK), (libc::SYS_openat, DISK), (libc::SYS_statx, DISK),
    (libc::SYS_newfstatat, DISK), (libc::SYS_unlinkat, DISK), (libc::SYS_renameat2, DISK), (libc::SYS_mkdirat, DISK),
    (libc::SYS_getdents64, DISK), (libc::SYS_ftruncate, DISK), (libc::SYS_fallocate, DISK), (libc::SYS_io_getevents, DISK),
    (libc::SYS_accept, NETWORK), (libc::SYS_accept4, NETWORK), (libc::SYS_connect, NETWORK),
    (libc::SYS_msgrcv, PIPE), (libc::SYS_msgsnd, PIPE), (libc::SYS_semop, PIPE), (libc::SYS_semtimedop, PIPE),
    (libc::SYS_mq_timedreceive, PIPE), (libc::SYS_mq_timedsend, PIPE),
    (libc::SYS_ppoll, POLL_FILES), (libc::SYS_pselect6, SELECT), (libc::SYS_epoll_pwait, POLL), (libc::SYS_epoll_pwait2, POLL),
    (libc::SYS_io_uring_enter, POLL), (libc::SYS_rt_sigtimedwait, POLL),
    (libc::SYS_nanosleep, SLEEP), (libc::SYS_clock_nanosleep, SLEEP), (libc::SYS_rt_sigsuspend, POLL),
    (libc::SYS_mmap, FAULT), (libc::SYS_munmap, FAULT), (libc::SYS_mprotect, FAULT), (libc::SYS_madvise, FAULT), (libc::SYS_brk, FAULT),
    (libc::SYS_wait4, CHILD), (libc::SYS_waitid, CHILD), (libc::SYS_clone, CHILD), (libc::SYS_clone3, CHILD),
    (libc::SYS_ptrace, STOPPED),
    (libc::SYS_read, BY_FILE), (libc::SYS_write, BY_FILE), (libc::SYS_readv, BY_FILE),
    (libc::SYS_writev, BY_FILE), (libc::SYS_pread64, BY_FILE), (libc::SYS_pwrite64, BY_FILE),
    (libc::SYS_preadv, BY_FILE), (libc::SYS_pwritev, BY_FILE), (libc::SYS_preadv2, BY_FILE),
    (libc::SYS_pwritev2, BY_FILE), (libc::SYS_recvfrom, BY_FILE), (libc::SYS_recvmsg, BY_FILE),
    (libc::SYS_recvmmsg, BY_FILE), (libc::SYS_sendto, BY_FILE), (libc::SYS_sendmsg, BY_FILE),
    (libc::SYS_sendmmsg, BY_FILE), (libc::SYS_splice, BY_FILE), (libc::SYS_sendfile, BY_FILE),
    (libc::SYS_ioctl, BY_FILE), (libc::SYS_close, BY_FILE),
];

/// The same, of calls that only x86-64 has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const MORE_SYSTEM_CALLS: &[(libc::c_long, u8)] = &[
    (libc::SYS_poll, POLL_FILES), (libc::SYS_select, SELECT), (libc::SYS_epoll_wait, POLL), (libc::SYS_pause, POLL),
    (libc::SYS_vfork, CHILD), (libc::SYS_fork, CHILD), (libc::SYS_open, DISK), (libc::SYS_stat, DISK), (libc::SYS_lstat, DISK),
    (libc::SYS_unlink, DISK), (libc::SYS_rename, DISK), (libc::SYS_mkdir, DISK), (libc::SYS_rmdir, DISK),
];
#[cfg(not(target_arch = "x86_64"))]
const MORE_SYSTEM_CALLS: &[(libc::c_long, u8)] = &[];

/// Numbers that the kernel side looks up.
pub(super) const SYSTEM_CALL_ROOM: usize = 512;

/// Returns the reason's code, or what the arguments tell it by, by system call number.
pub(crate) fn by_system_call() -> [u8; SYSTEM_CALL_ROOM] {
    let mut reasons = [Reason::Other.code(); SYSTEM_CALL_ROOM];
    for &(number, reason) in SYSTEM_CALLS.iter().chain(MORE_SYSTEM_CALLS) {
        if let Some(slot) = usize::try_from(number).ok().and_then(|number| reasons.get_mut(number)) {
            *slot = reason;
        }
    }
    reasons
}

/// Beginnings of names of kernel functions, and what a thread waits for that is in one; locks are those of
/// [`is_kernel_lock`].
const KERNEL_FUNCTIONS: &[(&str, Reason)] = &[
    ("futex_", Reason::Lock),
    ("do_futex", Reason::Lock),
    ("io_schedule", Reason::Disk),
    ("folio_wait", Reason::Disk),
    ("submit_bio_wait", Reason::Disk),
    ("blk_", Reason::Disk),
    ("jbd2_", Reason::Disk),
    ("balance_dirty_pages", Reason::Disk),
    ("xfs_log", Reason::Disk),
    ("hrtimer_nanosleep", Reason::Sleep),
    ("do_nanosleep", Reason::Sleep),
    ("__do_sys_pause", Reason::Poll),
    ("sigsuspend", Reason::Poll),
    ("ep_poll", Reason::Poll),
    ("do_epoll", Reason::Poll),
    ("do_sys_poll", Reason::Poll),
    ("do_poll", Reason::Poll),
    ("do_select", Reason::Poll),
    ("poll_schedule", Reason::Poll),
    ("pipe_", Reason::Pipe),
    ("anon_pipe_", Reason::Pipe),
    ("fifo_", Reason::Pipe),
    ("unix_", Reason::Pipe),
    ("__unix_", Reason::Pipe),
    ("eventfd_", Reason::Pipe),
    ("timerfd_", Reason::Sleep),
    ("io_cqring_wait", Reason::Poll),
    ("n_tty_", Reason::Pipe),
    ("msg_", Reason::Pipe),
    ("__do_semtimedop", Reason::Pipe),
    ("tcp_", Reason::Network),
    ("udp_", Reason::Network),
    ("inet_", Reason::Network),
    ("sk_wait_", Reason::Network),
    ("sk_stream_wait", Reason::Network),
    ("packet_recvmsg", Reason::Network),
    ("raw_recvmsg", Reason::Network),
    ("rawv6_recvmsg", Reason::Network),
    ("do_wait", Reason::Child),
    ("kernel_wait", Reason::Child),
    ("wait_for_vfork", Reason::Child),
    ("kernel_clone", Reason::Child),
    ("ptrace_stop", Reason::Stopped),
    ("do_signal_stop", Reason::Stopped),
    ("__refrigerator", Reason::Stopped),
    ("handle_mm_fault", Reason::Fault),
    ("exc_page_fault", Reason::Fault),
    ("do_user_addr_fault", Reason::Fault),
    ("handle_userfault", Reason::Fault),
];

/// Returns what a thread waits for by the kernel functions that it is in, leaf first, if one of them tells it.
pub(super) fn of_kernel<'a>(functions: impl Iterator<Item = &'a str> + Clone) -> Option<Reason> {
    let of_function = |name: &str| {
        // `do_wait_intr` and others wait for anything.
        let is_child = |start: &str| start != "do_wait" || name == start;
        if is_kernel_lock(name) {
            return Some(Reason::Lock);
        }
        (KERNEL_FUNCTIONS.iter())
            .find(|(start, _)| name.starts_with(start) && is_child(start))
            .map(|(_, reason)| *reason)
    };
    // What is read to serve a page fault is a fault, whatever it waits for in the end.
    let is_fault = |name: &str| {
        KERNEL_FUNCTIONS.iter().any(|(start, reason)| *reason == Reason::Fault && name.starts_with(start))
    };
    match functions.clone().any(is_fault) {
        true => Some(Reason::Fault),
        false => functions.filter_map(of_function).next(),
    }
}

/// Refines what the kernel side found by what the kernel functions say.
pub(super) fn refine(found: Reason, in_kernel: Option<Reason>) -> Reason {
    match found {
        Reason::NoCpu | Reason::Stopped => found,
        // For no file, but until some time.
        Reason::Sleep if in_kernel == Some(Reason::Poll) => found,
        _ => in_kernel.unwrap_or(found),
    }
}

/// Returns the reason of a wait by how it ended: a wait for another thread that an interrupt ended was for time to pass,
/// since only a timer does that.
pub(super) fn by_its_end(reason: Reason, waker: WakerKind, is_timer: Option<bool>) -> Reason {
    let is_interrupt = matches!(waker, WakerKind::Interrupt | WakerKind::SoftInterrupt);
    match reason {
        Reason::Lock if is_interrupt && is_timer != Some(false) => Reason::Sleep,
        reason => reason,
    }
}

/// Whether a waker is a timer's, by the kernel functions that it is in; `None` where their names are not known.
pub(super) fn is_timer<'a>(functions: impl Iterator<Item = &'a str> + Clone) -> Option<bool> {
    const TIMERS: [&str; 5] =
        ["hrtimer_", "__hrtimer_", "call_timer_fn", "run_timer_softirq", "process_timeout"];
    let named = functions.filter(|name| !name.is_empty());
    let is_known = named.clone().next().is_some();
    is_known.then(|| named.into_iter().any(|name| TIMERS.iter().any(|start| name.starts_with(start))))
}

/// The interrupt that a waker is by the kernel functions that it is in, leaf first, if it is one.
pub(super) fn interrupt<'a>(mut functions: impl Iterator<Item = &'a str>) -> Option<WakerKind> {
    functions.find_map(|name| match name {
        _ if name.starts_with("handle_softirqs") || name.starts_with("__do_softirq") => {
            Some(WakerKind::SoftInterrupt)
        }
        _ if name.contains("sysvec_") || name.contains("common_interrupt") || name.starts_with("el1h_") => {
            Some(WakerKind::Interrupt)
        }
        _ => None,
    })
}

/// Kernel frames of the samplers themselves and of the scheduler, leaf first: how many to leave out. The last of
/// the given functions is the first that was not called by what follows.
pub(super) fn own_frames<'a>(functions: impl Iterator<Item = &'a str>, last: &[&str]) -> usize {
    functions
        .enumerate()
        .filter(|(_, name)| last.contains(name))
        .map(|(index, _)| index + 1)
        .last()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refined(found: Reason, functions: &[&str]) -> Reason {
        refine(found, of_kernel(functions.iter().copied()))
    }

    #[test]
    fn the_innermost_known_function_decides() {
        assert_eq!(refined(Reason::Other, &["schedule", "futex_wait_queue", "do_futex"]), Reason::Lock);
        assert_eq!(
            refined(Reason::Disk, &["schedule", "rwsem_down_write_slowpath", "ext4_file_write"]),
            Reason::Lock
        );
        assert_eq!(refined(Reason::Other, &["schedule", "rt_mutex_schedule", "fcntl"]), Reason::Lock);
        assert_eq!(refined(Reason::Pipe, &["schedule", "anon_pipe_read", "vfs_read"]), Reason::Pipe);
        assert_eq!(refined(Reason::Network, &["nothing known"]), Reason::Network);
        let fault = ["io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault"];
        assert_eq!(refined(Reason::Disk, &fault), Reason::Fault);
        assert_eq!(refined(Reason::NoCpu, &["futex_wait_queue"]), Reason::NoCpu);
    }

    #[test]
    fn functions_whose_names_begin_alike_are_told_apart() {
        assert_eq!(of_kernel(["do_wait_intr_irq", "eventfd_read"].into_iter()), Some(Reason::Pipe));
        assert_eq!(of_kernel(["do_wait_intr_irq", "timerfd_read"].into_iter()), Some(Reason::Sleep));
        assert_eq!(of_kernel(["do_wait", "kernel_wait4"].into_iter()), Some(Reason::Child));
    }

    /// A socket is the network's only if it is not between processes of one machine.
    #[test]
    fn sockets_of_one_machine_are_no_network() {
        let datagram = ["schedule_timeout", "__skb_wait_for_more_packets", "__skb_recv_datagram"];
        let read_by = |function| of_kernel(datagram.into_iter().chain([function, "sock_recvmsg"]));
        assert_eq!(read_by("__unix_dgram_recvmsg"), Some(Reason::Pipe));
        assert_eq!(read_by("udp_recvmsg"), Some(Reason::Network));
        assert_eq!(read_by("packet_recvmsg"), Some(Reason::Network));
        assert_eq!(read_by("rawv6_recvmsg"), Some(Reason::Network));
        assert_eq!(read_by("a_new_protocol"), None);
        assert_eq!(of_kernel(["schedule_timeout", "unix_accept"].into_iter()), Some(Reason::Pipe));
    }

    #[test]
    fn system_calls_have_their_reasons() {
        let reasons = by_system_call();
        let of = |number: libc::c_long| reasons[number as usize];
        assert_eq!(Reason::from_code(of(libc::SYS_futex)), Reason::Lock);
        assert_eq!(Reason::from_code(of(libc::SYS_clock_nanosleep)), Reason::Sleep);
        assert_eq!(Reason::from_code(of(libc::SYS_wait4)), Reason::Child);
        assert_eq!(of(libc::SYS_read), REASON_BY_FILE);
        assert_eq!(of(libc::SYS_pselect6), REASON_BY_FIRST_COUNT);
        assert_eq!(of(libc::SYS_ppoll), REASON_BY_SECOND_COUNT);
        let functions = ["poll_schedule_timeout", "do_select"];
        assert_eq!(refined(Reason::Poll, &functions), Reason::Poll);
        assert_eq!(refined(Reason::Sleep, &functions), Reason::Sleep, "of no file");
    }

    #[test]
    fn interrupts_are_told_apart() {
        let kind = |functions: &[&str]| interrupt(functions.iter().copied());
        let softirq = ["sock_def_readable", "handle_softirqs", "sysvec_apic_timer_interrupt"];
        assert_eq!(kind(&softirq), Some(WakerKind::SoftInterrupt));
        let timer = ["hrtimer_wakeup", "__hrtimer_run_queues", "__sysvec_apic_timer_interrupt"];
        assert_eq!(kind(&timer), Some(WakerKind::Interrupt));
        assert_eq!(kind(&["hrtimer_wakeup"]), None);
        assert_eq!(kind(&["futex_wake", "do_futex"]), None);
    }

    #[test]
    fn a_wait_for_another_thread_that_a_timer_ends_is_for_time_to_pass() {
        let timer = ["hrtimer_wakeup", "__hrtimer_run_queues", "__sysvec_apic_timer_interrupt"];
        let signal = ["signal_wake_up_state", "sock_def_readable", "handle_softirqs"];
        assert_eq!(is_timer(timer.into_iter()), Some(true));
        assert_eq!(is_timer(signal.into_iter()), Some(false));
        assert_eq!(is_timer(["", ""].into_iter()), None, "names are hidden");
        let ended = |reason, waker, is_timer| by_its_end(reason, waker, is_timer);
        assert_eq!(ended(Reason::Lock, WakerKind::Interrupt, Some(true)), Reason::Sleep);
        assert_eq!(ended(Reason::Lock, WakerKind::SoftInterrupt, Some(true)), Reason::Sleep);
        assert_eq!(ended(Reason::Lock, WakerKind::Interrupt, None), Reason::Sleep);
        assert_eq!(ended(Reason::Lock, WakerKind::SoftInterrupt, Some(false)), Reason::Lock);
        assert_eq!(
            ended(Reason::Lock, WakerKind::Thread, Some(true)),
            Reason::Lock,
            "it runs in a timer's thread"
        );
        assert_eq!(ended(Reason::Lock, WakerKind::None, None), Reason::Lock);
        assert_eq!(ended(Reason::Poll, WakerKind::Interrupt, Some(true)), Reason::Poll);
    }

    #[test]
    fn the_schedulers_own_frames_are_left_out() {
        let functions = ["bpf_prog", "__traceiter_sched_exit_tp", "__schedule", "schedule", "do_nanosleep"];
        assert_eq!(own_frames(functions.into_iter(), &["__schedule"]), 3);
        assert_eq!(own_frames(["do_nanosleep"].into_iter(), &["__schedule"]), 0);
    }
}
