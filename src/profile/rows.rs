//! The rows that samples refer to, and their ids: modules, tasks, frames, stacks and sets of labels.
//!
//! An id means the same row for ever. A stack is its leaf frame plus a parent stack; the parent is interned first
//! and so has the smaller id.

use serde::{Deserialize, Serialize};

/// Defines a typed index into one of the tables.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
        )]
        pub struct $name(pub u32);

        impl $name {
            /// Position in its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
pub(crate) use id;

id!(/** A string of the profile. Id 0 is the empty string. */ StringId);
id!(/** A [`Module`]. */ ModuleId);
id!(/** A [`Task`]. */ TaskId);
id!(/** A [`Frame`]. */ FrameId);
id!(/** A [`Stack`]. */ StackId);
id!(/** A [`LabelSet`]. */ LabelSetId);

/// Kind of object that a module is. Numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum ModuleKind {
    /// Address outside any known mapping.
    #[default]
    Unknown,
    /// An ELF file.
    Elf,
    /// The kernel image.
    Kernel,
    /// A loadable kernel module.
    KernelModule,
    /// The vDSO.
    Vdso,
    /// Executable memory that is not backed by an ELF file: code generated at run time.
    Jit,
    /// The runtime of a language, whose frames are functions that its interpreter runs.
    Runtime,
    /// No code: a thread that stands between the stacks of others, in what a report makes of a recording.
    Thread,
    /// A kind that this version does not know.
    Other(u8),
}

impl ModuleKind {
    /// The stored number.
    pub(crate) fn code(self) -> u8 {
        match self {
            ModuleKind::Unknown => 0,
            ModuleKind::Elf => 1,
            ModuleKind::Kernel => 2,
            ModuleKind::KernelModule => 3,
            ModuleKind::Vdso => 4,
            ModuleKind::Jit => 5,
            ModuleKind::Runtime => 6,
            ModuleKind::Thread => 7,
            ModuleKind::Other(code) => code,
        }
    }

    /// The kind of a stored number.
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            0 => ModuleKind::Unknown,
            1 => ModuleKind::Elf,
            2 => ModuleKind::Kernel,
            3 => ModuleKind::KernelModule,
            4 => ModuleKind::Vdso,
            5 => ModuleKind::Jit,
            6 => ModuleKind::Runtime,
            7 => ModuleKind::Thread,
            other => ModuleKind::Other(other),
        }
    }
}

/// An object that code belongs to: an ELF file, the kernel, generated code.
///
/// Code generated at run time has one module per process, since its addresses mean nothing elsewhere; files
/// without a build ID are distinguished by a number. Both are the `instance`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Module {
    /// Path as the process saw it, or `[kernel]`, `[vdso]`, `[jit]`, `[unknown]`.
    pub path: StringId,
    /// GNU build ID, empty when there is none.
    pub build_id: Vec<u8>,
    /// Kind of object that the module is.
    pub kind: ModuleKind,
    /// Tells modules apart that agree in everything else: the process of code generated at run time, a number for
    /// files without a build ID, else 0.
    pub instance: u32,
}

/// A thread under one name. A thread that changes its name is two tasks; so are two threads that had
/// the same number one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Task {
    /// Process id in the recorder's PID namespace ([`super::contents::Meta::pid_namespace`]); 0 with `tid` for one outside of it.
    pub pid: u32,
    /// Thread id there.
    pub tid: u32,
    /// Counts reuses of `tid` seen in this recording, from 0.
    pub generation: u32,
    /// Name of the thread (`comm`).
    pub comm: StringId,
    /// Name of its process (the `comm` of the thread group's leader).
    pub process: StringId,
}

/// Whether a frame is user or kernel code. Numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum FrameSpace {
    /// User code.
    #[default]
    User,
    /// Kernel code.
    Kernel,
}

/// Method by which a frame was found. Numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum FoundBy {
    /// The frame is where the CPU was.
    #[default]
    Leaf,
    /// Unwind row (`.eh_frame`).
    Cfi,
    /// Chain of frame pointers.
    FramePointer,
    /// The kernel's own stack walker.
    KernelWalk,
}

impl FoundBy {
    /// All ways, in the order of their numbers.
    pub(crate) const ALL: [FoundBy; 4] =
        [FoundBy::Leaf, FoundBy::Cfi, FoundBy::FramePointer, FoundBy::KernelWalk];

    /// The word for it in documents.
    pub(crate) fn key(self) -> &'static str {
        match self {
            FoundBy::Leaf => "leaf",
            FoundBy::Cfi => "unwind_table",
            FoundBy::FramePointer => "frame_pointer",
            FoundBy::KernelWalk => "kernel",
        }
    }
}

/// Facts about a frame's address, stored as one byte: bit 0 = return address, bit 1 = kernel,
/// bits 2–3 = [`FoundBy`], bit 4 = interpreter loop, bit 5 = inner part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FrameFlags {
    /// The address is a return address: the call is at `address − 1`.
    pub is_return_address: bool,
    /// User or kernel code.
    pub space: FrameSpace,
    /// Method by which the frame was found.
    pub found_by: FoundBy,
    /// The code is the loop of an interpreter: the functions that it runs are the frames that it calls, until it calls
    /// native code.
    pub is_interpreter: bool,
    /// Of such code, it is not the function that enters the loop, but one that this calls.
    pub is_inner_loop: bool,
}

