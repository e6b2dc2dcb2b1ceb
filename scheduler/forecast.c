/*
 * forecast: when a waiting job is believed to start, and where.
 *
 * The jobs before it are started in their order as soon as they fit, and end when they are believed to; time
 * goes on from end to end. That is what happens without backfill; with it the job may start earlier. The work
 * is bounded: so many jobs before it, so many looks at all nodes. Beyond that there is only the time at which
 * it would fit if nobody were before it.
 */
#include "scheduler/model.h"

#define MAX_AHEAD 100
#define MAX_LOOKS 400

struct event { /* something ends */
	uint64_t at;
	const struct job *job;
	int32_t *assign; /* of one that was started here; NULL it runs */
};

struct run {
	struct sched *s;
	sched_takes_fn takes;
	void *arg;
	struct event *ends; /* a heap by time */
	size_t n, cap;
	uint64_t now;
	unsigned looks;
};

static int earlier(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->job->id < b->job->id;
}

static void push(struct run *r, struct event e)
{
	size_t at = r->n++;

	if (r->n > r->cap) {
		r->cap = r->cap ? r->cap * 2 : 64;
		r->ends = mem_resize(r->ends, r->cap, sizeof *r->ends);
	}
	for (; at && earlier(&e, &r->ends[(at - 1) / 2]); at = (at - 1) / 2)
		r->ends[at] = r->ends[(at - 1) / 2];
	r->ends[at] = e;
}

static struct event pop(struct run *r)
{
	struct event top = r->ends[0], last = r->ends[--r->n];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < r->n) {
		if (child + 1 < r->n && earlier(&r->ends[child + 1], &r->ends[child]))
			child++;
		if (!earlier(&r->ends[child], &last))
			break;
		r->ends[at] = r->ends[child];
		at = child;
	}
	r->ends[at] = last;
	return top;
}

/* Everything that ends at the next time, jobs and bookings. 0: nothing does. */
static int step(struct run *r)
{
	uint64_t book = book_next_end(r->s, r->now);

	if (!r->n && book == UINT64_MAX)
		return 0;
	if (!r->n || book < r->ends[0].at)
		r->now = book;
	else
		r->now = r->ends[0].at > r->now ? r->ends[0].at : r->now;
	while (r->n && r->ends[0].at <= r->now) {
		struct event e = pop(r);

		if (e.assign)
			view_take(r->s, e.job, e.assign, -1);
		else
			view_release(r->s, e.job);
		free(e.assign);
	}
	return 1;
}

static uint64_t length(const struct run *r, const struct job *j)
{
	double takes = r->takes ? r->takes(j->id, r->arg) : 0;
	uint64_t limit = believed_end(r->s, j) - r->s->now_s;

	return takes > 0 && takes < (double)limit ? (uint64_t)(takes + 0.5) : limit;
}

static uint64_t end_of(const struct run *r, const struct job *j)
{
	uint64_t limit = running_end(r->s, j);
	double takes = r->takes ? r->takes(j->id, r->arg) : 0;

	if (takes <= 0)
		return limit;
	if (j->start_s + (uint64_t)takes > r->s->now_s)
		return j->start_s + (uint64_t)takes < limit || !j->limit_s ? j->start_s + (uint64_t)takes : limit;
	return limit; /* it has outlived what was believed */
}

/* Time goes on until it fits. 1 it does (assign says where), 0 never, -1 no more looks. */
static int wait_for(struct run *r, const struct job *j, int32_t *assign)
{
	for (;;) {
		if (r->looks++ == MAX_LOOKS)
			return -1;
		book_try(r->s, j, r->now);
		if (!view_too_full(r->s, j->shape) && fit_gang(r->s, j->shape, FIT_VIEW, assign))
			return 1;
		if (!step(r))
			return 0;
	}
}

struct turn { /* a lane's next that goes before the job in question */
	const struct job *job;
	const struct lane *lane;
	uint32_t at;
};

static void turn_down(const struct sched *s, struct turn *v, uint32_t n, uint32_t at)
{
	struct turn t = v[at];

	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && order_before(s, v[child + 1].job, v[child].job))
			child++;
		if (!order_before(s, v[child].job, t.job))
			break;
		v[at] = v[child];
	}
	v[at] = t;
}

