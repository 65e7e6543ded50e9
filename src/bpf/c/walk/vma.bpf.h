/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Code that user space has not published yet, by the kernel's own list of mappings. */
#ifndef PROF_VMA_BPF_H
#define PROF_VMA_BPF_H

#define VM_EXEC 4 /* include/linux/mm.h */
#define PAGE_BITS 12
#define PAGE_REST ((1ULL << PAGE_BITS) - 1)
#define EXEC_MAPPINGS 3

/* A mapping of code, as in struct prof_process. */
struct code_mapping {
	__u64 start;
	__u64 end;
	__u64 bias;
	__u32 image;
};

/*
 * The segment that gives a mapping at `start`, which shows `file` from `from` up to `to`, its bias;
 * -1 if it shows none. The order of preference is that of ElfImage::bias_of_mapping: the segment
 * that gives a file with fixed addresses no bias, else the one whose pages are exactly the mapping,
 * else the one of which it shows most. Global: verified once, not for every path.
 */
__noinline int shown_segment(const struct prof_file *file, __u64 start, __u64 from, __u64 to)
{
	__u64 most = 0;
	int best = -1;

	if (!file)
		return -1;
	for (int i = 0; i < PROF_MAX_SEGMENTS; i++) {
		const struct prof_segment *segment = &file->segment[i];
		__u64 first = segment->file_offset > from ? segment->file_offset : from;
		__u64 end = segment->file_end < to ? segment->file_end : to;
		__u64 rank = end > first ? end - first : 0;

		if (!rank)
			continue;
		if ((segment->file_offset & ~PAGE_REST) == from &&
		    ((segment->file_end + PAGE_REST) & ~PAGE_REST) == to)
			rank |= 1ULL << 62;
		if (file->has_fixed_addresses &&
		    start == segment->address + from - segment->file_offset)
			rank |= 1ULL << 63;
		if (rank > most) {
			most = rank;
			best = i;
		}
	}
	return best;
}

/* When a file was last written, as in struct prof_file; `known` on a kernel that does not say. */
static __always_inline __u64 modified_ns(struct inode *inode, __u64 known)
{
	struct inode___v6_7 *older = (void *)inode;
	struct inode___v5 *oldest = (void *)inode;

	if (bpf_core_field_exists(inode->i_mtime_sec))
		return (__u64)BPF_CORE_READ(inode, i_mtime_sec) * 1000000000ULL +
		       BPF_CORE_READ(inode, i_mtime_nsec);
	if (bpf_core_field_exists(older->__i_mtime))
		return (__u64)BPF_CORE_READ(older, __i_mtime.tv_sec) * 1000000000ULL +
		       BPF_CORE_READ(older, __i_mtime.tv_nsec);
	if (bpf_core_field_exists(oldest->i_mtime))
		return (__u64)BPF_CORE_READ(oldest, i_mtime.tv_sec) * 1000000000ULL +
		       BPF_CORE_READ(oldest, i_mtime.tv_nsec);
	return known;
}

/* Whether a file still holds what user space read from it: one that is rewritten in place keeps its
 * inode. */
static __always_inline bool is_unchanged(const struct prof_file *known, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	return (__u64)BPF_CORE_READ(inode, i_size) == known->size_bytes &&
	       modified_ns(inode, known->modified_ns) == known->modified_ns;
}

/* What a mapping shows; false if it is no code, or of a file that is not known. */
static __always_inline bool describe_mapping(struct vm_area_struct *vma, struct code_mapping *code)
{
	struct prof_file_key key = {};
	struct prof_file *known;
	struct file *file;
	__u64 offset;
	__u32 i;

	if (!(vma->vm_flags & VM_EXEC))
		return false;
	code->start = vma->vm_start;
	code->end = vma->vm_end;
	code->bias = 0;
	code->image = 0; /* generated code */
	/* Pointers that are loaded plainly cost the verifier (6.18) a search of all kernel types.
	 */
	file = BPF_CORE_READ(vma, vm_file);
	if (file) {
		key.inode = BPF_CORE_READ(file, f_inode, i_ino);
		key.device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
		offset = (__u64)vma->vm_pgoff << PAGE_BITS;
	} else {
		if (!bpf_core_field_exists(struct mm_struct, context.vdso) ||
		    (__u64)BPF_CORE_READ(vma, vm_mm, context.vdso) != code->start)
			return true;
		offset = 0;
	}
	known = bpf_map_lookup_elem(&files, &key);
	if (!known || (file && !is_unchanged(known, file)))
		return false;
	code->image = known->image;
	if (!known->segment_count)
		return true;
	i = shown_segment(known, code->start, offset, offset + (code->end - code->start));
	if (i >= PROF_MAX_SEGMENTS)
		return false;
	/* For the verifier (6.18): clang keeps the bound in another register. */
	asm volatile("" : "+r"(i));
	i &= PROF_MAX_SEGMENTS - 1;
	code->bias =
		code->start - (known->segment[i].address + offset - known->segment[i].file_offset);
	return true;
}

/* Puts a mapping into an entry of few mappings, in its order; for `bpf_find_vma`. */
static long insert_mapping(struct task_struct *task, struct vm_area_struct *vma,
			   struct prof_process **entry)
{
	struct prof_process *process = *entry;
	struct code_mapping code;
	__u32 i = 0;

	if (process->count >= EXEC_MAPPINGS || !describe_mapping(vma, &code))
		return 0;
#pragma unroll
	for (int other = 0; other < EXEC_MAPPINGS - 1; other++) {
		if (process->start[other] == code.start)
			return 0;
		if (process->start[other] < code.start)
			i = other + 1;
	}
#pragma unroll
	for (__u32 to = EXEC_MAPPINGS - 1; to > 0; to--) {
		if (to > i) {
			process->start[to] = process->start[to - 1];
			process->mapping[to] = process->mapping[to - 1];
		}
	}
	i &= PROF_MAX_MAPPINGS - 1;
	process->mapping[i].end = code.end;
	process->mapping[i].bias = code.bias;
	process->mapping[i].image = code.image;
	process->start[i] = code.start;
	process->count++;
	count(PROF_COUNT_EXEC_MAPPED);
	return 0;
}

/* Fills an empty entry with what the kernel maps at exec: the program, its interpreter (where it
 * begins), the vDSO. */
static __always_inline void take_exec_mappings(struct task_struct *task,
					       struct prof_process *process)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	__u64 vdso;

	if (!mm)
		return;
	bpf_find_vma(task, BPF_CORE_READ(mm, start_code), insert_mapping, &process, 0);
	bpf_find_vma(task, REGS_IP(regs), insert_mapping, &process, 0);
	if (bpf_core_field_exists(mm->context.vdso)) {
		vdso = (__u64)BPF_CORE_READ(mm, context.vdso);
		bpf_find_vma(task, vdso, insert_mapping, &process, 0);
	}
}

#endif /* PROF_VMA_BPF_H */
