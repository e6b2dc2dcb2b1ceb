/*
 * pools: see pools.h.
 *
 * A pool has its time by the wall clock, and hearthd looks at all pools when the next one is due. A pool does
 * not expire before the job that left it last has ended: until then its other nodes may still be cleaned.
 */
#include "controller/share/pools.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/share/budget.h"
#include "controller/share/forecast.h"
#include "controller/share/queues.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/launch_facts.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define LOOK_US  60000000ull   /* between two reviews, at most: the wall clock may be set */
#define SHOWN_US 3600000000ull /* how long an ended pool is listed */
#define PRUNE_US 1000000ull    /* from an end until too many ended pools are dropped */

#define ENDED_OWNER 16   /* ended pools that are listed: of one owner */
#define ENDED_MAX   1000 /* of all */

/* ---- lists ------------------------------------------------------------------------------------------- */

struct cpool { /* begins with its record; core->records holds both */
	struct pool_rec rec;
	uint64_t billed_uusd; /* an hour, as budgets count it; 0 nothing */
	char account[ACCOUNT_PATH];
	struct cpool *prev, *next;
	enum { UNLISTED, LISTED_LIVE, LISTED_ENDED } listed;
};

void pools_open(struct core *c)
{
	c->records.size[CLUSTER_POOL] = sizeof(struct cpool);
}

struct pool_rec *pool_first(const struct core *c)
{
	return (struct pool_rec *)c->pools.live;
}

struct pool_rec *pool_ended(const struct core *c)
{
	return (struct pool_rec *)c->pools.ended;
}

struct pool_rec *pool_next(const struct pool_rec *p)
{
	return (struct pool_rec *)((const struct cpool *)p)->next;
}

static void look_at(struct core *c, uint64_t real_us)
{
	uint64_t now = now_real(c), at = now_boot(c) + (real_us > now ? real_us - now : 0);

	if (at < c->pools.at_us)
		c->pools.at_us = at;
}

static int same_owner(const struct pool_rec *a, const struct pool_rec *b)
{
	return strcmp(a->owner ? a->owner : "", b->owner ? b->owner : "") == 0;
}

static uint32_t ended_of_owner(const struct core *c, const struct pool_rec *of)
{
	uint32_t n = 0;

	for (const struct pool_rec *p = pool_ended(c); p; p = pool_next(p))
		n += (uint32_t)same_owner(p, of);
	return n;
}

static void keep_lists(struct core *c, struct cpool *x)
{
	if (x->listed == LISTED_LIVE && x->rec.ended_us) {
		DL_DELETE(c->pools.live, x);
		x->listed = UNLISTED;
	}
	if (x->listed != UNLISTED)
		return;
	if (!x->rec.ended_us) {
		DL_APPEND(c->pools.live, x);
		x->listed = LISTED_LIVE;
		return;
	}
	DL_APPEND(c->pools.ended, x);
	x->listed = LISTED_ENDED;
	/* The review drops what is too much: the last change of a record has to be stored before. */
	look_at(c, ++c->pools.n_ended > ENDED_MAX || ended_of_owner(c, &x->rec) > ENDED_OWNER
	               ? now_real(c) + PRUNE_US
	               : x->rec.ended_us + SHOWN_US);
}

static void forget_ended(struct core *c, struct cpool *x)
{
	DL_DELETE(c->pools.ended, x);
	c->pools.n_ended--;
	cluster_forget(&c->records, &x->rec.head);
}

/* Drops ended pools: the oldest of owners that have too many, the oldest of all, and those that are listed
 * for long enough. */
static void prune_ended(struct core *c, uint64_t now)
{
	struct cpool *x, *next;

	DL_FOREACH_SAFE (c->pools.ended, x, next)
		if (!x->rec.head.changed && (c->pools.n_ended > ENDED_MAX || now >= x->rec.ended_us + SHOWN_US))
			forget_ended(c, x);
	DL_FOREACH_SAFE (c->pools.ended, x, next)
		if (!x->rec.head.changed && ended_of_owner(c, &x->rec) > ENDED_OWNER)
			forget_ended(c, x);
}

/* ---- what changed ------------------------------------------------------------------------------------ */

