/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keeps `processes` right between two looks of user space: fork inherits, exec starts anew. */
#ifndef PROF_PROCESS_BPF_H
#define PROF_PROCESS_BPF_H

/* A stamp that user space, which counts from 1, never gives. */
static __always_inline __u64 kernel_stamp(void)
{
	return bpf_ktime_get_ns() | 1ULL << 63;
}

/* A forked child has its parent's mappings from its first instruction on. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 child_tgid, parent_tgid;
	struct prof_process *mappings;

	if (child->pid != child->tgid)
		return 0; /* a thread */
	child_tgid = numbers_of(child).tgid;
	if (in_namespace && !child_tgid)
		return 0; /* outside of the namespace */
	parent_tgid = numbers_of(parent).tgid;
	mappings = bpf_map_lookup_elem(&processes, &parent_tgid);
	if (mappings && (follow_children || filter == PROF_FILTER_NONE)) {
		if (bpf_map_update_elem(&processes, &child_tgid, mappings, BPF_ANY))
			count(PROF_COUNT_FORK_FAILED);
	} else {
		/* The number may have belonged to a process that is gone. */
		bpf_map_delete_elem(&processes, &child_tgid);
	}
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
