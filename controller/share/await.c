/*
 * await: jobs that wait for other jobs ("after" in job.json).
 *
 * The specification of a job names the jobs that it waits for. The records of those jobs decide whether the
 * wait is over. Nothing else is stored, so a restart comes to the same result. A job waits only for jobs that
 * were submitted before it, so there are no circles.
 *
 * The scheduler library gets the open waits and reports the settled ones. A job whose wait can never end is
 * stopped with that reason, which may stop the jobs that wait for it.
 */
#include "controller/share/await.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "controller/record/states.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/turn.h"

#define SETTLED_A_TURN 500

enum wait { WAIT_OPEN, WAIT_OVER, WAIT_NEVER };

static const char *const wanted_text[] = {
    [SPEC_AFTER_ANY] = "to end", [SPEC_AFTER_OK] = "to end well", [SPEC_AFTER_START] = "to start"};

/* Finds status and attempts of a job, in memory or in the store. */
static int look_up(struct core *c, uint64_t id, enum job_status *status, uint32_t *attempts, struct err *e)
{
	const struct cjob *j = job_find(c, id);
	struct job_row row = {0};
	int st;

	if (j) {
		*status = j->r.status;
		*attempts = j->r.members ? j->r.started_us != 0 : j->r.attempts;
		return 0;
	}
	if (id > c->jobs.last_id || !c->io.job_row)
		return err_set(e, ERR_NOT_FOUND, "there is no job %" PRIu64, id);
	if (c->io.job_row(id, &row, c->io.arg, e) < 0) {
		if (e->code == ERR_NOT_FOUND)
			err_set(e, ERR_NOT_FOUND, "there is no job %" PRIu64, id);
		return -1;
	}
	st = state_find(STATE_JOB, row.status);
	*attempts = row.members ? row.started_us != 0 : row.attempts;
	job_row_fini(&row);
	if (st < 0)
		return err_set(e, ERR_INTERNAL, "job %" PRIu64 " has an unknown status", id);
	*status = (enum job_status)st;
	return 0;
}

static int state_of(struct core *c, const struct spec_after *a, enum wait *out, enum job_status *status,
                    struct err *e)
{
	uint32_t attempts = 0;

	if (look_up(c, a->job, status, &attempts, e) < 0)
		return -1;
	if (a->kind == SPEC_AFTER_START && attempts)
		*out = WAIT_OVER;
	else if (!job_ended(*status))
		*out = WAIT_OPEN;
	else
		*out = a->kind == SPEC_AFTER_ANY || (a->kind == SPEC_AFTER_OK && *status == JOB_COMPLETED)
		           ? WAIT_OVER
		           : WAIT_NEVER;
	return 0;
}

/* Returns t->at. */
static const char *never_text(const struct spec_after *a, enum job_status st, struct text *t)
{
	text_add(t, "waited for job %" PRIu64 " %s, but it %s%s", a->job, wanted_text[a->kind],
	         st == JOB_STOPPED  ? "was stopped"
	         : st == JOB_FAILED ? "failed"
	                            : "ended",
	         a->kind == SPEC_AFTER_START ? " before it started" : "");
	return t->at;
}

int await_check(struct core *c, const struct job_spec *s, char *note, size_t n, struct err *e)
{
	struct text t = text_on(note, n);
	unsigned open = 0;

	for (size_t i = 0; i < s->n_after; i++) {
		const struct spec_after *a = &s->after[i];
		enum job_status status;
		enum wait w;

		if (a->job > c->jobs.last_id)
			return err_set(e, ERR_NOT_FOUND,
			               "after[%zu]: there is no job %" PRIu64
			               ": a job can only wait for one that was submitted before it",
			               i, a->job);
		if (state_of(c, a, &w, &status, e) < 0)
			return err_wrap(e, "after[%zu]", i);
		if (w == WAIT_NEVER) {
			TEXT(text);

			return err_set(e, ERR_CONFLICT, "after[%zu]: this job could never start: it %s", i,
			               never_text(a, status, &text));
		}
		if (w == WAIT_OPEN && a->kind == SPEC_AFTER_START && job_find(c, a->job) &&
		    job_find(c, a->job)->r.members)
			return err_set(e, ERR_CONFLICT,
			               "after[%zu]: job %" PRIu64
			               " is an array and does not start itself; wait for a member, or for its end "
			               "(afterany:%" PRIu64 ")",
			               i, a->job, a->job);
		if (w == WAIT_OVER || ++open > 3)
			continue;
		text_add(&t, "%sjob %" PRIu64 " %s", open > 1 ? ", " : "waits for ", a->job, wanted_text[a->kind]);
	}
	if (open > 3)
		text_add(&t, " and for %u more", open - 3);
	return 0;
}

