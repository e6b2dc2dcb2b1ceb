/*
 * event: applies one event to a record. Each function first checks the move in the tables of states.c. It
 * refuses the event, or makes all changes.
 */
#include "controller/record/event.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"

struct ctx {
	struct job_rec *r;
	struct attempt_rec *a; /* that the event is of; NULL: none in the record */
	enum event_type type;
	uint32_t attempt;
	uint64_t at_us;
	const cJSON *d;
	struct err *e;
};

static const char *const names[] = {
#define E(id, name, fn) name,
    JOB_EVENTS(E)
#undef E
#define E(id, name, kind, need, fn) name,
        CLUSTER_EVENTS(E)
#undef E
};

const char *event_name(enum event_type t)
{
	return (unsigned)t < N_EVENT_TYPE ? names[t] : "?";
}

int event_find(const char *name)
{
	for (int i = 0; i < N_EVENT_TYPE; i++)
		if (name && strcmp(names[i], name) == 0)
			return i;
	return -1;
}

static const cJSON *data_item(const struct ctx *c, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(c->d, key);
}

static const char *data_text(const struct ctx *c, const char *key)
{
	return cJSON_GetStringValue(data_item(c, key));
}

/* A number that hearthd never writes counts as missing, because a damaged store may hold one. */
static int64_t data_number(const struct ctx *c, const char *key, int64_t def)
{
	const cJSON *v = data_item(c, key);

	return cJSON_IsNumber(v) && fabs(v->valuedouble) < 0x1p53 ? (int64_t)v->valuedouble : def;
}

static uint64_t data_whole(const struct ctx *c, const char *key, uint64_t def)
{
	return json_whole(c->d, key, def);
}

/* Copies an object of the event as text. */
static void set_object(struct ctx *c, char **out, const char *key)
{
	const cJSON *o = data_item(c, key);
	char *text = cJSON_IsObject(o) ? json_text(o) : NULL;

	rec_set(out, text);
	free(text);
}

static int move_job(struct ctx *c, enum job_status to)
{
	if (!state_move_ok(c->r->members ? STATE_ARRAY : STATE_JOB, (int)c->r->status, (int)to))
		return err_set(c->e, ERR_INTERNAL, "%s: a job that is %s cannot become %s", event_name(c->type),
		               state_name(STATE_JOB, (int)c->r->status), state_name(STATE_JOB, (int)to));
	return 0;
}

static int need_attempt(struct ctx *c)
{
	if (!c->r->att || c->r->att->number != c->attempt)
		return err_set(c->e, ERR_INTERNAL, "%s: attempt %u is not the newest", event_name(c->type),
		               c->attempt);
	return 0;
}

/* Also one that is still being collected. */
static int need_any(struct ctx *c)
{
	if (!c->a)
		return err_set(c->e, ERR_INTERNAL, "%s: attempt %u is not the newest, nor is it being collected",
		               event_name(c->type), c->attempt);
	return 0;
}

static int move_attempt(struct ctx *c, enum attempt_state to)
{
	if (need_attempt(c) < 0)
		return -1;
	if (!state_move_ok(STATE_ATTEMPT, (int)c->r->att->state, (int)to))
		return err_set(c->e, ERR_INTERNAL, "%s: an attempt that is %s cannot become %s", event_name(c->type),
		               state_name(STATE_ATTEMPT, (int)c->r->att->state), state_name(STATE_ATTEMPT, (int)to));
	return 0;
}

static void phase_open(struct attempt_rec *a, enum phase p, uint64_t at_us)
{
	if (!a->phases[p].started_us)
		a->phases[p].started_us = at_us;
}

/* Closes every phase that is open. */
static void phases_close(struct attempt_rec *a, uint64_t at_us)
{
	for (int i = 0; i < N_PHASE; i++)
		if (a->phases[i].started_us && !a->phases[i].ended_us)
			a->phases[i].ended_us = at_us;
}

/* ---- of the job ------------------------------------------------------------------------------ */

static int apply_nothing(struct ctx *c)
{
	(void)c;
	return 0;
}

