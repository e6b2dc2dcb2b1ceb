/*
 * inventory: what a node says of itself: as JSON in its row, and as the struct that decisions need.
 * Pure. The caller owns the struct's content and frees it by inv_fini.
 */
#ifndef HEARTH_CONTROLLER_RECORD_INVENTORY_H
#define HEARTH_CONTROLLER_RECORD_INVENTORY_H

#include <stdint.h>

#include "common/base/strutil.h"
#include "common/net/wire_msg.h"
#include "common/spec/spec.h"

/* What a node can do, from its inventory message. */
struct inv_gpu {
	uint32_t index, numa, link_group; /* as in struct sched_gpu */
	uint64_t memory_bytes;
	char *uuid, *model;
};
struct inv {
	char *address, *instance_type;
	uint32_t peer_port, port_lo, port_hi, cpus, slots, n_gpus;
	uint64_t memory_bytes, disk_bytes;
	double price_per_hour;
	struct inv_gpu *gpus;
	struct strv labels; /* "k=v" and features */
	char software[9];   /* digest of its versions: driver, Open MPI and the like */
	int known;
};

int inv_parse(struct inv *out, const char *json);
void inv_fini(struct inv *i);
char *inv_json(const struct wm_inventory *m);

#endif
