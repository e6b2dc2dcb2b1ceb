/*
 * sched: the public entry: jobs in, decisions out.
 *
 * A step takes the lane whose first job is first by the policy's order and places that job, or finds out that
 * it cannot start now. What was found out holds for a look, that is until the time or the input changes: a
 * shape that does not fit is not tried again before something was given back (gen), one that the usable nodes
 * could not hold even when empty not before the set of nodes changed (nodes_gen), a lane that may not start
 * not in this look. So a long queue costs little while it waits.
 */
#include "scheduler/model/model.h"
#include "scheduler/record/recorder.h"

/* Follows S-101. */
struct sched *sched_create(void)
{
	struct sched *s = mem_alloc(1, sizeof *s);

	s->gen = s->nodes_gen = s->input = 1;
	sched_policy_set(s, &(struct sched_policy){.backfill = SCHED_BLOCK});
	return s;
}

int sched_policy_set(struct sched *s, const struct sched_policy *p)
{
	if (s->jobs)
		return -1;
	s->policy = *p;
	if (!p->half_life_s)
		s->policy.half_life_s = 7 * 86400;
	if (p->caution <= 0)
		s->policy.caution = 3;
	if (!p->burst_s)
		s->policy.burst_s = 300;
	return 0;
}

#define LIVE_EFFORT   200000        /* a pass of hearthd has this bound on its work */
#define LIVE_STARVE_S (7 * 86400ul) /* hearthd's setting starve_after */

struct sched_policy sched_policy_live(void)
{
	return (struct sched_policy){.backfill = SCHED_RESERVE,
	                             .fair = 1,
	                             .by_limit = 1,
	                             .effort = LIVE_EFFORT,
	                             .starve_s = LIVE_STARVE_S};
}

void sched_now(struct sched *s, uint64_t now_s)
{
	if (now_s <= s->now_s)
		return;
	s->now_s = now_s;
	record_id(s, "now", now_s);
}

uint64_t sched_clock(const struct sched *s)
{
	return s->now_s;
}

static struct job *find(const struct sched *s, uint64_t id)
{
	struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	return j;
}

static struct job *job_make(struct sched *s, uint64_t id)
{
	struct job *j = mem_alloc(1, sizeof *j);

	j->id = id;
	HASH_ADD(hh, s->jobs, id, sizeof j->id, j);
	return j;
}

/* What it held back may start now. */
static void head_gone(struct sched *s)
{
	s->head = NULL;
	s->era++;
	s->idle = 0;
}

static void unqueue(struct sched *s, struct job *j)
{
	plan_forget(s, j);
	if (s->kept == j)
		s->kept = NULL;
	if (s->head == j)
		head_gone(s);
	reserved_first_forget(s, j);
	if (j->is_waiting) {
		lane_unwait(s, j);
		s->input++;
	}
	s->n_held -= j->is_held;
	j->is_held = 0;
	j->promise_s = 0;
	j->by_limits = 0;
}

static void forget_wishes(struct sched *s, struct job *j)
{
	if (j->lane)
		lane_put(s, j->lane);
	if (j->shape)
		shape_put(s, j->shape);
	free(j->warm);
	depend_clear(s, j);
	j->lane = NULL;
	j->shape = NULL;
	j->warm = NULL;
}

static void copy_wishes(struct sched *s, struct job *j, const struct sched_job *in)
{
	j->priority = in->priority;
	j->order = in->order;
	j->submit_s = in->submit_s ? in->submit_s : s->now_s;
	j->limit_s = in->limit_s;
	j->believed_s = in->believed_s;
	j->max_wait_s = in->max_wait_s;
	j->firm = !!in->firm;
	j->warm = mem_copy(in->warm);
	depend_set(s, j, in);
}

int sched_job_add(struct sched *s, const struct sched_job *in)
{
	struct job *j = find(s, in->id);
	struct shape *sh;
	struct lane *l;

	record_job(s, in);
	if (j && j->n_holds)
		return -1;
	sh = shape_get(s, in);
	l = lane_get(s, sh, in, in->submit_s ? in->submit_s : s->now_s);
	if (!j)
		j = job_make(s, in->id);
	unqueue(s, j);
	forget_wishes(s, j);
	j->shape = sh;
	j->lane = l;
	copy_wishes(s, j, in);
	if (j->n_open) {
		j->is_held = 1;
		s->n_held++;
	} else {
		lane_wait(s, j);
	}
	return 0;
}

