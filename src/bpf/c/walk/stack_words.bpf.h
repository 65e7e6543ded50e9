/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Words of the thread's stack, read by windows. */
#ifndef PROF_STACK_WORDS_BPF_H
#define PROF_STACK_WORDS_BPF_H

#include "scratch.bpf.h"

/*
 * Fills the window with the stack from `address` upwards. One read of 2 KiB costs little more than
 * one of 8 bytes, and serves many frames. A read that crosses the end of the stack fails as a
 * whole, which takes ten times as long as a read: a window ends with its page where that leaves
 * enough. Global, as the steps of a walk: verified once, not for every path that leads here.
 */
__noinline long fill_window(struct scratch *s, __u64 address)
{
	__u64 left = 4096 - (address & 4095);
	__u64 bytes = left < LEAST_READ_BYTES || left > WINDOW_BYTES ? WINDOW_BYTES : left;

	if (!s)
		return -1;
	s->window_start = address;
	s->window_words = 0;
	if (bytes > WINDOW_BYTES) /* for the verifier (6.18) */
		return -1;
	if (!bpf_probe_read_user(s->window, bytes, (void *)address)) {
		s->window_words = bytes - 7;
		return 0;
	}
	if (left < 8 || left >= LEAST_READ_BYTES)
		return -1;
	left &= WINDOW_BYTES - 1; /* for the verifier (6.18): it forgets the test above */
	if (bpf_probe_read_user(s->window, left, (void *)address))
		return -1;
	s->window_words = left - 7;
	return 0;
}

/* Reads 8 bytes of the stack. */
static __always_inline bool read_word(struct scratch *s, __u64 address, __u64 *value)
{
	__u64 offset = address - s->window_start;

	if (offset >= s->window_words) {
		if (fill_window(s, address))
			return false;
		offset = 0;
	}
	*value = *(__u64 *)(s->window + (offset & (WINDOW_BYTES - 1)));
	return true;
}

#endif /* PROF_STACK_WORDS_BPF_H */
