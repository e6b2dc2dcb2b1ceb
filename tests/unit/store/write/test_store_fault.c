/* store under failure: every n-th write and commit failing, kill -9 in mid-commit, a full disk. */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "store/read/find.h"
#include "store/read/load.h"
#include "store/read/reader.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static struct store_txn *submit_txn(uint64_t id)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, C("submitted"));

	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	return t;
}

/* ---- what was acknowledged, and what not
 * -------------------------------------------------------------------------- */

struct tally {
	struct kit *k;
	int done, failed;
	uint8_t acked[64];
};
struct ticket {
	struct tally *t;
	uint64_t id;
};

static void on_done(int rc, const struct err *e, void *arg)
{
	struct ticket *t = arg;

	(void)e;
	t->t->done++;
	t->t->failed += rc < 0;
	t->t->acked[t->id] = rc == 0;
	free(t);
}

static int all_done(void *arg)
{
	return ((struct tally *)arg)->done == 20;
}

static int on_count(const struct job_row *r, void *arg)
{
	((uint8_t *)arg)[r->id] = 1;
	return 0;
}

/* 1 when the jobs in the database are exactly those that were acknowledged. */
static int agrees(struct kit *k, const struct tally *t)
{
	uint8_t there[64] = {0};
	struct store_load l = {.job = on_count, .arg = there};
	struct err e;

	return store_load(k->store, &l, &e) == 0 && memcmp(there, t->acked, sizeof(there)) == 0;
}

#ifdef HEARTH_FAULTS
/* The n-th call of the point fails, and repeat - 1 after it; n = 1, 2, ... until none does. */
static void test_nth(const char *point, unsigned repeat)
{
	unsigned n = 0, failing = 0;
	int bad = 0, hit;

	do {
		struct tally t = {0};
		struct kit k;
		char name[64];
		struct err e;

		snprintf(name, sizeof(name), "nth-%s-%u-%u", point, repeat, ++n);
		kit_open(&k, name);
		fault_clear();
		fault_arm(point, n, repeat);
		for (uint64_t id = 1; id <= 20; id++) {
			struct ticket *tk = xmalloc(sizeof(*tk));

			*tk = (struct ticket){&t, id};
			if (store_commit(k.store, submit_txn(id), on_done, tk, &e) < 0)
				tap_bail("commit: %s", e.text);
		}
		kit_wait(&k, all_done, &t, "20 submits");
		hit = fault_count(point) >= n;
		fault_clear();
		failing += t.failed > 0;
		bad += !agrees(&k, &t);
		bad += repeat == 1 && t.failed > 1;
		kit_close(&k);
		kit_reopen(&k);
		bad += !agrees(&k, &t);
		kit_close(&k);
	} while (hit && n < 400);
	ok(!bad && n > 1 && n < 400,
	   "%s x%u: %u places, %u of them lost a transaction, what is there is what was acknowledged", point,
	   repeat, n - 1, failing);
}

/* Projections that fail are done later; they never cost a record. */
static void test_projection_fault(void)
{
	struct store_reader *r;
	uint64_t job;
	struct err e;
	struct kit k;

	kit_open(&k, "projfault");
	for (uint64_t id = 1; id <= 3; id++)
		kit_submit(&k, id, NULL);
	fault_arm("store.commit", 1,
	          1); /* the next commit is a projection's, or the submit's, which then is tried again */
	kit_submit(&k, 4, NULL);
	r = kit_reader(&k);
	ok(store_job_by_name(r, "alice", "digits", 3, &job, &e) == 0 && job == 1,
	   "names are found without projections, too");
	fault_clear();
	kit_wait_projected(&k);
	ok(store_job_by_name(r, "alice", "digits", 3, &job, &e) == 0 && job == 1, "and with them");
	store_reader_close(r);
	kit_close(&k);
}

static void test_open_fault(void)
{
	struct loop *l = loop_create();
	struct store_config c = {.clock = clock_real()};
	char path[600];
	unsigned n = 0;
	struct store *s;
	struct err e;

	snprintf(path, sizeof(path), "%s/openfault.db", tap_tmpdir());
	c.path = path;
	do {
		fault_clear();
		fault_arm("store.open", ++n, 1);
		s = store_open(&c, l, &e);
	} while (!s && n < 10);
	fault_clear();
	ok(s && n == 3, "each open that fails is reported, nothing leaks (sanitizers look)");
	store_close(s);
	loop_destroy(l);
}
#endif

/* ---- kill -9
 * ------------------------------------------------------------------------------------------------------- */

struct teller {
	int fd;
	uint64_t id;
};

static void tell(int rc, const struct err *e, void *arg)
{
	struct teller *t = arg;

	(void)e;
	if (rc == 0 && write(t->fd, &t->id, sizeof(t->id)) != (ssize_t)sizeof(t->id))
		_exit(4);
	free(t);
}

static void child(const char *path, uint64_t first, int fd)
{
	struct loop *l = loop_create();
	struct store_config c = {.path = path, .clock = clock_real()};
	struct err e;
	struct store *s = store_open(&c, l, &e);

	if (!s)
		_exit(3);
	for (uint64_t id = first;; id++) {
		struct teller *t = xmalloc(sizeof(*t));

		*t = (struct teller){fd, id};
		if (store_commit(s, submit_txn(id), tell, t, &e) < 0)
			_exit(5);
		if (id % 7 == 0 || store_queued(s) > 1000)
			loop_run_once(l, store_queued(s) > 1000 ? 5 : 0);
	}
}

