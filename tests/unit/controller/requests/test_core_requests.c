/* What users ask: submit with its limits and keys, changes, refusals in words, answers. */
#include "common/base/json.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

#define ONE "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"
#define D1  "1111111111111111111111111111111111111111111111111111111111111111"
#define D2  "2222222222222222222222222222222222222222222222222222222222222222"

static void finish_well(struct world *w)
{
	is_int(w->n_requests, w->n_replies, "every request was answered once");
	world_end_well(w);
}

static void run_to_end(struct world *w, const char *node, uint64_t id)
{
	world_launch(w, node, id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, node, id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, node, id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, node, id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, node, id, 1, LAUNCH_CLEANED, 0, NULL);
}

#define FOUR                                                                                                 \
	"{\"command\": [\"/bin/x\"], \"resources\": {\"ranks_per_instance\": 4}, \"limits\": "                   \
	"{\"max_runtime_s\": 60}}"

static void test_submit(void)
{
	struct world *w = world_create(1);
	uint64_t id;

	id = world_submit(w, ONE);
	is_int(id, 1, "accepted although no node has joined");
	world_request(w, REQ_WHY, id, NULL, NULL);
	golden("hearthd/requests-no-node-has-joined-yet", world_text(w, "text"));
	world_agent_up(w, "a", 1, 4);
	is_str(world_status(w, id), "starting", "starts with the first node");
	is_int(world_submit(w, "{\"command\": [\"/bin/x\"], \"resources\": {\"gpus_per_instance\": 2}}"), 0,
	       "impossible resources are refused");
	is_int(w->status, 409, "with 409: the request is well-formed, the cluster is what it is");
	golden("hearthd/requests-no-known-node-with-such-gpus-the", w->err.text, "1", "2",
	       "resources.gpus_per_instance");
	is_int(world_submit(w, "{\"command\": [\"/bin/x\"], \"limits\": {\"max_runtime_s\": 31000000}}"), 0,
	       "too long");
	golden("hearthd/requests-more-than-the-administrator-allows-d", w->err.text, "limits.max_runtime_s",
	       "358d19h6m40s", "30d");
	is_int(
	    world_submit(w, "{\"command\": [\"/bin/x\"], \"inputs\": {\"base\": {\"uri\": \"job:77/model\"}}}"),
	    0, "an input that is not there");
	is_int(w->status, 404, "404");
	golden("hearthd/requests-inputs-base-there-is-no-job", w->err.text, "inputs.base", "job 77");
	is_int(world_submit(w, "{\"command\": [\"/bin/x\"], \"resume_from\": \"job:77@7\"}"), 0,
	       "a checkpoint of no job");
	is_str(w->err.text, "resume_from: there is no job 77", "named, too");
	is_int(world_submit(w, "{\"command\": [\"/bin/x\"], \"resume_from\": \"job:1\"}"), 0,
	       "a job that has left no checkpoint");
	is_int(w->status, 404, "404");
	golden("hearthd/requests-resume-from-job-job-has-left-no-checkpoint", w->err.text, "resume_from",
	       "job 1");
	is_int(world_submit_full(w, ONE, "{\"bundle\": \"xyz\"}", NULL, NULL), 0, "a bundle that is no digest");
	is_int(world_submit(w, "{\"command\": [\"/bin/x\"], \"source_dir\": \".\"}"), 0,
	       "a source tree without a bundle");
	like(w->err.text, "source_dir", "is named");
	is_int(world_submit_full(w, ONE, "{\"dry_run\": true}", NULL, NULL), 0, "a dry run makes no job");
	is_int(w->status, 200, "but is answered");
	golden("hearthd/requests-instance-rank-it-would-start-now-on", world_text(w, "text"), "1 instance");
	is_str(world_text(w, "max_runtime_from"), "default", "and where its time limit comes from");
	world_submit_full(w, FOUR, "{\"dry_run\": true}", NULL, NULL);
	golden("hearthd/requests-instance-ranks-it-would-wait-needs", world_text(w, "text"), "1 instance");
	is_str(world_text(w, "max_runtime_from"), "specification", "it has a limit of its own");
	world_submit_full(w, ONE, "{\"dry_run\": true, \"hold\": true}", NULL, NULL);
	like(world_text(w, "text"), "; it would be held", "a held one does not start");
	id = world_submit(w, FOUR);
	is_int(id, 2, "dry runs take no id");
	is_str(world_status(w, id), "queued", "it does wait");
	world_agent_up(w, "b", 1, 4);
	is_str(world_status(w, id), "starting", "until there is room");
	w->core->cfg.queue_limit = 1;
	is_int(world_submit(w, ONE), 0, "the queue is full");
	is_int(w->status, 429, "429");
	finish_well(w);
}

