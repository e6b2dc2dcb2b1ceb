/*
 * replay: the record of a cluster (docs/spec/12-history.md), given to the library again and compared, or run
 * as a simulation with another policy, other nodes or other weights.
 *
 * Compared: each input comes when it came, and the library is asked whenever it was asked. Simulated: jobs
 * come when they came and take as long as they took, and nodes and queues change when they did, but the
 * policy decides when a job starts and ends.
 */
#ifndef HEARTH_SCHEDULER_SIM_REPLAY_H
#define HEARTH_SCHEDULER_SIM_REPLAY_H
#include "scheduler/record/record.h"

struct replay_weight {
	const char *path;
	double weight;
};
enum replay_estimate { REPLAY_LIMITS, REPLAY_TRUE, REPLAY_X3, REPLAY_LEARNED };
struct replay_conf { /* zeroed: as recorded */
	const struct sched_policy *policy;
	const enum sched_backfill *backfill; /* only this is another */
	enum replay_estimate estimate;       /* what is believed of run times: the recorded limits, or ... */
	const struct replay_weight *weights;
	size_t n_weights;
	uint32_t more_nodes;        /* copies of the node that was usable first; they come when it does */
	const char *const *without; /* names of nodes that get no work; NULL-terminated, NULL none */
};

struct replay_mistake {
	size_t line; /* from 1 */
	const char *what;
};

struct replay_start { /* which job, and on which nodes; job 0: nothing more could start */
	uint64_t job;
	uint32_t n;
	char **nodes; /* names */
};
struct replay_compared {
	size_t starts; /* that are the same, up to the difference if there is one */
	int differs;
	uint64_t at_ms; /* of the difference */
	struct replay_start was, is;
};
/* 0, or -1 with *m. */
int replay_compare(const struct replay_conf *c, const char *text, size_t n, struct replay_compared *out,
                   struct replay_mistake *m);
void replay_compared_fini(struct replay_compared *r);

struct replay_figures { /* times in seconds */
	size_t jobs;
	double avg_jct, avg_wait, p50_jct, p95_jct, p99_jct, max_wait, makespan, utilization;
};
struct replay_job {
	uint64_t id, gpus;
	uint64_t submit_ms, run_ms;
	uint64_t start_ms, end_ms;     /* simulated; REPLAY_NEVER */
	uint64_t was_start_ms, was_ms; /* recorded: start of the first run, end; REPLAY_NEVER */
	uint32_t n_nodes;
	char **nodes; /* simulated */
};
#define REPLAY_NEVER UINT64_MAX
struct replay_result {
	struct replay_job *jobs; /* that came while the record ran, by submit, then id */
	size_t n;
	size_t unfinished; /* did not end in the record, or never started: not in the figures */
	size_t dropped;    /* ended in the record, but not here: they could not start */
	size_t before;     /* ran already when the record began: not in jobs */
	struct replay_figures is, was;
	char **node_names; /* of all that there ever were, by no order; NULL-terminated */
	char **paths;      /* queues and users in them that weights may be given to; NULL-terminated */
	uint32_t nodes;    /* known, without those that are left out, and their GPUs, at the most */
	uint64_t gpus;
	uint32_t was_nodes; /* the same of the record */
	uint64_t was_gpus;
};
int replay_simulate(const struct replay_conf *c, const char *text, size_t n, struct replay_result *out,
                    struct replay_mistake *m);
void replay_result_fini(struct replay_result *r);

#endif
