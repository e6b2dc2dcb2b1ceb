/*
 * array_halve: successive halving of a sweep's members (the rule: halving.h).
 *
 * Points of the metric pass here on their way to the store. The first point at or beyond a rung's step
 * becomes an event of the member, and its record stores the value. A restarted controller therefore knows all
 * values without reading series. A member that performs too badly is stopped as by its owner; the event
 * carries `halved` and the reason. Members that failed or that a user stopped are not compared.
 */
#include "controller/run/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/halving.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/attempt.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

struct race {
	struct halving h;
	char *metric;
	uint32_t n;
	uint8_t *reached;          /* rungs that a member has reached */
	uint8_t *dead;             /* the member failed, or a user stopped it */
	double *at[HALVING_RUNGS]; /* values of members at a rung; NULL: no member has reached it */
	struct cjob *next, *prev;  /* in core->arrays.races */
};

void race_open(struct core *c, struct cjob *j)
{
	const struct spec_search *s = &j->arr->spec->search;
	struct race *r;

	if (!s->eta)
		return;
	r = j->arr->race = xcalloc(1, sizeof(*r));
	r->h = (struct halving){s->eta, s->max, s->min_step};
	r->metric = xstrdup(s->metric);
	r->n = j->r.members;
	r->reached = xcalloc(r->n, sizeof(*r->reached));
	r->dead = xcalloc(r->n, sizeof(*r->dead));
	DL_APPEND2(c->arrays.races, j, arr->race->prev, arr->race->next);
}

void race_free(struct core *c, struct cjob *j)
{
	struct race *r = j->arr->race;

	if (!r)
		return;
	DL_DELETE2(c->arrays.races, j, arr->race->prev, arr->race->next);
	for (unsigned i = 0; i < HALVING_RUNGS; i++)
		free(r->at[i]);
	free(r->metric);
	free(r->reached);
	free(r->dead);
	free(r);
	j->arr->race = NULL;
}

void race_follow(struct cjob *j, uint32_t index, enum job_status status, int halved)
{
	struct race *r = j->arr->race;

	if (!r || index >= r->n)
		return;
	if (status == JOB_FAILED || (status == JOB_STOPPED && !halved))
		r->dead[index] = 1;
}

static void put_value(struct race *r, uint32_t index, double value)
{
	unsigned rung = r->reached[index];

	if (rung >= HALVING_RUNGS)
		return;
	if (!r->at[rung])
		r->at[rung] = xcalloc(r->n, sizeof(*r->at[rung]));
	r->at[rung][index] = value;
	r->reached[index]++;
}

void race_load(struct cjob *j, uint32_t index, const char *rungs)
{
	struct race *r = j->arr->race;
	char *end;

	while (r && index < r->n && rungs && *rungs) {
		double v = strtod(rungs, &end);

		if (end == rungs)
			return;
		put_value(r, index, v);
		rungs = end;
	}
}

/* ---- judging ------------------------------------------------------------------------------------- */

/* Counts the members that are compared at this rung or a later one. */
static uint32_t count_compared(const struct race *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++)
		n += !r->dead[i];
	return n;
}

static void stop_member(struct core *c, const struct cjob *j, unsigned rung, const struct halving_value *v,
                        uint32_t better)
{
	struct cjob *m = job_find(c, j->r.id + 1 + v->index);
	const struct race *r = j->arr->race;
	cJSON *d;
	TEXT(reason);

	if (!m || job_ended(m->r.status) || m->r.status == JOB_STOPPING || m->r.wanted != WANT_NOTHING)
		return;
	text_add(&reason,
	         "stopped early (search.halving): at step %" PRId64
	         " %.128s was %.6g, and %u of %u members did better",
	         halving_step(&r->h, rung), r->metric, v->value, better, count_compared(r));
	d = cJSON_CreateObject();
	json_add_str(d, "reason", reason.at);
	cJSON_AddTrueToObject(d, "halved");
	json_add_u64(d, "rung", rung);
	job_stop(c, m, d);
	log_info("event=halved job=%" PRIu64 " rung=%u", m->r.id, rung);
}

static void judge_rung(struct core *c, struct cjob *j, unsigned rung)
{
	const struct race *r = j->arr->race;
	uint32_t keep = halving_keep(&r->h, rung, count_compared(r)), n = 0;
	struct halving_value *v = xcalloc(r->n, sizeof(*v));

	for (uint32_t i = 0; i < r->n; i++)
		if (r->reached[i] > rung && !r->dead[i])
			v[n++] = (struct halving_value){i, r->at[rung][i]};
	halving_sort(&r->h, v, n);
	for (uint32_t i = keep; i < n; i++)
		if (r->reached[v[i].index] == rung + 1) /* members beyond this rung are judged at theirs */
			stop_member(c, j, rung, &v[i], i);
	free(v);
}

/* ---- points -------------------------------------------------------------------------------------- */

/* Records the rungs that the member reaches with this point. Returns the last of them, or -1. */
static int record_rung(struct core *c, struct cjob *m, struct race *r, int64_t step, double value)
{
	uint32_t index = rec_index(&m->r);
	int last = -1;

	while (r->reached[index] < HALVING_RUNGS && step >= halving_step(&r->h, r->reached[index])) {
		cJSON *d = cJSON_CreateObject();

		last = r->reached[index];
		json_add_u64(d, "rung", (uint64_t)last);
		cJSON_AddNumberToObject(d, "step", (double)step);
		if (isfinite(value))
			cJSON_AddNumberToObject(d, "value", value);
		else
			cJSON_AddNullToObject(d, "value");
		job_post(c, m, EV_RUNG, d);
		put_value(r, index, isfinite(value) ? value : NAN);
	}
	return last;
}

static struct cjob *race_of(const struct core *c, uint64_t job)
{
	struct cjob *j;

	DL_FOREACH2(c->arrays.races, j, arr->race->next)
	if (job > j->r.id && job <= j->r.id + j->r.members)
		return j;
	return NULL;
}

void array_points(struct core *c, const struct wm_metrics *m)
{
	struct cjob *j = race_of(c, m->job), *member;
	int from = INT32_MAX, to = -1;
	struct err e;

	if (!j)
		return;
	member = job_get(c, m->job, &e); /* points may come after the end */
	if (!member || member->r.array != j->r.id || member->r.deleted)
		return;
	for (uint32_t i = 0; i < m->name_ix.n; i++) {
		int rung;

		if (m->steps.v[i] < 0 || strcmp(m->names.v[m->name_ix.v[i]], j->arr->race->metric) != 0)
			continue;
		rung = record_rung(c, member, j->arr->race, m->steps.v[i], m->values.v[i]);
		if (rung >= 0 && rung < from)
			from = rung;
		if (rung > to)
			to = rung;
	}
	for (int rung = from; rung <= to; rung++)
		judge_rung(c, j, (unsigned)rung);
}
