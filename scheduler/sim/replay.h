/*
 * again: the record of a cluster (docs/spec/12-history.md): told again to the library and compared, or run as
 * a simulation in which policy, nodes or weights may be others.
 *
 * Compared: each input comes when it came, and the library is asked where it was asked. Simulated: jobs come
 * when they came and take as long as they took, nodes and queues change when they did, but when a job starts
 * and ends follows from the policy.
 */
#ifndef HEARTH_SCHEDULER_SIM_AGAIN_H
#define HEARTH_SCHEDULER_SIM_AGAIN_H

#include "scheduler/record/record.h"

struct again_weight {
	const char *path;
	double weight;
};
enum again_estimate { AGAIN_LIMITS, AGAIN_TRUE, AGAIN_X3, AGAIN_LEARNED };
struct again_conf { /* zeroed: as recorded */
	const struct sched_policy *policy;
	const enum sched_backfill *backfill; /* only this is another */
	enum again_estimate estimate;        /* what is believed of run times: the recorded limits, or ... */
	const struct again_weight *weights;
	size_t n_weights;
	uint32_t more_nodes;        /* copies of the node that was usable first; they come when it does */
	const char *const *without; /* names of nodes that get no work; NULL-terminated, NULL none */
};

struct again_mistake {
	size_t line; /* from 1 */
	const char *what;
};

struct again_start { /* which job, and on which nodes; job 0: nothing more could start */
	uint64_t job;
	uint32_t n;
	char **nodes; /* names */
};
struct again_compared {
	size_t starts; /* that are the same, up to the difference if there is one */
	int differs;
	uint64_t at_ms; /* of the difference */
	struct again_start was, is;
};
/* 0, or -1 with *m. */
int again_compare(const struct again_conf *c, const char *text, size_t n, struct again_compared *out,
                  struct again_mistake *m);
void again_compared_fini(struct again_compared *r);

struct again_figures { /* times in seconds */
	size_t jobs;
	double avg_jct, avg_wait, p50_jct, p95_jct, p99_jct, max_wait, makespan, utilization;
};
struct again_job {
	uint64_t id, gpus;
	uint64_t submit_ms, run_ms;
	uint64_t start_ms, end_ms;     /* simulated; AGAIN_NEVER */
	uint64_t was_start_ms, was_ms; /* recorded: start of the first run, end; AGAIN_NEVER */
	uint32_t n_nodes;
	char **nodes; /* simulated */
};
#define AGAIN_NEVER UINT64_MAX
struct again_result {
	struct again_job *jobs; /* that came while the record ran, by submit, then id */
	size_t n;
	size_t unfinished; /* did not end in the record, or never started: not in the figures */
	size_t dropped;    /* ended in the record, but not here: they could not start */
	size_t before;     /* ran already when the record began: not in jobs */
	struct again_figures is, was;
	char **node_names; /* of all that there ever were, by no order; NULL-terminated */
	char **paths;      /* queues and users in them that weights may be given to; NULL-terminated */
	uint32_t nodes;    /* known, without those that are left out, and their GPUs, at the most */
	uint64_t gpus;
	uint32_t was_nodes; /* the same of the record */
	uint64_t was_gpus;
};
int again_simulate(const struct again_conf *c, const char *text, size_t n, struct again_result *out,
                   struct again_mistake *m);
void again_result_fini(struct again_result *r);

#endif
