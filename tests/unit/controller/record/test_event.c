/*
 * test_event: one event after another. Every pair of states against the moves of docs/spec/01-states.md;
 * every refusal of every event, in words, with nothing changed; events without their fields, with fields of
 * the wrong type and with numbers that cannot be; what each event writes into the record; rows that cannot
 * be. Whole lives, random orders and who is to blame: test_core_events, test_core_life, test_core_ends.
 */
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- all pairs of states ---------------------------------------------------------------------- */

/* For each state in order: where it may go, as the page says it. */
static const char *const jobs[] = {"queued stopped",
                                   "held starting stopped failed",
                                   "running recovering stopping",
                                   "recovering stopping",
                                   "queued starting stopping completed failed stopped",
                                   "queued recovering completed failed stopped",
                                   "",
                                   "",
                                   ""};
static const char *const arrays[] = {"queued running completed failed stopped",
                                     "held running completed failed stopped",
                                     "",
                                     "held completed failed stopped",
                                     "",
                                     "",
                                     "",
                                     "",
                                     ""};
static const char *const attempts[] = {"launching ending", "running ending", "ending", "ended", ""};
static const char *const places[] = {"preparing ready running stopping ended failed cleaned lost",
                                     "ready running stopping ended failed cleaned lost",
                                     "preparing running stopping ended failed cleaned lost",
                                     "stopping ended failed cleaned lost",
                                     "ended failed cleaned lost",
                                     "cleaned lost",
                                     "cleaned lost",
                                     "",
                                     ""};
static const char *const ranks[] = {"running exited lost failed", "exited lost", "", "", ""};
static const char *const nodes[] = {"up removed", "lost removed joining", "up removed joining", "joining up"};

static int listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; (p = strstr(p, name)); p += n)
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return 1;
	return 0;
}

static void pairs(enum state_kind k, const char *const *moves, int n, const char *what)
{
	int wrong = 0;

	for (int from = 0; from < n; from++)
		for (int to = 0; to < n; to++)
			if (state_move_ok(k, from, to) != listed(moves[from], state_name(k, to))) {
				tap_diag("%s: %s -> %s", what, state_name(k, from), state_name(k, to));
				wrong++;
			}
	is_int(wrong, 0, what);
	is_str(state_name(k, n), "?", "there is no further state");
	is_str(state_name(k, -1), "?", "nor one before the first");
	ok(!state_move_ok(k, -1, 0) && !state_move_ok(k, 0, -1) && !state_move_ok(k, n, 0) &&
	       !state_move_ok(k, 0, n),
	   "%s: no moves from or to what is no state", what);
}

static void test_pairs(void)
{
	pairs(STATE_JOB, jobs, N_JOB_STATUS, "jobs");
	pairs(STATE_ARRAY, arrays, N_JOB_STATUS, "arrays");
	pairs(STATE_ATTEMPT, attempts, N_ATTEMPT_STATE, "attempts");
	pairs(STATE_PLACE, places, N_PLACE_STATE, "launches on nodes");
	pairs(STATE_RANK, ranks, N_RANK_STATE, "ranks");
	pairs(STATE_NODE, nodes, N_NODE_STATE, "nodes");
	ok(!state_move_ok(STATE_OUTCOME, OUT_NONE, OUT_FAILED), "outcomes have no moves");
	is_int(state_find(STATE_WANTED, NULL), WANT_NOTHING, "no name is the empty one");
	is_str(event_name(N_EVENT_TYPE), "?", "there is no further event");
	is_int(event_find(NULL), -1, "nor one without a name");
}

/* ---- a job's life in steps -------------------------------------------------------------------- */

#define NODES                                                                                                \
	"[{\"node\": \"a\", \"node_id\": 1, \"gpus\": [0, 1], \"cpus\": [3], \"ranks\": 2, \"group\": 0},"       \
	"{\"node\": \"b\", \"node_id\": 2, \"gpus\": [], \"cpus\": [], \"ranks\": 1, \"group\": 1}]"
#define EXITED(rank) "{\"rank\": " #rank ", \"exit_code\": 0, \"started_us\": 50, \"ended_us\": 60}"

enum stage {
	NOTHING,
	QUEUED,
	PLACED,
	LAUNCHING,
	RUNNING,
	ENDING,
	OUTCOME,
	CLEANED,
	OVER,
	ENDED,
};

