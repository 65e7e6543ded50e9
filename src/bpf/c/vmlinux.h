/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs read, kept by hand. Only fields in use are listed: CO-RE
 * finds their real offsets on the running kernel (`preserve_access_index`), so this file needs no
 * update when kernel structures move.
 */
#ifndef PROF_VMLINUX_H
#define PROF_VMLINUX_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum { false = 0, true = 1 };

/* include/uapi/linux/bpf.h: what the programs use of it. */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_MMAPABLE = 1 << 10,
};

enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1 << 0,
};

enum {
	BPF_RB_NO_WAKEUP = 1 << 0,
	BPF_RB_FORCE_WAKEUP = 1 << 1,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
};

#ifdef __TARGET_ARCH_arm64

/* arch/arm64/include/asm/ptrace.h: there, the first four are inside anonymous members. */
struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
	__s32 syscallno;
} __attribute__((preserve_access_index));

/* arch/arm64/include/uapi/asm/ptrace.h and include/uapi/linux/bpf_perf_event.h: as below. */
struct bpf_perf_event_data {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
	__u64 sample_period;
	__u64 addr;
};

#else

/* arch/x86/include/asm/ptrace.h. What pushes it is assembly that has these offsets: no CO-RE, for
 * which libbpf searches all types of the kernel. */
struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long flags;
	unsigned long sp;
	unsigned long ss;
};

/*
 * Context of perf_event programs (include/uapi/linux/bpf_perf_event.h). Its layout is ABI and the
 * verifier wants plain offsets: no CO-RE here.
 */
struct bpf_perf_event_data {
	__u64 r15;
	__u64 r14;
	__u64 r13;
	__u64 r12;
	__u64 bp;
	__u64 bx;
	__u64 r11;
	__u64 r10;
	__u64 r9;
	__u64 r8;
	__u64 ax;
	__u64 cx;
	__u64 dx;
	__u64 si;
	__u64 di;
	__u64 orig_ax;
	__u64 ip;
	__u64 cs;
	__u64 flags;
	__u64 sp;
	__u64 ss;
	__u64 sample_period;
	__u64 addr;
};

#endif

/* kernel/events/uprobes.c: where the copies of probed instructions and the trampoline lie. */
struct xol_area {
	unsigned long vaddr;
} __attribute__((preserve_access_index));

/* include/linux/uprobes.h */
struct uprobes_state {
	struct xol_area *xol_area;
} __attribute__((preserve_access_index));

struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __attribute__((preserve_access_index));

struct uprobe_task {
	struct return_instance *return_instances;
	unsigned long vaddr;
	unsigned long xol_vaddr;
} __attribute__((preserve_access_index));

/* arch/.../include/asm/mmu.h */
typedef struct {
	void *vdso;
} __attribute__((preserve_access_index)) mm_context_t;

/* include/linux/mm_types.h */
struct mm_struct {
	unsigned long start_code;
	unsigned long start_brk;
	unsigned long brk;
	unsigned long start_stack;
	mm_context_t context;
	struct uprobes_state uprobes_state;
} __attribute__((preserve_access_index));

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct mm_struct *vm_mm;
	struct file *vm_file;
} __attribute__((preserve_access_index));

/* include/linux/fs.h */
struct super_block {
	unsigned int s_dev;
} __attribute__((preserve_access_index));

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
	__s64 i_size;
	/* Since 6.11. */
	__s64 i_mtime_sec;
	__u32 i_mtime_nsec;
} __attribute__((preserve_access_index));

/* include/linux/time64.h */
struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
} __attribute__((preserve_access_index));

/* The same from 6.7 to 6.10, and before. */
struct inode___v6_7 {
	struct timespec64 __i_mtime;
} __attribute__((preserve_access_index));

struct inode___v5 {
	struct timespec64 i_mtime;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
	void *private_data;
} __attribute__((preserve_access_index));

/* include/linux/fdtable.h */
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} __attribute__((preserve_access_index));

struct files_struct {
	struct fdtable *fdt;
} __attribute__((preserve_access_index));

/* include/net/sock.h, include/linux/net.h */
struct sock_common {
	unsigned short skc_family;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
} __attribute__((preserve_access_index));

struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

/* arch/x86/include/asm/processor.h */
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

/* include/linux/pid.h: as it is since 4.15, when `pid_chain` left it; no CO-RE, since its size is
 * used. */
struct upid {
	int nr;
	void *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

/* kernel/sched/sched.h */
struct rq {
	__u64 clock; /* ns, as it was when the scheduler began to choose */
} __attribute__((preserve_access_index));

struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
} __attribute__((preserve_access_index));

/* include/linux/sched.h */
struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq; /* with CONFIG_FAIR_GROUP_SCHED */
} __attribute__((preserve_access_index));

struct sched_info {
	unsigned long long
		run_delay; /* it was in a queue so long before it last came on a CPU, ns */
	unsigned long long last_queued; /* by the clock of its rq; 0: it is in no queue */
} __attribute__((preserve_access_index));

#ifdef __TARGET_ARCH_x86
struct thread_info {
	__u32 status; /* TS_COMPAT: it is in a system call of 32-bit code */
} __attribute__((preserve_access_index));
#endif

struct task_struct {
#ifdef __TARGET_ARCH_x86
	struct thread_info thread_info;
#endif
	struct sched_entity se;
	struct sched_info sched_info;
	__u64 start_time; /* CLOCK_MONOTONIC, ns */
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	unsigned int __state;
	int exit_state;
	void *stack;
	unsigned int on_cpu; /* int up to 7.2, u8 since: only unsigned ones are read as wide as they
				are */
	unsigned in_iowait : 1;
	struct mm_struct *mm;
	struct files_struct *files;
	char comm[16];
	struct uprobe_task *utask;
	struct thread_struct thread;
} __attribute__((preserve_access_index));

/* kernel/bpf/task_iter.c */
struct seq_file;

/* Contexts of iterators (kernel/bpf/task_iter.c, include/linux/bpf.h), which are ABI: no CO-RE. */
struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct linux_binprm;

#endif /* PROF_VMLINUX_H */
