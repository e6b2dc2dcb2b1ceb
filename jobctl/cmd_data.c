/*
 * cmd_data: what runs left: get, metrics.
 */
#include "common/fsutil.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/bundle.h"
#include "jobctl/interrupt.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int first_entry(const char *name, void *arg)
{
	(void)name;
	*(int *)arg = 1;
	return -1;
}

/* The target must be new or empty, unless --force. */
static int check_target(struct ctx *c, const char *dir)
{
	struct stat st;
	if (stat(dir, &st))
		return errno == ENOENT ? 0 : err_sys(&c->err, errno, "%s", dir);
	if (!S_ISDIR(st.st_mode))
		return ctx_fail(c, ERR_CONFLICT, "%s exists and is not a directory", dir);
	int any = 0;
	fs_each(dir, first_entry, &any, NULL);
	if (any && !args_has(&c->args, "force"))
		return ctx_fail(c, ERR_CONFLICT, "%s is not empty; choose another directory or say --force", dir);
	return 0;
}

static int get_uri(struct ctx *c, const char *uri, const char *dir)
{
	if (strncmp(uri, "file://", 7) != 0)
		return ctx_fail(c, ERR_UNSUPPORTED, "it is at %s, which jobctl cannot fetch", uri);
	if (fs_mkdir_p(dir, 0755, &c->err))
		return -1;
	if (fs_copy_tree(uri + 7, dir, &c->err))
		return err_wrap(&c->err, "it is at %s, seen from the cluster's nodes", uri);
	return 0;
}

static int is_wanted(const cJSON *a, const char *kind, double attempt)
{
	return !strcmp(print_member(a, "kind"), kind) && print_number(a, "attempt") == attempt;
}

/* A later one of the same node replaces an earlier one: an upload that was repeated. */
static int is_replaced(const cJSON *a, const char *kind, double attempt)
{
	const char *node = jtext(a, "node");
	for (const cJSON *next = a->next; next; next = next->next) {
		const char *other = jtext(next, "node");
		if (is_wanted(next, kind, attempt) && !strcmp(other ? other : "", node ? node : ""))
			return 1;
	}
	return 0;
}

/* The attempt asked for, else the newest that left something of the kind; 0 none. */
static double choose_attempt(const cJSON *list, const char *kind, uint64_t wanted)
{
	double newest = 0;
	const cJSON *a;
	cJSON_ArrayForEach (a, list) {
		if (!strcmp(print_member(a, "kind"), kind) && print_number(a, "attempt") > newest)
			newest = print_number(a, "attempt");
	}
	return wanted ? (double)wanted : newest;
}

static int get_one(struct ctx *c, uint64_t job, const cJSON *a, const char *dir)
{
	const char *uri = jtext(a, "uri"), *digest = jtext(a, "digest");
	char *query = xasprintf("job=%llu&kind=%s", (unsigned long long)job, print_member(a, "kind"));
	int rc;
	if (digest && *digest)
		rc = bundle_download(c->client, digest, query, dir, &c->err);
	else if (uri && *uri)
		rc = get_uri(c, uri, dir);
	else
		rc = ctx_fail(c, ERR_PROTOCOL, "the controller does not say where it is");
	free(query);
	return rc;
}

