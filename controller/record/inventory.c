/*
 * inventory: what a node reports of itself, as the JSON of its row and as the struct for decisions. The
 * message becomes JSON, and the JSON becomes the struct. A hearthd that starts again therefore knows the same
 * as before.
 */
#include "controller/record/inventory.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "scheduler/sched.h"

#define GPUS_MAX   64
#define SLOTS_MAX  65536
#define LABELS_MAX 256
#define GROUP_MAX  65536 /* NUMA nodes, link groups, device numbers */

/* Next part of "a|b|c"; moves *p. */
static char *next_part(char **p)
{
	char *from = *p, *bar = strchr(from, '|');

	if (bar) {
		*bar = '\0';
		*p = bar + 1;
	} else {
		*p = from + strlen(from);
	}
	return from;
}

static uint64_t num_part(char **p)
{
	uint64_t v = 0;
	const char *s = next_part(p);

	return str_parse_u64(s, &v) == 0 ? v : 0;
}

/* A number from 0; -1: unknown or none, which does not count as a group or socket. */
static double number_or_none(char **p)
{
	uint64_t v;

	return str_parse_u64(next_part(p), &v) == 0 && v < GROUP_MAX ? (double)v : -1;
}

/* "index|uuid|model|memory_bytes|numa|nvlink_group|minor" */
static cJSON *gpu_json(const char *line)
{
	cleanup_free char *copy = xstrdup(line);
	char *p = copy;
	cJSON *o = cJSON_CreateObject();

	json_add_u64(o, "index", num_part(&p));
	json_add_str(o, "uuid", next_part(&p));
	json_add_str(o, "model", next_part(&p));
	json_add_u64(o, "memory_bytes", num_part(&p));
	cJSON_AddNumberToObject(o, "numa", number_or_none(&p));
	cJSON_AddNumberToObject(o, "nvlink_group", number_or_none(&p));
	cJSON_AddNumberToObject(o, "minor", number_or_none(&p));
	return o;
}

static cJSON *list_json(const struct wire_strv *v)
{
	cJSON *a = cJSON_CreateArray();

	for (uint32_t i = 0; i < v->n && i < LABELS_MAX; i++)
		cJSON_AddItemToArray(a, cJSON_CreateString(v->v[i]));
	return a;
}

char *inv_json(const struct wm_inventory *m)
{
	cJSON *o = cJSON_CreateObject(), *gpus = cJSON_CreateArray();
	char *text;

	for (uint32_t i = 0; i < m->gpus.n && i < GPUS_MAX; i++)
		cJSON_AddItemToArray(gpus, gpu_json(m->gpus.v[i]));
	json_add_str(o, "address", m->address);
	json_add_str(o, "hostname", m->hostname);
	json_add_u64(o, "peer_port", m->peer_port);
	json_add_u64(o, "port_lo", m->port_lo);
	json_add_u64(o, "port_hi", m->port_hi);
	json_add_str(o, "interface", m->interface_name);
	json_add_str(o, "fabric_interface", m->fabric_interface);
	json_add_u64(o, "cpus", m->cpus);
	json_add_u64(o, "slots", m->slots);
	json_add_u64(o, "memory_bytes", m->memory_bytes);
	json_add_u64(o, "disk_bytes", m->disk_bytes);
	cJSON_AddItemToObject(o, "gpus", gpus);
	cJSON_AddBoolToObject(o, "gpus_fake", m->gpus_fake);
	cJSON_AddItemToObject(o, "labels", list_json(&m->labels));
	json_add_str(o, "instance_type", m->instance_type);
	cJSON_AddNumberToObject(o, "price_per_hour",
	                        m->price_per_hour >= 0 && m->price_per_hour < 1e9 ? m->price_per_hour : 0);
	cJSON_AddItemToObject(o, "fabrics", list_json(&m->fabrics));
	json_add_str(o, "topology", m->topology);
	cJSON_AddItemToObject(o, "software", list_json(&m->software));
	json_add_str(o, "os_user", m->os_user);
	cJSON_AddBoolToObject(o, "is_root", m->is_root);
	text = json_text(o);
	cJSON_Delete(o);
	return text;
}

