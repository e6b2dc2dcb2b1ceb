/*
 * park: which pools hold a launch ready, and since when: begin, end, and another try.
 */
#include "controller/park/park.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/park/park_int.h"
#include "controller/park/ports.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/share/pools.h"
#include "controller/state/launch_facts.h"
#include "controller/state/turn.h"

#define AT_ONCE    64           /* parkings that are made ready: of all pools */
#define AT_ONCE_ON 4            /* on one node */
#define TRIES      3            /* for what one job left */
#define SETTLED_US 600000000ull /* one that waited so long counts as no failed try */
#define FIRST_US   1000000ull
#define LATER_US   10000000ull
#define ENDING_US  600000000ull /* then the agents' reports about it count as unknown */
#define WAY_US     1000000ull   /* a job's ranks wait so long for the GPUs of an ending one */
#define NODES_MAX  512          /* of a pool that is parked */

/* ---- the table ---------------------------------------------------------------------------------------- */

struct parking *parking_find(const struct core *c, uint64_t pool, uint64_t number)
{
	const struct parking like = {.key = {pool, number}};
	struct parking *k;

	HASH_FIND(hh, c->parks.all, &like.key, sizeof(like.key), k);
	return k;
}

/* The one that the pool has now; NULL none. */
static struct parking *current(const struct core *c, const struct pool_rec *p)
{
	struct parking *k = parking_find(c, p->id, p->parkings);

	return k && k->state != PARK_ENDING ? k : NULL;
}

struct park_node *parking_node(const struct parking *k, uint64_t node_id)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (k->nodes[i].node_id == node_id)
			return &k->nodes[i];
	return NULL;
}

struct orted_launch parking_orteds(struct parking *k)
{
	return (struct orted_launch){.job = k->key.pool,
	                             .attempt = (uint32_t)k->key.number,
	                             .epoch = k->epoch,
	                             .main_node = k->nodes[0].node_id,
	                             .n_nodes = k->n,
	                             .list = &k->rsh};
}

struct parking *parking_new(struct core *c, uint64_t pool, uint64_t number, uint64_t epoch, uint32_t n)
{
	struct parking *k = xcalloc(1, sizeof(*k));

	k->key.pool = pool;
	k->key.number = number;
	k->epoch = epoch;
	k->n = n;
	k->due_us = UINT64_MAX;
	k->nodes = xcalloc(n ? n : 1, sizeof(*k->nodes));
	HASH_ADD(hh, c->parks.all, key, sizeof(k->key), k);
	return k;
}

void parking_free(struct core *c, struct parking *k)
{
	struct orted_launch l = parking_orteds(k);

	while (k->rsh)
		orteds_cancel(&l, k->rsh->id);
	if (k->state == PARK_ENDING)
		pool_touch(c, k->key.pool); /* the next one may begin */
	c->parks.in_way -= k->way_us != 0;
	park_order_free(k->order);
	HASH_DEL(c->parks.all, k);
	free(k->nodes);
	free(k->text);
	free(k);
}

static struct pool_park *tries_of(struct core *c, const struct pool_rec *p)
{
	struct pool_park *x;

	HASH_FIND(hh, c->parks.pools, &p->id, sizeof(p->id), x);
	if (!x) {
		x = xcalloc(1, sizeof(*x));
		x->pool = p->id;
		HASH_ADD(hh, c->parks.pools, pool, sizeof(x->pool), x);
	}
	if (x->of_job != p->last_job) {
		x->of_job = p->last_job;
		x->tries = 0;
		x->again_us = 0;
	}
	return x;
}

static void tries_forget(struct core *c, uint64_t pool)
{
	struct pool_park *x;

	HASH_FIND(hh, c->parks.pools, &pool, sizeof(pool), x);
	if (!x)
		return;
	HASH_DEL(c->parks.pools, x);
	free(x);
}

void parks_clear(struct core *c)
{
	struct parking *k, *next;
	struct pool_park *x, *more;

	HASH_ITER (hh, c->parks.all, k, next)
		parking_free(c, k);
	HASH_ITER (hh, c->parks.pools, x, more) {
		HASH_DEL(c->parks.pools, x);
		free(x);
	}
	c->parks.at_us = UINT64_MAX;
	c->pools.n_touched = 0;
}

static void look_at(struct core *c, uint64_t at_us)
{
	if (at_us < c->parks.at_us)
		c->parks.at_us = at_us;
}

uint64_t parks_next_us(const struct core *c)
{
	return c->pools.n_touched ? 0 : c->parks.all || c->parks.pools ? c->parks.at_us : UINT64_MAX;
}

/* ---- what may be parked ------------------------------------------------------------------------------- */

