/*
 * event: the tables of all events of jobs and of the cluster, and what each event does to a job's record.
 *
 * event_apply is pure: record + event -> record. Nothing else changes a job's record. A replay of a job's
 * events therefore gives its rows (`hearthd --verify` checks this with event_reducer), and a new hearthd has
 * the state of the one that died. cluster.h does the same for the records of the cluster.
 *
 * The data of an event is a JSON object. It holds the SHA-256 of the specification, but neither the
 * specification nor secrets.
 */
#ifndef HEARTH_CONTROLLER_RECORD_EVENT_H
#define HEARTH_CONTROLLER_RECORD_EVENT_H

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "controller/record/rec.h"

/* Columns: id; name in the store and in the API; function that applies the event. */
#define JOB_EVENTS(E)                                                                                        \
	E(EV_SUBMITTED, "submitted", submitted) /* all facts of a new job; status queued or held */              \
	E(EV_HELD, "held", status)                                                                               \
	E(EV_RELEASED, "released", status)                                                                       \
	E(EV_CHANGED, "changed", changed)             /* priority, queue, notes, name, wants_pool ... */         \
	E(EV_AWAITED, "awaited", reason)              /* a dependency is met; reason: the others */              \
	E(EV_MEMBERS_RUN, "members_run", members_run) /* an array's first member has started */                  \
	E(EV_RUNG, "rung", rung)        /* a member's value at a comparison of successive halving */             \
	E(EV_TAGGED, "tagged", nothing) /* key, value (null: removed) */                                         \
	E(EV_STOP_WANTED, "stop_wanted", wanted)                                                                 \
	E(EV_REQUEUE_WANTED, "requeue_wanted", wanted)                                                           \
	E(EV_PLACED, "placed", placed) /* an attempt begins: nodes, GPUs, epoch */                               \
	E(EV_NODE_PREPARING, "node_preparing", place)                                                            \
	E(EV_NODE_READY, "node_ready", place)                                                                    \
	E(EV_NODE_RUNNING, "node_running", place)                                                                \
	E(EV_NODE_STOPPING, "node_stopping", place)                                                              \
	E(EV_NODE_ENDED, "node_ended", place)                                                                    \
	E(EV_NODE_FAILED, "node_failed", place)                                                                  \
	E(EV_NODE_CLEANED, "node_cleaned", place)                                                                \
	E(EV_NODE_LOST, "node_lost", place)                                                                      \
	E(EV_NODE_BLAMED, "node_blamed", blamed) /* the node kept the gang from starting */                      \
	E(EV_NODE_SAVED, "node_saved", saved)    /* all outputs of the launch there are on record */             \
	E(EV_NODE_MARKED, "node_marked", marked) /* its agent found what the launch left: it joins no pool */    \
	E(EV_LAUNCHING, "launching", launching)  /* all nodes are ready; hearthd orders the start */             \
	E(EV_RANK_STARTED, "rank_started", rank)                                                                 \
	E(EV_RANK_EXITED, "rank_exited", rank)                                                                   \
	E(EV_RANK_LOST, "rank_lost", rank)                                                                       \
	E(EV_RANK_FAILED, "rank_failed", rank) /* never started: command not found ... */                        \
	E(EV_ENDING, "ending", ending)         /* why the attempt ends */                                        \
	E(EV_LAUNCHER, "launcher_ended",                                                                         \
	  launcher) /* the launcher ended, and so did the rank that seemed to fail first */                      \
	E(EV_OUTCOME, "outcome", outcome) /* the result; no process is left */                                   \
	E(EV_ARTIFACT, "artifact", nothing)                                                                      \
	E(EV_CHECKPOINT, "checkpoint", checkpoint) /* news of a part of a checkpoint */                          \
	E(EV_WARNING, "warning", nothing)          /* node, text: the owner should act; the attempt goes on */   \
	E(EV_OVER_QUOTA, "over_quota", nothing)    /* hearthd does not store all that the job sends */           \
	E(EV_CLEANUP, "cleanup", cleanup)          /* an error in the clean-up */                                \
	E(EV_FAILURE_LINE, "failure_line", failure_line) /* a line of a log names a failure */                   \
	E(EV_ALERT, "alert", alert) /* a watch found something: kind, step, onset, loss, reference, text */      \
	E(EV_ATTEMPT_ENDED, "attempt_ended", attempt_ended)                                                      \
	E(EV_REQUEUED, "requeued", requeued)                                                                     \
	E(EV_ENDED, "ended", ended)                                                                              \
	E(EV_CHECKPOINT_CHANGED, "checkpoint_changed", checkpoint_changed) /* pinned, set aside, torn, gone */   \
	E(EV_CHECKPOINT_PASSED, "checkpoint_passed", nothing) /* an attempt does not begin with it: why */       \
	E(EV_REMOVED, "removed", removed)

/* Events of the cluster have job 0 and change the records of cluster.h. Columns: id; name; kind of record;
 * whether the event makes a missing record or needs it; function that applies the event. */
