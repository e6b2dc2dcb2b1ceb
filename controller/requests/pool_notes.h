/*
 * pool_notes: warm pools (docs/spec/15-pools.md) in other answers: nodes, the overview, why, dry runs.
 */
#ifndef HEARTH_CONTROLLER_REQUESTS_POOL_NOTES_H
#define HEARTH_CONTROLLER_REQUESTS_POOL_NOTES_H

#include "common/base/text.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"

struct pool_places;

/* Sorts the parts of living pools by node: an answer about many nodes looks at each pool once. */
struct pool_places *pool_places_create(const struct core *c);
void pool_places_destroy(struct pool_places *l);
/* Adds pools: {pool, name, owner, state, expires_at, gpus} of the node. */
void pool_places_json(const struct pool_places *l, uint64_t node_id, cJSON *node);
/* Adds warm_nodes and warm_gpus: what is idle in pools. */
void pool_places_sums(const struct pool_places *l, cJSON *nodes);

/* Adds the pool that a new job would use there, and what does not match. source: digest; NULL: none. */
void pool_note_places(struct core *c, const struct job_spec *s, const char *source,
                      const struct sched_forecast *f, cJSON *body, struct text *t);
void pool_note_wanted(uint64_t pool,
                      cJSON *body); /* adds the number of the one that a job waits for; 0 none */
/* Adds the pool that the newest attempt used, or to a waiting job the pools of its owner. */
void pool_note_job(const struct core *c, const struct cjob *j, cJSON *body, struct text *t);

#endif
