/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames of Ruby: control frames side by side, a caller's above its callee's. */
#ifndef PROF_RUBY_BPF_H
#define PROF_RUBY_BPF_H

#include "walk/interpreter/walk.bpf.h"

/* Bits of an object's flags that say what it is; objects that programs do not see have four more.
 */
#define RUBY_KIND 0x1f
#define RUBY_STRING 0x05
#define RUBY_ARRAY 0x07
#define RUBY_INTERNAL_KIND 0xf01f
#define RUBY_METHOD 0x601a
#define RUBY_SEQUENCE 0x701a
/* A string has its bytes elsewhere; an array has its elements in itself. */
#define RUBY_SPECIAL (1 << 13)

/* What a frame is, in the flags of its environment, and whether C code has entered it. */
#define RUBY_FRAME_KIND 0x7fff0001
#define RUBY_FRAME_IN_C 0x55550001
#define RUBY_FRAME_CALLBACK 0x66660001
#define RUBY_FRAME_DUMMY 0x79990001
#define RUBY_FRAME_ENTRY 0x20

/* Bytes of a control frame that are looked at. */
#define RUBY_FRAME_BYTES 40
/* Words of the body of instructions, up to the end of its table of lines. */
#define RUBY_BODY_BYTES 128
/* In a method's definition: the number of its name. */
#define RUBY_DEFINITION_NAME 32
/* Numbers of names that are no operators have four bits more, and begin far above. */
#define RUBY_FIRST_NAME 0x400
#define RUBY_NAMES_IN_ARRAY 512
#define RUBY_TEXT_WORDS 3

/* Finds the newest frame of the thread with this state, and the end of its frames. */
static __always_inline bool ruby_first(struct task_struct *sleeper, const struct prof_ruby *ruby,
				       struct runtime_walk *w)
{
	struct {
		__u64 start, words, frame;
	} stack;
	__u64 context = w->state, bytes;

	if (ruby->context_off != PROF_NO_OFFSET &&
	    !read_of(sleeper, &context, sizeof(context), w->state + ruby->context_off))
		return false;
	if (!ruby->frame_bytes || !read_of(sleeper, &stack, sizeof(stack), context))
		return false;
	w->end = stack.start + 8 * stack.words;
	bytes = w->end - stack.frame;
	if (stack.frame < stack.start || stack.frame > w->end || bytes % ruby->frame_bytes)
		return false;
	w->frame = bytes ? stack.frame : 0;
	return true;
}

/* Where the frame at `address` can be read: in the scratch's window, which one read fills with it
 * and those of its callers. NULL if it cannot be read. */
static __always_inline __u8 *ruby_frame_at(struct task_struct *sleeper, struct scratch *s,
					   __u64 address)
{
	__u64 offset = address - s->window_start;
	__u32 bytes = 4096 - (address & 4095);

	if (offset >= s->window_words) {
		/* No further than the page, of which one read may have no more. */
		if (bytes > WINDOW_BYTES)
			bytes = WINDOW_BYTES;
		if (bytes < RUBY_FRAME_BYTES)
			bytes = RUBY_FRAME_BYTES;
		if (!read_of(sleeper, s->window, bytes, address))
			return NULL;
		s->window_start = address;
		s->window_words = bytes - RUBY_FRAME_BYTES + 1;
		offset = 0;
	}
	return s->window + (offset & (WINDOW_BYTES - 1));
}

/* Takes one frame. Returns 1 to stop. */
static __always_inline long take_ruby_frame(struct task_struct *sleeper, struct runtime_walk *w)
{
	const struct prof_ruby *ruby = &w->runtime->ruby;
	struct {
		__u64 method, before, flags;
	} environment;
	__u64 address = w->frame, code, next, kind;
	__u8 *frame;

	if (!address)
		return 1;
	frame = ruby_frame_at(sleeper, w->s, address);
	if (!frame || w->s->sample.runtime_count >= PROF_MAX_RUNTIME_FRAMES ||
	    !read_of(sleeper, &environment, sizeof(environment), *(__u64 *)(frame + 32) - 16)) {
		w->s->sample.runtime_flags |= PROF_RUNTIME_CUT;
		return 1;
	}
	next = *(__u64 *)frame;
	code = *(__u64 *)(frame + 16);
	address += ruby->frame_bytes;
	w->frame = address < w->end ? address : 0;
	kind = environment.flags & RUBY_FRAME_KIND;
	if (kind == RUBY_FRAME_IN_C) {
		if (!ruby->names)
			return 0;
		return put_frame(sleeper, w, PROF_RUNTIME_RUBY,
				 environment.method & PROF_RUNTIME_ADDRESS, 0, false);
	}
	/* The frame below all others, and blocks that are functions in C. */
	if (!code || !next || kind == RUBY_FRAME_DUMMY || kind == RUBY_FRAME_CALLBACK)
		return 0;
	return put_frame(sleeper, w, PROF_RUNTIME_RUBY, code & PROF_RUNTIME_ADDRESS, next - code,
			 environment.flags & RUBY_FRAME_ENTRY);
}

