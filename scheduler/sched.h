/*
 * sched: which waiting gang starts where. A pure library: no I/O, clock, thread, log or global; the same
 * input gives the same decisions.
 *
 * Feed it nodes and jobs as they come, change and go, tell it the time, then call sched_step: it returns
 * decisions until nothing more can be decided now. The policy says how waiting jobs are ordered and what
 * happens behind one that does not fit: zeroed, it is priority, then order of arrival, and the first that
 * does not fit now holds back all behind it. Gangs start all or nothing, one instance a node, by best fit. A
 * job that the usable nodes could not hold even when empty waits for nodes, not for others: it holds nobody
 * back. docs/spec/05-scheduler.md to 05c have the rules (S-101 and so on).
 */
#ifndef HEARTH_SCHEDULER_SCHED_H
#define HEARTH_SCHEDULER_SCHED_H
#include <stddef.h>
#include <stdint.h>

struct sched;

#define SCHED_NUMA_UNKNOWN UINT32_MAX
struct sched_gpu {
	uint32_t index;
	const char *model;
	uint64_t memory_bytes;
	uint32_t numa;       /* SCHED_NUMA_UNKNOWN: not known, so no neighbour of those that are known */
	uint32_t link_group; /* GPUs of equal number are joined by NVLink; 0 = none */
};

struct sched_node { /* copied by sched_node_set */
	uint64_t id;
	const char *name;
	const char *instance_type;
	const char *const *labels; /* NULL-terminated, "k=v" or "feature"; NULL none */
	uint32_t slots;            /* CPU slots */
	uint64_t memory_bytes, disk_bytes;
	const struct sched_gpu *gpus;
	uint32_t n_gpus;
	int usable; /* up and not drained: may get new work */
	int spare;  /* kept for sched_job_exchange: it takes no other jobs */
	double price_per_hour;
	double power_w; /* at full load; 0 not known */
	uint32_t doubt; /* 0 healthy; nodes of more doubt are taken only when those of less do not suffice */
	const char *switch_name, *rack_name; /* what it hangs on, and stands in; NULL not known */
};

struct sched_group {
	uint32_t instances;
	uint32_t gpus, ranks, cpus_per_rank; /* per instance; slots needed = ranks * cpus_per_rank */
};
enum sched_after { SCHED_AFTER_ANY, SCHED_AFTER_OK, SCHED_AFTER_START }; /* ended; ended well; started */
struct sched_dep {
	uint64_t job;
	enum sched_after kind;
};
enum sched_span {                    /* where a gang of several instances goes */
	              SCHED_SPAN_PREFER, /* one switch if possible, else one rack if possible, else anywhere */
	              SCHED_SPAN_ANY,    /* no matter */
	              SCHED_SPAN_SWITCH, /* one switch, or it waits */
	              SCHED_SPAN_RACK    /* one rack, or it waits; one switch in it if possible */
};
struct sched_job { /* copied by sched_job_add */
	uint64_t id;
	int64_t priority;
	uint64_t order; /* smaller first among equal priority */
	const struct sched_group *groups;
	uint32_t n_groups;
	uint64_t memory_bytes, disk_bytes; /* per instance */
	int exclusive;
	const char *const *instance_types; /* NULL-terminated, empty or NULL = any; in order of preference; a gang
	                                      is of one type */
	const char *gpu_model;             /* NULL any */
	uint64_t gpu_memory_bytes;
	const char *const *requires; /* labels that a node must have; NULL none */
	const char *const *avoid;    /* names of nodes not to use (a node that did not get ready); NULL none */
	enum sched_span span;
	const char *queue, *owner; /* "a/b" lies below "a"; NULL none */
	const char *name;          /* with the owner: what run times are learned by; NULL none */
	uint64_t submit_s;         /* 0: now */
	uint64_t limit_s;          /* it is ended after this time; 0 none */
	uint64_t believed_s;       /* less than that: what it is believed to take; 0: its limit */
	uint64_t max_wait_s;       /* 0 none; see sched_expired */
	int first;                 /* before all others of its priority: it lost its nodes and waits again */
	int firm;                  /* a victim only of what its account holds beyond its quota */
	const char *warm;          /* key of its environment: nodes that are warm for it are better; NULL none */
	uint64_t pool;             /* it starts only on parts of that warm pool, or waits; 0 any place */
	int keeps;                 /* it will leave a warm pool: it may use one of another environment as well */
	const struct sched_dep *after;
	uint32_t n_after;
};

