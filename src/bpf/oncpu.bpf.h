/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The on-CPU sampler: one perf event per CPU, filtered here. */
#ifndef PROF_ONCPU_BPF_H
#define PROF_ONCPU_BPF_H

/* Whether a copy of the stack lets user space finish the walk. */
static __always_inline bool wants_rescue(__u32 outcome)
{
	return outcome == PROF_OUTCOME_TABLE_NOT_LOADED ||
	       outcome == PROF_OUTCOME_UNSUPPORTED_RULE ||
	       outcome == PROF_OUTCOME_UNKNOWN_MAPPING ||
	       outcome == PROF_OUTCOME_STACK_UNREADABLE || outcome == PROF_OUTCOME_BAD_UNWIND_INFO;
}

/* Takes `bytes` from this second's allowance. */
static __always_inline bool rescue_allowed(struct scratch *s, __u64 now, __u64 bytes)
{
	__u64 second = now / 1000000000;

	if (s->rescue_second != second) {
		s->rescue_second = second;
		s->rescue_bytes = 0;
	}
	if (s->rescue_bytes + bytes > rescue_bytes_per_second)
		return false;
	s->rescue_bytes += bytes;
	return true;
}

/* Copies block `index`, or notes that it cannot be read. Returns 1 past the last one. */
static long copy_block(__u32 index, struct rescue_copy *copy)
{
	struct prof_rescue *rescue = copy->rescue;
	__u64 first = 4096 - (copy->from & 4095), bytes = index ? 4096 : first;
	__u64 offset = index ? first + (index - 1) * 4096ULL : 0;

	if (offset > copy->most - 4096 || bytes > 4096)
		return 1;
	if (bpf_probe_read_user(rescue->stack + offset, bytes, (void *)(copy->from + offset)))
		rescue->missing_blocks[(index / 64) & 3] |= 1ULL << (index & 63);
	else
		rescue->stack_bytes = offset + bytes;
	return 0;
}

/* Wakes the reader when the ring of copies is half full. */
static __always_inline __u64 rescue_wakeup(void)
{
	return bpf_ringbuf_query(&rescue_ring, BPF_RB_AVAIL_DATA) >= RESCUE_RING_BYTES / 2 ?
		       BPF_RB_FORCE_WAKEUP :
		       BPF_RB_NO_WAKEUP;
}

/* Sends the registers in the scratch, and `most` bytes of stack from `from` on. */
static __always_inline bool send_copy(struct scratch *s, __u64 from, __u32 frames_before,
				      __u64 most)
{
	struct rescue_copy copy = {
		.from = from,
		.most = most,
		.trampoline = s->trampoline,
		.return_instance = s->return_instances,
	};
	struct prof_rescue *rescue;

	if (!rescue_allowed(s, s->sample.time_ns, most)) {
		count(PROF_COUNT_RESCUE_CAPPED);
		return false;
	}
	rescue = bpf_ringbuf_reserve(&rescue_ring,
				     sizeof(*rescue) - PROF_LARGEST_RESCUE_BYTES + most, 0);
	if (!rescue) {
		count(PROF_COUNT_RESCUE_FULL);
		return false;
	}
	copy.rescue = rescue;
	rescue->frames_before = frames_before;
	rescue->time_ns = s->sample.time_ns;
	rescue->cpu = s->sample.cpu;
	rescue->tgid = s->sample.tgid;
	rescue->all_registers = s->all_registers;
	rescue->is_return = s->is_return;
#pragma unroll
	for (int i = 0; i < PROF_REGISTERS; i++)
		rescue->regs[i] = s->regs[i];
	rescue->stack_bytes = 0;
	for (int i = 0; i < 4; i++)
		rescue->missing_blocks[i] = 0;
	if (!bpf_probe_read_user(rescue->stack, most, (void *)from))
		rescue->stack_bytes = most;
	else
		bpf_loop(most / 4096 + 1, copy_block, &copy, 0);
	if (copy.return_instance)
		bpf_loop(MAX_RETURN_INSTANCES, restore_return_address, &copy, 0);
	bpf_ringbuf_submit(rescue, rescue_wakeup());
	count(PROF_COUNT_RESCUE_SENT);
	return true;
}

/* For `bpf_find_vma`: where a stack's mapping ends. */
static long take_end(struct task_struct *task, struct vm_area_struct *vma, __u64 *end)
{
	*end = vma->vm_end;
	return 0;
}

/* Where the stack that holds `sp` ends at the latest; where that cannot be known, because the walk
 * has asked for a mapping already, as far as the largest copy goes. */
static __always_inline __u64 stack_end(struct scratch *s, struct task_struct *task, __u64 sp)
{
	__u64 first = BPF_CORE_READ(task, mm, start_stack), end = 0;

	/* Where the first thread's stack begins is known. */
	if (first - sp < PROF_LARGEST_RESCUE_BYTES)
		return first;
	if (!s->has_asked) {
		s->has_asked = 1;
		bpf_find_vma(task, sp, take_end, &end, 0);
	}
	return end > sp ? end : sp + PROF_LARGEST_RESCUE_BYTES;
}

