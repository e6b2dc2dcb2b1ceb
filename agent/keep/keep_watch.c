/*
 * keep_watch: see keep_watch.h.
 */
#include "agent/keep/keep_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/files_keep.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"

#define DIR_CHECKPOINTS "checkpoints"
#define IDLE_MS         60000u /* then a look in any case */
#define FOUND_MAX       16
#define FAILURES_MAX    5 /* then the owner hears it, and the tries become rare */
#define TRY_MS          1000u
#define BACKOFF         8 /* doublings of TRY_MS */
#define GOOD_US         600000000u
#define MOMENT_MS       10000u
#define REST            20
#define REST_MS         200u
#define REST_MAX_MS     30000u

struct keep_watch {
	struct agent_env *env;
	struct keep_watch_ops ops;
	void *arg;
	struct worker *handle; /* loop's */
	struct worker *w;      /* the thread's own */
	struct launch_user user;
	char *ml, *held, *cpus;
	int ml_fd, held_fd;
	uint64_t next_seq;
	uint64_t *known; /* places in the index at the start */
	size_t n_known;
	atomic_int hurry;
	int waiting, hurried; /* thread: it waits for a change; the news reached the helper */
	struct files *files;
	struct keep_memory memory;
	struct keep_moment moment;
	int over; /* the moment before the last listing was after the end */
	int full; /* the owner knows that it remembers no more of them */
};

/* ---- to the loop ------------------------------------------------------------------------------------ */

struct told {
	struct keep_entry en;
	char *key, *text; /* key: a warning; text alone: torn */
};

static void told_free(void *data)
{
	struct told *t = data;

	keep_entry_fini(&t->en);
	free(t->key);
	free(t->text);
	free(t);
}

static void on_told(void *arg, void *data)
{
	struct keep_watch *k = arg;
	struct told *t = data;

	if (t->key)
		k->ops.warn(t->key, t->text, k->arg);
	else if (t->text)
		k->ops.torn(&t->en, t->text, k->arg);
	else
		k->ops.held(&t->en, k->arg);
	if (!t->key)
		t->en = (struct keep_entry){0}; /* taken */
}

static void tell_warning(struct keep_watch *k, const char *key, const char *text)
{
	struct told *t = xcalloc(1, sizeof(*t));

	t->key = xstrdup(key);
	t->text = xstrdup(text);
	worker_post(k->w, on_told, t, told_free);
}

struct asked {
	struct keep_watch *k;
	struct keep_moment moment;
};

static void fill_moment(struct worker_call *c, void *data)
{
	struct asked *a = data;

	a->k->ops.moment(&a->moment, a->k->arg);
	worker_call_end(c);
}

static void copy_moment(void *data, void *out)
{
	*(struct keep_moment *)out = ((struct asked *)data)->moment;
}

static int ask_moment(struct keep_watch *k, struct err *e)
{
	struct asked *a = xcalloc(1, sizeof(*a));

	a->k = k;
	return worker_call(k->w, fill_moment, a, free, copy_moment, &k->moment, MOMENT_MS, e);
}

/* ---- holding ---------------------------------------------------------------------------------------- */

static struct keep_entry entry_of(const struct keep_found *f, uint64_t seq)
{
	return (struct keep_entry){.seq = seq,
	                           .step = f->step,
	                           .name = xstrdup(f->name),
	                           .format = xstrdup(f->format),
	                           .step_by = xstrdup(f->step_by),
	                           .state = CKPT_COPYING,
	                           .shards = f->shards,
	                           .files = f->files,
	                           .bytes = f->bytes,
	                           .at_us = f->at_us,
	                           .save_ms = f->save_us / 1000,
	                           .uri = xstrdup(""),
	                           .print = f->print};
}

static void not_held(struct keep_watch *k, const struct keep_found *f, const struct err *why)
{
	cleanup_free char *key = xasprintf("checkpoint %s", f->name);
	TEXT(t);

	if (why->code == ERR_NOT_FOUND) {
		text_add(&t, "checkpoint %s was removed before the agent had secured it", f->name);
	} else if (why->code == ERR_CONFLICT) {
		keep_memory_again(&k->memory, f->name, f->print);
		text_add(&t,
		         "checkpoint %s was written again while the agent secured it; the agent waits until it is "
		         "complete",
		         f->name);
	} else {
		/* It counts as done: it is not tried again and again. */
		text_add(&t, "checkpoint %s is not secured on this node: %s. The run goes on", f->name, why->text);
	}
	tell_warning(k, key, t.at);
}

