/*
 * pool_notes: see pool_notes.h.
 */
#include "controller/requests/pool_notes.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/share/pool_want.h"
#include "controller/share/pools.h"
#include "controller/state/launch_facts.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define NAMED_MAX 3 /* pools in a sentence */
#define NODES_MAX 8 /* nodes of a pool in a sentence */

struct pool_place {
	const struct pool_rec *pool;
	const struct pool_part *part;
};

struct pool_places {
	struct pool_place *v; /* by node */
	size_t n;
};

/* ---- by node --------------------------------------------------------------------------------------- */

static int by_node(const void *a, const void *b)
{
	const struct pool_place *x = a, *y = b;

	if (x->part->node_id != y->part->node_id)
		return x->part->node_id < y->part->node_id ? -1 : 1;
	return x->pool->id < y->pool->id ? -1 : x->pool->id > y->pool->id;
}

struct pool_places *pool_places_create(const struct core *c)
{
	struct pool_places *l = xcalloc(1, sizeof(*l));
	size_t n = 0;

	for (const struct pool_rec *p = pool_first(c); p; p = pool_next(p))
		n += p->n_parts;
	l->v = xcalloc(n ? n : 1, sizeof(*l->v));
	for (const struct pool_rec *p = pool_first(c); p; p = pool_next(p))
		for (uint32_t i = 0; i < p->n_parts; i++)
			l->v[l->n++] = (struct pool_place){p, &p->parts[i]};
	qsort(l->v, l->n, sizeof(*l->v), by_node);
	return l;
}

void pool_places_destroy(struct pool_places *l)
{
	free(l->v);
	free(l);
}

/* Returns the first part on the node, or where it would be. */
static size_t first_on(const struct pool_places *l, uint64_t node_id)
{
	size_t from = 0, to = l->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (l->v[mid].part->node_id < node_id)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static int is_parked(const struct pool_place *at)
{
	return at->pool->parked && !at->part->used_by;
}

static cJSON *place_json(const struct pool_place *at)
{
	const struct pool_rec *p = at->pool;
	cJSON *o = cJSON_CreateObject(), *gpus;

	json_add_u64(o, "pool", p->id);
	json_add_str(o, "name", p->name);
	json_add_str(o, "owner", p->owner);
	json_add_str(o, "state", pool_state_names[at->part->used_by ? POOL_IN_USE : POOL_AVAILABLE]);
	cJSON_AddBoolToObject(o, "parked", is_parked(at));
	json_add_time(o, "expires_at", pool_used_by(p) ? 0 : p->expires_us);
	gpus = cJSON_AddArrayToObject(o, "gpus");
	for (uint32_t i = 0; i < at->part->gpus.n; i++)
		cJSON_AddItemToArray(gpus, cJSON_CreateNumber(at->part->gpus.v[i]));
	return o;
}

void pool_places_json(const struct pool_places *l, uint64_t node_id, cJSON *node)
{
	cJSON *list = cJSON_AddArrayToObject(node, "pools");

	for (size_t i = first_on(l, node_id); i < l->n && l->v[i].part->node_id == node_id; i++)
		cJSON_AddItemToArray(list, place_json(&l->v[i]));
}

void pool_places_sums(const struct pool_places *l, cJSON *nodes)
{
	uint64_t n = 0, gpus = 0, last = 0, parked = 0, last_parked = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].part->used_by)
			continue;
		n += l->v[i].part->node_id != last;
		last = l->v[i].part->node_id;
		gpus += l->v[i].part->gpus.n;
		if (!is_parked(&l->v[i]))
			continue;
		parked += l->v[i].part->node_id != last_parked;
		last_parked = l->v[i].part->node_id;
	}
	json_add_u64(nodes, "warm_nodes", n);
	json_add_u64(nodes, "warm_gpus", gpus);
	json_add_u64(nodes, "parked_nodes", parked);
}

/* ---- of a job -------------------------------------------------------------------------------------- */

