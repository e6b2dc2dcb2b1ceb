/*
 * inside: runs a program for a launch in the launch's container, by a shim. Blocks: for threads.
 *
 * pip, setup.py and the job's interpreter execute code of the job's owner. They get what a rank gets: the
 * launch's control groups, namespaces, devices, account and mark. The shim ends with them whatever they leave
 * behind, and when this thread or the agent goes away.
 *
 * One program runs at a time. The launch's end stops them (inside_stop) and waits until none runs.
 */
#ifndef HEARTH_AGENT_STAGE_INSIDE_H
#define HEARTH_AGENT_STAGE_INSIDE_H

#include "agent/base/last_line.h"
#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "shim/shim.h"
#include <stddef.h>
#include <stdint.h>

struct inside;
/* dir: of the shim; logdir: of the output; both are made and removed with each program. Takes order: all of
 * it but command, environment and folder. */
struct inside *inside_create(const char *shim_path, const char *dir, const char *logdir,
                             struct shim_launch *order);
void inside_destroy(struct inside *in); /* NULL allowed */
/* On any thread: no program starts from now on, and one that runs is killed. */
void inside_stop(struct inside *in);
/* 1: a program may run. After inside_stop a 0 is for good. */
int inside_busy(const struct inside *in);

struct inside_run {
	const char *const *argv; /* argv[0] absolute */
	const struct strv *env;  /* the launch's mark is added */
	const char *cwd;
	uint64_t timeout_ms;
	void (*output)(const char *p, size_t n, void *arg); /* stdout and stderr; may be NULL */
	int (*tick)(uint64_t silent_ms, void *arg); /* each second: how long it has said nothing; -1 kills it */
	void *arg;
	/* results */
	char last_line[LAST_LINE_MAX]; /* as in last_line.h */
	char note[LAST_LINE_MAX];      /* what its shim says about the end, as of a lack of memory; "" nothing */
};
/* 0 and it succeeded; else -1: ERR_IO with its exit status or signal, ERR_TIMEOUT, ERR_UNAVAILABLE (tick, or
 * inside_stop), or why it did not start. Nothing that it started lives any more. */
int inside_run(struct inside *in, struct inside_run *r, struct err *e);

#endif
