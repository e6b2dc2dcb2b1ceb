/*
 * rules: the rules of a job (common/watch/rule.h) on its live points.
 *
 * A rule on a metric judges the lowest rank that reports it, as feed.c does. Agents match the patterns,
 * within the CPU budget of the launch, and report a line as a point of the metric "rule:NAME".
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/state/core_state.h"
#include "controller/watch/watch_int.h"

#define SAVED 8 /* numbers of a stored rule */

struct job_rule {
	struct rule_state s;
	uint32_t rank; /* NO_RANK none */
	int64_t step, counted;
	uint64_t at_us; /* of its last point, by the node's clock */
};

static void begin_attempt(struct job_watch *w)
{
	for (uint32_t i = 0; i < w->n_rules; i++) {
		rule_begin(&w->rules[i].s);
		w->rules[i].rank = NO_RANK;
		w->rules[i].step = w->rules[i].counted = -1;
		w->rules[i].at_us = 0;
	}
	w->rules_attempt = w->job->r.attempts;
}

static void open_rules(struct job_watch *w)
{
	const struct job_spec *spec = w->job->act->spec;

	if (!w->rules && spec->n_rules) {
		w->n_rules = (uint32_t)spec->n_rules;
		w->rules = xcalloc(w->n_rules, sizeof(*w->rules));
	}
	if (w->n_rules && w->rules_attempt != w->job->r.attempts)
		begin_attempt(w);
}

/* ---- points ------------------------------------------------------------------------------------------ */

static int is_of(const struct watch_rule *r, const char *name)
{
	size_t n = sizeof(RULE_METRIC) - 1;

	return r->metric ? strcmp(name, r->metric) == 0
	                 : strncmp(name, RULE_METRIC, n) == 0 && strcmp(name + n, r->name) == 0;
}

uint32_t *watch_rules_of(struct job_watch *w, const struct wire_strv *names)
{
	const struct job_spec *spec = w->job->act->spec;
	uint32_t *masks;

	open_rules(w);
	if (!w->n_rules)
		return NULL;
	masks = xcalloc(names->n + 1, sizeof(*masks));
	for (uint32_t i = 0; i < names->n; i++)
		for (uint32_t k = 0; k < w->n_rules; k++)
			masks[i] |= (uint32_t)is_of(&spec->rules[k], names->v[i]) << k;
	return masks;
}

static int is_watched(struct job_rule *j, const struct feed_point *p)
{
	if (p->rank != j->rank && j->rank != NO_RANK &&
	    !(p->rank < j->rank && (p->step < 0 || p->step > j->step)) && p->step <= j->step + FEED_AHEAD)
		return 0;
	j->rank = p->rank;
	j->at_us = p->at_us;
	return 1;
}

/* Returns 1 when the rule is to be raised. */
static int judge_rule(struct core *c, struct job_rule *j, const struct watch_rule *r,
                      const struct feed_point *p)
{
	if (r->pattern)
		return rule_seen(r, &j->s, now_boot(c));
	if (!is_watched(j, p))
		return 0;
	j->step = p->step >= 0 ? p->step : ++j->counted;
	return rule_point(r, &j->s, j->step, p->value, now_boot(c));
}

int watch_rules_judge(struct core *c, struct job_watch *w, uint32_t mask, const struct watch_seen *by,
                      const struct feed_point *p)
{
	int found = 0;

	for (uint32_t k = 0; k < w->n_rules && w->job->act; k++) {
		const struct watch_rule *r = &w->job->act->spec->rules[k];
		struct job_rule *j = &w->rules[k];

		if (!(mask >> k & 1) || !judge_rule(c, j, r, p))
			continue;
		watch_raise(c, w, by, &(struct watch_raised){r, &j->s, p->step, p->value});
		found = 1;
	}
	return found;
}

int watch_rules_series(const struct job_watch *w, uint32_t k, struct feed_series *out)
{
	const struct job_rule *j = &w->rules[k];

	/* A line is an event already when it is stored. */
	if (!w->job->act->spec->rules[k].metric)
		return 0;
	*out = (struct feed_series){.name = w->job->act->spec->rules[k].metric,
	                            .rank = j->rank == NO_RANK ? 0 : j->rank,
	                            .after_us = j->at_us,
	                            .after_step = j->step};
	return 1;
}

/* ---- time -------------------------------------------------------------------------------------------- */

int watch_rules_tick(struct core *c, struct job_watch *w)
{
	const struct cjob *job = w->job;
	struct watch_seen by = {NO_RANK, NULL};
	int found = 0;

	if (!job->act || !job->r.att || job->r.att->state != ATT_RUNNING || !job->act->spec->n_rules)
		return 0;
	open_rules(w);
	for (uint32_t k = 0; k < w->n_rules && job->act; k++) {
		const struct watch_rule *r = &job->act->spec->rules[k];
		struct rule_state *s = &w->rules[k].s;

		if (!r->pattern || !rule_silent(r, s, now_boot(c)))
			continue;
		watch_raise(c, w, &by, &(struct watch_raised){r, s, w->feed ? feed_step(w->feed) : -1, 0});
		found = 1;
	}
	return found;
}

/* ---- state ------------------------------------------------------------------------------------------- */

cJSON *watch_rules_save(const struct job_watch *w)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < w->n_rules; i++) {
		const struct job_rule *j = &w->rules[i];
		double v[] = {(double)j->s.since, (double)j->s.last,  (double)j->s.acts, (double)j->s.fired,
		              (double)j->rank,    (double)j->counted, (double)j->step,   (double)j->at_us};

		cJSON_AddItemToArray(list, cJSON_CreateDoubleArray(v, SAVED));
	}
	return list;
}

static double number_at(const cJSON *list, int i)
{
	const cJSON *v = cJSON_GetArrayItem(list, i);

	return cJSON_IsNumber(v) && v->valuedouble >= -1 && v->valuedouble < 0x1p53 ? v->valuedouble : -1;
}

void watch_rules_load(struct job_watch *w, const cJSON *list, uint32_t attempt)
{
	open_rules(w);
	for (uint32_t i = 0; i < w->n_rules; i++) {
		const cJSON *v = cJSON_GetArrayItem(list, (int)i);
		struct job_rule *j = &w->rules[i];

		if (cJSON_GetArraySize(v) != SAVED)
			continue;
		j->s.acts = (int64_t)number_at(v, 2) > 0 ? (int64_t)number_at(v, 2) : 0;
		if (attempt != w->rules_attempt) /* what follows was of an attempt before */
			continue;
		j->s.since = (int64_t)number_at(v, 0);
		j->s.last = (int64_t)number_at(v, 1);
		j->s.fired = number_at(v, 3) > 0;
		j->rank = number_at(v, 4) < 0 ? NO_RANK : (uint32_t)number_at(v, 4);
		j->counted = (int64_t)number_at(v, 5);
		j->step = (int64_t)number_at(v, 6);
		j->at_us = number_at(v, 7) > 0 ? (uint64_t)number_at(v, 7) : 0;
	}
}
