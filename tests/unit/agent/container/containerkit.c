/*
 * containerkit: see containerkit.h.
 */
#include "tests/unit/agent/container/containerkit.h"

#define READY_US 60000000u /* a deadline, not a time that is waited */

struct readiness {
	int called, rc;
	struct err why;
};

static void on_ready(int rc, const struct err *why, void *arg)
{
	struct readiness *r = arg;

	r->called++;
	r->rc = rc;
	r->why = *why;
}

static void no_limit(const char *text, int oom, void *arg)
{
	(void)text;
	(void)oom;
	(void)arg;
}

struct container_ops kit_ops = {.limit = no_limit, .ready = on_ready};

struct container *kit_container(struct agent_env *env, const struct container_params *p, struct err *e)
{
	uint64_t end = clock_boot_us(clock_real()) + READY_US;
	struct readiness r = {0};
	struct container *c = container_create(env, p, &kit_ops, &r, e);

	while (c && !r.called && clock_boot_us(clock_real()) < end)
		loop_run_once(env->loop, 100);
	if (!c || (r.called == 1 && r.rc == 0))
		return c;
	*e = r.why;
	container_destroy(c);
	return NULL;
}
