/* Reservations and maintenance windows: as objects that change at run time, in what they do to jobs, in time,
 * and over restarts. */
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

static uint64_t submit(struct world *w, const char *queue, unsigned instances, unsigned limit_s)
{
	char spec[400];

	snprintf(spec, sizeof spec,
	         "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"queue\": \"%s\", \"resources\": "
	         "{\"instances\": "
	         "%u, \"gpus_per_instance\": 4, \"ranks_per_instance\": 1}, \"limits\": {\"max_runtime_s\": %u, "
	         "\"grace_s\": 1}}",
	         queue, instances, limit_s);
	return world_submit(w, spec);
}

/* The times of body are relative: FROM and TO become seconds from now. */
static int reserve(struct world *w, enum request_op op, const char *name, int from_s, int to_s,
                   const char *rest)
{
	char body[500], from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE];
	uint64_t now = clock_real_us(&w->clock);

	clock_rfc3339(now + (uint64_t)((int64_t)from_s * 1000000), from);
	clock_rfc3339(now + (uint64_t)((int64_t)to_s * 1000000), to);
	snprintf(body, sizeof body, "{\"from\": \"%s\", \"to\": \"%s\"%s%s}", from, to, *rest ? ", " : "", rest);
	return world_request(w, op, 0, name, body);
}

static const cJSON *row(struct world *w, const char *name)
{
	const cJSON *r;

	world_request(w, REQ_RESERVES, 0, NULL, NULL);
	cJSON_ArrayForEach (r, cJSON_GetObjectItemCaseSensitive(w->body, "reservations"))
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r, "name")), name) == 0)
			return r;
	return NULL;
}

static const char *text_of(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

	return s ? s : "";
}

static const char *state(struct world *w, const char *name)
{
	return text_of(row(w, name), "state");
}

static const char *why(struct world *w, uint64_t job)
{
	world_request(w, REQ_WHY, job, NULL, "{}");
	return world_text(w, "text");
}

static const cJSON *node(struct world *w, const char *name)
{
	world_request(w, REQ_NODES, 0, name, NULL);
	return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->body, "nodes"), 0);
}

static const char *nodes_of(struct world *w)
{
	static char all[200];
	const cJSON *n;

	all[0] = '\0';
	cJSON_ArrayForEach (n, cJSON_GetObjectItemCaseSensitive(w->body, "nodes"))
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? "," : "",
		         cJSON_GetStringValue(n));
	return all;
}

static void beats(struct world *w, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		for (const struct cnode *n = node_first(w->core); n; n = node_next(n))
			if (n->connected)
				world_beat(w, n->name);
		world_advance(w, 1000000);
	}
}

static void begin(struct world *w, const char *on, uint64_t id)
{
	world_launch(w, on, id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, on, id, 1, 0, PS_RUNNING, 0, 0, NULL);
}

static void end(struct world *w, const char *on, uint64_t id)
{
	world_rank(w, on, id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, on, id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, on, id, 1, LAUNCH_CLEANED, 0, NULL);
}