/* Artifacts of the wanted kind: one, or one a node (then each goes into a folder of the node's name). */
static int get_artifacts(struct ctx *c, uint64_t job, const char *kind, const char *dir, unsigned *got)
{
	char *path = xasprintf("/jobs/%llu/artifacts", (unsigned long long)job);
	cJSON *answer;
	uint64_t wanted = 0;
	int rc = args_u64(&c->args, "attempt", 1, UINT32_MAX, &wanted, &c->err);
	if (!rc)
		rc = ctx_get(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return -1;
	const cJSON *a, *list = jget(answer, "artifacts");
	double attempt = choose_attempt(list, kind, wanted);
	unsigned n = 0;
	*got = 0;
	cJSON_ArrayForEach (a, list)
		n += is_wanted(a, kind, attempt) && !is_replaced(a, kind, attempt);
	cJSON_ArrayForEach (a, list) {
		if (rc || !is_wanted(a, kind, attempt) || is_replaced(a, kind, attempt))
			continue;
		const char *node = jtext(a, "node");
		char *to = n > 1 && node && str_safe_relpath(node) ? xasprintf("%s/%s", dir, node) : xstrdup(dir);
		rc = get_one(c, job, a, to);
		*got += !rc;
		free(to);
	}
	cJSON_Delete(answer);
	return rc;
}

static int get_code(struct ctx *c, uint64_t job, const char *dir, unsigned *got)
{
	cJSON *answer = ctx_job(c, job);
	const char *digest = jtext(answer, "bundle");
	int rc = answer ? 0 : -1;
	if (!rc && digest && *digest) {
		char *query = xasprintf("job=%llu&kind=code", (unsigned long long)job);
		rc = bundle_download(c->client, digest, query, dir, &c->err);
		*got = !rc;
		free(query);
	}
	cJSON_Delete(answer);
	return rc;
}

static int exec_get(struct ctx *c)
{
	static const char *const kinds[] = {"model", "output", "checkpoint", "code", NULL};
	const char *kind = c->args.operand[1];
	uint64_t job;
	unsigned got = 0;
	int known = 0;
	for (const char *const *k = kinds; *k; k++)
		known |= !strcmp(*k, kind);
	if (!known)
		return ctx_fail(c, ERR_INVALID, "'%s': there are model, output, checkpoint and code", kind);
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	char *dir =
	    c->args.n > 2 ? xstrdup(c->args.operand[2]) : xasprintf("%llu-%s", (unsigned long long)job, kind);
	int rc = check_target(c, dir);
	interrupt_catch(); /* what was begun is removed again */
	if (!rc)
		rc = strcmp(kind, "code") ? get_artifacts(c, job, kind, dir, &got) : get_code(c, job, dir, &got);
	if (!rc && !got)
		rc = ctx_fail(c, ERR_NOT_FOUND, "job %llu left no %s", (unsigned long long)job, kind);
	if (!rc && c->json) {
		cJSON *j = cJSON_CreateObject();
		cJSON_AddStringToObject(j, "directory", dir);
		ctx_show_json(c, j);
		cJSON_Delete(j);
	} else if (!rc) {
		puts(dir);
	}
	free(dir);
	return rc;
}

/* ---- metrics ---- */

static double value_of(const cJSON *v)
{
	if (cJSON_IsNumber(v))
		return v->valuedouble;
	if (cJSON_IsString(v) && !strcmp(v->valuestring, "inf"))
		return INFINITY;
	if (cJSON_IsString(v) && !strcmp(v->valuestring, "-inf"))
		return -INFINITY;
	return NAN;
}

static int metrics_all(struct ctx *c, uint64_t job)
{
	char *path = xasprintf("/jobs/%llu/metrics", (unsigned long long)job);
	cJSON *answer = NULL;
	const cJSON *m;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	static const char *const heads[] = {"METRIC", ">LAST", ">MIN", ">MAX", ">STEP", ">POINTS"};
	struct table *t = table_create(heads, 6);
	cJSON_ArrayForEach (m, answer) {
		table_cell(t, m->string);
		table_cell(t, print_member(m, "last"));
		table_cell(t, print_member(m, "min"));
		table_cell(t, print_member(m, "max"));
		table_cell(t, print_member(m, "step"));
		table_cell(t, print_member(m, "count"));
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No metrics yet. They come from the patterns under \"metrics\" in the specification, or from "
		     "hearth.log() in the program.");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

/* With as few digits as read back the same. */
static void put_value(double v)
{
	char text[40];
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (isnan(v) || strtod(text, NULL) == v)
			break;
	}
	puts(text);
}

/* A point is [step, time, value], or when downsampled [step, time, mean, min, max]. */
static void print_csv(const cJSON *points)
{
	const cJSON *p;
	puts("step,time,value");
	cJSON_ArrayForEach (p, points) {
		const cJSON *step = cJSON_GetArrayItem(p, 0), *time = cJSON_GetArrayItem(p, 1);
		if (cJSON_IsNumber(step))
			printf("%.0f", step->valuedouble);
		putchar(',');
		if (cJSON_IsNumber(time))
			printf("%.6f", time->valuedouble);
		putchar(',');
		put_value(value_of(cJSON_GetArrayItem(p, 2)));
	}
}

static void print_series(const cJSON *answer, const char *name)
{
	const cJSON *points = jget(answer, "points"), *p;
	int n = cJSON_GetArraySize(points), i = 0, every = n > 20 ? n / 20 : 1;
	double *values = xcalloc((size_t)n + 1, sizeof(double));
	cJSON_ArrayForEach (p, points)
		values[i++] = value_of(cJSON_GetArrayItem(p, 2));
	char *spark = print_spark(values, (size_t)n, 60), *safe = print_safe(name);
	printf("%s  %s\n", safe, spark);
	free(spark);
	free(safe);
	i = 0;
	cJSON_ArrayForEach (p, points) {
		const cJSON *step = cJSON_GetArrayItem(p, 0);
		if (i % every == 0 || i == n - 1) {
			if (cJSON_IsNumber(step))
				printf("  step %8.0f  %.6g\n", step->valuedouble, values[i]);
			else
				printf("  point %7d  %.6g\n", i + 1, values[i]);
		}
		i++;
	}
	if (!n)
		puts("No points.");
	free(values);
}

static int exec_metrics(struct ctx *c)
{
	uint64_t job;
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	if (c->args.n == 1)
		return metrics_all(c, job);
	uint64_t rank = 0, attempt = 0, points = args_has(&c->args, "csv") ? 0 : 200;
	if (args_u64(&c->args, "rank", 0, INT32_MAX, &rank, &c->err) ||
	    args_u64(&c->args, "attempt", 1, UINT32_MAX, &attempt, &c->err) ||
	    args_u64(&c->args, "points", 0, 100000, &points, &c->err))
		return -1;
	char *esc = client_escape(c->args.operand[1]);
	char *path = xasprintf("/jobs/%llu/metrics/%s?points=%llu&attempt=%llu", (unsigned long long)job, esc,
	                       (unsigned long long)points, (unsigned long long)attempt);
	if (args_has(&c->args, "rank")) {
		char *longer = xasprintf("%s&rank=%llu", path, (unsigned long long)rank);
		free(path);
		path = longer;
	}
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	free(esc);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (args_has(&c->args, "csv"))
		print_csv(jget(answer, "points"));
	else
		print_series(answer, c->args.operand[1]);
	cJSON_Delete(answer);
	return 0;
}

static const struct arg_opt get_opts[] = {
    {"force", 'f', NULL, "write into a directory that is not empty"},
    {"attempt", 'a', "N", "what attempt N left (default: the newest that left it)"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt metrics_opts[] = {
    {"rank", 'r', "N", "of rank N (default: the lowest that reported it)"},
    {"attempt", 'a', "N", "of attempt N (default the newest)"},
    {"points", 'p', "N", "at most N points, downsampled by hearthd; 0 all"},
    {"csv", 0, NULL, "step,time,value lines; time in seconds since 1970"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_data[] = {
    {"get", "JOB model|output|checkpoint|code [DIR]", "fetch what a job left", get_opts, 2, 3, exec_get},
    {"metrics", "JOB [NAME]", "metrics of a job, or one as a series", metrics_opts, 1, 2, exec_metrics},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
