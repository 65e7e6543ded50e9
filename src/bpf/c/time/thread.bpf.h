/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the whole time of each thread goes: on a CPU, ready without one, or blocked. */
#ifndef PROF_THREAD_BPF_H
#define PROF_THREAD_BPF_H

#define TASK_STOPPED_OR_TRACED 0x0c /* include/linux/sched.h */
#define TASK_DEAD 0x80
#define TASK_PARKED 0x40
#define TASK_FROZEN 0x8000
#define TASK_NEW 0x0800

/*
 * What is known of a thread: its account. Kept with the task, and freed with it: numbers are used
 * again. It is begun where no lock of the scheduler is held, since it is allocated: before the
 * recording for the threads that are there, at fork and exec for the others. Under these locks it
 * is only looked up.
 */
struct thread_state {
	__u64 from_ns;	/* its start; 0: before the recording's */
	__u64 in_ns;	/* last came on a CPU; 0: not seen */
	__u64 out_ns;	/* last left one; 0 while it is on one, and if not seen */
	__u64 wake_ns;	/* was woken since; 0 if not */
	__u64 run_ns;	/* the scheduler's count of its running time when it last left */
	__u64 delay_ns; /* and of the time that it was ready to run without a CPU */
	__u64 on_cpu_ns;
	__u64 no_cpu_ns;
	__u64 blocked_ns;
	__u64 switches;
	/* Odd while the account changes: a reader that sees that reads it again. */
	__u64 changes;
	__u64 sent_ns;	      /* when the wait left whose stack was sent while it went on */
	__u64 blocked_weight; /* weight of the blocked part, decided when it was woken */
	/* Its numbers, as prof has them: exec gives it another tid before this here follows, and
	 * in a PID namespace it has none any more when it leaves its CPU for the last time. */
	__u32 tgid;
	__u32 tid;
	__u32 waker_tid;
	__u32 waker_tgid;
	__u32 early_factor; /* one of this many waits has its stack sent when it begins, and this
			       one has */
	__u32 task_state;   /* when it left the CPU; 0: it could have run on */
	__u8 waker;	    /* enum prof_waker */
	__u8 in_iowait;
	__u8 is_decided; /* blocked_weight counts */
	__u8 has_ended;
	__u8 was_off;	  /* on no CPU when the recording began, and its time until then counts for
			     nothing: the scheduler's counts are of then */
	__u32 is_counted; /* in PROF_COUNT_ACCOUNT */
	__u8 waker_comm[PROF_COMM_BYTES];
	struct prof_short_waits short_waits[PROF_REASONS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} thread_states SEC(".maps");

/* The numbers of the current thread: those by which it is recorded once it has given up its own. */
static __always_inline struct numbers recorded_numbers(struct task_struct *current)
{
	struct numbers numbers = numbers_of(current);
	struct thread_state *state;

	if (!in_namespace || numbers.tid)
		return numbers;
	state = bpf_task_storage_get(&thread_states, current, NULL, 0);
	if (state) {
		numbers.tgid = state->tgid;
		numbers.tid = state->tid;
	}
	return numbers;
}

/* The time that counts: none before the recording, and none after it. 0: not yet. */
static __always_inline __u64 time_in_span(void)
{
	__u64 now, start = *(volatile __u64 *)&span.start_ns;
	__u64 stop = *(volatile __u64 *)&span.stop_ns;

	if (!start)
		return 0;
	now = bpf_ktime_get_ns();
	if (now < start)
		return 0;
	return stop && now > stop ? stop : now;
}

/* Whether `time` is not before the recording's end. */
static __always_inline bool is_over_at(__u64 time)
{
	__u64 stop = *(volatile __u64 *)&span.stop_ns;

	return stop && time >= stop;
}

/* Whether a thread's time is recorded. That of one that is dead, and off its CPU for good, is over,
 * however long it is not looked at. */
static __always_inline bool is_recorded(struct task_struct *task, struct numbers numbers)
{
	if (!numbers.tid || (task->flags & PF_KTHREAD) || (task->exit_state && !task->on_cpu))
		return false;
	return filter == PROF_FILTER_NONE ||
	       is_target(bpf_map_lookup_elem(&processes, &numbers.tgid), numbers.tid);
}

/* The account of a thread; NULL if it has none. */
static __always_inline struct thread_state *state_of(struct task_struct *task)
{
	return bpf_task_storage_get(&thread_states, task, NULL, 0);
}

/* Whether a thread is to have an account. */
static __always_inline bool wants_state(struct task_struct *task)
{
	return *(volatile __u64 *)&span.is_open && is_recorded(task, numbers_of(task)) &&
	       !is_over_at(task->start_time);
}

/* Begins the account of a thread, which is `first`. Allocates memory: never under the scheduler's
 * locks. Returns whether it was begun here: fork and a look at all threads may find one thread
 * without an account at the same time, and then both get the one that the first has made. */
static __always_inline bool begin_state(struct task_struct *task, struct thread_state *first)
{
	struct numbers numbers = numbers_of(task);
	struct thread_state *state;

	first->tgid = numbers.tgid;
	first->tid = numbers.tid;
	/* What it waits for already is kept, though its stack was not taken. */
	first->early_factor = 1;
	state = bpf_task_storage_get(&thread_states, task, first, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {
		*(volatile __u64 *)&span.has_missed = 1;
		return false;
	}
	if (__sync_lock_test_and_set(&state->is_counted, 1))
		return false;
	count(PROF_COUNT_ACCOUNT);
	return true;
}

/* Since when a thread is known that has not run yet: its start, or 0 if it was there before the
 * recording. */
static __always_inline __u64 new_since(const struct task_struct *task)
{
	return span.start_ns && task->start_time > span.start_ns ? task->start_time : 0;
}

/* Begins the account of a thread that has not run yet. */
static __always_inline void begin_new_thread(struct task_struct *task)
{
	struct thread_state first = {};

	if (!wants_state(task))
		return;
	first.from_ns = new_since(task);
	begin_state(task, &first);
}

/* How long a thread was ready to run without a CPU so far, by the scheduler's books; 0 if it keeps
 * none. */
static __always_inline __u64 delay_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/*
 * Begins the account of a thread that is there. Before the recording nothing has to be known: what
 * it does at the start it has done since, until it is seen to leave or enter a CPU. During it the
 * thread has been missed, and its time counts from now on; but one that has not run yet is just
 * being made, and misses nothing.
 */
static __always_inline void begin_old_thread(struct task_struct *task)
{
	struct thread_state first = {};
	__u64 now = time_in_span();
	bool is_new = task->__state & TASK_NEW, is_missed = now && !is_new;

	if (!wants_state(task))
		return;
	if (is_new) {
		first.from_ns = new_since(task);
	} else if (now) {
		first.from_ns = now;
		first.run_ns = task->se.sum_exec_runtime;
		first.delay_ns = delay_of(task);
		if (task->on_cpu) {
			first.in_ns = now;
		} else {
			first.out_ns = now;
			first.task_state = task->__state;
			first.in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
		}
	}
	if (begin_state(task, &first) && is_missed)
		count(PROF_COUNT_NO_STATE);
}

/* A thread without an account leaves a CPU, for the last time if it `ends`. That is counted if it
 * is recorded, and user space notified: it has the threads that are there looked at again. */
static __always_inline void miss_switch(struct task_struct *task, bool ends)
{
	/* Those that end before the recording has begun are no loss. */
	if (!time_in_span())
		return;
	/* The others were there when all were looked at. */
	if (!ends && task->start_time <= span.start_ns)
		return;
	if (!wants_state(task))
		return;
	count(PROF_COUNT_SWITCH_NO_STATE);
	if (ends)
		count(PROF_COUNT_NO_STATE);
	else
		*(volatile __u64 *)&span.has_missed = 1;
}

/* A thread has ended before the recording began: nothing waits for its account. */
static __always_inline void drop_state(struct thread_state *state)
{
	if (state->has_ended)
		return;
	state->has_ended = 1;
	add(PROF_COUNT_ACCOUNT, -1);
}

/* Begins or ends a change of the account. One CPU at a time does that for a thread: the one that
 * switches, or the one that wakes it long after. */
static __always_inline void mark_change(struct thread_state *state)
{
	*(volatile __u64 *)&state->changes = state->changes + 1;
}

/* Since when a thread is known. */
static __always_inline __u64 known_since(const struct thread_state *state)
{
	return state->from_ns ? state->from_ns : span.start_ns;
}

/* When a thread left its CPU; 0 if it is on one. `is_off` says it of a thread that was not seen
 * yet. */
static __always_inline __u64 left_at(const struct thread_state *state, bool is_off)
{
	if (state->out_ns || state->in_ns)
		return state->out_ns;
	return is_off || state->was_off ? known_since(state) : 0;
}

/* Adds a wait that is too short for a stack. */
static __always_inline void add_short(struct thread_state *state, __u32 reason, __u64 length)
{
	if (!length || reason >= PROF_REASONS)
		return;
	state->short_waits[reason].count++;
	state->short_waits[reason].time_ns += length;
}

/* A thread that comes on a CPU without having been seen to leave one: the scheduler's count says
 * when it did. */
static __always_inline __u64 left_unseen(struct thread_state *state, __u64 run_ns, __u64 now)
{
	__u64 left = state->in_ns + (run_ns - state->run_ns);

	count(PROF_COUNT_SWITCH_MISSED);
	if (left > now)
		left = now;
	state->on_cpu_ns += left - state->in_ns;
	state->run_ns = run_ns;
	state->task_state = 0;
	return left;
}

/* How long a thread was ready to run since it last left its CPU, by the scheduler's books; 0 if it
 * keeps none. */
static __always_inline __u64 delay_since(const struct thread_state *state, struct task_struct *task)
{
	__u64 delay = delay_of(task), queued = 0, now = 0;

	delay = delay > state->delay_ns ? delay - state->delay_ns : 0;
	if (bpf_core_field_exists(task->sched_info.last_queued) &&
	    bpf_core_field_exists(task->se.cfs_rq) &&
	    bpf_core_field_exists(((struct cfs_rq *)0)->rq)) {
		queued = task->sched_info.last_queued;
		now = BPF_CORE_READ(task, se.cfs_rq, rq, clock);
	}
	return delay + (queued && now > queued ? now - queued : 0);
}

/* A thread that leaves a CPU without having been seen to come on one: the same. Its wait has no
 * stack. */
static __always_inline void entered_unseen(struct thread_state *state, struct task_struct *task,
					   __u64 now)
{
	__u64 out_ns = left_at(state, false), delay = delay_since(state, task);
	__u64 ran = task->se.sum_exec_runtime - state->run_ns, passed = now - out_ns;
	__u64 blocked = 0, waited;

	count(PROF_COUNT_SWITCH_MISSED);
	waited = ran < passed ? passed - ran : 0;
	if (state->task_state) {
		blocked = delay < waited ? waited - delay : 0;
		if (state->wake_ns && state->wake_ns - out_ns < waited)
			blocked = state->wake_ns - out_ns;
	}
	state->blocked_ns += blocked;
	state->no_cpu_ns += waited - blocked;
	add_short(state, PROF_REASON_OTHER, blocked);
	add_short(state, PROF_REASON_NO_CPU, waited - blocked);
	state->in_ns = out_ns + waited;
	state->out_ns = 0;
}

/* A thread that left at `left` comes on a CPU: where the kernel has not reported that it was woken,
 * the same. */
static __always_inline void woken_unseen(struct thread_state *state, struct task_struct *task,
					 __u64 left, __u64 now)
{
	__u64 delay;

	if (!state->task_state || state->wake_ns || now <= left || is_over_at(now))
		return;
	delay = delay_since(state, task);
	state->wake_ns = delay < now - left ? now - delay : left;
}

/* `task` has left the CPU, and its time on it has been added up. */
static __always_inline void leave_at(struct task_struct *task, struct thread_state *state,
				     __u64 now, __u32 task_state)
{
	state->switches++;
	state->delay_ns = delay_of(task);
	state->task_state = task_state;
	state->in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	state->wake_ns = 0;
	state->is_decided = 0;
	/* A wait whose beginning was not reported is kept, without a stack. */
	state->early_factor = 1;
	state->waker = PROF_WAKER_NONE;
	state->out_ns = now;
}

/* What the file of a descriptor makes a thread wait for. */
static __always_inline __u32 reason_of_file(struct task_struct *task, __u64 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = NULL;
	struct socket *socket;
	unsigned short mode;

	if (!table || descriptor >= BPF_CORE_READ(table, max_fds))
		return PROF_REASON_OTHER;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	if (!file)
		return PROF_REASON_OTHER;
	mode = BPF_CORE_READ(file, f_inode, i_mode) & 0170000; /* include/uapi/linux/stat.h */
	if (mode == 0140000) {
		socket = BPF_CORE_READ(file, private_data);
		return BPF_CORE_READ(socket, sk, __sk_common.skc_family) == 1 /* AF_UNIX */ ?
			       PROF_REASON_PIPE :
			       PROF_REASON_NETWORK;
	}
	if (mode == 0100000 || mode == 0040000 || mode == 0060000)
		return PROF_REASON_DISK;
	return PROF_REASON_PIPE; /* pipes, terminals, eventfds */
}

/* Why a thread that left the CPU with `state` is blocked. */
static __always_inline __u32 block_reason(struct task_struct *task, __u32 state, bool in_iowait)
{
	__s64 number = system_call(task);
	__u32 reason;

	if (state & (TASK_STOPPED_OR_TRACED | TASK_PARKED | TASK_FROZEN))
		return PROF_REASON_STOPPED;
	if (number == -1)
		return PROF_REASON_FAULT;
	reason = number < 0 ? PROF_REASON_OTHER : syscall_reasons[number & 511];
	/* Programs sleep by waiting for nothing, where they want parts of a second. */
	if (reason == PROF_REASON_BY_FIRST_COUNT)
		reason = (__u32)system_call_argument(task) ? PROF_REASON_POLL : PROF_REASON_SLEEP;
	else if (reason == PROF_REASON_BY_SECOND_COUNT)
		reason = (__u32)second_system_call_argument(task) ? PROF_REASON_POLL :
								    PROF_REASON_SLEEP;
	/* io_uring counts as waiting for a disk, whatever it does. */
	if (in_iowait && reason != PROF_REASON_FAULT && reason != PROF_REASON_POLL)
		return PROF_REASON_DISK;
	if (reason == PROF_REASON_BY_FILE)
		reason = reason_of_file(task, system_call_argument(task));
	return reason < PROF_REASONS ? reason : PROF_REASON_OTHER;
}

/* Sends the times of a thread up to `now`. */
static __always_inline void send_thread_time(struct thread_state *state, struct task_struct *task,
					     __u64 now, bool has_ended)
{
	struct prof_thread_time *time;

	if (state->has_ended)
		return;
	time = bpf_ringbuf_reserve(&thread_times, sizeof(*time), 0);
	if (!time) {
		count(PROF_COUNT_THREAD_FULL);
		return;
	}
	count(PROF_COUNT_ACCOUNT_SENT);
	state->has_ended = 1;
	time->tgid = state->tgid;
	time->tid = state->tid;
	time->has_ended = has_ended;
	time->pad = 0;
	time->from_ns = known_since(state);
	time->to_ns = now;
	time->on_cpu_ns = state->on_cpu_ns;
	time->no_cpu_ns = state->no_cpu_ns;
	time->blocked_ns = state->blocked_ns;
	time->switches = state->switches;
	bpf_probe_read_kernel(time->comm, sizeof(time->comm), task->comm);
	__builtin_memcpy(time->short_waits, state->short_waits, sizeof(time->short_waits));
	bpf_ringbuf_submit(time, BPF_RB_NO_WAKEUP);
}

/* A thread that calls exec takes the number of its process's first thread: its time goes on under
 * that one. Where there is no room to send what it was before, all of it does. */
static __always_inline void renumber(struct thread_state *state, struct task_struct *task,
				     __u64 now)
{
	__u64 since = state->in_ns ? state->in_ns : known_since(state);
	__u32 tid = numbers_of(task).tid;

	if (tid && state->tid != tid) {
		state->on_cpu_ns += now > since ? now - since : 0;
		send_thread_time(state, task, now, true);
		if (state->has_ended) {
			count(PROF_COUNT_ACCOUNT);
			state->has_ended = 0;
			state->from_ns = now;
			state->on_cpu_ns = 0;
			state->no_cpu_ns = 0;
			state->blocked_ns = 0;
			state->switches = 0;
			__builtin_memset(state->short_waits, 0, sizeof(state->short_waits));
		}
		state->in_ns = now;
		state->tid = tid;
	}
}

#endif /* PROF_THREAD_BPF_H */
