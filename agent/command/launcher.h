/*
 * launcher: the actions of each launcher on a node, in one table. The facts are in common/spec/launcher.h,
 * which also says how to add a launcher. Pure.
 */
#ifndef HEARTH_AGENT_COMMAND_LAUNCHER_H
#define HEARTH_AGENT_COMMAND_LAUNCHER_H

#include "agent/command/launcher_in.h"
#include "common/base/xalloc.h"
#include "common/spec/launcher.h"

struct launcher_actions {
	/* Add the command line of the launcher's process on the first node, and on the others. NULL: it has none
	 * there. */
	void (*first_argv)(const struct launcher_in *in, struct strv *out);
	void (*other_argv)(const struct launcher_in *in, struct strv *out);
	/* Adds variables to the environment of that process; NULL: none. */
	void (*add_env)(const struct launcher_in *in, struct strv *out);
	int bare_env;          /* that environment is without the job's variables; 0: as a rank's */
	const char *line_info; /* RUN_INFO kind that shows the line of the first node; NULL: not shown */
};

const struct launcher_actions *launcher_actions(enum spec_launcher id);

#endif
