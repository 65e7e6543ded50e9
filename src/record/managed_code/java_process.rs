//! The Java machine of one process: where its memory says how frames of generated code are left, and the functions of these
//! frames.

use super::java_descriptor::descriptor;
use super::native_place::ManagedName;
use crate::bpf::{ManagedFrame, number, prof_java, prof_managed};
use crate::record::interpreters::function_names::{FunctionNames, RunFunction};
use crate::record::interpreters::known_code::RunPlace;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::modules::FileId;
use crate::record::process::proc_fs;
use crate::runtimes::RuntimeProblem;
use crate::runtimes::java::{
    JavaBlobKind, JavaEnd, JavaFunction, JavaLayout, JavaLive, JavaMark, JavaNames, JavaNote, JavaPosition,
    JavaProbe, JavaRegisters, JavaStackCopy, JavaWalk, walk,
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
    file: FileId,
    layout: Arc<JavaLayout>,
    /// What the kernel side has to know; `None` if it has no room for that.
    descriptor: Option<prof_java>,
    memory: OnceCell<Option<ProcessMemory>>,
    names: JavaNames,
    /// Functions of frames, by address and note, innermost first.
    frames: FxHashMap<(u64, JavaNote), Vec<RunPlace>>,
    /// The kernel side took methods for code of another kind, as there were none when it was told the kinds.
    is_outdated: bool,
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
    ) -> Result<Self, RuntimeProblem> {
        if Architecture::HOST != Architecture::X86_64 {
            let why = "java: functions are known on x86-64 only; stacks end in generated code";
            return Err(RuntimeProblem::lasting(why));
        }
        let memory = ProcessMemory::open(pid).map_err(|error| {
            RuntimeProblem::temporary(format!(
                "memory of pid {pid} cannot be read: {error}: its Java functions are not known; run prof as root or as the \
                 user of the process"
            ))
        })?;
        let layout = JavaLayout::find(&memory, symbols)?;
        Ok(JavaMachine {
            file,
            descriptor: descriptor(&JavaProbe::of(&memory, &layout)),
            layout: Arc::new(layout),
            memory: OnceCell::from(Some(memory)),
            names: JavaNames::default(),
            frames: FxHashMap::default(),
            is_outdated: false,
            stacks: RefCell::default(),
        })
    }

    /// The same in a forked child, which has a copy of the memory.
    pub(super) fn forked(&self) -> Self {
        JavaMachine {
            file: self.file,
            layout: Arc::clone(&self.layout),
            descriptor: self.descriptor,
            memory: OnceCell::new(),
            names: JavaNames::default(),
            frames: FxHashMap::default(),
            is_outdated: false,
            stacks: RefCell::default(),
        }
    }

    /// Forgets functions, because they get new numbers.
    pub(super) fn forget_functions(&mut self) {
        self.frames = FxHashMap::default();
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

    /// What the kernel side has to know.
    pub(super) fn descriptor(&self) -> prof_managed {
        let kind = match self.descriptor {
            Some(_) => number::PROF_MANAGED_JAVA,
            None => number::PROF_MANAGED_JAVA_RESCUED,
        };
        let java = self.descriptor.unwrap_or_default();
        prof_managed { kind: kind as u8, java, ..prof_managed::default() }
    }

    /// Looks again at the kinds of code that there are, if that is due. Returns whether the kernel side is to hear of them.
    pub(super) fn renew(&mut self, pid: u32) -> bool {
        if !std::mem::take(&mut self.is_outdated) {
            return false;
        }
        let Some(memory) = self.memory(pid) else { return false };
        let new = descriptor(&JavaProbe::of(memory, &self.layout));
        let kinds = |java: &Option<prof_java>| java.as_ref().map(|java| java.kind_name);
        let is_new = kinds(&new) != kinds(&self.descriptor);
        self.descriptor = new;
        is_new
    }

    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    pub(super) fn file(&self) -> FileId {
        self.file
    }

    /// Name and version of the runtime.
    pub(super) fn runtime(&self) -> String {
        self.layout.version.runtime()
    }

    /// Returns the version, and where the offsets are from.
    pub(super) fn describe(&self) -> String {
        let rescued = if self.descriptor.is_some() { "" } else { "; stacks are walked in user space alone" };
        format!("java {}: offsets from its vmStructs{rescued}", self.layout.version)
    }

    /// Puts the functions of the frame at `pc` into `out`, innermost first. `note` is what is known of it.
    pub(super) fn functions(
        &mut self,
        pid: u32,
        pc: u64,
        note: Option<&ManagedFrame>,
        names: &mut FunctionNames,
        out: &mut Vec<RunPlace>,
    ) -> ManagedName {
        let Some(note) = note.map(note_of) else { return ManagedName::Native };
        if let Some(known) = self.frames.get(&(pc, note)) {
            out.extend(known);
            return ManagedName::Functions;
        }
        let Some(functions) = self.read(pid, pc, note) else { return ManagedName::Unread };
        let place = |function: JavaFunction| RunPlace {
            line: function.line.unwrap_or(0),
            function: names.number(RunFunction {
                name: plain_name(&function.name),
                file: function.file.unwrap_or_default(),
                first_line: function.first_line.unwrap_or(0),
                is_inlined: function.mark == JavaMark::Inlined,
            }),
        };
        out.extend(functions.into_iter().map(place));
        if self.frames.len() >= MOST_FRAMES {
            self.frames.clear();
        }
        self.frames.insert((pc, note), out.clone());
        ManagedName::Functions
    }

    /// The functions of a frame, innermost first; `None` if its code is no longer what it was.
    fn read(&mut self, pid: u32, pc: u64, note: JavaNote) -> Option<Vec<JavaFunction>> {
        let memory = self.memory.get_or_init(|| ProcessMemory::open(pid).ok()).as_ref()?;
        let frame = note.frame(pc)?;
        let functions = self.names.functions(memory, &self.layout, &frame)?;
        let is_method = functions.first().is_some_and(|function| function.mark != JavaMark::Stub);
        self.is_outdated |= is_method && matches!(frame.kind, JavaBlobKind::Runtime | JavaBlobKind::Stubs);
        Some(functions)
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
    (frames, caller)
}

/// A note as it is sent beside its frame.
pub(crate) fn java_note(note: [u64; 2]) -> ManagedFrame {
    let [first, second] = note;
    ManagedFrame {
        frame: 0,
        code: first & number::PROF_MANAGED_ADDRESS,
        position: Some(second as u32).filter(|&low| u64::from(low) != number::PROF_MANAGED_NO_POSITION),
        check: (second >> 32) as u32,
        mark: (first >> 56) as u8,
    }
}

/// The note that was sent.
fn note_of(sent: &ManagedFrame) -> JavaNote {
    let low = sent.position.unwrap_or(number::PROF_MANAGED_NO_POSITION as u32);
    JavaNote([sent.code | u64::from(sent.mark) << 56, u64::from(low) | u64::from(sent.check) << 32])
}

/// The name of a function or stub without what all stubs of a kind have in common, and without the addresses of hidden
/// classes (`Main$$Lambda$2+0x00007f061c001800.run`), which are others in each process.
fn plain_name(name: &str) -> String {
    let name = name.strip_prefix(STUB_PREFIX).unwrap_or(name);
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("0x") {
        let (before, address) = rest.split_at(at);
        let end = address
            .find(|letter: char| !letter.is_ascii_hexdigit() && letter != 'x')
            .unwrap_or(address.len());
        match before.strip_suffix(['+', '/']).filter(|_| end > 2) {
            Some(class) => plain.push_str(class),
            None => plain.push_str(&rest[..at + end]),
        }
        rest = &address[end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::super::managed_runtime::ProcessManaged;
    use super::*;
    use crate::record::interpreters::function_names::FunctionNumber;
    use crate::runtimes::java::fake::FakeJvm;

    #[test]
    fn functions_are_forgotten_with_their_numbers() {
        let jvm = FakeJvm::new();
        let layout =
            JavaLayout::find(&jvm, |name| jvm.symbol_address(name)).expect("its tables are complete");
        let sent = java_note([3 << 56 | 0x7fff_8000, 0x7fff_1234_5678]);
        let place = RunPlace { function: FunctionNumber::UNREAD, line: 7 };
        let mut process = ProcessManaged::Java(Box::new(JavaMachine {
            file: FileId(1),
            layout: Arc::new(layout),
            descriptor: None,
            // It cannot be read again.
            memory: OnceCell::from(None),
            names: JavaNames::default(),
            frames: FxHashMap::from_iter([((0x1000, note_of(&sent)), vec![place])]),
            is_outdated: false,
            stacks: RefCell::default(),
        }));
        let functions = |process: &mut ProcessManaged| {
            let ProcessManaged::Java(machine) = process else { panic!("{process:?}") };
            let mut out = Vec::new();
            let named = machine.functions(1, 0x1000, Some(&sent), &mut FunctionNames::default(), &mut out);
            (matches!(named, ManagedName::Functions), out)
        };
        assert_eq!(functions(&mut process), (true, vec![place]));
        process.forget_functions();
        assert_eq!(
            functions(&mut process),
            (false, vec![]),
            "its number may be that of another function by now"
        );
    }

    #[test]
    fn names_are_the_same_in_each_process() {
        for (name, plain) in [
            ("Main$$Lambda$2+0x00007f061c001800.run", "Main$$Lambda$2.run"),
            ("Main$$Lambda/0x00007f061c001800.run", "Main$$Lambda.run"),
            ("RuntimeStub - _new_array_Java", "_new_array_Java"),
            ("I2C/C2I adapters(0xba)", "I2C/C2I adapters(0xba)"),
            ("Main.at0x", "Main.at0x"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }

    #[test]
    fn notes_are_sent_whole() {
        for note in [[3 << 56 | 0x7fff_8000, 0x7fff_1234_5678], [1 << 56 | 0x7000, 77], [8 << 56, u64::MAX]] {
            assert_eq!(note_of(&java_note(note)), JavaNote(note));
        }
    }
}
