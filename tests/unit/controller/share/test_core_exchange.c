/*
 * Spare nodes, and a job that keeps some of its nodes and waits for others instead of the rest, on a full
 * cluster on which fifty others wait.
 */
#include <stdlib.h>
#include <string.h>

#include "controller/share/alloc.h"
#include "controller/state/core_state.h"
#include "controller/state/node_table.h"
#include "tests/lib/tap.h"
#include "tests/lib/world.h"

static const char gang[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
                           "{\"instances\": 4, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}";
static const char one[] = "{\"command\": [\"/bin/x\"], \"launcher\": \"direct\", \"resources\": "
                          "{\"instances\": 1, \"gpus_per_instance\": 1, \"ranks_per_instance\": 1}}";

/* Nodes a to d, on which a gang of four runs, and e; fifty others wait. */
static struct world *full_cluster(int spare)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	struct world *w = world_create(5);

	for (size_t i = 0; i < (spare ? 5u : 4u); i++)
		world_agent_up(w, names[i], 1, 2);
	if (spare)
		is_int(world_request(w, REQ_SPARE, 0, "e", "{}"), 200, "e is a spare");
	world_submit(w, gang);
	for (int i = 0; i < 50; i++)
		world_submit(w, one);
	is_str(world_status(w, 1), "starting", "the gang has its nodes");
	return w;
}

static unsigned count_waiting(struct world *w)
{
	unsigned n = 0;

	for (uint64_t id = 2; id < 52; id++)
		n += strcmp(world_status(w, id), "queued") == 0;
	return n;
}

static int give_back(struct world *w, const char *node)
{
	struct cjob *j = job_find(w->core, 1);
	uint64_t id = node ? node_find(w->core, node)->r.id : 0;
	struct err e;
	struct job_spec *s = job_parse_spec(w->core, j, &e);
	int rc = alloc_exchange(w->core, j, s, &id, node != NULL);

	spec_destroy(s);
	return rc;
}

/* "a e c d": where the next decision puts job 1; "" none, "other" another job. */
static const char *decided(struct world *w)
{
	static char out[80];
	struct sched_decision *d;
	size_t n = 0;

	alloc_prepare(w->core);
	d = alloc_step(w->core, 0);
	out[0] = '\0';
	for (uint32_t i = 0; d && i < d->n && n + 8 < sizeof(out); i++) {
		out[n++] = node_by_id(w->core, d->places[i].node)->name[0];
		out[n++] = ' ';
	}
	out[n ? n - 1 : 0] = '\0';
	if (d && d->job != 1)
		memcpy(out, "other", 6);
	sched_decision_free(d);
	return out;
}

/* Checks S-150, S-154 and S-157. */
static void test_spare(void)
{
	struct world *w = full_cluster(1);

	is_int(count_waiting(w), 50, "none of the others starts, on the spare neither");
	is_int(give_back(w, "b"), 0, "its node b is to be replaced");
	is_str(decided(w), "a e c d", "the spare replaces b");
	is_str(decided(w), "other", "b is free for the others");
	is_str(decided(w), "", "and nothing else");
	world_destroy(w);
}

/* Checks S-159. */
static void test_no_spare(void)
{
	struct world *w = full_cluster(0);
	struct cjob *j = job_find(w->core, 1);
	struct job_spec *s;
	uint64_t first = 0;
	struct err e;

	world_request(w, REQ_DRAIN, 0, "b", "{}");
	is_int(give_back(w, "b"), 0, "a node that is drained is replaced");
	is_str(decided(w), "", "there is no other: it waits, and keeps three");
	is_int(give_back(w, "c"), 0, "another one is given back");
	is_int(sched_job_nodes(w->core->sched, 1, (uint64_t[4]){0}, 4), 2, "it keeps two");
	alloc_unqueue(w->core, j);
	alloc_goes_first(j, j->r.att);
	s = job_parse_spec(w->core, j, &e);
	alloc_queue(w->core, j, s);
	ok(sched_waiting(w->core->sched, &first, 1) == 1 && first == 1,
	   "it gave up all, and waits before all others");
	spec_destroy(s);
	world_destroy(w);
}

/* A new hearthd restores what the ended attempt had. */
static void test_loaded(void)
{
	struct world *w = full_cluster(1);
	struct cjob *j = job_find(w->core, 1);
	uint64_t b = node_find(w->core, "b")->r.id;
	struct job_spec *s;
	struct err e;

	for (uint32_t i = 0; i < j->r.att->n_places; i++) {
		j->r.att->places[i].state = i == 1 ? PLACE_LOST : PLACE_CLEANED;
		j->r.att->places[i].kept = i != 1;
	}
	j->r.att->state = ATT_ENDED;
	j->r.status = JOB_RECOVERING;
	sched_job_park(w->core->sched, 1);
	s = job_parse_spec(w->core, j, &e);
	alloc_holds(w->core, j, s, 0);
	is_int(alloc_exchange(w->core, j, s, &b, 1), 0, "the job holds three places again");
	is_str(decided(w), "a e c d", "and has the spare");
	spec_destroy(s);
	world_destroy(w);
}

static void test_requests(void)
{
	struct world *w = world_create(6);

	world_agent_up(w, "a", 1, 2);
	is_int(world_request(w, REQ_SPARE, 0, "a", "{}"), 200, "a node becomes a spare");
	is_int(world_submit(w, one), 0, "no job could ever start");
	ok(strstr(w->err.text, "1 node is a spare") != NULL, "because it is one: %s", w->err.text);
	world_restart(w);
	world_agent_up(w, "a", 1, 2);
	is_int(world_submit(w, one), 0, "it is one after a restart, too");
	is_int(world_request(w, REQ_SPARE, 0, "a", "{\"off\": true}"), 200, "no more");
	ok(world_submit(w, one) > 0, "a job may wait again");
	is_str(world_status(w, 1), "starting", "and starts");
	is_int(world_request(w, REQ_SPARE, 0, "x", "{}"), 404, "an unknown node");
	is_int(world_verify(w), 0, "the records follow from the events");
	world_destroy(w);
}

int main(void)
{
	test_spare();
	test_no_spare();
	test_loaded();
	test_requests();
	return tap_done();
}
