//! The code of a process, as a walk sees it: what is mapped at an address, and how it is unwound.

use super::registers::FrameState;
use super::stack::End;
use crate::unwind::table::cfi::CfiSections;
use crate::unwind::table::rows::Table;

/// Kind of the code at an address, by what it offers for unwinding.
#[derive(Debug, Clone, Copy)]
pub enum ModuleCode<'a> {
    /// A compiled table.
    Table(&'a Table),
    /// A file whose table is not there (yet).
    NotLoaded,
    /// Executable memory without a file: followed by frame pointers.
    Jit,
    /// Code that has pushed nothing, such as the kernel's vsyscall page: the return address is at rsp.
    Leaf,
}

/// A module at an address of the process.
#[derive(Debug, Clone, Copy)]
pub struct MappedModule<'a> {
    /// Offset from the module's own addresses to the process's; wraps.
    pub bias: u64,
    /// Rules for unwinding its code.
    pub code: ModuleCode<'a>,
}

/// Frames of code that a runtime has generated, found by what that says of its code: address and note of each, leaf first,
/// the first one that was asked for; then the frame that called the last of them, or why it is not known.
pub(crate) type GeneratedFrames = (Vec<(u64, [u64; 2])>, Result<FrameState, End>);

/// The executable mappings of one process.
pub trait ModuleMap {
    /// Finds what is mapped executable at a process address.
    fn find(&self, address: u64) -> Option<MappedModule<'_>>;

    /// The raw unwind sections of the module at a process address. Called only where a table's rule does
    /// not do, so they can be loaded then. `None` where there are none.
    fn cfi(&self, _address: u64) -> Option<&CfiSections> {
        None
    }

    /// The frames from `state` on up to the next native one, if that is in code of which a runtime says how its frames are
    /// left.
    fn generated(&self, _state: &FrameState) -> Option<GeneratedFrames> {
        None
    }
}