/* Sends the state of an unfinished walk with a copy of the stack above it. */
static __always_inline bool send_rescue(struct scratch *s, struct bpf_perf_event_data *ctx,
					struct task_struct *task)
{
	__u64 sp = s->regs[REG_SP], from, bytes;
	__u32 frames_before = s->walked - 1;

	if (sp - user_stack_pointer(ctx, task) <= PROF_RESCUE_BYTES / 2 ||
	    (!FRAME_RECORD_TELLS_SP && s->is_sp_hidden)) {
		take_user_registers(s, ctx, task);
		leave_uprobe_page(s, task);
		sp = s->regs[REG_SP];
		frames_before = 0;
	}
	from = sp - PROF_RED_ZONE_BYTES;
	bytes = stack_end(s, task, sp) - from;
	if (bytes <= PROF_SMALL_RESCUE_BYTES)
		return send_copy(s, from, frames_before, PROF_SMALL_RESCUE_BYTES);
	if (bytes <= PROF_RESCUE_BYTES || s->outcome != PROF_OUTCOME_TABLE_NOT_LOADED)
		return send_copy(s, from, frames_before, PROF_RESCUE_BYTES);
	/* Without its table nobody knows how large a module's frames are. */
	if (bytes <= PROF_LARGE_RESCUE_BYTES)
		return send_copy(s, from, frames_before, PROF_LARGE_RESCUE_BYTES);
	return send_copy(s, from, frames_before, PROF_LARGEST_RESCUE_BYTES);
}

/* Never wakes the reader for one sample (5 us of a 13 us sample); it looks by itself. */
#define SEND_TO(ring)                                                                       \
	bpf_ringbuf_output(&ring, data, bytes,                                              \
			   bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= ring_wake_bytes ? \
				   BPF_RB_FORCE_WAKEUP :                                    \
				   BPF_RB_NO_WAKEUP)

static __always_inline long send_sample(__u32 cpu, void *data, __u64 bytes)
{
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
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)id, tgid = id >> 32, zero = 0;
	struct prof_process *process;
	struct task_struct *task;
	struct scratch *s;
	__u64 stamp;
	__u32 frames;

	count(PROF_COUNT_HIT);
	if (!tid) {
		count(PROF_COUNT_IDLE);
		return 0;
	}
	process = bpf_map_lookup_elem(&processes, &tgid);
	if ((filter == PROF_FILTER_PROCESS &&
	     (!process || process->exec_seq == PROF_EXEC_PENDING)) ||
	    (filter == PROF_FILTER_THREAD && !bpf_map_lookup_elem(&threads, &tid))) {
		count(PROF_COUNT_FILTERED);
		return 0;
	}
	s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s)
		return 0;

	s->kernel_count = 0;
	s->walked = 0;
	s->outcome = PROF_OUTCOME_UNSET;
	s->sample.time_ns = start_ns;
	s->sample.tgid = tgid;
	s->sample.tid = tid;
	s->sample.cpu = bpf_get_smp_processor_id();
	s->sample.flags = 0;
	bpf_get_current_comm(s->sample.comm, sizeof(s->sample.comm));

	if (!is_user_mode(ctx)) {
		long bytes = bpf_get_stack(ctx, s->frames, PROF_MAX_KERNEL_FRAMES * 8, 0);

		s->sample.flags = PROF_SAMPLE_KERNEL_MODE;
		if (bytes > 0)
			s->kernel_count = bytes / 8;
	}

	task = bpf_get_current_task_btf();
	if (!take_user_registers(s, ctx, task))
		s->outcome = PROF_OUTCOME_NO_USER_STACK;
	if (s->outcome == PROF_OUTCOME_UNSET) {
		find_uprobes(s, task);
		leave_uprobe_page(s, task);
		if (copy_every_stack)
			send_stack_copy(s);
		stamp = process ? process->stamp : 0;
		walk_user_stack(s, process);
		if (process && process->stamp != stamp) {
			/* The mappings were those of another process, from some frame on. */
			s->walked = 1;
			s->outcome = PROF_OUTCOME_UNKNOWN_MAPPING;
			count(PROF_COUNT_ENTRY_REUSED);
		}
	}
	if (s->in_exec && s->outcome != PROF_OUTCOME_COMPLETE) {
		/* Between two programs: the registers are the old one's, the memory is the new
		 * one's. */
		s->outcome = PROF_OUTCOME_NO_USER_STACK;
		s->walked = 0;
	}
	if (s->walked && wants_rescue(s->outcome))
		s->sample.flags |=
			send_rescue(s, ctx, task) ? PROF_SAMPLE_RESCUE : PROF_SAMPLE_RESCUE_REFUSED;

	frames = s->walked;
	s->sample.left_out = 0;
	if (frames > PROF_MAX_USER_FRAMES) {
		s->sample.left_out = frames - PROF_MAX_USER_FRAMES;
		frames = PROF_MAX_USER_FRAMES;
	}
	s->sample.user_count = frames;
	s->sample.kernel_count = s->kernel_count;
	/* For the verifier (6.18): the length of what is sent has to have an upper bound. */
	frames = (frames + s->kernel_count) & (2 * PROF_MAX_USER_FRAMES - 1);
	s->sample.outcome = s->outcome;
	if (send_sample(s->sample.cpu, &s->sample, sizeof(s->sample) + frames * 8))
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