static void test_idempotency(void)
{
	struct world *w = world_create(2);
	struct request *rq;
	uint64_t id;

	id = world_submit_full(w, ONE, NULL, "k1", D1);
	is_int(world_submit_full(w, ONE, NULL, "k1", D1), (int64_t)id, "the same key and request: the same job");
	is_int(world_submit_full(w, ONE, NULL, "k1", D2), 0, "the same key, another request");
	is_int(w->status, 409, "409");
	is_int(world_submit_full(w, ONE, NULL, "k2", D1), (int64_t)id + 1, "another key: another job");
	world_restart(w);
	is_int(world_submit_full(w, ONE, NULL, "k1", D1), (int64_t)id, "also after a restart");
	/* Two at once, before the first is durable. */
	w->hold_commits = 1;
	is_int(world_submit_full(w, ONE, NULL, "k3", D1), 0, "not answered before it is durable");
	is_int(w->status, 0, "no answer at all");
	world_submit_full(w, ONE, NULL, "k3", D1);
	w->hold_commits = 0;
	world_turn(w);
	is_int(w->status, 201, "both are answered");
	is_str(world_status(w, id + 3), "", "one job only");
	rq = world_rq(w, REQ_SUBMIT, 0);
	rq->text = xstrdup(ONE);
	rq->spec = spec_parse(ONE, strlen(ONE), NULL);
	rq->idem_key = xstrdup("k1");
	snprintf(rq->idem_digest, sizeof rq->idem_digest, "%s", D2);
	free(rq->user);
	rq->user = xstrdup("grace");
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 201, "keys of another user are others");
	finish_well(w);
}

static int keyed(struct world *w, enum request_op op, uint64_t job, const char *key, const char *digest,
                 const char *user)
{
	struct request *rq = world_rq(w, op, job);

	rq->idem_key = xstrdup(key);
	snprintf(rq->idem_digest, sizeof rq->idem_digest, "%s", digest);
	free(rq->user);
	rq->user = xstrdup(user);
	core_request(w->core, rq);
	world_turn(w);
	return w->status;
}

/* Changes other than a submit: the answer is remembered with the change. */
static void test_answers(void)
{
	struct world *w = world_create(20);
	char token[200];
	uint64_t id;

	is_int(keyed(w, REQ_TOKEN, 0, "t1", D1, "ada"), 201, "a token");
	snprintf(token, sizeof token, "%s", world_text(w, "token"));
	is_int(keyed(w, REQ_TOKEN, 0, "t1", D1, "ada"), 201, "asked for again");
	is_str(world_text(w, "token"), token, "is the same token");
	is_int(HASH_COUNT(w->core->records.all[CLUSTER_TOKEN]), 1, "there is one");
	is_int(keyed(w, REQ_TOKEN, 0, "t1", D2, "ada"), 409, "the same key with another body is refused");
	is_int(world_submit_full(w, ONE, NULL, "t1", D2), 0, "for a submit as well");
	keyed(w, REQ_TOKEN, 0, "t1", D1, "grace");
	ok(strcmp(world_text(w, "token"), token) != 0, "another user's key is another");
	world_restart(w);
	keyed(w, REQ_TOKEN, 0, "t1", D1, "ada");
	is_str(world_text(w, "token"), token, "the same after a restart");
	is_int(keyed(w, REQ_TOKEN, 0, "t1", D2, "ada"), 409, "as is the refusal");
	clock_fake_advance(&w->clock, IDEM_KEPT_US + 1);
	keyed(w, REQ_TOKEN, 0, "t1", D1, "ada");
	ok(strcmp(world_text(w, "token"), token) != 0, "after a day a key is new");

	is_int(keyed(w, REQ_REQUEUE, 77, "r0", D1, "ada"), 404, "a refusal");
	world_agent_up(w, "a", 1, 4);
	id = world_submit_full(w, ONE, NULL, "s1", D1);
	is_int(keyed(w, REQ_REQUEUE, id, "s1", D2, "ada"), 409, "the key of a submit is taken");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	w->hold_commits = 1;
	keyed(w, REQ_REQUEUE, id, "r0", D2, "ada");
	keyed(w, REQ_REQUEUE, id, "r0", D2, "ada");
	w->hold_commits = 0;
	world_turn(w);
	is_int(w->status, 200, "requeue, twice at once; the key of a refusal is free");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 15, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_int(job_find(w->core, id)->r.attempts, 2, "the second attempt begins");
	world_launch(w, "a", id, 2, LAUNCH_READY, 0, NULL);
	world_restart(w);
	is_int(keyed(w, REQ_REQUEUE, id, "r0", D2, "ada"), 200, "asked for again, after a restart");
	like(world_text(w, "text"), "then it waits again", "gets the first answer");
	is_int((int)job_find(w->core, id)->r.wanted, WANT_NOTHING, "and changes nothing");
	w->fail_next = 1;
	keyed(w, REQ_TOKEN, 0, "t2", D1, "ada");
	ok(w->status >= 500, "a token that could not be stored");
	world_advance(w, 3000000);
	is_int(keyed(w, REQ_TOKEN, 0, "t2", D1, "ada"), 201, "is made by the next try");
	finish_well(w);
}

