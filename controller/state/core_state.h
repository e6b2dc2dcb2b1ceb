/*
 * core_state: all that the state thread knows: one struct, in parts, each of which one file owns.
 *
 * A turn: inputs change records by events (turn.h) and mark jobs as touched; at its end touched jobs are
 * reviewed (run/attempt.h: what follows from the record), the scheduler is asked (share/alloc.h), and events
 * and rows are committed together.
 */
#ifndef HEARTH_CONTROLLER_STATE_CORE_STATE_H
#define HEARTH_CONTROLLER_STATE_CORE_STATE_H

#include "common/os/loop.h"
#include "controller/record/cluster.h"
#include "controller/record/rec.h"
#include "controller/state/core_io.h"
#include "scheduler/sched.h"

#define NO_RANK          0xffffffffu
#define MAX_REPLACEMENTS 3 /* of nodes that did not get ready, per job */
#define LEASE_MARGIN_US  (LEASE_MARGIN_MS * 1000ull)

struct array_rm;
struct catalogue;
struct cjob;
struct cnode;
struct history;
struct idem;
struct observer;
struct learned;
struct payer;
struct queue_jobs;
struct turn;
struct used;

struct core {
	struct core_config cfg; /* strings are owned */
	struct core_io io;
	const struct observer *observers; /* core.c */
	size_t n_observers;
	struct store *store;
	struct sched *sched;
	struct cluster records; /* nodes, tokens, queues ...: cluster.h */
	struct cjob *jobs;
	struct cnode *changed_nodes; /* the scheduler does not know of the change yet */
	struct cnode *nodes_by_id;
	struct idem *idem;
	struct cjob *touched, *turn_jobs;
	struct cjob *arrays;       /* array.c: something may be to be done for them */
	struct cjob *races;        /* arrays with successive halving */
	struct array_rm *removing; /* arrays whose members' data goes */
	struct cjob **heap;
	uint32_t n_heap, cap_heap;
	struct queue_jobs *queue_jobs; /* queues.c: how many jobs name a queue */
	struct catalogue *catalogue;   /* instances.c: instance types */
	uint64_t next_reserve_id;
	uint64_t n_books_told;          /* how many reports of reservations the library got */
	uint64_t reserve_at_us;         /* boot: next review of reservations */
	struct payer *payers, *budgets; /* budget.c: who has spent something; who has a budget */
	uint32_t n_budgets;
	uint64_t budget_at_us; /* boot: next review of budgets */
	int budget_dirty;
	struct learned *learned;                           /* forecast.c: how long jobs take */
	struct used *used;                                 /* queues.c: whose use is to be written */
	uint64_t sched_base_s;                             /* the library's time: this and the boot clock */
	uint64_t next_job_id, next_event_id, next_node_id; /* last ones given */
	uint64_t counts[N_JOB_STATUS], unfinished;
	uint64_t started_us;    /* boot: of this core, or of its last reload */
	uint64_t recorded_us;   /* real: the latest time found in the rows; it is later than that by now */
	struct cnode **askable; /* peers.c: up and with a known address, by id */
	size_t n_askable;
	uint8_t askable_known;
	uint64_t lease_check_us, peers_gen;
	uint32_t next_port;
	uint16_t port_used[65536]; /* as master port, by attempts that go on */
	struct turn *now, *flying; /* gathered; given to the store */
	struct turn *metrics, *metrics_flying;
	uint64_t retry_us, metrics_retry_us; /* 0 = not waiting */
	uint64_t *avoiders;                  /* waiting jobs that avoid nodes: judged again when nodes change */
	uint32_t n_avoiders, cap_avoiders;
	int recheck_avoiders;
	int stopping; /* hearthd accepts and sends nothing any more */
	int failing;  /* the store refused a transaction */
	int loaded;   /* memory has what the store has, and later changes */
	struct err fail_err;
	char *no_room; /* why hearthd accepts no new work; NULL: it does */
	uint64_t probe_us;
	int probing, sched_dirty, more_decisions;
	uint64_t health_next_us; /* boot: when the level of a node may fall; 0 all are healthy */
	uint64_t kept_seen_s;    /* scheduler time: kept places up to then were waited for */
	uint64_t again_s;        /* scheduler time: a pass is due then; 0 none */
	struct history *history; /* history.c */
	uint64_t n_passes,
	    pass_s; /* of the library since the start, until nothing more could start; when the last was */
	uint64_t late_job, late_epoch; /* points of a job that has ended: the last one that was looked up */
	uint32_t late_attempt;
	uint64_t n_commits, n_failed, n_events, n_lost_nodes;
	struct loop_turns turns; /* of the thread that decides, as last reported */
};

uint64_t now_boot(const struct core *c);
uint64_t now_real(const struct core *c);
uint64_t sched_time(const struct core *c);

#endif
