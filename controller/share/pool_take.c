/*
 * pool_take: what decisions of the scheduler library do to pools.
 *
 * The library says which parts left their pools, and to whom (sched_pool_lost). A decision that becomes an
 * attempt is noted in the records. Any other one was taken back, so the library gets the pools again as the
 * records have them.
 */
#include "controller/share/pools.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/launch_facts.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

static void drain_lost(struct core *c)
{
	struct sched_pool_lost one;

	while (sched_pool_lost(c->sched, &one)) {
		c->pools.lost = xreallocarray(c->pools.lost, c->pools.n_lost + 1, sizeof(*c->pools.lost));
		c->pools.lost[c->pools.n_lost++] = one;
	}
}

static int is_taken_by(const struct sched_pool_lost *l, const struct cjob *j, uint64_t pool)
{
	return l->taken && l->job == j->r.id && (!pool || l->pool == pool);
}

static uint32_t count_taken(const struct core *c, const struct cjob *j, uint64_t pool)
{
	uint32_t n = 0;

	for (size_t i = 0; i < c->pools.n_lost; i++)
		n += (uint32_t)is_taken_by(&c->pools.lost[i], j, pool);
	return n;
}

/* 1: the job takes all of the pool, and nobody else gives back more of it. */
static int takes_whole(const struct core *c, const struct cjob *j, const struct pool_rec *p)
{
	const struct cjob *last = job_find(c, p->last_job);

	return !pool_used_by(p) && !(last && !job_ended(last->r.status)) &&
	       count_taken(c, j, p->id) == p->n_parts;
}

/* Returns the pool that the job uses: the largest that it takes as a whole, else the one of which it takes
 * most. whole: which of the two. NULL: it takes none. */
static struct pool_rec *choose_pool(const struct core *c, const struct cjob *j, int *whole)
{
	struct pool_rec *best = NULL;
	uint32_t most = 0;

	*whole = 0;
	for (size_t i = 0; i < c->pools.n_lost; i++) {
		struct pool_rec *p =
		    is_taken_by(&c->pools.lost[i], j, 0) ? cluster_pool(&c->records, c->pools.lost[i].pool) : NULL;
		uint32_t n = p ? count_taken(c, j, p->id) : 0;
		int all = p && !j->pool && takes_whole(c, j, p);

		if (p && (all > *whole || (all == *whole && n > most))) {
			best = p;
			most = n;
			*whole = all;
		}
	}
	return best;
}

static void add_node_names(const struct core *c, const struct cjob *j, uint64_t pool, cJSON *list)
{
	for (size_t i = 0; i < c->pools.n_lost; i++) {
		const struct cnode *n =
		    is_taken_by(&c->pools.lost[i], j, pool) ? node_by_id(c, c->pools.lost[i].node) : NULL;

		if (n)
			cJSON_AddItemToArray(list, cJSON_CreateString(n->name));
	}
}

/* The pool that the job uses since an earlier attempt, and the nodes of it that it has again. */
static void add_kept(const struct core *c, const struct pool_rec *p, const struct sched_decision *dec,
                     cJSON *list)
{
	for (uint32_t i = 0; i < dec->n; i++) {
		const struct pool_part *part = pool_part_on(p, dec->places[i].node);

		if (part && node_by_id(c, part->node_id))
			cJSON_AddItemToArray(list, cJSON_CreateString(part->node));
	}
}

static void add_node_name(cJSON *list, const struct cnode *n)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, list)
		if (n && strcmp(v->valuestring, n->name) == 0)
			n = NULL;
	if (n)
		cJSON_AddItemToArray(list, cJSON_CreateString(n->name));
}

cJSON *pool_nodes_of_other(cJSON *others, uint64_t pool)
{
	cJSON *o;

	cJSON_ArrayForEach (o, others)
		if (json_whole(o, "id", 0) == pool)
			return cJSON_GetObjectItemCaseSensitive(o, "nodes");
	o = cJSON_CreateObject();
	cJSON_AddItemToArray(others, o);
	json_add_u64(o, "id", pool);
	return cJSON_AddArrayToObject(o, "nodes");
}

