/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Unwind tables as the BPF programs and user space see them; a part of prof.h, under its rules.
 */
#ifndef PROF_UNWIND_TABLE_H
#define PROF_UNWIND_TABLE_H

/* One row holds from its address to the next row's: low 16 bits of the address, index of a rule. */
struct prof_row {
	__u16 pc_low;
	__u16 rule;
};

/* Slices of 1 KiB that a page of 64 KiB of a module's address space has. */
#define PROF_PAGE_SHIFT 16
#define PROF_SLICE_SHIFT 10
#define PROF_PAGE_SLICES (1 << (PROF_PAGE_SHIFT - PROF_SLICE_SHIFT))

/* Where the rows of a page's slices are: the rule at an address of slice i is that of one of the
 * rows `row[i]`..=`row[i + 1]`, indices into the row array. */
struct prof_page {
	__u32 row[PROF_PAGE_SLICES + 1]; /* [0] is PROF_NO_ROWS: no unwind information */
};

#define PROF_NO_ROWS 0xffffffff
#define PROF_MAX_RULES 32768
/* Steps of the search that every lookup takes, and those that come before them in slices with more
 * than 2^PROF_FEW_ROWS_STEPS rows; together enough for a row at every address. */
#define PROF_FEW_ROWS_STEPS 5
#define PROF_MANY_ROWS_STEPS 6

/* How the CFA (canonical frame address: the stack pointer before the call) is found. */
enum prof_rule_kind {
	PROF_RULE_NONE = 0,	   /* no unwind information here */
	PROF_RULE_REG = 1,	   /* CFA = reg[cfa_reg] + cfa_off */
	PROF_RULE_DEREF = 2,	   /* CFA = *(reg[cfa_reg] + cfa_off) + aux */
	PROF_RULE_PLT = 3,	   /* CFA = rsp + cfa_off + ((pc & 15) >= aux ? 8 : 0) */
	PROF_RULE_SIGNAL = 4,	   /* all registers come from the ucontext that the kernel pushed */
	PROF_RULE_STOP = 5,	   /* the return address is undefined: this is the root */
	PROF_RULE_FP = 6,	   /* follow the frame pointer: CFA = rbp + 16 */
	PROF_RULE_USER = 7,	   /* not expressible as a rule: user space has to take this step */
	PROF_RULE_DEREF_INDEX = 8, /* CFA = *(reg[cfa_reg] + 8 * reg[aux_reg] + cfa_off) + aux */
	/* As FP, and rbp == 0 after the step proves the root (Go starts goroutines that way). */
	PROF_RULE_FP_ROOT = 9,
	PROF_RULE_LANDING = 10, /* libgcc's description of the frame that catches an exception:
				 * CFA = *(rsp + cfa_off), the landing pad is in the next word,
				 * and where rbp is saved PROF_SAVED_RBP_BYTES before */
	/* Go's runtime on the thread's own stack: goes on with the goroutine that it works for.
	 * m = *(g + 8 * cfa_reg) with g = *(thread pointer + cfa_off), or if rbp_kind is RBP_AT_CFA
	 * the word at the module's address cfa_off in place of cfa_off; the goroutine is
	 * *(m + rbp_off), and where it stopped is said at aux bytes in it: rsp, then rip, and rbp
	 * at word aux_reg. With RA_OFFSET these are the caller's registers; with RA_AT_CFA rsp is
	 * where its return address lies, and rbp is unchanged. */
	PROF_RULE_GOROUTINE = 11,
	/* Go's runtime has called C on the thread's own stack, and noted there whose call it is and
	 * how deep the goroutine's stack was: with g = *(rsp + aux) and depth = *(rsp + cfa_off),
	 * the return address lies at *(g + rbp_off) - depth; at depth itself if g is 0. rbp is
	 * unchanged. */
	PROF_RULE_GO_CALL = 12,
	/* Around the system call that starts a thread: in the new one (reg[0] == 0) this is the
	 * root, else the return address is at rsp. */
	PROF_RULE_NEW_THREAD = 13,
};

