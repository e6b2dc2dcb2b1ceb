/*
 * held: see held.h.
 */
#include "agent/keep/held.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/worker.h"
#include "agent/files/files_keep.h"
#include "agent/keep/keep_index.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define FREE_PART 20 /* one in so many bytes of the disk stays free */
#define HELD_PART 4  /* one in so many bytes of the disk may be held */

char *held_dir(const struct agent_env *env, const char *launch)
{
	return xasprintf("%s/held/%s", env->cfg.data_dir, launch);
}

static int make_dir(const char *path, struct err *e)
{
	return mkdir(path, 0700) < 0 && errno != EEXIST ? err_sys(e, errno, "%s", path) : 0;
}

int held_make(const struct agent_env *env, const char *launch, const struct launch_user *user, struct err *e)
{
	cleanup_free char *top = xasprintf("%s/held", env->cfg.data_dir), *dir = held_dir(env, launch);
	cleanup_free char *files = xasprintf("%s/files", dir);
	cleanup_close int fd = -1;

	if (make_dir(top, e) < 0 || make_dir(dir, e) < 0 || make_dir(files, e) < 0)
		return -1;
	fd = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (env->is_root && fchown(fd, user->uid, user->gid) < 0))
		return err_sys(e, errno, "%s", files);
	return 0;
}

/* ---- removal ---------------------------------------------------------------------------------------- */

struct removal {
	struct agent_env *env;
	struct worker *w;
	struct launch_user user;
	int held;
	uint64_t seq;
	char *launch, *copy;
};

static int step_removal(uint64_t bytes, void *arg)
{
	(void)bytes;
	return worker_cancelled(((struct removal *)arg)->w) ? -1 : 0;
}

static void run_removal(struct worker *w, void *arg)
{
	struct removal *r = arg;
	const struct files_params p = {.env = r->env, .user = &r->user, .step = step_removal, .arg = r};
	cleanup_free char *place = r->seq ? xasprintf("%" PRIu64, r->seq) : xstrdup("");
	struct files *f = files_create(&p);
	struct err e = {0};

	r->w = w;
	if ((r->held >= 0 && files_keep(f, r->held, &e) < 0) || files_calm(f, "", 0, 1, &e) < 0 ||
	    files_drop(f, place, r->copy ? r->copy : "", &e) < 0)
		log_warn("event=held_not_removed launch=%s seq=%" PRIu64 " reason=\"%s\"", r->launch, r->seq, e.text);
	files_destroy(f);
}

static void removal_done(void *arg)
{
	(void)arg;
}

static void removal_free(void *arg)
{
	struct removal *r = arg;

	if (r->held >= 0)
		close(r->held);
	user_fini(&r->user);
	free(r->launch);
	free(r->copy);
	free(r);
}

void held_remove(const struct held_removal *in)
{
	struct worker_task task = {.run = run_removal, .done = removal_done, .release = removal_free};
	cleanup_free char *dir = held_dir(in->env, in->launch), *files = xasprintf("%s/files", dir);
	int fd = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct launch_user owner = {0};
	const struct launch_user *user = in->user;
	struct removal *r;
	struct stat st;
	struct err e = {0};

	if (fd >= 0 && fstat(fd, &st) == 0 && (!user || user->uid != st.st_uid)) {
		owner.uid = st.st_uid;
		owner.gid = st.st_gid;
		user = &owner;
	}
	if (fd < 0 && (!in->copy || !user)) /* nothing is held any more */
		return;
	r = xcalloc(1, sizeof(*r));
	*r = (struct removal){.env = in->env,
	                      .held = fd,
	                      .seq = fd < 0 ? 0 : in->seq,
	                      .launch = xstrdup(in->launch),
	                      .copy = xstrdup(in->copy)};
	user_copy(&r->user, user);
	task.owner = r->user.uid + 1ull;
	if (worker_start(data_link_workers(in->link, POOL_REMOVALS), &task, r, &e))
		return;
	log_warn("event=held_not_removed launch=%s seq=%" PRIu64 " reason=\"%s\"", in->launch, in->seq, e.text);
	removal_free(r);
}

void held_drop_launch(struct agent_env *env, struct trash *trash, const char *launch)
{
	cleanup_free char *dir = held_dir(env, launch);
	struct err e = {0};

	if (trash_put(trash, dir, "held", &e) < 0 && e.code != ERR_NOT_FOUND)
		log_warn("event=held_not_removed launch=%s reason=\"%s\"", launch, e.text);
}

/* ---- bounds ----------------------------------------------------------------------------------------- */

uint64_t held_limit(const struct agent_env *env)
{
	uint64_t free_bytes = 0, total = 0;

	if (env->cfg.held_limit)
		return env->cfg.held_limit;
	return fs_disk_free(env->cfg.data_dir, &free_bytes, &total, NULL) == 0 ? total / HELD_PART : 0;
}

uint64_t held_part(uint64_t limit, const struct held_use *use)
{
	uint64_t fair = limit / use->accounts / use->own;
	uint64_t left = limit > use->others ? limit - use->others : 0;

	return fair > left ? fair : left;
}

struct sweep {
	struct agent_env *env;
	struct trash *trash;
	int (*in_use)(const char *launch, void *arg);
	void *arg;
	char *first; /* to be removed */
	int first_copied;
	uint64_t first_s, bytes;
};

/* Returns whether all that it holds has a copy elsewhere. */
static int look_held(const char *dir, uint64_t *bytes)
{
	struct keep_index x = {0};
	int copied = 1;
	struct err e;

	if (keep_index_load(&x, dir, &e) < 0)
		return 1;
	for (size_t i = 0; i < x.n; i++) {
		*bytes += x.v[i].bytes;
		copied &= x.v[i].state == CKPT_VERIFIED;
	}
	keep_index_fini(&x);
	return copied;
}

static int look_launch(const char *name, void *arg)
{
	struct sweep *s = arg;
	cleanup_free char *dir = held_dir(s->env, name), *index = xasprintf("%s/index", dir);
	uint64_t now_s = clock_real_us(s->env->clock) / 1000000, at_s;
	struct stat st;
	int copied;

	if (s->in_use(name, s->arg))
		return 0;
	if (stat(index, &st) < 0 && stat(dir, &st) < 0)
		return 0;
	at_s = (uint64_t)st.st_mtime;
	if (now_s > at_s && now_s - at_s > HELD_AGE_S) {
		log_info("event=held_too_old launch=%s", name);
		held_drop_launch(s->env, s->trash, name);
		return 0;
	}
	copied = look_held(dir, &s->bytes);
	if (!s->first || copied > s->first_copied || (copied == s->first_copied && at_s < s->first_s)) {
		free(s->first);
		s->first = xstrdup(name);
		s->first_s = at_s;
		s->first_copied = copied;
	}
	return 0;
}

void held_sweep(struct agent_env *env, struct trash *trash, int (*in_use)(const char *launch, void *arg),
                void *arg)
{
	struct sweep s = {.env = env, .trash = trash, .in_use = in_use, .arg = arg};
	cleanup_free char *top = xasprintf("%s/held", env->cfg.data_dir);
	uint64_t free_bytes = 0, total = 0, limit = held_limit(env);
	int full;

	fs_each(top, look_launch, &s, NULL);
	full = fs_disk_free(top, &free_bytes, &total, NULL) == 0 && free_bytes < total / FREE_PART;
	if (s.first && (full || (limit && s.bytes > limit))) {
		log_warn("event=%s launch=%s", full ? "held_disk_full" : "held_limit", s.first);
		held_drop_launch(env, trash, s.first);
	}
	free(s.first);
}
