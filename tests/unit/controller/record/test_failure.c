/* failure: lines of failures in an attempt's record, the cause that they give with the ends of ranks, and
 * their way from an agent's report to the events of a job and through a restart of hearthd. */
#include "controller/record/failure.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/core.h"
#include "controller/record/rec.h"
#include "controller/state/jobs.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

#define NO_RANK 0xffffffffu

/* ---- causes ------------------------------------------------------------------------------------------ */

static struct place_rec places[2] = {{.node = (char *)(uintptr_t) "a"}, {.node = (char *)(uintptr_t) "b"}};
static struct rank_rec ranks[4];

static struct attempt_rec make_attempt(void)
{
	for (uint32_t i = 0; i < 4; i++)
		ranks[i] = (struct rank_rec){
		    .place = i / 2, .state = RANK_EXITED, .signal = -1, .started_us = 1, .ended_us = 100 + i};
	for (uint32_t i = 0; i < 2; i++)
		places[i].state = PLACE_ENDED;
	return (struct attempt_rec){.places = places, .ranks = ranks, .n_places = 2, .n_ranks = 4};
}

static void add_line(struct attempt_rec *a, uint32_t rank, enum reason_class cls, enum line_verdict v,
                     uint64_t at_us)
{
	struct failure_rec f = {.rank = rank,
	                        .place = rank < 4 ? rank / 2 : 0,
	                        .cls = cls,
	                        .verdict = v,
	                        .at_us = at_us,
	                        .reason = (char *)(uintptr_t) "the reason",
	                        .line = (char *)(uintptr_t) "the line"};
	cJSON *d = failure_json(&f);

	if (failure_list_wants(a->failures, &f))
		failure_list_add(&a->failures, d);
	cJSON_Delete(d);
}

/* Returns "CLASS VERDICT RANK" and forgets the lines. */
static const char *cause_of(struct attempt_rec *a)
{
	static char out[100];
	struct attempt_cause c = attempt_cause(a, NULL);

	snprintf(out, sizeof(out), "%s %s %u", state_name(STATE_CLASS, (int)c.cls), verdict_name(c.verdict),
	         c.rank);
	failure_list_free(a->failures);
	a->failures = NULL;
	return out;
}

static void test_facts(void)
{
	struct attempt_rec a = make_attempt();

	ranks[2].exit_code = 1;
	is_str(cause_of(&a), "unknown unknown 2", "an exit code alone does not say the cause");
	ranks[2].signal = SIGSEGV;
	is_str(cause_of(&a), "signal move 2", "a signal: try elsewhere");
	ranks[2].oom = 1;
	is_str(cause_of(&a), "oom user 2", "the kernel's out of memory is certain");
	places[1].state = PLACE_LOST;
	is_str(cause_of(&a), "node_lost move 2", "a lost node is certain");
}

static void test_lines(void)
{
	struct attempt_rec a = make_attempt();

	ranks[3].exit_code = 1;
	add_line(&a, 0, RC_NETWORK, VERDICT_SYMPTOM, 50);
	add_line(&a, 3, RC_OOM, VERDICT_USER, 70);
	add_line(&a, 2, RC_USER_ERROR, VERDICT_USER, 60);
	is_str(cause_of(&a), "user_error user 2", "the earliest of the strongest lines");
	add_line(&a, 0, RC_NETWORK, VERDICT_SYMPTOM, 50);
	is_str(cause_of(&a), "network symptom 0", "a symptom is better than nothing");
	add_line(&a, 1, RC_USER_ERROR, VERDICT_USER, 50);
	add_line(&a, 1, RC_GPU, VERDICT_DRAIN, 90);
	is_str(cause_of(&a), "gpu drain 1", "a stronger line of the same rank replaces the weaker one");
	ranks[3].signal = SIGKILL;
	add_line(&a, 0, RC_NETWORK, VERDICT_SYMPTOM, 50);
	is_str(cause_of(&a), "signal move 3", "a signal is stronger than a symptom");
	add_line(&a, 0, RC_USER_ERROR, VERDICT_USER, 50);
	is_str(cause_of(&a), "signal move 3", "an error does not explain a kill from outside");
	ranks[3].signal = SIGABRT;
	add_line(&a, 0, RC_USER_ERROR, VERDICT_USER, 50);
	is_str(cause_of(&a), "user_error user 0", "but it explains a crash");
	ranks[3].oom = 1;
	add_line(&a, 0, RC_USER_ERROR, VERDICT_USER, 50);
	is_str(cause_of(&a), "oom user 3", "the kernel's word is stronger than a program's");
	add_line(&a, 0, RC_GPU, VERDICT_DRAIN, 50);
	is_str(cause_of(&a), "gpu drain 0", "broken hardware is stronger than the kernel's word");
	add_line(&a, NO_RANK, RC_LAUNCH, VERDICT_MOVE, 50);
	ranks[3] = ranks[2];
	is_str(cause_of(&a), "launch move 4", "a launcher's line blames no rank");
}

