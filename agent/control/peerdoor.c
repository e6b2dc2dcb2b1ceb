/*
 * peerdoor: see peerdoor.h. A visitor begins as a bare descriptor. TLS starts when its first bytes are there
 * and places.h allows a handshake; until then it costs a descriptor and no computing. The certificate moves
 * it from the places for strangers to those of its node.
 */
#include "agent/control/peerdoor.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/control/peerframe.h"
#include "agent/control/places.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/tls.h"
#include "common/os/chan.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "common/os/proc.h"

#define BACKLOG      1024
#define ACCEPTS_TURN 64       /* then others have their turn */
#define NAMED_MAX    256u     /* connections that showed a certificate */
#define NAMED_EACH   4u       /* of one node */
#define STEP_US      1000000u /* for the handshake, for the question, for the end after the answer */
#define TICK_US      20000u
#define BACK_OFF_US  100000u /* without descriptors there is nothing to do but wait for some */
#define CERTS_MAX    16384

enum stage {
	ST_QUIET,   /* no byte came */
	ST_WAITING, /* the first bytes are there; no handshake may start yet */
	ST_SHAKING,
	ST_NAMED, /* it showed the certificate of a node */
	ST_ANSWERED,
};

struct visitor {
	struct peerdoor *door;
	enum stage stage;
	int fd;                /* until TLS has it */
	struct loop_fd *watch; /* until then */
	struct bufferevent *bev;
	struct place *place; /* until ST_NAMED */
	char *name;          /* from ST_NAMED on */
	uint64_t until_us;
	struct visitor *prev, *next; /* oldest first */
};

/* The addresses of known agents, on their way to the thread. */
struct addresses {
	size_t n;
	struct sockaddr_storage v[];
};

struct peerdoor {
	const struct clock *clock;
	char *node;
	char boot_id[PROC_BOOT_ID_SIZE];
	uint64_t instance;
	SSL_CTX *ctx;
	int fd;
	uint32_t number;
	pthread_t thread;
	int started;
	struct chan *stop;
	/* written by the agent's loop */
	_Atomic uint64_t ack_us;
	_Atomic uint32_t lease_ms;
	_Atomic int hears;
	struct addresses *_Atomic news;
	struct strv *_Atomic retired_news;
	struct presence *_Atomic launches_news;
	/* of the thread */
	struct loop *loop;
	struct loop_fd *watch;
	struct loop_timer *tick, *back_off;
	struct places *places;
	struct strv *retired;      /* fingerprints; NULL none */
	struct presence *launches; /* NULL unknown */
	struct visitor *visitors;
	unsigned n_named, n_dropped;
	struct log_limit complaints, strangers;
};

static uint64_t now_us(const struct peerdoor *d)
{
	return clock_boot_us(d->clock);
}

/* ---- visitors --------------------------------------------------------------------------------------- */

static void visitor_end(struct visitor *v)
{
	struct peerdoor *d = v->door;

	DL_DELETE(d->visitors, v);
	if (v->place)
		places_leave(d->places, v->place);
	else
		d->n_named--;
	loop_fd_destroy(v->watch);
	if (v->bev)
		bufferevent_free(v->bev);
	else
		close(v->fd);
	free(v->name);
	free(v);
}

static struct visitor *oldest_named(const struct peerdoor *d, const char *name)
{
	struct visitor *v;

	DL_FOREACH (d->visitors, v)
		if (!v->place && (!name || strcmp(v->name, name) == 0))
			return v;
	return NULL;
}

static unsigned count_named(const struct peerdoor *d, const char *name)
{
	struct visitor *v;
	unsigned n = 0;

	DL_FOREACH (d->visitors, v)
		n += !v->place && strcmp(v->name, name) == 0;
	return n;
}

