//! From ELF files to unwind tables ([`compile()`]), and from registers and memory to stacks ([`walk()`], by the rows of a
//! [`Table`] or by full DWARF rules). [`crate::elf`] reads the files. All bytes are untrusted: [`Limits`] bound size, rows and
//! time. Nothing here knows of BPF, profiles or processes.

pub(crate) mod arch;
pub(crate) mod code;
mod go;
pub(crate) mod limits;
pub(crate) mod rule;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

pub use crate::elf::{Architecture, ElfError, ElfImage, ElfLimits};
pub(crate) use crate::elf::{ElfType, Segment};
pub(crate) use code::bytes::is_linkage_stub;
pub(crate) use go::lines::GoFrame;
pub(crate) use go::pclntab::GoTable;
pub use limits::Limits;
pub(crate) use rule::{RaKind, RbpKind, SAVED_RBP_BYTES};
pub use rule::{Rule, RuleKind};
pub use table::cfi::CfiSections;
pub(crate) use table::compile::FirstTable;
pub use table::compile::compile;
pub(crate) use table::compile::{compile_first, compile_sections};
pub(crate) use table::rows::{KernelPage, NO_ROWS, PAGE_SHIFT, SLICE_SHIFT};
pub use table::rows::{Page, Row, Table};
pub use table::span::TableError;
pub(crate) use walk::memory::StackCopy;
pub use walk::memory::{Memory, MemoryError};
pub(crate) use walk::module_map::GeneratedFrames;
pub use walk::module_map::{MappedModule, ModuleCode, ModuleMap};
pub(crate) use walk::registers::FrameRegisters;
pub use walk::registers::{FrameState, Registers};
pub(crate) use walk::stack::MAX_WALKED_FRAMES;
pub use walk::stack::{End, FoundBy, FrameAddress, Stack};
pub(crate) use walk::stack_ends::StackEnds;
pub(crate) use walk::stack_piece::{MAX_JUMPS_DOWN, RED_ZONE_BYTES, STACK_PIECE_BYTES};
pub use walk::walker::walk;
