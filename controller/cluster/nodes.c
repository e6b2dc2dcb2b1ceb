/*
 * nodes: takes over the inventory that an agent reports.
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
#include "controller/share/node_feed.h"
#include "controller/share/node_health.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

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
	c->peers.gen++;
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
	node_changed(c, n, 1);
	log_info("event=inventory node=%s slots=%u gpus=%u", n->name, n->inv.slots, n->inv.n_gpus);
}
