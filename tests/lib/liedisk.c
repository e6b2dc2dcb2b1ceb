/*
 * liedisk: see liedisk.h. Files are kept in memory as they would be after the last sync, with the writes
 * since in a list; names likewise. So a cut needs no look at the disk but for files that came about behind
 * the front ends' backs (SQLite's shared memory): those end as garbage, or not at all.
 */
#include "tests/lib/liedisk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "tests/lib/tap.h"

#define SECTOR   512
#define FILE_MAX (256u << 20)

struct write { /* not durable yet */
	uint64_t at;
	size_t n;
	uint8_t *data; /* NULL: a change of size to `at` */
	struct write *prev, *next;
};

struct lie_file {
	int is_dir;
	uint8_t *data; /* durable */
	size_t len;
	struct write *writes;
	struct lie_file *next; /* of all, to be freed */
};

struct name {
	char *path;
	struct lie_file *now, *durable; /* NULL: there is none */
	UT_hash_handle hh;
};

struct change {              /* of a folder, not durable yet */
	char *dir, *path, *from; /* from: path got the file by a rename from there */
	struct lie_file *f;      /* NULL: removed */
	struct change *prev, *next;
};

static struct {
	pthread_mutex_t lock;
	int on;
	char *root;
	struct lie_plan plan;
	uint64_t random;
	unsigned count[LIE_OPS], failed;
	struct lie_file *files;
	struct name *names;
	struct change *changes;
} disk = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

