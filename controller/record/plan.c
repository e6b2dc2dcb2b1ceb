/*
 * plan: see plan.h. The reaction to each class is one table.
 */
#include "controller/record/plan.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/text.h"

#define BACKOFF_FIRST_S 10
#define BACKOFF_MOST_S  600

enum reaction {
	NEVER,    /* the same end would come again, or the end was wanted */
	MOVES,    /* a node, its agent or the start is the cause: elsewhere */
	REPEATS,  /* unknown: once in place, then elsewhere */
	RETURNS,  /* numeric: back to an older checkpoint */
	CONTINUES /* hearthd itself took the place for others: elsewhere, never counted */
};

/* why: of NEVER, or of an end that other nodes would bring, too; for people. */
static const struct {
	enum reaction how;
	const char *why;
} reactions[N_REASON_CLASS] = {
    [RC_NONE] = {NEVER, ""},
    [RC_UNKNOWN] = {REPEATS, ""},
    [RC_USER_ERROR] = {NEVER, "user error"},
    [RC_OOM] = {MOVES, "the job's own memory limit is full"},
    [RC_TIMEOUT] = {NEVER, ""},
    [RC_NODE_LOST] = {MOVES, ""},
    [RC_STAGING] = {MOVES, "no node is to blame"},
    [RC_DISK] = {MOVES, "the job's own disk limit is full"},
    [RC_LAUNCH] = {MOVES, ""},
    [RC_STOPPED] = {NEVER, ""},
    [RC_AGENT] = {MOVES, ""},
    [RC_SIGNAL] = {REPEATS, ""},
    [RC_COST] = {NEVER, ""},
    [RC_GPU] = {MOVES, ""},
    [RC_NETWORK] = {MOVES, ""},
    [RC_STORAGE] = {MOVES, ""},
    [RC_HANG] = {REPEATS, ""},
    [RC_NUMERIC] = {RETURNS, ""},
    [RC_PREEMPTED] = {CONTINUES, ""},
    [RC_RECLAIMED] = {CONTINUES, ""},
};

#define S(e, t) t,
static const char *const action_names[] = {PLAN_ACTIONS(S)};
static const char *const budget_names[] = {PLAN_BUDGETS(S)};
#undef S

const char *plan_action_name(enum plan_action a)
{
	return a < N_PLAN_ACTION ? action_names[a] : "?";
}

enum plan_action plan_action_find(const char *name)
{
	for (int i = 0; name && i < N_PLAN_ACTION; i++)
		if (strcmp(action_names[i], name) == 0)
			return (enum plan_action)i;
	return PLAN_NONE;
}

const char *plan_budget_name(enum plan_budget b)
{
	return b < N_PLAN_BUDGET ? budget_names[b] : "?";
}

enum plan_budget plan_budget_find(const char *name)
{
	for (int i = 0; name && i < N_PLAN_BUDGET; i++)
		if (strcmp(budget_names[i], name) == 0)
			return (enum plan_budget)i;
	return PLAN_FREE;
}

int plan_goes_on(enum plan_action a)
{
	return a > PLAN_STOP;
}

/* ---- budgets --------------------------------------------------------------------------------- */

static uint32_t used_today(const struct plan_used *u, uint64_t now_us)
{
	return now_us >= u->day_us + PLAN_DAY_US ? 0 : u->capacity;
}

static int is_new(const struct plan_used *u, int64_t newest)
{
	return newest >= 0 && (uint64_t)newest + 1 > u->mark;
}

static uint32_t stuck_since(const struct plan_used *u, int64_t newest)
{
	return is_new(u, newest) ? 0 : u->stuck;
}

void plan_count(struct plan_used *u, enum plan_budget b, int ran, int64_t newest, uint64_t now_us)
{
	if (b == PLAN_ATTEMPTS)
		u->attempts++;
	if (b == PLAN_ROLLBACKS) { /* later checkpoints are set aside: the next one counts as new */
		u->rollbacks++;
		u->mark = (uint64_t)(newest + 1);
		return;
	}
	if (b == PLAN_CAPACITY) {
		u->capacity = used_today(u, now_us) + 1;
		if (u->capacity == 1)
			u->day_us = now_us;
	}
	if (b != PLAN_FREE) {
		u->stuck = stuck_since(u, newest) + 1;
		u->unstarted = ran ? 0 : u->unstarted + 1;
	}
	if (is_new(u, newest))
		u->mark = (uint64_t)newest + 1;
}