/* The newest alarm stays in the record, so that `show` and lists need no events. */
static int apply_alert(struct ctx *c)
{
	cJSON *d;
	char *text;

	if (!data_text(c, "kind") || !data_text(c, "text"))
		return err_set(c->e, ERR_INTERNAL, "alert: of no kind, or without a text");
	d = cJSON_Duplicate(c->d, 1);
	json_add_u64(d, "at_us", c->at_us);
	text = json_text(d);
	rec_set(&c->r->alert, text);
	free(text);
	cJSON_Delete(d);
	c->r->alerts++;
	return 0;
}

/* Events repeat the beginning of a job that still waits: it stays one that was asked for. */
static void set_begins(struct ctx *c)
{
	const char *begins = data_text(c, "begins");

	if (!begins || !c->r->begins || strcmp(begins, c->r->begins) != 0)
		c->r->begins_asked = 0;
	if (cJSON_IsTrue(data_item(c, "begins_asked")))
		c->r->begins_asked = 1;
	rec_set(&c->r->begins, begins);
}

static int apply_submitted(struct ctx *c)
{
	struct job_rec *r = c->r;
	int status = state_find(STATE_JOB, data_text(c, "status"));

	if (r->created_us || (status != JOB_QUEUED && status != JOB_HELD))
		return err_set(c->e, ERR_INTERNAL, "submitted: twice, or in a status that cannot be the first");
	rec_set(&r->name, data_text(c, "name"));
	rec_set(&r->owner, data_text(c, "owner"));
	rec_set(&r->run_as, data_text(c, "account"));
	rec_set(&r->experiment, data_text(c, "experiment"));
	rec_set(&r->notes, data_text(c, "notes"));
	rec_set(&r->queue, data_text(c, "queue"));
	rec_set(&r->bundle, data_text(c, "bundle"));
	rec_set(&r->spec_sha256, data_text(c, "spec_sha256"));
	rec_set(&r->reason, data_text(c, "reason"));
	rec_set(&r->skip_steps, data_text(c, "skip_steps"));
	r->wants_pool = data_whole(c, "wants_pool", 0);
	r->priority = data_number(c, "priority", 0);
	r->nodes = (uint32_t)data_whole(c, "nodes", 0);
	r->gpus = (uint32_t)data_whole(c, "gpus", 0);
	r->array = data_whole(c, "array", 0);
	r->members = (uint32_t)data_whole(c, "members", 0);
	r->status = (enum job_status)status;
	r->created_us = c->at_us;
	r->queued_us = status == JOB_QUEUED ? c->at_us : 0;
	r->exit_code = -1;
	return 0;
}

static int apply_status(struct ctx *c) /* held, released */
{
	enum job_status to = c->type == EV_HELD ? JOB_HELD : JOB_QUEUED;

	if (c->type == EV_RELEASED && c->r->members && c->r->started_us) /* it goes on */
		to = JOB_RUNNING;

	if (move_job(c, to) < 0)
		return -1;
	if (to != JOB_HELD && c->r->status != JOB_HELD) /* the event `requeued` returns the others to the queue */
		return err_set(c->e, ERR_INTERNAL, "released: the job is not held");
	c->r->status = to;
	/* An array that continues has the time since when its members wait. */
	if (to == JOB_QUEUED || c->type == EV_RELEASED)
		c->r->queued_us = c->at_us;
	rec_set(&c->r->reason, data_text(c, "reason"));
	return 0;
}

static int apply_changed(struct ctx *c)
{
	struct job_rec *r = c->r;

	r->priority = data_number(c, "priority", r->priority);
	r->pinned = (uint8_t)data_whole(c, "pinned", r->pinned);
	r->max_runtime_s = data_whole(c, "max_runtime_s", r->max_runtime_s);
	r->wants_pool = data_whole(c, "wants_pool", r->wants_pool);
	if (data_text(c, "queue"))
		rec_set(&r->queue, data_text(c, "queue"));
	if (data_text(c, "notes"))
		rec_set(&r->notes, data_text(c, "notes"));
	if (data_text(c, "name"))
		rec_set(&r->name, data_text(c, "name"));
	if (data_item(c, "begins"))
		set_begins(c);
	return 0;
}

static int apply_members_run(struct ctx *c)
{
	if (!c->r->members)
		return err_set(c->e, ERR_INTERNAL, "members_run: the job has no members");
	/* Held: running members end, and no other starts; the reason says why. */
	if (c->r->status != JOB_HELD) {
		if (move_job(c, JOB_RUNNING) < 0)
			return -1;
		c->r->status = JOB_RUNNING;
		if (c->r->wanted == WANT_NOTHING)
			rec_set(&c->r->reason, NULL);
	}
	c->r->started_us = c->at_us;
	return 0;
}

