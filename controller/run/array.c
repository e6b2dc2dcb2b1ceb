/*
 * array: arrays and sweeps: jobs whose members are jobs of their own.
 *
 * hearthd stores the record of the whole job before it answers the submit, and reserves the numbers behind
 * its own for the members. Each turn makes some members from the specification, in the order of their index,
 * so that ten thousand members delay nobody. A restarted controller continues with the next index. A queued
 * member waits in its array first: the array admits at most max_parallel members to the scheduler, in their
 * order. An admitted member is a job like any other.
 *
 * The state of the whole job follows from its members: it runs when the first member starts, and ends with
 * the last one. A stop is recorded at once (`wanted`) and reaches some members in each turn. A held array
 * admits no further member.
 */
#include "controller/run/array.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/hash.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/run/attempt.h"
#include "controller/share/alloc.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/observer.h"
#include "controller/state/turn.h"
#include "store/read/load.h"

#define A_TURN 64 /* members that one turn makes, admits or stops */

void array_touch(struct core *c, struct cjob *j)
{
	if (!j->arr || j->arr->busy)
		return;
	j->arr->busy = 1;
	DL_APPEND2(c->arrays.busy, j, arr->busy_prev, arr->busy_next);
}

int array_open(struct core *c, struct cjob *j, const char *spec, const char *run, struct err *e)
{
	struct job_spec *s = spec_parse(spec, strlen(spec), e);

	if (!s)
		return -1;
	j->arr = xcalloc(1, sizeof(*j->arr));
	j->arr->spec = s;
	j->arr->text = json_parse(spec, strlen(spec), NULL);
	j->arr->run = xstrdup(run ? run : "{}");
	race_open(c, j);
	array_touch(c, j);
	return 0;
}

/* Frees what only the making of members needs. */
static void forget_text(struct carray *a)
{
	cJSON_Delete(a->text);
	free(a->run);
	a->text = NULL;
	a->run = NULL;
}

void array_free(struct core *c, struct cjob *j)
{
	if (!j->arr)
		return;
	if (j->arr->busy)
		DL_DELETE2(c->arrays.busy, j, arr->busy_prev, arr->busy_next);
	race_free(c, j);
	forget_text(j->arr);
	spec_destroy(j->arr->spec);
	free(j->arr);
	j->arr = NULL;
}

static struct cjob *array_of(const struct core *c, const struct cjob *member)
{
	struct cjob *j = member->r.array ? job_find(c, member->r.array) : NULL;

	return j && j->arr ? j : NULL;
}

static struct cjob *member_at(const struct core *c, const struct cjob *j, uint32_t index)
{
	return job_find(c, j->r.id + 1 + index);
}

/* ---- making -------------------------------------------------------------------------------------- */

static cJSON *member_data(const struct cjob *j, const char *spec)
{
	char digest[HASH_HEX_SIZE];
	cJSON *d = cJSON_CreateObject();

	hash_hex(spec, strlen(spec), digest);
	json_add_str(d, "name", j->r.name);
	json_add_str(d, "owner", j->r.owner);
	json_add_str(d, "account", rec_account(&j->r));
	json_add_str(d, "status", state_name(STATE_JOB, JOB_QUEUED));
	if (j->r.experiment)
		json_add_str(d, "experiment", j->r.experiment);
	json_add_str(d, "queue", j->r.queue);
	cJSON_AddNumberToObject(d, "priority", (double)j->r.priority);
	json_add_u64(d, "nodes", j->r.nodes);
	json_add_u64(d, "gpus", j->r.gpus);
	json_add_str(d, "spec_sha256", digest);
	if (j->r.bundle)
		json_add_str(d, "bundle", j->r.bundle);
	json_add_u64(d, "array", j->r.id);
	return d;
}

static void make_members(struct core *c, struct cjob *j, uint32_t *budget)
{
	struct carray *a = j->arr;

	for (; *budget && a->made < j->r.members; --*budget) {
		struct cjob *m = job_new(c, j->r.id + 1 + a->made);

		m->spec = spec_member_text(a->text, a->spec, j->r.id, a->made);
		m->run = xstrdup(a->run);
		a->made++;
		job_post(c, m, EV_SUBMITTED, member_data(j, m->spec));
	}
	if (a->made == j->r.members && a->text)
		forget_text(a);
}

