/*
 * pools: what people see of warm pools (docs/spec/15-pools.md) next to jobs and nodes.
 */
#ifndef HEARTH_JOBCTL_SHOW_POOLS_H
#define HEARTH_JOBCTL_SHOW_POOLS_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* Returns the time until the pool expires, "27m"; "-": no time runs. */
const char *pools_left(const cJSON *pool, char *out, size_t size);
/* Shows warm_pool of a job in a line; nothing if it leaves no pool. */
void pools_show_job(const cJSON *job);
/* Shows the pool that an attempt used, and the first thing that did not match. */
void pools_show_attempt(const cJSON *attempt);
/* Returns what did not match in a few words, "source differs"; malloc'ed. NULL: all matched. */
char *pools_missed_short(const cJSON *missed);
/* Returns what did not match, "source differs (had 1a2b, wants 3c4d)"; malloc'ed. */
char *pools_missed(const cJSON *missed);

#endif
