/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampler of system calls: two tracepoints, at the beginning and the end of each. A call is a
 * hit of a place of its own among the probes, weighted by the time that it took. The threads of all
 * processes come by: those that are not recorded are let go as soon as that is known.
 */
#ifndef PROF_CALL_BPF_H
#define PROF_CALL_BPF_H

#include "time/probe.bpf.h"

/* Number of the place. */
const volatile __u32 call_place = 0;

/* Calls that took so long are all kept: there are few in a second, and they are most of the time.
 */
#define LONG_CALL_NS 1000000

/* A call that was begun. */
struct call_begin {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__s64 number;
};

/* By thread, as bpf_get_current_pid_tgid() has it. Sized before load. What is left in the end are
 * calls that have not ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct call_begin);
} call_begins SEC(".maps");

SEC("raw_tp")
int on_call_begin(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	struct call_begin begin = {};
	__u64 thread;

	if (!is_target(process, numbers.tid))
		return 0;
	begin.time_ns = time_in_span();
	if (!begin.time_ns || is_over_at(begin.time_ns))
		return 0;
	thread = bpf_get_current_pid_tgid();
	begin.number = system_call(task);
	if (bpf_map_update_elem(&call_begins, &thread, &begin, BPF_ANY)) {
		__u32 place = call_place;
		struct prof_probe_counts *counted = bpf_map_lookup_elem(&probe_counts, &place);

		if (counted)
			__sync_fetch_and_add(&counted->busy, 1);
	}
	return 0;
}

/* A recorded thread's call that began at `begin` has ended. */
static __always_inline void end_call(void *ctx, struct task_struct *task, struct numbers numbers,
				     struct prof_process *process,
				     struct prof_probe_counts *counted,
				     const struct call_begin *begin)
{
	struct hit hit = {.place = call_place, .call = begin->number};
	__u32 zero = 0, place = call_place;
	struct prof_probe *probe = bpf_map_lookup_elem(&probes, &place);
	struct hit_budget *budget = bpf_map_lookup_elem(&hit_budgets, &zero);
	__u64 cost;

	hit.now = time_in_span();
	if (!probe || !budget || !hit.now || is_over_at(hit.now))
		return;
	hit.duration_ns = hit.now > begin->time_ns ? hit.now - begin->time_ns : 0;
	__sync_fetch_and_add(&counted->hits, 1);
	hit.factor = hit_factor(budget, hit.now, probe->hit_ns);
	if (hit.duration_ns >= LONG_CALL_NS)
		hit.factor = 1;
	if (hit.factor == 1 || !(bpf_get_prandom_u32() & (hit.factor - 1)))
		keep_hit(ctx, task, numbers, process, &hit, HIT_SYSTEM_CALL);
	cost = bpf_ktime_get_ns() - hit.now;
	__sync_fetch_and_add(&budget->share.left_ns, -cost);
	add(PROF_COUNT_PROBE_NS, cost);
}

SEC("raw_tp")
int on_call_end(void *ctx)
{
	__u32 place = call_place;
	struct prof_probe_counts *counted = bpf_map_lookup_elem(&probe_counts, &place);
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	struct call_begin *found, begin;
	__u64 thread;

	if (!counted)
		return 0;
	if (!is_target(process, numbers.tid)) {
		if (*(volatile __u64 *)&span.start_ns)
			__sync_fetch_and_add(&counted->other, 1);
		return 0;
	}
	thread = bpf_get_current_pid_tgid();
	found = bpf_map_lookup_elem(&call_begins, &thread);
	if (!found) {
		/* It began before the recording, or its beginning was missed: how long it took
		 * is not known. */
		if (*(volatile __u64 *)&span.start_ns)
			__sync_fetch_and_add(&counted->odd, 1);
		return 0;
	}
	begin = *found;
	bpf_map_delete_elem(&call_begins, &thread);
	end_call(ctx, task, numbers, process, counted, &begin);
	return 0;
}

#endif /* PROF_CALL_BPF_H */
