/* Functions without entries between functions that have them. Each keeps a frame record, at the lower end of
 * its frame; only the second tells its size, so that its instructions can be followed. */
static volatile long sink;

__attribute__((noipa)) static long leaf(long n)
{
	return n * 3 + sink;
}

__attribute__((noipa, used)) long back(long n)
{
	return leaf(n) + 1;
}

long bare(long n);
__asm__(".text\n.type bare, %function\nbare:\nstp x29, x30, [sp, #-48]!\nmov x29, sp\nbl back\n"
	"ldp x29, x30, [sp], #48\nret\n");

long followed(long n);
__asm__(".text\n.type followed, %function\nfollowed:\nsub sp, sp, #64\nstp x29, x30, [sp, #16]\n"
	"add x29, sp, #16\nbl back\nldp x29, x30, [sp, #16]\nadd sp, sp, #64\nret\n"
	".size followed, . - followed\n");

__attribute__((noipa)) static long caller(long n)
{
	return bare(n) + 1;
}

__attribute__((noipa)) static long caller_of_followed(long n)
{
	return followed(n) + 1;
}

int main(void)
{
	sink = caller(4);
	sink = caller_of_followed(4);
	return 0;
}