/* It neither waits nor holds, and is about to go or to be added anew. */
static void job_empty(struct sched *s, struct job *j)
{
	unqueue(s, j);
	while (j->n_holds)
		model_give_back(s, j, j->n_holds - 1);
	forget_wishes(s, j);
}

static void job_remove(struct sched *s, struct job *j, int well)
{
	job_empty(s, j);
	depend_ended(s, j, well);
	free(j->holds);
	HASH_DELETE(hh, s->jobs, j);
	free(j);
}

void sched_job_remove(struct sched *s, uint64_t id)
{
	struct job *j = find(s, id);

	record_id(s, "remove", id);
	if (j)
		job_remove(s, j, 0);
}

void sched_job_park(struct sched *s, uint64_t id)
{
	struct job *j = find(s, id);

	record_id(s, "park", id);
	if (j && j->waiters)
		job_empty(s, j);
	else if (j)
		job_remove(s, j, 0);
}

void sched_job_finished(struct sched *s, uint64_t id, int well)
{
	struct job *j = find(s, id);

	record_pair(s, "end", id, well != 0);
	if (!j)
		return;
	j->is_done = 1;
	job_remove(s, j, well);
}

void sched_job_release_place(struct sched *s, uint64_t id, uint64_t node)
{
	struct job *j = find(s, id);

	record_pair(s, "release", id, node);
	for (uint32_t i = 0; j && i < j->n_holds;) {
		if (j->holds[i].node->id == node)
			model_give_back(s, j, i);
		else
			i++;
	}
}

void sched_job_holds(struct sched *s, uint64_t id, const struct sched_decision *d, uint64_t memory_bytes,
                     uint64_t disk_bytes, int exclusive)
{
	struct job *j = find(s, id);

	record_holds(s, id, d, memory_bytes, disk_bytes, exclusive);
	if (!j)
		j = job_make(s, id);
	unqueue(s, j);
	s->kept = NULL;
	for (uint32_t i = 0; i < d->n; i++) {
		const struct sched_place *p = &d->places[i];
		struct node *n = model_node(s, p->node);
		struct hold h = {.group = p->group,
		                 .n_gpus = p->n_gpus,
		                 .n_cpus = p->n_cpus,
		                 .gpus = p->gpus,
		                 .cpus = p->cpus,
		                 .memory = memory_bytes,
		                 .disk = disk_bytes,
		                 .exclusive = exclusive};

		h.node = n ? n : model_node_make(s, p->node);
		model_take(s, j, &h);
	}
	s->gen++;
	s->input++;
}

void sched_job_restore(struct sched *s, const struct sched_job *in, const struct sched_decision *d,
                       uint64_t start_s)
{
	struct sched_job wishes = *in;
	struct job *j;
	uint64_t start = start_s < s->now_s ? start_s : s->now_s, gpus = 0, cpus = 0;
	int added;

	wishes.n_after = 0;
	record_restore(s, in, d, start_s);
	record_quiet(s, 1);
	added = d->n && sched_job_add(s, &wishes) == 0;
	if (added)
		sched_job_holds(s, in->id, d, in->memory_bytes, in->disk_bytes, in->exclusive);
	record_quiet(s, 0);
	if (!added)
		return;
	j = find(s, in->id);
	j->lane->start_sum -= j->start_s - start;
	j->start_s = j->saved_s = start;
	run_ends(s, j);
	for (uint32_t i = 0; i < j->n_holds; i++) {
		gpus += j->holds[i].n_gpus;
		cpus += model_cpus(j, &j->holds[i]);
	}
	account_past(s, j->lane->account, gpus, cpus, start);
}

/* ---- order ----------------------------------------------------------------------------------- */

static const struct bid no_bid;

/* Follows S-243 and S-244. */
int order_due(const struct sched *s, const struct job *j)
{
	return s->policy.starve_s && j->submit_s <= s->now_s && s->now_s - j->submit_s >= s->policy.starve_s;
}

/* Priority; within quota; due; fair share; age. Follows S-201. */
int order_bid_before(const struct sched *s, const struct bid *a, const struct bid *b)
{
	int c;

	if (a->job->priority != b->job->priority)
		return a->job->priority > b->job->priority;
	if (a->borrows != b->borrows)
		return !a->borrows;
	if (a->due != b->due)
		return a->due;
	if (s->policy.fair && !a->due) {
		c = account_before(s, a->lane->account, b->lane->account);
		if (c)
			return c < 0;
	}
	return queue_before(a->job, b->job);
}

