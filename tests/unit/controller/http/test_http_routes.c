/*
 * Every route of the table is in /openapi.json and answers; every operation of the document is in the table;
 * what is not built says 501 and is marked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/xalloc.h"
#include "controller/api/api.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"
#include "tests/unit/controller/state/apischema.h"

static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/* A real address for a pattern. */
static char *fill_pattern(const char *pattern, int star)
{
	static const struct {
		const char *name, *value;
	} values[] = {
	    {"{id}", "1"},        {"{name}", "alpha"},        {"{digest}", digest},    {"{stream}", "rank-0"},
	    {"{kind}", "model"},  {"{rest*}", "style.css"},   {"{rest}", "style.css"}, {"{metric*}", "loss"},
	    {"{metric}", "loss"}, {"{path*}", "lab/day/@ada"}};
	char *out = xstrdup(pattern);
	unsigned i;

	(void)star;
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char *at = strstr(out, values[i].name), *longer;

		if (!at)
			continue;
		longer = xasprintf("%.*s%s%s", (int)(at - out), out, values[i].value, at + strlen(values[i].name));
		free(out);
		out = longer;
	}
	return out;
}

static char *without_star(const char *pattern)
{
	char *out = xstrdup(pattern), *star = strchr(out, '*');

	if (star)
		memmove(star, star + 1, strlen(star));
	return out;
}

/* ---- answers against the document's schemas ------------------------------------------------------- */

/* What the kit's state thread answers is an echo of the request ("op"), so it says nothing here:
 * test_core_answers. */
static void test_answer(const struct route *r, const struct answer *a, const cJSON *schemas)
{
	const char *name = a->status >= 400 ? "Problem" : r->response;

	if (!name || strcmp(name, "*") == 0 || strcmp(name, "text") == 0 || strcmp(name, "events") == 0 ||
	    !*a->body || (a->status >= 400 && r->flags & RF_STREAM && !a->json))
		return;
	if (cJSON_GetObjectItemCaseSensitive(a->json, "op") || (a->status < 400 && strcmp(name, "Node") == 0))
		return;
	ok(api_follows(a->json, name, schemas, 0), "%s %s: %d is a %s", http_method_name(r->method), r->pattern,
	   a->status, name);
}

static void test_table_in_document(struct hkit *k, const cJSON *paths, const cJSON *schemas)
{
	size_t n, i;
	const struct route *r = route_table(&n);

	for (i = 0; i < n; i++) {
		char *name = without_star(r[i].pattern), *path = fill_pattern(r[i].pattern, 1), method[8];
		const cJSON *p = cJSON_GetObjectItemCaseSensitive(paths, name), *op;
		struct answer *a;
		size_t j;
		int later = (r[i].flags & RF_LATER) != 0;

		snprintf(method, sizeof(method), "%s", http_method_name(r[i].method));
		for (j = 0; method[j]; j++)
			method[j] = (char)(method[j] | 0x20);
		op = cJSON_GetObjectItemCaseSensitive(p, method);
		ok(op && cJSON_GetObjectItemCaseSensitive(op, "summary"), "%s %s is described", method, r[i].pattern);
		ok(!!cJSON_GetObjectItemCaseSensitive(op, "x-status") == later, "and marked when it is not built");
		if (r[i].flags & RF_STREAM &&
		    strcmp(r[i].pattern, "/api/v1/stream") == 0) { /* goes on for ever: test_http_stream */
			free(name);
			free(path);
			continue;
		}
		a = http(k, http_method_name(r[i].method), path, "admin",
		         r[i].method >= HTTP_POST && r[i].method <= HTTP_DELETE ? "{}" : NULL, NULL);
		if (later)
			ok(a->status == 501, "%s %s: 501, got %d", method, path, a->status);
		else
			ok(a->status && a->status != 501 && a->status != 405 && a->status < 500 &&
			       !(a->status == 404 && a->json && strstr(a->body, "unknown address")),
			   "%s %s answers: %d %.80s", method, path, a->status, a->status ? a->body : a->problem);
		test_answer(&r[i], a, schemas);
		answer_free(a);
		free(name);
		free(path);
	}
}

static int in_table(const char *name, const char *method)
{
	size_t n, i;
	const struct route *r = route_table(&n);
	int found = 0;

	for (i = 0; i < n; i++) {
		char *plain = without_star(r[i].pattern);

		found |= strcmp(plain, name) == 0 && strcasecmp(http_method_name(r[i].method), method) == 0;
		free(plain);
	}
	return found;
}

static void test_document_in_table(const cJSON *paths)
{
	const cJSON *p, *op;
	int good = 1;

	cJSON_ArrayForEach (p, paths)
		cJSON_ArrayForEach (op, p)
			if (!in_table(p->string, op->string)) {
				tap_diag("%s %s is not in the table", op->string, p->string);
				good = 0;
			}
	ok(good, "every operation of the document is in the table");
}