static void test_roles(void)
{
	struct world *w = world_create(3);
	struct request *rq;
	uint64_t id = world_submit(w, ONE);

	rq = world_rq(w, REQ_STOP, id);
	rq->role = ROLE_USER;
	free(rq->user);
	rq->user = xstrdup("grace");
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 403, "another user's job");
	like(w->err.text, "belongs to ada", "says whose");
	rq = world_rq(w, REQ_TOKEN, 0);
	rq->role = ROLE_USER;
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 403, "join tokens are the administrator's");
	rq = world_rq(w, REQ_TOP, 0);
	rq->role = ROLE_NONE;
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 401, "nothing without a login");
	rq = world_rq(w, REQ_STOP, id);
	rq->role = ROLE_JOB;
	rq->token_job = 99;
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 403, "a job's token reaches that job only");
	rq = world_rq(w, REQ_STOP, id);
	rq->role = ROLE_JOB;
	rq->token_job = id;
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 200, "its own it may stop");
	is_int(world_request(w, REQ_STOP, 4711, NULL, NULL), 404, "a job that is not there");
	finish_well(w);
}

static void test_set(void)
{
	struct world *w = world_create(4);
	struct job_row row = {0};
	cJSON *shown;
	uint64_t id, ended;

	world_agent_up(w, "a", 1, 4);
	ended = world_submit(w, ONE);
	run_to_end(w, "a", ended);
	is_str(world_status(w, ended), "completed", "one has ended");
	is_int(w->core->jobs.unfinished, 0, "and left memory");
	ok(!job_find(w->core, ended), "for good");
	is_int(world_request(w, REQ_SET, ended, NULL,
	                     "{\"notes\": \"good\", \"pinned\": true, \"tags\": {\"team\": \"x\"}}"),
	       200, "notes, tags and pin of an ended job");
	ok(!job_find(w->core, ended), "it leaves memory again");
	store_job_get(w->reader, ended, &row, NULL);
	is_str(row.notes, "good", "notes");
	is_int(row.pinned, 1, "pinned");
	job_row_fini(&row);
	is_int(world_request(w, REQ_SET, ended, NULL, "{\"priority\": 5}"), 409,
	       "its priority cannot change any more");
	is_int(world_request(w, REQ_RM, ended, NULL, NULL), 409, "a pinned job is not removed");
	world_request(w, REQ_SET, ended, NULL, "{\"pinned\": false, \"tags\": {\"team\": null}}");
	is_int(world_request(w, REQ_RM, ended, NULL, NULL), 200, "unpinned it is");
	is_int(world_request(w, REQ_RM, ended, NULL, NULL), 200, "twice is no harm");
	id = world_submit_full(w, ONE, "{\"hold\": true}", NULL, NULL);
	is_int(world_request(w, REQ_RM, id, NULL, NULL), 409, "a job that has not ended is not removed");
	is_int(world_request(w, REQ_SET, id, NULL, "{\"name\": \"17\"}"), 400, "no name that is a number");
	is_int(world_request(w, REQ_SET, id, NULL, "{\"priority\": 6, \"queue\": \"night\"}"), 404,
	       "a queue that is not there");
	golden("hearthd/requests-queue-there-is-no-queue-night", w->err.text, "\"night\"");
	is_int(world_request(w, REQ_SET, id, NULL,
	                     "{\"priority\": 7, \"queue\": \"default\", \"name\": \"other\", \"time\": \"2h\"}"),
	       200, "set");
	is_int(world_request(w, REQ_SET, id, NULL, "{\"time\": \"900d\"}"), 413, "not beyond the limit");
	world_restart(w);
	is_int(job_find(w->core, id)->r.max_runtime_s, 7200, "the limit outlives a restart");
	is_int(job_find(w->core, id)->r.priority, 7, "priority too");
	is_str(job_find(w->core, id)->r.queue, "default", "and the queue");
	shown = store_job_json(w->reader, id, NULL);
	is_str(cJSON_GetStringValue(cJSON_GetObjectItem(shown, "name")), "other", "the name is shown");
	cJSON_Delete(shown);
	finish_well(w);
}