enum sched_backfill {
	SCHED_BLOCK,       /* the first that does not fit holds back all behind it */
	SCHED_SKIP,        /* others may pass it; nothing is kept for it */
	SCHED_RESERVE,     /* others may pass it when that is not believed to make it later */
	SCHED_CONSERVATIVE /* nor any other that is before them: a place is kept for each */
};
struct sched_policy {
	enum sched_backfill backfill;
	int fair;     /* after priority: by decayed use of queue and owner against their weights */
	int by_limit; /* every job has a time limit: nothing is learned, and alike are jobs of one shape and owner
	               */
	/* 0: the figure in brackets */
	/* Behind a job that has a place kept, and while nodes are booked before all: kinds of jobs that are tried
	 * in vain, times nodes and 200, until no more is tried before time or input changes [no bound].
	 * SCHED_CONSERVATIVE: nodes that are looked at while places are kept [500,000]; those for whom it does
	 * not suffice have none, and start where they are in nobody's way */
	uint64_t effort;
	uint64_t half_life_s; /* of use [7 days] */
	uint64_t starve_s;    /* due after this wait, and then before fair share [never] */
	double caution;       /* a job without time limit is believed to take so often its expected time [3] */
	uint64_t burst_s;     /* like jobs sent within this time of each other are expected to be alike [300] */
};
/* Returns the policy that hearthd runs with its default settings. */
struct sched_policy sched_policy_live(void);
/* Before the first job. -1: there are jobs. */
int sched_policy_set(struct sched *s, const struct sched_policy *p);
/* line ends with \n and stays the library's. */
typedef void (*sched_record_fn)(const char *line, size_t n, void *arg);
/* Before any input but the policy: writes each input from now on as a line. fn NULL: no more. */
void sched_record(struct sched *s, sched_record_fn fn, void *arg);
/* The time, in seconds of any clock; it never goes back. */
void sched_now(struct sched *s, uint64_t now_s);
uint64_t sched_clock(const struct sched *s); /* as it was told last */

/* Fair share counts the GPUs that a job holds; of one without GPUs its CPU slots, so many as one GPU. */
#define SCHED_SLOTS_A_GPU 16

struct sched_queue {     /* also an owner in a queue: "a/b/alice" */
	const char *path;    /* copied */
	double weight;       /* of fair share among its brothers; 0: 1 */
	uint32_t quota_gpus; /* that its jobs may hold at once; 0 no quota */
	int borrow;          /* may hold more while nobody within quota could use it */
};
void sched_queue_set(struct sched *s, const struct sched_queue *q);
/* Of a queue, or an owner in it, and all below: nothing more is started (1), or again (0). What runs stays.
 */
void sched_queue_close(struct sched *s, const char *path, int closed);
struct sched_queue_state {
	uint64_t gpus;  /* held now, by all below it */
	uint64_t wants; /* GPUs that the waiting jobs below it ask for */
	uint32_t waiting;
	double use_gpu_s; /* decayed to now */
};
void sched_queue_get(struct sched *s, const char *path, struct sched_queue_state *out);
double sched_usage(const struct sched *s, const char *path); /* GPU seconds, decayed to now */
/* Every queue and owner that there ever was here, at most max, by no order; the texts stay the library's. */
size_t sched_queue_list(const struct sched *s, const char **paths, size_t max);
/* At load: the use of a queue or owner as it was at that time, with all that was held until then. It goes
 * before sched_job_restore of the jobs that hold since. */