static void test_refusals(void)
{
	static const struct {
		int from, to;
		const char *rest;
		int status;
		const char *says;
	} bad[] = {
	    {-3600, 3600, "\"nodes\": [\"a\"], \"maintenance\": true", 400, " UTC is in the past"},
	    {3600, 3600, "\"nodes\": [\"a\"], \"maintenance\": true", 400, "is not after its beginning"},
	    {3600, 1800, "\"nodes\": [\"a\"], \"maintenance\": true", 400, "is not after its beginning"},
	    {60, 367 * 86400, "\"nodes\": [\"a\"], \"maintenance\": true", 400, "at most 366 days"},
	    {60, 120, "\"nodes\": [\"alpha\"], \"maintenance\": true", 404, "there is no node \"alpha\""},
	    {60, 120, "\"nodes\": [\"a\", \"a\"], \"maintenance\": true", 400, "a is named twice"},
	    {60, 120, "\"nodes\": [], \"maintenance\": true", 400, "name at least one"},
	    {60, 120, "\"nodes\": [7], \"maintenance\": true", 400, "expected names"},
	    {60, 120, "\"maintenance\": true", 400, "name them, or say how many"},
	    {60, 120, "\"nodes\": [\"a\"]", 400, "say for whose jobs"},
	    {60, 120, "\"nodes\": [\"a\"], \"queue\": \"moon\"", 404, "there is no queue \"moon\""},
	    {60, 120, "\"nodes\": [\"a\"], \"queue\": \"default\", \"maintenance\": true", 400,
	     "give one of them"},
	    {60, 120, "\"nodes\": [\"a\"], \"count\": 1, \"maintenance\": true", 400, "give one of them"},
	    {60, 120, "\"count\": 3, \"maintenance\": true", 409, "there are 2 nodes, 2 of them in no other"},
	    {60, 120, "\"count\": 1, \"instance_type\": \"moon\", \"maintenance\": true", 409,
	     "0 nodes of type moon"},
	    {60, 120, "\"nodes\": [\"a\"], \"maintenance\": true, \"for_s\": 5", 400, "to, for_s: give one"},
	};
	struct world *w = world_create(1);

	world_agent_up(w, "a", 4, 8);
	world_agent_up(w, "b", 4, 8);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ok(reserve(w, REQ_RESERVE_ADD, "x", bad[i].from, bad[i].to, bad[i].rest) == bad[i].status,
		   "refused: %s", bad[i].says);
		like(w->err.text, bad[i].says, "and says so");
	}
	is_int(reserve(w, REQ_RESERVE_ADD, "a b", 60, 120, "\"nodes\": [\"a\"], \"maintenance\": true"), 400,
	       "a name that is none");
	is_int(world_request(w, REQ_RESERVE_ADD, 0, "x",
	                     "{\"from\": \"soon\", \"for_s\": 5, \"count\": 1, \"maintenance\": true}"),
	       400, "a time that is none");
	like(w->err.text, "\"soon\" is not a time such as", "with one that is");
	is_int(world_request(w, REQ_RESERVE_ADD, 0, "x", "{\"count\": 1, \"maintenance\": true}"), 400,
	       "without an end");
	ok(!row(w, "x"), "nothing was made");
	is_int(reserve(w, REQ_RESERVE_ADD, "x", 60, 120, "\"nodes\": [\"a\"], \"maintenance\": true"), 200,
	       "a good one");
	is_int(reserve(w, REQ_RESERVE_ADD, "x", 200, 300, "\"nodes\": [\"a\"], \"maintenance\": true"), 409,
	       "one of that name is there");
	is_int(reserve(w, REQ_RESERVE_ADD, "y", 100, 200, "\"nodes\": [\"b\", \"a\"], \"queue\": \"default\""),
	       409, "two at one time on one node");
	golden("hearthd/reserve-nodes-a-is-in-reservation-x-from", w->err.text, "'x'");
	is_int(reserve(w, REQ_RESERVE_ADD, "y", 120, 200, "\"nodes\": [\"b\", \"a\"], \"queue\": \"default\""),
	       200, "one after the other");
	is_int(reserve(w, REQ_RESERVE_SET, "y", 110, 200, ""), 409, "nor by a change");
	is_int(world_request(w, REQ_RESERVE_SET, 0, "z", "{}"), 404, "what is not there cannot be changed");
	is_int(world_request(w, REQ_RESERVE_RM, 0, "z", NULL), 404, "nor removed");
	like(w->err.text, "jobctl reserve ls", "what to try next");
	is_int(world_request(w, REQ_QUEUE_SET, 0, "q", "{}"), 200, "a queue");
	is_int(reserve(w, REQ_RESERVE_SET, "y", 120, 200, "\"queue\": \"q\""), 200,
	       "a reservation is given to it");
	is_int(world_request(w, REQ_QUEUE_RM, 0, "q", NULL), 409, "then it stays");
	golden("hearthd/reserve-the-reservation-y-keeps-nodes-for-queue", w->err.text, "'y'");
	world_end_well(w);
}

