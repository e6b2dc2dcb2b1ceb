/*
 * worker: see worker.h. All messages of all tasks go through one chan. Its capacity covers what every task
 * may have under way, so a send never waits, and the end of the loop leaves no thread blocked in it.
 *
 * A task waits in a queue while all threads of its pool are at work, or as many as its owner may have. Then
 * the owner with fewest threads has the next turn. Queue and counts are the loop's alone, so they need no
 * lock.
 *
 * A thread that has ended a task waits for the next one, because a launch has several short tasks and a new
 * thread costs as much as one of them. At most THREADS_KEPT wait; others end, and the next start joins
 * them.
 */
#include "agent/base/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hashtable.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/chan.h"

#include <utlist.h>

#define POSTS_MAX    16 /* of one task, not yet run */
#define THREADS_KEPT 8
#define MSGS_MAX     (POSTS_MAX + 2) /* of one task: and one call and the end */
#define RETRY_US     1000000u        /* a thread could not be made for a task that waits */
#define TELL_US      5000000u        /* between two calls of waits for a task */

struct owner {
	uint64_t id;
	unsigned tasks, active; /* active: have a thread */
	UT_hash_handle hh;
};

struct worker {
	struct workers *ws;
	struct worker_task task;
	void *arg;
	struct owner *owner;
	pthread_cond_t cond;
	unsigned posts; /* under way */
	int cancelled;
	uint64_t due_us;  /* boot: then it is late; UINT64_MAX never */
	uint64_t tell_us; /* and then it hears that it waits */
	struct worker *next;
	struct worker *q_prev, *q_next; /* of those that wait */
};

struct thread {
	struct workers *ws;
	pthread_t id;
	pthread_cond_t cond; /* a task, or the end */
	struct worker *w;    /* NULL: none to do */
	struct thread *next; /* of those that are idle, or of those that ended */
};

struct worker_call {
	struct workers *ws;
	struct worker *w; /* valid while waiting */
	void (*start)(struct worker_call *, void *);
	void (*drop)(void *);
	void *data;
	int waiting, ended;
	unsigned refs;
};

enum msg_kind { MSG_POST, MSG_CALL, MSG_END };
struct msg {
	enum msg_kind kind;
	struct worker *w;
	void (*fn)(void *, void *);
	void (*drop)(void *);
	void *data;
	struct worker_call *call;
};

struct workers {
	struct workers_limits limits;
	struct loop_timer *timer;
	struct worker *queue;        /* the oldest first; a cancelled one waits for the timer */
	unsigned n_queued, n_active; /* n_active: have a thread */
	struct owner *owners;
	struct chan *chan;
	pthread_mutex_t lock;
	pthread_cond_t ended; /* some thread has ended */
	struct worker *list;
	unsigned n;
	struct thread *idle, *gone; /* gone: to be joined */
	unsigned n_idle, n_threads; /* n_threads: that have not ended */
	int stopping;
};

static void deadline_in(struct timespec *ts, uint32_t ms)
{
	clock_cond_deadline(ts, (uint64_t)ms * 1000);
}

static void cond_setup(pthread_cond_t *c)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(c, &a);
	pthread_condattr_destroy(&a);
}

static void send_msg(struct workers *ws, struct msg m)
{
	chan_send_wait(ws->chan, xmemdup(&m, sizeof(m)));
}

/* With the lock held. 1: it was the last. */
static int unref_call(struct worker_call *c)
{
	assert(c->refs > 0);
	return --c->refs == 0;
}

static void call_free(struct worker_call *c)
{
	if (c->drop)
		c->drop(c->data);
	free(c);
}

/* ---- owners ----------------------------------------------------------------------------------------- */

static struct owner *join_owner(struct workers *ws, uint64_t id)
{
	struct owner *o;

	HASH_FIND(hh, ws->owners, &id, sizeof(id), o);
	if (!o) {
		o = xcalloc(1, sizeof(*o));
		o->id = id;
		HASH_ADD(hh, ws->owners, id, sizeof(o->id), o);
	}
	o->tasks++;
	return o;
}

