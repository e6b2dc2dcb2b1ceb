/*
 * cmd_reserve: nodes that are reserved for a period, for a queue or for maintenance.
 */
#include "jobctl/verbs/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/client/when.h"
#include "jobctl/show/print.h"

static char *names_of(const cJSON *list, const char *between)
{
	char *all = xstrdup("");
	const cJSON *v;
	cJSON_ArrayForEach (v, list) {
		xappendf(&all, "%s%s", *all ? between : "", cJSON_IsString(v) ? v->valuestring : "");
	}
	return all;
}

static int exec_ls(struct ctx *c)
{
	const char *const heads[] = {"NAME", "STATE", print_zone_head("FROM"), "TO", "FOR", "NODES", "REASON"};
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", "/reservations", NULL, &answer);
	if (rc)
		return rc < 0 ? -1 : 0;
	struct table *t = table_create(heads, 7);
	const cJSON *r;
	cJSON_ArrayForEach (r, jget(answer, "reservations")) {
		char *nodes = names_of(jget(r, "nodes"), ",");
		table_cell(t, print_member(r, "name"));
		table_cell(t, print_member(r, "state"));
		table_cell(t, print_time(jtext(r, "from")));
		table_cell(t, print_time(jtext(r, "to")));
		if (cJSON_IsTrue(jget(r, "maintenance")))
			table_cell(t, "maintenance");
		else
			table_cellf(t, "queue %s", print_member(r, "queue"));
		table_cell(t, nodes);
		table_cell(t, print_member(r, "reason"));
		free(nodes);
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No node is reserved. To reserve some: jobctl reserve add NAME --nodes A,B --from TIME --for "
		     "DURATION --queue Q. For maintenance use --maintenance instead of --queue.");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

/* ---- the request ---------------------------------------------------------------------------------- */

static void add_nodes(const struct ctx *c, cJSON *body)
{
	const char *text;
	for (size_t i = 0; (text = args_nth(&c->args, "nodes", i)); i++) {
		char *copy = xstrdup(text), *save = NULL;
		cJSON *list = cJSON_GetObjectItemCaseSensitive(body, "nodes");
		if (!list)
			list = cJSON_AddArrayToObject(body, "nodes");
		for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save))
			cJSON_AddItemToArray(list, cJSON_CreateString(w));
		free(copy);
	}
}

static int add_time(struct ctx *c, cJSON *body, const char *opt, uint64_t *after_us)
{
	const char *text = args_get(&c->args, opt);
	uint64_t now = clock_real_us(clock_real()), us;
	char at[CLOCK_RFC3339_SIZE];
	if (!text)
		return 0;
	if (when_parse(text, now, *after_us, &us, &c->err))
		return err_wrap(&c->err, "--%s", opt);
	*after_us = us;
	/* Without "from" hearthd uses its own clock, which may differ from this machine's. */
	if (strcmp(opt, "from") == 0 && strcmp(text, "now") == 0)
		return 0;
	cJSON_AddStringToObject(body, opt, clock_rfc3339(us, at));
	return 0;
}

static int add_times(struct ctx *c, cJSON *body)
{
	uint64_t after = clock_real_us(clock_real()), seconds = 0;
	const char *span = args_get(&c->args, "for");
	if (span && args_get(&c->args, "to"))
		return ctx_fail(c, ERR_INVALID, "give --to or --for, not both");
	if (add_time(c, body, "from", &after) || add_time(c, body, "to", &after))
		return -1;
	if (!span)
		return 0;
	if (str_parse_duration(span, &seconds, &c->err))
		return err_wrap(&c->err, "--for");
	cJSON_AddNumberToObject(body, "for_s", (double)seconds);
	return 0;
}

static int add_rest(struct ctx *c, cJSON *body)
{
	uint64_t count = 0;
	if (args_u64(&c->args, "count", 1, 10000, &count, &c->err))
		return -1;
	if (count)
		cJSON_AddNumberToObject(body, "count", (double)count);
	if (args_get(&c->args, "type"))
		cJSON_AddStringToObject(body, "instance_type", args_get(&c->args, "type"));
	if (args_get(&c->args, "queue"))
		cJSON_AddStringToObject(body, "queue", args_get(&c->args, "queue"));
	if (args_has(&c->args, "maintenance"))
		cJSON_AddTrueToObject(body, "maintenance");
	if (args_get(&c->args, "reason"))
		cJSON_AddStringToObject(body, "reason", args_get(&c->args, "reason"));
	return 0;
}

/* ---- the answer ----------------------------------------------------------------------------------- */