static void test_clone(void)
{
	struct world *w = world_create(5);
	struct request *rq;
	uint64_t id =
	    world_submit_full(w, ONE, "{\"bundle\": \"" D1 "\", \"run\": {\"git\": \"abc\"}}", NULL, NULL);

	rq = world_rq(w, REQ_CLONE, id);
	rq->text = xstrdup(ONE);
	rq->spec = spec_parse(ONE, strlen(ONE), NULL);
	core_request(w->core, rq);
	world_turn(w);
	is_int(w->status, 201, "cloned");
	is_str(job_find(w->core, id + 1)->r.bundle, D1, "with the same source");
	finish_well(w);
}

static void ask_as(struct world *w, struct request *rq, const char *user, enum user_role role,
                   const char *account, uint64_t token_job)
{
	free(rq->user);
	rq->user = xstrdup(user);
	rq->role = role;
	rq->token_job = token_job;
	rq->account = account ? xstrdup(account) : NULL;
	rq->text = xstrdup(ONE);
	rq->spec = spec_parse(ONE, strlen(ONE), NULL);
	core_request(w->core, rq);
	world_turn(w);
}

static void is_whose(struct world *w, uint64_t id, const char *owner, const char *account, const char *what)
{
	const struct job_rec *r = &job_find(w->core, id)->r;

	ok(strcmp(r->owner, owner) == 0 && strcmp(rec_account(r), account) == 0, "%s: owner %s, account %s", what,
	   r->owner, rec_account(r));
}

static void test_accounts(void)
{
	struct world *w = world_create(9);
	struct sent *s;

	ask_as(w, world_rq(w, REQ_SUBMIT, 0), "bob", ROLE_USER, "hearth", 0);
	is_whose(w, 1, "bob", "hearth", "a submit");
	ask_as(w, world_rq(w, REQ_CLONE, 1), "ada", ROLE_ADMIN, "ada", 0);
	is_int(w->status, 201, "an administrator clones bob's job");
	is_whose(w, 2, "bob", "hearth", "the clone");
	ask_as(w, world_rq(w, REQ_CLONE, 1), "bob", ROLE_USER, "robert", 0);
	is_whose(w, 3, "bob", "robert", "bob's own clone runs as bob's jobs run by now");
	ask_as(w, world_rq(w, REQ_SUBMIT, 0), "bob", ROLE_JOB, "robert", 1);
	is_whose(w, 4, "bob", "hearth", "a child of job 1 runs as job 1 does");
	ask_as(w, world_rq(w, REQ_SUBMIT, 0), "eve", ROLE_USER, "", 0);
	is_int(w->status, 403, "a user without an account");
	like(w->err.text, "eve=ACCOUNT to hearthd's setting run_as",
	     "the sentence names the user and the setting");
	world_request(w, REQ_REQUEUE, 1, NULL, "{}");
	is_whose(w, 1, "bob", "hearth", "an administrator's requeue");
	world_agent_up(w, "a", 0, 1);
	s = world_sent(w, "a", WM_PREPARE);
	is_str(s ? ((struct wm_prepare *)s->msg)->account : NULL, "hearth", "the node gets the account");
	if (s)
		sent_free(s);
	world_restart(w);
	is_whose(w, 1, "bob", "hearth", "after a restart");
	finish_well(w);
}