static const struct step {
	enum stage stage; /* reached with it */
	enum event_type type;
	const char *data;
} steps[] = {
    {QUEUED, EV_SUBMITTED, "{\"name\": \"n\", \"owner\": \"o\", \"status\": \"queued\", \"nodes\": 2}"},
    {PLACED, EV_PLACED, "{\"epoch\": 1, \"launch_id\": \"1.1\", \"nodes\": " NODES "}"},
    {LAUNCHING, EV_NODE_PREPARING, "{\"node_rank\": 0}"},
    {LAUNCHING, EV_NODE_READY, "{\"node_rank\": 0}"},
    {LAUNCHING, EV_NODE_READY, "{\"node_rank\": 1}"},
    {LAUNCHING, EV_LAUNCHING, "{}"},
    {RUNNING, EV_NODE_RUNNING, "{\"node_rank\": 0}"},
    {RUNNING, EV_RANK_STARTED, "{\"rank\": 0, \"pid\": 77, \"started_us\": 50}"},
    {ENDING, EV_RANK_EXITED, EXITED(0)},
    {ENDING, EV_RANK_EXITED, EXITED(1)},
    {ENDING, EV_RANK_EXITED, EXITED(2)},
    {ENDING, EV_ENDING, "{\"class\": \"\", \"status\": \"stopping\", \"reason\": \"done\"}"},
    {OUTCOME, EV_NODE_ENDED, "{\"node_rank\": 0}"},
    {OUTCOME, EV_NODE_ENDED, "{\"node_rank\": 1}"},
    {OUTCOME, EV_OUTCOME, "{\"class\": \"\", \"outcome\": \"succeeded\", \"exit_code\": 0}"},
    {CLEANED, EV_NODE_CLEANED, "{\"node_rank\": 0}"},
    {CLEANED, EV_NODE_CLEANED, "{\"node_rank\": 1}"},
    {OVER, EV_ATTEMPT_ENDED, "{}"},
    {ENDED, EV_ENDED, "{\"status\": \"completed\", \"exit_code\": 0}"},
};

static uint64_t now = 1000;

static int post_to(struct job_rec *r, enum event_type t, uint32_t attempt, const char *text, struct err *e)
{
	cJSON *d = cJSON_Parse(text);
	int rc = event_apply(r, t, attempt, now++, d, e);

	cJSON_Delete(d);
	return rc;
}

static int post(struct job_rec *r, enum event_type t, const char *text, struct err *e)
{
	return post_to(r, t, t == EV_PLACED ? r->attempts + 1 : r->att ? r->att->number : 0, text, e);
}

static void live(struct job_rec *r, enum stage until)
{
	struct err e;

	memset(r, 0, sizeof *r);
	r->id = 1;
	for (size_t i = 0; i < sizeof steps / sizeof *steps && steps[i].stage <= until; i++)
		if (post(r, steps[i].type, steps[i].data, &e) < 0)
			tap_bail("%s: %s", event_name(steps[i].type), e.text);
}

/* All that a record says, as text: two that are the same are equal. */
static char *whole(const struct job_rec *r)
{
	struct attempt_row a;
	struct job_row j;
	char *out, *more;

	rec_job_row(r, &j);
	out = xasprintf("%s %s %s %s %s %s %s %s|%d %llu %llu %llu %llu %llu %llu|%lld %u %u %u", j.status,
	                j.wanted, j.reason, j.name, j.queue, j.notes, j.rungs, j.begins, (int)j.exit_code,
	                (unsigned long long)j.created_us, (unsigned long long)j.queued_us,
	                (unsigned long long)j.started_us, (unsigned long long)j.ended_us,
	                (unsigned long long)j.ran_us, (unsigned long long)j.runs_since_us, (long long)j.priority,
	                j.attempts, j.halved, j.deleted);
	if (!r->att)
		return out;
	rec_attempt_row(r, &a);
	more = xasprintf("%s|%s %s %s %s %s %s %lld %llu", out, a.state, a.outcome, a.cls, a.reason, a.placement,
	                 a.phases, (long long)a.exit_code, (unsigned long long)a.ended_us);
	free(out);
	attempt_row_borrowed_fini(&a);
	for (uint32_t i = 0; i < r->att->n_ranks; i++) {
		struct rank_row k;

		out = more;
		rec_rank_row(r, i, &k);
		more = xasprintf("%s|%s %d %d %u", out, k.state, (int)k.exit_code, (int)k.signal, k.oom);
		free(out);
	}
	return more;
}

/* ---- refusals --------------------------------------------------------------------------------- */

#define OLD 99 /* an attempt that is not the newest */

