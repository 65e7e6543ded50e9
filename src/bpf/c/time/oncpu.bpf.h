/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The on-CPU sampler: one perf event per CPU, filtered here. */
#ifndef PROF_ONCPU_BPF_H
#define PROF_ONCPU_BPF_H

/* Never wakes the reader for one sample (5 us of a 13 us sample); it looks by itself. Wakes it for
 * the waits as well, whose programs mostly may not. */
#define SEND_TO(ring)                                                                        \
	bpf_ringbuf_output(&ring, data, bytes,                                               \
			   bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= ring_wake_bytes || \
					   filled ?                                          \
				   BPF_RB_FORCE_WAKEUP :                                     \
				   BPF_RB_NO_WAKEUP)

static __always_inline long send_sample(__u32 cpu, void *data, __u64 bytes)
{
	bool filled = waits_fill_up();

	switch (cpu % SAMPLE_RINGS) {
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

SEC("perf_event")
int on_cpu(struct bpf_perf_event_data *ctx)
{
	__u64 start_ns = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct prof_process *process;
	struct numbers numbers;
	__u32 bytes, zero = 0;
	struct scratch *s;

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
	s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s)
		return 0;

	begin_sample(s, start_ns, numbers.tgid, numbers.tid);
	if (!is_user_mode(ctx)) {
		long found = bpf_get_stack(ctx, s->frames, PROF_MAX_KERNEL_FRAMES * 8, 0);

		s->sample.flags = PROF_SAMPLE_KERNEL_MODE;
		if (found > 0)
			s->kernel_count = found / 8;
	}
	take_user_stack(s, ctx, task, process, PLACE_TICK);
	bytes = finish_sample(s);
	if (send_sample(s->sample.cpu, &s->sample, sizeof(s->sample) + bytes))
		count(PROF_COUNT_RING_FULL);
	else
		count(PROF_COUNT_SENT);

	if (++s->runs % PROF_TIMED_EVERY == 0) {
		struct prof_counters *values = bpf_map_lookup_elem(&counters, &zero);

		if (values) {
			values->value[PROF_COUNT_TIMED_RUNS]++;
			values->value[PROF_COUNT_TIMED_NS] += bpf_ktime_get_ns() - start_ns;
		}
	}
	return 0;
}

#endif /* PROF_ONCPU_BPF_H */
