/*
 * http_call: requests as the handlers see them, and their answers.
 *
 * The call owns the evhttp_request (evhttp_request_own) from the first moment. evhttp frees it after the
 * answer is written. When the connection ends before that, this file frees it at the end of the turn,
 * because evhttp may still have it on its list.
 */
#include "controller/http/http.h"

#include <assert.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/http/http_int.h"

#define RECORD_MAX 16384 /* bytes of a TLS record */

const char *http_method_name(enum http_method m)
{
	static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OTHER"};

	return names[m];
}

static enum http_method method_of(struct evhttp_request *ev)
{
	switch (evhttp_request_get_command(ev)) {
	case EVHTTP_REQ_GET:
		return HTTP_GET;
	case EVHTTP_REQ_HEAD:
		return HTTP_HEAD;
	case EVHTTP_REQ_POST:
		return HTTP_POST;
	case EVHTTP_REQ_PUT:
		return HTTP_PUT;
	case EVHTTP_REQ_PATCH:
		return HTTP_PATCH;
	case EVHTTP_REQ_DELETE:
		return HTTP_DELETE;
	default:
		return HTTP_OTHER;
	}
}

/* ---- life ------------------------------------------------------------------------------------- */

struct call *call_hold(struct call *c)
{
	c->refs++;
	return c;
}

void call_drop(struct call *c)
{
	unsigned i;

	assert(c->refs > 0);
	if (--c->refs)
		return;
	for (i = 0; i < CALL_MAX_PARAMS; i++)
		free(c->params[i]);
	for (i = 0; i < c->n_query; i++)
		free(c->query_value[i]);
	free(c->path);
	free(c->query_text);
	free(c);
}

/* evhttp has written the whole answer and frees the request next. */
static void on_complete(struct evhttp_request *ev, void *arg)
{
	struct call *c = arg;
	struct http_conn *conn = c->conn;

	(void)ev;
	c->ev = NULL;
	c->conn = NULL;
	c->body = NULL;
	if (c->streaming)
		COUNT(c->http, streams, -1);
	c->streaming = 0;
	http_conn_idle(conn);
	call_drop(c);
}

static void free_request(void *arg)
{
	evhttp_request_free(arg);
}

void call_conn_gone(struct call *c)
{
	c->conn->call = NULL;
	c->conn = NULL;
	c->body = NULL;
	if (c->ev)
		loop_defer(c->http->cfg.loop, free_request, c->ev);
	c->ev = NULL;
	if (c->streaming)
		COUNT(c->http, streams, -1);
	c->streaming = 0;
	if (c->on_gone)
		c->on_gone(c);
	call_drop(c);
}

struct call *call_new(struct http_conn *conn, struct evhttp_request *ev)
{
	struct call *c = xcalloc(1, sizeof(*c));
	const char *uri = evhttp_request_get_uri(ev), *q = strchr(uri, '?');
	struct evbuffer *in = evhttp_request_get_input_buffer(ev);

	c->refs = 1;
	c->http = conn->h;
	c->conn = conn;
	c->ev = ev;
	c->method = method_of(ev);
	c->path = q ? xstrndup(uri, (size_t)(q - uri)) : xstrdup(uri);
	c->query_text = q ? xstrdup(q + 1) : NULL;
	c->body_n = evbuffer_get_length(in);
	c->body = c->body_n ? evbuffer_pullup(in, -1) : NULL;
	c->is_unix = conn->is_unix;
	c->uid = conn->uid;
	snprintf(c->peer, sizeof(c->peer), "%s", conn->peer);
	c->started_us = clock_boot_us(clock_real());
	evhttp_request_own(ev);
	evhttp_request_set_on_complete_cb(ev, on_complete, c);
	return c;
}

int call_open(const struct call *c)
{
	return c->ev && (c->status == 0 || c->streaming);
}

const char *call_header(const struct call *c, const char *name)
{
	return c->ev ? evhttp_find_header(evhttp_request_get_input_headers(c->ev), name) : NULL;
}

void call_add_header(struct call *c, const char *name, const char *value)
{
	if (c->ev && !strpbrk(value, "\r\n"))
		evhttp_add_header(evhttp_request_get_output_headers(c->ev), name, value);
}

/* ---- answers ---------------------------------------------------------------------------------- */

static int begin_answer(struct call *c, int status, const char *type)
{
	assert(c->status == 0);
	c->status = status;
	COUNT(c->http, by_class[status / 100 % 6], 1);
	if (c->on_answer)
		c->on_answer(c, status);
	if (!c->ev)
		return -1;
	if (type)
		call_add_header(c, "Content-Type", type);
	call_add_header(c, "X-Content-Type-Options", "nosniff");
	if (!evhttp_find_header(evhttp_request_get_output_headers(c->ev), "Cache-Control"))
		call_add_header(c, "Cache-Control", "no-store");
	if (c->http->stopping)
		call_add_header(c, "Connection", "close");
	return 0;
}

