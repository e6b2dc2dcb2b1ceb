/*
 * retire: this node was removed from its cluster. hearthd says so, by a code of its own (ERR_GONE), to the
 * very certificate that was removed; no other refusal, and no failure to reach it, ends anything here.
 *
 * What still runs is killed, and its folders go, outputs included: no controller wants them any more. Then
 * the loop ends, and retire_is_done says whether all is gone; the caller then gives the certificate up
 * (join_leave). An agent that dies
 * before that is told the same again. RETIRE_MS is the deadline: what cannot be killed is tried again by the
 * next start.
 */
#ifndef HEARTH_AGENT_CONTROL_RETIRE_H
#define HEARTH_AGENT_CONTROL_RETIRE_H

#include "agent/base/agent_env.h"

#define RETIRE_MS 60000u

struct launches;
struct retire;

struct retire *retire_begin(struct agent_env *env, struct launches *launches, const char *why);
int retire_is_done(const struct retire *r); /* nothing is left of the launches; NULL: 0 */
void retire_destroy(struct retire *r);      /* NULL allowed */

#endif
