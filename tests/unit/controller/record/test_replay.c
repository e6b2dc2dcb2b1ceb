/*
 * test_replay: events against rows, one field and one event at a time. Each field of a job, an attempt and a
 * rank that is not what the events give; rows that are missing or too many; events that cannot be read, are
 * of an unknown type, or tell of what is not there; the same for what the cluster has. Through a whole store:
 * test_core_store.
 */
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "store/read/verify.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include <stdio.h>
#include <string.h>

#define TEXT(s) ((char *)(uintptr_t)(s))

static char why[512];

/* ---- a job ------------------------------------------------------------------------------------ */

#define NODES "[{\"node\": \"a\", \"node_id\": 1, \"ranks\": 2}]"

static const struct told {
	uint32_t attempt;
	const char *type, *data;
} life[] = {
    {0, "submitted",
     "{\"status\": \"queued\", \"name\": \"n\", \"owner\": \"o\", \"nodes\": 1, \"gpus\": 2}"},
    {1, "placed", "{\"epoch\": 1, \"launch_id\": \"1.1\", \"account\": \"q/@o\", \"nodes\": " NODES "}"},
    {1, "ending", "{\"class\": \"stopped\", \"status\": \"stopping\"}"},
    {1, "outcome", "{\"outcome\": \"stopped\", \"class\": \"stopped\"}"},
    {1, "node_cleaned", "{\"node_rank\": 0}"},
    {1, "attempt_ended", "{}"},
    {0, "requeued", "{}"},
    {2, "placed", "{\"epoch\": 2, \"nodes\": " NODES "}"},
    {2, "launching", NULL}, /* no data are no fields */
    {2, "rank_started", "{\"rank\": 1, \"pid\": 5, \"started_us\": 9}"},
};
#define N_LIFE (sizeof life / sizeof *life)

static struct job_rec rec;
static struct job_row job;
static struct attempt_row attempts[2];
static struct rank_row rank;
static struct store_job_rows rows;

/* The rows as a controller would have written them. */
static void rows_make(void)
{
	for (size_t i = 0; i < N_LIFE; i++) {
		cJSON *d = cJSON_Parse(life[i].data ? life[i].data : "{}");
		struct err e;

		if (event_apply(&rec, (enum event_type)event_find(life[i].type), life[i].attempt, 1000 + i, d, &e) <
		    0)
			tap_bail("%s: %s", life[i].type, e.text);
		cJSON_Delete(d);
		if (i == 5)
			rec_attempt_row(&rec, &attempts[0]);
		if (i == 5) /* its texts go with the next attempt */
			attempts[0].launch_id = TEXT("1.1"), attempts[0].account = TEXT("q/@o"),
			attempts[0].reason = NULL, attempts[0].cause = NULL, attempts[0].resumed_from = NULL;
	}
	rec_attempt_row(&rec, &attempts[1]);
	rec_job_row(&rec, &job);
	rec_rank_row(&rec, 1, &rank);
	rows = (struct store_job_rows){
	    .job = &job, .attempts = attempts, .ranks = &rank, .n_attempts = 2, .n_ranks = 1};
}

static void give(void **state, uint64_t id, uint32_t attempt, uint64_t at_us, const char *type,
                 const char *data)
{
	struct event_row ev = {
	    .id = id, .job = 1, .attempt = attempt, .at_us = at_us, .type = TEXT(type), .data = TEXT(data)};

	if (event_reducer(state, &ev, NULL, why, sizeof why, NULL) < 0)
		tap_bail("an event alone is never a finding");
}

/* The life without its event `not`, with one more at its end. */
static int replay(size_t not, const char *type, const char *data)
{
	void *state = NULL;
	int rc;

	why[0] = '\0';
	for (size_t i = 0; i < N_LIFE; i++)
		if (i != not )
			give(&state, i, life[i].attempt, 1000 + i, life[i].type, life[i].data);
	if (type)
		give(&state, 100, 2, 2000, type, data);
	rc = event_reducer(&state, NULL, &rows, why, sizeof why, NULL);
	ok(!state, "what it kept is freed");
	return rc;
}

