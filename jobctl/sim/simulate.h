/* simulate: shared by the two kinds of input, traces (simulate.c) and records of a cluster (replay.c). */
#ifndef HEARTH_JOBCTL_SIM_SIMULATE_H
#define HEARTH_JOBCTL_SIM_SIMULATE_H
#include "jobctl/client/ctx.h"

extern const struct verb verbs_simulate[]; /* ends with a NULL name */
extern const struct verb verbs_watch_replay[];

/* The shortest text that reads back as the same number, and never one of another locale. */
cJSON *simulate_number(double v);
cJSON *simulate_whole(uint64_t v);
/* For people: at most six digits behind the point. Malloc'ed. */
char *simulate_short(const cJSON *v);
/* Reads a file of the caller's; one that is not there is a fault of usage. */
int simulate_read(struct ctx *c, const char *path, size_t most, char **text, size_t *n);
/* Begins the file as what `jobctl trace` writes? */
int simulate_is_record(const char *path);
int simulate_record(struct ctx *c, const char *path);

#endif
