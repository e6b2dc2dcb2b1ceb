/*
 * loop: a turn is one wait of libevent plus all callbacks that it made ready, then the deferred calls,
 * the turn hook, and last the memory of handles destroyed meanwhile.
 *
 * libevent gives signals to one loop of a process only; the other loops must create no loop_signal.
 */
#include "common/os/loop.h"

#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

enum handle_kind { HANDLE_TIMER, HANDLE_FD, HANDLE_SIGNAL };

/* First member of every handle: what the end of the turn needs to release it. */
struct handle {
	struct loop *loop;
	struct event *ev; /* NULL for a paused descriptor */
	struct handle *next_dead;
};

struct loop_timer {
	struct handle h;
	loop_cb cb;
	void *arg;
};

struct loop_fd {
	struct handle h;
	int fd, what;
	loop_fd_cb cb;
	void *arg;
};

struct loop_signal {
	struct handle h;
	void (*cb)(int, void *);
	void *arg;
};

struct deferred {
	struct deferred *next;
	loop_cb cb;
	void *arg;
};

struct loop {
	struct event_base *base;
	struct event *wake; /* bounds the wait of loop_run_once */
	struct handle *dead;
	struct deferred *first, **last;
	loop_cb hook;
	void *hook_arg;
	int stop;
	uint64_t turn_start_us; /* first callback of this turn, 0: none yet */
	uint64_t warn_us;
	uint64_t turns, late; /* since the start */
	uint64_t span_us, longest_us,
	    before_us; /* when the span began, the longest turn in it and in the one before */
	struct log_limit slow_limit;
};

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

struct loop *loop_create(void)
{
	struct event_config *config = event_config_new();
	struct loop *l = xcalloc(1, sizeof(*l));

	if (!config)
		abort();
	/*
	 * Exact timers: the default clock is up to 4 ms behind, and a cached time makes a timer that is armed
	 * late in a long turn fire early. A deadline may come late, never early.
	 */
	event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER | EVENT_BASE_FLAG_NO_CACHE_TIME);
	l->base = event_base_new_with_config(config);
	event_config_free(config);
	l->wake = l->base ? event_new(l->base, -1, 0, on_wake, NULL) : NULL;
	if (!l->wake) {
		log_error("event=loop_create_failed"); /* no descriptors left: nothing can run */
		abort();
	}
	l->last = &l->first;
	l->slow_limit.per_minute = 6;
	return l;
}

static void free_dead(struct loop *l)
{
	struct handle *h;

	while ((h = l->dead)) {
		l->dead = h->next_dead;
		if (h->ev)
			event_free(h->ev);
		free(h);
	}
}

void loop_destroy(struct loop *l)
{
	struct deferred *d;

	if (!l)
		return;
	while ((d = l->first)) {
		l->first = d->next;
		free(d);
	}
	free_dead(l);
	event_free(l->wake);
	event_base_free(l->base);
	free(l);
}

struct event_base *loop_base(struct loop *l)
{
	return l->base;
}

/* ---- turns ------------------------------------------------------------------------------------- */

void loop_enter(struct loop *l)
{
	if (l->turn_start_us == 0)
		l->turn_start_us = clock_boot_us(clock_real());
}

static void run_deferred(struct loop *l)
{
	struct deferred *d = l->first, *next;

	/* Only those that are there now: what they defer in turn comes after the next look at descriptors. */
	l->first = NULL;
	l->last = &l->first;
	for (; d; d = next) {
		next = d->next;
		d->cb(d->arg);
		free(d);
	}
}

static void begin_span(struct loop *l, uint64_t now)
{
	if (now - l->span_us < LOOP_SPAN_US)
		return;
	l->before_us = now - l->span_us < 2 * (uint64_t)LOOP_SPAN_US ? l->longest_us : 0;
	l->longest_us = 0;
	l->span_us = now;
}

static void measure_turn(struct loop *l)
{
	uint64_t now, took;
	unsigned held_back;

	if (l->turn_start_us == 0)
		return;
	now = clock_boot_us(clock_real());
	took = now - l->turn_start_us;
	l->turn_start_us = 0;
	begin_span(l, now);
	l->turns++;
	l->late += took > LOOP_LATE_US;
	if (took > l->longest_us)
		l->longest_us = took;
	if (l->warn_us && took > l->warn_us && log_limit_ok(&l->slow_limit, now, &held_back))
		log_warn("event=slow_turn took_us=%" PRIu64 " suppressed=%u", took, held_back);
}

static void run_turn(struct loop *l, int flags)
{
	if (l->first)
		flags |= EVLOOP_NONBLOCK;
	if (event_base_loop(l->base, flags | EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY) < 0) {
		log_error("event=loop_failed");
		abort();
	}
	if (l->first || l->hook)
		loop_enter(l);
	run_deferred(l);
	if (l->hook)
		l->hook(l->hook_arg);
	free_dead(l);
	measure_turn(l);
}

void loop_run(struct loop *l)
{
	l->stop = 0;
	while (!l->stop)
		run_turn(l, 0);
}

void loop_run_once(struct loop *l, int64_t max_wait_ms)
{
	struct timeval tv;

	if (max_wait_ms <= 0) {
		run_turn(l, EVLOOP_NONBLOCK);
		return;
	}
	tv.tv_sec = (time_t)(max_wait_ms / 1000);
	tv.tv_usec = (suseconds_t)(max_wait_ms % 1000 * 1000);
	event_add(l->wake, &tv);
	run_turn(l, 0);
	event_del(l->wake);
}

