/* shadow: the place that is kept for one job, the head. */
#ifndef HEARTH_SCHEDULER_POLICY_SHADOW_H
#define HEARTH_SCHEDULER_POLICY_SHADOW_H
#include "scheduler/model/node.h"
#include "scheduler/sched.h"

struct job;
struct room;

struct shadow { /* the kept place, put aside while another one is looked for */
	struct job *head;
	const struct job *kept;
	uint64_t shadow_s, kept_nodes;
	size_t kept_ends;
	struct room *view;
	uint32_t view_free[MAX_FREE + 1];
};
struct end { /* when something that holds nodes is believed to end */
	uint64_t at;
	const struct job *job; /* NULL: a reservation */
};

void shadow_make(struct sched *s, struct job *head);
void shadow_drop_head(struct sched *s); /* what the head held back may start now */
int shadow_allows(struct sched *s, const struct job *j, const int32_t *assign);
void shadow_took(struct sched *s, struct job *j, const int32_t *assign); /* any job that starts */
struct shadow shadow_aside(struct sched *s);
void shadow_back(struct sched *s, const struct shadow *was);
int ends_compare(const void *a, const void *b); /* for qsort: by time, reservations first, by id */
/* A place is kept for it from then on. 0: later than it was promised, though no usable node went since. */
int promise_holds(const struct sched *s, struct job *j, uint64_t from_s);

#endif
