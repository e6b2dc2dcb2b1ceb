/*
 * replay: `jobctl simulate` of a record that `jobctl trace` wrote: what would have been with other settings
 * or nodes, beside what was; and whether the library decides the same once more.
 */
#include "jobctl/sim/simulate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/show/print.h"
#include "scheduler/sim/replay.h"

#define HEAD       "hearth-history"
#define MAX_RECORD ((size_t)1 << 30)

int simulate_is_record(const char *path)
{
	char head[sizeof(HEAD) - 1];
	FILE *f = fopen(path, "re");
	int is = f && fread(head, 1, sizeof(head), f) == sizeof(head) && memcmp(head, HEAD, sizeof(head)) == 0;

	if (f)
		fclose(f);
	return is;
}

/* ---- options ----------------------------------------------------------------------------------- */

struct wishes { /* what the options say, with what they borrow */
	struct replay_conf conf;
	struct sched_policy policy;
	enum sched_backfill backfill;
	struct replay_weight weights[ARGS_MAX];
	char *paths[ARGS_MAX];
	const char *without[ARGS_MAX + 1];
};

static const struct {
	const char *name;
	struct sched_policy policy;
} policies[] = {
    {"live", {0}},
    {"fifo", {.backfill = SCHED_BLOCK, .by_limit = 1}},
    {"fifo-skip", {.backfill = SCHED_SKIP, .by_limit = 1}},
    {"easy", {.backfill = SCHED_RESERVE, .by_limit = 1}},
    {"fair", {.backfill = SCHED_RESERVE, .fair = 1, .by_limit = 1}},
    {"conservative", {.backfill = SCHED_CONSERVATIVE, .by_limit = 1}},
};
#define N_POLICIES (sizeof(policies) / sizeof(policies[0]))

