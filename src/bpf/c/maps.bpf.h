/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Configuration and maps. Sizes that depend on the machine or the target are set before load. */
#ifndef PROF_MAPS_BPF_H
#define PROF_MAPS_BPF_H

/* ---- Configuration: written by user space between open and load -------------------------- */

const volatile __u32 filter = PROF_FILTER_NONE; /* enum prof_filter */
const volatile bool follow_children = true;
const volatile bool follow_frame_pointers = true; /* through code without unwind rows */
/* Frames after which a walk ends without its root: 1,024..16,384, by the sampling period. */
const volatile __u32 max_walked_frames = PROF_MAX_WALKED_FRAMES;
const volatile __u32 rows_mask = 0;	      /* rows that fit - 1; a power of two - 1 */
const volatile __u32 pages_mask = 0;	      /* pages that fit - 1; a power of two - 1 */
const volatile __u32 ring_wake_bytes = 0;     /* fill mark past which the reader is woken, bytes */
const volatile __u64 fault_counters = 0;      /* bit n: counter n counts page faults */
const volatile bool copy_every_stack = false; /* send a prof_stack_copy with each sample */
const volatile __u32 block_wake_bytes = 0;    /* as ring_wake_bytes, for sampled blocks */
/* What may be used of a CPU's time for blocks that programs sample themselves, millionths; 0: no
 * limit. */
const volatile __u32 block_overhead_ppm = 20000;
const volatile __u64 rescue_bytes_per_second = 0; /* cap on stack copies, per CPU */
/* Interpreters whose frames are wanted: a bit for each prof_runtime_kind. Code of the others is not
 * even verified. */
const volatile __u32 interpreters = 0;
const volatile bool reads_goroutines = false; /* goroutines of samples are wanted */
const volatile bool reads_managed = false;    /* frames of managed code are wanted */
const volatile bool records_waits = false;    /* threads have accounts of their time */
const volatile bool has_breakpoints = false;  /* instructions are probed */

/* Waits that are shorter are summed up, without stacks, ns. */
const volatile __u64 min_block_ns = 1000;
/* What the programs may take for waits, of a CPU's time: millionths. 0: no limit. */
const volatile __u32 overhead_ppm = 20000;
const volatile __u32 wait_wake_bytes = 0;	/* as ring_wake_bytes, for waits */
const volatile bool stack_when_leaving = false; /* without sched_exit_tp */
const volatile bool futexes_only = false;	/* other waits are not wanted */
/* By system call number: an enum prof_reason. */
const volatile __u8 syscall_reasons[512] = {};

/* When the recording of waits begins and ends. */
struct prof_span span = {};

/* Rows of all tables. One value, so that its memory can be mapped and written without system
 * calls: samples that hit a CPU inside a map system call are lost. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct prof_row)); /* resized */
} rows SEC(".maps");

/* Pages of all tables. As `rows`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct prof_page)); /* resized */
} pages SEC(".maps");

/* Rows and pages of tables that came when there was no more room in the two above. Made by user
 * space when they are needed: an array of maps is slower to search, so that most tables stay out of
 * it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PROF_MAX_MORE_TABLES);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(map_flags, BPF_F_MMAPABLE);
			__uint(max_entries, 1);
			__type(key, __u32);
			__type(value, struct prof_more_tables);
		});
} more_tables SEC(".maps");

/* Rules that rows refer to, each stored once. As `rows`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct prof_rule) * PROF_MAX_RULES);
} rules SEC(".maps");

/* Tables by image number. As `rows`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct prof_image) * PROF_MAX_IMAGES);
} images SEC(".maps");

/* Executable mappings by process id. Written by user space; inherited at fork and emptied at exec
 * by the programs below. Not preallocated: an entry is 8 KiB and most machines need few. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct prof_process);
} processes SEC(".maps");

/* What `processes` holds for a process whose mappings are not known. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct prof_process);
} no_mappings SEC(".maps");

/* Files whose mappings need no word from user space. Key: device and inode. Written by user space
 * when a file is first seen, which it keeps open: the inode is not used again. Not preallocated:
 * most machines need few. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4 * PROF_MAX_IMAGES);
	__type(key, struct prof_file_key);
	__type(value, struct prof_file);
} files SEC(".maps");

/* Threads that are recorded, for PROF_FILTER_THREAD. Written by user space. Not
 * preallocated: that would take 1.6 ms of every start. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} threads SEC(".maps");

/* Samples, eight rings shared out over the CPUs: a ring that two CPUs fill at once may refuse one
 * of them. Sizes are set before load; rings that no CPU uses get the least size. */
#define SAMPLE_RING(name)                           \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_RINGBUF); \
		__uint(max_entries, 4096);          \
	} name SEC(".maps")

SAMPLE_RING(ring0);
SAMPLE_RING(ring1);
SAMPLE_RING(ring2);
SAMPLE_RING(ring3);
SAMPLE_RING(ring4);
SAMPLE_RING(ring5);
SAMPLE_RING(ring6);
SAMPLE_RING(ring7);

#define RESCUE_RING_BYTES (16 << 20)
#define WAIT_RESCUE_RING_BYTES (8 << 20)

/* Stack copies. Apart from the samples: they are large, and may be refused. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries,
	       RESCUE_RING_BYTES); /* 250 copies of the usual size, 20 of the largest */
} rescue_ring SEC(".maps");

/* The same of the sampler of waits, for 120 copies of the usual size, which are its largest. Apart
 * from those of the other sampler, whose interrupt may come while one of these is reserved. Sized
 * before load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WAIT_RESCUE_RING_BYTES);
} wait_rescue_ring SEC(".maps");

/* A copy of every stack, when asked for: the size is set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} stack_copies SEC(".maps");

/* Waits and the stacks of those who ended them. Apart from the samples: a sampling interrupt can
 * come while one of these is written. The size is set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} waits SEC(".maps");

/* Samples of counters. The size is set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} counts SEC(".maps");

/* Times of threads. The size is set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} thread_times SEC(".maps");

/* One per CPU. The sampler is the only user: it cannot interrupt itself. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* The same for counters, which may overflow while another sampler is at work. They do not interrupt
 * each other: the kernel lets no second program of perf events run on a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} count_scratches SEC(".maps");

/* enum prof_counter per CPU. Read by user space at the end. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct prof_counters);
} counters SEC(".maps");

static __always_inline void add(enum prof_counter counter, __u64 n)
{
	__u32 zero = 0;
	struct prof_counters *values = bpf_map_lookup_elem(&counters, &zero);

	if (values)
		values->value[counter] += n;
}

static __always_inline void count(enum prof_counter counter)
{
	add(counter, 1);
}

#endif /* PROF_MAPS_BPF_H */
