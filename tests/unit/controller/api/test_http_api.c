/*
 * What goes to the state thread and what comes back: submit, change, clone, idempotency keys, problems,
 * records from the store, numbers, the status page, limits of bodies, a state thread that is busy, and the
 * end of hearthd while requests wait.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/api/prom.h"
#include "tests/lib/tap.h"
#include "tests/unit/controller/http/httpkit.h"

static struct hkit *k;
static _Atomic int keep_waiting;
static struct request *_Atomic waiting;

static int on_request(struct hkit *kit, struct request *rq)
{
	struct err e;
	cJSON *o;

	(void)kit;
	if (rq->op == REQ_WHY && atomic_load(&keep_waiting)) {
		atomic_store(&waiting, rq);
		return 0;
	}
	if (rq->op == REQ_HOLD) {
		err_set(&e, ERR_CONFLICT, "job 1 runs already");
		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "hint", "stop it first");
		rq->reply(rq, 409, o, &e);
		return 0;
	}
	if (rq->op == REQ_RELEASE) {
		err_set(&e, ERR_INVALID, "first\nsecond\nthird");
		rq->reply(rq, 400, NULL, &e);
		return 0;
	}
	return -1;
}

static struct answer *post_json(const char *path, const char *body)
{
	return http(k, "POST", path, "admin", body, NULL);
}

static void test_submit(void)
{
	static const char *const keyed[] = {"Idempotency-Key: abc-1", NULL};
	struct answer *a, *b;
	char digest[65];

	a = post_json(
	    "/api/v1/jobs",
	    "{\"spec\":{\"name\":\"a\",\"command\":[\"/bin/true\"]},\"hold\":true,\"run\":{\"cwd\":\"/x\"}}");
	ok(a->status == 200 && strcmp(answer_str(a, "spec_name"), "a") == 0, "a specification as an object");
	ok(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetObjectItem(a->json, "body"), "hold")), "hold goes along");
	ok(!cJSON_GetObjectItem(cJSON_GetObjectItem(a->json, "body"), "spec"),
	   "the specification itself is not sent twice");
	answer_free(a);
	a = post_json("/api/v1/jobs",
	              "{\"spec\":\"{ \\\"name\\\": \\\"b\\\",\\n \\\"command\\\": [\\\"/bin/true\\\"] }\"}");
	ok(a->status == 200 &&
	       strcmp(answer_str(a, "text"), "{ \"name\": \"b\",\n \"command\": [\"/bin/true\"] }") == 0,
	   "as text it is kept byte by byte");
	answer_free(a);
	a = post_json(
	    "/api/v1/jobs",
	    "{\"spec\":{\"name\":\"a\",\"comand\":[\"/bin/true\"],\"resources\":{\"instances\":\"two\"}}}");
	is_int(a->status, 400, "a wrong one");
	like(answer_str(a, "detail"), "comand", "what is wrong");
	ok(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "errors")) >= 2, "every finding: %s", a->body);
	answer_free(a);
	a = post_json("/api/v1/jobs", "{}");
	ok(a->status == 400 && strstr(a->body, "spec"), "a missing one");
	answer_free(a);
	a = post_json("/api/v1/jobs", "{\"spec\":{\"name\":\"a\",\"command\":[\"x\"]},\"bundel\":\"x\"}");
	ok(a->status == 400 && strstr(a->body, "bundle"), "an unknown key names the nearest");
	answer_free(a);
	a = post_json("/api/v1/jobs",
	              "{\"spec\":{\"name\":\"a\",\"command\":[\"/bin/true\"]},\"bundle\":\"xyz\"}");
	ok(a->status == 400 && strstr(a->body, "digest"), "a bundle that is no digest");
	answer_free(a);
	a = post_json("/api/v1/jobs", "{\"spec\":{\"name\":\"a\",\"command\":[\"/bin/true\"]},\"bundle\":"
	                              "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}");
	is_int(a->status, 404, "a bundle that was not uploaded");
	like(answer_str(a, "detail"), "bundle: the source tree 0011", "is named; the state thread is not asked");
	answer_free(a);
	a = post_json("/api/v1/jobs", "{\"spec\":{\"name\":\"a\"");
	ok(a->status == 400 && strstr(a->body, "line 1"), "broken JSON says where: %s", a->body);
	answer_free(a);
	a = post_json("/api/v1/jobs", "[1]");
	is_int(a->status, 400, "no object");
	answer_free(a);
	a = http(k, "POST", "/api/v1/jobs", "admin", "{\"spec\":{\"name\":\"a\",\"command\":[\"/bin/true\"]}}",
	         keyed);
	b = http(k, "POST", "/api/v1/jobs", "admin", "{\"spec\":{\"name\":\"a\",\"command\":[\"/bin/true\"]}}",
	         keyed);
	is_str(answer_str(a, "key"), "abc-1", "the idempotency key reaches the state thread");
	is_str(answer_str(a, "digest"), answer_str(b, "digest"), "the same request has the same digest");
	snprintf(digest, sizeof(digest), "%s", answer_str(a, "digest") ? answer_str(a, "digest") : "");
	answer_free(a);
	answer_free(b);
	a = http(k, "POST", "/api/v1/jobs", "admin", "{\"spec\":{\"name\":\"b\",\"command\":[\"/bin/true\"]}}",
	         keyed);
	ok(answer_str(a, "digest") && strcmp(answer_str(a, "digest"), digest) != 0, "another has another");
	answer_free(a);
}

static void test_change(void)
{
	struct answer *a;

	a = http(k, "PATCH", "/api/v1/jobs/1", "admin", "{\"priority\":5,\"tags\":{\"team\":\"x\",\"old\":null}}",
	         NULL);
	is_int(a->status, 200, "PATCH");
	answer_free(a);
	a = http(k, "PATCH", "/api/v1/jobs/1", "admin", "{\"priority\":5000}", NULL);
	ok(a->status == 400 && strstr(a->body, "priority"), "a priority out of range");
	answer_free(a);
	a = http(k, "PATCH", "/api/v1/jobs/1", "admin", "{\"tags\":{\"a b\":\"x\"}}", NULL);
	is_int(a->status, 400, "a tag with a blank");
	answer_free(a);
	a = http(k, "PATCH", "/api/v1/jobs/1", "admin", "{\"tags\":{\"a\":1}}", NULL);
	is_int(a->status, 400, "a tag that is a number");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/hold", "{}");
	is_int(a->status, 409, "what the state thread refuses");
	is_str(answer_str(a, "detail"), "job 1 runs already", "with its reason");
	is_str(answer_str(a, "hint"), "stop it first", "and its hint");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/release", "{}");
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "errors")), 3, "several lines become a list");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/clone", "{\"set\":{\"hyperparameters.lr\":0.5,\"hyperparameters.a.b\":2,"
	                                      "\"notes\":\"again\",\"environment.B\":null}}");
	is_int(a->status, 200, "clone");
	like(answer_str(a, "text"), "0.5", "with a changed value");
	like(answer_str(a, "text"), "\"a.b\"", "a hyperparameter's name may hold dots");
	ok(!strstr(answer_str(a, "text"), "\"B\""), "null removes");
	like(answer_str(a, "text"), "hunter2", "secrets go along to the state thread");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/retry", "{\"from_step\":5}");
	is_int(a->status, 200, "retry");
	like(answer_str(a, "text"), "job:1@5", "begins with that step of the job");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/retry", "{\"from\":5}");
	ok(a->status == 400 && strstr(a->body, "from"), "an unknown key of retry");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/clone", "{\"set\":{\"name.x\":1}}");
	ok(a->status == 400 && strstr(a->body, "not an object"), "a path through a string");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/clone", "{\"set\":{\"resources.instances\":\"x\"}}");
	is_int(a->status, 400, "a value that the specification does not allow");
	answer_free(a);
	a = post_json("/api/v1/jobs/1/stop", "{\"grace\":1}");
	ok(a->status == 400 && strstr(a->body, "grace_s"), "an unknown key of stop");
	answer_free(a);
	a = post_json("/api/v1/nodes/alpha/drain", "{\"reason\":\"fan\"}");
	is_str(answer_str(a, "node"), "alpha", "drain names the node");
	answer_free(a);
	a = http(k, "GET", "/api/v1/nodes/gamma", "admin", NULL, NULL);
	is_int(a->status, 404, "a node that is not there");
	answer_free(a);
}

static void test_records(void)
{
	struct answer *a;

	hkit_job(k, 2, "digits", NULL, "queued", 0);
	hkit_job(k, 3, "words", "ada", "completed", 1);
	a = http(k, "GET", "/api/v1/jobs?limit=2", "admin", NULL, NULL);
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "jobs")), 2, "a page of jobs");
	is_int((int)answer_num(a, "next"), 2, "and where the next begins");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs?limit=2&before=2", "admin", NULL, NULL);
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "jobs")), 1, "the next page");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs?owner=ada", "admin", NULL, NULL);
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "jobs")), 1, "of one owner");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs?mine=1&name=dig*", "admin", NULL, NULL);
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "jobs")), 2, "mine, by name");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/resolve?ref=digits", "admin", NULL, NULL);
	is_int((int)answer_num(a, "id"), 2, "a name means the newest");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/resolve?ref=digits~1", "admin", NULL, NULL);
	is_int((int)answer_num(a, "id"), 1, "~1 the one before");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/resolve?ref=last", "admin", NULL, NULL);
	is_int((int)answer_num(a, "id"), 2, "last is the caller's");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/resolve?ref=words", "admin", NULL, NULL);
	is_int((int)answer_num(a, "id"), 3, "somebody else's when there is none of mine");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/resolve?ref=nothing", "admin", NULL, NULL);
	is_int(a->status, 404, "an unknown name");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/spec", "admin", NULL, NULL);
	ok(a->status == 200 && !strstr(a->body, "hunter2") && strstr(a->body, "\"B\""),
	   "the specification, without its secrets");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1", "admin", NULL, NULL);
	ok(a->status == 200 && !strstr(a->body, "hunter2"), "nor are they in the record");
	answer_free(a);
	a = http(k, "GET", "/api/v1/jobs/1/events?after=0", "admin", NULL, NULL);
	is_int(cJSON_GetArraySize(cJSON_GetObjectItem(a->json, "events")), 1, "events of a job");
	answer_free(a);
}

static void ref_resolves(const char *ref, int id, const char *what)
{
	char path[100];
	struct answer *a;

	snprintf(path, sizeof(path), "/api/v1/jobs/resolve?ref=%s", ref);
	a = http(k, "GET", path, "admin", NULL, NULL);
	is_int((int)answer_num(a, "id"), id, what);
	answer_free(a);
}

/* Two users, each with an array and with jobs whose names look like members. */
static void test_member_names(void)
{
	struct answer *a;

	/* Once what was before is in the indexes, so that these jobs come after that at any pace. */
	hkit_wait_projected(k);
	hkit_array(k, 40, "grid", NULL, 0, 4);
	for (uint64_t i = 0; i < 4; i++)
		hkit_array(k, 41 + i, "grid", NULL, 40, 0);
	hkit_array(k, 50, "net", "ada", 0, 2);
	for (uint64_t i = 0; i < 2; i++)
		hkit_array(k, 51 + i, "net", "ada", 50, 0);
	hkit_array(k, 60, "grid.3", "ada", 0, 0);
	hkit_array(k, 61, "grid.2", NULL, 0, 0);
	hkit_array(k, 62, "grid.2", "ada", 0, 0);
	hkit_array(k, 63, "net.1", "ada", 0, 0);
	hkit_array(k, 64, "grid.7", "ada", 0, 0);
	ref_resolves("grid.2", 61, "a job of one's own that is called so");
	ref_resolves("grid.3", 44, "then the member of one's own array, though another's job is called so");
	ref_resolves("grid.7", 64, "then anyone's job");
	ref_resolves("net.1", 63, "before anyone's member");
	ref_resolves("net.0", 51, "which comes last");
	a = http(k, "GET", "/api/v1/jobs/resolve?ref=grid.9", "admin", NULL, NULL);
	ok(a->status == 404 && strstr(a->body, "job 40 has 4 members"), "one's own array lacks that member");
	answer_free(a);
}

