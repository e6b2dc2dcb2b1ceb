/*
 * api_jobs: submitting, changing and listing jobs. Changes go to the state thread. Lists and records are
 * read from the store on this thread, in a fresh transaction, so an acknowledged change is always seen.
 */
#include "controller/api/api_jobs.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/fault.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/api/thread.h"
#include "controller/files/blobs/blobstore.h"
#include "controller/files/data_threads.h"
#include "controller/http/route.h"
#include "controller/io/ask.h"
#include "controller/io/work.h"
#include "store/read/find.h"
#include "store/read/query.h"

/* ---- listing ---------------------------------------------------------------------------------- */

static int filter_tag(const char *text, char **key, const char **value)
{
	const char *colon;

	*key = NULL;
	*value = NULL;
	if (!text)
		return 0;
	colon = strchr(text, ':');
	*key = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
	*value = colon ? colon + 1 : NULL;
	return **key ? 0 : -1;
}

static int check_status(const char *status, struct err *e)
{
	static const char *const known[] = {"active",  "held",       "queued",   "starting",
	                                    "running", "recovering", "stopping", "completed",
	                                    "failed",  "stopped",    NULL};
	const char *nearest;
	int i;

	for (i = 0; status && known[i]; i++)
		if (strcmp(known[i], status) == 0)
			return 0;
	if (!status)
		return 0;
	nearest = str_nearest(status, known);
	return err_set(
	    e, ERR_INVALID,
	    "status: unknown state \"%.64s\"%s%s; expected held, queued, starting, running, recovering, "
	    "stopping, completed, failed, stopped, or active for all jobs that have not ended",
	    status, nearest ? "; did you mean " : "", nearest ? nearest : "");
}

static int is_waiting(const cJSON *job)
{
	const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "status"));

	return status && (strcmp(status, "queued") == 0 || strcmp(status, "recovering") == 0);
}

static int is_any_waiting(const cJSON *body)
{
	const cJSON *j;
	int waiting = is_waiting(body);

	cJSON_ArrayForEach (j, cJSON_GetObjectItemCaseSensitive(body, "jobs"))
		waiting |= is_waiting(j);
	return waiting;
}

/* Only the state thread knows why a job waits: it completes an answer with waiting jobs. */
static void answer_waiting(struct call *c, struct io *io, cJSON *body)
{
	if (is_any_waiting(body))
		ask_send(c, io, ask_new(c, REQ_BRIEF, body));
	else
		call_json(c, 200, body);
}

struct job_search { /* strings are the call's, but for the key */
	struct job_filter f;
	char *key;
};

static void search_free(void *arg)
{
	struct job_search *s = arg;

	free(s->key);
	free(s);
}

static cJSON *search_jobs(struct store_reader *r, void *arg, struct err *e)
{
	const struct job_search *s = arg;

	return store_jobs_json(r, &s->f, e);
}

static int has_waiting(const cJSON *list, void *arg)
{
	(void)arg;
	return is_any_waiting(list);
}

static void ask_reasons(struct call *c, struct io *io, cJSON *list, void *arg)
{
	(void)arg;
	ask_send(c, io, ask_new(c, REQ_BRIEF, list));
}

