/*
 * cmd_jobs: lists and explains jobs: ls, why, top.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/interrupt.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/members.h"
#include "jobctl/show/print.h"

/* ---- ls ---- */

static void add_query(char **query, const char *key, const char *value)
{
	cleanup_free char *esc = client_escape(value);
	xappendf(query, "&%s=%s", key, esc);
}

/* Suggests the term that was meant ("stauts:x", "status=x", "tagteam=x"). 1: c->err has it. */
static int nearest_term(struct ctx *c, const char *w)
{
	static const char *const terms[] = {"status", "owner", "name", "experiment", "array", "sweep", NULL};
	size_t n = strcspn(w, ":=<>");
	char *key = xstrndup(w, n);
	const char *near = str_nearest(key, terms), *value = w + n + strspn(w + n, ":=<>");
	int found = near != NULL;
	if (near) {
		ctx_fail(c, ERR_INVALID, "unknown search term '%s'; did you mean %s:%s?", w, near, value);
	} else if (strncmp(w, "tag", 3) == 0 && w[n] == '=') {
		const char *name = key + 3 + strspn(key + 3, ".:s");
		found = 1;
		ctx_fail(c, ERR_INVALID, "unknown search term '%s'; did you mean tag.%s=%s?", w, *name ? name : "KEY",
		         value);
	}
	free(key);
	return found;
}

/* Adds a term, which may appear once: the controller accepts one value of each. */
static int add_term(struct ctx *c, char **query, const char *key, const char *value, const char *w)
{
	char *mark = xasprintf("&%s=", key);
	int twice = strstr(*query, mark) != NULL;
	free(mark);
	if (twice)
		return ctx_fail(
		    c, ERR_INVALID, "'%s': expected only one %s; search for each one separately%s", w, key,
		    strcmp(key, "status") != 0 ? "" : ", or use status:active for all jobs that have not ended");
	add_query(query, key, value);
	return 0;
}

/* Adds one word of the query: status:x, owner:x, name:x, experiment:x, tag.k=v. Other words become part of
 * the searched text. */
static int query_word(struct ctx *c, char **query, char **text, const char *w)
{
	static const struct {
		const char *prefix, *key;
	} known[] = {{"status:", "status"},         {"owner:", "owner"}, {"name:", "name"},
	             {"experiment:", "experiment"}, {"array:", "array"}, {"sweep:", "array"}};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strncmp(w, known[i].prefix, strlen(known[i].prefix)) == 0) {
			const char *value = w + strlen(known[i].prefix);
			uint64_t id;
			if (strcmp(known[i].key, "array") == 0 && str_parse_u64(value, &id))
				return ctx_fail(c, ERR_INVALID, "'%s': expected the id of a sweep or an array", w);
			return add_term(c, query, known[i].key, value, w);
		}
	}
	/* tag.KEY=VALUE, or tag.KEY for any value */
	if (strncmp(w, "tag.", 4) == 0 && w[4] && w[4] != '=') {
		char *tag = xstrdup(w + 4), *eq = strchr(tag, '=');
		if (eq)
			*eq = ':';
		int rc = add_term(c, query, "tag", tag, w);
		free(tag);
		return rc;
	}
	if (strpbrk(w, ":<>=") && nearest_term(c, w))
		return -1;
	if (strpbrk(w, ":<>="))
		return ctx_fail(c, ERR_UNSUPPORTED,
		                "'%s': this search term is not built yet; expected status:X, owner:X, name:X, "
		                "experiment:X, array:ID, tag.KEY=VALUE, tag.KEY or plain text",
		                w);
	if (*text)
		xappendf(text, " %s", w);
	else
		*text = xstrdup(w);
	return 0;
}

/* Fills the last column: the reason, or the states of the members of an array or a sweep. */
static void reason_cell(struct table *t, const cJSON *j, int *arrays)
{
	const cJSON *counts = jget(j, "members");
	if (!cJSON_IsObject(counts)) {
		char *local = print_local(print_member(j, "reason"));
		table_cell(t, local);
		free(local);
		return;
	}
	char *text = members_text(counts);
	const char *reason = members_rest(jtext(j, "reason"));
	table_cellf(t, "%s%s%s", text, *reason ? "; " : "", reason);
	free(text);
	++*arrays;
}

static void print_jobs(const cJSON *jobs)
{
	const char *const heads[] = {
	    ">ID", "NAME", "OWNER", "STATUS", ">NODES", ">GPUS", print_zone_head("CREATED"), ">RAN", "REASON"};
	struct table *t = table_create(heads, 9);
	const cJSON *j;
	int arrays = 0;
	cJSON_ArrayForEach (j, jobs) {
		table_cell(t, print_member(j, jtext(j, "ref") ? "ref" : "id"));
		table_cell(t, print_member(j, "name"));
		table_cell(t, print_member(j, "owner"));
		table_cell(t, print_member(j, "status"));
		table_cell(t, print_member(j, "nodes"));
		table_cell(t, print_member(j, "gpus"));
		table_cell(t, print_time(jtext(j, "created_at")));
		table_cell(t, print_ran(j));
		reason_cell(t, j, &arrays);
	}
	table_print(t);
	table_destroy(t);
	if (arrays)
		printf("%sTo see members: jobctl show ID, or jobctl ls array:ID%s\n", print_dim(), print_reset());
}

