/*
 * removals: see removals.h.
 *
 * The list of what is to be removed is the loop's. A thread has a copy of one entry of it.
 */
#include "agent/keep/removals.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "agent/base/worker.h"
#include "agent/files/files_keep.h"
#include "agent/keep/held.h"
#include "agent/keep/keep_index.h"
#include "agent/keep/keeper.h"
#include "common/base/log.h"

#define SILENT_MS   60000u /* a file server that does not answer; the next try goes on where this one was */
#define RETRY_US    1000000u
#define BACKOFF     10u   /* doublings of RETRY_US at most */
#define TRIES       250u  /* three days of them */
#define OPEN_MAX    4096u /* the indexes name more */
#define OPEN_OF_ONE 512u  /* of one account */

struct pending {
	struct removals *all;
	struct pending *prev, *next;
	char *launch, *copy; /* copy: NULL none */
	uint64_t seq;
	struct launch_user user;
	int has_user;
	unsigned tries;
	uint64_t due_us;       /* boot; 0 a thread has it */
	struct worker *handle; /* NULL: it waits for its next try */
};

struct removals {
	struct agent_env *env;
	struct data_link *link;
	struct loop_timer *timer;
	struct pending *list;
	unsigned n;
};

/* ---- on the thread ------------------------------------------------------------------------------------ */

struct run {
	struct pending *of; /* the loop's */
	struct agent_env *env;
	struct worker *w;
	struct launch_user user;
	int held;
	char *place, *copy;
	int rc;
	struct err e;
};

static int step_run(uint64_t bytes, void *arg)
{
	(void)bytes;
	return worker_cancelled(((struct run *)arg)->w) ? -1 : 0;
}

static void run_removal(struct worker *w, void *arg)
{
	struct run *r = arg;
	const struct files_params p = {
	    .env = r->env, .user = &r->user, .step = step_run, .silent_ms = SILENT_MS, .arg = r};
	struct files *f = files_create(&p);

	r->w = w;
	if ((r->held >= 0 && files_keep(f, r->held, &r->e) < 0) || files_calm(f, "", 0, 1, &r->e) < 0 ||
	    files_drop(f, r->place, r->copy, &r->e) < 0)
		r->rc = -1;
	files_destroy(f);
}

static void free_run(void *arg)
{
	struct run *r = arg;

	if (r->held >= 0)
		close(r->held);
	user_fini(&r->user);
	free(r->place);
	free(r->copy);
	free(r);
}

/* ---- the index ---------------------------------------------------------------------------------------- */

/* The index of an ended launch, which no keeper has. */
static void edit_index(const struct pending *p, int done)
{
	cleanup_free char *dir = held_dir(p->all->env, p->launch);
	struct keep_index x = {0};
	struct err e = {0};
	int changed;

	if (keep_index_load(&x, dir, &e) < 0) {
		log_warn("event=keeper_index_lost launch=%s reason=\"%s\"", p->launch, e.text);
		return;
	}
	changed = done ? keep_index_removed(&x, p->seq) : keep_index_drop(&x, p->seq, p->copy);
	if (changed && keep_index_save(&x, dir, &e) < 0)
		log_warn("event=keeper_not_saved launch=%s reason=\"%s\"", p->launch, e.text);
	keep_index_fini(&x);
}

static void finish(struct pending *p)
{
	struct keeper *k = p->seq ? keeper_find(p->all->env, p->launch) : NULL;

	if (k)
		keeper_removed(k, p->seq);
	else if (p->seq)
		edit_index(p, 1);
}

/* ---- the list ----------------------------------------------------------------------------------------- */

static void free_pending(struct pending *p)
{
	DL_DELETE(p->all->list, p);
	p->all->n--;
	worker_cancel(p->handle);
	user_fini(&p->user);
	free(p->launch);
	free(p->copy);
	free(p);
}

static void arm_timer(struct removals *all)
{
	uint64_t now = clock_boot_us(all->env->clock), next = UINT64_MAX;
	struct pending *p;

	DL_FOREACH (all->list, p)
		if (!p->handle && p->due_us < next)
			next = p->due_us;
	if (next != UINT64_MAX)
		loop_timer_arm(all->timer, next > now ? next - now : 0);
}