static void stop_waiting(struct core *c, struct cjob *j, uint64_t on, const char *reason)
{
	cJSON *d = cJSON_CreateObject();

	json_add_str(d, "status", state_name(STATE_JOB, JOB_STOPPED));
	json_add_str(d, "reason", reason);
	json_add_u64(d, "on", on);
	job_post(c, j, EV_ENDED, d);
	log_info("event=ended job=%" PRIu64 " status=stopped after=%" PRIu64, j->r.id, on);
}

/* Holds a job when the store cannot say whether it may start. A person decides. */
static void hold_for(struct core *c, struct cjob *j, const struct err *why)
{
	cJSON *d = cJSON_CreateObject();
	TEXT(reason);

	text_add(&reason, "hearthd could not look up the jobs that it waits for: %s", why->text);
	json_add_str(d, "status", state_name(STATE_JOB, JOB_HELD));
	json_add_str(d, "reason", reason.at);
	job_post(c, j, EV_HELD, d);
}

int await_fill(struct core *c, const struct job_spec *s, struct sched_dep *deps, uint32_t *n,
               const struct spec_after **never, struct err *e)
{
	static const enum sched_after kind[] = {[SPEC_AFTER_ANY] = SCHED_AFTER_ANY,
	                                        [SPEC_AFTER_OK] = SCHED_AFTER_OK,
	                                        [SPEC_AFTER_START] = SCHED_AFTER_START};

	*n = 0;
	*never = NULL;
	for (size_t i = 0; i < s->n_after; i++) {
		enum job_status status;
		enum wait w;

		if (state_of(c, &s->after[i], &w, &status, e) < 0)
			return -1;
		if (w == WAIT_NEVER) {
			*never = &s->after[i];
			return 0;
		}
		if (w == WAIT_OVER)
			continue;
		sched_job_know(c->sched, s->after[i].job);
		deps[(*n)++] = (struct sched_dep){s->after[i].job, kind[s->after[i].kind]};
	}
	return 0;
}

int await_queue(struct core *c, struct cjob *j, const struct job_spec *s, struct sched_dep *deps, uint32_t *n)
{
	const struct spec_after *never;
	enum job_status status = JOB_FAILED;
	uint32_t attempts;
	struct err e;
	TEXT(text);

	*n = 0;
	if (!s->n_after || j->r.attempts ||
	    FAULT("mistake.no_wait")) /* it started once, so its wait is over for good */
		return 0;
	if (await_fill(c, s, deps, n, &never, &e) < 0) {
		hold_for(c, j, &e);
		return -1;
	}
	if (!never)
		return 0;
	if (look_up(c, never->job, &status, &attempts, &e) < 0)
		status = JOB_FAILED;
	stop_waiting(c, j, never->job, never_text(never, status, &text));
	return -1;
}

static void post_settled(struct core *c, const struct sched_settled *x)
{
	static const enum spec_after_kind kind[] = {[SCHED_AFTER_ANY] = SPEC_AFTER_ANY,
	                                            [SCHED_AFTER_OK] = SPEC_AFTER_OK,
	                                            [SCHED_AFTER_START] = SPEC_AFTER_START};
	struct spec_after a = {x->on, kind[x->kind]};
	struct cjob *j = job_find(c, x->job);
	enum job_status status = JOB_FAILED;
	struct sched_reason r;
	uint32_t attempts;
	struct err e;
	cJSON *d;
	TEXT(text);

	if (!j || j->r.status != JOB_QUEUED)
		return;
	if (!x->met) {
		if (look_up(c, x->on, &status, &attempts, &e) < 0)
			status = JOB_FAILED;
		stop_waiting(c, j, x->on, never_text(&a, status, &text));
		return;
	}
	d = cJSON_CreateObject();
	json_add_u64(d, "on", x->on);
	json_add_str(d, "after", spec_after_name(a.kind));
	json_add_u64(d, "open", x->open);
	if (x->open) {
		sched_explain(c->sched, x->job, &r);
		json_add_str(d, "reason", r.text);
	}
	job_post(c, j, EV_AWAITED, d);
}

int await_settle(struct core *c)
{
	struct sched_settled x;

	for (int i = 0; i < SETTLED_A_TURN; i++) {
		if (!sched_settled(c->sched, &x))
			return 1;
		post_settled(c, &x);
	}
	return 0;
}
