/* Nodes: joining, connecting, leases, loss, differences after a connection, drain and removal. */
#include "common/base/hash.h"
#include "store/read/find.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define TWO                                                                                                  \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"resources\": {\"instances\": 2, "                      \
	"\"gpus_per_instance\": 1}}"
#define ONE                                                                                                  \
	"{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"retry\": "                   \
	"{\"max_attempts\": 0}}"
/* As it was before restarts: the first end of its ranks is the end of the job. */
#define ONCE                                                                                                 \
	"{\"name\": \"two\", \"command\": [\"/bin/x\"], \"resources\": {\"instances\": 2, "                      \
	"\"gpus_per_instance\": 1}, \"retry\": {\"max_attempts\": 0, \"capacity\": 0}}"

static int join(struct world *w, const char *token, const char *node, const char *csr)
{
	char body[400];

	snprintf(body, sizeof body, "{\"token\": \"%s\", \"node\": \"%s\", \"csr\": \"%s\"}", token, node, csr);
	return world_request(w, REQ_JOIN, 0, node, body);
}

static void test_join(void)
{
	struct world *w = world_create(1);
	char token[100], second[100];

	is_int(world_request(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"join\", \"ttl_s\": 60}"), 201,
	       "a join token is made");
	snprintf(token, sizeof token, "%s", world_text(w, "token"));
	like(token, "hj1-", "of the known form");
	is_int(join(w, "hj1-00000000000000000000000000000000-0123456789abcdef0123456789abcdef", "a", "csr"), 401,
	       "a token that was never made");
	is_int(join(w, token, "../a", "csr"), 400, "a name that is none");
	is_int(join(w, token, "a", "bad"), 400, "a request that is none");
	is_int(join(w, token, "a", "csr1"), 201, "joined");
	is_str(world_text(w, "cert"), "cert of a for csr1", "with a certificate");
	is_int(join(w, token, "a", "csr1"), 201, "the same again, as the answer may have been lost");
	is_int(join(w, token, "a", "csr2"), 401, "another key with the same token");
	is_int(join(w, token, "b", "csr1"), 401, "another node with the same token");
	world_request(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"join\", \"ttl_s\": 60}");
	snprintf(second, sizeof second, "%s", world_text(w, "token"));
	is_int(join(w, second, "a", "csr9"), 409, "a name that is in use");
	world_restart(w);
	is_int(join(w, token, "b", "csr1"), 401, "used up after a restart, too");
	is_int(join(w, second, "b", "csr3"), 201, "the other is still good");
	world_request(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"join\", \"ttl_s\": 60}");
	snprintf(token, sizeof token, "%s", world_text(w, "token"));
	world_advance(w, 61000000);
	is_int(join(w, token, "c", "csr4"), 401, "expired");
	like(w->err.text, "expired", "and told so");
	is_int(world_request(w, REQ_TOKEN, 0, NULL, "{\"kind\": \"api\"}"), 400, "there are no other kinds");
	world_end_well(w);
}

/* Other agents get the fingerprint of a removed node's certificate, once in each session. */
static void test_retired(struct world *w, const char *cert)
{
	char hex[HASH_HEX_SIZE];
	struct wm_retired *m;
	struct sent *s;

	hash_hex(cert, strlen(cert), hex);
	hex[32] = '\0';
	world_agent_up(w, "other", 0, 1);
	world_beat(w, "other");
	s = world_sent(w, "other", WM_RETIRED);
	m = s ? s->msg : NULL;
	ok(m && m->fingerprints.n == 1, "other agents hear which certificate is void");
	is_str(m ? m->fingerprints.v[0] : "", hex, "by its fingerprint");
	sent_free(s);
	world_beat(w, "other");
	is_int(world_count(w, "other", WM_RETIRED), 0, "once");
	world_agent_up(w, "other", 0, 1);
	world_beat(w, "other");
	is_int(world_count(w, "other", WM_RETIRED), 1, "and again after a connection");
}

