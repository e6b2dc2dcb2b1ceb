/*
 * sim: a whole cluster in one process, on one clock and one seed: the controller's core, scheduler and store,
 * and n nodes, each with the agent's own code (session, guard, lease, launches, outbox, adoption, kill). What
 * stands in for the outside is the network (simnet.c), shims and their processes (simproc.c) and what serves
 * a launch (simdata.c: staging, containers, uploads).
 *
 * simcheck.c knows what really happened on the machines and compares it with what the controller says.
 */
#ifndef HEARTH_TESTS_WORLD_SIM_H
#define HEARTH_TESTS_WORLD_SIM_H

#include "agent/agent_core.h"
#include "agent/launch/launch.h"
#include "common/base/hash.h"
#include "common/os/lease_file.h"
#include "tests/lib/world.h"
#include "tests/world/simloop.h"
#include <setjmp.h>

#define SIM_NODES 8
#define SIM_GPUS  4
#define SIM_SLOTS 8

/* What may go wrong; bits of sim_options.faults. */
#define SIM_FAULTS(F)                                                                                        \
	F(CUT_CTL, "cut-ctl")       /* a node and the controller hear nothing of each other */                   \
	F(CUT_PEERS, "cut-peers")   /* two agents hear nothing of each other */                                  \
	F(CUT_ALL, "cut-all")       /* a node hears nobody */                                                    \
	F(RESET, "reset")           /* a connection breaks, its tail is lost */                                  \
	F(SLOW, "slow")             /* a node's link is slow for a while */                                      \
	F(OLD_ORDER, "old-order")   /* an order comes again after later ones */                                  \
	F(AGENT, "agent")           /* kill -9 of an agent; a successor comes soon */                            \
	F(AWAY, "away")             /* kill -9 of an agent; nobody starts it again for long */                   \
	F(FREEZE, "freeze")         /* an agent stands still */                                                  \
	F(POWER, "power")           /* a node loses power and comes back */                                      \
	F(HEARTHD, "hearthd")       /* kill -9 of hearthd */                                                     \
	F(STORE_FULL, "store-full") /* commits fail */                                                           \
	F(STORE_BUSY, "store-busy") /* the store's queue is full */                                              \
	F(STORE_SLOW, "store-slow") /* a commit takes long */                                                    \
	F(DISK, "disk")             /* files of an agent cannot be written */                                    \
	F(STUCK, "stuck")           /* a process cannot be killed for a while */                                 \
	F(SHIM, "shim")             /* kill -9 of a shim: its process goes with it, its fate is unknown */       \
	F(RANK, "rank")             /* kill -9 of a rank */                                                      \
	F(WALL, "wall-clock")       /* a wall clock jumps */                                                     \
	F(DATA, "data")             /* staging, containers, shims, uploads fail or hang */

enum sim_fault {
#define F(id, name) SIM_F_##id,
	SIM_FAULTS(F)
#undef F
	    SIM_N_FAULT
};

struct sim_options {
	uint64_t seed;
	unsigned nodes, jobs;
	uint32_t faults;     /* bits by enum sim_fault */
	uint32_t lease_ms;   /* 0: 10 s */
	uint64_t fault_us;   /* so long faults and users are at work */
	int rules;           /* queues, quotas, reservations and sweeps, too */
	uint32_t max_faults; /* so many at most */
	int trace;           /* 1: keep the story, 2: print it as it happens */
	/* Runs that go through all cases, one after the other (test_nth.c): */
	int gentle; /* jobs are gangs of all nodes, by mpirun and directly; programs end well, users leave them
	               alone, every job must complete */
	uint32_t agent_dies_again;                 /* and so many steps later once more; 0 not */
	uint32_t agent_dies_at;                    /* an agent, at its n-th step outwards; 0 never */
	uint32_t agent_that_dies;                  /* by index */
	uint32_t hearthd_dies_at, commit_fails_at; /* hearthd, at its n-th commit */
	int durable;                               /* that commit is in the store all the same */
};

