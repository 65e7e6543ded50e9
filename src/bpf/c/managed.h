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
	PROF_MANAGED_V8 = 1,   /* JavaScript */
	PROF_MANAGED_JAVA = 2, /* HotSpot */
	/* HotSpot, of whose frames only user space knows how they are left. */
	PROF_MANAGED_JAVA_RESCUED = 3,
};

/* Where V8 keeps what tells a function from others. Its pointers to objects have 1 in the lowest
 * two bits; offsets in objects count from the object, whose address is that without them. */
struct prof_v8 {
	__u64 code_start; /* of V8's own generated code in the program, process address */
	__u64 code_bytes;
	__u64 number_mask;  /* bits of the number that count */
	__s16 context_off;  /* from the frame pointer: the context, a pointer in JavaScript's frames
			     */
	__s16 function_off; /* from the frame pointer: the function */
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
/* Mark of a function that was not looked at with this sample, but a moment before. (1 is a mark of
 * user space's own.) */
#define PROF_V8_FROM_MEMORY 2ULL
/* Position of a frame that has none. */
#define PROF_MANAGED_NO_POSITION 0xffffffff

/* What a piece of a Java machine's code is. The numbers are those of src/runtimes/java. */
enum prof_java_kind {
	PROF_JAVA_COMPILED = 1,
	PROF_JAVA_NATIVE = 2, /* calls a function in C */
	PROF_JAVA_INTERPRETER = 3,
	PROF_JAVA_STUBS = 4, /* a frame by the frame pointer, or none */
	PROF_JAVA_VTABLE = 5,
	PROF_JAVA_ADAPTER = 6,
	PROF_JAVA_METHOD_HANDLES = 7,
	PROF_JAVA_RUNTIME = 8, /* a frame of a size that is known */
};

#define PROF_JAVA_HEAPS 4
#define PROF_JAVA_KINDS 8
/* So much of the head of a block of code is read at the most. */
#define PROF_JAVA_HEAD_BYTES 512

/* Memory for generated code. */
struct prof_java_heap {
	__u64 start; /* process address */
	__u64 bytes;
	__u64 segment_map; /* process address; a byte for each segment */
};

/* A number in the head of a block, with its sign. One of 64 bits is an address, if it is a place;
 * a shorter one counts from the blob on. */
struct prof_java_field {
	__u16 offset; /* from the start of the block */
	__u8 bits;
	__u8 pad;
};

/* Where a Java machine has its code, and how that is described there. */
struct prof_java {
	struct prof_java_heap heap[PROF_JAVA_HEAPS];
	__u64 interpreter; /* process address */
	__u64 interpreter_bytes;
	__u64 call_stub_return;		  /* where all calls from C return to */
	__u64 kind_name[PROF_JAVA_KINDS]; /* addresses of the names that tell kinds */
	__u8 kind[PROF_JAVA_KINDS];
	struct prof_java_field name;
	struct prof_java_field size;	       /* of the blob, bytes */
	struct prof_java_field frame_size;     /* words */
	struct prof_java_field frame_complete; /* from the start of the instructions on */
	struct prof_java_field code_begin;
	struct prof_java_field compile_id;
	struct prof_java_field original_pc; /* from the stack pointer on */
	struct prof_java_field deopt[2]; /* return addresses of frames that will be deoptimised */
	__u16 head_bytes;
	__u16 least_bytes;
	__u16 block_header;
	__u16 bytecode_below;	/* bytes below the frame pointer of an interpreted frame */
	__u16 const_method_off; /* in a method */
	__u8 segment_shift;
	__u8 pad[1];
};

/* The runtime of a process whose functions are in managed code. */
struct prof_managed {
	__u8 kind; /* enum prof_managed_kind */
	__u8 pad[7];
	struct prof_v8 v8;
	struct prof_java java;
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
