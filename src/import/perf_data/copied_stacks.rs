//! User stacks that perf copied to be unwound later (`--call-graph dwarf`), unwound by the rules of the mapped files.

use super::bytes::u64_at;
use super::frames::ChainAddress;
use super::module_files::MappedFiles;
use super::processes::{AddressSpace, PerfMapping};
use super::sample::UserCopy;
use crate::base::units::counted;
use crate::profile::{self, ModuleKind};
use crate::unwind::arch::architecture::SIGNATURE_MASK_48_BITS;
use crate::unwind::arch::perf_registers::{PerfRegister, lacks_unsaved, unsaved};
use crate::unwind::{
    Architecture, CfiSections, End, FoundBy, FrameAddress, FrameRegisters, FrameState, Limits,
    MAX_WALKED_FRAMES, MappedModule, ModuleCode, ModuleMap, StackCopy, Table, compile_sections, walk,
};
use rustc_hash::FxHashMap;
use std::cell::{Cell, OnceCell};

/// Memory that unwind information of all files may take, bytes. Stacks end in the files beyond that.
const MAX_CODE_BYTES: u64 = 1 << 30;
/// Bytes that each file counts at least, so that the number of files is bounded, too.
const FILE_BYTES: u64 = 256 << 10;

/// Unwind information of a mapped file.
#[derive(Debug)]
struct UnwindInfo {
    table: Table,
    cfi: CfiSections,
}

/// Unwinds copied stacks, and counts how that ended.
#[derive(Debug, Default)]
pub(super) struct CopiedStacks {
    /// Unwind information by the number of the file; `None`: there is none, or no room for it.
    files: FxHashMap<u32, Option<UnwindInfo>>,
    bytes: u64,
    sums: WalkSums,
}

/// Numbers of walks by their end.
#[derive(Debug, Default)]
struct WalkSums {
    complete: u64,
    too_short: u64,
    code_missing: u64,
    other: u64,
    /// Registers were missing, or of another processor.
    not_begun: u64,
}

impl CopiedStacks {
    /// Puts the frames of `copy`, of a thread of a process with the mappings `space`, in the place of the user frames in `chain`.
    pub(super) fn unwind(
        &mut self,
        copy: UserCopy<'_>,
        architecture: &str,
        space: &AddressSpace,
        files: &mut MappedFiles,
        chain: &mut Vec<ChainAddress>,
    ) {
        let start = frame_state(copy, architecture);
        let Some((start, stack_pointer)) = start.and_then(|start| Some((start, start.stack_pointer()?)))
        else {
            self.sums.not_begun += 1;
            return;
        };
        let memory = StackCopy { start: stack_pointer, bytes: copy.stack, missing_blocks: [0; 4] };
        let stack = loop {
            let code = CopiedCode {
                space,
                files,
                known: &self.files,
                missed: Cell::new(None),
                has_jvm: OnceCell::new(),
            };
            let stack = walk(&start, &code, &memory, MAX_WALKED_FRAMES);
            let Some(missed) = code.missed.get() else { break stack };
            self.load(&missed, files);
        };
        let frames = trusted(&stack.frames, space, files);
        let count = match stack.end {
            _ if frames.len() < stack.frames.len() => &mut self.sums.other,
            End::Complete => &mut self.sums.complete,
            End::CopyTooShort { address } if address >= stack_pointer && copy.is_whole => {
                &mut self.sums.too_short
            }
            End::TableNotLoaded { .. } => &mut self.sums.code_missing,
            _ => &mut self.sums.other,
        };
        *count += 1;
        // A chain that the kernel has walked as well may reach further.
        if frames.len() < chain.iter().filter(|at| !at.is_kernel).count() {
            return;
        }
        chain.retain(|at| at.is_kernel);
        chain.extend(chain_of(frames));
    }

