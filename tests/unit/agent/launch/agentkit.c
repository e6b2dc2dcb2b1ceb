#include "tests/unit/agent/launch/agentkit.h"

#include <stdio.h>

#include "agent/control/guard.h"
#include "agent/link/data_link.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_plan.h"

static const char spec[] =
    "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": {\"instances\": 3, "
    "\"ranks_per_instance\": 2}, \"metrics\": [{\"name\": \"loss\", \"regex\": \"loss=(\\\\S+)\"}, "
    "{\"name\": \"step\", \"regex\": \"step (\\\\d+)\"}]}";

struct plan *agentkit_plan(void)
{
	static const char *const nodes[] = {"algo-1", "algo-2", "algo-3", NULL};
	static const char *const groups[] = {"", "", "", NULL};
	static const char *const addresses[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", NULL};
	static const uint32_t ranks[] = {2, 2, 2};
	struct err e;
	struct plan *p = plan_create(test_prepare(spec, 1, nodes, addresses, ranks, groups), &e);

	if (!p)
		tap_bail("plan: %s", e.text);
	return p;
}

struct agent *agentkit_open(const char *dir)
{
	struct agent *a = xcalloc(1, sizeof(*a));
	cleanup_free char *launch = xasprintf("%s/run/17.2", dir), *data = xasprintf("%s/data/jobs/17.2", dir);
	struct err e;

	if (fs_mkdir_p(launch, 0700, &e) < 0 || fs_mkdir_p(data, 0700, &e) < 0)
		tap_bail("%s", e.text);
	a->env.loop = loop_create();
	a->host.env = &a->env;
	a->env.clock = clock_real();
	a->env.cfg.controller = xstrdup("http://127.0.0.1:1");
	a->env.cfg.run_dir = xasprintf("%s/run", dir);
	a->env.cfg.data_dir = xasprintf("%s/data", dir);
	a->env.cfg.node = xstrdup("algo-2");
	snprintf(a->host.boot_id, sizeof(a->host.boot_id), "b0");
	a->host.link = data_link_create(&a->env, "", "", "");
	return a;
}

struct guard *agentkit_guard(struct agent *a)
{
	struct guard_parts parts = {.env = &a->env, .boot_id = a->host.boot_id};

	return guard_create(&parts, NULL, NULL);
}

void agentkit_close(struct agent *a)
{
	data_link_destroy(a->host.link);
	loop_destroy(a->env.loop);
	free(a->env.cfg.controller);
	free(a->env.cfg.run_dir);
	free(a->env.cfg.data_dir);
	free(a->env.cfg.node);
	free(a);
}
