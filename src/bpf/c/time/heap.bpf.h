/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sampled allocations: probes that say which block it is, of the sampler that prof has put into its
 * target (src/record/heap/sampler), or of a program that samples blocks itself. */
#ifndef PROF_HEAP_BPF_H
#define PROF_HEAP_BPF_H

/* Working memory of the two that may be at work on a CPU at once, since the kernel may switch
 * threads while one is. */
#define BLOCK_WALKS 2

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BLOCK_WALKS);
	__type(key, __u32);
	__type(value, struct scratch);
} block_scratches SEC(".maps");

/* Which of them are in use. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BLOCK_WALKS);
	__type(key, __u32);
	__type(value, __u32);
} block_walks SEC(".maps");

/* Where programs say themselves which blocks they sample, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROF_MAX_BLOCK_PLACES);
	__type(key, __u32);
	__type(value, struct prof_block_place);
} block_places SEC(".maps");

/* A CPU's share for those: how many they are is not for prof to say. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hit_budget);
} block_budgets SEC(".maps");

/* Blocks that were allocated and freed, of all CPUs: the end of a block is sent after its
 * beginning. The size is set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} blocks SEC(".maps");

/* Wakes the reader once a quarter is full. */
static __always_inline __u64 block_wakeup(void)
{
	return bpf_ringbuf_query(&blocks, BPF_RB_AVAIL_DATA) >= block_wake_bytes ?
		       BPF_RB_FORCE_WAKEUP :
		       BPF_RB_NO_WAKEUP;
}

/* Takes memory for a stack. Returns its number; -1 if all is in use. */
static __always_inline int take_block_scratch(void)
{
	for (__u32 i = 0; i < BLOCK_WALKS; i++) {
		__u32 number = i, *is_used = bpf_map_lookup_elem(&block_walks, &number);

		if (is_used && !__sync_lock_test_and_set(is_used, 1))
			return i;
	}
	return -1;
}

static __always_inline void give_block_scratch_back(__u32 number)
{
	__u32 *is_used = bpf_map_lookup_elem(&block_walks, &number);

	if (is_used)
		__sync_lock_test_and_set(is_used, 0);
}

/* The place that the current thread is at; NULL at the probes of prof's own sampler, which is
 * attached without a cookie. */
static __always_inline struct prof_block_place *block_place(void *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 number = cookie - 1;

	return cookie ? bpf_map_lookup_elem(&block_places, &number) : NULL;
}

/* Reads a value of a block; the registers of the current thread are in the scratch. */
static __always_inline bool block_value(struct scratch *s, void *ctx,
					const struct prof_probe *place, __u64 *value)
{
	bool is_read = read_weight(s, ctx, place, value);

	*value &= value_bits(place);
	return is_read;
}

/* One of how many blocks is kept that programs sample themselves. */
static __always_inline __u32 block_factor(__u64 now, __u64 hit_ns)
{
	__u32 zero = 0;
	struct hit_budget *budget = bpf_map_lookup_elem(&block_budgets, &zero);

	return budget ? hit_factor(budget, now, hit_ns, block_overhead_ppm) : 1;
}

/* Has the share of a CPU pay for a block that a program has sampled itself. */
static __always_inline void pay_for_block(__u64 start_ns)
{
	__u32 zero = 0;
	struct hit_budget *budget = bpf_map_lookup_elem(&block_budgets, &zero);

	if (budget)
		__sync_fetch_and_add(&budget->share.left_ns, start_ns - bpf_ktime_get_ns());
}

/* Notes in the scratch which block it is. Returns whether it is one. */
static __always_inline bool note_block(struct scratch *s, void *ctx, struct task_struct *task,
				       const struct prof_block_place *place, __u32 factor)
{
	s->block.kind = PROF_BLOCK_ALLOCATED;
	s->block.weight = 0;
	if (!place) {
		s->block.address = probe_argument(task, 0);
		s->block.size = probe_argument(task, 1);
		s->block.mean = probe_argument(task, 3);
		return true;
	}
	if (!take_task_registers(s, task))
		return false;
	s->block.mean = 0;
	if (!block_value(s, ctx, &place->address, &s->block.address) ||
	    !block_value(s, ctx, &place->size, &s->block.size) ||
	    !block_value(s, ctx, &place->weight, &s->block.weight))
		return false;
	/* More is no amount of memory. */
	if (s->block.weight > PROF_MAX_PROBE_WEIGHT || s->block.size > PROF_MAX_PROBE_WEIGHT)
		return false;
	s->block.weight *= factor;
	return s->block.address != 0;
}