void inv_fini(struct inv *i)
{
	free(i->address);
	free(i->instance_type);
	for (uint32_t k = 0; k < i->n_gpus; k++) {
		free(i->gpus[k].uuid);
		free(i->gpus[k].model);
	}
	free(i->gpus);
	strv_fini(&i->labels);
	memset(i, 0, sizeof(*i));
}

static uint64_t number_of(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) && v->valuedouble > 0 && v->valuedouble < 1e18 ? (uint64_t)v->valuedouble : 0;
}

static uint32_t number_below(const cJSON *o, const char *key, uint32_t max)
{
	uint64_t v = number_of(o, key);

	return v > max ? max : (uint32_t)v;
}

/* The number that number_or_none wrote, or `none`. */
static uint32_t group_of(const cJSON *o, const char *key, uint32_t none)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < GROUP_MAX ? (uint32_t)v->valuedouble
	                                                                              : none;
}

static char *text_copy(const cJSON *o, const char *key)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

	return xstrdup(s ? s : "");
}

static void gpus_parse(struct inv *out, const cJSON *list)
{
	const cJSON *g;
	int n = cJSON_GetArraySize(list), linked = 0;

	out->gpus = xcalloc((size_t)(n > 0 ? n : 1), sizeof(*out->gpus));
	cJSON_ArrayForEach (g, list) {
		struct inv_gpu *x = &out->gpus[out->n_gpus++];

		x->index = number_below(g, "index", UINT32_MAX);
		x->numa = group_of(g, "numa", SCHED_NUMA_UNKNOWN);
		x->link_group = group_of(g, "nvlink_group", UINT32_MAX) + 1; /* the scheduler has 0 for none */
		x->memory_bytes = number_of(g, "memory_bytes");
		x->uuid = text_copy(g, "uuid");
		x->model = text_copy(g, "model");
		linked |= x->link_group > 0;
	}
	if (linked)
		strv_add(&out->labels, "nvlink");
}

static void software_parse(struct inv *out, const cJSON *list)
{
	char digest[HASH_HEX_SIZE], *text = list ? json_text(list) : NULL;

	if (!text)
		return;
	hash_hex(text, strlen(text), digest);
	snprintf(out->software, sizeof(out->software), "%.8s", digest);
	free(text);
}

int inv_parse(struct inv *out, const char *json)
{
	cJSON *o = json ? cJSON_Parse(json) : NULL;
	static const char *const lists[] = {"labels", "fabrics"};
	const cJSON *s;

	memset(out, 0, sizeof(*out));
	if (!cJSON_IsObject(o)) {
		cJSON_Delete(o);
		return -1;
	}
	out->address = text_copy(o, "address");
	out->instance_type = text_copy(o, "instance_type");
	out->peer_port = number_below(o, "peer_port", 65535);
	out->port_lo = number_below(o, "port_lo", 65535);
	out->port_hi = number_below(o, "port_hi", 65535);
	out->cpus = number_below(o, "cpus", SLOTS_MAX);
	out->slots = number_below(o, "slots", SLOTS_MAX);
	out->memory_bytes = number_of(o, "memory_bytes");
	out->disk_bytes = number_of(o, "disk_bytes");
	s = cJSON_GetObjectItemCaseSensitive(o, "price_per_hour");
	out->price_per_hour = cJSON_IsNumber(s) ? s->valuedouble : 0;
	for (size_t i = 0; i < 2; i++) /* what a job may require: labels, and fabrics by their names */
		cJSON_ArrayForEach (s, cJSON_GetObjectItemCaseSensitive(o, lists[i]))
			if (cJSON_IsString(s))
				strv_add(&out->labels, s->valuestring);
	gpus_parse(out, cJSON_GetObjectItemCaseSensitive(o, "gpus"));
	software_parse(out, cJSON_GetObjectItemCaseSensitive(o, "software"));
	out->known = 1;
	cJSON_Delete(o);
	return 0;
}