/* A program that went on after a line did not end because of it. */
static void test_outlived(void)
{
	struct attempt_rec a = make_attempt();
	uint64_t steps[4] = {0, 5000000, 0, 0};

	ranks[1].exit_code = 9;
	ranks[1].ended_us = 100000000;
	add_line(&a, 1, RC_USER_ERROR, VERDICT_USER, 10000000);
	is_str(cause_of(&a), "unknown unknown 1", "a line 90 s before the end of its rank");
	add_line(&a, 1, RC_USER_ERROR, VERDICT_USER, 99000000);
	is_str(cause_of(&a), "user_error user 1", "one of the last second");
	add_line(&a, 1, RC_GPU, VERDICT_DRAIN, 10000000);
	is_str(cause_of(&a), "gpu drain 1", "broken hardware counts whenever it was said");
	ranks[1].ended_us = 6000000;
	add_line(&a, 1, RC_USER_ERROR, VERDICT_USER, 1000000);
	is_int((int)attempt_cause(&a, steps).cls, RC_UNKNOWN, "a step of the rank after the line");
	steps[1] = 1500000;
	is_int((int)attempt_cause(&a, steps).cls, RC_USER_ERROR, "a step at the time of the line");
	ranks[1].exit_code = 0;
	ranks[1].signal = SIGKILL;
	is_str(cause_of(&a), "signal move 1", "a kill from outside is not a mistake of the program");
	add_line(&a, 1, RC_USER_ERROR, VERDICT_USER, 1000000);
	ranks[1].ended_by = 1;
	is_str(cause_of(&a), "user_error user 1", "but its launcher or Hearth kills a rank after its mistake");
}

static void test_bound(void)
{
	struct attempt_rec a = make_attempt();
	struct failure_rec f = {.cls = RC_GPU, .verdict = VERDICT_DRAIN};

	for (uint32_t i = 0; i < 3 * FAILURES_MAX; i++)
		add_line(&a, i, RC_NETWORK, VERDICT_SYMPTOM, i);
	is_int(a.failures->n, FAILURES_MAX, "a bounded number of lines");
	for (f.rank = 100; f.rank < 100 + FAILURES_MAX; f.rank++) {
		ok(failure_list_wants(a.failures, &f), "a stronger line replaces a weaker one");
		add_line(&a, f.rank, f.cls, f.verdict, 1);
	}
	ok(!failure_list_wants(a.failures, &f), "when all are as strong, none more");
	is_int(a.failures->n, FAILURES_MAX, "the number stays");
	failure_list_free(a.failures);
}

static void test_words(void)
{
	struct attempt_rec a = make_attempt();
	struct attempt_cause c;
	TEXT(t);

	add_line(&a, 3, RC_OOM, VERDICT_USER, 70);
	c = attempt_cause(&a, NULL);
	attempt_cause_words(&a, &c, &t);
	is_str(t.at, "rank 3 on b: the line (the reason)", "rank, node, line and reason");
	failure_list_free(a.failures);
	a.failures = NULL;
	text_clear(&t);
	add_line(&a, NO_RANK, RC_LAUNCH, VERDICT_MOVE, 70);
	c = attempt_cause(&a, NULL);
	attempt_cause_words(&a, &c, &t);
	is_str(t.at, "the launcher on a: the line (the reason)", "a launcher's line");
	failure_list_free(a.failures);
}

/* ---- reports ----------------------------------------------------------------------------------------- */

static void report_line(struct world *w, uint64_t job, uint64_t epoch, uint32_t rank, uint8_t cls, uint8_t v,
                        const char *line)
{
	struct wm_failure_line m = {.job = job,
	                            .attempt = 1,
	                            .epoch = epoch,
	                            .rank = rank,
	                            .stream = (char *)(uintptr_t) "rank-0",
	                            .cls = cls,
	                            .verdict = v,
	                            .reason = (char *)(uintptr_t) "why",
	                            .line = (char *)(uintptr_t)line,
	                            .at_us = 5};

	world_msg(w, "a", 0, WM_FAILURE_LINE, &m);
	world_turn(w);
}