static void leave_owner(struct workers *ws, struct owner *o)
{
	if (--o->tasks)
		return;
	HASH_DEL(ws->owners, o);
	free(o);
}

static int may_begin(const struct workers *ws, const struct owner *o)
{
	return ws->n_active < ws->limits.threads &&
	       (!ws->limits.per_owner || !o->id || o->active < ws->limits.per_owner);
}

/* Returns the oldest task of the owner with fewest threads; NULL: none may begin. */
static struct worker *next_waiting(const struct workers *ws)
{
	struct worker *w, *best = NULL;

	DL_FOREACH2(ws->queue, w, q_next)
	if (may_begin(ws, w->owner) && (!best || w->owner->active < best->owner->active))
		best = w;
	return best;
}

/* ---- on the loop ------------------------------------------------------------------------------------ */

static void worker_free(struct worker *w)
{
	struct workers *ws = w->ws;

	for (struct worker **p = &ws->list; *p; p = &(*p)->next) {
		if (*p == w) {
			*p = w->next;
			break;
		}
	}
	ws->n--;
	leave_owner(ws, w->owner);
	pthread_cond_destroy(&w->cond);
	if (w->task.release)
		w->task.release(w->arg);
	free(w);
}

static void on_post(struct workers *ws, struct msg *m)
{
	struct worker *w = m->w;

	if (!w->cancelled)
		m->fn(w->arg, m->data);
	if (m->drop)
		m->drop(m->data);
	pthread_mutex_lock(&ws->lock);
	w->posts--;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&ws->lock);
}

static void start_waiting(struct workers *ws);

/* A task may be cancelled because what the call is about is gone; its thread waits for no answer then. */
static void start_call(struct worker_call *c)
{
	struct workers *ws = c->ws;
	int last;

	if (!c->w->cancelled) {
		c->start(c, c->data);
		return;
	}
	pthread_mutex_lock(&ws->lock);
	last = unref_call(c);
	pthread_mutex_unlock(&ws->lock);
	if (last)
		call_free(c);
}

static void on_msg(void *p, void *arg)
{
	struct workers *ws = arg;
	struct msg *m = p;
	int cancelled;

	switch (m->kind) {
	case MSG_POST:
		on_post(ws, m);
		break;
	case MSG_CALL:
		start_call(m->call);
		break;
	case MSG_END:
		/* done may start other tasks or cancel them, but this one is over: its handle is void. */
		ws->n_active--;
		m->w->owner->active--;
		cancelled = m->w->cancelled;
		if (!cancelled && m->w->task.done)
			m->w->task.done(m->w->arg);
		worker_free(m->w);
		start_waiting(ws);
		break;
	}
	free(m);
}

void worker_call_end(struct worker_call *c)
{
	struct workers *ws = c->ws;
	int last;

	pthread_mutex_lock(&ws->lock);
	c->ended = 1;
	if (c->waiting)
		pthread_cond_signal(&c->w->cond);
	last = unref_call(c);
	pthread_mutex_unlock(&ws->lock);
	if (last)
		call_free(c);
}

void worker_cancel(struct worker *w)
{
	struct workers *ws;

	if (!w)
		return;
	ws = w->ws;
	pthread_mutex_lock(&ws->lock);
	w->cancelled = 1;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&ws->lock);
	if (w->q_prev) /* it waits; a queue of utlist has a prev in each */
		loop_timer_arm(ws->timer, 0);
}

/* ---- on the thread ---------------------------------------------------------------------------------- */