    /// Reads the unwind information of the file of a mapping, and where that is mapped.
    fn load(&mut self, mapping: &PerfMapping, files: &mut MappedFiles) {
        files.own_start(mapping);
        if self.files.contains_key(&mapping.file) {
            return;
        }
        let limits = Limits::default();
        let info = files.open(mapping.file, &limits.elf).and_then(|elf| {
            let room = MAX_CODE_BYTES.checked_sub(self.bytes.saturating_add(FILE_BYTES))?;
            if CfiSections::memory_bytes(&elf) > room {
                return None;
            }
            self.bytes += FILE_BYTES;
            let cfi = CfiSections::load(&elf).ok()?;
            let table = compile_sections(&elf, &cfi, &limits).ok()?;
            let sections: usize = cfi.bytes().iter().map(|section| section.len()).sum();
            let tables =
                size_of_val(&table.rows[..]) + size_of_val(&table.pages[..]) + size_of_val(&table.rules[..]);
            let bytes = (4 * sections + tables) as u64;
            self.bytes += bytes;
            (bytes <= room).then_some(UnwindInfo { table, cfi })
        });
        self.files.insert(mapping.file, info);
    }

    /// Notes on what came of the copies, for readers of the profile.
    pub(super) fn notes(&self) -> Vec<String> {
        let WalkSums { complete, too_short, code_missing, other, not_begun } = self.sums;
        let walked = complete + too_short + code_missing + other;
        let mut notes = Vec::new();
        if walked > 0 {
            let stacks = counted(walked, "user stack");
            let mut note = format!("{stacks} unwound from copies (--call-graph dwarf)");
            for (count, why) in [
                (too_short, "cut: the copy was too short (--call-graph dwarf,65528 copies the most)"),
                (code_missing, "cut: code is not on this machine"),
                (other, "cut: unwind information or memory is missing or damaged"),
            ] {
                if count > 0 {
                    note.push_str(&format!("; {} {why}", crate::base::units::count(count)));
                }
            }
            notes.push(note);
        }
        if not_begun > 0 {
            let stacks = counted(not_begun, "copied user stack");
            notes.push(format!(
                "{stacks} without the registers to unwind by: only the innermost function is known"
            ));
        }
        notes
    }
}

/// Returns the start of a walk of `copy`; `None` without instruction pointer, or for an architecture that is not known.
fn frame_state(copy: UserCopy<'_>, architecture: &str) -> Option<FrameState> {
    let (architecture, signature_mask) = match architecture {
        "x86_64" => (Architecture::X86_64, 0),
        "aarch64" => (Architecture::Aarch64, SIGNATURE_MASK_48_BITS),
        // In the file of a perf that was killed; then it is of this machine, if its files are here.
        "" if Architecture::HOST == Architecture::X86_64 => (Architecture::X86_64, 0),
        _ => return None,
    };
    let mut general = FrameRegisters::default();
    let mut pc = None;
    let numbers = (0..u64::BITS).filter(|number| copy.register_mask >> number & 1 != 0);
    for (place, number) in numbers.enumerate() {
        let value = u64_at(copy.registers, place * 8)?;
        match PerfRegister::of(architecture, number) {
            PerfRegister::General(dwarf) => general.set(dwarf, Some(value)),
            PerfRegister::ProgramCounter => pc = Some(value),
            PerfRegister::Other => {}
        }
    }
    if lacks_unsaved(architecture, |number| general.get(number)) {
        unsaved().into_iter().for_each(|number| general.set(number, None));
    }
    Some(FrameState {
        architecture,
        signature_mask,
        pc: pc?,
        is_return_address: false,
        is_sp_hidden: false,
        thread_pointer: None,
        general,
    })
}

/// Frames as addresses of a chain.
fn chain_of(frames: &[FrameAddress]) -> impl Iterator<Item = ChainAddress> {
    frames.iter().enumerate().map(|(at, frame)| {
        // Nothing has called the code that a signal handler returns to.
        let is_trampoline = frames.get(at + 1).is_some_and(|next| next.found_by == FoundBy::Signal);
        ChainAddress {
            address: frame.address,
            is_kernel: false,
            is_return_address: frame.is_return_address && !is_trampoline,
            found_by: match frame.found_by {
                FoundBy::Leaf => profile::FoundBy::Leaf,
                FoundBy::Cfi | FoundBy::Signal => profile::FoundBy::Cfi,
                FoundBy::FramePointer => profile::FoundBy::FramePointer,
            },
        }
    })
}

