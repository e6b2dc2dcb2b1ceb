/* costs, retention and the scheduler's record against slow and obvious models. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/rows.h"
#include "store/read/q_cost.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/read/retain.h"
#include "store/write/txn.h"
#include "tests/lib/tap.h"
#include "tests/unit/store/storekit.h"

#define HOUR 3600000000ull

static void commit(struct kit *k, struct store_txn *t)
{
	struct err e;

	if (kit_commit(k, t, &e) < 0)
		tap_bail("%s", e.text);
}

/* ---- costs ------------------------------------------------------------------------------------------------
 */

#define ATTEMPTS 300

struct paid {
	uint64_t job, price, from, to;
	const char *account;
};
static struct paid paid[ATTEMPTS];
/* A name that begins as another one, a user without a queue, a queue without a user, nothing. */
static const char *const accounts[] = {"a/@x",  "a/b/@x", "a/b/@y",   "ab/@x", "@x",
                                       "plain", "",       "a/b/c/@z", NULL};
static const char *const queues[] = {"a", "a/b", "ab", "b", "", NULL};
static const char *const users[] = {"x", "y", "nobody", "", NULL};

static void fill_costs(struct kit *k)
{
	struct store_txn *t = store_txn_new();

	for (uint64_t i = 0; i < ATTEMPTS; i++) {
		struct paid *p = &paid[i];

		*p = (struct paid){1 + i / 3, kit_random(4) * 750001, KIT_T0 + kit_random(50) * HOUR, 0,
		                   kit_pick(accounts)};
		p->to = kit_random(4) ? p->from + kit_random(30) * HOUR + kit_random(1000000) : 0;
		store_txn_attempt(t, &(struct attempt_row){.job = p->job,
		                                           .number = (uint32_t)(i % 3 + 1),
		                                           .state = C("x"),
		                                           .started_us = p->from,
		                                           .ended_us = p->to,
		                                           .price_uusd = p->price,
		                                           .account = C(p->account)});
	}
	commit(k, t);
}

static int counts(const struct paid *p, const struct cost_filter *f)
{
	const char *at = strrchr(p->account, '@');
	size_t n = f->queue ? strlen(f->queue) : 0;

	if (!p->price || (p->to && p->to <= f->from_us) || p->from >= f->to_us || (f->job && p->job != f->job))
		return 0;
	if (f->owner && (!at || strcmp(at + 1, f->owner) != 0))
		return 0;
	return !f->queue || (strncmp(p->account, f->queue, n) == 0 && p->account[n] == '/');
}

static void name_of(const struct paid *p, enum cost_by by, char out[64])
{
	const char *at = strrchr(p->account, '@');

	if (by == COST_BY_JOB)
		snprintf(out, 64, "%" PRIu64, p->job);
	else if (by == COST_BY_USER)
		snprintf(out, 64, "%s", at ? at + 1 : p->account);
	else
		snprintf(out, 64, "%.*s", at && at > p->account ? (int)(at - p->account) - 1 : 63, p->account);
}

struct cost {
	double uusd, us;
	int attempts, running, jobs;
};

/* All that counts under that name. */
static struct cost cost_of(const struct cost_filter *f, const char *name)
{
	struct cost c = {0};
	uint64_t last = 0;
	char own[64];

	for (size_t i = 0; i < ATTEMPTS; i++) {
		const struct paid *p = &paid[i];
		uint64_t from = p->from > f->from_us ? p->from : f->from_us,
		         to = p->to && p->to < f->to_us ? p->to : f->to_us;

		name_of(p, f->by, own);
		if (!counts(p, f) || (name && strcmp(own, name) != 0))
			continue;
		c.us += to > from ? (double)(to - from) : 0;
		c.uusd += to > from ? (double)p->price * (double)(to - from) / 3.6e9 : 0;
		c.running += !p->to;
		c.attempts++;
		c.jobs += last != p->job;
		last = p->job;
	}
	return c;
}