struct bid order_bid(const struct sched *s, const struct job *j)
{
	struct bid b = {.lane = j->lane};

	b.job = (struct job *)(uintptr_t)j;
	b.due = order_due(s, j);
	b.borrows = account_full(j->lane->account, j->shape->gpus) == 1;
	return b;
}

int order_before(const struct sched *s, const struct job *a, const struct job *b)
{
	struct bid x = order_bid(s, a), y = order_bid(s, b);

	return order_bid_before(s, &x, &y);
}

/* A new look: expected run times. Follows S-220. */
static void look(struct sched *s)
{
	if (s->look_input == s->input && s->look_now_s == s->now_s)
		return;
	s->look_input = s->input;
	s->look_now_s = s->now_s;
	s->idle = 0;
	s->effort = 0;
	s->bids_era = 0;
	if (s->era_gen != s->gen || s->era_now_s != s->now_s || (s->n_reservations && !s->policy.by_limit)) {
		s->era_gen = s->gen;
		s->era_now_s = s->now_s;
		s->era++;
		s->head = NULL;
	}
	for (uint32_t i = 0; i < s->n_active && lane_learns(s); i++) {
		struct lane *l = s->active[i];

		l->mean = lane_expect(s, l);
	}
}

/* May a place be kept for a job that does not fit? Only one job has one. */
static int may_head(const struct sched *s)
{
	return s->policy.backfill >= SCHED_RESERVE && !s->head;
}

/* Follows S-143. */
static int passes_over(const struct sched *s, const struct bid *b)
{
	const struct lane *l = b->lane;
	const struct shape *sh = l->shape;

	if (l->refused == s->era || sh->hopeless_gen == s->nodes_gen)
		return 1;
	if (lane_is_barred(s, l))
		return 1;
	if (s->policy.backfill == SCHED_BLOCK)
		return 0;
	if (sh->nofit_gen == s->gen || model_too_full(s, sh))
		return !may_head(s);
	return s->head && sh->crowds_era == s->era && believed_end(s, b->job) > s->shadow_s;
}

/* ---- bids: lanes in a heap, the next at the top ------------------------------------------------ */

static void sift_down(struct sched *s, uint32_t at)
{
	struct bid b = s->bids[at];

	for (uint32_t child; (child = 2 * at + 1) < s->n_bids; at = child) {
		if (child + 1 < s->n_bids && order_bid_before(s, &s->bids[child + 1], &s->bids[child]))
			child++;
		if (!order_bid_before(s, &s->bids[child], &b))
			break;
		s->bids[at] = s->bids[child];
	}
	s->bids[at] = b;
}

/* Of all that may be next. What may not start stays so for the era, so none that is left out comes back. */
static void bids_make(struct sched *s)
{
	if (s->cap_bids < s->n_active) {
		s->cap_bids = s->cap_active;
		s->bids = mem_resize(s->bids, s->cap_bids, sizeof *s->bids);
	}
	s->n_bids = 0;
	for (uint32_t i = 0; i < s->n_active; i++) {
		struct bid b = {.lane = s->active[i], .job = s->active[i]->first};

		b.due = order_due(s, b.job);
		if (passes_over(s, &b))
			continue;
		b.borrows = account_full(b.lane->account, b.lane->shape->gpus);
		if (b.borrows == 2) {
			b.lane->refused = s->era;
			continue;
		}
		s->bids[s->n_bids++] = b;
	}
	for (uint32_t i = s->n_bids / 2; i-- > 0;)
		sift_down(s, i);
	s->bids_era = s->era;
}

/* The top is done with: its lane's next, or none, takes its place. */
static void bid_next_of_lane(struct sched *s)
{
	struct bid *b = &s->bids[0];

	if (b->lane->active_at == NONE)
		*b = s->bids[--s->n_bids];
	else
		*b = order_bid(s, b->lane->first);
	if (s->n_bids)
		sift_down(s, 0);
}

/* Shares and quotas may have changed what all others may do. */
static void bid_started(struct sched *s)
{
	if (s->policy.fair || s->quotas)
		s->bids_era = 0;
	else if (s->bids_era == s->era)
		bid_next_of_lane(s);
}

/* The lane that is next; its job NULL: none. */
static struct bid next_bid(struct sched *s)
{
	if (s->bids_era != s->era)
		bids_make(s);
	while (s->n_bids && passes_over(s, &s->bids[0])) {
		s->bids[0] = s->bids[--s->n_bids];
		if (s->n_bids)
			sift_down(s, 0);
	}
	return s->n_bids ? s->bids[0] : no_bid;
}