/* A job does not start where it would run into the time, others do. */
static void test_keeping(void)
{
	struct world *w = world_create(1);
	uint64_t reaches, shorter, mine;

	world_agent_up(w, "a", 4, 8);
	world_request(w, REQ_QUEUE_SET, 0, "vip", "{}");
	world_request(w, REQ_QUEUE_SET, 0, "vip/sub", "{}");
	is_int(reserve(w, REQ_RESERVE_ADD, "talk", 100, 200,
	               "\"nodes\": [\"a\"], \"queue\": \"vip\", \"reason\": \"demo\""),
	       200, "a reservation");
	is_str(world_text(w, "state"), "planned", "it is planned");
	is_str(world_text(w, "queue"), "vip", "for that queue");
	reaches = submit(w, "default", 1, 120);
	is_str(world_status(w, reaches), "queued", "a job that would run into it waits");
	golden("hearthd/reserve-free-now-and-not-reserved-for-others", why(w, reaches), "0 free");
	golden("hearthd/reserve-node-a-is-reserved-for-talk-from", why(w, reaches), "'talk'", "20");
	golden("hearthd/reserve-expected-to-start-in-about-m-s", why(w, reaches), "1", "4", "0", "'talk'");
	shorter = submit(w, "default", 1, 50);
	is_str(world_status(w, shorter), "starting", "one that is over by then starts");
	begin(w, "a", shorter);
	end(w, "a", shorter);
	is_str(world_status(w, reaches), "queued", "the other still waits");
	mine = submit(w, "vip/sub", 1, 120);
	is_str(world_status(w, mine), "starting", "one of the queue starts");
	begin(w, "a", mine);
	world_end_well(w);
}

static void test_time(void)
{
	struct world *w = world_create(1);
	uint64_t running, waiting;

	world_agent_up(w, "a", 4, 8);
	running = submit(w, "default", 1, 500);
	begin(w, "a", running);
	is_int(reserve(w, REQ_RESERVE_ADD, "fans", 60, 120, "\"nodes\": [\"a\"], \"maintenance\": true"), 200,
	       "a maintenance window");
	is_int((int)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(w->body, "still_running")), 1,
	       "the job that may go on then is named");
	is_str(text_of(node(w, "a"), "state"), "up", "until then the node is as ever");
	like(text_of(node(w, "a"), "reason"), "reserved for maintenance 'fans' from 20", "but says what comes");
	beats(w, 61);
	is_str(state(w, "fans"), "active", "its time has come");
	is_str(text_of(node(w, "a"), "state"), "maintenance", "the node is in maintenance");
	is_str(world_status(w, running), "running", "the job is left alone");
	is_int(world_request(w, REQ_RESERVE_SET, 0, "fans", "{\"from\": \"2030-01-01T00:00:00Z\"}"), 409,
	       "what has begun cannot begin again");
	end(w, "a", running);
	waiting = submit(w, "default", 1, 10);
	is_str(world_status(w, waiting), "queued", "no other job starts there, however short");
	beats(w, 61);
	is_str(state(w, "fans"), "ended", "its time is over");
	is_str(text_of(node(w, "a"), "state"), "up", "the node is as before");
	is_str(world_status(w, waiting), "starting", "and the job goes, without anybody asking");
	is_int(reserve(w, REQ_RESERVE_SET, "fans", 100, 200, ""), 409, "what has ended cannot be changed");
	begin(w, "a", waiting);
	end(w, "a", waiting);
	for (int i = 0; i < 25; i++) {
		world_beat(w, "a");
		world_advance(w, 3600ull * 1000000);
	}
	ok(!row(w, "fans"), "a day later it is cleared away");
	world_end_well(w);
}

