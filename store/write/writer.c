/*
 * writer: the one thread that changes the database.
 *
 * Each round: take all that waits (at most GROUP_MAX transactions), apply them in one SQLite transaction,
 * COMMIT with fsync, send the completions back in order. While it waits for the disk the next group gathers:
 * that is the whole group commit. When the group fails it is rolled back and its transactions are tried one
 * by one; a transaction that fails alone leaves a mark at each job and node it touched, and those given
 * before the state thread knew of the failure fail with it (fails_seen): they say "running" of a job whose
 * "starting" was never written.
 *
 * In its idle moments it moves the projections and checkpoints the WAL; under load too when they are late.
 */
#include "store/write/writer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hashtable.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "store/base/sqlh.h"
#include "store/store.h"
#include "store/write/apply.h"
#include "store/write/project.h"
#include "store/write/txn_op.h"
#include "store/write/wdb.h"

#define GROUP_MAX   1024
#define GROUP_BYTES (8u << 20)
#define DELIVER_MAX 128 /* completions in one message: bounds a turn of the state thread */
#define PROJECT_REST_US                                                                                      \
	30000ull /* without a transaction: then nobody waits for what comes next, as during a launch */
#define PROJECT_GAP_US  200000ull /* between steps while idle: each costs an fsync */
#define PROJECT_LATE_US 500000ull /* under load too from here */
#define STEP_US         10000ull  /* what a step should take: who commits meanwhile waits for it */
#define STEP_EVENTS     256       /* the first */
#define STEP_EVENTS_MIN 64
#define STEP_EVENTS_MAX 16384
#define MARKS           64
#define MARK_GAP_US     20000
#define RETRY_US        5000000ull /* after a failed projection */
#define WAL_IDLE_PAGES  1000
#define WAL_BUSY_PAGES  16000 /* 64 MiB */
#define WAL_LARGE_PAGES 65536
#define RESTART_WAIT_MS 100

struct poison { /* a failed transaction touched this key */
	uint64_t key, fail_no;
	UT_hash_handle hh;
};

struct milestone {
	uint64_t event, at_us;
};

struct writer {
	struct store *s;
	struct wdb *w;
	uint64_t fails;
	struct poison *poison; /* by key */
	struct milestone
	    marks[MARKS]; /* ring: the newest event at some times, those that the projections have not reached */
	unsigned mark_first, n_marks;
	uint64_t next_step_us, last_group_us;
	size_t step_events;
	int wal_pages, wal_done; /* in the WAL; of those already copied into the database */
	uint64_t next_restart_us;
	struct log_limit log_fail;
};

/* This thread sleeps in real time, whatever clock the records are stamped with. */
static uint64_t now_us(void)
{
	return clock_boot_us(clock_real());
}

/* ---- failed transactions ---------------------------------------------------------------------------- */

static void poison_clear(struct writer *wr)
{
	struct poison *p, *tmp;

	HASH_ITER (hh, wr->poison, p, tmp) {
		HASH_DEL(wr->poison, p);
		free(p);
	}
}

static void poison_add(struct writer *wr, uint64_t key, uint64_t fail_no)
{
	struct poison *p;

	HASH_FIND(hh, wr->poison, &key, sizeof(key), p);
	if (!p) {
		p = xcalloc(1, sizeof(*p));
		p->key = key;
		HASH_ADD(hh, wr->poison, key, sizeof(p->key), p);
	}
	p->fail_no = fail_no;
}

static int touches_poison(struct writer *wr, const struct store_txn *t)
{
	struct poison *p;
	const struct op *o;
	size_t at = 0;

	/* fails_seen only grows along the queue: from here on every sender knows of all failures. */
	if (wr->poison && t->fails_seen >= wr->fails)
		poison_clear(wr);
	while (wr->poison && (o = txn_next(t, &at))) {
		HASH_FIND(hh, wr->poison, &o->key, sizeof(o->key), p);
		if (o->key && p && p->fail_no > t->fails_seen)
			return 1;
	}
	return 0;
}

static void fail_transaction(struct writer *wr, struct store_txn *t, const struct err *e)
{
	const struct op *o;
	size_t at = 0;
	unsigned held;

	t->rc = -1;
	t->fail_no = ++wr->fails;
	t->err = xmemdup(e, sizeof(*e));
	while ((o = txn_next(t, &at)))
		if (o->key)
			poison_add(wr, o->key, t->fail_no);
	if (log_limit_ok(&wr->log_fail, now_us(), &held))
		log_error("event=store_write_failed error=%s text=\"%s\" suppressed=%u", err_code_name(e->code),
		          e->text, held);
}

/* ---- groups ---------------------------------------------------------------------------------------- */

static int try_group(struct writer *wr, struct store_txn *head, struct err *e)
{
	uint64_t job = 0, event = 0;

	if (wdb_begin(wr->w, e) < 0)
		return -1;
	for (struct store_txn *t = head; t; t = t->next) {
		if (t->rc == 0 && wdb_apply(wr->w, t, e) < 0)
			goto failed;
		job = t->max_job > job ? t->max_job : job;
		event = t->max_event > event ? t->max_event : event;
	}
	if (marks_raise(&wr->s->marks, job, event, e) < 0 || wdb_commit(wr->w, e) < 0)
		goto failed;
	return 0;
failed:
	wdb_rollback(wr->w);
	return -1;
}

