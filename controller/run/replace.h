/*
 * replace: a job between two attempts keeps its nodes, and waits for others in place of those that it gave
 * back. The record says which places it keeps (place_rec.kept); share/alloc.h has the scheduler's part.
 */
#ifndef HEARTH_CONTROLLER_RUN_REPLACE_H
#define HEARTH_CONTROLLER_RUN_REPLACE_H

#include "common/spec/spec.h"
#include "controller/state/jobs.h"

uint32_t replace_kept(const struct attempt_rec *a); /* how many places the job keeps */
/* The nodes that the next attempt has for sure, by rank; NULL: not known. names: one for each place. */
void replace_names(struct core *c, const struct cjob *j, const char **names);
/* Adds `keeps`: the node ranks whose places the job holds for its next attempt. A kept node that was lost or
 * drained since is left out. */
void replace_add_kept(struct core *c, const struct cjob *j, cJSON *d);
/* Asks for nodes in place of those that the job does not keep, for at most retry.wait_s. */
void replace_begin(struct core *c, struct cjob *j, const struct job_spec *spec);
/* Nodes changed, or the wait is over: queues the job then. */
void replace_review(struct core *c, struct cjob *j, const struct job_spec *spec);
/* The job gives back all that it kept, and waits in the queue. */
void replace_give_up(struct core *c, struct cjob *j, const struct job_spec *spec);

#endif
