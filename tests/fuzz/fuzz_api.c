/*
 * fuzz_api: requests to the whole of hearthd (apiworld.h): route table, handlers, checks, the core, the
 * store.
 *
 * An input is a list of requests, with lines of "---" between them: the first line is METHOD TARGET [KEY],
 * the rest is the body. AS NAME makes the next requests with that token (callers below), AS admin with none.
 * Beside these, TICK S lets so many seconds go by, SILENT S without a word of the node,
 * BEGIN ID and END ID CODE are its word about a job. The state stays from input to input, for some hundred
 * requests. Whatever comes:
 *   - there is an answer in time, it is none of "internal error", and nothing was logged as an error;
 *   - JSON is JSON; what succeeds is what /openapi.json says of it; what is refused says why;
 *   - what is refused, and what only asks, leaves no event;
 *   - nothing succeeds to which the caller's token gives no right;
 *   - memory stays consistent, and at the end the store is what its events give.
 * What breaks one of them is printed as one input, with all that came before it; HEARTH_FUZZ_SHOW=1 prints
 * each request and its answer.
 */
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/api/api.h"
#include "controller/api/openapi.h"
#include "tests/fuzz/apiworld.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/state/apischema.h"

#define LIFE 300 /* requests of one world */
#define SUBMIT(rest)                                                                                         \
	("POST /api/v1/jobs\n{\"spec\": {\"command\": [\"/bin/x\"], \"launcher\": \"direct\"" rest "}}")

const long fuzz_rounds = 30;
static struct apiworld *world;
static unsigned n_asked;
static cJSON *document;
static char *story; /* all requests of this world */
static size_t story_n, story_room;

/* ---- who asks --------------------------------------------------------------------------------- */

/* Each world has a token for each of these, made by its administrator. */
static const struct caller {
	const char *name, *body; /* NULL: a token that nobody made */
	struct access_caller who;
} callers[] = {
    {"bob", "{\"kind\": \"user\", \"user\": \"bob\"}", {.user = "bob", .role = ROLE_USER}},
    {"read",
     "{\"kind\": \"user\", \"user\": \"bob\", \"scope\": \"read\"}",
     {.user = "bob", .role = ROLE_USER, .scope = SCOPE_READ}},
    {"submit",
     "{\"kind\": \"user\", \"user\": \"bob\", \"scope\": \"submit\"}",
     {.user = "bob", .role = ROLE_USER, .scope = SCOPE_SUBMIT}},
    {"job", "{\"kind\": \"user\", \"scope\": \"job:1\"}", {.user = "root", .role = ROLE_JOB, .token_job = 1}},
    {"nobody", NULL, {.user = "", .role = ROLE_NONE}},
};
#define N_CALLERS (sizeof callers / sizeof *callers)

static char *tokens[N_CALLERS];
static const struct caller *caller; /* NULL: the administrator */

static void become(const char *name)
{
	caller = NULL;
	world->bearer = NULL;
	for (size_t i = 0; i < N_CALLERS; i++)
		if (!strcmp(callers[i].name, name)) {
			caller = &callers[i];
			world->bearer = tokens[i];
		}
}

/* ---- what came before ------------------------------------------------------------------------- */

static void remember(const void *data, size_t n)
{
	if (story_n + n + 8 > story_room) {
		story_room = 2 * (story_n + n + 8);
		story = xrealloc(story, story_room);
	}
	if (story_n)
		memcpy(story + story_n, "\n---\n", 5);
	story_n += story_n ? 5 : 0;
	memcpy(story + story_n, data, n);
	story_n += n;
}

static void tell(void)
{
	fprintf(stderr, "\n---- all requests of this world, as an input:\n");
	fwrite(story, 1, story_n, stderr);
	fprintf(stderr, "\n---- end\n");
	fflush(stderr);
}