static int node_can(const struct core *c, uint64_t node_id)
{
	const struct cnode *n = node_by_id(c, node_id);
	uint32_t busy = 0;

	for (const struct parking *k = c->parks.all; k; k = k->hh.next)
		busy += k->state < PARK_PARKED && parking_node(k, node_id);
	return n && n->connected && n->synced && n->r.state == NODE_UP && !n->r.drain && !n->stale &&
	       wire_speaks(n->version, WM_POOLS) && busy < AT_ONCE_ON;
}

static uint32_t being_made(const struct core *c)
{
	uint32_t n = 0;

	for (const struct parking *k = c->parks.all; k; k = k->hh.next)
		n += k->state < PARK_PARKED;
	return n;
}

static struct pool_part *part_called(const struct pool_rec *p, const cJSON *name)
{
	for (uint32_t i = 0; cJSON_IsString(name) && i < p->n_parts; i++)
		if (strcmp(p->parts[i].node, name->valuestring) == 0)
			return &p->parts[i];
	return NULL;
}

/* The nodes of the pool's last launch, in order, if the pool has exactly these. Malloc'ed; NULL: no. */
static struct park_node *launch_nodes(const struct pool_rec *p, uint32_t *n)
{
	cJSON *launch = p->launch ? cJSON_Parse(p->launch) : NULL;
	const cJSON *v, *names = cJSON_GetObjectItemCaseSensitive(launch, "nodes");
	struct park_node *nodes = NULL;

	*n = (uint32_t)cJSON_GetArraySize(names);
	if (*n && *n == p->n_parts && *n <= NODES_MAX)
		nodes = xcalloc(*n, sizeof(*nodes));
	*n = 0;
	if (!nodes)
		names = NULL;
	cJSON_ArrayForEach (v, names) {
		const struct pool_part *part = part_called(p, v);

		if (!part || part->used_by) {
			free(nodes);
			nodes = NULL;
			break;
		}
		nodes[*n].gpus = park_gpus(&part->gpus);
		nodes[(*n)++].node_id = part->node_id;
	}
	cJSON_Delete(launch);
	return nodes;
}

/* 1: the nodes have not ended one that it had before. */
static int is_ending(const struct core *c, uint64_t pool)
{
	for (const struct parking *k = c->parks.all; k; k = k->hh.next)
		if (k->key.pool == pool && k->state == PARK_ENDING)
			return 1;
	return 0;
}

static int may_begin(struct core *c, const struct pool_rec *p)
{
	const struct cjob *last = job_find(c, p->last_job);
	struct pool_park *x;

	if (!c->cfg.warm_parked || pool_state_of(p) != POOL_AVAILABLE || !p->launch ||
	    (last && !job_ended(last->r.status)) || p->expires_us <= now_real(c))
		return 0;
	x = tries_of(c, p);
	if (x->tries >= TRIES)
		return 0;
	if (is_ending(c, p->id))
		return 0;
	if (now_boot(c) < x->again_us) {
		look_at(c, x->again_us);
		return 0;
	}
	if (being_made(c) >= AT_ONCE) {
		look_at(c, now_boot(c) + FIRST_US);
		return 0;
	}
	return 1;
}

/* ---- begin -------------------------------------------------------------------------------------------- */

static cJSON *event_data(const struct pool_rec *p, uint64_t number)
{
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "pool", p->id);
	json_add_u64(d, "parking", number);
	json_add_u64(d, "left_by", p->last_job);
	return d;
}

/* As for jobs: after a restored backup each epoch is greater than those of the lost time line. */
static uint64_t next_epoch(const struct core *c, const struct pool_rec *p)
{
	uint64_t first = c->cfg.incarnation << INCARNATION_SHIFT | 1;

	return p->park_epoch + 1 > first ? p->park_epoch + 1 : first;
}

static int nodes_can(struct core *c, const struct park_node *nodes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!node_can(c, nodes[i].node_id)) {
			look_at(c, now_boot(c) + FIRST_US);
			return 0;
		}
	return 1;
}

static void begin(struct core *c, struct pool_rec *p)
{
	uint64_t number = p->parkings + 1, epoch = next_epoch(c, p);
	uint32_t n;
	struct park_node *nodes = launch_nodes(p, &n);
	struct parking *k;
	cJSON *d;

	if (!nodes || !nodes_can(c, nodes, n)) {
		free(nodes);
		return;
	}
	k = parking_new(c, p->id, number, epoch, n);
	free(k->nodes);
	k->nodes = nodes;
	k->port = master_port(c, nodes[0].node_id);
	k->order = park_order_make(c, p, k);
	k->due_us = now_boot(c) + (uint64_t)c->cfg.prepare_timeout_s * 1000000;
	d = event_data(p, number);
	json_add_u64(d, "epoch", epoch);
	if (!k->order || cluster_post(c, EV_POOL_PARKING, d) < 0) {
		tries_of(c, p)->tries = TRIES;
		if (!k->order)
			cJSON_Delete(d);
		parking_free(c, k);
		return;
	}
	tries_of(c, p)->tries++;
	log_info("event=pool_parking pool=%" PRIu64 " parking=%" PRIu64 " nodes=%u", p->id, number, n);
	look_at(c, k->due_us);
	park_send(c, k);
}