/* Every $ref leads somewhere. */
static void check_refs(const cJSON *v, const cJSON *schemas, int *bad)
{
	const cJSON *c;

	if (cJSON_IsString(v) && v->string && strcmp(v->string, "$ref") == 0) {
		const char *name = strrchr(v->valuestring, '/');

		if (!cJSON_GetObjectItemCaseSensitive(schemas, name + 1)) {
			tap_diag("%s leads nowhere", v->valuestring);
			(*bad)++;
		}
	}
	cJSON_ArrayForEach (c, v)
		check_refs(c, schemas, bad);
}

static void test_matching(void)
{
	static const struct {
		const char *pattern, *path;
		int rc;
		const char *first;
	} cases[] = {
	    {"/a/{id}", "/a/17", 1, "17"},
	    {"/a/{id}", "/a/", 0, NULL},
	    {"/a/{id}", "/a", 0, NULL},
	    {"/a/{id}", "/a/17/", 0, NULL},
	    {"/a/{id}", "/a/0", -1, NULL},
	    {"/a/{id}", "/a/-1", -1, NULL},
	    {"/a/{id}", "/a/1x", -1, NULL},
	    {"/a/{id}", "/a/99999999999999999999", -1, NULL},
	    {"/a/{id}/b", "/a/17/b", 1, "17"},
	    {"/a/{id}/b", "/a/17/c", 0, NULL},
	    {"/a/{id}", "/a/%31", 1, "1"},
	    {"/a/{id}", "/a/%3", -1, NULL},
	    {"/n/{name}", "/n/x", 1, "x"},
	    {"/n/{name}", "/n/..", -1, NULL},
	    {"/n/{name}", "/n/%2e%2e", -1, NULL},
	    {"/n/{name}", "/n/a%00b", -1, NULL},
	    {"/n/{name}", "/n/a%0ab", -1, NULL},
	    {"/n/{name}", "/n/a%ffb", -1, NULL},
	    {"/n/{name}", "/n/a%2fb", -1, NULL},
	    {"/f/{rest*}", "/f/a/b/c", 1, "a/b/c"},
	    {"/f/{rest*}", "/f/../x", -1, NULL},
	    {"/f/{rest*}", "/f/a/../../x", -1, NULL},
	    {"/f/{rest*}", "/f//etc/passwd", -1, NULL},
	    {"/f/{rest*}", "/f/%2e%2e/x", -1, NULL},
	    {"/f/{rest*}", "/f/a%2f..%2fb", -1, NULL},
	    {"/f/{rest*}", "/f/a//b", -1, NULL},
	    {"/f/{rest*}", "/f/./b", -1, NULL},
	    {"/f/{rest*}", "/f/", 0, NULL},
	    {"/q/{path*}", "/q/lab", 1, "lab"},
	    {"/q/{path*}", "/q/lab/day/@ada", 1, "lab/day/@ada"},
	    {"/q/{path*}", "/q/lab%2Fday%2F%40ada", 1, "lab/day/@ada"},
	    {"/q/{path*}", "/q/lab/../day", -1, NULL},
	    {"/q/{path*}", "/q/lab//day", -1, NULL},
	    {"/q/{path*}", "/q/@ada", -1, NULL},
	    {"/q/{path*}", "/q/lab/@ada/day", -1, NULL},
	    {"/b/{digest}", "/b/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 1, digest},
	    {"/b/{digest}", "/b/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", -1, NULL},
	    {"/b/{digest}", "/b/12", -1, NULL},
	};
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *params[CALL_MAX_PARAMS];
		struct err e;
		int rc = route_match(cases[i].pattern, cases[i].path, api_check_param, params, &e), j;

		ok(rc == cases[i].rc && (rc != 1 || strcmp(params[0], cases[i].first) == 0), "%s against %s: %d",
		   cases[i].path, cases[i].pattern, rc);
		for (j = 0; rc == 1 && j < CALL_MAX_PARAMS; j++)
			free(params[j]);
	}
}

static void test_query(struct hkit *k)
{
	static const struct {
		const char *path;
		int status;
		const char *says;
	} cases[] = {
	    {"/api/v1/jobs?limit=5", 200, NULL},
	    {"/api/v1/jobs?limt=5", 400, "did you mean"},
	    {"/api/v1/jobs?limit=x", 400, "whole number"},
	    {"/api/v1/jobs?limit=-1", 400, "whole number"},
	    {"/api/v1/jobs?limit=99999999999999999999999", 400, "whole number"},
	    {"/api/v1/jobs?limit=1&limit=2", 400, "twice"},
	    {"/api/v1/jobs?mine", 200, NULL},
	    {"/api/v1/jobs?mine=maybe", 400, "true or false"},
	    {"/api/v1/jobs?name=a%00b", 400, "control"},
	    {"/api/v1/jobs?name=%zz", 400, "percent"},
	    {"/api/v1/jobs?&&limit=1&", 200, NULL},
	    {"/api/v1/jobs?status=runing", 400, "running"},
	    {"/api/v1/jobs?tag=:x", 400, "tag"},
	    {"/api/v1/jobs?text=a+b%2Bc", 200, NULL},
	    {"/api/v1/jobs/1/why?x=1", 400, "no parameters"},
	    {"/api/v1/jobs/2", 404, NULL},
	    {"/api/v1/jobs/x", 404, "resolve"},
	    {"/api/v1/nothing", 404, "unknown address"},
	    {"/api/v1/jobs/1/metrics/loss?points=100001", 400, "out of range"},
	};
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct answer *a = http(k, "GET", cases[i].path, "admin", NULL, NULL);

		ok(a->status == cases[i].status && (!cases[i].says || strstr(a->body, cases[i].says)),
		   "%s: %d %.120s", cases[i].path, a->status, a->body);
		answer_free(a);
	}
}

