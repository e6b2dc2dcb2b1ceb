/*
 * api_cost: what was spent (from the store, on this thread), and budgets (the state thread's).
 */
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "controller/api.h"
#include "controller/server_int.h"

#define USEC 1000000ull

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
	if (f.to_us && f.from_us >= f.to_us) {
		call_problem(c, 400, NULL, "from: it has to be before to");
		return;
	}
	o = store_cost_json(io->reader, &f, &e);
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
