/*
 * q_job: one job as JSON: its record, specification, attempts, ranks. The shape is a contract with scripts:
 * add, do not rename.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "store/base/codec.h"
#include "store/base/columns.h"
#include "store/base/rows.h"
#include "store/base/sqlh.h"
#include "store/base/tags.h"
#include "store/read/find.h"
#include "store/read/from_row.h"
#include "store/read/job_fields.h"
#include "store/read/json_part.h"
#include "store/read/q_cost.h"
#include "store/read/q_metric.h"
#include "store/read/query.h"
#include "store/read/reader_int.h"

#define LARGE_ATTEMPTS 33  /* of a job; each costs some queries */
#define LARGE_SERIES   513 /* of a job; each costs a row */
#define STR_(x)        #x
#define STR(x)         STR_(x)

/* v -1: none or unknown. */
static void add_code(cJSON *o, const char *key, int64_t v)
{
	if (v < 0)
		cJSON_AddNullToObject(o, key);
	else
		json_add_u64(o, key, (uint64_t)v);
}

/* ---- attempts -------------------------------------------------------------------------------------- */

/* [{name, started_us, ended_us}] -> [{name, started_at, ended_at}] */
static cJSON *phases_json(const char *text)
{
	cJSON *in = text && *text ? json_parse(text, strlen(text), NULL) : NULL, *out = cJSON_CreateArray();
	const cJSON *v;

	cJSON_ArrayForEach (v, in) {
		const cJSON *started = cJSON_GetObjectItemCaseSensitive(v, "started_us");
		const cJSON *ended = cJSON_GetObjectItemCaseSensitive(v, "ended_us");
		const cJSON *name = cJSON_GetObjectItemCaseSensitive(v, "name");
		cJSON *o = cJSON_CreateObject();

		json_add_str(o, "name", cJSON_IsString(name) ? name->valuestring : NULL);
		json_add_time(o, "started_at", cJSON_IsNumber(started) ? (uint64_t)started->valuedouble : 0);
		json_add_time(o, "ended_at", cJSON_IsNumber(ended) ? (uint64_t)ended->valuedouble : 0);
		cJSON_AddItemToArray(out, o);
	}
	cJSON_Delete(in);
	return out;
}

/* Names of the machines, in node-rank order. */
static cJSON *nodes_json(const cJSON *placement)
{
	cJSON *out = cJSON_CreateArray();
	const cJSON *v, *name;

	cJSON_ArrayForEach (v, placement) {
		name = cJSON_GetObjectItemCaseSensitive(v, "node");
		if (cJSON_IsString(name))
			cJSON_AddItemToArray(out, cJSON_CreateString(name->valuestring));
	}
	return out;
}

static void add_usd(cJSON *o, const char *key, uint64_t uusd, int known)
{
	if (known)
		cJSON_AddNumberToObject(o, key, (double)uusd / 1e6);
	else
		cJSON_AddNullToObject(o, key);
}

/* A running attempt counts until now. The cost is unknown when no node had a price. */
static void add_cost(cJSON *o, const struct attempt_row *a)
{
	uint64_t to = a->ended_us ? a->ended_us : clock_real_us(clock_real());

	add_usd(o, "price_per_hour_usd", a->price_uusd, a->price_uusd > 0);
	add_usd(o, "cost_usd", cost_uusd(a->price_uusd, to > a->started_us ? to - a->started_us : 0),
	        a->price_uusd > 0);
}