/* How the caller's rbp is found. */
enum prof_rbp_kind {
	PROF_RBP_SAME = 0,   /* unchanged */
	PROF_RBP_AT_CFA = 1, /* *(CFA + rbp_off) */
	PROF_RBP_AT_RBP = 2, /* *(rbp + rbp_off), with the callee's rbp */
	PROF_RBP_LOST = 3,   /* overwritten */
};

/* How the return address is found. */
enum prof_ra_kind {
	PROF_RA_AT_CFA = 0,	 /* *(CFA - 8) */
	PROF_RA_IN_REG = 1,	 /* reg[aux_reg]: only while all registers are known */
	PROF_RA_OFFSET = 2,	 /* *(CFA + aux), for kinds that do not use aux themselves */
	PROF_RA_NEXT_TO_RBP = 3, /* *(CFA + rbp_off + 8), whatever rbp_kind: arm64 */
	PROF_RA_JUMP = 4, /* *(CFA - 8), to which the code jumps: it does not follow a call */
	PROF_RA_LAST = 5, /* *(CFA - 8), and the stack begins in that frame */
};

/*
 * One unwind rule, shared by all rows that need it. 16 bytes, so that no rule crosses a cache line.
 * Registers have their DWARF numbers (x86-64: 6 = rbp, 7 = rsp; arm64: 29 = x29, which is used as
 * rbp everywhere below, 31 = sp). Registers other than rsp and rbp are known only in the innermost
 * frame and in a frame that a signal interrupted; and further up if no function called writes them.
 */
struct prof_rule {
	__u8 kind;     /* enum prof_rule_kind */
	__u8 rbp_kind; /* enum prof_rbp_kind */
	__u8 ra_kind;  /* enum prof_ra_kind */
	__u8 cfa_reg;
	__u8 aux_reg;
	__u8 is_base_kept; /* no function that this code calls writes cfa_reg */
	__s16 aux;
	__s32 cfa_off;
	__s32 rbp_off;
};

/* Tables for which there was no room when the recording began: rows and pages of their own. */
struct prof_more_tables {
	struct prof_row rows[1 << 22];
	struct prof_page pages[1 << 13];
};

#define PROF_MORE_ROWS (1 << 22)
#define PROF_MORE_PAGES (1 << 13)
/* How many of them there can be. */
#define PROF_MAX_MORE_TABLES 31
/* Bits of an image's first_page that are an index; those above are 0, or the number of the struct
 * prof_more_tables, from 1. */
#define PROF_FIRST_PAGE_BITS 24

/* An ELF file's table as the walker sees it. A single aligned 16-byte entry of the image array. */
struct prof_image {
	__u32 first_page;  /* index into the page array; see PROF_FIRST_PAGE_BITS */
	__u32 page_count;  /* pages of the table */
	__u32 first_vpage; /* module address >> PROF_PAGE_SHIFT of the first page */
	__u32 state;	   /* enum prof_image_state; written last */
};

enum prof_image_state {
	PROF_IMAGE_NOT_LOADED = 0, /* no table (yet, or any more): samples are rescued */
	PROF_IMAGE_READY = 1,
	PROF_IMAGE_FRAME_POINTERS =
		2,		   /* code without a table: generated at run time, or asked for */
	PROF_IMAGE_NO_TABLE = 3,   /* it has no unwind information and never will */
	PROF_IMAGE_UNREADABLE = 5, /* the file could not be opened */
	PROF_IMAGE_GENERATED = 4,  /* as FRAME_POINTERS, for generated code: its end is JIT_END */
	PROF_IMAGE_VSYSCALL = 6,   /* the kernel's vsyscall page: the return address is at rsp */
	PROF_IMAGE_UNTOLD = 7,	   /* as GENERATED, before user space has looked at it: it may know
				    * the code by its bytes */
};

#define PROF_MAX_IMAGES 16384

#endif /* PROF_UNWIND_TABLE_H */
