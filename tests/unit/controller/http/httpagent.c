#include "tests/unit/controller/http/httpagent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/net/peer.h"
#include "common/os/chan.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "tests/lib/tap.h"

struct got {
	uint16_t type;
	uint64_t id;
	void *msg;
	struct got *next;
};

struct hagent {
	pthread_t thread;
	struct loop *loop;
	struct chan *orders;
	struct peer *peer;
	char node[64], *url, *ca, *cert, *key;
	uint8_t role;
	_Atomic int state; /* 1 open, -1 closed */
	_Atomic uint64_t session;
	char why[512];
	enum err_code code;
	pthread_mutex_t lock; /* of the messages that came */
	struct got *first, **last;
};

struct order {
	struct hagent *a;
	uint16_t type;
	void *msg;
	uint64_t id;
	int what; /* 0 send, 1 dial, 2 stop, 3 hold, 4 go on */
	sem_t done;
	int busy;
};

static char *path_of(struct hkit *k, const char *node, const char *what)
{
	return xasprintf("%s/%s.%s", hkit_dir(k), node, what);
}

void hagent_row(struct hkit *k, const char *node, uint64_t id, const char *state, const char *fingerprint)
{
	struct store_txn *t = store_txn_new();
	struct node_row row = {.id = id,
	                       .name = (char *)(uintptr_t)node,
	                       .address = (char *)"",
	                       .state = (char *)(uintptr_t)state,
	                       .reason = (char *)"",
	                       .cert_fingerprint = (char *)(uintptr_t)fingerprint,
	                       .inventory = (char *)"{}",
	                       .joined_us = 1};

	store_txn_node(t, &row);
	hkit_commit(k, t);
}

void hagent_join_as(struct hkit *k, const char *node, uint64_t id, const char *state)
{
	char *key = path_of(k, node, "key"), *cert = path_of(k, node, "pem"), *csr = NULL, *pem, fingerprint[33];
	struct err e;

	if (tls_make_key_csr(key, node, &csr, &e) < 0)
		tap_bail("%s", e.text);
	pem = tls_ca_sign_csr(hkit_ca(k), csr, node, 10, &e);
	if (!pem || fs_write_atomic(cert, pem, strlen(pem), 0600, &e) < 0 ||
	    tls_fingerprint(pem, fingerprint, &e) < 0)
		tap_bail("%s", e.text);
	hagent_row(k, node, id, state, fingerprint);
	free(pem);
	free(csr);
	free(key);
	free(cert);
}

void hagent_join(struct hkit *k, const char *node, uint64_t id)
{
	hagent_join_as(k, node, id, "up");
}

static void on_open(struct peer *p, const struct wm_welcome *w, void *arg)
{
	struct hagent *a = arg;

	(void)p;
	atomic_store(&a->session, w->session);
	atomic_store(&a->state, 1);
}

static void on_msg(struct peer *p, uint16_t type, uint64_t id, void *msg, void *arg)
{
	struct hagent *a = arg;
	struct got *g = xcalloc(1, sizeof(*g));

	(void)p;
	g->type = type;
	g->id = id;
	g->msg = msg;
	pthread_mutex_lock(&a->lock);
	*a->last = g;
	a->last = &g->next;
	pthread_mutex_unlock(&a->lock);
}

static void on_close(struct peer *p, const struct err *why, void *arg)
{
	struct hagent *a = arg;

	(void)p;
	snprintf(a->why, sizeof(a->why), "%s", why->text);
	a->code = why->code;
	atomic_store(&a->state, -1);
}

static const struct peer_ops ops = {.on_open = on_open, .on_msg = on_msg, .on_close = on_close};

static void on_order(void *msg, void *arg)
{
	struct order *o = msg;
	struct hagent *a = arg;
	struct peer_dial d = {.url = a->url,
	                      .ca_pem = a->ca,
	                      .node = a->node,
	                      .cert_path = a->cert,
	                      .key_path = a->key,
	                      .role = a->role,
	                      .instance = 1,
	                      .out_limit = 8u << 20};
	struct err e;

	o->busy = 0;
	if (o->what == 1) {
		a->peer = peer_dial(a->loop, &d, &ops, a, &e);
		if (!a->peer) {
			snprintf(a->why, sizeof(a->why), "%s", e.text);
			atomic_store(&a->state, -1);
		}
	} else if (o->what == 2) {
		peer_destroy(a->peer);
		loop_stop(a->loop);
	} else if (o->what >= 3) {
		peer_hold(a->peer, o->what == 3);
	} else if (atomic_load(&a->state) == 1) {
		o->busy = peer_send(a->peer, o->type, o->msg, o->id, &e) < 0 && e.code == ERR_BUSY;
	}
	sem_post(&o->done);
}

