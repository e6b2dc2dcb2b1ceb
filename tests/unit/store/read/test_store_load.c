/* what a start reads: settings that come and go, what was spent, how jobs ended, keys and answers of a day,
 * members of arrays, the greatest numbers; and that a callback may stop it. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "store/read/load.h"
#include "store/store.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

static struct clock clock_now;

static void open_at(struct kit *k, const char *name, uint64_t now_us)
{
	clock_fake_init(&clock_now, now_us, 1);
	kit_open(k, name);
	store_close(k->store);
	k->clock = &clock_now;
	kit_reopen(k);
}

static void commit(struct kit *k, struct store_txn *t)
{
	struct err e;

	if (kit_commit(k, t, &e) < 0)
		tap_bail("commit: %s", e.text);
}

/* What a load says, a line for each row. */
static char said[16384];

static int say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int say(const char *fmt, ...)
{
	size_t n = strlen(said);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said + n, sizeof(said) - n, fmt, ap);
	va_end(ap);
	return 0;
}

static const char *load(struct kit *k, struct store_load l)
{
	static struct err e;

	said[0] = '\0';
	return store_load(k->store, &l, &e) < 0 ? e.text : said;
}

/* ---- what administrators set: rows by name that come, change and go --------------------------------------
 */

#define NAMES 12

static char sets[5][NAMES][160]; /* the line of each; "" not there */

static int on_queue(const struct queue_row *r, void *arg)
{
	(void)arg;
	return say("queue %s %d %" PRIu64 " %u %d %u %u\n", r->path, r->is_queue, r->weight_milli, r->quota_gpus,
	           r->borrow, r->warm_gpus, r->warm_nodes);
}

static int on_usage(const struct usage_row *r, void *arg)
{
	(void)arg;
	return say("usage %s %" PRIu64 " %" PRIu64 "\n", r->path, r->gpu_ms, r->at_us);
}

static int on_instance(const char *name, const char *own, void *arg)
{
	(void)arg;
	return say("instance %s %s\n", name, own);
}

static int on_reservation(const struct reservation_row *r, void *arg)
{
	(void)arg;
	return say("reservation %s %s %s %s %s %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r->name, r->state,
	           r->queue, r->nodes, r->reason, r->owner, r->from_us, r->to_us, r->created_us);
}

static int on_budget(const struct budget_row *r, void *arg)
{
	(void)arg;
	return say("budget %s %" PRIu64 " %s %s\n", r->path, r->uusd, r->period, r->action);
}

#define BIG (INT64_MAX - 5)

/* One change of one row of one kind; v goes into the fields. */
static void set_one(struct store_txn *t, int kind, int i, int gone, unsigned v)
{
	char name[8], text[16], *line = sets[kind][i];
	const size_t n = sizeof(sets[0][0]);
	const unsigned long long big = BIG + v;

	snprintf(name, sizeof(name), "%c%d", 'a' + i, i);
	snprintf(text, sizeof(text), "%u", v);
	if (kind == 0) {
		gone ? store_txn_queue_del(t, name)
		     : store_txn_queue(t, &(struct queue_row){name, (uint8_t)(v & 1), (uint8_t)(v >> 1 & 1), big,
		                                              UINT32_MAX - v, v, v + 1});
		snprintf(line, n, "queue %s %d %llu %u %d %u %u\n", name, v & 1, big, UINT32_MAX - v, v >> 1 & 1, v,
		         v + 1);
	} else if (kind == 1) {
		store_txn_usage(t, &(struct usage_row){name, big, v});
		snprintf(line, n, "usage %s %llu %u\n", name, big, v);
	} else if (kind == 2) {
		store_txn_instance(t, name, gone ? NULL : text);
		snprintf(line, n, "instance %s %u\n", name, v);
	} else if (kind == 3) {
		gone ? store_txn_reservation_del(t, name)
		     : store_txn_reservation(
		           t, &(struct reservation_row){name, "planned", text, "n1 n2", "r", "", v, big, 7});
		snprintf(line, n, "reservation %s planned %s n1 n2 r  %u %llu 7\n", name, text, v, big);
	} else {
		store_txn_budget(t, &(struct budget_row){name, gone ? 0 : big, "week", "end"});
		snprintf(line, n, "budget %s %llu week end\n", name, big);
	}
	if (gone && kind != 1)
		line[0] = '\0';
}

