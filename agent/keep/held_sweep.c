/*
 * held_sweep: see held_sweep.h.
 *
 * The thread gives the loop what the indexes say. The loop decides, because only it knows which launches are
 * in use by now.
 */
#include "agent/keep/held_sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/worker.h"
#include "agent/keep/held.h"
#include "agent/keep/keep_index.h"
#include "agent/keep/keep_report.h"
#include "common/base/log.h"
#include "common/net/wire_msg.h"
#include "common/os/fsutil.h"

#define FREE_PART 20 /* one in so many bytes of the disk stays free */

struct held_launch {
	char *name; /* "17.2" */
	struct keep_launch id;
	struct timespec at; /* last change */
	int lost;           /* its index cannot be read */
	struct keep_entry *v;
	size_t n;
	struct keep_removal *removing;
	size_t n_removing;
};

struct look {
	struct held_sweep *s; /* the loop's */
	struct agent_env *env;
	struct worker *w;
	struct held_launch *v;
	size_t n;
};

struct held_sweep {
	struct held_sweep_params p;
	struct loop_timer *timer;
	struct worker *handle;
	int asked;
};

/* ---- on the thread ------------------------------------------------------------------------------------ */

static void read_index(struct held_launch *l, const char *dir)
{
	struct keep_index x = {0};
	struct err e = {0};

	if (keep_index_load(&x, dir, &e) < 0) {
		log_warn("event=keeper_index_lost launch=%s reason=\"%s\"", l->name, e.text);
		l->lost = 1;
		return;
	}
	l->v = x.v;
	l->n = x.n;
	l->removing = x.removing;
	l->n_removing = x.n_removing;
}

/* When the index changed, or was lost. */
static int stat_index(const struct agent_env *env, const char *launch, struct timespec *at)
{
	cleanup_free char *dir = held_dir(env, launch), *index = xasprintf("%s/index", dir);
	struct stat st;

	if (stat(index, &st) < 0 && stat(dir, &st) < 0)
		return -1;
	*at = st.st_mtim;
	return 0;
}

static int look_launch(const char *name, void *arg)
{
	struct look *k = arg;
	cleanup_free char *dir = held_dir(k->env, name);
	struct held_launch *l;
	unsigned long long job;
	unsigned attempt;
	struct timespec at;
	int end = 0;

	if (sscanf(name, "%llu.%u%n", &job, &attempt, &end) != 2 || name[end] != '\0')
		return 0;
	if (stat_index(k->env, name, &at) < 0)
		return 0;
	k->v = xreallocarray(k->v, k->n + 1, sizeof(*k->v));
	l = &k->v[k->n++];
	*l = (struct held_launch){.name = xstrdup(name), .id = {.job = job, .attempt = attempt}, .at = at};
	read_index(l, dir);
	return worker_cancelled(k->w);
}

static void run_look(struct worker *w, void *arg)
{
	struct look *k = arg;
	cleanup_free char *top = xasprintf("%s/held", k->env->cfg.data_dir);

	k->w = w;
	fs_each(top, look_launch, k, NULL);
}

static void free_look(void *arg)
{
	struct look *k = arg;

	for (size_t i = 0; i < k->n; i++) {
		struct keep_index x = {
		    .v = k->v[i].v, .n = k->v[i].n, .removing = k->v[i].removing, .n_removing = k->v[i].n_removing};

		keep_index_fini(&x);
		free(k->v[i].name);
	}
	free(k->v);
	free(k);
}

/* ---- what goes ---------------------------------------------------------------------------------------- */

static void report_gone(const struct held_sweep *s, const struct held_launch *l, struct keep_entry *en,
                        const char *why)
{
	if (en->state != CKPT_COPYING) /* hearthd has another copy of it */
		return;
	en->state = CKPT_GONE;
	keep_report(s->p.outbox, &l->id, en, why);
}

static void drop_launch(const struct held_sweep *s, struct held_launch *l, const char *event, const char *why)
{
	log_info("event=%s launch=%s", event, l->name);
	for (size_t i = 0; i < l->n; i++)
		report_gone(s, l, &l->v[i], why);
	held_drop_launch(s->p.env, s->p.trash, l->name);
}

struct candidate {
	struct held_launch *l;
	struct keep_entry *en;
};

/* Those with a copy elsewhere come first, and of them the oldest. */
static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int copied = (y->en->state == CKPT_VERIFIED) - (x->en->state == CKPT_VERIFIED);

	if (copied)
		return copied;
	return (x->en->at_us > y->en->at_us) - (x->en->at_us < y->en->at_us);
}

struct room {
	struct candidate *v;
	size_t n;
	uint64_t bytes, leaving; /* of all; of those that are being removed */
};

static void add_candidates(struct room *r, struct held_launch *l)
{
	for (size_t i = 0; i < l->n_removing; i++)
		r->leaving += l->removing[i].bytes;
	r->v = xreallocarray(r->v, r->n + l->n + 1, sizeof(*r->v));
	for (size_t i = 0; i < l->n; i++) {
		r->v[r->n++] = (struct candidate){.l = l, .en = &l->v[i]};
		r->bytes += l->v[i].bytes;
	}
}

