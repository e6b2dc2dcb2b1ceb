/*
 * ends: see ends.h.
 */
#include "controller/files/log_retry.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

static uint64_t pause_us(unsigned tries)
{
	uint64_t us = ENDS_FIRST_US;

	for (unsigned i = 1; i < tries && us < ENDS_MOST_US; i++)
		us *= 2;
	return us < ENDS_MOST_US ? us : ENDS_MOST_US;
}

static struct ending *first(const struct ends *q)
{
	struct ending *x = NULL;

	for (unsigned i = 0; i < ENDS_TRIES; i++)
		if (q->of[i] && (!x || q->of[i]->due_us < x->due_us))
			x = q->of[i];
	return x;
}

void ends_add(struct ends *q, struct ending *x, uint64_t now_us)
{
	assert(x->tries < ENDS_TRIES);
	x->due_us = now_us + pause_us(x->tries);
	DL_APPEND(q->of[x->tries], x);
	q->n++;
}

struct ending *ends_due(struct ends *q, uint64_t now_us)
{
	struct ending *x = first(q);

	if (!x || x->due_us > now_us)
		return NULL;
	DL_DELETE(q->of[x->tries], x);
	q->n--;
	return x;
}

uint64_t ends_next_us(const struct ends *q)
{
	const struct ending *x = first(q);

	return x ? x->due_us : UINT64_MAX;
}

void ends_fini(struct ends *q)
{
	struct ending *x, *next;

	for (unsigned i = 0; i < ENDS_TRIES; i++) {
		DL_FOREACH_SAFE (q->of[i], x, next) {
			DL_DELETE(q->of[i], x);
			free(x);
		}
	}
	q->n = 0;
}
