/*
 * simadmin: an administrator who makes queues, gives them quotas and budgets, prices nodes and keeps them for
 * a queue or for maintenance, changes and removes all of that at random; and what must hold for each
 * placement under the rules that were acknowledged: a kept node gets no job of another queue, nor one whose
 * time limit reaches into the time for which it is kept; a queue holds no more than its quota unless it may
 * borrow; nothing starts whose account has spent its budget, by what the store has of its attempts; no more
 * members of an array run at once than it says.
 *
 * A rule whose answer was lost is not known, and nothing is asked of it until an answer tells.
 */
#include "common/base/json.h"
#include "controller/run/array.h"
#include "store/read/query.h"
#include "tests/world/sim.h"
#include <stdio.h>
#include <string.h>

#define QUEUES  2
#define KEEPS   2
#define BUDGETS 2
#define EDGE_US 2000000u /* the scheduler's time goes by whole seconds */

static const char *const queues[QUEUES] = {"qa", "qb"};
static const char *const keeps[KEEPS] = {"keep-0", "keep-1"};
static const char *const payers[BUDGETS] = {"qa",
                                            "qb/@ada"}; /* a queue, and the only user in the other one */

struct rule {
	int there;
	uint32_t gpus; /* a quota */
	int borrow;
	uint32_t usd;   /* a budget; all happens in one day */
	uint32_t nodes; /* a reservation: bits */
	int queue;      /* whose; -1 maintenance */
	uint64_t from_us, to_us;
};

struct known {
	struct rule now;
	unsigned open; /* requests under way */
	int unknown;
};

struct asked { /* of one request */
	struct known *k;
	struct rule will;
	int removes;
};

static struct {
	struct known quota[QUEUES], keep[KEEPS], budget[BUDGETS];
	int queue_there[QUEUES], priced;
	struct loop_timer *timer;
	uint64_t rng;
} admin;

static void on_queue(struct sim_call *k, int status)
{
	if (sim->up && status == 200)
		*(int *)k->arg = 1;
}

static void on_rule(struct sim_call *k, int status)
{
	struct asked *a = k->arg;

	a->k->open--;
	if (k->lost || !sim->up || status >= 500) {
		a->k->unknown = 1;
	} else if (status == 200 || (status == 404 && a->removes)) {
		a->k->now = a->will;
		a->k->unknown = 0;
	}
	free(a);
}

static void ask_rule(enum request_op op, const char *name, const char *body, struct known *k,
                     const struct rule *will)
{
	struct request *rq = sim_call(op, 0, name, body);
	struct sim_call *c = rq->io;
	struct asked *a = xcalloc(1, sizeof *a);

	a->k = k;
	a->removes = !will;
	if (will)
		a->will = *will;
	k->open++;
	c->arg = a;
	c->done = on_rule;
	sim_say("admin: %s %s %s", request_op_text(op), name, body);
	sim_ask(rq);
}

/* ---- what an administrator does ------------------------------------------------------------------------ */

static int make_queues(void)
{
	int all = 1;

	for (int i = 0; i < QUEUES; i++) {
		struct request *rq;

		if (admin.queue_there[i])
			continue;
		all = 0;
		rq = sim_call(REQ_QUEUE_SET, 0, queues[i], "{}");
		((struct sim_call *)rq->io)->done = on_queue;
		((struct sim_call *)rq->io)->arg = &admin.queue_there[i];
		sim_ask(rq);
	}
	if (!admin.priced) { /* a dollar a second */
		struct request *rq = sim_call(REQ_INSTANCE_SET, 0, "box", "{\"price_per_hour\": 3600}");

		((struct sim_call *)rq->io)->done = on_queue;
		((struct sim_call *)rq->io)->arg = &admin.priced;
		sim_ask(rq);
	}
	return all;
}

static void change_budget(int i)
{
	static const char *const periods[] = {"day", "week", "month"};
	struct rule will = {.there = 1, .usd = 1 + sim_rnd(&admin.rng, 60)};
	char body[100];

	if (sim_one_in(&admin.rng, 4)) {
		ask_rule(REQ_BUDGET_RM, payers[i], "{}", &admin.budget[i], NULL);
		return;
	}
	snprintf(body, sizeof body, "{\"usd\": %u, \"period\": \"%s\", \"action\": \"%s\"}", will.usd,
	         periods[sim_rnd(&admin.rng, 3)], sim_one_in(&admin.rng, 3) ? "end" : "hold");
	ask_rule(REQ_BUDGET_SET, payers[i], body, &admin.budget[i], &will);
}

