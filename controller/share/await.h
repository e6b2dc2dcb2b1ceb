/*
 * await: jobs that wait for other jobs ("after" in job.json).
 */
#ifndef HEARTH_CONTROLLER_SHARE_AWAIT_H
#define HEARTH_CONTROLLER_SHARE_AWAIT_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* Checks a submit: -1 refused. note: what the job waits for; empty: nothing. */
int await_check(struct core *c, const struct job_spec *s, char *note, size_t n, struct err *e);
/* Fills the open waits; deps has room for SPEC_MAX_AFTER. never: a wait that cannot end; deps is then
 * incomplete. */
int await_fill(struct core *c, const struct job_spec *s, struct sched_dep *deps, uint32_t *n,
               const struct spec_after **never, struct err *e);
/* The same for a job that is queued. -1: the job was stopped or held with a reason instead. */
int await_queue(struct core *c, struct cjob *j, const struct job_spec *s, struct sched_dep *deps,
                uint32_t *n);
int await_settle(struct core *c); /* posts events of settled waits; 0: more are left */

#endif
