/*
 * The core under random lives of jobs, agents and itself, seeded (HEARTH_SEED replays one): agents
 * disconnect, are cut off, lose power; the controller dies between any two commits; transactions fail;
 * reports come late and twice. Checked at every step: no GPU used by two jobs, records consistent, no end
 * state changes, every rank ends at most once an attempt; at the end: every job has ended, all resources are
 * free, and a replay of all events gives the rows.
 */
#include "store/read/query.h"
#include "tests/lib/agents.h"
#include "tests/lib/tap.h"
#include <stdio.h>
#include <string.h>

#define JOBS_MAX 4096

struct run {
	struct sim sim; /* first: world's arg */
	struct world *w;
	uint64_t acked[JOBS_MAX]; /* 1: its submit was acknowledged */
	uint32_t members[JOBS_MAX];
	uint64_t seq;
	uint8_t ended[JOBS_MAX]; /* an end was shown */
	char rank_seen[JOBS_MAX][64];
	uint8_t repeats[JOBS_MAX]; /* restarts after unknown ends */
	uint64_t last_job, n_attempts, n_restarts;
	const char *bad;
};

static struct run *present;

static void count_restart(struct run *r, uint64_t job, const cJSON *plan)
{
	const char *budget = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(plan, "budget"));

	r->n_restarts += budget != NULL;
	if (budget && strcmp(budget, "max_attempts") == 0 && ++r->repeats[job] > 3)
		r->bad = "a job got more restarts than retry.max_attempts";
}

static void on_event(struct world *w, const struct event_row *ev, void *arg)
{
	struct run *r = present;
	cJSON *d = cJSON_Parse(ev->data);
	const cJSON *rank = cJSON_GetObjectItemCaseSensitive(d, "rank");

	(void)w;
	(void)arg;
	if (ev->job && ev->job < JOBS_MAX) {
		if (strcmp(ev->type, "ended") == 0) {
			if (r->ended[ev->job])
				r->bad = "a job ended twice";
			r->ended[ev->job] = 1;
		} else if (r->ended[ev->job] && strcmp(ev->type, "changed") != 0 && strcmp(ev->type, "rung") != 0) {
			r->bad = "something happened to a job that had ended";
		}
		if (strcmp(ev->type, "outcome") == 0)
			count_restart(r, ev->job, cJSON_GetObjectItemCaseSensitive(d, "plan"));
		if (strcmp(ev->type, "placed") == 0)
			memset(r->rank_seen[ev->job], 0, sizeof r->rank_seen[0]);
		if (strcmp(ev->type, "rank_exited") == 0 && cJSON_IsNumber(rank) && rank->valueint < 64)
			if (r->rank_seen[ev->job][rank->valueint]++)
				r->bad = "a rank ended twice";
	}
	cJSON_Delete(d);
}

/* One in four is an array or a sweep; now and then one that is not made in a turn. */
static uint32_t some_members(struct run *r, char *out, size_t n)
{
	uint32_t members = world_rnd(r->w, 10) ? 1 + world_rnd(r->w, 9) : 100, parallel = world_rnd(r->w, 4);
	size_t used;

	*out = '\0';
	if (world_rnd(r->w, 4))
		return 0;
	if (world_rnd(r->w, 2))
		used = (size_t)snprintf(out, n, ", \"array\": %u", members);
	else
		used = (size_t)snprintf(out, n,
		                        ", \"sweep\": {\"x\": {\"from\": 1, \"to\": %u}}, \"search\": {\"metric\": "
		                        "\"loss\", \"halving\": {\"eta\": 2, \"min_step\": 1}}",
		                        members);
	if (parallel)
		snprintf(out + used, n - used, ", \"max_parallel\": %u", parallel);
	return members;
}

static void submit(struct run *r)
{
	char spec[600], more[300];
	uint32_t instances = 1 + world_rnd(r->w, 3), gpus = world_rnd(r->w, 3),
	         members = some_members(r, more, sizeof more);
	uint64_t id;

	if (r->last_job > 250)
		return;
	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"priority\": %u, \"resources\": "
	         "{\"instances\": %u, \"gpus_per_instance\": %u, "
	         "\"ranks_per_instance\": %u}%s}",
	         world_rnd(r->w, 3), instances, gpus, 1 + world_rnd(r->w, 2), more);
	id = world_submit(r->w, spec);
	if (id && id < JOBS_MAX) {
		r->acked[id] = 1;
		r->members[id] = members;
		r->last_job = id + members;
	}
}

