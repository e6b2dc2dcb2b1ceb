/*
 * packages: the Python packages that a job's interpreter finds, for the record of the run.
 */
#ifndef HEARTH_AGENT_STAGE_PACKAGES_H
#define HEARTH_AGENT_STAGE_PACKAGES_H

#include "agent/base/user.h"
#include "agent/link/data_link.h"

/* Lines "name==version" of the packages that the job's interpreter finds, asked of it by a thread, for
 * RUN_INFO "pip". text NULL: unknown, why says so. NULL when it could not be started (nothing is called
 * then). */
struct packages;
struct packages *stage_packages(struct agent_env *env, struct data_link *b, const char *venv_bin,
                                const struct launch_user *user,
                                void (*done)(const char *text, const char *why, void *arg), void *arg);
void packages_cancel(struct packages *p); /* void after done, as a stage's handle is */

#endif
