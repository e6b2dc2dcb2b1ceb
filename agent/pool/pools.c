/*
 * pools: see pools.h. All of it is the loop's; files that users made are removed by trash alone.
 */
#include "agent/pool/pools.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/base/worker.h"
#include "agent/pool/room.h"
#include "agent/pool/suspects.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define STATE_MAX  256
#define CACHE_PART 10 /* one in so many bytes of the disk is the most of one cache folder */
/* A list with the pool comes before the launch is forgotten; a hearthd that knows no pools sends none. */
#define LEFT_US    60000000u
#define OVERDUE_US 600000000u /* after its end, without a word of hearthd */
#define LOOK_US    10000000u
#define MEASURE_US 60000000u
/* So many times the limit of one folder: those of an account, and those of the node together. */
#define ACCOUNT_TIMES 2
#define ALL_TIMES     3
#define FULL_PART     20 /* less than one in so many bytes free: an idle pool's folder goes */

struct pool {
	struct pools *all;
	uint64_t id, job, until_us;
	unsigned users, busy; /* launches; those with processes */
	uint64_t left_us;     /* when the last launch left it */
	uint64_t idle_us;     /* likewise, by the wall clock, also of an agent before */
	uint64_t bytes;       /* of the cache folder, when it was measured last */
	uid_t uid;
	int spoiled;
	struct pool *prev, *next;
};

struct pool_folder {
	struct pool *pool;
	int quiet;
};

struct pools {
	struct agent_env *env;
	struct trash *trash;
	struct pool *list;
	struct wire_u64v ids, jobs;
	struct loop_timer *look;
	int looking;
	struct workers *workers;
	struct worker *measuring;
	int dirty; /* a folder was left since the last measuring began */
	uint64_t measured_us;
	void (*on_end)(uint64_t pool, uint64_t job, const char *text, void *arg);
	void *arg;
};

/* ---- on disk ------------------------------------------------------------------------------------------ */

static char *top_path(const struct pools *p)
{
	return xasprintf("%s/pools", p->env->cfg.data_dir);
}

static char *pool_path(const struct pools *p, uint64_t id)
{
	return xasprintf("%s/pools/%" PRIu64, p->env->cfg.data_dir, id);
}

static void save_state(const struct pool *pl)
{
	cleanup_free char *dir = pool_path(pl->all, pl->id), *path = xasprintf("%s/state", dir);
	cleanup_free char *text = xasprintf("%" PRIu64 " %" PRIu64 "\n", pl->job, pl->until_us);
	struct err e = {0};

	if (fs_replace(path, text, strlen(text), 0600, &e) < 0)
		log_warn("event=pool_not_saved pool=%" PRIu64 " reason=\"%s\"", pl->id, e.text);
}

static void load_state(struct pool *pl)
{
	cleanup_free char *dir = pool_path(pl->all, pl->id), *path = xasprintf("%s/state", dir);
	cleanup_free char *text = NULL;
	struct stat st;
	size_t n;

	if (stat(path, &st) == 0)
		pl->idle_us = (uint64_t)st.st_mtim.tv_sec * 1000000;
	if (fs_read_file(path, STATE_MAX, &text, &n, NULL) < 0 ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &pl->job, &pl->until_us) != 2)
		pl->job = pl->until_us = 0;
}

static struct pool *add_pool(struct pools *p, uint64_t id)
{
	struct pool *pl = xcalloc(1, sizeof(*pl));

	*pl = (struct pool){.all = p, .id = id};
	DL_APPEND(p->list, pl);
	return pl;
}

static struct pool *find_pool(const struct pools *p, uint64_t id)
{
	struct pool *pl;

	DL_FOREACH (p->list, pl)
		if (pl->id == id)
			return pl;
	return NULL;
}

static void forget_pool(struct pool *pl)
{
	DL_DELETE(pl->all->list, pl);
	free(pl);
}

/* The folder goes; what cannot be moved stays for the next look. */
static int drop_folder(const struct pools *p, uint64_t id)
{
	cleanup_free char *dir = pool_path(p, id);
	struct err e = {0};

	if (trash_put(p->trash, dir, "pool", &e) == 0)
		return 0;
	log_warn("event=pool_not_removed pool=%" PRIu64 " reason=\"%s\"", id, e.text);
	return -1;
}

static int make_dir(const char *path, mode_t mode, struct err *e)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return err_sys(e, errno, "%s", path);
	return 0;
}

