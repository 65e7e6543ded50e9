/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which allocations are sampled: each byte with the same probability, so that intervals between
 * sampled bytes are exponential. Without libc, thread-local storage or system calls, since it runs
 * in any process.
 */
#ifndef PROF_HEAP_CORE_H
#define PROF_HEAP_CORE_H

typedef unsigned long u64;
typedef long s64;
typedef unsigned short u16;

/* Countdowns, chosen by a hash of the thread pointer: two threads in one slot lose a decrement at
 * worst. */
#define SLOT_BITS 10
/* Buckets of the set of sampled blocks that are live, and blocks of one bucket. */
#define BUCKET_BITS 16
#define BUCKET_BLOCKS 4
/* A block that is worth more intervals than this is counted by division. */
#define MOST_INTERVALS 4096
#define GOLDEN 0x9e3779b97f4a7c15UL
#define PAGE_BYTES 4096
/* A countdown that no allocation ends. */
#define ENDLESS (1L << 62)

/* Whether an `operator new` is counted by itself, or by a hook of what it calls. */
#define NOT_KNOWN 0
#define COUNTED_HERE 1
#define COUNTED_INSIDE 2

/* A cache line each. */
struct slot {
	s64 left; /* bytes until the next sampled one */
	u64 seed; /* of its random numbers; 0: not used so far */
	u64 samples;
	u64 mean; /* by which `left` was drawn */
	u64 pad[4];
};

/* prof reads and writes it by these offsets, which src/record/heap/inject/image.rs has, too. The
 * first page is mapped from the same file as the code, since the semaphore of the probes has to be
 * in it. The rest is memory that is empty in a child of fork (MADV_WIPEONFORK): with copies of its
 * parent's countdowns, all children would have the same of their allocations sampled. */
struct data {
	u64 reserved;
	volatile u16 listeners; /* counted up and down by the kernel: the semaphore of the probes */
	u16 pad[3];
	volatile u64 mean;		     /* bytes between sampled ones; written by prof */
	u64 not_followed;		     /* sampled blocks for which the set had no room */
	volatile unsigned char operators[8]; /* what is known of each `operator new` */
	u64 more_reserved[3 + (PAGE_BYTES - 64) / 8];
	struct slot slots[1 << SLOT_BITS];
	u64 bits[(1 << BUCKET_BITS) / 64]; /* buckets that are not empty: small, so that it stays
					    * in the cache */
	u64 blocks[BUCKET_BLOCKS << BUCKET_BITS];
};

extern struct data data __attribute__((visibility("hidden")));

/* The probes: a nop of one byte, which the kernel replaces and emulates. It does so with longer
 * ones, too, but in ways that break children of fork. */
void probe_alloc(const void *block, u64 size, u64 weight, u64 mean);
void probe_free(const void *block);

static inline struct slot *own_slot(void)
{
	u64 thread;

	__asm__("mov %%fs:0, %0" : "=r"(thread));
	return &data.slots[(thread * GOLDEN) >> (64 - SLOT_BITS)];
}

static inline u64 bucket_of(const void *block)
{
	return (((u64)block >> 4) * GOLDEN) >> (64 - BUCKET_BITS);
}

static inline int is_filled(u64 bucket)
{
	return __builtin_expect((data.bits[bucket >> 6] >> (bucket & 63)) & 1, 0);
}

/* -ln(u) of a number of 53 random bits, u = bits / 2^53. */
static double negative_log(u64 bits)
{
	union {
		double number;
		u64 bits;
	} value;
	double mantissa, t, square, series;
	int exponent;

	value.number = (double)(s64)(bits | 1) * (1.0 / 9007199254740992.0);
	exponent = (int)((value.bits >> 52) & 2047) - 1022;
	value.bits = (value.bits & 0xfffffffffffffUL) | 0x3fe0000000000000UL;
	mantissa = value.number; /* 0.5 to 1 */
	if (mantissa < 0.70710678) {
		mantissa *= 2;
		exponent--;
	}
	t = (mantissa - 1) / (mantissa + 1);
	square = t * t;
	series = 1 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7 + square / 9)));
	return -(2 * t * series + exponent * 0.69314718055994531);
}

