/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads that do not run: looked at when the recording begins and ends, from user space. */
#ifndef PROF_BLOCKED_BPF_H
#define PROF_BLOCKED_BPF_H

#define BLOCKED_COPY_BYTES PROF_RESCUE_BYTES

/* Working memory of the programs below, of which one runs at a time; they may sleep, so that one
 * for each CPU would not do. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} blocked_scratch SEC(".maps");

/* Before the recording: gives the threads that are there an account each. At its start: what a
 * thread waits for that is not on a CPU. Later: for those that were missed. */
SEC("iter/task")
int threads_at_start(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_state *state;

	if (!task)
		return 0;
	state = state_of(task);
	if (!state) {
		begin_old_thread(task);
	} else if (span.start_ns && !state->in_ns && !state->out_ns) {
		/* It may have called exec since it was looked at first. */
		state->tid = numbers_of(task).tid;
		if (!task->on_cpu) {
			state->was_off = 1;
			state->run_ns = task->se.sum_exec_runtime;
			state->delay_ns = delay_of(task);
			state->task_state = task->__state;
			state->in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
		}
	}
	return 0;
}

/* What a copy of a sleeping thread's stack is made with. */
struct blocked_copy {
	struct prof_rescue *rescue;
	struct task_struct *task;
	__u64 from;
};

/* As copy_block, for a thread that is not current: its pages are brought in if need be. */
static long copy_stack_part(__u32 index, struct blocked_copy *copy)
{
	struct prof_rescue *rescue = copy->rescue;
	__u64 first = 4096 - (copy->from & 4095), bytes = index ? 4096 : first;
	__u64 offset = index ? first + (index - 1) * 4096ULL : 0;

	if (offset >= BLOCKED_COPY_BYTES || bytes > 4096)
		return 1;
	if (bpf_copy_from_user_task(rescue->stack + offset, bytes, (void *)(copy->from + offset),
				    copy->task, 0))
		return 1; /* the end of the stack, most likely */
	rescue->stack_bytes =
		offset + bytes < BLOCKED_COPY_BYTES ? offset + bytes : BLOCKED_COPY_BYTES;
	return 0;
}

/* Sends registers and stack of a sleeping thread. */
static __always_inline bool send_blocked_copy(struct scratch *s, struct task_struct *task)
{
	struct blocked_copy copy = {
		.task = task,
		.from = s->regs[REG_SP] - PROF_RED_ZONE_BYTES,
	};
	struct prof_rescue *rescue = bpf_ringbuf_reserve(
		&wait_rescue_ring,
		sizeof(*rescue) - PROF_LARGEST_RESCUE_BYTES + BLOCKED_COPY_BYTES + 4096, 0);

	if (!rescue) {
		count(PROF_COUNT_RESCUE_FULL);
		return false;
	}
	copy.rescue = rescue;
	begin_copy(s, rescue, 0);
	bpf_loop(BLOCKED_COPY_BYTES / 4096 + 1, copy_stack_part, &copy, 0);
	bpf_ringbuf_submit(rescue, BPF_RB_NO_WAKEUP);
	count(PROF_COUNT_RESCUE_SENT);
	return true;
}

/* Sends the wait of a thread that has not come to its end. */
static __always_inline void send_open_wait(struct scratch *s, struct task_struct *task,
					   const struct thread_state *state, __u32 kind)
{
	struct prof_process *process;
	long found;

	s->wait.kind = kind;
	note_futex(task, &s->wait);
	read_first_futex(&s->wait, false);
	begin_sample(s, bpf_ktime_get_ns(), state->tgid, state->tid);
	bpf_probe_read_kernel(s->sample.comm, sizeof(s->sample.comm), task->comm);
	s->sample.flags = PROF_SAMPLE_KERNEL_MODE;
	found = bpf_get_task_stack(task, s->frames, PROF_MAX_KERNEL_FRAMES * 8, 0);
	if (found > 0)
		s->kernel_count = found / 8;
	if (!take_task_registers(s, task)) {
		s->outcome = PROF_OUTCOME_NO_USER_STACK;
	} else if (s->outcome == PROF_OUTCOME_UNSET) {
		s->outcome = PROF_OUTCOME_UNSUPPORTED_RULE;
		s->sample.flags |= send_blocked_copy(s, task) ? PROF_SAMPLE_RESCUE :
								PROF_SAMPLE_RESCUE_REFUSED;
	}
	process = bpf_map_lookup_elem(&processes, &s->sample.tgid);
	if (interpreters && process && process->runtime.kind &&
	    process->runtime.kind != PROF_RUNTIME_PENDING)
		take_sleepers_frames(s, &process->runtime, task);
	if (reads_goroutines && process && process->goroutine.is_known)
		find_goroutine_of(task, s, &process->goroutine);
	send_wait(s, finish_sample(s), PLACE_FREE);
}

