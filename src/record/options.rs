//! What to record and where to put it, as plain values: the command line is only one way to fill them.

use super::counter::PerfCounter;
use super::probes::spec::ProbeSpec;
use super::process::parent::Parent;
use crate::profile::RuntimeFrames;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Whose time is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// All threads of these processes.
    Pids(Vec<u32>),
    /// Just these threads.
    Tids(Vec<u32>),
    /// All processes whose name (`comm`) or executable's file name matches this regular expression.
    Name(String),
    /// Every process of the machine.
    System,
    /// A command that is started for the recording: program and arguments.
    Launch(Vec<OsString>),
}

impl Target {
    /// The sampling rate when none is asked for: the whole machine is sampled more gently.
    pub(crate) fn default_hz(&self) -> u32 {
        match self {
            Target::System => 99,
            _ => 999,
        }
    }
}

/// Rate at which a running CPU is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    /// The default of the target.
    Default,
    /// Samples per second and CPU; clamped to the kernel's limit.
    Hz(u32),
    /// The kernel's limit (`kernel.perf_event_max_sample_rate`).
    Max,
}

/// Method of walking user stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CallGraph {
    /// Unwind tables, and frame pointers where code has none.
    #[default]
    Auto,
    /// Unwind tables only.
    Dwarf,
    /// Frame pointers only.
    FramePointer,
}

/// Point in a wait at which its stack is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WaitStacks {
    /// The best way that the kernel has.
    #[default]
    Auto,
    /// The start of the wait, although it is not known how long it will be: what kernels before 6.15 can do.
    WhenLeaving,
}

/// Options of the recording of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitOptions {
    /// Shorter waits are summed up by thread and reason, without stacks.
    pub(crate) min_block: Duration,
    /// Overhead budget for stacks of waits, millionths of each CPU's time; 0: no limit.
    pub(crate) max_overhead_ppm: u32,
    /// Point at which the stacks are taken.
    pub(crate) stacks: WaitStacks,
    /// Only waits in futexes are recorded.
    pub(crate) futexes_only: bool,
}

impl Default for WaitOptions {
    fn default() -> Self {
        WaitOptions {
            min_block: Duration::from_micros(1),
            max_overhead_ppm: 20_000,
            stacks: WaitStacks::Auto,
            futexes_only: false,
        }
    }
}

/// Which children of recorded processes are recorded, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Children {
    /// Children that are started while the recording goes on.
    #[default]
    New,
    /// All children: also the ones that are there already, with theirs.
    All,
    /// No children, neither those that exist nor those that are started later.
    None,
}

/// Source of the samples of one kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sampler {
    /// A clock: the time that threads run.
    Clock,
    /// The scheduler's switches: the time that they do not.
    Waits(WaitOptions),
    /// A counter of the kernel or the processor.
    Counter(PerfCounter),
    /// Sampled blocks of memory that functions of an allocator give, which may take this share of a CPU, ppm; 0: no limit.
    Heap(u32),
    /// What the runtimes of Go programs sample of waits for locks, which may take this share of a CPU, ppm; 0: no limit.
    GoWaits(u32),
    /// Snapshots of all goroutines of Go programs, which may take this share of a CPU, ppm.
    Goroutines(u32),
    /// A probe, whose hits may take this share of each CPU's time, ppm; 0: no limit.
    Probe(ProbeSpec, u32),
}

/// Destination of the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// `prof.data` in the working directory; an older one becomes `prof.data.old`.
    Default,
    /// A file; an existing one is an error unless `force` is set.
    File {
        /// Path, after expansion of `%p`, `%c` and `%t` by the recorder.
        path: PathBuf,
        /// Replace an existing regular file.
        force: bool,
    },
    /// Files in a folder, one for each window of time; what is in the folder is kept within limits.
    Folder {
        /// The folder, which is made if it does not exist.
        path: PathBuf,
        /// Which windows stay.
        keep: Keep,
    },
    /// Standard output.
    Stdout,
}

/// Which windows of a recording stay in their folder: the oldest go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Those that ended at most so long ago; `None` for all.
    pub(crate) age: Option<Duration>,
    /// As many as have this many bytes at most, all together; `None` for all.
    pub(crate) bytes: Option<u64>,
}

