/*
 * retire: this node was removed from its cluster. hearthd says so, by a code of its own (ERR_GONE), to the
 * very certificate that was removed; no other refusal, and no failure to reach it, ends anything here.
 *
 * What still runs is killed, and its folders go, outputs included: no controller wants them any more. Then
 * the loop ends and a->removed is set; the caller gives the certificate up (join_leave). An agent that dies
 * before that is told the same again. RETIRE_MS is the deadline: what cannot be killed is tried again by the
 * next start.
 */
#ifndef HEARTH_AGENT_RETIRE_H
#define HEARTH_AGENT_RETIRE_H

#include "agent/agent_core.h"

#define RETIRE_MS 60000u

void retire_begin(struct agent *a, const char *why); /* once more is fine */
void retire_destroy(struct retire *r);               /* NULL allowed */

#endif
