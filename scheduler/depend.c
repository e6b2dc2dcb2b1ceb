/*
 * depend: jobs that wait for others. They stand in no lane until all is settled.
 *
 * The library knows only jobs that it was given: one that is not here counts as ended and, since the
 * controller resolves what ended long ago before it adds a job, as ended well.
 */
#include "scheduler/model.h"

static const struct job *find(const struct sched *s, uint64_t id)
{
	const struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	return j;
}

static int settled(const struct sched *s, const struct sched_dep *d)
{
	const struct job *j = d->job == DEP_MET || d->job == DEP_NEVER ? NULL : find(s, d->job);

	return !j || (d->kind == SCHED_AFTER_START && j->n_holds);
}

int depend_state(const struct sched *s, const struct job *j)
{
	int waits = 0;

	for (uint32_t i = 0; i < j->n_after; i++) {
		if (j->after[i].job == DEP_NEVER)
			return 2;
		waits |= !settled(s, &j->after[i]);
	}
	return waits;
}

static void tell_one(struct sched *s, struct job *j, uint64_t id, int started, int well)
{
	for (uint32_t i = 0; i < j->n_after; i++) {
		struct sched_dep *d = &j->after[i];

		if (d->job != id || (started && d->kind != SCHED_AFTER_START))
			continue;
		/* One that never started and is gone did not start; one that ended did once. */
		d->job = started || well || d->kind == SCHED_AFTER_ANY ? DEP_MET : DEP_NEVER;
	}
	if (depend_state(s, j))
		return;
	j->is_held = 0;
	s->n_held--;
	lane_wait(s, j);
}

static void tell(struct sched *s, uint64_t id, int started, int well)
{
	if (!s->n_held)
		return;
	for (struct job *j = s->jobs; j; j = j->hh.next)
		if (j->is_held)
			tell_one(s, j, id, started, well);
}

void depend_started(struct sched *s, uint64_t id)
{
	tell(s, id, 1, 0);
}

void depend_tell(struct sched *s, uint64_t id, int well)
{
	tell(s, id, 0, well);
}