/* Moves a visitor to the places of its node. */
static void admit_node(struct visitor *v, const char *name)
{
	struct peerdoor *d = v->door;
	struct visitor *leaves = NULL;

	if (count_named(d, name) >= NAMED_EACH)
		leaves = oldest_named(d, name);
	else if (d->n_named >= NAMED_MAX)
		leaves = oldest_named(d, NULL);
	if (leaves)
		visitor_end(leaves);
	places_leave(d->places, v->place);
	v->place = NULL;
	d->n_named++;
	v->name = xstrdup(name);
	v->stage = ST_NAMED;
	v->until_us = now_us(d) + STEP_US;
}

static void answer_fill(struct peerdoor *d, struct wm_peer_answer *m)
{
	struct lease l = {.phase = atomic_load(&d->hears) ? LEASE_HELD : LEASE_LOST,
	                  .last_ack_us = atomic_load(&d->ack_us),
	                  .lease_ms = atomic_load(&d->lease_ms),
	                  .heard = 1};

	m->node = d->node;
	m->has_controller = (uint8_t)lease_has_controller(&l, now_us(d), &m->ack_age_ms);
}

static int is_here(const struct presence *p, uint64_t job, uint32_t attempt)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].job == job && p->v[i].attempt == attempt)
			return 1;
	return 0;
}

static void answer_ask(struct visitor *v)
{
	struct wm_peer_answer m = {0};

	answer_fill(v->door, &m);
	peerframe_put(v->bev, WM_PEER_ANSWER, &m);
}

static void answer_look(struct visitor *v, const struct wm_peer_look *look)
{
	struct peerdoor *d = v->door;
	struct presence *news = atomic_exchange(&d->launches_news, NULL);
	struct wm_peer_seen m = {.node = d->node, .boot_id = d->boot_id, .instance = d->instance};

	if (news) {
		free(d->launches);
		d->launches = news;
	}
	for (uint32_t i = 0; i < look->jobs.n && i < look->attempts.n && i < NODE_ASK_LAUNCHES; i++)
		if (d->launches && d->launches->sure && !is_here(d->launches, look->jobs.v[i], look->attempts.v[i]))
			wire_u32v_add(&m.missing, i);
	peerframe_put(v->bev, WM_PEER_SEEN, &m);
	free(m.missing.v);
}

static void on_bytes(struct bufferevent *bev, void *arg)
{
	struct visitor *v = arg;
	uint16_t type;
	void *msg;
	int rc;

	loop_enter(v->door->loop);
	if (v->stage != ST_NAMED)
		return;
	rc = peerframe_next(bev, &type, &msg);
	if (rc > 0) {
		v->stage = ST_ANSWERED; /* the asker closes */
		v->until_us = now_us(v->door) + STEP_US;
		if (type == WM_PEER_ASK)
			answer_ask(v);
		else if (type == WM_PEER_LOOK)
			answer_look(v, msg);
		else
			rc = -1;
		wire_free(type, msg);
	}
	if (rc < 0)
		visitor_end(v);
}

static void strv_destroy(struct strv *v)
{
	if (v)
		strv_fini(v);
	free(v);
}

/* The node of that certificate was removed from the cluster. */
static int is_retired(struct visitor *v, const char *name)
{
	struct peerdoor *d = v->door;
	struct strv *news = atomic_exchange(&d->retired_news, NULL);
	char print[PEERFRAME_PRINT_SIZE];
	unsigned held = 0;

	if (news) {
		strv_destroy(d->retired);
		d->retired = news;
	}
	if (!d->retired || !d->retired->n)
		return 0;
	if (peerframe_print(v->bev, print) < 0)
		return 1;
	for (size_t i = 0; i < d->retired->n; i++) {
		if (strcmp(d->retired->v[i], print) != 0)
			continue;
		if (log_limit_ok(&d->strangers, now_us(d), &held))
			log_warn(
			    "event=peer_retired node=%s suppressed=%u text=\"this node was removed; its certificate is "
			    "void\"",
			    name, held);
		return 1;
	}
	return 0;
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct visitor *v = arg;
	char name[PEERFRAME_NAME_SIZE];

	loop_enter(v->door->loop);
	if (!(what & BEV_EVENT_CONNECTED) || peerframe_name(bev, name) < 0 || is_retired(v, name)) {
		visitor_end(v);
		return;
	}
	admit_node(v, name);
}

