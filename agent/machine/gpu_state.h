/*
 * gpu_state: settings of GPUs that a job may change and the next one would find: power limit, compute mode,
 * MIG mode, application clocks. They are noted when a launch starts, and put back when it has ended.
 *
 * The driver does not tell locked clocks, so these cannot be put back. MIG mode needs a reset of the GPU, so
 * it is only compared. One thread does all of it in order: the driver of a sick GPU may not answer.
 */
#ifndef HEARTH_AGENT_MACHINE_GPU_STATE_H
#define HEARTH_AGENT_MACHINE_GPU_STATE_H

#include "agent/base/agent_env.h"
#include "agent/machine/gpu.h"
#include <stdint.h>

struct gpu_state;
/* nvml NULL: the GPUs are pretended ones. gpus must live as long. */
struct gpu_state *gpu_state_create(struct agent_env *env, struct nvml *nvml, const struct gpus *gpus);
int gpu_state_destroy(struct gpu_state *s); /* -1: its thread hangs in the driver; NULL allowed */
/* Writes the settings to the file `path`, soon. */
void gpu_state_note(struct gpu_state *s, const char *path, const uint32_t *gpus, uint32_t n);
/* Puts back what the file says. 0: ask again. 1: done; *why (malloc'ed) says what could not be put back, NULL
 * nothing. why NULL: nobody asks again. */
int gpu_state_put_back(struct gpu_state *s, const char *path, char **why);

#endif
