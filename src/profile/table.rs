//! Interned rows that samples refer to: strings, modules, tasks, frames and stacks.
//!
//! Rows are append-only and compared by equality, so that an id means the same row for ever and the
//! writer can append "all rows since the last flush". A stack is its leaf frame plus a parent stack;
//! the parent is interned first and so has the smaller id.

use super::intern_set::InternSet;
use super::stack_set::StackSet;
use std::sync::Arc;

/// Defines a typed index into one of the tables.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
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

/// What kind of object a module is. Numbers are stored: append only.
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
    /// Executable memory without an ELF file behind it: code generated at run time.
    Jit,
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
            ModuleKind::Other(code) => code,
        }
    }

    /// The kind of a stored number.
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => ModuleKind::Unknown,
            1 => ModuleKind::Elf,
            2 => ModuleKind::Kernel,
            3 => ModuleKind::KernelModule,
            4 => ModuleKind::Vdso,
            5 => ModuleKind::Jit,
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
    /// What kind of object it is.
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

/// How a frame was found. Numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum FoundBy {
    /// It is where the CPU was.
    #[default]
    Leaf,
    /// By an unwind row (`.eh_frame`).
    Cfi,
    /// By the chain of frame pointers.
    FramePointer,
    /// By the kernel's own stack walker.
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
/// bits 2–3 = [`FoundBy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FrameFlags {
    /// The address is a return address: the call is at `address − 1`.
    pub is_return_address: bool,
    /// User or kernel code.
    pub space: FrameSpace,
    /// How the frame was found.
    pub found_by: FoundBy,
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
        u8::from(self.is_return_address) | u8::from(self.space == FrameSpace::Kernel) << 1 | found_by << 2
    }

    /// The flags of a stored byte; unknown bits are ignored.
    pub fn from_bits(bits: u8) -> Self {
        FrameFlags {
            is_return_address: bits & 1 != 0,
            space: if bits & 2 != 0 { FrameSpace::Kernel } else { FrameSpace::User },
            found_by: match bits >> 2 & 3 {
                0 => FoundBy::Leaf,
                1 => FoundBy::Cfi,
                2 => FoundBy::FramePointer,
                _ => FoundBy::KernelWalk,
            },
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
    /// What is known about the address.
    pub flags: FrameFlags,
}

impl Frame {
    /// The address whose function and line this frame has: the call, not the return.
    pub(crate) fn lookup_address(&self) -> u64 {
        if self.flags.is_return_address { self.address.saturating_sub(1) } else { self.address }
    }
}

/// A stack: its leaf frame and the stack of the callers. The root has no parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stack {
    /// The callers' stack; `None` for the outermost frame.
    pub parent: Option<StackId>,
    /// The leaf frame of this stack.
    pub frame: FrameId,
}

/// All interned rows of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    strings: InternSet<Arc<str>>,
    modules: InternSet<Module>,
    tasks: InternSet<Task>,
    frames: InternSet<Frame>,
    stacks: StackSet,
}

impl Default for Tables {
    fn default() -> Self {
        let mut strings = InternSet::default();
        strings.intern("".into());
        Tables {
            strings,
            modules: InternSet::default(),
            tasks: InternSet::default(),
            frames: InternSet::default(),
            stacks: StackSet::default(),
        }
    }
}

impl Tables {
    /// The id of `text`, added when new.
    pub fn intern_string(&mut self, text: &str) -> StringId {
        match self.strings.get_id(text) {
            Some(id) => StringId(id),
            None => StringId(self.strings.intern(text.into())),
        }
    }

    /// The id of `module`, added when new.
    pub fn intern_module(&mut self, module: Module) -> ModuleId {
        debug_assert!(module.path.index() < self.strings.len());
        ModuleId(self.modules.intern(module))
    }

    /// The id of `task`, added when new.
    pub fn intern_task(&mut self, task: Task) -> TaskId {
        debug_assert!(task.comm.index() < self.strings.len());
        TaskId(self.tasks.intern(task))
    }

