#include "tests/unit/scheduler/sched_world.h"

#include <math.h>
#include <stdio.h>

void world_wrong(struct world *o, const char *bad)
{
	if (!o->bad)
		o->bad = bad;
}

static const char *const queues[] = {"a", "a/x", "b"};
static const char *const owners[] = {"@u", "@v"};
static const char *const types[] = {"red", "blue"};
static const char *const switches[SLOW_PARTS] = {NULL, "s1", "s2", "s3"};
static const char *const racks[SLOW_PARTS] = {"", "r1", "r2", "r3"};

/* Could the same fit there? */
static int holds_alike(const struct slow_node *a, const struct slow_node *b)
{
	return a->usable == b->usable && a->spare == b->spare && a->type == b->type &&
	       a->at_switch == b->at_switch && a->in_rack == b->in_rack && a->labelled == b->labelled &&
	       a->gpus == b->gpus && a->slots == b->slots && a->memory == b->memory;
}

void world_set_node(struct world *o, int i)
{
	struct slow_node *n = &o->w.nodes[i];
	struct sched_gpu g[SLOW_GPUS];
	const char *labels[] = {n->labelled ? "big" : NULL, NULL};
	char name[16];

	snprintf(name, sizeof(name), "n%d", i + 1);
	for (unsigned k = 0; k < n->gpus; k++)
		g[k] = (struct sched_gpu){.index = k, .model = "g", .link_group = k / 2 + 1};
	n->known = 1;
	if (o->told[i].known && o->told[i].usable && !o->told[i].spare && !holds_alike(n, &o->told[i]))
		o->w.nodes_went++;
	o->told[i] = *n;
	sched_node_set(o->s, &(struct sched_node){.id = (uint64_t)i + 1,
	                                          .name = name,
	                                          .instance_type = types[n->type],
	                                          .labels = labels,
	                                          .slots = n->slots,
	                                          .memory_bytes = n->memory,
	                                          .gpus = g,
	                                          .n_gpus = n->gpus,
	                                          .usable = n->usable,
	                                          .spare = n->spare,
	                                          .price_per_hour = n->price,
	                                          .power_w = n->power,
	                                          .doubt = n->doubt,
	                                          .switch_name = switches[n->at_switch],
	                                          .rack_name = racks[n->in_rack]});
	slow_pools_node(&o->w, i);
	slow_freed(&o->w);
}

int world_send(struct world *o, unsigned id, const uint64_t *drop, uint32_t n_drop)
{
	const struct slow_job *j = &o->w.jobs[id];
	const struct slow_shape *sh = &o->w.shapes[j->shape];
	const char *of[3] = {NULL, NULL, NULL}, *needs[] = {sh->needs_label ? "big" : NULL, NULL},
	           *avoid[2] = {NULL};
	struct sched_dep after[2];
	char name[16];
	struct sched_job in;
	uint32_t n = 0;

	for (int i = 0; i < sh->n_types; i++)
		of[i] = types[sh->types[i]];
	snprintf(name, sizeof(name), "n%d", sh->avoid + 1);
	avoid[0] = sh->avoid < 0 ? NULL : name;
	for (int i = 0; i < 2 && j->after[i].on; i++)
		after[n++] = (struct sched_dep){j->after[i].on, j->after[i].kind};
	in = (struct sched_job){.id = id,
	                        .priority = j->priority,
	                        .order = j->order,
	                        .groups = sh->g,
	                        .n_groups = sh->n_groups,
	                        .memory_bytes = sh->memory,
	                        .exclusive = sh->exclusive,
	                        .instance_types = of,
	                        .requires = needs,
	                        .avoid = avoid,
	                        .span = sh->span,
	                        .queue = queues[(j->account - 4) / 2],
	                        .owner = owners[(j->account - 4) % 2],
	                        .submit_s = j->submit_s,
	                        .limit_s = sh->limit_s,
	                        .believed_s = sh->believed_s,
	                        .max_wait_s = j->max_wait_s,
	                        .warm = world_warm(j->warm),
	                        .pool = sh->pool ? (uint64_t)(SLOW_POOL_ID + sh->pool - 1) : 0,
	                        .keeps = j->keeps,
	                        .firm = j->firm,
	                        .first = j->first,
	                        .after = after,
	                        .n_after = n};
	return drop ? sched_job_exchange(o->s, &in, drop, n_drop) : sched_job_add(o->s, &in);
}

double world_use(const struct world *o, int account)
{
	double sum = 0, h = o->half_life_s;

	for (unsigned i = 0; i < o->n_spans; i++) {
		const struct span *p = &o->spans[i];
		uint64_t to = p->to_s ? p->to_s : o->w.now_s;

		if (slow_below(&o->w, p->account, account))
			sum += p->load * h / 0.693147180559945309 *
			       (exp2(-(double)(o->w.now_s - to) / h) - exp2(-(double)(o->w.now_s - p->from_s) / h));
	}
	return sum;
}
