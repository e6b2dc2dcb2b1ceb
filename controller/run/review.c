/*
 * review: decides what follows from a job's record now.
 *
 * It runs at the end of each turn for jobs that were touched, and at a job's deadline. It may run at any time
 * and any number of times: it compares the record with the clock and continues from there.
 */
#include "controller/run/attempt.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/park/park.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/record/verdict.h"
#include "controller/run/array.h"
#include "controller/run/collect.h"
#include "controller/run/recover.h"
#include "controller/share/alloc.h"
#include "controller/share/cost.h"
#include "controller/share/node_health.h"
#include "controller/state/core_state.h"
#include "controller/state/health.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

#define NODES_A_SECOND 10 /* a gang of so many nodes gets one more second to start */

int takes_over(const struct cjob *j)
{
	return j->act->parked && !rec_launched(j->r.att);
}

/* Returns 1 when the job may start on other nodes: no rank ran yet, and the job is not the cause. */
static int is_replaceable(const struct cjob *j, enum reason_class cls)
{
	int culprit = takes_over(j);

	for (uint32_t i = 0; i < j->r.att->n_places; i++)
		culprit |= j->r.att->places[i].culprit || j->r.att->places[i].state == PLACE_LOST ||
		           j->act->rt[i].vanished != NULL;
	return class_is_infrastructure(cls) && culprit && !rec_any_rank_started(j->r.att) &&
	       j->r.wanted != WANT_STOP;
}

int attempt_end_by(struct core *c, struct cjob *j, const struct verdict *v, cJSON *evidence)
{
	enum job_status status = is_replaceable(j, v->cls) ? JOB_RECOVERING : JOB_STOPPING;
	cJSON *d = cJSON_CreateObject();

	if (v->cls != RC_NONE)
		json_add_str(d, "class", state_name(STATE_CLASS, (int)v->cls));
	json_add_str(d, "status", state_name(STATE_JOB, (int)status));
	if (*v->reason)
		json_add_str(d, "reason", v->reason);
	if (evidence)
		cJSON_AddItemToObject(d, "evidence", evidence);
	if (job_post(c, j, EV_ENDING, d) < 0)
		return -1;
	j->act->end_us = now_boot(c);
	if (takes_over(j))
		park_spoiled(c, j);
	for (uint32_t i = 0; i < j->r.att->n_places && FAULT("mistake.early_release"); i++)
		alloc_release(c, j, j->r.att->places[i].node_id);
	if (end_wants_kill(&j->r))
		j->act->kill_us = now_boot(c);
	log_info("event=ending job=%" PRIu64 " attempt=%u class=%s kill=%d", j->r.id, j->r.att->number,
	         state_name(STATE_CLASS, (int)v->cls), j->act->kill_us != 0);
	job_touch(c, j);
	return 0;
}

void attempt_end(struct core *c, struct cjob *j, const struct verdict *v)
{
	attempt_end_by(c, j, v, NULL);
}

/* A node that is silent is to blame in a take-over, too: the cold attempt would wait for it once more. */
static void blame_node(struct core *c, struct cjob *j, uint32_t place, const char *text)
{
	cJSON *d = cJSON_CreateObject();

	if (j->r.att->places[place].culprit) {
		cJSON_Delete(d);
		return;
	}
	json_add_u64(d, "node_rank", place);
	json_add_str(d, "node", j->r.att->places[place].node);
	json_add_str(d, "text", text);
	if (job_post(c, j, EV_NODE_BLAMED, d) == 0)
		node_health_note(c, node_by_id(c, j->r.att->places[place].node_id), HEALTH_LAUNCH, text);
}

static void end_by_node(struct core *c, struct cjob *j, uint32_t place, const struct verdict *v)
{
	blame_node(c, j, place, v->reason);
	attempt_end(c, j, v);
}

/* ---- predicates: 1 when the attempt has to end; v says why ------------------------------------- */

static int wanted_end(const struct cjob *j, struct verdict *v)
{
	return j->r.wanted != WANT_NOTHING && verdict_set(v, RC_STOPPED, "%s", j->r.reason ? j->r.reason : "");
}

