/* Which points the watches of a job judge: one rank, each batch once, the same alarms after a restart at any
 * batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "controller/watch/feed.h"
#include "tests/lib/tap.h"

#define STEPS 600
#define ONSET 400

struct found {
	struct watch_alarm alarms[32];
	struct watch_order orders[32];
	uint32_t n_alarms, n_orders;
};

struct run {
	struct watch_feed *feed;
	struct found found;
	int saves; /* 1: the state is saved and loaded after each batch */
};

static struct spec_watch spec;

static double noise(int64_t i)
{
	uint64_t s = (uint64_t)i * 6364136223846793005u + 1442695040888963407u;

	s ^= s >> 29;
	s *= 0xbf58476d1ce4e5b9u;
	return (double)(s >> 11) / 9007199254740992.0 - 0.5;
}

static double loss_at(int64_t step, double height)
{
	return 3 + 0.02 * noise(step) + (step >= ONSET && step < ONSET + 40 ? height : 0);
}

static void reload(struct run *r)
{
	cJSON *o = feed_save(r->feed), *again;
	char *text = cJSON_PrintUnformatted(o);
	struct err e;

	again = cJSON_Parse(text);
	feed_destroy(r->feed);
	r->feed = feed_load(&spec, (struct watch_source){0}, again, &e);
	if (!r->feed)
		tap_bail("the state was refused: %s", e.text);
	cJSON_Delete(o);
	cJSON_Delete(again);
	free(text);
}

static void add(struct run *r, const struct feed_batch *b, struct feed_point p)
{
	struct watch_out o;

	feed_add(r->feed, b, &p, 1, &o);
	for (uint32_t i = 0; i < o.n_alarms && r->found.n_alarms < 32; i++)
		r->found.alarms[r->found.n_alarms++] = o.alarms[i];
	for (uint32_t i = 0; i < o.n_orders && r->found.n_orders < 32; i++)
		r->found.orders[r->found.n_orders++] = o.orders[i];
}

static void batch_done(struct run *r)
{
	if (r->saves)
		reload(r);
}

static struct run run_new(int saves)
{
	struct run r = {.feed = feed_new(&spec, (struct watch_source){0}), .saves = saves};

	feed_attempt(r.feed, 1, -1);
	return r;
}

/* Batches of five steps; one in three comes twice. */
static struct found run_spike(int saves, uint32_t ranks)
{
	struct run r = run_new(saves);

	for (int64_t step = 1; step <= STEPS; step += 5) {
		struct feed_batch b = {.seq = (uint64_t)step};

		for (int twice = 0; twice < 1 + (step % 3 == 0); twice++) {
			if (feed_is_old(r.feed, &b))
				continue;
			for (int64_t s = step; s < step + 5; s++)
				for (uint32_t k = 0; k < ranks; k++)
					add(&r, &b,
					    (struct feed_point){"loss", k, s, loss_at(s, 1.5) + 0.001 * k,
					                        (uint64_t)s * 1000000});
			batch_done(&r);
		}
	}
	feed_destroy(r.feed);
	return r.found;
}

static int same(const struct found *a, const struct found *b)
{
	int equal = a->n_alarms == b->n_alarms && a->n_orders == b->n_orders;

	for (uint32_t i = 0; equal && i < a->n_alarms; i++)
		equal = a->alarms[i].kind == b->alarms[i].kind && a->alarms[i].onset == b->alarms[i].onset &&
		        a->alarms[i].step == b->alarms[i].step;
	return equal;
}

static void test_spike(void)
{
	struct found plain = run_spike(0, 1), saved = run_spike(1, 1), many = run_spike(0, 4);

	is_int(plain.n_alarms, 1, "a spike has one alarm");
	is_int(plain.alarms[0].onset, ONSET, "with its first step");
	is_int(plain.n_orders, 1, "and one order: the pin");
	ok(same(&plain, &saved), "a restart after each batch gives the same alarms");
	ok(same(&plain, &many), "four ranks that report the same steps count once");
}

static void test_nan_on_any_rank(void)
{
	struct run r = run_new(0);

	for (int64_t s = 1; s <= 300; s++)
		for (uint32_t k = 0; k < 4; k++) {
			struct feed_batch b = {.place = k, .seq = (uint64_t)s};
			double v = k == 3 && s >= 200 ? (double)NAN : loss_at(s, 0);

			add(&r, &b, (struct feed_point){"loss", k, s, v, (uint64_t)s * 1000});
		}
	is_int(r.found.n_alarms, 1, "NaN on rank 3 has one alarm, although rank 0 is watched");
	is_int(r.found.alarms[0].kind, WATCH_NAN, "of its kind");
	is_int(r.found.alarms[0].onset, 200, "with its step");
	feed_destroy(r.feed);
}

