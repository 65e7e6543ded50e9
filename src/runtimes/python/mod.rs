//! Python: frames and names of CPython 3.8 to 3.14, read in the memory of a process that runs: its layout, names and lines of
//! code objects, the code of the interpreter loop, and stacks, as tests read them. Not here: ELF files, unwinding, merging
//! with native frames, programs of the kernel.

mod attach;
mod code;
mod frames;
mod interpreter_loop;
mod layout;
mod lines;
mod loop_registers;
mod loop_setup;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub(crate) use attach::function_accesses;
#[cfg(feature = "testing")]
pub(crate) use attach::tables::offsets as known_offsets;
pub(crate) use code::PythonCode;
pub(crate) use frames::{leaf, list};
pub(crate) use interpreter_loop::eval_ranges as loop_ranges;
pub(crate) use layout::{
    PythonEntry, PythonGil, PythonLayout, PythonLocator, PythonObjectLayout, PythonPosition,
};
pub(crate) use loop_setup::{LoopSetup, OldList, loop_setup};
#[cfg(feature = "testing")]
pub(crate) use {
    frames::{stack, threads},
    layout::PythonVersion,
};
