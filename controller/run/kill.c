/*
 * kill: the end of an attempt: its reason, the kill on all nodes, the outcome, and the fate of the job.
 *
 *   attempt_end -> KILL to all nodes (unless every rank has exited with 0) -> every launch ended, lost or
 * given up -> decide_outcome -> COLLECT -> every launch cleaned -> finish_attempt -> the job ends or is
 * requeued.
 *
 * The kind of the end is not stored. It follows from the record (end_kind_of), so a restart in the middle
 * continues in the same way.
 */
#include "controller/run/attempt.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/os/proc.h"
#include "controller/park/ports.h"
#include "controller/record/failure.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/array.h"
#include "controller/run/checkpoints.h"
#include "controller/run/collect.h"
#include "controller/run/job_token.h"
#include "controller/run/recover.h"
#include "controller/run/replace.h"
#include "controller/run/rsh.h"
#include "controller/run/stale.h"
#include "controller/share/alloc.h"
#include "controller/share/cost.h"
#include "controller/share/forecast.h"
#include "controller/share/pools.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/turn.h"

enum end_kind {
	END_FINISHED,
	END_FAILURE,
	END_PREPARE,
	END_NODE_LOST,
	END_STOP,
	END_REQUEUE,
	END_TIMEOUT,
	END_ASKED /* by a watch or a rule */
};

#define BLAME_MARGIN_US                                                                                      \
	2000000 /* a rank that failed so soon after a node fell silent failed because of it                      \
	         */

#define LINE_BYTES 300 /* of the last line that a rank wrote, in a reason */

static enum end_kind end_kind_of(const struct job_rec *r)
{
	const struct attempt_rec *a = r->att;

	if (a->cls == RC_STOPPED)
		return r->wanted == WANT_REQUEUE ? END_REQUEUE : END_STOP;
	if (a->cls == RC_TIMEOUT || a->cls == RC_COST)
		return END_TIMEOUT;
	if (recover_is_asked(a))
		return END_ASKED;
	if (a->cls == RC_NODE_LOST)
		return END_NODE_LOST;
	if (!rec_any_rank_started(a))
		return END_PREPARE;
	return rec_all_ranks_ok(a) ? END_FINISHED : END_FAILURE;
}

int end_wants_kill(const struct job_rec *r)
{
	return !rec_all_ranks_ok(r->att);
}

void place_lost(struct core *c, struct cjob *j, uint32_t place, uint64_t silent_us, int unconfirmed,
                const char *text)
{
	const struct place_rec *p = &j->r.att->places[place];
	struct cnode *n = node_by_id(c, p->node_id);
	cJSON *d = cJSON_CreateObject();
	int had_output = p->state == PLACE_ENDED && !p->saved && j->r.att->outcome != OUT_NONE &&
	                 rec_any_rank_started(j->r.att);

	json_add_u64(d, "node_rank", place);
	json_add_str(d, "node", p->node);
	json_add_u64(d, "silent_us", silent_us);
	cJSON_AddBoolToObject(d, "unconfirmed", unconfirmed);
	json_add_str(d, "text", text);
	if (job_post(c, j, EV_NODE_LOST, d) < 0)
		return;
	if (had_output) {
		free(j->act->upload_text);
		j->act->upload_text = xstrdup(text);
		j->act->upload_failed = 1;
	}
	/* An agent that is there but does not confirm gets no work until it reports that launch as over. */
	if (n && unconfirmed)
		stale_add(c, n, j, j->r.att->number);
	if (!j->looks_back) /* else the next attempt may have it */
		alloc_release(c, j, p->node_id);
	if (n)
		node_job_del(n, j);
	rsh_lost(c, j, place);
	job_touch(c, j);
}

void place_cleaned(struct core *c, struct cjob *j, struct cnode *n)
{
	/* The next attempt may have the place of one that is being collected. */
	if (!j->looks_back && !rec_holds(&j->r, rec_place_of(j->r.att, n->r.id)))
		pool_release(c, j, rec_place_of(j->r.att, n->r.id));
	node_job_del(n, j);
}

/* ---- the outcome ----------------------------------------------------------------------------- */