/// The frames before the first that was found by a frame pointer out of code that has a file: it could not be checked whether that
/// code keeps one, since the copy has no code.
fn trusted<'f>(frames: &'f [FrameAddress], space: &AddressSpace, files: &MappedFiles) -> &'f [FrameAddress] {
    let has_file = |frame: &FrameAddress| {
        let kind = space.mapping(frame.lookup_address()).map(|mapping| files.kind(mapping.file));
        !matches!(kind, Some(ModuleKind::Jit | ModuleKind::Unknown))
    };
    let is_guess = |pair: &[FrameAddress]| pair[1].found_by == FoundBy::FramePointer && has_file(&pair[0]);
    let good = frames.windows(2).position(is_guess).map_or(frames.len(), |at| at + 1);
    &frames[..good]
}

/// Code whose unwind information is not here.
const NOT_LOADED: MappedModule<'static> = MappedModule { bias: 0, code: ModuleCode::NotLoaded };

/// The code of one process at one time, as the walk asks for it.
struct CopiedCode<'a> {
    space: &'a AddressSpace,
    files: &'a MappedFiles,
    known: &'a FxHashMap<u32, Option<UnwindInfo>>,
    /// A mapping of a file that was not looked at yet.
    missed: Cell<Option<PerfMapping>>,
    has_jvm: OnceCell<bool>,
}

impl CopiedCode<'_> {
    fn info(&self, address: u64) -> Option<&UnwindInfo> {
        self.known.get(&self.space.mapping(address)?.file)?.as_ref()
    }
}

impl ModuleMap for CopiedCode<'_> {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        let mapping = self.space.mapping(address)?;
        match self.files.kind(mapping.file) {
            ModuleKind::Elf | ModuleKind::Vdso => {}
            ModuleKind::Jit | ModuleKind::Unknown => {
                // Code of Java's compilers leaves the frame pointer of an outer frame: those between would be left out.
                let has_jvm = || self.space.files().any(|file| self.files.is_jvm(file));
                let is_jvm = *self.has_jvm.get_or_init(has_jvm);
                return Some(if is_jvm {
                    NOT_LOADED
                } else {
                    MappedModule { bias: 0, code: ModuleCode::Jit }
                });
            }
            _ => return Some(NOT_LOADED),
        }
        let (start, info) = (self.files.known_start(&mapping), self.known.get(&mapping.file));
        let (Some(start), Some(info)) = (start, info) else {
            self.missed.set(Some(mapping));
            return Some(NOT_LOADED);
        };
        let (Some(start), Some(info)) = (start, info) else { return Some(NOT_LOADED) };
        let bias = mapping.start.wrapping_sub(start);
        Some(MappedModule { bias, code: ModuleCode::Table(&info.table) })
    }

    fn cfi(&self, address: u64) -> Option<&CfiSections> {
        self.info(address).map(|info| &info.cfi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mask that perf takes for 64-bit code of x86-64.
    const X86_64_MASK: u64 = 0xff_0fff;

    #[test]
    fn registers_of_perf_have_dwarf_numbers() {
        let registers: Vec<u8> = (0..20u64).flat_map(|place| (100 + place).to_le_bytes()).collect();
        let copy = UserCopy { register_mask: X86_64_MASK, registers: &registers, stack: &[], is_whole: true };
        let state = frame_state(copy, "x86_64").unwrap();
        let known: Vec<u64> = (0..).map_while(|number| state.general.get(number)).collect();
        // ax, dx, cx, bx, si, di, bp, sp, r8 to r15.
        assert_eq!(known, [100, 103, 102, 101, 104, 105, 106, 107, 112, 113, 114, 115, 116, 117, 118, 119]);
        assert_eq!((state.pc, state.is_return_address), (108, false));
        assert!(frame_state(copy, "riscv64").is_none());
        assert!(
            frame_state(UserCopy { register_mask: 0xff, ..copy }, "x86_64").is_none(),
            "no instruction pointer"
        );
        assert!(frame_state(UserCopy { registers: &registers[..64], ..copy }, "x86_64").is_none(), "cut");
    }
}
