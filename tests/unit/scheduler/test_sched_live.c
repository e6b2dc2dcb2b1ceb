/*
 * The library's decisions under random input (HEARTH_SEED replays one seed). After each step each decision is
 * the one of sched_slow.c: the job, its nodes, the reserved place, settled dependencies, waits, accounts and
 * victims. 100,000 steps of the live policy (instrumented 20,000, HEARTH_SOAK=1 1,000,000), then BLOCK, SKIP
 * and RESERVE with and without fair share. The library's bounds are far away: 4,096 running jobs, 200,000
 * nodes looked at in a look, 400 times looked at for a place.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/tap.h"
#include "tests/unit/scheduler/sched_world.h"

#define STEPS 500
#define TICK  10 /* seconds: much happens at one time */

static uint64_t rng_state;

static uint32_t rnd(uint32_t n)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 11) % n;
}

/* ---- jobs ---------------------------------------------------------------------------------------- */

static void settle_dep(struct world *o, unsigned id, struct slow_dep *d, int met)
{
	struct slow_job *j = &o->w.jobs[id];
	struct sched_settled got;
	unsigned open = 0, never = 0;

	d->state = met ? 2 : 3;
	for (int i = 0; i < 2; i++) {
		open += j->after[i].state == 1;
		never += j->after[i].state == 3;
	}
	if (!sched_settled(o->s, &got) || got.job != id || got.on != d->on || got.kind != d->kind ||
	    got.met != met)
		world_wrong(o, "something else was settled");
	if (!open && !never && j->state == SLOW_HELD)
		slow_waits(&o->w, id);
}

/* It started (0), ended well (1) or otherwise (2): who waits for it, in the order in which they asked. */
static void tell(struct world *o, unsigned on, int what)
{
	struct sched_settled more;

	for (;;) {
		struct slow_dep *next = NULL;
		unsigned who = 0;

		for (unsigned id = 1; id <= o->w.n_jobs; id++)
			for (int i = 0; i < 2; i++) {
				struct slow_dep *d = &o->w.jobs[id].after[i];

				if (d->state == 1 && d->on == on && (what || d->kind == SCHED_AFTER_START) &&
				    (!next || d->sequence < next->sequence)) {
					next = d;
					who = id;
				}
			}
		if (!next)
			break;
		settle_dep(o, who, next,
		           !what || next->kind == SCHED_AFTER_ANY || (next->kind == SCHED_AFTER_OK && what == 1));
	}
	if (sched_settled(o->s, &more))
		world_wrong(o, "more was settled than there was");
}

static int known(const struct world *o, unsigned id)
{
	return o->w.jobs[id].state != SLOW_NONE && o->w.jobs[id].state != SLOW_OVER;
}

/* Into the queue, or held by what it waits for. */
static void enter(struct world *o, unsigned id)
{
	struct slow_job *j = &o->w.jobs[id];
	int open = 0;

	world_send(o, id, NULL, 0);
	j->begun = 0;
	j->restart_s = 0; /* what a restart takes is not known of one that comes again */
	for (int i = 0; i < 2; i++) {
		struct slow_dep *d = &j->after[i];
		int done =
		    d->on == id || !known(o, d->on) || (d->kind == SCHED_AFTER_START && o->w.jobs[d->on].n_holds > 0);

		d->sequence = ++o->w.sequence;
		d->state = !d->on ? 0 : done ? 2 : 1;
		open += d->state == 1;
	}
	if (open)
		j->state = SLOW_HELD;
	else
		slow_waits(&o->w, id);
}

static void drop_job(struct world *o, enum slow_state of);

static void add_job(struct world *o)
{
	unsigned id = o->w.n_jobs + 1;
	struct slow_job *j = &o->w.jobs[id];
	int waiting = 0;

	for (unsigned i = 1; i < id; i++)
		waiting += o->w.jobs[i].state == SLOW_WAITS;
	while (waiting >= 15 && rnd(4)) /* some of them can never start */
		drop_job(o, SLOW_WAITS), waiting--;
	if (id >= SLOW_JOBS)
		return;
	o->w.n_jobs = id;
	*j = (struct slow_job){.priority = rnd(4) ? 0 : (int64_t)rnd(SLOW_LEVELS),
	                       .order = rnd(5) ? id : rnd(id) + 1,
	                       .submit_s = o->w.now_s,
	                       .max_wait_s = rnd(6) ? 0 : 50 + rnd(3000),
	                       .firm = rnd(4) == 0,
	                       .first = rnd(15) == 0};
	j->shape = (int)rnd(SLOW_SHAPES);
	j->account = 4 + (int)rnd(SLOW_ACCOUNTS - 4);
	j->warm = o->pools ? (int)rnd(3) : 0;
	j->keeps = o->pools && rnd(2);
	for (int i = 0; i < 2 && !rnd(5) && id > 1; i++)
		j->after[i] = (struct slow_dep){.on = id - rnd(id < 12 ? id : 12), .kind = (enum sched_after)rnd(3)};
	enter(o, id);
}

