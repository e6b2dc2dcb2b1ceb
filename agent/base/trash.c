/*
 * trash: see trash.h. Names in a trash folder are KEY~RANDOM. The list in memory has an entry for each folder
 * on disk, so it has no bound of its own. A folder that could not be removed leaves the list; the next start
 * tries again.
 */
#include "agent/base/trash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "agent/base/worker.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define END_MS 1000u /* that the end of the agent waits for threads */

struct item {
	struct trash *t;
	char *path, *key;
	int at_work, rc;
	struct err e;
	struct item *prev, *next;
};

struct waiter {
	char *key, *why;
	void (*done)(const char *why, void *arg);
	void *arg;
	struct waiter *prev, *next;
};

struct trash {
	struct agent_env *env;
	struct workers *ws;
	struct item *items;
	struct waiter *waiters;
	struct loop_timer *timer; /* callbacks come from a turn of their own */
	unsigned at_work;
};

static void start_some(struct trash *t);

static int stop_asked(void *arg)
{
	return worker_cancelled(arg);
}

static void run_removal(struct worker *w, void *arg)
{
	struct item *it = arg;

	it->rc = fs_rm_rf_while(it->path, stop_asked, w, &it->e);
}

static void removal_done(void *arg)
{
	struct item *it = arg;
	struct trash *t = it->t;
	struct waiter *w;

	if (it->rc < 0) {
		log_warn("event=not_removed path=%s reason=\"%s\"", it->path, it->e.text);
		DL_FOREACH (t->waiters, w)
			if (!w->why && strcmp(w->key, it->key) == 0)
				w->why = xstrdup(it->e.text);
	}
	DL_DELETE(t->items, it);
	t->at_work--;
	loop_timer_arm(t->timer, 0);
}

static void release_task(void *arg)
{
	struct item *it = arg;

	free(it->path);
	free(it->key);
	free(it);
}

static void start_some(struct trash *t)
{
	static const struct worker_task task = {
	    .run = run_removal, .done = removal_done, .release = release_task};
	struct item *it;
	struct err e;

	DL_FOREACH (t->items, it) {
		if (t->at_work >= TRASH_THREADS)
			return;
		if (it->at_work)
			continue;
		if (!worker_start(t->ws, &task, it, &e)) {
			log_warn("event=trash_not_started reason=\"%s\"", e.text);
			loop_timer_arm(t->timer, 1000000);
			return;
		}
		it->at_work = 1;
		t->at_work++;
	}
}

static int holds_key(const struct trash *t, const char *key)
{
	const struct item *it;

	DL_FOREACH (t->items, it)
		if (strcmp(it->key, key) == 0)
			return 1;
	return 0;
}

static void waiter_free(struct trash *t, struct waiter *w)
{
	DL_DELETE(t->waiters, w);
	free(w->key);
	free(w->why);
	free(w);
}

static void on_timer(void *arg)
{
	struct trash *t = arg;
	struct waiter *w, *next;

	start_some(t);
	/* One a turn: its callback may end another's wait. */
	DL_FOREACH_SAFE (t->waiters, w, next) {
		if (holds_key(t, w->key))
			continue;
		struct waiter ready = *w;

		DL_DELETE(t->waiters, w);
		free(w);
		loop_timer_arm(t->timer, 0);
		ready.done(ready.why, ready.arg);
		free(ready.key);
		free(ready.why);
		return;
	}
}

static void add_item(struct trash *t, const char *path, const char *key)
{
	struct item *it = xcalloc(1, sizeof(*it));

	it->t = t;
	it->path = xstrdup(path);
	it->key = xstrdup(key);
	DL_APPEND(t->items, it);
	loop_timer_arm(t->timer, 0);
}

static char *trash_folder(const char *top)
{
	return xasprintf("%s/trash", top);
}

/* The agent's alone: what a job made keeps whatever modes it has. */
static int make_folder(const char *dir, struct err *e)
{
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "%s", dir);
	return 0;
}

int trash_put(struct trash *t, const char *path, const char *key, struct err *e)
{
	const char *run_dir = t->env->cfg.run_dir;
	size_t n = strlen(run_dir);
	int in_run = strncmp(path, run_dir, n) == 0 && path[n] == '/';
	cleanup_free char *dir = trash_folder(in_run ? run_dir : t->env->cfg.data_dir), *to = NULL;
	uint64_t unique;
	struct stat st;

	if (lstat(path, &st) < 0 && errno == ENOENT)
		return 0; /* before each launch, for what an earlier try might have left */
	random_bytes(&unique, sizeof(unique));
	to = xasprintf("%s/%s~%016" PRIx64, dir, key, unique);
	if (make_folder(dir, e) < 0)
		return -1;
	if (rename(path, to) == 0) {
		add_item(t, to, key);
		return 0;
	}
	return errno == ENOENT ? 0 : err_sys(e, errno, "%s: to the trash", path);
}

void trash_wait(struct trash *t, const char *key, void (*cb)(const char *why, void *arg), void *arg)
{
	struct waiter *w = xcalloc(1, sizeof(*w));

	w->key = xstrdup(key);
	w->done = cb;
	w->arg = arg;
	DL_APPEND(t->waiters, w);
	loop_timer_arm(t->timer, 0);
}

void trash_forget(struct trash *t, void *arg)
{
	struct waiter *w, *next;

	DL_FOREACH_SAFE (t->waiters, w, next)
		if (w->arg == arg)
			waiter_free(t, w);
}

/* ---- life ------------------------------------------------------------------------------------------- */

struct left {
	struct trash *t;
	const char *dir;
};

static int take_left(const char *name, void *arg)
{
	const struct left *l = arg;
	cleanup_free char *path = xasprintf("%s/%s", l->dir, name);
	cleanup_free char *key = xstrndup(name, strcspn(name, "~"));

	add_item(l->t, path, key);
	return 0;
}

static void take_all(struct trash *t, const char *top)
{
	cleanup_free char *dir = trash_folder(top);
	struct left l = {.t = t, .dir = dir};

	if (access(dir, F_OK) == 0)
		fs_each(dir, take_left, &l, NULL);
}

struct trash *trash_create(struct agent_env *env)
{
	struct trash *t = xcalloc(1, sizeof(*t));

	t->env = env;
	t->ws = workers_create(env->loop);
	t->timer = loop_timer_create(env->loop, on_timer, t);
	take_all(t, env->cfg.data_dir);
	take_all(t, env->cfg.run_dir);
	return t;
}

void trash_destroy(struct trash *t)
{
	struct item *it, *next;
	struct waiter *w, *next_w;

	if (!t)
		return;
	DL_FOREACH_SAFE (t->items, it, next) {
		DL_DELETE(t->items, it);
		if (!it->at_work)
			release_task(it); /* the others are their threads' */
	}
	DL_FOREACH_SAFE (t->waiters, w, next_w)
		waiter_free(t, w);
	workers_destroy(t->ws, END_MS);
	loop_timer_destroy(t->timer);
	free(t);
}
