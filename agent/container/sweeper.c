/*
 * sweeper: see sweeper.h. The requests of a round are copied for the thread, so that the loop may cancel them
 * and destroy their containers meanwhile.
 */
#include "agent/container/sweeper.h"

#include <poll.h>
#include <signal.h>
#include <utlist.h>

#include "agent/base/priority.h"
#include "agent/base/worker.h"
#include "agent/container/cgroup.h"
#include "agent/container/container.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/marks.h"

#define DYING_MS     20     /* that a round waits for what it has killed */
#define GAP_US       10000u /* before the next round, when it is only for those that were in the last one */
#define GAP_MAX_US   100000u
#define NO_THREAD_US 100000u
#define END_MS       3000

struct sweep_ask {
	struct sweeper *s;
	struct item *item; /* its copy in the present round; NULL: not in it */
	int to_halt;       /* urgent, and no thread has it yet */
	char *token;
	struct cgroup groups;
	uint64_t end_us, due_us;
	uint32_t gap_us;
	void (*done)(int left, void *arg);
	void *arg;
	struct sweep_ask *prev, *next;
};

/* What the thread knows of a request. */
struct item {
	struct sweep_ask *of; /* the loop's; NULL: cancelled */
	char *token;
	struct cgroup groups;
	size_t mark;
	int left;
};

struct round {
	struct sweeper *s;
	struct item *items;
	size_t n;
};

struct sweeper {
	const struct clock *clock;
	struct workers *workers;
	struct worker *worker; /* of the round under way; NULL none */
	struct loop_timer *timer;
	struct sweep_ask *asks;
};

/* ---- a round --------------------------------------------------------------------------------------- */

static void copy_groups(struct cgroup *to, const struct cgroup *from)
{
	*to = (struct cgroup){.memory_limited = from->memory_limited};
	for (int i = 0; i < CG_N; i++)
		to->dir[i] = xstrdup(from->dir[i]);
}

static int left_inside(const struct item *it)
{
	pid_t *pids = NULL;
	int n = cgroup_pids(&it->groups, &pids);

	free(pids);
	return n < 0 ? 0 : n; /* no groups: the mark alone counts */
}

/* Kills, looks, and kills what it has found. Returns 1 when something is left. */
static int run_round(struct item *items, size_t n)
{
	struct marks *m = marks_create(SWEEP_MARK);
	struct err e = {0};
	int rc, inside, any = 0;

	/* None waits until the processes of another one are listed. */
	for (size_t i = 0; i < n; i++)
		cgroup_halt(&items[i].groups);
	for (size_t i = 0; i < n; i++) {
		cgroup_kill(&items[i].groups);
		if (items[i].token)
			items[i].mark = marks_add(m, items[i].token);
	}
	rc = marks_scan(m, SIGKILL, &e);
	if (rc < 0)
		log_warn("event=sweep_failed reason=\"%s\"", e.text);
	for (size_t i = 0; i < n; i++) {
		int marked = items[i].token ? (int)marks_found(m, items[i].mark) : 0;

		inside = left_inside(&items[i]);
		items[i].left = rc < 0 ? -1 : marked > inside ? marked : inside;
		any |= items[i].left != 0;
	}
	if (any)
		marks_wait(m, DYING_MS);
	marks_destroy(m);
	return any;
}

static void items_free(struct item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(items[i].token);
		cgroup_fini(&items[i].groups);
	}
	free(items);
}

/* ---- requests -------------------------------------------------------------------------------------- */

static void sweep_free(struct sweep_ask *w)
{
	DL_DELETE(w->s->asks, w);
	if (w->item)
		w->item->of = NULL;
	free(w->token);
	cgroup_fini(&w->groups);
	free(w);
}

void sweep_cancel(struct sweep_ask *w)
{
	if (w)
		sweep_free(w);
}

static void arm_next(struct sweeper *s)
{
	uint64_t now = clock_boot_us(s->clock), due = UINT64_MAX;
	const struct sweep_ask *w;

	if (s->worker)
		return;
	DL_FOREACH (s->asks, w)
		if (w->due_us < due)
			due = w->due_us;
	if (due == UINT64_MAX)
		loop_timer_cancel(s->timer);
	else
		loop_timer_arm(s->timer, due > now ? due - now : 0);
}

struct sweep_ask *sweeper_ask(struct sweeper *s, const struct sweep_params *p)
{
	struct sweep_ask *w = xcalloc(1, sizeof(*w));

	w->s = s;
	w->token = xstrdup(p->token);
	if (p->container)
		copy_groups(&w->groups, container_groups(p->container));
	w->due_us = clock_boot_us(s->clock);
	w->end_us = w->due_us + p->timeout_ms * 1000ull;
	w->done = p->done;
	w->arg = p->arg;
	w->to_halt = p->urgent && p->container;
	DL_APPEND(s->asks, w);
	if (s->worker && w->to_halt)
		loop_timer_arm(s->timer, 0);
	arm_next(s);
	return w;
}

