/*
 * Retention on the state thread: log files go only after their removal is on record, not when it could not be
 * written, and not of a job that was pinned meanwhile; what a predecessor left is found.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/maintain.h"
#include "store/read/reader.h"
#include "store/read/retain.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

struct lab {
	struct kit k;
	struct store_reader *reader; /* maintain's */
	struct store_reader *looker; /* the test's */
	struct maintain *m;
	char dir[600];
	pthread_mutex_t lock; /* guards removed: leftovers come from another thread */
	uint64_t removed[8];
	int n_removed, too_early;
};

static void remove_logs(uint64_t job, void *arg)
{
	struct lab *l = arg;
	struct store_reader *r = kit_reader(&l->k);
	struct err e;

	pthread_mutex_lock(&l->lock);
	if (!(store_dropped(r, job, &e) & STORE_LOGS))
		l->too_early++;
	if (l->n_removed < 8)
		l->removed[l->n_removed++] = job;
	pthread_mutex_unlock(&l->lock);
	store_reader_close(r);
}

static uint64_t no_attempt(void *arg)
{
	(void)arg;
	return 0;
}

static void lab_open(struct lab *l, const char *name)
{
	memset(l, 0, sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
	kit_open(&l->k, name);
	snprintf(l->dir, sizeof(l->dir), "%s/%s.data", tap_tmpdir(), name);
	if (fs_mkdir_p(l->dir, 0700, NULL) < 0)
		tap_bail("%s", l->dir);
	l->reader = kit_reader(&l->k);
	l->looker = kit_reader(&l->k);
}

static void lab_close(struct lab *l)
{
	maintain_destroy(l->m);
	l->m = NULL;
	store_reader_close(l->reader);
	store_reader_close(l->looker);
	kit_close(&l->k);
	pthread_mutex_destroy(&l->lock);
}

static void run_maintain(struct lab *l)
{
	struct maintain_config c = {.loop = l->k.loop,
	                            .store = l->k.store,
	                            .reader = l->reader,
	                            .data_dir = l->dir,
	                            .db_path = l->k.path,
	                            .keep = {.logs_s = 10},
	                            .first_us = 1,
	                            .remove_logs = remove_logs,
	                            .oldest = no_attempt,
	                            .arg = l};

	l->m = maintain_create(&c);
}

static uint64_t next_event = 1;

static struct store_txn *ended_job(uint64_t id, int pinned)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(next_event++, id, (char *)"ended");

	r.status = (char *)"completed";
	r.ended_us = 1000000000000000ull;
	r.pinned = (uint8_t)pinned;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	return t;
}

static void put_ended(struct lab *l, uint64_t id)
{
	struct err e;

	if (kit_commit(&l->k, ended_job(id, 0), &e) < 0)
		tap_bail("%s", e.text);
	kit_wait_projected(&l->k);
}

static int was_removed(struct lab *l, uint64_t job)
{
	int n = 0;

	pthread_mutex_lock(&l->lock);
	for (int i = 0; i < l->n_removed; i++)
		n += l->removed[i] == job;
	pthread_mutex_unlock(&l->lock);
	return n;
}

static int two_gone(void *arg)
{
	return was_removed(arg, 1) && was_removed(arg, 2);
}

static void test_order(void)
{
	struct lab l;

	lab_open(&l, "order");
	put_ended(&l, 1);
	put_ended(&l, 2);
	run_maintain(&l);
	kit_wait(&l.k, two_gone, &l, "logs that are due");
	is_int(l.too_early, 0, "they went after the record had said so");
	lab_close(&l);
}

struct state {
	struct lab *l;
	size_t queued;
	int acknowledged;
};

static int is_queued(void *arg)
{
	struct state *s = arg;

	return store_queued(s->l->k.store) == s->queued;
}

static int nothing_queued(void *arg)
{
	return store_queued(((struct lab *)arg)->k.store) == 0;
}

static void on_pin(int rc, const struct err *e, void *arg)
{
	struct state *s = arg;

	(void)e;
	s->acknowledged = rc == 0;
	ok(!was_removed(s->l, 1), "nothing of it was removed when its pin was acknowledged");
}

/* The database is held by another program, so that retention finds a job due whose pin waits to be written.
 */
