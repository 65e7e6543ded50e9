//! Walks that the kernel could not finish, taken up in user space from a copy of the stack.

use crate::bpf::{
    LARGEST_RESCUE_BYTES, LEAF_FRAMES, MAX_USER_FRAMES, ManagedFrame, MarkedAddress, REGISTERS, RescueEvent,
    SampleEvent, StackRoot,
};
use crate::profile::Outcome;
use crate::record::environment::machine::signature_mask;
use crate::record::managed_code::java_process::{JavaMachine, java_note};
use crate::record::managed_code::managed_runtime::ProcessManaged;
use crate::record::modules::{FileId, ModuleFiles, TableState};
use crate::record::process::mappings::{Mapped, Process, is_vsyscall};
use crate::unwind::rule::RuleKind;
use crate::unwind::{
    Architecture, CfiSections, End, FoundBy, FrameAddress, FrameRegisters, FrameState, GeneratedFrames,
    MappedModule, Memory, MemoryError, ModuleCode, ModuleMap, StackCopy, StackEnds, walk,
};
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// A finished walk.
#[derive(Debug)]
pub(crate) struct Rescued {
    /// Addresses with the marks of the kernel's walker, leaf first. The first is where that stopped.
    pub(crate) frames: Vec<u64>,
    /// What runtimes know of them, leaf first: each note has the index of its frame in `frames`.
    pub(crate) managed: Vec<ManagedFrame>,
    /// Frames left out after the first `LEAF_FRAMES` of them.
    pub(crate) left_out: usize,
    /// End of the walk.
    pub(crate) outcome: Outcome,
    /// Whether the walk ended because a table is still being compiled: worth another try.
    pub(crate) missed_a_table: bool,
}

/// A stack of which what lies between its copy and its root may be missing: a large frame that no walk reads.
struct StackParts<'a> {
    copy: StackCopy<'a>,
    root: Option<&'a StackRoot>,
}

impl Memory for StackParts<'_> {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        self.copy.read(address).or_else(|error| {
            let StackRoot { start, bytes } = self.root.ok_or(error)?;
            StackCopy { start: *start, bytes, missing_blocks: [0; 4] }.read(address).map_err(|_| error)
        })
    }
}

/// Finishes the walk of a sample taken at `time_ns`.
pub(crate) fn finish(rescue: &RescueEvent, process: &Process, time_ns: u64, files: &ModuleFiles) -> Rescued {
    let start = start_of(rescue);
    let memory =
        StackCopy { start: rescue.start, bytes: &rescue.stack, missing_blocks: rescue.missing_blocks };
    let whole = StackParts { copy: memory, root: rescue.root.as_ref() };
    let java = match process.managed() {
        ProcessManaged::Java(machine) => Some((&**machine, rescue.tgid, memory)),
        _ => None,
    };
    let (missed, cfi, last) = (Cell::new(false), OnceCell::new(), Cell::new(None));
    let code = RescueCode { process, time_ns, files, java, missed, cfi, last };
    let stack = walk(&start, &code, &whole, MAX_USER_FRAMES);
    let frames = stack
        .frames
        .iter()
        .map(|frame| {
            let is_by_frame_pointer = frame.found_by == FoundBy::FramePointer;
            MarkedAddress::new(frame.address, frame.is_return_address, is_by_frame_pointer).0
        })
        .collect();
    let note = |(index, frame): (usize, &FrameAddress)| {
        if let Some(note) = frame.note {
            return Some(ManagedFrame { frame: index, ..java_note(note) });
        }
        let mapped = process.find(frame.lookup_address(), time_ns)?;
        let in_file = (mapped.file != ModuleFiles::GENERATED).then_some((mapped.file, mapped.bias));
        let note = process.managed().note(in_file, frame, &memory)?;
        Some(ManagedFrame { frame: index, ..note })
    };
    let managed = match process.managed().is_known() {
        true => stack.frames.iter().enumerate().filter_map(note).collect(),
        false => Vec::new(),
    };
    Rescued {
        frames,
        managed,
        left_out: stack.left_out,
        outcome: outcome(stack.end, rescue),
        missed_a_table: code.missed.get(),
    }
}

