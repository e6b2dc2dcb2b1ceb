/*
 * retire: hearthd has removed this node from the cluster. hearthd says so by a code of its own (ERR_GONE),
 * to the very certificate that was removed. No other refusal, and no failure to reach hearthd, ends
 * anything here.
 *
 * The agent kills what runs and removes its folders, outputs included: no hearthd wants them. Then the loop
 * ends, retire_is_done says whether all is gone, and the caller gives the certificate up (join_leave). When
 * the agent dies before that, hearthd gives the next one the same answer. RETIRE_MS is the deadline: the
 * next start tries again what could not be killed.
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
