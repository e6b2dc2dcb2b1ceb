/*
 * tree_extract: manifest and blobs -> a directory. See tree.h.
 *
 * The manifest is checked while it is walked (tree_each): parents come before their children and are
 * directories, links stay inside. On disk, too, every step is taken without following a link, so a link that
 * the target already has cannot lead out. Modes of directories are set at the end, so that a read-only
 * one can be filled.
 */
#include "common/tree/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "common/tree/tree_int.h"

#define CACHED 2 /* the pack in use, and the chunk of a large file in between */

struct cached {
	char digest[HASH_HEX_SIZE];
	char *data;
	size_t n;
	uint64_t used; /* turn of the last use */
};

struct extract {
	const char *blobdir;
	int root;
	struct cached cache[CACHED];
	uint64_t turn;
	struct tree_stats st;
	struct tree_set *chunks;
};

static const struct cached *load(struct extract *x, const char *digest, struct err *e)
{
	struct cached *oldest = &x->cache[0];
	char *data;
	size_t n;

	for (size_t i = 0; i < CACHED; i++) {
		struct cached *c = &x->cache[i];

		if (c->data && strcmp(c->digest, digest) == 0) {
			c->used = ++x->turn;
			return c;
		}
		if (c->used < oldest->used)
			oldest = c;
	}
	if (blob_get(x->blobdir, digest, TREE_CHUNK_MAX, &data, &n, e) < 0)
		return NULL;
	x->st.chunks += (uint64_t)tree_set_add(x->chunks, digest, strlen(digest));
	free(oldest->data);
	memcpy(oldest->digest, digest, HASH_HEX_SIZE);
	oldest->data = data;
	oldest->n = n;
	oldest->used = ++x->turn;
	return oldest;
}

/* Opens the parent of path (x->root itself: a duplicate); *name is its last part. */
static int open_parent(const struct extract *x, const char *path, const char **name, struct err *e)
{
	int fd = fcntl(x->root, F_DUPFD_CLOEXEC, 0);
	const char *whole = path;
	char part[256];

	while (fd >= 0) {
		size_t n = strcspn(path, "/");
		int next;

		if (!path[n]) {
			*name = path;
			return fd;
		}
		snprintf(part, sizeof(part), "%.*s", (int)n, path);
		next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			err_sys(e, errno, "cannot open the folder above %s", whole);
		close(fd);
		if (next < 0)
			return -1;
		fd = next;
		path += n + 1;
	}
	return err_sys(e, errno, "cannot open the folder above %s", whole);
}

static int write_parts(struct extract *x, int fd, const struct tree_entry *en, struct err *e)
{
	const char *list = en->chunks;
	char digest[HASH_HEX_SIZE];
	uint64_t off, len;
	int rc;

	while ((rc = tree_next_part(&list, digest, &off, &len)) == 1) {
		const struct cached *c = load(x, digest, e);

		if (!c)
			return -1;
		if (off + len > c->n)
			return err_set(e, ERR_INVALID, "%s: chunk %s is shorter than the manifest says", en->path,
			               digest);
		if (fs_write_all(fd, c->data + off, (size_t)len, e) < 0)
			return err_wrap(e, "%s", en->path);
	}
	return rc;
}

static int write_file(struct extract *x, int dir, const char *name, const struct tree_entry *en,
                      struct err *e)
{
	int fd, rc;

	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, errno, "cannot replace %s", en->path);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot create %s", en->path);
	rc = write_parts(x, fd, en, e);
	if (rc == 0 && fchmod(fd, en->mode) < 0)
		rc = err_sys(e, errno, "cannot set the mode of %s", en->path);
	if (close(fd) < 0 && rc == 0)
		rc = err_sys(e, errno, "cannot write %s", en->path);
	x->st.files++;
	x->st.bytes += en->size;
	return rc;
}

static int write_entry(const struct tree_entry *en, void *arg, struct err *e)
{
	struct extract *x = arg;
	const char *name = NULL;
	int dir = open_parent(x, en->path, &name, e), rc = 0;

	if (dir < 0)
		return -1;
	if (en->type == 'f') {
		rc = write_file(x, dir, name, en, e);
	} else if (en->type == 'd') {
		struct stat st;

		if (mkdirat(dir, name, 0700) < 0 &&
		    (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)))
			rc = err_sys(e, errno, "cannot make the folder %s", en->path);
	} else {
		if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
			rc = err_sys(e, errno, "cannot replace %s", en->path);
		else if (symlinkat(en->target, dir, name) < 0)
			rc = err_sys(e, errno, "cannot make the link %s", en->path);
	}
	close(dir);
	return rc;
}

static int set_dir_mode(const struct tree_entry *en, void *arg, struct err *e)
{
	struct extract *x = arg;
	const char *name = NULL;
	int dir, fd, rc = 0;

	if (en->type != 'd')
		return 0;
	dir = open_parent(x, en->path, &name, e);
	if (dir < 0)
		return -1;
	/* By descriptor: fchmodat would follow a link put there meanwhile. */
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, en->mode | 0700) < 0)
		rc = err_sys(e, errno, "cannot set the mode of %s", en->path);
	if (fd >= 0)
		close(fd);
	close(dir);
	return rc;
}

int tree_extract(const char *manifest, size_t n, const char *blobdir, const char *dir, struct tree_stats *st,
                 struct err *e)
{
	struct extract x = {.blobdir = blobdir, .root = -1};
	int rc = -1;

	/* Once without writing: a bad manifest leaves nothing behind. */
	if (tree_each(manifest, n, NULL, NULL, e) < 0 || fs_mkdir_p(dir, 0755, e) < 0)
		return -1;
	x.root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (x.root < 0)
		return err_sys(e, errno, "cannot open the folder %s", dir);
	x.chunks = tree_set_create();
	if (tree_each(manifest, n, write_entry, &x, e) == 0 && tree_each(manifest, n, set_dir_mode, &x, e) == 0)
		rc = 0;
	if (rc == 0 && st)
		*st = x.st;
	for (size_t i = 0; i < CACHED; i++)
		free(x.cache[i].data);
	tree_set_destroy(x.chunks);
	close(x.root);
	return rc;
}