static void test_election(void)
{
	struct run r = run_new(0);

	/* Rank 0 reports no loss; rank 7 of the last stage does. Later rank 5 does, too. */
	for (int64_t s = 1; s <= STEPS; s++) {
		struct feed_batch first = {.place = 0, .seq = (uint64_t)s}, last = {.place = 1, .seq = (uint64_t)s};

		add(&r, &first, (struct feed_point){"step", 0, s, (double)s, (uint64_t)s * 1000000});
		add(&r, &last, (struct feed_point){"loss", 7, s, loss_at(s, 1.5), (uint64_t)s * 1000000});
		if (s > 100)
			add(&r, &last, (struct feed_point){"loss", 5, s, loss_at(s, 1.5), (uint64_t)s * 1000000});
	}
	is_int(r.found.n_alarms, 1, "the rank that reports a loss is watched, whichever it is");
	is_int(r.found.alarms[0].onset, ONSET, "and a lower rank takes over without an alarm of its own");
	feed_destroy(r.feed);
}

static void test_silent_rank(void)
{
	struct run r = run_new(0);

	for (int64_t s = 1; s <= 900; s++) {
		struct feed_batch a = {.place = 0, .seq = (uint64_t)s}, b = {.place = 1, .seq = (uint64_t)s};
		double v = 3 + 0.02 * noise(s) + (s >= 700 && s < 740 ? 1.5 : 0);

		if (s <= 300)
			add(&r, &a, (struct feed_point){"loss", 0, s, v, (uint64_t)s * 1000000});
		add(&r, &b, (struct feed_point){"loss", 4, s, v, (uint64_t)s * 1000000});
	}
	ok(r.found.n_alarms == 1 && r.found.alarms[0].kind == WATCH_SPIKE && r.found.alarms[0].onset == 700,
	   "a rank that falls silent is replaced by one that goes on");
	feed_destroy(r.feed);
}

static void test_no_steps(void)
{
	struct run r = run_new(1);

	for (int64_t s = 1; s <= STEPS; s++) {
		struct feed_batch b = {.seq = (uint64_t)s};

		add(&r, &b, (struct feed_point){"loss", 0, -1, loss_at(s, 1.5), (uint64_t)s * 1000000});
		batch_done(&r);
	}
	is_int(r.found.n_alarms, 1, "a loss without steps counts its points");
	is_int(r.found.alarms[0].onset, ONSET, "as steps");
	feed_destroy(r.feed);
}

/* An attempt returns to a checkpoint before the spike and passes it again. */
static void test_passes_again(void)
{
	struct run r = run_new(1);
	uint64_t seq = 0;

	for (uint32_t attempt = 1; attempt <= 2; attempt++) {
		int64_t from = attempt == 1 ? 1 : 351;

		feed_attempt(r.feed, attempt, from - 1);
		seq = 0;
		for (int64_t s = from; s <= STEPS; s++) {
			struct feed_batch b = {.seq = ++seq};

			add(&r, &b, (struct feed_point){"loss", 0, s, loss_at(s, 1.5), (uint64_t)s * 1000000});
			batch_done(&r);
		}
	}
	is_int(r.found.n_alarms, 1, "a spike that another attempt passes again has its one alarm");
	feed_destroy(r.feed);
}

static struct found run_pace(int64_t cadence, double factor, int saves)
{
	struct run r = run_new(saves);
	double at = 1e6;

	for (int64_t s = 1; s <= STEPS; s++) {
		struct feed_batch b = {.seq = (uint64_t)s};

		at += 1e6 * (1 + 0.02 * noise(s)) * (s >= ONSET ? factor : 1);
		if (s % cadence == 0)
			add(&r, &b, (struct feed_point){"loss", 0, s, loss_at(s, 0), (uint64_t)at});
		batch_done(&r);
	}
	feed_destroy(r.feed);
	return r.found;
}

static void test_pace(void)
{
	struct found steady = run_pace(1, 1, 0), slow = run_pace(1, 1.1, 0), saved = run_pace(1, 1.1, 1),
	             tenth = run_pace(10, 1.2, 0);

	is_int(steady.n_alarms, 0, "steady steps have no alarm");
	is_int(slow.n_alarms, 1, "a drop of 10 % in the throughput has one");
	is_int(slow.alarms[0].kind, WATCH_SLOW, "of its kind");
	ok(slow.alarms[0].step <= ONSET + 20, "within 20 steps (at %lld)", (long long)slow.alarms[0].step);
	ok(same(&slow, &saved), "a restart after each step gives the same alarm");
	is_int(tenth.n_alarms, 1, "a log of each 10th step shows it, too");
}

static void test_bad_states(void)
{
	static const char *const bad[] = {"{}", "[]", "{\"version\": 1}", "{\"version\": 2}",
	                                  "{\"version\": 1, \"loss\": 3, \"pace\": {}}"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cJSON *o = cJSON_Parse(bad[i]);
		struct err e;

		ok(!feed_load(&spec, (struct watch_source){0}, o, &e), "refused as a state: %s", bad[i]);
		cJSON_Delete(o);
	}
}

int main(void)
{
	spec_watch_init(&spec);
	test_spike();
	test_nan_on_any_rank();
	test_election();
	test_silent_rank();
	test_no_steps();
	test_passes_again();
	test_pace();
	test_bad_states();
	return tap_done();
}
