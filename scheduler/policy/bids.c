/*
 * bids: the lanes that may be next, in a heap with the first at the top.
 *
 * What was found out holds for a look, which lasts until the time or the input changes. A shape that does not
 * fit is tried again only after something was given back (gen). A shape that the usable nodes could not hold
 * even when empty is tried again only after the set of nodes changed (nodes_gen). A lane that may not start
 * is not tried again in this look. A long queue therefore costs little while it waits.
 */
#include "scheduler/policy/bids.h"

#include "scheduler/model/model.h"
#include "scheduler/policy/order.h"

static const struct bid no_bid;

/* A new look: expected run times. Follows S-220. */
void bids_look(struct sched *s)
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
int may_head(const struct sched *s)
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
	if (sh->nofit_gen == s->gen || nodes_too_full(s, sh))
		return !may_head(s);
	return s->head && sh->crowds_era == s->era && believed_end(s, b->job) > s->shadow_s;
}

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
		s->bids = mem_resize(s->bids, s->cap_bids, sizeof(*s->bids));
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
void bid_started(struct sched *s)
{
	if (s->policy.fair || s->quotas)
		s->bids_era = 0;
	else if (s->bids_era == s->era)
		bid_next_of_lane(s);
}

/* The lane that is next; its job NULL: none. */
struct bid bid_next(struct sched *s)
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
