//! The profile: what a recording holds, in memory and as a file. The recorder fills a [`Profile`], and a [`Writer`] appends new
//! rows to the file; a reader gets the same [`Profile`] back, and live views read snapshots of it. The address of a frame is the
//! truth; names (`Symbols`) are a cache of it. Knows nothing of how samples are taken, unwound, named or drawn.

pub(crate) mod code;
mod contents;
mod event;
mod file;
mod interned;
mod interpreter_quality;
mod join;
mod kernel_addresses;
mod kind;
mod labels;
pub(crate) mod merged;
mod outcome;
mod rows;
mod runtime_frames;
mod symbols;
mod table;
mod wait;

pub(crate) use crate::base::units::Unit;
pub(crate) use contents::counter;
pub use contents::{End, Meta, OUTSIDE, Profile};
pub(crate) use contents::{FRAMES_LEFT_OUT, UNNAMED_CODE, UNPLACED};
pub(crate) use event::HeapBlock;
pub use event::{Event, EventId, EventInfo, Sample};
#[cfg(feature = "testing")]
pub(crate) use file::chunk_of;
pub use file::error::{Integrity, ReadError, WriteError};
pub(crate) use file::lock;
#[cfg(test)]
pub(crate) use file::tests::demo_profile;
pub(crate) use file::{Glance, Opened, begins_as_profile, read_stream, start_of};
pub use file::{Writer, read, read_path};
pub(crate) use join::{Joined, MOST_JOINED, TakenRows, cut};
pub use kernel_addresses::AddressSettings;
pub use kind::EventKind;
pub(crate) use kind::KindKey;
pub(crate) use labels::{
    ALLOCATED_BEFORE, FUTEX_LABEL, GLOBAL_MEMORY, GOROUTINE_LABEL, GOROUTINE_LOCK, LOCK_ALLOCATION_LABEL,
    LOCK_HELD, LOCK_LABEL, LOCK_OBJECT_LABEL, MEMORY_LABEL, SHARED_MEMORY, STATE_LABEL, SYSTEM_CALL_LABEL,
};
pub use merged::Merged;
pub use outcome::Outcome;
pub use rows::{
    FoundBy, Frame, FrameFlags, FrameId, FrameSpace, LabelSetId, Module, ModuleId, ModuleKind, StackId,
    StringId, Task, TaskId,
};
pub(crate) use rows::{LabelSet, ModuleNotes, Stack, SymbolsFrom, call_address};
pub(crate) use runtime_frames::RuntimeFrames;
pub use symbols::{Function, FunctionId, Location};
pub use table::Tables;
pub(crate) use wait::is_kernel_lock;
pub use wait::{Reason, ShortWaits, ThreadTime, Wait, Waker, WakerKind};
