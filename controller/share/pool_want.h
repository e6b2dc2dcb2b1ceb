/* pool_want: jobs that wait for one warm pool (`warm_pool.pool`, docs/spec/15-pools.md). */
#ifndef HEARTH_CONTROLLER_SHARE_POOL_WANT_H
#define HEARTH_CONTROLLER_SHARE_POOL_WANT_H

#include "common/base/text.h"
#include "controller/record/pool.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"

/* Finds the pool that the specification of a new job of that owner names. *id: 0 it names none. -1: the user
 * has no such pool, or it cannot hold the job; e says what to do. */
int pool_want_find(struct core *c, const struct job_spec *s, const char *owner, uint64_t *id, struct err *e);
/* A job begins to wait in the queue. */
void pool_want_note(struct core *c, const struct cjob *j);
/* Lets jobs whose pool is gone, or too small by now, wait for any nodes. Call it between two decisions. */
void pool_want_review(struct core *c);
/* Adds what the pool of a job that waits for it does now: "; job 5 uses it". */
void pool_want_say(const struct core *c, uint64_t pool, struct text *t);

#endif
