/*
 * simulate: `jobctl simulate TRACE`: reads a trace, runs it through the scheduler library, prints the
 * figures. A record of a cluster is replay.c's.
 *
 * No controller is asked. The same trace and options give the same bytes, but for wall_s, which stands last.
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
#include "jobctl/sim/picture.h"
#include "scheduler/sched.h"
#include "scheduler/sim/sim.h"

#define MAX_TRACE ((size_t)4 << 30)

struct queues { /* of users of a trace, that options give a weight or a quota */
	struct sched_queue v[2 * ARGS_MAX];
	char *names[2 * ARGS_MAX];
	size_t n;
};

static void queues_fini(struct queues *q)
{
	for (size_t i = 0; i < q->n; i++)
		free(q->names[i]);
}

static int pick_name(struct ctx *c, const char *option, const char *(*name)(unsigned), unsigned n,
                     unsigned *out)
{
	const char *given = args_get(&c->args, option), *names[32], *near;

	if (!given)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		names[i] = name(i);
		if (strcmp(given, names[i]) == 0) {
			*out = i;
			return 0;
		}
	}
	names[n] = NULL;
	near = str_nearest(given, names);
	return err_set(&c->err, ERR_INVALID, "--%s '%s' is not known%s%s%s; see jobctl simulate --help", option,
	               given, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static const char *policy_name(unsigned i)
{
	return sim_policy_name((enum sim_policy)i);
}

static const char *estimate_name(unsigned i)
{
	return sim_estimate_name((enum sim_estimate)i);
}

static int take_failures(struct ctx *c, double *out)
{
	const char *s = args_get(&c->args, "failures");
	char *end;

	if (!s)
		return 0;
	*out = strtod(s, &end);
	if (end == s || *end || !isfinite(*out) || *out < 0.1)
		return err_set(&c->err, ERR_INVALID,
		               "--failures '%s': expected a mean time to failure in hours, from 0.1 up", s);
	return 0;
}

/* --preempt EVERY_S[,RESTART_S] */
static int take_preempt(struct ctx *c, struct sim_conf *conf)
{
	const char *s = args_get(&c->args, "preempt");
	uint64_t restart = 60;
	char *end;

	if (!s)
		return 0;
	conf->checkpoint_s = strtoull(s, &end, 10);
	if (*s >= '0' && *s <= '9' && *end == ',' && end[1] >= '0' && end[1] <= '9')
		restart = strtoull(end + 1, &end, 10);
	if (*s < '0' || *s > '9' || *end || conf->checkpoint_s > TRACE_MAX_SECONDS || restart > TRACE_MAX_SECONDS)
		return err_set(&c->err, ERR_INVALID,
		               "--preempt '%s': expected the seconds between two checkpoints (0: none is made), and "
		               "after a comma those that a restart takes (60 when not given)",
		               s);
	conf->preempt = 1;
	conf->restart_s = restart;
	return 0;
}

/* The user before the '=', whose weight and quota stand together. */
static struct sched_queue *queue_of(struct queues *q, const char *given)
{
	size_t n = strcspn(given, "="), i;

	for (i = 0; i < q->n; i++)
		if (strlen(q->v[i].path) == n && memcmp(q->v[i].path, given, n) == 0)
			return &q->v[i];
	q->v[q->n++] = (struct sched_queue){.path = q->names[i] = xstrndup(given, n)};
	return &q->v[i];
}

static int take_shares(struct ctx *c, struct queues *q)
{
	const char *given;

	for (size_t i = 0; (given = args_nth(&c->args, "weight", i)); i++) {
		const char *is = strchr(given, '=');
		char *end = NULL;
		double v = is ? strtod(is + 1, &end) : 0;

		if (!is || is == given || end == is + 1 || *end || !isfinite(v) || v <= 0)
			return err_set(&c->err, ERR_INVALID, "--weight '%s': expected USER=N", given);
		queue_of(q, given)->weight = v;
	}
	for (size_t i = 0; (given = args_nth(&c->args, "quota", i)); i++) {
		const char *is = strchr(given, '=');
		char *end = NULL;
		uint64_t v = is && is[1] >= '0' && is[1] <= '9' ? strtoull(is + 1, &end, 10) : 0;

		if (!is || is == given || !v || v > TRACE_MAX_GPUS || (*end && strcmp(end, ",borrow") != 0))
			return err_set(&c->err, ERR_INVALID,
			               "--quota '%s': expected USER=GPUS, or USER=GPUS,borrow who may hold more while "
			               "nobody within a quota wants it",
			               given);
		queue_of(q, given)->quota_gpus = (uint32_t)v;
		queue_of(q, given)->borrow = *end != '\0';
	}
	return 0;
}

/* A quota of nobody would only look like one. */
static int check_users(struct ctx *c, const struct queues *q, const struct trace *t)
{
	for (size_t i = 0; i < q->n; i++) {
		uint32_t u = 0;

		while (u < t->n_users && strcmp(t->users[u], q->names[i]) != 0)
			u++;
		if (u == t->n_users)
			return err_set(&c->err, ERR_INVALID, "no job of this trace is of a user '%s'", q->names[i]);
	}
	return 0;
}

static int take_options(struct ctx *c, struct sim_conf *conf, struct queues *q)
{
	uint64_t nodes = 0, gpus = 0;
	unsigned policy = SIM_LIVE, estimate = SIM_TRUE;
	const char *bad;

	*conf = (struct sim_conf){.speedup = 1, .seed = 1};
	if (!args_has(&c->args, "nodes") || !args_has(&c->args, "gpus-per-node"))
		return err_set(&c->err, ERR_INVALID, "--nodes and --gpus-per-node are needed");
	if (args_u64(&c->args, "nodes", 1, UINT32_MAX, &nodes, &c->err) ||
	    args_u64(&c->args, "gpus-per-node", 1, UINT32_MAX, &gpus, &c->err) ||
	    args_u64(&c->args, "speedup", 1, UINT32_MAX, &conf->speedup, &c->err) ||
	    args_u64(&c->args, "seed", 0, UINT64_MAX, &conf->seed, &c->err) ||
	    take_failures(c, &conf->mttf_hours) || take_preempt(c, conf) || take_shares(c, q) ||
	    pick_name(c, "policy", policy_name, SIM_POLICIES, &policy) ||
	    pick_name(c, "estimate", estimate_name, SIM_ESTIMATES, &estimate))
		return -1;
	conf->nodes = (uint32_t)nodes;
	conf->gpus_per_node = (uint32_t)gpus;
	conf->policy = (enum sim_policy)policy;
	conf->estimate = (enum sim_estimate)estimate;
	conf->users = q->v;
	conf->n_users = q->n;
	if (!args_has(&c->args, "estimate") && policy == SIM_FAIR)
		conf->estimate = SIM_LEARNED;
	bad = sim_conf_check(conf);
	return bad ? err_set(&c->err, ERR_INVALID, "%s", bad) : 0;
}

int simulate_read(struct ctx *c, const char *path, size_t most, char **text, size_t *n)
{
	if (fs_read_file(path, most, text, n, &c->err) == 0)
		return 0;
	c->err.code = ERR_INVALID; /* 3 would mean that a job was not found */
	return -1;
}

static int load_trace(struct ctx *c, const char *path, int priorities, struct trace *t)
{
	struct trace_mistake m;
	char *text;
	size_t n;
	int rc;

	if (simulate_read(c, path, MAX_TRACE, &text, &n) < 0)
		return -1;
	rc = priorities ? trace_parse_priorities(t, text, n, &m) : trace_parse(t, text, n, &m);
	free(text);
	if (rc == 0)
		return 0;
	return err_set(&c->err, ERR_INVALID, "%s: line %zu, column %zu: %s%s%s", path, m.line, m.column,
	               m.field ? m.field : "", m.field ? ": " : "", m.what);
}

cJSON *simulate_number(double v)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return cJSON_CreateRaw(text);
}

