/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks of every shape, each held by one program that never ends: the first argument names it.
 *
 * build: cc -O2 -fomit-frame-pointer -o $OUT shapes.c
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static volatile unsigned sink;

__attribute__((noinline)) static void spin(void)
{
	for (;;)
		sink++;
}

__attribute__((noinline)) static unsigned down(unsigned depth)
{
	volatile unsigned kept = depth;

	if (!depth)
		spin();
	return down(depth - 1) + kept;
}

__attribute__((noinline)) static void plt(void)
{
	for (;;)
		sink += rand();
}

/* Locals aligned beyond the stack, and of a size that is not known: the CFA is found through a saved pointer. */
__attribute__((noinline)) static void realigned(unsigned size)
{
	__attribute__((aligned(64))) volatile char fixed[64];
	volatile char *variable = alloca(size);

	fixed[0] = variable[0] = 1;
	spin();
	sink += fixed[0] + variable[0];
}

__attribute__((noinline)) static void in_vfork(void)
{
	for (;;) {
		if (!vfork()) {
			usleep(20000);
			_exit(0);
		}
	}
}

static void on_signal(int number)
{
	spin();
	sink += number;
}

__attribute__((noinline)) static void interrupted(void)
{
	for (;;)
		sink += 2;
}

static void in_signal(int flags)
{
	static char other[65536];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
	struct itimerval once = { { 0, 0 }, { 0, 20000 } };

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &once, NULL);
	interrupted();
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };

static void generated(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return;
	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	((void (*)(void (*)(void)))(uintptr_t)page)(spin);
	sink++;
}

static int compare(const void *a, const void *b)
{
	spin();
	return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
	const char *shape = argc > 1 ? argv[1] : "";
	int values[] = { 2, 1 };

	if (!strcmp(shape, "recursion"))
		sink += down(2000);
	if (!strcmp(shape, "plt"))
		plt();
	if (!strcmp(shape, "realigned"))
		realigned(argc * 100);
	if (!strcmp(shape, "vfork"))
		in_vfork();
	if (!strcmp(shape, "signal"))
		in_signal(SA_RESTART);
	if (!strcmp(shape, "altstack"))
		in_signal(SA_RESTART | SA_ONSTACK);
	if (!strcmp(shape, "generated"))
		generated();
	if (!strcmp(shape, "sort"))
		qsort(values, 2, sizeof(*values), compare);
	return 1;
}
