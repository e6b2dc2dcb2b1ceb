/* The cheapest change as users see it: in why, in a dry run, in a refusal at submit. */
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

static const char *spec_of(const char *members)
{
	static char spec[500];

	snprintf(spec, sizeof spec, "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", %s}", members);
	return spec;
}

static uint64_t submit(struct world *w, const char *members)
{
	return world_submit(w, spec_of(members));
}

static const char *change(const struct world *w, const char *key)
{
	return cJSON_GetStringValue(
	    cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(w->body, "change"), key));
}

static double number(const struct world *w)
{
	const cJSON *v =
	    cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(w->body, "change"), "value");

	return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

static void why(struct world *w, uint64_t id)
{
	world_request(w, REQ_WHY, id, NULL, "{}");
}

static void dry_run(struct world *w, const char *members)
{
	world_submit_full(w, spec_of(members), "{\"dry_run\": true}", NULL, NULL);
}

#define GPUS(n) "\"resources\": {\"gpus_per_instance\": " #n ", \"ranks_per_instance\": 1}"

static void test_waiting(void)
{
	struct world *w = world_create(1);
	uint64_t id;

	world_agent_up(w, "a", 4, 8);
	submit(w, GPUS(3));
	id = submit(w, GPUS(2));
	why(w, id);
	is_str(change(w, "key"), "resources.gpus_per_instance", "fewer GPUs");
	is_int((int)number(w), 1, "as many as are free");
	golden("hearthd/suggest-it-would-fit-now-with-resources-gpus-per-instance", world_text(w, "text"),
	       "resources.gpus_per_instance");
	dry_run(w, "\"resources\": {\"instances\": 1, \"cpus_per_rank\": 8}");
	is_str(change(w, "key"), "resources.cpus_per_rank", "a dry run: fewer CPUs");
	is_int((int)number(w), 7, "as many as are free");
	golden("hearthd/suggest-it-would-fit-now-with-resources-cpus-per-rank", world_text(w, "text"),
	       "resources.cpus_per_rank");
	dry_run(w, "\"resources\": {\"exclusive\": true}");
	is_str(change(w, "key"), "resources.exclusive", "or not alone on its node");
	dry_run(w, GPUS(1));
	ok(!change(w, "key"), "what would start needs no change");
	world_end_well(w);
}

static void test_queues(void)
{
	struct world *w = world_create(2);
	uint64_t id;

	world_agent_up(w, "a", 4, 8);
	world_request(w, REQ_QUEUE_SET, 0, "tight", "{}");
	world_request(w, REQ_QUOTA_SET, 0, "tight", "{\"gpus\": 1}");
	submit(w, "\"queue\": \"tight\", " GPUS(1));
	id = submit(w, "\"queue\": \"tight\", " GPUS(1));
	why(w, id);
	is_str(change(w, "key"), "queue", "a quota is used up: another queue");
	is_str(change(w, "value"), "default", "that has some left");
	world_end_well(w);
}

static void test_types(void)
{
	struct world *w = world_create(3);
	uint64_t id;

	w->type = "cabin";
	world_agent_up(w, "a", 4, 8);
	w->type = "g5.xlarge";
	world_agent_up(w, "b", 1, 8);
	submit(w, "\"resources\": {\"instance_type\": \"g5.xlarge\", \"gpus_per_instance\": 1}");
	id = submit(w, "\"resources\": {\"instance_type\": \"ml.g5.xlarge\", \"gpus_per_instance\": 1}");
	why(w, id);
	is_str(change(w, "key"), "resources.instance_type", "another type");
	is_str(change(w, "value"), "cabin", "that is free");
	world_end_well(w);
}

