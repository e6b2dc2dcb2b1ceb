/* reservation: nodes that belong to one queue, or to nobody, for a time. */
#ifndef HEARTH_SCHEDULER_MODEL_RESERVATION_H
#define HEARTH_SCHEDULER_MODEL_RESERVATION_H
#include "scheduler/sched.h"

struct account;
struct job;
struct lane;
struct node;

struct reservation {
	uint64_t id, from_s, to_s;
	struct account *account; /* NULL nobody */
};

void reservation_put(struct sched *s, const struct sched_reservation *r); /* on the nodes that are known */
void reservation_drop(struct sched *s, uint64_t id);
int reservation_allows(const struct sched *s, const struct node *n);
/* The next questions are whether this job may start at that time. NULL: no reservation counts. */
void reservation_try(struct sched *s, const struct job *j, uint64_t at_s);
/* When the next reservation ends after that time; UINT64_MAX none. */
uint64_t reservation_next_end(const struct sched *s, uint64_t after_s);
/* Is it known that only reservations keep this lane out? With limits that stays so until something is given
 * back, or a reservation changes or ends: time only brings more of them into a job's way. */
int lane_is_barred(const struct sched *s, const struct lane *l);
void lane_bar(struct sched *s, struct lane *l);

#endif
