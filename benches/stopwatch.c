/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a recorder for a while, stops it with SIGINT, and prints what it took, as `name=value` words:
 *
 *   attach_ms   from exec to the last perf event opened within the first seconds
 *   stop_ms     from SIGINT to the end of the process
 *   cpu_ms      CPU time of the recorder in user and kernel mode
 *   rss_kb      most memory it had
 *   status      its exit status
 *
 *   cc -O2 -o stopwatch stopwatch.c
 *   stopwatch SECONDS COMMAND [ARG...]
 */
#define _GNU_SOURCE
#include <dirent.h>
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

/* How many perf events a process has open. */
static int open_events(pid_t pid)
{
	char path[64], target[64];
	struct dirent *entry;
	int count = 0;
	DIR *folder;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	if (!folder)
		return 0;
	while ((entry = readdir(folder))) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
		if (length <= 0)
			continue;
		target[length] = 0;
		if (strstr(target, "[perf_event]"))
			count++;
	}
	closedir(folder);
	return count;
}

int main(int argc, char **argv)
{
	double seconds, began, attached = -1, stopped;
	struct rusage usage;
	int events = 0, status;
	pid_t child;

	if (argc < 3 || (seconds = atof(argv[1])) <= 0 || seconds > 600) {
		fprintf(stderr, "usage: stopwatch SECONDS COMMAND [ARG...]\n");
		return 2;
	}
	began = now_ms();
	child = fork();
	if (child < 0)
		return 1;
	if (child == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	while (now_ms() - began < seconds * 1e3) {
		int open = open_events(child);
		if (open > events) {
			events = open;
			attached = now_ms() - began;
		}
		if (waitpid(child, NULL, WNOHANG | WNOWAIT) == child)
			break;
		usleep(1000);
	}
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
