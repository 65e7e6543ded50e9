/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a host may do to a recorder that watches all of it.
 *
 *   cc -O2 -o storms storms.c
 *   storms crowd PROCESSES SECONDS    so many processes that are there, one of which computes for a moment now and then
 *   storms forks PROCESSES SECONDS    so many lines of processes, each of which forks the next one and ends
 *   storms maps FOLDER SECONDS        a thousand files of the folder are mapped to be executed each second, a hundred at a time
 *
 * Prints how many processes there were, or mappings. Each ends by itself after SECONDS; children end with their parent.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_FILES 4096
#define LIVE 100

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void pause_for(double seconds)
{
	struct timespec time = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&time, NULL);
}

static volatile uint64_t sum;

static void compute(double seconds)
{
	double end = now() + seconds;

	while (now() < end)
		for (int step = 0; step < 10000; step++)
			sum += (uint64_t)step * sum;
}

static int crowd(int processes, double end)
{
	for (int number = 0; number < processes; number++) {
		pid_t child = fork();

		if (child < 0) {
			perror("fork");
			break;
		}
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause_for((double)number / processes * 10);
			for (;;) {
				compute(0.0005);
				pause_for(10);
			}
		}
	}
	printf("%d processes\n", processes);
	fflush(stdout);
	while (now() < end)
		pause_for(0.1);
	/* They get SIGKILL. */
	return 0;
}

static int forks(int lines, double end)
{
	uint64_t *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (count == MAP_FAILED)
		return 1;
	/* Whose parents end at once are this one's. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGCHLD, SIG_IGN);
	for (int line = 0; line < lines; line++) {
		if (fork() != 0)
			continue;
		while (now() < end) {
			if (fork() != 0)
				_exit(0);
			__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
			compute(0.0002);
		}
		_exit(0);
	}
	while (now() < end)
		pause_for(0.1);
	printf("%llu processes\n", (unsigned long long)*count);
	return 0;
}

static int maps(const char *folder, double end)
{
	static char *names[MOST_FILES];
	static void *live[LIVE];
	uint64_t done = 0;
	int files = 0;
	DIR *opened = opendir(folder);

	if (opened == NULL || chdir(folder) != 0)
		return 1;
	for (struct dirent *entry; files < MOST_FILES && (entry = readdir(opened)) != NULL;)
		if (entry->d_name[0] != '.')
			names[files++] = strdup(entry->d_name);
	closedir(opened);
	if (files == 0)
		return 1;
	for (double begun = now(); now() < end;) {
		int file = open(names[done % (uint64_t)files], O_RDONLY);
		void **slot = &live[done % LIVE];

		if (*slot != NULL)
			munmap(*slot, 8192);
		*slot = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
		if (*slot == MAP_FAILED)
			return 1;
		close(file);
		done++;
		if ((double)done > (now() - begun) * 1000)
			pause_for(0.001);
	}
	printf("%llu mappings of %d files\n", (unsigned long long)done, files);
	return 0;
}

int main(int count, char **words)
{
	double seconds = count == 4 ? atof(words[3]) : 0;

	if (seconds > 0 && strcmp(words[1], "crowd") == 0)
		return crowd(atoi(words[2]), now() + seconds);
	if (seconds > 0 && strcmp(words[1], "forks") == 0)
		return forks(atoi(words[2]), now() + seconds);
	if (seconds > 0 && strcmp(words[1], "maps") == 0)
		return maps(words[2], now() + seconds);
	fprintf(stderr, "usage: storms crowd|forks PROCESSES SECONDS, storms maps FOLDER SECONDS\n");
	return 2;
}