static cJSON *attempt_json(const struct attempt_row *a)
{
	cJSON *o = cJSON_CreateObject(),
	      *placement = json_of_text(a->placement && *a->placement ? a->placement : NULL);

	json_add_u64(o, "number", a->number);
	json_add_str(o, "state", a->state);
	json_add_str(o, "outcome", a->outcome && *a->outcome ? a->outcome : NULL);
	json_add_str(o, "class", a->cls && *a->cls ? a->cls : NULL);
	json_add_str(o, "reason", a->reason);
	json_add_str(o, "cause", a->cause);
	cJSON_AddItemToObject(o, "nodes", nodes_json(placement));
	json_add_time(o, "started_at", a->started_us);
	json_add_time(o, "ended_at", a->ended_us);
	add_code(o, "exit_code", a->exit_code);
	add_code(o, "signal", a->signal);
	add_code(o, "resumed_from_step", a->resumed_from_step);
	json_add_str(o, "resumed_from", a->resumed_from && *a->resumed_from ? a->resumed_from : NULL);
	cJSON_AddItemToObject(o, "evidence", json_of_text(a->evidence && *a->evidence ? a->evidence : NULL));
	cJSON_AddItemToObject(o, "plan", json_of_text(a->plan && *a->plan ? a->plan : NULL));
	json_add_str(o, "skip_steps", a->skip_steps && *a->skip_steps ? a->skip_steps : NULL);
	cJSON_AddItemToObject(o, "pool", json_of_text(a->pool && *a->pool ? a->pool : NULL));
	cJSON_AddItemToObject(o, "phases", phases_json(a->phases));
	cJSON_AddItemToObject(o, "placement", placement);
	json_add_u64(o, "epoch", a->epoch);
	json_add_str(o, "launch_id", a->launch_id);
	if (a->master_port)
		json_add_u64(o, "master_port", a->master_port);
	add_cost(o, a);
	/* The token of a launch is a secret: it is never shown. */
	return o;
}

/* ---- from one attempt to the next ------------------------------------------------------------------ */

/* What a query of one whole number with up to three parameters gives; def: no row, or NULL. */
static int ask_number(struct store_reader *r, const char *sql, const int64_t *with, int n, int64_t def,
                      int64_t *out, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, sql, e);
	int rc;

	*out = def;
	if (!st)
		return -1;
	for (int i = 0; i < n; i++)
		sqlite3_bind_int64(st, i + 1, with[i]);
	rc = sqlh_step(st, e);
	if (rc > 0 && sqlite3_column_type(st, 0) != SQLITE_NULL)
		*out = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

/* Adds the steps of the attempt's checkpoints that rollbacks have set aside. */
static int add_set_aside(struct store_reader *r, const struct attempt_row *a, cJSON *o, struct err *e)
{
	sqlite3_stmt *st = reader_sql(
	    r,
	    "SELECT DISTINCT step FROM checkpoint WHERE job = ? AND attempt = ? AND set_aside AND step >= 0 "
	    "ORDER BY step",
	    e);
	cJSON *list;
	int rc;

	if (!st)
		return -1;
	list = cJSON_AddArrayToObject(o, "set_aside");
	sqlite3_bind_int64(st, 1, (int64_t)a->job);
	sqlite3_bind_int64(st, 2, a->number);
	while ((rc = sqlh_step(st, e)) > 0)
		cJSON_AddItemToArray(list, cJSON_CreateNumber((double)sqlite3_column_int64(st, 0)));
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

/* Finds the newest step that the attempt reached: by its points, or by the record of its outcome when the
 * points are removed. -1: unknown. */
static int newest_step(struct store_reader *r, const struct attempt_row *a, int64_t *out, struct err *e)
{
	cJSON *evidence = a->evidence ? cJSON_Parse(a->evidence) : NULL;
	uint64_t noted = json_whole(evidence, "step", UINT64_MAX);

	cJSON_Delete(evidence);
	if (ask_number(r, "SELECT max(last_step) FROM metric_series WHERE job = ? AND attempt = ?",
	               (int64_t[]){(int64_t)a->job, a->number}, 2, -1, out, e) < 0)
		return -1;
	if (noted != UINT64_MAX && (int64_t)noted > *out)
		*out = (int64_t)noted;
	return 0;
}

/* Times of a phase; 0: it did not come, or it goes on. */
static void phase_times(const cJSON *phases, const char *name, uint64_t *from, uint64_t *to)
{
	const cJSON *p;

	*from = *to = 0;
	cJSON_ArrayForEach (p, phases)
		if (strcmp(json_str_or(p, "name", ""), name) == 0) {
			*from = json_whole(p, "started_us", 0);
			*to = json_whole(p, "ended_us", 0);
		}
}

/* Returns when the attempt's first new step was reported; 0: no step of it is stored. */
static int first_step_us(struct store_reader *r, const struct attempt_row *a, uint64_t *out, struct err *e)
{
	sqlite3_stmt *st = reader_sql(
	    r,
	    "SELECT c.data FROM metric_series s JOIN metric_chunk c ON c.series = s.id AND c.first = 0 WHERE "
	    "s.job = ? AND s.attempt = ? AND s.last_step >= 0 ORDER BY s.name <> 'step', s.rank, s.id LIMIT 1",
	    e);
	struct points p = {0};
	struct err bad;
	int rc;

	*out = 0;
	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)a->job);
	sqlite3_bind_int64(st, 2, a->number);
	rc = sqlh_step(st, e);
	if (rc > 0 &&
	    codec_decode(sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0), &p, &bad) == 0)
		for (size_t i = 0; i < p.n && !*out; i++)
			if (p.steps[i] > a->resumed_from_step)
				*out = p.times_us[i];
	points_fini(&p);
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

