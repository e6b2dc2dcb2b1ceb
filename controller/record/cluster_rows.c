/*
 * cluster_rows: see cluster_rows.h.
 */
#include "controller/record/cluster_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "controller/record/inventory.h"
#include "controller/record/pool.h"

/* Rows borrow texts. Their fields are not const because other rows own them. */
static char *lend_text(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

/* Returns the record to fill, or NULL to leave the row out. */
static void *load_rec(struct cluster *c, enum cluster_kind kind, const char *name)
{
	struct cluster_rec *r;

	if (!name || !*name)
		return NULL;
	r = cluster_find(c, kind, name);
	if (r && kind == CLUSTER_QUEUE && !((struct queue_rec *)r)->stored)
		return r;
	return r ? NULL : cluster_rec_new(c, kind, name);
}

/* ---- from rows ------------------------------------------------------------------------------- */

static struct cluster_rec *load_node(struct cluster *c, const struct node_row *row)
{
	struct node_rec *n = load_rec(c, CLUSTER_NODE, row->name);
	int state = state_find(STATE_NODE, row->state);
	struct inv inv;

	if (!n)
		return NULL;
	n->state = state < 0 ? NODE_LOST : (enum node_state)state;
	n->drain = row->drain;
	n->spare = row->spare;
	rec_set(&n->reason, row->reason);
	rec_set(&n->fingerprint, row->cert_fingerprint);
	rec_set(&n->address, row->address);
	n->joined_us = row->joined_us;
	n->id = row->id;
	n->seen_us = row->seen_us;
	if (!row->inventory || !*row->inventory || inv_parse(&inv, row->inventory) < 0)
		return &n->head;
	n->inventory = xstrdup(row->inventory);
	n->slots = inv.slots;
	n->gpus = inv.n_gpus;
	n->memory_bytes = inv.memory_bytes;
	n->has_inventory = 1;
	inv_fini(&inv);
	return &n->head;
}

static struct cluster_rec *load_token(struct cluster *c, const struct token_row *row)
{
	int kind = name_find(token_kind_names, N_TOKEN_KIND, row->kind ? row->kind : "");
	struct token_rec *t;
	const char *blank;

	if (!row->secret_hash || kind < 0)
		return NULL; /* of jobs; HTTP looks them up */
	t = load_rec(c, CLUSTER_TOKEN, row->id);
	if (!t)
		return NULL;
	t->kind = (enum token_kind)kind;
	rec_set(&t->secret_hash, row->secret_hash);
	rec_set(&t->owner, row->owner);
	rec_set(&t->scope, row->scope);
	rec_set(&t->account, row->account);
	rec_set(&t->note, row->note);
	rec_set(&t->parent, row->made_with);
	rec_set(&t->seen_from, row->seen_from);
	t->seen_us = row->seen_us;
	t->job = row->job;
	t->created_us = row->created_us;
	t->expires_us = row->expires_us;
	t->used_us = row->used_us;
	blank = row->used_by ? strchr(row->used_by, ' ') : NULL;
	if (blank) {
		t->node = xstrndup(row->used_by, (size_t)(blank - row->used_by));
		rec_set(&t->request, blank + 1);
	}
	return &t->head;
}

static struct cluster_rec *load_queue(struct cluster *c, const struct queue_row *row)
{
	struct queue_rec *q = load_rec(c, CLUSTER_QUEUE, row->path);

	if (!q)
		return NULL;
	q->is_queue |= row->is_queue;
	q->weight = (double)row->weight_milli / 1000;
	q->quota_gpus = row->quota_gpus;
	q->borrow = row->borrow;
	q->warm_gpus = row->warm_gpus;
	q->warm_nodes = row->warm_nodes;
	q->stored = 1;
	return &q->head;
}

static struct cluster_rec *load_budget(struct cluster *c, const struct budget_row *row)
{
	int period = name_find(budget_period_names, N_BUDGET_PERIOD, row->period ? row->period : "");
	int action = name_find(budget_action_names, N_BUDGET_ACTION, row->action ? row->action : "");
	struct budget_rec *b;

	if (period < 0 || action < 0)
		return NULL;
	b = load_rec(c, CLUSTER_BUDGET, row->path);
	if (!b)
		return NULL;
	b->uusd = row->uusd;
	b->period = (enum budget_period)period;
	b->action = (enum budget_action)action;
	return &b->head;
}

static struct cluster_rec *load_instance(struct cluster *c, const char *name, const char *own)
{
	cJSON *facts = own ? cJSON_Parse(own) : NULL;
	struct instance_rec *t = cJSON_IsObject(facts) ? load_rec(c, CLUSTER_INSTANCE, name) : NULL;

	if (!t) {
		cJSON_Delete(facts);
		return NULL;
	}
	cJSON_Delete(t->own);
	t->own = facts;
	return &t->head;
}

static struct cluster_rec *load_reservation(struct cluster *c, const struct reservation_row *row)
{
	int state = name_find(reserve_state_names, N_RESERVE_STATE, row->state);
	struct reservation_rec *r = load_rec(c, CLUSTER_RESERVATION, row->name);
	char *nodes, *save = NULL;

	if (!r)
		return NULL;
	r->state = state < 0 ? RESERVE_PLANNED : (enum reserve_state)state;
	r->queue = xstrdup(row->queue);
	r->reason = xstrdup(row->reason);
	r->owner = xstrdup(row->owner);
	r->from_us = row->from_us;
	r->to_us = row->to_us;
	r->created_us = row->created_us;
	nodes = xstrdup(row->nodes);
	for (char *w = strtok_r(nodes, " ", &save); w; w = strtok_r(NULL, " ", &save))
		strv_add(&r->nodes, w);
	free(nodes);
	return &r->head;
}

/* The record of a row whose key is a number. */
static void *load_numbered(struct cluster *c, enum cluster_kind kind, uint64_t number)
{
	char name[24];

	snprintf(name, sizeof(name), "%" PRIu64, number);
	return load_rec(c, kind, name);
}

static struct cluster_rec *load_pool(struct cluster *c, const struct pool_row *row)
{
	struct pool_rec *p = load_numbered(c, CLUSTER_POOL, row->id);

	if (p)
		pool_from_record_row(p, row);
	return p ? &p->head : NULL;
}

static struct cluster_rec *load_pool_job(struct cluster *c, const struct pool_job_row *row)
{
	struct pool_job_rec *l = load_numbered(c, CLUSTER_POOL_JOB, row->job);

	if (l)
		pool_job_from_record_row(l, row);
	return l ? &l->head : NULL;
}

struct cluster_rec *cluster_load(struct cluster *c, const struct store_cluster_row *row)
{
	if (row->node)
		return load_node(c, row->node);
	if (row->token)
		return load_token(c, row->token);
	if (row->queue)
		return load_queue(c, row->queue);
	if (row->budget)
		return load_budget(c, row->budget);
	if (row->reservation)
		return load_reservation(c, row->reservation);
	if (row->pool)
		return load_pool(c, row->pool);
	if (row->pool_job)
		return load_pool_job(c, row->pool_job);
	return load_instance(c, row->instance, row->own);
}

/* ---- to rows --------------------------------------------------------------------------------- */

static void make_node(const struct node_rec *n, struct cluster_row *out)
{
	/* "drained" in the API is made of state and drain. */
	out->node = (struct node_row){
	    .id = n->id,
	    .name = n->head.name,
	    .address = lend_text(n->address),
	    .state = lend_text(state_name(STATE_NODE, (int)n->state)),
	    .reason = lend_text(n->reason),
	    .cert_fingerprint = lend_text(n->fingerprint),
	    .inventory = lend_text(n->inventory),
	    .joined_us = n->joined_us,
	    .seen_us = n->seen_us,
	    .drain = n->drain,
	    .spare = n->spare,
	};
	out->row.node = &out->node;
}

static void make_token(const struct token_rec *t, struct cluster_row *out)
{
	if (t->node)
		out->own = xasprintf("%s %s", t->node, t->request ? t->request : "");
	out->token = (struct token_row){
	    .id = t->head.name,
	    .kind = lend_text(token_kind_names[t->kind]),
	    .secret_hash = lend_text(t->secret_hash),
	    .owner = lend_text(t->owner),
	    .job = t->job,
	    .scope = lend_text(t->scope),
	    .account = lend_text(t->account),
	    .note = lend_text(t->note),
	    .made_with = lend_text(t->parent),
	    .seen_us = t->seen_us,
	    .seen_from = lend_text(t->seen_from),
	    .created_us = t->created_us,
	    .expires_us = t->expires_us,
	    .used_us = t->used_us,
	    .used_by = out->own,
	};
	out->row.token = &out->token;
}

static void make_queue(const struct queue_rec *q, struct cluster_row *out)
{
	out->queue = (struct queue_row){
	    .path = q->head.name,
	    .is_queue = q->is_queue,
	    .borrow = q->borrow,
	    .weight_milli = (uint64_t)llround(q->weight * 1000),
	    .quota_gpus = q->quota_gpus,
	    .warm_gpus = q->warm_gpus,
	    .warm_nodes = q->warm_nodes,
	};
	out->row.queue = &out->queue;
}

static void make_budget(const struct budget_rec *b, struct cluster_row *out)
{
	out->budget = (struct budget_row){
	    .path = b->head.name,
	    .uusd = b->uusd,
	    .period = budget_period_names[b->period],
	    .action = budget_action_names[b->action],
	};
	out->row.budget = &out->budget;
}

static void make_instance(const struct instance_rec *t, struct cluster_row *out)
{
	out->own = json_text(t->own);
	out->row.instance = t->head.name;
	out->row.own = out->own;
}

static char *join_names(const struct strv *names)
{
	size_t size = 1, used = 0;
	char *all;

	for (size_t i = 0; i < names->n; i++)
		size += strlen(names->v[i]) + 1;
	all = xcalloc(size, 1);
	for (size_t i = 0; i < names->n; i++)
		used += (size_t)snprintf(all + used, size - used, "%s%s", i ? " " : "", names->v[i]);
	return all;
}

static void make_reservation(const struct reservation_rec *r, struct cluster_row *out)
{
	out->own = join_names(&r->nodes);
	out->reservation = (struct reservation_row){
	    .name = r->head.name,
	    .state = reserve_state_names[r->state],
	    .queue = r->queue,
	    .nodes = out->own,
	    .reason = r->reason,
	    .owner = r->owner,
	    .from_us = r->from_us,
	    .to_us = r->to_us,
	    .created_us = r->created_us,
	};
	out->row.reservation = &out->reservation;
}

void cluster_row_make(const struct cluster_rec *r, struct cluster_row *out)
{
	*out = (struct cluster_row){.own = NULL};
	switch (r->kind) {
	case CLUSTER_NODE:
		make_node((const struct node_rec *)r, out);
		break;
	case CLUSTER_TOKEN:
		make_token((const struct token_rec *)r, out);
		break;
	case CLUSTER_QUEUE:
		make_queue((const struct queue_rec *)r, out);
		break;
	case CLUSTER_BUDGET:
		make_budget((const struct budget_rec *)r, out);
		break;
	case CLUSTER_INSTANCE:
		make_instance((const struct instance_rec *)r, out);
		break;
	case CLUSTER_RESERVATION:
		make_reservation((const struct reservation_rec *)r, out);
		break;
	case CLUSTER_POOL:
		pool_make_row((const struct pool_rec *)r, &out->pool);
		out->own = out->pool.parts;
		out->row.pool = &out->pool;
		break;
	case CLUSTER_POOL_JOB:
		pool_job_make_row((const struct pool_job_rec *)r, &out->pool_job);
		out->row.pool_job = &out->pool_job;
		break;
	case N_CLUSTER_KIND:
		break;
	}
}

void cluster_row_fini(struct cluster_row *r)
{
	free(r->own);
	r->own = NULL;
}
