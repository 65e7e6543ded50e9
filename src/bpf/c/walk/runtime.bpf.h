/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames that the interpreter of a language keeps in a list of its own. They are sent after the
 * native frames, and user space puts the two together.
 */
#ifndef PROF_RUNTIME_BPF_H
#define PROF_RUNTIME_BPF_H

#include "walk/known_code.bpf.h"

/* A list that is being followed. */
struct runtime_walk {
	struct task_struct *sleeper; /* the thread, where that is not the current one */
	struct scratch *s;
	const struct prof_runtime *runtime;
	struct known_codes *known;
	__u64 frame; /* address of the next frame; 0: the list has ended */
	__u64 owner; /* the process, as recent codes have it */
	__u32 first; /* index of the first word in the scratch's frames */
	__u32 now_ms;
};

/* The check of a code object, from memory where it is known well enough. Returns marks in the upper
 * half. */
static __always_inline __u64 code_check(struct task_struct *sleeper, struct runtime_walk *w,
					__u64 code)
{
	__u64 key = code ^ w->owner;
	struct recent_code *recent = place_of_recent(w->known, key);

	if (recent->key == key && (__s32)(recent->until_ms - w->now_ms) > 0)
		return recent->check;
	return sleeper ? known_check(sleeper, w->s, w->runtime, code) :
			 check_code(w->s, w->runtime, code);
}

/* Where the frame at `address` can be read: in the scratch's window. One read serves many frames
 * where these lie side by side, a caller's below its callee's. NULL if it cannot be read. */