/* At the end: closes the times of all threads, and sends the waits that are not over. Writes a byte
 * for each of those, so that user space can take the copies before there are too many. */
SEC("iter.s/task")
int threads_at_end(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 stop = span.stop_ns, left, since;
	struct wait_budget *budget;
	struct thread_state *state;
	__u32 zero = 0;
	struct scratch *s;
	char byte = 1;

	if (!task || !stop)
		return 0;
	state = state_of(task);
	s = bpf_map_lookup_elem(&blocked_scratch, &zero);
	budget = bpf_map_lookup_elem(&wait_budgets, &zero);
	if (!state && wants_state(task))
		count(PROF_COUNT_NO_STATE);
	if (!state || state->has_ended || !s || !budget)
		return 0;
	left = left_at(state, !task->on_cpu);
	if (left && task->on_cpu && left < stop) {
		entered_unseen(state, task, stop);
		left = 0;
	} else if (!left && !task->on_cpu && state->in_ns < stop) {
		left = left_unseen(state, task->se.sum_exec_runtime, stop);
	}
	if (!left) {
		since = state->in_ns ? state->in_ns : known_since(state);
		state->on_cpu_ns += stop > since ? stop - since : 0;
		/* What it does from now on does not count. */
		state->in_ns = stop;
	} else {
		bool is_sent = close_wait(task, state, budget, &s->wait, left, stop, true);

		state->out_ns = stop;
		state->task_state = 0;
		if (is_sent) {
			send_open_wait(s, task, state, PROF_WAIT_OPEN);
			bpf_seq_write(ctx->meta->seq, &byte, 1);
		}
	}
	send_thread_time(state, task, stop, false);
	return 0;
}

/* What `threads_watched` writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct prof_watched);
} watched_scratch SEC(".maps");

/* What a thread does that does not run. */
struct watched_wait {
	__u64 wake_ns; /* as in its account */
	__u32 task_state;
	__u32 early_factor;
	bool is_seen; /* the kernel has reported that it left its CPU */
	bool in_iowait;
};

/* Reads the account of a thread as it is at `now`, without its wait that is not over; returns when
 * that began, 0 if the thread runs. The thread may go on meanwhile. */
static __always_inline __u64 read_account(struct task_struct *task,
					  volatile struct thread_state *state, __u64 now,
					  struct prof_thread_time *time)
{
	__u64 run_ns = task->se.sum_exec_runtime, in_ns = state->in_ns;
	__u64 out_ns = left_at((const struct thread_state *)state, false);
	__u64 since = in_ns ? in_ns : known_since((const struct thread_state *)state);
	__u64 ran = run_ns > state->run_ns ? run_ns - state->run_ns : 0, left;

	time->on_cpu_ns = state->on_cpu_ns;
	time->no_cpu_ns = state->no_cpu_ns;
	time->blocked_ns = state->blocked_ns;
	time->switches = state->switches;
	if (!task->on_cpu) {
		if (out_ns)
			return out_ns;
		if (!in_ns)
			return since;
		/* The kernel has not reported the switch: as left_unseen. */
		left = in_ns + ran < now ? in_ns + ran : now;
		time->on_cpu_ns += left - in_ns;
		return left;
	}
	if (out_ns && out_ns < now) {
		/* The same of the switch to it: as entered_unseen. */
		if (ran > now - out_ns)
			ran = now - out_ns;
		time->on_cpu_ns += ran;
		if (state->task_state)
			time->blocked_ns += now - out_ns - ran;
		else
			time->no_cpu_ns += now - out_ns - ran;
		return 0;
	}
	time->on_cpu_ns += now > since ? now - since : 0;
	return 0;
}

/* Reads what belongs to the wait of a thread that is not over. */
static __always_inline void read_wait(volatile struct thread_state *state,
				      struct watched_wait *wait)
{
	wait->wake_ns = state->wake_ns;
	wait->task_state = state->task_state;
	wait->early_factor = state->early_factor;
	wait->in_iowait = state->in_iowait;
	wait->is_seen = state->out_ns || !state->in_ns;
}

/* Reads a thread's account and its wait that is not over as they are now, and in `left` when that
 * began; false if the thread changed them meanwhile. */
