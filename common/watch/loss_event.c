/* loss_event: alarms, and the orders that follow when an event does not heal. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/base/text.h"
#include "common/watch/loss_int.h"

/* ---- marks: one alarm for each onset, also when the run passes it again -------------------------------- */

static const struct watch_mark *find_mark(const struct watch_loss *w, int64_t kind, int64_t onset)
{
	int64_t n = w->n_marks < WATCH_MARKS ? w->n_marks : WATCH_MARKS, near = WATCH_HELD * watch_cadence(w);
	for (int64_t i = 0; i < n; i++) {
		const struct watch_mark *m = &w->marks[i];
		if (m->kind == kind && onset >= m->onset - near && onset <= m->end)
			return m;
	}
	return NULL;
}

static void order_pin(struct watch_loss *w, struct watch_out *out, int64_t step);

void watch_add_alarm(struct watch_loss *w, struct watch_out *out, int64_t step, double loss)
{
	struct watch_event *v = &w->event;
	v->state = WATCH_ALARMED;
	v->alarm_step = step;
	v->alarm_level = watch_recent_median(w);
	if (v->last_bad < step)
		v->last_bad = step;
	if (find_mark(w, v->kind, v->onset)) {
		v->reopened = 1;
		return;
	}
	w->marks[w->n_marks++ % WATCH_MARKS] = (struct watch_mark){v->kind, v->onset, step};
	if (out->n_alarms < WATCH_OUT_MAX)
		out->alarms[out->n_alarms++] =
		    (struct watch_alarm){(enum watch_kind)v->kind, step, v->onset, loss, v->reference};
	if (w->conf.on[v->kind] >= WATCH_PIN)
		order_pin(w, out, step);
}

void watch_close_event(struct watch_loss *w)
{
	struct watch_event *v = &w->event;
	int64_t n = w->n_marks < WATCH_MARKS ? w->n_marks : WATCH_MARKS;
	for (int64_t i = 0; i < n && v->state == WATCH_ALARMED; i++) {
		struct watch_mark *m = &w->marks[i];
		if (m->kind == v->kind && v->onset >= m->onset && v->onset <= m->end && v->last_bad > m->end)
			m->end = v->last_bad;
	}
	*v = (struct watch_event){.state = WATCH_QUIET};
}

/* ---- orders -----------------------------------------------------------------------------------------------
 */

static struct watch_order *add_order(struct watch_loss *w, struct watch_out *out, int64_t step,
                                     enum watch_action a)
{
	assert(out->n_orders < WATCH_OUT_MAX); /* a point ends one event at most: a pin and one order */
	struct watch_order *o = &out->orders[out->n_orders++];
	*o = (struct watch_order){.kind = (enum watch_kind)w->event.kind,
	                          .action = a,
	                          .step = step,
	                          .onset = w->event.onset,
	                          .to_step = WATCH_NO_STEP,
	                          .skip_from = WATCH_NO_STEP,
	                          .skip_to = WATCH_NO_STEP};
	return o;
}

int64_t watch_find_return(struct watch_source source, int64_t onset, int64_t margin, int64_t rollbacks)
{
	for (int64_t i = 0; i < rollbacks && margin < INT64_MAX / 4; i++)
		margin *= 2;
	if (margin < 1)
		margin = 1;
	int64_t wanted = onset >= margin ? onset - margin : -1, step = -1;
	if (!source.newest)
		return wanted > 0 ? wanted : 0;
	if (wanted >= 0)
		step = source.newest(source.arg, wanted);
	if (step >= 0)
		return step;
	for (int64_t older = onset; older > 0 && (older = source.newest(source.arg, older - 1)) >= 0;)
		step = older;
	return step;
}

/* A pin saves what the rollback after it would take. */
static int64_t find_checkpoint(const struct watch_loss *w)
{
	int64_t rollbacks = w->conf.on[w->event.kind] == WATCH_ROLLBACK ? w->rollbacks : 0;
	return watch_find_return(w->source, w->event.onset, w->conf.margin_steps, rollbacks);
}

static const char *loss_or_level(const struct watch_loss *w)
{
	return w->event.kind == WATCH_DIVERGENCE ? "level of the loss" : "loss";
}

static void order_pin(struct watch_loss *w, struct watch_out *out, int64_t step)
{
	int64_t to = find_checkpoint(w);
	if (to < 0)
		return;
	struct watch_order *o = add_order(w, out, step, WATCH_PIN);
	struct text t = text_on(o->reason, sizeof(o->reason));
	o->to_step = to;
	text_add(&t, "%s at step %lld", watch_kind_name((enum watch_kind)w->event.kind),
	         (long long)w->event.onset);
}

