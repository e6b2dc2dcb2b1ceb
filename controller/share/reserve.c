/*
 * reserve: nodes that are kept for a time: for the jobs of a queue and those below it, or for nobody
 * (maintenance).
 *
 * planned -> active -> ended, by the wall clock, since people mean that; looked at when the next of them is
 * due and once a minute, as the clock may be set. Each step is an event of the cluster, its row goes in the
 * same transaction. What is ended is shown for a day, then the row goes.
 *
 * The scheduler library does the keeping: a job whose time limit reaches into the time does not start there.
 * It goes by seconds that pass, not by the wall clock, so it is told again when the two have moved against
 * each other, and when a node comes that it did not know. A job that runs when the time begins is left alone.
 */
#include "controller/share/reserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define LOOK_US    60000000ull          /* between two looks, at most */
#define KEPT_US    (86400ull * 1000000) /* how long an ended one is shown */
#define SHOWN_JOBS 64

static const char *const state_names[] = {"planned", "active", "ended"};

const char *reserve_state_name(const struct creserve *r)
{
	return state_names[r->state];
}

struct creserve *reserve_find(const struct core *c, const char *name)
{
	struct creserve *r;

	HASH_FIND_STR(c->reserves, name, r);
	return r;
}

void reserve_free(struct creserve *r)
{
	if (!r)
		return;
	free(r->name);
	free(r->queue);
	free(r->reason);
	free(r->owner);
	strv_fini(&r->nodes);
	free(r->sorted);
	free(r);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **reserve_sorted(const struct strv *names)
{
	char **out = xcalloc(names->n + 1, sizeof *out);

	for (size_t i = 0; i < names->n; i++)
		out[i] = names->v[i];
	qsort(out, names->n, sizeof *out, by_bytes);
	return out;
}

/* There may be as many names as nodes, and each node is asked for. */
static int has_node(const struct creserve *r, const char *node)
{
	return r->nodes.n && bsearch(&node, r->sorted, r->nodes.n, sizeof *r->sorted, by_bytes);
}

void reserve_drop(struct core *c, struct creserve *r)
{
	sched_reservation_remove(c->sched, r->id);
	HASH_DELETE(hh, c->reserves, r);
	reserve_free(r);
	c->sched_dirty = 1;
}

void reserves_clear(struct core *c)
{
	struct creserve *r, *tmp;

	HASH_ITER (hh, c->reserves, r, tmp) {
		HASH_DELETE(hh, c->reserves, r);
		reserve_free(r);
	}
	c->reserve_at_us = 0;
}

/* ---- the library ------------------------------------------------------------------------------- */

/* A point of the wall clock as one of the library's time; up: rounded so. */
static uint64_t lib_time(const struct core *c, uint64_t real_us, int up)
{
	uint64_t now = now_real(c), at = sched_time(c);

	if (real_us >= now)
		return at + (real_us - now + (up ? 999999 : 0)) / 1000000;
	return at > (now - real_us) / 1000000 ? at - (now - real_us) / 1000000 : 0;
}

static void tell(struct core *c, struct creserve *r)
{
	uint64_t *ids = xcalloc(r->nodes.n + 1, sizeof *ids);
	uint32_t n = 0;

	for (size_t i = 0; i < r->nodes.n; i++) {
		const struct cnode *x = node_find(c, r->nodes.v[i]);

		if (x && x->in_sched)
			ids[n++] = x->id;
	}
	r->told_from_s = lib_time(c, r->from_us, 0);
	r->told_to_s = lib_time(c, r->to_us, 1);
	if (r->state == RESERVE_ENDED)
		sched_reservation_remove(c->sched, r->id);
	else if (!FAULT("mistake.no_reservation"))
		sched_reservation_set(c->sched, &(struct sched_reservation){.id = r->id,
		                                                            .from_s = r->told_from_s,
		                                                            .to_s = r->told_to_s,
		                                                            .queue = *r->queue ? r->queue : NULL,
		                                                            .nodes = ids,
		                                                            .n_nodes = n});
	free(ids);
	c->n_books_told++;
	c->sched_dirty = 1;
}

/* While the records are read nodes come one after the other: then all is told once, at the end. */
void reserve_node_came(struct core *c, const struct cnode *n)
{
	for (struct creserve *r = c->reserves; r && c->loaded; r = r->hh.next)
		if (r->state != RESERVE_ENDED && has_node(r, n->name))
			tell(c, r);
}

void reserves_loaded(struct core *c)
{
	for (struct creserve *r = c->reserves; r; r = r->hh.next)
		if (r->state != RESERVE_ENDED)
			tell(c, r);
}

void reserve_put(struct core *c, struct creserve *r)
{
	struct creserve *old = reserve_find(c, r->name);

	r->id = old ? old->id : ++c->next_reserve_id;
	free(r->sorted);
	r->sorted = reserve_sorted(&r->nodes);
	if (old) {
		HASH_DELETE(hh, c->reserves, old);
		reserve_free(old);
	}
	HASH_ADD_KEYPTR(hh, c->reserves, r->name, strlen(r->name), r);
	c->reserve_at_us = 0;
	if (c->loaded)
		tell(c, r);
}

int reserve_load(struct core *c, const struct reservation_row *row)
{
	struct creserve *r = xcalloc(1, sizeof *r);
	char *copy = xstrdup(row->nodes), *save = NULL;

	r->name = xstrdup(row->name);
	r->queue = xstrdup(row->queue);
	r->reason = xstrdup(row->reason);
	r->owner = xstrdup(row->owner);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		strv_add(&r->nodes, w);
	free(copy);
	for (int i = 0; i < 3; i++)
		if (strcmp(row->state, state_names[i]) == 0)
			r->state = (enum reserve_state)i;
	r->from_us = row->from_us;
	r->to_us = row->to_us;
	r->created_us = row->created_us;
	reserve_put(c, r);
	return 0;
}

/* ---- records ----------------------------------------------------------------------------------- */

/* The names as far as max bytes are not full yet. */
static char *nodes_text(const struct creserve *r, const char *between, size_t max)
{
	size_t gap = strlen(between), n = 0, size = 1, used = 0;
	char *all;

	while (n < r->nodes.n && size <= max)
		size += strlen(r->nodes.v[n++]) + gap;
	all = xcalloc(size, 1);
	for (size_t i = 0; i < n; i++) {
		const char *name = r->nodes.v[i];

		memcpy(all + used, between, i ? gap : 0);
		used += i ? gap : 0;
		memcpy(all + used, name, strlen(name));
		used += strlen(name);
	}
	return all;
}

static void write_row(struct core *c, const struct creserve *r, int removed)
{
	char *nodes = nodes_text(r, " ", SIZE_MAX - 1);
	struct reservation_row row = {.name = r->name,
	                              .state = reserve_state_name(r),
	                              .queue = r->queue,
	                              .nodes = nodes,
	                              .reason = r->reason,
	                              .owner = r->owner,
	                              .from_us = r->from_us,
	                              .to_us = r->to_us,
	                              .created_us = r->created_us};

	if (removed)
		store_txn_reservation_del(turn_now(c)->txn, r->name);
	else
		store_txn_reservation(turn_now(c)->txn, &row);
	turn_now(c)->n++;
	free(nodes);
}

void reserve_post(struct core *c, struct creserve *r, enum event_type t, const char *by, const char *text)
{
	cJSON *d = cJSON_CreateObject(), *nodes;

	json_add_str(d, "reservation", r->name);
	json_add_str(d, "by", by);
	if (text)
		json_add_str(d, "text", text);
	if (t == EV_RESERVATION_SET) {
		json_add_str(d, "queue", r->queue);
		json_add_str(d, "reason", r->reason);
		json_add_str(d, "owner", r->owner);
		json_add_u64(d, "from_us", r->from_us);
		json_add_u64(d, "to_us", r->to_us);
		json_add_u64(d, "created_us", r->created_us);
	}
	nodes = cJSON_AddArrayToObject(d, "nodes");
	for (size_t i = 0; i < r->nodes.n; i++)
		cJSON_AddItemToArray(nodes, cJSON_CreateString(r->nodes.v[i]));
	cluster_post(c, t, d);
	write_row(c, r, t == EV_RESERVATION_REMOVED);
	if (t != EV_RESERVATION_REMOVED)
		tell(c, r);
}

/* ---- time -------------------------------------------------------------------------------------- */

/* Follows S-139. */
static void begins(struct core *c, struct creserve *r)
{
	char text[300];
	unsigned jobs = 0;

	for (size_t i = 0; i < r->nodes.n; i++) {
		const struct cnode *n = node_find(c, r->nodes.v[i]);

		for (uint32_t k = 0; n && k < n->n_jobs; k++)
			jobs += !reserve_for_queue(r, n->jobs[k]->r.queue);
	}
	snprintf(text, sizeof text, "%s%.150s begins; launches of other jobs that go on there: %u",
	         *r->queue ? "reservation for queue " : "maintenance", r->queue, jobs);
	r->state = RESERVE_ACTIVE;
	reserve_post(c, r, EV_RESERVATION_BEGAN, "hearthd", text);
}

/* 1: it is gone. Follows S-136 and S-140. */
static int look(struct core *c, struct creserve *r, uint64_t now)
{
	if (r->state == RESERVE_PLANNED && now >= r->from_us)
		begins(c, r);
	if (r->state == RESERVE_ACTIVE && now >= r->to_us) {
		r->state = RESERVE_ENDED;
		reserve_post(c, r, EV_RESERVATION_ENDED, "hearthd", "its time is over");
	}
	if (r->state == RESERVE_ENDED && now >= r->to_us + KEPT_US) {
		reserve_post(c, r, EV_RESERVATION_REMOVED, "hearthd", "it ended more than a day ago");
		reserve_drop(c, r);
		return 1;
	}
	if (r->state != RESERVE_ENDED &&
	    (r->told_from_s > lib_time(c, r->from_us, 0) + 1 || r->told_from_s + 1 < lib_time(c, r->from_us, 0)))
		tell(c, r); /* the wall clock was set */
	return 0;
}

static uint64_t next_step(const struct creserve *r)
{
	return r->state == RESERVE_PLANNED  ? r->from_us
	       : r->state == RESERVE_ACTIVE ? r->to_us
	                                    : r->to_us + KEPT_US;
}

void reserve_review(struct core *c)
{
	uint64_t now = now_real(c), wait = LOOK_US;
	struct creserve *r, *tmp;

	HASH_ITER (hh, c->reserves, r, tmp) {
		uint64_t at;

		if (look(c, r, now))
			continue;
		at = next_step(r);
		if (at <= now)
			wait = 0;
		else if (at - now < wait)
			wait = at - now;
	}
	c->reserve_at_us = now_boot(c) + wait;
}

/* ---- what others ask --------------------------------------------------------------------------- */

int reserve_for_queue(const struct creserve *r, const char *queue)
{
	size_t n = strlen(r->queue);
	const char *q = queue && *queue ? queue : "default";

	return n && strncmp(q, r->queue, n) == 0 && (q[n] == '\0' || q[n] == '/');
}

/* Follows S-137. */
struct creserve *reserve_overlap(const struct core *c, const char *node, uint64_t from_us, uint64_t to_us,
                                 const char *but)
{
	for (struct creserve *r = c->reserves; r; r = r->hh.next)
		if (r->state != RESERVE_ENDED && r->from_us < to_us && r->to_us > from_us &&
		    (!but || strcmp(r->name, but) != 0) && has_node(r, node))
			return r;
	return NULL;
}

const char *reserve_of_queue(const struct core *c, const char *queue)
{
	for (const struct creserve *r = c->reserves; r; r = r->hh.next)
		if (r->state != RESERVE_ENDED && strcmp(r->queue, queue) == 0)
			return r->name;
	return NULL;
}

const char *reserve_maintains(const struct core *c, const char *node)
{
	for (const struct creserve *r = c->reserves; r; r = r->hh.next)
		if (r->state == RESERVE_ACTIVE && !*r->queue && has_node(r, node))
			return r->name;
	return NULL;
}

/* By its limit, as a point of the wall clock. */
static uint64_t job_leaves(const struct core *c, const struct cjob *j)
{
	uint64_t at = sched_believed_end(c->sched, j->r.id), now = sched_time(c);

	return now_real(c) + (at > now ? at - now : 0) * 1000000;
}

/* Follows S-138. */
uint64_t reserve_disturbs(const struct core *c, const struct cnode *n, uint64_t from_us, const char *queue)
{
	struct creserve as = {.queue = (char *)(uintptr_t)queue};
	uint64_t last = 0;

	for (uint32_t i = 0; i < n->n_jobs; i++) {
		uint64_t at = job_leaves(c, n->jobs[i]);

		if (at > from_us && at > last && !reserve_for_queue(&as, n->jobs[i]->r.queue))
			last = at;
	}
	return last;
}

static void reserve_words(const struct creserve *r, char *out, size_t n)
{
	char from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE];

	snprintf(out, n, "%s '%s' from %s to %s", *r->queue ? "reserved for" : "kept for maintenance", r->name,
	         clock_words(r->from_us, from), clock_words(r->to_us, to));
}

