/*
 * How `default` does against fifo-skip and easy x3 over a grid of loads: JSON lines.
 *
 * Workloads: every trace of the folder; of traces of many users each user's jobs alone (at most WINDOW of
 * them, from the start and from the middle); and each of these made anew by drawing its bursts (jobs of one
 * user and size, each sent within 300 s of the one before) with a seed, at the times of the old ones. Each
 * runs on as many nodes as give the loads of a list, at two paces. A point holds when the mean completion
 * time is below both and the longest wait at most 1.1 x that of easy x3; a point where jobs hardly wait
 * under easy x3 is not counted. With plain=1 only the traces of the folder themselves are run. Usage:
 * bench_policy FOLDER [every=N] [only=TEXT] [points=0] [plain=1] [nodes=N [pace=X]] [policy's field=VALUE]...
 */
#include "scheduler/model/mem.h"
#include "scheduler/sched.h"
#include "scheduler/sim/sim.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WINDOW   2500
#define FEW      300
#define BURST_S  300
#define PER_NODE 8
#define SLACK    1.1
#define LOADED   1.02 /* completion over run time under easy x3, on average, from which a point counts */

static const double loads[] = {0.7, 0.85, 1.0, 1.2, 1.5};
static const uint64_t paces[] = {1, 6};

struct work {
	char name[80];
	struct trace t; /* names are shared, jobs are its own */
};
struct totals {
	uint32_t points, held, slow, late;
	double jct, worst_jct, worst_wait; /* jct: sum of logarithms */
};
struct options {
	struct sched_policy tune;
	uint32_t every, at, quiet, plain; /* plain: files as they are */
	const char *only;
	uint32_t nodes; /* instead of the loads; 0 not */
	uint64_t pace;
	struct totals all;
};

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 11) % n;
}

static int by_submit(const void *a, const void *b)
{
	const struct trace_job *x = a, *y = b;

	return x->submit_s < y->submit_s ? -1 : x->submit_s > y->submit_s;
}

/* Where each burst begins; bursts of several users may lie in one another. */
static size_t bursts(const struct trace *t, uint32_t *of)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct trace_job *j = &t->jobs[i];
		size_t k = i;

		of[i] = UINT32_MAX;
		while (k-- > 0 && t->jobs[k].submit_s + BURST_S >= j->submit_s)
			if (t->jobs[k].user == j->user && t->jobs[k].gpus == j->gpus) {
				of[i] = of[k];
				break;
			}
		if (of[i] == UINT32_MAX)
			of[i] = (uint32_t)n++;
	}
	return n;
}

static size_t first_of(const struct trace *t, const uint32_t *of, uint32_t burst)
{
	size_t i = 0;

	while (i < t->n && of[i] != burst)
		i++;
	return i;
}

static void redraw(const struct work *w, uint64_t seed, struct work *out)
{
	uint32_t *of = mem_alloc(w->t.n, sizeof *of);
	size_t n = bursts(&w->t, of), cap = 2 * w->t.n;

	*out = *w;
	snprintf(out->name, sizeof out->name, "%.60s~%u", w->name, (unsigned)seed);
	out->t.jobs = mem_alloc(cap, sizeof *out->t.jobs);
	out->t.n = 0;
	rng = seed * 0x9e3779b97f4a7c15u;
	for (uint32_t b = 0; b < n; b++) {
		uint32_t from = rnd((uint32_t)n);
		uint64_t at = w->t.jobs[first_of(&w->t, of, b)].submit_s, base = 0;
		size_t i = first_of(&w->t, of, from);

		for (base = w->t.jobs[i].submit_s; i < w->t.n && out->t.n < cap; i++) {
			if (of[i] != from)
				continue;
			out->t.jobs[out->t.n] = w->t.jobs[i];
			out->t.jobs[out->t.n++].submit_s = at + w->t.jobs[i].submit_s - base;
		}
	}
	qsort(out->t.jobs, out->t.n, sizeof *out->t.jobs, by_submit);
	free(of);
}

static void of_user(const struct work *w, uint32_t user, size_t from, struct work *out)
{
	size_t seen = 0;

	*out = *w;
	snprintf(out->name, sizeof out->name, "%.40s:%.20s+%u", w->name, w->t.users[user], (unsigned)from);
	out->t.jobs = mem_alloc(WINDOW, sizeof *out->t.jobs);
	out->t.n = 0;
	for (size_t i = 0; i < w->t.n && out->t.n < WINDOW; i++)
		if (w->t.jobs[i].user == user && seen++ >= from)
			out->t.jobs[out->t.n++] = w->t.jobs[i];
	for (size_t i = out->t.n; i-- > 0;)
		out->t.jobs[i].submit_s -= out->t.jobs[0].submit_s;
}

