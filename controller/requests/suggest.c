/*
 * suggest: the cheapest change with which a job would fit, as data and in words: the key of the specification
 * and its value. The library finds it (scheduler/explain/change.c), and docs/spec/05b-answers.md defines
 * cheap. A waiting job gets a change with which it fits now, a rejected job one with which it is possible at
 * all. The answer also names the drained nodes with which the job would fit unchanged.
 */
#include "controller/requests/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/text.h"
#include "common/base/xalloc.h"
#include "controller/record/cluster.h"
#include "controller/share/alloc.h"
#include "controller/share/queues.h"
#include "controller/state/core_state.h"
#include "controller/state/jobs.h"
#include "controller/state/node_table.h"

#define QUEUES_TRIED 64
#define RESUME_MAX   64 /* nodes in an answer */
#define RESUME_NAMED 4  /* nodes in the sentence */

static const char *keys[] = {[SCHED_CHANGE_NONE] = "",
                             [SCHED_CHANGE_QUEUE] = "queue",
                             [SCHED_CHANGE_TIME] = "max_runtime_s",
                             [SCHED_CHANGE_TYPE] = "instance_type",
                             [SCHED_CHANGE_MODEL] = "gpu_model",
                             [SCHED_CHANGE_LABEL] = "requires",
                             [SCHED_CHANGE_GPU_MEMORY] = "gpu_memory",
                             [SCHED_CHANGE_DISK] = "disk",
                             [SCHED_CHANGE_SPAN] = "placement.hard",
                             [SCHED_CHANGE_SHARE] = "exclusive",
                             [SCHED_CHANGE_MEMORY] = "memory",
                             [SCHED_CHANGE_CPUS] = "cpus_per_rank",
                             [SCHED_CHANGE_GPUS] = "gpus_per_instance",
                             [SCHED_CHANGE_INSTANCES] = "instances"};

/* Returns the part of the specification that has the key; counts are in each group. */
static const char *key_prefix(const struct job_spec *s, enum sched_change_kind k)
{
	if (k == SCHED_CHANGE_QUEUE)
		return "";
	if (k == SCHED_CHANGE_TIME)
		return "limits.";
	return s->has_groups && k >= SCHED_CHANGE_CPUS ? "groups[]." : "resources.";
}

/* Returns the required labels with one label replaced or removed. */
static cJSON *labels_of(const struct job_spec *s, const struct sched_change *x)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < s->requires.n; i++) {
		const char *label = i == x->value ? x->name : s->requires.v[i];

		if (label)
			cJSON_AddItemToArray(list, cJSON_CreateString(label));
	}
	return list;
}

/* Returns the value in the form of the specification. A time limit excludes the grace time, in which a job
 * still holds its nodes, and is rounded down to minutes. */
static cJSON *value_of(const struct core *c, const struct job_spec *s, const struct sched_change *x)
{
	uint64_t grace = s->grace_s ? s->grace_s : c->cfg.default_grace_s;
	cJSON *v;
	char *text;

	switch (x->kind) {
	case SCHED_CHANGE_QUEUE:
	case SCHED_CHANGE_TYPE:
	case SCHED_CHANGE_MODEL:
		return cJSON_CreateString(x->name);
	case SCHED_CHANGE_LABEL:
		return labels_of(s, x);
	case SCHED_CHANGE_SPAN:
	case SCHED_CHANGE_SHARE:
		return cJSON_CreateFalse();
	case SCHED_CHANGE_TIME:
		return x->value >= grace + 60 ? cJSON_CreateNumber((double)((x->value - grace) / 60 * 60)) : NULL;
	case SCHED_CHANGE_GPU_MEMORY:
	case SCHED_CHANGE_MEMORY:
	case SCHED_CHANGE_DISK:
		if (x->value < 1 << 20)
			return NULL;
		text = x->value % (1 << 30) ? xasprintf("%" PRIu64 "MiB", x->value >> 20)
		                            : xasprintf("%" PRIu64 "GiB", x->value >> 30);
		v = cJSON_CreateString(text);
		free(text);
		return v;
	default:
		return cJSON_CreateNumber((double)x->value);
	}
}

int suggest(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner, int ever,
            cJSON *body, struct text *out)
{
	const char *queues[QUEUES_TRIED + 1];
	struct sched_change x;
	cJSON *value, *o;
	char *text, key[80];
	size_t k = 0;

	for (const struct cluster_rec *r = c->records.all[CLUSTER_QUEUE]; r && k < QUEUES_TRIED; r = r->hh.next)
		if (((const struct queue_rec *)r)->is_queue && !strchr(r->name, '@'))
			queues[k++] = r->name;
	queues[k] = NULL;
	if (!alloc_change(c, s, j, owner, queues, ever, &x))
		return 0;
	value = value_of(c, s, &x);
	if (!value)
		return 0;
	snprintf(key, sizeof(key), "%s%s", key_prefix(s, x.kind), keys[x.kind]);
	text = json_text(value);
	text_add(out, "; %s with %s=%s", ever ? "it would be possible" : "it would fit now", key, text);
	free(text);
	if (!body) {
		cJSON_Delete(value);
		return 1;
	}
	o = cJSON_AddObjectToObject(body, "change");
	json_add_str(o, "key", key);
	cJSON_AddItemToObject(o, "value", value);
	json_add_str(o, "text", out->at + 2);
	return 1;
}

/* Adds the names of nodes in the form of the command, and to the list. */
static void add_names(const struct core *c, const uint64_t *ids, size_t n, cJSON *list, struct text *t)
{
	for (size_t i = 0; i < n && i < RESUME_MAX; i++) {
		const struct cnode *x = node_by_id(c, ids[i]);

		cJSON_AddItemToArray(list, cJSON_CreateString(x ? x->name : "?"));
		if (i <= RESUME_NAMED)
			text_add(t, " %s", i == RESUME_NAMED ? "..." : x ? x->name : "?");
	}
}

/* Follows S-344. */
void suggest_resume(struct core *c, const struct job_spec *s, const struct cjob *j, const char *owner,
                    enum sched_why why, cJSON *body, struct text *out)
{
	uint64_t ids[RESUME_MAX];
	size_t k = alloc_resume(c, s, j, owner, 0, ids, RESUME_MAX);
	int now = k > 0;
	cJSON *o, *list;
	TEXT(names);
	TEXT(text);

	if (!now && (why == SCHED_IMPOSSIBLE || why == SCHED_NO_NODES))
		k = alloc_resume(c, s, j, owner, 1, ids, RESUME_MAX);
	if (!k)
		return;
	o = cJSON_AddObjectToObject(body, "resume");
	list = cJSON_AddArrayToObject(o, "nodes");
	add_names(c, ids, k, list, &names);
	text_add(&text, "it would %s after jobctl node resume%s", now ? "fit now" : "be possible", names.at);
	cJSON_AddBoolToObject(o, "now", now);
	json_add_str(o, "text", text.at);
	if (!text_is_empty(out) && now)
		text_add(out, ", or after jobctl node resume%s", names.at);
	else
		text_add(out, "; %s", text.at);
}
