/*
 * test_peerport: the port at which agents ask each other, among strangers: connections that say nothing, from
 * one source and from many, floods of handshakes, no certificate. An agent's question is answered all the
 * same.
 */
#include "agent/control/peerdoor.h"
#include "agent/control/peerport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/net/tls.h"
#include "common/os/fsutil.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"

#define CROWD 300

static struct tls_ca *ca;

struct node {
	struct agent_env env;
	struct agent_identity identity;
	struct peerport *port;
};

static struct node *node_create(struct loop *loop, const char *name, uint32_t port)
{
	struct node *n = xcalloc(1, sizeof(*n));
	char *csr = NULL, *cert;
	struct lease lease;
	struct err e = {0};

	n->env.loop = loop;
	n->env.clock = clock_real();
	n->env.cfg.node = (char *)(uintptr_t)name;
	n->env.cfg.peer_port = port;
	n->env.is_root = geteuid() == 0;
	n->env.instance = 4711;
	n->env.cfg.address = (char *)(uintptr_t) "127.0.0.1";
	n->identity.key_path = xasprintf("%s/%s.key", tap_tmpdir(), name);
	n->identity.cert_path = xasprintf("%s/%s.pem", tap_tmpdir(), name);
	n->identity.ca_pem = xstrdup(tls_ca_pem(ca));
	if (tls_make_key_csr(n->identity.key_path, name, &csr, &e) < 0)
		tap_bail("%s", e.text);
	cert = tls_ca_sign_csr(ca, csr, name, 10, &e);
	if (!cert || fs_replace(n->identity.cert_path, cert, strlen(cert), 0644, &e) < 0)
		tap_bail("%s", e.text);
	free(csr);
	free(cert);
	n->port = peerport_create(&n->env, &n->identity, &e);
	if (!n->port)
		tap_bail("%s", e.text);
	lease_init(&lease, clock_boot_us(clock_real()), 600000, 1);
	peerport_publish(n->port, &lease);
	return n;
}

static void node_destroy(struct node *n)
{
	peerport_destroy(n->port);
	free(n->identity.key_path);
	free(n->identity.cert_path);
	free(n->identity.ca_pem);
	free(n);
}

/* ---- strangers ------------------------------------------------------------------------------------------
 */

static int connect_from(const char *source, uint32_t port)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, source, &from.sin_addr);
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0 ||
	    (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS))
		tap_bail("%s: %s", source, strerror(errno));
	return fd;
}

static void turn_for(struct loop *loop, uint32_t ms)
{
	uint64_t end = clock_boot_us(clock_real()) + (uint64_t)ms * 1000;

	while (clock_boot_us(clock_real()) < end)
		loop_run_once(loop, 5);
}

static void crowd(struct loop *loop, int *fds, unsigned sources, uint32_t port)
{
	for (unsigned i = 0; i < CROWD; i++) {
		char source[32];

		snprintf(source, sizeof(source), "127.0.0.%u", 1 + i % sources);
		fds[i] = connect_from(source, port);
		if (i % 50 == 49) /* more at once find no room in the kernel's queue */
			turn_for(loop, 20);
	}
}

static void leave(const int *fds)
{
	for (unsigned i = 0; i < CROWD; i++)
		close(fds[i]);
}

/* ---- questions ------------------------------------------------------------------------------------------
 */

struct reply {
	int done, answered, hears;
	enum peer_sight reach;
};

static void on_reply(const struct wm_peer_answer *m, enum peer_sight reach, void *arg)
{
	struct reply *r = arg;

	r->done = 1;
	r->answered = m != NULL;
	r->reach = reach;
	r->hears = m && m->has_controller;
}

static struct reply ask(struct node *from, const struct node *to, uint32_t ms)
{
	cleanup_free char *peer = xasprintf("%s 127.0.0.1:%u", to->env.cfg.node, peerport_number(to->port));
	uint64_t end = clock_boot_us(clock_real()) + 10000000;
	struct reply r = {0};

	peer_question_ask(from->port, peer, ms, on_reply, &r);
	while (!r.done && clock_boot_us(clock_real()) < end)
		loop_run_once(from->env.loop, 20);
	return r;
}

static void test_crowd(struct node *a, struct node *b, unsigned sources)
{
	int fds[CROWD];
	struct reply r;

	crowd(a->env.loop, fds, sources, peerport_number(b->port));
	turn_for(a->env.loop, 200);
	r = ask(a, b, 1000);
	ok(r.answered && r.hears, "%d silent connections from %u sources: the question is answered", CROWD,
	   sources);
	leave(fds);
	turn_for(a->env.loop, 100);
}

