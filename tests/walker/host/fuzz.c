// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Any bytes as a case, for libFuzzer: whatever registers, tables and memory say, the walk ends,
 * stays inside its memory (the sanitizers see to that), and says how it ended.
 */
#include "walker.h"

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	/* On the heap, where the sanitizer sees one byte too many on either side. */
	struct scratch *s = malloc(sizeof(*s));

	if (!s)
		abort();
	walk_case(s, data, size);
	if (s->outcome == PROF_OUTCOME_UNSET || s->walked > PROF_MAX_WALKED_FRAMES)
		abort();
	/* The leaf is a frame, wherever it is. */
	if (!s->walked || (s->frames[0] & PROF_FRAME_ADDRESS) >> 56)
		abort();
	free(s);
	return 0;
}