struct sim_node;
struct sim_conn;
struct sim_proc;
struct sim_rsh;
struct sim_container;

struct sim_place { /* what a node was told to set aside for a launch */
	uint64_t job, epoch;
	uint32_t attempt, master_port, node_rank, n_gpus, n_cpus, n_nodes, world;
	uint32_t gpus[SIM_GPUS], cpus[SIM_SLOTS];
	int unconfirmed;                 /* given up by the controller without a word from the node */
	int fenced;                      /* given up as one that has ended all by itself by now */
	char resume_from[HASH_HEX_SIZE]; /* what it was told to begin with */
	int64_t resume_step;
	struct sim_place *next;
};

struct sim_epoch {
	uint64_t job, epoch;
	struct sim_epoch *next;
};

struct sim_node {
	char name[16], address[24], boot_id[PROC_BOOT_ID_SIZE];
	unsigned index, boots;
	char *run, *data;
	struct loop *loop; /* of the agent that runs; NULL none */
	struct agent *agent;
	struct clock clock;
	uint64_t boot_at; /* the world's time at its start */
	int64_t skew_us;  /* of its wall clock */
	int powered, off_now;
	uint32_t steps;           /* outwards, of all its agents */
	uint32_t crash_in;        /* its agent dies at so many steps outwards from now; 0 not */
	uint64_t crash_down_us;   /* and is away for so long */
	uint64_t full_until;      /* its disk is full */
	struct loop_timer *start; /* the agent, or the machine, comes back */
	uint64_t session;         /* of the control connection that the controller's side has as newest; 0 none */
	uint64_t cut_ctl_until, slow_until, cut_peer_until[SIM_NODES];
	struct sim_proc *procs;
	struct sim_rsh *rshs;
	struct sim_container *containers;
	struct sim_place *places;
	struct sim_epoch *epochs; /* greatest of each job that this agent was told */
	struct sent *orders;      /* that it was given, to be said again when they are old */
	int n_restarts;
};

struct sim_rank {    /* what really became of one rank */
	uint64_t key[3]; /* job, attempt, rank */
	struct sim_node *n;
	int alive, ended, shim_died, power; /* shim_died: nobody knows its end */
	int dying; /* SIGKILL came while it sleeps in the kernel: no instruction of its program runs any more */
	uint32_t exit_code, signal;
	int told_ends; /* ends of it in the events */
	UT_hash_handle hh;
};

struct sim_artifact { /* an upload that the controller has acknowledged */
	uint64_t job;
	uint32_t attempt;
	const struct sim_node *n;
	int checkpoint;         /* else what it made */
	int on_record, excused; /* excused: the node was given up meanwhile */
	struct sim_artifact *next;
};

struct sim_job;
struct sim_call { /* a request on its way */
	enum request_op op;
	struct sim_job *job;                          /* a submit; NULL another */
	int lost;                                     /* its answer will not reach the one who asked */
	void (*done)(struct sim_call *k, int status); /* of another */
	void *arg;
	struct sim_call *prev, *next;
};

struct sim_job { /* as its user sees it */
	unsigned index;
	uint64_t id; /* acknowledged; 0 not yet */
	uint32_t n_ranks, n_nodes;
	uint32_t members;     /* of a sweep; their ids follow */
	uint32_t uploaded;    /* nodes whose output is on record, of the newest attempt */
	uint64_t uploaded_by; /* the attempt of which that is: an earlier one may still be collected */
	uint64_t after;       /* job that it waits for; 0 none */
	enum spec_after_kind after_kind;
	int chosen;
	char *spec, key[32];
	struct loop_timer *timer;
};

