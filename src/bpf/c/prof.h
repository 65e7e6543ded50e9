/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the BPF programs and user space: types, enums and limits, nothing else.
 * Enum values are explicit and append-only; 0 is "unset". Every struct spells out its padding.
 */
#ifndef PROF_H
#define PROF_H

#include "goroutine.h"
#include "probe.h"
#include "runtime.h"
#include "unwind_table.h"
#include "managed.h"

/* ---- Processes ----------------------------------------------------------------------------- */

#define PROF_MAPPING_SEARCH_STEPS 8
#define PROF_MAX_MAPPINGS (1 << PROF_MAPPING_SEARCH_STEPS)

/* One executable mapping. `start` is kept apart, in an array of its own, for the search. */
struct prof_mapping {
	__u64 end;   /* first process address after it */
	__u64 bias;  /* process address - module address */
	__u32 image; /* index into the image array */
	__u32 pad;
};

/* The executable mappings of one process, sorted by start. Unused starts hold
 * PROF_NO_START. */
#define PROF_NO_START (1ULL << 62)
/* `exec_seq` of a launched command before its exec: it is no target yet. */
#define PROF_EXEC_PENDING (1U << 31)

struct prof_process {
	/* Tells this entry from others that may have had, or may get, the same memory: an entry
	 * that is replaced is used again at once, while a walk may still be reading it. */
	__u64 stamp;
	__u32 count;
	/* Counts exec calls seen by the kernel side; user space may only replace an entry whose
	 * number it knows, else it would bring back the mappings of the program before. */
	__u32 exec_seq;
	__u64 start[PROF_MAX_MAPPINGS];
	struct prof_mapping mapping[PROF_MAX_MAPPINGS];
	struct prof_runtime runtime;
	struct prof_goroutine_place goroutine;
	struct prof_managed managed;
};

/* Executable segments of one file that are published to the kernel side. */
#define PROF_MAX_SEGMENTS 4

/* A file as the kernel's own mappings name it. Zero twice: the vDSO. */
struct prof_file_key {
	__u64 inode;
	__u32 device; /* as the kernel has it: major number << 20 | minor number */
	__u32 pad;
};

/* An executable segment: the file from `file_offset` up to `file_end` lies at `address`. */
struct prof_segment {
	__u64 file_offset;
	__u64 file_end;
	__u64 address;
};

/* What is known of a file, so that a mapping of it needs no word from user space. */
struct prof_file {
	__u32 image;
	__u32 segment_count;	   /* 0: generated code, which has no bias */
	__u32 has_fixed_addresses; /* it is linked for those that its segments say */
	__u32 pad;
	/* Of a file that was rewritten in place since, at least one is another. Not of the vDSO. */
	__u64 size_bytes;
	__u64 modified_ns; /* since 1970, modulo 2^64 */
	struct prof_segment segment[PROF_MAX_SEGMENTS];
};

/* ---- Samples ------------------------------------------------------------------------------- */

/* User frames of one sample. A deeper stack keeps its leaf end in the first half, and in the second
 * half the frames next to its root: a ring, whose oldest frame comes after the newest one. */
#define PROF_MAX_USER_FRAMES 1024
#define PROF_LEAF_FRAMES (PROF_MAX_USER_FRAMES / 2)

/* Rings for samples; CPU n writes to ring n modulo this. */
#define PROF_SAMPLE_RINGS 8
/* Frames after which a walk ends without its root, at the most (max_walked_frames may say less). */
#define PROF_MAX_WALKED_FRAMES 16384
/* Steps of one walk to a stack at lower addresses. */
#define PROF_MAX_JUMPS_DOWN 64
/* From the place of rbp in libgcc's description of a frame to that of the CFA: struct
 * _Unwind_Context of GCC's libgcc/unwind-dw2.c. */
#define PROF_SAVED_RBP_BYTES 0x60
/* No piece of a stack is smaller. */
#define PROF_STACK_PIECE_BYTES 4096
#define PROF_MAX_KERNEL_FRAMES 127
#define PROF_COMM_BYTES 16

