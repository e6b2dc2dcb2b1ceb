/*
 * suggest: the change with which a job would fit, as data and in words: the key of the specification and its
 * value.
 */
#ifndef HEARTH_CONTROLLER_REQUESTS_SUGGEST_H
#define HEARTH_CONTROLLER_REQUESTS_SUGGEST_H

#include "common/base/text.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* suggest.c: the cheapest change with which a job (j NULL: one that is not there, of that owner) would fit
 * now, or ever; into body ("change", unless NULL), and out, "; it would ...". 0: none, out is empty. */
int suggest(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner, int ever,
            cJSON *body, struct text *out);
/* suggest.c: the drained nodes that would have to be resumed for it to fit now, or (why says that the usable
 * nodes could never hold it) some day; into body ("resume") and out, after what suggest said there. */
void suggest_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    enum sched_why why, cJSON *body, struct text *out);

#endif