static void span_ends(struct world *o, unsigned id, int node)
{
	for (unsigned i = 0; i < o->n_spans; i++)
		if (o->spans[i].job == id && o->spans[i].node == node && !o->spans[i].to_s)
			o->spans[i].to_s = o->w.now_s;
}

static void give_back(struct world *o, unsigned id, unsigned hold)
{
	span_ends(o, id, o->w.jobs[id].holds[hold].node);
	slow_gives_back(&o->w, id, hold);
}

/* It neither waits nor holds any more. */
static void leave(struct world *o, unsigned id, enum slow_state now)
{
	struct slow_job *j = &o->w.jobs[id];

	while (j->n_holds)
		give_back(o, id, j->n_holds - 1);
	slow_stops_waiting(&o->w, id, now);
	memset(j->after, 0, sizeof(j->after));
	slow_lane_left(&o->w, j->shape, j->account);
}

static int is_waited_for(const struct world *o, unsigned on)
{
	for (unsigned id = 1; id <= o->w.n_jobs; id++)
		for (int i = 0; i < 2; i++)
			if (o->w.jobs[id].after[i].state == 1 && o->w.jobs[id].after[i].on == on)
				return 1;
	return 0;
}

static unsigned any_job(const struct world *o, enum slow_state state)
{
	unsigned found = 0, n = 0;

	for (unsigned id = 1; id <= o->w.n_jobs; id++)
		if (o->w.jobs[id].state == state && !rnd(++n))
			found = id;
	return found;
}

/* Most end within their limits, some are late. */
static void end_job(struct world *o)
{
	unsigned id = any_job(o, rnd(12) ? rnd(3) ? SLOW_RUNS : SLOW_REPLACES : SLOW_EMPTY);
	int well = rnd(4) != 0, leaves = o->pools && rnd(2);
	struct slow_pool p;

	if (!id)
		return;
	p = world_pool_of(o, id, rnd);
	sched_job_finished(o->s, id, well);
	leave(o, id, SLOW_OVER);
	if (leaves)
		world_pool_set(o, (int)rnd(SLOW_POOLS), &p);
	tell(o, id, well ? 1 : 2);
}

static void drop_job(struct world *o, enum slow_state of)
{
	unsigned id = any_job(o, of);

	if (!id)
		return;
	sched_job_remove(o->s, id);
	leave(o, id, SLOW_OVER);
	tell(o, id, 2);
}

/* It goes and comes again: at once, or some day; then it has its place by age again. */
static void requeue_job(struct world *o)
{
	unsigned id = any_job(o, rnd(4) ? rnd(4) ? SLOW_RUNS : SLOW_REPLACES : SLOW_WAITS);
	int waited_for;

	if (!id || rnd(3) == 0) {
		id = any_job(o, SLOW_KNOWN);
		if (!id)
			return;
		o->w.jobs[id].shape = rnd(2) ? o->w.jobs[id].shape : (int)rnd(SLOW_SHAPES);
		enter(o, id);
		return;
	}
	waited_for = is_waited_for(o, id);
	sched_job_park(o->s, id);
	leave(o, id, waited_for ? SLOW_KNOWN : SLOW_OVER);
	if (!waited_for)
		tell(o, id, 2);
	if (!waited_for && rnd(2)) {
		sched_job_know(o->s, id);
		o->w.jobs[id].state = SLOW_KNOWN;
	}
}

