/*
 * memory: how much memory this machine has and how much is in use. Inside a container /proc/meminfo shows
 * the whole host, and the memory controller above this process shows its own share.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/machine/inventory_int.h"
#include "common/base/strutil.h"
#include "common/os/fsutil.h"

static uint64_t meminfo_value(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	uint64_t kib = 0;

	/* Names are at the start of a line and end in a colon. */
	if (at && (at == text || at[-1] == '\n') && sscanf(at + strlen(name), "%" SCNu64, &kib) == 1)
		return kib * 1024;
	return 0;
}

static uint64_t limit_in(const char *path)
{
	uint64_t v = UINT64_MAX;
	char *text;
	size_t n;

	if (fs_read_file(path, 64, &text, &n, NULL) < 0)
		return v;
	text[strcspn(text, "\n")] = '\0';
	if (str_parse_u64(text, &v) < 0)
		v = UINT64_MAX; /* "max" */
	free(text);
	return v;
}

/* Path of this process in a hierarchy of /proc/self/cgroup: "0::PATH" or "N:memory:PATH". */
static int own_path(const char *text, const char *mark, char *out, size_t out_size)
{
	const char *at = strstr(text, mark);

	if (!at)
		return -1;
	at += strlen(mark);
	snprintf(out, out_size, "%.*s", (int)strcspn(at, "\n"), at);
	return 0;
}

static uint64_t cgroup_limit(void)
{
	uint64_t least = UINT64_MAX, v;
	char path[1024], file[1200], *text;
	size_t n;

	if (fs_read_file("/proc/self/cgroup", 65536, &text, &n, NULL) < 0)
		return least;
	if (own_path(text, ":memory:", path, sizeof(path)) == 0) {
		snprintf(file, sizeof(file), "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", path);
		v = limit_in(file);
		least = v < least ? v : least;
	}
	if (own_path(text, "0::", path, sizeof(path)) == 0) {
		/* Every level above counts, and the nearest need not be the least. */
		for (char *end; *path; *end = '\0') {
			snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.max", path);
			v = limit_in(file);
			least = v < least ? v : least;
			end = strrchr(path, '/');
			if (!end)
				break;
		}
	}
	free(text);
	return least;
}

uint64_t memory_total(void)
{
	uint64_t total = 0, limit = cgroup_limit();
	char *text;
	size_t n;

	if (fs_read_file("/proc/meminfo", 65536, &text, &n, NULL) == 0) {
		total = meminfo_value(text, "MemTotal:");
		free(text);
	}
	return limit < total ? limit : total;
}

uint64_t memory_used(void)
{
	uint64_t total = 0, available = 0;
	char *text;
	size_t n;

	if (fs_read_file("/proc/meminfo", 65536, &text, &n, NULL) == 0) {
		total = meminfo_value(text, "MemTotal:");
		available = meminfo_value(text, "MemAvailable:");
		free(text);
	}
	return total > available ? total - available : 0;
}
