/*
 * inventory_int: between inventory.c and its parts.
 */
#ifndef HEARTH_AGENT_MACHINE_INVENTORY_INT_H
#define HEARTH_AGENT_MACHINE_INVENTORY_INT_H

#include "agent/machine/gpu.h"
#include "agent/machine/inventory.h"

/* The GPUs as INVENTORY tells them, a line each (docs/spec/10-node.md). */
void inventory_gpu_lines(const struct gpus *gpus, struct wire_strv *out);
void software_read(const struct gpus *gpus, struct strv *out);

/* RDMA devices (InfiniBand, RoCE, EFA): "NAME|link layer|rate|state" lines. */
void fabric_read(const char *sys_class_infiniband, struct strv *out);
int fabric_usable(const struct strv *fabrics);                     /* one of them is active */
void fabric_devices(const struct strv *fabrics, struct strv *out); /* device nodes */

/* Least of the machine's memory and what the cgroups of this process allow. */
uint64_t memory_total(void);
uint64_t memory_used(void);

#endif