/* How the kernel's walk of a user stack ended. */
enum prof_outcome {
	PROF_OUTCOME_UNSET = 0,
	PROF_OUTCOME_COMPLETE = 1,
	PROF_OUTCOME_NO_USER_STACK = 2,
	PROF_OUTCOME_JIT_END = 3,
	PROF_OUTCOME_NO_UNWIND_INFO = 4,
	PROF_OUTCOME_TABLE_NOT_LOADED = 5,
	PROF_OUTCOME_UNSUPPORTED_RULE = 6,
	PROF_OUTCOME_UNKNOWN_MAPPING = 7,
	PROF_OUTCOME_STACK_UNREADABLE = 8,
	PROF_OUTCOME_BAD_UNWIND_INFO = 9,
	PROF_OUTCOME_TOO_DEEP = 10,
	PROF_OUTCOME_COMPAT32 = 12,
	PROF_OUTCOME_FILE_UNREADABLE = 13,
};

enum prof_sample_flags {
	PROF_SAMPLE_RESCUE = 1 << 0, /* a struct prof_rescue with the same time and CPU exists */
	PROF_SAMPLE_KERNEL_MODE = 1 << 1,    /* the CPU was in the kernel */
	PROF_SAMPLE_RESCUE_REFUSED = 1 << 2, /* a rescue was wanted, and capped or did not fit */
};

/* Marks in the unused high bits of a user frame's address. */
#define PROF_FRAME_RETURN (1ULL << 63)	/* a return address: the call is before it */
#define PROF_FRAME_BY_FP (1ULL << 62)	/* found by frame pointers */
#define PROF_FRAME_MANAGED (1ULL << 60) /* a struct prof_managed_frame says more of it */
#define PROF_FRAME_ADDRESS ((1ULL << 56) - 1)

/*
 * One sample, followed by `kernel_count` and then `user_count` addresses of 8 bytes, leaf first,
 * by `managed_count` structs prof_managed_frame and by `runtime_count` structs prof_runtime_frame,
 * leaf first too, and by a struct prof_goroutine with PROF_RUNTIME_HAS_GOROUTINE. With `left_out`
 * frames left out of the middle, the last PROF_LEAF_FRAMES addresses are a ring, which begins at
 * index `left_out` modulo its length; so are the structs prof_managed_frame with
 * `managed_left_out`. A struct prof_managed_frame counts if its frame is marked PROF_FRAME_MANAGED;
 * of several of one frame, the last.
 */
struct prof_sample {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 tgid;
	__u32 tid;
	__u32 cpu;
	__u16 kernel_count;
	__u16 user_count;
	__u8 outcome; /* enum prof_outcome */
	__u8 flags;   /* enum prof_sample_flags */
	__u8 comm[PROF_COMM_BYTES];
	__u8 event;		/* which counter it is of, from 1; 0: a running thread, or a wait */
	__u8 runtime_flags;	/* enum prof_runtime_flags */
	__u16 left_out;		/* user frames that are not in the sample */
	__u16 runtime_count;	/* frames of an interpreter */
	__u64 weight;		/* of a counter: how often it has counted since its last sample */
	__u16 managed_count;	/* frames of managed code of which the runtime knows more */
	__u16 managed_left_out; /* of these, not in the sample */
	__u8 memory;		/* enum prof_memory */
	__u8 pad;
	__u16 call; /* number of a system call, plus 1; 0: none, or of another table */
};

/* The memory that a page fault was in, as /proc/PID/maps has it. */
enum prof_memory {
	PROF_MEMORY_UNKNOWN = 0,   /* no page fault, or it could not be looked at */
	PROF_MEMORY_HEAP = 1,	   /* what brk(2) has given */
	PROF_MEMORY_STACK = 2,	   /* the first thread's, or the one that the thread is on */
	PROF_MEMORY_FILE = 3,	   /* of a file, or shared */
	PROF_MEMORY_ANONYMOUS = 4, /* any other */
};

/* Sizes of stack copies. The smallest that the stack is known to end within is taken; the two large
 * ones only where a table is missing. */
#define PROF_SMALL_RESCUE_BYTES 16384
#define PROF_RESCUE_BYTES 65536
#define PROF_LARGE_RESCUE_BYTES 262144
#define PROF_LARGEST_RESCUE_BYTES 786432 /* rustc has a frame of 540,080 */
/* Copies start this far below rsp: leaf functions may keep data there (x86-64 psABI, red zone). */
#define PROF_RED_ZONE_BYTES 128
#ifdef __TARGET_ARCH_arm64
#define PROF_REGISTERS 33 /* DWARF numbers 0..31, then pc */
#else
#define PROF_REGISTERS 17 /* DWARF numbers 0..15, then rip */
#endif

