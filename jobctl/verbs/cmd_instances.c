/*
 * cmd_instances: the catalogue of instance types: facts and price of each, and which types are substitutes
 * for others.
 */
#include "jobctl/verbs/verbs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "jobctl/show/print.h"

static const char *with_unit(const cJSON *t, const char *key, const char *suffix, char out[32])
{
	const cJSON *v = jget(t, key);
	if (!cJSON_IsNumber(v))
		return "-";
	snprintf(out, 32, "%g%s", v->valuedouble, suffix);
	return out;
}

static const char *yes_or_no(const cJSON *t, const char *key)
{
	const cJSON *v = jget(t, key);
	return cJSON_IsTrue(v) ? "yes" : cJSON_IsFalse(v) ? "no" : "-";
}

static void add_row(struct table *t, const cJSON *type)
{
	char a[32], b[32], d[32], p[32];
	char *as = json_join(jget(type, "as"), ",");
	table_cell(t, print_member(type, "name"));
	table_cell(t, print_member(type, "nodes"));
	table_cell(t, print_member(type, "gpus"));
	table_cell(t, print_member(type, "gpu_model"));
	table_cell(t, with_unit(type, "gpu_memory_gb", "GB", a));
	table_cell(t, print_member(type, "vcpus"));
	table_cell(t, with_unit(type, "memory_gib", "GiB", b));
	table_cell(t, with_unit(type, "network_gbps", "G", d));
	table_cell(t, yes_or_no(type, "nvlink"));
	if (cJSON_IsNumber(jget(type, "price_per_hour")))
		table_cellf(t, "%.2f", print_number(type, "price_per_hour"));
	else
		table_cell(t, "-");
	table_cell(t, with_unit(type, "power_w", "W", p));
	table_cell(t, *as ? as : "-");
	free(as);
}

static void print_type(const cJSON *t)
{
	static const char *const rows[][2] = {{"name", "name"},
	                                      {"family", "family"},
	                                      {"size", "size"},
	                                      {"gpus", "GPUs"},
	                                      {"gpu_model", "GPU"},
	                                      {"gpu_memory_gb", "GPU memory, GB"},
	                                      {"vcpus", "vCPUs"},
	                                      {"memory_gib", "memory, GiB"},
	                                      {"network_gbps", "network, Gb/s"},
	                                      {"price_per_hour", "USD per hour"},
	                                      {"power_w", "power, W"},
	                                      {"nodes", "nodes"}};
	char *formats = json_join(jget(t, "formats"), ","), *as = json_join(jget(t, "as"), ",");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		print_line(rows[i][1], print_member(t, rows[i][0]));
	print_line("NVLink", yes_or_no(t, "nvlink"));
	print_line("formats", formats);
	print_line("substitutes", as);
	print_line("facts", cJSON_IsTrue(jget(t, "set"))
	                        ? cJSON_IsTrue(jget(t, "shipped")) ? "shipped, some set here" : "set here"
	                    : cJSON_IsTrue(jget(t, "shipped")) ? "shipped"
	                                                       : "none: only its nodes name it");
	free(formats);
	free(as);
}

static int show_type(struct ctx *c, const char *name)
{
	char *esc = client_escape(name), *path = xasprintf("/instances/%s", esc);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "GET", path, NULL, &answer);
	if (!rc)
		print_type(answer);
	cJSON_Delete(answer);
	free(esc);
	free(path);
	return rc < 0 ? -1 : 0;
}

