/*
 * ports: which master ports attempts and launches that wait use.
 */
#ifndef HEARTH_CONTROLLER_PARK_PORTS_H
#define HEARTH_CONTROLLER_PARK_PORTS_H

#include "controller/state/core_state.h"

void port_mark(struct core *c, uint32_t port, int delta); /* 0: none */
uint32_t master_port(struct core *c, uint64_t node_id);   /* one that nobody has marked */

#endif
