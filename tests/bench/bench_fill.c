/*
 * bench_fill: a store as it is after years: ended jobs, and jobs that run on nodes.
 *
 *   bench_fill DATA ENDED [RUNNING [WAITING]]
 *
 * Writes DATA/hearth.db through the store library, as hearthd would have: per ended job five events, its row,
 * specification with 8 hyperparameters and a tag, an attempt and a rank; running jobs of one rank on nodes of
 * eight slots; waiting ones. Then waits for the search tables. Prints what that took: JSON lines. hearthd
 * makes the rest of the folder when it starts there. The same arguments give the same jobs (times aside).
 */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/loop.h"
#include "store/store.h"
#include "tests/bench/lib.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define C(s)           ((char *)(uintptr_t)(s))
#define JOBS_A_TXN     200
#define TXNS_IN_FLIGHT 64
#define SLOTS_A_NODE   8
#define DAY_US         86400000000ull

struct fill {
	struct store *store;
	struct loop *loop;
	uint64_t jobs, events, now_us, ended, running, waiting;
	unsigned in_flight;
};

static void on_done(int rc, const struct err *e, void *arg)
{
	struct fill *f = arg;

	if (rc < 0)
		bench_die("commit: %s", e->text);
	f->in_flight--;
}

static void commit(struct fill *f, struct store_txn *t)
{
	struct err e;

	while (f->in_flight >= TXNS_IN_FLIGHT)
		loop_run_once(f->loop, 1000);
	if (store_commit(f->store, t, on_done, f, &e) < 0)
		bench_die("%s", e.text);
	f->in_flight++;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static void put_event(struct fill *f, struct store_txn *t, uint64_t job, uint32_t attempt, uint64_t at_us,
                      const char *type, const char *data)
{
	struct event_row ev = {++f->events, job, attempt, at_us, C(type), C(data)};

	store_txn_event(t, &ev);
}

static void put_spec(char *out, size_t n, uint64_t id)
{
	uint64_t x = mix(id);

	snprintf(out, n,
	         "{\"name\": \"train-%d\", \"command\": [\"/bin/true\"], \"launcher\": \"direct\", \"tags\": "
	         "{\"team\": "
	         "\"team%d\"}, \"hyperparameters\": {\"lr\": %.6f, \"epochs\": %d, \"batch\": %d, \"width\": %d, "
	         "\"depth\": %d, \"seed\": %u, \"opt\": \"adam%d\", \"decay\": %.7f}}",
	         (int)(x % 5000), (int)(x % 40), (double)(x % 1000003) / 1e6, (int)(x % 17), 16 << x % 5,
	         64 << x % 4, (int)(x % 9), (unsigned)x, (int)(x % 3), (double)(x % 100003) / 1e7);
}

static void put_attempt(struct store_txn *t, const struct job_row *j, uint64_t node, uint64_t slot)
{
	int ended = j->ended_us != 0;
	char places[300], phases[300], token[40], name[32];
	struct attempt_row a = {.job = j->id,
	                        .number = 1,
	                        .epoch = 1,
	                        .state = C(ended ? "ended" : "running"),
	                        .outcome = C(ended ? (j->exit_code ? "failed" : "succeeded") : ""),
	                        .cls = C(j->exit_code > 0 ? "user_error" : ""),
	                        .reason = C(""),
	                        .cause = C("first"),
	                        .launch_id = token,
	                        .token = token,
	                        .placement = places,
	                        .resumed_from_step = -1,
	                        .resumed_from = C(""),
	                        .exit_code = j->exit_code,
	                        .signal = -1,
	                        .started_us = j->started_us,
	                        .ended_us = j->ended_us,
	                        .phases = phases,
	                        .master_port = ended ? 0 : 20000 + (uint32_t)(j->id % 10000)};
	struct rank_row r = {.job = j->id,
	                     .attempt = 1,
	                     .node = name,
	                     .state = C(ended ? "exited" : "running"),
	                     .exit_code = j->exit_code,
	                     .signal = -1,
	                     .pid = 4000 + (uint32_t)slot,
	                     .started_us = j->started_us,
	                     .ended_us = j->ended_us,
	                     .text = C("")};

	snprintf(name, sizeof(name), "n%05llu", (unsigned long long)node);
	snprintf(token, sizeof(token), "%016llx%016llx", (unsigned long long)mix(j->id),
	         (unsigned long long)mix(~j->id));
	snprintf(
	    places, sizeof(places),
	    "[{\"node\":\"%s\",\"node_id\":%llu,\"address\":\"10.1.0.1\",\"gpus\":[],\"cpus\":[%llu],\"ranks\":1,"
	    "\"group\":0,\"state\":\"%s\"}]",
	    name, (unsigned long long)node, (unsigned long long)slot, ended ? "cleaned" : "running");
	snprintf(phases, sizeof(phases), "[{\"name\":\"running\",\"started_us\":%llu,\"ended_us\":%llu}]",
	         (unsigned long long)j->started_us, (unsigned long long)j->ended_us);
	store_txn_attempt(t, &a);
	store_txn_rank(t, &r);
}

static void put_job(struct fill *f, struct store_txn *t, uint64_t id)
{
	uint64_t all = f->ended + f->running + f->waiting, x = mix(id);
	int ended = id <= f->ended, waits = id > f->ended + f->running;
	/* Over a hundred days: a day's keys of idempotency are read at start. */
	uint64_t at = f->now_us - 100 * DAY_US + (uint64_t)((double)id / (double)all * 99.9 * (double)DAY_US);
	uint64_t slot = id - f->ended - 1, node = ended ? x % 1000 + 1 : slot / SLOTS_A_NODE + 1;
	char spec[700], name[32], owner[32], key[80], data[400];
	struct job_row j = {.id = id,
	                    .name = name,
	                    .owner = owner,
	                    .experiment = C(x % 10 ? "" : "sweep"),
	                    .notes = C(""),
	                    .status = C(waits    ? "queued"
	                                : !ended ? "running"
	                                : x % 20 ? "completed"
	                                         : "failed"),
	                    .queue = C("default"),
	                    .spec = spec,
	                    .run = C("{}"),
	                    .created_us = at,
	                    .queued_us = at,
	                    .started_us = waits ? 0 : at + 2000000,
	                    .ended_us = ended ? at + 60000000 : 0,
	                    .exit_code = !ended   ? -1
	                                 : x % 20 ? 0
	                                          : 1,
	                    .reason = C(""),
	                    .wanted = C(""),
	                    .attempts = !waits,
	                    .epoch = !waits,
	                    .idem_key = key,
	                    .idem_digest = C("00000000000000000000000000000000000000000000000000000000000000ab"),
	                    .nodes = 1,
	                    .cleanup = C("")};

	put_spec(spec, sizeof(spec), id);
	snprintf(name, sizeof(name), "train-%d", (int)(x % 5000));
	snprintf(owner, sizeof(owner), "user%d", (int)(x % 50));
	snprintf(key, sizeof(key), "%s:%016llx%016llx", owner, (unsigned long long)x,
	         (unsigned long long)mix(~x));
	snprintf(data, sizeof(data),
	         "{\"name\":\"%s\",\"owner\":\"%s\",\"status\":\"queued\",\"queue\":\"default\",\"priority\":0,"
	         "\"nodes\":1,"
	         "\"gpus\":0}",
	         name, owner);
	put_event(f, t, id, 0, at, "submitted", data);
	if (!waits) {
		put_event(f, t, id, 1, at + 1000000, "placed",
		          "{\"places\":[{\"node\":\"n00001\",\"ranks\":1}],\"epoch\":1}");
		put_event(f, t, id, 1, at + 2000000, "rank_started", "{\"rank\":0,\"pid\":4000}");
		put_attempt(t, &j, node, slot % SLOTS_A_NODE);
	}
	if (ended) {
		put_event(f, t, id, 1, at + 60000000, "rank_exited", "{\"rank\":0,\"exit_code\":0}");
		put_event(f, t, id, 0, at + 60000000, "ended", "{\"status\":\"completed\",\"exit_code\":0}");
	}
	store_txn_job(t, &j);
}

static void put_nodes(struct fill *f)
{
	uint64_t n = (f->running + SLOTS_A_NODE - 1) / SLOTS_A_NODE;
	struct store_txn *t = store_txn_new();

	for (uint64_t id = 1; id <= n; id++) {
		char name[32];
		struct node_row r = {
		    .id = id,
		    .name = name,
		    .address = C("10.1.0.1"),
		    .state = C("up"),
		    .reason = C(""),
		    .cert_fingerprint = C(""),
		    .inventory = C("{\"address\":\"10.1.0.1\",\"peer_port\":7071,\"port_lo\":20000,\"port_hi\":29999,"
		                   "\"cpus\":8,\"slots\":8,\"memory_bytes\":68719476736,\"disk_bytes\":1099511627776,"
		                   "\"gpus\":[],\"labels\":[\"rack1\"],\"instance_type\":\"c8\",\"fabrics\":[],"
		                   "\"software\":[]}"),
		    .joined_us = f->now_us - 100 * DAY_US,
		    .seen_us = f->now_us};

		snprintf(name, sizeof(name), "n%05llu", (unsigned long long)id);
		store_txn_node(t, &r);
	}
	commit(f, t);
}

static void fill(struct fill *f)
{
	uint64_t all = f->ended + f->running + f->waiting;

	put_nodes(f);
	for (uint64_t id = 1; id <= all;) {
		struct store_txn *t = store_txn_new();

		for (int i = 0; i < JOBS_A_TXN && id <= all; i++)
			put_job(f, t, id++);
		commit(f, t);
	}
	while (f->in_flight)
		loop_run_once(f->loop, 1000);
}

static void wait_projected(struct fill *f)
{
	struct store_stats st;

	do {
		loop_run_once(f->loop, 10);
		store_stats(f->store, &st);
	} while (st.projected_event < st.last_event);
}

int main(int argc, char **argv)
{
	struct fill f = {.now_us = clock_real_us(clock_real())};
	uint64_t start, written, projected;
	char path[4096];
	struct stat st;
	struct err e;

	if (argc < 3) {
		fprintf(stderr, "usage: bench_fill DATA ENDED [RUNNING [WAITING]]\n");
		return 2;
	}
	f.ended = strtoull(argv[2], NULL, 10);
	f.running = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	f.waiting = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	snprintf(path, sizeof(path), "%s/hearth.db", argv[1]);
	mkdir(argv[1], 0700);
	if (access(path, F_OK) == 0)
		bench_die("%s is there already", path);
	log_init("bench_fill", LOG_LVL_WARN);
	f.loop = loop_create();
	struct store_config config = {.path = path, .clock = clock_real()};
	f.store = store_open(&config, f.loop, &e);
	if (!f.store)
		bench_die("%s", e.text);
	start = bench_now_us();
	fill(&f);
	written = bench_now_us();
	wait_projected(&f);
	projected = bench_now_us();
	store_close(f.store);
	loop_destroy(f.loop);
	if (stat(path, &st))
		bench_die("%s is not there", path);
	double jobs = (double)(f.ended + f.running + f.waiting);
	printf("{\"bench\": \"fill\", \"ended\": %llu, \"running\": %llu, \"waiting\": %llu, \"written_per_s\": "
	       "%.0f, "
	       "\"projected_per_s\": %.0f, \"bytes_a_job\": %.0f}\n",
	       (unsigned long long)f.ended, (unsigned long long)f.running, (unsigned long long)f.waiting,
	       jobs * 1e6 / (double)(written - start), jobs * 1e6 / (double)(projected - start),
	       (double)st.st_size / jobs);
	return 0;
}
