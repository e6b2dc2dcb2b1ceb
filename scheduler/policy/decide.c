/*
 * decide: the next decision. It takes the first lane by the policy's order and places that lane's first job,
 * or finds out that the job cannot start now.
 */
#include "scheduler/policy/policy.h"

#include <stdlib.h>

#include "scheduler/model/model.h"
#include "scheduler/policy/bids.h"
#include "scheduler/policy/exchange.h"
#include "scheduler/policy/fit.h"
#include "scheduler/policy/order.h"
#include "scheduler/policy/plan.h"
#include "scheduler/policy/reserved_first.h"
#include "scheduler/policy/shadow.h"
#include "scheduler/policy/warmth.h"

static void place_fill(struct sched_place *p, const struct hold *h)
{
	p->node = h->node->id;
	p->group = h->group;
	p->gpus = h->gpus;
	p->n_gpus = h->n_gpus;
	p->cpus = h->cpus;
	p->n_cpus = h->n_cpus;
	p->pool = h->pool;
}

static struct sched_decision *take_place(struct sched *s, struct job *j, const int32_t *assign)
{
	struct sched_decision *d = mem_alloc(1, sizeof(*d));

	d->job = j->id;
	d->places = mem_alloc(j->shape->instances, sizeof(*d->places));
	if (s->head == j)
		shadow_drop_head(s);
	shadow_took(s, j, assign);
	reserved_first_forget(s, j);
	lane_unwait(s, j);
	warmth_settle(j, assign, s->n_sorted);
	for (uint32_t g = 0; g < j->shape->n_groups; g++) {
		for (size_t i = 0; i < s->n_sorted; i++) {
			struct hold h;

			if (assign[i] != (int32_t)g)
				continue;
			fit_choose(s->sorted[i], j, g, &h);
			h.node = s->sorted[i];
			hold_take(s, j, &h);
			place_fill(&d->places[d->n++], &h); /* h's vectors go to the decision */
		}
	}
	return d;
}

/* take() with what brought it to its turn. Follows S-303. */
static struct sched_decision *start_job(struct sched *s, const struct bid *b, const int32_t *assign)
{
	const struct job *head = s->head;
	uint64_t passed = head && head != b->job ? head->id : 0;
	enum sched_turn turn = !head                                    ? SCHED_TURN_FIRST
	                       : !passed                                ? SCHED_TURN_KEPT
	                       : believed_end(s, b->job) <= s->shadow_s ? SCHED_TURN_BEFORE
	                                                                : SCHED_TURN_BESIDE;
	struct sched_decision *d = take_place(s, b->job, assign);

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
	int kept;

	if (sh->pool) { /* it waits for its pool, not for others: S-169 */
		b->lane->refused = s->era;
		return PASS;
	}
	kept = s->n_reservations && (s->trying = NULL, fit_gang(s, sh, FIT_NOW, assign));
	if (fit_hopeless(s, sh, assign))
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

/* Where it would go without warm pools; it does not wait because of them. Follows S-170. */
static int fits_blindly(struct sched *s, const struct job *j, int32_t *assign)
{
	reservation_try(s, j, s->now_s);
	return s->pools && !j->shape->pool && fit_gang(s, j->shape, FIT_NOW | FIT_BLIND, assign) &&
	       shadow_allows(s, j, assign);
}

/* Follows S-215 and S-216. */
static enum verdict try_bid(struct sched *s, struct bid *b, int32_t *assign)
{
	int fits;

	if (s->policy.backfill == SCHED_BLOCK && b->lane->shape->nofit_gen == s->gen)
		return STOP;
	reservation_try(s, b->job, s->now_s);
	fits = b->lane->shape->nofit_gen != s->gen && !nodes_too_full(s, b->lane->shape) &&
	       fit_gang(s, b->lane->shape, FIT_NOW, assign);
	if (!fits) {
		enum verdict v = no_place(s, b, assign);

		if (v == STOP && !s->n_reservations)
			b->lane->shape->nofit_gen = s->gen;
		return v;
	}
	if (!s->head || b->job == s->head)
		return START;
	if (!shadow_allows(s, b->job, assign) && !fits_blindly(s, b->job, assign)) {
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
	       !nodes_too_full(s, j->shape) && account_full(j->lane->account, j->shape->gpus) != 2 &&
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

		*d = start_job(s, &b, assign);
		(*d)->turn = SCHED_TURN_PLANNED;
		(*d)->passed = 0;
	}
	return 1;
}

/* Of a kind in vain; 0: that was the last. Follows S-226. */
static int spend_effort(struct sched *s)
{
	if (!s->policy.effort || !(s->head || s->n_reservations))
		return 1;
	s->effort += s->n_sorted + TRY_NODES;
	return s->effort < s->policy.effort;
}

struct sched_decision *decide_step(struct sched *s)
{
	struct sched_decision *d = NULL;
	enum verdict v = PASS;
	int32_t *assign;

	bids_look(s);
	if (s->idle)
		return NULL;
	assign = mem_alloc(s->n_sorted, sizeof(*assign));
	if (s->exchanges)
		d = exchange_next(s, assign);
	if (d || step_plan(s, assign, &d)) {
		free(assign);
		return d;
	}
	reserved_first_keep(s, assign);
	while (v == PASS) {
		struct bid b = bid_next(s);

		v = b.job ? try_bid(s, &b, assign) : STOP;
		if (v == START) {
			d = start_job(s, &b, assign);
			bid_started(s);
		} else if (v == PASS && !spend_effort(s)) {
			v = head_fits(s, assign) ? START : STOP;
			if (v == START) {
				b = order_bid(s, s->head);
				d = start_job(s, &b, assign);
			}
			s->bids_era = 0;
		}
	}
	s->trying = NULL;
	s->idle = v == STOP;
	free(assign);
	return d;
}

uint64_t sched_reserved(const struct sched *s, uint64_t *job)
{
	if (job)
		*job = s->head ? s->head->id : 0;
	return s->head ? s->shadow_s : 0;
}

double sched_expected(const struct sched *s, uint64_t id)
{
	const struct job *j = model_job_find(s, id);

	return j && j->lane ? lane_expect(s, j->lane) : 0;
}
