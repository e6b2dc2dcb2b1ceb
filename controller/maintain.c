/*
 * maintain: retention on the state thread, a few jobs at a time; the collection of blobs on a thread of its
 * own, because it walks all of them. That thread also searches once for logs of jobs whose removal was
 * committed by a hearthd that died before it removed them.
 */
#include "controller/maintain.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/blobs/blobstore.h"
#include "store/read/reader.h"
#include "store/read/retain.h"
#include "store/store.h"

#define FIRST_US    (60ull * 1000000) /* after the start */
#define EVERY_US    (3600ull * 1000000)
#define LEFT_A_LOOK 8192            /* jobs with leftover logs, in one search */
#define BATCH_US    (200ull * 1000) /* between two batches while there is more */
#define BATCH       50
#define TURN_US     2000ull /* of the state thread, for one batch */

struct collection { /* the thread's own; nothing of the state thread is touched */
	char *data_dir, *db_path;
	uint64_t keep_since_us;
	int leftovers; /* look for logs of removed jobs, too */
	void (*remove_logs)(uint64_t job, void *arg);
	void *arg;
	struct store_reader *reader;
	unsigned n_left;
	atomic_int done;
};

struct maintain {
	struct maintain_config c;
	char *data_dir, *db_path;
	struct loop_timer *timer;
	struct collection *run;
	pthread_t thread;
	int looked;            /* leftover logs were searched for */
	struct batch *batches; /* given to the store, not written yet */
	unsigned removed;
};

/* ---- blobs ----------------------------------------------------------------------------------- */

struct marking {
	int (*mark)(const char *digest, void *mark_arg);
	void *mark_arg;
};

static int each_digest(const char *digest, void *arg)
{
	struct marking *m = arg;

	return m->mark(digest, m->mark_arg);
}

static int each_root(int (*mark)(const char *digest, void *mark_arg), void *mark_arg, void *arg,
                     struct err *e)
{
	struct marking m = {mark, mark_arg};

	return store_each_digest(arg, each_digest, &m, e);
}

static int look_at_logs(const char *name, void *arg)
{
	struct collection *g = arg;
	struct err e;
	uint64_t job;
	int what;

	if (str_parse_u64(name, &job) < 0)
		return 0;
	what = store_dropped(g->reader, job, &e);
	if (what < 0) {
		log_warn("event=leftovers_failed text=\"%s\"", e.text);
		return -1;
	}
	if (what & STORE_LOGS) {
		if (g->n_left == LEFT_A_LOOK)
			return -1; /* the rest at the next search: the log thread's queue is bounded */
		g->n_left++;
		g->remove_logs(job, g->arg);
	}
	return 0;
}

static int remove_leftovers(struct collection *g)
{
	cleanup_free char *dir = xasprintf("%s/logs", g->data_dir);
	struct err e = {.code = ERR_NONE}; /* a failed search logs its own error */
	int rc = access(dir, F_OK) == 0 ? fs_each(dir, look_at_logs, g, &e) : 0;

	if (rc < 0 && e.code != ERR_NONE)
		log_warn("event=leftovers_failed text=\"%s\"", e.text);
	if (g->n_left)
		log_info("event=leftovers jobs=%u text=\"logs of removed jobs were still there\"", g->n_left);
	return rc;
}

static int stop_at_first(const char *name, void *arg)
{
	(void)name;
	*(int *)arg = 1;
	return -1;
}

/* Blobs of a lost time line may be all that is left of its results: an administrator looks first, and then
 * removes DATA/lost. */
static int is_waiting(const struct collection *g)
{
	cleanup_free char *lost = xasprintf("%s/lost", g->data_dir);
	int found = 0;

	if (access(lost, F_OK) < 0)
		return 0;
	fs_each(lost, stop_at_first, &found, NULL);
	if (found)
		log_warn("event=blob_gc_waits folder=%s text=\"no blob is removed before you remove this folder\"",
		         lost);
	return found;
}

static void *run_collection(void *arg)
{
	struct collection *g = arg;
	struct err e = {.code = ERR_NONE};
	struct blobstore *b = blobstore_open(g->data_dir, clock_real(), &e);
	struct store_reader *r = b ? store_reader_open(g->db_path, &e) : NULL;
	struct blobstore_gc gc = {
	    .roots = each_root, .arg = r, .min_age_s = 3600, .keep_since_us = g->keep_since_us};

	g->reader = r;
	if (r && g->leftovers && remove_leftovers(g) == 0)
		g->leftovers = 0;
	if (r && is_waiting(g))
		;
	else if (!r || blobstore_gc(b, &gc, &e) < 0)
		log_warn("event=blob_gc_failed text=\"%s\"", e.text);
	else if (gc.removed || gc.uploads_removed)
		log_info("event=blob_gc kept=%" PRIu64 " removed=%" PRIu64 " bytes=%" PRIu64 " uploads=%" PRIu64,
		         gc.kept, gc.removed, gc.removed_bytes, gc.uploads_removed);
	if (r)
		store_reader_close(r);
	if (b)
		blobstore_close(b);
	atomic_store(&g->done, 1);
	return NULL;
}

