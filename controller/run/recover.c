/*
 * recover: see recover.h.
 */
#include "controller/run/recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/watch/loss.h"
#include "controller/record/ckpt.h"
#include "controller/record/failure.h"
#include "controller/record/plan.h"
#include "controller/record/rec.h"
#include "controller/record/skip.h"
#include "controller/record/states.h"
#include "controller/record/verdict.h"
#include "controller/run/array.h"
#include "controller/run/attempt.h"
#include "controller/run/checkpoints.h"
#include "controller/run/replace.h"
#include "controller/run/resolve.h"
#include "controller/share/alloc.h"
#include "controller/state/core_state.h"
#include "controller/state/turn.h"

#define EVIDENCE_NODES 16 /* lost nodes that the evidence names */

/* ---- the plan -------------------------------------------------------------------------------- */

static void add_lost(const struct attempt_rec *a, cJSON *o)
{
	cJSON *list = NULL;

	for (uint32_t i = 0; i < a->n_places; i++) {
		if (a->places[i].state != PLACE_LOST)
			continue;
		if (!list)
			list = cJSON_AddArrayToObject(o, "lost");
		if (cJSON_GetArraySize(list) < EVIDENCE_NODES)
			cJSON_AddItemToArray(list, cJSON_CreateString(a->places[i].node));
	}
}

/* Returns what the outcome was judged by: the watch that ended the attempt, or the first rank that failed
 * with its last line; and lost nodes. */
static cJSON *evidence_json(const struct attempt_rec *a, const struct active *act,
                            const struct recover_cause *why)
{
	cJSON *o = cJSON_CreateObject(), *before = a->evidence ? cJSON_Parse(a->evidence) : NULL,
	      *watch = cJSON_DetachItemFromObjectCaseSensitive(before, "watch");

	if (watch)
		cJSON_AddItemToObject(o, "watch", watch);
	cJSON_Delete(before);

	if (why->rank < a->n_ranks) {
		const struct attempt_cause cause = attempt_cause(a, act->step_us);
		const struct rank_rec *k = &a->ranks[why->rank];
		TEXT(line);

		json_add_u64(o, "rank", why->rank);
		json_add_str(o, "node", a->places[k->place].node);
		if (k->exit_code >= 0)
			json_add_u64(o, "exit_code", (uint64_t)k->exit_code);
		if (k->signal > 0)
			json_add_u64(o, "signal", (uint64_t)k->signal);
		if (k->oom)
			cJSON_AddTrueToObject(o, "oom");
		if (cause.line && cause.rank == why->rank && why->verdict != VERDICT_UNKNOWN)
			text_add(&line, "%s", cause.line->line);
		else
			rank_last_line(k, &line);
		if (!text_is_empty(&line))
			json_add_str(o, "line", line.at);
	}
	add_lost(a, o);
	if (act->steps) /* of metrics; they may be removed before the record is */
		json_add_u64(o, "step", act->steps - 1);
	return o;
}

static int is_node_to_blame(const struct attempt_rec *a)
{
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].culprit || a->places[i].state == PLACE_LOST)
			return 1;
	return 0;
}

/* Returns 1 when other nodes would bring the same end: the job reached a limit that its specification has, or
 * its inputs arrived steadily and yet too late (prepare_limit). */
static int is_own_limit(struct core *c, struct cjob *j, enum reason_class cls)
{
	const struct job_spec *s = j->act->spec;

	if (cls == RC_STAGING)
		return !rec_launched(j->r.att) && !is_node_to_blame(j->r.att) && !checkpoint_is_torn(c, j);
	return (cls == RC_OOM && s->memory_bytes) || (cls == RC_DISK && s->disk_bytes && rec_limited(j->r.att));
}

static uint64_t time_left_s(const struct core *c, const struct cjob *j)
{
	const struct active *a = j->act;
	uint64_t held = a->before_us + a->held_us + (now_boot(c) - a->placed_us);

	if (!a->max_runtime_us)
		return UINT64_MAX;
	return a->max_runtime_us > held ? (a->max_runtime_us - held) / 1000000 : 0;
}