/* How many names there are. */
static int names(const struct cost_filter *f)
{
	char own[64], other[64];
	int n = 0;

	for (size_t i = 0; i < ATTEMPTS; i++) {
		int first = counts(&paid[i], f);

		name_of(&paid[i], f->by, own);
		for (size_t k = 0; k < i && first; k++) {
			name_of(&paid[k], f->by, other);
			first = !counts(&paid[k], f) || strcmp(own, other) != 0;
		}
		n += first;
	}
	return n;
}

static int bad_cost(struct store_reader *r, struct cost_filter f)
{
	struct err e;
	cJSON *j = store_cost_json(r, &f, &e);
	const cJSON *row;
	double last = INFINITY;
	int bad = !j, n, rows = 0, limit = f.limit > 1000 ? 1000 : f.limit ? (int)f.limit : 100;

	if (!f.to_us || f.to_us > f.now_us)
		f.to_us = f.now_us;
	cJSON_ArrayForEach (row, kit_at(j, "rows")) {
		struct cost c = cost_of(&f, kit_str(row, "name"));

		bad += !c.attempts || fabs(kit_num(row, "usd") - c.uusd / 1e6) > 1e-6 ||
		       kit_num(row, "attempts") != c.attempts || kit_num(row, "running") != c.running ||
		       kit_num(row, "jobs") != c.jobs || fabs(kit_num(row, "hours") - c.us / (double)HOUR) > 1e-3 ||
		       kit_num(row, "usd") > last;
		last = kit_num(row, "usd");
		rows++;
	}
	n = names(&f);
	bad += rows != (n < limit ? n : limit) || kit_num(j, "more") != n - rows;
	bad += fabs(kit_num(j, "total_usd") - cost_of(&f, NULL).uusd / 1e6) > 1e-6;
	cJSON_Delete(j);
	return bad;
}

static void test_costs(void)
{
	struct store_reader *r;
	int bad = 0, asked = 0;
	struct kit k;

	kit_seed("costs");
	kit_open(&k, "costs");
	fill_costs(&k);
	r = kit_reader(&k);
	for (; asked < 600 && !bad; asked++) {
		struct cost_filter f = {.by = (enum cost_by)kit_random(3), .now_us = KIT_T0 + kit_random(100) * HOUR};

		f.queue = kit_random(3) ? NULL : kit_pick(queues);
		f.owner = kit_random(3) ? NULL : kit_pick(users);
		f.job = kit_random(4) ? 0 : 1 + kit_random(ATTEMPTS / 3 + 3);
		f.from_us = kit_random(2) ? 0 : KIT_T0 + kit_random(100) * HOUR;
		f.to_us = kit_random(2) ? 0 : KIT_T0 + kit_random(100) * HOUR;
		f.limit = kit_random(3) ? 0 : kit_random(2) ? 1 + (uint32_t)kit_random(5) : UINT32_MAX;
		bad = bad_cost(r, f);
	}
	ok(!bad, "%d questions what it cost: every name, its sum, the dearest first, what is left out", asked);
	store_reader_close(r);
	kit_close(&k);
}

static double idle_of(struct store_reader *r, struct cost_filter f, int row, const char *name)
{
	struct err e;
	cJSON *j = store_cost_json(r, &f, &e);
	const cJSON *at = cJSON_GetArrayItem(kit_at(j, "rows"), row);
	double usd = at && strcmp(kit_str(at, "name"), name) == 0 ? kit_num(at, "idle_usd") : -1;

	if (fabs(kit_num(j, "total_usd")) > 1e-9)
		usd = -2; /* no attempt ran */
	cJSON_Delete(j);
	return usd;
}

/* Idle time of warm pools: one that has ended and cost 6 dollars in three hours, and one that waits since T0
 * at 2 dollars an hour, after 1 dollar. */
