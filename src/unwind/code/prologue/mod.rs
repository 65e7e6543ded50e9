//! Prologue analysis: rules of functions without unwind entries, from following their instructions along all jumps. A function is
//! followed by itself (`control_flow`), on an abstract state of its frame; `analyze` does so for all functions of a module and
//! keeps what they agree on. Where functions begin is found outside, in `function_starts`.

mod abstract_state;
pub(super) mod analyze;
mod claims;
mod control_flow;
pub(super) mod facts;
pub(super) mod never_return;
mod stack_place;