void pool_touch(struct core *c, uint64_t pool)
{
	struct pool_table *t = &c->pools;

	if (t->n_touched && t->touched[t->n_touched - 1] == pool)
		return;
	if (t->n_touched == t->cap_touched) {
		t->cap_touched = t->cap_touched ? 2 * t->cap_touched : 16;
		t->touched = xreallocarray(t->touched, t->cap_touched, sizeof(*t->touched));
	}
	t->touched[t->n_touched++] = pool;
}

/* ---- what it costs ----------------------------------------------------------------------------------- */

/* Lets budgets count what is idle now. */
void pool_bill(struct core *c, struct pool_rec *p)
{
	const struct pool_job_rec *l = cluster_pool_job(&c->records, p->last_job);
	struct cpool *x = (struct cpool *)p;
	int waits = l && l->pool == p->id && !l->until_us && l->account;
	uint64_t price = waits ? l->price_uusd : 0;

	keep_lists(c, x);
	pool_touch(c, p->id);
	if (price == x->billed_uusd && (!price || strcmp(x->account, l->account) == 0))
		return;
	if (x->billed_uusd)
		budget_ends(c, x->account, x->billed_uusd);
	if (price) {
		snprintf(x->account, sizeof(x->account), "%s", l->account);
		budget_begins(c, x->account, price, l->since_us);
	}
	x->billed_uusd = price;
}

/* ---- the library ------------------------------------------------------------------------------------- */

void pool_feed(struct core *c, struct pool_rec *p)
{
	struct sched_pool_part *parts = xcalloc(p->n_parts + 1, sizeof(*parts));
	char key[HASH_HEX_SIZE], owner[136];
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_parts; i++) {
		const struct pool_part *part = &p->parts[i];

		if (!part->used_by)
			parts[n++] = (struct sched_pool_part){.node = part->node_id,
			                                      .n_gpus = part->gpus.n,
			                                      .gpus = part->gpus.v,
			                                      .n_cpus = part->cpus.n,
			                                      .cpus = part->cpus.v,
			                                      .memory_bytes = part->memory_bytes,
			                                      .disk_bytes = part->disk_bytes};
	}
	snprintf(owner, sizeof(owner), "@%s", p->owner ? p->owner : "nobody");
	if (n)
		sched_pool_set(c->sched, &(struct sched_pool){
		                             .id = p->id,
		                             .owner = owner,
		                             .warm = pool_key(p->environment, key),
		                             .exclusive = p->exclusive,
		                             .idle_since_s = p->idle_us / 1000000,
		                             .parts = parts,
		                             .n_parts = n,
		                         });
	else
		sched_pool_remove(c->sched, p->id);
	free(parts);
	pool_bill(c, p);
	c->pools.look = 1;
	c->alloc.dirty = 1;
}

/* ---- the agents -------------------------------------------------------------------------------------- */

static void add_to_list(struct wm_pools *m, uint64_t pool, uint64_t job, uint64_t until_us)
{
	for (uint32_t i = 0; i < m->pools.n; i++)
		if (m->pools.v[i] == pool)
			return;
	if (m->pools.n >= POOLS_MAX)
		return;
	wire_u64v_add(&m->pools, pool);
	wire_u64v_add(&m->jobs, job);
	wire_u64v_add(&m->until_us, until_us);
}

/* Adds the pools whose parts jobs took out: the folders stay until these jobs leave something, or end. */
static void add_taken(struct wm_pools *m, const struct cnode *n)
{
	for (uint32_t i = 0; i < n->n_jobs; i++) {
		const struct cjob *j = n->jobs[i];
		const struct place_rec *p = j->act && j->act->rt ? rec_place_of(j->r.att, n->r.id) : NULL;

		if (p && place_rt(j, p)->warm)
			add_to_list(m, place_rt(j, p)->warm, j->r.id, 0);
	}
}

void pools_send(struct core *c, const struct cnode *n)
{
	struct wm_pools m = {0};

	if (!n->connected || !n->synced || !wire_speaks(n->version, WM_POOLS))
		return;
	for (const struct pool_rec *p = pool_first(c); p; p = pool_next(p)) {
		const struct pool_part *part = pool_part_on(p, n->r.id);

		if (part)
			add_to_list(&m, p->id, part->used_by ? part->used_by : p->last_job,
			            part->used_by ? 0 : p->expires_us);
	}
	add_taken(&m, n);
	hold_send(c, n, WM_POOLS, &m);
	wire_fini(WM_POOLS, &m);
}