/* The lane's next from there on that goes before j, which may stand in it. */
static int turn_of(const struct sched *s, const struct job *j, struct turn *t)
{
	t->job = queue_at(t->lane, t->at);
	if (t->job == j)
		t->job = queue_at(t->lane, ++t->at);
	return t->job && order_before(s, t->job, j);
}

/* Those that go before it: by the order of a pass that is made now. How many, or more than max. */
static size_t before(const struct sched *s, const struct job *j, const struct job **out, size_t max)
{
	struct turn *v = mem_alloc(s->n_active, sizeof *v);
	uint32_t lanes = 0;
	size_t n = 0;

	for (uint32_t k = 0; k < s->n_active; k++) {
		const struct lane *l = s->active[k];

		v[lanes] = (struct turn){.lane = l};
		lanes += l->shape->hopeless_gen != s->nodes_gen && account_full(l->account, l->shape->gpus) != 2 &&
		         turn_of(s, j, &v[lanes]);
	}
	for (uint32_t i = lanes / 2; i-- > 0;)
		turn_down(s, v, lanes, i);
	for (; lanes && n < max; n++) {
		out[n] = v[0].job;
		v[0].at++;
		if (!turn_of(s, j, &v[0]))
			v[0] = v[--lanes];
		if (lanes)
			turn_down(s, v, lanes, 0);
	}
	free(v);
	return lanes ? max + 1 : n;
}

static void fill_places(const struct sched *s, const struct job *j, const int32_t *assign,
                        struct sched_forecast *out)
{
	out->places = mem_alloc(j->shape->instances + 1, sizeof *out->places);
	for (uint32_t g = 0; g < j->shape->n_groups; g++)
		for (size_t i = 0; i < s->n_sorted; i++)
			if (assign[i] == (int32_t)g)
				out->places[out->n++] = (struct sched_place){.node = s->sorted[i]->id, .group = g};
}

static void walk(struct run *r, const struct job *j, struct sched_forecast *out)
{
	const struct job *ahead[MAX_AHEAD];
	size_t n = before(r->s, j, ahead, MAX_AHEAD);
	int32_t *assign = mem_alloc(r->s->n_sorted + 1, sizeof *assign);
	int fits = n <= MAX_AHEAD;

	for (size_t i = 0; i < n && i < 5; i++)
		out->first[out->n_first++] = ahead[i]->id;
	for (size_t i = 0; fits > 0 && i < n; i++) {
		fits = wait_for(r, ahead[i], assign);
		if (fits <= 0) {
			fits = fits < 0 ? 0 : 1; /* one that can never start holds nobody back */
			continue;
		}
		view_take(r->s, ahead[i], assign, 1);
		push(r, (struct event){r->now + length(r, ahead[i]), ahead[i], assign});
		assign = mem_alloc(r->s->n_sorted + 1, sizeof *assign);
	}
	if (fits > 0)
		fits = wait_for(r, j, assign);
	if (fits > 0) {
		out->start_s = r->now;
		out->whole = 1;
		fill_places(r->s, j, assign, out);
	}
	free(assign);
}

void sched_forecast(struct sched *s, uint64_t id, sched_takes_fn takes, void *arg, struct sched_forecast *out)
{
	struct run r = {.s = s, .takes = takes, .arg = arg, .now = s->now_s};
	struct shadow was;
	struct job *j;

	*out = (struct sched_forecast){.start_s = UINT64_MAX};
	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	if (!j || !j->is_waiting || account_full(j->lane->account, j->shape->gpus) == 2)
		return; /* when a quota lets it go is not known */
	was = shadow_aside(s);
	view_now(s);
	for (const struct job *x = s->running; x; x = x->next_running)
		push(&r, (struct event){end_of(&r, x), x, NULL});
	walk(&r, j, out);
	while (r.n)
		free(pop(&r).assign);
	free(r.ends);
	book_try(s, NULL, 0);
	shadow_back(s, &was);
	if (!out->whole)
		out->start_s = sched_earliest(s, id);
	plan_forecast(s, j, out);
}
