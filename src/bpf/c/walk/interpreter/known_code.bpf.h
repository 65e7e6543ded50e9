/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Code objects of an interpreter: what tells one from another that lies at its address later, which
 * of them are known on this CPU, and the descriptions of new ones.
 */
#ifndef PROF_KNOWN_CODE_BPF_H
#define PROF_KNOWN_CODE_BPF_H

#define KNOWN_CODES 1024
/* The description of the code object was sent. */
#define CODE_IS_SENT (1U << 31)

/* A code object that was looked at on this CPU. */
struct known_code {
	__u64 code;  /* 0: none */
	__u32 owner; /* process, and CODE_IS_SENT */
	__u32 check;
	__u32 checks;	  /* how often it was found as it is */
	__u32 checked_ms; /* when it was last looked at */
};

#define RECENT_CODES_BITS 8
/* Bits of a process's number that are those of no address. */
#define RECENT_TGID_SHIFT 42

/* A code object that need not be looked at again for a while: for most frames, one look here is all
 * that is done. */
struct recent_code {
	__u64 key; /* its address and process */
	__u32 check;
	__u32 until_ms;
};

struct known_codes {
	struct recent_code recent[1 << RECENT_CODES_BITS];
	struct known_code code[KNOWN_CODES];
};

/* One per CPU, for all programs: what an interrupt finds half written names no code object. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known_codes);
} known_codes SEC(".maps");

/* Reads memory of the current thread, or of a sleeping one, whose pages are brought in if need be.
 * Which is known at every call: only programs that may sleep have the latter. */
static __always_inline bool read_of(struct task_struct *sleeper, void *to, __u32 bytes,
				    __u64 address)
{
	if (sleeper)
		return !bpf_copy_from_user_task(to, bytes, (void *)address, sleeper, 0);
	return !bpf_probe_read_user(to, bytes, (void *)address);
}

/* Adds a word to a check. */
static __always_inline __u64 mix_word(__u64 mixed, __u64 word)
{
	mixed = (mixed ^ word) * PROF_CHECK_FIRST;
	return mixed ^ mixed >> 29;
}

/* A check as it is sent: never 0. */
static __always_inline __u32 end_check(__u64 mixed)
{
	mixed ^= mixed >> 32;
	return (__u32)mixed ? (__u32)mixed : 1;
}

/* What tells a code object from another one that may lie at its address later; 0 if it is none.
 * What that is, the language decides. */
static __always_inline __u32 read_code_check(struct task_struct *sleeper, struct scratch *s,
					     const struct prof_runtime *runtime, __u32 kind,
					     __u64 code);

/* Copies what the name of a code object takes. Global: verified once, not for each state of the
 * program that sends it. */
int take_code_parts(struct prof_new_code *record, struct scratch *s,
		    const struct prof_runtime *runtime, __u64 code);

/* Notes that the description of a code object is to be sent with this sample. Where there is no
 * room for that, the next sample has it. */
static __always_inline void note_new_code(struct scratch *s, struct known_code *known, __u64 code)
{
	__u32 index = s->new_codes;

	if (!s->sends_codes || index >= PROF_NEW_CODES)
		return;
	s->new_code[index] = code;
	s->new_check[index] = known->check;
	s->new_codes = index + 1;
	known->owner |= CODE_IS_SENT;
}

/* Where a code object is remembered, or would be: each has two places, and the one that was looked
 * at last stays. */
static __always_inline struct known_code *place_of_code(struct known_codes *codes, __u32 tgid,
							__u64 code)
{
	__u64 mixed = (code >> 4) * PROF_CHECK_FIRST;
	__u32 slot = (mixed >> 40) & (KNOWN_CODES - 1);
	struct known_code *known = &codes->code[slot], *other = &codes->code[slot ^ 1];

	if (known->code == code && (known->owner & ~CODE_IS_SENT) == tgid)
		return known;
	if ((other->code == code && (other->owner & ~CODE_IS_SENT) == tgid) ||
	    (__s32)(other->checked_ms - known->checked_ms) < 0)
		return other;
	return known;
}

/* When a code object is to be looked at again. */
static __always_inline __u32 next_check_ms(const struct known_code *known)
{
	return known->checked_ms + (known->checks < PROF_CODE_CHECKS ? 0 : PROF_CODE_CHECK_MS);
}

static __always_inline __u32 sample_ms(const struct scratch *s)
{
	return s->sample.time_ns / 1000000;
}

/* Which code object of which process. */
static __always_inline __u64 recent_key(__u64 code, __u32 tgid)
{
	return code ^ (__u64)tgid << RECENT_TGID_SHIFT;
}

static __always_inline struct recent_code *place_of_recent(struct known_codes *codes, __u64 key)
{
	return &codes->recent[key * PROF_CHECK_FIRST >> (64 - RECENT_CODES_BITS)];
}

/* Notes until when a code object need not be looked at. */
static __always_inline void note_recent(struct known_codes *codes, const struct known_code *known)
{
	__u64 key = recent_key(known->code, known->owner & ~CODE_IS_SENT);
	struct recent_code *recent = place_of_recent(codes, key);

	recent->key = 0;
	recent->check = known->check;
	recent->until_ms = next_check_ms(known);
	recent->key = key;
}

