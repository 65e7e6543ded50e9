/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walk of a user stack by unwind rows, one frame per step.
 */
#ifndef PROF_UNWIND_BPF_H
#define PROF_UNWIND_BPF_H

#include "walk/find.bpf.h"
#include "walk/stack_words.bpf.h"

/* Stops the walk. */
static __always_inline long stop(struct scratch *s, enum prof_outcome outcome)
{
	s->outcome = outcome;
	return 1;
}

/* Why a walk by frame pointers ends without proof. */
static __always_inline enum prof_outcome end_of_frame_pointers(struct scratch *s)
{
	if (s->image.state == PROF_IMAGE_GENERATED)
		return PROF_OUTCOME_JIT_END;
	if (s->image.state == PROF_IMAGE_UNTOLD)
		return PROF_OUTCOME_UNKNOWN_MAPPING;
	if (s->image.state == PROF_IMAGE_UNREADABLE)
		return PROF_OUTCOME_FILE_UNREADABLE;
	return PROF_OUTCOME_NO_UNWIND_INFO;
}

/* Goes on in the frame that a signal interrupted: all its registers are known. */
static __always_inline long step_signal(struct scratch *s)
{
	if (!take_signal_registers(s))
		return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	s->is_return = 0;
	s->by_fp = 0;
	s->all_registers = 1;
	s->has_kept = 1;
	s->piece_low = s->regs[REG_SP];
	return 0;
}

/* Notes whether regs[REG_SP] is the stack pointer or only a lower bound of it. */
static __always_inline void hide_sp(struct scratch *s, bool is_hidden)
{
	if (!FRAME_RECORD_TELLS_SP)
		s->is_sp_hidden = is_hidden;
}

/*
 * Whether a caller whose stack lies below the current frame is on another stack (split stacks,
 * stacks borrowed for a call): then it is below everything that was seen of this one.
 */
static __always_inline bool is_other_stack(struct scratch *s, __u64 cfa)
{
	if (cfa + PROF_RED_ZONE_BYTES >= s->piece_low || s->jumps_down >= PROF_MAX_JUMPS_DOWN)
		return false;
	s->piece_low = cfa;
	s->jumps_down++;
	return true;
}

/* Both ABIs align the stack pointer to 16 at every call. */
#define CALL_REST 15

/*
 * Whether a return address of zero marks a root: where a call can have pushed it, where the frame
 * pointer is zero too (as both ABIs want it of the outermost frame), and not below the function
 * that was interrupted. Elsewhere it is some other word, found by a rule that is wrong.
 */
static __always_inline bool is_marked_root(struct scratch *s, __u64 cfa, __u64 bp)
{
	return s->is_return && !bp && !(cfa & CALL_REST);
}

/* How far up the caller's stack pointer has to be. */
enum growth {
	GROWS,	       /* above the callee's: the call has pushed its return address. In an
			* interrupted leaf, which may have popped that, equal is enough */
	MAY_STAY,      /* or equal: that was popped into a register (vfork) */
	MAY_JUMP_DOWN, /* or on another stack, wherever that is; a root is no proof there */
};

/* Makes the caller the current frame. */
static __always_inline long step_to(struct scratch *s, __u64 cfa, __u64 return_address, __u64 bp,
				    __u64 by_fp, enum growth growth)
{
	__u64 sp = s->regs[REG_SP];

	return_address = plain_return_address(return_address);
	if (return_address && return_address == s->trampoline) {
		return_address = replaced_return_address(s->return_instances, RETURN_SLOT(cfa));
		if (!return_address)
			return stop(s, PROF_OUTCOME_BAD_UNWIND_INFO);
	}
	if (cfa <= sp && !(cfa == sp && (growth == MAY_STAY || !s->is_return)) &&
	    !(growth == MAY_JUMP_DOWN && return_address && is_other_stack(s, cfa)))
		return stop(s, by_fp ? end_of_frame_pointers(s) : PROF_OUTCOME_BAD_UNWIND_INFO);
	if (!return_address)
		return stop(s, by_fp			  ? end_of_frame_pointers(s) :
			       is_marked_root(s, cfa, bp) ? PROF_OUTCOME_COMPLETE :
							    PROF_OUTCOME_BAD_UNWIND_INFO);
	/* What lies between may be another stack, still to come. */
	if (growth == MAY_JUMP_DOWN && cfa > sp + PROF_STACK_PIECE_BYTES)
		s->piece_low = cfa;
	hide_sp(s, false);
	s->regs[REG_SP] = cfa;
	s->regs[REG_BP] = bp;
	s->regs[REG_IP] = return_address;
	s->is_return = 1;
	s->by_fp = by_fp;
	s->all_registers = 0;
	return 0;
}

