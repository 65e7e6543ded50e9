/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames that the interpreter of a language keeps in a list of its own. They are sent after the
 * native frames, and user space puts the two together.
 */
#ifndef PROF_INTERPRETER_FRAMES_BPF_H
#define PROF_INTERPRETER_FRAMES_BPF_H

#include "walk/interpreter/php.bpf.h"
#include "walk/interpreter/perl.bpf.h"
#include "walk/interpreter/python.bpf.h"
#include "walk/interpreter/ruby.bpf.h"

/* Whether an interpreter is of a kind, one that is wanted. */
#define IS_KIND(kind, wanted) ((interpreters & (1U << (wanted))) && (kind) == (wanted))

static __always_inline __u32 read_code_check(struct task_struct *sleeper, struct scratch *s,
					     const struct prof_runtime *runtime, __u32 kind,
					     __u64 code)
{
	if (IS_KIND(kind, PROF_RUNTIME_PYTHON)) {
		return python_check(sleeper, s, &runtime->python, code);
	} else if (IS_KIND(kind, PROF_RUNTIME_RUBY)) {
		return ruby_check(sleeper, s, &runtime->ruby, code);
	} else if (IS_KIND(kind, PROF_RUNTIME_PHP)) {
		return php_check(sleeper, s, &runtime->php, code);
	} else if (IS_KIND(kind, PROF_RUNTIME_PERL)) {
		return perl_check(sleeper, s, &runtime->perl, code);
	}
	return 0;
}

__noinline int take_code_parts(struct prof_new_code *record, struct scratch *s,
			       const struct prof_runtime *runtime, __u64 code)
{
	if (!record || !s || !runtime)
		return 0;
	if (IS_KIND(runtime->kind, PROF_RUNTIME_PYTHON)) {
		take_python_parts(record, &runtime->python, code);
	} else if (IS_KIND(runtime->kind, PROF_RUNTIME_RUBY)) {
		take_ruby_parts(record, &runtime->ruby, code);
	} else if (IS_KIND(runtime->kind, PROF_RUNTIME_PHP)) {
		take_php_parts(record, &runtime->php, code);
	} else if (IS_KIND(runtime->kind, PROF_RUNTIME_PERL)) {
		take_perl_parts(record, s, &runtime->perl, code);
	}
	return 0;
}

