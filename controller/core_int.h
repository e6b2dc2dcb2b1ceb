/*
 * core_int: what the files of the core share. Nobody else includes it.
 *
 * A turn: inputs change records by events (turn.c) and mark jobs as touched; at its end touched jobs are
 * reviewed (review.c: what follows from the record: next state, orders that are due, deadline), the scheduler
 * is asked (alloc.c), and events and rows are committed together.
 */
#ifndef HEARTH_CONTROLLER_CORE_INT_H
#define HEARTH_CONTROLLER_CORE_INT_H

#include "common/base/xalloc.h"
#include "controller/core.h"
#include "controller/record/event.h"
#include "controller/share/node_health.h"
#include "scheduler/sched.h"

#define uthash_malloc(sz) xmalloc(sz)
#include <uthash.h>
#include <utlist.h>

#define NO_RANK          0xffffffffu
#define MAX_REPLACEMENTS 3        /* of nodes that did not get ready, per job */
#define KILL_MARGIN_US   30000000 /* after the grace: then a node has not confirmed */
#define GIVE_UP_US       10000000 /* the same where nothing was launched yet: no process of a rank can be there */
#define FINISH_WAIT_US                                                                                       \
	60000000 /* all ranks have exited: mpirun and the orteds get so long before they are killed */
#define LEASE_MARGIN_US  (LEASE_MARGIN_MS * 1000ull)
#define RETRY_COMMIT_US  20000   /* the store's queue was full */
#define PROBE_US         1000000 /* the store failed: how often it is tried */
#define IDEM_MAX         100000  /* keys remembered at most */
#define DECISIONS_A_TURN 64

/* What a node can do, from its inventory message, kept as JSON in its row. */
struct inv_gpu {
	uint32_t index, numa, link_group; /* as in struct sched_gpu */
	uint64_t memory_bytes;
	char *uuid, *model;
};
struct inv {
	char *address, *instance_type;
	uint32_t peer_port, port_lo, port_hi, cpus, slots, n_gpus;
	uint64_t memory_bytes, disk_bytes;
	double price_per_hour;
	struct inv_gpu *gpus;
	struct strv labels; /* "k=v" and features */
	int known;
};

struct stale { /* a launch that the agent has and that must not be: unknown, old or given up */
	uint64_t job, epoch;
	uint32_t attempt;
	uint8_t state; /* enum launch_state as last reported */
	struct stale *next;
};

/* A list of peers as an agent was told it: what it counts its majority by. */
struct told {
	uint64_t gen; /* 0: no list */
	uint64_t *ids;
	uint32_t n;
};

struct cjob;
struct cnode {
	uint64_t id;
	char *name, *reason, *fingerprint, *inventory;
	enum node_state state;
	uint8_t drain, dirty;
	uint64_t joined_us, seen_us; /* real */
	struct inv inv;
	uint64_t session;
	uint8_t connected, synced, syncing, sched_usable, in_sched;
	uint64_t beat_us; /* boot: last sign of life; 0 none since start */
	double load1, cpu_used;
	uint64_t memory_used, disk_free;
	struct wire_f64v gpu_util;
	struct wire_u64v gpu_memory_used;
	struct told held, sent; /* the list that it said it goes by; one on its way, which it may go by already */
	uint64_t peers_sent_us; /* boot; 0 not in this session */
	uint64_t doubt_us;      /* boot: when it may last have been carrying on without a controller; 0 never */
	uint8_t list_unknown;   /* from the store: what it was told is not on record */
	uint8_t doubted;        /* that it is not declared lost was said */
	uint8_t skewed;         /* that its clock is off was said */
	int64_t ahead_us;       /* its wall clock against ours */
	uint64_t ahead_error_us; /* of that, at most; 0 not measured */
	struct stale *stale;
	struct cjob **jobs; /* that have a launch here which is not cleaned */
	uint32_t n_jobs, cap_jobs;
	uint64_t instance; /* random number of the agent's process, 0 unknown */
	struct trouble trouble;
	uint32_t sched_doubt; /* as the scheduler was told it */
	struct cnode *dirty_next, *dirty_prev;
	UT_hash_handle hh, hh_id; /* by name, by id */
};

