/*
 * spec_json: struct job_spec -> normalized job.json. Every built key is there with its value, defaults
 * included, and what is derived (ranks per instance) is settled; parsing it again gives the same struct.
 * Sizes are strings of digits.
 */
#include "common/spec/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/spec/spec_int.h"
#include "common/spec/spec_rules.h"

static cJSON *list_of(const struct strv *v)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < v->n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(v->v[i]));
	return list;
}

static cJSON *pairs_of(const struct spec_pair *v, size_t n)
{
	cJSON *obj = cJSON_CreateObject();

	for (size_t i = 0; i < n; i++)
		cJSON_AddStringToObject(obj, v[i].name, v[i].value);
	return obj;
}

static void add_size(cJSON *obj, const char *key, uint64_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, bytes);
	cJSON_AddStringToObject(obj, key, text);
}

static cJSON *hps_of(const struct job_spec *s)
{
	cJSON *obj = cJSON_CreateObject();

	for (size_t i = 0; i < s->n_hps; i++) {
		const struct spec_hp *hp = &s->hps[i];
		cJSON *v = NULL;

		switch (hp->type) {
		case SPEC_STR:
			v = cJSON_CreateString(hp->text);
			break;
		case SPEC_INT:
		case SPEC_REAL:
			v = cJSON_CreateNumber(hp->num);
			break;
		case SPEC_BOOL:
			v = cJSON_CreateBool(hp->num != 0);
			break;
		case SPEC_JSON:
			v = cJSON_Parse(hp->text); /* our own output: always parses */
			break;
		}
		cJSON_AddItemToObject(obj, hp->name, v ? v : cJSON_CreateNull());
	}
	return obj;
}

static void add_gang(cJSON *obj, const struct spec_group *g)
{
	cJSON_AddNumberToObject(obj, "instances", g->instances);
	cJSON_AddNumberToObject(obj, "gpus_per_instance", g->gpus_per_instance);
	cJSON_AddNumberToObject(obj, "ranks_per_instance", g->ranks_per_instance);
	cJSON_AddNumberToObject(obj, "cpus_per_rank", g->cpus_per_rank);
}

static cJSON *resources_of(const struct job_spec *s)
{
	cJSON *obj = cJSON_CreateObject(), *placement;

	if (!s->has_groups)
		add_gang(obj, &s->groups[0]);
	add_size(obj, "memory", s->memory_bytes);
	add_size(obj, "disk", s->disk_bytes);
	cJSON_AddBoolToObject(obj, "exclusive", s->exclusive);
	if (s->instance_types.n)
		cJSON_AddItemToObject(obj, "instance_type", list_of(&s->instance_types));
	else
		cJSON_AddStringToObject(obj, "instance_type", "any");
	cJSON_AddStringToObject(obj, "gpu_model", s->gpu_model ? s->gpu_model : "any");
	add_size(obj, "gpu_memory", s->gpu_memory_bytes);
	cJSON_AddItemToObject(obj, "requires", list_of(&s->requires));
	cJSON_AddStringToObject(obj, "gpu_visibility", s->gpu_visibility_one ? "one" : "all");
	placement = cJSON_AddObjectToObject(obj, "placement");
	json_add_str(placement, "span", s->span);
	cJSON_AddBoolToObject(placement, "hard", s->span_hard);
	return obj;
}

static cJSON *groups_of(const struct job_spec *s)
{
	cJSON *list;

	if (!s->has_groups)
		return cJSON_CreateNull();
	list = cJSON_CreateArray();
	for (size_t i = 0; i < s->n_groups; i++) {
		cJSON *obj = cJSON_CreateObject();

		cJSON_AddStringToObject(obj, "name", s->groups[i].name);
		add_gang(obj, &s->groups[i]);
		cJSON_AddItemToObject(obj, "command", list_of(&s->groups[i].command));
		cJSON_AddItemToArray(list, obj);
	}
	return list;
}

static cJSON *inputs_of(const struct job_spec *s)
{
	cJSON *obj = cJSON_CreateObject();

	for (size_t i = 0; i < s->n_inputs; i++) {
		cJSON *in = cJSON_AddObjectToObject(obj, s->inputs[i].name);

		cJSON_AddStringToObject(in, "uri", s->inputs[i].uri);
		cJSON_AddStringToObject(in, "mode", s->inputs[i].link ? "link" : "copy");
		json_add_str(in, "sha256", s->inputs[i].sha256);
		cJSON_AddBoolToObject(in, "unpack", s->inputs[i].unpack);
	}
	return obj;
}

