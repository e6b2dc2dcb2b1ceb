/*
 * rec: records to rows and back; questions about an attempt.
 */
#include "controller/record/rec.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"

#define SKEW_US 1000000 /* difference of two nodes' clocks up to which the order of their exits counts */

void rec_set(char **p, const char *v)
{
	char *now = v && *v ? xstrdup(v) : NULL;

	free(*p);
	*p = now;
}

void attempt_rec_free(struct attempt_rec *a)
{
	if (!a)
		return;
	for (uint32_t i = 0; i < a->n_places; i++) {
		free(a->places[i].node);
		free(a->places[i].address);
		free(a->places[i].gpus.v);
		free(a->places[i].cpus.v);
		free(a->places[i].text);
	}
	for (uint32_t i = 0; i < a->n_ranks; i++)
		free(a->ranks[i].text);
	failure_list_free(a->failures);
	free(a->places);
	free(a->ranks);
	free(a->reason);
	free(a->cause);
	free(a->launch_id);
	free(a->token);
	free(a->resumed_from);
	free(a->account);
	free(a->evidence);
	free(a->plan);
	free(a->skip_steps);
	free(a->pool);
	free(a);
}

const char *rec_ref(const struct job_rec *r, char out[REC_REF_SIZE])
{
	if (r->array)
		snprintf(out, REC_REF_SIZE, "%" PRIu64 ".%u", r->array, rec_index(r));
	else
		snprintf(out, REC_REF_SIZE, "%" PRIu64, r->id);
	return out;
}

#define RELEASE_TEXT(name)     rec_set(&r->name, NULL);
#define RELEASE_NULLABLE(name) rec_set(&r->name, NULL);
#define RELEASE_U64(name)
#define RELEASE_U32(name)
#define RELEASE_U8(name)
#define RELEASE_I64(name)

#define RELEASE_SAME(kind, name)   RELEASE_##kind(name)
#define RELEASE_UNSEEN(kind, name) RELEASE_##kind(name)
#define RELEASE_MADE(kind, name)
#define RELEASE_KEY(kind, name)
#define RELEASE_COLUMN(kind, name, how) RELEASE_##how(kind, name)

const char *rec_account(const struct job_rec *r)
{
	return r->run_as ? r->run_as : r->owner ? r->owner : "";
}

void rec_fini(struct job_rec *r)
{
	JOB_TABLE(RELEASE_COLUMN, RELEASE_COLUMN)
	rec_set(&r->spec_sha256, NULL);
	ckpt_list_free(r->ckpts);
	r->ckpts = NULL;
	attempt_rec_free(r->att);
	attempt_rec_free(r->old);
	r->att = r->old = NULL;
}

/* ---- to rows --------------------------------------------------------------------------------- */

static char *text_of(const char *s)
{
	/* Rows borrow texts. Their fields are not const because other rows own them. */
	return (char *)(uintptr_t)(s ? s : "");
}

static char *name_of(enum state_kind k, int v)
{
	return text_of(state_name(k, v));
}

/* Sets a column from the record's field of the same name. rec_*_row sets columns MADE and KEY. */
#define ROW_TEXT(v)     text_of(v)
#define ROW_NULLABLE(v) (v)
#define ROW_FILLED(v)   text_of(v)
#define ROW_U64(v)      (v)
#define ROW_U32(v)      (v)
#define ROW_U8(v)       (v)
#define ROW_I64(v)      (v)

#define ROW_SAME(kind, name)   out->name = ROW_##kind(from->name);
#define ROW_UNSEEN(kind, name) ROW_SAME(kind, name)
#define ROW_MADE(kind, name)
#define ROW_KEY(kind, name)
#define ROW_COLUMN(kind, name, how) ROW_##how(kind, name)

void rec_job_row(const struct job_rec *r, struct job_row *out)
{
	const struct job_rec *from = r;

	*out = (struct job_row){
	    .id = r->id,
	    .status = name_of(STATE_JOB, (int)r->status),
	    .wanted = name_of(STATE_WANTED, (int)r->wanted),
	};
	JOB_TABLE(ROW_COLUMN, ROW_COLUMN)
}