/* Lists the nodes that the next attempt leaves out if it can: those that are lost or to blame, and the node
 * of an unknown failure that a restart in place has not mended. */
static cJSON *avoid_json(const struct attempt_rec *a, const struct recover_cause *why,
                         enum plan_action action)
{
	cJSON *list = cJSON_CreateArray();
	int blamed = action == PLAN_ELSEWHERE || action == PLAN_QUEUE;

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];

		if (p->culprit || p->state == PLACE_LOST ||
		    (blamed && why->rank < a->n_ranks && a->ranks[why->rank].place == i))
			cJSON_AddItemToArray(list, cJSON_CreateString(p->node));
	}
	return list;
}

/* No node is lost or to blame, such as after the end of mpirun or orted alone. */
static int is_anywhere(const struct attempt_rec *a, const struct recover_cause *why)
{
	cJSON *avoid = avoid_json(a, why, PLAN_ELSEWHERE);
	int none = !avoid->child;

	cJSON_Delete(avoid);
	return none;
}

/* ---- rollbacks ------------------------------------------------------------------------------- */

struct fault {           /* what a rollback leaves behind */
	int64_t onset, step; /* first bad step, and the newest one; -1 not known */
	uint64_t margin;
	uint32_t max_rollbacks;
	enum plan_action wish;
	char because[200]; /* "" not known */
};

static int64_t step_of(const cJSON *o, const char *key)
{
	const uint64_t step = json_whole(o, key, UINT64_MAX);

	return step > INT64_MAX ? -1 : (int64_t)step;
}

int recover_is_asked(const struct attempt_rec *a)
{
	cJSON *evidence = a->evidence ? cJSON_Parse(a->evidence) : NULL;
	int asked = cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(evidence, "watch"));

	cJSON_Delete(evidence);
	return asked;
}

static cJSON *ask_json(const struct rollback_ask *ask)
{
	cJSON *o = cJSON_CreateObject(), *w = cJSON_AddObjectToObject(o, "watch");

	json_add_str(w, "kind", ask->kind);
	json_add_str(w, "action", plan_action_name(ask->action));
	if (ask->because && ask->action == PLAN_STOP)
		json_add_str(w, "because", ask->because);
	if (ask->onset >= 0)
		json_add_u64(w, "onset", (uint64_t)ask->onset);
	if (ask->step >= 0)
		json_add_u64(w, "step", (uint64_t)ask->step);
	json_add_u64(w, "margin", ask->margin);
	json_add_u64(w, "max_rollbacks", ask->max_rollbacks);
	return o;
}

int recover_rollback(struct core *c, struct cjob *j, const struct rollback_ask *ask)
{
	const struct attempt_rec *a = j->r.att;
	struct verdict v;

	if (!j->act || !a || (a->state != ATT_LAUNCHING && a->state != ATT_RUNNING) ||
	    j->r.wanted != WANT_NOTHING || !rec_any_rank_started(a))
		return -1;
	verdict_set(&v, ask->cls == RC_NONE ? RC_NUMERIC : ask->cls, "%s", ask->sentence);
	return attempt_end_by(c, j, &v, ask_json(ask));
}

static int64_t newest_step(const struct cjob *j)
{
	int64_t step = j->act->steps ? (int64_t)(j->act->steps - 1) : -1;

	for (uint32_t i = 0; j->r.ckpts && i < j->r.ckpts->n; i++) {
		const struct ckpt *k = &j->r.ckpts->v[i];

		if (k->attempt == j->r.att->number && k->step > step)
			step = k->step;
	}
	return step;
}

