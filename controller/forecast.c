/*
 * forecast: when and where a waiting job is believed to start, and what it costs.
 *
 * The library works it out; how long jobs take is learned here from those of the same owner and name that
 * completed (from being placed to being cleaned up), newer ones counting more. What was learned is forgotten
 * by a restart; until then, and for names that never completed, a job is believed to take its time limit.
 *
 * A job pays for what it holds: of a node's price the part of its GPUs, of one without GPUs the part of its
 * CPU slots; all of it when it has the node for itself.
 */
#include "common/json.h"
#include "common/strutil.h"
#include "controller/core_int.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEARNED_MAX 10000 /* names; the one that was learned first goes */
#define FADE        0.8

struct learned {
	char *key;
	double sum, n; /* seconds, weight */
	UT_hash_handle hh;
};

static char *key_of(const char *owner, const char *name)
{
	return xasprintf("%s\n%s", owner ? owner : "", name ? name : "");
}

static void drop(struct core *c, struct learned *l)
{
	HASH_DELETE(hh, c->learned, l);
	free(l->key);
	free(l);
}

void learned_clear(struct core *c)
{
	while (c->learned)
		drop(c, c->learned);
}

void learn_time(struct core *c, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	struct learned *l;
	char *key;

	if (a->outcome != OUT_SUCCEEDED || a->ended_us <= a->started_us)
		return;
	key = key_of(j->r.owner, j->r.name);
	HASH_FIND_STR(c->learned, key, l);
	if (!l) {
		if (HASH_COUNT(c->learned) >= LEARNED_MAX)
			drop(c, c->learned);
		l = xcalloc(1, sizeof *l);
		l->key = xstrdup(key);
		HASH_ADD_KEYPTR(hh, c->learned, l->key, strlen(l->key), l);
	}
	free(key);
	l->sum = l->sum * FADE + (double)(a->ended_us - a->started_us) / 1e6;
	l->n = l->n * FADE + 1;
}

double expected_s(const struct core *c, const char *owner, const char *name)
{
	const struct learned *l;
	char *key;

	if (!c->learned) /* it is asked for each job that runs */
		return 0;
	key = key_of(owner, name);
	HASH_FIND_STR(c->learned, key, l);
	free(key);
	return l ? fmax(l->sum / l->n, 0.001) : 0;
}

struct asked {
	struct core *c;
	const char *owner, *name; /* of a job that is not there yet */
};

static double takes(uint64_t job, void *arg)
{
	const struct asked *a = arg;
	const struct cjob *j = job_find(a->c, job);

	return j ? expected_s(a->c, j->r.owner, j->r.name) : expected_s(a->c, a->owner, a->name);
}

void forecast(struct core *c, uint64_t job, const char *owner, const char *name, struct sched_forecast *out)
{
	struct asked a = {c, owner, name};

	sched_forecast(c->sched, job, takes, &a, out);
	c->sched_dirty = 1; /* the place that was kept has to be made anew */
}

void forecast_json(struct core *c, const struct sched_forecast *f, cJSON *body)
{
	char at[CLOCK_RFC3339_SIZE];
	uint64_t now = sched_time(c);

	if (f->start_s == UINT64_MAX) {
		cJSON_AddNullToObject(body, "expected_start");
	} else {
		clock_rfc3339(now_real(c) + (f->start_s > now ? f->start_s - now : 0) * 1000000, at);
		json_add_str(body, "expected_start", at);
	}
	cJSON_AddBoolToObject(body, "expected_whole", f->whole);
	cJSON_AddBoolToObject(body, "expected_cut", f->cut);
}

int forecast_text(struct core *c, const struct sched_forecast *f, char *out, size_t n)
{
	uint64_t now = sched_time(c);
	char span[40];

	out[0] = '\0';
	if (!f->whole && (f->start_s <= now || (f->cut && f->start_s == UINT64_MAX))) {
		snprintf(out, n, "too many jobs run or wait to say when it starts");
		return 1;
	}
	if (f->start_s == UINT64_MAX)
		return 0;
	str_duration(f->start_s > now ? f->start_s - now : 0, span, sizeof span);
	if (f->whole && f->start_s <= now)
		snprintf(out, n, "expected to start within seconds");
	else
		snprintf(out, n, f->whole ? "expected to start in about %s" : "not before %s from now", span);
	return 1;
}

/* ---- prices ------------------------------------------------------------------------------------ */

static double part_price(const struct core *c, const struct cnode *n, uint32_t gpus, uint32_t slots,
                         int exclusive)
{
	double whole = n ? node_price(c, n) : 0;

	if (!n || exclusive)
		return whole;
	if (n->inv.n_gpus && gpus)
		return whole * gpus / n->inv.n_gpus;
	return n->inv.slots ? whole * fmin((double)slots / n->inv.slots, 1) : 0;
}

double places_price(const struct core *c, const struct job_spec *s, const struct sched_place *p, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct spec_group *g = &s->groups[p[i].group];

		sum += part_price(c, node_by_id(c, p[i].node), g->gpus_per_instance,
		                  g->ranks_per_instance * g->cpus_per_rank, s->exclusive);
	}
	return sum;
}

double decision_price(const struct core *c, const struct job_spec *s, const struct sched_decision *d)
{
	double sum = 0;

	for (uint32_t i = 0; i < d->n; i++)
		sum += part_price(c, node_by_id(c, d->places[i].node), d->places[i].n_gpus, d->places[i].n_cpus,
		                  s->exclusive);
	return sum;
}

double attempt_price(const struct core *c, const struct job_spec *s, const struct attempt_rec *a)
{
	double sum = 0;

	for (uint32_t i = 0; i < a->n_places; i++)
		sum += part_price(c, node_by_id(c, a->places[i].node_id), a->places[i].gpus.n, a->places[i].cpus.n,
		                  s->exclusive);
	return sum;
}