static void try_single(struct writer *wr, struct store_txn *t)
{
	struct err e = {.code = ERR_CONFLICT};

	if (t->rc < 0)
		return;
	if (touches_poison(wr, t)) {
		err_set(&e, ERR_CONFLICT, "an earlier change of the same record could not be written");
		fail_transaction(wr, t, &e);
		return;
	}
	if (wdb_begin(wr->w, &e) == 0) {
		if (wdb_apply(wr->w, t, &e) == 0 && marks_raise(&wr->s->marks, t->max_job, t->max_event, &e) == 0 &&
		    wdb_commit(wr->w, &e) == 0)
			return;
		wdb_rollback(wr->w);
	}
	fail_transaction(wr, t, &e);
}

static void note_group(struct writer *wr, struct store_txn *head, uint64_t took_us)
{
	struct store_stats *st = &wr->s->stats;
	uint64_t n = 0, failed = 0, bytes = 0;

	for (struct store_txn *t = head; t; t = t->next) {
		n++;
		failed += t->rc < 0;
		bytes += t->len;
		if (t->rc == 0 && t->max_event > wr->w->last_event)
			wr->w->last_event = t->max_event;
	}
	marks_note(&wr->s->marks, wr->w->last_event);
	pthread_mutex_lock(&wr->s->lock);
	st->transactions += n - failed;
	st->failed += failed;
	st->bytes += bytes;
	st->groups++;
	if (n > st->largest_group)
		st->largest_group = n;
	st->commit_us_sum += took_us;
	if (took_us > st->commit_us_max)
		st->commit_us_max = took_us;
	st->last_event = wr->w->last_event;
	st->projected_event = wr->w->projected;
	pthread_mutex_unlock(&wr->s->lock);
}

/* In pieces, so that a large group does not hold the state thread's turn. */
static void deliver_group(struct writer *wr, struct store_txn *head)
{
	while (head) {
		struct group *g = xcalloc(1, sizeof(*g));
		struct store_txn *last = head;

		for (int n = 1; n < DELIVER_MAX && last->next; n++)
			last = last->next;
		g->store = wr->s;
		g->head = head;
		head = last->next;
		last->next = NULL;
		/* Never blocks: no more groups than transactions are pending, and the channel has room for the limit
		 * of those. */
		chan_send_wait(wr->s->chan, g);
	}
}

static void write_group(struct writer *wr, struct store_txn *head)
{
	uint64_t start = now_us();
	struct err e = {.code = ERR_CONFLICT};
	struct store_txn *t;

	for (t = head; t; t = t->next)
		if (touches_poison(wr, t))
			break;
	/* With a mark in reach the order of failures matters: one by one from the start. */
	if (t || try_group(wr, head, &e) < 0)
		for (t = head; t; t = t->next)
			try_single(wr, t);
	note_group(wr, head, now_us() - start);
	deliver_group(wr, head);
}

static struct store_txn *take_group(struct store *s, int *stop)
{
	struct store_txn *head, *last = NULL;
	size_t bytes = 0;

	pthread_mutex_lock(&s->lock);
	head = s->head;
	for (int n = 0; n < GROUP_MAX && s->head && bytes < GROUP_BYTES; n++) {
		last = s->head;
		bytes += last->len;
		s->head = last->next;
	}
	if (last)
		last->next = NULL;
	if (!s->head)
		s->tail = NULL;
	*stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return head;
}

/* ---- behind ------------------------------------------------------------------------------------------ */

static int on_wal(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct writer *wr = arg;

	(void)db;
	(void)name;
	/* Fewer than were copied: SQLite has begun the WAL again. */
	if (pages < wr->wal_done)
		wr->wal_done = 0;
	wr->wal_pages = pages;
	return SQLITE_OK;
}

/* PASSIVE waits for nobody. But SQLite begins a WAL again only in a moment without readers. Under readers
 * that never pause it would grow for ever, so now and then a large WAL waits for them shortly. */
static void checkpoint_wal(struct writer *wr, uint64_t now)
{
	int large = wr->wal_pages > WAL_LARGE_PAGES && now >= wr->next_restart_us, pages = 0, done = 0, rc;
	struct err e;
	unsigned held;

	if (large) {
		wr->next_restart_us = now + RETRY_US;
		sqlite3_busy_timeout(wr->w->db, RESTART_WAIT_MS);
	}
	rc = sqlite3_wal_checkpoint_v2(
	    wr->w->db, NULL, large ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE, &pages, &done);
	if (large)
		sqlite3_busy_timeout(wr->w->db, SQLH_BUSY_MS);
	/* A reader in the middle of an old state: the rest is copied the next time. */
	wr->wal_done = done > 0 ? done : 0;
	if (rc == SQLITE_OK || rc == SQLITE_BUSY)
		return;
	sqlh_err(wr->w->db, rc, &e, "checkpoint");
	if (log_limit_ok(&wr->log_fail, now, &held))
		log_error("event=store_checkpoint_failed error=%s text=\"%s\" suppressed=%u", err_code_name(e.code),
		          e.text, held);
}