static void change_quota(int i)
{
	struct rule will = {.there = 1,
	                    .gpus = 1 + sim_rnd(&admin.rng, SIM_GPUS * sim->o.nodes),
	                    .borrow = sim_one_in(&admin.rng, 4)};
	char body[80];

	if (sim_one_in(&admin.rng, 4)) {
		ask_rule(REQ_QUOTA_RM, queues[i], "{}", &admin.quota[i], NULL);
		return;
	}
	snprintf(body, sizeof body, "{\"gpus\": %u, \"borrow\": %s}", will.gpus, will.borrow ? "true" : "false");
	ask_rule(REQ_QUOTA_SET, queues[i], body, &admin.quota[i], &will);
}

static void change_keep(int i)
{
	uint64_t now = clock_real_us(&sim->w->clock) / 1000000 * 1000000;
	struct rule will = {.there = 1, .queue = (int)sim_rnd(&admin.rng, QUEUES + 1) - 1};
	char from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE], nodes[200] = "", body[500];

	if (admin.keep[i].now.there && admin.keep[i].now.to_us > now && sim_rnd(&admin.rng, 4))
		return;
	if (admin.keep[i].now.there || admin.keep[i].unknown) {
		ask_rule(REQ_RESERVE_RM, keeps[i], "{}", &admin.keep[i], NULL);
		return;
	}
	for (unsigned n = 0; n < sim->o.nodes; n++) {
		if (sim_rnd(&admin.rng, 2) && (n || sim->o.nodes > 1))
			continue;
		will.nodes |= 1u << n;
		snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes), "%s\"%s\"", *nodes ? ", " : "",
		         sim->nodes[n].name);
	}
	if (!will.nodes)
		return;
	will.from_us = now + (uint64_t)sim_rnd(&admin.rng, 40) * 1000000;
	will.to_us = will.from_us + (uint64_t)(5 + sim_rnd(&admin.rng, 60)) * 1000000;
	clock_rfc3339(will.from_us, from);
	clock_rfc3339(will.to_us, to);
	snprintf(body, sizeof body, "{\"from\": \"%s\", \"to\": \"%s\", \"nodes\": [%s], \"%s\": %s%s%s}", from,
	         to, nodes, will.queue < 0 ? "maintenance" : "queue", will.queue < 0 ? "" : "\"",
	         will.queue < 0 ? "true" : queues[will.queue], will.queue < 0 ? "" : "\"");
	ask_rule(REQ_RESERVE_ADD, keeps[i], body, &admin.keep[i], &will);
}

/* Everything must be able to end. */
static void lift_all(void)
{
	for (int i = 0; i < QUEUES; i++)
		ask_rule(REQ_QUOTA_RM, queues[i], "{}", &admin.quota[i], NULL);
	for (int i = 0; i < KEEPS; i++)
		ask_rule(REQ_RESERVE_RM, keeps[i], "{}", &admin.keep[i], NULL);
	for (int i = 0; i < BUDGETS; i++)
		ask_rule(REQ_BUDGET_RM, payers[i], "{}", &admin.budget[i], NULL);
}

static void on_time(void *arg)
{
	(void)arg;
	if (sim->up && make_queues()) {
		if (sim->calm)
			lift_all();
		else if (sim_one_in(&admin.rng, 3))
			change_budget((int)sim_rnd(&admin.rng, BUDGETS));
		else if (sim_rnd(&admin.rng, 2))
			change_quota((int)sim_rnd(&admin.rng, QUEUES));
		else
			change_keep((int)sim_rnd(&admin.rng, KEEPS));
	}
	loop_timer_arm(admin.timer, sim->calm ? 10000000u : sim_span(&admin.rng, 500000, 15000000));
}

const char *sim_admin_queue(unsigned job)
{
	return job % 3 == 2 ? "default" : queues[job % 3];
}

void sim_admin_start(void)
{
	memset(&admin, 0, sizeof admin);
	if (!sim->o.rules)
		return;
	admin.rng = sim->o.seed * 77 + 5;
	admin.timer = sim_later(on_time, NULL);
	loop_timer_arm(admin.timer, 1000000);
}

void sim_admin_fini(void)
{
	loop_timer_destroy(admin.timer);
	admin.timer = NULL;
}

/* ---- what must hold ------------------------------------------------------------------------------------ */

/* A job keeps its nodes between two attempts, and what runs when a reservation begins goes on (S-139). */
static int had_before(const struct sim_node *n, const struct event_row *ev)
{
	const struct sim_place *p = n->places;

	while (p && (p->job != ev->job || p->attempt + 1 != ev->attempt))
		p = p->next;
	return p != NULL;
}

