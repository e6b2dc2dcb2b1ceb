/*
 * api_records: the records of one job. Workers read its metrics from the store, and this thread the rest.
 */
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/secret.h"
#include "common/base/xalloc.h"
#include "controller/api/api_jobs.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"
#include "controller/io/work.h"
#include "store/read/find.h"
#include "store/read/query.h"

static void answer_json(struct call *c, cJSON *o, const struct err *e)
{
	if (o)
		call_json(c, 200, o);
	else
		call_fail(c, e);
}

/* Lists of the store come as arrays or as objects that hold one; the API gives objects, which can grow. */
static void answer_list(struct call *c, const char *name, cJSON *o, const struct err *e)
{
	cJSON *outer;

	if (o && cJSON_IsArray(o)) {
		outer = cJSON_CreateObject();
		cJSON_AddItemToObject(outer, name, o);
		o = outer;
	}
	answer_json(c, o, e);
}

static uint32_t limit_of(const struct call *c, uint32_t otherwise, uint32_t most)
{
	uint64_t v = query_u64(c, "limit", otherwise);

	return v > most ? most : (uint32_t)v;
}

void api_job_events(struct call *c, struct io *io)
{
	struct err e;

	answer_list(
	    c, "events",
	    store_events_json(io->reader, c->target_id, query_u64(c, "after", 0), limit_of(c, 1000, 10000), &e),
	    &e);
}

static cJSON *read_attempts(struct store_reader *r, void *state, struct err *e)
{
	cJSON *list = store_attempts_json(r, *(const uint64_t *)state, e), *outer;

	if (!list)
		return NULL;
	outer = cJSON_CreateObject();
	cJSON_AddItemToObject(outer, "attempts", list);
	return outer;
}

void api_job_attempts(struct call *c, struct io *io)
{
	uint64_t job = c->target_id;
	struct err e;
	int large = store_job_is_large(io->reader, job, &e);

	if (large > 0 || FAULT("work.large"))
		work_ask(c, io,
		         &(struct work_ask){
		             .ask = read_attempts, .state = xmemdup(&job, sizeof(job)), .free_state = free});
	else
		answer_json(c, large < 0 ? NULL : read_attempts(io->reader, &job, &e), &e);
}

static int newest_attempt(struct io *io, uint64_t job, uint32_t *attempt, struct err *e)
{
	struct job_row row;

	memset(&row, 0, sizeof(row));
	if (store_job_get(io->reader, job, &row, e) < 0)
		return -1;
	*attempt = row.attempts;
	job_row_fini(&row);
	return 0;
}

static int attempt_of(struct call *c, struct io *io, uint32_t *attempt, struct err *e)
{
	uint64_t v = query_u64(c, "attempt", 0);

	if (v > UINT32_MAX)
		return err_set(e, ERR_NOT_FOUND, "job %s has no such attempt", c->params[0]);
	*attempt = (uint32_t)v;
	return v ? 0 : newest_attempt(io, c->target_id, attempt, e);
}

void api_job_ranks(struct call *c, struct io *io)
{
	uint32_t attempt = 0;
	struct err e;

	if (attempt_of(c, io, &attempt, &e) < 0)
		call_fail(c, &e);
	else
		answer_list(c, "ranks", store_ranks_json(io->reader, c->target_id, attempt, &e), &e);
}

/* 0: in range; else the answer is given. */
static int metric_query(struct call *c, int64_t *rank, uint64_t *attempt, uint64_t *points)
{
	*rank = query_i64(c, "rank", -1);
	*attempt = query_u64(c, "attempt", 0);
	*points = query_u64(c, "points", 1000);
	if (*rank >= -1 && *rank <= INT32_MAX && *attempt <= UINT32_MAX && *points <= 100000)
		return 0;
	call_problem(c, 400, NULL, "rank, attempt or points is out of range (points: 0 for all, at most 100000)");
	return -1;
}

struct metric_ask {
	uint64_t job;
	const char *name; /* the call's */
	int32_t rank;
	uint32_t attempt, points;
};

/* Worker. */
static cJSON *read_metrics(struct store_reader *r, void *state, struct err *e)
{
	const struct metric_ask *m = state;

	if (!m->name)
		return store_metrics_json(r, m->job, m->rank, m->attempt, e);
	return store_metric_json(r, m->job, m->name, m->rank, m->attempt, m->points, e);
}

/* name NULL: all metrics. */
static void ask_metrics(struct call *c, struct io *io, const char *name)
{
	struct metric_ask ask = {.job = c->target_id, .name = name};
	uint64_t points, attempt;
	int64_t rank;

	if (metric_query(c, &rank, &attempt, &points) < 0)
		return;
	ask.rank = (int32_t)rank;
	ask.attempt = (uint32_t)attempt;
	ask.points = (uint32_t)points;
	work_ask(
	    c, io,
	    &(struct work_ask){.ask = read_metrics, .state = xmemdup(&ask, sizeof(ask)), .free_state = free});
}

void api_job_metrics(struct call *c, struct io *io)
{
	ask_metrics(c, io, NULL);
}

void api_job_metric(struct call *c, struct io *io)
{
	ask_metrics(c, io, c->params[1]);
}

void api_job_run(struct call *c, struct io *io)
{
	struct err e;

	answer_list(c, "facts", store_run_info_json(io->reader, c->target_id, &e), &e);
}

void api_job_checkpoints(struct call *c, struct io *io)
{
	struct err e;
	cJSON *o, *list = store_checkpoints_json(io->reader, c->target_id, &e);

	if (!list) {
		call_fail(c, &e);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddItemToObject(o, "checkpoints", list);
	call_json(c, 200, o);
}

void api_job_artifacts(struct call *c, struct io *io)
{
	struct err e;
	cJSON *own = store_artifacts_json(io->reader, c->target_id, &e),
	      *theirs = own ? store_members_left_json(io->reader, c->target_id, &e) : NULL, *o;

	if (!theirs) {
		cJSON_Delete(own);
		call_fail(c, &e);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddItemToObject(o, "artifacts", own);
	if (theirs->child)
		cJSON_AddItemToObject(o, "members", theirs);
	else
		cJSON_Delete(theirs);
	call_json(c, 200, o);
}

/* As it was submitted, but for secrets. */
void api_job_spec(struct call *c, struct io *io)
{
	struct job_row row;
	struct err e;
	cJSON *spec;

	memset(&row, 0, sizeof(row));
	if (store_job_get(io->reader, c->target_id, &row, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	spec = json_parse(row.spec, strlen(row.spec), &e);
	if (!spec) {
		call_fail(c, &e);
	} else if (!secret_json(spec, 0)) {
		call_text(c, 200, "application/json", row.spec);
	} else {
		char *text = json_text_pretty(spec);

		call_text(c, 200, "application/json", text);
		free(text);
	}
	cJSON_Delete(spec);
	job_row_fini(&row);
}