static __always_inline bool read_watched(struct task_struct *task, struct thread_state *state,
					 struct prof_watched *watched, struct watched_wait *wait,
					 __u64 *left)
{
	__u64 changes = *(volatile __u64 *)&state->changes;

	watched->time.to_ns = time_in_span();
	*left = read_account(task, state, watched->time.to_ns, &watched->time);
	read_wait(state, wait);
	return !(changes & 1) && changes == *(volatile __u64 *)&state->changes;
}

/* Adds the wait of a thread that is not over, and began at `left`, to what is written of the
 * thread; sends its stack, if that is new. */
static __always_inline void watch_wait(struct scratch *s, struct task_struct *task,
				       struct thread_state *state, struct prof_watched *watched,
				       struct watched_wait *wait, __u64 left)
{
	__u64 now = watched->time.to_ns, woken;
	__u32 factor = 1;

	if (!wait->is_seen)
		wait->task_state = *(volatile unsigned int *)&task->__state;
	woken = wait->task_state ? wait->wake_ns : left;
	watched->does = wait->task_state && !woken ? PROF_DOES_WAIT : PROF_DOES_WANT_CPU;
	/* Where stacks are taken when waits begin, the factor was decided then: 0 for a wait that
	 * was dropped. */
	if (stack_when_leaving && wait->is_seen)
		factor = wait->early_factor;
	watched->is_new = now <= left + PROF_OPEN_LEAST_NS;
	if ((factor || watched->is_new) && is_wanted_wait(task)) {
		watched->open_ns = left;
		watched->wake_ns = woken;
		watched->factor = factor;
		watched->reason = wait->task_state ?
					  block_reason(task, wait->task_state, wait->in_iowait) :
					  PROF_REASON_NO_CPU;
		if (!watched->is_new && state->sent_ns != left && span.open_room) {
			span.open_room--;
			state->sent_ns = left;
			s->wait.start_ns = left;
			s->wait.wake_ns = now;
			s->wait.end_ns = now;
			s->wait.blocked_weight = 0;
			s->wait.no_cpu_weight = 0;
			s->wait.waker = PROF_WAKER_NONE;
			s->wait.reason = watched->reason;
			send_open_wait(s, task, state, PROF_WAIT_STILL);
		}
	}
	if (!woken || woken > now)
		woken = now;
	if (woken < left)
		woken = left;
	watched->time.blocked_ns += woken > left ? woken - left : 0;
	watched->time.no_cpu_ns += now > woken ? now - woken : 0;
}

/* While a recording is watched: writes a struct prof_watched for each thread, and sends the stack
 * of its wait that is not over, if that is new. Changes nothing of what is recorded: a wait that
 * ends meanwhile is sent at its end. */
SEC("iter.s/task")
int threads_watched(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 left = 0;
	__u32 zero = 0;
	struct thread_state *state;
	struct prof_watched *watched;
	struct watched_wait wait = {};
	struct scratch *s;

	if (!task || !time_in_span())
		return 0;
	state = state_of(task);
	s = bpf_map_lookup_elem(&blocked_scratch, &zero);
	watched = bpf_map_lookup_elem(&watched_scratch, &zero);
	if (!state || state->has_ended || !s || !watched)
		return 0;
	/* No loop: Linux 6.1 would find a "back-edge", as in python_check. */
	if (!read_watched(task, state, watched, &wait, &left) &&
	    !read_watched(task, state, watched, &wait, &left) &&
	    !read_watched(task, state, watched, &wait, &left))
		read_watched(task, state, watched, &wait, &left);
	watched->time.tgid = state->tgid;
	watched->time.tid = state->tid;
	watched->time.has_ended = false;
	watched->time.from_ns = known_since(state);
	bpf_probe_read_kernel(watched->time.comm, sizeof(watched->time.comm), task->comm);
	__builtin_memcpy(watched->time.short_waits, state->short_waits,
			 sizeof(watched->time.short_waits));
	watched->open_ns = 0;
	watched->wake_ns = 0;
	watched->factor = 0;
	watched->is_new = 0;
	watched->does = PROF_DOES_RUN;
	if (!left) {
		bpf_seq_write(ctx->meta->seq, watched, sizeof(*watched));
		return 0;
	}
	watch_wait(s, task, state, watched, &wait, left);
	bpf_seq_write(ctx->meta->seq, watched, sizeof(*watched));
	return 0;
}

#endif /* PROF_BLOCKED_BPF_H */