static const struct refusal {
	enum stage stage;
	enum event_type type;
	uint32_t attempt; /* 0: the right one */
	const char *data, *says;
} refusals[] = {
    {NOTHING, EV_TAGGED, 0, "{}", "tagged before the job was submitted"},
    {NOTHING, EV_SUBMITTED, 0, "{\"status\": \"running\"}", "cannot be the first"},
    {NOTHING, EV_SUBMITTED, 0, "{\"status\": \"odd\"}", "cannot be the first"},
    {NOTHING, EV_SUBMITTED, 0, "{\"status\": 3}", "cannot be the first"},
    {QUEUED, EV_SUBMITTED, 0, "{\"status\": \"queued\"}", "twice"},
    {QUEUED, EV_JOINED, 0, "{}", "joined is not an event of a job"},
    {QUEUED, EV_TOKEN_MADE, 0, "{}", "token_made is not an event of a job"},
    {QUEUED, N_EVENT_TYPE, 0, "{}", "? is not an event of a job"},
    {QUEUED, EV_RELEASED, 0, "{}", "that is queued cannot become queued"},
    {RUNNING, EV_HELD, 0, "{}", "that is running cannot become held"},
    {OVER, EV_RELEASED, 0, "{}", "the job is not held"},
    {QUEUED, EV_MEMBERS_RUN, 0, "{}", "the job has no members"},
    {QUEUED, EV_RUNG, 0, "{\"value\": 1}", "the job is not a member"},
    {ENDED, EV_STOP_WANTED, 0, "{}", "the job has ended"},
    {ENDED, EV_REQUEUE_WANTED, 0, "{}", "the job has ended"},
    {QUEUED, EV_REQUEUED, 0, "{}", "cannot become queued"},
    {OUTCOME, EV_REQUEUED, 0, "{}", "its attempt goes on"},
    {OUTCOME, EV_ENDED, 0, "{\"status\": \"completed\", \"exit_code\": 0}", "its attempt goes on"},
    {OVER, EV_ENDED, 0, "{\"status\": \"queued\"}", "not an end state"},
    {OVER, EV_ENDED, 0, "{\"status\": 8}", "not an end state"},
    {OVER, EV_ENDED, 0, "{\"status\": \"completed\", \"exit_code\": 1}", "without exit code 0"},
    {OVER, EV_ENDED, 0, "{\"status\": \"completed\", \"exit_code\": \"0\"}", "without exit code 0"},
    {ENDED, EV_ENDED, 0, "{\"status\": \"failed\"}", "that is completed cannot become failed"},
    {OVER, EV_REMOVED, 0, "{}", "the job has not ended"},
    {QUEUED, EV_PLACED, OLD, "{\"epoch\": 1, \"nodes\": " NODES "}", "attempt 99 does not follow 0"},
    {QUEUED, EV_PLACED, 0, "{\"epoch\": \"1\", \"nodes\": " NODES "}", "does not follow"},
    {QUEUED, EV_PLACED, 0, "{\"epoch\": -1, \"nodes\": " NODES "}", "does not follow"},
    {QUEUED, EV_PLACED, 0, "{\"epoch\": 1e300, \"nodes\": " NODES "}", "does not follow"},
    {QUEUED, EV_PLACED, 0, "{\"epoch\": 1}", "a placement of 0 nodes"},
    {QUEUED, EV_PLACED, 0, "{\"epoch\": 1, \"nodes\": \"a\"}", "a placement of 0 nodes"},
    {QUEUED, EV_PLACED, 0, "{\"epoch\": 1, \"nodes\": [{\"ranks\": 1e9}]}", "too many ranks"},
    {QUEUED, EV_PLACED, 0, "{\"epoch\": 1, \"nodes\": [{\"ranks\": 40000}, {\"ranks\": 40000}]}",
     "too many ranks"},
    {RUNNING, EV_PLACED, 0, "{\"epoch\": 2, \"nodes\": " NODES "}", "that is running cannot become starting"},
    {PLACED, EV_NODE_READY, OLD, "{\"node_rank\": 0}", "attempt 99 is not the newest"},
    {PLACED, EV_NODE_READY, 0, "{\"node_rank\": -1}", "no node of that number"},
    {PLACED, EV_NODE_READY, 0, "{}", "no node of that number"},
    {PLACED, EV_NODE_READY, 0, "{\"node_rank\": 1e300}", "no node of that number"},
    {QUEUED, EV_NODE_BLAMED, 0, "{\"node_rank\": 0}", "is not the newest"},
    {RUNNING, EV_NODE_PREPARING, 0, "{\"node_rank\": 0}", "that is running cannot become preparing"},
    {OVER, EV_NODE_LOST, 0, "{\"node_rank\": 0}", "that is cleaned cannot become lost"},
    {PLACED, EV_NODE_BLAMED, 0, "{\"node_rank\": 2}", "no node of that number"},
    {ENDING, EV_NODE_SAVED, 0, "{\"node_rank\": 0}", "too early or too late"},
    {CLEANED, EV_NODE_SAVED, 0, "{\"node_rank\": 0}", "too early or too late"},
    {OUTCOME, EV_NODE_SAVED, 0, "{\"node_rank\": \"0\"}", "no node of that number"},
    {LAUNCHING, EV_LAUNCHING, 0, "{}", "that is launching cannot become launching"},
    {PLACED, EV_LAUNCHING, OLD, "{}", "is not the newest"},
    {RUNNING, EV_RANK_LOST, OLD, "{\"rank\": 0}", "is not the newest"},
    {RUNNING, EV_RANK_LOST, 0, "{\"rank\": -1}", "no such rank"},
    {RUNNING, EV_RANK_LOST, 0, "{\"rank\": \"0\"}", "no such rank"},
    {RUNNING, EV_RANK_STARTED, 0, "{\"rank\": 0}", "that is running cannot become running"},
    {OUTCOME, EV_RANK_LOST, 0, "{\"rank\": 0}", "its attempt is over"},
    {QUEUED, EV_ENDING, 0, "{\"class\": \"\", \"status\": \"stopping\"}", "is not the newest"},
    {ENDING, EV_ENDING, 0, "{\"class\": \"\", \"status\": \"stopping\"}",
     "that is ending cannot become ending"},
    {RUNNING, EV_ENDING, 0, "{\"class\": \"odd\", \"status\": \"stopping\"}", "unknown class or status"},
    {RUNNING, EV_ENDING, 0, "{\"class\": \"\", \"status\": \"failed\"}", "unknown class or status"},
    {RUNNING, EV_ENDING, 0, "{}", "unknown class or status"},
    {RUNNING, EV_LAUNCHER, 0, "{}", "too early or too late"},
    {OUTCOME, EV_LAUNCHER, 0, "{}", "too early or too late"},
    {ENDING, EV_LAUNCHER, OLD, "{}", "is not the newest"},
    {QUEUED, EV_OUTCOME, 0, "{\"outcome\": \"failed\"}", "is not the newest"},
    {RUNNING, EV_OUTCOME, 0, "{\"outcome\": \"failed\"}", "too early"},
    {OUTCOME, EV_OUTCOME, 0, "{\"outcome\": \"failed\"}", "twice"},
    {ENDING, EV_OUTCOME, 0, "{\"outcome\": \"\"}", "unknown"},
    {ENDING, EV_OUTCOME, 0, "{\"outcome\": \"failed\", \"class\": \"odd\"}", "unknown"},
    {ENDING, EV_ATTEMPT_ENDED, 0, "{}", "without an outcome"},
    {OUTCOME, EV_ATTEMPT_ENDED, 0, "{}", "node 0 is not cleaned"},
    {OVER, EV_ATTEMPT_ENDED, 0, "{}", "that is ended cannot become ended"},
};