cJSON *simulate_whole(uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	return cJSON_CreateRaw(text);
}

char *simulate_short(const cJSON *v)
{
	const char *text = v->valuestring;
	char *out, *end;

	if (!cJSON_IsRaw(v) || !strpbrk(text, ".eE"))
		return xstrdup(text);
	out = xasprintf("%.6f", strtod(text, NULL));
	for (end = out + strlen(out); end[-1] == '0' && end[-2] != '.'; end--)
		end[-1] = '\0';
	return out;
}

/* Follows S-423. */
static cJSON *report_json(const struct sim_conf *conf, const struct sim_result *r, double wall_s)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddItemToObject(o, "policy", cJSON_CreateString(sim_policy_name(conf->policy)));
	cJSON_AddItemToObject(o, "estimate", cJSON_CreateString(sim_estimate_name(conf->estimate)));
	cJSON_AddItemToObject(o, "nodes", simulate_whole(conf->nodes));
	cJSON_AddItemToObject(o, "gpus_per_node", simulate_whole(conf->gpus_per_node));
	cJSON_AddItemToObject(o, "speedup", simulate_whole(conf->speedup));
	cJSON_AddItemToObject(o, "jobs", simulate_whole(r->n));
	cJSON_AddItemToObject(o, "dropped", simulate_whole(r->dropped));
	cJSON_AddItemToObject(o, "avg_jct_s", simulate_number(r->avg_jct_s));
	cJSON_AddItemToObject(o, "avg_wait_s", simulate_number(r->avg_wait_s));
	cJSON_AddItemToObject(o, "p50_jct_s", simulate_whole(r->p50_jct_s));
	cJSON_AddItemToObject(o, "p95_jct_s", simulate_whole(r->p95_jct_s));
	cJSON_AddItemToObject(o, "p99_jct_s", simulate_whole(r->p99_jct_s));
	cJSON_AddItemToObject(o, "max_wait_s", simulate_whole(r->max_wait_s));
	cJSON_AddItemToObject(o, "makespan_s", simulate_whole(r->makespan_s));
	cJSON_AddItemToObject(o, "utilization", simulate_number(r->utilization));
	if (conf->mttf_hours > 0)
		cJSON_AddItemToObject(o, "node_failures", simulate_whole(r->node_failures));
	if (conf->preempt)
		cJSON_AddItemToObject(o, "preemptions", simulate_whole(r->preemptions));
	if (conf->mttf_hours > 0 || conf->preempt)
		cJSON_AddItemToObject(o, "lost_gpu_s", simulate_whole(r->lost_gpu_s));
	if (conf->mttf_hours > 0 || conf->n_users)
		cJSON_AddItemToObject(o, "given_up", simulate_whole(r->given_up));
	cJSON_AddItemToObject(o, "wall_s", simulate_number(wall_s));
	return o;
}

