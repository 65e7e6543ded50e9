/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampler of waits. The accounting of time sees every switch; stacks are taken of the waits
 * that are kept, where their length is known: when the thread is back. Where the kernel has no
 * place for that (before 6.15), some waits, chosen at random, have theirs taken when they begin.
 */
#ifndef PROF_OFFCPU_BPF_H
#define PROF_OFFCPU_BPF_H

#include "time/budget.bpf.h"

/* arch/x86/include/asm/page_64_types.h, arch/arm64/include/asm/memory.h */
#define KERNEL_STACK_BYTES 16384

/* Working memory of this sampler, and of that of wakers: a waker may be an interrupt's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} wait_scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} waker_scratches SEC(".maps");

/* Whether the program runs for an interrupt that has come while the current thread ran. That has a
 * stack of its own, and `ctx`, where the caller put the arguments, lies on it. */
static __always_inline bool is_interrupt(void *ctx, struct wait_budget *budget)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 stack = (__u64)task->stack;

	/* As a number: a pointer cannot be compared. */
	*(void *volatile *)&budget->context = ctx;
	return *(volatile __u64 *)&budget->context - stack >= KERNEL_STACK_BYTES;
}

/* Puts the wait, sample and frames that are in the scratch into their ring. Wakes the reader when
 * that fills up, where that may be done; elsewhere the sampler does, or the reader looks more
 * often. */
static __always_inline long output_wait(struct scratch *s, __u32 frame_bytes, enum place place)
{
	__u64 bytes = sizeof(s->wait) + sizeof(s->sample) + frame_bytes;

	if (place == PLACE_FREE && waits_fill_up())
		return bpf_ringbuf_output(&waits, &s->wait, bytes, BPF_RB_FORCE_WAKEUP);
	return bpf_ringbuf_output(&waits, &s->wait, bytes, BPF_RB_NO_WAKEUP);
}

/* Sends the wait, sample and frames that are in the scratch. */
static __always_inline void send_wait(struct scratch *s, __u32 frame_bytes, enum place place)
{
	if (output_wait(s, frame_bytes, place)) {
		if (s->wait.kind == PROF_WAIT_STILL)
			return; /* nothing is lost: its end will be sent */
		count(PROF_COUNT_WAIT_FULL);
		add(PROF_COUNT_WAIT_FULL_NS, s->wait.blocked_weight + s->wait.no_cpu_weight);
	} else if (s->wait.kind != PROF_WAIT_STILL) {
		count(s->wait.kind == PROF_WAIT_WAKER ? PROF_COUNT_WAKER_SENT :
							PROF_COUNT_WAIT_SENT);
	}
}

/* The current stack, kernel and, if wanted, user, goes out with the wait in the scratch. */
static __always_inline void send_current(void *ctx, struct scratch *s, __u64 now, bool has_user,
					 enum place place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process;
	long found;

	begin_sample(s, now, numbers.tgid, numbers.tid);
	s->sends_codes = place == PLACE_FREE;
	s->sample.flags = PROF_SAMPLE_KERNEL_MODE;
	found = bpf_get_stack(ctx, s->frames, PROF_MAX_KERNEL_FRAMES * 8, 0);
	if (found > 0)
		s->kernel_count = found / 8;
	if (has_user) {
		process = bpf_map_lookup_elem(&processes, &numbers.tgid);
		take_user_stack(s, NULL, task, process, place);
		/* The process may end before it is sampled. */
		if (place == PLACE_FREE && interpreters && process)
			send_wait_codes(s, &process->runtime);
	} else {
		s->outcome = PROF_OUTCOME_NO_USER_STACK;
	}
	send_wait(s, finish_sample(s), place);
}

/* `task` leaves the CPU. */
static __always_inline void leave(struct task_struct *task, struct thread_state *state, __u64 now,
				  __u32 task_state)
{
	__u64 run_ns = task->se.sum_exec_runtime, since, left;

	mark_change(state);
	left = left_at(state, false);
	if (left && now > left)
		entered_unseen(state, task, now);
	since = state->in_ns ? state->in_ns : known_since(state);
	state->run_ns = run_ns;
	state->on_cpu_ns += now > since ? now - since : 0;
	leave_at(task, state, now, task_state);
	mark_change(state);
}

