/*
 * park_ends: parkings that end. Nothing of one is a reason to keep work from its nodes: the launch is a
 * pool's, and its processes are killed without a grace time.
 */
#include <inttypes.h>

#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "controller/park/park_int.h"
#include "controller/record/rec.h"
#include "controller/state/turn.h"

/* ---- GPUs --------------------------------------------------------------------------------------------- */

uint64_t park_gpus(const struct wire_u32v *gpus)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < gpus->n; i++)
		bits |= 1ull << gpus->v[i] % 64;
	return bits;
}

static int is_in_way(const struct park_node *x)
{
	return !x->gone && x->state != LAUNCH_ENDED;
}

int park_in_way(const struct core *c, const struct place_rec *p)
{
	uint64_t gpus = c->parks.in_way ? park_gpus(&p->gpus) : 0;

	for (const struct parking *k = gpus ? c->parks.all : NULL; k; k = k->hh.next) {
		const struct park_node *x = k->way_us ? parking_node(k, p->node_id) : NULL;

		if (x && is_in_way(x) && x->gpus & gpus)
			return 1;
	}
	return 0;
}

/* Jobs on the node may go on. */
static void way_free(struct core *c, const struct park_node *x)
{
	const struct cnode *n = node_by_id(c, x->node_id);

	for (uint32_t i = 0; n && i < n->n_jobs; i++)
		job_touch(c, n->jobs[i]);
}

void park_way_over(struct core *c, struct parking *k)
{
	k->way_us = 0;
	c->parks.in_way--;
	for (uint32_t i = 0; i < k->n; i++) {
		const struct park_node *x = &k->nodes[i];

		if (x->gpus && is_in_way(x))
			log_warn("event=parking_lingers pool=%" PRIu64 " parking=%" PRIu64 " node_id=%" PRIu64
			         " state=%u",
			         k->key.pool, k->key.number, x->node_id, x->state);
		way_free(c, x);
	}
}

/* ---- reports ------------------------------------------------------------------------------------------ */

void parking_ending(struct core *c, struct parking *k, struct park_node *x, uint8_t state)
{
	x->state = state;
	if (state == LAUNCH_CLEANED)
		x->gone = 1;
	else if (state == LAUNCH_ENDED || state == LAUNCH_FAILED)
		x->sent &= (uint8_t)~SENT_COLLECT;
	if (!is_in_way(x))
		way_free(c, x);
	park_send(c, k);
	parking_settle(c, k);
}

static struct park_node stray_node(const struct cnode *n, uint8_t state)
{
	return (struct park_node){.node_id = n->r.id,
	                          .session = n->session,
	                          .state = state,
	                          .gpus = UINT64_MAX,
	                          .reported = 1,
	                          .ordered = 1};
}

/* A parking that ends is on another node, too, or is there again. */
static int stray_more(struct core *c, struct parking *k, const struct cnode *n, uint8_t state)
{
	struct park_node *x = parking_node(k, n->r.id);

	if (!x) {
		k->nodes = xrealloc(k->nodes, (k->n + 1) * sizeof(*k->nodes));
		x = &k->nodes[k->n++];
	}
	*x = stray_node(n, state);
	parking_ending(c, k, x, state);
	return 1;
}

int park_stray(struct core *c, const struct cnode *n, const struct wm_launch_report *m)
{
	struct parking *k = parking_find(c, m->job, m->attempt);

	if (m->state == LAUNCH_CLEANED || (!cluster_pool(&c->records, m->job) && m->state != LAUNCH_PARKED))
		return 0;
	if (k)
		return k->state == PARK_ENDING && k->epoch == m->epoch ? stray_more(c, k, n, m->state) : 0;
	log_info("event=stray_parking pool=%" PRIu64 " parking=%u node=%s state=%u", m->job, m->attempt, n->name,
	         m->state);
	k = parking_new(c, m->job, m->attempt, m->epoch, 1);
	k->nodes[0] = stray_node(n, m->state);
	parking_end(c, k);
	return 1;
}
