/*
 * cmd_cost: costs of jobs, and budgets. Money is in US dollars, by the prices of the nodes when an attempt
 * began.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"

/* ---- cost ---- */

/* Reads "7d" (so long ago) or "2026-01-31" (the local beginning of that day). *out: seconds since 1970. */
static int parse_moment(struct ctx *c, const char *name, const char *text, uint64_t *out)
{
	struct tm tm = {.tm_isdst = 0};
	char *end = strptime(text, "%Y-%m-%d", &tm);
	uint64_t ago;
	tm.tm_isdst = -1;
	time_t day = end && !*end ? mktime(&tm) : -1;
	if (day >= 0) {
		*out = (uint64_t)day;
		return 0;
	}
	if (str_parse_duration(text, &ago, &c->err))
		return ctx_fail(c, ERR_INVALID,
		                "--%s '%s': expected a day such as 2026-01-31, or how long ago, such as 7d", name,
		                text);
	*out = clock_real_us(clock_real()) / 1000000;
	*out = *out > ago ? *out - ago : 0;
	return 0;
}

static int add_query(struct ctx *c, char **path, const char *opt, int is_time)
{
	const char *value = args_get(&c->args, opt);
	uint64_t at = 0;
	if (!value)
		return 0;
	if (is_time && parse_moment(c, opt, value, &at))
		return -1;
	char *esc = is_time ? xasprintf("%" PRIu64, at) : client_escape(value);
	xappendf(path, "&%s=%s", opt, esc);
	free(esc);
	return 0;
}

static char *cost_path(struct ctx *c)
{
	const char *by = args_get(&c->args, "by");
	uint64_t job = 0;
	if (c->args.n && ref_resolve(c, c->args.operand[0], &job))
		return NULL;
	char *path = xasprintf("/cost?by=%s", by ? by : job ? "job" : "queue");
	if (job) {
		xappendf(&path, "&job=%" PRIu64, job);
	}
	if (add_query(c, &path, "queue", 0) || add_query(c, &path, "owner", 0) ||
	    add_query(c, &path, "from", 1) || add_query(c, &path, "to", 1)) {
		free(path);
		return NULL;
	}
	return path;
}

static void print_total(const cJSON *answer)
{
	double jobs = print_number(answer, "total_usd"), idle = print_number(answer, "total_idle_usd");
	char a[40], b[40], all[40];
	if (idle > 0)
		printf("total $%s: $%s of jobs and $%s of idle warm pools\n",
		       str_amount(jobs + idle, all, sizeof(all)), str_amount(jobs, a, sizeof(a)),
		       str_amount(idle, b, sizeof(b)));
	else
		printf("total $%s\n", str_amount(jobs, all, sizeof(all)));
}

static void cost_table(const cJSON *answer)
{
	char *head = xstrdup(print_member(answer, "by")), amount[40];
	for (char *p = head; *p; p++)
		*p = (char)(*p >= 'a' && *p <= 'z' ? *p - 32 : *p);
	const cJSON *r;
	int idle = 0;
	cJSON_ArrayForEach (r, jget(answer, "rows"))
		idle |= print_number(r, "idle_usd") > 0;
	const char *heads[] = {head, ">USD", ">JOBS", ">ATTEMPTS", ">RUNNING", ">HOURS", ">IDLE USD"};
	struct table *t = table_create(heads, idle ? 7 : 6);
	cJSON_ArrayForEach (r, jget(answer, "rows")) {
		table_cell(t, print_member(r, "name"));
		table_cell(t, str_amount(print_number(r, "usd"), amount, sizeof(amount)));
		table_cell(t, print_member(r, "jobs"));
		table_cell(t, print_member(r, "attempts"));
		table_cell(t, print_member(r, "running"));
		table_cell(t, str_amount(print_number(r, "hours"), amount, sizeof(amount)));
		if (idle)
			table_cell(t, str_amount(print_number(r, "idle_usd"), amount, sizeof(amount)));
	}
	if (table_rows(t)) {
		table_print(t);
		print_total(answer);
	} else {
		puts("Nothing was spent: no attempt in that time ran on nodes with a price. To see the type of each "
		     "node: jobctl nodes. To set a price: jobctl instances set TYPE price_per_hour=N");
	}
	if (print_number(answer, "more") > 0)
		fprintf(stderr, "%s more rows are not shown\n", print_member(answer, "more"));
	table_destroy(t);
	free(head);
}

static int exec_cost(struct ctx *c)
{
	cJSON *answer = NULL;
	char *path = cost_path(c);
	int rc = path ? ctx_call(c, "GET", path, NULL, &answer) : -1;
	if (!rc)
		cost_table(answer);
	cJSON_Delete(answer);
	free(path);
	return rc < 0 ? -1 : 0;
}