static void test_refusals(void)
{
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		const struct refusal *c = &refusals[i];
		char *before, *after;
		struct job_rec r;
		struct err e = {0};
		int rc;

		live(&r, c->stage);
		before = whole(&r);
		rc = c->attempt ? post_to(&r, c->type, c->attempt, c->data, &e) : post(&r, c->type, c->data, &e);
		after = whole(&r);
		ok(rc == -1 && e.code == ERR_INTERNAL && strstr(e.text, c->says), "%s %s: %s", event_name(c->type),
		   c->data, rc ? e.text : "taken");
		is_str(after, before, "nothing has changed");
		free(before);
		free(after);
		rec_fini(&r);
	}
}

/* An outcome needs the fate of each rank; success, an end with 0 of each. */
static void test_outcomes(void)
{
	struct job_rec r;
	struct err e;

	live(&r, RUNNING);
	is_int(post(&r, EV_ENDING, "{\"class\": \"timeout\", \"status\": \"stopping\"}", &e), 0, "ending");
	is_int(post(&r, EV_OUTCOME, "{\"outcome\": \"failed\"}", &e), -1, "no outcome while a rank runs");
	golden("hearthd/event-outcome-while-rank-runs-on-record", e.text, "rank 0");
	is_int(post(&r, EV_RANK_LOST, "{\"rank\": 0, \"text\": \"gone\"}", &e), 0, "it is lost");
	is_int(post(&r, EV_OUTCOME, "{\"outcome\": \"succeeded\"}", &e), -1, "that is no success");
	golden("hearthd/event-not-every-rank-exited-with", e.text, "0");
	is_int(post(&r, EV_LAUNCHER, "{\"reason\": \"mpirun died\"}", &e), 0, "the launcher's end as the reason");
	is_int(r.att->cls, RC_LAUNCH, "is the class");
	is_str(r.reason, "mpirun died", "and the job's reason");
	is_int(post(&r, EV_OUTCOME, "{\"outcome\": \"lost\", \"class\": \"unknown\", \"reason\": \"x\"}", &e), 0,
	       "lost");
	is_int(r.att->cls, RC_UNKNOWN, "with its class");
	rec_fini(&r);

	live(&r, CLEANED);
	is_int(post(&r, EV_ATTEMPT_ENDED,
	            "{\"outcome\": \"failed\", \"class\": \"staging\", \"reason\": \"upload\"}", &e),
	       0, "a success that could not be saved");
	is_int(r.att->outcome, OUT_FAILED, "is a failure");
	is_int(r.att->cls, RC_STAGING, "of that class");
	is_str(r.att->reason, "upload", "for that reason");
	rec_fini(&r);
	live(&r, CLEANED);
	is_int(post(&r, EV_ATTEMPT_ENDED, "{\"outcome\": \"failed\", \"class\": \"odd\"}", &e), 0,
	       "of a class that is none");
	is_int(r.att->cls, RC_UNKNOWN, "it is unknown, not a success");
	rec_fini(&r);
}

