/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampler of system calls: two tracepoints, at the beginning and the end of each. A call is a
 * hit of a place of its own among the probes, weighted by the time that it took. The threads of all
 * processes come by: those that are not recorded are let go as soon as that is known.
 *
 * All calls are counted and timed, by number. Past the budget stacks are taken as of waits: a call
 * of length d is kept with the probability d / P, and is weighted as P if that is more than d.
 */
#ifndef PROF_CALL_BPF_H
#define PROF_CALL_BPF_H

#include "time/probe.bpf.h"

/* Number of the place. */
const volatile __u32 call_place = 0;

/* What the programs take is measured at one of so many calls, a power of two. */
#define TIMED_CALLS 64

/* The call that a thread is in. */
struct call_state {
	__u64 begun_ns; /* CLOCK_MONOTONIC; 0: none that has begun since the recording has */
	__s64 number;
};

/* Kept with the task, and freed with it: numbers are used again. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call_state);
} call_states SEC(".maps");

/* By the number of the call. Sized before load, read by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct prof_call_total);
} call_totals SEC(".maps");

/* Takes what a program has taken since `start` from the share, at some of the calls for all. */
static __always_inline void time_call(struct prof_probe_counts *counted, struct hit_budget *budget,
				      __u64 start)
{
	__u64 cost;

	if (start & (TIMED_CALLS - 1))
		return;
	cost = (bpf_ktime_get_ns() - start) * TIMED_CALLS;
	__sync_fetch_and_add(&counted->own_ns, cost);
	__sync_fetch_and_add(&budget->traps_ns, cost);
}

SEC("raw_tp")
int on_call_begin(void *ctx)
{
	__u32 zero = 0, place = call_place;
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	struct prof_probe_counts *counted;
	struct hit_budget *budget;
	struct call_state *state;
	__u64 now;
	__s64 number;

	if (!is_target(process, numbers.tid))
		return 0;
	now = time_in_span();
	counted = bpf_map_lookup_elem(&probe_counts, &place);
	budget = bpf_map_lookup_elem(&hit_budgets, &zero);
	if (!now || is_over_at(now) || !counted || !budget)
		return 0;
	number = system_call(task);
	/* They do not end. */
	if (number == NR_EXIT || number == NR_EXIT_GROUP)
		return 0;
	state = bpf_task_storage_get(&call_states, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {
		__sync_fetch_and_add(&counted->busy, 1);
		return 0;
	}
	state->begun_ns = now;
	state->number = number;
	__sync_fetch_and_add(&counted->begun, 1);
	time_call(counted, budget, now);
	return 0;
}

/* What a call of this length is weighted as: 0 if it is not kept. */
static __always_inline __u64 kept_weight(__u64 length, __u32 factor)
{
	__u64 kept = factor > 1 ? LEAST_P_NS * factor : 0;

	if (length >= kept)
		return length;
	return (__u64)(bpf_get_prandom_u32() >> 8) * kept >> 24 < length ? kept : 0;
}

/* A recorded thread's call has ended, after `length` ns. */
static __always_inline void end_call(void *ctx, struct task_struct *task, struct numbers numbers,
				     struct prof_process *process,
				     struct prof_probe_counts *counted, struct hit *hit,
				     __u64 length)
{
	__u32 zero = 0, number = PROF_SYSTEM_CALLS - 1;
	struct prof_probe *probe = bpf_map_lookup_elem(&probes, &hit->place);
	struct hit_budget *budget = bpf_map_lookup_elem(&hit_budgets, &zero);
	struct prof_call_total *total;
	__u64 start;

	if (!probe || !budget)
		return;
	if (hit->call >= 0 && hit->call < PROF_SYSTEM_CALLS)
		number = hit->call;
	total = bpf_map_lookup_elem(&call_totals, &number);
	if (total) {
		__sync_fetch_and_add(&total->count, 1);
		__sync_fetch_and_add(&total->time_ns, length);
	}
	__sync_fetch_and_add(&counted->hits, 1);
	hit->weight = kept_weight(length,
				  hit_factor(budget, hit->now, probe->hit_ns, probe_overhead_ppm));
	time_call(counted, budget, hit->now);
	if (!hit->weight)
		return;
	start = bpf_ktime_get_ns();
	keep_hit(ctx, task, numbers, process, hit, HIT_SYSTEM_CALL);
	start = bpf_ktime_get_ns() - start;
	__sync_fetch_and_add(&budget->share.left_ns, -start);
	add(PROF_COUNT_PROBE_NS, start);
}

SEC("raw_tp")
int on_call_end(void *ctx)
{
	__u32 place = call_place;
	struct prof_probe_counts *counted = bpf_map_lookup_elem(&probe_counts, &place);
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	struct hit hit = {.place = place};
	struct call_state *state;
	__u64 begun_ns;

	if (!counted)
		return 0;
	if (!is_target(process, numbers.tid)) {
		if (*(volatile __u64 *)&span.start_ns)
			__sync_fetch_and_add(&counted->other, 1);
		return 0;
	}
	hit.now = time_in_span();
	if (!hit.now || is_over_at(hit.now))
		return 0;
	state = bpf_task_storage_get(&call_states, task, NULL, 0);
	begun_ns = state ? state->begun_ns : 0;
	if (!begun_ns) {
		/* It began before the recording, or in the parent of a new thread, or a filter has
		 * refused it. */
		__sync_fetch_and_add(&counted->odd, 1);
		return 0;
	}
	state->begun_ns = 0;
	hit.call = state->number;
	end_call(ctx, task, numbers, process, counted, &hit,
		 hit.now > begun_ns ? hit.now - begun_ns : 1);
	return 0;
}

#endif /* PROF_CALL_BPF_H */
