/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Part of the contract of prof.h: where the interpreter of a language keeps the frames of its
 * functions. User space writes it, the kernel side follows it.
 */
#ifndef PROF_RUNTIME_H
#define PROF_RUNTIME_H

/* Interpreter frames of one sample, leaf first; those further from the leaf are left out. */
#define PROF_MAX_RUNTIME_FRAMES 1024

/* Whose frames they are. */
enum prof_runtime_kind {
	PROF_RUNTIME_NONE = 0,
	PROF_RUNTIME_PYTHON = 1, /* CPython */
	PROF_RUNTIME_RUBY = 2,	 /* MRI */
	PROF_RUNTIME_PHP = 4,
	PROF_RUNTIME_PERL = 3,
	/* There is one, which has not begun yet, or has not been looked at. */
	PROF_RUNTIME_PENDING = 255,
};

/* How the state that the runtime keeps of each thread is found. */
enum prof_locator {
	PROF_LOCATOR_NONE = 0,
	PROF_LOCATOR_THREAD = 1,  /* *(thread pointer + locator_off) */
	PROF_LOCATOR_MODULE = 2,  /* *(block of module locator_module in the thread's DTV +
				   * locator_off) */
	PROF_LOCATOR_PROCESS = 3, /* *(locator_off), of the first thread: no other has one */
};

/* More than a byte says: no frame is one of those. */
#define PROF_NO_FRAME 256

/* No offset within a structure. */
#define PROF_NO_OFFSET 0xffff
/* Offsets in a frame are below this. */
#define PROF_RUNTIME_FRAME_BYTES 128
/* Offsets in a code object are below this. */
#define PROF_RUNTIME_CODE_BYTES 256

/* Where the list begins while the interpreter's loop sets itself up, and the state of its thread
 * points to nothing yet. */
enum prof_list_place {
	PROF_LIST_LOST = 0,	   /* nowhere that is known */
	PROF_LIST_INNER_OF = 1,	   /* register `reg` points to the structure that says it */
	PROF_LIST_IN = 2,	   /* register `reg` points to the frame */
	PROF_LIST_INNER_OF_AT = 3, /* as 1, by the word `offset` above the stack pointer */
	PROF_LIST_AT = 4,	   /* as 2, by that word */
};

/* Instructions of the loop that are about to run. */
struct prof_loop_setup {
	__u64 start; /* process address */
	__u32 bytes;
	__u8 place; /* enum prof_list_place */
	__u8 reg;   /* DWARF number */
	__u16 offset;
};

#define PROF_LOOP_SETUPS 3

/* CPython: frames in a list that begins in the state of a thread. Offsets are in bytes. */
struct prof_python {
	__u8 is_position_pointer; /* else a number of 32 bits */
	__u8 are_frames_adjacent; /* a caller's frame mostly lies a little below its callee's */
	__u8 frame_bytes;	  /* of a frame that are read, below PROF_RUNTIME_FRAME_BYTES */
	__u8 code_bytes;	  /* of a code object that are read */
	__u8 object_header;	  /* in what a code object leads to: where its length is */
	/* Words from there to the text of a name or file, and to the bytes of the lines. */
	__u8 text_word;
	__u8 lines_word;
	__u8 reserved;
	/* Frames that C code has entered: each belongs to an interpreter loop of its own. They are
	 * those whose byte at entry_off is entry_least or more: 0 are all. One whose byte is
	 * shim_least or more is no frame, and stands before (nearer to the root than) each that was
	 * entered from C. */
	__u16 entry_off;
	__u16 entry_least;
	__u16 shim_least;
	__u16 list_off;	      /* in the state: where the list begins, or a structure that says so */
	__u16 list_inner_off; /* in that structure; PROF_NO_OFFSET: there is none */
	__u16 code_off;	      /* in a frame: its code object */
	__u16 previous_off;   /* in a frame: its caller's frame; 0 ends the list */
	__u16 position_off;   /* in a frame: where in the code it is */
	__u16 code_type_off;  /* in a code object: a word that is code_type in all of them */
	/* In a code object: pointers, and one number of 32 bits, that tell it from others. What the
	 * pointers lead to counts, too: memory that is freed is soon used for the same again. */
	__u16 code_word_off[3];
	__u16 code_number_off;
	__u16 reserved_too[3];
	__u64 code_type;
	/* Neighbours, by address; the first has length 0 where there are none. */
	struct prof_loop_setup setup[PROF_LOOP_SETUPS];
};

