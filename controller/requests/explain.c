/*
 * explain: answers of the whole state: why a job waits, the nodes, the overview, the counters.
 */
#include "controller/requests/requests.h"

#include <math.h>
#include <string.h>

#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "controller/cluster/lease.h"
#include "controller/record/cluster.h"
#include "controller/record/inventory.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/requests/array_req.h"
#include "controller/requests/pool_notes.h"
#include "controller/requests/suggest.h"
#include "controller/run/recover.h"
#include "controller/run/resolve.h"
#include "controller/share/alloc.h"
#include "controller/share/budget.h"
#include "controller/share/forecast.h"
#include "controller/share/instances.h"
#include "controller/share/node_health.h"
#include "controller/share/reserve.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define WHY_BYTES     1500 /* of the answer to why */
#define TOP_WAITING   20
#define TOP_EXPLAINED 5 /* jobs with a reason; each needs a look at all nodes */

/* ---- why ------------------------------------------------------------------------------------- */

/* Adds the jobs that go first, and the expected start. */
static void why_when(struct core *c, const struct cjob *j, cJSON *body, struct text *t)
{
	struct sched_forecast f;
	cJSON *first = cJSON_AddArrayToObject(body, "next");
	TEXT(when);

	forecast_job(c, j->r.id, NULL, NULL, &f);
	forecast_json(c, &f, body);
	for (uint32_t i = 0; i < f.n_first; i++)
		cJSON_AddItemToArray(first, cJSON_CreateNumber((double)f.first[i]));
	if (forecast_text(c, &f, when.at, when.size))
		text_add(t, "; %s", when.at);
	free(f.places);
}

/* Adds the change of the request with which the job would fit. */
static void why_change(struct core *c, struct cjob *j, enum sched_why why, cJSON *body, struct text *t)
{
	struct err e;
	struct job_spec *s = job_parse_spec(c, j, &e);
	TEXT(change);

	if (s) {
		suggest(c, s, j, j->r.owner, 0, body, &change);
		suggest_resume(c, s, j, j->r.owner, why, body, &change);
		text_add(t, "%s", change.at);
	}
	spec_destroy(s);
}

/* Returns why a node takes no jobs. "up" explains nothing: such a node is disconnected, connecting, or busy
 * with old launches. */
static const char *closed_word(const struct cnode *n)
{
	if (n->r.drain)
		return "drained";
	if (n->r.state != NODE_UP)
		return state_name(STATE_NODE, (int)n->r.state);
	return !n->connected         ? "not connected"
	       : node_outdated(n)    ? "upgrade its agent"
	       : n->stale            ? "ending old launches"
	       : n->suspect_since_us ? "suspect"
	                             : "connecting";
}

/* Returns the reason that an administrator gave; NULL: none, or only the word "drained". */
static const char *own_reason(const struct cnode *n)
{
	const char *r = n->r.reason && *n->r.reason ? n->r.reason : NULL;

	return r && n->r.drain && strcmp(r, "drained") == 0 ? NULL : r;
}

/* Adds the first nodes that take no jobs, with their reasons. While other nodes are only busy, those whose
 * agents are to be upgraded: somebody must do that. */
static void add_closed(const struct core *c, int busy, struct text *t)
{
	unsigned named = 0, more = 0;

	for (const struct cnode *n = node_first(c); n; n = node_next(n)) {
		if (!n->in_sched || n->sched_usable || (busy && !node_outdated(n)))
			continue;
		if (named == 4) {
			more++;
			continue;
		}
		text_add(t, "%s%s (%s%s%s)", named++ ? ", " : "; closed nodes: ", n->name, closed_word(n),
		         own_reason(n) ? ": " : "", own_reason(n) ? own_reason(n) : "");
	}
	if (more)
		text_add(t, " and %u more", more);
}

/* Adds reservations that keep nodes from the job while it would run. */
static void add_reserved(struct core *c, uint64_t job, struct text *t)
{
	struct cjob *j = job_find(c, job);
	struct err e;
	struct job_spec *s = j && reserve_first(c) ? job_parse_spec(c, j, &e) : NULL;
	TEXT(kept);

	if (s && reserve_why(c, j, alloc_limit_s(c, j, s), kept.at, kept.size))
		text_add(t, "; %s", kept.at);
	spec_destroy(s);
}