static cJSON *metrics_of(const struct job_spec *s)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < s->n_metrics; i++) {
		cJSON *m = cJSON_CreateObject();

		cJSON_AddStringToObject(m, "name", s->metrics[i].name);
		cJSON_AddStringToObject(m, "regex", s->metrics[i].regex);
		cJSON_AddItemToArray(list, m);
	}
	return list;
}

static cJSON *after_of(const struct job_spec *s)
{
	cJSON *list = cJSON_CreateArray();
	char text[64];

	for (size_t i = 0; i < s->n_after; i++) {
		snprintf(text, sizeof(text), "%s:%" PRIu64, spec_after_name(s->after[i].kind), s->after[i].job);
		cJSON_AddItemToArray(list, cJSON_CreateString(text));
	}
	return list;
}

static void add_resume(cJSON *obj, const struct job_spec *s)
{
	char text[8192];

	if (s->resume_job && s->resume_step >= 0) {
		snprintf(text, sizeof(text), "%s@%" PRId64, s->resume_job, s->resume_step);
		cJSON_AddStringToObject(obj, "resume_from", text);
	} else {
		json_add_str(obj, "resume_from", s->resume_job);
	}
}

static cJSON *checkpoint_of(const struct job_spec *s)
{
	cJSON *o = cJSON_CreateObject();

	json_add_str(o, "uri", s->checkpoint_uri);
	json_add_u64(o, "keep_last", s->keep_last);
	return o;
}

static cJSON *retry_of(const struct spec_retry *r)
{
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "max_attempts", r->max_attempts);
	json_add_u64(o, "capacity", r->capacity);
	json_add_u64(o, "wait_s", r->wait_s);
	json_add_u64(o, "no_progress", r->no_progress);
	return o;
}

cJSON *spec_to_json(const struct job_spec *s)
{
	cJSON *obj = cJSON_CreateObject(), *limits, *pool;

	cJSON_AddStringToObject(obj, "name", s->name);
	cJSON_AddStringToObject(obj, "experiment", s->experiment);
	cJSON_AddStringToObject(obj, "notes", s->notes);
	cJSON_AddItemToObject(obj, "tags", pairs_of(s->tags, s->n_tags));
	cJSON_AddItemToObject(obj, "command", list_of(&s->command));
	json_add_str(obj, "source_dir", s->source_dir);
	json_add_str(obj, "requirements", s->requirements);
	cJSON_AddItemToObject(obj, "hyperparameters", hps_of(s));
	cJSON_AddItemToObject(obj, "environment", pairs_of(s->env, s->n_env));
	cJSON_AddItemToObject(obj, "resources", resources_of(s));
	cJSON_AddStringToObject(obj, "launcher", launcher_name(s->launcher));
	cJSON_AddItemToObject(obj, "mpi_options", list_of(&s->mpi_options));
	cJSON_AddItemToObject(obj, "groups", groups_of(s));
	cJSON_AddItemToObject(obj, "inputs", inputs_of(s));
	json_add_str(obj, "output_uri", s->output_uri);
	cJSON_AddItemToObject(obj, "checkpoint", checkpoint_of(s));
	add_resume(obj, s);
	cJSON_AddItemToObject(obj, "metrics", metrics_of(s));
	limits = cJSON_AddObjectToObject(obj, "limits");
	cJSON_AddNumberToObject(limits, "max_runtime_s", (double)s->max_runtime_s);
	cJSON_AddNumberToObject(limits, "grace_s", (double)s->grace_s);
	cJSON_AddNumberToObject(limits, "max_wait_s", (double)s->max_wait_s);
	if (s->max_cost_usd > 0)
		cJSON_AddNumberToObject(limits, "max_cost_usd", s->max_cost_usd);
	else
		cJSON_AddNullToObject(limits, "max_cost_usd");
	pool = cJSON_AddObjectToObject(obj, "warm_pool");
	json_add_u64(pool, "keep_alive_s", (uint64_t)s->keep_alive_s);
	json_add_str(pool, "pool", s->pool);
	cJSON_AddItemToObject(pool, "preload", list_of(&s->preload));
	cJSON_AddBoolToObject(pool, "cuda_context", s->cuda_context);
	cJSON_AddItemToObject(obj, "watch", spec_watch_json(&s->watch));
	cJSON_AddItemToObject(obj, "rules", spec_rules_json(s));
	cJSON_AddItemToObject(obj, "retry", retry_of(&s->retry));
	cJSON_AddNumberToObject(obj, "priority", (double)s->priority);
	cJSON_AddStringToObject(obj, "queue", s->queue);
	cJSON_AddBoolToObject(obj, "preemptible", s->preemptible);
	cJSON_AddItemToObject(obj, "after", after_of(s));
	spec_sweep_json(obj, s);
	return obj;
}