/* ---- admitting ----------------------------------------------------------------------------------- */

static int is_open(const struct cjob *j)
{
	return j->r.status != JOB_HELD && j->r.wanted == WANT_NOTHING;
}

int array_parks(struct core *c, const struct cjob *member)
{
	struct cjob *j = array_of(c, member);
	uint32_t index = rec_index(&member->r);

	if (!j || member->admitted)
		return 0;
	if (index < j->arr->next)
		j->arr->next = index;
	array_touch(c, j);
	return 1;
}

void array_queue(struct core *c, struct cjob *j, const struct job_spec *spec)
{
	if (!j->r.array || !array_parks(c, j))
		alloc_queue(c, j, spec);
}

static void admit_members(struct core *c, struct cjob *j, uint32_t *budget)
{
	struct carray *a = j->arr;
	uint32_t max =
	    a->spec->max_parallel && !FAULT("mistake.all_members") ? a->spec->max_parallel : UINT32_MAX;

	while (*budget && is_open(j) && a->next < a->made && a->admitted < max) {
		struct cjob *m = member_at(c, j, a->next++);

		if (!m || m->r.status != JOB_QUEUED || m->admitted)
			continue;
		m->admitted = 1;
		a->admitted++;
		alloc_queue(c, m, a->spec);
		--*budget;
	}
}

static void take_back(struct carray *a, struct cjob *m)
{
	if (!m->admitted)
		return;
	m->admitted = 0;
	a->admitted--;
	if (m->r.status == JOB_QUEUED && rec_index(&m->r) < a->next)
		a->next = rec_index(&m->r);
}

void array_close(struct core *c, struct cjob *j)
{
	for (uint32_t i = 0; i < j->arr->made; i++) {
		struct cjob *m = member_at(c, j, i);

		if (!m || m->r.status != JOB_QUEUED || !m->admitted)
			continue;
		alloc_unqueue(c, m);
		take_back(j->arr, m);
		job_deadline(c, m, UINT64_MAX); /* its longest wait begins again when it is admitted again */
	}
}

/* ---- the state ---------------------------------------------------------------------------------- */

static void count_end(struct carray *a, uint32_t index, enum job_status status, int halved)
{
	if (status == JOB_STOPPED)
		a->halved += halved != 0;
	if (status == JOB_FAILED && a->n_failed < sizeof(a->failed) / sizeof(*a->failed))
		a->failed[a->n_failed++] = index;
}

void array_after_event(struct core *c, struct cjob *member, enum event_type t,
                       const struct job_before *before)
{
	struct carray *a;
	struct cjob *j;

	(void)t;
	if (!member->r.array || before->refused || (!before->is_new && before->status == member->r.status))
		return;
	j = array_of(c, member);
	if (!j)
		return;
	a = j->arr;
	if (!before->is_new)
		a->n[before->status]--;
	a->n[member->r.status]++;
	race_follow(j, rec_index(&member->r), member->r.status, member->r.halved);
	if (job_ended(member->r.status))
		count_end(a, rec_index(&member->r), member->r.status, member->r.halved);
	if (job_ended(member->r.status) || member->r.status == JOB_HELD)
		take_back(a, member);
	array_touch(c, j);
}

static void failed_text(const struct cjob *j, struct text *t)
{
	const struct carray *a = j->arr;

	text_add(t, "%u of %u members failed: ", a->n[JOB_FAILED], j->r.members);
	for (uint32_t i = 0; i < a->n_failed; i++)
		text_add(t, "%s%" PRIu64 ".%u", i ? ", " : "", j->r.id, a->failed[i]);
	if (a->n[JOB_FAILED] > a->n_failed)
		text_add(t, " and %u more", a->n[JOB_FAILED] - a->n_failed);
}