/// Replaces what a sample has from frame `frames_before` on by the frames of a rescue.
pub(super) fn continue_stack(sample: &mut SampleEvent, frames_before: usize, walk: &Rescued) {
    let mut ends = StackEnds::new(MAX_USER_FRAMES);
    let left_out = sample.left_out as usize;
    let before = with_notes(&sample.user, &sample.managed);
    let (leaf_end, root_end) = before.split_at(LEAF_FRAMES.min(before.len()));
    leaf_end.iter().take(frames_before).for_each(|&frame| ends.push(frame));
    if let Some(frames_before) = frames_before.checked_sub(LEAF_FRAMES) {
        ends.skip(left_out.min(frames_before));
        root_end.iter().take(frames_before.saturating_sub(left_out)).for_each(|&frame| ends.push(frame));
    }
    let mut walked = with_notes(&walk.frames, &walk.managed);
    if frames_before == 0 && left_out == 0 {
        // What the kernel side has noted of a frame, it has read at the time of the sample.
        for ((raw, note), (known, known_note)) in walked.iter_mut().zip(&before) {
            if MarkedAddress(*raw).address() != MarkedAddress(*known).address() {
                break;
            }
            *note = known_note.or(*note);
        }
    }
    let (leaf_end, root_end) = walked.split_at(LEAF_FRAMES.min(walked.len()));
    leaf_end.iter().for_each(|&frame| ends.push(frame));
    ends.skip(walk.left_out);
    root_end.iter().for_each(|&frame| ends.push(frame));
    let (frames, left_out) = ends.into_parts();
    let note = |(frame, (_, note)): (usize, &NotedFrame)| Some(ManagedFrame { frame, ..(*note)? });
    sample.managed = frames.iter().enumerate().filter_map(note).collect();
    sample.user = frames.into_iter().map(|(raw, _)| raw).collect();
    sample.left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
}

/// A marked address, and what a runtime knows of its frame.
type NotedFrame = (u64, Option<ManagedFrame>);

/// Marked addresses with the notes on them.
fn with_notes(frames: &[u64], notes: &[ManagedFrame]) -> Vec<NotedFrame> {
    let mut noted: Vec<NotedFrame> = frames.iter().map(|&raw| (raw, None)).collect();
    for note in notes {
        if let Some((_, known)) = noted.get_mut(note.frame) {
            *known = Some(*note);
        }
    }
    noted
}

/// Returns the state at which the kernel's walk stood, or the leaf if that is what was sent.
fn start_of(rescue: &RescueEvent) -> FrameState {
    let architecture = Architecture::HOST;
    let mut general = FrameRegisters::default();
    for number in 0..architecture.register_count() {
        let is_kept = number == architecture.stack_pointer() || number == architecture.frame_pointer();
        if rescue.all_registers || is_kept {
            general.set(number, rescue.registers.get(usize::from(number)).copied());
        }
    }
    FrameState {
        architecture,
        signature_mask: signature_mask(),
        pc: rescue.registers[REGISTERS - 1],
        is_return_address: rescue.is_return,
        is_sp_hidden: false,
        thread_pointer: None,
        general,
    }
}

fn outcome(end: End, copy: &RescueEvent) -> Outcome {
    match end {
        // The copy ends where the kernel could not read on, and that is what the walk needed.
        End::CopyTooShort { address }
            if !copy.is_cut && address.wrapping_sub(copy.start) < LARGEST_RESCUE_BYTES as u64 =>
        {
            Outcome::StackUnreadable
        }
        End::Complete => Outcome::Complete,
        End::NoUnwindInfo { .. } | End::BadFramePointer { .. } => Outcome::NoUnwindInfo,
        End::UnknownMapping { .. } => Outcome::UnknownMapping,
        End::TableNotLoaded { .. } => Outcome::TableNotLoaded,
        End::StackUnreadable { .. } => Outcome::StackUnreadable,
        End::CopyTooShort { .. } => Outcome::CopyTooShort,
        End::BadUnwindInfo { .. } => Outcome::BadUnwindInfo,
        End::JitEnd { .. } => Outcome::JitEnd,
        End::NotExpressible { .. } => Outcome::UnsupportedRule,
        End::TooDeep => Outcome::TooDeep,
    }
}

/// The code of one process at one time, as the walk asks for it.
struct RescueCode<'a> {
    process: &'a Process,
    time_ns: u64,
    files: &'a ModuleFiles,
    /// The Java machine of the process, its id, and the copy of the stack.
    java: Option<(&'a JavaMachine, u32, StackCopy<'a>)>,
    missed: Cell<bool>,
    /// Raw unwind sections of a file, asked for when a rule needs them.
    cfi: OnceCell<(FileId, Option<Arc<CfiSections>>)>,
    /// Mapping of the last address, if it is a present one: nearly always that of the next address, too.
    last: Cell<Option<&'a Mapped>>,
}

impl RescueCode<'_> {
    fn mapped(&self, address: u64) -> Option<&Mapped> {
        if let Some(last) = self.last.get().filter(|last| (last.start..last.end).contains(&address)) {
            return Some(last);
        }
        let present = self.process.find_present(address, self.time_ns);
        self.last.set(present);
        present.or_else(|| self.process.find_past(address, self.time_ns))
    }
}