/* Ruby: frames side by side in the stack of a thread's execution context. */
struct prof_ruby {
	__u64 names; /* address of the word that leads to the names of methods; 0: not known */
	/* In a thread's state: its execution context; PROF_NO_OFFSET: the state is that. */
	__u16 context_off;
	__u16 line_table_off; /* in the body of instructions */
	__u8 frame_bytes;     /* of a frame */
	__u8 has_length_word; /* a short string has a word with its length; else, flags */
	__u16 reserved;
};

/* Kinds of functions of PHP, their first byte. */
#define PROF_PHP_INTERNAL 1
#define PROF_PHP_USER 2
#define PROF_PHP_EVALUATED 4
/* Marks of a frame: it runs code outside all functions; it was called from C. */
#define PROF_PHP_CALL_CODE (1U << 16)
#define PROF_PHP_CALL_TOP (1U << 17)
/* Mark of a function, 4 bytes after its kind: it is in memory that all requests share, and stays.
 */
#define PROF_PHP_IMMUTABLE (1U << 7)

/* Which functions of the program stay where they are: they need not be looked at each time. */
enum prof_php_kept {
	PROF_PHP_NONE_KEPT = 0,	     /* a request ends, and the next one uses their memory */
	PROF_PHP_IMMUTABLE_KEPT = 1, /* those with the mark */
	PROF_PHP_ALL_KEPT = 2,	     /* all with a name: there are no requests */
};

/* A code object of PHP: the address of a function, bits of a hash of where its name, class and file
 * are and of its lines above, and a mark: code outside all functions that another frame has called.
 */
#define PROF_PHP_ADDRESS 0x0000fffffffffff8ULL
#define PROF_PHP_TAG_SHIFT 48
#define PROF_PHP_INCLUDED 1ULL
/* Position of the frame at which a fiber begins: those after it are on another stack. */
#define PROF_PHP_FIBER 0xffffffffU
/* Of a function that are read with each frame: offsets of its name and class are below. */
#define PROF_PHP_HEAD_BYTES 32
/* What is in there is no function of its own. */
#define PROF_PHP_GLOBALS_BYTES 4096
#define PROF_PHP_INSTRUCTION_BYTES 32
#define PROF_PHP_MOST_INSTRUCTIONS (1 << 20)

/* PHP. Offsets are in bytes. */
struct prof_php {
	__u64 globals;	     /* address of the executor's globals */
	__u64 loop_start;    /* address of the interpreter's loop */
	__u32 loop_bytes;    /* 0: not known */
	__u16 thrown_at_off; /* in the globals: the instruction that has thrown */
	/* In a frame: its instruction, its function, its marks, its caller's frame. */
	__u8 instruction_off;
	__u8 function_off;
	__u8 marks_off;
	__u8 previous_off;
	__u8 frame_bytes; /* of a frame that are read, below PROF_RUNTIME_FRAME_BYTES */
	/* In a function: its name, its class, its file, before its first and last line, and its
	 * first instruction; 0 if that is not known. */
	__u8 name_off;
	__u8 class_off;
	__u8 file_off;
	__u8 instructions_off;
	__u8 class_name_off;  /* in a class */
	__u8 line_off;	      /* in an instruction */
	__u8 text_length_off; /* in a string */
	__u8 kept;	      /* enum prof_php_kept */
	__u8 reserved[5];
};

/* Perl: frames among the blocks of stacks, each of which leads to the one around it. Offsets are in
 * bytes; src/runtimes/perl/layout.rs says more. */
struct prof_perl {
	/* Address of the pointer to the current statement, in builds without threads: the state is
	 * the innermost stack there. Else 0, and the next two are offsets in the state. */
	__u64 statement;
	__u16 stack_off;
	__u16 statement_off;
	__u8 blocks_off; /* in a stack: its first block, the stack around it, the last block's
			    number */
	__u8 outer_off;
	__u8 last_off;
	__u8 block_bytes;
	__u8 old_statement_off; /* in a block */
	__u8 return_off;
	__u8 sub_off;
	__u8 required_off;
	__u8 line_off; /* in a statement */
	__u8 file_off;
	__u8 sub_type; /* of a block: a format's and an eval's follow */
	__u8 block_type;
	__u8 defer_type;
	__u8 try_flag;
	__u8 is_file_glob;   /* names of files are symbols */
	__u8 is_stash_wide;  /* names of packages follow the bodies of their hashes */
	__u8 stack_type_off; /* in a stack: what it is for */
	__u8 reserved[3];
};

