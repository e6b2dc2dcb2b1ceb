/* The least change with which a job would fit: against trying every value on small random clusters; queues
 * and times; and how many looks at the nodes it takes. */
#include "tests/lib/golden.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/tap.h"

#define GIB      ((uint64_t)1 << 30)
#define NODES    6
#define CASES    3000
#define PER_KIND 10 /* each kind is to come up so often */

static uint64_t seed = 12345;
static uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

struct box { /* what the test knows of a node by itself */
	uint32_t gpus, slots, free_gpus, free_slots;
	uint64_t memory, free_memory;
	const char *type;
	double price;
	int closed;                  /* takes no jobs */
	uint32_t at_switch, in_rack; /* names in parts */
};

struct world {
	struct sched *s;
	struct box box[NODES];
	uint32_t n;
};

static const char *const types[] = {"ant", "bee", "cat"};
static const char *const parts[] = {NULL, "p1", "p2"};

static void node_add(struct world *w, uint32_t i)
{
	struct box *b = &w->box[i];
	struct sched_gpu gpus[4];
	char name[8];
	struct sched_node n = {.id = i + 1,
	                       .name = name,
	                       .slots = b->slots,
	                       .memory_bytes = b->memory,
	                       .disk_bytes = GIB,
	                       .gpus = gpus,
	                       .n_gpus = b->gpus,
	                       .usable = !b->closed,
	                       .instance_type = b->type,
	                       .price_per_hour = b->price,
	                       .switch_name = parts[b->at_switch],
	                       .rack_name = parts[b->in_rack]};

	snprintf(name, sizeof(name), "n%u", i);
	for (uint32_t k = 0; k < b->gpus; k++)
		gpus[k] = (struct sched_gpu){.index = k, .model = "x", .memory_bytes = GIB};
	sched_node_set(w->s, &n);
}

static void world_make(struct world *w)
{
	w->s = sched_create();
	sched_now(w->s, 1000);
	w->n = 1 + rnd(NODES);
	for (uint32_t i = 0; i < w->n; i++) {
		w->box[i] = (struct box){.gpus = rnd(5),
		                         .slots = 1 + rnd(16),
		                         .memory = (1 + rnd(8)) * 8 * GIB + rnd(2) * (uint64_t)rnd(1u << 30),
		                         .type = types[rnd(3)],
		                         .at_switch = rnd(3),
		                         .in_rack = rnd(3)};
		w->box[i].price = (double)(w->box[i].type[0] - 'a' + 1); /* a type has one price here */
		node_add(w, i);
	}
	for (uint32_t k = rnd(5); k > 0; k--) { /* some of it is taken */
		struct sched_group g = {1, rnd(3), 1, 1 + rnd(4)};
		struct sched_job j = {.id = 100 + k, .groups = &g, .n_groups = 1, .memory_bytes = rnd(16) * GIB};

		sched_job_add(w->s, &j);
	}
	for (struct sched_decision *d; (d = sched_step(w->s));)
		sched_decision_free(d);
	for (uint32_t k = 100; k < 110; k++) { /* what found no place is gone */
		struct sched_reason r;

		sched_explain(w->s, k, &r);
		if (r.text[0])
			sched_job_remove(w->s, k);
	}
	for (uint32_t i = 0; i < w->n; i++) {
		sched_node_free(w->s, i + 1, &w->box[i].free_gpus, &w->box[i].free_slots, &w->box[i].free_memory);
	}
}

/* As obvious as can be: how many nodes of one type (NULL: any) take an instance? Of one switch or rack (0:
 * any).
 */
static uint32_t takers(const struct world *w, const struct sched_job *j, const char *type, uint32_t part,
                       int empty)
{
	uint64_t slots = (uint64_t)j->groups[0].ranks * j->groups[0].cpus_per_rank;
	uint32_t c = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		const struct box *b = &w->box[i];
		int held = b->free_slots < b->slots;

		if (b->closed || (type && strcmp(type, b->type) != 0))
			continue;
		if (part && part != (j->span == SCHED_SPAN_SWITCH ? b->at_switch : b->in_rack))
			continue;
		if (empty)
			c += b->gpus >= j->groups[0].gpus && b->slots >= slots && b->memory >= j->memory_bytes;
		else
			c += b->free_gpus >= j->groups[0].gpus && b->free_slots >= slots &&
			     b->free_memory >= j->memory_bytes && !(j->exclusive && held);
	}
	return c;
}