static void test_certificates(void)
{
	struct world *w = world_create(2);
	struct wm_hello h = {.version = WIRE_VERSION,
	                     .node = (char *)(uintptr_t) "a",
	                     .cert_pem = (char *)(uintptr_t) "cert of a for csr1",
	                     .boot_id = (char *)(uintptr_t) "",
	                     .software = (char *)(uintptr_t) "t"};
	char token[100];

	world_request(w, REQ_TOKEN, 0, NULL, "{}");
	snprintf(token, sizeof token, "%s", world_text(w, "token"));
	join(w, token, "a", "csr1");
	core_agent_up(w->core, "a", 7, &h);
	world_turn(w);
	ok(node_find(w->core, "a")->connected, "the certificate that was given out");
	core_agent_down(w->core, "a", 7, "bye");
	h.cert_pem = (char *)(uintptr_t) "an older one";
	core_agent_up(w->core, "a", 8, &h);
	world_turn(w);
	ok(!node_find(w->core, "a")->connected, "another certificate is not let in");
	like(w->closed_why, "join again", "and told what to do");
	is_int(world_request(w, REQ_NODE_RM, 0, "a", "{}"), 200, "a node that is away can be removed");
	h.cert_pem = (char *)(uintptr_t) "cert of a for csr1";
	core_agent_up(w->core, "a", 9, &h);
	world_turn(w);
	ok(!node_find(w->core, "a")->connected, "its certificate is of no use any more");
	test_retired(w, "cert of a for csr1");
	world_request(w, REQ_TOKEN, 0, NULL, "{}");
	snprintf(token, sizeof token, "%s", world_text(w, "token"));
	is_int(join(w, token, "a", "csr5"), 201, "the name may join again");
	world_agent_up(w, "z", 0, 1);
	ok(node_find(w->core, "z") != NULL, "a certificate of ours without a record is taken");
	world_end_well(w);
}

/* Of very many nodes not each name is compared, as everybody waits meanwhile. */
static void test_unknown(void)
{
	struct world *w = world_create(3);
	struct err e;
	char name[24];

	for (unsigned i = 0; i < 1001; i++) {
		snprintf(name, sizeof name, i < 999 ? "n%05u" : i == 999 ? "near-the-end" : "beyond-it", i);
		world_agent_connect(w, name);
	}
	is_int(node_unknown(w->core, "naer-the-end", &e), -1, "no such node");
	like(e.text, "did you mean near-the-end?", "the nearest one is named");
	node_unknown(w->core, "beyond_it", &e);
	golden("hearthd/nodes-there-is-no-node-beyond-it-jobctl-nodes", e.text, "jobctl nodes", "\"beyond_it\"");
	world_end_well(w);
}

static void beats(struct world *w, const char *names, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		for (const char *p = names; *p; p++)
			world_beat(w, (char[]){*p, '\0'});
		world_advance(w, 1000000);
	}
}

static uint64_t run_two(struct world *w)
{
	uint64_t id = world_submit(w, ONCE);

	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_rank(w, "b", id, 1, 1, PS_RUNNING, 0, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_RUNNING, 0, NULL);
	return id;
}

static void exits_at(struct world *w, const char *node, uint64_t job, uint32_t rank, uint32_t code,
                     uint64_t at_us)
{
	struct wm_proc_report m = {.job = job,
	                           .attempt = 1,
	                           .epoch = job_find(w->core, job)->r.att->epoch,
	                           .kind = PROC_RANK,
	                           .rank = rank,
	                           .state = PS_EXITED,
	                           .pid = 100 + rank,
	                           .exit_code = code,
	                           .started_us = at_us - 1000000,
	                           .ended_us = at_us,
	                           .token = (char *)(uintptr_t) "t",
	                           .text = (char *)(uintptr_t) ""};

	world_msg(w, node, 0, WM_PROC_REPORT, &m);
	world_turn(w);
}

static void beat_ahead(struct world *w, const char *node, int64_t ahead_us, uint64_t error_us)
{
	world_msg(w, node, 0, WM_BEAT,
	          &(struct wm_beat){.seq = 1, .ahead_us = ahead_us, .ahead_error_us = error_us});
}

static const cJSON *shown(struct world *w, const char *node, const char *key)
{
	world_request(w, REQ_NODES, 0, node, NULL);
	return cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(w->body, "nodes"), 0), key);
}

