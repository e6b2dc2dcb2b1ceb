/*
 * depend: jobs that wait for others. They are in no lane until all their dependencies are settled.
 *
 * An open dependency hangs at the job that it waits for, so a start or an end costs only what waits for it.
 * The library knows only jobs that it was given. An unknown job counts as ended well, because the caller
 * resolves what ended long ago before it adds a job. sched_settled reports what is settled later.
 */
#include "scheduler/model/job.h"

#include <stdlib.h>

#include "scheduler/base/uthash.h"
#include "scheduler/model/model.h"
#include "scheduler/record/recorder.h"

static void move_dep(struct dep *d, struct dep **to)
{
	if (d->list)
		DL_DELETE(*d->list, d);
	d->list = to;
	if (to)
		DL_APPEND(*to, d);
}

/* Follows S-261, S-262 and S-263. */
void depend_set(struct sched *s, struct job *j, const struct sched_job *in)
{
	j->after = in->n_after ? mem_alloc(in->n_after, sizeof(*j->after)) : NULL;
	j->n_after = in->n_after;
	for (uint32_t i = 0; i < in->n_after; i++) {
		struct dep *d = &j->after[i];
		struct job *on = model_job_find(s, in->after[i].job);

		*d = (struct dep){.on = in->after[i].job, .who = j, .kind = in->after[i].kind, .state = DEP_MET};
		if (!on || on == j || (d->kind == SCHED_AFTER_START && on->n_holds))
			continue;
		d->state = DEP_OPEN;
		j->n_open++;
		move_dep(d, &on->waiters);
	}
}

void depend_clear(struct sched *s, struct job *j)
{
	(void)s;
	for (uint32_t i = 0; i < j->n_after; i++)
		move_dep(&j->after[i], NULL);
	free(j->after);
	j->after = NULL;
	j->n_after = j->n_open = j->n_never = 0;
}

static void settle_dep(struct sched *s, struct dep *d, int met)
{
	struct job *j = d->who;

	move_dep(d, &s->settled);
	d->state = met ? DEP_MET : DEP_NEVER;
	j->n_open--;
	j->n_never += !met;
	if (j->n_open || j->n_never || !j->is_held)
		return;
	j->is_held = 0;
	s->n_held--;
	lane_wait(s, j);
}

void sched_job_started(struct sched *s, uint64_t id)
{
	struct job *j = model_job_find(s, id);
	struct dep *d, *tmp;

	record_id(s->recorder, "started", id);
	if (!j || !j->n_holds)
		return;
	j->is_begun = 1;
	DL_FOREACH_SAFE (j->waiters, d, tmp) {
		if (d->kind == SCHED_AFTER_START)
			settle_dep(s, d, 1);
	}
}

/* Whose start is still waited for never started. */
void depend_ended(struct sched *s, struct job *j, int well)
{
	while (j->waiters) {
		struct dep *d = j->waiters;

		settle_dep(s, d, d->kind == SCHED_AFTER_ANY || (d->kind == SCHED_AFTER_OK && well));
	}
}

/* Follows S-264. */
int sched_settled(struct sched *s, struct sched_settled *out)
{
	struct dep *d = s->settled;

	if (!d)
		return 0;
	*out = (struct sched_settled){d->who->id, d->on, d->kind, d->state == DEP_MET, d->who->n_open};
	move_dep(d, NULL);
	return 1;
}

void sched_job_know(struct sched *s, uint64_t id)
{
	struct job *j = model_job_find(s, id);

	record_id(s->recorder, "know", id);
	if (!j)
		model_job_make(s, id);
}

const char *depend_check(const struct sched *s)
{
	const struct dep *d;

	for (const struct job *j = s->jobs; j; j = j->hh.next) {
		uint32_t open = 0;

		for (uint32_t i = 0; i < j->n_after; i++) {
			const struct job *on = model_job_find(s, j->after[i].on);

			open += j->after[i].state == DEP_OPEN;
			if (j->after[i].who != j ||
			    (j->after[i].state == DEP_OPEN && (!on || j->after[i].list != &on->waiters)))
				return "depend: what a job waits for hangs elsewhere";
		}
		if (open != j->n_open || (j->is_held != (open || j->n_never) && !j->n_holds))
			return "depend: counted wrongly";
		DL_FOREACH (j->waiters, d) {
			if (d->on != j->id || d->state != DEP_OPEN)
				return "depend: a settled one still waits";
		}
	}
	return NULL;
}
