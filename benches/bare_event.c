/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The least that sampling by cpu-clock can cost: the kernel's timer on each CPU at the period that prof asks for,
 * without a program and without output. Runs until it gets SIGINT or SIGTERM.
 *
 * usage: bare_event HZ
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long hz = argc > 1 ? atol(argv[1]) : 4999;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = hz > 0 ? 1000000000 / (uint64_t)hz : 0,
		.exclude_idle = 1,
		.exclude_guest = 1,
	};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (hz < 1 || hz > 20000) {
		fprintf(stderr, "usage: bare_event HZ (1 to 20000)\n");
		return 2;
	}
	for (long cpu = 0; cpu < cpus; cpu++) {
		if (syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC) < 0) {
			perror("perf_event_open");
			return 1;
		}
	}
	for (;;)
		pause();
}
