/*
 * agent_ctl: a controller for tests of real agents: takes joins, connections, reports and log bytes, keeps
 * the last state of all; the test says what to order. It relays hearth-rsh requests as hearthd does. One
 * thread, one loop; waits have deadlines.
 */
#ifndef HEARTH_TESTS_UNIT_AGENT_LAUNCH_AGENT_CTL_H
#define HEARTH_TESTS_UNIT_AGENT_LAUNCH_AGENT_CTL_H

#include "common/net/peer.h"
#include "common/net/tls.h"
#include "common/net/wire_msg.h"
#include "common/os/loop.h"
#include <stdint.h>
#include <sys/types.h>

#define CTL_AGENTS   4
#define CTL_PROCS    64
#define CTL_NODES    8
#define CTL_JOBS     256
#define CTL_ATTEMPTS 4

struct ctl_proc {
	struct wm_proc_report *r; /* NULL: free */
};

struct ctl_stream {
	char *name;
	char *data;
	size_t n;
	int eof;
};

struct ctl_agent {
	struct ctl *c;
	char name[64];
	pid_t pid; /* of the agent's process; 0 none */
	char dir[512];
	struct peer *control, *bulk;
	int connections, synced;
	struct wm_inventory *inv;
	struct wm_launch_report *launch; /* last one */
	unsigned seen;                   /* bit per launch state that was reported */
	uint8_t states[CTL_JOBS];        /* the last one of each job with such a number */
	struct {
		uint8_t state, over;  /* of the last report */
	} attempts[CTL_ATTEMPTS]; /* of the job with the last report, by number */
	struct ctl_proc procs[CTL_PROCS];
	char *mpirun_line, *failure;
	char pool_bad[256]; /* "POOL JOB TEXT" of the last such report */
	char *artifacts;    /* "kind uri\n" */
	unsigned beats;
	uint64_t beat_us, beat_gap_us; /* the last one; the longest time between two */
};

struct ctl {
	struct loop *loop;
	struct tls_ca *ca;
	struct evconnlistener *listener;
	char *dir, url[64], token[128];
	char given[128]; /* to agents that start; the same unless the test changes it */
	uint16_t port;
	uint32_t lease_ms;
	int mute;                          /* accepts nobody, says nothing */
	int no_acks;                       /* reports are not acknowledged */
	int no_blobs;                      /* nor are blobs: an upload lasts until this is 0 */
	uint32_t prepare_timeout_ms;       /* of jobs */
	uint64_t memory_bytes, disk_bytes; /* limits of jobs; 0 none */
	uint32_t gpus;                     /* of jobs: the first ones of the node */
	uint64_t pool;                     /* of jobs; 0 none */
	int pool_keep;                     /* they may leave one */
	int park;                          /* launches wait for a job; job is the pool */
	uint32_t parked;                   /* the parking that a job takes over; 0 none */
	const char *owner;                 /* of jobs; NULL: this process's account */
	const char *refused;               /* node that is not let in */
	int refused_as;                    /* enum err_code; 0: ERR_DENIED */
	unsigned joins, refusals;
	struct ctl_agent agents[CTL_AGENTS];
	struct ctl_agent *nodes[CTL_NODES]; /* algo-1.. of the present launch */
	struct ctl_stream streams[512];
	struct {
		char id[80];
		struct ctl_agent *from;
	} rsh[16];
	unsigned want_beats; /* of a waiting test */
	void *conns;
};

struct ctl *ctl_start(const char *dir);
void ctl_stop(struct ctl *c);
/* Starts a real agent (joins at its first start). extra: further arguments or NULL. */
struct ctl_agent *ctl_agent_start(struct ctl *c, int i, const char *name, const char *const *extra);
void ctl_agent_kill(struct ctl_agent *a, int signo); /* and reaps it */
/* Turns the loop until cond holds; 0 when timeout_ms passed. */
int ctl_wait(struct ctl *c, uint32_t timeout_ms, int (*cond)(struct ctl *c, void *arg), void *arg);
int ctl_wait_state(struct ctl_agent *a, enum launch_state s, uint32_t timeout_ms);
int ctl_wait_attempt(struct ctl_agent *a, uint32_t attempt, enum launch_state s, uint32_t timeout_ms);
int ctl_wait_over(struct ctl_agent *a, uint32_t attempt, enum launch_over over, uint32_t timeout_ms);
int ctl_wait_phase(struct ctl_agent *a, const char *phase, uint32_t timeout_ms);
int ctl_wait_synced(struct ctl_agent *a, int connections, uint32_t timeout_ms);
int ctl_wait_proc(struct ctl_agent *a, uint8_t kind, uint32_t rank, uint8_t state, uint32_t timeout_ms);
/* Never NULL: state 0, exit code 999 when nothing was told. */
const struct wm_proc_report *ctl_proc(const struct ctl_agent *a, uint8_t kind, uint32_t rank);
const char *ctl_stream(const struct ctl *c, const char *name);                /* "" when nothing came */
int ctl_wait_log(struct ctl_agent *a, const char *text, uint32_t timeout_ms); /* in the agent's own log */
void ctl_refuse(struct ctl *c, struct ctl_agent *a); /* cuts this one off; NULL lets all in */
int ctl_wait_refusals(struct ctl *c, unsigned n, uint32_t timeout_ms);
void ctl_drop(struct ctl *c); /* cuts all connections and takes no new ones */
void ctl_heal(struct ctl *c);
pid_t ctl_parent(uint32_t pid); /* 0 unknown */
int ctl_is_zombie(uint32_t pid);
void ctl_sock_path(const struct ctl_agent *g, char *out, size_t size);
int ctl_reachable(const char *path); /* for other accounts */

/* Orders. ctl_prepare_all: nodes in order; ranks per node; owner is this process's account. */
void ctl_prepare(struct ctl *c, const char *spec, uint64_t job, uint32_t attempt, uint64_t epoch,
                 struct ctl_agent *const *nodes, const uint32_t *ranks);
/* On one node, launcher direct; what ctl knew of earlier jobs is forgotten. Attempt and epoch are 1. */
void ctl_prepare_shell(struct ctl *c, struct ctl_agent *a, uint64_t job, uint32_t ranks, const char *shell);
void ctl_go(struct ctl_agent *a, uint64_t job, uint32_t attempt, uint64_t epoch);
void ctl_kill(struct ctl_agent *a, uint64_t job, uint32_t attempt, uint64_t epoch, uint32_t grace_ms);
void ctl_collect(struct ctl_agent *a, uint64_t job, uint32_t attempt, uint64_t epoch, int keep);
void ctl_pools(struct ctl_agent *a, uint64_t pool, uint64_t job); /* the list of pools: one, or none (0) */
void ctl_forget_reports(struct ctl *c);                           /* before another job */

#endif
