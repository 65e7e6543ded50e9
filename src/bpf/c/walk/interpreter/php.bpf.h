/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames of PHP, in a linked list that the process has for its first thread. */
#ifndef PROF_PHP_BPF_H
#define PROF_PHP_BPF_H

#include "walk/interpreter/walk.bpf.h"

/* A word of the function in the scratch. */
#define PHP_FUNCTION_WORD(offset) (*(__u64 *)(s->code + ((offset) & (PROF_PHP_HEAD_BYTES - 8))))

/* Mixes the text whose length is at `address` into `mixed`: its length, its first words and its
 * last ones; zeros in the place of what is on another page than its beginning, or cannot be read.
 */
static __always_inline __u64 mix_php_text(struct task_struct *sleeper, struct scratch *s,
					  __u64 address, __u64 mixed)
{
	__u32 bytes = PROF_CHECK_PAGE_BYTES - (address & (PROF_CHECK_PAGE_BYTES - 1));
	__u64 length, word;

	__builtin_memset(s->content, 0, 64);
	if (bytes > 64)
		bytes = 64;
	/* What cannot be read is filled with zeros. */
	read_of(sleeper, s->content, bytes, address);
	length = s->content[0];
	mixed = mix_word(mixed, length);
	for (__u32 i = 0; i < 7; i++) {
		if (length <= 8 * i)
			break;
		word = s->content[1 + i];
		if (length < 8 * i + 8)
			word &= (1ULL << (8 * (length & 7))) - 1;
		mixed = mix_word(mixed, word);
	}
	if (length <= 56)
		return mixed;
	address += 8 + length - 56;
	bytes = PROF_CHECK_PAGE_BYTES - (address & (PROF_CHECK_PAGE_BYTES - 1));
	__builtin_memset(s->content, 0, 56);
	if (bytes > 56)
		bytes = 56;
	read_of(sleeper, s->content, bytes, address);
	for (__u32 i = 0; i < 7; i++)
		mixed = mix_word(mixed, s->content[i]);
	return mixed;
}

/* What tells a function from another one that may lie at its address later; 0 if it is none. */
static __always_inline __u32 php_check(struct task_struct *sleeper, struct scratch *s,
				       const struct prof_php *php, __u64 code)
{
	__u64 function = code & PROF_PHP_ADDRESS, name, class, mixed;
	__u8 kind;

	/* It stands for another method a moment later. */
	if (function - php->globals < PROF_PHP_GLOBALS_BYTES ||
	    !read_of(sleeper, s->code, PROF_PHP_HEAD_BYTES, function))
		return 0;
	kind = s->code[0];
	name = PHP_FUNCTION_WORD(php->name_off);
	class = PHP_FUNCTION_WORD(php->class_off);
	mixed = mix_word(mix_word(mix_word(0, kind), name), class);
	if (kind == PROF_PHP_USER || kind == PROF_PHP_EVALUATED) {
		if (!read_of(sleeper, s->content, 16, function + php->file_off))
			return 0;
		mixed = mix_word(mix_word(mixed, s->content[0]), s->content[1]);
		mixed = mix_php_text(sleeper, s, s->content[0] + php->text_length_off, mixed);
	} else if (kind != PROF_PHP_INTERNAL) {
		return 0;
	}
	if (name)
		mixed = mix_php_text(sleeper, s, name + php->text_length_off, mixed);
	if (class) {
		name = read_of(sleeper, s->content, sizeof(name), class + php->class_name_off) ?
			       s->content[0] :
			       0;
		mixed = mix_php_text(sleeper, s, name + php->text_length_off,
				     mix_word(mixed, name));
	}
	return end_check(mixed);
}

/* Copies a function, its name, its class with its name, and its file. */
static __always_inline void take_php_parts(struct prof_new_code *record, const struct prof_php *php,
					   __u64 code)
{
	__u64 function = code & PROF_PHP_ADDRESS, name, class, file, class_name = 0;

	record->part[0] = function;
	read_part(record->object[0], PROF_RUNTIME_CODE_BYTES, function);
	name = *(__u64 *)(record->object[0] + (php->name_off & (PROF_RUNTIME_CODE_BYTES - 8)));
	class = *(__u64 *)(record->object[0] + (php->class_off & (PROF_RUNTIME_CODE_BYTES - 8)));
	file = *(__u64 *)(record->object[0] + (php->file_off & (PROF_RUNTIME_CODE_BYTES - 8)));
	record->part[PROF_CODE_OBJECTS + PROF_CODE_LINKS] = name;
	read_part(record->text[0], PROF_CODE_TEXT_BYTES, name);
	if (record->object[0][0] != PROF_PHP_INTERNAL) {
		record->part[PROF_CODE_OBJECTS + PROF_CODE_LINKS + 1] = file;
		read_part(record->text[1], PROF_CODE_TEXT_BYTES, file);
	}
	if (!class)
		return;
	record->part[PROF_CODE_OBJECTS] = class;
	read_part(record->link[0], PROF_CODE_LINK_BYTES, class);
	class_name =
		*(__u64 *)(record->link[0] + (php->class_name_off & (PROF_CODE_LINK_BYTES - 8)));
	record->part[PROF_CODE_PARTS - 1] = class_name;
	read_part(record->lines, PROF_CODE_LINES_BYTES, class_name);
}

/* Whether the thread was interrupted in the interpreter's loop, which has the instruction of the
 * frame in a register. */
