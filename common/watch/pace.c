/* pace: see pace.h. */
#include "common/watch/pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/watch/window.h"

#define STATE_VERSION 1
#define RECENT        8
#define MIN_POINTS    32
#define STEADY        1.3 /* a rise of so many slow_sigma counts after slow_steps */
#define LEAST_TIMES   10  /* step times: no pause so short is a hang */
#define LEGAL_MOST    600 /* seconds: no pause so long is legal until one was seen */
#define LONGER        1.5 /* pauses of one kind differ by less */
#define NUMBER_MAX    ((double)((int64_t)1 << 53))

struct watch_pace {
	struct watch_conf conf;
	struct watch_window window;
	double recent[RECENT];
	int64_t n_recent, last_step;
	int64_t since_high,
	    since_low;             /* first step of the present rise over the two heights; WATCH_NO_STEP: none */
	int64_t slow, acted;       /* the rise has its alarm, its order */
	int64_t hanging;           /* the silence has its alarm */
	double reference, longest; /* at the beginning of the rise; seconds of the longest step */
};

struct watch_pace *watch_pace_new(const struct watch_conf *conf)
{
	struct watch_pace *w = xcalloc(1, sizeof(*w));
	w->conf = *conf;
	w->last_step = w->since_high = w->since_low = WATCH_NO_STEP;
	return w;
}

void watch_pace_destroy(struct watch_pace *w)
{
	free(w);
}

static double recent_median(const struct watch_pace *w)
{
	double v[RECENT];
	memcpy(v, w->recent, sizeof(v));
	return watch_median(v, RECENT);
}

static void add_alarm(struct watch_out *out, enum watch_kind kind, int64_t step, int64_t onset,
                      double seconds, double reference)
{
	if (out->n_alarms < WATCH_OUT_MAX)
		out->alarms[out->n_alarms++] = (struct watch_alarm){kind, step, onset, seconds, reference};
}

static void add_order(const struct watch_pace *w, struct watch_out *out, enum watch_kind kind, int64_t step,
                      int64_t onset)
{
	enum watch_action a = w->conf.on[kind];
	if (a == WATCH_ALERT || out->n_orders == WATCH_OUT_MAX)
		return;
	struct watch_order *o = &out->orders[out->n_orders++];
	*o = (struct watch_order){.kind = kind,
	                          .action = a,
	                          .step = step,
	                          .onset = onset,
	                          .to_step = WATCH_NO_STEP,
	                          .skip_from = WATCH_NO_STEP,
	                          .skip_to = WATCH_NO_STEP};
	struct text t = text_on(o->reason, sizeof(o->reason));
	text_add(&t, "%s since step %lld", watch_kind_name(kind), (long long)onset);
}

static void end_rise(struct watch_pace *w)
{
	w->since_high = w->since_low = WATCH_NO_STEP;
	w->slow = w->acted = 0;
}

/* Keeps the first step at which the level is over a height. */
static void follow_height(int64_t *since, int over, int64_t step)
{
	if (!over)
		*since = WATCH_NO_STEP;
	else if (*since == WATCH_NO_STEP)
		*since = step;
}

static int lasts(int64_t since, int64_t step, int64_t steps)
{
	return since != WATCH_NO_STEP && step - since + 1 >= steps;
}

static void check_rise(struct watch_pace *w, struct watch_out *out, int64_t step)
{
	const struct watch_conf *c = &w->conf;
	double level = recent_median(w), sigma = watch_window_sigma(&w->window) / w->reference;
	double low = fmax(c->slow_share, c->slow_sigma * sigma), high = fmax(c->slow_share, STEADY * low);
	/* A steady series needs no second height. */
	if (c->slow_sigma * sigma <= c->slow_share)
		high = low;
	follow_height(&w->since_high, level > w->reference * (1 + high), step);
	follow_height(&w->since_low, level > w->reference * (1 + low), step);
	int64_t since = w->since_low != WATCH_NO_STEP ? w->since_low : step;
	if (!w->slow &&
	    (lasts(w->since_high, step, c->slow_steps) || lasts(w->since_low, step, c->slow_act_steps))) {
		w->slow = 1;
		add_alarm(out, WATCH_SLOW, step, since, level, w->reference);
	}
	if (w->slow && !w->acted && lasts(w->since_low, step, c->slow_act_steps)) {
		w->acted = 1;
		add_order(w, out, WATCH_SLOW, step, since);
	}
	if (w->since_low == WATCH_NO_STEP)
		end_rise(w);
}

/* Returns the seconds up to which a first pause counts as a save or an evaluation: both take many steps. */
static double legal_pause(const struct watch_pace *w)
{
	double most = fmax(LEGAL_MOST, LEAST_TIMES * w->reference);
	return fmin(w->conf.stall_times * w->reference, most);
}

/* A step far longer than usual has ended: a pause of the program, or trouble. */
static void check_pause(struct watch_pace *w, struct watch_out *out, int64_t step, double seconds)
{
	double limit = watch_pace_hang_limit(w), stall = fmax(w->conf.hang_s, legal_pause(w));
	if (w->hanging) {
		w->hanging = 0;
	} else if (seconds > limit) {
		add_alarm(out, WATCH_HANG, step, step, seconds, w->reference);
		add_order(w, out, WATCH_HANG, step, step);
	} else if (seconds > stall && seconds > LONGER * w->longest) {
		add_alarm(out, WATCH_STALL, step, step, seconds, w->reference);
		add_order(w, out, WATCH_STALL, step, step);
	}
}