/* Whether a code object of the sample's process is remembered there. */
static __always_inline bool is_code_of(const struct known_code *known, __u64 code,
				       const struct scratch *s)
{
	return known->code == code && (known->owner & ~CODE_IS_SENT) == s->sample.tgid;
}

/* The check of a code object that is not a recent one. Returns marks in the upper half. */
static __always_inline __u64 known_check(struct task_struct *sleeper, struct scratch *s,
					 const struct prof_runtime *runtime, __u32 kind, __u64 code)
{
	__u32 check, zero = 0;
	struct known_codes *codes = bpf_map_lookup_elem(&known_codes, &zero);
	struct known_code *known;

	if (!codes)
		return 0;
	known = place_of_code(codes, s->sample.tgid, code);
	if (is_code_of(known, code, s) && (__s32)(next_check_ms(known) - sample_ms(s)) > 0) {
		note_recent(codes, known);
		return known->check;
	}
	/* What is asked twice is read twice: kept meanwhile, it would take room on the stack, of
	 * which Linux 6.1 has 512 bytes for all that is called. */
	check = read_code_check(sleeper, s, runtime, kind, code);
	if (!check)
		return PROF_RUNTIME_CHECKED;
	if (!is_code_of(known, code, s) || check != known->check) {
		known->code = 0;
		known->owner = s->sample.tgid;
		known->check = check;
		known->checks = 0;
		known->code = code;
	} else if (known->checked_ms != sample_ms(s) && known->checks < PROF_CODE_CHECKS) {
		known->checks++;
	}
	known->checked_ms = sample_ms(s);
	if (!(known->owner & CODE_IS_SENT))
		note_new_code(s, known, code);
	note_recent(codes, known);
	return PROF_RUNTIME_CHECKED | check;
}

/* The same of the current thread. Global, one for each language: verified once, and out of the way
 * of the frames that need it not, whose values would not stay in registers. */
#define CHECKS_CODE(language, kind)                                                              \
	__noinline __u64 check_##language##_code(struct scratch *s,                              \
						 const struct prof_runtime *runtime, __u64 code) \
	{                                                                                        \
		return s && runtime ? known_check(NULL, s, runtime, kind, code) : 0;             \
	}
CHECKS_CODE(python, PROF_RUNTIME_PYTHON)
CHECKS_CODE(ruby, PROF_RUNTIME_RUBY)
CHECKS_CODE(php, PROF_RUNTIME_PHP)
CHECKS_CODE(perl, PROF_RUNTIME_PERL)

static __always_inline __u64 check_code(struct scratch *s, const struct prof_runtime *runtime,
					__u32 kind, __u64 code)
{
	switch (kind) { /* known at every call */
	case PROF_RUNTIME_PYTHON:
		return check_python_code(s, runtime, code);
	case PROF_RUNTIME_RUBY:
		return check_ruby_code(s, runtime, code);
	case PROF_RUNTIME_PHP:
		return check_php_code(s, runtime, code);
	}
	return check_perl_code(s, runtime, code);
}

/* New code objects of samples. Sized before load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} new_codes SEC(".maps");

/* Those of threads that are back: the sampling interrupt has rings of its own. Sized before load.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wait_codes SEC(".maps");

/* Reads `bytes`, or those up to the end of the page, where the next one is not there. */
static __always_inline void read_part(void *part, __u32 bytes, __u64 address)
{
	__u32 left = 4096 - (address & 4095);

	if (!bpf_probe_read_user(part, bytes, (void *)address) || left >= bytes)
		return;
	bpf_probe_read_user(part, left & (bytes - 1), (void *)address);
}

/* What is sent of a sample's new code objects. */
struct new_code_list {
	struct scratch *s;
	const struct prof_runtime *runtime;
};

/* Sends one of them. Returns 1 to stop. */
static __always_inline long send_new_code(void *ring, __u32 index, struct new_code_list *list)
{
	const struct prof_runtime *runtime = list->runtime;
	struct scratch *s = list->s;
	struct prof_new_code *record;
	__u64 code;

	if (index >= PROF_NEW_CODES || index >= s->new_codes)
		return 1;
	record = bpf_ringbuf_reserve(ring, sizeof(*record), 0);
	if (!record)
		return 1;
	code = s->new_code[index];
	record->time_ns = s->sample.time_ns;
	record->code = code;
	record->tgid = s->sample.tgid;
	record->check = s->new_check[index];
#pragma unroll
	for (int i = 0; i < PROF_CODE_PARTS; i++)
		record->part[i] = 0;
	take_code_parts(record, s, runtime, code);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Sends the new code objects of a sample, or of a wait, with what they point to: they may be gone
 * soon. Global, as above. */
#define SENDS_CODES(name, ring)                                                    \
	static long name##_one(__u32 index, struct new_code_list *list)            \
	{                                                                          \
		return send_new_code(&(ring), index, list);                        \
	}                                                                          \
	__noinline int name(struct scratch *s, const struct prof_runtime *runtime) \
	{                                                                          \
		struct new_code_list list = {.s = s, .runtime = runtime};          \
                                                                                   \
		if (s && runtime && s->new_codes)                                  \
			bpf_loop(PROF_NEW_CODES, name##_one, &list, 0);            \
		return 0;                                                          \
	}
SENDS_CODES(send_new_codes, new_codes)
SENDS_CODES(send_wait_codes, wait_codes)

#endif /* PROF_KNOWN_CODE_BPF_H */
