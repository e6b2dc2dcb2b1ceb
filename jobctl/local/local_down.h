/*
 * local_down: `jobctl local down`, the verb.
 */
#ifndef HEARTH_JOBCTL_LOCAL_LOCAL_DOWN_H
#define HEARTH_JOBCTL_LOCAL_LOCAL_DOWN_H

struct ctx;
int local_exec_down(struct ctx *c);

#endif
