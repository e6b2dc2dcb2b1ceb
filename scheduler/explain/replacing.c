/*
 * replacing: see replacing.h.
 */
#include "scheduler/explain/replacing.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/text.h"
#include "scheduler/explain/obstacle.h"
#include "scheduler/model/model.h"
#include "scheduler/policy/fit.h"

#define NAMED 3

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static uint32_t lacks_in_all(const struct job *j)
{
	uint32_t n = 0;

	for (uint32_t g = 0; g < j->shape->n_groups; g++)
		n += exchange_lacks(j, g);
	return n;
}

/* " to replace a, b and 2 more" */
static void say_lost(const struct sched *s, const struct exchange *x, struct text *o)
{
	uint32_t named = 0, more = 0;

	for (uint32_t i = 0; i < x->n_lost; i++) {
		const struct node *n = model_node_find(s, x->lost[i]);

		if (!n || strcmp(n->name, "?") == 0 || named == NAMED)
			more++;
		else
			text_add(o, "%s%s", named++ ? ", " : " to replace ", n->name);
	}
	if (more && named)
		text_add(o, " and %" PRIu32 " more", more);
}

/* A kept node that takes no jobs now; NULL none. */
static const struct node *kept_and_down(const struct job *j)
{
	for (uint32_t i = 0; i < j->n_holds; i++)
		if (!node_takes_exchange(j->holds[i].node))
			return j->holds[i].node;
	return NULL;
}

void replacing_say(const struct sched *s, const struct job *j, struct text *o)
{
	const struct node *down = kept_and_down(j);
	uint32_t lacks = lacks_in_all(j);

	if (lacks) {
		text_add(o, "waits for %" PRIu32 " node%s", lacks, plural(lacks));
		say_lost(s, exchange_find(s, j), o);
		text_add(o, "; keeps %" PRIu32, j->n_holds);
	} else {
		text_add(o, "starts again on its %" PRIu32 " node%s", j->n_holds, plural(j->n_holds));
	}
	if (down)
		text_add(o, "; %s, which it keeps, is not ready", down->name);
}

/* The first group that lacks one, by its own wishes. Follows S-156. */
void replacing_explain(const struct sched *s, const struct job *j, struct sched_reason *r)
{
	struct text o = text_on(r->text, sizeof(r->text));
	uint32_t g = 0;

	while (g + 1 < j->shape->n_groups && !exchange_lacks(j, g))
		g++;
	r->why = SCHED_REPLACING;
	r->need_instances = exchange_lacks(j, g);
	r->free_instances = fit_count(s, j->shape, g, FIT_NOW | FIT_SPARE);
	r->possible_instances = fit_count(s, j->shape, g, FIT_EMPTY | FIT_SPARE);
	replacing_say(s, j, &o);
	if (!r->need_instances)
		return;
	text_add(&o, ". It needs ");
	obstacle_need(&o, j->shape,
	              &(struct sched_group){r->need_instances, j->shape->groups[g].gpus,
	                                    j->shape->groups[g].ranks, j->shape->groups[g].cpus_per_rank});
	text_add(&o, "; no spare and no other node has that free now, and it comes before all waiting jobs");
}

/* Follows S-157. */
void replacing_say_spares(const struct sched *s, const struct shape *sh, struct text *o)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->n_sorted; i++) {
		int would = 0;

		for (uint32_t g = 0; s->sorted[i]->spare && g < sh->n_groups && !would; g++)
			would =
			    fit_node(s, s->sorted[i], sh, &sh->groups[g], NULL, FIT_EMPTY | FIT_ANY_STATE | FIT_SPARE);
		n += (uint32_t)would;
	}
	if (n)
		text_add(o, "; %" PRIu32 " node%s", n, n == 1 ? " is a spare" : "s are spares");
}
