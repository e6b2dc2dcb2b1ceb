/*
 * fuzz_agent: what an agent finds on disk when it starts, and what programs leave for it to read. The first
 * byte says which file the rest is:
 *
 *   p  RUN/J.A/plan         an order; what is taken fits together, and is the same after it was saved again
 *   l  RUN/J.A/life         all or nothing of it is taken; what is saved of that is taken the same again
 *   m  RUN/J.A/metrics      how far metrics were read, and the batch that was under way
 *   g  RUN/lease, \0 RUN/peers
 *   c  RUN/J.A/container    control groups and holder
 *   s  a log folder         out.0.log, \0 out.0.idx: every byte once, in order, records inside
 *   j  a metrics file, o an output with metrics: the same points however the bytes are cut
 *   w  mpirun's words for a remote shell
 *   n  DATA/node
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_core.h"
#include "agent/command/env.h"
#include "agent/container/cgroup.h"
#include "agent/control/guard.h"
#include "agent/control/join.h"
#include "agent/launch/launch_steps.h"
#include "agent/link/data_link.h"
#include "agent/logs/points.h"
#include "agent/logs/segments.h"
#include "agent/stubs/rshwords.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"
#include "tests/unit/agent/launch/agentkit.h"

#define NEVER(what)                                                                                          \
	do {                                                                                                     \
		if (what) {                                                                                          \
			fprintf(stderr, "fuzz_agent: %s\n", #what);                                                      \
			abort();                                                                                         \
		}                                                                                                    \
	} while (0)

static struct agent *agent;
static const char *run;
static char *dir; /* RUN/17.2 */
static struct metric_set *patterns;

static void no_log(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

static void put_file(const char *in, const char *name, const void *data, size_t n)
{
	char *path = xasprintf("%s/%s", in, name);
	struct err e;
	int fd;

	unlink(path); /* no rename: thousands a second */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || fs_write_all(fd, data, n, &e) < 0)
		tap_bail("%s cannot be written", path);
	close(fd);
	free(path);
}

static void prepare(void)
{
	struct plan *plan;

	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 1);
	log_set_sink(no_log, NULL);
	agent = agentkit_open(tap_tmpdir());
	run = agent->env.cfg.run_dir;
	dir = xasprintf("%s/17.2", run);
	plan = agentkit_plan();
	patterns = metric_set_create(plan->spec);
	plan_destroy(plan);
}

/* ---- orders and what became of them ----------------------------------------------------------- */

static void fuzz_plan(const uint8_t *data, size_t n)
{
	struct plan *p, *again;
	struct strv argv = {0};
	struct err e;
	uint32_t ranks = 0;

	put_file(dir, "plan", data, n);
	p = plan_load(dir, &e);
	if (!p) {
		NEVER(!e.text[0]);
		return;
	}
	for (uint32_t i = 0; i < p->g->ranks_per_node.n; i++)
		ranks += p->g->ranks_per_node.v[i];
	NEVER(p->n_nodes != p->g->nodes.n || p->m->node_rank >= p->n_nodes || p->world != ranks);
	NEVER(p->first_rank + p->local_ranks > p->world);
	NEVER(plan_node_index(p, plan_node_name(p)) < 0);
	plan_argv(p, &argv);
	NEVER(argv.n < p->spec->command.n);
	strv_fini(&argv);
	NEVER(plan_save(p, dir, &e) < 0);
	again = plan_load(dir, &e);
	NEVER(!again);
	NEVER(again->world != p->world || again->first_rank != p->first_rank || again->m->job != p->m->job);
	plan_destroy(again);
	plan_destroy(p);
}

static char *saved(struct launch *l)
{
	char *path = xasprintf("%s/life", dir), *text;
	struct err e;

	launch_save(l, NULL);
	NEVER(fs_read_file(path, 1 << 22, &text, NULL, &e) < 0);
	free(path);
	return text;
}

