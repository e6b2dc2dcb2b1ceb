/*
 * stop: asks a job to end.
 */
#include "controller/run/attempt.h"

#include "common/base/json.h"
#include "controller/record/ckpt.h"
#include "controller/record/states.h"
#include "controller/share/alloc.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

/* The beginning that was chosen stays: a retry goes on in its line. */
static void post_wanted(struct core *c, struct cjob *j, cJSON *d)
{
	if (j->r.begins)
		json_add_str(d, "begins", j->r.begins);
	job_post(c, j, EV_STOP_WANTED, d);
}

int job_stop(struct core *c, struct cjob *j, cJSON *d)
{
	if (j->r.status == JOB_RECOVERING && !j->act && j->collect) { /* its results are saved first */
		post_wanted(c, j, d);
		job_touch(c, j);
		return 0;
	}
	if (j->r.status == JOB_QUEUED || j->r.status == JOB_HELD || (j->r.status == JOB_RECOVERING && !j->act)) {
		alloc_unqueue(c, j);
		json_add_str(d, "status", state_name(STATE_JOB, JOB_STOPPED));
		ckpt_add_line(&j->r, d);
		job_post(c, j, EV_ENDED, d);
		return 1;
	}
	/* An attempt that ends for another reason keeps that reason, except for a requeue: the stop replaces it.
	 */
	if (j->r.att && j->r.att->state == ATT_ENDING && j->r.wanted != WANT_REQUEUE)
		cJSON_ReplaceItemInObjectCaseSensitive(d, "reason",
		                                       cJSON_CreateString(j->r.reason ? j->r.reason : ""));
	post_wanted(c, j, d);
	job_touch(c, j);
	return 0;
}
