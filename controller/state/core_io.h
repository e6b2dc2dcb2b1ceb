/*
 * core_io: what the core needs from outside (clock, chance, connections, the store), as functions, and its
 * settings. hearthd and the simulated world of the tests fill it in.
 */
#ifndef HEARTH_CONTROLLER_STATE_CORE_IO_H
#define HEARTH_CONTROLLER_STATE_CORE_IO_H

#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/wire_msg.h"
#include "store/read/find.h"
#include "store/store.h"

struct steps;

struct core_io {
	const struct clock *clock;
	void (*random)(void *p, size_t n, void *arg);
	/* Queue a message on that node's control connection of that session; copies msg. No connection: dropped
	 * (state is sent again after SYNC_END of the next one). */
	void (*send)(const char *node, uint64_t session, uint16_t type, const void *msg, uint64_t id, void *arg);
	void (*close_agent)(const char *node, uint64_t session, const char *why, void *arg);
	/* As store_commit; done runs later on this thread. */
	int (*commit)(struct store_txn *t, store_done_fn done, void *done_arg, void *arg, struct err *e);
	/* A committed event, for live streams. */
	void (*notice)(const struct event_row *ev, void *arg);
	/* Join: sign an agent's request; malloc'ed PEM or NULL. */
	char *(*sign_csr)(const char *csr, const char *node, void *arg, struct err *e);
	const char *(*ca_pem)(void *arg);
	const char *(*ca_fingerprint)(void *arg);
	/* Removes the data of a removed job (logs, blobs, metrics) in the background. */
	void (*remove_data)(uint64_t job, void *arg);
	/* Adds the steps that a checkpoint folder (its digest) holds, sorted. ERR_LIMIT: the manifest is
	 * too large. NULL: none is read. */
	int (*checkpoint_steps)(const char *digest, struct steps *out, void *arg, struct err *e);
	/* What the newest attempt of a job before number `below` left of that kind; ERR_NOT_FOUND. NULL: none
	 * ever left any. */
	int (*left)(uint64_t job, const char *kind, uint32_t below, struct left *out, void *arg, struct err *e);
	/* Digest of an artifact of an earlier job for inputs `job:ID/KIND`; ERR_NOT_FOUND. out: HASH_HEX_SIZE or
	 * a file:// uri */
	int (*artifact)(uint64_t job, const char *kind, char *out, size_t out_size, void *arg, struct err *e);
	/* Checks that the source of an earlier job is still stored. ERR_NOT_FOUND says what removed it. NULL: not
	 * checked. */
	int (*code_kept)(uint64_t job, void *arg, struct err *e);
	/* 1: the tree of that digest is in the store, and stays there for a while without being named. NULL: not
	 * checked. */
	int (*stored)(const char *digest, void *arg);
	/* The points of that batch are durable. */
	void (*metrics_ack)(const char *node, uint64_t job, uint32_t attempt, uint64_t seq, void *arg);
	/* A job's row as last committed, of jobs that have ended and of specifications that are not kept in
	 * memory. ERR_NOT_FOUND. */
	int (*job_row)(uint64_t job, struct job_row *out, void *arg, struct err *e);
	/* The checkpoints of such a job. NULL: none is read. */
	int (*checkpoints)(uint64_t job, const struct store_checkpoints *to, void *arg, struct err *e);
	/* The fingerprint of a PEM certificate, as in tls_fingerprint. NULL: certificates are not compared
	 * (tests). */
	int (*fingerprint)(const char *pem, char out[33], void *arg, struct err *e);
	void *arg;
};

enum core_backfill { BACKFILL_EASY, BACKFILL_NONE, BACKFILL_CONSERVATIVE };
/* Seconds fit into an incarnation's number until 2088, and 4 million attempts of a job into each. An epoch is
 * below 2^53, as numbers of JSON are. */
#define INCARNATION_SHIFT 22
#define INCARNATION_MOST  ((1ull << 31) - 1)
struct quota_limits {                     /* of an attempt, and of all running jobs of a user; 0: none */
	uint64_t series_job, series_user;     /* series of metrics: names and ranks */
	uint64_t artifact_job, artifact_user; /* bytes in hearthd's store */
};
struct core_config {
	struct quota_limits quota;
	const char *cluster;                                 /* id of this cluster */
	uint64_t incarnation;                                /* in each new epoch (incarnation.h) */
	uint64_t first_job, first_event;                     /* ids below are not given; 0: none */
	const char *url;                                     /* what ranks get as HEARTH_URL */
	uint32_t beat_ms;                                    /* 1000 */
	uint32_t lease_ms;                                   /* 10,000 until recovery chooses it per job */
	uint64_t max_runtime_default_s, max_runtime_limit_s; /* 86,400 and 30 days; administrator's */
	uint32_t prepare_timeout_s;     /* 600: staging without progress for so long names the node */
	uint32_t prepare_limit_s;       /* 14,400: from the placement until all nodes are ready */
	uint32_t ready_timeout_s;       /* 30: from GO to the first rank's start */
	uint32_t rendezvous_timeout_s;  /* 300: the same under torchrun, which imports torch first */
	uint32_t default_grace_s;       /* 30 */
	uint32_t queue_limit;           /* unfinished jobs at most: 2,000,000 */
	uint32_t warm_keep_alive_max_s; /* 21,600: of a warm pool */
	uint32_t warm_chain_max_s;      /* 28 days: of a chain of pools */
	uint8_t warm_parked;            /* pools hold launches ready */
	uint8_t backfill;               /* enum core_backfill */
	uint32_t starve_s;              /* a job that waits longer goes before fair share; 0: none */
	uint32_t port_lo, port_hi;      /* master ports, when a node gives none */
	const char *owner_of_admin;     /* user behind requests that name none */
};

#endif
