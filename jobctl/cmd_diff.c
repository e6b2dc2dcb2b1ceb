/*
 * cmd_diff: what differs between two jobs: specification, tags, results and how they were run, leaf by leaf.
 */
#include "common/json.h"
#include "common/xalloc.h"
#include "jobctl/jobctl.h"
#include "jobctl/print.h"
#include <stdio.h>
#include <string.h>

#define CELL_MAX 60

/* Leaves of a tree by dotted path. */
static void flatten(const cJSON *v, const char *path, cJSON *out)
{
	if (cJSON_IsObject(v) && v->child) {
		const cJSON *m;
		cJSON_ArrayForEach (m, v) {
			char *sub = *path ? xasprintf("%s.%s", path, m->string) : xstrdup(m->string);
			flatten(m, sub, out);
			free(sub);
		}
		return;
	}
	char *text = cJSON_IsString(v) ? xstrdup(v->valuestring) : json_text(v);
	cJSON_AddStringToObject(out, path, text);
	free(text);
}

static cJSON *diff_side(struct ctx *c, const char *ref)
{
	uint64_t id;
	cJSON *job = NULL, *run = NULL, *flat = NULL;
	if (ref_resolve(c, ref, &id))
		return NULL;
	char *run_path = xasprintf("/jobs/%llu/run", (unsigned long long)id);
	job = ctx_job(c, id);
	if (job && !ctx_get(c, "GET", run_path, NULL, &run)) {
		static const char *const parts[] = {"name", "status", "exit_code", "reason", "spec", "tags", NULL};
		flat = cJSON_CreateObject();
		for (const char *const *p = parts; *p; p++) {
			if (jget(job, *p))
				flatten(jget(job, *p), *p, flat);
		}
		const cJSON *m;
		cJSON_ArrayForEach (m, jget(job, "metrics")) {
			char *sub = xasprintf("metrics.%s", m->string);
			cJSON_AddStringToObject(flat, sub, print_member(m, "last"));
			free(sub);
		}
		flatten(run, "run", flat);
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

static int exec_diff(struct ctx *c)
{
	cJSON *a = diff_side(c, c->args.operand[0]), *b = a ? diff_side(c, c->args.operand[1]) : NULL;
	if (!a || !b) {
		cJSON_Delete(a);
		return -1;
	}
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

const struct verb verbs_diff[] = {{"diff", "A B", "what differs between two jobs", NULL, 2, 2, exec_diff},
                                  {NULL, NULL, NULL, NULL, 0, 0, NULL}};
