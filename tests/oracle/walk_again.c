// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Walks every sample of a file of stack copies a second time, by libdw of elfutils, and compares.
 *
 *   walk_again [-c CLASSES] [-v] FILE
 *
 * Prints one line of `name=count` pairs, then the most frequent differences (CLASSES of them; with
 * -v an example of each, frame by frame). A sample is one of:
 *
 *   identical   both walks found the same frames and ended at the same one; of a deep stack, the
 *               same frames at both ends
 *   short       the same frames as far as libdw came, which then needed memory that was not copied
 *   deep        the same frames as far as prof keeps those next to the leaf, and no root
 *   blind       the last frame that both found is in code without entries, where libdw guesses,
 *               or in a function in which Go's runtime changes or ends a stack, or returns from a
 *               signal: its entry knows nothing of that
 *   differing   anything else
 *   uncopied    there is no copy (the ring was full), or the mappings are not known
 *
 * build: cc -O2 -Wall -Wextra -Werror -o $OUT walk_again.c address_space.c copies.c -ldw -lelf
 */
#include "address_space.h"
#include "copies.h"
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FRAMES 20000
#define MAX_CLASSES 4096
#define LABEL_BYTES 256

/* The walk that libdw is doing. */
static struct {
	const struct sample_record *sample;
	struct address_space *space;
	uint64_t frames[MAX_FRAMES];
	size_t count;
	bool left_copy; /* the step after the last frame wanted memory that was not copied */
} walk;

/* Samples that differ alike. */
struct class
{
	char key[4 * LABEL_BYTES];
	uint64_t count;
	struct sample_record example;
	size_t common;
};

static struct class classes[MAX_CLASSES];
static size_t class_count;
static uint64_t samples, complete, rescued, identical, differing, cut_short, deep, blind, uncopied;

/* ---- What libdw asks for ------------------------------------------------------------------------
 */

static bool get_thread(Dwfl *dwfl, pid_t tid, void *argument, void **thread_argument)
{
	(void)dwfl, (void)tid;
	*thread_argument = argument;
	return true;
}

static pid_t next_thread(Dwfl *dwfl, void *argument, void **thread_argument)
{
	(void)dwfl, (void)argument, (void)thread_argument;
	return 0;
}

/* Whether the copy has the block that an address lies in. */
static bool has_block(const struct sample_record *sample, uint64_t address)
{
	uint64_t block = address / 4096 - sample->stack_start / 4096;

	return block >= 256 || !(sample->missing_blocks[block / 64] >> (block % 64) & 1);
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *argument)
{
	const struct sample_record *sample = walk.sample;
	uint64_t offset = address - sample->stack_start, word;

	(void)dwfl, (void)argument;
	if (offset < sample->stack_bytes && sample->stack_bytes - offset >= 8 &&
	    has_block(sample, address) && has_block(sample, address + 7)) {
		memcpy(&word, sample->stack + offset, 8);
	} else if (!address_space_read(walk.space, address, &word)) {
		walk.left_copy = true;
		return false;
	}
	*result = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *argument)
{
	Dwarf_Word registers[REGISTERS];

	(void)argument;
	for (int i = 0; i < REGISTERS; i++)
		registers[i] = walk.sample->registers[i];
	/* In a system call the address is behind the instruction, perhaps behind the function. */
	registers[RIP] -= walk.sample->is_return;
	return dwfl_thread_state_registers(thread, 0, REGISTERS, registers);
}

static const Dwfl_Thread_Callbacks callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_memory,
	.set_initial_registers = set_registers,
};

