/*
 * replay: judges what a hearthd that died had stored, but had not judged in the state that it left.
 *
 * The store has the points of each series in order, but not the order between series: they are sorted by
 * time, step and place in a line. Points without a time of their own have the same order as before.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/state/core_state.h"
#include "controller/watch/watch_int.h"
#include "store/read/load.h"

struct replayed {
	struct feed_point p;
	struct feed_batch b;
	uint32_t series;
	size_t index;
};

struct replay {
	struct replayed *v;
	size_t n;
};

static int by_time(const void *pa, const void *pb)
{
	const struct replayed *a = pa, *b = pb;

	if (a->p.at_us != b->p.at_us)
		return a->p.at_us < b->p.at_us ? -1 : 1;
	if (a->p.step != b->p.step)
		return a->p.step < b->p.step ? -1 : 1;
	if (a->series != b->series)
		return a->series < b->series ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static void add_points(struct replay *r, const struct feed_series *s, uint32_t series, uint64_t seq,
                       const struct points *from)
{
	r->v = xrealloc(r->v, (r->n + from->n + 1) * sizeof(*r->v));
	for (size_t i = 0; i < from->n; i++) {
		struct feed_point p = {s->name, s->rank, from->steps[i], from->values[i], from->times_us[i]};

		if (feed_is_beyond(s, &p))
			r->v[r->n++] = (struct replayed){p, {.place = s->place, .seq = seq}, series, i};
	}
}

static void read_one(struct core *c, const struct job_watch *w, const struct feed_series *s, uint32_t series,
                     struct replay *r)
{
	const struct job_rec *j = &w->job->r;
	struct series_key key = {j->id, j->att->number, s->rank, s->name};
	struct points p = {0};
	uint64_t seq;
	struct err e;

	if (store_series_tail(c->store, &key, s->after_us, &p, &seq, &e) < 0)
		log_warn("event=watch_points_lost job=%" PRIu64 " text=\"%s\"", j->id, e.text);
	else
		add_points(r, s, series, seq, &p);
	points_fini(&p);
}

static void read_series(struct core *c, const struct job_watch *w, struct replay *r)
{
	struct feed_series series[FEED_SERIES], one;
	uint32_t n = feed_series(w->feed, series);

	for (uint32_t i = 0; i < n; i++)
		read_one(c, w, &series[i], i, r);
	for (uint32_t k = 0; k < w->n_rules; k++)
		if (watch_rules_series(w, k, &one))
			read_one(c, w, &one, FEED_SERIES + k, r);
}

static int judge_again(struct core *c, struct job_watch *w, const struct replayed *v)
{
	const struct attempt_rec *a = w->job->r.att;
	struct watch_seen by = {v->p.rank, NULL};
	struct watch_out out;

	if (v->p.rank < a->n_ranks)
		by.node = a->places[a->ranks[v->p.rank].place].node;
	if (v->series >= FEED_SERIES)
		return watch_rules_judge(c, w, UINT32_C(1) << (v->series - FEED_SERIES), &by, &v->p);
	feed_add(w->feed, &v->b, &v->p, 1, &out);
	return watch_report(c, w, &by, &out);
}

int watch_replay(struct core *c, struct job_watch *w)
{
	struct replay r = {NULL, 0};
	int found = 0;

	if (c->store)
		read_series(c, w, &r);
	if (r.n)
		qsort(r.v, r.n, sizeof(*r.v), by_time);
	for (size_t i = 0; i < r.n && w->job->act; i++) {
		found |= judge_again(c, w, &r.v[i]);
	}
	log_debug("event=watch_replayed job=%" PRIu64 " points=%zu", w->job->r.id, r.n);
	free(r.v);
	return found;
}