/* Bytes to the next sampled one. */
static u64 next_interval(struct slot *slot, u64 mean)
{
	u64 seed = slot->seed;
	double interval;

	if (!seed) {
		unsigned int low, high;

		__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
		seed = ((((u64)high << 32) | low) ^ (u64)slot) * GOLDEN | 1;
	}
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	slot->seed = seed;
	interval = negative_log(seed >> 11) * (double)(s64)mean;
	return interval < 1 ? 1 : (u64)interval;
}

/* Puts a block into the set. */
static void follow(const void *block)
{
	u64 bucket = bucket_of(block), *blocks = &data.blocks[bucket * BUCKET_BLOCKS];
	int k;

	for (k = 0; k < BUCKET_BLOCKS; k++) {
		u64 found = 0;

		if (__atomic_compare_exchange_n(&blocks[k], &found, (u64)block, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED) ||
		    found == (u64)block)
			break;
	}
	if (k == BUCKET_BLOCKS)
		__atomic_fetch_add(&data.not_followed, 1, __ATOMIC_RELAXED);
	else
		__atomic_fetch_or(&data.bits[bucket >> 6], 1UL << (bucket & 63), __ATOMIC_RELEASE);
}

/* A countdown has come to its end with this block. */
static __attribute__((noinline, cold)) void count_sample(const void *block, u64 size,
							 struct slot *slot)
{
	u64 mean = data.mean, drawn_by, intervals = 0;
	int is_new = !slot->seed;

	slot->samples++;
	if (!mean)
		mean = 1UL << 19;
	/* prof may have written another one meanwhile: this block's chance was that of the old. */
	drawn_by = is_new || !slot->mean ? mean : slot->mean;
	slot->mean = mean;
	if (is_new) {
		/* Else the first block of each thread would be one. */
		slot->left = (s64)next_interval(slot, mean) - (s64)size;
		if (slot->left > 0)
			return;
	}
	if (!data.listeners) {
		slot->left = (s64)next_interval(slot, mean);
		return;
	}
	while (slot->left <= 0) {
		intervals++;
		slot->left += (s64)next_interval(slot, mean);
		if (intervals > MOST_INTERVALS) {
			intervals += (u64)-slot->left / mean;
			slot->left = (s64)next_interval(slot, mean);
			break;
		}
	}
	if (!block || !intervals)
		return;
	follow(block);
	probe_alloc(block, size, intervals * drawn_by, drawn_by);
}

/* A block is about to be freed whose bucket is not empty. */
static __attribute__((noinline, cold)) void look_for(const void *block, u64 bucket)
{
	u64 *blocks = &data.blocks[bucket * BUCKET_BLOCKS];
	int k, is_followed = 0, others = 0;

	for (k = 0; k < BUCKET_BLOCKS; k++) {
		u64 found = __atomic_load_n(&blocks[k], __ATOMIC_RELAXED);

		if (found == (u64)block &&
		    __atomic_compare_exchange_n(&blocks[k], &found, 0, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			is_followed = 1;
		else if (found)
			others = 1;
	}
	if (!is_followed)
		return;
	if (!others) {
		__atomic_fetch_and(&data.bits[bucket >> 6], ~(1UL << (bucket & 63)),
				   __ATOMIC_ACQ_REL);
		/* Another thread may have put one in meanwhile. */
		for (k = 0; k < BUCKET_BLOCKS; k++)
			if (__atomic_load_n(&blocks[k], __ATOMIC_ACQUIRE))
				__atomic_fetch_or(&data.bits[bucket >> 6], 1UL << (bucket & 63),
						  __ATOMIC_RELEASE);
	}
	probe_free(block);
}

/* Before a block is freed: its address may be another's right after. */
static inline void note_free(const void *block)
{
	u64 bucket = bucket_of(block);

	if (is_filled(bucket))
		look_for(block, bucket);
}

/* Counts `size` bytes down; whether a sampled one is among them. */
static inline int count_down(struct slot *slot, u64 size)
{
	return __builtin_expect((slot->left -= (s64)size) <= 0, 0);
}

#endif /* PROF_HEAP_CORE_H */
