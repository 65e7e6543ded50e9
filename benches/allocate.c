/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Allocates and frees for a while, and prints what a malloc and its free take: a line for each tenth of a second of CPU time,
 * `SECONDS NANOSECONDS`, the first of which is CLOCK_MONOTONIC.
 *
 *   cc -O2 -o allocate allocate.c
 *   allocate pair SECONDS     blocks of 64 bytes, each freed at once
 *   allocate mixed SECONDS    blocks of 16 to 1024 bytes, 4096 of which are live
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIVE 4096
#define BATCH 10000

static void *live[LIVE];

static double now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void pairs(void)
{
	int n;

	for (n = 0; n < BATCH; n++) {
		void *block = malloc(64);

		__asm__ volatile("" : : "r"(block) : "memory");
		free(block);
	}
}

static void mixed(void)
{
	static uint64_t seed = 88172645463325252u;
	int n;

	for (n = 0; n < BATCH; n++) {
		void **slot;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		slot = &live[seed % LIVE];
		free(*slot);
		*slot = malloc(16 + (seed >> 32) % 1009);
	}
}

int main(int argc, char **argv)
{
	void (*work)(void) = argc > 1 && !strcmp(argv[1], "mixed") ? mixed : pairs;
	double end = now(CLOCK_MONOTONIC) + (argc > 2 ? atof(argv[2]) : 5);

	while (now(CLOCK_MONOTONIC) < end) {
		double begun = now(CLOCK_THREAD_CPUTIME_ID), used;
		uint64_t count = 0;

		do {
			work();
			count += BATCH;
			used = now(CLOCK_THREAD_CPUTIME_ID) - begun;
		} while (used < 0.1);
		printf("%.3f %.3f\n", now(CLOCK_MONOTONIC), used * 1e9 / (double)count);
		fflush(stdout);
	}
	return 0;
}
