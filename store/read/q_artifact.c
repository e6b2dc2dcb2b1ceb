/*
 * q_artifact: what attempts left: the lists of it, and the newest of a kind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/read/find.h"
#include "store/read/from_row.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"
#include "store/read/retain.h"

static cJSON *artifact_json(const struct artifact_row *a, uint64_t removed_us)
{
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, "kind", a->kind);
	json_add_u64(o, "attempt", a->attempt);
	json_add_str(o, "node", a->node);
	json_add_str(o, "digest", a->digest);
	json_add_str(o, "uri", a->uri);
	json_add_u64(o, "size_bytes", a->size_bytes);
	json_add_u64(o, "files", a->files);
	json_add_time(o, "at", a->at_us);
	json_add_time(o, "removed_at", removed_us);
	return o;
}

cJSON *store_artifacts_json(struct store_reader *r, uint64_t job, struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r,
	               "SELECT " ARTIFACT_COLUMNS
	               ", (SELECT artifacts_us FROM dropped d WHERE d.job = artifact.job AND d.what & 8 AND "
	               "artifact.digest <> '') FROM artifact WHERE job = ? ORDER BY attempt, at_us, kind, node, "
	               "digest, uri",
	               e);
	struct artifact_row a;
	cJSON *list;
	int rc;

	if (!st)
		return NULL;
	list = cJSON_CreateArray();
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0) {
		artifact_from_row(st, &a);
		cJSON_AddItemToArray(list, artifact_json(&a, sqlh_u64(st, ARTIFACT_N_COLUMNS)));
		artifact_row_fini(&a);
	}
	sqlite3_finalize(st);
	if (rc < 0) {
		cJSON_Delete(list);
		return NULL;
	}
	return list;
}

cJSON *store_members_left_json(struct store_reader *r, uint64_t job, struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r,
	               "SELECT a.job, a.kind FROM job j JOIN artifact a ON a.job = j.id WHERE "
	               "j.array = ?1 AND j.array > 0 GROUP BY a.job, a.kind ORDER BY a.job, a.kind",
	               e);
	cJSON *list, *o = NULL, *kinds = NULL;
	uint64_t last = 0;
	char ref[48];
	int rc, n = 0;

	if (!st)
		return NULL;
	list = cJSON_CreateArray();
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0) {
		uint64_t id = sqlh_u64(st, 0);

		if (id != last && n++ == 1000)
			break;
		if (id != last) {
			o = cJSON_CreateObject();
			snprintf(ref, sizeof(ref), "%" PRIu64 ".%" PRIu64, job, id - job - 1);
			json_add_u64(o, "id", id);
			json_add_str(o, "ref", ref);
			kinds = cJSON_AddArrayToObject(o, "kinds");
			cJSON_AddItemToArray(list, o);
		}
		last = id;
		cJSON_AddItemToArray(kinds, cJSON_CreateString(sqlh_str(st, 1)));
	}
	sqlite3_finalize(st);
	if (rc >= 0)
		return list;
	cJSON_Delete(list);
	return NULL;
}

int store_artifact_get(struct store_reader *r, uint64_t job, const char *kind, struct artifact_row *out,
                       struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r,
	               "SELECT " ARTIFACT_COLUMNS
	               " FROM artifact WHERE job = ? AND kind = ? ORDER BY attempt DESC, at_us DESC LIMIT 1",
	               e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlh_bind_str(st, 2, kind);
	rc = sqlh_step(st, e);
	if (rc > 0)
		artifact_from_row(st, out);
	sqlite3_finalize(st);
	if (rc == 0)
		return err_set(e, ERR_NOT_FOUND,
		               "job %" PRIu64 " has left no %s (jobctl show %" PRIu64 " lists what it left)", job,
		               kind, job);
	/* Files at an output_uri are the user's, and stay. */
	if (rc > 0 && out->digest && *out->digest && store_check_kept(r, job, STORE_ARTIFACTS, kind, e) < 0) {
		artifact_row_fini(out);
		rc = -1;
	}
	return rc < 0 ? -1 : 0;
}

/* Names of machines -> their rank in an attempt. */
struct name_rank {
	const char *name;
	uint32_t rank;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct name_rank *)a)->name, ((const struct name_rank *)b)->name);
}

/* *n names of the placement, which they borrow from; sorted. */
static struct name_rank *ranks_of(const cJSON *placement, size_t *n)
{
	struct name_rank *all = xcalloc((size_t)cJSON_GetArraySize(placement) + 1, sizeof(*all));
	const cJSON *p;
	uint32_t rank = 0;

