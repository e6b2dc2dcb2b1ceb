/*
 * shimlab: see shimlab.h.
 */
#include "tests/lib/shimlab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

static unsigned n_labs;
static pid_t started[1024]; /* shims that were not released yet */
static unsigned n_started;
static pid_t starter;

/* A test that bails leaves nobody behind: a shim's end is its process's end. */
static void kill_started(void)
{
	for (unsigned i = 0; i < n_started && getpid() == starter; i++)
		kill(started[i], SIGKILL); /* our children, not reaped: the numbers are theirs */
}

static void remember(pid_t pid)
{
	if (!starter) {
		starter = getpid();
		atexit(kill_started);
	}
	if (getpid() == starter && n_started < sizeof(started) / sizeof(started[0]))
		started[n_started++] = pid;
}

static void forget(pid_t pid)
{
	for (unsigned i = 0; i < n_started; i++)
		if (started[i] == pid)
			started[i] = started[--n_started];
}

void lab_reap(struct lab *x)
{
	kill(x->id.pid, SIGKILL);
	waitpid(x->id.pid, NULL, 0);
	forget(x->id.pid);
	x->id.pid = 0;
}

char *lab_built(const char *path_in_build_tree)
{
	const char *top = getenv("HEARTH_TOP_BUILDDIR");
	char *path;

	if (!top)
		tap_bail("HEARTH_TOP_BUILDDIR is not set");
	path = xasprintf("%s/%s", top, path_in_build_tree);
	if (access(path, X_OK) < 0)
		tap_bail("%s is not built", path);
	return path;
}

const char *lab_shim(void)
{
	static char *path;

	if (!path)
		path =
		    getenv("HEARTH_TEST_SHIM") ? xstrdup(getenv("HEARTH_TEST_SHIM")) : lab_built("shim/hearth-shim");
	return path;
}

const char *lab_victim(void)
{
	static char *path;

	if (!path)
		path = lab_built("tests/unit/shim/shim_victim");
	return path;
}

static void add_args(struct strv *argv, va_list ap)
{
	const char *a;

	while ((a = va_arg(ap, const char *)))
		strv_add(argv, a);
}

void lab_init(struct lab *x, ...)
{
	struct err e;
	va_list ap;

	*x = (struct lab){.fd = -1};
	snprintf(x->dir, sizeof(x->dir), "%s/s%u", tap_tmpdir(), ++n_labs);
	snprintf(x->logdir, sizeof(x->logdir), "%s/log", x->dir);
	if (fs_mkdir_p(x->logdir, 0755, &e) < 0)
		tap_bail("%s", e.text);
	x->l.token = xasprintf("lab-%d-%u-%" PRIu64, (int)getpid(), n_labs, clock_boot_us(clock_real()));
	x->l.shim_token = xasprintf("shim-%s", x->l.token);
	x->l.kind = PROC_RANK;
	x->l.job = 17;
	x->l.attempt = 1;
	x->l.cwd = xstrdup(x->dir);
	x->l.logdir = xstrdup(x->logdir);
	x->l.grace_ms = 200;
	strv_add(&x->l.env, "PATH=/usr/local/bin:/usr/bin:/bin");
	strv_setenv(&x->l.env, "HEARTH_TOKEN_LAUNCH", x->l.token);
	strv_add(&x->l.argv, lab_victim());
	va_start(ap, x);
	add_args(&x->l.argv, ap);
	va_end(ap);
}

void lab_argv(struct lab *x, ...)
{
	va_list ap;

	strv_fini(&x->l.argv);
	va_start(ap, x);
	add_args(&x->l.argv, ap);
	va_end(ap);
}

void lab_connect(struct lab *x)
{
	struct err e;

	if (x->fd >= 0)
		close(x->fd);
	x->fd = shim_connect(x->dir, x->l.shim_token, LAB_MS, &e);
	if (x->fd < 0)
		tap_bail("connect: %s", e.text);
}

void lab_start(struct lab *x)
{
	struct err e;

	if (shim_launch_write(x->dir, &x->l, &e) < 0 || shim_start(lab_shim(), x->dir, LAB_MS, &x->id, &e) < 0)
		tap_bail("start: %s", e.text);
	remember(x->id.pid);
	lab_connect(x);
}

