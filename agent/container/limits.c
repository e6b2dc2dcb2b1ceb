/*
 * limits: see limits.h.
 */
#include "agent/container/limits.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "agent/base/worker.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/os/fsutil.h"

#define PERIOD_MS      500
#define DISK_PERIOD_US (2 * 1000000ull)
#define DISK_QUIET_US                                                                                        \
	(30 * 1000000ull)  /* looked at least so often, also when the file system did not fill                   \
	                    */
#define SHARE       20 /* at most 1/20 of the time is spent on looking */
#define ENVIRON_MAX (8 * 1024 * 1024)
#define MARK        "HEARTH_TOKEN_LAUNCH="

struct watch { /* the thread's */
	struct cgroup cg;
	char *token, *dir;
	const char *what;
	uint64_t memory_bytes, disk_bytes;
	uint32_t period_ms;
	uint64_t next_disk_us, last_disk_us, last_used;
	void (*on_limit)(const char *text, int oom, void *arg);
	void *arg;
};

struct limits {
	struct workers *workers;
};

/* ---- memory ------------------------------------------------------------------------------------------- */

static int holds_mark(const char *env, size_t n, const char *mark)
{
	size_t len = strlen(mark);

	for (const char *p = env; p < env + n; p += strlen(p) + 1) /* terminated by fs_read_file */
		if (strncmp(p, mark, len + 1) == 0)
			return 1;
	return 0;
}

struct finder {
	const char *mark;
	pid_t *v;
	int n, cap;
};

static int look_at(const char *name, void *arg)
{
	struct finder *f = arg;
	char path[64], *env;
	size_t n;

	if (!isdigit((unsigned char)name[0]) || strlen(name) > 10)
		return 0;
	snprintf(path, sizeof(path), "/proc/%s/environ", name);
	if (fs_read_file(path, ENVIRON_MAX, &env, &n, NULL) < 0)
		return 0;
	if (holds_mark(env, n, f->mark)) {
		if (f->n == f->cap) {
			f->cap = f->cap ? 2 * f->cap : 32;
			f->v = xreallocarray(f->v, (size_t)f->cap, sizeof(*f->v));
		}
		f->v[f->n++] = (pid_t)atoi(name);
	}
	free(env);
	return 0;
}

int limits_pids_of(const char *token, pid_t **pids)
{
	cleanup_free char *mark = xasprintf(MARK "%s", token);
	struct finder f = {.mark = mark};

	fs_each("/proc", look_at, &f, NULL);
	*pids = f.v;
	return f.n;
}

/* Proportional share: pages that several processes map are counted once in all. */
static uint64_t pss_of(pid_t pid)
{
	char path[64], *text, *at;
	uint64_t kib = 0;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if (fs_read_file(path, 65536, &text, &n, NULL) < 0)
		return 0;
	at = strstr(text, "\nPss:");
	if (at)
		sscanf(at + 5, "%" SCNu64, &kib);
	free(text);
	return kib * 1024;
}

