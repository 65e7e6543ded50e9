//! Ruby: frames and names of MRI 2.7 to 4.0, read in the memory of a process that runs: its layout, names and lines of code
//! objects, the code of the interpreter loop, and stacks. Not here: ELF files, unwinding, merging with
//! native frames, programs of the kernel.

mod code;
mod find;
mod frames;
mod interpreter_loop;
mod layout;
mod lines;
mod names;
mod object;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use code::RubyCode;
pub(crate) use frames::{RubyFrame, stack};
pub(crate) use interpreter_loop::{RubyLoop, loop_ranges};
pub(crate) use layout::{RubyLayout, RubyLocator, RubyPlace};
#[cfg(feature = "testing")]
pub(crate) use {layout::RubyVersion, tables::offsets as known_offsets};
