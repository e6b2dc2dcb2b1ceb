/*
 * pool_limit: what bounds idle pools from outside: prices of nodes, budgets of accounts, limits of queues.
 */
#include "controller/share/pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/share/budget.h"
#include "controller/share/forecast.h"
#include "controller/share/queues.h"
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

/* ---- limits of queues -------------------------------------------------------------------------------- */

static int belongs_to(const struct pool_rec *p, const char *path)
{
	char account[ACCOUNT_PATH];

	account_path(account, sizeof(account), p->queue, p->owner);
	return account_pays_by(account, path);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void pools_idle(const struct core *c, const char *path, uint32_t *gpus, uint32_t *nodes)
{
	uint64_t *ids = NULL;
	size_t n = 0;

	*gpus = *nodes = 0;
	for (const struct pool_rec *p = pool_first(c); p; p = pool_next(p)) {
		if (!belongs_to(p, path))
			continue;
		ids = xreallocarray(ids, n + p->n_parts + 1, sizeof(*ids));
		for (uint32_t i = 0; i < p->n_parts; i++)
			if (!p->parts[i].used_by) {
				*gpus += p->parts[i].gpus.n;
				ids[n++] = p->parts[i].node_id;
			}
	}
	if (n)
		qsort(ids, n, sizeof(*ids), by_number);
	for (size_t i = 0; i < n; i++)
		*nodes += !i || ids[i] != ids[i - 1];
	free(ids);
}

static int has_gpus(const struct pool_rec *p)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		if (p->parts[i].gpus.n)
			return 1;
	return 0;
}

/* Returns the pool that has been idle for longest; NULL none. */
static struct pool_rec *oldest_idle(const struct core *c, const char *path, int with_gpus)
{
	struct pool_rec *best = NULL;

	for (struct pool_rec *p = pool_first(c); p; p = pool_next(p))
		if (!pool_used_by(p) && (!best || p->idle_us < best->idle_us) && belongs_to(p, path) &&
		    (!with_gpus || has_gpus(p)))
			best = p;
	return best;
}

static void say_limit(struct text *t, const char *path, uint32_t n, const char *what)
{
	const char *user = strstr(path, "/@");

	if (user)
		text_add(t, "%s in queue %.*s", user + 2, (int)(user - path), path);
	else
		text_add(t, "queue %s", path);
	text_add(t, " keeps at most %u idle %s%s warm (warm_%ss)", n, strcmp(what, "gpu") == 0 ? "GPU" : what,
	         n == 1 ? "" : "s", what);
}

/* Ends pools of the path until it is within its limits. */
static void limit_path(struct core *c, const char *path, const struct queue_rec *q)
{
	for (;;) {
		uint32_t gpus, nodes;
		struct pool_rec *p;
		int over_nodes;
		TEXT(text);

		pools_idle(c, path, &gpus, &nodes);
		over_nodes = q->warm_nodes && nodes > q->warm_nodes;
		if (!over_nodes && !(q->warm_gpus && gpus > q->warm_gpus))
			return;
		p = oldest_idle(c, path, !over_nodes);
		if (!p)
			return;
		say_limit(&text, path, over_nodes ? q->warm_nodes : q->warm_gpus, over_nodes ? "node" : "gpu");
		pool_end(c, p, POOL_LIMIT, NULL, 0, text.at);
		if (!p->ended_us) /* the store refuses */
			return;
	}
}

void pools_limit(struct core *c, const char *account)
{
	char path[ACCOUNT_PATH];
	char *slash;

	snprintf(path, sizeof(path), "%s", account);
	do {
		const struct queue_rec *q = cluster_queue(&c->records, path);

		if (q && (q->warm_gpus || q->warm_nodes))
			limit_path(c, path, q);
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
}
