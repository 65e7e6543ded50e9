// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Walks cases from standard input until it ends. Each is its length in 4 bytes, then the case
 * (walker.h). The answer is the outcome and the number of frames in 4 bytes each, then the frames
 * as the walker stores them, 8 bytes each.
 */
#include <stdio.h>

#include "walker.h"

#define MAX_CASE_BYTES (64 << 20)

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
		fwrite(&s.count, sizeof(s.count), 1, stdout);
		fwrite(s.frames, sizeof(s.frames[0]), s.count, stdout);
		fflush(stdout);
	}
	return 0;
}
