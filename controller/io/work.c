/*
 * work: the workers, each with a reader of the store, and the queue that they share (work_queue.h).
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
#include "controller/io/work_queue.h"
#include "store/read/reader.h"

#define NICE    15    /* of workers */
#define LOOK_US 50000 /* between looks for the client */

struct work {
	struct work_turn turn;
	struct work_ask w;
	struct call *call; /* held; the worker does not touch it */
	struct io *io;
	struct work_pool *pool;
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
	struct store_reader *reader;
	pthread_t thread;
	int started;
};

struct work_pool {
	struct worker workers[WORK_THREADS];
	pthread_mutex_t lock; /* of queue and dropped */
	pthread_cond_t more;
	struct work_queue *queue;
	struct work *dropped;
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
	if (k->call->state == k) { /* its answer may have begun another question */
		k->call->state = NULL;
		k->call->on_gone = NULL;
	}
	call_drop(k->call);
	free(k);
}

/* hearthd stops. The call belongs to its I/O thread, which may still run: it waits for the end of both. */
static void drop_result(void *arg)
{
	struct work *k = arg;
	struct work_pool *p = k->pool;

	if (p->ended) {
		work_free(k);
		return;
	}
	pthread_mutex_lock(&p->lock);
	k->next = p->dropped;
	p->dropped = k;
	pthread_mutex_unlock(&p->lock);
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

static void refuse(struct call *c, enum work_added why, int is_name)
{
	if (is_name)
		call_problem(c, 503, "try again", "too many calls wait for the name service of hearthd's machine");
	else if (why == WORK_USER_FULL)
		call_problem(c, 429, "wait for their answers, then try again",
		             "you have %u searches that run or wait, and a user may have no more", WORK_USER_QUEUE);
	else
		call_problem(c, 503, "try again", "too many searches are waiting");
}

void work_ask(struct call *c, struct io *io, const struct work_ask *w)
{
	struct work_pool *p = w->is_name ? io->set->names : io->set->work;
	struct work *k = xcalloc(1, sizeof(*k));
	enum work_added added;

	k->w = *w;
	k->call = call_hold(c);
	k->io = io;
	k->pool = p;
	k->fd = call_fd(c) >= 0 ? fcntl(call_fd(c), F_DUPFD_CLOEXEC, 0) : -1;
	k->until_us = now_us() + WORK_LIMIT_MS * 1000ull;
	c->state = k;
	c->on_gone = on_gone;
	pthread_mutex_lock(&p->lock);
	added = work_queue_add(p->queue, &k->turn, c->who.user);
	if (added == WORK_ADDED)
		pthread_cond_signal(&p->more);
	pthread_mutex_unlock(&p->lock);
	if (added == WORK_ADDED)
		return;
	c->state = NULL;
	c->on_gone = NULL;
	refuse(c, added, w->is_name);
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
	return k->late || atomic_load(&k->gone) || atomic_load(&k->pool->stopping);
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

/* began: the search was not too late when its turn came. */
static void explain_end(struct work *k, int began)
{
	if (k->body || k->text)
		return;
	if (atomic_load(&k->gone))
		err_set(&k->e, ERR_UNAVAILABLE, "the client has left");
	else if (k->late && began)
		err_set(&k->e, ERR_TIMEOUT,
		        "the search took longer than %u s and was ended; narrow it, for example by owner, status or "
		        "name",
		        WORK_LIMIT_MS / 1000);
	else if (k->late)
		err_set(&k->e, ERR_TIMEOUT,
		        "the search waited longer than %u s behind other searches; wait until your other searches "
		        "have ended, then try again",
		        WORK_LIMIT_MS / 1000);
}

static void run_question(struct worker *t, struct work *k)
{
	int began = !must_stop(k);

	if (began) {
		store_reader_watch(t->reader, must_stop, k);
		if (FAULT("work.slow"))
			while (!must_stop(k))
				usleep(1000);
		k->body = must_stop(k) ? NULL : k->w.ask(t->reader, k->w.state, &k->e);
		store_reader_watch(t->reader, NULL, NULL);
		write_text(k);
	}
	explain_end(k, began);
}

/* Waits for a question; NULL: hearthd stops. */
static struct work *next_question(struct work_pool *p)
{
	struct work_turn *t = NULL;

	pthread_mutex_lock(&p->lock);
	while (!atomic_load(&p->stopping) && !(t = work_queue_next(p->queue)))
		pthread_cond_wait(&p->more, &p->lock);
	pthread_mutex_unlock(&p->lock);
	return (struct work *)t; /* its first member */
}

static void *run_worker(void *arg)
{
	struct worker *t = arg;
	struct work_pool *p = t->pool;
	struct work *k;

	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread alone; without it all is well, too */
	while ((k = next_question(p))) {
		run_question(t, k);
		pthread_mutex_lock(&p->lock);
		work_queue_end(p->queue, &k->turn);
		pthread_mutex_unlock(&p->lock);
		io_post_wait(k->io, on_result, k, drop_result);
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------- */

static int start_worker(struct work_pool *p, struct worker *t, const char *db_path, struct err *e)
{
	sigset_t all, old;
	int rc;

	t->pool = p;
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

	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	p->queue = work_queue_create();
	for (unsigned i = 0; i < WORK_THREADS; i++)
		if (start_worker(p, &p->workers[i], db_path, e) < 0) {
			work_pool_stop(p);
			work_pool_destroy(p);
			return NULL;
		}
	return p;
}

/* Frees the questions whose calls get no answer any more. */
static void drop_all(struct work_pool *p)
{
	struct work_turn *t;
	struct work *k;

	while ((t = work_queue_any(p->queue))) {
		work_queue_end(p->queue, t);
		work_free((struct work *)t);
	}
	while ((k = p->dropped)) {
		p->dropped = k->next;
		work_free(k);
	}
}

void work_pool_stop(struct work_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->stopping, 1);
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < WORK_THREADS; i++) {
		struct worker *t = &p->workers[i];

		if (t->started)
			pthread_join(t->thread, NULL);
		t->started = 0;
	}
	p->ended = 1;
	drop_all(p);
}

void work_pool_destroy(struct work_pool *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < WORK_THREADS; i++)
		store_reader_close(p->workers[i].reader);
	work_queue_destroy(p->queue);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