enum { SENT_PREPARE = 1, SENT_GO = 2, SENT_KILL = 4, SENT_COLLECT = 8 };
struct place_rt {     /* of one launch on one node, not stored */
	uint64_t session; /* for which `sent` counts */
	uint8_t sent, reported;
	/* Static text, why; NULL no. Its agent lost the launch that ran there: the place is lost once the agent
	 * says that nothing is left. */
	const char *doubt;
	uint64_t progress_us; /* boot: last report that said something new */
	uint64_t done_bytes, total_bytes;
	char phase[64];
};

struct rsh { /* one hearth-rsh that waits for its orted */
	char *id;
	uint32_t place;
	struct wire_strv argv;
	uint8_t state; /* enum proc_state */
	uint32_t exit_code, signal;
	struct rsh *next;
};

struct active { /* of a job with an attempt that goes on, not stored */
	struct job_spec *spec;
	struct place_rt *rt;
	struct rsh *rsh;
	struct wire_shared *gang;                /* what all nodes are told alike; NULL = not asked for yet */
	struct strv inputs;                      /* digest or uri of each input, "" where the agent finds it */
	struct strv resume;                      /* what its node ranks begin with: refs.c */
	uint64_t go_us, run_us, end_us, kill_us; /* boot; 0 = not yet */
	uint64_t ran_us;         /* how long it had run at run_us, before this controller: 0 it had not */
	uint64_t max_runtime_us; /* 0 none */
	uint64_t cost_end_us;    /* boot: it has cost all that it may; 0 no limit, or no price */
	uint32_t grace_ms;
	uint8_t upload_failed, n_last;
	struct { /* newest values of a few metrics, for the overview */
		char name[32];
		double value;
	} last[6];
	char *upload_text, *program_says;
};

/* Of an array or a sweep that has not ended: its members, as far as their records are not enough (array.c).
 * Not stored: it follows from them. */
struct carray {
	struct job_spec *spec; /* what they have in common; where they lie in the queue follows from it alone */
	cJSON *text;           /* of the specification, and the client's facts: until all are made */
	char *run;
	uint32_t made;            /* members before it have records */
	uint32_t n[N_JOB_STATUS]; /* of those that are made */
	uint32_t admitted;        /* given to the scheduler, or holding resources */
	uint32_t next;            /* none before it waits to be admitted */
	uint32_t stop_at;         /* those before it were told to stop, when that is wanted */
	uint32_t halved;          /* of the stopped ones: by successive halving */
	uint32_t failed[3];       /* first ones that did */
	uint32_t n_failed;        /* of these */
	struct race *race;        /* successive halving; NULL none */
	uint8_t busy;             /* in core->arrays */
	struct cjob *busy_next, *busy_prev;
};

struct cjob {
	struct job_rec r;
	char *spec, *run; /* texts; NULL = only in the store */
	struct active *act;
	struct carray *arr;               /* NULL: it has no members */
	struct strv *avoid;               /* nodes that did not get ready */
	uint64_t deadline_us;             /* boot; UINT64_MAX none */
	uint64_t wait_end_us, wait_of_us; /* boot: when its longest wait is over; of the wait since that time */
	uint32_t heap_at;                 /* 1-based; 0 = not in the heap */
	uint8_t replacements;
	uint32_t max_wait_s; /* in the queue; 0 none */
	uint64_t spent_uusd; /* on attempts that have ended */
	uint8_t to_queue;    /* loaded, or changed: the scheduler does not have it yet */
	uint8_t typed;       /* queued: it asks for instance types */
	uint8_t admitted;    /* of a member: its array lets it wait with the scheduler, or run */
	uint8_t dirty_job, dirty_attempt, in_turn, touched, spec_saved, removed;
	struct cjob *turn_next, *turn_prev, *touch_next, *touch_prev;
	UT_hash_handle hh;
};

enum held_kind {
	HELD_SEND,
	HELD_REPLY,
	HELD_NOTICE,
	HELD_CLOSE,
	HELD_REMOVE_DATA,
	HELD_SETTLE,
	HELD_METRICS_ACK
};
struct held { /* leaves after the commit, or not at all */
	enum held_kind kind;
	char *node;
	uint64_t session, id, job;
	uint32_t attempt;
	uint16_t type;
	void *msg;
	struct request *rq;
	int status;
	cJSON *body;
	struct err err;
	struct event_row ev;
	struct held *next, *prev;
};

struct turn { /* what one transaction carries */
	struct core *core;
	struct store_txn *txn;
	struct held *held;
	size_t n; /* things in txn */
};