static void fuzz_life(const uint8_t *data, size_t n)
{
	struct launch *l = launch_new(&agent->host, agentkit_plan()),
	              *again = launch_new(&agent->host, agentkit_plan());
	char *before = saved(l), *after, *twice;
	struct err e;
	int same = 0;

	put_file(dir, "life", data, n);
	if (launch_load(l, &same, &e) < 0) {
		NEVER(!e.text[0]);
		after = saved(l);
		NEVER(strcmp(before, after) != 0);
		twice = xstrdup("");
	} else {
		NEVER(l->state < LAUNCH_PREPARING || l->state > LAUNCH_CLEANED || l->n_phases > LAUNCH_PHASES_MAX);
		NEVER((unsigned)l->cls >= N_REASON_CLASS || !l->text);
		after = saved(l);
		NEVER(launch_load(again, &same, &e) < 0);
		NEVER(!same); /* it was saved by this boot */
		twice = saved(again);
		NEVER(strcmp(after, twice) != 0);
	}
	l->removing = again->removing = 0; /* there is no one here who removes folders */
	launch_free(l);
	launch_free(again);
	free(before);
	free(after);
	free(twice);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void fuzz_points(const uint8_t *data, size_t n)
{
	struct points *p;
	struct points_src *s;
	uint64_t offset = 0, later = 0;
	int64_t step = 0, later_step = 0;

	put_file(dir, "metrics", data, n);
	p = points_open(&agent->env, agent->host.link, 17, 2, dir);
	s = points_source(p, "rank-0", 0, nothing, NULL);
	points_where(s, &offset, &step);
	points_source_close(s);
	s = points_source(p, "rank-0", 0, nothing, NULL);
	points_where(s, &later, &later_step);
	NEVER(offset != later || step != later_step);
	points_flush(s);
	points_source_close(s);
	points_close(p);
}

static void fuzz_guard(const uint8_t *data, size_t n)
{
	const uint8_t *cut = memchr(data, 0, n);
	size_t first = cut ? (size_t)(cut - data) : n;
	struct guard *g;

	put_file(run, "lease", data, first);
	put_file(run, "peers", cut ? cut + 1 : data, cut ? n - first - 1 : 0);
	g = agentkit_guard(agent);
	NEVER(guard_peers_gen(g) != 0); /* hearthd sends the list again */
	guard_destroy(g);
}

static void fuzz_container(const uint8_t *data, size_t n)
{
	struct launch *l = launch_new(&agent->host, agentkit_plan());
	struct container_params p = {.name = "17.2", .token = "t", .paths = &l->paths, .user = &l->user};
	struct container *c;
	struct strv procs = {0}, oom = {0};
	uint64_t start;
	uint32_t pid;
	struct err e;

	put_file(dir, "container", data, n);
	c = container_adopt(&agent->env, &p, NULL, NULL, &e);
	NEVER(!c && !e.text[0]);
	if (c) {
		container_shim(c, &procs, &oom, &pid, &start);
		/* Whatever is taken from it is killed and removed one day. */
		for (size_t i = 0; i < procs.n; i++)
			NEVER(!strstr(procs.v[i], "/hearth/") || !strstr(procs.v[i], "/17.2/") ||
			      strstr(procs.v[i], "/../"));
		NEVER(pid != 0); /* no process of these tests is a holder */
		container_forget(c);
	}
	strv_fini(&procs);
	strv_fini(&oom);
	launch_free(l);
}

/* ---- output ----------------------------------------------------------------------------------- */

static void fuzz_segments(const uint8_t *data, size_t n)
{
	const uint8_t *cut = memchr(data, 0, n);
	size_t first = cut ? (size_t)(cut - data) : n, got = 0;
	char name[SEGMENT_NAME_SIZE], bytes[64];
	struct segments d;
	struct segment_cursor c;
	struct buf recs;
	uint64_t gap;
	ptrdiff_t k;
	struct err e;

	segment_name(name, 0, "log");
	put_file(dir, name, data, first);
	segment_name(name, 0, "idx");
	put_file(dir, name, cut ? cut + 1 : data, cut ? n - first - 1 : 0);
	NEVER(segments_open(&d, dir, &e) < 0);
	segment_cursor_init(&c, &d, 0);
	buf_init(&recs, 1 << 20);
	while ((k = segment_cursor_read(&c, bytes, sizeof bytes, &recs, &gap, &e)) > 0) {
		uint32_t off, fd;
		uint64_t us;

		NEVER(gap || memcmp(bytes, data + got, (size_t)k) != 0);
		got += (size_t)k;
		while (buf_left(&recs)) {
			NEVER(buf_get_u32(&recs, &off) < 0 || buf_get_u64(&recs, &us) < 0 || buf_get_u32(&recs, &fd) < 0);
			NEVER(off >= k);
		}
		buf_fini(&recs);
		buf_init(&recs, 1 << 20);
	}
	NEVER(k < 0 || got != first);
	buf_fini(&recs);
	segment_cursor_fini(&c);
	segments_close(&d);
}

struct points_seen {
	uint64_t n;
	double sum;
	int64_t steps;
};

static void on_point(const struct metric_point *p, void *arg)
{
	struct points_seen *s = arg;

	NEVER(!p->name[0] || strlen(p->name) > METRIC_NAME_MAX);
	s->n++;
	s->sum += isfinite(p->value) && fabs(p->value) < 1e15 ? floor(p->value) : 1;
	s->steps = (int64_t)((uint64_t)s->steps + (uint64_t)p->step);
}

static int go_on(void *arg)
{
	(void)arg;
	return 0;
}

static void scan(struct points_seen *s, struct metric_set *set, const char *p, size_t n, size_t by)
{
	struct metric_scan m;

	metric_scan_init(&m, set);
	for (size_t at = 0; at < n; at += by) {
		size_t k = n - at < by ? n - at : by;

		NEVER(metric_scan_feed(&m, p + at, k, 1, on_point, go_on, s) != k);
	}
	metric_scan_end(&m, 1, on_point, s);
	metric_scan_fini(&m);
}

static void fuzz_scan(struct metric_set *set, const uint8_t *data, size_t n)
{
	struct points_seen whole = {0}, cut = {0};

	scan(&whole, set, (const char *)data, n, n ? n : 1);
	scan(&cut, set, (const char *)data, n, 7);
	NEVER(whole.n != cut.n || whole.steps != cut.steps || whole.sum < cut.sum || whole.sum > cut.sum);
}

/* ---- words ------------------------------------------------------------------------------------ */

static void fuzz_words(const uint8_t *data, size_t n)
{
	char *line = xstrndup((const char *)data, n), *args[] = {line, NULL};
	struct strv out = {0};
	struct err e;

	if (rshwords_split(args, 1, &out, &e) < 0)
		NEVER(!e.text[0]);
	strv_fini(&out);
	free(line);
}

static void fuzz_node(const uint8_t *data, size_t n)
{
	char *name;

	put_file(run, "node", data, n);
	name = join_stored_name(run);
	NEVER(name && strchr(name, '\n'));
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!run)
		prepare();
	if (size == 0)
		return 0;
	switch (data[0]) {
	case 'p':
		fuzz_plan(data + 1, size - 1);
		break;
	case 'l':
		fuzz_life(data + 1, size - 1);
		break;
	case 'm':
		fuzz_points(data + 1, size - 1);
		break;
	case 'g':
		fuzz_guard(data + 1, size - 1);
		break;
	case 'c':
		fuzz_container(data + 1, size - 1);
		break;
	case 's':
		fuzz_segments(data + 1, size - 1);
		break;
	case 'j':
		fuzz_scan(NULL, data + 1, size - 1);
		break;
	case 'o':
		fuzz_scan(patterns, data + 1, size - 1);
		break;
	case 'w':
		fuzz_words(data + 1, size - 1);
		break;
	case 'n':
		fuzz_node(data + 1, size - 1);
		break;
	default:
		break;
	}
	return 0;
}