/* A waiting job is replaced by one that wants something else. */
static void change_job(struct world *o)
{
	unsigned id = any_job(o, SLOW_WAITS);
	struct slow_job *j = &o->w.jobs[id];
	int shape = j->shape, account = j->account;

	if (!id)
		return;
	slow_stops_waiting(&o->w, id, SLOW_KNOWN);
	memset(j->after, 0, sizeof(j->after));
	j->priority = rnd(2) ? j->priority : (int64_t)rnd(SLOW_LEVELS);
	j->shape = (int)rnd(SLOW_SHAPES);
	enter(o, id);
	slow_lane_left(&o->w, shape, account);
}

static void release_place(struct world *o)
{
	unsigned id = any_job(o, rnd(3) ? SLOW_RUNS : SLOW_REPLACES), n = o->w.jobs[id].n_holds,
	         k = n ? rnd(n) : 0;

	if (!id || !n)
		return;
	sched_job_release_place(o->s, id, (uint64_t)o->w.jobs[id].holds[k].node + 1);
	give_back(o, id, k);
	if (!o->w.jobs[id].n_holds && o->w.jobs[id].state == SLOW_RUNS)
		o->w.jobs[id].state = SLOW_EMPTY;
}

/* It gives back some of its nodes, or none, or names one that it does not have, and waits for as many. */
static void replace_places(struct world *o)
{
	static const enum slow_state of[] = {SLOW_RUNS, SLOW_RUNS,     SLOW_RUNS,
	                                     SLOW_RUNS, SLOW_REPLACES, SLOW_EMPTY};
	unsigned id = any_job(o, of[rnd(6)]);
	struct slow_job *j = &o->w.jobs[id];
	uint64_t drop[SLOW_NODES + 1];
	uint32_t n = 0;

	if (!id)
		return;
	for (unsigned k = 0; k < j->n_holds; k++)
		if (rnd(2))
			drop[n++] = (uint64_t)j->holds[k].node + 1;
	if (!rnd(8))
		drop[n++] = 1 + rnd(SLOW_NODES);
	memset(j->after, 0, sizeof(j->after));
	if (world_send(o, id, drop, n) < 0)
		world_wrong(o, "a job could not replace its places");
	slow_replaces(&o->w, id);
	for (uint32_t i = 0; i < n; i++)
		for (unsigned k = j->n_holds; k-- > 0;)
			if ((uint64_t)j->holds[k].node + 1 == drop[i])
				give_back(o, id, k);
}

/* ---- what surrounds them ------------------------------------------------------------------------- */

static void change_node(struct world *o)
{
	int i = (int)rnd(SLOW_NODES);
	struct slow_node *n = &o->w.nodes[i];

	if (n->known && rnd(8) == 0) {
		sched_node_remove(o->s, (uint64_t)i + 1);
		n->known = o->told[i].known = 0;
		o->w.nodes_went += n->usable && !n->spare;
		slow_freed(&o->w);
		slow_pools_node(&o->w, i);
		slow_node_gone(&o->w, i);
		return;
	}
	n->usable = rnd(6) != 0;
	n->spare = rnd(6) == 0;
	n->doubt = rnd(3) ? 0 : rnd(3);
	n->price = rnd(3), n->power = rnd(2) * 700;
	n->at_switch = rnd(4) ? n->at_switch : (int)rnd(SLOW_PARTS);
	n->in_rack = rnd(4) ? n->in_rack : (int)rnd(SLOW_PARTS);
	world_set_node(o, i);
}

static void change_queue(struct world *o)
{
	int i = 1 + (int)rnd(SLOW_ACCOUNTS - 1);
	struct slow_account *a = &o->w.accounts[i];

	if (rnd(3) == 0) {
		a->closed = !a->closed && rnd(3) == 0;
		sched_queue_close(o->s, a->path, a->closed);
	} else {
		a->weight = 1 + rnd(3);
		a->quota = rnd(2) ? 0 : 2 + rnd(12);
		a->borrow = rnd(2) != 0;
		sched_queue_set(
		    o->s, &(struct sched_queue){
		              .path = a->path, .weight = a->weight, .quota_gpus = a->quota, .borrow = a->borrow});
	}
	slow_freed(&o->w);
}

static void unbook(struct world *o, uint64_t id)
{
	for (int i = 0; i < SLOW_NODES; i++) {
		struct slow_node *n = &o->w.nodes[i];

		for (int k = 0; k < n->n_books; k++)
			if (n->books[k].id == id)
				n->books[k--] = n->books[--n->n_books];
	}
	slow_freed(&o->w);
}