struct idem {
	char *key;
	char digest[HASH_HEX_SIZE];
	uint64_t job;   /* that was submitted; 0: body says what was answered */
	uint64_t at_us; /* real; 0: of an earlier controller, dropped at its next start */
	uint16_t status;
	char *body;
	UT_hash_handle hh; /* in order of arrival: the oldest goes first */
};

struct token {
	char *id, *kind, *secret_hash, *owner, *used_by;
	uint64_t job, created_us, expires_us, used_us;
	UT_hash_handle hh; /* by secret_hash */
};

#define ACCOUNT_PATH (SPEC_MAX_QUEUE + 140) /* "queue/@owner" */
struct used;
struct learned;
struct catalogue;
struct payer;
struct cqueue { /* a queue, or a user in one: "research/@ada" */
	char *path;
	double weight;
	uint32_t quota_gpus; /* 0 none */
	uint32_t jobs;       /* unfinished ones that name it */
	uint8_t is_queue, borrow;
	UT_hash_handle hh;
};

struct creserve;
struct core {
	struct core_config cfg; /* strings are owned */
	struct core_io io;
	struct store *store;
	struct sched *sched;
	struct cjob *jobs;
	struct cnode *nodes, *nodes_by_id;
	struct idem *idem;
	struct token *tokens;
	struct cjob *touched, *turn_jobs;
	struct cjob *arrays;       /* array.c: something may be to be done for them */
	struct cjob *races;        /* arrays with successive halving */
	struct array_rm *removing; /* arrays whose members' data goes */
	struct cnode *dirty_nodes;
	struct cjob **heap;
	uint32_t n_heap, cap_heap;
	struct cqueue *queues;
	struct catalogue *catalogue; /* instances.c: instance types */
	struct creserve *reserves;
	uint64_t next_reserve_id;
	uint64_t n_books_told;          /* how often the library was told of one */
	uint64_t reserve_at_us;         /* boot: when they are looked at again */
	struct payer *payers, *budgets; /* budget.c: who has spent something; who has a budget */
	uint32_t n_budgets;
	uint64_t budget_at_us; /* boot: when budgets are looked at again */
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
	int stopping; /* nothing is taken or given any more */
	int failing;  /* the store did not take a transaction */
	int loaded;   /* memory is what the store has, and what followed */
	struct err fail_err;
	char *no_room; /* that no new work is taken, and why; NULL: it is */
	uint64_t probe_us;
	int probing, sched_dirty, more_decisions;
	uint64_t trouble_next_us; /* boot: when a node may be doubted less; 0 none is doubted */
	uint64_t kept_seen_s;     /* scheduler time: kept places up to then were waited for */
	uint64_t again_s;         /* scheduler time: a pass is due then; 0 none */
	struct history *history;  /* history.c */
	uint64_t n_passes,
	    pass_s; /* of the library since the start, until nothing more could start; when the last was */
	uint64_t late_job, late_epoch; /* points of a job that has ended: the last one that was looked up */
	uint32_t late_attempt;
	uint64_t n_commits, n_failed, n_events, n_lost_nodes;
	struct loop_turns turns; /* of the thread that decides, as it was told last */
};

/* ---- turn.c: events, what is held, commits --------------------------------------------------- */
/* Applies and records; takes data (an object, or NULL). -1: refused by the tables (logged). */
int job_post(struct core *c, struct cjob *j, enum event_type t, cJSON *data);
void cluster_post(struct core *c, enum event_type t, cJSON *data); /* takes data */
struct turn *turn_now(struct core *c);
void hold_send(struct core *c, const struct cnode *n, uint16_t type, const void *msg); /* copies */
/* At once: only what follows from what is durable already, and claims nothing. */
void send_now(struct core *c, const struct cnode *n, uint16_t type, const void *msg);
void hold_ack(struct core *c, const char *node, uint64_t session, uint64_t id);
void hold_reply(struct core *c, struct request *rq, int status, cJSON *body); /* takes both */
void reply_err(struct core *c, struct request *rq,
               const struct err *e); /* takes rq; held as well: order of answers */
