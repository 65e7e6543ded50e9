//! What both sides agree on: the types of the BPF object, and the numbers that C defines as macros or enumerators, each next
//! to the name that it has in `prof.h`.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/prof.skel.rs"));
}

pub use skeleton::types::{
    bss, prof_counters, prof_file, prof_file_key, prof_image, prof_more_tables, prof_process, prof_rescue,
    prof_sample, prof_segment, prof_span, prof_stack_copy, prof_thread_time, prof_wait, prof_watched,
};
pub use skeleton::{OpenProfSkel, ProfSkel, ProfSkelBuilder};

/// `PROF_MAX_RULES`: rules that all tables together may have.
pub const MAX_RULES: usize = 32768;
/// `PROF_MAX_IMAGES`: modules with tables.
pub const MAX_IMAGES: usize = 16384;
/// `PROF_MORE_ROWS`: rows of a room that is made for tables while a recording runs.
pub const MORE_ROWS: usize = 1 << 22;
/// `PROF_MORE_PAGES`: pages of such a room.
pub const MORE_PAGES: usize = 1 << 13;
/// `PROF_MAX_MORE_TABLES`: such rooms.
pub const MAX_MORE_TABLES: u32 = 31;
/// `PROF_FIRST_PAGE_BITS`: bits of an image's first page that are an index; the others are 0, or the number of such a
/// room, from 1.
pub const FIRST_PAGE_BITS: u32 = 24;
/// `PROF_MAX_MAPPINGS`: executable mappings of one process that the kernel side can hold.
pub const MAX_MAPPINGS: usize = 256;
/// `PROF_MAX_SEGMENTS`: executable segments of one file that the kernel side can hold.
pub const MAX_SEGMENTS: usize = 4;
/// `PROF_NO_START`: start of an unused mapping entry; above every user address.
pub const NO_START: u64 = 1 << 62;
/// `PROF_EXEC_PENDING`: `exec_seq` of a launched command before its exec.
pub const EXEC_PENDING: u32 = 1 << 31;
/// `PROF_SMALL_RESCUE_BYTES` and the others: sizes of stack copies, bytes.
pub const RESCUE_SIZES: [usize; 4] = [16384, 65536, 262_144, LARGEST_RESCUE_BYTES];
/// `PROF_LARGEST_RESCUE_BYTES`: largest stack copy, bytes.
pub const LARGEST_RESCUE_BYTES: usize = 786_432;
/// `PROF_REGISTERS`: general registers and the program counter.
pub const REGISTERS: usize = if cfg!(target_arch = "aarch64") { 33 } else { 17 };
/// `PROF_STACK_COPY_BYTES`: size of the copy of every stack, bytes.
pub const STACK_COPY_BYTES: usize = 786_432;
/// `PROF_RED_ZONE_BYTES`: how far below rsp a stack copy starts, bytes.
pub const RED_ZONE_BYTES: u64 = 128;
/// `PROF_FRAME_RETURN`: mark of a return address.
pub const FRAME_RETURN: u64 = 1 << 63;
/// `PROF_FRAME_BY_FP`: mark of a frame that was found by frame pointers.
pub const FRAME_BY_FP: u64 = 1 << 62;
/// `PROF_FRAME_ADDRESS`: the address without marks.
pub const FRAME_ADDRESS: u64 = (1 << 56) - 1;
/// `PROF_MAX_USER_FRAMES`: user frames of one sample; of a deeper stack, half of them from each end.
pub const MAX_USER_FRAMES: usize = 1024;
/// `PROF_LEAF_FRAMES`: user frames of a stack that is too deep, next to its leaf.
pub const LEAF_FRAMES: usize = MAX_USER_FRAMES / 2;
/// `SAMPLE_RINGS`: rings for samples; CPU n writes to ring n modulo this.
pub const SAMPLE_RINGS: usize = 8;

/// `PROF_REASON_BY_FILE`: of a system call that waits for what its first argument, a descriptor, is of.
pub const REASON_BY_FILE: u8 = 32;

/// `enum prof_filter`: whose samples are kept.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Every process.
    None = 0,
    /// Processes with an entry in `processes`.
    Process = 1,
    /// Threads with an entry in `threads`.
    Thread = 2,
}

