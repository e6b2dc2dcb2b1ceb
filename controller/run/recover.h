/*
 * recover: carries out the plan that follows the end of an attempt (record/plan.h).
 *
 *   outcome decided -> recover_plan: evidence and plan go into the event `outcome` -> outputs are collected
 * -> recover_begin: the back-off -> recover_review: the job waits for nodes again
 *
 * Between the end of an attempt and its return to the queue a job is `recovering` without an attempt that
 * goes on. Its record has all that a new hearthd needs to continue there.
 */
#ifndef HEARTH_CONTROLLER_RUN_RECOVER_H
#define HEARTH_CONTROLLER_RUN_RECOVER_H

#include "common/base/text.h"
#include "controller/record/plan.h"
#include "controller/state/jobs.h"

/* Why an attempt ended, as decide_outcome found it. */
struct recover_cause {
	enum outcome outcome;
	enum reason_class cls;
	enum line_verdict verdict; /* of the line that names the cause; VERDICT_UNKNOWN none */
	uint32_t rank;             /* the first that failed, or NO_RANK */
};

/* What a watch or a rule of the job asks for when it ends an attempt. */
struct rollback_ask {
	const char *kind;        /* "spike", "nan" ..., or the name of a rule */
	int64_t onset, step;     /* first bad step, and the newest one; -1 not known */
	uint64_t margin;         /* steps between the checkpoint and the onset; doubled by each rollback */
	uint32_t max_rollbacks;  /* of the job */
	enum plan_action action; /* PLAN_ROLLBACK, PLAN_IN_PLACE (a restart) or PLAN_STOP */
	enum reason_class cls;   /* of the end; RC_NONE: numeric */
	const char *sentence;    /* the reason, for people */
	const char *because;     /* of PLAN_STOP: why no attempt follows (plan.h); NULL not said */
};
/* Ends the attempt; its plan follows from `ask` once its ranks have ended. -1: no rank of it runs, or a user
 * has already asked for its end. */
int recover_rollback(struct core *c, struct cjob *j, const struct rollback_ask *ask);
/* Returns the checkpoint that a rollback takes (watch_find_return); NULL: the beginning. */
const struct ckpt *recover_return(struct job_rec *r, int64_t onset, uint64_t margin);
/* 1: recover_rollback ended it. */
int recover_is_asked(const struct attempt_rec *a);
/* Sets aside what a rollback leaves behind. It may run again: checkpoints may arrive late. */
void recover_set_aside(struct core *c, struct cjob *j);

/* Makes the plan, and adds evidence, plan and the job's status to the event `outcome`. The outcome of an
 * attempt that a watch rolls back becomes rolled_back. */
void recover_plan(struct core *c, struct cjob *j, const struct recover_cause *why, cJSON *d);
/* 1: another attempt follows the present one. */
int recover_goes_on(const struct cjob *j);
/* Adds how the attempt ended and what follows, in words: "attempt 1 ended: ...; starts again elsewhere". */
void recover_say(const struct cjob *j, struct text *out);
/* The same for a job in its back-off, with the time that is left of it; what follows on the reason of a job
 * that waits for nodes. */
void recover_why(const struct core *c, const struct cjob *j, struct text *out);
/* The attempt has ended and another one follows: begins the back-off; recover_review ends it. */
void recover_begin(struct core *c, struct cjob *j);
/* The same at load, for a job whose attempt had ended. */
void recover_loaded(struct core *c, struct cjob *j);
/* Asks for nodes for a job whose back-off is over, or whose owner wants no back-off; queues a job that waited
 * too long for nodes. */
void recover_review(struct core *c, struct cjob *j);
/* Holds a job whose nodes cannot begin with the step that its owner asked for. */
void recover_hold_asked(struct core *c, struct cjob *j, const struct err *why);
/* At load: notes the nodes that the attempt's plan avoids. */
void recover_learn(struct cjob *j, const struct attempt_rec *a);
/* Milliseconds between TERM and KILL for the ranks of an attempt that ends. */
uint32_t recover_grace_ms(const struct cjob *j);

#endif
