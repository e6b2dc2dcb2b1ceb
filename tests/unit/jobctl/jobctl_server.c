/* jobctl_server: see jobctl_server.h. */
#include "tests/unit/jobctl/jobctl_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "tests/lib/tap.h"

#define SEEN_MAX 20000

struct js {
	struct event_base *base;
	struct evhttp *http;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct js_seen *seen[SEEN_MAX];
	unsigned n;
	struct evhttp_request *open[SEEN_MAX]; /* answers without an end: evhttp leaves them to us */
	unsigned n_open;
	js_fn fn;
	void *arg;
	char *url;
};

static char *header(struct evhttp_request *r, const char *name)
{
	return xstrdup(evhttp_find_header(evhttp_request_get_input_headers(r), name));
}

static const char *method(struct evhttp_request *r)
{
	switch (evhttp_request_get_command(r)) {
	case EVHTTP_REQ_GET:
		return "GET";
	case EVHTTP_REQ_POST:
		return "POST";
	case EVHTTP_REQ_PUT:
		return "PUT";
	case EVHTTP_REQ_DELETE:
		return "DELETE";
	case EVHTTP_REQ_PATCH:
		return "PATCH";
	default:
		return "?";
	}
}

static struct js_seen *take(struct evhttp_request *r)
{
	struct js_seen *q = xcalloc(1, sizeof(*q));
	struct evbuffer *in = evhttp_request_get_input_buffer(r);
	q->method = xstrdup(method(r));
	q->uri = xstrdup(evhttp_request_get_uri(r));
	q->body_n = evbuffer_get_length(in);
	q->body = xcalloc(1, q->body_n + 1);
	evbuffer_remove(in, q->body, q->body_n);
	q->authorization = header(r, "Authorization");
	q->idempotency_key = header(r, "Idempotency-Key");
	q->content_type = header(r, "Content-Type");
	q->last_event_id = header(r, "Last-Event-ID");
	return q;
}

/* Ends the connection under evhttp's feet, which then cleans up by itself. */
static void cut(struct evhttp_connection *conn)
{
	shutdown(bufferevent_getfd(evhttp_connection_get_bufferevent(conn)), SHUT_RDWR);
}

/* The chunk is on its way: now the connection may break. */
static void on_written(struct evhttp_connection *conn, void *arg)
{
	(void)arg;
	cut(conn);
}

static void answer(struct js *s, struct evhttp_request *r, const struct js_answer *a)
{
	struct evkeyvalq *out = evhttp_request_get_output_headers(r);
	struct evbuffer *b = evbuffer_new();
	for (unsigned i = 0; i + 1 < 8 && a->headers[i] && a->headers[i + 1]; i += 2)
		evhttp_add_header(out, a->headers[i], a->headers[i + 1]);
	if (a->body)
		evbuffer_add(b, a->body, a->body_n ? a->body_n : strlen(a->body));
	if (!a->status) {
		cut(evhttp_request_get_connection(r));
		evhttp_send_reply(r, 500, "x", NULL); /* goes nowhere, but is an end */
	} else if (a->chunked) {
		evhttp_add_header(out, "Content-Type", a->type ? a->type : "application/octet-stream");
		evhttp_send_reply_start(r, a->status, "x");
		if (a->cut)
			evhttp_send_reply_chunk_with_cb(r, b, on_written, NULL);
		else if (a->body)
			evhttp_send_reply_chunk(r, b);
		if (!a->cut && !a->hang)
			evhttp_send_reply_end(r);
		else
			s->open[s->n_open++] = r;
	} else {
		if (a->body)
			evhttp_add_header(out, "Content-Type", a->type ? a->type : "application/json");
		evhttp_send_reply(r, a->status, "x", b);
	}
	evbuffer_free(b);
}

static void on_request(struct evhttp_request *r, void *arg)
{
	struct js *s = arg;
	struct js_seen *q = take(r);
	struct js_answer a = {.status = 200};
	pthread_mutex_lock(&s->lock);
	unsigned nth = s->n;
	if (nth == SEEN_MAX)
		tap_bail("too many requests");
	s->seen[s->n++] = q;
	pthread_cond_broadcast(&s->more);
	pthread_mutex_unlock(&s->lock);
	s->fn(q, nth, &a, s->arg);
	answer(s, r, &a);
}

static void *serve(void *arg)
{
	struct js *s = arg;
	event_base_loop(s->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64))
		tap_bail("listen on %s: %s", path, strerror(errno));
	return fd;
}

static unsigned port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);
	getsockname(fd, (struct sockaddr *)&a, &n);
	return ntohs(a.sin_port);
}

struct js *js_start(js_fn fn, void *arg, const char *unix_path)
{
	struct js *s = xcalloc(1, sizeof(*s));
	signal(SIGPIPE, SIG_IGN); /* answers to connections that were cut */
	evthread_use_pthreads();
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->more, NULL);
	s->fn = fn;
	s->arg = arg;
	s->base = event_base_new();
	s->http = evhttp_new(s->base);
	evhttp_set_gencb(s->http, on_request, s);
	evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
	                                        EVHTTP_REQ_DELETE | EVHTTP_REQ_PATCH | EVHTTP_REQ_HEAD);
	if (unix_path) {
		evhttp_accept_socket(s->http, listen_unix(unix_path));
		s->url = xasprintf("unix://%s", unix_path);
	} else {
		struct evhttp_bound_socket *b = evhttp_bind_socket_with_handle(s->http, "127.0.0.1", 0);
		if (!b)
			tap_bail("no port");
		s->url = xasprintf("http://127.0.0.1:%u", port_of(evhttp_bound_socket_get_fd(b)));
	}
	if (pthread_create(&s->thread, NULL, serve, s))
		tap_bail("no thread");
	return s;
}

void js_stop(struct js *s)
{
	static const struct timeval now = {0, 0};
	event_base_loopexit(s->base, &now); /* counts also when the thread has not come to its loop yet */
	pthread_join(s->thread, NULL);
	for (unsigned i = 0; i < s->n_open; i++)
		evhttp_send_reply_end(s->open[i]);
	evhttp_free(s->http);
	event_base_free(s->base);
	for (unsigned i = 0; i < s->n; i++) {
		struct js_seen *q = s->seen[i];
		free(q->method);
		free(q->uri);
		free(q->body);
		free(q->authorization);
		free(q->idempotency_key);
		free(q->content_type);
		free(q->last_event_id);
		free(q);
	}
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->more);
	free(s->url);
	free(s);
}

const char *js_url(const struct js *s)
{
	return s->url;
}

unsigned js_count(struct js *s)
{
	pthread_mutex_lock(&s->lock);
	unsigned n = s->n;
	pthread_mutex_unlock(&s->lock);
	return n;
}

const struct js_seen *js_seen(struct js *s, unsigned nth)
{
	pthread_mutex_lock(&s->lock);
	const struct js_seen *q = nth < s->n ? s->seen[nth] : NULL;
	pthread_mutex_unlock(&s->lock);
	return q;
}

int js_wait(struct js *s, unsigned count, unsigned timeout_ms)
{
	uint64_t end = clock_real_us(clock_real()) + (uint64_t)timeout_ms * 1000;
	struct timespec until = {.tv_sec = (time_t)(end / 1000000), .tv_nsec = (long)(end % 1000000 * 1000)};
	int rc = 0;
	pthread_mutex_lock(&s->lock);
	while (s->n < count && !rc)
		rc = pthread_cond_timedwait(&s->more, &s->lock, &until);
	rc = s->n < count ? -1 : 0;
	pthread_mutex_unlock(&s->lock);
	return rc;
}
