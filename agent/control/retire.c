/*
 * retire: see retire.h.
 */
#include "agent/control/retire.h"

#include "agent/launch/launches.h"
#include "common/base/log.h"

#define STEP_US 100000u

struct retire {
	struct agent *a;
	struct loop_timer *timer;
	uint64_t end_us;
};

static void step(void *arg)
{
	struct retire *r = arg;
	struct agent *a = r->a;
	uint32_t left = launches_discard(a->launches);

	if (left && clock_boot_us(a->env.clock) < r->end_us) {
		loop_timer_arm(r->timer, STEP_US);
		return;
	}
	a->removed = left == 0;
	if (left)
		log_error("event=not_retired launches=%u text=\"something could not be ended; the next start tries "
		          "again\"",
		          left);
	loop_stop(a->env.loop);
}

void retire_begin(struct agent *a, const char *why)
{
	if (a->retire)
		return;
	log_error("event=removed node=%s launches=%u reason=\"%s\"", a->env.cfg.node, launches_count(a->launches),
	          why);
	a->retire = xcalloc(1, sizeof(*a->retire));
	a->retire->a = a;
	a->retire->end_us = clock_boot_us(a->env.clock) + RETIRE_MS * 1000ull;
	a->retire->timer = loop_timer_create(a->env.loop, step, a->retire);
	launches_fence(a->launches, "this node was removed from the cluster");
	loop_timer_arm(a->retire->timer, 0);
}

void retire_destroy(struct retire *r)
{
	if (!r)
		return;
	loop_timer_destroy(r->timer);
	free(r);
}