void api_jobs_list(struct call *c, struct io *io)
{
	struct job_search *s;
	struct job_filter f = {
	    .owner = query_bool(c, "mine") ? c->who.user : query_str(c, "owner"),
	    .status = query_str(c, "status"),
	    .name = query_str(c, "name"),
	    .text = query_str(c, "text"),
	    .experiment = query_str(c, "experiment"),
	    .before_id = query_u64(c, "before", 0),
	    .limit = (uint32_t)(query_u64(c, "limit", 100) > 1000 ? 1000 : query_u64(c, "limit", 100)),
	    .with_deleted = query_bool(c, "deleted"),
	    .with_members = query_bool(c, "members"),
	    .array = query_u64(c, "array", 0),
	};
	cleanup_free char *key = NULL;
	struct err e;

	if (filter_tag(query_str(c, "tag"), &key, &f.tag_value) < 0) {
		call_problem(c, 400, NULL, "tag: expected KEY or KEY:VALUE");
		return;
	}
	f.tag_key = key;
	if (check_status(f.status, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	s = xmalloc(sizeof(*s));
	*s = (struct job_search){.f = f, .key = key};
	key = NULL;
	work_ask(c, io, &(struct work_ask){search_jobs, has_waiting, ask_reasons, s, search_free, 0});
}

struct job_ask {
	uint64_t job, default_s, limit_s; /* default and highest time limit */
};

/* Adds the time limit that applies and its origin, like max_runtime_s() of the core. */
static void add_limit(const struct job_ask *s, cJSON *job)
{
	const cJSON *set = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "run"),
	                                                    "max_runtime_s"),
	            *limits =
	                cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "spec"), "limits"),
	            *own = cJSON_GetObjectItemCaseSensitive(limits, "max_runtime_s");
	double v = (double)s->default_s;
	const char *from = "default";

	if (cJSON_IsNumber(set) && set->valuedouble > 0) {
		v = set->valuedouble;
		from = "set";
	} else if (cJSON_IsNumber(own) && own->valuedouble > 0) {
		v = own->valuedouble;
		from = "specification";
	}
	if (v > (double)s->limit_s)
		v = (double)s->limit_s;
	cJSON_AddNumberToObject(job, "max_runtime_s", v);
	cJSON_AddStringToObject(job, "max_runtime_from", from);
}

static cJSON *read_job(struct store_reader *r, void *state, struct err *e)
{
	const struct job_ask *ask = state;
	cJSON *job = store_job_json(r, ask->job, e);

	if (job)
		add_limit(ask, job);
	return job;
}

/* A job of few attempts and series is answered at once; a large one by a worker. */
void api_job_get(struct call *c, struct io *io)
{
	struct job_ask ask = {c->target_id, api_of(io)->max_runtime_default_s, api_of(io)->max_runtime_limit_s};
	struct err e;
	int large = store_job_is_large(io->reader, ask.job, &e);
	cJSON *job;

	if (large > 0 || FAULT("work.large")) {
		work_ask(c, io,
		         &(struct work_ask){read_job, has_waiting, ask_reasons, xmemdup(&ask, sizeof(ask)), free, 0});
		return;
	}
	job = large < 0 ? NULL : read_job(io->reader, &ask, &e);
	if (job)
		answer_waiting(c, io, job);
	else
		call_fail(c, &e);
}

struct member_search {
	uint64_t array;
	const char *metric; /* the call's */
	uint32_t limit;
};

static cJSON *search_members(struct store_reader *r, void *arg, struct err *e)
{
	const struct member_search *s = arg;

	return store_members_json(r, s->array, s->metric, s->limit, e);
}

void api_job_members(struct call *c, struct io *io)
{
	const char *metric = query_str(c, "metric");
	uint64_t limit = query_u64(c, "limit", 0);
	struct member_search *s = xmalloc(sizeof(*s));

	*s = (struct member_search){.array = c->target_id,
	                            .metric = metric && *metric ? metric : NULL,
	                            .limit = limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit};
	work_ask(c, io, &(struct work_ask){.ask = search_members, .state = s, .free_state = free});
}

struct reference { /* strings of the call */
	const char *ref, *user;
	uint64_t only; /* of a job's token; 0: any */
};

/* "last", "last~1", "NAME", "NAME~1" among the jobs of owner, NULL: of all. 1: the text can only mean an own
 * job, e is unchanged. */
static int by_name(struct store_reader *r, const char *owner, const char *ref, uint64_t *job, struct err *e)
{
	const char *tilde = strrchr(ref, '~');
	cleanup_free char *name = NULL;
	uint64_t nth = 0;

	if (tilde && str_parse_u64(tilde + 1, &nth) == 0 && nth <= 1000000)
		name = xstrndup(ref, (size_t)(tilde - ref));
	else
		name = xstrdup(ref);
	if (!owner && (nth || strcmp(name, "last") == 0))
		return 1;
	if (strcmp(name, "last") == 0)
		return store_job_last(r, owner, (uint32_t)nth, job, e);
	return store_job_by_name(r, owner, name, (uint32_t)nth, job, e);
}

/* "NAME.3", "last.3": a member of the array with this name. 1: the array does not exist, e is unchanged.
 */