/* A shorter time lets it pass the one that waits for the whole node. */
static void test_time(void)
{
	struct world *w = world_create(4);
	char limits[200];
	uint64_t id;

	world_agent_up(w, "a", 4, 8);
	world_begin(w, submit(w, "\"limits\": {\"max_runtime_s\": 1000}, " GPUS(2)));
	submit(w, "\"limits\": {\"max_runtime_s\": 1000}, " GPUS(4));
	id = submit(w, "\"limits\": {\"max_runtime_s\": 90000}, " GPUS(2));
	is_str(world_status(w, id), "queued", "it would be in the way");
	why(w, id);
	is_str(change(w, "key"), "limits.max_runtime_s", "unless it is short");
	ok(number(w) > 700 && number(w) < 1000, "somewhat less than the first one runs: %.0f s", number(w));
	is_int((int)number(w) % 60, 0, "in whole minutes");
	snprintf(limits, sizeof limits, "\"limits\": {\"max_runtime_s\": %.0f}, " GPUS(2), number(w));
	for (int i = 0; i < 90; i++) { /* a node that misses two beats gets no work */
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
	id = submit(w, limits);
	is_str(world_status(w, id), "starting", "whoever submits it a minute and a half later has it started");
	world_end_well(w);
}

static void test_refused(void)
{
	struct world *w = world_create(5);

	world_agent_up(w, "a", 4, 8);
	is_int((int)submit(w, GPUS(6)), 0, "more GPUs than a node has");
	golden("hearthd/suggest-it-would-be-possible-with-resources-gpus-per-instance", w->err.text,
	       "resources.gpus_per_instance");
	is_int((int)submit(w, "\"resources\": {\"instances\": 3}"), 0, "more nodes than there are");
	golden("hearthd/suggest-it-would-be-possible-with-resources-instances", w->err.text,
	       "resources.instances");
	is_int((int)submit(w, "\"resources\": {\"memory\": \"128GiB\"}"), 0, "more memory");
	golden("hearthd/suggest-it-would-be-possible-with-resources-memory", w->err.text, "\"64GiB\"",
	       "resources.memory");
	is_int((int)submit(w, "\"resources\": {\"memory\": \"65GiB\"}"), 0, "a little more");
	golden("hearthd/suggest-it-would-be-possible-with-resources-memory-2", w->err.text, "\"64GiB\"",
	       "resources.memory");
	world_end_well(w);
}

/* The nearest possible of what a node must be. Checks S-340. */
static void test_refused_kinds(void)
{
	struct world *w = world_create(7);

	world_agent_up(w, "a", 4, 8);
	submit(w, "\"resources\": {\"gpus_per_instance\": 1, \"gpu_model\": \"H100\"}");
	golden("hearthd/suggest-no-known-node-with-a-gpu-h", w->err.text, "\"A100\"", "resources.gpu_model");
	submit(w, "\"resources\": {\"gpus_per_instance\": 1, \"gpu_memory\": \"160GiB\"}");
	golden("hearthd/suggest-the-most-is-gib-on-a-it", w->err.text, "\"80GiB\"", "resources.gpu_memory",
	       "80.0 GiB");
	submit(w, "\"resources\": {\"disk\": \"900TiB\"}");
	golden("hearthd/suggest-it-would-be-possible-with-resources-disk", w->err.text, "resources.disk");
	submit(w, "\"resources\": {\"requires\": [\"nvlink\", \"infiniband\"], \"gpus_per_instance\": 1}");
	golden("hearthd/suggest-infiniband-there-is-nvlink-it-would-be", w->err.text, "\"nvlink\"",
	       "resources.requires");
	world_request(w, REQ_QUEUE_SET, 0, "small", "{}");
	world_request(w, REQ_QUOTA_SET, 0, "small", "{\"gpus\": 3}");
	submit(w, "\"queue\": \"small\", " GPUS(4));
	golden("hearthd/suggest-the-quota-of-small-is-gpus-it", w->err.text, "resources.gpus_per_instance",
	       "3 GPUs");
	submit(w, "\"queue\": \"small\", \"resources\": {\"gpus_per_instance\": 1, \"instances\": 4}");
	ok(!strstr(w->err.text, "resources.instances=3"), "not what the nodes do not have");
	dry_run(w, "\"resources\": {\"requires\": [\"rack=9\"]}");
	is_int(w->status, 409, "a dry run says the same");
	golden("hearthd/suggest-rack-it-would-be-possible-with-resources", w->err.text, "resources.requires");
	world_end_well(w);
}

/* A page of jobs as an I/O thread read it, completed. */
static const char *reason_of(struct world *w, int i)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
	    cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "jobs"), i), "reason"));
}