/*
 * The state of a walk that the kernel could not finish, and the stack above it. It starts again at
 * the leaf, whose registers are all known, unless the walk has come so far that the copy would not
 * reach much further.
 */
struct prof_rescue {
	__u64 time_ns; /* as in the sample it belongs to */
	__u32 cpu;
	__u32 tgid;
	__u32 stack_bytes;   /* bytes of `stack` up to the last that could be read */
	__u16 frames_before; /* user frames of the sample that are below the registers' frame */
	__u8 all_registers;  /* else only rip, rsp and rbp are known */
	__u8 is_return;	     /* rip is a return address */
	/* Bit n: block n of 4096 bytes, counted from the one that `stack` starts in, could not be
	 * read: a page of a large frame that was never touched does not exist. */
	__u64 missing_blocks[4];
	__u64 regs[PROF_REGISTERS]; /* of the leaf, or of the frame where the walk stopped */
	__u8 stack[PROF_LARGEST_RESCUE_BYTES]; /* or less; from rsp - PROF_RED_ZONE_BYTES upwards */
};

/* Bytes of stack in a copy of every sample: rustc has a frame of 540,080. */
#define PROF_STACK_COPY_BYTES 786432

/*
 * The registers of a sample's leaf and the stack above them, sent with every sample when asked to,
 * for a second walk by another unwinder.
 */
struct prof_stack_copy {
	__u64 time_ns; /* as in the sample it belongs to */
	__u32 cpu;
	__u32 stack_bytes;	 /* bytes of `stack` up to the last that could be read */
	__u64 start;		 /* process address of the first: rsp - PROF_RED_ZONE_BYTES */
	__u64 is_return;	 /* rip is after a system call instruction */
	__u64 missing_blocks[4]; /* as in struct prof_rescue */
	__u64 regs[PROF_REGISTERS];
	__u8 stack[PROF_STACK_COPY_BYTES];
};

/* ---- Waits ---------------------------------------------------------------------------------- */

/* Why a thread did not run; src/profile/wait.rs. */
enum prof_reason {
	PROF_REASON_OTHER = 0,
	PROF_REASON_LOCK = 1,
	PROF_REASON_DISK = 2,
	PROF_REASON_NETWORK = 3,
	PROF_REASON_PIPE = 4,
	PROF_REASON_POLL = 5,
	PROF_REASON_SLEEP = 6,
	PROF_REASON_FAULT = 7,
	PROF_REASON_CHILD = 8,
	PROF_REASON_NO_CPU = 9,
	PROF_REASON_STOPPED = 10,
	PROF_REASONS = 11,
	/* Of a system call: what its first argument, a descriptor, is of. */
	PROF_REASON_BY_FILE = 32,
	/* Of one that waits for events of as many files as its first or second argument says. */
	PROF_REASON_BY_FIRST_COUNT = 33,
	PROF_REASON_BY_SECOND_COUNT = 34,
};

/* Who ended a wait; src/profile/wait.rs. */
enum prof_waker {
	PROF_WAKER_NONE = 0,
	PROF_WAKER_THREAD = 1,
	PROF_WAKER_SOFTIRQ = 2,
	PROF_WAKER_INTERRUPT = 3,
};

/* What a record of the ring of waits is. */
enum prof_wait_kind {
	PROF_WAIT_ENDED = 1, /* the thread runs again */
	PROF_WAIT_OPEN = 2,  /* it still waited when the recording ended */
	PROF_WAIT_WAKER = 3, /* the sample is of the thread that ended another's wait */
	PROF_WAIT_STACK = 4, /* it begins at start_ns; PROF_WAIT_ENDED will follow without frames */
	PROF_WAIT_STILL = 5, /* it goes on while the recording does; another record will follow */
};

/* Values of prof_wait.futex that are no command: no futex, and several at once (futex_waitv). */
#define PROF_FUTEX_NONE 0xff
#define PROF_FUTEX_VECTOR 0x7f
/* The flag of commands on futexes that no other process shares. */
#define PROF_FUTEX_PRIVATE 0x80

/*
 * A wait, followed by a struct prof_sample of the thread and its frames. Of PROF_WAIT_WAKER only
 * other_tid, the thread that was woken, the waker's kind and wake_ns count; of PROF_WAIT_STACK
 * start_ns.
 */