/* clang-format off */
#define CLUSTER_EVENTS(E) \
	E(EV_JOINED, "joined", NODE, MAKES, joined) /* a node got a certificate */ \
	E(EV_INVENTORY, "inventory", NODE, NEEDS, inventory) /* the node has other hardware or settings */ \
	E(EV_CONNECTED, "connected", NODE, NEEDS, connected) /* the node is up */ \
	E(EV_GONE, "node_gone", NODE, NEEDS, gone) /* the node is lost */ \
	E(EV_SILENT, "node_silent", NODE, NEEDS, nothing) /* silent, but it may run on without hearthd */ \
	E(EV_SUSPECT, "node_suspect", NODE, NEEDS, nothing) /* its connection ended, or two beats are missing */ \
	E(EV_OUTDATED, "node_outdated", NODE, NEEDS, nothing) /* hearthd and its agent have no common version */ \
	E(EV_DRAINED, "drained", NODE, NEEDS, drain) \
	E(EV_RESUMED, "resumed", NODE, NEEDS, drain) \
	E(EV_SPARE, "node_spare", NODE, NEEDS, spare) /* it takes jobs only to replace nodes of theirs */ \
	E(EV_SPARE_OFF, "node_spare_off", NODE, NEEDS, spare) \
	E(EV_NODE_REMOVED, "node_removed", NODE, NEEDS, node_removed) \
	E(EV_QUEUE_SET, "queue_set", QUEUE, MAKES, queue_set) \
	E(EV_QUEUE_REMOVED, "queue_removed", QUEUE, NEEDS, queue_removed) \
	E(EV_QUOTA_SET, "quota_set", QUEUE, MAKES, quota_set) \
	E(EV_QUOTA_REMOVED, "quota_removed", QUEUE, NEEDS, quota_removed) \
	E(EV_INSTANCE_SET, "instance_set", INSTANCE, MAKES, instance_set) /* facts; null takes one back */ \
	E(EV_INSTANCE_REMOVED, "instance_removed", INSTANCE, NEEDS, remove) \
	E(EV_RESERVATION_SET, "reservation_set", RESERVATION, MAKES, reservation_set) /* all its facts */ \
	E(EV_RESERVATION_BEGAN, "reservation_began", RESERVATION, NEEDS, reservation_step) \
	E(EV_RESERVATION_ENDED, "reservation_ended", RESERVATION, NEEDS, reservation_step) \
	E(EV_RESERVATION_REMOVED, "reservation_removed", RESERVATION, NEEDS, remove) \
	E(EV_POOL_MADE, "pool_made", POOL, MAKES, pool) /* a job left its first places */ \
	E(EV_POOL_GIVEN, "pool_given", POOL, NEEDS, pool) /* it left more, or gave back the pool that it used */ \
	E(EV_POOL_TAKEN, "pool_taken", POOL, NEEDS, pool) /* a job was placed there */ \
	E(EV_POOL_CHANGED, "pool_changed", POOL, NEEDS, pool) /* a user set its time, or prices changed */ \
	E(EV_POOL_ENDED, "pool_ended", POOL, NEEDS, pool) /* nodes: only its parts there */ \
	E(EV_POOL_PARKING, "pool_parking", POOL, NEEDS, pool) /* a launch is made ready on its nodes */ \
	E(EV_POOL_PARKED, "pool_parked", POOL, NEEDS, pool) /* it waits for a job */ \
	E(EV_POOL_UNPARKED, "pool_unparked", POOL, NEEDS, pool) /* it ended without a job: why */ \
	E(EV_BUDGET_SET, "budget_set", BUDGET, MAKES, budget_set) \
	E(EV_BUDGET_REMOVED, "budget_removed", BUDGET, NEEDS, remove) \
	E(EV_BUDGET_USED_UP, "budget_used_up", BUDGET, NEEDS, nothing) /* closes the queue or user */ \
	E(EV_BUDGET_OPEN, "budget_open", BUDGET, NEEDS, nothing) /* a new period, or a greater budget */ \
	E(EV_TOKEN_MADE, "token_made", TOKEN, MAKES, token_made) /* to join, of a user, a session */ \
	E(EV_TOKEN_REMOVED, "token_removed", TOKEN, NEEDS, remove) /* or the end of a session */ \
	E(EV_FAILURE_PATTERNS, "failure_patterns", NONE, NEEDS, nothing) /* the file has changed; text: it is wrong */ \
	E(EV_INCARNATION, "incarnation", NONE, NEEDS, nothing) /* the database was put back; changes no record */

enum event_type {
#define E(id, name, fn) id,
	JOB_EVENTS(E)
#undef E
#define E(id, name, kind, need, fn) id,
	CLUSTER_EVENTS(E)
#undef E
	N_EVENT_TYPE
};
/* clang-format on */

const char *event_name(enum event_type t);
int event_find(const char *name); /* -1 unknown */
/* Changes r, or refuses (-1) and leaves it as it was. attempt: number of the attempt of the event; 0: the
 * event is of the whole job. */
int event_apply(struct job_rec *r, enum event_type t, uint32_t attempt, uint64_t at_us, const cJSON *data,
                struct err *e);
/* A store_reducer_fn: replays events and compares with rows (replay.c). */
struct event_row;
struct store_cluster_row;
struct store_job_rows;
int event_reducer(void **state, const struct event_row *ev, const struct store_job_rows *rows, char *why,
                  size_t why_size, void *arg);
/* A store_cluster_fn: the same for the cluster. */
int event_cluster_reducer(void **state, const struct event_row *ev, const struct store_cluster_row *row,
                          char *why, size_t why_size);

#endif
