/* Queues, shares and quotas: as objects that change at run time, in what they do to jobs, and over restarts.
 */
#include "common/base/log.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t submit(struct world *w, const char *queue, unsigned gpus)
{
	char spec[300];

	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"queue\": \"%s\", \"resources\": "
	         "{\"gpus_per_instance\": %u, \"ranks_per_instance\": 1}}",
	         queue, gpus);
	return world_submit(w, spec);
}

static int ask(struct world *w, enum request_op op, const char *path, const char *body)
{
	return world_request(w, op, 0, path, body);
}

static const cJSON *row(struct world *w, const char *path)
{
	const cJSON *q;

	ask(w, REQ_QUEUES, NULL, NULL);
	cJSON_ArrayForEach (q, cJSON_GetObjectItemCaseSensitive(w->body, "queues"))
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(q, "name")), path) == 0)
			return q;
	return NULL;
}

static double number(struct world *w, const char *path, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(row(w, path), key);

	return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

static const char *why(struct world *w, uint64_t job)
{
	world_request(w, REQ_WHY, job, NULL, "{}");
	return world_text(w, "text");
}

static void begin(struct world *w, uint64_t id)
{
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
}

static void end(struct world *w, uint64_t id)
{
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
}

/* hearthd starts anew; the agent, which has one launch, reports it. */
static void reborn(struct world *w, uint64_t running)
{
	struct wm_sync_begin first = {0};
	struct wm_sync_end last = {0};
	uint64_t s;

	world_restart(w);
	s = world_agent_connect(w, "a");
	world_msg(w, "a", s, WM_SYNC_BEGIN, &first);
	world_launch(w, "a", running, 1, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", s, WM_SYNC_END, &last);
	world_turn(w);
}

/* The node's agent beats all the while, every second: who misses two beats is suspect and gets no work. */
static void run_for(struct world *w, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		world_beat(w, "a");
		world_advance(w, 1000000);
	}
}

static void test_objects(void)
{
	struct world *w = world_create(1);
	uint64_t id;

	world_agent_up(w, "a", 4, 8);
	ok(row(w, "default") != NULL, "there is always the queue default");
	submit(w, "night", 1);
	is_int(w->status, 404, "a job for a queue that is not there is refused");
	is_int(ask(w, REQ_QUEUE_SET, "a/b", "{}"), 404, "nor is there one to lie below");
	is_int(ask(w, REQ_QUEUE_SET, "a b", "{}"), 400, "a name that is none");
	is_int(ask(w, REQ_QUEUE_SET, "night", "{\"weight\": 0}"), 400, "a weight that is none");
	is_int(ask(w, REQ_QUEUE_SET, "night", "{\"weight\": 2.5}"), 200, "a queue is made");
	is_int(ask(w, REQ_QUEUE_SET, "night/deep", "{}"), 200, "one below it");
	is_int(ask(w, REQ_QUOTA_SET, "night/@ada", "{\"gpus\": 2}"), 200, "a quota of a user in it");
	is_int(ask(w, REQ_QUOTA_SET, "moon", "{\"gpus\": 2}"), 404, "none for a queue that is not there");
	is_int(ask(w, REQ_QUOTA_SET, "night", "{}"), 400, "a quota is a number of GPUs");
	world_restart(w);
	world_agent_up(w, "a", 4, 8);
	ok(fabs(number(w, "night", "weight") - 2.5) < 1e-9, "all of it outlives a restart");
	ok(row(w, "night/deep") != NULL, "the lower one, too");
	is_int((int)number(w, "night/@ada", "quota_gpus"), 2, "and the quota");
	submit(w, "night", 3);
	is_int(w->status, 409, "more than the quota will ever allow is refused");
	golden("hearthd/queues-the-quota-of-night-ada-is-gpus", w->err.text, "2 GPUs");
	id = submit(w, "night/deep", 3);
	is_str(world_status(w, id), "starting", "a quota is for its own queue");
	is_int(ask(w, REQ_QUEUE_RM, "night/deep", NULL), 409, "a queue with a job stays");
	golden("hearthd/queues-jobs-of-queue-night-deep-have-not", w->err.text, "1", "jobctl set JOB");
	is_int(ask(w, REQ_QUEUE_RM, "night", NULL), 409, "one above another, too");
	begin(w, id);
	is_int(world_request(w, REQ_SET, id, NULL, "{\"queue\": \"night\"}"), 409,
	       "a running job stays where it is");
	end(w, id);
	is_int(ask(w, REQ_QUEUE_RM, "night/deep", NULL), 200, "an empty one goes");
	is_int(ask(w, REQ_QUEUE_RM, "night", NULL), 200, "and then the other");
	is_int(ask(w, REQ_QUOTA_RM, "night/@ada", NULL), 404, "with the quotas in it");
	is_int(ask(w, REQ_QUEUE_RM, "default", NULL), 409, "default stays");
	world_restart(w);
	is_int(ask(w, REQ_QUOTA_RM, "night", NULL), 404, "for good");
	world_end_well(w);
}

struct heard {
	char line[400];
	unsigned n;
};

static void hear(enum log_level level, const char *line, void *arg)
{
	struct heard *h = arg;

	if (level != LOG_LVL_WARN || !strstr(line, "event=weights_not_kept"))
		return;
	snprintf(h->line, sizeof h->line, "%s", line);
	h->n++;
}

/* Weights that are not kept by the way of backfill that is set: the log says so at the start. */
static void test_not_kept(void)
{
	struct world *w = world_create(6);
	struct heard h = {0};

	ask(w, REQ_QUEUE_SET, "default", "{\"weight\": 1}");
	log_set_sink(hear, &h);
	w->core->cfg.backfill = BACKFILL_CONSERVATIVE;
	queues_loaded(w->core);
	is_int((int)h.n, 0, "where all weights are 1 nothing is said");
	ask(w, REQ_QUEUE_SET, "default/@ada", "{\"weight\": 2.5}");
	queues_loaded(w->core);
	is_int((int)h.n, 1, "else it is said once");
	like(h.line, "path=default/@ada weight=2.5", "with a weight");
	w->core->cfg.backfill = BACKFILL_EASY;
	queues_loaded(w->core);
	is_int((int)h.n, 1, "with easy backfill they are kept");
	log_set_sink(NULL, NULL);
	world_destroy(w);
}

static void test_quota(void)
{
	struct world *w = world_create(2);
	uint64_t a, b, c;

	world_agent_up(w, "a", 8, 8);
	ask(w, REQ_QUOTA_SET, "default/@ada", "{\"gpus\": 2}");
	a = submit(w, "default", 2);
	b = submit(w, "default", 1);
	is_str(world_status(w, a), "starting", "within the quota");
	is_str(world_status(w, b), "queued", "not beyond it, although GPUs are free");
	golden("hearthd/queues-default-ada-holds-of-the-gpus-of", why(w, b), "2 GPUs");
	is_str(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "waits_for"), 0)->valuestring,
	       "quota", "as a word, too");
	is_int((int)number(w, "default/@ada", "gpus"), 2, "what is held is listed");
	is_int((int)number(w, "default", "waiting"), 1, "and what waits");
	begin(w, a);
	reborn(w, a);
	is_str(world_status(w, b), "queued", "a restart does not forget what runs");
	is_int((int)number(w, "default/@ada", "gpus"), 2, "nor whose it is");
	ask(w, REQ_QUOTA_SET, "default/@ada", "{\"gpus\": 3}");
	is_str(world_status(w, b), "starting", "a higher quota lets it go at once");
	ask(w, REQ_QUOTA_SET, "default/@ada", "{\"gpus\": 3, \"borrow\": true}");
	c = submit(w, "default", 2);
	is_str(world_status(w, c), "starting", "with borrowing more than that, while nobody else waits");
	ask(w, REQ_QUEUE_SET, "other", "{}");
	a = submit(w, "default", 4); /* borrows */
	b = submit(w, "other", 4);   /* does not */
	is_str(world_status(w, b), "queued", "neither fits");
	like(why(w, a), "needs 1 instance with 4 GPUs", "the cluster is full");
	ask(w, REQ_QUOTA_RM, "default/@ada", NULL);
	is_int((int)number(w, "default/@ada", "quota_gpus"), -1, "the quota is off");
	world_end_well(w);
}