static __always_inline bool is_in_php_loop(struct scratch *s, const struct prof_php *php)
{
	__u64 leaf = s->frames[s->kernel_count & (2 * PROF_MAX_USER_FRAMES - 1)];

	return !(leaf & PROF_FRAME_RETURN) &&
	       (leaf & PROF_FRAME_ADDRESS) - php->loop_start < php->loop_bytes;
}

/* The line of an instruction; 0 if it has none. */
static __always_inline __u32 php_line(struct task_struct *sleeper, const struct prof_php *php,
				      __u64 instruction)
{
	__u32 line;

	return read_of(sleeper, &line, sizeof(line), instruction + php->line_off) ? line : 0;
}

/*
 * The line of the frame at `frame` by the registers of the loop, which has its frame in r14 and its
 * instruction in r15 where it was made by GCC; 0 if they hold something else. The frame itself has
 * the instruction as it was saved last. `lines` are the first and the last line of its function.
 */
static __always_inline __u32 php_loop_line(struct scratch *s, const struct prof_php *php,
					   __u64 frame, __u64 function, __u64 lines)
{
	__u64 instruction = s->regs[15], start;
	__u32 line;

	if (!php->instructions_off || s->regs[14] != frame ||
	    !read_user_word(function + php->instructions_off, &start) ||
	    instruction - start >= PROF_PHP_MOST_INSTRUCTIONS * PROF_PHP_INSTRUCTION_BYTES ||
	    (instruction - start) % PROF_PHP_INSTRUCTION_BYTES)
		return 0;
	line = php_line(NULL, php, instruction);
	return line >= (__u32)lines && line <= lines >> 32 ? line : 0;
}

/* The line of a frame by the instruction that it has saved. */
static __always_inline __u32 php_saved_line(struct task_struct *sleeper, const struct prof_php *php,
					    __u64 instruction)
{
	__u32 line = php_line(sleeper, php, instruction);
	__u64 thrown_at;

	if (line)
		return line;
	/* The instruction that deals with an exception has no line. */
	if (!read_of(sleeper, &thrown_at, sizeof(thrown_at), php->globals + php->thrown_at_off))
		return 0;
	return php_line(sleeper, php, thrown_at);
}

/* Has the check of a function be made again, where the function may be another one since the last
 * sample. */
static __always_inline void forget_php_check(struct runtime_walk *w, __u64 code)
{
	struct recent_code *recent = place_of_recent(w->known, code ^ w->owner);
	struct known_code *known = place_of_code(w->known, w->s->sample.tgid, code);

	if (recent->key == (code ^ w->owner))
		recent->key = 0;
	if (known->code == code)
		known->checks = 0;
}

/* Whether a function of the program stays where it is. What has no name is thrown away when it has
 * run, unless it is in shared memory. */
static __always_inline bool is_php_function_kept(const struct prof_php *php, __u32 flags,
						 __u64 name)
{
	return (php->kept == PROF_PHP_ALL_KEPT && name) ||
	       (php->kept != PROF_PHP_NONE_KEPT && (flags & PROF_PHP_IMMUTABLE));
}

/* Takes one frame. Returns 1 to stop. */
static __always_inline long take_php_frame(struct task_struct *sleeper, struct runtime_walk *w,
					   bool has_registers)
{
	const struct prof_php *php = &w->runtime->php;
	struct scratch *s = w->s;
	__u64 function, previous, instruction, name, tag, code, lines, at = w->frame;
	__u32 marks, flags, position = 0;
	bool is_entry = false;
	__u8 *frame, kind;

	if (!at)
		return 1;
	frame = frame_at(sleeper, s, php->frame_bytes & (PROF_RUNTIME_FRAME_BYTES - 1), true, at);
	if (!frame)
		goto cut;
	function = *(__u64 *)(frame + (php->function_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	previous = *(__u64 *)(frame + (php->previous_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	instruction = *(__u64 *)(frame + (php->instruction_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	marks = *(__u32 *)(frame + (php->marks_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	w->frame = previous;
	/* It only joins two others. */
	if (!function)
		return 0;
	if (!read_of(sleeper, s->code, PROF_PHP_HEAD_BYTES, function))
		goto cut;
	kind = s->code[0];
	flags = *(__u32 *)(s->code + 4);
	name = PHP_FUNCTION_WORD(php->name_off);
	tag = mix_word(mix_word(0, name), PHP_FUNCTION_WORD(php->class_off));
	code = function & PROF_PHP_ADDRESS;
	if (kind == PROF_PHP_INTERNAL) {
		if (!name)
			position = PROF_PHP_FIBER;
	} else if (kind == PROF_PHP_USER || kind == PROF_PHP_EVALUATED) {
		if (!read_of(sleeper, s->content, 16, function + php->file_off))
			goto cut;
		lines = s->content[1];
		tag = mix_word(mix_word(tag, s->content[0]), lines);
		is_entry = marks & PROF_PHP_CALL_TOP;
		if ((marks & PROF_PHP_CALL_CODE) && previous)
			code |= PROF_PHP_INCLUDED;
		if (has_registers)
			position = php_loop_line(s, php, at, function, lines);
		if (!position)
			position = php_saved_line(sleeper, php, instruction);
	} else {
		goto cut;
	}
	/* Memory is used again sooner than checks are made again. */
	code |= tag >> 56 << PROF_PHP_TAG_SHIFT;
	if (kind != PROF_PHP_INTERNAL && !is_php_function_kept(php, flags, name))
		forget_php_check(w, code);
	return put_frame(sleeper, w, PROF_RUNTIME_PHP, code, position, is_entry);
cut:
	w->frame = 0;
	s->sample.runtime_flags |= PROF_RUNTIME_CUT;
	return 1;
}

#endif /* PROF_PHP_BPF_H */