/* Rank 1 fails half a second before rank 0; its node's clock is 5 s ahead. */
static void test_skew(int measured)
{
	struct world *w = world_create(51);
	struct job_row row = {0};
	uint64_t id, now;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	beat_ahead(w, "a", 300, 500);
	beat_ahead(w, "b", 5000000, measured ? 1000 : 0);
	id = run_two(w);
	now = w->clock.fake_real_us;
	exits_at(w, "a", id, 0, 4, now + 500000);
	exits_at(w, "b", id, 1, 3, now + 5000000);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_CLEANED, 0, NULL);
	if (store_job_get(w->reader, id, &row, NULL) < 0)
		tap_bail("no job");
	is_int(row.exit_code, measured ? 3 : 4,
	       measured ? "the rank that failed first, by one clock" : "the nodes' own clocks name another one");
	job_row_fini(&row);
	world_end_well(w);
}

static void test_skew_shown(void)
{
	struct world *w = world_create(52);

	world_agent_up(w, "a", 1, 4);
	ok(cJSON_IsNull(shown(w, "a", "clock_ahead_ms")), "not measured yet");
	beat_ahead(w, "a", -2500000, 2000);
	ok(cJSON_GetNumberValue(shown(w, "a", "clock_ahead_ms")) < -2499, "measured");
	ok(cJSON_GetNumberValue(shown(w, "a", "clock_error_ms")) > 1, "with its error");
	golden("hearthd/nodes-its-clock-is-s-behind-hearthd-s", cJSON_GetStringValue(shown(w, "a", "reason")),
	       "2.5 s");
	beat_ahead(w, "a", 1500000, 600000);
	is_str(cJSON_GetStringValue(shown(w, "a", "reason")), "", "not when it may be less than a second");
	beat_ahead(w, "a", INT64_MAX, 1);
	ok(cJSON_IsNull(shown(w, "a", "clock_ahead_ms")), "what cannot be is not taken");
	beat_ahead(w, "a", INT64_MIN, 1);
	ok(cJSON_IsNull(shown(w, "a", "clock_ahead_ms")), "nor this way");
	world_end_well(w);
}

/* That Hearth ended the others for it is no news. */
static void test_node_lost_victims(void)
{
	struct world *w = world_create(41);
	struct job_row row = {0};
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	id = run_two(w);
	beats(w, "abc", 13);
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "connection reset");
	beats(w, "ac", 14);
	is_str(world_status(w, id), "stopping", "a node is lost");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, "step 4\n");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	store_job_get(w->reader, id, &row, NULL);
	golden("hearthd/nodes-node-b-was-lost-no-sign-of", row.reason, "12 s");
	job_row_fini(&row);
	world_destroy(w);
}

static void test_node_lost(void)
{
	struct world *w = world_create(3);
	struct job_row row = {0};
	char *shown;
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	id = run_two(w);
	beats(w, "abc", 13);
	core_agent_down(w->core, "b", node_find(w->core, "b")->session, "connection reset");
	beats(w, "ac", 8);
	is_str(world_status(w, id), "running", "a closed connection is not failure");
	beats(w, "ac", 6);
	is_str(world_status(w, id), "stopping", "a lease that ran out is");
	is_int(world_count(w, "a", WM_KILL), 1, "the other node is told to kill");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 1, 0, "Connection reset by peer\n");
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "failed", "the job failed");
	store_job_get(w->reader, id, &row, NULL);
	golden("hearthd/nodes-node-b-was-lost-no-sign-of-2", row.reason, "12", "0", "1");
	golden("hearthd/nodes-after-that-rank-algo-a-exited-with", row.reason, "rank 0", "code 1");
	job_row_fini(&row);
	world_submit(w, TWO);
	is_str(world_status(w, id + 1), "starting", "the next job runs on the others");
	world_forget(w);
	/* b comes back and still has it. */
	{
		uint64_t s = world_agent_connect(w, "b");
		struct wm_sync_begin begin = {.instance = 1};
		struct wm_sync_end end = {.instance = 1};

		world_msg(w, "b", s, WM_SYNC_BEGIN, &begin);
		world_launch(w, "b", id, 1, LAUNCH_RUNNING, 0, NULL);
		world_msg(w, "b", s, WM_SYNC_END, &end);
		world_turn(w);
	}
	is_int(world_count(w, "b", WM_KILL), 1, "what is left on it is killed");
	world_request(w, REQ_NODES, 0, NULL, NULL);
	shown = cJSON_PrintUnformatted(w->body);
	like(shown, "must not be there", "nodes says why it gets no work");
	free(shown);
	world_launch(w, "b", id, 1, LAUNCH_ENDED, 0, NULL);
	is_int(world_count(w, "b", WM_COLLECT), 1, "then removed");
	world_end_well(w);
}

