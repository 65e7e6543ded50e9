/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Part of the contract of prof.h: managed code, that is functions whose frames stand on the native
 * stack, but whose code a runtime has generated or interprets. The walker notes what the runtime
 * knows of such a frame beside the address of the frame.
 */
#ifndef PROF_MANAGED_H
#define PROF_MANAGED_H

/* Whose functions they are. */
enum prof_managed_kind {
	PROF_MANAGED_NONE = 0,
	PROF_MANAGED_V8 = 1, /* JavaScript */
};

/* Where V8 keeps what tells a function from others. Its pointers to objects have 1 in the lowest
 * two bits; offsets in objects count from the object, whose address is that without them. */
struct prof_v8 {
	__u64 code_start; /* of V8's own generated code in the program, process address */
	__u64 code_bytes;
	__u64 number_mask; /* bits of the number that count */
	__s16 context_off; /* from the frame pointer: the context, a pointer in JavaScript's frames */
	__s16 function_off;	   /* from the frame pointer: the function */
	__s16 bytecode_offset_off; /* from the frame pointer: where an interpreted function is */
	__u16 shared_off;	   /* in a function: what closures of the same text share */
	__u16 identity_off;	   /* in that: from here on these bytes hold script and number */
	__u8 identity_bytes;	   /* at most PROF_V8_IDENTITY_BYTES */
	__u8 script_word;	   /* in these: byte offset of the script */
	__u8 number_word;	   /* in these: byte offset of the number */
	__u8 pad[3];
};

#define PROF_V8_IDENTITY_BYTES 64
/* Factor of the check, of which the upper half counts, and the turn of the script in it. */
#define PROF_V8_CHECK_FACTOR 0x9e3779b97f4a7c15
#define PROF_V8_SCRIPT_TURN 24
/* Position of a frame that has none. */
#define PROF_MANAGED_NO_POSITION 0xffffffff

/* The runtime of a process whose functions are in managed code. */
struct prof_managed {
	__u8 kind; /* enum prof_managed_kind */
	__u8 pad[7];
	struct prof_v8 v8;
};

/* What the runtime knows of a native frame: two words. */
struct prof_managed_frame {
	__u64 code;	/* address of the runtime's description of the function, with marks */
	__u32 position; /* where in the function; what it counts, the runtime decides */
	__u32 check;	/* tells the function from others that may be described at that address */
};

/* Marks in the high bits of `code`: which of the native frames of the sample it is, as they are
 * stored, and a few bits whose meaning the runtime decides. */
#define PROF_MANAGED_ADDRESS ((1ULL << 48) - 1)
#define PROF_MANAGED_FRAME_SHIFT 48
#define PROF_MANAGED_FRAME_BITS 10
#define PROF_MANAGED_MARK_SHIFT 58

#endif /* PROF_MANAGED_H */