/* Returns whether only the caller's own jobs are listed: without --all, unless the query names an owner or an
 * array. */
static int only_mine(const struct ctx *c)
{
	int mine = !args_has(&c->args, "all");
	for (size_t i = 0; i < c->args.n; i++)
		mine &= strncmp(c->args.operand[i], "owner:", 6) != 0 &&
		        strncmp(c->args.operand[i], "array:", 6) != 0 &&
		        strncmp(c->args.operand[i], "sweep:", 6) != 0;
	return mine;
}

/* Reports that no job matches. */
static void report_none(struct ctx *c, uint64_t before)
{
	const char *whose = only_mine(c) ? " of yours" : "";
	const char *more = *whose ? " To see the jobs of all users: jobctl ls --all" : "";
	if (before)
		printf("No job%s%s is older than %" PRIu64 ".\n", whose, c->args.n ? " that matches" : "", before);
	else if (!c->args.n)
		printf("No job%s yet. To submit one: jobctl submit job.json.%s\n", whose, more);
	else {
		printf("No job%s matches", whose);
		for (size_t i = 0; i < c->args.n; i++) {
			char *safe = print_safe(c->args.operand[i]);
			printf(" %s", safe);
			free(safe);
		}
		printf(".%s\n", more);
	}
}

static int exec_ls(struct ctx *c)
{
	uint64_t limit = 50, before = 0;
	if (args_u64(&c->args, "limit", 1, 1000, &limit, &c->err) ||
	    args_u64(&c->args, "before", 1, INT64_MAX, &before, &c->err))
		return -1;
	char *query = xasprintf("/jobs?limit=%" PRIu64, limit);
	int rc = 0;
	if (before) {
		xappendf(&query, "&before=%" PRIu64, before);
	}
	if (args_has(&c->args, "removed"))
		add_query(&query, "deleted", "1");
	if (args_has(&c->args, "members"))
		add_query(&query, "members", "1");
	if (only_mine(c))
		add_query(&query, "mine", "1");
	char *text = NULL;
	for (size_t i = 0; !rc && i < c->args.n; i++)
		rc = query_word(c, &query, &text, c->args.operand[i]);
	if (!rc && text)
		add_query(&query, "text", text);
	free(text);
	cJSON *answer = NULL;
	if (!rc)
		rc = ctx_call(c, "GET", query, NULL, &answer);
	free(query);
	if (rc)
		return rc < 0 ? -1 : 0;
	const cJSON *jobs = jget(answer, "jobs");
	if (!cJSON_GetArraySize(jobs))
		report_none(c, before);
	else
		print_jobs(jobs);
	const cJSON *next = jget(answer, "next");
	if (cJSON_IsNumber(next))
		printf("%sNext page: --before %.0f%s\n", print_dim(), next->valuedouble, print_reset());
	cJSON_Delete(answer);
	return 0;
}

/* ---- why, top ---- */

/* "is running", "has failed" */
static const char *status_words(const char *status)
{
	static char other[40];

	if (strcmp(status, "failed") == 0)
		return "has failed";
	if (strcmp(status, "completed") == 0)
		return "has completed";
	if (strcmp(status, "stopped") == 0)
		return "was stopped";
	snprintf(other, sizeof(other), "is %.30s", status);
	return other;
}

static int exec_why(struct ctx *c)
{
	uint64_t id;
	if (ref_resolve(c, c->args.operand[0], &id))
		return -1;
	char *path = xasprintf("/jobs/%" PRIu64 "/why", id);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	char *local = print_local(print_member(answer, "text")), *safe = print_safe(local);
	char number[32];
	snprintf(number, sizeof(number), "%" PRIu64, id);
	printf("Job %s %s: %s\n", jtext(answer, "ref") ? jtext(answer, "ref") : number,
	       status_words(print_member(answer, "status")), safe);
	free(safe);
	free(local);
	cJSON_Delete(answer);
	return 0;
}

/* Joins a list of strings as "a,b", and {name: {last}} as "x=1 y=2". Malloc'ed. */
static char *join_values(const cJSON *list)
{
	char *all = xstrdup("");
	const cJSON *v;
	cJSON_ArrayForEach (v, list) {
		if (v->string)
			xappendf(&all, "%s%s=%s", *all ? " " : "", v->string, print_member(v, "last"));
		else
			xappendf(&all, "%s%s", *all ? "," : "", cJSON_IsString(v) ? v->valuestring : "?");
	}
	return all;
}

