/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where an address is: the mapping around it, and the row of its module that holds there.
 *
 * A binary search written with `if` makes the verifier follow every path (seconds of load time):
 * see if_taken.
 */
#ifndef PROF_FIND_BPF_H
#define PROF_FIND_BPF_H

/* What the steps of one walk share. Pointers live here, on the stack, where the verifier keeps
 * track of them; everything that changes lives in the scratch, where it does not have to. */
struct walk {
	struct scratch *s;
	struct prof_process *process; /* may be NULL */
	struct prof_row *rows;
	struct prof_page *pages;
	struct prof_rule *rules;
	struct prof_image *images;
};

/*
 * `taken` where `is_taken`, else 0. The empty asm leaves one branch that only loads a mask: both
 * ways join at once, so the verifier does not follow them apart, and the processor guesses the
 * search ahead of its loads (without any branch, walks take up to 1.8 times as long).
 */
static __always_inline __u32 if_taken(bool is_taken, __u32 taken)
{
	__u64 mask = -1;

	if (!is_taken)
		mask = 0;
	asm volatile("" : "+r"(mask));
	return taken & (__u32)mask;
}

/* Zero, of which the verifier does not know. */
static volatile __u32 unknown_zero;

/* The last mapping that starts at or before `address` (or mapping 0). Global: verified once, not
 * for every path that leads here. */
__noinline __u32 find_mapping(const struct prof_process *process, __u64 address)
{
	/* What is known before a step, the verifier follows apart after it. */
	__u32 low = unknown_zero;

	if (!process)
		return 0;
#pragma unroll
	for (int half = PROF_MAX_MAPPINGS / 2; half > 0; half /= 2) {
		__u64 start = process->start[(low + half) & (PROF_MAX_MAPPINGS - 1)];

		low += if_taken(address >= start, half);
	}
	return low;
}

/* One step of the search for the last row at or before `low_address`, among `*left` rows from
 * `*low` on. */
static __always_inline void halve_rows(const struct prof_row *rows, __u32 mask, __u32 low_address,
				       __u32 *low, __u32 *left)
{
	__u32 half = *left >> 1;
	__u32 middle = rows[(*low + half) & mask].pc_low;

	*low += if_taken(low_address >= middle, half);
	*left -= half;
}

/* The rule of the last row that starts at or before `low_address`, among those from `low` to
 * `last`. There are `mask` + 1 rows. */
static __always_inline __u32 find_rule(const struct prof_row *rows, __u32 mask, __u32 low,
				       __u32 last, __u32 low_address)
{
	__u32 left = last - low + 1;

	if (left > (1 << PROF_FEW_ROWS_STEPS)) {
#pragma unroll
		for (int i = 0; i < PROF_MANY_ROWS_STEPS; i++)
			halve_rows(rows, mask, low_address, &low, &left);
	}
#pragma unroll
	for (int i = 0; i < PROF_FEW_ROWS_STEPS; i++)
		halve_rows(rows, mask, low_address, &low, &left);
	return rows[low & mask].rule;
}

/*
 * The rule at `va` of an image whose table is one of `more_tables`, `page` pages after
 * `first_page`; PROF_NO_ROWS where it has none. Global: verified once.
 */
__noinline __u32 find_more_rule(__u32 first_page, __u32 page, __u64 va)
{
	__u32 number = (first_page >> PROF_FIRST_PAGE_BITS) - 1, zero = 0;
	__u32 slice = (va >> PROF_SLICE_SHIFT) & (PROF_PAGE_SLICES - 1);
	void *map = bpf_map_lookup_elem(&more_tables, &number);
	const struct prof_more_tables *tables;
	const __u32 *rows;

	if (!map)
		return PROF_NO_ROWS;
	tables = bpf_map_lookup_elem(map, &zero);
	if (!tables)
		return PROF_NO_ROWS;
	rows = &tables->pages[(first_page + page) & (PROF_MORE_PAGES - 1)].row[slice];
	if (rows[0] == PROF_NO_ROWS)
		return PROF_NO_ROWS;
	return find_rule(tables->rows, PROF_MORE_ROWS - 1, rows[0], rows[1], va & 0xffff);
}

/* Makes a mapping of the kernel's own list the current module. */
static long take_mapping(struct task_struct *task, struct vm_area_struct *vma, struct walk *w)
{
	struct scratch *s = w->s;
	struct code_mapping code;

	if (!describe_mapping(vma, &code))
		return 0;
	s->map_start = code.start;
	s->map_bytes = code.end - code.start;
	s->map_bias = code.bias;
	s->image = w->images[code.image & (PROF_MAX_IMAGES - 1)];
	if (s->image.state == PROF_IMAGE_GENERATED)
		s->image.state = PROF_IMAGE_UNTOLD;
	count(PROF_COUNT_FOUND_MAPPING);
	return 0;
}

/*
 * Makes the module around `address` the current one, when user space has not published it (yet).
 * Only for this walk: what is kept would have to be kept right. The kernel refuses a second
 * question in the same interrupt (-EBUSY: the lock is given back later). Nor is it asked under the
 * scheduler's locks: releasing that lock may wake a task.
 */
static __always_inline bool enter_unknown_mapping(struct walk *w, __u64 address, enum place place)
{
	struct scratch *s = w->s;

	if (place == PLACE_SWITCH || s->has_asked)
		return false;
	s->has_asked = 1;
	s->map_bytes = 0;
	bpf_find_vma(bpf_get_current_task_btf(), address, take_mapping, w, 0);
	return address - s->map_start < s->map_bytes;
}

/* Makes the module around `address` the current one. */
static __always_inline bool enter_mapping(struct walk *w, __u64 address, enum place place)
{
	struct scratch *s = w->s;
	struct prof_process *process = w->process;
	struct prof_mapping *mapping;
	__u64 start;
	__u32 i;

#ifdef VSYSCALL_PAGE
	if (address - VSYSCALL_PAGE < 4096) {
		s->map_start = VSYSCALL_PAGE;
		s->map_bytes = 4096;
		s->image.state = PROF_IMAGE_VSYSCALL;
		return true;
	}
#endif
	if (!process)
		return enter_unknown_mapping(w, address, place);
	i = find_mapping(process, address) & (PROF_MAX_MAPPINGS - 1);
	start = process->start[i];
	mapping = &process->mapping[i];
	if (address < start || address >= mapping->end)
		return enter_unknown_mapping(w, address, place);
	s->map_start = start;
	s->map_bytes = mapping->end - start;
	s->map_bias = mapping->bias;
	s->image = w->images[mapping->image & (PROF_MAX_IMAGES - 1)];
	return true;
}

#endif /* PROF_FIND_BPF_H */