/* The state that the runtime keeps of a thread; 0 if there is none. */
static __always_inline __u64 runtime_state(struct task_struct *sleeper, struct scratch *s,
					   const struct prof_runtime *runtime)
{
	__u64 place, state;

	if (runtime->locator == PROF_LOCATOR_PROCESS) {
		if (s->sample.tid != s->sample.tgid)
			return 0;
		return read_of(sleeper, &state, sizeof(state), runtime->locator_off) ? state : 0;
	}
	place = user_thread_pointer(sleeper ? sleeper : bpf_get_current_task_btf());
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

/* Whether the thread was interrupted where an interpreter begins a list, which only its registers
 * know of, or where they know its place better than the list. */
static __always_inline bool is_in_setup(struct scratch *s, const struct prof_runtime *runtime)
{
	if (IS_KIND(runtime->kind, PROF_RUNTIME_PYTHON)) {
		return is_in_python_setup(s, &runtime->python);
	} else if (IS_KIND(runtime->kind, PROF_RUNTIME_PHP)) {
		return is_in_php_loop(s, &runtime->php);
	}
	return false;
}

/* Finds the first frame of the thread; false if it cannot be read. */
static __always_inline bool find_first(struct task_struct *sleeper, struct runtime_walk *w,
				       __u32 kind, bool is_setup)
{
	const struct prof_runtime *runtime = w->runtime;

	if (IS_KIND(kind, PROF_RUNTIME_PYTHON)) {
		if (is_setup)
			return python_first_in_setup(w->s, &runtime->python, &w->frame);
		return python_first(sleeper, &runtime->python, w->state, &w->frame);
	} else if (IS_KIND(kind, PROF_RUNTIME_RUBY)) {
		return ruby_first(sleeper, &runtime->ruby, w);
	} else if (IS_KIND(kind, PROF_RUNTIME_PHP)) {
		w->frame = w->state;
		return true;
	} else if (IS_KIND(kind, PROF_RUNTIME_PERL)) {
		return perl_first(sleeper, w);
	}
	return false;
}

/* Finds the list of the thread's frames; false if there is none that can be read. */
static __always_inline bool begin_runtime_walk(struct task_struct *sleeper, struct runtime_walk *w,
					       __u32 kind, bool is_setup)
{
	struct scratch *s = w->s;
	__u32 zero = 0;

	w->known = bpf_map_lookup_elem(&known_codes, &zero);
	w->state = runtime_state(sleeper, s, w->runtime);
	if (!w->known || !w->state)
		return false;
	s->sample.runtime_flags = PROF_RUNTIME_HAS_STATE;
	note_lock(sleeper, s, w->runtime, w->state);
	w->owner = recent_key(0, s->sample.tgid);
	w->first = s->kernel_count + kept_frames(s) + 2 * s->sample.managed_count;
	w->now_ms = sample_ms(s);
	s->window_words = 0;
	if (find_first(sleeper, w, kind, is_setup))
		return true;
	s->sample.runtime_flags |= PROF_RUNTIME_CUT;
	return false;
}

static __always_inline void end_runtime_walk(struct runtime_walk *w)
{
	if (w->frame)
		w->s->sample.runtime_flags |= PROF_RUNTIME_CUT;
}

/* Frames that are taken in one call: a call takes as long as a frame. */
#define FRAMES_AT_ONCE 4

static long take_python_frames(__u32 index, struct runtime_walk *w)
{
#pragma unroll
	for (int i = 0; i < FRAMES_AT_ONCE; i++) {
		if (take_python_frame(NULL, w))
			return 1;
	}
	return 0;
}

static long take_ruby_frames(__u32 index, struct runtime_walk *w)
{
#pragma unroll
	for (int i = 0; i < FRAMES_AT_ONCE; i++) {
		if (take_ruby_frame(NULL, w))
			return 1;
	}
	return 0;
}

static long take_sleepers_ruby_frame(__u32 index, struct runtime_walk *w)
{
	return take_ruby_frame(w->sleeper, w);
}

static long take_php_frames(__u32 index, struct runtime_walk *w)
{
	return take_php_frame(NULL, w, false);
}

static long take_php_first_frame(__u32 index, struct runtime_walk *w)
{
	return take_php_frame(NULL, w, true);
}

static long take_sleepers_php_frame(__u32 index, struct runtime_walk *w)
{
	return take_php_frame(w->sleeper, w, false);
}

static long take_sleepers_python_frame(__u32 index, struct runtime_walk *w)
{
	return take_python_frame(w->sleeper, w);
}

static long take_perl_blocks(__u32 index, struct runtime_walk *w)
{
	return take_perl_block(NULL, w);
}

static long take_sleepers_perl_block(__u32 index, struct runtime_walk *w)
{
	return take_perl_block(w->sleeper, w);
}

/* Takes the frames of PHP. The first one of the program's is in the registers of the loop: it has a
 * call of its own, since Linux 6.1 has 512 bytes for the stacks of all that is called. */
static __always_inline void take_php_all(struct runtime_walk *w, bool is_setup)
{
	if (is_setup)
		bpf_loop(1, take_php_first_frame, w, 0);
	bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES, take_php_frames, w, 0);
}

