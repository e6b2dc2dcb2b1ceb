/*
 * simusers: people and their jobs. Each job is submitted with a key of its own, and again with the same key
 * until an answer has come; meanwhile others hold, release, stop, requeue (also from the start, or from a
 * step), change and remove at random, and
 * an administrator drains nodes and resumes them.
 */
#include "controller/share/pools.h"
#include "tests/world/sim.h"
#include <stdio.h>
#include <string.h>

#define AGAIN_US 5000000u
#define SWEEP    ", \"sweep\": {\"lr\": [1, 2, 3]}, \"max_parallel\": "

static void try_again(struct sim_job *j)
{
	loop_timer_arm(j->timer, sim_span(&sim->rng_user, 100000, AGAIN_US));
}

/* Some wait for an earlier job; which one is settled at the first submit, so that a repetition says the same.
 */
static void wish(struct sim_job *j, uint64_t after)
{
	char *tail = strstr(j->spec, ", \"after\"");

	j->after = after;
	if (tail)
		memcpy(tail, "}", 2);
	if (!after)
		return;
	tail = xstrndup(j->spec, strlen(j->spec) - 1);
	free(j->spec);
	j->spec = xasprintf("%s, \"after\": [\"%s:%llu\"]}", tail, spec_after_name(j->after_kind),
	                    (unsigned long long)after);
	free(tail);
}

static void choose_after(struct sim_job *j)
{
	uint64_t *r = &sim->rng_user;
	const struct sim_job *on = &sim->jobs[sim_rnd(r, sim->o.jobs)];

	if (j->chosen || sim->o.gentle)
		return;
	j->chosen = 1;
	if (!on->id || !sim_one_in(r, 3))
		return;
	j->after_kind = (enum spec_after_kind)sim_rnd(r, 3);
	wish(j, on->id);
}

static int wants_pool(const struct sim_job *j)
{
	return !sim->o.gentle && !j->members && j->index % 5 > 1 && strstr(j->spec, "\"keep_alive_s\"");
}

/* Some jobs name a pool that is large enough just now. malloc'ed. */
static char *spec_with_pool(const struct sim_job *j)
{
	const struct pool_rec *p = wants_pool(j) ? pool_first(sim->w->core) : NULL;
	const char *at = strstr(j->spec, "\"keep_alive_s\"");

	while (p && p->n_parts < j->n_nodes)
		p = pool_next(p);
	return p ? xasprintf("%.*s\"pool\": %llu, %s", (int)(at - j->spec), j->spec, (unsigned long long)p->id,
	                     at)
	         : xstrdup(j->spec);
}

static void submitted(struct sim_job *j, int status, const cJSON *body)
{
	const cJSON *id = cJSON_GetObjectItemCaseSensitive(body, "id");
	uint64_t got = cJSON_IsNumber(id) ? (uint64_t)id->valuedouble : 0;

	if (status == 409 && j->after) { /* it could never start */
		wish(j, 0);
		try_again(j);
	} else if (status >= 500 || status == 429 ||
	           ((status == 404 || status == 409) && (sim->o.rules || sim->o.gentle || wants_pool(j)))) {
		try_again(j); /* a queue or a node that is not there yet, a quota that is too small as yet, a pool */
	} else if (status >= 400) {
		sim_bad("job of %s was refused: %d", j->key, status);
	} else if (!got) {
		sim_bad("an answer without an id to %s", j->key);
	} else if (j->id && j->id != got) {
		sim_bad("one key, two jobs: %s was %llu, is %llu", j->key, (unsigned long long)j->id,
		        (unsigned long long)got);
	} else {
		if (!j->id)
			sim_say("user: %s is job %llu", j->key, (unsigned long long)got);
		j->id = got;
		loop_timer_cancel(j->timer);
	}
}