/* As many events as take STEP_US of CPU time, the commit not counted: a step costs an fsync and writes each
 * page that it touches, so few large ones are much cheaper than many small ones; but who commits meanwhile
 * waits for it. */
static void fit_step(struct writer *wr, uint64_t took_us)
{
	if (took_us > STEP_US * 2 && wr->step_events > STEP_EVENTS_MIN)
		wr->step_events /= 2;
	else if (took_us < STEP_US / 2 && wr->step_events < STEP_EVENTS_MAX)
		wr->step_events *= 2;
}

static void project_step_timed(struct writer *wr, uint64_t now)
{
	struct err e;
	unsigned held;
	int rc = project_step(wr->w, wr->step_events, &e);

	wr->next_step_us = now + PROJECT_GAP_US;
	if (rc > 0) /* a whole one */
		fit_step(wr, wr->w->step_us);
	if (rc < 0) {
		wr->next_step_us = now + RETRY_US;
		if (log_limit_ok(&wr->log_fail, now, &held))
			log_error("event=store_project_failed error=%s text=\"%s\" suppressed=%u", err_code_name(e.code),
			          e.text, held);
	}
	if (rc > 0)
		wr->next_step_us = now; /* more waits: at once when idle, after each group when late */
	pthread_mutex_lock(&wr->s->lock);
	wr->s->stats.projected_event = wr->w->projected;
	pthread_mutex_unlock(&wr->s->lock);
}

/* How far behind the projections are, microseconds: the age of the oldest milestone that they have not
 * reached. */
static uint64_t lag_us(struct writer *wr, uint64_t now)
{
	while (wr->n_marks && wr->marks[wr->mark_first].event <= wr->w->projected) {
		wr->mark_first = (wr->mark_first + 1) % MARKS;
		wr->n_marks--;
	}
	return wr->n_marks ? now - wr->marks[wr->mark_first].at_us : 0;
}

static void mark_event(struct writer *wr, uint64_t now)
{
	struct milestone *last = &wr->marks[(wr->mark_first + wr->n_marks - 1) % MARKS];

	if (wr->n_marks == MARKS ||
	    (wr->n_marks && (last->event == wr->w->last_event || now - last->at_us < MARK_GAP_US)))
		return;
	wr->marks[(wr->mark_first + wr->n_marks++) % MARKS] = (struct milestone){wr->w->last_event, now};
}

/* What is written behind, when it is time for it. Milliseconds that the writer may sleep, -1 without end. */
static int write_behind(struct writer *wr)
{
	uint64_t now = now_us(), rest_us = wr->last_group_us + PROJECT_REST_US, lag, at;
	int idle = now >= rest_us;

	if (wr->wal_pages - wr->wal_done > (idle ? WAL_IDLE_PAGES : WAL_BUSY_PAGES))
		checkpoint_wal(wr, now);
	if (project_waiting(wr->w)) {
		mark_event(wr, now);
		lag = lag_us(wr, now);
		if (now >= wr->next_step_us && (idle || lag >= PROJECT_LATE_US))
			project_step_timed(wr, now);
	}
	if (!project_waiting(wr->w))
		return wr->wal_pages - wr->wal_done > WAL_IDLE_PAGES && !idle ? (int)(PROJECT_REST_US / 1000) + 1
		                                                              : -1;
	now = now_us();
	at = wr->next_step_us > rest_us ? wr->next_step_us : rest_us;
	return now >= at ? 0 : (int)((at - now) / 1000) + 1;
}

static void sleep_until_woken(struct store *s, int timeout_ms)
{
	struct pollfd p = {.fd = s->wake_fd, .events = POLLIN};
	uint64_t count;

	if (poll(&p, 1, timeout_ms) > 0 && read(s->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN &&
	    errno != EINTR)
		log_error("event=store_wake_failed errno=%d", errno);
}

void *writer_main(void *store)
{
	struct store *s = store;
	struct writer wr = {.s = s, .w = &s->w, .step_events = STEP_EVENTS, .log_fail = {.per_minute = 6}};
	struct store_txn *head;
	int stop = 0;

	sqlite3_wal_hook(s->w.db, on_wal, &wr);
	/* The first step waits a moment, so that start-up's own commits go first. */
	wr.next_step_us = now_us() + PROJECT_GAP_US;
	while ((head = take_group(s, &stop)) || !stop) {
		if (head) {
			write_group(&wr, head);
			wr.last_group_us = now_us();
		}
		int timeout_ms = write_behind(&wr);

		/* A transaction that came meanwhile has written the eventfd. */
		if (!head)
			sleep_until_woken(s, timeout_ms);
	}
	poison_clear(&wr);
	return NULL;
}