int reply_fail(struct core *c, struct request *rq, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void hold_close(struct core *c, const char *node, uint64_t session, const char *why);
void hold_remove_data(struct core *c, uint64_t job);
void hold_metrics_ack(struct core *c, const char *node, uint64_t job, uint32_t attempt, uint64_t seq);
void node_mark(struct core *c, struct cnode *n); /* its row is to be written */
void turn_commit(struct core *c);
void turn_tick(struct core *c); /* retries, probes */
uint64_t turn_next_us(const struct core *c);
/* Drops what the store does not have yet; what it has is let go when it is durable. */
void turn_stop(struct core *c, const struct err *e);
void turns_drop(struct core *c, const struct err *e); /* both; requests are answered with e */
void metrics_drop(struct core *c, const struct err *e);
uint64_t now_boot(const struct core *c);
uint64_t now_real(const struct core *c);

/* ---- load.c ---------------------------------------------------------------------------------- */
void state_clear(struct core *c);
void core_fail(struct core *c, const struct err *e); /* a commit failed: back to what the store has */
void core_recovered(struct core *c);

/* ---- jobs.c ---------------------------------------------------------------------------------- */
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
void job_settle(struct core *c, uint64_t id); /* after its commit: what need not stay in memory goes */
struct active *active_new(struct core *c, struct cjob *j,
                          struct err *e); /* rt, inputs and resume are the caller's to fill */
void active_free(struct core *c, struct cjob *j);
struct place_rt *place_rt(const struct cjob *j, const struct place_rec *p);
uint32_t place_index(const struct cjob *j, const struct place_rec *p);

/* ---- array.c, array_req.c --------------------------------------------------------------------- */
/* j gets what its members have in common: from its specification. */
int array_open(struct core *c, struct cjob *j, const char *spec, const char *run, struct err *e);
void array_free(struct core *c, struct cjob *j);
void array_touch(struct core *c, struct cjob *j);
/* A member's status is another one now. */
void array_follow(struct core *c, struct cjob *member, int was_new, enum job_status before);
/* 1: a member waits with its array until that lets it go to the scheduler. */
int array_parks(struct core *c, const struct cjob *member);
void array_close(struct core *c,
                 struct cjob *j); /* members that wait with the scheduler wait with it again */
void array_load(struct core *c, const struct cjob *member);          /* one that has not ended */
void array_load_ended(struct core *c, const struct member_row *row); /* one that has */
void array_loaded(struct core *c, struct cjob *j);                   /* all of them are there */
void arrays_step(struct core *c);                                    /* a part of what is to be done */
int arrays_busy(const struct core *c);
/* Requests for the whole of it. */
void array_stop(struct core *c, struct request *rq, struct cjob *j);
void array_hold(struct core *c, struct request *rq, struct cjob *j);
void array_release(struct core *c, struct request *rq, struct cjob *j);
void array_why(struct core *c, struct request *rq, struct cjob *j);
void array_why_member(struct core *c, const struct cjob *j, char *out,
                      size_t n); /* one that is not admitted */
void array_rm(struct core *c, struct request *rq, struct cjob *j);
int array_rm_step(struct core *c, uint32_t *budget); /* 1: there is more */
void array_rm_clear(struct core *c);
/* array_halve.c */
void race_open(struct core *c, struct cjob *j);
void race_free(struct core *c, struct cjob *j);
void race_follow(struct cjob *j, uint32_t index, enum job_status status, int halved);
void race_load(struct cjob *j, uint32_t index, const char *rungs); /* as its record has them */
void array_points(struct core *c, const struct wm_metrics *m);
/* ops.c: a job that has not ended, with the data of the event. Takes d. 1: at once, it had not begun. */
int job_stop(struct core *c, struct cjob *j, cJSON *d);
cJSON *event_by(const struct core *c, const struct request *rq, const char *what);
void op_answer(struct core *c, struct request *rq, const struct cjob *j, const char *text);

/* ---- alloc.c, start.c, review.c, kill.c ------------------------------------------------------ */
void alloc_queue(struct core *c, struct cjob *j, const struct job_spec *spec); /* waiting now */
void alloc_unqueue(struct core *c, struct cjob *j); /* it neither waits nor holds; it may come again */
void wait_review(struct core *c, struct cjob *j);   /* of a queued job: is its longest wait over? */
void alloc_ended(struct core *c, struct cjob *j);   /* it holds nothing; who waits for it hears of it */
void alloc_holds(struct core *c, struct cjob *j, uint64_t held_s); /* at load; for how long already */
void alloc_release(struct core *c, struct cjob *j, uint64_t node);
int alloc_possible(struct core *c, const struct job_spec *spec, struct sched_reason *r);
/* What `why` would say if that user submitted it now. */
void alloc_ask(struct core *c, const struct job_spec *spec, const char *owner, struct sched_reason *r,
               struct sched_forecast *f);
void alloc_open(struct core *c);              /* a library without jobs */
uint64_t alloc_next_us(const struct core *c); /* when a pass is due by time alone; UINT64_MAX: it is not */
void alloc_tick(struct core *c);
uint64_t sched_time(const struct core *c);
/* history.c: what the library is told goes on record. */
void history_open(struct core *c); /* a new part, of c->sched; what was not written of the last is dropped */
void history_note(struct core *c, const char *word);              /* a line of its own */
int history_write(struct core *c, struct store_txn *t, int must); /* 1: something was written */
void history_fini(struct core *c);
/* How long the scheduler believes that a job may run: its time limit and the grace time. */
uint64_t alloc_limit_s(const struct core *c, const struct cjob *j, const struct job_spec *spec);
void schedule(struct core *c);
/* Into an event that tells the library something, or what it decided: when that was by the library's time,
 * and after which of its passes. */
void sched_stamp(const struct core *c, enum event_type t, cJSON *data);

/* refs.c. inputs and resume start empty; resume: what each node rank gets, the first also what those behind
 * the last get; NULL: not asked. */
int resolve_refs(struct core *c, const struct job_spec *spec, struct strv *inputs, struct strv *resume,
                 struct err *e);
/* What the next attempt of a job whose last has ended begins with, as job_rec.begins has it; *out malloc'ed,
 * NULL: what the specification says. asked: NULL where it stood, "start", "step:N". */
int begins_settle(struct core *c, const struct cjob *j, const char *asked, char **out, struct err *e);
int begins_parse(const char *text, uint32_t *attempt, int64_t *step); /* -1: it is what the spec. says */
#define BEGINS_SAY_MAX 300
/* "goes on from step 6 of attempt 1" */
void begins_say(struct core *c, const struct cjob *j, const char *begins, char *out, size_t n);
/* As resume above, by that text. */
int begins_resolve(struct core *c, const struct cjob *j, const char *begins, const struct job_spec *spec,
                   struct strv *out, struct err *e);

/* queues.c */
void queues_open(struct core *c);
void queues_clear(struct core *c);
int queue_load(struct core *c, const struct queue_row *r);
void queues_loaded(const struct core *c);
void usage_load(struct core *c, const struct usage_row *r);
void queue_jobs(struct core *c, const char *path, int delta); /* unfinished jobs that name it */
int queue_exists(const struct core *c, const char *path, struct err *e);
/* -1: its quotas could never allow a job of so many GPUs. */
int queue_holds(const struct core *c, const char *queue, const char *owner, uint64_t gpus, struct err *e);
void account_path(char *out, size_t n, const char *queue, const char *owner);
void usage_mark(struct core *c, const struct cjob *j); /* it has given back its GPUs */
void usage_write(struct core *c);                      /* rows of those marked, into the turn */
/* instances.c */
void instances_open(struct core *c);
void instances_clear(struct core *c);
void instance_load(struct core *c, const char *name, const char *own);
const char *node_type(const struct cnode *n);                   /* without "ml."; "" not known */
double node_price(const struct core *c, const struct cnode *n); /* USD an hour; 0 not known */
/* trouble.c */
uint32_t node_doubt(const struct core *c, const struct cnode *n);
void node_trouble(struct core *c, struct cnode *n, enum trouble_kind kind,
                  const char *text); /* n NULL: nothing */
void troubles_review(struct core *c);
void node_trouble_json(const struct core *c, const struct cnode *n, cJSON *o);
double node_power(const struct core *c, const struct cnode *n); /* watts at full load; 0 not known */
void node_labels(const struct core *c, const struct cnode *n, struct strv *out); /* with what its type has */
/* "switch": the NAME of its label switch=NAME; NULL it has none. */
const char *node_label(const struct cnode *n, const char *key);
/* Types of nodes that the job may run on, in order; empty: any. out starts empty and is the caller's. */
void instance_types(const struct core *c, const struct job_spec *s, struct strv *out);
/* -1: a type that nobody knows, or that no node is. */
int instances_check(const struct core *c, const struct job_spec *s, struct err *e);
/* reserve.c: nodes that are kept for a time */
void reserves_clear(struct core *c);
int reserve_load(struct core *c, const struct reservation_row *r);
void reserve_node_came(struct core *c, const struct cnode *n); /* the library did not know it */
void reserves_loaded(struct core *c); /* all nodes are there: the library is told of all */
void reserve_review(struct core *c);  /* what begins, ends, goes; when the next is due */
/* One that is not over and keeps nodes for that queue; NULL none. */
const char *reserve_of_queue(const struct core *c, const char *queue);
const char *reserve_maintains(const struct core *c,
                              const char *node); /* the window it is in now; NULL none */
/* What keeps a job off that would run for limit_s from now. 0: nothing. */
int reserve_why(const struct core *c, const struct cjob *j, uint64_t limit_s, char *out, size_t size);
/* Those of a node, into the list and in words. */
void reserve_of_node(const struct core *c, const char *node, cJSON *list, char *text, size_t size);
/* forecast.c. owner and name: of a job that is in the library only. f->places is the caller's. */
void forecast(struct core *c, uint64_t job, const char *owner, const char *name, struct sched_forecast *out);
void forecast_json(struct core *c, const struct sched_forecast *f, cJSON *body);
int forecast_text(struct core *c, const struct sched_forecast *f, char *out,
                  size_t n);                           /* 0: nothing is known */
void learn_time(struct core *c, const struct cjob *j); /* of an attempt that ended */
void learn(struct core *c, const char *owner, const char *name, double took_s);
void learned_clear(struct core *c);
/* USD an hour. */
double decision_price(const struct core *c, const struct job_spec *s, const struct sched_decision *d);
double places_price(const struct core *c, const struct job_spec *s, const struct sched_place *p, uint32_t n);
double attempt_price(const struct core *c, const struct job_spec *s, const struct attempt_rec *a);
double expected_s(const struct core *c, const char *owner, const char *name); /* 0 not known */
/* What a job without a time limit of its own is believed to take, with caution; 0: too little is known. */
uint64_t believed_s(const struct core *c, const char *owner, const char *name);
/* v rounded up to so many binary digits. */
uint64_t round_up_bits(uint64_t v, unsigned bits);
/* cost.c */
int cost_check(const struct core *c, const struct job_spec *s, struct err *e); /* at submit: -1 refused */
/* Into the event: who pays for what is decided, and its price. */
void cost_placed(struct core *c, const struct cjob *j, const struct sched_decision *dec, cJSON *d);
void cost_begins(struct core *c, struct cjob *j,
                 uint64_t held_us);             /* it has its nodes, for so long already */
void cost_ends(struct core *c, struct cjob *j); /* of an attempt that ended */
uint64_t cost_end_at(const struct cjob *j);     /* boot: when its money is spent; UINT64_MAX never */
int cost_is_up(struct core *c, struct cjob *j); /* 1: its end has begun; by a budget, too */
/* Has it nothing left for another attempt? Then text says so. */
int cost_used_up(const struct cjob *j, const struct job_spec *s, char *text, size_t n);
/* budget.c. account: QUEUE/@OWNER; started_us: real */
void budgets_clear(struct core *c);
void budget_periods(uint64_t now_us, uint64_t start_us[3]); /* beginning of this day, week, month */
void budget_load(struct core *c, const struct budget_row *r);
void spent_load(struct core *c, const struct spent_row *r);
void budget_begins(struct core *c, const char *account, uint64_t price_uusd, uint64_t started_us);
void budget_ends(struct core *c, const char *account, uint64_t price_uusd);
/* Closes and opens accounts as is due; quiet: as they were on record, without an event. */
void budgets_review(struct core *c, int quiet);
void budget_drop(struct core *c, const char *path, const char *by);
void budgets_drop_users(struct core *c, const char *queue, const char *by); /* of all users in it */
/* Of a job that a budget keeps waiting: which, in words. */
void budget_explain(const struct core *c, const char *queue, const char *owner, struct sched_reason *r);
/* Of an attempt: 1 its budget is used up and ends what runs: its end has begun. */
int budget_is_up(struct core *c, struct cjob *j);
int queue_of_path(const struct core *c, const char *path,
                  struct err *e); /* -1: no such queue, or no queue of that user */
/* suggest.c: the cheapest change with which a job (j NULL: one that is not there, of that owner) would fit
 * now, or ever; into body ("change", unless NULL), and out, "; it would ...". 0: none, out is empty. */
int suggest(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner, int ever,
            cJSON *body, char *out, size_t n);
/* suggest.c: the drained nodes that would have to be resumed for it to fit now, or (why says that the usable
 * nodes could never hold it) some day; into body ("resume") and out, after what suggest said there. */
void suggest_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    enum sched_why why, cJSON *body, char *out, size_t n);
size_t alloc_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    int empty, uint64_t *nodes, size_t max);
int alloc_change(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                 const char *const *queues, int ever, struct sched_change *out);
/* await.c. await_check, at submit: -1 refused; note says what it waits for, empty when for nothing. */
int await_check(struct core *c, const struct job_spec *s, char *note, size_t n, struct err *e);
/* What is open; deps has room for SPEC_MAX_AFTER. never: one that can never be; then deps is not complete. */
int await_fill(struct core *c, const struct job_spec *s, struct sched_dep *deps, uint32_t *n,
               const struct spec_after **never, struct err *e);