static int goes_on(const struct world *w, const struct sched_job *j, const char *type, int empty)
{
	uint32_t want = j->groups[0].instances;

	if (want < 2 || (j->span != SCHED_SPAN_SWITCH && j->span != SCHED_SPAN_RACK))
		return takers(w, j, type, 0, empty) >= want;
	return takers(w, j, type, 1, empty) >= want || takers(w, j, type, 2, empty) >= want;
}

static int goes(const struct world *w, const struct sched_job *j, int empty)
{
	const char *const *t = j->instance_types;

	if (!t || !*t)
		return goes_on(w, j, NULL, empty);
	for (; *t; t++)
		if (goes_on(w, j, *t, empty))
			return 1;
	return 0;
}

/* The most that fits is what some node has, or has left, in whole MiB. */
static uint64_t most_memory(const struct world *w, const struct sched_job *asked, int empty)
{
	struct sched_job j = *asked;
	uint64_t best = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		uint64_t has = empty ? w->box[i].memory : w->box[i].free_memory;

		j.memory_bytes = has >> 20 << 20;
		if (j.memory_bytes > best && j.memory_bytes < asked->memory_bytes && goes(w, &j, empty))
			best = j.memory_bytes;
	}
	return best;
}

/* Every value of every kind, in the stated order. */
static struct sched_change by_trial(const struct world *w, const struct sched_job *asked, int empty)
{
	struct sched_change none = {0}, c = none;
	struct sched_group g = asked->groups[0];
	struct sched_job j = *asked;
	const char *one[2] = {NULL, NULL};
	double price = 1e9;

	j.groups = &g;
	for (uint32_t i = 0; asked->instance_types && i < w->n; i++) {
		one[0] = w->box[i].type;
		j.instance_types = one;
		if (goes(w, &j, empty) && w->box[i].price < price) {
			price = w->box[i].price;
			c = (struct sched_change){SCHED_CHANGE_TYPE, 0, w->box[i].type};
		}
	}
	if (c.kind)
		return c;
	j.instance_types = asked->instance_types;
	j.span = SCHED_SPAN_PREFER;
	if (goes(w, &j, empty))
		return (struct sched_change){SCHED_CHANGE_SPAN, 0, NULL};
	j.span = asked->span;
	j.exclusive = 0;
	if (asked->exclusive && goes(w, &j, empty))
		return (struct sched_change){SCHED_CHANGE_SHARE, 0, NULL};
	j.exclusive = asked->exclusive;
	j.memory_bytes = most_memory(w, &j, empty);
	if (j.memory_bytes)
		return (struct sched_change){SCHED_CHANGE_MEMORY, j.memory_bytes, NULL};
	j.memory_bytes = asked->memory_bytes;
	for (uint32_t k = g.cpus_per_rank - 1; k > 0; k--) {
		g.cpus_per_rank = k;
		if (goes(w, &j, empty))
			return (struct sched_change){SCHED_CHANGE_CPUS, k, NULL};
	}
	g = asked->groups[0];
	for (uint32_t k = g.gpus; k-- > 1;) {
		g.ranks = asked->groups[0].ranks == asked->groups[0].gpus ? k : g.ranks;
		g.gpus = k;
		if (goes(w, &j, empty))
			return (struct sched_change){SCHED_CHANGE_GPUS, k, NULL};
	}
	g = asked->groups[0];
	for (uint32_t k = g.instances; k-- > 1;) {
		g.instances = k;
		if (goes(w, &j, empty))
			return (struct sched_change){SCHED_CHANGE_INSTANCES, k, NULL};
	}
	return none;
}