static void check_keep(const struct event_row *ev, const struct cjob *j, const cJSON *nodes, int i)
{
	const struct known *k = &admin.keep[i];
	uint64_t ends = ev->at_us + (uint64_t)j->act->spec->max_runtime_s * 1000000;
	const cJSON *p;

	/* A clock that is set moves the times of a reservation under what was placed before. */
	if (!k->now.there || k->open || k->unknown || sim->o.faults & 1u << SIM_F_WALL)
		return;
	if (k->now.queue >= 0 && strcmp(queues[k->now.queue], j->r.queue) == 0)
		return;
	if (k->now.to_us <= ev->at_us + EDGE_US || k->now.from_us + EDGE_US >= ends)
		return;
	cJSON_ArrayForEach (p, nodes) {
		const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(p, "node"));

		for (unsigned n = 0; n < sim->o.nodes; n++)
			if (name && k->now.nodes >> n & 1 && strcmp(sim->nodes[n].name, name) == 0 &&
			    !had_before(&sim->nodes[n], ev))
				sim_bad("job %llu of queue %s was placed on %s, which is kept by %s",
				        (unsigned long long)ev->job, j->r.queue, name, keeps[i]);
	}
}

static void check_quota(int i)
{
	const struct known *k = &admin.quota[i];
	struct sched_queue_state s;

	if (!k->now.there || k->open || k->unknown || k->now.borrow)
		return;
	sched_queue_get(sim->w->core->sched, queues[i], &s);
	if (s.gpus > k->now.gpus)
		sim_bad("queue %s holds %llu GPUs, its quota is %u", queues[i], (unsigned long long)s.gpus,
		        k->now.gpus);
}

/* What the account has spent until then, by its attempts in the store: all that was recorded before the
 * placement is in it when its event is told. */
static double spent(const char *queue, uint64_t until_us)
{
	struct cost_filter f = {.queue = queue, .from_us = 1, .to_us = until_us, .now_us = until_us};
	cJSON *o = store_cost_json(sim->w->reader, &f, NULL);
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "total_usd");
	double usd = cJSON_IsNumber(v) ? v->valuedouble : 0;

	cJSON_Delete(o);
	return usd;
}

static void check_budget(const struct event_row *ev, const struct cjob *j, int i)
{
	const struct known *k = &admin.budget[i];
	size_t n = strcspn(payers[i], "/");
	double usd;

	/* A clock that is set moves the periods. */
	if (!k->now.there || k->open || k->unknown || sim->o.faults & 1u << SIM_F_WALL)
		return;
	if (strncmp(j->r.queue, payers[i], n) != 0 || j->r.queue[n])
		return;
	usd = spent(j->r.queue, ev->at_us - EDGE_US);
	if (usd > k->now.usd)
		sim_bad("job %llu was placed, and %s had spent %.2f of the %u dollars of its budget %d s before",
		        (unsigned long long)ev->job, payers[i], usd, k->now.usd, (int)(EDGE_US / 1000000));
}

static void check_members(const struct cjob *j)
{
	const struct cjob *whole = j->r.array ? job_find(sim->w->core, j->r.array) : NULL, *m;
	uint32_t run = 0, most = whole && whole->arr ? whole->arr->spec->max_parallel : 0;

	if (!most)
		return;
	for (m = sim->w->core->jobs.all; m; m = m->hh.next)
		run += m->r.array == j->r.array && m->r.att && m->r.status >= JOB_STARTING &&
		       m->r.status <= JOB_STOPPING;
	if (run > most)
		sim_bad("%u members of job %llu run at once, %u may", run, (unsigned long long)j->r.array, most);
}

void sim_admin_placed(const struct event_row *ev)
{
	const struct cjob *j = sim->o.rules && sim->up ? job_find(sim->w->core, ev->job) : NULL;
	const char *why;
	cJSON *d;
	int replaces;

	if (!j)
		return;
	d = cJSON_Parse(ev->data);
	why = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, "why"));
	replaces =
	    why && strncmp(why, "it kept its nodes", 17) == 0; /* and waits for no quota or budget (S-155) */
	for (int i = 0; j->act && i < KEEPS; i++)
		check_keep(ev, j, cJSON_GetObjectItemCaseSensitive(d, "nodes"), i);
	cJSON_Delete(d);
	/* One without GPUs starts in a queue over its quota, too. */
	for (int i = 0; j->r.gpus && !replaces && i < QUEUES; i++)
		if (strcmp(queues[i], j->r.queue) == 0)
			check_quota(i);
	for (int i = 0; j->r.queue && !replaces && i < BUDGETS; i++)
		check_budget(ev, j, i);
	check_members(j);
}
