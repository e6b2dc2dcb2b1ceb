/*
 * cmd_cluster: nodes and the address of the dashboard.
 */
#include "jobctl/verbs/verbs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "jobctl/local/local.h"
#include "jobctl/show/pools.h"
#include "jobctl/show/print.h"

static char *jobs_of(const cJSON *node)
{
	const cJSON *j;
	char *all = xstrdup("");
	cJSON_ArrayForEach (j, jget(node, "jobs")) {
		xappendf(&all, "%s%.0f", *all ? "," : "", cJSON_IsNumber(j) ? j->valuedouble : 0.0);
	}
	return all;
}

/* Returns "4x A100 40.0GiB", or of several models "2x A100 40.0GiB, 2x T4 15.0GiB"; malloc'ed. */
static char *gpus_of(const cJSON *node)
{
	char *all = xstrdup(""), size[32];
	const cJSON *g, *list = jget(node, "gpu_list");
	unsigned n = 0;
	TEXT(kind);
	cJSON_ArrayForEach (g, list) {
		double memory = print_number(g, "memory_bytes");
		const char *model = jtext(g, "model"), *next = jtext(g->next, "model");
		n++;
		if (model && next && strcmp(model, next) == 0 && print_number(g->next, "memory_bytes") == memory)
			continue;
		text_clear(&kind);
		text_add(&kind, "%.80s", model ? model : "?");
		if (memory > 0)
			text_add(&kind, " %s", str_size((uint64_t)memory, size, sizeof(size)));
		xappendf(&all, "%s%ux %s", *all ? ", " : "", n, kind.at);
		n = 0;
	}
	return all;
}

/* Returns the warm pools of a node, "12 ada 27m parked"; malloc'ed. */
static char *pools_of(const cJSON *node)
{
	char *all = xstrdup(""), left[40];
	const cJSON *p;
	cJSON_ArrayForEach (p, jget(node, "pools")) {
		xappendf(&all, "%s%s %s", *all ? ", " : "", print_member(p, "pool"), print_member(p, "owner"));
		xappendf(&all, " %s",
		         strcmp(print_member(p, "state"), "available") != 0 ? "in use"
		                                                            : pools_left(p, left, sizeof(left)));
		if (cJSON_IsTrue(jget(p, "parked")))
			xappendf(&all, " parked");
	}
	return all;
}

/* Returns the switch, rack and pool columns that any node needs. */
static void shown_columns(const cJSON *nodes, int *places, int *pools)
{
	const cJSON *n;
	*places = *pools = 0;
	cJSON_ArrayForEach (n, nodes) {
		*places |= jtext(n, "switch") || jtext(n, "rack");
		*pools |= cJSON_GetArraySize(jget(n, "pools")) > 0;
	}
}

static void add_node(struct table *t, const cJSON *n, int places, int pools)
{
	char size[32];
	const cJSON *memory = jget(n, "memory_bytes");
	char *jobs = jobs_of(n), *gpus = gpus_of(n), *reason = print_local(print_member(n, "reason")),
	     *warm = pools_of(n);
	table_cell(t, print_member(n, "name"));
	table_cellf(t, "%s%s", print_member(n, "state"), cJSON_IsTrue(jget(n, "spare")) ? " (spare)" : "");
	table_cell(t, print_member(n, "address"));
	if (places) {
		table_cell(t, print_member(n, "switch"));
		table_cell(t, print_member(n, "rack"));
	}
	table_cell(t, print_member(n, "instance_type"));
	table_cellf(t, "%s/%s", print_member(n, "gpus_used"), print_member(n, "gpus"));
	table_cell(t, gpus);
	table_cellf(t, "%s/%s", print_member(n, "slots_used"), print_member(n, "slots"));
	table_cell(t, cJSON_IsNumber(memory) ? str_size((uint64_t)memory->valuedouble, size, sizeof(size)) : "-");
	if (cJSON_IsNumber(jget(n, "load1")))
		table_cellf(t, "%.1f", print_number(n, "load1"));
	else
		table_cell(t, "-");
	table_cell(t, jobs);
	if (pools)
		table_cell(t, *warm ? warm : "-");
	table_cell(t, reason);
	free(warm);
	free(reason);
	free(jobs);
	free(gpus);
}

/* Columns that no node needs are left out. */
static struct table *node_table(int places, int pools)
{
	const char *heads[14];
	size_t n = 0;
	heads[n++] = "NODE";
	heads[n++] = "STATE";
	heads[n++] = "ADDRESS";
	if (places) {
		heads[n++] = "SWITCH";
		heads[n++] = "RACK";
	}
	heads[n++] = "TYPE";
	heads[n++] = ">GPUS";
	heads[n++] = "GPU";
	heads[n++] = ">SLOTS";
	heads[n++] = ">MEMORY";
	heads[n++] = ">LOAD";
	heads[n++] = "JOBS";
	if (pools)
		heads[n++] = "WARM POOL";
	heads[n++] = "REASON";
	return table_create(heads, n);
}

