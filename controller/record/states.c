/*
 * states: names and moves as tables.
 */
#include "controller/record/states.h"

#include <string.h>

#define S(e, t) t,
static const char *const job_names[] = {JOB_STATUSES(S)};
static const char *const attempt_names[] = {ATTEMPT_STATES(S)};
static const char *const place_names[] = {PLACE_STATES(S)};
static const char *const rank_names[] = {RANK_STATES(S)};
static const char *const outcome_names[] = {OUTCOMES(S)};
static const char *const wanted_names[] = {WANTEDS(S)};
static const char *const phase_names[] = {PHASES(S)};
static const char *const node_names[] = {NODE_STATES(S)};
static const char *const class_names[] = {REASON_CLASSES(S)};
#undef S
/* In the order of enum ended_by. */
static const char *const ended_by_names[] = {"", "order", "launcher"};

#define B(x) (1u << (x))
static const uint32_t job_moves[] = {
    [JOB_HELD] = B(JOB_QUEUED) | B(JOB_STOPPED),
    [JOB_QUEUED] = B(JOB_HELD) | B(JOB_STARTING) | B(JOB_STOPPED) | B(JOB_FAILED),
    [JOB_STARTING] = B(JOB_RUNNING) | B(JOB_RECOVERING) | B(JOB_STOPPING),
    [JOB_RUNNING] = B(JOB_STOPPING) | B(JOB_RECOVERING),
    /* Completed: late reports say that the job had finished before. */
    [JOB_RECOVERING] =
        B(JOB_QUEUED) | B(JOB_STARTING) | B(JOB_STOPPING) | B(JOB_COMPLETED) | B(JOB_FAILED) | B(JOB_STOPPED),
    [JOB_STOPPING] = B(JOB_QUEUED) | B(JOB_RECOVERING) | B(JOB_COMPLETED) | B(JOB_FAILED) | B(JOB_STOPPED),
    [JOB_COMPLETED] = 0,
    [JOB_FAILED] = 0,
    [JOB_STOPPED] = 0,
};
/* An array or a sweep: held means that no further member starts; running ones continue. */
#define ARRAY_ENDS (B(JOB_COMPLETED) | B(JOB_FAILED) | B(JOB_STOPPED))
static const uint32_t array_moves[N_JOB_STATUS] = {
    [JOB_HELD] = B(JOB_QUEUED) | B(JOB_RUNNING) | ARRAY_ENDS,
    [JOB_QUEUED] = B(JOB_HELD) | B(JOB_RUNNING) | ARRAY_ENDS,
    [JOB_RUNNING] = B(JOB_HELD) | ARRAY_ENDS,
};
static const uint32_t attempt_moves[] = {
    [ATT_PREPARING] = B(ATT_LAUNCHING) | B(ATT_ENDING),
    [ATT_LAUNCHING] = B(ATT_RUNNING) | B(ATT_ENDING),
    [ATT_RUNNING] = B(ATT_ENDING),
    [ATT_ENDING] = B(ATT_ENDED),
    [ATT_ENDED] = 0,
};
#define PLACE_ENDS (B(PLACE_ENDED) | B(PLACE_FAILED) | B(PLACE_CLEANED) | B(PLACE_LOST))
static const uint32_t place_moves[] = {
    [PLACE_ORDERED] = B(PLACE_PREPARING) | B(PLACE_READY) | B(PLACE_RUNNING) | B(PLACE_STOPPING) | PLACE_ENDS,
    [PLACE_PREPARING] = B(PLACE_READY) | B(PLACE_RUNNING) | B(PLACE_STOPPING) | PLACE_ENDS,
    /* Back to preparing: hearthd repeats the order to an agent that lost the launch. */
    [PLACE_READY] = B(PLACE_PREPARING) | B(PLACE_RUNNING) | B(PLACE_STOPPING) | PLACE_ENDS,
    [PLACE_RUNNING] = B(PLACE_STOPPING) | PLACE_ENDS,
    [PLACE_STOPPING] = PLACE_ENDS,
    [PLACE_ENDED] = B(PLACE_CLEANED) | B(PLACE_LOST),
    [PLACE_FAILED] = B(PLACE_CLEANED) | B(PLACE_LOST),
    [PLACE_CLEANED] = 0,
    [PLACE_LOST] = 0,
};
static const uint32_t rank_moves[] = {
    [RANK_WAITING] = B(RANK_RUNNING) | B(RANK_EXITED) | B(RANK_LOST) | B(RANK_FAILED),
    [RANK_RUNNING] = B(RANK_EXITED) | B(RANK_LOST),
    [RANK_EXITED] = 0,
    [RANK_LOST] = 0,
    [RANK_FAILED] = 0,
};
static const uint32_t node_moves[] = {
    [NODE_JOINING] = B(NODE_UP) | B(NODE_REMOVED),
    [NODE_UP] = B(NODE_LOST) | B(NODE_REMOVED) | B(NODE_JOINING),
    [NODE_LOST] = B(NODE_UP) | B(NODE_REMOVED) | B(NODE_JOINING),
    [NODE_REMOVED] = B(NODE_JOINING) | B(NODE_UP),
};

#define COUNT(a) (int)(sizeof(a) / sizeof(*(a)))
static const struct kind {
	const char *const *names;
	int n;
	const uint32_t *moves;
} kinds[N_STATE_KIND] = {
    [STATE_JOB] = {job_names, COUNT(job_names), job_moves},
    [STATE_ATTEMPT] = {attempt_names, COUNT(attempt_names), attempt_moves},
    [STATE_PLACE] = {place_names, COUNT(place_names), place_moves},
    [STATE_RANK] = {rank_names, COUNT(rank_names), rank_moves},
    [STATE_ENDED_BY] = {ended_by_names, COUNT(ended_by_names), NULL},
    [STATE_OUTCOME] = {outcome_names, COUNT(outcome_names), NULL},
    [STATE_WANTED] = {wanted_names, COUNT(wanted_names), NULL},
    [STATE_PHASE] = {phase_names, COUNT(phase_names), NULL},
    [STATE_NODE] = {node_names, COUNT(node_names), node_moves},
    [STATE_CLASS] = {class_names, COUNT(class_names), NULL},
    [STATE_ARRAY] = {job_names, COUNT(job_names), array_moves},
};

const char *state_name(enum state_kind k, int v)
{
	return v >= 0 && v < kinds[k].n ? kinds[k].names[v] : "?";
}

int state_find(enum state_kind k, const char *name)
{
	for (int i = 0; i < kinds[k].n; i++)
		if (strcmp(kinds[k].names[i], name ? name : "") == 0)
			return i;
	return -1;
}

int state_move_ok(enum state_kind k, int from, int to)
{
	if (!kinds[k].moves || from < 0 || from >= kinds[k].n || to < 0 || to >= kinds[k].n)
		return 0;
	return !!(kinds[k].moves[from] & B(to));
}

int class_is_infrastructure(enum reason_class cls)
{
	return cls == RC_DISK || cls == RC_AGENT || cls == RC_STAGING || cls == RC_NODE_LOST || cls == RC_LAUNCH;
}
