/*
 * simcheck: what must hold, against what really happened on the machines.
 *
 * - machines: no GPU, CPU slot or port is used by two launches; no rank of an attempt runs beside one of
 *   another attempt of its job; no rank is started twice; nothing is done for an order of an old epoch
 * - records: an end that is told is the end that happened; who died unseen is lost, and nothing else; a rank
 *   ends once; a job completed only if all its ranks exited with 0; after an end nothing happens
 * - at last: every job has ended, every acknowledged one is on record, all resources are free, nothing is
 *   left on any machine, every request was answered once, a replay of the events gives the rows
 */
#include "agent/control/session.h"
#include "agent/launch/launches.h"
#include "common/base/json.h"
#include "common/net/wire.h"
#include "scheduler/sim/replay.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/world/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- orders ----------------------------------------------------------------------------------------------
 */

struct head {
	uint64_t job;
	uint32_t attempt;
	uint64_t epoch;
};

static int is_order(uint16_t type)
{
	return type == WM_PREPARE || type == WM_LAUNCH_GO || type == WM_ORTED_START || type == WM_KILL ||
	       type == WM_COLLECT || type == WM_NOTE;
}

static void note_place(struct sim_node *n, const struct wm_prepare *m)
{
	struct sim_place *p;
	void *gang = NULL;
	struct err e;

	for (p = n->places; p; p = p->next)
		if (p->job == m->job && p->attempt == m->attempt)
			return;
	p = xcalloc(1, sizeof *p);
	p->job = m->job;
	p->attempt = m->attempt;
	p->epoch = m->epoch;
	p->node_rank = m->node_rank;
	p->master_port = m->master_port;
	snprintf(p->resume_from, sizeof p->resume_from, "%s", m->resume_from);
	p->resume_step = m->resume_step;
	if (wire_decode(WM_GANG, m->gang->data, m->gang->n, &gang, &e) < 0) {
		sim_bad("the gang of %llu: %s", (unsigned long long)m->job, e.text);
		return;
	}
	p->n_nodes = ((struct wm_gang *)gang)->nodes.n;
	for (uint32_t i = 0; i < p->n_nodes; i++)
		p->world += ((struct wm_gang *)gang)->ranks_per_node.v[i];
	wire_free(WM_GANG, gang);
	for (uint32_t i = 0; i < m->gpus.n && i < SIM_GPUS; i++)
		p->gpus[p->n_gpus++] = m->gpus.v[i];
	for (uint32_t i = 0; i < m->cpu_ids.n && i < SIM_SLOTS; i++)
		p->cpus[p->n_cpus++] = m->cpu_ids.v[i];
	LL_PREPEND(n->places, p);
}

#define ORDERS_KEPT 40u

static void keep_order(struct sim_node *n, uint16_t type, const void *msg)
{
	struct sent *s = xcalloc(1, sizeof *s), *old;
	uint32_t count = 0;

	s->type = type;
	s->msg = wire_copy(type, msg);
	DL_APPEND(n->orders, s);
	DL_COUNT(n->orders, old, count);
	if (count <= ORDERS_KEPT)
		return;
	old = n->orders;
	DL_DELETE(n->orders, old);
	sent_free(old);
}

void sim_check_order(struct sim_node *n, uint16_t type, const void *msg)
{
	struct head h;
	struct sim_epoch *en;

	if (!is_order(type))
		return;
	h = (struct head){((const struct wm_launch_go *)msg)->job, ((const struct wm_launch_go *)msg)->attempt,
	                  ((const struct wm_launch_go *)msg)->epoch};
	sim_say("%s <- %s %llu.%u epoch %llu", n->name, wire_name(type), (unsigned long long)h.job, h.attempt,
	        (unsigned long long)h.epoch);
	for (en = n->epochs; en && en->job != h.job; en = en->next)
		;
	if (!en) {
		en = xcalloc(1, sizeof *en);
		en->job = h.job;
		LL_PREPEND(n->epochs, en);
	}
	if (h.epoch < en->epoch) {
		sim->in_old_order = 1;
		return;
	}
	keep_order(n, type, msg);
	en->epoch = h.epoch;
	if (type == WM_PREPARE)
		note_place(n, msg);
}

void sim_check_order_over(void)
{
	sim->in_old_order = 0;
}

void sim_check_effect(const char *what)
{
	if (sim->in_old_order)
		sim_bad("%s %s for an order of an old epoch", sim->now->name, what);
}

