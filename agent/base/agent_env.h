/*
 * The room base: what every part of the agent stands on: threads, children, accounts, copies, removals. It
 * knows no launch and no controller.
 *
 * agent_env: configuration, loop and clock, shared by all parts. The agent has one loop; threads do the
 * blocking work (copies, hashes, downloads) and post their results to it.
 */
#ifndef HEARTH_AGENT_BASE_AGENT_ENV_H
#define HEARTH_AGENT_BASE_AGENT_ENV_H

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/os/loop.h"
#include <stdint.h>

#define NO_RANK 0xffffffffu /* in place of a rank: none, or it has no meaning */

struct agent_config {
	char *controller; /* URL */
	char *data_dir, *run_dir;
	char *node;    /* --name, default the host name */
	char *address; /* --address: address at which other nodes reach this one */
	char *interface_name, *fabric_interface;
	uint32_t peer_port;        /* 0 = any */
	uint32_t port_lo, port_hi; /* --ports, for MASTER_PORT; 0 = 20000-29999 */
	char *instance_type;
	double price_per_hour;
	struct strv labels;
	uint32_t slots; /* 0 = CPUs this process may use */
	char *kmsg;
	char *fake_gpus;          /* NULL none; number or file */
	char *libexec_dir;        /* folder of hearth-shim, hearth-files and the other small programs */
	uint32_t min_uid;         /* least uid of an account that runs jobs, but for root */
	int allow_root;           /* root may run jobs */
	int no_namespaces;        /* launches see the host's /tmp, /dev/shm and no /opt/ml */
	int allow_setuid;         /* set-uid programs give rights in jobs */
	int core_files;           /* processes of jobs may write core files */
	int alone;                /* only ends its launches, without controller and neighbours (agent/endall.h) */
	uint64_t checkpoint_rate; /* bytes a second of each copy of a checkpoint; 0 = no limit */
	uint64_t held_limit;      /* bytes of held checkpoints on this node; 0 = a quarter of the disk */
	uint64_t warm_cache_limit; /* bytes of the cache folder of one warm pool; 0 = a tenth of the disk */
	uint64_t store_limit;      /* bytes of one checkpoint in hearthd's store; 0 = no copies there */
	uint64_t log_max_bytes;    /* per stream on this node; 0 = 1 GiB */
};

struct agent_env { /* shared by all parts of the agent */
	struct loop *loop;
	const struct clock *clock;
	struct agent_config cfg;
	int is_root;
	uint64_t instance;
	struct place *place;    /* container.c: what it knows of this machine; NULL: nothing yet */
	struct keeper *keepers; /* keeper.c: launches that share the limit of held checkpoints */
};

/* Files by which this agent and its controller know each other. */
struct agent_identity {
	char *ca_pem; /* the text of ca_path */
	char *ca_path, *cert_path, *key_path;
};

#endif
