/*
 * launch_facts: how a job is launched: what a launch that waits in a warm pool and a job must have in common
 * (docs/spec/15-pools.md). A record of it is a JSON object, whose keys are the fields that may differ.
 */
#ifndef HEARTH_CONTROLLER_STATE_LAUNCH_FACTS_H
#define HEARTH_CONTROLLER_STATE_LAUNCH_FACTS_H

#include <cjson/cJSON.h>

#include "common/spec/spec.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "scheduler/sched.h"

cJSON *launch_facts_of_attempt(const struct core *c, const struct cjob *j); /* the newest one */
cJSON *launch_facts_of_places(const struct core *c, const struct job_spec *s, const char *account,
                              const struct sched_place *places, uint32_t n);
/* Compares a record (NULL: unknown) with what a job wants. NULL: equal; else {"level", "field", "had",
 * "wants"} of the first difference, and "text" if it has another reason. */
cJSON *launch_facts_missed(const char *had, const cJSON *wants);
/* Returns 1 if the interpreters that wait fit a job whose launch does; else 0 with the first difference, NULL
 * when neither names modules. unusable: why no interpreter waits although the launch does; NULL none. */
int launch_has_interpreter(const char *had, const char *unusable, const cJSON *wants, cJSON **missed);
/* The level at which the next job of the same kind starts: "launch", or "interpreter". */
const char *launch_level(const cJSON *had, const char *unusable);
/* Why no interpreter waits, as a sentence for users; malloc'ed. unusable: as the agent reported it. */
char *launch_unusable_text(const char *unusable);
cJSON *launch_missed(const char *field, const cJSON *had, const cJSON *wants);

#endif
