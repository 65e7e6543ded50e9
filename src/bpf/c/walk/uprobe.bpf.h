/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Uprobes of other tools: a uretprobe replaces the return address of a function by that of a
 * trampoline, and a probed instruction runs as a copy. The kernel keeps the real addresses
 * (kernel/events/uprobes.c); both live in one page of the process, `[uprobes]`.
 */
#ifndef PROF_UPROBE_BPF_H
#define PROF_UPROBE_BPF_H

#define UPROBE_PAGE_BYTES 4096
#define UPROBE_SLOT_BYTES 128	/* UPROBE_XOL_SLOT_BYTES; the trampoline is the first slot */
#define MAX_RETURN_INSTANCES 64 /* MAX_URETPROBE_DEPTH */

/* Notes the trampoline and the replaced return addresses of the thread; zero if it has none. */
static __always_inline void find_uprobes(struct scratch *s, struct task_struct *task)
{
	struct uprobe_task *uprobes;

	s->trampoline = 0;
	s->return_instances = 0;
	if (!bpf_core_field_exists(task->utask))
		return;
	/* A pointer that is loaded plainly costs the verifier (6.18) a search of all kernel types.
	 */
	uprobes = BPF_CORE_READ(task, utask);
	if (!uprobes)
		return;
	s->trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	s->return_instances = (__u64)BPF_CORE_READ(uprobes, return_instances);
}

/* A search of a thread's list of replaced return addresses. */
struct return_search {
	__u64 instance;
	__u64 slot;	/* where on the stack the address was */
	__u64 original; /* what is found; 0: nothing */
};

/* Looks at one of the list. Returns 1 to stop. */
static long look_at_instance(__u32 index, struct return_search *search)
{
	struct return_instance *current = (struct return_instance *)search->instance;

	if (!current)
		return 1;
	if (BPF_CORE_READ(current, stack) == search->slot) {
		search->original = BPF_CORE_READ(current, orig_ret_vaddr);
		return 1;
	}
	search->instance = (__u64)BPF_CORE_READ(current, next);
	return 0;
}

/*
 * The return address that a uretprobe has replaced at `slot` of the stack, from the list of a
 * thread that starts at `instance`; 0 if the list does not have it. Global: verified once, not for
 * every path that leads here.
 */
__noinline __u64 replaced_return_address(__u64 instance, __u64 slot)
{
	struct return_search search = {.instance = instance, .slot = slot};

	bpf_loop(MAX_RETURN_INSTANCES, look_at_instance, &search, 0);
	return search.original;
}

/*
 * Puts a leaf that is in the page of uprobes back to where the program is: at the probed
 * instruction for its copy; after the return of a probed function for the trampoline, which has
 * pushed up to three registers.
 */
static __always_inline void leave_uprobe_page(struct scratch *s, struct task_struct *task)
{
	__u64 offset = s->regs[REG_IP] - s->trampoline, copy, original;

	if (!s->trampoline || offset >= UPROBE_PAGE_BYTES)
		return;
	if (offset >= UPROBE_SLOT_BYTES) {
		copy = BPF_CORE_READ(task, utask, xol_vaddr);
		if (s->regs[REG_IP] - copy < UPROBE_SLOT_BYTES)
			s->regs[REG_IP] =
				BPF_CORE_READ(task, utask, vaddr) + s->regs[REG_IP] - copy;
		return;
	}
#pragma unroll
	for (int pushed = 0; pushed <= 3; pushed++) {
		__u64 sp = s->regs[REG_SP] + 8 * pushed;

		original = replaced_return_address(s->return_instances, RETURN_SLOT(sp));
		if (original) {
			s->regs[REG_SP] = sp;
			s->regs[REG_IP] = original;
			s->is_return = 1;
			s->all_registers = 0;
			s->has_kept = 0;
			return;
		}
	}
}

/* A stack copy that is being made. */
struct rescue_copy {
	/* struct prof_rescue; named here, clang 14 would leave its fields out of the BTF. */
	void *rescue;
	__u64 from; /* process address of the copy's first byte */
	__u64 most; /* bytes that fit */
	/* As in the scratch. */
	__u64 trampoline;
	__u64 return_instance;
};

/* Puts one return address back that a uretprobe has replaced. Returns 1 after the last. */
static long restore_return_address(__u32 index, struct rescue_copy *copy)
{
	struct return_instance *current = (struct return_instance *)copy->return_instance;
	struct prof_rescue *rescue = copy->rescue;
	__u64 offset, *slot;

	if (!current)
		return 1;
	offset = BPF_CORE_READ(current, stack) - copy->from;
	if (offset <= copy->most - 8) {
		slot = (__u64 *)(rescue->stack + offset);
		if (*slot == copy->trampoline)
			*slot = BPF_CORE_READ(current, orig_ret_vaddr);
	}
	copy->return_instance = (__u64)BPF_CORE_READ(current, next);
	return 0;
}

#endif /* PROF_UPROBE_BPF_H */