static void test_changes(void)
{
	struct world *w = world_create(1);
	uint64_t id;

	world_agent_up(w, "a", 4, 8);
	reserve(w, REQ_RESERVE_ADD, "x", 100, 200, "\"nodes\": [\"a\"], \"maintenance\": true");
	id = submit(w, "default", 1, 150);
	is_str(world_status(w, id), "queued", "it would run into it");
	is_int(reserve(w, REQ_RESERVE_SET, "x", 1000, 1100, ""), 200, "it is moved");
	is_str(world_status(w, id), "starting", "at once the job goes");
	begin(w, "a", id);
	end(w, "a", id);
	reserve(w, REQ_RESERVE_SET, "x", 10, 1100, "");
	id = submit(w, "default", 1, 150);
	is_str(world_status(w, id), "queued", "the next one waits");
	is_int(world_request(w, REQ_RESERVE_RM, 0, "x", NULL), 200, "it is removed");
	is_str(world_status(w, id), "starting", "and holds nobody any more");
	is_int(world_request(w, REQ_RESERVE_ADD, 0, "now",
	                     "{\"for_s\": 60, \"nodes\": [\"a\"], \"maintenance\": true}"),
	       200, "one that begins now");
	is_str(world_text(w, "state"), "active", "has begun in the answer");
	world_end_well(w);
}

/* hearthd chooses: nodes that are free soonest. */
static void test_count(void)
{
	struct world *w = world_create(1);
	uint64_t longer, shorter;

	world_agent_up(w, "a", 4, 8);
	longer = submit(w, "default", 1, 5000);
	world_agent_up(w, "b", 4, 8);
	shorter = submit(w, "default", 1, 500);
	world_agent_up(w, "c", 4, 8);
	ok(longer && shorter, "jobs on a and b, nothing on c");
	is_int(reserve(w, REQ_RESERVE_ADD, "one", 100, 200, "\"count\": 1, \"maintenance\": true"), 200,
	       "one node");
	is_str(nodes_of(w), "c", "the free one");
	is_int(reserve(w, REQ_RESERVE_ADD, "two", 100, 200, "\"count\": 1, \"maintenance\": true"), 200,
	       "one more");
	is_str(nodes_of(w), "b", "the one that is free soonest of those that are left");
	is_int(reserve(w, REQ_RESERVE_ADD, "three", 150, 200, "\"count\": 2, \"maintenance\": true"), 409,
	       "two more");
	golden("hearthd/reserve-there-are-nodes-of-them-in-no", w->err.text, "3 nodes");
	is_int(reserve(w, REQ_RESERVE_ADD, "late", 600, 700, "\"count\": 2, \"maintenance\": true"), 200,
	       "two later");
	is_str(nodes_of(w), "b,c", "b is free by then, a is not");
	world_end_well(w);
}

static void test_restart(void)
{
	struct world *w = world_create(1);
	uint64_t id;

	world_agent_up(w, "a", 4, 8);
	world_request(w, REQ_QUEUE_SET, 0, "vip", "{}");
	reserve(w, REQ_RESERVE_ADD, "x", 50, 90, "\"nodes\": [\"a\"], \"queue\": \"vip\", \"reason\": \"demo\"");
	reserve(w, REQ_RESERVE_ADD, "y", 100, 200, "\"nodes\": [\"a\"], \"maintenance\": true");
	reserve(w, REQ_RESERVE_ADD, "gone", 300, 400, "\"nodes\": [\"a\"], \"maintenance\": true");
	world_request(w, REQ_RESERVE_RM, 0, "gone", NULL);
	beats(w, 51);
	is_str(state(w, "x"), "active", "one has begun");
	world_restart(w);
	is_str(state(w, "x"), "active", "it is so after a restart");
	is_str(text_of(row(w, "x"), "reason"), "demo", "with all that it is");
	is_str(state(w, "y"), "planned", "the other is planned");
	ok(!row(w, "gone"), "and what was removed is not there");
	world_agent_up(w, "a", 4, 8);
	id = submit(w, "default", 1, 20);
	is_str(world_status(w, id), "queued", "they keep the node");
	world_stop(w, 99);
	clock_fake_advance(&w->clock, 200ull * 1000000);
	world_start(w);
	world_agent_up(w, "a", 4, 8);
	beats(w, 1);
	is_str(state(w, "y"), "ended", "what came to pass while hearthd was away has come to pass");
	is_str(world_status(w, id), "starting", "and the job starts");
	world_end_well(w);
}