static void send_to_node(struct core *c, uint64_t node_id)
{
	const struct cnode *n = node_by_id(c, node_id);

	if (n)
		pools_send(c, n);
}

static void send_to_nodes(struct core *c, const struct pool_rec *p)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		send_to_node(c, p->parts[i].node_id);
}

/* ---- a job leaves something -------------------------------------------------------------------------- */

static uint64_t chain_end(const struct core *c, uint64_t chain_us)
{
	return chain_us + (uint64_t)c->cfg.warm_chain_max_s * 1000000;
}

/* The end of the time that a pool gets now, in its chain. */
static uint64_t expires_at(const struct core *c, uint64_t chain_us, uint64_t keep_alive_s)
{
	uint64_t at = now_real(c) + keep_alive_s * 1000000, last = chain_end(c, chain_us);

	return at < last ? at : last;
}

static cJSON *ids_json(const struct wire_u32v *v)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < v->n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(v->v[i]));
	return list;
}

static void add_part(struct core *c, const struct cjob *j, const struct place_rec *p, cJSON *d)
{
	struct attempt_rec one = {.places = (struct place_rec *)(uintptr_t)p, .n_places = 1};
	double price = attempt_price(c, j->act->spec, &one);
	cJSON *o = cJSON_CreateObject(), *nodes = cJSON_AddArrayToObject(d, "nodes");

	cJSON_AddItemToArray(nodes, cJSON_CreateString(p->node));
	json_add_str(o, "node", p->node);
	json_add_u64(o, "node_id", p->node_id);
	cJSON_AddItemToObject(o, "gpus", ids_json(&p->gpus));
	cJSON_AddItemToObject(o, "cpus", ids_json(&p->cpus));
	json_add_u64(o, "memory_bytes", j->act->spec->memory_bytes);
	json_add_u64(o, "disk_bytes", j->act->spec->disk_bytes);
	if (price > 0)
		json_add_u64(o, "price_uusd", (uint64_t)(price * 1e6 + 0.5));
	cJSON_AddItemToArray(cJSON_AddArrayToObject(d, "parts"), o);
}

/* What the next job is compared with. */
static void add_left(struct core *c, const struct cjob *j, cJSON *d)
{
	cJSON_AddItemToObject(d, "environment", pool_environment(j->act->spec, j->r.bundle, &j->act->inputs));
	if (c->cfg.warm_parked)
		cJSON_AddItemToObject(d, "launch", launch_facts_of_attempt(c, j));
}

/* p: the pool that gets it, NULL a new one. */
static cJSON *given_data(struct core *c, const struct cjob *j, const struct pool_rec *p, uint64_t pool,
                         uint64_t chain_us)
{
	const struct job_spec *s = j->act->spec;
	char account[ACCOUNT_PATH];
	cJSON *d = cJSON_CreateObject();

	account_path(account, sizeof(account), j->r.queue, j->r.owner);
	json_add_u64(d, "pool", pool);
	json_add_u64(d, "job", j->r.id);
	json_add_str(d, "name", j->r.name);
	json_add_str(d, "queue", j->r.queue);
	json_add_str(d, "account", account);
	cJSON_AddBoolToObject(d, "exclusive", s->exclusive);
	json_add_u64(d, "keep_alive_s", pool_keep_alive(c, s));
	json_add_u64(d, "expires_us", expires_at(c, chain_us, pool_keep_alive(c, s)));
	if (!p || p->last_job != j->r.id)
		add_left(c, j, d);
	return d;
}

uint64_t pool_keep_alive(const struct core *c, const struct job_spec *s)
{
	uint64_t keep = (uint64_t)s->keep_alive_s;

	return keep < c->cfg.warm_keep_alive_max_s ? keep : c->cfg.warm_keep_alive_max_s;
}

static void make_pool(struct core *c, struct cjob *j, const struct place_rec *p)
{
	uint64_t id = ++c->jobs.last_id, chain = j->pool_chain_us ? j->pool_chain_us : now_real(c);
	cJSON *d = given_data(c, j, NULL, id, chain);

	json_add_str(d, "owner", j->r.owner);
	json_add_u64(d, "chain_us", chain);
	add_part(c, j, p, d);
	if (cluster_post(c, EV_POOL_MADE, d) == 0)
		j->pool = id;
}

