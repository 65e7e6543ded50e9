/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The working memory of a walk. */
#ifndef PROF_SCRATCH_BPF_H
#define PROF_SCRATCH_BPF_H

#define WINDOW_BYTES 2048
/* A page of which less is left is read together with the next. */
#define LEAST_READ_BYTES 256
/* Words of the frames of a sample, of all three kinds, and of its goroutine: at least
 * PROF_MAX_KERNEL_FRAMES, PROF_MAX_USER_FRAMES, two for each of PROF_MAX_RUNTIME_FRAMES and three.
 * The kernel has no more than 32 KiB for a value of each CPU. */
#define FRAME_WORDS 3200

/*
 * Where a program runs, which decides what it may call (docs/architecture.md, "What may be called
 * where"). A constant at every call: what is not allowed is not even part of the program.
 */
enum place {
	PLACE_TICK,   /* in the sampling interrupt, which may come at any time */
	PLACE_SWITCH, /* under the scheduler's locks */
	PLACE_FREE,   /* where none of these is held */
};

/* Where the walk of Perl's stacks is. In memory that the verifier knows nothing of: were it on the
 * stack of the program, each value would be followed apart, and 6.18 takes values of the first
 * block for those of all. */
struct perl_walk {
	__u64 outermost;   /* block of the stack that is followed */
	__u64 outer;	   /* the stack around that */
	__u64 statement;   /* that the next frame is at */
	__u64 unbegun;	   /* sub of the last frame, if it may be at no statement yet */
	__u32 is_sort;	   /* the stack is for the comparisons of a sort */
	__u32 is_doubtful; /* the last frame may not have been entered from C */
};

/* What names a code object of Perl. Not on the stack: Linux 6.1 has 512 bytes for a program and all
 * that it calls. */
struct perl_names {
	__u64 name;    /* key of the sub, or of the file as a symbol */
	__u64 package; /* key */
	__u64 file;    /* text */
	__u64 start;   /* the first op */
	__u64 root;
	__u64 stash;
	__u32 flags;
};

/* Working memory of one walk. Kept in a map since the BPF stack has 512 bytes. */
struct scratch {
	__u64 regs[PROF_REGISTERS + 1]; /* by DWARF number, then the program counter */
	/* The module that the last address was in. */
	__u64 map_start;
	__u64 map_bytes; /* 0: none */
	__u64 map_bias;
	struct prof_image image;
	__u64 window_start; /* process address of window[0] */
	__u64 window_words; /* offsets into the window at which 8 bytes can be read */
	__u64 by_fp;	    /* PROF_FRAME_BY_FP when the current frame was found that way */
	/* Of walk/uprobe.bpf.h: address of the trampoline, and kernel address of the thread's list.
	 */
	__u64 trampoline;
	__u64 return_instances;
	__u64 is_return;     /* 1 when the current address is a return address */
	__u32 all_registers; /* whether all registers are known, or just rip, rsp and rbp */
	__u32 in_exec;	     /* the thread is in execve */
	__u32 kernel_count;  /* kernel frames, which come first */
	__u32 walked;	     /* user frames so far, those that are left out included */
	__u32 outcome;
	__u32 jumps_down; /* steps that led to a stack at lower addresses */
	__u64 leaf_sp;	  /* the stack pointer of the registers that were taken */
	__u64 piece_low;  /* lowest address that the walk has seen of the current stack */
	__u32 runs;
	__u32 is_sp_hidden; /* the stack pointer is at or above regs[REG_SP], no more is known */
	__u32 has_asked;    /* the kernel's list of mappings answers once in an interrupt */
	__u32 is_urgent;    /* the reader has to look at once */
	__u32 sends_codes;  /* the program sends descriptions of new code objects */
	__u32 new_codes;    /* code objects of the sample that were not seen before */
	__u64 new_code[PROF_NEW_CODES];
	__u32 new_check[PROF_NEW_CODES];
	__u32 managed;	     /* frames of managed code that were noted, those left out included */
	__u32 managed_at;    /* `walked` when one was last looked at */
	__u64 managed_bp;    /* its frame pointer */
	__u32 java_is_loose; /* the frame before was a stub, which may have been called anywhere */
	__u32 java_at;	     /* `walked` at the last frame of a Java machine's code */
	__u64 java_blob;     /* address of the code whose head is below */
	__u8 java_code[32];  /* instructions around one that was interrupted */
	__u8 java_head[PROF_JAVA_HEAD_BYTES + 8];
	__u32 has_kept;	     /* regs hold the registers of the last frame that all were known of */
	__u64 rescue_second; /* the second (of the monotonic clock) that rescue_bytes counts */
	__u64 rescue_bytes;
	__u8 window[WINDOW_BYTES + PROF_RUNTIME_FRAME_BYTES + 8];
	__u8 code[PROF_RUNTIME_CODE_BYTES + 8]; /* the code object that is looked at */
	__u64 content[16]; /* PROF_CHECK_BYTES: what one of its pointers leads to */
	struct perl_walk perl;
	struct perl_names perl_names;
	struct prof_goroutine goroutine;
	union {
		struct prof_wait wait; /* of a wait: the record begins here */
		struct {
			__u8 before_block[sizeof(struct prof_wait) - sizeof(struct prof_block)];
			struct prof_block block; /* the same of a sampled block */
		};
	};
	struct prof_sample sample;
	__u64 frames[FRAME_WORDS];
};

/* `value`, masked below `limit`, a power of two, even where the compiler knows that the mask
 * changes nothing: the verifier of Linux 6.1 knows no bounds of what an `or` of 32 bits gives. */
static __always_inline __u32 bounded(__u32 value, __u32 limit)
{
	barrier_var(value);
	return value & (limit - 1);
}

/* User frames of the walk that are sent. */
static __always_inline __u32 kept_frames(struct scratch *s)
{
	return s->walked < PROF_MAX_USER_FRAMES ? s->walked : PROF_MAX_USER_FRAMES;
}

/* Where the user frame number `n` of a walk is kept, among these: at its place in the leaf half, or
 * over the oldest one of the ring. */
static __always_inline __u32 frame_slot(__u32 n)
{
	return (n & (PROF_LEAF_FRAMES - 1)) + (n < PROF_LEAF_FRAMES ? 0 : PROF_LEAF_FRAMES);
}

#endif /* PROF_SCRATCH_BPF_H */
