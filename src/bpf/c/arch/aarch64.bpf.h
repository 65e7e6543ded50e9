/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the walker has to know of arm64: register numbers, and where the kernel keeps registers. */
#ifndef PROF_ARCH_ARM64_BPF_H
#define PROF_ARCH_ARM64_BPF_H

/* DWARF numbers (DWARF for the Arm 64-bit Architecture, 4.1), and the place of the program counter
 * after them. BP is what rules call rbp: the frame pointer. */
#define REG_BP 29
#define REG_LR 30
#define REG_SP 31
#define REG_IP 32
#define REGS_IP(regs) ((regs)->pc)
/* What the kernel notes of a return address that a uretprobe has replaced (it is in a register
 * then): the stack pointer at the call. */
#define RETURN_SLOT(cfa) (cfa)
/* Numbers of registers that rules may name: all 32. */
#define REG_MASK 31

/* A frame record may lie anywhere in its frame, so its address does not tell the stack pointer. */
#define FRAME_RECORD_TELLS_SP false

/* Bits of a return address that hold a signature (pointer authentication). Written by user space;
 * as it is, for addresses of 48 bits. */
const volatile __u64 signature_mask = 0x007f000000000000ULL;

static __always_inline __u64 plain_return_address(__u64 return_address)
{
	return return_address & ~signature_mask;
}

/* How a walk ends when the return address was in a register that is lost. The link register holds
 * it only where nothing has been called: a caller's frame whose rule says so has a wrong rule. */
static __always_inline enum prof_outcome lost_return_address(__u32 reg)
{
	return reg == REG_LR ? PROF_OUTCOME_BAD_UNWIND_INFO : PROF_OUTCOME_UNSUPPORTED_RULE;
}

/* arch/arm64/kernel/signal.c: struct rt_sigframe is a siginfo of 128 bytes and a ucontext whose
 * sigcontext (arch/arm64/include/uapi/asm/sigcontext.h) starts with fault_address, 176 bytes in. */
#define SIGNAL_REGISTERS 312

/* Takes all registers from the frame at the stack pointer: x0 to x30, sp, pc. */
static __always_inline bool take_signal_registers(struct scratch *s)
{
	__u64 *regs = (__u64 *)s->window;

	s->window_words = 0;
	if (bpf_probe_read_user(s->window, PROF_REGISTERS * 8,
				(void *)(s->regs[REG_SP] + SIGNAL_REGISTERS)))
		return false;
#pragma unroll
	for (int i = 0; i < PROF_REGISTERS; i++)
		s->regs[i] = regs[i];
	return true;
}

/* No rule of arm64 asks for it. The compiler must not know: it would find arguments of global
 * functions unused and not pass them, and the kernel wants all. */
static __always_inline __u64 user_thread_pointer(struct task_struct *task)
{
	__u64 none = 0;

	asm volatile("" : "+r"(none));
	return none;
}

/* Where the address of glibc's dynamic thread vector is: of the thread-local variables of each
 * module. */
static __always_inline __u64 thread_vector_place(__u64 thread)
{
	return thread;
}

/* Where the return address of an interrupted function without unwind information is on the stack:
 * nothing is proven yet, and rules follow the link register. */
static __always_inline long leaf_return_distance(struct scratch *s, __u64 top)
{
	return -1;
}

#define PF_KTHREAD 0x00200000	 /* include/linux/sched.h */
#define PSR_MODE_MASK 0x0000000f /* arch/arm64/include/uapi/asm/ptrace.h */
#define PSR_MODE_EL0T 0x00000000
#define PSR_MODE32_BIT 0x00000010
#define NO_SYSCALL (-1) /* arch/arm64/include/asm/ptrace.h */
#define NR_EXECVE 221	/* include/uapi/asm-generic/unistd.h */
#define NR_EXECVEAT 281
#define NR_EXIT 93
#define NR_EXIT_GROUP 94
#define NR_FUTEX 98

/* Whether the interrupt came from user mode. */
static __always_inline bool is_user_mode(struct bpf_perf_event_data *ctx)
{
	return (*(volatile __u64 *)&ctx->pstate & PSR_MODE_MASK) == PSR_MODE_EL0T;
}

/* What holds for registers from anywhere. */
static __always_inline void taken_registers(struct scratch *s, __u64 pstate)
{
	s->leaf_sp = s->regs[REG_SP];
	s->all_registers = 1;
	s->has_kept = 1;
	if (pstate & PSR_MODE32_BIT) {
		/* Not walked: its words have four bytes. */
		s->frames[s->kernel_count & (2 * PROF_MAX_USER_FRAMES - 1)] =
			s->regs[REG_IP] & 0xffffffff;
		s->walked = 1;
		s->outcome = PROF_OUTCOME_COMPAT32;
	}
}

/* Takes the user registers of a thread that is in the kernel. Returns false when it has none. */
static __always_inline bool take_task_registers(struct scratch *s, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 pstate = regs->pstate;
	int syscall = regs->syscallno;

	s->is_return = 0;
	s->in_exec = 0;
	if (!BPF_CORE_READ(task, mm) || (task->flags & PF_KTHREAD))
		return false;
	/* A non-maskable interrupt in the entry code that is just saving the registers. */
	if ((pstate & PSR_MODE_MASK) != PSR_MODE_EL0T) {
		s->outcome = PROF_OUTCOME_STACK_UNREADABLE;
		return true;
	}
#pragma unroll
	for (int i = 0; i <= REG_LR; i++)
		s->regs[i] = regs->regs[i];
	s->regs[REG_SP] = regs->sp;
	s->regs[REG_IP] = regs->pc;
	/* In a system call the address is after the instruction, which may be the last of its
	 * function (rt_sigreturn): look up the one before. */
	s->is_return = syscall != NO_SYSCALL;
	s->in_exec = syscall == NR_EXECVE || syscall == NR_EXECVEAT;
	taken_registers(s, pstate);
	return true;
}

/* Takes the user registers of the interrupted thread. Returns false when it has none. */
static __always_inline bool take_user_registers(struct scratch *s, struct bpf_perf_event_data *ctx,
						struct task_struct *task)
{
	if (!is_user_mode(ctx))
		return take_task_registers(s, task);
	s->is_return = 0;
	s->in_exec = 0;
#pragma unroll
	for (int i = 0; i <= REG_LR; i++)
		s->regs[i] = ctx->regs[i];
	s->regs[REG_SP] = ctx->sp;
	s->regs[REG_IP] = ctx->pc;
	taken_registers(s, *(volatile __u64 *)&ctx->pstate);
	return true;
}

/* The number of the system call that a thread is in; -1 when it came into the kernel otherwise. */
static __always_inline __s64 system_call(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->syscallno;
}

/* Stack pointer of the user code that the current task has left for the kernel. */
static __always_inline __u64 user_stack_pointer(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->sp;
}

/* First argument of the system call that a thread is in. */
static __always_inline __u64 system_call_argument(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->regs[0];
}

/* Its second one. */
static __always_inline __u64 second_system_call_argument(struct task_struct *task)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->regs[1];
}

/* A breakpoint leaves the program counter where it is. */
static __always_inline void return_to_breakpoint(struct scratch *s)
{
}

/* Argument number `n`, from 0, of the function at whose entry the current task is at a probe. */
static __always_inline __u64 probe_argument(struct task_struct *task, int n)
{
	return ((struct pt_regs *)bpf_task_pt_regs(task))->regs[n & 3];
}

#endif /* PROF_ARCH_ARM64_BPF_H */