static void why_queued(struct core *c, struct cjob *j, cJSON *body, cJSON *waits, struct text *t)
{
	static const char *const what[] = {
	    [SCHED_FITS] = "scheduling",      [SCHED_BUSY] = "resources",   [SCHED_BEHIND] = "turn",
	    [SCHED_NO_NODES] = "nodes",       [SCHED_IMPOSSIBLE] = "nodes", [SCHED_QUOTA] = "quota",
	    [SCHED_CLOSED] = "budget",        [SCHED_DEPENDS] = "jobs",     [SCHED_NEVER] = "jobs",
	    [SCHED_RESERVED] = "reservation", [SCHED_REPLACING] = "nodes",  [SCHED_POOL] = "pool"};
	struct sched_reason r;

	if (j->r.array && !j->admitted) {
		cJSON_AddItemToArray(waits, cJSON_CreateString("turn"));
		array_why_member(c, j, t);
		return;
	}
	sched_explain(c->sched, j->r.id, &r);
	budget_explain(c, j->r.queue, j->r.owner, &r);
	cJSON_AddItemToArray(waits, cJSON_CreateString(what[r.why]));
	json_add_u64(body, "ahead", r.ahead);
	if (r.behind)
		json_add_u64(body, "behind", r.behind);
	if (r.due_s)
		cJSON_AddTrueToObject(body, "due");
	json_add_u64(body, "need_instances", r.need_instances);
	json_add_u64(body, "free_instances", r.free_instances);
	json_add_u64(body, "possible_instances", r.possible_instances);
	text_add(t, "%s", r.text);
	if (r.why == SCHED_IMPOSSIBLE || r.why == SCHED_NO_NODES || r.why == SCHED_BUSY)
		add_closed(c, r.why == SCHED_BUSY, t);
	if (r.why == SCHED_RESERVED || r.why == SCHED_BUSY)
		add_reserved(c, j->r.id, t);
	if (r.ahead && r.why != SCHED_DEPENDS && r.why != SCHED_NEVER)
		text_add(t, "; %u job%s ahead", r.ahead, r.ahead == 1 ? "" : "s");
	if (r.why != SCHED_DEPENDS && r.why != SCHED_NEVER) {
		why_change(c, j, r.why, body, t);
		why_when(c, j, body, t);
	}
	if (j->r.attempts && j->r.reason)
		text_add(t, " (%s)", j->r.reason);
	if (c->life.failing)
		text_add(t, "; nothing is started while the store cannot be written: %s", c->life.fail_err.text);
}

/* Between two attempts: waits for the back-off, or for nodes. Follows S-156. */
static void why_recovering(struct core *c, struct cjob *j, cJSON *body, cJSON *waits, struct text *t)
{
	struct sched_reason r;

	if (!alloc_exchanges(c, j)) {
		recover_why(c, j, t);
		return;
	}
	sched_explain(c->sched, j->r.id, &r);
	cJSON_AddItemToArray(waits, cJSON_CreateString("nodes"));
	json_add_u64(body, "need_instances", r.need_instances);
	json_add_u64(body, "free_instances", r.free_instances);
	json_add_u64(body, "possible_instances", r.possible_instances);
	text_add(t, "%s", r.text);
	recover_why(c, j, t);
}

static void add_progress(const struct place_rt *rt, struct text *t)
{
	char done[24], total[24];

	if (!rt->phase[0])
		return;
	text_add(t, " (%s", rt->phase);
	if (rt->total_bytes)
		text_add(t, ", %s of %s", str_size(rt->done_bytes, done, sizeof(done)),
		         str_size(rt->total_bytes, total, sizeof(total)));
	text_add(t, ")");
}

