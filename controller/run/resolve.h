/*
 * resolve: what a job refers to: results of earlier jobs, and the checkpoint an attempt begins with.
 */
#ifndef HEARTH_CONTROLLER_RUN_RESOLVE_H
#define HEARTH_CONTROLLER_RUN_RESOLVE_H

#include "common/base/text.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

/* refs.c. inputs and resume start empty; resume: what each node rank gets, the first also what those behind
 * the last get; NULL: not asked. */
int resolve_refs(struct core *c, const struct job_spec *spec, struct strv *inputs, struct strv *resume,
                 struct err *e);
/* What the next attempt of a job whose last has ended begins with, as job_rec.begins has it; *out malloc'ed,
 * NULL: what the specification says. asked: NULL where it stood, "start", "step:N". */
int begins_settle(struct core *c, const struct cjob *j, const char *asked, char **out, struct err *e);
int begins_parse(const char *text, uint32_t *attempt, int64_t *step); /* -1: it is what the spec. says */
/* "goes on from step 6 of attempt 1" */
void begins_say(struct core *c, const struct cjob *j, const char *begins, struct text *out);
/* As resume above, by that text. */
int begins_resolve(struct core *c, const struct cjob *j, const char *begins, const struct job_spec *spec,
                   struct strv *out, struct err *e);

#endif