int reserve_why(const struct core *c, const struct cjob *j, uint64_t limit_s, char *out, size_t size)
{
	uint64_t now = now_real(c), until = now + limit_s * 1000000;
	size_t used = 0;
	unsigned named = 0;

	out[0] = '\0';
	for (const struct creserve *r = c->reserves; r && named < 3; r = r->hh.next) {
		char words[300], *nodes;

		if (r->state == RESERVE_ENDED || r->to_us <= now || r->from_us >= until ||
		    reserve_for_queue(r, j->r.queue))
			continue;
		nodes = nodes_text(r, ", ", 300);
		reserve_words(r, words, sizeof words);
		used += (size_t)snprintf(out + used, size - used, "%snode%s %.300s %s %s", named++ ? "; " : "",
		                         r->nodes.n == 1 ? "" : "s", nodes, r->nodes.n == 1 ? "is" : "are", words);
		free(nodes);
		if (used >= size)
			break;
	}
	return named > 0;
}

void reserve_of_node(const struct core *c, const char *node, cJSON *list, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (const struct creserve *r = c->reserves; r; r = r->hh.next) {
		char words[300];
		cJSON *o;

		if (r->state == RESERVE_ENDED || !has_node(r, node))
			continue;
		o = cJSON_CreateObject();
		json_add_str(o, "name", r->name);
		json_add_str(o, "state", reserve_state_name(r));
		cJSON_AddBoolToObject(o, "maintenance", !*r->queue);
		json_add_str(o, "queue", *r->queue ? r->queue : NULL);
		json_add_time(o, "from", r->from_us);
		json_add_time(o, "to", r->to_us);
		cJSON_AddItemToArray(list, o);
		reserve_words(r, words, sizeof words);
		if (used < size)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "", words);
	}
}