static void report_reservation(const cJSON *r)
{
	char *nodes = names_of(jget(r, "nodes"), ", ");
	const cJSON *j;
	int maintenance = cJSON_IsTrue(jget(r, "maintenance"));
	printf("%s: %s, from %s to %s, %s%s\n", print_member(r, "name"), nodes, print_time(jtext(r, "from")),
	       print_time_zone(jtext(r, "to")), maintenance ? "for maintenance" : "for the jobs of queue ",
	       maintenance ? "" : print_member(r, "queue"));
	free(nodes);
	cJSON_ArrayForEach (j, jget(r, "still_running")) {
		char *name = print_safe(print_member(j, "name"));
		printf("  job %s (%s, %s) keeps running there until %s at the latest\n", print_member(j, "id"), name,
		       print_member(j, "owner"), print_time_zone(jtext(j, "until")));
		free(name);
	}
}

static int change_reservation(struct ctx *c, const char *method, const char *path, cJSON *body)
{
	cJSON *answer = NULL;
	int rc = add_times(c, body) || add_rest(c, body) ? -1 : 0;
	add_nodes(c, body);
	if (!rc)
		rc = ctx_call(c, method, path, body, &answer);
	if (!rc)
		report_reservation(answer);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	return rc < 0 ? -1 : 0;
}

/* Names everything that a new reservation lacks. */
static int check_new(struct ctx *c)
{
	static const char *const wanted[][3] = {{"nodes", "count", "--nodes A,B or --count N"},
	                                        {"to", "for", "--to TIME or --for DURATION"},
	                                        {"queue", "maintenance", "--queue QUEUE or --maintenance"}};
	char *all = xstrdup("");
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (args_has(&c->args, wanted[i][0]) || args_has(&c->args, wanted[i][1]))
			continue;
		xappendf(&all, "%s%s", *all ? "; " : "", wanted[i][2]);
	}
	int rc = *all ? ctx_fail(c, ERR_INVALID, "reserve add: missing %s", all) : 0;
	free(all);
	return rc;
}

static int exec_add(struct ctx *c)
{
	if (check_new(c))
		return -1;
	cJSON *body = cJSON_CreateObject();
	cJSON_AddStringToObject(body, "name", c->args.operand[0]);
	return change_reservation(c, "POST", "/reservations", body);
}

static char *path_of(struct ctx *c)
{
	char *esc = client_escape(c->args.operand[0]), *path = xasprintf("/reservations/%s", esc);
	free(esc);
	return path;
}

static int exec_set(struct ctx *c)
{
	char *path = path_of(c);
	int rc = c->args.n_given
	             ? change_reservation(c, "PATCH", path, cJSON_CreateObject())
	             : ctx_fail(c, ERR_INVALID,
	                        "nothing to change; give at least one of --nodes, --from, --to, --queue ...");
	free(path);
	return rc;
}

static int exec_rm(struct ctx *c)
{
	char *path = path_of(c);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "DELETE", path, NULL, &answer);
	if (!rc)
		printf("reservation %s is removed\n", c->args.operand[0]);
	cJSON_Delete(answer);
	free(path);
	return rc < 0 ? -1 : 0;
}

static const struct arg_opt opts[] = {
    {"nodes", 'n', "NODE", "Reserve these nodes; separate several by commas, or repeat the option"},
    {"count", 'N', "N", "Reserve N nodes; hearthd chooses those that are free soonest"},
    {"type", 0, "TYPE", "With --count: choose only nodes of this instance type"},
    {"from", 0, "TIME", "Begin at TIME: now (default), +2h, 14:00, \"2026-01-31 14:00\""},
    {"to", 0, "TIME", "End at TIME"},
    {"for", 0, "DURATION", "End after DURATION: 90m, 2h, 3d"},
    {"queue", 'q', "QUEUE", "Let jobs of QUEUE use the nodes then"},
    {"maintenance", 'm', NULL, "Let no job use the nodes then"},
    {"reason", 'r', "TEXT", "Give the reason; everyone can see it"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_reserve[] = {
    {"reserve ls", "", "List reservations and maintenance windows; ended ones for a day", NULL, 0, 0,
     exec_ls},
    {"reserve add", "NAME", "Reserve nodes for a period, for a queue or for maintenance", opts, 1, 1,
     exec_add},
    {"reserve set", "NAME", "Change nodes, times, queue or reason of a reservation", opts, 1, 1, exec_set},
    {"reserve rm", "NAME", "Remove a reservation, or end one that has begun", NULL, 1, 1, exec_rm},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