/* The current thread wakes `task`: notes who that is, and sends its stack. Of one that is not in
 * the namespace of prof nothing but its name and the kernel's part of its stack are taken. */
static __always_inline void send_waker(void *ctx, struct task_struct *task,
				       struct thread_state *state, struct wait_budget *budget,
				       __u64 now)
{
	struct numbers numbers = recorded_numbers(bpf_get_current_task_btf());
	struct scratch *s;
	__u32 zero = 0;

	state->waker_tid = numbers.tid;
	state->waker_tgid = numbers.tgid;
	state->waker = is_interrupt(ctx, budget) ? PROF_WAKER_INTERRUPT : PROF_WAKER_THREAD;
	bpf_get_current_comm(state->waker_comm, sizeof(state->waker_comm));
	s = bpf_map_lookup_elem(&waker_scratches, &zero);
	if (!s)
		return;
	s->wait.kind = PROF_WAIT_WAKER;
	s->wait.other_tid = numbers_of(task).tid;
	s->wait.waker = state->waker;
	s->wait.wake_ns = now;
	s->wait.blocked_weight = 0;
	s->wait.no_cpu_weight = 0;
	send_current(ctx, s, now,
		     state->waker == PROF_WAKER_THREAD && (!in_namespace || numbers.tid),
		     PLACE_SWITCH);
}

/* A thread is about to be woken: that is the end of being blocked, and the waker is current. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct thread_state *state = state_of(task);
	struct wait_budget *budget;
	__u64 now, left, length;
	__u32 zero = 0;

	if (!state)
		return 0;
	now = time_in_span();
	/* After the end of the recording nothing counts: a wait that was ongoing stays ongoing. */
	if (is_over_at(now))
		return 0;
	/* Where the kernel did not report the switch: the state is still that in which it left. */
	if (now && state->in_ns && !state->out_ns && !task->on_cpu && task->__state) {
		mark_change(state);
		left = left_unseen(state, task->se.sum_exec_runtime, now);
		leave_at(task, state, left, task->__state);
		mark_change(state);
	}
	if (state->wake_ns || !state->task_state)
		return 0;
	left = left_at(state, true);
	budget = bpf_map_lookup_elem(&wait_budgets, &zero);
	if (!now || !left || now < left || !budget)
		return 0;
	length = now - left;
	if (length >= min_block_ns && is_wanted_wait(task)) {
		/* Whether a wait is kept is decided once: the waker of a kept wait is wanted. */
		state->blocked_weight =
			stack_when_leaving ?
				length * state->early_factor :
				sampled_weight(budget, length, kept_length(budget, now));
		state->is_decided = 1;
	}
	state->wake_ns = now;
	count_run(now);
	if (!state->is_decided || !state->blocked_weight)
		return 0;
	send_waker(ctx, task, state, budget, now);
	pay(budget, now);
	return 0;
}

/* A new thread waits for its first CPU. Its account was begun at fork. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_new_thread, struct task_struct *task)
{
	__u64 now = time_in_span();
	struct thread_state *state = now ? state_of(task) : NULL;

	if (state && !state->in_ns && !state->out_ns) {
		state->from_ns = now;
		state->out_ns = now;
		state->task_state = 0;
		state->early_factor = 0;
	}
	return 0;
}

/* A thread that was none of the recorded ones may be one after exec: a launched command. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec_thread, struct task_struct *task)
{
	struct thread_state first = {}, *state;
	__u64 now = time_in_span();

	if (!now || is_over_at(now))
		return 0;
	state = state_of(task);
	if (state) {
		renumber(state, task, now);
		return 0;
	}
	if (!wants_state(task))
		return 0;
	first.from_ns = now;
	first.in_ns = now;
	begin_state(task, &first);
	return 0;
}

/* A thread is gone for good, and the kernel has not reported its last switch: the scheduler's count
 * says when it ran last. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(on_gone_thread, struct task_struct *task)
{
	struct thread_state *state = state_of(task);
	__u64 now = time_in_span(), left;

	if (!state || state->has_ended)
		return 0;
	if (!now) {
		/* It was given one after its last switch. */
		drop_state(state);
		return 0;
	}
	left = state->out_ns;
	if (!left && state->in_ns) {
		left = left_unseen(state, task->se.sum_exec_runtime, now);
	} else if (!left) {
		/* It has run from the start on. */
		left = now;
		state->on_cpu_ns = now - known_since(state);
	}
	send_thread_time(state, task, left, true);
	return 0;
}

