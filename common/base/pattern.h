/*
 * pattern: regular expressions that users wrote (PCRE2), with a bound on the time of every search.
 *
 * Every use of a user's pattern in hearthd and in the agents goes through this file. A search is bounded, but
 * it is not short: it runs on a worker's thread, never on a loop or on hearthd's state thread. The caller
 * sums up the CPU time of its searches and gives it a budget (agent/logs/matcher.h shows how). jobctl runs
 * as the user and may use PCRE2 itself.
 *
 * PCRE2's own match limit does not bound a search: it starts again at each byte of the line, and the
 * just-in-time compiler does not count repeats of single characters. So a pattern is compiled with a callout
 * before each of its items. The callout counts, and asks the thread's CPU clock now and then.
 */
#ifndef HEARTH_COMMON_BASE_PATTERN_H
#define HEARTH_COMMON_BASE_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define PATTERN_TEXT_MAX  4096u        /* bytes of a pattern */
#define PATTERN_SIZE_MAX  (48u * 1024) /* bytes of a compiled one, callouts included */
#define PATTERN_LINE_MAX  4096u        /* bytes of a line that are searched */
#define PATTERN_SEARCH_US 4000u        /* CPU time of one search, after which it ends without a result */

struct pattern;
/* Compiles a pattern. ERR_INVALID: the pattern is wrong; ERR_LIMIT: the pattern is too long or too large. */
struct pattern *pattern_compile(const char *text, struct err *e);
void pattern_destroy(struct pattern *p);
uint32_t pattern_groups(const struct pattern *p);
/* Makes searches faster, where the machine has a just-in-time compiler. Costs up to some milliseconds. */
void pattern_speed_up(struct pattern *p);

struct pattern_scratch; /* memory of searches, for one thread at a time */
struct pattern_scratch *pattern_scratch_create(void);
void pattern_scratch_destroy(struct pattern_scratch *s);

enum pattern_found {
	PATTERN_MISS = 0,
	PATTERN_HIT,
	PATTERN_GAVE_UP, /* the search needed too much time or memory: the line may match or not */
};
struct pattern_hit {
	const char *group; /* first group, in the line; NULL: the group is not part of the match */
	size_t n;
	uint64_t steps; /* what the search cost: it grows with the CPU time, and compares patterns */
};
/* Searches the first PATTERN_LINE_MAX bytes of a line. */
enum pattern_found pattern_search(const struct pattern *p, struct pattern_scratch *s, const char *line,
                                  size_t n, struct pattern_hit *hit);

#endif