static void test_many_silent(void)
{
	struct world *w = world_create(4);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	id = run_two(w);
	beats(w, "abc", 13);
	beats(w, "c", 40);
	is_str(world_status(w, id), "running", "two of three silent: it is rather us who are cut off");
	is_int(w->core->nodes.n_lost, 0, "nobody is declared lost");
	world_restart(w);
	is_str(world_status(w, id), "running", "after a restart it runs on record");
	beats(w, "", 11);
	is_int(w->core->nodes.n_lost, 0, "in the first lease nobody is declared lost");
	world_end_well(w);
}

static void test_first_lease(void)
{
	struct world *w = world_create(5);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	id = run_two(w);
	world_restart(w);
	world_agent_connect(w, "a");
	world_agent_connect(w, "c");
	beats(w, "ac", 11);
	is_int(w->core->nodes.n_lost, 0, "b has a whole lease to come back");
	beats(w, "ac", 3);
	is_int(w->core->nodes.n_lost, 1, "not more");
	is_str(world_status(w, id), "stopping", "its ranks are lost");
	world_end_well(w);
}

static void resync(struct world *w, const char *node)
{
	uint64_t s = world_agent_connect(w, node);
	struct wm_sync_begin begin = {.instance = 2};
	struct wm_sync_end end = {.instance = 2};

	world_msg(w, node, s, WM_SYNC_BEGIN, &begin);
	world_msg(w, node, s, WM_SYNC_END, &end);
	world_turn(w);
}

/* As an agent answers that has nothing of it. */
static void nothing_left(struct world *w, const char *node, uint64_t id)
{
	world_launch(w, node, id, 1, LAUNCH_ENDED, RC_UNKNOWN, "nothing of this launch is on this node");
	world_launch(w, node, id, 1, LAUNCH_CLEANED, 0, NULL);
}

static void test_missing(void)
{
	struct world *w = world_create(6);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = world_submit(w, TWO);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_forget(w);
	resync(w, "b");
	is_int(world_count(w, "b", WM_PREPARE), 1, "an order that did not arrive is sent again");
	resync(w, "a");
	is_int(world_count(w, "a", WM_PREPARE), 1, "also to one that was ready and has lost it");
	world_launch(w, "b", id, 1, LAUNCH_READY, 0, NULL);
	is_int(world_count(w, NULL, WM_LAUNCH_GO), 0, "which is waited for again");
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	is_int(world_count(w, NULL, WM_LAUNCH_GO), 2, "go");
	resync(w, "b");
	is_str(world_status(w, id), "recovering",
	       "of a launched one that is gone nothing good can come; nothing ran yet");
	is_int(world_count(w, "b", WM_KILL), 1, "its agent is to end what may be left");
	resync(w, "a");
	nothing_left(w, "b", id);
	is_str(world_status(w, id), "recovering", "a has not said that nothing is left");
	nothing_left(w, "a", id);
	is_str(world_status(w, id), "starting", "a has it no more either: it is tried again");
	is_int(job_find(w->core, id)->r.attempts, 2, "as a new attempt");
	world_end_well(w);
}

static void test_missing_running(void)
{
	struct world *w = world_create(7);
	struct job_row row = {0};
	uint64_t id, next;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	resync(w, "b");
	is_str(world_status(w, id), "stopping", "ranks that an agent has lost are lost");
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "stopping", "b has not said what is left of it");
	next = world_submit(w, TWO);
	is_str(world_status(w, next), "queued", "so what it has there is not free");
	world_launch(w, "b", id, 1, LAUNCH_STOPPING, 0, "its plan cannot be read");
	is_str(world_status(w, next), "queued", "nor is it while that is being ended");
	nothing_left(w, "b", id);
	is_str(world_status(w, id), "failed", "and that is never success");
	is_str(world_status(w, next), "starting", "then it is free");
	store_job_get(w->reader, id, &row, NULL);
	golden("hearthd/nodes-its-agent-knows-nothing-of-the-launch", row.reason);
	job_row_fini(&row);
	world_end_well(w);
}

/* An agent whose file says less than it did: it has undone what ran, and would wait for a go that was given.
 */