static int by_member(struct store_reader *r, const char *owner, const char *ref, uint64_t *job, struct err *e)
{
	const char *dot = strrchr(ref, '.');
	cleanup_free char *name = dot && dot > ref ? xstrndup(ref, (size_t)(dot - ref)) : NULL;
	uint64_t array, index;
	struct err ignored;

	if (!name || str_parse_u64(dot + 1, &index) < 0 || index > UINT32_MAX ||
	    by_name(r, owner, name, &array, &ignored) != 0)
		return 1;
	return store_member_id(r, array, (uint32_t)index, job, e);
}

/* Looks at the caller's own jobs first, then at all; in each, a job with the whole text as its name comes
 * before a member. If only arrays without that member exist, the error names one, the caller's own first. */
static int resolve_name(struct store_reader *r, const struct reference *ask, uint64_t *job, struct err *e)
{
	const char *const owners[] = {ask->user, NULL}, *ref = ask->ref;
	struct err lacks = {0}, m;

	for (size_t i = 0; i < 2; i++) {
		int rc = by_name(r, owners[i], ref, job, e);

		if (rc == 0 || (rc < 0 && e->code != ERR_NOT_FOUND))
			return rc;
		rc = by_member(r, owners[i], ref, job, &m);
		if (rc == 0)
			return 0;
		if (rc < 0 && !lacks.code)
			lacks = m;
		if (rc < 0 && m.code != ERR_NOT_FOUND)
			break;
	}
	if (lacks.code)
		*e = lacks;
	return -1;
}

/* "17", "17.3", or a name of a job or a member. */
static int resolve_ref(struct store_reader *r, const struct reference *ask, uint64_t *job, struct err *e)
{
	const char *ref = ask->ref;
	struct job_row row;
	uint64_t array;
	uint32_t index;

	memset(&row, 0, sizeof(row));
	if (str_parse_u64(ref, job) == 0) {
		int rc = store_job_get(r, *job, &row, e);

		job_row_fini(&row);
		return rc;
	}
	if (str_parse_member(ref, &array, &index) == 0)
		return store_member_id(r, array, index, job, e);
	return resolve_name(r, ask, job, e);
}

/* Worker. */
static cJSON *find_reference(struct store_reader *r, void *state, struct err *e)
{
	const struct reference *ask = state;
	uint64_t job;
	cJSON *o;

	if (resolve_ref(r, ask, &job, e) < 0)
		return NULL;
	if (ask->only && ask->only != job) {
		err_set(e, ERR_DENIED, "a job's token reaches that job only");
		return NULL;
	}
	o = cJSON_CreateObject();
	json_add_u64(o, "id", job);
	return o;
}

void api_jobs_resolve(struct call *c, struct io *io)
{
	struct reference ask = {.ref = query_str(c, "ref"), .user = c->who.user};

	if (!ask.ref || !*ask.ref) {
		call_problem(c, 400, NULL,
		             "ref: missing; expected an id, a member (17.3, NAME.3), \"last\", a name or NAME~1");
		return;
	}
	ask.only = c->who.role == ROLE_JOB ? c->who.token_job : 0;
	work_ask(
	    c, io,
	    &(struct work_ask){.ask = find_reference, .state = xmemdup(&ask, sizeof(ask)), .free_state = free});
}

/* ---- submitting ------------------------------------------------------------------------------- */

/* Members of arrays that a specification names: the numbers behind the array's are theirs only if it has so
 * many. */
static int check_member_refs(struct io *io, const struct job_spec *s, struct err *e)
{
	uint64_t job;

	for (size_t i = 0; i < s->n_member_refs; i++)
		if (store_member_id(io->reader, s->member_refs[i].array, s->member_refs[i].index, &job, e) < 0)
			return err_wrap(e, "%s", s->member_refs[i].where);
	return 0;
}

