/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the walker has to know of x86-64: register numbers, and where the kernel keeps registers. */
#ifndef PROF_ARCH_X86_BPF_H
#define PROF_ARCH_X86_BPF_H

/* DWARF numbers, and the place of the program counter after them. */
#define REG_BP 6
#define REG_SP 7
#define REG_IP 16
#define REGS_IP(regs) ((regs)->ip)
/* Where the return address of a frame lies that a uretprobe has replaced. */
#define RETURN_SLOT(cfa) ((cfa)-8)
/* Numbers of registers that rules may name: all 16. */
#define REG_MASK 15

/* `push %rbp` puts the frame record next to the CFA. */
#define FRAME_RECORD_TELLS_SP true

static __always_inline __u64 plain_return_address(__u64 return_address)
{
	return return_address;
}

/* How a walk ends when the return address was in a register that is lost. */
static __always_inline enum prof_outcome lost_return_address(__u32 reg)
{
	return PROF_OUTCOME_UNSUPPORTED_RULE;
}

/* Takes all registers from the ucontext at the stack pointer: struct rt_sigframe of
 * arch/x86/include/asm/sigframe.h, gregs in the order of struct sigcontext_64. */
static __always_inline bool take_signal_registers(struct scratch *s)
{
	__u64 *gregs = (__u64 *)s->window;

	s->window_words = 0;
	if (bpf_probe_read_user(s->window, 17 * 8, (void *)(s->regs[REG_SP] + 40)))
		return false;
	s->regs[8] = gregs[0];
	s->regs[9] = gregs[1];
	s->regs[10] = gregs[2];
	s->regs[11] = gregs[3];
	s->regs[12] = gregs[4];
	s->regs[13] = gregs[5];
	s->regs[14] = gregs[6];
	s->regs[15] = gregs[7];
	s->regs[5] = gregs[8];
	s->regs[4] = gregs[9];
	s->regs[REG_BP] = gregs[10];
	s->regs[3] = gregs[11];
	s->regs[1] = gregs[12];
	s->regs[0] = gregs[13];
	s->regs[2] = gregs[14];
	s->regs[REG_SP] = gregs[15];
	s->regs[REG_IP] = gregs[16];
	return true;
}

/* `mov %rsp, %rbp`, in both ways to write it. */
static __always_inline bool sets_frame_pointer(__u64 code)
{
	return (code & 0xffffff) == 0xe58948 || (code & 0xffffff) == 0xec8b48;
}

/*
 * Where an interrupted function without unwind information has its return address, in bytes from
 * the stack pointer, if its next instructions prove it; else -1. At a function's first and last
 * instructions rbp is the caller's, and to follow it would leave the caller out. `top` is the word
 * at the stack pointer. The twin of src/unwind/leaf_code.rs.
 */
static __always_inline long leaf_return_distance(struct scratch *s, __u64 top)
{
	__u64 code[2], next, entry;

	if (bpf_probe_read_user(code, sizeof(code), (void *)(s->regs[REG_IP] - 1)))
		return -1;
	next = code[0] >> 8 | code[1] << 56;
	/* `ret`, with what compilers put before it and after it. */
	if ((next & 0xfe) == 0xc2 || (next & 0xffff) == 0xc3f3)
		return 0;
	/* `pop %rbp; ret` */
	if ((next & 0xffff) == 0xc35d)
		return 8;
	/* `endbr64` */
	entry = (__u32)next == 0xfa1e0ff3 ? next >> 32 | code[1] >> 8 << 32 : next;
	if ((entry & 0xff) == 0x55 && sets_frame_pointer(entry >> 8))
		return 0;
	if ((code[0] & 0xff) == 0x55 && top == s->regs[REG_BP] && sets_frame_pointer(next))
		return 8;
	return -1;
}

/* What fs points to in user space; kept by arch_prctl and clone, which all C libraries and Go use.
 */
