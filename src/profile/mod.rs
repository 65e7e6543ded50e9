//! The profile: what a recording holds, in memory and as a file.
//!
//! The recorder fills a [`Profile`] and a [`Writer`] appends what is new to the file; a reader gets
//! the same [`Profile`] back. Live views read the very structure that the recorder fills.
//! The address of a frame is the truth; names ([`Symbols`]) are a cache of it.
//!
//! Knows nothing of how samples are taken, unwound, named or drawn.

mod contents;
mod event;
mod file;
mod kernel_addresses;
pub mod lock;
pub(crate) mod merged;
mod outcome;
mod symbols;
mod table;
mod wait;

pub use contents::{CpuShares, End, FRAMES_LEFT_OUT, Meta, OUTSIDE, Profile, UNNAMED_CODE, counter};
pub use event::{Event, EventId, EventInfo, Sample, Unit};
pub use file::error::{Integrity, ReadError, WriteError};
pub use file::{Glance, Opened, Writer, read, read_path, read_stream, recorder_words};
pub use kernel_addresses::AddressSettings;
pub use merged::Merged;
pub use outcome::Outcome;
pub use symbols::{Function, FunctionId, Location, Symbols};
pub use table::{
    FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Module, ModuleId, ModuleKind, Stack, StackId, StringId,
    Tables, Task, TaskId,
};
pub use wait::{Reason, ShortWaits, ThreadTime, Wait, Waker, WakerKind};