static void test_undone(uint8_t state)
{
	struct world *w = world_create(9);
	struct job_row row = {0};
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_launch(w, "b", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_forget(w);
	world_launch(w, "b", id, 1, state, 0, NULL);
	is_str(world_status(w, id), "stopping", "what ran there is lost");
	is_int(world_count(w, "b", WM_KILL), 1, "it is ended there, too");
	is_int(world_count(w, "b", WM_LAUNCH_GO), 0, "nobody goes twice");
	world_launch(w, "b", id, 1, LAUNCH_FAILED, RC_STOPPED, "");
	world_launch(w, "b", id, 1, LAUNCH_CLEANED, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_EXITED, 0, SIGTERM, NULL);
	world_launch(w, "a", id, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", id, 1, LAUNCH_CLEANED, 0, NULL);
	is_str(world_status(w, id), "failed", "over");
	store_job_get(w->reader, id, &row, NULL);
	golden("hearthd/nodes-node-b-was-lost-its-agent-prepares", row.reason);
	job_row_fini(&row);
	world_end_well(w);
}

static void test_old_epoch(void)
{
	struct world *w = world_create(8);
	struct wm_proc_report m = {.attempt = 1, .epoch = 99, .kind = PROC_RANK, .state = PS_EXITED};
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, ONE);
	world_launch(w, "a", id, 1, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", id, 1, 0, PS_RUNNING, 0, 0, NULL);
	world_forget(w);
	m.job = id;
	m.token = m.text = (char[]){""};
	world_msg(w, "a", 0, WM_PROC_REPORT, &m);
	world_turn(w);
	is_str(world_status(w, id), "running", "a report of another epoch changes nothing");
	is_int(world_count(w, "a", WM_ACK), 1, "but is acknowledged");
	core_agent_msg(w->core, "a", 4711, WM_BEAT, 1, wire_copy(WM_BEAT, &(struct wm_beat){.seq = 1}));
	is_int(world_count(w, "a", WM_BEAT_ACK), 0, "a message of another session is not heard");
	world_end_well(w);
}

static void test_drain(void)
{
	struct world *w = world_create(9);
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	is_int(world_request(w, REQ_DRAIN, 0, "a", "{\"reason\": \"new fan\"}"), 200, "drained");
	id = world_submit(w, ONE);
	is_str(world_status(w, id), "queued", "takes no new work");
	world_request(w, REQ_WHY, id, NULL, NULL);
	golden("hearthd/nodes-the-only-node-is-not-up-or", world_text(w, "text"), "jobctl node resume");
	world_restart(w);
	world_agent_up(w, "a", 1, 4);
	is_str(world_status(w, id), "queued", "drained over a restart, too");
	is_int(world_request(w, REQ_NODE_RM, 0, "a", "{}"), 409, "a connected node is not removed");
	world_request(w, REQ_RESUME, 0, "a", "{}");
	is_str(world_status(w, id), "starting", "resumed");
	is_int(world_request(w, REQ_DRAIN, 0, "nobody", "{}"), 404, "a node that is not there");
	world_end_well(w);
}

static void test_peers(void)
{
	struct world *w = world_create(10);
	struct sent *s;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_forget(w);
	world_beat(w, "a");
	s = world_sent(w, "a", WM_BEAT_ACK);
	ok(s && ((struct wm_beat_ack *)s->msg)->peers.n == 1, "the first answer names the peers");
	like(((struct wm_beat_ack *)s->msg)->peers.v[0], "b 10.77.0.", "by name and address");
	is_int(((struct wm_beat_ack *)s->msg)->lease_ms, 10000, "and the lease");
	sent_free(s);
	world_beat(w, "a");
	s = world_sent(w, "a", WM_BEAT_ACK);
	is_int(((struct wm_beat_ack *)s->msg)->peers_changed, 0, "the second only what changed");
	sent_free(s);
	world_agent_up(w, "c", 1, 4);
	world_advance(w, 3000000);
	world_forget(w);
	world_beat(w, "a");
	s = world_sent(w, "a", WM_BEAT_ACK);
	is_int(((struct wm_beat_ack *)s->msg)->peers.n, 2, "a new one is told");
	sent_free(s);
	w->hold_commits = 1;
	world_submit(w, ONE);
	world_forget(w);
	world_beat(w, "a");
	is_int(world_count(w, "a", WM_BEAT_ACK), 1, "beats do not wait for the store");
	w->hold_commits = 0;
	world_turn(w);
	world_end_well(w);
}

/* An agent that speaks no version of hearthd's: its lease is renewed and its ranks go on, with no orders. */
static void test_outdated(uint32_t version, const char *what)
{
	struct world *w = world_create(61);
	uint64_t id, waits;
	unsigned beats_sent;

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	id = run_two(w);
	w->version = version;
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "upgraded hearthd");
	world_agent_connect(w, "a");
	world_turn(w);
	world_forget(w);
	is_str(cJSON_GetStringValue(shown(w, "a", "state")), "incompatible", "the node is shown as incompatible");
	like(cJSON_GetStringValue(shown(w, "a", "reason")), what, "with the next step");
	is_int((int64_t)cJSON_GetNumberValue(shown(w, "a", "protocol")), version, "and its version");
	is_int((int64_t)cJSON_GetNumberValue(shown(w, "b", "protocol")), WIRE_VERSION,
	       "the other has the present one");
	if (version < WIRE_VERSION)
		golden("hearthd/nodes-upgrade-this-agent", cJSON_GetStringValue(shown(w, "a", "reason")),
		       "upgrade this agent", "1", "2", "3");
	beats(w, "ab", 120);
	beats_sent = world_count(w, "a", WM_BEAT_ACK);
	ok(beats_sent >= 120, "each of its beats is answered (%u)", beats_sent);
	is_str(world_status(w, id), "running", "for many leases, and its job runs");
	waits = world_submit(w, TWO);
	is_str(world_status(w, waits), "queued", "it gets no new job");
	world_request(w, REQ_WHY, waits, NULL, NULL);
	like(world_text(w, "text"), "a (upgrade its agent)", "and the job that waits says why");
	world_request(w, REQ_WHY, id, NULL, NULL);
	like(world_text(w, "text"), "node a gets no orders: upgrade its agent", "the job that runs, too");
	world_request(w, REQ_STOP, id, NULL, "{}");
	world_turn(w);
	is_int(world_count(w, "a", WM_KILL), 0, "no order is sent to it");
	is_int(world_count(w, "b", WM_KILL), 1, "the other node gets it");
	/* Upgraded: it reports all, and gets what it missed. */
	w->version = WIRE_VERSION - 1;
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "upgraded");
	world_agent_connect(w, "a");
	world_msg(w, "a", 0, WM_SYNC_BEGIN, &(struct wm_sync_begin){.instance = 2, .launches = 1});
	world_launch(w, "a", id, 1, LAUNCH_RUNNING, 0, NULL);
	world_msg(w, "a", 0, WM_SYNC_END, &(struct wm_sync_end){.instance = 2});
	world_turn(w);
	is_int(world_count(w, "a", WM_KILL), 1, "an agent of the version before gets its orders");
	world_end_well(w);
}

