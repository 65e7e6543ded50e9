//! The kernel side: the BPF object with its generated bindings, and the bytes it sends as events.
//!
//! Knows nothing of files, tables or profiles. `layout` has the structs that both sides share, `ring` reads, `event` and
//! `wait_event` decode records; a `MarkedAddress` is the address of a frame in a record.

#[cfg(test)]
mod call_rules;
mod event;
mod fields;
mod goroutine;
#[cfg(test)]
mod instruction;
mod layout;
#[cfg(test)]
mod loop_rules;
mod managed_frame;
mod marked_address;
mod ring;
mod runtime_frame;
#[cfg(test)]
mod stack_rules;
mod wait_event;

pub(crate) use event::{RescueEvent, SampleEvent, StackCopyEvent, WaitEvent};
pub(crate) use fields::DecodeError;
pub(crate) use goroutine::{GoroutineEvent, MOST_LABELS, SampleGoroutine, goroutine_check};
pub(crate) use layout::number;
pub use layout::*;
pub(crate) use managed_frame::ManagedFrame;
pub(crate) use marked_address::MarkedAddress;
pub(crate) use ring::Ring;
pub(crate) use runtime_frame::{
    CodeContent, InterpreterFrame, InterpreterFrames, NewCodeEvent, code_check, content_bytes, mixed_check,
};
pub(crate) use wait_event::{
    Account, Doing, OpenWait, REASONS, ThreadTimeEvent, WaitKind, WatchedThreadEvent,
};
