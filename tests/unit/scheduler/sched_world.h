/* sched_world: a library, and beside it the slow second one with the same input. */
#ifndef HEARTH_TESTS_UNIT_SCHEDULER_SCHED_WORLD_H
#define HEARTH_TESTS_UNIT_SCHEDULER_SCHED_WORLD_H
#include "tests/unit/scheduler/sched_slow.h"

#define SPANS 4000

/* What an account's jobs held, and when: for its use. */
struct span {
	int account, node;
	unsigned job;
	double load;
	uint64_t from_s, to_s; /* 0: still */
};
struct world {
	struct slow w;
	struct sched *s;
	struct span spans[SPANS];
	struct slow_node told[SLOW_NODES];
	unsigned n_spans;
	double half_life_s;
	int books; /* there are reservations in this world */
	int pools; /* there are warm pools */
	const char *bad;
	char what[200];
	unsigned starts, passed, heads, borrowed, victims, firm, replaced, warm, gave_way;
};

void world_wrong(struct world *o, const char *bad); /* the first is kept */
void world_set_node(struct world *o, int i);        /* the library gets it as it is now */
/* The library gets the job. drop: it gives back what it has there, and waits for as much; NULL: it
 * waits for all. */
int world_send(struct world *o, unsigned id, const uint64_t *drop, uint32_t n_drop);
/* sched_world_pool.c. A pool is made, changed or removed; the job, which is about to go, leaves one. */
void world_pool_random(struct world *o, uint32_t (*rnd)(uint32_t));
struct slow_pool world_pool_of(const struct world *o, unsigned id, uint32_t (*rnd)(uint32_t));
void world_pool_set(struct world *o, int pool, const struct slow_pool *p);
/* The decision is in the job's holds, from `first` on. */
void world_pools_take(struct world *o, const struct sched_decision *d, unsigned first, const int *place);
const char *world_warm(int warm);          /* the key of that environment; NULL none */
void world_pools_compare(struct world *o); /* what was reported as lost */

double world_use(const struct world *o, int account); /* GPU-seconds, fading: a sum over all that was held */

#endif
