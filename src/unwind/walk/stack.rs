//! A walked stack: its frames, and how the walk ended.

/// Method by which a frame was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// The frame is where the walk began.
    Leaf,
    /// Call frame information of the frame below it.
    Cfi,
    /// Frame pointer of the frame below it.
    FramePointer,
    /// A signal interrupted it.
    Signal,
}

/// One frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameAddress {
    /// Process address of an instruction.
    pub address: u64,
    /// Whether `address` follows a call: it then belongs to the code one byte before it.
    pub is_return_address: bool,
    /// Method by which the frame was found.
    pub found_by: FoundBy,
    /// Words by which the frame's runtime names it, if that has generated the code.
    pub note: Option<[u64; 2]>,
    /// The frame pointer in that frame, where it is known.
    pub frame_pointer: Option<u64>,
}

impl FrameAddress {
    /// The address to look the frame up by.
    pub fn lookup_address(&self) -> u64 {
        self.address.wrapping_sub(u64::from(self.is_return_address))
    }
}

/// End of a walk. Addresses are the process's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the thread's root, with proof: an undefined return address, known entry code, or a return
    /// address of zero.
    Complete,
    /// The code at `pc` has no unwind information.
    NoUnwindInfo {
        /// Address at which the walk stood.
        pc: u64,
    },
    /// Nothing executable is mapped at a return address.
    UnknownMapping {
        /// The return address; it is not among the frames.
        address: u64,
    },
    /// The module's table is not loaded.
    TableNotLoaded {
        /// Address at which the walk stood.
        pc: u64,
    },
    /// Memory that a rule needs cannot be read.
    StackUnreadable {
        /// The unreadable address.
        address: u64,
    },
    /// Memory that a rule needs lies outside the copied part of the stack.
    CopyTooShort {
        /// The address that was not copied.
        address: u64,
    },
    /// The unwind information leads nowhere: the stack would shrink, or a register that it names is lost.
    BadUnwindInfo {
        /// Address at which the walk stood.
        pc: u64,
    },
    /// Code without unwind information, and rbp is not a frame pointer there.
    BadFramePointer {
        /// Address at which the walk stood.
        pc: u64,
    },
    /// Code without a file, and rbp is not a frame pointer there.
    JitEnd {
        /// Address at which the walk stood.
        pc: u64,
    },
    /// A rule needs full DWARF evaluation, and the raw sections are not there.
    NotExpressible {
        /// Address at which the walk stood.
        pc: u64,
    },
    /// No root within [`MAX_WALKED_FRAMES`].
    TooDeep,
}

/// A stack, leaf first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The frames; at least the leaf, unless none were asked for.
    pub frames: Vec<FrameAddress>,
    /// Frames left out after the first half of those asked for; 0 if all are there.
    pub left_out: usize,
    /// End of the walk.
    pub end: End,
}

/// Frames after which a walk ends without its root. `PROF_MAX_WALKED_FRAMES` in `prof.h`.
pub(crate) const MAX_WALKED_FRAMES: usize = 16_384;
