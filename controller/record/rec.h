/*
 * rec: a job's record in memory: the job, its newest attempt, the launches on nodes and the ranks. It is
 * plain data that only event_apply changes. Functions below make the store's rows of it, and the record from
 * rows. A waiting job has no attempt and takes less than 1 KiB.
 */
#ifndef HEARTH_CONTROLLER_RECORD_REC_H
#define HEARTH_CONTROLLER_RECORD_REC_H

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "common/spec/spec.h"
#include "controller/record/ckpt.h"
#include "controller/record/failure.h"
#include "controller/record/plan.h"
#include "controller/record/states.h"
#include "store/base/rows.h"

struct phase_rec {
	uint64_t started_us, ended_us; /* real time; started 0 = did not come, ended 0 = goes on */
};

struct place_rec { /* index = node rank */
	char *node, *address;
	uint64_t node_id;
	struct wire_u32v gpus, cpus;
	uint32_t ranks, group, first_rank;
	enum place_state state;
	enum reason_class cls; /* of a FAILED one */
	uint8_t culprit;       /* this node kept the gang from starting */
	uint8_t saved;         /* all outputs of the launch there are on record */
	uint8_t unconfirmed;   /* LOST, but the node may live: nobody confirmed the end in time */
	uint8_t pool_bad;      /* its agent found what the launch left: it joins no warm pool */
	uint8_t kept;          /* the attempt has ended, and the job holds this for the next one */
	uint64_t silent_us;    /* of a LOST one: last sign of life, real time; 0 unknown */
	char *text;            /* why it failed or is lost; NULL none */
};

struct rank_rec { /* index = rank */
	uint32_t place, local_rank, pid;
	enum rank_state state;
	uint8_t oom, dirty;        /* dirty: its row is to be written */
	uint8_t ended_by;          /* enum ended_by */
	int32_t exit_code, signal; /* -1 none */
	uint64_t started_us, ended_us;
	char *text;
};

struct attempt_rec {
	uint32_t number, master_port;
	uint64_t epoch;
	enum attempt_state state;
	enum outcome outcome;
	enum reason_class cls;
	char *reason, *cause, *launch_id, *token, *resumed_from;
	char *evidence;   /* JSON: {"rank", "node", "exit_code", "signal", "oom", "line"} and {"lost": [nodes]} */
	char *plan;       /* JSON: {"action", "budget", "wait_s", "step", "avoid": [nodes], "text"} */
	char *skip_steps; /* that the program leaves out: "100-150,300-420" */
	char *pool;       /* JSON: {"id", "level", "missed"} of the warm pool that it was placed in; NULL none */
	int64_t resumed_from_step;
	int32_t exit_code, signal;
	uint64_t started_us, ended_us;
	uint64_t price_uusd; /* an hour, of all that it holds, millionths of a US dollar; 0 not known */
	char *account;       /* who pays: QUEUE/@OWNER */
	struct phase_rec phases[N_PHASE];
	struct place_rec *places;
	struct rank_rec *ranks;
	struct failure_list *failures; /* NULL none. Only events have them: load.c applies these again */
	uint32_t n_places, n_ranks;
};

struct job_rec {
	uint64_t id;
	char *name, *owner, *experiment, *notes, *queue, *reason, *cleanup, *bundle, *idem_key,
	    *idem_digest; /* NULL = "" */
	char *run_as;     /* Unix account that runs it; NULL: rec_account */
	char *spec_sha256;
	int64_t priority;
	uint64_t created_us, queued_us, started_us, ended_us, epoch,
	    max_runtime_s; /* max_runtime_s: set later; 0 = the specification's */
	int32_t exit_code;
	enum job_status status;
	enum wanted wanted;
	uint32_t attempts, nodes, gpus;
	uint8_t pinned, deleted;
	uint64_t array;   /* of a member: the job that it belongs to; its id is array + 1 + its index */
	uint32_t members; /* number of members of an array or a sweep; such a job has no attempts */
	uint8_t halved;   /* of a member: successive halving wants it stopped */
	char *rungs;      /* of a member: its values at the comparisons of successive halving, parted by blanks */
	/* Start of the next attempt: NULL as in the specification; "attempt:2@1200" or "attempt:2", the outputs
	 * of an earlier attempt. After the end: the newest checkpoint of its last attempts. While a user wants
	 * a requeue: NULL at the newest step, "start", "step:1200". */
	char *begins;
	uint64_t wants_pool;  /* warm pool that its first attempt waits for; 0 none */
	uint8_t begins_asked; /* a user asked for that step: no other checkpoint takes its place */
	/* Sum over ended attempts of the time from the first rank's start to the outcome; start of the present
	 * one. 0 for an array, which has its own start and end. */
	uint64_t ran_us, runs_since_us;
	struct ckpt_list *ckpts; /* ckpt.h; NULL none */
	uint64_t held_us;        /* how long its ended attempts had their nodes */
	/* What its restarts have used up: rec_plan_used. */
	uint32_t plan_attempts, plan_capacity, plan_rollbacks, plan_stuck, plan_unstarted;
	uint64_t plan_day_us, plan_mark;
	uint32_t alerts;         /* what its watches have found */
	char *alert;             /* JSON: the newest one; NULL none */
	char *skip_steps;        /* that its next attempt leaves out */
	struct attempt_rec *att; /* newest; NULL before the first, and when hearthd needs none any more */
	struct attempt_rec *old; /* the one before it, which was still being collected when it began; NULL none */
};