static void test_random(void)
{
	unsigned seen[SCHED_CHANGE_INSTANCES + 1] = {0}, wrong = 0;

	for (unsigned i = 0; i < CASES; i++) {
		struct world w;
		const char *list[2] = {types[rnd(3)], NULL};
		struct sched_group g = {1 + rnd(4), rnd(5), 0, 1 + rnd(8)};
		struct sched_job j = {.id = 999, .groups = &g, .n_groups = 1};
		struct sched_change got, want;
		int empty = (int)rnd(2), found;

		g.ranks = g.gpus && rnd(2) ? g.gpus : 1 + rnd(2);
		j.memory_bytes = rnd(2) ? (1 + rnd(80)) * GIB : 0;
		j.exclusive = rnd(2) == 0;
		j.instance_types = rnd(2) ? list : NULL;
		j.span = (enum sched_span)rnd(SCHED_SPAN_RACK + 1);
		world_make(&w);
		want = goes(&w, &j, empty) ? (struct sched_change){0} : by_trial(&w, &j, empty);
		found = sched_change(w.s, &j, NULL, empty, &got);
		seen[want.kind]++;
		if (got.kind != want.kind || got.value != want.value || found != (want.kind != 0) ||
		    (want.name && strcmp(want.name, got.name ? got.name : "") != 0)) {
			tap_diag("case %u: kind %d value %" PRIu64 " name %s, by trial %d %" PRIu64 " %s", i, got.kind,
			         got.value, got.name ? got.name : "-", want.kind, want.value,
			         want.name ? want.name : "-");
			wrong++;
		}
		if (sched_check(w.s))
			tap_bail("%s", sched_check(w.s));
		sched_destroy(w.s);
	}
	is_int(wrong, 0, "the same as by trying every value");
	for (int k = SCHED_CHANGE_TYPE; k <= SCHED_CHANGE_INSTANCES; k++)
		if (k != SCHED_CHANGE_MODEL && k != SCHED_CHANGE_LABEL && k != SCHED_CHANGE_GPU_MEMORY &&
		    k != SCHED_CHANGE_DISK) /* test_sched_asked has these */
			ok(seen[k] >= PER_KIND, "kind %d came up %u times", k, seen[k]);
	ok(seen[SCHED_CHANGE_NONE] >= PER_KIND, "no change %u times", seen[SCHED_CHANGE_NONE]);
}

/* With these drained nodes open as well. */
static int goes_with(struct world *w, const struct sched_job *j, int empty, const uint64_t *ids, size_t n,
                     size_t but)
{
	int rc;

	for (size_t i = 0; i < n; i++)
		w->box[ids[i] - 1].closed = i == but;
	rc = goes(w, j, empty);
	for (size_t i = 0; i < n; i++)
		w->box[ids[i] - 1].closed = 1;
	return rc;
}

/* NULL, or what is wrong with the answer. */
static const char *resume_wrong(struct world *w, const struct sched_job *j, int empty,
                                const uint64_t *drained, size_t n_drained)
{
	uint64_t got[NODES];
	size_t n = sched_resume(w->s, j, empty, got, NODES);
	int helps = !goes(w, j, empty) && goes_with(w, j, empty, drained, n_drained, NODES);

	if (!n || !helps)
		return n       ? "it names nodes that do not help"
		       : helps ? "it names none although some would help"
		               : NULL;
	for (size_t i = 0; i < n; i++) {
		int is = 0;

		for (size_t k = 0; k < n_drained; k++)
			is |= drained[k] == got[i];
		if (!is)
			return "a node that is not drained";
	}
	if (!goes_with(w, j, empty, got, n, NODES))
		return "with these it does not fit";
	for (size_t i = 0; i < n; i++)
		if (goes_with(w, j, empty, got, n, i))
			return "one of them is not needed";
	return NULL;
}