__attribute__((format(printf, 1, 2))) static void broken(const char *fmt, ...)
{
	va_list ap;

	tell();
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

/* ---- answers ---------------------------------------------------------------------------------- */

static const struct route *route_of(const char *method, const char *target)
{
	cleanup_free char *path = xstrndup(target, strcspn(target, "?"));
	size_t n;
	const struct route *r = route_table(&n), *found = NULL;

	for (size_t i = 0; i < n && !found; i++) {
		char *params[CALL_MAX_PARAMS];
		struct err e;

		if (strcmp(http_method_name(r[i].method), method) ||
		    route_match(r[i].pattern, path, api_check_param, params, &e) <= 0)
			continue;
		for (size_t k = 0; k < CALL_MAX_PARAMS; k++)
			free(params[k]);
		found = &r[i];
	}
	return found;
}

static void check_problem(const cJSON *o, const struct api_answer *got, const char *what)
{
	const char *detail = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "detail"));
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(o, "status");

	if (!detail || !*detail || !cJSON_IsNumber(status) || (int)status->valuedouble != got->status)
		broken("%s: %d without saying why: %s", what, got->status, got->body);
}

static void check_answer(const char *method, const char *target, const struct api_answer *got)
{
	const struct route *r = route_of(method, target);
	const cJSON *schemas = api_schemas(document);
	struct err e;
	cJSON *o;

	if (got->status < 200 || got->status == 500 || got->status == 504)
		broken("%s %s: %d %s", method, target, got->status, got->body ? got->body : "");
	if (world->errors)
		broken("%s %s: %d, and the log says: %s", method, target, got->status, world->error);
	if (!strcmp(method, "HEAD") || !got->body_n || !strcasestr(got->head, "json"))
		return;
	o = json_parse(got->body, got->body_n, &e);
	if (!o)
		broken("%s %s: no JSON: %s: %s", method, target, e.text, got->body);
	if (got->status >= 400)
		check_problem(o, got, target);
	else if (r && r->response && cJSON_HasObjectItem(schemas, r->response) &&
	         !api_follows(o, r->response, schemas, 0))
		broken("%s %s: %d is no %s: %s", method, target, got->status, r->response, got->body);
	cJSON_Delete(o);
}

static void check_right(const struct route *r, const char *method, const char *target, int status)
{
	const struct access_object on = {.role = r->role};
	struct err e;

	if (access_check(&caller->who, route_action(r), &on, &e) < 0)
		broken("%s %s as %s: %d, although %s", method, target, caller->name, status, e.text);
}

/* ---- requests --------------------------------------------------------------------------------- */

static void request(const char *method, const char *target, const char *key, const void *body, size_t n)
{
	const struct route *r = route_of(method, target);
	uint64_t before = world->w->n_events;
	struct api_answer got;
	const char *bad;

	if (apiworld_ask(world, method, target, key, body, n, &got) < 0)
		broken("%s %s: no answer", method, target);
	if (getenv("HEARTH_FUZZ_SHOW"))
		fprintf(stderr, "%s %s -> %d %.200s\n", method, target, got.status, got.body ? got.body : "");
	if (got.status == 0 && n)
		broken("%s %s: closed", method, target);
	if (!got.endless && got.status)
		check_answer(method, target, &got);
	if (caller && r && got.status >= 200 && got.status < 400)
		check_right(r, method, target, got.status);
	if (world->w->n_events != before && (got.status >= 300 || !r || !(r->flags & RF_WRITE)))
		broken("%s %s: %d, but there is an event of it", method, target, got.status);
	bad = world_check(world->w);
	if (bad)
		broken("%s %s: %s", method, target, bad);
	world_forget(world->w);
	api_answer_fini(&got);
}

/* The node is heard in between, or not. */
static void pass_time(uint64_t s, int silent)
{
	if (silent) {
		world_advance(world->w, (s < 100000 ? s : 100000) * 1000000);
		return;
	}
	for (uint64_t end = s < 900 ? s : 900, step; end > 0; end -= step) {
		step = end < 5 ? end : 5;
		world_beat(world->w, "a");
		world_advance(world->w, step * 1000000);
	}
}

static void one(const char *text, size_t n)
{
	const char *eol = memchr(text, '\n', n);
	size_t line_n = eol ? (size_t)(eol - text) : n, body_n = eol ? n - line_n - 1 : 0;
	cleanup_free char *line = xstrndup(text, line_n);
	char *save = NULL, *method = strtok_r(line, " ", &save), *target = strtok_r(NULL, " ", &save),
	     *key = strtok_r(NULL, " ", &save);
	uint64_t id = 0, code = 0;

	if (!method || !target || line_n > 6000)
		return;
	remember(text, n);
	n_asked++;
	if ((!strcmp(method, "TICK") || !strcmp(method, "SILENT")) && str_parse_u64(target, &id) == 0) {
		pass_time(id, *method == 'S');
	} else if (!strcmp(method, "BEGIN") && str_parse_u64(target, &id) == 0) {
		world_begin(world->w, id);
	} else if (!strcmp(method, "END") && str_parse_u64(target, &id) == 0) {
		world_end_with(world->w, id, key && str_parse_u64(key, &code) == 0 ? (uint32_t)code : 0);
	} else if (!strcmp(method, "AS")) {
		become(target);
	} else if (*target == '/') {
		static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"};

		for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
			if (!strcmp(method, methods[i]))
				request(method, target, key, eol ? eol + 1 : NULL, body_n);
	}
}