static int hold_found(struct keep_watch *k, const struct keep_found *f, struct err *e)
{
	uint64_t seq = k->next_seq++;
	cleanup_free char *place = xasprintf("%" PRIu64, seq);
	struct files_hold h = {.ml = k->ml_fd,
	                       .dir = DIR_CHECKPOINTS,
	                       .entry = f->name,
	                       .place = place,
	                       .print = f->print,
	                       .most = k->moment.room_bytes,
	                       .links = f->linkable,
	                       .ranks = f->ranks};
	struct told *t;

	if (files_hold(k->files, &h, e) < 0) {
		if (e->code != ERR_UNAVAILABLE)
			not_held(k, f, e);
		return e->code == ERR_UNAVAILABLE ? -1 : 0;
	}
	t = xcalloc(1, sizeof(*t));
	t->en = entry_of(f, seq);
	t->en.bytes = h.bytes;
	t->en.files = (uint32_t)h.files;
	t->en.held_print = h.held_print;
	worker_post(k->w, on_told, t, told_free);
	return 0;
}

static void tell_torn(struct keep_watch *k, const struct keep_found *f)
{
	struct told *t = xcalloc(1, sizeof(*t));

	t->en = entry_of(f, k->next_seq++);
	t->en.state = CKPT_TORN;
	t->text = xstrdup(f->torn);
	worker_post(k->w, on_told, t, told_free);
}

/* JSON and the record have no other names. */
static int is_text(const char *name)
{
	return str_valid_utf8(name, strlen(name));
}

static int secure_all(struct keep_watch *k, const struct keep_found *found, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_text(found[i].name)) {
			tell_warning(k, "checkpoint names",
			             "a checkpoint is not secured: its name is not valid UTF-8; rename it");
			continue;
		}
		if (found[i].torn && i == 0) /* an older torn one matters to nobody */
			tell_torn(k, &found[i]);
		else if (!found[i].torn && hold_found(k, &found[i], e) < 0)
			return -1;
	}
	return 0;
}

/* ---- looking ---------------------------------------------------------------------------------------- */

static int step_watch(uint64_t bytes, void *arg)
{
	struct keep_watch *k = arg;

	(void)bytes;
	/* Not while it holds what it found: the moment of that look is older, and the next wait would last. */
	if (k->waiting && !k->hurried && atomic_exchange(&k->hurry, 0)) {
		k->hurried = 1;
		files_hurry(k->files);
	}
	return worker_cancelled(k->w) ? -1 : 0;
}

static void tell_cut(struct keep_watch *k)
{
	cleanup_free char *text = xasprintf("the folder of checkpoints has more than %u entries, or is deeper "
	                                    "than %d folders: the agent may miss "
	                                    "checkpoints in it. Remove old ones",
	                                    LISTING_ITEMS, LISTING_DEPTH);

	tell_warning(k, "checkpoint entries", text);
}

/* Once: the job may go on so for weeks. */
static void tell_full(struct keep_watch *k)
{
	cleanup_free char *text = xasprintf(
	    "the job writes more than %u checkpoints or other files at a time: the agent does not see the "
	    "others. Write files that are no checkpoints to another folder",
	    KEEP_NAMES);

	if (!k->full)
		tell_warning(k, "checkpoint names in work", text);
	k->full = 1;
}

/* Judging a large folder takes time: one look in twenty times what it takes. The end of the launch waits for
 * none. */
static void rest_after(struct keep_watch *k, uint64_t spent_us)
{
	uint64_t rest_ms = spent_us * REST / 1000;

	for (rest_ms = rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS; rest_ms >= REST_MS; rest_ms -= REST_MS)
		if (k->over || atomic_load(&k->hurry) || worker_pause(k->w, REST_MS) < 0)
			return;
}

