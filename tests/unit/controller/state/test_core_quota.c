/* Quotas of series and outputs: what is above is refused and named, once; a neighbour is not touched. */
#include "controller/record/ckpt.h"
#include "store/read/find.h"
#include "store/read/query.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <stdio.h>
#include <string.h>

#define ONE "{\"name\": \"one\", \"command\": [\"/bin/x\"], \"launcher\": \"direct\"}"

static int n_events;
static char last_data[700];

static void on_event(struct world *w, const struct event_row *ev, void *arg)
{
	(void)w;
	(void)arg;
	if (strcmp(ev->type, "over_quota") != 0)
		return;
	n_events++;
	snprintf(last_data, sizeof(last_data), "%s", ev->data);
}

static void point(struct world *w, uint64_t job, const char *metric, uint32_t rank, uint64_t seq)
{
	uint32_t ix = 0;
	int64_t step = 1;
	double value = 1;
	uint64_t time = 1800000000000000u;
	char *name = xstrdup(metric);
	struct wm_metrics m = {.job = job,
	                       .attempt = 1,
	                       .epoch = 1,
	                       .seq = seq,
	                       .names = {&name, 1},
	                       .name_ix = {&ix, 1},
	                       .ranks = {&rank, 1},
	                       .steps = {&step, 1},
	                       .values = {&value, 1},
	                       .times = {&time, 1}};

	world_msg(w, "a", 99, WM_METRICS, &m);
	world_turn(w);
	free(name);
}

static int series(struct world *w, uint64_t job)
{
	cJSON *m = store_metrics_json(w->reader, job, -1, 0, NULL);
	int n = cJSON_GetArraySize(m);

	cJSON_Delete(m);
	return n;
}

static void many(struct world *w, uint64_t job, int n)
{
	char name[20];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		point(w, job, name, 0, (uint64_t)i + 1);
	}
}

static void test_series(void)
{
	struct world *w = world_create(1);
	uint64_t first, second, third;

	w->on_event = on_event;
	w->core->cfg.quota = (struct quota_limits){.series_job = 5, .series_user = 8};
	world_agent_up(w, "a", 4, 8);
	first = world_submit(w, ONE);
	second = world_submit(w, ONE);
	third = world_submit(w, ONE);
	many(w, first, 20);
	is_int(series(w, first), 5, "an attempt has as many series as it may");
	is_int(n_events, 1, "one event says so");
	like(last_data, "\"quota\":\"series\",\"text\":\"the metric \\\"m5\\\" of rank 0 is not stored",
	     "and names the first");
	like(last_data, "max_series_job", "with the setting");
	many(w, first, 3);
	is_int(n_events, 1, "series that are there go on without one");
	many(w, second, 20);
	is_int(series(w, second), 3, "all running jobs of a user have a quota together");
	like(last_data, "max_series_user", "which is named");
	world_launch(w, "a", first, 1, LAUNCH_FAILED, RC_AGENT, "x");
	world_launch(w, "a", first, 1, LAUNCH_CLEANED, 0, NULL);
	many(w, third, 20);
	is_int(series(w, third), 5, "what ended counts no longer");
	world_end_well(w);
}

static void artifact(struct world *w, uint64_t job, const char *kind, const char *what, int in_store,
                     uint64_t bytes)
{
	struct wm_artifact_report m = {.job = job,
	                               .attempt = 1,
	                               .epoch = 1,
	                               .kind = (char *)(uintptr_t)kind,
	                               .digest = (char *)(uintptr_t)(in_store ? what : ""),
	                               .uri = (char *)(uintptr_t)(in_store ? "" : what),
	                               .size_bytes = bytes,
	                               .text = (char *)(uintptr_t) ""};

	world_msg(w, "a", 0, WM_ARTIFACT_REPORT, &m);
	world_turn(w);
}

static int has(struct world *w, uint64_t job, const char *kind)
{
	struct artifact_row row = {0};
	struct err e;
	int rc = store_artifact_get(w->reader, job, kind, &row, &e);

	artifact_row_fini(&row);
	return rc == 0;
}

