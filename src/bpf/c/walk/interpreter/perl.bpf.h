/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of Perl. A stack is an array of blocks, the last of which is the innermost: a sub that is
 * being called is one, and so are loops. Calls from C code mostly begin a stack of their own.
 * src/runtimes/perl/frames.rs does the same in user space.
 */
#ifndef PROF_PERL_BPF_H
#define PROF_PERL_BPF_H

#include "walk/interpreter/walk.bpf.h"

/* Bits of the type of a block, and flags above them. */
#define PERL_TYPE_MASK 0x0f
#define PERL_MULTICALL 0x10
#define PERL_IN_REGEX 0x40     /* of a sub */
#define PERL_REGEX_OF_SUB 0x80 /* of a sub */

/* What a stack is for. */
#define PERL_STACK_SORT 3

/* What a frame runs, above the 48 bits of its address: as in src/runtimes/perl/layout.rs. */
#define PERL_ADDRESS ((1ULL << 48) - 1)
enum perl_kind {
	PERL_SUB = 0,
	PERL_MAIN = 1,
	PERL_EVAL = 2,
	PERL_REQUIRE = 3,
	PERL_SORT = 4,
	PERL_REGEX = 5,
	PERL_DEFER = 6,
	PERL_FORMAT = 7,
	PERL_NO_FRAME = 255,
};

/* Types of values, flags of subs and of hashes. */
#define PERL_IS_GLOB 9
#define PERL_IS_HASH 12
#define PERL_IS_CODE 13
#define PERL_IS_FORMAT 14
#define PERL_IS_NAMED 0x8000
#define PERL_HAS_NAME (1 << 25)
/* In the body of a value: after what all have. */
#define PERL_BODY 32
/* In an op: the function that runs it. */
#define PERL_OP_FUNCTION 16
/* Bytes of a file's name that count. */
#define PERL_CHECK_TEXT 64

/* Finds the keys of the symbol at `glob`: its name and the package. */
static __always_inline bool find_glob_names(struct task_struct *sleeper, struct scratch *s,
					    __u64 glob, struct perl_names *names)
{
	if (!read_of(sleeper, s->content, 24, glob) ||
	    (s->content[1] >> 32 & 255) != PERL_IS_GLOB ||
	    !read_of(sleeper, s->content, 16, s->content[0] + PERL_BODY))
		return false;
	names->name = s->content[0];
	names->stash = s->content[1];
	return true;
}

/* Finds the key of the package that `names` has; 0 if it has no name. */
static __always_inline __u64 find_package(struct task_struct *sleeper, struct scratch *s,
					  const struct prof_perl *perl, __u64 stash)
{
	__u64 more, name;

	if (!read_of(sleeper, s->content, 24, stash) ||
	    (s->content[1] >> 32 & 255) != PERL_IS_HASH || !(s->content[1] >> 32 & PERL_HAS_NAME))
		return 0;
	more = s->content[0] + PERL_BODY;
	if (!perl->is_stash_wide) {
		/* Behind the array, whose greatest index is in the body. */
		name = s->content[2];
		if (!read_of(sleeper, &more, sizeof(more), s->content[0] + 24))
			return 0;
		more = name + (more + 1) * 8;
	}
	if (!read_of(sleeper, s->content, 32, more))
		return 0;
	name = s->content[0];
	/* More than one name: it is a list of them. */
	if (s->content[3] >> 32 && !read_of(sleeper, &name, sizeof(name), name))
		return 0;
	return name;
}

/* Finds what names a code object; false if it is none. */
static __always_inline bool find_perl_names(struct task_struct *sleeper, struct scratch *s,
					    const struct prof_perl *perl, __u64 code,
					    struct perl_names *names)
{
	__u64 address = code & PERL_ADDRESS;
	__u64 *words = (__u64 *)s->code, symbol;

	__builtin_memset(names, 0, sizeof(*names));
	if (!address)
		return false;
	if (code >> 48) {
		names->file = address;
		if (!perl->is_file_glob)
			return true;
		names->file = 0;
		if (!find_glob_names(sleeper, s, address, names))
			return false;
		names->stash = 0;
		return true;
	}
	if (!read_of(sleeper, s->content, 24, address))
		return false;
	symbol = s->content[1] >> 32 & 255;
	if ((symbol != PERL_IS_CODE && symbol != PERL_IS_FORMAT) ||
	    !read_of(sleeper, words, 64, s->content[0] + PERL_BODY))
		return false;
	names->stash = words[0];
	names->start = words[1];
	names->root = words[2];
	names->name = words[3];
	names->file = words[4];
	names->flags = words[7] >> 32;
	if (!(names->flags & PERL_IS_NAMED) && !find_glob_names(sleeper, s, names->name, names))
		return false;
	names->package = find_package(sleeper, s, perl, names->stash);
	return true;
}

