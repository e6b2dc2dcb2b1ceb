/* Launches that wait in warm pools: a job leaves a pool, its nodes park, the next job takes that over; and
 * what ends such a launch. */
#include "tests/unit/controller/share/pool_kit.h"

static struct world *make(uint64_t seed)
{
	struct world *w = world_create(seed);

	w->warm_parked = 1;
	world_restart(w);
	return w;
}

/* All nodes of the pool report that state of its parking. */
static void park_is(struct world *w, uint64_t pool_id, uint32_t number, uint8_t state, const char *text)
{
	world_launch(w, "a", pool_id, number, state, state == LAUNCH_FAILED ? RC_LAUNCH : 0, text);
	if (node_find(w->core, "b"))
		world_launch(w, "b", pool_id, number, state, state == LAUNCH_FAILED ? RC_LAUNCH : 0, text);
}

static void park(struct world *w, uint64_t pool_id, uint32_t number)
{
	park_is(w, pool_id, number, LAUNCH_READY, NULL);
	park_is(w, pool_id, number, LAUNCH_PARKED, NULL);
}

static const struct pool_rec *rec(struct world *w, uint64_t id)
{
	return cluster_pool(&w->core->records, id);
}

static const char *park_state(struct world *w)
{
	return text(cJSON_GetObjectItemCaseSensitive(pool(w, "available", 0), "parked"), "state");
}

/* Member of the last PREPARE to the node: the kind of order and whose it is; static. */
static const char *prepared(struct world *w, const char *node)
{
	static char out[80];
	struct sent *s, *last = NULL;

	while ((s = world_sent(w, node, WM_PREPARE))) {
		if (last)
			sent_free(last);
		last = s;
	}
	out[0] = '\0';
	if (last) {
		const struct wm_prepare *m = last->msg;

		snprintf(out, sizeof out, "%s %u",
		         m->park     ? "park"
		         : m->parked ? "take"
		                     : "cold",
		         m->park ? m->attempt : m->parked);
		sent_free(last);
	}
	return out;
}

/* A job of both nodes runs to its end and leaves a pool. */
static uint64_t leave(struct world *w, unsigned nodes, const char *more)
{
	uint64_t a = submit_wide(w, nodes, 600, more);

	if (nodes == 1)
		run_on(w, placed_on(w, a), a);
	else
		run_wide(w, a);
	return number(pool(w, "available", 0), "id");
}

static uint64_t leave_for(struct world *w, unsigned keep_alive_s)
{
	run_on(w, "a", submit(w, keep_alive_s));
	return number(pool(w, "available", 0), "id");
}

static void up(struct world *w, unsigned nodes)
{
	world_agent_up(w, "a", 1, 4);
	if (nodes > 1)
		world_agent_up(w, "b", 1, 4);
}

static const char *missed_member(struct world *w, uint64_t id, const char *key)
{
	static char out[200];
	cJSON *list = store_attempts_json(w->reader, id, NULL);
	const cJSON *m = cJSON_GetObjectItemCaseSensitive(
	    cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, 0), "pool"), "missed");

	snprintf(out, sizeof out, "%s", cJSON_IsObject(m) ? text(m, key) : "");
	cJSON_Delete(list);
	return out;
}

static const char *missed(struct world *w, uint64_t id)
{
	return missed_member(w, id, "field");
}

static void test_take(void)
{
	struct world *w = make(201);
	uint64_t id, b;

	up(w, 2);
	world_forget(w);
	id = leave(w, 2, "");
	is_str(prepared(w, "a"), "park 1", "the pool is parked on its first node");
	is_str(prepared(w, "b"), "park 1", "and on its second one");
	is_str(park_state(w), "preparing", "which GET /pools says");
	park_is(w, id, 1, LAUNCH_READY, NULL);
	ok(world_count(w, "a", WM_LAUNCH_GO) && world_count(w, "b", WM_LAUNCH_GO), "when all are ready it goes");
	park_is(w, id, 1, LAUNCH_PARKED, NULL);
	is_str(park_state(w), "parked", "it is parked");
	world_forget(w);
	b = submit_wide(w, 2, 600, ", \"hyperparameters\": {\"x\": 1}");
	is_str(of_attempt(w, b, "level"), "launch", "the next job takes it over");
	is_str(missed(w, b), "", "nothing is missed");
	is_str(prepared(w, "a"), "take 1", "PREPARE names the parking");
	is_str(prepared(w, "b"), "take 1", "on both nodes");
	is_int((int)world_count(w, "a", WM_KILL), 0, "nothing is killed");
	run_wide(w, b);
	is_str(world_status(w, b), "completed", "the job completes");
	is_str(prepared(w, "a"), "park 2", "afterwards the pool is parked again");
	park(w, id, 2);
	is_int((int)rec(w, id)->parked, 2, "under the next number");
	world_end_well(w);
}