/* Parsed specification and its text from "spec", which is the text itself or an object. */
static int take_spec(const cJSON *spec, struct request *rq, struct err *e)
{
	if (cJSON_IsString(spec)) {
		size_t n = strlen(spec->valuestring);

		if (n > SPEC_MAX_BYTES)
			return err_set(e, ERR_LIMIT, "spec: larger than %d bytes", SPEC_MAX_BYTES);
		rq->text = xstrdup(spec->valuestring);
		rq->spec = spec_parse(rq->text, n, e);
	} else if (cJSON_IsObject(spec)) {
		rq->text = json_text(spec);
		if (strlen(rq->text) > SPEC_MAX_BYTES)
			return err_set(e, ERR_LIMIT, "spec: larger than %d bytes", SPEC_MAX_BYTES);
		rq->spec = spec_from_json(spec, e);
	} else {
		return err_set(e, ERR_INVALID, "spec: expected the specification, as an object or as text%s",
		               spec ? "" : "; it is missing");
	}
	return rq->spec ? 0 : -1;
}

static int check_submit(const cJSON *body, struct err *e)
{
	static const char *const known[] = {"spec", "bundle", "run", "hold", "dry_run", NULL};
	const char *bundle = NULL;
	const cJSON *run = NULL;
	int flag = 0;

	if (json_check_keys(body, "", known, e) < 0 || json_get_str(body, "", "bundle", &bundle, e) < 0 ||
	    json_get_obj(body, "", "run", &run, e) < 0 || json_get_bool(body, "", "hold", &flag, e) < 0 ||
	    json_get_bool(body, "", "dry_run", &flag, e) < 0)
		return -1;
	if (bundle && !hash_is_hex(bundle))
		return err_set(e, ERR_INVALID, "bundle: expected a digest (64 lower-case hexadecimal digits)");
	return 0;
}

/* Is the whole source tree here? The check reads each chunk's entry, so the blob thread does it, before the
 * state thread gets the job. */
struct bundle_check {
	struct call *call; /* held; touched on its I/O thread only */
	struct io *io;
	struct request *rq;
	char digest[HASH_HEX_SIZE];
	int rc;
	struct err e;
};

static void bundle_check_free(void *arg)
{
	struct bundle_check *k = arg;

	request_free(k->rq);
	free(k);
}

static void bundle_checked(struct io *io, void *arg)
{
	struct bundle_check *k = arg;

	if (k->call->status == 0 && k->rc < 0) {
		err_wrap(&k->e, "bundle");
		call_fail(k->call, &k->e);
	} else if (k->call->status == 0) {
		ask_send(k->call, io, k->rq);
		k->rq = NULL;
	}
	call_drop(k->call);
	bundle_check_free(k);
}

static void check_bundle(struct data_threads *b, void *arg)
{
	struct bundle_check *k = arg;

	k->rc = blobstore_check_tree(data_blobs(b), k->rq->user, k->digest, k->rq->spec->disk_bytes, &k->e);
	io_post_wait(k->io, bundle_checked, k, bundle_check_free);
}

/* Takes rq. */
static void request_with_bundle(struct call *c, struct io *io, struct request *rq, const char *digest)
{
	struct bundle_check *k = xcalloc(1, sizeof(*k));

	k->call = call_hold(c);
	k->io = io;
	k->rq = rq;
	memcpy(k->digest, digest, HASH_HEX_SIZE);
	if (data_post_blob(api_of(io)->data, check_bundle, k, sizeof(*k), bundle_check_free) == 0)
		return;
	call_problem(c, 503, "try again", "too many blobs are being written");
	call_drop(c);
	bundle_check_free(k);
}

void api_jobs_submit(struct call *c, struct io *io)
{
	const char *bundle = NULL;
	int dry_run = 0;
	cJSON *body = route_body(c);
	struct request *rq;
	struct err e;

	if (!body)
		return;
	rq = ask_new(c, REQ_SUBMIT, body);
	if (check_submit(body, &e) < 0 || take_spec(cJSON_GetObjectItemCaseSensitive(body, "spec"), rq, &e) < 0 ||
	    check_member_refs(io, rq->spec, &e) < 0) {
		request_free(rq);
		call_fail(c, &e);
		return;
	}
	cJSON_DeleteItemFromObjectCaseSensitive(body, "spec");
	json_get_str(body, "", "bundle", &bundle, NULL);
	json_get_bool(body, "", "dry_run", &dry_run, NULL);
	if (bundle && !dry_run && hash_is_hex(bundle))
		request_with_bundle(c, io, rq, bundle);
	else
		ask_send(c, io, rq);
}

/* ---- changing --------------------------------------------------------------------------------- */

