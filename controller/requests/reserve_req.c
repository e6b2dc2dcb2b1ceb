/*
 * reserve_req: reservations: list, make, change, remove.
 *
 * A request is checked completely before anything changes. A request with a count gets its nodes here, once:
 * the nodes that the fewest jobs will use at the beginning of the reservation, according to the time limits
 * of running jobs.
 */
#include "controller/requests/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/record/states.h"
#include "controller/share/instances.h"
#include "controller/share/queues.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define RESERVES_MAX 1000
#define NODES_MAX    10000
#define PAST_US      60000000ull           /* a beginning less than this ago means now */
#define LENGTH_MAX   (366 * 86400ull)      /* seconds */
#define AHEAD_MAX    (10 * 366 * 86400ull) /* seconds until it begins */

struct ask { /* a parsed request; the body owns the strings */
	const char *from, *to, *queue, *reason, *type;
	const cJSON *nodes;
	int64_t for_s, count;
	int maintenance;
};

static int read_ask(const cJSON *body, struct ask *a, struct err *e)
{
	*a = (struct ask){.maintenance = -1};
	if (json_get_str(body, "", "from", &a->from, e) < 0 || json_get_str(body, "", "to", &a->to, e) < 0 ||
	    json_get_str(body, "", "queue", &a->queue, e) < 0 ||
	    json_get_str(body, "", "reason", &a->reason, e) < 0 ||
	    json_get_str(body, "", "instance_type", &a->type, e) < 0 ||
	    json_get_arr(body, "", "nodes", &a->nodes, e) < 0 ||
	    json_get_i64(body, "", "for_s", 1, (int64_t)LENGTH_MAX, &a->for_s, e) < 0 ||
	    json_get_i64(body, "", "count", 1, NODES_MAX, &a->count, e) < 0 ||
	    json_get_bool(body, "", "maintenance", &a->maintenance, e) < 0)
		return -1;
	if (a->reason && strlen(a->reason) > 1024)
		return err_set(e, ERR_LIMIT, "reason: longer than 1024 bytes");
	if (a->nodes && a->count)
		return err_set(e, ERR_INVALID, "nodes, count: give one of them");
	if (a->type && !a->count)
		return err_set(e, ERR_INVALID, "instance_type: goes with count");
	if (a->to && a->for_s)
		return err_set(e, ERR_INVALID, "to, for_s: give one of them");
	return 0;
}

static int set_times(const struct core *c, struct reservation_rec *r, const struct ask *a, int is_new,
                     struct err *e)
{
	uint64_t now = now_real(c), length = r->to_us - r->from_us;
	char words[CLOCK_RFC3339_SIZE];

	if (a->from && clock_parse_rfc3339(a->from, &r->from_us) < 0)
		return err_set(e, ERR_INVALID, "from: \"%.60s\" is not a time such as 2026-01-31T14:00:00Z", a->from);
	if (!a->from && is_new)
		r->from_us = now;
	if (a->from && r->from_us + PAST_US < now)
		return err_set(e, ERR_INVALID, "from: %s is in the past", clock_words(r->from_us, words));
	if (a->from && r->from_us < now)
		r->from_us = now;
	if (a->to && clock_parse_rfc3339(a->to, &r->to_us) < 0)
		return err_set(e, ERR_INVALID, "to: \"%.60s\" is not a time such as 2026-01-31T16:00:00Z", a->to);
	if (a->for_s)
		r->to_us = r->from_us + (uint64_t)a->for_s * 1000000;
	else if (!a->to && is_new)
		return err_set(e, ERR_INVALID, "to: missing; give an end (to) or a length (for_s)");
	else if (!a->to && a->from) /* a new beginning moves the whole reservation */
		r->to_us = r->from_us + length;
	if (r->to_us <= r->from_us)
		return err_set(e, ERR_INVALID, "to: %s is not after its beginning", clock_words(r->to_us, words));
	if (r->to_us <= now)
		return err_set(e, ERR_INVALID, "to: %s is in the past; jobctl reserve rm ends one at once",
		               clock_words(r->to_us, words));
	if (r->to_us - r->from_us > LENGTH_MAX * 1000000 || r->from_us > now + AHEAD_MAX * 1000000)
		return err_set(e, ERR_INVALID, "from, to: at most 366 days long, at most ten years ahead");
	return 0;
}

static void set_text(char **to, const char *text)
{
	free(*to);
	*to = xstrdup(text);
}