static void test_sets(void)
{
	static const int order[] = {2, 0, 1, 3, 4};
	char want[sizeof(sets)] = "";
	size_t len = 0;
	struct kit k;

	kit_seed("sets");
	open_at(&k, "sets", KIT_T0);
	for (int round = 0; round < 40; round++) {
		struct store_txn *t = store_txn_new();

		for (int i = 0; i < 10; i++)
			set_one(t, (int)kit_random(5), (int)kit_random(NAMES), kit_random(3) == 0,
			        (unsigned)kit_random(4));
		commit(&k, t);
	}
	for (int i = 0; i < 5; i++)
		for (int n = 0; n < NAMES; n++)
			len += (size_t)snprintf(want + len, sizeof(want) - len, "%s", sets[order[i]][n]);
	kit_close(&k);
	kit_reopen(&k);
	is_str(
	    load(&k, (struct store_load){.queue = on_queue,
	                                 .usage = on_usage,
	                                 .instance = on_instance,
	                                 .reservation = on_reservation,
	                                 .budget = on_budget}),
	    want,
	    "queues, usage, instance types, reservations and budgets are as the last change left them, by name");
	is_str(load(&k, (struct store_load){0}), "", "nothing is asked for, nothing comes");
	kit_close(&k);
}

static void test_settings(void)
{
	char *v;
	struct kit k;
	struct store_txn *t = store_txn_new();

	kit_open(&k, "settings");
	store_txn_setting(t, "a", "");
	store_txn_setting(t, "b", "1");
	store_txn_setting(t, "b", "2");
	store_txn_setting(t, "c", "x");
	store_txn_setting(t, "c", NULL);
	commit(&k, t);
	is_str(v = store_setting(k.store, "a"), "", "an empty setting is one");
	free(v);
	is_str(v = store_setting(k.store, "b"), "2", "the last one counts");
	free(v);
	ok(!store_setting(k.store, "c") && !store_setting(k.store, "A"),
	   "one that was removed, one that never was");
	kit_close(&k);
}

/* ---- money ------------------------------------------------------------------------------------------------
 */

struct paid {
	uint64_t price, from, to;
	int account;
};

static int on_spent(const struct spent_row *r, void *arg)
{
	double *got = (double *)arg + 3 * (r->account[1] - '0');

	got[0] = (double)r->day_uusd;
	got[1] = (double)r->week_uusd;
	got[2] = (double)r->month_uusd;
	return 0;
}

static double part(const struct paid *p, uint64_t since)
{
	uint64_t from = p->from > since ? p->from : since;

	return p->to > from ? (double)p->price * (double)(p->to - from) / 3.6e9 : 0;
}