/* Takes the frames of the current thread's interpreter, which is of this kind. */
static __always_inline int take_frames_of(struct scratch *s, const struct prof_runtime *runtime,
					  __u32 kind, bool is_setup)
{
	struct runtime_walk w = {.s = s, .runtime = runtime};

	if (!s || !runtime || !begin_runtime_walk(NULL, &w, kind, is_setup))
		return 0;
	/* Shims are no frames, and there is one for each call from C. */
	if (kind == PROF_RUNTIME_PYTHON)
		bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES / FRAMES_AT_ONCE, take_python_frames, &w, 0);
	else if (kind == PROF_RUNTIME_RUBY)
		bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES / FRAMES_AT_ONCE, take_ruby_frames, &w, 0);
	else if (kind == PROF_RUNTIME_PHP)
		take_php_all(&w, is_setup);
	/* Loops are blocks, too. */
	else if (kind == PROF_RUNTIME_PERL)
		bpf_loop(4 * PROF_MAX_RUNTIME_FRAMES, take_perl_blocks, &w, 0);
	end_runtime_walk(&w);
	return 0;
}

/* Global, one for each language: verified once, not for every path that leads here. What a language
 * does not use is no argument: clang would not pass it, and the kernel wants all. */
#define TAKES_FRAMES(language, kind, is_in_setup, ...)                                           \
	__noinline int take_##language##_list(struct scratch *s,                                 \
					      const struct prof_runtime *runtime, ##__VA_ARGS__) \
	{                                                                                        \
		return take_frames_of(s, runtime, kind, is_in_setup);                            \
	}
TAKES_FRAMES(python, PROF_RUNTIME_PYTHON, is_setup, bool is_setup)
TAKES_FRAMES(ruby, PROF_RUNTIME_RUBY, false)
TAKES_FRAMES(php, PROF_RUNTIME_PHP, is_setup, bool is_setup)
TAKES_FRAMES(perl, PROF_RUNTIME_PERL, false)

/*
 * Takes the frames of the current thread's interpreter, after the native ones that are in the
 * scratch. Where its loop sets itself up the registers in the scratch are those of the leaf.
 */
static __always_inline void take_runtime_frames(struct scratch *s,
						const struct prof_runtime *runtime, bool is_setup)
{
	if (IS_KIND(runtime->kind, PROF_RUNTIME_PYTHON))
		take_python_list(s, runtime, is_setup);
	else if (IS_KIND(runtime->kind, PROF_RUNTIME_RUBY))
		take_ruby_list(s, runtime);
	else if (IS_KIND(runtime->kind, PROF_RUNTIME_PHP))
		take_php_list(s, runtime, is_setup);
	else if (IS_KIND(runtime->kind, PROF_RUNTIME_PERL))
		take_perl_list(s, runtime);
}

/* The same of a thread that sleeps, in a program that may sleep. */
static __always_inline void take_sleepers_frames(struct scratch *s,
						 const struct prof_runtime *runtime,
						 struct task_struct *sleeper)
{
	struct runtime_walk w = {.s = s, .runtime = runtime, .sleeper = sleeper};
	__u32 kind = runtime->kind;

	if (IS_KIND(kind, PROF_RUNTIME_PYTHON)) {
		if (begin_runtime_walk(sleeper, &w, PROF_RUNTIME_PYTHON, false))
			bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES, take_sleepers_python_frame, &w, 0);
	} else if (IS_KIND(kind, PROF_RUNTIME_RUBY)) {
		if (begin_runtime_walk(sleeper, &w, PROF_RUNTIME_RUBY, false))
			bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES, take_sleepers_ruby_frame, &w, 0);
	} else if (IS_KIND(kind, PROF_RUNTIME_PHP)) {
		if (begin_runtime_walk(sleeper, &w, PROF_RUNTIME_PHP, false))
			bpf_loop(2 * PROF_MAX_RUNTIME_FRAMES, take_sleepers_php_frame, &w, 0);
	} else if (IS_KIND(kind, PROF_RUNTIME_PERL)) {
		if (begin_runtime_walk(sleeper, &w, PROF_RUNTIME_PERL, false))
			bpf_loop(4 * PROF_MAX_RUNTIME_FRAMES, take_sleepers_perl_block, &w, 0);
	}
	end_runtime_walk(&w);
}

#endif /* PROF_INTERPRETER_FRAMES_BPF_H */