static int cost_status(const char *query)
{
	char path[120];
	struct answer *a;
	int status;

	snprintf(path, sizeof(path), "/api/v1/cost?%s", query);
	a = http(k, "GET", path, "admin", NULL, NULL);
	status = a->status;
	answer_free(a);
	return status;
}

/* Names that exist are answered, however many there are and though nothing was spent in that time. */
static void test_cost_names(void)
{
	struct store_txn *t = store_txn_new();
	uint64_t now = clock_real_us(clock_real()) / 1000000;
	char owner[16], query[80];

	for (uint64_t i = 0; i < 1100; i++) {
		snprintf(owner, sizeof(owner), "u%04d", (int)i);
		store_txn_event(
		    t, &(struct event_row){
		           .id = 200000 + i, .job = 100 + i, .type = (char *)"submitted", .data = (char *)"{}"});
		store_txn_job(t, &(struct job_row){.id = 100 + i,
		                                   .name = (char *)"many",
		                                   .owner = owner,
		                                   .status = (char *)"queued",
		                                   .queue = (char *)"default"});
	}
	store_txn_attempt(t, &(struct attempt_row){.job = 100,
	                                           .number = 1,
	                                           .state = (char *)"ended",
	                                           .started_us = 1000000,
	                                           .ended_us = 2000000,
	                                           .price_uusd = 1000000,
	                                           .account = (char *)"gone/@left"});
	hkit_commit(k, t);
	is_int(cost_status("owner=u1099"), 200, "the last of 1,100 owners, at once");
	is_int(cost_status("owner=u1100"), 404, "who has no job is refused");
	snprintf(query, sizeof(query), "queue=gone&from=%llu", (unsigned long long)now - 60);
	is_int(cost_status(query), 200, "a queue that is gone spent something before that time");
	snprintf(query, sizeof(query), "owner=left&from=%llu", (unsigned long long)now - 60);
	is_int(cost_status(query), 200, "an owner who is gone as well");
	is_int(cost_status("queue=gon"), 404, "a queue that never was is refused");
	is_int(cost_status("queue=default"), 200, "the queue that is always there");
	snprintf(query, sizeof(query), "from=%llu", (unsigned long long)now + 120);
	is_int(cost_status(query), 200, "a client's clock may be ahead");
	snprintf(query, sizeof(query), "from=%llu", (unsigned long long)now + 90000);
	is_int(cost_status(query), 400, "but not by a day");
}

