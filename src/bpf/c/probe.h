/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Probes: instructions of programs, and tracepoints of the kernel, that a user has named. */
#ifndef PROF_PROBE_H
#define PROF_PROBE_H

/* Places that the probes of a recording are at: a probe may have several. */
#define PROF_MAX_PROBES 256

/* What one hit of a probe is weighted as. */
enum prof_weight_kind {
	PROF_WEIGHT_ONE = 0,
	PROF_WEIGHT_REGISTER = 1, /* reg[base] */
	PROF_WEIGHT_MEMORY = 2,	  /* what is at reg[base] + reg[index] * scale + offset */
	PROF_WEIGHT_CONSTANT = 3, /* offset */
	PROF_WEIGHT_ARGUMENT = 4, /* argument number `base` of a tracepoint, from 0 */
};

/* Greater weights, and negative ones, are no amounts of anything: they count as 0. */
#define PROF_MAX_PROBE_WEIGHT (1ULL << 40)

/* A place that is probed, by number from 0. Written by user space before the recording begins. */
struct prof_probe {
	__u32 weight_kind; /* enum prof_weight_kind */
	__u32 base;	   /* DWARF number of a register */
	__u32 index;	   /* the same; only if scale is not 0 */
	__u32 scale;
	__s64 offset;
	__u32 bytes;	 /* size of the value: 1, 2, 4 or 8 */
	__u32 is_signed; /* the value is */
	__u64 hit_ns;	 /* what a hit costs before the program runs, ns */
	__u32 event;	 /* number in samples of what it is for */
	__u32 pad;
};

/* Places at which programs say themselves which blocks of memory they sample. */
#define PROF_MAX_BLOCK_PLACES 128

/* Where the values of such a place are, as those of a probe are. Written by user space before it is
 * attached. */
struct prof_block_place {
	struct prof_probe address;
	struct prof_probe size;	  /* only where blocks begin */
	struct prof_probe weight; /* the same */
};

/* What happened at such a place, on one CPU. */
struct prof_probe_counts {
	__u64 hits;   /* of recorded threads, while the recording went on */
	__u64 other;  /* of other threads */
	__u64 kept;   /* hits that were sent, with their stacks */
	__u64 busy;   /* hits without memory for a stack: others on this CPU had it */
	__u64 full;   /* hits that did not fit into their ring */
	__u64 odd;    /* weights that are no amounts; ends of system calls without a beginning */
	__u64 begun;  /* system calls that were begun, and may end */
	__u64 own_ns; /* what programs have taken for hits before any stack, as far as it is
			 measured */
};

/* System calls have numbers below; what is above counts as the last one. */
#define PROF_SYSTEM_CALLS 512

/* All calls of one number, on one CPU. */
struct prof_call_total {
	__u64 count;
	__u64 time_ns;
};

#endif /* PROF_PROBE_H */