/* A runtime that keeps the frames of its functions in lists of its own. */
struct prof_runtime {
	__u8 kind;    /* enum prof_runtime_kind */
	__u8 locator; /* enum prof_locator */
	/* After the word at lock_holder is a number of 32 bits that is 0 while the lock is free. */
	__u8 is_lock_held_next;
	__u8 reserved;
	__u32 locator_module;
	__s64 locator_off;
	__u64 lock_holder; /* address of the state that holds the runtime's lock; 0: not known */
	struct prof_python python;
	struct prof_ruby ruby;
	struct prof_php php;
	struct prof_perl perl;
};

/* What is known of the thread of a sample. */
enum prof_runtime_flags {
	PROF_RUNTIME_HAS_STATE = 1 << 0,  /* the thread has a state: it is one of the runtime's */
	PROF_RUNTIME_CUT = 1 << 1,	  /* the list goes on, or could not be read further */
	PROF_RUNTIME_HAS_LOCK = 1 << 2,	  /* it holds the runtime's lock */
	PROF_RUNTIME_KNOWS_LOCK = 1 << 3, /* else it is known that it does not */
	PROF_RUNTIME_GOROUTINE_UNREAD = 1 << 6, /* it may have one: not readable */
	PROF_RUNTIME_HAS_GOROUTINE = 1 << 7,	/* it works for one, which the sample has */
};

/* An interpreter frame of a sample: two words. */
struct prof_runtime_frame {
	__u64 code;	/* address of the code object, with marks */
	__u32 position; /* bytes from the code object on, or the number in the frame */
	__u32 check;	/* of read_code_check; 0: it could not be read, or is no code object */
};

/* Marks in the unused high bits of `code`. */
#define PROF_RUNTIME_ENTRY (1ULL << 63)	  /* the frame was entered from C */
#define PROF_RUNTIME_CHECKED (1ULL << 62) /* `check` was read with this sample, not before it */
#define PROF_RUNTIME_ADDRESS ((1ULL << 56) - 1)

/* A code object that was not seen before, with the memory that its name takes: its process may be
 * gone before user space looks. Which part holds what, the language decides; those without an
 * address are unused, and bytes that could not be read are 0. */
#define PROF_NEW_CODES 16 /* of one sample */
#define PROF_CODE_OBJECTS 2
#define PROF_CODE_LINKS 4
#define PROF_CODE_LINK_BYTES 128
#define PROF_CODE_TEXTS 2
#define PROF_CODE_TEXT_BYTES 512
#define PROF_CODE_LINES_BYTES 1024
#define PROF_CODE_PARTS (PROF_CODE_OBJECTS + PROF_CODE_LINKS + PROF_CODE_TEXTS + 1)
struct prof_new_code {
	__u64 time_ns; /* of the sample */
	__u64 code;
	__u32 tgid;
	__u32 check;
	/* Where the parts below are in the process, in their order. */
	__u64 part[PROF_CODE_PARTS];
	__u8 object[PROF_CODE_OBJECTS][PROF_RUNTIME_CODE_BYTES];
	__u8 link[PROF_CODE_LINKS][PROF_CODE_LINK_BYTES];
	__u8 text[PROF_CODE_TEXTS][PROF_CODE_TEXT_BYTES];
	__u8 lines[PROF_CODE_LINES_BYTES];
};

/* So much of what the pointers of a code object lead to is read, from its length on, or less at the
 * end of a page; and so much of its text counts, if it is that long. */
#define PROF_CHECK_BYTES 96
#define PROF_CHECK_TEXT_WORDS 7
#define PROF_CHECK_PAGE_BYTES 4096

/* Factors of the check. */
#define PROF_CHECK_FIRST 0x9e3779b97f4a7c15
#define PROF_CHECK_SECOND 0xc2b2ae3d27d4eb4f
#define PROF_CHECK_THIRD 0xff51afd7ed558ccd
#define PROF_CHECK_NUMBER 0x165667b19e3779f9

/* A code object is checked with each sample until it was the same in so many of them, at different
 * milliseconds, and then this often, ms. Not by its age: a process that waits for a CPU grows old.
 */
#define PROF_CODE_CHECKS 64
#define PROF_CODE_CHECK_MS 100

#endif /* PROF_RUNTIME_H */