static int remembered(const struct world *o, int node)
{
	int held = 0;

	for (unsigned id = 1; id <= o->w.n_jobs; id++)
		for (unsigned k = 0; k < o->w.jobs[id].n_holds; k++)
			held |= o->w.jobs[id].holds[k].node == node;
	for (int i = 0; i < SLOW_POOLS; i++)
		for (unsigned k = 0; k < o->w.pools[i].n_parts; k++)
			held |= o->w.pools[i].parts[k].node == node;
	return held || o->w.nodes[node].known;
}

static void change_book(struct world *o)
{
	struct slow_book b = {.id = 1 + rnd(SLOW_BOOKS), .account = rnd(2) ? -1 : 1 + (int)rnd(3)};
	uint64_t nodes[SLOW_NODES];
	uint32_t n = 0;

	if (rnd(3) == 0) {
		sched_reservation_remove(o->s, b.id);
		unbook(o, b.id);
		return;
	}
	b.from_s = o->w.now_s + TICK * rnd(150) - (rnd(3) ? 0 : 10 * TICK);
	b.to_s = b.from_s + TICK * (1 + rnd(150));
	for (unsigned i = 0; i < SLOW_NODES; i++)
		if (rnd(2))
			nodes[n++] = i + 1;
	unbook(o, b.id);
	for (uint32_t i = 0; i < n; i++) {
		struct slow_node *at = &o->w.nodes[nodes[i] - 1];

		if (remembered(o, (int)nodes[i] - 1))
			at->books[at->n_books++] = b;
	}
	sched_reservation_set(
	    o->s, &(struct sched_reservation){.id = b.id,
	                                      .from_s = b.from_s,
	                                      .to_s = b.to_s,
	                                      .queue = b.account < 0 ? NULL : o->w.accounts[b.account].path,
	                                      .nodes = nodes,
	                                      .n_nodes = n});
}

static void pass_time(struct world *o)
{
	o->w.now_s += TICK * (1 + rnd(rnd(3) ? 3 : 30));
	o->w.stale = 0;
	sched_now(o->s, o->w.now_s);
}

/* ---- what is compared ---------------------------------------------------------------------------- */

static void compare_accounts(struct world *o, int also_use)
{
	for (int i = 0; i < SLOW_ACCOUNTS; i++) {
		struct slow_account *a = &o->w.accounts[i];
		struct sched_queue_state st;

		a->use = sched_usage(o->s, a->path);
		if (also_use && fabs(a->use - world_use(o, i)) > 1e-6 + 1e-9 * a->use)
			world_wrong(o, "an account's use is not what its jobs held");
		sched_queue_get(o->s, a->path, &st);
		if (st.gpus != slow_held(&o->w, i))
			world_wrong(o, "an account holds something else");
	}
}

/* One that it has already, exactly as it is. */
static int is_kept(const struct slow_job *j, const struct sched_place *p)
{
	unsigned gpus = 0, slots = 0;

	for (uint32_t k = 0; k < p->n_gpus; k++)
		gpus |= 1u << p->gpus[k];
	for (uint32_t k = 0; k < p->n_cpus; k++)
		slots |= 1u << p->cpus[k];
	for (unsigned k = 0; k < j->kept; k++)
		if ((uint64_t)j->holds[k].node + 1 == p->node)
			return j->holds[k].group == p->group && j->holds[k].gpu_mask == gpus &&
			       j->holds[k].slot_mask == slots;
	return 0;
}

