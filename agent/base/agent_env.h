/*
 * agent: boundaries between the two halves of hearth-agent. Control (session, lease, launches, adoption,
 * kill) drives; data (inventory, container, staging, upload, log tailing, data link) serves. One loop;
 * blocking work (copying, hashing, downloading) is done by worker threads which post results back by chan.
 *
 * Directories of one launch (job J, attempt A; paths are short because of unix sockets):
 * - RUN/J.A/ on tmpfs, 0700: plan (what was ordered), and a folder for each process with launch, state, ctl:
 *   rank-L/ (L: local rank), orted/, mpirun/
 * - DATA/jobs/J.A/: ml/{code,input/config,input/data/CHANNEL,model,output/data,output,checkpoints}, tmp/,
 *   shm/, logs/STREAM/
 * - DATA/cache/{blobs,trees,inputs,venvs}
 *
 * RUN is /run/hearth/NAME as root, else $XDG_RUNTIME_DIR/hearth/NAME, else /tmp/hearth-UID/NAME, or --run;
 * NAME = node name, cut short, and a digest of node name and DATA, so that two agents of one name on one
 * machine do not meet. Where there are namespaces the container shows DATA/jobs/J.A/ml as /opt/ml; else ranks
 * get the real path in SM_* and HEARTH_* variables.
 */
#ifndef HEARTH_AGENT_BASE_AGENT_ENV_H
#define HEARTH_AGENT_BASE_AGENT_ENV_H

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/xalloc.h"
#include "common/net/wire_msg.h"
#include "common/os/loop.h"
#include "common/os/proc.h"
#include "common/spec/spec.h"
#include <stdint.h>
#include <sys/types.h>

struct agent_config {
	char *controller; /* URL */
	char *data_dir, *run_dir;
	char *node;    /* --name, default the host name */
	char *address; /* --address: where other nodes reach this one */
	char *interface_name, *fabric_interface;
	uint32_t peer_port;        /* 0 = any */
	uint32_t port_lo, port_hi; /* --ports, for MASTER_PORT; 0 = 20000-29999 */
	char *instance_type;
	double price_per_hour;
	struct strv labels;
	uint32_t slots; /* 0 = CPUs this process may use */
	char *kmsg;
	char *fake_gpus;        /* NULL none; number or file */
	char *libexec_dir;      /* where hearth-shim, hearth-rank, hearth-rsh are; next to the agent's binary in a
	                           build tree */
	int no_namespaces;      /* launches see the host's /tmp, /dev/shm and no /opt/ml */
	int alone;              /* only ends what runs of its launches: no controller, no neighbours (endall.h) */
	uint64_t log_max_bytes; /* per stream on this node; 0 = 1 GiB */
};

struct agent_env { /* shared by all parts of the agent */
	struct loop *loop;
	const struct clock *clock;
	struct agent_config cfg;
	int is_root;
	uint64_t instance;
	struct place *place; /* container.c: what it found out about this machine; NULL: nothing yet */
};

/* Where things of one launch are, and who it runs as. */
struct launch_paths {
	char *run;     /* RUN/J.A */
	char *work;    /* DATA/jobs/J.A */
	char *ml;      /* DATA/jobs/J.A/ml: real path */
	char *ml_seen; /* what the ranks see: /opt/ml in a container, else ml */
};
struct launch_user {
	uid_t uid;
	gid_t gid;
	char *name, *home, *shell; /* name NULL: not known (yet) */
	gid_t *groups;             /* where the agent is root: gid and the supplementary ones */
	uint32_t n_groups;
};

/* Strings in the phase list of a launch: provisioning, checking, staging, launching, running, uploading. */

#endif