static void why_nodes(struct core *c, const struct cjob *j, cJSON *waits, enum place_state until,
                      const char *verb, struct text *t)
{
	const struct attempt_rec *a = j->r.att;
	unsigned named = 0, more = 0;

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];
		const struct cnode *n = node_by_id(c, p->node_id);

		if (p->state >= until)
			continue;
		cJSON_AddItemToArray(waits, cJSON_CreateString(p->node));
		if (named == 4) {
			more++;
			continue;
		}
		text_add(t, "%s%s", named++ ? ", " : verb, p->node);
		if (!n || !n->connected || node_outdated(n))
			text_add(t, n && n->connected ? " (gets no orders: upgrade its agent)" : " (not connected)");
		else
			add_progress(&j->act->rt[i], t);
	}
	if (more)
		text_add(t, " and %u more", more);
}

static void add_silence(const struct core *c, const struct cnode *n, struct text *t)
{
	char span[40];

	text_add(t, "%s for %s%s", n->connected ? "silent" : "not connected",
	         str_duration(node_silent_us(c, n) / 1000000, span, sizeof(span)),
	         node_may_run_alone(c, n)
	             ? "; hearthd does not declare it lost, because its processes may still run. If the "
	               "machine is certainly down: jobctl node lost"
	             : "");
}

/* Adds nodes of the job that are not heard or not understood: the states of their ranks are old. */
static void why_silent(const struct core *c, const struct cjob *j, struct text *t)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0, named = 0; i < a->n_places && named < 4; i++) {
		const struct cnode *n = node_by_id(c, a->places[i].node_id);

		if (place_over(a->places[i].state) || !n || n->r.state != NODE_UP)
			continue;
		if (n->connected && !node_outdated(n))
			continue;
		text_add(t, "; node %s %s", n->name, n->connected ? "gets no orders: upgrade its agent" : "is ");
		if (!n->connected)
			add_silence(c, n, t);
		named++;
	}
}

static void why_active(struct core *c, const struct cjob *j, cJSON *waits, struct text *t)
{
	const struct attempt_rec *a = j->r.att;
	uint32_t running = 0, over = 0;

	switch (a->state) {
	case ATT_PREPARING:
		why_nodes(c, j, waits, PLACE_READY, "waits for nodes to get ready: ", t);
		break;
	case ATT_LAUNCHING:
	case ATT_RUNNING:
		for (uint32_t i = 0; i < a->n_ranks; i++) {
			running += a->ranks[i].state == RANK_RUNNING;
			over += (uint32_t)rank_over(a->ranks[i].state);
		}
		text_add(t, "%u of %u rank%s run%s", running, a->n_ranks, a->n_ranks == 1 ? "" : "s",
		         a->n_ranks == 1 ? "s" : "");
		if (over)
			text_add(t, ", %u ha%s ended", over, over == 1 ? "s" : "ve");
		why_silent(c, j, t);
		break;
	case ATT_ENDING:
		if (j->r.reason)
			text_add(t, "%s; ", j->r.reason);
		if (a->outcome == OUT_NONE)
			why_nodes(c, j, waits, PLACE_ENDED, "waits for processes to end on ", t);
		else
			why_nodes(c, j, waits, PLACE_CLEANED, "waits for uploading and cleaning up on ", t);
		break;
	default:
		break;
	}
}