static void collection_end(struct maintain *m)
{
	pthread_join(m->thread, NULL);
	m->looked = !m->run->leftovers;
	free(m->run->data_dir);
	free(m->run->db_path);
	free(m->run);
	m->run = NULL;
}

static void collection_start(struct maintain *m)
{
	struct collection *g;

	if (m->run && !atomic_load(&m->run->done))
		return; /* it still runs */
	if (m->run)
		collection_end(m);
	g = xcalloc(1, sizeof(*g));
	g->data_dir = xstrdup(m->data_dir);
	g->db_path = xstrdup(m->db_path);
	g->keep_since_us = m->c.oldest(m->c.arg);
	g->remove_logs = m->c.remove_logs;
	g->arg = m->c.arg;
	g->leftovers = !m->looked;
	m->run = g;
	if (pthread_create(&m->thread, NULL, run_collection, g) != 0) {
		log_warn("event=blob_gc_failed text=\"no thread\"");
		free(g->data_dir);
		free(g->db_path);
		free(g);
		m->run = NULL;
	}
}

/* ---- retention ------------------------------------------------------------------------------- */

struct batch {
	struct maintain *m; /* NULL: maintain is gone */
	struct batch *next;
	struct store_txn *t;
	uint64_t now_us;
	uint64_t logs[BATCH]; /* jobs whose logs are due */
	unsigned n_logs;
	uint64_t until_us; /* boot clock: the rest waits for the next turn */
	int late;
};

static int drop_one(uint64_t job, unsigned what, void *arg)
{
	struct batch *b = arg;

	if (what & STORE_LOGS)
		b->logs[b->n_logs++] = job;
	store_txn_retire(b->t, job, what, b->now_us);
	b->late = clock_boot_us(clock_real()) >= b->until_us;
	return b->late ? -1 : 0;
}

/* A job that was pinned after it was found due, and before this was written, has kept everything: the record
 * tells which. When it cannot be asked the next start finds what is left. */
static void remove_logs(struct maintain *m, const struct batch *b)
{
	struct err e;

	for (unsigned i = 0; i < b->n_logs; i++) {
		int what = store_dropped(m->c.reader, b->logs[i], &e);

		if (what < 0)
			log_warn("event=retention_failed job=%" PRIu64 " text=\"%s\"", b->logs[i], e.text);
		else if (what & STORE_LOGS)
			m->c.remove_logs(b->logs[i], m->c.arg);
	}
}

static void on_drop(int rc, const struct err *e, void *arg)
{
	struct batch *b = arg;

	if (rc < 0)
		log_warn("event=retention_failed text=\"%s\"", e ? e->text : "");
	else if (b->m)
		remove_logs(b->m, b);
	if (b->m)
		LL_DELETE(b->m->batches, b);
	free(b);
}

/* 1 there may be more. */
static int remove_expired(struct maintain *m)
{
	struct batch *b;
	struct err e;
	int n;

	if (m->batches) /* a slow store: jobs whose removal is not written yet would be found again */
		return 1;
	b = xcalloc(1, sizeof(*b));
	b->m = m;
	b->t = store_txn_new();
	b->now_us = clock_real_us(clock_real());
	b->until_us = clock_boot_us(clock_real()) + TURN_US;
	n = store_retention_due(m->c.reader, &m->c.keep, b->now_us, BATCH, drop_one, b, &e);
	if (n > 0 && store_commit(m->c.store, b->t, on_drop, b, &e) == 0) {
		LL_PREPEND(m->batches, b);
		m->removed += (unsigned)n;
		return n == BATCH || b->late;
	}
	if (n != 0)
		log_warn("event=retention_failed text=\"%s\"", e.text);
	store_txn_free(b->t);
	free(b);
	return 0;
}

static void on_timer(void *arg)
{
	struct maintain *m = arg;

	if (remove_expired(m)) {
		loop_timer_arm(m->timer, BATCH_US);
		return;
	}
	if (m->removed)
		log_info("event=retention jobs=%u", m->removed);
	m->removed = 0;
	collection_start(m);
	loop_timer_arm(m->timer, EVERY_US);
}

struct maintain *maintain_create(const struct maintain_config *c)
{
	struct maintain *m = xcalloc(1, sizeof(*m));

	m->c = *c;
	m->data_dir = xstrdup(c->data_dir);
	m->db_path = xstrdup(c->db_path);
	m->timer = loop_timer_create(c->loop, on_timer, m);
	loop_timer_arm(m->timer, c->first_us ? c->first_us : FIRST_US);
	return m;
}

void maintain_destroy(struct maintain *m)
{
	struct batch *b;

	if (!m)
		return;
	loop_timer_destroy(m->timer);
	if (m->run)
		collection_end(m);
	LL_FOREACH (m->batches, b)
		b->m = NULL; /* the store, which is closed later, still calls back */
	free(m->data_dir);
	free(m->db_path);
	free(m);
}
