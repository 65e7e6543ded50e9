/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of code that HotSpot has generated, which stand on the native stack: what the machine says
 * of its code tells how each is left. Only states that are certain are left here. In all others the
 * walk stops, and user space goes on with a copy of the stack (src/runtimes/java).
 */
#ifndef PROF_JAVA_BPF_H
#define PROF_JAVA_BPF_H

/* From a byte of the segment map to the start of its blob, in steps; a blob of 500 KiB has as many.
 */
#define JAVA_HOPS 16
/* Bytes of a frame at most. */
#define JAVA_LARGEST_FRAME (1 << 20)
/* Bytes of the bytecodes of a method at most. */
#define JAVA_LARGEST_CODE (1 << 16)
/* Words of an interpreted frame below the frame pointer, in bytes. */
#define JAVA_SENDER_BELOW 8
#define JAVA_LAST_SP_BELOW 16
#define JAVA_METHOD_BELOW 24
/* More than a stub pushes, and less than a frame of another function takes. */
#define JAVA_STUB_BYTES 64

/* Which heap an address is in; PROF_JAVA_HEAPS if it is in none. */
static __always_inline __u32 java_heap(const struct prof_java *java, __u64 address)
{
#pragma unroll
	for (__u32 i = 0; i < PROF_JAVA_HEAPS; i++) {
		if (address - java->heap[i].start < java->heap[i].bytes)
			return i;
	}
	return PROF_JAVA_HEAPS;
}

/* A number in the head of a blob. */
static __always_inline __s64 java_field(struct scratch *s, const struct prof_java_field *field)
{
	__u32 unused = (64 - field->bits) & 63;
	__u64 word = *(__u64 *)(s->java_head + (field->offset & (PROF_JAVA_HEAD_BYTES - 1)));

	return (__s64)(word << unused) >> unused;
}

/* An address in the head of a blob, or one as far from it as is said there. */
static __always_inline __u64 java_place(struct scratch *s, const struct prof_java_field *field,
					__u64 blob)
{
	__u64 value = java_field(s, field);

	return field->bits == 64 ? value : blob + value;
}

/*
 * Finds the code that `pc` is in, by the segment map of its heap: a segment says how far before it
 * its block begins. Returns 0 if there is one. Global: verified once.
 */
__noinline int find_java_code(struct scratch *s, const struct prof_java *java, __u64 pc)
{
	const struct prof_java_heap *heap;
	__u64 segment, block, bytes;
	__u32 index;
	__u8 back = 0;

	if (!s || !java)
		return -1;
	index = java_heap(java, pc);
	if (index >= PROF_JAVA_HEAPS)
		return -1;
	heap = &java->heap[index & (PROF_JAVA_HEAPS - 1)];
	segment = (pc - heap->start) >> (java->segment_shift & 31);
	for (int i = 0; i < JAVA_HOPS; i++) {
		if (bpf_probe_read_user(&back, 1, (void *)(heap->segment_map + segment)))
			return -1;
		if (!back)
			break;
		if (back == 0xff || back > segment)
			return -1;
		segment -= back;
	}
	if (back)
		return -1;
	block = heap->start + (segment << (java->segment_shift & 31));
	bytes = java->head_bytes;
	if (bytes > PROF_JAVA_HEAD_BYTES)
		return -1;
	if (bpf_probe_read_user(s->java_head, bytes, (void *)block)) {
		/* The last blob of a heap may be a small one. */
		bytes = java->least_bytes;
		if (bytes > PROF_JAVA_HEAD_BYTES ||
		    bpf_probe_read_user(s->java_head, bytes, (void *)block))
			return -1;
	}
	s->java_blob = block + java->block_header;
	return 0;
}

/* Which kind of code it is, by the address of its name. */
static __always_inline __u32 java_kind(struct scratch *s, const struct prof_java *java)
{
	__u64 name = *(__u64 *)(s->java_head + (java->name.offset & (PROF_JAVA_HEAD_BYTES - 1)));

#pragma unroll
	for (int i = 0; i < PROF_JAVA_KINDS; i++) {
		if (java->kind_name[i] == name)
			return java->kind[i];
	}
	return java_field(s, &java->frame_size) > 0 ? PROF_JAVA_RUNTIME : PROF_JAVA_STUBS;
}

/* Whether code that ends with these bytes ends with a call. */
static __always_inline bool ends_in_call(const __u8 *b)
{
	/* b[7] is the first byte after it. */
	return b[2] == 0xe8 || (b[5] == 0xff && b[6] >= 0xd0 && b[6] <= 0xd7) ||
	       (b[5] == 0xff && ((b[6] >= 0x10 && b[6] <= 0x13) || b[6] == 0x16 || b[6] == 0x17)) ||
	       (b[4] == 0xff && b[5] >= 0x50 && b[5] <= 0x57) || (b[3] == 0xff && b[4] == 0x54) ||
	       (b[1] == 0xff && (b[2] == 0x15 || (b[2] >= 0x90 && b[2] <= 0x97))) ||
	       (b[0] == 0xff && b[1] == 0x94);
}

