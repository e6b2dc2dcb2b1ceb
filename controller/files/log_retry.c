/*
 * log_retry: one list for each number of failed tries.
 */
#include "controller/files/log_retry.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

static uint64_t pause_us(unsigned tries)
{
	uint64_t us = LOG_RETRY_FIRST_US;

	for (unsigned i = 1; i < tries && us < LOG_RETRY_MOST_US; i++)
		us *= 2;
	return us < LOG_RETRY_MOST_US ? us : LOG_RETRY_MOST_US;
}

static struct log_end *find_first(const struct log_retry_queue *q)
{
	struct log_end *x = NULL;

	for (unsigned i = 0; i < LOG_RETRY_TRIES; i++)
		if (q->of[i] && (!x || q->of[i]->due_us < x->due_us))
			x = q->of[i];
	return x;
}

void log_retry_add(struct log_retry_queue *q, struct log_end *x, uint64_t now_us)
{
	assert(x->tries < LOG_RETRY_TRIES);
	x->due_us = now_us + pause_us(x->tries);
	DL_APPEND(q->of[x->tries], x);
	q->n++;
}

struct log_end *log_retry_due(struct log_retry_queue *q, uint64_t now_us)
{
	struct log_end *x = find_first(q);

	if (!x || x->due_us > now_us)
		return NULL;
	DL_DELETE(q->of[x->tries], x);
	q->n--;
	return x;
}

uint64_t log_retry_next_us(const struct log_retry_queue *q)
{
	const struct log_end *x = find_first(q);

	return x ? x->due_us : UINT64_MAX;
}

void log_retry_fini(struct log_retry_queue *q)
{
	struct log_end *x, *next;

	for (unsigned i = 0; i < LOG_RETRY_TRIES; i++) {
		DL_FOREACH_SAFE (q->of[i], x, next) {
			DL_DELETE(q->of[i], x);
			free(x);
		}
	}
	q->n = 0;
}
