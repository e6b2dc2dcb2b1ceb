/*
 * simloop: see the header. The functions of loop.h, in the place of common/os/loop.c.
 */
#include "tests/world/simloop.h"
#include "common/base/xalloc.h"
#include <poll.h>
#include <stdlib.h>
#include <utlist.h>

struct loop_timer {
	struct loop *l;
	loop_cb cb;
	void *arg;
	uint64_t at, tie;
	uint32_t heap; /* 1-based place; 0 not armed */
};

struct loop_fd {
	struct loop *l;
	int fd, what;
	loop_fd_cb cb;
	void *arg;
	struct loop_timer *fire; /* of one that exists in the world only */
	struct loop_fd *prev, *next;
};

struct loop {
	void *tag;
	uint64_t frozen_until;
	struct loop_fd *fds;
	struct loop *prev, *next;
};

struct deferred {
	loop_cb cb;
	void *arg;
	struct loop_timer *t;
};

static struct {
	uint64_t now, rng;
	struct loop_timer **heap;
	uint32_t n, cap;
	struct loop *loops;
	void (*enter)(void *tag);
} all;

/* ---- heap ----------------------------------------------------------------------------------------- */

static int before(const struct loop_timer *a, const struct loop_timer *b)
{
	return a->at != b->at ? a->at < b->at : a->tie < b->tie;
}

static void put(uint32_t i, struct loop_timer *t)
{
	all.heap[i] = t;
	t->heap = i;
}

static void sift_up(uint32_t i)
{
	struct loop_timer *t = all.heap[i];

	for (; i > 1 && before(t, all.heap[i / 2]); i /= 2)
		put(i, all.heap[i / 2]);
	put(i, t);
}

static void sift_down(uint32_t i)
{
	struct loop_timer *t = all.heap[i];

	for (uint32_t k; (k = 2 * i) <= all.n; i = k) {
		if (k < all.n && before(all.heap[k + 1], all.heap[k]))
			k++;
		if (!before(all.heap[k], t))
			break;
		put(i, all.heap[k]);
	}
	put(i, t);
}

static void heap_del(struct loop_timer *t)
{
	uint32_t i = t->heap;

	if (!i)
		return;
	t->heap = 0;
	if (i == all.n--)
		return;
	put(i, all.heap[all.n + 1]);
	sift_down(i);
	sift_up(i);
}

static void heap_add(struct loop_timer *t)
{
	if (all.n + 2 > all.cap) {
		all.cap = all.cap ? all.cap * 2 : 256;
		all.heap = xreallocarray(all.heap, all.cap, sizeof(struct loop_timer *));
	}
	put(++all.n, t);
	sift_up(all.n);
}

/* ---- the world's side ------------------------------------------------------------------------------ */

static uint64_t rnd(void)
{
	all.rng ^= all.rng << 13;
	all.rng ^= all.rng >> 7;
	all.rng ^= all.rng << 17;
	return all.rng;
}

void simloop_reset(uint64_t now_us, uint64_t seed)
{
	all.now = now_us;
	all.rng = seed * 0x9e3779b97f4a7c15u | 1;
	for (int i = 0; i < 8; i++)
		rnd();
}

uint64_t simloop_now(void)
{
	return all.now;
}

uint64_t simloop_next(void)
{
	return all.n ? all.heap[1]->at : UINT64_MAX;
}

int simloop_step(void)
{
	struct loop_timer *t;

	if (!all.n)
		return 0;
	t = all.heap[1];
	heap_del(t);
	if (t->at > all.now)
		all.now = t->at;
	if (t->l->frozen_until > all.now) {
		t->at = t->l->frozen_until;
		heap_add(t);
		return 1;
	}
	if (all.enter)
		all.enter(t->l->tag);
	t->cb(t->arg);
	return 1;
}

void simloop_on_enter(void (*fn)(void *tag))
{
	all.enter = fn;
}

void simloop_tag(struct loop *l, void *tag)
{
	l->tag = tag;
}

void *simloop_tag_of(const struct loop *l)
{
	return l->tag;
}

void simloop_freeze(struct loop *l, uint64_t until_us)
{
	l->frozen_until = until_us;
}

uint64_t simloop_frozen(const struct loop *l)
{
	return l->frozen_until;
}

void simloop_kill(struct loop *l)
{
	for (uint32_t i = 1; i <= all.n;) {
		if (all.heap[i]->l != l) {
			i++;
			continue;
		}
		heap_del(all.heap[i]);
		i = 1;
	}
	DL_DELETE(all.loops, l);
}