static void test_off(void)
{
	struct world *w = world_create(202);

	up(w, 1);
	world_forget(w);
	leave(w, 1, "");
	is_int((int)world_count(w, "a", WM_PREPARE), 1, "without the setting nothing is parked");
	world_end_well(w);
}

static void test_not_yet(void)
{
	struct world *w = make(203);
	uint64_t b, id;

	up(w, 1);
	id = leave(w, 1, "");
	world_forget(w);
	b = submit(w, 600);
	is_str(of_attempt(w, b, "level"), "environment", "a job that comes too early starts without it");
	is_str(missed(w, b), "parked", "and says that nothing was parked");
	is_str(missed_member(w, b, "text"), "nothing parked yet", "in words, too");
	is_int((int)world_count(w, "a", WM_KILL), 1, "what was being parked is killed");
	is_str(prepared(w, "a"), "cold 0", "the job does not wait for that");
	ok(!node_find(w->core, "a")->stale, "nor does its node");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	run_on(w, "a", b);
	is_str(prepared(w, "a"), "park 2", "the next parking has another number");
	world_end_well(w);
}

static void test_ends(void)
{
	struct world *w = make(204);
	uint64_t id;
	char ref[24];

	up(w, 1);
	id = leave(w, 1, "");
	park(w, id, 1);
	world_forget(w);
	snprintf(ref, sizeof ref, "%llu", (unsigned long long)id);
	is_int(world_request(w, REQ_POOL_DROP, 0, ref, "{}"), 200, "the pool is dropped");
	is_int((int)world_count(w, "a", WM_KILL), 1, "what is parked is killed");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	ok(world_count(w, "a", WM_COLLECT) > 0, "and removed");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	ok(w->core->parks.all == NULL, "then hearthd knows nothing of it");
	world_end_well(w);
}

static void test_expires(void)
{
	struct world *w = make(205);
	uint64_t id;

	up(w, 1);
	id = leave(w, 1, "");
	park(w, id, 1);
	world_forget(w);
	pass(w, 601);
	is_str(text(pool(w, "terminated", 0), "cause"), "expired", "the pool expires");
	is_int((int)world_count(w, "a", WM_KILL), 1, "what is parked is killed");
	world_end_well(w);
}

static void test_lost_part(void)
{
	struct world *w = make(290);
	uint64_t id;

	up(w, 2);
	id = leave(w, 2, "");
	park(w, id, 1);
	is_int(world_request(w, REQ_POOL_DROP, 0, rec(w, id)->name, "{\"node\": \"b\"}"), 200, "drop");
	is_str(missed_member(w, submit_wide(w, 2, 600, ""), "text"), "the pool has lost nodes",
	       "the next job says it");
	world_end_well(w);
}

static void test_gives_way_parked(void)
{
	struct world *w = make(206);
	uint64_t id, b;

	up(w, 1);
	id = leave(w, 1, "");
	park(w, id, 1);
	world_forget(w);
	b = submit_as(w, "another", SHORT);
	is_str(placed_on(w, b), "a", "another owner's job gets the node");
	is_int((int)world_count(w, "a", WM_KILL), 1, "what is parked is killed");
	is_str(prepared(w, "a"), "cold 0", "the job starts cold at once");
	world_end_well(w);
}