static int exec_instances(struct ctx *c)
{
	static const char *const heads[] = {"TYPE",    ">NODES", ">GPUS",  "GPU",    ">GPU-MEM", ">VCPUS",
	                                    ">MEMORY", ">NET",   "NVLINK", ">USD/H", ">POWER",   "STANDS-IN-FOR"};
	cJSON *answer = NULL;
	int rc, hidden = 0, all = args_has(&c->args, "all");
	if (c->args.n)
		return show_type(c, c->args.operand[0]);
	rc = ctx_call(c, "GET", "/instances", NULL, &answer);
	if (rc)
		return rc < 0 ? -1 : 0;
	struct table *t = table_create(heads, sizeof(heads) / sizeof(heads[0]));
	const cJSON *type;
	cJSON_ArrayForEach (type, jget(answer, "instances")) {
		if (all || print_number(type, "nodes") > 0 || cJSON_IsTrue(jget(type, "set")))
			add_row(t, type);
		else
			hidden++;
	}
	if (table_rows(t))
		table_print(t);
	else
		puts("No node names an instance type, and no type has settings. To set facts of a type: jobctl "
		     "instances set NAME price_per_hour=N");
	if (hidden)
		fprintf(stderr, "%d more types are known: jobctl instances --all\n", hidden);
	table_destroy(t);
	cJSON_Delete(answer);
	return 0;
}

/* "a,b" -> ["a", "b"] */
static cJSON *split_list(const char *text)
{
	cJSON *list = cJSON_CreateArray();
	while (*text) {
		size_t n = strcspn(text, ",");
		char *word = xstrndup(text, n);
		cJSON_AddItemToArray(list, cJSON_CreateString(word));
		free(word);
		text += n + (text[n] == ',');
	}
	return list;
}

/* Converts the value for its key; hearthd checks it. */
static cJSON *value_of(const char *key, const char *text)
{
	char *end;
	double v = strtod(text, &end);
	if (!*text)
		return cJSON_CreateNull();
	if (strcmp(key, "as") == 0 || strcmp(key, "formats") == 0)
		return split_list(text);
	if (strcmp(key, "nvlink") == 0 && (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0))
		return cJSON_CreateBool(strcmp(text, "yes") == 0);
	if (strcmp(key, "gpu_model") != 0 && !*end && isfinite(v))
		return cJSON_CreateNumber(v);
	return cJSON_CreateString(text);
}

static int exec_set(struct ctx *c)
{
	cJSON *body = cJSON_CreateObject(), *answer = NULL;
	int rc = 0;
	cJSON_AddStringToObject(body, "name", c->args.operand[0]);
	for (size_t i = 1; !rc && i < c->args.n; i++) {
		const char *word = c->args.operand[i], *eq = strchr(word, '=');
		char *key = eq ? xstrndup(word, (size_t)(eq - word)) : xstrdup(word);
		if (!eq || !*key)
			rc = ctx_fail(
			    c, ERR_INVALID,
			    "'%s': expected KEY=VALUE, such as price_per_hour=12.5, or KEY= to remove a setting", word);
		else if (jget(body, key))
			rc = ctx_fail(c, ERR_INVALID, "the key '%s' appears twice", key);
		else
			cJSON_AddItemToObject(body, key, value_of(key, eq + 1));
		free(key);
	}
	if (!rc)
		rc = ctx_call(c, "POST", "/instances", body, &answer);
	if (!rc)
		print_type(answer);
	cJSON_Delete(answer);
	cJSON_Delete(body);
	return rc < 0 ? -1 : 0;
}

static int exec_rm(struct ctx *c)
{
	char *esc = client_escape(c->args.operand[0]), *path = xasprintf("/instances/%s", esc);
	cJSON *answer = NULL;
	int rc = ctx_call(c, "DELETE", path, NULL, &answer);
	if (!rc)
		printf("the settings of %s are removed\n", c->args.operand[0]);
	cJSON_Delete(answer);
	free(esc);
	free(path);
	return rc < 0 ? -1 : 0;
}

static const struct arg_opt list_opts[] = {{"all", 'a', NULL, "Also list types without nodes and settings"},
                                           {NULL, 0, NULL, NULL}};
const struct verb verbs_instances[] = {
    {"instances", "[NAME]", "List instance types with their facts and prices", list_opts, 0, 1,
     exec_instances},
    {"instances set", "NAME KEY=VALUE...",
     "Set facts of an instance type: price_per_hour=, power_w=, as=, gpus=, ...", NULL, 2, 16, exec_set},
    {"instances rm", "NAME", "Remove all settings of an instance type", NULL, 1, 1, exec_rm},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
