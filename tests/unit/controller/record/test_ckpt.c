/* Checkpoints of a job: which parts make one whole, which attempt begins with which, what a lost node takes
 * along, what retention removes, and the bound of the list. */
#include "controller/record/ckpt.h"

#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/event.h"
#include "controller/record/rec.h"
#include "tests/lib/tap.h"

static struct job_rec r;

static void post(enum event_type t, uint32_t attempt, const char *data)
{
	cJSON *d = cJSON_Parse(data);
	struct err e;

	if (!d || event_apply(&r, t, attempt, 1000, d, &e) < 0)
		tap_bail("%s %s: %s", event_name(t), data, d ? e.text : "no JSON");
	cJSON_Delete(d);
}

static void place(uint32_t attempt, const char *begins, const char *nodes)
{
	char *text = xasprintf("{\"epoch\":%u,\"nodes\":[%s]%s%s}", attempt, nodes, *begins ? "," : "", begins);

	if (r.att) {
		r.att->state = ATT_ENDED;
		for (uint32_t i = 0; i < r.att->n_places; i++)
			r.att->places[i].state = PLACE_CLEANED;
		r.status = JOB_QUEUED;
		for (uint32_t i = 0; i < r.att->n_places; i++)
			r.att->places[i].state = PLACE_CLEANED;
	}
	post(EV_PLACED, attempt, text);
	free(text);
}

#define A "{\"node\":\"a\",\"ranks\":1}"
#define B "{\"node\":\"b\",\"ranks\":1}"
#define C "{\"node\":\"c\",\"ranks\":1}"

static void begin(void)
{
	rec_fini(&r);
	r = (struct job_rec){.id = 7};
	post(EV_SUBMITTED, 0, "{\"status\":\"queued\",\"owner\":\"ada\"}");
}

static const char *format = "plain";

static void part(uint32_t number, uint32_t attempt, int step, const char *node, int rank, const char *state,
                 int shards)
{
	char *text = xasprintf("{\"number\":%u,\"step\":%d,\"name\":\"step-%d\",\"format\":\"%s\",\"node\":"
	                       "\"%s\",\"node_rank\":%d,\"seq\":%u,\"state\":\"%s\",\"shards\":%d}",
	                       number, step, step, format, node, rank, number, state, shards);

	post(EV_CHECKPOINT, attempt, text);
	free(text);
}

static int newest(int64_t max_step)
{
	const struct ckpt *c = ckpt_newest(&r, max_step, NULL);

	return c ? (int)c->step : -1;
}

static void test_parts(void)
{
	begin();
	place(1, "", A "," B);
	part(1, 1, 10, "a", 0, "verified", 2);
	ok(!ckpt_is_complete(&r.ckpts->v[0]), "one of two shards: not complete");
	is_int(newest(INT64_MAX), -1, "no attempt begins with it");
	part(1, 1, 10, "b", 1, "copying", 0);
	ok(ckpt_is_complete(&r.ckpts->v[0]), "both shards: complete");
	is_int(newest(INT64_MAX), -1, "both nodes need both shards, and only b has its own");
	part(1, 1, 10, "b", 1, "verified", 0);
	is_int(newest(INT64_MAX), 10, "verified shards reach every node");
	is_int(r.ckpts->v[0].n_parts, 2, "a newer state adds no part");

	begin();
	place(1, "", A "," B);
	part(1, 1, 10, "a", 0, "verified", 0);
	ok(ckpt_is_complete(&r.ckpts->v[0]),
	   "the first checkpoint without shards is complete with what is there");
	part(1, 1, 10, "b", 1, "verified", 0);
	part(2, 1, 20, "b", 1, "verified", 0);
	ok(!ckpt_is_complete(&r.ckpts->v[1]), "later ones need a part of each node that wrote those before");
	is_int(newest(INT64_MAX), 10, "the incomplete one is passed over");
	part(2, 1, 20, "a", 0, "verified", 0);
	is_int(newest(INT64_MAX), 20, "then it is the newest");
	is_int(newest(15), 10, "a greatest step is respected");
	part(3, 1, 30, "a", 0, "torn", 0);
	is_int(newest(INT64_MAX), 20, "a torn one is passed over");
}

