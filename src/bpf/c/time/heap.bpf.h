/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sampled allocations: the probes of the sampler that prof has put into its target
 * (src/record/heap/sampler), which say which block it is. */
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
	__type(value, __u64);
} block_walks SEC(".maps");

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

/* Takes the stack of the current thread and sends it with the block in the scratch. */
static __always_inline void send_block(struct scratch *s, struct task_struct *task,
				       struct prof_process *process, struct numbers numbers)
{
	__u64 start_ns = bpf_ktime_get_ns();
	__u32 bytes;

	s->block.kind = PROF_BLOCK_ALLOCATED;
	s->block.address = probe_argument(task, 0);
	s->block.size = probe_argument(task, 1);
	s->block.mean = probe_argument(task, 3);
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
int on_block_allocated(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	__u64 *is_used;
	struct scratch *s;
	__u32 index = 0;

	if (!is_target(process, numbers.tid) || is_over_at(bpf_ktime_get_ns()))
		return 0;
	is_used = bpf_map_lookup_elem(&block_walks, &index);
	if (is_used && __sync_fetch_and_add(is_used, 1)) {
		__sync_fetch_and_add(is_used, -1);
		index = 1;
		is_used = bpf_map_lookup_elem(&block_walks, &index);
		if (is_used && __sync_fetch_and_add(is_used, 1)) {
			__sync_fetch_and_add(is_used, -1);
			count(PROF_COUNT_BLOCKS_FULL);
			return 0;
		}
	}
	s = bpf_map_lookup_elem(&block_scratches, &index);
	if (s)
		send_block(s, task, process, numbers);
	if (is_used)
		__sync_fetch_and_add(is_used, -1);
	return 0;
}

/* A block and the head of a sample without frames. */
struct freed_block {
	struct prof_block block;
	struct prof_sample sample;
};

SEC("uprobe")
int on_block_freed(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct numbers numbers = recorded_numbers(task);
	struct prof_process *process = bpf_map_lookup_elem(&processes, &numbers.tgid);
	struct freed_block freed = {};
	__u64 now = bpf_ktime_get_ns();

	/* The two probes are taken off one after the other: a block that is freed meanwhile is live
	 * at the end. */
	if (!is_target(process, numbers.tid) || is_over_at(now))
		return 0;
	freed.block.kind = PROF_BLOCK_FREED;
	freed.block.address = probe_argument(task, 0);
	freed.sample.time_ns = now;
	freed.sample.tgid = numbers.tgid;
	freed.sample.tid = numbers.tid;
	freed.sample.cpu = bpf_get_smp_processor_id();
	if (bpf_ringbuf_output(&blocks, &freed, sizeof(freed), block_wakeup()))
		count(PROF_COUNT_FREES_FULL);
	return 0;
}

#endif /* PROF_HEAP_BPF_H */