/* ---- ranks
 * ------------------------------------------------------------------------------------------------- */

static struct sim_place *place_of(const struct sim_node *n, uint64_t job, uint64_t attempt)
{
	for (struct sim_place *p = n->places; p; p = p->next)
		if (p->job == job && p->attempt == attempt)
			return p;
	return NULL;
}

void sim_check_gang(struct sim_proc *p)
{
	const struct sim_place *place = place_of(p->n, p->job, p->attempt);

	if (!place)
		return;
	p->n_nodes = place->n_nodes;
	p->world = place->world;
}

static int share(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b)
{
	for (uint32_t i = 0; i < n_a; i++)
		for (uint32_t k = 0; k < n_b; k++)
			if (a[i] == b[k])
				return 1;
	return 0;
}

static void beside(const struct sim_proc *p, const struct sim_rank *k)
{
	const struct sim_place *mine = place_of(p->n, p->job, p->attempt), *other;

	if (k->key[0] == p->job && k->key[1] != p->attempt) {
		other = place_of(k->n, k->key[0], k->key[1]);
		/* It got SIGKILL and sleeps in the kernel (see none_left): its program executes nothing more. But it
		 * holds its GPUs and ports, so its own node has to be without it first. */
		if (other && other->fenced && k->dying && k->n != p->n) {
			sim->n_beside_dying++;
			return;
		}
		sim_bad("a rank of %llu.%u starts on %s while rank %llu of %llu.%llu runs on %s",
		        (unsigned long long)p->job, p->attempt, p->n->name, (unsigned long long)k->key[2],
		        (unsigned long long)k->key[0], (unsigned long long)k->key[1], k->n->name);
		return;
	}
	if (k->n != p->n || (k->key[0] == p->job && k->key[1] == p->attempt))
		return;
	other = place_of(k->n, k->key[0], k->key[1]);
	if (!mine || !other)
		sim_bad("a rank of %llu runs on %s without an order", (unsigned long long)p->job, p->n->name);
	else if (share(mine->gpus, mine->n_gpus, other->gpus, other->n_gpus))
		sim_bad("%llu.%u and %llu.%u use one GPU of %s", (unsigned long long)p->job, p->attempt,
		        (unsigned long long)other->job, other->attempt, p->n->name);
	else if (share(mine->cpus, mine->n_cpus, other->cpus, other->n_cpus))
		sim_bad("%llu.%u and %llu.%u use one CPU of %s", (unsigned long long)p->job, p->attempt,
		        (unsigned long long)other->job, other->attempt, p->n->name);
	else if (!mine->node_rank && !other->node_rank && mine->master_port == other->master_port)
		sim_bad("%llu.%u and %llu.%u use port %u of %s", (unsigned long long)p->job, p->attempt,
		        (unsigned long long)other->job, other->attempt, mine->master_port, p->n->name);
}

static struct sim_rank *rank_find(uint64_t job, uint64_t attempt, uint64_t rank)
{
	uint64_t key[3] = {job, attempt, rank};
	struct sim_rank *k;

	HASH_FIND(hh, sim->ranks, key, sizeof key, k);
	return k;
}

struct sim_rank *sim_check_start(struct sim_proc *p)
{
	const struct sim_proc *other;
	struct sim_rank *k;

	if (rank_find(p->job, p->attempt, p->rank))
		sim_bad("rank %u of %llu.%u is started twice", p->rank, (unsigned long long)p->job, p->attempt);
	for (k = sim->ranks; k; k = k->hh.next)
		if (k->alive)
			beside(p, k);
	DL_FOREACH (p->n->procs, other)
		if (other->stray)
			beside(p, other->truth);
	k = xcalloc(1, sizeof *k);
	k->key[0] = p->job;
	k->key[1] = p->attempt;
	k->key[2] = p->rank;
	k->n = p->n;
	k->alive = 1;
	HASH_ADD(hh, sim->ranks, key, sizeof k->key, k);
	sim_say("%s: rank %u of %llu.%u runs", p->n->name, p->rank, (unsigned long long)p->job, p->attempt);
	return k;
}

/* ---- events
 * ------------------------------------------------------------------------------------------------ */

static int number(const cJSON *d, const char *key, int otherwise)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(d, key);

	return cJSON_IsNumber(v) ? v->valueint : otherwise;
}

