/*
 * prefetch: see prefetch.h. A staging without a launch: it has no folder, no account and no log.
 */
#include "agent/stage/prefetch.h"

#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

#include "agent/stage/stage_int.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

struct order {
	uint64_t job;
	uint32_t attempt;
	int urgent;
	struct strv trees;
	struct worker *handle; /* NULL: it waits */
	struct order *prev, *next;
};

struct prefetch {
	struct agent_env *env;
	struct data_link *link;
	const struct prefetch_ops *ops;
	void *arg;
	struct order *waiting, *now;
	unsigned n;
};

struct prefetch *prefetch_create(struct agent_env *env, struct data_link *link,
                                 const struct prefetch_ops *ops, void *arg)
{
	struct prefetch *p = xcalloc(1, sizeof(*p));

	*p = (struct prefetch){.env = env, .link = link, .ops = ops, .arg = arg};
	return p;
}

static void order_free(struct order *o)
{
	strv_fini(&o->trees);
	free(o);
}

static void drop_waiting(struct prefetch *p, struct order *o)
{
	DL_DELETE(p->waiting, o);
	p->n--;
	order_free(o);
}

unsigned prefetch_waiting(const struct prefetch *p)
{
	return p->n;
}

/* ---- on the thread ------------------------------------------------------------------------------------ */

static void run_ahead(struct worker *w, void *arg)
{
	struct stage *s = arg;
	struct err e = {.code = ERR_NONE};

	s->w = w;
	stage_modest(1);
	for (size_t i = 0; i < s->trees.n && e.code == ERR_NONE; i++)
		if (stage_tree_ahead(s, s->trees.v[i], &e) < 0)
			snprintf(s->text, sizeof(s->text), "%s", e.text);
	s->rc = e.code == ERR_NONE ? 0 : (int)e.code;
	if (!worker_cancelled(w))
		stage_evict(s);
	stage_modest(0);
}

/* ---- on the loop -------------------------------------------------------------------------------------- */

static void begin_next(struct prefetch *p);

static void answer(struct prefetch *p, const struct order *o, int code, uint64_t bytes, char *text)
{
	struct wm_prefetched m = {
	    .job = o->job, .attempt = o->attempt, .code = (uint32_t)code, .bytes = bytes, .text = text};

	log_info("event=prefetched job=%" PRIu64 " attempt=%u trees=%zu bytes=%" PRIu64 " code=%d text=\"%s\"",
	         o->job, o->attempt, o->trees.n, bytes, code, text);
	p->ops->send(WM_PREFETCHED, &m, p->arg);
}

static void on_done(void *arg)
{
	struct stage *s = arg;
	struct prefetch *p = s->arg;
	struct order *o = p->now;

	p->now = NULL;
	answer(p, o, s->rc, s->fetched, s->text);
	order_free(o);
	begin_next(p);
}

static struct stage *stage_of(struct prefetch *p, const struct order *o)
{
	struct stage *s = xcalloc(1, sizeof(*s));

	s->ml_fd = -1;
	s->env = p->env;
	s->b = p->link;
	s->arg = p;
	s->job = o->job;
	s->attempt = o->attempt;
	s->data_dir = xstrdup(p->env->cfg.data_dir);
	s->ahead = 1;
	for (size_t i = 0; i < o->trees.n; i++)
		strv_add(&s->trees, o->trees.v[i]);
	return s;
}

static void begin_next(struct prefetch *p)
{
	static const struct worker_task task = {.run = run_ahead, .done = on_done, .release = stage_free};
	struct order *o = p->waiting;
	struct stage *s;
	struct err e;

	if (p->now || !o)
		return;
	DL_DELETE(p->waiting, o);
	p->n--;
	s = stage_of(p, o);
	o->handle = worker_start(data_link_workers(p->link, POOL_STAGING), &task, s, &e);
	p->now = o;
	if (o->handle)
		return;
	/* Launches have all threads. The rest of the queue waits for the next order. */
	p->now = NULL;
	answer(p, o, (int)e.code, 0, e.text);
	order_free(o);
	stage_free(s);
}

void prefetch_cancel(struct prefetch *p, uint64_t job)
{
	struct order *o, *next;

	if (!p)
		return;
	DL_FOREACH_SAFE (p->waiting, o, next)
		if (o->job == job)
			drop_waiting(p, o);
	o = p->now;
	if (!o || o->job != job)
		return;
	log_info("event=prefetch_ended job=%" PRIu64 " attempt=%u", o->job, o->attempt);
	p->now = NULL;
	worker_cancel(o->handle);
	order_free(o);
	begin_next(p);
}

/* Behind the last urgent one, or at the end. */
static void put_order(struct prefetch *p, struct order *o)
{
	struct order *at = p->waiting;

	while (at && (!o->urgent || at->urgent))
		at = at->next;
	if (at)
		DL_PREPEND_ELEM(p->waiting, at, o);
	else
		DL_APPEND(p->waiting, o);
	p->n++;
}

void prefetch_order(struct prefetch *p, const struct wm_prefetch *m)
{
	struct order *o, *next;

	if (!p)
		return;
	if (!m->trees.n) {
		prefetch_cancel(p, m->job);
		return;
	}
	DL_FOREACH_SAFE (p->waiting, o, next)
		if (o->job == m->job)
			drop_waiting(p, o);
	o = xcalloc(1, sizeof(*o));
	o->job = m->job;
	o->attempt = m->attempt;
	o->urgent = m->urgent != 0;
	for (uint32_t i = 0; i < m->trees.n && i < PREFETCH_TREES; i++)
		strv_add(&o->trees, m->trees.v[i]);
	put_order(p, o);
	if (p->n > PREFETCH_QUEUE)
		drop_waiting(p, p->waiting->prev); /* the head's prev is the last one */
	begin_next(p);
}

void prefetch_destroy(struct prefetch *p)
{
	if (!p)
		return;
	while (p->waiting)
		drop_waiting(p, p->waiting);
	if (p->now) {
		worker_cancel(p->now->handle);
		order_free(p->now);
	}
	free(p);
}