static void test_idle_costs(void)
{
	struct store_txn *t = store_txn_new();
	struct store_reader *r;
	struct kit k;

	kit_open(&k, "idle");
	store_txn_pool_job(t, &(struct pool_job_row){.job = 1,
	                                             .pool = 2,
	                                             .status = C("terminated"),
	                                             .left_us = KIT_T0,
	                                             .until_us = KIT_T0 + 3 * HOUR,
	                                             .account = C("a/@x"),
	                                             .idle_uusd = 6000000});
	store_txn_pool_job(t, &(struct pool_job_row){.job = 3,
	                                             .pool = 4,
	                                             .status = C("available"),
	                                             .left_us = KIT_T0,
	                                             .account = C("b/@x"),
	                                             .price_uusd = 2000000,
	                                             .since_us = KIT_T0,
	                                             .idle_uusd = 1000000});
	commit(&k, t);
	r = kit_reader(&k);
	struct cost_filter f = {.by = COST_BY_QUEUE, .now_us = KIT_T0 + 4 * HOUR};
	ok(fabs(idle_of(r, f, 0, "b") - 9) < 1e-6, "a pool that waits costs until now");
	ok(fabs(idle_of(r, f, 1, "a") - 6) < 1e-6, "one that has ended costs its sum");
	f.by = COST_BY_USER;
	ok(fabs(idle_of(r, f, 0, "x") - 15) < 1e-6, "a user pays for both");
	f.by = COST_BY_JOB;
	f.job = 1;
	ok(fabs(idle_of(r, f, 0, "1") - 6) < 1e-6, "a job pays for its own");
	f.job = 0;
	f.by = COST_BY_QUEUE;
	f.to_us = KIT_T0 + HOUR;
	ok(fabs(idle_of(r, f, 1, "a") - 2) < 1e-6, "the part in a span is even");
	f.from_us = KIT_T0 + 3 * HOUR;
	f.to_us = 0;
	ok(fabs(idle_of(r, f, 0, "b") - 2.25) < 1e-6, "also of one that waits; others are left out");
	f.owner = "y";
	ok(idle_of(r, f, 0, "b") == -1, "another user pays nothing");
	store_reader_close(r);
	kit_close(&k);
}

/* How SQLite goes about it: with many jobs the statement of all reads the index alone, that of one job only
 * its own attempts. */
static void test_plans(void)
{
	struct plan {
		uint64_t job;
		const char *want, *what;
	} plans[] = {
	    {0, "USING COVERING INDEX attempt_priced", "what all cost: the index of priced attempts alone"},
	    {3, "SEARCH attempt USING PRIMARY KEY (job=?)", "what one job cost: its attempts"},
	};
	struct kit k;

	kit_open(&k, "plans");
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		char *text = kit_plan(k.path, cost_statement(plans[i].job));

		ok(strstr(text, plans[i].want), "%s: %s", plans[i].what, text);
		ok(!strstr(text, "SCAN attempt;") && !strstr(text, "SCAN job;"), "no table is read through");
		free(text);
	}
	kit_close(&k);
}

/* ---- retention --------------------------------------------------------------------------------------------
 */

#define JOBS 60

static struct kept {
	const char *status;
	uint64_t ended_s; /* after KIT_T0 */
	unsigned dropped;
	int pinned, deleted;
} kept[JOBS];
static uint64_t next_event = 1;
static const char *const statuses[] = {"running", "queued", "completed", "failed", "stopped", NULL};

static int ended(const struct kept *j)
{
	return j->status[0] == 'c' || j->status[0] == 'f' || strcmp(j->status, "stopped") == 0;
}

static void put_kept(struct store_txn *t, size_t i)
{
	struct event_row ev = kit_event(next_event++, i + 1, C("x"));
	struct job_row r = kit_job(i + 1);

	r.status = C(kept[i].status);
	r.ended_us = ended(&kept[i]) ? KIT_T0 + kept[i].ended_s * 1000000 : 0;
	r.pinned = (uint8_t)kept[i].pinned;
	r.deleted = (uint8_t)kept[i].deleted;
	store_txn_event(t, &ev);
	store_txn_job(t, &r);
}

static void change_kept(struct kit *k)
{
	struct store_txn *t = store_txn_new();
	size_t i = kit_random(JOBS);
	unsigned what = (unsigned)kit_random(16);

	switch (kit_random(4)) {
	case 0: /* by rm, whatever it is */
		store_txn_drop(t, i + 1, what, KIT_T0);
		kept[i].dropped |= what;
		break;
	case 1:
		store_txn_retire(t, i + 1, what, KIT_T0);
		if (!kept[i].pinned && !kept[i].deleted && kept[i].status[0] != '-')
			kept[i].dropped |= what;
		break;
	default:
		kept[i] = (struct kept){kit_pick(statuses), kit_random(50), kept[i].dropped, kit_random(5) == 0,
		                        kit_random(9) == 0};
		put_kept(t, i);
	}
	commit(k, t);
}