static void conclude_rank(struct core *c, struct cjob *j, uint32_t rank, const char *text)
{
	cJSON *d = cJSON_CreateObject();

	json_add_u64(d, "rank", rank);
	json_add_u64(d, "ended_us", now_real(c));
	json_add_str(d, "text", text);
	job_post(c, j, EV_RANK_LOST, d);
}

/* Marks open ranks as lost: no process is left that could report their end. */
static void conclude_ranks(struct core *c, struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;

	for (uint32_t i = 0; i < a->n_ranks; i++) {
		const struct rank_rec *k = &a->ranks[i];
		const struct place_rec *p = &a->places[k->place];

		if (rank_over(k->state))
			continue;
		if (p->state == PLACE_LOST && (k->state == RANK_RUNNING || rec_launched(a)))
			conclude_rank(c, j, i, p->text ? p->text : "its node was lost");
		else if (k->state == RANK_RUNNING)
			conclude_rank(c, j, i, "its end was not reported");
	}
}

void rank_last_line(const struct rank_rec *k, struct text *out)
{
	const char *text = k->text, *end = text ? text + strlen(text) : NULL, *from;

	while (text && end > text && (unsigned char)end[-1] <= ' ')
		end--;
	if (!text || end == text)
		return;
	for (from = end; from > text && from[-1] != '\n';)
		from--;
	text_add(out, "%.*s", (int)(end - from < LINE_BYTES ? end - from : LINE_BYTES), from);
	for (char *p = out->at; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
}

static void rank_reason(const struct attempt_rec *a, uint32_t rank, struct text *out)
{
	const struct rank_rec *k = &a->ranks[rank];
	const char *name = a->places[k->place].node;
	TEXT(line);

	rank_last_line(k, &line);
	text_add(out, "rank %u (algo-%u, %.200s)", rank, k->place + 1, name);
	if (k->state == RANK_FAILED)
		text_add(out, " could not start: %s", text_is_empty(&line) ? "no reason given" : line.at);
	else if (k->oom)
		text_add(out, " ran out of memory and was killed");
	else if (k->signal > 0)
		text_add(out, " was ended by signal %d (%s)%s%s", k->signal, proc_signal_name(k->signal),
		         text_is_empty(&line) ? "" : ": ", line.at);
	else
		text_add(out, " exited with code %d%s%s", k->exit_code, text_is_empty(&line) ? "" : ": ", line.at);
}

static const struct place_rec *first_lost(const struct attempt_rec *a)
{
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].state == PLACE_LOST && !a->places[i].unconfirmed)
			return &a->places[i];
	return NULL;
}

static uint32_t count_lost_ranks(const struct attempt_rec *a, uint32_t *first)
{
	uint32_t n = 0;

	for (uint32_t i = a->n_ranks; i-- > 0;) {
		if (a->ranks[i].state != RANK_LOST)
			continue;
		n++;
		*first = i;
	}
	return n;
}

struct finding {
	enum outcome outcome;
	enum reason_class cls;
	int32_t exit_code, signal;
	uint32_t rank;
	struct text reason;
};

static void judge_failed_rank(const struct attempt_rec *a, uint32_t rank, struct finding *v)
{
	const struct rank_rec *k = &a->ranks[rank];

	v->outcome = OUT_FAILED;
	v->rank = rank;
	v->cls = rec_rank_class(k);
	v->signal = k->signal > 0 ? k->signal : -1;
	v->exit_code = k->signal > 0 ? 128 + k->signal : k->exit_code > 0 ? k->exit_code : -1;
	text_clear(&v->reason);
	rank_reason(a, rank, &v->reason);
}

static void judge_lost(const struct attempt_rec *a, const struct place_rec *lost, uint32_t failed,
                       struct finding *v)
{
	uint32_t rank = NO_RANK, n = count_lost_ranks(a, &rank);
	TEXT(more);

	/* A node may come back and report that its ranks ended with its lease. */
	if (!lost && n && a->places[a->ranks[rank].place].cls == RC_NODE_LOST)
		lost = &a->places[a->ranks[rank].place];
	v->outcome = OUT_LOST;
	v->rank = rank;
	v->cls = lost ? RC_NODE_LOST : RC_UNKNOWN;
	/* Kills that follow from the loss add nothing; a rank that failed by itself does. */
	if (failed < a->n_ranks && !rec_looks_killed(a, failed)) {
		text_add(&more, "; after that ");
		rank_reason(a, failed, &more);
	}
	text_clear(&v->reason);
	if (lost)
		text_add(&v->reason, "node %s was lost%s%s%s", lost->node, lost->text ? ": " : "",
		         lost->text ? lost->text : "", more.at);
	else
		text_add(&v->reason, "the fate of %u rank%s is unknown, first rank %u (%s)%s", n, n == 1 ? "" : "s",
		         rank, a->ranks[rank].text ? a->ranks[rank].text : "", more.at);
}