/* ---- deciding -------------------------------------------------------------------------------- */

static void place_fill(struct sched_place *p, const struct hold *h)
{
	p->node = h->node->id;
	p->group = h->group;
	p->gpus = h->gpus;
	p->n_gpus = h->n_gpus;
	p->cpus = h->cpus;
	p->n_cpus = h->n_cpus;
}

static struct sched_decision *take(struct sched *s, struct job *j, const int32_t *assign)
{
	struct sched_decision *d = mem_alloc(1, sizeof *d);

	d->job = j->id;
	d->places = mem_alloc(j->shape->instances, sizeof *d->places);
	if (s->head == j)
		head_gone(s);
	shadow_took(s, j, assign);
	reserved_first_forget(s, j);
	lane_unwait(s, j);
	for (uint32_t g = 0; g < j->shape->n_groups; g++) {
		for (size_t i = 0; i < s->n_sorted; i++) {
			struct hold h;

			if (assign[i] != (int32_t)g)
				continue;
			fit_choose(s->sorted[i], j->shape, g, &h);
			h.node = s->sorted[i];
			model_take(s, j, &h);
			place_fill(&d->places[d->n++], &h); /* h's vectors go to the decision */
		}
	}
	return d;
}

/* take() with what brought it to its turn. Follows S-303. */
static struct sched_decision *start(struct sched *s, const struct bid *b, const int32_t *assign)
{
	const struct job *head = s->head;
	uint64_t passed = head && head != b->job ? head->id : 0;
	enum sched_turn turn = !head                                    ? SCHED_TURN_FIRST
	                       : !passed                                ? SCHED_TURN_KEPT
	                       : believed_end(s, b->job) <= s->shadow_s ? SCHED_TURN_BEFORE
	                                                                : SCHED_TURN_BESIDE;
	struct sched_decision *d = take(s, b->job, assign);

	d->turn = turn;
	d->passed = passed;
	d->due = b->due;
	d->borrows = b->borrows == 1;
	return d;
}

enum verdict { START, PASS, STOP };

/* It does not fit now. What of those behind it? Follows S-203, S-204 and S-217. */
static enum verdict no_place(struct sched *s, struct bid *b, int32_t *assign)
{
	struct shape *sh = b->lane->shape;
	int kept = s->n_reservations && (s->trying = NULL, fit_gang(s, sh, FIT_NOW, assign));

	if (shape_hopeless(s, sh, assign))
		return PASS;
	if (kept) { /* only a reservation is in its way: that is no reason to hold back others */
		b->lane->refused = s->era;
		lane_bar(s, b->lane);
		return PASS;
	}
	if (s->policy.backfill == SCHED_BLOCK)
		return STOP;
	if (s->n_reservations)
		b->lane->refused = s->era; /* another job of this shape may end in time */
	else
		sh->nofit_gen = s->gen;
	if (may_head(s)) {
		shadow_make(s, b->job);
		reserved_first_remember(s, b->job);
		b->lane->refused = s->era;
	}
	return PASS;
}

/* Follows S-215 and S-216. */
static enum verdict try_bid(struct sched *s, struct bid *b, int32_t *assign)
{
	int fits;

	if (s->policy.backfill == SCHED_BLOCK && b->lane->shape->nofit_gen == s->gen)
		return STOP;
	reservation_try(s, b->job, s->now_s);
	fits = b->lane->shape->nofit_gen != s->gen && !model_too_full(s, b->lane->shape) &&
	       fit_gang(s, b->lane->shape, FIT_NOW, assign);
	if (!fits) {
		enum verdict v = no_place(s, b, assign);

		if (v == STOP && !s->n_reservations)
			b->lane->shape->nofit_gen = s->gen;
		return v;
	}
	if (!s->head || b->job == s->head)
		return START;
	if (!shadow_allows(s, b->job, assign)) {
		b->lane->shape->crowds_era = s->era;
		return PASS;
	}
	return START;
}

#define TRY_NODES 200 /* what a try costs beside its look at the nodes: as much as so many of them */

/* No other may be tried any more (effort). Then the one that the place is kept for, if it is there already:
 * those that are before it now would keep it from its turn for as long as they are many. Follows S-228. */
