/*
 * packages: the Python packages that a job's interpreter finds, for the record of the run.
 */
#ifndef HEARTH_AGENT_STAGE_PACKAGES_H
#define HEARTH_AGENT_STAGE_PACKAGES_H

#include "agent/link/data_link.h"
#include "agent/stage/inside.h"

/* Asks the interpreter, inside the launch's container, for lines "name==version", for RUN_INFO "pip": code of
 * the job's owner may run with it. text NULL: unknown, and why has the reason. Takes `in`. Returns NULL when
 * it could not start; nothing is called then. */
struct packages;
struct packages *stage_packages(struct data_link *b, const char *venv_bin, struct inside *in,
                                void (*done)(const char *text, const char *why, void *arg), void *arg);
void packages_stop(struct packages *p);      /* its program is killed, done follows */
int packages_busy(const struct packages *p); /* 1: its program may run */
void packages_cancel(struct packages *p);    /* done is not called; the handle is void, as it is after done */

#endif
