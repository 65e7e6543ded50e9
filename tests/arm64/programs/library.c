/* Calls through the procedure linkage table, resolved at their first use; and back, from a library. */
#include <stdlib.h>
#include <string.h>

static volatile long sink;

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int main(void)
{
	int numbers[] = { 3, 1, 2 };

	sink = labs(sink - 3);
	sink += labs(sink);
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	return 0;
}