/* A launch that waits fails: it is tried three times. */
static void test_tries(void)
{
	struct world *w = make(207);
	uint64_t id;

	up(w, 1);
	world_forget(w);
	id = leave(w, 1, "");
	for (uint32_t n = 1; n <= 3; n++) {
		is_str(prepared(w, "a"), n == 1 ? "park 1" : n == 2 ? "park 2" : "park 3", "try");
		park_is(w, id, n, LAUNCH_FAILED, "mpirun is missing");
		world_launch(w, "a", id, n, LAUNCH_CLEANED, 0, NULL);
		is_str(park_state(w), "failed", "fails");
		pass(w, 61);
	}
	is_str(prepared(w, "a"), "", "then the pool stays as it is");
	ok(strstr(text(cJSON_GetObjectItemCaseSensitive(pool(w, "available", 0), "parked"), "text"),
	          "node a: mpirun is missing") != NULL,
	   "and says why");
	world_end_well(w);
}

/* A launch that waits and ends at once would be made again for as long as the pool lives. */
static void test_tries_parked(void)
{
	struct world *w = make(214);
	unsigned last = 0;
	uint64_t id;

	up(w, 1);
	id = leave(w, 1, "");
	for (unsigned s = 0; s < 60; s++) {
		uint32_t n = (uint32_t)rec(w, id)->parkings;

		if (n > last) {
			park(w, id, n);
			world_launch(w, "a", id, n, LAUNCH_FAILED, RC_LAUNCH, "mpirun has ended");
			world_launch(w, "a", id, n, LAUNCH_CLEANED, 0, NULL);
			last = n;
		}
		pass(w, 1);
	}
	is_int((int)last, 3, "a launch that ends as soon as it waits is tried three times");
	world_end_well(w);
	w = make(215);
	up(w, 1);
	id = leave(w, 1, "");
	for (uint32_t n = 1; n <= 5; n++) {
		park(w, id, n);
		pass(w, 101);
		world_launch(w, "a", id, n, LAUNCH_FAILED, RC_LAUNCH, "mpirun has ended");
		world_launch(w, "a", id, n, LAUNCH_CLEANED, 0, NULL);
		pass(w, 12);
	}
	is_int((int)rec(w, id)->parkings, 3, "after a short time too");
	world_end_well(w);
	w = make(216);
	up(w, 1);
	id = leave_for(w, 7200);
	for (uint32_t n = 1; n <= 5; n++) {
		park(w, id, n);
		pass(w, 601);
		world_launch(w, "a", id, n, LAUNCH_FAILED, RC_LAUNCH, "mpirun has ended");
		world_launch(w, "a", id, n, LAUNCH_CLEANED, 0, NULL);
		pass(w, 2);
	}
	is_int((int)rec(w, id)->parkings, 6, "one that waited for ten minutes counts as no failure");
	world_end_well(w);
}

/* A take-over fails on one node: the job starts again cold, and that is not counted. */
static void test_spoiled(void)
{
	struct world *w = make(208);
	const struct cjob *j;
	uint64_t id, b;

	up(w, 2);
	id = leave(w, 2, "");
	park(w, id, 1);
	b = submit_wide(w, 2, 600, "");
	is_str(of_attempt(w, b, "level"), "launch", "a job takes a parked launch");
	world_forget(w);
	world_launch(w, "a", b, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", b, 1, LAUNCH_FAILED, RC_AGENT, "mpirun is not running");
	ok(world_count(w, "b", WM_COLLECT) > 0, "what waited there is removed");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "a", b, 1, LAUNCH_ENDED, 0, NULL);
	w->over = OVER_STOPPED;
	world_launch(w, "a", b, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "b", b, 1, LAUNCH_CLEANED, 0, NULL);
	j = job_find(w->core, b);
	ok(j && j->r.attempts == 2, "the job has a second attempt at once");
	ok(j && j->r.plan_capacity == 0 && j->r.plan_attempts == 0, "which is not counted as a restart");
	ok(j && j->r.att && strstr(j->r.att->cause, "without the parked launch"), "and says why");
	is_str(prepared(w, "a"), "cold 0", "it is cold");
	is_int((int)node_find(w->core, "b")->sched_health, 0, "no node is to blame");
	is_str(placed_on(w, b), "a", "on the same nodes");
	world_end_well(w);
}