/* libevent makes a TLS record and a packet of each piece of the output, so of header and body: a short answer
 * becomes one piece. */
static void join_records(struct call *c)
{
	struct evbuffer *out = c->conn && c->conn->is_tls ? bufferevent_get_output(c->conn->bev) : NULL;

	if (out && evbuffer_get_length(out) <= RECORD_MAX)
		evbuffer_pullup(out, -1);
}

void call_buffer(struct call *c, int status, const char *type, struct evbuffer *b)
{
	if (c->method == HTTP_HEAD) /* evhttp would send it all the same */
		evbuffer_drain(b, evbuffer_get_length(b));
	if (begin_answer(c, status, type) == 0) {
		evhttp_send_reply(c->ev, status, NULL, b);
		join_records(c);
	}
	evbuffer_free(b);
}

static void free_ref(const void *data, size_t n, void *arg)
{
	(void)data;
	(void)n;
	free(arg);
}

/* Takes text. */
static void answer_text(struct call *c, int status, const char *type, char *text)
{
	struct evbuffer *b = evbuffer_new();

	evbuffer_add_reference(b, text, strlen(text), free_ref, text);
	call_buffer(c, status, type, b);
}

int call_known(struct call *c, struct err *e)
{
	struct http_conn *conn = c->conn;
	enum share_rc rc;

	if (!conn || !conn->stranger)
		return 0;
	rc = http_share_add(&conn->h->users, conn, c->who.user);
	if (rc == SHARE_OK) {
		http_conn_known(conn);
		return 0;
	}
	call_add_header(c, "Connection", "close");
	if (rc == SHARE_OWNER_FULL)
		return err_set(e, ERR_BUSY,
		               "you have too many connections (%u) that wait for an answer; end some of them, for "
		               "example followers of logs, then try again",
		               conn->h->users.each);
	return err_set(e, ERR_UNAVAILABLE, "too many connections of users wait for an answer; try again");
}

int call_fd(const struct call *c)
{
	return c->conn && c->conn->bev ? (int)bufferevent_getfd(c->conn->bev) : -1;
}

void call_json(struct call *c, int status, cJSON *body)
{
	char *text = json_text(body);

	cJSON_Delete(body);
	answer_text(c, status, "application/json", text);
}

void call_text(struct call *c, int status, const char *type, const char *text)
{
	answer_text(c, status, type, xstrdup(text));
}

void call_data(struct call *c, int status, const char *type, const void *static_data, size_t n)
{
	struct evbuffer *b = evbuffer_new();

	evbuffer_add_reference(b, static_data, n, NULL, NULL);
	call_buffer(c, status, type, b);
}

void call_copy(struct call *c, int status, const char *type, const void *data, size_t n)
{
	struct evbuffer *b = evbuffer_new();

	evbuffer_add(b, data, n);
	call_buffer(c, status, type, b);
}

void call_empty(struct call *c, int status)
{
	call_buffer(c, status, NULL, evbuffer_new());
}

/* ---- problems (RFC 9457) ---------------------------------------------------------------------- */

static const char *title_of(int status)
{
	static const struct {
		int status;
		const char *title;
	} titles[] = {{400, "Bad request"},
	              {401, "Not authenticated"},
	              {403, "Not allowed"},
	              {404, "Not found"},
	              {405, "Method not allowed"},
	              {408, "Too slow"},
	              {409, "Conflict"},
	              {413, "Too large"},
	              {414, "Address too long"},
	              {415, "Unsupported media type"},
	              {416, "Range not satisfiable"},
	              {417, "Expectation failed"},
	              {422, "Not supported"},
	              {429, "Too many requests"},
	              {431, "Header too large"},
	              {500, "Internal error"},
	              {501, "Not built yet"},
	              {502, "Protocol error"},
	              {503, "Unavailable"},
	              {504, "Timed out"},
	              {505, "HTTP version not supported"},
	              {507, "No space left"}};
	unsigned i;

	for (i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		if (titles[i].status == status)
			return titles[i].title;
	return status < 500 ? "Refused" : "Failed";
}

/* Several findings come as lines: the whole text as detail, and each line in a list for programs. */
static void add_errors(cJSON *o, const char *detail)
{
	cJSON *list;
	const char *p = detail, *end;

	if (!strchr(detail, '\n'))
		return;
	list = cJSON_AddArrayToObject(o, "errors");
	for (; *p; p = *end ? end + 1 : end) {
		char *line;

		end = strchrnul(p, '\n');
		if (end == p)
			continue;
		line = xstrndup(p, (size_t)(end - p));
		cJSON_AddItemToArray(list, cJSON_CreateString(line));
		free(line);
	}
}

cJSON *http_problem(int status, const char *detail, const char *hint)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "type", "about:blank");
	cJSON_AddStringToObject(o, "title", title_of(status));
	cJSON_AddNumberToObject(o, "status", status);
	cJSON_AddStringToObject(o, "detail", detail);
	add_errors(o, detail);
	if (hint)
		cJSON_AddStringToObject(o, "hint", hint);
	return o;
}

