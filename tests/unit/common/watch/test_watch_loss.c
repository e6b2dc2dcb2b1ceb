/* The loss watch finds what does not heal, once each, at any log cadence, and is quiet otherwise. Every curve
 * here is generated from a seed. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/watch/loss.h"
#include "tests/lib/tap.h"

struct curve {
	uint64_t seed;
	double noise, scale, shift; /* loss = scale x (nats + noise) + shift */
	int64_t at, every;          /* onset, 0: none; steps between two points, 0: 1 */
	double height, tau;         /* of a spike; steps to heal, 0: never */
	double slope;               /* for each step from the onset */
	double tail;                /* share of outliers */
};

struct found {
	struct watch_alarm alarms[32];
	struct watch_order orders[32];
	uint32_t n_alarms, n_orders;
};

static double random_unit(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return ((double)(*s >> 11) + 0.5) / 9007199254740992.0;
}

static double random_normal(uint64_t *s)
{
	double u = random_unit(s), v = random_unit(s);
	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static double curve_loss(const struct curve *c, int64_t step, uint64_t *s)
{
	double nats = 3.2 + 7 * pow(((double)step + 20) / 20, -0.35) + c->noise * random_normal(s);
	double after = c->at && step >= c->at ? (double)(step - c->at) : -1;
	if (random_unit(s) < c->tail)
		nats += 12 * c->noise;
	if (after >= 0)
		nats += c->slope * after + c->height * (c->tau > 0 ? exp(-after / c->tau) : 1);
	return c->scale * nats + c->shift;
}

static void add_found(struct found *f, const struct watch_out *o)
{
	for (uint32_t i = 0; i < o->n_alarms && f->n_alarms < 32; i++)
		f->alarms[f->n_alarms++] = o->alarms[i];
	for (uint32_t i = 0; i < o->n_orders && f->n_orders < 32; i++)
		f->orders[f->n_orders++] = o->orders[i];
}

static struct watch_conf rollback_conf(void)
{
	struct watch_conf c = watch_conf_default;
	c.on[WATCH_SPIKE] = c.on[WATCH_NAN] = c.on[WATCH_DIVERGENCE] = WATCH_ROLLBACK;
	return c;
}

static struct found run_curve(struct curve c, const struct watch_conf *conf, int64_t steps)
{
	struct watch_loss *w = watch_loss_new(conf, (struct watch_source){0});
	struct found f = {0};
	struct watch_out o;
	uint64_t s = c.seed;
	c.scale = c.scale > 0 ? c.scale : 1;
	for (int64_t step = 1; step <= steps; step++) {
		double loss = curve_loss(&c, step, &s);
		if (step > 1 && c.every && step % c.every)
			continue;
		watch_loss_feed(w, step, loss, &o);
		add_found(&f, &o);
	}
	watch_loss_destroy(w);
	return f;
}

static uint32_t count_orders(const struct found *f, enum watch_action a)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < f->n_orders; i++)
		n += f->orders[i].action == a;
	return n;
}

/* ---- quiet curves ---------------------------------------------------------------------------------- */

static void test_quiet(void)
{
	static const struct curve quiet[] = {{.noise = 0.01},
	                                     {.noise = 0.04},
	                                     {.noise = 0.2},
	                                     {.noise = 0.5},
	                                     {.noise = 0.1, .tail = 0.005},
	                                     {.noise = 0.1, .tail = 0.02},
	                                     {.noise = 0.04, .scale = 2048},
	                                     {.noise = 0.04, .scale = 0.001},
	                                     {.noise = 0.04, .shift = -4.3},
	                                     {.noise = 0.04, .scale = 100, .shift = -2000}};
	struct watch_conf conf = rollback_conf();
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
		for (int64_t every = 1; every <= 50; every = every == 1 ? 5 : every * 10) {
			struct curve c = quiet[i];
			c.seed = i + 17;
			c.every = every;
			struct found f = run_curve(c, &conf, 6000);
			ok(!f.n_alarms && !f.n_orders, "quiet curve %zu, logged each %" PRId64 " steps: no alarm", i,
			   every);
		}
	}
}