/* Adds nodes that are warm in other pools, which the job takes, too. */
static void add_others(const struct core *c, const struct cjob *j, uint64_t main, cJSON *o, cJSON *nodes)
{
	cJSON *others = cJSON_AddArrayToObject(o, "others");

	for (size_t i = 0; i < c->pools.n_lost; i++) {
		const struct sched_pool_lost *l = &c->pools.lost[i];
		const struct cnode *n = l->pool != main && is_taken_by(l, j, 0) ? node_by_id(c, l->node) : NULL;

		if (!n)
			continue;
		add_node_name(pool_nodes_of_other(others, l->pool), n);
		add_node_name(nodes, n);
	}
}

void pools_arrange(struct core *c, const struct cjob *j, const struct sched_decision *dec)
{
	const struct pool_rec *p;
	int whole;

	drain_lost(c);
	p = choose_pool(c, j, &whole);
	if (p && whole)
		pool_order(c, p, dec->places, dec->n);
}

void pools_placed(struct core *c, struct cjob *j, const struct sched_decision *dec, cJSON *d)
{
	struct pool_rec *p, *used = j->pool ? cluster_pool(&c->records, j->pool) : NULL;
	cJSON *environment, *launch, *o, *nodes;
	struct pool_fit fit;
	int whole;

	drain_lost(c);
	p = choose_pool(c, j, &whole);
	if (!p && (!used || pool_used_by(used) != j->r.id))
		return;
	environment = pool_environment(j->act->spec, j->r.bundle, &j->act->inputs);
	launch = launch_facts_of_places(c, j->act->spec, rec_account(&j->r), dec->places, dec->n);
	pool_fit(c, p ? p : used, environment, launch, p && whole, &fit);
	cJSON_Delete(environment);
	cJSON_Delete(launch);
	o = cJSON_AddObjectToObject(d, "pool");
	json_add_u64(o, "id", p ? p->id : used->id);
	json_add_str(o, "level", fit.level);
	cJSON_AddItemToObject(o, "missed", fit.missed ? fit.missed : cJSON_CreateNull());
	if (fit.parking)
		json_add_u64(o, "parked", fit.parking);
	nodes = cJSON_AddArrayToObject(o, "nodes");
	if (p)
		add_node_names(c, j, p->id, nodes);
	else
		add_kept(c, used, dec, nodes);
	add_others(c, j, p ? p->id : used->id, o, nodes);
}

/* What the attempt has noted of that pool, or how well a part of another one fits. */
static void add_level(const struct cjob *j, const struct pool_rec *p, cJSON *d)
{
	cJSON *noted = j->r.att->pool ? cJSON_Parse(j->r.att->pool) : NULL, *wants, *missed;

	if (json_whole(noted, "id", 0) == p->id) {
		json_add_str(d, "level", json_str_or(noted, "level", "node"));
		cJSON_Delete(noted);
		return;
	}
	wants = pool_environment(j->act->spec, j->r.bundle, &j->act->inputs);
	missed = pool_missed(p->environment, wants);
	json_add_str(d, "level", missed ? "node" : "environment");
	cJSON_Delete(noted);
	cJSON_Delete(wants);
	cJSON_Delete(missed);
}

static void post_taken(struct core *c, struct cjob *j, struct pool_rec *p, int whole)
{
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "pool", p->id);
	json_add_u64(d, "job", j->r.id);
	json_add_u64(d, "left_by", p->last_job);
	if (whole)
		json_add_str(d, "name", j->r.name);
	add_level(j, p, d);
	cJSON_AddBoolToObject(d, "whole", whole);
	add_node_names(c, j, p->id, cJSON_AddArrayToObject(d, "nodes"));
	if (cluster_post(c, EV_POOL_TAKEN, d) < 0)
		return;
	pool_bill(c, p);
	log_info("event=pool_taken pool=%" PRIu64 " job=%" PRIu64 " whole=%d", p->id, j->r.id, whole);
	j->pool_chain_us = p->chain_us;
	if (whole || FAULT("mistake.two_takers"))
		j->pool = p->id;
	for (uint32_t i = 0; i < j->r.att->n_places; i++)
		pools_send(c, node_by_id(c, j->r.att->places[i].node_id));
}

