//! What is recorded of waits.

use crate::record::kernel::types::{KERNEL_TYPES, KernelTypeNames};

use crate::record::options::{WaitOptions, WaitStacks};
use std::time::Duration;

/// How waits are recorded on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitConfig {
    /// Shorter waits have no stacks.
    pub min_block: Duration,
    /// What stacks may cost, millionths of each CPU's time; 0: no limit.
    pub max_overhead_ppm: u32,
    /// Waits that are not over are told of while the recording goes on.
    pub is_watched: bool,
    /// Stacks are taken when a wait begins, since the kernel has no place to do it when it ends.
    pub is_early: bool,
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
            is_early: options.stacks == WaitStacks::WhenLeaving || !types.has("btf_trace_sched_exit_tp"),
        })
    }
}

impl WaitConfig {
    /// The rule by which waits are kept, for people.
    pub(crate) fn describe(&self) -> String {
        let share = match self.max_overhead_ppm {
            0 => String::new(),
            ppm => format!(", as many as {}% of each CPU's time allow", f64::from(ppm) / 1e4),
        };
        format!("waits of {} and more{share}", humantime::format_duration(self.min_block))
    }
}

/// What the programs need of the kernel, by the names of its types. The last came with 5.18, as did the state of the
/// thread that leaves as an argument of sched_switch.
pub(crate) const NEEDED: [&str; 5] = [
    "btf_trace_sched_switch",
    "btf_trace_sched_waking",
    "btf_trace_sched_wakeup_new",
    "bpf_iter__task",
    "bpf_copy_from_user_task",
];
