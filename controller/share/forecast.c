/*
 * forecast: when and where a waiting job is believed to start, and what it costs.
 *
 * The library computes the forecast. This file learns how long jobs take, from placement to cleanup, from
 * completed jobs of the same owner and name; newer ones count more. After a start hearthd learns from the
 * stored attempts. A job of a name that never completed is believed to take its time limit.
 *
 * Decisions use this belief too, with caution, for jobs without a time limit of the user: some ends must have
 * been seen, and the job is believed to take several times as long. The belief is rounded up coarsely,
 * because the library treats jobs with different times as different kinds.
 *
 * A job pays for what it holds: its share of a node's GPUs, or of the CPU slots of a node without GPUs. An
 * exclusive job pays for the whole node.
 */
#include "controller/share/forecast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/record/inventory.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/share/instances.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

#define LEARNED_MAX 10000 /* names; the oldest one is dropped */
#define FADE        0.8

#define BELIEVED_SEEN    3
#define BELIEVED_LEAST_S 10
#define CAUTION          3 /* the library uses the same factor */

struct learned {
	char *key;
	double sum, n; /* seconds, weight */
	uint32_t seen; /* ends */
	UT_hash_handle hh;
};

static char *key_of(const char *owner, const char *name)
{
	return xasprintf("%s\n%s", owner ? owner : "", name ? name : "");
}

static void drop_learned(struct core *c, struct learned *l)
{
	HASH_DELETE(hh, c->learned, l);
	free(l->key);
	free(l);
}

void learned_clear(struct core *c)
{
	while (c->learned)
		drop_learned(c, c->learned);
}

void forecast_learn(struct core *c, const char *owner, const char *name, double took_s)
{
	char *key = key_of(owner, name);
	struct learned *l;

	HASH_FIND_STR(c->learned, key, l);
	if (!l) {
		if (HASH_COUNT(c->learned) >= LEARNED_MAX)
			drop_learned(c, c->learned);
		l = xcalloc(1, sizeof(*l));
		l->key = xstrdup(key);
		HASH_ADD_KEYPTR(hh, c->learned, l->key, strlen(l->key), l);
	}
	free(key);
	l->sum = l->sum * FADE + took_s;
	l->n = l->n * FADE + 1;
	l->seen += l->seen < UINT32_MAX;
}

void learn_time(struct core *c, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	if (a->outcome == OUT_SUCCEEDED && a->ended_us > a->started_us)
		forecast_learn(c, j->r.owner, j->r.name, (double)(a->ended_us - a->started_us) / 1e6);
}

static const struct learned *find_learned(const struct core *c, const char *owner, const char *name)
{
	const struct learned *l;
	char *key;

	if (!c->learned) /* called for each running job */
		return NULL;
	key = key_of(owner, name);
	HASH_FIND_STR(c->learned, key, l);
	free(key);
	return l;
}

/* Follows S-322. */
double expected_s(const struct core *c, const char *owner, const char *name)
{
	const struct learned *l = find_learned(c, owner, name);

	return l ? fmax(l->sum / l->n, 0.001) : 0;
}

uint64_t round_up_bits(uint64_t v, unsigned bits)
{
	unsigned shift = 0;

	while (v >> shift >> bits)
		shift++;
	return ((v + ((uint64_t)1 << shift) - 1) >> shift) << shift;
}

uint64_t believed_s(const struct core *c, const char *owner, const char *name)
{
	const struct learned *l = find_learned(c, owner, name);
	double s = l && l->seen >= BELIEVED_SEEN ? fmin(CAUTION * l->sum / l->n, 1e9) : 0;

	return s > 0 ? round_up_bits((uint64_t)fmax(ceil(s), BELIEVED_LEAST_S), 4) : 0;
}

struct asked {
	struct core *c;
	const char *owner, *name; /* of a job that is not submitted yet */
};

static double expected_time_cb(uint64_t job, void *arg)
{
	const struct asked *a = arg;
	const struct cjob *j = job_find(a->c, job);

	return j ? expected_s(a->c, j->r.owner, j->r.name) : expected_s(a->c, a->owner, a->name);
}

void forecast_job(struct core *c, uint64_t job, const char *owner, const char *name,
                  struct sched_forecast *out)
{
	struct asked a = {c, owner, name};

	sched_forecast(c->sched, job, expected_time_cb, &a, out);
	c->alloc.dirty = 1; /* a forecast drops the reservation; the next pass makes it again */
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
		snprintf(out, n, "too many jobs run or wait to forecast its start");
		return 1;
	}
	if (f->start_s == UINT64_MAX)
		return 0;
	str_duration(f->start_s > now ? f->start_s - now : 0, span, sizeof(span));
	if (f->whole && f->start_s <= now)
		snprintf(out, n, "expected to start within seconds");
	else
		snprintf(out, n, f->whole ? "expected to start in about %s" : "not before %s from now", span);
	return 1;
}

/* ---- prices ------------------------------------------------------------------------------------ */

/* Follows S-324. */
double part_price(const struct core *c, const struct cnode *n, uint32_t gpus, uint32_t slots, int exclusive)
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