/* A value of a member, whether it runs or has ended. */
static void point(struct run *r)
{
	uint64_t id = 1 + world_rnd(r->w, (uint32_t)r->last_job + 1), time = 1;
	const struct cjob *j = job_find(r->w->core, id);
	char name[] = "loss", *names[1] = {name};
	int64_t step = 1 + world_rnd(r->w, 9);
	double value = world_rnd(r->w, 100);
	uint32_t ix = 0, rank = 0;
	struct wm_metrics m = {.job = id,
	                       .attempt = j ? j->r.attempts : 1,
	                       .epoch = j ? j->r.epoch : 1,
	                       .seq = ++r->seq,
	                       .names = {names, 1},
	                       .name_ix = {&ix, 1},
	                       .ranks = {&rank, 1},
	                       .steps = {&step, 1},
	                       .values = {&value, 1},
	                       .times = {&time, 1}};

	/* A rank that sends points was ordered to start, and the order is on record. */
	if (!j || j->r.status >= JOB_RUNNING)
		world_msg(r->w, r->sim.agents[0].name, 0, WM_METRICS, &m);
}

static void user(struct run *r)
{
	static const enum request_op ops[] = {REQ_STOP, REQ_HOLD, REQ_RELEASE, REQ_REQUEUE,
	                                      REQ_SET,  REQ_WHY,  REQ_TOP,     REQ_NODES};
	enum request_op op = ops[world_rnd(r->w, sizeof ops / sizeof *ops)];

	if (!r->last_job)
		return;
	world_request(r->w, op, 1 + world_rnd(r->w, (uint32_t)r->last_job), NULL,
	              op == REQ_SET ? "{\"priority\": 1, \"notes\": \"n\"}" : "{}");
}

static void machine(struct run *r)
{
	unsigned i = world_rnd(r->w, r->sim.n);
	struct sim_agent *a = &r->sim.agents[i];

	switch (world_rnd(r->w, 8)) {
	case 0:
		sim_disconnect(&r->sim, i);
		break;
	case 1:
		if (world_rnd(r->w, 4) == 0)
			sim_power_off(&r->sim, i);
		break;
	case 2:
		if (world_rnd(r->w, 4) == 0) {
			sim_disconnect(&r->sim, i);
			a->cut = 1;
		}
		break;
	case 3:
		a->cut = 0;
		break;
	case 4:
		world_request(r->w, world_rnd(r->w, 3) ? REQ_RESUME : REQ_DRAIN, 0, a->name, "{}");
		break;
	default:
		sim_connect(&r->sim, i);
	}
}

static void check(struct run *r)
{
	const char *bad = r->sim.bad ? r->sim.bad : world_check(r->w);

	if (bad && !r->bad)
		r->bad = bad;
}

static void move(struct run *r)
{
	unsigned i = world_rnd(r->w, r->sim.n);

	switch (world_rnd(r->w, 4)) {
	case 0:
		sim_deliver_to_agent(&r->sim, i);
		break;
	case 1:
		sim_deliver_to_core(&r->sim, i, world_rnd(r->w, 20) == 0);
		break;
	case 2:
		sim_work(&r->sim, i);
		break;
	default:
		world_advance(r->w, 1000 + world_rnd(r->w, 300000));
		sim_clock(&r->sim);
	}
	world_turn(r->w);
}

static void restart(struct run *r)
{
	sim_all_cut_off(&r->sim);
	world_restart(r->w);
}

static void chaos(struct run *r)
{
	uint32_t x = world_rnd(r->w, 1000);

	if (x < 40)
		submit(r);
	else if (x < 70)
		user(r);
	else if (x < 100)
		machine(r);
	else if (x < 103)
		restart(r);
	else if (x < 106)
		r->w->fail_next = 1;
	else if (x < 110)
		r->w->store_busy = 1;
	else if (x < 150)
		point(r);
	else if (x < 170)
		r->w->hold_commits = !r->w->hold_commits;
	else
		move(r);
	check(r);
}

/* Everything works again: all must come to its end. */
static void calm(struct run *r)
{
	r->w->hold_commits = r->w->fail_next = r->w->store_busy = 0;
	for (unsigned i = 0; i < r->sim.n; i++)
		r->sim.agents[i].cut = 0;
	for (int t = 0; t < 20000 && !r->bad; t++) {
		if (t % 200 == 0) {
			for (unsigned i = 0; i < r->sim.n; i++)
				sim_connect(&r->sim, i);
			for (unsigned i = 0; i < r->sim.n; i++) /* again: the store may have failed a moment ago */
				world_request(r->w, REQ_RESUME, 0, r->sim.agents[i].name, "{}");
			for (uint64_t id = 1; id <= r->last_job; id++)
				if (strcmp(world_status(r->w, id), "held") == 0)
					world_request(r->w, REQ_RELEASE, id, NULL, "{}");
			if (!r->w->core->jobs.unfinished)
				break;
		}
		for (unsigned i = 0; i < r->sim.n; i++) {
			sim_work(&r->sim, i);
			while (sim_deliver_to_core(&r->sim, i, 0))
				;
			world_turn(r->w);
			while (sim_deliver_to_agent(&r->sim, i))
				;
		}
		world_advance(r->w, 100000);
		sim_clock(&r->sim);
		world_turn(r->w);
		check(r);
	}
}