/* ---- who reaches into a job ----------------------------------------------------------------------- */

/* Routes of one job that change it, or that open a way to its processes whatever their method is. */
static int reaches_into_job(const struct route *r)
{
	static const char *const ways[] = {"/shell", "/relay", "/sessions/{n}"};
	static const char job[] = "/api/v1/jobs/{id}";
	const char *rest = r->pattern + sizeof(job) - 1;

	if (strncmp(r->pattern, job, sizeof(job) - 1) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(rest, ways[i]) == 0)
			return 1;
	return r->method != HTTP_GET && r->method != HTTP_HEAD;
}

static void add_token(struct hkit *k, const char *secret, const char *owner)
{
	struct store_txn *t = store_txn_new();
	char hash[HASH_HEX_SIZE], id[16];
	struct token_row row = {.id = id,
	                        .kind = (char *)(uintptr_t) "user",
	                        .secret_hash = hash,
	                        .owner = (char *)(uintptr_t)owner,
	                        .created_us = 1};

	hash_hex(secret, strlen(secret), hash);
	snprintf(id, sizeof(id), "%.8s", hash);
	store_txn_token(t, &row);
	hkit_commit(k, t);
}

static int status_for(struct hkit *k, const struct route *r, const char *path, const char *auth)
{
	struct answer *a = http(k, http_method_name(r->method), path, auth,
	                        r->method >= HTTP_POST && r->method <= HTTP_DELETE ? "{}" : NULL, NULL);
	int status = a->status;

	answer_free(a);
	return status;
}

static void test_reach(struct hkit *k)
{
	size_t n, i;
	const struct route *r = route_table(&n);
	unsigned found = 0;

	hkit_job(k, 9, "theirs", "ada", "running", 1);
	add_token(k, "ada-secret", "ada");
	add_token(k, "bob-secret", "bob");
	for (i = 0; i < n; i++) {
		cleanup_free char *path = NULL;

		if (!reaches_into_job(&r[i]))
			continue;
		found++;
		ok((r[i].flags & (RF_JOB | RF_WRITE)) == (RF_JOB | RF_WRITE) && !(r[i].flags & RF_FINDS) &&
		       r[i].role >= ROLE_USER,
		   "%s %s: the table demands the job's owner", http_method_name(r[i].method), r[i].pattern);
		path = xasprintf("/api/v1/jobs/9%s", r[i].pattern + strlen("/api/v1/jobs/{id}"));
		ok(status_for(k, &r[i], path, "Bearer bob-secret") == 403, "%s %s is refused to another user",
		   http_method_name(r[i].method), path);
		ok(status_for(k, &r[i], path, "Bearer ada-secret") != 403, "%s is open to its owner", path);
		ok(status_for(k, &r[i], path, "admin") != 403, "%s is open to an administrator", path);
	}
	ok(found >= 10, "routes that reach into a job: %u", found);
}

int main(void)
{
	struct hkit *k = hkit_start(NULL);
	struct answer *a;
	const cJSON *paths;
	int bad = 0;

	hkit_job(k, 1, "digits", NULL, "queued", 0);
	test_matching();
	a = http(k, "GET", "/openapi.json", NULL, NULL, NULL);
	is_int(a->status, 200, "the document is there without a login");
	paths = cJSON_GetObjectItemCaseSensitive(a->json, "paths");
	test_table_in_document(k, paths, api_schemas(a->json));
	test_document_in_table(paths);
	check_refs(a->json, api_schemas(a->json), &bad);
	is_int(bad, 0, "every reference inside the document leads somewhere");
	answer_free(a);
	test_query(k);
	test_reach(k);
	a = http(k, "PUT", "/api/v1/jobs", "admin", "{}", NULL);
	is_int(a->status, 405, "a method that is not there");
	like(answer_header(a, "Allow"), "POST", "Allow names those that are");
	is_str(answer_header(a, "Content-Type"), "application/problem+json", "type of a problem");
	is_int((int)answer_num(a, "status"), 405, "status in the body");
	answer_free(a);
	hkit_stop(k);
	return tap_done();
}
