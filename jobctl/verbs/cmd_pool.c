/*
 * cmd_pool: warm pools: what jobs left on their nodes for the next job of their owner. POOL is an id or a
 * name.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "jobctl/show/pools.h"
#include "jobctl/show/print.h"

static char *list_path(struct ctx *c)
{
	static const char *const queries[] = {"state", "owner"};
	char *path = xstrdup(args_has(&c->args, "all") ? "/pools?state=all" : "/pools");
	for (size_t i = 0; i < sizeof(queries) / sizeof(*queries); i++) {
		const char *value = args_get(&c->args, queries[i]);
		if (!value)
			continue;
		char *esc = client_escape(value);
		xappendf(&path, "%s%s=%s", strchr(path, '?') ? "&" : "?", queries[i], esc);
		free(esc);
	}
	xappendf(&path, "%climit=1000", strchr(path, '?') ? '&' : '?');
	return path;
}

static int has_ended(const cJSON *p)
{
	return strcmp(print_member(p, "state"), "terminated") == 0;
}

/* Returns when the pool ends, or why it ended. */
static const char *end_text(const cJSON *p, char *out, size_t size)
{
	const char *state = print_member(p, "state");
	if (has_ended(p))
		return print_member(p, jtext(p, "cause_text") ? "cause_text" : "cause");
	return strcmp(state, "available") == 0 ? pools_left(p, out, size) : "-";
}

/* Returns the level at which the next job starts, or how far that is. */
static const char *parked_text(const cJSON *p)
{
	const cJSON *k = jget(p, "parked");
	if (!cJSON_IsObject(k))
		return "-";
	return print_member(k, strcmp(print_member(k, "state"), "parked") == 0 ? "level" : "state");
}

static void add_row(struct table *t, const cJSON *p)
{
	char left[40], usd[40];
	table_cell(t, print_member(p, "id"));
	table_cell(t, print_member(p, "name"));
	table_cell(t, print_member(p, "owner"));
	table_cell(t, print_member(p, "state"));
	table_cellf(t, "%d", cJSON_GetArraySize(jget(p, "nodes")));
	table_cell(t, print_member(p, "gpus"));
	table_cell(t, print_member(p, "made_by"));
	table_cell(t, print_member(p, "used_by"));
	table_cell(t, cJSON_IsNumber(jget(p, "idle_usd"))
	                  ? str_amount(print_number(p, "idle_usd"), usd, sizeof(usd))
	                  : "-");
	table_cell(t, parked_text(p));
	table_cell(t, end_text(p, left, sizeof(left)));
}