/* The same for a job that goes to the queue. -1: it does not, it was stopped or held with the reason. */
int await_queue(struct core *c, struct cjob *j, const struct job_spec *s, struct sched_dep *deps,
                uint32_t *n);
int await_settle(struct core *c); /* events of what was settled since; 0: there is more */

void port_mark(struct core *c, uint32_t port, int delta);
void start_attempt(struct core *c, struct cjob *j, const struct sched_decision *d);
void send_orders(struct core *c, struct cjob *j); /* all that are due and not sent in this session */
void rsh_request(struct core *c, struct cnode *n, const struct wm_rsh_request *m);
void rsh_cancel(struct core *c, const struct wm_rsh_cancel *m);
void rsh_orted(struct core *c, struct cjob *j, uint32_t place, const struct wm_proc_report *m);
void rsh_resend(struct core *c, struct cjob *j, uint32_t place);
void rsh_lost(struct core *c, struct cjob *j, uint32_t place);

void job_review(struct core *c, struct cjob *j);

enum end_kind { END_FINISHED, END_FAILURE, END_PREPARE, END_NODE_LOST, END_STOP, END_REQUEUE, END_TIMEOUT };
int end_wants_kill(const struct job_rec *r);
void begin_end(struct core *c, struct cjob *j, enum reason_class cls, const char *reason);
void decide_outcome(struct core *c, struct cjob *j);
void finish_attempt(struct core *c, struct cjob *j);
void place_lost(struct core *c, struct cjob *j, uint32_t place, uint64_t silent_us, int unconfirmed,
                const char *text);

