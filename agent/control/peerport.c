/*
 * peerport: see peerport.h. A question has a deadline and up to TRIES_MAX connections, one after the other
 * and side by side; the first answer counts.
 */
#include "agent/control/peerport.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/control/peerdoor.h"
#include "agent/control/peerframe.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/net/tls.h"

#define TRIES_MAX      8u
#define AGAIN_MS       20u /* after the first try that failed, then twice as long each time */
#define AGAIN_MAX_MS   160u
#define SILENT_SHARE   4u /* a try that is silent for that part of the time gets company */
#define PRIVILEGED_LO  600u
#define PRIVILEGED_HI  1023u
#define PRIVILEGED_TRY 8u /* ports */

struct
try {
	struct peer_question *q;
	struct bufferevent *bev; /* NULL: not begun, or over */
};

struct peer_question {
	struct peerport *port;
	struct loop_timer *timer; /* the next try, or the end */
	char *name;               /* who must answer */
	struct sockaddr_storage to;
	int to_len;
	struct try tries[TRIES_MAX];
	unsigned n_tries, n_failed;
	int met; /* a connection stood */
	uint64_t until_us, next_us, patience_us;
	struct wm_peer_look *look; /* the question; NULL: whether it hears hearthd */
	peer_reply_fn done;
	peer_seen_fn seen;
	void *arg;
};

struct peerport {
	struct agent_env *env;
	SSL_CTX *client; /* made once: a question is asked when there is no time to read files */
	struct peerdoor *door;
};

/* ---- life ------------------------------------------------------------------------------------------- */

struct peerport *peerport_create(struct agent_env *env, const struct agent_identity *identity, struct err *e)
{
	struct peerport *p = xcalloc(1, sizeof(*p));

	p->env = env;
	p->client = tls_client_ctx(identity->ca_pem, identity->cert_path, identity->key_path, e);
	p->door = p->client ? peerdoor_open(env, identity, e) : NULL;
	if (p->door)
		return p;
	peerport_destroy(p);
	return NULL;
}

void peerport_destroy(struct peerport *p)
{
	if (!p)
		return;
	peerdoor_close(p->door);
	SSL_CTX_free(p->client);
	free(p);
}

uint32_t peerport_number(const struct peerport *p)
{
	return peerdoor_number(p->door);
}

void peerport_publish(struct peerport *p, const struct lease *l)
{
	peerdoor_publish(p->door, l);
}

void peerport_know(struct peerport *p, const struct strv *peers)
{
	peerdoor_know(p->door, peers);
}

void peerport_launches(struct peerport *port, struct presence *p)
{
	peerdoor_launches(port->door, p);
}

void peerport_retire(struct peerport *p, const struct strv *fingerprints)
{
	peerdoor_retire(p->door, fingerprints);
}

/* ---- a try ------------------------------------------------------------------------------------------ */

static uint64_t now_us(const struct peer_question *q)
{
	return clock_boot_us(q->port->env->clock);
}

void peer_question_cancel(struct peer_question *q)
{
	if (!q)
		return;
	for (unsigned i = 0; i < q->n_tries; i++)
		if (q->tries[i].bev)
			bufferevent_free(q->tries[i].bev);
	loop_timer_destroy(q->timer);
	wire_free(WM_PEER_LOOK, q->look);
	free(q->name);
	free(q);
}

static void question_end(struct peer_question *q, const void *m)
{
	enum peer_sight sight = m ? SIGHT_ANSWERED : q->met ? SIGHT_SILENT : SIGHT_AWAY;
	peer_reply_fn done = q->done;
	peer_seen_fn seen = q->seen;
	void *arg = q->arg;

	peer_question_cancel(q);
	if (seen)
		seen(m, sight, arg);
	else
		done(m, sight, arg);
}

static int is_connected(struct bufferevent *bev)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);

	return getpeername(bufferevent_getfd(bev), (struct sockaddr *)&ss, &n) == 0;
}

static void arm_timer(struct peer_question *q)
{
	uint64_t now = now_us(q);
	uint64_t at = q->n_tries < TRIES_MAX && q->next_us < q->until_us ? q->next_us : q->until_us;

	loop_timer_arm(q->timer, at > now ? at - now : 0);
}

static int is_unreachable(int code)
{
	return code == ECONNREFUSED || code == EHOSTUNREACH || code == ENETUNREACH || code == ETIMEDOUT;
}

/* A reset or an end after the connection stood: something is there. Refused, or no route: nobody is. */
static void try_failed(struct try *t, short what)
{
	struct peer_question *q = t->q;
	uint64_t again_us = (uint64_t)AGAIN_MS * 1000 << (q->n_failed < 4 ? q->n_failed : 4);
	int code = EVUTIL_SOCKET_ERROR();

	if (again_us > AGAIN_MAX_MS * 1000)
		again_us = AGAIN_MAX_MS * 1000;
	if (!is_unreachable(code) && ((what & BEV_EVENT_EOF) || code == ECONNRESET || is_connected(t->bev) ||
	                              bufferevent_get_openssl_error(t->bev)))
		q->met = 1;
	bufferevent_free(t->bev);
	t->bev = NULL;
	q->n_failed++;
	if (now_us(q) + again_us < q->next_us)
		q->next_us = now_us(q) + again_us;
	arm_timer(q);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct try *t = arg;
	struct wm_peer_ask ask = {.node = t->q->port->env->cfg.node};
	char name[PEERFRAME_NAME_SIZE];

	loop_enter(t->q->port->env->loop);
	if (!(what & BEV_EVENT_CONNECTED)) {
		try_failed(t, what);
	} else if (peerframe_name(bev, name) < 0 || strcmp(name, t->q->name) != 0) {
		log_warn("event=peer_wrong_name asked=%s", t->q->name);
		try_failed(t, what);
	} else if (t->q->look) {
		peerframe_put(bev, WM_PEER_LOOK, t->q->look);
	} else {
		peerframe_put(bev, WM_PEER_ASK, &ask);
	}
}

