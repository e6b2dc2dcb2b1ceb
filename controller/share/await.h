/*
 * await: jobs that wait for other jobs ("after" in job.json).
 */
#ifndef HEARTH_CONTROLLER_SHARE_AWAIT_H
#define HEARTH_CONTROLLER_SHARE_AWAIT_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* await.c. await_check, at submit: -1 refused; note says what it waits for, empty when for nothing. */
int await_check(struct core *c, const struct job_spec *s, char *note, size_t n, struct err *e);
/* What is open; deps has room for SPEC_MAX_AFTER. never: one that can never be; then deps is not complete. */
int await_fill(struct core *c, const struct job_spec *s, struct sched_dep *deps, uint32_t *n,
               const struct spec_after **never, struct err *e);
/* The same for a job that goes to the queue. -1: it does not, it was stopped or held with the reason. */
int await_queue(struct core *c, struct cjob *j, const struct job_spec *s, struct sched_dep *deps,
                uint32_t *n);
int await_settle(struct core *c); /* events of what was settled since; 0: there is more */

#endif
