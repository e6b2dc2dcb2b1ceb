/*
 * reserve: nodes that are reserved for a period: for the jobs of a queue and the queues below it, or for
 * nobody (maintenance).
 *
 * planned -> active -> ended, by the wall clock. hearthd reviews reservations when the next step is due, and
 * once a minute because the clock may be set. Each step is an event of the cluster. An ended reservation is
 * shown for a day; then its record is removed.
 *
 * The scheduler library enforces the period: a job whose time limit reaches into it does not start there. The
 * library counts seconds instead of the wall clock. hearthd therefore reports a reservation again when the
 * two have diverged, and when a new node comes. A job that already runs when the period begins continues.
 */
#include "controller/share/reserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/record/cluster_rows.h"
#include "controller/record/event.h"
#include "controller/share/pools.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define LOOK_US    60000000ull          /* between two reviews, at most */
#define KEPT_US    (86400ull * 1000000) /* how long an ended reservation is shown */
#define SHOWN_JOBS 64

struct creserve *reserve_find(const struct core *c, const char *name)
{
	return (struct creserve *)cluster_reservation(&c->records, name);
}

void reserves_open(struct core *c)
{
	c->records.size[CLUSTER_RESERVATION] = sizeof(struct creserve);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **reserve_sorted(const struct strv *names)
{
	char **out = xcalloc(names->n + 1, sizeof(*out));

	for (size_t i = 0; i < names->n; i++)
		out[i] = names->v[i];
	qsort(out, names->n, sizeof(*out), by_bytes);
	return out;
}

/* Searches in sorted names: a reservation may have all nodes, and the caller asks for each node. */
int reserve_has_node(const struct creserve *r, const char *node)
{
	return r->rec.nodes.n && bsearch(&node, r->sorted, r->rec.nodes.n, sizeof(*r->sorted), by_bytes);
}

void reserves_clear(struct core *c)
{
	for (struct creserve *r = reserve_first(c); r; r = reserve_next(r)) {
		free(r->sorted);
		r->sorted = NULL;
	}
	c->reserves.at_us = 0;
}

/* ---- the library ------------------------------------------------------------------------------- */

/* Converts real time to the library's seconds; up: rounds up. */
static uint64_t lib_time(const struct core *c, uint64_t real_us, int up)
{
	uint64_t now = now_real(c), at = sched_time(c);

	if (real_us >= now)
		return at + (real_us - now + (up ? 999999 : 0)) / 1000000;
	return at > (now - real_us) / 1000000 ? at - (now - real_us) / 1000000 : 0;
}

static void feed_reservation(struct core *c, struct creserve *r)
{
	uint64_t *ids = xcalloc(r->rec.nodes.n + 1, sizeof(*ids));
	uint32_t n = 0;

	for (size_t i = 0; i < r->rec.nodes.n; i++) {
		const struct cnode *x = node_find(c, r->rec.nodes.v[i]);

		if (x && x->in_sched)
			ids[n++] = x->r.id;
	}
	r->told_from_s = lib_time(c, r->rec.from_us, 0);
	r->told_to_s = lib_time(c, r->rec.to_us, 1);
	if (r->rec.state == RESERVE_ENDED)
		sched_reservation_remove(c->sched, r->id);
	else if (!FAULT("mistake.no_reservation"))
		sched_reservation_set(c->sched,
		                      &(struct sched_reservation){.id = r->id,
		                                                  .from_s = r->told_from_s,
		                                                  .to_s = r->told_to_s,
		                                                  .queue = *r->rec.queue ? r->rec.queue : NULL,
		                                                  .nodes = ids,
		                                                  .n_nodes = n});
	free(ids);
	c->reserves.n_told++;
	c->alloc.dirty = 1;
}

/* During load nodes come one by one; reserves_loaded reports all reservations once at the end. */
void reserve_node_came(struct core *c, const struct cnode *n)
{
	for (struct creserve *r = reserve_first(c); r && c->life.loaded; r = reserve_next(r))
		if (r->rec.state != RESERVE_ENDED && reserve_has_node(r, n->name))
			feed_reservation(c, r);
}

void reserves_loaded(struct core *c)
{
	for (struct creserve *r = reserve_first(c); r; r = reserve_next(r))
		if (r->rec.state != RESERVE_ENDED)
			feed_reservation(c, r);
}

/* Updates what follows from a new or changed record. */
static void follow_record(struct core *c, struct creserve *r)
{
	if (!r->id)
		r->id = ++c->reserves.last_id;
	free(r->sorted);
	r->sorted = reserve_sorted(&r->rec.nodes);
	c->reserves.at_us = 0;
}

int reserve_load(struct core *c, const struct reservation_row *row)
{
	struct cluster_rec *r = cluster_load(&c->records, &(struct store_cluster_row){.reservation = row});

	if (r)
		follow_record(c, (struct creserve *)r);
	return 0;
}

/* ---- records ----------------------------------------------------------------------------------- */

/* Returns the names, joined, until they have max bytes. */
static char *nodes_text(const struct creserve *r, const char *between, size_t max)
{
	size_t gap = strlen(between), n = 0, size = 1, used = 0;
	char *all;

	while (n < r->rec.nodes.n && size <= max)
		size += strlen(r->rec.nodes.v[n++]) + gap;
	all = xcalloc(size, 1);
	for (size_t i = 0; i < n; i++) {
		const char *name = r->rec.nodes.v[i];

		memcpy(all + used, between, i ? gap : 0);
		used += i ? gap : 0;
		memcpy(all + used, name, strlen(name));
		used += strlen(name);
	}
	return all;
}

static cJSON *event_data(const struct reservation_rec *r, const char *by, const char *text)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "reservation", r->head.name);
	json_add_str(d, "by", by);
	if (text)
		json_add_str(d, "text", text);
	return d;
}

