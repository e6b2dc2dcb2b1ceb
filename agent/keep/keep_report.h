/*
 * keep_report: the report of a checkpoint to hearthd.
 */
#ifndef HEARTH_AGENT_KEEP_KEEP_REPORT_H
#define HEARTH_AGENT_KEEP_KEEP_REPORT_H

#include "agent/keep/keep_index.h"
#include "agent/link/outbox.h"

struct keep_launch {
	uint64_t job, epoch; /* epoch 0: an earlier launch; hearthd accepts of it only that one is gone */
	uint32_t attempt;
};
/* Sends the entry as it is now. text: why, NULL none. */
void keep_report(struct outbox *o, const struct keep_launch *l, const struct keep_entry *en,
                 const char *text);

#endif
