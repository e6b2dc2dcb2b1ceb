/* sim_int: the state of one simulated run, shared by the event loop (sim.c), runs (run.c) and policies. */
#ifndef HEARTH_SCHEDULER_SIM_SIM_INT_H
#define HEARTH_SCHEDULER_SIM_SIM_INT_H
#include "scheduler/base/mem.h"
#include "scheduler/sim/flat.h"
#include "scheduler/sim/sim.h"

struct sim;

struct sim_key { /* place in a queue: smaller first */
	uint64_t k;
	uint32_t row, job;
};
struct sim_heap {
	struct sim_key *v;
	size_t n, cap;
};

struct sim_class { /* jobs of one size, in order of arrival */
	uint32_t gpus, n, waiting, leaves;
	uint32_t *jobs;
	uint64_t *least; /* easy: tree over jobs of the least believed duration that waits, SIM_NEVER none */
	struct sim_heap heap;
};

struct sim_live {          /* by job, beside its result */
	uint32_t class_id, at; /* index in the class */
	uint32_t attempt;
	uint64_t believed_s; /* duration */
	int running;
	/* preempt */
	int ran;                  /* before, and was stopped */
	uint64_t saved_s, warm_s; /* work that a further run need not do; what this one takes until it works */
	uint64_t since_s;         /* it waits since */
	uint64_t asked_s;         /* when others were asked to stop for it, or it stopped for others; SIM_NEVER */
};

struct sim_ends { /* easy: running jobs by believed end */
	struct sim_key *v;
	size_t n, cap;
};

struct sim_rule { /* how a kind of policy follows the events; NULL: not needed */
	void (*init)(struct sim *s, const struct trace *t);
	void (*fini)(struct sim *s);
	void (*arrive)(struct sim *s, uint32_t job);
	void (*started)(struct sim *s, uint32_t job);
	void (*ended)(struct sim *s, uint32_t job, int well);
	void (*node)(struct sim *s, uint32_t node, int usable);
	void (*pass)(struct sim *s, uint32_t first_new); /* jobs from first_new on have arrived just now */
};
extern const struct sim_rule order_rule; /* fifo, sjf, saf, with and without -skip */
extern const struct sim_rule easy_rule;
extern const struct sim_rule live_rule; /* policies of the library */

struct sim {
	const struct sim_rule *rule;
	const struct sim_conf *conf;
	struct sim_job *jobs;
	struct sim_live *live;
	uint32_t n;
	struct flat flat;
	struct sim_class *classes; /* by size */
	uint32_t n_classes;
	struct sim_heap queue; /* policies that block: all classes in one */
	struct sim_heap ends;  /* k = end, row = attempt */
	uint64_t now;
	uint32_t next; /* first job that has not arrived */
	uint32_t n_running, n_waiting;
	/* easy */
	struct sim_ends believed;
	struct flat_view view; /* at the shadow time */
	uint64_t shadow;
	uint32_t shadow_of; /* job */
	int changed;        /* since the last pass something started or ended */
	uint32_t *spots;    /* scratch: one gang */
	/* failures */
	struct sim_heap failing; /* k = time, job = node, row 1: comes back */
	uint64_t rng;
	uint8_t *down;
	struct sim_result *out;
	/* live */
	struct sched *lib; /* NULL: the policy runs here */
	struct sched_victim *victims;
	const char *const *users;
};

int sim_heap_before(const struct sim_key *a, const struct sim_key *b);
void sim_heap_push(struct sim_heap *h, struct sim_key k);
struct sim_key sim_heap_pop(struct sim_heap *h);

/* run.c */
void sim_wait(struct sim *s, uint32_t job);  /* into the queue */
void sim_start(struct sim *s, uint32_t job); /* where it fits best; it must fit */
void sim_start_on(struct sim *s, uint32_t job, const uint32_t *nodes);
void sim_end(struct sim *s, uint32_t job, int well);
void sim_kill(struct sim *s, uint32_t job); /* its node failed: back into the queue, or given up */
void sim_stop(struct sim *s, uint32_t job); /* for another: back into the queue */
/* Returns what all runs have worked on so far, up to now, and in *saved what of it is saved. */
uint64_t sim_worked(const struct sim *s, uint32_t job, uint64_t *saved);
int live_runs(const struct sim_conf *c); /* does the library run this policy? */
/* fail.c */
void fail_init(struct sim *s);
void fail_step(struct sim *s); /* all of this time */
uint64_t fail_next(const struct sim *s);
/* stop.c */
int stop_pass(struct sim *s); /* 1: some stopped, the library goes on */
/* summary.c */
void sim_summarise(struct sim_result *r, const struct sim_conf *c);

#endif
