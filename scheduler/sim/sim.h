/*
 * sim: runs a recorded trace through a scheduling policy on N identical nodes of G GPUs.
 *
 * Promise of this folder: it simulates, with the library as it is or with rules of its own, and the same
 * input gives the same output to the last byte. It does no input or output. It may use all of scheduler/;
 * nothing in scheduler/ uses it.
 *
 * Events come in order of time. At each distinct time come all completions, then failures and repairs, then
 * all arrivals, then one pass of the policy. docs/spec/05c-simulator.md states the rules to the last tie, so
 * that another simulator can be compared exactly. The result is a start, an end and the nodes of each job.
 */
#ifndef HEARTH_SCHEDULER_SIM_SIM_H
#define HEARTH_SCHEDULER_SIM_SIM_H
#include "scheduler/sim/trace.h"

enum sim_policy {
	SIM_FIFO,
	SIM_FIFO_SKIP,
	SIM_EASY,
	SIM_SJF,
	SIM_SJF_SKIP,
	SIM_SAF,
	SIM_SAF_SKIP,
	SIM_FAIR,
	SIM_LIVE, /* as hearthd does with its default settings */
	SIM_CONSERVATIVE,
	SIM_POLICIES
};
enum sim_estimate { SIM_TRUE, SIM_X3, SIM_LEARNED, SIM_ESTIMATES };

const char *sim_policy_name(enum sim_policy p);
const char *sim_estimate_name(enum sim_estimate e);

struct sim_conf {
	uint32_t nodes, gpus_per_node;
	enum sim_policy policy;
	enum sim_estimate estimate;
	uint64_t speedup;  /* submit times are divided by it, rounded down */
	double mttf_hours; /* of one node; 0: nothing fails */
	uint64_t seed;     /* of the failures */
	/* Policies of the library: jobs stop for others, save their work each checkpoint_s that they work (0
	 * never), and take restart_s to go on. */
	int preempt;
	uint64_t checkpoint_s, restart_s;
	const struct sched_queue *users; /* weights and quotas; paths are names of users */
	size_t n_users;
	int library; /* fifo, fifo-skip: by the library, not here; for comparison */
};

#define SIM_REPAIR_S     3600  /* a failed node is back after this time */
#define SIM_MAX_FAILURES 100   /* a job that lost its nodes this often is given up */
#define SIM_MAX_IDLE     10000 /* failures and repairs while nothing runs: then who waits is given up */
#define SIM_NEVER        UINT64_MAX

struct sim_job {
	uint32_t row; /* in the trace, from 0 */
	uint32_t gpus, user;
	int32_t priority;
	int firm;
	uint64_t submit_s, duration_s;
	uint64_t start_s, end_s; /* of the run that ended by itself; SIM_NEVER: given up */
	uint32_t failures;
	uint64_t waited_s; /* until the run that ended by itself; with preempt without what it ran before */
	uint32_t n_nodes;  /* whole nodes first, then the one of the remainder */
	const uint32_t *nodes;
};
struct sim_stopped { /* a run that did not end by itself */
	uint32_t job;    /* index into jobs */
	uint64_t start_s, end_s;
	uint32_t *nodes;
};
struct sim_result {
	struct sim_job *jobs; /* by submit time, then row */
	size_t n, dropped;    /* dropped: larger than the cluster */
	size_t given_up;
	uint64_t node_failures, preemptions, lost_gpu_s; /* lost: done in vain, and restarts */
	struct sim_stopped *stopped;                     /* in order of time; with preempt only */
	size_t n_stopped;
	/* summary over the jobs that ended */
	size_t ended;
	double avg_jct_s, avg_wait_s, utilization;
	uint64_t p50_jct_s, p95_jct_s, p99_jct_s, max_wait_s, makespan_s;
	void *pool; /* node numbers */
};

/* NULL, or what cannot be (static text). */
const char *sim_conf_check(const struct sim_conf *c);
void sim_run(const struct sim_conf *c, const struct trace *t, struct sim_result *r);
void sim_result_fini(struct sim_result *r);

#endif