static void rank_ended(const struct event_row *ev, const cJSON *d)
{
	int rank = number(d, "rank", -1), code = number(d, "exit_code", 0), signo = number(d, "signal", 0);
	struct sim_rank *k = rank_find(ev->job, ev->attempt, (uint64_t)rank);
	unsigned long long job = ev->job;

	if (strcmp(ev->type, "rank_failed") == 0) {
		if (k)
			sim_bad("rank %d of %llu.%u ran, and is said never to have started", rank, job, ev->attempt);
		return;
	}
	if (!k) {
		if (strcmp(ev->type, "rank_exited") == 0)
			sim_bad("rank %d of %llu.%u is said to have ended, and never ran", rank, job, ev->attempt);
		return;
	}
	if (strcmp(ev->type, "rank_lost") == 0)
		return;
	if (!k->ended)
		sim_bad("rank %d of %llu.%u is said to have ended, and runs", rank, job, ev->attempt);
	else if (k->shim_died || k->power)
		sim_bad("rank %d of %llu.%u died unseen, and is said to have ended with %d/%d", rank, job,
		        ev->attempt, code, signo);
	else if ((uint32_t)code != k->exit_code || (uint32_t)signo != k->signal)
		sim_bad("rank %d of %llu.%u ended with %u/%u, and is said to have with %d/%d", rank, job, ev->attempt,
		        k->exit_code, k->signal, code, signo);
}

static const struct sim_job *user_job(uint64_t id)
{
	for (unsigned i = 0; i < sim->o.jobs; i++)
		if (sim->jobs[i].id && id >= sim->jobs[i].id && id <= sim->jobs[i].id + sim->jobs[i].members)
			return &sim->jobs[i];
	return NULL;
}

static void completed(uint64_t job, uint64_t attempt)
{
	const struct sim_job *j = user_job(job);
	uint32_t fine = 0;

	for (const struct sim_rank *k = sim->ranks; k; k = k->hh.next)
		if (k->key[0] == job && k->key[1] == attempt)
			fine += k->ended && !k->exit_code && !k->signal && !k->shim_died && !k->power;
	if (j && fine != j->n_ranks)
		sim_bad("%llu.%llu is said to have succeeded, and %u of its %u ranks did", (unsigned long long)job,
		        (unsigned long long)attempt, fine, j->n_ranks);
}

/* No process of it is left when what became of an attempt is told, but on nodes that were given up without a
 * word from them, which the record says. One that a fence could not kill because it sleeps in the kernel is
 * as good as dead to the rest; its node has to say so when it is back. */
static void none_left(uint64_t job, uint64_t attempt)
{
	for (const struct sim_rank *k = sim->ranks; k; k = k->hh.next) {
		const struct sim_place *p = place_of(k->n, job, attempt);

		if (k->alive && k->key[0] == job && k->key[1] == attempt &&
		    !(p && (p->unconfirmed || (p->fenced && k->dying))))
			sim_bad("%llu.%llu is said to have ended while its rank %llu runs on %s", (unsigned long long)job,
			        (unsigned long long)attempt, (unsigned long long)k->key[2], k->n->name);
	}
}

int sim_check_runs(uint64_t job)
{
	const struct sim_proc *p;

	for (unsigned i = 0; i < sim->o.nodes; i++)
		DL_FOREACH (sim->nodes[i].procs, p)
			if (p->job == job && (p->child || p->stray))
				return 1;
	return 0;
}

/* The lease's promise: when a node is declared lost, no rank of the launch there executes its program. */
static void fence_is_over(const struct sim_place *p, const struct sim_node *n)
{
	for (const struct sim_rank *k = sim->ranks; k && !p->unconfirmed; k = k->hh.next)
		if (k->alive && !k->dying && k->n == n && k->key[0] == p->job && k->key[1] == p->attempt)
			sim_bad("%s is declared lost while rank %llu of %llu.%u runs there", n->name,
			        (unsigned long long)k->key[2], (unsigned long long)p->job, p->attempt);
}

static void given_up(const struct event_row *ev, const cJSON *d)
{
	const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, "node"));
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, "text"));
	struct sim_place *p;

	for (unsigned i = 0; i < sim->o.nodes && name; i++) {
		p = strcmp(sim->nodes[i].name, name) == 0 ? place_of(&sim->nodes[i], ev->job, ev->attempt) : NULL;
		if (p && (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "unconfirmed")) ||
		          (text && strstr(text, "could not be killed"))))
			p->unconfirmed = 1;
		if (p && strcmp(ev->type, "node_lost") == 0) {
			p->fenced = 1;
			fence_is_over(p, &sim->nodes[i]);
		}
	}
}