static inline uint32_t rec_index(const struct job_rec *r) /* of a member */
{
	return (uint32_t)(r->id - r->array - 1);
}
#define REC_REF_SIZE 48
const char *rec_ref(const struct job_rec *r, char out[REC_REF_SIZE]); /* "17", or "17.3" of a member */
/* The Unix account that runs the job. Records of before accounts were kept name only the owner. */
const char *rec_account(const struct job_rec *r);
void rec_fini(struct job_rec *r);
void attempt_rec_free(struct attempt_rec *a);
void rec_set(char **p, const char *v); /* stores "" as NULL */

/* Rows borrow the record's strings; attempt rows own placement and phases: attempt_row_borrowed_fini. spec
 * and run are left NULL. */
void rec_job_row(const struct job_rec *r, struct job_row *out);
void rec_attempt_row(const struct job_rec *r, struct attempt_row *out);
void attempt_row_borrowed_fini(struct attempt_row *row);
void rec_rank_row(const struct job_rec *r, uint32_t rank, struct rank_row *out);

int rec_from_job_row(struct job_rec *r, const struct job_row *row, struct err *e); /* r is zeroed before */
int rec_from_attempt_row(struct job_rec *r, const struct attempt_row *row,
                         struct err *e); /* becomes r->att; ranks are made, all waiting */
int rec_from_rank_row(struct job_rec *r, const struct rank_row *row);

int rec_places_parse(struct attempt_rec *a, const cJSON *list, struct err *e); /* places and waiting ranks */

struct plan_used rec_plan_used(const struct job_rec *r);
void rec_plan_use(struct job_rec *r, const struct plan_used *u);
/* What the attempt's plan says; PLAN_NONE: it has none. */
enum plan_action rec_plan_action(const struct attempt_rec *a);
/* 1: the attempt failed, and by its plan another one follows. */
int rec_is_followed(const struct attempt_rec *a);
/* 1: another attempt follows the newest one. */
int rec_goes_on(const struct job_rec *r);
/* 1: from the outcome on the job keeps its nodes for the next attempt, but those that the plan avoids. */
int rec_keeps_nodes(const struct job_rec *r);
/* 1: what the job has on that place is in use or kept: nobody else may have it. */
int rec_holds(const struct job_rec *r, const struct place_rec *p);

/* ---- questions about an attempt; pure -------------------------------------------------------- */
int rec_all_ranks_ok(const struct attempt_rec *a);
int rec_any_rank_started(const struct attempt_rec *a);
int rec_launched(
    const struct attempt_rec *a); /* were its ranks ordered to start? Before, no node can run one */
/* First rank to fail: n_ranks when none did. */
uint32_t rec_first_failed(const struct attempt_rec *a);
/* Class of a failed rank by its end alone. A plain exit code does not tell the cause. */
enum reason_class rec_rank_class(const struct rank_rec *k);
/* 1: ended by a signal that mpirun or Hearth send to the others when one rank has failed. */
int rec_looks_killed(const struct attempt_rec *a, uint32_t rank);
/* First node whose agent stopped the launch for a limit of memory or disk; the place's text says which. NULL
 * none. */
const struct place_rec *rec_limited(const struct attempt_rec *a);
struct attempt_rec *rec_newest(const struct job_rec *r); /* NULL none */
/* 1: it has ended, and some of its nodes still upload and clean up. */
int rec_collects(const struct attempt_rec *a);
/* The newest attempt, or the old one; NULL: another number. */
struct attempt_rec *rec_attempt(const struct job_rec *r, uint32_t number);
struct place_rec *rec_place_of(const struct attempt_rec *a, uint64_t node_id);
/* Checks what must always hold. NULL, or the error as static text. */
const char *rec_check(const struct job_rec *r);

#endif