static cJSON *ids_json(const struct wire_u32v *v)
{
	cJSON *a = cJSON_CreateArray();

	for (uint32_t i = 0; i < v->n; i++)
		cJSON_AddItemToArray(a, cJSON_CreateNumber(v->v[i]));
	return a;
}

static cJSON *rec_places_json(const struct attempt_rec *a)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];
		cJSON *o = cJSON_CreateObject();

		json_add_str(o, "node", p->node);
		json_add_u64(o, "node_id", p->node_id);
		json_add_str(o, "address", p->address ? p->address : "");
		cJSON_AddItemToObject(o, "gpus", ids_json(&p->gpus));
		cJSON_AddItemToObject(o, "cpus", ids_json(&p->cpus));
		json_add_u64(o, "ranks", p->ranks);
		json_add_u64(o, "group", p->group);
		json_add_str(o, "state", state_name(STATE_PLACE, (int)p->state));
		if (p->cls != RC_NONE)
			json_add_str(o, "class", state_name(STATE_CLASS, (int)p->cls));
		if (p->culprit)
			cJSON_AddTrueToObject(o, "culprit");
		if (p->saved)
			cJSON_AddTrueToObject(o, "saved");
		if (p->unconfirmed)
			cJSON_AddTrueToObject(o, "unconfirmed");
		if (p->pool_bad)
			cJSON_AddTrueToObject(o, "pool_bad");
		if (p->kept)
			cJSON_AddTrueToObject(o, "kept");
		if (p->silent_us)
			json_add_u64(o, "silent_us", p->silent_us);
		if (p->text)
			json_add_str(o, "text", p->text);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

static char *phases_text(const struct attempt_rec *a)
{
	cJSON *list = cJSON_CreateArray();
	char *text;

	for (int i = 0; i < N_PHASE; i++) {
		cJSON *o;

		if (!a->phases[i].started_us)
			continue;
		o = cJSON_CreateObject();
		json_add_str(o, "name", state_name(STATE_PHASE, i));
		json_add_u64(o, "started_us", a->phases[i].started_us);
		json_add_u64(o, "ended_us", a->phases[i].ended_us);
		cJSON_AddItemToArray(list, o);
	}
	text = json_text(list);
	cJSON_Delete(list);
	return text;
}

void rec_attempt_row(const struct job_rec *r, struct attempt_row *out)
{
	const struct attempt_rec *from = r->att;
	cJSON *places = rec_places_json(from);

	*out = (struct attempt_row){
	    .job = r->id,
	    .number = from->number,
	    .state = name_of(STATE_ATTEMPT, (int)from->state),
	    .outcome = name_of(STATE_OUTCOME, (int)from->outcome),
	    .cls = name_of(STATE_CLASS, (int)from->cls),
	    .placement = json_text(places),
	    .phases = phases_text(from),
	};
	ATTEMPT_TABLE(ROW_COLUMN, ROW_COLUMN)
	cJSON_Delete(places);
}

void attempt_row_borrowed_fini(struct attempt_row *row)
{
	free(row->placement);
	free(row->phases);
	row->placement = row->phases = NULL;
}

void rec_rank_row(const struct job_rec *r, uint32_t rank, struct rank_row *out)
{
	const struct rank_rec *from = &r->att->ranks[rank];

	*out = (struct rank_row){
	    .job = r->id,
	    .attempt = r->att->number,
	    .rank = rank,
	    .node = text_of(r->att->places[from->place].node),
	    .node_rank = from->place,
	    .state = name_of(STATE_RANK, (int)from->state),
	    .ended_by = from->ended_by ? name_of(STATE_ENDED_BY, from->ended_by) : NULL,
	};
	RANK_TABLE(ROW_COLUMN, ROW_COLUMN)
}

/* ---- from rows ------------------------------------------------------------------------------- */

#define RECORD_TEXT(name)     rec_set(&to->name, row->name);
#define RECORD_NULLABLE(name) rec_set(&to->name, row->name);
#define RECORD_FILLED(name)   rec_set(&to->name, row->name);
#define RECORD_U64(name)      to->name = row->name;
#define RECORD_U32(name)      to->name = row->name;
#define RECORD_U8(name)       to->name = row->name;
#define RECORD_I64(name)      to->name = (__typeof__(to->name))row->name;

