//! What both sides agree on: the types of the BPF object, and the numbers that C defines as macros or enumerators, which
//! build.rs reads from `prof.h`.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/prof.skel.rs"));
}

/// The macros and enumerators of `prof.h`, by their names there.
#[allow(dead_code, unused_parens, clippy::all, reason = "all of them, as C writes them")]
pub(crate) mod number {
    include!(concat!(env!("OUT_DIR"), "/prof_numbers.rs"));
}

pub(crate) use skeleton::types::{
    bss, prof_block, prof_block_place, prof_call_total, prof_counters, prof_file, prof_file_key,
    prof_goroutine, prof_goroutine_place, prof_image, prof_java, prof_java_field, prof_java_heap,
    prof_loop_setup, prof_managed, prof_managed_frame, prof_more_tables, prof_new_code, prof_perl, prof_php,
    prof_probe, prof_probe_counts, prof_process, prof_python, prof_rescue, prof_ruby, prof_runtime,
    prof_runtime_frame, prof_sample, prof_segment, prof_span, prof_stack_copy, prof_thread_time, prof_v8,
    prof_wait, prof_watched,
};
pub(crate) use skeleton::{OpenProfSkel, ProfSkel, ProfSkelBuilder};

/// Rules that all tables together may have.
pub(crate) const MAX_RULES: usize = number::PROF_MAX_RULES as usize;
/// Modules with tables.
pub(crate) const MAX_IMAGES: usize = number::PROF_MAX_IMAGES as usize;
/// Rows of a room that is made for tables while a recording runs.
pub(crate) const MORE_ROWS: usize = number::PROF_MORE_ROWS as usize;
/// Pages of such a room.
pub(crate) const MORE_PAGES: usize = number::PROF_MORE_PAGES as usize;
/// Such rooms.
pub(crate) const MAX_MORE_TABLES: u32 = number::PROF_MAX_MORE_TABLES as u32;
/// Bits of an image's first page that are an index; the others are 0, or the number of such a
/// room, from 1.
pub(crate) const FIRST_PAGE_BITS: u32 = number::PROF_FIRST_PAGE_BITS as u32;
/// Executable mappings of one process that the kernel side can hold.
pub(crate) const MAX_MAPPINGS: usize = number::PROF_MAX_MAPPINGS as usize;
/// Executable segments of one file that the kernel side can hold.
pub const MAX_SEGMENTS: usize = number::PROF_MAX_SEGMENTS as usize;
/// Start of an unused mapping entry; above every user address.
pub(crate) const NO_START: u64 = number::PROF_NO_START;
/// `exec_seq` of a launched command before its exec.
pub(crate) const EXEC_PENDING: u32 = number::PROF_EXEC_PENDING as u32;
/// Sizes of stack copies, bytes.
pub(crate) const RESCUE_SIZES: [usize; 4] = [
    number::PROF_SMALL_RESCUE_BYTES as usize,
    number::PROF_RESCUE_BYTES as usize,
    number::PROF_LARGE_RESCUE_BYTES as usize,
    LARGEST_RESCUE_BYTES,
];
/// Largest stack copy, bytes.
pub(crate) const LARGEST_RESCUE_BYTES: usize = number::PROF_LARGEST_RESCUE_BYTES as usize;
/// General registers and the program counter.
pub(crate) const REGISTERS: usize = number::PROF_REGISTERS as usize;
/// Size of the copy of every stack, bytes.
pub(crate) const STACK_COPY_BYTES: usize = number::PROF_STACK_COPY_BYTES as usize;
/// Distance below rsp at which a stack copy starts, bytes.
pub(crate) const RED_ZONE_BYTES: u64 = number::PROF_RED_ZONE_BYTES;
/// Mark of a return address.
pub const FRAME_RETURN: u64 = number::PROF_FRAME_RETURN;
/// Mark of a frame that was found by frame pointers.
pub const FRAME_BY_FP: u64 = number::PROF_FRAME_BY_FP;
/// Mark of a frame of which a runtime knows more.
pub(crate) const FRAME_MANAGED: u64 = number::PROF_FRAME_MANAGED;
/// The address without marks.
pub const FRAME_ADDRESS: u64 = number::PROF_FRAME_ADDRESS;
/// User frames of one sample; of a deeper stack, half of them from each end.
pub const MAX_USER_FRAMES: usize = number::PROF_MAX_USER_FRAMES as usize;
/// User frames of a stack that is too deep, next to its leaf.
pub const LEAF_FRAMES: usize = number::PROF_LEAF_FRAMES as usize;
/// Rings for samples; CPU n writes to ring n modulo this.
pub(crate) const SAMPLE_RINGS: usize = number::PROF_SAMPLE_RINGS as usize;

