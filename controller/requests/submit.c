/*
 * submit: new jobs: checks their limits and references, whether they could ever run, and makes their records.
 */
#include "controller/requests/requests.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/hashtable.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/rec.h"
#include "controller/record/states.h"
#include "controller/requests/doubt.h"
#include "controller/requests/pool_notes.h"
#include "controller/requests/suggest.h"
#include "controller/run/array.h"
#include "controller/run/attempt.h"
#include "controller/run/resolve.h"
#include "controller/share/alloc.h"
#include "controller/share/await.h"
#include "controller/share/budget.h"
#include "controller/share/cost.h"
#include "controller/share/forecast.h"
#include "controller/share/instances.h"
#include "controller/share/pool_want.h"
#include "controller/share/pools.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "controller/state/idem.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"
#include "controller/state/refs.h"
#include "controller/state/request.h"
#include "controller/state/requester.h"
#include "controller/state/role.h"
#include "controller/state/turn.h"

#define DRY_BYTES         2400 /* of the answer to a dry run */
#define MEMBERS_MAX_BYTES (256 * 1024 * 1024)

/* ---- limits ---------------------------------------------------------------------------------- */

static int check_limits(struct core *c, const struct job_spec *s, struct err *e)
{
	char asked[40], most[40];

	if (c->jobs.unfinished >= c->cfg.queue_limit)
		return err_set(e, ERR_BUSY, "%u jobs are waiting or running: that is the limit; try again later",
		               c->cfg.queue_limit);
	if (s->max_runtime_s > c->cfg.max_runtime_limit_s)
		return err_set(e, ERR_LIMIT, "limits.max_runtime_s: %s is more than the administrator allows (%s)",
		               str_duration(s->max_runtime_s, asked, sizeof(asked)),
		               str_duration(c->cfg.max_runtime_limit_s, most, sizeof(most)));
	if (queue_exists(c, s->queue, e) < 0)
		return -1;
	if (spec_nodes(s) == 0 || spec_nodes(s) > SPEC_MAX_NODES || spec_ranks(s) == 0 ||
	    spec_ranks(s) > SPEC_MAX_RANKS)
		return err_set(e, ERR_LIMIT, "a job has 1 to %d instances and 1 to %d ranks", SPEC_MAX_NODES,
		               SPEC_MAX_RANKS);
	return 0;
}

static uint64_t gpus_of(const struct job_spec *s)
{
	uint64_t gpus = 0;

	for (size_t i = 0; i < s->n_groups; i++)
		gpus += (uint64_t)s->groups[i].instances * s->groups[i].gpus_per_instance;
	return gpus;
}

/* Rejects a job that its quotas never allow, and suggests a change. */
static int check_quota(struct core *c, const struct job_spec *s, const char *owner, struct err *e)
{
	struct err why;
	TEXT(change);

	if (queue_holds(c, s->queue, owner, gpus_of(s), &why) == 0)
		return 0;
	suggest(c, s, NULL, owner, 1, NULL, &change);
	return err_set(e, why.code, "%s%s", why.text, change.at);
}

static int check_possible(struct core *c, const struct job_spec *s, const char *owner, struct text *note,
                          struct err *e)
{
	struct sched_reason r;
	TEXT(change);

	if (alloc_possible(c, s, &r))
		return 0;
	if (r.why == SCHED_NO_NODES) { /* nodes may still join: the job waits, and why gives the reason */
		text_add(note, "%s", r.text);
		return 0;
	}
	/* The specification is valid; other nodes could run it. */
	suggest(c, s, NULL, owner, 1, NULL, &change);
	return err_set(e, ERR_CONFLICT, "resources: impossible on this cluster: %s%s", r.text, change.at);
}

