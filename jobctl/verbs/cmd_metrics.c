/*
 * cmd_metrics: metrics of a job: a summary of each one, or one of them as a series.
 *
 * hearthd sends a point as [step, time, value]. If there are more points than requested it condenses
 * neighbours: [step, time, mean, min, max, points, nan]. jobctl condenses them again to LINES lines for
 * people, and says so above them.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/members.h"
#include "jobctl/show/metrics.h"
#include "jobctl/show/print.h"

#define LINES       20
#define SPARK_WIDTH 60
#define FETCHED     240 /* points for people: a multiple of LINES and SPARK_WIDTH */

static double value_of(const cJSON *v)
{
	if (cJSON_IsNumber(v))
		return v->valuedouble;
	if (cJSON_IsString(v) && strcmp(v->valuestring, "inf") == 0)
		return INFINITY;
	if (cJSON_IsString(v) && strcmp(v->valuestring, "-inf") == 0)
		return -INFINITY;
	return NAN;
}

/* ---- summary ---- */

/* Returns whether the job is an array or a sweep, which has only its members' metrics. -1: c->err is set. */
static int is_array(struct ctx *c, uint64_t job)
{
	cJSON *record = ctx_job(c, job);
	int members = record ? cJSON_IsObject(jget(record, "members")) : -1;
	cJSON_Delete(record);
	return members;
}

/* Shows the summary of all metrics, or of one attempt (0: all) or rank (NULL: all). */
static int show_summary(struct ctx *c, uint64_t job, uint64_t attempt, const char *rank)
{
	char *path = xasprintf("/jobs/%" PRIu64 "/metrics?attempt=%" PRIu64 "%s%s", job, attempt,
	                       rank ? "&rank=" : "", rank ? rank : "");
	cJSON *answer = NULL;
	int rc = ctx_get(c, "GET", path, NULL, &answer), members = 0;
	free(path);
	if (rc)
		return -1;
	if (!cJSON_GetArraySize(answer) && !attempt && !rank)
		members = is_array(c, job);
	if (members || ctx_show_json(c, answer)) {
		cJSON_Delete(answer);
		return members > 0 ? members_show(c, job, NULL, 0) : members;
	}
	if (cJSON_GetArraySize(answer))
		metrics_table(answer, INFINITY);
	else if (attempt || rank)
		printf("No metrics of %s%s%s%s. To see all metrics of the job: jobctl metrics %" PRIu64 "\n",
		       rank ? "rank " : "", rank ? rank : "", rank && attempt ? " in " : "",
		       attempt ? "that attempt" : "", job);
	else
		puts("No metrics yet. They come from patterns under \"metrics\" in the specification, or from "
		     "hearth.log() in the program.");
	cJSON_Delete(answer);
	return 0;
}

/* ---- a series ---- */

struct point {
	double step; /* NaN: none */
	double mean, min, max;
	double n, nan; /* number of condensed points, and of those that are NaN */
};

static struct point point_of(const cJSON *p)
{
	const cJSON *step = cJSON_GetArrayItem(p, 0);
	double v = value_of(cJSON_GetArrayItem(p, 2));
	struct point q = {cJSON_IsNumber(step) ? step->valuedouble : NAN, v, v, v, 1, isnan(v)};
	if (cJSON_GetArraySize(p) >= 7) {
		q.min = value_of(cJSON_GetArrayItem(p, 3));
		q.max = value_of(cJSON_GetArrayItem(p, 4));
		q.n = value_of(cJSON_GetArrayItem(p, 5));
		q.nan = value_of(cJSON_GetArrayItem(p, 6));
	}
	return q;
}

/* Joins neighbours: the step of the first; NaN counts as a point but not in the values. */
static struct point join_points(const struct point *p, size_t n)
{
	struct point all = {p[0].step, NAN, NAN, NAN, 0, 0};
	double sum = 0, numbers = 0;
	for (size_t i = 0; i < n; i++) {
		all.n += p[i].n;
		all.nan += p[i].nan;
		all.min = fmin(all.min, p[i].min);
		all.max = fmax(all.max, p[i].max);
		if (p[i].n > p[i].nan) {
			sum += p[i].mean * (p[i].n - p[i].nan);
			numbers += p[i].n - p[i].nan;
		}
	}
	all.mean = numbers > 0 ? sum / numbers : NAN;
	return all;
}