static void test_kill(void)
{
	uint64_t acked = 0, id, job, event, node, before = 0;
	int lost = 0, gaps = 0;
	struct kit k;
	struct err e;

	kit_open(&k, "kill");
	kit_close(&k);
	for (int round = 0; round < 5; round++) {
		int fds[2], status;
		pid_t pid;

		if (pipe(fds) < 0)
			tap_bail("pipe");
		pid = fork();
		if (pid == 0) {
			close(fds[0]);
			child(k.path, before + 1, fds[1]);
		}
		close(fds[1]);
		for (int i = 0; i < 50 + 171 * round && read(fds[0], &id, sizeof(id)) == (ssize_t)sizeof(id); i++)
			acked = id;
		kill(pid, SIGKILL);
		while (read(fds[0], &id, sizeof(id)) == (ssize_t)sizeof(id)) {
			gaps += id != acked + 1;
			acked = id;
		}
		close(fds[0]);
		waitpid(pid, &status, 0);
		if (!WIFSIGNALED(status))
			tap_bail("the child ended by itself: %d", status);
		kit_reopen(&k);
		store_max_ids(k.store, &job, &event, &node, &e);
		/* Every job up to the greatest is there, as they were given in order: whole transactions, event and
		 * row. */
		lost += job < acked || event != job;
		before = job;
		kit_close(&k);
	}
	ok(acked > 200 && !lost && !gaps,
	   "five times kill -9: %" PRIu64 " acknowledged in order, %" PRIu64 " there", acked, before);
	struct store_reader *r = kit_reader(&k);
	struct job_row row;

	for (id = 1; id <= before; id++) {
		if (store_job_get(r, id, &row, &e) < 0)
			tap_bail("job %" PRIu64 " is missing: %s", id, e.text);
		lost += strcmp(row.spec, KIT_SPEC) != 0;
		job_row_fini(&row);
	}
	ok(!lost, "each with its specification");
	store_reader_close(r);
}

/* ---- full disk
 * ------------------------------------------------------------------------------------------------------- */

static int is_done(void *arg)
{
	return ((struct kit_result *)arg)->done;
}

/* A file system of 4 MiB of its own; needs the right to mount. */
static void test_full(void)
{
	char dir[600], *big = xcalloc(1, 900001), *spec;
	struct kit_result res;
	struct kit k;
	struct err e;
	uint64_t id = 0, job = 0, event, node;
	int failed_at = 0;

	snprintf(dir, sizeof(dir), "%s/small", tap_tmpdir());
	/* In a mount namespace of its own, which ends with this process. */
	if (fs_mkdir_p(dir, 0700, &e) < 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", dir, "tmpfs", 0, "size=4m") < 0) {
		tap_skip("needs the right to mount a file system");
		free(big);
		return;
	}
	memset(big, 'x', 900000);
	spec = xasprintf("{\"name\":\"%s\"}", big);
	kit_open(&k, "small/full");
	kit_submit(&k, ++id, NULL);
	while (!failed_at && id < 50) {
		struct store_txn *t = store_txn_new();
		struct job_row r = kit_job(++id);
		struct event_row ev = kit_event(id, id, C("submitted"));

		r.spec = spec;
		store_txn_event(t, &ev);
		store_txn_job(t, &r);
		res.done = 0;
		store_commit(k.store, t, kit_on_result, &res, &e);
		kit_wait(&k, is_done, &res, "a large commit");
		if (res.rc < 0)
			failed_at = (int)id;
	}
	ok(failed_at > 1 && res.code == ERR_NOSPACE, "a full disk is told as ERR_NOSPACE (transaction %d)",
	   failed_at);
	res.done = 0;
	store_commit(k.store, submit_txn(++id), kit_on_result, &res, &e);
	kit_wait(&k, is_done, &res, "a small commit");
	tap_diag("a small transaction on the full disk: %s", res.rc == 0 ? "fits" : "fails");
	if (mount("tmpfs", dir, "tmpfs", MS_REMOUNT, "size=64m") < 0)
		tap_bail("remount");
	kit_submit(&k, ++id, NULL);
	ok(1, "with room again it goes on");
	kit_close(&k);
	kit_reopen(&k);
	store_max_ids(k.store, &job, &event, &node, &e);
	is_int((int64_t)job, (int64_t)id, "and the database is whole");
	kit_close(&k);
	umount2(dir, MNT_DETACH);
	free(spec);
	free(big);
}

int main(void)
{
	test_kill();
#ifdef HEARTH_FAULTS
	test_nth("store.commit", 1);
	test_nth("store.commit", 2);
	test_nth("store.commit", 5);
	test_nth("store.write", 1);
	test_nth("store.write", 2);
	test_nth("store.write", 7);
	test_projection_fault();
	test_open_fault();
#else
	tap_skip("built without --enable-faults");
#endif
	test_full();
	return tap_done();
}