/* ---- it goes on --------------------------------------------------------------------------------------- */

static int all_are(const struct parking *k, uint8_t state)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (k->nodes[i].state != state)
			return 0;
	return 1;
}

static void post_parked(struct core *c, const struct pool_rec *p, const struct parking *k)
{
	cJSON *d = event_data(p, k->key.number);

	if (k->text)
		json_add_str(d, "text", k->text);
	cluster_post(c, EV_POOL_PARKED, d);
	c->alloc.dirty = 1;
}

static void note_parked(struct core *c, struct pool_rec *p, struct parking *k)
{
	k->state = PARK_PARKED;
	k->due_us = UINT64_MAX;
	k->parked_us = now_boot(c);
	if (p->parked == k->key.number) /* hearthd was started again */
		return;
	post_parked(c, p, k);
	log_info("event=pool_parked pool=%" PRIu64 " parking=%" PRIu64, p->id, k->key.number);
}

void parking_no_interpreter(struct core *c, struct parking *k, const char *text)
{
	const struct pool_rec *p = cluster_pool(&c->records, k->key.pool);

	if (k->text)
		return;
	k->text = xstrdup(text);
	if (k->state == PARK_PARKED && p && p->parked == k->key.number && !p->park_text)
		post_parked(c, p, k);
}

void parking_step(struct core *c, struct parking *k)
{
	struct pool_rec *p = cluster_pool(&c->records, k->key.pool);

	if (k->state == PARK_PREPARING && all_are(k, LAUNCH_READY)) {
		k->state = PARK_STARTING;
		park_order_free(k->order);
		k->order = NULL;
		k->due_us = now_boot(c) + (uint64_t)c->cfg.rendezvous_timeout_s * 1000000;
		look_at(c, k->due_us);
	}
	if (k->state == PARK_STARTING && all_are(k, LAUNCH_PARKED) && p)
		note_parked(c, p, k);
	park_send(c, k);
}

/* ---- it ends ------------------------------------------------------------------------------------------ */

void parking_settle(struct core *c, struct parking *k)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (!k->nodes[i].gone)
			return;
	log_info("event=parking_gone pool=%" PRIu64 " parking=%" PRIu64, k->key.pool, k->key.number);
	if (k->way_us)
		park_way_over(c, k);
	parking_free(c, k);
}

void parking_end(struct core *c, struct parking *k)
{
	k->state = PARK_ENDING;
	park_order_free(k->order);
	k->order = NULL;
	k->due_us = now_boot(c) + ENDING_US;
	c->parks.in_way += !k->way_us;
	k->way_us = now_boot(c) + WAY_US;
	look_at(c, k->way_us);
	for (uint32_t i = 0; i < k->n; i++)
		if (!k->nodes[i].ordered && k->nodes[i].state == LAUNCH_UNKNOWN)
			k->nodes[i].gone = 1;
	park_send(c, k);
	parking_settle(c, k);
}

void parking_failed(struct core *c, struct parking *k, const char *text)
{
	struct pool_rec *p = cluster_pool(&c->records, k->key.pool);
	struct pool_park *x;
	cJSON *d;

	if (!p || p->ended_us) {
		parking_end(c, k);
		return;
	}
	x = tries_of(c, p);
	if (k->state == PARK_PARKED && now_boot(c) - k->parked_us >= SETTLED_US)
		x->tries = 0;
	x->again_us = now_boot(c) + (x->tries <= 1 ? FIRST_US : LATER_US);
	look_at(c, x->again_us);
	log_warn("event=pool_unparked pool=%" PRIu64 " parking=%" PRIu64 " text=\"%s\"", p->id, k->key.number,
	         text);
	d = event_data(p, k->key.number);
	json_add_str(d, "text", text);
	cluster_post(c, EV_POOL_UNPARKED, d);
	parking_end(c, k);
	pool_touch(c, p->id);
}

/* ---- reviews ------------------------------------------------------------------------------------------ */

/* 1: the pool is still what the parking was made for. */
static int is_valid(const struct core *c, const struct pool_rec *p, const struct parking *k)
{
	if (!c->cfg.warm_parked || pool_state_of(p) != POOL_AVAILABLE || p->n_parts != k->n ||
	    p->parkings != k->key.number || (k->state == PARK_PARKED && p->parked != k->key.number))
		return 0;
	for (uint32_t i = 0; i < k->n; i++)
		if (!pool_part_on(p, k->nodes[i].node_id))
			return 0;
	return 1;
}

