/*
 * node_feed: reports nodes to the scheduler library.
 *
 * A node gets work when it is up, not drained, its agent is connected and has sent its full report, it is
 * not suspect, and it has no stale launch.
 */
#include "controller/share/node_feed.h"

#include "common/base/hashtable.h"
#include "common/base/xalloc.h"
#include "controller/record/inventory.h"
#include "controller/share/instances.h"
#include "controller/share/node_health.h"
#include "controller/share/pools.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

static int would_work_undrained(const struct cnode *n)
{
	return n->r.state == NODE_UP && n->connected && n->synced && !n->suspect_since_us && !n->stale &&
	       n->inv.known;
}

static int is_usable(const struct cnode *n)
{
	return would_work_undrained(n) && !n->r.drain;
}

static void set_sched_node(struct core *c, struct cnode *n)
{
	struct strv labels = {0};
	struct sched_gpu *gpus;
	struct sched_node s;

	gpus = xcalloc(n->inv.n_gpus + 1, sizeof(*gpus));
	for (uint32_t i = 0; i < n->inv.n_gpus; i++)
		gpus[i] = (struct sched_gpu){n->inv.gpus[i].index, n->inv.gpus[i].model, n->inv.gpus[i].memory_bytes,
		                             n->inv.gpus[i].numa, n->inv.gpus[i].link_group};
	node_labels(c, n, &labels);
	s = (struct sched_node){
	    .id = n->r.id,
	    .name = n->name,
	    .instance_type = node_type(n),
	    .labels = (const char *const *)labels.v,
	    .slots = n->inv.slots,
	    .memory_bytes = n->inv.memory_bytes,
	    .disk_bytes = n->inv.disk_bytes,
	    .gpus = gpus,
	    .n_gpus = n->inv.n_gpus,
	    .usable = is_usable(n),
	    .spare = n->r.spare,
	    .price_per_hour = node_price(c, n),
	    .power_w = node_power(c, n),
	    .doubt = node_health(c, n),
	    .switch_name = node_label(n, "switch"),
	    .rack_name = node_label(n, "rack"),
	};
	sched_node_set(c->sched, &s);
	strv_fini(&labels);
	free(gpus);
	if (!n->in_sched) {
		n->in_sched = 1;
		reserve_node_came(c, n);
	}
	n->sched_usable = (uint8_t)is_usable(n);
	n->sched_spare = n->r.spare;
	n->sched_health = s.doubt;
	c->alloc.dirty = 1;
	c->alloc.recheck_avoiders = c->alloc.n_avoiders > 0;
	c->alloc.recheck_exchangers = c->alloc.n_exchangers > 0;
}

/* Reports the resources of a node, whether it accepts jobs, and whether only a drain prevents that. */
static void feed_node(struct core *c, struct cnode *n, int inventory_changed)
{
	if (n->r.state == NODE_REMOVED) {
		pools_leave_node(c, n, "the node was removed");
		if (n->in_sched)
			sched_node_remove(c->sched, n->r.id);
		n->in_sched = 0;
		return;
	}
	if (c->life.loaded && (n->r.state != NODE_UP || n->r.drain) && pool_first(c))
		pools_leave_node(c, n, n->r.drain ? "the node is drained" : "the node is lost");
	if (c->life.loaded && inventory_changed && n->inv.known)
		pools_reprice(c, n);
	if (n->inv.known && (!n->in_sched || inventory_changed || n->sched_usable != is_usable(n) ||
	                     n->sched_spare != n->r.spare || n->sched_health != node_health(c, n)))
		set_sched_node(c, n);
	else if (!is_usable(n)) /* it may be lost now */
		c->alloc.recheck_exchangers = c->alloc.n_exchangers > 0;
	if (n->in_sched)
		sched_node_drained(c->sched, n->r.id, n->r.drain && would_work_undrained(n));
}

void node_changed(struct core *c, struct cnode *n, int inventory_changed)
{
	if (!n->changed)
		DL_APPEND2(c->nodes.changed, n, changed_prev, changed_next);
	n->changed |= inventory_changed ? NODE_CHANGED_INVENTORY : NODE_CHANGED;
}

/* Touches the jobs that wait with kept places after nodes changed: a kept one may be lost or drained, and
 * nodes that were to be avoided may be all that are left. */
static void touch_exchangers(struct core *c)
{
	uint32_t n = 0;

	c->alloc.recheck_exchangers = 0;
	for (uint32_t i = 0; i < c->alloc.n_exchangers; i++) {
		struct cjob *j = job_find(c, c->alloc.exchangers[i]);

		if (!j || !sched_job_exchanges(c->sched, j->r.id))
			continue;
		c->alloc.exchangers[n++] = c->alloc.exchangers[i];
		job_touch(c, j);
		c->alloc.more = 1;
	}
	c->alloc.n_exchangers = n;
}

void node_feed(struct core *c)
{
	struct cnode *n;

	while ((n = c->nodes.changed)) {
		int inventory_changed = (n->changed & NODE_CHANGED_INVENTORY) != 0;

		DL_DELETE2(c->nodes.changed, n, changed_prev, changed_next);
		n->changed = 0;
		feed_node(c, n, inventory_changed);
	}
	if (c->alloc.recheck_exchangers)
		touch_exchangers(c);
}