/* Drained nodes with which it would fit: enough, none too many, none that is closed for another reason. */
static void test_resume_random(void)
{
	unsigned wrong = 0, helped[2] = {0}, several = 0;

	for (unsigned i = 0; i < CASES; i++) {
		struct world w;
		const char *list[2] = {types[rnd(3)], NULL};
		struct sched_group g = {1 + rnd(4), rnd(4), 1, 1 + rnd(6)};
		struct sched_job j = {.id = 999, .groups = &g, .n_groups = 1};
		uint64_t drained[NODES], got[NODES];
		size_t n = 0;
		int empty = (int)rnd(2);
		const char *bad;

		j.exclusive = rnd(3) == 0;
		j.instance_types = rnd(3) ? NULL : list;
		world_make(&w);
		for (uint32_t k = 0; k < w.n; k++) {
			if (!rnd(2))
				continue;
			w.box[k].closed = 1;
			node_add(&w, k);
			sched_node_drained(w.s, k + 1, 1);
			if (rnd(4))
				drained[n++] = k + 1;
			else
				sched_node_drained(w.s, k + 1, 0);
		}
		bad = resume_wrong(&w, &j, empty, drained, n);
		if (!bad)
			bad = sched_check(w.s);
		if (bad)
			tap_diag("case %u: %s", i, bad);
		wrong += bad != NULL;
		n = sched_resume(w.s, &j, empty, got, NODES);
		helped[empty] += n > 0;
		several += n > 1;
		sched_destroy(w.s);
	}
	is_int(wrong, 0, "drained nodes that help, as few as do");
	ok(helped[0] >= PER_KIND && helped[1] >= PER_KIND && several >= PER_KIND,
	   "%u times now, %u times if all were empty, %u times several", helped[0], helped[1], several);
}

static const char *brief(struct world *w, uint64_t id)
{
	static struct sched_brief b;

	sched_brief(w->s, &id, 1, &b);
	return b.text;
}

/* What a page says, and what keeps it from saying so. */
static void test_resume(void)
{
	struct world w = {.s = sched_create(), .n = 3};
	struct sched_group g = {2, 2, 1, 1};
	struct sched_job j = {.id = 7, .groups = &g, .n_groups = 1, .queue = "q", .owner = "@ada"};
	const uint64_t third = 3;
	struct sched_reservation book = {.id = 1, .from_s = 900, .to_s = 9000, .nodes = &third, .n_nodes = 1};
	uint64_t ids[4];

	for (uint32_t i = 0; i < w.n; i++) {
		w.box[i] = (struct box){.gpus = 2, .slots = 8, .memory = GIB, .type = "ant", .closed = i > 0};
		node_add(&w, i);
	}
	sched_now(w.s, 1000);
	sched_job_add(w.s, &j);
	ok(!sched_step(w.s), "one node is not enough");
	is_str(brief(&w, 7), "waits for nodes", "while it is not known why the others take none");
	is_int((int)sched_resume(w.s, &j, 0, ids, 4), 0, "no node to resume");
	sched_node_drained(w.s, 2, 1);
	sched_node_drained(w.s, 3, 1);
	sched_node_drained(w.s, 9, 1);
	golden("scheduler/change-waits-for-nodes-nodes-drained", brief(&w, 7), "2 nodes");
	is_int((int)sched_resume(w.s, &j, 0, ids, 4), 1, "one suffices");
	is_int((int)ids[0], 2, "the first");
	sched_node_drained(w.s, 2, 0);
	is_int((int)sched_resume(w.s, &j, 0, ids, 4), 1, "a node that went down meanwhile is not it");
	is_int((int)ids[0], 3, "but the other");
	sched_reservation_set(w.s, &book);
	is_int((int)sched_resume(w.s, &j, 0, ids, 4), 0, "nor one that is reserved for others now");
	is_int((int)sched_resume(w.s, &j, 1, ids, 4), 1, "some day it is");
	sched_reservation_remove(w.s, 1);
	sched_queue_close(w.s, "q", 1);
	is_int((int)sched_resume(w.s, &j, 0, ids, 4), 0, "not where a budget is used up");
	sched_queue_close(w.s, "q", 0);
	w.box[2].closed = 0;
	node_add(&w, 2);
	is_int((int)sched_resume(w.s, &j, 0, ids, 4), 0, "it fits now");
	is_str(brief(&w, 7), "needs 4 GPUs, 4 free, but apart", "and nothing is said of drained nodes");
	sched_node_remove(w.s, 2);
	ok(!sched_check(w.s), "consistent");
	sched_destroy(w.s);
}

