/*
 * api_cost: what was spent (from the store, on this thread), and budgets (the state thread's).
 */
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "controller/api.h"
#include "controller/server_int.h"

#define USEC 1000000ull

static int known(const struct strv *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->v[i], name) == 0)
			return 1;
	return 0;
}

static int refuse_name(const char *key, const char *what, const char *name, const struct strv *names,
                       struct err *e)
{
	const char *near = names->n ? str_nearest(name, (const char *const *)names->v) : NULL;

	return err_set(e, ERR_NOT_FOUND, "%s: %s \"%.100s\"%s%.100s%s", key, what, name,
	               near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* Of nothing that was spent: is what was asked for there at all? One that is gone and has spent something is
 * answered before that. */
static int check_names(struct io *io, const struct cost_filter *f, struct err *e)
{
	struct strv queues = {0}, owners = {0};
	int rc = 0;

	if (f->queue) {
		strv_add(&queues, "default");
		rc = store_queue_names(io->reader, &queues, e);
		if (rc == 0 && !known(&queues, f->queue))
			rc = refuse_name("queue", "there is no queue", f->queue, &queues, e);
	}
	if (rc == 0 && f->owner) {
		rc = store_owner_names(io->reader, &owners, e);
		if (rc == 0 && !known(&owners, f->owner))
			rc = refuse_name("owner", "no job belongs to", f->owner, &owners, e);
	}
	strv_fini(&queues);
	strv_fini(&owners);
	return rc;
}

static int check_job(struct io *io, const struct cost_filter *f, struct err *e)
{
	struct job_row row;
	int rc;

	if (!f->job)
		return 0;
	memset(&row, 0, sizeof(row));
	rc = store_job_get(io->reader, f->job, &row, e);
	job_row_fini(&row);
	return rc;
}

static int check_span(const struct cost_filter *f, struct err *e)
{
	if (f->to_us && f->from_us >= f->to_us)
		return err_set(e, ERR_INVALID, "from: it has to be before to");
	if (f->from_us > f->now_us)
		return err_set(e, ERR_INVALID, "from: that time is still to come; the latest is now");
	return 0;
}

void api_cost(struct call *c, struct io *io)
{
	static const char *const names[] = {"queue", "user", "job", NULL};
	const char *by = query_str(c, "by");
	struct cost_filter f = {
	    .queue = query_str(c, "queue"),
	    .owner = query_str(c, "owner"),
	    .job = query_u64(c, "job", 0),
	    .from_us = query_u64(c, "from", 0) * USEC,
	    .to_us = query_u64(c, "to", 0) * USEC,
	    .now_us = clock_real_us(clock_real()),
	    .limit = (uint32_t)(query_u64(c, "limit", 100) > 1000 ? 1000 : query_u64(c, "limit", 100)),
	};
	struct err e;
	cJSON *o;
	int k;

	for (k = 0; by && names[k] && strcmp(names[k], by) != 0; k++)
		;
	if (by && !names[k]) {
		call_problem(c, 400, NULL, "by: expected queue, user or job");
		return;
	}
	f.by = by ? (enum cost_by)k : COST_BY_QUEUE;
	o = check_span(&f, &e) == 0 && check_job(io, &f, &e) == 0 ? store_cost_json(io->reader, &f, &e) : NULL;
	if (o && !cJSON_GetObjectItemCaseSensitive(o, "rows")->child && check_names(io, &f, &e) < 0) {
		cJSON_Delete(o);
		o = NULL;
	}
	if (o)
		call_json(c, 200, o);
	else
		call_fail(c, &e);
}

void api_budgets(struct call *c, struct io *io)
{
	server_request(c, io, server_request_new(c, REQ_BUDGETS, NULL));
}

void api_budget_set(struct call *c, struct io *io)
{
	static const char *const keys[] = {"name", "usd", "period", NULL};

	named_change(c, io, REQ_BUDGET_SET, QUEUE_OR_USER, keys);
}

void api_budget_rm(struct call *c, struct io *io)
{
	named_request(c, io, REQ_BUDGET_RM);
}
