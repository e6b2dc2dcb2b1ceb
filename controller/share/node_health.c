/*
 * node_health: what went wrong with nodes (record/health.h) at work: the scheduler prefers healthy ones, and
 * people are told.
 */
#include "controller/share/node_health.h"

#include "common/base/json.h"
#include "controller/cluster/nodes.h"
#include "controller/record/health.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"

uint32_t node_doubt(const struct core *c, const struct cnode *n)
{
	return trouble_doubt(&n->trouble, now_boot(c));
}

/* Follows S-131 and S-132. */
void node_trouble(struct core *c, struct cnode *n, enum trouble_kind kind, const char *text)
{
	uint64_t now = now_boot(c), next;

	if (!n || n->state == NODE_REMOVED || n->drain) /* drained: somebody works on it */
		return;
	trouble_add(&n->trouble, kind, text, now, now_real(c));
	next = trouble_next_us(&n->trouble, now);
	c->trouble_next_us = !c->trouble_next_us || next < c->trouble_next_us ? next : c->trouble_next_us;
	node_update_sched(c, n, 0);
}

/* Who is trusted again by now. It matters only when something is placed, so no timer goes off for it. */
void troubles_review(struct core *c)
{
	uint64_t now = now_boot(c), next = UINT64_MAX;

	if (!c->trouble_next_us || now < c->trouble_next_us)
		return;
	for (struct cnode *n = c->nodes; n; n = n->hh.next) {
		uint64_t at = n->trouble.n ? trouble_next_us(&n->trouble, now) : UINT64_MAX;

		next = at < next ? at : next;
		if (n->in_sched)
			node_update_sched(c, n, 0);
	}
	c->trouble_next_us = next;
}

void node_trouble_json(const struct core *c, const struct cnode *n, cJSON *o)
{
	uint32_t count[TROUBLE_KINDS];
	cJSON *t;

	trouble_count(&n->trouble, now_boot(c), count);
	json_add_u64(o, "doubt", node_doubt(c, n));
	if (!count[TROUBLE_CONNECTION] && !count[TROUBLE_LAUNCH] && !count[TROUBLE_LOST]) {
		cJSON_AddNullToObject(o, "trouble");
		return;
	}
	t = cJSON_AddObjectToObject(o, "trouble");
	json_add_u64(t, "connections", count[TROUBLE_CONNECTION]);
	json_add_u64(t, "launches", count[TROUBLE_LAUNCH]);
	json_add_u64(t, "losses", count[TROUBLE_LOST]);
	json_add_str(t, "last", n->trouble.last);
	json_add_time(t, "last_at", n->trouble.last_us);
}
