/*
 * endall: `hearth-agent --end-launches` ends the launches of this node without hearthd.
 *
 * It adopts the launches as any agent does, brings them down by the ladder (TERM, grace, KILL), and ends
 * their shims and the holders of their namespaces. Files in RUN and DATA show the next agent how they
 * ended; that agent uploads the outputs. The records in RUN alone say what to end: shims by pid, start time
 * and boot id, control groups, the launch's mark.
 */
#ifndef HEARTH_AGENT_ENDALL_H
#define HEARTH_AGENT_ENDALL_H

#include "agent/base/agent_env.h"
#include <stdio.h>

/* Takes cfg's strings. On out one JSON object a line for each launch that had processes: {"job", "attempt",
 * "name", "processes", "left"}. The exit status: 0, or 1 when something is left or could not be looked at. */
int endall_run(struct agent_config *cfg, FILE *out);

#endif