static void test_spent(void)
{
	static const uint64_t hour = 3600000000ull;
	struct paid p[200];
	double want[4][3] = {{0}}, got[4][3], off = 0;
	struct store_txn *t = store_txn_new();
	struct err e;
	struct kit k;
	char account[8];

	kit_seed("spent");
	open_at(&k, "spent", KIT_T0);
	for (uint64_t i = 0; i < 200; i++) {
		p[i] = (struct paid){kit_random(5) * 1000003, KIT_T0 + kit_random(100) * hour, 0, (int)kit_random(4)};
		p[i].to = kit_random(5) ? p[i].from + kit_random(50) * hour : 0;
		snprintf(account, sizeof(account), "q%d", p[i].account);
		store_txn_attempt(t, &(struct attempt_row){.job = i + 1,
		                                           .number = 1,
		                                           .state = C("x"),
		                                           .started_us = p[i].from,
		                                           .ended_us = p[i].to,
		                                           .price_uusd = p[i].price,
		                                           .account = account});
	}
	commit(&k, t);
	for (int order = 0; order < 6; order++) {
		static const unsigned days[6][3] = {{90, 50, 20}, {20, 50, 90}, {50, 20, 90},
		                                    {50, 90, 20}, {0, 0, 0},    {200, 200, 200}};
		const uint64_t since[3] = {KIT_T0 + days[order][0] * hour, KIT_T0 + days[order][1] * hour,
		                           KIT_T0 + days[order][2] * hour};
		struct store_load l = {
		    .spent = on_spent, .day_us = since[0], .week_us = since[1], .month_us = since[2], .arg = got};

		memset(got, 0, sizeof(got));
		memset(want, 0, sizeof(want));
		for (int i = 0; i < 200; i++)
			for (int s = 0; s < 3; s++)
				want[p[i].account][s] += part(&p[i], since[s]);
		if (store_load(k.store, &l, &e) < 0)
			tap_bail("%s", e.text);
		off = 0;
		for (int i = 0; i < 12; i++)
			off = fmax(off, fabs(got[i / 3][i % 3] - want[i / 3][i % 3]));
		ok(off <= 1.5, "spent since %u, %u and %u h: each account's sum, to a millionth (%.1f)",
		   days[order][0], days[order][1], days[order][2], off);
	}
	kit_close(&k);
}

/* ---- how many ended how, members, the greatest numbers
 * ------------------------------------------------------ */

static int on_ended(const char *status, uint64_t n, void *arg)
{
	(void)arg;
	return say("%s %" PRIu64 "\n", status, n);
}

static int on_member(const struct member_row *r, void *arg)
{
	(void)arg;
	return say("%" PRIu64 " of %" PRIu64 " %s %d %s %" PRIu64 "\n", r->id, r->array, r->status, r->halved,
	           r->rungs ? r->rungs : "-", r->started_us);
}

static void put_job(struct store_txn *t, uint64_t id, const char *status, uint64_t array, uint32_t members)
{
	struct job_row r = kit_job(id);

	r.status = C(status);
	r.array = array;
	r.members = members;
	r.halved = id % 2;
	r.rungs = id % 3 ? C("0.5 nan") : NULL;
	r.started_us = id;
	store_txn_job(t, &r);
}

static void test_members(void)
{
	static const char *const ends[] = {"completed", "failed", "stopped", "running", "queued"};
	struct store_txn *t = store_txn_new();
	uint64_t job = 0, event = 0, node = 0;
	struct err e;
	struct kit k;

	kit_open(&k, "members");
	ok(store_max_ids(k.store, &job, &event, &node, &e) == 0 && !job && !event && !node,
	   "an empty store has given no number");
	put_job(t, 1, "running", 0, 5); /* 2 to 6 */
	for (uint64_t i = 0; i < 5; i++)
		put_job(t, 2 + i, ends[i], 1, 0);
	put_job(t, 7, "completed", 0, 2); /* ended: its members are none of a start's */
	put_job(t, 8, "completed", 7, 0);
	put_job(t, 9, "failed", 7, 0);
	put_job(t, 10, "queued", 0, 3); /* 11 to 13; only one is made */
	put_job(t, 11, "failed", 10, 0);
	put_job(t, 14, "stopped", 0, 0);
	put_job(t, 15, "running", 0, 0);
	commit(&k, t);
	is_str(load(&k, (struct store_load){.member = on_member}),
	       "2 of 1 completed 0 0.5 nan 2\n3 of 1 failed 1 - 3\n4 of 1 stopped 0 0.5 nan 4\n11 of 10 failed 1 "
	       "0.5 nan 11\n",
	       "members that have ended, of arrays that have not");
	is_str(load(&k, (struct store_load){.ended = on_ended}), "completed 2\nfailed 3\nstopped 2\n",
	       "how many ended so; the array is not counted");
	ok(store_max_ids(k.store, &job, &event, &node, &e) == 0 && job == 15, "the greatest number");
	/* Numbers of members that were never made are given, too: 17 to 26. */
	t = store_txn_new();
	put_job(t, 16, "stopped", 0, 10);
	put_job(t, 17, "stopped", 16, 0);
	commit(&k, t);
	ok(store_max_ids(k.store, &job, &event, &node, &e) == 0 && job == 26,
	   "numbers of members that were never made, of an array that has ended, are not given again (%" PRIu64
	   ")",
	   job);
	kit_close(&k);
}

