#include "tests/unit/agent/launch/parkkit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/proc.h"
#include "tests/lib/tap.h"

struct wanted {
	struct ctl_agent *a;
	uint64_t job;
	enum launch_state state;
};

static int has_state(struct ctl *c, void *arg)
{
	const struct wanted *w = arg;

	(void)c;
	return w->a->states[w->job] == w->state;
}

int park_wait(struct ctl_agent *g, uint64_t job, enum launch_state state)
{
	struct wanted w = {.a = g, .job = job, .state = state};

	if (ctl_wait(g->c, LONG, has_state, &w))
		return 1;
	tap_diag("%s: job %d has state %u, last text '%s'", g->name, (int)job, g->states[job],
	         g->launch ? g->launch->text : "");
	return 0;
}

int park_wait_all(struct park_pool *p, uint64_t job, enum launch_state state)
{
	for (uint32_t i = 0; p->nodes[i]; i++)
		if (!park_wait(p->nodes[i], job, state))
			return 0;
	return 1;
}

static void prepare(struct park_pool *p, uint64_t job, uint32_t attempt, const char *shell)
{
	uint32_t ranks[CTL_NODES], n = 0;
	cleanup_free char *spec = NULL;

	for (; p->nodes[n]; n++)
		ranks[n] = p->ranks;
	spec = p->spec ? xstrdup(p->spec)
	               : xasprintf("{\"name\":\"t\",\"command\":[\"/bin/sh\",\"-c\",\"%s\"],\"launcher\":\"%s\","
	                           "\"resources\":{\"instances\":%u,\"ranks_per_instance\":%u}}",
	                           shell, p->launcher, n, p->ranks);
	p->c->pool = p->id;
	ctl_prepare(p->c, spec, job, attempt, 1, p->nodes, ranks);
}

void park_all(struct park_pool *p)
{
	ctl_forget_reports(p->c);
	p->c->park = 1;
	prepare(p, p->id, p->parking, "echo of the parking");
	p->c->park = 0;
	ok(park_wait_all(p, p->id, LAUNCH_READY), "%s: a launch without a job is ready", p->launcher);
	for (uint32_t i = 0; p->nodes[i]; i++)
		ctl_go(p->nodes[i], p->id, p->parking, 1);
	ok(park_wait_all(p, p->id, LAUNCH_PARKED), "it is parked");
}

void park_take(struct park_pool *p, uint64_t job, const char *shell)
{
	p->c->parked = p->parking;
	prepare(p, job, 1, shell);
	p->c->parked = 0;
}

void park_go(struct park_pool *p, uint64_t job)
{
	for (uint32_t i = 0; p->nodes[i]; i++)
		ctl_go(p->nodes[i], job, 1, 1);
}

void park_clean(struct park_pool *p, uint64_t job, uint32_t attempt)
{
	for (uint32_t i = 0; p->nodes[i]; i++)
		ctl_collect(p->nodes[i], job, attempt, 1, 0);
	ok(park_wait_all(p, job, LAUNCH_CLEANED), "%d.%u is cleaned", (int)job, attempt);
}

const struct wm_proc_report *park_rank(const struct ctl_agent *g, uint64_t job, uint32_t rank)
{
	for (int i = 0; i < CTL_PROCS; i++) {
		const struct wm_proc_report *r = g->procs[i].r;

		if (r && r->job == job && r->kind == PROC_RANK && r->rank == rank)
			return r;
	}
	return NULL;
}

uint32_t park_exit_code(const struct ctl_agent *g, uint64_t job, uint32_t rank)
{
	const struct wm_proc_report *r = park_rank(g, job, rank);

	return r && r->state == PS_EXITED ? r->exit_code : 999;
}

int park_has_folder(const struct park_pool *p, const struct ctl_agent *g)
{
	cleanup_free char *path = xasprintf("%s/jobs/%d.%u", g->dir, (int)p->id, p->parking);

	return access(path, F_OK) == 0;
}

int park_processes(const struct park_pool *p, uint32_t node)
{
	cleanup_free char *token = xasprintf("token-%d-%d-%u-%u", (int)getpid(), (int)p->id, p->parking, node);

	return proc_count_env("HEARTH_TOKEN_LAUNCH", token, NULL) + proc_count_env("HEARTH_HOLD", token, NULL);
}