#define RECORD_SAME(kind, name)   RECORD_##kind(name)
#define RECORD_UNSEEN(kind, name) RECORD_##kind(name)
#define RECORD_MADE(kind, name)
#define RECORD_KEY(kind, name)
#define RECORD_COLUMN(kind, name, how) RECORD_##how(kind, name)

static uint64_t run_max_runtime(const char *run)
{
	uint64_t out;
	cJSON *o;

	/* Searches the text first: few jobs have the key, and start-up reads a million jobs. */
	if (!run || !strstr(run, "\"max_runtime_s\""))
		return 0;
	o = cJSON_Parse(run);
	out = json_whole(o, "max_runtime_s", 0);
	cJSON_Delete(o);
	return out;
}

int rec_from_job_row(struct job_rec *r, const struct job_row *row, struct err *e)
{
	struct job_rec *to = r;
	int status = state_find(STATE_JOB, row->status), wanted = state_find(STATE_WANTED, row->wanted);

	if (status < 0 || wanted < 0)
		return err_set(e, ERR_INTERNAL, "job %" PRIu64 ": unknown status \"%s\"", row->id,
		               row->status ? row->status : "");
	r->id = row->id;
	r->status = (enum job_status)status;
	r->wanted = (enum wanted)wanted;
	r->max_runtime_s = run_max_runtime(row->run);
	JOB_TABLE(RECORD_COLUMN, RECORD_COLUMN)
	return 0;
}

static void phases_parse(struct attempt_rec *a, const char *text)
{
	cJSON *list = text ? cJSON_Parse(text) : NULL;
	const cJSON *o;

	cJSON_ArrayForEach (o, list) {
		int i = state_find(STATE_PHASE, json_str_or(o, "name", NULL));

		if (i >= 0)
			a->phases[i] = (struct phase_rec){json_whole(o, "started_us", 0), json_whole(o, "ended_us", 0)};
	}
	cJSON_Delete(list);
}

static void ids_parse(struct wire_u32v *v, const cJSON *list)
{
	const cJSON *o;

	cJSON_ArrayForEach (o, list)
		if (cJSON_IsNumber(o) && o->valuedouble >= 0 && o->valuedouble <= UINT32_MAX)
			wire_u32v_add(v, (uint32_t)o->valuedouble);
}

int rec_places_parse(struct attempt_rec *a, const cJSON *list, struct err *e)
{
	int n = cJSON_GetArraySize(list);
	const cJSON *o;
	uint32_t total = 0;

	if (n <= 0 || n > SPEC_MAX_NODES)
		return err_set(e, ERR_INTERNAL, "a placement of %d nodes", n);
	a->places = xcalloc((size_t)n, sizeof(*a->places));
	cJSON_ArrayForEach (o, list) {
		struct place_rec *p = &a->places[a->n_places];
		int state = state_find(STATE_PLACE, json_str_or(o, "state", NULL)),
		    cls = state_find(STATE_CLASS, json_str_or(o, "class", NULL));
		uint64_t ranks = json_whole(o, "ranks", 0);

		if (ranks > SPEC_MAX_RANKS || total + ranks > SPEC_MAX_RANKS)
			return err_set(e, ERR_INTERNAL, "a placement of too many ranks");
		a->n_places++;
		p->node = xstrdup(json_str_or(o, "node", "?"));
		rec_set(&p->address, json_str_or(o, "address", NULL));
		rec_set(&p->text, json_str_or(o, "text", NULL));
		p->node_id = json_whole(o, "node_id", 0);
		ids_parse(&p->gpus, cJSON_GetObjectItemCaseSensitive(o, "gpus"));
		ids_parse(&p->cpus, cJSON_GetObjectItemCaseSensitive(o, "cpus"));
		p->ranks = (uint32_t)ranks;
		p->group = (uint32_t)json_whole(o, "group", 0);
		p->state = state < 0 ? PLACE_ORDERED : (enum place_state)state;
		p->cls = cls < 0 ? RC_UNKNOWN : (enum reason_class)cls;
		p->culprit = !!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "culprit"));
		p->saved = !!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "saved"));
		p->unconfirmed = !!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "unconfirmed"));
		p->pool_bad = !!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "pool_bad"));
		p->kept = !!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "kept"));
		p->silent_us = json_whole(o, "silent_us", 0);
		p->first_rank = total;
		total += p->ranks;
	}
	a->n_ranks = total;
	a->ranks = xcalloc(total ? total : 1, sizeof(*a->ranks));
	for (uint32_t i = 0; i < a->n_places; i++) {
		for (uint32_t k = 0; k < a->places[i].ranks; k++)
			a->ranks[a->places[i].first_rank + k] =
			    (struct rank_rec){.place = i, .local_rank = k, .exit_code = -1, .signal = -1};
	}
	return 0;
}