/* Rejects too many or too long members: each member's specification is stored. */
static int check_members(const struct core *c, const struct request *rq, struct err *e)
{
	uint64_t n = spec_members(rq->spec), bytes = n * strlen(rq->text);

	if (c->jobs.unfinished + n >= c->cfg.queue_limit)
		return err_set(e, ERR_BUSY,
		               "%" PRIu64 " members: with %" PRIu64
		               " jobs that wait or run that is more than the limit of %u",
		               n, c->jobs.unfinished, c->cfg.queue_limit);
	if (bytes > MEMBERS_MAX_BYTES)
		return err_set(e, ERR_LIMIT,
		               "%" PRIu64
		               " members with a specification of %zu bytes each are more than %d MiB in all; make "
		               "it shorter (scripts belong into source_dir), or take fewer members",
		               n, strlen(rq->text), MEMBERS_MAX_BYTES / (1024 * 1024));
	return 0;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

/* Returns who owns the job that the request makes. */
static const char *owner_of_new(const struct core *c, const struct request *rq)
{
	return rq->owner ? rq->owner : req_user(c, rq);
}

/* Returns the Unix account that runs the job that the request makes; NULL: it has none, and e says so. A
 * job's children run as the job does, whatever the rules are by now. */
static const char *account_of_new(struct core *c, const struct request *rq, struct err *e)
{
	const struct cjob *parent = rq->role == ROLE_JOB ? job_get(c, rq->token_job, e) : NULL;

	if (rq->role == ROLE_JOB)
		return parent ? rec_account(&parent->r) : NULL;
	if (!rq->account)
		return owner_of_new(c, rq);
	if (*rq->account)
		return rq->account;
	err_set(e, ERR_DENIED,
	        "no account runs jobs of user %.100s; ask the administrator to add %.100s=ACCOUNT to hearthd's "
	        "setting run_as",
	        req_user(c, rq), req_user(c, rq));
	return NULL;
}

/* Rejects an input from a job of another owner. */
static int check_owner(struct core *c, const struct request *rq, const char *uri, const char *where,
                       struct err *e)
{
	const struct cjob *of;
	char number[24];
	uint64_t id;

	if (strncmp(uri, "job:", 4) != 0 || rq->role == ROLE_ADMIN)
		return 0;
	snprintf(number, sizeof(number), "%.*s", (int)(strcspn(uri + 4, "/") < 20 ? strcspn(uri + 4, "/") : 20),
	         uri + 4);
	if (str_parse_u64(number, &id) < 0)
		return err_set(e, ERR_INVALID, "%s: \"%.100s\" is not a job", where, uri);
	of = job_get(c, id, e);
	if (!of)
		return err_wrap(e, "%s", where);
	if (strcmp(of->r.owner ? of->r.owner : "", req_user(c, rq)) != 0)
		return err_set(e, ERR_DENIED, "%s: job %" PRIu64 " belongs to %s", where, id,
		               of->r.owner ? of->r.owner : "nobody");
	return 0;
}

struct asked {
	const struct cjob *retries; /* NULL: the job is not a retry */
	uint64_t from_job;          /* whose checkpoint a retry begins with; 0 none */
	int64_t from_step;          /* -1: not known */
	const char *bundle, *account;
	uint64_t pool; /* that it waits for; 0 none */
	int hold, dry_run;
	const char *note;       /* why it cannot start yet; "" unknown */
	struct text *no_pool;   /* why a copy does not wait for the pool that it names; empty: it does */
	struct text *beginning; /* what is doubtful about the checkpoint; empty: nothing */
};

/* A copy of a job runs without a pool that is gone. */
static int check_pool(struct core *c, const struct request *rq, struct asked *a, struct err *e)
{
	int rc = pool_want_find(c, rq->spec, owner_of_new(c, rq), &a->pool, e);

	if (rc < 0 && rq->job && e->code == ERR_NOT_FOUND) {
		text_add(a->no_pool, "%s", e->text);
		rc = 0;
	}
	return rc;
}

static int check_refs(struct core *c, const struct request *rq, struct asked *a, struct err *e)
{
	const struct job_spec *s = rq->spec;
	const struct ckpt_nodes any = {NULL, 0};
	struct beginning begin = {0};
	struct strv inputs = {0};
	int rc;

	for (size_t i = 0; i < s->n_inputs; i++) {
		TEXT(where);

		text_add(&where, "inputs.%.100s", s->inputs[i].name);
		if (check_owner(c, rq, s->inputs[i].uri, where.at, e) < 0)
			return -1;
	}
	if (s->resume_job && check_owner(c, rq, s->resume_job, "resume_from", e) < 0)
		return -1;
	rc = refs_resolve(c, s, &inputs, e);
	if (rc == 0)
		rc = resolve_resume(c, s, &any, &begin, e);
	a->from_step = rc == 0 ? begin.step : -1;
	a->from_job = rc == 0 ? begin.job : 0;
	if (rc == 0)
		doubt_checkpoint(c, begin.job, begin.ckpt, a->beginning);
	strv_fini(&inputs);
	beginning_fini(&begin);
	return rc;
}

/* Checks the digest only: api_jobs.c has already asked the blob thread whether the tree exists. */
static int check_bundle(const struct request *rq, const char *bundle, int dry_run, struct err *e)
{
	if (bundle && !hash_is_hex(bundle))
		return err_set(e, ERR_INVALID, "bundle: expected a digest (64 lower-case hexadecimal digits)");
	if (rq->spec->source_dir && !bundle && !dry_run)
		return err_set(e, ERR_INVALID,
		               "source_dir: the client sent no bundle of it; submit with jobctl, or upload the tree "
		               "and give its digest");
	return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

static cJSON *submitted_data(struct core *c, const struct request *rq, const struct asked *a)
{
	const struct job_spec *s = rq->spec;
	char digest[HASH_HEX_SIZE];
	uint64_t gpus = gpus_of(s);
	cJSON *d = cJSON_CreateObject();

	hash_hex(rq->text, strlen(rq->text), digest);
	json_add_str(d, "name", s->name);
	json_add_str(d, "owner", owner_of_new(c, rq));
	json_add_str(d, "account", a->account);
	if (rq->owner)
		json_add_str(d, "by", req_user(c, rq));
	json_add_str(d, "status", state_name(STATE_JOB, a->hold ? JOB_HELD : JOB_QUEUED));
	if (a->hold || *a->note)
		json_add_str(d, "reason", a->hold ? "held at submit" : a->note);
	if (s->experiment && *s->experiment)
		json_add_str(d, "experiment", s->experiment);
	if (s->notes && *s->notes)
		json_add_str(d, "notes", s->notes);
	json_add_str(d, "queue", s->queue ? s->queue : "default");
	cJSON_AddNumberToObject(d, "priority", (double)s->priority);
	json_add_u64(d, "nodes", spec_nodes(s));
	json_add_u64(d, "gpus", gpus);
	json_add_str(d, "spec_sha256", digest);
	if (a->bundle)
		json_add_str(d, "bundle", a->bundle);
	if (spec_members(s))
		json_add_u64(d, "members", spec_members(s));
	if (rq->job)
		json_add_u64(d, a->retries ? "retry_of" : "cloned_from", rq->job);
	if (a->retries && a->retries->r.skip_steps)
		json_add_str(d, "skip_steps", a->retries->r.skip_steps);
	if (a->pool)
		json_add_u64(d, "wants_pool", a->pool);
	if (rq->role == ROLE_JOB)
		json_add_u64(d, "submitted_by_job", rq->token_job);
	return d;
}

static char *run_text(const struct request *rq)
{
	const cJSON *run = cJSON_GetObjectItemCaseSensitive(rq->body, "run");

	return cJSON_IsObject(run) ? json_text(run) : xstrdup("{}");
}

/* Adds the time limit and its origin. */
static void add_limit(struct core *c, const struct job_spec *s, cJSON *body)
{
	struct cjob none = {0};

	json_add_u64(body, "max_runtime_s", max_runtime_s(c, &none, s));
	json_add_str(body, "max_runtime_from", s->max_runtime_s ? "specification" : "default");
}

/* Says that the pool gets less time than the specification asks for. */
static void add_shortened(const struct core *c, const struct job_spec *s, struct strv *notes)
{
	uint64_t keep = pool_keep_alive(c, s);
	char asked[40], gets[40];

	if (s->keep_alive_s > 0 && keep < (uint64_t)s->keep_alive_s)
		strv_addf(notes,
		          "warm_pool.keep_alive_s: shortened from %s to %s, the administrator's warm_keep_alive_max",
		          str_duration((uint64_t)s->keep_alive_s, asked, sizeof(asked)),
		          str_duration(keep, gets, sizeof(gets)));
}

static void add_warnings(const struct core *c, const struct job_spec *s, const struct asked *a, cJSON *body)
{
	struct strv notes = {0};
	cJSON *list;

	spec_notes(s, &notes);
	add_shortened(c, s, &notes);
	if (!text_is_empty(a->no_pool))
		strv_add(&notes, a->no_pool->at);
	if (!text_is_empty(a->beginning))
		strv_add(&notes, a->beginning->at);
	list = notes.n ? cJSON_AddArrayToObject(body, "warnings") : NULL;
	for (size_t i = 0; i < notes.n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(notes.v[i]));
	strv_fini(&notes);
}

/* Adds what a retry begins with. */
static void add_beginning(const struct asked *a, cJSON *body)
{
	if (a->retries && a->from_job)
		json_add_u64(body, "resume_from_job", a->from_job);
	if (a->retries && a->from_step >= 0)
		json_add_u64(body, "resume_from_step", (uint64_t)a->from_step);
}

static void create_job(struct core *c, struct request *rq, const struct asked *a)
{
	struct cjob *j = job_new(c, ++c->jobs.last_id);
	uint32_t members = spec_members(rq->spec);
	struct err e;
	cJSON *answer;

	c->jobs.last_id += members; /* theirs follow */
	j->spec = rq->text;
	rq->text = NULL;
	j->run = run_text(rq);
	rq->text = j->spec; /* submitted_data computes its digest */
	if (job_post(c, j, EV_SUBMITTED, submitted_data(c, rq, a)) < 0) {
		rq->text = NULL;
		job_free(c, j);
		reply_fail(c, rq, ERR_INTERNAL, "the job could not be recorded");
		return;
	}
	rq->text = NULL;
	if (rq->idem_key) { /* a property of the request: stored in the row, not in an event */
		j->r.idem_key = idem_scoped(c, rq);
		j->r.idem_digest = xstrdup(rq->idem_digest);
		idem_add(c, j->r.idem_key, j->r.idem_digest, j->r.id)->at_us = now_real(c);
	}
	if (members && array_open(c, j, j->spec, j->run, &e) < 0)
		log_error("event=spec_refused job=%" PRIu64 " text=\"%s\"", j->r.id, e.text);
	else if (!members && !a->hold)
		array_queue(c, j, rq->spec);
	answer = idem_submitted(j->r.id, j->r.name);
	if (members)
		json_add_u64(answer, "members", members);
	add_beginning(a, answer);
	add_limit(c, rq->spec, answer);
	add_warnings(c, rq->spec, a, answer);
	hold_reply(c, rq, 201, answer);
}

static void name_nodes(struct core *c, const struct sched_forecast *f, cJSON *list, struct text *t)
{
	for (uint32_t i = 0; i < f->n; i++) {
		const struct cnode *x = node_by_id(c, f->places[i].node);

		cJSON_AddItemToArray(list, cJSON_CreateString(x ? x->name : "?"));
		if (i < 4)
			text_add(t, "%s%.60s", i ? ", " : " on ", x ? x->name : "?");
	}
	if (f->n > 4)
		text_add(t, " and %u more", f->n - 4);
}

/* Adds the price by the expected time, if known, and by the time limit; limits.max_cost_usd bounds it. An
 * array or a sweep has prices for one member and for all. */
static void add_prices(struct core *c, const struct request *rq, double price, cJSON *body, struct text *t)
{
	double longest = (double)max_runtime_s(c, &(struct cjob){0}, rq->spec),
	       takes = expected_s(c, owner_of_new(c, rq), rq->spec->name), most = price * longest / 3600;
	uint32_t members = spec_members(rq->spec);
	char span[40], a[24], b[24];
	double expected = 0;

	if (price <= 0)
		return;
	if (rq->spec->max_cost_usd > 0)
		most = fmin(most, rq->spec->max_cost_usd);
	cJSON_AddNumberToObject(body, "price_per_hour_usd", round(price * 1e6) / 1e6);
	text_add(t, "; $%s an hour%s", str_amount(price, a, sizeof(a)), members ? " each" : "");
	if (takes > 0) {
		expected = fmin(price * fmin(takes, longest) / 3600, most);
		cJSON_AddNumberToObject(body, "expected_price_usd", round(expected * 1e6) / 1e6);
		text_add(t, "; about $%s as it takes %s", str_amount(expected, a, sizeof(a)),
		         str_duration((uint64_t)(takes + 0.5), span, sizeof(span)));
	}
	cJSON_AddNumberToObject(body, "max_price_usd", round(most * 1e6) / 1e6);
	text_add(t, ", at most $%s", str_amount(most, b, sizeof(b)));
	if (members) {
		if (expected > 0)
			cJSON_AddNumberToObject(body, "members_expected_price_usd",
			                        round(expected * members * 1e6) / 1e6);
		cJSON_AddNumberToObject(body, "members_max_price_usd", round(most * members * 1e6) / 1e6);
		text_add(t, "; all %u: %s%s%sat most $%s", members, expected > 0 ? "about $" : "",
		         expected > 0 ? str_amount(expected * members, a, sizeof(a)) : "", expected > 0 ? ", " : "",
		         str_amount(most * members, b, sizeof(b)));
	}
}

/* Adds when and where the job would start, and its price. */
static void foresee_start(struct core *c, const struct request *rq, const struct asked *a, cJSON *body,
                          struct text *t)
{
	struct sched_reason r = {0};
	struct sched_forecast f;
	TEXT(where);
	TEXT(warm);
	TEXT(when);
	TEXT(costs);
	TEXT(change);

	if (a->hold) {
		text_add(t, "it would be held until it is released");
		return;
	}
	decide(c); /* jobs that wait already go first */
	alloc_ask(c, rq->spec,
	          &(struct alloc_new){.owner = owner_of_new(c, rq), .source = a->bundle, .pool = a->pool}, &r,
	          &f);
	budget_explain(c, rq->spec->queue, owner_of_new(c, rq), &r);
	if (r.why != SCHED_FITS && r.why != SCHED_DEPENDS) {
		suggest(c, rq->spec, NULL, owner_of_new(c, rq), 0, body, &change);
		suggest_resume(c, rq->spec, NULL, owner_of_new(c, rq), r.why, body, &change);
	}
	forecast_json(c, &f, body);
	name_nodes(c, &f, cJSON_AddArrayToObject(body, "expected_nodes"), &where);
	pool_note_places(c, rq->spec, a->bundle, &f, body, &warm);
	pool_note_wanted(a->pool, body);
	add_prices(c, rq, places_price(c, rq->spec, f.places, f.n), body, &costs);
	free(f.places);
	forecast_text(c, &f, when.at, when.size);
	if (c->life.failing) {
		text_add(t, "it would wait: nothing is started while the store cannot be written");
	} else if (r.why == SCHED_FITS) {
		text_add(t, "it would start now%s%s", where.at, warm.at);
	} else if (r.why == SCHED_DEPENDS) {
		text_add(t, "it would wait%s", r.text + 5); /* "waits for ..." */
	} else {
		text_add(t, "it would wait: %s", r.text);
		pool_want_say(c, a->pool, t);
		if (r.ahead)
			text_add(t, "; %u job%s ahead", r.ahead, r.ahead == 1 ? "" : "s");
		text_add(t, "%s", change.at);
		if (*when.at)
			text_add(t, "; %s%s", when.at, where.at);
	}
	text_add(t, "%s", costs.at);
}

static void dry_answer(struct core *c, struct request *rq, const struct asked *a)
{
	cJSON *body = cJSON_CreateObject();
	char bytes[DRY_BYTES];
	struct text text = text_on(bytes, sizeof(bytes));
	uint32_t members = spec_members(rq->spec);

	cJSON_AddTrueToObject(body, "dry_run");
	cJSON_AddTrueToObject(body, "possible");
	if (members)
		json_add_u64(body, "members", members);
	json_add_str(body, "name", rq->spec->name);
	json_add_u64(body, "nodes", spec_nodes(rq->spec));
	json_add_u64(body, "ranks", spec_ranks(rq->spec));
	if (members)
		text_add(&text, "%u member%s, each with ", members, members == 1 ? "" : "s");
	text_add(&text, "%u instance%s, %u rank%s; %s", spec_nodes(rq->spec),
	         spec_nodes(rq->spec) == 1 ? "" : "s", spec_ranks(rq->spec), spec_ranks(rq->spec) == 1 ? "" : "s",
	         members ? "the first: " : "");
	foresee_start(c, rq, a, body, &text);
	json_add_str(body, "text", text.at);
	add_beginning(a, body);
	add_limit(c, rq->spec, body);
	add_warnings(c, rq->spec, a, body);
	hold_reply(c, rq, 200, body);
}

static void take_submit(struct core *c, struct request *rq, const struct cjob *retries)
{
	struct err e;
	TEXT(note);
	TEXT(doubt);
	TEXT(no_pool);
	struct asked a = {
	    .note = note.at, .beginning = &doubt, .no_pool = &no_pool, .retries = retries, .from_step = -1};

	if (idem_seen(c, rq))
		return;
	if (!rq->spec || !rq->text) {
		reply_fail(c, rq, ERR_INVALID, "no specification");
		return;
	}
	a.account = account_of_new(c, rq, &e);
	if (!a.account || spec_check_new(rq->spec, &e) < 0 ||
	    json_get_str(rq->body, "", "bundle", &a.bundle, &e) < 0 ||
	    json_get_bool(rq->body, "", "hold", &a.hold, &e) < 0 ||
	    json_get_bool(rq->body, "", "dry_run", &a.dry_run, &e) < 0 || check_limits(c, rq->spec, &e) < 0 ||
	    check_members(c, rq, &e) < 0 || check_bundle(rq, a.bundle, a.dry_run, &e) < 0 ||
	    check_refs(c, rq, &a, &e) < 0 || check_pool(c, rq, &a, &e) < 0 ||
	    instances_check(c, rq->spec, &e) < 0 || cost_check(c, rq->spec, &e) < 0 ||
	    check_possible(c, rq->spec, owner_of_new(c, rq), &note, &e) < 0 ||
	    check_quota(c, rq->spec, owner_of_new(c, rq), &e) < 0 ||
	    await_check(c, rq->spec, note.at, note.size, &e) < 0) {
		reply_err(c, rq, &e);
		return;
	}
	if (a.dry_run)
		dry_answer(c, rq, &a);
	else if (c->life.no_room)
		reply_fail(c, rq, ERR_NOSPACE, "%s", c->life.no_room);
	else
		create_job(c, rq, &a);
}

void req_submit(struct core *c, struct request *rq)
{
	rq->job = 0;
	take_submit(c, rq, NULL);
}

/* Submits a copy of the job. retry: the copy begins with a checkpoint of it. */
static void submit_copy(struct core *c, struct request *rq, struct cjob *from, int retry)
{
	struct err e;

	if (from->r.deleted) {
		reply_fail(c, rq, ERR_CONFLICT, "job %" PRIu64 " was removed: its source is gone", rq->job);
		return;
	}
	if (strcmp(from->r.owner ? from->r.owner : "", req_user(c, rq)) != 0) { /* an administrator's */
		rq->owner = xstrdup(from->r.owner ? from->r.owner : "");
		free(rq->account);
		rq->account = xstrdup(rec_account(&from->r));
	}
	if (!rq->body)
		rq->body = cJSON_CreateObject();
	if (from->r.bundle && !cJSON_GetObjectItemCaseSensitive(rq->body, "bundle")) {
		if (c->io.code_kept && c->io.code_kept(rq->job, c->io.arg, &e) < 0) {
			reply_err(c, rq, &e);
			return;
		}
		json_add_str(rq->body, "bundle", from->r.bundle);
	}
	if (job_need_spec(c, from, &e) == 0 && from->run && !cJSON_GetObjectItemCaseSensitive(rq->body, "run")) {
		cJSON *run = cJSON_Parse(from->run);

		if (run) {
			cJSON_DeleteItemFromObjectCaseSensitive(run, "max_runtime_s");
			cJSON_AddItemToObject(rq->body, "run", run);
		}
	}
	take_submit(c, rq, retry ? from : NULL);
}

void req_clone(struct core *c, struct request *rq)
{
	struct cjob *from;

	if (idem_seen(c, rq))
		return;
	from = req_job(c, rq);
	if (from)
		submit_copy(c, rq, from, 0);
}

/* Returns 0 when the job is one that can be retried; else e says what to do. */
static int check_retry(const struct job_rec *r, int from_newest, struct err *e)
{
	char ref[REC_REF_SIZE];

	rec_ref(r, ref);
	if (r->members)
		return err_set(e, ERR_CONFLICT,
		               "job %s is not run itself, its members are: jobctl retry %s.0 retries one of them",
		               ref, ref);
	if (!job_ended(r->status))
		return err_set(
		    e, ERR_CONFLICT,
		    "job %s is %s, and a retry is for jobs that have ended: jobctl requeue %s [--from STEP] "
		    "restarts it, jobctl stop %s ends it",
		    ref, state_name(STATE_JOB, (int)r->status), ref, ref);
	if (r->status == JOB_COMPLETED && from_newest)
		return err_set(e, ERR_CONFLICT,
		               "job %s has completed: jobctl retry %s --from STEP begins with an earlier checkpoint, "
		               "jobctl clone %s runs it again",
		               ref, ref, ref);
	return 0;
}

void req_retry(struct core *c, struct request *rq)
{
	const struct ckpt_nodes any = {NULL, 0};
	struct beginning begin = {0};
	char ref[REC_REF_SIZE];
	struct cjob *from;
	struct err e;
	int rc;

	if (idem_seen(c, rq))
		return;
	from = req_job(c, rq);
	if (!from)
		return;
	rc = rq->spec ? check_retry(&from->r, rq->spec->resume_step < 0, &e)
	              : err_set(&e, ERR_INVALID, "no specification");
	if (rc == 0 && resolve_resume(c, rq->spec, &any, &begin, &e) < 0) {
		rec_ref(&from->r, ref);
		rc =
		    err_set(&e, e.code,
		            "%.900s; jobctl checkpoints %s lists what can be used, jobctl clone %s begins without it",
		            e.text, ref, ref);
	}
	beginning_fini(&begin);
	if (rc < 0)
		reply_err(c, rq, &e);
	else
		submit_copy(c, rq, from, 1);
}