static void add_nodes(cJSON *d, const struct reservation_rec *r)
{
	cJSON *nodes = cJSON_AddArrayToObject(d, "nodes");

	for (size_t i = 0; i < r->nodes.n; i++)
		cJSON_AddItemToArray(nodes, cJSON_CreateString(r->nodes.v[i]));
}

void reserve_set(struct core *c, const struct reservation_rec *as, const char *by)
{
	cJSON *d = event_data(as, by, NULL);
	struct creserve *r;

	json_add_str(d, "queue", as->queue);
	json_add_str(d, "reason", as->reason);
	json_add_str(d, "owner", as->owner);
	json_add_u64(d, "from_us", as->from_us);
	json_add_u64(d, "to_us", as->to_us);
	json_add_u64(d, "created_us", as->created_us);
	add_nodes(d, as);
	cluster_post(c, EV_RESERVATION_SET, d);
	r = reserve_find(c, as->head.name);
	follow_record(c, r);
	feed_reservation(c, r);
}

static void post_step(struct core *c, struct creserve *r, enum event_type t, const char *text)
{
	cJSON *d = event_data(&r->rec, "hearthd", text);

	add_nodes(d, &r->rec);
	cluster_post(c, t, d);
	feed_reservation(c, r);
}

void reserve_remove(struct core *c, struct creserve *r, const char *by, const char *text)
{
	cJSON *d = event_data(&r->rec, by, text);
	uint64_t id = r->id;

	add_nodes(d, &r->rec);
	free(r->sorted);
	r->sorted = NULL;
	cluster_post(c, EV_RESERVATION_REMOVED, d);
	sched_reservation_remove(c->sched, id);
	c->alloc.dirty = 1;
}

/* ---- time -------------------------------------------------------------------------------------- */

/* Follows S-139. */
static void begin_reservation(struct core *c, struct creserve *r)
{
	unsigned jobs = 0;
	TEXT(text);

	for (size_t i = 0; i < r->rec.nodes.n; i++) {
		const struct cnode *n = node_find(c, r->rec.nodes.v[i]);

		for (uint32_t k = 0; n && k < n->n_jobs; k++)
			jobs += !reserve_for_queue(&r->rec, n->jobs[k]->r.queue);
	}
	text_add(&text, "%s%.150s begins; launches of other jobs that continue there: %u",
	         *r->rec.queue ? "reservation for queue " : "maintenance", r->rec.queue, jobs);
	post_step(c, r, EV_RESERVATION_BEGAN, text.at);
	pools_reserved(c, r);
}