/* 1: it belongs to the account; 0: to another one, or it is not a folder; -1: it is missing. */
static int is_owners(const struct pools *p, const char *cache, const struct launch_user *user)
{
	struct stat st;

	if (lstat(cache, &st) < 0)
		return -1;
	return S_ISDIR(st.st_mode) && (!p->env->is_root || st.st_uid == user->uid);
}

static int make_folder(const struct pool *pl, const struct launch_user *user, struct err *e)
{
	const struct pools *p = pl->all;
	cleanup_free char *top = top_path(p), *dir = pool_path(p, pl->id), *cache = xasprintf("%s/cache", dir);
	cleanup_close int fd = -1;
	int whose = is_owners(p, cache, user);

	if (whose == 0 && pl->users) /* another account: hearthd never orders this */
		return err_set(e, ERR_CONFLICT, "pool %" PRIu64 " is in use by another account", pl->id);
	if (whose == 0 && drop_folder(p, pl->id) < 0)
		return err_set(e, ERR_IO, "the folder of pool %" PRIu64 " belongs to another account", pl->id);
	/* Jobs walk through, and list nothing. */
	if (make_dir(top, 0711, e) < 0 || make_dir(dir, 0711, e) < 0 || make_dir(cache, 0700, e) < 0)
		return -1;
	fd = open(cache, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* The mode also where the folder is old: its jobs may have opened it to others. */
	if (fd < 0 || fchmod(fd, 0700) < 0 || (p->env->is_root && fchown(fd, user->uid, user->gid) < 0))
		return err_sys(e, errno, "%s", cache);
	return 0;
}

/* ---- hearthd's list ------------------------------------------------------------------------------------ */

static int is_listed(const struct pools *p, uint64_t id)
{
	for (uint32_t i = 0; i < p->ids.n; i++)
		if (p->ids.v[i] == id)
			return 1;
	return 0;
}

/* The folder of the job that the list names for a pool without a folder. */
static struct pool *find_heir(const struct pools *p, uint64_t job)
{
	struct pool *pl;

	DL_FOREACH (p->list, pl)
		if (job && (pl->job == job || pl->id == job) && !pl->busy && !is_listed(p, pl->id))
			return pl;
	return NULL;
}

static void rename_pool(struct pool *pl, uint64_t id)
{
	cleanup_free char *from = pool_path(pl->all, pl->id), *to = pool_path(pl->all, id);

	if (rename(from, to) < 0) {
		log_warn("event=pool_not_renamed pool=%" PRIu64 " to=%" PRIu64 " errno=%d", pl->id, id, errno);
		return;
	}
	log_info("event=pool_folder pool=%" PRIu64 " was=%" PRIu64, id, pl->id);
	pl->id = id;
}

static void give_folders(struct pools *p)
{
	for (uint32_t i = 0; i < p->ids.n; i++) {
		struct pool *heir = find_pool(p, p->ids.v[i]) ? NULL : find_heir(p, p->jobs.v[i]);

		if (heir)
			rename_pool(heir, p->ids.v[i]);
	}
}

static void end_pool(struct pool *pl)
{
	if (drop_folder(pl->all, pl->id) < 0)
		return;
	log_info("event=pool_folder_removed pool=%" PRIu64, pl->id);
	forget_pool(pl);
}

static void drop_unlisted(struct pools *p)
{
	struct pool *pl, *next;

	DL_FOREACH_SAFE (p->list, pl, next)
		if (!pl->users && !is_listed(p, pl->id))
			end_pool(pl);
}

static void start_measure(struct pools *p);

static void take_ids(struct wire_u64v *to, const struct wire_u64v *from, uint32_t n)
{
	free(to->v);
	to->v = xcalloc(n + 1u, sizeof(*to->v));
	to->n = n;
	for (uint32_t i = 0; i < n && i < from->n; i++)
		to->v[i] = from->v[i];
}

void pools_order(struct pools *p, const struct wm_pools *m)
{
	uint32_t n = m->pools.n < POOLS_MAX ? m->pools.n : POOLS_MAX;

	take_ids(&p->ids, &m->pools, n);
	take_ids(&p->jobs, &m->jobs, n);
	give_folders(p);
	for (uint32_t i = 0; i < n && i < m->until_us.n; i++) {
		struct pool *pl = find_pool(p, m->pools.v[i]);

		if (pl && pl->until_us != m->until_us.v[i]) {
			pl->until_us = m->until_us.v[i];
			save_state(pl);
		}
	}
	drop_unlisted(p);
	if (p->dirty) /* what was left is idle now */
		start_measure(p);
}

/* ---- without a list ------------------------------------------------------------------------------------ */

static int is_due(const struct pool *pl)
{
	const struct clock *clock = pl->all->env->clock;

	if (pl->users)
		return 0;
	if (pl->left_us && !is_listed(pl->all, pl->id))
		return clock_boot_us(clock) - pl->left_us >= LEFT_US;
	return pl->until_us && clock_real_us(clock) > pl->until_us + OVERDUE_US;
}

static void look_later(struct pools *p)
{
	if (!p->looking)
		loop_timer_arm(p->look, LOOK_US);
	p->looking = 1;
}

/* ---- room on the disk ---------------------------------------------------------------------------------- */

struct measure {
	struct pools *all;
	char *data_dir;
	struct room_folder *v;
	size_t n;
};

static int disk_is_full(const struct pools *p)
{
	uint64_t free_bytes, total;

	return FAULT("agent.pool_disk") || (fs_disk_free(p->env->cfg.data_dir, &free_bytes, &total, NULL) == 0 &&
	                                    free_bytes < total / FULL_PART);
}

static struct room_folder *list_folders(const struct pools *p, size_t *n)
{
	const struct pool *pl;
	struct room_folder *v;

	*n = 0;
	DL_FOREACH (p->list, pl)
		(*n)++;
	v = xcalloc(*n + 1, sizeof(*v));
	*n = 0;
	DL_FOREACH (p->list, pl)
		v[(*n)++] = (struct room_folder){.id = pl->id,
		                                 .bytes = pl->bytes,
		                                 .uid = pl->uid,
		                                 .idle_us = pl->users || !is_listed(p, pl->id) ? 0 : pl->idle_us};
	return v;
}

/* 1: one pool less. */
static int make_room(struct pools *p, const struct room *r)
{
	const struct room_folder *one;
	const char *why;
	struct pool *pl;
	uint64_t id, job;
	size_t n;
	cleanup_free struct room_folder *v = list_folders(p, &n);

	one = room_choose(v, n, r, &why);
	pl = one ? find_pool(p, one->id) : NULL;
	if (!pl)
		return 0;
	id = pl->id;
	job = pl->job;
	log_warn("event=pool_without_room pool=%" PRIu64 " bytes=%" PRIu64 " text=\"%s\"", id, pl->bytes, why);
	if (drop_folder(p, id) < 0)
		return 0;
	forget_pool(pl);
	pools_suspect(p, id, job, why);
	return 1;
}

static void on_measured(void *arg)
{
	struct measure *m = arg;
	struct pools *p = m->all;
	uint64_t limit = pools_cache_limit(p->env);
	struct room r = {.account_bytes = limit * ACCOUNT_TIMES, .all_bytes = limit * ALL_TIMES};
	struct pool *pl;

	p->measuring = NULL;
	for (size_t i = 0; i < m->n; i++) {
		pl = find_pool(p, m->v[i].id);
		if (pl) {
			pl->bytes = m->v[i].bytes;
			pl->uid = m->v[i].uid;
		}
	}
	while (make_room(p, &r))
		;
	/* One: its bytes are free when the trash is empty. The next look sees. */
	r.disk_full = disk_is_full(p);
	if (r.disk_full)
		make_room(p, &r);
	if (p->dirty)
		start_measure(p);
}

static void run_measure(struct worker *w, void *arg)
{
	struct measure *m = arg;

	for (size_t i = 0; i < m->n && !worker_cancelled(w); i++)
		room_measure(m->data_dir, &m->v[i], 1);
}

static void free_measure(void *arg)
{
	struct measure *m = arg;

	free(m->data_dir);
	free(m->v);
	free(m);
}

static void start_measure(struct pools *p)
{
	static const struct worker_task task = {.run = run_measure, .done = on_measured, .release = free_measure};
	struct measure *m;
	struct err e = {0};

	if (p->measuring || !p->list)
		return;
	m = xcalloc(1, sizeof(*m));
	m->all = p;
	m->data_dir = xstrdup(p->env->cfg.data_dir);
	m->v = list_folders(p, &m->n);
	p->measured_us = clock_boot_us(p->env->clock);
	p->dirty = 0;
	p->measuring = worker_start(p->workers, &task, m, &e);
	if (p->measuring)
		return;
	log_warn("event=pools_not_measured reason=\"%s\"", e.text);
	free_measure(m);
}

static void on_look(void *arg)
{
	struct pools *p = arg;
	struct pool *pl, *next;

	p->looking = 0;
	DL_FOREACH_SAFE (p->list, pl, next)
		if (is_due(pl))
			end_pool(pl);
	if (p->dirty || disk_is_full(p) || clock_boot_us(p->env->clock) - p->measured_us >= MEASURE_US)
		start_measure(p);
	if (p->list)
		look_later(p);
}

/* ---- launches ------------------------------------------------------------------------------------------ */

static struct pool_folder *refer_to(struct pool *pl, const struct wm_prepare *m)
{
	struct pool_folder *f = xcalloc(1, sizeof(*f));

	f->pool = pl;
	pl->users++;
	pl->busy++;
	if (!m->park)
		pl->job = m->job;
	look_later(pl->all);
	return f;
}

struct pool_folder *pools_take(struct pools *p, const struct wm_prepare *m, const struct launch_user *user,
                               struct err *e)
{
	uint64_t id = m->pool ? m->pool : m->pool_keep ? m->job : 0;
	struct pool *pl = id ? find_pool(p, id) : NULL;
	int made = id && !pl && user;
	struct pool_folder *f;

	if (made)
		pl = add_pool(p, id);
	if (!pl)
		return NULL;
	if (user && make_folder(pl, user, e) < 0) {
		if (made)
			forget_pool(pl);
		return NULL;
	}
	f = refer_to(pl, m);
	save_state(pl);
	return f;
}

void pools_used_by(struct pool_folder *f, uint64_t job)
{
	if (!f)
		return;
	f->pool->job = job;
	save_state(f->pool);
}

void pools_quiet(struct pool_folder *f)
{
	struct pools *p = f ? f->pool->all : NULL;

	if (!f || f->quiet)
		return;
	f->quiet = 1;
	f->pool->busy--;
	give_folders(p); /* the list may have come before */
}

void pools_leave(struct pool_folder *f)
{
	if (!f)
		return;
	pools_quiet(f);
	f->pool->users--;
	f->pool->left_us = clock_boot_us(f->pool->all->env->clock);
	f->pool->idle_us = clock_real_us(f->pool->all->env->clock);
	f->pool->all->dirty = 1;
	if (f->pool->spoiled && !f->pool->users)
		end_pool(f->pool);
	free(f);
}

void pools_spoil(struct pool_folder *f)
{
	if (f)
		f->pool->spoiled = 1;
}

char *pools_path(const struct pool_folder *f)
{
	return pool_path(f->pool->all, f->pool->id);
}

uint64_t pools_cache_limit(const struct agent_env *env)
{
	uint64_t free_bytes = 0, total = 0;

	if (env->cfg.warm_cache_limit)
		return env->cfg.warm_cache_limit;
	return fs_disk_free(env->cfg.data_dir, &free_bytes, &total, NULL) == 0 ? total / CACHE_PART : 0;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static int find_one(const char *name, void *arg)
{
	struct pools *p = arg;
	uint64_t id;

	if (str_parse_u64(name, &id) == 0 && id)
		load_state(add_pool(p, id));
	return 0;
}

struct pools *pools_create(struct agent_env *env, struct trash *trash)
{
	struct pools *p = xcalloc(1, sizeof(*p));
	cleanup_free char *top = NULL;

	p->env = env;
	p->trash = trash;
	p->look = loop_timer_create(env->loop, on_look, p);
	p->workers = workers_create(env->loop);
	p->dirty = 1;
	top = top_path(p);
	if (access(top, F_OK) == 0)
		fs_each(top, find_one, p, NULL);
	if (p->list)
		look_later(p);
	return p;
}

void pools_on_end(struct pools *p, void (*on_end)(uint64_t pool, uint64_t job, const char *text, void *arg),
                  void *arg)
{
	p->on_end = on_end;
	p->arg = arg;
	suspects_each(p->env->cfg.data_dir, on_end, arg);
}

void pools_suspect(struct pools *p, uint64_t pool, uint64_t job, const char *text)
{
	struct err e = {0};

	if (suspects_add(p->env->cfg.data_dir, pool, job, text, &e) < 0)
		log_warn("event=suspect_not_saved pool=%" PRIu64 " reason=\"%s\"", pool, e.text);
	if (p->on_end)
		p->on_end(pool, job, text, p->arg);
}

void pools_told(struct pools *p, uint64_t pool, uint64_t job)
{
	suspects_told(p->env->cfg.data_dir, pool, job);
}

void pools_destroy(struct pools *p)
{
	if (!p)
		return;
	workers_destroy(p->workers, 1000);
	while (p->list)
		forget_pool(p->list);
	free(p->ids.v);
	free(p->jobs.v);
	loop_timer_destroy(p->look);
	free(p);
}