/* ---- what events do --------------------------------------------------------------------------- */

static void test_job_events(void)
{
	struct job_rec r;
	struct err e;

	live(&r, QUEUED);
	is_int(post(&r, EV_CHANGED,
	            "{\"priority\": 5, \"queue\": \"q\", \"notes\": \"x\", \"name\": \"m\", \"pinned\": 1, "
	            "\"max_runtime_s\": 60}",
	            &e),
	       0, "changed");
	ok(r.priority == 5 && r.pinned == 1 && r.max_runtime_s == 60, "numbers");
	ok(!strcmp(r.queue, "q") && !strcmp(r.notes, "x") && !strcmp(r.name, "m"), "texts");
	is_int(post(&r, EV_CHANGED, "{\"priority\": \"9\", \"queue\": 3, \"notes\": null, \"name\": []}", &e), 0,
	       "fields of the wrong type");
	ok(r.priority == 5 && !strcmp(r.queue, "q") && !strcmp(r.notes, "x") && !strcmp(r.name, "m"),
	   "change nothing");
	is_int(post(&r, EV_CHANGED, "{\"notes\": \"\"}", &e), 0, "an empty text");
	ok(!r.notes, "takes it away");
	is_int(post(&r, EV_HELD, "{\"reason\": \"by ada\"}", &e), 0, "held");
	is_int(post(&r, EV_HELD, "{}", &e), -1, "once");
	is_int(post(&r, EV_PLACED, "{\"epoch\": 1, \"nodes\": " NODES "}", &e), -1, "what is held is not placed");
	is_int(post(&r, EV_REQUEUED, "{}", &e), -1, "nor requeued");
	golden("hearthd/event-requeued-the-job-is-held", e.text);
	is_int(post(&r, EV_RELEASED, "{}", &e), 0, "released");
	is_int(r.queued_us, now - 1, "it waits from then on");
	is_int(post(&r, EV_AWAITED, "{\"reason\": \"job 3\"}", &e), 0, "waits for another");
	is_str(r.reason, "job 3", "that is why");
	is_int(post(&r, EV_TAGGED, "{\"key\": \"k\"}", &e), 0, "tagged");
	is_int(post(&r, EV_ARTIFACT, "{}", &e), 0, "artifact");
	is_int(post(&r, EV_REQUEUE_WANTED, "{\"reason\": \"again\"}", &e), 0, "requeue");
	is_int(r.wanted, WANT_REQUEUE, "is wanted");
	is_int(post(&r, EV_STOP_WANTED, "{\"halved\": true}", &e), 0, "then a stop");
	ok(r.wanted == WANT_STOP && r.halved, "of one that was halved");
	is_int(post(&r, EV_ENDED, "{\"status\": \"stopped\", \"reason\": \"by ada\"}", &e), 0, "stopped");
	ok(r.wanted == WANT_NOTHING && r.exit_code == -1 && r.ended_us,
	   "nothing is wanted any more, no exit code");
	is_int(post(&r, EV_CLEANUP, "{\"text\": \"left behind\"}", &e), 0, "a clean-up that went wrong");
	is_str(r.cleanup, "left behind", "is told after the end, too");
	is_int(post(&r, EV_REMOVED, "{}", &e), 0, "removed");
	ok(r.deleted, "is marked");
	rec_fini(&r);
}