static void test_pinned_meanwhile(void)
{
	struct state s = {.queued = 2};
	sqlite3 *other = NULL;
	struct err e;
	struct lab l;

	s.l = &l;
	lab_open(&l, "pinned");
	put_ended(&l, 1);
	put_ended(&l, 2);
	if (sqlite3_open(l.k.path, &other) != SQLITE_OK || sqlite3_busy_timeout(other, 30000) != SQLITE_OK ||
	    sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		tap_bail("the database cannot be held");
	if (store_commit(l.k.store, ended_job(1, 1), on_pin, &s, &e) < 0)
		tap_bail("%s", e.text);
	run_maintain(&l);
	kit_wait(&l.k, is_queued, &s, "the pin and the removal, both waiting");
	sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
	sqlite3_close(other);
	kit_wait(&l.k, nothing_queued, &l, "both to be written");
	is_int(s.acknowledged, 1, "the pin was acknowledged");
	is_int(was_removed(&l, 1), 0, "the logs of the pinned job stay");
	is_int(store_dropped(l.looker, 1, &e), 0, "so does all on record");
	is_int(was_removed(&l, 2), 1, "those of the other one went");
	lab_close(&l);
}

#ifdef HEARTH_FAULTS
static void test_not_written(void)
{
	struct state s = {.l = NULL, .queued = 1};
	struct err e;
	struct lab l;

	s.l = &l;
	lab_open(&l, "failed");
	put_ended(&l, 1);
	fault_arm("store.commit", 1, 1000000); /* the removal, and what is tried after it */
	run_maintain(&l);
	kit_wait(&l.k, is_queued, &s, "the removal to be given");
	kit_wait(&l.k, nothing_queued, &l, "its failure");
	fault_clear();
	is_int(was_removed(&l, 1), 0, "a removal that was not written removes no file");
	is_int(store_dropped(l.looker, 1, &e), 0, "nor is it on record");
	lab_close(&l);
}

#endif

static void make_folder(struct lab *l, const char *name)
{
	char path[700];

	snprintf(path, sizeof(path), "%s/logs/%s", l->dir, name);
	if (fs_mkdir_p(path, 0700, NULL) < 0)
		tap_bail("%s", path);
}

static int first_gone(void *arg)
{
	return was_removed(arg, 1);
}

/* hearthd died between the commit and the removal of the files. */
static void test_leftovers(void)
{
	struct store_txn *t = store_txn_new();
	struct err e;
	struct lab l;

	lab_open(&l, "left");
	put_ended(&l, 1);
	if (kit_commit(&l.k, ended_job(2, 1), &e) < 0)
		tap_bail("%s", e.text);
	store_txn_retire(t, 1, STORE_LOGS, KIT_T0);
	if (kit_commit(&l.k, t, &e) < 0)
		tap_bail("%s", e.text);
	make_folder(&l, "1");
	make_folder(&l, "2");
	make_folder(&l, ".finish");
	run_maintain(&l);
	kit_wait(&l.k, first_gone, &l, "what was left");
	maintain_destroy(l.m);
	l.m = NULL;
	is_int(was_removed(&l, 2), 0, "a job that has its logs keeps them");
	is_int(l.n_removed, 1, "nothing else was touched");
	lab_close(&l);
}

/* A blob that no job refers to; it was put long ago. */
static void put_blob(const struct lab *l, char path[900])
{
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char hex[HASH_HEX_SIZE], dir[800];

	hash_hex("x", 1, hex);
	snprintf(dir, sizeof(dir), "%s/blobs/%.2s", l->dir, hex);
	snprintf(path, 900, "%s/%s", dir, hex);
	if (fs_mkdir_p(dir, 0700, NULL) < 0 || fs_write_atomic(path, "x", 1, 0600, NULL) < 0 ||
	    utimensat(AT_FDCWD, path, old, 0) < 0)
		tap_bail("%s", path);
}

static int is_gone(void *path)
{
	return access(path, F_OK) < 0;
}

/* After a restored backup: blobs wait for an administrator, who removes DATA/lost. */
static void test_blobs_wait(void)
{
	char blob[900], lost[800];
	struct lab l;

	lab_open(&l, "wait");
	snprintf(lost, sizeof(lost), "%s/lost/1", l.dir);
	put_ended(&l, 1);
	put_blob(&l, blob);
	make_folder(&l, "1");
	if (fs_mkdir_p(lost, 0700, NULL) < 0)
		tap_bail("%s", lost);
	run_maintain(&l);
	kit_wait(&l.k, first_gone, &l, "the logs of a job that is due");
	maintain_destroy(l.m);
	ok(!is_gone(blob), "while DATA/lost has something no blob is removed");
	if (rmdir(lost) < 0)
		tap_bail("rmdir");
	run_maintain(&l);
	kit_wait(&l.k, is_gone, blob, "a blob that nothing refers to");
	ok(is_gone(blob), "then it goes");
	lab_close(&l);
}

int main(void)
{
	test_order();
	test_pinned_meanwhile();
#ifdef HEARTH_FAULTS
	test_not_written();
#else
	tap_skip("failpoints are not built in");
#endif
	test_leftovers();
	test_blobs_wait();
	return tap_done();
}
