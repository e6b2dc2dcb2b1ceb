/*
 * ends: attempts that are over and whose logs wait for their forced end, in the order of their times.
 *
 * The pause before a try depends on nothing but the number of tries that failed, and time does not go back:
 * so there is one list for each number, in the order of arrival, and neither an insertion nor a look at the
 * next one walks along. On a full disk tens of thousands wait.
 */
#ifndef HEARTH_CONTROLLER_ENDS_H
#define HEARTH_CONTROLLER_ENDS_H

#include <stddef.h>
#include <stdint.h>

#define ENDS_TRIES    12        /* of an end that cannot be written; with the pauses below an hour */
#define ENDS_FIRST_US 5000000u  /* from an attempt's end: what agents still send comes first */
#define ENDS_MOST_US  600000000 /* between two tries at most */

struct ending {
	struct ending *prev, *next;
	uint64_t job, due_us;
	uint32_t attempt;
	unsigned tries; /* that failed */
};

struct ends {
	struct ending *of[ENDS_TRIES]; /* by tries */
	size_t n;
};

/* x waits for its next try, or for its first. Takes x; tries is below ENDS_TRIES. */
void ends_add(struct ends *q, struct ending *x, uint64_t now_us);
/* The one whose time came first; taken out, the caller's. NULL: of nobody yet. */
struct ending *ends_due(struct ends *q, uint64_t now_us);
uint64_t ends_next_us(const struct ends *q); /* UINT64_MAX: nobody waits */
void ends_fini(struct ends *q);

#endif