/* With the lock held. 0: no more. */
static int next_task(struct thread *t)
{
	struct workers *ws = t->ws;

	if (ws->stopping || ws->n_idle >= THREADS_KEPT)
		return 0;
	t->w = NULL;
	t->next = ws->idle;
	ws->idle = t;
	ws->n_idle++;
	while (!t->w && !ws->stopping)
		pthread_cond_wait(&t->cond, &ws->lock);
	return t->w != NULL;
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	struct workers *ws = t->ws;
	int more;

	do {
		t->w->task.run(t->w, t->w->arg);
		send_msg(ws, (struct msg){.kind = MSG_END, .w = t->w}); /* from here on it is the loop's */
		pthread_mutex_lock(&ws->lock);
		more = next_task(t);
		pthread_mutex_unlock(&ws->lock);
	} while (more);
	pthread_mutex_lock(&ws->lock);
	t->next = ws->gone;
	ws->gone = t;
	ws->n_threads--;
	pthread_cond_broadcast(&ws->ended);
	pthread_mutex_unlock(&ws->lock);
	return NULL;
}

int worker_cancelled(struct worker *w)
{
	int cancelled;

	pthread_mutex_lock(&w->ws->lock);
	cancelled = w->cancelled;
	pthread_mutex_unlock(&w->ws->lock);
	return cancelled;
}

int worker_pause(struct worker *w, uint32_t ms)
{
	struct timespec ts;
	int rc = 0, cancelled;

	deadline_in(&ts, ms);
	pthread_mutex_lock(&w->ws->lock);
	while (!w->cancelled && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&w->cond, &w->ws->lock, &ts);
	cancelled = w->cancelled;
	pthread_mutex_unlock(&w->ws->lock);
	return cancelled ? -1 : 0;
}

void worker_post(struct worker *w, void (*fn)(void *arg, void *data), void *data, void (*drop)(void *data))
{
	int cancelled;

	pthread_mutex_lock(&w->ws->lock);
	while (!w->cancelled && w->posts >= POSTS_MAX)
		pthread_cond_wait(&w->cond, &w->ws->lock); /* ends by the loop's turn or by a cancel */
	cancelled = w->cancelled;
	if (!cancelled)
		w->posts++;
	pthread_mutex_unlock(&w->ws->lock);
	if (!cancelled)
		send_msg(w->ws, (struct msg){.kind = MSG_POST, .w = w, .fn = fn, .data = data, .drop = drop});
	else if (drop)
		drop(data);
}

int worker_call(struct worker *w, void (*start)(struct worker_call *c, void *data), void *data,
                void (*drop)(void *data), void (*take)(void *data, void *out), void *out, uint32_t timeout_ms,
                struct err *e)
{
	struct workers *ws = w->ws;
	struct worker_call *c;
	struct timespec ts;
	int rc = 0, last, ended;

	if (worker_cancelled(w)) {
		drop(data);
		return err_set(e, ERR_UNAVAILABLE, "cancelled");
	}
	c = xcalloc(1, sizeof(*c));
	*c = (struct worker_call){
	    .ws = ws, .w = w, .start = start, .drop = drop, .data = data, .waiting = 1, .refs = 2};
	deadline_in(&ts, timeout_ms);
	send_msg(ws, (struct msg){.kind = MSG_CALL, .w = w, .call = c});
	pthread_mutex_lock(&ws->lock);
	while (!c->ended && !w->cancelled && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&w->cond, &ws->lock, &ts);
	ended = c->ended;
	c->waiting = 0;
	pthread_mutex_unlock(&ws->lock);
	/* Before the reference goes: once ended, the loop does not touch data any more. */
	if (ended && take)
		take(c->data, out);
	pthread_mutex_lock(&ws->lock);
	last = unref_call(c);
	pthread_mutex_unlock(&ws->lock);
	if (last)
		call_free(c);
	if (ended)
		return 0;
	return rc == ETIMEDOUT ? err_set(e, ERR_TIMEOUT, "no answer within %u s", timeout_ms / 1000)
	                       : err_set(e, ERR_UNAVAILABLE, "cancelled");
}

/* ---- life ------------------------------------------------------------------------------------------- */

static void join_gone(struct workers *ws)
{
	struct thread *list, *t;

	pthread_mutex_lock(&ws->lock);
	list = ws->gone;
	ws->gone = NULL;
	pthread_mutex_unlock(&ws->lock);
	while ((t = list)) {
		list = t->next;
		pthread_join(t->id, NULL);
		pthread_cond_destroy(&t->cond);
		free(t);
	}
}