static int apply_rung(struct ctx *c)
{
	const cJSON *v = data_item(c, "value");
	char number[40], *all;

	if (!c->r->array)
		return err_set(c->e, ERR_INTERNAL, "rung: the job is not a member of an array");
	/* JSON null stands for NaN, which is worse than any number. */
	snprintf(number, sizeof(number), "%.17g", cJSON_IsNumber(v) ? v->valuedouble : NAN);
	all = xasprintf("%s%s%s", c->r->rungs ? c->r->rungs : "", c->r->rungs ? " " : "", number);
	rec_set(&c->r->rungs, all);
	free(all);
	return 0;
}

static int apply_reason(struct ctx *c)
{
	rec_set(&c->r->reason, data_text(c, "reason"));
	return 0;
}

static int apply_wanted(struct ctx *c)
{
	if (job_ended(c->r->status))
		return err_set(c->e, ERR_INTERNAL, "%s: the job has ended", event_name(c->type));
	c->r->wanted = c->type == EV_STOP_WANTED ? WANT_STOP : WANT_REQUEUE;
	if (cJSON_IsTrue(data_item(c, "halved")))
		c->r->halved = 1;
	set_begins(c);
	rec_set(&c->r->reason, data_text(c, "reason"));
	return 0;
}

static int apply_cleanup(struct ctx *c)
{
	rec_set(&c->r->cleanup, data_text(c, "text"));
	return 0;
}

static int attempt_over(struct ctx *c)
{
	if (c->r->att && c->r->att->state != ATT_ENDED)
		return err_set(c->e, ERR_INTERNAL, "%s: its attempt goes on", event_name(c->type));
	return 0;
}

/* Notes which places the job holds between two attempts. */
static void note_kept(struct ctx *c)
{
	struct attempt_rec *a = c->r->att;
	const cJSON *v;

	for (uint32_t i = 0; a && i < a->n_places; i++)
		a->places[i].kept = 0;
	cJSON_ArrayForEach (v, data_item(c, "keeps"))
		if (a && cJSON_IsNumber(v) && v->valueint >= 0 && (uint32_t)v->valueint < a->n_places)
			a->places[v->valueint].kept = 1;
}

static int all_collected(struct ctx *c)
{
	if (rec_collects(c->r->att) || rec_collects(c->r->old))
		return err_set(c->e, ERR_INTERNAL, "%s: an attempt is still being collected", event_name(c->type));
	return 0;
}

/* The job waits in the queue, or, with status `recovering`, for nodes to replace those that it gave back. */
static int apply_requeued(struct ctx *c)
{
	struct job_rec *r = c->r;
	int replaces = state_find(STATE_JOB, data_text(c, "status")) == JOB_RECOVERING,
	    waits = r->status == JOB_RECOVERING && r->att && r->queued_us >= r->att->ended_us;

	if (replaces && (r->status != JOB_RECOVERING || !r->att))
		return err_set(c->e, ERR_INTERNAL, "requeued: the job is not between two attempts");
	if ((!replaces && (move_job(c, JOB_QUEUED) < 0 || all_collected(c) < 0)) || attempt_over(c) < 0)
		return -1;
	if (r->status == JOB_HELD)
		return err_set(c->e, ERR_INTERNAL, "requeued: the job is held");
	r->status = replaces ? JOB_RECOVERING : JOB_QUEUED;
	r->wanted = WANT_NOTHING;
	if (!waits) /* else it only waits in another way */
		r->queued_us = c->at_us;
	note_kept(c);
	set_begins(c);
	rec_set(&c->r->reason, data_text(c, "reason"));
	return 0;
}

