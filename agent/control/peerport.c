/*
 * peerport: see peerport.h. Each side has a TLS stream, a deadline, one frame in and one frame out.
 */
#include "agent/control/peerport.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/net/tls.h"

#define LINES_MAX 256
#define LINE_MS   5000
#define FRAME_MAX 4096u

struct peer_question {
	struct peerport *port;
	struct bufferevent *bev;
	struct loop_timer *timer;
	char *name; /* who must answer */
	void (*done)(const struct wm_peer_answer *m, void *arg);
	void *arg;
};

struct answer_line {
	struct peerport *port;
	struct bufferevent *bev;
	int answered;
};

struct peerport {
	struct agent_env *env;
	const struct peerport_ops *ops;
	void *arg;
	uint32_t number;          /* of the port, as bound */
	SSL_CTX *server, *client; /* made once: a question is asked when there is no time to read files */
	struct evconnlistener *listener;
	struct answer_line *lines[LINES_MAX];
	int n_lines;
};

/* One whole frame at the head of the input: 1, 0 more is needed, -1 nonsense. *msg as wire_decode. */
static int take_frame(struct bufferevent *bev, uint16_t want, void **msg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	size_t n = evbuffer_get_length(in);
	struct wire_frame f;
	struct buf b;
	int rc;

	if (n > FRAME_MAX)
		return -1;
	buf_view(&b, evbuffer_pullup(in, -1), n);
	rc = n ? wire_next(&b, &f, NULL) : 0;
	if (rc <= 0)
		return rc;
	if (f.type != want || !wire_allowed(f.type, WIRE_FROM_PEER, WIRE_LOCAL) ||
	    wire_decode(f.type, f.body, f.n, msg, NULL) < 0)
		return -1;
	return 1;
}

static void put_frame(struct bufferevent *bev, uint16_t type, const void *msg)
{
	struct buf out;

	buf_init(&out, FRAME_MAX);
	if (wire_encode(type, msg, 0, &out, NULL) == 0)
		bufferevent_write(bev, buf_head(&out), buf_left(&out));
	buf_fini(&out);
}

/* ---- answering -------------------------------------------------------------------------------------- */

static void line_end(struct answer_line *line)
{
	struct peerport *p = line->port;

	for (int i = 0; i < LINES_MAX; i++)
		if (p->lines[i] == line)
			p->lines[i] = NULL;
	p->n_lines--;
	bufferevent_free(line->bev);
	free(line);
}

static void line_read(struct bufferevent *bev, void *arg)
{
	struct answer_line *line = arg;
	struct peerport *p = line->port;
	struct wm_peer_answer answer = {.node = p->env->cfg.node};
	void *msg;
	int rc;

	loop_enter(p->env->loop);
	if (line->answered)
		return;
	rc = take_frame(bev, WM_PEER_ASK, &msg);
	if (rc < 0)
		line_end(line);
	if (rc <= 0)
		return;
	wire_free(WM_PEER_ASK, msg);
	p->ops->answer(&answer, p->arg);
	line->answered = 1;
	put_frame(bev, WM_PEER_ANSWER, &answer);
}

static void line_event(struct bufferevent *bev, short what, void *arg)
{
	struct answer_line *line = arg;

	(void)bev;
	loop_enter(line->port->env->loop);
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT))
		line_end(line); /* after the answer the asker closes */
}