/* Ranks that died because their node's agent enforced a limit. */
static void judge_limit(const struct attempt_rec *a, const struct place_rec *limited, uint32_t failed,
                        struct finding *v)
{
	judge_failed_rank(a, failed, v);
	v->cls = limited->cls;
	text_clear(&v->reason);
	text_add(&v->reason, "node %s: %s", limited->node, limited->text ? limited->text : "a limit was passed");
}

/* A rank ended because its launcher was gone, and no report gives the cause. */
static void judge_taken_along(const struct attempt_rec *a, uint32_t rank, struct finding *v)
{
	uint32_t place = a->ranks[rank].place;

	v->cls = RC_LAUNCH;
	v->rank = rank;
	text_clear(&v->reason);
	text_add(
	    &v->reason,
	    "rank %u (algo-%u, %.200s) was ended because its launcher lost it: mpirun, orted or hearth-rank was "
	    "killed",
	    rank, place + 1, a->places[place].node);
}

static void judge_attempt(const struct job_rec *r, struct finding *v)
{
	const struct attempt_rec *a = r->att;
	const struct place_rec *lost = first_lost(a), *limited = rec_limited(a);
	uint32_t failed = rec_first_failed(a), some = NO_RANK;
	enum end_kind kind = end_kind_of(r);
	int killed = failed < a->n_ranks && rec_looks_killed(a, failed);
	/* A rank that a retry, a launcher or a kill ended is not the cause. */
	int own = failed < a->n_ranks && a->ranks[failed].ended_by == BY_ITSELF &&
	          !(killed && (r->status == JOB_RECOVERING || count_lost_ranks(a, &some)));

	*v = (struct finding){.outcome = OUT_FAILED,
	                      .cls = a->cls,
	                      .exit_code = -1,
	                      .signal = -1,
	                      .rank = NO_RANK,
	                      .reason = v->reason};
	text_add(&v->reason, "%s", a->reason ? a->reason : "");
	if (kind == END_STOP || kind == END_REQUEUE) {
		v->outcome = OUT_STOPPED;
		if (r->wanted == WANT_STOP && r->reason) { /* a stop may follow a requeue */
			text_clear(&v->reason);
			text_add(&v->reason, "%s", r->reason);
		}
	} else if (kind == END_TIMEOUT || kind == END_ASKED) {
		v->outcome = OUT_FAILED;
	} else if (lost && (failed == a->n_ranks || !lost->silent_us ||
	                    lost->silent_us <= a->ranks[failed].ended_us + BLAME_MARGIN_US)) {
		judge_lost(a, lost, failed, v);
	} else if (limited && killed) {
		judge_limit(a, limited, failed, v);
	} else if (own) {
		judge_failed_rank(a, failed, v);
	} else if (count_lost_ranks(a, &some)) {
		judge_lost(a, NULL, failed, v);
	} else if (rec_all_ranks_ok(a)) {
		v->outcome = OUT_SUCCEEDED;
		v->cls = RC_NONE;
		v->exit_code = 0;
		text_clear(&v->reason);
	} else {
		if (killed && a->ranks[failed].ended_by == BY_LAUNCHER && a->cls != RC_LAUNCH)
			judge_taken_along(a, failed, v);
		if (v->cls == RC_NONE)
			v->cls = RC_LAUNCH;
		if (text_is_empty(&v->reason))
			text_add(&v->reason, "the launch ended although not every rank had started");
	}
}

/* Adds a line to the main node's `system` stream before its streams are closed. */
static void note_outcome(struct core *c, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	const struct cnode *n = node_by_id(c, a->places[0].node_id);
	struct wm_note m = {.job = j->r.id, .attempt = a->number, .epoch = a->epoch};

	if (!n || !n->synced || a->places[0].state != PLACE_ENDED)
		return;
	m.text = xasprintf("outcome: %s%s%s", state_name(STATE_OUTCOME, (int)a->outcome), a->reason ? ": " : "",
	                   a->reason ? a->reason : "");
	hold_send(c, n, WM_NOTE, &m);
	free(m.text);
}

