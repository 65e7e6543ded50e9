// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sampler of allocations that prof puts into a process. A hook stands for one function of an
 * allocator, whose first instruction jumps to it; the instructions that the jump took the place of
 * are in `displaced`, followed by a jump to the rest of the function.
 *
 * A hook has no frame where nothing is sampled: it ends in a jump. What is after the arguments that
 * count is passed on as it is: jemalloc's functions have flags there.
 */
#include "core.h"

struct data data __attribute__((section(".heap_data"), aligned(4096)));

/* Room for the displaced instructions of each hook, filled in by prof. */
__asm__(".section .displaced,\"ax\"\n"
	".globl displaced\n.hidden displaced\n"
	"displaced: .skip 64 * 71, 0xcc\n"
	".previous\n");
extern char displaced[] __attribute__((visibility("hidden")));

/* The probe sites, at the entry of a function: nothing lives below the stack pointer there. */
#define PROBE_SITE(name)                                                                       \
	__asm__(".text\n.balign 64\n.globl " #name "\n.hidden " #name "\n.type " #name         \
		",@function\n" #name ":\n.cfi_startproc\nnop\nret\n.cfi_endproc\n.size " #name \
		",.-" #name "\n")
PROBE_SITE(probe_alloc);
PROBE_SITE(probe_free);

typedef void *(*malloc_t)(u64 size, u64 flags);
typedef void *(*calloc_t)(u64 count, u64 size, u64 alignment);
typedef void *(*realloc_t)(void *block, u64 size, u64 flags);
typedef void (*free_t)(void *block, u64 second, u64 third);
typedef int (*posix_memalign_t)(void **block, u64 alignment, u64 size);
typedef void *(*memalign_t)(u64 alignment, u64 size);
typedef void *(*aligned_malloc_t)(u64 size, u64 alignment, u64 offset);
typedef void *(*new_t)(u64 size, u64 second, u64 third);

/* The function itself, by the number of its hook: a constant where it is inlined. */
#define REAL(type, n) ((type)(displaced + 64 * (n)))
#define HOOK __attribute__((used, visibility("hidden")))
#define SLOW static __attribute__((noinline, cold))

/* An allocation that may be counted by a hook inside it as well: realloc of nothing is malloc in
 * some allocators. It is this one's only if no countdown moved. */
#define COUNT_UNLESS_COUNTED(call, block, size)                                               \
	do {                                                                                  \
		struct slot *slot = own_slot();                                               \
		s64 left = slot->left;                                                        \
		u64 samples = slot->samples;                                                  \
		call;                                                                         \
		if (slot->left == left && slot->samples == samples && count_down(slot, size)) \
			count_sample(block, size, slot);                                      \
	} while (0)

#define MALLOC(n)                                                          \
	SLOW void *slow_malloc_##n(u64 size, u64 flags, struct slot *slot) \
	{                                                                  \
		void *block = REAL(malloc_t, n)(size, flags);              \
                                                                           \
		count_sample(block, size, slot);                           \
		return block;                                              \
	}                                                                  \
	HOOK void *hook_##n(u64 size, u64 flags)                           \
	{                                                                  \
		struct slot *slot = own_slot();                            \
                                                                           \
		if (count_down(slot, size))                                \
			return slow_malloc_##n(size, flags, slot);         \
		return REAL(malloc_t, n)(size, flags);                     \
	}

#define CALLOC(n)                                                                              \
	HOOK void *hook_##n(u64 count, u64 size, u64 alignment)                                \
	{                                                                                      \
		void *block;                                                                   \
                                                                                               \
		COUNT_UNLESS_COUNTED(block = REAL(calloc_t, n)(count, size, alignment), block, \
				     count * size);                                            \
		return block;                                                                  \
	}

#define REALLOC(n)                                                                               \
	HOOK void *hook_##n(void *old, u64 size, u64 flags)                                      \
	{                                                                                        \
		void *block;                                                                     \
                                                                                                 \
		if (old)                                                                         \
			note_free(old);                                                          \
		COUNT_UNLESS_COUNTED(block = REAL(realloc_t, n)(old, size, flags), block, size); \
		return block;                                                                    \
	}

#define FREE(n)                                                                 \
	SLOW void slow_free_##n(void *block, u64 second, u64 third, u64 bucket) \
	{                                                                       \
		look_for(block, bucket);                                        \
		REAL(free_t, n)(block, second, third);                          \
	}                                                                       \
	HOOK void hook_##n(void *block, u64 second, u64 third)                  \
	{                                                                       \
		u64 bucket = bucket_of(block);                                  \
                                                                                \
		if (is_filled(bucket)) {                                        \
			slow_free_##n(block, second, third, bucket);            \
			return;                                                 \
		}                                                               \
		REAL(free_t, n)(block, second, third);                          \
	}

#define POSIX_MEMALIGN(n)                                                                       \
	HOOK int hook_##n(void **block, u64 alignment, u64 size)                                \
	{                                                                                       \
		int error;                                                                      \
                                                                                                \
		COUNT_UNLESS_COUNTED(error = REAL(posix_memalign_t, n)(block, alignment, size), \
				     error ? 0 : *block, size);                                 \
		return error;                                                                   \
	}

#define MEMALIGN(n)                                                                              \
	HOOK void *hook_##n(u64 alignment, u64 size)                                             \
	{                                                                                        \
		void *block;                                                                     \
                                                                                                 \
		COUNT_UNLESS_COUNTED(block = REAL(memalign_t, n)(alignment, size), block, size); \
		return block;                                                                    \
	}

/* mimalloc's: some have an offset as well. */
#define ALIGNED_MALLOC(n)                                                                        \
	HOOK void *hook_##n(u64 size, u64 alignment, u64 offset)                                 \
	{                                                                                        \
		void *block;                                                                     \
                                                                                                 \
		COUNT_UNLESS_COUNTED(block = REAL(aligned_malloc_t, n)(size, alignment, offset), \
				     block, size);                                               \
		return block;                                                                    \
	}

/* Number of the first hook of an `operator new`. */
#define FIRST_OPERATOR 59

/* `operator new` of an allocator, or the form `stand_in` of it that gives nothing instead of
 * throwing: an exception must not meet a frame of this file, which unwinders do not know. So where
 * a block is sampled, that form allocates it, by the same sizes; if it gives nothing the operator
 * itself is jumped to, and throws. Some call a function that has a hook: the first call says so. */
#define NEW(n, stand_in)                                                                       \
	SLOW void *slow_new_##n(u64 size, u64 second, u64 third, struct slot *slot)            \
	{                                                                                      \
		volatile unsigned char *known = &data.operators[n - FIRST_OPERATOR];           \
		int is_first = *known == NOT_KNOWN;                                            \
		s64 left = slot->left;                                                         \
		void *block;                                                                   \
                                                                                               \
		if (is_first)                                                                  \
			*known = COUNTED_INSIDE;                                               \
		slot->left = ENDLESS;                                                          \
		block = REAL(new_t, stand_in)(size, second, third);                            \
		if (!is_first || slot->left == ENDLESS || ENDLESS - slot->left < (s64)size) {  \
			slot->left = left;                                                     \
			*known = COUNTED_HERE;                                                 \
			if (left <= 0)                                                         \
				count_sample(block, size, slot);                               \
		} else {                                                                       \
			slot->left = left + (s64)size;                                         \
		}                                                                              \
		if (block || n == stand_in)                                                    \
			return block;                                                          \
		return REAL(new_t, n)(size, second, third);                                    \
	}                                                                                      \
	HOOK void *hook_##n(u64 size, u64 second, u64 third)                                   \
	{                                                                                      \
		struct slot *slot = own_slot();                                                \
		unsigned char known = data.operators[n - FIRST_OPERATOR];                      \
                                                                                               \
		if (known != COUNTED_INSIDE && (count_down(slot, size) || known == NOT_KNOWN)) \
			return slow_new_##n(size, second, third, slot);                        \
		return REAL(new_t, n)(size, second, third);                                    \
	}

/* Which hooks there are of each kind, as src/record/heap/functions.rs has them. */
MALLOC(0)
MALLOC(1)
MALLOC(2)
MALLOC(3)
MALLOC(4)
MALLOC(5)
MALLOC(6)
MALLOC(7)
MALLOC(8)
MALLOC(9)
MALLOC(10)
MALLOC(11)
CALLOC(12)
CALLOC(13)
CALLOC(14)
CALLOC(15)
CALLOC(16)
REALLOC(17)
REALLOC(18)
REALLOC(19)
REALLOC(20)
REALLOC(21)
REALLOC(22)
FREE(23)
FREE(24)
FREE(25)
FREE(26)
FREE(27)
FREE(28)
FREE(29)
FREE(30)
FREE(31)
FREE(32)
FREE(33)
FREE(34)
FREE(35)
FREE(36)
FREE(37)
FREE(38)
FREE(39)
FREE(40)
FREE(41)
FREE(42)
FREE(43)
FREE(44)
FREE(45)
FREE(46)
POSIX_MEMALIGN(47)
POSIX_MEMALIGN(48)
POSIX_MEMALIGN(49)
POSIX_MEMALIGN(50)
MEMALIGN(51)
MEMALIGN(52)
MEMALIGN(53)
MEMALIGN(54)
MEMALIGN(55)
MEMALIGN(56)
MEMALIGN(57)
MEMALIGN(58)
NEW(59, 59)
NEW(60, 60)
NEW(61, 59)
NEW(62, 59)
NEW(63, 63)
NEW(64, 64)
NEW(65, 63)
NEW(66, 63)
ALIGNED_MALLOC(67)
ALIGNED_MALLOC(68)
ALIGNED_MALLOC(69)
ALIGNED_MALLOC(70)

/* Distances from each entry of this table: to the probe sites, the displaced instructions, and the
 * hooks by number. It is at the address that the linker script says. */
__asm__(".section .entries,\"a\"\n"
	".long probe_alloc - ., probe_free - ., displaced - .\n"
	".irp n, "
	"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,"
	"33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,"
	"63,64,65,66,67,68,69,70\n"
	".long hook_\\n - .\n"
	".endr\n"
	".previous\n");

/* Other tools know the probes by these notes, too: OpenTelemetry's otel_memory. */
#define PROBE_NOTE(name, site, arguments)                                                   \
	__asm__(".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"                     \
		".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n" \
		"993: .8byte " #site "\n.8byte 0\n.8byte data+8\n.asciz \"otel_memory\"\n"  \
		".asciz \"" name "\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection\n")
PROBE_NOTE("alloc", probe_alloc, "8@%rdi 8@%rsi 8@%rdx");
PROBE_NOTE("free", probe_free, "8@%rdi");