static void review_pool(struct core *c, uint64_t id)
{
	struct pool_rec *p = cluster_pool(&c->records, id);
	struct parking *k = p ? current(c, p) : NULL;

	if (k && !is_valid(c, p, k)) {
		parking_end(c, k);
		k = NULL;
	}
	if (!p || p->ended_us)
		tries_forget(c, id);
	else if (!k && may_begin(c, p))
		begin(c, p);
}

static void review_due(struct core *c)
{
	struct parking *k, *next;
	struct pool_park *x;

	HASH_ITER (hh, c->parks.all, k, next) {
		if (k->way_us && now_boot(c) >= k->way_us)
			park_way_over(c, k);
		if (now_boot(c) < k->due_us) {
			look_at(c, k->way_us ? k->way_us : k->due_us);
			continue;
		}
		if (k->state == PARK_ENDING)
			parking_free(c, k);
		else
			parking_failed(c, k,
			               k->state == PARK_PREPARING ? "its nodes did not get ready in time"
			                                          : "its launcher did not start in time");
	}
	for (x = c->parks.pools; x; x = x->hh.next)
		pool_touch(c, x->pool);
}

void parks_review(struct core *c)
{
	size_t n = c->pools.n_touched;

	if (c->life.failing || !c->life.loaded)
		return;
	if (now_boot(c) >= c->parks.at_us) {
		c->parks.at_us = UINT64_MAX;
		review_due(c);
		n = c->pools.n_touched;
	}
	for (size_t i = 0; i < n; i++)
		review_pool(c, c->pools.touched[i]);
	if (!n)
		return;
	c->pools.n_touched -= n;
	memmove(c->pools.touched, c->pools.touched + n, c->pools.n_touched * sizeof(*c->pools.touched));
}

void parks_after_event(struct core *c, struct cjob *j, enum event_type t, const struct job_before *before)
{
	const struct pool_job_rec *l;

	if (before->refused || t != EV_ENDED)
		return;
	l = cluster_pool_job(&c->records, j->r.id);
	if (l)
		pool_touch(c, l->pool);
}

void parks_loaded(struct core *c)
{
	parks_clear(c);
	for (struct pool_rec *p = pool_first(c); p; p = pool_next(p)) {
		struct parking *k;
		struct park_node *nodes;
		uint32_t n;

		pool_touch(c, p->id);
		nodes = p->parked ? launch_nodes(p, &n) : NULL;
		if (!nodes)
			continue;
		k = parking_new(c, p->id, p->parked, p->park_epoch, n);
		free(k->nodes);
		k->nodes = nodes;
		k->state = PARK_PARKED;
		k->parked_us = now_boot(c);
		for (uint32_t i = 0; i < n; i++)
			nodes[i].state = LAUNCH_PARKED;
	}
}

/* ---- jobs --------------------------------------------------------------------------------------------- */

void park_taken(struct core *c, struct cjob *j)
{
	struct parking *k = j->act->parked ? parking_find(c, j->pool, j->act->parked) : NULL;

	if (!k)
		return;
	j->act->rsh = k->rsh;
	k->rsh = NULL;
	log_info("event=parked_taken pool=%" PRIu64 " parking=%" PRIu64 " job=%" PRIu64, k->key.pool,
	         k->key.number, j->r.id);
	parking_free(c, k);
}

void park_spoiled(struct core *c, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *pool = a->pool ? cJSON_Parse(a->pool) : NULL;
	const struct pool_rec *p = cluster_pool(&c->records, json_whole(pool, "id", 0));
	struct parking *k;

	cJSON_Delete(pool);
	if (!p || parking_find(c, p->id, j->act->parked))
		return;
	k = parking_new(c, p->id, j->act->parked, p->park_epoch, a->n_places);
	for (uint32_t i = 0; i < k->n; i++)
		k->nodes[i] = (struct park_node){
		    .node_id = a->places[i].node_id, .state = LAUNCH_PARKED, .gpus = park_gpus(&a->places[i].gpus)};
	parking_end(c, k);
}

cJSON *park_json(const struct core *c, const struct pool_rec *p, const cJSON *launch)
{
	static const char *const names[] = {"preparing", "starting", "parked", ""};
	const struct parking *k = current(c, p);
	int waits = k && k->state == PARK_PARKED;
	cleanup_free char *why = waits && p->park_text ? launch_unusable_text(p->park_text) : NULL;
	cJSON *o;

	if (p->ended_us || (!k && !p->park_text))
		return cJSON_CreateNull();
	o = cJSON_CreateObject();
	json_add_u64(o, "number", p->parkings);
	json_add_str(o, "state", k ? names[k->state] : "failed");
	json_add_time(o, "since", p->park_us);
	json_add_str(o, "level", waits ? launch_level(launch, p->park_text) : NULL);
	json_add_str(o, "text", waits ? why : p->park_text);
	return o;
}