/* ---- a day of keys and answers
 * -------------------------------------------------------------------------------- */

static int on_idem(const char *key, const char *digest, uint64_t job, void *arg)
{
	(void)arg;
	return say("%s=%s:%" PRIu64 " ", key, digest, job);
}

static int on_answer(const struct answer_row *r, void *arg)
{
	(void)arg;
	return say("%s %s %u %s %llu\n", r->key, r->digest, r->status, r->body, r->at_us - KIT_T0);
}

static void test_day(void)
{
	static const struct {
		uint64_t made;
		const char *key, *digest;
	} jobs[] = {{KIT_T0 - 2, "old", "d"}, {KIT_T0 - 1, "justtoo", "d"}, {KIT_T0, "k0", "d0"},
	            {KIT_T0 + 1, NULL, NULL}, {KIT_T0 + 2, "k2", NULL},     {KIT_T0 + IDEM_KEPT_US, "k3", "d3"}};
	struct store_txn *t = store_txn_new();
	struct kit k;

	open_at(&k, "day", KIT_T0 + IDEM_KEPT_US);
	for (uint64_t i = 0; i < 6; i++) {
		struct job_row r = kit_job(i + 1);

		r.created_us = jobs[i].made;
		r.idem_key = C(jobs[i].key);
		r.idem_digest = C(jobs[i].digest);
		r.status = C("completed");
		store_txn_job(t, &r);
	}
	store_txn_answer(t, &(struct answer_row){"u:a", "da", 201, "{}", KIT_T0});
	store_txn_answer(t, &(struct answer_row){"u:b", "db", 409, "{\"x\":1}", KIT_T0 + 5});
	store_txn_answer(t,
	                 &(struct answer_row){"u:a", "da2", 200, "[]", KIT_T0 + 6}); /* again: goes to the end */
	store_txn_answer(t,
	                 &(struct answer_row){"u:0", "d", 200, "0", IDEM_KEPT_US}); /* of the first day of all */
	commit(&k, t);
	is_str(load(&k, (struct store_load){.idem = on_idem}), "k0=d0:3 k2=:5 k3=d3:6 ",
	       "keys of jobs, to the microsecond of a day ago");
	is_str(load(&k, (struct store_load){.answer = on_answer}), "u:b db 409 {\"x\":1} 5\nu:a da2 200 [] 6\n",
	       "answers, oldest first");
	is_int(kit_number(k.path, "SELECT count(*) FROM answer"), 3, "one row a key");
	clock_fake_advance(&clock_now, 6);
	is_str(load(&k, (struct store_load){.answer = on_answer, .idem = on_idem}), "k3=d3:6 u:a da2 200 [] 6\n",
	       "a little later fewer are left");
	t = store_txn_new();
	store_txn_answer(t, &(struct answer_row){"u:c", "dc", 200, "{}", KIT_T0 + IDEM_KEPT_US + 6});
	commit(&k, t);
	is_int(kit_number(k.path, "SELECT count(*) FROM answer"), 2,
	       "each new answer takes those with it that are too old");
	clock_fake_init(&clock_now, 5, 1);
	like(load(&k, (struct store_load){.answer = on_answer}), "u:a da2",
	     "a clock before the first day: all that is there");
	kit_close(&k);
}

/* ---- a callback that wants no more
 * ------------------------------------------------------------------------------ */

