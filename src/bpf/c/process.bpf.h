/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keeps `processes` right between two looks of user space: fork inherits, exec starts again. */
#ifndef PROF_PROCESS_BPF_H
#define PROF_PROCESS_BPF_H

/* A stamp that user space, which counts from 1, never gives. */
static __always_inline __u64 kernel_stamp(void)
{
	return bpf_ktime_get_ns() | 1ULL << 63;
}

/* A forked child has its parent's mappings. */
static __always_inline void inherit(struct task_struct *child)
{
	__u32 child_tgid = numbers_of(child).tgid;
	__u32 parent_tgid = numbers_of(bpf_get_current_task_btf()).tgid;
	struct prof_process *mappings;

	if (in_namespace && !child_tgid)
		return; /* outside of the namespace */
	mappings = bpf_map_lookup_elem(&processes, &parent_tgid);
	if (mappings && (follow_children || filter == PROF_FILTER_NONE)) {
		if (bpf_map_update_elem(&processes, &child_tgid, mappings, BPF_ANY))
			count(PROF_COUNT_FORK_FAILED);
	} else {
		/* The number may have belonged to a process that is gone. */
		bpf_map_delete_elem(&processes, &child_tgid);
	}
}

/* A new process or thread, which has not run yet: what it needs from its first instruction on is
 * made ready here, where nothing is locked. */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_fork, struct task_struct *child)
{
	if (child->pid == child->tgid)
		inherit(child);
	if (records_waits)
		begin_new_thread(child);
	return 0;
}

/*
 * After exec nothing of the old program is mapped. The entry stays: the process is still a target.
 * The new program has not begun yet, and what the kernel has mapped for it is taken at once.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	__u32 tgid = numbers_of(task).tgid, zero = 0, exec_seq;
	struct prof_process *process = bpf_map_lookup_elem(&processes, &tgid);
	struct prof_process *empty = bpf_map_lookup_elem(&no_mappings, &zero);

	if (!process || !empty)
		return 0;
	exec_seq = process->exec_seq;
	if (bpf_map_update_elem(&processes, &tgid, empty, BPF_ANY)) {
		/* No memory for a new entry: empty the old one in place. */
		for (__u32 i = 0; i < PROF_MAX_MAPPINGS; i++)
			process->start[i] = PROF_NO_START;
		process->count = 0;
		process->runtime.kind = PROF_RUNTIME_NONE;
		process->managed.kind = PROF_MANAGED_NONE;
		process->goroutine.is_known = 0;
		count(PROF_COUNT_EXEC_FAILED);
	}
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!process)
		return 0;
	process->stamp = kernel_stamp();
	process->exec_seq = exec_seq + 1;
	take_exec_mappings(task, process);
	return 0;
}

#endif /* PROF_PROCESS_BPF_H */
