/*
 * dispatch: the checks that struct router leaves to its owner: names in addresses, the caller, and the job
 * that is meant.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fault.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/spec/spec.h"
#include "controller/api/api.h"
#include "controller/api/thread.h"
#include "controller/io/ask.h"
#include "controller/io/state_link.h"
#include "controller/io/work.h"
#include "store/read/find.h"

/* A specification, as text inside JSON, with what goes with it (digest of a git diff, facts). */
#define BODY_MAX (SPEC_MAX_BYTES + 512 * 1024)
#define HOLD_US  3000000 /* of the failpoint */

static int check_id(const char *value, struct err *e)
{
	uint64_t id, array;
	uint32_t index;

	if (str_parse_member(value, &array, &index) == 0 && array > 0 && array <= INT64_MAX)
		return 0; /* looked up when the caller is known */
	if (str_parse_u64(value, &id) < 0 || id == 0 || id > INT64_MAX)
		return err_set(e, ERR_NOT_FOUND,
		               "\"%.64s\" is not a job's id; names are resolved by /api/v1/jobs/resolve?ref=NAME",
		               value);
	return 0;
}

static int check_digest(const char *value, struct err *e)
{
	return hash_is_hex(value) ? 0 : err_set(e, ERR_INVALID, "a digest is 64 lower-case hexadecimal digits");
}

static int check_rest(const char *value, struct err *e)
{
	return str_safe_relpath(value)
	           ? 0
	           : err_set(e, ERR_INVALID,
	                     "a path inside a tree has no \"..\", no empty part and no leading slash");
}

/* Names of metrics may have slashes and more; they are only compared. */
static int check_metric(const char *value, struct err *e)
{
	return value[0] && strlen(value) <= 256 ? 0
	                                        : err_set(e, ERR_INVALID, "a metric's name has 1 to 256 bytes");
}

static int check_queue(const char *value, struct err *e)
{
	return spec_check_queue(value, 1, e);
}

int api_check_param(const char *name, size_t n, const char *value, struct err *e)
{
	static const struct {
		const char *name;
		int (*check)(const char *value, struct err *e);
	} params[] = {{"id", check_id},
	              {"digest", check_digest},
	              {"rest*", check_rest},
	              {"metric*", check_metric},
	              {"path*", check_queue}};

	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		if (strlen(params[i].name) == n && strncmp(name, params[i].name, n) == 0)
			return params[i].check(value, e);
	return str_check_name(value, NODE_NAME_SIZE - 1, "name in the address", e);
}

/* hearthd records the last use of a token, at most once a minute, and never makes a call wait for it. */
static void tell_use(const struct call *c, struct io *io)
{
	struct request *rq = request_new(REQ_TOKEN_USED);
	const char *port = strrchr(c->peer, ':');
	char from[sizeof(c->peer)];

	rq->user = xstrdup(c->who.user);
	rq->node = xstrdup(c->who.token_id);
	rq->body = cJSON_CreateObject();
	snprintf(from, sizeof(from), "%.*s",
	         (int)(port && !c->is_unix ? port - c->peer : (ptrdiff_t)strlen(c->peer)), c->peer);
	cJSON_AddStringToObject(rq->body, "from", from);
	ask_tell(io, rq);
}

static int identify_caller(struct call *c, struct io *io, struct err *e)
{
	const struct api *a = api_of(io);
	struct auth_call call = {
	    .authorization = call_header(c, "Authorization"),
	    .cookie = call_header(c, "Cookie"),
	    .session_key = call_header(c, AUTH_KEY_HEADER),
	    .host = call_header(c, "Host"),
	    .origin = call_header(c, "Origin"),
	    .is_unix = c->is_unix,
	    .uid = c->uid,
	    .loopback = a->loopback,
	    .write = (c->route->flags & RF_WRITE) != 0,
	    .now_real_us = clock_real_us(clock_real()),
	    .reader = io->reader,
	};

	if (auth_check_origin(&call, e) < 0 || auth_identify(a->auth, io->api->names, &call, &c->who, e) < 0)
		return -1;
	if (c->who.role != ROLE_NONE && call_known(c, e) < 0) /* a caller that proves nothing stays a stranger */
		return -1;
	if (c->who.use_due)
		tell_use(c, io);
	return 0;
}

static const char *login_hint(struct io *io)
{
	return auth_hint(api_of(io)->auth);
}

