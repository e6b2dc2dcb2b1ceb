/* refs: inputs that are results of earlier jobs ("job:17/model"). */
#ifndef HEARTH_CONTROLLER_STATE_REFS_H
#define HEARTH_CONTROLLER_STATE_REFS_H

#include "controller/state/jobs.h"

/* "job:17/model" -> 17, "model"; "job:17" -> 17, def (NULL: refused). */
int ref_parse(const char *uri, const char *def, uint64_t *job, char *kind, size_t kind_size, struct err *e);
/* Adds to the list, which starts empty, the digest or uri of each input that is a reference, and "" for each
 * other one. */
int refs_resolve(struct core *c, const struct job_spec *spec, struct strv *inputs, struct err *e);

#endif