/* Returns the back-off before the restart that follows `before` restarts without progress. */
static uint32_t backoff_s(uint32_t before)
{
	uint32_t s = BACKOFF_FIRST_S;

	if (!before)
		return 0;
	while (--before && s < BACKOFF_MOST_S)
		s *= 2;
	return s < BACKOFF_MOST_S ? s : BACKOFF_MOST_S;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void stop_because(struct retry_plan *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void stop_because(struct retry_plan *out, const char *fmt, ...)
{
	struct text t = text_on(out->text, sizeof(out->text));
	va_list ap;

	text_add(&t, "not retried: ");
	va_start(ap, fmt);
	text_vadd(&t, fmt, ap);
	va_end(ap);
}

static enum reaction reaction_of(const struct plan_in *in)
{
	if (in->wish)
		return in->wish == PLAN_ROLLBACK ? RETURNS : in->wish == PLAN_STOP ? NEVER : REPEATS;
	if (in->verdict == VERDICT_USER)
		return NEVER;
	if (in->verdict == VERDICT_DRAIN || in->verdict == VERDICT_MOVE)
		return MOVES;
	/* A program can print any line. What it only claims is counted, or it would restart for ever. */
	if (in->verdict == VERDICT_REQUEUE && reactions[in->cls].how == CONTINUES)
		return MOVES;
	return in->own_limit && *reactions[in->cls].why ? NEVER : reactions[in->cls].how;
}

/* Returns 1 when a budget leaves no restart; out says which. A key of 0 needs no explanation. */
static int is_used_up(const struct plan_in *in, enum plan_budget b, struct retry_plan *out)
{
	const struct spec_retry *k = &in->keys;
	const struct plan_used *u = &in->used;

	if (b == PLAN_ATTEMPTS && u->attempts >= k->max_attempts) {
		if (k->max_attempts)
			stop_because(out, "retry.max_attempts (%u) is used up", k->max_attempts);
		return 1;
	}
	if (b == PLAN_CAPACITY && used_today(u, in->now_us) >= k->capacity) {
		if (k->capacity)
			stop_because(out, "retry.capacity (%u a day) is used up", k->capacity);
		return 1;
	}
	if (b == PLAN_ROLLBACKS && u->rollbacks >= in->max_rollbacks) {
		stop_because(out, "watch.max_rollbacks (%u) is used up", in->max_rollbacks);
		return 1;
	}
	return 0;
}

/* Returns 1 when restarts bring nothing: no new checkpoint, or no rank that ran. A job that has never left a
 * checkpoint may run without one: retry.max_attempts and retry.capacity bound it. */
static int is_stuck(const struct plan_in *in, struct retry_plan *out)
{
	uint32_t most = in->keys.no_progress, stuck = stuck_since(&in->used, in->newest);

	if (!most)
		return 0;
	if ((in->used.mark || in->newest >= 0) && stuck >= most) {
		stop_because(out, "%u restart%s brought no new checkpoint (retry.no_progress)", stuck,
		             stuck == 1 ? "" : "s");
		return 1;
	}
	if (!in->ran && in->used.unstarted >= most) {
		stop_because(out, "%u attempt%s in a row could not start either (retry.no_progress)",
		             in->used.unstarted, in->used.unstarted == 1 ? "" : "s");
		return 1;
	}
	return 0;
}

const char *plan_place_text(enum plan_action a, int anywhere)
{
	if (a == PLAN_ELSEWHERE && anywhere)
		return " wherever nodes are free";
	return a == PLAN_IN_PLACE ? " in place" : a == PLAN_ELSEWHERE ? " elsewhere" : "";
}

static void say_restart(const struct plan_in *in, struct retry_plan *out)
{
	struct text t = text_on(out->text, sizeof(out->text));
	char span[40];

	if (out->action == PLAN_ROLLBACK && out->step >= 0)
		text_add(&t, "goes back to step %" PRId64, out->step);
	else if (out->action == PLAN_ROLLBACK)
		text_add(&t, "goes back to its beginning");
	else if (out->step >= 0)
		text_add(&t, "goes on%s from step %" PRId64, plan_place_text(out->action, in->anywhere), out->step);
	else
		text_add(&t, "starts again%s", plan_place_text(out->action, in->anywhere));
	if (out->action == PLAN_ROLLBACK && in->skip)
		text_add(&t, " and leaves out steps %s", in->skip);
	if (out->action == PLAN_ROLLBACK)
		text_add(&t, " (rollback %u of %u)", in->used.rollbacks + 1, in->max_rollbacks);
	if (out->wait_s)
		text_add(&t, " after %s", str_duration(out->wait_s, span, sizeof(span)));
}

static void plan_restart(const struct plan_in *in, struct retry_plan *out, enum plan_action action,
                         enum plan_budget budget)
{
	out->action = action;
	out->budget = budget;
	out->step = action == PLAN_ROLLBACK ? in->target : in->newest;
	/* A wait mends no damaged checkpoint, and the next attempt begins with another one. */
	if ((budget == PLAN_CAPACITY || budget == PLAN_ATTEMPTS) && !in->torn)
		out->wait_s = backoff_s(stuck_since(&in->used, in->newest));
	/* Nodes do not wait idle for longer than a replacement would be looked for. */
	if (out->wait_s > in->keys.wait_s)
		out->action = PLAN_QUEUE;
	say_restart(in, out);
}

void plan_make(const struct plan_in *in, struct retry_plan *out)
{
	static const enum plan_budget budgets[] = {[MOVES] = PLAN_CAPACITY,
	                                           [REPEATS] = PLAN_ATTEMPTS,
	                                           [RETURNS] = PLAN_ROLLBACKS,
	                                           [CONTINUES] = PLAN_FREE};
	const char *why = in->wish == PLAN_STOP && in->because ? in->because
	                  : in->wish == PLAN_STOP              ? "the watch or a rule of the job says stop"
	                  : in->verdict == VERDICT_USER        ? "user error"
	                                                       : reactions[in->cls].why;
	enum reaction how = reaction_of(in);
	enum plan_action action = how == RETURNS                             ? PLAN_ROLLBACK
	                          : how == REPEATS && in->used.attempts == 0 ? PLAN_IN_PLACE
	                                                                     : PLAN_ELSEWHERE;

	*out = (struct retry_plan){.action = PLAN_STOP, .step = -1};
	if (how == NEVER && *why)
		stop_because(out, "%s", why);
	if (how == NEVER || is_used_up(in, budgets[how], out))
		return;
	if ((how == MOVES || how == REPEATS) && is_stuck(in, out))
		return;
	if (!in->left_s)
		stop_because(out, "limits.max_runtime_s is used up");
	else if (how == RETURNS && in->target < 0 && !in->skip) /* the same would come again */
		stop_because(out, "no checkpoint from before the fault exists, and no step of it is known");
	else
		plan_restart(in, out, action, budgets[how]);
}
