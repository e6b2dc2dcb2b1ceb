/*
 * replay_cluster: the cluster's events (job 0) against the rows of nodes, join tokens and reservations, and
 * of what replay_queues.c knows. What an event does to a row is told again here, in short, as admin.c,
 * lease.c, nodes.c, sync.c, tokens.c and reserve.c do it.
 *
 * A node is known by its name: when one that was removed comes back after a restart it has a new row, and the
 * old one stays as it was. Not compared: when a node was last seen, which no event says; times to the second,
 * as row and event each looked at the clock.
 */
#include "common/json.h"
#include "common/xalloc.h"
#include "controller/core_int.h"
#include "controller/replay_queues.h"
#include "store/store.h"
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define CLOCK_US 5000000ull /* between two looks at the clock */

struct node_seen {
	char *name;
	enum node_state state;
	char *reason, *address, *fingerprint; /* fingerprint NULL: not told */
	uint64_t joined_us, slots, gpus, memory_bytes;
	int drain, inventory;
	int row; /* its newest was compared */
	UT_hash_handle hh;
};

struct token_seen {
	char *id, *kind, *by, *node; /* node: NULL not used */
	uint64_t made_us, ttl_s, used_us;
	int row;
	UT_hash_handle hh;
};

struct reserve_seen {
	char *name, *state, *queue, *nodes, *reason, *owner;
	uint64_t from_us, to_us, created_us;
	int row;
	UT_hash_handle hh;
};

struct cluster {
	struct node_seen *nodes;
	struct token_seen *tokens;
	struct reserve_seen *reserves;
	struct set_seen *sets;
};

static int say(char *why, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int say(char *why, size_t n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, n, fmt, ap);
	va_end(ap);
	return -1;
}

static const char *text(const cJSON *d, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, key));

	return s ? s : "";
}

static uint64_t number(const cJSON *d, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(d, key);

	return cJSON_IsNumber(v) && v->valuedouble >= 0 ? (uint64_t)v->valuedouble : 0;
}

static void set(char **to, const char *s)
{
	char *now = s ? xstrdup(s) : NULL; /* s may be what *to is */

	free(*to);
	*to = now;
}

static int near(uint64_t a, uint64_t b)
{
	return a > b ? a - b <= CLOCK_US : b - a <= CLOCK_US;
}

static const char *some(const char *s)
{
	return s ? s : "";
}

/* ---- events ---------------------------------------------------------------------------------- */

static void move(struct node_seen *n, enum node_state to, const char *reason)
{
	if (n->state != to && !state_move_ok(STATE_NODE, (int)n->state, (int)to))
		return;
	n->state = to;
	set(&n->reason, reason);
}

static struct node_seen *node_get(struct cluster *c, const char *name, int make)
{
	struct node_seen *n;

	HASH_FIND_STR(c->nodes, name, n);
	if (n || !make)
		return n;
	n = xcalloc(1, sizeof *n);
	n->name = xstrdup(name);
	n->state = NODE_JOINING;
	HASH_ADD_KEYPTR(hh, c->nodes, n->name, strlen(n->name), n);
	return n;
}

static struct token_seen *token_get(struct cluster *c, const char *id, int make)
{
	struct token_seen *t;

	HASH_FIND_STR(c->tokens, id, t);
	if (t || !make)
		return t;
	t = xcalloc(1, sizeof *t);
	t->id = xstrdup(id);
	HASH_ADD_KEYPTR(hh, c->tokens, t->id, strlen(t->id), t);
	return t;
}

static void joined(struct cluster *c, struct node_seen *n, const cJSON *d, uint64_t at_us)
{
	struct token_seen *t = token_get(c, text(d, "token"), 0);

	if (n->state != NODE_JOINING)
		move(n, NODE_JOINING, NULL);
	n->drain = 0;
	n->joined_us = at_us;
	set(&n->fingerprint, *text(d, "certificate") ? text(d, "certificate") : NULL);
	if (!t)
		return;
	t->used_us = at_us;
	set(&t->node, n->name);
}