/* Jobs that go on when it begins (or, of one that is active, now), by their limits; each once. */
static void add_jobs(const struct core *c, const struct creserve *r, cJSON *list)
{
	uint64_t seen[SHOWN_JOBS], from = r->from_us > now_real(c) ? r->from_us : now_real(c);
	size_t n = 0;

	for (size_t i = 0; i < r->nodes.n; i++) {
		const struct cnode *x = node_find(c, r->nodes.v[i]);

		for (uint32_t k = 0; x && k < x->n_jobs && n < SHOWN_JOBS; k++) {
			const struct cjob *j = x->jobs[k];
			size_t at = 0;
			cJSON *o;

			while (at < n && seen[at] != j->r.id)
				at++;
			if (at < n || reserve_for_queue(r, j->r.queue) || job_leaves(c, j) < from)
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

	json_add_str(o, "name", r->name);
	json_add_str(o, "state", reserve_state_name(r));
	cJSON_AddBoolToObject(o, "maintenance", !*r->queue);
	json_add_str(o, "queue", *r->queue ? r->queue : NULL);
	json_add_time(o, "from", r->from_us);
	json_add_time(o, "to", r->to_us);
	nodes = cJSON_AddArrayToObject(o, "nodes");
	for (size_t i = 0; i < r->nodes.n; i++)
		cJSON_AddItemToArray(nodes, cJSON_CreateString(r->nodes.v[i]));
	jobs = cJSON_AddArrayToObject(o, "still_running");
	if (r->state != RESERVE_ENDED)
		add_jobs(c, r, jobs);
	json_add_str(o, "reason", r->reason);
	json_add_str(o, "by", r->owner);
	json_add_time(o, "created_at", r->created_us);
	return o;
}
