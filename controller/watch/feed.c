/*
 * feed: see feed.h.
 */
#include "controller/watch/feed.h"

#include <math.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "common/watch/pace.h"

#define STATE_VERSION 1
#define NO_ONE        UINT32_MAX
#define LEAST_US      100000 /* shorter steps are judged by their mean over this time: lines are read late */

struct watched { /* the rank that is judged */
	uint32_t rank, place;
	uint64_t seq;   /* of the last batch with a point of it */
	int64_t step;   /* -1 none */
	uint64_t at_us; /* of its last point */
};

struct watch_feed {
	struct spec_watch spec;
	struct watch_loss *loss;
	struct watch_pace *pace;
	uint32_t attempt;
	struct watched of_loss, of_steps;
	int64_t named_step;    /* last value of the metric watch.step, where it is not `step`; -1 none */
	int64_t counted;       /* points of a loss without steps */
	int64_t timed_step;    /* of_steps: the last step with a time; -1 none */
	uint64_t timed_us;     /* when it ended, by its node's clock */
	struct watch_out *out; /* during feed_add */
};

static const struct watched nobody = {.rank = NO_ONE, .step = -1};

static struct watch_feed *feed_empty(const struct spec_watch *spec)
{
	struct watch_feed *f = xcalloc(1, sizeof(*f));

	f->spec = *spec;
	f->of_loss = f->of_steps = nobody;
	f->named_step = f->timed_step = -1;
	return f;
}

struct watch_feed *feed_new(const struct spec_watch *spec, struct watch_source source)
{
	struct watch_feed *f = feed_empty(spec);

	f->loss = watch_loss_new(&spec->conf, source);
	f->pace = watch_pace_new(&spec->conf);
	return f;
}

void feed_destroy(struct watch_feed *f)
{
	if (!f)
		return;
	watch_loss_destroy(f->loss);
	watch_pace_destroy(f->pace);
	free(f);
}

int feed_attempt(struct watch_feed *f, uint32_t attempt, int64_t step)
{
	if (f->attempt == attempt)
		return 0;
	if (f->attempt) /* the first one has nothing to return from */
		watch_loss_rewind(f->loss, step);
	f->attempt = attempt;
	f->of_loss = f->of_steps = nobody;
	f->named_step = f->timed_step = -1;
	f->counted = step > 0 ? step : 0;
	f->timed_us = 0;
	return 1;
}

uint32_t feed_attempt_of(const struct watch_feed *f)
{
	return f->attempt;
}

static int is_old_for(const struct watched *w, const struct feed_batch *b)
{
	return w->rank != NO_ONE && w->place == b->place && b->seq <= w->seq;
}

int feed_is_old(const struct watch_feed *f, const struct feed_batch *b)
{
	return is_old_for(&f->of_loss, b) || is_old_for(&f->of_steps, b);
}

static int is_loss(const struct watch_feed *f, const struct feed_point *p)
{
	return strcmp(p->name, f->spec.loss) == 0;
}

static int is_throughput(const struct watch_feed *f, const struct feed_point *p)
{
	return *f->spec.throughput && strcmp(p->name, f->spec.throughput) == 0;
}

/* Returns 1 when the rank is the watched one, or would become it. */
static int may_watch(const struct watched *w, uint32_t rank, int64_t step)
{
	return rank == w->rank || w->rank == NO_ONE || (rank < w->rank && (step < 0 || step > w->step)) ||
	       step > w->step + FEED_AHEAD;
}

int feed_wants(const struct watch_feed *f, const struct feed_point *p)
{
	int64_t step = p->step >= 0 ? p->step : f->named_step;

	if (is_loss(f, p))
		return may_watch(&f->of_loss, p->rank, step);
	return (step != f->of_steps.step || is_throughput(f, p) || strcmp(p->name, f->spec.step) == 0) &&
	       may_watch(&f->of_steps, p->rank, step);
}

/* Returns 1 when the point's rank is the watched one, or becomes it. */
static int elect_rank(struct watched *w, const struct feed_batch *b, const struct feed_point *p, int64_t step)
{
	if (!may_watch(w, p->rank, step))
		return 0;
	if (p->rank != w->rank)
		*w = (struct watched){.rank = p->rank, .step = w->step};
	w->at_us = p->at_us;
	w->place = b->place;
	w->seq = b->seq > w->seq ? b->seq : w->seq;
	return 1;
}