/// `enum prof_image_state`: what the walker may do with a module.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageState {
    /// No table yet, or any more.
    NotLoaded = 0,
    /// The table is there.
    Ready = 1,
    /// Follow frame pointers.
    FramePointers = 2,
    /// No unwind information, now and for ever.
    NoTable = 3,
    /// Code generated at run time: follow frame pointers.
    Generated = 4,
    /// The file could not be opened.
    Unreadable = 5,
}

/// `enum prof_counter`: index of a counter in `prof_counters`.
#[repr(usize)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Sampling interrupts.
    Hit = 0,
    /// Not the target.
    Filtered = 1,
    /// The idle task.
    Idle = 2,
    /// Sent to user space.
    Sent = 3,
    /// Lost: the ring buffer was full.
    RingFull = 4,
    /// Stack copies sent.
    RescueSent = 5,
    /// Stack copies that did not fit into their ring.
    RescueFull = 6,
    /// Stack copies refused by the rate cap.
    RescueCapped = 7,
    /// Runs that were timed.
    TimedRuns = 8,
    /// Their time, ns.
    TimedNs = 9,
    /// Mappings that could not be handed to a forked child.
    ForkFailed = 10,
    /// exec calls after which the old entry was emptied in place.
    ExecFailed = 11,
    /// Copies of every stack that did not fit into their ring.
    CopyFull = 12,
    /// Mappings that the kernel side found by itself at exec.
    ExecMapped = 13,
    /// Mappings that a walk found in the kernel's own list.
    FoundMapping = 14,
    /// Walks cut since the entry they used was replaced.
    EntryReused = 15,
    /// Waits sent.
    WaitSent = 16,
    /// Waits left out to keep to the cost.
    WaitThinned = 17,
    /// Waits that did not fit into their ring.
    WaitFull = 18,
    /// What these stood for, ns.
    WaitFullNs = 19,
    /// Stacks of wakers sent.
    WakerSent = 20,
    /// Time that the programs took for waits that were sent, ns.
    WaitNs = 21,
    /// Threads without an account, or with one that began late.
    NoState = 22,
    /// Times of threads that did not fit into their ring.
    ThreadFull = 23,
    /// Switches that the kernel did not tell of.
    SwitchMissed = 24,
    /// Switches and wakings seen while waits were recorded.
    Switch = 25,
    /// Those whose time was taken.
    SwitchTimed = 26,
    /// Their time, ns, without the stacks of waits that were sent.
    SwitchNs = 27,
    /// Accounts of threads' times begun.
    Account = 28,
    /// Accounts sent: one for each, in the end.
    AccountSent = 29,
    /// Switches of threads that are recorded without an account.
    SwitchNoState = 30,
    /// Of those filtered, threads past their end in a PID namespace, where they have no number any more.
    Numberless = 31,
}

/// `enum prof_outcome`.
pub mod outcome {
    /// The root was reached.
    pub const COMPLETE: u8 = 1;
    /// The thread has no user stack.
    pub const NO_USER_STACK: u8 = 2;
    /// End of frame pointers in generated code.
    pub const JIT_END: u8 = 3;
    /// No unwind information.
    pub const NO_UNWIND_INFO: u8 = 4;
    /// The module's table is not loaded.
    pub const TABLE_NOT_LOADED: u8 = 5;
    /// The rule needs user space.
    pub const UNSUPPORTED_RULE: u8 = 6;
    /// The address is in no mapping that the kernel side knows.
    pub const UNKNOWN_MAPPING: u8 = 7;
    /// The stack could not be read.
    pub const STACK_UNREADABLE: u8 = 8;
    /// The unwind information led nowhere.
    pub const BAD_UNWIND_INFO: u8 = 9;
    /// The stack is too deep.
    pub const TOO_DEEP: u8 = 10;
    /// A 32-bit program.
    pub const COMPAT32: u8 = 12;
    /// The file of the code could not be opened.
    pub const FILE_UNREADABLE: u8 = 13;
}

const _: () = {
    assert!(size_of::<prof_image>() == 16);
    assert!(size_of::<prof_process>() == 16 + 32 * MAX_MAPPINGS);
    assert!(size_of::<prof_file_key>() == 16);
    assert!(size_of::<prof_file>() == 32 + 24 * MAX_SEGMENTS);
    assert!(size_of::<prof_sample>() == 48);
    assert!(size_of::<prof_rescue>() == 56 + 8 * REGISTERS + LARGEST_RESCUE_BYTES);
    assert!(size_of::<prof_stack_copy>() == 64 + 8 * REGISTERS + STACK_COPY_BYTES);
};