/* Finds when the first trace of the failure was left: the end of the rank that failed first, or the last sign
 * of a node that was lost. 0: unknown. */
static int fault_us(struct store_reader *r, const struct attempt_row *a, uint64_t *out, struct err *e)
{
	cJSON *evidence = a->evidence ? cJSON_Parse(a->evidence) : NULL,
	      *places = a->placement ? cJSON_Parse(a->placement) : NULL;
	uint64_t rank = json_whole(evidence, "rank", UINT64_MAX), first = 0;
	int64_t ended = 0;
	const cJSON *p;
	int rc = 0;

	cJSON_ArrayForEach (p, places) {
		uint64_t silent = json_whole(p, "silent_us", 0);

		if (silent && (!first || silent < first))
			first = silent;
	}
	if (!first && rank != UINT64_MAX)
		rc = ask_number(r, "SELECT ended_us FROM rank WHERE job = ? AND attempt = ? AND rank = ?",
		                (int64_t[]){(int64_t)a->job, a->number, (int64_t)rank}, 3, 0, &ended, e);
	*out = first ? first : (uint64_t)ended;
	cJSON_Delete(evidence);
	cJSON_Delete(places);
	return rc;
}

/* Adds a phase that has begun. One that seems to end before it begins took no time: clocks of nodes differ.
 */
static void add_phase(cJSON *list, const char *name, uint64_t from, uint64_t to)
{
	cJSON *o;

	if (!from)
		return;
	o = cJSON_CreateObject();
	json_add_str(o, "phase", name);
	json_add_time(o, "started_at", to && from > to ? to : from);
	json_add_time(o, "ended_at", to);
	cJSON_AddItemToArray(list, o);
}

/* Adds the phases that next has gone through until its first new step. */
static int add_next_phases(struct store_reader *r, uint64_t ended_us, const struct attempt_row *next,
                           cJSON *list, struct err *e)
{
	cJSON *phases = next->phases ? cJSON_Parse(next->phases) : NULL;
	uint64_t queued, placed, preparing, launching, running, over, step = 0, unused;
	int rc;

	phase_times(phases, "queued", &queued, &placed);
	phase_times(phases, "provisioning", &preparing, &unused);
	phase_times(phases, "launching", &launching, &unused);
	phase_times(phases, "running", &running, &over);
	rc = first_step_us(r, next, &step, e);
	if (queued > ended_us)
		add_phase(list, "back_off", ended_us, queued);
	add_phase(list, "placed", queued, placed);
	add_phase(list, "prepared", preparing, launching);
	add_phase(list, "launched", launching, running);
	if (step)
		add_phase(list, "first_step", running, step);
	cJSON_Delete(phases);
	return rc;
}

/* Adds what a failure cost: [{phase, started_at, ended_at}] from its first trace to the first new step. The
 * list is empty if no other attempt follows a failure. */
