/*
 * resolve: references of a job: results of earlier jobs, and the checkpoint that an attempt begins with.
 */
#ifndef HEARTH_CONTROLLER_RUN_RESOLVE_H
#define HEARTH_CONTROLLER_RUN_RESOLVE_H

#include "common/base/text.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* Resolves the inputs and the checkpoint of a job. Both lists start empty. resume: one entry for each node
 * rank; ranks behind the last entry get the first one. NULL: not wanted. */
int resolve_refs(struct core *c, const struct job_spec *spec, struct strv *inputs, struct strv *resume,
                 struct err *e);
/* Settles the beginning of a job's next attempt, in the form of job_rec.begins. *out is malloc'ed; NULL: the
 * specification decides. asked: "start", "step:N", or NULL for the newest checkpoint. */
int begins_settle(struct core *c, const struct cjob *j, const char *asked, char **out, struct err *e);
/* Adds words such as "goes on from step 6 of attempt 1". */
void begins_say(struct core *c, const struct cjob *j, const char *begins, struct text *out);
/* Fills out as resolve_refs fills resume, according to begins. */
int begins_resolve(struct core *c, const struct cjob *j, const char *begins, const struct job_spec *spec,
                   struct strv *out, struct err *e);

#endif
