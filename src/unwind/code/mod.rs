//! Rules from instructions, where entries are missing, silent or wrong: known sequences, prologues followed along all jumps,
//! code that runtimes generate. It sees bytes and addresses of one module.

pub(crate) mod beam;
pub(crate) mod bytes;
mod fcontext;
pub(crate) mod function_starts;
pub(crate) mod known;
pub(crate) mod libgcc;
pub(crate) mod main_function;
pub(crate) mod patterns;
pub(crate) mod php;
mod prologue;
pub(crate) mod trampolines;
pub(crate) mod vfork;
