/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Walks that the kernel side cannot finish: what user space needs to go on. */
#ifndef PROF_RESCUE_BPF_H
#define PROF_RESCUE_BPF_H

/* Whether a copy of the stack lets user space finish the walk. */
static __always_inline bool wants_rescue(__u32 outcome)
{
	return outcome == PROF_OUTCOME_TABLE_NOT_LOADED ||
	       outcome == PROF_OUTCOME_UNSUPPORTED_RULE ||
	       outcome == PROF_OUTCOME_UNKNOWN_MAPPING ||
	       outcome == PROF_OUTCOME_STACK_UNREADABLE || outcome == PROF_OUTCOME_BAD_UNWIND_INFO;
}

/* Whether the walk stands in code that a Java machine has generated: user space knows how its
 * frames are left. */
static __always_inline bool is_in_java(struct scratch *s, const struct prof_process *process)
{
	return reads_managed && s->outcome == PROF_OUTCOME_JIT_END && process &&
	       is_java(&process->managed);
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

/* Copies block `index`, or notes that it cannot be read. Returns 1 past the last one. There is room
 * for all of the last page, of which the copy has a part. */
static long copy_block(__u32 index, struct rescue_copy *copy)
{
	struct prof_rescue *rescue = copy->rescue;
	__u64 first = 4096 - (copy->from & 4095), bytes = index ? 4096 : first;
	__u64 offset = index ? first + (index - 1) * 4096ULL : 0;

	if (offset >= copy->most || bytes > 4096)
		return 1;
	if (bpf_probe_read_user(rescue->stack + offset, bytes, (void *)(copy->from + offset)))
		rescue->missing_blocks[(index / 64) & 3] |= 1ULL << (index & 63);
	else
		rescue->stack_bytes = offset + bytes < copy->most ? offset + bytes : copy->most;
	return 0;
}

/* Room for a copy of `bytes`, in the ring of the program's place. */
static __always_inline struct prof_rescue *reserve_copy(__u64 bytes, enum place place)
{
	bytes += sizeof(struct prof_rescue) - PROF_LARGEST_RESCUE_BYTES + 4096;
	if (place == PLACE_TICK)
		return bpf_ringbuf_reserve(&rescue_ring, bytes, 0);
	return bpf_ringbuf_reserve(&wait_rescue_ring, bytes, 0);
}

/* Sends a copy. Wakes the reader when the ring is half full, where that may be done. */
static __always_inline void submit_copy(struct prof_rescue *rescue, enum place place)
{
	if (place == PLACE_TICK &&
	    bpf_ringbuf_query(&rescue_ring, BPF_RB_AVAIL_DATA) >= RESCUE_RING_BYTES / 2)
		bpf_ringbuf_submit(rescue, BPF_RB_FORCE_WAKEUP);
	else if (place == PLACE_FREE && bpf_ringbuf_query(&wait_rescue_ring, BPF_RB_AVAIL_DATA) >=
						WAIT_RESCUE_RING_BYTES / 2)
		bpf_ringbuf_submit(rescue, BPF_RB_FORCE_WAKEUP);
	else
		bpf_ringbuf_submit(rescue, BPF_RB_NO_WAKEUP);
}

/* All of a record but the stack: the registers in the scratch, and whose they are. */
static __always_inline void begin_copy(struct scratch *s, struct prof_rescue *rescue,
				       __u32 frames_before)
{
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
}

/* Sends the registers in the scratch, and `most` bytes of stack from `from` on. */
static __always_inline bool send_copy(struct scratch *s, __u64 from, __u32 frames_before,
				      __u64 most, enum place place)
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
	rescue = reserve_copy(most, place);
	if (!rescue) {
		count(PROF_COUNT_RESCUE_FULL);
		return false;
	}
	copy.rescue = rescue;
	begin_copy(s, rescue, frames_before);
	if (!bpf_probe_read_user(rescue->stack, most, (void *)from))
		rescue->stack_bytes = most;
	else
		bpf_loop(most / 4096 + 1, copy_block, &copy, 0);
	if (copy.return_instance)
		bpf_loop(MAX_RETURN_INSTANCES, restore_return_address, &copy, 0);
	submit_copy(rescue, place);
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
 * has asked for a mapping already or may not ask, as far as the largest copy goes. */
static __always_inline __u64 stack_end(struct scratch *s, struct task_struct *task, __u64 sp,
				       enum place place)
{
	__u64 first = BPF_CORE_READ(task, mm, start_stack), end = 0;

	/* Where the first thread's stack begins is known. */
	if (first - sp < PROF_LARGEST_RESCUE_BYTES)
		return first;
	if (place != PLACE_SWITCH && !s->has_asked) {
		s->has_asked = 1;
		bpf_find_vma(task, sp, take_end, &end, 0);
	}
	return end > sp ? end : sp + PROF_LARGEST_RESCUE_BYTES;
}

/* Sends the state of an unfinished walk with a copy of the stack above it. `ctx` is NULL for a
 * thread that is in the kernel. */
static __always_inline bool send_rescue(struct scratch *s, struct bpf_perf_event_data *ctx,
					struct task_struct *task, enum place place)
{
	__u64 sp = s->regs[REG_SP], from, bytes;
	__u32 frames_before = s->walked - 1;

	if (sp - s->leaf_sp <= PROF_RESCUE_BYTES / 2 ||
	    (!FRAME_RECORD_TELLS_SP && s->is_sp_hidden)) {
		if (ctx)
			take_user_registers(s, ctx, task);
		else
			take_task_registers(s, task);
		leave_uprobe_page(s, task);
		if (has_breakpoints && !(ctx && is_user_mode(ctx)))
			return_to_breakpoint(s);
		sp = s->regs[REG_SP];
		frames_before = 0;
	}
	from = sp - PROF_RED_ZONE_BYTES;
	bytes = stack_end(s, task, sp, place) - from;
	if (bytes <= PROF_SMALL_RESCUE_BYTES)
		return send_copy(s, from, frames_before, PROF_SMALL_RESCUE_BYTES, place);
	/* Without a context interrupts may be off. */
	if (!ctx || bytes <= PROF_RESCUE_BYTES || s->outcome != PROF_OUTCOME_TABLE_NOT_LOADED)
		return send_copy(s, from, frames_before, PROF_RESCUE_BYTES, place);
	/* Without its table the size of a module's frames is unknown. */
	if (bytes <= PROF_LARGE_RESCUE_BYTES)
		return send_copy(s, from, frames_before, PROF_LARGE_RESCUE_BYTES, place);
	return send_copy(s, from, frames_before, PROF_LARGEST_RESCUE_BYTES, place);
}

#endif /* PROF_RESCUE_BPF_H */