static int apply_ended(struct ctx *c)
{
	int to = state_find(STATE_JOB, data_text(c, "status"));

	if (to < 0 || !job_ended((enum job_status)to))
		return err_set(c->e, ERR_INTERNAL, "ended: not an end state");
	if (move_job(c, (enum job_status)to) < 0 || attempt_over(c) < 0 || all_collected(c) < 0)
		return -1;
	if (to == JOB_COMPLETED && data_number(c, "exit_code", -1) != 0)
		return err_set(c->e, ERR_INTERNAL, "ended: completed without exit code 0");
	c->r->status = (enum job_status)to;
	c->r->wanted = WANT_NOTHING;
	if (cJSON_IsTrue(data_item(c, "halved")))
		c->r->halved = 1;
	c->r->ended_us = c->at_us;
	c->r->exit_code = (int32_t)data_number(c, "exit_code", -1);
	set_begins(c);
	rec_set(&c->r->reason, data_text(c, "reason"));
	return 0;
}

static int apply_removed(struct ctx *c)
{
	if (!job_ended(c->r->status))
		return err_set(c->e, ERR_INTERNAL, "removed: the job has not ended");
	c->r->deleted = 1;
	return 0;
}

/* ---- of an attempt --------------------------------------------------------------------------- */

/* The newest attempt makes room for another one. It stays in the record while its nodes collect. */
static void set_old(struct job_rec *r)
{
	attempt_rec_free(r->old);
	r->old = rec_collects(r->att) ? r->att : NULL;
	if (!r->old)
		attempt_rec_free(r->att);
}

/* Progress counts from where the attempt begins: it has to leave again what lies behind that. A job that had
 * a checkpoint stays one, so the mark is never 0 again. */
static void lower_mark(struct job_rec *r, int64_t begins)
{
	uint64_t mark = begins > 0 ? (uint64_t)begins + 1 : 1;

	if (r->plan_mark > mark)
		r->plan_mark = mark;
}

static int apply_placed(struct ctx *c)
{
	struct job_rec *r = c->r;
	struct attempt_rec *a;

	if (move_job(c, JOB_STARTING) < 0)
		return -1;
	if (r->old && rec_collects(r->old))
		return err_set(c->e, ERR_INTERNAL, "placed: attempt %u is still being collected", r->old->number);
	if (c->attempt != r->attempts + 1 || data_whole(c, "epoch", 0) <= r->epoch)
		return err_set(c->e, ERR_INTERNAL, "placed: attempt %u does not follow %u", c->attempt, r->attempts);
	a = xcalloc(1, sizeof(*a));
	if (rec_places_parse(a, data_item(c, "nodes"), c->e) < 0) {
		attempt_rec_free(a);
		return -1;
	}
	a->number = c->attempt;
	a->epoch = data_whole(c, "epoch", 0);
	a->state = ATT_PREPARING;
	a->exit_code = a->signal = -1;
	a->started_us = c->at_us;
	a->master_port = (uint32_t)data_whole(c, "master_port", 0);
	a->resumed_from_step = data_number(c, "resumed_from_step", -1);
	rec_set(&a->resumed_from, data_text(c, "resumed_from"));
	rec_set(&a->cause, data_text(c, "cause"));
	rec_set(&a->launch_id, data_text(c, "launch_id"));
	rec_set(&a->account, data_text(c, "account"));
	a->price_uusd = data_whole(c, "price_uusd", 0);
	a->phases[PHASE_QUEUED] = (struct phase_rec){r->queued_us, c->at_us};
	phase_open(a, PHASE_PROVISIONING, c->at_us);
	set_old(r);
	r->att = a;
	r->attempts = a->number;
	r->epoch = a->epoch;
	r->status = JOB_STARTING;
	if (cJSON_IsObject(data_item(c, "pool")))
		a->pool = json_text(data_item(c, "pool"));
	lower_mark(r, a->resumed_from_step);
	rec_set(&a->skip_steps, r->skip_steps);
	rec_set(&r->begins, NULL);
	r->begins_asked = 0;
	r->wants_pool = 0;
	rec_set(&r->reason, data_text(c, "reason"));
	return 0;
}

static enum place_state place_target(enum event_type t)
{
	static const enum place_state to[] = {PLACE_PREPARING, PLACE_READY,  PLACE_RUNNING, PLACE_STOPPING,
	                                      PLACE_ENDED,     PLACE_FAILED, PLACE_CLEANED, PLACE_LOST};

	return to[t - EV_NODE_PREPARING];
}

static struct place_rec *place_of(struct ctx *c)
{
	int64_t at = data_number(c, "node_rank", -1);

	if (need_any(c) < 0)
		return NULL;
	if (at < 0 || at >= c->a->n_places) {
		err_set(c->e, ERR_INTERNAL, "%s: no node of that number", event_name(c->type));
		return NULL;
	}
	return &c->a->places[at];
}