/* Its jobs may run elsewhere, and it understands no order to end its ranks: its lease is not renewed. */
static void test_outdated_lost(void)
{
	struct world *w = world_create(62);

	world_agent_up(w, "a", 1, 4);
	world_agent_up(w, "b", 1, 4);
	world_agent_up(w, "c", 1, 4);
	beats(w, "abc", 13);
	core_agent_down(w->core, "a", node_find(w->core, "a")->session, "cut");
	beats(w, "bc", 60);
	is_int(node_find(w->core, "a")->r.state, NODE_LOST, "a node is lost");
	w->version = WIRE_VERSION + 2;
	world_agent_connect(w, "a");
	world_forget(w);
	beats(w, "abc", 3);
	is_int(world_count(w, "a", WM_BEAT_ACK), 0, "a lost node that cannot be given orders is not answered");
	is_int(world_count(w, "b", WM_BEAT_ACK), 3, "others are");
	world_end_well(w);
}

int main(void)
{
	test_join();
	test_certificates();
	test_unknown();
	test_skew(0);
	test_skew(1);
	test_skew_shown();
	test_node_lost_victims();
	test_node_lost();
	test_many_silent();
	test_first_lease();
	test_missing();
	test_missing_running();
	test_undone(LAUNCH_PREPARING);
	test_undone(LAUNCH_READY);
	test_old_epoch();
	test_drain();
	test_peers();
	test_outdated(WIRE_VERSION - 2, "upgrade this agent");
	test_outdated(WIRE_VERSION + 1, "upgrade hearthd");
	test_outdated_lost();
	return tap_done();
}
