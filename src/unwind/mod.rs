//! From ELF files to unwind tables, and from registers and memory to stacks.
//!
//! ```text
//! File ─► ElfImage ─► CfiSections ─► compile ─► Table ─► the kernel's walker
//!                          │                      │
//!                          └──── full rules ──────┴────► walk ─► Stack
//! ```
//!
//! [`elf`] reads what unwinding needs from an opened file; [`compile()`] turns call frame information into
//! a [`Table`] of sorted rows; [`walk()`] takes the steps that the rows say. Nothing here knows of BPF,
//! profiles or processes. All bytes are untrusted: [`Limits`] bound size, rows and time.

pub mod arch;
pub mod code;
pub mod elf;
mod go;
pub mod rule;
pub mod table;
pub mod walk;

pub use arch::architecture::Architecture;
pub use code::bytes::is_linkage_stub;
pub use elf::error::ElfError;
pub use elf::image::{ElfImage, ElfType, Segment};
pub use elf::limits::Limits;
pub use go::pclntab::GoTable;
pub use rule::{Rule, RuleKind};
pub use table::cfi::CfiSections;
pub use table::compile::{FirstTable, TableError, compile, compile_first, compile_sections};
pub use table::rows::{KernelPage, Page, Row, Table};
pub use walk::memory::{Memory, MemoryError, StackCopy};
pub use walk::registers::{Aarch64Registers, FrameState, Registers};
pub use walk::stack_ends::StackEnds;
pub use walk::walker::{
    End, FoundBy, FrameAddress, MAX_WALKED_FRAMES, MappedModule, ModuleCode, ModuleMap, Stack, walk,
};
