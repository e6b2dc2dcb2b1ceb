/*
 * data_link: see data_link.h. Calls of threads: data_link_blob.c.
 */
#include "agent/link/data_link.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/net/peer.h"

#define uthash_fatal(msg) abort()
#include <uthash.h>

#define OUT_LIMIT      (16u * 1024 * 1024)
#define LOG_QUEUE      (OUT_LIMIT / 4) /* logs wait above it, so that answers to threads are not far behind */
#define REQUESTS_MAX   1024
#define WORKERS_END_MS 10000
#define STEADY_US      10000000u /* a connection that lived so long was none that came to nothing */
#define STALE_US       1000000u  /* one that has been dialled for so long began when nobody was there */

struct data_link_sub {
	struct data_link *b;
	char *key; /* job.attempt/stream, or job.attempt */
	struct data_link_sub_ops ops;
	void *arg;
	uint64_t acked, sent; /* stream offsets */
	int refused;
	UT_hash_handle hh;
};

struct request {
	struct data_link *b;
	uint64_t id;
	uint16_t type;
	void *msg;
	int sent;
	data_link_reply_fn fn;
	void *arg;
	struct loop_timer *deadline;
	UT_hash_handle hh;
};

struct data_link {
	struct agent_env *env;
	char *ca_pem, *cert_path, *key_path;
	struct peer *peer;
	int up;
	int hurry;         /* the present dial fails: again at once */
	unsigned failures; /* connections in a row that came to nothing */
	uint64_t dialled_us, opened_us;
	struct loop_timer *redial;
	struct request *requests;
	struct data_link_sub *subs;
	uint64_t next_id, unacked;
	struct workers *pools[N_DATA_LINK_POOLS];
	struct log_limit complaints;
	int ending;
	const struct data_link_sub *turn; /* who was served first last time */
};

static void dial_controller(void *arg);

/* ---- requests ------------------------------------------------------------------------------------------ */

static uint16_t answer_of(uint16_t type)
{
	switch (type) {
	case WM_BLOB_GET:
		return WM_BLOB_DATA;
	case WM_BLOB_HAVE:
		return WM_BLOB_MISSING;
	case WM_BLOB_PUT:
		return WM_BLOB_OK;
	default:
		return 0;
	}
}

static void finish_request(struct request *r, int rc, uint16_t type, void *reply, const struct err *e)
{
	data_link_reply_fn fn = r->fn;
	void *arg = r->arg;

	HASH_DEL(r->b->requests, r);
	loop_timer_destroy(r->deadline);
	wire_free(r->type, r->msg);
	free(r);
	fn(rc, type, reply, e, arg);
}

static void send_request(struct request *r)
{
	struct err e;

	if (!r->b->up || r->sent)
		return;
	if (peer_send(r->b->peer, r->type, r->msg, r->id, &e) == 0)
		r->sent = 1;
	else if (e.code != ERR_BUSY && e.code != ERR_UNAVAILABLE)
		finish_request(r, -1, 0, NULL, &e); /* it cannot be encoded: too large */
}

static void send_requests(struct data_link *b)
{
	struct request *r, *tmp;

	HASH_ITER (hh, b->requests, r, tmp)
		send_request(r);
}

static void too_late(void *arg)
{
	struct request *r = arg;
	struct err e;

	err_set(&e, ERR_TIMEOUT, "%s: no answer from the controller%s", wire_name(r->type),
	        r->b->up ? "" : " (not connected)");
	finish_request(r, -1, 0, NULL, &e);
}