static int set_queue(const struct core *c, struct reservation_rec *r, const struct ask *a, int is_new,
                     struct err *e)
{
	if (a->queue && a->maintenance > 0)
		return err_set(e, ERR_INVALID, "queue, maintenance: give one of them");
	if (!a->queue && a->maintenance <= 0) {
		if (is_new || (a->maintenance == 0 && !*r->queue))
			return err_set(e, ERR_INVALID, "queue: say for whose jobs, or that it is for maintenance");
		return 0;
	}
	if (a->queue && (spec_check_queue(a->queue, 0, e) < 0 || queue_exists(c, a->queue, e) < 0))
		return -1;
	set_text(&r->queue, a->queue ? a->queue : "");
	return 0;
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static int is_there(const struct cnode *n)
{
	return n && n->r.state != NODE_REMOVED;
}

static int no_node(const struct core *c, const char *name, struct err *e)
{
	node_unknown(c, name, e);
	return err_wrap(e, "nodes");
}

static int refuse_taken(const struct creserve *other, const char *node, struct err *e)
{
	char from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE];

	return err_set(e, ERR_CONFLICT, "nodes: %s is in reservation '%s' from %s to %s already", node,
	               other->rec.head.name, clock_words(other->rec.from_us, from),
	               clock_words(other->rec.to_us, to));
}

static int named_nodes(const struct core *c, struct reservation_rec *r, const cJSON *list, struct err *e)
{
	const cJSON *v;
	char **sorted;
	size_t twice = 1;

	strv_fini(&r->nodes);
	cJSON_ArrayForEach (v, list) {
		const char *name = cJSON_GetStringValue(v);

		if (!name)
			return err_set(e, ERR_INVALID, "nodes: expected names");
		if (!is_there(node_find(c, name)))
			return no_node(c, name, e);
		strv_add(&r->nodes, name);
	}
	sorted = reserve_sorted(&r->nodes);
	while (twice < r->nodes.n && strcmp(sorted[twice - 1], sorted[twice]) != 0)
		twice++;
	if (twice < r->nodes.n)
		err_set(e, ERR_INVALID, "nodes: %s is named twice", sorted[twice]);
	free(sorted);
	if (twice < r->nodes.n)
		return -1;
	return r->nodes.n ? 0 : err_set(e, ERR_INVALID, "nodes: name at least one");
}

struct candidate {
	const struct cnode *n;
	uint64_t disturbed_us; /* a job runs there until then; 0: none */
};

static int by_freedom(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->n->sched_usable != y->n->sched_usable)
		return x->n->sched_usable ? -1 : 1;
	if (x->disturbed_us != y->disturbed_us)
		return x->disturbed_us < y->disturbed_us ? -1 : 1;
	return strverscmp(x->n->name, y->n->name);
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int chosen_nodes(const struct core *c, struct reservation_rec *r, const struct ask *a, struct err *e)
{
	struct candidate *all = xcalloc(HASH_COUNT(c->records.all[CLUSTER_NODE]) + 1, sizeof(*all));
	size_t n = 0, want = (size_t)a->count, of_type = 0;
	const char *type = a->type && strncmp(a->type, "ml.", 3) == 0 ? a->type + 3 : a->type;

	for (const struct cnode *x = node_first(c); x; x = node_next(x)) {
		if (!is_there(x) || (type && strcmp(type, node_type(x)) != 0))
			continue;
		of_type++;
		if (!reserve_overlap(c, x->name, r->from_us, r->to_us, r->head.name))
			all[n++] = (struct candidate){x, reserve_disturbs(c, x, r->from_us, r->queue)};
	}
	qsort(all, n, sizeof(*all), by_freedom);
	strv_fini(&r->nodes);
	for (size_t i = 0; i < want && i < n; i++)
		strv_add(&r->nodes, all[i].n->name);
	if (r->nodes.n)
		qsort(r->nodes.v, r->nodes.n, sizeof(*r->nodes.v), by_version);
	free(all);
	if (n >= want)
		return 0;
	return err_set(e, ERR_CONFLICT,
	               "count: there are %zu nodes%s%s, %zu of them in no other reservation at that time",
	               of_type, a->type ? " of type " : "", a->type ? a->type : "", n);
}

static int set_nodes(const struct core *c, struct reservation_rec *r, const struct ask *a, int is_new,
                     struct err *e)
{
	if (a->nodes && named_nodes(c, r, a->nodes, e) < 0)
		return -1;
	if (!a->nodes && !a->count && is_new)
		return err_set(e, ERR_INVALID, "nodes: name them, or say how many with count");
	if (a->count && chosen_nodes(c, r, a, e) < 0)
		return -1;
	for (size_t i = 0; i < r->nodes.n; i++) {
		const struct creserve *other = reserve_overlap(c, r->nodes.v[i], r->from_us, r->to_us, r->head.name);

		if (other)
			return refuse_taken(other, r->nodes.v[i], e);
	}
	return 0;
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* Returns a copy to change; reserve_set makes it the record. */
static struct reservation_rec copy_of(const struct reservation_rec *r)
{
	struct reservation_rec n = *r;