/* ---- spikes ---------------------------------------------------------------------------------------- */

static void test_heals(void)
{
	static const double scales[] = {1, 1.4427, 2048, 0.001};
	struct watch_conf conf = rollback_conf();
	for (size_t i = 0; i < 4; i++) {
		struct curve c = {
		    .seed = 5 + i, .noise = 0.04, .at = 2000, .height = 1.2, .tau = 25, .scale = scales[i]};
		struct found f = run_curve(c, &conf, 4000);
		ok(f.n_alarms == 1 && f.alarms[0].kind == WATCH_SPIKE && f.alarms[0].onset == 2000 &&
		       f.alarms[0].step <= 2003,
		   "spike, scale %g: one alarm within 3 steps of the onset", scales[i]);
		ok(f.n_orders == 1 && f.orders[0].action == WATCH_PIN && f.orders[0].to_step == 1900,
		   "spike that heals, scale %g: the checkpoint 100 steps before is pinned, no rollback", scales[i]);
	}
	for (int64_t every = 5; every <= 20; every *= 2) {
		struct curve c = {.seed = 9, .noise = 0.04, .at = 2000, .height = 2, .tau = 60, .every = every};
		struct found f = run_curve(c, &conf, 4000);
		ok(f.n_alarms == 1 && f.alarms[0].kind == WATCH_SPIKE && f.alarms[0].step <= 2000 + 2 * every,
		   "spike, logged each %" PRId64 " steps: one alarm by the third point", every);
		ok(!count_orders(&f, WATCH_ROLLBACK), "spike that heals, logged each %" PRId64 " steps: no rollback",
		   every);
	}
}

static void test_unhealed(void)
{
	struct watch_conf conf = rollback_conf();
	struct curve stays = {.seed = 3, .noise = 0.04, .at = 2000, .height = 1.5}, rises = stays;
	for (int64_t every = 1; every <= 10; every *= 10) {
		stays.every = rises.every = every;
		struct found f = run_curve(stays, &conf, 2250);
		ok(f.n_alarms == 1 && count_orders(&f, WATCH_ROLLBACK) == 1,
		   "a spike that stays: one alarm, one rollback");
		const struct watch_order *o = &f.orders[f.n_orders - 1];
		ok(o->step == 2200 && o->to_step == 1900 && o->skip_from == 1901 && o->skip_to == 2200,
		   "the rollback comes after 200 steps, to 100 steps before the onset, and skips the stretch");
		rises.height = 0.5;
		rises.slope = 0.05;
		f = run_curve(rises, &conf, 2120);
		ok(count_orders(&f, WATCH_ROLLBACK) == 1 && f.orders[f.n_orders - 1].step <= 2050 + every,
		   "a spike that still rises 50 steps later is rolled back then");
	}
	struct found f = run_curve(stays, &conf, 6000);
	ok(f.n_alarms == 1 && count_orders(&f, WATCH_ROLLBACK) == 3 && count_orders(&f, WATCH_STOP) == 1,
	   "a level that never heals: three rollbacks, then stop, and one alarm");
	ok(f.orders[1].to_step == 1900 && f.orders[2].to_step == 1800 && f.orders[3].to_step == 1600,
	   "each rollback goes twice as far as the one before");
	ok(strstr(f.orders[4].reason, "3 of 3") != NULL, "the stop says that the rollbacks are used up");
	ok(strstr(f.orders[4].reason, "3 of 3 rollbacks") != NULL, "and names what was made");
	conf.on[WATCH_SPIKE] = WATCH_RESTART;
	conf.on[WATCH_DROP] = conf.on[WATCH_NAN] = conf.on[WATCH_DIVERGENCE] = WATCH_RESTART;
	f = run_curve(stays, &conf, 6000);
	ok(count_orders(&f, WATCH_STOP) == 1 &&
	       strstr(f.orders[f.n_orders - 1].reason, "3 of 3 restarts") != NULL,
	   "restarts are called so: %s", f.orders[f.n_orders - 1].reason);
	f = run_curve(stays, &watch_conf_default, 6000);
	ok(f.n_alarms == 1 && f.n_orders == 1 && f.orders[0].action == WATCH_PIN,
	   "by default the watch only pins");
}