/* ---- rounds on the loop ---------------------------------------------------------------------------- */

static void answer_item(struct sweeper *s, struct item *it)
{
	uint64_t now = clock_boot_us(s->clock);
	struct sweep_ask *w = it->of;
	void (*done)(int left, void *arg);
	void *arg;

	if (!w)
		return;
	w->item = NULL;
	it->of = NULL;
	if (it->left != 0 && now < w->end_us) {
		w->gap_us = w->gap_us ? w->gap_us * 2 : GAP_US;
		if (w->gap_us > GAP_MAX_US)
			w->gap_us = GAP_MAX_US;
		w->due_us = now + w->gap_us;
		return;
	}
	done = w->done;
	arg = w->arg;
	sweep_free(w);
	done(it->left, arg);
}

static void round_task(struct worker *w, void *arg)
{
	struct round *r = arg;

	(void)w;
	priority_raise();
	run_round(r->items, r->n);
}

static void halt_task(struct worker *w, void *arg)
{
	struct round *r = arg;

	(void)w;
	priority_raise();
	for (size_t i = 0; i < r->n; i++)
		cgroup_halt(&r->items[i].groups);
}

static void round_done(void *arg)
{
	struct round *r = arg;

	r->s->worker = NULL;
	/* An answer may cancel other requests, also of this round, and ask again. */
	for (size_t i = 0; i < r->n; i++)
		answer_item(r->s, &r->items[i]);
	arm_next(r->s);
}

static void round_release(void *arg)
{
	struct round *r = arg;

	items_free(r->items, r->n);
	free(r);
}

static const struct worker_task round_ops = {.run = round_task, .done = round_done, .release = round_release};
static const struct worker_task halt_ops = {.run = halt_task, .release = round_release};

/* Urgent requests that came during a round: their groups are not to wait for its end. */
static void begin_halt(struct sweeper *s)
{
	struct round *r = xcalloc(1, sizeof(*r));
	struct sweep_ask *w;
	struct err e = {0};

	DL_COUNT(s->asks, w, r->n);
	r->items = xcalloc(r->n, sizeof(*r->items));
	r->n = 0;
	DL_FOREACH (s->asks, w)
		if (w->to_halt) {
			w->to_halt = 0;
			copy_groups(&r->items[r->n++].groups, &w->groups);
		}
	if (r->n == 0 || !worker_start(s->workers, &halt_ops, r, &e))
		round_release(r); /* the next round does it */
}

/* Answers what cannot be looked at any more. */
static void no_thread(struct sweeper *s, struct round *r, const struct err *e)
{
	log_error("event=sweep_failed reason=\"%s\"", e->text);
	for (size_t i = 0; i < r->n; i++) {
		r->items[i].left = -1;
		answer_item(s, &r->items[i]);
	}
	round_release(r);
	loop_timer_arm(s->timer, NO_THREAD_US);
}

/* All requests are in a round, also those that are not due: their marks cost nothing. */
static void begin_round(void *arg)
{
	struct sweeper *s = arg;
	struct round *r;
	struct err e = {0};
	struct sweep_ask *w;
	size_t n = 0;

	if (s->worker)
		begin_halt(s);
	if (s->worker || !s->asks)
		return;
	r = xcalloc(1, sizeof(*r));
	r->s = s;
	DL_COUNT(s->asks, w, r->n);
	r->items = xcalloc(r->n, sizeof(*r->items));
	DL_FOREACH (s->asks, w) {
		struct item *it = &r->items[n++];

		it->of = w;
		w->to_halt = 0;
		it->token = xstrdup(w->token);
		copy_groups(&it->groups, &w->groups);
		w->item = it;
	}
	s->worker = worker_start(s->workers, &round_ops, r, &e);
	if (!s->worker)
		no_thread(s, r, &e);
}

/* ---- life ------------------------------------------------------------------------------------------ */

struct sweeper *sweeper_create(struct loop *l, const struct clock *clock)
{
	struct sweeper *s = xcalloc(1, sizeof(*s));

	s->clock = clock;
	/* Threads of its own: a fence must not wait for 256 downloads. */
	s->workers = workers_create(l);
	s->timer = loop_timer_create(l, begin_round, s);
	return s;
}

void sweeper_destroy(struct sweeper *s)
{
	if (!s)
		return;
	while (s->asks)
		sweep_free(s->asks);
	loop_timer_destroy(s->timer);
	workers_destroy(s->workers, END_MS);
	free(s);
}

int sweep_now(const char *token, const struct container *c, uint32_t timeout_ms)
{
	uint64_t end = clock_boot_us(clock_real()) + timeout_ms * 1000ull;
	struct item *it = xcalloc(1, sizeof(*it));
	int left;

	it->token = xstrdup(token);
	if (c)
		copy_groups(&it->groups, container_groups(c));
	while (run_round(it, 1) && clock_boot_us(clock_real()) < end)
		poll(NULL, 0, GAP_US / 1000);
	left = it->left;
	items_free(it, 1);
	return left;
}