static void test_artifacts(void)
{
	struct world *w = world_create(2);
	uint64_t first, second;

	w->on_event = on_event;
	n_events = 0;
	w->core->cfg.quota = (struct quota_limits){.artifact_job = 1000, .artifact_user = 1500};
	world_agent_up(w, "a", 4, 8);
	first = world_submit(w, ONE);
	second = world_submit(w, ONE);
	world_begin(w, first);
	world_begin(w, second);
	artifact(w, first, "model", "d1", 1, 900);
	artifact(w, first, "model", "d1", 1, 900);
	ok(has(w, first, "model") && n_events == 0, "within the quota, also when it is reported twice");
	artifact(w, first, "output", "d2", 1, 200);
	ok(!has(w, first, "output") && n_events == 1, "above it an output is not registered");
	like(last_data,
	     "output of node a (200B) is not stored: outputs of an attempt may have 1000B "
	     "(max_artifacts_job_mb)",
	     "the event names it");
	artifact(w, first, "output", "file:///x", 0, 1 << 30);
	ok(has(w, first, "output"), "outputs elsewhere do not count");
	artifact(w, second, "model", "d3", 1, 700);
	ok(!has(w, second, "model"), "the user's jobs have a quota together");
	like(last_data, "max_artifacts_user_mb", "which is named");
	world_end_well(w);
}

/* ---- checkpoints ------------------------------------------------------------------------------- */

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void saves(struct world *w, uint64_t job, uint32_t attempt, int64_t step, uint64_t bytes)
{
	char name[24], format[] = "hf_trainer", by[] = "name", digest[] = DIGEST, uri[] = CKPT_URI_STORE,
	               empty[] = "";
	struct wm_checkpoint_report m = {.job = job,
	                                 .attempt = attempt,
	                                 .epoch = attempt,
	                                 .seq = (uint64_t)step,
	                                 .step = step,
	                                 .name = name,
	                                 .format = format,
	                                 .step_by = by,
	                                 .state = CKPT_VERIFIED,
	                                 .size_bytes = bytes,
	                                 .files = 1,
	                                 .digest = digest,
	                                 .uri = uri,
	                                 .at_us = 1800000000000000u,
	                                 .text = empty};

	snprintf(name, sizeof(name), "step-%lld", (long long)step);
	world_msg(w, "a", 0, WM_CHECKPOINT_REPORT, &m);
	world_turn(w);
}

/* What its newest checkpoint is. */
static const char *newest(struct world *w, uint64_t job)
{
	const struct ckpt_list *l = job_find(w->core, job)->r.ckpts;

	return l ? ckpt_state_name(l->v[l->n - 1].parts[0].state) : "none";
}

static void next_attempt(struct world *w, uint64_t job)
{
	world_request(w, REQ_REQUEUE, job, NULL, "{\"from_start\": true}");
	world_rank(w, "a", job, 1, 0, PS_EXITED, 0, 15, NULL);
	world_launch(w, "a", job, 1, LAUNCH_ENDED, 0, NULL);
	world_launch(w, "a", job, 1, LAUNCH_CLEANED, 0, NULL);
	world_launch(w, "a", job, 2, LAUNCH_READY, 0, NULL);
	world_rank(w, "a", job, 2, 0, PS_RUNNING, 0, 0, NULL);
	world_turn(w);
}

static void test_checkpoints(void)
{
	const struct quota_limits limits = {.artifact_job = 1000, .artifact_user = 1500};
	struct world *w = world_create(4);
	uint64_t first, second;

	w->on_event = on_event;
	n_events = 0;
	w->core->cfg.quota = limits;
	world_agent_up(w, "a", 4, 8);
	first = world_submit(w, ONE);
	second = world_submit(w, ONE);
	world_begin(w, first);
	world_begin(w, second);
	saves(w, first, 1, 10, 900);
	is_str(newest(w, first), "verified", "a checkpoint within the quota");
	next_attempt(w, first);
	saves(w, first, 2, 20, 200);
	is_str(newest(w, first), "copying", "what the attempt before it has stored counts in the next one");
	is_int(n_events, 1, "an event says so");
	like(last_data, "outputs of an attempt and checkpoints of its job may have 1000B", "with the reason");
	saves(w, second, 1, 10, 700);
	is_str(newest(w, second), "copying", "and in what its owner has");
	world_restart(w);
	w->core->cfg.quota = limits;
	world_agent_up(w, "a", 4, 8);
	saves(w, first, 2, 30, 150);
	is_str(newest(w, first), "copying", "also after a restart of hearthd");
	saves(w, second, 1, 20, 700);
	is_str(newest(w, second), "copying", "of the owner, too");
	saves(w, first, 2, 40, 60);
	saves(w, first, 2, 50, 30);
	saves(w, first, 2, 60, 10);
	is_str(newest(w, first), "verified", "as much as has room");
	saves(w, first, 2, 70, 500);
	is_str(newest(w, first), "verified", "what retention removed has given its room back");
	saves(w, first, 2, 80, 470);
	is_str(newest(w, first), "copying", "once");
	world_end_well(w);
}

