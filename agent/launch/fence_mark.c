/*
 * fence_mark: see fence_mark.h. The file has one line "TIME BOOT REASON" and one line for each launch.
 */
#include "agent/launch/fence_mark.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/launch/launch_host.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define MARK_MAX (1024 * 1024)

static char *mark_path(const struct launch_host *host)
{
	return xasprintf("%s/fenced", host->env->cfg.run_dir);
}

int fence_mark_save(const struct launch_host *host, const struct fence_mark *m, struct err *e)
{
	cleanup_free char *path = mark_path(host);
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	int rc;

	if (!f)
		abort();
	fprintf(f, "%" PRIu64 " %s %s\n", m->at_us, host->boot_id, m->why);
	for (size_t i = 0; i < m->keys.n; i++)
		fprintf(f, "%s\n", m->keys.v[i]);
	if (fclose(f) != 0)
		abort();
	rc = fs_replace(path, text, n, 0600, e);
	free(text);
	return rc;
}

/* 1: it is of this boot. */
static int parse_head(struct fence_mark *m, const char *line, const char *boot_id)
{
	char boot[PROC_BOOT_ID_SIZE] = "";
	int end = 0;

	if (sscanf(line, "%" SCNu64 " %39s %n", &m->at_us, boot, &end) != 2 || !end || strcmp(boot, boot_id) != 0)
		return 0;
	m->why = xstrdup(line + end);
	return 1;
}

int fence_mark_load(const struct launch_host *host, struct fence_mark *m)
{
	cleanup_free char *path = mark_path(host), *text = NULL;
	char *save = NULL, *line;
	struct err e = {0};

	*m = (struct fence_mark){0};
	if (fs_read_file(path, MARK_MAX, &text, NULL, &e) < 0) {
		if (e.code != ERR_NOT_FOUND)
			log_error("event=fence_not_read reason=\"%s\"", e.text);
		return 0;
	}
	line = strtok_r(text, "\n", &save);
	if (!line || !parse_head(m, line, host->boot_id))
		return 0;
	while ((line = strtok_r(NULL, "\n", &save)))
		strv_add(&m->keys, line);
	return 1;
}

int fence_mark_has(const struct fence_mark *m, const char *key)
{
	for (size_t i = 0; i < m->keys.n; i++)
		if (strcmp(m->keys.v[i], key) == 0)
			return 1;
	return 0;
}

void fence_mark_fini(struct fence_mark *m)
{
	free(m->why);
	strv_fini(&m->keys);
	*m = (struct fence_mark){0};
}

void fence_mark_remove(const struct launch_host *host)
{
	cleanup_free char *path = mark_path(host);

	if (unlink(path) < 0 && errno != ENOENT)
		log_warn("event=fence_not_removed reason=\"%s\"", strerror(errno));
}