struct prof_wait {
	__u32 kind;	 /* enum prof_wait_kind */
	__u32 other_tid; /* who ended the wait */
	__u32 other_tgid;
	__u8 waker;  /* enum prof_waker */
	__u8 reason; /* enum prof_reason of the blocked part */
	__u8 futex;  /* how it waited in a futex: command and flags as in <linux/futex.h>, or
		      * PROF_FUTEX_NONE, PROF_FUTEX_VECTOR */
	__u8 pad;
	__u64 start_ns; /* CLOCK_MONOTONIC, as the others */
	__u64 wake_ns;	/* end of the blocked part; start_ns if there was none */
	__u64 end_ns;
	/* The weight of each part, ns: its length, or more when others were left out for it; 0
	 * when it was left out itself. */
	__u64 blocked_weight;
	__u64 no_cpu_weight;
	/* The thread's account at end_ns, of PROF_WAIT_ENDED: where its time went so far, waits of
	 * which nothing is sent included. */
	__u64 on_cpu_ns;
	__u64 no_cpu_ns;
	__u64 blocked_ns;
	__u8 other_comm[PROF_COMM_BYTES];
	__u64 lock; /* process address of the futex, of the first with PROF_FUTEX_VECTOR; 0: not
		       known */
};

/* What has happened to a sampled block of memory. */
enum prof_block_kind {
	PROF_BLOCK_ALLOCATED = 1,
	PROF_BLOCK_FREED = 2, /* of the block only its address counts; the sample has no frames */
};

/* A sampled block of an allocator, followed by a struct prof_sample of the thread and its frames.
 */
struct prof_block {
	__u64 address; /* process address */
	__u64 size;    /* bytes that were asked for */
	__u64 mean;    /* bytes between sampled ones when it was sampled; 0: its weight is known */
	__u64 weight;  /* bytes that it stands for, if the mean is not known */
	__u32 kind;    /* enum prof_block_kind */
	__u32 pad;
};

/* Waits that are not over are sent from this length on: shorter ones may be left out when they
 * end, at random. */
#define PROF_OPEN_LEAST_NS 100000000ULL

/* Waits that are too short to be sent, of one reason. */
struct prof_short_waits {
	__u64 count;
	__u64 time_ns;
};

/* A thread's time, when it or the recording ends. */
struct prof_thread_time {
	__u32 tgid;
	__u32 tid;
	__u32 has_ended;
	__u32 pad;
	__u64 from_ns;
	__u64 to_ns;
	__u64 on_cpu_ns;
	__u64 no_cpu_ns;
	__u64 blocked_ns;
	__u64 switches;
	__u8 comm[PROF_COMM_BYTES];
	struct prof_short_waits short_waits[PROF_REASONS];
};

/* What a thread does that is looked at. */
enum prof_does {
	PROF_DOES_RUN = 1,
	PROF_DOES_WAIT = 2,
	PROF_DOES_WANT_CPU = 3,
};

/* A thread of a recording that is watched: its account so far, and its wait that is not over, whose
 * stack is sent once, when there is room for it. */
struct prof_watched {
	/* Up to now, with the wait that is not over. */
	struct prof_thread_time time;
	__u64 open_ns; /* when the wait began, CLOCK_MONOTONIC; 0: there is none, or it is old and
			  left out when it ends */
	__u64 wake_ns; /* end of the blocked part; 0 if that goes on */
	__u32 factor;  /* it is weighted as this many */
	__u8 does;     /* enum prof_does */
	__u8 reason;   /* enum prof_reason of the blocked part */
	__u8 is_new;   /* the wait is younger than PROF_OPEN_LEAST_NS: its stack is not sent yet */
	__u8 pad;
};

/* When the recording of waits begins and ends, CLOCK_MONOTONIC, ns. Written by user space. */
struct prof_span {
	__u64 start_ns;	  /* 0: not yet */
	__u64 stop_ns;	  /* 0: not yet */
	__u64 is_open;	  /* threads are given accounts from now on */
	__u64 has_missed; /* set when a thread that is recorded turns up without one */
	__u64 open_room;  /* this many waits that are not over may still send their stack */
};

/* The PID namespace that prof runs in, if it is not the initial one. Written by the kernel side. */
struct prof_namespace {
	__u64 address; /* in the kernel */
	__u64 time_ns; /* when it was found, CLOCK_MONOTONIC of the initial time namespace */
	__u32 level;   /* how far below the initial one */
	__u32 number;  /* of the thread that asked, in it */
};

/* ---- Counters ------------------------------------------------------------------------------ */

