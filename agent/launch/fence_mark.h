/*
 * fence_mark: RUN/fenced, the launches that are being fenced.
 *
 * A fence kills first and writes each launch's state later. An agent that dies in between would leave
 * launches that look as if their programs had ended by a signal, or frozen ones that nobody ends. The list is
 * written before the first kill, and removed when all states are written; the next agent fences what it
 * finds in it.
 */
#ifndef HEARTH_AGENT_LAUNCH_FENCE_MARK_H
#define HEARTH_AGENT_LAUNCH_FENCE_MARK_H

#include "common/base/err.h"
#include "common/base/xalloc.h"
#include <stdint.h>

struct launch_host;

struct fence_mark {
	uint64_t at_us; /* boot */
	char *why;
	struct strv keys; /* "JOB.ATTEMPT" */
};

int fence_mark_save(const struct launch_host *host, const struct fence_mark *m, struct err *e);
/* 0: no list of this boot; m is empty then. fence_mark_fini in any case. */
int fence_mark_load(const struct launch_host *host, struct fence_mark *m);
int fence_mark_has(const struct fence_mark *m, const char *key);
void fence_mark_fini(struct fence_mark *m);
void fence_mark_remove(const struct launch_host *host);

#endif