/* ---- report.c -------------------------------------------------------------------------------- */
void on_launch_report(struct core *c, struct cnode *n, uint64_t id, const struct wm_launch_report *m);
void on_proc_report(struct core *c, struct cnode *n, uint64_t id, const struct wm_proc_report *m);
void on_artifact(struct core *c, struct cnode *n, uint64_t id, const struct wm_artifact_report *m);
void on_run_info(struct core *c, struct cnode *n, uint64_t id, const struct wm_run_info *m);
void on_metrics(struct core *c, const char *node, const struct wm_metrics *m);

/* ---- nodes.c, inventory.c, lease.c, sync.c --------------------------------------------------- */
struct cnode *node_find(const struct core *c, const char *name);
/* The error for a name that no node has; it names the nearest one of the first 1,000. -1. */
int node_unknown(const struct core *c, const char *name, struct err *e);
struct cnode *node_by_id(const struct core *c, uint64_t id);
struct cnode *node_new(struct core *c, const char *name, uint64_t id);
void node_free(struct core *c, struct cnode *n);
void node_job_add(struct cnode *n, struct cjob *j);
void node_job_del(struct cnode *n, const struct cjob *j);
void node_update_sched(struct core *c, struct cnode *n, int inventory_changed);
void node_state(struct core *c, struct cnode *n, enum node_state to, const char *reason);
void node_row_of(const struct cnode *n, struct node_row *out); /* borrows */
void on_inventory(struct core *c, struct cnode *n, const struct wm_inventory *m);
int inv_parse(struct inv *out, const char *json);
void inv_fini(struct inv *i);
char *inv_json(const struct wm_inventory *m);
void on_beat(struct core *c, struct cnode *n, const struct wm_beat *m);
void lease_check(struct core *c);
/* Silent for so long that it would be lost, were it certain that it does not carry on. */
/* A time by the node's wall clock as ours was then, as far as that is known. 0 stays 0. */
uint64_t node_time(const struct cnode *n, uint64_t us);
/* Its clock is surely off by more than a second. */
int node_skewed(const struct cnode *n);
int node_doubtful(const struct core *c, const struct cnode *n);
uint64_t node_silent_us(const struct core *c, const struct cnode *n); /* since its last sign of life */
void node_is_lost(struct core *c, struct cnode *n, const char *why, const char *by);
/* peers.c */
void peers_tell(struct core *c, struct cnode *n, struct wm_beat_ack *m); /* m->peers is wire_strv_add'ed */
void peers_told(struct cnode *n, uint64_t gen); /* it says that it goes by that one */
/* After each change of who is up and where: the next list is made anew. */
void peers_changed(struct core *c);
int peers_may_carry_on(struct core *c, const struct cnode *n);
void told_fini(struct told *t);
void agent_connected(struct core *c, const char *node, uint64_t session, const struct wm_hello *hello);
void agent_gone(struct core *c, const char *node, uint64_t session, const char *why);
void on_sync_begin(struct core *c, struct cnode *n);
void on_sync_end(struct core *c, struct cnode *n);
/* The agent lost a launch that was told to go: it is told to end what may be left, and keeps the GPUs until
 * it says that nothing is. text: static. */