void sched_usage_set(struct sched *s, const char *path, double gpu_s, uint64_t at_s);

struct sched_reservation { /* nodes that are kept: an advance reservation, or a maintenance window */
	uint64_t id, from_s, to_s;
	const char *queue;     /* for jobs of this queue and below; NULL: nobody */
	const uint64_t *nodes; /* one that is not known yet is passed over: set it again when it has come */
	uint32_t n_nodes;
};
void sched_reservation_set(struct sched *s, const struct sched_reservation *b); /* new or changed */
void sched_reservation_remove(struct sched *s, uint64_t id);
/*
 * A warm pool: GPUs and slots that an ended job left warm on its nodes, for other jobs of its owner. It holds
 * nothing: whether a job fits, and when, never depends on it (but see sched_job.pool). It only decides where.
 */
struct sched_pool_part {
	uint64_t node; /* one that is not known yet, or not usable, may be named */
	uint32_t n_gpus;
	const uint32_t *gpus; /* indexes on the node */
	uint32_t n_cpus;
	const uint32_t *cpus; /* slot numbers on the node */
	uint64_t memory_bytes, disk_bytes;
};
struct sched_pool { /* copied by sched_pool_set */
	uint64_t id;
	const char *owner; /* as in struct sched_job */
	const char *warm;  /* key of its environment; NULL none */
	int exclusive;     /* it has its nodes for itself, and is used as a whole or not at all */
	uint64_t idle_since_s;
	const struct sched_pool_part *parts; /* at most one a node */
	uint32_t n_parts;
};
/* New, or in place of what it was. A part that is not free, because a job holds some of it, another pool has
 * some of it, or the node has not that much, is left out and reported as lost. The job that leaves a pool
 * gives back its places first (sched_job_release_place), within the same turn. */
void sched_pool_set(struct sched *s, const struct sched_pool *p);
void sched_pool_remove(struct sched *s, uint64_t id); /* it has ended; nothing is reported as lost */
struct sched_pool_lost {
	uint64_t pool, node;
	uint64_t job; /* who has it now; 0: the node went, or has not that much any more */
	int taken;    /* 1: a job of its owner, as a warm place; 0: it gave way, or (job 0) is gone */
};
/* A part that left its pool, in the order in which they did. 1 and out, or 0: nothing more. To be asked after
 * each decision, and after nodes and pools changed. A pool of which all parts left is forgotten here. Who
 * takes a decision back (a dry run) sets the pools again that lost something by it. */
int sched_pool_lost(struct sched *s, struct sched_pool_lost *out);
/* Parts of the pool that are here; 0: it is not known. */
uint32_t sched_pool_parts(const struct sched *s, uint64_t id);
/* When a job that holds something is believed to end: at its limit, where it has one. 0: it holds nothing. */
uint64_t sched_believed_end(const struct sched *s, uint64_t job);

struct sched_place { /* one instance of the gang */
	uint64_t node;
	uint32_t group;
	uint32_t n_gpus;
	uint32_t *gpus; /* indexes on the node */
	uint32_t n_cpus;
	uint32_t *cpus; /* slot numbers 0..slots-1 on the node */
	uint64_t pool;  /* the warm pool of its owner whose part it uses there; 0 none */
};
enum sched_turn {                      /* how it came to its turn */
	              SCHED_TURN_FIRST,    /* first in order of those that could start */
	              SCHED_TURN_KEPT,     /* a place was kept for it, which is free now */
	              SCHED_TURN_BEFORE,   /* passed has a place kept; it is believed to end by the time when that
	                                      starts */
	              SCHED_TURN_BESIDE,   /* passed has a place kept; it leaves room for that */
	              SCHED_TURN_PLANNED,  /* SCHED_CONSERVATIVE: in the way of nobody's kept place */
	              SCHED_TURN_REPLACED, /* it held places, and has others for those that it gave back */
	              SCHED_TURNS
};
struct sched_decision {
	uint64_t job;
	enum sched_turn turn;
	uint64_t passed;  /* 0: nobody that has a place kept */
	int due, borrows; /* it had waited so long that it goes before others; beyond its quota */
	uint32_t n;
	struct sched_place *places; /* in node-rank order: groups in order, instances within */
};

