/*
 * launch_facts: see launch_facts.h.
 */
#include "controller/state/launch_facts.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/secret.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "common/spec/preload.h"
#include "controller/record/rec.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

#define INTERPRETER "interpreter" /* the member that is compared apart */
#define SHOWN_MAX   120           /* bytes of a value that a job does not share */
#define UNUSABLE    "interpreter not usable: "
#define NO_MODULE   "No module named '"

struct launch_at { /* a place, in the order of node ranks */
	uint64_t node;
	uint32_t group;
	const uint32_t *gpus, *cpus;
	uint32_t n_gpus, n_cpus;
};

/* ---- the record -------------------------------------------------------------------------------------- */

/* "0-3,8": ids in ascending order. */
static cJSON *ids_text(const uint32_t *v, uint32_t n)
{
	char *out = xstrdup("");
	cJSON *o;

	for (uint32_t i = 0, last; i < n; i = last + 1) {
		char *more;

		for (last = i; last + 1 < n && v[last + 1] == v[last] + 1;)
			last++;
		more = last > i ? xasprintf("%s%s%u-%u", out, i ? "," : "", v[i], v[last])
		                : xasprintf("%s%s%u", out, i ? "," : "", v[i]);
		free(out);
		out = more;
	}
	o = cJSON_CreateString(out);
	free(out);
	return o;
}

/* A value as all users may see it. Two different ones stay different. */
static void add_shown(cJSON *o, const char *name, const char *value)
{
	cleanup_free char *shown = secret_value(name, value);
	char digest[HASH_HEX_SIZE];
	char *both;

	if (strcmp(shown, value) == 0) {
		json_add_str(o, name, value);
		return;
	}
	hash_hex(value, strlen(value), digest);
	both = xasprintf("%s (%.8s)", shown, digest);
	json_add_str(o, name, both);
	free(both);
}

/* 1: mpirun and its daemons read it when they start. Ranks get all other variables later. */
static int is_read_early(const char *name)
{
	return strncmp(name, "OMPI_", 5) == 0 || strncmp(name, "PMIX_", 5) == 0 ||
	       strncmp(name, "PRTE_", 5) == 0 || strncmp(name, "OPAL_", 5) == 0 ||
	       strcmp(name, "LD_LIBRARY_PATH") == 0;
}

/* One entry stands for all where all are equal, as they nearly always are. */
static void fold_equal(cJSON *list)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, list)
		if (strcmp(v->valuestring, list->child->valuestring) != 0)
			return;
	while (list->child && list->child->next)
		cJSON_Delete(cJSON_DetachItemViaPointer(list, list->child->next));
}

static void add_places(const struct core *c, cJSON *o, const struct job_spec *s, const struct launch_at *at,
                       uint32_t n)
{
	cJSON *nodes = cJSON_AddArrayToObject(o, "nodes"), *ranks = cJSON_AddArrayToObject(o, "ranks_per_node"),
	      *groups = cJSON_AddArrayToObject(o, "groups"), *gpus = cJSON_AddArrayToObject(o, "gpus"),
	      *cpus = cJSON_AddArrayToObject(o, "cpus"), *addresses = cJSON_AddArrayToObject(o, "addresses"),
	      *versions = cJSON_AddArrayToObject(o, "versions");

	for (uint32_t i = 0; i < n; i++) {
		const struct cnode *x = node_by_id(c, at[i].node);
		const struct spec_group *g = &s->groups[at[i].group];
		char version[sizeof(x->software) + sizeof(x->inv.software) + 2];

		if (!x)
			continue;
		snprintf(version, sizeof(version), "%s %s", x->software, x->inv.software);
		cJSON_AddItemToArray(nodes, cJSON_CreateString(x->name));
		cJSON_AddItemToArray(ranks, cJSON_CreateNumber(g->ranks_per_instance));
		cJSON_AddItemToArray(groups, cJSON_CreateString(g->name));
		cJSON_AddItemToArray(gpus, ids_text(at[i].gpus, at[i].n_gpus));
		cJSON_AddItemToArray(cpus, ids_text(at[i].cpus, at[i].n_cpus));
		cJSON_AddItemToArray(addresses, cJSON_CreateString(x->inv.address ? x->inv.address : ""));
		cJSON_AddItemToArray(versions, cJSON_CreateString(version));
	}
	fold_equal(versions);
}

/* What an interpreter that waits has: modules, its command without the program, and the variables that
 * imports may read. NULL: none waits. */
