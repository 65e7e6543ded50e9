//! Filters on system calls (seccomp), by which containers and services are kept from BPF programs and perf events.

use std::io;

/// System calls that a recording needs and a filter refuses. A filter answers before the kernel looks at the arguments:
/// these have none that the kernel would take.
pub(crate) fn filtered_calls() -> Vec<&'static str> {
    const HAS_FILTER: &str = "2";
    if super::proc_status::status_field("Seccomp:").is_none_or(|mode| mode.trim() != HAS_FILTER) {
        return Vec::new();
    }
    // SAFETY: the kernel reads the attributes through a null pointer, which it answers by EFAULT.
    let perf = unsafe { libc::syscall(libc::SYS_perf_event_open, std::ptr::null::<u8>(), 0, -1, -1, 0) };
    let perf = (perf < 0).then(io::Error::last_os_error);
    // SAFETY: there is no such command, and there are no bytes after the null pointer.
    let bpf = unsafe { libc::syscall(libc::SYS_bpf, libc::c_int::MAX, std::ptr::null::<u8>(), 0) };
    let bpf = (bpf < 0).then(io::Error::last_os_error);
    let calls = [("perf_event_open", perf), ("bpf", bpf)];
    calls
        .into_iter()
        .filter(|(_, error)| error.as_ref().is_some_and(is_filtered))
        .map(|(name, _)| name)
        .collect()
}

/// Whether `error` is one that the filters of Docker, Podman and systemd answer.
fn is_filtered(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_answers_are_not_a_filters() {
        let is = |code| is_filtered(&io::Error::from_raw_os_error(code));
        assert_eq!(
            [libc::EPERM, libc::ENOSYS, libc::EFAULT, libc::EINVAL].map(is),
            [true, true, false, false]
        );
    }
}