/* Finds the bad steps: those that the watch names, else the newest one that the attempt reached. */
static void find_fault(const struct cjob *j, struct fault *f)
{
	cJSON *evidence = j->r.att->evidence ? cJSON_Parse(j->r.att->evidence) : NULL;
	const cJSON *w = cJSON_GetObjectItemCaseSensitive(evidence, "watch");

	*f = (struct fault){.margin = (uint64_t)j->act->spec->watch.conf.margin_steps,
	                    .max_rollbacks = (uint32_t)j->act->spec->watch.conf.max_rollbacks};
	f->step = newest_step(j);
	if (w) {
		int64_t step = step_of(w, "step");

		f->step = step > f->step ? step : f->step;
		f->wish = plan_action_find(json_str_or(w, "action", NULL));
		snprintf(f->because, sizeof(f->because), "%s", json_str_or(w, "because", ""));
		f->margin = json_whole(w, "margin", f->margin);
		f->max_rollbacks = (uint32_t)json_whole(w, "max_rollbacks", f->max_rollbacks);
	}
	f->onset = w ? step_of(w, "onset") : -1;
	if (f->onset < 0)
		f->onset = f->step;
	cJSON_Delete(evidence);
}

static int64_t newest_at(void *arg, int64_t at_most)
{
	const struct ckpt *k = ckpt_newest(arg, at_most, NULL);

	return k ? k->step : -1;
}

const struct ckpt *recover_return(struct job_rec *r, int64_t onset, uint64_t margin)
{
	const struct watch_source source = {newest_at, r};
	const int64_t step = watch_find_return(source, onset, (int64_t)margin, r->plan_rollbacks);

	return step >= 0 ? ckpt_newest(r, step, NULL) : NULL;
}

static int64_t first_skipped(const struct ckpt *target)
{
	return target ? target->step + 1 : 0;
}

/* Returns 0 when no step is known that a rollback leaves out. */
static int skip_text(const struct fault *f, const struct ckpt *target, char *out, size_t n)
{
	if (f->step < first_skipped(target))
		return 0;
	snprintf(out, n, "%" PRId64 "-%" PRId64, first_skipped(target), f->step);
	return 1;
}

/* Adds what is particular to a rollback: the checkpoint, and all steps that the program leaves out from now
 * on. */
static void add_rollback(const struct cjob *j, const struct fault *f, const struct ckpt *target, cJSON *o)
{
	int64_t first = first_skipped(target);
	char *skip = skip_add(j->r.skip_steps, f->step >= first ? first : -1, f->step);

	if (target) {
		char *name = xasprintf("attempt:%u@%" PRId64, target->attempt, target->step);

		json_add_str(o, "checkpoint", name);
		free(name);
	}
	if (*skip)
		json_add_str(o, "skip_steps", skip);
	free(skip);
}

void recover_set_aside(struct core *c, struct cjob *j)
{
	cJSON *plan = j->r.att->plan ? cJSON_Parse(j->r.att->plan) : NULL;
	const struct ckpt *target = NULL;
	uint32_t attempt;
	int64_t step;
	TEXT(why);

	if (rec_plan_action(j->r.att) == PLAN_ROLLBACK) {
		if (begins_parse(json_str_or(plan, "checkpoint", NULL), &attempt, &step) == 0)
			target = ckpt_of(&j->r, attempt, step);
		text_add(&why, "a rollback to ");
		if (target)
			text_add(&why, "step %" PRId64 " leaves it behind", target->step);
		else
			text_add(&why, "the beginning leaves it behind");
		for (uint32_t i = 0; j->r.ckpts && i < j->r.ckpts->n; i++)
			if (ckpt_is_behind(&j->r.ckpts->v[i], target))
				checkpoint_set_aside(c, j, j->r.ckpts->v[i].number, 1, why.at);
	}
	cJSON_Delete(plan);
}

/* ---- the plan, made -------------------------------------------------------------------------- */

/* 1: the attempt was to take over a launch that waited in its pool, and that failed. The job goes on cold: it
 * is never worse off than without the pool. */
static int is_spoiled(const struct cjob *j, enum reason_class cls)
{
	return j->act->parked && !rec_any_rank_started(j->r.att) && cls != RC_STOPPED && cls != RC_TIMEOUT &&
	       cls != RC_COST;
}

