/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contract between the BPF programs and user space: types, enums and limits, nothing else.
 * Enum values are explicit and append-only; 0 is "unset". Every struct spells out its padding.
 */
#ifndef PROF_H
#define PROF_H

/* ---- Unwind tables ------------------------------------------------------------------------- */

/* One row holds from its address to the next row's: low 16 bits of the address, index of a rule. */
struct prof_row {
	__u16 pc_low;
	__u16 rule;
};

/* Rows of one 64 KiB page of a module's address space. Row `first` starts at or before the page. */
struct prof_page {
	__u32 first; /* index into the row array */
	__u32 count; /* rows of this page, at least 1; 0: no rows, i.e. no unwind information */
};

#define PROF_PAGE_SHIFT 16
#define PROF_MAX_RULES 32768
/* Rows of one page that the branch-free search can tell apart: 2^PROF_ROW_SEARCH_STEPS. */
#define PROF_ROW_SEARCH_STEPS 14
#define PROF_MAX_PAGE_ROWS (1 << PROF_ROW_SEARCH_STEPS)

/* How the CFA (canonical frame address: the stack pointer before the call) is found. */
enum prof_rule_kind {
	PROF_RULE_NONE = 0,   /* no unwind information here */
	PROF_RULE_REG = 1,    /* CFA = reg[cfa_reg] + cfa_off */
	PROF_RULE_DEREF = 2,  /* CFA = *(reg[cfa_reg] + cfa_off) + aux */
	PROF_RULE_PLT = 3,    /* CFA = rsp + cfa_off + ((pc & 15) >= aux ? 8 : 0) */
	PROF_RULE_SIGNAL = 4, /* all registers come from the ucontext that the kernel pushed */
	PROF_RULE_STOP = 5,   /* the return address is undefined: this is the root */
	PROF_RULE_FP = 6,     /* follow the frame pointer: CFA = rbp + 16 */
	PROF_RULE_USER = 7,   /* not expressible as a rule: user space has to take this step */
	PROF_RULE_DEREF_INDEX = 8, /* CFA = *(reg[cfa_reg] + 8 * reg[aux_reg] + cfa_off) + aux */
	/* As FP, and rbp == 0 after the step proves the root (Go starts goroutines that way). */
	PROF_RULE_FP_ROOT = 9,
};

/* How the caller's rbp is found. */
enum prof_rbp_kind {
	PROF_RBP_SAME = 0,   /* unchanged */
	PROF_RBP_AT_CFA = 1, /* *(CFA + rbp_off) */
	PROF_RBP_AT_RBP = 2, /* *(rbp + rbp_off), with the callee's rbp */
};

/* How the return address is found. */
enum prof_ra_kind {
	PROF_RA_AT_CFA = 0, /* *(CFA - 8) */
	PROF_RA_IN_REG = 1, /* reg[aux_reg]: only while all registers are known */
	PROF_RA_OFFSET = 2, /* *(CFA + aux), for kinds that do not use aux themselves */
};

/*
 * One unwind rule, shared by all rows that need it. 16 bytes, so that no rule crosses a cache line.
 * Registers have their DWARF numbers (x86-64: 6 = rbp, 7 = rsp). Registers other than rsp and rbp
 * are known only in the innermost frame and in a frame that a signal interrupted.
 */
struct prof_rule {
	__u8 kind;     /* enum prof_rule_kind */
	__u8 rbp_kind; /* enum prof_rbp_kind */
	__u8 ra_kind;  /* enum prof_ra_kind */
	__u8 cfa_reg;
	__u8 aux_reg;
	__u8 pad;
	__s16 aux;
	__s32 cfa_off;
	__s32 rbp_off;
};

#endif /* PROF_H */