/* A second attempt after a wait: the time between them is in neither. */
static void test_ran(void)
{
	struct job_rec r;
	struct err e;
	uint64_t first;

	live(&r, LAUNCHING);
	ok(!r.ran_us && !r.runs_since_us, "nothing ran before the first rank");
	rec_fini(&r);
	live(&r, RUNNING);
	ok(!r.ran_us && r.runs_since_us == r.att->phases[PHASE_RUNNING].started_us,
	   "it runs since its first rank's start");
	rec_fini(&r);
	live(&r, OVER);
	first = r.att->phases[PHASE_UPLOADING].started_us - r.att->phases[PHASE_RUNNING].started_us;
	ok(r.ran_us == first && first && !r.runs_since_us, "until what its ranks did is settled: %d us",
	   (int)first);
	now += 1000000;
	is_int(post(&r, EV_REQUEUED, "{}", &e), 0, "it waits again");
	is_int(post(&r, EV_PLACED, "{\"epoch\": 2, \"launch_id\": \"1.2\", \"nodes\": " NODES "}", &e), 0,
	       "a second attempt");
	ok(r.ran_us == first && !r.runs_since_us, "that does not run yet");
	for (size_t i = 2; i < sizeof steps / sizeof *steps && steps[i].stage <= RUNNING; i++)
		post(&r, steps[i].type, steps[i].data, &e);
	ok(r.ran_us == first && r.runs_since_us == r.att->phases[PHASE_RUNNING].started_us, "which runs");
	is_int(ran_until_us(r.ran_us, r.runs_since_us, r.runs_since_us + 7), first + 7,
	       "as long as both together");
	is_int(ran_until_us(r.ran_us, r.runs_since_us, r.runs_since_us - 7), first,
	       "a clock that was set back takes nothing away");
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (steps[i].stage > RUNNING && steps[i].stage <= OUTCOME)
			post(&r, steps[i].type, steps[i].data, &e);
	ok(r.ran_us == 2 * first && !r.runs_since_us, "and at its end the sum is kept: %d us", (int)r.ran_us);
	rec_fini(&r);
}

static void test_array_events(void)
{
	struct job_rec r = {.id = 10};
	struct err e;

	post(&r, EV_SUBMITTED, "{\"status\": \"queued\", \"members\": 3}", &e);
	is_int(post(&r, EV_MEMBERS_RUN, "{}", &e), 0, "the first member runs");
	ok(r.status == JOB_RUNNING && r.started_us, "so does the whole");
	is_int(post(&r, EV_HELD, "{\"reason\": \"wait\"}", &e), 0, "held while members run");
	is_int(post(&r, EV_MEMBERS_RUN, "{}", &e), 0, "another one starts that was let go before");
	is_int(r.status, JOB_HELD, "it is still held");
	is_str(r.reason, "wait", "and says why");
	is_int(post(&r, EV_RELEASED, "{}", &e), 0, "released");
	is_int(r.status, JOB_RUNNING, "it goes on, it does not begin");
	is_int(post(&r, EV_MEMBERS_RUN, "{}", &e), -1, "it runs already");
	is_int(post(&r, EV_PLACED, "{\"epoch\": 1, \"nodes\": " NODES "}", &e), -1, "a whole has no attempt");
	is_int(post(&r, EV_ENDED, "{\"status\": \"failed\", \"halved\": true}", &e), 0, "it ends");
	ok(r.halved, "with that word");
	ok(!rec_check(&r), "all holds");
	r.attempts = 1;
	golden("hearthd/event-an-array-with-an-attempt-of-its", rec_check(&r));
	rec_fini(&r);

	r = (struct job_rec){.id = 14};
	post(&r, EV_SUBMITTED, "{\"status\": \"held\", \"array\": 10, \"name\": \"m\"}", &e);
	is_int(post(&r, EV_RUNG, "{\"value\": 0.5}", &e), 0, "a member's value");
	is_int(post(&r, EV_RUNG, "{\"value\": null}", &e), 0, "one that is no number");
	is_int(post(&r, EV_RUNG, "{}", &e), 0, "one that is missing");
	is_str(r.rungs, "0.5 nan nan", "they are kept in order");
	ok(r.queued_us == 0 && rec_index(&r) == 3, "held: it does not wait yet");
	rec_fini(&r);
}

