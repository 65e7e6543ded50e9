/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A small log indexer to look at with `prof`: workers parse lines, count words in a hash table, sort
 * what they found and pack it. It measures the CPU time of each phase itself and prints the shares when
 * it ends, so that the profile can be compared with the truth.
 *
 *   cc -O2 -g -fomit-frame-pointer -pthread -o workload examples/workload.c
 *   ./workload [SECONDS [WORKERS]]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WORKERS 64
#define BATCH_LINES 2000
#define LINE_BYTES 128
#define TABLE_SLOTS 8192 /* a power of two, well above the number of distinct words */
#define MAX_WORDS 4096

/* Keeps the call graph as written, so that the names below are what a profile shows. */
#define NOINLINE __attribute__((noinline, noclone))

enum phase { GENERATE, PARSE, INDEX, SORT, PACK, PHASES };
static const char *const phase_names[PHASES] = { "generate_lines", "parse_lines", "index_words",
						 "sort_words", "pack_block" };

struct word {
	const char *text;
	uint32_t length;
	uint32_t count;
};

struct worker {
	pthread_t thread;
	uint64_t random;
	uint64_t phase_ns[PHASES];
	uint64_t batches;
	uint64_t checksum;
	size_t word_count;
	size_t distinct;
	char lines[BATCH_LINES][LINE_BYTES];
	struct word words[BATCH_LINES * 16];
	struct word table[TABLE_SLOTS];
	struct word found[MAX_WORDS];
	uint8_t packed[MAX_WORDS * 40];
};

static atomic_int stopping;

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static NOINLINE void generate_lines(struct worker *w)
{
	static const char *const stems[] = { "request", "cache", "index", "user", "session", "table",
					     "commit", "page", "socket", "timer" };
	for (size_t i = 0; i < BATCH_LINES; i++) {
		char *out = w->lines[i], *end = out + LINE_BYTES - 24;
		while (out < end) {
			uint64_t r = next_random(w);
			const char *stem = stems[r % 10];
			while (*stem)
				*out++ = *stem++;
			*out++ = (char)('a' + (r >> 8) % 16);
			*out++ = (char)('a' + (r >> 16) % 16);
			*out++ = ' ';
		}
		*out = 0;
	}
}

static NOINLINE const char *next_word(const char *at, struct word *word)
{
	while (*at == ' ')
		at++;
	word->text = at;
	while (*at && *at != ' ')
		at++;
	word->length = (uint32_t)(at - word->text);
	word->count = 1;
	return at;
}

static NOINLINE void parse_lines(struct worker *w)
{
	w->word_count = 0;
	for (size_t i = 0; i < BATCH_LINES; i++) {
		const char *at = w->lines[i];
		while (*at) {
			struct word word;
			at = next_word(at, &word);
			if (word.length && w->word_count < sizeof(w->words) / sizeof(w->words[0]))
				w->words[w->word_count++] = word;
		}
	}
}

static NOINLINE uint32_t hash_word(const struct word *word)
{
	uint32_t hash = 2166136261u; /* FNV-1a */
	for (uint32_t i = 0; i < word->length; i++)
		hash = (hash ^ (uint8_t)word->text[i]) * 16777619u;
	return hash;
}

static NOINLINE void index_words(struct worker *w)
{
	memset(w->table, 0, sizeof(w->table));
	w->distinct = 0;
	for (size_t i = 0; i < w->word_count; i++) {
		const struct word *word = &w->words[i];
		uint32_t slot = hash_word(word) & (TABLE_SLOTS - 1);
		while (w->table[slot].text && (w->table[slot].length != word->length ||
					       memcmp(w->table[slot].text, word->text, word->length)))
			slot = (slot + 1) & (TABLE_SLOTS - 1);
		if (w->table[slot].text) {
			w->table[slot].count++;
		} else if (w->distinct < MAX_WORDS) {
			w->table[slot] = *word;
			w->distinct++;
		}
	}
}

static NOINLINE int compare_words(const void *left, const void *right)
{
	const struct word *a = left, *b = right;
	uint32_t shorter = a->length < b->length ? a->length : b->length;
	int order = memcmp(a->text, b->text, shorter);
	return order ? order : (int)a->length - (int)b->length;
}