/* Takes the stack of the current thread and sends it with the block in the scratch. */
static __always_inline void send_block(struct scratch *s, struct task_struct *task,
				       struct prof_process *process, struct numbers numbers,
				       __u64 start_ns)
{
	__u32 bytes;

	begin_sample(s, start_ns, numbers.tgid, numbers.tid);
	take_user_stack(s, NULL, task, process, PLACE_FREE);
	bytes = finish_sample(s);
	if (bpf_ringbuf_output(&blocks, &s->block, sizeof(s->block) + sizeof(s->sample) + bytes,
			       block_wakeup()))
		count(PROF_COUNT_BLOCKS_FULL);
	else
		count(PROF_COUNT_SENT);
	if (++s->runs % PROF_TIMED_EVERY == 0)
		count_time_since(start_ns);
}

SEC("uprobe")
int on_block_allocated(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	struct prof_block_place *place = block_place(ctx);
	__u64 now = bpf_ktime_get_ns();
	__u32 factor = 1, slot;
	struct scratch *s;
	int taken;

	if (!is_target(process, numbers.tid) || is_over_at(now))
		return 0;
	if (place)
		factor = block_factor(now, place->address.hit_ns);
	/* The end of one that is left out finds no beginning. */
	if (factor > 1 && bpf_get_prandom_u32() & (factor - 1))
		return 0;
	taken = take_block_scratch();
	if (taken < 0) {
		count(PROF_COUNT_BLOCKS_FULL);
		return 0;
	}
	slot = taken;
	s = bpf_map_lookup_elem(&block_scratches, &slot);
	if (s) {
		if (note_block(s, ctx, task, place, factor))
			send_block(s, task, process, numbers, now);
		else
			count(PROF_COUNT_BLOCKS_FULL);
	}
	give_block_scratch_back(slot);
	if (place)
		pay_for_block(now);
	return 0;
}

/* Reads the address of a block that is freed at a place of a program's own. */
static __always_inline bool freed_address(void *ctx, struct task_struct *task,
					  const struct prof_block_place *place, __u64 *address)
{
	int taken = take_block_scratch();
	__u32 slot = taken;
	bool is_read = false;
	struct scratch *s;

	if (taken < 0)
		return false;
	s = bpf_map_lookup_elem(&block_scratches, &slot);
	if (s && take_task_registers(s, task))
		is_read = block_value(s, ctx, &place->address, address);
	give_block_scratch_back(slot);
	return is_read;
}

/* A block and the head of a sample without frames. */
struct freed_block {
	struct prof_block block;
	struct prof_sample sample;
};

SEC("uprobe")
int on_block_freed(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	struct prof_block_place *place = block_place(ctx);
	struct freed_block freed = {};
	__u64 now = bpf_ktime_get_ns();

	/* The two probes are taken off one after the other: a block that is freed meanwhile is live
	 * at the end. */
	if (!is_target(process, numbers.tid) || is_over_at(now))
		return 0;
	freed.block.kind = PROF_BLOCK_FREED;
	if (!place) {
		freed.block.address = probe_argument(task, 0);
	} else {
		/* No end is left out, but what they cost has fewer beginnings taken. */
		block_factor(now, place->address.hit_ns);
		if (!freed_address(ctx, task, place, &freed.block.address)) {
			count(PROF_COUNT_FREES_FULL);
			return 0;
		}
		/* free(NULL) */
		if (!freed.block.address)
			return 0;
	}
	freed.sample.time_ns = now;
	freed.sample.tgid = numbers.tgid;
	freed.sample.tid = numbers.tid;
	freed.sample.cpu = bpf_get_smp_processor_id();
	if (bpf_ringbuf_output(&blocks, &freed, sizeof(freed), block_wakeup()))
		count(PROF_COUNT_FREES_FULL);
	if (place)
		pay_for_block(now);
	return 0;
}

#endif /* PROF_HEAP_BPF_H */