static int apply_place(struct ctx *c)
{
	struct place_rec *p = place_of(c);
	enum place_state to = place_target(c->type);
	struct attempt_rec *a = c->a;

	if (!p)
		return -1;
	if (!state_move_ok(STATE_PLACE, (int)p->state, (int)to))
		return err_set(c->e, ERR_INTERNAL, "%s: a launch that is %s cannot become %s", event_name(c->type),
		               state_name(STATE_PLACE, (int)p->state), state_name(STATE_PLACE, (int)to));
	p->state = to;
	if (data_text(c, "text"))
		rec_set(&p->text, data_text(c, "text"));
	if (to == PLACE_FAILED || data_text(c, "class")) {
		int cls = state_find(STATE_CLASS, data_text(c, "class"));

		p->cls = cls < 0 ? RC_UNKNOWN : (enum reason_class)cls;
		p->culprit = !!cJSON_IsTrue(data_item(c, "culprit"));
	}
	if (to == PLACE_LOST) {
		p->silent_us = data_whole(c, "silent_us", 0);
		p->unconfirmed = !!cJSON_IsTrue(data_item(c, "unconfirmed"));
		ckpt_node_lost(c->r, p->node);
	}
	if (to == PLACE_PREPARING && a->state == ATT_PREPARING && !a->phases[PHASE_PROVISIONING].ended_us) {
		a->phases[PHASE_PROVISIONING].ended_us = c->at_us;
		phase_open(a, PHASE_STAGING, c->at_us);
	}
	if (a->state == ATT_ENDED && !rec_collects(a))
		phases_close(a, c->at_us);
	return 0;
}

static int apply_blamed(struct ctx *c)
{
	struct place_rec *p = place_of(c);

	if (!p)
		return -1;
	p->culprit = 1;
	if (data_text(c, "text"))
		rec_set(&p->text, data_text(c, "text"));
	return 0;
}

static int apply_saved(struct ctx *c)
{
	struct place_rec *p = place_of(c);

	if (!p)
		return -1;
	if (p->state != PLACE_ENDED || c->a->outcome == OUT_NONE)
		return err_set(c->e, ERR_INTERNAL, "node_saved: too early or too late");
	p->saved = 1;
	return 0;
}

static int apply_marked(struct ctx *c)
{
	struct place_rec *p = place_of(c);

	if (!p)
		return -1;
	p->pool_bad = 1;
	return 0;
}

static int apply_launching(struct ctx *c)
{
	if (move_attempt(c, ATT_LAUNCHING) < 0)
		return -1;
	c->r->att->state = ATT_LAUNCHING;
	phases_close(c->r->att, c->at_us);
	phase_open(c->r->att, PHASE_LAUNCHING, c->at_us);
	return 0;
}

/* Attempt and job run as soon as one rank runs. */
static void first_rank_runs(struct ctx *c, uint64_t started_us)
{
	struct attempt_rec *a = c->r->att;

	if (a->state != ATT_LAUNCHING || c->r->status != JOB_STARTING)
		return;
	a->state = ATT_RUNNING;
	c->r->status = JOB_RUNNING;
	if (!c->r->started_us)
		c->r->started_us = started_us;
	c->r->runs_since_us = c->at_us;
	rec_set(&c->r->reason, NULL);
	phases_close(a, c->at_us);
	phase_open(a, PHASE_RUNNING, c->at_us);
}