static void test_divergence(void)
{
	struct watch_conf conf = rollback_conf();
	struct found f =
	    run_curve((struct curve){.seed = 4, .noise = 0.04, .at = 3000, .slope = 0.0006}, &conf, 4500);
	ok(f.n_alarms == 1 && f.alarms[0].kind == WATCH_DIVERGENCE && llabs(f.alarms[0].onset - 3000) < 200,
	   "a level that rises slowly is a divergence from where it began");
	f = run_curve((struct curve){.seed = 4, .noise = 0.04, .at = 40, .slope = 0.1}, &conf, 99);
	ok(f.n_alarms == 1 && f.alarms[0].kind == WATCH_DIVERGENCE, "divergence before step 100 is found");
}

/* A log of every tenth step shows a slow rise as well; noise with a memory and a bump of the warm-up do not.
 */
static void test_slow_rise(void)
{
	struct watch_conf conf = rollback_conf();
	for (int64_t every = 5; every <= 10; every += 5) {
		struct found f =
		    run_curve((struct curve){.seed = 21, .noise = 0.04, .every = every, .at = 2000, .slope = 0.002},
		              &conf, 4000);
		ok(f.n_alarms && f.alarms[0].kind == WATCH_DIVERGENCE,
		   "a slow rise is found in a log of every %" PRId64 "th step", every);
	}
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct watch_loss *smooth = watch_loss_new(&conf, (struct watch_source){0}),
		                  *bump = watch_loss_new(&conf, (struct watch_source){0});
		uint32_t n_smooth = 0, n_bump = 0;
		double last = 0;
		uint64_t s = seed;
		struct watch_out o;
		for (int64_t step = 1; step <= 3000; step++) {
			double t = (double)step, fall = 3 * pow((t + 10) / 10, -1);
			last = 0.9 * last + 0.1 * (0.3 * random_normal(&s));
			watch_loss_feed(smooth, step, last, &o);
			n_smooth += o.n_alarms;
			watch_loss_feed(bump, step,
			                fall + 0.3 * exp(-(t - 60) * (t - 60) / 900) + 0.02 * random_normal(&s), &o);
			n_bump += o.n_alarms;
		}
		ok(!n_smooth, "seed %" PRIu64 ": no divergence in smoothed noise around zero", seed);
		ok(!n_bump, "seed %" PRIu64 ": no divergence in a bump of the warm-up on the way to zero", seed);
		watch_loss_destroy(smooth);
		watch_loss_destroy(bump);
	}
}

/* ---- not finite ---------------------------------------------------------------------------------------- */

static struct watch_loss *warm_watch(const struct watch_conf *conf, int64_t steps, int64_t every, uint64_t *s)
{
	struct watch_loss *w = watch_loss_new(conf, (struct watch_source){0});
	struct curve c = {.noise = 0.04, .scale = 1};
	struct watch_out o;
	*s = 11;
	for (int64_t i = every; i <= steps; i += every)
		watch_loss_feed(w, i, curve_loss(&c, i, s), &o);
	return w;
}