/* One GPU, two queues of weight 1 and 3, jobs of equal length: the starts go 1 to 3, also when hearthd starts
 * anew after each of them. */
static void test_share(int restarts)
{
	struct world *w = world_create(3);
	unsigned of[2] = {0, 0};
	uint64_t first;

	world_agent_up(w, "a", 1, 4);
	ask(w, REQ_QUEUE_SET, "one", "{\"weight\": 1}");
	ask(w, REQ_QUEUE_SET, "three", "{\"weight\": 3}");
	first = submit(w, "default", 1);
	for (int i = 0; i < 30; i++)
		submit(w, "one", 1);
	for (int i = 0; i < 30; i++)
		submit(w, "three", 1);
	begin(w, first);
	run_for(w, 5);
	end(w, first);
	for (int i = 0; i < 24; i++) {
		uint64_t id = first + 1;

		while (id <= first + 60 && strcmp(world_status(w, id), "starting") != 0)
			id++;
		of[id > first + 30]++;
		begin(w, id);
		run_for(w, 600);
		if (restarts)
			reborn(w, id);
		end(w, id);
		if (i == 2)
			like(why(w, first + 30), "needs 1 instance with 1 GPU", "somebody waits");
	}
	is_int(of[0], 6, "a quarter of the starts for the weight 1");
	is_int(of[1], 18, "three quarters for the weight 3");
	ok(fabs(number(w, "three", "used_gpu_hours") - 3.0) < 0.1, "use is listed: %f",
	   number(w, "three", "used_gpu_hours"));
	ok(fabs(number(w, "one", "used_gpu_hours") - 1.0) < 0.1, "of both: %f",
	   number(w, "one", "used_gpu_hours"));
	world_end_well(w);
}

static void test_why_share(void)
{
	struct world *w = world_create(4);
	uint64_t a, b, c;

	world_agent_up(w, "a", 2, 4);
	ask(w, REQ_QUEUE_SET, "b", "{}");
	a = submit(w, "default", 1);
	begin(w, a);
	run_for(w, 3600);
	c = submit(w, "b", 2);
	b = submit(w, "default", 1);
	golden("hearthd/queues-of-b-is-ahead-and-does-not", why(w, b), "0.0", "1.0");
	is_int((int)cJSON_GetObjectItemCaseSensitive(w->body, "ahead")->valuedouble, 1, "one is ahead");
	world_request(w, REQ_SET, b, NULL, "{\"queue\": \"b\"}");
	world_request(w, REQ_SET, c, NULL, "{\"queue\": \"default\"}");
	is_str(world_status(w, b), "starting", "in the other queue it is first");
	world_end_well(w);
}

int main(void)
{
	test_objects();
	test_not_kept();
	test_quota();
	test_share(0);
	test_share(1);
	test_why_share();
	return tap_done();
}
