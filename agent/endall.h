/*
 * endall: `hearth-agent --end-launches`: ends what runs of this node's launches, without a controller.
 *
 * The launches are adopted as by any agent that starts, brought down by the ladder (TERM, grace, KILL), and
 * then their shims and the holders of their namespaces are ended, too. What stays in RUN and DATA tells the
 * next agent how they ended; outputs are taken away then. What it goes by is on record in RUN alone: shims by
 * pid, start time and boot id, control groups, the launch's mark.
 */
#ifndef HEARTH_AGENT_ENDALL_H
#define HEARTH_AGENT_ENDALL_H

#include "agent/base/agent_env.h"
#include <stdio.h>

/* Takes cfg's strings. On out one JSON object a line for each launch that had processes: {"job", "attempt",
 * "name", "processes", "left"}. The exit status: 0, or 1 when something is left or could not be looked at. */
int endall_run(struct agent_config *cfg, FILE *out);

#endif