static int is_end(int state)
{
	return state == PS_EXITED || state == PS_FAILED;
}

/* PS_UNKNOWN: any end. */
static struct wm_shim_status *wait_state(struct lab *x, enum proc_state state)
{
	struct wm_shim_query q = {.watch = 1};
	uint64_t deadline = clock_boot_us(clock_real()) + LAB_MS * 1000ull, id;
	struct wm_shim_status *st;
	struct err e;
	uint16_t type;
	void *msg;
	int rc;

	if (shim_send(x->fd, WM_SHIM_QUERY, &q, LAB_WATCH_ID, NULL, 0, LAB_MS, &e) < 0)
		tap_bail("query: %s", e.text);
	while (clock_boot_us(clock_real()) < deadline) {
		rc = shim_recv(x->fd, &type, &id, &msg, LAB_MS, &e);
		if (rc <= 0)
			tap_bail("waiting for state %d: %s", (int)state, rc < 0 ? e.text : "nothing came");
		st = msg;
		if (type == WM_SHIM_STATUS && (st->state == state || (state == PS_UNKNOWN && is_end(st->state))))
			return st;
		if (type == WM_SHIM_STATUS && is_end(st->state))
			tap_bail("waited for state %d, got %d: exit %u signal %u %s", (int)state, st->state,
			         st->exit_code, st->signal, st->text);
		wire_free(type, msg);
	}
	tap_bail("state %d did not come", (int)state);
}

struct wm_shim_status *lab_wait(struct lab *x, enum proc_state state)
{
	return wait_state(x, state);
}

struct wm_shim_status *lab_wait_end(struct lab *x)
{
	return wait_state(x, PS_UNKNOWN);
}

int lab_until(int (*holds)(void *arg), void *arg)
{
	uint64_t deadline = clock_boot_us(clock_real()) + LAB_MS * 1000ull;

	while (!holds(arg)) {
		if (clock_boot_us(clock_real()) > deadline)
			return 0;
		poll(NULL, 0, 3);
	}
	return 1;
}

struct tail_arg {
	struct lab *x;
	const char *text;
};

static int tail_has(void *arg)
{
	struct tail_arg *a = arg;
	struct wm_shim_tail m = {.max_bytes = SHIM_TAIL_MAX};
	const struct wire_bytes *d;
	uint16_t type;
	struct err e;
	void *reply;
	int found;

	if (shim_call(a->x->fd, WM_SHIM_TAIL, &m, &type, &reply, LAB_MS, &e) < 0)
		tap_bail("tail: %s", e.text);
	if (type != WM_SHIM_DATA)
		tap_bail("tail answered %s", wire_name(type));
	d = &((struct wm_shim_data *)reply)->data;
	found = d->n && memmem(d->data, d->n, a->text, strlen(a->text));
	wire_free(type, reply);
	return found;
}

void lab_wait_output(struct lab *x, const char *text)
{
	struct tail_arg a = {.x = x, .text = text};

	if (!lab_until(tail_has, &a))
		tap_bail("'%s' was never printed", text);
}

int lab_ok(struct lab *x, uint16_t type, const void *msg, char **text)
{
	uint16_t reply_type;
	struct wm_shim_ok *r;
	struct err e;
	void *reply;
	int code;

	if (shim_call(x->fd, type, msg, &reply_type, &reply, LAB_MS, &e) < 0)
		tap_bail("%s: %s", wire_name(type), e.text);
	if (reply_type != WM_SHIM_OK)
		tap_bail("%s answered by %s", wire_name(type), wire_name(reply_type));
	r = reply;
	code = (int)r->code;
	if (text)
		*text = xstrdup(r->text);
	wire_free(reply_type, reply);
	return code;
}

int lab_go(struct lab *x)
{
	char none[] = "";
	struct wm_shim_go m = {.cwd = none};

	return lab_ok(x, WM_SHIM_GO, &m, NULL);
}

int lab_quit(struct lab *x, uint32_t grace_ms)
{
	struct wm_shim_quit m = {.grace_ms = grace_ms};

	return lab_ok(x, WM_SHIM_QUIT, &m, NULL);
}

int lab_signal(struct lab *x, int signo, int only_if_caught)
{
	struct wm_shim_signal m = {.signal = (uint32_t)signo, .only_if_caught = (uint8_t)only_if_caught};

	return lab_ok(x, WM_SHIM_SIGNAL, &m, NULL);
}

