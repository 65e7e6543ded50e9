//! The recorder: from a target to a finished profile, in a file or live.
//!
//! `recorder` is the list of steps for a file, `live` the same for a screen. Each room below it does one of them; it uses
//! `bpf`, `unwind`, `profile` and `symbols`, which do not know each other. Nothing here reads a finished profile or shows one.

mod collect;
mod environment;
mod kernel;
pub mod live;
mod modules;
mod names;
mod options;
mod output;
mod process;
mod recorder;
mod session;
mod target;
mod waits;

pub use environment::machine::MAX_CPU_CLOCK_HZ;
pub use environment::namespaces::{
    Kind as NamespaceKind, Place as NamespacePlace, apart as namespaces_apart, check as check_namespaces,
    clock_offset_ns, own as own_namespace,
};
pub use environment::rights::{
    CAPABILITIES, CONTAINER_OPTIONS, Capability, Refusal, Rights, is_in_container, is_sysctl_read_only,
    lacks as lacks_capability, lasting_fix, own_path, sysctl_advice,
};
pub use environment::seccomp::filtered_calls;
pub use kernel::sideband::CodeMapping;
pub use kernel::types::TypesLack;
pub use names::complete::{Completed, complete_names};
pub use options::{CallGraph, Children, Output, Rate, RecordOptions, Target, WaitOptions, WaitStacks};
pub use process::proc_fs::{innermost_number, parse_maps};
pub use recorder::run;
pub use session::cost::CostOf;
pub use session::{Session, Start};
pub use target::search::{Found, count_named, find};
