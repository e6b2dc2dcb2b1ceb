/* simulate: shared by the two kinds of input, traces (simulate.c) and records of a cluster (replay.c). */
#ifndef HEARTH_JOBCTL_SIMULATE_H
#define HEARTH_JOBCTL_SIMULATE_H

#include "jobctl/jobctl.h"

/* The shortest text that reads back as the same number, and never one of another locale. */
cJSON *simulate_number(double v);
cJSON *simulate_whole(uint64_t v);
/* Begins the file as what `jobctl trace` writes? */
int replay_is(const char *path);
int replay_exec(struct ctx *c, const char *path);

#endif