static void grow(uint64_t job)
{
	if (job < sim->job_ended_n)
		return;
	sim->job_ended = xreallocarray(sim->job_ended, job + 64, 1);
	memset(sim->job_ended + sim->job_ended_n, 0, job + 64 - sim->job_ended_n);
	sim->job_ended_n = (uint32_t)job + 64;
}

/* By its record: what was durable when hearthd was killed was told to nobody. */
static uint8_t on_record(uint64_t job)
{
	struct job_row row = {0};
	uint8_t is = 0;

	if (store_job_get(sim->w->reader, job, &row, NULL) < 0)
		return 0;
	if (row.attempts || row.started_us) /* an array starts with the first of its members */
		is |= 4;
	if (row.ended_us)
		is |= strcmp(row.status, "completed") == 0 ? 3 : 1;
	job_row_fini(&row);
	return is;
}

/* What it waits for has come to pass when it starts. */
static void placed(uint64_t job)
{
	static const uint8_t need[] = {[SPEC_AFTER_ANY] = 1, [SPEC_AFTER_OK] = 2, [SPEC_AFTER_START] = 4};
	const struct sim_job *j = user_job(job);

	sim->n_attempts++;
	if (j && j->after && !(on_record(j->after) & need[j->after_kind]))
		sim_bad("job %llu was placed, and what it waits for (%s:%llu) has not happened",
		        (unsigned long long)job, spec_after_name(j->after_kind), (unsigned long long)j->after);
}

void sim_check_event(struct world *w, const struct event_row *ev, void *arg)
{
	cJSON *d = NULL;
	const char *s;

	(void)w;
	(void)arg;
	if (!ev->job)
		return;
	sim_say("event %llu: job %llu.%u %s %s", (unsigned long long)ev->id, (unsigned long long)ev->job,
	        ev->attempt, ev->type, ev->data);
	grow(ev->job);
	if (sim->job_ended[ev->job] && strcmp(ev->type, "changed") != 0 && strcmp(ev->type, "removed") != 0)
		sim_bad("%s happened to job %llu, which had ended", ev->type, (unsigned long long)ev->job);
	if (strcmp(ev->type, "placed") == 0) {
		placed(ev->job);
		sim_admin_placed(ev);
	}
	if (strncmp(ev->type, "rank_", 5) != 0 && strcmp(ev->type, "ended") != 0 &&
	    strcmp(ev->type, "outcome") != 0 && strncmp(ev->type, "node_", 5) != 0)
		return;
	d = cJSON_Parse(ev->data);
	if (strncmp(ev->type, "rank_", 5) == 0 && strcmp(ev->type, "rank_started") != 0)
		rank_ended(ev, d);
	s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, "outcome"));
	if (strncmp(ev->type, "node_", 5) == 0)
		given_up(ev, d);
	if (strcmp(ev->type, "outcome") == 0)
		none_left(ev->job, ev->attempt);
	if (strcmp(ev->type, "outcome") == 0 && s && strcmp(s, "succeeded") == 0)
		completed(ev->job, ev->attempt);
	if (strcmp(ev->type, "ended") == 0)
		sim->job_ended[ev->job] = 1;
	cJSON_Delete(d);
}

/* ---- each step
 * ---------------------------------------------------------------------------------------------- */

void sim_check_step(void)
{
	const char *bad = world_check(sim->w);

	if (bad)
		sim_bad("controller: %s", bad);
}

/* ---- rest
 * --------------------------------------------------------------------------------------------------- */