void place_in_doubt(struct core *c, struct cjob *j, const struct place_rec *p, const char *text);
/* A launch that must not be there: kill, collect without keeping; the node gets no work until it is over. */
void stale_report(struct core *c, struct cnode *n, const struct wm_launch_report *m);
void stale_add(struct core *c, struct cnode *n, uint64_t job, uint32_t attempt, uint64_t epoch);

/* ---- requests -------------------------------------------------------------------------------- */
void req_submit(struct core *c, struct request *rq);
void req_clone(struct core *c, struct request *rq);
int idem_answers(enum request_op op);              /* 1: by remembering what was answered */
int idem_seen(struct core *c, struct request *rq); /* 1 answered */
struct idem *idem_add(struct core *c, const char *key, const char *digest, uint64_t job);
char *idem_scoped(const struct core *c, const struct request *rq); /* USER:KEY, malloc'ed */
cJSON *idem_submitted(uint64_t id, const char *name);
void idem_load(struct core *c, const struct answer_row *r);
/* What a request with a key is answered, if that is to be remembered. */
void idem_keep(struct core *c, const struct request *rq, int status, const cJSON *body);
void idem_clear(struct core *c);
uint64_t max_runtime_s(const struct core *c, const struct cjob *j, const struct job_spec *s);
void req_stop(struct core *c, struct request *rq);
void req_hold(struct core *c, struct request *rq);
void req_release(struct core *c, struct request *rq);
void req_set(struct core *c, struct request *rq);
void req_requeue(struct core *c, struct request *rq);
void req_rm(struct core *c, struct request *rq);
void req_why(struct core *c, struct request *rq);
void req_nodes(struct core *c, struct request *rq);
void req_top(struct core *c, struct request *rq);
void req_stats(struct core *c, struct request *rq);
void req_drain(struct core *c, struct request *rq);
void req_resume(struct core *c, struct request *rq);
void req_node_rm(struct core *c, struct request *rq);
void req_node_lost(struct core *c, struct request *rq);
void req_queues(struct core *c, struct request *rq);
void req_queue_set(struct core *c, struct request *rq);
void req_queue_rm(struct core *c, struct request *rq);
void req_quota_set(struct core *c, struct request *rq);
void req_quota_rm(struct core *c, struct request *rq);
void req_instances(struct core *c, struct request *rq);
void req_instance_set(struct core *c, struct request *rq);
void req_instance_rm(struct core *c, struct request *rq);
void req_reserves(struct core *c, struct request *rq);
void req_reserve_add(struct core *c, struct request *rq);
void req_reserve_set(struct core *c, struct request *rq);
void req_reserve_rm(struct core *c, struct request *rq);
void req_brief(struct core *c, struct request *rq);
void req_budgets(struct core *c, struct request *rq);
void req_budget_set(struct core *c, struct request *rq);
void req_budget_rm(struct core *c, struct request *rq);
void req_token(struct core *c, struct request *rq);
void req_join(struct core *c, struct request *rq);
void token_add(struct core *c, const struct token_row *r); /* at load */
void tokens_clear(struct core *c);
void token_job_make(struct core *c, struct cjob *j);
void token_job_expire(struct core *c, struct cjob *j);
void token_secrets(const struct cjob *j, uint32_t place, char launch[33], char job[41]);
struct cjob *req_job(struct core *c, struct request *rq); /* NULL: answered */
const char *req_user(const struct core *c, const struct request *rq);

#endif
