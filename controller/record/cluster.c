/*
 * cluster: what the events of the cluster do to its records. See cluster.h.
 *
 * The table CLUSTER_EVENTS of event.h names one function for each event. cluster_apply finds or makes the
 * record that the event names, and calls the function.
 */
#include "controller/record/cluster.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "controller/record/pool.h"

#define P(id, name) name,
const char *const token_kind_names[] = {"join", "user", "session", NULL};
const char *const budget_period_names[] = {BUDGET_PERIODS(P)};
const char *const budget_action_names[] = {BUDGET_ACTIONS(P)};
const char *const reserve_state_names[] = {RESERVE_STATES(P)};
#undef P

struct cluster_change {
	enum cluster_kind kind;
	char *name;
	struct cluster_change *next, *prev;
};

struct ctx { /* one event */
	struct cluster *c;
	struct cluster_rec *rec;
	enum event_type type;
	uint64_t at_us;
	const cJSON *data;
};

static const struct kind {
	const char *what, *key; /* name of the kind in sentences; key of the record's name in an event */
	size_t size;
} kinds[N_CLUSTER_KIND] = {
    [CLUSTER_NODE] = {"node", "node", sizeof(struct node_rec)},
    [CLUSTER_TOKEN] = {"token", "id", sizeof(struct token_rec)},
    [CLUSTER_QUEUE] = {"queue", "queue", sizeof(struct queue_rec)},
    [CLUSTER_BUDGET] = {"budget", "queue", sizeof(struct budget_rec)},
    [CLUSTER_INSTANCE] = {"instance type", "instance", sizeof(struct instance_rec)},
    [CLUSTER_RESERVATION] = {"reservation", "reservation", sizeof(struct reservation_rec)},
    [CLUSTER_POOL] = {"pool", "pool", sizeof(struct pool_rec)},
    [CLUSTER_POOL_JOB] = {"what a job left in a pool", "job", sizeof(struct pool_job_rec)},
};

int name_find(const char *const *names, int n, const char *name)
{
	while (--n >= 0 && strcmp(names[n], name) != 0)
		;
	return n;
}

/* ---- records --------------------------------------------------------------------------------- */

struct cluster_rec *cluster_find(const struct cluster *c, enum cluster_kind kind, const char *name)
{
	struct cluster_rec *r;

	HASH_FIND_STR(c->all[kind], name, r);
	return r;
}

struct node_rec *cluster_node(const struct cluster *c, const char *name)
{
	return (struct node_rec *)cluster_find(c, CLUSTER_NODE, name);
}

struct token_rec *cluster_token(const struct cluster *c, const char *id)
{
	return (struct token_rec *)cluster_find(c, CLUSTER_TOKEN, id);
}

struct queue_rec *cluster_queue(const struct cluster *c, const char *path)
{
	return (struct queue_rec *)cluster_find(c, CLUSTER_QUEUE, path);
}

struct budget_rec *cluster_budget(const struct cluster *c, const char *path)
{
	return (struct budget_rec *)cluster_find(c, CLUSTER_BUDGET, path);
}

struct instance_rec *cluster_instance(const struct cluster *c, const char *name)
{
	return (struct instance_rec *)cluster_find(c, CLUSTER_INSTANCE, name);
}

struct reservation_rec *cluster_reservation(const struct cluster *c, const char *name)
{
	return (struct reservation_rec *)cluster_find(c, CLUSTER_RESERVATION, name);
}

int cluster_is_stored(const struct cluster_rec *r)
{
	return r->kind != CLUSTER_QUEUE || ((const struct queue_rec *)r)->stored;
}

static void queue_reset(struct queue_rec *q)
{
	q->weight = 1;
	q->quota_gpus = q->warm_gpus = q->warm_nodes = 0;
	q->borrow = q->stored = 0;
	q->is_queue = strcmp(q->head.name, "default") == 0;
}

struct cluster_rec *cluster_rec_new(struct cluster *c, enum cluster_kind kind, const char *name)
{
	struct cluster_rec *r = xcalloc(1, c->size[kind]);

	r->kind = kind;
	r->name = xstrdup(name);
	HASH_ADD_KEYPTR(hh, c->all[kind], r->name, strlen(r->name), r);
	if (kind == CLUSTER_QUEUE)
		queue_reset((struct queue_rec *)r);
	if (kind == CLUSTER_BUDGET)
		((struct budget_rec *)r)->period = BUDGET_MONTH;
	if (kind == CLUSTER_INSTANCE)
		((struct instance_rec *)r)->own = cJSON_CreateObject();
	return r;
}

