/*
 * find: single records by id, name or hash. Names of jobs: q_list.c; artifacts: q_artifact.c; names of queues
 * and users: q_cost.c.
 */
#include "store/read/find.h"

#include <inttypes.h>
#include <stdint.h>

#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/status.h"
#include "store/read/from_row.h"
#include "store/read/reader_int.h"

int store_job_get(struct store_reader *r, uint64_t job, struct job_row *out, struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r,
	               "SELECT " JOB_COLUMNS
	               ", js.spec, js.run FROM job LEFT JOIN job_spec js ON js.id = job.id WHERE job.id = ?",
	               e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)(job > INT64_MAX ? 0 : job));
	rc = sqlh_step(st, e);
	if (rc > 0)
		job_from_row(st, out, 1);
	sqlite3_finalize(st);
	if (rc == 0)
		return err_set(e, ERR_NOT_FOUND, "there is no job %" PRIu64, job);
	return rc < 0 ? -1 : 0;
}

int store_job_attempts(struct store_reader *r, uint64_t job, uint32_t *attempts, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, "SELECT attempts FROM job WHERE id = ?", e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)(job > INT64_MAX ? 0 : job));
	rc = sqlh_step(st, e);
	if (rc > 0)
		*attempts = sqlh_u32(st, 0);
	sqlite3_finalize(st);
	return rc;
}

char *store_job_owner(struct store_reader *r, uint64_t job, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, "SELECT owner FROM job WHERE id = ?", e);
	char *owner = NULL;

	if (!st)
		return NULL;
	sqlite3_bind_int64(st, 1, (int64_t)(job > INT64_MAX ? 0 : job));
	if (sqlh_step(st, e) > 0)
		owner = sqlh_dup(st, 0);
	sqlite3_finalize(st);
	return owner;
}

int store_member_id(struct store_reader *r, uint64_t array, uint32_t index, uint64_t *job, struct err *e)
{
	struct job_row row = {0}, member = {0};
	unsigned long long of = array;
	uint32_t n;
	int ended;

	if (store_job_get(r, array, &row, e) < 0)
		return -1;
	n = row.members;
	ended = status_ended(row.status);
	job_row_fini(&row);
	if (!n)
		return err_set(e, ERR_NOT_FOUND, "job %llu has no members: it is one job", of);
	if (index >= n)
		return err_set(e, ERR_NOT_FOUND, "job %llu has %u members: %llu.0 to %llu.%u", of, n, of, of, n - 1);
	if (store_job_get(r, array + 1 + index, &member, e) == 0 && member.array == array) {
		*job = member.id;
		job_row_fini(&member);
		return 0;
	}
	job_row_fini(&member);
	if (ended)
		return err_set(e, ERR_NOT_FOUND, "member %u of job %llu was never made: the job was stopped before",
		               index, of);
	return err_set(e, ERR_UNAVAILABLE, "member %u of job %llu is about to be made; try again", index, of);
}

int store_node_get(struct store_reader *r, const char *name, struct node_row *out, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r,
	                              "SELECT id, name, address, state, reason, cert_fingerprint, inventory, "
	                              "joined_us, seen_us, drain, spare FROM node "
	                              "WHERE name = ? ORDER BY id DESC LIMIT 1",
	                              e);
	int rc;

	if (!st)
		return -1;
	sqlh_bind_str(st, 1, name);
	rc = sqlh_step(st, e);
	if (rc > 0)
		node_from_row(st, out);
	sqlite3_finalize(st);
	if (rc == 0)
		return err_set(e, ERR_NOT_FOUND, "no node is called \"%.64s\"", name);
	return rc < 0 ? -1 : 0;
}

int store_token_get(struct store_reader *r, const char *secret_hash, struct token_row *out, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, "SELECT " TOKEN_COLUMNS " FROM token WHERE secret_hash = ?", e);
	int rc;

	if (!st)
		return -1;
	sqlh_bind_str(st, 1, secret_hash);
	rc = sqlh_step(st, e);
	if (rc > 0)
		token_from_row(st, out);
	sqlite3_finalize(st);
	if (rc == 0)
		return err_set(e, ERR_NOT_FOUND, "this token is not known");
	return rc < 0 ? -1 : 0;
}
