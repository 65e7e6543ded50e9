/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the thread's own stack, on which Go's runtime works, to that of the goroutine it works for.
 * Only the runtime's data say where that is. What is followed here is what the runtime's own
 * traceback follows (`resolveInternal` of runtime/traceback.go, unwindJumpStack).
 */
#ifndef PROF_GOROUTINE_BPF_H
#define PROF_GOROUTINE_BPF_H

/* A runtime.gobuf: where a goroutine goes on. */
struct goroutine_buffer {
	__u64 sp;
	__u64 pc;
};

static __always_inline bool read_user_word(__u64 address, __u64 *value)
{
	return !bpf_probe_read_user(value, sizeof(*value), (void *)address);
}

/* Finds the goroutine that the thread's m runs; false if it runs none. Global: verified once. */
__noinline bool find_goroutine(const struct prof_rule *rule, __u64 bias, __u64 *goroutine)
{
	__u64 thread = user_thread_pointer(bpf_get_current_task_btf()), offset, g, m, runs, its_m;
	__u64 m_of_g;

	if (!rule || !goroutine || !thread)
		return false;
	m_of_g = 8 * (__u64)rule->cfa_reg;
	offset = (__s64)rule->cfa_off;
	if (rule->rbp_kind == PROF_RBP_AT_CFA && !read_user_word(bias + offset, &offset))
		return false;
	if (!read_user_word(thread + offset, &g) || !g || !read_user_word(g + m_of_g, &m) || !m ||
	    !read_user_word(m + (__s64)rule->rbp_off, &runs) || !runs ||
	    !read_user_word(runs + m_of_g, &its_m) || its_m != m)
		return false;
	*goroutine = runs;
	return true;
}

/* Makes a goroutine's frame the current one. */
static __always_inline long enter_goroutine(struct scratch *s, __u64 sp, __u64 return_address,
					    __u64 bp)
{
	return_address = plain_return_address(return_address);
	if (!return_address)
		return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	s->piece_low = sp;
	s->regs[REG_SP] = sp;
	s->regs[REG_BP] = bp;
	s->regs[REG_IP] = return_address;
	s->is_return = 1;
	s->by_fp = 0;
	s->all_registers = 0;
	return 0;
}

/* Goes on where the goroutine called C. */
static __always_inline long step_go_call(struct scratch *s, const struct prof_rule *rule)
{
	__u64 sp = s->regs[REG_SP], g, depth, place, return_address;

	if (!read_word(s, sp + (__s64)rule->aux, &g) ||
	    !read_word(s, sp + (__s64)rule->cfa_off, &depth))
		return stop(s, PROF_OUTCOME_STACK_UNREADABLE);
	place = depth;
	if (g) {
		if (!read_user_word(g + (__s64)rule->rbp_off, &place))
			return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
		place -= depth;
	}
	if (!read_word(s, place, &return_address))
		return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	return enter_goroutine(s, place + 8, return_address, s->regs[REG_BP]);
}

/* Goes on where the goroutine called the runtime. */
static __always_inline long step_goroutine(struct scratch *s, const struct prof_rule *rule)
{
	__u64 goroutine = 0, bp = s->regs[REG_BP];
	struct goroutine_buffer buffer;

	if (!find_goroutine(rule, s->map_bias, &goroutine))
		return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	goroutine += (__s64)rule->aux;
	if (bpf_probe_read_user(&buffer, sizeof(buffer), (void *)goroutine) || !buffer.sp)
		return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	if (rule->ra_kind == PROF_RA_OFFSET) {
		if (!read_user_word(goroutine + 8 * (__u64)rule->aux_reg, &bp))
			return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
	} else {
		if (!read_user_word(buffer.sp, &buffer.pc))
			return stop(s, PROF_OUTCOME_NO_UNWIND_INFO);
		buffer.sp += 8;
	}
	return enter_goroutine(s, buffer.sp, buffer.pc, bp);
}

#endif /* PROF_GOROUTINE_BPF_H */