void reservation_rec_fini(struct reservation_rec *r)
{
	free(r->head.name);
	free(r->queue);
	free(r->reason);
	free(r->owner);
	strv_fini(&r->nodes);
}

static void node_rec_fini(struct node_rec *n)
{
	free(n->reason);
	free(n->fingerprint);
	free(n->address);
	free(n->inventory);
}

static void token_rec_fini(struct token_rec *t)
{
	free(t->owner);
	free(t->node);
	free(t->scope);
	free(t->account);
	free(t->note);
	free(t->parent);
	free(t->secret_hash);
	free(t->request);
	free(t->seen_from);
}

static void rec_free(struct cluster_rec *r)
{
	if (r->kind == CLUSTER_NODE)
		node_rec_fini((struct node_rec *)r);
	if (r->kind == CLUSTER_TOKEN)
		token_rec_fini((struct token_rec *)r);
	if (r->kind == CLUSTER_INSTANCE)
		cJSON_Delete(((struct instance_rec *)r)->own);
	if (r->kind == CLUSTER_POOL)
		pool_rec_fini((struct pool_rec *)r);
	if (r->kind == CLUSTER_POOL_JOB)
		pool_job_rec_fini((struct pool_job_rec *)r);
	if (r->kind == CLUSTER_RESERVATION)
		reservation_rec_fini((struct reservation_rec *)r); /* frees the name, too */
	else
		free(r->name);
	free(r);
}

void cluster_forget(struct cluster *c, struct cluster_rec *r)
{
	HASH_DELETE(hh, c->all[r->kind], r);
	rec_free(r);
}

void cluster_init(struct cluster *c)
{
	for (int k = 0; k < N_CLUSTER_KIND; k++)
		if (!c->size[k])
			c->size[k] = kinds[k].size;
	if (!cluster_queue(c, "default"))
		cluster_rec_new(c, CLUSTER_QUEUE, "default");
}

static void change_free(struct cluster *c, struct cluster_change *ch)
{
	DL_DELETE(c->changes, ch);
	free(ch->name);
	free(ch);
}

void cluster_clear(struct cluster *c)
{
	for (int k = 0; k < N_CLUSTER_KIND; k++)
		while (c->all[k])
			cluster_forget(c, c->all[k]);
	while (c->changes)
		change_free(c, c->changes);
}

/* ---- what changed ---------------------------------------------------------------------------- */

void cluster_mark(struct cluster *c, struct cluster_rec *r)
{
	struct cluster_change *ch;

	if (r->changed)
		return;
	r->changed = 1;
	ch = xcalloc(1, sizeof(*ch));
	ch->kind = r->kind;
	ch->name = xstrdup(r->name);
	DL_APPEND(c->changes, ch);
}

void cluster_changes(struct cluster *c, cluster_change_fn fn, void *arg)
{
	while (c->changes) {
		struct cluster_change *ch = c->changes;
		struct cluster_rec *r = cluster_find(c, ch->kind, ch->name);

		if (r)
			r->changed = 0;
		fn(ch->kind, ch->name, r, arg);
		change_free(c, ch);
	}
}

static void remove_rec(struct ctx *x)
{
	cluster_mark(x->c, x->rec);
	cluster_forget(x->c, x->rec);
	x->rec = NULL;
}

/* ---- data of an event ------------------------------------------------------------------------ */

static const cJSON *data_item(const struct ctx *x, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(x->data, key);
}

static const char *data_text(const struct ctx *x, const char *key)
{
	return json_str_or(x->data, key, "");
}

static uint64_t data_whole(const struct ctx *x, const char *key)
{
	return json_whole(x->data, key, 0);
}

