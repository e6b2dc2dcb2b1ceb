/*
 * keep_watch: the thread that finds and holds the checkpoints of a launch. Nothing of it touches a path that
 * the job controls: hearth-files does, as the job's account.
 */
#ifndef HEARTH_AGENT_KEEP_KEEP_WATCH_H
#define HEARTH_AGENT_KEEP_KEEP_WATCH_H

#include "agent/base/agent_env.h"
#include "agent/base/user.h"
#include "agent/base/worker.h"
#include "agent/keep/keep_index.h"
#include "agent/keep/recognise.h"

struct keep_watch;
struct keep_watch_params {
	struct agent_env *env;
	struct workers *workers;
	const struct launch_user *user;
	const char *ml, *held; /* the job's folder; DATA/held/J.A/files */
	const char *cpus;      /* "3,4"; "": any */
	uint64_t next_seq;
	const struct keep_index *known; /* what an earlier agent held */
};
struct keep_watch_ops { /* on the loop */
	void (*moment)(struct keep_moment *out, void *arg);
	void (*held)(struct keep_entry *en, void *arg);                  /* takes its texts */
	void (*torn)(struct keep_entry *en, const char *why, void *arg); /* takes its texts */
	void (*warn)(const char *key, const char *text, void *arg);
	void (*done)(void *arg); /* it has ended: after the end of the launch, or after a failure */
};
/* NULL when it could not start. */
struct keep_watch *keep_watch_start(const struct keep_watch_params *p, const struct keep_watch_ops *ops,
                                    void *arg, struct err *e);
void keep_watch_hurry(struct keep_watch *w); /* the moment is another one: look at once */
void keep_watch_cancel(struct keep_watch *w);

#endif
