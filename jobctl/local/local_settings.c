/*
 * local_settings: see local_settings.h.
 */
#include "jobctl/local/local_settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "jobctl/local/local_proc.h"

#define NODES_DEFAULT 2
#define AGAIN         "To change that: jobctl local down (it stops the jobs), then jobctl local up with these options"

/* ---- remembered ---- */

unsigned local_port(const char *dir)
{
	char *path = xasprintf("%s/port", dir), *text = NULL;
	size_t n;
	unsigned port = 0;
	if (!fs_read_file(path, 16, &text, &n, NULL))
		port = (unsigned)strtoul(text, NULL, 10);
	free(text);
	free(path);
	return port < 65536 ? port : 0;
}

int local_port_save(const char *dir, unsigned port, struct err *e)
{
	char number[16], *path = xasprintf("%s/port", dir);
	snprintf(number, sizeof(number), "%u\n", port);
	int rc = fs_write_atomic(path, number, strlen(number), 0600, e);
	free(path);
	return rc;
}

static char *settings_path(const char *dir)
{
	return xasprintf("%s/settings", dir);
}

int local_settings_load(const char *dir, struct local_settings *s)
{
	char *path = settings_path(dir), *text = NULL;
	size_t n;
	*s = (struct local_settings){.nodes = NODES_DEFAULT};
	cJSON *o = fs_read_file(path, 65536, &text, &n, NULL) ? NULL : json_parse(text, n, NULL);
	int64_t nodes = NODES_DEFAULT;
	const char *gpus = NULL;
	if (!json_get_i64(o, "", "nodes", 1, LOCAL_NODES_MAX, &nodes, NULL))
		s->nodes = (unsigned)nodes;
	if (!json_get_str(o, "", "fake_gpus", &gpus, NULL) && gpus)
		s->fake_gpus = xstrdup(gpus);
	s->no_namespaces = cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(o, "namespaces"));
	s->port = local_port(dir);
	int known = o != NULL;
	cJSON_Delete(o);
	free(text);
	free(path);
	return known;
}

void local_settings_fini(struct local_settings *s)
{
	free(s->fake_gpus);
	s->fake_gpus = NULL;
}

int local_settings_save(const char *dir, const struct local_settings *s, struct err *e)
{
	cJSON *o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "nodes", s->nodes);
	if (s->fake_gpus)
		cJSON_AddStringToObject(o, "fake_gpus", s->fake_gpus);
	cJSON_AddBoolToObject(o, "namespaces", !s->no_namespaces);
	char *text = json_text(o), *path = settings_path(dir);
	int rc = fs_write_atomic(path, text, strlen(text), 0600, e);
	free(path);
	free(text);
	cJSON_Delete(o);
	return rc;
}

void local_settings_forget(const char *dir)
{
	char *path = settings_path(dir);
	unlink(path);
	free(path);
}

/* ---- chosen ---- */

static int number_opt(const struct args *a, const char *name, unsigned max, unsigned *out, struct err *e)
{
	uint64_t n = *out;
	if (args_u64(a, name, 1, max, &n, e))
		return -1;
	*out = (unsigned)n;
	return 0;
}

/* Returns the highest number of a running agent; 0: none runs. */
static unsigned highest_up(const char *dir)
{
	char name[32];
	unsigned found = 0;
	for (unsigned i = 1; i <= LOCAL_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "node-%u", i);
		if (local_is_up(dir, name))
			found = i;
	}
	return found;
}

/* Returns a count as it is, and a file by its absolute path, because agents run in another folder. Malloc'ed.
 */
static char *fake_gpus_of(const char *given, struct err *e)
{
	uint64_t n;
	if (!str_parse_u64(given, &n))
		return xasprintf("%" PRIu64, n);
	char *path = realpath(given, NULL);
	if (!path || access(path, R_OK)) {
		err_sys(e, errno, "--fake-gpus '%s': expected a number of GPUs or a readable file", given);
		free(path);
		return NULL;
	}
	return path;
}

static char *gpus_text(const char *fake)
{
	uint64_t n;
	if (!fake)
		return xstrdup("without fake GPUs");
	if (!str_parse_u64(fake, &n))
		return xasprintf("with %s fake GPU%s each", fake, n == 1 ? "" : "s");
	return xasprintf("with the fake GPUs of %s", fake);
}

static int take_gpus(const struct args *a, unsigned up, struct local_settings *s, struct err *e)
{
	const char *given = args_get(a, "fake-gpus");
	if (!given)
		return 0;
	char *wanted = fake_gpus_of(given, e);
	if (!wanted)
		return -1;
	if (up && (!s->fake_gpus || strcmp(s->fake_gpus, wanted) != 0)) {
		char *text = gpus_text(s->fake_gpus);
		err_set(e, ERR_CONFLICT, "--fake-gpus %s: the agents run %s. " AGAIN, given, text);
		free(text);
		free(wanted);
		return -1;
	}
	free(s->fake_gpus);
	s->fake_gpus = wanted;
	return 0;
}

int local_settings_options(const char *dir, const struct args *a, struct local_settings *s, struct err *e)
{
	unsigned up = highest_up(dir), port = s->port;
	if (number_opt(a, "nodes", LOCAL_NODES_MAX, &s->nodes, e) || number_opt(a, "port", 65535, &port, e))
		return -1;
	if (!args_has(a, "nodes") && s->nodes < up)
		s->nodes = up;
	if (s->nodes < up)
		return err_set(e, ERR_CONFLICT, "--nodes %u: node-%u already runs. " AGAIN, s->nodes, up);
	if (port != s->port && local_is_up(dir, "hearthd"))
		return err_set(e, ERR_CONFLICT, "--port %u: hearthd already uses port %u. " AGAIN, port, s->port);
	if (port != s->port && up)
		return err_set(e, ERR_CONFLICT, "--port %u: the running agents look for hearthd on port %u. " AGAIN,
		               port, s->port);
	if (args_has(a, "no-namespaces") && up && !s->no_namespaces)
		return err_set(e, ERR_CONFLICT,
		               "--no-namespaces: the agents run with namespaces for their jobs. " AGAIN);
	if (take_gpus(a, up, s, e))
		return -1;
	s->port = port;
	s->no_namespaces |= args_has(a, "no-namespaces");
	return 0;
}

char *local_settings_text(const struct local_settings *s)
{
	char *gpus = s->fake_gpus ? gpus_text(s->fake_gpus) : NULL;
	char *all = xasprintf("%u agent%s%s%s%s", s->nodes, s->nodes == 1 ? "" : "s", gpus ? " " : "",
	                      gpus ? gpus : "", s->no_namespaces ? ", without namespaces" : "");
	free(gpus);
	return all;
}
