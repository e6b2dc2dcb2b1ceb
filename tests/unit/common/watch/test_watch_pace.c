/* The throughput watch finds a lasting drop soon and is quiet on slow single steps, noise and a day's swing.
 * Every series here is generated from a seed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/watch/pace.h"
#include "tests/lib/tap.h"

struct series {
	double sigma, drop; /* share of the step time */
	int64_t at;         /* first slow step */
	double pause;       /* seconds of step 500 */
};

static double random_unit(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return ((double)(*s >> 11) + 0.5) / 9007199254740992.0;
}

static double series_seconds(const struct series *c, int64_t step, uint64_t *s)
{
	double noise = sqrt(-2 * log(random_unit(s))) * cos(2 * M_PI * random_unit(s));
	double v = 1 + c->sigma * noise + 0.01 * sin((double)step / 500);
	if (random_unit(s) < 0.02)
		v *= 1.2 + 2 * random_unit(s);
	if (step == 500 && c->pause > 0)
		v = c->pause;
	return c->at && step >= c->at ? v * (1 + c->drop) : v;
}

static struct watch_out run_series(struct series c, const struct watch_conf *conf, int64_t steps)
{
	struct watch_pace *w = watch_pace_new(conf);
	struct watch_out all = {.n_alarms = 0}, o;
	uint64_t s = 7;
	for (int64_t step = 1; step <= steps; step++) {
		watch_pace_feed(w, step, series_seconds(&c, step, &s), &o);
		for (uint32_t i = 0; i < o.n_alarms && all.n_alarms < WATCH_OUT_MAX; i++)
			all.alarms[all.n_alarms++] = o.alarms[i];
		for (uint32_t i = 0; i < o.n_orders && all.n_orders < WATCH_OUT_MAX; i++)
			all.orders[all.n_orders++] = o.orders[i];
	}
	watch_pace_destroy(w);
	return all;
}

static void test_slow(void)
{
	static const double sigmas[] = {0.003, 0.01, 0.02};
	struct watch_conf conf = watch_conf_default;
	conf.on[WATCH_SLOW] = WATCH_RESTART;
	for (size_t i = 0; i < 3; i++) {
		struct watch_out o = run_series((struct series){.sigma = sigmas[i]}, &conf, 5000);
		ok(!o.n_alarms, "noise of %g, slow single steps, a swing of 2 %%: no alarm in 5000 steps", sigmas[i]);
		o = run_series((struct series){.sigma = sigmas[i], .drop = 0.11, .at = 2000}, &conf, 2300);
		ok(o.n_alarms == 1 && o.alarms[0].kind == WATCH_SLOW && o.alarms[0].step <= 2020,
		   "noise of %g: a drop of 10 %% is found within 20 steps", sigmas[i]);
		ok(o.n_orders == 1 && o.orders[0].action == WATCH_RESTART && o.orders[0].step >= 2063,
		   "noise of %g: the action comes after 64 steps", sigmas[i]);
	}
}

/* Each fourth step stays fast: the alarm may come at one of those. */
static void test_slow_figures(void)
{
	for (int64_t fast = 0; fast < 4; fast++) {
		struct watch_pace *w = watch_pace_new(&watch_conf_default);
		struct watch_out o = {.n_alarms = 0};
		for (int64_t step = 1; step <= 400 && !o.n_alarms; step++)
			watch_pace_feed(w, step, step < 200 ? 1 : step % 4 == fast ? 0.9 : 1.2, &o);
		ok(o.n_alarms == 1 && o.alarms[0].loss > 1.1 && fabs(o.alarms[0].reference - 1) < 1e-9,
		   "a slow alarm has the level, not the newest step: %g", o.n_alarms ? o.alarms[0].loss : 0);
		watch_pace_destroy(w);
	}
}