/* Mixes the beginning of a text into a check: what is on its first page. */
static __always_inline __u64 mix_perl_text(struct task_struct *sleeper, struct scratch *s,
					   __u64 address, __u64 mixed)
{
	__u32 bytes = PROF_CHECK_PAGE_BYTES - (address & (PROF_CHECK_PAGE_BYTES - 1));
	__u64 word, zeros;

	__builtin_memset(s->content, 0, sizeof(s->content));
	if (bytes > PERL_CHECK_TEXT)
		bytes = PERL_CHECK_TEXT;
	/* What cannot be read is filled with zeros. */
	read_of(sleeper, s->content, bytes, address);
	for (__u32 i = 0; i < PERL_CHECK_TEXT / 8; i++) {
		word = s->content[i];
		/* The lowest bit that is set is that of the first byte that is 0. */
		zeros = (word - 0x0101010101010101) & ~word & 0x8080808080808080;
		if (zeros)
			word &= ((zeros & -zeros) >> 7) - 1;
		mixed = mix_word(mixed, word);
		if (zeros)
			break;
	}
	return mixed;
}

/* What tells a code object from another one that may lie at its address later; 0 if it is none. */
static __always_inline __u32 perl_check(struct task_struct *sleeper, struct scratch *s,
					const struct prof_perl *perl, __u64 code)
{
	struct perl_names *names = &s->perl_names;
	__u64 mixed, key;

	if (!find_perl_names(sleeper, s, perl, code, names))
		return 0;
	mixed = mix_word(code >> 48, names->start);
	mixed = mix_word(mixed, names->root);
	mixed = mix_word(mixed, names->name);
	mixed = mix_word(mixed, names->stash);
	mixed = mix_word(mixed, names->package);
	mixed = mix_word(mixed, names->file);
	/* A key begins with a hash of its text, and its length. */
	key = 0;
	if (names->name && !read_of(sleeper, &key, sizeof(key), names->name))
		return 0;
	mixed = mix_word(mixed, key);
	key = 0;
	if (names->package && !read_of(sleeper, &key, sizeof(key), names->package))
		return 0;
	mixed = mix_word(mixed, key);
	if (names->file)
		mixed = mix_perl_text(sleeper, s, names->file, mixed);
	return end_check(mixed);
}

/* What the names of a code object take: where they are, in a part that is at no address, and their
 * texts. */
#define PERL_NOTE 0xffff800000000000
static __always_inline void take_perl_parts(struct prof_new_code *record, struct scratch *s,
					    const struct prof_perl *perl, __u64 code)
{
	__u64 *note = (__u64 *)record->object[0];
	struct perl_names *names = &s->perl_names;
	__u32 line = 0;

	if (!find_perl_names(NULL, s, perl, code, names))
		return;
	record->part[0] = PERL_NOTE;
	note[0] = names->name;
	note[1] = names->package;
	note[2] = names->file;
	note[3] = 0;
	note[5] = names->flags;
	if (names->start) {
		bpf_probe_read_user(&note[3], 8, (void *)(names->start + PERL_OP_FUNCTION));
		bpf_probe_read_user(&line, 4, (void *)(names->start + perl->line_off));
	}
	note[4] = line;
	record->part[PROF_CODE_OBJECTS + PROF_CODE_LINKS] = names->name;
	read_part(record->text[0], PROF_CODE_TEXT_BYTES, names->name);
	record->part[PROF_CODE_OBJECTS + PROF_CODE_LINKS + 1] = names->package;
	read_part(record->text[1], PROF_CODE_TEXT_BYTES, names->package);
	record->part[PROF_CODE_OBJECTS + PROF_CODE_LINKS + 2] = names->file;
	read_part(record->lines, PROF_CODE_LINES_BYTES, names->file);
}

/* Begins with the last block of the stack at `w->frame`, which has a mark in its lowest bit.
 * Returns 1 to stop. */
static __always_inline long begin_perl_stack(struct task_struct *sleeper, struct runtime_walk *w)
{
	const struct prof_perl *perl = &w->runtime->perl;
	__u8 *stack = (__u8 *)w->s->content;
	__s32 last;

	if (!read_of(sleeper, stack, 48, w->frame & ~1ULL)) {
		w->s->sample.runtime_flags |= PROF_RUNTIME_CUT;
		return 1;
	}
	w->s->perl.outermost = *(__u64 *)(stack + (perl->blocks_off & 31)) & ~7ULL;
	w->s->perl.outer = *(__u64 *)(stack + (perl->outer_off & 31)) & ~7ULL;
	last = *(__s32 *)(stack + (perl->last_off & 63));
	w->s->perl.is_sort = *(__u32 *)(stack + (perl->stack_type_off & 63)) == PERL_STACK_SORT;
	w->s->perl.is_doubtful = 0;
	if (last >= 0)
		w->frame = w->s->perl.outermost + (__u64)last * perl->block_bytes;
	else
		w->frame = w->s->perl.outer ? w->s->perl.outer | 1 : 0;
	return 0;
}