static __always_inline __u8 *frame_at(struct task_struct *sleeper, struct scratch *s,
				      const struct prof_runtime *runtime, __u64 address)
{
	__u32 own = runtime->frame_bytes & (PROF_RUNTIME_FRAME_BYTES - 1), bytes = own;
	__u64 offset = address - s->window_start, start = address;

	if (offset >= s->window_words) {
		/* A window ends after its frame, and begins with the page at the earliest. */
		if (runtime->are_frames_adjacent && (address & 4095) >= LEAST_READ_BYTES) {
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

/* Takes one frame. Returns 1 to stop. */
static __always_inline long take_frame_of(struct task_struct *sleeper, struct runtime_walk *w)
{
	const struct prof_runtime *runtime = w->runtime;
	struct scratch *s = w->s;
	__u64 code, position, check;
	/* In memory, not in `w`: the verifier would follow each count apart. */
	__u32 count = s->sample.runtime_count, slot = w->first + 2 * count;
	__u8 *frame, mark;

	if (!w->frame)
		return 1;
	frame = frame_at(sleeper, s, runtime, w->frame);
	if (!frame || count >= PROF_MAX_RUNTIME_FRAMES || slot > FRAME_WORDS - 2) {
		s->sample.runtime_flags |= PROF_RUNTIME_CUT;
		return 1;
	}
	mark = frame[runtime->entry_off & (PROF_RUNTIME_FRAME_BYTES - 1)];
	w->frame = *(__u64 *)(frame + (runtime->previous_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	if (mark >= runtime->shim_least) {
		if (count && slot >= 2)
			s->frames[slot - 2] |= PROF_RUNTIME_ENTRY;
		return 0;
	}
	/* Runtimes mark pointers in their lowest bits. */
	code = *(__u64 *)(frame + (runtime->code_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	code &= PROF_RUNTIME_ADDRESS & ~7ULL;
	position = *(__u64 *)(frame + (runtime->position_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	if (runtime->is_position_pointer)
		position -= code;
	check = code_check(sleeper, w, code);
	if (mark >= runtime->entry_least)
		code |= PROF_RUNTIME_ENTRY;
	s->frames[slot] = code | (check & PROF_RUNTIME_CHECKED);
	s->frames[slot + 1] = (position & 0xffffffff) | check << 32;
	s->sample.runtime_count = count + 1;
	return 0;
}

/* Frames that are taken in one call: a call takes as long as a frame. */
#define FRAMES_AT_ONCE 4

static long take_runtime_frame(__u32 index, struct runtime_walk *w)
{
#pragma unroll
	for (int i = 0; i < FRAMES_AT_ONCE; i++) {
		if (take_frame_of(NULL, w))
			return 1;
	}
	return 0;
}

static long take_sleepers_frame(__u32 index, struct runtime_walk *w)
{
	return take_frame_of(w->sleeper, w);
}

/* The state that the runtime keeps of a thread; 0 if there is none. */
static __always_inline __u64 runtime_state(struct task_struct *sleeper,
					   const struct prof_runtime *runtime)
{
	__u64 place = user_thread_pointer(sleeper ? sleeper : bpf_get_current_task_btf()), state;

	if (!place)
		return 0;
	if (runtime->locator == PROF_LOCATOR_MODULE &&
	    (!read_of(sleeper, &place, sizeof(place), thread_vector_place(place)) ||
	     !read_of(sleeper, &place, sizeof(place), place + 16 * (__u64)runtime->locator_module)))
		return 0;
	return read_of(sleeper, &state, sizeof(state), place + runtime->locator_off) ? state : 0;
}

/* Notes whether the thread with this state holds the runtime's lock. */
static __always_inline void note_lock(struct task_struct *sleeper, struct scratch *s,
				      const struct prof_runtime *runtime, __u64 state)
{
	struct {
		__u64 holder;
		__u32 is_held;
		__u32 pad;
	} lock = {.is_held = 1};
	__u32 bytes = runtime->is_lock_held_next ? sizeof(lock) : sizeof(lock.holder);

	if (!runtime->lock_holder || !read_of(sleeper, &lock, bytes, runtime->lock_holder))
		return;
	s->sample.runtime_flags |= PROF_RUNTIME_KNOWS_LOCK;
	if (lock.holder == state && lock.is_held)
		s->sample.runtime_flags |= PROF_RUNTIME_HAS_LOCK;
}

/* Whether the thread was interrupted at an instruction with which the loop sets itself up. */
static __always_inline bool is_in_setup(struct scratch *s, const struct prof_runtime *runtime)
{
	__u64 leaf = s->frames[s->kernel_count & (2 * PROF_MAX_USER_FRAMES - 1)];
	const struct prof_loop_setup *last = &runtime->setup[PROF_LOOP_SETUPS - 1];

	return runtime->setup[0].bytes && !(leaf & PROF_FRAME_RETURN) &&
	       (leaf & PROF_FRAME_ADDRESS) - runtime->setup[0].start <
		       last->start + last->bytes - runtime->setup[0].start;
}

/* Finds the first frame where the loop sets itself up: the registers in the scratch, which are
 * those of the leaf, still have it. */
static __always_inline bool find_first_in_setup(struct scratch *s,
						const struct prof_runtime *runtime, __u64 *frame)
{
	__u64 leaf = s->regs[REG_IP], list;

#pragma unroll
	for (int i = 0; i < PROF_LOOP_SETUPS; i++) {
		const struct prof_loop_setup *setup = &runtime->setup[i];

		if (leaf - setup->start >= setup->bytes)
			continue;
		list = s->regs[setup->reg & REG_MASK];
		if (setup->place == PROF_LIST_LOST)
			return false;
		if ((setup->place == PROF_LIST_AT || setup->place == PROF_LIST_INNER_OF_AT) &&
		    !read_user_word(s->regs[REG_SP] + setup->offset, &list))
			return false;
		*frame = list;
		return setup->place == PROF_LIST_IN || setup->place == PROF_LIST_AT ||
		       read_user_word(list + runtime->list_inner_off, frame);
	}
	return false;
}

/* Finds the first frame of the thread with this state. */
static __always_inline bool find_first(struct task_struct *sleeper,
				       const struct prof_runtime *runtime, __u64 state,
				       __u64 *frame)
{
	if (!read_of(sleeper, frame, sizeof(*frame), state + runtime->list_off))
		return false;
	return runtime->list_inner_off == PROF_NO_OFFSET || !*frame ||
	       read_of(sleeper, frame, sizeof(*frame), *frame + runtime->list_inner_off);
}

/* Finds the list of the thread's frames; false if there is none that can be read. */
static __always_inline bool begin_runtime_walk(struct task_struct *sleeper, struct runtime_walk *w,
					       bool is_setup)
{
	const struct prof_runtime *runtime = w->runtime;
	struct scratch *s = w->s;
	__u64 state = runtime_state(sleeper, runtime);
	__u32 zero = 0;

	w->known = bpf_map_lookup_elem(&known_codes, &zero);
	if (!w->known || !state)
		return false;
	s->sample.runtime_flags = PROF_RUNTIME_HAS_STATE;
	note_lock(sleeper, s, runtime, state);
	if (is_setup ? !find_first_in_setup(s, runtime, &w->frame) :
		       !find_first(sleeper, runtime, state, &w->frame)) {
		s->sample.runtime_flags |= PROF_RUNTIME_CUT;
		return false;
	}
	w->owner = recent_key(0, s->sample.tgid);
	w->first = s->kernel_count + kept_frames(s) + 2 * s->sample.managed_count;
	w->now_ms = sample_ms(s);
	s->window_words = 0;
	return true;
}

static __always_inline void end_runtime_walk(struct runtime_walk *w)
{
	if (w->frame)
		w->s->sample.runtime_flags |= PROF_RUNTIME_CUT;
}

/*
 * Takes the frames of the current thread's interpreter, after the native ones that are in the
 * scratch. Where its loop sets itself up the registers in the scratch are those of the leaf.
 * Global: verified once, not for every path that leads here.
 */
__noinline int take_runtime_frames(struct scratch *s, const struct prof_runtime *runtime,
				   bool is_setup)
{
	struct runtime_walk w = {.s = s, .runtime = runtime};

	if (!s || !runtime || !begin_runtime_walk(NULL, &w, is_setup))
		return 0;
	/* Shims are no frames, and there is one for each call from C. */
	bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES / FRAMES_AT_ONCE, take_runtime_frame, &w, 0);
	end_runtime_walk(&w);
	return 0;
}

/* The same of a thread that sleeps, in a program that may sleep. */
static __always_inline void take_sleepers_frames(struct scratch *s,
						 const struct prof_runtime *runtime,
						 struct task_struct *sleeper)
{
	struct runtime_walk w = {.s = s, .runtime = runtime, .sleeper = sleeper};

	if (!begin_runtime_walk(sleeper, &w, false))
		return;
	bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES, take_sleepers_frame, &w, 0);
	end_runtime_walk(&w);
}

#endif /* PROF_RUNTIME_BPF_H */
