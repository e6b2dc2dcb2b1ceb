/* The list of steps that a program leaves out: the union of the ranges of all rollbacks. */
#include "controller/record/skip.h"
#include "tests/lib/tap.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void adds(const char *list, int64_t first, int64_t last, const char *want, const char *says)
{
	char *got = skip_add(list, first, last);

	is_str(got, want, says);
	free(got);
}

static void test_bound(void)
{
	char *list = NULL;
	unsigned commas = 0;

	for (int64_t i = 0; i < 1000; i++) {
		char *more = skip_add(list, i * 10, i * 10 + 2);

		free(list);
		list = more;
	}
	for (const char *p = list; *p; p++)
		commas += *p == ',';
	is_int(commas, SKIP_RANGES - 1, "a list has a bound");
	ok(strncmp(list, "0-", 2) == 0 && strcmp(list + strlen(list) - 5, "-9992") == 0, "and still covers all");
	free(list);
}

int main(void)
{
	adds(NULL, 100, 150, "100-150", "the first range");
	adds("100-150", 300, 420, "100-150,300-420", "a later one follows");
	adds("300-420", 100, 150, "100-150,300-420", "an earlier one comes first");
	adds("100-150,300-420", 120, 310, "100-420", "ranges that overlap become one");
	adds("100-150", 151, 160, "100-160", "so do neighbours");
	adds("100-150", 152, 160, "100-150,152-160", "a step between them parts them");
	adds("100-150", 110, 120, "100-150", "a range within another one adds nothing");
	adds("7", 9, 9, "7-7,9-9", "a single step is a range");
	adds("100-150", -1, 5, "100-150", "no range: the list stays");
	adds("x,5-3,10-12", 20, 21, "10-12,20-21", "invalid ranges are left out");
	test_bound();
	return tap_done();
}
