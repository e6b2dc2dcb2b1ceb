/*
 * rule: the rules that a user writes for a job: a condition, an action, and how often it may act. Pure.
 *
 * Conditions: a metric above or below a limit for so many steps; a line of the log that a pattern matches; no
 * such line for a time. A rule is raised once while its condition lasts. It is raised again when the
 * condition has ended in between, or in another attempt.
 */
#ifndef HEARTH_COMMON_WATCH_RULE_H
#define HEARTH_COMMON_WATCH_RULE_H

#include <stdint.h>

#include "common/watch/conf.h"

#define RULES_MAX        32       /* of a job */
#define RULE_NAME_MAX    64       /* bytes */
#define RULE_PATTERN_MAX 1024     /* bytes */
#define RULE_AGAIN_US    60000000 /* a rule is raised once in that time */
#define RULE_BURST       4        /* but a rule on a metric so often at once */
#define RULE_METRIC      "rule:"  /* with the rule's name: the metric by which agents report a line */

struct watch_rule {
	char *name, *metric, *pattern; /* metric or pattern is NULL */
	double above, below;           /* of a metric; NaN not given */
	int64_t for_steps;             /* of a metric */
	double absent_s; /* of a pattern: seconds without such a line; 0: it acts when one is seen */
	enum watch_action action;
	int64_t budget; /* actions beyond pins, in all attempts; then it only alerts */
};

struct rule_state {
	int64_t since, last; /* first step of the condition, last judged one; -1 none */
	int64_t acts;
	int fired;          /* the condition lasts, and was raised */
	uint64_t quiet_us;  /* boot: begin of the time without a line; 0 none */
	uint64_t raised_us; /* boot: of a line; of a metric: its raises are used up to here. 0 never */
};

void rule_begin(struct rule_state *s); /* an attempt begins; acts stay */
/* Return 1 when the rule is to be raised. A step that was judged before changes nothing. */
int rule_point(const struct watch_rule *r, struct rule_state *s, int64_t step, double value, uint64_t now_us);
int rule_seen(const struct watch_rule *r, struct rule_state *s, uint64_t now_us);
int rule_silent(const struct watch_rule *r, struct rule_state *s, uint64_t now_us);
/* Returns 1, and counts it, when the rule may act. */
int rule_may_act(const struct watch_rule *r, struct rule_state *s);

#endif