static void on_answer(struct bufferevent *bev, void *arg)
{
	struct try *t = arg;
	uint16_t type = t->q->look ? WM_PEER_SEEN : WM_PEER_ANSWER;
	void *msg = NULL;
	int rc;

	loop_enter(t->q->port->env->loop);
	rc = peerframe_take(bev, type, &msg);
	if (rc < 0)
		try_failed(t, BEV_EVENT_EOF);
	if (rc <= 0)
		return;
	question_end(t->q, msg);
	wire_free(type, msg);
}

/* A port that programs of users cannot bind sets this agent apart from them (places.h). Every second try has
 * an ordinary one: a filter between may refuse the others. -1: any port will do. */
static int privileged_socket(const struct peer_question *q)
{
	struct sockaddr_storage from = {.ss_family = q->to.ss_family};
	uint32_t span = PRIVILEGED_HI - PRIVILEGED_LO + 1, at;
	int fd, one = 1;

	if (!q->port->env->is_root || q->n_tries % 2 == 1)
		return -1;
	fd = socket(from.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	random_bytes(&at, sizeof(at));
	for (unsigned i = 0; i < PRIVILEGED_TRY; i++) {
		in_port_t port = htons((in_port_t)(PRIVILEGED_LO + (at + i * 61) % span));

		if (from.ss_family == AF_INET6)
			((struct sockaddr_in6 *)&from)->sin6_port = port;
		else
			((struct sockaddr_in *)&from)->sin_port = port;
		if (bind(fd, (struct sockaddr *)&from, (socklen_t)q->to_len) == 0)
			return fd;
	}
	close(fd);
	return -1;
}

static int try_begin(struct peer_question *q)
{
	struct try *t = &q->tries[q->n_tries];
	SSL *ssl = SSL_new(q->port->client);
	int fd;

	if (!ssl) {
		log_error("event=peer_tls reason=\"no memory\"");
		return -1;
	}
	fd = privileged_socket(q);
	/* The other end shows an agent's certificate, which is made for clients. */
	X509_VERIFY_PARAM_set_purpose(SSL_get0_param(ssl), X509_PURPOSE_SSL_CLIENT);
	t->q = q;
	t->bev =
	    bufferevent_openssl_socket_new(loop_base(q->port->env->loop), fd, ssl, BUFFEREVENT_SSL_CONNECTING,
	                                   BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (!t->bev) {
		SSL_free(ssl);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	q->n_tries++;
	q->next_us = now_us(q) + q->patience_us;
	bufferevent_setcb(t->bev, on_answer, NULL, on_event, t);
	bufferevent_enable(t->bev, EV_READ | EV_WRITE);
	if (bufferevent_socket_connect(t->bev, (struct sockaddr *)&q->to, q->to_len) < 0)
		try_failed(t, 0); /* no route, no port: without an event */
	return 0;
}

/* ---- a question --------------------------------------------------------------------------------------- */

static void on_timer(void *arg)
{
	struct peer_question *q = arg;

	if (now_us(q) < q->until_us) {
		if (now_us(q) >= q->next_us && q->n_tries < TRIES_MAX && try_begin(q) < 0)
			q->next_us = q->until_us;
		arm_timer(q);
		return;
	}
	for (unsigned i = 0; i < q->n_tries; i++)
		if (q->tries[i].bev && is_connected(q->tries[i].bev))
			q->met = 1;
	question_end(q, NULL);
}

/* Takes q. */
static struct peer_question *question_begin(struct peer_question *q, const char *peer, uint32_t timeout_ms)
{
	const char *blank = strchr(peer, ' ');

	q->timer = loop_timer_create(q->port->env->loop, on_timer, q);
	q->to_len = sizeof(q->to);
	if (!blank || evutil_parse_sockaddr_port(blank + 1, (struct sockaddr *)&q->to, &q->to_len) < 0) {
		peer_question_cancel(q);
		return NULL;
	}
	q->name = xstrndup(peer, (size_t)(blank - peer));
	q->until_us = now_us(q) + (uint64_t)timeout_ms * 1000;
	q->patience_us = (uint64_t)timeout_ms * 1000 / SILENT_SHARE;
	if (try_begin(q) < 0) {
		peer_question_cancel(q);
		return NULL;
	}
	arm_timer(q);
	return q;
}

struct peer_question *peer_question_ask(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                        peer_reply_fn done, void *arg)
{
	struct peer_question *q = xcalloc(1, sizeof(*q));

	*q = (struct peer_question){.port = p, .done = done, .arg = arg};
	return question_begin(q, peer, timeout_ms);
}

struct peer_question *peer_question_look(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                         const struct wm_peer_look *m, peer_seen_fn done, void *arg)
{
	struct peer_question *q = xcalloc(1, sizeof(*q));

	*q = (struct peer_question){.port = p, .look = wire_copy(WM_PEER_LOOK, m), .seen = done, .arg = arg};
	return question_begin(q, peer, timeout_ms);
}