/* Fills in what a wait that is over takes from the account of its thread. */
static __always_inline void end_with_account(struct task_struct *task, struct prof_wait *wait,
					     const struct thread_state *state)
{
	note_futex(task, wait);
	wait->kind = PROF_WAIT_ENDED;
	wait->on_cpu_ns = state->on_cpu_ns;
	wait->no_cpu_ns = state->no_cpu_ns;
	wait->blocked_ns = state->blocked_ns;
	wait->waker = state->waker;
	wait->other_tid = state->waker_tid;
	wait->other_tgid = state->waker_tgid;
	__builtin_memcpy(wait->other_comm, state->waker_comm, sizeof(wait->other_comm));
}

/* Closes the wait of a thread that left at `start`: adds its parts up, and decides whether it is
 * sent. Returns whether it is; then `wait` is filled in. */
static __always_inline bool close_wait(struct task_struct *task, struct thread_state *state,
				       struct wait_budget *budget, struct prof_wait *wait,
				       __u64 start, __u64 now, bool keeps_all)
{
	__u64 wake = start, blocked, no_cpu, kept = 0;
	__u64 blocked_weight = 0, no_cpu_weight = 0;
	__u32 reason = PROF_REASON_NO_CPU;

	if (now < start)
		now = start;
	if (state->task_state) {
		wake = state->wake_ns ? state->wake_ns : now;
		if (wake > now)
			wake = now;
	}
	blocked = wake - start;
	no_cpu = now - wake;
	state->blocked_ns += blocked;
	state->no_cpu_ns += no_cpu;
	if (!is_wanted_wait(task))
		return false;
	if (state->from_ns && !state->in_ns && !state->task_state) {
		/* Its first: it has not been anywhere yet, and comes by another way. */
		add_short(state, PROF_REASON_NO_CPU, no_cpu);
		return false;
	}
	if (!keeps_all && (blocked >= min_block_ns || no_cpu >= min_block_ns))
		kept = kept_length(budget, now);
	if (blocked < min_block_ns)
		blocked_weight = 0;
	else if (stack_when_leaving && !keeps_all)
		blocked_weight = blocked * state->early_factor;
	else
		blocked_weight = state->is_decided ? state->blocked_weight :
						     sampled_weight(budget, blocked, kept);
	/* It takes a while to find out: not for waits that are not reported. */
	if (blocked && (blocked_weight || blocked < min_block_ns))
		reason = block_reason(task, state->task_state, state->in_iowait);
	if (blocked < min_block_ns)
		add_short(state, reason, blocked);
	if (no_cpu < min_block_ns)
		add_short(state, PROF_REASON_NO_CPU, no_cpu);
	else if (stack_when_leaving && !keeps_all)
		no_cpu_weight = no_cpu * state->early_factor;
	else
		no_cpu_weight = sampled_weight(budget, no_cpu, kept);
	if ((blocked >= min_block_ns && !blocked_weight) ||
	    (no_cpu >= min_block_ns && !no_cpu_weight))
		count(PROF_COUNT_WAIT_THINNED);
	if (!blocked_weight && !no_cpu_weight)
		return false;
	wait->start_ns = start;
	wait->wake_ns = wake;
	wait->end_ns = now;
	wait->blocked_weight = blocked_weight;
	wait->no_cpu_weight = no_cpu_weight;
	wait->reason = reason;
	end_with_account(task, wait, state);
	return true;
}

/* `task` comes on the CPU. Returns whether its wait is to be sent: `budget->pending`. */
static __always_inline bool enter(struct task_struct *task, struct thread_state *state,
				  struct wait_budget *budget, __u64 now)
{
	__u64 left = left_at(state, true);
	bool is_sent;

	mark_change(state);
	if (!left)
		left = left_unseen(state, task->se.sum_exec_runtime, now);
	woken_unseen(state, task, left, now);
	is_sent = close_wait(task, state, budget, &budget->pending, left, now, false);
	state->run_ns = task->se.sum_exec_runtime;
	state->in_ns = now;
	state->out_ns = 0;
	mark_change(state);
	return is_sent;
}

