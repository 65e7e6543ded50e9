//! What the programs of probes have to know before they are loaded.

use crate::bpf::{OpenProfSkel, SYSTEM_CALLS};

/// Room for hits that are on their way, bytes for each CPU.
const RING_BYTES_PER_CPU: u32 = 2 << 20;
/// Stacks that can be taken at once on a CPU, by threads and interrupts that take it from each other.
const SCRATCHES: u32 = 3;

/// Which programs are loaded, and their configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbePrograms {
    /// Instructions are probed.
    pub(super) has_instructions: bool,
    /// Number of tracepoints.
    pub(super) tracepoints: u32,
    /// The number of the place that the first one is.
    only_tracepoint: u32,
    /// The kernel tells them apart.
    pub(super) tells_apart: bool,
    /// Arguments of tracepoints that are read: this many, from the first.
    arguments: u32,
    /// The number of the place that system calls are, if they are recorded.
    pub(super) system_calls: Option<u32>,
    /// Share of each CPU's time that hits may take, ppm; 0: no limit.
    pub(crate) overhead_ppm: u32,
    /// Kernel frames of tracepoints are wanted.
    has_kernel_frames: bool,
}

impl ProbePrograms {
    /// The configuration for no probes.
    pub(super) fn new(overhead_ppm: u32, has_kernel_frames: bool) -> Self {
        ProbePrograms {
            has_instructions: false,
            tracepoints: 0,
            only_tracepoint: 0,
            tells_apart: false,
            arguments: 0,
            system_calls: None,
            overhead_ppm,
            has_kernel_frames,
        }
    }

    /// There is a tracepoint at the place of this number, of which so many arguments are read.
    pub(super) fn add_tracepoint(&mut self, number: u32, arguments: u32) {
        if self.tracepoints == 0 {
            self.only_tracepoint = number;
        }
        self.tracepoints += 1;
        self.arguments = self.arguments.max(arguments);
    }
}

/// Says which programs are loaded and what they have to know. Without probes none of theirs is.
pub(crate) fn configure(
    open: &mut OpenProfSkel<'_>,
    config: Option<&ProbePrograms>,
    cpus: usize,
) -> libbpf_rs::Result<()> {
    open.progs.on_instruction.set_autoload(config.is_some_and(|config| config.has_instructions));
    open.progs.on_tracepoint.set_autoload(config.is_some_and(|config| config.tracepoints > 0));
    let system_calls = config.and_then(|config| config.system_calls);
    open.progs.on_call_begin.set_autoload(system_calls.is_some());
    open.progs.on_call_end.set_autoload(system_calls.is_some());
    let Some(config) = config else { return Ok(()) };
    if system_calls.is_some() {
        open.maps.call_totals.set_max_entries(SYSTEM_CALLS)?;
    }
    let bytes = (RING_BYTES_PER_CPU.saturating_mul(cpus as u32)).clamp(4 << 20, 64 << 20).next_power_of_two();
    open.maps.hits.set_max_entries(bytes)?;
    open.maps.hit_scratches.set_max_entries(SCRATCHES)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.probe_overhead_ppm = config.overhead_ppm;
        rodata.has_breakpoints = config.has_instructions;
        rodata.hit_wake_bytes = bytes / 4;
        rodata.probes_have_kernel_frames = config.has_kernel_frames;
        rodata.tells_tracepoints_apart = config.tells_apart;
        rodata.only_tracepoint = config.only_tracepoint;
        rodata.tracepoint_arguments = config.arguments;
        rodata.call_place = system_calls.unwrap_or(0);
    }
    Ok(())
}
