/*
 * api_cost: money spent (read from the store by a worker), and budgets (asked of the state thread).
 */
#include <string.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/api/api.h"
#include "controller/api/api_cluster.h"
#include "controller/api/thread.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"
#include "controller/io/work.h"
#include "store/read/find.h"
#include "store/read/query.h"

#define USEC            1000000ull
#define CLOCKS_APART_US (300 * USEC) /* the client's clock may be ahead of ours */

static void refuse_name(const char *key, const char *what, const char *name, const struct strv *names,
                        struct err *e)
{
	const char *near = names->n ? str_nearest(name, (const char *const *)names->v) : NULL;

	err_set(e, ERR_NOT_FOUND, "%s: %s \"%.100s\"%s%.100s%s", key, what, name, near ? "; did you mean \"" : "",
	        near ? near : "", near ? "\"?" : "");
}

/* Nothing was spent in that time: refuses a queue or user that never existed. */
static int check_names(struct store_reader *r, const struct cost_filter *f, struct err *e)
{
	struct strv near = {0};
	int rc = !f->queue || strcmp(f->queue, "default") == 0 ? 1 : store_queue_known(r, f->queue, e);

	if (rc == 0) {
		strv_add(&near, "default");
		if (store_queue_names(r, &near, e) == 0)
			refuse_name("queue", "there is no queue", f->queue, &near, e);
	} else if (rc > 0 && f->owner) {
		rc = store_owner_known(r, f->owner, e);
		if (rc == 0 && store_owner_names(r, &near, e) == 0)
			refuse_name("owner", "no job belongs to", f->owner, &near, e);
	}
	strv_fini(&near);
	return rc > 0 ? 0 : -1;
}

static int check_job(struct store_reader *r, const struct cost_filter *f, struct err *e)
{
	struct job_row row;
	int rc;

	if (!f->job)
		return 0;
	memset(&row, 0, sizeof(row));
	rc = store_job_get(r, f->job, &row, e);
	job_row_fini(&row);
	return rc;
}

static int check_span(struct cost_filter *f, struct err *e)
{
	if (f->to_us && f->from_us >= f->to_us)
		return err_set(e, ERR_INVALID, "from: expected a time before to");
	if (f->from_us > f->now_us + CLOCKS_APART_US)
		return err_set(e, ERR_INVALID, "from: expected a time in the past");
	if (f->from_us > f->now_us)
		f->from_us = f->now_us;
	return 0;
}

/* Worker. The strings of the filter are the call's. */
static cJSON *sum_cost(struct store_reader *r, void *state, struct err *e)
{
	const struct cost_filter *f = state;
	cJSON *o = check_job(r, f, e) == 0 ? store_cost_json(r, f, e) : NULL;

	if (o && !cJSON_GetObjectItemCaseSensitive(o, "rows")->child && check_names(r, f, e) < 0) {
		cJSON_Delete(o);
		o = NULL;
	}
	return o;
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
	int k;

	for (k = 0; by && names[k] && strcmp(names[k], by) != 0; k++)
		;
	if (by && !names[k]) {
		call_problem(c, 400, NULL, "by: expected queue, user or job");
		return;
	}
	f.by = by ? (enum cost_by)k : COST_BY_QUEUE;
	if (check_span(&f, &e) < 0)
		call_fail(c, &e);
	else
		work_ask(c, io,
		         &(struct work_ask){.ask = sum_cost, .state = xmemdup(&f, sizeof(f)), .free_state = free});
}

void api_budgets(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_BUDGETS, NULL));
}

void api_budget_set(struct call *c, struct io *io)
{
	static const char *const keys[] = {"name", "usd", "period", "action", NULL};

	named_change(c, io, REQ_BUDGET_SET, QUEUE_OR_USER, keys);
}

void api_budget_rm(struct call *c, struct io *io)
{
	named_request(c, io, REQ_BUDGET_RM);
}