impl FrameFlags {
    /// The stored byte.
    pub(crate) fn bits(self) -> u8 {
        let found_by = match self.found_by {
            FoundBy::Leaf => 0,
            FoundBy::Cfi => 1,
            FoundBy::FramePointer => 2,
            FoundBy::KernelWalk => 3,
        };
        u8::from(self.is_return_address)
            | u8::from(self.space == FrameSpace::Kernel) << 1
            | found_by << 2
            | u8::from(self.is_interpreter) << 4
            | u8::from(self.is_inner_loop) << 5
    }

    /// The flags of a stored byte; unknown bits are ignored.
    pub(crate) fn from_bits(bits: u8) -> Self {
        FrameFlags {
            is_return_address: bits & 1 != 0,
            space: if bits & 2 != 0 { FrameSpace::Kernel } else { FrameSpace::User },
            found_by: match bits >> 2 & 3 {
                0 => FoundBy::Leaf,
                1 => FoundBy::Cfi,
                2 => FoundBy::FramePointer,
                _ => FoundBy::KernelWalk,
            },
            is_interpreter: bits & 16 != 0,
            is_inner_loop: bits & 32 != 0,
        }
    }
}

/// One machine frame: an address inside a module. Inline frames are found when it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Frame {
    /// The module the address belongs to.
    pub module: ModuleId,
    /// Address relative to the module: the ELF virtual address; for the kernel the distance from
    /// `_stext` (so that files do not reveal where the kernel was loaded); for code without a
    /// file the process address.
    pub address: u64,
    /// Known facts about the address.
    pub flags: FrameFlags,
}

impl Frame {
    /// Address whose function and line this frame has: the call, not the return.
    pub(crate) fn lookup_address(&self) -> u64 {
        if self.flags.is_return_address { call_address(self.address) } else { self.address }
    }
}

/// Returns an address in the call before `return_address`, by which its function is found: the call may be the last
/// instruction of a function.
pub(crate) fn call_address(return_address: u64) -> u64 {
    return_address.saturating_sub(1)
}

/// A stack: its leaf frame and the stack of the callers. The root has no parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stack {
    /// The callers' stack; `None` for the outermost frame.
    pub parent: Option<StackId>,
    /// The leaf frame of this stack.
    pub frame: FrameId,
}

/// Labels of one sample as (key, value), such as `gil=held`: in the order of their texts, each once.
pub(crate) type LabelSet = Box<[(StringId, StringId)]>;

/// The best table of functions that a module had. Numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(crate) enum SymbolsFrom {
    /// Not known.
    #[default]
    Unknown,
    /// The module had no symbols.
    None,
    /// `.dynsym`: functions that are exported.
    Dynsym,
    /// `.gnu_debugdata`: all functions.
    DebugData,
    /// `.symtab`, of the module or of its debug file: all functions.
    Symtab,
}

impl SymbolsFrom {
    const ALL: [SymbolsFrom; 5] = [
        SymbolsFrom::Unknown,
        SymbolsFrom::None,
        SymbolsFrom::Dynsym,
        SymbolsFrom::DebugData,
        SymbolsFrom::Symtab,
    ];

    /// The number in files.
    pub(crate) fn code(self) -> u32 {
        self as u32
    }

    /// The kind that a number in a file means.
    pub(crate) fn from_code(code: u32) -> Self {
        Self::ALL.into_iter().find(|from| from.code() == code).unwrap_or_default()
    }
}

/// Sources of the names of a module, and what was missing. Known only where the files are; texts are foreign.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModuleNotes {
    pub(crate) symbols: SymbolsFrom,
    /// There was DWARF of it: inlined functions and lines.
    pub(crate) has_debug_info: bool,
    /// Separate debug file of the module; empty: there was none.
    pub(crate) debug_file: String,
    /// The file that it shares with other modules (dwz); empty: there was none.
    pub(crate) shared_file: String,
    /// Name of the shared file if there is one that was not found; empty: none is missing.
    pub(crate) shared_missing: String,
    /// The `.dwp` file; empty: there was none.
    pub(crate) package_file: String,
    /// Units of split DWARF that were read, and those that were not to be had.
    pub(crate) split_found: u64,
    pub(crate) split_missing: u64,
    /// Files or parts that were not used, and why.
    pub(crate) problems: Vec<String>,
    /// The package of the distribution that the module is from; empty: not known.
    pub(crate) package: String,
    /// The distribution, and those that it is like, as `os-release` calls them, with blanks between.
    pub(crate) distribution: String,
}

impl ModuleNotes {
    /// Whether the debug information refers to files that were not to be had.
    pub(crate) fn lacks_files(&self) -> bool {
        self.split_missing > 0 || !self.shared_missing.is_empty()
    }

    /// Adds problems, each once.
    pub(crate) fn add_problems(&mut self, problems: Vec<String>) {
        for problem in problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_round_trip() {
        for bits in 0..32 {
            assert_eq!(FrameFlags::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn a_return_address_stands_for_the_call_before_it() {
        let mut frame = Frame { address: 0x1000, ..Frame::default() };
        assert_eq!(frame.lookup_address(), 0x1000);
        frame.flags.is_return_address = true;
        assert_eq!(frame.lookup_address(), 0xfff);
    }
}