static void print_report(struct ctx *c, const cJSON *o)
{
	const cJSON *m;

	if (c->json) {
		ctx_print_json(o);
		return;
	}
	cJSON_ArrayForEach (m, o)
		printf("%-14s %s\n", m->string, m->valuestring);
}

static void add_line(FILE *f, const struct sim_job *j, uint64_t start_s, uint64_t end_s,
                     const uint32_t *nodes)
{
	fprintf(f, "%" PRIu32 ",%" PRIu64 ",", j->row, j->submit_s);
	if (end_s != SIM_NEVER)
		fprintf(f, "%" PRIu64 ",%" PRIu64, start_s, end_s);
	else
		fputc(',', f);
	fprintf(f, ",%" PRIu32 ",", j->gpus);
	for (uint32_t i = 0; end_s != SIM_NEVER && i < j->n_nodes; i++)
		fprintf(f, "%s%" PRIu32, i ? " " : "", nodes[i]);
	fputc('\n', f);
}

/* Every job with its times and nodes, for checks by others; before them runs that were stopped. */
static int write_schedule(const char *path, const struct sim_result *r, struct err *e)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	int rc;

	if (!f)
		return err_set(e, ERR_INTERNAL, "no memory for the schedule");
	fputs("row,submit_s,start_s,end_s,gpus,nodes\n", f);
	for (size_t i = 0; i < r->n_stopped; i++) {
		const struct sim_stopped *x = &r->stopped[i];

		add_line(f, &r->jobs[x->job], x->start_s, x->end_s, x->nodes);
	}
	for (size_t i = 0; i < r->n; i++)
		add_line(f, &r->jobs[i], r->jobs[i].start_s, r->jobs[i].end_s, r->jobs[i].nodes);
	fclose(f);
	rc = fs_write_atomic(path, text, n, 0644, e);
	free(text);
	return rc;
}

static const char *const records_only[] = {"compare", "backfill", "more-nodes", "without", NULL};

static const char *const traces_only[] = {"preempt", "quota", NULL};

