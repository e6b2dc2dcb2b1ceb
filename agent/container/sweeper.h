/*
 * sweeper: kills what is left of launches, and proves that nothing is.
 *
 * A request names the control groups and the mark of one launch. A thread serves all requests that are there
 * in one round: it kills what is in all groups, then looks through /proc once for all marks and kills what it
 * finds. A request that comes during a round waits for the next one. The answer "none" therefore comes from a
 * look that began after the request and after the kill, and found nothing. A request with processes left gets
 * further rounds until its time is over.
 *
 * Everything but sweep_now is called on the loop, and waits for nothing.
 */
#ifndef HEARTH_AGENT_CONTAINER_SWEEPER_H
#define HEARTH_AGENT_CONTAINER_SWEEPER_H

#include "common/base/clock.h"
#include "common/os/loop.h"
#include <stdint.h>

#define SWEEP_MARK "HEARTH_TOKEN_LAUNCH" /* in the environment of each process of a launch */

struct container;
struct sweep_ask; /* one request */
struct sweeper;

struct sweep_params {
	const char *token;                 /* the mark; NULL unknown */
	const struct container *container; /* NULL none; the caller may destroy it before the answer */
	uint32_t timeout_ms;               /* until the answer, if something is left; 0: after one round */
	int urgent;                        /* the groups are killed or frozen now, also during a round */
	void (*done)(int left,
	             void *arg); /* once. left: processes, 0 none, -1 unknown. The handle is void then */
	void *arg;
};

struct sweeper *sweeper_create(struct loop *l, const struct clock *clock);
void sweeper_destroy(struct sweeper *s); /* drops all requests; NULL allowed */
struct sweep_ask *sweeper_ask(struct sweeper *s, const struct sweep_params *p);
void sweep_cancel(struct sweep_ask *w); /* done will not be called; NULL allowed */

/* The same on the caller's thread, for programs that may wait. Returns `left`. */
int sweep_now(const char *token, const struct container *c, uint32_t timeout_ms);

#endif