static unsigned due_of(const struct kept *j, const struct store_retention *p, uint64_t now_s)
{
	const uint64_t limits[] = {p->logs_s, p->bundles_s, p->metrics_s, p->artifacts_s};
	unsigned what = 0;

	for (int i = 0; i < 4; i++)
		if (ended(j) && !j->pinned && limits[i] && now_s >= j->ended_s + limits[i])
			what |= 1u << i;
	return what & ~j->dropped;
}

struct due {
	uint64_t job[JOBS];
	unsigned what[JOBS];
	int n, stop_at;
};

static int on_due(uint64_t job, unsigned what, void *arg)
{
	struct due *d = arg;

	d->job[d->n] = job;
	d->what[d->n++] = what;
	return d->n == d->stop_at ? -1 : 0;
}

/* Oldest first, each with what is due, no more than asked for. */
static int bad_due(struct store_reader *r, const struct store_retention *p, uint64_t now_s, uint32_t limit)
{
	struct due d = {.stop_at = kit_random(4) ? 0 : 1 + (int)kit_random(3)};
	uint64_t before = 0;
	struct err e;
	int n = store_retention_due(r, p, KIT_T0 + now_s * 1000000, limit, on_due, &d, &e), want = 0,
	    bad = n != d.n;

	for (size_t i = 0; i < JOBS; i++)
		want += due_of(&kept[i], p, now_s) != 0;
	want = want < (int)limit ? want : (int)limit;
	want = d.stop_at && want > d.stop_at ? d.stop_at : want;
	for (int i = 0; i < d.n; i++) {
		const struct kept *j = &kept[d.job[i] - 1];
		uint64_t at = j->ended_s * 1000 + d.job[i];

		bad += d.what[i] != due_of(j, p, now_s) || at <= before;
		before = at;
	}
	/* None that is older is missing. */
	for (size_t i = 0; d.n && i < JOBS; i++)
		if (due_of(&kept[i], p, now_s) && kept[i].ended_s * 1000 + i + 1 < before) {
			int there = 0;

			for (int k = 0; k < d.n; k++)
				there |= d.job[k] == i + 1;
			bad += !there;
		}
	return bad + (n != want);
}

static void test_retention(void)
{
	static const uint64_t ages[] = {0, 1, 10, 30, UINT64_MAX / 2000000};
	struct store_reader *r;
	struct store_txn *t = store_txn_new();
	int bad = 0, wrong = 0, asked = 0;
	struct err e;
	struct kit k;

	kit_seed("retention");
	kit_open(&k, "retention");
	for (size_t i = 0; i < JOBS; i++) {
		kept[i] = (struct kept){kit_pick(statuses), kit_random(50), 0, kit_random(5) == 0, 0};
		put_kept(t, i);
	}
	commit(&k, t);
	r = kit_reader(&k);
	for (int round = 0; round < 25; round++) {
		for (uint64_t n = kit_random(10); n > 0; n--)
			change_kept(&k);
		kit_wait_projected(&k);
		for (int i = 0; i < 20; i++, asked++) {
			const struct store_retention p = {ages[kit_random(5)], ages[kit_random(5)], ages[kit_random(5)],
			                                  ages[kit_random(5)]};

			bad += bad_due(r, &p, kit_random(100), (uint32_t)kit_random(JOBS));
		}
		for (size_t i = 0; i < JOBS; i++)
			wrong += store_dropped(r, i + 1, &e) != (int)kept[i].dropped;
	}
	ok(!bad, "%d times what is due: oldest first, what is past its time and there, nothing of pinned ones",
	   asked);
	ok(!wrong, "what was taken is on record");
	is_int(store_dropped(r, 999, &e), 0, "of a job that there is not nothing was");
	store_reader_close(r);
	kit_close(&k);
}

/* ---- the scheduler's record
 * --------------------------------------------------------------------------------- */