struct sched *sched_create(void);
void sched_destroy(struct sched *s);
/* New or changed node. Resources that jobs hold stay held. Call it only when something changed: it makes
 * waiting jobs be looked at again. */
void sched_node_set(struct sched *s, const struct sched_node *n);
/* It takes no jobs only because somebody drained it. Nothing is decided by that: what waits is told which
 * nodes would help if they were resumed (sched_resume, sched_brief). */
void sched_node_drained(struct sched *s, uint64_t id, int drained);
/* What jobs hold there stays on their account until they release it, but the node gets no new work. */
void sched_node_remove(struct sched *s, uint64_t id);
/* Waiting. A waiting job of that id is replaced; one that holds resources must release them first (else
 * nothing happens, returns -1). */
int sched_job_add(struct sched *s, const struct sched_job *j);
/* A job that holds places gives back those on the nodes in drop, and waits for as many others. It goes on
 * holding the rest, which nobody else gets meanwhile. Its decision (sched_step) comes before all waiting jobs
 * and has all its places: those that it kept as they are, and new ones, on spare nodes first, not on nodes
 * in `avoid`. It is made when all kept nodes are usable; limits count
 * from then on. Nothing to drop: it waits for that alone. j: its
 * wishes from now on, with the same groups, memory and disk, else -1 and nothing happens. It may be called
 * again while the job waits so; sched_job_park and the like end it, and give all back. */
int sched_job_exchange(struct sched *s, const struct sched_job *j, const uint64_t *drop, uint32_t n_drop);
/* It is gone: no more waiting, or gives back all it holds. Who waits for its good end waits in vain. */
void sched_job_remove(struct sched *s, uint64_t id);
/* The same, but it comes again (sched_job_add, sched_job_holds) or ends later: who waits for it goes on
 * waiting. */
void sched_job_park(struct sched *s, uint64_t id);
/* A job that others may wait for although it neither waits nor holds now. */
void sched_job_know(struct sched *s, uint64_t id);
/* As sched_job_remove, for one that ran to its end: its run time is learned, and who waits for it is told. */
void sched_job_finished(struct sched *s, uint64_t id, int well);
void sched_job_release_place(struct sched *s, uint64_t id,
                             uint64_t node); /* one node's share is free again */
/* At load: that job holds these places (they may be on nodes that are not known yet). memory and disk: per
 * instance. */
void sched_job_holds(struct sched *s, uint64_t id, const struct sched_decision *d, uint64_t memory_bytes,
                     uint64_t disk_bytes, int exclusive);
/* The same for a job of which all is known: it runs since start_s, and counts for its queue and owner. */
void sched_job_restore(struct sched *s, const struct sched_job *j, const struct sched_decision *d,
                       uint64_t start_s);
/* Next decision, malloc'ed (sched_decision_free), or NULL. The resources are taken already. The caller
 * carries it out and says so (sched_job_started), or takes it back (sched_job_park, sched_job_remove). */
struct sched_decision *sched_step(struct sched *s);
/* What was decided is carried out: who waits for that job's start waits no longer. */
void sched_job_started(struct sched *s, uint64_t id);
struct sched_settled {
	uint64_t job, on;
	enum sched_after kind;
	int met;       /* 0: it can never be; the job does not start, the caller ends or removes it */
	uint32_t open; /* what the job still waits for */
};
/* What jobs waited for and is decided since, in that order. 1 and out, or 0: nothing more. Of what was
 * decided before a job was added nothing is told. */
int sched_settled(struct sched *s, struct sched_settled *out);
void sched_decision_free(struct sched_decision *d);