static void test_rest(void)
{
	char *big = xcalloc(1, 2u << 20);
	struct answer *a;

	a = http(k, "GET", "/metrics", "admin", NULL, NULL);
	like(a->body, "hearth_jobs{state=\"running\"} 3\n", "the state thread's numbers");
	like(a->body, "# TYPE hearth_http_requests_total counter\n", "and the server's");
	like(answer_header(a, "Content-Type"), "text/plain; version=0.0.4", "as Prometheus wants them");
	answer_free(a);
	a = http(k, "GET", "/", NULL, NULL, NULL);
	like(a->body, "<title>Hearth</title>", "the status page");
	like(answer_header(a, "Content-Security-Policy"), "default-src 'self'", "with a policy");
	answer_free(a);
	a = http(k, "GET", "/web/src/main.js", NULL, NULL, NULL);
	ok(a->status == 200 && strcmp(answer_header(a, "Content-Type"), "text/javascript; charset=utf-8") == 0,
	   "its script");
	answer_free(a);
	a = http(k, "GET", "/web/../../etc/passwd", NULL, NULL, NULL);
	ok(a->status == 400 || a->status == 404, "nothing outside");
	answer_free(a);
	memset(big, ' ', (2u << 20) - 1);
	a = post_json("/api/v1/jobs", big);
	is_int(a->status, 413, "a body over the limit of specifications");
	answer_free(a);
	free(big);
}