static int add_recovery(struct store_reader *r, const struct attempt_row *a, const struct attempt_row *next,
                        cJSON *o, struct err *e)
{
	cJSON *list = cJSON_AddArrayToObject(o, "recovery"), *phases,
	      *plan = a->plan && *a->plan ? cJSON_Parse(a->plan) : NULL;
	uint64_t fault, stopping, stopped, uploading, uploaded;
	int rc = 0, goes_on = plan && strcmp(json_str_or(plan, "action", "stop"), "stop") != 0;

	cJSON_Delete(plan);
	if (!goes_on)
		return 0;
	phases = a->phases ? cJSON_Parse(a->phases) : NULL;
	phase_times(phases, "stopping", &stopping, &stopped);
	phase_times(phases, "uploading", &uploading, &uploaded);
	rc = fault_us(r, a, &fault, e);
	add_phase(list, "noticed", fault, stopping);
	add_phase(list, "stopped", stopping, stopped);
	add_phase(list, "collected", uploading, a->ended_us);
	if (rc == 0 && next)
		rc = add_next_phases(r, a->ended_us, next, list, e);
	cJSON_Delete(phases);
	return rc;
}

/* Finds how long the attempt trained after the checkpoint with which the next one begins; -1: unknown. */
static int lost_us(struct store_reader *r, const struct attempt_row *a, const struct attempt_row *next,
                   int64_t *out, struct err *e)
{
	cJSON *phases = a->phases ? cJSON_Parse(a->phases) : NULL;
	const char *from = next->resumed_from ? next->resumed_from : "";
	uint64_t running, over;
	int64_t saved = 0;
	int rc = 0;

	phase_times(phases, "running", &running, &over);
	cJSON_Delete(phases);
	if (strncmp(from, "attempt:", 8) == 0 && strtoull(from + 8, NULL, 10) == a->number)
		rc = ask_number(r, "SELECT max(at_us) FROM checkpoint WHERE job = ? AND attempt = ? AND step = ?",
		                (int64_t[]){(int64_t)a->job, a->number, next->resumed_from_step}, 3, 0, &saved, e);
	if ((uint64_t)saved > running)
		running = (uint64_t)saved;
	*out = running && over ? over > running ? (int64_t)(over - running) : 0 : -1;
	return rc;
}

/* Adds lost_steps and lost_s: what the attempt did after the checkpoint with which the next one begins. */
static int add_lost(struct store_reader *r, const struct attempt_row *a, const struct attempt_row *next,
                    cJSON *o, struct err *e)
{
	int64_t newest = -1, us = -1, from = next && next->resumed_from_step > 0 ? next->resumed_from_step : 0;

	if (next && (newest_step(r, a, &newest, e) < 0 || lost_us(r, a, next, &us, e) < 0))
		return -1;
	add_code(o, "lost_steps", newest < 0 ? -1 : newest > from ? newest - from : 0);
	if (us < 0)
		cJSON_AddNullToObject(o, "lost_s");
	else
		cJSON_AddNumberToObject(o, "lost_s", (double)us / 1e6);
	return 0;
}

static int add_attempt(struct store_reader *r, const struct attempt_row *a, const struct attempt_row *next,
                       cJSON *list, struct err *e)
{
	cJSON *o = attempt_json(a);

	cJSON_AddItemToArray(list, o);
	return add_set_aside(r, a, o, e) < 0 || add_lost(r, a, next, o, e) < 0 ||
	               add_recovery(r, a, next, o, e) < 0
	           ? -1
	           : 0;
}

cJSON *store_attempts_json(struct store_reader *r, uint64_t job, struct err *e)
{
	sqlite3_stmt *st =
	    reader_sql(r, "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE job = ? ORDER BY number", e);
	struct attempt_row *all = NULL;
	cJSON *list;
	size_t n = 0;
	int rc;

	if (!st)
		return NULL;
	list = cJSON_CreateArray();
	sqlite3_bind_int64(st, 1, (int64_t)job);
	while ((rc = sqlh_step(st, e)) > 0) {
		all = xreallocarray(all, n + 1, sizeof(*all));
		attempt_from_row(st, &all[n++]);
	}
	sqlite3_finalize(st);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_attempt(r, &all[i], i + 1 < n ? &all[i + 1] : NULL, list, e);
	for (size_t i = 0; i < n; i++)
		attempt_row_fini(&all[i]);
	free(all);
	if (rc < 0) {
		cJSON_Delete(list);
		return NULL;
	}
	return list;
}