/* ---- handshakes --------------------------------------------------------------------------------------- */

static void start_tls(struct visitor *v)
{
	struct peerdoor *d = v->door;
	SSL *ssl = SSL_new(d->ctx);

	v->stage = ST_SHAKING;
	loop_fd_destroy(v->watch);
	v->watch = NULL;
	if (ssl)
		v->bev = bufferevent_openssl_socket_new(loop_base(d->loop), v->fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
		                                        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (!v->bev) {
		log_error("event=peer_tls reason=\"no memory\"");
		SSL_free(ssl);
		visitor_end(v);
		return;
	}
	bufferevent_setcb(v->bev, on_bytes, NULL, on_event, v);
	bufferevent_enable(v->bev, EV_READ | EV_WRITE);
}

/* Starts the handshakes that may start; connections that wait longest come first. */
static void start_waiting(struct peerdoor *d)
{
	struct visitor *v, *next;
	uint64_t now = now_us(d);

	DL_FOREACH_SAFE (d->visitors, v, next)
		if (v->stage == ST_WAITING && places_may_start(d->places, v->place, now))
			start_tls(v);
}

static void on_first_bytes(int fd, int what, void *arg)
{
	struct visitor *v = arg;
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		visitor_end(v);
		return;
	}
	loop_fd_set(v->watch, 0);
	v->stage = ST_WAITING;
	if (places_may_start(v->door->places, v->place, now_us(v->door)))
		start_tls(v);
}

static void end_late(struct peerdoor *d)
{
	struct visitor *v, *next;
	uint64_t now = now_us(d);

	DL_FOREACH_SAFE (d->visitors, v, next)
		if (now >= v->until_us)
			visitor_end(v);
}

static void report_dropped(struct peerdoor *d)
{
	unsigned held = 0;

	if (!d->n_dropped || !log_limit_ok(&d->complaints, now_us(d), &held))
		return;
	log_warn("event=peer_port_crowded dropped=%u waiting=%u text=\"connections without a certificate fill "
	         "the peer port; let only the cluster's machines reach it\"",
	         d->n_dropped, places_used(d->places));
	d->n_dropped = 0;
}

static void on_tick(void *arg)
{
	struct peerdoor *d = arg;

	end_late(d);
	start_waiting(d);
	report_dropped(d);
	if (d->visitors || d->n_dropped)
		loop_timer_arm(d->tick, TICK_US);
}

/* ---- coming in ---------------------------------------------------------------------------------------- */

static void take_news(struct peerdoor *d)
{
	struct addresses *a = atomic_exchange(&d->news, NULL);

	if (!a)
		return;
	places_know(d->places, a->v, a->n);
	free(a);
}

static void visitor_begin(struct peerdoor *d, int fd, const struct sockaddr *from)
{
	struct visitor *v = xcalloc(1, sizeof(*v));
	void *leaves;

	v->door = d;
	v->fd = fd;
	v->until_us = now_us(d) + STEP_US;
	v->place = places_enter(d->places, from, v, now_us(d), &leaves);
	v->watch = loop_fd_create(d->loop, fd, LOOP_READ, on_first_bytes, v);
	DL_APPEND(d->visitors, v);
	if (leaves) {
		visitor_end(leaves);
		d->n_dropped++;
	}
	if (!loop_timer_armed(d->tick))
		loop_timer_arm(d->tick, TICK_US);
}

