/*
 * replay_cluster: the cluster's events (job 0) against the rows of nodes, join tokens and reservations, and
 * of what replay_queues.c knows. What an event does to a row is told again here, in short, as admin.c,
 * lease.c, nodes.c, sync.c, tokens.c and reserve.c do it.
 *
 * A node is known by its name: when one that was removed comes back after a restart it has a new row, and the
 * old one stays as it was. Not compared: when a node was last seen, which no event says; times to the second,
 * as row and event each looked at the clock.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/cluster/tokens.h"
#include "controller/record/event.h"
#include "controller/record/inventory.h"
#include "controller/record/replay_queues.h"
#include "controller/record/replay_seen.h"
#include "controller/record/states.h"

#define NODE        "node"
#define TOKEN       "token"
#define RESERVATION "reservation"

/* ---- events ---------------------------------------------------------------------------------- */

static enum node_state state_of(const struct seen *n)
{
	return (enum node_state)state_find(STATE_NODE, seen_str(n, "state"));
}

static void move(struct seen *n, enum node_state to, const char *reason)
{
	if (state_of(n) != to && !state_move_ok(STATE_NODE, (int)state_of(n), (int)to))
		return;
	seen_set_str(n, "state", state_name(STATE_NODE, (int)to));
	seen_set_str(n, "reason", reason);
}

static void joined(struct seen **all, struct seen *n, const cJSON *d, uint64_t at_us)
{
	struct seen *t = seen_get(all, TOKEN, json_str_or(d, "token", ""), 0);

	if (!*seen_str(n, "state"))
		seen_set_str(n, "state", state_name(STATE_NODE, NODE_JOINING));
	else if (state_of(n) != NODE_JOINING)
		move(n, NODE_JOINING, "");
	seen_set_num(n, "drain", 0);
	seen_set_num(n, "joined_us", at_us);
	seen_set_str(n, "certificate", json_str_or(d, "certificate", ""));
	if (!t)
		return;
	seen_set_num(t, "used_us", at_us);
	seen_set_str(t, "node", n->name);
}

static void inventory(struct seen *n, const cJSON *d)
{
	static const char *const numbers[] = {"slots", "gpus", "memory_bytes"};

	seen_set_str(n, "address", json_str_or(d, "address", ""));
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		seen_set_num(n, numbers[i], json_whole(d, numbers[i], 0));
	seen_set_num(n, "inventory", 1);
}

static int node_event(struct seen **all, enum event_type type, const cJSON *d, uint64_t at_us, char *why,
                      size_t size)
{
	struct seen *n = seen_of_event(all, NODE, json_str_or(d, "node", ""), type == EV_JOINED, why, size);
	const char *text = json_str_or(d, "text", "");
	cleanup_free char *reason = NULL;

	if (!n)
		return -1;
	switch (type) {
	case EV_JOINED:
		joined(all, n, d, at_us);
		break;
	case EV_INVENTORY:
		inventory(n, d);
		break;
	case EV_CONNECTED:
		reason = xstrdup(seen_num(n, "drain") ? seen_str(n, "reason") : "");
		move(n, NODE_UP, reason);
		break;
	case EV_GONE:
		if (state_of(n) != NODE_REMOVED)
			move(n, NODE_LOST, text);
		break;
	case EV_DRAINED:
	case EV_RESUMED:
		seen_set_num(n, "drain", type == EV_DRAINED);
		seen_set_str(n, "reason", text);
		break;
	case EV_NODE_REMOVED:
		move(n, NODE_REMOVED, "removed");
		seen_set_num(n, "drain", 0);
		break;
	default:
		break; /* a silence changes no row */
	}
	return 0;
}

static int token_event(struct seen **all, const cJSON *d, uint64_t at_us, char *why, size_t size)
{
	struct seen *t = seen_of_event(all, TOKEN, json_str_or(d, "id", ""), 1, why, size);

	if (!t)
		return -1;
	seen_take(t, d);
	seen_set_num(t, "made_us", at_us);
	return 0;
}

static int reserve_event(struct seen **all, enum event_type type, const cJSON *d, char *why, size_t size)
{
	struct seen *r = seen_of_event(all, RESERVATION, json_str_or(d, "reservation", ""),
	                               type == EV_RESERVATION_SET, why, size);
	const char *state;

	if (!r)
		return -1;
	if (type == EV_RESERVATION_REMOVED) {
		seen_gone(r);
	} else if (type == EV_RESERVATION_SET) {
		cleanup_free char *nodes = json_join(cJSON_GetObjectItemCaseSensitive(d, "nodes"), " ");

		/* New, or of that name again; one that is changed goes on as it is. */
		state = strcmp(seen_str(r, "state"), "active") == 0 ? "active" : "planned";
		seen_gone(r);
		r->there = 1;
		seen_take(r, d);
		seen_set_str(r, "nodes", nodes);
		seen_set_str(r, "state", state);
	} else {
		seen_set_str(r, "state", type == EV_RESERVATION_BEGAN ? "active" : "ended");
	}
	return 0;
}

