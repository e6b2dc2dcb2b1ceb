/*
 * bench_store: what the store can do on this disk. JSON lines; no limits are checked here.
 *
 *   bench_store [DIR [JOBS_BEFORE [SECONDS]]]
 *
 * submits: durable submits a second (event + job + specification with 8 hyperparameters) with N in flight:
 * each completion gives the next, as N connections would. Projections are written behind meanwhile. Then
 * reading, series, and opening again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/os/loop.h"
#include "store/read/load.h"
#include "store/read/query.h"
#include "store/read/reader.h"
#include "store/store.h"

#define SAMPLES 2000000
#define C(s)    ((char *)(uintptr_t)(s))

static const char spec[] = "{\"name\":\"digits-ddp\",\"command\":[\"/usr/bin/"
                           "python3\",\"train.py\"],\"source_dir\":\".\",\"tags\":{\"team\":\"vision\"},"
                           "\"hyperparameters\":{\"lr\":0.1,\"epochs\":5,\"batch\":64,\"momentum\":0.9,"
                           "\"decay\":1e-4,\"opt\":\"sgd\",\"amp\":true,\"seed\":17},"
                           "\"resources\":{\"instances\":2,\"gpus_per_instance\":1},\"metrics\":[{\"name\":"
                           "\"loss\",\"regex\":\"loss=([0-9.]+)\"}]}";

struct bench {
	struct store *store;
	struct loop *loop;
	uint64_t next, done, failed, end_us;
	uint32_t *took;
};
struct ticket {
	struct bench *b;
	uint64_t start_us;
};

static uint64_t now(void)
{
	return clock_boot_us(clock_real());
}

static void give(struct bench *b);

static void on_done(int rc, const struct err *e, void *arg)
{
	struct ticket *t = arg;
	struct bench *b = t->b;
	uint64_t at = now();

	if (rc < 0 && b->failed++ == 0)
		fprintf(stderr, "commit: %s\n", e->text);
	if (b->done < SAMPLES)
		b->took[b->done] = (uint32_t)(at - t->start_us);
	b->done++;
	free(t);
	if (at < b->end_us)
		give(b);
}

static void give(struct bench *b)
{
	struct store_txn *txn = store_txn_new();
	struct ticket *t = xmalloc(sizeof(*t));
	uint64_t id = ++b->next;
	char name[32];
	struct job_row r = {.id = id,
	                    .name = name,
	                    .owner = C("alice"),
	                    .experiment = C("digits"),
	                    .notes = C(""),
	                    .status = C("queued"),
	                    .queue = C("default"),
	                    .spec = C(spec),
	                    .run = C("{}"),
	                    .created_us = clock_real_us(clock_real()),
	                    .exit_code = -1,
	                    .reason = C(""),
	                    .wanted = C(""),
	                    .epoch = 1,
	                    .nodes = 2,
	                    .gpus = 2,
	                    .cleanup = C("")};
	struct event_row ev = {.id = id,
	                       .job = id,
	                       .at_us = r.created_us,
	                       .type = C("submitted"),
	                       .data = C("{\"status\":\"queued\"}")};
	struct err e;

	snprintf(name, sizeof(name), "digits-%d", (int)(id % 1000));
	store_txn_event(txn, &ev);
	store_txn_job(txn, &r);
	*t = (struct ticket){b, now()};
	if (store_commit(b->store, txn, on_done, t, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Both threads: this one fills transactions, the writer writes. */
static double cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void submits(struct bench *b, unsigned in_flight, double seconds, const char *name)
{
	struct store_stats before, after;
	uint64_t start = now(), first = b->next, wall;
	double cpu = cpu_us();

	store_stats(b->store, &before);
	b->done = b->failed = 0;
	b->end_us = start + (uint64_t)(seconds * 1e6);
	for (unsigned i = 0; i < in_flight; i++)
		give(b);
	while (b->done < b->next - first)
		loop_run_once(b->loop, 100);
	wall = now() - start;
	cpu = cpu_us() - cpu;
	store_stats(b->store, &after);
	size_t n = b->done < SAMPLES ? b->done : SAMPLES;

	qsort(b->took, n, sizeof(*b->took), by_value);
	printf("{\"bench\":\"%s\",\"in_flight\":%u,\"jobs_before\":%llu,\"per_s\":%.0f,\"p50_us\":%u,\"p99_us\":%"
	       "u,\"max_us\":%u,"
	       "\"cpu_us\":%.1f,\"group\":%.1f,\"failed\":%llu,\"behind_events\":%llu}\n",
	       name, in_flight, (unsigned long long)first, (double)b->done * 1e6 / (double)wall, b->took[n / 2],
	       b->took[n * 99 / 100], b->took[n - 1], cpu / (double)b->done,
	       (double)(after.transactions - before.transactions) / (double)(after.groups - before.groups),
	       (unsigned long long)b->failed, (unsigned long long)(after.last_event - after.projected_event));
	fflush(stdout);
}

static void prefill(struct bench *b, uint64_t jobs)
{
	uint64_t first = b->next;

	b->done = 0;
	b->end_us = 0;
	while (b->next - first < jobs) {
		for (int i = 0; i < 1024 && b->next - first < jobs; i++)
			give(b);
		while (b->done < b->next - first)
			loop_run_once(b->loop, 100);
	}
}