/* A quota, and nodes that are reserved for others for some time. */
static void rules_make(struct world *w)
{
	uint64_t nodes[NODES], from_s = 900 + rnd(4000);
	uint32_t n = 0;

	for (uint64_t id = 1; id <= w->n; id++)
		if (rnd(2))
			nodes[n++] = id;
	sched_reservation_set(
	    w->s, &(struct sched_reservation){
	              .id = 1, .from_s = from_s, .to_s = from_s + 5000, .nodes = nodes, .n_nodes = n});
	if (rnd(2))
		sched_queue_set(w->s, &(struct sched_queue){.path = "q", .quota_gpus = 1 + rnd(6)});
}

/* Where only a quota is in the way: what leaves more GPUs. */
static void test_quota(void)
{
	struct world w = {.n = 3};
	struct sched_group g = {3, 4, 1, 1};
	struct sched_job j = {.id = 9, .groups = &g, .n_groups = 1, .queue = "q"};
	struct sched_change c;

	w.s = sched_create();
	for (uint32_t i = 0; i < 3; i++) {
		w.box[i] = (struct box){.gpus = 4, .slots = 8, .memory = GIB, .type = "ant"};
		node_add(&w, i);
	}
	for (int ever = 0; ever < 2; ever++) {
		sched_queue_set(w.s, &(struct sched_queue){.path = "q", .weight = 1, .quota_gpus = 8});
		sched_change(w.s, &j, NULL, ever, &c);
		ok(c.kind == SCHED_CHANGE_INSTANCES && c.value == 2, "2 of 4 are 8, 3 of 2 would be 6");
		sched_queue_set(w.s, &(struct sched_queue){.path = "q", .weight = 1, .quota_gpus = 9});
		sched_change(w.s, &j, NULL, ever, &c);
		ok(c.kind == SCHED_CHANGE_GPUS && c.value == 3, "3 of 3 are 9");
		sched_queue_set(w.s, &(struct sched_queue){.path = "q", .weight = 1, .quota_gpus = 3});
		sched_change(w.s, &j, NULL, ever, &c);
		ok(c.kind == SCHED_CHANGE_GPUS && c.value == 1, "3 of 1 are 3, and not one instance fits");
	}
	sched_destroy(w.s);
}

/* What is said to help does: the changed job starts, whatever quotas and reservations there are. */
static void test_helps(void)
{
	unsigned tried = 0, started = 0, kinds[SCHED_CHANGE_INSTANCES + 1] = {0};

	for (unsigned i = 0; i < CASES / 2; i++) {
		struct world w;
		struct sched_group g = {1 + rnd(3), 1 + rnd(4), 1, 1 + rnd(8)};
		struct sched_job j = {.id = 999, .groups = &g, .n_groups = 1, .memory_bytes = (1 + rnd(80)) * GIB};
		struct sched_change c;

		world_make(&w);
		j.queue = "q";
		j.limit_s = 3600;
		if (i % 2)
			rules_make(&w);
		if (sched_change(w.s, &j, NULL, 0, &c)) {
			struct sched_decision *d;

			kinds[c.kind]++;
			j.limit_s = c.kind == SCHED_CHANGE_TIME ? c.value : j.limit_s;
			j.memory_bytes = c.kind == SCHED_CHANGE_MEMORY ? c.value : j.memory_bytes;
			g.cpus_per_rank = c.kind == SCHED_CHANGE_CPUS ? (uint32_t)c.value : g.cpus_per_rank;
			g.ranks = c.kind == SCHED_CHANGE_GPUS && g.ranks == g.gpus ? (uint32_t)c.value : g.ranks;
			g.gpus = c.kind == SCHED_CHANGE_GPUS ? (uint32_t)c.value : g.gpus;
			g.instances = c.kind == SCHED_CHANGE_INSTANCES ? (uint32_t)c.value : g.instances;
			sched_job_add(w.s, &j);
			d = sched_step(w.s);
			started += d && d->job == 999;
			sched_decision_free(d);
			tried++;
		}
		sched_destroy(w.s);
	}
	ok(tried >= 200 && kinds[SCHED_CHANGE_TIME] >= 10, "changes were found in %u cases, of time in %u", tried,
	   kinds[SCHED_CHANGE_TIME]);
	is_int(started, tried, "each changed job starts at once");
}