/* The places of a decision, into the model. */
static void take(struct world *o, const struct sched_decision *d, const int *place)
{
	struct slow_job *j = &o->w.jobs[d->job];
	const struct slow_shape *sh = &o->w.shapes[j->shape];
	unsigned kept = 0;

	j->kept = j->n_holds;
	for (uint32_t i = 0; i < d->n && i < SLOW_NODES; i++) {
		const struct sched_place *p = &d->places[i];
		struct slow_hold h = {.node = (int)p->node - 1, .group = p->group};

		if (is_kept(j, p)) {
			kept++;
			continue;
		}
		if (place[h.node] != (int)p->group)
			world_wrong(o, "on other nodes than by the rules");
		for (uint32_t k = 0; k < p->n_gpus; k++)
			h.gpu_mask |= 1u << p->gpus[k];
		for (uint32_t k = 0; k < p->n_cpus; k++)
			h.slot_mask |= 1u << p->cpus[k];
		if ((unsigned)__builtin_popcount(h.gpu_mask) != sh->g[p->group].gpus ||
		    (unsigned)__builtin_popcount(h.slot_mask) !=
		        sh->g[p->group].ranks * sh->g[p->group].cpus_per_rank)
			world_wrong(o, "not as much as was asked for");
		for (unsigned id = 1; id <= o->w.n_jobs; id++)
			for (unsigned k = 0; k < o->w.jobs[id].n_holds; k++)
				if (o->w.jobs[id].holds[k].node == h.node && (o->w.jobs[id].holds[k].gpu_mask & h.gpu_mask ||
				                                              o->w.jobs[id].holds[k].slot_mask & h.slot_mask))
					world_wrong(o, "a GPU or slot was given twice");
		j->holds[j->n_holds++] = h;
		if (o->n_spans < SPANS)
			o->spans[o->n_spans++] = (struct span){
			    j->account, h.node, (unsigned)d->job, slow_load(sh, p->n_gpus, p->n_cpus), o->w.now_s, 0};
	}
	world_pools_take(o, d, j->kept, place);
	if (kept != j->kept)
		world_wrong(o, "a kept place is another");
	if (d->n != sh->instances)
		world_wrong(o, "a gang was placed partly");
}

static void settle(struct world *o)
{
	for (;;) {
		int place[SLOW_NODES];
		unsigned want;
		struct sched_decision *d;
		uint64_t head = 0, shadow;

		compare_accounts(o, 0);
		want = slow_step(&o->w, place);
		d = sched_step(o->s);
		if ((d ? d->job : 0) != want) {
			snprintf(o->what, sizeof(o->what), "job %u starts by the rules, it started %u", want,
			         d ? (unsigned)d->job : 0);
			world_wrong(o, "decided otherwise than by the rules");
		}
		if (!d || o->bad) {
			shadow = sched_reserved(o->s, &head);
			if (!o->bad && (head != o->w.head || (head && shadow != o->w.shadow_s)))
				world_wrong(o, "a place is kept for another, or from another time on");
			o->heads += head != 0;
			sched_decision_free(d);
			return;
		}
		o->borrowed +=
		    slow_full(&o->w, o->w.jobs[want].account, o->w.shapes[o->w.jobs[want].shape].gpus) == 1;
		o->passed += o->w.head && o->w.head != want;
		o->starts++;
		o->replaced += o->w.jobs[want].state == SLOW_REPLACES;
		take(o, d, place);
		world_pools_compare(o);
		slow_started(&o->w, want);
		sched_decision_free(d);
		if (rnd(8) == 0)
			continue; /* it is told later that it started, or never */
		sched_job_started(o->s, want);
		o->w.jobs[want].begun = 1;
		tell(o, want, 0);
	}
}

/* Who would have to stop: the same jobs, in the same order. */
static void compare_victims(struct world *o, unsigned id)
{
	unsigned want[SLOW_JOBS];
	struct sched_victim v[100];
	size_t n, m;

	n = sched_preempt(o->s, id, v, 100);
	m = slow_victims(&o->w, id, want);
	if (n != m)
		world_wrong(o, "more or fewer victims");
	for (size_t i = 0; i < n && i < m; i++) {
		const struct slow_job *j = &o->w.jobs[want[i]];
		unsigned gpus = 0;

		for (unsigned k = 0; k < j->n_holds; k++)
			gpus += (unsigned)__builtin_popcount(j->holds[k].gpu_mask);
		if (v[i].job != want[i])
			world_wrong(o, "another victim");
		else if (v[i].lost_gpu_s != (o->w.now_s - j->saved_s) * (gpus ? gpus : 1))
			world_wrong(o, "a victim's loss is something else");
		o->firm += (unsigned)j->firm;
	}
	o->victims += n != 0;
}

static void compare_waits(struct world *o)
{
	uint64_t ids[SLOW_JOBS];
	size_t n = sched_expired(o->s, ids, SLOW_JOBS), want = 0;

	for (unsigned id = 1; id <= o->w.n_jobs; id++) {
		const struct slow_job *j = &o->w.jobs[id];
		int over = (j->state == SLOW_WAITS || j->state == SLOW_HELD) && j->max_wait_s &&
		           o->w.now_s >= j->submit_s + j->max_wait_s;

		want += (size_t)over;
		for (size_t i = 0; i < n; i++)
			if (ids[i] == id && !over)
				world_wrong(o, "one waited too long that did not");
	}
	if (n != want)
		world_wrong(o, "not all that waited too long are named");
}