/* What the node gets: "1.20 TEXT", of an attempt and its checkpoint. */
static const char *copies_again(struct world *w)
{
	struct sent *s = world_sent(w, "a", WM_CHECKPOINT_AGAIN);
	const struct wm_checkpoint_again *m = s ? s->msg : NULL;
	static char text[400];

	snprintf(text, sizeof(text), "nothing");
	if (m)
		snprintf(text, sizeof(text), "%u.%llu %s", m->attempt, (unsigned long long)m->seq, m->text);
	sent_free(s);
	return text;
}

static uint32_t count_parts(struct world *w, uint64_t job)
{
	const struct ckpt_list *l = job_find(w->core, job)->r.ckpts;

	return l ? l->v[l->n - 1].n_parts : 0;
}

/* A copy in the store counts when it is there and has room, else the agent copies it once more: or it would
 * believe in a copy that is collected. */
static void test_refused(void)
{
	struct world *w = world_create(5);
	uint64_t first, second;

	w->on_event = on_event;
	n_events = 0;
	world_agent_up(w, "a", 4, 8);
	w->core->cfg.quota = (struct quota_limits){.artifact_job = 1000, .artifact_user = 1000};
	first = world_submit(w, ONE);
	second = world_submit(w, ONE);
	world_begin(w, first);
	world_begin(w, second);
	saves(w, first, 1, 10, 900);
	is_str(copies_again(w), "nothing", "one that counts");
	saves(w, second, 1, 10, 700);
	like(copies_again(w), "1.10 hearthd's store has no room for it",
	     "the agent of one above the quota copies it again");
	n_events = 0;
	saves(w, second, 1, 10, 700);
	like(copies_again(w), "1.10 hearthd's store has no room for it", "and once more");
	is_int(n_events, 0, "no event says the same again");
	w->store_lacks = 1;
	w->core->cfg.quota.artifact_user = 5000;
	saves(w, second, 1, 10, 700);
	is_str(newest(w, second), "copying", "there is room now, but the blob was collected meanwhile");
	like(copies_again(w), "1.10 hearthd's store lacks", "the agent copies it again");
	w->store_lacks = 0;
	saves(w, second, 1, 10, 700);
	is_str(newest(w, second), "verified", "what is there counts");
	is_int(count_parts(w, second), 1, "as the same part");
	w->store_lacks = 1;
	saves(w, second, 1, 10, 700);
	is_str(copies_again(w), "nothing", "what has counted once is not asked for");
	is_str(newest(w, second), "verified", "and stays");
	world_end_well(w);
}

static void test_logs(void)
{
	struct world *w = world_create(3);
	uint64_t id;

	w->on_event = on_event;
	n_events = 0;
	world_agent_up(w, "a", 4, 8);
	id = world_submit(w, ONE);
	core_over_quota(w->core, id, 1, "stream rank-0: too long");
	core_over_quota(w->core, id, 1, "stream rank-1: too long");
	core_over_quota(w->core, id, 7, "of another attempt");
	core_over_quota(w->core, 99, 1, "of an unknown job");
	world_turn(w);
	is_int(n_events, 1, "a job has one event");
	is_str(last_data, "{\"quota\":\"log\",\"text\":\"stream rank-0: too long\"}", "about its first stream");
	world_end_well(w);
}

int main(void)
{
	test_series();
	test_artifacts();
	test_checkpoints();
	test_refused();
	test_logs();
	return tap_done();
}