int store_job_is_large(struct store_reader *r, uint64_t job, struct err *e)
{
	int64_t attempts = 0, series = 0, id = (int64_t)job;

	if (ask_number(r,
	               "SELECT count(*) FROM (SELECT 1 FROM attempt WHERE job = ? LIMIT " STR(LARGE_ATTEMPTS) ")",
	               &id, 1, 0, &attempts, e) < 0 ||
	    ask_number(
	        r, "SELECT count(*) FROM (SELECT 1 FROM metric_series WHERE job = ? LIMIT " STR(LARGE_SERIES) ")",
	        &id, 1, 0, &series, e) < 0)
		return -1;
	return attempts == LARGE_ATTEMPTS || series == LARGE_SERIES;
}

cJSON *store_placement_json(struct store_reader *r, uint64_t job, uint32_t attempt, struct err *e)
{
	sqlite3_stmt *st = reader_sql(r, "SELECT placement FROM attempt WHERE job = ? AND number = ?", e);
	cJSON *places = NULL;
	int rc;

	if (!st)
		return NULL;
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlite3_bind_int64(st, 2, attempt);
	rc = sqlh_step(st, e);
	if (rc > 0)
		places = json_of_text((const char *)sqlite3_column_text(st, 0));
	else if (rc == 0)
		err_set(e, ERR_NOT_FOUND, "job %" PRIu64 " has no attempt %u", job, attempt);
	sqlite3_finalize(st);
	return places;
}

static cJSON *rank_json(const struct rank_row *k)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "rank", k->rank);
	json_add_str(o, "node", k->node);
	json_add_u64(o, "node_rank", k->node_rank);
	json_add_u64(o, "local_rank", k->local_rank);
	json_add_str(o, "state", k->state);
	add_code(o, "exit_code", k->exit_code);
	add_code(o, "signal", k->signal);
	cJSON_AddBoolToObject(o, "oom", k->oom != 0);
	json_add_u64(o, "pid", k->pid);
	json_add_time(o, "started_at", k->started_us);
	json_add_time(o, "ended_at", k->ended_us);
	json_add_str(o, "text", k->text);
	json_add_str(o, "ended_by", k->ended_by);
	return o;
}

cJSON *store_ranks_json(struct store_reader *r, uint64_t job, uint32_t attempt, struct err *e)
{
	sqlite3_stmt *st = reader_sql(
	    r,
	    "SELECT " RANK_COLUMNS
	    " FROM rank WHERE job = ?1 AND attempt = iif(?2 > 0, ?2, (SELECT max(number) FROM attempt WHERE "
	    "job = ?1)) ORDER BY rank",
	    e);
	struct rank_row k;
	cJSON *list;
	int rc;

	if (!st)
		return NULL;
	list = cJSON_CreateArray();
	sqlite3_bind_int64(st, 1, (int64_t)job);
	sqlite3_bind_int64(st, 2, attempt);
	while ((rc = sqlh_step(st, e)) > 0) {
		rank_from_row(st, &k);
		cJSON_AddItemToArray(list, rank_json(&k));
		rank_row_fini(&k);
	}
	sqlite3_finalize(st);
	if (rc < 0) {
		cJSON_Delete(list);
		return NULL;
	}
	return list;
}

/* ---- show ------------------------------------------------------------------------------------------- */