static void send_order(struct hagent *a, struct order *o)
{
	do {
		if (o->busy)
			poll(NULL, 0, 1);
		sem_init(&o->done, 0, 0);
		chan_send_wait(a->orders, o);
		while (sem_wait(&o->done) < 0 && errno == EINTR)
			;
		sem_destroy(&o->done);
	} while (o->busy);
}

static void *run_loop(void *arg)
{
	struct hagent *a = arg;

	loop_run(a->loop);
	return NULL;
}

struct hagent *hagent_dial(struct hkit *k, const char *node, uint8_t role)
{
	struct hagent *a = xcalloc(1, sizeof(*a));
	struct order o = {.what = 1};

	a->url = xstrdup(hkit_url(k));
	a->ca = xstrdup(tls_ca_pem(hkit_ca(k)));
	a->cert = path_of(k, node, "pem");
	a->key = path_of(k, node, "key");
	a->role = role;
	snprintf(a->node, sizeof(a->node), "%s", node);
	a->last = &a->first;
	pthread_mutex_init(&a->lock, NULL);
	a->loop = loop_create();
	a->orders = chan_create(a->loop, 16, 0, on_order, a);
	pthread_create(&a->thread, NULL, run_loop, a);
	send_order(a, &o);
	return a;
}

static int wait_state(struct hagent *a, int want, unsigned timeout_ms)
{
	uint64_t end = hkit_now_us() + timeout_ms * 1000ull;

	while (atomic_load(&a->state) != want && atomic_load(&a->state) >= 0 && hkit_now_us() < end)
		poll(NULL, 0, 1);
	return atomic_load(&a->state);
}

int hagent_wait_open(struct hagent *a, unsigned timeout_ms)
{
	return wait_state(a, 1, timeout_ms);
}

int hagent_wait_closed(struct hagent *a, unsigned timeout_ms)
{
	return wait_state(a, -1, timeout_ms) == -1;
}

enum err_code hagent_code(struct hagent *a)
{
	return a->code;
}

const char *hagent_why(struct hagent *a)
{
	return a->why;
}

uint64_t hagent_session(struct hagent *a)
{
	return atomic_load(&a->session);
}

void hagent_send(struct hagent *a, uint16_t type, const void *msg, uint64_t id)
{
	struct order o = {.type = type, .msg = (void *)(uintptr_t)msg, .id = id};

	send_order(a, &o);
}

void hagent_log(struct hagent *a, uint64_t job, const char *stream, uint64_t offset, const char *text,
                int eof)
{
	uint64_t now = clock_real_us(clock_real());
	uint8_t rec[16] = {0};
	struct wm_log_data d = {.job = job,
	                        .attempt = 1,
	                        .epoch = 1,
	                        .stream = (char *)(uintptr_t)stream,
	                        .offset = offset,
	                        .data = {(uint8_t *)(uintptr_t)text, (uint32_t)strlen(text)},
	                        .eof = (uint8_t)eof};
	int i;

	for (i = 0; i < 8; i++)
		rec[4 + i] = (uint8_t)(now >> (56 - 8 * i));
	rec[15] = 1;
	if (*text) {
		d.rec.data = rec;
		d.rec.n = 16;
	}
	hagent_send(a, WM_LOG_DATA, &d, 0);
}

void *hagent_expect(struct hagent *a, uint16_t type, uint64_t *id, unsigned timeout_ms)
{
	uint64_t end = hkit_now_us() + timeout_ms * 1000ull;

	for (;;) {
		struct got *g;
		void *msg;

		pthread_mutex_lock(&a->lock);
		g = a->first;
		if (g) {
			a->first = g->next;
			if (!a->first)
				a->last = &a->first;
		}
		pthread_mutex_unlock(&a->lock);
		if (!g) {
			if (hkit_now_us() > end)
				return NULL;
			poll(NULL, 0, 1);
			continue;
		}
		msg = g->msg;
		if (id)
			*id = g->id;
		if (g->type != type) {
			wire_free(g->type, msg);
			msg = NULL;
		}
		free(g);
		if (msg)
			return msg;
	}
}

void hagent_hold(struct hagent *a, int hold)
{
	struct order o = {.what = hold ? 3 : 4};

	send_order(a, &o);
}

void hagent_close(struct hagent *a)
{
	struct order o = {.what = 2};
	struct got *g;

	send_order(a, &o);
	pthread_join(a->thread, NULL);
	while ((g = a->first)) {
		a->first = g->next;
		wire_free(g->type, g->msg);
		free(g);
	}
	chan_destroy(a->orders, NULL);
	loop_run_once(a->loop, 0);
	loop_destroy(a->loop);
	pthread_mutex_destroy(&a->lock);
	free(a->url);
	free(a->ca);
	free(a->cert);
	free(a->key);
	free(a);
}