static __always_inline __u64 user_thread_pointer(struct task_struct *task)
{
	return BPF_CORE_READ(task, thread.fsbase);
}

/* Where the address of glibc's dynamic thread vector is: of the thread-local variables of each
 * module. */
static __always_inline __u64 thread_vector_place(__u64 thread)
{
	return thread + 8;
}

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */
#define USER32_CS 0x23	      /* arch/x86/include/asm/segment.h */
#define NR_EXECVE 59	      /* arch/x86/entry/syscalls/syscall_64.tbl */
#define NR_EXECVEAT 322
#define NR_EXIT 60
#define NR_EXIT_GROUP 231
#define TS_COMPAT 2 /* arch/x86/include/asm/thread_info.h */
#define NR_FUTEX 202
/* arch/x86/include/uapi/asm/vsyscall.h: three system calls of old programs, done by the kernel. */
#define VSYSCALL_PAGE 0xffffffffff600000ULL

/* Whether the interrupt came from user mode. */
static __always_inline bool is_user_mode(struct bpf_perf_event_data *ctx)
{
	return *(volatile __u64 *)&ctx->cs & 3;
}

/* What holds for registers from anywhere. */
static __always_inline void taken_registers(struct scratch *s, __u64 cs)
{
	s->leaf_sp = s->regs[REG_SP];
	s->all_registers = 1;
	s->has_kept = 1;
	if ((cs & 0xffff) == USER32_CS) {
		/* Not walked: its words have four bytes. */
		s->frames[s->kernel_count & (2 * PROF_MAX_USER_FRAMES - 1)] =
			s->regs[REG_IP] & 0xffffffff;
		s->walked = 1;
		s->outcome = PROF_OUTCOME_COMPAT32;
	}
}

/* struct rt_sigframe of arch/x86/include/asm/sigframe.h: where its ucontext and its siginfo lie. */
#define SIGFRAME_CONTEXT_BYTES 8
#define SIGFRAME_INFO_BYTES 312

/* Whether the thread is about to enter a signal handler: its stack pointer and the handler's second
 * and third argument all point into the frame that the kernel has just pushed. The number of the
 * system call that was interrupted is still there. */
static __always_inline bool begins_handler(const struct scratch *s)
{
	__u64 sp = s->regs[REG_SP];

	return s->regs[1] == sp + SIGFRAME_CONTEXT_BYTES && s->regs[4] == sp + SIGFRAME_INFO_BYTES;
}

/* Takes the user registers of a thread that is in the kernel. Returns false when it has none. */
static __always_inline bool take_task_registers(struct scratch *s, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	s->is_return = 0;
	s->in_exec = 0;
	if (!BPF_CORE_READ(task, mm) || (task->flags & PF_KTHREAD))
		return false;
	s->regs[0] = regs->ax;
	s->regs[1] = regs->dx;
	s->regs[2] = regs->cx;
	s->regs[3] = regs->bx;
	s->regs[4] = regs->si;
	s->regs[5] = regs->di;
	s->regs[REG_BP] = regs->bp;
	s->regs[REG_SP] = regs->sp;
	s->regs[8] = regs->r8;
	s->regs[9] = regs->r9;
	s->regs[10] = regs->r10;
	s->regs[11] = regs->r11;
	s->regs[12] = regs->r12;
	s->regs[13] = regs->r13;
	s->regs[14] = regs->r14;
	s->regs[15] = regs->r15;
	s->regs[REG_IP] = regs->ip;
	/* In a system call the address is after the instruction, which may be the last of its
	 * function (rt_sigreturn): look up the one before. A vsyscall is one too, and is still at
	 * its first instruction, as is a handler that begins when a system call ends. */
	s->is_return = (__s64)regs->orig_ax != -1 && s->regs[REG_IP] - VSYSCALL_PAGE >= 4096 &&
		       !begins_handler(s);
	s->in_exec = regs->orig_ax == NR_EXECVE || regs->orig_ax == NR_EXECVEAT;
	taken_registers(s, regs->cs);
	return true;
}