static cJSON *interpreter_facts(const struct job_spec *s)
{
	cJSON *o, *list;

	if (!s->preload.n)
		return NULL;
	o = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(o, "preload");
	for (size_t i = 0; i < s->preload.n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(s->preload.v[i]));
	cJSON_AddBoolToObject(o, "cuda_context", s->cuda_context);
	list = cJSON_AddArrayToObject(o, "command");
	for (size_t i = 0; i < s->n_groups; i++) {
		const struct strv *argv = s->groups[i].command.n ? &s->groups[i].command : &s->command;
		cJSON *words = cJSON_CreateArray();
		struct preload_command c;
		struct err e;

		cJSON_AddItemToArray(list, words);
		for (size_t k = 0; preload_split(argv, &c, &e) == 0 && k <= c.options; k++)
			cJSON_AddItemToArray(words, cJSON_CreateString(argv->v[k]));
	}
	list = cJSON_AddObjectToObject(o, "environment");
	for (size_t i = 0; i < s->n_env; i++)
		if (!preload_late_safe(s->env[i].name))
			add_shown(list, s->env[i].name, s->env[i].value);
	return o;
}

static cJSON *make_facts(const struct core *c, const struct job_spec *s, const char *account,
                         const struct launch_at *at, uint32_t n)
{
	cJSON *o = cJSON_CreateObject(), *list;

	json_add_str(o, "launcher", launcher_name(s->launcher));
	if (s->launcher == LAUNCHER_TORCHRUN) /* it never waits */
		return o;
	json_add_str(o, "account", account);
	add_places(c, o, s, at, n);
	json_add_u64(o, "memory", s->memory_bytes);
	json_add_u64(o, "disk", s->disk_bytes);
	json_add_str(o, "gpu_visibility", s->gpu_visibility_one ? "one" : "all");
	list = cJSON_AddObjectToObject(o, "inputs");
	for (size_t i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].link)
			add_shown(list, s->inputs[i].name, s->inputs[i].uri);
	list = cJSON_AddArrayToObject(o, "mpi_options");
	for (size_t i = 0; i < s->mpi_options.n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(s->mpi_options.v[i]));
	list = cJSON_AddObjectToObject(o, "environment");
	for (size_t i = 0; i < s->n_env; i++)
		if (is_read_early(s->env[i].name))
			add_shown(list, s->env[i].name, s->env[i].value);
	list = interpreter_facts(s);
	if (list)
		cJSON_AddItemToObject(o, INTERPRETER, list);
	return o;
}

cJSON *launch_facts_of_attempt(const struct core *c, const struct cjob *j)
{
	const struct attempt_rec *a = j->r.att;
	struct launch_at *at = xcalloc(a->n_places, sizeof(*at));
	cJSON *o;

	for (uint32_t i = 0; i < a->n_places; i++)
		at[i] = (struct launch_at){.node = a->places[i].node_id,
		                           .group = a->places[i].group,
		                           .gpus = a->places[i].gpus.v,
		                           .n_gpus = a->places[i].gpus.n,
		                           .cpus = a->places[i].cpus.v,
		                           .n_cpus = a->places[i].cpus.n};
	o = make_facts(c, j->act->spec, rec_account(&j->r), at, a->n_places);
	free(at);
	return o;
}

cJSON *launch_facts_of_places(const struct core *c, const struct job_spec *s, const char *account,
                              const struct sched_place *places, uint32_t n)
{
	struct launch_at *at = xcalloc(n, sizeof(*at));
	cJSON *o;

	for (uint32_t i = 0; i < n; i++)
		at[i] = (struct launch_at){.node = places[i].node,
		                           .group = places[i].group,
		                           .gpus = places[i].gpus,
		                           .n_gpus = places[i].n_gpus,
		                           .cpus = places[i].cpus,
		                           .n_cpus = places[i].n_cpus};
	o = make_facts(c, s, account, at, n);
	free(at);
	return o;
}

/* ---- what misses ------------------------------------------------------------------------------------- */

/* A value as text, cut; NULL for NULL. Malloc'ed. */
static char *shown(const cJSON *v)
{
	char *all = !v ? NULL : cJSON_IsString(v) ? xstrdup(v->valuestring) : json_text(v), *cut;

	if (!all || strlen(all) <= SHOWN_MAX)
		return all;
	cut = xasprintf("%.*s...", SHOWN_MAX, all);
	free(all);
	return cut;
}

cJSON *launch_missed(const char *field, const cJSON *had, const cJSON *wants)
{
	cleanup_free char *mine = shown(had), *other = shown(wants);
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, "level", "launch");
	json_add_str(o, "field", field);
	json_add_str(o, "had", mine);
	json_add_str(o, "wants", other);
	return o;
}

static cJSON *missed_in(const char *prefix, const cJSON *had, const cJSON *wants);

