/*
 * packages: the Python packages that a job's interpreter finds, for the record of the run.
 */
#ifndef HEARTH_AGENT_STAGE_PACKAGES_H
#define HEARTH_AGENT_STAGE_PACKAGES_H

#include "agent/base/user.h"
#include "agent/link/data_link.h"

/* Asks the interpreter, on a thread, for lines "name==version", for RUN_INFO "pip". text NULL: unknown, and
 * why has the reason. Returns NULL when it could not start; nothing is called then. */
struct packages;
struct packages *stage_packages(struct agent_env *env, struct data_link *b, const char *venv_bin,
                                const struct launch_user *user,
                                void (*done)(const char *text, const char *why, void *arg), void *arg);
void packages_cancel(struct packages *p); /* the handle is void after done */

#endif