static void plan_cold(const struct cjob *j, const struct recover_cause *why, cJSON *d)
{
	const struct ckpt *newest = ckpt_newest(&j->r, INT64_MAX, NULL);
	cJSON *o = cJSON_AddObjectToObject(d, "plan");

	json_add_str(o, "action", plan_action_name(PLAN_IN_PLACE));
	json_add_str(o, "budget", plan_budget_name(PLAN_FREE));
	json_add_u64(o, "wait_s", 0);
	if (newest)
		json_add_u64(o, "step", (uint64_t)newest->step);
	cJSON_AddItemToObject(o, "avoid", avoid_json(j->r.att, why, PLAN_IN_PLACE));
	json_add_str(o, "text", "starts again at once without the parked launch of its pool");
	json_add_str(d, "status", state_name(STATE_JOB, JOB_RECOVERING));
}

void recover_plan(struct core *c, struct cjob *j, const struct recover_cause *why, cJSON *d)
{
	const struct ckpt *newest = ckpt_newest(&j->r, INT64_MAX, NULL), *target;
	char skip[48] = "";
	struct fault fault;
	struct plan_in in = {.cls = why->cls,
	                     .verdict = why->verdict,
	                     .own_limit = is_own_limit(c, j, why->cls),
	                     .torn = why->cls == RC_STAGING && checkpoint_is_torn(c, j),
	                     .ran = rec_any_rank_started(j->r.att),
	                     .anywhere = is_anywhere(j->r.att, why),
	                     .newest = newest ? newest->step : -1,
	                     .now_us = now_real(c),
	                     .left_s = time_left_s(c, j),
	                     .keys = j->act->spec->retry,
	                     .used = rec_plan_used(&j->r)};
	struct retry_plan p;
	cJSON *o;

	cJSON_AddItemToObject(d, "evidence", evidence_json(j->r.att, j->act, why));
	if (j->r.wanted != WANT_NOTHING) /* what follows is the user's choice */
		return;
	if (is_spoiled(j, why->cls)) {
		plan_cold(j, why, d);
		return;
	}
	find_fault(j, &fault);
	target = recover_return(&j->r, fault.onset, fault.margin);
	if (skip_text(&fault, target, skip, sizeof(skip)))
		in.skip = skip;
	in.target = target ? target->step : -1;
	in.max_rollbacks = fault.max_rollbacks;
	in.wish = fault.wish;
	in.because = *fault.because ? fault.because : NULL;
	plan_make(&in, &p);
	o = cJSON_AddObjectToObject(d, "plan");
	json_add_str(o, "action", plan_action_name(p.action));
	if (plan_goes_on(p.action)) {
		json_add_str(o, "budget", plan_budget_name(p.budget));
		json_add_u64(o, "wait_s", p.wait_s);
		if (p.step >= 0)
			json_add_u64(o, "step", (uint64_t)p.step);
		cJSON_AddItemToObject(o, "avoid", avoid_json(j->r.att, why, p.action));
	}
	if (p.action == PLAN_ROLLBACK)
		add_rollback(j, &fault, target, o);
	if (p.action == PLAN_ROLLBACK && fault.wish)
		cJSON_ReplaceItemInObjectCaseSensitive(
		    d, "outcome", cJSON_CreateString(state_name(STATE_OUTCOME, OUT_ROLLED_BACK)));
	json_add_str(o, "text", p.text);
	json_add_str(d, "status", state_name(STATE_JOB, plan_goes_on(p.action) ? JOB_RECOVERING : JOB_STOPPING));
}

/* ---- questions ------------------------------------------------------------------------------- */

int recover_goes_on(const struct cjob *j)
{
	return rec_goes_on(&j->r);
}

void recover_say(const struct cjob *j, struct text *out)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL;
	const char *text = json_str_or(plan, "text", "");

	text_add(out, "attempt %u ended: %.600s", a->number, a->reason ? a->reason : "no reason is known");
	if (*text && j->r.wanted == WANT_NOTHING)
		text_add(out, "; %s", text);
	cJSON_Delete(plan);
}