/* When it is expected to start, where that is known: with nobody before it, as soon as it fits. */
static void compare_forecast(struct world *o, unsigned id, const struct sched_forecast *f)
{
	const struct slow_job *j = &o->w.jobs[id];
	uint64_t earliest = slow_earliest(&o->w, id);

	for (int a = j->account; a >= 0; a = o->w.accounts[a].parent)
		if (o->w.accounts[a].closed || o->w.accounts[a].quota)
			return; /* that may make it later */
	if (f->cut || sched_earliest(o->s, id) != earliest)
		world_wrong(o, "the earliest start is another");
	if ((!f->whole || !f->n_first) && f->start_s != earliest)
		world_wrong(o, "expected at another time");
	if (f->start_s < earliest)
		world_wrong(o, "expected before it can be");
}

/* Questions change nothing: the steps that follow show it. */
static void ask(struct world *o)
{
	unsigned id = any_job(o, SLOW_WAITS);
	struct sched_forecast f;
	struct sched_reason r;
	struct sched_brief b;
	uint64_t one = id;

	if (!id)
		return;
	sched_explain(o->s, id, &r);
	sched_brief(o->s, &one, 1, &b);
	if (!r.text[0] || !b.text[0])
		world_wrong(o, "a waiting job has no reason");
	sched_forecast(o->s, id, NULL, NULL, &f);
	free(f.places);
	compare_forecast(o, id, &f);
}

static void checkpoint(struct world *o)
{
	unsigned id = any_job(o, SLOW_RUNS);
	struct slow_job *j = &o->w.jobs[id];

	if (!id)
		return;
	j->saved_s = o->w.now_s - rnd((uint32_t)(o->w.now_s - j->start_s) + 1);
	j->restart_s = rnd(50);
	sched_checkpointed(o->s, id, j->saved_s, j->restart_s);
}

/* ---- runs ---------------------------------------------------------------------------------------- */

static void change_pool(struct world *o)
{
	if (o->pools)
		world_pool_random(o, rnd);
}

static void random_change(struct world *o)
{
	static void (*const rare[])(struct world *) = {
	    change_node, change_queue,   release_place,  change_job,     checkpoint,
	    ask,         replace_places, replace_places, replace_places, change_pool};
	uint32_t r = rnd(20);

	if (r < 6)
		add_job(o);
	else if (r < 11)
		end_job(o);
	else if (r < 14)
		pass_time(o);
	else if (r == 14)
		drop_job(o, SLOW_WAITS + rnd(6));
	else if (r == 15)
		requeue_job(o);
	else if (r == 16 && o->books)
		change_book(o);
	else
		rare[rnd(sizeof(rare) / sizeof(*rare))](o);
}

static void start_world(struct world *o, uint64_t seed, enum sched_backfill backfill, int fair)
{
	struct sched_policy p = {.backfill = backfill, .fair = fair, .by_limit = 1, .effort = 200000};
	uint32_t parts = 2 + (uint32_t)(seed % 3); /* switches, and racks, with that of which none is known */

	memset(o, 0, sizeof(*o));
	rng_state = seed * 0x9e3779b97f4a7c15u + 1;
	p.half_life_s = seed % 2 ? 0 : 600;
	o->half_life_s = seed % 2 ? 7 * 86400.0 : 600;
	o->books = seed % 3 != 0;
	o->pools = seed % 2;
	p.starve_s = o->w.starve_s = seed % 4 < 2 ? 0 : 100 * (seed % 4) * (seed % 4);
	o->s = sched_create();
	sched_policy_set(o->s, &p);
	o->w.now_s = 1000;
	sched_now(o->s, 1000);
	o->w.backfill = backfill;
	o->w.fair = fair;
	slow_accounts(&o->w);
	for (unsigned i = 0; i < SLOW_SHAPES; i++)
		slow_shape_random(&o->w.shapes[i], i, TICK, rnd);
	if (o->pools) {
		struct slow_shape *sh = &o->w.shapes[SLOW_SHAPES - 1];

		*sh = (struct slow_shape){.g = {{1 + rnd(2), rnd(3), 1, 1 + rnd(2)}},
		                          .n_groups = 1,
		                          .memory = rnd(2) * 5,
		                          .avoid = -1,
		                          .span = sh->span,
		                          .limit_s = sh->limit_s,
		                          .pool = 1 + (int)rnd(SLOW_POOLS)};
		sh->instances = sh->g[0].instances;
		sh->gpus = sh->instances * sh->g[0].gpus;
	}
	for (int i = 0; i < SLOW_NODES; i++) {
		o->w.nodes[i] = (struct slow_node){.usable = 1, .type = (int)rnd(2)};
		o->w.nodes[i].at_switch = (int)rnd(parts);
		o->w.nodes[i].in_rack = (int)rnd(parts);
		o->w.nodes[i].labelled = rnd(2) != 0;
		o->w.nodes[i].gpus = rnd(4) ? SLOW_GPUS : rnd(SLOW_GPUS);
		o->w.nodes[i].slots = 2 + rnd(SLOW_SLOTS - 1);
		o->w.nodes[i].memory = 20 + rnd(40);
		if (i < 2 || rnd(4))
			world_set_node(o, i);
	}
}

