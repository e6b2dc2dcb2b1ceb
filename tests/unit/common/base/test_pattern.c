/* pattern: hits and groups, what is refused, and the bound on the time of one search. */
#include "common/base/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

static enum pattern_found search(const char *text, int fast, const char *line, size_t n,
                                 struct pattern_hit *hit, uint64_t *cpu_us)
{
	struct pattern *p = pattern_compile(text, NULL);
	struct pattern_scratch *s = pattern_scratch_create();
	enum pattern_found found;
	uint64_t start;

	if (!p)
		tap_bail("%s is refused", text);
	if (fast)
		pattern_speed_up(p);
	start = clock_thread_cpu_us();
	found = pattern_search(p, s, line, n, hit);
	*cpu_us = clock_thread_cpu_us() - start;
	pattern_scratch_destroy(s);
	pattern_destroy(p);
	return found;
}

/* Returns "hit GROUP", "hit", "miss" or "gave up". */
static const char *look(const char *text, int fast, const char *line)
{
	static char out[128];
	struct pattern_hit hit;
	uint64_t us;

	switch (search(text, fast, line, strlen(line), &hit, &us)) {
	case PATTERN_MISS:
		return "miss";
	case PATTERN_GAVE_UP:
		return "gave up";
	case PATTERN_HIT:
		break;
	}
	if (!hit.group)
		return "hit";
	snprintf(out, sizeof(out), "hit %.*s", (int)hit.n, hit.group);
	return out;
}

static void test_results(void)
{
	for (int fast = 0; fast < 2; fast++) {
		is_str(look("loss=([0-9.]+)", fast, "step=1 loss=0.5 ok"), "hit 0.5", "first group");
		is_str(look("loss=([0-9.]+)", fast, "nothing"), "miss", "no match");
		is_str(look("a(b)?", fast, "a"), "hit", "group that takes no part");
		is_str(look("(?:x(1))|(2)", fast, "2"), "hit", "first group unset, second one set");
		is_str(look("(a)(b)(c)(d)", fast, "abcd"), "hit a", "more groups than the scratch has room for");
		is_str(look("(a)\\1(b)\\2", fast, "aabb"), "hit a", "references to groups");
		is_str(look("(*UTF)(\\w)", fast, "\xff"), "miss", "a line that is not UTF-8");
		is_str(look("(?C1)a(b)", fast, "ab"), "hit b", "callouts of the user's own");
	}
}

static void test_line_bound(void)
{
	char *line = xcalloc(PATTERN_LINE_MAX + 8, 1);
	struct pattern_hit hit;
	uint64_t us;

	memset(line, 'x', PATTERN_LINE_MAX + 7);
	memcpy(line + PATTERN_LINE_MAX - 2, "a7", 2);
	is_int(search("a(7)", 1, line, PATTERN_LINE_MAX + 7, &hit, &us), PATTERN_HIT, "last bytes that count");
	memcpy(line + PATTERN_LINE_MAX - 2, "xa7", 3);
	is_int(search("a(7)", 1, line, PATTERN_LINE_MAX + 7, &hit, &us), PATTERN_MISS, "one byte further");
	free(line);
}

static void test_refused(void)
{
	char *longest = xcalloc(PATTERN_TEXT_MAX + 2, 1), *deep = xcalloc(1024, 1);
	struct err e;

	ok(!pattern_compile("(a", &e) && e.code == ERR_INVALID, "wrong syntax");
	is_str(e.text, "the pattern is wrong at byte 2: missing closing parenthesis", "names byte and cause");
	memset(longest, 'a', PATTERN_TEXT_MAX + 1);
	ok(!pattern_compile(longest, &e) && e.code == ERR_LIMIT, "longer than the limit");
	is_str(e.text, "the pattern has 4097 bytes; at most 4096 are allowed", "names both sizes");
	ok(!pattern_compile("(?:abcdefgh){800}(x)", &e) && e.code == ERR_LIMIT, "repeats of repeats");
	like(e.text, "bytes when compiled; at most 49152 are allowed", "names the limit");
	memset(deep, '(', 300);
	memset(deep + 300, ')', 300);
	ok(!pattern_compile(deep, &e) && e.code == ERR_INVALID, "brackets in 300 brackets");
	free(longest);
	free(deep);
}

/* Each of them would run for seconds up to years on such a line. */
static const char *const evil[] = {
    "a{0,300}a{0,300}([bc])",
    "a{0,300}a{0,300}a{0,300}([bc])",
    "a*a*a*a*a*([bc])",
    "(?:a|aa|aaa)*([xy])",
    "(?:a?){500}a{500}([xy])",
    "(?:.*a.*|.*aa.*)*([xy])",
    "(a*)*\\1*([xy])",
    "(?=(a+)+z)?(?:a+)+([xy])",
    "(?:(?:a{0,20}){0,20}){0,5}([xy])",
    "(?<=a)(?:a|a?)+([xy])",
    "(a(?1)?a?)+([xy])",
    "(*NO_JIT)a*a*a*([xy])",
    "(*UTF)(?i)a{0,300}a{0,300}([bc])",
    "(*NO_START_OPT)a*a*a*([bc])",
};

static void test_time_bound(void)
{
	char *line = xcalloc(PATTERN_LINE_MAX + 1, 1);
	uint64_t worst = 0, us;
	int ended = 0;

	memset(line, 'a', PATTERN_LINE_MAX);
	for (int last = 0; last < 2; last++) { /* with the last letter, PCRE2 cannot refuse the line at once */
		memcpy(line + PATTERN_LINE_MAX - 3, last ? "x-y" : "aaa", 3);
		for (size_t i = 0; i < sizeof(evil) / sizeof(*evil); i++)
			for (int fast = 0; fast < 2; fast++) {
				struct pattern_hit hit;
				enum pattern_found found = search(evil[i], fast, line, PATTERN_LINE_MAX, &hit, &us);

				ended += found == PATTERN_GAVE_UP;
				worst = us > worst ? us : worst;
				ok(us < 3 * PATTERN_SEARCH_US, "%s: bounded, %llu us", evil[i], (unsigned long long)us);
			}
	}
	tap_diag("worst search: %llu us; %d gave up", (unsigned long long)worst, ended);
	ok(ended > 10, "most of them gave up");
	free(line);
}

int main(void)
{
	test_results();
	test_line_bound();
	test_refused();
	test_time_bound();
	return tap_done();
}
