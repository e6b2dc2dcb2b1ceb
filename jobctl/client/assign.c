/*
 * assign: see assign.h.
 */
#include "jobctl/client/assign.h"

#include <string.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/spec/spec.h"

/* Returns whether the key accepts only text: there "1" means the text, not the number. */
static int takes_text(const char *path)
{
	static const char *const open_names[] = {"environment.", "tags.", NULL};
	for (const char *const *p = open_names; *p; p++) {
		if (strncmp(path, *p, strlen(*p)) == 0)
			return 1;
	}
	size_t n;
	const struct spec_key *keys = spec_keys(&n);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(keys[i].path, path) == 0)
			return strcmp(keys[i].type, "string") == 0;
	}
	return 0;
}

int assign_key_known(const char *key)
{
	size_t n, len = strcspn(key, ".=");
	const struct spec_key *keys = spec_keys(&n);
	for (size_t i = 0; i < n; i++) {
		if (strcspn(keys[i].path, ".[") == len && strncmp(keys[i].path, key, len) == 0)
			return 1;
	}
	return 0;
}

/* Returns whether a suggestion makes sense. A key deep inside others, or one that differs in half of its
 * letters ("seed", "sweep"), seldom does; then a hyperparameter was meant. */
static int is_near_enough(const char *word, const char *near)
{
	const char *one[] = {near, NULL};
	if (strchr(near, '.'))
		return strncmp(near, "resources.", 10) == 0 || strncmp(near, "limits.", 7) == 0;
	return strlen(word) > 4 || strlen(word) >= strlen(near) || !str_nearest(word, one);
}

int assign_check_key(const char *assignment, const cJSON *hps, struct err *e)
{
	size_t n = strcspn(assignment, "=");
	if (!assignment[n] || !n || assign_key_known(assignment))
		return 0;
	char *key = xstrndup(assignment, n), *root = xstrndup(key, strcspn(key, ".="));
	const char *near = spec_key_meant("", root);
	if (near && !is_near_enough(root, near))
		near = NULL;
	if (cJSON_GetObjectItemCaseSensitive(hps, key) || !near)
		err_set(e, ERR_INVALID,
		        "--set %s: unknown key \"%s\"; to set a hyperparameter: --set hyperparameters.%s", assignment,
		        root, assignment);
	else
		err_set(e, ERR_INVALID, "--set %s: unknown key \"%s\"; did you mean \"%s\"?", assignment, root, near);
	free(root);
	free(key);
	return -1;
}

int assign_split(const char *assignment, char **key, cJSON **value, struct err *e)
{
	const char *eq = strchr(assignment, '=');
	if (!eq || eq == assignment)
		return err_set(e, ERR_INVALID, "--set '%s': expected KEY=VALUE, for example hyperparameters.lr=0.05",
		               assignment);
	if (eq[-1] == '.')
		return err_set(e, ERR_INVALID, "--set '%s': the key ends with a dot; expected KEY=VALUE", assignment);
	*key = xstrndup(assignment, (size_t)(eq - assignment));
	*value = json_parse(eq + 1, strlen(eq + 1), NULL);
	if (*value && takes_text(*key) && !cJSON_IsString(*value) && !cJSON_IsNull(*value)) {
		cJSON_Delete(*value);
		*value = NULL;
	}
	if (!*value)
		*value = cJSON_CreateString(eq + 1);
	return 0;
}

/* Returns the object for the last part of path; makes missing objects. Below hyperparameters, environment and
 * tags the rest is one name and may have dots. */
static cJSON *spec_parent(cJSON *spec, char *path, char **last)
{
	cJSON *at = spec;
	for (char *dot = strchr(path, '.'); dot; dot = strchr(path, '.')) {
		*dot = 0;
		cJSON *next = cJSON_GetObjectItemCaseSensitive(at, path);
		if (!cJSON_IsObject(next)) {
			cJSON_DeleteItemFromObjectCaseSensitive(at, path);
			next = cJSON_AddObjectToObject(at, path);
		}
		int free_names = at == spec && (strcmp(path, "hyperparameters") == 0 ||
		                                strcmp(path, "environment") == 0 || strcmp(path, "tags") == 0);
		at = next;
		path = dot + 1;
		if (free_names)
			break;
	}
	*last = path;
	return at;
}

int assign_apply(cJSON *spec, const char *assignment, struct err *e)
{
	char *path, *last;
	cJSON *value;
	if (!cJSON_IsObject(spec))
		return err_set(e, ERR_INVALID, "the specification is not a JSON object");
	if (assign_split(assignment, &path, &value, e))
		return -1;
	cJSON *at = spec_parent(spec, path, &last);
	cJSON_DeleteItemFromObjectCaseSensitive(at, last);
	if (cJSON_IsNull(value))
		cJSON_Delete(value);
	else
		cJSON_AddItemToObject(at, last, value);
	free(path);
	return 0;
}