static void join_out(struct watch_feed *f, const struct watch_out *more)
{
	struct watch_out *out = f->out;

	for (uint32_t i = 0; i < more->n_alarms && out->n_alarms < WATCH_OUT_MAX; i++)
		out->alarms[out->n_alarms++] = more->alarms[i];
	for (uint32_t i = 0; i < more->n_orders && out->n_orders < WATCH_OUT_MAX; i++)
		out->orders[out->n_orders++] = more->orders[i];
}

static void judge_loss(struct watch_feed *f, int64_t step, double value)
{
	struct watch_out out;

	watch_loss_feed(f->loss, step, value, &out);
	join_out(f, &out);
}

static void add_loss(struct watch_feed *f, const struct feed_batch *b, const struct feed_point *p,
                     int64_t step)
{
	int mine = elect_rank(&f->of_loss, b, p, step);

	if (!mine && isfinite(p->value))
		return;
	if (step < 0)
		step = mine ? ++f->counted : f->counted;
	if (mine)
		f->of_loss.step = step;
	judge_loss(f, step, p->value);
}

static void judge_pace(struct watch_feed *f, int64_t step, double seconds)
{
	struct watch_out out;

	watch_pace_feed(f->pace, step, seconds, &out);
	join_out(f, &out);
}

/* The time between two steps. A program that logs each 10th step shows their mean, and so do short steps. */
static void time_step(struct watch_feed *f, int64_t step, uint64_t at_us)
{
	if (f->timed_step < 0 || step < f->timed_step) {
		f->timed_step = step;
		f->timed_us = at_us;
	} else if (step > f->timed_step && at_us >= f->timed_us + LEAST_US) {
		double seconds = (double)(at_us - f->timed_us) / 1e6 / (double)(step - f->timed_step);

		f->timed_step = step;
		f->timed_us = at_us;
		judge_pace(f, step, seconds);
	}
}

static void add_step(struct watch_feed *f, const struct feed_batch *b, const struct feed_point *p,
                     int64_t step)
{
	if (step < 0 || !elect_rank(&f->of_steps, b, p, step))
		return;
	if (step != f->of_steps.step && !*f->spec.throughput)
		time_step(f, step, p->at_us);
	f->of_steps.step = step;
	if (is_throughput(f, p) && p->value > 0)
		judge_pace(f, step, 1 / p->value);
}

/* The loss that is logged each 10th step is not missing between: the watch knows the distance. */
static void advance_loss(struct watch_feed *f, const struct feed_point *p, int64_t step)
{
	struct watch_out out;

	if (step < 0 || p->rank != f->of_loss.rank || step <= f->of_loss.step || is_loss(f, p))
		return;
	watch_loss_advance(f->loss, step, &out);
	join_out(f, &out);
}

static int64_t step_of(struct watch_feed *f, const struct feed_point *p)
{
	if (strcmp(p->name, f->spec.step) == 0 && strcmp(f->spec.step, "step") != 0 && isfinite(p->value) &&
	    p->value >= 0 && p->value < 0x1p53)
		f->named_step = (int64_t)p->value;
	return p->step >= 0 ? p->step : f->named_step;
}

void feed_add(struct watch_feed *f, const struct feed_batch *b, const struct feed_point *p, int may_judge,
              struct watch_out *out)
{
	int64_t step = step_of(f, p);

	out->n_alarms = out->n_orders = 0;
	f->out = out;
	if (is_loss(f, p) && (may_judge || !isfinite(p->value)))
		add_loss(f, b, p, step);
	if (may_judge) {
		advance_loss(f, p, step);
		add_step(f, b, p, step);
	}
	f->out = NULL;
}

void feed_refused(struct watch_feed *f)
{
	watch_loss_refused(f->loss);
}

void feed_silence(struct watch_feed *f, double seconds, struct watch_out *out)
{
	watch_pace_silence(f->pace, seconds, out);
}

double feed_hang_limit(const struct watch_feed *f)
{
	return watch_pace_hang_limit(f->pace);
}