/* Node b says nothing any more in a take-over; node a is as it should be. */
static uint64_t fall_silent(struct world *w)
{
	const struct cjob *j;
	uint64_t id, b;

	up(w, 2);
	world_agent_up(w, "c", 1, 4);
	id = leave(w, 2, "");
	park(w, id, 1);
	b = submit_wide(w, 2, 600, "");
	is_str(of_attempt(w, b, "level"), "launch", "a job takes a parked launch");
	world_launch(w, "a", b, 1, LAUNCH_READY, 0, NULL);
	for (int s = 0; s < 3000; s++) {
		pass(w, 1);
		j = job_find(w->core, b);
		if (j && j->r.att && j->r.att->state == ATT_ENDING)
			break;
	}
	world_forget(w);
	w->over = OVER_STOPPED;
	for (const char *n = "a"; n; n = strcmp(n, "a") == 0 ? "b" : NULL) {
		world_launch(w, n, b, 1, LAUNCH_ENDED, 0, NULL);
		world_launch(w, n, id, 1, LAUNCH_CLEANED, 0, NULL);
		world_launch(w, n, b, 1, LAUNCH_CLEANED, 0, NULL);
	}
	return b;
}

/* The wait for a silent node is not repeated: the cold attempt leaves the node out. */
static void test_silent(void)
{
	struct world *w = make(214);
	const struct cjob *j;
	uint64_t b = fall_silent(w);

	j = job_find(w->core, b);
	ok(j && j->r.attempts == 2 && j->r.att && j->r.att->n_places == 2,
	   "the job has a second attempt at once");
	ok(j && j->r.plan_capacity == 0 && j->r.plan_attempts == 0, "which is not counted as a restart");
	is_str(prepared(w, "b"), "", "it leaves out the node that said nothing");
	is_str(prepared(w, "c"), "cold 0", "and takes another one");
	world_end_well(w);
}

