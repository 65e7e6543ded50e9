/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The goroutine that a thread of a Go program works for, and what tells its labels from others that
 * may lie in the same memory when user space reads them.
 */
#ifndef PROF_WALK_GOROUTINE_BPF_H
#define PROF_WALK_GOROUTINE_BPF_H

#define KNOWN_LABELS 256
/* The reader is woken for new labels this often at most. */
#define NEW_LABELS_NS 10000000

/* Checks of labels that samples of this CPU had lately, and when the reader was last woken. */
struct known_labels {
	__u64 woken_ns;
	__u64 check[KNOWN_LABELS];
};

/* Only the sampling interrupt uses it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known_labels);
} known_labels SEC(".maps");

/* Labels that are looked at. */
struct label_walk {
	struct task_struct *sleeper; /* as in struct runtime_walk */
	struct scratch *s;	     /* its window holds their list */
	const struct prof_goroutine_place *place;
	__u64 mixed;
	__u32 words;   /* of the list */
	__u32 strings; /* in the list, key and value of each label */
};

static long mix_list_word(__u32 index, struct label_walk *w)
{
	if (index >= w->words)
		return 1;
	w->mixed = mix_word(w->mixed, *(__u64 *)(w->s->window + (8 * index & (WINDOW_BYTES - 1))));
	return 0;
}

/* Mixes the beginning of a string of the list. Returns 1 to stop. */
static __always_inline long mix_string_of(struct task_struct *sleeper, struct label_walk *w,
					  __u32 index)
{
	__u32 from = w->place->label_form == PROF_LABELS_MAP ? 8 : 0, bytes;
	struct scratch *s = w->s;
	__u64 *string = (__u64 *)(s->window + bounded(16 * index + from, WINDOW_BYTES));
	__u64 address = string[0], length = string[1];

	if (index >= w->strings)
		return 1;
	if (from && s->window[index & (PROF_GO_LABELS - 1)] < PROF_GO_ENTRY_USED)
		return 0;
	/* What never changes is told from others by its address. */
	if (!length || address - w->place->constants < w->place->constant_bytes)
		return 0;
	bytes = length < 8 * PROF_GO_STRING_WORDS ? length : 8 * PROF_GO_STRING_WORDS;
	__builtin_memset(s->content, 0, sizeof(s->content));
	/* What cannot be read is filled with zeros, here as in user space. */
	read_of(sleeper, s->content, bytes & 127, address);
	for (int i = 0; i < PROF_GO_STRING_WORDS; i++)
		w->mixed = mix_word(w->mixed, s->content[i]);
	return 0;
}

static long mix_string(__u32 index, struct label_walk *w)
{
	return mix_string_of(NULL, w, index);
}

static long mix_sleepers_string(__u32 index, struct label_walk *w)
{
	return mix_string_of(w->sleeper, w, index);
}

/* Reads the list of the labels at `pointer` into the window; false if there is none. */
static __always_inline bool read_labels(struct task_struct *sleeper, struct label_walk *w,
					__u64 pointer)
{
	struct scratch *s = w->s;
	__u64 header[3];
	__u32 bytes;

	/* What the window held before is gone. */
	s->window_words = 0;
	if (w->place->label_form == PROF_LABELS_PAIRS) {
		if (!read_of(sleeper, header, sizeof(header), pointer))
			return false;
		w->strings = 2 * (header[1] < PROF_GO_LABELS ? header[1] : PROF_GO_LABELS);
		bytes = 16 * w->strings;
		w->mixed = mix_word(header[0] * PROF_CHECK_SECOND, header[1]);
		pointer = header[0];
	} else {
		if (!read_of(sleeper, &pointer, sizeof(pointer), pointer) ||
		    !read_of(sleeper, header, sizeof(header), pointer))
			return false;
		w->strings = 2 * PROF_GO_LABELS;
		bytes = PROF_GO_BUCKET_BYTES;
		/* The number of its entries, its flags, and how many buckets there are. */
		w->mixed = mix_word(header[0] * PROF_CHECK_SECOND, header[1] & 0xffff);
		pointer = header[2];
	}
	w->words = bytes / 8;
	/* For the verifier: the length has an upper bound. */
	barrier_var(bytes);
	if (bytes > PROF_GO_BUCKET_BYTES)
		return false;
	return !bytes || read_of(sleeper, s->window, bytes, pointer);
}

/* Notes the goroutine that a thread works for, if there is one. */
static __always_inline void find_goroutine_of(struct task_struct *sleeper, struct scratch *s,
					      const struct prof_goroutine_place *place)
{
	struct label_walk w = {.sleeper = sleeper, .s = s, .place = place};
	__u64 at = user_thread_pointer(sleeper ? sleeper : bpf_get_current_task_btf());
	struct prof_goroutine *goroutine = &s->goroutine;

	/* A thread that runs no Go code has none. */
	if (!at || !read_of(sleeper, &at, sizeof(at), at + place->own_off) || !at)
		return;
	s->sample.runtime_flags |= PROF_RUNTIME_GOROUTINE_UNREAD;
	if (!read_of(sleeper, &at, sizeof(at), at + place->machine_off) ||
	    !read_of(sleeper, &at, sizeof(at), at + place->current_off))
		return;
	if (!at) {
		/* The runtime works for itself. */
		s->sample.runtime_flags &= ~PROF_RUNTIME_GOROUTINE_UNREAD;
		return;
	}
	goroutine->check = 0;
	if (!read_of(sleeper, &goroutine->id, 8, at + place->id_off) ||
	    !read_of(sleeper, &goroutine->labels, 8, at + place->labels_off))
		return;
	s->sample.runtime_flags ^= PROF_RUNTIME_GOROUTINE_UNREAD | PROF_RUNTIME_HAS_GOROUTINE;
	if (!goroutine->labels || place->label_form == PROF_LABELS_NONE ||
	    !read_labels(sleeper, &w, goroutine->labels))
		return;
	bpf_loop(PROF_GO_BUCKET_BYTES / 8, mix_list_word, &w, 0);
	if (sleeper)
		bpf_loop(2 * PROF_GO_LABELS, mix_sleepers_string, &w, 0);
	else
		bpf_loop(2 * PROF_GO_LABELS, mix_string, &w, 0);
	goroutine->check = w.mixed ? w.mixed : 1;
}

/* The same of the current thread. Global: verified once. */
__noinline int take_goroutine(struct scratch *s, const struct prof_goroutine_place *place)
{
	if (s && place)
		find_goroutine_of(NULL, s, place);
	return 0;
}

/* Has the reader look at once at labels that are new: their memory is soon used for others. */
static __always_inline void note_new_labels(struct scratch *s)
{
	struct known_labels *known;
	__u64 check = s->goroutine.check, *slot;
	__u32 zero = 0;

	if (!(s->sample.runtime_flags & PROF_RUNTIME_HAS_GOROUTINE) || !check)
		return;
	known = bpf_map_lookup_elem(&known_labels, &zero);
	if (!known)
		return;
	slot = &known->check[check & (KNOWN_LABELS - 1)];
	if (*slot == check)
		return;
	*slot = check;
	if (s->sample.time_ns - known->woken_ns >= NEW_LABELS_NS) {
		known->woken_ns = s->sample.time_ns;
		s->is_urgent = 1;
	}
}

#endif /* PROF_WALK_GOROUTINE_BPF_H */