static void on_reply(struct request *rq, int status, cJSON *body, const struct err *e)
{
	struct sim_call *k = rq->io;

	(void)e;
	sim->n_answers++;
	if (sim->up && k->job && !k->lost)
		submitted(k->job, status, body);
	if (k->done)
		k->done(k, status);
	cJSON_Delete(body);
	DL_DELETE(sim->calls, k);
	free(k);
	request_free(rq);
}

struct request *sim_call(enum request_op op, uint64_t job, const char *node, const char *body)
{
	struct request *rq = request_new(op);
	struct sim_call *k = xcalloc(1, sizeof *k);

	rq->user = xstrdup("ada");
	rq->role = ROLE_ADMIN;
	rq->job = job;
	rq->node = node ? xstrdup(node) : NULL;
	rq->body = cJSON_Parse(body ? body : "{}");
	rq->reply = on_reply;
	rq->io = k;
	k->op = op;
	k->lost = !sim->o.gentle && sim_one_in(&sim->rng_user, 10);
	DL_APPEND(sim->calls, k);
	sim->n_calls++;
	return rq;
}

void sim_ask(struct request *rq)
{
	core_request(sim->w->core, rq);
	sim_ctl_touch();
}

/* ---- submitting ---------------------------------------------------------------------------------------- */

static void on_submit(void *arg)
{
	struct sim_job *j = arg;
	struct request *rq;
	struct err e;

	if (j->id)
		return;
	loop_timer_arm(j->timer, AGAIN_US + sim_rnd(&sim->rng_user, AGAIN_US)); /* no answer by then: again */
	if (!sim->up)
		return;
	choose_after(j);
	rq = sim_call(REQ_SUBMIT, 0, NULL,
	              !sim->o.gentle && sim_one_in(&sim->rng_user, 10) ? "{\"hold\": true}" : "{}");
	((struct sim_call *)rq->io)->job = j;
	rq->text = spec_with_pool(j);
	rq->spec = spec_parse(rq->text, strlen(rq->text), &e);
	if (!rq->spec)
		sim_bad("spec: %s", e.text);
	rq->idem_key = xstrdup(j->key);
	snprintf(rq->idem_digest, sizeof rq->idem_digest, "%064x", j->index);
	sim_say("user: submits %s", j->key);
	sim_ask(rq);
}

static void make_job(struct sim_job *j, unsigned index)
{
	uint64_t *r = &sim->rng_user;
	uint32_t most = sim->o.nodes < 3 ? sim->o.nodes : 3;
	uint32_t instances = 1 + sim_rnd(r, most), gpus = sim_rnd(r, 4), ranks = 1 + sim_rnd(r, 2);
	int direct = (int)sim_rnd(r, 2);
	char rules[120], warm[60] = "";

	if (sim->o.gentle) {
		instances = most;
		direct = index % 2;
	}
	j->index = index;
	snprintf(j->key, sizeof j->key, "key-%u", index);
	if (sim->o.rules && index % 4 == 1)
		j->members = 3;
	snprintf(rules, sizeof rules, ", \"queue\": \"%s\"%s", sim_admin_queue(index),
	         j->members ? index % 8 == 1 ? SWEEP "1" : SWEEP "2" : "");
	if (!sim->o.gentle && index % 3 != 2) /* not by chance: the seeds stay what they were */
		snprintf(warm, sizeof warm, ", \"warm_pool\": {\"keep_alive_s\": %u}", 5 + index * 37 % 200);
	j->spec = xasprintf("{\"command\": [\"/bin/x\"], \"launcher\": \"%s\", \"priority\": %u, \"limits\": "
	                    "{\"max_runtime_s\": %u}, \"resources\": {\"instances\": %u, \"gpus_per_instance\": "
	                    "%u, \"ranks_per_instance\": %u}%s%s}",
	                    direct ? "direct" : "mpirun", sim_rnd(r, 3), 20 + sim_rnd(r, 60), instances, gpus,
	                    ranks, sim->o.rules ? rules : "", warm);
	j->n_ranks = instances * ranks;
	j->n_nodes = instances;
	j->timer = sim_later(on_submit, j);
	loop_timer_arm(j->timer, sim->o.gentle ? 3000000 + index * 200000
	                                       : 3000000 + sim_rnd(r, (uint32_t)(sim->o.fault_us / 4 * 3)));
}

