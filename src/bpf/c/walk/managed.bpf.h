/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a runtime knows of the frames of its functions, which stand on the native stack: noted while
 * the walk passes them, and sent after the native frames. Any runtime's step of the walk may note
 * something; user space makes functions of it.
 */
#ifndef PROF_MANAGED_BPF_H
#define PROF_MANAGED_BPF_H

/* While the walk goes on, notes are kept in those words of the scratch's frames that no native
 * frame gets. As these they have a first half, and a second one that is a ring. */
#define FIRST_MANAGED_WORD (PROF_MAX_KERNEL_FRAMES + 1 + PROF_MAX_USER_FRAMES)
#define MANAGED_WORDS (2 * PROF_MAX_USER_FRAMES)

_Static_assert(FIRST_MANAGED_WORD + MANAGED_WORDS <= FRAME_WORDS, "each native frame may have one");
_Static_assert(1 << PROF_MANAGED_FRAME_BITS == PROF_MAX_USER_FRAMES, "a frame fits into the mark");

/* Where the current frame, which was kept already, is in the scratch's frames. */
static __always_inline __u64 *current_frame(struct scratch *s)
{
	__u32 slot = frame_slot(s->walked - 1);

	return &s->frames[(s->kernel_count + slot) & (2 * PROF_MAX_USER_FRAMES - 1)];
}

/* Notes what the runtime knows of the current frame. `code` is an address, `mark` a small number.
 */
static __always_inline void note_managed_frame(struct scratch *s, __u64 code, __u32 position,
					       __u32 check, __u64 mark)
{
	__u32 n = s->managed, word = bounded(2 * frame_slot(n), MANAGED_WORDS);
	__u64 frame = frame_slot(s->walked - 1);

	*current_frame(s) |= PROF_FRAME_MANAGED;
	s->frames[FIRST_MANAGED_WORD + word] = (code & PROF_MANAGED_ADDRESS) |
					       frame << PROF_MANAGED_FRAME_SHIFT |
					       mark << PROF_MANAGED_MARK_SHIFT;
	s->frames[FIRST_MANAGED_WORD + 1 + word] = position | (__u64)check << 32;
	s->managed = n + 1;
}

/*
 * The note of the frame before is the current frame's, if both have the same frame pointer: the
 * callee has none of its own (yet, or any more).
 */
static __always_inline void note_frame_pointer(struct scratch *s)
{
	__u32 callee = frame_slot(s->walked - 2);

	if (s->managed && s->managed_at + 1 == s->walked && s->managed_bp == s->regs[REG_BP]) {
		s->frames[(s->kernel_count + callee) & (2 * PROF_MAX_USER_FRAMES - 1)] &=
			~PROF_FRAME_MANAGED;
		s->managed--;
	}
	s->managed_at = s->walked;
	s->managed_bp = s->regs[REG_BP];
}

static __always_inline bool is_v8_object(__u64 word)
{
	return (word & 3) == 1 && word > 0xffff;
}

/* The value of a small integer in a word; PROF_MANAGED_NO_POSITION if it is none. */
static __always_inline __u32 v8_number(__u64 word)
{
	return (__u32)word ? PROF_MANAGED_NO_POSITION : word >> 32;
}

#define RECENT_FUNCTIONS_BITS 9
/* A function that was the same twice is not looked at again for so long, ms: a function that is
 * found in each sample is looked at in every tenth at the default rate. */
#define RECENT_FUNCTION_MS 10

/* A function that was looked at on this CPU: of which process, with which check, and until when
 * that counts. */
struct recent_function {
	__u64 shared;
	__u32 tgid;
	__u32 check;
	__u32 until_ms;
	__u32 pad;
};

struct recent_functions {
	struct recent_function entry[1 << RECENT_FUNCTIONS_BITS];
};

/* What an interrupt finds half written names no function. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct recent_functions);
} recent_functions SEC(".maps");

/* What tells the function described at `shared` from others that may be described there later; 0 if
 * it cannot be read. */
static __always_inline __u32 v8_check(struct scratch *s, const struct prof_v8 *v8, __u64 shared)
{
	__u64 script, number;
	__u32 bytes = v8->identity_bytes, check;

	if (bytes > PROF_V8_IDENTITY_BYTES ||
	    bpf_probe_read_user(s->code, bytes, (void *)(shared - 1 + v8->identity_off)))
		return 0;
	script = *(__u64 *)(s->code + (v8->script_word & (PROF_V8_IDENTITY_BYTES - 8)));
	number = *(__u64 *)(s->code + (v8->number_word & (PROF_V8_IDENTITY_BYTES - 4)));
	script = script << PROF_V8_SCRIPT_TURN | script >> (64 - PROF_V8_SCRIPT_TURN);
	check = ((script ^ (number & v8->number_mask)) * PROF_V8_CHECK_FACTOR) >> 32;
	return check ? check : 1;
}

