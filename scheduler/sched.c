/* sched: the library as a whole: made, set up, put on record, asked for decisions, and freed. */
#include "scheduler/sched.h"

#include <stdlib.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/plan.h"
#include "scheduler/policy/policy.h"
#include "scheduler/record/recorder.h"

/* Follows S-101. */
struct sched *sched_create(void)
{
	struct sched *s = mem_alloc(1, sizeof(*s));

	s->gen = s->nodes_gen = s->input = 1;
	sched_policy_set(s, &(struct sched_policy){.backfill = SCHED_BLOCK});
	return s;
}

int sched_policy_set(struct sched *s, const struct sched_policy *p)
{
	if (s->jobs)
		return -1;
	s->policy = *p;
	if (!p->half_life_s)
		s->policy.half_life_s = 7 * 86400;
	if (p->caution <= 0)
		s->policy.caution = 3;
	if (!p->burst_s)
		s->policy.burst_s = 300;
	return 0;
}

#define LIVE_EFFORT   200000        /* a pass of hearthd has this bound on its work */
#define LIVE_STARVE_S (7 * 86400ul) /* hearthd's setting starve_after */

struct sched_policy sched_policy_live(void)
{
	return (struct sched_policy){.backfill = SCHED_RESERVE,
	                             .fair = 1,
	                             .by_limit = 1,
	                             .effort = LIVE_EFFORT,
	                             .starve_s = LIVE_STARVE_S};
}

void sched_now(struct sched *s, uint64_t now_s)
{
	if (now_s <= s->now_s)
		return;
	s->now_s = now_s;
	record_id(s->recorder, "now", now_s);
}

uint64_t sched_clock(const struct sched *s)
{
	return s->now_s;
}

/* Follows S-103. */
struct sched_decision *sched_step(struct sched *s)
{
	struct sched_decision *d = decide_step(s);

	record_step(s->recorder, d);
	return d;
}

void sched_decision_free(struct sched_decision *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->n; i++) {
		free(d->places[i].gpus);
		free(d->places[i].cpus);
	}
	free(d->places);
	free(d);
}

void sched_reservation_remove(struct sched *s, uint64_t id)
{
	record_id(s->recorder, "unbook", id);
	reservation_drop(s, id);
	plan_forget_all(s);
}

void sched_reservation_set(struct sched *s, const struct sched_reservation *r)
{
	record_reservation(s->recorder, r);
	reservation_drop(s, r->id);
	plan_forget_all(s);
	reservation_put(s, r);
}

void sched_record(struct sched *s, sched_record_fn fn, void *arg)
{
	recorder_free(s->recorder);
	s->recorder = fn ? recorder_create(fn, arg) : NULL;
	record_policy(s->recorder, &s->policy);
	record_id(s->recorder, "now", s->now_s);
}

void sched_destroy(struct sched *s)
{
	struct job *j, *tmp;

	if (!s)
		return;
	recorder_free(s->recorder);
	s->recorder = NULL;
	HASH_ITER (hh, s->jobs, j, tmp)
		sched_job_remove(s, j->id);
	pools_fini(s);
	nodes_fini(s);
	plan_fini(s);
	accounts_fini(s);
	lanes_fini(s);
	domains_fini(s);
	free(s->view);
	free(s->runs);
	free(s->bids);
	free(s->sorted);
	free(s);
}