	n.head = (struct cluster_rec){.name = xstrdup(r->head.name), .kind = CLUSTER_RESERVATION};
	n.queue = xstrdup(r->queue);
	n.reason = xstrdup(r->reason);
	n.owner = xstrdup(r->owner);
	n.nodes = (struct strv){0};
	for (size_t i = 0; i < r->nodes.n; i++)
		strv_add(&n.nodes, r->nodes.v[i]);
	return n;
}

static int fill_reservation(const struct core *c, struct reservation_rec *r, const struct ask *a, int is_new,
                            struct err *e)
{
	if (a->from && r->state == RESERVE_ACTIVE)
		return err_set(e, ERR_CONFLICT, "from: the reservation '%s' has begun; its end can be changed",
		               r->head.name);
	if (set_times(c, r, a, is_new, e) < 0 || set_queue(c, r, a, is_new, e) < 0 ||
	    set_nodes(c, r, a, is_new, e) < 0)
		return -1;
	if (a->reason)
		set_text(&r->reason, a->reason);
	return 0;
}

/* Applies the request to r and answers it. Frees the content of r. */
static void finish_set(struct core *c, struct request *rq, struct reservation_rec *r, const struct ask *a,
                       int is_new)
{
	struct err e;

	if (fill_reservation(c, r, a, is_new, &e) < 0) {
		reservation_rec_fini(r);
		reply_err(c, rq, &e);
		return;
	}
	reserve_set(c, r, req_user(c, rq));
	reservation_rec_fini(r);
	reserve_review(c); /* a reservation that begins now is active in the answer */
	hold_reply(c, rq, 200, reserve_json(c, reserve_find(c, rq->node)));
}

void req_reserves(struct core *c, struct request *rq)
{
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "reservations");

	for (int ended = 0; ended < 2; ended++)
		for (const struct creserve *r = reserve_first(c); r; r = reserve_next(r))
			if ((r->rec.state == RESERVE_ENDED) == ended)
				cJSON_AddItemToArray(list, reserve_json(c, r));
	hold_reply(c, rq, 200, body);
}

static int by_time(const struct cluster_rec *x, const struct cluster_rec *y)
{
	const struct reservation_rec *a = (const struct reservation_rec *)x,
	                             *b = (const struct reservation_rec *)y;

	return a->from_us != b->from_us ? (a->from_us < b->from_us ? -1 : 1) : strcmp(x->name, y->name);
}

void req_reserve_add(struct core *c, struct request *rq)
{
	struct reservation_rec r = {.head = {.kind = CLUSTER_RESERVATION}};
	const struct creserve *old;
	struct ask a;
	struct err e;

	if (str_check_name(rq->node, 64, "name", &e) < 0 || read_ask(rq->body, &a, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	old = reserve_find(c, rq->node);
	if (old && old->rec.state != RESERVE_ENDED) {
		reply_fail(c, rq, ERR_CONFLICT,
		           "there is a reservation '%s' already (%s); jobctl reserve set changes it, rm ends it",
		           old->rec.head.name, reserve_state_names[old->rec.state]);
		return;
	}
	if (!old && HASH_COUNT(c->records.all[CLUSTER_RESERVATION]) >= RESERVES_MAX) {
		reply_fail(c, rq, ERR_LIMIT, "there are %d reservations: that is the limit", RESERVES_MAX);
		return;
	}
	r.head.name = xstrdup(rq->node);
	r.queue = xstrdup("");
	r.reason = xstrdup("");
	r.owner = xstrdup(req_user(c, rq));
	r.created_us = now_real(c);
	finish_set(c, rq, &r, &a, 1);
	HASH_SORT(c->records.all[CLUSTER_RESERVATION], by_time);
}

/* Returns the reservation of a request; NULL: the request is answered. */
static struct creserve *find_wanted(struct core *c, struct request *rq)
{
	struct creserve *r = rq->node ? reserve_find(c, rq->node) : NULL;

	if (!r)
		reply_fail(c, rq, ERR_NOT_FOUND, "there is no reservation \"%.100s\"; jobctl reserve ls lists them",
		           rq->node ? rq->node : "");
	return r;
}

void req_reserve_set(struct core *c, struct request *rq)
{
	const struct creserve *r = find_wanted(c, rq);
	struct reservation_rec as;
	struct ask a;
	struct err e;

	if (!r)
		return;
	if (r->rec.state == RESERVE_ENDED) {
		reply_fail(c, rq, ERR_CONFLICT, "the reservation '%s' has ended; jobctl reserve add makes one",
		           r->rec.head.name);
		return;
	}
	if (read_ask(rq->body, &a, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	as = copy_of(&r->rec);
	finish_set(c, rq, &as, &a, 0);
	HASH_SORT(c->records.all[CLUSTER_RESERVATION], by_time);
}

void req_reserve_rm(struct core *c, struct request *rq)
{
	struct creserve *r = find_wanted(c, rq);
	cJSON *body;

	if (!r)
		return;
	body = reserve_json(c, r);
	reserve_remove(c, r, req_user(c, rq), NULL);
	hold_reply(c, rq, 200, body);
}