/* Frees p when it has failed too often. */
static void try_later(struct pending *p, const struct err *why)
{
	struct removals *all = p->all;

	log_warn("event=held_not_removed launch=%s seq=%" PRIu64 " try=%u reason=\"%s\"", p->launch, p->seq,
	         p->tries + 1, why->text);
	p->due_us =
	    clock_boot_us(all->env->clock) + ((uint64_t)RETRY_US << (p->tries < BACKOFF ? p->tries : BACKOFF));
	if (++p->tries == TRIES)
		free_pending(p);
	arm_timer(all);
}

static void on_done(void *arg)
{
	struct run *r = arg;
	struct pending *p = r->of;

	p->handle = NULL;
	if (r->rc < 0) {
		try_later(p, &r->e);
		return;
	}
	finish(p);
	free_pending(p);
}

/* Frees p when there is nothing to remove, or nobody who may. */
static void begin(struct pending *p)
{
	struct worker_task task = {.run = run_removal, .done = on_done, .release = free_run};
	cleanup_free char *dir = held_dir(p->all->env, p->launch), *files = xasprintf("%s/files", dir);
	int fd = open(files, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct launch_user owner = {0};
	const struct launch_user *user = p->has_user ? &p->user : NULL;
	struct run *r;
	struct stat st;
	struct err e = {0};

	if (fd >= 0 && fstat(fd, &st) == 0 && (!user || user->uid != st.st_uid)) {
		owner.uid = st.st_uid;
		owner.gid = st.st_gid;
		user = &owner;
	}
	if (!user || (fd < 0 && !p->copy)) { /* nothing is held any more */
		if (fd >= 0)
			close(fd);
		free_pending(p);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	*r = (struct run){.of = p,
	                  .env = p->all->env,
	                  .held = fd,
	                  .place = fd >= 0 && p->seq ? xasprintf("%" PRIu64, p->seq) : xstrdup(""),
	                  .copy = xstrdup(p->copy ? p->copy : "")};
	user_copy(&r->user, user);
	task.owner = r->user.uid + 1ull;
	p->handle = worker_start(data_link_workers(p->all->link, POOL_REMOVALS), &task, r, &e);
	if (p->handle)
		return;
	free_run(r);
	try_later(p, &e);
}

static void on_timer(void *arg)
{
	struct removals *all = arg;
	uint64_t now = clock_boot_us(all->env->clock);
	struct pending *p, *next;

	DL_FOREACH_SAFE (all->list, p, next)
		if (!p->handle && p->due_us <= now)
			begin(p);
	arm_timer(all);
}

static int is_same(const struct pending *p, const struct removal *r)
{
	return p->seq == r->seq && strcmp(p->launch, r->launch) == 0 &&
	       (p->seq || strcmp(p->copy ? p->copy : "", r->copy ? r->copy : "") == 0);
}

/* 1: it is under way, or too many are. */
static int has_no_room(const struct removals *all, const struct removal *r)
{
	const struct pending *p;
	unsigned own = 0;

	DL_FOREACH (all->list, p) {
		if (is_same(p, r))
			return 1;
		own += r->user && p->has_user && p->user.uid == r->user->uid;
	}
	if (all->n < OPEN_MAX && own < OPEN_OF_ONE)
		return 0;
	log_warn("event=held_not_removed launch=%s seq=%" PRIu64 " reason=\"%u removals wait\"", r->launch,
	         r->seq, all->n);
	return 1;
}

void removals_add(struct removals *all, const struct removal *r)
{
	struct pending *p;

	if (has_no_room(all, r))
		return;
	p = xcalloc(1, sizeof(*p));
	*p = (struct pending){.all = all,
	                      .launch = xstrdup(r->launch),
	                      .copy = xstrdup(r->copy),
	                      .seq = r->seq,
	                      .has_user = r->user != NULL};
	if (r->user)
		user_copy(&p->user, r->user);
	DL_APPEND(all->list, p);
	all->n++;
	if (p->seq && !keeper_find(all->env, p->launch))
		edit_index(p, 0);
	begin(p);
}

unsigned removals_count(const struct removals *all)
{
	return all->n;
}

struct removals *removals_create(struct agent_env *env, struct data_link *link)
{
	struct removals *all = xcalloc(1, sizeof(*all));

	all->env = env;
	all->link = link;
	all->timer = loop_timer_create(env->loop, on_timer, all);
	return all;
}

void removals_destroy(struct removals *all)
{
	if (!all)
		return;
	while (all->list)
		free_pending(all->list);
	loop_timer_destroy(all->timer);
	free(all);
}