/* Why it is not at rest; NULL it is. */
static const char *restless(void)
{
	static char text[200];

	if (!sim->up)
		return "hearthd is down";
	if (!sim_users_done())
		return "a submit has no answer";
	if (sim->w->core->jobs.unfinished)
		return "a job has not ended";
	if (sim->w->commits)
		return "something waits for the store";
	if (sim->calls) {
		snprintf(text, sizeof text, "nobody answers: %s", request_op_text(sim->calls->op));
		return text;
	}
	for (unsigned i = 0; i < sim->o.nodes; i++) {
		const struct sim_node *n = &sim->nodes[i];
		const struct cnode *c = node_find(sim->w->core, n->name);
		const struct sim_proc *p;

		snprintf(text, sizeof text, "%s is not back", n->name);
		if (!n->agent || !c || !c->synced || c->r.drain)
			return text;
		snprintf(text, sizeof text, "%s still has a launch", n->name);
		if (launches_count(n->agent->launches) || c->stale || c->n_jobs)
			return text;
		DL_FOREACH (n->procs, p) {
			if (!p->shim_alive && !p->child && !p->stray)
				continue;
			snprintf(text, sizeof text, "%s still has the %s of rank %u of %llu.%u", n->name,
			         p->child || p->stray ? "process" : "shim", p->rank, (unsigned long long)p->job,
			         p->attempt);
			return text;
		}
	}
	return NULL;
}

int sim_check_quiet(void)
{
	return restless() == NULL;
}

void sim_check_acked(struct sim_node *n, uint16_t type, const void *msg)
{
	const struct wm_artifact_report *m = msg;
	struct sim_artifact *a;

	if (type != WM_ARTIFACT_REPORT)
		return;
	a = xcalloc(1, sizeof *a);
	a->job = m->job;
	a->attempt = m->attempt;
	a->checkpoint = strcmp(m->kind, "checkpoint") == 0;
	a->n = n;
	LL_PREPEND(sim->artifacts, a);
}

static void recount_artifacts(const cJSON *ev, const cJSON *data, int lost)
{
	const char *node = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, "node")),
	           *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, "kind"));
	int checkpoint = kind && strcmp(kind, "checkpoint") == 0;

	for (struct sim_artifact *a = sim->artifacts; a && node; a = a->next) {
		if (a->job != (uint64_t)number(ev, "job", 0) || a->attempt != (uint32_t)number(ev, "attempt", 0) ||
		    strcmp(a->n->name, node) != 0)
			continue;
		if (lost)
			a->excused = 1;
		else if (a->checkpoint == checkpoint)
			a->on_record = 1;
	}
}

/* A job has completed when what it made is on record, too. */
static void recount_outputs(const cJSON *ev, const char *type, const cJSON *data)
{
	struct sim_job *j = NULL;
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, "node")),
	           *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, "kind"));

	for (unsigned i = 0; i < sim->o.jobs; i++)
		if (sim->jobs[i].id == (uint64_t)number(ev, "job", 0))
			j = &sim->jobs[i];
	if (!j)
		return;
	if (strcmp(type, "placed") == 0) {
		j->uploaded = 0;
		j->uploaded_by = (uint64_t)number(ev, "attempt", 0);
	}
	for (unsigned i = 0; i < sim->o.nodes && s; i++)
		if (strcmp(type, "artifact") == 0 && strcmp(s, sim->nodes[i].name) == 0 && kind &&
		    strcmp(kind, "model") == 0 && (uint64_t)number(ev, "attempt", 0) == j->uploaded_by)
			j->uploaded |= 1u << i;
	s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, "status"));
	if (strcmp(type, "ended") == 0 && s && strcmp(s, "completed") == 0 && !j->members &&
	    (uint32_t)__builtin_popcount(j->uploaded) != j->n_nodes)
		sim_bad("job %llu has completed, and the output of %u of %u nodes is on record",
		        (unsigned long long)j->id, (unsigned)__builtin_popcount(j->uploaded), j->n_nodes);
}

static void recount(const cJSON *ev)
{
	const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(ev, "type"));
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(ev, "data");
	struct sim_rank *k;

	if (type)
		recount_outputs(ev, type, data);
	if (type && number(ev, "job", 0))
		sim_begin_event((uint64_t)number(ev, "job", 0), (uint32_t)number(ev, "attempt", 0), type, data);
	if (type && (strcmp(type, "artifact") == 0 || strcmp(type, "node_lost") == 0))
		recount_artifacts(ev, data, strcmp(type, "node_lost") == 0);
	sim->n_submitted += type && strcmp(type, "submitted") == 0 && !cJSON_HasObjectItem(data, "array");
	if (!type || strncmp(type, "rank_", 5) != 0 || strcmp(type, "rank_started") == 0)
		return;
	k = rank_find((uint64_t)number(ev, "job", 0), (uint64_t)number(ev, "attempt", 0),
	              (uint64_t)number(data, "rank", -1));
	if (k && ++k->told_ends > 1)
		sim_bad("rank %llu of %llu.%llu ended twice", (unsigned long long)k->key[2],
		        (unsigned long long)k->key[0], (unsigned long long)k->key[1]);
}

