/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers of processes and threads in the PID namespace of prof. The fields of a task and the
 * helpers have those of the initial namespace; all that user space knows, from /proc, from the
 * side-band and from the user, has those of its own. Whatever is compared with user space or sent
 * to it is taken from here.
 */
#ifndef PROF_NAMESPACE_BPF_H
#define PROF_NAMESPACE_BPF_H

/* Whether prof runs in another PID namespace than the initial one. Written by user space before
 * load: in the initial one nothing of what follows is left but a load of two fields. */
const volatile bool in_namespace = false;

/* That namespace. Written by find_namespace. */
struct prof_namespace namespace = {};

/* The numbers of a thread; both are 0 if the namespace does not have it. */
struct numbers {
	__u32 tgid;
	__u32 tid;
};

/* What `pid` is in the namespace; 0 if it is not in it. A `struct pid` has a number at its own
 * level and at each above. */
static __always_inline __u32 number_of(struct pid *pid)
{
	__u32 level = namespace.level;
	struct upid number = {};

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number), (struct upid *)&pid->numbers + level);
	return (__u64)number.ns == namespace.address ? number.nr : 0;
}

/* The numbers of a thread. One that has ended has given them up before it leaves its CPU for the
 * last time. */
static __always_inline struct numbers numbers_of(struct task_struct *task)
{
	struct numbers numbers = {};
	struct pid *pid;

	if (!in_namespace) {
		numbers.tgid = task->tgid;
		numbers.tid = task->pid;
		return numbers;
	}
	pid = BPF_CORE_READ(task, thread_pid);
	numbers.tid = number_of(pid);
	numbers.tgid = number_of(BPF_CORE_READ(task, group_leader, thread_pid));
	/* A program that may sleep does not keep them from being freed: only while they are the
	 * thread's is what was read right. */
	if (!numbers.tid || !numbers.tgid || BPF_CORE_READ(task, thread_pid) != pid)
		numbers.tid = numbers.tgid = 0;
	return numbers;
}

/* Finds the namespace of the process that runs this program by a system call, which is prof. */
SEC("syscall")
int find_namespace(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid number = {};
	__u32 level;

	namespace.time_ns = bpf_ktime_get_ns();
	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	bpf_probe_read_kernel(&number, sizeof(number), (struct upid *)&pid->numbers + level);
	namespace.level = level;
	namespace.number = number.nr;
	namespace.address = (__u64)number.ns;
	return 0;
}

#endif /* PROF_NAMESPACE_BPF_H */
