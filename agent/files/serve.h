/*
 * serve: the side of hearth-files: it answers one request after the other until the agent closes the channel.
 * The process is the job's account by then (identity.h).
 */
#ifndef HEARTH_AGENT_FILES_SERVE_H
#define HEARTH_AGENT_FILES_SERVE_H

#include "agent/files/channel.h"

/* Returns at the end of the channel: 0; -1 why. */
int files_serve(int fd, struct err *e);
/* Says on the channel why this process does not serve. */
void files_refuse(int fd, const struct err *why);

#endif
