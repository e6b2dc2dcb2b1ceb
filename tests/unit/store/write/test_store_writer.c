/* the writer's thread: which of a group fail and which stay, by chance against a model; the queue's limit; a
 * stop in the middle; what a completion may do. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define MANY 120

struct result {
	int done, rc, place;
	enum err_code code;
};
static int completed;

static void on_done(int rc, const struct err *e, void *arg)
{
	struct result *r = arg;

	r->done++;
	r->rc = rc;
	r->code = e ? e->code : ERR_NONE;
	r->place = completed++;
}

static int all_done(void *arg)
{
	return completed == *(int *)arg;
}

static void wait_all(struct kit *k, int n)
{
	kit_wait(k, all_done, &n, "all completions");
}

static void limited(struct kit *k, const char *name, size_t limit)
{
	struct store_config c = {.clock = clock_real(), .queue_limit = limit};
	struct err e;

	kit_open(k, name);
	store_close(k->store);
	c.path = k->path;
	k->store = store_open(&c, k->loop, &e);
	if (!k->store)
		tap_bail("%s", e.text);
	completed = 0;
}

/* ---- failures inside groups
 * ---------------------------------------------------------------------------------- */

struct given {
	uint64_t jobs[3]; /* it touches, 0 none; the node too: as 1000 + its number */
	int n, bad;
	int fails; /* by the model */
	struct result r;
};

/* A few changes of jobs and nodes, and an event of its own; of a bad one the event's number is taken. */
static struct store_txn *fill(struct given *g, uint64_t place)
{
	struct event_row ev = kit_event(g->bad ? 1 : 100 + place, 0, C("x"));
	struct store_txn *t = store_txn_new();

	for (int i = 0; i < g->n; i++) {
		struct job_row j = kit_job(g->jobs[i]);
		struct node_row n = {.id = g->jobs[i] - 1000, .name = C("n"), .state = C("up")};

		j.epoch = n.seen_us = place;
		g->jobs[i] > 1000 ? store_txn_node(t, &n) : store_txn_job(t, &j);
	}
	store_txn_setting(t, "last", "x"); /* of no job: it never makes another one fail */
	store_txn_event(t, &ev);
	return t;
}

/* What was given before its failure was known fails when it touches what an earlier one had. */
static void judge(struct given *g, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		g[i].fails = g[i].bad;
		for (size_t k = 0; k < i && !g[i].fails; k++)
			for (int a = 0; a < g[i].n && g[k].fails; a++)
				for (int b = 0; b < g[k].n; b++)
					g[i].fails |= g[i].jobs[a] == g[k].jobs[b];
	}
}

/* Each record is of the last transaction that was acknowledged. */
static int bad_records(struct kit *k, const struct given *g, size_t n)
{
	int bad = 0;

	for (uint64_t id = 2; id < 1040; id = id == 39 ? 1001 : id + 1) {
		int64_t want = -1, got;
		char sql[160];

		for (size_t i = 0; i < n; i++)
			for (int a = 0; a < g[i].n; a++)
				if (g[i].r.rc == 0 && g[i].jobs[a] == id)
					want = (int64_t)i;
		if (id > 1000)
			snprintf(sql, sizeof(sql), "SELECT ifnull((SELECT seen_us FROM node WHERE id = %" PRIu64 "), -1)",
			         id - 1000);
		else
			snprintf(sql, sizeof(sql), "SELECT ifnull((SELECT epoch FROM job WHERE id = %" PRIu64 "), -1)",
			         id);
		got = kit_number(k->path, sql);
		bad += got != want;
	}
	return bad;
}