void data_link_request(struct data_link *b, uint16_t type, const void *msg, uint32_t timeout_ms,
                       data_link_reply_fn fn, void *arg)
{
	struct request *r;
	struct err e;

	assert(answer_of(type));
	if (b->ending || HASH_COUNT(b->requests) >= REQUESTS_MAX) {
		err_set(&e, b->ending ? ERR_UNAVAILABLE : ERR_BUSY,
		        b->ending ? "the agent ends" : "too many questions to the controller");
		fn(-1, 0, NULL, &e, arg);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	*r = (struct request){
	    .b = b, .id = ++b->next_id, .type = type, .msg = wire_copy(type, msg), .fn = fn, .arg = arg};
	r->deadline = loop_timer_create(b->env->loop, too_late, r);
	loop_timer_arm(r->deadline, (uint64_t)timeout_ms * 1000);
	HASH_ADD(hh, b->requests, id, sizeof(r->id), r);
	send_request(r);
}

static void take_answer(struct data_link *b, uint16_t type, uint64_t id, void *msg)
{
	struct request *r;

	HASH_FIND(hh, b->requests, &id, sizeof(id), r);
	if (!r || answer_of(r->type) != type) {
		wire_free(type, msg); /* to a question whose deadline has passed */
		return;
	}
	finish_request(r, 0, type, msg, NULL);
}

/* ---- subscribers ----------------------------------------------------------------------------------------
 */

static char *key_of(uint64_t job, uint32_t attempt, const char *stream)
{
	return stream ? xasprintf("%" PRIu64 ".%u/%s", job, attempt, stream)
	              : xasprintf("%" PRIu64 ".%u", job, attempt);
}

static struct data_link_sub *find_sub(struct data_link *b, uint64_t job, uint32_t attempt, const char *stream)
{
	cleanup_free char *key = key_of(job, attempt, stream);
	struct data_link_sub *s;

	HASH_FIND_STR(b->subs, key, s);
	return s;
}

struct data_link_sub *data_link_subscribe(struct data_link *b, uint64_t job, uint32_t attempt,
                                          const char *stream, const struct data_link_sub_ops *ops, void *arg)
{
	struct data_link_sub *s = xcalloc(1, sizeof(*s));

	assert(!find_sub(b, job, attempt, stream));
	*s = (struct data_link_sub){.b = b, .key = key_of(job, attempt, stream), .ops = *ops, .arg = arg};
	HASH_ADD_KEYPTR(hh, b->subs, s->key, strlen(s->key), s);
	return s;
}

static void release_window(struct data_link_sub *s)
{
	s->b->unacked -= s->sent - s->acked;
	s->acked = s->sent;
}

void data_link_unsubscribe(struct data_link_sub *s)
{
	if (!s)
		return;
	release_window(s);
	if (s->b->turn == s)
		s->b->turn = NULL;
	HASH_DEL(s->b->subs, s);
	free(s->key);
	free(s);
}

int data_link_is_up(const struct data_link *b)
{
	return b->up;
}

static int refuse_sub(struct data_link_sub *s, struct err *e)
{
	s->refused = 1;
	return err_set(e, ERR_BUSY, "no room");
}

int data_link_send_log(struct data_link_sub *s, const struct wm_log_data *m, struct err *e)
{
	struct data_link *b = s->b;
	uint64_t base;

	if (!b->up)
		return err_set(e, ERR_UNAVAILABLE, "not connected");
	/* Nothing under way: the count starts here. Sent again, it may lie behind what was sent before. */
	base = s->sent == s->acked ? m->offset : s->acked;
	if (peer_queued(b->peer) > LOG_QUEUE || m->offset + m->data.n - base > DATA_LINK_STREAM_WINDOW ||
	    b->unacked > DATA_LINK_TOTAL_WINDOW)
		return refuse_sub(s, e);
	if (peer_send(b->peer, WM_LOG_DATA, m, 0, e) < 0)
		return e->code == ERR_BUSY ? refuse_sub(s, e) : -1;
	if (s->sent == s->acked)
		s->sent = s->acked = m->offset;
	b->unacked += m->offset + m->data.n - s->sent;
	s->sent = m->offset + m->data.n;
	return 0;
}

int data_link_send_metrics(struct data_link_sub *s, const struct wm_metrics *m, struct err *e)
{
	struct data_link *b = s->b;

	if (!b->up)
		return err_set(e, ERR_UNAVAILABLE, "not connected");
	if (peer_queued(b->peer) > LOG_QUEUE)
		return refuse_sub(s, e);
	if (peer_send(b->peer, WM_METRICS, m, 0, e) < 0)
		return e->code == ERR_BUSY ? refuse_sub(s, e) : -1;
	return 0;
}

/* Everybody who was refused, beginning with another one each time, so that none starves. Callbacks may
 * unsubscribe themselves and others: the list is read again after each. */
static void give_room(struct data_link *b)
{
	struct data_link_sub *s, *first = NULL, *after = NULL, *pick;
	int seen_turn;

	for (unsigned guard = HASH_COUNT(b->subs); b->up && guard > 0; guard--) {
		if (peer_queued(b->peer) > LOG_QUEUE || b->unacked > DATA_LINK_TOTAL_WINDOW)
			return;
		first = after = NULL;
		seen_turn = 0;
		for (s = b->subs; s; s = s->hh.next) {
			if (s->refused && !first)
				first = s;
			if (s->refused && seen_turn && !after)
				after = s;
			seen_turn |= s == b->turn;
		}
		pick = after ? after : first;
		if (!pick)
			return;
		b->turn = pick;
		pick->refused = 0;
		pick->ops.room(pick->arg);
	}
}

static void on_log_ack(struct data_link *b, const struct wm_log_ack *m)
{
	struct data_link_sub *s = find_sub(b, m->job, m->attempt, m->stream);

	if (!s)
		return;
	if (m->offset > s->acked && m->offset <= s->sent) {
		b->unacked -= m->offset - s->acked;
		s->acked = m->offset;
		b->failures = 0;
	} else if (m->offset > s->sent) { /* it has more than we know of: another life of this agent sent it */
		release_window(s);
	}
	s->ops.log_ack(m->offset, s->arg);
	give_room(b);
}

/* ---- connection ------------------------------------------------------------------------------------------
 */

static void on_open(struct peer *p, const struct wm_welcome *welcome, void *arg)
{
	struct data_link *b = arg;
	struct data_link_sub *s;
	struct strv keys = {0};

	(void)p;
	(void)welcome;
	log_info("event=bulk_open failures=%u", b->failures);
	b->up = 1;
	b->hurry = 0;
	b->opened_us = clock_boot_us(b->env->clock);
	send_requests(b);
	/* By name: a subscriber may unsubscribe itself and others in this call. */
	for (s = b->subs; s; s = s->hh.next) {
		s->acked = s->sent = 0;
		s->refused = 0;
		strv_add(&keys, s->key);
	}
	b->unacked = 0;
	for (size_t i = 0; i < keys.n && b->up; i++) {
		HASH_FIND_STR(b->subs, keys.v[i], s);
		if (s)
			s->ops.up(s->arg);
	}
	strv_fini(&keys);
}

/* A piece of a blob was taken, or came: the connection is of use. */
static int has_carried(uint16_t type, const void *msg)
{
	return (type == WM_BLOB_OK && !((const struct wm_blob_ok *)msg)->code) ||
	       (type == WM_BLOB_DATA && !((const struct wm_blob_data *)msg)->code);
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct data_link *b = arg;
	const struct wm_metrics_ack *m = msg;
	struct data_link_sub *s;

	(void)p;
	switch (type) {
	case WM_LOG_ACK:
		on_log_ack(b, msg);
		break;
	case WM_METRICS_ACK:
		s = find_sub(b, m->job, m->attempt, NULL);
		if (s) {
			b->failures = 0;
			s->ops.metrics_ack(m->seq, s->arg);
		}
		break;
	case WM_BLOB_DATA:
	case WM_BLOB_MISSING:
	case WM_BLOB_OK:
		if (has_carried(type, msg))
			b->failures = 0;
		take_answer(b, type, id, msg);
		send_requests(b);
		return;
	default:
		break;
	}
	wire_free(type, msg);
}

static void dial_later(struct data_link *b)
{
	uint32_t ms = peer_backoff_ms(++b->failures);

	if (b->hurry)
		ms = peer_backoff_ms(1);
	b->hurry = 0;
	loop_timer_arm(b->redial, (uint64_t)ms * 1000);
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	struct data_link *b = arg;
	struct request *r, *tmp;
	unsigned held;

	(void)p;
	if (b->up && clock_boot_us(b->env->clock) - b->opened_us >= STEADY_US)
		b->failures = 0;
	if (log_limit_ok(&b->complaints, clock_boot_us(b->env->clock), &held))
		log_warn("event=bulk_closed failures=%u suppressed=%u reason=\"%s\"", b->failures, held, why->text);
	b->up = 0;
	peer_destroy(b->peer);
	b->peer = NULL;
	HASH_ITER (hh, b->requests, r, tmp)
		r->sent = 0;
	dial_later(b);
}

static void on_drain(struct peer *p, void *arg)
{
	struct data_link *b = arg;

	(void)p;
	send_requests(b);
	give_room(b);
}

static void dial_controller(void *arg)
{
	static const struct peer_ops ops = {
	    .on_open = on_open, .on_msg = on_msg, .on_close = on_close, .on_drain = on_drain};
	struct data_link *b = arg;
	struct peer_dial d = {.url = b->env->cfg.controller,
	                      .ca_pem = b->ca_pem,
	                      .node = b->env->cfg.node,
	                      .cert_path = b->cert_path,
	                      .key_path = b->key_path,
	                      .role = ROLE_BULK,
	                      .instance = b->env->instance,
	                      .out_limit = OUT_LIMIT};
	struct err e;

	b->dialled_us = clock_boot_us(b->env->clock);
	b->peer = peer_dial(b->env->loop, &d, &ops, b, &e);
	if (b->peer)
		return;
	log_warn("event=bulk_dial_failed reason=\"%s\"", e.text);
	dial_later(b);
}

void data_link_dial_now(struct data_link *b)
{
	if (!b || b->up || b->ending)
		return;
	if (b->peer && clock_boot_us(b->env->clock) - b->dialled_us < STALE_US) {
		b->hurry = 1;
		return;
	}
	peer_destroy(b->peer);
	b->peer = NULL;
	loop_timer_arm(b->redial, 0);
}

/* ---- life ------------------------------------------------------------------------------------------------
 */

/* A launch has at most one task in each, so the queues hold more launches than a node runs. Staging and
 * uploads wait as long as others are at work; a quarter of the threads is all that one account can keep from
 * others. A launch may have many removals, so these have such a bound of their queue, too. */
static const struct {
	const char *what;
	struct workers_limits limits;
} pools[N_DATA_LINK_POOLS] = {
    [POOL_STAGING] = {"staging", {.threads = 64, .queue = 1024, .per_owner = 16}},
    [POOL_UPLOADS] = {"uploads", {.threads = 64, .queue = 1024, .per_owner = 16}},
    [POOL_KEEPERS] = {"checkpoints", {.threads = 256, .queue = 1024, .per_owner = 192}},
    [POOL_COPIES] = {"copies of checkpoints", {.threads = 16, .queue = 1024, .per_owner = 4}},
    [POOL_REMOVALS] = {"removals of checkpoints",
                       {.threads = 16, .queue = 1024, .per_owner = 4, .owner_queue = 256}},
    /* A directory service that hangs keeps its threads; their number bounds what hangs. */
    [POOL_ACCOUNTS] = {"account look-ups", {.threads = 16, .queue = 1024, .wait_ms = 30000}},
    [POOL_INFO] = {"package lists", {.threads = 4, .queue = 1024, .wait_ms = 60000}},
};

struct data_link *data_link_create(struct agent_env *env, const char *ca_pem, const char *cert_path,
                                   const char *key_path)
{
	struct data_link *b = xcalloc(1, sizeof(*b));

	b->env = env;
	b->ca_pem = xstrdup(ca_pem);
	b->cert_path = xstrdup(cert_path);
	b->key_path = xstrdup(key_path);
	b->complaints.per_minute = 6;
	b->redial = loop_timer_create(env->loop, dial_controller, b);
	for (int i = 0; i < N_DATA_LINK_POOLS; i++)
		b->pools[i] = workers_create_pool(env->loop, &pools[i].limits);
	if (env->cfg.controller)
		dial_controller(b);
	return b;
}

void data_link_destroy(struct data_link *b)
{
	struct request *r, *tmp;
	struct err e;

	if (!b)
		return;
	b->ending = 1;
	b->up = 0;
	err_set(&e, ERR_UNAVAILABLE, "the agent ends");
	HASH_ITER (hh, b->requests, r, tmp)
		finish_request(r, -1, 0, NULL, &e);
	for (int i = 0; i < N_DATA_LINK_POOLS; i++)
		workers_destroy(b->pools[i], WORKERS_END_MS);
	while (b->subs)
		data_link_unsubscribe(b->subs);
	loop_timer_destroy(b->redial);
	peer_destroy(b->peer);
	free(b->ca_pem);
	free(b->cert_path);
	free(b->key_path);
	free(b);
}

struct workers *data_link_workers(struct data_link *b, enum data_link_pool pool)
{
	return b->pools[pool];
}

int data_link_late(enum data_link_pool pool, struct err *e)
{
	const struct workers_limits *l = &pools[pool].limits;

	return err_set(e, ERR_BUSY,
	               "this node was busy: none of its %u threads for %s was free within %u s; wait until other "
	               "jobs there are through, or use another node",
	               l->threads, pools[pool].what, l->wait_ms / 1000);
}
