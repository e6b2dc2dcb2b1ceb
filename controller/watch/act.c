/*
 * act: alarms become events `alert`, orders become what the job's keys say.
 *
 * A job has ALERTS_MAX events at most, and rules raise none beyond ALERTS_RULES; later alarms neither log nor
 * pin, and act as their keys say. The pin of a checkpoint stays when the loss has healed: its owner decides.
 * The watches keep WATCH_PINS pins of a job and release the oldest.
 */
#include <inttypes.h>
#include <math.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/ckpt.h"
#include "controller/run/checkpoints.h"
#include "controller/run/recover.h"
#include "controller/state/core_state.h"
#include "controller/state/turn.h"
#include "controller/watch/watch_int.h"

#define ALERTS_MAX   1000
#define ALERTS_RULES 500 /* where rules stop: the rest is the loss watch's */

/* ---- alarms ------------------------------------------------------------------------------------------ */

/* Adds what happened, in words. */
static void alarm_text(const struct watch_alarm *a, struct text *t)
{
	long long onset = (long long)a->onset, step = (long long)a->step;

	switch (a->kind) {
	case WATCH_NAN:
		text_add(t, "the loss is not finite since step %lld", onset);
		if (isfinite(a->reference))
			text_add(t, "; its level before was %.6g", a->reference);
		break;
	case WATCH_SPIKE:
		text_add(t, "the loss is too high since step %lld: %.6g at step %lld, before %.6g", onset, a->loss,
		         step, a->reference);
		break;
	case WATCH_DROP:
		text_add(t, "the loss fell at step %lld: %.6g at step %lld, before %.6g", onset, a->loss, step,
		         a->reference);
		break;
	case WATCH_DIVERGENCE:
		text_add(t, "the loss diverges since step %lld: %.6g at step %lld, at best %.6g", onset, a->loss,
		         step, a->reference);
		break;
	case WATCH_PLATEAU:
		text_add(t, "the loss no longer improves since step %lld: %.6g at step %lld", onset, a->loss, step);
		break;
	case WATCH_SLOW:
		text_add(t, "steps take longer since step %lld: %.4g s at step %lld, before %.4g s", onset, a->loss,
		         step, a->reference);
		break;
	case WATCH_STALL:
		text_add(t, "step %lld took %.4g s; %.4g s are usual", step, a->loss, a->reference);
		break;
	case WATCH_HANG:
		text_add(t, "no step has ended for %.4g s since step %lld; %.4g s are usual", a->loss, step,
		         a->reference);
		break;
	case WATCH_KINDS:
		break;
	}
}

static void add_number(cJSON *o, const char *key, double v)
{
	if (isfinite(v))
		cJSON_AddNumberToObject(o, key, v);
	else
		cJSON_AddNullToObject(o, key);
}

static const struct watch_order *pin_of(const struct watch_out *out, enum watch_kind kind)
{
	for (uint32_t i = 0; i < out->n_orders; i++)
		if (out->orders[i].action == WATCH_PIN && out->orders[i].kind == kind)
			return &out->orders[i];
	return NULL;
}

/* 1: the job has all the alerts that it may have. */
static int is_full(const struct job_watch *w)
{
	return w->job->r.alerts >= ALERTS_MAX;
}

static void post_alert(struct core *c, struct job_watch *w, const struct watch_seen *by,
                       const struct watch_alarm *a, const struct watch_out *out)
{
	const struct watch_conf *conf = &w->job->act->spec->watch.conf;
	const struct watch_order *pin = pin_of(out, a->kind);
	int is_pace = a->kind >= WATCH_SLOW;
	cJSON *d;
	TEXT(text);

	if (is_full(w))
		return;
	alarm_text(a, &text);
	if (pin)
		text_add(&text, "; the checkpoint of step %lld is pinned", (long long)pin->to_step);
	log_warn("event=alert job=%" PRIu64 " kind=%s step=%lld text=\"%s\"", w->job->r.id,
	         watch_kind_name(a->kind), (long long)a->step, text.at);
	d = cJSON_CreateObject();
	json_add_str(d, "kind", watch_kind_name(a->kind));
	cJSON_AddNumberToObject(d, "step", (double)a->step);
	cJSON_AddNumberToObject(d, "onset", (double)a->onset);
	add_number(d, is_pace ? "step_s" : "loss", a->loss);
	add_number(d, is_pace ? "usual_s" : "reference", a->reference);
	if (by->rank != NO_RANK)
		json_add_u64(d, "rank", by->rank);
	json_add_str(d, "node", by->node);
	json_add_str(d, "action", watch_action_name(conf->on[a->kind]));
	if (pin)
		cJSON_AddNumberToObject(d, "pinned_step", (double)pin->to_step);
	json_add_str(d, "text", text.at);
	job_post(c, w->job, EV_ALERT, d);
}

