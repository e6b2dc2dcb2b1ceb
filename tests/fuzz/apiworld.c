/*
 * apiworld: see the header. A connection serves one request, so that an answer ends where the connection
 * does.
 */
#include "tests/fuzz/apiworld.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/server.h"
#include "tests/lib/tap.h"

#define ANSWER_MAX (64u << 20)
#define LIMIT_US   30000000u

static struct apiworld *logged; /* the log has one sink for all threads */

static void note_errors(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level == LOG_LVL_ERROR && logged) {
		logged->errors++;
		snprintf(logged->error, sizeof logged->error, "%s", line);
	}
}

static void on_request(struct request *rq, void *arg)
{
	struct apiworld *a = arg;

	core_request(a->w->core, rq);
	world_turn(a->w);
}

static void on_event(struct world *w, const struct event_row *ev, void *arg)
{
	struct apiworld *a = arg;

	(void)w;
	if (a->s)
		server_notice(a->s, ev);
}

struct apiworld *apiworld_create(void)
{
	static unsigned n;
	struct apiworld *a = xcalloc(1, sizeof *a);
	struct server_ops ops = {.request = on_request, .arg = a};
	struct server_config c = {
	    .listen = "127.0.0.1:0", .io_threads = 1, .cluster = "test", .admin_user = "ada"};
	cleanup_free char *db = NULL;
	struct err e;

	a->w = world_create(1);
	logged = a;
	log_set_sink(note_errors, NULL);
	a->w->on_event = on_event;
	a->w->arg = a;
	a->dir = xasprintf("%s/api%u", tap_tmpdir(), n++);
	a->socket = xasprintf("%s/hearthd.sock", a->dir);
	db = xasprintf("%s/hearth.db", a->dir);
	if (fs_mkdir_p(a->dir, 0700, &e) < 0 || (symlink(a->w->path, db) < 0 && err_sys(&e, errno, "%s", db) < 0))
		tap_bail("%s", e.text);
	a->loop = loop_create();
	c.data_dir = a->dir;
	a->s = server_start(&c, a->loop, &ops, &e);
	if (!a->s)
		tap_bail("%s", e.text);
	return a;
}

void apiworld_destroy(struct apiworld *a)
{
	if (!a)
		return;
	server_stop(a->s);
	loop_destroy(a->loop);
	world_destroy(a->w);
	fs_rm_rf(a->dir, NULL);
	logged = NULL;
	free(a->socket);
	free(a->dir);
	free(a);
}

/* ---- one request ------------------------------------------------------------------------------ */

static void put_target(struct buf *b, const char *target)
{
	char hex[4];

	for (; *target; target++) {
		unsigned char c = (unsigned char)*target;

		if (c > 0x20 && c < 0x7f) {
			buf_put(b, target, 1);
		} else {
			snprintf(hex, sizeof hex, "%%%02X", c);
			buf_put(b, hex, 3);
		}
	}
}

static void put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

static int send_request(struct apiworld *a, const struct buf *b)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = 30};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const uint8_t *p = buf_head(b);
	size_t left = buf_left(b);
	ssize_t k = 0;

	snprintf(to.sun_path, sizeof to.sun_path, "%s", a->socket);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
		tap_bail("connect: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	for (; left; p += k, left -= (size_t)k) {
		k = send(fd, p, left, MSG_NOSIGNAL);
		if (k <= 0)
			break; /* refused before it was whole: the answer says why */
	}
	return fd;
}

struct reading {
	struct buf in;
	int done;
};

static void on_readable(int fd, int what, void *arg)
{
	static char piece[65536];
	struct reading *r = arg;
	ssize_t k = recv(fd, piece, sizeof piece, MSG_DONTWAIT);

	(void)what;
	if (k < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (k > 0 && buf_left(&r->in) + (size_t)k < ANSWER_MAX)
		buf_put(&r->in, piece, (size_t)k);
	else
		r->done = 1;
}

/* An event stream may go on for ever. */
static int is_stream(const struct buf *in)
{
	const char *head = buf_left(in) ? (const char *)buf_head(in) : "";
	const char *end = memmem(head, buf_left(in), "\r\n\r\n", 4);

	return end && memmem(head, (size_t)(end - head), "text/event-stream", 17);
}

static void unchunk(struct api_answer *out)
{
	char *from = out->body, *to = out->body, *end = out->body + out->body_n;

	while (from < end) {
		size_t n = strtoul(from, &from, 16);

		if (n == 0 || from + 2 > end || n > (size_t)(end - from - 2))
			break;
		memmove(to, from + 2, n);
		to += n;
		from += 2 + n + 2;
	}
	out->body_n = (size_t)(to - out->body);
	*to = '\0';
}

static void take_apart(const struct buf *in, struct api_answer *out)
{
	const char *all = buf_left(in) ? (const char *)buf_head(in) : "";
	size_t n = buf_left(in);
	const char *end = memmem(all, n, "\r\n\r\n", 4);

	if (!end)
		return;
	out->head = xstrndup(all, (size_t)(end - all));
	if (sscanf(out->head, "HTTP/1.1 %3d", &out->status) != 1)
		out->status = 0;
	out->body_n = n - (size_t)(end - all) - 4;
	out->body = xmalloc(out->body_n + 1);
	memcpy(out->body, end + 4, out->body_n);
	out->body[out->body_n] = '\0';
	if (strcasestr(out->head, "\r\ntransfer-encoding: chunked"))
		unchunk(out);
}

int apiworld_ask(struct apiworld *a, const char *method, const char *target, const char *key,
                 const void *body, size_t body_n, struct api_answer *out)
{
	struct reading r = {0};
	struct loop_fd *watch;
	struct buf b;
	char line[200];
	uint64_t until = clock_boot_us(clock_real()) + LIMIT_US;
	/* What follows a log waits for more of it, with or without its header. */
	int fd, late, follows = !strcmp(method, "GET") && strstr(target, "follow");

	memset(out, 0, sizeof *out);
	buf_init(&b, 1u << 20);
	buf_init(&r.in, ANSWER_MAX);
	put_text(&b, method);
	put_text(&b, " ");
	put_target(&b, target);
	put_text(&b, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
	if (key) {
		snprintf(line, sizeof line, "Idempotency-Key: %.100s\r\n", key);
		put_text(&b, line);
	}
	if (a->bearer) {
		snprintf(line, sizeof line, "Authorization: Bearer %.150s\r\n", a->bearer);
		put_text(&b, line);
	}
	if (body_n) {
		snprintf(line, sizeof line, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_n);
		put_text(&b, line);
	}
	put_text(&b, "\r\n");
	buf_put(&b, body, body_n);
	fd = send_request(a, &b);
	watch = loop_fd_create(a->loop, fd, LOOP_READ, on_readable, &r);
	while (!r.done && !out->endless && clock_boot_us(clock_real()) < until) {
		loop_run_once(a->loop, follows ? 10 : 1000);
		out->endless = !r.done && (follows || is_stream(&r.in));
	}
	late = !r.done && !out->endless;
	take_apart(&r.in, out);
	loop_fd_destroy(watch);
	close(fd);
	loop_run_once(a->loop, 0);
	buf_fini(&r.in);
	buf_fini(&b);
	return late ? -1 : 0;
}

void api_answer_fini(struct api_answer *out)
{
	free(out->head);
	free(out->body);
}
