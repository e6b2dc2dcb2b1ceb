/*
 * replay: compares events with rows, for --verify. No other file compares rows.
 *
 * Replay applies a job's events to an empty record. The record must give the stored rows of the job, of each
 * attempt and of each rank. Tokens of launches are secret and in no event.
 *
 * Replay applies the events of the cluster to empty records (cluster.h). They must give the stored rows of
 * nodes, join tokens, queues, budgets, instance types, reservations and pools. Rows of use are not compared,
 * because they are sums that fade with time.
 *
 * Three rules keep older databases valid. A node that was removed and came back after a restart has a second
 * row, so the newest row of a name counts. No event has the time when a node was last seen. Older versions
 * read the clock for the event and again for the row, so times may differ by some seconds.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/record/cluster_rows.h"
#include "controller/record/inventory.h"
#include "store/read/verify.h"

#define CLOCK_US 5000000ull /* difference of the times of an event and its row, at most */

static int say_why(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int say_why(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -1;
}

/* Parses the data of an event; missing data give an empty object. NULL: not a JSON object. */
static cJSON *event_data(const struct event_row *ev, char *why, size_t size)
{
	cJSON *d = cJSON_ParseWithOpts(ev->data ? ev->data : "{}", NULL, 1);

	if (cJSON_IsObject(d))
		return d;
	cJSON_Delete(d);
	say_why(why, size, "its data cannot be read");
	return NULL;
}

static int same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static int number_differs(const char *name, int64_t mine, int64_t row, char *why, size_t n)
{
	if (mine == row)
		return 0;
	return say_why(why, n, "%s: events give %" PRId64 ", the row has %" PRId64, name, mine, row);
}

static int text_differs(const char *name, const char *mine, const char *row, char *why, size_t n)
{
	if (same_text(mine, row))
		return 0;
	return say_why(why, n, "%s: events give \"%.80s\", the row has \"%.80s\"", name, mine ? mine : "",
	               row ? row : "");
}

#define DIFFER_TEXT                         text_differs
#define DIFFER_NULLABLE                     text_differs
#define DIFFER_FILLED                       text_differs
#define DIFFER_U64(name, mine, row, why, n) number_differs(name, (int64_t)(mine), (int64_t)(row), why, n)
#define DIFFER_U32                          number_differs
#define DIFFER_U8                           number_differs
#define DIFFER_I64                          number_differs

#define COMPARE(kind, name)                                                                                  \
	if (DIFFER_##kind(#name, mine->name, row->name, why, n) < 0)                                             \
		return -1;
#define COMPARE_SAME(kind, name) COMPARE(kind, name)
#define COMPARE_MADE(kind, name) COMPARE(kind, name)
#define COMPARE_UNSEEN(kind, name)
#define COMPARE_KEY(kind, name)
#define COMPARE_COLUMN(kind, name, how) COMPARE_##how(kind, name)

static int job_fields(const struct job_row *mine, const struct job_row *row, char *why, size_t n)
{
	JOB_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int attempt_fields(const struct attempt_row *mine, const struct attempt_row *row, char *why, size_t n)
{
	ATTEMPT_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int rank_fields(const struct rank_row *mine, const struct rank_row *row, char *why, size_t n)
{
	RANK_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int job_differs(const struct job_rec *r, const struct job_row *row, char *why, size_t n)
{
	char digest[HASH_HEX_SIZE];
	struct job_row mine;

	rec_job_row(r, &mine);
	if (job_fields(&mine, row, why, n) < 0)
		return -1;
	if (row->spec && r->spec_sha256) {
		hash_hex(row->spec, strlen(row->spec), digest);
		if (!same_text(digest, r->spec_sha256))
			return say_why(why, n, "spec: its SHA-256 is not the one of the submit");
	}
	return 0;
}

static int attempt_differs(const struct job_rec *r, const struct attempt_row *row, char *why, size_t n)
{
	struct attempt_row mine;
	char text[200];
	int rc;

	rec_attempt_row(r, &mine);
	rc = attempt_fields(&mine, row, text, sizeof(text));
	attempt_row_borrowed_fini(&mine);
	return rc < 0 ? say_why(why, n, "attempt %u: %s", row->number, text) : 0;
}

static int rank_differs(const struct job_rec *r, const struct rank_row *row, char *why, size_t n)
{
	struct rank_row mine;
	char text[200];

	rec_rank_row(r, row->rank, &mine);
	return rank_fields(&mine, row, text, sizeof(text)) < 0
	           ? say_why(why, n, "attempt %u: rank %u: %s", row->attempt, row->rank, text)
	           : 0;
}

static int checkpoint_fields(const struct checkpoint_row *mine, const struct checkpoint_row *row, char *why,
                             size_t n)
{
	CHECKPOINT_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int checkpoint_part_fields(const struct checkpoint_part_row *mine,
                                  const struct checkpoint_part_row *row, char *why, size_t n)
{
	CHECKPOINT_PART_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

struct replay {
	struct job_rec r;
	struct attempt_rec **past; /* attempts before the newest, by number */
	uint32_t n_past;
	char bad[256]; /* text about the first event that was refused */
};

/* Waiting ranks have no row yet. */
static int ranks_differ(const struct job_rec *r, const struct store_job_rows *rows, size_t *at, char *why,
                        size_t n)
{
	const struct attempt_rec *a = r->att;

	for (uint32_t i = 0; i < a->n_ranks; i++) {
		const struct rank_row *row = *at < rows->n_ranks ? &rows->ranks[*at] : NULL;

		if (row && row->attempt == a->number && row->rank == i) {
			++*at;
			if (rank_differs(r, row, why, n) < 0)
				return -1;
		} else if (a->ranks[i].state != RANK_WAITING) {
			return say_why(why, n, "attempt %u: rank %u has no row", a->number, i);
		}
	}
	return 0;
}

static int attempts_differ(const struct replay *p, const struct store_job_rows *rows, char *why, size_t n)
{
	struct job_rec r = {.id = p->r.id};
	size_t at = 0;

	if (rows->n_attempts != p->r.attempts)
		return say_why(why, n, "events give %u attempts, there are rows of %zu", p->r.attempts,
		               rows->n_attempts);
	for (uint32_t i = 0; i < p->r.attempts; i++) {
		r.att = i < p->n_past ? p->past[i] : rec_attempt(&p->r, i + 1);
		if (!r.att || r.att->number != i + 1)
			return say_why(why, n, "attempt %u has no events", i + 1);
		if (rows->attempts[i].number != i + 1)
			return say_why(why, n, "attempt %u has no row", i + 1);
		if (attempt_differs(&r, &rows->attempts[i], why, n) < 0 || ranks_differ(&r, rows, &at, why, n) < 0)
			return -1;
	}
	if (at < rows->n_ranks)
		return say_why(why, n, "attempt %u: a row of rank %u, which it does not have",
		               rows->ranks[at].attempt, rows->ranks[at].rank);
	return 0;
}

static int parts_differ(const struct job_rec *r, const struct ckpt *c, const struct store_job_rows *rows,
                        size_t *at, char *why, size_t n)
{
	char text[200] = "its parts have no rows";

	for (uint32_t i = 0; i < c->n_parts; i++, ++*at) {
		const struct checkpoint_part_row *row = *at < rows->n_parts ? &rows->parts[*at] : NULL;
		struct checkpoint_part_row mine;

		ckpt_part_row(r, c, i, &mine);
		if (!row || row->number != c->number || row->part != i ||
		    checkpoint_part_fields(&mine, row, text, sizeof(text)) < 0)
			return say_why(why, n, "checkpoint %u: part %u: %s", c->number, i, text);
	}
	return 0;
}

static int checkpoints_differ(const struct job_rec *r, const struct store_job_rows *rows, char *why, size_t n)
{
	uint32_t count = r->ckpts ? r->ckpts->n : 0;
	struct checkpoint_row mine;
	char text[200];
	size_t at = 0;

	if (rows->n_checkpoints != count)
		return say_why(why, n, "events give %u checkpoints, there are rows of %zu", count,
		               rows->n_checkpoints);
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt *c = &r->ckpts->v[i];

		ckpt_row(r, c, &mine);
		if (checkpoint_fields(&mine, &rows->checkpoints[i], text, sizeof(text)) < 0)
			return say_why(why, n, "checkpoint %u: %s", c->number, text);
		if (parts_differ(r, c, rows, &at, why, n) < 0)
			return -1;
	}
	if (at < rows->n_parts)
		return say_why(why, n, "checkpoint %u: a row of a part that it does not have",
		               rows->parts[at].number);
	return 0;
}

static void add_past(struct replay *p, struct attempt_rec **a)
{
	if (!*a)
		return;
	p->past = xrealloc(p->past, (p->n_past + 1) * sizeof(*p->past));
	p->past[p->n_past++] = *a;
	*a = NULL;
}

static void take_past(struct replay *p)
{
	if (!rec_collects(p->r.old))
		add_past(p, &p->r.old);
	if (!rec_collects(p->r.att))
		add_past(p, &p->r.att);
}

static void apply_row(struct replay *p, const struct event_row *ev)
{
	int t = event_find(ev->type);
	struct err e;
	cJSON *data;

	p->r.id = ev->job;
	if (p->bad[0])
		return;
	if (t < 0) {
		snprintf(p->bad, sizeof(p->bad), "event %" PRIu64 ": unknown type \"%.60s\"", ev->id,
		         ev->type ? ev->type : "");
		return;
	}
	if (t == EV_PLACED) /* a record holds the newest only, and one that is being collected */
		take_past(p);
	data = event_data(ev, e.text, sizeof(e.text));
	if (!data || event_apply(&p->r, (enum event_type)t, ev->attempt, ev->at_us, data, &e) < 0)
		snprintf(p->bad, sizeof(p->bad), "event %" PRIu64 ": %.200s", ev->id, e.text);
	cJSON_Delete(data);
}

static int compare_job(const struct replay *p, const struct store_job_rows *rows, char *why, size_t n)
{
	if (p->bad[0])
		return say_why(why, n, "%s", p->bad);
	if (!p->r.created_us)
		return say_why(why, n, "the job has no events");
	if (job_differs(&p->r, rows->job, why, n) < 0 || attempts_differ(p, rows, why, n) < 0 ||
	    checkpoints_differ(&p->r, rows, why, n) < 0)
		return -1;
	return rec_check(&p->r) ? say_why(why, n, "%s", rec_check(&p->r)) : 0;
}

int event_reducer(void **state, const struct event_row *ev, const struct store_job_rows *rows, char *why,
                  size_t why_size, void *arg)
{
	struct replay *p = *state ? *state : xcalloc(1, sizeof(*p));
	int rc;

	(void)arg;
	*state = p;
	if (ev) {
		apply_row(p, ev);
		return 0;
	}
	rc = compare_job(p, rows, why, why_size);
	rec_fini(&p->r);
	for (uint32_t i = 0; i < p->n_past; i++)
		attempt_rec_free(p->past[i]);
	free(p->past);
	free(p);
	*state = NULL;
	return rc;
}

/* ---- the cluster ----------------------------------------------------------------------------- */

struct cluster_replay {
	struct cluster records;
	struct strv removed; /* "KIND NAME" of each record that an event removed */
};

static const char *const kind_names[N_CLUSTER_KIND] = {
    "node", "token", "queue", "budget", "instance type", "reservation", "pool", "what a pool has of job"};

static void note_removed(enum cluster_kind kind, const char *name, const struct cluster_rec *r, void *arg)
{
	struct cluster_replay *p = arg;

	if (!r)
		strv_addf(&p->removed, "%s %s", kind_names[kind], name);
}

static int apply_cluster_row(struct cluster_replay *p, const struct event_row *ev, char *why, size_t n)
{
	cJSON *d = event_data(ev, why, n);
	int type = event_find(ev->type), rc = 0;
	struct err e;

	if (!d)
		return -1;
	if (type < EV_JOINED)
		rc = say_why(why, n, "unknown type \"%.60s\"", ev->type ? ev->type : "");
	else if (cluster_apply(&p->records, (enum event_type)type, ev->at_us, d, &e) < 0)
		rc = say_why(why, n, "%s", e.text);
	cluster_changes(&p->records, note_removed, p);
	cJSON_Delete(d);
	return rc;
}

static int was_removed(const struct cluster_replay *p, enum cluster_kind kind, const char *name)
{
	size_t n = strlen(kind_names[kind]);

	for (size_t i = 0; i < p->removed.n; i++)
		if (strncmp(p->removed.v[i], kind_names[kind], n) == 0 && p->removed.v[i][n] == ' ' &&
		    strcmp(p->removed.v[i] + n + 1, name) == 0)
			return 1;
	return 0;
}

/* Returns the record of a row. NULL: why. */
static struct cluster_rec *rec_of_row(struct cluster_replay *p, enum cluster_kind kind, const char *name,
                                      char *why, size_t n)
{
	struct cluster_rec *r = cluster_find(&p->records, kind, name ? name : "");

	if (r && cluster_is_stored(r)) {
		r->rows++;
		return r;
	}
	say_why(why, n, "%s",
	        name && was_removed(p, kind, name) ? "events say that it was removed" : "no event tells of it");
	return NULL;
}

static int times_near(uint64_t a, uint64_t b)
{
	return !a == !b && (a > b ? a - b : b - a) <= CLOCK_US;
}

static int time_differs(const char *name, uint64_t mine, uint64_t row, char *why, size_t n)
{
	return times_near(mine, row) ? 0 : number_differs(name, (int64_t)mine, (int64_t)row, why, n);
}

static int inventory_differs(const struct node_rec *r, const struct node_row *row, char *why, size_t n)
{
	struct inv inv;
	int rc = 0;

	if (!r->has_inventory)
		return say_why(why, n, "inventory: there is one, but no event of it");
	if (inv_parse(&inv, row->inventory) < 0)
		return say_why(why, n, "inventory: it cannot be read");
	if (text_differs("address", r->address, row->address, why, n) < 0)
		rc = -1;
	else if (inv.slots != r->slots || inv.n_gpus != r->gpus || inv.memory_bytes != r->memory_bytes)
		rc = say_why(why, n,
		             "inventory: events give %" PRIu64 " slots, %" PRIu64 " GPUs and %" PRIu64
		             " bytes, the row has %u, %u and %" PRIu64,
		             r->slots, r->gpus, r->memory_bytes, inv.slots, inv.n_gpus, inv.memory_bytes);
	inv_fini(&inv);
	return rc;
}

static int node_differs(const struct node_rec *r, const struct node_row *row, char *why, size_t n)
{
	const char *state = state_name(STATE_NODE, (int)r->state);

	if (r->head.rows > 1) /* an older row of a node that came back */
		return same_text(row->state, "removed")
		           ? 0
		           : say_why(why, n, "there is a later row of its name, and this one is not removed");
	if (text_differs("state", state, row->state, why, n) < 0 ||
	    number_differs("drain", r->drain, row->drain, why, n) < 0 ||
	    number_differs("spare", r->spare, row->spare, why, n) < 0 ||
	    text_differs("reason", r->reason, row->reason, why, n) < 0 ||
	    time_differs("joined_us", r->joined_us, row->joined_us, why, n) < 0)
		return -1;
	if (r->fingerprint && text_differs("certificate", r->fingerprint, row->cert_fingerprint, why, n) < 0)
		return -1;
	return row->inventory && *row->inventory ? inventory_differs(r, row, why, n) : 0;
}

static int token_differs(const struct token_rec *t, const struct token_row *row, char *why, size_t n)
{
	uint64_t ttl_us = t->expires_us ? t->expires_us - t->created_us : 0;
	size_t len = t->node ? strlen(t->node) : 0;

	if (!same_text(t->owner, row->owner))
		return say_why(why, n, "events say that it was made by \"%.80s\", the row by \"%.80s\"",
		               t->owner ? t->owner : "", row->owner ? row->owner : "");
	if (time_differs("made_us", t->created_us, row->created_us, why, n) < 0)
		return -1;
	if (text_differs("kind", token_kind_names[t->kind], row->kind, why, n) < 0 ||
	    text_differs("scope", t->scope, row->scope, why, n) < 0 ||
	    text_differs("account", t->account, row->account, why, n) < 0 ||
	    text_differs("note", t->note, row->note, why, n) < 0 ||
	    text_differs("made_with", t->parent, row->made_with, why, n) < 0)
		return -1;
	if (!times_near(ttl_us ? row->created_us + ttl_us : 0, row->expires_us))
		return say_why(why, n,
		               "events give %" PRIu64 " s from %" PRIu64 ", the row has %" PRIu64 " to %" PRIu64,
		               ttl_us / 1000000, t->created_us, row->created_us, row->expires_us);
	if (time_differs("used_us", t->used_us, row->used_us, why, n) < 0)
		return -1;
	if (len && (!row->used_by || strncmp(row->used_by, t->node, len) != 0 || row->used_by[len] != ' '))
		return say_why(why, n, "events say that node \"%.80s\" used it, the row \"%.80s\"", t->node,
		               row->used_by ? row->used_by : "");
	return 0;
}

static int queue_differs(const struct queue_row *mine, const struct queue_row *row, char *why, size_t n)
{
	if (mine->is_queue != row->is_queue)
		return say_why(why, n, "is_queue: events give %d, the row has %d", mine->is_queue, row->is_queue);
	if (mine->weight_milli != row->weight_milli)
		return say_why(why, n, "weight: events give %" PRIu64 " thousandths, the row has %" PRIu64,
		               mine->weight_milli, row->weight_milli);
	if (mine->quota_gpus != row->quota_gpus || mine->borrow != row->borrow)
		return say_why(why, n, "quota: events give %u GPUs, borrow %d; the row has %u and %d",
		               mine->quota_gpus, mine->borrow, row->quota_gpus, row->borrow);
	if (mine->warm_gpus != row->warm_gpus || mine->warm_nodes != row->warm_nodes)
		return say_why(why, n, "warm: events give %u GPUs and %u nodes, the row has %u and %u",
		               mine->warm_gpus, mine->warm_nodes, row->warm_gpus, row->warm_nodes);
	return 0;
}

static int budget_differs(const struct budget_row *mine, const struct budget_row *row, char *why, size_t n)
{
	if (mine->uusd != row->uusd || !same_text(mine->period, row->period))
		return say_why(
		    why, n, "events give %" PRIu64 " millionths of a dollar a %.20s, the row has %" PRIu64 " a %.20s",
		    mine->uusd, mine->period, row->uusd, row->period ? row->period : "");
	if (!same_text(mine->action, row->action))
		return say_why(why, n, "action: events give %.20s, the row has %.20s", mine->action,
		               row->action ? row->action : "");
	return 0;
}

static int instance_differs(const struct instance_rec *t, const char *own, char *why, size_t n)
{
	cJSON *row = own ? cJSON_Parse(own) : NULL;
	int equal = row && cJSON_Compare(t->own, row, 1);

	cJSON_Delete(row);
	return equal ? 0 : say_why(why, n, "its facts are not those that events give: %.200s", own ? own : "");
}

static int reservation_differs(const struct reservation_row *mine, const struct reservation_row *row,
                               char *why, size_t n)
{
	return text_differs("state", mine->state, row->state, why, n) < 0 ||
	               text_differs("nodes", mine->nodes, row->nodes, why, n) < 0 ||
	               text_differs("queue", mine->queue, row->queue, why, n) < 0 ||
	               text_differs("reason", mine->reason, row->reason, why, n) < 0 ||
	               text_differs("owner", mine->owner, row->owner, why, n) < 0 ||
	               number_differs("from_us", (int64_t)mine->from_us, (int64_t)row->from_us, why, n) < 0 ||
	               number_differs("to_us", (int64_t)mine->to_us, (int64_t)row->to_us, why, n) < 0 ||
	               number_differs("created_us", (int64_t)mine->created_us, (int64_t)row->created_us, why, n) <
	                   0
	           ? -1
	           : 0;
}

static int pool_differs(const struct pool_row *mine, const struct pool_row *row, char *why, size_t n)
{
	POOL_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

static int pool_job_differs(const struct pool_job_row *mine, const struct pool_job_row *row, char *why,
                            size_t n)
{
	POOL_JOB_TABLE(COMPARE_COLUMN, COMPARE_COLUMN)
	return 0;
}

/* number: room for a name that is one. */
static enum cluster_kind kind_of_row(const struct store_cluster_row *row, char number[24], const char **name)
{
	if (row->pool || row->pool_job) {
		snprintf(number, 24, "%" PRIu64, row->pool ? row->pool->id : row->pool_job->job);
		*name = number;
		return row->pool ? CLUSTER_POOL : CLUSTER_POOL_JOB;
	}
	*name = row->node          ? row->node->name
	        : row->token       ? row->token->id
	        : row->queue       ? row->queue->path
	        : row->budget      ? row->budget->path
	        : row->reservation ? row->reservation->name
	                           : row->instance;
	return row->node          ? CLUSTER_NODE
	       : row->token       ? CLUSTER_TOKEN
	       : row->queue       ? CLUSTER_QUEUE
	       : row->budget      ? CLUSTER_BUDGET
	       : row->reservation ? CLUSTER_RESERVATION
	                          : CLUSTER_INSTANCE;
}

static int cluster_row_differs(struct cluster_replay *p, const struct store_cluster_row *row, char *why,
                               size_t n)
{
	char number[24];
	const char *name;
	enum cluster_kind kind = kind_of_row(row, number, &name);
	struct cluster_row mine;
	struct cluster_rec *r;
	int rc;

	if (row->token && name_find(token_kind_names, N_TOKEN_KIND, row->token->kind ? row->token->kind : "") < 0)
		return 0; /* tokens of jobs: their attempts' events tell of them */
	r = rec_of_row(p, kind, name, why, n);
	if (!r)
		return -1;
	cluster_row_make(r, &mine);
	if (row->node)
		rc = node_differs((const struct node_rec *)r, row->node, why, n);
	else if (row->token)
		rc = token_differs((const struct token_rec *)r, row->token, why, n);
	else if (row->queue)
		rc = queue_differs(&mine.queue, row->queue, why, n);
	else if (row->budget)
		rc = budget_differs(&mine.budget, row->budget, why, n);
	else if (row->reservation)
		rc = reservation_differs(&mine.reservation, row->reservation, why, n);
	else if (row->pool)
		rc = pool_differs(&mine.pool, row->pool, why, n);
	else if (row->pool_job)
		rc = pool_job_differs(&mine.pool_job, row->pool_job, why, n);
	else
		rc = instance_differs((const struct instance_rec *)r, row->own, why, n);
	cluster_row_fini(&mine);
	return rc;
}

/* Frees records up to the next one without a row (-1); 0: all are freed. */
static int cluster_rest(struct cluster_replay **state, char *why, size_t n)
{
	struct cluster_replay *p = *state;

	for (int k = 0; p && k < N_CLUSTER_KIND; k++) {
		while (p->records.all[k]) {
			struct cluster_rec *r = p->records.all[k];
			int missing = cluster_is_stored(r) && !r->rows;

			if (missing)
				say_why(why, n, "%s %.80s has events and no row", kind_names[k], r->name);
			cluster_forget(&p->records, r);
			if (missing)
				return -1;
		}
	}
	if (p)
		strv_fini(&p->removed);
	free(p);
	*state = NULL;
	return 0;
}

int event_cluster_reducer(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                          char *why, size_t why_size)
{
	struct cluster_replay *p = *state;
	int rc;

	if (!ev && !row) {
		rc = cluster_rest(&p, why, why_size);
		*state = p;
		return rc;
	}
	if (!p) {
		*state = p = xcalloc(1, sizeof(*p));
		cluster_init(&p->records);
	}
	return ev ? apply_cluster_row(p, ev, why, why_size) : cluster_row_differs(p, row, why, why_size);
}