enum sched_why {
	SCHED_FITS,
	SCHED_BUSY,
	SCHED_BEHIND,
	SCHED_NO_NODES,
	SCHED_IMPOSSIBLE,
	SCHED_QUOTA,     /* its queue or owner holds all it may */
	SCHED_RESERVED,  /* it would fit, but nodes are kept for others before it would have ended */
	SCHED_DEPENDS,   /* waits for another job */
	SCHED_NEVER,     /* waits for one that ended otherwise than it should */
	SCHED_CLOSED,    /* its queue or owner starts nothing (sched_queue_close) */
	SCHED_REPLACING, /* holds places, and waits for others (sched_job_exchange) */
	SCHED_POOL       /* waits for its pool (sched_job.pool) */
};
struct sched_reason { /* why a job waits, as data */
	enum sched_why why;
	uint64_t behind; /* job ahead that holds it back, 0 none */
	uint32_t ahead;  /* waiting jobs before it */
	uint32_t need_instances,
	    free_instances;          /* instances that fit now on usable nodes (of the first group that fails) */
	uint32_t possible_instances; /* that would fit if all usable nodes were empty */
	uint64_t due_s;              /* it has waited so long that it goes before fair share; 0 not yet */
	char
	    text[448]; /* "needs 2 instances with 1 GPU and 2 CPU slots; 1 free now (node-1: 0 of 1 GPUs free)" */
};
void sched_explain(const struct sched *s, uint64_t job, struct sched_reason *r);
struct sched_brief {
	char text[112]; /* "needs 8 GPUs, 2 free; 1 node drained; behind job 17"; empty: it does not wait here */
};
/* The same in a few words, for many at once: one walk over waiting kinds and nodes, nothing a job. */
void sched_brief(const struct sched *s, const uint64_t *ids, size_t n, struct sched_brief *out);
/* Could it ever run on the known nodes (usable or not)? 1 yes; 0 no and r says the nearest possible. */
int sched_possible(const struct sched *s, const struct sched_job *j, struct sched_reason *r);
/* The same on the usable nodes alone, as if they were empty. */
int sched_placeable(const struct sched *s, const struct sched_job *j, struct sched_reason *r);
enum sched_change_kind { /* in the order in which they are looked for: what is lost by them */
	                     SCHED_CHANGE_NONE,
	                     SCHED_CHANGE_QUEUE, /* name: a queue that has room */
	                     SCHED_CHANGE_TIME,  /* value: a time limit of so many seconds, to end before a kept
	                                            place is taken */
	                     SCHED_CHANGE_TYPE,  /* name: another instance type */
	                     SCHED_CHANGE_MODEL, /* name: another GPU model */
	                     SCHED_CHANGE_LABEL, /* value: which of the required ones; name: another value
	                                            of it ("rack=1"), NULL: without it */
	                     SCHED_CHANGE_SPAN,  /* one switch or rack only where that is possible */
	                     SCHED_CHANGE_SHARE, /* not exclusive */
	                     SCHED_CHANGE_GPU_MEMORY, /* value: bytes a GPU */
	                     SCHED_CHANGE_MEMORY,     /* value: bytes an instance */
	                     SCHED_CHANGE_DISK,       /* the same */
	                     SCHED_CHANGE_CPUS,       /* value: CPUs a rank */
	                     SCHED_CHANGE_GPUS, /* value: GPUs an instance (and ranks, where it asked for one a
	                                           GPU) */
	                     SCHED_CHANGE_INSTANCES /* value; of gangs of one group */
};
struct sched_change {
	enum sched_change_kind kind;
	uint64_t value;
	const char *name; /* the library's or the caller's */
};
/* The one change with which that job, which need not be here, would fit now (ever: on the known nodes, if
 * they were empty). queues: candidates, in order; NULL-terminated. 1 found. Whose turn it is is not looked
 * at. */