/* Condenses n points to at most max, in place. Returns how many there are then. */
static size_t draw_together(struct point *p, size_t n, size_t max)
{
	if (n <= max)
		return n;
	for (size_t i = 0; i < max; i++) {
		size_t from = i * n / max, to = (i + 1) * n / max;
		p[i] = join_points(p + from, to - from);
	}
	return max;
}

static struct point *points_of(const cJSON *answer, size_t *n)
{
	const cJSON *list = jget(answer, "points"), *p;
	struct point *all = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*all));
	*n = 0;
	cJSON_ArrayForEach (p, list)
		all[(*n)++] = point_of(p);
	return all;
}

static void print_head(const cJSON *answer, const char *name, const struct point *p, size_t n)
{
	double *bars = xcalloc(n + 1, sizeof(double)), nan = 0;
	int ranks = cJSON_GetArraySize(jget(answer, "ranks"));
	for (size_t i = 0; i < n; i++) {
		bars[i] = p[i].mean;
		nan += p[i].nan;
	}
	char *spark = print_spark(bars, n, SPARK_WIDTH), *safe = print_safe(name);
	printf("%s%s%s  %s\n", print_bold(), safe, print_reset(), spark);
	printf("rank %s", print_member(answer, "rank"));
	if (ranks > 1)
		printf(" of %d", ranks);
	printf(", attempt %s: %s point%s, last %s", print_member(answer, "attempt"),
	       print_member(answer, "count"), print_number(answer, "count") == 1 ? "" : "s",
	       print_member(answer, "last"));
	if (cJSON_IsNumber(jget(answer, "step")))
		printf(" at step %s", print_member(answer, "step"));
	printf(", min %s, max %s", print_member(answer, "min"), print_member(answer, "max"));
	if (nan > 0)
		printf("; %.0f %s not a number (NaN)", nan, nan == 1 ? "is" : "are");
	putchar('\n');
	free(spark);
	free(safe);
	free(bars);
}

/* Fills the first column: the step, or the number of the point if the series has no steps. */
static void first_cell(struct table *t, const struct point *p, double index, int stepless)
{
	if (!isnan(p->step))
		table_cellf(t, "%.0f", p->step);
	else
		table_cellf(t, "%s%.0f", stepless ? "" : "#", index);
}

static void print_lines(const struct point *p, size_t n)
{
	const char *plain[] = {">STEP", ">VALUE"}, *drawn[] = {">FROM STEP", ">MEAN", ">MIN", ">MAX", ">NAN"};
	int stepless = 1;
	double total = 0, nan = 0, index = 1;
	for (size_t i = 0; i < n; i++) {
		total += p[i].n;
		nan += p[i].nan;
		stepless &= isnan(p[i].step);
	}
	if (stepless) {
		plain[0] = ">POINT";
		drawn[0] = ">FROM POINT";
	}
	int together = total > (double)n;
	if (together)
		printf("Each line has the mean, min and max of %s%.0f points; to see all points: --points 0\n",
		       fmod(total, (double)n) > 0 ? "about " : "", total / (double)n);
	struct table *t = together ? table_create(drawn, nan > 0 ? 5 : 4) : table_create(plain, 2);
	for (size_t i = 0; i < n; index += p[i].n, i++) {
		first_cell(t, &p[i], index, stepless);
		table_cellf(t, "%.6g", p[i].mean);
		if (!together)
			continue;
		table_cellf(t, "%.6g", p[i].min);
		table_cellf(t, "%.6g", p[i].max);
		if (nan > 0)
			table_cellf(t, "%.0f", p[i].nan);
	}
	table_print(t);
	table_destroy(t);
}

static void print_series(const cJSON *answer, const char *name, int all)
{
	size_t n;
	struct point *p = points_of(answer, &n);
	print_head(answer, name, p, n);
	if (!all)
		n = draw_together(p, n, LINES);
	print_lines(p, n);
	free(p);
}

/* Prints the shortest number that reads back the same. */
static void print_value(double v, char end)
{
	char text[40];
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (isnan(v) || strtod(text, NULL) == v)
			break;
	}
	/* The sign of a NaN has no meaning. */
	printf("%s%c", isnan(v) ? "nan" : text, end);
}

