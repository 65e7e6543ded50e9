//! What a walk begins with, and what comes of it.

use crate::runtimes::java::blob::JavaBlobKind;

/// Registers that a frame is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaRegisters {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) fp: u64,
}

/// Registers that generated code keeps something in which is not on the stack yet, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaLive {
    /// Return address while arguments are moved for a method that is entered.
    pub(crate) rax: u64,
    /// Position of the interpreter among the bytecodes, or its caller's stack pointer at an entry.
    pub(crate) r13: u64,
}

/// What the pc that a walk begins at is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaPosition {
    /// Instruction that ran, with the other registers if they are known.
    Running(Option<JavaLive>),
    /// Return address of a call into native code; not the pc below a signal frame, which is of an instruction.
    Returning,
}

/// Physical frame of generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaFrame {
    /// Address in the code, for a deoptimised frame the one before deoptimisation replaced it.
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    pub(crate) kind: JavaBlobKind,
    /// Start of the blob.
    pub(crate) blob: u64,
    /// Number of the compilation of an nmethod, otherwise 0: a blob with another one is other code.
    pub(crate) compile_id: u32,
    /// Method* of an nmethod or of an interpreted frame; 0 if the frame has none yet.
    pub(crate) method: u64,
    /// Address of the bytecode that an interpreted frame is at; 0 for other frames and for native methods.
    pub(crate) bytecode: u64,
    pub(crate) is_deoptimized: bool,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaEnd {
    /// Native code was reached; a native unwinder can go on.
    Native,
    /// No blob owns the address.
    NoBlob,
    /// Memory of a frame could not be read.
    Unreadable,
    /// A frame failed a check, or is in a state that cannot be told.
    Unclear,
    /// The next frame would not lie above this one.
    Stuck,
    /// There are more frames than are walked.
    TooDeep,
}

/// Frames of generated code, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaWalk {
    pub(crate) frames: Vec<JavaFrame>,
    pub(crate) end: JavaEnd,
    /// Registers of the frame after the last one: a native one if `end` is `Native`.
    pub(crate) registers: JavaRegisters,
}