static uint64_t draw(void)
{
	uint64_t z = (disk.random += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static unsigned below(unsigned n)
{
	return (unsigned)(draw() % n);
}

void liedisk_lock(void)
{
	pthread_mutex_lock(&disk.lock);
}

void liedisk_unlock(void)
{
	pthread_mutex_unlock(&disk.lock);
}

/* ---- files and names -------------------------------------------------------------------------------- */

static struct lie_file *new_file(int is_dir)
{
	struct lie_file *f = xcalloc(1, sizeof(*f));

	f->is_dir = is_dir;
	f->next = disk.files;
	disk.files = f;
	return f;
}

static void drop_writes(struct lie_file *f)
{
	struct write *w, *tmp;

	DL_FOREACH_SAFE (f->writes, w, tmp) {
		free(w->data);
		free(w);
	}
	f->writes = NULL;
}

static struct name *name_of(const char *path)
{
	struct name *n;

	HASH_FIND_STR(disk.names, path, n);
	if (n)
		return n;
	n = xcalloc(1, sizeof(*n));
	n->path = xstrdup(path);
	HASH_ADD_KEYPTR(hh, disk.names, n->path, strlen(n->path), n);
	return n;
}

int liedisk_watches(const char *path)
{
	size_t n;

	if (!disk.on)
		return 0;
	n = strlen(disk.root);
	return strncmp(path, disk.root, n) == 0 && path[n] == '/';
}

int liedisk_is_root(const char *path)
{
	return disk.on && strcmp(path, disk.root) == 0;
}

struct lie_file *liedisk_of_path(const char *path)
{
	struct name *n;

	if (!liedisk_watches(path))
		return NULL;
	HASH_FIND_STR(disk.names, path, n);
	return n ? n->now : NULL;
}

struct lie_file *liedisk_of_fd(int fd)
{
	char link[64], path[4096];
	ssize_t n;

	if (!disk.on)
		return NULL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return liedisk_of_path(path);
}

static void free_change(struct change *c)
{
	DL_DELETE(disk.changes, c);
	free(c->dir);
	free(c->path);
	free(c->from);
	free(c);
}

static void change(const char *path, struct lie_file *f, const char *from)
{
	struct change *c = xcalloc(1, sizeof(*c));

	c->path = xstrdup(path);
	c->dir = xstrdup(path);
	*strrchr(c->dir, '/') = '\0';
	c->from = from ? xstrdup(from) : NULL;
	c->f = f;
	DL_APPEND(disk.changes, c);
	name_of(path)->now = f;
	if (from)
		name_of(from)->now = NULL;
}

static void make_durable(struct change *c)
{
	struct change *old, *tmp;

	name_of(c->path)->durable = c->f;
	if (c->from) {
		name_of(c->from)->durable = NULL;
		/* What the file was called before must not come back after this. */
		DL_FOREACH_SAFE (disk.changes, old, tmp) {
			if (old == c)
				break;
			if (strcmp(old->path, c->from) == 0)
				free_change(old);
		}
	}
	free_change(c);
}

void liedisk_created(const char *path)
{
	struct stat st;

	if (liedisk_watches(path) && !liedisk_of_path(path))
		change(path, new_file(lstat(path, &st) == 0 && S_ISDIR(st.st_mode)), NULL);
}

void liedisk_removed(const char *path)
{
	if (liedisk_of_path(path))
		change(path, NULL, NULL);
}

/* A folder's files go with it. */
void liedisk_renamed(const char *from, const char *to)
{
	size_t n = strlen(from);
	struct name *nm, *tmp;

	if (!liedisk_of_path(from))
		return;
	if (liedisk_of_path(from)->is_dir)
		HASH_ITER (hh, disk.names, nm, tmp)
			if (nm->now && strncmp(nm->path, from, n) == 0 && nm->path[n] == '/')
				tap_bail("liedisk: rename of %s, a folder that is not empty", from);
	change(to, liedisk_of_path(from), from);
}

void liedisk_linked(const char *from, const char *to)
{
	if (liedisk_of_path(from))
		change(to, liedisk_of_path(from), NULL);
}

/* ---- writes ------------------------------------------------------------------------------------------ */

void liedisk_wrote(struct lie_file *f, uint64_t at, const void *data, size_t n)
{
	struct write *w = xcalloc(1, sizeof(*w));

	if (at + n > FILE_MAX)
		tap_bail("liedisk: a file of more than %u bytes", FILE_MAX);
	w->at = at;
	w->n = n;
	w->data = xmemdup(data, n + !n);
	DL_APPEND(f->writes, w);
}

void liedisk_truncated(struct lie_file *f, uint64_t size)
{
	struct write *w = xcalloc(1, sizeof(*w));

	w->at = size;
	DL_APPEND(f->writes, w);
}

static void resize(struct lie_file *f, uint64_t size)
{
	f->data = xrealloc(f->data, size + 1);
	if (size > f->len)
		memset(f->data + f->len, 0, size - f->len);
	f->len = size;
}

static void put(struct lie_file *f, const struct write *w)
{
	if (!w->data) {
		resize(f, w->at);
		return;
	}
	if (w->at + w->n > f->len)
		resize(f, w->at + w->n);
	memcpy(f->data + w->at, w->data, w->n);
}

static void put_all(struct lie_file *f)
{
	struct write *w;

	DL_FOREACH (f->writes, w)
		put(f, w);
	drop_writes(f);
}

/* ---- the cut ----------------------------------------------------------------------------------------- */

/* Each sector of w by itself: written, lost, or (spoil) garbage. */
static void put_sectors(struct lie_file *f, const struct write *w, int spoil)
{
	size_t step;

	if (!w->data) {
		if (below(2))
			put(f, w);
		return;
	}
	for (size_t done = 0; done < w->n; done += step) {
		struct write part = {.at = w->at + done, .data = w->data + done};

		step = SECTOR - part.at % SECTOR;
		if (step > w->n - done)
			step = w->n - done;
		part.n = step;
		if (spoil && below(4) == 0)
			for (size_t i = 0; i < step; i++)
				part.data[i] = (uint8_t)draw();
		else if (below(2))
			continue;
		put(f, &part);
	}
}

static void cut_file(struct lie_file *f)
{
	unsigned how = below(5);
	uint64_t size = f->len;
	struct write *w;

	DL_FOREACH (f->writes, w) {
		if (w->at + w->n > size)
			size = w->at + w->n;
		if (how == 1 || (how == 2 && below(2)))
			put(f, w);
		else if (how > 2)
			put_sectors(f, w, how == 4);
	}
	/* It had grown already, its new bytes were still on their way. */
	if (how > 1 && size > f->len && below(2))
		resize(f, size);
	drop_writes(f);
}

static void cut_names(void)
{
	struct change *c, *other, *tmp;

	while ((c = disk.changes)) {
		char *dir = xstrdup(c->dir);
		unsigned n = 0, keep;

		DL_FOREACH (disk.changes, other)
			n += strcmp(other->dir, dir) == 0;
		keep = below(n + 1);
		/* One at a time: making one durable may drop another. */
		for (int any = 1; any;) {
			any = 0;
			DL_FOREACH_SAFE (disk.changes, other, tmp) {
				if (strcmp(other->dir, dir) != 0)
					continue;
				any = 1;
				if (keep > 0) {
					keep--;
					make_durable(other);
				} else {
					free_change(other);
				}
				break;
			}
		}
		free(dir);
	}
}

static int clear_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	char *garbage;
	struct err e;

	(void)type;
	if (at->level == 0)
		return 0;
	if (S_ISREG(st->st_mode) && !liedisk_of_path(path) && below(2)) {
		garbage = xmalloc((size_t)st->st_size + 1);
		for (off_t i = 0; i < st->st_size; i++)
			garbage[i] = (char)draw();
		if (fs_replace(path, garbage, (size_t)st->st_size, 0600, &e) < 0)
			tap_bail("liedisk: %s", e.text);
		free(garbage);
		return 0;
	}
	if (remove(path) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		tap_bail("liedisk: remove %s: %s", path, strerror(errno));
	return 0;
}

/* 1 when it and all folders above it are there. */
static int reachable(const char *path)
{
	char *dir = xstrdup(path), *slash = strrchr(dir, '/');
	struct name *n;
	int yes = 1;

	*slash = '\0';
	if (strlen(dir) > strlen(disk.root)) {
		HASH_FIND_STR(disk.names, dir, n);
		yes = n && n->durable && n->durable->is_dir && reachable(dir);
	}
	free(dir);
	return yes;
}

static void write_back(void)
{
	struct name *n;
	struct err e;

	for (n = disk.names; n; n = n->hh.next) {
		if (!n->durable || !reachable(n->path))
			continue;
		if (n->durable->is_dir && fs_mkdir_p(n->path, 0700, &e) < 0)
			tap_bail("liedisk: %s", e.text);
	}
	for (n = disk.names; n; n = n->hh.next)
		if (n->durable && !n->durable->is_dir && reachable(n->path) &&
		    fs_replace(n->path, n->durable->data ? n->durable->data : (uint8_t *)"", n->durable->len, 0600,
		               &e) < 0)
			tap_bail("liedisk: %s", e.text);
}

static void __attribute__((noreturn)) cut(void)
{
	for (struct lie_file *f = disk.files; f; f = f->next)
		cut_file(f);
	cut_names();
	if (nftw(disk.root, clear_one, 16, FTW_DEPTH | FTW_PHYS) < 0)
		tap_bail("liedisk: %s: %s", disk.root, strerror(errno));
	disk.on = 0;
	write_back();
	_exit(LIEDISK_CUT);
}

/* ---- syncs and failures -------------------------------------------------------------------------------- */

int liedisk_op(enum lie_op op, const char *path)
{
	const struct lie_plan *p = &disk.plan;
	unsigned call;

	if (!disk.on || (path && !liedisk_watches(path)))
		return 0;
	call = ++disk.count[op];
	if (op == LIE_SYNC && p->cut_sync && call == p->cut_sync)
		cut();
	if (op != p->fail_op || p->fail_nth == 0 || call < p->fail_nth || call - p->fail_nth >= p->fail_repeat)
		return 0;
	disk.failed++;
	return p->fail_errno;
}

void liedisk_sync_file(struct lie_file *f)
{
	if (!disk.plan.deaf)
		put_all(f);
}

void liedisk_sync_failed(struct lie_file *f)
{
	drop_writes(f);
}

void liedisk_sync_dir(const char *path)
{
	struct change *c, *tmp;

	for (int any = !disk.plan.deaf; any;) {
		any = 0;
		DL_FOREACH_SAFE (disk.changes, c, tmp) {
			if (strcmp(c->dir, path) == 0) {
				any = 1;
				make_durable(c);
				break;
			}
		}
	}
}

/* ---- start and end ------------------------------------------------------------------------------------- */

static int note_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	struct lie_file *f;
	struct name *n;
	struct err e;
	char *data;

	(void)type;
	if (at->level == 0 || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)))
		return 0;
	f = new_file(S_ISDIR(st->st_mode));
	if (!f->is_dir) {
		if (fs_read_file(path, FILE_MAX, &data, &f->len, &e) < 0)
			tap_bail("liedisk: %s", e.text);
		f->data = (uint8_t *)data;
	}
	n = name_of(path);
	n->now = n->durable = f;
	return 0;
}

