// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Walks cases from standard input until it ends. Each is its length in 4 bytes, then the case
 * (walker.h). The answer is the outcome and the number of frames in 4 bytes each, then the frames
 * as the walker stores them, 8 bytes each, those of the ring in their order.
 */
#include <stdio.h>

#include "walker.h"

#define MAX_CASE_BYTES (64 << 20)

static void write_frames(const struct scratch *s)
{
	__u32 left_out = s->walked > PROF_MAX_USER_FRAMES ? s->walked - PROF_MAX_USER_FRAMES : 0;
	__u32 count = s->walked - left_out, oldest = PROF_LEAF_FRAMES + left_out % PROF_LEAF_FRAMES;

	fwrite(&count, sizeof(count), 1, stdout);
	if (!left_out)
		oldest = PROF_LEAF_FRAMES;
	for (__u32 i = 0; i < count; i++) {
		__u32 at = i;

		if (i >= PROF_LEAF_FRAMES)
			at = PROF_LEAF_FRAMES + (i + oldest) % PROF_LEAF_FRAMES;
		fwrite(&s->frames[at], sizeof(s->frames[0]), 1, stdout);
	}
}

int main(void)
{
	static struct scratch s;
	__u32 size;

	while (fread(&size, sizeof(size), 1, stdin) == 1) {
		__u8 *data;

		if (size > MAX_CASE_BYTES)
			return 2;
		data = malloc(size ? size : 1);
		if (!data || fread(data, 1, size, stdin) != size)
			return 2;
		walk_case(&s, data, size);
		free(data);
		fwrite(&s.outcome, sizeof(s.outcome), 1, stdout);
		write_frames(&s);
		fflush(stdout);
	}
	return 0;
}