static struct world of_one(uint32_t gpus)
{
	struct world w = {.n = 1};
	static const struct sched_policy policy = {.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1};

	w.s = sched_create();
	sched_policy_set(w.s, &policy);
	sched_now(w.s, 1000);
	w.box[0] = (struct box){.gpus = gpus, .slots = 8, .memory = GIB, .type = "ant"};
	node_add(&w, 0);
	return w;
}

static void test_queue(void)
{
	static const char *const queues[] = {"tight", "closed", "open", NULL};
	struct world w = of_one(4);
	struct sched_group g = {1, 2, 1, 1};
	struct sched_job j = {.id = 7, .groups = &g, .n_groups = 1, .queue = "tight", .owner = "@ada"};
	size_t before, after;
	const char *paths[20];
	struct sched_change c;

	sched_queue_set(w.s, &(struct sched_queue){"tight", 1, 1, 0});
	sched_queue_close(w.s, "closed", 1);
	before = sched_queue_list(w.s, paths, 20);
	is_int(sched_change(w.s, &j, queues, 0, &c), 1, "a quota is in its way");
	is_int(c.kind, SCHED_CHANGE_QUEUE, "another queue helps");
	is_str(c.name, "open", "the first that has room and is not closed");
	after = sched_queue_list(w.s, paths, 20);
	is_int((int)after, (int)before, "no account was made for looking");
	is_int(sched_change(w.s, &j, NULL, 0, &c), 1, "without another queue fewer GPUs do");
	ok(c.kind == SCHED_CHANGE_GPUS && c.value == 1, "as many as the quota allows");
	g.gpus = 6;
	is_int(sched_change(w.s, &j, NULL, 1, &c), 1, "of one that no node could hold, too");
	ok(c.kind == SCHED_CHANGE_GPUS && c.value == 1, "what its quota allows is named");
	g.gpus = 2;
	j.queue = "closed";
	is_int(sched_change(w.s, &j, queues, 0, &c), 0, "no way around a budget that is used up is offered");
	j.queue = "open";
	is_int(sched_change(w.s, &j, queues, 0, &c), 0, "of one that fits nothing has to change");
	sched_destroy(w.s);
}

static void test_time(void)
{
	struct world w = of_one(4);
	struct sched_group two = {1, 2, 1, 1}, four = {1, 4, 1, 1};
	struct sched_job runs = {.id = 1, .groups = &two, .n_groups = 1, .limit_s = 600};
	struct sched_job head = {.id = 2, .groups = &four, .n_groups = 1, .limit_s = 600, .order = 2};
	struct sched_job j = {.id = 3, .groups = &two, .n_groups = 1, .limit_s = 3600, .order = 3};
	struct sched_decision *d;
	struct sched_reason r;
	struct sched_change c;

	sched_job_add(w.s, &runs);
	sched_decision_free(sched_step(w.s));
	sched_job_add(w.s, &head);
	sched_job_add(w.s, &j);
	ok(!sched_step(w.s), "the second waits for the first, the third for the second");
	sched_explain(w.s, 3, &r);
	is_int(r.why, SCHED_BEHIND, "it is behind somebody");
	is_int((int)r.behind, 2, "who is named");
	/* The place stays that one's, though the other comes to be before it in order. */
	j.priority = 0;
	j.order = 0;
	sched_job_add(w.s, &j);
	ok(!sched_step(w.s), "now it is first in order");
	sched_explain(w.s, 3, &r);
	is_int(r.why, SCHED_BEHIND, "and does not start all the same");
	is_int((int)r.behind, 2, "the one whose place it is is named");
	is_int(sched_change(w.s, &j, NULL, 0, &c), 1, "it would fit");
	is_int(c.kind, SCHED_CHANGE_TIME, "with a shorter time");
	is_int((int)c.value, 480, "which ends some time before the place that is kept is taken");
	sched_now(w.s, 110);
	j.limit_s = c.value;
	sched_job_add(w.s, &j);
	d = sched_step(w.s);
	ok(d && d->job == 3, "and so it starts");
	sched_decision_free(d);
	sched_destroy(w.s);
}