/* With sched_exit_tp: that is where stacks are taken. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	__u32 zero = 0;
	struct wait_budget *budget = bpf_map_lookup_elem(&wait_budgets, &zero);
	struct thread_state *left, *entered;
	bool ends = prev_state & TASK_DEAD;
	__u64 now = 0;

	if (!budget)
		return 0;
	budget->next_tid = next->pid;
	budget->pending_tid = 0;
	if (!*(volatile __u64 *)&span.is_open)
		return 0;
	left = state_of(prev);
	entered = state_of(next);
	if (left) {
		now = time_in_span();
		if (!now) {
			if (ends)
				drop_state(left);
			return 0;
		}
		leave(prev, left, now, preempt ? 0 : prev_state);
		if (ends)
			send_thread_time(left, prev, now, true);
	} else {
		miss_switch(prev, ends);
	}
	if (entered) {
		if (!now)
			now = time_in_span();
		if (!now)
			return 0;
		if (enter(next, entered, budget, now))
			budget->pending_tid = next->pid;
	}
	if (now)
		count_run(now);
	return 0;
}

/* The current thread has come on the CPU, of which the kernel did not tell. Returns as `enter`. */
static __always_inline bool came_unseen(struct wait_budget *budget)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = state_of(task);
	__u64 now = time_in_span();

	if (!now || !state || !state->out_ns)
		return false;
	count(PROF_COUNT_SWITCH_MISSED);
	return enter(task, state, budget, now);
}

/* The current thread is back: interrupts are on, and no lock of the scheduler is held. */
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_back)
{
	__u32 zero = 0, tid = (__u32)bpf_get_current_pid_tgid();
	struct wait_budget *budget = bpf_map_lookup_elem(&wait_budgets, &zero);
	struct scratch *s;
	__u64 now;

	if (!budget || !tid)
		return 0;
	/* Some switches are reported only here, and that there was none (its argument, 6.18).
	 */
	if (budget->next_tid != tid) {
		budget->next_tid = tid;
		budget->pending_tid = came_unseen(budget) ? tid : 0;
	}
	if (budget->pending_tid != tid)
		return 0;
	budget->pending_tid = 0;
	s = bpf_map_lookup_elem(&wait_scratches, &zero);
	if (!s)
		return 0;
	now = bpf_ktime_get_ns();
	s->wait = budget->pending;
	read_first_futex(&s->wait, true);
	send_current(ctx, s, now, true, PLACE_FREE);
	pay(budget, now);
	return 0;
}

/* Without sched_exit_tp: stacks are taken here, before the length of the wait is known, at random.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_early, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	__u64 now = time_in_span();
	struct wait_budget *budget;
	struct thread_state *state;
	struct scratch *s;
	__u32 zero = 0, factor;
	bool ends = prev_state & TASK_DEAD;

	if (!*(volatile __u64 *)&span.is_open)
		return 0;
	state = state_of(prev);
	if (!now) {
		if (state && ends)
			drop_state(state);
		return 0;
	}
	budget = bpf_map_lookup_elem(&wait_budgets, &zero);
	s = bpf_map_lookup_elem(&wait_scratches, &zero);
	if (!budget || !s)
		return 0;
	if (!state) {
		miss_switch(prev, ends);
	} else {
		leave(prev, state, now, preempt ? 0 : prev_state);
		state->early_factor = 0;
		if (ends) {
			send_thread_time(state, prev, now, true);
		} else if (!is_over_at(now) && is_wanted_wait(prev)) {
			factor = early_factor(budget, now);
			if (factor == 1 || bpf_get_prandom_u32() % factor == 0) {
				state->early_factor = factor;
				s->wait.kind = PROF_WAIT_STACK;
				s->wait.start_ns = now;
				s->wait.blocked_weight = 0;
				s->wait.no_cpu_weight = 0;
				send_current(ctx, s, now, true, PLACE_SWITCH);
				pay(budget, now);
			}
		}
	}
	state = state_of(next);
	if (state && enter(next, state, budget, now)) {
		/* The stack was sent before: only the thread has to be named. */
		s->wait = budget->pending;
		read_first_futex(&s->wait, false);
		begin_sample(s, now, state->tgid, state->tid);
		bpf_probe_read_kernel(s->sample.comm, sizeof(s->sample.comm), next->comm);
		s->outcome = PROF_OUTCOME_UNSET;
		send_wait(s, finish_sample(s), PLACE_SWITCH);
	}
	return 0;
}

#endif /* PROF_OFFCPU_BPF_H */