static int take_frame(Dwfl_Frame *frame, void *argument)
{
	Dwarf_Addr pc;

	(void)argument;
	if (walk.count == MAX_FRAMES || !dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	walk.left_copy = false;
	if (walk.count == 0)
		pc += walk.sample->is_return;
	walk.frames[walk.count++] = pc;
	return DWARF_CB_OK;
}

/* ---- Comparing ----------------------------------------------------------------------------------
 */

static uint64_t our_frame(const struct sample_record *sample, size_t index)
{
	return word_at(sample->frames, index) & ADDRESS_BITS;
}

/* Walks; returns libdw's error, or NULL when it reached the root. */
static const char *walk_again(struct address_space *space, const struct sample_record *sample)
{
	int status;

	walk.sample = sample;
	walk.space = space;
	walk.count = 0;
	walk.left_copy = false;
	dwfl_errno();
	status = dwfl_getthread_frames(address_space_dwfl(space), sample->tid, take_frame, NULL);
	return status < 0 ? dwfl_errmsg(-1) : status ? "stopped" : NULL;
}

static size_t common_frames(const struct sample_record *sample)
{
	size_t common = 0;

	while (common < sample->frame_count && common < walk.count &&
	       our_frame(sample, common) == walk.frames[common])
		common++;
	return common;
}

/* Whether libdw found the frames that prof keeps of both ends of a deep stack. */
static bool ends_agree(const struct sample_record *sample)
{
	size_t count = sample->frame_count, skipped;

	if (sample->outcome != MIDDLE_LEFT_OUT || count <= LEAF_FRAMES || walk.count <= count)
		return false;
	skipped = walk.count - count;
	for (size_t i = 0; i < count; i++)
		if (our_frame(sample, i) != walk.frames[i < LEAF_FRAMES ? i : i + skipped])
			return false;
	return true;
}

/* Counts a class, with this sample as its example if it is the first. */
static void add_to_class(const char *key, const struct sample_record *sample, size_t common)
{
	struct class *class = classes;

	while (class < classes + class_count && strcmp(class->key, key))
		class ++;
	if (class == classes + MAX_CLASSES)
		return;
	if (class == classes + class_count) {
		snprintf(class->key, sizeof(class->key), "%s", key);
		class->example = *sample;
		class->common = common;
		class_count++;
	}
	class->count++;
}

/* Counts a stack without a proven root under where it ends. */
static void add_incomplete(struct address_space *space, const struct sample_record *sample)
{
	char key[sizeof(classes[0].key)], last[LABEL_BYTES] = "(none)";

	walk.space = space;
	if (sample->frame_count > 0 && space)
		address_space_label(space, our_frame(sample, sample->frame_count - 1), false, last,
				    sizeof(last));
	snprintf(key, sizeof(key), "incomplete%s: outcome %u at %s",
		 sample->is_rescued ? " (rescued)" : "", sample->outcome, last);
	add_to_class(key, sample, sample->frame_count);
}

/* Whether Go's runtime changes stacks, or ends one, in a function. */
static bool leaves_stack(const char *function)
{
	static const char *const names[] = {"runtime.systemstack", "runtime.mcall",
					    "runtime.morestack",   "runtime.asmcgocall",
					    "runtime.mstart",	   "runtime.goexit",
					    "runtime.cgocallback", "runtime.rt0_go",
					    "runtime.nanotime1",   "runtime.walltime",
					    "runtime.vgetrandom1", "time.now",
					    "runtime.gogo",	   "gogo"};

	for (size_t i = 0; function && i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (!strncmp(function, names[i], length) &&
		    (!function[length] || function[length] == '.'))
			return true;
	}
	return false;
}

/* Whether signal handlers return to the first byte of a function of Go's. Its entry does not say
 * so. */
static bool returns_from_signal(const char *function)
{
	return function && !strncmp(function, "runtime.sigreturn", strlen("runtime.sigreturn"));
}

/* Whether Go's vfork keeps its return address in a register, of which its entry does not tell, while
 * the child overwrites the one on the stack that both run on. */
static bool hides_return_address(const char *function)
{
	return function && !strncmp(function, "syscall.rawVforkSyscall",
				    strlen("syscall.rawVforkSyscall"));
}

/* Whether libdw knew how to step on from the last frame that both found. */
static bool can_step(const struct sample_record *sample, size_t common)
{
	bool is_exact = common == 1 && !sample->is_return;
	const char *function;
	uint64_t address;

	if (common == 0)
		return true;
	address = walk.frames[common - 1];
	function = address_space_symbol(walk.space, address - !is_exact);
	return !leaves_stack(function) && !hides_return_address(function) &&
	       !returns_from_signal(address_space_symbol(walk.space, address)) &&
	       (address_space_has_cfi(walk.space, address - !is_exact) ||
		address_space_has_cfi(walk.space, address));
}

/* Counts a difference under what both said after the last frame that they agree on. */
static void add_difference(const char *kind, const struct sample_record *sample, size_t common,
			   const char *error)
{
	char key[sizeof(classes[0].key)], last[LABEL_BYTES] = "(none)", ours[LABEL_BYTES],
					  theirs[LABEL_BYTES];

	if (common > 0)
		address_space_label(walk.space, walk.frames[common - 1], false, last, sizeof(last));
	if (common < sample->frame_count)
		address_space_label(walk.space, our_frame(sample, common), false, ours,
				    sizeof(ours));
	else
		snprintf(ours, sizeof(ours), "end (outcome %u)", sample->outcome);
	if (common < walk.count)
		address_space_label(walk.space, walk.frames[common], false, theirs, sizeof(theirs));
	else
		snprintf(theirs, sizeof(theirs), "end (%s)", error ? error : "root");
	snprintf(key, sizeof(key), "%s after %s%s: prof %s, libdw %s", kind, last,
		 sample->is_rescued ? " (rescued)" : "", ours, theirs);
	add_to_class(key, sample, common);
}

static void compare(struct address_space *space, const struct sample_record *sample)
{
	bool is_deep = sample->outcome == TOO_DEEP || sample->outcome == MIDDLE_LEFT_OUT;
	const char *error;
	size_t common;

	samples++;
	/* The root of a stack with a gap is proven, too. */
	if (sample->outcome == COMPLETE || sample->outcome == MIDDLE_LEFT_OUT)
		complete++;
	else if (!is_deep)
		add_incomplete(space, sample);
	rescued += sample->is_rescued;
	if (!sample->has_copy || !space) {
		uncopied++;
		return;
	}
	error = walk_again(space, sample);
	common = common_frames(sample);
	if ((common == walk.count && common == sample->frame_count) || ends_agree(sample)) {
		identical++;
	} else if (!can_step(sample, common)) {
		blind++;
		add_difference("blind", sample, common, error);
	} else if (common == walk.count && walk.left_copy) {
		cut_short++;
	} else if (common == sample->frame_count && is_deep) {
		deep++;
	} else {
		differing++;
		add_difference("differing", sample, common, error);
	}
}

/* ---- Output -------------------------------------------------------------------------------------
 */

/* Differences first, then stacks without a root, then what libdw cannot know. */
static int rank(const struct class *class)
{
	return class->key[0] == 'd' ? 0 : class->key[0] == 'i' ? 1 : 2;
}

static int by_rank_and_count(const void *one, const void *other)
{
	const struct class *a = one, *b = other;

	if (rank(a) != rank(b))
		return rank(a) - rank(b);
	return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->key, b->key);
}