/* ---- one point ------------------------------------------------------------------------------- */

struct figures {
	double jct;
	uint64_t wait;
	uint32_t gpus; /* of the job that waited longest */
};

static struct figures figures(const struct options *o, const struct trace *t, struct sim_conf c,
                              enum sim_policy p, enum sim_estimate e)
{
	struct sim_result r;
	struct figures f;

	c.policy = p;
	c.estimate = e;
	c.tune = p == SIM_DEFAULT ? &o->tune : NULL;
	sim_run(&c, t, &r);
	f = (struct figures){r.avg_jct_s, r.max_wait_s, 0};
	for (size_t i = 0; i < r.n; i++)
		if (r.jobs[i].start_s - r.jobs[i].submit_s == f.wait)
			f.gpus = r.jobs[i].gpus;
	sim_result_fini(&r);
	return f;
}

static void count(struct options *o, double jct, double wait)
{
	struct totals *all = &o->all;

	all->points++;
	all->held += jct < 1 && wait <= SLACK;
	all->slow += jct >= 1;
	all->late += wait > SLACK;
	all->jct += log(jct);
	all->worst_jct = jct > all->worst_jct ? jct : all->worst_jct;
	all->worst_wait = wait > all->worst_wait ? wait : all->worst_wait;
}

static double mean_duration(const struct trace *t)
{
	double sum = 0;

	for (size_t i = 0; i < t->n; i++)
		sum += (double)t->jobs[i].duration_s;
	return sum / (double)t->n;
}

static void point(struct options *o, const struct work *w, uint32_t nodes, uint64_t pace, double load)
{
	struct sim_conf c = {.nodes = nodes, .gpus_per_node = PER_NODE, .speedup = pace};
	struct figures skip, easy, mine;
	double jct, wait;

	if (o->at++ % o->every)
		return;
	skip = figures(o, &w->t, c, SIM_FIFO_SKIP, SIM_TRUE);
	easy = figures(o, &w->t, c, SIM_EASY, SIM_X3);
	if (easy.wait < 60 || easy.jct < LOADED * mean_duration(&w->t))
		return;
	mine = figures(o, &w->t, c, SIM_DEFAULT, SIM_LEARNED);
	jct = mine.jct / (skip.jct < easy.jct ? skip.jct : easy.jct);
	wait = (double)mine.wait / (double)easy.wait;
	count(o, jct, wait);
	if (o->quiet)
		return;
	printf(
	    "{\"point\": \"%s %ux%u /%u\", \"load\": %.2f, \"jobs\": %zu, \"skip_jct_s\": %.0f, \"easy_jct_s\": "
	    "%.0f, \"easy_wait_s\": %llu, \"easy_waits_gpus\": %u, \"waits_gpus\": %u, \"jct\": %.3f, \"wait\": "
	    "%.3f, \"holds\": %d}\n",
	    w->name, nodes, PER_NODE, (unsigned)pace, load, w->t.n, skip.jct, easy.jct,
	    (unsigned long long)easy.wait, easy.gpus, mine.gpus, jct, wait, jct < 1 && wait <= SLACK);
	fflush(stdout);
}

/* As many nodes as give each load, where the largest gang still fits. */
static void points(struct options *o, const struct work *w)
{
	double work = 0;
	uint32_t largest = 1, last = 0;

	if (w->t.n < 2 || (o->only && !strstr(w->name, o->only)))
		return;
	if (o->nodes) {
		point(o, w, o->nodes, o->pace ? o->pace : 1, 0);
		return;
	}
	for (size_t i = 0; i < w->t.n; i++) {
		work += (double)w->t.jobs[i].gpus * (double)w->t.jobs[i].duration_s;
		largest = w->t.jobs[i].gpus > largest ? w->t.jobs[i].gpus : largest;
	}
	for (size_t p = 0; p < sizeof paces / sizeof *paces; p++)
		for (size_t l = 0; l < sizeof loads / sizeof *loads; l++) {
			double span = (double)w->t.jobs[w->t.n - 1].submit_s / (double)paces[p],
			       nodes = floor(work / (PER_NODE * span * loads[l]) + 0.5);

			if (nodes < 2 || nodes > 1000 || nodes * PER_NODE < largest || (uint32_t)nodes == last)
				continue;
			last = (uint32_t)nodes;
			point(o, w, last, paces[p], work / (PER_NODE * span * nodes));
		}
}