void recover_why(const struct core *c, const struct cjob *j, struct text *out)
{
	uint64_t now = now_boot(c), left = j->recover_us > now ? j->recover_us - now : 0;
	char span[40];

	str_duration((left + 999999) / 1000000, span, sizeof(span));
	if (!alloc_exchanges(c, j)) {
		recover_say(j, out);
		text_add(out, "; it begins in %s", span);
		return;
	}
	text_add(out, "; in %s it %swaits in the queue, first of its priority (", span,
	         replace_kept(j->r.att) ? "gives them back and " : "");
	recover_say(j, out);
	text_add(out, ")");
}

/* A watch that stops or restarts a job leaves its ranks sound. What they would save before a rollback would
 * be set aside. */
static int saves_first(const struct attempt_rec *a)
{
	cJSON *evidence = a->evidence ? cJSON_Parse(a->evidence) : NULL;
	const cJSON *w = cJSON_GetObjectItemCaseSensitive(evidence, "watch");
	int saves = w && plan_action_find(json_str_or(w, "action", NULL)) != PLAN_ROLLBACK;

	cJSON_Delete(evidence);
	return saves;
}

/* A user's stop, and limits that a program can prepare for, leave the ranks their time to save. Ranks that
 * lost a peer have nothing to save: they would only wait for it. */
uint32_t recover_grace_ms(const struct cjob *j)
{
	switch (j->r.att->cls) {
	case RC_NONE:
	case RC_STOPPED:
	case RC_TIMEOUT:
	case RC_COST:
		return j->act->grace_ms;
	default:
		return j->r.wanted == WANT_NOTHING && !saves_first(j->r.att) ? 0 : j->act->grace_ms;
	}
}

static void avoid_node(struct cjob *j, const char *node)
{
	if (!j->avoid)
		j->avoid = xcalloc(1, sizeof(*j->avoid));
	for (size_t i = 0; i < j->avoid->n; i++)
		if (strcmp(j->avoid->v[i], node) == 0)
			return;
	strv_add(j->avoid, node);
}

void recover_learn(struct cjob *j, const struct attempt_rec *a)
{
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL;
	const cJSON *v;

	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(plan, "avoid"))
		if (cJSON_IsString(v))
			avoid_node(j, v->valuestring);
	cJSON_Delete(plan);
	/* Attempts of earlier versions have no plan. */
	for (uint32_t i = 0; !a->plan && a->outcome != OUT_STOPPED && i < a->n_places; i++)
		if ((a->places[i].culprit || a->places[i].state == PLACE_LOST) && !rec_any_rank_started(a))
			avoid_node(j, a->places[i].node);
	if (a->number == j->r.attempts && rec_is_followed(a))
		alloc_goes_first(j, a);
}

/* ---- back to the queue ----------------------------------------------------------------------- */

/* Holds the job. A node that did not confirm the end of a launch may still run ranks, and two attempts at
 * once would spoil each other's files. Only a person can know. */
static void wait_for_word(struct core *c, struct cjob *j, const char *node, const struct err *lost)
{
	cJSON *d = cJSON_CreateObject();
	char bytes[2 * TEXT_SIZE], ref[REC_REF_SIZE];
	struct text reason = text_on(bytes, sizeof(bytes));

	text_add(&reason,
	         "node %s has not confirmed that attempt %u is over there; release the job when nothing "
	         "of it runs any more",
	         node, j->r.attempts);

	if (lost) { /* the requested beginning is missing, too */
		text_add(&reason, ": it then ");
		begins_say(c, j, j->r.begins, &reason);
		text_add(&reason, ", for %.900s; jobctl requeue %s --from STEP takes another", lost->text,
		         rec_ref(&j->r, ref));
	}
	json_add_str(d, "status", state_name(STATE_JOB, JOB_HELD));
	json_add_str(d, "reason", reason.at);
	job_post(c, j, EV_HELD, d);
}

/* Holds the job: the requested beginning is missing, and hearthd does not choose another one. */
static void wait_for_choice(struct core *c, struct cjob *j, const struct err *why)
{
	cJSON *d = cJSON_CreateObject();
	char ref[REC_REF_SIZE];
	TEXT(reason);

	text_add(&reason, "%.900s; jobctl requeue %s --from STEP takes another", why->text, rec_ref(&j->r, ref));
	json_add_str(d, "status", state_name(STATE_JOB, JOB_HELD));
	json_add_str(d, "reason", reason.at);
	job_post(c, j, EV_HELD, d);
}