static void test_first(void)
{
	format = "dcp";
	begin();
	place(1, "", A "," B "," C);
	part(1, 1, 10, "a", 0, "verified", 0);
	ok(!ckpt_is_complete(&r.ckpts->v[0]), "the first one of a format that all nodes share needs all of them");
	part(1, 1, 10, "c", 2, "verified", 0);
	is_int(newest(INT64_MAX), -1, "no attempt begins with a part of it");
	part(2, 1, 20, "a", 0, "verified", 0);
	ok(ckpt_is_complete(&r.ckpts->v[0]), "when the next one begins, it has what it gets");
	is_int(newest(INT64_MAX), 10, "then an attempt may begin with it");
	part(2, 1, 20, "c", 2, "verified", 0);
	is_int(newest(INT64_MAX), 20, "the next one needs as many");
	begin();
	place(1, "", A "," B);
	part(1, 1, 10, "a", 0, "verified", 0);
	part(1, 1, 10, "b", 1, "verified", 0);
	is_int(newest(INT64_MAX), 10, "parts of all nodes: the first one is complete");
	begin();
	place(1, "", A "," B);
	part(1, 1, 10, "b", 1, "verified", 1);
	is_int(newest(INT64_MAX), 10, "a program that names its shards is believed");
	format = "plain";
}

static void test_lineage(void)
{
	const struct ckpt *c;

	begin();
	place(1, "", A);
	part(1, 1, 10, "a", 0, "verified", 0);
	part(2, 1, 20, "a", 0, "verified", 0);
	place(2, "\"resumed_from\":\"attempt:1\",\"resumed_from_step\":10", A);
	is_int(newest(INT64_MAX), 10,
	       "an attempt that left nothing: what it began with, not what it had left behind");
	part(3, 2, 12, "a", 0, "verified", 0);
	part(4, 2, 14, "a", 0, "copying", 0);
	is_int(newest(INT64_MAX), 14, "a copy on the same node is enough");
	c = ckpt_before(&r, ckpt_first(&r));
	is_int(c->step, 12, "the one before it");
	c = ckpt_before(&r, c);
	is_int(c->step, 10, "then the one that its attempt began with");
	ok(!ckpt_before(&r, c), "and nothing older");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":4,\"set_aside\":true}");
	is_int(newest(INT64_MAX), 12, "one that was set aside is passed over");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":3,\"state\":\"torn\",\"text\":\"damaged\"}");
	is_int(newest(INT64_MAX), 10, "so is one that could not be restored");
	place(3, "", A);
	is_int(newest(INT64_MAX), -1, "an attempt from the start leaves all of them behind");
	is_int(ckpt_of(&r, 1, 20)->number, 2, "a user still finds each step");
}

static void test_lost(void)
{
	begin();
	place(1, "", A);
	part(1, 1, 10, "a", 0, "verified", 0);
	part(2, 1, 20, "a", 0, "copying", 0);
	is_int(newest(INT64_MAX), 20, "while its node lives the copy there counts");
	post(EV_NODE_LOST, 1, "{\"node_rank\":0}");
	is_int(newest(INT64_MAX), 10, "a lost node takes along what only it held");
	is_int(r.ckpts->v[1].parts[0].state, CKPT_GONE, "which is gone");
	is_int(r.ckpts->v[0].parts[0].held, 0, "the other copy is outside of the node only");
}

