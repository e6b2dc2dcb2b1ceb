/*
 * node_table: see node_table.h.
 */
#include "controller/state/node_table.h"

#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/net/wire.h"
#include "controller/record/cluster.h"
#include "controller/record/inventory.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

#define ALIKE_MAX     1000u /* names to compare at most: this runs on the state thread */
#define SKEW_SMALL_US 100000ull
#define SKEW_LARGE_US 1000000ull

void nodes_open(struct core *c)
{
	c->records.size[CLUSTER_NODE] = sizeof(struct cnode);
}

struct cnode *node_find(const struct core *c, const char *name)
{
	return (struct cnode *)cluster_node(&c->records, name);
}

struct cnode *node_by_id(const struct core *c, uint64_t id)
{
	struct cnode *n;

	HASH_FIND(hh_id, c->nodes.by_id, &id, sizeof(id), n);
	return n;
}

void node_attach(struct core *c, struct cnode *n)
{
	if (!n->r.id)
		n->r.id = ++c->nodes.last_id;
	n->name = n->r.head.name;
	HASH_ADD(hh_id, c->nodes.by_id, r.id, sizeof(n->r.id), n);
}

int node_unknown(const struct core *c, const char *name, struct err *e)
{
	const char *known[ALIKE_MAX + 1], *near;
	size_t k = 0;

	for (const struct cnode *n = node_first(c); n && k < ALIKE_MAX; n = node_next(n))
		if (n->r.state != NODE_REMOVED)
			known[k++] = n->name;
	known[k] = NULL;
	near = str_nearest(name, known);
	err_set(e, ERR_NOT_FOUND, "there is no node \"%.100s\"%s%s%s; jobctl nodes lists them", name,
	        near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
	return -1;
}

void told_fini(struct told *t)
{
	free(t->ids);
	*t = (struct told){0};
}

void node_detach(struct core *c, struct cnode *n)
{
	struct stale *s, *t;

	HASH_DELETE(hh_id, c->nodes.by_id, n);
	LL_FOREACH_SAFE (n->stale, s, t)
		free(s);
	inv_fini(&n->inv);
	told_fini(&n->held);
	told_fini(&n->sent);
	free(n->look);
	free(n->ahead);
	free(n->gpu_util.v);
	free(n->gpu_memory_used.v);
	free(n->jobs);
	free(n->collects);
}

static void list_add(struct cjob ***v, uint32_t *n, uint32_t *cap, struct cjob *j)
{
	for (uint32_t i = 0; i < *n; i++)
		if ((*v)[i] == j)
			return;
	if (*n == *cap) {
		*cap = *cap ? *cap * 2 : 8;
		*v = xreallocarray(*v, *cap, sizeof(**v));
	}
	(*v)[(*n)++] = j;
}

static void list_del(struct cjob **v, uint32_t *n, const struct cjob *j)
{
	for (uint32_t i = 0; i < *n; i++) {
		if (v[i] != j)
			continue;
		v[i] = v[--*n];
		return;
	}
}

void node_job_add(struct cnode *n, struct cjob *j)
{
	if (j->looks_back)
		list_add(&n->collects, &n->n_collects, &n->cap_collects, j);
	else
		list_add(&n->jobs, &n->n_jobs, &n->cap_jobs, j);
}

void node_job_del(struct cnode *n, const struct cjob *j)
{
	if (j->looks_back)
		list_del(n->collects, &n->n_collects, j);
	else
		list_del(n->jobs, &n->n_jobs, j);
}

uint64_t node_time(const struct cnode *n, uint64_t us)
{
	int64_t off = n->ahead_us < 0 ? -n->ahead_us : n->ahead_us;

	/* Clocks that are kept by a service agree better than can be measured here: their times stay as reported.
	 */
	if (!us || !n->ahead_error_us || (uint64_t)off <= SKEW_SMALL_US + n->ahead_error_us)
		return us;
	return n->ahead_us > 0 && us <= (uint64_t)n->ahead_us ? 1 : us - (uint64_t)n->ahead_us;
}

int node_skewed(const struct cnode *n)
{
	int64_t off = n->ahead_us < 0 ? -n->ahead_us : n->ahead_us;

	return n->ahead_error_us && (uint64_t)off > SKEW_LARGE_US + n->ahead_error_us;
}

int node_outdated(const struct cnode *n)
{
	return n->connected && n->version && !wire_settle(n->version);
}

const char *node_outdated_text(const struct cnode *n, struct text *t)
{
	unsigned present = wire_present();

	text_add(
	    t,
	    "upgrade %s: the agent speaks version %u of the protocol, hearthd %u and %u; its ranks go on, but it "
	    "gets no orders",
	    n->version < present ? "this agent" : "hearthd", n->version, present - 1, present);
	return t->at;
}
