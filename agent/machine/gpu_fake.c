/*
 * gpu_fake: invented GPUs, for trying out placement. Their uuids begin with FAKE-, the inventory says so,
 * and no device is ever opened for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/machine/gpu.h"
#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define FILE_MAX (1024 * 1024)

static const char *const setting_names[GPU_SETTINGS] = {"power_mw", "compute_mode", "mig_mode",
                                                        "graphics_mhz", "memory_mhz"};

static void set_one(struct gpus *out, const char *node, const char *model, uint64_t memory, int numa,
                    int group)
{
	struct gpu *g = &out->v[out->n];

	*g = (struct gpu){.memory_bytes = memory, .numa = numa, .link_group = group, .minor = -1};
	snprintf(g->uuid, sizeof(g->uuid), "FAKE-%.64s-%u", node, out->n);
	snprintf(g->model, sizeof(g->model), "%s", model);
	out->n++;
}

static int load_one(const cJSON *item, const char *path, const char *node, struct gpus *out, struct err *e)
{
	static const char *const known[] = {"model",        "memory",     "numa",         "link_group",
	                                    "memory_used",  "power_mw",   "compute_mode", "mig_mode",
	                                    "graphics_mhz", "memory_mhz", "stuck",        NULL};
	const char *model = "Fake GPU", *memory = "16GiB";
	int64_t numa = -1, group = -1;
	uint64_t bytes;

	if (!cJSON_IsObject(item))
		return err_set(e, ERR_INVALID, "%s: expected an object", path);
	if (json_check_keys(item, path, known, e) < 0 || json_get_str(item, path, "model", &model, e) < 0 ||
	    json_get_str(item, path, "memory", &memory, e) < 0 ||
	    json_get_i64(item, path, "numa", -1, 1023, &numa, e) < 0 ||
	    json_get_i64(item, path, "link_group", -1, 1023, &group, e) < 0)
		return -1;
	if (str_parse_size(memory, &bytes, e) < 0)
		return err_wrap(e, "%s.memory", path);
	if (strlen(model) >= sizeof(out->v[0].model) || strchr(model, '|') || str_has_control(model))
		return err_set(e, ERR_INVALID, "%s.model: at most 95 characters, no '|' and no control characters",
		               path);
	set_one(out, node, model, bytes, (int)numa, (int)group);
	return 0;
}

static int load_list(const cJSON *root, const char *node, struct gpus *out, struct err *e)
{
	const cJSON *item;
	char path[32];

	if (!cJSON_IsArray(root))
		return err_set(e, ERR_INVALID, "expected a list of GPUs");
	if (cJSON_GetArraySize(root) > GPUS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d GPUs", GPUS_MAX);
	cJSON_ArrayForEach (item, root) {
		snprintf(path, sizeof(path), "[%u]", out->n);
		if (load_one(item, path, node, out, e) < 0)
			return -1;
	}
	return 0;
}

int gpu_fake_load(const char *arg, const char *node, struct gpus *out, struct err *e)
{
	cleanup_free char *text = NULL;
	cJSON *root;
	uint64_t count;
	size_t n;
	int rc;

	*out = (struct gpus){.fake = 1};
	if (str_parse_u64(arg, &count) == 0) {
		if (count > GPUS_MAX)
			return err_set(e, ERR_LIMIT, "--fake-gpus: more than %d GPUs", GPUS_MAX);
		for (uint64_t i = 0; i < count; i++)
			set_one(out, node, "Fake GPU", 16ull << 30, -1, 0);
		return 0;
	}
	if (fs_read_file(arg, FILE_MAX, &text, &n, e) < 0)
		return err_wrap(e, "--fake-gpus");
	root = json_parse(text, n, e);
	rc = root ? load_list(root, node, out, e) : -1;
	cJSON_Delete(root);
	if (rc < 0) {
		out->n = 0;
		return err_wrap(e, "--fake-gpus %s", arg);
	}
	return 0;
}

void gpu_fake_sample(const char *arg, struct gpu_sample *out, uint32_t count)
{
	cleanup_free char *text = NULL;
	const cJSON *item;
	uint32_t i = 0;
	cJSON *root;
	uint64_t number;
	size_t n;

	memset(out, 0, count * sizeof(*out));
	if (str_parse_u64(arg, &number) == 0 || fs_read_file(arg, FILE_MAX, &text, &n, NULL) < 0)
		return;
	root = json_parse(text, n, NULL);
	cJSON_ArrayForEach (item, root) {
		const char *used = "0";

		if (i == count)
			break;
		if (json_get_str(item, "", "memory_used", &used, NULL) == 0)
			str_parse_size(used, &out[i].memory_used, NULL);
		i++;
	}
	cJSON_Delete(root);
}

static cJSON *load_gpus(const char *arg)
{
	cleanup_free char *text = NULL;
	uint64_t number;
	size_t n;

	if (!arg || str_parse_u64(arg, &number) == 0 || fs_read_file(arg, FILE_MAX, &text, &n, NULL) < 0)
		return NULL;
	return json_parse(text, n, NULL);
}

void gpu_fake_settings(const char *arg, uint32_t gpu, struct gpu_settings *out)
{
	cJSON *root = load_gpus(arg);
	const cJSON *item = cJSON_GetArrayItem(root, (int)gpu);

	for (int i = 0; i < GPU_SETTINGS; i++) {
		const cJSON *v = cJSON_GetObjectItemCaseSensitive(item, setting_names[i]);

		out->v[i] = cJSON_IsNumber(v) ? (int64_t)v->valuedouble : -1;
	}
	cJSON_Delete(root);
}

void gpu_fake_put(const char *arg, uint32_t gpu, const struct gpu_settings *to, enum gpu_setting which)
{
	cJSON *root = load_gpus(arg), *item = cJSON_GetArrayItem(root, (int)gpu);
	cleanup_free char *text = NULL;

	if (item && !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "stuck")) && which != GPU_MIG_MODE) {
		cJSON_ReplaceItemInObjectCaseSensitive(item, setting_names[which],
		                                       cJSON_CreateNumber((double)to->v[which]));
		text = cJSON_PrintUnformatted(root);
		fs_replace(arg, text, strlen(text), 0600, NULL);
	}
	cJSON_Delete(root);
}