/* ---- worlds ----------------------------------------------------------------------------------- */

static void end_world(void)
{
	if (!world)
		return;
	if (world_verify(world->w))
		broken("the store is not what its events give: %s", world_findings(world->w));
	apiworld_destroy(world);
	world = NULL;
	story_n = 0;
}

static void make_tokens(void)
{
	for (size_t i = 0; i < N_CALLERS; i++) {
		const char *body = callers[i].body;
		struct api_answer got;
		cJSON *o;

		free(tokens[i]);
		tokens[i] = xstrdup("hearth_u_0");
		if (!body)
			continue;
		if (apiworld_ask(world, "POST", "/api/v1/tokens", NULL, body, strlen(body), &got) < 0 ||
		    got.status != 201)
			broken("a token for %s: %d %s", callers[i].name, got.status, got.body ? got.body : "");
		o = cJSON_Parse(got.body);
		free(tokens[i]);
		tokens[i] = xstrdup(cJSON_GetStringValue(cJSON_GetObjectItem(o, "token")));
		cJSON_Delete(o);
		api_answer_fini(&got);
	}
}

/* A node with two GPUs, a job that runs, one that waits, one that has ended, a sweep, and one of each of the
 * things that an administrator makes: the seeds name them. */
static void new_world(void)
{
	static const char *const first[] = {
	    SUBMIT(", \"name\": \"runs\", \"resources\": {\"gpus_per_instance\": 2}"),
	    "BEGIN 1",
	    SUBMIT(", \"name\": \"ended\""),
	    "BEGIN 2",
	    "END 2 0",
	    SUBMIT(", \"name\": \"waits\", \"resources\": {\"gpus_per_instance\": 1}"),
	    SUBMIT(", \"sweep\": {\"lr\": [0.1, 0.2, 0.3]}, \"max_parallel\": 2"),
	    "POST /api/v1/queues\n{\"name\": \"night\", \"weight\": 2}",
	    "POST /api/v1/quotas\n{\"name\": \"night\", \"gpus\": 2, \"borrow\": true}",
	    "POST /api/v1/budgets\n{\"name\": \"night\", \"usd\": 10, \"period\": \"day\"}",
	    "POST /api/v1/instances\n{\"name\": \"big\", \"gpus\": 8, \"price_per_hour\": 3}",
	    "POST /api/v1/reservations\n{\"name\": \"later\", \"for_s\": 600, \"nodes\": [\"a\"], \"queue\": "
	    "\"night\"}",
	};

	n_asked = 0;
	caller = NULL;
	world = apiworld_create();
	world_agent_up(world->w, "a", 2, 4);
	for (size_t i = 0; i < sizeof first / sizeof *first; i++)
		one(first[i], strlen(first[i]));
	make_tokens();
	story_n = 0;
}

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

/* At the exit a thread of the server may be gone while OpenSSL's random numbers of that thread are not freed
 * yet: seen in some runs and not in others. Leaks of OpenSSL's objects are for the unit tests to find. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:CRYPTO_zalloc\nleak:CRYPTO_strndup\n";
}

static void prepare(void)
{
	size_t n_routes;
	const struct route *routes = route_table(&n_routes);

	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 1);
	document = openapi_build(routes, n_routes);
	tap_tmpdir();
	atexit(end_world); /* before the folder goes */
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(tell);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *end = p + size;

	if (!document)
		prepare();
	if (world && n_asked > LIFE)
		end_world();
	if (!world)
		new_world();
	while (p < end) {
		const char *next = memmem(p, (size_t)(end - p), "\n---\n", 5);

		one(p, (size_t)((next ? next : end) - p));
		p = next ? next + 5 : end;
	}
	return 0;
}
