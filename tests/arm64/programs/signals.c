/* Signal handlers: on the thread's stack, on a stack of their own, and over a function's first instruction. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

static volatile long sink;

__attribute__((noipa)) static long inside_handler(long n)
{
	return n * 5 + sink;
}

static void handler(int number, siginfo_t *info, void *context)
{
	(void)info;
	sink = inside_handler(number);
	if (number == SIGILL)
		((ucontext_t *)context)->uc_mcontext.pc += 4;
}

/* Nothing is saved where the signal comes: the return address is in x30. */
long illegal(void);
__asm__(".text\n.type illegal, %function\nillegal:\n.cfi_startproc\n.inst 0\nmov x0, #1\nret\n.cfi_endproc\n"
	".size illegal, . - illegal\n");

__attribute__((noipa)) static long over_first_instruction(void)
{
	return illegal() + 1;
}

__attribute__((noipa)) static long raise_twice(void)
{
	return raise(SIGUSR1) + raise(SIGUSR2);
}

int main(void)
{
	stack_t other = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct sigaction on_this = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	struct sigaction on_other = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaltstack(&other, 0);
	sigaction(SIGUSR1, &on_this, 0);
	sigaction(SIGUSR2, &on_other, 0);
	sigaction(SIGILL, &on_other, 0);
	sink = raise_twice();
	sink = over_first_instruction();
	return 0;
}
