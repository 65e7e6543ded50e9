/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampler of probes: instructions of programs (uprobes) and tracepoints of the kernel. Each hit
 * of a recorded thread is counted; its stack is taken while the share of the CPU's time that may be
 * used for that is not used up. Past that one of n hits is kept at random, and is weighted as n:
 * sums are right on average, whatever n is.
 */
#ifndef PROF_PROBE_BPF_H
#define PROF_PROBE_BPF_H

#include "time/budget.bpf.h"

/* What the programs may take for hits, of a CPU's time: millionths. 0: no limit. */
const volatile __u32 probe_overhead_ppm = 20000;
const volatile __u32 hit_wake_bytes = 0; /* as ring_wake_bytes, for hits */
/* Kernel frames of tracepoints are wanted. */
const volatile bool probes_have_kernel_frames = true;
/* The kernel tells tracepoints apart for one program (Linux 6.10); else this is the only one. */
const volatile bool tells_tracepoints_apart = false;
const volatile __u32 only_tracepoint = 0;
/* Arguments of tracepoints that may be read: a program that could read more than one has is not
 * attached to it. */
const volatile __u32 tracepoint_arguments = 0;

/* By number. Written by user space before the recording begins. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROF_MAX_PROBES);
	__type(key, __u32);
	__type(value, struct prof_probe);
} probes SEC(".maps");

/* By number. Read by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PROF_MAX_PROBES);
	__type(key, __u32);
	__type(value, struct prof_probe_counts);
} probe_counts SEC(".maps");

/* Memory for the stacks of hits, and which of it is in use. Several of each CPU, since a thread can
 * lose its CPU while it is at a hit, to another thread that comes to one, and tracepoints are hit
 * in interrupts. Sized before load. */
#define HIT_SCRATCHES 3
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} hit_scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HIT_SCRATCHES);
	__type(key, __u32);
	__type(value, __u32);
} hit_scratch_users SEC(".maps");

/* Hits. Apart from all other rings: a thread may lose its CPU while it writes here. Sized before
 * load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} hits SEC(".maps");

/* A CPU's share for hits. */
struct hit_budget {
	struct share share;
	__u64 traps_ns; /* what hits have cost since it was filled up, before the program ran */
	__u32 factor;	/* one of so many hits is kept since then */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hit_budget);
} hit_budgets SEC(".maps");

/* One of how many hits is kept now, within `ppm` millionths of the CPU's time. */
static __always_inline __u32 hit_factor(struct hit_budget *budget, __u64 now, __u64 hit_ns,
					__u32 ppm)
{
	__sync_fetch_and_add(&budget->traps_ns, hit_ns);
	if (now - budget->share.filled_ns >= P_AGE_NS || !budget->factor) {
		/* Hits cost something whether their stacks are taken or not. */
		__u64 taken = budget->traps_ns;

		budget->traps_ns = 0;
		budget->factor = 1 << (fill_up(&budget->share, now, ppm, taken) & 31);
	}
	return budget->factor;
}

/* Takes memory for a stack. Returns its number; -1 if all is in use. */
static __always_inline int take_hit_scratch(void)
{
	for (__u32 i = 0; i < HIT_SCRATCHES; i++) {
		__u32 number = i, *users = bpf_map_lookup_elem(&hit_scratch_users, &number);

		if (users && !__sync_lock_test_and_set(users, 1))
			return i;
	}
	return -1;
}

static __always_inline void give_hit_scratch_back(__u32 number)
{
	__u32 *users = bpf_map_lookup_elem(&hit_scratch_users, &number);

	if (users)
		__sync_lock_test_and_set(users, 0);
}

/* Reads an argument of a tracepoint. Written so that each offset is a constant of the program, and
 * that clang joins none of them: the kernel allows nothing else (6.18). */
