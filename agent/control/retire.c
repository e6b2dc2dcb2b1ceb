/*
 * retire: see retire.h.
 */
#include "agent/control/retire.h"

#include "agent/launch/launches.h"
#include "common/base/log.h"

#define STEP_US 100000u

struct retire {
	struct agent_env *env;
	struct launches *launches;
	struct loop_timer *timer;
	uint64_t end_us;
	int done;
};

static void discard_step(void *arg)
{
	struct retire *r = arg;
	uint32_t left = launches_discard(r->launches);

	if (left && clock_boot_us(r->env->clock) < r->end_us) {
		loop_timer_arm(r->timer, STEP_US);
		return;
	}
	r->done = left == 0;
	if (left)
		log_error("event=not_retired launches=%u text=\"something could not be ended; the next start tries "
		          "again\"",
		          left);
	loop_stop(r->env->loop);
}

struct retire *retire_begin(struct agent_env *env, struct launches *launches, const char *why)
{
	struct retire *r = xcalloc(1, sizeof(*r));

	log_error("event=removed node=%s launches=%u reason=\"%s\"", env->cfg.node, launches_count(launches),
	          why);
	r->env = env;
	r->launches = launches;
	r->end_us = clock_boot_us(env->clock) + RETIRE_MS * 1000ull;
	r->timer = loop_timer_create(env->loop, discard_step, r);
	launches_fence(launches, "this node was removed from the cluster");
	loop_timer_arm(r->timer, 0);
	return r;
}

int retire_is_done(const struct retire *r)
{
	return r && r->done;
}

void retire_destroy(struct retire *r)
{
	if (!r)
		return;
	loop_timer_destroy(r->timer);
	free(r);
}
