/*
 * resolve: the checkpoint that an attempt begins with.
 */
#ifndef HEARTH_CONTROLLER_RUN_RESOLVE_H
#define HEARTH_CONTROLLER_RUN_RESOLVE_H

#include "common/base/text.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* Resolves `resume_from` of a specification. on: the nodes of the attempt. */
int resolve_resume(struct core *c, const struct job_spec *spec, const struct ckpt_nodes *on,
                   struct beginning *out, struct err *e);
/* Settles the beginning of a job's next attempt, in the form of job_rec.begins. *out is malloc'ed; NULL: the
 * specification decides. asked: "start", "step:N", or NULL for the newest checkpoint. */
int begins_settle(struct core *c, struct cjob *j, const char *asked, char **out, struct err *e);
/* Returns -1 when begins_settle could not meet that choice now; changes nothing. *k: the checkpoint; NULL
 * none is listed. */
int begins_check(struct core *c, struct cjob *j, const char *asked, const struct ckpt **k, struct err *e);
/* Adds words such as "goes on from step 6 of attempt 1". */
void begins_say(struct core *c, const struct cjob *j, const char *begins, struct text *out);
/* Finds what an attempt on these nodes begins with: what job_rec.begins says, or an older candidate where
 * that one cannot be used any more; an event names each that is passed over. A step that a user asked for has
 * none in its place: returns 1, and why it cannot be used. */
int begins_resolve(struct core *c, struct cjob *j, const struct job_spec *spec, const struct ckpt_nodes *on,
                   struct beginning *out, struct err *e);
/* The same for an attempt that has begun already, from its record. */
int begins_again(struct core *c, struct cjob *j, const struct job_spec *spec, struct beginning *out,
                 struct err *e);

#endif