static int on_event(struct seen **all, const struct event_row *ev, char *why, size_t size)
{
	cJSON *d = replay_data(ev, why, size);
	int type = event_find(ev->type), rc;

	if (!d)
		return -1;
	if (type < EV_JOINED)
		rc = replay_say(why, size, "unknown type \"%.60s\"", ev->type ? ev->type : "");
	else if (type == EV_TOKEN_MADE)
		rc = token_event(all, d, ev->at_us, why, size);
	else if (type >= EV_RESERVATION_SET && type <= EV_RESERVATION_REMOVED)
		rc = reserve_event(all, (enum event_type)type, d, why, size);
	else if (type >= EV_QUEUE_SET)
		rc = set_event(all, (enum event_type)type, d, why, size);
	else
		rc = node_event(all, (enum event_type)type, d, ev->at_us, why, size);
	cJSON_Delete(d);
	return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int inventory_differs(const struct seen *n, const struct node_row *row, char *why, size_t size)
{
	struct inv inv;
	int rc = 0;

	if (!seen_num(n, "inventory"))
		return replay_say(why, size, "inventory: there is one, but no event of it");
	if (inv_parse(&inv, row->inventory) < 0)
		return replay_say(why, size, "inventory: it cannot be read");
	if (seen_str_is(n, "address", row->address, why, size) < 0)
		rc = -1;
	else if (inv.slots != seen_num(n, "slots") || inv.n_gpus != seen_num(n, "gpus") ||
	         inv.memory_bytes != seen_num(n, "memory_bytes"))
		rc = replay_say(
		    why, size,
		    "inventory: events give %llu slots, %llu GPUs and %llu bytes, the row has %u, %u and %llu",
		    (unsigned long long)seen_num(n, "slots"), (unsigned long long)seen_num(n, "gpus"),
		    (unsigned long long)seen_num(n, "memory_bytes"), inv.slots, inv.n_gpus,
		    (unsigned long long)inv.memory_bytes);
	inv_fini(&inv);
	return rc;
}

static int on_node(struct seen **all, const struct node_row *row, char *why, size_t size)
{
	struct seen *n = seen_of_row(all, NODE, row->name, why, size);

	if (!n)
		return -1;
	if (n->row > 1) /* it came back under its name, as another row */
		return row->state && strcmp(row->state, "removed") == 0
		           ? 0
		           : replay_say(why, size, "there is a later row of its name, and this one is not removed");
	if (seen_str_is(n, "state", row->state, why, size) < 0 ||
	    seen_num_is(n, "drain", row->drain, why, size) < 0 ||
	    seen_str_is(n, "reason", row->reason, why, size) < 0 ||
	    seen_time_near(n, "joined_us", row->joined_us, why, size) < 0)
		return -1;
	if (*seen_str(n, "certificate") && seen_str_is(n, "certificate", row->cert_fingerprint, why, size) < 0)
		return -1;
	return row->inventory && *row->inventory ? inventory_differs(n, row, why, size) : 0;
}

static int on_token(struct seen **all, const struct token_row *row, char *why, size_t size)
{
	const struct seen *t;
	const char *node;
	size_t len;

	if (!row->kind || strcmp(row->kind, "join") != 0)
		return 0; /* those of people are made beside hearthd */
	t = seen_of_row(all, TOKEN, row->id, why, size);
	if (!t || seen_str_is(t, "kind", row->kind, why, size) < 0)
		return -1;
	if (strcmp(seen_str(t, "by"), row->owner ? row->owner : "") != 0)
		return replay_say(why, size, "events say that it was made by \"%.80s\", the row by \"%.80s\"",
		                  seen_str(t, "by"), row->owner ? row->owner : "");
	if (seen_time_near(t, "made_us", row->created_us, why, size) < 0)
		return -1;
	if (!seen_near(row->created_us + seen_num(t, "ttl_s") * 1000000, row->expires_us))
		return replay_say(why, size, "events give %llu s from %llu, the row has %llu to %llu",
		                  (unsigned long long)seen_num(t, "ttl_s"),
		                  (unsigned long long)seen_num(t, "made_us"), (unsigned long long)row->created_us,
		                  (unsigned long long)row->expires_us);
	if (seen_time_near(t, "used_us", row->used_us, why, size) < 0)
		return -1;
	node = seen_str(t, "node");
	len = strlen(node);
	if (len && (!row->used_by || strncmp(row->used_by, node, len) != 0 || row->used_by[len] != ' '))
		return replay_say(why, size, "events say that node \"%.80s\" used it, the row \"%.80s\"", node,
		                  row->used_by ? row->used_by : "");
	return 0;
}

static int on_reservation(struct seen **all, const struct reservation_row *row, char *why, size_t size)
{
	const struct seen *r = seen_of_row(all, RESERVATION, row->name, why, size);

	return !r || seen_str_is(r, "state", row->state, why, size) < 0 ||
	               seen_str_is(r, "nodes", row->nodes, why, size) < 0 ||
	               seen_str_is(r, "queue", row->queue, why, size) < 0 ||
	               seen_str_is(r, "reason", row->reason, why, size) < 0 ||
	               seen_str_is(r, "owner", row->owner, why, size) < 0 ||
	               seen_num_is(r, "from_us", row->from_us, why, size) < 0 ||
	               seen_num_is(r, "to_us", row->to_us, why, size) < 0 ||
	               seen_num_is(r, "created_us", row->created_us, why, size) < 0
	           ? -1
	           : 0;
}

int event_cluster_reducer(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                          char *why, size_t why_size)
{
	struct seen *all = *state;
	int rc;

	if (ev)
		rc = on_event(&all, ev, why, why_size);
	else if (!row)
		rc = seen_rest(&all, why, why_size);
	else if (row->node)
		rc = on_node(&all, row->node, why, why_size);
	else if (row->token)
		rc = on_token(&all, row->token, why, why_size);
	else if (row->reservation)
		rc = on_reservation(&all, row->reservation, why, why_size);
	else
		rc = set_row(&all, row, why, why_size);
	*state = all;
	return rc;
}
