//! HotSpot in another process: where its generated code and methods are, the Java frames of a stack, and their names.
//! Everything is read through `TargetMemory`; offsets come from the tables that libjvm exports about itself.
//! Not here: reading registers, native frames, and the BPF program that walks the same frames in the kernel.

mod blob;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fake;
mod frames;
mod interpreter;
mod layout;
mod method;
mod names;
mod numbers;
mod probe;
mod scopes;
mod tables;
mod version;

pub(crate) use blob::JavaBlobKind;
pub(crate) use frames::{
    JavaEnd, JavaLive, JavaNote, JavaPosition, JavaRegisters, JavaStackCopy, JavaWalk, walk,
};
pub(crate) use layout::JavaLayout;
pub(crate) use names::{JavaFunction, JavaMark, JavaNames};
pub(crate) use probe::{JavaProbe, JavaProbeField};
