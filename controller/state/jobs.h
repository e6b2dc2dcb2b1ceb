/*
 * jobs: the jobs in memory: all unfinished ones, and ended ones until their last change is durable.
 *
 * A job here is its record (record/rec.h), which changes only by events, and what is not stored of a running
 * attempt. A heap orders their deadlines.
 */
#ifndef HEARTH_CONTROLLER_STATE_JOBS_H
#define HEARTH_CONTROLLER_STATE_JOBS_H

#include "common/base/hashtable.h"
#include "controller/record/event.h"
#include "controller/state/core_state.h"

enum { SENT_PREPARE = 1, SENT_GO = 2, SENT_KILL = 4, SENT_COLLECT = 8, SENT_DROPS = 16 };
struct place_rt {     /* of one launch on one node, not stored */
	uint64_t session; /* for which `sent` counts */
	uint8_t sent, reported;
	uint64_t warm; /* warm pool whose part it has there; 0 none, or it has given that back */
	uint8_t over;  /* enum launch_over, as last reported */
	/* The agent lost the launch that ran here: why, as static text; NULL no. The place is lost once the agent
	 * says that nothing is left. */
	const char *vanished;
	uint64_t progress_us; /* boot: last report that said something new */
	uint64_t done_bytes, total_bytes;
	char phase[64];
};

struct rsh { /* one hearth-rsh that waits for its orted */
	char *id;
	uint32_t place;
	uint64_t node_id;      /* of that place */
	struct wire_strv argv; /* empty once it runs */
	uint8_t state;         /* enum proc_state */
	uint32_t exit_code, signal;
	struct rsh *next;
};

struct quota_use;

#define LOSS_POINTS 256
struct loss_point {
	int64_t step; /* -1 none */
	double value;
	uint64_t n; /* counts points; 0: none is here */
};

#define BEGIN_ALSO CKPT_STEP_FILES
struct beginning {                 /* of an attempt */
	struct ckpt *ckpt;             /* one of the list; a copy. NULL: parts */
	struct ckpt *also[BEGIN_ALSO]; /* copies of others of its step (ckpt_files.c) */
	uint32_t n_also;
	uint64_t job;      /* whose checkpoint it is */
	struct strv parts; /* a whole folder: digest or uri for each node rank */
	uint32_t attempt;  /* that left it; 0: the specification names it, or nothing */
	int64_t step;      /* -1 none */
};
void beginning_fini(struct beginning *b);

struct active { /* of a job whose attempt has not ended, not stored */
	struct job_spec *spec;
	struct place_rt *rt;
	struct rsh *rsh;
	uint32_t parked;                 /* parking of its pool whose launch becomes its own; 0 none */
	struct wire_shared *gang;        /* what all nodes get alike; NULL: not needed yet */
	struct strv inputs;              /* digest or uri of each input, "" where the agent finds it */
	struct beginning begin;          /* run/resolve.c */
	struct strv warnings;            /* of agents, that have an event */
	uint64_t go_us, end_us, kill_us; /* boot; 0 = not yet */
	uint64_t placed_us;              /* boot: of the placement, or when this controller loaded the attempt */
	uint64_t before_us;              /* how long the attempts before it had their places */
	uint64_t held_us;        /* how long it had its place at placed_us; 0: this controller placed it */
	uint64_t max_runtime_us; /* 0 none */
	uint64_t cost_end_us;    /* boot: it has cost all that it may; 0 no limit, or no price */
	uint32_t grace_ms;
	uint8_t upload_failed, n_last;
	struct { /* newest values of a few metrics, for the overview */
		char name[32];
		double value;
	} last[6];
	char *upload_text, *program_says;
	struct loss_point *losses; /* the newest LOSS_POINTS of the metric `loss`; NULL none */
	uint64_t n_losses;
	uint64_t steps;          /* newest step that it reported, + 1; 0: none since hearthd loaded it */
	uint64_t *step_us;       /* by rank: when its newest point with a step was read, by its node; NULL none */
	uint64_t ckpt_us;        /* boot: run/checkpoints.c counts new checkpoints by it */
	int64_t ckpt_left;       /* step that was left out, + 1; 0 none */
	struct quota_use *quota; /* NULL: it has sent nothing that counts */
};