/* Leaves a function whose next instructions prove where its return address is; 0 if they do not. */
static __always_inline bool step_by_code(struct scratch *s, long *result)
{
	__u64 sp = s->regs[REG_SP], bp = s->regs[REG_BP], top, return_address;
	long distance;

	if (!read_word(s, sp, &top))
		return false;
	distance = leaf_return_distance(s, top);
	if (distance < 0)
		return false;
	return_address = top;
	if (distance) {
		bp = top;
		if (!read_word(s, sp + 8, &return_address))
			return false;
	}
	*result = step_to(s, sp + distance + 8, return_address, bp, PROF_FRAME_BY_FP, GROWS);
	return true;
}

/* Code that has pushed nothing: the return address is at the stack pointer. */
static __always_inline long step_leaf(struct scratch *s)
{
	__u64 sp = s->regs[REG_SP], return_address;

	if (!read_word(s, sp, &return_address))
		return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	return step_to(s, sp + 8, return_address, s->regs[REG_BP], 0, GROWS);
}

/* Around the system call that starts a thread: zero is what only the new one gets from it. */
static __always_inline long step_new_thread(struct scratch *s)
{
	if (!s->all_registers)
		return stop(s, PROF_OUTCOME_UNSUPPORTED_RULE);
	if (!s->regs[0])
		return stop(s, PROF_OUTCOME_COMPLETE);
	return step_leaf(s);
}

/* Goes on by the frame pointer. */
__noinline long step_frame_pointer(struct scratch *s, bool zero_is_root)
{
	__u64 bp, caller_bp, return_address;
	long result;

	if (!s)
		return 1;
	bp = s->regs[REG_BP];
	if (!follow_frame_pointers)
		return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	if (!s->is_return && step_by_code(s, &result))
		return result;
	if (zero_is_root && !bp && s->is_return)
		return stop(s, PROF_OUTCOME_COMPLETE);
	if (bp & 7)
		return stop(s, end_of_frame_pointers(s));
	if (bp < s->regs[REG_SP]) {
		/* Go switches between stacks that may lie anywhere, a few times. */
		if (!zero_is_root || s->jumps_down >= PROF_MAX_JUMPS_DOWN)
			return stop(s, end_of_frame_pointers(s));
		s->jumps_down++;
		s->regs[REG_SP] = 0;
	}
	if (!read_word(s, bp, &caller_bp) || !read_word(s, bp + 8, &return_address))
		return stop(s, end_of_frame_pointers(s));
	if (step_to(s, bp + 16, return_address, caller_bp, PROF_FRAME_BY_FP, GROWS))
		return 1;
	hide_sp(s, true);
	return 0;
}

/* libgcc is about to go on in the frame that catches an exception, and has overwritten what it has
 * saved of its caller. Its description of that frame is complete. */