impl ModuleMap for RescueCode<'_> {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        if is_vsyscall(address) {
            return Some(MappedModule { bias: 0, code: ModuleCode::Leaf });
        }
        // Word of the latest part of the code may still be on its way.
        if self.java.as_ref().is_some_and(|(machine, ..)| machine.is_generated(address)) {
            return Some(MappedModule { bias: 0, code: ModuleCode::Jit });
        }
        let mapped = self.mapped(address)?;
        let code = match &self.files.get(mapped.file).table {
            _ if mapped.file == ModuleFiles::GENERATED => ModuleCode::Jit,
            TableState::Compiled(table) => ModuleCode::Table(table),
            TableState::First(table)
                if table.lookup(address.wrapping_sub(mapped.bias)).kind != RuleKind::User =>
            {
                ModuleCode::Table(table)
            }
            TableState::First(_) | TableState::Compiling => {
                self.missed.set(true);
                ModuleCode::NotLoaded
            }
            TableState::Missing => ModuleCode::Jit,
        };
        Some(MappedModule { bias: mapped.bias, code })
    }

    fn generated(&self, state: &FrameState) -> Option<GeneratedFrames> {
        let (machine, pid, stack) = self.java.as_ref()?;
        machine.generated(*pid, state, stack)
    }

    fn cfi(&self, address: u64) -> Option<&CfiSections> {
        // Rules that need the raw sections are rare, and nearly always of one file in a stack.
        let wanted = self.mapped(address)?.file;
        let (file, sections) = self.cfi.get_or_init(|| (wanted, self.files.sections(wanted)));
        sections.as_deref().filter(|_| *file == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample whose walk stopped in frame `depth - 1`; the addresses are the numbers of the frames.
    fn stopped_at(depth: u64) -> SampleEvent {
        let mut ends = StackEnds::new(MAX_USER_FRAMES);
        (0..depth).for_each(|frame| ends.push(frame));
        let (user, left_out) = ends.into_parts();
        SampleEvent {
            time_ns: 0,
            tgid: 1,
            tid: 1,
            cpu: 0,
            event: 0,
            weight: 0,
            outcome: crate::bpf::outcome::TABLE_NOT_LOADED,
            has_rescue: true,
            rescue_refused: false,
            comm: Vec::new(),
            kernel: Vec::new(),
            user,
            left_out: left_out as u32,
            managed: Vec::new(),
            interpreter: Default::default(),
            goroutine: Default::default(),
            memory: Default::default(),
            system_call: None,
            wait: None,
            block: None,
        }
    }

    #[test]
    fn a_copy_that_ends_at_a_missing_page_is_no_short_copy() {
        let outcome_of = |is_cut: bool, address: u64| {
            let copy = RescueEvent {
                time_ns: 0,
                cpu: 0,
                tgid: 1,
                frames_before: 0,
                all_registers: true,
                is_return: false,
                registers: [0; REGISTERS],
                start: 0x1000,
                stack: vec![0; 0x3000].into(),
                is_cut,
                missing_blocks: [0; 4],
                root: None,
            };
            outcome(End::CopyTooShort { address }, &copy)
        };
        assert_eq!(outcome_of(false, 0x4000), Outcome::StackUnreadable);
        assert_eq!(outcome_of(false, 0x800), Outcome::CopyTooShort, "below the copy");
        assert_eq!(outcome_of(true, 0x4000), Outcome::CopyTooShort);
    }

    /// The frames from number `first` to the root, as a rescue gives them.
    fn rescued(first: u64, depth: u64) -> Rescued {
        let mut ends = StackEnds::new(MAX_USER_FRAMES);
        (first..depth).for_each(|frame| ends.push(frame));
        let (frames, left_out) = ends.into_parts();
        Rescued { frames, managed: Vec::new(), left_out, outcome: Outcome::Complete, missed_a_table: false }
    }

    #[test]
    fn a_rescue_continues_a_stack_at_any_depth() {
        let max = MAX_USER_FRAMES as u64;
        for stopped in [1, 5, max / 2, max / 2 + 1, max, max + 1, 3 * max] {
            for depth in [stopped, stopped + 1, stopped + max - 1, stopped + max, stopped + 5 * max] {
                for first in [0, stopped - 1] {
                    let mut sample = stopped_at(stopped);
                    continue_stack(&mut sample, first as usize, &rescued(first, depth));
                    let whole = stopped_at(depth);
                    assert_eq!(sample.user[..], whole.user[..], "{first} {stopped} {depth}");
                    assert_eq!(sample.left_out, whole.left_out, "{first} {stopped} {depth}");
                }
            }
        }
    }
}
