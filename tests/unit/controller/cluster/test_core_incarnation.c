/* The core in a new incarnation: numbers and epochs are above all of the lost time line, an event says why,
 * launches of the lost time line are ended before their node gets work, and nothing of it begins twice. */
#include "store/read/find.h"
#include "store/read/load.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

#define ONE "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"

static char last_event[100], last_data[500];
static uint64_t last_event_id;

static void on_event(struct world *w, const struct event_row *ev, void *arg)
{
	(void)w;
	(void)arg;
	if (strcmp(ev->type, "incarnation") != 0)
		return;
	snprintf(last_event, sizeof(last_event), "%s", ev->type);
	snprintf(last_data, sizeof(last_data), "%s", ev->data);
	last_event_id = ev->id;
}

static void next_incarnation(struct world *w, uint64_t number, uint64_t first_job, uint64_t first_event)
{
	struct err e;

	w->core->cfg.incarnation = number;
	w->core->cfg.first_job = first_job;
	w->core->cfg.first_event = first_event;
	if (core_load(w->core, w->store, &e) < 0)
		tap_bail("%s", e.text);
	core_record_incarnation(w->core, "the database is a backup of 2026-01-01T00:00:00Z", 4);
	world_turn(w);
}

static uint64_t prepare_epoch(struct world *w, const char *node)
{
	struct sent *s = world_sent(w, node, WM_PREPARE);
	uint64_t epoch = s ? ((struct wm_prepare *)s->msg)->epoch : 0;

	sent_free(s);
	return epoch;
}

static void test_numbers(void)
{
	struct world *w = world_create(1);
	char *first, *number;
	uint64_t id, known;

	w->on_event = on_event;
	known = world_submit(w, ONE);
	world_restart(w);
	next_incarnation(w, 3, 1001, 100001);
	is_str(last_event, "incarnation", "an event says that a new incarnation begins");
	is_str(
	    last_data,
	    "{\"incarnation\":3,\"first_job\":1001,\"logs_set_aside\":4,\"text\":\"the database is a backup of "
	    "2026-01-01T00:00:00Z\"}",
	    "and why");
	is_int(last_event_id, 100001, "with a number above those of the lost time line");
	number = store_setting(w->store, "incarnation");
	first = store_setting(w->store, "first_job");
	is_str(number, "3", "the store has it");
	is_str(first, "1001", "and the first number of a job");
	free(number);
	free(first);
	id = world_submit(w, ONE);
	is_int(id, 1001, "the next job has a number above those of the lost time line");
	world_agent_up(w, "a", 1, 2);
	is_int(prepare_epoch(w, "a"), (3ull << INCARNATION_SHIFT) + 1,
	       "a job of the backup has an epoch of this incarnation");
	is_int(prepare_epoch(w, "a"), (3ull << INCARNATION_SHIFT) + 1, "so has a new one");
	world_launch(w, "a", known, 1, LAUNCH_FAILED, RC_AGENT, "x");
	world_launch(w, "a", known, 1, LAUNCH_CLEANED, 0, NULL);
	world_end_well(w);
}

static void report_lost(struct world *w, uint64_t job, uint32_t attempt, uint64_t epoch, uint8_t state)
{
	char phase[] = "x", text[] = "";
	struct wm_launch_report m = {
	    .job = job, .attempt = attempt, .epoch = epoch, .state = state, .phase = phase, .text = text};

	world_msg(w, "a", 0, WM_LAUNCH_REPORT, &m);
	world_turn(w);
}

/* The node comes with a launch of a job that was submitted after the backup, and with the second attempt of
 * one that the backup has waiting. */
static void test_fence(void)
{
	struct world *w = world_create(2);
	struct sent *s;
	uint64_t known = world_submit(w, ONE);

	next_incarnation(w, 1, 1001, 100001);
	world_agent_connect(w, "a");
	world_agent_inventory(w, "a", 0, 1, 2);
	world_msg(w, "a", 0, WM_SYNC_BEGIN, &(struct wm_sync_begin){0});
	report_lost(w, 7, 1, 1, LAUNCH_RUNNING);
	report_lost(w, known, 2, 2, LAUNCH_RUNNING);
	world_msg(w, "a", 0, WM_SYNC_END, &(struct wm_sync_end){0});
	world_turn(w);
	for (int i = 0; i < 2; i++) {
		const struct wm_kill *kill;

		s = world_sent(w, "a", WM_KILL);
		kill = s ? s->msg : NULL;
		ok(kill && kill->epoch == (kill->job == 7 ? 1 : 2), "launch %d is killed with an epoch that it obeys",
		   i);
		sent_free(s);
	}
	is_int(world_count(w, "a", WM_PREPARE), 0, "the node gets no work meanwhile");
	report_lost(w, 7, 1, 1, LAUNCH_ENDED);
	report_lost(w, known, 2, 2, LAUNCH_ENDED);
	is_int(world_count(w, "a", WM_COLLECT), 2, "then both are collected");
	report_lost(w, 7, 1, 1, LAUNCH_CLEANED);
	is_int(world_count(w, "a", WM_PREPARE), 0, "one is still there");
	report_lost(w, known, 2, 2, LAUNCH_CLEANED);
	is_int(prepare_epoch(w, "a"), (1ull << INCARNATION_SHIFT) + 1,
	       "then it gets the job, with an epoch that it accepts");
	world_end_well(w);
}

/* Without a further change the next start has the numbers from the settings, and records nothing. */
static void test_restart(void)
{
	struct world *w = world_create(3);

	w->on_event = on_event;
	next_incarnation(w, 2, 2000001, 1000000001);
	last_event[0] = '\0';
	world_restart(w);
	is_int(world_submit(w, ONE), 1, "without the setting numbers would begin again");
	world_restart(w);
	w->core->cfg.first_job = 2000001;
	world_stop(w, 0);
	world_start(w);
	is_str(last_event, "", "a restart has no event");
	world_end_well(w);
}

int main(void)
{
	test_numbers();
	test_fence();
	test_restart();
	return tap_done();
}
