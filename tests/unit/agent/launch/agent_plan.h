/*
 * agent_plan: an order for tests: 3 nodes, 2 + 1 + 1 ranks, this node chosen by the caller.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_LAUNCH_AGENT_PLAN_H
#define HEARTH_TESTS_UNIT_AGENT_LAUNCH_AGENT_PLAN_H

#include "agent/command/plan.h"

static inline struct wm_prepare *test_prepare(const char *spec, uint32_t node_rank, const char *const *nodes,
                                              const char *const *addresses, const uint32_t *ranks,
                                              const char *const *groups)
{
	struct wm_prepare *m = xcalloc(1, sizeof(*m));
	struct wm_gang g = {0};

	m->job = 17;
	m->attempt = 2;
	m->epoch = 5;
	m->launch_id = xstrdup("17.2");
	m->token = xstrdup("launch-token-0001");
	m->account = xstrdup("ada");
	m->job_name = xstrdup("digits");
	g.spec = xstrdup(spec);
	m->node_rank = node_rank;
	for (unsigned i = 0; nodes[i]; i++) {
		wire_strv_add(&g.nodes, nodes[i]);
		wire_strv_add(&g.addresses, addresses[i]);
		wire_u32v_add(&g.ranks_per_node, ranks[i]);
		wire_strv_add(&g.groups, groups[i]);
	}
	m->gang = wire_share(WM_GANG, &g, NULL);
	wire_fini(WM_GANG, &g);
	m->master_port = 20100;
	m->port_lo = 20000;
	m->port_hi = 29999;
	m->bundle_digest = xstrdup("");
	m->resume_from = xstrdup("");
	m->resume_step = -1;
	m->skip_steps = xstrdup("");
	m->url = xstrdup("http://127.0.0.1:7070");
	m->job_token = xstrdup("job-token-secret");
	m->grace_ms = 30000;
	m->prepare_timeout_ms = 60000;
	return m;
}

#endif