/* Adds the memory limit to an out-of-memory reason; users ask for it next. */
static void add_memory(const struct cjob *j, struct finding *v)
{
	const struct job_spec *s = j->act ? j->act->spec : NULL;
	char size[32];

	if (!s || v->cls != RC_OOM || v->outcome != OUT_FAILED || !strstr(v->reason.at, "ran out of memory"))
		return;
	if (s->memory_bytes)
		text_add(&v->reason, ": the job may have %s on a node (resources.memory)",
		         str_size(s->memory_bytes, size, sizeof(size)));
	else
		text_add(&v->reason, ": it has no limit of its own (resources.memory), so the "
		                     "node had no more");
}

/* A line of a log may name the cause of an end that exit code or signal leave open: then it is the reason, in
 * place of the last lines of the rank that ended first. Returns what it means. */
static enum line_verdict judge_line(const struct attempt_rec *a, const uint64_t *step_us, struct finding *v)
{
	struct attempt_cause cause = attempt_cause(a, step_us);

	if (v->outcome != OUT_FAILED || (v->cls != RC_UNKNOWN && v->cls != RC_SIGNAL) || !cause.line ||
	    cause.verdict == VERDICT_UNKNOWN || cause.verdict == VERDICT_SYMPTOM ||
	    cause.verdict == VERDICT_RECORD)
		return VERDICT_UNKNOWN;
	v->cls = cause.cls;
	if (cause.rank < a->n_ranks)
		v->rank = cause.rank;
	text_clear(&v->reason);
	attempt_cause_words(a, &cause, &v->reason);
	return cause.verdict;
}

void decide_outcome(struct core *c, struct cjob *j)
{
	TEXT(reason);
	struct finding v = {.reason = reason};
	enum line_verdict verdict;
	cJSON *d;

	conclude_ranks(c, j);
	judge_attempt(&j->r, &v);
	verdict = recover_is_asked(j->r.att) ? VERDICT_UNKNOWN : judge_line(j->r.att, j->act->step_us, &v);
	add_memory(j, &v);
	d = cJSON_CreateObject();
	json_add_str(d, "outcome", state_name(STATE_OUTCOME, (int)v.outcome));
	if (v.cls != RC_NONE)
		json_add_str(d, "class", state_name(STATE_CLASS, (int)v.cls));
	if (!text_is_empty(&v.reason))
		json_add_str(d, "reason", v.reason.at);
	if (v.rank != NO_RANK)
		json_add_u64(d, "rank", v.rank);
	if (v.exit_code >= 0)
		cJSON_AddNumberToObject(d, "exit_code", v.exit_code);
	if (v.signal >= 0)
		cJSON_AddNumberToObject(d, "signal", v.signal);
	if (v.outcome == OUT_FAILED || v.outcome == OUT_LOST)
		recover_plan(c, j, &(struct recover_cause){v.outcome, v.cls, verdict, v.rank}, d);
	job_post(c, j, EV_OUTCOME, d);
	recover_set_aside(c, j);
	if (j->r.status == JOB_STOPPING && j->r.wanted != WANT_REQUEUE)
		checkpoint_retain(c, j, 1);
	note_outcome(c, j);
	for (uint32_t i = 0; i < j->r.att->n_places; i++) {
		const struct place_rec *p = &j->r.att->places[i];

		j->act->rt[i].progress_us = now_boot(c); /* the time without upload progress starts here */
		if (p->state == PLACE_CLEANED && !rec_holds(&j->r, p))
			pool_release(c, j, p);
	}
	log_info("event=outcome job=%" PRIu64 " attempt=%u outcome=%s class=%s", j->r.id, j->r.att->number,
	         state_name(STATE_OUTCOME, (int)j->r.att->outcome), state_name(STATE_CLASS, (int)v.cls));
}

/* ---- after the attempt ----------------------------------------------------------------------- */

