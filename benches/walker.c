/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The workload of benches/walker.sh: a recursion without frame pointers whose end watches the clock, so that it
 * sees the time that sampling takes from it. Every half second it prints that of the last half second:
 *
 *   gap_us=TIME     per second of its CPU time, in gaps of 0.6 to 250 us: interrupts, not other processes
 *
 * usage: walker DEPTH SECONDS [WIDE]     WIDE: each frame has 128 bytes more
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds_left;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static __attribute__((noinline)) void watch_clock(void)
{
	for (; seconds_left > 0; seconds_left -= 0.5) {
		uint64_t cpu_began = clock_ns(CLOCK_THREAD_CPUTIME_ID), cpu_ns;
		uint64_t began = clock_ns(CLOCK_MONOTONIC), last = began, now, gap_ns = 0;
		while ((now = clock_ns(CLOCK_MONOTONIC)) < began + 500000000u) {
			uint64_t passed = now - last;
			if (passed > 600 && passed < 250000)
				gap_ns += passed;
			last = now;
		}
		cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_began;
		printf("gap_us=%.0f\n", cpu_ns ? gap_ns * 1e6 / cpu_ns : 0);
		fflush(stdout);
	}
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline, noclone)) int recurse(int depth)
{
	int below = 0;
	if (depth > 1)
		below = recurse(depth - 1);
	else
		watch_clock();
	__asm__ volatile("" : "+r"(below)::"memory");
	return below + depth;
}

static __attribute__((noinline, noclone)) int recurse_wide(int depth)
{
	volatile char room[128];
	int below = 0;
	room[0] = 0;
	if (depth > 1)
		below = recurse_wide(depth - 1);
	else
		watch_clock();
	__asm__ volatile("" : "+r"(below)::"memory");
	return below + depth + room[0];
}

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 29;
	seconds_left = argc > 2 ? atof(argv[2]) : 10;
	if (argc > 3)
		recurse_wide(depth);
	else
		recurse(depth);
	return 0;
}
