/*
 * rsh: starts an orted on another node for mpirun (hearth-rsh).
 */
#ifndef HEARTH_CONTROLLER_RUN_RSH_H
#define HEARTH_CONTROLLER_RUN_RSH_H

#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

void rsh_request(struct core *c, struct cnode *n, const struct wm_rsh_request *m);
void rsh_cancel(struct core *c, const struct wm_rsh_cancel *m);
void rsh_orted(struct core *c, struct cjob *j, uint32_t place, const struct wm_proc_report *m);
void rsh_resend(struct core *c, struct cjob *j, uint32_t place);
void rsh_lost(struct core *c, struct cjob *j, uint32_t place);

#endif