/* Every 300th step is a pause, each one a little longer. */
static struct watch_out run_pauses(double seconds, double pause)
{
	struct watch_pace *w = watch_pace_new(&watch_conf_default);
	struct watch_out all = {.n_alarms = 0}, o;
	for (int64_t step = 1; step <= 1500; step++) {
		double v = step % 300 ? seconds : pause * (1 + (double)step / 10000);
		watch_pace_feed(w, step, v, &o);
		for (uint32_t i = 0; i < o.n_alarms && all.n_alarms < WATCH_OUT_MAX; i++)
			all.alarms[all.n_alarms++] = o.alarms[i];
	}
	watch_pace_destroy(w);
	return all;
}

static void test_pauses(void)
{
	struct watch_out o = run_series((struct series){.sigma = 0.01, .pause = 51}, &watch_conf_default, 1000);
	ok(!o.n_alarms, "a pause of 51 s in steps of 1 s is legal");
	o = run_series((struct series){.sigma = 0.01, .pause = 65}, &watch_conf_default, 1000);
	ok(o.n_alarms == 1 && o.alarms[0].kind == WATCH_STALL && o.alarms[0].onset == 500,
	   "a step of 65 s is a stall");
	o = run_series((struct series){.sigma = 0.01, .pause = 600}, &watch_conf_default, 1000);
	ok(o.n_alarms == 1 && o.alarms[0].kind == WATCH_HANG, "a step of 600 s is a hang");
	o = run_pauses(12.7, 380);
	ok(!o.n_alarms,
	   "evaluations of 380 s in steps of 12.7 s are legal, the first one and those a little longer");
	o = run_pauses(12.7, 1500);
	ok(o.n_alarms == 1 && o.alarms[0].kind == WATCH_HANG && o.alarms[0].step == 300,
	   "a pause of 1500 s in steps of 12.7 s is a hang, and later ones are not");
}

static void test_silence(void)
{
	struct watch_pace *w = watch_pace_new(&watch_conf_default);
	struct watch_out o;
	watch_pace_silence(w, 1e6, &o);
	ok(!o.n_alarms, "before the first steps silence does not count as a hang");
	for (int64_t i = 1; i <= 100; i++)
		watch_pace_feed(w, i, i == 50 ? 20 : 1, &o);
	ok(fabs(watch_pace_hang_limit(w) - 100) < 1e-9, "the limit is twice the longest pause and 60 s");
	watch_pace_silence(w, 99, &o);
	ok(!o.n_alarms, "no alarm within the limit");
	watch_pace_silence(w, 101, &o);
	ok(o.n_alarms == 1 && o.alarms[0].kind == WATCH_HANG && o.alarms[0].onset == 100,
	   "silence beyond it is a hang");
	watch_pace_silence(w, 200, &o);
	ok(!o.n_alarms, "a hang has one alarm");
	watch_pace_feed(w, 101, 300, &o);
	ok(!o.n_alarms, "the step that ends it has none");
	watch_pace_destroy(w);
}

static void test_round_trip(void)
{
	struct series c = {.sigma = 0.01, .drop = 0.2, .at = 300};
	struct watch_pace *a = watch_pace_new(&watch_conf_default), *b = watch_pace_new(&watch_conf_default);
	uint64_t s = 3;
	size_t same = 0;
	for (int64_t step = 1; step <= 1200; step++) {
		struct watch_out x, y;
		struct err e;
		double v = series_seconds(&c, step, &s);
		cJSON *state = watch_pace_save(b);
		watch_pace_destroy(b);
		b = watch_pace_load(&watch_conf_default, state, &e);
		cJSON_Delete(state);
		if (!b)
			break;
		watch_pace_feed(a, step, v, &x);
		watch_pace_feed(b, step, v, &y);
		same += x.n_alarms == y.n_alarms && x.n_orders == y.n_orders;
	}
	ok(same == 1200, "a watch that is saved and loaded at every step continues exactly");
	struct err e;
	cJSON *bad = cJSON_CreateObject();
	ok(!watch_pace_load(&watch_conf_default, bad, &e) && e.code == ERR_INVALID,
	   "an invalid state is refused");
	cJSON_Delete(bad);
	watch_pace_destroy(a);
	watch_pace_destroy(b);
}

int main(void)
{
	test_slow();
	test_slow_figures();
	test_pauses();
	test_silence();
	test_round_trip();
	return tap_done();
}