/*
 * Takes the user registers of the interrupted thread. Returns false when it has none.
 *
 * Context fields are read as whole words: clang narrows `cs & 3` to a load of two bytes, which the
 * verifier refuses for a context (6.18).
 */
static __always_inline bool take_user_registers(struct scratch *s, struct bpf_perf_event_data *ctx,
						struct task_struct *task)
{
	__u64 cs = *(volatile __u64 *)&ctx->cs;

	if (!(cs & 3)) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

		/* A non-maskable interrupt in the entry code that is just saving the registers. */
		if (BPF_CORE_READ(task, mm) && !(task->flags & PF_KTHREAD) &&
		    ctx->sp >= (__u64)&regs->r11 && ctx->sp < (__u64)(regs + 1)) {
			s->is_return = 0;
			s->in_exec = 0;
			s->outcome = PROF_OUTCOME_STACK_UNREADABLE;
			return true;
		}
		return take_task_registers(s, task);
	}
	s->is_return = 0;
	s->in_exec = 0;
	s->regs[0] = ctx->ax;
	s->regs[1] = ctx->dx;
	s->regs[2] = ctx->cx;
	s->regs[3] = ctx->bx;
	s->regs[4] = ctx->si;
	s->regs[5] = ctx->di;
	s->regs[REG_BP] = ctx->bp;
	s->regs[REG_SP] = ctx->sp;
	s->regs[8] = ctx->r8;
	s->regs[9] = ctx->r9;
	s->regs[10] = ctx->r10;
	s->regs[11] = ctx->r11;
	s->regs[12] = ctx->r12;
	s->regs[13] = ctx->r13;
	s->regs[14] = ctx->r14;
	s->regs[15] = ctx->r15;
	s->regs[REG_IP] = ctx->ip;
	taken_registers(s, cs);
	return true;
}

/*
 * Puts a thread that is in the kernel back to the breakpoint that it has come to: until the kernel
 * looks at that, which is when it is about to leave, the program counter is after its one byte
 * (0xcc), though the instruction is still to be done. If that was a `push` of one byte, the word at
 * the stack pointer says whether it was done meanwhile.
 */
static __always_inline void return_to_breakpoint(struct scratch *s)
{
	__u8 code[2];
	__u64 top;

	if (s->is_return || bpf_probe_read_user(code, 2, (void *)(s->regs[REG_IP] - 1)) ||
	    code[0] != 0xcc || code[1] == 0xcc ||
	    bpf_probe_read_user(&top, sizeof(top), (void *)s->regs[REG_SP]))
		return;
	if (top != s->regs[3] && top != s->regs[REG_BP] && top != s->regs[12] &&
	    top != s->regs[13] && top != s->regs[14] && top != s->regs[15])
		s->regs[REG_IP]--;
}

/* The number of the system call that a thread is in; -1 when it came into the kernel otherwise,
 * less when the number is one of 32-bit programs, which have a table of their own. */
static __always_inline __s64 system_call(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__s64 number = regs->orig_ax;

	if (number < 0)
		return number;
	/* 64-bit programs can make such calls, too, by int $0x80. */
	return (regs->cs & 0xffff) == USER32_CS || task->thread_info.status & TS_COMPAT ? -2 :
											  number;
}

/* Stack pointer of the user code that the current task has left for the kernel. */
static __always_inline __u64 user_stack_pointer(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->sp;
}

/* First argument of the system call that a thread is in. */
static __always_inline __u64 system_call_argument(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->di;
}

/* Its second one. */
static __always_inline __u64 second_system_call_argument(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->si;
}

/* Argument number `n`, from 0, of the function at whose entry the current task is at a probe. */
static __always_inline __u64 probe_argument(struct task_struct *task, int n)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	switch (n) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	default:
		return regs->cx;
	}
}

#endif /* PROF_ARCH_X86_BPF_H */