/// All options of `prof record`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordOptions {
    /// Whose time is recorded.
    pub(crate) target: Target,
    /// With a target other than [`Target::Launch`]: a command that runs during the recording and
    /// ends it (`-p PID -- sleep 30`).
    pub(crate) timer: Option<Vec<OsString>>,
    /// The user that a command runs as, by name or number; `None`: the one who called sudo, else the own one.
    pub(crate) run_as: Option<String>,
    /// Samplers of the events to record; each once.
    pub(crate) events: Vec<Sampler>,
    /// Rate of samples.
    pub(crate) rate: Rate,
    /// Stop after this long.
    pub(crate) duration: Option<Duration>,
    /// Start sampling this long after everything is set up.
    pub(crate) delay: Option<Duration>,
    /// Method of walking user stacks.
    pub(crate) call_graph: CallGraph,
    /// What is recorded of interpreters; all of it, unless it is off.
    pub(crate) runtime: RuntimeFrames,
    /// Leave out samples in the kernel, and kernel frames.
    pub(crate) user_only: bool,
    /// Which children of recorded processes are recorded, too.
    pub(crate) children: Children,
    /// Destination of the profile.
    pub(crate) output: Output,
    /// Length of a window, after which the recording goes on in a file of its own; `None` for a single file.
    pub(crate) window: Option<Duration>,
    /// End when the process has ended that has started this one.
    pub(crate) ends_with: Option<Parent>,
    /// Print nothing but errors.
    pub(crate) quiet: bool,
    /// Print what is done, and the loaders' own messages.
    pub(crate) verbose: bool,
    /// Maximum memory for unwind tables in the kernel, bytes.
    pub(crate) table_budget_bytes: u64,
    /// File for a copy of every sample's registers and stack, for a second walk by another unwinder.
    #[cfg(feature = "testing")]
    pub(crate) stack_copies: Option<PathBuf>,
    /// Keep the source lines of the code that is kept, too.
    pub(crate) embed_source: bool,
    /// Folders in which debug files are looked for, besides the usual places.
    pub(crate) debug_folders: Vec<PathBuf>,
    /// Once the file is complete, debuginfod servers are asked for what is missing.
    pub(crate) debuginfod: bool,
    /// Options of `prof record` that were typed after the command, which gets them.
    pub(crate) stray_options: Vec<String>,
}

impl Default for RecordOptions {
    fn default() -> Self {
        RecordOptions {
            target: Target::System,
            timer: None,
            run_as: None,
            events: vec![Sampler::Clock],
            rate: Rate::Default,
            duration: None,
            delay: None,
            call_graph: CallGraph::default(),
            runtime: RuntimeFrames::default(),
            user_only: false,
            children: Children::default(),
            output: Output::Default,
            window: None,
            ends_with: None,
            quiet: false,
            verbose: false,
            table_budget_bytes: 256 << 20,
            #[cfg(feature = "testing")]
            stack_copies: None,
            embed_source: false,
            debug_folders: Vec::new(),
            debuginfod: false,
            stray_options: Vec::new(),
        }
    }
}

impl RecordOptions {
    /// The command that is started: to be recorded, or to end the recording when it ends.
    pub(crate) fn command(&self) -> Option<&[OsString]> {
        match &self.target {
            Target::Launch(command) => Some(command),
            _ => self.timer.as_deref(),
        }
    }

    /// Whether running threads are sampled.
    pub(crate) fn on_cpu(&self) -> bool {
        self.events.contains(&Sampler::Clock)
    }

    /// Options of the recording of waits; `None` if they are not recorded.
    pub(crate) fn waits(&self) -> Option<&WaitOptions> {
        self.events.iter().find_map(|sampler| match sampler {
            Sampler::Waits(waits) => Some(waits),
            _ => None,
        })
    }

    /// The counters that are sampled.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &PerfCounter> {
        self.events.iter().filter_map(|sampler| match sampler {
            Sampler::Counter(counter) => Some(counter),
            _ => None,
        })
    }

    /// The probes, each with the share of each CPU's time that its hits may take, ppm.
    pub(crate) fn probes(&self) -> impl Iterator<Item = (&ProbeSpec, u32)> {
        self.events.iter().filter_map(|sampler| match sampler {
            Sampler::Probe(probe, overhead_ppm) => Some((probe, *overhead_ppm)),
            _ => None,
        })
    }

    /// Share of a CPU that sampled blocks of memory may take, ppm; `None` if they are not recorded.
    pub(crate) fn heap(&self) -> Option<u32> {
        self.events.iter().find_map(|sampler| match sampler {
            Sampler::Heap(overhead_ppm) => Some(*overhead_ppm),
            _ => None,
        })
    }

    /// Share of a CPU that samples of waits by Go programs may take, ppm; 0: no limit, `None`: there are none.
    pub(crate) fn go_waits(&self) -> Option<u32> {
        self.events.iter().find_map(|sampler| match sampler {
            Sampler::GoWaits(overhead_ppm) => Some(*overhead_ppm),
            _ => None,
        })
    }

    /// Share of a CPU that snapshots of goroutines may take, ppm; `None` if there are none.
    pub(crate) fn goroutines(&self) -> Option<u32> {
        self.events.iter().find_map(|sampler| match sampler {
            Sampler::Goroutines(overhead_ppm) => Some(*overhead_ppm),
            _ => None,
        })
    }
}