static void one_round(int round, int *bad, int *failed)
{
	struct given g[MANY];
	char name[32];
	struct err e;
	struct kit k;

	memset(g, 0, sizeof(g));
	snprintf(name, sizeof(name), "groups%d", round);
	kit_open(&k, name);
	kit_submit(&k, 1, NULL); /* event 1 */
	completed = 0;
	for (size_t i = 0; i < MANY; i++) {
		g[i].bad = kit_random(25) == 0;
		g[i].n = 1 + (int)kit_random(3);
		for (int a = 0; a < g[i].n; a++)
			g[i].jobs[a] = (kit_random(5) ? 2 : 1001) + kit_random(35);
		/* nothing is delivered until the loop turns: each is given without knowing of a failure */
		if (store_commit(k.store, fill(&g[i], i), on_done, &g[i].r, &e) < 0)
			tap_bail("%s", e.text);
	}
	wait_all(&k, MANY);
	judge(g, MANY);
	for (int i = 0; i < MANY; i++) {
		*failed += g[i].fails;
		*bad += g[i].r.done != 1 || g[i].r.place != i || (g[i].r.rc < 0) != g[i].fails ||
		        (g[i].fails && g[i].r.code != (g[i].bad ? ERR_INTERNAL : ERR_CONFLICT) &&
		         g[i].r.code != ERR_CONFLICT);
	}
	*bad += bad_records(&k, g, MANY);
	/* Known now: the same records can be written again. */
	g[0] = (struct given){{2, 3, 1001}, 3, 0, 0, {0}};
	completed = 0;
	if (store_commit(k.store, fill(&g[0], MANY), on_done, &g[0].r, &e) < 0)
		tap_bail("%s", e.text);
	wait_all(&k, 1);
	*bad += g[0].r.rc != 0;
	kit_close(&k);
}

static void test_groups(void)
{
	int bad = 0, failed = 0;

	kit_seed("groups");
	for (int round = 0; round < 12; round++)
		one_round(round, &bad, &failed);
	ok(!bad && failed > 20 && failed < 12 * MANY / 2,
	   "of %d transactions just those fail that are bad or built upon one that failed (%d); completions in "
	   "order",
	   12 * MANY, failed);
}

/* ---- the queue
 * -------------------------------------------------------------------------------------------------- */

static struct store_txn *job_txn(uint64_t id)
{
	struct store_txn *t = store_txn_new();
	struct job_row r = kit_job(id);
	struct event_row ev = kit_event(id, id, C("x"));

	store_txn_event(t, &ev);
	store_txn_job(t, &r);
	return t;
}

/* The limit counts what was not delivered yet, whatever was written. */
static void test_limit(void)
{
	static const size_t limits[] = {1, 2, 7};
	struct result r[8] = {{0}};

	for (int i = 0; i < 3; i++) {
		struct store_txn *over = job_txn(50);
		char name[32];
		struct err e;
		struct kit k;
		int bad = 0;

		memset(r, 0, sizeof(r));
		snprintf(name, sizeof(name), "limit%d", i);
		limited(&k, name, limits[i]);
		for (size_t n = 0; n < limits[i]; n++)
			bad += store_commit(k.store, job_txn(n + 1), on_done, &r[n], &e) < 0;
		ok(!bad && store_commit(k.store, over, on_done, &r[7], &e) < 0 && e.code == ERR_BUSY &&
		       strstr(e.text, "queue is full"),
		   "a queue of %zu: one more is refused: %s", limits[i], e.text);
		wait_all(&k, (int)limits[i]);
		ok(store_queued(k.store) == 0 && store_commit(k.store, over, on_done, &r[7], &e) == 0,
		   "the same one is taken when there is room");
		wait_all(&k, (int)limits[i] + 1);
		ok(r[7].done == 1 && r[7].rc == 0, "and written");
		is_int(kit_number(k.path, "SELECT count(*) FROM job"), (int64_t)limits[i] + 1,
		       "with all of the others");
		kit_close(&k);
	}
}

/* ---- the end
 * ------------------------------------------------------------------------------------------------------ */

struct chain {
	struct store *store;
	uint64_t next, last;
	int refused;
	enum err_code code;
};