static void points_and_drawn(struct options *o, const struct work *w, uint32_t seeds)
{
	points(o, w);
	for (uint32_t seed = 1; seed <= seeds; seed++) {
		struct work drawn;

		redraw(w, seed, &drawn);
		points(o, &drawn);
		free(drawn.t.jobs);
	}
}

static void each_user(struct options *o, const struct work *w)
{
	uint32_t *jobs = mem_alloc(w->t.n_users, sizeof *jobs);

	for (size_t i = 0; i < w->t.n; i++)
		jobs[w->t.jobs[i].user]++;
	for (uint32_t u = 0; w->t.n_users > 1 && u < w->t.n_users; u++) {
		for (uint32_t part = 0; part < 2; part++) {
			struct work own;

			if (jobs[u] < FEW || (part && jobs[u] < 2 * WINDOW))
				continue;
			of_user(w, u, part ? jobs[u] / 2 : 0, &own);
			points_and_drawn(o, &own, 1);
			free(own.t.jobs);
		}
	}
	free(jobs);
}

static void file(struct options *o, const char *folder, const char *name)
{
	char path[512];
	struct work w;
	struct trace_mistake m;
	char *text = mem_alloc(16 << 20, 1);
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, 16 << 20, f);
		fclose(f);
	}
	memset(&w, 0, sizeof w);
	snprintf(w.name, sizeof w.name, "%.*s", (int)(strlen(name) - 4), name);
	if (trace_parse(&w.t, text, n, &m) < 0) {
		fprintf(stderr, "%s: line %zu: %s\n", path, m.line, m.what);
	} else {
		if (o->plain)
			points(o, &w);
		else if (w.t.n <= 2 * WINDOW)
			points_and_drawn(o, &w, 2);
		if (!o->plain)
			each_user(o, &w);
		trace_fini(&w.t);
	}
	free(text);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static int is_csv(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 4 && strcmp(d->d_name + n - 4, ".csv") == 0;
}

static int option(struct options *o, const char *arg)
{
	const char *value = strchr(arg, '=');
	size_t n = value ? (size_t)(value++ - arg) : 0;
	double v = value ? atof(value) : 0;

#define IS(word) (n == strlen(word) && memcmp(arg, word, n) == 0)
	if (IS("every"))
		o->every = v >= 1 ? (uint32_t)v : 1;
	else if (IS("only"))
		o->only = value;
	else if (IS("nodes"))
		o->nodes = (uint32_t)v;
	else if (IS("pace"))
		o->pace = (uint64_t)v;
	else if (IS("plain"))
		o->plain = v >= 1;
	else if (IS("points"))
		o->quiet = v < 1;
	else if (IS("due_s"))
		o->tune.due_s = (uint64_t)v;
	else if (IS("due_backlog"))
		o->tune.due_backlog = v;
	else if (IS("caution"))
		o->tune.caution = v;
	else if (IS("burst_s"))
		o->tune.burst_s = (uint64_t)v;
	else
		return -1;
#undef IS
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {.every = 1, .tune = {.backfill = SCHED_RESERVE, .learned = 1}};
	struct dirent **list;
	int n;

	if (argc < 2 || (n = scandir(argv[1], &list, is_csv, alphasort)) < 0) {
		fprintf(stderr, "usage: bench_policy FOLDER [every=N] [only=TEXT] [points=0] [FIELD=VALUE]...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		if (option(&o, argv[i]) < 0) {
			fprintf(stderr, "bench_policy: '%s'\n", argv[i]);
			return 2;
		}
	for (int i = 0; i < n; i++) {
		file(&o, argv[1], list[i]->d_name);
		free(list[i]);
	}
	free(list);
	printf("{\"bench\": \"policy\", \"points\": %u, \"held\": %u, \"slow\": %u, \"late\": %u, \"jct\": %.4f, "
	       "\"worst_jct\": %.3f, \"worst_wait\": %.3f}\n",
	       o.all.points, o.all.held, o.all.slow, o.all.late,
	       exp(o.all.jct / (o.all.points ? o.all.points : 1)), o.all.worst_jct, o.all.worst_wait);
	return 0;
}