static void test_place_events(void)
{
	struct job_rec r;
	struct err e;

	live(&r, PLACED);
	is_int(post(&r, EV_NODE_PREPARING, "{\"node_rank\": 1}", &e), 0, "the first node gets ready");
	ok(r.att->phases[PHASE_PROVISIONING].ended_us && r.att->phases[PHASE_STAGING].started_us,
	   "staging begins");
	post(&r, EV_NODE_READY, "{\"node_rank\": 1}", &e);
	is_int(post(&r, EV_NODE_PREPARING, "{\"node_rank\": 1}", &e), 0, "once more, where it was lost");
	is_int(post(&r, EV_NODE_FAILED, "{\"node_rank\": 1, \"class\": \"odd\", \"culprit\": true}", &e), 0,
	       "failed");
	ok(r.att->places[1].cls == RC_UNKNOWN && r.att->places[1].culprit, "an unknown class is unknown");
	is_int(post(&r, EV_NODE_LOST, "{\"node_rank\": 0, \"unconfirmed\": true, \"silent_us\": \"x\"}", &e), 0,
	       "lost");
	ok(r.att->places[0].unconfirmed && r.att->places[0].silent_us == 0,
	   "nobody confirmed it, since when is unknown");
	is_int(post(&r, EV_NODE_BLAMED, "{\"node_rank\": 0, \"text\": \"silent\"}", &e), 0, "blamed");
	ok(r.att->places[0].culprit && !strcmp(r.att->places[0].text, "silent"), "it is, with the reason");
	is_int(post(&r, EV_NODE_BLAMED, "{\"node_rank\": 0, \"text\": 1}", &e), 0, "blamed once more");
	is_str(r.att->places[0].text, "silent", "a text that is none takes nothing away");
	ok(rec_place_of(r.att, 2) == &r.att->places[1] && !rec_place_of(r.att, 3), "nodes are found by number");
	ok(!rec_limited(r.att), "no limit was reached");
	rec_fini(&r);

	live(&r, RUNNING);
	post(&r, EV_NODE_STOPPING, "{\"node_rank\": 0, \"class\": \"disk\", \"text\": \"10 GiB\"}", &e);
	ok(rec_limited(r.att) == &r.att->places[0], "an agent that stops it for its disk");
	is_int(post(&r, EV_RANK_EXITED,
	            "{\"rank\": 1, \"exit_code\": 137, \"signal\": 9, \"ended_by\": \"launcher\"}", &e),
	       0, "a rank that its launcher took along");
	ok(r.att->ranks[1].ended_by == BY_LAUNCHER && rec_looks_killed(r.att, 1), "looks killed");
	is_int(post(&r, EV_RANK_FAILED, "{\"rank\": 2, \"ended_by\": \"odd\", \"text\": \"not found\"}", &e), 0,
	       "one that never started");
	is_int(r.att->ranks[2].ended_by, BY_ITSELF, "an unknown cause is none");
	is_int(rec_rank_class(&r.att->ranks[2]), RC_USER_ERROR, "that is the user's");
	is_int(rec_rank_class(&r.att->ranks[1]), RC_SIGNAL, "a signal is a signal");
	is_int(rec_first_failed(r.att), 2, "and it failed first");
	rec_fini(&r);
	live(&r, OUTCOME);
	is_int(post(&r, EV_NODE_SAVED, "{\"node_rank\": 1}", &e), 0, "all is on record");
	ok(r.att->places[1].saved, "of that node");
	rec_fini(&r);
}

/* Whatever an event carries: an answer, and a record that can be written. */
static void test_odd_data(void)
{
	static const char *const odd[] = {
	    "{}",
	    "[1, 2]",
	    "\"text\"",
	    "17",
	    "null",
	    "not JSON at all",
	    "{\"rank\": 1e300, \"node_rank\": -1e300, \"epoch\": 1e300, \"exit_code\": 1e300, "
	    "\"priority\": -1e300, \"pid\": 1e300, \"started_us\": -5, \"nodes\": 1e300}",
	    "{\"rank\": {}, \"node_rank\": [], \"epoch\": true, \"exit_code\": \"0\", "
	    "\"status\": 1, \"outcome\": 2, \"class\": [], \"nodes\": {\"a\": 1}}",
	    "{\"rank\": 0, \"node_rank\": 0, \"exit_code\": 1e12, \"signal\": -1e12, "
	    "\"started_us\": 1e300, \"silent_us\": 1e300}",
	    "{\"epoch\": 2, \"nodes\": [[], 1, null, {\"ranks\": -1, \"node_id\": 1e300, "
	    "\"group\": 1e300, \"gpus\": [1e300, -1, \"x\"]}]}"};
	unsigned taken = 0, refused = 0, bad = 0;

	for (int stage = NOTHING; stage <= ENDED; stage++)
		for (int t = 0; t < N_EVENT_TYPE; t++)
			for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
				struct job_rec r;
				struct err e = {0};

				live(&r, (enum stage)stage);
				if (post(&r, (enum event_type)t, odd[i], &e) < 0)
					bad += !(refused++, e.text[0]);
				else
					taken++;
				free(whole(&r));
				rec_fini(&r);
			}
	ok(taken > 100 && refused > 1000 && !bad, "odd data: %u taken, %u refused, each with a reason", taken,
	   refused);
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define TEXT(s) ((char *)(uintptr_t)(s))

