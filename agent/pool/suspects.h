/*
 * suspects: what this node has to tell hearthd against warm pools, until hearthd has it on record. A pool
 * that stays on a node with a fault there, because the agent died before it told, would take the next job.
 *
 * DATA/suspects/POOL.JOB has the text of each. Blocks a moment: they are rare.
 */
#ifndef HEARTH_AGENT_POOL_SUSPECTS_H
#define HEARTH_AGENT_POOL_SUSPECTS_H

#include "common/base/err.h"
#include <stdint.h>

int suspects_add(const char *data_dir, uint64_t pool, uint64_t job, const char *text, struct err *e);
/* Calls fn for each; it may remove that one. */
void suspects_each(const char *data_dir, void (*fn)(uint64_t pool, uint64_t job, const char *text, void *arg),
                   void *arg);
void suspects_told(const char *data_dir, uint64_t pool, uint64_t job);

#endif
