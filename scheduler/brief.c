/*
 * brief: for many waiting jobs at once, in a few words each, why they wait. One walk over lanes and nodes for
 * all of them; sched_explain, which looks at the nodes for each, knows more.
 */
#include "scheduler/model.h"
#include "scheduler/text.h"
#include <inttypes.h>

/* The one whose turn it is: the first of those that could start if there were room. */
static const struct job *whose_turn(const struct sched *s)
{
	const struct job *best = NULL;

	for (uint32_t i = 0; i < s->n_active; i++) {
		const struct lane *l = s->active[i];

		if (l->shape->hopeless_gen == s->nodes_gen || account_full(l->account, l->shape->gpus) == 2)
			continue;
		if (!best || order_before(s, l->first, best))
			best = l->first;
	}
	return best;
}

static void say(const struct sched *s, const struct job *j, const struct job *first, uint64_t gpus_free,
                uint64_t slots_free, struct text *o)
{
	const struct shape *sh = j->shape;
	int lacks = sh->nofit_gen == s->gen || sh->gpus > gpus_free, turn = first && first != j;
	const char *apart =
	    s->n_books ? ", but apart or reserved" : ", but apart"; /* or other nodes than it needs */
	uint64_t slots = 0;

	for (uint32_t i = 0; i < sh->n_groups; i++)
		slots += (uint64_t)sh->groups[i].instances * sh->groups[i].ranks * sh->groups[i].cpus_per_rank;
	if (sh->hopeless_gen == s->nodes_gen || account_full(j->lane->account, sh->gpus) == 2) {
		text_add(o, sh->hopeless_gen == s->nodes_gen ? "waits for nodes" : "its quota or budget is used up");
		return;
	}
	if (turn && !lacks)
		text_add(o, "its turn: behind job %" PRIu64, first->id);
	else if (sh->gpus)
		text_add(o, "needs %" PRIu64 " GPU%s, %" PRIu64 " free%s", sh->gpus, sh->gpus == 1 ? "" : "s",
		         gpus_free, gpus_free >= sh->gpus ? apart : "");
	else
		text_add(o, "needs %" PRIu64 " CPUs, %" PRIu64 " free%s", slots, slots_free,
		         slots_free >= slots ? apart : "");
	if (turn && lacks)
		text_add(o, "; behind job %" PRIu64, first->id);
}

void sched_brief(const struct sched *s, const uint64_t *ids, size_t n, struct sched_brief *out)
{
	const struct job *first = n ? whose_turn(s) : NULL;
	uint64_t gpus = 0, slots = 0;

	for (size_t i = 0; n && i < s->n_sorted; i++) {
		if (!s->sorted[i]->usable)
			continue;
		gpus += s->sorted[i]->free_gpus;
		slots += s->sorted[i]->free_slots;
	}
	for (size_t i = 0; i < n; i++) {
		struct text o = {out[i].text, 0, sizeof out[i].text};
		const struct job *j;

		out[i].text[0] = '\0';
		HASH_FIND(hh, s->jobs, &ids[i], sizeof ids[i], j);
		if (j && j->is_waiting && !j->is_held)
			say(s, j, first, gpus, slots, &o);
	}
}