static void end_array(struct core *c, struct cjob *j)
{
	const struct carray *a = j->arr;
	enum job_status status = JOB_COMPLETED;
	cJSON *d = cJSON_CreateObject();
	TEXT(reason);

	if (j->r.wanted == WANT_STOP) {
		status = JOB_STOPPED;
		text_add(&reason, "%.250s", j->r.reason ? j->r.reason : "");
	} else if (a->n[JOB_FAILED]) {
		status = JOB_FAILED;
		failed_text(j, &reason);
	} else if (a->n[JOB_STOPPED] > a->halved) {
		status = JOB_STOPPED;
		text_add(&reason, "%u of %u members were stopped", a->n[JOB_STOPPED] - a->halved, j->r.members);
	}
	json_add_str(d, "status", state_name(STATE_JOB, (int)status));
	json_add_str(d, "reason", reason.at);
	if (status == JOB_COMPLETED)
		cJSON_AddNumberToObject(d, "exit_code", 0);
	job_post(c, j, EV_ENDED, d);
	log_info("event=ended job=%" PRIu64 " status=%s members=%u", j->r.id, state_name(STATE_JOB, (int)status),
	         a->made);
}

static void settle_array(struct core *c, struct cjob *j)
{
	const struct carray *a = j->arr;
	uint32_t busy = 0, waiting = a->n[JOB_HELD] + a->n[JOB_QUEUED];

	for (int s = JOB_STARTING; s <= JOB_STOPPING; s++)
		busy += a->n[s];
	if (!j->r.started_us && (busy || a->n[JOB_COMPLETED]))
		job_post(c, j, EV_MEMBERS_RUN, NULL);
	if (!busy && !waiting && (a->made == j->r.members || j->r.wanted == WANT_STOP))
		end_array(c, j);
}

static void stop_members(struct core *c, struct cjob *j, uint32_t *budget)
{
	struct carray *a = j->arr;

	for (; *budget && a->stop_at < a->made; a->stop_at++) {
		struct cjob *m = member_at(c, j, a->stop_at);
		cJSON *d;

		if (!m || job_ended(m->r.status) || m->r.wanted == WANT_STOP)
			continue;
		d = cJSON_CreateObject();
		json_add_str(d, "reason", j->r.reason);
		job_stop(c, m, d);
		--*budget;
	}
}

static void step_array(struct core *c, struct cjob *j, uint32_t *budget)
{
	if (job_ended(j->r.status))
		return;
	if (j->r.wanted == WANT_STOP) {
		stop_members(c, j, budget);
	} else {
		make_members(c, j, budget);
		admit_members(c, j, budget);
	}
	if (*budget)
		settle_array(c, j);
	else
		array_touch(c, j); /* more may be left */
}

void arrays_step(struct core *c)
{
	uint32_t budget = A_TURN;
	struct cjob *j;

	if (c->life.failing)
		return;
	while (budget && (j = c->arrays.busy)) {
		DL_DELETE2(c->arrays.busy, j, arr->busy_prev, arr->busy_next);
		j->arr->busy = 0;
		step_array(c, j, &budget);
	}
	array_rm_step(c, &budget);
}

int arrays_busy(const struct core *c)
{
	return c->arrays.busy || c->arrays.removing;
}

/* ---- loading ------------------------------------------------------------------------------------- */

void array_load(struct core *c, const struct cjob *member)
{
	struct cjob *j = array_of(c, member);

	if (!j)
		return;
	j->arr->made++;
	j->arr->n[member->r.status]++;
	j->arr->admitted += member->admitted;
	race_follow(j, rec_index(&member->r), member->r.status, member->r.halved);
	race_load(j, rec_index(&member->r), member->r.rungs);
}

void array_load_ended(struct core *c, const struct member_row *row)
{
	struct cjob *j = job_find(c, row->array);
	int status = state_find(STATE_JOB, row->status);
	uint32_t index = (uint32_t)(row->id - row->array - 1);

	if (!j || !j->arr || status < 0)
		return;
	j->arr->made++;
	j->arr->n[status]++;
	count_end(j->arr, index, (enum job_status)status, row->halved);
	race_follow(j, index, (enum job_status)status, row->halved);
	race_load(j, index, row->rungs);
}

void array_loaded(struct core *c, struct cjob *j)
{
	if (!j->arr)
		return;
	if (j->arr->made == j->r.members)
		forget_text(j->arr);
	/* The numbers of members that are not made yet are reserved. */
	if (c->jobs.last_id < j->r.id + j->r.members)
		c->jobs.last_id = j->r.id + j->r.members;
	array_touch(c, j);
}