/* The wall clock is set: what people meant by it is meant by the new one. */
static void test_clock(void)
{
	struct world *w = world_create(1);
	uint64_t id;

	world_agent_up(w, "a", 4, 8);
	reserve(w, REQ_RESERVE_ADD, "x", 4000, 5000, "\"nodes\": [\"a\"], \"maintenance\": true");
	id = submit(w, "default", 1, 1000);
	is_str(world_status(w, id), "starting", "an hour is enough for this one");
	begin(w, "a", id);
	end(w, "a", id);
	w->clock.fake_real_us += 3600ull * 1000000; /* the wall clock alone */
	beats(w, 61);
	id = submit(w, "default", 1, 1000);
	is_str(world_status(w, id), "queued", "now it comes sooner");
	beats(w, 400);
	is_str(state(w, "x"), "active", "and begins sooner");
	world_end_well(w);
}

static void on_done(int rc, const struct err *e, void *arg)
{
	(void)e;
	*(int *)arg = rc;
}

/* The check of rows against events finds what is wrong. */
static void test_verify(void)
{
	struct world *w = world_create(1);
	struct store_txn *t = store_txn_new();
	struct err e;
	int rc = 1;

	world_agent_up(w, "a", 4, 8);
	reserve(w, REQ_RESERVE_ADD, "x", 4000, 5000, "\"nodes\": [\"a\"], \"maintenance\": true");
	is_int(world_verify(w), 0, "rows and events agree");
	store_txn_reservation(
	    t, &(struct reservation_row){
	           .name = "x", .state = "active", .queue = "", .nodes = "a", .reason = "", .owner = "ada"});
	store_txn_reservation(
	    t, &(struct reservation_row){
	           .name = "y", .state = "planned", .queue = "", .nodes = "a", .reason = "", .owner = "ada"});
	is_int(w->core->io.commit(t, on_done, &rc, w->core->io.arg, &e), 0, "a transaction");
	world_turn(w);
	is_int(rc, 0, "of rows that no event explains");
	is_int(world_verify(w), 2, "are found");
	golden("hearthd/reserve-reservation-x-replay-of-the-cluster-s-events", world_findings(w), "\"planned\"",
	       "\"active\"");
	golden("hearthd/reserve-no-event-tells-of-it", world_findings(w), "\"planned\"", "\"active\"");
	world_destroy(w);
}

/* Of many nodes: a restart tells the library once of each reservation, not once for each node in it. */
static void test_many_nodes(void)
{
	struct world *w = world_create(40);
	char name[16], list[1000] = "\"maintenance\": true, \"nodes\": [";

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof name, "n%d", i);
		world_agent_up(w, name, 0, 2);
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"", i ? ", " : "", name);
	}
	snprintf(list + strlen(list), sizeof list - strlen(list), "]");
	is_int(reserve(w, REQ_RESERVE_ADD, "all", 1000, 2000, list), 200, "all nodes are kept for maintenance");
	world_restart(w);
	is_int((int)w->core->reserves.n_told, 1, "after a restart the library is told once");
	world_agent_up(w, "n7", 0, 2);
	submit(w, "default", 1, 5000);
	is_str(text_of(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(node(w, "n39"), "reservations"), 0),
	               "name"),
	       "all", "each node still says that it is kept");
	snprintf(list, sizeof list, "\"maintenance\": true, \"nodes\": [\"n3\", \"n4\", \"n3\"]");
	is_int(reserve(w, REQ_RESERVE_ADD, "twice", 3000, 4000, list), 400, "a node that is named twice");
	like(w->err.text, "n3 is named twice", "is named");
	world_end_well(w);
}

int main(void)
{
	test_refusals();
	test_keeping();
	test_time();
	test_changes();
	test_count();
	test_restart();
	test_clock();
	test_verify();
	test_many_nodes();
	return tap_done();
}