#define READ_ARGUMENT(value, ctx, offset) \
	asm volatile("%0 = *(u64 *)(%1 + " #offset ")\n" : "=r"(value) : "r"(ctx) : "memory")
static __always_inline __u64 tracepoint_argument(void *ctx, __u32 number)
{
	__u64 value = 0;

	if (tracepoint_arguments > 0 && number == 0)
		READ_ARGUMENT(value, ctx, 0);
	if (tracepoint_arguments > 1 && number == 1)
		READ_ARGUMENT(value, ctx, 8);
	if (tracepoint_arguments > 2 && number == 2)
		READ_ARGUMENT(value, ctx, 16);
	if (tracepoint_arguments > 3 && number == 3)
		READ_ARGUMENT(value, ctx, 24);
	if (tracepoint_arguments > 4 && number == 4)
		READ_ARGUMENT(value, ctx, 32);
	if (tracepoint_arguments > 5 && number == 5)
		READ_ARGUMENT(value, ctx, 40);
	return value;
}

/* Reads what is weighed; the registers of the current thread are in the scratch. */
static __always_inline bool read_weight(struct scratch *s, void *ctx,
					const struct prof_probe *probe, __u64 *value)
{
	__u64 base = s->regs[probe->base & REG_MASK], address;

	switch (probe->weight_kind) {
	case PROF_WEIGHT_REGISTER:
		*value = base;
		return true;
	case PROF_WEIGHT_CONSTANT:
		*value = probe->offset;
		return true;
	case PROF_WEIGHT_MEMORY:
		address = base + probe->offset;
		if (probe->scale)
			address += s->regs[probe->index & REG_MASK] * probe->scale;
		*value = 0;
		/* Little-endian: the rest stays 0. */
		if (probe->bytes == 1)
			return !bpf_probe_read_user(value, 1, (void *)address);
		if (probe->bytes == 2)
			return !bpf_probe_read_user(value, 2, (void *)address);
		if (probe->bytes == 4)
			return !bpf_probe_read_user(value, 4, (void *)address);
		return !bpf_probe_read_user(value, 8, (void *)address);
	}
	return false;
}

/* The bits of a value that count. */
static __always_inline __u64 value_bits(const struct prof_probe *probe)
{
	return probe->bytes < 8 ? (1ULL << ((8 * probe->bytes) & 63)) - 1 : -1ULL;
}

/* What a hit is weighted as. Of a value that is no amount, 0. */
static __always_inline __u64 hit_weight(struct scratch *s, void *ctx, struct task_struct *task,
					const struct prof_probe *probe,
					struct prof_probe_counts *counted, bool is_tracepoint)
{
	__u64 value = 0, bits = value_bits(probe);
	bool is_read = true;

	if (probe->weight_kind == PROF_WEIGHT_ONE)
		return 1;
	if (is_tracepoint)
		value = tracepoint_argument(ctx, probe->base);
	else
		is_read = take_task_registers(s, task) && read_weight(s, ctx, probe, &value);
	value &= bits;
	if (probe->is_signed && value & ~(bits >> 1))
		is_read = false;
	if (is_read && value <= PROF_MAX_PROBE_WEIGHT)
		return value;
	__sync_fetch_and_add(&counted->odd, 1);
	return 0;
}

/* What a hit is of. */
enum hit_kind {
	HIT_INSTRUCTION,
	HIT_TRACEPOINT,	 /* hit anywhere: under the scheduler's locks, and in interrupts */
	HIT_SYSTEM_CALL, /* at its end */
};

/* A hit of a recorded thread. */
struct hit {
	__u32 place;
	__u32 factor; /* one of so many is kept */
	__u64 now;    /* CLOCK_MONOTONIC */
	__u64 weight; /* of a system call */
	__s64 call;   /* its number; negative: not known, or of another table */
};

/* Sends the sample in the scratch. */
static __always_inline bool send_hit(struct scratch *s, enum hit_kind kind)
{
	__u64 bytes = sizeof(s->sample) + finish_sample(s);

	if (kind != HIT_TRACEPOINT && bpf_ringbuf_query(&hits, BPF_RB_AVAIL_DATA) >= hit_wake_bytes)
		return !bpf_ringbuf_output(&hits, &s->sample, bytes, BPF_RB_FORCE_WAKEUP);
	return !bpf_ringbuf_output(&hits, &s->sample, bytes, BPF_RB_NO_WAKEUP);
}

/* Takes the stack of a hit, in memory that is taken. */
static __always_inline bool sample_hit(struct scratch *s, void *ctx, struct task_struct *task,
				       struct prof_process *process, enum hit_kind kind)
{
	if (kind == HIT_TRACEPOINT && probes_have_kernel_frames) {
		long found = bpf_get_stack(ctx, s->frames, PROF_MAX_KERNEL_FRAMES * 8, 0);

		s->sample.flags = PROF_SAMPLE_KERNEL_MODE;
		if (found > 0)
			s->kernel_count = found / 8;
	}
	if (kind == HIT_TRACEPOINT) {
		take_user_stack(s, NULL, task, process, PLACE_SWITCH);
	} else {
		s->sends_codes = 1;
		take_user_stack(s, NULL, task, process, PLACE_FREE);
		if (interpreters && process)
			send_wait_codes(s, &process->runtime);
	}
	return send_hit(s, kind);
}

/* Sends a hit of a recorded thread with its stack. */
static __always_inline void keep_hit(void *ctx, struct task_struct *task, struct numbers numbers,
				     struct prof_process *process, const struct hit *hit,
				     enum hit_kind kind)
{
	__u32 number = hit->place;
	struct prof_probe_counts *counted = bpf_map_lookup_elem(&probe_counts, &number);
	struct prof_probe *probe = bpf_map_lookup_elem(&probes, &number);
	int taken = take_hit_scratch();
	__u32 slot = taken;
	struct scratch *s;

	if (!counted || !probe)
		return;
	if (taken < 0) {
		__sync_fetch_and_add(&counted->busy, 1);
		return;
	}
	s = bpf_map_lookup_elem(&hit_scratches, &slot);
	if (s) {
		begin_sample(s, hit->now, numbers.tgid, numbers.tid);
		s->sample.event = probe->event;
		if (kind == HIT_SYSTEM_CALL) {
			s->sample.weight = hit->weight;
			if (hit->call >= 0 && hit->call < 0xffff)
				s->sample.call = hit->call + 1;
		} else {
			s->sample.weight = hit->factor * hit_weight(s, ctx, task, probe, counted,
								    kind == HIT_TRACEPOINT);
		}
		if (sample_hit(s, ctx, task, process, kind))
			__sync_fetch_and_add(&counted->kept, 1);
		else
			__sync_fetch_and_add(&counted->full, 1);
	}
	give_hit_scratch_back(slot);
}

/* The current thread is at place `number`. Those that are not recorded come by as well, and are to
 * be let go at once. */
static __always_inline int hit(void *ctx, __u32 number, enum hit_kind kind)
{
	struct prof_probe_counts *counted = bpf_map_lookup_elem(&probe_counts, &number);
	struct prof_probe *probe = bpf_map_lookup_elem(&probes, &number);
	struct task_struct *task = bpf_get_current_task_btf();
	struct hit this_hit = {.place = number};
	struct prof_process *process;
	struct hit_budget *budget;
	struct numbers numbers;
	__u32 zero = 0;
	__u64 cost;

	if (!*(volatile __u64 *)&span.start_ns || !counted || !probe)
		return 0;
	numbers = recorded_numbers(task);
	process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	if (!is_target(process, numbers.tid)) {
		__sync_fetch_and_add(&counted->other, 1);
		return 0;
	}
	this_hit.now = time_in_span();
	budget = bpf_map_lookup_elem(&hit_budgets, &zero);
	if (!this_hit.now || is_over_at(this_hit.now) || !budget)
		return 0;
	__sync_fetch_and_add(&counted->hits, 1);
	this_hit.factor = hit_factor(budget, this_hit.now, probe->hit_ns, probe_overhead_ppm);
	if (this_hit.factor > 1 && bpf_get_prandom_u32() & (this_hit.factor - 1))
		return 0;
	keep_hit(ctx, task, numbers, process, &this_hit, kind);
	cost = bpf_ktime_get_ns() - this_hit.now;
	__sync_fetch_and_add(&budget->share.left_ns, -cost);
	add(PROF_COUNT_PROBE_NS, cost);
	return 0;
}

/* The cookie is the number of the place, from 1. */
SEC("uprobe")
int on_instruction(struct pt_regs *ctx)
{
	return hit(ctx, bpf_get_attach_cookie(ctx) - 1, HIT_INSTRUCTION);
}

SEC("raw_tp")
int on_tracepoint(void *ctx)
{
	__u32 number = only_tracepoint;

	if (tells_tracepoints_apart)
		number = bpf_get_attach_cookie(ctx) - 1;
	return hit(ctx, number, HIT_TRACEPOINT);
}

#endif /* PROF_PROBE_BPF_H */