    /// The id of `frame`, added when new.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        debug_assert!(frame.module.index() < self.modules.len());
        FrameId(self.frames.intern(frame))
    }

    /// The id of the stack whose leaf is `frame`, called from `parent`; added when new.
    pub fn intern_stack(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        debug_assert!(frame.index() < self.frames.len());
        debug_assert!(parent.is_none_or(|parent| parent.index() < self.stacks.as_slice().len()));
        self.stacks.intern(Stack { parent, frame })
    }

    /// Appends a string as the next id. The reader's way in: an equal one is not looked for.
    pub(super) fn push_string(&mut self, text: Box<str>) {
        self.strings.push(text.into());
    }

    /// Appends a module as the next id; its strings must exist.
    pub(super) fn push_module(&mut self, module: Module) {
        self.modules.push(module);
    }

    /// Appends a task as the next id; its strings must exist.
    pub(super) fn push_task(&mut self, task: Task) {
        self.tasks.push(task);
    }

    /// Appends a frame as the next id; its module must exist.
    pub(super) fn push_frame(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    /// Appends a stack as the next id; its frame and parent must exist.
    pub(super) fn push_stack(&mut self, stack: Stack) {
        self.stacks.push(stack);
    }

    /// Text of a string.
    pub fn string(&self, id: StringId) -> &str {
        &self.strings[id.index()]
    }

    /// Row of a module.
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.index()]
    }

    /// Row of a task.
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// Gives a task other names, which must exist. For readers: the table may have equal rows then.
    pub(crate) fn rename_task(&mut self, id: TaskId, comm: StringId, process: StringId) {
        debug_assert!(comm.index().max(process.index()) < self.strings.len());
        let task = Task { comm, process, ..self.tasks[id.index()] };
        self.tasks.replace(id.index(), task);
    }

    /// Row of a frame.
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.index()]
    }

    /// Row of a stack.
    pub(crate) fn stack(&self, id: StackId) -> Stack {
        self.stacks[id]
    }

    /// All strings, by id.
    pub fn strings(&self) -> impl ExactSizeIterator<Item = &str> {
        self.strings.iter().map(|text| &**text)
    }

    /// All modules, by id.
    pub fn modules(&self) -> &[Module] {
        self.modules.as_slice()
    }

    /// All tasks, by id.
    pub fn tasks(&self) -> &[Task] {
        self.tasks.as_slice()
    }

    /// All frames, by id.
    pub fn frames(&self) -> &[Frame] {
        self.frames.as_slice()
    }

    /// All stacks, by id; parents come before children.
    pub fn stacks(&self) -> &[Stack] {
        self.stacks.as_slice()
    }

    /// The frames of a stack, leaf first.
    pub fn stack_frames(&self, id: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let stack = self.stack(next?);
            next = stack.parent;
            Some(stack.frame)
        })
    }

    /// Interns a stack given its frames, root first. `None` when there are none.
    pub fn intern_stack_of(&mut self, root_first: impl IntoIterator<Item = FrameId>) -> Option<StackId> {
        root_first.into_iter().fold(None, |parent, frame| Some(self.intern_stack(parent, frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_share_an_id_and_parents_come_first() {
        let mut tables = Tables::default();
        let path = tables.intern_string("/bin/x");
        assert_eq!(tables.intern_string("/bin/x"), path);
        let module = tables.intern_module(Module { path, ..Module::default() });
        let frames: Vec<FrameId> = (0..3)
            .map(|address| tables.intern_frame(Frame { module, address, ..Frame::default() }))
            .collect();
        let stack = tables.intern_stack_of(frames.iter().copied());
        assert_eq!(tables.intern_stack_of(frames.iter().copied()), stack);
        let leaf_first: Vec<FrameId> = tables.stack_frames(stack.expect("three frames")).collect();
        assert_eq!(leaf_first, [frames[2], frames[1], frames[0]]);
        for (id, stack) in tables.stacks().iter().enumerate() {
            assert!(stack.parent.is_none_or(|parent| parent.index() < id));
        }
    }

    #[test]
    fn rows_that_were_appended_are_found_again() {
        let mut tables = Tables::default();
        tables.intern_string("a");
        tables.push_string("b".into());
        tables.push_string("b".into());
        tables.push_string("c".into());
        assert_eq!(tables.intern_string("c"), StringId(4));
        assert_eq!(tables.intern_string("b"), StringId(2));
        assert_eq!(tables.intern_string("a"), StringId(1));
        assert_eq!(tables.intern_string("d"), StringId(5));
    }

    #[test]
    fn a_task_that_was_renamed_is_found_by_its_new_name() {
        let mut tables = Tables::default();
        let [old, new] = ["old", "new"].map(|name| tables.intern_string(name));
        let task = |comm| Task { pid: 1, tid: 1, generation: 0, comm, process: comm };
        let id = tables.intern_task(task(old));
        tables.rename_task(id, new, new);
        assert_eq!(*tables.task(id), task(new));
        assert_eq!(tables.intern_task(task(new)), id);
        assert_ne!(tables.intern_task(task(old)), id);
    }

    #[test]
    fn flags_round_trip() {
        for bits in 0..16 {
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