/// Code of a system call whose first argument is a descriptor: the reason follows from the file.
pub(crate) const REASON_BY_FILE: u8 = number::PROF_REASON_BY_FILE as u8;
/// Code in the kernel side's table for a system call that sleeps where its first argument, a number of files, is 0.
pub(crate) const REASON_BY_FIRST_COUNT: u8 = number::PROF_REASON_BY_FIRST_COUNT as u8;
/// The same of its second argument.
pub(crate) const REASON_BY_SECOND_COUNT: u8 = number::PROF_REASON_BY_SECOND_COUNT as u8;

/// Places that all probes of a recording can be at.
pub(crate) const MAX_PROBES: usize = number::PROF_MAX_PROBES as usize;

/// Places of all programs of a recording that sample blocks of memory themselves.
pub(crate) const MAX_BLOCK_PLACES: usize = number::PROF_MAX_BLOCK_PLACES as usize;

/// System calls have numbers below.
pub(crate) const SYSTEM_CALLS: u32 = number::PROF_SYSTEM_CALLS as u32;

/// `enum prof_filter`: whose samples are kept.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// Every process.
    None = number::PROF_FILTER_NONE as u32,
    /// Processes with an entry in `processes`.
    Process = number::PROF_FILTER_PROCESS as u32,
    /// Threads with an entry in `threads`.
    Thread = number::PROF_FILTER_THREAD as u32,
}

/// `enum prof_image_state`: what the walker may do with a module.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageState {
    /// No table yet, or any more.
    NotLoaded = number::PROF_IMAGE_NOT_LOADED as u32,
    /// The table is there.
    Ready = number::PROF_IMAGE_READY as u32,
    /// Follow frame pointers.
    FramePointers = number::PROF_IMAGE_FRAME_POINTERS as u32,
    /// No unwind information, now and for ever.
    NoTable = number::PROF_IMAGE_NO_TABLE as u32,
    /// Code generated at run time: follow frame pointers.
    Generated = number::PROF_IMAGE_GENERATED as u32,
    /// The file could not be opened.
    Unreadable = number::PROF_IMAGE_UNREADABLE as u32,
}

/// `enum prof_counter`: index of a counter in `prof_counters`.
#[repr(usize)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Sampling interrupts.
    Hit = number::PROF_COUNT_HIT as usize,
    /// Not the target.
    Filtered = number::PROF_COUNT_FILTERED as usize,
    /// The idle task.
    Idle = number::PROF_COUNT_IDLE as usize,
    /// Sent to user space.
    Sent = number::PROF_COUNT_SENT as usize,
    /// Lost: the ring buffer was full.
    RingFull = number::PROF_COUNT_RING_FULL as usize,
    /// Runs that were timed.
    TimedRuns = number::PROF_COUNT_TIMED_RUNS as usize,
    /// Their time, ns.
    TimedNs = number::PROF_COUNT_TIMED_NS as usize,
    /// Mappings that could not be handed to a forked child.
    ForkFailed = number::PROF_COUNT_FORK_FAILED as usize,
    /// exec calls after which the old entry was emptied in place.
    ExecFailed = number::PROF_COUNT_EXEC_FAILED as usize,
    /// Copies of every stack that did not fit into their ring.
    CopyFull = number::PROF_COUNT_COPY_FULL as usize,
    /// Mappings that the kernel side found by itself at exec.
    ExecMapped = number::PROF_COUNT_EXEC_MAPPED as usize,
    /// Mappings that a walk found in the kernel's own list.
    FoundMapping = number::PROF_COUNT_FOUND_MAPPING as usize,
    /// Walks cut since the entry they used was replaced.
    EntryReused = number::PROF_COUNT_ENTRY_REUSED as usize,
    /// Waits sent.
    WaitSent = number::PROF_COUNT_WAIT_SENT as usize,
    /// Waits left out to keep to the cost.
    WaitThinned = number::PROF_COUNT_WAIT_THINNED as usize,
    /// Waits that did not fit into their ring.
    WaitFull = number::PROF_COUNT_WAIT_FULL as usize,
    /// Weight of the waits that did not fit into their ring, ns.
    WaitFullNs = number::PROF_COUNT_WAIT_FULL_NS as usize,
    /// Stacks of wakers sent.
    WakerSent = number::PROF_COUNT_WAKER_SENT as usize,
    /// Time that the programs took for waits that were sent, ns.
    WaitNs = number::PROF_COUNT_WAIT_NS as usize,
    /// Threads without an account, or with one that began late.
    NoState = number::PROF_COUNT_NO_STATE as usize,
    /// Times of threads that did not fit into their ring.
    ThreadFull = number::PROF_COUNT_THREAD_FULL as usize,
    /// Switches that the kernel did not report.
    SwitchMissed = number::PROF_COUNT_SWITCH_MISSED as usize,
    /// Switches and wakings seen while waits were recorded.
    Switch = number::PROF_COUNT_SWITCH as usize,
    /// Switches and wakings whose time was taken.
    SwitchTimed = number::PROF_COUNT_SWITCH_TIMED as usize,
    /// Time of these switches and wakings, ns, without the stacks of waits that were sent.
    SwitchNs = number::PROF_COUNT_SWITCH_NS as usize,
    /// Accounts of threads' times begun.
    Account = number::PROF_COUNT_ACCOUNT as usize,
    /// Accounts sent: one for each, in the end.
    AccountSent = number::PROF_COUNT_ACCOUNT_SENT as usize,
    /// Switches of threads that are recorded without an account.
    SwitchNoState = number::PROF_COUNT_SWITCH_NO_STATE as usize,
    /// Filtered threads past their end in a PID namespace, where they have no number any more.
    Numberless = number::PROF_COUNT_NUMBERLESS as usize,
    /// Lost: the ring buffer of counters was full.
    CountsFull = number::PROF_COUNT_COUNTS_FULL as usize,
    /// Time that hits of probes took that were kept, ns.
    ProbeNs = number::PROF_COUNT_PROBE_NS as usize,
    /// Lost: the ring buffer of sampled blocks was full.
    BlocksFull = number::PROF_COUNT_BLOCKS_FULL as usize,
    /// Ends of sampled blocks that did not fit into it.
    FreesFull = number::PROF_COUNT_FREES_FULL as usize,
}

