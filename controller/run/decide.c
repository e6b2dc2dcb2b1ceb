/*
 * decide: see decide.h.
 */
#include "controller/run/decide.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "controller/run/attempt.h"
#include "controller/share/alloc.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"

void decide(struct core *c)
{
	struct sched_decision *d;

	alloc_prepare(c);
	for (int n = 0; (d = alloc_step(c, n)); n++) {
		struct cjob *j = job_find(c, d->job);

		if (j && (j->r.status == JOB_QUEUED || (j->r.status == JOB_RECOVERING && !j->act))) {
			start_attempt(c, j, d);
		} else {
			log_error("event=placed_unknown_job job=%" PRIu64, d->job);
			sched_job_remove(c->sched, d->job);
		}
		sched_decision_free(d);
	}
}