/* ---- meddling -------------------------------------------------------------------------------------------
 */

static void meddle(void)
{
	static const struct {
		enum request_op op;
		const char *body;
	} ops[] = {{REQ_STOP, "{}"},
	           {REQ_STOP, "{\"grace_s\": 1}"},
	           {REQ_HOLD, "{}"},
	           {REQ_RELEASE, "{}"},
	           {REQ_REQUEUE, "{}"},
	           {REQ_REQUEUE, "{}"},
	           {REQ_SET, "{\"priority\": 2, \"notes\": \"n\"}"},
	           {REQ_RM, "{}"},
	           {REQ_WHY, "{}"},
	           {REQ_TOP, "{}"},
	           {REQ_NODES, "{}"}};
	uint64_t *r = &sim->rng_user;
	struct sim_job *j = &sim->jobs[sim_rnd(r, sim->o.jobs)];
	uint32_t i = sim_rnd(r, sizeof ops / sizeof *ops);

	if (sim_one_in(r, 6)) {
		int drain = (int)sim_rnd(r, 2);
		const struct sim_node *n = &sim->nodes[sim_rnd(r, sim->o.nodes)];

		sim_say("user: %s %s", drain ? "drains" : "resumes", n->name);
		sim_ask(sim_call(drain ? REQ_DRAIN : REQ_RESUME, 0, n->name, "{}"));
	} else if (j->id && (ops[i].op != REQ_RELEASE || !sim_check_runs(j->id))) {
		uint64_t id = j->id + (j->members ? sim_rnd(r, j->members + 1) : 0);

		if (ops[i].op == REQ_REQUEUE && sim_rnd(r, 2)) {
			sim_begin_requeue(id, r);
			return;
		}
		sim_say("user: %s %llu", request_op_text(ops[i].op), (unsigned long long)j->id);
		sim_ask(sim_call(ops[i].op, j->id, NULL, ops[i].body));
	}
}

/* Held jobs are let go, drained nodes come back: again and again, for an answer may be lost. */
static void put_right(void)
{
	for (unsigned i = 0; i < sim->o.nodes; i++)
		sim_ask(sim_call(REQ_RESUME, 0, sim->nodes[i].name, "{}"));
	for (const struct cjob *j = sim->w->core->jobs.all; j; j = j->hh.next)
		if (j->r.status == JOB_HELD && !sim_check_runs(j->r.id))
			sim_ask(sim_call(REQ_RELEASE, j->r.id, NULL, "{}"));
}

static void on_user(void *arg)
{
	(void)arg;
	if (sim->up && sim->calm)
		put_right();
	else if (sim->up && !sim->o.gentle)
		meddle();
	loop_timer_arm(sim->user, sim->calm ? 10000000u : sim_span(&sim->rng_user, 100000, 5000000));
}

void sim_users_start(void)
{
	sim->jobs = xcalloc(sim->o.jobs + 1, sizeof *sim->jobs);
	for (unsigned i = 0; i < sim->o.jobs; i++)
		make_job(&sim->jobs[i], i);
	sim->user = sim_later(on_user, NULL);
	loop_timer_arm(sim->user, 1000000);
}

void sim_users_calm(void)
{
	loop_timer_arm(sim->user, 1000);
}

int sim_users_done(void)
{
	for (unsigned i = 0; i < sim->o.jobs; i++)
		if (!sim->jobs[i].id)
			return 0;
	return 1;
}

void sim_users_fini(void)
{
	for (unsigned i = 0; i < sim->o.jobs; i++) {
		loop_timer_destroy(sim->jobs[i].timer);
		free(sim->jobs[i].spec);
	}
	free(sim->jobs);
	sim->jobs = NULL;
	loop_timer_destroy(sim->user);
}