enum { LOOKS_AT_NEWEST = 1, LOOKS_AT_OLD };
struct carray;
struct job_watch;
struct cjob {
	struct job_rec r;
	char *spec, *run; /* texts; NULL = only in the store */
	struct active *act;
	struct job_watch *watch;          /* watch/; NULL: nothing was seen that is watched */
	struct active *collect;           /* of the attempt that is being collected (run/collect.h); NULL none */
	uint32_t collect_attempt;         /* its number */
	struct carray *arr;               /* NULL: it has no members */
	uint64_t pool;                    /* warm pool that it uses, or has left (share/pools.c); 0 none */
	uint64_t pool_chain_us;           /* when the chain of its pool began; 0 none */
	uint8_t wants_no_pool;            /* it gave back places, and has no keep_alive_s */
	struct strv *avoid;               /* nodes that did not get ready */
	uint64_t deadline_us;             /* boot; UINT64_MAX none */
	uint64_t wait_end_us, wait_of_us; /* boot: when its longest wait is over; of the wait since that time */
	uint32_t heap_at;                 /* 1-based; 0 = not in the heap */
	uint64_t recover_us;              /* boot, of a job between two attempts: end of its back-off */
	uint32_t max_wait_s;              /* in the queue; 0 none */
	uint64_t spent_uusd;              /* on attempts that have ended */
	uint64_t stored;                  /* state/quota.c: what its owner has for its checkpoints */
	uint8_t to_queue;                 /* loaded, or changed: the scheduler does not have it yet */
	uint8_t typed;                    /* queued: it asks for instance types */
	uint64_t waited_us;               /* with goes_first: its wait before its last attempt */
	uint8_t goes_first;               /* until it starts: it waits before all others of its priority */
	uint8_t looks_back;               /* collect_look: one of LOOKS_AT...; 0 no */
	uint8_t awaits_collect; /* between two attempts: the next one waits for the end of the collection */
	uint8_t admitted;       /* of a member: its array lets it wait with the scheduler, or run */
	uint8_t dirty_job, dirty_attempt, in_turn, touched, spec_saved, removed;
	struct cjob *turn_next, *turn_prev, *touch_next, *touch_prev;
	UT_hash_handle hh;
};

struct cjob *job_find(const struct core *c, uint64_t id);
struct cjob *job_new(struct core *c, uint64_t id);
void job_free(struct core *c, struct cjob *j);
/* Also ended ones, from the store. NULL + error. */
struct cjob *job_get(struct core *c, uint64_t id, struct err *e);
int job_need_spec(struct core *c, struct cjob *j, struct err *e); /* j->spec is there */
struct job_spec *job_parse_spec(struct core *c, struct cjob *j, struct err *e);
void job_touch(struct core *c, struct cjob *j);
void job_deadline(struct core *c, struct cjob *j, uint64_t at_us);
struct cjob *job_due(struct core *c, uint64_t now_us); /* NULL none; taken out of the heap */
uint64_t job_next_deadline(const struct core *c);
void job_settle(struct core *c, uint64_t id); /* after its commit: frees what need not stay in memory */
struct active *active_new(struct core *c, struct cjob *j,
                          struct err *e); /* rt, inputs and begin are the caller's to fill */
void active_free(struct core *c, struct cjob *j);
struct place_rt *place_rt(const struct cjob *j, const struct place_rec *p);
uint32_t place_index(const struct cjob *j, const struct place_rec *p);
uint64_t max_runtime_s(const struct core *c, const struct cjob *j, const struct job_spec *s);

#endif