static void top_running(const cJSON *list)
{
	static const char *const heads[] = {">ID", "NAME", "OWNER", "STATUS", ">RAN", "NODES", "METRICS"};
	const cJSON *j;
	if (!cJSON_GetArraySize(list))
		return;
	struct table *t = table_create(heads, 7);
	cJSON_ArrayForEach (j, list) {
		char *nodes = join_values(jget(j, "nodes")), *metrics = join_values(jget(j, "metrics"));
		table_cell(t, print_member(j, jtext(j, "ref") ? "ref" : "id"));
		table_cell(t, print_member(j, "name"));
		table_cell(t, print_member(j, "owner"));
		table_cell(t, print_member(j, "status"));
		table_cell(t, print_ran(j));
		table_cell_cut(t, nodes, 40);
		table_cell(t, metrics);
		free(nodes);
		free(metrics);
	}
	table_print(t);
	table_destroy(t);
}

static void top_waiting(const cJSON *list)
{
	static const char *const heads[] = {">ID",    "NAME",  "OWNER",  ">PRIORITY",
	                                    ">NODES", ">GPUS", ">WAITS", "FOR"};
	const cJSON *j;
	if (!cJSON_GetArraySize(list))
		return;
	struct table *t = table_create(heads, 8);
	cJSON_ArrayForEach (j, list) {
		table_cell(t, print_member(j, jtext(j, "ref") ? "ref" : "id"));
		table_cell(t, print_member(j, "name"));
		table_cell(t, print_member(j, "owner"));
		table_cell(t, print_member(j, "priority"));
		table_cell(t, print_member(j, "nodes"));
		table_cell(t, print_member(j, "gpus"));
		table_cell(t, print_span(jtext(j, "queued_at"), NULL));
		char *local = print_local(print_member(j, "text"));
		table_cell(t, local);
		free(local);
	}
	table_print(t);
	table_destroy(t);
}

static void top_once(const cJSON *answer)
{
	const cJSON *nodes = jget(answer, "nodes"), *jobs = jget(answer, "jobs");
	const char *b = print_bold(), *r = print_reset();
	printf("%sNodes%s %s up of %s   %sGPUs%s %s used of %s   %sSlots%s %s used of %s   %sJobs%s %s running, "
	       "%s waiting\n",
	       b, r, print_member(nodes, "up"), print_member(nodes, "total"), b, r,
	       print_member(nodes, "gpus_used"), print_member(nodes, "gpus"), b, r,
	       print_member(nodes, "slots_used"), print_member(nodes, "slots"), b, r,
	       print_member(jobs, "running"), print_member(jobs, "waiting"));
	print_line("problem", jtext(answer, "problem"));
	if (print_number(nodes, "warm_nodes") > 0)
		printf("%sWarm%s %s idle node%s, %s GPU%s in pools; %s of the nodes parked: jobctl pool ls\n", b, r,
		       print_member(nodes, "warm_nodes"), print_number(nodes, "warm_nodes") == 1 ? "" : "s",
		       print_member(nodes, "warm_gpus"), print_number(nodes, "warm_gpus") == 1 ? "" : "s",
		       print_number(nodes, "parked_nodes") > 0 ? print_member(nodes, "parked_nodes") : "none");
	top_running(jget(answer, "running"));
	top_waiting(jget(answer, "waiting"));
	if (!cJSON_GetArraySize(jget(answer, "running")) && !cJSON_GetArraySize(jget(answer, "waiting")))
		puts(print_number(nodes, "total") > 0 ? "No job runs or waits. To submit one: jobctl submit job.json"
		                                      : "No node has joined. To see how to add one: jobctl nodes");
}

static int exec_top(struct ctx *c)
{
	int again = print_is_terminal() && !c->json && !args_has(&c->args, "once");
	if (again)
		interrupt_catch();
	do {
		cJSON *answer = NULL;
		int rc = ctx_call(c, "GET", "/top", NULL, &answer);
		if (rc)
			return rc < 0 && !interrupted() ? -1 : 0;
		if (again)
			fputs("\033[H\033[2J", stdout);
		top_once(answer);
		fflush(stdout);
		cJSON_Delete(answer);
	} while (again && !interrupt_sleep(1000));
	return 0;
}

static const struct arg_opt ls_opts[] = {
    {"all", 'a', NULL, "Include the jobs of all users"},
    {"limit", 'n', "N", "List at most N jobs (default 50)"},
    {"before", 0, "ID", "List only jobs older than ID: the next page"},
    {"members", 'm', NULL, "Also list the members of arrays and sweeps"},
    {"removed", 0, NULL, "Also list jobs whose data `jobctl rm` removed"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt top_opts[] = {{"once", '1', NULL, "Show it once, also on a terminal"},
                                          {NULL, 0, NULL, NULL}};

const struct verb verbs_jobs[] = {
    {"ls", "[QUERY...]", "List jobs that match QUERY: status:X owner:X name:X array:ID tag.K=V text", ls_opts,
     0, 32, exec_ls},
    {"why", "JOB", "Explain what a job waits for, or why it ended", NULL, 1, 1, exec_why},
    {"top", "", "Show what runs and waits now", top_opts, 0, 0, exec_top},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