static const char *const ways[] = {"block", "skip", "reserve"};

static void run(struct world *o, uint64_t seed, enum sched_backfill backfill, int fair)
{
	int t = 0;

	start_world(o, seed, backfill, fair);
	for (; t < STEPS && !o->bad; t++) {
		random_change(o);
		world_pools_compare(o);
		settle(o);
		if (t % 10 == 0)
			compare_accounts(o, 1);
		compare_waits(o);
		if (t % 3 == 0)
			for (unsigned id = 1; id <= o->w.n_jobs; id++)
				if (o->w.jobs[id].state == SLOW_WAITS)
					compare_victims(o, id);
		if (sched_check(o->s))
			world_wrong(o, sched_check(o->s));
		if (slow_doubt())
			world_wrong(o, slow_doubt());
	}
	sched_destroy(o->s);
	if (!ok(!o->bad, "%s%s, seed %" PRIu64 ": %u starts as by the rules", ways[backfill],
	        fair ? ", fair" : "", seed, o->starts))
		tap_diag("step %d: %s (%s)\nagain: HEARTH_SEED=%" PRIu64 " unit/scheduler/test_sched_live", t, o->bad,
		         o->what, seed);
}

/* Checks S-149. */
int main(void)
{
	const char *given = getenv("HEARTH_SEED"), *many = getenv("HEARTH_SEEDS");
	const char *sanitized = getenv("HEARTH_SANITIZED"); /* empty: no */
	uint64_t from = given ? strtoull(given, NULL, 10) : 1;
	uint64_t to = getenv("HEARTH_SOAK") ? 2000 : sanitized && *sanitized ? 40 : 200; /* x STEPS */
	unsigned starts = 0, passed = 0, heads = 0, borrowed = 0, victims = 0, firm = 0, replaced = 0, warm = 0,
	         gave_way = 0;
	static struct world o;

	to = many ? strtoull(many, NULL, 10) : to;
	for (uint64_t seed = from; seed <= (given ? from : to); seed++) {
		run(&o, seed, SCHED_RESERVE, 1);
		starts += o.starts;
		passed += o.passed;
		heads += o.heads;
		borrowed += o.borrowed;
		victims += o.victims;
		firm += o.firm;
		replaced += o.replaced;
		warm += o.warm;
		gave_way += o.gave_way;
	}
	tap_diag(
	    "%u starts, %u of them past a kept place, which was there after %u settlings; %u borrowed, %u times "
	    "victims were named, %u of them firm; %u times places were replaced; %u warm places were used, %u "
	    "parts of pools gave way",
	    starts, passed, heads, borrowed, victims, firm, replaced, warm, gave_way);
	ok(given || (passed > 500 && heads > 5000 && borrowed > 20 && victims > 50 && firm > 1 &&
	             replaced > 5 * to && warm > 100 && gave_way > 100),
	   "and each rule had its turn");
	for (uint64_t seed = from; seed <= (given ? from : to / 4); seed++) {
		run(&o, seed, SCHED_BLOCK, seed % 2 == 0);
		run(&o, seed, SCHED_SKIP, seed % 2 == 0);
		run(&o, seed, SCHED_RESERVE, 0);
	}
	return tap_done();
}
