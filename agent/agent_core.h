/*
 * parts: all parts of one agent, for those that need each other. Created and destroyed by agent_core.c, in
 * this order.
 */
#ifndef HEARTH_AGENT_AGENT_CORE_H
#define HEARTH_AGENT_AGENT_CORE_H

#include "agent/base/agent_env.h"
#include "agent/data.h"

struct session;
struct guard;
struct peerport;
struct rshd;
struct launches;
struct outbox;
struct trash;
struct retire;

struct agent {
	struct agent_env env;
	int data_lock, run_lock;
	char *shim_path, *rank_path, *rsh_path; /* hearth-shim, hearth-rank, hearth-rsh */
	char *mpirun, *mpi_bin;                 /* NULL when this node has no Open MPI */
	char *ifname, *cidr;                    /* of the agent's address; NULL unknown */
	char *sock_path;                        /* RUN/agent.sock */
	char *ca_pem, *cert_path, *key_path, *ca_path;
	char boot_id[PROC_BOOT_ID_SIZE];
	uint32_t peer_port; /* as bound */
	struct inventory *inv;
	struct data_link *link;
	struct trash *trash;
	struct tailer *tailer;
	struct outbox *outbox;
	struct launches *launches;
	int adopted; /* what RUN has of launches is known */
	struct rshd *rshd;
	struct guard *guard;
	struct peerport *peerport;
	struct session *session;
	struct retire *retire; /* NULL: a member of the cluster, as far as is known */
	int removed;           /* the cluster has removed this node, and nothing is left of its launches */
};

/* Opens everything, adopts what runs; the loop is the caller's. NULL with e set. Takes cfg's strings. */
struct agent *agent_create(struct loop *loop, struct agent_config *cfg, struct err *e);
void agent_destroy(struct agent *a); /* launches go on */

#endif
