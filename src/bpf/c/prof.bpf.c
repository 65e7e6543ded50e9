// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The BPF side of a recording: one object, so that all programs share the maps.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "prof.h"
#include "scratch.bpf.h"
#include "maps.bpf.h"
#include "namespace.bpf.h"
#ifdef __TARGET_ARCH_arm64
#include "arch/aarch64.bpf.h"
#else
#include "arch/x86_64.bpf.h"
#endif
#include "walk/vma.bpf.h"
#include "walk/uprobe.bpf.h"
#include "walk/unwind.bpf.h"
#include "walk/stack_copy.bpf.h"
#include "walk/rescue.bpf.h"
#include "walk/interpreter/frames.bpf.h"
#include "walk/goroutine.bpf.h"
#include "sample.bpf.h"
#include "time/thread.bpf.h"
#include "process.bpf.h"
#include "time/oncpu.bpf.h"
#include "time/futex.bpf.h"
#include "time/offcpu.bpf.h"
#include "time/blocked.bpf.h"
#include "time/probe.bpf.h"
#include "time/call.bpf.h"
#include "time/heap.bpf.h"

/* Keeps the shared types in BTF, whole, so that user space takes them from there. */
struct {
	__u32 unused;
	struct prof_rescue rescue[0];
	struct prof_stack_copy stack_copy[0];
	struct prof_file_key file_key[0];
	struct prof_thread_time thread_time[0];
	struct prof_block block[0];
	struct prof_watched watched[0];
	struct prof_runtime_frame runtime_frame[0];
	struct prof_new_code new_code[0];
	struct prof_goroutine goroutine[0];
	struct prof_managed_frame managed_frame[0];
	struct prof_more_tables more_tables[0];
	struct prof_probe probe[0];
	struct prof_block_place block_place[0];
	struct prof_probe_counts probe_counts[0];
	struct prof_call_total call_total[0];
} kept_types;

_Static_assert(sizeof(struct prof_sample) == 64, "as in src/bpf/event.rs");
_Static_assert(sizeof(struct prof_rescue) == 56 + 8 * PROF_REGISTERS + PROF_LARGEST_RESCUE_BYTES,
	       "as in src/bpf/event.rs");
_Static_assert(sizeof(struct prof_stack_copy) == 64 + 8 * PROF_REGISTERS + PROF_STACK_COPY_BYTES,
	       "as in src/bpf/event.rs");
_Static_assert(sizeof(struct prof_wait) == 104, "as in src/bpf/wait_event.rs");
_Static_assert(sizeof(struct prof_block) == 40, "as in src/bpf/block.rs");
_Static_assert(sizeof(struct prof_thread_time) == 80 + 16 * PROF_REASONS,
	       "as in src/bpf/wait_event.rs");
_Static_assert(sizeof(struct prof_watched) == sizeof(struct prof_thread_time) + 24,
	       "as in src/bpf/wait_event.rs");
_Static_assert(sizeof(struct prof_row) == 4, "as in src/unwind/table.rs");
_Static_assert(sizeof(struct prof_page) == 4 + 4 * PROF_PAGE_SLICES, "as in src/unwind/table.rs");
_Static_assert(sizeof(struct prof_more_tables) ==
		       PROF_MORE_ROWS * sizeof(struct prof_row) +
			       PROF_MORE_PAGES * sizeof(struct prof_page),
	       "as in src/record/kernel_tables.rs");
_Static_assert(sizeof(struct prof_rule) == 16, "as in src/unwind/rule.rs");
_Static_assert(sizeof(struct prof_probe) == 48, "without padding");
_Static_assert(sizeof(struct prof_block_place) == 144, "without padding");
_Static_assert(sizeof(struct prof_probe_counts) == 64, "eight words");
_Static_assert(sizeof(struct prof_call_total) == 16, "two words");
_Static_assert(sizeof(struct prof_image) == 16, "as in src/bpf/mod.rs");
_Static_assert(sizeof(struct prof_runtime) == 208, "without padding");
_Static_assert(sizeof(struct prof_runtime_frame) == 16, "two words");
_Static_assert(sizeof(struct prof_goroutine_place) == 40, "without padding");
_Static_assert(sizeof(struct prof_goroutine) == 24, "three words");
_Static_assert(sizeof(struct prof_managed) == 288, "without padding");
_Static_assert(sizeof(struct prof_managed_frame) == 16, "two words");
_Static_assert(sizeof(struct prof_process) ==
		       16 + 32 * PROF_MAX_MAPPINGS + sizeof(struct prof_runtime) +
			       sizeof(struct prof_goroutine_place) + sizeof(struct prof_managed),
	       "as in src/bpf/mod.rs");

char LICENSE[] SEC("license") = "Dual BSD/GPL";
