/*
 * A long queue: so many jobs wait in a real core that its limit is reached. Memory a job stays below a stated
 * bound, the next submit is refused in words, one that ends makes room for one, and all of them are there
 * after a restart.
 *
 * 20,000 jobs; with HEARTH_SOAK=1 a million, which is what docs/benchmarks.md promises.
 */
#include "tests/lib/tap.h"
#include "tests/lib/world.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES_A_JOB 4096 /* of memory; stated in docs/benchmarks.md */
#define JOBS_A_TURN      200

/* Bytes of the process that no file stands behind. */
static uint64_t memory_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	unsigned long long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "RssAnon: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	if (!kib)
		tap_bail("/proc/self/status has no RssAnon");
	return kib * 1024;
}

/* Jobs as people send them: some values that differ from job to job, a hundred names, eight shapes. */
static void submit(struct world *w, unsigned i)
{
	struct request *rq = world_rq(w, REQ_SUBMIT, 0);
	struct err e;

	rq->text = xasprintf("{\"name\": \"train-%u\", \"command\": [\"/usr/bin/python3\", \"train.py\"], "
	                     "\"launcher\": \"direct\", \"resources\": {\"gpus_per_instance\": %u}, "
	                     "\"hyperparameters\": {\"lr\": %u, \"seed\": %u, \"batch\": 64}}",
	                     i % 100, 1 + i % 8, i, i * 7);
	rq->spec = spec_parse(rq->text, strlen(rq->text), &e);
	if (!rq->spec)
		tap_bail("test spec: %s", e.text);
	rq->body = cJSON_CreateObject();
	core_request(w->core, rq);
}

static unsigned fill(struct world *w, unsigned n)
{
	unsigned refused = 0;

	for (unsigned i = 0; i < n; i++) {
		submit(w, i);
		if (i % JOBS_A_TURN == JOBS_A_TURN - 1 || i + 1 == n) {
			world_turn(w);
			refused += w->status != 201;
		}
	}
	return refused;
}

static void check_memory(const char *when, uint64_t before, unsigned n)
{
	uint64_t now = memory_bytes(), bytes = now > before ? (now - before) / n : 0;
	const char *instrumented = getenv("HEARTH_SANITIZED");

	if (instrumented && *instrumented)
		tap_skip("memory a job: instrumented code needs more");
	else
		ok(bytes <= MOST_BYTES_A_JOB && bytes > 100,
		   "%s: %" PRIu64 " bytes of memory a queued job, at most %d", when, bytes, MOST_BYTES_A_JOB);
}

static void test_full(unsigned n)
{
	struct world *w = world_create(1);
	char want[128];
	uint64_t before;

	world_agent_up(w, "a", 8, 8);
	world_request(w, REQ_DRAIN, 0, "a", "{\"reason\": \"nothing is to start\"}");
	w->core->cfg.queue_limit = n;
	before = memory_bytes();
	is_int(fill(w, n), 0, "so many jobs are taken");
	is_int(w->core->jobs.counts[JOB_QUEUED], n, "and wait");
	check_memory("full", before, n);

	submit(w, n);
	world_turn(w);
	is_int(w->status, 429, "the next one is refused");
	snprintf(want, sizeof want, "%u jobs are waiting or running: that is the limit; try again later", n);
	is_str(w->err.text, want, "and told why");
	is_int(w->core->jobs.counts[JOB_QUEUED], n, "it is not there");
	is_int(world_request(w, REQ_STOP, n / 2, NULL, NULL), 200, "one of them is stopped");
	submit(w, n);
	world_turn(w);
	is_int(w->status, 201, "that makes room for one");
	submit(w, n + 1);
	world_turn(w);
	is_int(w->status, 429, "and no more");

	world_restart(w);
	w->core->cfg.queue_limit = n;
	is_int(w->core->jobs.counts[JOB_QUEUED], n, "all are there after a restart");
	submit(w, n);
	world_turn(w);
	is_int(w->status, 429, "which knows how many there are");
	world_agent_up(w, "a", 8, 8);
	world_request(w, REQ_RESUME, 0, "a", "{}");
	ok(w->core->jobs.counts[JOB_STARTING] > 0, "the first ones start when they may");
	is_int(w->n_requests, w->n_replies, "every request was answered once");
	if (n > 100000) { /* a replay of all of them is another test's */
		is_str(world_check(w), NULL, "memory is consistent");
		world_destroy(w);
	} else {
		world_end_well(w);
	}
}

int main(void)
{
	const char *soak = getenv("HEARTH_SOAK");

	test_full(soak && !strcmp(soak, "1") ? 1000000 : 20000);
	return tap_done();
}