static int no_more;
#define STOPS(name, type)                                                                                    \
	static int name(type r, void *arg)                                                                       \
	{                                                                                                        \
		(void)r, (void)arg;                                                                                  \
		no_more++;                                                                                           \
		return -1;                                                                                           \
	}
STOPS(no_job, const struct job_row *)
STOPS(no_attempt, const struct attempt_row *)
STOPS(no_rank, const struct rank_row *)
STOPS(no_node, const struct node_row *)
STOPS(no_token, const struct token_row *)
STOPS(no_answer, const struct answer_row *)
STOPS(no_queue, const struct queue_row *)
STOPS(no_usage, const struct usage_row *)
STOPS(no_reservation, const struct reservation_row *)
STOPS(no_budget, const struct budget_row *)
STOPS(no_spent, const struct spent_row *)
STOPS(no_member, const struct member_row *)

static void fill(struct store_txn *t)
{
	for (uint64_t i = 1; i <= 2; i++) {
		char name[4] = {'n', (char)('0' + i), '\0'};
		struct node_row n = {.id = i, .name = name, .state = C("up")};
		struct token_row token = {.id = name, .kind = C("job"), .secret_hash = C("h")};

		put_job(t, 10 * i, "running", 0, 2);
		put_job(t, 10 * i + 1, "failed", 10 * i, 0);
		store_txn_attempt(t, &(struct attempt_row){.job = 10 * i,
		                                           .number = 1,
		                                           .state = C("x"),
		                                           .ended_us = 9,
		                                           .price_uusd = 5,
		                                           .account = name});
		store_txn_rank(t, &(struct rank_row){.job = 10 * i, .attempt = 1, .state = C("x")});
		store_txn_node(t, &n);
		store_txn_token(t, &token);
		store_txn_answer(t, &(struct answer_row){name, "d", 200, "{}", KIT_T0});
		store_txn_queue(t, &(struct queue_row){.path = name});
		store_txn_usage(t, &(struct usage_row){.path = name});
		store_txn_reservation(t, &(struct reservation_row){name, "", "", "", "", "", 0, 0, 0});
		store_txn_budget(t, &(struct budget_row){name, 1, "day", "hold"});
	}
}

static void test_stops(void)
{
	const struct store_load l[] = {
	    {.job = no_job},       {.attempt = no_attempt},         {.rank = no_rank},     {.node = no_node},
	    {.token = no_token},   {.answer = no_answer},           {.queue = no_queue},   {.usage = no_usage},
	    {.member = no_member}, {.reservation = no_reservation}, {.budget = no_budget}, {.spent = no_spent}};
	struct store_txn *t = store_txn_new();
	struct kit k;

	open_at(&k, "stops", KIT_T0);
	fill(t);
	commit(&k, t);
	for (size_t i = 0; i < sizeof(l) / sizeof(l[0]); i++) {
		no_more = 0;
		is_str(load(&k, l[i]), "loading was stopped", "a callback that wants no more");
		is_int(no_more, 1, "is not called again");
	}
	kit_close(&k);
}

/* How SQLite goes about it: the ranks of the many jobs that have ended are not read. */
static void test_plan(void)
{
	struct kit k;
	char *text;

	kit_open(&k, "plan");
	text = kit_plan(k.path, load_ranks_statement());
	ok(strstr(text, "SEARCH rank USING PRIMARY KEY (job=? AND attempt=?)"), "each attempt's ranks: %s", text);
	ok(strstr(text, "SCAN job USING INDEX job_active"), "of the unfinished jobs by their index");
	ok(!strstr(text, "SCAN rank") && !strstr(text, "SCAN a;") && !strstr(text, "SCAN job;"),
	   "no table is read through");
	free(text);
	kit_close(&k);
}

int main(void)
{
	test_sets();
	test_settings();
	test_spent();
	test_members();
	test_day();
	test_stops();
	test_plan();
	return tap_done();
}