void recover_hold_asked(struct core *c, struct cjob *j, const struct err *why)
{
	cJSON *d = cJSON_CreateObject();
	char *begins;
	struct err e;

	/* A release without another choice loses nothing. */
	if (begins_settle(c, j, NULL, &begins, &e) < 0)
		begins = NULL;
	json_add_str(d, "reason", why->text);
	json_add_str(d, "begins", begins ? begins : "");
	free(begins);
	if (job_post(c, j, j->r.status == JOB_RECOVERING ? EV_REQUEUED : EV_CHANGED, d) == 0)
		wait_for_choice(c, j, why);
}

/* 1: a rollback goes where its plan says, so the plan's sentence says all. */
static int is_as_planned(const struct cjob *j, const char *begins)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL;
	const char *to = json_str_or(plan, "checkpoint", "");
	int is = j->r.wanted == WANT_NOTHING && rec_plan_action(a) == PLAN_ROLLBACK &&
	         strcmp(to, begins ? begins : "") == 0;

	cJSON_Delete(plan);
	return is;
}

/* Where the plan lets the next attempt run, in words. */
static const char *planned_place(const struct attempt_rec *a)
{
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL;
	const cJSON *avoid = cJSON_GetObjectItemCaseSensitive(plan, "avoid");
	int anywhere = avoid && !avoid->child;

	cJSON_Delete(plan);
	return plan_place_text(rec_plan_action(a), anywhere);
}

/* Adds why the job waits again, and its next beginning. */
static void requeue_reason(struct core *c, const struct cjob *j, const char *begins, int lost,
                           struct text *out)
{
	const struct attempt_rec *a = j->r.att;

	if (j->r.wanted == WANT_REQUEUE)
		text_add(out, "%s%.900s", a->reason && strncmp(a->reason, "requeued", 8) == 0 ? "" : "requeued: ",
		         a->reason ? a->reason : "by its owner");
	else if (begins && !is_as_planned(j, begins))
		text_add(out, "attempt %u ended: %.600s", a->number, a->reason ? a->reason : "no reason is known");
	else
		recover_say(j, out);
	if (!is_as_planned(j, begins) && !lost && (begins || (j->r.begins && j->r.wanted == WANT_REQUEUE))) {
		text_add(out, "; ");
		begins_say(c, j, begins, out);
		if (j->r.wanted != WANT_REQUEUE)
			text_add(out, "%s", planned_place(a));
	}
}

/* Returns what the next attempt is to begin with (job_rec.begins). */
static const char *asked_beginning(const struct cjob *j)
{
	cJSON *plan = j->r.att->plan ? cJSON_Parse(j->r.att->plan) : NULL;
	int restarts = rec_plan_action(j->r.att) == PLAN_ROLLBACK && !cJSON_HasObjectItem(plan, "checkpoint");

	cJSON_Delete(plan);
	return !j->r.begins && j->r.wanted == WANT_NOTHING && restarts ? "start" : j->r.begins;
}