static void test_brief(void)
{
	struct world *w = world_create(6);
	char page[600];
	uint64_t big, small, cpus, tight;

	world_agent_up(w, "a", 4, 8);
	world_request(w, REQ_QUEUE_SET, 0, "tight", "{}");
	world_request(w, REQ_QUOTA_SET, 0, "tight", "{\"gpus\": 1}");
	submit(w, "\"queue\": \"tight\", " GPUS(1));
	submit(w, GPUS(2));
	big = submit(w, GPUS(4));
	small = submit(w, "\"limits\": {\"max_runtime_s\": 200000}, " GPUS(1));
	cpus = submit(w, "\"resources\": {\"cpus_per_rank\": 8}");
	tight = submit(w, "\"queue\": \"tight\", " GPUS(1));
	snprintf(
	    page, sizeof page,
	    "{\"jobs\": [{\"id\": %llu, \"status\": \"queued\", \"reason\": \"\"}, {\"id\": %llu, \"status\": "
	    "\"queued\", \"reason\": null}, {\"id\": %llu, \"status\": \"queued\", \"reason\": \"\"}, {\"id\": "
	    "%llu, \"status\": \"queued\", \"reason\": \"\"}, {\"id\": %llu, \"status\": \"queued\", \"reason\": "
	    "\"mine\"}, {\"id\": 1, \"status\": \"running\", \"reason\": \"\"}, {\"id\": 4711, \"status\": "
	    "\"queued\", \"reason\": \"\"}]}",
	    (unsigned long long)big, (unsigned long long)small, (unsigned long long)cpus,
	    (unsigned long long)tight, (unsigned long long)big);
	world_request(w, REQ_BRIEF, 0, NULL, page);
	is_int(w->status, 200, "the page comes back");
	like(reason_of(w, 0), "needs 4 GPUs, 1 free", "the first in turn: what it needs");
	like(reason_of(w, 1), "behind job 3", "one that would fit: behind whom");
	like(reason_of(w, 2), "needs 8 CPUs, 6 free; behind job 3", "one without GPUs");
	golden("hearthd/suggest-its-quota-or-budget-is-used-up", reason_of(w, 3));
	is_str(reason_of(w, 4), "mine", "a reason on record stays");
	is_str(reason_of(w, 5), "", "one that runs has none");
	is_str(reason_of(w, 6), "", "nor has one that is not there");
	snprintf(page, sizeof page, "{\"id\": %llu, \"status\": \"queued\", \"reason\": \"\"}",
	         (unsigned long long)big);
	world_request(w, REQ_BRIEF, 0, NULL, page);
	like(world_text(w, "reason"), "needs 4 GPUs, 1 free", "a job alone, too");
	snprintf(page, sizeof page, "{\"id\": %llu, \"status\": \"queued\", \"reason\": \"requeued by ada\"}",
	         (unsigned long long)big);
	world_request(w, REQ_BRIEF, 0, NULL, page);
	like(world_text(w, "reason"), "needs 4 GPUs, 1 free", "of one that was sent back what it waits for now");
	golden("hearthd/suggest-it-was-sent-back-to-the-queue", world_text(w, "reason"), "4", "1");
	world_end_well(w);
}

static const char *brief(struct world *w, uint64_t id)
{
	char job[100];

	snprintf(job, sizeof job, "{\"id\": %llu, \"status\": \"queued\", \"reason\": \"\"}",
	         (unsigned long long)id);
	world_request(w, REQ_BRIEF, 0, NULL, job);
	return world_text(w, "reason");
}

