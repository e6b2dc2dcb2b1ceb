/*
 * q_cost: what attempts cost in a span of time, by queue, user or job.
 *
 * An attempt costs its price from its beginning until its nodes are given back; if it reaches over an
 * edge of the span, its part inside counts. Queue and user are those at the attempt's beginning. An array or
 * a sweep costs what its members cost. The question is one pass over the index of priced attempts, or over
 * the attempts of one job; the sums are made here.
 *
 * Idle time of warm pools is a sum of its own, for the account of the job that left the pool. It is spread
 * evenly over the time for which the pool waited, because the store has only its sum.
 */
#include "store/read/q_cost.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"

struct sum {
	char *name;
	double uusd, us, idle_uusd;
	uint64_t attempts, jobs, running, last_job;
	UT_hash_handle hh;
};

/* Returns the wanted part of "queue/@user", malloc'ed. */
static char *name_of(enum cost_by by, const char *account, uint64_t job)
{
	const char *at = strrchr(account, '@');

	if (by == COST_BY_JOB)
		return xasprintf("%" PRIu64, job);
	if (by == COST_BY_USER)
		return xstrdup(at ? at + 1 : account);
	return at && at > account ? xstrndup(account, (size_t)(at - account) - 1) : xstrdup(account);
}

/* Is "queue/@user" of that user, and in that queue or below it? */
static int account_wanted(const struct cost_filter *f, const char *account)
{
	const char *at = strrchr(account, '@');
	size_t n = f->queue ? strlen(f->queue) : 0;

	if (f->owner && (!at || strcmp(at + 1, f->owner) != 0))
		return 0;
	return !f->queue || (strncmp(account, f->queue, n) == 0 && account[n] == '/');
}

static struct sum *sum_of(struct sum **all, const struct cost_filter *f, const char *account, uint64_t job)
{
	char *name = name_of(f->by, account, job);
	struct sum *s;

	HASH_FIND_STR(*all, name, s);
	if (!s) {
		s = xcalloc(1, sizeof(*s));
		s->name = xstrdup(name);
		HASH_ADD_KEYPTR(hh, *all, s->name, strlen(s->name), s);
	}
	free(name);
	return s;
}

static void add_cost(struct sum **all, const struct cost_filter *f, sqlite3_stmt *st)
{
	uint64_t job = sqlh_u64(st, 0), price = sqlh_u64(st, 2), from = sqlh_u64(st, 3), to = sqlh_u64(st, 4);
	const char *account = sqlh_str(st, 1) ? sqlh_str(st, 1) : "";
	struct sum *s;

	if (!account_wanted(f, account))
		return;
	s = sum_of(all, f, account, job);
	s->running += !to;
	if (!to || to > f->to_us)
		to = f->to_us;
	if (from < f->from_us)
		from = f->from_us;
	s->uusd += to > from ? (double)price * (double)(to - from) / 3.6e9 : 0;
	s->us += to > from ? (double)(to - from) : 0;
	s->attempts++;
	s->jobs += s->last_job != job; /* rows come by job */
	s->last_job = job;
}

/* Adds what a job left in a warm pool. */
static void add_idle(struct sum **all, const struct cost_filter *f, sqlite3_stmt *st)
{
	uint64_t job = sqlh_u64(st, 0), price = sqlh_u64(st, 2), since = sqlh_u64(st, 3), left = sqlh_u64(st, 5),
	         until = sqlh_u64(st, 6), end = until ? until : f->now_us, from, to;
	const char *account = sqlh_str(st, 1) ? sqlh_str(st, 1) : "";
	double uusd = (double)sqlh_u64(st, 4);

	if (!account_wanted(f, account) || end <= left)
		return;
	if (!until && end > since)
		uusd += (double)price * (double)(end - since) / 3.6e9;
	from = left > f->from_us ? left : f->from_us;
	to = end < f->to_us ? end : f->to_us;
	if (to > from)
		sum_of(all, f, account, job)->idle_uusd += uusd * (double)(to - from) / (double)(end - left);
}

static int dearest_first(const struct sum *a, const struct sum *b)
{
	double x = a->uusd + a->idle_uusd, y = b->uusd + b->idle_uusd;

	return x > y ? -1 : x < y ? 1 : strcmp(a->name, b->name);
}

static double usd_of(double uusd)
{
	return round(uusd) / 1e6;
}

