/*
 * inside: see inside.h.
 *
 * The thread gives the shim its go over a mirroring connection, so the shim ends the program when this
 * connection does. It follows the output in the files that the shim writes, as the tailer does with those of
 * ranks; a program that writes faster than the agent reads loses the oldest lines and never waits.
 */
#include "agent/stage/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/logs/segments.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/os/fsutil.h"

#define TOKEN_DIGITS  32
#define READY_MS      15000u
#define SEND_MS       10000u
#define POLL_MS       100u
#define TICK_US       1000000u
#define KILLED_US     15000000u /* from the order to end to the end: longer than a shim tries */
#define GONE_MS       5000      /* that a released shim has to end */
#define SEGMENT_BYTES (1024u * 1024)
#define LOG_MAX       (64u * 1024 * 1024)
#define CHUNK         16384
#define CHUNKS        64 /* in a turn */

enum { ID_WATCH = 1, ID_GO, ID_QUIT, ID_RELEASE };

struct inside {
	char *shim_path, *dir, *logdir;
	struct shim_launch order;
	atomic_int stop, busy;
};

/* One program. */
struct visit {
	struct inside *in;
	struct inside_run *r;
	struct proc_id shim;
	int fd; /* to the shim; -1 none */
	struct segments segments;
	struct segment_cursor at;
	struct last_line last;
	uint64_t started_us, heard_us, ticked_us;
	uint64_t quit_us; /* when it got the order to end; 0: not */
	int ended;        /* its shim said so */
	struct err why;   /* of that order */
};

struct inside *inside_create(const char *shim_path, const char *dir, const char *logdir,
                             struct shim_launch *order)
{
	struct inside *in = xcalloc(1, sizeof(*in));

	in->shim_path = xstrdup(shim_path);
	in->dir = xstrdup(dir);
	in->logdir = xstrdup(logdir);
	in->order = *order;
	*order = (struct shim_launch){0};
	return in;
}

void inside_destroy(struct inside *in)
{
	if (!in)
		return;
	shim_launch_fini(&in->order);
	free(in->shim_path);
	free(in->dir);
	free(in->logdir);
	free(in);
}

void inside_stop(struct inside *in)
{
	atomic_store(&in->stop, 1);
}

int inside_busy(const struct inside *in)
{
	return atomic_load(&in->busy);
}

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

/* ---- the shim -------------------------------------------------------------------------------------- */

static int make_folders(const struct inside *in, struct err *e)
{
	if (fs_rm_rf(in->dir, e) < 0 || fs_rm_rf(in->logdir, e) < 0)
		return -1;
	if (mkdir(in->dir, 0711) < 0 || chmod(in->dir, 0711) < 0)
		return err_sys(e, errno, "%s", in->dir);
	return fs_mkdir_p(in->logdir, 0700, e);
}

/* The order of this program, in the shim's folder. */
static int write_order(const struct inside *in, const struct inside_run *r, const char *token, struct err *e)
{
	struct shim_launch l = in->order; /* its strings stay the launch's */
	int rc;

	l.argv = l.env = (struct strv){0};
	for (size_t i = 0; r->argv[i]; i++)
		strv_add(&l.argv, r->argv[i]);
	for (size_t i = 0; i < r->env->n; i++)
		strv_add(&l.env, r->env->v[i]);
	strv_setenv(&l.env, "HEARTH_TOKEN_LAUNCH", in->order.token);
	l.shim_token = (char *)(uintptr_t)token;
	l.cwd = (char *)(uintptr_t)r->cwd;
	l.logdir = in->logdir;
	l.wait_go = 1;
	l.segment_bytes = SEGMENT_BYTES;
	l.max_bytes = LOG_MAX;
	l.grace_ms = 0;
	rc = shim_launch_write(in->dir, &l, e);
	strv_fini(&l.argv);
	strv_fini(&l.env);
	return rc;
}

