/*
 * members: see members.h. Each axis of a sweep is a column, in the order of the specification.
 */
#include "jobctl/show/members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ctx.h"
#include "jobctl/client/job.h"
#include "jobctl/show/print.h"

#define COLUMNS_MAX 12 /* columns for values; more would not fit a line */

char *members_text(const cJSON *counts)
{
	static const char *const keys[] = {"running", "waiting", "completed", "failed", "stopped"};
	double n = print_number(counts, "count");
	char *all = xasprintf("%.0f member%s", n, n > 1 ? "s" : "");
	int first = 1;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (print_number(counts, keys[i]) <= 0)
			continue;
		xappendf(&all, "%s%.0f %s", first ? ": " : ", ", print_number(counts, keys[i]), keys[i]);
		first = 0;
	}
	return all;
}

const char *members_rest(const char *reason)
{
	const char *p = reason ? reason : "";
	size_t n = strspn(p, "0123456789");
	if (!n || strncmp(p + n, " of ", 4) != 0)
		return p;
	p += n + 4;
	n = strspn(p, "0123456789");
	if (!n || strncmp(p + n, " member", 7) != 0)
		return reason;
	p = strstr(p, ": ");
	return p ? p + 2 : "";
}

static char *value_text(const cJSON *v)
{
	if (!v)
		return xstrdup("-");
	return cJSON_IsString(v) ? xstrdup(v->valuestring) : json_text(v);
}

static struct table *table_for(const cJSON *values, const char *metric, size_t *columns)
{
	const char *heads[COLUMNS_MAX + 8] = {">ID", "STATUS"};
	char *names[COLUMNS_MAX + 1];
	size_t n = 2;
	const cJSON *v;
	*columns = 0;
	cJSON_ArrayForEach (v, values) {
		if (*columns == COLUMNS_MAX)
			break;
		heads[n++] = names[(*columns)++] = xasprintf("%s%s", cJSON_IsNumber(v) ? ">" : "", v->string);
	}
	char *best = metric ? xasprintf(">%s", metric) : NULL;
	if (metric) {
		heads[n++] = best;
		heads[n++] = ">LAST";
		heads[n++] = ">STEP";
	}
	heads[n++] = ">RAN";
	heads[n++] = "REASON";
	struct table *t = table_create(heads, n);
	for (size_t i = 0; i < *columns; i++)
		free(names[i]);
	free(best);
	return t;
}

static void add_row(struct table *t, const cJSON *m, const cJSON *first, size_t columns, const char *metric)
{
	const cJSON *axis = first;
	table_cell(t, print_member(m, "ref"));
	table_cell(t, print_member(m, "status"));
	for (size_t i = 0; i < columns; i++, axis = axis->next) {
		char *text = value_text(jget(jget(m, "values"), axis->string));
		table_cell_cut(t, text, 24);
		free(text);
	}
	if (metric) {
		table_cell(t, print_member(jget(m, "metric"), "best"));
		table_cell(t, print_member(jget(m, "metric"), "last"));
		table_cell(t, print_member(jget(m, "metric"), "step"));
	}
	table_cell(t, print_ran(m));
	char *reason = print_local(print_member(m, "reason"));
	table_cell(t, reason);
	free(reason);
}

static void print_all(const cJSON *answer, uint64_t job)
{
	const cJSON *list = jget(answer, "members"), *m;
	const char *metric = jtext(answer, "metric");
	size_t columns;
	if (!cJSON_GetArraySize(list)) {
		puts("The controller has not created the members yet.");
		return;
	}
	const cJSON *values = jget(cJSON_GetArrayItem(list, 0), "values");
	struct table *t = table_for(values, metric, &columns);
	cJSON_ArrayForEach (m, list)
		add_row(t, m, values->child, columns, metric);
	table_print(t);
	table_destroy(t);
	double left = print_number(answer, "made") - cJSON_GetArraySize(list);
	if (left > 0)
		printf("%s%.0f more member%s: jobctl show %" PRIu64 " --members 0%s\n", print_dim(), left,
		       left > 1 ? "s" : "", job, print_reset());
}

static int any_value(const cJSON *answer)
{
	const cJSON *m;
	cJSON_ArrayForEach (m, jget(answer, "members")) {
		if (cJSON_IsObject(jget(m, "metric")))
			return 1;
	}
	return 0;
}

/* Returns whether the array has ended: then no member will report more. */
static int array_is_over(struct ctx *c, uint64_t job)
{
	cJSON *record = ctx_job(c, job);
	const char *status = jtext(record, "status");
	int ended = record ? !status || job_ended(status) : -1;
	cJSON_Delete(record);
	return ended;
}

int members_show(struct ctx *c, uint64_t job, const char *metric, uint64_t limit)
{
	char *esc = client_escape(metric ? metric : "");
	char *path = xasprintf("/jobs/%" PRIu64 "/members?limit=%" PRIu64 "%s%s", job, limit,
	                       metric ? "&metric=" : "", esc);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(esc);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	int none = metric && !any_value(answer), ended = none ? array_is_over(c, job) : 0;
	if (ended > 0)
		rc = ctx_fail(c, ERR_NOT_FOUND, "no member of job %" PRIu64 " reported the metric \"%s\"", job,
		              metric);
	else if (ended < 0)
		rc = -1;
	else
		print_all(answer, job);
	if (none && !ended) {
		char *safe = print_safe(metric);
		fprintf(stderr, "Note: no member of job %" PRIu64 " has reported the metric \"%s\" yet\n", job, safe);
		free(safe);
	}
	cJSON_Delete(answer);
	return rc;
}