/* Whether an address is one that generated code returns to: none that is found by chance. Global:
 * verified once. */
__noinline int is_java_return(const struct prof_java *java, __u64 address)
{
	__u8 before[8];

	if (!java || java_heap(java, address) >= PROF_JAVA_HEAPS)
		return 0;
	if (address == java->call_stub_return ||
	    address - java->interpreter < java->interpreter_bytes)
		return 1;
	if (bpf_probe_read_user(before, sizeof(before), (void *)(address - 7)))
		return 0;
	return ends_in_call(before);
}

/* Whether a frame that is gone is left by these instructions, after vzeroupper and a poll of the
 * safepoint. */
static __always_inline bool is_about_to_return(const __u8 *b)
{
	if (b[0] == 0xc3)
		return true;
	/* cmp [r15 + n], rsp; ja n; ret */
	if (b[0] == 0x49 && b[1] == 0x3b && b[2] == 0xa7)
		return b[7] == 0x0f && b[8] == 0x87 && b[13] == 0xc3;
	if (b[0] == 0x0f && b[1] == 0x87)
		return b[6] == 0xc3;
	/* mov r10, [r15 + n]; test eax, [r10]; ret */
	if (b[0] == 0x4d && b[1] == 0x8b && b[2] == 0x97)
		return b[7] == 0x41 && b[8] == 0x85 && b[9] == 0x02 && b[10] == 0xc3;
	return b[0] == 0x41 && b[1] == 0x85 && b[2] == 0x02 && b[3] == 0xc3;
}

/* Instructions around the one that runs: PROF_JAVA_CODE_BEFORE bytes before it, and some of it and
 * those after it. */
#define JAVA_CODE_BEFORE 8
#define JAVA_CODE_BYTES 32

/* How an interrupted frame of compiled code is left. */
enum java_state {
	JAVA_STATE_WHOLE,   /* as it is described */
	JAVA_STATE_NONE,    /* the return address is at the stack pointer */
	JAVA_STATE_PUSHED,  /* and above it, below the caller's frame pointer */
	JAVA_STATE_FP_LEFT, /* whole, but for the caller's frame pointer, which is still there */
	JAVA_STATE_UNCLEAR,
};

/* Global: verified once. */
__noinline int java_state(struct scratch *s, __u64 pc, bool is_built)
{
	const __u8 *b;

	if (!s)
		return JAVA_STATE_UNCLEAR;
	if (bpf_probe_read_user(s->java_code, JAVA_CODE_BYTES, (void *)(pc - JAVA_CODE_BEFORE)))
		return JAVA_STATE_UNCLEAR;
	b = s->java_code + JAVA_CODE_BEFORE;
	if (!is_built) {
		/* push rbp, or a store that finds the end of the stack in time */
		if (b[0] == 0x55 || (b[0] == 0x89 && b[1] == 0x84 && b[2] == 0x24))
			return JAVA_STATE_NONE;
		if (b[0] == 0x48 && (b[1] == 0x83 || b[1] == 0x81) && b[2] == 0xec) /* sub rsp, n */
			return b[-1] == 0x55 ? JAVA_STATE_PUSHED : JAVA_STATE_NONE;
		if (b[0] == 0x48 && b[1] == 0x89 && b[2] == 0x6c &&
		    b[3] == 0x24) /* mov [rsp+n], rbp */
			return JAVA_STATE_FP_LEFT;
		return JAVA_STATE_UNCLEAR;
	}
	if (b[0] == 0x5d) /* pop rbp */
		return is_about_to_return(b + 1) || (b[1] == 0xc5 && b[2] == 0xf8 && b[3] == 0x77 &&
						     is_about_to_return(b + 4)) ?
			       JAVA_STATE_PUSHED :
			       JAVA_STATE_UNCLEAR;
	if (is_about_to_return(b) ||
	    (b[0] == 0xc5 && b[1] == 0xf8 && b[2] == 0x77 && is_about_to_return(b + 3)))
		return JAVA_STATE_NONE;
	return JAVA_STATE_WHOLE;
}

/* Whether a process has a Java machine. */
static __always_inline bool is_java(const struct prof_managed *managed)
{
	return managed->kind == PROF_MANAGED_JAVA || managed->kind == PROF_MANAGED_JAVA_RESCUED;
}