/* ---- orders ------------------------------------------------------------------------------------------ */

static int has_pin(const struct job_watch *w, uint32_t number)
{
	for (uint32_t i = 0; i < w->n_pins; i++)
		if (w->pins[i] == number)
			return 1;
	return 0;
}

static void release_oldest(struct core *c, struct job_watch *w)
{
	const struct ckpt *k = ckpt_find(&w->job->r, w->pins[0]);

	if (k && k->pinned)
		checkpoint_pin(c, w->job, k->number, 0, "the watches pinned newer ones");
	w->n_pins--;
	for (uint32_t i = 0; i < w->n_pins; i++)
		w->pins[i] = w->pins[i + 1];
}

static void pin_number(struct core *c, struct job_watch *w, uint32_t number, const char *why)
{
	const struct ckpt *k = ckpt_find(&w->job->r, number);

	if (!k || k->pinned || has_pin(w, number))
		return;
	if (w->n_pins == WATCH_PINS)
		release_oldest(c, w);
	w->pins[w->n_pins++] = number;
	checkpoint_pin(c, w->job, number, 1, why);
}

static void pin_checkpoint(struct core *c, struct job_watch *w, const struct watch_order *o)
{
	const struct ckpt *k = ckpt_newest(&w->job->r, o->to_step, NULL);

	if (k)
		pin_number(c, w, k->number, o->reason);
}

/* Returns what the job's next attempt does, in the words of plans. */
static enum plan_action plan_of(enum watch_action a)
{
	switch (a) {
	case WATCH_ROLLBACK:
		return PLAN_ROLLBACK;
	case WATCH_RESTART:
		return PLAN_IN_PLACE;
	case WATCH_ALERT:
	case WATCH_PIN:
	case WATCH_STOP:
	case WATCH_ACTIONS:
		break;
	}
	return PLAN_STOP;
}

static void stop_clause(const struct watch_conf *conf, enum watch_kind kind, struct text *out)
{
	if (conf->on[kind] == WATCH_STOP)
		text_add(out, "watch.on_%s is stop", watch_kind_name(kind));
	else
		text_add(out, "watch.max_rollbacks (%" PRId64 ") is used up", conf->max_rollbacks);
}

/* An attempt that ends already, or whose owner has stopped it, stays as it is. */
static void end_attempt(struct core *c, struct job_watch *w, const struct watch_order *o)
{
	const struct watch_conf *conf = &w->job->act->spec->watch.conf;
	TEXT(because);
	struct rollback_ask ask = {.kind = watch_kind_name(o->kind),
	                           .onset = o->onset,
	                           .step = o->step,
	                           .margin = (uint64_t)conf->margin_steps,
	                           .max_rollbacks = (uint32_t)conf->max_rollbacks,
	                           .action = plan_of(o->action),
	                           .cls = o->kind == WATCH_HANG || o->kind == WATCH_STALL ? RC_HANG : RC_NUMERIC,
	                           .sentence = o->reason,
	                           .because = because.at};

	stop_clause(conf, o->kind, &because);
	log_warn("event=watch_order job=%" PRIu64 " kind=%s action=%s text=\"%s\"", w->job->r.id, ask.kind,
	         watch_action_name(o->action), o->reason);
	if (recover_rollback(c, w->job, &ask) == 0)
		return;
	log_info("event=watch_order_late job=%" PRIu64, w->job->r.id);
	if (o->kind < WATCH_SLOW)
		feed_refused(w->feed);
}

/* ---- rules ------------------------------------------------------------------------------------------- */