static int is_reserved(const struct core *c, const char *node, const char *queue)
{
	for (const struct creserve *r = reserve_first(c); r; r = reserve_next(r))
		if (r->rec.state == RESERVE_ACTIVE && !reserve_for_queue(&r->rec, queue) && reserve_has_node(r, node))
			return 1;
	return 0;
}

static int node_stays(const struct core *c, uint64_t node_id, const char *queue)
{
	const struct cnode *n = node_by_id(c, node_id);

	return n && n->r.state == NODE_UP && !n->r.drain && !is_reserved(c, n->name, queue);
}

int pool_leave(struct core *c, struct cjob *j, const struct place_rec *p)
{
	struct pool_rec *pool = j->pool ? cluster_pool(&c->records, j->pool) : NULL;
	char account[ACCOUNT_PATH];
	cJSON *d;

	if (!pool_keep_alive(c, j->act->spec) || !node_stays(c, p->node_id, j->r.queue))
		return 0;
	if (j->pool && (!pool || pool->ended_us)) /* it ended meanwhile: there is no second one */
		return 0;
	account_path(account, sizeof(account), j->r.queue, j->r.owner);
	if (budget_used_up(c, account))
		return 0;
	if (pool) {
		d = given_data(c, j, pool, pool->id, pool->chain_us);
		add_part(c, j, p, d);
		cluster_post(c, EV_POOL_GIVEN, d);
	} else {
		make_pool(c, j, p);
		pool = cluster_pool(&c->records, j->pool);
	}
	pool_feed(c, pool);
	look_at(c, pool->expires_us);
	send_to_node(c, p->node_id);
	log_info("event=pool_given pool=%" PRIu64 " job=%" PRIu64 " node=%s", pool->id, j->r.id, p->node);
	pools_limit(c, account);
	return 1;
}

/* ---- ends -------------------------------------------------------------------------------------------- */

void pool_end(struct core *c, struct pool_rec *p, enum pool_cause cause, const struct strv *nodes,
              uint64_t job, const char *text)
{
	uint64_t *ids = xcalloc(p->n_parts + 1, sizeof(*ids)), id = p->id;
	uint32_t n = 0;
	cJSON *d = cJSON_CreateObject(), *list = nodes ? cJSON_AddArrayToObject(d, "nodes") : NULL;

	for (uint32_t i = 0; i < p->n_parts; i++)
		ids[n++] = p->parts[i].node_id;
	json_add_u64(d, "pool", id);
	json_add_str(d, "cause", pool_cause_names[cause]);
	json_add_u64(d, "left_by", pool_used_by(p) ? pool_used_by(p) : p->last_job);
	if (job)
		json_add_u64(d, "job", job);
	json_add_str(d, "text", text);
	for (size_t i = 0; nodes && i < nodes->n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(nodes->v[i]));
	if (cluster_post(c, EV_POOL_ENDED, d) == 0) {
		pool_feed(c, p);
		for (uint32_t i = 0; i < n; i++)
			if (!pool_part_on(p, ids[i]))
				send_to_node(c, ids[i]);
		log_info("event=pool_ended pool=%" PRIu64 " cause=\"%s\" left=%u", id, pool_cause_names[cause],
		         p->n_parts);
	}
	free(ids);
}

void pools_leave_node(struct core *c, const struct cnode *n, const char *text)
{
	struct strv nodes = {0};

	strv_add(&nodes, n->name);
	for (struct pool_rec *p = pool_first(c), *next; p; p = next) {
		const struct pool_part *part = pool_part_on(p, n->r.id);

		next = pool_next(p);
		if (part && !part->used_by)
			pool_end(c, p, POOL_NODE, &nodes, 0, text);
	}
	strv_fini(&nodes);
}

void pools_reserved(struct core *c, const struct creserve *r)
{
	TEXT(text);

	text_add(&text, "reservation '%.100s' began", r->rec.head.name);
	for (struct pool_rec *p = pool_first(c), *next; p; p = next) {
		struct strv nodes = {0};

		next = pool_next(p);
		for (uint32_t i = 0; i < p->n_parts && !reserve_for_queue(&r->rec, p->queue); i++)
			if (!p->parts[i].used_by && reserve_has_node(r, p->parts[i].node))
				strv_add(&nodes, p->parts[i].node);
		if (nodes.n)
			pool_end(c, p, POOL_NODE, &nodes, 0, text.at);
		strv_fini(&nodes);
	}
}