static void print_example(struct address_space **spaces, const struct class *class)
{
	const struct sample_record *sample = &class->example;
	struct address_space *space = spaces[sample->maps];
	size_t from = class->common > 3 ? class->common - 3 : 0;
	const char *error;
	char label[LABEL_BYTES];

	if (!space || !sample->has_copy)
		return;
	error = walk_again(space, sample);
	printf("    thread %" PRIu32 " at %" PRIu64 " ns, rsp 0x%" PRIx64 ", %" PRIu32
	       " bytes of stack, %" PRIu32 " and %zu frames; libdw: %s\n",
	       sample->tid, sample->time_ns, sample->registers[RSP], sample->stack_bytes,
	       sample->frame_count, walk.count, error ? error : "root");
	for (size_t i = from; i < sample->frame_count && i < class->common + 6; i++) {
		address_space_label(space, our_frame(sample, i), true, label, sizeof(label));
		printf("    prof  %3zu %s%s\n", i, label,
		       word_at(sample->frames, i) & BY_FRAME_POINTER ? " (by frame pointer)" : "");
	}
	for (size_t i = from; i < walk.count && i < class->common + 6; i++) {
		address_space_label(space, walk.frames[i], true, label, sizeof(label));
		printf("    libdw %3zu %s\n", i, label);
	}
}

int main(int argc, char **argv)
{
	struct address_space **spaces = NULL;
	struct sample_record sample;
	struct maps_record maps;
	struct copies copies;
	enum record_kind kind;
	uint64_t refused = 0;
	size_t space_count = 0, shown = 10;
	bool is_verbose = false;
	int option;

	while ((option = getopt(argc, argv, "c:v")) != -1) {
		if (option == 'c')
			shown = strtoul(optarg, NULL, 10);
		else if (option == 'v')
			is_verbose = true;
		else
			errx(2, "usage: walk_again [-c CLASSES] [-v] FILE");
	}
	if (optind + 1 != argc)
		errx(2, "usage: walk_again [-c CLASSES] [-v] FILE");
	elf_version(EV_CURRENT);
	copies_open(&copies, argv[optind]);
	while ((kind = copies_next(&copies, &maps, &sample, &refused)) != RECORD_NONE) {
		if (kind == RECORD_MAPS) {
			if (maps.number > 1000000)
				errx(2, "too many mappings");
			if (maps.number >= space_count) {
				spaces = realloc(spaces, (maps.number + 1) * sizeof(*spaces));
				if (!spaces)
					err(2, "no memory");
				while (space_count <= maps.number)
					spaces[space_count++] = NULL;
			}
			spaces[maps.number] = address_space_of(&maps, &callbacks, NULL);
		} else if (kind == RECORD_SAMPLE) {
			compare(sample.maps < space_count ? spaces[sample.maps] : NULL, &sample);
		}
	}
	printf("samples=%" PRIu64 " complete=%" PRIu64 " rescued=%" PRIu64 " identical=%" PRIu64
	       " differing=%" PRIu64 " short=%" PRIu64 " deep=%" PRIu64 " blind=%" PRIu64
	       " uncopied=%" PRIu64 " refused=%" PRIu64 "\n",
	       samples, complete, rescued, identical, differing, cut_short, deep, blind, uncopied,
	       refused);
	qsort(classes, class_count, sizeof(classes[0]), by_rank_and_count);
	for (size_t i = 0; i < class_count && i < shown; i++) {
		printf("  %" PRIu64 " %s\n", classes[i].count, classes[i].key);
		if (is_verbose)
			print_example(spaces, &classes[i]);
	}
	return 0;
}