/* Sends the job to the state thread with its body; keys are the members that the body may have. */
static void change_job(struct call *c, struct io *io, enum request_op op, const char *const *keys)
{
	cJSON *body = route_body(c);
	struct err e;

	if (!body)
		return;
	if (json_check_keys(body, "", keys, &e) < 0) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	ask_send(c, io, ask_new(c, op, body));
}

static const char *const no_keys[] = {NULL};

void api_job_checkpoint(struct call *c, struct io *io)
{
	static const char *const keys[] = {"step", "pinned", NULL};

	change_job(c, io, REQ_CHECKPOINT, keys);
}

void api_job_stop(struct call *c, struct io *io)
{
	static const char *const keys[] = {"grace_s", NULL};

	change_job(c, io, REQ_STOP, keys);
}

void api_job_hold(struct call *c, struct io *io)
{
	change_job(c, io, REQ_HOLD, no_keys);
}

void api_job_release(struct call *c, struct io *io)
{
	change_job(c, io, REQ_RELEASE, no_keys);
}

void api_job_requeue(struct call *c, struct io *io)
{
	static const char *const keys[] = {"from_start", "from_step", NULL};

	change_job(c, io, REQ_REQUEUE, keys);
}

void api_job_rm(struct call *c, struct io *io)
{
	change_job(c, io, REQ_RM, no_keys);
}

void api_job_why(struct call *c, struct io *io)
{
	ask_send(c, io, ask_new(c, REQ_WHY, NULL));
}

static int check_tags(const cJSON *tags, struct err *e)
{
	const cJSON *t;

	cJSON_ArrayForEach (t, tags) {
		if (!cJSON_IsString(t) && !cJSON_IsNull(t))
			return err_set(e, ERR_INVALID, "tags.%.64s: expected a string, or null to remove the tag",
			               t->string);
		if (str_check_name(t->string, 64, "tag", e) < 0)
			return -1;
		if (cJSON_IsString(t) && (strlen(t->valuestring) > 256 || str_has_control(t->valuestring)))
			return err_set(e, ERR_INVALID, "tags.%.64s: at most 256 bytes, no control characters", t->string);
	}
	return 0;
}

static int check_set(const cJSON *body, struct err *e)
{
	static const char *const known[] = {"priority", "time", "queue", "notes", "name", "pinned", "tags", NULL};
	const char *text = NULL, *name = NULL, *notes = NULL;
	const cJSON *tags = NULL;
	int64_t number = 0;
	int flag = 0;

	if (json_check_keys(body, "", known, e) < 0 ||
	    json_get_i64(body, "", "priority", -1000, 1000, &number, e) < 0 ||
	    json_get_str(body, "", "queue", &text, e) < 0 || json_get_str(body, "", "notes", &notes, e) < 0 ||
	    json_get_str(body, "", "name", &name, e) < 0 || json_get_bool(body, "", "pinned", &flag, e) < 0 ||
	    json_get_obj(body, "", "tags", &tags, e) < 0)
		return -1;
	if (!body->child)
		return err_set(e, ERR_INVALID,
		               "nothing to change: give priority, time, queue, notes, name, pinned or tags");
	if (name && str_check_name(name, 128, "name", e) < 0)
		return -1;
	if (notes && strlen(notes) > 64 * 1024)
		return err_set(e, ERR_LIMIT, "notes: longer than 64 KiB");
	return check_tags(tags, e);
}

void api_job_set(struct call *c, struct io *io)
{
	cJSON *body = route_body(c);
	struct err e;

	if (!body)
		return;
	if (check_set(body, &e) < 0) {
		cJSON_Delete(body);
		call_fail(c, &e);
		return;
	}
	ask_send(c, io, ask_new(c, REQ_SET, body));
}

/* ---- clone ------------------------------------------------------------------------------------ */

/* "hyperparameters.lr": all but the last part are objects, made when missing. Below hyperparameters,
 * environment and tags the rest is one name. */