static int exec_ls(struct ctx *c)
{
	const char *heads[] = {">POOL",    "NAME",     "OWNER",     "STATE",  ">NODES", ">GPUS",
	                       ">MADE BY", ">USED BY", ">IDLE USD", "PARKED", "ENDS IN"};
	cJSON *answer = NULL;
	if (args_has(&c->args, "all") && args_has(&c->args, "state"))
		return ctx_fail(c, ERR_INVALID, "--all and --state: give one of them; --all means --state all");
	char *path = list_path(c);
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	const cJSON *p;
	cJSON_ArrayForEach (p, jget(answer, "pools"))
		heads[10] = has_ended(p) ? "ENDS IN, OR WHY IT ENDED" : heads[10];
	struct table *t = table_create(heads, 11);
	cJSON_ArrayForEach (p, jget(answer, "pools"))
		add_row(t, p);
	int n = cJSON_GetArraySize(jget(answer, "pools"));
	if (table_rows(t))
		table_print(t);
	else if (c->args.n_given)
		puts("No such pool. To see all pools: jobctl pool ls");
	else
		puts("No pool is warm. A job leaves one if its file has \"warm_pool\": {\"keep_alive_s\": 1800}");
	if (print_number(answer, "total") > n)
		printf("%d of %.0f pools. For those of one user: jobctl pool ls --owner USER\n", n,
		       print_number(answer, "total"));
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

/* ---- one pool ------------------------------------------------------------------------------------ */

static char *pool_path(struct ctx *c)
{
	char *esc = client_escape(c->args.operand[0]), *path = xasprintf("/pools/%s", esc);
	free(esc);
	return path;
}

static void show_nodes(const cJSON *pool)
{
	static const char *const heads[] = {"NODE", "STATE", "GPUS", ">CPUS", ">MEMORY"};
	struct table *t = table_create(heads, 5);
	const cJSON *n, *g;
	cJSON_ArrayForEach (n, jget(pool, "nodes")) {
		char *gpus = xstrdup(""), size[32];
		cJSON_ArrayForEach (g, jget(n, "gpus"))
			xappendf(&gpus, "%s%.0f", *gpus ? "," : "", cJSON_IsNumber(g) ? g->valuedouble : -1.0);
		table_cell(t, print_member(n, "node"));
		table_cell(t, print_member(n, "state"));
		table_cell(t, *gpus ? gpus : "-");
		table_cell(t, print_member(n, "cpus"));
		table_cell(t, print_number(n, "memory_bytes") > 0
		                  ? str_size((uint64_t)print_number(n, "memory_bytes"), size, sizeof(size))
		                  : "-");
		free(gpus);
	}
	if (table_rows(t))
		table_print(t);
	table_destroy(t);
}

static void show_ended_nodes(const cJSON *pool)
{
	const char *heads[] = {"ENDED NODE", print_zone_head("WHEN"), "WHY"};
	struct table *t = table_create(heads, 3);
	const cJSON *n;
	cJSON_ArrayForEach (n, jget(pool, "ended_nodes")) {
		table_cell(t, print_member(n, "node"));
		table_cell(t, print_time(jtext(n, "at")));
		table_cell(t, print_member(n, jtext(n, "cause_text") ? "cause_text" : "cause"));
	}
	if (table_rows(t))
		table_print(t);
	table_destroy(t);
}

static void show_environment(const cJSON *env)
{
	const cJSON *in;
	print_line("requirements", jtext(env, "requirements"));
	print_line("source", jtext(env, "source"));
	cJSON_ArrayForEach (in, jget(env, "inputs")) {
		char *text = xasprintf("%s: %s", print_member(in, "name"), print_member(in, "digest"));
		print_line("input", text);
		free(text);
	}
}

static void show_times(const cJSON *p)
{
	char span[40], left[40], *text;
	print_line("made", print_time_zone(jtext(p, "made_at")));
	if (jtext(p, "kept_by") && jtext(p, "expires_at"))
		text = xasprintf("until %s (kept by %s)", print_time(jtext(p, "expires_at")), jtext(p, "kept_by"));
	else
		text = xasprintf("%s after the end of the job that used it last",
		                 str_duration((uint64_t)print_number(p, "keep_alive_s"), span, sizeof(span)));
	print_line("keep-alive", text);
	free(text);
	print_line("idle since", print_time(jtext(p, "idle_since")));
	if (jtext(p, "expires_at")) {
		text = xasprintf("%s, in %s", print_time(jtext(p, "expires_at")), pools_left(p, left, sizeof(left)));
		print_line("expires", text);
		free(text);
	}
	print_line("ended", print_time(jtext(p, "ended_at")));
	print_line("cause", jtext(p, jtext(p, "cause_text") ? "cause_text" : "cause"));
}

static void show_launch(const cJSON *p)
{
	const cJSON *v;
	char *names = xstrdup("");
	cJSON_ArrayForEach (v, jget(p, "preload"))
		if (cJSON_IsString(v))
			xappendf(&names, "%s%s", *names ? ", " : "", v->valuestring);
	print_line("launcher", jtext(p, "launcher"));
	print_line("preload", *names ? names : NULL);
	free(names);
}

/* What waits there for the next job. */
static void show_parked(const cJSON *p)
{
	const cJSON *k = jget(p, "parked");
	const char *state = jtext(k, "state"), *why = jtext(k, "text");
	char *text;
	if (!state && strcmp(print_member(p, "launcher"), "torchrun") == 0 &&
	    strcmp(print_member(p, "state"), "available") == 0)
		text = xstrdup("never: launches of torchrun do not wait");
	else if (!state)
		return;
	else if (strcmp(state, "parked") == 0)
		text = xasprintf("since %s: the next job of this kind starts at level %s%s%s",
		                 print_time(jtext(k, "since")), print_member(k, "level"), why ? "; " : "",
		                 why ? why : "");
	else if (strcmp(state, "failed") == 0)
		text = xasprintf("no: %s", why ? why : "it failed");
	else
		text = xasprintf("not yet: %s", state);
	print_line("parked", text);
	free(text);
}

static int exec_show(struct ctx *c)
{
	cJSON *p = NULL;
	char *path = pool_path(c), usd[40];
	int rc = ctx_call(c, "GET", path, NULL, &p);
	free(path);
	if (rc)
		return rc < 0 ? -1 : 0;
	char *name = print_safe(print_member(p, "name"));
	printf("%sPool %s%s  %s  %s\n", print_bold(), print_member(p, "id"), print_reset(), name,
	       print_member(p, "state"));
	free(name);
	print_line("owner", jtext(p, "owner"));
	print_line("queue", jtext(p, "queue"));
	print_line("made by", print_member(p, "made_by"));
	print_line("used by", print_member(p, "used_by"));
	if (cJSON_IsTrue(jget(p, "exclusive")))
		print_line("split", "never: its job was exclusive");
	show_times(p);
	if (print_number(p, "idle_usd") > 0) {
		char *text = xasprintf("$%s", str_amount(print_number(p, "idle_usd"), usd, sizeof(usd)));
		print_line("idle cost", text);
		free(text);
	}
	show_launch(p);
	show_parked(p);
	show_environment(jget(p, "environment"));
	show_nodes(p);
	show_ended_nodes(p);
	cJSON_Delete(p);
	return 0;
}

#define KEEP_KEY "keep_alive_s: "

static void report_kept(const cJSON *p)
{
	printf("pool %s expires at %s\n", print_member(p, "id"), print_time_zone(jtext(p, "expires_at")));
}

static int exec_keep(struct ctx *c)
{
	const char *span = args_get(&c->args, "for");
	uint64_t seconds = 0;
	if (!span)
		return ctx_fail(c, ERR_INVALID, "pool keep: missing --for DURATION, such as --for 2h");
	if (str_parse_duration(span, &seconds, &c->err))
		return err_wrap(&c->err, "--for");
	if (!seconds)
		return ctx_fail(c, ERR_INVALID, "--for 0: to end the pool: jobctl pool drop %s", c->args.operand[0]);
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	char *path = pool_path(c);
	cJSON_AddNumberToObject(body, "keep_alive_s", (double)seconds);
	int rc = ctx_call(c, "PATCH", path, body, &answer);
	if (rc < 0 && strncmp(c->err.text, KEEP_KEY, strlen(KEEP_KEY)) == 0) { /* people gave --for */
		cleanup_free char *bound = xstrdup(c->err.text + strlen(KEEP_KEY));
		rc = ctx_fail(c, ERR_INVALID, "--for %s: %s", span, bound);
	}
	if (!rc)
		report_kept(answer);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	free(path);
	return rc < 0 ? -1 : 0;
}

static void report_dropped(const cJSON *p)
{
	int left = cJSON_GetArraySize(jget(p, "nodes"));
	if (strcmp(print_member(p, "state"), "terminated") == 0 || !left)
		printf("pool %s has ended\n", print_member(p, "id"));
	else
		printf("pool %s has %d node%s left\n", print_member(p, "id"), left, left == 1 ? "" : "s");
}

static int exec_drop(struct ctx *c)
{
	cJSON *answer = NULL;
	char *path = pool_path(c);
	for (size_t i = 1; i < c->args.n; i++) {
		char *esc = client_escape(c->args.operand[i]);
		xappendf(&path, "%s%s", i == 1 ? "?node=" : ",", esc);
		free(esc);
	}
	int rc = ctx_call(c, "DELETE", path, NULL, &answer);
	if (!rc)
		report_dropped(answer);
	cJSON_Delete(answer);
	free(path);
	return rc < 0 ? -1 : 0;
}

static const struct arg_opt ls_opts[] = {
    {"state", 's', "available|in_use|terminated|all", "List pools in that state; without it those that live"},
    {"all", 'a', NULL, "Also list those that ended within the last hour, and why"},
    {"owner", 'u', "USER", "List only pools of that user"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt keep_opts[] = {{"for", 0, "DURATION", "Let it expire so long from now: 90m, 2h"},
                                           {NULL, 0, NULL, NULL}};

const struct verb verbs_pool[] = {
    {"pools", "", "List warm pools, as pool ls does", ls_opts, 0, 0, exec_ls},
    {"pool ls", "", "List warm pools: what jobs left on their nodes for the next job", ls_opts, 0, 0,
     exec_ls},
    {"pool show", "POOL", "Show what a pool holds, and when it ends", NULL, 1, 1, exec_show},
    {"pool keep", "POOL", "Set how long a pool waits for the next job", keep_opts, 1, 1, exec_keep},
    {"pool drop", "POOL [NODE...]", "End a pool, or its part on some nodes", NULL, 1, 257, exec_drop},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