static int exec_nodes(struct ctx *c)
{
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", "/nodes", NULL, &answer);
	if (rc)
		return rc < 0 ? -1 : 0;
	int places, pools;
	shown_columns(jget(answer, "nodes"), &places, &pools);
	struct table *t = node_table(places, pools);
	const cJSON *n;
	cJSON_ArrayForEach (n, jget(answer, "nodes"))
		add_node(t, n, places, pools);
	if (table_rows(t))
		table_print(t);
	else
		puts("No node has joined. To start nodes on this machine: jobctl local up. To add other machines: "
		     "jobctl token create --join, then hearth-agent --controller URL --data DIR --join-file FILE");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

/* Makes the same call for each node, also after one was refused. The first error gives the exit code. */
static int node_call(struct ctx *c, const char *method, const char *what, const char *done)
{
	cJSON *body = strcmp(method, "POST") != 0 ? NULL : cJSON_CreateObject(), *all = cJSON_CreateArray();
	const char *reason = args_get(&c->args, "reason");
	struct err first = {0};
	if (reason && body)
		cJSON_AddStringToObject(body, "reason", reason);
	if (args_has(&c->args, "off"))
		cJSON_AddTrueToObject(body, "off");
	for (size_t i = 0; i < c->args.n && first.code != ERR_UNAVAILABLE; i++) {
		char *esc = client_escape(c->args.operand[i]), *path = xasprintf("/nodes/%s%s", esc, what);
		cJSON *answer;
		if (!ctx_get(c, method, path, body, &answer)) {
			if (c->json)
				cJSON_AddItemToArray(all, answer);
			else {
				printf("node %s %s\n", c->args.operand[i], done);
				cJSON_Delete(answer);
			}
		} else if (first.code == ERR_NONE) {
			first = c->err;
		} else {
			char *safe = print_safe(c->err.text);
			fprintf(stderr, "jobctl: %s\n", safe);
			free(safe);
		}
		free(esc);
		free(path);
	}
	if (c->json && cJSON_GetArraySize(all))
		ctx_print_json(c->args.n == 1 ? cJSON_GetArrayItem(all, 0) : all);
	cJSON_Delete(all);
	cJSON_Delete(body);
	c->err = first;
	return first.code == ERR_NONE ? 0 : -1;
}

static int exec_drain(struct ctx *c)
{
	return node_call(c, "POST", "/drain", "accepts no new jobs; its running jobs continue");
}

static int exec_spare(struct ctx *c)
{
	return node_call(c, "POST", "/spare",
	                 args_has(&c->args, "off") ? "takes all jobs again"
	                                           : "is a spare: it only replaces nodes that jobs lose");
}

static int exec_resume(struct ctx *c)
{
	return node_call(c, "POST", "/resume", "accepts jobs again");
}

#define HEARD_MS 2000 /* shorter than any lease, so hearthd would refuse */

/* Refuses an unknown node, or one whose agent was heard, before a person is asked. */
static int can_be_lost(struct ctx *c, const char *name)
{
	char *esc = client_escape(name), *path = xasprintf("/nodes/%s", esc);
	cJSON *node = NULL;
	int rc = ctx_get(c, "GET", path, NULL, &node);
	const char *state = print_member(node, "state");
	if (!rc && cJSON_IsTrue(jget(node, "connected")) && strcmp(state, "lost") != 0 &&
	    cJSON_IsNumber(jget(node, "beat_age_ms")) && print_number(node, "beat_age_ms") < HEARD_MS)
		rc = ctx_fail(c, ERR_CONFLICT,
		              "node %s is not lost: its agent was heard %.1f s ago. To keep new jobs off it: jobctl "
		              "node drain %s",
		              name, print_number(node, "beat_age_ms") / 1e3, name);
	cJSON_Delete(node);
	free(path);
	free(esc);
	return rc;
}

/* hearthd cannot see whether the machine is off, so a person must confirm it. */
static int exec_node_lost(struct ctx *c)
{
	for (size_t i = 0; i < c->args.n && !args_has(&c->args, "yes"); i++)
		if (can_be_lost(c, c->args.operand[i]))
			return -1;
	if (!args_has(&c->args, "yes")) {
		char answer[8] = "";
		if (!isatty(STDIN_FILENO))
			return ctx_fail(c, ERR_DENIED,
			                "nothing was declared; add --yes if you are certain that the machine is off or "
			                "that no process of its jobs runs there");
		fputs("Are you certain that no process of a job runs any more on", stderr);
		for (size_t i = 0; i < c->args.n; i++)
			fprintf(stderr, " %s", c->args.operand[i]);
		fputs("? Hearth may start these jobs elsewhere. [y/N] ", stderr);
		if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
			return ctx_fail(c, ERR_DENIED, "not confirmed; nothing was declared");
	}
	return node_call(c, "POST", "/lost",
	                 "is declared lost; if it returns, it first kills the processes of its jobs");
}

/* Asks for confirmation if any of the nodes has jobs, and sets *force then. */
static int ask_node_rm(struct ctx *c, int *force)
{
	char answer[8] = "";
	for (size_t i = 0; i < c->args.n; i++) {
		char *esc = client_escape(c->args.operand[i]), *path = xasprintf("/nodes/%s", esc);
		cJSON *node = NULL;
		int n = ctx_get(c, "GET", path, NULL, &node) ? 0 : cJSON_GetArraySize(jget(node, "jobs"));
		char *jobs = n ? jobs_of(node) : NULL;
		if (n)
			fprintf(stderr, "Node %s has job%s %s.\n", c->args.operand[i], n == 1 ? "" : "s", jobs);
		*force |= n > 0;
		free(jobs);
		cJSON_Delete(node);
		free(esc);
		free(path);
	}
	memset(&c->err, 0, sizeof(c->err)); /* the call itself reports an unknown node */
	if (!*force)
		return 0;
	fputs("Are you certain that none of their processes runs there any more? Their attempts end, and Hearth "
	      "may start them elsewhere. [y/N] ",
	      stderr);
	if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
		return ctx_fail(c, ERR_DENIED, "not confirmed; nothing was removed");
	return 0;
}

/* Without a terminal and without --yes hearthd refuses a node that has jobs. */
static int exec_node_rm(struct ctx *c)
{
	int force = args_has(&c->args, "yes");
	if (!force && isatty(STDIN_FILENO) && ask_node_rm(c, &force))
		return -1;
	return node_call(c, "DELETE", force ? "?force=1" : "",
	                 "is removed; its certificate is no longer accepted");
}

/* Returns where a browser reaches hearthd: hearthd's own answer, the address in use, or the local cluster's.
 */
static char *browser_base(struct ctx *c, const cJSON *link)
{
	const char *said = jtext(link, "url");
	if (said)
		return xstrdup(said);
	if (strncmp(client_url(c->client), "unix://", 7) != 0)
		return xstrdup(client_url(c->client));
	return local_http_url(client_url(c->client));
}

static int exec_dash(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject(), *link = NULL;
	int rc = ctx_get(c, "POST", "/login-links", body, &link);
	cJSON_Delete(body);
	if (rc)
		return -1;
	const char *path = jtext(link, "path");
	char *base = browser_base(c, link);
	size_t n = base ? strlen(base) : 0;
	while (n && base[n - 1] == '/')
		base[--n] = 0;
	if (!base || !path)
		rc = ctx_fail(c, ERR_UNSUPPORTED,
		              "browsers cannot open the controller's unix socket; give its address: jobctl --url "
		              "https://HOST:PORT dash");
	char *url = rc ? NULL : strstr(path, "://") ? xstrdup(path) : xasprintf("%s%s", base, path);
	if (url && c->json) {
		cJSON_DeleteItemFromObjectCaseSensitive(link, "url");
		cJSON_AddStringToObject(link, "url", url);
		ctx_print_json(link);
	} else if (url) {
		puts(url);
	}
	free(url);
	free(base);
	cJSON_Delete(link);
	return rc;
}

static const struct arg_opt drain_opts[] = {{"reason", 'r', "TEXT", "Give the reason; everyone can see it"},
                                            {NULL, 0, NULL, NULL}};
static const struct arg_opt spare_opts[] = {{"off", 0, NULL, "Let it take all jobs again"},
                                            {NULL, 0, NULL, NULL}};
static const struct arg_opt lost_opts[] = {
    {"reason", 'r', "TEXT", "Say how it is known; the event stores it"},
    {"yes", 'y', NULL, "Do not ask"},
    {NULL, 0, NULL, NULL}};
static const struct arg_opt node_rm_opts[] = {{"yes", 'y', NULL, "Do not ask, even if the node has jobs"},
                                              {NULL, 0, NULL, NULL}};
const struct verb verbs_cluster[] = {
    {"nodes", "", "List the machines and their jobs", NULL, 0, 0, exec_nodes},
    {"node drain", "NODE...", "Drain nodes: they accept no new jobs", drain_opts, 1, 256, exec_drain},
    {"node resume", "NODE...", "Resume nodes: they accept jobs again", NULL, 1, 256, exec_resume},
    {"node spare", "NODE...", "Keep nodes to replace those that jobs lose", spare_opts, 1, 256, exec_spare},
    {"node lost", "NODE...", "Declare silent nodes lost; only if they are certainly down", lost_opts, 1, 256,
     exec_node_lost},
    {"node rm", "NODE...", "Remove nodes that are gone", node_rm_opts, 1, 256, exec_node_rm},
    {"dash", "", "Print an address of the dashboard that works once, for a minute", NULL, 0, 0, exec_dash},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
