/*
 * retain: what may go. The projections keep a list of ended jobs that still hold something (holding);
 * retention walks it from the oldest. Pinned jobs are passed over, and stay on the list for the day when they
 * are not pinned any more. What is gone is noted in `dropped`: readers ask there, and do not wait until files
 * and blobs are gone, too.
 */
#include "store/read/retain.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/clock.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/read/reader_int.h"

static unsigned due_of(const struct store_retention *p, uint64_t age_us)
{
	const uint64_t age_s = age_us / 1000000;
	unsigned what = 0;

	if (p->logs_s && age_s >= p->logs_s)
		what |= STORE_LOGS;
	if (p->bundles_s && age_s >= p->bundles_s)
		what |= STORE_BUNDLE;
	if (p->metrics_s && age_s >= p->metrics_s)
		what |= STORE_METRICS;
	if (p->artifacts_s && age_s >= p->artifacts_s)
		what |= STORE_ARTIFACTS;
	return what;
}

static uint64_t least_age_s(const struct store_retention *p)
{
	const uint64_t all[] = {p->logs_s, p->bundles_s, p->metrics_s, p->artifacts_s};
	uint64_t min = 0;

	for (int i = 0; i < 4; i++)
		if (all[i] && (min == 0 || all[i] < min))
			min = all[i];
	return min;
}

static unsigned bits_of_policy(const struct store_retention *p)
{
	return (p->logs_s ? STORE_LOGS : 0u) | (p->bundles_s ? STORE_BUNDLE : 0u) |
	       (p->metrics_s ? STORE_METRICS : 0u) | (p->artifacts_s ? STORE_ARTIFACTS : 0u);
}

int store_retention_due(struct store_reader *r, const struct store_retention *p, uint64_t now_us,
                        uint32_t limit, int (*fn)(uint64_t job, unsigned what, void *arg), void *arg,
                        struct err *e)
{
	uint64_t min_us = least_age_s(p) * 1000000, ended_us;
	sqlite3_stmt *st;
	int rc = 0, n = 0;

	if (min_us == 0 || min_us > now_us)
		return 0;
	st = reader_sql(r,
	                "SELECT h.job, h.what, h.ended_us FROM holding h JOIN job ON job.id = h.job WHERE "
	                "h.ended_us <= ? AND h.ended_us > 0 "
	                "AND h.what & ? <> 0 AND job.pinned = 0 ORDER BY h.ended_us, h.job",
	                e);
	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)(now_us - min_us));
	sqlite3_bind_int64(st, 2, bits_of_policy(p));
	while ((uint32_t)n < limit && (rc = sqlh_step(st, e)) > 0) {
		unsigned what;

		ended_us = sqlh_u64(st, 2);
		what = due_of(p, now_us - ended_us) & (unsigned)sqlh_u32(st, 1);
		if (!what)
			continue;
		n++;
		if (fn(sqlh_u64(st, 0), what, arg) < 0)
			break;
	}
	sqlite3_finalize(st);
	return rc < 0 ? -1 : n;
}

int store_each_digest(struct store_reader *r, int (*fn)(const char *digest, void *arg), void *arg,
                      struct err *e)
{
	sqlite3_stmt *st = reader_sql(r,
	                              "SELECT bundle FROM job WHERE bundle <> '' AND NOT EXISTS (SELECT 1 FROM "
	                              "dropped d WHERE d.job = job.id "
	                              "AND d.what & 2) UNION SELECT digest FROM artifact a WHERE digest <> '' "
	                              "AND NOT EXISTS (SELECT 1 FROM "
	                              "dropped d WHERE d.job = a.job AND d.what & 8)",
	                              e);
	int rc;

	if (!st)
		return -1;
	while ((rc = sqlh_step(st, e)) > 0)
		if (fn(sqlh_str(st, 0), arg) < 0) {
			rc = err_set(e, ERR_INTERNAL, "stopped");
			break;
		}
	sqlite3_finalize(st);
	return rc;
}

/* ---- what is gone --------------------------------------------------------------------------------- */

int store_dropped(struct store_reader *r, uint64_t job, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, "SELECT what FROM dropped WHERE job = ?", e);
	int rc, what = 0;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	rc = sqlh_step(st, e);
	if (rc > 0)
		what = (int)(sqlite3_column_int64(st, 0) & STORE_ALL);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : what;
}

static int say_gone(uint64_t job, const char *name, int by_rm, uint64_t at_us, struct err *e)
{
	const char *were = name[strlen(name) - 1] == 's' ? "were" : "was";
	char at[CLOCK_RFC3339_SIZE];

	if (by_rm)
		return err_set(e, ERR_NOT_FOUND, "the %.64s of job %" PRIu64 " %s removed", name, job, were);
	return err_set(e, ERR_NOT_FOUND, "the %.64s of job %" PRIu64 " %s removed by retention on %.10s", name,
	               job, were, clock_rfc3339(at_us, at));
}

int store_check_kept(struct store_reader *r, uint64_t job, enum store_keep what, const char *name,
                     struct err *e)
{
	static const char *const names[] = {"logs", "code", "metrics", "artifacts"};
	sqlite3_stmt *st = reader_sql(r,
	                              "SELECT job.deleted, d.what, d.logs_us, d.bundle_us, d.metrics_us, "
	                              "d.artifacts_us FROM job LEFT JOIN dropped d ON d.job = job.id "
	                              "WHERE job.id = ?",
	                              e);
	int rc, kind = 0;

	if (!st)
		return -1;
	while (what >> (kind + 1))
		kind++;
	sqlite3_bind_int64(st, 1, (int64_t)(job > INT64_MAX ? 0 : job));
	rc = sqlh_step(st, e);
	if (rc > 0 && (sqlh_u32(st, 0) || sqlite3_column_int64(st, 1) & (int64_t)what))
		rc = say_gone(job, name ? name : names[kind], sqlh_u32(st, 0) != 0, sqlh_u64(st, 2 + kind), e);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}
