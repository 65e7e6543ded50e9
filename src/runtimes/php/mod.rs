//! PHP: frames and names of PHP 7.4 to 8.5, read in the memory of a process that runs: its layout, names and lines of
//! functions, the code of the interpreter loop, and stacks. Not here: ELF files, unwinding, merging with
//! native frames, programs of the kernel.

mod check;
mod code;
mod find;
mod frames;
mod instructions;
mod interpreter_loop;
mod layout;
mod offsets;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub(crate) use check::check;
pub(crate) use code::PhpCode;
pub(crate) use frames::{PhpFrame, PhpLoopPlace, stack};
pub(crate) use interpreter_loop::loop_ranges;
#[cfg(feature = "testing")]
pub(crate) use layout::{PhpFrameOffsets, PhpFunctionOffsets, PhpOffsets, PhpVersion};
pub(crate) use layout::{PhpKept, PhpLayout};
