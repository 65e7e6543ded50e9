// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The BPF side of a recording: one object, so that all programs share the maps.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "prof.h"
#include "maps.bpf.h"
#include "unwind.bpf.h"
#include "process.bpf.h"
#include "oncpu.bpf.h"

/* Keep the shared types in BTF, so that user space takes them from there. */
struct prof_sample *type_sample;
struct prof_rescue *type_rescue;
struct prof_row *type_row;
struct prof_page *type_page;
struct prof_rule *type_rule;
struct prof_image *type_image;

char LICENSE[] SEC("license") = "Dual BSD/GPL";