static int send_go(int fd, struct err *e)
{
	char none[] = "";
	struct wm_shim_query query = {.watch = 1};
	struct wm_shim_go go = {.cwd = none, .mirror = 1};

	if (shim_send(fd, WM_SHIM_QUERY, &query, ID_WATCH, NULL, 0, SEND_MS, e) < 0)
		return -1;
	return shim_send(fd, WM_SHIM_GO, &go, ID_GO, NULL, 0, SEND_MS, e);
}

static int start_visit(struct visit *v, struct err *e)
{
	const struct inside *in = v->in;
	char token[TOKEN_DIGITS + 1];

	random_hex(token, TOKEN_DIGITS);
	if (make_folders(in, e) < 0 || write_order(in, v->r, token, e) < 0 ||
	    shim_start(in->shim_path, in->dir, READY_MS, &v->shim, e) < 0)
		return -1;
	v->fd = shim_connect(in->dir, token, SEND_MS, e);
	if (v->fd < 0)
		return -1;
	/* The last look before something runs: whoever stopped us waits until this one is not busy any more. */
	if (atomic_load(&in->stop))
		return err_set(e, ERR_UNAVAILABLE, "%s: stopped", v->r->argv[0]);
	return send_go(v->fd, e);
}

/* The shim is our child. A released one ends by itself; any other is killed and takes its program with it. */
static void end_visit(struct visit *v)
{
	struct wm_shim_release m = {0};
	struct pollfd p = {.events = POLLIN};

	if (v->shim.pid == 0)
		return;
	p.fd = proc_open(&v->shim, NULL);
	if (v->ended)
		shim_send(v->fd, WM_SHIM_RELEASE, &m, ID_RELEASE, NULL, 0, SEND_MS, NULL);
	if (p.fd >= 0 && (!v->ended || poll(&p, 1, GONE_MS) <= 0))
		proc_signal(p.fd, SIGKILL, NULL);
	while (waitpid(v->shim.pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	if (p.fd >= 0)
		close(p.fd);
}

/* ---- output ----------------------------------------------------------------------------------------- */

static void pass_on(struct visit *v, const char *p, size_t n)
{
	last_line_take(&v->last, p, n);
	v->heard_us = now_us();
	if (v->r->output)
		v->r->output(p, n, v->r->arg);
}

static void say_gap(struct visit *v, uint64_t gap)
{
	char line[96];
	int n = snprintf(line, sizeof(line), "\n[%" PRIu64 " bytes of output were dropped]\n", gap);

	if (v->r->output)
		v->r->output(line, (size_t)n, v->r->arg);
}

/* 1: there is more. */
static int read_output(struct visit *v)
{
	char buf[CHUNK];
	uint64_t gap;
	ptrdiff_t n = 0;

	if (segments_scan(&v->segments, NULL) < 0)
		return 0;
	for (int i = 0; i < CHUNKS; i++) {
		n = segment_cursor_read(&v->at, buf, sizeof(buf), NULL, &gap, NULL);
		if (gap)
			say_gap(v, gap);
		if (n <= 0)
			break;
		pass_on(v, buf, (size_t)n);
	}
	segments_remove_before(&v->segments, v->at.pos);
	return n > 0;
}

/* ---- until it ends ----------------------------------------------------------------------------------- */

/* Orders its end, once. */
static void order_end(struct visit *v, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void order_end(struct visit *v, enum err_code code, const char *fmt, ...)
{
	struct wm_shim_quit m = {.grace_ms = 0, .by = BY_ORDER};
	cleanup_free char *text = NULL;
	va_list ap;

	if (v->quit_us)
		return;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	err_set(&v->why, code, "%s", text);
	v->quit_us = now_us();
	shim_send(v->fd, WM_SHIM_QUIT, &m, ID_QUIT, NULL, 0, SEND_MS, NULL);
}

/* What may end it before it ends by itself. */
static void check_end(struct visit *v)
{
	uint64_t now = now_us();
	const char *name = v->r->argv[0];

	if (atomic_load(&v->in->stop))
		order_end(v, ERR_UNAVAILABLE, "%s: stopped", name);
	if (v->r->timeout_ms && now - v->started_us > v->r->timeout_ms * 1000)
		order_end(v, ERR_TIMEOUT, "%s: still running after %" PRIu64 " s", name, v->r->timeout_ms / 1000);
	if (now - v->ticked_us < TICK_US)
		return;
	v->ticked_us = now;
	if (v->r->tick && v->r->tick((now - v->heard_us) / 1000, v->r->arg) < 0)
		order_end(v, ERR_UNAVAILABLE, "%s: stopped", name);
}

static int has_ended(const struct wm_shim_status *st)
{
	return st->state == PS_EXITED || st->state == PS_FAILED;
}

/* Its last status, by wire_free; NULL: it cannot be known. */
static struct wm_shim_status *await_end(struct visit *v, struct err *e)
{
	uint16_t type;
	uint64_t id;
	void *msg;
	int rc;

	while (!v->quit_us || now_us() - v->quit_us < KILLED_US) {
		rc = shim_recv(v->fd, &type, &id, &msg, POLL_MS, e);
		if (rc < 0)
			return NULL;
		if (rc > 0 && type == WM_SHIM_STATUS && has_ended(msg))
			return msg;
		if (rc > 0)
			wire_free(type, msg);
		read_output(v);
		check_end(v);
	}
	err_set(e, ERR_TIMEOUT, "%s: does not end although killed", v->r->argv[0]);
	return NULL;
}

static int judge_end(struct visit *v, const struct wm_shim_status *st, struct err *e)
{
	const char *name = v->r->argv[0], *more = st->text[0] ? "; " : "";

	snprintf(v->r->note, sizeof(v->r->note), "%s", st->text);
	if (v->quit_us)
		return err_set(e, v->why.code, "%s", v->why.text);
	if (st->state == PS_FAILED)
		return err_set(e, ERR_IO, "%s: %s", name, st->text);
	if (st->signal)
		return err_set(e, ERR_IO, "%s: ended by %s%s%s", name, proc_signal_name((int)st->signal), more,
		               st->text);
	if (st->exit_code)
		return err_set(e, ERR_IO, "%s: exit status %u%s%s", name, st->exit_code, more, st->text);
	return 0;
}

static int follow_visit(struct visit *v, struct err *e)
{
	struct wm_shim_status *st = await_end(v, e);
	int rc;

	if (!st)
		return err_wrap(e, "%s", v->r->argv[0]);
	v->ended = 1;
	while (read_output(v))
		continue;
	last_line_end(&v->last);
	memcpy(v->r->last_line, v->last.text, sizeof(v->r->last_line));
	rc = judge_end(v, st, e);
	wire_free(WM_SHIM_STATUS, st);
	return rc;
}

static int visit(struct inside *in, struct inside_run *r, struct err *e)
{
	struct visit v = {.in = in, .r = r, .fd = -1, .started_us = now_us()};
	int rc;

	v.heard_us = v.ticked_us = v.started_us;
	rc = start_visit(&v, e);
	if (rc == 0 && (rc = segments_open(&v.segments, in->logdir, e)) == 0) {
		segment_cursor_init(&v.at, &v.segments, 0);
		rc = follow_visit(&v, e);
		segment_cursor_fini(&v.at);
		segments_close(&v.segments);
	}
	end_visit(&v);
	if (v.fd >= 0)
		close(v.fd);
	fs_rm_rf(in->logdir, NULL);
	fs_rm_rf(in->dir, NULL);
	return rc;
}

int inside_run(struct inside *in, struct inside_run *r, struct err *e)
{
	int rc;

	r->last_line[0] = '\0';
	r->note[0] = '\0';
	atomic_store(&in->busy, 1);
	/* After the store: inside_stop and inside_busy come in the other order. */
	rc = atomic_load(&in->stop) ? err_set(e, ERR_UNAVAILABLE, "%s: stopped", r->argv[0]) : visit(in, r, e);
	atomic_store(&in->busy, 0);
	return rc;
}
