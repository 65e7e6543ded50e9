/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walker of src/bpf, compiled for the host, and what it walks: one case in its binary form.
 *
 * A case is a `struct case_header`, then PROF_REGISTERS registers of 8 bytes (DWARF numbers, the
 * program counter last), then as many rows, pages, rules, images, mappings and pieces of memory as
 * the header says, in the layouts of prof.h; a mapping is a `struct case_mapping`, a piece of
 * memory a `struct case_memory` with its bytes behind it. Little-endian, no padding. What is
 * missing at the end counts as absent, and counts past a limit as the limit, so that every input is
 * a case.
 */
#ifndef PROF_WALKER_H
#define PROF_WALKER_H

#include "shim.h"

#include "prof.h"
#include "scratch.bpf.h"

/* Constants of a loaded program are variables here: each case sets them. */
#define const
#include "maps.bpf.h"
#undef const

#if defined(__TARGET_ARCH_arm64)
#include "arch/aarch64.bpf.h"
#else
#include "arch/x86_64.bpf.h"
#endif
#include "walk/vma.bpf.h"
#include "walk/uprobe.bpf.h"
#include "walk/unwind.bpf.h"

enum case_flags {
	CASE_IS_RETURN = 1 << 0,	  /* the program counter is a return address */
	CASE_FEW_REGISTERS = 1 << 1,	  /* only those that callers have are known */
	CASE_NO_FRAME_POINTERS = 1 << 2,  /* frame pointers are not followed */
	CASE_NO_PROCESS = 1 << 3,	  /* the process has no entry */
	CASE_HAS_UPROBES = 1 << 4,	  /* a struct case_uprobes follows the memory */
	CASE_HAS_THREAD_POINTER = 1 << 5, /* 8 bytes follow behind all that */
	CASE_IN_MORE_TABLES = 1 << 6,	  /* all tables are in the last of `more_tables` */
};

struct case_header {
	__u32 flags; /* enum case_flags */
	__u32 rows;
	__u32 pages;
	__u32 rules;
	__u32 images;
	__u32 mappings;
	__u32 memory;
};

struct case_mapping {
	__u64 start;
	__u64 end;
	__u64 bias;
	__u32 image;
	__u32 pad;
};

struct case_memory {
	__u64 start;
	__u64 size;
};

/* What uretprobes have replaced: `count` pairs follow, the innermost call's first, each the address
 * of the slot on the stack and the return address that was there. */
struct case_uprobes {
	__u64 trampoline; /* what is there instead */
	__u64 count;
};

#define MAX_CASE_UPROBES 128

/* Rows and pages a case can have; more than any page can be searched for. */
#define MAX_CASE_ROWS (1 << 20)
#define MAX_CASE_PAGES (1 << 16)

/* The maps' values. The masks in the walker bound every index to these sizes, and the sanitizer
 * watches the borders. */
static struct prof_rule host_rules[PROF_MAX_RULES];
static struct prof_image host_images[PROF_MAX_IMAGES];
static struct prof_process host_process;
static struct prof_row *host_rows;
static struct prof_page *host_pages;
static struct prof_more_tables host_more_tables;

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	if (map == (void *)&more_tables)
		return *(const __u32 *)key == PROF_MAX_MORE_TABLES - 1 ? &host_more_tables : NULL;
	if (map == (void *)&host_more_tables)
		return &host_more_tables;
	if (map == (void *)&rows)
		return host_rows;
	if (map == (void *)&pages)
		return host_pages;
	if (map == (void *)&rules)
		return host_rules;
	if (map == (void *)&images)
		return host_images;
	return NULL;
}

/* The bytes of a case that are not read yet. */
struct input {
	const __u8 *next;
	size_t left;
};

/* Takes `size` bytes; those that are missing are zeros. */
static void take(struct input *input, void *to, size_t size)
{
	size_t there = size < input->left ? size : input->left;

	memset(to, 0, size);
	if (there)
		memcpy(to, input->next, there);
	input->next += there;
	input->left -= there;
}

static __u32 power_of_two_from(__u32 count)
{
	__u32 power = 1;

	while (power < count)
		power *= 2;
	return power;
}

/* How many elements of `size` bytes to take: no more than there are, and than `limit`. */
static __u32 limited(const struct input *input, __u32 count, size_t size, __u32 limit)
{
	if (count > input->left / size)
		count = input->left / size;
	return count < limit ? count : limit;
}

/* Takes an array whose length the walker knows as a mask. The memory is exactly that long. */
static void *take_masked(struct input *input, __u32 count, size_t size, __u32 limit,
			 volatile __u32 *mask)
{
	__u32 taken = limited(input, count, size, limit), length = power_of_two_from(taken);
	void *array = calloc(length, size);

	if (!array)
		abort();
	take(input, array, taken * size);
	*mask = length - 1;
	return array;
}

