/*
 * cache: see cache.h.
 */
#include "agent/stage/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define MARKER ".complete"

static int lock_entry(int fd, int how, int (*pause)(void *arg), void *arg, const char *path, struct err *e)
{
	while (flock(fd, how | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, errno, "%s: lock", path);
		if (pause && pause(arg) < 0)
			return err_set(e, ERR_UNAVAILABLE, "cancelled");
	}
	return 0;
}

int cache_kind(const char *kind_dir, mode_t mode, struct err *e)
{
	cleanup_free char *parent = xstrdup(kind_dir);
	char *end = strrchr(parent, '/');

	/* The mode is the kind's alone: its neighbours may have to be open to jobs. */
	if (end && end != parent) {
		*end = '\0';
		if (fs_mkdir_p(parent, 0755, e) < 0)
			return -1;
	}
	if (mkdir(kind_dir, mode) < 0 && errno != EEXIST)
		return err_sys(e, errno, "%s", kind_dir);
	return 0;
}

static int is_complete(const char *dir)
{
	cleanup_free char *marker = xasprintf("%s/" MARKER, dir);

	if (access(marker, F_OK) < 0)
		return 0;
	utimensat(AT_FDCWD, marker, NULL, 0); /* used now */
	return 1;
}

int cache_open(struct cache_entry *c, const char *kind_dir, const char *key, mode_t mode,
               int (*pause)(void *arg), void *arg, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s.lock", kind_dir, key);
	struct cache_entry n = {.lock_fd = -1};

	if (cache_kind(kind_dir, mode, e) < 0)
		return -1;
	n.dir = xasprintf("%s/%s", kind_dir, key);
	n.lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (n.lock_fd < 0) {
		err_sys(e, errno, "%s", path);
		goto fail;
	}
	if (lock_entry(n.lock_fd, LOCK_SH, pause, arg, path, e) < 0)
		goto fail;
	n.complete = is_complete(n.dir);
	if (!n.complete) {
		/* The change from shared to exclusive is not atomic: somebody else may have made it in between. */
		if (lock_entry(n.lock_fd, LOCK_EX, pause, arg, path, e) < 0)
			goto fail;
		n.complete = is_complete(n.dir);
		if (n.complete)
			flock(n.lock_fd, LOCK_SH);
		else if (fs_rm_rf(n.dir, e) < 0 || fs_mkdir_p(n.dir, 0755, e) < 0)
			goto fail;
	}
	*c = n;
	return 0;
fail:
	if (n.lock_fd >= 0)
		close(n.lock_fd);
	free(n.dir);
	return -1;
}

int cache_drop(const char *kind_dir, const char *key, int (*pause)(void *arg), void *arg, struct err *e)
{
	cleanup_free char *path = xasprintf("%s/%s.lock", kind_dir, key),
	                  *dir = xasprintf("%s/%s", kind_dir, key);
	cleanup_free char *marker = xasprintf("%s/" MARKER, dir);
	cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, errno, "%s", path);
	if (lock_entry(fd, LOCK_EX, pause, arg, path, e) < 0)
		return -1;
	unlink(marker);
	return fs_rm_rf(dir, e);
}

int cache_commit(struct cache_entry *c, struct err *e)
{
	cleanup_free char *marker = xasprintf("%s/" MARKER, c->dir);
	int64_t bytes = fs_tree_bytes(c->dir, e);
	char text[32];

	if (bytes < 0)
		return -1;
	snprintf(text, sizeof(text), "%" PRId64, bytes);
	if (fs_write_atomic(marker, text, strlen(text), 0644, e) < 0)
		return -1;
	c->complete = 1;
	flock(c->lock_fd, LOCK_SH);
	return 0;
}

int cache_lock_alone(struct cache_entry *c)
{
	int alone = flock(c->lock_fd, LOCK_EX | LOCK_NB) == 0;

	/* The change is not atomic: a failed one has lost the shared lock, too. */
	if (!alone)
		cache_lock_shared(c);
	c->complete = is_complete(c->dir);
	return c->complete ? alone : -1;
}

void cache_lock_shared(struct cache_entry *c)
{
	while (flock(c->lock_fd, LOCK_SH) < 0 && errno == EINTR)
		continue;
}

static uint64_t marked_bytes(const char *marker)
{
	cleanup_free char *text = NULL;
	uint64_t bytes = 0;
	size_t n;

	if (fs_read_file(marker, 64, &text, &n, NULL) == 0)
		str_parse_u64(text, &bytes);
	return bytes;
}

