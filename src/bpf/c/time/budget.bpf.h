/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The budget of the sampler of waits, and which waits it keeps.
 *
 * A wait of length d is kept with the probability d / P, and is weighted as P if that is more than
 * d: sums are right on average, whatever P is. P is 0 while the programs are within their share of
 * the CPU's time, and grows as they use it up.
 */
#ifndef PROF_BUDGET_BPF_H
#define PROF_BUDGET_BPF_H

/* Unused time is kept for so long. */
#define BUDGET_NS 1000000000ULL
/* The shortest P is this one times two. The longest is 2^16 times that: 65 ms. */
#define LEAST_P_NS 1000ULL
#define P_STEPS 16
/* This part of the share is for stacks, whatever the accounting of time takes. */
#define LEAST_STACK_PART 4
/* For so long it is used before it is computed again. */
#define P_AGE_NS 65536ULL

/* What is left of a CPU's share for something. */
struct share {
	__s64 left_ns;
	__u64 filled_ns; /* when it was last filled up */
};

/* The share for waits, and what sched_switch leaves for sched_exit_tp. */
struct wait_budget {
	struct share share;
	__u64 kept_ns;	 /* P since it was last filled up */
	__u64 accounted; /* runs that the share has paid for */
	__u64 random;	 /* the state of next_random */
	/* The wait of the thread that comes on this CPU, if its stack is wanted. */
	__u32 pending_tid;
	__u32 next_tid; /* the thread that was last seen to come on this CPU */
	__u64 context;	/* of is_interrupt */
	struct prof_wait pending;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_budget);
} wait_budgets SEC(".maps");

/* What the accounting of time has taken since it was last asked for, as far as it is measured. */
static __always_inline __u64 accounting_ns(struct wait_budget *budget)
{
	__u32 zero = 0;
	struct prof_counters *values = bpf_map_lookup_elem(&counters, &zero);
	__u64 runs, timed;

	if (!values)
		return 0;
	timed = values->value[PROF_COUNT_SWITCH_TIMED];
	runs = values->value[PROF_COUNT_SWITCH] - budget->accounted;
	budget->accounted += runs;
	return timed ? runs * values->value[PROF_COUNT_SWITCH_NS] / timed : 0;
}

/* Fills a share of `ppm` millionths up, of which `taken_ns` were used for what is never thinned:
 * it is the stacks that have to make room for it. Returns how far it is used up: 0 where half of it
 * is left, P_STEPS where nothing is. Global: verified once. */
__noinline __u32 fill_up(struct share *share, __u64 now, __u32 ppm, __u64 taken_ns)
{
	__s64 most = BUDGET_NS / 1000000 * ppm, half = most / 2;
	__u64 passed, more, step;

	if (!share || !ppm)
		return 0;
	passed = now - share->filled_ns;
	if (passed > BUDGET_NS)
		passed = BUDGET_NS;
	share->filled_ns = now;
	more = passed * ppm / 1000000;
	share->left_ns += more > taken_ns + more / LEAST_STACK_PART ? more - taken_ns :
								      more / LEAST_STACK_PART;
	if (share->left_ns > most)
		share->left_ns = most;
	if (share->left_ns >= half)
		return 0;
	if (share->left_ns <= 0)
		return P_STEPS;
	step = 1 + (__u64)(half - share->left_ns) * P_STEPS / half;
	return step > P_STEPS ? P_STEPS : step;
}

/* P: the length from which on all waits are kept, ns. */
static __always_inline __u64 kept_length(struct wait_budget *budget, __u64 now)
{
	/* Divisions are slow, and this is for every wait. */
	if (now - budget->share.filled_ns >= P_AGE_NS) {
		__u32 steps = fill_up(&budget->share, now, overhead_ppm, accounting_ns(budget));

		budget->kept_ns = steps ? LEAST_P_NS << (steps & 31) : 0;
	}
	return budget->kept_ns;
}

/* One of how many waits has its stack taken when it begins. */
static __always_inline __u32 early_factor(struct wait_budget *budget, __u64 now)
{
	__u64 kept = kept_length(budget, now);

	return kept ? kept / LEAST_P_NS : 1;
}

/* 24 random bits: Marsaglia's xorshift64, multiplied (Vigna, "An experimental exploration of
 * Marsaglia's xorshift generators, scrambled"). The helper takes ten times as long. */
static __always_inline __u64 next_random(struct wait_budget *budget)
{
	__u64 random = budget->random;

	if (!random)
		random = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32() | 1;
	random ^= random >> 12;
	random ^= random << 25;
	random ^= random >> 27;
	budget->random = random;
	return random * 0x2545f4914f6cdd1dULL >> 40;
}

/* The weight of a wait of `length`: 0 if it is dropped by sampling. */
static __always_inline __u64 sampled_weight(struct wait_budget *budget, __u64 length, __u64 kept)
{
	if (length >= kept)
		return length;
	return next_random(budget) * kept >> 24 < length ? kept : 0;
}

/* Takes the cost of what was done since `start` from the share. */
static __always_inline void pay(struct wait_budget *budget, __u64 start)
{
	__u64 cost = bpf_ktime_get_ns() - start;

	/* An interrupt that wakes may come in between. */
	__sync_fetch_and_add(&budget->share.left_ns, -cost);
	add(PROF_COUNT_WAIT_NS, cost);
}

/* Counts a run of a program that sees every switch, and takes the time of some: `start` is when it
 * began. */
static __always_inline void count_run(__u64 start)
{
	__u32 zero = 0;
	struct prof_counters *values = bpf_map_lookup_elem(&counters, &zero);

	/* After the end `start` is that. */
	if (!values || *(volatile __u64 *)&span.stop_ns)
		return;
	if (values->value[PROF_COUNT_SWITCH]++ % PROF_SWITCH_TIMED_EVERY == 0) {
		values->value[PROF_COUNT_SWITCH_TIMED]++;
		values->value[PROF_COUNT_SWITCH_NS] += bpf_ktime_get_ns() - start;
	}
}

#endif /* PROF_BUDGET_BPF_H */