static void on_accept(struct evconnlistener *el, evutil_socket_t fd, struct sockaddr *sa, int n, void *arg)
{
	struct timeval limit = {LINE_MS / 1000, 0};
	struct peerport *p = arg;
	struct answer_line *line;
	SSL *ssl;
	int i = 0;

	(void)el;
	(void)sa;
	(void)n;
	loop_enter(p->env->loop);
	while (i < LINES_MAX && p->lines[i])
		i++;
	ssl = i < LINES_MAX ? SSL_new(p->server) : NULL;
	if (!ssl) {
		evutil_closesocket(fd); /* full: the asker asks again later, and counts us as not reached */
		return;
	}
	line = xcalloc(1, sizeof(*line));
	line->port = p;
	line->bev = bufferevent_openssl_socket_new(loop_base(p->env->loop), fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
	                                           BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (!line->bev) {
		SSL_free(ssl);
		evutil_closesocket(fd);
		free(line);
		return;
	}
	p->lines[i] = line;
	p->n_lines++;
	bufferevent_setcb(line->bev, line_read, NULL, line_event, line);
	bufferevent_set_timeouts(line->bev, &limit, &limit);
	bufferevent_enable(line->bev, EV_READ | EV_WRITE);
}

static int bind_to(struct peerport *p, struct err *e)
{
	const struct agent_config *c = &p->env->cfg;
	struct sockaddr_storage ss = {0};
	struct sockaddr_in *v4 = (void *)&ss;
	struct sockaddr_in6 *v6 = (void *)&ss;
	socklen_t n = sizeof(ss);
	int len = sizeof(ss);

	if (evutil_parse_sockaddr_port(c->address, (struct sockaddr *)&ss, &len) < 0)
		return err_set(e, ERR_INVALID, "--address %s is not an IP address", c->address);
	*(ss.ss_family == AF_INET6 ? &v6->sin6_port : &v4->sin_port) = htons((uint16_t)c->peer_port);
	p->listener = evconnlistener_new_bind(loop_base(p->env->loop), on_accept, p,
	                                      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
	                                      128, (struct sockaddr *)&ss, len);
	if (!p->listener)
		return err_sys(e, EVUTIL_SOCKET_ERROR(), "listen on %s, port %u, for other agents", c->address,
		               c->peer_port);
	if (getsockname(evconnlistener_get_fd(p->listener), (struct sockaddr *)&ss, &n) == 0)
		p->number = ntohs(ss.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
	return 0;
}

struct peerport *peerport_create(struct agent_env *env, const struct agent_identity *identity,
                                 const struct peerport_ops *ops, void *arg, struct err *e)
{
	struct peerport *p = xcalloc(1, sizeof(*p));

	p->env = env;
	p->ops = ops;
	p->arg = arg;
	p->server = tls_server_ctx(identity->cert_path, identity->key_path, identity->ca_pem, e);
	p->client =
	    p->server ? tls_client_ctx(identity->ca_pem, identity->cert_path, identity->key_path, e) : NULL;
	if (!p->client || bind_to(p, e) < 0) {
		peerport_destroy(p);
		return NULL;
	}
	/* An asker must have a certificate of this cluster; the default for servers asks for none. */
	SSL_CTX_set_verify(p->server, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return p;
}

void peerport_destroy(struct peerport *p)
{
	if (!p)
		return;
	for (int i = 0; i < LINES_MAX; i++)
		if (p->lines[i])
			line_end(p->lines[i]);
	if (p->listener)
		evconnlistener_free(p->listener);
	SSL_CTX_free(p->server);
	SSL_CTX_free(p->client);
	free(p);
}

uint32_t peerport_number(const struct peerport *p)
{
	return p->number;
}

/* ---- asking ----------------------------------------------------------------------------------------------
 */

void peer_question_cancel(struct peer_question *q)
{
	if (!q)
		return;
	if (q->bev)
		bufferevent_free(q->bev);
	loop_timer_destroy(q->timer);
	free(q->name);
	free(q);
}

static void question_end(struct peer_question *q, const struct wm_peer_answer *m)
{
	void (*done)(const struct wm_peer_answer *, void *) = q->done;
	void *arg = q->arg;

	peer_question_cancel(q);
	done(m, arg);
}

/* The certificate of the other end names the node that was to be asked. */
static int right_name(struct peer_question *q)
{
	X509 *cert = SSL_get1_peer_certificate(bufferevent_openssl_get_ssl(q->bev));
	char cn[256] = "";

	if (!cert)
		return 0;
	X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, cn, sizeof(cn));
	X509_free(cert);
	return strcmp(cn, q->name) == 0;
}

static void question_event(struct bufferevent *bev, short what, void *arg)
{
	struct peer_question *q = arg;
	struct wm_peer_ask ask = {.node = q->port->env->cfg.node};

	loop_enter(q->port->env->loop);
	if ((what & BEV_EVENT_CONNECTED) && right_name(q)) {
		put_frame(bev, WM_PEER_ASK, &ask);
		return;
	}
	if (what & BEV_EVENT_CONNECTED)
		log_warn("event=peer_wrong_name asked=%s", q->name);
	question_end(q, NULL);
}

static void question_read(struct bufferevent *bev, void *arg)
{
	struct peer_question *q = arg;
	void *msg = NULL;
	int rc;

	loop_enter(q->port->env->loop);
	rc = take_frame(bev, WM_PEER_ANSWER, &msg);
	if (rc == 0)
		return;
	question_end(q, rc > 0 ? msg : NULL);
	wire_free(WM_PEER_ANSWER, msg);
}

static void question_timeout(void *arg)
{
	question_end(arg, NULL);
}

static int question_dial(struct peer_question *q, const char *address)
{
	struct sockaddr_storage ss = {0};
	int len = sizeof(ss);
	SSL *ssl;

	if (evutil_parse_sockaddr_port(address, (struct sockaddr *)&ss, &len) < 0)
		return -1;
	ssl = SSL_new(q->port->client);
	if (!ssl) {
		log_error("event=peer_tls reason=\"no memory\"");
		return -1;
	}
	/* The other end shows an agent's certificate, which is made for clients. */
	X509_VERIFY_PARAM_set_purpose(SSL_get0_param(ssl), X509_PURPOSE_SSL_CLIENT);
	q->bev =
	    bufferevent_openssl_socket_new(loop_base(q->port->env->loop), -1, ssl, BUFFEREVENT_SSL_CONNECTING,
	                                   BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (!q->bev) {
		SSL_free(ssl);
		return -1;
	}
	bufferevent_setcb(q->bev, question_read, NULL, question_event, q);
	bufferevent_enable(q->bev, EV_READ | EV_WRITE);
	/* A failure here comes as an event too, or else by the timer. */
	bufferevent_socket_connect(q->bev, (struct sockaddr *)&ss, len);
	return 0;
}

struct peer_question *peer_question_ask(struct peerport *p, const char *peer, uint32_t timeout_ms,
                                        void (*done)(const struct wm_peer_answer *m, void *arg), void *arg)
{
	const char *blank = strchr(peer, ' ');
	struct peer_question *q;

	if (!blank)
		return NULL;
	q = xcalloc(1, sizeof(*q));
	q->port = p;
	q->done = done;
	q->arg = arg;
	q->name = xstrndup(peer, (size_t)(blank - peer));
	q->timer = loop_timer_create(p->env->loop, question_timeout, q);
	if (question_dial(q, blank + 1) < 0) {
		peer_question_cancel(q);
		return NULL;
	}
	loop_timer_arm(q->timer, (uint64_t)timeout_ms * 1000);
	return q;
}