/* Cheap and never less than the truth: what several share is counted for each. */
static uint64_t rss_of(pid_t pid)
{
	char path[64], *text;
	uint64_t resident = 0;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	if (fs_read_file(path, 256, &text, &n, NULL) < 0)
		return 0;
	sscanf(text, "%*u %" SCNu64, &resident);
	free(text);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of memory that the processes hold: private and shared memory of their own making, by PSS when that is
 * readable. */
static uint64_t limits_memory_of(const pid_t *pids, int n)
{
	uint64_t sum = 0, one;

	for (int i = 0; i < n; i++) {
		one = pss_of(pids[i]);
		sum += one ? one : rss_of(pids[i]);
	}
	return sum;
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

struct verdict {
	char text[TEXT_SIZE];
	int oom;
};

static void tell_limit(void *arg, void *data)
{
	struct watch *w = arg;
	struct verdict *v = data;

	w->on_limit(v->text, v->oom, w->arg);
}

static void post_limit(struct worker *w, const char *what, uint64_t used, uint64_t limit, int oom)
{
	struct verdict *v = xcalloc(1, sizeof(*v));
	struct text text = text_on(v->text, sizeof(v->text));
	char a[32], b[32];

	text_add(&text, "%s: %s used, %s allowed", what, str_size(used, a, sizeof(a)),
	         str_size(limit, b, sizeof(b)));
	v->oom = oom;
	worker_post(w, tell_limit, v, free);
}

/* 1: over. */
static int check_memory(struct watch *wa, uint64_t *used)
{
	pid_t *pids = NULL;
	uint64_t sum = 0;
	int n;

	if (!wa->memory_bytes)
		return 0;
	n = cgroup_pids(&wa->cg, &pids);
	if (n < 0)
		n = limits_pids_of(wa->token, &pids);
	for (int i = 0; i < n; i++)
		sum += rss_of(pids[i]);
	if (sum > wa->memory_bytes) /* the dear way only when the cheap one says too much */
		sum = limits_memory_of(pids, n);
	free(pids);
	*used = sum;
	return sum > wa->memory_bytes;
}

static int check_disk(struct watch *wa, uint64_t *used)
{
	uint64_t now = clock_boot_us(clock_real()), fs_used, took, end;
	struct statvfs st;
	int64_t bytes;

	if (!wa->disk_bytes || now < wa->next_disk_us)
		return 0;
	wa->next_disk_us = now + DISK_PERIOD_US;
	/* One call tells whether anything was written at all; walking the tree may take long. */
	if (statvfs(wa->dir, &st) < 0)
		return 0;
	fs_used = (uint64_t)st.f_blocks - (uint64_t)st.f_bfree;
	if (wa->last_disk_us && fs_used <= wa->last_used && now - wa->last_disk_us < DISK_QUIET_US)
		return 0;
	bytes = fs_tree_bytes(wa->dir, NULL);
	end = clock_boot_us(clock_real());
	took = end - now;
	wa->last_disk_us = now;
	wa->last_used = fs_used;
	if (took * SHARE > DISK_PERIOD_US)
		wa->next_disk_us = end + took * SHARE;
	*used = bytes < 0 ? 0 : (uint64_t)bytes;
	return bytes >= 0 && *used > wa->disk_bytes;
}

static void run_watch(struct worker *w, void *arg)
{
	struct watch *wa = arg;
	uint64_t used = 0, start, took, pause_ms = wa->period_ms;

	while (worker_pause(w, (uint32_t)pause_ms) == 0) {
		start = clock_boot_us(clock_real());
		if (check_memory(wa, &used)) {
			post_limit(w, "memory limit passed", used, wa->memory_bytes, 1);
			return;
		}
		took = clock_boot_us(clock_real()) - start;
		pause_ms = took * SHARE / 1000 > wa->period_ms ? took * SHARE / 1000 : wa->period_ms;
		pause_ms = pause_ms > 60000 ? 60000 : pause_ms;
		if (check_disk(wa, &used)) {
			post_limit(w, wa->what, used, wa->disk_bytes, 0);
			return;
		}
	}
}

static void release_limits(void *arg)
{
	struct watch *w = arg;

	cgroup_fini(&w->cg);
	free(w->token);
	free(w->dir);
	free(w);
}

struct limits *limits_start(const struct limits_params *p, struct err *e)
{
	static const struct worker_task task = {.run = run_watch, .release = release_limits};
	struct limits *l;
	struct strv lines = {0};
	struct watch *w;

	if (!p->memory_bytes && !p->disk_bytes)
		return NULL;
	w = xcalloc(1, sizeof(*w));
	*w = (struct watch){.token = xstrdup(p->token),
	                    .dir = xstrdup(p->dir),
	                    .what = p->what ? p->what : "disk limit passed",
	                    .memory_bytes = p->memory_bytes,
	                    .disk_bytes = p->disk_bytes,
	                    .period_ms = p->period_ms ? p->period_ms : PERIOD_MS,
	                    .on_limit = p->on_limit,
	                    .arg = p->arg};
	/* The thread's own copy: the launch's may be removed while it looks. */
	cgroup_save(p->cg, &lines);
	for (size_t i = 0; i < lines.n; i++)
		cgroup_load_line(&w->cg, NULL, lines.v[i]);
	strv_fini(&lines);
	l = xcalloc(1, sizeof(*l));
	l->workers = workers_create(p->loop);
	if (!worker_start(l->workers, &task, w, e)) {
		release_limits(w);
		limits_stop(l);
		return NULL;
	}
	return l;
}

void limits_stop(struct limits *l)
{
	if (!l)
		return;
	workers_destroy(l->workers, 2000);
	free(l);
}