static void rule_text(const struct watch_raised *r, const struct watch_seen *by, struct text *t)
{
	const struct watch_rule *u = r->rule;
	const char *side = isnan(u->above) ? "below" : "above";
	double limit = isnan(u->above) ? u->below : u->above;

	text_add(t, "rule %s: ", u->name);
	if (u->metric)
		text_add(t, "%s is %s %.6g since step %" PRId64 ": %.6g at step %" PRId64, u->metric, side, limit,
		         r->state->since, r->value, r->state->last);
	else if (u->absent_s > 0)
		text_add(t, "no line matches '%.100s' for %.6g s", u->pattern, u->absent_s);
	else
		text_add(t, "a line of rank %u matches '%.100s'", by->rank, u->pattern);
}

static void post_rule(struct core *c, struct job_watch *w, const struct watch_seen *by,
                      const struct watch_raised *r, const struct ckpt *pin, const char *text)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "kind", "rule");
	json_add_str(d, "rule", r->rule->name);
	if (r->step >= 0)
		cJSON_AddNumberToObject(d, "step", (double)r->step);
	if (r->rule->metric) {
		cJSON_AddNumberToObject(d, "onset", (double)r->state->since);
		add_number(d, "value", r->value);
	}
	if (by->rank != NO_RANK)
		json_add_u64(d, "rank", by->rank);
	json_add_str(d, "node", by->node);
	json_add_str(d, "action", watch_action_name(r->rule->action));
	if (pin)
		cJSON_AddNumberToObject(d, "pinned_step", (double)pin->step);
	json_add_str(d, "text", text);
	job_post(c, w->job, EV_ALERT, d);
}

/* Ends the attempt, within the rule's budget. */
static void act_on_rule(struct core *c, struct job_watch *w, const struct watch_raised *r, int64_t onset,
                        const char *text)
{
	const struct watch_conf *conf = &w->job->act->spec->watch.conf;
	enum reason_class cls = r->rule->action == WATCH_ROLLBACK ? RC_NUMERIC
	                        : r->rule->absent_s > 0           ? RC_HANG
	                                                          : RC_UNKNOWN;
	TEXT(because);
	struct rollback_ask ask = {.kind = r->rule->name,
	                           .onset = onset,
	                           .step = r->step,
	                           .margin = (uint64_t)conf->margin_steps,
	                           .max_rollbacks = (uint32_t)conf->max_rollbacks,
	                           .action = plan_of(r->rule->action),
	                           .cls = cls,
	                           .sentence = text,
	                           .because = because.at};

	text_add(&because, "the action of rule %s is stop", r->rule->name);
	if (rule_may_act(r->rule, r->state) && recover_rollback(c, w->job, &ask) < 0)
		r->state->acts--; /* the attempt ends already */
}

void watch_raise(struct core *c, struct job_watch *w, const struct watch_seen *by,
                 const struct watch_raised *r)
{
	int64_t onset = r->rule->metric ? r->state->since : r->step;
	uint64_t margin = (uint64_t)w->job->act->spec->watch.conf.margin_steps;
	const struct ckpt *pin = NULL;
	int full = w->job->r.alerts >= ALERTS_RULES;
	TEXT(text);

	rule_text(r, by, &text);
	if (r->rule->action >= WATCH_PIN && !full)
		pin =
		    onset > 0 ? recover_return(&w->job->r, onset, margin) : ckpt_newest(&w->job->r, INT64_MAX, NULL);
	if (r->rule->action > WATCH_PIN && r->state->acts >= r->rule->budget)
		text_add(&text, "; its budget (%" PRId64 ") is used up", r->rule->budget);
	if (!full) {
		log_warn("event=alert job=%" PRIu64 " kind=rule rule=%s text=\"%s\"", w->job->r.id, r->rule->name,
		         text.at);
		post_rule(c, w, by, r, pin, text.at);
	}
	if (pin)
		pin_number(c, w, pin->number, text.at);
	act_on_rule(c, w, r, onset, text.at);
}

int watch_report(struct core *c, struct job_watch *w, const struct watch_seen *by,
                 const struct watch_out *out)
{
	int full = is_full(w);

	for (uint32_t i = 0; i < out->n_alarms; i++)
		post_alert(c, w, by, &out->alarms[i], out);
	for (uint32_t i = 0; i < out->n_orders && !full; i++)
		if (out->orders[i].action == WATCH_PIN)
			pin_checkpoint(c, w, &out->orders[i]);
	for (uint32_t i = 0; i < out->n_orders; i++)
		if (out->orders[i].action > WATCH_PIN)
			end_attempt(c, w, &out->orders[i]);
	return out->n_alarms + out->n_orders > 0;
}
