/*
 * jobs_req: requests that change a job: stop, hold, release, requeue, set, rm.
 *
 * A client may repeat each request: the second answer says that the work is done already.
 */
#include "controller/requests/requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/requests/array_req.h"
#include "controller/requests/doubt.h"
#include "controller/run/array.h"
#include "controller/run/attempt.h"
#include "controller/run/resolve.h"
#include "controller/share/alloc.h"
#include "controller/share/await.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

#define SET_MEMBERS_MAX 500 /* in one transaction */

static int refuse_ended(struct core *c, struct request *rq, const struct cjob *j, const char *advice)
{
	char ref[REC_REF_SIZE];

	if (!job_ended(j->r.status))
		return 0;
	reply_fail(c, rq, ERR_CONFLICT, "job %s has ended (%s)%s%s", rec_ref(&j->r, ref),
	           state_name(STATE_JOB, (int)j->r.status), *advice ? "; " : "", advice);
	return 1;
}

/* ---- stop ------------------------------------------------------------------------------------ */

void req_stop(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	int64_t grace = -1;
	struct err e;

	if (!j)
		return;
	if (json_get_i64(rq->body, "", "grace_s", 0, 86400, &grace, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (job_ended(j->r.status)) {
		op_answer(c, rq, j, "it has ended already");
		return;
	}
	if (j->r.members) {
		array_stop(c, rq, j);
		return;
	}
	if (j->act && grace >= 0 && j->r.wanted != WANT_STOP)
		j->act->grace_ms = (uint32_t)grace * 1000;
	if (j->r.wanted != WANT_STOP && job_stop(c, j, event_by(c, rq, "stopped")))
		op_answer(c, rq, j, "stopped");
	else
		op_answer(c, rq, j,
		          "stopping: hearthd asks its processes to end, and kills them after the grace time");
}

/* ---- hold, release, requeue ------------------------------------------------------------------ */

void req_hold(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	char ref[REC_REF_SIZE];

	if (!j || refuse_ended(c, rq, j, ""))
		return;
	if (j->r.status == JOB_HELD) {
		op_answer(c, rq, j, "it is held already");
		return;
	}
	if (j->r.members) {
		array_hold(c, rq, j);
		return;
	}
	if (j->r.status != JOB_QUEUED) {
		reply_fail(c, rq, ERR_CONFLICT,
		           "job %s is %s; only a waiting job can be held (jobctl stop ends it, jobctl requeue "
		           "sends it back)",
		           rec_ref(&j->r, ref), state_name(STATE_JOB, (int)j->r.status));
		return;
	}
	alloc_unqueue(c, j);
	job_post(c, j, EV_HELD, event_by(c, rq, "held"));
	op_answer(c, rq, j, "held");
}

void req_release(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	TEXT(note);
	cJSON *d = NULL;
	struct job_spec *s;
	struct err e;

	if (!j || refuse_ended(c, rq, j, ""))
		return;
	if (j->r.status != JOB_HELD) {
		TEXT(text);

		text_add(&text, "it is not held: it is %s", state_name(STATE_JOB, (int)j->r.status));
		op_answer(c, rq, j, text.at);
		return;
	}
	if (j->r.members) {
		array_release(c, rq, j);
		return;
	}
	s = job_parse_spec(c, j, &e);
	if (!s) {
		reply_err(c, rq, &e);
		return;
	}
	if (!j->r.attempts && await_check(c, s, note.at, note.size, &e) < 0)
		text_clear(&note); /* the job waits in the queue, and why gives the reason */
	if (*note.at) {
		d = cJSON_CreateObject();
		json_add_str(d, "reason", note.at);
	}
	if (job_post(c, j, EV_RELEASED, d) == 0)
		array_queue(c, j, s);
	spec_destroy(s);
	op_answer(c, rq, j, j->r.status != JOB_QUEUED ? j->r.reason : *note.at ? note.at : "released");
}

/* Reads the requested beginning, in the form of the record: "start", "step:N"; "": none. */
static int asked_begin(const struct request *rq, char out[32], struct err *e)
{
	int64_t step = -1;
	int start = 0;

	if (json_get_bool(rq->body, "", "from_start", &start, e) < 0 ||
	    json_get_i64(rq->body, "", "from_step", 0, INT64_MAX, &step, e) < 0)
		return -1;
	if (start && step >= 0)
		return err_set(e, ERR_INVALID, "from_start, from_step: give one of them");
	out[0] = '\0';
	if (start)
		snprintf(out, 32, "start");
	else if (step >= 0)
		snprintf(out, 32, "step:%" PRId64, step);
	return 0;
}

/* Changes the beginning of a job that waits and has run before. */
static void begin_otherwise(struct core *c, struct request *rq, struct cjob *j, const char *asked)
{
	cJSON *d = cJSON_CreateObject();
	const struct ckpt *k = NULL;
	char *begins;
	struct err e;
	TEXT(text);
	TEXT(doubt);

	if (begins_check(c, j, asked, &k, &e) == 0) /* its choice takes it back from those set aside */
		doubt_checkpoint(c, j->r.id, k, &doubt);
	if (begins_settle(c, j, asked, &begins, &e) < 0) {
		cJSON_Delete(d);
		reply_err(c, rq, &e);
		return;
	}
	json_add_str(d, "by", req_user(c, rq));
	json_add_str(d, "begins", begins);
	cJSON_AddBoolToObject(d, "begins_asked", strcmp(asked, "start") != 0);
	job_post(c, j, EV_CHANGED, d);
	text_add(&text, "it waits already; it ");
	begins_say(c, j, begins, &text);
	free(begins);
	if (j->r.status == JOB_HELD)
		text_add(&text, " when it is released");
	op_answer_warning(c, rq, j, text.at, doubt.at);
}

/* Answers the requeue of a waiting job. */
static void requeue_waiting(struct core *c, struct request *rq, struct cjob *j, const char *asked)
{
	char ref[REC_REF_SIZE];

	rec_ref(&j->r, ref);
	if (*asked && j->r.attempts)
		begin_otherwise(c, rq, j, asked);
	else if (*asked)
		reply_fail(c, rq, ERR_CONFLICT,
		           "job %s has not run yet: it begins with what its specification says (resume_from)", ref);
	else if (j->r.status == JOB_HELD)
		reply_fail(c, rq, ERR_CONFLICT, "job %s is held: jobctl release %s lets it start", ref, ref);
	else
		op_answer(c, rq, j, "it waits already");
}

static const char *requeued_text(const struct cjob *j)
{
	const char *on_record = j->r.begins; /* a request without a beginning keeps the earlier choice */

	if (!on_record)
		return "its processes are ended, then it waits again and goes on with the checkpoints that it leaves";
	return strcmp(on_record, "start") == 0
	           ? "its processes are ended, then it waits again and begins from the start"
	           : "its processes are ended, then it waits again and goes on from that step";
}

void req_requeue(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	char ref[REC_REF_SIZE], asked[32];
	const struct ckpt *k = NULL;
	struct err e;
	TEXT(advice);
	TEXT(doubt);

	if (!j)
		return;
	rec_ref(&j->r, ref);
	if (asked_begin(rq, asked, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	text_add(&advice, "run it again as a new job: jobctl clone %s", ref);
	if (refuse_ended(c, rq, j, advice.at))
		return;
	if (j->r.members) {
		reply_fail(c, rq, ERR_CONFLICT,
		           "job %s is not run itself, its members are: jobctl requeue %s.0 sends one of them back",
		           ref, ref);
		return;
	}
	if (j->r.status == JOB_QUEUED || j->r.status == JOB_HELD) {
		requeue_waiting(c, rq, j, asked);
		return;
	}
	if (j->r.wanted == WANT_STOP) {
		reply_fail(c, rq, ERR_CONFLICT, "job %s is being stopped; %s", ref, advice.at);
		return;
	}
	if (begins_check(c, j, asked, &k, &e) < 0) { /* before anything of a running job ends */
		reply_err(c, rq, &e);
		return;
	}
	doubt_checkpoint(c, j->r.id, k, &doubt);
	if (j->r.wanted != WANT_REQUEUE || (*asked && strcmp(asked, j->r.begins ? j->r.begins : "") != 0)) {
		cJSON *d = event_by(c, rq, "requeued");

		if (*asked)
			json_add_str(d, "begins", asked);
		else if (j->r.status == JOB_RECOVERING && j->r.begins) /* the earlier choice stays */
			json_add_str(d, "begins", j->r.begins);
		if (j->r.att && j->r.att->state == ATT_ENDING)
			cJSON_ReplaceItemInObjectCaseSensitive(d, "reason",
			                                       cJSON_CreateString(j->r.reason ? j->r.reason : ""));
		job_post(c, j, EV_REQUEUE_WANTED, d);
		job_touch(c, j);
	}
	op_answer_warning(c, rq, j, requeued_text(j), doubt.at);
}

/* ---- set ------------------------------------------------------------------------------------- */

struct change {
	int64_t priority, time_s;
	const char *queue, *notes, *name;
	int pinned;
	const cJSON *tags;
};

static int time_of(const cJSON *body, int64_t *out, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(body, "time");
	uint64_t s;

	if (!v || cJSON_IsNull(v))
		return 0;
	if (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble <= 1e9) {
		*out = (int64_t)v->valuedouble;
		return 0;
	}
	if (!cJSON_IsString(v))
		return err_set(e, ERR_INVALID, "time: expected a duration such as 90m, or seconds");
	if (str_parse_duration(v->valuestring, &s, e) < 0)
		return err_wrap(e, "time");
	if (s < 1 || s > 1000000000)
		return err_set(e, ERR_INVALID, "time: expected 1 to 1000000000 seconds");
	*out = (int64_t)s;
	return 0;
}

static int change_parse(struct core *c, const struct cjob *j, const cJSON *b, struct change *ch,
                        struct err *e)
{
	char most[40], ref[REC_REF_SIZE];

	*ch = (struct change){.priority = j->r.priority, .pinned = -1};
	if (json_get_i64(b, "", "priority", -1000, 1000, &ch->priority, e) < 0 ||
	    json_get_str(b, "", "queue", &ch->queue, e) < 0 || json_get_str(b, "", "notes", &ch->notes, e) < 0 ||
	    json_get_str(b, "", "name", &ch->name, e) < 0 || json_get_bool(b, "", "pinned", &ch->pinned, e) < 0 ||
	    json_get_obj(b, "", "tags", &ch->tags, e) < 0 || time_of(b, &ch->time_s, e) < 0)
		return -1;
	if (ch->queue && (spec_check_queue(ch->queue, 0, e) < 0 || queue_exists(c, ch->queue, e) < 0 ||
	                  queue_holds(c, ch->queue, j->r.owner, j->r.gpus, e) < 0))
		return -1;
	if (ch->queue && j->act && strcmp(ch->queue, j->r.queue ? j->r.queue : "") != 0)
		return err_set(
		    e, ERR_CONFLICT,
		    "job %s is %s: only a waiting job can go to another queue (jobctl requeue sends it back)",
		    rec_ref(&j->r, ref), state_name(STATE_JOB, (int)j->r.status));
	if (j->r.members > SET_MEMBERS_MAX && (ch->time_s || ch->queue || ch->priority != j->r.priority))
		return err_set(e, ERR_LIMIT,
		               "job %" PRIu64 " has %u members, more than are changed at once: jobctl set %" PRIu64
		               ".0-%u changes some",
		               j->r.id, j->r.members, j->r.id, SET_MEMBERS_MAX - 1);
	if (ch->name && spec_check_job_name(ch->name, e) < 0)
		return -1;
	if (ch->time_s && c->cfg.max_runtime_limit_s && (uint64_t)ch->time_s > c->cfg.max_runtime_limit_s)
		return err_set(e, ERR_LIMIT, "time: more than the administrator allows (%s)",
		               str_duration(c->cfg.max_runtime_limit_s, most, sizeof(most)));
	if (job_ended(j->r.status) && (ch->time_s || ch->queue || ch->priority != j->r.priority))
		return err_set(e, ERR_CONFLICT,
		               "job %s has ended (%s): only name, notes, tags and pinned can still change",
		               rec_ref(&j->r, ref), state_name(STATE_JOB, (int)j->r.status));
	return 0;
}

/* Stores the time limit in the run's record; the specification itself never changes. */
static int save_time(struct core *c, struct cjob *j, int64_t time_s, struct err *e)
{
	cJSON *run;

	if (job_need_spec(c, j, e) < 0)
		return -1;
	run = j->run ? cJSON_Parse(j->run) : NULL;
	if (!run)
		run = cJSON_CreateObject();
	cJSON_DeleteItemFromObjectCaseSensitive(run, "max_runtime_s");
	json_add_u64(run, "max_runtime_s", (uint64_t)time_s);
	free(j->run);
	j->run = json_text(run);
	cJSON_Delete(run);
	j->spec_saved = 0; /* written once more, with the run's record */
	return 0;
}

static void set_tags(struct core *c, struct cjob *j, const struct request *rq, const cJSON *tags)
{
	const cJSON *t;

	cJSON_ArrayForEach (t, tags) {
		cJSON *d;

		if (!t->string || (!cJSON_IsString(t) && !cJSON_IsNull(t)))
			continue;
		d = cJSON_CreateObject();
		json_add_str(d, "by", req_user(c, rq));
		json_add_str(d, "key", t->string);
		json_add_str(d, "value", t->valuestring);
		job_post(c, j, EV_TAGGED, d);
		store_txn_tag(turn_now(c)->txn, &(struct tag_row){j->r.id, t->string, t->valuestring});
	}
}

static void set_fields(struct core *c, struct cjob *j, const struct request *rq, const struct change *ch)
{
	cJSON *d = cJSON_CreateObject();

	if (ch->priority != j->r.priority)
		cJSON_AddNumberToObject(d, "priority", (double)ch->priority);
	if (ch->time_s)
		cJSON_AddNumberToObject(d, "max_runtime_s", (double)ch->time_s);
	if (ch->pinned >= 0)
		cJSON_AddNumberToObject(d, "pinned", ch->pinned);
	if (ch->queue)
		json_add_str(d, "queue", ch->queue);
	if (ch->notes)
		json_add_str(d, "notes", ch->notes);
	if (ch->name)
		json_add_str(d, "name", ch->name);
	if (!d->child) {
		cJSON_Delete(d);
		return;
	}
	json_add_str(d, "by", req_user(c, rq));
	job_post(c, j, EV_CHANGED, d);
}

/* Applies a change to all members of an array that have not ended. A new queue is for waiting members only.
 */
static void set_members(struct core *c, struct cjob *j, const struct request *rq, const struct change *ch,
                        int priority)
{
	for (uint32_t i = 0; i < j->arr->made; i++) {
		struct cjob *m = job_find(c, j->r.id + 1 + i);
		struct change own = {.priority = ch->priority, .time_s = ch->time_s, .pinned = -1};
		struct err e;

		if (!m || job_ended(m->r.status))
			continue;
		if (!priority)
			own.priority = m->r.priority;
		if (!m->act)
			own.queue = ch->queue;
		if (own.time_s && save_time(c, m, own.time_s, &e) < 0)
			own.time_s = 0;
		set_fields(c, m, rq, &own);
		if (m->act) {
			m->act->max_runtime_us = max_runtime_s(c, m, m->act->spec) * 1000000;
			job_touch(c, m);
		} else if (m->r.status == JOB_QUEUED) {
			array_queue(c, m, j->arr->spec);
		}
	}
}

void req_set(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	struct change ch;
	struct err e;
	int moved, priority;

	if (!j)
		return;
	if (change_parse(c, j, rq->body, &ch, &e) < 0 || (ch.time_s && save_time(c, j, ch.time_s, &e) < 0)) {
		reply_err(c, rq, &e);
		return;
	}
	priority = ch.priority != j->r.priority;
	moved = priority || ch.time_s || (ch.queue && strcmp(ch.queue, j->r.queue ? j->r.queue : "") != 0);
	set_fields(c, j, rq, &ch);
	set_tags(c, j, rq, ch.tags);
	if (moved && j->arr)
		set_members(c, j, rq, &ch, priority);
	else if (moved && j->r.status == JOB_QUEUED) {
		struct job_spec *s = job_parse_spec(c, j, &e);

		if (s)
			array_queue(c, j, s);
		spec_destroy(s);
	} else if (moved && alloc_exchanges(c, j)) {
		job_touch(c, j); /* what it keeps goes over to another queue */
	}
	if (j->act) {
		j->act->max_runtime_us = max_runtime_s(c, j, j->act->spec) * 1000000;
		job_touch(c, j);
	}
	op_answer(c, rq, j, "changed");
}

void req_rm(struct core *c, struct request *rq)
{
	struct cjob *j = req_job(c, rq);
	char ref[REC_REF_SIZE];
	cJSON *d;

	if (!j)
		return;
	if (!job_ended(j->r.status)) {
		rec_ref(&j->r, ref);
		reply_fail(c, rq, ERR_CONFLICT, "job %s is %s; stop it first: jobctl stop %s", ref,
		           state_name(STATE_JOB, (int)j->r.status), ref);
		return;
	}
	if (j->r.pinned) {
		rec_ref(&j->r, ref);
		reply_fail(c, rq, ERR_CONFLICT, "job %s is pinned; unpin it first: jobctl unpin %s", ref, ref);
		return;
	}
	if (j->r.members) {
		array_rm(c, rq, j);
		return;
	}
	if (!j->r.deleted) {
		d = cJSON_CreateObject();
		json_add_str(d, "by", req_user(c, rq));
		job_post(c, j, EV_REMOVED, d);
		store_txn_drop(turn_now(c)->txn, j->r.id, STORE_ALL, now_real(c));
		hold_remove_data(c, j->r.id);
	}
	op_answer(c, rq, j, "its logs, metrics, source and artifacts are removed; the record stays");
}