/* Rows of attempts are not compared by the replay: all of an ended job have ended. */
static int attempts_ended(struct run *r, uint64_t id)
{
	cJSON *list = store_attempts_json(r->w->reader, id, NULL);
	const cJSON *a, *in = cJSON_GetObjectItemCaseSensitive(list, "attempts");
	int fine = 1;

	if (!in)
		in = list;
	cJSON_ArrayForEach (a, in) {
		const char *outcome = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(a, "outcome"));

		r->n_attempts++;
		fine = fine && outcome && *outcome && cJSON_IsString(cJSON_GetObjectItemCaseSensitive(a, "ended_at"));
	}
	cJSON_Delete(list);
	return fine;
}

static void last_check(struct run *r)
{
	for (uint64_t id = 1; id <= r->last_job && !r->bad; id++) {
		const char *status = world_status(r->w, id);

		if (r->acked[id] && !*status)
			r->bad = "an acknowledged job is lost";
		for (uint32_t i = 0; i < r->members[id] && strcmp(status, "stopped") != 0; i++)
			if (!*world_status(r->w, id + 1 + i))
				r->bad = "a member of an acknowledged array is lost";
		if (r->bad)
			break;
		else if (*status && strcmp(status, "completed") != 0 && strcmp(status, "failed") != 0 &&
		         strcmp(status, "stopped") != 0) {
			tap_diag("job %llu is %s", (unsigned long long)id, status);
			world_request(r->w, REQ_WHY, id, NULL, NULL);
			tap_diag("%s", world_text(r->w, "text"));
			for (const struct cnode *n = node_first(r->w->core); n; n = node_next(n))
				tap_diag("%s: %s connected %d synced %d drain %d stale job %llu", n->name,
				         state_name(STATE_NODE, (int)n->r.state), n->connected, n->synced, n->r.drain,
				         n->stale ? (unsigned long long)n->stale->job : 0);
			r->bad = "a job did not come to its end";
		} else if (*status && !attempts_ended(r, id)) {
			r->bad = "an attempt has not ended on record";
		}
	}
	for (unsigned i = 0; i < r->sim.n && !r->bad; i++) {
		uint32_t gpus = 0, slots = 0;

		const struct cnode *n = node_find(r->w->core, r->sim.agents[i].name);

		sched_node_free(r->w->core->sched, n->r.id, &gpus, &slots, NULL);
		if (gpus != AGENT_GPUS || slots != r->sim.agents[i].slots)
			r->bad = "resources are still held at the end";
		if (r->sim.agents[i].launches)
			r->bad = "an agent still has a launch";
	}
	if (!r->bad && r->w->n_requests != r->w->n_replies)
		r->bad = "not every request was answered exactly once";
	if (!r->bad && world_verify(r->w) != 0)
		r->bad = "the store does not verify";
}

static void one(uint64_t seed, int steps)
{
	struct run *r = present = xcalloc(1, sizeof *r);

	r->w = world_create(seed);
	sim_init(&r->sim, r->w, 4, AGENT_GPUS, 8);
	r->w->on_event = on_event;
	r->sim.fail_prepare = 30;
	r->sim.fail_rank = 150;
	for (unsigned i = 0; i < r->sim.n; i++)
		sim_connect(&r->sim, i);
	for (int t = 0; t < steps && !r->bad; t++)
		chaos(r);
	if (!r->bad)
		calm(r);
	if (!r->bad)
		last_check(r);
	if (!ok(!r->bad, "seed %llu: %llu jobs, %llu attempts, %llu restarts, %llu commits",
	        (unsigned long long)seed, (unsigned long long)r->last_job, (unsigned long long)r->n_attempts,
	        (unsigned long long)r->n_restarts, (unsigned long long)r->w->n_commits))
		tap_diag("seed %llu: %s", (unsigned long long)seed, r->bad);
	sim_fini(&r->sim);
	world_destroy(r->w);
	free(r);
}

int main(void)
{
	const char *given = getenv("HEARTH_SEED"), *many = getenv("HEARTH_SEEDS");
	uint64_t from = given ? strtoull(given, NULL, 10) : 1, to = given  ? from
	                                                            : many ? strtoull(many, NULL, 10)
	                                                                   : 4;

	for (uint64_t seed = from; seed <= to; seed++)
		one(seed, 4000);
	return tap_done();
}