/* Per-CPU counters: hit = filtered + idle + sent + ring_full + counts_full. */
enum prof_counter {
	PROF_COUNT_HIT = 0,	      /* sampling interrupts */
	PROF_COUNT_FILTERED = 1,      /* not the target */
	PROF_COUNT_IDLE = 2,	      /* the idle task */
	PROF_COUNT_SENT = 3,	      /* sent to user space */
	PROF_COUNT_RING_FULL = 4,     /* lost: the ring buffer was full */
	PROF_COUNT_RESCUE_SENT = 5,   /* stack copies sent */
	PROF_COUNT_RESCUE_FULL = 6,   /* stack copies that did not fit into their ring */
	PROF_COUNT_RESCUE_CAPPED = 7, /* stack copies refused by the rate cap */
	PROF_COUNT_TIMED_RUNS = 8,    /* runs whose time was taken (one in PROF_TIMED_EVERY) */
	PROF_COUNT_TIMED_NS = 9,      /* their time */
	PROF_COUNT_FORK_FAILED = 10,  /* mappings that could not be handed to a forked child */
	PROF_COUNT_EXEC_FAILED =
		11,		   /* exec calls after which old mappings had to be dropped whole */
	PROF_COUNT_COPY_FULL = 12, /* copies of every stack that did not fit into their ring */
	PROF_COUNT_EXEC_MAPPED = 13,   /* mappings that the kernel side found by itself at exec */
	PROF_COUNT_FOUND_MAPPING = 14, /* mappings that a walk found in the kernel's own list */
	PROF_COUNT_ENTRY_REUSED = 15,  /* walks cut since the entry they used was replaced */
	PROF_COUNT_WAIT_SENT = 16,     /* waits sent */
	PROF_COUNT_WAIT_THINNED = 17,  /* waits left out to keep to the cost */
	PROF_COUNT_WAIT_FULL = 18,     /* waits that did not fit into their ring */
	PROF_COUNT_WAIT_FULL_NS = 19,  /* what they stood for, ns */
	PROF_COUNT_WAKER_SENT = 20,    /* stacks of wakers sent */
	PROF_COUNT_WAIT_NS = 21,     /* time that the programs took for waits that were sent, ns */
	PROF_COUNT_NO_STATE = 22,    /* threads without an account, or with one that began late */
	PROF_COUNT_THREAD_FULL = 23, /* times of threads that did not fit into their ring */
	PROF_COUNT_SWITCH_MISSED = 24, /* switches that the kernel did not report */
	PROF_COUNT_SWITCH = 25,	       /* switches and wakings seen while waits were recorded */
	PROF_COUNT_SWITCH_TIMED =
		26,		   /* those whose time was taken (one in PROF_SWITCH_TIMED_EVERY) */
	PROF_COUNT_SWITCH_NS = 27, /* their time, without the stacks of waits that were sent */
	PROF_COUNT_ACCOUNT = 28,   /* accounts of threads' times begun */
	PROF_COUNT_ACCOUNT_SENT = 29,	 /* and sent: one for each, in the end */
	PROF_COUNT_SWITCH_NO_STATE = 30, /* switches of threads that are recorded without one */
	PROF_COUNT_NUMBERLESS = 31,	 /* filtered: past their end, in a PID namespace */
	PROF_COUNT_COUNTS_FULL = 32,	 /* as ring_full, of counters that are no clock */
	PROF_COUNT_PROBE_NS = 33,	 /* time that hits of probes took that were kept, ns */
	PROF_COUNT_BLOCKS_FULL = 34,	 /* as ring_full, of sampled blocks */
	PROF_COUNT_FREES_FULL = 35,	 /* ends of such blocks that did not fit into their ring */
	PROF_COUNT_MAX = 36,
};

struct prof_counters {
	__u64 value[PROF_COUNT_MAX];
};

/* As PROF_TIMED_EVERY, of the programs of waits. */
#define PROF_SWITCH_TIMED_EVERY 64

/* One run in this many is timed: a clock read costs as much as two frames. */
#define PROF_TIMED_EVERY 8

/* Whose samples are kept. */
enum prof_filter {
	PROF_FILTER_NONE = 0,	 /* every process */
	PROF_FILTER_PROCESS = 1, /* processes that have an entry in `processes` */
	PROF_FILTER_THREAD = 2,	 /* threads that have an entry in `threads` */
};

#endif /* PROF_H */