static int has_text(const cJSON *list, const char *text)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, list)
		if (strcmp(v->valuestring, text) == 0)
			return 1;
	return 0;
}

static void add_once(cJSON *list, const char *text)
{
	if (!has_text(list, text))
		cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

/* Adds nodes and others as in attempts[].pool. Returns how many nodes the job would have. */
static uint32_t add_warm_nodes(const struct core *c, const struct sched_forecast *f, uint64_t main, cJSON *o)
{
	cJSON *nodes = cJSON_AddArrayToObject(o, "nodes"), *others = cJSON_AddArrayToObject(o, "others"),
	      *all = cJSON_CreateArray();
	uint32_t n;

	for (uint32_t i = 0; i < f->n; i++) {
		const struct cnode *at = node_by_id(c, f->places[i].node);

		if (!at)
			continue;
		add_once(all, at->name);
		if (f->places[i].pool)
			add_once(nodes, at->name);
		if (f->places[i].pool && f->places[i].pool != main)
			add_once(pool_nodes_of_other(others, f->places[i].pool), at->name);
	}
	n = (uint32_t)cJSON_GetArraySize(all);
	cJSON_Delete(all);
	return n;
}

/* Adds "node-1, node-2 and 3 more", without those of the other pools. */
static void say_nodes(const cJSON *nodes, const cJSON *others, struct text *t)
{
	unsigned named = 0, more = 0;
	const cJSON *v, *o;

	cJSON_ArrayForEach (v, nodes) {
		int is_other = 0;

		cJSON_ArrayForEach (o, others)
			is_other |= has_text(cJSON_GetObjectItemCaseSensitive(o, "nodes"), v->valuestring);
		if (is_other)
			continue;
		if (named < NODES_MAX)
			text_add(t, "%s%.80s", named++ ? ", " : "", v->valuestring);
		else
			more++;
	}
	if (more)
		text_add(t, " and %u more", more);
}

/* o: the pool as in attempts[].pool, of a job on n nodes. Names the nodes when not all are warm in it. */
static void say_match(const cJSON *o, const char *verb, uint32_t n, struct text *t)
{
	const cJSON *missed = cJSON_GetObjectItemCaseSensitive(o, "missed"), *v,
	            *nodes = cJSON_GetObjectItemCaseSensitive(o, "nodes"),
	            *others = cJSON_GetObjectItemCaseSensitive(o, "others");
	uint32_t warm = (uint32_t)cJSON_GetArraySize(nodes);

	text_add(t, "%s warm pool %" PRIu64 " (level %s", verb, json_whole(o, "id", 0),
	         json_str_or(o, "level", "node"));
	if (cJSON_IsObject(missed) && json_str_or(missed, "text", NULL))
		text_add(t, ": %.240s", json_str_or(missed, "text", ""));
	else if (cJSON_IsObject(missed))
		text_add(t, ": %.80s differs", json_str_or(missed, "field", "?"));
	text_add(t, ")");
	if (!warm || (warm >= n && !cJSON_GetArraySize(others)))
		return;
	text_add(t, " on ");
	say_nodes(nodes, others, t);
	cJSON_ArrayForEach (v, others) {
		text_add(t, ", warm pool %" PRIu64 " on ", json_whole(v, "id", 0));
		say_nodes(cJSON_GetObjectItemCaseSensitive(v, "nodes"), NULL, t);
	}
	if (n > warm)
		text_add(t, "; %" PRIu32 " node%s cold", n - warm, n - warm == 1 ? " is" : "s are");
}

/* Returns the pool that most of the places are in; 0: none. */
static uint64_t most_used(const struct sched_forecast *f)
{
	uint64_t best = 0;
	uint32_t most = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		uint32_t n = 0;

		for (uint32_t k = i; k < f->n; k++)
			n += f->places[k].pool == f->places[i].pool;
		if (f->places[i].pool && n > most) {
			best = f->places[i].pool;
			most = n;
		}
	}
	return best;
}