static int simulate_exec(struct ctx *c)
{
	const struct clock *clock = clock_real();
	uint64_t began = clock_boot_us(clock);
	struct sim_conf conf;
	struct sim_result r;
	struct trace t;
	const char *svg = args_get(&c->args, "svg"), *schedule = args_get(&c->args, "schedule");
	struct queues q = {.n = 0};
	cJSON *o;
	int rc;

	if (simulate_is_record(c->args.operand[0])) {
		for (const char *const *only = traces_only; *only; only++)
			if (args_has(&c->args, *only))
				return err_set(&c->err, ERR_INVALID,
				               "--%s is for a trace in CSV; %s is a record of a cluster", *only,
				               c->args.operand[0]);
		return simulate_record(c, c->args.operand[0]);
	}
	for (const char *const *only = records_only; *only; only++)
		if (args_has(&c->args, *only))
			return err_set(&c->err, ERR_INVALID,
			               "--%s is for a record of a cluster that jobctl trace wrote; %s is none", *only,
			               c->args.operand[0]);
	rc = take_options(c, &conf, &q) || load_trace(c, c->args.operand[0], conf.preempt, &t) ? -1 : 0;
	if (rc == 0 && (rc = check_users(c, &q, &t)) < 0)
		trace_fini(&t);
	if (rc < 0) {
		queues_fini(&q);
		return -1;
	}
	sim_run(&conf, &t, &r);
	o = report_json(&conf, &r, (double)(clock_boot_us(clock) - began) / 1e6);
	if (schedule)
		rc = write_schedule(schedule, &r, &c->err);
	if (rc == 0 && svg)
		rc = picture_write(svg, &conf, &r, &c->err);
	if (rc == 0)
		print_report(c, o);
	if (rc == 0 && !r.n)
		fprintf(stderr, "jobctl: there are no jobs in this trace\n");
	cJSON_Delete(o);
	sim_result_fini(&r);
	trace_fini(&t);
	queues_fini(&q);
	return rc;
}

static const struct arg_opt opts[] = {
    {"nodes", 'n', "N", "Simulate N equal nodes"},
    {"gpus-per-node", 'g', "G", "Give each node G GPUs, at most 64"},
    {"policy", 'p', "NAME",
     "Use this policy; for a trace: live (default: as hearthd decides), fifo, fifo-skip, easy, sjf, "
     "sjf-skip, saf, saf-skip, fair or conservative; for a record: live (default: as recorded), fifo, "
     "fifo-skip, easy, fair or conservative"},
    {"estimate", 'e', "HOW",
     "Let the policy believe these run times: true, x3, learned; for a record also limits (default)"},
    {"speedup", 0, "X", "Divide submit times by this whole number"},
    {"failures", 0, "HOURS", "Let nodes fail, each with this mean time to failure"},
    {"seed", 0, "NUMBER", "Seed the failures with NUMBER (default 1)"},
    {"svg", 0, "FILE", "Draw use and queue over time, and waiting time by size of job"},
    {"compare", 'c', NULL, "Compare the decisions with those of the record; exit code 1 if they differ"},
    {"backfill", 0, "easy|none|conservative", "Change only this setting of the record's policy"},
    {"weight", 'w', "QUEUE[/@USER]=N",
     "Change the share of a record's queue or user, or of a trace's user (USER=N); may be repeated"},
    {"quota", 0, "USER=GPUS[,borrow]",
     "Bound the GPUs that the jobs of a trace's user hold at once; may be repeated"},
    {"preempt", 0, "EVERY_S[,RESTART_S]",
     "Let jobs of a trace stop for others (columns priority and preemptible, quotas); they save their work "
     "each EVERY_S"},
    {"more-nodes", 0, "N", "Add N nodes like the first one of the record"},
    {"without", 0, "NODE", "Drain this node of the record all the time; may be repeated"},
    {"schedule", 0, "FILE", "Write start, end and nodes of each job as CSV"},
    {NULL, 0, NULL, NULL},
};

const struct verb verbs_simulate[] = {
    {"simulate", "FILE", "Simulate a trace in CSV, or a record that jobctl trace wrote", opts, 1, 1,
     simulate_exec},
    {NULL, NULL, NULL, NULL, 0, 0, NULL},
};
