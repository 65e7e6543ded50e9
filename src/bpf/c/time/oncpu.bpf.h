/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The samplers of perf events, one event per CPU, filtered here: the clock that samples running
 * threads, and counters. */
#ifndef PROF_ONCPU_BPF_H
#define PROF_ONCPU_BPF_H

#include "time/memory.bpf.h"

/* Never wakes the reader for one sample (5 us of a 13 us sample); it looks by itself. Wakes it for
 * the waits as well, whose programs mostly may not. */
#define SEND_TO(ring)                                                                        \
	bpf_ringbuf_output(&ring, data, bytes,                                               \
			   bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= ring_wake_bytes || \
					   is_urgent ?                                       \
				   BPF_RB_FORCE_WAKEUP :                                     \
				   BPF_RB_NO_WAKEUP)

static __always_inline long send_sample(struct scratch *s, __u64 bytes)
{
	/* The name of new code has to be read before the code is gone. */
	bool is_urgent = waits_fill_up() || s->is_urgent;
	__u32 cpu = s->sample.cpu;
	void *data = &s->sample;

	switch (cpu % PROF_SAMPLE_RINGS) {
	case 0:
		return SEND_TO(ring0);
	case 1:
		return SEND_TO(ring1);
	case 2:
		return SEND_TO(ring2);
	case 3:
		return SEND_TO(ring3);
	case 4:
		return SEND_TO(ring4);
	case 5:
		return SEND_TO(ring5);
	case 6:
		return SEND_TO(ring6);
	default:
		return SEND_TO(ring7);
	}
}

/* Counts a run of a program that is timed, and how long it took. */
static __always_inline void count_time_since(__u64 start_ns)
{
	__u32 zero = 0;
	struct prof_counters *values = bpf_map_lookup_elem(&counters, &zero);

	if (values) {
		values->value[PROF_COUNT_TIMED_RUNS]++;
		values->value[PROF_COUNT_TIMED_NS] += bpf_ktime_get_ns() - start_ns;
	}
}

/* Takes a sample of the clock (`event` 0) or of a counter, in the memory that `memory` has. */
static __always_inline int sample_thread(struct bpf_perf_event_data *ctx, void *memory, __u8 event,
					 enum place place)
{
	__u64 start_ns = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct prof_process *process;
	struct numbers numbers;
	__u32 bytes, zero = 0;
	struct scratch *s;
	long failed;

	count(PROF_COUNT_HIT);
	if (!task->pid) {
		count(PROF_COUNT_IDLE);
		return 0;
	}
	numbers = recorded_numbers(task);
	process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	if (!is_target(process, numbers.tid)) {
		count(PROF_COUNT_FILTERED);
		if (in_namespace && !numbers.tid && !BPF_CORE_READ(task, thread_pid))
			count(PROF_COUNT_NUMBERLESS);
		return 0;
	}
	s = bpf_map_lookup_elem(memory, &zero);
	if (!s)
		return 0;

	begin_sample(s, start_ns, numbers.tgid, numbers.tid);
	s->sends_codes = place == PLACE_TICK;
	if (event) {
		s->sample.event = event;
		s->sample.weight = ctx->sample_period;
	}
	if (place == PLACE_SWITCH && event < 64 && (fault_counters >> event & 1))
		s->sample.memory = memory_at(task, ctx->addr, user_stack_pointer(task));
	if (!is_user_mode(ctx)) {
		long found = bpf_get_stack(ctx, s->frames, PROF_MAX_KERNEL_FRAMES * 8, 0);

		s->sample.flags = PROF_SAMPLE_KERNEL_MODE;
		if (found > 0)
			s->kernel_count = found / 8;
	}
	take_user_stack(s, ctx, task, process, place);
	if (place == PLACE_TICK && interpreters && process)
		send_new_codes(s, &process->runtime);
	bytes = finish_sample(s);
	if (place == PLACE_TICK)
		failed = send_sample(s, sizeof(s->sample) + bytes);
	else
		failed = bpf_ringbuf_output(&counts, &s->sample, sizeof(s->sample) + bytes,
					    BPF_RB_NO_WAKEUP);
	if (failed)
		count(event ? PROF_COUNT_COUNTS_FULL : PROF_COUNT_RING_FULL);
	else
		count(PROF_COUNT_SENT);
	if (++s->runs % PROF_TIMED_EVERY == 0)
		count_time_since(start_ns);
	return 0;
}

SEC("perf_event")
int on_cpu(struct bpf_perf_event_data *ctx)
{
	return sample_thread(ctx, &scratches, 0, PLACE_TICK);
}

/* A counter may overflow anywhere: in a page fault, under the scheduler's locks, in an interrupt
 * that cannot be masked. Its cookie says which one it is. */
SEC("perf_event")
int on_count(struct bpf_perf_event_data *ctx)
{
	return sample_thread(ctx, &count_scratches, bpf_get_attach_cookie(ctx), PLACE_SWITCH);
}

#endif /* PROF_ONCPU_BPF_H */