/* Adds a name to a check: its length and its first letters. */
static __always_inline __u64 mix_ruby_text(struct task_struct *sleeper, struct scratch *s,
					   const struct prof_ruby *ruby, __u64 string, __u64 mixed)
{
	__u64 flags, length, text;
	__u32 bytes = 8 * RUBY_TEXT_WORDS;

	if (!read_of(sleeper, s->content, 32, string))
		return mixed;
	flags = s->content[0];
	length = s->content[2];
	text = string + 24;
	if (flags & RUBY_SPECIAL) {
		text = s->content[3];
	} else if (!ruby->has_length_word) {
		text = string + 16;
		length = flags >> 14 & 0x1f;
	}
	if (length < bytes)
		bytes = length;
	s->content[0] = s->content[1] = s->content[2] = 0;
	/* The verifier does not follow the bound that the compiler knows (6.18). */
	barrier_var(bytes);
	bytes &= 31;
	if (bytes)
		read_of(sleeper, s->content, bytes, text);
	mixed = mix_word(mixed, length);
	for (__u32 i = 0; i < RUBY_TEXT_WORDS; i++)
		mixed = mix_word(mixed, s->content[i]);
	return mixed;
}

/* What tells the entry of a method from another one that may lie at its address later. */
static __always_inline __u32 ruby_method_check(struct task_struct *sleeper, struct scratch *s,
					       __u64 code)
{
	__u64 mixed = 0;

	/* Its class, definition, name and owner, and the name that it was given first. */
	if (!read_of(sleeper, s->content, 32, code + 8) ||
	    !read_of(sleeper, &s->content[4], 8, s->content[1] + RUBY_DEFINITION_NAME))
		return 0;
	s->content[5] = s->content[6] = 0;
	for (__u32 i = 0; i < 7; i++)
		mixed = mix_word(mixed, s->content[i]);
	return end_check(mixed);
}

/* One of the words of the body of instructions in the scratch. */
#define RUBY_BODY_WORD(number) (*(__u64 *)(s->code + 8 * (number)))

/* What tells a code object from another one that may lie at its address later; 0 if it is none. */
static __always_inline __u32 ruby_check(struct task_struct *sleeper, struct scratch *s,
					const struct prof_ruby *ruby, __u64 code)
{
	__u64 head[3], mixed, kind;

	if (!read_of(sleeper, head, sizeof(head), code))
		return 0;
	kind = head[0] & RUBY_INTERNAL_KIND;
	if (kind == RUBY_METHOD)
		return ruby_method_check(sleeper, s, code);
	if (kind != RUBY_SEQUENCE || !read_of(sleeper, s->code, RUBY_BODY_BYTES, head[2]))
		return 0;
	/* Body, kind and size, instructions, file, name, first line, table of lines. */
	mixed = mix_word(0, head[2]);
	mixed = mix_word(mixed, RUBY_BODY_WORD(0));
	mixed = mix_word(mixed, RUBY_BODY_WORD(1));
	mixed = mix_word(mixed, RUBY_BODY_WORD(8));
	mixed = mix_word(mixed, RUBY_BODY_WORD(10));
	mixed = mix_word(mixed, (__u32)RUBY_BODY_WORD(11));
	mixed = mix_word(mixed, *(__u64 *)(s->code + (ruby->line_table_off & 0x78)));
	return end_check(mix_ruby_text(sleeper, s, ruby, RUBY_BODY_WORD(10), mixed));
}

#define RUBY_OBJECT_PART(number) (number)
#define RUBY_LINK_PART(number) (PROF_CODE_OBJECTS + (number))
#define RUBY_TEXT_PART(number) (PROF_CODE_OBJECTS + PROF_CODE_LINKS + (number))
#define RUBY_LINES_PART (PROF_CODE_PARTS - 1)

/* A word of a part. */
#define PART_WORD(part, offset) (*(__u64 *)((part) + (offset)))

