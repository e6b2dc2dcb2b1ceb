/*
 * reservation: nodes that are kept for a time: advance reservations and maintenance windows.
 *
 * A job may use such a node when it is believed to be gone before the time begins, or to come after it ends,
 * or when the time is kept for its queue. Only a time limit makes that sure; without one it is a belief, and
 * the controller has to drain in time.
 */
#include "scheduler/model/model.h"
#include "scheduler/record/recorder.h"

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

void sched_reservation_remove(struct sched *s, uint64_t id)
{
	record_id(s, "unbook", id);
	s->n_reservations = 0;
	for (struct node *n = s->nodes; n; n = n->hh.next) {
		node_drop(n, id);
		s->n_reservations += n->n_reservations;
	}
	plan_forget_all(s);
	s->input++;
	s->gen++; /* what it kept from starting may start */
}

void sched_reservation_set(struct sched *s, const struct sched_reservation *b)
{
	record_reservation(s, b);
	record_quiet(s, 1);
	sched_reservation_remove(s, b->id);
	record_quiet(s, 0);
	for (uint32_t i = 0; i < b->n_nodes; i++) {
		struct node *n = model_node(s, b->nodes[i]);

		if (!n)
			continue;
		n->reservations = mem_resize(n->reservations, n->n_reservations + 1, sizeof *n->reservations);
		n->reservations[n->n_reservations++] =
		    (struct reservation){b->id, b->from_s, b->to_s, b->queue ? account_get(s, b->queue, NULL) : NULL};
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

uint64_t sched_believed_end(const struct sched *s, uint64_t id)
{
	const struct job *j;

	HASH_FIND(hh, s->jobs, &id, sizeof id, j);
	return j && j->is_running ? running_end(s, j) : 0;
}

void reservation_node_fini(struct node *n)
{
	free(n->reservations);
}