struct output {
	struct lab *x;
	uint32_t stream;
	char *data;
	size_t n;
	uint64_t next, gap;
};

static uint64_t be(const uint8_t *p, int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static void append(struct output *o, const char *p, size_t n)
{
	o->data = xrealloc(o->data, o->n + n + 1);
	memcpy(o->data + o->n, p, n);
	o->n += n;
	o->data[o->n] = '\0';
}

static int add_segment(const char *name, void *arg)
{
	struct output *o = arg;
	cleanup_free char *log = xasprintf("%s/%s", o->x->logdir, name);
	cleanup_free char *idx = xasprintf("%s/%.24s.idx", o->x->logdir, name);
	cleanup_free char *data = NULL, *rec = NULL;
	uint64_t offset, from, to, last_time = 0;
	size_t n, n_rec;
	struct err e;

	if (strlen(name) != 28 || strcmp(name + 24, ".log") != 0 || sscanf(name, "out.%" SCNu64, &offset) != 1)
		return 0;
	if (fs_read_file(log, 1u << 30, &data, &n, &e) < 0 || fs_read_file(idx, 1u << 30, &rec, &n_rec, &e) < 0)
		tap_bail("%s", e.text);
	if (n_rec % 16 || offset < o->next)
		tap_bail("%s: index of %zu bytes, segment at %" PRIu64 ", expected %" PRIu64, name, n_rec, offset,
		         o->next);
	o->gap += offset - o->next;
	o->next = offset + n;
	for (size_t i = 0; i < n_rec; i += 16) {
		const uint8_t *r = (const uint8_t *)rec + i;

		from = be(r, 4);
		to = i + 16 < n_rec ? be(r + 16, 4) : n;
		if ((i == 0 && from != 0) || to < from || from > n || be(r + 4, 8) < last_time)
			tap_bail("%s: index record %zu is out of order", name, i / 16);
		last_time = be(r + 4, 8);
		if (!o->stream || be(r + 12, 4) == o->stream)
			append(o, data + from, (to < n ? to : n) - from);
	}
	return 0;
}

char *lab_output(struct lab *x, uint32_t stream, size_t *n, uint64_t *gap)
{
	struct output o = {.x = x, .stream = stream};
	struct err e;

	append(&o, "", 0);
	if (fs_each(x->logdir, add_segment, &o, &e) < 0)
		tap_bail("%s", e.text);
	if (n)
		*n = o.n;
	if (gap)
		*gap = o.gap;
	return o.data;
}

int lab_count(struct lab *x)
{
	struct err e;
	int n = proc_count_env("HEARTH_TOKEN_LAUNCH", x->l.token, &e);

	if (n < 0)
		tap_bail("count: %s", e.text);
	return n;
}

static int none_left(void *arg)
{
	return lab_count(arg) == 0;
}

static int ended(void *arg)
{
	struct lab *x = arg;
	struct err e;
	struct shim_state s;
	int done;

	if (shim_state_read(x->dir, &s, &e) < 0)
		tap_bail("%s", e.text);
	done = is_end(s.st.state);
	shim_state_fini(&s);
	return done;
}

void lab_end(struct lab *x)
{
	struct wm_shim_release release = {0};
	cleanup_free char *ctl = xasprintf("%s/ctl", x->dir);
	cleanup_free char *state = xasprintf("%s/state", x->dir);
	int status;

	if (x->id.pid) {
		lab_connect(x);
		lab_quit(x, 0);
		if (!lab_until(ended, x))
			tap_bail("the shim does not end its process");
		if (lab_ok(x, WM_SHIM_RELEASE, &release, NULL) != 0)
			tap_bail("release was refused");
		if (waitpid(x->id.pid, &status, 0) != x->id.pid || status != 0)
			tap_bail("the shim ended with status %#x", (unsigned)status);
		forget(x->id.pid);
		if (access(ctl, F_OK) == 0 || access(state, F_OK) == 0)
			tap_bail("a released shim left its files");
	}
	ok(lab_until(none_left, x), "nothing of the launch is left");
	if (x->fd >= 0)
		close(x->fd);
	shim_launch_fini(&x->l);
	*x = (struct lab){.fd = -1};
}
