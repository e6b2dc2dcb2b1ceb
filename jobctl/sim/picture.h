/*
 * picture: a simulated run as SVG: use of the GPUs and length of the queue over time, waiting time by size of
 * job.
 */
#ifndef HEARTH_JOBCTL_SIM_PICTURE_H
#define HEARTH_JOBCTL_SIM_PICTURE_H
#include "common/base/err.h"
#include "scheduler/sim/sim.h"

int picture_write(const char *path, const struct sim_conf *conf, const struct sim_result *r, struct err *e);

#endif