int rec_from_attempt_row(struct job_rec *r, const struct attempt_row *row, struct err *e)
{
	struct attempt_rec *to = xcalloc(1, sizeof(*to));
	int state = state_find(STATE_ATTEMPT, row->state), outcome = state_find(STATE_OUTCOME, row->outcome),
	    cls = state_find(STATE_CLASS, row->cls), rc;
	cJSON *places = row->placement ? cJSON_Parse(row->placement) : NULL;

	attempt_rec_free(r->att);
	r->att = to;
	if (state < 0 || outcome < 0 || cls < 0)
		rc = err_set(e, ERR_INTERNAL, "job %" PRIu64 " attempt %u: unknown state, outcome or class", row->job,
		             row->number);
	else
		rc = rec_places_parse(to, places, e);
	cJSON_Delete(places);
	to->number = row->number;
	to->state = state < 0 ? ATT_ENDED : (enum attempt_state)state;
	to->outcome = outcome < 0 ? OUT_NONE : (enum outcome)outcome;
	to->cls = cls < 0 ? RC_UNKNOWN : (enum reason_class)cls;
	ATTEMPT_TABLE(RECORD_COLUMN, RECORD_COLUMN)
	phases_parse(to, row->phases);
	return rc;
}

int rec_from_rank_row(struct job_rec *r, const struct rank_row *row)
{
	struct rank_rec *to;
	int state = state_find(STATE_RANK, row->state), by = state_find(STATE_ENDED_BY, row->ended_by);

	if (!r->att || row->attempt != r->att->number || row->rank >= r->att->n_ranks || state < 0)
		return -1;
	to = &r->att->ranks[row->rank];
	to->state = (enum rank_state)state;
	to->ended_by = (uint8_t)(by > 0 ? by : BY_ITSELF);
	RANK_TABLE(RECORD_COLUMN, RECORD_COLUMN)
	return 0;
}

/* ---- plans ----------------------------------------------------------------------------------- */

struct plan_used rec_plan_used(const struct job_rec *r)
{
	return (struct plan_used){.attempts = r->plan_attempts,
	                          .capacity = r->plan_capacity,
	                          .rollbacks = r->plan_rollbacks,
	                          .stuck = r->plan_stuck,
	                          .unstarted = r->plan_unstarted,
	                          .day_us = r->plan_day_us,
	                          .mark = r->plan_mark};
}

void rec_plan_use(struct job_rec *r, const struct plan_used *u)
{
	r->plan_attempts = u->attempts;
	r->plan_capacity = u->capacity;
	r->plan_rollbacks = u->rollbacks;
	r->plan_stuck = u->stuck;
	r->plan_unstarted = u->unstarted;
	r->plan_day_us = u->day_us;
	r->plan_mark = u->mark;
}

enum plan_action rec_plan_action(const struct attempt_rec *a)
{
	cJSON *o = a->plan ? cJSON_Parse(a->plan) : NULL;
	enum plan_action action = plan_action_find(json_str_or(o, "action", NULL));

	cJSON_Delete(o);
	return action;
}

int rec_is_followed(const struct attempt_rec *a)
{
	return (a->outcome == OUT_FAILED || a->outcome == OUT_LOST || a->outcome == OUT_ROLLED_BACK) &&
	       plan_goes_on(rec_plan_action(a));
}

int rec_goes_on(const struct job_rec *r)
{
	if (r->wanted != WANT_NOTHING)
		return r->wanted == WANT_REQUEUE;
	return r->status == JOB_RECOVERING && rec_is_followed(r->att);
}