static void mark_place(struct core *c, struct cjob *j, const struct place_rec *place, const char *text)
{
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "node_rank", place_index(j, place));
	json_add_str(d, "node", place->node);
	json_add_str(d, "text", text);
	job_post(c, j, EV_NODE_MARKED, d);
}

void pool_bad(struct core *c, const struct cnode *n, const struct wm_pool_bad *m)
{
	struct cjob *j = job_find(c, m->job);
	const struct place_rec *place = j && j->act && j->r.att ? rec_place_of(j->r.att, n->r.id) : NULL;
	struct pool_rec *p = cluster_pool(&c->records, m->pool ? m->pool : j ? j->pool : 0);
	struct strv nodes = {0};
	TEXT(text);

	log_warn("event=pool_bad node=%s pool=%" PRIu64 " job=%" PRIu64 " text=\"%s\"", n->name, m->pool, m->job,
	         m->text);
	if (place && !place->pool_bad) /* on record: the report does not come again */
		mark_place(c, j, place, m->text);
	if (!p || p->ended_us || !pool_part_on(p, n->r.id))
		return;
	text_add(&text, "suspect: %.300s", m->text);
	strv_add(&nodes, n->name);
	pool_end(c, p, POOL_NODE, &nodes, 0, text.at);
	strv_fini(&nodes);
}

void pool_set_time(struct core *c, struct pool_rec *p, uint64_t keep_alive_s, const char *by)
{
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "pool", p->id);
	json_add_u64(d, "keep_alive_s", keep_alive_s);
	json_add_u64(d, "expires_us", expires_at(c, p->chain_us, keep_alive_s));
	json_add_str(d, "by", by);
	cluster_post(c, EV_POOL_CHANGED, d);
	look_at(c, p->expires_us);
	send_to_nodes(c, p);
}

/* Says why the job gives nothing back. */
static void say_not_given(const struct core *c, const struct cjob *j, struct text *t)
{
	char account[ACCOUNT_PATH];

	account_path(account, sizeof(account), j->r.queue, j->r.owner);
	if (!job_ended(j->r.status))
		text_add(t, "job %" PRIu64 " used it, and was queued again", j->r.id);
	else if (j->wants_no_pool)
		text_add(t, "job %" PRIu64 " used it and has no keep_alive_s", j->r.id);
	else if (budget_used_up(c, account))
		text_add(t, "the budget of job %" PRIu64 ", which used it, is used up", j->r.id);
	else if (j->r.att && !rec_launched(j->r.att))
		text_add(t, "job %" PRIu64 " used it and ended before its ranks started", j->r.id);
	else
		text_add(t, "job %" PRIu64 " used it and %s in a way that leaves no pool", j->r.id,
		         state_name(STATE_JOB, (int)j->r.status));
}

/* The job has ended, or waits in the queue again: what it has not given back is no longer warm for it. */
static void give_up_pool(struct core *c, struct cjob *j)
{
	struct pool_rec *p = cluster_pool(&c->records, j->pool);
	struct strv nodes = {0};
	TEXT(text);

	j->pool = 0;
	if (!p || p->ended_us)
		return;
	for (uint32_t i = 0; i < p->n_parts; i++)
		if (p->parts[i].used_by == j->r.id)
			strv_add(&nodes, p->parts[i].node);
	if (!job_ended(j->r.status) && p->last_job == j->r.id) {
		text_add(&text, "job %" PRIu64 ", which left it, was queued again", j->r.id);
		pool_end(c, p, POOL_OWNER, NULL, 0, text.at);
	} else if (nodes.n) {
		say_not_given(c, j, &text);
		pool_end(c, p, POOL_OWNER, nodes.n == p->n_parts ? NULL : &nodes, 0, text.at);
	}
	if (!p->ended_us)
		look_at(c, p->expires_us);
	strv_fini(&nodes);
}