static void test_places(void)
{
	static const char *const moved[] = {"c", "b"}, *const one[] = {"a"};
	struct ckpt_nodes two = {moved, 2}, single = {one, 1};
	TEXT(why);

	begin();
	place(1, "", A "," B);
	part(1, 1, 10, "a", 0, "verified", 0);
	part(1, 1, 10, "b", 1, "copying", 0);
	ok(ckpt_usable(&r.ckpts->v[0], &two, &why), "rank 1 stays on b, whose own copy it needs");
	ok(!ckpt_usable(&r.ckpts->v[0], &single, &why), "another number of nodes: every node needs all parts");
	like(why.at, "only node b", "the reason names the node that has the copy");
	ok(ckpt_gives(&r.ckpts->v[0], 1, 1, 2) && !ckpt_gives(&r.ckpts->v[0], 0, 1, 2),
	   "a node gets the part of its rank");
	ok(ckpt_gives(&r.ckpts->v[0], 0, 0, 1) && ckpt_gives(&r.ckpts->v[0], 1, 0, 1), "a single node gets both");
	begin();
	place(1, "", A "," B);
	part(1, 1, 10, "b", 1, "verified", 0);
	ok(ckpt_gives(&r.ckpts->v[0], 0, 0, 2), "a node that wrote nothing gets the first part");
}

static void test_match(void)
{
	char name[] = "step-10", none[] = "";
	struct wm_checkpoint_report m = {.job = 7,
	                                 .attempt = 1,
	                                 .seq = 5,
	                                 .step = 10,
	                                 .name = name,
	                                 .format = none,
	                                 .step_by = none,
	                                 .digest = none,
	                                 .uri = none,
	                                 .text = none};

	begin();
	place(1, "", A "," B);
	is_int(ckpt_match(&r, &m, "a"), 0, "the first report is a new checkpoint");
	part(1, 1, 10, "a", 0, "copying", 0);
	m.seq = 1;
	is_int(ckpt_match(&r, &m, "a"), 1, "its number again is the same part");
	m.seq = 9;
	is_int(ckpt_match(&r, &m, "b"), 1, "the same step of another node is another part");
	is_int(ckpt_match(&r, &m, "a"), 0, "the same step once more of the same node is a new checkpoint");
	m.step = -1;
	is_int(ckpt_match(&r, &m, "b"), 0, "without a step nothing is put together");
}

static const char *surplus(uint32_t keep, int ends)
{
	static char text[200];
	const struct ckpt_keeps keeps = {.last = keep, .ends = ends};
	uint32_t v[CKPT_MAX], n = ckpt_surplus(&r, &keeps, v);

	text[0] = '\0';
	for (uint32_t i = n; i-- > 0;)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", *text ? " " : "", v[i]);
	return text;
}

/* A job that saves each `every` steps. At any time the rollback number `level` finds a checkpoint that is far
 * enough before the newest step, and not much farther; few copies stay. */
static void check_returns(int every)
{
	const struct ckpt_keeps keeps = {.last = 3, .margin = 100, .rollbacks = 3};
	unsigned bad[3] = {0}, most = 0;

	format = "rename";
	begin();
	place(1, "", A);
	for (uint32_t i = 1; i <= 300; i++) {
		uint32_t v[CKPT_MAX], n;
		int now = (int)i * every;

		part(i, 1, now, "a", 0, "verified", 0);
		n = ckpt_surplus(&r, &keeps, v);
		for (uint32_t k = 0; k < n; k++) {
			char *text = xasprintf("{\"number\":%u,\"state\":\"gone\"}", v[k]);

			post(EV_CHECKPOINT_CHANGED, 0, text);
			free(text);
		}
		n = 0;
		for (uint32_t k = 0; k < r.ckpts->n; k++)
			n += ckpt_is_verified(&r.ckpts->v[k]) != 0;
		most = n > most ? n : most;
		for (int level = 0; level < 3; level++) {
			int far = 100 << level, to = newest(now + 1 - far);

			bad[level] += now > 2 * far + every && (to < 0 || now - to > 2 * far + 2 * every);
		}
	}
	for (int level = 0; level < 3; level++)
		ok(bad[level] == 0, "saved each %d steps: a checkpoint %d steps before the newest is left", every,
		   100 << level);
	ok(most <= 9, "with 6 copies more at most (%u in all)", most);
}

