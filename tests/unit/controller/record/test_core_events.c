/*
 * Events and records: tables of moves, refusals that change nothing, records through rows and back, who
 * failed first; random events: what is accepted keeps the invariants.
 */
#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "store/read/verify.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NODES                                                                                                \
	"[{\"node\": \"a\", \"node_id\": 1, \"gpus\": [0, 1], \"cpus\": [3], \"ranks\": 2, \"group\": 0},"       \
	"{\"node\": \"b\", \"node_id\": 2, \"gpus\": [], \"cpus\": [], \"ranks\": 1, \"group\": 1}]"
#define PLACED "{\"epoch\": 1, \"launch_id\": \"1.1\", \"cause\": \"submitted\", \"nodes\": " NODES "}"

static int post(struct job_rec *r, enum event_type t, const char *text)
{
	static uint64_t now = 1000;
	cJSON *d = cJSON_Parse(text);
	struct err e;
	int rc = event_apply(r, t, t == EV_PLACED ? r->attempts + 1 : r->att ? r->att->number : 0, now++, d, &e);

	cJSON_Delete(d);
	return rc;
}

static void fresh(struct job_rec *r)
{
	memset(r, 0, sizeof *r);
	r->id = 1;
	post(r, EV_SUBMITTED, "{\"name\": \"n\", \"owner\": \"o\", \"status\": \"queued\", \"nodes\": 2}");
}

static void test_tables(void)
{
	int fine = 1;

	for (int k = 0; k < N_STATE_KIND; k++)
		for (int i = 0; strcmp(state_name((enum state_kind)k, i), "?") != 0; i++)
			fine = fine && state_find((enum state_kind)k, state_name((enum state_kind)k, i)) == i;
	ok(fine, "every state is found by its name");
	for (int i = 0; i < N_JOB_STATUS; i++)
		for (int to = 0; to < N_JOB_STATUS; to++)
			if (job_ended((enum job_status)i) && state_move_ok(STATE_JOB, i, to))
				fine = 0;
	ok(fine, "nothing leaves an end state");
	for (int i = 0; i < N_RANK_STATE; i++)
		for (int to = 0; to < N_RANK_STATE; to++)
			if (rank_over((enum rank_state)i) && state_move_ok(STATE_RANK, i, to))
				fine = 0;
	ok(fine, "nor a rank its last one");
	is_int(state_find(STATE_CLASS, "node_lost"), RC_NODE_LOST, "classes by name");
	is_int(state_find(STATE_CLASS, "agent"), RC_AGENT, "to the last");
	for (int i = 0; i < N_EVENT_TYPE; i++)
		fine = fine && event_find(event_name((enum event_type)i)) == i;
	ok(fine, "every event is found by its name");
	is_int(event_find("no such"), -1, "others are not");
}

static void test_refusals(void)
{
	struct job_rec r;

	memset(&r, 0, sizeof r);
	is_int(post(&r, EV_HELD, "{}"), -1, "nothing before the submit");
	fresh(&r);
	is_int(post(&r, EV_SUBMITTED, "{\"status\": \"queued\"}"), -1, "no second submit");
	is_int(post(&r, EV_NODE_READY, "{\"node_rank\": 0}"), -1, "no launch without an attempt");
	is_int(post(&r, EV_ENDED, "{\"status\": \"completed\", \"exit_code\": 0}"), -1,
	       "no success without a run");
	is_int(post(&r, EV_PLACED, "{\"epoch\": 1, \"nodes\": []}"), -1, "no attempt without nodes");
	is_int(post(&r, EV_PLACED, "{\"epoch\": 0, \"nodes\": " NODES "}"), -1, "no attempt with an old epoch");
	is_int(r.attempts, 0, "refused: nothing has changed");
	is_int(post(&r, EV_PLACED, PLACED), 0, "placed");
	is_int(r.att->n_ranks, 3, "three ranks");
	is_int(post(&r, EV_RANK_EXITED, "{\"rank\": 3, \"exit_code\": 0}"), -1, "no fourth rank");
	is_int(post(&r, EV_NODE_READY, "{\"node_rank\": 2}"), -1, "no third node");
	is_int(post(&r, EV_OUTCOME, "{\"outcome\": \"succeeded\"}"), -1, "no outcome before the end");
	is_int(post(&r, EV_LAUNCHING, "{}"), 0, "launching");
	is_int(post(&r, EV_RANK_STARTED, "{\"rank\": 0, \"started_us\": 5}"), 0, "a rank runs");
	is_int(r.status, JOB_RUNNING, "so does the job");
	is_int(post(&r, EV_RANK_FAILED, "{\"rank\": 0}"), -1, "what ran cannot have failed to start");
	is_int(post(&r, EV_RANK_EXITED, "{\"rank\": 0, \"exit_code\": 1, \"ended_us\": 9}"), 0, "it exits");
	is_int(post(&r, EV_RANK_EXITED, "{\"rank\": 0, \"exit_code\": 0}"), -1, "once");
	is_int(r.att->ranks[0].exit_code, 1, "its code stays");
	is_int(post(&r, EV_ENDING, "{\"class\": \"unknown\", \"status\": \"stopping\"}"), 0, "ending");
	is_int(post(&r, EV_OUTCOME, "{\"outcome\": \"succeeded\"}"), -1, "not a success");
	is_int(post(&r, EV_REQUEUED, "{}"), -1, "not requeued while it goes on");
	is_int(post(&r, EV_OUTCOME, "{\"outcome\": \"failed\"}"), 0, "a failure");
	is_int(post(&r, EV_ATTEMPT_ENDED, "{}"), -1, "not over before its nodes are clean");
	rec_fini(&r);
}