/* Puts the tables of a case where those are for which there was no room. */
static void use_more_tables(__u32 image_count)
{
	__u32 rows = rows_mask + 1, pages = pages_mask + 1;

	if (rows > PROF_MORE_ROWS || pages > PROF_MORE_PAGES)
		return;
	memcpy(host_more_tables.rows, host_rows, rows * sizeof(*host_rows));
	memcpy(host_more_tables.pages, host_pages, pages * sizeof(*host_pages));
	memset(host_rows, 0, rows * sizeof(*host_rows));
	memset(host_pages, 0, pages * sizeof(*host_pages));
	for (__u32 i = 0; i < image_count; i++)
		host_images[i].first_page |= (__u32)PROF_MAX_MORE_TABLES << PROF_FIRST_PAGE_BITS;
}

static void take_mappings(struct input *input, __u32 count)
{
	count = limited(input, count, sizeof(struct case_mapping), PROF_MAX_MAPPINGS);
	memset(&host_process, 0, sizeof(host_process));
	for (__u32 i = 0; i < PROF_MAX_MAPPINGS; i++)
		host_process.start[i] = PROF_NO_START;
	host_process.count = count;
	for (__u32 i = 0; i < count; i++) {
		struct case_mapping mapping;

		take(input, &mapping, sizeof(mapping));
		host_process.start[i] = mapping.start;
		host_process.mapping[i].end = mapping.end;
		host_process.mapping[i].bias = mapping.bias;
		host_process.mapping[i].image = mapping.image;
	}
}

static void take_memory(struct input *input, __u32 count)
{
	memory_count = 0;
	while (count-- && memory_count < MAX_MEMORY_RANGES && input->left) {
		struct case_memory piece;

		take(input, &piece, sizeof(piece));
		if (piece.size > input->left)
			piece.size = input->left;
		/* No process has memory that wraps around. */
		if (piece.size > -piece.start && piece.start)
			piece.size = -piece.start;
		memory[memory_count].start = piece.start;
		memory[memory_count].size = piece.size;
		memory[memory_count].bytes = input->next;
		memory_count++;
		input->next += piece.size;
		input->left -= piece.size;
	}
}

static struct return_instance host_instances[MAX_CASE_UPROBES];

static void take_uprobes(struct input *input, struct scratch *s)
{
	struct case_uprobes uprobes;
	__u32 count;

	take(input, &uprobes, sizeof(uprobes));
	count = limited(input, uprobes.count < MAX_CASE_UPROBES ? uprobes.count : MAX_CASE_UPROBES,
			16, MAX_CASE_UPROBES);
	memset(host_instances, 0, sizeof(host_instances));
	for (__u32 i = 0; i < count; i++) {
		__u64 pair[2];

		take(input, pair, sizeof(pair));
		host_instances[i].stack = pair[0];
		host_instances[i].orig_ret_vaddr = pair[1];
		if (i)
			host_instances[i - 1].next = &host_instances[i];
	}
	s->trampoline = uprobes.trampoline;
	s->return_instances = count ? (__u64)host_instances : 0;
}

/* Walks the case in `data`. The frames are in `s`, as in a struct prof_sample without kernel
 * frames. */
static void walk_case(struct scratch *s, const __u8 *data, size_t size)
{
	struct input input = {data, size};
	struct case_header header;
	__u32 rule_count, image_count;

	take(&input, &header, sizeof(header));
	memset(s, 0, sizeof(*s));
	take(&input, s->regs, PROF_REGISTERS * sizeof(s->regs[0]));
	host_rows = take_masked(&input, header.rows, sizeof(*host_rows), MAX_CASE_ROWS, &rows_mask);
	host_pages =
		take_masked(&input, header.pages, sizeof(*host_pages), MAX_CASE_PAGES, &pages_mask);
	rule_count = limited(&input, header.rules, sizeof(*host_rules), PROF_MAX_RULES);
	take(&input, host_rules, rule_count * sizeof(*host_rules));
	image_count = limited(&input, header.images, sizeof(*host_images), PROF_MAX_IMAGES);
	take(&input, host_images, image_count * sizeof(*host_images));
	if (header.flags & CASE_IN_MORE_TABLES)
		use_more_tables(image_count);
	take_mappings(&input, header.mappings);
	take_memory(&input, header.memory);
	if (header.flags & CASE_HAS_UPROBES)
		take_uprobes(&input, s);
	host_task.thread.fsbase = 0;
	if (header.flags & CASE_HAS_THREAD_POINTER)
		take(&input, &host_task.thread.fsbase, sizeof(host_task.thread.fsbase));

	follow_frame_pointers = !(header.flags & CASE_NO_FRAME_POINTERS);
	s->is_return = !!(header.flags & CASE_IS_RETURN);
	s->all_registers = !(header.flags & CASE_FEW_REGISTERS);
	s->has_kept = s->all_registers;
	walk_user_stack(s, header.flags & CASE_NO_PROCESS ? NULL : &host_process, PLACE_FREE);

	free(host_rows);
	free(host_pages);
	memset(host_rules, 0, rule_count * sizeof(*host_rules));
	memset(host_images, 0, image_count * sizeof(*host_images));
}

#endif /* PROF_WALKER_H */