/* What the job's actions count towards watch.max_rollbacks. */
static const char *counted_name(const struct watch_loss *w)
{
	int rollbacks = 0, restarts = 0;
	for (int kind = 0; kind < WATCH_KINDS; kind++) {
		rollbacks |= w->conf.on[kind] == WATCH_ROLLBACK;
		restarts |= w->conf.on[kind] == WATCH_RESTART;
	}
	return !restarts ? "rollbacks" : rollbacks ? "rollbacks and restarts" : "restarts";
}

static void order_stop(struct watch_loss *w, struct watch_out *out, int64_t step, const char *why)
{
	struct watch_order *o = add_order(w, out, step, WATCH_STOP);
	struct text t = text_on(o->reason, sizeof(o->reason));
	text_add(&t, "the %s %s since step %lld", loss_or_level(w), why, (long long)w->event.onset);
	if (w->rollbacks)
		text_add(&t, ", after %lld of %lld %s", (long long)w->rollbacks, (long long)w->conf.max_rollbacks,
		         counted_name(w));
	w->stopped = 1;
}

static void order_rollback(struct watch_loss *w, struct watch_out *out, int64_t step, const char *why)
{
	int64_t to = find_checkpoint(w);
	struct watch_order *o = add_order(w, out, step, WATCH_ROLLBACK);
	struct text t = text_on(o->reason, sizeof(o->reason));
	o->to_step = to < 0 ? 0 : to;
	o->skip_from = to + 1;
	o->skip_to = step;
	w->rollbacks++;
	text_add(&t, "the %s %s since step %lld; rollback %lld of %lld", loss_or_level(w), why,
	         (long long)w->event.onset, (long long)w->rollbacks, (long long)w->conf.max_rollbacks);
	if (to < 0)
		text_add(&t, "; no checkpoint is older, so the run starts again");
}

void watch_order_now(struct watch_loss *w, struct watch_out *out, int64_t step, const char *why)
{
	enum watch_action a = w->conf.on[w->event.kind];
	if (a <= WATCH_PIN || w->stopped)
		return;
	w->event.acted_step = step;
	if (a == WATCH_STOP || w->rollbacks >= w->conf.max_rollbacks) {
		order_stop(w, out, step, why);
	} else if (a == WATCH_ROLLBACK) {
		order_rollback(w, out, step, why);
	} else {
		struct watch_order *o = add_order(w, out, step, WATCH_RESTART);
		struct text t = text_on(o->reason, sizeof(o->reason));
		w->rollbacks++;
		text_add(&t, "the %s %s since step %lld", loss_or_level(w), why, (long long)w->event.onset);
	}
}

/* ---- judgement
 * ---------------------------------------------------------------------------------------------- */

/* Does the event still rise? A spike that heals peaks early; one that does not is highest at its end. */
int watch_is_rising(const struct watch_loss *w)
{
	const struct watch_blocks *b = &w->rise;
	const struct watch_event *v = &w->event;
	if (v->kind == WATCH_DIVERGENCE)
		return watch_recent_median(w) > v->alarm_level + v->high / 4;
	if (b->n < 4)
		return 0;
	int64_t third = b->n / 3;
	double first = watch_blocks_mean(b, 0, third, NULL),
	       middle = watch_blocks_mean(b, third, b->n - third, NULL);
	double last = watch_blocks_mean(b, b->n - third, b->n, NULL),
	       top = watch_blocks_mean(b, b->n - 1, b->n, NULL);
	for (int64_t i = 0; i + 1 < b->n; i++) {
		if (watch_blocks_mean(b, i, i + 1, NULL) > top)
			return 0;
	}
	return first < middle && middle < last && last - first > v->high;
}

static int is_healed(const struct watch_loss *w)
{
	const struct watch_event *v = &w->event;
	return (double)v->sign * (watch_recent_median(w) - v->reference) <= v->high;
}

/* Is this the first point at or after `since` + `steps`? */
static int just_passed(const struct watch_loss *w, int64_t step, int64_t since, int64_t steps)
{
	int64_t cadence = watch_cadence(w);
	return step >= since + steps && step < since + steps + cadence;
}

void watch_judge_event(struct watch_loss *w, struct watch_out *out, int64_t step)
{
	struct watch_event *v = &w->event;
	if (v->state != WATCH_ALARMED || v->kind == WATCH_NAN || v->kind == WATCH_PLATEAU)
		return;
	int64_t began = v->kind == WATCH_DIVERGENCE ? v->alarm_step : v->onset;
	if (v->acted_step == WATCH_NO_STEP && just_passed(w, step, began, w->conf.rising_steps) &&
	    watch_is_rising(w)) {
		watch_order_now(w, out, step,
		                v->kind == WATCH_DROP ? "still falls and has been too low"
		                                      : "still rises and has been too high");
		return;
	}
	if (v->acted_step != WATCH_NO_STEP)
		began = v->acted_step;
	if (step - began >= w->conf.patience_steps && !is_healed(w))
		watch_order_now(w, out, step, "has not healed");
}