static void token_made(struct cluster *c, const cJSON *d, uint64_t at_us)
{
	struct token_seen *t = token_get(c, text(d, "id"), 1);

	set(&t->kind, text(d, "kind"));
	set(&t->by, text(d, "by"));
	t->made_us = at_us;
	t->ttl_s = number(d, "ttl_s");
}

static void inventory(struct node_seen *n, const cJSON *d)
{
	n->inventory = 1;
	set(&n->address, text(d, "address"));
	n->slots = number(d, "slots");
	n->gpus = number(d, "gpus");
	n->memory_bytes = number(d, "memory_bytes");
}

static int node_event(struct cluster *c, enum event_type type, const cJSON *d, uint64_t at_us, char *why,
                      size_t size)
{
	struct node_seen *n = node_get(c, text(d, "node"), type == EV_JOINED);

	if (!n)
		return say(why, size, "node \"%.80s\" has not joined", text(d, "node"));
	switch (type) {
	case EV_JOINED:
		joined(c, n, d, at_us);
		break;
	case EV_INVENTORY:
		inventory(n, d);
		break;
	case EV_CONNECTED:
		move(n, NODE_UP, n->drain ? n->reason : NULL);
		break;
	case EV_GONE:
		if (n->state != NODE_REMOVED)
			move(n, NODE_LOST, text(d, "text"));
		break;
	case EV_DRAINED:
	case EV_RESUMED:
		n->drain = type == EV_DRAINED;
		set(&n->reason, text(d, "text"));
		break;
	case EV_NODE_REMOVED:
		move(n, NODE_REMOVED, "removed");
		n->drain = 0;
		break;
	default:
		break; /* a silence changes no row */
	}
	return 0;
}

static void reserve_free_seen(struct cluster *c, struct reserve_seen *r)
{
	HASH_DEL(c->reserves, r);
	free(r->name);
	free(r->state);
	free(r->queue);
	free(r->nodes);
	free(r->reason);
	free(r->owner);
	free(r);
}

static void reserve_set_seen(struct cluster *c, struct reserve_seen *r, const char *name, const cJSON *d)
{
	if (!r) {
		r = xcalloc(1, sizeof *r);
		r->name = xstrdup(name);
		HASH_ADD_KEYPTR(hh, c->reserves, r->name, strlen(r->name), r);
	}
	if (!r->state || strcmp(r->state, "ended") == 0) /* new, or of that name again */
		set(&r->state, "planned");
	set(&r->queue, text(d, "queue"));
	set(&r->reason, text(d, "reason"));
	set(&r->owner, text(d, "owner"));
	free(r->nodes);
	r->nodes = json_join(cJSON_GetObjectItemCaseSensitive(d, "nodes"), " ");
	r->from_us = number(d, "from_us");
	r->to_us = number(d, "to_us");
	r->created_us = number(d, "created_us");
}

static int reserve_event(struct cluster *c, enum event_type type, const cJSON *d, char *why, size_t size)
{
	const char *name = text(d, "reservation");
	struct reserve_seen *r;

	HASH_FIND_STR(c->reserves, name, r);
	if (type == EV_RESERVATION_SET)
		reserve_set_seen(c, r, name, d);
	else if (!r)
		return say(why, size, "there is no reservation \"%.80s\"", name);
	else if (type == EV_RESERVATION_REMOVED)
		reserve_free_seen(c, r);
	else
		set(&r->state, type == EV_RESERVATION_BEGAN ? "active" : "ended");
	return 0;
}

