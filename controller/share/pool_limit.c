/*
 * pool_limit: what bounds idle pools from outside: prices of nodes, and budgets of accounts.
 */
#include "controller/share/pools.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/share/budget.h"
#include "controller/share/forecast.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

/* ---- prices ------------------------------------------------------------------------------------------ */

static void reprice_part(struct core *c, struct pool_rec *p, const struct cnode *n)
{
	const struct pool_part *part = pool_part_on(p, n->r.id);
	uint64_t price;
	cJSON *d, *one;

	if (!part)
		return;
	price = (uint64_t)(part_price(c, n, part->gpus.n, part->cpus.n, p->exclusive) * 1e6 + 0.5);
	if (price == part->price_uusd)
		return;
	d = cJSON_CreateObject();
	json_add_u64(d, "pool", p->id);
	one = cJSON_CreateObject();
	json_add_str(one, "node", n->name);
	json_add_u64(one, "price_uusd", price);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(d, "prices"), one);
	if (cluster_post(c, EV_POOL_CHANGED, d) == 0)
		pool_bill(c, p);
}

void pools_reprice(struct core *c, const struct cnode *n)
{
	for (struct pool_rec *p = pool_first(c), *next; p; p = next) {
		next = pool_next(p);
		reprice_part(c, p, n);
	}
}

/* ---- budgets ----------------------------------------------------------------------------------------- */

void pools_used_up(struct core *c, const char *path)
{
	char *text = xasprintf("the budget of %.200s is used up", path);

	for (struct pool_rec *p = pool_first(c), *next; p; p = next) {
		const struct pool_job_rec *l = cluster_pool_job(&c->records, p->last_job);

		next = pool_next(p);
		if (!pool_used_by(p) && l && l->account && account_pays_by(l->account, path))
			pool_end(c, p, POOL_OWNER, NULL, 0, text);
	}
	free(text);
}