static void test_odd_rows(void)
{
	static const char *const placements[] = {NULL, "", "{", "{}", "[]", "7", "[{\"ranks\": 1e12}]"};
	struct job_rec r = {0};
	struct job_row j = {.id = 1, .status = TEXT("odd")};
	struct attempt_row a = {.number = 1, .state = TEXT("running")};
	struct rank_row k = {.attempt = 1, .state = TEXT("exited")};
	struct err e;

	is_int(rec_from_job_row(&r, &j, &e), -1, "a job in a state that is none");
	like(e.text, "job 1: unknown status \"odd\"", "is refused by name");
	j.status = NULL;
	is_int(rec_from_job_row(&r, &j, &e), -1, "in no state");
	j.status = TEXT("queued");
	j.wanted = TEXT("odd");
	is_int(rec_from_job_row(&r, &j, &e), -1, "that wants what is unknown");
	j.wanted = NULL;
	j.run = TEXT("{\"max_runtime_s\": 60}");
	is_int(rec_from_job_row(&r, &j, &e), 0, "one that is as it should be");
	is_int(r.max_runtime_s, 60, "its time limit was set later");
	j.run = TEXT("{\"max_runtime_s\": \"60\"}");
	rec_from_job_row(&r, &j, &e);
	is_int(r.max_runtime_s, 0, "a limit that is no number is none");
	is_int(rec_from_rank_row(&r, &k), -1, "a rank without its attempt");
	for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
		a.placement = TEXT(placements[i]);
		ok(rec_from_attempt_row(&r, &a, &e) == -1 && e.text[0], "a placement that is none: %s",
		   placements[i] ? placements[i] : "(missing)");
	}
	a.placement = TEXT(NODES);
	a.phases = TEXT("[{\"name\": \"odd\", \"started_us\": 1, \"ended_us\": 2}, {\"name\": \"running\"}, 7,"
	                "{\"name\": \"staging\", \"started_us\": 5, \"ended_us\": 6}]");
	is_int(rec_from_attempt_row(&r, &a, &e), 0, "one that can be read");
	ok(r.att->phases[PHASE_STAGING].ended_us == 6 && !r.att->phases[PHASE_RUNNING].started_us,
	   "of the phases what can be read");
	k.rank = 3;
	is_int(rec_from_rank_row(&r, &k), -1, "a rank that it does not have");
	k.rank = 0;
	k.attempt = 2;
	is_int(rec_from_rank_row(&r, &k), -1, "a rank of another attempt");
	k.attempt = 1;
	k.state = TEXT("odd");
	is_int(rec_from_rank_row(&r, &k), -1, "a rank in a state that is none");
	k.state = TEXT("exited");
	is_int(rec_from_rank_row(&r, &k), 0, "one that it has");
	rec_fini(&r);
}

/* Each thing that must hold, broken by hand. */
static void broken(struct job_rec *r, const char *says)
{
	is_str(rec_check(r), says, says);
	rec_fini(r);
}

static void test_check(void)
{
	struct job_rec r;

	for (int s = QUEUED; s <= ENDED; s++) {
		live(&r, (enum stage)s);
		ok(s == OVER || !rec_check(&r), "a record in order, stage %d", s);
		rec_fini(&r);
	}
#define BREAK(stage, field, value, says)                                                                     \
	live(&r, stage);                                                                                         \
	r.field = value;                                                                                         \
	broken(&r, says)
	BREAK(QUEUED, ended_us, 5, "ended_us and status disagree");
	BREAK(ENDED, wanted, WANT_STOP, "an ended job still wants something");
	BREAK(ENDED, exit_code, 1, "completed with an exit code");
	BREAK(QUEUED, status, JOB_STARTING, "busy without an attempt that goes on");
	BREAK(PLACED, status, JOB_QUEUED, "an attempt goes on without the job");
	BREAK(PLACED, status, JOB_RUNNING, "the job runs, its attempt does not");
	BREAK(PLACED, attempts, 2, "the newest attempt is not the last one counted");
	BREAK(PLACED, epoch, 2, "the attempt's epoch is not the job's");
	BREAK(ENDED, att->ended_us, 0, "an attempt ended without time or outcome");
	BREAK(PLACED, att->ended_us, 5, "an attempt goes on after its end");
	BREAK(PLACED, att->outcome, OUT_FAILED, "an outcome before the end");
	BREAK(ENDED, att->ranks[1].exit_code, 1, "succeeded although not every rank exited with 0");
	BREAK(ENDING, att->ranks[1].exit_code, -1, "a rank exited without a status");
	BREAK(ENDED, att->places[1].state, PLACE_ENDED, "an attempt is being collected without the job");
	live(&r, OUTCOME);
	r.att->outcome = OUT_FAILED;
	r.att->ranks[1].state = RANK_RUNNING;
	broken(&r, "an outcome while the fate of a rank is open");
}

int main(void)
{
	test_pairs();
	test_refusals();
	test_outcomes();
	test_job_events();
	test_ran();
	test_array_events();
	test_place_events();
	test_odd_data();
	test_odd_rows();
	test_check();
	return tap_done();
}
