/*
 * store on storage that lies: the power cut at the n-th sync, n = 1, 2, ... until none is left; every n-th
 * read, write and sync failing; a sync that failed and lost its pages, then the power.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store.h"
#include "tests/lib/faultvfs.h"
#include "tests/lib/powerrun.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/write/powerkit.h"

enum pace { ONE_BY_ONE, BURSTS, RESTED /* with pauses in which the projections are written */ };

struct life {
	struct power p;
	enum pace pace;
	int sticky; /* what fails goes on failing until it was refused three times */
	char dir[400], path[440];
	unsigned acked; /* the greatest step that was told */
};

/* ---- the process whose power is cut ------------------------------------------------------------------- */

struct ticket {
	struct life *l;
	unsigned step;
	int done, rc;
	struct err e;
};

static void on_done(int rc, const struct err *e, void *arg)
{
	struct ticket *t = arg;

	t->done = 1;
	t->rc = rc;
	if (rc < 0)
		t->e = *e;
	else
		power_tell(&t->l->p, t->step);
}

static int is_done(void *arg)
{
	return ((struct ticket *)arg)->done;
}

/* One more whose failure does not name its cause. */
static int unnamed(struct life *l, const struct err *e)
{
	enum err_code want = l->p.plan.fail_errno == ENOSPC ? ERR_NOSPACE : ERR_IO;

	/* SQLite has no word for a sync that finds no room: it says that the disk failed. */
	if (l->p.plan.fail_op == LIE_SYNC)
		want = e->code == ERR_NOSPACE ? ERR_NOSPACE : ERR_IO;
	if (e->code == want || (e->code == ERR_CONFLICT && strstr(e->text, "an earlier change")))
		return 0;
	tap_diag("a failure of errno %d came as %s: %s", l->p.plan.fail_errno, err_code_name(e->code), e->text);
	return 1;
}

static void give(struct kit *k, struct life *l, unsigned step, struct ticket *t)
{
	struct err e;

	*t = (struct ticket){.l = l, .step = step};
	if (store_commit(k->store, life_txn(step), on_done, t, &e) < 0)
		_exit(5);
}

/* Again and again until it is taken; while the storage is sick each time must be refused. */
static void insist(struct kit *k, struct life *l, struct ticket *t)
{
	kit_wait(k, is_done, t, "a step");
	for (int tries = 0; t->rc < 0; tries++) {
		if (unnamed(l, &t->e))
			_exit(6);
		if (tries == 3)
			liedisk_heal();
		if (tries == 5)
			_exit(7);
		give(k, l, t->step, t);
		kit_wait(k, is_done, t, "a step");
	}
}

static int open_store(struct kit *k, struct life *l)
{
	struct store_config c = {.path = k->path, .clock = k->clock};
	struct err e;

	k->store = store_open(&c, k->loop, &e);
	for (int tries = 0; !k->store; tries++) {
		if (unnamed(l, &e))
			return -1;
		if (tries == 3)
			return -1;
		if (l->sticky)
			liedisk_heal();
		k->store = store_open(&c, k->loop, &e);
	}
	return 0;
}

/* Two runs of the store, so that the close and its checkpoint are in it. */
static int live(struct power *p)
{
	struct life *l = p->arg;
	struct ticket t[LIFE_STEPS + 1];
	struct kit k = {.clock = clock_real()};
	unsigned group = l->pace == BURSTS ? 7 : 1, step = 1;

	faultvfs_register();
	snprintf(k.path, sizeof(k.path), "%s", l->path);
	for (unsigned half = 1; half <= 2; half++) {
		k.loop = loop_create();
		if (open_store(&k, l) < 0)
			return 8;
		while (step <= LIFE_STEPS * half / 2) {
			unsigned first = step;

			for (; step < first + group && step <= LIFE_STEPS * half / 2; step++)
				give(&k, l, step, &t[step]);
			for (unsigned i = first; i < step; i++)
				insist(&k, l, &t[i]);
			if (l->pace == RESTED && step % 12 == 0)
				kit_wait_projected(&k);
		}
		kit_close(&k);
	}
	return 0;
}

/* ---- the watcher ----------------------------------------------------------------------------------------
 */

static void told(uint64_t step, void *arg)
{
	struct life *l = arg;

	if (step > l->acked)
		l->acked = (unsigned)step;
}

static void run(struct life *l, const char *name, const struct lie_plan *plan)
{
	snprintf(l->dir, sizeof(l->dir), "%s/%s", tap_tmpdir(), name);
	snprintf(l->path, sizeof(l->path), "%s/hearth.db", l->dir);
	l->p = (struct power){.dir = l->dir, .plan = *plan, .life = live, .told = told, .arg = l};
	power_run(&l->p);
}