static __always_inline void take_ruby_link(struct prof_new_code *record, __u32 number,
					   __u64 address)
{
	record->part[RUBY_LINK_PART(number)] = address;
	read_part(record->link[number], PROF_CODE_LINK_BYTES, address);
}

static __always_inline void take_ruby_text(struct prof_new_code *record, __u32 number,
					   __u64 address)
{
	record->part[RUBY_TEXT_PART(number)] = address;
	read_part(record->text[number], PROF_CODE_TEXT_BYTES, address);
}

static __always_inline void take_ruby_object(struct prof_new_code *record, __u32 number,
					     __u64 address)
{
	record->part[RUBY_OBJECT_PART(number)] = address;
	read_part(record->object[number], PROF_RUNTIME_CODE_BYTES, address);
}

/* Where the element of the array in a part is that is `offset` bytes from the first. */
static __always_inline __u64 ruby_element(const __u8 *part, __u64 address, __u64 offset)
{
	__u64 elements = PART_WORD(part, 0) & RUBY_SPECIAL ? address + 16 : PART_WORD(part, 32);

	return elements + offset;
}

/* Copies the entry of a method, its definition, and all that lies between the number of its name
 * and the name. */
static __always_inline void take_ruby_method(struct prof_new_code *record,
					     const struct prof_ruby *ruby, __u64 code)
{
	__u64 arrays, array, name, number;

	take_ruby_link(record, 0, code);
	take_ruby_link(record, 1, PART_WORD(record->link[0], 16));
	number = PART_WORD(record->link[1], RUBY_DEFINITION_NAME);
	if (number >= RUBY_FIRST_NAME)
		number >>= 4;
	take_ruby_object(record, 0, ruby->names);
	arrays = PART_WORD(record->object[0], 0);
	take_ruby_link(record, 2, arrays);
	take_ruby_object(record, 1,
			 ruby_element(record->link[2], arrays, number / RUBY_NAMES_IN_ARRAY * 8));
	array = PART_WORD(record->object[1], 0);
	take_ruby_link(record, 3, array);
	take_ruby_text(record, 1,
		       ruby_element(record->link[3], array, number % RUBY_NAMES_IN_ARRAY * 16));
	name = PART_WORD(record->text[1], 0);
	record->part[RUBY_LINES_PART] = name;
	read_part(record->lines, PROF_CODE_LINES_BYTES, name);
	if (PART_WORD(record->lines, 0) & RUBY_SPECIAL)
		take_ruby_text(record, 0, PART_WORD(record->lines, 24));
}

/* Copies the path of the file, of which there are two in an array: the whole one, if it is known.
 */
static __always_inline void take_ruby_file(struct prof_new_code *record, __u64 file)
{
	__u64 path;

	take_ruby_link(record, 2, file);
	if ((PART_WORD(record->link[2], 0) & RUBY_KIND) == RUBY_ARRAY) {
		/* So short an array has its elements in itself; less than an address is no path. */
		path = PART_WORD(record->link[2], 24);
		if (path < 64)
			path = PART_WORD(record->link[2], 16);
		take_ruby_link(record, 3, path);
		if (PART_WORD(record->link[3], 0) & RUBY_SPECIAL)
			take_ruby_text(record, 0, PART_WORD(record->link[3], 24));
	} else if (PART_WORD(record->link[2], 0) & RUBY_SPECIAL) {
		take_ruby_text(record, 0, PART_WORD(record->link[2], 24));
	}
}

/* Copies a code object with its name, file and lines. */
static __always_inline void take_ruby_parts(struct prof_new_code *record,
					    const struct prof_ruby *ruby, __u64 code)
{
	__u8 *table;

	take_ruby_link(record, 0, code);
	if ((PART_WORD(record->link[0], 0) & RUBY_INTERNAL_KIND) != RUBY_SEQUENCE) {
		take_ruby_method(record, ruby, code);
		return;
	}
	take_ruby_object(record, 0, PART_WORD(record->link[0], 16));
	take_ruby_link(record, 1, PART_WORD(record->object[0], 80));
	if (PART_WORD(record->link[1], 0) & RUBY_SPECIAL)
		take_ruby_object(record, 1, PART_WORD(record->link[1], 24));
	take_ruby_file(record, PART_WORD(record->object[0], 64));
	table = record->object[0] + (ruby->line_table_off & 0x78);
	take_ruby_text(record, 1, PART_WORD(table, 24));
	record->part[RUBY_LINES_PART] = PART_WORD(table, 0);
	read_part(record->lines, PROF_CODE_LINES_BYTES, PART_WORD(table, 0));
}

#endif /* PROF_RUBY_BPF_H */
