/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which lock a thread waits for: the futex that it sleeps on, from the registers of its system
 * call. */
#ifndef PROF_FUTEX_BPF_H
#define PROF_FUTEX_BPF_H

/* The same number on all processors: include/uapi/asm-generic/unistd.h. futex_wait came with 6.7.
 */
#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAIT 455
/* include/uapi/linux/futex.h: the commands that sleep. */
#define FUTEX_COMMAND_MASK 0x7f
#define FUTEX_SLEEPING                                                         \
	(1 << 0 /* WAIT */ | 1 << 6 /* LOCK_PI */ | 1 << 9 /* WAIT_BITSET */ | \
	 1 << 11 /* WAIT_REQUEUE_PI */ | 1 << 13 /* LOCK_PI2 */)
#define FUTEX_WAIT_BITSET 9

/* include/uapi/linux/futex.h */
struct futex_waitv_entry {
	__u64 value;
	__u64 address;
	__u32 flags;
	__u32 reserved;
};

/* How a thread waits in a futex; PROF_FUTEX_NONE if it does not. */
static __always_inline __u8 futex_command(struct task_struct *task)
{
	__s64 number = system_call(task);
	__u32 operation;

	if (number == NR_FUTEX) {
		operation = (__u32)second_system_call_argument(task);
		if ((operation & FUTEX_COMMAND_MASK) > 13 ||
		    !(FUTEX_SLEEPING >> (operation & FUTEX_COMMAND_MASK) & 1))
			return PROF_FUTEX_NONE;
		return operation & (FUTEX_COMMAND_MASK | PROF_FUTEX_PRIVATE);
	}
	if (number == NR_FUTEX_WAITV)
		return PROF_FUTEX_VECTOR;
	return number == NR_FUTEX_WAIT ? FUTEX_WAIT_BITSET : PROF_FUTEX_NONE;
}

/* Notes the futex that the thread of a wait has slept on. The registers are still those of the
 * system call: it has not returned. */
static __always_inline void note_futex(struct task_struct *task, struct prof_wait *wait)
{
	wait->futex = futex_command(task);
	wait->lock = wait->futex == PROF_FUTEX_NONE ? 0 : system_call_argument(task);
}

/* Of several futexes the first: so far the wait has the address of their list, in the memory of the
 * current thread. Where it is another's, the lock is not known. */
static __always_inline void read_first_futex(struct prof_wait *wait, bool is_current)
{
	struct futex_waitv_entry first = {};

	if (wait->futex != PROF_FUTEX_VECTOR)
		return;
	if (!is_current || bpf_probe_read_user(&first, sizeof(first), (void *)wait->lock))
		first.address = 0;
	wait->lock = first.address;
}

/* Whether the waits of a thread in the system call that it is in are wanted. */
static __always_inline bool is_wanted_wait(struct task_struct *task)
{
	return !futexes_only || futex_command(task) != PROF_FUTEX_NONE;
}

#endif /* PROF_FUTEX_BPF_H */