static __always_inline long step_landing(struct scratch *s, const struct prof_rule *rule)
{
	__u64 context = s->regs[REG_SP] + (__s64)rule->cfa_off, cfa, landing_pad, saved_bp, bp;

	if (!read_word(s, context - PROF_SAVED_RBP_BYTES, &saved_bp) ||
	    !read_word(s, context, &cfa) || !read_word(s, context + 8, &landing_pad) ||
	    !read_word(s, saved_bp, &bp))
		return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	if (step_to(s, cfa, landing_pad, bp, 0, GROWS))
		return 1;
	s->is_return = 0;
	return 0;
}

/* Stores the current address. */
static __always_inline void keep_frame(struct scratch *s)
{
	__u32 n = s->walked;

	s->frames[(s->kernel_count + frame_slot(n)) & (2 * PROF_MAX_USER_FRAMES - 1)] =
		(s->regs[REG_IP] & PROF_FRAME_ADDRESS) | (s->is_return << 63) | s->by_fp;
	s->walked = n + 1;
}

/* Replaces a frame pointer that was overwritten: odd, so that nothing takes it for one, and
 * no address that could be read or be 2 GiB from one. */
#define LOST_BP 0x8000000100000001ULL

/* The step that a rule of the kinds REG, DEREF, DEREF_INDEX and PLT describes. Long, but one piece:
 * the verifier checks it once, and its parts hand each other half a frame. */
__noinline long step_rule(struct scratch *s, const struct prof_rule *rule)
{
	__u64 base, bp, cfa, return_address, by_fp = 0;
	__u32 kind;

	if (!s || !rule)
		return 1;
	kind = rule->kind;
	base = s->regs[rule->cfa_reg & REG_MASK];
	bp = s->regs[REG_BP];
	if (!s->all_registers && !(rule->is_base_kept && s->has_kept) && rule->cfa_reg != REG_SP &&
	    rule->cfa_reg != REG_BP)
		return stop(s, PROF_OUTCOME_UNSUPPORTED_RULE);
	cfa = base + (__s64)rule->cfa_off;
	if (!FRAME_RECORD_TELLS_SP && s->is_sp_hidden && rule->cfa_reg == REG_SP) {
		/* The frame pointer points to the frame record, and the rule says where that is. */
		if (kind != PROF_RULE_REG || rule->ra_kind != PROF_RA_NEXT_TO_RBP ||
		    rule->rbp_kind != PROF_RBP_AT_CFA || bp < s->regs[REG_SP] || (bp & 7))
			return stop(s, end_of_frame_pointers(s));
		cfa = bp - (__s64)rule->rbp_off;
		by_fp = PROF_FRAME_BY_FP;
	}
	if (kind == PROF_RULE_PLT) {
		if ((s->regs[REG_IP] & 15) >= (__u64)(__s64)rule->aux)
			cfa += 8;
	} else if (kind != PROF_RULE_REG) {
		if (kind == PROF_RULE_DEREF_INDEX) {
			if (!s->all_registers)
				return stop(s, PROF_OUTCOME_UNSUPPORTED_RULE);
			cfa += 8 * s->regs[rule->aux_reg & REG_MASK];
		}
		if (!read_word(s, cfa, &cfa))
			return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
		cfa += (__s64)rule->aux;
	}

	if (rule->rbp_kind == PROF_RBP_LOST) {
		bp = LOST_BP;
	} else if (rule->rbp_kind != PROF_RBP_SAME) {
		__u64 from = rule->rbp_kind == PROF_RBP_AT_CFA ? cfa : bp;

		if (!read_word(s, from + (__s64)rule->rbp_off, &bp))
			return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	}

	if (rule->ra_kind == PROF_RA_IN_REG) {
		if (!s->all_registers)
			return stop(s, lost_return_address(rule->aux_reg));
		return_address = s->regs[rule->aux_reg & REG_MASK];
	} else {
		__s64 offset = rule->ra_kind == PROF_RA_OFFSET ? (__s64)rule->aux : -8;

		if (!FRAME_RECORD_TELLS_SP && rule->ra_kind == PROF_RA_NEXT_TO_RBP)
			offset = (__s64)rule->rbp_off + 8;
		if (!read_word(s, cfa + offset, &return_address))
			return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	}
	/* From the stack pointer a caller on another stack cannot be found. */
	if (step_to(s, cfa, return_address, bp, by_fp,
		    rule->ra_kind == PROF_RA_IN_REG		     ? MAY_STAY :
		    kind == PROF_RULE_REG && rule->cfa_reg == REG_SP ? GROWS :
								       MAY_JUMP_DOWN))
		return 1;
	if (rule->ra_kind == PROF_RA_JUMP)
		s->is_return = 0;
	if (rule->ra_kind == PROF_RA_LAST) {
		keep_frame(s);
		return stop(s, PROF_OUTCOME_COMPLETE);
	}
	return 0;
}