static void on_accept(int fd, int what, void *arg)
{
	struct peerdoor *d = arg;

	(void)what;
	take_news(d);
	for (unsigned i = 0; i < ACCEPTS_TURN; i++) {
		struct sockaddr_storage from = {0};
		socklen_t n = sizeof(from);
		int s = accept4(fd, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (s >= 0) {
			visitor_begin(d, s, (struct sockaddr *)&from);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			log_warn("event=peer_accept_failed reason=\"%s\"", strerror(errno));
			loop_fd_set(d->watch, 0);
			loop_timer_arm(d->back_off, BACK_OFF_US);
		}
		return;
	}
}

static void on_back_off(void *arg)
{
	struct peerdoor *d = arg;

	loop_fd_set(d->watch, LOOP_READ);
}

/* ---- life --------------------------------------------------------------------------------------------- */

static int bind_to(struct peerdoor *d, const struct agent_config *c, uint32_t port, struct err *e)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in *v4 = (void *)&ss;
	struct sockaddr_in6 *v6 = (void *)&ss;
	socklen_t n = sizeof(ss);
	int len = sizeof(ss), one = 1;

	if (evutil_parse_sockaddr_port(c->address, (struct sockaddr *)&ss, &len) < 0)
		return err_set(e, ERR_INVALID, "--address %s is not an IP address", c->address);
	*(ss.ss_family == AF_INET6 ? &v6->sin6_port : &v4->sin_port) = htons((uint16_t)port);
	d->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0 || setsockopt(d->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(d->fd, (struct sockaddr *)&ss, (socklen_t)len) < 0 || listen(d->fd, BACKLOG) < 0 ||
	    getsockname(d->fd, (struct sockaddr *)&ss, &n) < 0)
		return err_sys(e, errno, "listen on %s, port %u, for other agents", c->address, port);
	d->number = ntohs(ss.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
	return 0;
}

/* An agent that starts again takes the port that the others know, if it is free. */
static int bind_known(struct peerdoor *d, const struct agent_config *c, struct err *e)
{
	cleanup_free char *path = c->data_dir ? xasprintf("%s/peer_port", c->data_dir) : NULL;
	cleanup_free char *text = NULL;
	char line[16];
	uint64_t port = 0;

	if (c->peer_port || !path)
		return bind_to(d, c, c->peer_port, e);
	if (fs_read_file(path, sizeof(line), &text, NULL, NULL) == 0)
		text[strcspn(text, "\n")] = '\0';
	if (!text || str_parse_u64(text, &port) < 0 || port == 0 || port > UINT16_MAX ||
	    bind_to(d, c, (uint32_t)port, NULL) < 0) {
		if (d->fd >= 0)
			close(d->fd);
		d->fd = -1;
		if (bind_to(d, c, 0, e) < 0)
			return -1;
	}
	snprintf(line, sizeof(line), "%u\n", d->number);
	if (fs_replace(path, line, strlen(line), 0600, NULL) < 0)
		log_warn("event=peer_port_not_saved path=%s", path);
	return 0;
}

/* A stranger chooses what the server computes: only the two cheap groups, a short chain, no tickets. */
static int tls_for(struct peerdoor *d, const struct agent_identity *identity, struct err *e)
{
	d->ctx = tls_server_ctx(identity->cert_path, identity->key_path, identity->ca_pem, e);
	if (!d->ctx)
		return -1;
	if (SSL_CTX_set1_groups_list(d->ctx, "X25519:P-256") != 1 || SSL_CTX_set_num_tickets(d->ctx, 0) != 1)
		return err_set(e, ERR_INTERNAL, "cannot set up TLS for other agents");
	SSL_CTX_set_options(d->ctx, SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(d->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_max_cert_list(d->ctx, CERTS_MAX);
	/* An asker must have a certificate of this cluster; the default for servers asks for none. */
	SSL_CTX_set_verify(d->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

static void on_stop(void *msg, void *arg)
{
	(void)msg;
	loop_stop(((struct peerdoor *)arg)->loop);
}

static void *thread_main(void *arg)
{
	struct peerdoor *d = arg;

	loop_run(d->loop);
	return NULL;
}

static int thread_start(struct peerdoor *d, struct err *e)
{
	sigset_t all, before;
	int rc;

	d->loop = loop_create();
	d->places = places_create();
	d->stop = chan_create(d->loop, 1, 0, on_stop, d);
	d->tick = loop_timer_create(d->loop, on_tick, d);
	d->back_off = loop_timer_create(d->loop, on_back_off, d);
	d->watch = loop_fd_create(d->loop, d->fd, LOOP_READ, on_accept, d);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the agent's loop's */
	rc = pthread_create(&d->thread, NULL, thread_main, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return err_sys(e, rc, "a thread for the peer port");
	d->started = 1;
	return 0;
}

struct peerdoor *peerdoor_open(const struct agent_env *env, const struct agent_identity *identity,
                               struct err *e)
{
	struct peerdoor *d = xcalloc(1, sizeof(*d));

	d->clock = env->clock;
	d->node = xstrdup(env->cfg.node);
	d->instance = env->instance;
	d->fd = -1;
	d->complaints.per_minute = d->strangers.per_minute = 2;
	if (proc_boot_id(d->boot_id, e) == 0 && tls_for(d, identity, e) == 0 &&
	    bind_known(d, &env->cfg, e) == 0 && thread_start(d, e) == 0)
		return d;
	peerdoor_close(d);
	return NULL;
}

void peerdoor_close(struct peerdoor *d)
{
	if (!d)
		return;
	if (d->started) {
		chan_send(d->stop, d);
		pthread_join(d->thread, NULL);
	}
	while (d->visitors)
		visitor_end(d->visitors);
	if (d->loop) {
		chan_destroy(d->stop, NULL);
		loop_fd_destroy(d->watch);
		loop_timer_destroy(d->tick);
		loop_timer_destroy(d->back_off);
		loop_destroy(d->loop);
	}
	places_destroy(d->places);
	free(atomic_load(&d->news));
	strv_destroy(atomic_load(&d->retired_news));
	strv_destroy(d->retired);
	free(atomic_load(&d->launches_news));
	free(d->launches);
	if (d->fd >= 0)
		close(d->fd);
	SSL_CTX_free(d->ctx);
	free(d->node);
	free(d);
}

uint32_t peerdoor_number(const struct peerdoor *d)
{
	return d->number;
}

void peerdoor_publish(struct peerdoor *d, const struct lease *l)
{
	/* The age decides: a reader that gets an old flag with a new age, or the reverse, says nothing that was
	 * not true a moment ago. */
	atomic_store(&d->ack_us, l->last_ack_us);
	atomic_store(&d->lease_ms, l->lease_ms);
	atomic_store(&d->hears, l->heard && l->phase == LEASE_HELD);
}

void peerdoor_know(struct peerdoor *d, const struct strv *peers)
{
	struct addresses *a = xcalloc(1, sizeof(*a) + peers->n * sizeof(a->v[0]));

	for (size_t i = 0; i < peers->n; i++) {
		const char *blank = strchr(peers->v[i], ' ');
		int len = sizeof(a->v[0]);

		if (blank && evutil_parse_sockaddr_port(blank + 1, (struct sockaddr *)&a->v[a->n], &len) == 0)
			a->n++;
	}
	free(atomic_exchange(&d->news, a));
}

void peerdoor_launches(struct peerdoor *d, struct presence *p)
{
	free(atomic_exchange(&d->launches_news, p));
}

void peerdoor_retire(struct peerdoor *d, const struct strv *fingerprints)
{
	struct strv *copy = xcalloc(1, sizeof(*copy));

	for (size_t i = 0; i < fingerprints->n; i++)
		strv_add(copy, fingerprints->v[i]);
	strv_destroy(atomic_exchange(&d->retired_news, copy));
}
