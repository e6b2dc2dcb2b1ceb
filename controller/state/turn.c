/*
 * turn: events, and what waits for them to be durable.
 *
 * Inputs change memory immediately and gather in one transaction. The store has at most one transaction at a
 * time. Later inputs gather in the next one, so a busy hearthd commits in groups. Sends, replies, notices and
 * acknowledgements leave when the transaction that explains them is durable.
 *
 * When the store refuses a transaction, memory is ahead of it. Nobody has seen those changes, so the core
 * acts as after a restart: it drops everything and loads the state of the store (load.c). Waiting requests
 * get the store's error. Orders and acknowledgements are dropped; agents connect and report again. Until a
 * small probe is durable, hearthd refuses writing requests and reports.
 *
 * Metric points change no record and have transactions of their own. A lost one is only not acknowledged.
 */
#include "controller/state/turn.h"
#include "controller/state/quota.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/record/cluster_rows.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/history.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/observer.h"
#include "controller/state/request.h"

#define RETRY_COMMIT_US 20000 /* the store's queue was full */

/* Calls the function of each observer that has it. */
#define CALL_OBSERVERS(c, function, ...)                                                                     \
	do {                                                                                                     \
		for (size_t i_ = 0; i_ < (c)->n_observers; i_++)                                                     \
			if ((c)->observers[i_].function)                                                                 \
				(c)->observers[i_].function(c, ##__VA_ARGS__);                                               \
	} while (0)

static struct turn *turn_new(struct core *c)
{
	struct turn *t = xcalloc(1, sizeof(*t));

	t->core = c;
	t->txn = store_txn_new();
	return t;
}

struct turn *turn_now(struct core *c)
{
	if (!c->turn.now)
		c->turn.now = turn_new(c);
	return c->turn.now;
}

static void held_free(struct held *h)
{
	free(h->node);
	if (h->msg)
		wire_free(h->type, h->msg);
	cJSON_Delete(h->body);
	event_row_fini(&h->ev);
	free(h);
}

static struct held *append_held(struct turn *t, enum held_kind kind)
{
	struct held *h = xcalloc(1, sizeof(*h));

	h->kind = kind;
	DL_APPEND(t->held, h);
	return h;
}

static void release_held(struct core *c, struct held *h)
{
	const struct core_io *io = &c->io;

	switch (h->kind) {
	case HELD_SEND:
		io->send(h->node, h->session, h->type, h->msg, h->id, io->arg);
		break;
	case HELD_REPLY:
		h->rq->reply(h->rq, h->status, h->body, h->status >= 400 ? &h->err : NULL);
		h->body = NULL;
		break;
	case HELD_NOTICE:
		if (io->notice)
			io->notice(&h->ev, io->arg);
		break;
	case HELD_CLOSE:
		io->close_agent(h->node, h->session, h->err.text, io->arg);
		break;
	case HELD_REMOVE_DATA:
		if (io->remove_data)
			io->remove_data(h->job, io->arg);
		break;
	case HELD_SETTLE:
		job_settle(c, h->job);
		break;
	case HELD_METRICS_ACK:
		if (io->metrics_ack)
			io->metrics_ack(h->node, h->job, h->attempt, h->id, io->arg);
		break;
	}
}

static void turn_release(struct core *c, struct turn *t)
{
	struct held *h, *tmp;

	DL_FOREACH_SAFE (t->held, h, tmp) {
		release_held(c, h);
		held_free(h);
	}
	store_txn_free(t->txn);
	free(t);
}

/* Drops what is held, except replies, which report the failure. */
static void turn_drop(struct turn *t, const struct err *e)
{
	struct held *h, *tmp;

	if (!t)
		return;
	DL_FOREACH_SAFE (t->held, h, tmp) {
		if (h->kind == HELD_REPLY) {
			/* A refusal needed no write, so it is sent unchanged. */
			if (h->status >= 400)
				h->rq->reply(h->rq, h->status, h->body, &h->err);
			else
				h->rq->reply(h->rq, err_http_status(e->code), NULL, e);
			if (h->status >= 400)
				h->body = NULL;
		}
		held_free(h);
	}
	store_txn_free(t->txn);
	free(t);
}

void turns_drop(struct core *c, const struct err *e)
{
	struct turn *flying = c->turn.flying, *now = c->turn.now;

	c->turn.flying = c->turn.now = NULL;
	turn_drop(flying, e);
	turn_drop(now, e);
}

void metrics_drop(struct core *c, const struct err *e)
{
	turn_drop(c->turn.metrics, e);
	turn_drop(c->turn.metrics_flying, e);
	c->turn.metrics = c->turn.metrics_flying = NULL;
}

void turn_stop(struct core *c, const struct err *e)
{
	struct turn *now = c->turn.now, *metrics = c->turn.metrics;

	c->turn.now = c->turn.metrics = NULL;
	turn_drop(now, e);
	turn_drop(metrics, e);
}

/* ---- holding --------------------------------------------------------------------------------- */

void hold_send(struct core *c, const struct cnode *n, uint16_t type, const void *msg)
{
	struct held *h;

	if (!n->connected)
		return;
	h = append_held(turn_now(c), HELD_SEND);
	h->node = xstrdup(n->name);
	h->session = n->session;
	h->type = type;
	h->msg = wire_copy(type, msg);
}

void send_now(struct core *c, const struct cnode *n, uint16_t type, const void *msg)
{
	if (n->connected)
		c->io.send(n->name, n->session, type, msg, 0, c->io.arg);
}

void hold_ack(struct core *c, const char *node, uint64_t session, uint64_t id)
{
	struct wm_ack ack = {.acked = id};
	struct held *h = append_held(turn_now(c), HELD_SEND);

	if (FAULT("mistake.early_ack"))
		c->io.send(node, session, WM_ACK, &ack, 0, c->io.arg);
	h->node = xstrdup(node);
	h->session = session;
	h->type = WM_ACK;
	h->msg = wire_copy(WM_ACK, &ack);
}

void hold_reply(struct core *c, struct request *rq, int status, cJSON *body)
{
	struct held *h;

	CALL_OBSERVERS(c, before_reply, rq, status, body);
	if (FAULT("mistake.early_reply")) {
		rq->reply(rq, status, body, NULL);
		return;
	}
	h = append_held(turn_now(c), HELD_REPLY);
	h->rq = rq;
	h->status = status;
	h->body = body;
}

void reply_err(struct core *c, struct request *rq, const struct err *e)
{
	struct held *h = append_held(turn_now(c), HELD_REPLY);

	h->rq = rq;
	h->status = err_http_status(e->code);
	h->err = *e;
}

int reply_fail(struct core *c, struct request *rq, enum err_code code, const char *fmt, ...)
{
	struct err e = {.code = code};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.text, sizeof(e.text), fmt, ap);
	va_end(ap);
	reply_err(c, rq, &e);
	return -1;
}

