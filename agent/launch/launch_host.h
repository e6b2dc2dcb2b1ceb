/*
 * launch_host: what launches use of their agent. agent_core.c fills it before there are launches.
 */
#ifndef HEARTH_AGENT_LAUNCH_LAUNCH_HOST_H
#define HEARTH_AGENT_LAUNCH_LAUNCH_HOST_H

#include "agent/base/agent_env.h"
#include "agent/base/trash.h"
#include "agent/link/data_link.h"
#include "agent/link/outbox.h"
#include "agent/logs/tailer.h"
#include "agent/machine/inventory.h"
#include "common/os/proc.h"

struct env_ahead;
struct pools;
struct prefetch;
struct removals;
struct sweeper;

struct launch_host {
	struct agent_env *env;
	char *shim_path, *rank_path, *rsh_path; /* hearth-shim, hearth-rank, hearth-rsh */
	char *mpirun, *mpi_bin;                 /* NULL when this node has no Open MPI */
	char *park_path;                        /* hearth-park; NULL: no interpreter waits here */
	char *tools_bin;                        /* folder of hearth-ckpt; NULL unknown */
	char *ifname, *cidr;                    /* of the agent's address; NULL unknown */
	char *sock_path;                        /* RUN/agent.sock */
	const char *ca_pem;                     /* of this cluster; NULL when the agent is alone */
	char boot_id[PROC_BOOT_ID_SIZE];
	struct inventory *inv;
	struct data_link *link;
	struct trash *trash;
	struct tailer *tailer;
	struct outbox *outbox;
	struct removals *removals; /* of held checkpoints */
	struct sweeper *sweeper;
	struct prefetch *prefetch;   /* NULL: the agent is alone */
	struct env_ahead *env_ahead; /* likewise */
	struct pools *pools;         /* NULL: none are known */
	/* A parked launch became that of a job. */
	void (*launch_renamed)(uint64_t job, uint32_t attempt, uint64_t to_job, uint32_t to_attempt, void *arg);
	/* Asks hearthd again about the orteds of the launch, which run already. */
	void (*ask_orteds)(uint64_t job, uint32_t attempt, void *arg);
	/* The launch has ended or is forgotten: nobody answers its hearth-rsh any more. */
	void (*launch_over)(uint64_t job, uint32_t attempt, void *arg);
	void (*launches_changed)(void *arg); /* one came or was forgotten */
	void *arg;
};

#endif
