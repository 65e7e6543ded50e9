//! What is recorded of waits.

use crate::bpf::OpenProfSkel;
use crate::record::environment::kernel_types::{KERNEL_TYPES, KernelTypeNames};
use crate::record::options::{WaitOptions, WaitStacks};
use crate::record::waits::reason;
use std::time::Duration;

/// Configuration of the recording of waits on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitConfig {
    /// Shorter waits have no stacks.
    pub(crate) min_block: Duration,
    /// Overhead budget for stacks, millionths of each CPU's time; 0: no limit.
    pub(crate) max_overhead_ppm: u32,
    /// Waits that are not over are sent while the recording goes on.
    pub(crate) is_watched: bool,
    /// Only waits in futexes are recorded.
    pub(crate) futexes_only: bool,
    /// Stacks are taken when a wait begins, since the kernel has no place to do it when it ends.
    pub(crate) is_early: bool,
}

impl WaitConfig {
    /// The best way that this kernel has, within what is asked for.
    ///
    /// # Errors
    ///
    /// Why waits cannot be recorded at all.
    pub(crate) fn for_this_kernel(options: &WaitOptions) -> Result<Self, String> {
        let types = KernelTypeNames::load()
            .map_err(|error| format!("this kernel has no type information ({KERNEL_TYPES}: {error})"))?;
        for name in NEEDED {
            if !types.has(name) {
                return Err(format!("it needs Linux 5.18 or later ({name} is missing here)"));
            }
        }
        Ok(WaitConfig {
            min_block: options.min_block,
            max_overhead_ppm: options.max_overhead_ppm,
            is_watched: false,
            futexes_only: options.futexes_only,
            is_early: options.stacks == WaitStacks::WhenLeaving || !types.has("btf_trace_sched_exit_tp"),
        })
    }
}

impl WaitConfig {
    /// Length from which on waits are kept, ns.
    pub(crate) fn min_duration_ns(&self) -> u64 {
        u64::try_from(self.min_block.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The rule by which waits are kept, for people.
    pub(crate) fn describe(&self) -> String {
        let share = match self.max_overhead_ppm {
            0 => String::new(),
            ppm => format!(", as many as {}% of each CPU's time allow", f64::from(ppm) / 1e4),
        };
        let place = if self.futexes_only { " in futexes" } else { "" };
        format!("waits{place} of {} and more{share}", humantime::format_duration(self.min_block))
    }
}

/// Types of the kernel that the programs need, by name. The last came with 5.18, as did the state of the thread that
/// leaves as an argument of sched_switch.
pub(crate) const NEEDED: [&str; 5] = [
    "btf_trace_sched_switch",
    "btf_trace_sched_waking",
    "btf_trace_sched_wakeup_new",
    "bpf_iter__task",
    "bpf_copy_from_user_task",
];

/// Says which programs are loaded and what they have to know. Without waits none of theirs is.
pub(crate) fn configure(
    open: &mut OpenProfSkel<'_>,
    config: Option<&WaitConfig>,
    cpus: usize,
) -> libbpf_rs::Result<()> {
    let (has_waits, is_early) = (config.is_some(), config.is_some_and(|config| config.is_early));
    let programs = &mut open.progs;
    programs.on_waking.set_autoload(has_waits);
    programs.on_new_thread.set_autoload(has_waits);
    programs.on_exec_thread.set_autoload(has_waits);
    programs.on_gone_thread.set_autoload(has_waits);
    programs.on_switch.set_autoload(has_waits && !is_early);
    programs.on_back.set_autoload(has_waits && !is_early);
    programs.on_switch_early.set_autoload(is_early);
    programs.threads_at_start.set_autoload(has_waits);
    programs.threads_at_end.set_autoload(has_waits);
    programs.threads_watched.set_autoload(config.is_some_and(|config| config.is_watched));
    let Some(config) = config else {
        return open.maps.wait_rescue_ring.set_max_entries(UNUSED_RING_BYTES);
    };
    let ring_bytes =
        (RING_BYTES_PER_CPU.saturating_mul(cpus as u32)).clamp(4 << 20, 64 << 20).next_power_of_two();
    open.maps.waits.set_max_entries(ring_bytes)?;
    open.maps.thread_times.set_max_entries(THREAD_RING_BYTES)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.records_waits = true;
        rodata.futexes_only = config.futexes_only;
        rodata.min_block_ns = config.min_duration_ns();
        rodata.overhead_ppm = config.max_overhead_ppm;
        rodata.wait_wake_bytes = ring_bytes / 4;
        rodata.stack_when_leaving = config.is_early;
        rodata.syscall_reasons = reason::by_system_call();
    }
    Ok(())
}

/// Room for waits that are on their way, bytes for each CPU.
pub(crate) const RING_BYTES_PER_CPU: u32 = 4 << 20;

/// Room for the times of threads that are on their way, bytes: some 16,000.
pub(crate) const THREAD_RING_BYTES: u32 = 4 << 20;

/// The least room that a ring can have.
pub(crate) const UNUSED_RING_BYTES: u32 = 4096;