/* Returns "LINE;" of each such event of the job. */
static const char *event_lines(struct world *w, uint64_t job)
{
	static char out[4000];
	cJSON *all = store_events_json(w->reader, job, 0, 0, NULL);
	struct text t = text_on(out, sizeof(out));
	const cJSON *e;

	cJSON_ArrayForEach (e, cJSON_GetObjectItemCaseSensitive(all, "events")) {
		const cJSON *d = cJSON_GetObjectItemCaseSensitive(e, "data");

		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "type")), "failure_line") == 0)
			text_add(&t, "%s %s;", cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, "node")),
			         cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(d, "line")));
	}
	cJSON_Delete(all);
	return out;
}

static void test_reports(void)
{
	struct world *w = world_create(1);
	const struct cjob *j;
	uint64_t id;

	world_agent_up(w, "a", 1, 4);
	id = world_submit(w, "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}");
	world_begin(w, id);
	report_line(w, id, 1, 0, RC_NETWORK, VERDICT_SYMPTOM, "reset by peer\x01");
	is_int(world_count(w, "a", WM_ACK) > 0, 1, "a report is acknowledged");
	report_line(w, id, 1, 0, RC_NETWORK, VERDICT_SYMPTOM, "again");
	report_line(w, id, 1, 0, RC_USER_ERROR, VERDICT_USER, "KeyError");
	report_line(w, id, 2, 0, RC_GPU, VERDICT_DRAIN, "another epoch");
	report_line(w, id, 1, 7, RC_GPU, VERDICT_DRAIN, "no such rank");
	report_line(w, id, 1, 0, 99, VERDICT_DRAIN, "no such class");
	report_line(w, id, 1, 0, RC_GPU, 99, "no such verdict");
	report_line(w, 99, 1, 0, RC_GPU, VERDICT_DRAIN, "no such job");
	is_str(event_lines(w, id), "a reset by peer?;a KeyError;", "events of the lines that count, cleaned");
	world_restart(w);
	j = job_find(w->core, id);
	is_int(j->r.att->failures ? j->r.att->failures->n : 0, 1, "a restart of hearthd keeps the lines");
	is_int(attempt_cause(j->r.att, NULL).cls, RC_USER_ERROR, "and the cause that they give");
	world_destroy(w);
}

/* ---- rules ------------------------------------------------------------------------------------------- */

/* Returns the text of the rules that node "a" got, "" none. */
static const char *rules_sent(struct world *w)
{
	static char out[100];
	struct sent *s;

	world_beat(w, "a");
	s = world_sent(w, "a", WM_FAILURE_PATTERNS);
	snprintf(out, sizeof(out), "%s", s ? ((struct wm_failure_patterns *)s->msg)->text : "");
	if (s)
		sent_free(s);
	return out;
}

static void test_rules(void)
{
	struct world *w = world_create(1);
	cJSON *all;
	char *text;

	world_agent_up(w, "a", 1, 4);
	is_str(rules_sent(w), "", "no rules: nothing is sent");
	core_set_rules(w->core, "file", "one", 1, 1, "");
	is_str(rules_sent(w), "one", "rules come with the next sign of life");
	is_str(rules_sent(w), "", "once");
	core_set_rules(w->core, "file", NULL, 0, 0, "file: line 3: wrong");
	is_str(rules_sent(w), "", "a wrong file changes nothing");
	core_set_rules(w->core, "file", "two", 2, 0, "");
	world_turn(w);
	is_str(rules_sent(w), "two", "a change is sent");
	world_agent_up(w, "a", 1, 4);
	is_str(rules_sent(w), "two", "a new connection gets them again");
	all = store_events_json(w->reader, 0, 0, 0, NULL);
	text = cJSON_PrintUnformatted(all);
	like(text, "{\"file\":\"file\",\"text\":\"file: line 3: wrong\"}", "an event names the wrong line");
	like(text, "{\"file\":\"file\",\"rules\":2}", "an event names the change");
	free(text);
	cJSON_Delete(all);
	world_destroy(w);
}

int main(void)
{
	test_facts();
	test_lines();
	test_outlived();
	test_bound();
	test_words();
	test_reports();
	test_rules();
	return tap_done();
}