/* Notes one part that the job got without a pool of its own; all of the same pool go with it. */
static void post_gave_way(struct core *c, struct cjob *j, struct pool_rec *p)
{
	struct strv nodes = {0};
	char *text = xasprintf("job %" PRIu64 " could not start without it", j->r.id);

	for (size_t i = 0; i < c->pools.n_lost; i++) {
		const struct sched_pool_lost *l = &c->pools.lost[i];
		const struct cnode *n = l->pool == p->id && l->job == j->r.id ? node_by_id(c, l->node) : NULL;

		if (n)
			strv_add(&nodes, n->name);
	}
	pool_end(c, p, POOL_GAVE_WAY, &nodes, j->r.id, text);
	strv_fini(&nodes);
	free(text);
}

/* Removes what the job got of the pool from the list. */
static void forget_lost(struct core *c, const struct cjob *j, uint64_t pool)
{
	size_t n = 0;

	for (size_t i = 0; i < c->pools.n_lost; i++)
		if (c->pools.lost[i].job != j->r.id || c->pools.lost[i].pool != pool)
			c->pools.lost[n++] = c->pools.lost[i];
	c->pools.n_lost = n;
}

void pools_taken(struct core *c, struct cjob *j)
{
	int whole;
	struct pool_rec *used = choose_pool(c, j, &whole);

	if (used && whole)
		post_taken(c, j, used, 1);
	if (used && whole)
		forget_lost(c, j, used->id);
	for (size_t i = 0; i < c->pools.n_lost;) {
		struct sched_pool_lost l = c->pools.lost[i];
		struct pool_rec *p = cluster_pool(&c->records, l.pool);

		if (l.job != j->r.id) {
			i++;
			continue;
		}
		if (p && !p->ended_us && l.taken)
			post_taken(c, j, p, 0);
		else if (p && !p->ended_us)
			post_gave_way(c, j, p);
		forget_lost(c, j, l.pool);
		i = 0;
	}
}

/* Ends a part that the library will not have again. */
static void end_part(struct core *c, const struct sched_pool_lost *l)
{
	struct pool_rec *p = cluster_pool(&c->records, l->pool);
	const struct pool_part *part = p && !p->ended_us ? pool_part_on(p, l->node) : NULL;
	struct strv nodes = {0};
	TEXT(text);

	if (!part || part->used_by)
		return;
	strv_add(&nodes, part->node);
	if (l->job)
		text_add(&text, "job %" PRIu64 " could not start without it", l->job);
	else
		text_add(&text, "the node has no longer what the pool holds there");
	pool_end(c, p, l->job ? POOL_GAVE_WAY : POOL_NODE, &nodes, l->job, text.at);
	strv_fini(&nodes);
}

/* Gives the library the pools again that lost something to a job. */
static void feed_again(struct core *c)
{
	for (size_t i = 0; i < c->pools.n_lost; i++) {
		struct pool_rec *p = cluster_pool(&c->records, c->pools.lost[i].pool);

		if (p && !p->ended_us && c->pools.lost[i].job)
			pool_feed(c, p);
	}
}

void pools_settle(struct core *c)
{
	drain_lost(c);
	if (!c->pools.n_lost || c->life.failing)
		return;
	feed_again(c);
	for (size_t i = 0; i < c->pools.n_lost; i++)
		if (!c->pools.lost[i].job)
			end_part(c, &c->pools.lost[i]);
	/* What is lost again is held by a job, or is gone. */
	c->pools.n_lost = 0;
	drain_lost(c);
	for (size_t i = 0; i < c->pools.n_lost; i++)
		end_part(c, &c->pools.lost[i]);
	c->pools.n_lost = 0;
	drain_lost(c); /* an end feeds what is left of its pool */
	c->pools.n_lost = 0;
}