/* Finds a launch that failed or was lost. */
static int place_trouble(const struct cjob *j, struct verdict *v)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];

		if (p->state == PLACE_LOST)
			return verdict_set(v, RC_NODE_LOST, "node %s was lost%s%s", p->node, p->text ? ": " : "",
			                   p->text ? p->text : "");
		if (p->state == PLACE_FAILED)
			return verdict_set(v, p->cls, "node %s %s: %s", p->node,
			                   a->state == ATT_PREPARING ? "did not get ready" : "could not launch",
			                   p->text ? p->text : "no reason given");
	}
	return 0;
}

/* Finds a node whose agent stopped its part of the job because of a limit. */
static int limit_trouble(const struct cjob *j, struct verdict *v)
{
	const struct place_rec *p = rec_limited(j->r.att);

	return p && verdict_set(v, p->cls, "node %s: %s", p->node, p->text ? p->text : "a limit was passed");
}

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns the boot time at which the attempt has had its place for span_us. */
static uint64_t held_until(const struct cjob *j, uint64_t span_us)
{
	const struct active *a = j->act;

	return a->placed_us + (a->held_us < span_us ? span_us - a->held_us : 0);
}

/* Returns the boot time at which the time limit is reached; UINT64_MAX: no limit. All attempts count from
 * their placement; so does the scheduler. */
static uint64_t time_limit_at(const struct cjob *j)
{
	const struct active *a = j->act;

	if (!a->max_runtime_us)
		return UINT64_MAX;
	return held_until(j, a->max_runtime_us > a->before_us ? a->max_runtime_us - a->before_us : 0);
}

static int time_is_up(const struct core *c, const struct cjob *j, struct verdict *v)
{
	uint64_t limit = j->act->max_runtime_us;
	char span[40];

	return limit && now_boot(c) >= time_limit_at(j) &&
	       verdict_set(v, RC_TIMEOUT, "time limit of %s reached",
	                   str_duration(limit / 1000000, span, sizeof(span)));
}

static uint64_t prepare_limit_at(const struct core *c, const struct cjob *j)
{
	return held_until(j, (uint64_t)c->cfg.prepare_limit_s * 1000000);
}

/* Finds the first node that is not ready within prepare_limit. It makes progress, so nothing says that
 * another node is faster: the node is named, but not blamed. */
static int prepares_too_long(const struct core *c, const struct cjob *j, struct verdict *v)
{
	const struct attempt_rec *a = j->r.att;
	char span[40];
	uint32_t i = 0;

	if (now_boot(c) < prepare_limit_at(c, j))
		return 0;
	while (i + 1 < a->n_places && a->places[i].state == PLACE_READY)
		i++;
	return verdict_set(v, RC_STAGING,
	                   "preparing took longer than %s: node %s is not ready%s%s; make the inputs smaller or "
	                   "faster to fetch, or ask the administrator to raise prepare_limit",
	                   str_duration(c->cfg.prepare_limit_s, span, sizeof(span)), a->places[i].node,
	                   j->act->rt[i].phase[0] ? ", in " : "", j->act->rt[i].phase);
}

static void review_preparing(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	uint64_t now = now_boot(c), next = UINT64_MAX, limit = (uint64_t)c->cfg.prepare_timeout_s * 1000000;
	uint32_t ready = 0;
	struct verdict v;

	if (wanted_end(j, &v) || cost_is_up(c, j, &v) || place_trouble(j, &v) || time_is_up(c, j, &v)) {
		attempt_end(c, j, &v);
		return;
	}
	for (uint32_t i = 0; i < a->n_places; i++) {
		uint64_t at = j->act->rt[i].progress_us + limit;

		if (a->places[i].state == PLACE_READY) {
			ready++;
		} else if (place_over(a->places[i].state)) {
			verdict_set(&v, RC_AGENT, "node %s gave up while preparing", a->places[i].node);
			if (takes_over(j))
				attempt_end(c, j, &v);
			else
				end_by_node(c, j, i, &v);
			return;
		} else if (now >= at) {
			verdict_set(&v, RC_AGENT, "node %s did not get ready: no progress for %u s%s%s",
			            a->places[i].node, c->cfg.prepare_timeout_s, j->act->rt[i].phase[0] ? " in " : "",
			            j->act->rt[i].phase);
			end_by_node(c, j, i, &v);
			return;
		} else if (at < next) {
			next = at;
		}
	}
	if (ready < a->n_places && prepares_too_long(c, j, &v)) {
		attempt_end(c, j, &v);
		return;
	}
	if (ready < a->n_places) {
		next = earlier_of(next, prepare_limit_at(c, j));
		job_deadline(c, j, earlier_of(next, earlier_of(time_limit_at(j), cost_end_at(j))));
		return;
	}
	if (job_post(c, j, EV_LAUNCHING, NULL) == 0) {
		j->act->go_us = now;
		job_touch(c, j);
	}
}