static void test_rows(void)
{
	struct job_rec r, back;
	struct attempt_row a, b;
	struct rank_row k;
	struct job_row row;
	struct err e;

	fresh(&r);
	post(&r, EV_PLACED, PLACED);
	post(&r, EV_NODE_PREPARING, "{\"node_rank\": 0}");
	post(&r, EV_NODE_LOST, "{\"node_rank\": 1, \"silent_us\": 77, \"text\": \"gone\"}");
	post(&r, EV_NODE_FAILED,
	     "{\"node_rank\": 0, \"class\": \"disk\", \"culprit\": true, \"text\": \"full\"}");
	post(&r, EV_RANK_EXITED,
	     "{\"rank\": 2, \"signal\": 9, \"oom\": true, \"ended_us\": 12, \"text\": \"bye\"}");
	memset(&back, 0, sizeof back);
	rec_job_row(&r, &row);
	is_int(rec_from_job_row(&back, &row, &e), 0, "a job through its row");
	rec_attempt_row(&r, &a);
	is_int(rec_from_attempt_row(&back, &a, &e), 0, "its attempt");
	rec_rank_row(&r, 2, &k);
	is_int(rec_from_rank_row(&back, &k), 0, "a rank");
	rec_attempt_row(&back, &b);
	is_str(b.placement, a.placement, "the placement is the same, states, class and blame with it");
	is_str(b.phases, a.phases, "the phases too");
	is_int(back.att->ranks[2].oom, 1, "out of memory");
	is_str(back.att->ranks[2].text, "bye", "last words");
	is_int(back.att->places[1].silent_us, 77, "since when it was silent");
	attempt_row_borrowed_fini(&a);
	attempt_row_borrowed_fini(&b);
	a = (struct attempt_row){.state = (char *)(uintptr_t) "odd"};
	is_int(rec_from_attempt_row(&back, &a, &e), -1, "a row with an unknown state is refused");
	rec_fini(&r);
	rec_fini(&back);
}

struct end {
	int32_t code, signo;
	uint64_t at_ms;
};

static void first(const char *what, struct end a, struct end b, uint32_t want)
{
	struct rank_rec ranks[2] = {
	    {.state = RANK_EXITED, .exit_code = a.code, .signal = a.signo, .ended_us = 1000000 + a.at_ms * 1000},
	    {.state = RANK_EXITED, .exit_code = b.code, .signal = b.signo, .ended_us = 1000000 + b.at_ms * 1000}};
	struct attempt_rec att = {.ranks = ranks, .n_ranks = 2};

	is_int(rec_first_failed(&att), want, what);
}

static void test_first_failed(void)
{
	first("none failed", (struct end){0, -1, 1}, (struct end){0, -1, 2}, 2);
	first("the one that failed", (struct end){0, -1, 1}, (struct end){1, -1, 2}, 1);
	first("the earlier one", (struct end){1, -1, 9}, (struct end){2, -1, 2}, 1);
	first("not the one that was told to end", (struct end){-1, SIGTERM, 1}, (struct end){3, -1, 5}, 1);
	first("unless it was long before", (struct end){-1, SIGTERM, 1}, (struct end){3, -1, 5000}, 0);
	first("a rank that somebody killed, before those that missed it", (struct end){-1, SIGKILL, 1},
	      (struct end){1, -1, 50}, 0);
	first("only told to end: the earliest", (struct end){-1, SIGTERM, 8}, (struct end){-1, SIGTERM, 5}, 1);
}

static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

