/*
 * work: the workers, each with a loop, a channel and a reader. A question goes to the worker that has the
 * fewest.
 */
#include "controller/io/work.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/http/http.h"
#include "controller/io/io.h"
#include "store/read/reader.h"

#define NICE    15    /* of workers */
#define LOOK_US 50000 /* between looks for the client */

struct work {
	struct work_ask w;
	struct call *call; /* held; the worker does not touch it */
	struct io *io;
	struct worker *worker;
	_Atomic int gone; /* nobody waits for the answer */
	int fd;           /* the connection, our own descriptor; -1: none */
	uint64_t until_us, look_us;
	int late;
	cJSON *body;
	char *text; /* of the answer */
	struct err e;
	struct work *next; /* dropped */
};

struct worker {
	struct work_pool *pool;
	struct loop *loop;
	struct chan *in;
	struct store_reader *reader;
	pthread_t thread;
	int started;
	_Atomic unsigned n; /* questions that it has */
	struct work *dropped;
};

struct work_pool {
	struct worker workers[WORK_THREADS];
	_Atomic int stopping;
	int ended; /* no worker runs any more */
};

static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

/* ---- ends ------------------------------------------------------------------------------------- */

static void work_free(struct work *k)
{
	if (k->w.free_state)
		k->w.free_state(k->w.state);
	cJSON_Delete(k->body);
	free(k->text);
	if (k->fd >= 0)
		close(k->fd);
	k->call->on_gone = NULL;
	call_drop(k->call);
	free(k);
}

/* hearthd stops. The call belongs to its I/O thread, which may still run: it waits for the end of both. */
static void drop_result(void *arg)
{
	struct work *k = arg;

	if (k->worker->pool->ended) {
		work_free(k);
		return;
	}
	k->next = k->worker->dropped;
	k->worker->dropped = k;
}

static void drop_question(void *arg)
{
	work_free(arg);
}

/* ---- on the I/O thread ------------------------------------------------------------------------ */

static void on_gone(struct call *c)
{
	struct work *k = c->state;

	atomic_store(&k->gone, 1);
}

static void answer_call(struct work *k, struct io *io)
{
	cJSON *body = k->body;

	k->body = NULL;
	if (k->text)
		call_text(k->call, 200, "application/json", k->text);
	else if (body)
		k->w.answer(k->call, io, body, k->w.state);
	else
		call_fail(k->call, &k->e);
}

static void on_result(struct io *io, void *arg)
{
	struct work *k = arg;

	k->call->on_gone = NULL;
	k->call->state = NULL;
	if (call_open(k->call))
		answer_call(k, io);
	work_free(k);
}

static struct worker *least_busy(struct work_pool *p)
{
	struct worker *least = &p->workers[0];

	for (unsigned i = 1; i < WORK_THREADS; i++)
		if (atomic_load(&p->workers[i].n) < atomic_load(&least->n))
			least = &p->workers[i];
	return least;
}

void work_ask(struct call *c, struct io *io, const struct work_ask *w)
{
	struct worker *to = least_busy(io->set->work);
	struct work *k = xcalloc(1, sizeof(*k));

	k->w = *w;
	k->call = call_hold(c);
	k->io = io;
	k->worker = to;
	k->fd = call_fd(c) >= 0 ? fcntl(call_fd(c), F_DUPFD_CLOEXEC, 0) : -1;
	c->state = k;
	c->on_gone = on_gone;
	atomic_fetch_add(&to->n, 1);
	if (chan_send(to->in, k) == 0)
		return;
	atomic_fetch_sub(&to->n, 1);
	c->state = NULL;
	c->on_gone = NULL;
	call_problem(c, 503, "try again", "too many searches are waiting");
	work_free(k);
}

/* ---- on a worker ------------------------------------------------------------------------------ */

/* evhttp does not read while a request is in work, and so does not see that its client leaves. */
static void look_for_client(struct work *k, uint64_t now)
{
	struct pollfd p = {.fd = k->fd, .events = POLLRDHUP};

	if (now < k->look_us)
		return;
	k->look_us = now + LOOK_US;
	if (k->fd >= 0 && poll(&p, 1, 0) > 0)
		atomic_store(&k->gone, 1);
}

