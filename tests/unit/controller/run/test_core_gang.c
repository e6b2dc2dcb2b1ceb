/*
 * Large gangs: what the orders to all nodes of one launch take in the controller's memory grows with the
 * number of nodes, not with its square. 250 and 1,000 nodes; with HEARTH_SOAK=1 also 4,000. The figures are
 * printed.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/xalloc.h"
#include "common/net/wire.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

static size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static struct world *make(unsigned n)
{
	struct world *w = world_create(n);
	char name[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "node-%04u", i);
		world_agent_up(w, name, 0, 1);
	}
	world_forget(w);
	return w;
}

static uint64_t submit(struct world *w, unsigned n)
{
	char *spec = xasprintf("{\"command\": [\"/bin/true\"], \"notes\": \"%02000d\","
	                       "\"resources\": {\"instances\": %u, \"gpus_per_instance\": 0}}",
	                       1, n);
	uint64_t id = world_submit(w, spec);

	free(spec);
	return id;
}

/* Bytes a node that the recorded orders of a gang of n hold. */
static double order_bytes(unsigned n)
{
	struct world *w = make(n);
	const struct wire_shared *gang = NULL;
	struct sent *s;
	size_t before, after;
	unsigned shared = 0, orders = 0;

	is_int((int64_t)submit(w, n), 1, "a job on all of them");
	after = heap_bytes();
	DL_FOREACH (w->sent, s) {
		const struct wm_prepare *p = s->msg;

		if (s->type != WM_PREPARE)
			continue;
		gang = gang ? gang : p->gang;
		shared += p->gang == gang;
		orders++;
	}
	is_int(orders, n, "each node is told");
	is_int(shared, n, "all orders share one table");
	world_forget(w); /* what they hold is what this gives back, but for the table itself */
	before = heap_bytes();
	tap_diag("%u nodes: %zu bytes in orders, %.0f a node", n, after - before, (double)(after - before) / n);
	is_str(world_check(w), NULL, "all is well");
	world_destroy(w);
	return (double)(after - before) / n;
}

int main(void)
{
	double few = order_bytes(250), many = order_bytes(1000);

	if (few <= 0) /* an allocator that does not count, as sanitizers have */
		tap_skip("bytes a node: the allocator does not count");
	else
		ok(many < 1.25 * few, "with four times the nodes each takes as much as before (%.0f, %.0f)", few,
		   many);
	if (getenv("HEARTH_SOAK"))
		ok(order_bytes(4000) < 1.25 * few || few <= 0, "with sixteen times the nodes too");
	return tap_done();
}
