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

#define NO_RANK 0xffffffffu

struct array_rm;
struct catalogue;
struct cjob;
struct cnode;
struct history;
struct idem;
struct job_watch;
struct observer;
struct learned;
struct payer;
struct quota_user;
struct queue_jobs;
struct turn;
struct used;

/* Parts of struct core. The file in brackets owns a part: it alone changes it, unless its header offers a
 * function. */

struct job_table {        /* state/jobs.c */
	struct cjob *all;     /* by id */
	struct cjob *touched; /* reviewed at the end of the turn */
	struct cjob **heap;   /* by deadline, 1-based */
	uint32_t n_heap, cap_heap;
	uint64_t last_id;              /* given */
	uint64_t counts[N_JOB_STATUS]; /* without arrays, whose members are counted */
	uint64_t unfinished;
};

struct node_table { /* state/node_table.c; the records are in core->records */
	struct cnode *by_id;
	struct cnode *changed; /* share/node_feed.c: the scheduler does not know of the change yet */
	uint64_t last_id;      /* given */
	uint64_t n_lost;       /* since the start */
};

struct turn_state {            /* state/turn.c */
	struct turn *now, *flying; /* gathered; given to the store */
	struct turn *metrics, *metrics_flying;
	struct cjob *jobs;                   /* with rows to write */
	uint64_t retry_us, metrics_retry_us; /* boot: the store's queue was full; 0 = not waiting */
	uint64_t probe_us;                   /* boot: the next probe of a store that failed */
	int probing;
	uint64_t last_event_id; /* given */
	uint64_t n_commits, n_failed, n_events;
};

struct life {             /* load.c */
	uint64_t started_us;  /* boot: of this core, or of its last reload */
	uint64_t recorded_us; /* real: the latest time found in the rows; it is later than that by now */
	int stopping;         /* nothing is accepted or given any more */
	int failing;          /* the store did not take a transaction */
	int loaded;           /* memory is what the store has, and what followed */
	struct err fail_err;
	char *no_room;           /* why no new work is accepted; NULL: it is */
	struct loop_turns turns; /* of the thread that decides, as last reported */
};

struct array_state {           /* run/array.c */
	struct cjob *busy;         /* something may have to be done for them */
	struct cjob *races;        /* with successive halving */
	struct array_rm *removing; /* their members' data goes */
};

struct queue_state {         /* share/queues.c */
	struct queue_jobs *jobs; /* how many jobs name a queue */
	struct used *used;       /* accounts whose use is to be written */
};

struct reserve_table { /* share/reserve.c */
	uint64_t last_id;  /* given */
	uint64_t n_told;   /* how often the library heard of one */
	uint64_t at_us;    /* boot: the next review */
};

struct budget_state {     /* share/budget.c */
	struct payer *payers; /* spent something, or have a budget */
	struct payer *all;    /* have a budget */
	uint32_t n;           /* of these */
	uint64_t at_us;       /* boot: the next review */
	int dirty;
};

struct alloc_state {    /* share/alloc.c */
	uint64_t base_s;    /* the library's time: this and the boot clock */
	uint64_t *avoiders; /* waiting jobs that avoid nodes: judged again when nodes change */
	uint32_t n_avoiders, cap_avoiders;
	int recheck_avoiders;
	uint64_t *exchangers; /* jobs that keep places and wait for others: judged again when nodes change */
	uint32_t n_exchangers, cap_exchangers;
	int recheck_exchangers;
	int dirty;            /* something changed that may let a job start */
	int more;             /* the rest of the decisions comes in the next turn */
	uint64_t kept_seen_s; /* scheduler time: kept places up to then were waited for */
	uint64_t again_s;     /* scheduler time: a pass is due then; 0 none */
	uint64_t n_passes;    /* until nothing more could start, since the start of hearthd */
	uint64_t pass_s;      /* scheduler time of the last */
};

struct peers_state {        /* cluster/peers.c */
	struct cnode **askable; /* up and with a known address, by id */
	size_t n_askable;
	uint8_t known;        /* the list is up to date */
	uint64_t gen;         /* of the lists that agents get */
	uint64_t retired_gen; /* counts removed nodes since the start */
};

struct lease_state {   /* cluster/lease.c */
	uint64_t check_us; /* boot: the next instant at which something follows from silence */
	uint64_t watch_us; /* boot: the next look whether this process runs in time; 0 not begun */
};

struct port_state { /* park/ports.c */
	uint32_t next;
	uint16_t used[65536]; /* as master port, by attempts that go on */
};

struct point_state { /* run/points.c: points of a job that has ended; the last one that was looked up */
	uint64_t late_job, late_epoch;
	uint32_t late_attempt;
};

struct prefetch_state { /* cluster/prefetch.c */
	uint64_t at_us;     /* boot: the next look at spares; UINT64_MAX none */
};

struct pool_table {               /* share/pools.c */
	struct cpool *live, *ended;   /* by their numbers, and by their ends */
	uint32_t n_ended;             /* of the second list */
	uint64_t at_us;               /* boot: the next review */
	struct sched_pool_lost *lost; /* share/pool_take.c: not dealt with yet */
	size_t n_lost;
	uint64_t *wanting; /* share/pool_want.c: jobs that wait for one pool */
	size_t n_wanting;
	int look;                /* at these: a pool has changed, or a job came */
	struct pool_user *users; /* share/pool_match.c: by name */
	uint64_t *touched;       /* pools that changed in this turn; park/park.c takes them */
	size_t n_touched, cap_touched;
};

struct park_table {          /* park/park.c */
	struct parking *all;     /* by pool and number */
	struct pool_park *pools; /* of which one was made */
	uint64_t at_us;          /* boot: the next review */
	uint32_t in_way;         /* of `all`: those with a way_us */
};

struct watch_state { /* watch/watch.c */
	struct job_watch *all;
	uint64_t at_us;     /* boot: the next tick */
	uint64_t refill_us; /* boot: the rate of all points is used up to here */
};

struct health_state { /* share/node_health.c */
	uint64_t next_us; /* boot: when the level of a node may fall; 0 all are healthy */
};

struct core {
	struct core_config cfg; /* strings are owned */
	struct core_io io;
	const struct observer *observers; /* core.c */
	size_t n_observers;
	struct store *store;
	struct sched *sched;
	struct cluster records; /* nodes, tokens, queues ...: record/cluster.h */
	struct job_table jobs;
	struct node_table nodes;
	struct turn_state turn;
	struct life life;
	struct {        /* for lines of failures, of the administrator */
		char *text; /* NULL none */
		uint64_t gen;
	} rules;
	struct idem *idem;           /* state/idem.c */
	struct history *history;     /* state/history.c */
	struct catalogue *catalogue; /* share/instances.c */
	struct learned *learned;     /* share/forecast.c: how long jobs take */
	struct alloc_state alloc;
	struct queue_state queues;
	struct budget_state budgets;
	struct reserve_table reserves;
	struct pool_table pools;
	struct park_table parks;
	struct health_state health;
	struct array_state arrays;
	struct port_state ports;
	struct point_state points;
	struct prefetch_state prefetch;
	struct watch_state watch;
	struct lease_state lease;
	struct peers_state peers;
	struct quota_user *quota_users; /* state/quota.c: users whose running jobs sent something that counts */
};

uint64_t now_boot(const struct core *c);
uint64_t now_real(const struct core *c);
uint64_t sched_time(const struct core *c);

#endif