/* The first four bytes of a rule by which most frames are left. */
#define PLAIN_RULE(rbp_kind) \
	(PROF_RULE_REG | (rbp_kind) << 8 | PROF_RA_AT_CFA << 16 | (__u32)REG_SP << 24)

/* As step_rule, for a rule whose first four bytes are `shape`, one of PLAIN_RULE. */
static __always_inline long step_plain(struct scratch *s, const struct prof_rule *rule, __u32 shape)
{
	__u64 cfa = s->regs[REG_SP] + (__s64)rule->cfa_off, bp = s->regs[REG_BP], return_address;

	if (shape != PLAIN_RULE(PROF_RBP_SAME) && !read_word(s, cfa + (__s64)rule->rbp_off, &bp))
		return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	if (!read_word(s, cfa - 8, &return_address))
		return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	return step_to(s, cfa, return_address, bp, 0, GROWS);
}

#include "walk/go.bpf.h"
#include "walk/managed.bpf.h"
#include "walk/java.bpf.h"

/* The steps that few frames take. */
__noinline long step_rarely(struct scratch *s, const struct prof_rule *rule)
{
	__u32 kind;

	if (!s || !rule)
		return 1;
	kind = rule->kind;
	if (kind == PROF_RULE_STOP)
		return stop(s, PROF_OUTCOME_COMPLETE);
	if (kind == PROF_RULE_SIGNAL) {
		if (!FRAME_RECORD_TELLS_SP && s->is_sp_hidden)
			return stop(s, end_of_frame_pointers(s));
		return step_signal(s);
	}
	if (kind == PROF_RULE_USER)
		return stop(s, PROF_OUTCOME_UNSUPPORTED_RULE);
	/* Not the module's code, where frame pointers would be followed. */
	if (kind == PROF_RULE_NONE)
		return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	if (kind == PROF_RULE_NEW_THREAD)
		return step_new_thread(s);
	if (kind == PROF_RULE_LANDING)
		return step_landing(s, rule);
	if (kind == PROF_RULE_GOROUTINE)
		return step_goroutine(s, rule);
	return step_go_call(s, rule);
}

/* A step in code that has no table. */
static __always_inline long step_without_rows(struct walk *w)
{
	struct scratch *s = w->s;

	if (s->image.state == PROF_IMAGE_NOT_LOADED)
		return stop(s, PROF_OUTCOME_TABLE_NOT_LOADED);
	if (s->image.state == PROF_IMAGE_VSYSCALL)
		return step_leaf(s);
	/* Java machines have another use for the frame pointer. */
	if (reads_managed && w->process && is_java(&w->process->managed) &&
	    (s->image.state == PROF_IMAGE_GENERATED || s->image.state == PROF_IMAGE_UNTOLD)) {
		if (w->process->managed.kind == PROF_MANAGED_JAVA)
			return step_java(s, &w->process->managed.java) & 1;
		return stop(s, PROF_OUTCOME_JIT_END);
	}
	return step_frame_pointer(s, false) & 1;
}

/* One frame: stores the current address and moves on to its caller. Returns 1 to stop: the verifier
 * has to see that it is 0 or 1. */
