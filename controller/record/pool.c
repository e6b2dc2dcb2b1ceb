/*
 * pool: see pool.h. Everything here is pure: records and an event give records.
 */
#include "controller/record/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"

#define P(id, name) name,
const char *const pool_state_names[] = {POOL_STATES(P)};
const char *const pool_left_names[] = {POOL_LEFTS(P)};
const char *const pool_cause_names[] = {POOL_CAUSES(P)};
#undef P

#define ENDED_PARTS 16 /* that a pool names */

/* ---- records ----------------------------------------------------------------------------------------- */

static void find_number(char name[24], uint64_t id)
{
	snprintf(name, 24, "%" PRIu64, id);
}

struct pool_rec *cluster_pool(const struct cluster *c, uint64_t id)
{
	char name[24];

	find_number(name, id);
	return (struct pool_rec *)cluster_find(c, CLUSTER_POOL, name);
}

struct pool_job_rec *cluster_pool_job(const struct cluster *c, uint64_t job)
{
	char name[24];

	find_number(name, job);
	return (struct pool_job_rec *)cluster_find(c, CLUSTER_POOL_JOB, name);
}

uint64_t pool_used_by(const struct pool_rec *p)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		if (p->parts[i].used_by)
			return p->parts[i].used_by;
	return 0;
}

enum pool_state pool_state_of(const struct pool_rec *p)
{
	return p->ended_us ? POOL_TERMINATED : pool_used_by(p) ? POOL_IN_USE : POOL_AVAILABLE;
}

struct pool_part *pool_part_on(const struct pool_rec *p, uint64_t node_id)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		if (p->parts[i].node_id == node_id)
			return &p->parts[i];
	return NULL;
}

static void part_fini(struct pool_part *part)
{
	free(part->node);
	free(part->gpus.v);
	free(part->cpus.v);
	*part = (struct pool_part){0};
}

static void drop_parts(struct pool_rec *p)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		part_fini(&p->parts[i]);
	free(p->parts);
	p->parts = NULL;
	p->n_parts = 0;
}

static void drop_part(struct pool_rec *p, struct pool_part *part)
{
	part_fini(part);
	p->n_parts--;
	memmove(part, part + 1, (size_t)(p->parts + p->n_parts - part) * sizeof(*part));
}

static struct pool_part *find_part(struct pool_rec *p, const char *node)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		if (strcmp(p->parts[i].node, node) == 0)
			return &p->parts[i];
	return NULL;
}

void pool_rec_fini(struct pool_rec *p)
{
	free(p->name);
	free(p->owner);
	free(p->queue);
	free(p->cause);
	free(p->cause_text);
	free(p->kept_by);
	free(p->environment);
	free(p->ended_parts);
	free(p->launch);
	free(p->park_text);
	drop_parts(p);
}

void pool_job_rec_fini(struct pool_job_rec *l)
{
	free(l->account);
}

uint64_t pool_uusd(const struct cluster *c, const struct pool_rec *p, uint64_t now_us)
{
	const struct pool_job_rec *l = cluster_pool_job(c, p->last_job);
	int waits = l && l->pool == p->id && !l->until_us;

	return p->idle_uusd +
	       (waits && now_us > l->since_us ? cost_uusd(l->price_uusd, now_us - l->since_us) : 0);
}

/* ---- parts as JSON ----------------------------------------------------------------------------------- */

static void ids_of(struct wire_u32v *to, const cJSON *list)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, list)
		if (cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 4294967296.0)
			wire_u32v_add(to, (uint32_t)v->valuedouble);
}

static cJSON *ids_json(const struct wire_u32v *v)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < v->n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(v->v[i]));
	return list;
}

static char *parts_text(const struct pool_rec *p)
{
	cJSON *list = cJSON_CreateArray();
	char *text;

	for (uint32_t i = 0; i < p->n_parts; i++) {
		const struct pool_part *part = &p->parts[i];
		cJSON *o = cJSON_CreateObject();

		json_add_str(o, "node", part->node);
		json_add_u64(o, "node_id", part->node_id);
		cJSON_AddItemToObject(o, "gpus", ids_json(&part->gpus));
		cJSON_AddItemToObject(o, "cpus", ids_json(&part->cpus));
		json_add_u64(o, "memory_bytes", part->memory_bytes);
		json_add_u64(o, "disk_bytes", part->disk_bytes);
		json_add_u64(o, "price_uusd", part->price_uusd);
		json_add_u64(o, "used_by", part->used_by);
		cJSON_AddItemToArray(list, o);
	}
	text = json_text(list);
	cJSON_Delete(list);
	return text;
}