/* Notices of events are lost with the controller; the store has them all. */
static void every_end_once(void)
{
	uint64_t after = 0;
	struct err e;

	for (;;) {
		cJSON *page = store_events_json(sim->w->reader, 0, after, 10000, &e);
		const cJSON *list = cJSON_GetObjectItemCaseSensitive(page, "events"), *ev;
		const cJSON *next = cJSON_GetObjectItemCaseSensitive(page, "next");

		if (!page)
			tap_bail("events: %s", e.text);
		cJSON_ArrayForEach (ev, list)
			recount(ev);
		after = cJSON_IsNumber(next) ? (uint64_t)next->valuedouble : 0;
		cJSON_Delete(page);
		if (!after)
			break;
	}
	for (const struct sim_rank *k = sim->ranks; k; k = k->hh.next)
		if (k->told_ends != 1)
			sim_bad("the end of rank %llu of %llu.%llu is on record %d times", (unsigned long long)k->key[2],
			        (unsigned long long)k->key[0], (unsigned long long)k->key[1], k->told_ends);
}

static void nothing_forgotten(void)
{
	for (const struct sim_artifact *a = sim->artifacts; a; a = a->next)
		if (!a->on_record && !a->excused)
			sim_bad("what %llu.%u left on %s was acknowledged and is not on record",
			        (unsigned long long)a->job, a->attempt, a->n->name);
	if (sim->n_submitted != sim->o.jobs)
		sim_bad("%u keys, %llu jobs", sim->o.jobs, (unsigned long long)sim->n_submitted);
}

static void all_free(void)
{
	for (unsigned i = 0; i < sim->o.nodes; i++) {
		const struct cnode *c = node_find(sim->w->core, sim->nodes[i].name);
		uint32_t gpus = 0, slots = 0;

		sched_node_free(sim->w->core->sched, c->r.id, &gpus, &slots, NULL);
		if (gpus != SIM_GPUS || slots != SIM_SLOTS)
			sim_bad("%s: %u GPUs and %u slots are free at the end", c->name, gpus, slots);
	}
	for (uint32_t p = 0; p < 65536; p++)
		if (sim->w->core->ports.used[p])
			sim_bad("port %u is in use at the end", p);
}

static void not_at_rest(const char *why)
{
	for (unsigned i = 0; i < sim->o.jobs && sim->up; i++) {
		const struct sim_job *j = &sim->jobs[i];
		const char *status = j->id ? world_status(sim->w, j->id) : "not acknowledged";

		if (strcmp(status, "completed") != 0 && strcmp(status, "failed") != 0 &&
		    strcmp(status, "stopped") != 0)
			sim_say("%s (job %llu) is %s", j->key, (unsigned long long)j->id, status);
	}
	for (const struct cnode *n = sim->up ? node_first(sim->w->core) : NULL; n; n = node_next(n))
		sim_say("%s: %s connected %d synced %d drain %d stale job %llu, %u jobs", n->name,
		        state_name(STATE_NODE, (int)n->r.state), n->connected, n->synced, n->r.drain,
		        n->stale ? (unsigned long long)n->stale->job : 0, n->n_jobs);
	sim_bad("it does not come to rest: %s", why);
}

/* At rest every clock that was measured is off by what was measured, within its error; unless one was set a
 * moment ago. */
static void check_clocks(void)
{
	if (simloop_now() - sim->jumped_us < 60000000)
		return;
	for (unsigned i = 0; sim->up && i < sim->o.nodes; i++) {
		const struct sim_node *s = &sim->nodes[i];
		const struct cnode *n = node_find(sim->w->core, s->name);
		int64_t off = (int64_t)(sim_real_us(s) - sim_real_us(NULL)), wrong;

		if (!n || !n->connected || !n->ahead_error_us)
			continue;
		wrong = n->ahead_us > off ? n->ahead_us - off : off - n->ahead_us;
		if ((uint64_t)wrong > n->ahead_error_us)
			sim_bad("%s: its clock is %lld us ahead, measured %lld within %llu", s->name, (long long)off,
			        (long long)n->ahead_us, (unsigned long long)n->ahead_error_us);
	}
}

