/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A copy of every sample's registers and stack, for an unwinder that walks them a second time. */
#ifndef PROF_STACK_COPY_BPF_H
#define PROF_STACK_COPY_BPF_H

/* Copies block `index`, or notes that it cannot be read. Returns 1 past the last one. There is room
 * for all of the last page, of which the copy has a part. */
static long copy_stack_block(__u32 index, struct prof_stack_copy **at)
{
	struct prof_stack_copy *copy = *at;
	__u64 first = 4096 - (copy->start & 4095), bytes = index ? 4096 : first;
	__u32 offset = index ? first + (index - 1) * 4096ULL : 0;

	if (offset >= PROF_STACK_COPY_BYTES || bytes > 4096)
		return 1;
	if (bpf_probe_read_user(copy->stack + offset, bytes, (void *)(copy->start + offset)))
		copy->missing_blocks[(index / 64) & 3] |= 1ULL << (index & 63);
	else
		copy->stack_bytes = offset + bytes < PROF_STACK_COPY_BYTES ? offset + bytes :
									     PROF_STACK_COPY_BYTES;
	return 0;
}

/* Sends the registers in the scratch, which are the leaf's, and the stack above them. The walk that
 * follows does not depend on it. */
static __always_inline void send_stack_copy(struct scratch *s)
{
	struct prof_stack_copy *copy = bpf_ringbuf_reserve(&stack_copies, sizeof(*copy) + 4096, 0);

	if (!copy) {
		count(PROF_COUNT_COPY_FULL);
		return;
	}
	copy->time_ns = s->sample.time_ns;
	copy->cpu = s->sample.cpu;
	copy->is_return = s->is_return;
#pragma unroll
	for (int i = 0; i < PROF_REGISTERS; i++)
		copy->regs[i] = s->regs[i];
	copy->start = s->regs[REG_SP] - PROF_RED_ZONE_BYTES;
	copy->stack_bytes = 0;
	for (int i = 0; i < 4; i++)
		copy->missing_blocks[i] = 0;
	if (!bpf_probe_read_user(copy->stack, PROF_STACK_COPY_BYTES, (void *)copy->start))
		copy->stack_bytes = PROF_STACK_COPY_BYTES;
	else
		bpf_loop(PROF_STACK_COPY_BYTES / 4096 + 1, copy_stack_block, &copy, 0);
	bpf_ringbuf_submit(copy, BPF_RB_NO_WAKEUP);
}

#endif /* PROF_STACK_COPY_BPF_H */