static int add_dropped(struct store_reader *r, uint64_t job, cJSON *o, struct err *e)
{
	static const char *const names[] = {"logs", "bundle", "metrics", "artifacts"};
	sqlite3_stmt *st = reader_sql(
	    r, "SELECT what, logs_us, bundle_us, metrics_us, artifacts_us FROM dropped WHERE job = ?", e);
	cJSON *list, *times;
	int rc;

	if (!st)
		return -1;
	list = cJSON_AddArrayToObject(o, "dropped");
	times = cJSON_AddObjectToObject(o, "dropped_at");
	sqlite3_bind_int64(st, 1, (int64_t)job);
	rc = sqlh_step(st, e);
	for (int i = 0; rc > 0 && i < 4; i++)
		if (sqlite3_column_int64(st, 0) >> i & 1) {
			cJSON_AddItemToArray(list, cJSON_CreateString(names[i]));
			json_add_time(times, names[i], sqlh_u64(st, 1 + i));
		}
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

/* Adds what make gives; -1 when it gave nothing. */
static int add_made(cJSON *o, const char *key, cJSON *made)
{
	if (!made)
		return -1;
	cJSON_AddItemToObject(o, key, made);
	return 0;
}

/* All attempts together, and what the present one costs an hour; of an array those of its members. */
static int add_job_cost(struct store_reader *r, const struct job_row *row, cJSON *o, struct err *e)
{
	const cJSON *a;
	double sum = 0, price = 0, members = 0, hour_members = 0;

	if (row->members && members_cost(r, row, &members, &hour_members, e) < 0)
		return -1;

	cJSON_ArrayForEach (a, cJSON_GetObjectItemCaseSensitive(o, "attempts")) {
		const cJSON *cost = cJSON_GetObjectItemCaseSensitive(a, "cost_usd"),
		            *hour = cJSON_GetObjectItemCaseSensitive(a, "price_per_hour_usd"),
		            *ended = cJSON_GetObjectItemCaseSensitive(a, "ended_at");

		sum += cJSON_IsNumber(cost) ? cost->valuedouble : 0;
		price = cJSON_IsNull(ended) && cJSON_IsNumber(hour) ? hour->valuedouble : 0;
	}
	sum = sum * 1e6 + members;
	price = price * 1e6 + hour_members;
	add_usd(o, "cost_usd", (uint64_t)(sum + 0.5), sum > 0);
	add_usd(o, "price_per_hour_usd", (uint64_t)(price + 0.5), price > 0);
	return 0;
}

/* ---- warm pools ------------------------------------------------------------------------------------- */

static int is_used_by(const char *parts, uint64_t job)
{
	cJSON *list = parts ? cJSON_Parse(parts) : NULL;
	const cJSON *v;
	int found = 0;

	cJSON_ArrayForEach (v, list)
		found |= json_whole(v, "used_by", 0) == job;
	cJSON_Delete(list);
	return found;
}

/* Adds the pool that the job uses as a whole, or null. A job that took parts of a pool took them out of it.
 */
static int add_used_pool(struct store_reader *r, const struct job_row *row, const cJSON *o, cJSON *pool,
                         struct err *e)
{
	const cJSON *attempts = cJSON_GetObjectItemCaseSensitive(o, "attempts"),
	            *newest = cJSON_GetArrayItem(attempts, cJSON_GetArraySize(attempts) - 1);
	uint64_t id = json_whole(cJSON_GetObjectItemCaseSensitive(newest, "pool"), "id", 0);
	sqlite3_stmt *st = reader_sql(r, "SELECT parts FROM pool WHERE id = ?", e);
	int rc;

	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)id);
	rc = sqlh_step(st, e);
	if (rc > 0 && is_used_by((const char *)sqlite3_column_text(st, 0), row->id))
		json_add_u64(pool, "pool", id);
	else
		cJSON_AddNullToObject(pool, "pool");
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

/* A job that has not ended has left nothing for good: its nodes join the pool one by one. */
static int add_coming_pool(struct store_reader *r, const struct job_row *row, cJSON *o, struct err *e)
{
	const cJSON *asked =
	    cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "spec"), "warm_pool");
	cJSON *pool;

	if (row->members || !json_whole(asked, "keep_alive_s", 0)) {
		cJSON_AddNullToObject(o, "warm_pool");
		return 0;
	}
	pool = cJSON_AddObjectToObject(o, "warm_pool");
	if (add_used_pool(r, row, o, pool, e) < 0)
		return -1;
	json_add_str(pool, "status", "in_use");
	for (int i = 0; i < 4; i++)
		cJSON_AddNullToObject(pool, (const char *[]){"retained_s", "reused_by", "cause", "cause_text"}[i]);
	return 0;
}

