/*
 * ask: the list of requests in work, their time limit and their answers.
 */
#include "controller/io/ask.h"

#include <string.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/http/route.h"
#include "controller/io/io.h"
#include "controller/io/state_link.h"

#define ANSWER_LIMIT_US 60000000ull /* for the state thread's answer, a commit on a slow disk included */
#define TICK_US         1000000u

struct pending {
	struct pending *prev, *next;
	struct asks *asks; /* NULL: the I/O threads are gone */
	struct call *call; /* held */
	uint64_t since_us;
	ask_fn fn;
	int status;
	cJSON *body;
	struct err e;
};

struct asks {
	struct io *io;
	struct state_link *link;
	struct chan *answers;
	struct loop_timer *tick;
	struct pending *list; /* in order of time */
	unsigned n;
};

/* ---- answers ---------------------------------------------------------------------------------- */

/* State thread. */
static void on_reply(struct request *rq, int status, cJSON *body, const struct err *e)
{
	struct pending *p = rq->io;

	request_free(rq);
	p->status = status;
	p->body = body;
	if (e)
		p->e = *e;
	if (p->asks && chan_send(p->asks->answers, p) == 0)
		return;
	/* No call waits. (The channel cannot be full: it has room for all requests that a thread may have in
	 * work.) */
	cJSON_Delete(body);
	free(p);
}

static void answer_call(struct call *c, struct io *io, int status, cJSON *body, const struct err *e)
{
	(void)io;
	if (!e) {
		call_json(c, status, body ? body : cJSON_CreateObject());
		return;
	}
	call_fail_with(c, status, e, body);
	cJSON_Delete(body);
}

static void on_answer(void *msg, void *arg)
{
	struct pending *p = msg;
	struct asks *a = arg;

	DL_DELETE(a->list, p);
	a->n--;
	if (p->call->status == 0) {
		p->fn(p->call, a->io, p->status, p->body, p->status >= 400 ? &p->e : NULL);
		p->body = NULL;
	}
	cJSON_Delete(p->body);
	call_drop(p->call);
	free(p);
}

/* An answer that came when its thread had ended. */
static void drop_answer(void *msg)
{
	struct pending *p = msg;

	DL_DELETE(p->asks->list, p);
	call_drop(p->call);
	cJSON_Delete(p->body);
	free(p);
}

/* A request that got no answer stays pending until it does: the state thread has its address. */
static void on_tick(void *arg)
{
	struct asks *a = arg;
	uint64_t now = clock_boot_us(clock_real());
	struct pending *p;

	DL_FOREACH (a->list, p) {
		if (now - p->since_us < ANSWER_LIMIT_US)
			break;
		if (p->call->status == 0)
			call_problem(p->call, 504, "look at the state before you try again",
			             "hearthd did not answer within a minute; the request may have been carried out");
	}
	loop_timer_arm(a->tick, TICK_US);
}

/* ---- requests --------------------------------------------------------------------------------- */

struct request *ask_new(struct call *c, enum request_op op, cJSON *body)
{
	struct request *rq = request_new(op);
	const char *key = call_header(c, "Idempotency-Key");
	struct hash_ctx *h;

	rq->user = xstrdup(c->who.user);
	rq->account = xstrdup(c->who.account);
	rq->account_own = c->who.account_own;
	rq->token_id = xstrdup(c->who.token_id);
	rq->token_expires_us = c->who.expires_us;
	rq->role = c->who.role;
	rq->token_job = c->who.token_job;
	rq->job = c->target_id;
	rq->body = body;
	if (key && (c->route->flags & RF_WRITE)) {
		rq->idem_key = xstrdup(key);
		h = hash_start();
		hash_add(h, c->who.user, strlen(c->who.user) + 1);
		hash_add(h, http_method_name(c->method), strlen(http_method_name(c->method)) + 1);
		hash_add(h, c->path, strlen(c->path) + 1);
		if (c->body_n)
			hash_add(h, c->body, c->body_n);
		hash_end_hex(h, rq->idem_digest);
	}
	return rq;
}

static void refuse_busy(struct call *c, struct asks *a)
{
	atomic_fetch_add(&a->link->full, 1);
	call_problem(c, 503, "try again", "hearthd is overloaded");
}

void ask_send_cb(struct call *c, struct io *io, struct request *rq, ask_fn fn)
{
	struct asks *a = io->asks;
	struct to_state *m;
	struct pending *p;

	if (rq->idem_key && (strlen(rq->idem_key) > 128 || !*rq->idem_key || str_has_control(rq->idem_key))) {
		request_free(rq);
		call_problem(c, 400, NULL, "Idempotency-Key must have 1 to 128 printable characters");
		return;
	}
	if (a->n >= ASK_MAX || atomic_load(&io->set->stopping)) {
		request_free(rq);
		refuse_busy(c, a);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->asks = a;
	p->call = call_hold(c);
	p->since_us = c->started_us;
	p->fn = fn;
	rq->reply = on_reply;
	rq->io = p;
	m = xcalloc(1, sizeof(*m));
	m->kind = TS_REQUEST;
	m->rq = rq;
	DL_APPEND(a->list, p);
	a->n++;
	if (state_link_send(a->link, m) == 0)
		return;
	DL_DELETE(a->list, p);
	a->n--;
	to_state_free(m);
	free(p);
	refuse_busy(c, a);
	call_drop(c);
}

void ask_send(struct call *c, struct io *io, struct request *rq)
{
	ask_send_cb(c, io, rq, answer_call);
}

/* State thread. */
static void drop_reply(struct request *rq, int status, cJSON *body, const struct err *e)
{
	(void)status;
	(void)e;
	cJSON_Delete(body);
	request_free(rq);
}

void ask_tell(struct io *io, struct request *rq)
{
	struct to_state *m = xcalloc(1, sizeof(*m));

	rq->reply = drop_reply;
	m->kind = TS_REQUEST;
	m->rq = rq;
	if (state_link_send(io->asks->link, m) < 0)
		to_state_free(m);
}

/* ---- life ------------------------------------------------------------------------------------- */

struct asks *asks_create(struct io *io, struct state_link *link)
{
	struct asks *a = xcalloc(1, sizeof(*a));

	a->io = io;
	a->link = link;
	a->answers = chan_create(io->loop, ASK_MAX, 0, on_answer, a);
	a->tick = loop_timer_create(io->loop, on_tick, a);
	loop_timer_arm(a->tick, TICK_US);
	return a;
}

void asks_refuse(struct asks *a)
{
	struct pending *p;

	DL_FOREACH (a->list, p) {
		if (p->call->status == 0)
			call_problem(p->call, 503, "try again",
			             "hearthd is stopping; the request may have been carried out");
	}
}

void asks_destroy(struct asks *a)
{
	struct pending *p, *tmp;

	if (!a)
		return;
	chan_destroy(a->answers, drop_answer);
	/* The state thread still has these requests, and will drop their answers. */
	DL_FOREACH_SAFE (a->list, p, tmp) {
		DL_DELETE(a->list, p);
		call_drop(p->call);
		p->call = NULL;
		p->asks = NULL;
	}
	loop_timer_destroy(a->tick);
	free(a);
}