/* 1: from the outcome until its end the attempt holds places that are clean. */
static int may_keep(const struct job_rec *r)
{
	return r->status == JOB_RECOVERING && rec_is_followed(r->att) && rec_plan_action(r->att) != PLAN_QUEUE;
}

int rec_keeps_nodes(const struct job_rec *r)
{
	const struct attempt_rec *a = r->att;

	if (r->wanted != WANT_NOTHING)
		return 0;
	/* A job whose old ranks may still run somewhere waits for a person. */
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].unconfirmed && rec_launched(a))
			return 0;
	return may_keep(r);
}

int rec_holds(const struct job_rec *r, const struct place_rec *p)
{
	if (r->att->state == ATT_ENDED)
		return r->status == JOB_RECOVERING && p->kept && r->wanted != WANT_STOP;
	/* Whether it is kept is not known before the outcome. */
	return p->state < PLACE_CLEANED ||
	       (p->state == PLACE_CLEANED && (r->att->outcome == OUT_NONE || may_keep(r)));
}

/* ---- questions ------------------------------------------------------------------------------- */

static int rank_ok(const struct rank_rec *k)
{
	return k->state == RANK_EXITED && k->exit_code == 0 && k->signal <= 0 && !k->oom;
}

int rec_all_ranks_ok(const struct attempt_rec *a)
{
	for (uint32_t i = 0; i < a->n_ranks; i++)
		if (!rank_ok(&a->ranks[i]))
			return 0;
	return a->n_ranks > 0;
}

int rec_any_rank_started(const struct attempt_rec *a)
{
	for (uint32_t i = 0; i < a->n_ranks; i++)
		if (a->ranks[i].started_us || a->ranks[i].state == RANK_RUNNING)
			return 1;
	return 0;
}

int rec_launched(const struct attempt_rec *a)
{
	return a->phases[PHASE_LAUNCHING].started_us != 0;
}

static int rank_bad(const struct rank_rec *k)
{
	return k->state == RANK_FAILED || (k->state == RANK_EXITED && !rank_ok(k));
}

/* 1: ended by the signal that mpirun or Hearth send to the others when one rank has failed. Such a rank is a
 * victim, unless it was clearly the first. */
static int looks_killed(const struct attempt_rec *a, const struct rank_rec *k)
{
	uint64_t ending = a->phases[PHASE_RUNNING].ended_us;

	if (k->state != RANK_EXITED || k->oom)
		return 0;
	if (k->ended_by != BY_ITSELF)
		return 1;
	return k->signal == SIGTERM || (k->signal == SIGKILL && ending && k->ended_us > ending);
}

enum reason_class rec_rank_class(const struct rank_rec *k)
{
	if (k->state == RANK_FAILED)
		return RC_USER_ERROR;
	if (k->state == RANK_EXITED && k->oom)
		return RC_OOM;
	return k->state == RANK_EXITED && k->signal > 0 ? RC_SIGNAL : RC_UNKNOWN;
}

int rec_looks_killed(const struct attempt_rec *a, uint32_t rank)
{
	return looks_killed(a, &a->ranks[rank]);
}

/* Order of killed ranks: first those with an unknown killer, then victims of the launcher. */
static int failed_before(const struct rank_rec *a, const struct rank_rec *b)
{
	static const uint8_t weight[] = {[BY_ITSELF] = 0, [BY_LAUNCHER] = 1, [BY_ORDER] = 2};

	if (a->ended_by != b->ended_by)
		return weight[a->ended_by] < weight[b->ended_by];
	return a->ended_us < b->ended_us;
}

uint32_t rec_first_failed(const struct attempt_rec *a)
{
	uint32_t own = a->n_ranks, killed = a->n_ranks;

	for (uint32_t i = 0; i < a->n_ranks; i++) {
		const struct rank_rec *k = &a->ranks[i];
		uint32_t *best = looks_killed(a, k) ? &killed : &own;

		if (rank_bad(k) && (*best == a->n_ranks || failed_before(k, &a->ranks[*best])))
			*best = i;
	}
	if (own == a->n_ranks || killed == a->n_ranks)
		return own == a->n_ranks ? killed : own;
	if (a->ranks[killed].ended_by != BY_ITSELF)
		return own;
	return a->ranks[own].ended_us <= a->ranks[killed].ended_us + SKEW_US ? own : killed;
}