static cJSON *compare_one(const char *prefix, const char *key, const cJSON *had, const cJSON *wants)
{
	cJSON *missed;
	char *field;

	if (cJSON_Compare(had, wants, 1))
		return NULL;
	if (cJSON_IsObject(had) && cJSON_IsObject(wants))
		return missed_in(key, had, wants);
	field = prefix ? xasprintf("%s.%s", prefix, key) : xstrdup(key);
	missed = launch_missed(field, had, wants);
	free(field);
	return missed;
}

/* The first member that differs, in the order of what the job wants. */
static cJSON *missed_in(const char *prefix, const cJSON *had, const cJSON *wants)
{
	const cJSON *v;
	cJSON *missed = NULL;

	cJSON_ArrayForEach (v, wants) {
		missed = compare_one(prefix, v->string, cJSON_GetObjectItemCaseSensitive(had, v->string), v);
		if (missed)
			return missed;
	}
	cJSON_ArrayForEach (v, had)
		if (!cJSON_GetObjectItemCaseSensitive(wants, v->string))
			return compare_one(prefix, v->string, v, NULL);
	return NULL;
}

cJSON *launch_facts_missed(const char *had, const cJSON *wants)
{
	cJSON *has = had ? cJSON_Parse(had) : cJSON_CreateObject(), *missed = NULL;
	cJSON *asked = cJSON_Duplicate(wants, 1);
	const cJSON *launcher = cJSON_GetObjectItemCaseSensitive(has, "launcher");

	cJSON_DeleteItemFromObjectCaseSensitive(has, INTERPRETER);
	cJSON_DeleteItemFromObjectCaseSensitive(asked, INTERPRETER);
	/* Nothing is made ready for these. */
	if (strcmp(json_str_or(has, "launcher", ""), launcher_name(LAUNCHER_TORCHRUN)) == 0) {
		missed = launch_missed("launcher", launcher, cJSON_GetObjectItemCaseSensitive(asked, "launcher"));
		if (strcmp(json_str_or(missed, "had", ""), json_str_or(missed, "wants", "")) == 0)
			json_add_str(missed, "text", "not parked under torchrun");
	} else
		missed = missed_in(NULL, has, asked);
	cJSON_Delete(has);
	cJSON_Delete(asked);
	return missed;
}

/* 1: an interpreter can wait for one of its groups at least. */
static int has_python(const cJSON *interpreter)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(interpreter, "command"))
		if (cJSON_GetArraySize(v))
			return 1;
	return 0;
}

const char *launch_level(const cJSON *had, const char *unusable)
{
	return !unusable && has_python(cJSON_GetObjectItemCaseSensitive(had, INTERPRETER)) ? INTERPRETER
	                                                                                   : "launch";
}

char *launch_unusable_text(const char *unusable)
{
	size_t n = strlen(UNUSABLE);
	const char *why = strncmp(unusable, UNUSABLE, n) == 0 ? unusable + n : unusable,
	           *module = strstr(why, NO_MODULE);

	if (!module)
		return xasprintf("preload failed: %.*s", SHOWN_MAX, why);
	module += strlen(NO_MODULE);
	return xasprintf("preload failed: no module named %.*s (modules of the source cannot be preloaded)",
	                 (int)strcspn(module, "'"), module);
}

int launch_has_interpreter(const char *had, const char *unusable, const cJSON *wants, cJSON **missed)
{
	cJSON *has = had ? cJSON_Parse(had) : NULL, *why = NULL;
	const cJSON *mine = cJSON_GetObjectItemCaseSensitive(has, INTERPRETER),
	            *other = cJSON_GetObjectItemCaseSensitive(wants, INTERPRETER);
	int fits;

	*missed = NULL;
	if (mine && other)
		*missed = missed_in(NULL, mine, other);
	else if (mine || other)
		*missed = launch_missed("preload", cJSON_GetObjectItemCaseSensitive(mine, "preload"),
		                        cJSON_GetObjectItemCaseSensitive(other, "preload"));
	if (mine && other && !*missed && unusable) {
		cleanup_free char *text = launch_unusable_text(unusable);

		why = cJSON_CreateString(unusable);
		*missed = launch_missed("preload", why, cJSON_GetObjectItemCaseSensitive(other, "preload"));
		json_add_str(*missed, "text", text);
	}
	if (*missed)
		cJSON_ReplaceItemInObjectCaseSensitive(*missed, "level", cJSON_CreateString("interpreter"));
	fits = !*missed && has_python(mine);
	cJSON_Delete(why);
	cJSON_Delete(has);
	return fits;
}