/* After GO a node that fails is to blame, as in an attempt without a parked launch. */
static void test_blame_after_go(void)
{
	struct world *w = make(215);
	const struct cjob *j;
	uint64_t id, b;

	up(w, 2);
	world_agent_up(w, "c", 1, 4);
	id = leave(w, 2, "");
	park(w, id, 1);
	b = submit_wide(w, 2, 600, "");
	world_launch(w, "a", b, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", b, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", b, 1, LAUNCH_FAILED, RC_AGENT, "the disk is full");
	j = job_find(w->core, b);
	ok(j && j->r.att->places[1].culprit, "a node that fails after GO is to blame");
	world_forget(w);
	w->over = OVER_STOPPED;
	world_launch(w, "a", b, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", b, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "b", b, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(prepared(w, "c"), "cold 0", "the next attempt takes another node");
	world_end_well(w);
}

static void reconnect(struct world *w, const char *node, uint64_t id, uint32_t number, uint8_t state)
{
	struct wm_sync_begin sync = {.instance = 1, .launches = 1};
	uint64_t s = world_agent_connect(w, node);

	world_agent_inventory(w, node, s, 1, 4);
	world_msg(w, node, s, WM_SYNC_BEGIN, &sync);
	if (number)
		world_launch(w, node, id, number, state, 0, NULL);
	world_msg(w, node, s, WM_SYNC_END, &(struct wm_sync_end){.instance = 1});
	world_turn(w);
}

static void test_restart_parked(void)
{
	struct world *w = make(209);
	uint64_t id, b;

	up(w, 1);
	id = leave(w, 1, "");
	park(w, id, 1);
	world_restart(w);
	world_forget(w);
	reconnect(w, "a", id, 1, LAUNCH_PARKED);
	is_int((int)world_count(w, "a", WM_KILL), 0, "a restart of hearthd leaves what is parked");
	b = submit(w, 600);
	is_str(of_attempt(w, b, "level"), "launch", "and the next job takes it");
	world_restart(w);
	world_forget(w);
	reconnect(w, "a", id, 1, LAUNCH_PARKED);
	is_int((int)world_count(w, "a", WM_KILL), 0, "a restart before the order arrives kills nothing");
	is_str(prepared(w, "a"), "take 1", "the order is repeated");
	run_on(w, "a", b);
	is_str(world_status(w, b), "completed", "the job completes");
	world_end_well(w);
}

static void test_restart_preparing(void)
{
	struct world *w = make(210);
	uint64_t id;

	up(w, 1);
	id = leave(w, 1, "");
	world_restart(w);
	world_forget(w);
	reconnect(w, "a", id, 1, LAUNCH_READY);
	ok(world_count(w, "a", WM_KILL) > 0, "what was not parked at a restart is killed");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	pass(w, 2);
	is_str(prepared(w, "a"), "park 2", "the next parking has another number");
	world_end_well(w);
}

static uint64_t epoch_sent(struct world *w, const char *node, uint16_t type)
{
	struct sent *s, *last = NULL;
	uint64_t epoch;

	while ((s = world_sent(w, node, type))) {
		if (last)
			sent_free(last);
		last = s;
	}
	epoch = last ? ((const struct wm_kill *)last->msg)->epoch : 0;
	if (last)
		sent_free(last);
	return epoch;
}

/* An agent drops orders that are older than what it knows of the pool. */
static void test_one_after_the_other(void)
{
	struct world *w = make(213);
	uint64_t id;

	up(w, 1);
	id = leave(w, 1, "");
	park(w, id, 1);
	world_forget(w);
	world_launch(w, "a", id, 1, LAUNCH_FAILED, RC_LAUNCH, "mpirun has ended");
	pass(w, 2);
	is_int((int)world_count(w, "a", WM_PREPARE), 0, "the next parking waits until the last one is gone");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(prepared(w, "a"), "park 2", "then it begins");
	world_forget(w);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	is_int((int)epoch_sent(w, "a", WM_COLLECT), 2, "an order about an old one has the present epoch");
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

static void test_vanishes(void)
{
	struct world *w = make(211);
	uint64_t id;

	up(w, 1);
	id = leave(w, 1, "");
	park(w, id, 1);
	world_forget(w);
	reconnect(w, "a", id, 0, 0);
	is_int((int)rec(w, id)->parked, 0, "an agent that knows nothing of it has nothing parked");
	pass(w, 2);
	is_str(prepared(w, "a"), "park 2", "the pool is parked again");
	world_end_well(w);
}

/* The orteds of a launch that waits are the job's afterwards. */
static void test_orteds(void)
{
	static char orted[] = "orted", rsh_id[] = "r1", host[] = "algo-2", none[] = "";
	char *argv[] = {orted};
	struct world *w = make(212);
	uint64_t id, b;
	struct sent *s;

	up(w, 2);
	id = leave(w, 2, ", \"tags\": {}");
	park_is(w, id, 1, LAUNCH_READY, NULL);
	world_forget(w);
	world_msg(w, "a", 0, WM_RSH_REQUEST,
	          &(struct wm_rsh_request){
	              .job = id, .attempt = 1, .epoch = 1, .rsh_id = rsh_id, .host = host, .argv = {argv, 1}});
	world_turn(w);
	is_int((int)world_count(w, "b", WM_ORTED_START), 1, "an orted of a parking is ordered");
	world_proc(w, "b", id, 1, PROC_ORTED, PS_RUNNING, 0, none);
	is_int((int)world_count(w, "a", WM_RSH_STATE), 1, "mpirun's node hears that it runs");
	park_is(w, id, 1, LAUNCH_PARKED, NULL);
	b = submit_wide(w, 2, 600, "");
	is_str(of_attempt(w, b, "level"), "launch", "a job takes the launch");
	world_launch(w, "a", b, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", b, 1, LAUNCH_READY, 0, NULL);
	world_forget(w);
	world_proc(w, "b", b, 1, PROC_ORTED, PS_EXITED, 0, none);
	s = world_sent(w, "a", WM_RSH_STATE);
	ok(s && ((struct wm_rsh_state *)s->msg)->job == b && ((struct wm_rsh_state *)s->msg)->state == PS_EXITED,
	   "the end of the orted reaches mpirun's node as the job's");
	if (s)
		sent_free(s);
	world_destroy(w);
}

/* Why no interpreter waits may come from any node, and later. */
static void test_text(void)
{
	struct world *w = make(217);
	uint64_t id;

	up(w, 2);
	id = leave(w, 2, "");
	park_is(w, id, 1, LAUNCH_READY, NULL);
	world_launch(w, "a", id, 1, LAUNCH_PARKED, 0, "torch started a thread");
	world_launch(w, "b", id, 1, LAUNCH_PARKED, 0, NULL);
	is_str(rec(w, id)->park_text, "torch started a thread", "the reason of the first node is kept");
	world_end_well(w);
	w = make(218);
	up(w, 1);
	id = leave(w, 1, "");
	park(w, id, 1);
	ok(!rec(w, id)->park_text, "interpreters wait");
	world_launch(w, "a", id, 1, LAUNCH_PARKED, 0, "the interpreter ended: exit 1");
	is_str(rec(w, id)->park_text, "the interpreter ended: exit 1", "one that ends later is noted");
	world_launch(w, "a", id, 1, LAUNCH_PARKED, 0, "another one");
	is_str(rec(w, id)->park_text, "the interpreter ended: exit 1", "once");
	is_int((int)rec(w, id)->parked, 1, "the launch still waits");
	world_end_well(w);
}

#define TABLE_RESOURCES                                                                                      \
	"{\"gpus_per_instance\": 2, \"memory\": \"2GiB\", \"ranks_per_instance\": 2, \"cpus_per_rank\": 2}"

/* Each field alone prevents the launch. */
static void test_table(void)
{
	static const struct {
		const char *more, *field;
	} rows[] = {
	    {", \"name\": \"other\"", ""},
	    {", \"hyperparameters\": {\"lr\": 2}", ""},
	    {", \"environment\": {\"X\": \"1\"}", ""},
	    {", \"environment\": {\"LD_LIBRARY_PATH\": \"/x\"}", "environment.LD_LIBRARY_PATH"},
	    {", \"environment\": {\"OPAL_PREFIX\": \"/x\"}", "environment.OPAL_PREFIX"},
	    {", \"launcher\": \"mpirun\"", "launcher"},
	    {", \"resources\": {\"gpus_per_instance\": 2, \"memory\": \"1GiB\", \"ranks_per_instance\": 2, "
	     "\"cpus_per_rank\": 2}",
	     "memory"},
	    {", \"resources\": {\"gpus_per_instance\": 2, \"memory\": \"2GiB\", \"ranks_per_instance\": 1, "
	     "\"cpus_per_rank\": 4}",
	     "ranks_per_node"},
	    {", \"resources\": {\"gpus_per_instance\": 2, \"memory\": \"2GiB\", \"ranks_per_instance\": 2}",
	     "cpus"},
	    {", \"resources\": {\"gpus_per_instance\": 1, \"memory\": \"2GiB\", \"ranks_per_instance\": 2, "
	     "\"cpus_per_rank\": 2}",
	     "gpus"},
	    {", \"inputs\": {\"d\": {\"uri\": \"file:///tmp\", \"mode\": \"link\"}}", "inputs.d"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct world *w = make(220 + i);
		uint64_t id, b;

		world_agent_up(w, "a", 2, 4);
		id = submit_as(w, "ada",
		               "{\"name\": \"p\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", "
		               "\"resources\": " TABLE_RESOURCES ", \"warm_pool\": {\"keep_alive_s\": 600}}");
		begin(w, "a", id, 0);
		world_rank(w, "a", id, 1, 1, PS_RUNNING, 0, 0, NULL);
		world_rank(w, "a", id, 1, 1, PS_EXITED, 0, 0, NULL);
		end_with(w, "a", id, 0, 0);
		clean(w, "a", id);
		id = number(pool(w, "available", 0), "id");
		park(w, id, 1);
		{
			char spec[600];
			const char *m = rows[i].more;

			snprintf(spec, sizeof spec,
			         "{\"command\": [\"/bin/y\"], \"warm_pool\": {\"keep_alive_s\": 60}%s%s%s}", m,
			         strstr(m, "launcher") ? "" : ", \"launcher\": \"direct\"",
			         strstr(m, "resources") ? "" : ", \"resources\": " TABLE_RESOURCES);
			b = submit_as(w, "ada", spec);
		}
		if (!*rows[i].field)
			is_str(of_attempt(w, b, "level"), "launch", rows[i].more);
		else
			ok(strcmp(of_attempt(w, b, "level"), "launch") != 0 &&
			       (strcmp(missed(w, b), rows[i].field) == 0 || strncmp(rows[i].field, "inputs", 6) == 0),
			   "%s: missed %s", rows[i].more, missed(w, b));
		world_end_well(w);
	}
}

/* Each field alone prevents that the interpreters are used; the launch is. */
static void test_interpreter(void)
{
#define TORCH ", \"warm_pool\": {\"keep_alive_s\": 600, \"preload\": [\"torch\"]}"
	static const struct {
		const char *command, *more, *text, *field,
		    *says; /* text: what the agents report of the interpreters */
	} rows[] = {
	    {"\"python3\", \"-u\", \"b.py\"", TORCH, NULL, NULL, NULL},
	    {"\"python3\", \"-u\", \"-m\", \"b\", \"x\"", TORCH ", \"hyperparameters\": {\"lr\": 2}", NULL, NULL,
	     NULL},
	    {"\"python3\", \"b.py\"", TORCH, NULL, "command", NULL},
	    {"\"/bin/sh\", \"b.sh\"", TORCH, NULL, "command", NULL},
	    {"\"python3\", \"-u\", \"b.py\"", "", NULL, "preload", NULL},
	    {"\"python3\", \"-u\", \"b.py\"", ", \"warm_pool\": {\"preload\": [\"torch\", \"numpy\"]}", NULL,
	     "preload", NULL},
	    {"\"python3\", \"-u\", \"b.py\"",
	     ", \"warm_pool\": {\"preload\": [\"torch\"], \"cuda_context\": true}", NULL, "cuda_context", NULL},
	    {"\"python3\", \"-u\", \"b.py\"", TORCH ", \"environment\": {\"PYTHONHASHSEED\": \"1\"}", NULL,
	     "environment.PYTHONHASHSEED", NULL},
	    {"\"python3\", \"-u\", \"b.py\"", TORCH, "torch started a thread", "preload",
	     "preload failed: torch started a thread"},
	    {"\"python3\", \"-u\", \"b.py\"", TORCH,
	     "interpreter not usable: torch: ModuleNotFoundError: No module named 'torch'", "preload",
	     "preload failed: no module named torch (modules of the source cannot be preloaded)"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct world *w = make(260 + i);
		char spec[600];
		const cJSON *shown;
		uint64_t id, b;

		up(w, 1);
		id = submit_as(
		    w, "ada",
		    "{\"name\": \"p\", \"command\": [\"python3\", \"-u\", \"a.py\"], \"launcher\": \"direct\", "
		    "\"resources\": {\"gpus_per_instance\": 1}" TORCH "}");
		begin(w, "a", id, 0);
		world_rank(w, "a", id, 1, 1, PS_RUNNING, 0, 0, NULL);
		world_rank(w, "a", id, 1, 1, PS_EXITED, 0, 0, NULL);
		end_with(w, "a", id, 0, 0);
		clean(w, "a", id);
		id = number(pool(w, "available", 0), "id");
		park_is(w, id, 1, LAUNCH_READY, NULL);
		park_is(w, id, 1, LAUNCH_PARKED, rows[i].text);
		shown = cJSON_GetObjectItemCaseSensitive(pool(w, "available", 0), "parked");
		is_str(text(shown, "level"), rows[i].text ? "launch" : "interpreter", "GET /pools has the level");
		is_str(text(shown, "text"), rows[i].says ? rows[i].says : "", "and why it is not interpreter");
		snprintf(spec, sizeof spec,
		         "{\"command\": [%s], \"launcher\": \"direct\", \"resources\": {\"gpus_per_instance\": 1}%s}",
		         rows[i].command, rows[i].more);
		b = submit_as(w, "ada", spec);
		is_str(of_attempt(w, b, "level"), rows[i].field ? "launch" : "interpreter", spec);
		if (rows[i].field)
			is_str(missed(w, b), rows[i].field, rows[i].text ? rows[i].text : "the field is named");
		is_str(missed_member(w, b, "text"), rows[i].says ? rows[i].says : "",
		       "with a reason in place of a difference");
		world_end_well(w);
	}
}

/* Torchrun is not parked, and modules of another program than Python are not imported. */
static void test_without(void)
{
	static const struct {
		const char *spec, *level, *text;
	} rows[] = {
	    {"{\"command\": [\"a.py\"], \"launcher\": \"torchrun\"", "environment", "not parked under torchrun"},
	    {"{\"command\": [\"/bin/sh\", \"a.sh\"], \"launcher\": \"direct\"", "launch", ""},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct world *w = make(280 + i);
		char spec[600];
		uint64_t id, b;

		up(w, 1);
		snprintf(spec, sizeof spec, "%s, \"resources\": {\"gpus_per_instance\": 1}%s}", rows[i].spec, TORCH);
		id = submit_as(w, "ada", spec);
		run_on(w, "a", id);
		id = number(pool(w, "available", 0), "id");
		if (i)
			park(w, id, 1);
		is_str(text(cJSON_GetObjectItemCaseSensitive(pool(w, "available", 0), "parked"), "level"),
		       i ? "launch" : "", "GET /pools has the level");
		is_str(text(pool(w, "available", 0), "launcher"), i ? "direct" : "torchrun", "and the launcher");
		b = submit_as(w, "ada", spec);
		is_str(of_attempt(w, b, "level"), rows[i].level, "the next job's level");
		is_str(missed_member(w, b, "text"), rows[i].text, "and why it is not higher");
		world_end_well(w);
	}
}

static uint64_t submit_secret(struct world *w, const char *name, const char *value)
{
	char spec[600];

	snprintf(spec, sizeof spec,
	         "{\"name\": \"p\", \"command\": [\"python3\", \"a.py\"], \"launcher\": \"direct\", "
	         "\"resources\": {\"gpus_per_instance\": 1}, \"environment\": {\"%s\": \"%s\"}, "
	         "\"warm_pool\": {\"keep_alive_s\": 600, \"preload\": [\"torch\"]}}",
	         name, value);
	return submit_as(w, "ada", spec);
}

/* Other users see the record of a pool, and what a job misses of it. */
static void test_secrets(void)
{
	static const char *const names[] = {"WANDB_API_KEY", "OPAL_TOKEN"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct world *w = make(280 + i);
		cJSON *list;
		uint64_t id, b;
		char *all;

		up(w, 1);
		id = submit_secret(w, names[i], "hunter2-first");
		run_on(w, "a", id);
		id = number(pool(w, "available", 0), "id");
		park(w, id, 1);
		ok(!strstr(rec(w, id)->launch, "hunter2"), "%s: the record of the pool has no secret", names[i]);
		b = submit_secret(w, names[i], "hunter2-second");
		list = store_attempts_json(w->reader, b, NULL);
		all = cJSON_PrintUnformatted(list);
		ok(!strstr(all, "hunter2"), "nor has what the next job misses");
		ok(strstr(missed(w, b), names[i]) != NULL, "which differs all the same");
		free(all);
		cJSON_Delete(list);
		world_end_well(w);
	}
}

int main(void)
{
	test_without();
	test_interpreter();
	test_secrets();
	test_take();
	test_off();
	test_not_yet();
	test_ends();
	test_expires();
	test_lost_part();
	test_gives_way_parked();
	test_tries();
	test_tries_parked();
	test_text();
	test_spoiled();
	test_silent();
	test_blame_after_go();
	test_restart_parked();
	test_restart_preparing();
	test_vanishes();
	test_one_after_the_other();
	test_orteds();
	test_table();
	return tap_done();
}