static int set_path(cJSON *spec, const char *path, const cJSON *value, struct err *e)
{
	cleanup_free char *copy = xstrdup(path);
	char *part = copy, *dot;
	cJSON *at = spec;

	while ((dot = strchr(part, '.'))) {
		int free_names =
		    at == spec && (strncmp(part, "hyperparameters.", 16) == 0 ||
		                   strncmp(part, "environment.", 12) == 0 || strncmp(part, "tags.", 5) == 0);
		cJSON *next;

		*dot = '\0';
		next = cJSON_GetObjectItemCaseSensitive(at, part);
		if (!next || cJSON_IsNull(next)) {
			cJSON_DeleteItemFromObjectCaseSensitive(at, part);
			next = cJSON_AddObjectToObject(at, part);
		}
		if (!cJSON_IsObject(next))
			return err_set(e, ERR_INVALID, "set: %.200s: \"%.64s\" is not an object", path, part);
		at = next;
		part = dot + 1;
		if (free_names)
			break;
	}
	if (!*part || strlen(path) > 512)
		return err_set(e, ERR_INVALID, "set: \"%.64s\" is not the path of a key", path);
	cJSON_DeleteItemFromObjectCaseSensitive(at, part);
	if (!cJSON_IsNull(value))
		cJSON_AddItemToObject(at, part, cJSON_Duplicate(value, 1));
	return 0;
}

static int clone_spec(const char *text, const cJSON *set, struct request *rq, struct err *e)
{
	cJSON *spec = json_parse(text, strlen(text), e);
	const cJSON *v;
	int rc = 0;

	if (!spec)
		return -1;
	cJSON_ArrayForEach (v, set)
		if (rc == 0)
			rc = set_path(spec, v->string, v, e);
	if (rc == 0) {
		rq->text = set && set->child ? json_text_pretty(spec) : xstrdup(text);
		rq->spec = spec_from_json(spec, e);
		rc = rq->spec ? 0 : -1;
	}
	cJSON_Delete(spec);
	return rc;
}

/* Checks the flags that clone and retry share, and makes the new job's specification. */
static int copy_job(struct io *io, struct request *rq, const cJSON *set, struct err *e)
{
	struct job_row row = {0};
	int flag = 0, rc = -1;

	if (json_get_bool(rq->body, "", "hold", &flag, e) == 0 &&
	    json_get_bool(rq->body, "", "dry_run", &flag, e) == 0 &&
	    store_job_get(io->reader, rq->job, &row, e) == 0 && clone_spec(row.spec, set, rq, e) == 0)
		rc = check_member_refs(io, rq->spec, e);
	job_row_fini(&row);
	return rc;
}

static void send_copy(struct call *c, struct io *io, struct request *rq, const struct err *e, int rc)
{
	if (rc == 0) {
		ask_send(c, io, rq);
		return;
	}
	request_free(rq);
	call_fail(c, e);
}

void api_job_clone(struct call *c, struct io *io)
{
	static const char *const known[] = {"set", "hold", "dry_run", NULL};
	cJSON *body = route_body(c);
	const cJSON *set = NULL;
	struct request *rq;
	struct err e;
	int rc;

	if (!body)
		return;
	rq = ask_new(c, REQ_CLONE, body);
	rc = json_check_keys(body, "", known, &e) < 0 || json_get_obj(body, "", "set", &set, &e) < 0
	         ? -1
	         : copy_job(io, rq, set, &e);
	send_copy(c, io, rq, &e, rc);
}

/* A retry is a copy that begins with a checkpoint of the job. */
void api_job_retry(struct call *c, struct io *io)
{
	static const char *const known[] = {"from_step", "hold", "dry_run", NULL};
	cJSON *body = route_body(c), *set;
	struct request *rq;
	int64_t step = -1;
	struct err e;
	int rc = -1;
	TEXT(from);

	if (!body)
		return;
	rq = ask_new(c, REQ_RETRY, body);
	set = cJSON_CreateObject();
	if (json_check_keys(body, "", known, &e) == 0 &&
	    json_get_i64(body, "", "from_step", 0, INT64_C(1) << 53, &step, &e) == 0) {
		text_add(&from, "job:%" PRIu64, rq->job);
		if (step >= 0)
			text_add(&from, "@%" PRId64, step);
		json_add_str(set, "resume_from", from.at);
		rc = copy_job(io, rq, set, &e);
	}
	cJSON_Delete(set);
	send_copy(c, io, rq, &e, rc);
}