static void print_csv(const cJSON *answer)
{
	const cJSON *p;
	int drawn = cJSON_IsFalse(jget(answer, "raw"));
	puts(drawn ? "step,time,mean,min,max,points,nan" : "step,time,value");
	cJSON_ArrayForEach (p, jget(answer, "points")) {
		const cJSON *step = cJSON_GetArrayItem(p, 0), *time = cJSON_GetArrayItem(p, 1);
		int n = cJSON_GetArraySize(p);
		if (cJSON_IsNumber(step))
			printf("%.0f", step->valuedouble);
		putchar(',');
		if (cJSON_IsNumber(time))
			printf("%.6f", time->valuedouble);
		putchar(',');
		for (int i = 2; i < n; i++)
			print_value(value_of(cJSON_GetArrayItem(p, i)), i + 1 < n ? ',' : '\n');
	}
}

/* Notes that points were condensed although all were requested: hearthd bounds their number. */
static void note_drawn(const cJSON *answer, uint64_t asked)
{
	if (!asked && cJSON_IsFalse(jget(answer, "raw")))
		fprintf(stderr, "jobctl: %s points are condensed to %d\n", print_member(answer, "count"),
		        cJSON_GetArraySize(jget(answer, "points")));
}

/* Adds the name of a similar metric of the job to the error. */
static void name_near(struct ctx *c, uint64_t job, const char *name)
{
	struct err absent = c->err;
	char *path = xasprintf("/jobs/%" PRIu64 "/metrics", job);
	cJSON *all = NULL;
	const cJSON *m;
	struct strv names = {0};
	if (!ctx_get(c, "GET", path, NULL, &all))
		cJSON_ArrayForEach (m, all)
			strv_add(&names, m->string);
	const char *near = names.n ? str_nearest(name, (const char *const *)names.v) : NULL;
	c->err = absent;
	if (near)
		ctx_fail(c, ERR_NOT_FOUND, "%s; did you mean %s?", absent.text, near);
	strv_fini(&names);
	cJSON_Delete(all);
	free(path);
}

static int exec_metrics(struct ctx *c)
{
	int csv = args_has(&c->args, "csv"), all = csv || args_has(&c->args, "points");
	uint64_t job, rank = 0, attempt = 0, points = csv ? 0 : FETCHED;
	if (args_u64(&c->args, "rank", 0, INT32_MAX, &rank, &c->err) ||
	    args_u64(&c->args, "attempt", 1, UINT32_MAX, &attempt, &c->err) ||
	    args_u64(&c->args, "points", 0, 100000, &points, &c->err))
		return -1;
	if (c->args.n == 1 && all)
		return ctx_fail(c, ERR_INVALID, "--%s needs the name of a metric: jobctl metrics %s NAME",
		                csv ? "csv" : "points", c->args.operand[0]);
	if (ref_resolve(c, c->args.operand[0], &job))
		return -1;
	if (c->args.n == 1)
		return show_summary(c, job, attempt, args_get(&c->args, "rank"));
	char *esc = client_escape(c->args.operand[1]);
	char *path = xasprintf("/jobs/%" PRIu64 "/metrics/%s?points=%" PRIu64 "&attempt=%" PRIu64, job, esc,
	                       points, attempt);
	if (args_has(&c->args, "rank")) {
		xappendf(&path, "&rank=%" PRIu64, rank);
	}
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	free(esc);
	if (rc < 0 && c->err.code == ERR_NOT_FOUND) {
		struct err absent = c->err;
		if (is_array(c, job) > 0)
			return members_show(c, job, c->args.operand[1], 0);
		c->err = absent;
		name_near(c, job, c->args.operand[1]);
	}
	if (rc)
		return rc < 0 ? -1 : 0;
	note_drawn(answer, points);
	if (csv)
		print_csv(answer);
	else
		print_series(answer, c->args.operand[1], all);
	cJSON_Delete(answer);
	return 0;
}

static const struct arg_opt metrics_opts[] = {
    {"rank", 'r', "N", "Show rank N (default: the lowest that reported it)"},
    {"attempt", 'a', "N", "Show attempt N (default: the newest that has it)"},
    {"points", 'p', "N", "Show at most N points, one per line; 0: all"},
    {"csv", 0, NULL, "Print step,time,value lines; time in seconds since 1970"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_metrics[] = {{"metrics", "JOB [NAME]",
                                      "Show the metrics of a job, or one as a series", metrics_opts, 1, 2,
                                      exec_metrics},
                                     {NULL, NULL, NULL, NULL, 0, 0, NULL}};