/* 1: an idle one has it. */
static int give_idle(struct workers *ws, struct worker *w)
{
	struct thread *t;

	pthread_mutex_lock(&ws->lock);
	t = ws->idle;
	if (t) {
		ws->idle = t->next;
		ws->n_idle--;
		t->w = w;
		pthread_cond_signal(&t->cond);
	}
	pthread_mutex_unlock(&ws->lock);
	return t != NULL;
}

static int new_thread(struct workers *ws, struct worker *w, struct err *e)
{
	struct thread *t = xcalloc(1, sizeof(*t));
	sigset_t all, before;
	int rc;

	t->ws = ws;
	t->w = w;
	cond_setup(&t->cond);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
	pthread_mutex_lock(&ws->lock);
	rc = pthread_create(&t->id, NULL, thread_main, t);
	ws->n_threads += rc == 0;
	pthread_mutex_unlock(&ws->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return 0;
	pthread_cond_destroy(&t->cond);
	free(t);
	return err_sys(e, rc, "thread");
}

static int begin_task(struct workers *ws, struct worker *w, struct err *e)
{
	join_gone(ws);
	if (!give_idle(ws, w) && new_thread(ws, w, e) < 0)
		return -1;
	ws->n_active++;
	w->owner->active++;
	return 0;
}

static void unqueue_task(struct worker *w)
{
	DL_DELETE2(w->ws->queue, w, q_prev, q_next);
	w->q_prev = w->q_next = NULL;
	w->ws->n_queued--;
}

/* Ends tasks that waited for too long or were cancelled while they waited. Returns when the next one is due.
 */
static uint64_t drop_late(struct workers *ws, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct worker *w, *tmp;

	DL_FOREACH_SAFE2(ws->queue, w, tmp, q_next)
	{
		if (!w->cancelled && now < w->due_us) {
			next = next < w->due_us ? next : w->due_us;
			continue;
		}
		unqueue_task(w);
		if (!w->cancelled && w->task.late)
			w->task.late(w->arg);
		worker_free(w);
		return 0; /* late may have changed the queue */
	}
	return next;
}

static void start_waiting(struct workers *ws)
{
	struct worker *w;
	struct err e;

	while ((w = next_waiting(ws))) {
		if (w->cancelled) {
			unqueue_task(w);
			worker_free(w);
			continue;
		}
		if (begin_task(ws, w, &e) < 0) {
			log_warn("event=task_waits reason=\"%s\"", e.text);
			loop_timer_arm(ws->timer, RETRY_US);
			return;
		}
		unqueue_task(w);
	}
}

/* Tells those that wait that they do. Returns when the next one is to hear it. */
static uint64_t tell_waiting(struct workers *ws, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct worker *w;

	DL_FOREACH2(ws->queue, w, q_next)
	{
		if (!w->task.waits || w->cancelled)
			continue;
		if (now >= w->tell_us) {
			w->tell_us = now + TELL_US;
			w->task.waits(w->arg);
		}
		next = next < w->tell_us ? next : w->tell_us;
	}
	return next;
}

static void on_timer(void *arg)
{
	struct workers *ws = arg;
	uint64_t now = clock_boot_us(clock_real()), next, tell;

	while ((next = drop_late(ws, now)) == 0)
		continue;
	tell = tell_waiting(ws, now);
	next = next < tell ? next : tell;
	if (next != UINT64_MAX)
		loop_timer_arm(ws->timer, next - now);
	start_waiting(ws);
}

static void queue_task(struct workers *ws, struct worker *w)
{
	uint64_t now = clock_boot_us(clock_real()), next;

	w->due_us = ws->limits.wait_ms ? now + (uint64_t)ws->limits.wait_ms * 1000 : UINT64_MAX;
	w->tell_us = w->task.waits ? now + TELL_US : UINT64_MAX;
	next = w->due_us < w->tell_us ? w->due_us : w->tell_us;
	if (next != UINT64_MAX && !loop_timer_armed(ws->timer))
		loop_timer_arm(ws->timer, next - now);
	DL_APPEND2(ws->queue, w, q_prev, q_next);
	ws->n_queued++;
}

static void drop_new(struct worker *w)
{
	leave_owner(w->ws, w->owner);
	pthread_cond_destroy(&w->cond);
	free(w);
}

/* The new task is among those of o. */
static int check_room(const struct workers *ws, const struct owner *o, struct err *e)
{
	const struct workers_limits *l = &ws->limits;
	unsigned waits = o->tasks - o->active - 1;

	if (ws->n_queued >= l->queue)
		return err_set(e, ERR_BUSY, "%u tasks are at work and %u wait, which is the limit", ws->n_active,
		               ws->n_queued);
	if (l->owner_queue && o->id && waits >= l->owner_queue)
		return err_set(e, ERR_BUSY, "%u tasks of its account are at work and %u wait, which is the limit",
		               o->active, waits);
	return 0;
}

struct worker *worker_start(struct workers *ws, const struct worker_task *task, void *arg, struct err *e)
{
	struct worker *w = xcalloc(1, sizeof(*w));
	int waits;

	w->ws = ws;
	w->task = *task;
	w->arg = arg;
	w->owner = join_owner(ws, task->owner);
	cond_setup(&w->cond);
	waits = !may_begin(ws, w->owner) || next_waiting(ws); /* one that waits and may begin: no thread for it */
	if (waits && check_room(ws, w->owner, e) < 0) {
		drop_new(w);
		return NULL;
	}
	if (waits) {
		queue_task(ws, w);
	} else if (begin_task(ws, w, e) < 0) {
		drop_new(w);
		return NULL;
	}
	w->next = ws->list;
	ws->list = w;
	ws->n++;
	return w;
}

struct workers *workers_create_pool(struct loop *l, const struct workers_limits *limits)
{
	struct workers *ws = xcalloc(1, sizeof(*ws));

	ws->limits = *limits;
	pthread_mutex_init(&ws->lock, NULL);
	cond_setup(&ws->ended);
	ws->chan = chan_create(l, (size_t)limits->threads * MSGS_MAX, 64, on_msg, ws);
	ws->timer = loop_timer_create(l, on_timer, ws);
	return ws;
}

struct workers *workers_create(struct loop *l)
{
	return workers_create_pool(l, &(struct workers_limits){.threads = WORKERS_MAX});
}

static void drop_msg(void *p)
{
	struct msg *m = p;

	if (m->kind == MSG_POST && m->drop)
		m->drop(m->data);
	if (m->kind == MSG_CALL && unref_call(m->call)) /* every thread has ended: no lock is needed */
		call_free(m->call);
	free(m);
}

int workers_destroy(struct workers *ws, uint32_t wait_ms)
{
	struct timespec ts;
	int rc = 0, all;

	if (!ws)
		return 0;
	for (struct worker *w = ws->list; w; w = w->next)
		worker_cancel(w);
	loop_timer_cancel(ws->timer);
	deadline_in(&ts, wait_ms);
	pthread_mutex_lock(&ws->lock);
	ws->stopping = 1;
	for (struct thread *t = ws->idle; t; t = t->next)
		pthread_cond_signal(&t->cond);
	while ((all = ws->n_threads == 0) == 0 && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&ws->ended, &ws->lock, &ts);
	pthread_mutex_unlock(&ws->lock);
	if (!all) {
		/* Nothing of theirs may be freed under their feet. The process is about to end anyway. */
		log_warn("event=threads_left_behind tasks=%u", ws->n);
		return -1;
	}
	join_gone(ws);
	chan_destroy(ws->chan, drop_msg);
	loop_timer_destroy(ws->timer);
	while (ws->list)
		worker_free(ws->list);
	pthread_cond_destroy(&ws->ended);
	pthread_mutex_destroy(&ws->lock);
	free(ws);
	return 0;
}