/* Makes the steps that are due. 1: it was removed. Follows S-136 and S-140. */
static int review_reservation(struct core *c, struct creserve *r, uint64_t now)
{
	if (r->rec.state == RESERVE_PLANNED && now >= r->rec.from_us)
		begin_reservation(c, r);
	if (r->rec.state == RESERVE_ACTIVE && now >= r->rec.to_us)
		post_step(c, r, EV_RESERVATION_ENDED, "its period is over");
	if (r->rec.state == RESERVE_ENDED && now >= r->rec.to_us + KEPT_US) {
		reserve_remove(c, r, "hearthd", "it ended more than a day ago");
		return 1;
	}
	if (r->rec.state != RESERVE_ENDED && (r->told_from_s > lib_time(c, r->rec.from_us, 0) + 1 ||
	                                      r->told_from_s + 1 < lib_time(c, r->rec.from_us, 0)))
		feed_reservation(c, r); /* the wall clock was set */
	return 0;
}

static uint64_t next_step(const struct creserve *r)
{
	return r->rec.state == RESERVE_PLANNED  ? r->rec.from_us
	       : r->rec.state == RESERVE_ACTIVE ? r->rec.to_us
	                                        : r->rec.to_us + KEPT_US;
}

void reserve_review(struct core *c)
{
	uint64_t now = now_real(c), wait = LOOK_US;
	struct cluster_rec *h, *tmp;

	HASH_ITER (hh, c->records.all[CLUSTER_RESERVATION], h, tmp) {
		struct creserve *r = (struct creserve *)h;
		uint64_t at;

		if (review_reservation(c, r, now))
			continue;
		at = next_step(r);
		if (at <= now)
			wait = 0;
		else if (at - now < wait)
			wait = at - now;
	}
	c->reserves.at_us = now_boot(c) + wait;
}

/* ---- what others ask --------------------------------------------------------------------------- */

int reserve_for_queue(const struct reservation_rec *r, const char *queue)
{
	size_t n = strlen(r->queue);
	const char *q = queue && *queue ? queue : "default";

	return n && strncmp(q, r->queue, n) == 0 && (q[n] == '\0' || q[n] == '/');
}

/* Follows S-137. */
struct creserve *reserve_overlap(const struct core *c, const char *node, uint64_t from_us, uint64_t to_us,
                                 const char *but)
{
	for (struct creserve *r = reserve_first(c); r; r = reserve_next(r))
		if (r->rec.state != RESERVE_ENDED && r->rec.from_us < to_us && r->rec.to_us > from_us &&
		    (!but || strcmp(r->rec.head.name, but) != 0) && reserve_has_node(r, node))
			return r;
	return NULL;
}

const char *reserve_of_queue(const struct core *c, const char *queue)
{
	for (const struct creserve *r = reserve_first(c); r; r = reserve_next(r))
		if (r->rec.state != RESERVE_ENDED && strcmp(r->rec.queue, queue) == 0)
			return r->rec.head.name;
	return NULL;
}

const char *reserve_maintains(const struct core *c, const char *node)
{
	for (const struct creserve *r = reserve_first(c); r; r = reserve_next(r))
		if (r->rec.state == RESERVE_ACTIVE && !*r->rec.queue && reserve_has_node(r, node))
			return r->rec.head.name;
	return NULL;
}

/* Returns the real time when the job is believed to end. */
static uint64_t job_leaves(const struct core *c, const struct cjob *j)
{
	uint64_t at = sched_believed_end(c->sched, j->r.id), now = sched_time(c);

	return now_real(c) + (at > now ? at - now : 0) * 1000000;
}

/* Follows S-138. */
uint64_t reserve_disturbs(const struct core *c, const struct cnode *n, uint64_t from_us, const char *queue)
{
	struct reservation_rec as = {.queue = (char *)(uintptr_t)queue};
	uint64_t last = 0;

	for (uint32_t i = 0; i < n->n_jobs; i++) {
		uint64_t at = job_leaves(c, n->jobs[i]);

		if (at > from_us && at > last && !reserve_for_queue(&as, n->jobs[i]->r.queue))
			last = at;
	}
	return last;
}

static void reserve_words(const struct creserve *r, struct text *t)
{
	char from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE];

	text_add(t, "%s '%s' from %s to %s", *r->rec.queue ? "reserved for" : "reserved for maintenance",
	         r->rec.head.name, clock_words(r->rec.from_us, from), clock_words(r->rec.to_us, to));
}

