/*
 * ports: which master ports attempts use. What waits for a job uses none.
 */
#ifndef HEARTH_CONTROLLER_PARK_PORTS_H
#define HEARTH_CONTROLLER_PARK_PORTS_H

#include "controller/state/core_state.h"

void port_mark(struct core *c, uint32_t port, int delta); /* 0: none */
uint32_t master_port(struct core *c, uint64_t node_id);   /* one that nobody has marked */

#endif
