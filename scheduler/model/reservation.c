/*
 * reservation: nodes that are reserved for a time: advance reservations and maintenance windows.
 *
 * A job may use such a node if it is believed to end before the time begins, or to start after it ends, or if
 * the time is for its queue. Only a time limit makes this sure. Without one it is a belief, and the
 * controller has to drain in time.
 */
#include "scheduler/model/reservation.h"

#include "scheduler/model/model.h"

/* Follows S-235. */
void reservation_try(struct sched *s, const struct job *j, uint64_t at_s)
{
	s->trying = j;
	s->try_at_s = at_s;
	s->try_end_s = j && s->n_reservations ? believed_time(s, j, 1) + at_s
	                                      : 0; /* no mere belief, where there is a limit */
}

/* Follows S-133 and S-134. */
int reservation_allows(const struct sched *s, const struct node *n)
{
	const struct job *j = s->trying;

	for (uint32_t i = 0; j && i < n->n_reservations; i++) {
		const struct reservation *b = &n->reservations[i];

		if (b->to_s <= s->try_at_s || b->from_s >= s->try_end_s)
			continue;
		if (!b->account || !account_below(j->lane->account, b->account))
			return 0;
	}
	return 1;
}

static void node_drop(struct node *n, uint64_t id)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n->n_reservations; i++)
		if (n->reservations[i].id != id)
			n->reservations[kept++] = n->reservations[i];
	n->n_reservations = kept;
}

void reservation_drop(struct sched *s, uint64_t id)
{
	s->n_reservations = 0;
	for (struct node *n = s->nodes; n; n = n->hh.next) {
		node_drop(n, id);
		s->n_reservations += n->n_reservations;
	}
	s->input++;
	s->gen++; /* what it kept from starting may start */
}

void reservation_put(struct sched *s, const struct sched_reservation *r)
{
	for (uint32_t i = 0; i < r->n_nodes; i++) {
		struct node *n = model_node_find(s, r->nodes[i]);

		if (!n)
			continue;
		n->reservations = mem_resize(n->reservations, n->n_reservations + 1, sizeof(*n->reservations));
		n->reservations[n->n_reservations++] =
		    (struct reservation){r->id, r->from_s, r->to_s, r->queue ? account_get(s, r->queue, NULL) : NULL};
		s->n_reservations++;
	}
}

uint64_t reservation_next_end(const struct sched *s, uint64_t after_s)
{
	uint64_t at = UINT64_MAX;

	for (size_t i = 0; s->n_reservations && i < s->n_sorted; i++)
		for (uint32_t k = 0; k < s->sorted[i]->n_reservations; k++)
			if (s->sorted[i]->reservations[k].to_s > after_s && s->sorted[i]->reservations[k].to_s < at)
				at = s->sorted[i]->reservations[k].to_s;
	return at;
}

/* Follows S-227. */
int lane_is_barred(const struct sched *s, const struct lane *l)
{
	return s->n_reservations && s->policy.by_limit && l->barred_gen == s->gen && s->now_s < l->barred_until_s;
}

void lane_bar(struct sched *s, struct lane *l)
{
	l->barred_gen = s->gen;
	l->barred_until_s = reservation_next_end(s, s->now_s);
}
