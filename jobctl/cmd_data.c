/*
 * cmd_data: what runs left: get, metrics.
 */
#include "common/fsutil.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/bundle.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
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
	if (fs_copy_tree(uri + 7, dir, &c->err))
		return err_wrap(&c->err, "it is at %s, seen from the cluster's nodes", uri);
	return 0;
}

/* Artifacts of the wanted kind: one, or one a node (then each goes into a folder of the node's name). */
static int get_artifacts(struct ctx *c, uint64_t job, const char *kind, const char *dir, unsigned *got)
{
	char *path = xasprintf("/jobs/%llu/artifacts", (unsigned long long)job);
	cJSON *answer = NULL;
	int rc = client_call(ctx_client(c), "GET", path, NULL, &answer, &c->err);
	free(path);
	if (rc)
		return -1;
	const cJSON *a;
	unsigned n = 0;
	*got = 0;
	cJSON_ArrayForEach (a, cJSON_GetObjectItemCaseSensitive(answer, "artifacts"))
		n += !strcmp(print_member(a, "kind"), kind);
	cJSON_ArrayForEach (a, cJSON_GetObjectItemCaseSensitive(answer, "artifacts")) {
		const char *uri = NULL, *digest = NULL, *node = NULL;
		if (rc || strcmp(print_member(a, "kind"), kind) != 0)
			continue;
		json_get_str(a, "", "uri", &uri, NULL);
		json_get_str(a, "", "digest", &digest, NULL);
		json_get_str(a, "", "node", &node, NULL);
		char *to = n > 1 && node && str_safe_relpath(node) ? xasprintf("%s/%s", dir, node) : xstrdup(dir);
		char *query = xasprintf("job=%llu&kind=%s", (unsigned long long)job, kind);
		if (digest && *digest)
			rc = bundle_download(c->client, digest, query, to, &c->err);
		else if (uri && *uri)
			rc = get_uri(c, uri, to);
		*got += !rc;
		free(query);
		free(to);
	}
	cJSON_Delete(answer);
	return rc;
}

static int get_code(struct ctx *c, uint64_t job, const char *dir, unsigned *got)
{
	char *path = xasprintf("/jobs/%llu", (unsigned long long)job),
	     *query = xasprintf("job=%llu&kind=code", (unsigned long long)job);
	cJSON *answer = NULL;
	const char *digest = NULL;
	int rc = client_call(ctx_client(c), "GET", path, NULL, &answer, &c->err);
	if (!rc)
		json_get_str(answer, "", "bundle", &digest, NULL);
	if (!rc && digest && *digest) {
		rc = bundle_download(c->client, digest, query, dir, &c->err);
		*got = !rc;
	}
	cJSON_Delete(answer);
	free(path);
	free(query);
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
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	const cJSON *all = cJSON_GetObjectItemCaseSensitive(answer, "metrics"), *m;
	if (!all)
		all = answer;
	static const char *const heads[] = {"METRIC", ">LAST", ">MIN", ">MAX", ">STEP", ">POINTS"};
	struct table *t = table_create(heads, 6);
	cJSON_ArrayForEach (m, all) {
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

static void print_series(struct ctx *c, const cJSON *answer, const char *name)
{
	const cJSON *points = cJSON_GetObjectItemCaseSensitive(answer, "points"), *p;
	int csv = args_has(&c->args, "csv"), n = cJSON_GetArraySize(points), i = 0;
	double *values = xcalloc((size_t)n + 1, sizeof(double));
	puts(csv ? "step,time,value" : "");
	cJSON_ArrayForEach (p, points) {
		const cJSON *step = cJSON_GetArrayItem(p, 0), *time = cJSON_GetArrayItem(p, 1),
		            *v = cJSON_GetArrayItem(p, 2);
		values[i++] = value_of(v);
		if (csv) {
			if (cJSON_IsNumber(step) && step->valuedouble >= 0)
				printf("%.0f", step->valuedouble);
			printf(",%s,%.17g\n", cJSON_IsString(time) ? time->valuestring : "", value_of(v));
		}
	}
	if (!csv) {
		char *spark = print_spark(values, (size_t)n, 60);
		printf("%s  %s\n", name, spark);
		free(spark);
		int every = n > 20 ? n / 20 : 1;
		for (i = 0; i < n; i++) {
			if (i % every && i != n - 1)
				continue;
			const cJSON *step = cJSON_GetArrayItem(cJSON_GetArrayItem(points, i), 0);
			if (cJSON_IsNumber(step) && step->valuedouble >= 0)
				printf("  step %8.0f  %.6g\n", step->valuedouble, values[i]);
			else
				printf("  point %7d  %.6g\n", i + 1, values[i]);
		}
	}
	free(values);
}

static int exec_metrics(struct ctx *c)
{
	uint64_t job;
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	if (c->args.n == 1)
		return metrics_all(c, job);
	const char *rank = args_get(&c->args, "rank"), *points = args_get(&c->args, "points"),
	           *attempt = args_get(&c->args, "attempt");
	uint64_t n;
	if ((rank && str_parse_u64(rank, &n)) || (points && str_parse_u64(points, &n)) ||
	    (attempt && str_parse_u64(attempt, &n)))
		return ctx_fail(c, ERR_INVALID, "--rank, --points and --attempt are numbers");
	char *esc = client_escape(c->args.operand[1]);
	char *path =
	    xasprintf("/jobs/%llu/metrics/%s?points=%s%s%s%s%s", (unsigned long long)job, esc,
	              points                      ? points
	              : args_has(&c->args, "csv") ? "0"
	                                          : "200",
	              rank ? "&rank=" : "", rank ? rank : "", attempt ? "&attempt=" : "", attempt ? attempt : "");
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	free(esc);
	if (rc)
		return rc < 0 ? -1 : 0;
	print_series(c, answer, c->args.operand[1]);
	cJSON_Delete(answer);
	return 0;
}

static const struct arg_opt get_opts[] = {{"force", 'f', NULL, "write into a directory that is not empty"},
                                          {NULL, 0, NULL, NULL}};
static const struct arg_opt metrics_opts[] = {
    {"rank", 'r', "N", "of rank N (default: the lowest that reported it)"},
    {"attempt", 'a', "N", "of attempt N (default the newest)"},
    {"points", 'p', "N", "at most N points, downsampled by hearthd; 0 all"},
    {"csv", 0, NULL, "step,time,value lines"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_data[] = {
    {"get", "JOB model|output|checkpoint|code [DIR]", "fetch what a job left", get_opts, 2, 3, exec_get},
    {"metrics", "JOB [NAME]", "metrics of a job, or one as a series", metrics_opts, 1, 2, exec_metrics},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