uint64_t cache_bytes(const struct cache_entry *c)
{
	cleanup_free char *marker = xasprintf("%s/" MARKER, c->dir);

	return marked_bytes(marker);
}

void cache_outdate(const struct cache_entry *c)
{
	static const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	cleanup_free char *marker = xasprintf("%s/" MARKER, c->dir);

	utimensat(AT_FDCWD, marker, long_ago, 0);
}

void cache_close(struct cache_entry *c)
{
	struct err e;

	if (!c->dir)
		return;
	if (!c->complete && fs_rm_rf(c->dir, &e) < 0)
		log_warn("event=cache_rest reason=\"%s\"", e.text);
	if (c->lock_fd >= 0)
		close(c->lock_fd);
	free(c->dir);
	*c = (struct cache_entry){.lock_fd = -1};
}

/* ---- eviction ---------------------------------------------------------------------------------------------
 */

struct item {
	char *path;
	uint64_t bytes;
	struct timespec used;
};
struct items {
	struct item *v;
	size_t n, cap;
	uint64_t sum;
};

static void add_item(struct items *l, char *path, uint64_t bytes, struct timespec used)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->v = xreallocarray(l->v, l->cap, sizeof(*l->v));
	}
	l->v[l->n++] = (struct item){path, bytes, used};
	l->sum += bytes;
}

static int oldest_first(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

static void items_fini(struct items *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
}

struct lister {
	const char *dir;
	struct items items;
};

static int list_entry(const char *name, void *arg)
{
	struct lister *l = arg;
	cleanup_free char *marker = xasprintf("%s/%s/" MARKER, l->dir, name);
	struct stat st;

	if (stat(marker, &st) == 0)
		add_item(&l->items, xasprintf("%s/%s", l->dir, name), marked_bytes(marker), st.st_mtim);
	return 0;
}

/* 1 removed. */
static int evict_one(const char *dir, int (*used)(const char *, void *), void *arg)
{
	cleanup_free char *lock_path = xasprintf("%s.lock", dir), *marker = xasprintf("%s/" MARKER, dir);
	cleanup_close int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct err e;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || (used && used(dir, arg)))
		return 0;
	unlink(marker); /* first: half an entry must not look whole */
	if (fs_rm_rf(dir, &e) < 0) {
		log_warn("event=evict_failed reason=\"%s\"", e.text);
		return 0;
	}
	return 1;
}

unsigned cache_evict(const char *kind_dir, uint64_t max_bytes, int (*used)(const char *entry_dir, void *arg),
                     void *arg)
{
	struct lister l = {.dir = kind_dir};
	unsigned n = 0;

	fs_each(kind_dir, list_entry, &l, NULL);
	if (l.items.n > 1)
		qsort(l.items.v, l.items.n, sizeof(*l.items.v), oldest_first);
	for (size_t i = 0; i < l.items.n && l.items.sum > max_bytes; i++)
		if (evict_one(l.items.v[i].path, used, arg)) {
			l.items.sum -= l.items.v[i].bytes;
			n++;
		}
	items_fini(&l.items);
	return n;
}

static int list_blob(const char *name, void *arg)
{
	struct lister *l = arg;
	char *path = xasprintf("%s/%s", l->dir, name);
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
		free(path);
		return 0;
	}
	add_item(&l->items, path, (uint64_t)st.st_blocks * 512, st.st_mtim);
	return 0;
}

static int list_fan(const char *name, void *arg)
{
	struct lister *l = arg;
	const char *top = l->dir;
	cleanup_free char *dir = xasprintf("%s/%s", top, name);

	l->dir = dir;
	fs_each(dir, list_blob, l, NULL);
	l->dir = top;
	return 0;
}

unsigned cache_evict_blobs(const char *blob_dir, uint64_t max_bytes, int (*used)(const char *path, void *arg),
                           void *arg)
{
	struct lister l = {.dir = blob_dir};
	unsigned n = 0;

	fs_each(blob_dir, list_fan, &l, NULL);
	if (l.items.n > 1)
		qsort(l.items.v, l.items.n, sizeof(*l.items.v), oldest_first);
	for (size_t i = 0; i < l.items.n && l.items.sum > max_bytes; i++)
		if (!(used && used(l.items.v[i].path, arg)) && unlink(l.items.v[i].path) == 0) {
			l.items.sum -= l.items.v[i].bytes;
			n++;
		}
	items_fini(&l.items);
	return n;
}
