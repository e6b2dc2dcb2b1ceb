/*
 * cmd_diff: differences between two jobs, leaf by leaf: specification, tags, results and how they were run.
 */
#include "jobctl/verbs/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/xalloc.h"
#include "jobctl/client/ref.h"
#include "jobctl/show/print.h"

#define CELL_MAX 60

/* Lists the leaves of a tree by dotted path. Empty values count as absent. */
static void flatten_tree(const cJSON *v, const char *path, cJSON *out)
{
	if (cJSON_IsNull(v) || ((cJSON_IsObject(v) || cJSON_IsArray(v)) && !v->child))
		return;
	if (cJSON_IsObject(v)) {
		const cJSON *m;
		cJSON_ArrayForEach (m, v) {
			char *sub = *path ? xasprintf("%s.%s", path, m->string) : xstrdup(m->string);
			flatten_tree(m, sub, out);
			free(sub);
		}
		return;
	}
	char *text = cJSON_IsString(v) ? xstrdup(v->valuestring) : json_text(v);
	cJSON_AddStringToObject(out, path, text);
	free(text);
}

/* Adds each line "name=version" as a leaf; the first of several nodes counts. */
static void flatten_lines(const char *text, const char *path, cJSON *out)
{
	char *copy = xstrdup(text), *save = NULL;
	for (char *l = strtok_r(copy, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char *eq = strchr(l, '=');
		if (!eq || eq == l)
			continue;
		*eq = 0;
		char *key = xasprintf("%s.%s", path, l);
		if (!jget(out, key))
			cJSON_AddStringToObject(out, key, eq + 1 + (eq[1] == '='));
		free(key);
	}
	free(copy);
}

/* Adds what the nodes reported about a run: facts of {attempt, node, kind, text}. Times do not count. */
static void flatten_run(const cJSON *run, cJSON *out)
{
	const cJSON *e;
	cJSON_ArrayForEach (e, jget(run, "facts")) {
		const char *kind = jtext(e, "kind"), *text = jtext(e, "text");
		if (!kind || !text || strcmp(kind, "phases") == 0)
			continue;
		char *key = xasprintf("run.%s", kind);
		if (strcmp(kind, "software") == 0 || strcmp(kind, "pip") == 0)
			flatten_lines(text, key, out);
		else if (!jget(out, key))
			cJSON_AddStringToObject(out, key, text);
		free(key);
	}
}

static cJSON *diff_side(struct ctx *c, const char *ref)
{
	uint64_t id;
	cJSON *job = NULL, *run = NULL, *flat = NULL;
	if (ref_resolve(c, ref, &id))
		return NULL;
	char *run_path = xasprintf("/jobs/%" PRIu64 "/run", id);
	job = ctx_job(c, id);
	if (job && !ctx_get(c, "GET", run_path, NULL, &run)) {
		static const char *const parts[] = {"name", "owner", "status", "exit_code", "reason",
		                                    "spec", "tags",  "bundle", "run",       NULL};
		flat = cJSON_CreateObject();
		for (const char *const *p = parts; *p; p++) {
			if (jget(job, *p))
				flatten_tree(jget(job, *p), *p, flat);
		}
		const cJSON *m;
		cJSON_ArrayForEach (m, jget(job, "metrics")) {
			char *sub = xasprintf("metrics.%s", m->string);
			cJSON_AddStringToObject(flat, sub, print_member(m, "last"));
			free(sub);
		}
		flatten_run(run, flat);
	}
	cJSON_Delete(job);
	cJSON_Delete(run);
	free(run_path);
	return flat;
}

static void diff_row(struct table *t, cJSON *json, const char *key, const char *a, const char *b)
{
	table_cell(t, key);
	table_cell_cut(t, a, CELL_MAX);
	table_cell_cut(t, b, CELL_MAX);
	cJSON *pair = cJSON_AddArrayToObject(json, key);
	cJSON_AddItemToArray(pair, a ? cJSON_CreateString(a) : cJSON_CreateNull());
	cJSON_AddItemToArray(pair, b ? cJSON_CreateString(b) : cJSON_CreateNull());
}

/* Drops the packages of one side if the other side has no list of packages. */
static void drop_lone_packages(cJSON *a, const cJSON *b)
{
	static const char prefix[] = "run.pip.";
	const cJSON *v;
	cJSON_ArrayForEach (v, b) {
		if (strncmp(v->string, prefix, sizeof(prefix) - 1) == 0)
			return;
	}
	for (cJSON *item = a->child, *next; item; item = next) {
		next = item->next;
		if (strncmp(item->string, prefix, sizeof(prefix) - 1) == 0)
			cJSON_Delete(cJSON_DetachItemViaPointer(a, item));
	}
}

static int exec_diff(struct ctx *c)
{
	cJSON *a = diff_side(c, c->args.operand[0]), *b = a ? diff_side(c, c->args.operand[1]) : NULL;
	if (!a || !b) {
		cJSON_Delete(a);
		return -1;
	}
	drop_lone_packages(a, b);
	drop_lone_packages(b, a);
	const char *heads[] = {"", c->args.operand[0], c->args.operand[1]};
	struct table *t = table_create(heads, 3);
	cJSON *json = cJSON_CreateObject();
	const cJSON *v;
	cJSON_ArrayForEach (v, a) {
		const char *other = jtext(b, v->string);
		if (!other || strcmp(other, v->valuestring) != 0)
			diff_row(t, json, v->string, v->valuestring, other);
	}
	cJSON_ArrayForEach (v, b) {
		if (!jget(a, v->string))
			diff_row(t, json, v->string, NULL, v->valuestring);
	}
	if (!ctx_show_json(c, json)) {
		if (table_rows(t))
			table_print(t);
		else
			puts("No difference.");
	}
	table_destroy(t);
	cJSON_Delete(json);
	cJSON_Delete(a);
	cJSON_Delete(b);
	return 0;
}

const struct verb verbs_diff[] = {
    {"diff", "A B", "Show the differences between two jobs", NULL, 2, 2, exec_diff},
    {NULL, NULL, NULL, NULL, 0, 0, NULL}};
