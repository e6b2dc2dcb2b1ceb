/*
 * node_health: applies the failures of nodes (state/health.h): the scheduler prefers healthy nodes, and
 * users see the failures.
 */
#include "controller/share/node_health.h"

#include "common/base/json.h"
#include "controller/share/node_feed.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"
#include "controller/state/node_table.h"

uint32_t node_health(const struct core *c, const struct cnode *n)
{
	return health_level(&n->health, now_boot(c));
}

/* Follows S-131 and S-132. */
void node_health_note(struct core *c, struct cnode *n, enum health_event kind, const char *text)
{
	uint64_t now = now_boot(c), next;

	if (!n || n->r.state == NODE_REMOVED || n->r.drain) /* drained: an administrator works on it */
		return;
	health_add(&n->health, kind, text, now, now_real(c));
	next = health_next_us(&n->health, now);
	c->health.next_us = !c->health.next_us || next < c->health.next_us ? next : c->health.next_us;
	node_changed(c, n, 0);
}

/* Reports nodes that became healthier. Only placement needs the level, so no timer calls this. */
void node_health_review(struct core *c)
{
	uint64_t now = now_boot(c), next = UINT64_MAX;

	if (!c->health.next_us || now < c->health.next_us)
		return;
	for (struct cnode *n = node_first(c); n; n = node_next(n)) {
		uint64_t at = n->health.n ? health_next_us(&n->health, now) : UINT64_MAX;

		next = at < next ? at : next;
		if (n->in_sched)
			node_changed(c, n, 0);
	}
	c->health.next_us = next;
}

void node_health_json(const struct core *c, const struct cnode *n, cJSON *o)
{
	uint32_t count[HEALTH_KINDS];
	cJSON *t;

	health_count(&n->health, now_boot(c), count);
	json_add_u64(o, "doubt", node_health(c, n));
	if (!count[HEALTH_CONNECTION] && !count[HEALTH_LAUNCH] && !count[HEALTH_LOST]) {
		cJSON_AddNullToObject(o, "trouble");
		return;
	}
	t = cJSON_AddObjectToObject(o, "trouble");
	json_add_u64(t, "connections", count[HEALTH_CONNECTION]);
	json_add_u64(t, "launches", count[HEALTH_LAUNCH]);
	json_add_u64(t, "losses", count[HEALTH_LOST]);
	json_add_str(t, "last", n->health.last);
	json_add_time(t, "last_at", n->health.last_us);
}