static void random_data(enum event_type t, char *out, size_t n)
{
	static const char *const ends[] = {"completed", "failed", "stopped", "queued", "nonsense"};
	static const char *const outcomes[] = {"succeeded", "failed", "lost", "stopped", ""};

	if (t == EV_SUBMITTED)
		snprintf(out, n, "{\"status\": \"%s\", \"name\": \"x\"}", rnd(2) ? "queued" : "held");
	else if (t == EV_PLACED)
		snprintf(out, n, "{\"epoch\": %u, \"nodes\": " NODES "}", 1 + rnd(4));
	else if (t >= EV_NODE_PREPARING && t <= EV_NODE_BLAMED)
		snprintf(out, n, "{\"node_rank\": %u, \"class\": \"disk\"}", rnd(3));
	else if (t >= EV_RANK_STARTED && t <= EV_RANK_FAILED)
		snprintf(out, n, "{\"rank\": %u, \"exit_code\": %d, \"started_us\": %u}", rnd(4), (int)rnd(3) - 1,
		         rnd(2));
	else if (t == EV_ENDING)
		snprintf(out, n, "{\"class\": \"%s\", \"status\": \"%s\"}", rnd(9) ? "disk" : "odd",
		         rnd(3) ? "stopping" : "recovering");
	else if (t == EV_OUTCOME)
		snprintf(out, n, "{\"outcome\": \"%s\"}", outcomes[rnd(5)]);
	else if (t == EV_ENDED)
		snprintf(out, n, "{\"status\": \"%s\", \"exit_code\": %d}", ends[rnd(5)], (int)rnd(3) - 1);
	else
		snprintf(out, n, rnd(5) ? "{}" : "[1]");
}

/* Reasons why a record of random events may be odd without anybody being at fault: real ones come from
 * reports. */
static int allowed(const char *bad)
{
	return strcmp(bad, "a rank exited without a status") == 0 ||
	       strcmp(bad, "busy without an attempt that goes on") == 0; /* until the next event of that turn */
}

static void test_random(void)
{
	const char *bad = NULL;
	unsigned accepted = 0, ended = 0;

	seed = 42;
	for (int run = 0; run < 400 && !bad; run++) {
		struct job_rec r = {.id = 1};
		uint64_t end_us = 0;

		for (int i = 0; i < 600 && !bad; i++) {
			enum event_type t = (enum event_type)rnd(N_EVENT_TYPE);
			char data[700];
			const char *odd;

			random_data(t, data, sizeof data);
			if (post(&r, t, data) < 0)
				continue;
			accepted++;
			odd = rec_check(&r);
			if (odd && !allowed(odd))
				tap_diag("%s %s: %s", event_name(t), data, state_name(STATE_JOB, (int)r.status));
			if (odd && !allowed(odd))
				bad = odd;
			if (end_us && (r.ended_us != end_us || !job_ended(r.status)))
				bad = "an end state changed";
			end_us = r.ended_us;
		}
		ended += (unsigned)job_ended(r.status);
		rec_fini(&r);
	}
	ok(!bad, "random events: what is accepted keeps the invariants%s%s", bad ? ": " : "", bad ? bad : "");
	ok(accepted > 5000 && ended > 20, "%u accepted, %u jobs ended", accepted, ended);
}

static void test_reducer(void)
{
	char submitted[] = "{\"status\": \"held\", \"name\": \"x\", \"owner\": \"o\", \"spec_sha256\": "
	                   "\"00\"}",
	     type[] = "submitted", what[] = "what", name[] = "x", owner[] = "o", status[] = "held", spec[] = "{}";
	struct event_row ev = {.id = 1, .job = 1, .at_us = 5, .type = type, .data = submitted};
	struct job_row row = {
	    .id = 1, .name = name, .owner = owner, .status = status, .created_us = 5, .exit_code = -1};
	struct store_job_rows rows = {.job = &row};
	void *state = NULL;
	char why[200] = "";

	event_reducer(&state, &ev, NULL, why, sizeof why, NULL);
	is_int(event_reducer(&state, NULL, &rows, why, sizeof why, NULL), 0, "a row that its events give");
	ok(!state, "the state is freed");
	event_reducer(&state, &ev, NULL, why, sizeof why, NULL);
	row.priority = 3;
	is_int(event_reducer(&state, NULL, &rows, why, sizeof why, NULL), -1, "one that they do not give");
	golden("hearthd/events-priority-events-give-the-row-has", why, "0", "3");
	row.priority = 0;
	row.spec = spec;
	event_reducer(&state, &ev, NULL, why, sizeof why, NULL);
	is_int(event_reducer(&state, NULL, &rows, why, sizeof why, NULL), -1, "another specification");
	like(why, "SHA-256", "is told, too");
	event_reducer(&state, &ev, NULL, why, sizeof why, NULL);
	ev.type = what;
	event_reducer(&state, &ev, NULL, why, sizeof why, NULL);
	is_int(event_reducer(&state, NULL, &rows, why, sizeof why, NULL), -1, "an unknown event");
	like(why, "unknown type \"what\"", "is told");
}

int main(void)
{
	test_tables();
	test_refusals();
	test_rows();
	test_first_failed();
	test_random();
	test_reducer();
	return tap_done();
}
