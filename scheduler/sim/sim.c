/* sim: the event loop; see sim.h. */
#include "scheduler/sim/sim_int.h"

#include "scheduler/sched.h"

static const char *const policies[SIM_POLICIES] = {"fifo", "fifo-skip", "easy", "sjf",  "sjf-skip",
                                                   "saf",  "saf-skip",  "fair", "live", "conservative"};
static const char *const estimates[SIM_ESTIMATES] = {"true", "x3", "learned"};

const char *sim_policy_name(enum sim_policy p)
{
	return policies[p];
}

const char *sim_estimate_name(enum sim_estimate e)
{
	return estimates[e];
}

/* Follows S-432. */
const char *sim_conf_check(const struct sim_conf *c)
{
	if (!c->nodes || c->nodes > FLAT_MAX_NODES)
		return "nodes: from 1 to 262144";
	if (!c->gpus_per_node || c->gpus_per_node > FLAT_MAX_GPUS)
		return "GPUs per node: from 1 to 64";
	if (!c->speedup)
		return "speedup: from 1 up";
	if (!(c->mttf_hours >= 0))
		return "failures: a number of hours from 0 up";
	if (c->n_users && !live_runs(c))
		return "weights and quotas: with live, fair, conservative (or easy with --estimate learned)";
	if (c->preempt && (!live_runs(c) || c->policy == SIM_CONSERVATIVE))
		return "jobs that stop for others: with live, fair (or easy with --estimate learned)";
	if (c->estimate == SIM_LEARNED && c->policy >= SIM_SJF && c->policy <= SIM_SAF_SKIP)
		return "sjf and saf order by what is known at arrival: --estimate true or x3";
	return NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Follows S-403. */
static int by_arrival(const void *a, const void *b)
{
	const struct sim_job *x = a, *y = b;

	if (x->submit_s != y->submit_s)
		return x->submit_s < y->submit_s ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Follows S-404 and S-405. */
static void load_jobs(struct sim *s, const struct trace *t, struct sim_result *r)
{
	uint64_t room = (uint64_t)s->conf->nodes * s->conf->gpus_per_node;
	uint32_t *spots;
	size_t n_spots = 0;
	int sorted = 1;

	r->jobs = mem_alloc(t->n, sizeof(*r->jobs));
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_job *in = &t->jobs[i];
		struct sim_job *j = &r->jobs[r->n];

		if (in->gpus > room) {
			r->dropped++;
			continue;
		}
		*j = (struct sim_job){.row = (uint32_t)i,
		                      .gpus = in->gpus,
		                      .user = in->user,
		                      .submit_s = in->submit_s / s->conf->speedup,
		                      .duration_s = in->duration_s,
		                      .start_s = SIM_NEVER,
		                      .end_s = SIM_NEVER,
		                      .priority = in->priority,
		                      .firm = in->firm,
		                      .n_nodes = flat_spots(s->conf->gpus_per_node, in->gpus)};
		n_spots += j->n_nodes;
		sorted = sorted && (!r->n || j[-1].submit_s <= j->submit_s);
		r->n++;
	}
	if (!sorted)
		qsort(r->jobs, r->n, sizeof(*r->jobs), by_arrival);
	r->pool = spots = mem_alloc(n_spots, sizeof(*spots));
	for (size_t i = 0; i < r->n; i++) {
		r->jobs[i].nodes = spots;
		spots += r->jobs[i].n_nodes;
	}
	s->jobs = r->jobs;
	s->n = (uint32_t)r->n;
	s->live = mem_alloc(r->n, sizeof(*s->live));
	for (size_t i = 0; i < r->n; i++)
		s->live[i].asked_s = SIM_NEVER;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts jobs into classes of equal size. */
static void sort_classes(struct sim *s)
{
	uint32_t *sizes = mem_alloc(s->n, sizeof(*sizes)), n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		if (!i || s->jobs[i].gpus != s->jobs[i - 1].gpus)
			sizes[n++] = s->jobs[i].gpus;
	qsort(sizes, n, sizeof(*sizes), by_number);
	for (uint32_t i = 0; i < n; i++)
		if (!i || sizes[i] != sizes[s->n_classes - 1])
			sizes[s->n_classes++] = sizes[i];
	s->classes = mem_alloc(s->n_classes, sizeof(*s->classes));
	for (uint32_t i = 0; i < s->n; i++) {
		const uint32_t *at = bsearch(&s->jobs[i].gpus, sizes, s->n_classes, sizeof(*sizes), by_number);

		s->live[i].class_id = (uint32_t)(at - sizes);
		s->live[i].at = s->classes[at - sizes].n++;
	}
	for (uint32_t i = 0; i < s->n_classes; i++) {
		s->classes[i].gpus = sizes[i];
		s->classes[i].jobs = mem_alloc(s->classes[i].n, sizeof(*s->classes[i].jobs));
	}
	for (uint32_t i = 0; i < s->n; i++)
		s->classes[s->live[i].class_id].jobs[s->live[i].at] = i;
	free(sizes);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void job_arrives(struct sim *s, uint32_t job)
{
	s->live[job].believed_s = s->jobs[job].duration_s * (s->conf->estimate == SIM_X3 ? 3 : 1);
	sim_wait(s, job);
}

static int is_stale(const struct sim *s, const struct sim_key *end)
{
	return !s->live[end->job].running || s->live[end->job].attempt != end->row;
}

static void complete_all(struct sim *s)
{
	while (s->ends.n && s->ends.v[0].k <= s->now) {
		struct sim_key k = sim_heap_pop(&s->ends);

		if (!is_stale(s, &k))
			sim_end(s, k.job, 1);
	}
}

/* The next distinct time; SIM_NEVER: nothing more can happen. */
static uint64_t next_time(struct sim *s)
{
	uint64_t t = SIM_NEVER, fail;

	/* The end of a run that was stopped before is no moment at which anything changes. */
	while (s->conf->preempt && s->ends.n && is_stale(s, &s->ends.v[0]))
		sim_heap_pop(&s->ends);
	if (s->ends.n)
		t = s->ends.v[0].k;
	if (s->next < s->n && s->jobs[s->next].submit_s < t)
		t = s->jobs[s->next].submit_s;
	fail = s->next < s->n || s->n_running || s->n_waiting ? fail_next(s) : SIM_NEVER;
	return fail < t ? fail : t;
}

/* Follows S-409 and S-410. */
static void one_step(struct sim *s)
{
	uint32_t first_new = s->next;

	complete_all(s);
	fail_step(s);
	while (s->next < s->n && s->jobs[s->next].submit_s <= s->now)
		job_arrives(s, s->next++);
	s->rule->pass(s, first_new);
}

void sim_run(const struct sim_conf *c, const struct trace *t, struct sim_result *r)
{
	struct sim s = {.conf = c, .out = r};
	unsigned idle = 0;

	memset(r, 0, sizeof(*r));
	flat_init(&s.flat, c->nodes, c->gpus_per_node);
	s.spots = mem_alloc(c->nodes, sizeof(*s.spots));
	load_jobs(&s, t, r);
	sort_classes(&s);
	s.rule = live_runs(c) ? &live_rule : c->policy == SIM_EASY ? &easy_rule : &order_rule;
	if (s.rule->init)
		s.rule->init(&s, t);
	fail_init(&s);
	while (idle < SIM_MAX_IDLE && (s.now = next_time(&s)) != SIM_NEVER) {
		one_step(&s);
		idle = s.n_running || s.next < s.n ? 0 : idle + 1;
	}
	if (idle == SIM_MAX_IDLE || c->n_users) { /* so many nodes are never up at one time; beyond a quota */
		r->given_up += s.n_waiting;
		s.n_waiting = 0;
	}
	assert(!s.n_waiting && !s.n_running); /* what fits into the empty cluster ends */
	sim_summarise(r, c);
	if (s.rule->fini)
		s.rule->fini(&s);
	for (uint32_t i = 0; i < s.n_classes; i++) {
		free(s.classes[i].heap.v);
		free(s.classes[i].jobs);
	}
	flat_fini(&s.flat);
	free(s.classes);
	free(s.queue.v);
	free(s.ends.v);
	free(s.failing.v);
	free(s.down);
	free(s.spots);
	free(s.live);
}

void sim_result_fini(struct sim_result *r)
{
	for (size_t i = 0; i < r->n_stopped; i++)
		free(r->stopped[i].nodes);
	free(r->stopped);
	free(r->jobs);
	free(r->pool);
	memset(r, 0, sizeof(*r));
}
