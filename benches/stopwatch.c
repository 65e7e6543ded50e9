/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a recorder for a while, stops it with SIGINT, and prints what it took, as `name=value` words:
 *
 *   attach_ms   from exec to the line `recording …` on standard error: sampling has begun then, and the first
 *               sample follows within one sampling period in which the target runs
 *   stop_ms     from SIGINT to the end of the process
 *   cpu_ms      CPU time of the recorder in user and kernel mode
 *   rss_kb      most memory it had
 *   status      its exit status
 *
 *   cc -O2 -o stopwatch stopwatch.c
 *   stopwatch SECONDS COMMAND [ARG...]
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

int main(int argc, char **argv)
{
	double seconds, began, attached = -1, stopped;
	struct rusage usage;
	char line[4096];
	int status, messages[2];
	pid_t child;
	FILE *from;

	if (argc < 3 || (seconds = atof(argv[1])) <= 0 || seconds > 600) {
		fprintf(stderr, "usage: stopwatch SECONDS COMMAND [ARG...]\n");
		return 2;
	}
	if (pipe(messages))
		return 1;
	began = now_ms();
	child = fork();
	if (child < 0)
		return 1;
	if (child == 0) {
		dup2(messages[1], 2);
		close(messages[0]);
		close(messages[1]);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	close(messages[1]);
	from = fdopen(messages[0], "r");
	while (from && fgets(line, sizeof(line), from)) {
		if (strncmp(line, "recording ", 10) == 0) {
			attached = now_ms() - began;
			break;
		}
		fputs(line, stderr);
	}
	while (now_ms() - began < seconds * 1e3 && waitpid(child, NULL, WNOHANG | WNOWAIT) != child)
		usleep(1000);
	stopped = now_ms();
	kill(child, SIGINT);
	if (wait4(child, &status, 0, &usage) != child)
		return 1;
	printf("attach_ms=%.0f stop_ms=%.0f cpu_ms=%.0f rss_kb=%ld status=%d\n", attached, now_ms() - stopped,
	       (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
		       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-3,
	       usage.ru_maxrss, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}
