/*
 * log_retry: attempts that are over and whose logs wait for their forced end, in the order of their times.
 *
 * The pause before a try depends only on the number of failed tries, and time does not go back. So there is
 * one list for each number, in the order of arrival, and neither an insertion nor a look at the next one
 * walks a list. On a full disk tens of thousands wait.
 */
#ifndef HEARTH_CONTROLLER_FILES_LOG_RETRY_H
#define HEARTH_CONTROLLER_FILES_LOG_RETRY_H

#include <stddef.h>
#include <stdint.h>

#define LOG_RETRY_TRIES    12        /* of an end that cannot be written; with the pauses below an hour */
#define LOG_RETRY_FIRST_US 5000000u  /* from an attempt's end, so that late data of agents come first */
#define LOG_RETRY_MOST_US  600000000 /* between two tries at most */

struct log_end {
	struct log_end *prev, *next;
	uint64_t job, due_us;
	uint32_t attempt;
	unsigned tries; /* that failed */
};

struct log_retry_queue {
	struct log_end *of[LOG_RETRY_TRIES]; /* by tries */
	size_t n;
};

/* Adds x, which waits for its next try, or its first. Takes x; tries is below LOG_RETRY_TRIES. */
void log_retry_add(struct log_retry_queue *q, struct log_end *x, uint64_t now_us);
/* Removes and returns the one that is due first. NULL: none is due. */
struct log_end *log_retry_due(struct log_retry_queue *q, uint64_t now_us);
uint64_t log_retry_next_us(const struct log_retry_queue *q); /* UINT64_MAX: none waits */
void log_retry_fini(struct log_retry_queue *q);

#endif
