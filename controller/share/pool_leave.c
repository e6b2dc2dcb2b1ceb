/*
 * pool_leave: which attempts leave a warm pool, and what their nodes hear of pools.
 */
#include "controller/share/pools.h"

#include <string.h>

#include "common/base/json.h"
#include "controller/record/failure.h"
#include "controller/record/rec.h"
#include "controller/share/alloc.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* 1: the memory limit that the attempt passed is its own. */
static int is_own_limit(const struct cjob *j)
{
	return j->act->spec->memory_bytes > 0;
}

/* 1: the attempt failed by its own fault. Follows 15-pools.md. */
static int is_own_fault(const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	switch (a->cls) {
	case RC_USER_ERROR:
	case RC_TIMEOUT:
	case RC_COST:
		return 1;
	case RC_OOM:
		return is_own_limit(j);
	case RC_UNKNOWN:
		return a->exit_code > 0 && a->signal <= 0;
	default:
		return 0;
	}
}

/* 1: a line names broken hardware, whatever the end was. */
static int names_hardware(const struct attempt_rec *a)
{
	for (uint32_t i = 0; a->failures && i < a->failures->n; i++)
		if (a->failures->v[i].verdict == VERDICT_DRAIN)
			return 1;
	return 0;
}

/* 1: a line of its logs, or of a kernel, names a node as the cause of trouble. The signal of a rank alone
 * does not: hearthd ends the ranks of a stopped job by signals. */
static int names_node(const struct cjob *j)
{
	struct attempt_cause cause = attempt_cause(j->r.att, j->act->step_us);

	return names_hardware(j->r.att) ||
	       (cause.line && (cause.verdict == VERDICT_DRAIN || cause.verdict == VERDICT_MOVE));
}

/* 1: the newest attempt, whose outcome is known, leaves a pool. */
static int leaves_pool(const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	if (!j->act || j->act->spec->keep_alive_s <= 0 || !rec_launched(a) || rec_goes_on(&j->r) || names_node(j))
		return 0;
	if (a->outcome == OUT_SUCCEEDED)
		return 1;
	if (a->outcome == OUT_STOPPED)
		return j->r.wanted == WANT_STOP;
	return a->outcome == OUT_FAILED && is_own_fault(j);
}

void pool_release(struct core *c, struct cjob *j, const struct place_rec *p)
{
	struct place_rt *rt = place_rt(j, p);
	uint64_t warm = rt->warm;
	const struct pool_rec *pool;
	const struct cnode *n;

	alloc_release(c, j, p->node_id);
	rt->warm = 0;
	j->wants_no_pool = j->act->spec->keep_alive_s <= 0;
	if (leaves_pool(j) && !p->pool_bad && pool_leave(c, j, p))
		return;
	pool = cluster_pool(&c->records, warm);
	n = warm && !(pool && pool_part_on(pool, p->node_id)) ? node_by_id(c, p->node_id) : NULL;
	if (n) /* the part that it took out of a pool is no longer in use */
		pools_send(c, n);
}

/* pool: {"id", "nodes"}. */
static void note_places(const struct cjob *j, const cJSON *pool)
{
	const struct attempt_rec *a = j->r.att;
	const cJSON *v;

	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(pool, "nodes"))
		for (uint32_t i = 0; i < a->n_places; i++)
			if (cJSON_IsString(v) && strcmp(v->valuestring, a->places[i].node) == 0 &&
			    a->places[i].state < PLACE_CLEANED)
				j->act->rt[i].warm = json_whole(pool, "id", 0);
}

void pool_note_used(const struct cjob *j)
{
	cJSON *pool = j->r.att->pool ? cJSON_Parse(j->r.att->pool) : NULL;
	const cJSON *other;

	j->act->parked = (uint32_t)json_whole(pool, "parked", 0);
	note_places(j, pool);
	cJSON_ArrayForEach (other, cJSON_GetObjectItemCaseSensitive(pool, "others"))
		note_places(j, other);
	cJSON_Delete(pool);
}