static NOINLINE void sort_words(struct worker *w)
{
	size_t out = 0;
	for (size_t i = 0; i < TABLE_SLOTS && out < MAX_WORDS; i++)
		if (w->table[i].text)
			w->found[out++] = w->table[i];
	qsort(w->found, out, sizeof(w->found[0]), compare_words);
	/* A call at the very end would be a jump, and this function would not be on the stack. */
	__asm__ volatile("" ::: "memory");
}

/* Front coding: a word is stored as what it shares with the one before and what is new. */
static NOINLINE size_t pack_word(uint8_t *out, const struct word *before, const struct word *word)
{
	uint32_t shared = 0, rest;
	while (before && shared < before->length && shared < word->length &&
	       before->text[shared] == word->text[shared])
		shared++;
	rest = word->length - shared;
	if (rest > 32)
		rest = 32;
	out[0] = (uint8_t)shared;
	out[1] = (uint8_t)rest;
	memcpy(out + 2, word->text + shared, rest);
	return rest + 2;
}

static NOINLINE void pack_block(struct worker *w)
{
	size_t bytes = 0;
	uint32_t low = 1, high = 0;
	for (size_t i = 0; i < w->distinct; i++)
		bytes += pack_word(w->packed + bytes, i ? &w->found[i - 1] : NULL, &w->found[i]);
	for (size_t i = 0; i < bytes; i++) { /* Adler-32 */
		low = (low + w->packed[i]) % 65521;
		high = (high + low) % 65521;
	}
	w->checksum += (uint64_t)high << 16 | low;
}

static NOINLINE void run_batch(struct worker *w)
{
	static void (*const phases[PHASES])(struct worker *) = { generate_lines, parse_lines, index_words,
								 sort_words, pack_block };
	for (int phase = 0; phase < PHASES; phase++) {
		uint64_t began = thread_cpu_ns();
		phases[phase](w);
		w->phase_ns[phase] += thread_cpu_ns() - began;
	}
	w->batches++;
}

static NOINLINE void *worker_main(void *argument)
{
	struct worker *w = argument;
	while (!atomic_load_explicit(&stopping, memory_order_relaxed))
		run_batch(w);
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 10.0;
	int workers = argc > 2 ? atoi(argv[2]) : 2;
	static struct worker *all[MAX_WORKERS];
	uint64_t total = 0, sums[PHASES] = { 0 }, batches = 0, checksum = 0;

	if (!(seconds > 0 && seconds < 86400) || workers < 1 || workers > MAX_WORKERS) {
		fprintf(stderr, "usage: workload [SECONDS [WORKERS]]  (1 to %d workers)\n", MAX_WORKERS);
		return 2;
	}
	for (int i = 0; i < workers; i++) {
		char name[16];
		all[i] = calloc(1, sizeof(*all[i]));
		if (!all[i])
			return 1;
		all[i]->random = 88172645463325252u + (uint64_t)i * 7919;
		if (pthread_create(&all[i]->thread, NULL, worker_main, all[i]))
			return 1;
		snprintf(name, sizeof(name), "indexer-%d", i);
		pthread_setname_np(all[i]->thread, name);
	}
	struct timespec rest = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	nanosleep(&rest, NULL);
	atomic_store(&stopping, 1);
	for (int i = 0; i < workers; i++) {
		pthread_join(all[i]->thread, NULL);
		for (int phase = 0; phase < PHASES; phase++) {
			sums[phase] += all[i]->phase_ns[phase];
			total += all[i]->phase_ns[phase];
		}
		batches += all[i]->batches;
		checksum += all[i]->checksum;
	}
	printf("workload: %llu batches, checksum %llx; CPU time by its own clock:\n",
	       (unsigned long long)batches, (unsigned long long)checksum);
	for (int phase = 0; phase < PHASES; phase++)
		printf("  %5.1f%%  %s\n", total ? 100.0 * (double)sums[phase] / (double)total : 0.0,
		       phase_names[phase]);
	return 0;
}