/* Adds the number of a job and its names; a removed job has its number alone. */
static int add_job(struct store_reader *r, cJSON *o, const char *id, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, "SELECT id, array FROM job WHERE id = ?", e);
	char ref[48];
	int rc;

	if (!st)
		return -1;
	snprintf(ref, sizeof(ref), "%s", id);
	sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
	rc = sqlh_step(st, e);
	if (rc > 0) {
		uint64_t job = sqlh_u64(st, 0), array = sqlh_u64(st, 1);

		json_add_u64(o, "job", job);
		if (array)
			snprintf(ref, sizeof(ref), "%" PRIu64 ".%" PRIu64, array, job - array - 1);
	}
	sqlite3_finalize(st);
	json_add_str(o, "name", ref);
	return rc < 0 ? -1 : 0;
}

static int add_row(struct store_reader *r, cJSON *rows, const struct sum *s, enum cost_by by, struct err *e)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(rows, row);
	if (by != COST_BY_JOB)
		json_add_str(row, "name", s->name);
	else if (add_job(r, row, s->name, e) < 0)
		return -1;
	cJSON_AddNumberToObject(row, "usd", usd_of(s->uusd));
	cJSON_AddNumberToObject(row, "idle_usd", usd_of(s->idle_uusd));
	json_add_u64(row, "jobs", s->jobs);
	json_add_u64(row, "attempts", s->attempts);
	json_add_u64(row, "running", s->running);
	cJSON_AddNumberToObject(row, "hours", round(s->us / 3.6e4) / 1e5);
	return 0;
}

/* The sums go; NULL: a job could not be read. */
static cJSON *sums_json(struct store_reader *r, struct sum *all, const struct cost_filter *f, struct err *e)
{
	static const char *const by[] = {"queue", "user", "job"};
	uint32_t limit = f->limit > 1000 ? 1000 : f->limit ? f->limit : 100, n = 0;
	cJSON *o = cJSON_CreateObject(), *rows;
	struct sum *s, *tmp;
	double total = 0, idle = 0;
	int rc = 0;

	HASH_SORT(all, dearest_first);
	json_add_str(o, "by", by[f->by]);
	json_add_time(o, "from", f->from_us);
	json_add_time(o, "to", f->to_us);
	rows = cJSON_AddArrayToObject(o, "rows");
	HASH_ITER (hh, all, s, tmp) {
		total += s->uusd;
		idle += s->idle_uusd;
		if (n++ < limit && rc == 0)
			rc = add_row(r, rows, s, f->by, e);
		HASH_DELETE(hh, all, s);
		free(s->name);
		free(s);
	}
	cJSON_AddNumberToObject(o, "total_usd", usd_of(total));
	cJSON_AddNumberToObject(o, "total_idle_usd", usd_of(idle));
	json_add_u64(o, "more", n > limit ? n - limit : 0);
	if (rc == 0)
		return o;
	cJSON_Delete(o);
	return NULL;
}

/* All: the index of priced attempts holds each of these columns, so no attempt itself is read; to have them
 * by job they are sorted. Without the name of the index SQLite goes through all attempts, which lie by job.
 */
#define PRICED  "SELECT job, account, price_uusd, started_us, ended_us FROM attempt "
#define IN_SPAN "price_uusd > 0 AND (ended_us = 0 OR ended_us > ?1) AND started_us < ?2 "
static const char of_all[] = PRICED "INDEXED BY attempt_priced WHERE " IN_SPAN "ORDER BY job";
/* One job, or the members of an array: by their ids. */
static const char of_job[] = PRICED "WHERE " IN_SPAN "AND job IN (SELECT ?3 UNION SELECT id FROM job WHERE "
                                    "array = ?3 AND array > 0) ORDER BY job";

const char *cost_statement(uint64_t job)
{
	return job ? of_job : of_all;
}

#define IDLE                                                                                                 \
	"SELECT job, account, price_uusd, since_us, idle_uusd, left_us, until_us FROM pool_job WHERE (until_us " \
	"= 0 OR until_us > ?1) AND left_us < ?2 AND price_uusd + idle_uusd > 0 "
static const char idle_of_all[] = IDLE;
static const char idle_of_job[] =
    IDLE "AND job IN (SELECT ?3 UNION SELECT id FROM job WHERE array = ?3 AND array > 0)";

typedef void (*add_fn)(struct sum **all, const struct cost_filter *f, sqlite3_stmt *st);