static uint32_t open_ranks(const struct attempt_rec *a)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->n_ranks; i++)
		n += !rank_over(a->ranks[i].state);
	return n;
}

/* Finds the first rank that certainly did not succeed. */
static int rank_trouble(const struct cjob *j, struct verdict *v)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0; i < a->n_ranks; i++) {
		const struct rank_rec *k = &a->ranks[i];

		if (k->state == RANK_EXITED && k->exit_code == 0 && k->signal <= 0 && !k->oom)
			continue;
		if (!rank_over(k->state) && place_over(a->places[k->place].state))
			return verdict_set(v, RC_LAUNCH, "the launch on node %s ended before its rank %u did",
			                   a->places[k->place].node, i);
		if (!rank_over(k->state))
			continue;
		return verdict_set(v, rec_rank_class(k), "rank %u on %s %s", i, a->places[k->place].node,
		                   k->state == RANK_LOST     ? "is lost"
		                   : k->state == RANK_FAILED ? "could not start"
		                   : k->oom                  ? "ran out of memory"
		                                             : "failed");
	}
	return 0;
}

static uint32_t launch_timeout_s(const struct core *c, const struct cjob *j)
{
	/* mpirun's daemons start along a tree, and the reports of many nodes arrive one after the other. */
	uint32_t of_nodes = (j->r.att->n_places - 1) / NODES_A_SECOND;

	switch (launcher_facts(j->act->spec->launcher)->timeout) {
	case START_WITHIN_RENDEZVOUS:
		return of_nodes + c->cfg.rendezvous_timeout_s;
	case START_WITHIN_READY:
		break;
	}
	return of_nodes + c->cfg.ready_timeout_s;
}

static void end_by_launch_timeout(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	uint32_t silent = a->n_places;
	struct verdict v;

	/* Under mpirun, name the first node whose orted does not run. Other launchers give no such sign. */
	for (uint32_t i = 0; i < a->n_places && silent == a->n_places; i++)
		if (a->places[i].state < PLACE_RUNNING)
			silent = i;
	if (silent == a->n_places) {
		verdict_set(&v, RC_LAUNCH, "no rank started within %u s of the launch", launch_timeout_s(c, j));
		attempt_end(c, j, &v);
		return;
	}
	verdict_set(&v, RC_LAUNCH, "no rank started within %u s of the launch; node %s has started nothing",
	            launch_timeout_s(c, j), a->places[silent].node);
	end_by_node(c, j, silent, &v);
}

static int has_to_end(struct core *c, const struct cjob *j, struct verdict *v)
{
	if (wanted_end(j, v) || place_trouble(j, v) || limit_trouble(j, v) || rank_trouble(j, v))
		return 1;
	if (!open_ranks(j->r.att))
		return verdict_set(v, RC_NONE, "%s", "");
	return cost_is_up(c, j, v);
}

static void review_launching(struct core *c, struct cjob *j)
{
	uint64_t at = j->act->go_us + (uint64_t)launch_timeout_s(c, j) * 1000000;

	if (now_boot(c) >= at)
		end_by_launch_timeout(c, j);
	else
		job_deadline(c, j, earlier_of(at, earlier_of(time_limit_at(j), cost_end_at(j))));
}