static void test_nan(void)
{
	struct watch_conf conf = rollback_conf();
	uint64_t s;
	struct watch_out o;
	struct watch_loss *w = warm_watch(&conf, 500, 1, &s);
	watch_loss_feed(w, 501, NAN, &o);
	ok(o.n_alarms == 1 && o.alarms[0].kind == WATCH_NAN && o.alarms[0].onset == 501, "one NaN is an alarm");
	ok(o.n_orders == 2 && o.orders[0].action == WATCH_PIN && o.orders[1].action == WATCH_ROLLBACK &&
	       o.orders[1].to_step == 401,
	   "a NaN pins, and is rolled back at once");
	watch_loss_feed(w, 502, INFINITY, &o);
	ok(!o.n_alarms && !o.n_orders, "the same onset gives no second alarm");
	watch_loss_destroy(w);
	w = watch_loss_new(&conf, (struct watch_source){0});
	watch_loss_feed(w, 1, NAN, &o);
	ok(o.n_alarms == 1 && isnan(o.alarms[0].reference),
	   "a NaN at the first step is an alarm without a reference");
	watch_loss_destroy(w);
	w = warm_watch(&conf, 500, 10, &s);
	watch_loss_advance(w, 549, &o);
	ok(!o.n_alarms, "a program that logs each 10th step has not lost its loss after 49 steps");
	watch_loss_advance(w, 560, &o);
	ok(o.n_alarms == 1 && o.alarms[0].kind == WATCH_NAN && o.alarms[0].onset == 510,
	   "a loss that vanishes while steps go on counts as NaN since it is missing");
	watch_loss_destroy(w);
}

/* ---- going back, and restarts ---------------------------------------------------------------------------
 */

static void test_back(void)
{
	struct watch_conf conf = rollback_conf();
	struct curve c = {.seed = 6, .noise = 0.04, .scale = 1, .at = 1000, .height = 2, .tau = 30};
	struct watch_loss *w = watch_loss_new(&conf, (struct watch_source){0});
	struct found f = {0};
	struct watch_out o;
	uint64_t s = c.seed;
	for (int64_t step = 1; step <= 1010; step++) {
		watch_loss_feed(w, step, curve_loss(&c, step, &s), &o);
		add_found(&f, &o);
	}
	for (int64_t step = 900; step <= 1500; step++) {
		watch_loss_feed(w, step, curve_loss(&c, step, &s), &o);
		add_found(&f, &o);
	}
	ok(f.n_alarms == 1, "a run that goes back and passes the onset again gives no second alarm");
	watch_loss_destroy(w);
}

static int64_t newest_stub(void *arg, int64_t at_most)
{
	const int64_t *every = arg;
	return at_most < *every ? -1 : at_most / *every * *every;
}

static void test_checkpoints(void)
{
	struct watch_conf conf = rollback_conf();
	int64_t every = 250;
	struct watch_loss *w = watch_loss_new(&conf, (struct watch_source){newest_stub, &every});
	struct watch_out o;
	uint64_t s = 1;
	struct curve c = {.noise = 0.04, .scale = 1};
	for (int64_t i = 1; i <= 600; i++)
		watch_loss_feed(w, i, curve_loss(&c, i, &s), &o);
	watch_loss_feed(w, 601, NAN, &o);
	ok(o.orders[1].action == WATCH_ROLLBACK && o.orders[1].to_step == 500,
	   "the newest checkpoint before the margin is chosen");
	watch_loss_rewind(w, 500);
	for (int64_t i = 501; i <= 560; i++)
		watch_loss_feed(w, i, curve_loss(&c, i, &s), &o);
	watch_loss_feed(w, 561, NAN, &o);
	ok(o.n_orders == 2 && o.orders[1].to_step == 250,
	   "the next rollback goes twice as far, to an older checkpoint");
	ok(watch_loss_rollbacks(w) == 2, "rollbacks are counted");
	watch_loss_destroy(w);
	every = 40;
	ok(watch_find_return((struct watch_source){newest_stub, &every}, 1000, 100, 2) == 600,
	   "the third rollback goes back 400 steps");
	ok(watch_find_return((struct watch_source){newest_stub, &every}, 95, 100, 0) == 40,
	   "the oldest checkpoint serves when none is far enough");
	ok(watch_find_return((struct watch_source){newest_stub, &every}, 95, 100, 2) == 40,
	   "also a later rollback");
	ok(watch_find_return((struct watch_source){newest_stub, &every}, 40, 100, 0) == -1,
	   "no rollback takes a checkpoint of the onset itself");
	ok(watch_find_return((struct watch_source){newest_stub, &every}, 80, 0, 0) == 40,
	   "not even with a margin of 0");
}

