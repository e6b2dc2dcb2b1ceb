/*
 * serve: see serve.h.
 */
#include "agent/files/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/serve_int.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define LOOK_US 20000u /* between two looks at the channel */

typedef int (*serve_fn)(struct server *s, const struct files_msg *m, struct files_msg *reply, struct err *e);

static const serve_fn handlers[FILES_TYPES] = {
    [FILES_LOOK] = serve_look,       [FILES_OPEN] = serve_open,     [FILES_READ] = serve_read,
    [FILES_OUTPUT] = serve_output,   [FILES_STEPS] = serve_steps,   [FILES_COPY] = serve_copy,
    [FILES_MEASURE] = serve_measure, [FILES_PUT] = serve_put,       [FILES_STORE] = serve_store,
    [FILES_KEEP] = serve_keep,       [FILES_CALM] = serve_calm,     [FILES_WATCH] = serve_watch,
    [FILES_HOLD] = serve_hold,       [FILES_DIGEST] = serve_digest, [FILES_KEPT] = serve_kept,
    [FILES_DROP] = serve_drop,       [FILES_CHECK] = serve_check,
};

/* ---- while a request is at work --------------------------------------------------------------------- */

/* The agent sends nothing then, but for WANTED: so something that can be read is its end. */
int server_is_stopped(struct server *s)
{
	char byte;
	ssize_t n = recv(s->channel.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		s->stopped = 1;
	return s->stopped;
}

static int send_progress(struct server *s, struct err *e)
{
	struct files_msg m = {.type = FILES_PROGRESS, .v = {s->unsent}, .fd = -1};

	if (s->unsent == 0)
		return 0;
	s->unsent = 0;
	return files_send(&s->channel, &m, e);
}

/* Sleeps for what was done too fast, in short parts. */
static void keep_rate(struct server *s, uint64_t bytes, uint64_t now)
{
	if (!s->rate || !bytes)
		return;
	if (s->paid_us < now)
		s->paid_us = now;
	s->paid_us += bytes * 1000000u / s->rate;
	while (s->paid_us > now + LOOK_US && !server_is_stopped(s)) {
		uint64_t left = s->paid_us - now;

		poll(NULL, 0, (int)((left < 100000 ? left : 100000) / 1000));
		now = clock_boot_us(clock_real());
	}
}

int server_step(uint64_t bytes, void *arg)
{
	struct server *s = arg;
	uint64_t now = clock_boot_us(clock_real());

	s->unsent += bytes;
	keep_rate(s, bytes, now);
	if (now - s->looked_us < LOOK_US)
		return s->stopped ? -1 : 0;
	s->looked_us = now;
	if (server_is_stopped(s) || send_progress(s, NULL) < 0)
		s->stopped = 1;
	return s->stopped ? -1 : 0;
}

int server_send_data(struct server *s, const void *p, size_t n, struct err *e)
{
	for (size_t at = 0; at < n;) {
		uint32_t part = n - at < FILES_BYTES ? (uint32_t)(n - at) : FILES_BYTES;
		struct files_msg m = {.type = FILES_DATA, .bytes = (const char *)p + at, .n_bytes = part, .fd = -1};

		if (files_send(&s->channel, &m, e) < 0)
			return -1;
		at += part;
	}
	return 0;
}

int server_open_below(const struct files_msg *m, const char *dir, struct err *e)
{
	struct stat st;
	int fd;

	if (m->fd < 0)
		return err_set(e, ERR_PROTOCOL, "%s: its folder is missing", dir);
	fd = fs_open_named(m->fd, dir, O_RDONLY, &st, e);
	if (fd < 0 || S_ISDIR(st.st_mode))
		return fd;
	close(fd);
	return err_set(e, ERR_INVALID, "%s: is not a folder", dir);
}

/* ---- requests --------------------------------------------------------------------------------------- */

static int answer(struct server *s, const struct files_msg *m, struct err *e)
{
	struct files_msg reply = {.type = FILES_END, .fd = -1};
	struct err why = {0};
	int rc;

	s->unsent = 0;
	if (handlers[m->type](s, m, &reply, &why) < 0) {
		reply.v[0] = why.code ? why.code : ERR_INTERNAL;
		reply.texts[0] = why.text;
	}
	rc = send_progress(s, e);
	if (rc == 0)
		rc = files_send(&s->channel, &reply, e);
	if (reply.fd >= 0)
		close(reply.fd);
	return rc;
}

int files_serve(int fd, struct err *e)
{
	struct server s = {.looked_us = 0, .held = -1};
	struct files_msg m = {.type = FILES_HELLO, .v = {FILES_VERSION}, .fd = -1};
	int rc;

	files_channel_init(&s.channel, fd);
	rc = files_send(&s.channel, &m, e);
	while (rc == 0 && (rc = files_recv(&s.channel, -1, &m, e)) == 0) {
		if (handlers[m.type])
			rc = answer(&s, &m, e);
		else if (m.type != FILES_HURRY) /* one that came after the end of its wait */
			rc = err_set(e, ERR_PROTOCOL, "no request: type %d", m.type);
		if (m.fd >= 0)
			close(m.fd);
	}
	server_unwatch(&s);
	if (s.held >= 0)
		close(s.held);
	files_channel_fini(&s.channel);
	return rc < 0 && e->code == ERR_UNAVAILABLE ? 0 : rc;
}

void files_refuse(int fd, const struct err *why)
{
	struct files_msg m = {.type = FILES_END, .texts = {why->text}, .v = {why->code}, .fd = -1};
	struct files_channel c;

	files_channel_init(&c, fd);
	files_send(&c, &m, NULL);
	files_channel_fini(&c);
}