static void differs(const char *says)
{
	is_int(replay(N_LIFE, NULL, NULL), -1, says);
	like(why, says, "is told");
}

static void test_fields(void)
{
#define NUMBER(row, field, says)                                                                             \
	row.field++;                                                                                             \
	differs(says #field ": events give ");                                                                   \
	row.field--
#define WORDS(row, field, says)                                                                              \
	do {                                                                                                     \
		char *was = row.field;                                                                               \
		row.field = TEXT("spoilt");                                                                          \
		differs(says #field ": events give \"");                                                             \
		row.field = was;                                                                                     \
	} while (0)
	is_int(replay(N_LIFE, NULL, NULL), 0, "rows that the events give");
	WORDS(job, status, "");
	WORDS(job, name, "");
	WORDS(job, owner, "");
	WORDS(job, experiment, "");
	WORDS(job, notes, "");
	WORDS(job, queue, "");
	WORDS(job, bundle, "");
	WORDS(job, reason, "");
	WORDS(job, wanted, "");
	WORDS(job, cleanup, "");
	WORDS(job, rungs, "");
	WORDS(job, begins, "");
	NUMBER(job, ran_us, "");
	NUMBER(job, runs_since_us, "");
	NUMBER(job, alerts, "");
	WORDS(job, alert, "");
	NUMBER(job, array, "");
	NUMBER(job, members, "");
	NUMBER(job, halved, "");
	NUMBER(job, priority, "");
	NUMBER(job, created_us, "");
	NUMBER(job, queued_us, "");
	NUMBER(job, started_us, "");
	NUMBER(job, ended_us, "");
	NUMBER(job, exit_code, "");
	NUMBER(job, attempts, "");
	NUMBER(job, epoch, "");
	NUMBER(job, pinned, "");
	NUMBER(job, deleted, "");
	NUMBER(job, nodes, "");
	NUMBER(job, gpus, "");
	for (int i = 0; i < 2; i++) {
		const char *says = i ? "attempt 2: " : "attempt 1: ";
#define OF_ATTEMPT(kind, field)                                                                              \
	kind(attempts[i], field, "");                                                                            \
	like(why, says, #field " of that attempt")
		OF_ATTEMPT(NUMBER, epoch);
		OF_ATTEMPT(WORDS, state);
		OF_ATTEMPT(WORDS, outcome);
		OF_ATTEMPT(WORDS, cls);
		OF_ATTEMPT(WORDS, reason);
		OF_ATTEMPT(WORDS, cause);
		OF_ATTEMPT(WORDS, launch_id);
		OF_ATTEMPT(WORDS, placement);
		OF_ATTEMPT(NUMBER, resumed_from_step);
		OF_ATTEMPT(WORDS, resumed_from);
		OF_ATTEMPT(NUMBER, exit_code);
		OF_ATTEMPT(NUMBER, signal);
		OF_ATTEMPT(NUMBER, started_us);
		OF_ATTEMPT(NUMBER, ended_us);
		OF_ATTEMPT(WORDS, phases);
		OF_ATTEMPT(NUMBER, master_port);
		OF_ATTEMPT(NUMBER, price_uusd);
		OF_ATTEMPT(WORDS, account);
	}
	WORDS(rank, node, "attempt 2: rank 1: ");
	NUMBER(rank, node_rank, "attempt 2: rank 1: ");
	NUMBER(rank, local_rank, "attempt 2: rank 1: ");
	WORDS(rank, state, "attempt 2: rank 1: ");
	NUMBER(rank, exit_code, "attempt 2: rank 1: ");
	NUMBER(rank, signal, "attempt 2: rank 1: ");
	NUMBER(rank, oom, "attempt 2: rank 1: ");
	WORDS(rank, ended_by, "attempt 2: rank 1: ");
	NUMBER(rank, pid, "attempt 2: rank 1: ");
	NUMBER(rank, started_us, "attempt 2: rank 1: ");
	NUMBER(rank, ended_us, "attempt 2: rank 1: ");
	WORDS(rank, text, "attempt 2: rank 1: ");
}

static void test_numbers(void)
{
	struct attempt_row turned[2] = {attempts[1], attempts[0]};
	struct rank_row two[2] = {rank, rank};

	rows.n_attempts = 1;
	differs("events give 2 attempts, there are rows of 1");
	rows.n_attempts = 2;
	rows.attempts = turned;
	differs("attempt 1 has no row");
	rows.attempts = attempts;
	rows.n_ranks = 0;
	differs("attempt 2: rank 1 has no row");
	rows.n_ranks = 2;
	two[1].rank = 7;
	rows.ranks = two;
	differs("attempt 2: a row of rank 7, which it does not have");
	rows.ranks = &rank;
	rows.n_ranks = 1;
}

/* The first event that cannot be is the finding, whatever follows from it. */
static void test_events(void)
{
	void *state = NULL;

	is_int(replay(N_LIFE, "what", "{}"), -1, "a type that nobody knows");
	is_str(why, "event 100: unknown type \"what\"", "is told by number and name");
	is_int(replay(N_LIFE, "tagged", "{\"key\": "), -1, "data that cannot be read");
	golden("hearthd/replay-event-its-data-cannot-be-read", why, "event 100");
	is_int(replay(N_LIFE, "tagged", ""), -1, "nor is nothing at all");
	is_int(replay(N_LIFE, "tagged", "[]"), -1, "nor a list");
	golden("hearthd/replay-event-its-data-cannot-be-read", why, "event 100");
	is_int(replay(N_LIFE, "node_ready", "{\"node_rank\": 7}"), -1, "an event that cannot be");
	golden("hearthd/replay-event-node-ready-no-node-of-that-number", why, "node_ready", "event 100");
	is_int(replay(N_LIFE, "node_gone", "{\"node\": \"a\"}"), -1, "one that is not of jobs");
	is_int(replay(0, NULL, NULL), -1, "without the first");
	golden("hearthd/replay-event-placed-before-the-job-was-submitted", why, "event 1");
	is_int(replay(1, NULL, NULL), -1, "without the first attempt");
	like(why, "event 2: ending: ", "its end cannot be");
	for (size_t i = 2; i < N_LIFE; i++)
		is_int(replay(i, NULL, NULL), -1, life[i].type);
	give(&state, 1, 0, 5, "what", "{}");
	is_int(event_reducer(&state, NULL, &rows, why, sizeof why, NULL), -1, "nothing but that");
	is_int(event_reducer(&state, NULL, &rows, why, sizeof why, NULL), -1, "a job without events");
	golden("hearthd/replay-the-job-has-no-events", why);
}

/* ---- the cluster ------------------------------------------------------------------------------ */

static void *cluster;

static int ev(const char *type, const char *data)
{
	struct event_row row = {.id = 1, .at_us = 1000000000, .type = TEXT(type), .data = TEXT(data)};

	why[0] = '\0';
	return event_cluster_reducer(&cluster, &row, NULL, why, sizeof why);
}

/* Reads the rest until nothing is left; how many findings. */
static int rest(void)
{
	int n = 0;

	while (event_cluster_reducer(&cluster, NULL, NULL, why, sizeof why) < 0)
		n++;
	return n;
}

static void test_cluster_events(void)
{
	static const struct {
		const char *type, *data, *says;
	} cases[] = {
	    {"what", "{}", "unknown type \"what\""},
	    {"submitted", "{}", "unknown type \"submitted\""},
	    {"joined", "{\"node\": ", "its data cannot be read"},
	    {"queue_set", "", "its data cannot be read"},
	    {"token_made", "[]", "its data cannot be read"},
	    {"joined", "{}", "it has no name"},
	    {"token_made", "{\"id\": 7}", "it has no name"},
	    {"reservation_set", "{\"reservation\": \"\"}", "it has no name"},
	    {"queue_set", "{\"queue\": null}", "it has no name"},
	    {"connected", "{\"node\": \"b\"}", "there is no node \"b\""},
	    {"inventory", "{}", "it has no name"},
	    {"drained", "{\"node\": \"b\"}", "there is no node \"b\""},
	    {"node_removed", "{\"node\": \"b\"}", "there is no node \"b\""},
	    {"quota_removed", "{\"queue\": \"b\"}", "there is no queue \"b\""},
	    {"queue_removed", "{\"queue\": \"b\"}", "there is no queue \"b\""},
	    {"budget_removed", "{\"queue\": \"b\"}", "there is no budget \"b\""},
	    {"budget_used_up", "{\"queue\": \"b\"}", "there is no budget \"b\""},
	    {"budget_open", "{\"queue\": \"b\"}", "there is no budget \"b\""},
	    {"instance_removed", "{\"instance\": \"b\"}", "there is no instance type \"b\""},
	    {"reservation_began", "{\"reservation\": \"b\"}", "there is no reservation \"b\""},
	    {"reservation_ended", "{\"reservation\": \"b\"}", "there is no reservation \"b\""},
	    {"reservation_removed", "{\"reservation\": \"b\"}", "there is no reservation \"b\""},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		is_int(ev(cases[i].type, cases[i].data), -1, cases[i].type);
		is_str(why, cases[i].says, cases[i].data);
	}
	is_int(rest(), 0, "nothing came of them");
	is_int(ev("joined", "{\"node\": \"a\"}"), 0, "what joins");
	is_int(ev("token_made", "{\"id\": \"t\", \"kind\": \"join\"}"), 0, "a token");
	is_int(ev("queue_set", "{\"queue\": \"q\", \"weight\": 2}"), 0, "a queue");
	is_int(ev("budget_set", "{\"queue\": \"q\", \"usd\": 1e300}"), 0, "a budget");
	is_int(ev("instance_set", "{\"instance\": \"q\", \"set\": {\"gpus\": 8}}"), 0, "a type of that name");
	is_int(ev("reservation_set", "{\"reservation\": \"q\"}"), 0, "a reservation, too");
	is_int(rest(), 6, "each of them has no row");
	is_int(ev("queue_set", "{\"queue\": \"q\"}"), 0, "made");
	is_int(ev("queue_removed", "{\"queue\": \"q\"}"), 0, "removed");
	is_int(ev("queue_removed", "{\"queue\": \"q\"}"), -1, "once");
	is_int(ev("queue_set", "{\"queue\": \"q\"}"), 0, "made again");
	is_int(ev("queue_removed", "{\"queue\": \"q\"}"), 0, "removed again");
	is_int(rest(), 0, "what was removed needs no row");
}

/* A row that its events give, then each of its fields spoilt. */
static int row(const struct store_cluster_row *r)
{
	why[0] = '\0';
	return event_cluster_reducer(&cluster, NULL, r, why, sizeof why);
}

static void test_cluster_rows(void)
{
	struct node_row n = {.name = TEXT("a"), .state = TEXT("up"), .joined_us = 1000000000};
	struct token_row t = {.id = TEXT("t"),
	                      .kind = TEXT("join"),
	                      .owner = TEXT("ada"),
	                      .created_us = 1000000000,
	                      .expires_us = 1060000000};
	struct queue_row q = {.path = "q", .is_queue = 1, .weight_milli = 2500};
	struct budget_row b = {.path = "q", .uusd = 10500000, .period = "week", .action = "hold"};
	struct reservation_row r = {.name = "r",
	                            .state = "active",
	                            .queue = "q",
	                            .nodes = "a b",
	                            .reason = "",
	                            .owner = "ada",
	                            .from_us = 5,
	                            .to_us = 9,
	                            .created_us = 3};
	struct store_cluster_row of_n = {.node = &n}, of_t = {.token = &t}, of_q = {.queue = &q},
	                         of_b = {.budget = &b}, of_r = {.reservation = &r},
	                         of_i = {.instance = "i", .own = "{\"gpus\": 4}"};
#define SPOIL(of, what, field, value, says)                                                                  \
	do {                                                                                                     \
		__typeof__(what) was = what;                                                                         \
		what.field = value;                                                                                  \
		is_int(row(&of), -1, #what "." #field);                                                              \
		like(why, says, "is told");                                                                          \
		what = was;                                                                                          \
	} while (0)

	ev("joined", "{\"node\": \"a\"}");
	ev("connected", "{\"node\": \"a\"}");
	ev("node_silent", "{\"node\": \"a\"}");
	ev("token_made", "{\"id\": \"t\", \"kind\": \"join\", \"by\": \"ada\", \"ttl_s\": 60}");
	ev("queue_set", "{\"queue\": \"q\", \"weight\": 2.5}");
	ev("budget_set", "{\"queue\": \"q\", \"usd\": 10.5, \"period\": \"week\"}");
	ev("budget_used_up", "{\"queue\": \"q\"}");
	ev("instance_set", "{\"instance\": \"i\", \"set\": {\"gpus\": 8, \"gpu_model\": \"X\"}}");
	ev("instance_set", "{\"instance\": \"i\", \"set\": {\"gpus\": 4, \"gpu_model\": null}}");
	ev("reservation_set",
	   "{\"reservation\": \"r\", \"queue\": \"q\", \"nodes\": [\"a\", \"b\"], \"owner\": \"ada\", "
	   "\"from_us\": 5, \"to_us\": 9, \"created_us\": 3}");
	ev("reservation_began", "{\"reservation\": \"r\"}");
	ev("drained", "{\"node\": \"a\", \"text\": \"fan\"}");
	ev("resumed", "{\"node\": \"a\"}");
	t.kind = TEXT("admin");
	is_int(row(&of_t), 0, "tokens of people are made beside hearthd");
	t.kind = TEXT("join");
	SPOIL(of_t, t, owner, TEXT("eve"), "by \"eve\"");
	SPOIL(of_t, t, expires_us, 1, "events give 60 s");
	SPOIL(of_t, t, used_us, 5, "used_us");
	SPOIL(of_t, t, id, TEXT("x"), "no event tells of it");
	SPOIL(of_q, q, is_queue, 0, "is_queue");
	SPOIL(of_q, q, weight_milli, 1, "weight");
	SPOIL(of_q, q, quota_gpus, 1, "quota");
	SPOIL(of_q, q, borrow, 1, "quota");
	SPOIL(of_q, q, warm_nodes, 1, "warm: events give 0 GPUs and 0 nodes");
	SPOIL(of_q, q, path, "x", "no event tells of it");
	SPOIL(of_b, b, uusd, 1, "10500000 millionths");
	SPOIL(of_b, b, period, "day", "a week, the row has 10500000 a day");
	SPOIL(of_b, b, action, "end", "action: events give hold, the row has end");
	SPOIL(of_b, b, path, NULL, "no event tells of it");
	SPOIL(of_i, of_i, own, "{\"gpus\": 8}", "its facts are not those");
	SPOIL(of_i, of_i, own, "{", "its facts are not those");
	SPOIL(of_i, of_i, own, NULL, "its facts are not those");
	SPOIL(of_r, r, state, "planned", "state: events give \"active\"");
	SPOIL(of_r, r, queue, "x", "queue: events give \"q\", the row has \"x\"");
	SPOIL(of_r, r, nodes, "a", "nodes: events give \"a b\"");
	SPOIL(of_r, r, reason, "x", "reason: events give \"\", the row has \"x\"");
	SPOIL(of_r, r, owner, "x", "owner: events give \"ada\"");
	SPOIL(of_r, r, from_us, 6, "from_us: events give 5, the row has 6");
	SPOIL(of_r, r, to_us, 8, "to_us: events give 9, the row has 8");
	SPOIL(of_r, r, created_us, 4, "created_us: events give 3, the row has 4");
	SPOIL(of_r, r, name, "x", "no event tells of it");
	is_int(row(&of_n) | row(&of_t) | row(&of_q) | row(&of_b) | row(&of_i) | row(&of_r), 0,
	       "rows that events give");
	is_int(rest(), 0, "and no more");
	ev("budget_set", "{\"queue\": \"q\", \"usd\": 10.5, \"period\": \"week\", \"action\": \"end\"}");
	b.action = "end";
	is_int(row(&of_b), 0, "a budget that ends what runs");
	SPOIL(of_b, b, action, "hold", "action: events give end, the row has hold");
	is_int(rest(), 0, "and no more");
}

static void test_nodes(void)
{
	struct node_row n = {.name = TEXT("a"),
	                     .state = TEXT("lost"),
	                     .reason = TEXT("silent"),
	                     .drain = 1,
	                     .joined_us = 1003000000,
	                     .cert_fingerprint = TEXT("ff"),
	                     .address = TEXT("10.0.0.1")};
	struct store_cluster_row of_n = {.node = &n};
	const char *inventory = "{\"cpus\": 4, \"slots\": 8, \"memory_bytes\": 1024, \"gpus\": []}";

#define A(type, more) is_int(ev(type, "{\"node\": \"a\"" more "}"), 0, type)
#define NODE(field, value, says)                                                                             \
	A("joined", ", \"certificate\": \"ff\"");                                                                \
	A("inventory", ", \"address\": \"10.0.0.1\", \"slots\": 8, \"gpus\": 0, \"memory_bytes\": 1024");        \
	A("connected", "");                                                                                      \
	A("drained", ", \"text\": \"fan\"");                                                                     \
	A("node_gone", ", \"text\": \"silent\"");                                                                \
	SPOIL(of_n, n, field, value, says);                                                                      \
	is_int(rest(), 0, "all is freed")
	n.inventory = TEXT(inventory);
	NODE(state, TEXT("up"), "state: events give \"lost\", the row has \"up\"");
	NODE(drain, 0, "drain: events give 1, the row has 0");
	NODE(reason, TEXT("fan"), "reason: events give \"silent\", the row has \"fan\"");
	NODE(joined_us, 2000000000, "joined_us: events give 1000000000");
	NODE(cert_fingerprint, TEXT("00"), "certificate: events give \"ff\", the row has \"00\"");
	NODE(address, TEXT("10.0.0.2"), "address: events give \"10.0.0.1\"");
	NODE(inventory, TEXT("{"), "inventory: it cannot be read");
	NODE(inventory, TEXT("{\"slots\": 4, \"memory_bytes\": 1024}"),
	     "events give 8 slots, 0 GPUs and 1024 bytes");
	A("joined", "");
	A("connected", "");
	SPOIL(of_n, n, name, TEXT("b"), "no event tells of it");
	n = (struct node_row){
	    .name = TEXT("a"), .state = TEXT("up"), .joined_us = 1000000000, .inventory = n.inventory};
	is_int(row(&of_n), -1, "an inventory");
	golden("hearthd/replay-inventory-there-is-one-but-no-event", why);
	is_int(row(&of_n), -1, "a second row of that name");
	golden("hearthd/replay-there-is-a-later-row-of-its", why);
	n.state = TEXT("removed");
	is_int(row(&of_n), 0, "which it is");
	A("node_removed", "");
	A("node_gone", ""); /* its connection's end comes behind */
	A("joined", "");
	is_int(rest(), 0, "it comes back");
}

int main(void)
{
	rows_make();
	test_fields();
	test_numbers();
	test_events();
	attempt_row_borrowed_fini(&attempts[0]);
	attempt_row_borrowed_fini(&attempts[1]);
	rec_fini(&rec);
	test_cluster_events();
	test_cluster_rows();
	test_nodes();
	return tap_done();
}
