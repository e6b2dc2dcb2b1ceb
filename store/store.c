/*
 * store: opening and closing, the queue to the writer, completions on the state thread's loop.
 */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "store/base/sqlh.h"
#include "store/write/txn.h"
#include "store/write/txn_op.h"
#include "store/write/wdb.h"
#include "store/write/writer.h"

static void group_deliver(void *group);

#define QUEUE_DEFAULT 65536
#define QUEUE_BYTES                                                                                          \
	(512ull << 20) /* a submit may carry a specification of 1 MiB: the number alone bounds nothing */

static void on_group(void *msg, void *arg)
{
	(void)arg;
	group_deliver(msg);
}

static void wake_writer(struct store *s)
{
	const uint64_t one = 1;

	while (write(s->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
}

/* Signals are the state thread's: the writer starts with all of them blocked. */
static int start_writer(struct store *s, struct err *e)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->writer, NULL, writer_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc ? err_sys(e, rc, "start the store's writer") : 0;
}

static void release_store(struct store *s)
{
	wdb_fini(&s->w);
	marks_close(&s->marks);
	sqlh_close(s->read);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

struct store *store_open(const struct store_config *c, struct loop *loop, struct err *e)
{
	struct store *s = xcalloc(1, sizeof(*s));

	s->path = xstrdup(c->path);
	s->clock = c->clock;
	s->limit = c->queue_limit ? c->queue_limit : QUEUE_DEFAULT;
	pthread_mutex_init(&s->lock, NULL);
	s->marks.fd = -1;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0) {
		err_sys(e, errno, "eventfd");
		goto failed;
	}
	if (wdb_init(&s->w, c->path, c->clock, e) < 0 || marks_open(&s->marks, c->marks, e) < 0)
		goto failed;
	s->read = sqlh_open(c->path, SQLH_READ, e);
	if (!s->read)
		goto failed;
	s->stats.last_event = s->w.last_event;
	s->stats.projected_event = s->w.projected;
	/* One message a turn: each has up to 128 callbacks. */
	s->chan = chan_create(loop, s->limit + 1, 1, on_group, s);
	if (start_writer(s, e) < 0) {
		chan_destroy(s->chan, NULL);
		goto failed;
	}
	return s;
failed:
	release_store(s);
	return NULL;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = 1;
	pthread_mutex_unlock(&s->lock);
	wake_writer(s);
	pthread_join(s->writer, NULL);
	/* The last completions run here, still on this thread. A callback that gives a new transaction gets
	 * ERR_UNAVAILABLE. */
	chan_destroy(s->chan, group_deliver);
	release_store(s);
}

int store_settle_marks(struct store *s, const struct store_marks *least, struct err *e)
{
	return marks_settle(&s->marks, least, e);
}

int store_commit(struct store *s, struct store_txn *t, store_done_fn done, void *arg, struct err *e)
{
	int first, rc = 0;

	assert(!t->next && t->rc == 0);
	t->done = done;
	t->arg = arg;
	t->fails_seen = s->fails_seen;
	pthread_mutex_lock(&s->lock);
	first = !s->head;
	if (s->stop) {
		rc = err_set(e, ERR_UNAVAILABLE, "the store is being closed");
	} else if (s->pending >= s->limit || s->pending_bytes >= QUEUE_BYTES) {
		rc = err_set(e, ERR_BUSY, "the store's queue is full (%zu transactions, %zu bytes)", s->pending,
		             s->pending_bytes);
	} else {
		if (s->tail)
			s->tail->next = t;
		else
			s->head = t;
		s->tail = t;
		s->pending++;
		s->pending_bytes += t->len;
	}
	pthread_mutex_unlock(&s->lock);
	if (rc == 0 && first)
		wake_writer(s);
	return rc;
}

size_t store_queued(struct store *s)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->pending;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void store_stats(struct store *s, struct store_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	pthread_mutex_unlock(&s->lock);
}

/* On the state thread: runs the callbacks, frees. */
static void group_deliver(void *group)
{
	struct group *g = group;
	struct store *s = g->store;
	struct store_txn *t, *next;
	size_t n = 0, bytes = 0;

	for (t = g->head; t; t = t->next) {
		n++;
		bytes += t->len;
	}
	pthread_mutex_lock(&s->lock);
	s->pending -= n;
	s->pending_bytes -= bytes;
	pthread_mutex_unlock(&s->lock);
	for (t = g->head; t; t = next) {
		next = t->next;
		/* Before the callback: what it gives next is built upon knowing of this failure. */
		if (t->fail_no > s->fails_seen)
			s->fails_seen = t->fail_no;
		if (t->done)
			t->done(t->rc, t->err, t->arg);
		store_txn_free(t);
	}
	free(g);
}