static void review_running(struct core *c, struct cjob *j)
{
	struct verdict v;

	if (has_to_end(c, j, &v)) {
		attempt_end(c, j, &v);
		return;
	}
	if (time_is_up(c, j, &v))
		attempt_end(c, j, &v);
	else if (j->r.att->state == ATT_LAUNCHING)
		review_launching(c, j);
	else
		job_deadline(c, j, earlier_of(time_limit_at(j), cost_end_at(j)));
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void cleanup_says(struct core *c, struct cjob *j, const char *text)
{
	cJSON *d;

	if (j->r.cleanup && strstr(j->r.cleanup, text))
		return;
	d = cJSON_CreateObject();
	if (j->r.cleanup) {
		char *all = xasprintf("%.1500s; %s", j->r.cleanup, text);

		json_add_str(d, "text", all);
		free(all);
	} else {
		json_add_str(d, "text", text);
	}
	job_post(c, j, EV_CLEANUP, d);
}

static void review_kill(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	uint64_t now = now_boot(c);
	uint64_t margin = rec_launched(a) ? (uint64_t)recover_grace_ms(j) * 1000 + KILL_MARGIN_US : GIVE_UP_US;
	uint64_t at = j->act->kill_us ? j->act->kill_us + margin : j->act->end_us + FINISH_WAIT_US;

	if (now < at) {
		job_deadline(c, j, at);
		return;
	}
	if (!j->act->kill_us) { /* all ranks have ended, but mpirun or an orted hangs */
		j->act->kill_us = now;
		job_touch(c, j);
		return;
	}
	for (uint32_t i = 0; i < a->n_places; i++) {
		TEXT(text);

		if (place_over(a->places[i].state))
			continue;
		text_add(&text, "node %s has not confirmed the end of its processes", a->places[i].node);
		cleanup_says(c, j, text.at);
		place_lost(c, j, i, 0, 1, text.at);
	}
}

uint64_t review_open_places(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	uint64_t now = now_boot(c), next = UINT64_MAX, limit = (uint64_t)c->cfg.prepare_timeout_s * 1000000;

	for (uint32_t i = 0; i < a->n_places; i++) {
		uint64_t at = j->act->rt[i].progress_us + limit;
		TEXT(text);

		if (a->places[i].state >= PLACE_CLEANED)
			continue;
		if (now < at) {
			if (at < next)
				next = at;
			continue;
		}
		text_add(&text, "node %s has not finished uploading and cleaning up: no progress for %u s",
		         a->places[i].node, c->cfg.prepare_timeout_s);
		cleanup_says(c, j, text.at);
		place_lost(c, j, i, 0, 1, text.at);
	}
	return next;
}

static void review_collect(struct core *c, struct cjob *j)
{
	uint64_t at = review_open_places(c, j);

	if (at == UINT64_MAX ? !j->collect : collect_may_begin(c, j))
		finish_attempt(c, j);
	else if (at != UINT64_MAX)
		job_deadline(c, j, at);
	/* else the attempt before it is still being collected: its end is looked at again then */
}

static void review_ending(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0; a->outcome == OUT_NONE && i < a->n_places; i++) {
		if (!place_over(a->places[i].state)) {
			review_kill(c, j);
			return;
		}
	}
	if (a->outcome == OUT_NONE) {
		decide_outcome(c, j);
		if (a->outcome == OUT_NONE)
			return;
	}
	review_collect(c, j);
}

/* Queues a job that waits for other jobs, now that all jobs are loaded. */
static void queue_loaded(struct core *c, struct cjob *j)
{
	struct job_spec *s;
	struct err e;

	j->to_queue = 0;
	if (j->r.status != JOB_QUEUED)
		return;
	s = job_parse_spec(c, j, &e);
	if (s)
		array_queue(c, j, s);
	else
		log_error("event=spec_refused job=%" PRIu64 " text=\"%s\"", j->r.id, e.text);
	spec_destroy(s);
}

void job_review(struct core *c, struct cjob *j)
{
	if (j->to_queue)
		queue_loaded(c, j);
	wait_review(c, j);
	if (j->r.status == JOB_RECOVERING && !j->act)
		recover_review(c, j);
	if (!j->act || !j->r.att) {
		collect_review(c, j);
		return;
	}
	switch (j->r.att->state) {
	case ATT_PREPARING:
		review_preparing(c, j);
		break;
	case ATT_LAUNCHING:
	case ATT_RUNNING:
		review_running(c, j);
		break;
	case ATT_ENDING:
		review_ending(c, j);
		break;
	case ATT_ENDED:
		break;
	case N_ATTEMPT_STATE:
		break;
	}
	send_orders(c, j);
	collect_review(c, j);
}