/* Bytes that have to go, besides those that go already. */
static uint64_t needed_bytes(const struct held_sweep *s, const struct room *r, int *full)
{
	uint64_t free_bytes = 0, total = 0, limit = held_limit(s->p.env), need = 0;

	*full = fs_disk_free(s->p.env->cfg.data_dir, &free_bytes, &total, NULL) == 0 &&
	        free_bytes < total / FREE_PART;
	if (*full)
		need = total / FREE_PART - free_bytes;
	if (limit && r->bytes + r->leaving > limit && r->bytes + r->leaving - limit > need)
		need = r->bytes + r->leaving - limit;
	return need > r->leaving ? need - r->leaving : 0;
}

static void drop_surplus(struct held_sweep *s, struct room *r)
{
	int full, dropped = 0;
	uint64_t need = needed_bytes(s, r, &full);

	if (need)
		qsort(r->v, r->n, sizeof(*r->v), compare_candidates);
	for (size_t i = 0; need && i < r->n; i++) {
		const struct candidate *c = &r->v[i];

		if (dropped++ == SWEEP_MOST) {
			s->asked = 1;
			return;
		}
		log_warn("event=%s launch=%s seq=%" PRIu64, full ? "held_disk_full" : "held_limit", c->l->name,
		         c->en->seq);
		report_gone(s, c->l, c->en,
		            full ? "removed: the disk of its node is nearly full"
		                 : "removed: its node holds more than hearth-agent --held-limit");
		removals_add(s->p.removals, &(struct removal){.launch = c->l->name, .seq = c->en->seq});
		need -= c->en->bytes < need ? c->en->bytes : need;
	}
}

static void go_on_removing(const struct held_sweep *s, const struct held_launch *l)
{
	for (size_t i = 0; i < l->n_removing; i++)
		removals_add(
		    s->p.removals,
		    &(struct removal){.launch = l->name, .seq = l->removing[i].seq, .copy = l->removing[i].copy});
}

/* It was in use when the thread read its index, and has ended since. */
static int was_used(const struct held_sweep *s, const struct held_launch *l)
{
	struct timespec at;

	return stat_index(s->p.env, l->name, &at) < 0 || at.tv_sec != l->at.tv_sec || at.tv_nsec != l->at.tv_nsec;
}

/* What cannot be read now may be read later: it waits until it is too old. */
static void judge_launch(struct held_sweep *s, struct held_launch *l, struct room *r)
{
	uint64_t now_s = clock_real_us(s->p.env->clock) / 1000000, at_s = (uint64_t)l->at.tv_sec;

	if (s->p.in_use(l->name, s->p.arg))
		return;
	if (was_used(s, l)) {
		s->asked = 1; /* the next sweep judges it */
		return;
	}
	if (now_s > at_s && now_s - at_s > HELD_AGE_S) {
		drop_launch(s, l, "held_too_old", "removed: its node held it for three days");
	} else if (!l->lost && !l->n && !l->n_removing) {
		drop_launch(s, l, "held_nothing", NULL);
	} else {
		go_on_removing(s, l);
		add_candidates(r, l);
	}
}

static void on_look(void *arg)
{
	struct look *k = arg;
	struct held_sweep *s = k->s;
	struct room r = {0};

	s->handle = NULL;
	for (size_t i = 0; i < k->n; i++)
		judge_launch(s, &k->v[i], &r);
	drop_surplus(s, &r);
	free(r.v);
	loop_timer_arm(s->timer, SWEEP_US);
}

/* ---- when --------------------------------------------------------------------------------------------- */

static void begin_look(struct held_sweep *s)
{
	const struct worker_task task = {.run = run_look, .done = on_look, .release = free_look};
	struct look *k = xcalloc(1, sizeof(*k));
	struct err e = {0};

	k->s = s;
	k->env = s->p.env;
	s->asked = 0;
	s->handle = worker_start(data_link_workers(s->p.link, POOL_KEEPERS), &task, k, &e);
	if (s->handle)
		return;
	log_warn("event=held_not_swept reason=\"%s\"", e.text);
	free_look(k);
	s->asked = 1;
	loop_timer_arm(s->timer, SWEEP_US);
}

/* The time since the last one is over. */
static void on_timer(void *arg)
{
	struct held_sweep *s = arg;

	if (s->asked)
		begin_look(s);
}

void held_sweep_ask(struct held_sweep *s)
{
	s->asked = 1;
	if (!s->handle && !loop_timer_armed(s->timer))
		begin_look(s);
}

struct held_sweep *held_sweep_create(const struct held_sweep_params *p)
{
	struct held_sweep *s = xcalloc(1, sizeof(*s));

	s->p = *p;
	s->timer = loop_timer_create(p->env->loop, on_timer, s);
	return s;
}

void held_sweep_destroy(struct held_sweep *s)
{
	if (!s)
		return;
	worker_cancel(s->handle);
	loop_timer_destroy(s->timer);
	free(s);
}