/* ---- budgets ---- */

static int exec_ls(struct ctx *c)
{
	const char *const heads[] = {"QUEUE",  ">BUDGET", "PERIOD", ">SPENT",
	                             ">USD/H", "ACTION",  "STATE",  print_zone_head("RESETS")};
	cJSON *answer = NULL;
	char usd[40];
	int rc = ctx_call(c, "GET", "/budgets", NULL, &answer);
	if (rc)
		return rc < 0 ? -1 : 0;
	struct table *t = table_create(heads, 8);
	const cJSON *b;
	cJSON_ArrayForEach (b, jget(answer, "budgets")) {
		table_cell(t, print_member(b, "name"));
		table_cellf(t, "%.2f", print_number(b, "usd"));
		table_cell(t, print_member(b, "period"));
		table_cell(t, str_amount(print_number(b, "spent_usd"), usd, sizeof(usd)));
		table_cellf(t, "%.2f", print_number(b, "usd_per_hour"));
		table_cell(t, print_member(b, "action"));
		table_cell(t, cJSON_IsTrue(jget(b, "used_up")) ? "used up" : "open");
		table_cell(t, print_time(jtext(b, "resets_at")));
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No budget is set. To set one: jobctl budget set QUEUE usd=N");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

static int add_change(struct ctx *c, cJSON *body, const char *word)
{
	static const char *const names[] = {"period", "action"};
	const char *eq = strchr(word, '='), *value = eq ? eq + 1 : "";
	double usd;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t n = strlen(names[i]);
		if (strncmp(word, names[i], n) == 0 && word[n] == '=' && !jget(body, names[i])) {
			cJSON_AddStringToObject(body, names[i], value);
			return 0;
		}
	}
	if (strncmp(word, "usd=", 4) != 0 || jget(body, "usd"))
		return ctx_fail(c, ERR_INVALID,
		                "'%s': expected usd=N, period=day|week|month or action=hold|end, each once", word);
	if (ctx_number(c, "usd", value, &usd))
		return -1;
	cJSON_AddNumberToObject(body, "usd", usd);
	return 0;
}

static int exec_set(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	int rc = 0;
	cJSON_AddStringToObject(body, "name", c->args.operand[0]);
	for (size_t i = 1; !rc && i < c->args.n; i++)
		rc = add_change(c, body, c->args.operand[i]);
	if (!rc)
		rc = ctx_call(c, "POST", "/budgets", body, &answer);
	if (!rc) {
		int up = cJSON_IsTrue(jget(answer, "used_up")),
		    ends = strcmp(print_member(answer, "action"), "end") == 0;
		printf("%s: $%.2f a %s, $%.2f spent%s%s\n", print_member(answer, "name"), print_number(answer, "usd"),
		       print_member(answer, "period"), print_number(answer, "spent_usd"),
		       up ? ": no more jobs start" : "",
		       !ends ? ""
		       : up  ? ", running jobs end"
		             : "; when it is used up, running jobs end");
	}
	cJSON_Delete(answer);
	cJSON_Delete(body);
	return rc < 0 ? -1 : 0;
}

static int exec_rm(struct ctx *c)
{
	char *esc = client_escape(c->args.operand[0]), *path = xasprintf("/budgets/%s", esc);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "DELETE", path, NULL, &answer);
	if (!rc)
		printf("%s no longer has a budget\n", c->args.operand[0]);
	cJSON_Delete(answer);
	free(esc);
	free(path);
	return rc < 0 ? -1 : 0;
}

static const struct arg_opt cost_opts[] = {
    {"by", 0, "queue|user|job", "Make one row per queue, user or job (default queue)"},
    {"queue", 'q', "QUEUE", "Count only this queue and those below it"},
    {"owner", 'u', "USER", "Count only this user"},
    {"from", 0, "DAY|AGO", "Count from that day (local time) on, or from so long ago: 2026-01-31, 7d"},
    {"to", 0, "DAY|AGO", "Count until then"},
    {NULL, 0, NULL, NULL}};
const struct verb verbs_cost[] = {
    {"cost", "[JOB]", "Show what jobs cost, by queue, user or job", cost_opts, 0, 1, exec_cost},
    {"budget ls", "", "List the budgets of queues and users, and what they spent", NULL, 0, 0, exec_ls},
    {"budget set", "QUEUE[/@USER] [usd=N] [period=day|week|month] [action=hold|end]",
     "Bound what a queue or a user in it spends", NULL, 2, 4, exec_set},
    {"budget rm", "QUEUE[/@USER]", "Remove a budget", NULL, 1, 1, exec_rm},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
