/*
 * cmd_queue: queues and quotas. QUEUE is a path, "research/vision"; a user in a queue is "research/@ada".
 */
#include "jobctl/verbs/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "jobctl/show/print.h"

/* Returns "3/8": so many are idle in warm pools, and so many may be. */
static char *warm_text(const cJSON *q, const char *now, const char *most)
{
	return cJSON_IsNumber(jget(q, most)) ? xasprintf("%s/%s", print_member(q, now), print_member(q, most))
	                                     : xstrdup("-");
}

static int has_warm(const cJSON *q)
{
	return cJSON_IsNumber(jget(q, "quota_warm_gpus")) || cJSON_IsNumber(jget(q, "quota_warm_nodes"));
}

static void add_warm(struct table *t, const cJSON *q)
{
	char *gpus = warm_text(q, "warm_gpus", "quota_warm_gpus"),
	     *nodes = warm_text(q, "warm_nodes", "quota_warm_nodes");
	table_cell(t, gpus);
	table_cell(t, nodes);
	free(gpus);
	free(nodes);
}

static int list_queues(struct ctx *c, int quotas_only)
{
	static const char *const heads[] = {"QUEUE",    ">WEIGHT", ">QUOTA", "BORROW",     ">GPUS",
	                                    ">WAITING", ">WANTED", ">USED",  ">WARM GPUS", ">WARM NODES"};
	int warm = 0;
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", "/queues", NULL, &answer);
	if (rc)
		return rc < 0 ? -1 : 0;
	const cJSON *q;
	cJSON_ArrayForEach (q, jget(answer, "queues"))
		warm |= has_warm(q);
	struct table *t = table_create(heads, warm ? 10 : 8);
	cJSON_ArrayForEach (q, jget(answer, "queues")) {
		if (quotas_only && !cJSON_IsNumber(jget(q, "quota_gpus")) && !has_warm(q))
			continue;
		table_cell(t, print_member(q, "name"));
		table_cell(t, print_member(q, "weight"));
		table_cell(t, print_member(q, "quota_gpus"));
		table_cell(t, cJSON_IsTrue(jget(q, "borrow")) ? "yes" : "-");
		table_cell(t, print_member(q, "gpus"));
		table_cell(t, print_member(q, "waiting"));
		table_cell(t, print_member(q, "waiting_gpus"));
		table_cellf(t, "%.1fh", print_number(q, "used_gpu_hours"));
		if (warm)
			add_warm(t, q);
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No quota is set. To set one: jobctl quota set QUEUE gpus=N");
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

static int exec_queue_ls(struct ctx *c)
{
	return list_queues(c, 0);
}

static int exec_quota_ls(struct ctx *c)
{
	return list_queues(c, 1);
}

/* Adds KEY=VALUE to body: a number, or yes and no. */
static int add_value(struct ctx *c, cJSON *body, const char *assignment, const char *const *known)
{
	const char *eq = strchr(assignment, '=');
	char *key = xstrndup(assignment, eq ? (size_t)(eq - assignment) : strlen(assignment));
	const char *value = eq ? eq + 1 : "", *near = str_nearest(key, known);
	double n = 0;
	uint64_t whole;
	int rc = 0, i = 0;
	while (known[i] && strcmp(known[i], key) != 0)
		i++;
	if (!eq || !known[i])
		rc = ctx_fail(c, ERR_INVALID, "'%s': expected %s=VALUE%s", assignment, near ? near : known[0],
		              known[1] ? "; the keys are gpus, borrow=yes|no, warm_gpus and warm_nodes" : "");
	else if (jget(body, key))
		rc = ctx_fail(c, ERR_INVALID, "the key '%s' appears twice", key);
	else if (strcmp(key, "borrow") == 0 && (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0))
		cJSON_AddBoolToObject(body, key, strcmp(value, "yes") == 0);
	else if (strcmp(key, "borrow") == 0)
		rc = ctx_fail(c, ERR_INVALID, "borrow '%s': expected yes or no", value);
	else if (strcmp(key, "weight") != 0 && str_parse_u64(value, &whole))
		rc = ctx_fail(c, ERR_INVALID, "%s '%s': expected a whole number", key, value);
	else
		rc = ctx_number(c, key, value, &n);
	if (!rc && !jget(body, key))
		cJSON_AddNumberToObject(body, key, n);
	free(key);
	return rc;
}

static void report_queue(const cJSON *q)
{
	printf("%s: weight %s", print_member(q, "name"), print_member(q, "weight"));
	if (cJSON_IsNumber(jget(q, "quota_gpus")))
		printf(", quota of %s GPU%s%s", print_member(q, "quota_gpus"),
		       print_number(q, "quota_gpus") == 1 ? "" : "s",
		       cJSON_IsTrue(jget(q, "borrow")) ? ", and more while nobody within quota waits for them" : "");
	if (cJSON_IsNumber(jget(q, "quota_warm_gpus")))
		printf(", at most %s idle warm GPUs", print_member(q, "quota_warm_gpus"));
	if (cJSON_IsNumber(jget(q, "quota_warm_nodes")))
		printf(", at most %s idle warm nodes", print_member(q, "quota_warm_nodes"));
	puts("");
}

static int change_queue(struct ctx *c, const char *path, const char *const *known)
{
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	int rc = 0;
	cJSON_AddStringToObject(body, "name", c->args.operand[0]);
	for (size_t i = 1; !rc && i < c->args.n; i++)
		rc = add_value(c, body, c->args.operand[i], known);
	if (!rc)
		rc = ctx_call(c, "POST", path, body, &answer);
	if (!rc)
		report_queue(answer);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	return rc < 0 ? -1 : 0;
}

static int exec_queue_set(struct ctx *c)
{
	static const char *const known[] = {"weight", NULL};
	return change_queue(c, "/queues", known);
}

static int exec_quota_set(struct ctx *c)
{
	static const char *const known[] = {"gpus", "borrow", "warm_gpus", "warm_nodes", NULL};
	return change_queue(c, "/quotas", known);
}

/* Removes a queue or a quota. Slashes in the path are escaped, because ".." must not lead to another address.
 */
static int remove_queue(struct ctx *c, const char *where, const char *done)
{
	char *esc = client_escape(c->args.operand[0]), *path = xasprintf("%s/%s", where, esc);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "DELETE", path, NULL, &answer);
	if (!rc)
		printf("%s %s\n", c->args.operand[0], done);
	cJSON_Delete(answer);
	free(esc);
	free(path);
	return rc < 0 ? -1 : 0;
}

static int exec_queue_rm(struct ctx *c)
{
	return remove_queue(c, "/queues", "is removed");
}

static int exec_quota_rm(struct ctx *c)
{
	return remove_queue(c, "/quotas", "no longer has a quota");
}

const struct verb verbs_queue[] = {
    {"queue ls", "", "List queues and users: weight, quota, GPUs held, wanted and used", NULL, 0, 0,
     exec_queue_ls},
    {"queue set", "QUEUE[/@USER] [weight=N]", "Create a queue, or change its weight or that of a user in it",
     NULL, 1, 2, exec_queue_set},
    {"queue rm", "QUEUE[/@USER]", "Remove a queue without jobs", NULL, 1, 1, exec_queue_rm},
    {"quota ls", "", "List quotas and how much of them is in use", NULL, 0, 0, exec_quota_ls},
    {"quota set", "QUEUE[/@USER] [gpus=N] [borrow=yes|no] [warm_gpus=N] [warm_nodes=N]",
     "Bound the GPUs that a queue or a user in it holds at once, or keeps idle in warm pools", NULL, 2, 5,
     exec_quota_set},
    {"quota rm", "QUEUE[/@USER]", "Remove a quota", NULL, 1, 1, exec_quota_rm},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
