/*
 * states: the states of jobs, attempts, launches on nodes and ranks, by name, and the tables of moves that
 * are allowed between them (docs/spec/01-states.md). hearthd refuses and logs a move
 * that is not in a table; a build with failpoints aborts.
 */
#ifndef HEARTH_CONTROLLER_RECORD_STATES_H
#define HEARTH_CONTROLLER_RECORD_STATES_H

#include <stdint.h>

#include "common/net/wire_msg.h"

/* clang-format off */
#define JOB_STATUSES(S) \
	S(JOB_HELD, "held") S(JOB_QUEUED, "queued") S(JOB_STARTING, "starting") S(JOB_RUNNING, "running") \
	S(JOB_RECOVERING, "recovering") S(JOB_STOPPING, "stopping") S(JOB_COMPLETED, "completed") \
	S(JOB_FAILED, "failed") S(JOB_STOPPED, "stopped")
#define ATTEMPT_STATES(S) \
	S(ATT_PREPARING, "preparing") S(ATT_LAUNCHING, "launching") S(ATT_RUNNING, "running") \
	S(ATT_ENDING, "ending") S(ATT_ENDED, "ended")
/* One launch of a job on one node, as last reported (enum launch_state) or concluded. */
#define PLACE_STATES(S) \
	S(PLACE_ORDERED, "ordered") S(PLACE_PREPARING, "preparing") S(PLACE_READY, "ready") \
	S(PLACE_RUNNING, "running") S(PLACE_STOPPING, "stopping") S(PLACE_ENDED, "ended") \
	S(PLACE_FAILED, "failed") S(PLACE_CLEANED, "cleaned") S(PLACE_LOST, "lost")
#define RANK_STATES(S) \
	S(RANK_WAITING, "waiting") S(RANK_RUNNING, "running") S(RANK_EXITED, "exited") S(RANK_LOST, "lost") \
	S(RANK_FAILED, "failed")
#define OUTCOMES(S) \
	S(OUT_NONE, "") S(OUT_SUCCEEDED, "succeeded") S(OUT_FAILED, "failed") S(OUT_LOST, "lost") \
	S(OUT_ROLLED_BACK, "rolled_back") S(OUT_PREEMPTED, "preempted") S(OUT_STOPPED, "stopped")
#define WANTEDS(S) S(WANT_NOTHING, "") S(WANT_STOP, "stop") S(WANT_REQUEUE, "requeue")
#define PHASES(S) \
	S(PHASE_QUEUED, "queued") S(PHASE_PROVISIONING, "provisioning") S(PHASE_STAGING, "staging") \
	S(PHASE_LAUNCHING, "launching") S(PHASE_RUNNING, "running") S(PHASE_STOPPING, "stopping") \
	S(PHASE_UPLOADING, "uploading")
#define NODE_STATES(S) \
	S(NODE_JOINING, "joining") S(NODE_UP, "up") S(NODE_LOST, "lost") S(NODE_REMOVED, "removed")
/* clang-format on */

#define S(e, t) e,
enum job_status { JOB_STATUSES(S) N_JOB_STATUS };
enum attempt_state { ATTEMPT_STATES(S) N_ATTEMPT_STATE };
enum place_state { PLACE_STATES(S) N_PLACE_STATE };
enum rank_state { RANK_STATES(S) N_RANK_STATE };
enum outcome { OUTCOMES(S) N_OUTCOME };
enum wanted { WANTEDS(S) N_WANTED };
enum phase { PHASES(S) N_PHASE };
enum node_state { NODE_STATES(S) N_NODE_STATE };
#undef S

enum state_kind {
	STATE_JOB,
	STATE_ATTEMPT,
	STATE_PLACE,
	STATE_RANK,
	STATE_ENDED_BY,
	STATE_OUTCOME,
	STATE_WANTED,
	STATE_PHASE,
	STATE_NODE,
	STATE_CLASS,
	STATE_ARRAY, /* a job whose members run: the same names, other moves */
	N_STATE_KIND
};
const char *state_name(enum state_kind k, int v);    /* "?" unknown */
int state_find(enum state_kind k, const char *name); /* -1 unknown; NULL counts as "" */
/* 1 allowed. Kinds with moves: JOB, ATTEMPT, PLACE, RANK, NODE, ARRAY. To stay in a state is not a move: 0,
 * unless the table has it. */
int state_move_ok(enum state_kind k, int from, int to);

static inline int job_ended(enum job_status s)
{
	return s >= JOB_COMPLETED;
}
/* No process is left there, as far as hearthd can know. */
static inline int place_over(enum place_state s)
{
	return s >= PLACE_ENDED;
}
static inline int rank_over(enum rank_state s)
{
	return s >= RANK_EXITED;
}

/* 1: the cause is a node, its disk, its agent or the launch, not the job. */
int class_is_infrastructure(enum reason_class cls);

#endif