int reserve_why(const struct core *c, const struct cjob *j, uint64_t limit_s, char *out, size_t size)
{
	uint64_t now = now_real(c), until = now + limit_s * 1000000;
	struct text t = text_on(out, size);
	unsigned named = 0;

	for (const struct creserve *r = reserve_first(c); r && named < 3; r = reserve_next(r)) {
		char *nodes;

		if (r->rec.state == RESERVE_ENDED || r->rec.to_us <= now || r->rec.from_us >= until ||
		    reserve_for_queue(&r->rec, j->r.queue))
			continue;
		nodes = nodes_text(r, ", ", 300);
		text_join(&t, "; ", "node%s %.300s %s ", r->rec.nodes.n == 1 ? "" : "s", nodes,
		          r->rec.nodes.n == 1 ? "is" : "are");
		reserve_words(r, &t);
		named++;
		free(nodes);
	}
	return named > 0;
}

void reserve_of_node(const struct core *c, const char *node, cJSON *list, char *text, size_t size)
{
	struct text t = text_on(text, size);

	for (const struct creserve *r = reserve_first(c); r; r = reserve_next(r)) {
		cJSON *o;

		if (r->rec.state == RESERVE_ENDED || !reserve_has_node(r, node))
			continue;
		o = cJSON_CreateObject();
		json_add_str(o, "name", r->rec.head.name);
		json_add_str(o, "state", reserve_state_names[r->rec.state]);
		cJSON_AddBoolToObject(o, "maintenance", !*r->rec.queue);
		json_add_str(o, "queue", *r->rec.queue ? r->rec.queue : NULL);
		json_add_time(o, "from", r->rec.from_us);
		json_add_time(o, "to", r->rec.to_us);
		cJSON_AddItemToArray(list, o);
		if (!text_is_empty(&t))
			text_add(&t, "; ");
		reserve_words(r, &t);
	}
}

/* Lists jobs that are believed to run when it begins (an active one: now), each once. */
static void add_jobs(const struct core *c, const struct creserve *r, cJSON *list)
{
	uint64_t seen[SHOWN_JOBS], from = r->rec.from_us > now_real(c) ? r->rec.from_us : now_real(c);
	size_t n = 0;

	for (size_t i = 0; i < r->rec.nodes.n; i++) {
		const struct cnode *x = node_find(c, r->rec.nodes.v[i]);

		for (uint32_t k = 0; x && k < x->n_jobs && n < SHOWN_JOBS; k++) {
			const struct cjob *j = x->jobs[k];
			size_t at = 0;
			cJSON *o;

			while (at < n && seen[at] != j->r.id)
				at++;
			if (at < n || reserve_for_queue(&r->rec, j->r.queue) || job_leaves(c, j) < from)
				continue;
			seen[n++] = j->r.id;
			o = cJSON_CreateObject();
			json_add_u64(o, "id", j->r.id);
			json_add_str(o, "name", j->r.name);
			json_add_str(o, "owner", j->r.owner);
			json_add_time(o, "until", job_leaves(c, j));
			cJSON_AddItemToArray(list, o);
		}
	}
}

cJSON *reserve_json(const struct core *c, const struct creserve *r)
{
	cJSON *o = cJSON_CreateObject(), *nodes, *jobs;

	json_add_str(o, "name", r->rec.head.name);
	json_add_str(o, "state", reserve_state_names[r->rec.state]);
	cJSON_AddBoolToObject(o, "maintenance", !*r->rec.queue);
	json_add_str(o, "queue", *r->rec.queue ? r->rec.queue : NULL);
	json_add_time(o, "from", r->rec.from_us);
	json_add_time(o, "to", r->rec.to_us);
	nodes = cJSON_AddArrayToObject(o, "nodes");
	for (size_t i = 0; i < r->rec.nodes.n; i++)
		cJSON_AddItemToArray(nodes, cJSON_CreateString(r->rec.nodes.v[i]));
	jobs = cJSON_AddArrayToObject(o, "still_running");
	if (r->rec.state != RESERVE_ENDED)
		add_jobs(c, r, jobs);
	json_add_str(o, "reason", r->rec.reason);
	json_add_str(o, "by", r->rec.owner);
	json_add_time(o, "created_at", r->rec.created_us);
	return o;
}