/* The same, from memory where it was looked at a moment ago; then it has the mark
 * PROF_V8_FROM_MEMORY in the upper half. */
static __always_inline __u64 known_v8_check(struct scratch *s, const struct prof_v8 *v8,
					    __u64 shared)
{
	__u32 now_ms = s->sample.time_ns / 1000000, check, zero = 0;
	struct recent_functions *functions = bpf_map_lookup_elem(&recent_functions, &zero);
	struct recent_function *recent;
	bool is_same;

	if (!functions)
		return v8_check(s, v8, shared);
	recent = &functions->entry[shared * PROF_V8_CHECK_FACTOR >> (64 - RECENT_FUNCTIONS_BITS)];
	is_same = recent->shared == shared && recent->tgid == s->sample.tgid;
	if (is_same && (__s32)(recent->until_ms - now_ms) > 0)
		return recent->check | PROF_V8_FROM_MEMORY << 32;
	check = v8_check(s, v8, shared);
	if (!check)
		return 0;
	is_same = is_same && recent->check == check;
	recent->shared = 0;
	recent->tgid = s->sample.tgid;
	recent->check = check;
	recent->until_ms = now_ms + (is_same ? RECENT_FUNCTION_MS : 0);
	recent->shared = shared;
	return check;
}

/*
 * Notes the JavaScript function of the current frame, if it is one of such. Global: verified once,
 * not for every path that leads here.
 */
__noinline int note_v8_frame(struct scratch *s, const struct prof_v8 *v8)
{
	__u64 bp, position, function, context, shared, check;

	if (!s || !v8)
		return 0;
	bp = s->regs[REG_BP];
	if ((bp & 7) || bp < s->regs[REG_SP])
		return 0;
	/* The stack is read from its lowest word on that is needed. */
	if (!s->window_words)
		read_word(s, s->regs[REG_SP], &context);
	if (!read_word(s, bp + v8->bytecode_offset_off, &position) ||
	    !read_word(s, bp + v8->function_off, &function) ||
	    !read_word(s, bp + v8->context_off, &context) || !is_v8_object(context) ||
	    !is_v8_object(function) || !read_user_word(function - 1 + v8->shared_off, &shared) ||
	    !is_v8_object(shared))
		return 0;
	check = known_v8_check(s, v8, shared);
	if (!(__u32)check)
		return 0;
	note_frame_pointer(s);
	note_managed_frame(s, shared, v8_number(position), check, check >> 32);
	return 0;
}

/* Notes what the runtime of the process knows of the current frame, which is at `address`. */
static __always_inline void note_managed(struct walk *w, __u64 address)
{
	const struct prof_managed *managed = &w->process->managed;
	__u32 state = w->s->image.state;

	if (managed->kind == PROF_MANAGED_V8 &&
	    (state == PROF_IMAGE_GENERATED || state == PROF_IMAGE_UNTOLD ||
	     address - managed->v8.code_start < managed->v8.code_bytes))
		note_v8_frame(w->s, &managed->v8);
}

/* Has the notes follow the native frames, as they are sent. They are moved to lower addresses. */
static __always_inline void pack_managed_frames(struct scratch *s)
{
	__u32 count = s->managed, to = s->kernel_count + kept_frames(s), bytes;

	if (!count)
		return;
	s->sample.managed_left_out =
		count > PROF_MAX_USER_FRAMES ? count - PROF_MAX_USER_FRAMES : 0;
	if (count > PROF_MAX_USER_FRAMES)
		count = PROF_MAX_USER_FRAMES;
	bytes = 8 * 2 * count;
	/* For the verifier: both of these are bounded already. */
	barrier_var(bytes);
	barrier_var(to);
	if (bytes > 8 * MANAGED_WORDS || to >= FIRST_MANAGED_WORD)
		return;
	if (bpf_probe_read_kernel(&s->frames[to], bytes, &s->frames[FIRST_MANAGED_WORD]))
		return;
	s->sample.managed_count = count;
}

#endif /* PROF_MANAGED_BPF_H */