static int apply_rank(struct ctx *c)
{
	static const enum rank_state target[] = {RANK_RUNNING, RANK_EXITED, RANK_LOST, RANK_FAILED};
	enum rank_state to = target[c->type - EV_RANK_STARTED];
	int64_t at = data_number(c, "rank", -1);
	int by = state_find(STATE_ENDED_BY, data_text(c, "ended_by"));
	struct rank_rec *k;

	if (need_attempt(c) < 0)
		return -1;
	if (at < 0 || at >= c->r->att->n_ranks || c->r->att->outcome != OUT_NONE)
		return err_set(c->e, ERR_INTERNAL, "%s: no such rank, or its attempt is over", event_name(c->type));
	k = &c->r->att->ranks[at];
	if (!state_move_ok(STATE_RANK, (int)k->state, (int)to))
		return err_set(c->e, ERR_INTERNAL, "%s: a rank that is %s cannot become %s", event_name(c->type),
		               state_name(STATE_RANK, (int)k->state), state_name(STATE_RANK, (int)to));
	k->state = to;
	k->dirty = 1;
	k->pid = (uint32_t)data_whole(c, "pid", k->pid);
	k->started_us = data_whole(c, "started_us", k->started_us);
	k->ended_us = data_whole(c, "ended_us", k->ended_us);
	k->exit_code = (int32_t)data_number(c, "exit_code", -1);
	k->signal = (int32_t)data_number(c, "signal", -1);
	k->oom = !!cJSON_IsTrue(data_item(c, "oom"));
	k->ended_by = (uint8_t)(by > 0 ? by : BY_ITSELF);
	if (data_text(c, "text"))
		rec_set(&k->text, data_text(c, "text"));
	if (k->started_us)
		first_rank_runs(c, k->started_us);
	return 0;
}

static int apply_ending(struct ctx *c)
{
	struct attempt_rec *a = c->r->att;
	int cls = state_find(STATE_CLASS, data_text(c, "class")),
	    status = state_find(STATE_JOB, data_text(c, "status"));

	if (move_attempt(c, ATT_ENDING) < 0)
		return -1;
	if (cls < 0 || (status != JOB_STOPPING && status != JOB_RECOVERING))
		return err_set(c->e, ERR_INTERNAL, "ending: unknown class or status");
	if (move_job(c, (enum job_status)status) < 0)
		return -1;
	a->state = ATT_ENDING;
	a->cls = (enum reason_class)cls;
	rec_set(&a->reason, data_text(c, "reason"));
	set_object(c, &a->evidence, "evidence");
	phases_close(a, c->at_us);
	phase_open(a, PHASE_STOPPING, c->at_us);
	c->r->status = (enum job_status)status;
	rec_set(&c->r->reason, data_text(c, "reason"));
	return 0;
}

/* The launcher ended and took ranks along: its end replaces the reason of the first rank. */
static int apply_launcher(struct ctx *c)
{
	struct attempt_rec *a = c->r->att;

	if (need_attempt(c) < 0)
		return -1;
	if (a->state != ATT_ENDING || a->outcome != OUT_NONE)
		return err_set(c->e, ERR_INTERNAL, "launcher_ended: too early or too late");
	a->cls = RC_LAUNCH;
	rec_set(&a->reason, data_text(c, "reason"));
	rec_set(&c->r->reason, data_text(c, "reason"));
	return 0;
}

/* Notes the plan, and counts the restart. Old events have no plan. */
static void note_plan(struct ctx *c)
{
	struct attempt_rec *a = c->r->att;
	const cJSON *plan = data_item(c, "plan");
	struct plan_used used = rec_plan_used(c->r);

	set_object(c, &a->evidence, "evidence");
	set_object(c, &a->plan, "plan");
	if (!plan_goes_on(plan_action_find(json_str_or(plan, "action", NULL))))
		return;
	plan_count(&used, plan_budget_find(json_str_or(plan, "budget", NULL)), rec_any_rank_started(a),
	           (int64_t)json_whole(plan, "step", UINT64_MAX), c->at_us);
	rec_plan_use(c->r, &used);
	rec_set(&c->r->skip_steps, json_str_or(plan, "skip_steps", c->r->skip_steps));
}

/* Returns the job's status while the attempt's outputs are collected: recovering when another one follows. */
static int outcome_status(struct ctx *c)
{
	const char *text = data_text(c, "status");
	int status = text ? state_find(STATE_JOB, text) : (int)c->r->status;

	if (status == (int)c->r->status)
		return status;
	return (status == JOB_STOPPING || status == JOB_RECOVERING) && move_job(c, (enum job_status)status) == 0
	           ? status
	           : -1;
}