static void left_pool_json(sqlite3_stmt *st, cJSON *pool)
{
	uint64_t left = sqlh_u64(st, 2), until = sqlh_u64(st, 3), by = sqlh_u64(st, 4);

	if (!until)
		until = clock_real_us(clock_real());
	json_add_u64(pool, "pool", sqlh_u64(st, 0));
	json_add_str(pool, "status", (const char *)sqlite3_column_text(st, 1));
	json_add_u64(pool, "retained_s", until > left ? (until - left) / 1000000 : 0);
	if (by)
		json_add_u64(pool, "reused_by", by);
	else
		cJSON_AddNullToObject(pool, "reused_by");
	json_add_str(pool, "cause", (const char *)sqlite3_column_text(st, 5));
	json_add_str(pool, "cause_text", (const char *)sqlite3_column_text(st, 6));
}

/* Adds the pool that the job left or gave back, will leave, or null. Follows 15-pools.md. */
static int add_warm_pool(struct store_reader *r, const struct job_row *row, cJSON *o, struct err *e)
{
	sqlite3_stmt *st;
	int rc;

	if (!row->ended_us)
		return add_coming_pool(r, row, o, e);
	st =
	    reader_sql(r,
	               "SELECT l.pool, l.status, l.left_us, l.until_us, l.reused_by, p.cause, p.cause_text FROM "
	               "pool_job l LEFT JOIN pool p ON p.id = l.pool AND l.status = 'terminated' WHERE l.job = ?",
	               e);
	if (!st)
		return -1;
	sqlite3_bind_int64(st, 1, (int64_t)row->id);
	rc = sqlh_step(st, e);
	if (rc > 0)
		left_pool_json(st, cJSON_AddObjectToObject(o, "warm_pool"));
	else
		cJSON_AddNullToObject(o, "warm_pool");
	sqlite3_finalize(st);
	return rc < 0 ? -1 : 0;
}

static int job_parts(struct store_reader *r, const struct job_row *row, cJSON *o, struct err *e)
{
	/* A specification that cannot be parsed cannot be masked either: it is not shown. */
	cJSON *spec = json_object_of(row->spec), *hps;
	int rc = add_made(o, "tags", tags_of(r->db, row->id, spec, e));

	hps = cJSON_GetObjectItemCaseSensitive(spec, "hyperparameters");
	cJSON_AddItemToObject(o, "hyperparameters",
	                      cJSON_IsObject(hps) ? cJSON_Duplicate(hps, 1) : cJSON_CreateObject());
	cJSON_AddItemToObject(o, "spec", spec);
	cJSON_AddItemToObject(o, "run", json_object_of(row->run));
	if (rc < 0 || add_made(o, "attempts", store_attempts_json(r, row->id, e)) < 0 ||
	    add_made(o, "metrics", metrics_summary(r, row->id, -1, 0, e)) < 0 ||
	    add_made(o, "artifacts", store_artifacts_json(r, row->id, e)) < 0)
		return -1;
	if (add_job_cost(r, row, o, e) < 0 || add_warm_pool(r, row, o, e) < 0)
		return -1;
	return add_dropped(r, row->id, o, e);
}

cJSON *store_job_json(struct store_reader *r, uint64_t job, struct err *e)
{
	struct job_row row = {0};
	cJSON *o = NULL;

	if (reader_begin(r, e) < 0)
		return NULL;
	if (store_job_get(r, job, &row, e) == 0) {
		o = cJSON_CreateObject();
		job_fields_json(o, &row);
		if (job_members_json(r, o, &row, e) < 0 || job_parts(r, &row, o, e) < 0) {
			cJSON_Delete(o);
			o = NULL;
		}
	}
	reader_end(r);
	job_row_fini(&row);
	return o;
}
