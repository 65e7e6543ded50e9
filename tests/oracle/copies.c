// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads the file of stack copies; every length is checked. */
#include "copies.h"
#include <err.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLE_HEADER_BYTES (8 + 5 * 4 + 4 + 8 + REGISTERS * 8)

void copies_open(struct copies *copies, const char *path)
{
	struct stat facts;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &facts))
		err(2, "%s", path);
	copies->size = facts.st_size;
	if (copies->size < 8)
		errx(2, "%s: too short", path);
	copies->bytes = mmap(NULL, copies->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (copies->bytes == MAP_FAILED)
		err(2, "%s", path);
	close(fd);
	if (memcmp(copies->bytes, "PROFCOPY", 8))
		errx(2, "%s: not a file of stack copies", path);
	copies->at = 8;
}

uint64_t word_at(const unsigned char *words, size_t index)
{
	uint64_t word;

	memcpy(&word, words + 8 * index, 8);
	return word;
}

static uint32_t half_at(const unsigned char *bytes)
{
	uint32_t half;

	memcpy(&half, bytes, 4);
	return half;
}

static void take_sample(struct sample_record *sample, const unsigned char *bytes, size_t size)
{
	if (size < SAMPLE_HEADER_BYTES)
		errx(2, "a sample is shorter than its header");
	sample->time_ns = word_at(bytes, 0);
	sample->pid = half_at(bytes + 8);
	sample->tid = half_at(bytes + 12);
	sample->maps = half_at(bytes + 16);
	sample->stack_bytes = half_at(bytes + 20);
	sample->frame_count = half_at(bytes + 24);
	sample->outcome = bytes[28];
	sample->is_rescued = bytes[29];
	sample->is_return = bytes[30];
	sample->has_copy = bytes[31];
	sample->stack_start = word_at(bytes, 4);
	for (int i = 0; i < REGISTERS; i++)
		sample->registers[i] = word_at(bytes, 5 + i);
	sample->frames = bytes + SAMPLE_HEADER_BYTES;
	sample->stack = sample->frames + 8 * (size_t)sample->frame_count;
	if (size != SAMPLE_HEADER_BYTES + 8 * (size_t)sample->frame_count + sample->stack_bytes)
		errx(2, "a sample is not as long as it says");
}

enum record_kind copies_next(struct copies *copies, struct maps_record *maps,
			     struct sample_record *sample, uint64_t *refused)
{
	const unsigned char *header = copies->bytes + copies->at, *bytes = header + 8;
	size_t left = copies->size - copies->at, size;
	enum record_kind kind;

	if (left < 8)
		return RECORD_NONE;
	kind = half_at(header);
	size = half_at(header + 4);
	if (size > left - 8)
		return RECORD_NONE; /* cut off */
	copies->at += 8 + size;
	switch (kind) {
	case RECORD_MAPS:
		if (size < 8)
			errx(2, "mappings are shorter than their header");
		maps->number = half_at(bytes);
		maps->pid = half_at(bytes + 4);
		maps->text = (const char *)bytes + 8;
		maps->text_bytes = size - 8;
		break;
	case RECORD_SAMPLE:
		take_sample(sample, bytes, size);
		break;
	case RECORD_END:
		if (size < 8)
			errx(2, "the end is shorter than it has to be");
		*refused = word_at(bytes, 0);
		break;
	default:
		errx(2, "a record of unknown kind %u", kind);
	}
	return kind;
}
