/*
 * suggest: the change with which a job would fit, as data and in words: the key of the specification and its
 * value, or drained nodes to resume.
 */
#ifndef HEARTH_CONTROLLER_REQUESTS_SUGGEST_H
#define HEARTH_CONTROLLER_REQUESTS_SUGGEST_H

#include "common/base/text.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* Finds the cheapest change with which a job would fit now, or ever. j NULL: a new job of that owner. Adds it
 * to body ("change", unless NULL) and to the empty out, "; it would ...". Returns 0 for none. */
int suggest(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner, int ever,
            cJSON *body, struct text *out);
/* Finds the drained nodes whose resuming makes the job fit now, or at all when why says that the usable nodes
 * can never hold it. Adds them to body ("resume") and to out, after the words of suggest. */
void suggest_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    enum sched_why why, cJSON *body, struct text *out);

#endif