struct sim {
	struct sim_options o;
	struct world *w;
	int up; /* hearthd runs */
	struct loop *loop;
	struct sim_node nodes[SIM_NODES];
	struct sim_node *now; /* whose code runs; NULL the world's or the controller's */
	uint64_t rng_net, rng_fault, rng_prog, rng_user;
	/* controller */
	struct loop_timer *turn, *tick, *commit, *ctl_start;
	int64_t ctl_skew_us;
	uint64_t jumped_us; /* when a wall clock was last set */
	uint64_t full_until, next_session, n_conns;
	int slow_commits;
	/* network */
	struct sim_conn *conns;
	/* users */
	struct sim_job *jobs;
	struct sim_call *calls;
	struct loop_timer *user;
	uint64_t n_calls, n_answers;
	/* faults */
	struct loop_timer *fault;
	uint32_t n_faults;
	int calm;
	uint64_t calm_us;
	/* truth */
	struct sim_rank *ranks;
	struct sim_artifact *artifacts;
	uint64_t n_submitted;
	uint8_t *job_ended;
	uint32_t job_ended_n;
	int in_old_order;
	jmp_buf crash;
	struct sim_node *crashed;
	int data_faults;
	int next_pid, next_fd;
	uint64_t next_instance;
	/* findings */
	char bad[600];
	uint64_t steps, n_attempts, n_reports;
	uint32_t
	    n_beside_dying; /* starts while a rank of an earlier attempt sleeps in the kernel of a lost node */
	/* the story */
	char **lines;
	uint32_t n_lines, cap_lines;
};

extern struct sim *sim; /* the one that runs; loop.h and the agent's outside have no room for an argument */