/* A completion gives the next transaction; in a store that is being closed it is told so. */
static void give_next(int rc, const struct err *err, void *arg)
{
	struct chain *c = arg;
	struct store_txn *t;
	struct err e;

	(void)err;
	if (rc < 0 || c->next > c->last)
		return;
	t = job_txn(c->next++);
	if (store_commit(c->store, t, give_next, c, &e) < 0) {
		store_txn_free(t);
		c->refused++;
		c->code = e.code;
	}
}

static int chain_done(void *arg)
{
	struct chain *c = arg;

	return c->next > c->last && store_queued(c->store) == 0;
}

static void test_close(void)
{
	struct chain c = {.next = 2, .last = 200};
	struct store_txn *t;
	struct err e;
	struct kit k;

	kit_open(&k, "close");
	c.store = k.store;
	if (store_commit(k.store, job_txn(1), give_next, &c, &e) < 0)
		tap_bail("%s", e.text);
	kit_wait(&k, chain_done, &c, "200 that follow from each other");
	is_int(kit_number(k.path, "SELECT count(*) FROM job"), 200, "a completion may give the next transaction");
	c = (struct chain){.store = k.store, .next = 1001, .last = 2000};
	for (uint64_t id = 300; id < 400; id++) {
		t = job_txn(id);
		if (store_commit(k.store, t, give_next, &c, &e) < 0)
			tap_bail("%s", e.text);
	}
	store_close(k.store); /* the loop has not turned: all completions are run by it */
	k.store = NULL;
	ok(c.refused > 0 && c.code == ERR_UNAVAILABLE, "while it is being closed nothing is taken (%d refused)",
	   c.refused);
	is_int(kit_number(k.path, "SELECT count(*) FROM job WHERE id BETWEEN 300 AND 399"), 100,
	       "what was taken before is written");
	is_int(kit_number(k.path, "SELECT count(*) FROM job WHERE id > 1000"), 0, "what was refused is not");
	kit_reopen(&k);
	kit_close(&k);
	store_close(NULL);
	ok(1, "no store is closed, too");
}

/* Opened and closed at once, many times: nothing waits, nothing is lost. */
static void test_short_lives(void)
{
	struct err e;
	struct kit k;

	kit_open(&k, "short");
	for (uint64_t id = 1; id <= 30; id++) {
		if (id % 3 && store_commit(k.store, job_txn(id), NULL, NULL, &e) < 0)
			tap_bail("%s", e.text);
		store_close(k.store);
		k.store = NULL;
		kit_reopen(&k);
	}
	is_int(kit_number(k.path, "SELECT count(*) FROM job"), 20, "each life's transaction is there");
	kit_wait_projected(&k);
	is_int(kit_number(k.path, "SELECT count(*) FROM job_ix"), 20,
	       "what a life did not come to behind is made by the next one");
	kit_close(&k);
}

/* ---- what it tells
 * ------------------------------------------------------------------------------------------------- */

static void test_stats(void)
{
	struct result r[20] = {{0}};
	struct store_stats st;
	struct err e;
	struct kit k;

	kit_open(&k, "stats");
	completed = 0;
	for (uint64_t i = 0; i < 20; i++)
		if (store_commit(k.store, job_txn(i == 13 ? 1 : i + 1), on_done, &r[i], &e) <
		    0) /* the same event twice */
			tap_bail("%s", e.text);
	wait_all(&k, 20);
	store_stats(k.store, &st);
	ok(st.transactions == 19 && st.failed == 1 && r[13].rc < 0, "19 written, 1 failed");
	ok(st.groups >= 1 && st.groups <= 20 && st.largest_group >= 1 && st.largest_group <= 20 &&
	       st.bytes > 20 * strlen(KIT_SPEC),
	   "groups and bytes");
	ok(st.last_event == 20 && st.commit_us_max <= st.commit_us_sum && st.commit_us_max > 0,
	   "the last event, times");
	kit_wait_projected(&k);
	store_stats(k.store, &st);
	is_int((int64_t)st.projected_event, 20, "how far what is behind has come");
	kit_close(&k);
}

int main(void)
{
	test_groups();
	test_limit();
	test_close();
	test_short_lives();
	test_stats();
	return tap_done();
}