/* "17.3" -> the id of that member. */
static int resolve_member(struct call *c, struct io *io, struct err *e)
{
	uint64_t array, id;
	uint32_t index;

	if (str_parse_member(c->params[0], &array, &index) < 0)
		return 0;
	if (store_member_id(io->reader, array, index, &id, e) < 0)
		return -1;
	free(c->params[0]);
	c->params[0] = xasprintf("%" PRIu64, id);
	return 0;
}

/* Does the job exist, and may this user touch it? */
static int check_job(struct call *c, struct io *io, struct err *e)
{
	const struct access_caller who = call_who(c);
	struct access_object on = {.role = c->route->role};
	char ref[24];
	struct job_row row;
	int rc;

	if (!(c->route->flags & RF_JOB))
		return 0;
	if (resolve_member(c, io, e) < 0)
		return -1;
	str_parse_u64(c->params[0], &c->target_id); /* checked by api_check_param */
	snprintf(ref, sizeof(ref), "%" PRIu64, c->target_id);
	on.job = c->target_id;
	on.ref = ref;
	if (access_check(&who, route_action(c->route), &on, e) < 0)
		return -1;
	if (c->route->flags & RF_FINDS)
		return 0;
	memset(&row, 0, sizeof(row));
	if (store_job_get(io->reader, c->target_id, &row, e) < 0)
		return -1;
	on.owner = row.owner ? row.owner : "";
	rc = access_check(&who, route_action(c->route), &on, e);
	job_row_fini(&row);
	return rc;
}

static void dispatch_call(struct call *c, struct io *io)
{
	struct router r = {.body_max = BODY_MAX,
	                   .check_param = api_check_param,
	                   .identify = identify_caller,
	                   .login_hint = login_hint,
	                   .check_target = check_job};

	r.table = route_table(&r.n);
	route_dispatch(&r, c, io);
}

/* ---- callers of the unix socket whose account is not known yet ---------------------------------- */

struct look_up {
	struct call *call;       /* the question holds it */
	struct loop_timer *late; /* nothing interrupts the name service: the call does not wait for its end */
	uint32_t uid;
	char name[AUTH_USER_SIZE];
};

static void look_up_free(void *arg)
{
	struct look_up *l = arg;

	loop_timer_destroy(l->late);
	free(l);
}

static void answer_late(void *arg)
{
	const struct look_up *l = arg;

	if (call_open(l->call))
		call_problem(l->call, 503, "try again",
		             "the name service on the machine of hearthd did not name user id %u within %u s", l->uid,
		             WORK_LIMIT_MS / 1000);
}

/* Worker. */
static cJSON *look_up_name(struct store_reader *r, void *state, struct err *e)
{
	struct look_up *l = state;

	(void)r;
	(void)e;
	if (FAULT("auth.slow_name"))
		usleep(HOLD_US);
	auth_look_up(l->uid, l->name);
	return cJSON_CreateNull();
}

static int is_found(const cJSON *body, void *state)
{
	(void)body;
	(void)state;
	return 1;
}

static void dispatch_named(struct call *c, struct io *io, cJSON *body, void *state)
{
	const struct look_up *l = state;

	cJSON_Delete(body);
	auth_names_put(io->api->names, l->uid, l->name, clock_real_us(clock_real()));
	dispatch_call(c, io);
}

static void look_up_caller(struct call *c, struct io *io)
{
	struct look_up *l = xcalloc(1, sizeof(*l));

	l->call = c;
	l->uid = c->uid;
	l->late = loop_timer_create(io->loop, answer_late, l);
	loop_timer_arm(l->late, WORK_LIMIT_MS * 1000ull);
	snprintf(c->who.user, sizeof(c->who.user), "#%u", c->uid); /* has turns like a user */
	work_ask(c, io,
	         &(struct work_ask){.is_name = 1,
	                            .ask = look_up_name,
	                            .is_open = is_found,
	                            .answer = dispatch_named,
	                            .state = l,
	                            .free_state = look_up_free});
}

void api_call(struct call *c, void *arg)
{
	struct io *io = arg;

	if (FAULT("http.hold")) /* as a request that takes long */
		usleep(HOLD_US);
	if (c->is_unix && !call_header(c, "Authorization") &&
	    !auth_names_has(io->api->names, c->uid, clock_real_us(clock_real())))
		look_up_caller(c, io);
	else
		dispatch_call(c, io);
}
