//! Processes that are left alone, and why.

use crate::record::process::proc_fs;

/// Why the process must not be stopped or changed, by its /proc/PID/status; `None` if it may.
pub(super) fn reason(pid: u32) -> Option<String> {
    // A first thread that has ended has no memory any more.
    let thread = proc_fs::thread_to_read(pid);
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")) else {
        return Some("it has ended".to_owned());
    };
    by_status(&status).or_else(|| {
        let parent = field(&status, "PPid").and_then(|parent| parent.parse().ok())?;
        shares_memory(pid, parent).then(|| "it shares its memory with its parent (vfork)".to_owned())
    })
}

fn by_status(status: &str) -> Option<String> {
    let tracer = field(status, "TracerPid").unwrap_or("0");
    if tracer != "0" {
        return Some(format!("pid {tracer} traces it, such as a debugger"));
    }
    // Filters (2) are asked.
    if field(status, "Seccomp") == Some("1") {
        return Some("it has restricted its system calls to read and write (seccomp)".to_owned());
    }
    if field(status, "x86_Thread_features").is_some_and(|features| features.contains("shstk")) {
        return Some("it has a shadow stack".to_owned());
    }
    (field(status, "VmSize").is_none()).then(|| "it has no memory of its own".to_owned())
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// Whether two processes have the same memory.
fn shares_memory(one: u32, other: u32) -> bool {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: kcmp takes numbers.
    other != 0 && unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) } == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_in_the_status() {
        let status =
            |more: &str| format!("Name:\tprogram\nVmSize:\t 10 kB\nTracerPid:\t0\nSeccomp:\t0\n{more}");
        assert_eq!(by_status(&status("")), None);
        let traced = status("").replace("TracerPid:\t0", "TracerPid:\t17");
        assert_eq!(by_status(&traced).as_deref(), Some("pid 17 traces it, such as a debugger"));
        let strict = status("").replace("Seccomp:\t0", "Seccomp:\t1");
        assert!(by_status(&strict).is_some_and(|why| why.contains("seccomp")));
        assert!(by_status(&status("x86_Thread_features:\tshstk \n")).is_some());
        assert_eq!(by_status("Name:\tkthreadd\n").as_deref(), Some("it has no memory of its own"));
        assert_eq!(reason(std::process::id()), None);
    }
}