/* What the block of this type runs, if it is a frame. */
static __always_inline __u32 perl_kind_of(const struct prof_perl *perl, __u32 type, bool is_of_sort,
					  bool is_root, bool is_required)
{
	__u32 kind = type & PERL_TYPE_MASK;

	if (kind == perl->sub_type)
		return type & PERL_REGEX_OF_SUB ? PERL_REGEX : PERL_SUB;
	if (kind == perl->sub_type + 2) {
		if (type & perl->try_flag)
			return PERL_NO_FRAME;
		return is_required ? PERL_REQUIRE : PERL_EVAL;
	}
	if (kind == perl->sub_type + 1)
		return PERL_FORMAT;
	/* Elsewhere, the type is not written yet. */
	if (!kind && is_of_sort)
		return PERL_SORT;
	if (kind == perl->defer_type)
		return PERL_DEFER;
	return kind == perl->block_type && is_root ? PERL_MAIN : PERL_NO_FRAME;
}

/* Reads the line of the statement that the walk is at. Returns its file; 0 if it cannot be read. */
static __always_inline __u64 perl_place(struct task_struct *sleeper, struct runtime_walk *w,
					__u32 *line)
{
	const struct prof_perl *perl = &w->runtime->perl;
	__u8 *place = (__u8 *)w->s->content;

	if (!read_of(sleeper, place, 32, w->s->perl.statement + perl->line_off))
		return 0;
	*line = *(__u32 *)place;
	return *(__u64 *)(place + ((perl->file_off - perl->line_off) & 15));
}

/* Takes one block. Returns 1 to stop. */
static __always_inline long take_perl_block(struct task_struct *sleeper, struct runtime_walk *w)
{
	const struct prof_perl *perl = &w->runtime->perl;
	struct perl_walk *walk = &w->s->perl;
	__u64 old_statement, returns, sub, file, at = w->frame;
	__u32 type, kind, line = 0;
	bool is_outermost, is_required, is_entry, is_eval;
	__u8 *block;

	if (!at)
		return 1;
	if (at & 1)
		return begin_perl_stack(sleeper, w);
	block = frame_at(sleeper, w->s, perl->block_bytes & (PROF_RUNTIME_FRAME_BYTES - 1), true,
			 at);
	if (!block || w->s->sample.runtime_count >= PROF_MAX_RUNTIME_FRAMES) {
		w->s->sample.runtime_flags |= PROF_RUNTIME_CUT;
		return 1;
	}
	is_outermost = at == walk->outermost;
	if (is_outermost)
		w->frame = walk->outer ? walk->outer | 1 : 0;
	else
		w->frame = at - perl->block_bytes;
	type = block[0];
	is_required = *(__u64 *)(block + (perl->required_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	kind = perl_kind_of(perl, type, is_outermost && walk->is_sort, is_outermost && !walk->outer,
			    is_required);
	if (kind == PERL_NO_FRAME)
		return 0;
	old_statement =
		*(__u64 *)(block + (perl->old_statement_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	returns = *(__u64 *)(block + (perl->return_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	sub = *(__u64 *)(block + (perl->sub_off & (PROF_RUNTIME_FRAME_BYTES - 1)));
	/* The sub has just been entered, or is about to return. */
	if (kind == PERL_SUB && !sub) {
		walk->statement = old_statement;
		return 0;
	}
	is_eval = kind == PERL_EVAL || kind == PERL_REQUIRE;
	is_entry = kind == PERL_SUB || is_eval ? !returns : kind != PERL_FORMAT;
	/* Code that ends without an op to go on with: its last call was not entered from C. And C
	 * code that catches errors enters an eval first, and then a sub in it. */
	if (walk->is_doubtful &&
	    (kind == PERL_SORT || kind == PERL_REGEX || (is_eval && is_entry) ||
	     (kind == PERL_SUB && type & PERL_IN_REGEX)))
		unmark_last_as_entry(w);
	walk->is_doubtful = is_entry && (is_eval || (kind == PERL_SUB && !(type & PERL_MULTICALL)));
	/* A sub that has just been entered is at no statement of its own yet: it is still that of
	 * its caller, unless a sub calls itself. */
	if (walk->unbegun && (kind != PERL_SUB || sub != walk->unbegun))
		clear_last_position(w);
	walk->unbegun = kind == PERL_SUB && walk->statement == old_statement ? sub : 0;
	file = perl_place(sleeper, w, &line);
	walk->statement = old_statement;
	sub = kind == PERL_SUB ? sub : file;
	sub = sub & ~PERL_ADDRESS ? 0 : sub;
	return put_frame(sleeper, w, PROF_RUNTIME_PERL, (__u64)kind << 48 | sub, line, is_entry);
}

/* Finds the innermost stack of the thread with this state, and the statement that it is at. */
static __always_inline bool perl_first(struct task_struct *sleeper, struct runtime_walk *w)
{
	const struct prof_perl *perl = &w->runtime->perl;
	__u64 stack = w->state, statement = perl->statement;

	if (!statement) {
		if (!read_of(sleeper, &stack, sizeof(stack), w->state + perl->stack_off))
			return false;
		statement = w->state + perl->statement_off;
	}
	__builtin_memset(&w->s->perl, 0, sizeof(w->s->perl));
	if (!read_of(sleeper, &w->s->perl.statement, sizeof(w->s->perl.statement), statement))
		return false;
	w->frame = stack ? stack | 1 : 0;
	return true;
}

#endif /* PROF_PERL_BPF_H */
