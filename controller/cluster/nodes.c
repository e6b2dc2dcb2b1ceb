/*
 * nodes: the records of nodes, and what the scheduler may know of them.
 *
 * A node gets work when it is up, its agent is connected and has reported everything it has, it is not
 * drained, and no launch is left on it that must not be there.
 */
#include "controller/cluster/nodes.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/cluster/peers.h"
#include "controller/record/inventory.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/share/instances.h"
#include "controller/share/node_health.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

static int but_for_drain(const struct cnode *n)
{
	return n->r.state == NODE_UP && n->connected && n->synced && !n->stale && n->inv.known;
}

static int usable(const struct cnode *n)
{
	return but_for_drain(n) && !n->r.drain;
}

static void set_node(struct core *c, struct cnode *n)
{
	struct strv labels = {0};
	struct sched_gpu *gpus;
	struct sched_node s;

	gpus = xcalloc(n->inv.n_gpus + 1, sizeof *gpus);
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
	    .usable = usable(n),
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
	n->sched_usable = (uint8_t)usable(n);
	n->sched_health = s.doubt;
	c->sched_dirty = 1;
	c->recheck_avoiders = c->n_avoiders > 0;
}

/* What it has, whether it takes jobs, and whether only a drain keeps it from that. */
void node_update_sched(struct core *c, struct cnode *n, int inventory_changed)
{
	if (n->r.state == NODE_REMOVED) {
		if (n->in_sched)
			sched_node_remove(c->sched, n->r.id);
		n->in_sched = 0;
		return;
	}
	if (n->inv.known && (!n->in_sched || inventory_changed || n->sched_usable != usable(n) ||
	                     n->sched_health != node_health(c, n)))
		set_node(c, n);
	if (n->in_sched)
		sched_node_drained(c->sched, n->r.id, n->r.drain && but_for_drain(n));
}

void on_inventory(struct core *c, struct cnode *n, const struct wm_inventory *m)
{
	char *text = inv_json(m);
	struct inv now;
	cJSON *d;

	if (n->r.inventory && strcmp(n->r.inventory, text) == 0) {
		free(text);
		return;
	}
	if (inv_parse(&now, text) < 0) {
		free(text);
		return;
	}
	inv_fini(&n->inv);
	n->inv = now;
	c->peers_gen++;
	peers_changed(c);
	d = cJSON_CreateObject();
	json_add_str(d, "node", n->name);
	json_add_str(d, "address", n->inv.address);
	json_add_u64(d, "slots", n->inv.slots);
	json_add_u64(d, "gpus", n->inv.n_gpus);
	json_add_u64(d, "memory_bytes", n->inv.memory_bytes);
	cluster_post(c, EV_INVENTORY, d);
	free(n->r.inventory);
	n->r.inventory = text;
	node_update_sched(c, n, 1);
	log_info("event=inventory node=%s slots=%u gpus=%u", n->name, n->inv.slots, n->inv.n_gpus);
}
