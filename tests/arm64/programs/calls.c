/* Calls of all shapes, one after the other: each is stepped through instruction by instruction. */
#include <unistd.h>

static volatile long sink;

__attribute__((noipa)) static long leaf(long n)
{
	return n * 3 + sink;
}

__attribute__((noipa)) static long descend(long n)
{
	long below;

	if (!n)
		return leaf(n);
	below = descend(n - 1);
	return below + leaf(n);
}

/* More than the 32 KiB that a rule's 16-bit numbers reach. */
__attribute__((noipa)) static long large(long n)
{
	volatile char room[40000];

	room[n] = 1;
	return leaf(room[n]) + 1;
}

/* The stack pointer's distance from the frame is known at run time only. */
__attribute__((noipa)) static long varying(long n)
{
	volatile char *room = __builtin_alloca(n * 16 + 16);

	room[n] = 2;
	return leaf(room[n]) + 1;
}

/* Keeps so much over a call that every callee-saved register is in use. */
__attribute__((noipa)) static long crowded(long n)
{
	long a = leaf(n), b = leaf(a), c = leaf(b), d = leaf(c), e = leaf(d), f = leaf(e), g = leaf(f),
	     h = leaf(g), i = leaf(h), j = leaf(i), k = leaf(j), l = leaf(k);

	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l;
}

__attribute__((noipa, noreturn)) static void leave(long n)
{
	sink = leaf(n);
	_exit(0);
}

/* The call is the last instruction: its return address is in the next function. */
__attribute__((noipa, noreturn)) static void finish(void)
{
	leave(7);
}

__attribute__((noipa)) long begin(void)
{
	return descend(3) + large(5) + varying(6) + crowded(8);
}

int main(void)
{
	sink = begin();
	finish();
}