void liedisk_start(const char *root, const struct lie_plan *p)
{
	assert(!disk.on);
	disk.root = realpath(root, NULL);
	if (!disk.root || nftw(disk.root, note_one, 16, FTW_PHYS) < 0)
		tap_bail("liedisk: %s: %s", root, strerror(errno));
	memset(disk.count, 0, sizeof(disk.count));
	disk.failed = 0;
	disk.plan = *p;
	disk.random = p->seed;
	disk.on = 1;
}

void liedisk_heal(void)
{
	liedisk_lock();
	disk.plan.fail_nth = 0;
	liedisk_unlock();
}

unsigned liedisk_count(enum lie_op op)
{
	return disk.count[op];
}

unsigned liedisk_failed(void)
{
	return disk.failed;
}

void liedisk_stop(void)
{
	struct lie_file *f;
	struct name *n, *tmp;

	liedisk_lock();
	disk.on = 0;
	while (disk.changes)
		free_change(disk.changes);
	HASH_ITER (hh, disk.names, n, tmp) {
		HASH_DEL(disk.names, n);
		free(n->path);
		free(n);
	}
	while ((f = disk.files)) {
		disk.files = f->next;
		drop_writes(f);
		free(f->data);
		free(f);
	}
	free(disk.root);
	disk.root = NULL;
	liedisk_unlock();
}
