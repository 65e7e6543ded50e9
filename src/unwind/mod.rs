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

pub mod architecture;
pub mod beam;
pub mod cfi;
pub mod compile;
pub mod elf;
pub mod limits;
pub mod memory;
mod register_set;
pub mod registers;
pub mod rule;
pub mod table;
pub mod table_bytes;
pub mod trampolines;
pub mod walk;

mod abstract_frame;
mod cfi_rule;
mod cfi_rule_aarch64;
mod code_bytes;
mod code_starts;
mod elf_dynamic;
mod elf_source;
mod exception_return;
mod follow;
mod follow_aarch64;
mod full_step;
mod function_flow;
mod go_runtime;
mod go_table;
mod known_code;
mod known_code_aarch64;
mod known_go_code;
mod leaf_code;
mod main_function;
mod never_return;
mod sequence;
mod stack_ends;
mod vfork;

pub use architecture::Architecture;
pub use cfi::CfiSections;
pub use code_bytes::is_linkage_stub;
pub use compile::{FirstTable, TableError, compile, compile_first, compile_sections};
pub use elf::{ElfError, ElfImage, ElfType, Segment};
pub use go_table::GoTable;
pub use limits::Limits;
pub use memory::{Memory, MemoryError, StackCopy};
pub use registers::{Aarch64Registers, FrameState, Registers};
pub use rule::{Rule, RuleKind};
pub use stack_ends::StackEnds;
pub use table::{KernelPage, Page, Row, Table};
pub use walk::{
    End, FoundBy, FrameAddress, MAX_WALKED_FRAMES, MappedModule, ModuleCode, ModuleMap, Stack, walk,
};