/* Feeds each point to a watch that was saved and loaded before it, and to one that was not. */
static void test_round_trip(void)
{
	struct watch_conf conf = rollback_conf();
	struct curve c = {.seed = 8, .noise = 0.05, .scale = 1, .tail = 0.01, .at = 300, .height = 1, .tau = 40};
	struct watch_source none = {0};
	struct watch_loss *a = watch_loss_new(&conf, none), *b = watch_loss_new(&conf, none);
	uint64_t s = c.seed;
	size_t same = 0, largest = 0;
	for (int64_t step = 1; step <= 1200; step++) {
		struct watch_out x, y;
		memset(&x, 0, sizeof(x));
		memset(&y, 0, sizeof(y));
		double loss = step >= 700 && step < 703 ? NAN : curve_loss(&c, step, &s);
		cJSON *state = watch_loss_save(b);
		char *text = json_text(state);
		struct err e;
		cJSON_Delete(state);
		state = json_parse(text, strlen(text), &e);
		watch_loss_destroy(b);
		b = watch_loss_load(&conf, none, state, &e);
		cJSON_Delete(state);
		largest = strlen(text) > largest ? strlen(text) : largest;
		free(text);
		if (!b)
			break;
		watch_loss_feed(a, step, loss, &x);
		watch_loss_feed(b, step, loss, &y);
		same += x.n_alarms == y.n_alarms && x.n_orders == y.n_orders;
	}
	ok(same == 1200, "a watch that is saved and loaded at every point continues exactly");
	ok(largest < 16 * 1024, "a saved state has at most 16 KiB (%zu bytes)", largest);
	cJSON *x = watch_loss_save(a), *y = watch_loss_save(b);
	ok(cJSON_Compare(x, y, 1), "both end in the same state");
	cJSON_ReplaceItemInObject(x, "window", cJSON_CreateString("no"));
	struct err e;
	ok(!watch_loss_load(&conf, none, x, &e) && e.code == ERR_INVALID, "an invalid state is refused");
	cJSON_Delete(x);
	cJSON_Delete(y);
	watch_loss_destroy(a);
	watch_loss_destroy(b);
}

/* Feeds points of the same curve; returns what the watch says. */
static struct found feed_more(struct watch_loss *w, const struct curve *c, uint64_t *s, int64_t from,
                              int64_t to)
{
	struct found f = {0};
	struct watch_out o;
	for (int64_t i = from; i <= to; i++) {
		watch_loss_feed(w, i, curve_loss(c, i, s), &o);
		add_found(&f, &o);
	}
	return f;
}

/* A smooth curve that falls far: a healthy run that passes its steps again must not look bad. */
static void test_returns(void)
{
	struct watch_conf conf = rollback_conf();
	struct curve c = {.noise = 0.005, .scale = 1, .shift = -3}, high = c;
	const int64_t returns[] = {-1, 0, 1, 10, 30, 60, 120, 300, 700, 780, 795};
	for (size_t i = 0; i < sizeof(returns) / sizeof(returns[0]); i++) {
		struct watch_loss *w = watch_loss_new(&conf, (struct watch_source){0});
		uint64_t s = 5;
		struct found f = feed_more(w, &c, &s, 1, 800);
		watch_loss_rewind(w, returns[i]);
		int64_t from = returns[i] < 0 ? 1 : returns[i] + 1;
		struct found g = feed_more(w, &c, &s, from, 1200);
		ok(!f.n_alarms && !g.n_alarms && !g.n_orders, "a healthy run that returns to step %d is not blamed",
		   (int)returns[i]);
		high.at = 1201;
		high.height = 3;
		g = feed_more(w, &high, &s, 1201, 1400);
		ok(g.n_alarms == 1 && g.alarms[0].kind == WATCH_SPIKE, "a spike after that is found");
		watch_loss_destroy(w);
	}
	struct watch_loss *w = watch_loss_new(&conf, (struct watch_source){0});
	uint64_t s = 6;
	feed_more(w, &c, &s, 1, 5000);
	watch_loss_rewind(w, 3000);
	high.at = 3001;
	struct found f = feed_more(w, &high, &s, 3001, 3020);
	double before = 0.2 + 7 * pow(3020 / 20.0, -0.35);
	ok(f.n_alarms == 1 && f.alarms[0].kind == WATCH_SPIKE,
	   "a run that returns to a bad step is found at once");
	ok(fabs(f.alarms[0].reference / before - 1) < 0.1, "against the level before that step: %g",
	   f.alarms[0].reference);
	watch_loss_destroy(w);
}