static void test_returns(void)
{
	check_returns(10);
	check_returns(50);
	check_returns(130);
	check_returns(999);
}

static void file(uint32_t number, int step, const char *name, const char *state)
{
	char *text = xasprintf("{\"number\":%u,\"step\":%d,\"name\":\"%s\",\"format\":\"rename\",\"node\":\"a\","
	                       "\"node_rank\":0,\"seq\":%u,\"state\":\"%s\"}",
	                       number, step, name, number, state);

	post(EV_CHECKPOINT, 1, text);
	free(text);
}

static void test_files(void)
{
	begin();
	place(1, "", A);
	file(1, 10, "model_10.pt", "verified");
	is_int(newest(INT64_MAX), 10, "the first file of the first step");
	file(2, 10, "optim_10.pt", "verified");
	ok(ckpt_is_sibling(&r.ckpts->v[0], &r.ckpts->v[1]), "two files of one step belong together");
	file(3, 20, "model_20.pt", "verified");
	is_int(newest(INT64_MAX), 10, "the next step lacks a file: it was killed between the two");
	file(4, 20, "optim_20.pt", "verified");
	is_int(newest(INT64_MAX), 20, "with both an attempt may begin with it");
	file(5, 20, "best_20.pt", "verified");
	file(6, 30, "model_30.pt", "verified");
	file(7, 30, "optim_30.pt", "verified");
	is_int(newest(INT64_MAX), 30, "a file that only one of two steps had is not missing");
	is_str(surplus(2, 0), "1 2", "keep_last counts steps");
	file(8, 40, "model_40.pt", "verified");
	file(9, 40, "optim_40.pt", "torn");
	is_int(newest(INT64_MAX), 30, "a step with a torn file is passed over");
	ok(!ckpt_is_sibling(&r.ckpts->v[0], &r.ckpts->v[2]), "files of two steps do not belong together");
}

/* A pin is of a step: what one file of it protects protects all. */
static void test_pinned_files(void)
{
	begin();
	place(1, "", A);
	for (int step = 10; step <= 50; step += 10) {
		char *model = xasprintf("model_%d.pt", step), *optim = xasprintf("optim_%d.pt", step);

		file((uint32_t)step / 5 - 1, step, model, "verified");
		file((uint32_t)step / 5, step, optim, "verified");
		free(model);
		free(optim);
	}
	is_str(surplus(2, 0), "1 2 3 4 5 6", "without a pin both files of old steps go");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":2,\"pinned\":true}");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":5,\"pinned\":true}");
	is_str(surplus(2, 0), "3 4",
	       "the other file of a pinned step stays, the one before it and the one after it");
	is_str(surplus(2, 1), "3 4", "also at the end of the job");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":2,\"pinned\":false}");
	is_str(surplus(2, 0), "1 2 3 4", "until the pin ends");
}

static void test_retention(void)
{
	begin();
	place(1, "", A);
	for (uint32_t i = 1; i <= 6; i++)
		part(i, 1, (int)i * 10, "a", 0, i == 6 ? "copying" : "verified", 0);
	is_str(surplus(3, 0), "1 2", "the newest three that are verified stay, and a newer one");
	is_str(surplus(0, 0), "1 2 3 4", "the last verified one always stays");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":1,\"pinned\":true}");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":2,\"set_aside\":true}");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":5,\"set_aside\":true}");
	is_str(surplus(1, 0), "3", "pinned ones stay, and those set aside while the job goes on");
	is_str(surplus(1, 1), "2 3 5", "at its end those set aside go");
	post(EV_REQUEUE_WANTED, 1, "{\"begins\":\"step:30\"}");
	is_str(surplus(1, 0), "", "what the next attempt is to begin with stays");
	post(EV_REQUEUE_WANTED, 1, "{\"begins\":\"start\"}");
	is_str(surplus(1, 0), "3", "unless another choice follows");
	r.wanted = WANT_NOTHING;
	place(2, "\"resumed_from\":\"attempt:1\",\"resumed_from_step\":30", A);
	is_str(surplus(1, 0), "", "what an attempt begins with stays");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":3,\"state\":\"gone\"}");
	is_str(surplus(1, 1), "2 5", "what is gone is not removed again");
}

