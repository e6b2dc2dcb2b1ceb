/*
 * cause: which of several lines is the cause. A symptom leads to its cause, wherever that is.
 *
 * Order of strength: hardware of a node (drain); then move, rollback, user and requeue alike; then a process
 * that was killed or crashed without a reason; then record; then symptom. The first of the strongest counts.
 * Hardware beats a program's error that came first: a program may report a broken GPU in many ways, and a
 * wrong "do not retry" costs more than a needless restart. A line that calls itself a note or a warning
 * counts as a record: the program continued.
 */
#ifndef HEARTH_COMMON_CLASSIFY_CAUSE_H
#define HEARTH_COMMON_CLASSIFY_CAUSE_H

#include "common/classify/table.h"

/* How strong a finding is; 0: it says nothing. */
int cause_strength(enum line_verdict v, const char *cls);

struct cause {
	struct line_finding finding; /* cls NULL: no line yet */
	int strength;
	uint64_t number; /* of the line */
	size_t n;        /* bytes of the line that are stored */
	char line[CLASSIFY_LINE_MAX];
};
/* Stores the line when it is a stronger cause than those before. Returns whether it is. */
int cause_consider(struct cause *c, const struct line_finding *f, const char *line, size_t n,
                   uint64_t number);

/* Returns 1 for the source line that a Python traceback shows below `File "x.py", line 12`: its text is code,
 * and nothing of it was said. frame: 0 before the first line of a stream; the function keeps it. */
int cause_is_echo(size_t *frame, const char *line, size_t n);

/* Whether it says the cause, not only a symptom or a note. */
int cause_is_certain(const struct cause *c);

/* Returns what a verdict means for a job, as a clause: "restart elsewhere; the node is out of service". */
const char *verdict_meaning(enum line_verdict v);

#endif