const struct place_rec *rec_limited(const struct attempt_rec *a)
{
	for (uint32_t i = 0; i < a->n_places; i++) {
		const struct place_rec *p = &a->places[i];

		if ((p->state == PLACE_STOPPING || p->state == PLACE_ENDED) &&
		    (p->cls == RC_OOM || p->cls == RC_DISK))
			return p;
	}
	return NULL;
}

int rec_collects(const struct attempt_rec *a)
{
	for (uint32_t i = 0; a && a->state == ATT_ENDED && i < a->n_places; i++)
		if (a->places[i].state < PLACE_CLEANED)
			return 1;
	return 0;
}

/* Code that looks at the old attempt exchanges the two for that time. */
struct attempt_rec *rec_newest(const struct job_rec *r)
{
	return r->old && (!r->att || r->old->number > r->att->number) ? r->old : r->att;
}

struct attempt_rec *rec_attempt(const struct job_rec *r, uint32_t number)
{
	if (r->att && r->att->number == number)
		return r->att;
	return r->old && r->old->number == number ? r->old : NULL;
}

struct place_rec *rec_place_of(const struct attempt_rec *a, uint64_t node_id)
{
	for (uint32_t i = 0; i < a->n_places; i++)
		if (a->places[i].node_id == node_id)
			return &a->places[i];
	return NULL;
}

static const char *check_attempt(const struct job_rec *r)
{
	const struct attempt_rec *a = r->att;

	if (a->number != r->attempts)
		return "the newest attempt is not the last one counted";
	if (a->epoch != r->epoch)
		return "the attempt's epoch is not the job's";
	if (a->state == ATT_ENDED && (!a->ended_us || a->outcome == OUT_NONE))
		return "an attempt ended without time or outcome";
	if (a->state != ATT_ENDED && a->ended_us)
		return "an attempt goes on after its end";
	if (a->outcome != OUT_NONE && a->state < ATT_ENDING)
		return "an outcome before the end";
	if (a->outcome == OUT_SUCCEEDED && !rec_all_ranks_ok(a))
		return "succeeded although not every rank exited with 0";
	for (uint32_t i = 0; i < a->n_ranks; i++) {
		const struct rank_rec *k = &a->ranks[i];

		if (k->state == RANK_EXITED && k->exit_code < 0 && k->signal <= 0)
			return "a rank exited without a status";
		if (k->state == RANK_RUNNING && a->outcome != OUT_NONE)
			return "an outcome while the fate of a rank is open";
	}
	if (a->state == ATT_ENDED)
		for (uint32_t i = 0; i < a->n_places; i++)
			if (a->places[i].state < PLACE_ENDED)
				return "an attempt ended before its nodes had stopped";
	return NULL;
}

const char *rec_check(const struct job_rec *r)
{
	int busy = r->status >= JOB_STARTING && r->status <= JOB_STOPPING;

	if (job_ended(r->status) != !!r->ended_us)
		return "ended_us and status disagree";
	if (job_ended(r->status) && r->wanted != WANT_NOTHING)
		return "an ended job still wants something";
	if (r->status == JOB_COMPLETED && r->exit_code != 0)
		return "completed with an exit code";
	if (r->members)
		return r->att || r->attempts ? "an array with an attempt of its own" : NULL;
	/* Between two attempts: the first has ended, and the back-off of the next one goes on. */
	if (busy && (!r->att || (r->att->state == ATT_ENDED && r->status != JOB_RECOVERING)))
		return "busy without an attempt that goes on";
	if (!busy && r->att && r->att->state != ATT_ENDED)
		return "an attempt goes on without the job";
	if (r->old && (!r->att || r->old->number + 1 != r->att->number || r->old->state != ATT_ENDED))
		return "an old attempt that is not the one before the newest, or has not ended";
	if (!busy && (rec_collects(r->att) || rec_collects(r->old)))
		return "an attempt is being collected without the job";
	if (r->status == JOB_RUNNING && r->att->state != ATT_RUNNING)
		return "the job runs, its attempt does not";
	return r->att ? check_attempt(r) : NULL;
}
