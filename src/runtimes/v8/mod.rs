//! JavaScript functions of V8 (Node.js) processes: names, files, lines and inlined functions, read from outside.
//! Offsets come from the `v8dbg_*` symbols of the program; what those leave out is checked by the type of each object.
//! Input is memory of a process that runs on: every object is checked before it is believed.
//! Not here: walking stacks, choosing between native and JavaScript frames, WebAssembly, builds with compressed
//! pointers.

mod bytecode;
mod code;
mod constants;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fake;
mod frame;
mod function;
mod inlined;
mod layout;
mod object;
mod positions;
mod scope;
mod script;
mod text;

pub(crate) use code::{V8Code, V8CodeKind, V8Codes};
pub(crate) use constants::V8Symbol;
pub(crate) use frame::V8FrameWords;
pub(crate) use function::V8Function;
pub(crate) use inlined::V8Inlined;
pub(crate) use layout::V8Layout;