/* A program that begins again by itself, after a known onset. */
static void test_begins_again(void)
{
	struct watch_conf conf = rollback_conf();
	struct curve c = {.noise = 0.005, .scale = 1, .shift = -3}, high = c;
	struct watch_loss *w = watch_loss_new(&conf, (struct watch_source){0});
	uint64_t s = 7;
	feed_more(w, &c, &s, 1, 600);
	high.at = 601;
	high.height = 3;
	struct found f = feed_more(w, &high, &s, 601, 620);
	ok(f.n_alarms == 1 && f.alarms[0].onset == 601, "a spike is found");
	f = feed_more(w, &c, &s, 1, 600);
	ok(!f.n_alarms && !f.n_orders, "a run that begins again is judged as a new one");
	f = feed_more(w, &high, &s, 601, 620);
	ok(!f.n_alarms, "and the onset stays known");
	watch_loss_destroy(w);
}

static void test_plateau(void)
{
	struct watch_loss *w = watch_loss_new(&watch_conf_default, (struct watch_source){0});
	struct curve c = {.noise = 0.04, .scale = 1};
	struct found f = {0};
	struct watch_out o;
	uint64_t s = 2;
	for (int64_t step = 1; step <= 9000; step++) {
		watch_loss_feed(w, step, curve_loss(&c, step < 2000 ? step : 2000, &s), &o);
		add_found(&f, &o);
	}
	ok(f.n_alarms == 1 && f.alarms[0].kind == WATCH_PLATEAU && !f.n_orders,
	   "a level that stays flat is reported once");
	watch_loss_destroy(w);
}

/* In a run's first hundreds of steps the loss falls by half: the middle of 200 points is far above the
 * newest. */
static void test_falling_fast(void)
{
	struct watch_conf conf = watch_conf_default;
	for (int64_t at = 80; at <= 400; at += 80) {
		uint64_t s = (uint64_t)at;
		struct found f = {0};
		struct watch_out o;
		struct watch_loss *w = watch_loss_new(&conf, (struct watch_source){0});
		for (int64_t step = 1; step < at + 50; step++) {
			double loss = 3 / sqrt(1 + 0.02 * (double)step) * (1 + 0.02 * random_normal(&s));
			watch_loss_feed(w, step, step < at ? loss : 1.3 * loss, &o);
			add_found(&f, &o);
		}
		ok(f.n_alarms == 1 && f.alarms[0].kind == WATCH_SPIKE && f.alarms[0].onset == at &&
		       f.alarms[0].step <= at + 3,
		   "a spike at step %" PRId64 " of a loss that falls fast is found in three steps", at);
		watch_loss_destroy(w);
	}
}

int main(void)
{
	test_falling_fast();
	test_quiet();
	test_heals();
	test_unhealed();
	test_divergence();
	test_slow_rise();
	test_nan();
	test_back();
	test_checkpoints();
	test_round_trip();
	test_returns();
	test_begins_again();
	test_plateau();
	return tap_done();
}