void hold_close(struct core *c, const char *node, uint64_t session, const char *why)
{
	struct held *h = append_held(turn_now(c), HELD_CLOSE);

	h->node = xstrdup(node);
	h->session = session;
	err_set(&h->err, ERR_CONFLICT, "%s", why);
}

void hold_remove_data(struct core *c, uint64_t job)
{
	append_held(turn_now(c), HELD_REMOVE_DATA)->job = job;
}

void hold_metrics_ack(struct core *c, const char *node, uint64_t job, uint32_t attempt, uint64_t seq)
{
	struct held *h;

	if (!c->turn.metrics)
		c->turn.metrics = turn_new(c);
	h = append_held(c->turn.metrics, HELD_METRICS_ACK);
	h->node = xstrdup(node);
	h->job = job;
	h->attempt = attempt;
	h->id = seq;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void job_mark(struct core *c, struct cjob *j)
{
	turn_now(c);
	j->dirty_job = 1;
	if (j->in_turn)
		return;
	j->in_turn = 1;
	DL_APPEND2(c->turn.jobs, j, turn_prev, turn_next);
}

static void record_event(struct core *c, struct event_row *ev, char *data)
{
	struct turn *t = turn_now(c);
	struct held *h;

	ev->id = ++c->turn.last_event_id;
	ev->data = data;
	store_txn_event(t->txn, ev);
	t->n++;
	c->turn.n_events++;
	h = append_held(t, HELD_NOTICE);
	h->ev = *ev;
	h->ev.type = xstrdup(ev->type);
}

static void write_attempt_of(struct turn *t, const struct job_rec *r)
{
	struct attempt_row a;

	rec_attempt_row(r, &a);
	store_txn_attempt(t->txn, &a);
	attempt_row_borrowed_fini(&a);
	for (uint32_t i = 0; i < r->att->n_ranks; i++) {
		struct rank_row k;

		if (!r->att->ranks[i].dirty)
			continue;
		rec_rank_row(r, i, &k);
		store_txn_rank(t->txn, &k);
		r->att->ranks[i].dirty = 0;
	}
}

static void write_attempt(struct turn *t, struct cjob *j)
{
	struct job_rec old = j->r; /* with the old attempt as the one of the row */

	if (!j->dirty_attempt || !j->r.att)
		return;
	write_attempt_of(t, &j->r);
	old.att = j->r.old;
	if (old.att)
		write_attempt_of(t, &old);
	j->dirty_attempt = 0;
}

/* A gang of a thousand reports a thousand parts, each in a turn of its own: only what changed is written. */
static void write_checkpoint(struct turn *t, const struct job_rec *r, struct ckpt *k)
{
	struct checkpoint_part_row part;
	struct checkpoint_row row;

	ckpt_row(r, k, &row);
	store_txn_checkpoint(t->txn, &row);
	for (uint32_t i = 0; i < k->n_parts; i++) {
		if (!k->parts[i].dirty)
			continue;
		ckpt_part_row(r, k, i, &part);
		store_txn_checkpoint_part(t->txn, &part);
		k->parts[i].dirty = 0;
	}
	k->dirty = 0;
}

static void write_checkpoints(struct turn *t, struct cjob *j)
{
	struct ckpt_list *l = j->r.ckpts;

	for (uint32_t i = 0; l && i < l->n_removed; i++)
		store_txn_checkpoint_del(t->txn, j->r.id, l->removed[i]);
	for (uint32_t i = 0; l && i < l->n; i++)
		if (l->v[i].dirty)
			write_checkpoint(t, &j->r, &l->v[i]);
	if (l)
		l->n_removed = 0;
}

static int is_attempt_event(enum event_type t)
{
	return t >= EV_PLACED && t <= EV_ATTEMPT_ENDED;
}

static void count_job(struct core *c, const struct cjob *j, const struct job_before *before)
{
	enum job_status now = j->r.status;

	if (!before->is_new && before->status == now)
		return;
	if (!j->r.members) { /* else its members are counted */
		if (!before->is_new)
			c->jobs.counts[before->status]--;
		c->jobs.counts[now]++;
	}
	if (before->is_new)
		c->jobs.unfinished++;
	else if (job_ended(now))
		c->jobs.unfinished--;
}

int job_post(struct core *c, struct cjob *j, enum event_type t, cJSON *data)
{
	struct job_rec *r = &j->r;
	struct job_before before = {.status = r->status, .is_new = !r->created_us};
	struct event_row ev = {.job = r->id, .at_us = now_real(c), .type = (char *)(uintptr_t)event_name(t)};
	struct err e;

	if (!data)
		data = cJSON_CreateObject();
	if (t == EV_PLACED) /* the next attempt replaces this one, whose last row is written first */
		write_attempt(turn_now(c), j);
	if (is_attempt_event(t))
		ev.attempt = t == EV_PLACED ? r->attempts + 1 : r->att ? r->att->number : 0;
	CALL_OBSERVERS(c, before_event, j, t, data);
	if (event_apply(r, t, ev.attempt, ev.at_us, data, &e) < 0) {
		log_error("event=refused job=%" PRIu64 " type=%s text=\"%s\"", r->id, event_name(t), e.text);
#ifdef HEARTH_FAULTS
		abort();
#endif
		before.refused = 1;
		CALL_OBSERVERS(c, after_event, j, t, &before);
		cJSON_Delete(data);
		return -1;
	}
	record_event(c, &ev, json_text(data));
	if (t == EV_RANK_EXITED && FAULT("mistake.event_twice"))
		record_event(c, &ev, json_text(data));
	cJSON_Delete(data);
	job_mark(c, j);
	if ((is_attempt_event(t) || t == EV_REQUEUED) && r->att)
		j->dirty_attempt = 1;
	count_job(c, j, &before);
	quota_stored(c, j, 0);
	CALL_OBSERVERS(c, after_event, j, t, &before);
	return 0;
}

int cluster_post(struct core *c, enum event_type t, cJSON *data)
{
	struct event_row ev = {.at_us = now_real(c), .type = (char *)(uintptr_t)event_name(t)};
	struct err e;

	CALL_OBSERVERS(c, before_event, NULL, t, data);
	if (cluster_apply(&c->records, t, ev.at_us, data, &e) < 0) {
		log_error("event=refused type=%s text=\"%s\"", event_name(t), e.text);
#ifdef HEARTH_FAULTS
		abort();
#endif
		cJSON_Delete(data);
		return -1;
	}
	record_event(c, &ev, json_text(data));
	cJSON_Delete(data);
	return 0;
}

/* ---- committing ------------------------------------------------------------------------------ */

static void write_job(struct core *c, struct turn *t, struct cjob *j)
{
	struct job_row row;

	rec_job_row(&j->r, &row);
	if (!j->spec_saved) {
		row.spec = j->spec;
		row.run = j->run;
		j->spec_saved = 1;
	}
	store_txn_job(t->txn, &row);
	t->n++;
	write_attempt(t, j);
	write_checkpoints(t, j);
	j->dirty_job = j->dirty_attempt = j->in_turn = 0;
	append_held(t, HELD_SETTLE)->job = j->r.id;
	(void)c;
}

/* Writes the row of a cluster record; r NULL: deletes the row. */
static void write_cluster_row(enum cluster_kind kind, const char *name, const struct cluster_rec *r,
                              void *arg)
{
	struct turn *t = arg;
	struct cluster_row row = {.own = NULL};

	if (r)
		cluster_row_make(r, &row);
	switch (kind) {
	case CLUSTER_NODE: /* no event removes the record of a node */
		if (r)
			store_txn_node(t->txn, &row.node);
		break;
	case CLUSTER_TOKEN:
		if (r)
			store_txn_token(t->txn, &row.token);
		else
			store_txn_token_del(t->txn, name);
		break;
	case CLUSTER_QUEUE:
		if (r && cluster_is_stored(r))
			store_txn_queue(t->txn, &row.queue);
		else
			store_txn_queue_del(t->txn, name);
		break;
	case CLUSTER_BUDGET:
		store_txn_budget(t->txn, r ? &row.budget : &(struct budget_row){.path = name});
		break;
	case CLUSTER_INSTANCE:
		store_txn_instance(t->txn, name, row.row.own);
		break;
	case CLUSTER_RESERVATION:
		if (r)
			store_txn_reservation(t->txn, &row.reservation);
		else
			store_txn_reservation_del(t->txn, name);
		break;
	case CLUSTER_POOL: /* rows of pools stay */
		if (r)
			store_txn_pool(t->txn, &row.pool);
		break;
	case CLUSTER_POOL_JOB:
		if (r)
			store_txn_pool_job(t->txn, &row.pool_job);
		break;
	case N_CLUSTER_KIND:
		break;
	}
	t->n++;
	cluster_row_fini(&row);
}

static void write_rows(struct core *c)
{
	struct turn *t = c->turn.now;
	struct cjob *j, *jt;

	DL_FOREACH_SAFE2(c->turn.jobs, j, jt, turn_next)
	{
		DL_DELETE2(c->turn.jobs, j, turn_prev, turn_next);
		write_job(c, t, j);
	}
	cluster_changes(&c->records, write_cluster_row, t);
}

static void on_done(int rc, const struct err *e, void *arg)
{
	struct turn *t = arg;
	struct core *c = t->core;

	assert(t == c->turn.flying); /* one at a time, and only the code below drops it */
	if (rc == 0) {
		c->turn.flying = NULL;
		c->turn.n_commits++;
		turn_release(c, t);
	} else if (c->life.stopping) { /* the next hearthd reads the state from the store */
		log_error("event=store_failed text=\"%s\"", e ? e->text : "");
		turns_drop(c, e);
	} else {
		c->turn.n_failed++;
		CALL_OBSERVERS(c, commit_failed, e);
	}
	turn_commit(c);
}

static void on_metrics_done(int rc, const struct err *e, void *arg)
{
	struct turn *t = arg;
	struct core *c = t->core;

	if (t == c->turn.metrics_flying)
		c->turn.metrics_flying = NULL;
	if (rc == 0) {
		turn_release(c, t);
	} else {
		log_warn("event=metrics_not_stored text=\"%s\"", e ? e->text : "");
		turn_drop(t, e);
	}
	turn_commit(c);
}

/* Hands a transaction to the store. 1 accepted, 0 later, -1 refused. */
static int hand_to_store(struct core *c, struct turn *t, store_done_fn done, uint64_t *retry_us,
                         struct err *e)
{
	struct store_txn *txn = t->txn;

	if (*retry_us && now_boot(c) < *retry_us)
		return 0;
	*retry_us = 0;
	t->txn = NULL;
	if (c->io.commit(txn, done, t, c->io.arg, e) == 0)
		return 1;
	t->txn = txn;
	if (e->code != ERR_BUSY)
		return -1;
	*retry_us = now_boot(c) + RETRY_COMMIT_US;
	return 0;
}

static void commit_metrics(struct core *c)
{
	struct turn *t = c->turn.metrics;
	struct err e;
	int rc;

	if (!t || c->turn.metrics_flying)
		return;
	c->turn.metrics = NULL;
	if (!t->n) {
		turn_release(c, t);
		return;
	}
	c->turn.metrics_flying = t;
	rc = hand_to_store(c, t, on_metrics_done, &c->turn.metrics_retry_us, &e);
	if (rc > 0)
		return;
	c->turn.metrics_flying = NULL;
	if (rc == 0)
		c->turn.metrics = t;
	else
		turn_drop(t, &e);
}

void turn_commit(struct core *c)
{
	struct turn *t;
	struct err e;
	int rc;

	if (c->life.stopping) /* the last commit may have caused more; the next hearthd handles it */
		return;
	commit_metrics(c);
	if (!c->turn.now || c->turn.flying)
		return;
	CALL_OBSERVERS(c, before_commit);
	t = c->turn.now;
	write_rows(c);
	t->n += (size_t)history_write(c, t->txn, t->n > 0);
	c->turn.now = NULL;
	if (!t->n) { /* only answers and orders without a new event */
		turn_release(c, t);
		return;
	}
	c->turn.flying = t;
	rc = hand_to_store(c, t, on_done, &c->turn.retry_us, &e);
	if (rc > 0)
		return;
	c->turn.flying = NULL;
	c->turn.now = t;
	if (rc < 0)
		CALL_OBSERVERS(c, commit_failed, &e);
}

/* ---- failure --------------------------------------------------------------------------------- */

static void on_probe(int rc, const struct err *e, void *arg)
{
	struct core *c = arg;

	c->turn.probing = 0;
	if (c->life.stopping)
		return;
	if (rc == 0)
		CALL_OBSERVERS(c, store_recovered);
	else if (e)
		c->life.fail_err = *e;
}

static void probe_store(struct core *c)
{
	struct store_txn *txn = store_txn_new();
	char at[CLOCK_RFC3339_SIZE];
	struct err e;

	clock_rfc3339(now_real(c), at);
	store_txn_setting(txn, "probe", at);
	c->turn.probe_us = now_boot(c) + PROBE_US;
	if (c->io.commit(txn, on_probe, c, c->io.arg, &e) == 0)
		c->turn.probing = 1;
	else
		store_txn_free(txn);
}

void turn_tick(struct core *c)
{
	uint64_t now = now_boot(c);

	if (c->life.failing && !c->turn.probing && now >= c->turn.probe_us)
		probe_store(c);
	if ((c->turn.retry_us && now >= c->turn.retry_us) ||
	    (c->turn.metrics_retry_us && now >= c->turn.metrics_retry_us))
		turn_commit(c);
}

uint64_t turn_next_us(const struct core *c)
{
	uint64_t at = UINT64_MAX;

	if (c->life.failing && !c->turn.probing)
		at = c->turn.probe_us;
	if (c->turn.retry_us && c->turn.retry_us < at)
		at = c->turn.retry_us;
	if (c->turn.metrics_retry_us && c->turn.metrics_retry_us < at)
		at = c->turn.metrics_retry_us;
	return at;
}