static uint32_t at_most(uint32_t n, uint32_t most)
{
	return n < most ? n : most;
}

/* How the job would be launched there. A forecast names no GPUs and CPUs: it gets those of the pool first. */
static cJSON *launch_there(struct core *c, const struct pool_rec *p, const struct job_spec *s,
                           const struct sched_forecast *f)
{
	struct sched_place *v = xmemdup(f->places, f->n * sizeof(*v));
	cJSON *had = p->launch ? cJSON_Parse(p->launch) : NULL, *o;

	pool_order(c, p, v, f->n);
	for (uint32_t i = 0; i < f->n; i++) {
		const struct spec_group *g = &s->groups[v[i].group];
		const struct pool_part *part = pool_part_on(p, v[i].node);

		v[i].gpus = part ? part->gpus.v : NULL;
		v[i].cpus = part ? part->cpus.v : NULL;
		v[i].n_gpus = part ? at_most(g->gpus_per_instance, part->gpus.n) : 0;
		v[i].n_cpus = part ? at_most(g->cpus_per_rank * g->ranks_per_instance, part->cpus.n) : 0;
	}
	o = launch_facts_of_places(c, s, json_str_or(had, "account", ""), v, f->n);
	cJSON_Delete(had);
	free(v);
	return o;
}

void pool_note_places(struct core *c, const struct job_spec *s, const char *source,
                      const struct sched_forecast *f, cJSON *body, struct text *t)
{
	const struct pool_rec *p = cluster_pool(&c->records, most_used(f));
	cJSON *o, *wants, *launch;
	struct pool_fit fit;
	uint32_t n;

	if (!p) {
		cJSON_AddNullToObject(body, "pool");
		return;
	}
	wants = pool_wants(c, s, source);
	launch = launch_there(c, p, s, f);
	pool_fit(c, p, wants, launch, 1, &fit);
	cJSON_Delete(launch);
	o = cJSON_AddObjectToObject(body, "pool");
	json_add_u64(o, "id", p->id);
	json_add_str(o, "level", fit.level);
	cJSON_AddItemToObject(o, "missed", fit.missed ? fit.missed : cJSON_CreateNull());
	n = add_warm_nodes(c, f, p->id, o);
	say_match(o, " in", n, t);
	cJSON_Delete(wants);
}

/* Names idle pools of the owner. The job waits although they are free, so they do not suffice. */
static void say_owned(const struct core *c, const struct cjob *j, struct text *t)
{
	unsigned named = 0, more = 0;

	for (const struct pool_rec *p = pool_first(c); p; p = pool_next(p)) {
		if (pool_state_of(p) != POOL_AVAILABLE || strcmp(p->owner ? p->owner : "", j->r.owner) != 0)
			continue;
		if (named == NAMED_MAX)
			more++;
		else
			text_add(t, "%s%" PRIu64 " (%" PRIu32 " node%s)",
			         named++ ? ", " : "; warm pools of its owner: ", p->id, p->n_parts,
			         p->n_parts == 1 ? "" : "s");
	}
	if (more)
		text_add(t, " and %u more", more);
}

void pool_note_job(const struct core *c, const struct cjob *j, cJSON *body, struct text *t)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *o = a && a->pool && *a->pool && j->act ? cJSON_Parse(a->pool) : NULL;

	if (o)
		say_match(o, "; it uses", a->n_places, t);
	else if (j->r.status == JOB_QUEUED && j->r.wants_pool)
		pool_want_say(c, j->r.wants_pool, t);
	else if (j->r.status == JOB_QUEUED)
		say_owned(c, j, t);
	cJSON_AddItemToObject(body, "pool", o ? o : cJSON_CreateNull());
	pool_note_wanted(j->r.wants_pool, body);
}

void pool_note_wanted(uint64_t pool, cJSON *body)
{
	if (pool)
		json_add_u64(body, "wants_pool", pool);
	else
		cJSON_AddNullToObject(body, "wants_pool");
}