static int on_event(struct cluster *c, const struct event_row *ev, char *why, size_t size)
{
	int type = event_find(ev->type), rc = 0;
	cJSON *d = cJSON_Parse(ev->data ? ev->data : "{}");

	if (type == EV_TOKEN_MADE)
		token_made(c, d, ev->at_us);
	else if ((type >= EV_QUEUE_SET && type <= EV_INSTANCE_REMOVED) ||
	         (type >= EV_BUDGET_SET && type <= EV_BUDGET_OPEN))
		rc = set_seen_event(&c->sets, (enum event_type)type, d, why, size);
	else if (type >= EV_RESERVATION_SET && type <= EV_RESERVATION_REMOVED)
		rc = reserve_event(c, (enum event_type)type, d, why, size);
	else if (type >= EV_JOINED && type < N_EVENT_TYPE)
		rc = node_event(c, (enum event_type)type, d, ev->at_us, why, size);
	else
		rc = say(why, size, "unknown type \"%.60s\"", some(ev->type));
	cJSON_Delete(d);
	return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int inventory_differs(const struct node_seen *n, const struct node_row *row, char *why, size_t size)
{
	struct inv inv;
	int rc = 0;

	if (!n->inventory)
		return say(why, size, "inventory: there is one, but no event of it");
	if (inv_parse(&inv, row->inventory) < 0)
		return say(why, size, "inventory: it cannot be read");
	if (strcmp(some(n->address), some(row->address)) != 0)
		rc = say(why, size, "address: events give \"%.80s\", the row has \"%.80s\"", some(n->address),
		         some(row->address));
	else if (inv.slots != n->slots || inv.n_gpus != n->gpus || inv.memory_bytes != n->memory_bytes)
		rc = say(why, size,
		         "inventory: events give %llu slots, %llu GPUs and %llu bytes, the row has %u, %u and %llu",
		         (unsigned long long)n->slots, (unsigned long long)n->gpus,
		         (unsigned long long)n->memory_bytes, inv.slots, inv.n_gpus,
		         (unsigned long long)inv.memory_bytes);
	inv_fini(&inv);
	return rc;
}

static int on_node(struct cluster *c, const struct node_row *row, char *why, size_t size)
{
	struct node_seen *n = node_get(c, some(row->name), 0);
	const char *state = n ? state_name(STATE_NODE, (int)n->state) : "";

	if (!n)
		return say(why, size, "no event tells of it");
	if (n->row++) /* it came back under its name, as another row */
		return strcmp(some(row->state), "removed") == 0
		           ? 0
		           : say(why, size, "there is a later row of its name, and this one is not removed");
	if (strcmp(state, some(row->state)) != 0)
		return say(why, size, "state: events give \"%s\", the row has \"%.80s\"", state, some(row->state));
	if ((n->drain != 0) != (row->drain != 0))
		return say(why, size, "drain: events give %d, the row has %u", n->drain, row->drain);
	if (strcmp(some(n->reason), some(row->reason)) != 0)
		return say(why, size, "reason: events give \"%.150s\", the row has \"%.150s\"", some(n->reason),
		           some(row->reason));
	if (!near(n->joined_us, row->joined_us))
		return say(why, size, "joined_us: events give %llu, the row has %llu",
		           (unsigned long long)n->joined_us, (unsigned long long)row->joined_us);
	if (n->fingerprint && strcmp(n->fingerprint, some(row->cert_fingerprint)) != 0)
		return say(why, size, "certificate: events give \"%.80s\", the row has \"%.80s\"", n->fingerprint,
		           some(row->cert_fingerprint));
	return *some(row->inventory) ? inventory_differs(n, row, why, size) : 0;
}

static int on_token(struct cluster *c, const struct token_row *row, char *why, size_t size)
{
	struct token_seen *t = token_get(c, some(row->id), 0);
	size_t len = t && t->node ? strlen(t->node) : 0;

	if (strcmp(some(row->kind), "join") != 0)
		return 0; /* those of people are made beside hearthd */
	if (!t || !t->kind)
		return say(why, size, "no event tells of it");
	t->row = 1;
	if (strcmp(t->kind, some(row->kind)) != 0 || strcmp(some(t->by), some(row->owner)) != 0)
		return say(why, size, "events give kind \"%.40s\" by \"%.80s\", the row has \"%.40s\" by \"%.80s\"",
		           t->kind, some(t->by), some(row->kind), some(row->owner));
	if (!near(t->made_us, row->created_us) || !near(row->created_us + t->ttl_s * 1000000, row->expires_us))
		return say(why, size, "events give %llu s from %llu, the row has %llu to %llu",
		           (unsigned long long)t->ttl_s, (unsigned long long)t->made_us,
		           (unsigned long long)row->created_us, (unsigned long long)row->expires_us);
	if ((t->used_us != 0) != (row->used_us != 0) || !near(t->used_us, row->used_us))
		return say(why, size, "used_us: events give %llu, the row has %llu", (unsigned long long)t->used_us,
		           (unsigned long long)row->used_us);
	if (t->node && (strncmp(some(row->used_by), t->node, len) != 0 || row->used_by[len] != ' '))
		return say(why, size, "events say that node \"%.80s\" used it, the row \"%.80s\"", t->node,
		           some(row->used_by));
	return 0;
}

static int on_reservation(struct cluster *c, const struct reservation_row *row, char *why, size_t size)
{
	struct reserve_seen *r;

	HASH_FIND_STR(c->reserves, some(row->name), r);
	if (!r)
		return say(why, size, "no event tells of it");
	r->row = 1;
	if (strcmp(r->state, some(row->state)) != 0)
		return say(why, size, "state: events give \"%s\", the row has \"%.40s\"", r->state, some(row->state));
	if (strcmp(r->nodes, some(row->nodes)) != 0)
		return say(why, size, "nodes: events give \"%.150s\", the row has \"%.150s\"", r->nodes,
		           some(row->nodes));
	if (strcmp(r->queue, some(row->queue)) != 0 || strcmp(r->reason, some(row->reason)) != 0 ||
	    strcmp(r->owner, some(row->owner)) != 0)
		return say(why, size, "queue, reason or owner: events give \"%.60s\", \"%.60s\" and \"%.60s\"",
		           r->queue, r->reason, r->owner);
	if (r->from_us != row->from_us || r->to_us != row->to_us || r->created_us != row->created_us)
		return say(why, size, "times: events give %llu to %llu, the row has %llu to %llu",
		           (unsigned long long)r->from_us, (unsigned long long)r->to_us,
		           (unsigned long long)row->from_us, (unsigned long long)row->to_us);
	return 0;
}

/* The next reservation that has no row; 0 none. */
static int rest_reserves(struct cluster *c, char *why, size_t size)
{
	struct reserve_seen *r, *tmp;
	int rc = 0;

	HASH_ITER (hh, c->reserves, r, tmp) {
		if (!r->row)
			rc = say(why, size, "reservation %.80s has events and no row", r->name);
		reserve_free_seen(c, r);
		if (rc)
			return rc;
	}
	return 0;
}

/* The next one that has no row; 0 none, and all is freed. */
static int rest(struct cluster *c, char *why, size_t size)
{
	struct node_seen *n, *nt;
	struct token_seen *t, *tt;
	int rc = 0;

	HASH_ITER (hh, c->nodes, n, nt) {
		if (rc == 0 && !n->row)
			rc = say(why, size, "node %.80s has events and no row", n->name);
		HASH_DEL(c->nodes, n);
		free(n->name);
		free(n->reason);
		free(n->address);
		free(n->fingerprint);
		free(n);
		if (rc)
			return rc;
	}
	HASH_ITER (hh, c->tokens, t, tt) {
		if (rc == 0 && !t->row)
			rc = say(why, size, "token %.80s has events and no row", t->id);
		HASH_DEL(c->tokens, t);
		free(t->id);
		free(t->kind);
		free(t->by);
		free(t->node);
		free(t);
		if (rc)
			return rc;
	}
	return 0;
}

int event_cluster_reducer(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                          char *why, size_t why_size)
{
	struct cluster *c = *state ? *state : xcalloc(1, sizeof *c);
	int rc;

	*state = c;
	if (ev)
		return on_event(c, ev, why, why_size);
	if (row && row->node)
		return on_node(c, row->node, why, why_size);
	if (row && row->token)
		return on_token(c, row->token, why, why_size);
	if (row && row->reservation)
		return on_reservation(c, row->reservation, why, why_size);
	if (row)
		return set_seen_row(&c->sets, row, why, why_size);
	rc = rest_reserves(c, why, why_size);
	if (rc == 0)
		rc = set_seen_rest(&c->sets, why, why_size);
	if (rc == 0)
		rc = rest(c, why, why_size);
	if (rc == 0) {
		free(c);
		*state = NULL;
	}
	return rc;
}