/* ---- the scheduler's record -------------------------------------------------------------------- */

/* All lines of a part, malloc'ed; NULL: the store does not give them. */
static char *part_text(uint64_t part)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	uint64_t after = 0;

	while (f) {
		cJSON *page = store_history_lines(sim->w->reader, part, after, 1000, NULL), *piece;
		const cJSON *next = cJSON_GetObjectItemCaseSensitive(page, "next");

		cJSON_ArrayForEach (piece, cJSON_GetObjectItemCaseSensitive(page, "texts"))
			fputs(piece->valuestring, f);
		after = cJSON_IsNumber(next) ? (uint64_t)next->valuedouble : 0;
		cJSON_Delete(page);
		if (!after)
			break;
	}
	if (f)
		fclose(f);
	return text;
}

/* Each part of the record, told to the library again, gives the same decisions, and can be simulated. */
static void told_again(void)
{
	cJSON *all = store_history_parts(sim->w->reader, NULL), *p;
	static const struct replay_conf same;

	if (!cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(all, "parts")))
		sim_bad("the scheduler's record is empty");
	cJSON_ArrayForEach (p, cJSON_GetObjectItemCaseSensitive(all, "parts")) {
		uint64_t part = (uint64_t)cJSON_GetObjectItemCaseSensitive(p, "part")->valuedouble;
		char *text = part_text(part);
		struct replay_compared r = {0};
		struct replay_result would = {0};
		struct replay_mistake m = {0};

		if (!text || replay_compare(&same, text, strlen(text), &r, &m) < 0 ||
		    replay_simulate(&same, text, strlen(text), &would, &m) < 0)
			sim_bad("part %llu of the record: line %zu: %s", (unsigned long long)part, m.line, m.what);
		else if (r.differs)
			sim_bad("part %llu of the record: after %zu starts job %llu was started, the library takes %llu",
			        (unsigned long long)part, r.starts, (unsigned long long)r.was.job,
			        (unsigned long long)r.is.job);
		replay_compared_fini(&r);
		replay_result_fini(&would);
		free(text);
	}
	cJSON_Delete(all);
}

void sim_check_end(void)
{
	const char *why = restless();

	if (why) {
		not_at_rest(why);
		return;
	}
	for (unsigned i = 0; i < sim->o.jobs; i++) {
		const char *status = world_status(sim->w, sim->jobs[i].id);

		for (unsigned k = 0; k < i; k++)
			if (sim->jobs[k].id == sim->jobs[i].id)
				sim_bad("job %llu was given to two", (unsigned long long)sim->jobs[i].id);
		if (strcmp(status, "completed") != 0 && strcmp(status, "failed") != 0 &&
		    strcmp(status, "stopped") != 0)
			sim_bad("job %llu was acknowledged and is %s", (unsigned long long)sim->jobs[i].id,
			        *status ? status : "not on record");
	}
	for (unsigned i = 0; sim->o.gentle && i < sim->o.jobs; i++)
		if (strcmp(world_status(sim->w, sim->jobs[i].id), "completed") != 0)
			sim_bad("job %llu ran well and is %s", (unsigned long long)sim->jobs[i].id,
			        world_status(sim->w, sim->jobs[i].id));
	check_clocks();
	if (sim->n_calls != sim->n_answers)
		sim_bad("%llu requests, %llu answers", (unsigned long long)sim->n_calls,
		        (unsigned long long)sim->n_answers);
	all_free();
	every_end_once();
	nothing_forgotten();
	sim_begin_end();
	if (!sim->bad[0] && world_verify(sim->w) != 0)
		sim_bad("the store does not verify");
	if (!sim->bad[0])
		told_again();
}

void sim_check_fini(void)
{
	struct sim_rank *k, *t;

	sim_begin_fini();

	HASH_ITER (hh, sim->ranks, k, t) {
		HASH_DEL(sim->ranks, k);
		free(k);
	}
	for (unsigned i = 0; i < sim->o.nodes; i++)
		while (sim->nodes[i].places) {
			struct sim_place *p = sim->nodes[i].places;

			sim->nodes[i].places = p->next;
			free(p);
		}
	while (sim->artifacts) {
		struct sim_artifact *a = sim->artifacts;

		sim->artifacts = a->next;
		free(a);
	}
	free(sim->job_ended);
}
