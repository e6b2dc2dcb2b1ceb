/*
 * retain: what may go. The projections keep a list of ended jobs that still hold something (holding), without
 * the pinned ones, and for each kind of data an index by the time of the end. So a look costs as much as what
 * is due. A job that was pinned a moment ago may still be in the list: the writer decides (apply.c). What is
 * gone is noted in `dropped`: readers ask there, and do not wait until files and blobs are gone, too.
 */
#include "store/read/retain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/status.h"
#include "store/read/reader_int.h"

/* The terms are those of the indexes, in the same words (migration 19). */
#define DUE(index, bit)                                                                                      \
	"SELECT job, ended_us FROM holding INDEXED BY " index " WHERE what & " bit                               \
	" AND ended_us > 0 AND ended_us <= ? ORDER BY ended_us, job LIMIT ?"

static const char *const due_sql[] = {DUE("holding_logs", "1"), DUE("holding_bundle", "2"),
                                      DUE("holding_metrics", "4"), DUE("holding_artifacts", "8")};

struct due_job {
	uint64_t job, ended_us;
	unsigned what;
};

static int by_end(const void *pa, const void *pb)
{
	const struct due_job *a = pa, *b = pb;

	if (a->ended_us != b->ended_us)
		return a->ended_us < b->ended_us ? -1 : 1;
	return a->job < b->job ? -1 : a->job > b->job;
}

/* Adds at most limit jobs that hold this kind and ended before. Their number, or -1. */
static int64_t add_due(struct store_reader *r, int kind, uint64_t before_us, uint32_t limit,
                       struct due_job *out, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, due_sql[kind], e);
	int64_t n = 0;
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)before_us);
	sqlite3_bind_int64(st, 2, (int64_t)limit);
	while (n < (int64_t)limit && (rc = sqlh_step(st, e)) > 0)
		out[n++] = (struct due_job){sqlh_u64(st, 0), sqlh_u64(st, 1), 1u << kind};
	sqlite3_finalize(st);
	return n < (int64_t)limit && rc < 0 ? -1 : n;
}

/* The same job from several lists becomes one. */
static size_t merge_due(struct due_job *v, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(v, n, sizeof(*v), by_end);
	for (size_t i = 0; i < n; i++) {
		if (kept && v[kept - 1].job == v[i].job)
			v[kept - 1].what |= v[i].what;
		else
			v[kept++] = v[i];
	}
	return kept;
}

/* The oldest `limit` jobs of each kind are enough: one that is among the oldest of all is among the oldest of
 * each of its kinds. */
int store_retention_due(struct store_reader *r, const struct store_retention *p, uint64_t now_us,
                        uint32_t limit, int (*fn)(uint64_t job, unsigned what, void *arg), void *arg,
                        struct err *e)
{
	const uint64_t ages_s[] = {p->logs_s, p->bundles_s, p->metrics_s, p->artifacts_s};
	cleanup_free struct due_job *v = xcalloc((size_t)limit * 4 + 1, sizeof(*v));
	size_t n = 0;
	int given = 0;

	for (int kind = 0; kind < 4; kind++) {
		int64_t found;

		if (!ages_s[kind] || ages_s[kind] > now_us / 1000000)
			continue;
		found = add_due(r, kind, now_us - ages_s[kind] * 1000000, limit, v + n, e);
		if (found < 0)
			return -1;
		n += (size_t)found;
	}
	n = merge_due(v, n);
	for (size_t i = 0; i < n && (uint32_t)given < limit; i++) {
		given++;
		if (fn(v[i].job, v[i].what, arg) < 0)
			break;
	}
	return given;
}

int store_each_digest(struct store_reader *r, int (*fn)(const char *digest, void *arg), void *arg,
                      struct err *e)
{
	sqlite3_stmt *st = reader_sql(r,
	                              "SELECT bundle FROM job WHERE bundle <> '' AND NOT EXISTS (SELECT 1 FROM "
	                              "dropped d WHERE d.job = job.id "
	                              "AND d.what & 2) UNION SELECT digest FROM artifact a WHERE digest <> '' "
	                              "AND NOT EXISTS (SELECT 1 FROM "
	                              "dropped d WHERE d.job = a.job AND d.what & 8) UNION SELECT digest FROM "
	                              "checkpoint_part p WHERE " SQL_PART_STORED,
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
