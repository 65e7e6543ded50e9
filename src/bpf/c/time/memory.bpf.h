/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which memory of a process an address is in. */
#ifndef PROF_MEMORY_BPF_H
#define PROF_MEMORY_BPF_H

#define VM_SHARED 0x8
#define ENOENT 2

/* An address is looked for: facts of its process, and what is found. */
struct memory_search {
	__u64 heap, heap_end, first_stack, stack;
	__u8 found; /* enum prof_memory */
};

/* For `bpf_find_vma`. */
static long take_memory(struct task_struct *task, struct vm_area_struct *vma,
			struct memory_search *search)
{
	__u64 start = vma->vm_start, end = vma->vm_end;

	if (vma->vm_file || (vma->vm_flags & VM_SHARED))
		search->found = PROF_MEMORY_FILE;
	else if (start < search->heap_end && end > search->heap)
		search->found = PROF_MEMORY_HEAP;
	else if ((search->first_stack >= start && search->first_stack < end) ||
		 (search->stack >= start && search->stack < end))
		search->found = PROF_MEMORY_STACK;
	else
		search->found = PROF_MEMORY_ANONYMOUS;
	return 0;
}

/* The memory of the current task's process that `address` is in. `stack` is its stack pointer. For
 * programs that run in a page fault: that holds no lock of the mappings yet, and may wait. */
static __always_inline __u8 memory_at(struct task_struct *task, __u64 address, __u64 stack)
{
	struct memory_search search = {.stack = stack};
	struct mm_struct *mm = BPF_CORE_READ(task, mm);

	search.heap = BPF_CORE_READ(mm, start_brk);
	search.heap_end = BPF_CORE_READ(mm, brk);
	search.first_stack = BPF_CORE_READ(mm, start_stack);
	/* What cannot be looked at now stays unknown. The first thread's stack grows with the
	 * fault. */
	if (bpf_find_vma(task, address, take_memory, &search, 0) == -ENOENT &&
	    address + PROF_RED_ZONE_BYTES >= stack && address < search.first_stack)
		return PROF_MEMORY_STACK;
	return search.found;
}

#endif /* PROF_MEMORY_BPF_H */