static int choose_name(struct ctx *c, const char *option, const char *const *names, unsigned *out)
{
	const char *given = args_get(&c->args, option), *near;

	for (unsigned i = 0; given && names[i]; i++) {
		if (strcmp(names[i], given) == 0) {
			*out = i;
			return 0;
		}
	}
	if (!given)
		return 0;
	near = str_nearest(given, names);
	return ctx_fail(c, ERR_INVALID, "--%s '%s' is not for the record of a cluster%s%s%s; see man jobctl",
	                option, given, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int take_policy(struct ctx *c, struct wishes *w, unsigned *policy)
{
	static const char *const ways[] = {"as recorded", "easy", "none", "conservative", NULL};
	static const enum sched_backfill values[] = {0, SCHED_RESERVE, SCHED_BLOCK, SCHED_CONSERVATIVE};
	static const char *const estimates[] = {"limits", "true", "x3", "learned", NULL};
	const char *names[N_POLICIES + 1];
	unsigned way = 0, estimate = REPLAY_LIMITS;

	for (size_t i = 0; i < N_POLICIES; i++)
		names[i] = policies[i].name;
	names[N_POLICIES] = NULL;
	if (choose_name(c, "policy", names, policy) || choose_name(c, "backfill", ways, &way) ||
	    choose_name(c, "estimate", estimates, &estimate))
		return -1;
	if (*policy && way)
		return ctx_fail(c, ERR_INVALID, "--backfill changes the recorded policy: it goes without --policy");
	w->policy = policies[*policy].policy;
	w->conf.policy = *policy ? &w->policy : NULL;
	w->backfill = values[way];
	w->conf.backfill = way ? &w->backfill : NULL;
	w->conf.estimate = (enum replay_estimate)estimate;
	return 0;
}

static int take_weights(struct ctx *c, struct wishes *w)
{
	const char *given;

	for (size_t i = 0; (given = args_nth(&c->args, "weight", i)); i++) {
		const char *is = strchr(given, '=');
		char *end;
		double v = is ? strtod(is + 1, &end) : 0;

		if (!is || is == given || end == is + 1 || *end || !isfinite(v) || v <= 0)
			return ctx_fail(c, ERR_INVALID, "--weight '%s': expected QUEUE=N or QUEUE/@USER=N", given);
		w->paths[i] = xstrndup(given, (size_t)(is - given));
		w->weights[i] = (struct replay_weight){w->paths[i], v};
		w->conf.n_weights = i + 1;
	}
	w->conf.weights = w->weights;
	return 0;
}

static int take_options(struct ctx *c, struct wishes *w, unsigned *policy)
{
	static const char *const others[] = {"nodes", "gpus-per-node", "speedup", "failures",
	                                     "seed",  "svg",           NULL};
	uint64_t more = 0;
	size_t i;

	for (const char *const *o = others; *o; o++)
		if (args_has(&c->args, *o))
			return ctx_fail(c, ERR_INVALID,
			                "--%s is for traces in CSV: the record of a cluster has its own nodes and times "
			                "(--more-nodes and --without change the nodes)",
			                *o);
	if (args_u64(&c->args, "more-nodes", 1, 1000000, &more, &c->err) || take_policy(c, w, policy) ||
	    take_weights(c, w))
		return -1;
	w->conf.more_nodes = (uint32_t)more;
	for (i = 0; (w->without[i] = args_nth(&c->args, "without", i)); i++)
		;
	w->conf.without = w->without;
	return 0;
}

/* ---- the report ---------------------------------------------------------------------------------- */

static void add_figures(cJSON *o, const struct replay_figures *f)
{
	const struct {
		const char *name;
		double v;
	} all[] = {{"avg_jct_s", f->avg_jct},   {"avg_wait_s", f->avg_wait},    {"p50_jct_s", f->p50_jct},
	           {"p95_jct_s", f->p95_jct},   {"p99_jct_s", f->p99_jct},      {"max_wait_s", f->max_wait},
	           {"makespan_s", f->makespan}, {"utilization", f->utilization}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		cJSON_AddItemToObject(o, all[i].name, simulate_number(all[i].v));
}

static cJSON *start_json(const struct replay_start *s)
{
	cJSON *o, *nodes;

	if (!s->job)
		return cJSON_CreateNull();
	o = cJSON_CreateObject();
	cJSON_AddItemToObject(o, "job", simulate_whole(s->job));
	nodes = cJSON_AddArrayToObject(o, "nodes");
	for (uint32_t i = 0; i < s->n; i++)
		cJSON_AddItemToArray(nodes, cJSON_CreateString(s->nodes[i]));
	return o;
}

static cJSON *compared_json(const struct replay_compared *r)
{
	cJSON *o = cJSON_CreateObject(), *d;
	char at[CLOCK_RFC3339_SIZE];

	cJSON_AddBoolToObject(o, "equal", !r->differs);
	cJSON_AddItemToObject(o, "starts", simulate_whole(r->starts));
	if (!r->differs)
		return o;
	d = cJSON_AddObjectToObject(o, "first_difference");
	clock_rfc3339(r->at_ms * 1000, at);
	cJSON_AddStringToObject(d, "at", at);
	cJSON_AddItemToObject(d, "recorded", start_json(&r->was));
	cJSON_AddItemToObject(d, "here", start_json(&r->is));
	return o;
}

static cJSON *report_json(const struct ctx *c, const struct wishes *w, unsigned policy,
                          const struct replay_result *r, const struct replay_compared *same, double wall_s)
{
	static const char *const estimates[] = {"limits", "true", "x3", "learned"};
	cJSON *o = cJSON_CreateObject(), *was;

	cJSON_AddItemToObject(o, "policy", cJSON_CreateString(policies[policy].name));
	if (w->conf.backfill)
		cJSON_AddStringToObject(o, "backfill", args_get(&c->args, "backfill"));
	cJSON_AddItemToObject(o, "estimate", cJSON_CreateString(estimates[w->conf.estimate]));
	cJSON_AddItemToObject(o, "nodes", simulate_whole(r->nodes));
	cJSON_AddItemToObject(o, "gpus", simulate_whole(r->gpus));
	cJSON_AddItemToObject(o, "jobs", simulate_whole(r->is.jobs));
	cJSON_AddItemToObject(o, "dropped", simulate_whole(r->dropped));
	cJSON_AddItemToObject(o, "unfinished", simulate_whole(r->unfinished));
	cJSON_AddItemToObject(o, "before", simulate_whole(r->before));
	add_figures(o, &r->is);
	was = cJSON_AddObjectToObject(o, "recorded");
	cJSON_AddItemToObject(was, "nodes", simulate_whole(r->was_nodes));
	cJSON_AddItemToObject(was, "gpus", simulate_whole(r->was_gpus));
	cJSON_AddItemToObject(was, "jobs", simulate_whole(r->was.jobs));
	add_figures(was, &r->was);
	if (same)
		cJSON_AddItemToObject(o, "compare", compared_json(same));
	cJSON_AddItemToObject(o, "wall_s", simulate_number(wall_s));
	return o;
}

static void print_start(const char *what, const struct replay_start *s)
{
	printf("  %s: ", what);
	if (!s->job)
		printf("nothing more");
	else
		printf("job %" PRIu64 " on", s->job);
	for (uint32_t i = 0; i < s->n; i++)
		printf("%s%s", i ? "," : " ", s->nodes[i]);
	putchar('\n');
}

static void print_compared(const struct replay_compared *r)
{
	char at[CLOCK_RFC3339_SIZE];

	if (!r->differs) {
		printf("%zu starts, in the recorded order and on the recorded nodes\n", r->starts);
		return;
	}
	clock_rfc3339(r->at_ms * 1000, at);
	printf("after %zu equal starts, at %s, the library decides otherwise\n", r->starts, print_time_zone(at));
	print_start("recorded", &r->was);
	print_start("here", &r->is);
}

static void print_report(const cJSON *o)
{
	const cJSON *m, *was = jget(o, "recorded");

	cJSON_ArrayForEach (m, o) {
		const cJSON *other = jget(was, m->string);

		if (m == was || cJSON_IsObject(m))
			continue;
		char *here = simulate_short(m), *there = other ? simulate_short(other) : NULL;

		if (strcmp(m->string, "nodes") == 0)
			printf("%-14s %-20s %s\n", "", "simulated", "recorded");
		if (other)
			printf("%-14s %-20s %s\n", m->string, here, there);
		else
			printf("%-14s %s\n", m->string, here);
		free(here);
		free(there);
	}
}

static void add_job(FILE *f, const struct replay_job *j)
{
	fprintf(f, "%" PRIu64 ",%.3f,", j->id, (double)j->submit_ms / 1000);
	if (j->start_ms != REPLAY_NEVER)
		fprintf(f, "%.3f", (double)j->start_ms / 1000);
	fputc(',', f);
	if (j->end_ms != REPLAY_NEVER)
		fprintf(f, "%.3f", (double)j->end_ms / 1000);
	fputc(',', f);
	if (j->was_start_ms != REPLAY_NEVER)
		fprintf(f, "%.3f", (double)j->was_start_ms / 1000);
	fputc(',', f);
	if (j->was_ms != REPLAY_NEVER)
		fprintf(f, "%.3f", (double)j->was_ms / 1000);
	fprintf(f, ",%" PRIu64 ",", j->gpus);
	for (uint32_t i = 0; i < j->n_nodes; i++)
		fprintf(f, "%s%s", i ? " " : "", j->nodes[i]);
	fputc('\n', f);
}

static int write_schedule(struct ctx *c, const char *path, const struct replay_result *r)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	int rc;

	if (!f)
		return ctx_fail(c, ERR_INTERNAL, "no memory for the schedule");
	fputs("job,submit_s,start_s,end_s,recorded_start_s,recorded_end_s,gpus,nodes\n", f);
	for (size_t i = 0; i < r->n; i++)
		add_job(f, &r->jobs[i]);
	fclose(f);
	rc = fs_write_atomic(path, text, n, 0644, &c->err);
	free(text);
	return rc;
}

/* ---- the run ------------------------------------------------------------------------------------- */

/* Nobody takes a node away that was never there. */
static int check_without(struct ctx *c, const struct wishes *w, const struct replay_result *r)
{
	for (const char *const *name = w->without; *name; name++) {
		const char *near = str_nearest(*name, (const char *const *)r->node_names);
		char **n = r->node_names;

		while (*n && strcmp(*n, *name) != 0)
			n++;
		if (!*n)
			return ctx_fail(c, ERR_INVALID, "--without: no node is called %s%s%s%s", *name,
			                near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
	}
	return 0;
}

/* Nor is a weight given to who was not there. */
static int check_weights(struct ctx *c, const struct wishes *w, const struct replay_result *r)
{
	for (size_t i = 0; i < w->conf.n_weights; i++) {
		const char *path = w->conf.weights[i].path, *near;
		char **p = r->paths;

		while (*p && strcmp(*p, path) != 0)
			p++;
		if (*p)
			continue;
		near = str_nearest(path, (const char *const *)r->paths);
		return ctx_fail(c, ERR_INVALID, "--weight: the record knows no queue or user %s%s%s%s", path,
		                near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
	}
	return 0;
}

static int run_record(struct ctx *c, const struct wishes *w, unsigned policy, const char *path,
                      const char *text, size_t n)
{
	uint64_t began = clock_boot_us(clock_real());
	const char *schedule = args_get(&c->args, "schedule");
	int compare = args_has(&c->args, "compare"), rc = 0;
	struct replay_compared same = {0};
	struct replay_result r = {0};
	struct replay_mistake m;
	cJSON *o;

	if (replay_simulate(&w->conf, text, n, &r, &m) < 0 ||
	    (compare && replay_compare(&w->conf, text, n, &same, &m) < 0)) {
		replay_result_fini(&r);
		return ctx_fail(c, ERR_INVALID, "%s: line %zu: %s", path, m.line, m.what);
	}
	if (check_without(c, w, &r) < 0 || check_weights(c, w, &r) < 0) {
		replay_compared_fini(&same);
		replay_result_fini(&r);
		return -1;
	}
	o = report_json(c, w, policy, &r, compare ? &same : NULL,
	                (double)(clock_boot_us(clock_real()) - began) / 1e6);
	if (schedule)
		rc = write_schedule(c, schedule, &r);
	if (rc == 0 && c->json)
		ctx_print_json(o);
	else if (rc == 0)
		print_report(o);
	if (rc == 0 && !r.n)
		fprintf(stderr,
		        "jobctl: there are no jobs in this trace but %zu that ran before it began, so there is "
		        "nothing to "
		        "simulate; earlier parts of the record: jobctl trace --list, jobctl trace --part N\n",
		        r.before);
	if (rc == 0 && compare && !c->json)
		print_compared(&same);
	if (rc == 0 && same.differs)
		rc = EXIT_JOB_FAILED;
	cJSON_Delete(o);
	replay_compared_fini(&same);
	replay_result_fini(&r);
	return rc;
}

int simulate_record(struct ctx *c, const char *path)
{
	struct wishes *w = xcalloc(1, sizeof(*w));
	unsigned policy = 0;
	char *text = NULL;
	size_t n;
	int rc = -1;

	if (take_options(c, w, &policy) == 0 && simulate_read(c, path, MAX_RECORD, &text, &n) == 0)
		rc = run_record(c, w, policy, path, text, n);
	for (size_t i = 0; i < w->conf.n_weights; i++)
		free(w->paths[i]);
	free(text);
	free(w);
	return rc;
}