static void requeue_job(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	const struct attempt_rec *a = j->r.att;
	const char *open = NULL, *asked = asked_beginning(j);
	char bytes[2 * TEXT_SIZE], *begins;
	struct text reason = text_on(bytes, sizeof(bytes));
	cJSON *d = cJSON_CreateObject();
	struct err why, other;
	int lost, replaces;

	recover_set_aside(c, j);
	lost = begins_settle(c, j, asked, &begins, &why) < 0 && !FAULT("mistake.no_hold");

	/* A release without another choice loses nothing. */
	if (lost && begins_settle(c, j, NULL, &begins, &other) < 0)
		begins = NULL;

	requeue_reason(c, j, begins, lost, &reason);
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].unconfirmed && rec_launched(a))
			open = a->places[i].node;
	json_add_str(d, "reason", reason.at);
	replaces = !open && !lost && (rec_keeps_nodes(&j->r) || replace_kept(a));
	if (begins && !lost && asked && strncmp(asked, "step:", 5) == 0)
		cJSON_AddTrueToObject(d, "begins_asked");
	if (begins)
		json_add_str(d, "begins", begins);
	else if (replaces && asked && strcmp(asked, "start") == 0) /* a new hearthd settles it again */
		json_add_str(d, "begins", asked);
	free(begins);
	if (!replaces && j->collect) {
		j->awaits_collect = 1;
		cJSON_Delete(d);
		return;
	}
	if (replaces) {
		json_add_str(d, "status", state_name(STATE_JOB, JOB_RECOVERING));
		replace_add_kept(c, j, d);
	} else {
		alloc_unqueue(c, j);
	}
	if (job_post(c, j, EV_REQUEUED, d) < 0)
		return;
	if (replaces)
		replace_begin(c, j, spec);
	else if (open)
		wait_for_word(c, j, open, lost ? &why : NULL);
	else if (lost)
		wait_for_choice(c, j, &why);
	else
		replace_give_up(c, j, spec);
}

/* The back-off is over, or nodes changed while the job waits for others. */
static void review_waiting(struct core *c, struct cjob *j)
{
	struct err e;
	struct job_spec *s = job_parse_spec(c, j, &e);

	if (s && j->r.wanted == WANT_NOTHING && alloc_exchanges(c, j))
		replace_review(c, j, s);
	else if (s)
		requeue_job(c, j, s);
	else
		log_error("event=spec_refused job=%" PRIu64 " text=\"%s\"", j->r.id, e.text);
	spec_destroy(s);
}

/* Returns the time by the wall clock until the next attempt may begin. A wall clock that was set back adds
 * nothing. */
static uint64_t backoff_us(const struct core *c, const struct attempt_rec *a)
{
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL;
	uint64_t wait = json_whole(plan, "wait_s", 0) * 1000000, now = now_real(c),
	         since = now > a->ended_us ? now - a->ended_us : 0;

	cJSON_Delete(plan);
	return wait > since ? wait - since : 0;
}

static void begin_backoff(struct core *c, struct cjob *j)
{
	j->recover_us = now_boot(c) + (j->r.wanted == WANT_NOTHING ? backoff_us(c, j->r.att) : 0);
}

void recover_begin(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	recover_learn(j, a);
	if (!rec_keeps_nodes(&j->r))
		alloc_unqueue(c, j);
	for (uint32_t i = 0; i < a->n_places; i++)
		if (!a->places[i].kept)
			alloc_release(c, j, a->places[i].node_id);
	begin_backoff(c, j);
}

void recover_loaded(struct core *c, struct cjob *j)
{
	struct err e;
	struct job_spec *s = job_parse_spec(c, j, &e);

	recover_learn(j, j->r.att);
	if (s)
		alloc_holds(c, j, s, 0);
	spec_destroy(s);
	begin_backoff(c, j);
	job_touch(c, j);
}

/* A stop that waited for the results of the last attempt. */
static void end_stopped(struct core *c, struct cjob *j)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "status", state_name(STATE_JOB, JOB_STOPPED));
	json_add_str(d, "reason", j->r.reason ? j->r.reason : "");
	ckpt_add_line(&j->r, d);
	job_post(c, j, EV_ENDED, d);
}

void recover_review(struct core *c, struct cjob *j)
{
	if (j->act || !j->r.att || j->r.att->state != ATT_ENDED)
		return;
	if (j->r.wanted != WANT_NOTHING && j->collect) {
		if (j->r.wanted == WANT_STOP) /* saving what it left needs no nodes */
			alloc_unqueue(c, j);
		j->awaits_collect = 1;
	}
	if (j->collect && j->awaits_collect)
		return;
	if (j->r.wanted == WANT_STOP)
		end_stopped(c, j);
	else if (j->r.wanted == WANT_NOTHING && now_boot(c) < j->recover_us && !alloc_exchanges(c, j))
		job_deadline(c, j, j->recover_us);
	else
		review_waiting(c, j);
}
