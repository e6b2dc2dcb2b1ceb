/*
 * agent_orders: what the controller of agent_ctl.h orders.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agent_ctl.h"

static void order(struct ctl_agent *a, uint16_t type, const void *msg)
{
	struct err e = {0};

	if (!a->control || peer_send(a->control, type, msg, 0, &e) < 0)
		tap_diag("%s: order not sent: %s", a->name, e.text);
}

static struct wire_shared *ctl_gang(const char *spec, const uint32_t *ranks, uint32_t n)
{
	struct wm_gang g = {.spec = xstrdup(spec)};
	struct wire_shared *s;
	char name[24];

	for (uint32_t k = 0; k < n; k++) {
		snprintf(name, sizeof(name), "algo-%u", k + 1);
		wire_strv_add(&g.nodes, name);
		wire_strv_add(&g.addresses, "127.0.0.1");
		wire_strv_add(&g.groups, "algo");
		wire_u32v_add(&g.ranks_per_node, ranks[k]);
	}
	s = wire_share(WM_GANG, &g, NULL);
	wire_fini(WM_GANG, &g);
	return s;
}

void ctl_prepare(struct ctl *c, const char *spec, uint64_t job, uint32_t attempt, uint64_t epoch,
                 struct ctl_agent *const *nodes, const uint32_t *ranks)
{
	const struct passwd *pw = getpwuid(geteuid());
	struct wire_shared *gang;
	uint32_t n = 0;

	memset(c->nodes, 0, sizeof(c->nodes));
	if (!c->parked) /* its orteds go on */
		memset(c->rsh, 0, sizeof(c->rsh));
	for (; nodes[n]; n++)
		c->nodes[n] = nodes[n];
	gang = ctl_gang(spec, ranks, n);
	for (uint32_t i = 0; i < n; i++) {
		char none[] = "", name[] = "test", id[64], token[64];
		struct wm_prepare m = {.job = job,
		                       .attempt = attempt,
		                       .epoch = epoch,
		                       .launch_id = id,
		                       .token = token,
		                       .account = c->owner ? (char *)(uintptr_t)c->owner
		                                  : pw     ? pw->pw_name
		                                           : none,
		                       .job_name = name,
		                       .node_rank = i,
		                       .master_port = 20000 + (uint32_t)(getpid() % 5000),
		                       .bundle_digest = none,
		                       .resume_from = none,
		                       .resume_step = -1,
		                       .skip_steps = none,
		                       .url = c->url,
		                       .job_token = name,
		                       .grace_ms = 1000,
		                       .prepare_timeout_ms = c->prepare_timeout_ms,
		                       .memory_bytes = c->memory_bytes,
		                       .disk_bytes = c->disk_bytes,
		                       .pool = c->pool,
		                       .pool_keep = (uint8_t)c->pool_keep,
		                       .park = (uint8_t)c->park,
		                       .parked = c->parked,
		                       .gang = gang};

		for (uint32_t k = 0; k < c->gpus; k++)
			wire_u32v_add(&m.gpus, k);
		snprintf(id, sizeof(id), "t%d.%llu.%u", (int)getpid(), (unsigned long long)job, attempt);
		snprintf(token, sizeof(token), "token-%d-%llu-%u-%u", (int)getpid(), (unsigned long long)job, attempt,
		         i);
		snprintf(id, sizeof(id), "t%d.%llu.%u.%u", (int)getpid(), (unsigned long long)job, attempt, i);
		order(nodes[i], WM_PREPARE, &m);
		free(m.gpus.v);
	}
	wire_unshare(gang);
}

void ctl_prepare_shell(struct ctl *c, struct ctl_agent *a, uint64_t job, uint32_t ranks, const char *shell)
{
	struct ctl_agent *const nodes[] = {a, NULL};
	cleanup_free char *spec =
	    xasprintf("{\"name\":\"t\",\"command\":[\"/bin/sh\",\"-c\",\"%s\"],\"launcher\":\"direct\","
	              "\"resources\":{\"instances\":1,\"ranks_per_instance\":%u}}",
	              shell, ranks);

	ctl_forget_reports(c);
	ctl_prepare(c, spec, job, 1, 1, nodes, &ranks);
}

void ctl_go(struct ctl_agent *a, uint64_t job, uint32_t attempt, uint64_t epoch)
{
	struct wm_launch_go m = {.job = job, .attempt = attempt, .epoch = epoch};

	order(a, WM_LAUNCH_GO, &m);
}

void ctl_pools(struct ctl_agent *a, uint64_t pool, uint64_t job)
{
	struct wm_pools m = {0};

	if (pool) {
		wire_u64v_add(&m.pools, pool);
		wire_u64v_add(&m.jobs, job);
		wire_u64v_add(&m.until_us, 0);
	}
	order(a, WM_POOLS, &m);
	wire_fini(WM_POOLS, &m);
}

void ctl_kill(struct ctl_agent *a, uint64_t job, uint32_t attempt, uint64_t epoch, uint32_t grace_ms)
{
	char reason[] = "test";
	struct wm_kill m = {
	    .job = job, .attempt = attempt, .epoch = epoch, .grace_ms = grace_ms, .reason = reason};

	order(a, WM_KILL, &m);
}

void ctl_collect(struct ctl_agent *a, uint64_t job, uint32_t attempt, uint64_t epoch, int keep)
{
	struct wm_collect m = {.job = job, .attempt = attempt, .epoch = epoch, .keep = (uint8_t)keep};

	order(a, WM_COLLECT, &m);
}
