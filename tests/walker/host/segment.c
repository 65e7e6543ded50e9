// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which segment of a file a mapping shows, for questions from standard input until it ends. Each is
 * a struct prof_file, then the mapping's first address, and from where and up to where it shows the
 * file, 8 bytes each. The answer has 4 bytes.
 */
#include <stdio.h>

#include "walker.h"

int main(void)
{
	struct prof_file file;
	__u64 shown[3];

	while (fread(&file, sizeof(file), 1, stdin) == 1 &&
	       fread(shown, sizeof(shown), 1, stdin) == 1) {
		int segment = shown_segment(&file, shown[0], shown[1], shown[2]);

		fwrite(&segment, sizeof(segment), 1, stdout);
	}
	return 0;
}
