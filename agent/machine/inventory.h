/*
 * The room machine: what this node has: CPUs, memory, disks, GPUs, networks, software. It looks and
 * changes nothing but the settings of GPUs that a job has changed (gpu_state.h).
 *
 * inventory: all of that in one object, as hearthd gets it and as launches ask for it.
 */
#ifndef HEARTH_AGENT_MACHINE_INVENTORY_H
#define HEARTH_AGENT_MACHINE_INVENTORY_H

#include "agent/base/agent_env.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include <stdint.h>

struct inventory;
struct inventory *inventory_create(
    struct agent_env *env, struct err *e); /* CPUs, memory, disk, hwloc, fabrics, GPUs (NVML or fake) */
void inventory_destroy(struct inventory *inv);
void inventory_fill(struct inventory *inv,
                    struct wm_inventory *m);                   /* owned parts: wire_fini(WM_INVENTORY, m) */
void inventory_beat(struct inventory *inv, struct wm_beat *m); /* cheap; owned parts as above */
/* Picks `want` of the allowed CPUs, those nearest to these GPUs; else the first ones. Returns their number.
 */
uint32_t inventory_cpus_near(struct inventory *inv, const uint32_t *gpus, uint32_t n_gpus,
                             const uint32_t *cpus, uint32_t n_cpus, uint32_t want, uint32_t *out);
/* Returns the CPU of this machine behind a slot of the node. */
uint32_t inventory_slot_cpu(struct inventory *inv, uint32_t slot);
/* Returns the value for CUDA_VISIBLE_DEVICES (UUIDs or indexes), malloc'ed; "" without GPUs. */
char *inventory_visible_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n);
/* Adds the device nodes that the container may open for these GPUs. */
void inventory_devices(struct inventory *inv, const uint32_t *gpus, uint32_t n, struct strv *out);
/* Returns 0 when memory of one of these GPUs is still in use (*gpu, *used), by a sample that was begun at
 * since_us (boot) or later, or before the first such sample: ask again, the next one is on its way. 1: of
 * none, or the driver does not answer. Some memory is the driver's own. */
int inventory_gpus_idle(struct inventory *inv, const uint32_t *gpus, uint32_t n, uint64_t since_us,
                        uint32_t *gpu, uint64_t *used);
struct gpu_state;
struct gpu_state *inventory_gpu_state(struct inventory *inv); /* gpu_state.h; NULL: it has no GPU */
int inventory_has_fabric(const struct inventory *inv);
/* Adds "k=v" lines: kernel, driver, CUDA, NCCL when found, Open MPI version, Python. */
void inventory_software(struct inventory *inv, struct strv *out);

#endif