double watch_pace_hang_limit(const struct watch_pace *w)
{
	double usual = fmax(w->conf.hang_times * w->longest, LEAST_TIMES * w->reference);
	return fmax(usual + w->conf.hang_s, legal_pause(w));
}

void watch_pace_feed(struct watch_pace *w, int64_t step, double seconds, struct watch_out *out)
{
	out->n_alarms = out->n_orders = 0;
	if (!isfinite(seconds) || seconds < 0 || step == w->last_step)
		return;
	if (w->last_step != WATCH_NO_STEP && step < w->last_step)
		end_rise(w);
	w->last_step = step;
	w->recent[w->n_recent++ % RECENT] = seconds;
	int ready = w->window.n >= MIN_POINTS && w->n_recent >= RECENT;
	if (ready) {
		if (w->since_low == WATCH_NO_STEP)
			w->reference = watch_window_median(&w->window);
		check_pause(w, out, step, seconds);
		if (w->reference > 0)
			check_rise(w, out, step);
	}
	/* The first step compiles and loads: later pauses are not measured by it. */
	if (w->n_recent > 1)
		w->longest = fmax(w->longest, seconds);
	if (lasts(w->since_low, step, 3 * WATCH_WINDOW)) {
		end_rise(w); /* the new pace of the run */
		watch_window_clear(&w->window);
	}
	if (w->since_low == WATCH_NO_STEP)
		watch_window_push(&w->window, seconds, WATCH_WINDOW);
}

void watch_pace_silence(struct watch_pace *w, double seconds, struct watch_out *out)
{
	out->n_alarms = out->n_orders = 0;
	if (w->hanging || w->window.n < MIN_POINTS || seconds <= watch_pace_hang_limit(w))
		return;
	w->hanging = 1;
	add_alarm(out, WATCH_HANG, w->last_step, w->last_step, seconds, w->reference);
	add_order(w, out, WATCH_HANG, w->last_step, w->last_step);
}

/* ---- state --------------------------------------------------------------------------------------------- */

static int64_t *whole_fields(struct watch_pace *w, size_t i)
{
	int64_t *all[] = {&w->n_recent, &w->last_step, &w->since_high, &w->since_low,
	                  &w->slow,     &w->acted,     &w->hanging};
	return i < sizeof(all) / sizeof(all[0]) ? all[i] : NULL;
}

cJSON *watch_pace_save(const struct watch_pace *w)
{
	struct watch_pace copy = *w;
	cJSON *o = cJSON_CreateObject(), *whole = cJSON_AddArrayToObject(o, "whole");
	const int64_t *v;
	for (size_t i = 0; (v = whole_fields(&copy, i)); i++)
		cJSON_AddItemToArray(whole,
		                     *v == WATCH_NO_STEP ? cJSON_CreateNull() : cJSON_CreateNumber((double)*v));
	double window[WATCH_WINDOW];
	for (uint32_t i = 0; i < w->window.n; i++)
		window[i] = w->window.ring[(w->window.at + i) % WATCH_WINDOW];
	double reals[] = {w->reference, w->longest};
	cJSON_AddNumberToObject(o, "version", STATE_VERSION);
	cJSON_AddItemToObject(o, "real", cJSON_CreateDoubleArray(reals, 2));
	cJSON_AddItemToObject(o, "recent", cJSON_CreateDoubleArray(w->recent, RECENT));
	cJSON_AddItemToObject(o, "window", cJSON_CreateDoubleArray(window, (int)w->window.n));
	return o;
}

/* Reads a list of at most `most` finite numbers from 0; returns how many, or -1. */
static int read_reals(const cJSON *state, const char *key, double *out, int most)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(state, key), *v;
	int n = 0;
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > most)
		return -1;
	cJSON_ArrayForEach (v, list) {
		if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble) || v->valuedouble < 0)
			return -1;
		out[n++] = v->valuedouble;
	}
	return n;
}

static int read_wholes(struct watch_pace *w, const cJSON *list)
{
	int64_t *out;
	if (!cJSON_IsArray(list))
		return -1;
	for (size_t i = 0; (out = whole_fields(w, i)); i++) {
		const cJSON *v = cJSON_GetArrayItem(list, (int)i);
		if (!cJSON_IsNull(v) && !(cJSON_IsNumber(v) && fabs(v->valuedouble) <= NUMBER_MAX))
			return -1;
		*out = cJSON_IsNull(v) ? WATCH_NO_STEP : (int64_t)v->valuedouble;
	}
	return w->n_recent >= 0 ? 0 : -1;
}

struct watch_pace *watch_pace_load(const struct watch_conf *conf, const cJSON *state, struct err *e)
{
	struct watch_pace *w = watch_pace_new(conf);
	const cJSON *version = cJSON_GetObjectItemCaseSensitive(state, "version");
	double reals[2];
	int n = read_reals(state, "window", w->window.ring, WATCH_WINDOW);
	if (cJSON_IsNumber(version) && version->valueint == STATE_VERSION && n >= 0 &&
	    read_reals(state, "recent", w->recent, RECENT) == RECENT &&
	    read_reals(state, "real", reals, 2) == 2 &&
	    read_wholes(w, cJSON_GetObjectItemCaseSensitive(state, "whole")) == 0) {
		w->window.n = (uint32_t)n;
		watch_window_sort(&w->window);
		w->reference = reals[0];
		w->longest = reals[1];
		return w;
	}
	watch_pace_destroy(w);
	err_set(e, ERR_INVALID, "the stored state of the throughput watch is invalid");
	return NULL;
}