static __always_inline long take_step(struct walk *w, enum place place)
{
	struct scratch *s = w->s;
	__u64 address = s->regs[REG_IP] - s->is_return, va;
	__u32 page, slice, found, kind;
	const __u32 *rows;
	const struct prof_rule *rule;

	if (address - s->map_start >= s->map_bytes && !enter_mapping(w, address, place)) {
		/* A frame pointer that leads nowhere is the end of frame pointers. */
		if (s->by_fp)
			return stop(s, end_of_frame_pointers(s));
		keep_frame(s);
		return stop(s, PROF_OUTCOME_UNKNOWN_MAPPING);
	}
	keep_frame(s);
	if (reads_managed && w->process)
		note_managed(w, address);
	if (s->image.state != PROF_IMAGE_READY)
		return step_without_rows(w);

	va = address - s->map_bias;
	page = (__u32)(va >> PROF_PAGE_SHIFT) - s->image.first_vpage;
	if (page >= s->image.page_count)
		return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	if (s->image.first_page >> PROF_FIRST_PAGE_BITS) {
		found = find_more_rule(s->image.first_page, page, va);
		if (found == PROF_NO_ROWS)
			return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	} else {
		slice = (va >> PROF_SLICE_SHIFT) & (PROF_PAGE_SLICES - 1);
		rows = &w->pages[(s->image.first_page + page) & pages_mask].row[slice];
		if (rows[0] == PROF_NO_ROWS)
			return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
		found = find_rule(w->rows, rows_mask, rows[0], rows[1], va & 0xffff);
	}
	rule = &w->rules[found & (PROF_MAX_RULES - 1)];

	if (FRAME_RECORD_TELLS_SP) {
		__u32 shape = *(const __u32 *)rule;

		if ((shape & ~(PROF_RBP_AT_CFA << 8)) == PLAIN_RULE(PROF_RBP_SAME))
			return step_plain(s, rule, shape);
	}
	kind = rule->kind;
	if (kind == PROF_RULE_REG || kind == PROF_RULE_DEREF || kind == PROF_RULE_PLT ||
	    kind == PROF_RULE_DEREF_INDEX)
		return step_rule(s, rule) & 1;
	if (kind == PROF_RULE_FP || kind == PROF_RULE_FP_ROOT)
		return step_frame_pointer(s, kind == PROF_RULE_FP_ROOT) & 1;
	return step_rarely(s, rule) & 1;
}

static long walk_step(__u32 index, struct walk *w)
{
	return take_step(w, PLACE_FREE);
}

/* The same under the scheduler's locks, where the kernel's list of mappings is not asked. */
static long walk_step_locked(__u32 index, struct walk *w)
{
	return take_step(w, PLACE_SWITCH);
}

/* Walks the user stack from the registers in the scratch; appends to its frames. */
static __always_inline void walk_user_stack(struct scratch *s, struct prof_process *process,
					    enum place place)
{
	__u32 zero = 0;
	struct walk w = {
		.s = s,
		.process = process,
		.rows = bpf_map_lookup_elem(&rows, &zero),
		.pages = bpf_map_lookup_elem(&pages, &zero),
		.rules = bpf_map_lookup_elem(&rules, &zero),
		.images = bpf_map_lookup_elem(&images, &zero),
	};

	if (!w.rows || !w.pages || !w.rules || !w.images)
		return;
	s->map_bytes = 0;
	s->window_words = 0;
	s->by_fp = 0;
	s->jumps_down = 0;
	s->java_is_loose = 0;
	s->java_at = 0;
	s->piece_low = s->regs[REG_SP];
	s->has_asked = 0;
	hide_sp(s, false);
	s->outcome = PROF_OUTCOME_TOO_DEEP;
	if (place == PLACE_SWITCH)
		bpf_loop(max_walked_frames, walk_step_locked, &w, 0);
	else
		bpf_loop(max_walked_frames, walk_step, &w, 0);
}

#endif /* PROF_UNWIND_BPF_H */