static void wait_projected(struct bench *b)
{
	struct store_stats st;
	uint64_t start = now();

	do {
		loop_run_once(b->loop, 10);
		store_stats(b->store, &st);
	} while (st.projected_event < st.last_event);
	printf("{\"bench\":\"projections_caught_up\",\"ms\":%.1f}\n", (double)(now() - start) / 1000);
}

static void report_read(const char *name, uint64_t start, int n, cJSON *last)
{
	printf("{\"bench\":\"%s\",\"us\":%.1f,\"found\":%d}\n", name, (double)(now() - start) / n,
	       cJSON_GetArraySize(cJSON_GetObjectItem(last, "jobs")));
	cJSON_Delete(last);
}

static void list(struct store_reader *r, const char *name, struct job_filter f)
{
	struct err e;
	uint64_t start = now();
	cJSON *j = NULL;

	for (int i = 0; i < 20; i++) {
		cJSON_Delete(j);
		j = store_jobs_json(r, &f, &e);
	}
	report_read(name, start, 20, j);
}

static void reads(const char *path, uint64_t jobs)
{
	struct err e;
	struct store_reader *r = store_reader_open(path, &e);
	uint64_t start = now();

	if (!r)
		return;
	for (uint64_t i = 0; i < 200; i++)
		cJSON_Delete(store_job_json(r, 1 + i * 7919 % jobs, &e));
	report_read("show_job", start, 200, NULL);
	list(r, "list_newest_100", (struct job_filter){0});
	list(r, "list_by_name", (struct job_filter){.name = "digits-17"});
	list(r, "list_by_tag", (struct job_filter){.tag_key = "team", .tag_value = "vision"});
	list(r, "list_by_text_rare", (struct job_filter){.text = "nowhere"});
	list(r, "list_active_of_owner", (struct job_filter){.owner = "alice", .status = "active"});
	store_reader_close(r);
}

static void on_batch(int rc, const struct err *e, void *arg)
{
	(void)rc;
	(void)e;
	++*(uint64_t *)arg;
}

/* 8 series of 10 points a batch, as an agent sends them. */
static void metrics(struct bench *b, double seconds)
{
	enum { N = 10, SERIES = 8 };
	int64_t steps[N];
	double values[N];
	uint64_t times[N], seq = 0, done = 0, start = now(), end = start + (uint64_t)(seconds * 1e6);
	char name[16];
	struct metric_chunk c = {.job = 1,
	                         .attempt = 1,
	                         .name = name,
	                         .n = N,
	                         .steps = steps,
	                         .values = values,
	                         .times_us = times,
	                         .node = C("n1")};
	struct err e;

	while (now() < end) {
		struct store_txn *t = store_txn_new();

		c.seq = ++seq;
		for (int i = 0; i < N; i++) {
			steps[i] = (int64_t)(seq * N) + i;
			values[i] = 1.0 / (double)(seq * N + (uint64_t)i);
			times[i] = 1790000000000000ull + (seq * N + (uint64_t)i) * 1000;
		}
		for (int i = 0; i < SERIES; i++) {
			snprintf(name, sizeof(name), "m%d", i);
			store_txn_metric(t, &c);
		}
		if (store_commit(b->store, t, on_batch, &done, &e) < 0)
			exit(1);
		while (seq - done > 64)
			loop_run_once(b->loop, 10);
	}
	while (done < seq)
		loop_run_once(b->loop, 10);
	printf("{\"bench\":\"metric_points\",\"per_s\":%.0f,\"batches_per_s\":%.0f}\n",
	       (double)(seq * N * SERIES) * 1e6 / (double)(now() - start),
	       (double)seq * 1e6 / (double)(now() - start));
}

static int on_job(const struct job_row *r, void *arg)
{
	(void)r;
	++*(uint64_t *)arg;
	return 0;
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : "/tmp";
	uint64_t before = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, start, n = 0, size = 0;
	double seconds = argc > 3 ? strtod(argv[3], NULL) : 2;
	static const unsigned in_flight[] = {1, 4, 16, 64, 256};
	struct bench b = {.took = xcalloc(SAMPLES, sizeof(uint32_t))};
	struct store_config c = {.clock = clock_real()};
	struct store_load l = {.job = on_job, .arg = &n};
	char path[4096], *own = xasprintf("%s/bench-store-XXXXXX", dir);
	struct stat st;
	struct err e;

	log_init("bench_store", LOG_LVL_WARN);
	if (!mkdtemp(own)) {
		perror(own);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/hearth.db", own);
	c.path = path;
	b.loop = loop_create();
	b.store = store_open(&c, b.loop, &e);
	if (!b.store) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	prefill(&b, before);
	for (size_t i = 0; i < sizeof(in_flight) / sizeof(in_flight[0]); i++)
		submits(&b, in_flight[i], seconds, "submits");
	wait_projected(&b);
	reads(path, b.next);
	metrics(&b, seconds);
	store_close(b.store);
	start = now();
	b.store = store_open(&c, b.loop, &e);
	if (b.store && store_load(b.store, &l, &e) == 0)
		printf("{\"bench\":\"open_and_load\",\"ms\":%.1f,\"jobs_loaded\":%llu}\n",
		       (double)(now() - start) / 1000, (unsigned long long)n);
	store_close(b.store);
	if (stat(path, &st) == 0)
		size = (uint64_t)st.st_size;
	printf("{\"bench\":\"bytes_per_job\",\"bytes\":%.0f}\n", (double)size / (double)b.next);
	loop_destroy(b.loop);
	free(b.took);
	fs_rm_rf(own, NULL);
	free(own);
	return 0;
}
