/*
 * This folder takes one attempt from start to end, and makes the members of arrays.
 *
 * attempt: one attempt of a job, from its placement to its end: orders to its nodes, decisions from its
 * record, the kill on all nodes, and the fate of the job.
 */
#ifndef HEARTH_CONTROLLER_RUN_ATTEMPT_H
#define HEARTH_CONTROLLER_RUN_ATTEMPT_H

#include "controller/record/verdict.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

#define KILL_MARGIN_US 30000000 /* after the grace time; then the node counts as unconfirmed */
#define GIVE_UP_US     10000000 /* the same before the launch, when no rank can run */
#define FINISH_WAIT_US 60000000 /* after the last rank: time for mpirun and the orteds to end */

/* Carries out the decisions of the scheduler library. Call it at the end of a turn, and before you ask the
 * library for a forecast. */
void decide(struct core *c);
void start_attempt(struct core *c, struct cjob *j, const struct sched_decision *d);
void send_orders(struct core *c, struct cjob *j); /* sends due orders that this session has not got */
char *start_spec(const struct cjob *j);           /* the job's specification for agents; malloc'ed */
void job_review(struct core *c, struct cjob *j);
/* Gives up nodes that make no progress with the collection. Returns the boot time of the next look,
 * UINT64_MAX when no node collects any more. */
uint64_t review_open_places(struct core *c, struct cjob *j);
/* 1: the launch that waited in a pool is still to be taken over: what fails then is not the node's fault. */
int takes_over(const struct cjob *j);
int end_wants_kill(const struct job_rec *r);
/* Ends the attempt with the verdict v. The kill on its nodes follows. */
void attempt_end(struct core *c, struct cjob *j, const struct verdict *v);
/* The same with evidence that the outcome's then extends; takes it. -1: not recorded. */
int attempt_end_by(struct core *c, struct cjob *j, const struct verdict *v, cJSON *evidence);
void decide_outcome(struct core *c, struct cjob *j);
void finish_attempt(struct core *c, struct cjob *j);
/* After EV_NODE_CLEANED: gives back what the job had there, unless it keeps that for its next attempt. */
void place_cleaned(struct core *c, struct cjob *j, struct cnode *n);
void place_lost(struct core *c, struct cjob *j, uint32_t place, uint64_t silent_us, int unconfirmed,
                const char *text);
void rank_last_line(const struct rank_rec *k, struct text *out); /* cut, without control bytes */
int job_stop(struct core *c, struct cjob *j, cJSON *d);

#endif
