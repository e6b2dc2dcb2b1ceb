/*
 * cmd_cluster: nodes, tokens, the address of the page for browsers.
 */
#include "common/json.h"
#include "common/strutil.h"
#include "common/xalloc.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <stdio.h>
#include <string.h>

static char *jobs_of(const cJSON *node)
{
	const cJSON *j;
	char *all = xstrdup("");
	cJSON_ArrayForEach (j, cJSON_GetObjectItemCaseSensitive(node, "jobs")) {
		char *longer = xasprintf("%s%s%.0f", all, *all ? "," : "", cJSON_IsNumber(j) ? j->valuedouble : 0.0);
		free(all);
		all = longer;
	}
	return all;
}

static int exec_nodes(struct ctx *c)
{
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", "/nodes", NULL, &answer);
	if (rc)
		return rc < 0 ? -1 : 0;
	static const char *const heads[] = {"NODE",   "STATE",   "ADDRESS", "TYPE", ">GPUS",
	                                    ">SLOTS", ">MEMORY", ">LOAD",   "JOBS", "REASON"};
	struct table *t = table_create(heads, 10);
	const cJSON *n;
	cJSON_ArrayForEach (n, cJSON_GetObjectItemCaseSensitive(answer, "nodes")) {
		char size[32];
		const cJSON *memory = cJSON_GetObjectItemCaseSensitive(n, "memory_bytes");
		char *jobs = jobs_of(n);
		table_cell(t, print_member(n, "name"));
		table_cell(t, print_member(n, "state"));
		table_cell(t, print_member(n, "address"));
		table_cell(t, print_member(n, "instance_type"));
		table_cellf(t, "%s/%s", print_member(n, "gpus_used"), print_member(n, "gpus"));
		table_cellf(t, "%s/%s", print_member(n, "slots_used"), print_member(n, "slots"));
		table_cell(t, cJSON_IsNumber(memory) ? str_size((uint64_t)memory->valuedouble, size, sizeof(size))
		                                     : "-");
		table_cell(t, print_member(n, "load1"));
		table_cell(t, jobs);
		table_cell(t, print_member(n, "reason"));
		free(jobs);
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No node has joined. On this machine: jobctl local up. On others: jobctl token create --join, "
		     "then hearth-agent --controller URL --data DIR --join TOKEN");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

static int node_call(struct ctx *c, const char *what, const char *done)
{
	cJSON *body = cJSON_CreateObject();
	const char *reason = args_get(&c->args, "reason");
	int rc = 0;
	if (reason)
		cJSON_AddStringToObject(body, "reason", reason);
	for (size_t i = 0; !rc && i < c->args.n; i++) {
		char *esc = client_escape(c->args.operand[i]), *path = xasprintf("/nodes/%s/%s", esc, what);
		rc = ctx_call(c, "POST", path, body, NULL);
		if (rc == 0)
			printf("node %s %s\n", c->args.operand[i], done);
		if (rc > 0)
			rc = 0;
		free(esc);
		free(path);
	}
	cJSON_Delete(body);
	return rc;
}

static int exec_drain(struct ctx *c)
{
	return node_call(c, "drain", "takes no new jobs; those on it go on");
}

static int exec_resume(struct ctx *c)
{
	return node_call(c, "resume", "takes jobs again");
}

static int exec_node_rm(struct ctx *c)
{
	char *esc = client_escape(c->args.operand[0]), *path = xasprintf("/nodes/%s", esc);
	int rc = ctx_call(c, "DELETE", path, NULL, NULL);
	if (rc == 0)
		printf("node %s is removed; its certificate is no longer accepted\n", c->args.operand[0]);
	free(esc);
	free(path);
	return rc < 0 ? -1 : 0;
}

static int exec_token(struct ctx *c)
{
	const char *ttl = args_get(&c->args, "ttl");
	int api = args_has(&c->args, "api");
	uint64_t seconds = 0;
	if (api && args_has(&c->args, "join"))
		return ctx_fail(c, ERR_INVALID, "--join and --api exclude each other");
	if (ttl && str_parse_duration(ttl, &seconds, &c->err))
		return err_wrap(&c->err, "--ttl");
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	cJSON_AddStringToObject(body, "kind", api ? "api" : "join");
	if (ttl)
		cJSON_AddNumberToObject(body, "ttl_s", (double)seconds);
	int rc = ctx_call(c, "POST", "/tokens", body, &answer);
	cJSON_Delete(body);
	if (rc)
		return rc < 0 ? -1 : 0;
	puts(print_member(answer, "token"));
	cJSON_Delete(answer);
	return 0;
}

static int exec_dash(struct ctx *c)
{
	cJSON *answer = NULL;
	if (client_call(ctx_client(c), "GET", "//healthz", NULL, &answer, &c->err))
		return -1;
	const char *url = NULL;
	json_get_str(answer, "", "url", &url, NULL);
	if (!url)
		url = client_url(c->client);
	if (c->json)
		ctx_show_json(c, answer);
	else
		printf("%s/\n", url);
	cJSON_Delete(answer);
	return 0;
}

static const struct arg_opt drain_opts[] = {{"reason", 'r', "TEXT", "why, shown to everyone"},
                                            {NULL, 0, NULL, NULL}};
static const struct arg_opt token_opts[] = {
    {"join", 0, NULL, "a one-time token with which an agent joins (default)"},
    {"api", 0, NULL, "a token of your own for the API"},
    {"ttl", 't', "DURATION", "how long it is good for (default 1h)"},
    {NULL, 0, NULL, NULL}};

const struct verb verbs_cluster[] = {
    {"nodes", "", "the machines and what they do", NULL, 0, 0, exec_nodes},
    {"node drain", "NODE...", "no new jobs on a node", drain_opts, 1, 256, exec_drain},
    {"node resume", "NODE...", "jobs on a node again", NULL, 1, 256, exec_resume},
    {"node rm", "NODE", "forget a node that is gone", NULL, 1, 1, exec_node_rm},
    {"token create", "", "make a token", token_opts, 0, 0, exec_token},
    {"dash", "", "the address of the page for browsers", NULL, 0, 0, exec_dash},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
