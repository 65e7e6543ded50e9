//! The Java machine of one process: where its memory says how frames of generated code are left, and the functions of these
//! frames.

use super::process_memory::ProcessMemory;
use crate::profile::FrameId;
use crate::record::modules::FileId;
use crate::record::process::proc_fs;
use crate::runtimes::java::{
    JavaEnd, JavaFunction, JavaLayout, JavaLive, JavaNames, JavaNote, JavaPosition, JavaProblem,
    JavaRegisters, JavaStackCopy, JavaWalk, walk,
};
use crate::unwind::{Architecture, End, FrameState, GeneratedFrames, StackCopy};
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::sync::Arc;

/// Frames that are remembered of a process.
const MOST_FRAMES: usize = 200_000;
/// Stacks that are remembered of a process.
const MOST_STACKS: usize = 4_096;
/// A walk that stops this near to the end of a copy needs more of the stack, bytes.
const NEAR_END: u64 = 1 << 16;
/// What the name of a stub of the machine begins with.
const STUB_PREFIX: &str = "RuntimeStub - ";
/// DWARF numbers of registers that generated code keeps what it needs of a frame in.
const RAX: u8 = 0;
const R13: u8 = 13;

/// A Java machine whose stacks can be read.
#[derive(Debug)]
pub(crate) struct JavaMachine {
    pub(super) file: FileId,
    pub(super) layout: Arc<JavaLayout>,
    memory: OnceCell<Option<ProcessMemory>>,
    names: JavaNames,
    /// Frames of the profile, by address and note, leaf first.
    pub(super) frames: FxHashMap<(u64, JavaNote), Vec<FrameId>>,
    /// Memory of stacks that was looked up.
    stacks: RefCell<Vec<Range<u64>>>,
}

impl JavaMachine {
    /// Looks for the Java machine in the memory of a process. `symbols` has the addresses of its symbols there.
    ///
    /// # Errors
    ///
    /// A sentence of what is missing, and whether it may be there a moment later.
    pub(super) fn find(
        pid: u32,
        file: FileId,
        symbols: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Self, JavaProblem> {
        if Architecture::HOST != Architecture::X86_64 {
            let why = "java: functions are known on x86-64 only; stacks end in generated code";
            return Err(JavaProblem::lasting(why));
        }
        let memory = ProcessMemory::open(pid).map_err(|error| {
            JavaProblem::temporary(format!(
                "memory of pid {pid} cannot be read: {error}: its Java functions are not known; run prof as root or as the \
                 user of the process"
            ))
        })?;
        let layout = JavaLayout::find(&memory, symbols)?;
        Ok(JavaMachine {
            file,
            layout: Arc::new(layout),
            memory: OnceCell::from(Some(memory)),
            names: JavaNames::default(),
            frames: FxHashMap::default(),
            stacks: RefCell::default(),
        })
    }

    /// The same in a forked child, which has a copy of the memory.
    pub(super) fn forked(&self) -> Self {
        JavaMachine {
            file: self.file,
            layout: Arc::clone(&self.layout),
            memory: OnceCell::new(),
            names: JavaNames::default(),
            frames: FxHashMap::default(),
            stacks: RefCell::default(),
        }
    }

    /// Whether an address of the process is in code that the machine has generated.
    pub(crate) fn is_generated(&self, address: u64) -> bool {
        self.layout.is_generated(address)
    }

    /// The frames from `state` on up to the next native one, on a copy of the stack; `None` if `state` is not in generated
    /// code, or the process is gone.
    pub(crate) fn generated(
        &self,
        pid: u32,
        state: &FrameState,
        stack: &StackCopy<'_>,
    ) -> Option<GeneratedFrames> {
        let [sp, fp] = [state.architecture.stack_pointer(), state.architecture.frame_pointer()];
        let [sp, fp] = [state.register(sp)?, state.register(fp).unwrap_or(0)];
        if !self.layout.is_generated(state.pc) {
            return None;
        }
        let memory = self.memory(pid)?;
        let position = if state.is_return_address {
            JavaPosition::Returning
        } else {
            let live = state.register(RAX).zip(state.register(R13));
            JavaPosition::Running(live.map(|(rax, r13)| JavaLive { rax, r13 }))
        };
        let lacks =
            |address: u64, bytes: usize| stack.lacks(address) || stack.lacks(address + bytes as u64 - 1);
        let copy = JavaStackCopy {
            start: stack.start,
            bytes: stack.bytes,
            lacks: &lacks,
            is_stack: |address| self.is_in_stack(pid, sp, address),
            memory,
        };
        let walk = walk(&copy, &self.layout, JavaRegisters { pc: state.pc, sp, fp }, position);
        Some(frames_of(&walk, state, stack))
    }

    /// Whether an address is in the stack that holds `sp`.
    fn is_in_stack(&self, pid: u32, sp: u64, address: u64) -> bool {
        let mut stacks = self.stacks.borrow_mut();
        if let Some(stack) = stacks.iter().find(|stack| stack.contains(&sp)) {
            return stack.contains(&address);
        }
        // Of a process that is gone nothing can be read anyway.
        let Some(stack) = proc_fs::mapping_around(pid, sp) else { return true };
        let is_in = stack.contains(&address);
        if stacks.len() >= MOST_STACKS {
            stacks.clear();
        }
        stacks.push(stack);
        is_in
    }

    /// The functions of a frame, innermost first; `None` if its code is no longer what it was.
    pub(super) fn functions(&mut self, pid: u32, pc: u64, note: JavaNote) -> Option<Vec<JavaFunction>> {
        let memory = self.memory.get_or_init(|| ProcessMemory::open(pid).ok()).as_ref()?;
        let mut functions = self.names.functions(memory, &self.layout, &note.frame(pc)?)?;
        for function in &mut functions {
            if let Some(name) = function.name.strip_prefix(STUB_PREFIX) {
                function.name = name.to_owned();
            }
        }
        Some(functions)
    }

    /// Remembers the frames of the profile that a frame stands for.
    pub(super) fn remember(&mut self, key: (u64, JavaNote), frames: Vec<FrameId>) {
        if self.frames.len() >= MOST_FRAMES {
            self.frames.clear();
        }
        self.frames.insert(key, frames);
    }

    fn memory(&self, pid: u32) -> Option<&ProcessMemory> {
        self.memory.get_or_init(|| ProcessMemory::open(pid).ok()).as_ref()
    }
}

/// A walk through generated code that began at `state`, as part of a walk of the whole stack.
fn frames_of(walk: &JavaWalk, state: &FrameState, stack: &StackCopy<'_>) -> GeneratedFrames {
    let JavaRegisters { pc, sp, fp } = walk.registers;
    let copy_end = stack.start.saturating_add(stack.bytes.len() as u64);
    let caller = match walk.end {
        JavaEnd::Native => {
            Ok(FrameState { thread_pointer: state.thread_pointer, ..FrameState::caller(pc, sp, fp) })
        }
        JavaEnd::TooDeep => Err(End::TooDeep),
        JavaEnd::Unreadable if copy_end.saturating_sub(sp) < NEAR_END => {
            Err(End::CopyTooShort { address: copy_end })
        }
        _ => Err(End::JitEnd { pc }),
    };
    let frames = walk.frames.iter().map(|frame| (frame.pc, JavaNote::of(frame).0)).collect();
    GeneratedFrames { frames, caller }
}
