/*
 * array_req: requests for an array or a sweep as a whole: stop, hold, release, why, rm.
 *
 * A stop is recorded first and reaches some members in each turn (run/array.c). A removal goes through
 * members that may be in the store only, and a restart forgets it. The record of the whole job is marked as
 * removed last, so a second request finishes the work.
 */
#include "controller/requests/array_req.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/text.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/array.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/turn.h"

void array_stop(struct core *c, struct request *rq, struct cjob *j)
{
	TEXT(text);

	if (j->r.wanted != WANT_STOP) {
		job_post(c, j, EV_STOP_WANTED, event_by(c, rq, "stopped"));
		array_touch(c, j);
	}
	text_add(&text, "stopping: its members (%u) get the order to end", j->r.members);
	op_answer(c, rq, j, text.at);
}

void array_hold(struct core *c, struct request *rq, struct cjob *j)
{
	if (j->r.wanted == WANT_STOP) {
		reply_fail(c, rq, ERR_CONFLICT, "job %" PRIu64 " is being stopped", j->r.id);
		return;
	}
	job_post(c, j, EV_HELD, event_by(c, rq, "held"));
	array_close(c, j);
	op_answer(c, rq, j, "held: no further member starts; running members continue");
}

void array_release(struct core *c, struct request *rq, struct cjob *j)
{
	job_post(c, j, EV_RELEASED, NULL);
	array_touch(c, j);
	op_answer(c, rq, j, "released");
}

/* ---- why ----------------------------------------------------------------------------------------- */

void array_why_member(struct core *c, const struct cjob *m, struct text *t)
{
	const struct cjob *j = job_find(c, m->r.array);
	uint64_t id = m->r.array;
	uint32_t ahead = 0;

	if (!j || !j->arr) {
		text_add(t, "waits");
	} else if (j->r.status == JOB_HELD) {
		text_add(t,
		         "job %" PRIu64 " is held, so none of its members starts; jobctl release %" PRIu64
		         " lets them go",
		         id, id);
	} else if (j->r.wanted == WANT_STOP) {
		text_add(t, "job %" PRIu64 " is being stopped", id);
	} else {
		for (uint32_t i = j->arr->next; i < rec_index(&m->r); i++) {
			const struct cjob *other = job_find(c, id + 1 + i);

			ahead += other && other->r.status == JOB_QUEUED && !other->admitted;
		}
		text_add(t,
		         "waits for its turn: of job %" PRIu64
		         " at most %u members go at once (max_parallel), and %u of them "
		         "go before it",
		         id, j->arr->spec->max_parallel, ahead);
	}
}

static const struct cjob *first_waiting(const struct core *c, const struct cjob *j)
{
	for (uint32_t i = 0; i < j->arr->made; i++) {
		const struct cjob *m = job_find(c, j->r.id + 1 + i);

		if (m && m->r.status == JOB_QUEUED && m->admitted)
			return m;
	}
	return NULL;
}

static void why_open(struct core *c, const struct cjob *j, cJSON *waits, struct text *t)
{
	const struct carray *a = j->arr;
	const struct cjob *m = first_waiting(c, j);
	uint32_t busy = 0, ended = 0;
	struct sched_reason r;

	for (int s = 0; s < N_JOB_STATUS; s++) {
		busy += s >= JOB_STARTING && s <= JOB_STOPPING ? a->n[s] : 0;
		ended += job_ended((enum job_status)s) ? a->n[s] : 0;
	}
	text_add(t, "%u of %u members run, %u wait, %u have ended", busy, j->r.members,
	         j->r.members - busy - ended, ended);
	if (j->r.wanted == WANT_STOP) {
		text_add(t, "; %s", j->r.reason ? j->r.reason : "it is being stopped");
	} else if (j->r.status == JOB_HELD) {
		cJSON_AddItemToArray(waits, cJSON_CreateString("release"));
		text_add(t, "; no further one starts: %s; jobctl release %" PRIu64 " lets them go",
		         j->r.reason ? j->r.reason : "held", j->r.id);
	} else if (m) {
		cJSON_AddItemToArray(waits, cJSON_CreateString("members"));
		sched_explain(c->sched, m->r.id, &r);
		text_add(t, "; the first of them: %s", r.text);
	} else if (a->n[JOB_QUEUED] && a->spec->max_parallel) {
		cJSON_AddItemToArray(waits, cJSON_CreateString("turn"));
		text_add(t, "; at most %u at once (max_parallel)", a->spec->max_parallel);
	}
}

void array_why(struct core *c, struct request *rq, struct cjob *j)
{
	cJSON *body = cJSON_CreateObject(), *waits;
	char bytes[2 * TEXT_SIZE], ref[REC_REF_SIZE];
	struct text text = text_on(bytes, sizeof(bytes));

	json_add_u64(body, "id", j->r.id);
	json_add_str(body, "ref", rec_ref(&j->r, ref));
	json_add_str(body, "status", state_name(STATE_JOB, (int)j->r.status));
	waits = cJSON_AddArrayToObject(body, "waits_for");
	if (j->arr && !job_ended(j->r.status))
		why_open(c, j, waits, &text);
	else
		text_add(&text, "%.1000s",
		         j->r.reason                    ? j->r.reason
		         : j->r.status == JOB_COMPLETED ? "all members that were to end well have"
		                                        : "no reason recorded");
	json_add_str(body, "text", text.at);
	cJSON_AddNumberToObject(body, "ahead", 0);
	hold_reply(c, rq, 200, body);
}

void array_rm(struct core *c, struct request *rq, struct cjob *j)
{
	if (!j->r.deleted)
		array_rm_begin(c, j, req_user(c, rq));
	op_answer(c, rq, j, "logs, metrics, source and artifacts of its members are removed; the records stay");
}