/* Sets a text that is never NULL. */
static void set_string(char **to, const char *text)
{
	char *now = xstrdup(text ? text : "");

	free(*to);
	*to = now;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static struct node_rec *node_of(struct ctx *x)
{
	return (struct node_rec *)x->rec;
}

static void move_node(struct node_rec *n, enum node_state to, const char *reason)
{
	if (n->state != to && !state_move_ok(STATE_NODE, (int)n->state, (int)to))
		return;
	n->state = to;
	rec_set(&n->reason, reason);
}

static void use_token(struct ctx *x)
{
	struct token_rec *t = cluster_token(x->c, data_text(x, "token"));

	if (!t) /* the token expired, or the node showed only its certificate */
		return;
	t->used_us = x->at_us;
	rec_set(&t->node, x->rec->name);
	cluster_mark(x->c, &t->head);
}

static void apply_joined(struct ctx *x)
{
	struct node_rec *n = node_of(x);

	if (n->state != NODE_JOINING)
		move_node(n, NODE_JOINING, NULL);
	n->drain = n->spare = 0;
	n->joined_us = x->at_us;
	if (*data_text(x, "certificate"))
		rec_set(&n->fingerprint, data_text(x, "certificate"));
	use_token(x);
}

static void apply_inventory(struct ctx *x)
{
	struct node_rec *n = node_of(x);

	rec_set(&n->address, data_text(x, "address"));
	n->slots = data_whole(x, "slots");
	n->gpus = data_whole(x, "gpus");
	n->memory_bytes = data_whole(x, "memory_bytes");
	n->has_inventory = 1;
}

static void apply_connected(struct ctx *x)
{
	struct node_rec *n = node_of(x);
	cleanup_free char *reason = n->drain && n->reason ? xstrdup(n->reason) : NULL;

	move_node(n, NODE_UP, reason);
}

static void apply_gone(struct ctx *x)
{
	if (node_of(x)->state != NODE_REMOVED)
		move_node(node_of(x), NODE_LOST, data_text(x, "text"));
}

static void apply_drain(struct ctx *x)
{
	node_of(x)->drain = x->type == EV_DRAINED;
	rec_set(&node_of(x)->reason, data_text(x, "text"));
}

static void apply_spare(struct ctx *x)
{
	node_of(x)->spare = x->type == EV_SPARE;
}

static void apply_node_removed(struct ctx *x)
{
	move_node(node_of(x), NODE_REMOVED, "removed");
	node_of(x)->drain = node_of(x)->spare = 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void apply_token_made(struct ctx *x)
{
	struct token_rec *t = (struct token_rec *)x->rec;
	int kind = name_find(token_kind_names, N_TOKEN_KIND, data_text(x, "kind") ? data_text(x, "kind") : "");
	uint64_t ttl_us = data_whole(x, "ttl_s") * 1000000;

	t->kind = kind < 0 ? TOKEN_JOIN : (enum token_kind)kind;
	rec_set(&t->owner, data_text(x, t->kind == TOKEN_JOIN ? "by" : "user"));
	rec_set(&t->scope, data_text(x, "scope"));
	rec_set(&t->account, data_text(x, "account"));
	rec_set(&t->note, data_text(x, "note"));
	rec_set(&t->parent, data_text(x, "made_with"));
	t->job = data_whole(x, "job");
	t->created_us = x->at_us;
	if (data_item(x, "expires_us"))
		t->expires_us = data_whole(x, "expires_us");
	else /* a join token, and events that older versions wrote */
		t->expires_us = ttl_us || t->kind == TOKEN_JOIN ? x->at_us + ttl_us : 0;
}

/* ---- queues and quotas ----------------------------------------------------------------------- */

static struct queue_rec *queue_of(struct ctx *x)
{
	struct queue_rec *q = (struct queue_rec *)x->rec;

	q->stored = 1;
	return q;
}

static void apply_queue_set(struct ctx *x)
{
	const cJSON *weight = data_item(x, "weight");
	struct queue_rec *q = queue_of(x);

	if (cJSON_IsNumber(weight))
		q->weight = weight->valuedouble > 0 && weight->valuedouble < 1e12 ? weight->valuedouble : 0;
	q->is_queue = 1;
}

static void apply_queue_removed(struct ctx *x)
{
	struct queue_rec *q = queue_of(x);

	if (strcmp(q->head.name, "default") != 0)
		remove_rec(x);
	else
		queue_reset(q);
}

static void apply_quota_set(struct ctx *x)
{
	struct queue_rec *q = queue_of(x);

	q->quota_gpus = (uint32_t)data_whole(x, "gpus");
	q->borrow = (uint8_t)cJSON_IsTrue(data_item(x, "borrow"));
	q->warm_gpus = (uint32_t)data_whole(x, "warm_gpus");
	q->warm_nodes = (uint32_t)data_whole(x, "warm_nodes");
}

static void apply_quota_removed(struct ctx *x)
{
	struct queue_rec *q = queue_of(x);

	q->quota_gpus = q->warm_gpus = q->warm_nodes = 0;
	q->borrow = 0;
	if (!q->is_queue)
		remove_rec(x);
}

/* ---- budgets --------------------------------------------------------------------------------- */

static void apply_budget_set(struct ctx *x)
{
	struct budget_rec *b = (struct budget_rec *)x->rec;
	const cJSON *usd = data_item(x, "usd");
	int period = name_find(budget_period_names, N_BUDGET_PERIOD, data_text(x, "period"));
	/* Older versions had no other action than hold, and wrote none. */
	int action = name_find(budget_action_names, N_BUDGET_ACTION, data_text(x, "action"));

	b->uusd = cJSON_IsNumber(usd) && usd->valuedouble > 0 && usd->valuedouble < 1e12
	              ? (uint64_t)llround(usd->valuedouble * 1e6)
	              : 0;
	b->period = period < 0 ? BUDGET_MONTH : (enum budget_period)period;
	b->action = action < 0 ? BUDGET_HOLD : (enum budget_action)action;
}

/* ---- instance types -------------------------------------------------------------------------- */

static void apply_instance_set(struct ctx *x)
{
	cJSON *own = ((struct instance_rec *)x->rec)->own;
	const cJSON *v;

	cJSON_ArrayForEach (v, data_item(x, "set")) {
		cJSON_DeleteItemFromObjectCaseSensitive(own, v->string);
		if (!cJSON_IsNull(v))
			cJSON_AddItemToObject(own, v->string, cJSON_Duplicate(v, 1));
	}
}

/* ---- reservations ---------------------------------------------------------------------------- */

static struct reservation_rec *reservation_of(struct ctx *x)
{
	return (struct reservation_rec *)x->rec;
}

/* A changed reservation stays active; a new one, or one after an ended one of that name, is planned. */
static void apply_reservation_set(struct ctx *x)
{
	struct reservation_rec *r = reservation_of(x);
	const cJSON *v;

	r->state = r->state == RESERVE_ACTIVE ? RESERVE_ACTIVE : RESERVE_PLANNED;
	set_string(&r->queue, data_text(x, "queue"));
	set_string(&r->reason, data_text(x, "reason"));
	set_string(&r->owner, data_text(x, "owner"));
	r->from_us = data_whole(x, "from_us");
	r->to_us = data_whole(x, "to_us");
	r->created_us = data_whole(x, "created_us");
	strv_fini(&r->nodes);
	cJSON_ArrayForEach (v, data_item(x, "nodes"))
		if (cJSON_IsString(v))
			strv_add(&r->nodes, v->valuestring);
}

static void apply_reservation_step(struct ctx *x)
{
	reservation_of(x)->state = x->type == EV_RESERVATION_BEGAN ? RESERVE_ACTIVE : RESERVE_ENDED;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void apply_pool(struct ctx *x)
{
	pool_apply(x->c, (struct pool_rec *)x->rec, x->type, x->at_us, x->data);
}

/* ---- entry ----------------------------------------------------------------------------------- */

static void apply_nothing(struct ctx *x)
{
	(void)x;
}

static void apply_remove(struct ctx *x)
{
	remove_rec(x);
}

enum need { NEEDS, MAKES };
static const struct rule {
	enum cluster_kind kind;
	enum need need;
	void (*apply)(struct ctx *x);
} rules[] = {
#define E(id, name, kind, need, fn) {CLUSTER_##kind, need, apply_##fn},
    CLUSTER_EVENTS(E)
#undef E
};

int cluster_apply(struct cluster *c, enum event_type t, uint64_t at_us, const cJSON *data, struct err *e)
{
	const struct rule *rule;
	const struct kind *kind;
	struct ctx x = {.c = c, .type = t, .at_us = at_us, .data = data};
	const cJSON *item;
	char number[24];
	const char *name;

	if (t < EV_JOINED || t >= N_EVENT_TYPE)
		return err_set(e, ERR_INTERNAL, "%s is not an event of the cluster", event_name(t));
	rule = &rules[t - EV_JOINED];
	if (rule->kind == CLUSTER_NONE)
		return 0;
	kind = &kinds[rule->kind];
	item = data_item(&x, kind->key);
	snprintf(number, sizeof(number), "%" PRIu64, data_whole(&x, kind->key));
	name = rule->kind == CLUSTER_POOL && cJSON_IsNumber(item) ? number : data_text(&x, kind->key);
	if (!*name)
		return err_set(e, ERR_INTERNAL, "it has no name");
	x.rec = cluster_find(c, rule->kind, name);
	if (rule->need == NEEDS && (!x.rec || !cluster_is_stored(x.rec)))
		return err_set(e, ERR_INTERNAL, "there is no %s \"%.80s\"", kind->what, name);
	if (!x.rec)
		x.rec = cluster_rec_new(c, rule->kind, name);
	rule->apply(&x);
	if (x.rec && rule->apply != apply_nothing)
		cluster_mark(c, x.rec);
	return 0;
}
