/* exchange: jobs that keep some of their places and wait for others instead of the rest. */
#ifndef HEARTH_SCHEDULER_MODEL_EXCHANGE_H
#define HEARTH_SCHEDULER_MODEL_EXCHANGE_H
#include "scheduler/sched.h"

struct job;

struct exchange {
	struct job *job;
	uint64_t *lost; /* the nodes that it gave back */
	uint32_t n_lost;
	uint64_t tried_gen, tried_s; /* gen and time at which there was no place for it */
	struct exchange *next;
};

struct exchange *exchange_find(const struct sched *s, const struct job *j); /* NULL none */
/* The job holds what it keeps already. From now on what it lacks counts for its account's quota. x: as
 * exchange_unlink returned it; NULL: a new one. */
struct exchange *exchange_link(struct sched *s, struct job *j, struct exchange *x);
struct exchange *exchange_unlink(struct sched *s, struct job *j); /* NULL none */
void exchange_end(struct sched *s, struct job *j);
void exchange_lost(struct exchange *x, uint64_t node);
/* Around a change of what it holds: its account owes what it lacks (sign 1), or no more (-1). */
void exchange_owe(struct job *j, int sign);
uint32_t exchange_lacks(const struct job *j, uint32_t group); /* instances */

#endif