void req_why(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	char bytes[WHY_BYTES], ref[REC_REF_SIZE];
	struct text t = text_on(bytes, sizeof(bytes));
	cJSON *body, *waits;

	if (!j)
		return;
	if (j->r.members) {
		array_why(c, rq, j);
		return;
	}
	body = cJSON_CreateObject();
	json_add_u64(body, "id", j->r.id);
	json_add_str(body, "ref", rec_ref(&j->r, ref));
	json_add_str(body, "status", state_name(STATE_JOB, (int)j->r.status));
	waits = cJSON_AddArrayToObject(body, "waits_for");
	if (j->r.status == JOB_QUEUED) {
		why_queued(c, j, body, waits, &t);
	} else if (j->r.status == JOB_HELD) {
		cJSON_AddItemToArray(waits, cJSON_CreateString("release"));
		text_add(&t, "%s; jobctl release %s lets it go", j->r.reason ? j->r.reason : "held", ref);
		if (j->r.attempts) {
			text_add(&t, ": it then ");
			begins_say(c, j, j->r.begins, &t);
		}
	} else if (j->r.status == JOB_RECOVERING && j->r.att && !j->act) {
		why_recovering(c, j, body, waits, &t);
	} else if (job_ended(j->r.status) || !j->r.att || !j->act) {
		text_add(&t, "%s",
		         j->r.reason                    ? j->r.reason
		         : j->r.status == JOB_COMPLETED ? "every rank exited with 0"
		                                        : "no reason recorded");
	} else {
		why_active(c, j, waits, &t);
	}
	pool_note_job(c, j, body, &t);
	if (j->r.cleanup)
		text_add(&t, "; clean-up: %s", j->r.cleanup);
	json_add_str(body, "text", t.at);
	if (!cJSON_GetObjectItemCaseSensitive(body, "ahead"))
		cJSON_AddNumberToObject(body, "ahead", 0);
	hold_reply(c, rq, 200, body);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint64_t gpu_holder(const struct cnode *n, uint32_t index)
{
	for (uint32_t i = 0; i < n->n_jobs; i++) {
		const struct place_rec *p = rec_place_of(n->jobs[i]->r.att, n->r.id);

		for (uint32_t k = 0; p && k < p->gpus.n; k++)
			if (p->gpus.v[k] == index)
				return n->jobs[i]->r.id;
	}
	return 0;
}

static cJSON *gpus_json(const struct cnode *n)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < n->inv.n_gpus; i++) {
		const struct inv_gpu *g = &n->inv.gpus[i];
		uint64_t job = gpu_holder(n, g->index);
		cJSON *o = cJSON_CreateObject();

		json_add_u64(o, "index", g->index);
		json_add_str(o, "model", g->model);
		json_add_str(o, "uuid", g->uuid);
		json_add_u64(o, "memory_bytes", g->memory_bytes);
		if (job)
			json_add_u64(o, "job", job);
		else
			cJSON_AddNullToObject(o, "job");
		if (i < n->gpu_util.n)
			cJSON_AddNumberToObject(o, "util", n->gpu_util.v[i]);
		if (i < n->gpu_memory_used.n)
			json_add_u64(o, "memory_used", n->gpu_memory_used.v[i]);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

static const char *shown_state(const struct core *c, const struct cnode *n)
{
	if (n->r.state != NODE_UP)
		return state_name(STATE_NODE, (int)n->r.state);
	if (n->suspect_since_us)
		return "suspect";
	if (!n->connected)
		return "down";
	if (node_outdated(n))
		return "incompatible";
	if (!n->synced)
		return "connecting";
	return reserve_maintains(c, n->name) ? "maintenance" : n->r.drain ? "drained" : "up";
}

static void shown_reason(const struct core *c, const struct cnode *n, struct text *t)
{
	TEXT(health);

	if (node_outdated(n))
		node_outdated_text(n, t);
	if (n->r.state == NODE_UP && (!n->connected || n->suspect_since_us || node_may_run_alone(c, n)))
		add_silence(c, n, t);
	if (own_reason(n))
		text_join(t, "; ", "%s", own_reason(n));
	else if (n->stale && text_is_empty(t))
		text_add(t, "a launch that must not be there is being removed");
	if (n->r.spare)
		text_join(t, "; ", "spare: it only replaces nodes that jobs lost");
	if (n->connected && node_skewed(n))
		text_join(t, "; ", "its clock is %.1f s %s hearthd's: run NTP or chrony",
		          fabs((double)n->ahead_us) / 1e6, n->ahead_us > 0 ? "ahead of" : "behind");
	if (n->r.state == NODE_UP && node_health(c, n))
		text_join(t, "; ", "the scheduler prefers other nodes: %s",
		          health_text(&n->health, now_boot(c), health.at, health.size));
}

static cJSON *node_json(const struct core *c, const struct cnode *n, const struct pool_places *warm)
{
	cJSON *o = cJSON_CreateObject(), *jobs, *labels, *reservations = cJSON_CreateArray();
	uint32_t gpus = n->inv.n_gpus, slots = n->inv.slots;
	uint64_t memory = n->inv.memory_bytes;
	TEXT(reason);
	TEXT(reserved);

	sched_node_free(c->sched, n->r.id, &gpus, &slots, &memory);
	json_add_u64(o, "id", n->r.id);
	json_add_str(o, "name", n->name);
	json_add_str(o, "state", shown_state(c, n));
	shown_reason(c, n, &reason);
	reserve_of_node(c, n->name, reservations, reserved.at, reserved.size);
	if (*reserved.at)
		text_join(&reason, "; ", "%s", reserved.at);
	json_add_str(o, "reason", reason.at);
	cJSON_AddItemToObject(o, "reservations", reservations);
	pool_places_json(warm, n->r.id, o);
	cJSON_AddBoolToObject(o, "connected", n->connected);
	cJSON_AddBoolToObject(o, "drain", n->r.drain);
	cJSON_AddBoolToObject(o, "spare", n->r.spare);
	if (n->version)
		json_add_u64(o, "protocol", n->version);
	else
		cJSON_AddNullToObject(o, "protocol");
	json_add_str(o, "address", n->inv.address ? n->inv.address : "");
	json_add_str(o, "instance_type", n->inv.instance_type ? n->inv.instance_type : "");
	json_add_u64(o, "cpus", n->inv.cpus);
	json_add_u64(o, "slots", n->inv.slots);
	json_add_u64(o, "slots_used", n->inv.slots > slots ? n->inv.slots - slots : 0);
	json_add_u64(o, "gpus", n->inv.n_gpus);
	json_add_u64(o, "gpus_used", n->inv.n_gpus > gpus ? n->inv.n_gpus - gpus : 0);
	cJSON_AddItemToObject(o, "gpu_list", gpus_json(n));
	json_add_u64(o, "memory_bytes", n->inv.memory_bytes);
	json_add_u64(o, "memory_held_bytes", n->inv.memory_bytes > memory ? n->inv.memory_bytes - memory : 0);
	json_add_u64(o, "memory_used_bytes", n->memory_used);
	json_add_u64(o, "disk_bytes", n->inv.disk_bytes);
	json_add_u64(o, "disk_free_bytes", n->disk_free);
	cJSON_AddNumberToObject(o, "load1", n->load1);
	cJSON_AddNumberToObject(o, "cpu_used", n->cpu_used);
	cJSON_AddNumberToObject(o, "price_per_hour", node_price(c, n));
	cJSON_AddNumberToObject(o, "power_w", node_power(c, n));
	node_health_json(c, n, o);
	if (n->beat_us)
		json_add_u64(o, "beat_age_ms", (now_boot(c) - n->beat_us) / 1000);
	else
		cJSON_AddNullToObject(o, "beat_age_ms");
	if (n->ahead_error_us) {
		cJSON_AddNumberToObject(o, "clock_ahead_ms", (double)n->ahead_us / 1e3);
		cJSON_AddNumberToObject(o, "clock_error_ms", (double)n->ahead_error_us / 1e3);
	} else {
		cJSON_AddNullToObject(o, "clock_ahead_ms");
		cJSON_AddNullToObject(o, "clock_error_ms");
	}
	json_add_time(o, "joined_at", n->r.joined_us);
	json_add_time(o, "seen_at", n->r.seen_us);
	json_add_time(o, "suspect_since", n->suspect_since_us);
	json_add_str(o, "switch", node_label(n, "switch"));
	json_add_str(o, "rack", node_label(n, "rack"));
	labels = cJSON_AddArrayToObject(o, "labels");
	for (size_t i = 0; i < n->inv.labels.n; i++)
		cJSON_AddItemToArray(labels, cJSON_CreateString(n->inv.labels.v[i]));
	jobs = cJSON_AddArrayToObject(o, "jobs");
	for (uint32_t i = 0; i < n->n_jobs; i++)
		cJSON_AddItemToArray(jobs, cJSON_CreateNumber((double)n->jobs[i]->r.id));
	return o;
}

static int by_name(const struct cluster_rec *a, const struct cluster_rec *b)
{
	return strverscmp(a->name, b->name);
}

void req_nodes(struct core *c, struct request *rq)
{
	cJSON *body = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(body, "nodes");
	struct pool_places *warm = pool_places_create(c);
	struct err e;

	HASH_SORT(c->records.all[CLUSTER_NODE], by_name);
	for (const struct cnode *n = node_first(c); n; n = node_next(n))
		if (n->r.state != NODE_REMOVED && (!rq->node || strcmp(rq->node, n->name) == 0))
			cJSON_AddItemToArray(list, node_json(c, n, warm));
	pool_places_destroy(warm);
	if (rq->node && !list->child) {
		cJSON_Delete(body);
		node_unknown(c, rq->node, &e);
		reply_err(c, rq, &e);
		return;
	}
	hold_reply(c, rq, 200, body);
}

/* ---- overview -------------------------------------------------------------------------------- */

struct sums {
	uint64_t total, up, gpus, gpus_used, slots, slots_used;
};

static void sum_nodes(const struct core *c, struct sums *s)
{
	*s = (struct sums){0};
	for (const struct cnode *n = node_first(c); n; n = node_next(n)) {
		uint32_t gpus = n->inv.n_gpus, slots = n->inv.slots;

		if (n->r.state == NODE_REMOVED)
			continue;
		s->total++;
		if (n->r.state != NODE_UP || !n->connected || !n->synced)
			continue;
		sched_node_free(c->sched, n->r.id, &gpus, &slots, NULL);
		s->up++;
		s->gpus += n->inv.n_gpus;
		s->slots += n->inv.slots;
		s->gpus_used += n->inv.n_gpus > gpus ? n->inv.n_gpus - gpus : 0;
		s->slots_used += n->inv.slots > slots ? n->inv.slots - slots : 0;
	}
}

static cJSON *active_json(const struct core *c, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *o = cJSON_CreateObject(), *nodes, *metrics;
	char ref[REC_REF_SIZE];

	json_add_u64(o, "id", j->r.id);
	json_add_str(o, "ref", rec_ref(&j->r, ref));
	json_add_str(o, "name", j->r.name);
	json_add_str(o, "owner", j->r.owner);
	json_add_str(o, "status", state_name(STATE_JOB, (int)j->r.status));
	json_add_u64(o, "attempt", a->number);
	json_add_u64(o, "gpus", j->r.gpus);
	json_add_time(o, "started_at", j->r.started_us);
	if (j->r.ran_us || j->r.runs_since_us)
		cJSON_AddNumberToObject(
		    o, "ran_s", (double)(ran_until_us(j->r.ran_us, j->r.runs_since_us, now_real(c)) / 1000) / 1e3);
	else
		cJSON_AddNullToObject(o, "ran_s");
	nodes = cJSON_AddArrayToObject(o, "nodes");
	for (uint32_t i = 0; i < a->n_places && i < 64; i++)
		cJSON_AddItemToArray(nodes, cJSON_CreateString(a->places[i].node));
	metrics = cJSON_AddObjectToObject(o, "metrics");
	for (uint32_t i = 0; i < j->act->n_last; i++)
		cJSON_AddNumberToObject(cJSON_AddObjectToObject(metrics, j->act->last[i].name), "last",
		                        j->act->last[i].value);
	return o;
}

/* Returns 1 for the first node that still has the job, so that each job is listed once. */
static int first_place_here(const struct cjob *j, uint64_t node)
{
	for (uint32_t i = 0; i < j->r.att->n_places; i++)
		if (j->r.att->places[i].state < PLACE_CLEANED)
			return j->r.att->places[i].node_id == node;
	return 0;
}

static cJSON *running_json(const struct core *c, size_t max)
{
	cJSON *list = cJSON_CreateArray();
	size_t k = 0;

	for (const struct cnode *n = node_first(c); n; n = node_next(n))
		for (uint32_t i = 0; i < n->n_jobs && k < max; i++)
			if (first_place_here(n->jobs[i], n->r.id) && ++k)
				cJSON_AddItemToArray(list, active_json(c, n->jobs[i]));
	return list;
}

static cJSON *waiting_json(const struct core *c)
{
	uint64_t ids[TOP_WAITING];
	size_t n = sched_waiting(c->sched, ids, TOP_WAITING);
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < n; i++) {
		const struct cjob *j = job_find(c, ids[i]);
		char ref[REC_REF_SIZE];
		struct sched_reason r;
		cJSON *o;

		if (!j)
			continue;
		r.text[0] = '\0';
		if (i < TOP_EXPLAINED) {
			sched_explain(c->sched, ids[i], &r);
			budget_explain(c, j->r.queue, j->r.owner, &r);
		}
		o = cJSON_CreateObject();
		json_add_u64(o, "id", j->r.id);
		json_add_str(o, "ref", rec_ref(&j->r, ref));
		json_add_str(o, "name", j->r.name);
		json_add_str(o, "owner", j->r.owner);
		cJSON_AddNumberToObject(o, "priority", (double)j->r.priority);
		json_add_u64(o, "nodes", j->r.nodes);
		json_add_u64(o, "gpus", j->r.gpus);
		json_add_time(o, "queued_at", j->r.queued_us);
		json_add_str(o, "text", r.text);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

/* Adds a problem for the administrator. The store's message names files, so only some users may read it. */
static void add_problem(const struct core *c, cJSON *body, int to_anybody)
{
	if (c->life.failing)
		json_add_str(body, "problem",
		             to_anybody ? "nothing can be recorded, the store fails; jobctl top says why"
		                        : c->life.fail_err.text);
	else if (c->life.no_room)
		json_add_str(body, "problem", c->life.no_room);
}

void req_top(struct core *c, struct request *rq)
{
	cJSON *body = cJSON_CreateObject(), *nodes = cJSON_AddObjectToObject(body, "nodes"),
	      *jobs = cJSON_AddObjectToObject(body, "jobs");
	struct pool_places *warm = pool_places_create(c);
	struct sums s;

	sum_nodes(c, &s);
	pool_places_sums(warm, nodes);
	pool_places_destroy(warm);
	json_add_u64(nodes, "total", s.total);
	json_add_u64(nodes, "up", s.up);
	json_add_u64(nodes, "gpus", s.gpus);
	json_add_u64(nodes, "gpus_used", s.gpus_used);
	json_add_u64(nodes, "slots", s.slots);
	json_add_u64(nodes, "slots_used", s.slots_used);
	json_add_u64(jobs, "running", c->jobs.counts[JOB_RUNNING]);
	json_add_u64(jobs, "starting", c->jobs.counts[JOB_STARTING] + c->jobs.counts[JOB_RECOVERING]);
	json_add_u64(jobs, "stopping", c->jobs.counts[JOB_STOPPING]);
	json_add_u64(jobs, "waiting", c->jobs.counts[JOB_QUEUED]);
	json_add_u64(jobs, "held", c->jobs.counts[JOB_HELD]);
	cJSON_AddItemToObject(body, "running", running_json(c, 1000));
	cJSON_AddItemToObject(body, "waiting", waiting_json(c));
	add_problem(c, body, 0);
	hold_reply(c, rq, 200, body);
}

void req_stats(struct core *c, struct request *rq)
{
	cJSON *body = cJSON_CreateObject(), *jobs = cJSON_AddObjectToObject(body, "jobs");
	struct sums s;

	for (int i = 0; i < N_JOB_STATUS; i++)
		json_add_u64(jobs, state_name(STATE_JOB, i), c->jobs.counts[i]);
	sum_nodes(c, &s);
	json_add_u64(body, "nodes_known", s.total);
	json_add_u64(body, "nodes_up", s.up);
	json_add_u64(body, "gpus", s.gpus);
	json_add_u64(body, "gpus_used", s.gpus_used);
	json_add_u64(body, "slots", s.slots);
	json_add_u64(body, "slots_used", s.slots_used);
	json_add_u64(body, "nodes_lost_total", c->nodes.n_lost);
	json_add_u64(body, "events_total", c->turn.n_events);
	json_add_u64(body, "commits_total", c->turn.n_commits);
	json_add_u64(body, "commits_failed_total", c->turn.n_failed);
	json_add_u64(body, "store_failing", c->life.failing ? 1 : 0);
	json_add_u64(body, "turns_total", c->life.turns.turns);
	json_add_u64(body, "turns_late_total", c->life.turns.late);
	json_add_u64(body, "turn_longest_us", c->life.turns.longest_us);
	add_problem(c, body, 1);
	hold_reply(c, rq, 200, body);
}
