/*
 * launcher_in: what a launcher's command line and environment are made of on one node.
 */
#ifndef HEARTH_AGENT_COMMAND_LAUNCHER_IN_H
#define HEARTH_AGENT_COMMAND_LAUNCHER_IN_H

#include "agent/command/plan.h"

struct launcher_in {
	const struct plan *plan;
	const char *rsh, *rank; /* absolute paths of hearth-rsh, hearth-rank */
	const char *run_dir;    /* RUN/J.A, where hearth-rank finds the shims */
	const char *cidr;       /* network of this node's address; NULL: let the launcher choose */
	int as_root;            /* the job's account is root */
	int has_fabric;         /* RDMA, EFA ...: let Open MPI look for it */
};

#endif
