/*
 * evict: the bounds of the node's caches, and room for a tree on a full disk.
 *
 * What warm pools use is evicted last: within the bound of its kind it stays. Above it, or on a disk that
 * has no room, the oldest goes first, as everywhere.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/layers.h"
#include "agent/pool/uses.h"
#include "agent/stage/stage_int.h"
#include "common/base/log.h"
#include "common/os/fsutil.h"

#define CACHE_MIN     (1ull << 30)
#define CACHE_PART    10 /* one in so many bytes of the disk is the bound of one kind */
#define KINDS         4
#define EVICT_EVERY_S 60
#define ROOM_STEP_MIN (16ull << 20)

static int points_here(const char *name, void *arg)
{
	const char **entry_and_jobs = arg;
	cleanup_free char *link = xasprintf("%s/%s/venv", entry_and_jobs[1], name);
	char target[4096];
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	return strcmp(target, entry_and_jobs[0]) == 0 ? -1 : 0;
}

int stage_env_used(const char *jobs, const char *entry_dir)
{
	const char *both[] = {entry_dir, jobs};

	return fs_each(jobs, points_here, both, NULL) < 0;
}

struct holders { /* of entries that are not evicted */
	const char *jobs;
	const struct uses *uses; /* of warm pools; NULL: they count no longer */
};

static int pool_uses(const char *path, void *arg)
{
	const struct holders *h = arg;

	return h->uses && uses_hold(h->uses, path);
}

/* Above all: a launch reads it where it lies. */
static int tree_used(const char *entry_dir, void *arg)
{
	const struct holders *h = arg;

	return pool_uses(entry_dir, arg) || layers_use(h->jobs, entry_dir);
}

static int venv_used(const char *entry_dir, void *arg)
{
	const struct holders *h = arg;

	return pool_uses(entry_dir, arg) || stage_env_used(h->jobs, entry_dir);
}

/* Looking through the caches takes a while where they are large, and many jobs may start at once. */
static int evicted_lately(const char *cache)
{
	cleanup_free char *mark = xasprintf("%s/.evicted", cache);
	uint64_t now_s = clock_real_us(clock_real()) / 1000000;
	struct stat st;

	if (stat(mark, &st) == 0 && (uint64_t)st.st_mtime <= now_s &&
	    now_s - (uint64_t)st.st_mtime < EVICT_EVERY_S)
		return 1;
	return fs_replace(mark, "", 0, 0600, NULL) < 0;
}

/* Each kind to at most max bytes; with_pools: what pools use stays. */
static unsigned evict_to(const struct stage *s, uint64_t max, int with_pools)
{
	cleanup_free char *cache = xasprintf("%s/cache", s->data_dir), *jobs = xasprintf("%s/jobs", s->data_dir);
	cleanup_free char *blobs = xasprintf("%s/blobs", cache), *trees = xasprintf("%s/trees", cache);
	cleanup_free char *inputs = xasprintf("%s/inputs", cache), *venvs = xasprintf("%s/venvs", cache);
	struct uses *uses = with_pools ? uses_load(s->data_dir) : NULL;
	struct holders h = {.jobs = jobs, .uses = uses};
	unsigned n;

	if (uses)
		uses_add_chunks(uses, blobs);
	n = cache_evict(trees, max, tree_used, &h) + cache_evict(inputs, max, tree_used, &h) +
	    cache_evict(venvs, max, venv_used, &h) + cache_evict_blobs(blobs, max, pool_uses, &h);
	uses_free(uses);
	return n;
}

static uint64_t bound_of(uint64_t total)
{
	return total / CACHE_PART < CACHE_MIN ? CACHE_MIN : total / CACHE_PART;
}

void stage_evict(struct stage *s)
{
	cleanup_free char *cache = xasprintf("%s/cache", s->data_dir);
	uint64_t free_bytes, total, max;
	unsigned n = 0;

	if (evicted_lately(cache) || fs_disk_free(s->data_dir, &free_bytes, &total, NULL) < 0)
		return;
	/* Less when the disk is nearly full: then warm pools are worth less than room. */
	max = free_bytes < total / 20 ? bound_of(total / 4) : bound_of(total);
	if (free_bytes >= total / 20)
		n = evict_to(s, max, 1);
	n += evict_to(s, max, 0);
	if (n)
		log_info("event=cache_evicted entries=%u", n);
}

static int has_room(const struct stage *s, uint64_t need)
{
	uint64_t left, total;

	return fs_disk_free(s->data_dir, &left, &total, NULL) == 0 && need <= left;
}

void stage_make_room(const struct stage *s, uint64_t need)
{
	uint64_t left, total, max;
	unsigned n = 0;

	/* What no cache can hold does not empty the caches. */
	if (fs_disk_free(s->data_dir, &left, &total, NULL) < 0 || need > left + KINDS * bound_of(total))
		return;
	for (max = total / CACHE_PART; !has_room(s, need) && !worker_cancelled(s->w);) {
		max = max / 2 < ROOM_STEP_MIN ? 0 : max / 2;
		n += evict_to(s, max, 1);
		if (!has_room(s, need))
			n += evict_to(s, max, 0);
		if (!max)
			break;
	}
	log_info("event=cache_made_room entries=%u", n);
}