static int look(const struct life *l, unsigned acked, unsigned n, const char *what)
{
	char why[600] = "";

	if (life_check(l->path, acked, why, sizeof(why)) == 0)
		return 0;
	tap_diag("%s: n=%u seed=%" PRIu64 ": %s", what, n, l->p.plan.seed, why);
	return 1;
}

static void test_cut(enum pace pace, const char *name, unsigned seeds)
{
	unsigned n = 1, cuts = 0, bad = 0;

	for (unsigned seed = 1; seed <= seeds; seed++) {
		struct life l;

		n = 0;
		do {
			l = (struct life){.pace = pace};
			run(&l, name, &(struct lie_plan){.seed = seed * 1000 + n, .cut_sync = n + 1});
			n++;
			cuts += (unsigned)l.p.cut;
			if (!l.p.cut && l.acked != LIFE_STEPS)
				tap_bail("a life without a cut ended at step %u", l.acked);
			bad += (unsigned)look(&l, l.acked, n, name);
		} while (l.p.cut && n < 1000);
	}
	ok(!bad && n < 1000 && n > 10,
	   "%s: power cut at each of %u syncs, %u cuts: nothing acknowledged was lost, nothing half", name, n - 1,
	   cuts);
}

/* The n-th call of a kind fails, once or until it was refused three times. */
static void test_fail(enum lie_op op, int err, int sticky, const char *name)
{
	unsigned n = 1, bad = 0, runs = 0;
	struct life l;

	do {
		struct lie_plan plan = {
		    .seed = n, .fail_op = op, .fail_nth = n, .fail_repeat = sticky ? 1000000 : 1, .fail_errno = err};

		l = (struct life){.pace = n % 2 ? ONE_BY_ONE : BURSTS, .sticky = sticky};
		run(&l, name, &plan);
		runs++;
		bad += (unsigned)look(&l, LIFE_STEPS, n, name);
		/* All of them under HEARTH_SOAK; else ever wider steps. */
		n += power_soak() ? 1 : 1 + n / 8;
	} while (l.p.failed && n < 100000);
	ok(!bad && runs > 3, "%s: %u places up to call %u: named, not acknowledged, then resumed", name, runs - 1,
	   n);
}

/* A sync fails and its pages are gone; the store goes on; then the power is cut. */
static void test_fail_cut(void)
{
	unsigned n = 0, bad = 0, cuts = 0, any;

	do {
		any = 0;
		n++;
		for (unsigned later = 1; later <= (power_soak() ? 3 : 1); later++) {
			struct life l = {.pace = ONE_BY_ONE};

			run(&l, "fail-cut",
			    &(struct lie_plan){.seed = n * 10 + later,
			                       .cut_sync = n + later,
			                       .fail_op = LIE_SYNC,
			                       .fail_nth = n,
			                       .fail_repeat = 1,
			                       .fail_errno = EIO});
			any |= (unsigned)l.p.cut;
			cuts += (unsigned)l.p.cut;
			bad += (unsigned)look(&l, l.acked, n, "fail-cut");
		}
	} while (any && n < 1000);
	ok(!bad && cuts > 10,
	   "a failed sync that lost its pages, then a cut: %u times, nothing acknowledged was lost", cuts);
}

/* A disk that says "synced" and is not: what was acknowledged must be missed, or these tests see nothing. */
static void test_control(void)
{
	unsigned missed = 0;

	for (unsigned n = 10; n < 42; n += 4) {
		struct life l = {.pace = ONE_BY_ONE};
		char why[600] = "";

		run(&l, "control", &(struct lie_plan){.seed = n, .cut_sync = n, .deaf = 1});
		missed += life_check(l.path, l.acked, why, sizeof(why)) < 0;
	}
	/* Not each time: everything may happen to be kept. */
	ok(missed >= 2, "a disk that does not sync is caught, %u times of 8", missed);
}

int main(void)
{
	power_in_memory();
	life_expected();
	test_cut(ONE_BY_ONE, "one by one", power_soak() ? 20 : 1);
	test_cut(BURSTS, "bursts", power_soak() ? 20 : 2);
	test_fail_cut();
	test_fail(LIE_SYNC, EIO, 0, "sync EIO");
	test_fail(LIE_SYNC, ENOSPC, 1, "sync ENOSPC");
	test_fail(LIE_WRITE, EIO, 0, "write EIO");
	test_fail(LIE_WRITE, ENOSPC, 1, "write ENOSPC until there is room");
	test_fail(LIE_READ, EIO, 0, "read EIO");
	test_control();
	/* Last: the model of a file of some MB takes its time, ever more of it when instrumented. */
	life_large(5000000);
	life_expected();
	test_cut(RESTED, "rested", power_soak() ? 5 : 1);
	return tap_done();
}