static int is_closed(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void test_silent(struct node *a, struct node *b)
{
	int fd = connect_from("127.0.0.1", peerport_number(b->port));
	uint64_t start = clock_boot_us(clock_real()), took;

	while (!is_closed(fd) && clock_boot_us(clock_real()) < start + 7000000)
		loop_run_once(a->env.loop, 20);
	took = clock_boot_us(clock_real()) - start;
	ok(took > 300000 && took < 2000000, "a silent connection ends after a second: %u ms",
	   (unsigned)(took / 1000));
	close(fd);
}

/* ---- with TLS -------------------------------------------------------------------------------------------
 */

/* A handshake of a stranger's own making; key and certificate of a node, or none. */
static SSL *shake(const struct node *as, uint32_t port, int *rc)
{
	struct timeval limit = {3, 0};
	SSL_CTX *ctx = tls_client_ctx(tls_ca_pem(ca), as ? as->identity.cert_path : NULL,
	                              as ? as->identity.key_path : NULL, NULL);
	SSL *ssl = SSL_new(ctx);
	int fd = connect_from("127.0.0.1", port);

	fcntl(fd, F_SETFL, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	X509_VERIFY_PARAM_set_purpose(SSL_get0_param(ssl), X509_PURPOSE_SSL_CLIENT);
	SSL_set_fd(ssl, fd);
	*rc = SSL_connect(ssl);
	SSL_CTX_free(ctx);
	return ssl;
}

static void hang_up(SSL *ssl)
{
	int fd = SSL_get_fd(ssl);

	SSL_free(ssl);
	close(fd);
}

static void test_no_certificate(const struct node *b)
{
	uint64_t start = clock_boot_us(clock_real());
	char byte;
	int rc;
	SSL *ssl = shake(NULL, peerport_number(b->port), &rc);

	ok(SSL_read(ssl, &byte, 1) <= 0, "without a certificate nothing is answered");
	ok(clock_boot_us(clock_real()) - start < 500000, "and the connection ends with the handshake");
	hang_up(ssl);
}

static void test_certificate_stays(struct node *a, struct node *b)
{
	struct wm_peer_ask question = {.node = a->env.cfg.node};
	int fds[CROWD], rc;
	SSL *ssl = shake(a, peerport_number(b->port), &rc);
	struct buf out;
	char answer[256];

	is_int(rc, 1, "an agent shows its certificate");
	crowd(a->env.loop, fds, 30, peerport_number(b->port));
	buf_init(&out, 4096);
	wire_encode(WM_PEER_ASK, &question, 0, &out, NULL);
	SSL_write(ssl, buf_head(&out), (int)buf_left(&out));
	ok(SSL_read(ssl, answer, sizeof(answer)) > 0, "%d strangers after it: it keeps its place", CROWD);
	buf_fini(&out);
	leave(fds);
	hang_up(ssl);
}

/* The first bytes of a handshake. */
static size_t hello_bytes(char *out, size_t size)
{
	SSL_CTX *ctx = tls_client_ctx(tls_ca_pem(ca), NULL, NULL, NULL);
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *to = BIO_new(BIO_s_mem());
	int n;

	SSL_set_bio(ssl, in, to);
	SSL_connect(ssl);
	n = BIO_read(to, out, (int)size);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	return n > 0 ? (size_t)n : 0;
}

static unsigned answered_hellos(uint32_t port, const char *hello, size_t n)
{
	struct pollfd p[30];
	unsigned answered = 0;
	char byte;

	for (size_t i = 0; i < 30; i++)
		p[i] = (struct pollfd){.fd = connect_from("127.0.0.9", port), .events = POLLOUT};
	for (size_t i = 0; i < 30; i++)
		if (poll(&p[i], 1, 1000) == 1 && send(p[i].fd, hello, n, MSG_NOSIGNAL) < 0)
			tap_diag("send: %s", strerror(errno));
	poll(NULL, 0, 100);
	for (size_t i = 0; i < 30; i++) {
		answered += recv(p[i].fd, &byte, 1, MSG_DONTWAIT) == 1;
		close(p[i].fd);
	}
	return answered;
}

static void test_handshakes(const struct node *b)
{
	char hello[2048];
	size_t n = hello_bytes(hello, sizeof(hello));
	uint64_t start = clock_boot_us(clock_real());
	unsigned answered = 0, most;

	for (int i = 0; i < 15; i++)
		answered += answered_hellos(peerport_number(b->port), hello, n);
	most = 32 + 20 * (unsigned)((clock_boot_us(clock_real()) - start) / 1000000 + 1);
	ok(answered >= 32, "a source may begin %u handshakes", answered);
	ok(answered <= most, "but not more than %u of 450 in that time", most);
}

/* ---- looks ----------------------------------------------------------------------------------------------
 */

struct look_result {
	int done, answered;
	uint64_t instance;
	char boot_id[PROC_BOOT_ID_SIZE];
	uint32_t missing[4], n_missing;
};

static void on_look(const struct wm_peer_seen *m, enum peer_sight sight, void *arg)
{
	struct look_result *r = arg;

	r->done = 1;
	r->answered = sight == SIGHT_ANSWERED;
	if (!m)
		return;
	r->instance = m->instance;
	snprintf(r->boot_id, sizeof(r->boot_id), "%s", m->boot_id);
	for (uint32_t i = 0; i < m->missing.n && i < 4; i++)
		r->missing[r->n_missing++] = m->missing.v[i];
}

static struct look_result look_at(struct node *a, const struct node *b)
{
	cleanup_free char *peer = xasprintf("%s 127.0.0.1:%u", b->env.cfg.node, peerport_number(b->port));
	uint64_t jobs[] = {17, 17, 18};
	uint32_t attempts[] = {1, 2, 1};
	char none[] = "";
	struct wm_peer_look m = {.node = none, .jobs = {jobs, 3}, .attempts = {attempts, 3}};
	struct look_result r = {0};

	peer_question_look(a->port, peer, 2000, &m, on_look, &r);
	while (!r.done)
		loop_run_once(a->env.loop, 20);
	return r;
}

static void publish(struct node *b, int sure)
{
	struct presence *p = xcalloc(1, sizeof(*p) + sizeof(p->v[0]));

	p->sure = sure;
	p->n = 1;
	p->v[0] = (struct launch_id){.job = 17, .attempt = 2};
	peerport_launches(b->port, p);
}

static void test_look(struct node *a, struct node *b)
{
	char boot_id[PROC_BOOT_ID_SIZE];
	struct look_result r = look_at(a, b);

	if (proc_boot_id(boot_id, NULL) < 0)
		tap_bail("no boot id");
	ok(r.answered, "an agent says who it is");
	is_str(r.boot_id, boot_id, "its boot");
	is_int((int64_t)r.instance, (int64_t)b->env.instance, "and the number of its process");
	is_int(r.n_missing, 0, "of launches it says nothing before it knows its own");
	publish(b, 0);
	r = look_at(a, b);
	ok(r.answered && r.n_missing == 0, "nor when something of an unknown launch may run");
	publish(b, 1);
	r = look_at(a, b);
	ok(r.n_missing == 2 && r.missing[0] == 0 && r.missing[1] == 2, "then it denies those that it has not");
}

/* ---- while it goes on -------------------------------------------------------------------------------------
 */

struct flood {
	const char *source;
	uint32_t port;
	_Atomic int stop;
	unsigned n;
};

static void *flood_main(void *arg)
{
	struct flood *f = arg;
	int fds[64];

	memset(fds, -1, sizeof(fds));
	while (!atomic_load(&f->stop)) {
		int *fd = &fds[f->n++ % 64];

		if (*fd >= 0)
			close(*fd);
		*fd = connect_from(f->source, f->port);
	}
	for (unsigned i = 0; i < 64; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return NULL;
}

static void test_flood(struct node *a, struct node *b, const char *source)
{
	struct flood f = {.source = source, .port = peerport_number(b->port)};
	unsigned answered = 0;
	pthread_t thread;

	pthread_create(&thread, NULL, flood_main, &f);
	turn_for(a->env.loop, 200);
	for (int i = 0; i < 10; i++)
		answered += (unsigned)ask(a, b, 1000).answered;
	atomic_store(&f.stop, 1);
	pthread_join(thread, NULL);
	is_int(answered, 10, source);
	tap_diag("%u connections from %s meanwhile", f.n, source);
}

/* ---- askers -----------------------------------------------------------------------------------------------
 */

static int listen_on(uint32_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t n = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &n) < 0)
		tap_bail("listen: %s", strerror(errno));
	*port = ntohs(at.sin_port);
	return fd;
}

/* What is at the port closes two connections, refuses some, and then is an agent. */
static void test_asks_again(struct node *a)
{
	struct reply r = {0};
	struct node *c = NULL;
	uint64_t start = clock_boot_us(clock_real());
	cleanup_free char *peer = NULL;
	unsigned closed = 0;
	uint32_t port;
	int fd = listen_on(&port), s;

	peer = xasprintf("c 127.0.0.1:%u", port);
	peer_question_ask(a->port, peer, 1000, on_reply, &r);
	while (!r.done && clock_boot_us(clock_real()) < start + 3000000) {
		loop_run_once(a->env.loop, 5);
		s = closed < 2 ? accept(fd, NULL, NULL) : -1;
		if (s >= 0) {
			close(s);
			closed++;
		}
		if (closed == 2) {
			close(fd);
			closed++;
		}
		if (closed == 3 && !c && clock_boot_us(clock_real()) > start + 250000)
			c = node_create(a->env.loop, "c", port);
	}
	ok(r.answered, "closed twice, then refused: asked again until it is answered");
	if (c)
		node_destroy(c);
}

static void test_reach(struct node *a)
{
	uint64_t start = clock_boot_us(clock_real());
	cleanup_free char *peer = NULL;
	struct reply r = {0};
	uint32_t port;
	int fd = listen_on(&port);

	peer = xasprintf("c 127.0.0.1:%u", port);
	peer_question_ask(a->port, peer, 400, on_reply, &r);
	while (!r.done && clock_boot_us(clock_real()) < start + 3000000)
		loop_run_once(a->env.loop, 20);
	ok(r.done && !r.answered && r.reach == SIGHT_SILENT, "one that accepts and says nothing is silent");
	close(fd);
	memset(&r, 0, sizeof(r));
	peer_question_ask(a->port, peer, 400, on_reply, &r);
	while (!r.done && clock_boot_us(clock_real()) < start + 3000000)
		loop_run_once(a->env.loop, 20);
	ok(r.done && !r.answered && r.reach == SIGHT_AWAY, "nobody at that port: away");
}

/* The certificate of a node that was removed. */
static void test_retired(struct node *a, struct node *b)
{
	char *pem = NULL, print[33] = "";
	struct strv retired = {0};
	struct reply r;

	fs_read_file(a->identity.cert_path, 65536, &pem, NULL, NULL);
	tls_fingerprint(pem, print, NULL);
	strv_add(&retired, "0123456789abcdef0123456789abcdef");
	peerport_retire(b->port, &retired);
	ok(ask(a, b, 1000).answered, "a node asks while another one is removed");
	strv_add(&retired, print);
	peerport_retire(b->port, &retired);
	r = ask(a, b, 400);
	ok(!r.answered && r.reach == SIGHT_SILENT, "it is removed itself: no answer");
	ok(ask(b, a, 1000).answered, "others hear each other");
	strv_fini(&retired);
	peerport_retire(b->port, &retired);
	ok(ask(a, b, 1000).answered, "nobody is removed any more");
	free(pem);
}

static void test_published(struct node *a, struct node *b)
{
	struct lease l;

	lease_init(&l, clock_boot_us(clock_real()) - 7000000, 10000, 1);
	peerport_publish(b->port, &l);
	ok(ask(a, b, 1000).hears, "it answers what was published");
	l.phase = LEASE_ASKING;
	peerport_publish(b->port, &l);
	ok(!ask(a, b, 1000).hears, "also that it hears nobody");
}

int main(void)
{
	struct rlimit lim = {4096, 4096};
	struct loop *loop = loop_create();
	struct node *a, *b;
	struct err e = {0};

	signal(SIGPIPE, SIG_IGN); /* as the agent */
	setrlimit(RLIMIT_NOFILE, &lim);
	ca = tls_ca_open(tap_tmpdir(), clock_real_us(clock_real()), &e);
	if (!ca)
		tap_bail("%s", e.text);
	a = node_create(loop, "a", 0);
	b = node_create(loop, "b", 0);
	ok(ask(a, b, 1000).answered, "alone with it: the question is answered");
	test_crowd(a, b, 1);
	test_crowd(a, b, 30);
	test_silent(a, b);
	test_no_certificate(b);
	test_look(a, b);
	test_certificate_stays(a, b);
	test_handshakes(b);
	test_flood(a, b, "127.0.0.5");
	if (geteuid() == 0)
		test_flood(a, b, "127.0.0.1");
	else
		tap_skip("needs root: a port below 1024 sets an agent apart from programs at its address");
	test_asks_again(a);
	test_reach(a);
	test_retired(a, b);
	test_published(a, b);
	node_destroy(a);
	node_destroy(b);
	tls_ca_close(ca);
	loop_destroy(loop);
	return tap_done();
}