int64_t feed_step(const struct watch_feed *f)
{
	return f->of_steps.step > f->of_loss.step ? f->of_steps.step : f->of_loss.step;
}

uint32_t feed_series(const struct watch_feed *f, struct feed_series out[FEED_SERIES])
{
	const struct watched *l = &f->of_loss, *s = &f->of_steps;
	uint32_t n = 0;

	/* In the order of a line: its step comes first. */
	if (s->rank != NO_ONE)
		out[n++] = (struct feed_series){f->spec.step, s->rank, s->place, s->at_us, s->step};
	if (l->rank != NO_ONE)
		out[n++] = (struct feed_series){f->spec.loss, l->rank, l->place, l->at_us, l->step};
	if (s->rank != NO_ONE && *f->spec.throughput)
		out[n++] = (struct feed_series){f->spec.throughput, s->rank, s->place, s->at_us, s->step};
	return n;
}

int feed_is_beyond(const struct feed_series *s, const struct feed_point *p)
{
	return p->at_us > s->after_us || (p->at_us == s->after_us && p->step > s->after_step);
}

/* ---- state --------------------------------------------------------------------------------------------- */

static cJSON *watched_json(const struct watched *w)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "rank", w->rank);
	json_add_u64(o, "place", w->place);
	json_add_u64(o, "seq", w->seq);
	json_add_u64(o, "at_us", w->at_us);
	cJSON_AddNumberToObject(o, "step", (double)w->step);
	return o;
}

static int64_t whole_of(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) && v->valuedouble >= -1 && v->valuedouble < 0x1p53 ? (int64_t)v->valuedouble
	                                                                            : -1;
}

static void watched_read(const cJSON *o, struct watched *w)
{
	*w = (struct watched){.rank = (uint32_t)json_whole(o, "rank", NO_ONE),
	                      .place = (uint32_t)json_whole(o, "place", 0),
	                      .seq = json_whole(o, "seq", 0),
	                      .at_us = json_whole(o, "at_us", 0),
	                      .step = whole_of(o, "step")};
}

cJSON *feed_save(const struct watch_feed *f)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "version", STATE_VERSION);
	json_add_u64(o, "attempt", f->attempt);
	cJSON_AddItemToObject(o, "of_loss", watched_json(&f->of_loss));
	cJSON_AddItemToObject(o, "of_steps", watched_json(&f->of_steps));
	cJSON_AddNumberToObject(o, "named_step", (double)f->named_step);
	cJSON_AddNumberToObject(o, "counted", (double)f->counted);
	cJSON_AddNumberToObject(o, "timed_step", (double)f->timed_step);
	json_add_u64(o, "timed_us", f->timed_us);
	cJSON_AddItemToObject(o, "loss", watch_loss_save(f->loss));
	cJSON_AddItemToObject(o, "pace", watch_pace_save(f->pace));
	return o;
}

struct watch_feed *feed_load(const struct spec_watch *spec, struct watch_source source, const cJSON *state,
                             struct err *e)
{
	struct watch_feed *f = feed_empty(spec);

	if (json_whole(state, "version", 0) != STATE_VERSION) {
		feed_destroy(f);
		err_set(e, ERR_INVALID, "the stored state of the watches has an unknown version");
		return NULL;
	}
	f->attempt = (uint32_t)json_whole(state, "attempt", 0);
	watched_read(cJSON_GetObjectItemCaseSensitive(state, "of_loss"), &f->of_loss);
	watched_read(cJSON_GetObjectItemCaseSensitive(state, "of_steps"), &f->of_steps);
	f->named_step = whole_of(state, "named_step");
	f->counted = whole_of(state, "counted");
	f->timed_step = whole_of(state, "timed_step");
	f->timed_us = json_whole(state, "timed_us", 0);
	f->loss = watch_loss_load(&spec->conf, source, cJSON_GetObjectItemCaseSensitive(state, "loss"), e);
	f->pace =
	    f->loss ? watch_pace_load(&spec->conf, cJSON_GetObjectItemCaseSensitive(state, "pace"), e) : NULL;
	if (!f->pace) {
		feed_destroy(f);
		return NULL;
	}
	return f;
}