int sched_change(struct sched *s, const struct sched_job *j, const char *const *queues, int ever,
                 struct sched_change *out);
/* Drained nodes with which that job would fit now (empty: if all were empty), as few as are found with some
 * twenty looks at the nodes, by their ids: how many, of which at most max are written. 0: none would help, or
 * it fits without, or a quota or budget keeps it back anyway. */
size_t sched_resume(struct sched *s, const struct sched_job *j, int empty, uint64_t *nodes, size_t max);
/* What run time would be expected of a waiting job, in seconds; 0 unknown job. */
double sched_expected(const struct sched *s, uint64_t job);
/* When the job that a place is kept for is believed to start; 0: no place is kept. */
uint64_t sched_reserved(const struct sched *s, uint64_t *job);
/* SCHED_CONSERVATIVE: the start that is kept for a waiting job, as of the last step. UINT64_MAX: none. */
uint64_t sched_kept(const struct sched *s, uint64_t job);
/* The first of all that are later than now: a step is due then although nothing else happened. UINT64_MAX:
 * none.
 */
uint64_t sched_next_kept(const struct sched *s);
/* When a waiting job would fit if nobody were before it, as run times are believed now: it cannot be expected
 * to start before. UINT64_MAX: not before a node comes, or not waiting. */
uint64_t sched_earliest(struct sched *s, uint64_t job);
/* What is believed of the time to come, when those before the job start in their order and take as long as
 * `takes` says (seconds from the start to the end, 0: as believed here); who has a place kept starts first.
 * Of very many running jobs only what is believed here is looked at. The work has a bound. */
struct sched_forecast {
	uint64_t start_s; /* UINT64_MAX: not before a node comes, or it is not known (whole = 0) */
	int whole;        /* 0: too many are before it; it cannot fit before start_s, even if nobody were */
	int cut;          /* 1, not whole: the bound on the work was reached; start_s is as far as was seen */
	uint32_t n, n_first;
	struct sched_place *places; /* malloc'ed: node and group of each instance; no GPUs and slots are chosen */
	uint64_t first[5];          /* of those before it, in order */
};
typedef double (*sched_takes_fn)(uint64_t job, void *arg);
void sched_forecast(struct sched *s, uint64_t job, sched_takes_fn takes, void *arg,
                    struct sched_forecast *out);
/* Waiting jobs whose max_wait_s is over: how many were written, at most max. */
size_t sched_expired(const struct sched *s, uint64_t *ids, size_t max);

struct sched_victim {
	uint64_t job;
	uint64_t lost_gpu_s; /* work since the last checkpoint */
};
/* The running jobs of least cost that would have to stop so that this waiting job could start now: jobs of
 * lower priority, or that hold what is beyond their quota while the waiting one stays within its own. How
 * many; 0: none would help, or none is needed. */
size_t sched_preempt(struct sched *s, uint64_t job, struct sched_victim *v, size_t max);
void sched_checkpointed(struct sched *s, uint64_t job, uint64_t at_s, uint64_t restart_s);

int sched_job_exchanges(const struct sched *s,
                        uint64_t job); /* 1: it waits for others instead of some places */
/* The nodes on which it holds something, at most max; how many were written. */
size_t sched_job_nodes(const struct sched *s, uint64_t job, uint64_t *nodes, size_t max);
/* Waiting jobs; known and usable nodes. Any pointer may be NULL. */
void sched_count(const struct sched *s, size_t *waiting, size_t *nodes, size_t *usable);
/* Waiting jobs in order, at most max; how many were written. */
size_t sched_waiting(const struct sched *s, uint64_t *ids, size_t max);
/* Internal consistency; NULL fine, else what is wrong (static text). For tests and debug builds. */
const char *sched_check(const struct sched *s);
/* Free GPUs and slots of a node. -1 unknown node. */
int sched_node_free(const struct sched *s, uint64_t id, uint32_t *gpus, uint32_t *slots, uint64_t *memory);

#endif