static int judge_listing(struct keep_watch *k, const struct listing *l, uint64_t *look_us, struct err *e)
{
	struct keep_found found[FOUND_MAX];
	int over = k->over;
	uint64_t spent_us;
	size_t n;

	if (ask_moment(k, e) < 0)
		return -1;
	k->over = k->moment.over;
	k->moment.over = over; /* the listing may be older than the end */
	if (l->cut)
		tell_cut(k);
	spent_us = clock_boot_us(k->env->clock);
	n = recognise(&k->memory, l, &k->moment, found, FOUND_MAX, look_us);
	spent_us = clock_boot_us(k->env->clock) - spent_us;
	if (k->memory.full)
		tell_full(k);
	if (secure_all(k, found, n, e) < 0)
		return -1;
	rest_after(k, spent_us);
	return 0;
}

/* One look. 1: it was the last one. */
static int look_once(struct keep_watch *k, uint64_t *look_us, struct err *e)
{
	uint64_t now = clock_real_us(k->env->clock), wait_ms = IDLE_MS;
	int last = k->over, force = 1, rc;
	struct listing l = {0};

	if (last)
		wait_ms = 0;
	else if (*look_us)
		wait_ms = *look_us > now ? (*look_us - now) / 1000 + 1 : 0;
	k->hurried = 0;
	k->waiting = 1;
	rc = files_watch(k->files, k->ml_fd, DIR_CHECKPOINTS, wait_ms, force, &l, e);
	k->waiting = 0;
	if (rc <= 0)
		return rc;
	rc = judge_listing(k, &l, look_us, e);
	listing_fini(&l);
	return rc < 0 ? -1 : last;
}

static int start_helper(struct keep_watch *k, struct err *e)
{
	const struct files_params p = {.env = k->env, .user = &k->user, .step = step_watch, .arg = k};

	files_destroy(k->files);
	k->files = files_create(&p);
	return files_keep(k->files, k->held_fd, e) < 0 ? -1 : files_calm(k->files, k->cpus, 0, 0, e);
}

struct trouble {
	unsigned failures; /* in a row, without GOOD_US between two of them */
	uint64_t at_us;    /* boot; the last one */
};

/* The end of the launch waits for no more tries. */
static int gives_up(struct keep_watch *k, const struct trouble *t)
{
	struct err ignored;

	if (t->failures < FAILURES_MAX)
		return 0;
	return k->over || atomic_load(&k->hurry) || (ask_moment(k, &ignored) == 0 && k->moment.over);
}

/* Returns when to try again; 0: not at all. */
static uint32_t note_failure(struct keep_watch *k, struct trouble *t, const struct err *why)
{
	uint64_t now = clock_boot_us(k->env->clock);
	unsigned more;
	int last;

	t->failures = now - t->at_us < GOOD_US ? t->failures + 1 : 1;
	t->at_us = now;
	more = t->failures > FAILURES_MAX ? t->failures - FAILURES_MAX : 0;
	log_warn("event=keeper_failed failures=%u reason=\"%s\"", t->failures, why->text);
	last = gives_up(k, t);
	if (t->failures == FAILURES_MAX || last) {
		cleanup_free char *text = xasprintf("checkpoints of this node are not secured: %s. %sThe run goes on",
		                                    why->text, last ? "" : "The agent tries again. ");

		tell_warning(k, "checkpoints", text);
	}
	return last ? 0 : TRY_MS << (more < BACKOFF ? more : BACKOFF);
}

/* 1: over, or the end of the launch has come. */
static int wait_to_try(struct keep_watch *k, uint32_t ms)
{
	for (; ms >= REST_MS; ms -= REST_MS)
		if (atomic_load(&k->hurry) || worker_pause(k->w, REST_MS) < 0)
			break;
	return worker_cancelled(k->w);
}

static void watch_launch(struct keep_watch *k)
{
	struct trouble t = {0};
	uint64_t look_us = 1;
	struct err e = {0};
	int rc = start_helper(k, &e);

	while (!worker_cancelled(k->w)) {
		uint32_t wait_ms;

		if (rc == 0)
			rc = look_once(k, &look_us, &e);
		if (rc > 0 || worker_cancelled(k->w))
			return;
		if (rc == 0)
			continue;
		wait_ms = note_failure(k, &t, &e);
		if (!wait_ms || wait_to_try(k, wait_ms))
			return;
		look_us = 1;
		rc = start_helper(k, &e);
	}
}

