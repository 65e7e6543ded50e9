/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames of CPython, in a linked list. */
#ifndef PROF_PYTHON_BPF_H
#define PROF_PYTHON_BPF_H

#include "walk/interpreter/walk.bpf.h"

/* One of the words that tell the code object in the scratch from others. */
#define CODE_WORD(number) \
	(*(__u64 *)(s->code + (python->code_word_off[number] & (PROF_RUNTIME_CODE_BYTES - 1))))

/* Mixes the length and the first words of the text of the object at `address` into `mixed`; zeros
 * in the place of what is on another page, or cannot be read. What lies between the two changes: an
 * object keeps the hash of its text there once it is asked for. */
static __always_inline __u64 mix_content(struct task_struct *sleeper, struct scratch *s,
					 const struct prof_python *python, __u64 address,
					 __u32 text_word, __u64 mixed)
{
	__u64 length, word;
	__u32 bytes;

	address += python->object_header;
	bytes = PROF_CHECK_PAGE_BYTES - (address & (PROF_CHECK_PAGE_BYTES - 1));
	__builtin_memset(s->content, 0, sizeof(s->content));
	if (bytes > PROF_CHECK_BYTES)
		bytes = PROF_CHECK_BYTES;
	/* What cannot be read is filled with zeros. */
	read_of(sleeper, s->content, bytes, address);
	length = s->content[0];
	mixed = mix_word(mixed, length);
	for (__u32 i = 0; i < PROF_CHECK_TEXT_WORDS; i++) {
		if (length <= 8 * i)
			break;
		word = s->content[(text_word + i) & 15];
		if (length < 8 * i + 8)
			word &= (1ULL << (8 * (length & 7))) - 1;
		mixed = mix_word(mixed, word);
	}
	return mixed;
}

/* What tells a code object from another one that may lie at its address later; 0 if it is none. */
static __always_inline __u32 python_check(struct task_struct *sleeper, struct scratch *s,
					  const struct prof_python *python, __u64 code)
{
	__u64 mixed;

	if (!read_of(sleeper, s->code, python->code_bytes, code))
		return 0;
	if (*(__u64 *)(s->code + (python->code_type_off & (PROF_RUNTIME_CODE_BYTES - 1))) !=
	    python->code_type)
		return 0;
	mixed = CODE_WORD(0) * PROF_CHECK_FIRST ^ CODE_WORD(1) * PROF_CHECK_SECOND ^
		CODE_WORD(2) * PROF_CHECK_THIRD;
	mixed ^= *(__u32 *)(s->code + (python->code_number_off & (PROF_RUNTIME_CODE_BYTES - 1))) *
		 PROF_CHECK_NUMBER;
	/*
	 * Unrolled: Linux 6.1 takes a call of a function of the program right in front of a loop's
	 * first instruction for an endless loop ("back-edge"), and refuses the program.
	 */
#pragma unroll
	for (__u32 i = 0; i < 3; i++)
		mixed = mix_content(sleeper, s, python, CODE_WORD(i),
				    i < 2 ? python->text_word : python->lines_word, mixed);
	return end_check(mixed);
}

/* Copies a code object, its name, its file and the table of its lines. */
static __always_inline void take_python_parts(struct prof_new_code *record,
					      const struct prof_python *python, __u64 code)
{
	__u64 word[3];

	record->part[0] = code;
	bpf_probe_read_user(record->object[0], python->code_bytes, (void *)code);
#pragma unroll
	for (int i = 0; i < 3; i++) {
		word[i] = *(__u64 *)(record->object[0] +
				     (python->code_word_off[i] & (PROF_RUNTIME_CODE_BYTES - 8)));
		record->part[PROF_CODE_OBJECTS + PROF_CODE_LINKS + i] = word[i];
	}
	read_part(record->text[0], PROF_CODE_TEXT_BYTES, word[0]);
	read_part(record->text[1], PROF_CODE_TEXT_BYTES, word[1]);
	read_part(record->lines, PROF_CODE_LINES_BYTES, word[2]);
}

/* Takes one frame. Returns 1 to stop. */
static __always_inline long take_python_frame(struct task_struct *sleeper, struct runtime_walk *w)
{
	const struct prof_python *python = &w->runtime->python;
	struct scratch *s = w->s;
	__u64 code, position;
	__u8 *frame, mark;

	if (!w->frame)
		return 1;
	frame = frame_at(sleeper, s, python->frame_bytes & (PROF_RUNTIME_FRAME_BYTES - 1),
			 python->are_frames_adjacent, w->frame);
	if (!frame || s->sample.runtime_count >= PROF_MAX_RUNTIME_FRAMES) {
		s->sample.runtime_flags |= PROF_RUNTIME_CUT;
		return 1;
	}
	mark = frame[python->entry_off & (PROF_RUNTIME_FRAME_BYTES - 1)];
	w->frame = *(__u64 *)(frame + (python->previous_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	if (mark >= python->shim_least) {
		mark_last_as_entry(w);
		return 0;
	}
	/* Runtimes mark pointers in their lowest bits. */
	code = *(__u64 *)(frame + (python->code_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	code &= PROF_RUNTIME_ADDRESS & ~7ULL;
	position = *(__u64 *)(frame + (python->position_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	if (python->is_position_pointer)
		position -= code;
	return put_frame(sleeper, w, PROF_RUNTIME_PYTHON, code, position,
			 mark >= python->entry_least);
}

/* Whether the thread was interrupted at an instruction with which the loop sets itself up. */
static __always_inline bool is_in_python_setup(struct scratch *s, const struct prof_python *python)
{
	__u64 leaf = s->frames[s->kernel_count & (2 * PROF_MAX_USER_FRAMES - 1)];
	const struct prof_loop_setup *last = &python->setup[PROF_LOOP_SETUPS - 1];

	return python->setup[0].bytes && !(leaf & PROF_FRAME_RETURN) &&
	       (leaf & PROF_FRAME_ADDRESS) - python->setup[0].start <
		       last->start + last->bytes - python->setup[0].start;
}

/* Finds the first frame where the loop sets itself up: the registers in the scratch, which are
 * those of the leaf, still have it. */
static __always_inline bool python_first_in_setup(struct scratch *s,
						  const struct prof_python *python, __u64 *frame)
{
	__u64 leaf = s->regs[REG_IP], list;

#pragma unroll
	for (int i = 0; i < PROF_LOOP_SETUPS; i++) {
		const struct prof_loop_setup *setup = &python->setup[i];

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
		       read_user_word(list + python->list_inner_off, frame);
	}
	return false;
}

/* Finds the first frame of the thread with this state. */
static __always_inline bool python_first(struct task_struct *sleeper,
					 const struct prof_python *python, __u64 state,
					 __u64 *frame)
{
	if (!read_of(sleeper, frame, sizeof(*frame), state + python->list_off))
		return false;
	return python->list_inner_off == PROF_NO_OFFSET || !*frame ||
	       read_of(sleeper, frame, sizeof(*frame), *frame + python->list_inner_off);
}

#endif /* PROF_PYTHON_BPF_H */