/* What cannot be told here, user space tells by a copy of the stack. */
static __always_inline long stop_in_java(struct scratch *s)
{
	return stop(s, PROF_OUTCOME_JIT_END);
}

/* Leaves the frame of an interpreted method, which the frame pointer points to. */
static __always_inline long step_interpreted(struct scratch *s, const struct prof_java *java)
{
	__u64 sp = s->regs[REG_SP], bp = s->regs[REG_BP], sender, method, bytecode, last_sp;
	__u64 return_address, caller_bp, code;

	if ((bp & 7) || bp < sp || bp - sp > JAVA_LARGEST_FRAME)
		return stop_in_java(s);
	/* The stack is read from its lowest word on that is needed. */
	if (!read_word(s, bp - java->bytecode_below, &bytecode) ||
	    !read_word(s, bp - JAVA_METHOD_BELOW, &method) ||
	    !read_word(s, bp - JAVA_LAST_SP_BELOW, &last_sp) ||
	    !read_word(s, bp - JAVA_SENDER_BELOW, &sender) || !read_word(s, bp, &caller_bp) ||
	    !read_word(s, bp + 8, &return_address))
		return stop_in_java(s);
	if (sender <= bp || sender - bp > JAVA_LARGEST_FRAME || !method || (method & 7) ||
	    java_heap(java, return_address) >= PROF_JAVA_HEAPS)
		return stop_in_java(s);
	if (!s->is_return) {
		/* A frame that has called another one knows where its own stack ended; then the one
		 * that runs is not built yet, or is gone. */
		if (last_sp || sp > bp - java->bytecode_below - 8 || !s->all_registers)
			return stop_in_java(s);
		if (read_user_word(method + java->const_method_off, &code) &&
		    s->regs[13] - code < JAVA_LARGEST_CODE)
			bytecode = s->regs[13];
	}
	note_managed_frame(s, method, (__u32)bytecode, bytecode >> 32, PROF_JAVA_INTERPRETER);
	s->java_is_loose = 0;
	return step_to(s, sender, return_address, caller_bp, 0, GROWS);
}

/* Leaves a frame that the frame pointer points to, once it is certain that it does. */
static __always_inline long step_java_by_bp(struct scratch *s, const struct prof_java *java)
{
	__u64 bp = s->regs[REG_BP], caller_bp, return_address;

	if (!read_word(s, bp, &caller_bp) || !read_word(s, bp + 8, &return_address) ||
	    !is_java_return(java, return_address))
		return stop_in_java(s);
	return step_to(s, bp + 16, return_address, caller_bp, 0, GROWS);
}

/* Whether the call that returns to an address is one of the code whose head is in the scratch: then
 * the address is that of its frame, and of none further up. Global: verified once. */
__noinline int is_called_from(struct scratch *s, const struct prof_java *java, __u64 address)
{
	__u64 target;
	__u8 *b;

	if (!s || !java || java_heap(java, address) >= PROF_JAVA_HEAPS ||
	    bpf_probe_read_user(s->java_code, 16, (void *)(address - 13)))
		return 0;
	b = s->java_code;
	if (b[8] == 0xe8) /* call n */
		target = address + *(__s32 *)(b + 9);
	else if (b[0] == 0x49 && (b[1] & 0xf8) == 0xb8 && b[10] == 0x41 && b[11] == 0xff)
		target = *(__u64 *)(b + 2); /* mov r, n; call r */
	else
		return 0;
	return target - s->java_blob < (__u64)java_field(s, &java->size);
}

/* Leaves code that has a frame by the frame pointer, or none. */
static __always_inline long step_java_stub(struct scratch *s, const struct prof_java *java,
					   bool is_loose)
{
	__u64 sp = s->regs[REG_SP], bp = s->regs[REG_BP], top, caller_bp, return_address;

	if (!s->is_return) {
		if (read_word(s, sp, &top) && is_java_return(java, top))
			return step_to(s, sp + 8, top, bp, 0, GROWS);
		/* Of a stub that has not set the frame pointer, that is another function's. */
		if (bp - sp > JAVA_STUB_BYTES || !read_word(s, bp + 8, &return_address) ||
		    !is_called_from(s, java, return_address))
			return stop_in_java(s);
		return step_java_by_bp(s, java);
	}
	if ((bp & 7) || bp < sp || bp - sp > JAVA_LARGEST_FRAME || !read_word(s, bp, &caller_bp) ||
	    !read_word(s, bp + 8, &return_address))
		return stop_in_java(s);
	if (s->regs[REG_IP] == java->call_stub_return)
		return step_to(s, bp + 16, return_address, caller_bp, 0, GROWS);
	/* Entry barriers of methods keep a word there. */
	if (return_address == ~0ULL && read_word(s, bp + 16, &return_address) &&
	    is_called_from(s, java, return_address))
		return step_to(s, bp + 24, return_address, caller_bp, 0, GROWS);
	if (is_loose && !is_called_from(s, java, return_address))
		return stop_in_java(s);
	return step_java_by_bp(s, java);
}