/* Enough GPUs are free in sum: what is really lacking is named. */
static void test_lacks(void)
{
	struct world *w = world_create(7);
	uint64_t id;

	w->type = "cabin";
	world_agent_up(w, "a", 4, 8);
	world_agent_up(w, "b", 4, 8);
	w->type = "g5.xlarge";
	world_agent_up(w, "c", 1, 8);
	submit(w, "\"resources\": {\"instance_type\": \"g5.xlarge\", \"gpus_per_instance\": 1}");
	id = submit(w, "\"resources\": {\"instance_type\": \"g5.xlarge\", \"gpus_per_instance\": 1}");
	golden("hearthd/suggest-needs-gpu-free-but-not-on-type", brief(w, id), "1 GPU", "8 free");
	world_request(w, REQ_STOP, id, NULL, "{}");
	submit(w, "\"resources\": {\"instances\": 2, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1, "
	          "\"cpus_per_rank\": 6}");
	id = submit(w,
	            "\"resources\": {\"gpus_per_instance\": 1, \"ranks_per_instance\": 1, \"cpus_per_rank\": 6}");
	golden("hearthd/suggest-needs-gpu-free-but-too-few-cpus", brief(w, id), "1 GPU", "6 free");
	world_request(w, REQ_STOP, id, NULL, "{}");
	submit(w, "\"resources\": {\"instances\": 2, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1, "
	          "\"memory\": \"50GiB\"}");
	id = submit(
	    w, "\"resources\": {\"gpus_per_instance\": 1, \"ranks_per_instance\": 1, \"memory\": \"40GiB\"}");
	golden("hearthd/suggest-needs-gpu-free-but-too-little-memory", brief(w, id), "1 GPU", "4 free");
	world_end_well(w);
}

static const cJSON *resume(const struct world *w, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(w->body, "resume"), key);
}

static void test_drained(void)
{
	struct world *w = world_create(1);
	uint64_t id, session;

	world_agent_up(w, "a", 4, 8);
	session = world_agent_up(w, "b", 4, 8);
	submit(w, GPUS(3));
	world_request(w, REQ_DRAIN, 0, "b", "{}");
	id = submit(w, GPUS(2));
	why(w, id);
	golden("hearthd/suggest-it-would-fit-now-with-resources-gpus-per-instance-2", world_text(w, "text"),
	       "jobctl node", "resources.gpus_per_instance");
	is_str(change(w, "key"), "resources.gpus_per_instance", "which is there");
	is_str(cJSON_GetStringValue(cJSON_GetArrayItem(resume(w, "nodes"), 0)), "b", "as data, too");
	ok(cJSON_IsTrue(resume(w, "now")), "for now");
	is_str(brief(w, id), "needs 2 GPUs, 1 free; 1 node drained", "a list says it in a few words");
	dry_run(w, GPUS(4));
	golden("hearthd/suggest-or-after-jobctl-node-resume-b", world_text(w, "text"), "jobctl node");
	dry_run(w, GPUS(1));
	ok(!resume(w, "nodes"), "what would start needs none");
	id = submit(w, "\"resources\": {\"instances\": 2, \"gpus_per_instance\": 2, \"ranks_per_instance\": 1}");
	why(w, id);
	golden("hearthd/suggest-it-would-be-possible-after-jobctl-node", world_text(w, "text"), "jobctl node");
	ok(cJSON_IsFalse(resume(w, "now")), "but not now");
	core_agent_down(w->core, "b", session, "cut");
	world_turn(w);
	why(w, id);
	ok(!resume(w, "nodes"), "a node that is not there is not offered");
	world_agent_up(w, "b", 4, 8);
	why(w, id);
	ok(resume(w, "nodes") != NULL, "when it is back it is");
	world_request(w, REQ_RESUME, 0, "b", "{}");
	why(w, id);
	ok(!resume(w, "nodes"), "nor when it was resumed");
	world_end_well(w);
}

int main(void)
{
	test_brief();
	test_lacks();
	test_waiting();
	test_drained();
	test_queues();
	test_types();
	test_time();
	test_refused();
	test_refused_kinds();
	return tap_done();
}
