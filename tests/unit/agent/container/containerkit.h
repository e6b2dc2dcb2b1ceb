/*
 * containerkit: containers of a test, made in one call.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_CONTAINER_CONTAINERKIT_H
#define HEARTH_TESTS_UNIT_AGENT_CONTAINER_CONTAINERKIT_H

#include "agent/container/container.h"

extern struct container_ops kit_ops; /* for container_adopt; limit: for a test to set, does nothing else */
/* container_create, and the loop until it is ready. NULL: it could not be made, and e says why. */
struct container *kit_container(struct agent_env *env, const struct container_params *p, struct err *e);

#endif
