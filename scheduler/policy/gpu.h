/* gpu: is a GPU such as a shape wants? Inline: a decision asks it of each GPU of a node several times. */
#ifndef HEARTH_SCHEDULER_POLICY_GPU_H
#define HEARTH_SCHEDULER_POLICY_GPU_H
#include <string.h>

#include "scheduler/model/job.h"
#include "scheduler/model/node.h"

/* empty: whether it is free or not. Follows S-111. */
static inline int gpu_fits(const struct gpu *g, const struct shape *sh, int empty)
{
	return g->present && (!g->owner || empty) && g->g.memory_bytes >= sh->gpu_memory &&
	       (!sh->gpu_model || strcmp(g->g.model, sh->gpu_model) == 0);
}

#endif
