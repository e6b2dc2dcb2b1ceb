/*
 * plan: what follows the end of an attempt. plan_make is pure: the class of the end, the job's keys `retry`,
 * what earlier restarts have used up and the newest checkpoint give an action, a back-off and a sentence.
 *
 * A restart is counted by the event that holds its plan (`outcome`). The sums are columns of the job, so a
 * new hearthd continues them and --verify compares them.
 */
#ifndef HEARTH_CONTROLLER_RECORD_PLAN_H
#define HEARTH_CONTROLLER_RECORD_PLAN_H

#include <cjson/cJSON.h>

#include "common/classify/table.h"
#include "common/spec/spec.h"
#include "controller/record/states.h"

#define PLAN_DAY_US    (86400ull * 1000000)
#define PLAN_TEXT_SIZE 512

/* clang-format off */
#define PLAN_ACTIONS(S) \
	S(PLAN_NONE, "") S(PLAN_STOP, "stop") S(PLAN_IN_PLACE, "in_place") S(PLAN_ELSEWHERE, "elsewhere") \
	S(PLAN_ROLLBACK, "rollback") S(PLAN_QUEUE, "queue")
/* What a restart is counted in: retry.max_attempts, retry.capacity, watch.max_rollbacks; "" nothing. */
#define PLAN_BUDGETS(S) \
	S(PLAN_FREE, "") S(PLAN_ATTEMPTS, "max_attempts") S(PLAN_CAPACITY, "capacity") \
	S(PLAN_ROLLBACKS, "max_rollbacks")
/* clang-format on */

#define S(e, t) e,
enum plan_action { PLAN_ACTIONS(S) N_PLAN_ACTION };
enum plan_budget { PLAN_BUDGETS(S) N_PLAN_BUDGET };
#undef S

struct plan_used {      /* by the restarts of a job until now */
	uint32_t attempts;  /* after an unknown exit code or signal */
	uint32_t capacity;  /* after faults of nodes, in the day that began at day_us */
	uint32_t rollbacks; /* of all time */
	uint32_t stuck;     /* since the newest checkpoint was new */
	uint32_t unstarted; /* in a row, after attempts in which no rank ran */
	uint64_t day_us;    /* first restart of that day, real time */
	uint64_t mark;      /* the newest checkpoint's step + 1 at the last restart; 0: none yet */
};

struct plan_in {
	enum reason_class cls;
	enum line_verdict verdict; /* of the line that named the cause; VERDICT_UNKNOWN: the class decides */
	int own_limit;             /* other nodes would bring the same end: the job's own limit is full */
	int torn;                  /* the checkpoint to begin with was damaged: an older one serves */
	int ran;                   /* a rank ran in the attempt */
	int anywhere;              /* no node is lost or to blame: "elsewhere" may be the same nodes */
	int64_t newest;            /* step of the newest checkpoint that can be used; -1 none */
	int64_t target;            /* of a rollback: the checkpoint to return to; -1 none */
	const char *skip;          /* of a rollback: steps that it leaves out, "901-1034"; NULL: not known */
	/* What a watch or a rule asks for: PLAN_ROLLBACK, PLAN_IN_PLACE (a restart) or PLAN_STOP. PLAN_NONE: the
	 * class decides. */
	enum plan_action wish;
	const char *because; /* of PLAN_STOP: a clause, "watch.on_nan is stop"; NULL not known */
	uint64_t now_us;     /* real */
	uint64_t left_s;     /* of the time limit; 0: none is left; UINT64_MAX: no limit */
	uint32_t max_rollbacks;
	struct spec_retry keys;
	struct plan_used used;
};

struct retry_plan {
	enum plan_action action;
	enum plan_budget budget;
	uint32_t wait_s; /* back-off before the next attempt */
	int64_t step;    /* of the checkpoint that the next attempt begins with; -1 not known yet, or none */
	char text[PLAN_TEXT_SIZE];
};

/* Fills out. The text is the second half of a sentence: "goes on elsewhere from step 1200". */
void plan_make(const struct plan_in *in, struct retry_plan *out);
/* 1: another attempt follows. */
int plan_goes_on(enum plan_action a);
/* Counts a restart. ran, newest: as in plan_in; of a rollback newest is its target. */
void plan_count(struct plan_used *u, enum plan_budget b, int ran, int64_t newest, uint64_t now_us);

/* " elsewhere", " in place", or "". anywhere: as in plan_in. */
const char *plan_place_text(enum plan_action a, int anywhere);
const char *plan_action_name(enum plan_action a);
enum plan_action plan_action_find(const char *name); /* PLAN_NONE: unknown */
const char *plan_budget_name(enum plan_budget b);
enum plan_budget plan_budget_find(const char *name); /* PLAN_FREE: unknown */

#endif