/// `enum prof_weight_kind`: what a hit of a probe is weighted as.
pub(crate) mod weight_kind {
    use crate::bpf::layout::number;

    /// As one.
    pub(crate) const ONE: u32 = number::PROF_WEIGHT_ONE as u32;
    /// The value of a register.
    pub(crate) const REGISTER: u32 = number::PROF_WEIGHT_REGISTER as u32;
    /// A value in memory.
    pub(crate) const MEMORY: u32 = number::PROF_WEIGHT_MEMORY as u32;
    /// A constant.
    pub(crate) const CONSTANT: u32 = number::PROF_WEIGHT_CONSTANT as u32;
    /// An argument of a tracepoint.
    pub(crate) const ARGUMENT: u32 = number::PROF_WEIGHT_ARGUMENT as u32;
}

/// Outcomes of the kernel's walk that user space asks for; all of them are `profile::Outcome`.
pub mod outcome {
    use crate::bpf::layout::number;

    /// The root was reached.
    pub const COMPLETE: u8 = number::PROF_OUTCOME_COMPLETE as u8;
    /// The module's table is not loaded.
    #[cfg(test)]
    pub(crate) const TABLE_NOT_LOADED: u8 = number::PROF_OUTCOME_TABLE_NOT_LOADED as u8;
    /// The address is in no mapping that the kernel side knows.
    pub(crate) const UNKNOWN_MAPPING: u8 = number::PROF_OUTCOME_UNKNOWN_MAPPING as u8;
}

const _: () = {
    assert!(size_of::<prof_image>() == 16);
    assert!(
        size_of::<prof_process>()
            == 16
                + 32 * MAX_MAPPINGS
                + size_of::<prof_runtime>()
                + size_of::<prof_goroutine_place>()
                + size_of::<prof_managed>()
    );
    assert!(size_of::<prof_goroutine_place>() == 40);
    assert!(size_of::<prof_managed>() == 288);
    assert!(size_of::<prof_runtime>() == 208);
    assert!(size_of::<prof_file_key>() == 16);
    assert!(size_of::<prof_file>() == 32 + 24 * MAX_SEGMENTS);
    assert!(size_of::<prof_probe>() == 48);
    assert!(size_of::<prof_block_place>() == 3 * size_of::<prof_probe>());
    assert!(size_of::<prof_probe_counts>() == 64);
    assert!(size_of::<prof_call_total>() == 16);
    assert!(size_of::<prof_sample>() == 64);
    assert!(size_of::<prof_rescue>() == 56 + 8 * REGISTERS + LARGEST_RESCUE_BYTES);
    assert!(size_of::<prof_stack_copy>() == 64 + 8 * REGISTERS + STACK_COPY_BYTES);
};
