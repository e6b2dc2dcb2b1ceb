/* sched_slow: random wishes of jobs. */
#include "tests/unit/scheduler/sched_slow.h"

void slow_shape_random(struct slow_shape *sh, unsigned i, uint64_t tick_s, uint32_t (*rnd)(uint32_t))
{
	sh->n_groups = 1 + (rnd(3) == 0);
	for (unsigned g = 0; g < sh->n_groups; g++) {
		sh->g[g] =
		    (struct sched_group){1 + rnd(sh->n_groups == 1 ? 1 + i / 2 : 2),
		                         i ? rnd(i < 8 ? 3 : SLOW_GPUS + 1) : 0, 1 + (rnd(3) == 0), 1 + rnd(2)};
		sh->instances += sh->g[g].instances;
		sh->gpus += sh->g[g].instances * sh->g[g].gpus;
	}
	sh->memory = rnd(3) * 10;
	sh->exclusive = rnd(8) == 0;
	sh->n_types = rnd(3) ? 0 : 1 + (int)rnd(2);
	sh->types[0] = (int)rnd(2);
	sh->types[1] = !sh->types[0];
	sh->needs_label = rnd(8) == 0;
	sh->avoid = rnd(6) ? -1 : (int)rnd(SLOW_NODES);
	sh->span = (enum sched_span)rnd(SCHED_SPAN_RACK + 1);
	sh->limit_s = tick_s * ((rnd(3) ? rnd(4) : 5 + rnd(15)) * SLOW_SHAPES + i + 1); /* no two are equal */
	sh->believed_s = i % 2 ? 0 : 1 + sh->limit_s * (i + 1) / 12;
}