/* ---- chance, time, story (sim.c) --------------------------------------------------------------------- */
uint32_t sim_rnd(uint64_t *state, uint32_t n);                /* 0 .. n-1 */
int sim_one_in(uint64_t *state, uint32_t n);                  /* 1 with probability 1/n; n 0: never */
uint64_t sim_span(uint64_t *state, uint64_t lo, uint64_t hi); /* log-uniform */
void sim_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_bad(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* the first one counts */
struct loop_timer *sim_later(loop_cb cb, void *arg);                      /* timer of the world */
const char *sim_fault_name(enum sim_fault f);
int sim_fault_find(const char *name);
/* 0 fine; else the finding is in out. */
struct sim_result {
	char bad[600];
	uint64_t steps, us, jobs, attempts, commits, events;
	uint32_t faults, beside_dying;
	uint32_t agent_steps; /* of the agent that dies, outwards */
};
int sim_run(const struct sim_options *o, struct sim_result *out);

/* ---- controller (simctl.c) --------------------------------------------------------------------------- */
void sim_ctl_start(void);
void sim_ctl_kill(uint64_t down_us);
void sim_ctl_touch(void); /* something was told to the core */
void sim_ctl_open(void);
void sim_ctl_close(void);

/* ---- network (simnet.c) ------------------------------------------------------------------------------- */
void sim_net_attach(void);
void sim_net_ctl_died(int silently);
void sim_net_reset(struct sim_node *n);
void sim_net_agent_died(struct sim_node *n);
void sim_net_old_order(struct sim_node *n); /* an order comes that others have overtaken */
void sim_net_fini(void);
int sim_net_ctl_cut(const struct sim_node *n);
int sim_net_heard(const struct sim_node *n); /* the agent has an open connection that works */

/* ---- nodes (simnode.c) -------------------------------------------------------------------------------- */
void sim_node_init(struct sim_node *n, unsigned index);
void sim_node_fini(struct sim_node *n);
void sim_node_start(void *arg);
void sim_agent_kill(struct sim_node *n, uint64_t down_us);
/* The agent does something that others can see: it may die just before. */
void sim_crash_point(void);
void sim_agent_abandon(struct sim_node *n); /* it died in the middle of something */
void sim_node_power_off(struct sim_node *n, uint64_t down_us);
void sim_enter(void *tag);
uint64_t sim_real_us(const struct sim_node *n);
uint64_t sim_boot_us(const struct sim_node *n);

/* ---- shims (simproc.c) -------------------------------------------------------------------------------- */
struct sim_proc {
	struct sim_node *n;
	char *dir, token[64], shim_token[64];
	uint64_t job;
	uint32_t attempt, rank;
	uint8_t kind;
	pid_t shim_pid;
	int ready_fd, ready_bad, shim_alive, child;
	int stray; /* the rank left a process behind, which holds its GPU */
	struct wm_shim_status st;
	uint64_t kill_at, stuck_until; /* stuck: asleep in the kernel */
	struct lease_switch lease;     /* of its shim */
	struct loop_timer *look;       /* at the lease */
	struct loop_timer *next_step;  /* ready, or the program ends */
	struct loop_timer *kill, *record;
	struct shimlink *link;
	uint32_t exit_code, exit_signal; /* once child is 0 */
	uint32_t n_nodes, world;         /* of the gang */
	int mpi, asked, started;         /* of mpirun: has asked for orteds, has started ranks */
	struct sim_rank *truth;
	struct sim_proc *prev, *next;
};
void sim_procs_power_off(struct sim_node *n);
void sim_proc_go(struct sim_proc *p);
void sim_proc_quit(struct sim_proc *p, uint32_t grace_ms, enum ended_by by);
void sim_proc_exit(struct sim_proc *p, uint32_t code);
void sim_mpi_step(struct sim_proc *p);     /* mpirun or an orted looks around (simmpi.c) */
void sim_mpi_ended(struct sim_proc *p);    /* it is no more */
void sim_procs_unlink(struct sim_node *n); /* nobody is connected with its shims any more */
void sim_proc_kill_shim(struct sim_proc *p);
void sim_proc_kill_child(struct sim_proc *p, int signo);
int sim_procs_kill_token(struct sim_node *n, const char *token);
int sim_procs_with_token(const struct sim_node *n, const char *token);

/* ---- what serves a launch (simdata.c) ------------------------------------------------------------------ */
void sim_data_start(void);
void sim_keep_start(void); /* nothing: the linker takes simkeep.c for it */

/* ---- users, faults (simusers.c, simfaults.c) ---------------------------------------------------------- */
void sim_users_start(void);
void sim_users_fini(void);
void sim_users_calm(void);
int sim_users_done(void);
void sim_faults_start(void);
struct request *sim_call(enum request_op op, uint64_t job, const char *node, const char *body);
void sim_ask(struct request *rq);

/* ---- an administrator and his rules (simadmin.c) ------------------------------------------------------ */
void sim_admin_start(void);
void sim_admin_fini(void);
const char *sim_admin_queue(unsigned job);         /* which queue the job with that index names */
void sim_admin_placed(const struct event_row *ev); /* against the rules */

/* ---- what attempts leave and begin with (simbegin.c) --------------------------------------------------- */
struct steps;
int sim_begin_leaves(uint64_t job, uint32_t attempt, const struct sim_node *n, char digest[65]);
int sim_begin_steps(const char *digest, struct steps *out, struct err *e);
void sim_begin_requeue(uint64_t job, uint64_t *rng); /* with a choice of where to begin */
void sim_begin_event(uint64_t job, uint32_t attempt, const char *type,
                     const cJSON *data); /* in their order */
void sim_begin_end(void);
void sim_begin_fini(void);

/* ---- what must hold (simcheck.c) ----------------------------------------------------------------------- */
void sim_check_order(struct sim_node *n, uint16_t type, const void *msg); /* an order reaches an agent */
void sim_check_order_over(void);
void sim_check_effect(const char *what);              /* the agent does something for a launch */
void sim_check_gang(struct sim_proc *p);              /* how large its gang is */
struct sim_rank *sim_check_start(struct sim_proc *p); /* a rank begins */
int sim_check_runs(uint64_t job);                     /* some process of it is alive somewhere */
void sim_check_acked(struct sim_node *n, uint16_t type, const void *msg); /* a report is durable, they say */
void sim_check_event(struct world *w, const struct event_row *ev, void *arg);
void sim_check_step(void);
int sim_check_quiet(void); /* nothing goes on any more */
void sim_check_end(void);
void sim_check_fini(void);

#endif
