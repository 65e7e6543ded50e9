//! Facts and limits of the machine that is recorded on.

use crate::elf::Architecture;
use crate::profile::{AddressSettings, Meta};
use crate::record::options::{Rate, RecordOptions};
use crate::unwind::arch::architecture::signature_mask_of;

/// Event that drives the sampling, as perf calls it: the kernel's timer. Every sample is weighted as one period of it, by
/// which running time is on one axis with waits, whatever the CPU's frequency. A counter of cycles does not give that:
/// the kernel shortens the period of a counter that is to come this many times a second while the CPU is idle, so that a
/// thread which runs a quarter of the time has several times as many samples as it should.
pub(crate) const SAMPLE_CLOCK: &str = "cpu-clock";

/// Settings of the kernel that limit sampling.
const MAX_SAMPLE_RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
/// `cpu-clock` drops ticks without a word when they come faster than it can serve them: at 30 kHz 0.4 %, at 100 kHz
/// 16 % of the time was missing (Linux 6.18, virtual machine), at 10 kHz none.
pub(crate) const MAX_CPU_CLOCK_HZ: u32 = 20_000;

/// The rate in force: what was asked for, within what the kernel allows.
pub(crate) fn effective_hz(options: &RecordOptions, notices: &mut Vec<String>) -> u32 {
    let kernel_limit = std::fs::read_to_string(MAX_SAMPLE_RATE)
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .unwrap_or(MAX_CPU_CLOCK_HZ)
        .max(1);
    let (limit, why) = match MAX_CPU_CLOCK_HZ < kernel_limit {
        true => (MAX_CPU_CLOCK_HZ, SAMPLE_CLOCK),
        false => (kernel_limit, "kernel.perf_event_max_sample_rate"),
    };
    let asked = match options.rate {
        Rate::Default => options.target.default_hz(),
        Rate::Hz(hz) => hz.max(1),
        Rate::Max => limit,
    };
    if asked > limit {
        let [asked, limit] = [asked, limit].map(|hz| crate::base::units::count(hz.into()));
        notices.push(format!("{asked} Hz is above the limit of {limit} Hz ({why}): sampling at {limit} Hz"));
    }
    asked.min(limit)
}

/// CPUs that are online.
pub(crate) fn online_cpus() -> anyhow::Result<Vec<u32>> {
    cpus("online")
}

/// CPUs that are there, online or not; others may be plugged in.
pub(crate) fn present_cpus() -> anyhow::Result<Vec<u32>> {
    cpus("present")
}

/// CPUs by one of the kernel's lists (`/sys/devices/system/cpu/online`: `0-3,8`).
fn cpus(list: &str) -> anyhow::Result<Vec<u32>> {
    use anyhow::Context;
    let path = format!("/sys/devices/system/cpu/{list}");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) =
            (first.parse().context("odd CPU list")?, last.parse().context("odd CPU list")?);
        cpus.extend(first..=last.min(first.saturating_add(8191)));
    }
    Ok(cpus)
}

/// Bits of a return address that are not part of it, on this machine: see
/// [`signature_mask_of`]. 0 on x86-64.
pub(crate) fn signature_mask() -> u64 {
    if Architecture::HOST != Architecture::Aarch64 {
        return 0;
    }
    // The stack is at the upper end of the address space.
    let on_the_stack = 0u8;
    signature_mask_of(std::ptr::from_ref(&on_the_stack).addr() as u64)
}

/// Name of this machine.
pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Facts of the machine, and of who recorded on it, for a profile.
pub(crate) fn system_meta() -> Meta {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    Meta {
        hostname: hostname(),
        kernel: text(uname.release()),
        arch: text(uname.machine()),
        recorder_pid: std::process::id(),
        kernel_addresses: AddressSettings::of_this_kernel(!super::rights::lacks("CAP_SYSLOG")),
        ..Meta::default()
    }
}