static void end_job(struct core *c, struct cjob *j, enum job_status status, int32_t exit_code,
                    const char *reason)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "status", state_name(STATE_JOB, (int)status));
	if (exit_code >= 0)
		cJSON_AddNumberToObject(d, "exit_code", exit_code);
	if (reason && *reason)
		json_add_str(d, "reason", reason);
	ckpt_add_line(&j->r, d); /* a retry goes on with it */
	job_post(c, j, EV_ENDED, d);
	log_info("event=ended job=%" PRIu64 " status=%s", j->r.id, state_name(STATE_JOB, (int)status));
}

static void post_attempt_ended(struct core *c, struct cjob *j, int collects)
{
	cJSON *d = cJSON_CreateObject();

	if (collects)
		cJSON_AddTrueToObject(d, "collects");

	if (j->act->upload_failed && j->r.att->outcome == OUT_SUCCEEDED) {
		TEXT(reason);

		text_add(&reason, "the ranks succeeded, but their output is not saved: %.900s",
		         j->act->upload_text ? j->act->upload_text : "uploading failed");
		json_add_str(d, "outcome", state_name(STATE_OUTCOME, OUT_FAILED));
		json_add_str(d, "class", state_name(STATE_CLASS, RC_STAGING));
		json_add_str(d, "reason", reason.at);
	} else if (j->r.att->outcome != OUT_SUCCEEDED) {
		TEXT(text);

		recover_say(j, &text);
		json_add_str(d, "text", text.at);
		replace_add_kept(c, j, d);
	}
	job_post(c, j, EV_ATTEMPT_ENDED, d);
}

/* Returns why the job ends, with what its program said and why it gets no further attempt. Malloc'ed. */
static char *end_reason(const struct cjob *j, const char *says)
{
	const struct attempt_rec *a = j->r.att;
	cJSON *plan = a->plan ? cJSON_Parse(a->plan) : NULL;
	const char *text = json_str_or(plan, "text", "");
	int stops = plan_action_find(json_str_or(plan, "action", NULL)) == PLAN_STOP && *text;
	char *reason;

	/* A requeue may come before the stop: the reason of the last request counts. */
	if (a->outcome == OUT_STOPPED && j->r.wanted == WANT_STOP)
		reason = xstrdup(j->r.reason ? j->r.reason : "");
	else
		reason = xasprintf("%s%s%s%s%.400s", a->reason ? a->reason : "", stops ? "; " : "", stops ? text : "",
		                   says && a->outcome == OUT_FAILED ? "; the program says: " : "",
		                   says && a->outcome == OUT_FAILED ? says : "");
	cJSON_Delete(plan);
	return reason;
}

/* The next attempt need not wait for the rest of this one's end. */
static void go_on_early(struct core *c, struct cjob *j)
{
	post_attempt_ended(c, j, 1);
	usage_mark(c, j);
	cost_ends(c, j);
	learn_time(c, j);
	port_mark(c, j->r.att->master_port, -1);
	token_job_expire(c, j);
	collect_begin(c, j);
	recover_begin(c, j);
	recover_review(c, j);
}

void finish_attempt(struct core *c, struct cjob *j)
{
	struct active *act = j->act;
	struct job_spec *spec = act->spec;
	const struct attempt_rec *a = j->r.att;
	char *says = act->program_says, *reason;
	int goes_on;
	TEXT(spent);

	if (collect_may_begin(c, j)) {
		go_on_early(c, j);
		return;
	}
	post_attempt_ended(c, j, 0);
	goes_on = recover_goes_on(j);
	usage_mark(c, j);
	cost_ends(c, j);
	learn_time(c, j);
	act->spec = NULL;
	act->program_says = NULL;
	port_mark(c, a->master_port, -1);
	token_job_expire(c, j);
	active_free(c, j);
	reason = end_reason(j, says);
	if (a->outcome == OUT_SUCCEEDED)
		end_job(c, j, JOB_COMPLETED, 0, NULL);
	else if (goes_on && cost_used_up(j, spec, spent.at, spent.size))
		end_job(c, j, JOB_FAILED, -1, spent.at);
	else if (goes_on) {
		recover_begin(c, j);
		recover_review(c, j);
	} else if (a->outcome == OUT_STOPPED || (j->r.status == JOB_RECOVERING && j->r.wanted == WANT_STOP))
		end_job(c, j, JOB_STOPPED, -1, reason);
	else
		end_job(c, j, JOB_FAILED, a->exit_code, reason);
	free(reason);
	free(says);
	spec_destroy(spec);
}