static int apply_outcome(struct ctx *c)
{
	struct attempt_rec *a = c->r->att;
	int cls = state_find(STATE_CLASS, data_text(c, "class")),
	    outcome = state_find(STATE_OUTCOME, data_text(c, "outcome")), status;

	if (need_attempt(c) < 0)
		return -1;
	if (a->state != ATT_ENDING || a->outcome != OUT_NONE || cls < 0 || outcome <= 0)
		return err_set(c->e, ERR_INTERNAL, "outcome: twice, too early or unknown");
	if (outcome == OUT_SUCCEEDED && !rec_all_ranks_ok(a))
		return err_set(c->e, ERR_INTERNAL, "outcome: succeeded although not every rank exited with 0");
	for (uint32_t i = 0; i < a->n_ranks; i++)
		if (a->ranks[i].state == RANK_RUNNING)
			return err_set(c->e, ERR_INTERNAL, "outcome: while rank %u runs on record", i);
	status = outcome_status(c);
	if (status < 0)
		return err_set(c->e, ERR_INTERNAL, "outcome: unknown status");
	note_plan(c);
	c->r->status = (enum job_status)status;
	c->r->ran_us = ran_until_us(c->r->ran_us, c->r->runs_since_us, c->at_us);
	c->r->runs_since_us = 0;
	a->outcome = (enum outcome)outcome;
	a->cls = (enum reason_class)cls;
	a->exit_code = (int32_t)data_number(c, "exit_code", -1);
	a->signal = (int32_t)data_number(c, "signal", -1);
	rec_set(&a->reason, data_text(c, "reason"));
	rec_set(&c->r->reason, data_text(c, "reason"));
	phases_close(a, c->at_us);
	phase_open(a, PHASE_UPLOADING, c->at_us);
	return 0;
}

static int apply_attempt_ended(struct ctx *c)
{
	struct attempt_rec *a = c->r->att;
	int outcome = state_find(STATE_OUTCOME, data_text(c, "outcome")),
	    stopped = cJSON_IsTrue(data_item(c, "collects")); /* the rest of its end goes on behind */

	if (move_attempt(c, ATT_ENDED) < 0)
		return -1;
	if (a->outcome == OUT_NONE)
		return err_set(c->e, ERR_INTERNAL, "attempt_ended: without an outcome");
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].state < (stopped ? PLACE_ENDED : PLACE_CLEANED))
			return err_set(c->e, ERR_INTERNAL, "attempt_ended: node %u is not %s", i,
			               stopped ? "stopped" : "cleaned");
	if (stopped && rec_collects(c->r->old))
		return err_set(c->e, ERR_INTERNAL, "attempt_ended: the one before it is still being collected");
	a->state = ATT_ENDED;
	a->ended_us = c->at_us;
	c->r->held_us += c->at_us > a->started_us ? c->at_us - a->started_us : 0;
	/* All ranks may have succeeded and the upload of their outputs failed. */
	if (outcome == OUT_FAILED && a->outcome == OUT_SUCCEEDED) {
		int cls = state_find(STATE_CLASS, data_text(c, "class"));

		a->outcome = OUT_FAILED;
		a->cls = cls < 0 ? RC_UNKNOWN : (enum reason_class)cls;
		rec_set(&a->reason, data_text(c, "reason"));
	}
	if (!rec_collects(a))
		phases_close(a, c->at_us);
	note_kept(c);
	return 0;
}

static int apply_checkpoint(struct ctx *c)
{
	if (need_any(c) < 0)
		return -1;
	return ckpt_apply_part(c->r, c->attempt, c->d, c->e);
}

static int apply_checkpoint_changed(struct ctx *c)
{
	return ckpt_apply_change(c->r, c->d, c->e);
}

static int apply_failure_line(struct ctx *c)
{
	if (need_any(c) < 0)
		return -1;
	failure_list_add(&c->a->failures, c->d);
	return 0;
}

/* ---- entry ----------------------------------------------------------------------------------- */

typedef int (*apply_fn)(struct ctx *);
static const apply_fn fns[] = {
#define E(id, name, fn) apply_##fn,
    JOB_EVENTS(E)
#undef E
};

int event_apply(struct job_rec *r, enum event_type t, uint32_t attempt, uint64_t at_us, const cJSON *data,
                struct err *e)
{
	struct ctx c = {r, rec_attempt(r, attempt), t, attempt, at_us, data, e};

	if ((size_t)t >= sizeof(fns) / sizeof(*fns))
		return err_set(e, ERR_INTERNAL, "%s is not an event of a job", event_name(t));
	if (t != EV_SUBMITTED && !r->created_us)
		return err_set(e, ERR_INTERNAL, "%s before the job was submitted", event_name(t));
	return fns[t](&c);
}
