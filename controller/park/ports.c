/*
 * ports: see ports.h.
 */
#include "controller/park/ports.h"

#include "controller/state/node_table.h"

static uint32_t port_take(struct core *c, uint32_t lo, uint32_t hi)
{
	uint32_t n = hi >= lo ? hi - lo + 1 : 1;

	/* Continue behind the last port: a port that was just used may linger. If all ports are in use, the ranks
	 * report the error. */
	for (uint32_t i = 0; i < n; i++) {
		uint32_t p = lo + (c->ports.next++ % n);

		if (p <= 65535 && !c->ports.used[p])
			return p;
	}
	return lo;
}

void port_mark(struct core *c, uint32_t port, int delta)
{
	if (!port || port > 65535)
		return;
	if (delta > 0 && c->ports.used[port] < UINT16_MAX)
		c->ports.used[port]++;
	if (delta < 0 && c->ports.used[port])
		c->ports.used[port]--;
}

uint32_t master_port(struct core *c, uint64_t node_id)
{
	const struct cnode *n = node_by_id(c, node_id);

	if (n->inv.port_lo && n->inv.port_hi >= n->inv.port_lo)
		return port_take(c, n->inv.port_lo, n->inv.port_hi);
	return port_take(c, c->cfg.port_lo, c->cfg.port_hi);
}