/* Adds the part, or replaces the one on its node. */
static void set_part(struct pool_rec *p, const cJSON *o)
{
	const char *node = json_str_or(o, "node", "");
	struct pool_part *part = find_part(p, node);

	if (part) {
		part_fini(part);
	} else {
		p->parts = xreallocarray(p->parts, p->n_parts + 1, sizeof(*p->parts));
		part = &p->parts[p->n_parts++];
		*part = (struct pool_part){0};
	}
	part->node = xstrdup(node);
	part->node_id = json_whole(o, "node_id", 0);
	ids_of(&part->gpus, cJSON_GetObjectItemCaseSensitive(o, "gpus"));
	ids_of(&part->cpus, cJSON_GetObjectItemCaseSensitive(o, "cpus"));
	part->memory_bytes = json_whole(o, "memory_bytes", 0);
	part->disk_bytes = json_whole(o, "disk_bytes", 0);
	part->price_uusd = json_whole(o, "price_uusd", 0);
	part->used_by = json_whole(o, "used_by", 0);
}

static void set_parts(struct pool_rec *p, const cJSON *list)
{
	const cJSON *o;

	cJSON_ArrayForEach (o, list)
		set_part(p, o);
}

/* ---- what a job left --------------------------------------------------------------------------------- */

static struct pool_job_rec *left_of(struct cluster *c, const struct pool_rec *p, uint64_t job)
{
	struct pool_job_rec *l = cluster_pool_job(c, job);

	return l && l->pool == p->id && !l->until_us ? l : NULL;
}

/* Returns the price of what is idle. */
static uint64_t idle_price(const struct pool_rec *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->n_parts; i++)
		sum += p->parts[i].used_by ? 0 : p->parts[i].price_uusd;
	return sum;
}

/* Counts the costs up to that time; from there on they grow by the price. */
static void settle_left(struct cluster *c, struct pool_rec *p, struct pool_job_rec *l, uint64_t at_us,
                        uint64_t price_uusd)
{
	uint64_t cost = cost_uusd(l->price_uusd, at_us > l->since_us ? at_us - l->since_us : 0);

	l->idle_uusd += cost;
	p->idle_uusd += cost;
	l->since_us = at_us;
	l->price_uusd = price_uusd;
	cluster_mark(c, &l->head);
}

static void open_left(struct cluster *c, struct pool_rec *p, uint64_t job, uint64_t at_us, const cJSON *data)
{
	struct pool_job_rec *l = left_of(c, p, job);
	char name[24];

	find_number(name, job);
	if (!l) { /* after an earlier attempt it may have left something: the costs add up */
		l = cluster_pool_job(c, job);
		if (!l)
			l = (struct pool_job_rec *)cluster_rec_new(c, CLUSTER_POOL_JOB, name);
		l->job = job;
		l->pool = p->id;
		l->left_us = l->left_us ? l->left_us : at_us;
		l->since_us = at_us;
		l->until_us = l->reused_by = 0;
		l->status = LEFT_AVAILABLE;
		rec_set(&l->account, json_str_or(data, "account", NULL));
	}
	settle_left(c, p, l, at_us, idle_price(p));
}

static void close_left(struct cluster *c, struct pool_rec *p, enum pool_left status, uint64_t by,
                       uint64_t at_us)
{
	struct pool_job_rec *l = left_of(c, p, p->last_job);

	if (!l)
		return;
	settle_left(c, p, l, at_us, 0);
	l->status = status;
	l->until_us = at_us;
	if (by)
		l->reused_by = by;
}

/* ---- events ------------------------------------------------------------------------------------------ */

/* The name is that of the job that used the pool last. */
static void set_name(struct pool_rec *p, const cJSON *d)
{
	const char *name = json_str_or(d, "name", NULL);

	if (name)
		rec_set(&p->name, name);
}

/* What waited there is used, or gone with its place. */
static void forget_parked(struct pool_rec *p, uint64_t at_us)
{
	if (!p->parked)
		return;
	p->parked = 0;
	p->park_us = at_us;
}

static void apply_given(struct cluster *c, struct pool_rec *p, uint64_t at_us, const cJSON *d)
{
	cJSON *environment = cJSON_GetObjectItemCaseSensitive(d, "environment"),
	      *launch = cJSON_GetObjectItemCaseSensitive(d, "launch");
	uint64_t job = json_whole(d, "job", 0);

	if (p->last_job != job)
		p->idle_us = at_us;
	p->last_job = job;
	p->exclusive = (uint8_t)cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "exclusive"));
	p->keep_alive_s = json_whole(d, "keep_alive_s", 0);
	p->expires_us = json_whole(d, "expires_us", 0);
	rec_set(&p->queue, json_str_or(d, "queue", NULL));
	rec_set(&p->kept_by, NULL);
	set_name(p, d);
	if (environment) { /* once for each job: it may be large */
		free(p->environment);
		p->environment = cJSON_IsObject(environment) ? json_text(environment) : NULL;
		free(p->launch);
		p->launch = cJSON_IsObject(launch) ? json_text(launch) : NULL;
		rec_set(&p->park_text, NULL);
	}
	forget_parked(p, at_us);
	set_parts(p, cJSON_GetObjectItemCaseSensitive(d, "parts"));
	open_left(c, p, job, at_us, d);
}

