/* Dependencies: what a job waits for, what it is told, and what an end makes of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sched.h"
#include "tests/lib/golden.h"
#include "tests/lib/tap.h"
#include "tests/unit/scheduler/policy/policykit.h"

static void test_after(void)
{
	struct sched *s = kit_cluster((struct sched_policy){0}, 1, 8);
	struct sched_dep on[2] = {{1, SCHED_AFTER_OK}, {2, SCHED_AFTER_ANY}};
	struct sched_reason r;
	struct sched_job j;

	kit_add(s, 1, 1, 1);
	kit_add(s, 2, 1, 1);
	j = kit_gang(3, 1, 1);
	j.after = on;
	j.n_after = 2;
	sched_job_add(s, &j);
	j = kit_gang(4, 1, 1);
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	on[0].kind = SCHED_AFTER_START;
	j = kit_gang(5, 1, 1);
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 1, "the first");
	is_int(kit_step(s, NULL), 2, "the second");
	is_int(kit_step(s, NULL), 5, "what waited for a start");
	is_int(kit_step(s, NULL), 0, "the others wait for ends");
	sched_explain(s, 3, &r);
	golden("scheduler/policy-waits-for-job-to-end-well", r.text, "job 1");
	sched_job_finished(s, 1, 0);
	is_int(kit_step(s, NULL), 0, "it did not end well");
	sched_explain(s, 4, &r);
	is_int(r.why, SCHED_NEVER, "so what needs that never starts");
	sched_job_remove(s, 3);
	sched_job_remove(s, 4);
	sched_job_finished(s, 2, 0);
	on[0] = (struct sched_dep){2, SCHED_AFTER_ANY};
	j = kit_gang(6, 1, 1);
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	is_int(kit_step(s, NULL), 6, "what is long over holds nobody");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

/* A job that is held or sent back has not ended; what is decided later is told, once. */
static void test_after_told(void)
{
	struct sched *s = kit_cluster((struct sched_policy){0}, 1, 8);
	struct sched_dep on[2] = {{1, SCHED_AFTER_OK}, {7, SCHED_AFTER_START}};
	struct sched_settled told;
	struct sched_reason r;
	struct sched_job j;

	kit_add(s, 1, 1, 1);
	sched_job_know(s, 7); /* held from the beginning */
	j = kit_gang(3, 1, 1);
	j.after = on;
	j.n_after = 2;
	sched_job_add(s, &j);
	sched_explain(s, 3, &r);
	golden("scheduler/policy-waits-for-job-to-end-well-job", r.text, "job 1", "job 7");
	is_int(kit_step(s, NULL), 1, "the first starts");
	sched_job_park(s, 1);
	is_int(kit_step(s, NULL), 0, "sent back, it has not ended");
	ok(!sched_settled(s, &told), "and nobody is told that");
	kit_add(s, 1, 1, 1);
	is_int(kit_step(s, NULL), 1, "it starts once more");
	sched_job_finished(s, 1, 1);
	ok(sched_settled(s, &told) && told.job == 3 && told.on == 1 && told.met && told.open == 1,
	   "its good end is told, and that something is still open");
	ok(!sched_settled(s, &told), "once");
	is_int(kit_step(s, NULL), 0, "a held one has not started");
	kit_add(s, 7, 1, 1);
	is_int(kit_step(s, NULL), 7, "released, it starts");
	ok(sched_settled(s, &told) && told.on == 7 && told.met && !told.open, "which is told");
	is_int(kit_step(s, NULL), 3, "and lets the other go");
	j = kit_gang(8, 1, 1);
	on[0] = (struct sched_dep){7, SCHED_AFTER_OK};
	j.after = on;
	j.n_after = 1;
	sched_job_add(s, &j);
	j.id = j.order = 9;
	sched_job_add(s, &j);
	sched_job_remove(s, 9); /* gone before it is told */
	sched_job_finished(s, 7, 0);
	ok(sched_settled(s, &told) && told.job == 8 && !told.met, "a bad end is told, too");
	ok(!sched_settled(s, &told) && !sched_check(s), "of one that is gone nothing");
	sched_destroy(s);
}

/* What was decided and is not carried out was no start. */
static void test_after_taken_back(void)
{
	struct sched *s = kit_cluster((struct sched_policy){0}, 1, 8);
	struct sched_dep on = {1, SCHED_AFTER_START};
	struct sched_settled told;
	struct sched_decision *d;
	struct sched_job j;

	kit_add(s, 1, 1, 1);
	j = kit_gang(2, 1, 1);
	j.after = &on;
	j.n_after = 1;
	sched_job_add(s, &j);
	d = sched_step(s);
	ok(d && d->job == 1, "the first is decided");
	sched_decision_free(d);
	is_int(kit_step(s, NULL), 0, "what waits for its start does not go before it is carried out");
	sched_job_park(s, 1);
	sched_job_started(s, 1);
	is_int(kit_step(s, NULL), 0, "nor when it is taken back");
	kit_add(s, 1, 1, 1);
	ok(!sched_settled(s, &told), "of which nobody is told");
	is_int(kit_step(s, NULL), 1, "decided again and carried out");
	ok(sched_settled(s, &told) && told.job == 2 && told.on == 1 && told.met, "it is told");
	is_int(kit_step(s, NULL), 2, "and the other goes");
	ok(!sched_check(s), "consistent");
	sched_destroy(s);
}

int main(void)
{
	test_after();
	test_after_told();
	test_after_taken_back();
	return tap_done();
}
