/*
 * job_fields: see job_fields.h.
 */
#include "store/read/job_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/status.h"
#include "store/read/reader_int.h"

static void add_array(cJSON *o, const struct job_row *r)
{
	char ref[48];

	if (!r->array) {
		snprintf(ref, sizeof(ref), "%" PRIu64, r->id);
		json_add_str(o, "ref", ref);
		cJSON_AddNullToObject(o, "array");
		return;
	}
	snprintf(ref, sizeof(ref), "%" PRIu64 ".%" PRIu64, r->array, r->id - r->array - 1);
	json_add_str(o, "ref", ref);
	o = cJSON_AddObjectToObject(o, "array");
	json_add_u64(o, "job", r->array);
	json_add_u64(o, "index", r->id - r->array - 1);
}

/* v -1: none or unknown. */
static void add_code(cJSON *o, const char *key, int64_t v)
{
	if (v < 0)
		cJSON_AddNullToObject(o, key);
	else
		json_add_u64(o, key, (uint64_t)v);
}

static void add_int(cJSON *o, const char *key, int64_t v)
{
	cJSON_AddNumberToObject(o, key, (double)v);
}

/* Seconds; null when it never ran. An array's members run beside each other: it is the time from the first
 * start among them to the end. */
static void add_ran(cJSON *o, const struct job_row *r)
{
	uint64_t now = r->ended_us ? r->ended_us : clock_real_us(clock_real()),
	         us = r->members ? ran_until_us(0, r->started_us, now)
	                         : ran_until_us(r->ran_us, r->runs_since_us, now);

	if (r->members ? r->started_us : r->ran_us || r->runs_since_us)
		cJSON_AddNumberToObject(o, "ran_s", (double)(us / 1000) / 1e3);
	else
		cJSON_AddNullToObject(o, "ran_s");
}

/* The newest alarm of the job's watches, or null. */
static void add_alert(cJSON *o, const struct job_row *r)
{
	cJSON *alert = r->alert && *r->alert ? cJSON_Parse(r->alert) : NULL;

	if (!alert) {
		cJSON_AddNullToObject(o, "alert");
		return;
	}
	json_add_time(alert, "at", json_whole(alert, "at_us", 0));
	cJSON_DeleteItemFromObjectCaseSensitive(alert, "at_us");
	cJSON_AddItemToObject(o, "alert", alert);
}

void job_fields_json(cJSON *o, const struct job_row *r)
{
	json_add_u64(o, "id", r->id);
	add_array(o, r);
	json_add_str(o, "name", r->name);
	json_add_str(o, "owner", r->owner);
	json_add_str(o, "account", r->run_as ? r->run_as : r->owner);
	json_add_str(o, "experiment", r->experiment);
	json_add_str(o, "notes", r->notes);
	json_add_str(o, "status", r->status);
	json_add_str(o, "reason", r->reason);
	add_int(o, "priority", r->priority);
	json_add_str(o, "queue", r->queue);
	json_add_time(o, "created_at", r->created_us);
	json_add_time(o, "queued_at", r->queued_us);
	json_add_time(o, "started_at", r->started_us);
	json_add_time(o, "ended_at", r->ended_us);
	add_ran(o, r);
	add_code(o, "exit_code", r->exit_code);
	json_add_str(o, "wanted", r->wanted);
	json_add_u64(o, "nodes", r->nodes);
	json_add_u64(o, "gpus", r->gpus);
	json_add_u64(o, "attempt_count", r->attempts);
	json_add_u64(o, "epoch", r->epoch);
	json_add_str(o, "bundle", r->bundle);
	cJSON_AddBoolToObject(o, "pinned", r->pinned != 0);
	cJSON_AddBoolToObject(o, "deleted", r->deleted != 0);
	json_add_str(o, "cleanup", r->cleanup);
	cJSON_AddBoolToObject(o, "halved", r->halved != 0);
	json_add_u64(o, "alerts", r->alerts);
	add_alert(o, r);
}

/* Which count a status belongs to. */
static const char *count_of(const char *status)
{
	if (status_ended(status))
		return status;
	return strcmp(status, "held") == 0 || strcmp(status, "queued") == 0 ? "waiting" : "running";
}

static void count_add(cJSON *o, const char *key, double n)
{
	cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	cJSON_SetNumberValue(v, v->valuedouble + n);
}

int job_members_json(struct store_reader *r, cJSON *job, const struct job_row *row, struct err *e)
{
	static const char *const keys[] = {"waiting", "running", "completed", "failed", "stopped"};
	sqlite3_stmt *st;
	uint64_t made = 0;
	cJSON *o;
	int rc;

	if (!row->members) {
		cJSON_AddNullToObject(job, "members");
		return 0;
	}
	st = reader_sql(r, "SELECT status, count(*) FROM job WHERE array = ? AND array > 0 GROUP BY status", e);
	if (!st)
		return -1;
	o = cJSON_AddObjectToObject(job, "members");
	json_add_u64(o, "count", row->members);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		cJSON_AddNumberToObject(o, keys[i], 0);
	sqlite3_bind_int64(st, 1, (int64_t)row->id);
	while ((rc = sqlh_step(st, e)) > 0) {
		count_add(o, count_of(sqlh_str(st, 0)), (double)sqlh_u64(st, 1));
		made += sqlh_u64(st, 1);
	}
	sqlite3_finalize(st);
	/* Those that are still to be made wait; those that will never be were stopped. */
	if (rc == 0 && made < row->members)
		count_add(o, status_ended(row->status) ? "stopped" : "waiting", (double)(row->members - made));
	return rc;
}
