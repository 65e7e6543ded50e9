//! The kernel side: the BPF object with its generated bindings, and the bytes it sends as events.
//!
//! Knows nothing of files, tables or profiles. `layout` has the structs that both sides share, `ring` reads, `event` and
//! `wait_event` decode records; a `MarkedAddress` is the address of a frame in a record.

mod block;
mod event;
mod faulted_memory;
mod fields;
mod futex;
mod goroutine;
mod layout;
mod managed_frame;
mod marked_address;
#[cfg(test)]
mod object_checks;
mod ring;
mod runtime_frame;
mod stack_bytes;
mod wait_event;

pub(crate) use block::{BlockEvent, BlockStep, SamplingChance};
pub(crate) use event::{RescueEvent, SampleEvent, StackCopyEvent, StackRoot, WaitEvent};
pub(crate) use fields::DecodeError;
pub(crate) use futex::FutexWait;
pub(crate) use goroutine::{GoroutineEvent, MOST_LABELS, SampleGoroutine, goroutine_check};
pub(crate) use layout::number;
pub use layout::*;
pub(crate) use managed_frame::ManagedFrame;
pub(crate) use marked_address::MarkedAddress;
pub(crate) use ring::Ring;
pub(crate) use runtime_frame::{
    CodeContent, InterpreterFrame, InterpreterFrames, NewCodeEvent, code_check, content_bytes, mixed_check,
};
pub(crate) use stack_bytes::StackBytes;
pub(crate) use wait_event::{
    Account, Doing, OpenWait, REASONS, ThreadTimeEvent, WaitKind, WatchedThreadEvent,
};
