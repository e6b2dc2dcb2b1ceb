/*
 * q_event: events as JSON, and the facts of a run (packages, environment, versions) that attempts reported.
 */
#include "store/read/query.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/secret.h"
#include "store/base/sqlh.h"
#include "store/read/json_part.h"
#include "store/read/reader_int.h"

static cJSON *event_json(sqlite3_stmt *st)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "id", sqlh_u64(st, 0));
	json_add_u64(o, "job", sqlh_u64(st, 1));
	json_add_u64(o, "attempt", sqlh_u64(st, 2));
	json_add_time(o, "at", sqlh_u64(st, 3));
	json_add_str(o, "type", sqlh_str(st, 4));
	cJSON_AddItemToObject(o, "data", json_of_text(sqlh_str(st, 5)));
	return o;
}

/* Events of warm pools belong to the cluster; each names the jobs involved. The expressions are those of the
 * indexes of migration 0028. */
#define EVENTS  "SELECT id, job, attempt, at_us, type, data FROM event WHERE "
#define OF_POOL "id > ?1 AND job = 0 AND type GLOB 'pool_*' AND "
#define JOB     "CAST(substr(data, instr(data, '\"job\":') + 6) AS INTEGER)"
#define LEFT_BY "CAST(substr(data, instr(data, '\"left_by\":') + 10) AS INTEGER)"
static const char of_job[] =
    EVENTS "id > ?1 AND job = ?3 UNION ALL " EVENTS OF_POOL JOB " = ?3 UNION ALL " EVENTS OF_POOL LEFT_BY
           " = ?3 AND instr(data, '\"left_by\":') > 0 AND " JOB " <> ?3 ORDER BY id LIMIT ?2";
static const char of_all[] = EVENTS "id > ?1 ORDER BY id LIMIT ?2";

cJSON *store_events_json(struct store_reader *r, uint64_t job, uint64_t after_id, uint32_t limit,
                         struct err *e)
{
	sqlite3_stmt *st;
	cJSON *out, *list;
	uint64_t last = 0;
	uint32_t n = 0;
	int rc;

	limit = limit == 0 ? 1000 : limit > 10000 ? 10000 : limit;
	st = reader_sql(r, job ? of_job : of_all, e);
	if (!st)
		return NULL;
	sqlite3_bind_int64(st, 1, (int64_t)(after_id > INT64_MAX ? INT64_MAX : after_id));
	sqlite3_bind_int64(st, 2, limit);
	if (job)
		sqlite3_bind_int64(st, 3, (int64_t)job);
	out = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(out, "events");
	while ((rc = sqlh_step(st, e)) > 0) {
		last = sqlh_u64(st, 0);
		cJSON_AddItemToArray(list, event_json(st));
		n++;
	}
	sqlite3_finalize(st);
	if (rc < 0) {
		cJSON_Delete(out);
		return NULL;
	}
	if (n == limit)
		json_add_u64(out, "next", last);
	else
		cJSON_AddNullToObject(out, "next");
	return out;
}

/* A package list has names too ("tokenizers==0.15"): only what may hold an environment is masked. */
static void add_run_text(cJSON *o, const char *kind, const char *text)
{
	char *masked;

	if (!text || strcmp(kind, "pip") == 0 || strcmp(kind, "software") == 0) {
		json_add_str(o, "text", text);
		return;
	}
	masked = secret_text(text);
	json_add_str(o, "text", masked);
	free(masked);
}

cJSON *store_run_info_json(struct store_reader *r, uint64_t job, struct err *e)
{
	sqlite3_stmt *st = reader_sql(
	    r, "SELECT attempt, node, kind, text FROM run_info WHERE job = ? ORDER BY attempt, node, kind", e);
	cJSON *list;
	int rc;

	if (!st)
		return NULL;
	list = cJSON_CreateArray();
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0) {
		cJSON *o = cJSON_CreateObject();

		json_add_u64(o, "attempt", sqlh_u64(st, 0));
		json_add_str(o, "node", sqlh_str(st, 1));
		json_add_str(o, "kind", sqlh_str(st, 2));
		add_run_text(o, sqlh_str(st, 2), sqlh_str(st, 3));
		cJSON_AddItemToArray(list, o);
	}
	sqlite3_finalize(st);
	if (rc < 0) {
		cJSON_Delete(list);
		return NULL;
	}
	return list;
}