static int open_folders(struct keep_watch *k, struct err *e)
{
	k->ml_fd = open(k->ml, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	k->held_fd = open(k->held, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return k->ml_fd < 0 || k->held_fd < 0 ? err_sys(e, errno, "%s", k->ml_fd < 0 ? k->ml : k->held) : 0;
}

static int drop_left(const char *name, void *arg)
{
	struct keep_watch *k = arg;
	uint64_t seq = strtoull(name, NULL, 10);
	struct err e;

	for (size_t i = 0; i < k->n_known; i++)
		if (k->known[i] == seq)
			return 0;
	log_info("event=held_left launch_folder=%s place=%s", k->held, name);
	if (files_drop(k->files, name, "", &e) < 0)
		log_warn("event=held_not_removed place=%s reason=\"%s\"", name, e.text);
	return worker_cancelled(k->w);
}

/* What an earlier agent was holding when it was killed is in no index: nothing else would remove it. */
static void drop_unknown(struct keep_watch *k)
{
	struct err e;

	if (start_helper(k, &e) == 0)
		fs_each(k->held, drop_left, k, NULL);
}

static void run_watch(struct worker *w, void *arg)
{
	struct keep_watch *k = arg;
	struct err e = {0};

	k->w = w;
	if (open_folders(k, &e) < 0)
		log_warn("event=keeper_failed reason=\"%s\"", e.text);
	else if (ask_moment(k, &e) == 0) {
		k->over = k->moment.over;
		drop_unknown(k);
		watch_launch(k);
	}
	files_destroy(k->files);
	k->files = NULL;
}

/* ---- life ------------------------------------------------------------------------------------------- */

static void watch_done(void *arg)
{
	struct keep_watch *k = arg;

	k->ops.done(k->arg);
}

static void watch_free(void *arg)
{
	struct keep_watch *k = arg;

	if (k->ml_fd >= 0)
		close(k->ml_fd);
	if (k->held_fd >= 0)
		close(k->held_fd);
	keep_memory_fini(&k->memory);
	user_fini(&k->user);
	free(k->ml);
	free(k->held);
	free(k->cpus);
	free(k->known);
	free(k);
}

struct keep_watch *keep_watch_start(const struct keep_watch_params *p, const struct keep_watch_ops *ops,
                                    void *arg, struct err *e)
{
	const struct worker_task task = {
	    .run = run_watch, .done = watch_done, .release = watch_free, .owner = p->user->uid + 1ull};
	struct keep_watch *k = xcalloc(1, sizeof(*k));

	k->env = p->env;
	k->ops = *ops;
	k->arg = arg;
	k->ml = xstrdup(p->ml);
	k->held = xstrdup(p->held);
	k->cpus = xstrdup(p->cpus);
	k->ml_fd = k->held_fd = -1;
	k->next_seq = p->next_seq;
	user_copy(&k->user, p->user);
	k->known = xcalloc(p->known->n + p->known->n_removing + 1, sizeof(*k->known));
	for (size_t i = 0; i < p->known->n_removing; i++)
		k->known[k->n_known++] = p->known->removing[i].seq;
	for (size_t i = 0; i < p->known->n_done; i++)
		keep_memory_done(&k->memory, &p->known->done[i]);
	for (size_t i = 0; i < p->known->n; i++) {
		struct keep_done d = keep_done_of(p->known->v[i].name, p->known->v[i].print, p->known->v[i].at_us);

		keep_memory_done(&k->memory, &d);
		k->known[k->n_known++] = p->known->v[i].seq;
	}
	k->handle = worker_start(p->workers, &task, k, e);
	if (!k->handle) {
		watch_free(k);
		return NULL;
	}
	return k;
}

void keep_watch_hurry(struct keep_watch *k)
{
	atomic_store(&k->hurry, 1);
}

void keep_watch_cancel(struct keep_watch *k)
{
	if (k)
		worker_cancel(k->handle);
}