void simloop_fire(int fd)
{
	struct loop *l;
	struct loop_fd *f;

	DL_FOREACH (all.loops, l)
		DL_FOREACH (l->fds, f)
			if (f->fd == fd)
				loop_timer_arm(f->fire, 0);
}

/* ---- loop.h ---------------------------------------------------------------------------------------- */

struct loop *loop_create(void)
{
	struct loop *l = xcalloc(1, sizeof *l);

	DL_APPEND(all.loops, l);
	return l;
}

void loop_destroy(struct loop *l)
{
	if (!l)
		return;
	DL_DELETE(all.loops, l);
	free(l);
}

struct event_base *loop_base(struct loop *l)
{
	(void)l;
	abort(); /* nothing in the world speaks with libevent itself */
}

void loop_run(struct loop *l)
{
	(void)l;
	abort();
}

void loop_stop(struct loop *l)
{
	(void)l;
}

#define FDS_MAX 16

void loop_run_once(struct loop *l, int64_t max_wait_ms)
{
	struct pollfd p[FDS_MAX];
	struct loop_fd *f, *tmp;
	nfds_t n = 0;

	DL_FOREACH (l->fds, f)
		if (f->fd < SIM_FD && f->what && n < FDS_MAX)
			p[n++] = (struct pollfd){.fd = f->fd, .events = (short)(f->what & LOOP_READ ? POLLIN : POLLOUT)};
	if (poll(p, n, (int)max_wait_ms) <= 0)
		return;
	for (nfds_t i = 0; i < n; i++)
		DL_FOREACH_SAFE (l->fds, f, tmp)
			if (f->fd == p[i].fd && p[i].revents) {
				f->cb(f->fd, f->what, f->arg);
				break;
			}
}

struct loop_timer *loop_timer_create(struct loop *l, loop_cb cb, void *arg)
{
	struct loop_timer *t = xcalloc(1, sizeof *t);

	t->l = l;
	t->cb = cb;
	t->arg = arg;
	return t;
}

void loop_timer_arm(struct loop_timer *t, uint64_t delay_us)
{
	heap_del(t);
	t->at = all.now + delay_us;
	t->tie = rnd();
	heap_add(t);
}

void loop_timer_cancel(struct loop_timer *t)
{
	heap_del(t);
}

int loop_timer_armed(const struct loop_timer *t)
{
	return t->heap != 0;
}

void loop_timer_destroy(struct loop_timer *t)
{
	if (!t)
		return;
	heap_del(t);
	free(t);
}

static void fired(void *arg)
{
	struct loop_fd *f = arg;

	f->cb(f->fd, f->what, f->arg);
}

struct loop_fd *loop_fd_create(struct loop *l, int fd, int what, loop_fd_cb cb, void *arg)
{
	struct loop_fd *f = xcalloc(1, sizeof *f);

	f->l = l;
	f->fd = fd;
	f->what = what;
	f->cb = cb;
	f->arg = arg;
	if (fd >= SIM_FD)
		f->fire = loop_timer_create(l, fired, f);
	DL_APPEND(l->fds, f);
	return f;
}

void loop_fd_set(struct loop_fd *f, int what)
{
	f->what = what;
}

void loop_fd_destroy(struct loop_fd *f)
{
	if (!f)
		return;
	loop_timer_destroy(f->fire);
	DL_DELETE(f->l->fds, f);
	free(f);
}

struct loop_signal *loop_signal_create(struct loop *l, int signo, void (*cb)(int, void *), void *arg)
{
	(void)l;
	(void)signo;
	(void)cb;
	(void)arg;
	abort();
}

void loop_signal_destroy(struct loop_signal *s)
{
	(void)s;
}

static void run_deferred(void *arg)
{
	struct deferred *d = arg;

	d->cb(d->arg);
	loop_timer_destroy(d->t);
	free(d);
}

void loop_defer(struct loop *l, loop_cb cb, void *arg)
{
	struct deferred *d = xcalloc(1, sizeof *d);

	d->cb = cb;
	d->arg = arg;
	d->t = loop_timer_create(l, run_deferred, d);
	loop_timer_arm(d->t, 0);
}

void loop_set_turn_hook(struct loop *l, loop_cb fn, void *arg)
{
	(void)l;
	(void)fn;
	(void)arg;
}

void loop_set_slow_warn(struct loop *l, uint64_t warn_us)
{
	(void)l;
	(void)warn_us;
}

void loop_turns(const struct loop *l, struct loop_turns *out)
{
	(void)l;
	*out = (struct loop_turns){0};
}

void loop_enter(struct loop *l)
{
	(void)l;
}