void pools_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before)
{
	if (!j->pool || before->refused)
		return;
	if (job_ended(j->r.status) || (t == EV_REQUEUED && j->r.status == JOB_QUEUED))
		give_up_pool(c, j);
}

/* ---- time -------------------------------------------------------------------------------------------- */

static int is_unfinished(const struct core *c, uint64_t job)
{
	const struct cjob *j = job_find(c, job);

	return j && !job_ended(j->r.status);
}

static void forget_old(struct core *c, uint64_t now)
{
	struct cluster_rec *r, *tmp;

	HASH_ITER (hh, c->records.all[CLUSTER_POOL_JOB], r, tmp)
		if (!r->changed && ((struct pool_job_rec *)r)->until_us &&
		    !is_unfinished(c, ((struct pool_job_rec *)r)->job))
			cluster_forget(&c->records, r);
	prune_ended(c, now);
}

uint64_t pools_next_us(const struct core *c)
{
	return c->pools.live || c->pools.ended ? c->pools.at_us : UINT64_MAX;
}

/* Ends the pool if nobody pays it any more: a budget may be used up while hearthd is down. */
static int end_unpaid(struct core *c, struct pool_rec *p)
{
	const struct pool_job_rec *l = cluster_pool_job(&c->records, p->last_job);

	if (!l || !l->account || !budget_used_up(c, l->account))
		return 0;
	pool_end(c, p, POOL_OWNER, NULL, 0, "the budget of its owner is used up");
	return 1;
}

static void end_expired(struct core *c, struct pool_rec *p)
{
	int chain = p->expires_us >= chain_end(c, p->chain_us);
	uint64_t span_s = chain ? c->cfg.warm_chain_max_s : p->keep_alive_s;
	char span[40];
	TEXT(text);

	text_add(&text,
	         chain ? "its chain of jobs lasted for %s, the administrator's warm_chain_max"
	               : "no job of its owner came within %s",
	         str_duration(span_s, span, sizeof(span)));
	pool_end(c, p, chain ? POOL_LIMIT : POOL_EXPIRED, NULL, 0, text.at);
}

void pools_review(struct core *c)
{
	uint64_t now = now_real(c);
	const struct pool_rec *oldest;

	c->pools.at_us = UINT64_MAX;
	for (struct pool_rec *p = pool_first(c), *next; p; p = next) {
		next = pool_next(p);
		if (pool_used_by(p) || is_unfinished(c, p->last_job) || end_unpaid(c, p))
			continue;
		if (now >= p->expires_us)
			end_expired(c, p);
		else
			look_at(c, p->expires_us);
	}
	forget_old(c, now);
	oldest = pool_ended(c);
	look_at(c, oldest && oldest->ended_us + SHOWN_US > now ? oldest->ended_us + SHOWN_US : now + LOOK_US);
	look_at(c, now + LOOK_US);
}

uint64_t pools_shown_since(const struct core *c)
{
	return now_real(c) > SHOWN_US ? now_real(c) - SHOWN_US : 0;
}

static int by_end(const struct cpool *a, const struct cpool *b)
{
	return a->rec.ended_us < b->rec.ended_us ? -1 : a->rec.ended_us > b->rec.ended_us;
}

void pools_loaded(struct core *c)
{
	c->pools.at_us = 0;
	for (struct cluster_rec *r = c->records.all[CLUSTER_POOL_JOB]; r; r = r->hh.next) {
		const struct pool_job_rec *l = (const struct pool_job_rec *)r;
		struct cjob *j = is_unfinished(c, l->job) ? job_find(c, l->job) : NULL;

		/* An attempt leaves one pool only, also when that has ended; the next one may leave another. */
		if (j && j->r.status != JOB_QUEUED && j->r.att && j->r.att->outcome != OUT_NONE)
			j->pool = l->pool;
	}
	for (struct cluster_rec *r = c->records.all[CLUSTER_POOL]; r; r = r->hh.next)
		keep_lists(c, (struct cpool *)r);
	DL_SORT(c->pools.ended, by_end);
	for (struct pool_rec *p = pool_first(c); p; p = pool_next(p)) {
		struct cjob *j = job_find(c, pool_used_by(p));

		if (j && !job_ended(j->r.status)) {
			j->pool = p->id;
			j->pool_chain_us = p->chain_us;
		}
		pool_feed(c, p);
	}
}