static int must_stop(void *arg)
{
	struct work *k = arg;
	uint64_t now = now_us();

	look_for_client(k, now);
	k->late = k->late || now > k->until_us;
	return k->late || atomic_load(&k->gone) || atomic_load(&k->worker->pool->stopping);
}

/* A long list takes long to write, too. */
static void write_text(struct work *k)
{
	if (!k->body || (k->w.is_open && k->w.is_open(k->body, k->w.state)))
		return;
	k->text = json_text(k->body);
	cJSON_Delete(k->body);
	k->body = NULL;
}

static void on_question(void *msg, void *arg)
{
	struct worker *t = arg;
	struct work *k = msg;

	if (msg == t) { /* from work_pool_stop */
		loop_stop(t->loop);
		return;
	}
	k->until_us = now_us() + WORK_LIMIT_MS * 1000ull;
	if (!must_stop(k)) {
		store_reader_watch(t->reader, must_stop, k);
		if (FAULT("work.slow"))
			while (!must_stop(k))
				usleep(1000);
		k->body = must_stop(k) ? NULL : k->w.ask(t->reader, k->w.state, &k->e);
		store_reader_watch(t->reader, NULL, NULL);
		write_text(k);
	}
	if (!k->body && !k->text && atomic_load(&k->gone))
		err_set(&k->e, ERR_UNAVAILABLE, "the client has left");
	else if (!k->body && !k->text && k->late)
		err_set(&k->e, ERR_TIMEOUT,
		        "the search took longer than %u s and was ended; narrow it, for example by owner, status or "
		        "name",
		        WORK_LIMIT_MS / 1000);
	atomic_fetch_sub(&t->n, 1);
	io_post_wait(k->io, on_result, k, drop_result);
}

static void *run_worker(void *arg)
{
	struct worker *t = arg;

	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread alone; without it all is well, too */
	loop_run(t->loop);
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------- */

static int start_worker(struct work_pool *p, struct worker *t, const char *db_path, struct err *e)
{
	sigset_t all, old;
	int rc;

	t->pool = p;
	t->loop = loop_create();
	t->in = chan_create(t->loop, WORK_QUEUE / WORK_THREADS, 0, on_question, t);
	t->reader = store_reader_open(db_path, e);
	if (!t->reader)
		return -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t->thread, NULL, run_worker, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return err_sys(e, rc, "worker thread");
	pthread_setname_np(t->thread, "hearthd-work");
	t->started = 1;
	return 0;
}

struct work_pool *work_pool_create(const char *db_path, struct err *e)
{
	struct work_pool *p = xcalloc(1, sizeof(*p));

	for (unsigned i = 0; i < WORK_THREADS; i++)
		if (start_worker(p, &p->workers[i], db_path, e) < 0) {
			work_pool_stop(p);
			work_pool_destroy(p);
			return NULL;
		}
	return p;
}

void work_pool_stop(struct work_pool *p)
{
	if (!p)
		return;
	atomic_store(&p->stopping, 1);
	for (unsigned i = 0; i < WORK_THREADS; i++) {
		struct worker *t = &p->workers[i];

		if (!t->started)
			continue;
		chan_send_wait(t->in, t);
		pthread_join(t->thread, NULL);
		t->started = 0;
	}
	p->ended = 1;
	for (unsigned i = 0; i < WORK_THREADS; i++) {
		struct worker *t = &p->workers[i];

		while (t->dropped) {
			struct work *k = t->dropped;

			t->dropped = k->next;
			work_free(k);
		}
		chan_destroy(t->in, drop_question);
		t->in = NULL;
	}
}

void work_pool_destroy(struct work_pool *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < WORK_THREADS; i++) {
		store_reader_close(p->workers[i].reader);
		loop_destroy(p->workers[i].loop);
	}
	free(p);
}
