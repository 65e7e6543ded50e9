/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The file that `prof record --stack-copies FILE` writes, as src/record/collect/stack_copies.rs describes
 * it.
 */
#ifndef COPIES_H
#define COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGISTERS 17 /* DWARF numbers 0..15, then rip */
#define RIP 16
#define RSP 7
#define ADDRESS_BITS ((1ULL << 56) - 1) /* of a frame; the rest are marks */
#define BY_FRAME_POINTER (1ULL << 62)

/* src/profile/outcome.rs */
enum outcome { COMPLETE = 1, TOO_DEEP = 10, MIDDLE_LEFT_OUT = 14 };
/* Frames of a stack with a gap that lie before it: LEAF_FRAMES of src/bpf/mod.rs. */
#define LEAF_FRAMES 512

/* The text of /proc/PID/maps. */
struct maps_record {
	uint32_t number;
	uint32_t pid;
	const char *text;
	size_t text_bytes;
};

/* One sample. Pointers lead into the file's bytes and are not aligned. */
struct sample_record {
	uint64_t time_ns;
	uint32_t pid;
	uint32_t tid;
	uint32_t maps;
	uint32_t stack_bytes;
	uint32_t frame_count;
	uint8_t outcome;
	bool is_rescued;
	bool is_return; /* rip is behind a system call instruction */
	bool has_copy;
	uint64_t stack_start;
	uint64_t missing_blocks[4]; /* one bit for each block of 4,096 bytes */
	uint64_t registers[REGISTERS];
	const unsigned char *frames; /* frame_count words */
	const unsigned char *stack;  /* stack_bytes bytes */
};

/* The file's bytes, and where the next record starts. */
struct copies {
	const unsigned char *bytes;
	size_t size;
	size_t at;
};

enum record_kind { RECORD_NONE = 0, RECORD_MAPS = 1, RECORD_SAMPLE = 2, RECORD_END = 3 };

/* Maps the file. Prints why and exits when it is none. */
void copies_open(struct copies *copies, const char *path);

/* Takes the next record; RECORD_NONE at the end of the file. A damaged file ends the program. */
enum record_kind copies_next(struct copies *copies, struct maps_record *maps,
			     struct sample_record *sample, uint64_t *refused);

/* Word `index` of unaligned words. */
uint64_t word_at(const unsigned char *words, size_t index);

#endif /* COPIES_H */