/* Leaves a frame whose size is known. */
static __always_inline long step_java_frame(struct scratch *s, const struct prof_java *java,
					    __u64 frame_bytes, bool is_built, bool is_loose)
{
	__u64 sp = s->regs[REG_SP], bp = s->regs[REG_BP], return_address;
	__u64 up = frame_bytes - 8;
	int state = JAVA_STATE_WHOLE;

	if (frame_bytes < 16 || frame_bytes > JAVA_LARGEST_FRAME)
		return stop_in_java(s);
	if (!s->is_return)
		state = java_state(s, s->regs[REG_IP], is_built);
	if (state == JAVA_STATE_UNCLEAR)
		return stop_in_java(s);
	if (state == JAVA_STATE_NONE)
		up = 0;
	if (state == JAVA_STATE_PUSHED)
		up = 8;
	/* Read upwards: a window begins with the word that is asked for. */
	if (state == JAVA_STATE_WHOLE || state == JAVA_STATE_PUSHED) {
		if (!read_word(s, sp + up - 8, &bp))
			return stop_in_java(s);
	}
	if (!read_word(s, sp + up, &return_address))
		return stop_in_java(s);
	if (is_loose ? !is_java_return(java, return_address) :
		       java_heap(java, return_address) >= PROF_JAVA_HEAPS) {
		/* What enters virtual threads has taken its part of the stack down by then. */
		if (s->is_return && s->regs[REG_BP] - sp < frame_bytes)
			return step_java_by_bp(s, java);
		return stop_in_java(s);
	}
	return step_to(s, sp + up + 8, return_address, bp, 0, GROWS);
}

/* The step from a frame of a Java machine's code to its caller. Global: verified once. */
__noinline long step_java(struct scratch *s, const struct prof_java *java)
{
	__u64 pc, start, frame_bytes, original, blob, top;
	__s64 complete;
	__u32 kind, number = 0;
	bool is_loose;

	if (!s || !java)
		return 1;
	pc = s->regs[REG_IP];
	/* What native code, or a stub, was called by may be in any state. */
	is_loose = !s->is_return || s->java_is_loose || s->java_at + 1 != s->walked;
	s->java_at = s->walked;
	if (pc - java->interpreter < java->interpreter_bytes)
		return step_interpreted(s, java);
	if (find_java_code(s, java, pc))
		return stop_in_java(s);
	blob = s->java_blob;
	kind = java_kind(s, java);
	start = java_place(s, &java->code_begin, blob);
	complete = java_field(s, &java->frame_complete);
	frame_bytes = 8 * java_field(s, &java->frame_size);
	if (kind == PROF_JAVA_COMPILED || kind == PROF_JAVA_NATIVE) {
		number = java_field(s, &java->compile_id);
		/* The return address of a frame that will be deoptimised is kept in it. */
		if (s->is_return && (pc == java_place(s, &java->deopt[0], blob) ||
				     pc == java_place(s, &java->deopt[1], blob))) {
			if (!read_word(s, s->regs[REG_SP] + java_field(s, &java->original_pc),
				       &original))
				return stop_in_java(s);
			*current_frame(s) = (original & PROF_FRAME_ADDRESS) | PROF_FRAME_RETURN;
		}
	}
	note_managed_frame(s, blob, number, 0, kind);
	s->java_is_loose = kind == PROF_JAVA_STUBS;
	if (kind == PROF_JAVA_STUBS)
		return step_java_stub(s, java, is_loose);
	/* Deoptimisation aligns the stack pointer for its calls; the frame pointer then tells where
	 * the frame is. */
	if (kind == PROF_JAVA_RUNTIME && is_loose &&
	    s->regs[REG_BP] - s->regs[REG_SP] == frame_bytes - 8)
		return step_java_by_bp(s, java);
	if (kind == PROF_JAVA_COMPILED || kind == PROF_JAVA_NATIVE || kind == PROF_JAVA_RUNTIME)
		return step_java_frame(s, java, frame_bytes, (__s64)(pc - start) >= complete,
				       is_loose);
	/* The others only jump. */
	if (s->is_return || !read_word(s, s->regs[REG_SP], &top) || !is_java_return(java, top))
		return stop_in_java(s);
	return step_to(s, s->regs[REG_SP] + 8, top, s->regs[REG_BP], 0, GROWS);
}

#endif /* PROF_JAVA_BPF_H */