static void answer_problem(struct call *c, int status, cJSON *problem)
{
	char *text = json_text(problem);

	cJSON_Delete(problem);
	if (status == 401)
		call_add_header(c, "WWW-Authenticate", "Bearer realm=\"hearth\"");
	if (status == 503 || status == 429)
		call_add_header(c, "Retry-After", "1");
	answer_text(c, status, "application/problem+json", text);
}

void call_problem(struct call *c, int status, const char *hint, const char *fmt, ...)
{
	char *detail;
	va_list ap;

	va_start(ap, fmt);
	detail = xvasprintf(fmt, ap);
	va_end(ap);
	answer_problem(c, status, http_problem(status, detail, hint));
	free(detail);
}

void call_fail_with(struct call *c, int status, const struct err *e, const cJSON *extra)
{
	cJSON *problem, *m;

	if (status < 400 || status > 599)
		status = 500;
	problem = http_problem(status, e->text, NULL);
	cJSON_ArrayForEach (m, extra)
		if (m->string && !cJSON_HasObjectItem(problem, m->string))
			cJSON_AddItemToObject(problem, m->string, cJSON_Duplicate(m, 1));
	answer_problem(c, status, problem);
}

void call_fail(struct call *c, const struct err *e)
{
	call_fail_with(c, err_http_status(e->code), e, NULL);
}

/* ---- streams ---------------------------------------------------------------------------------- */

void call_stream_start(struct call *c, int status, const char *type, int64_t length)
{
	char text[24];

	if (length >= 0) {
		snprintf(text, sizeof(text), "%lld", (long long)length);
		call_add_header(c, "Content-Length", text);
	}
	if (begin_answer(c, status, type) < 0)
		return;
	if (length < 0 && c->ev->major == 1 && c->ev->minor == 0)
		call_add_header(c, "Connection", "close"); /* HTTP/1.0 knows the end by the close */
	c->streaming = 1;
	COUNT(c->http, streams, 1);
	evhttp_send_reply_start(c->ev, status, NULL);
}

static void on_written(struct evhttp_connection *evcon, void *arg)
{
	struct call *c = arg;

	(void)evcon;
	if (c->streaming && c->on_drain)
		c->on_drain(c);
}

void call_stream_put(struct call *c, struct evbuffer *b)
{
	if (!c->streaming)
		return;
	COUNT(c->http, bytes_streamed, evbuffer_get_length(b));
	evhttp_send_reply_chunk_with_cb(c->ev, b, on_written, c);
}

size_t call_stream_queued(const struct call *c)
{
	return c->streaming ? evbuffer_get_length(bufferevent_get_output(c->conn->bev)) : 0;
}

void call_stream_end(struct call *c)
{
	if (!c->streaming)
		return;
	c->on_gone = c->on_drain = NULL;
	evhttp_send_reply_end(c->ev);
}

void call_stream_abort(struct call *c)
{
	if (!c->streaming)
		return;
	c->on_gone = c->on_drain = NULL;
	http_conn_free(c->conn);
}

/* ---- upgrade ---------------------------------------------------------------------------------- */

struct bufferevent *call_take_over(struct call *c, const char *protocol, struct http_conn **out)
{
	struct http_conn *conn = c->conn;
	struct bufferevent *bev;

	if (!conn)
		return NULL;
	bev = conn->bev;
	begin_answer(c, 101, NULL);
	conn->taken = 1;
	evbuffer_remove_cb_entry(bufferevent_get_input(bev), conn->entry);
	conn->entry = NULL;
	bufferevent_setcb(bev, NULL, NULL, NULL, NULL);
	bufferevent_set_timeouts(bev, NULL, NULL);
	bufferevent_setwatermark(bev, EV_READ, 0, 0);
	evbuffer_add_printf(bufferevent_get_output(bev),
	                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n",
	                    protocol);
	bufferevent_incref(bev);
	*out = conn;
	return bev;
}