static void apply_made(struct cluster *c, struct pool_rec *p, uint64_t at_us, const cJSON *d)
{
	p->id = strtoull(p->head.name, NULL, 10);
	p->made_by = json_whole(d, "job", 0);
	p->made_us = p->idle_us = at_us;
	p->chain_us = json_whole(d, "chain_us", at_us);
	rec_set(&p->owner, json_str_or(d, "owner", NULL));
	apply_given(c, p, at_us, d);
}

struct ending { /* of a pool, or of parts of it */
	const char *cause, *text;
	uint64_t at_us;
};

/* Notes why the parts on these nodes are gone. */
static void note_ended(struct pool_rec *p, const struct strv *nodes, const struct ending *e)
{
	cJSON *list = p->ended_parts ? cJSON_Parse(p->ended_parts) : cJSON_CreateArray();

	for (size_t i = 0; i < nodes->n; i++) {
		cJSON *o = cJSON_CreateObject();

		json_add_str(o, "node", nodes->v[i]);
		json_add_str(o, "cause", e->cause);
		json_add_str(o, "text", e->text);
		json_add_u64(o, "at_us", e->at_us);
		cJSON_AddItemToArray(list, o);
	}
	while (cJSON_GetArraySize(list) > ENDED_PARTS)
		cJSON_DeleteItemFromArray(list, 0);
	free(p->ended_parts);
	p->ended_parts = json_text(list);
	cJSON_Delete(list);
}

static void end_pool(struct cluster *c, struct pool_rec *p, enum pool_left status, uint64_t by,
                     const struct ending *e)
{
	struct strv nodes = {0};

	close_left(c, p, status, by, e->at_us);
	for (uint32_t i = 0; i < p->n_parts; i++)
		strv_add(&nodes, p->parts[i].node);
	note_ended(p, &nodes, e);
	strv_fini(&nodes);
	drop_parts(p);
	p->ended_us = e->at_us;
	rec_set(&p->cause, e->cause);
	rec_set(&p->cause_text, e->text);
	rec_set(&p->environment, NULL); /* they may be large, and nobody compares with them again */
	rec_set(&p->launch, NULL);
	rec_set(&p->park_text, NULL);
	forget_parked(p, e->at_us);
}

static void drop_named(struct pool_rec *p, const cJSON *nodes, const struct ending *e)
{
	struct strv names = {0};
	const cJSON *v;

	cJSON_ArrayForEach (v, nodes) {
		struct pool_part *part = cJSON_IsString(v) ? find_part(p, v->valuestring) : NULL;

		if (!part)
			continue;
		drop_part(p, part);
		strv_add(&names, v->valuestring);
	}
	if (names.n) {
		note_ended(p, &names, e);
		forget_parked(p, e->at_us);
	}
	strv_fini(&names);
}

static void apply_taken(struct cluster *c, struct pool_rec *p, uint64_t at_us, const cJSON *d)
{
	uint64_t job = json_whole(d, "job", 0);
	struct pool_job_rec *l = left_of(c, p, p->last_job);
	cleanup_free char *text = xasprintf("job %" PRIu64 " took it", job);
	cleanup_free char *last = xasprintf("job %" PRIu64 " took its last node", job);

	if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "whole"))) {
		close_left(c, p, LEFT_REUSED, job, at_us);
		for (uint32_t i = 0; i < p->n_parts; i++)
			p->parts[i].used_by = job;
		forget_parked(p, at_us);
		set_name(p, d);
		return;
	}
	drop_named(p, cJSON_GetObjectItemCaseSensitive(d, "nodes"), &(struct ending){"taken", text, at_us});
	if (!p->n_parts) {
		end_pool(c, p, LEFT_REUSED, job, &(struct ending){pool_cause_names[POOL_OWNER], last, at_us});
	} else if (l) {
		settle_left(c, p, l, at_us, idle_price(p));
		l->reused_by = job;
	}
}

static void apply_ended(struct cluster *c, struct pool_rec *p, uint64_t at_us, const cJSON *d)
{
	const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(d, "nodes");
	struct pool_job_rec *l = left_of(c, p, p->last_job);
	struct ending e = {json_str_or(d, "cause", ""), json_str_or(d, "text", NULL), at_us};

	drop_named(p, nodes, &e);
	if (!nodes || !p->n_parts)
		end_pool(c, p, LEFT_TERMINATED, 0, &e);
	else if (l)
		settle_left(c, p, l, at_us, idle_price(p));
}