#define LINES 200

static struct line {
	char text[40];
	uint64_t part;
} record[LINES];
static size_t n_lines, first_line; /* those before it are gone */

static size_t bytes_from(size_t first)
{
	size_t n = 0;

	for (size_t i = first; i < n_lines; i++)
		n += strlen(record[i].text);
	return n;
}

static void add_lines(struct kit *k)
{
	struct store_txn *t = store_txn_new();
	uint64_t keep;

	for (uint64_t n = 1 + kit_random(5); n > 0 && n_lines < LINES; n--) {
		int begins = kit_random(6) == 0;
		struct line *l = &record[n_lines];

		l->part = !n_lines ? 1 : record[n_lines - 1].part + (begins ? 1 : 0);
		snprintf(l->text, sizeof(l->text), "%zu %s\n", n_lines, kit_word());
		store_txn_history(t, begins, KIT_T0 + n_lines, l->text, strlen(l->text));
		n_lines++;
	}
	keep = kit_random(2) ? kit_random(3000) : bytes_from(first_line + kit_random(n_lines - first_line));
	if (kit_random(3) == 0) {
		store_txn_history_old(t, keep);
		/* whole parts, the oldest first, but never the last */
		while (bytes_from(first_line) > keep && record[first_line].part != record[n_lines - 1].part)
			for (uint64_t p = record[first_line].part; record[first_line].part == p; first_line++)
				continue;
	}
	commit(k, t);
}

/* All lines of one part, by pages. */
static int bad_part(struct store_reader *r, uint64_t part, size_t most)
{
	size_t i = first_line;
	uint64_t after = 0;
	struct err e;

	while (i < n_lines && record[i].part < part)
		i++;
	for (int page = 0; page <= LINES; page++) {
		cJSON *j = store_history_lines(r, part, after, most, &e);
		const cJSON *v;
		size_t bytes = 0;
		int bad = kit_num(j, "part") != (double)part;

		cJSON_ArrayForEach (v, kit_at(j, "texts")) {
			bad += bytes >= most || i >= n_lines || record[i].part != part ||
			       strcmp(v->valuestring, record[i].text) != 0;
			bytes += strlen(v->valuestring);
			i++;
		}
		after = (uint64_t)kit_num(j, "next");
		bad += cJSON_IsNull(kit_at(j, "next")) != !(i < n_lines && record[i].part == part);
		if (bad || cJSON_IsNull(kit_at(j, "next"))) {
			cJSON_Delete(j);
			return bad;
		}
		cJSON_Delete(j);
	}
	return 1;
}

static int bad_parts(struct store_reader *r)
{
	struct err e;
	cJSON *j = store_history_parts(r, &e);
	const cJSON *p;
	size_t i = first_line;
	int bad = !j;

	cJSON_ArrayForEach (p, kit_at(j, "parts")) {
		size_t bytes = 0, first = i;

		for (; i < n_lines && record[i].part == record[first].part; i++)
			bytes += strlen(record[i].text);
		bad += i == first || kit_num(p, "part") != (double)record[first].part ||
		       kit_num(p, "bytes") != (double)bytes || !kit_str(p, "began_at") ||
		       strcmp(kit_str(p, "began_at"), kit_str(p, "written_at")) > 0;
		bad += bad_part(r, record[first].part, 1 + kit_random(100));
	}
	cJSON_Delete(j);
	return bad + (i != n_lines) + bad_part(r, 0, 100) + bad_part(r, 9999, 100);
}

static void test_history(void)
{
	struct store_reader *r;
	int bad = 0;
	struct kit k;

	kit_seed("history");
	kit_open(&k, "history");
	r = kit_reader(&k);
	while (n_lines < LINES) {
		add_lines(&k);
		bad += bad_parts(r);
	}
	ok(!bad && first_line > 0,
	   "the record: parts, their lines by pages; the oldest parts went (%zu of %d lines)", first_line, LINES);
	store_reader_close(r);
	kit_close(&k);
}

int main(void)
{
	test_costs();
	test_idle_costs();
	test_plans();
	test_retention();
	test_history();
	return tap_done();
}