void loop_stop(struct loop *l)
{
	l->stop = 1;
}

/* ---- handles ----------------------------------------------------------------------------------- */

static struct event *new_event(struct loop *l, int fd, short what, event_callback_fn fn, void *arg)
{
	struct event *ev = event_new(l->base, fd, what, fn, arg);

	if (!ev)
		abort(); /* out of memory, or arguments that make no sense */
	return ev;
}

static void kill_handle(struct handle *h)
{
	if (h->ev)
		event_del(h->ev);
	h->next_dead = h->loop->dead;
	h->loop->dead = h;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *t = arg;

	(void)fd;
	(void)what;
	loop_enter(t->h.loop);
	t->cb(t->arg);
}

struct loop_timer *loop_timer_create(struct loop *l, loop_cb cb, void *arg)
{
	struct loop_timer *t = xcalloc(1, sizeof(*t));

	t->h.loop = l;
	t->cb = cb;
	t->arg = arg;
	t->h.ev = new_event(l, -1, 0, on_timer, t);
	return t;
}

void loop_timer_arm(struct loop_timer *t, uint64_t delay_us)
{
	const uint64_t far = 366ull * 86400 * 1000000; /* a year: longer waits are re-armed by their owner */
	struct timeval tv;

	if (delay_us > far)
		delay_us = far;
	tv.tv_sec = (time_t)(delay_us / 1000000u);
	tv.tv_usec = (suseconds_t)(delay_us % 1000000u);
	event_add(t->h.ev, &tv);
}

void loop_timer_cancel(struct loop_timer *t)
{
	event_del(t->h.ev);
}

int loop_timer_armed(const struct loop_timer *t)
{
	return event_pending(t->h.ev, EV_TIMEOUT, NULL) != 0;
}

void loop_timer_destroy(struct loop_timer *t)
{
	if (t)
		kill_handle(&t->h);
}

static void on_fd(evutil_socket_t fd, short what, void *arg)
{
	struct loop_fd *f = arg;
	int ready = (what & EV_READ ? LOOP_READ : 0) | (what & EV_WRITE ? LOOP_WRITE : 0);

	loop_enter(f->h.loop);
	f->cb((int)fd, ready, f->arg);
}

void loop_fd_set(struct loop_fd *f, int what)
{
	short events = (short)((what & LOOP_READ ? EV_READ : 0) | (what & LOOP_WRITE ? EV_WRITE : 0));

	if (what == f->what)
		return;
	f->what = what;
	event_del(f->h.ev);
	if (!what)
		return;
	event_assign(f->h.ev, f->h.loop->base, f->fd, (short)(events | EV_PERSIST), on_fd, f);
	if (event_add(f->h.ev, NULL) < 0) {
		log_error("event=watch_failed fd=%d", f->fd); /* a closed descriptor: a mistake of our own */
		abort();
	}
}

struct loop_fd *loop_fd_create(struct loop *l, int fd, int what, loop_fd_cb cb, void *arg)
{
	struct loop_fd *f = xcalloc(1, sizeof(*f));

	f->h.loop = l;
	f->fd = fd;
	f->cb = cb;
	f->arg = arg;
	f->h.ev = new_event(l, fd, EV_READ | EV_PERSIST, on_fd, f);
	loop_fd_set(f, what);
	return f;
}

void loop_fd_destroy(struct loop_fd *f)
{
	if (f)
		kill_handle(&f->h);
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct loop_signal *s = arg;

	(void)what;
	loop_enter(s->h.loop);
	s->cb((int)signo, s->arg);
}

struct loop_signal *loop_signal_create(struct loop *l, int signo, void (*cb)(int, void *), void *arg)
{
	struct loop_signal *s = xcalloc(1, sizeof(*s));

	s->h.loop = l;
	s->cb = cb;
	s->arg = arg;
	s->h.ev = new_event(l, signo, EV_SIGNAL | EV_PERSIST, on_signal, s);
	if (event_add(s->h.ev, NULL) < 0)
		abort();
	return s;
}

void loop_signal_destroy(struct loop_signal *s)
{
	if (s)
		kill_handle(&s->h);
}

/* ---- end of the turn --------------------------------------------------------------------------- */

void loop_defer(struct loop *l, loop_cb cb, void *arg)
{
	struct deferred *d = xcalloc(1, sizeof(*d));

	d->cb = cb;
	d->arg = arg;
	*l->last = d;
	l->last = &d->next;
}

void loop_set_turn_hook(struct loop *l, loop_cb fn, void *arg)
{
	l->hook = fn;
	l->hook_arg = arg;
}

void loop_set_slow_warn(struct loop *l, uint64_t warn_us)
{
	l->warn_us = warn_us;
}

void loop_turns(const struct loop *l, struct loop_turns *out)
{
	uint64_t age = clock_boot_us(clock_real()) - l->span_us;

	out->turns = l->turns;
	out->late = l->late;
	out->longest_us = age < 2 * (uint64_t)LOOP_SPAN_US ? l->longest_us : 0;
	if (age < LOOP_SPAN_US && l->before_us > out->longest_us)
		out->longest_us = l->before_us;
}
