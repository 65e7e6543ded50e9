/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Following the list of frames that an interpreter keeps for a thread: what the languages share.
 */
#ifndef PROF_INTERPRETER_WALK_BPF_H
#define PROF_INTERPRETER_WALK_BPF_H

#include "walk/interpreter/known_code.bpf.h"

/* A list that is being followed. */
struct runtime_walk {
	struct task_struct *sleeper; /* the thread, where that is not the current one */
	struct scratch *s;
	const struct prof_runtime *runtime;
	struct known_codes *known;
	__u64 state; /* what the runtime keeps of the thread */
	__u64 frame; /* address of the next frame; 0: the list has ended */
	__u64 end;   /* address after the last frame, where they lie side by side */
	__u64 owner; /* the process, as recent codes have it */
	__u32 first; /* index of the first word in the scratch's frames */
	__u32 now_ms;
};

/* The check of a code object, from memory where it is known well enough. Returns marks in the upper
 * half. */
static __always_inline __u64 code_check(struct task_struct *sleeper, struct runtime_walk *w,
					__u32 kind, __u64 code)
{
	__u64 key = code ^ w->owner;
	struct recent_code *recent = place_of_recent(w->known, key);

	if (recent->key == key && (__s32)(recent->until_ms - w->now_ms) > 0)
		return recent->check;
	return sleeper ? known_check(sleeper, w->s, w->runtime, kind, code) :
			 check_code(w->s, w->runtime, kind, code);
}

/* Where the `own` bytes of the frame at `address`, below PROF_RUNTIME_FRAME_BYTES, can be read: in
 * the scratch's window. One read serves many frames where these lie side by side, a caller's below
 * its callee's. NULL if it cannot be read. */
static __always_inline __u8 *frame_at(struct task_struct *sleeper, struct scratch *s, __u32 own,
				      bool are_adjacent, __u64 address)
{
	__u32 bytes = own;
	__u64 offset = address - s->window_start, start = address;

	if (offset >= s->window_words) {
		/* A window ends after its frame, and begins with the page at the earliest. */
		if (are_adjacent && (address & 4095) >= LEAST_READ_BYTES) {
			bytes = WINDOW_BYTES;
			start = address + own - WINDOW_BYTES;
			if ((start ^ address) >> 12) {
				start = address & ~4095ULL;
				bytes = (address & 4095) + own;
			}
		}
		if (bytes > WINDOW_BYTES || !read_of(sleeper, s->window, bytes, start)) {
			start = address;
			bytes = own;
			if (!read_of(sleeper, s->window, own, start))
				return NULL;
		}
		s->window_start = start;
		s->window_words = bytes - own + 1;
		offset = address - start;
	}
	return s->window + (offset & (WINDOW_BYTES - 1));
}

/* Adds a frame to the sample: a place in the function of the code object at `code`. Returns 1 where
 * there is no room for it. */
static __always_inline long put_frame(struct task_struct *sleeper, struct runtime_walk *w,
				      __u32 kind, __u64 code, __u32 position, bool is_entry)
{
	struct scratch *s = w->s;
	/* In memory, not in `w`: the verifier would follow each count apart. */
	__u32 count = s->sample.runtime_count, slot = w->first + 2 * count;
	__u64 check;

	if (count >= PROF_MAX_RUNTIME_FRAMES || slot > FRAME_WORDS - 2) {
		s->sample.runtime_flags |= PROF_RUNTIME_CUT;
		return 1;
	}
	check = code_check(sleeper, w, kind, code);
	if (is_entry)
		code |= PROF_RUNTIME_ENTRY;
	/* For the verifier of Linux 6.1, which has forgotten it. */
	barrier_var(slot);
	if (slot > FRAME_WORDS - 2)
		return 1;
	s->frames[slot] = code | (check & PROF_RUNTIME_CHECKED);
	s->frames[slot + 1] = position | check << 32;
	s->sample.runtime_count = count + 1;
	return 0;
}

/* Marks the frame that was added last as one that was entered from C. */
static __always_inline void mark_last_as_entry(struct runtime_walk *w)
{
	__u32 count = w->s->sample.runtime_count, slot = w->first + 2 * count;

	if (count && slot >= 2 && slot <= FRAME_WORDS)
		w->s->frames[slot - 2] |= PROF_RUNTIME_ENTRY;
}

/* Takes that mark off again. */
static __always_inline void unmark_last_as_entry(struct runtime_walk *w)
{
	__u32 count = w->s->sample.runtime_count, slot = w->first + 2 * count;

	if (count && slot >= 2 && slot <= FRAME_WORDS)
		w->s->frames[slot - 2] &= ~PROF_RUNTIME_ENTRY;
}

/* Forgets where in its code the frame is that was added last. */
static __always_inline void clear_last_position(struct runtime_walk *w)
{
	__u32 count = w->s->sample.runtime_count, slot = w->first + 2 * count;

	if (count && slot >= 2 && slot <= FRAME_WORDS)
		w->s->frames[slot - 1] &= ~0xffffffffULL;
}

#endif /* PROF_INTERPRETER_WALK_BPF_H */