static struct sched_change change(struct world *w, const struct sched_job *j)
{
	struct sched_change c;

	sched_change(w->s, j, NULL, 0, &c);
	return c;
}

static int starts(struct world *w, const struct sched_job *j)
{
	struct sched_decision *d;
	int did;

	sched_job_add(w->s, j);
	d = sched_step(w->s);
	did = d != NULL;
	sched_decision_free(d);
	sched_job_remove(w->s, j->id);
	return did;
}

/* Nodes that are reserved while the job would be there. */
static void test_reserved(void)
{
	static const char *const only[] = {"ant", NULL};
	struct world w = of_one(4);
	const uint64_t first = 1;
	struct sched_group g = {1, 2, 1, 1};
	struct sched_job j = {
	    .id = 7, .groups = &g, .n_groups = 1, .queue = "q", .owner = "@ada", .limit_s = 7200};
	struct sched_reservation book = {.id = 1, .from_s = 4600, .to_s = 9000, .nodes = &first, .n_nodes = 1};
	struct sched_change c;

	sched_reservation_set(w.s, &book);
	ok(!starts(&w, &j), "a reservation is in its way");
	c = change(&w, &j);
	ok(c.kind == SCHED_CHANGE_TIME && c.value == 3600 - 180,
	   "a time that ends before it begins (%" PRIu64 ")", c.value);
	j.limit_s = c.value;
	ok(starts(&w, &j), "and with that it starts");
	j.limit_s = 7200;
	book.from_s = 1100;
	sched_reservation_set(w.s, &book);
	ok(change(&w, &j).kind == SCHED_CHANGE_NONE, "not when it begins in a moment");
	w.box[1] = (struct box){.gpus = 1, .slots = 8, .memory = GIB, .type = "bee"};
	w.n = 2;
	node_add(&w, 1);
	c = change(&w, &j);
	ok(c.kind == SCHED_CHANGE_GPUS && c.value == 1, "then as few GPUs as a node that is not reserved has");
	j.instance_types = only;
	ok(change(&w, &j).kind == SCHED_CHANGE_NONE, "no type that would not do");
	j.instance_types = NULL;
	g.gpus = 5;
	c = change(&w, &j);
	ok(c.kind == SCHED_CHANGE_GPUS && c.value == 1, "one that never fits: also not what is reserved");
	sched_queue_close(w.s, "q", 1);
	ok(change(&w, &j).kind == SCHED_CHANGE_NONE, "where a budget is used up nothing is named");
	sched_queue_close(w.s, "q", 0);
	book.queue = "q";
	sched_reservation_set(w.s, &book);
	c = change(&w, &j);
	ok(c.kind == SCHED_CHANGE_GPUS && c.value == 4, "what is reserved for its own queue counts");
	ok(!sched_check(w.s), "consistent");
	sched_destroy(w.s);
}

/* Asked before the scheduler has found out that the nodes are too few. */
static void test_few_nodes(void)
{
	struct world w = {.s = sched_create(), .n = 1};
	struct sched_group g = {2, 0, 1, 1};

	w.box[0] = (struct box){.slots = 8};
	node_add(&w, 0);
	sched_job_add(w.s, &(struct sched_job){.id = 7, .groups = &g, .n_groups = 1});
	is_str(brief(&w, 7), "needs 2 CPUs, 8 free, but apart", "two instances, one node");
	sched_destroy(w.s);
}

int main(void)
{
	test_reserved();
	test_random();
	test_quota();
	test_resume_random();
	test_resume();
	test_helps();
	test_queue();
	test_time();
	test_few_nodes();
	return tap_done();
}
