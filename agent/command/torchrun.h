/*
 * torchrun: the command line of torchrun on each node, and what its ranks need of its environment. Pure.
 */
#ifndef HEARTH_AGENT_COMMAND_TORCHRUN_H
#define HEARTH_AGENT_COMMAND_TORCHRUN_H

#include "agent/command/launcher_in.h"
#include "common/base/xalloc.h"

/* Adds `python3 -m torch.distributed.run ... --no_python RANK`; RANK: hearth-rank. */
void torchrun_argv(const struct launcher_in *in, struct strv *out);
/* Adds the variables by which hearth-rank finds its shim. */
void torchrun_env(const struct launcher_in *in, struct strv *out);

#endif