static int head_fits(struct sched *s, int32_t *assign)
{
	const struct job *j = s->head;

	if (!j)
		return 0;
	reservation_try(s, j, s->now_s);
	return j->is_waiting && j->lane->refused != s->era && j->shape->nofit_gen != s->gen &&
	       !model_too_full(s, j->shape) && account_full(j->lane->account, j->shape->gpus) != 2 &&
	       fit_gang(s, j->shape, FIT_NOW, assign);
}

/* The next of the plan. 1: there is one, or nothing more can start; 0: no places are kept. */
static int step_plan(struct sched *s, int32_t *assign, struct sched_decision **d)
{
	struct job *j;

	if (s->policy.backfill != SCHED_CONSERVATIVE)
		return 0;
	j = plan_next(s, assign);
	s->kept = NULL; /* the view was used for the plan */
	if (plan_none(s))
		return 0;
	s->idle = !j;
	if (j) {
		struct bid b = order_bid(s, j);

		*d = start(s, &b, assign);
		(*d)->turn = SCHED_TURN_PLANNED;
		(*d)->passed = 0;
	}
	return 1;
}

/* Of a kind in vain; 0: that was the last. Follows S-226. */
static int spend(struct sched *s)
{
	if (!s->policy.effort || !(s->head || s->n_reservations))
		return 1;
	s->effort += s->n_sorted + TRY_NODES;
	return s->effort < s->policy.effort;
}

static struct sched_decision *step(struct sched *s)
{
	struct sched_decision *d = NULL;
	enum verdict v = PASS;
	int32_t *assign;

	look(s);
	if (s->idle)
		return NULL;
	assign = mem_alloc(s->n_sorted, sizeof *assign);
	if (step_plan(s, assign, &d)) {
		free(assign);
		return d;
	}
	reserved_first_keep(s, assign);
	while (v == PASS) {
		struct bid b = next_bid(s);

		v = b.job ? try_bid(s, &b, assign) : STOP;
		if (v == START) {
			d = start(s, &b, assign);
			bid_started(s);
		} else if (v == PASS && !spend(s)) {
			v = head_fits(s, assign) ? START : STOP;
			if (v == START) {
				b = order_bid(s, s->head);
				d = start(s, &b, assign);
			}
			s->bids_era = 0;
		}
	}
	s->trying = NULL;
	s->idle = v == STOP;
	free(assign);
	return d;
}

/* Follows S-103. */
struct sched_decision *sched_step(struct sched *s)
{
	struct sched_decision *d = step(s);

	record_step(s, d);
	return d;
}

double sched_expected(const struct sched *s, uint64_t id)
{
	const struct job *j = find(s, id);

	return j && j->lane ? lane_expect(s, j->lane) : 0;
}

uint64_t sched_reserved(const struct sched *s, uint64_t *job)
{
	if (job)
		*job = s->head ? s->head->id : 0;
	return s->head ? s->shadow_s : 0;
}

/* Follows S-265. */
size_t sched_expired(const struct sched *s, uint64_t *ids, size_t max)
{
	size_t n = 0;

	for (const struct job *j = s->jobs; j && n < max; j = j->hh.next)
		if ((j->is_waiting || j->is_held) && j->max_wait_s && s->now_s >= j->submit_s + j->max_wait_s)
			ids[n++] = j->id;
	return n;
}

void sched_decision_free(struct sched_decision *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->n; i++) {
		free(d->places[i].gpus);
		free(d->places[i].cpus);
	}
	free(d->places);
	free(d);
}

void sched_count(const struct sched *s, size_t *waiting, size_t *nodes, size_t *usable)
{
	if (waiting)
		*waiting = s->n_waiting;
	if (nodes)
		*nodes = s->n_sorted;
	if (usable) {
		*usable = 0;
		for (size_t i = 0; i < s->n_sorted; i++)
			*usable += (size_t)s->sorted[i]->usable;
	}
}

size_t sched_waiting(const struct sched *s, uint64_t *ids, size_t max)
{
	uint32_t *taken = mem_alloc(s->n_active, sizeof *taken); /* of each lane */
	size_t n = 0;

	while (n < max) {
		const struct job *best = NULL;
		uint32_t of = 0;

		for (uint32_t k = 0; k < s->n_active; k++) {
			const struct job *j = queue_at(s->active[k], taken[k]);

			if (j && (!best || order_before(s, j, best))) {
				best = j;
				of = k;
			}
		}
		if (!best)
			break;
		taken[of]++;
		ids[n++] = best->id;
	}
	free(taken);
	return n;
}