static void test_bound(void)
{
	begin();
	place(1, "", A);
	for (uint32_t i = 1; i <= CKPT_MAX; i++)
		part(i, 1, (int)i, "a", 0, "verified", 0);
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":1,\"pinned\":true}");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":9,\"state\":\"gone\"}");
	part(CKPT_MAX + 1, 1, 1000, "a", 0, "verified", 0);
	is_int(r.ckpts->n, CKPT_MAX, "the list has a bound");
	ok(!ckpt_find(&r, 9) && ckpt_find(&r, 2), "what is gone leaves it first");
	part(CKPT_MAX + 2, 1, 1001, "a", 0, "verified", 0);
	ok(ckpt_find(&r, 1) && !ckpt_find(&r, 2), "then the oldest that is not pinned");
	ok(r.ckpts->n_removed == 2 && r.ckpts->removed[0] == 9 && r.ckpts->removed[1] == 2,
	   "the rows of both are to be removed");
}

/* More files than the list has room for: the oldest steps go as a whole while they are still in the list. */
static void test_crowd(void)
{
	uint32_t v[CKPT_MAX], n, bad = 0;

	begin();
	place(1, "", A);
	for (uint32_t i = 1; i <= CKPT_LEFT_MAX + 1; i++) {
		char *name = xasprintf("file%c_%u.pt", 'a' + (int)(i % 3), (i - 1) / 3);

		bad += ckpt_crowd(&r, v);
		file(i, (int)((i - 1) / 3), name, "verified");
		free(name);
	}
	is_int(bad, 0, "as many as that have room");
	n = ckpt_crowd(&r, v);
	ok(n == 3 && v[0] == 1 && v[1] == 2 && v[2] == 3, "one more: all files of the oldest step have to go");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":2,\"pinned\":true}");
	n = ckpt_crowd(&r, v);
	ok(n == 3 && v[0] == 4, "but a pinned step stays");
	post(EV_CHECKPOINT_CHANGED, 0, "{\"number\":5,\"state\":\"gone\"}");
	is_int((int)ckpt_crowd(&r, v), 0, "what is gone needs no room");
}

static void refused(enum event_type t, const char *data, const char *what)
{
	cJSON *d = cJSON_Parse(data);
	struct err e;

	ok(event_apply(&r, t, 1, 1000, d, &e) < 0, "%s", what);
	cJSON_Delete(d);
}

static void test_refused(void)
{
	begin();
	refused(EV_CHECKPOINT, "{\"number\":1,\"node\":\"a\",\"state\":\"verified\"}",
	        "a part without an attempt is refused");
	place(1, "", A);
	refused(EV_CHECKPOINT, "{\"number\":2,\"node\":\"a\",\"state\":\"verified\"}",
	        "a number that does not follow is refused");
	refused(EV_CHECKPOINT, "{\"number\":1,\"state\":\"verified\"}", "a part of no node is refused");
	refused(EV_CHECKPOINT, "{\"number\":1,\"node\":\"a\",\"state\":\"fine\"}", "an unknown state is refused");
	refused(EV_CHECKPOINT_CHANGED, "{\"number\":1}", "an unknown checkpoint does not change");
	ok(!r.ckpts, "nothing has changed");
}

int main(void)
{
	test_parts();
	test_first();
	test_files();
	test_pinned_files();
	test_lineage();
	test_lost();
	test_places();
	test_match();
	test_returns();
	test_retention();
	test_bound();
	test_crowd();
	test_refused();
	rec_fini(&r);
	return tap_done();
}