	*n = 0;
	cJSON_ArrayForEach (p, placement) {
		const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(p, "node"));

		if (name)
			all[(*n)++] = (struct name_rank){name, rank};
		rank++;
	}
	qsort(all, *n, sizeof(*all), by_name);
	return all;
}

static int by_rank(const void *a, const void *b)
{
	uint32_t x = ((const struct left_part *)a)->node_rank, y = ((const struct left_part *)b)->node_rank;

	return x < y ? -1 : x > y;
}

/* Rows come node by node, each node's last one last. */
static void add_part(struct left *l, uint32_t rank, const char *what)
{
	if (l->n && l->parts[l->n - 1].node_rank == rank) {
		free(l->parts[--l->n].what);
	} else if ((l->n & (l->n - 1)) == 0) { /* room for the next power of two */
		l->parts = xreallocarray(l->parts, l->n ? 2 * l->n : 1, sizeof(*l->parts));
	}
	l->parts[l->n++] = (struct left_part){rank, xstrdup(what)};
}

/* Each attempt writes to the same place at an output_uri: what a newer one put there is no longer that of
 * this one (a). */
#define STILL_THERE                                                                                          \
	"(a.uri = '' OR NOT EXISTS (SELECT 1 FROM artifact b WHERE b.job = a.job AND b.kind = a.kind AND "       \
	"b.attempt > a.attempt AND b.uri = a.uri)) "

static int add_parts(struct store_reader *r, uint64_t job, const char *kind, const cJSON *placement,
                     struct left *l, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r,
	                              "SELECT a.node, a.digest, a.uri FROM artifact a WHERE a.job = ? AND "
	                              "a.kind = ? AND a.attempt = ? AND " STILL_THERE "ORDER BY a.node, a.at_us",
	                              e);
	struct name_rank *ranks, *found;
	size_t n;
	int rc;

	if (!st)
		return -1;
	ranks = ranks_of(placement, &n);
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlh_bind_str(st, 2, kind);
	sqlite3_bind_int64(st, 3, l->attempt);
	while ((rc = sqlh_step(st, e)) > 0) {
		const char *node = sqlh_str(st, 0), *digest = sqlh_str(st, 1), *uri = sqlh_str(st, 2);
		const struct name_rank key = {.name = node ? node : ""};

		found = bsearch(&key, ranks, n, sizeof(*ranks), by_name);
		add_part(l, found ? found->rank : 0, digest && *digest ? digest : uri ? uri : "");
	}
	sqlite3_finalize(st);
	free(ranks);
	qsort(l->parts, l->n, sizeof(*l->parts), by_rank);
	return rc < 0 ? -1 : 0;
}

void left_fini(struct left *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->parts[i].what);
	free(l->parts);
	*l = (struct left){0};
}

int store_left(struct store_reader *r, uint64_t job, const char *kind, uint32_t below, struct left *out,
               struct err *e)
{
	sqlite3_stmt *st = reader_sql(r,
	                              "SELECT a.attempt, t.placement FROM artifact a LEFT JOIN attempt t ON "
	                              "t.job = a.job AND t.number = a.attempt WHERE a.job = ?1 AND a.kind = ?2 "
	                              "AND a.attempt < ?3 AND " STILL_THERE "ORDER BY a.attempt DESC LIMIT 1",
	                              e);
	struct left l = {0};
	cJSON *placement = NULL;
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlh_bind_str(st, 2, kind);
	sqlite3_bind_int64(st, 3, below);
	rc = sqlh_step(st, e);
	if (rc > 0) {
		l.attempt = sqlh_u32(st, 0);
		placement = cJSON_Parse(sqlh_str(st, 1) ? sqlh_str(st, 1) : "[]");
	}
	sqlite3_finalize(st);
	if (rc == 0)
		err_set(e, ERR_NOT_FOUND,
		        "job %" PRIu64 " has left no %s (jobctl show %" PRIu64 " lists what it left)", job, kind,
		        job);
	if (rc > 0 && add_parts(r, job, kind, placement, &l, e) < 0)
		rc = -1;
	if (rc > 0 && !l.n) /* taken away meanwhile */
		rc = err_set(e, ERR_NOT_FOUND, "job %" PRIu64 " has left no %s", job, kind);
	/* Files at an output_uri are the user's, and stay. */
	if (rc > 0 && !strstr(l.parts[0].what, "://") && store_check_kept(r, job, STORE_ARTIFACTS, kind, e) < 0)
		rc = -1;
	cJSON_Delete(placement);
	if (rc <= 0) {
		left_fini(&l);
		return -1;
	}
	*out = l;
	return 0;
}
