/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel and libbpf give the walker, for a program on the host: the macros that its source
 * uses, and the helper functions, which read a case's memory instead of a thread's.
 */
#ifndef PROF_WALKER_SHIM_H
#define PROF_WALKER_SHIM_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* An attribute of the BPF target. */
#define preserve_access_index
#include "vmlinux.h"
#undef preserve_access_index

/* bpf_helpers.h: how maps are declared. Only their types' sizes matter here. */
#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define __array(name, value) typeof(value) *name
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif
#ifndef barrier_var
#define barrier_var(var) ((void)(var))
#endif

/* Readable memory; `bytes` are those from `start` on. */
struct memory_range {
	__u64 start;
	__u64 size;
	const __u8 *bytes;
};

#define MAX_MEMORY_RANGES 1024

static struct memory_range memory[MAX_MEMORY_RANGES];
static __u32 memory_count;

/* Copies `size` bytes from a process address, or none of them: as in the kernel, a read that any
 * byte is missing from fails as a whole and leaves zeros. */
static long bpf_probe_read_user(void *to, __u32 size, const void *from)
{
	__u64 address = (__u64)from, done = 0;

	while (done < size) {
		__u64 before = done;

		for (__u32 i = 0; i < memory_count; i++) {
			__u64 offset = address + done - memory[i].start, bytes;

			if (offset >= memory[i].size)
				continue;
			bytes = memory[i].size - offset;
			if (bytes > size - done)
				bytes = size - done;
			memcpy((__u8 *)to + done, memory[i].bytes + offset, bytes);
			done += bytes;
		}
		if (done == before) {
			memset(to, 0, size);
			return -14; /* EFAULT */
		}
	}
	return 0;
}

/* Copies memory of the program itself. */
static inline long bpf_probe_read_kernel(void *to, __u32 size, const void *from)
{
	memmove(to, from, size);
	return 0;
}

/* The thread in the kernel: a case starts from its user registers, so nothing asks for it. */
static inline long bpf_task_pt_regs(struct task_struct *task)
{
	(void)task;
	abort();
}

/* Of the thread in the kernel a case has the thread pointer. */
static struct task_struct host_task;

static inline struct task_struct *bpf_get_current_task_btf(void)
{
	return &host_task;
}

/* A case has no kernel behind it: no thread, no file, and the kernel's list of mappings is empty.
 * The list of replaced return addresses is the case's. */
#define bpf_core_field_exists(...) 0
#define READ_1(pointer, a) ((pointer)->a)
#define READ_2(pointer, a, b) ((pointer)->a->b)
#define READ_3(pointer, a, b, c) ((pointer)->a->b->c)
#define READ_OF(a, b, c, name, ...) name
#define BPF_CORE_READ(pointer, ...) \
	READ_OF(__VA_ARGS__, READ_3, READ_2, READ_1, )(pointer, __VA_ARGS__)
#define bpf_find_vma(task, address, callback, context, flags) \
	((void)(task), (void)(address), (void)(callback))

static void *bpf_map_lookup_elem(void *map, const void *key);

/* At most 2^23 rounds, as in the kernel. */
#define bpf_loop(rounds, step, context, flags)                                            \
	do {                                                                              \
		for (__u32 round_ = 0; round_ < (rounds) && round_ < (1 << 23); round_++) \
			if (step(round_, context))                                        \
				break;                                                    \
	} while (0)

#endif /* PROF_WALKER_SHIM_H */