static void test_prom(void)
{
	cJSON *a = cJSON_Parse("{\"jobs\":{\"a\\\"b\":1,\"x\":\"no\"},\"n\":2.5,\"text\":\"no\",\"a_total\":3}"),
	      *b = cJSON_Parse("{\"n\":9,\"m-x\":1}");
	char *text = prom_text(a, b);

	is_str(text,
	       "# TYPE hearth_jobs gauge\nhearth_jobs{state=\"a\\\"b\"} 1\n# TYPE hearth_n gauge\nhearth_n "
	       "2.5\n# TYPE hearth_a_total counter\n"
	       "hearth_a_total 3\n# TYPE hearth_m_x gauge\nhearth_m_x 1\n",
	       "Prometheus text");
	free(text);
	cJSON_Delete(a);
	cJSON_Delete(b);
}

static void *wait_for_answer(void *arg)
{
	*(struct answer **)arg = http(k, "GET", "/api/v1/jobs/1/why", "admin", NULL, NULL);
	return NULL;
}

/* hearthd ends while the state thread still thinks; its answer comes after the server has gone. */
static void test_end(void)
{
	struct answer *a = NULL;
	struct request *rq;
	pthread_t t;
	struct err e;

	atomic_store(&keep_waiting, 1);
	pthread_create(&t, NULL, wait_for_answer, &a);
	while (!atomic_load(&waiting))
		poll(NULL, 0, 2);
	hkit_stop(k);
	pthread_join(t, NULL);
	is_int(a->status, 503, "an open request is answered when hearthd ends");
	answer_free(a);
	rq = atomic_load(&waiting);
	err_set(&e, ERR_INTERNAL, "too late");
	rq->reply(rq, 500, NULL, &e);
	ok(1, "an answer after that goes nowhere");
}

int main(void)
{
	struct hkit_options o = {.on_request = on_request};

	k = hkit_start(&o);
	hkit_job(k, 1, "digits", NULL, "queued", 0);
	test_submit();
	test_change();
	test_records();
	test_member_names();
	test_cost_names();
	test_rest();
	test_prom();
	test_end();
	return tap_done();
}
