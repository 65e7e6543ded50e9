/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One observation of a thread: what all samplers do. */
#ifndef PROF_SAMPLE_BPF_H
#define PROF_SAMPLE_BPF_H

/* Whether this many waits are on their way that the reader has to look. 0: none are recorded. */
static __always_inline bool waits_fill_up(void)
{
	return wait_wake_bytes && bpf_ringbuf_query(&waits, BPF_RB_AVAIL_DATA) >= wait_wake_bytes;
}

/* Whether a thread is one of those that are recorded. `process` is its process's entry. A thread
 * that has no number in the namespace of prof is none of them, no matter what is recorded. */
static __always_inline bool is_target(struct prof_process *process, __u32 tid)
{
	if (in_namespace && !tid)
		return false;
	if (filter == PROF_FILTER_PROCESS)
		return process && process->exec_seq != PROF_EXEC_PENDING;
	return filter != PROF_FILTER_THREAD || bpf_map_lookup_elem(&threads, &tid);
}

/* Begins a sample of the current thread. */
static __always_inline void begin_sample(struct scratch *s, __u64 now, __u32 tgid, __u32 tid)
{
	s->kernel_count = 0;
	s->walked = 0;
	s->outcome = PROF_OUTCOME_UNSET;
	s->sample.time_ns = now;
	s->sample.tgid = tgid;
	s->sample.tid = tid;
	s->sample.cpu = bpf_get_smp_processor_id();
	s->sample.flags = 0;
	s->sample.event = 0;
	s->sample.weight = 0;
	s->sample.memory = PROF_MEMORY_UNKNOWN;
	s->sample.call = 0;
	s->sample.runtime_count = 0;
	s->sample.runtime_flags = 0;
	s->sample.managed_count = 0;
	s->sample.managed_left_out = 0;
	s->managed = 0;
	s->is_urgent = 0;
	s->new_codes = 0;
	s->sends_codes = 0;
	bpf_get_current_comm(s->sample.comm, sizeof(s->sample.comm));
}

/* Takes the frames of an interpreter, if it has begun. */
static __always_inline void take_interpreter(struct scratch *s, struct bpf_perf_event_data *ctx,
					     struct task_struct *task,
					     const struct prof_runtime *runtime)
{
	bool is_setup;

	if (runtime->kind == PROF_RUNTIME_PENDING) {
		s->is_urgent = 1;
		return;
	}
	is_setup = is_in_setup(s, runtime);
	if (is_setup && !(ctx ? take_user_registers(s, ctx, task) : take_task_registers(s, task)))
		return;
	take_runtime_frames(s, runtime, is_setup);
}

/* Walks the user stack after the kernel frames that are there. `ctx` is NULL for a thread that is
 * in the kernel. */
static __always_inline void take_user_stack(struct scratch *s, struct bpf_perf_event_data *ctx,
					    struct task_struct *task, struct prof_process *process,
					    enum place place)
{
	__u64 stamp;

	if (!(ctx ? take_user_registers(s, ctx, task) : take_task_registers(s, task)))
		s->outcome = PROF_OUTCOME_NO_USER_STACK;
	if (s->outcome == PROF_OUTCOME_UNSET) {
		find_uprobes(s, task);
		leave_uprobe_page(s, task);
		if (has_breakpoints && !(ctx && is_user_mode(ctx)))
			return_to_breakpoint(s);
		if (place == PLACE_TICK && copy_every_stack)
			send_stack_copy(s);
		stamp = process ? process->stamp : 0;
		walk_user_stack(s, process, place);
		if (process && process->stamp != stamp) {
			/* The mappings were those of another process, from some frame on. */
			s->walked = 1;
			s->managed = 0;
			s->outcome = PROF_OUTCOME_UNKNOWN_MAPPING;
			count(PROF_COUNT_ENTRY_REUSED);
		}
	}
	if (s->in_exec && s->outcome != PROF_OUTCOME_COMPLETE) {
		/* Between two programs: the registers are the old one's, the memory is the new
		 * one's. */
		s->outcome = PROF_OUTCOME_NO_USER_STACK;
		s->walked = 0;
		s->managed = 0;
	}
	/* Of a stranger, who woke a recorded thread, no one knows the mappings: a copy of its stack
	 * would help no one. */
	if (s->walked && (wants_rescue(s->outcome) || is_in_java(s, process)) &&
	    (process || filter == PROF_FILTER_NONE))
		s->sample.flags |= send_rescue(s, ctx, task, place) ? PROF_SAMPLE_RESCUE :
								      PROF_SAMPLE_RESCUE_REFUSED;
	if (reads_managed)
		pack_managed_frames(s);
	if (interpreters && process && process->runtime.kind && s->walked)
		take_interpreter(s, ctx, task, &process->runtime);
	if (reads_goroutines && process && process->goroutine.is_known && !s->in_exec)
		take_goroutine(s, &process->goroutine);
	if (reads_goroutines && place == PLACE_TICK)
		note_new_labels(s);
}

/* Puts the goroutine after the frames of a sample, which are `words` words. Returns the words of
 * all. */
static __always_inline __u64 add_goroutine(struct scratch *s, __u64 words)
{
	if (!reads_goroutines || !(s->sample.runtime_flags & PROF_RUNTIME_HAS_GOROUTINE))
		return words;
	barrier_var(words);
	if (words > FRAME_WORDS - 3) {
		s->sample.runtime_flags ^=
			PROF_RUNTIME_HAS_GOROUTINE | PROF_RUNTIME_GOROUTINE_UNREAD;
		return words;
	}
	s->frames[words] = s->goroutine.id;
	s->frames[words + 1] = s->goroutine.labels;
	s->frames[words + 2] = s->goroutine.check;
	return words + 3;
}

/* Completes the header. Returns the bytes of the frames after it. */
static __always_inline __u32 finish_sample(struct scratch *s)
{
	__u32 frames = kept_frames(s);
	__u64 words;

	s->sample.left_out = s->walked - frames;
	s->sample.user_count = frames;
	s->sample.kernel_count = s->kernel_count;
	s->sample.outcome = s->outcome;
	words = frames + s->kernel_count + 2 * s->sample.managed_count +
		2 * s->sample.runtime_count;
	words = add_goroutine(s, words);
	/* For the verifier (6.18): the length of what is sent has to have an upper bound, which it
	 * learns of the register that is compared, and of no copy that clang makes before. */
	barrier_var(words);
	if (words > FRAME_WORDS)
		return 0;
	return 8 * words;
}

#endif /* PROF_SAMPLE_BPF_H */