static int each_cost(struct store_reader *r, const char *sql, const struct cost_filter *f, add_fn add,
                     struct sum **all, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, sql, e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)f->from_us);
	sqlite3_bind_int64(st, 2, (int64_t)f->to_us);
	if (f->job)
		sqlite3_bind_int64(st, 3, (int64_t)f->job);
	while ((rc = sqlh_step(st, e)) > 0)
		add(all, f, st);
	sqlite3_finalize(st);
	return rc;
}

cJSON *store_cost_json(struct store_reader *r, const struct cost_filter *asked, struct err *e)
{
	struct cost_filter f = *asked;
	struct sum *all = NULL;
	cJSON *out;
	int rc;

	if (!f.to_us || f.to_us > f.now_us)
		f.to_us = f.now_us;
	rc = each_cost(r, cost_statement(f.job), &f, add_cost, &all, e);
	if (rc == 0)
		rc = each_cost(r, f.job ? idle_of_job : idle_of_all, &f, add_idle, &all, e);
	out = sums_json(r, all, &f, e);
	if (rc < 0) {
		cJSON_Delete(out);
		return NULL;
	}
	return out;
}

static int read_names(struct store_reader *r, const char *sql, struct strv *out, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, sql, e);
	int rc;

	if (!st)
		return -1;
	while ((rc = sqlh_step(st, e)) > 0)
		strv_add(out, sqlh_str(st, 0));
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

int store_queue_names(struct store_reader *r, struct strv *out, struct err *e)
{
	return read_names(r, "SELECT path FROM queue WHERE is_queue AND path NOT GLOB '*@*' ORDER BY path", out,
	                  e);
}

/* Each is found behind the one before it: of a million jobs only as many entries of the index are read as
 * there are owners. */
int store_owner_names(struct store_reader *r, struct strv *out, struct err *e)
{
	return read_names(
	    r,
	    "WITH RECURSIVE o(n) AS (SELECT min(owner) FROM job_ix UNION ALL SELECT (SELECT min(owner) FROM "
	    "job_ix WHERE owner > n) FROM o WHERE n IS NOT NULL) SELECT n FROM o WHERE n <> '' LIMIT 1000",
	    out, e);
}

/* 1: the statement has a row for that name. */
static int has_row(struct store_reader *r, const char *sql, const char *name, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, sql, e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	rc = sqlh_step(st, e);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : rc > 0;
}

/* Has anything ever been spent there? Read from the index, up to the first. */
static int ever_spent(struct store_reader *r, const struct cost_filter *f, struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r, "SELECT account FROM attempt INDEXED BY attempt_priced WHERE price_uusd > 0", e);
	int rc, found = 0;

	if (!st)
		return -1;
	while (!found && (rc = sqlh_step(st, e)) > 0)
		found = account_wanted(f, sqlh_str(st, 0) ? sqlh_str(st, 0) : "");
	sqlite3_finalize(st);
	return found ? 1 : rc;
}

int store_queue_known(struct store_reader *r, const char *queue, struct err *e)
{
	int rc = has_row(r, "SELECT 1 FROM queue WHERE path = ? AND is_queue AND path NOT GLOB '*@*'", queue, e);

	return rc ? rc : ever_spent(r, &(struct cost_filter){.queue = queue}, e);
}

/* Jobs of the last second may not be in the index yet: they are behind the newest there. */
int store_owner_known(struct store_reader *r, const char *owner, struct err *e)
{
	int rc = has_row(r,
	                 "SELECT 1 FROM job_ix WHERE owner = ?1 UNION ALL SELECT 1 FROM job WHERE id > (SELECT "
	                 "ifnull(max(job), 0) FROM job_ix) AND owner = ?1 LIMIT 1",
	                 owner, e);

	return rc ? rc : ever_spent(r, &(struct cost_filter){.owner = owner}, e);
}

int members_cost(struct store_reader *r, const struct job_row *row, double *uusd, double *price,
                 struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r,
	               "SELECT total(price_uusd / 3.6e9 * max(0, CASE ended_us WHEN 0 THEN ?1 ELSE "
	               "ended_us END - started_us)), total(price_uusd * (ended_us = 0)) FROM "
	               "attempt WHERE job IN (SELECT id FROM job WHERE array = ?2 AND array > 0)",
	               e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)clock_real_us(clock_real()));
	sqlite3_bind_int64(st, 2, (int64_t)row->id);
	rc = sqlh_step(st, e);
	if (rc > 0) {
		*uusd = sqlite3_column_double(st, 0);
		*price = sqlite3_column_double(st, 1);
	}
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}
