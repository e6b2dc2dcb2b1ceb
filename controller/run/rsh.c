/*
 * rsh: orteds of jobs (park/orteds.h): which attempt a request is for, and whether it may start any.
 */
#include "controller/run/rsh.h"

#include "controller/park/orteds.h"
#include "controller/park/park.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"

static struct orted_launch launch_of(const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	return (struct orted_launch){.job = j->r.id,
	                             .attempt = a->number,
	                             .epoch = a->epoch,
	                             .main_node = a->places[0].node_id,
	                             .n_nodes = a->n_places,
	                             .list = &j->act->rsh};
}

/* Those of a launch that waited in a pool run before the job's go. */
static int may_run(const struct cjob *j)
{
	enum attempt_state s = j->r.att->state;

	return s == ATT_LAUNCHING || s == ATT_RUNNING || (s == ATT_PREPARING && j->act->parked);
}

void rsh_request(struct core *c, struct cnode *n, const struct wm_rsh_request *m)
{
	struct cjob *j = job_find(c, m->job);
	const struct attempt_rec *a = j ? j->r.att : NULL;
	struct orted_launch l;
	uint32_t place;

	if (!j) {
		park_rsh(c, n, m);
		return;
	}
	if (!a || !j->act || a->number != m->attempt || a->epoch != m->epoch || a->places[0].node_id != n->r.id)
		return;
	l = launch_of(j);
	if (orteds_place(&l, m->host, &place) < 0)
		orteds_refuse(c, &l, m->rsh_id, PS_FAILED, "no node of that name in this job");
	else if (!may_run(j))
		orteds_refuse(c, &l, m->rsh_id, PS_FAILED, "the attempt has come to its end");
	else if (place_over(a->places[place].state))
		orteds_refuse(c, &l, m->rsh_id, PS_LOST, "that node is no more part of the launch");
	else
		orteds_ask(c, &l, m, place, a->places[place].node_id);
}

void rsh_cancel(struct core *c, const struct wm_rsh_cancel *m)
{
	struct cjob *j = job_find(c, m->job);
	struct orted_launch l;

	if (!j) {
		park_rsh_cancel(c, m);
		return;
	}
	if (!j->act || !j->r.att || j->r.att->epoch != m->epoch)
		return;
	l = launch_of(j);
	orteds_cancel(&l, m->rsh_id);
}

void rsh_orted(struct core *c, struct cjob *j, uint32_t place, const struct wm_proc_report *m)
{
	struct orted_launch l = launch_of(j);

	orteds_report(c, &l, place, m);
}

void rsh_resend(struct core *c, struct cjob *j, uint32_t place)
{
	struct orted_launch l = launch_of(j);

	orteds_resend(c, &l, place);
}

void rsh_lost(struct core *c, struct cjob *j, uint32_t place)
{
	struct orted_launch l;

	if (!j->act)
		return;
	l = launch_of(j);
	orteds_lost(c, &l, place);
}
