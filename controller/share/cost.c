/*
 * cost: what an attempt costs, and the end of a job that reached its cost limit.
 *
 * The prices of an attempt's nodes at its placement fix its price. It pays from then until it has released
 * its nodes. limits.max_cost_usd bounds the sum of a job's attempts. At the limit the attempt ends with
 * grace, as at any other limit, and pays until its nodes are clean. After a restart of hearthd the wall clock
 * gives the elapsed time, as for time limits.
 */
#include "controller/share/cost.h"

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "controller/record/inventory.h"
#include "controller/record/rec.h"
#include "controller/record/verdict.h"
#include "controller/share/budget.h"
#include "controller/share/forecast.h"
#include "controller/share/instances.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

int cost_check(const struct core *c, const struct job_spec *s, struct err *e)
{
	int nodes = 0;

	if (s->max_cost_usd <= 0)
		return 0;
	for (const struct cnode *n = node_first(c); n; n = node_next(n)) {
		if (n->r.state == NODE_REMOVED || !n->inv.known)
			continue;
		nodes = 1;
		if (node_price(c, n) > 0)
			return 0;
	}
	/* Without prices the limit would never take effect, and the user would rely on it. */
	return nodes
	           ? err_set(
	                 e, ERR_CONFLICT,
	                 "limits.max_cost_usd: no node has a price, so the limit would never be reached; jobctl "
	                 "instances set TYPE price_per_hour=N gives one")
	           : 0;
}

void cost_placed(struct core *c, const struct cjob *j, const struct sched_decision *dec, cJSON *d)
{
	double price = decision_price(c, j->act->spec, dec);
	char account[ACCOUNT_PATH];

	account_path(account, sizeof(account), j->r.queue, j->r.owner);
	json_add_str(d, "account", account);
	if (price > 0)
		json_add_u64(d, "price_uusd", (uint64_t)(price * 1e6 + 0.5));
}

static uint64_t limit_uusd(const struct job_spec *s)
{
	return s->max_cost_usd > 0 ? (uint64_t)(s->max_cost_usd * 1e6 + 0.5) : 0;
}

void cost_begins(struct core *c, struct cjob *j, uint64_t held_us)
{
	const struct attempt_rec *a = j->r.att;
	uint64_t limit = limit_uusd(j->act->spec), left = limit > j->spent_uusd ? limit - j->spent_uusd : 0;
	double us = a->price_uusd ? (double)left / (double)a->price_uusd * 3.6e9 : 0;

	if (a->price_uusd && a->account)
		budget_begins(c, a->account, a->price_uusd, now_real(c) > held_us ? now_real(c) - held_us : 0);
	if (!limit || !a->price_uusd || us > 1e17)
		return;
	j->act->cost_end_us = now_boot(c) + ((uint64_t)us > held_us ? (uint64_t)us - held_us : 0) + 1;
}

void cost_ends(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	if (!a->price_uusd)
		return;
	if (a->ended_us > a->started_us)
		j->spent_uusd += cost_uusd(a->price_uusd, a->ended_us - a->started_us);
	if (a->account)
		budget_ends(c, a->account, a->price_uusd);
}

uint64_t cost_end_at(const struct cjob *j)
{
	return j->act->cost_end_us ? j->act->cost_end_us : UINT64_MAX;
}

int cost_is_up(struct core *c, const struct cjob *j, struct verdict *v)
{
	if (now_boot(c) < cost_end_at(j))
		return budget_is_up(c, j, v);
	return verdict_set(v, RC_COST, "cost limit of $%.2f reached (limits.max_cost_usd)",
	                   j->act->spec->max_cost_usd);
}

int cost_used_up(const struct cjob *j, const struct job_spec *s, char *text, size_t n)
{
	uint64_t limit = limit_uusd(s);

	if (!limit || j->spent_uusd < limit)
		return 0;
	snprintf(text, n, "cost limit of $%.2f reached (limits.max_cost_usd): %u attempt%s cost $%.2f",
	         s->max_cost_usd, j->r.attempts, j->r.attempts == 1 ? "" : "s", (double)j->spent_uusd / 1e6);
	return 1;
}
