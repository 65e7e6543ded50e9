//! The frames of a stack that runs generated code: one step after the other, from what blobs say and what instructions do,
//! on a copy of the stack. Not here: names.

mod code;
mod note;
mod stack;
mod stack_copy;
mod walk;

pub(crate) use note::JavaNote;
pub(crate) use stack::{JavaEnd, JavaFrame, JavaLive, JavaPosition, JavaRegisters, JavaWalk};
pub(crate) use stack_copy::JavaStackCopy;
pub(crate) use walk::walk;
