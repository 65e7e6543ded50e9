//! What this process may do, and how to say that it may not.

use crate::failure::{Failure, status};

/// Capabilities that a recording needs, by bit number (capabilities(7)).
const NEEDED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
const CAP_SYS_ADMIN: u32 = 21;

/// The effective capabilities of this process as a bit mask.
fn effective_capabilities() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .unwrap_or(0)
}

/// The needed capabilities that are missing.
pub fn missing_capabilities() -> Vec<&'static str> {
    let held = effective_capabilities();
    if held & 1 << CAP_SYS_ADMIN != 0 {
        return Vec::new();
    }
    NEEDED.iter().filter(|(bit, _)| held & 1 << bit == 0).map(|(_, name)| *name).collect()
}

/// A failure of `what` because a right is missing; names the right and the ways to get it.
pub(super) fn not_permitted(what: &str) -> Failure {
    let missing = missing_capabilities();
    let why = if missing.is_empty() {
        "the kernel refused (a container's seccomp profile or kernel lockdown does that)".to_owned()
    } else {
        format!("{} missing", missing.join(" and "))
    };
    Failure::new(status::NOT_PERMITTED, format!("{what}: {why}"))
        .hint("now:      run the same command with sudo")
        .hint("lasting:  sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_checkpoint_restore+ep $(which prof)")
        .hint("details:  prof doctor")
}