static void test_order(void)
{
	struct world *w = world_create(6);
	uint64_t first, second, third;

	first = world_submit(w, ONE);
	second = world_submit(w, ONE);
	third = world_submit(w, ONE);
	world_request(w, REQ_WHY, third, NULL, NULL);
	is_int(cJSON_GetObjectItem(w->body, "ahead")->valueint, 2, "two are ahead");
	world_request(w, REQ_SET, third, NULL, "{\"priority\": 10}");
	world_request(w, REQ_TOP, 0, NULL, NULL);
	is_int(
	    cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(w->body, "waiting"), 0), "id")->valueint,
	    (int)third, "priority puts it first");
	world_request(w, REQ_HOLD, first, NULL, NULL);
	world_agent_up(w, "a", 0, 1);
	is_str(world_status(w, third), "starting", "it is placed first");
	is_str(world_status(w, second), "queued", "the next waits");
	world_request(w, REQ_WHY, second, NULL, NULL);
	golden("hearthd/requests-needs-instance-with-cpu-slot-free-now", world_text(w, "text"), "1 instance",
	       "1 CPU", "0 free");
	is_str(world_status(w, first), "held", "the held one too");
	world_request(w, REQ_TOP, 0, NULL, NULL);
	is_int(cJSON_GetObjectItem(cJSON_GetObjectItem(w->body, "jobs"), "waiting")->valueint, 1, "top counts");
	world_request(w, REQ_NODES, 0, NULL, NULL);
	is_int(cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(w->body, "nodes"), 0), "slots_used")
	           ->valueint,
	       1, "nodes shows use");
	world_request(w, REQ_STATS, 0, NULL, NULL);
	is_int(cJSON_GetObjectItem(cJSON_GetObjectItem(w->body, "jobs"), "held")->valueint, 1, "counters too");
	finish_well(w);
}

static int64_t counted(struct world *w, const char *status)
{
	world_request(w, REQ_STATS, 0, NULL, NULL);
	return (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(w->body, "jobs"), status));
}

/* Ended jobs are counted whenever they ended, and each once. */
static void test_counts(void)
{
	struct world *w = world_create(8);
	uint64_t id = world_submit(w, ONE);

	world_agent_up(w, "a", 0, 1);
	run_to_end(w, "a", id);
	id = world_submit(w, ONE);
	run_to_end(w, "a", id);
	world_request(w, REQ_DRAIN, 0, "a", NULL);
	id = world_submit(w, ONE);
	world_request(w, REQ_STOP, id, NULL, NULL);
	world_submit(w, ONE);
	is_int(counted(w, "completed"), 2, "two have completed");
	is_int(counted(w, "stopped"), 1, "one was stopped");
	world_restart(w);
	is_int(counted(w, "completed"), 2, "the same after a restart");
	is_int(counted(w, "stopped"), 1, "of each kind");
	is_int(counted(w, "failed"), 0, "none of another");
	is_int(counted(w, "queued"), 1, "those that wait are counted once");
	world_request(w, REQ_STOP, id + 1, NULL, NULL);
	is_int(counted(w, "stopped"), 2, "further ones are added");
	is_int(counted(w, "queued"), 0, "and no longer among those that wait");
	finish_well(w);
}

static void test_many_waiting(void)
{
	struct world *w = world_create(7);
	uint64_t before;

	w->hold_commits = 1;
	for (int i = 0; i < 3000; i++)
		world_submit(w, ONE);
	w->hold_commits = 0;
	world_turn(w);
	is_int(w->n_replies, 3000, "3,000 submits are acknowledged");
	ok(w->n_commits <= 3, "in a few commits");
	ok(sizeof(struct cjob) < 1024, "a waiting job's struct is small: %zu bytes", sizeof(struct cjob));
	ok(!job_find(w->core, 1500)->spec, "and its specification is not kept in memory");
	world_restart(w);
	is_int(w->core->jobs.unfinished, 3000, "all are there after a restart");
	before = w->n_commits;
	world_agent_up(w, "a", 0, 200);
	is_int(w->core->jobs.counts[JOB_STARTING], 200, "placed in batches until the node is full");
	ok(w->n_commits - before < 12, "a batch a commit");
	finish_well(w);
}

int main(void)
{
	test_submit();
	test_idempotency();
	test_answers();
	test_roles();
	test_set();
	test_clone();
	test_accounts();
	test_order();
	test_counts();
	test_many_waiting();
	return tap_done();
}