/* A user set its time, or prices of its nodes have changed. */
static void apply_changed(struct cluster *c, struct pool_rec *p, uint64_t at_us, const cJSON *d)
{
	const cJSON *v, *prices = cJSON_GetObjectItemCaseSensitive(d, "prices");
	struct pool_job_rec *l = left_of(c, p, p->last_job);

	cJSON_ArrayForEach (v, prices) {
		struct pool_part *part = find_part(p, json_str_or(v, "node", ""));

		if (part)
			part->price_uusd = json_whole(v, "price_uusd", 0);
	}
	if (prices && l)
		settle_left(c, p, l, at_us, idle_price(p));
	if (!cJSON_GetObjectItemCaseSensitive(d, "keep_alive_s"))
		return;
	p->keep_alive_s = json_whole(d, "keep_alive_s", 0);
	p->expires_us = json_whole(d, "expires_us", 0);
	rec_set(&p->kept_by, json_str_or(d, "by", NULL));
}

static void apply_parking(struct pool_rec *p, enum event_type t, uint64_t at_us, const cJSON *d)
{
	uint64_t number = json_whole(d, "parking", 0);

	if (t == EV_POOL_PARKING) {
		p->parkings = number;
		p->park_epoch = json_whole(d, "epoch", 0);
	}
	if (t != EV_POOL_PARKED || p->parked != number) /* else it has another text */
		p->park_us = at_us;
	p->parked = t == EV_POOL_PARKED ? number : 0;
	rec_set(&p->park_text, json_str_or(d, "text", NULL));
}

void pool_apply(struct cluster *c, struct pool_rec *p, enum event_type t, uint64_t at_us, const cJSON *data)
{
	if (t == EV_POOL_MADE)
		apply_made(c, p, at_us, data);
	if (t == EV_POOL_GIVEN)
		apply_given(c, p, at_us, data);
	if (t == EV_POOL_TAKEN)
		apply_taken(c, p, at_us, data);
	if (t == EV_POOL_ENDED)
		apply_ended(c, p, at_us, data);
	if (t == EV_POOL_CHANGED)
		apply_changed(c, p, at_us, data);
	if (t == EV_POOL_PARKING || t == EV_POOL_PARKED || t == EV_POOL_UNPARKED)
		apply_parking(p, t, at_us, data);
}

/* ---- rows -------------------------------------------------------------------------------------------- */

/* Rows borrow texts. Their fields are not const because other rows own them. */
static char *lend_text(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

#define ROW_TEXT(v)          lend_text(v)
#define ROW_U64(v)           (v)
#define ROW_U8(v)            (v)
#define ROW_SAME(kind, name) row->name = ROW_##kind(from->name);
#define ROW_MADE(kind, name)
#define ROW_KEY(kind, name)
#define ROW_COLUMN(kind, name, how) ROW_##how(kind, name)
#define RECORD_TEXT(name)           rec_set(&to->name, row->name);
#define RECORD_U64(name)            to->name = row->name;
#define RECORD_U8(name)             to->name = row->name;
#define RECORD_SAME(kind, name)     RECORD_##kind(name)
#define RECORD_MADE(kind, name)
#define RECORD_KEY(kind, name)
#define RECORD_COLUMN(kind, name, how) RECORD_##how(kind, name)

void pool_make_row(const struct pool_rec *p, struct pool_row *row)
{
	const struct pool_rec *from = p;

	*row = (struct pool_row){
	    .id = p->id, .state = lend_text(pool_state_names[pool_state_of(p)]), .parts = parts_text(p)};
	POOL_TABLE(ROW_COLUMN, ROW_COLUMN)
}

void pool_job_make_row(const struct pool_job_rec *l, struct pool_job_row *row)
{
	const struct pool_job_rec *from = l;

	*row = (struct pool_job_row){.job = l->job, .status = lend_text(pool_left_names[l->status])};
	POOL_JOB_TABLE(ROW_COLUMN, ROW_COLUMN)
}

void pool_from_record_row(struct pool_rec *p, const struct pool_row *row)
{
	struct pool_rec *to = p;
	cJSON *parts = row->parts ? cJSON_Parse(row->parts) : NULL;

	p->id = row->id;
	POOL_TABLE(RECORD_COLUMN, RECORD_COLUMN)
	set_parts(p, parts);
	cJSON_Delete(parts);
}

void pool_job_from_record_row(struct pool_job_rec *l, const struct pool_job_row *row)
{
	struct pool_job_rec *to = l;
	int status = name_find(pool_left_names, N_POOL_LEFT, row->status ? row->status : "");

	l->job = row->job;
	l->status = status < 0 ? LEFT_TERMINATED : (enum pool_left)status;
	POOL_JOB_TABLE(RECORD_COLUMN, RECORD_COLUMN)
}
