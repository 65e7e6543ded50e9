//! The recorder: from a target to a finished profile, in a file or live.
//!
//! `recorder` is the list of steps for a file, `live` the same for a screen. Each room below it does one of them; it uses
//! `bpf`, `unwind`, `profile` and `symbols`, which do not know each other. Nothing here reads a finished profile or shows one.

mod agreement;
mod beginning;
mod collect;
mod counter;
mod environment;
mod failures;
mod file_sink;
mod goroutines;
mod heap;
mod interpreters;
mod kernel;
mod labels;
pub(crate) mod live;
mod managed_code;
mod modules;
mod names;
mod options;
mod output;
mod probes;
mod process;
mod recorder;
mod runtime_search;
mod services;
mod session;
mod signals;
mod target;
mod waits;
mod windows;
mod worker_jobs;
mod workers;

pub(crate) use counter::PerfCounter;
pub(crate) use environment::kernel_types::TypesLack;
pub(crate) use environment::known_bugs::standstill as kernel_standstill;
pub(crate) use environment::machine::{MAX_CPU_CLOCK_HZ, hostname};
pub(crate) use environment::namespaces::{
    NamespaceKind, NamespacePlace, apart as namespaces_apart, check as check_namespaces, clock_offset_ns,
    own as own_namespace,
};
pub use environment::rights::{CAPABILITIES, Capability};
pub(crate) use environment::rights::{
    CONTAINER_OPTIONS, Refusal, Rights, is_in_container, is_sysctl_read_only, lacks as lacks_capability,
    lasting_fix, own_path, sysctl_advice,
};
pub(crate) use environment::seccomp::filtered_calls;
#[cfg(feature = "testing")]
pub(crate) use heap::check_patched_code;
pub(crate) use kernel::load::failure::read_loader_messages;
pub(crate) use kernel::perf_event::try_all_processes;
pub(crate) use modules::read_own_vdso;
pub(crate) use names::complete::{Completed, DebugSources, complete_names};
pub(crate) use names::symbolize::LeftMaps;
#[cfg(feature = "testing")]
pub(crate) use options::WaitStacks;
pub(crate) use options::{CallGraph, Children, Rate};
pub use options::{Keep, Output};
pub(crate) use options::{RecordOptions, Sampler, Target, WaitOptions};
pub(crate) use output::window_folder::{WindowFolder, another_window_name};
pub(crate) use probes::price::hit_prices;
#[cfg(feature = "testing")]
pub(crate) use probes::site::search::file_offsets as probe_offsets;
pub(crate) use probes::spec::{FORMS as PROBE_FORMS, ProbeSpec};
pub(crate) use process::busiest::{BusyProcess, ProcessWatch};
pub(crate) use process::identities::{LabelsProcesses, ProcessLabels, SampledProgram};
pub(crate) use process::parent::Parent;
pub(crate) use process::proc_fs::innermost_number;
pub(crate) use recorder::run;
pub(crate) use services::{Labelling, ServesHostFiles, TableCacheOrNot, start_opener};
pub(crate) use session::{Session, Start};
pub(crate) use target::search::{FoundTarget, count_named, find};
pub(crate) use workers::end as end_workers;
#[cfg(feature = "testing")]
pub(crate) use {kernel::sideband::decode as decode_sideband, process::proc_fs::parse_maps};
