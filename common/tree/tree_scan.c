/*
 * tree_scan: a directory -> manifest and chunks. See tree.h.
 *
 * Two passes: names and types of everything, sorted by path; then the content in that order. Each pass opens
 * directories one by one without following links, since the tree may belong to somebody who changes it while
 * a process with more rights reads it. A file that became shorter meanwhile is an error; of one that grew,
 * the size seen at its opening is taken.
 */
#include "common/tree/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/xalloc.h"
#include "common/tree/tree_int.h"

#define ENTRIES_MAX 2000000
/* A pack is cut after a file whose path's hash is 0 modulo this: a changed file renews about this many small
 * ones. */
#define PACK_FILES 32

struct found {
	char type;
	unsigned mode;
	char *path, *target;
};

struct packed { /* a small file in the pack that is being filled; its line waits for the digest */
	size_t index;
	uint64_t size;
	size_t offset;
};

struct scan {
	tree_skip_fn skip;
	void *skip_arg;
	tree_chunk_fn chunk;
	void *chunk_arg;
	struct found *v;
	size_t n, cap, path_bytes;
	uint64_t special;
	struct tree_set *seen;
	struct tree_stats st;
	char **parts; /* of v[i] when it is a file */
	uint64_t *sizes;
	uint8_t *pack, *block; /* TREE_CHUNK_MAX each */
	size_t pack_n, n_packed, packed_cap;
	struct packed *packed;
	struct err *e;
};

/* ---- first pass ---------------------------------------------------------------------------------- */

static int add_found(struct scan *s, char type, unsigned mode, const char *path, const char *target)
{
	if (s->n >= ENTRIES_MAX || s->path_bytes > TREE_MANIFEST_MAX)
		return err_set(s->e, ERR_LIMIT, "more files than one tree may have (%d)", ENTRIES_MAX);
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 256;
		s->v = xreallocarray(s->v, s->cap, sizeof(*s->v));
	}
	s->path_bytes += strlen(path) + 1;
	s->v[s->n++] = (struct found){type, mode, xstrdup(path), xstrdup(target)};
	return 0;
}

static int add_link(struct scan *s, int dir_fd, const char *name, const char *path)
{
	char target[TREE_PATH_MAX + 2];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);

	if (n < 0)
		return errno == ENOENT ? 0 : err_sys(s->e, errno, "cannot read the link %s", path);
	target[n] = '\0';
	if (!tree_link_ok(path, target)) {
		s->special++;
		return 0;
	}
	return add_found(s, 'l', 0777, path, target);
}

static int walk_dir(struct scan *s, int fd, const char *path, unsigned depth);

static int walk_entry(struct scan *s, int dir_fd, const char *dir_path, const char *name, unsigned depth)
{
	char path[TREE_PATH_MAX + 2];
	struct stat st;
	int fd;

	if (snprintf(path, sizeof(path), "%s%s%s", dir_path, *dir_path ? "/" : "", name) > TREE_PATH_MAX ||
	    depth >= TREE_DEPTH)
		return err_set(s->e, ERR_LIMIT, "%.200s/%.100s: the path is too long or too deep", dir_path, name);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(s->e, errno, "cannot look at %s", path); /* removed meanwhile */
	if (s->skip && s->skip(path, S_ISDIR(st.st_mode), s->skip_arg))
		return 0;
	if (S_ISLNK(st.st_mode))
		return add_link(s, dir_fd, name, path);
	if (S_ISREG(st.st_mode))
		return add_found(s, 'f', st.st_mode & 0777, path, "");
	if (!S_ISDIR(st.st_mode)) {
		s->special++;
		return 0;
	}
	if (add_found(s, 'd', st.st_mode & 0777, path, "") < 0)
		return -1;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(s->e, errno, "cannot open the folder %s", path);
	return walk_dir(s, fd, path, depth + 1);
}

/* Takes fd. */
static int walk_dir(struct scan *s, int fd, const char *path, unsigned depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *de;
	int rc = 0;

	if (!d) {
		close(fd);
		return err_sys(s->e, errno, "cannot read the folder %s", *path ? path : ".");
	}
	while (rc == 0 && (errno = 0, de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			rc = walk_entry(s, fd, path, de->d_name, depth);
	if (rc == 0 && errno)
		rc = err_sys(s->e, errno, "cannot read the folder %s", *path ? path : ".");
	closedir(d);
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

/* ---- second pass --------------------------------------------------------------------------------- */

/* Opens a file below root, following no link on the way. */
static int open_below(int root, const char *path, const char *what, struct err *e)
{
	int fd = root, next;
	char part[256];

	for (;;) {
		size_t n = strcspn(path, "/");
		int last = !path[n];

		snprintf(part, sizeof(part), "%.*s", (int)n, path);
		/* O_NONBLOCK: a FIFO put in the file's place must not hold us. */
		next = openat(fd, part, (last ? O_NONBLOCK : O_DIRECTORY) | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			err_sys(e, errno, "cannot open %s", what);
		if (fd != root)
			close(fd);
		if (next < 0 || last)
			return next;
		fd = next;
		path += n + 1;
	}
}

/* Hands out a chunk when it was not seen yet; its digest. */
static int give_chunk(struct scan *s, const uint8_t *data, size_t n, char digest[HASH_HEX_SIZE])
{
	int rc = 0;

	hash_hex(data, n, digest);
	if (!tree_set_add(s->seen, digest, HASH_HEX_SIZE - 1))
		return 0;
	s->st.chunks++;
	if (s->chunk)
		rc = s->chunk(digest, data, n, s->chunk_arg, s->e);
	if (rc > 0) {
		s->st.new_chunks++;
		s->st.new_bytes += n;
	}
	return rc < 0 ? -1 : 0;
}

static int close_pack(struct scan *s)
{
	char digest[HASH_HEX_SIZE];

	if (!s->n_packed)
		return 0;
	if (give_chunk(s, s->pack, s->pack_n, digest) < 0)
		return -1;
	for (size_t i = 0; i < s->n_packed; i++) {
		const struct packed *p = &s->packed[i];

		s->parts[p->index] = xasprintf("%s:%zu:%" PRIu64, digest, p->offset, p->size);
	}
	s->n_packed = s->pack_n = 0;
	return 0;
}

static int read_exactly(struct scan *s, int fd, uint8_t *out, size_t n, const char *path)
{
	while (n) {
		ssize_t got = read(fd, out, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(s->e, errno, "cannot read %s", path);
		if (!got)
			return err_set(s->e, ERR_CONFLICT, "%s became shorter while it was read", path);
		out += got;
		n -= (size_t)got;
	}
	return 0;
}

static int take_small(struct scan *s, size_t index, int fd, size_t size)
{
	uint8_t hash[HASH_BYTES];
	const char *path = s->v[index].path;

	if (s->pack_n + size > TREE_CHUNK_MAX && close_pack(s) < 0)
		return -1;
	if (read_exactly(s, fd, s->pack + s->pack_n, size, path) < 0)
		return -1;
	if (s->n_packed == s->packed_cap) {
		s->packed_cap = s->packed_cap ? s->packed_cap * 2 : 64;
		s->packed = xreallocarray(s->packed, s->packed_cap, sizeof(*s->packed));
	}
	s->packed[s->n_packed++] = (struct packed){index, size, s->pack_n};
	s->pack_n += size;
	hash_bytes(path, strlen(path), hash);
	return hash[0] % PACK_FILES == 0 ? close_pack(s) : 0;
}

static int take_large(struct scan *s, size_t index, int fd, uint64_t size)
{
	char digest[HASH_HEX_SIZE], *parts = NULL;
	size_t used = 0, cap = 0;

	for (uint64_t left = size; left;) {
		size_t n = left < TREE_CHUNK_MAX ? (size_t)left : TREE_CHUNK_MAX;

		if (read_exactly(s, fd, s->block, n, s->v[index].path) < 0 ||
		    give_chunk(s, s->block, n, digest) < 0) {
			free(parts);
			return -1;
		}
		if (used + HASH_HEX_SIZE + 32 > cap) {
			cap = cap ? cap * 2 : 1024;
			parts = xrealloc(parts, cap);
		}
		used += (size_t)snprintf(parts + used, cap - used, "%s%s:0:%zu", used ? "," : "", digest, n);
		left -= n;
	}
	s->parts[index] = parts;
	return 0;
}

static int take_file(struct scan *s, int root, size_t index)
{
	struct found *f = &s->v[index];
	int fd = open_below(root, f->path, f->path, s->e), rc;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(s->e, ERR_CONFLICT, "%s was changed while the folder was read", f->path);
	}
	f->mode = st.st_mode & 0777;
	s->sizes[index] = (uint64_t)st.st_size;
	s->st.files++;
	s->st.bytes += (uint64_t)st.st_size;
	if (st.st_size == 0) {
		s->parts[index] = xstrdup("-");
		rc = 0;
	} else if (st.st_size <= TREE_PACK_MAX) {
		rc = take_small(s, index, fd, (size_t)st.st_size);
	} else {
		rc = take_large(s, index, fd, (uint64_t)st.st_size);
	}
	close(fd);
	return rc;
}

/* ---- manifest ------------------------------------------------------------------------------------ */

static int put_escaped(struct buf *b, const char *s)
{
	static const char digits[] = "0123456789ABCDEF";

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};

		if (c <= 0x20 || c == '%' || c == 0x7f ? buf_put(b, escaped, 3) : buf_put_u8(b, c))
			return -1;
	}
	return 0;
}

static int put_line(struct buf *b, const struct scan *s, size_t i)
{
	const struct found *f = &s->v[i];
	char head[64];

	if (f->type == 'f')
		snprintf(head, sizeof(head), "f %o %" PRIu64 " ", f->mode, s->sizes[i]);
	else
		snprintf(head, sizeof(head), "%c %o ", f->type, f->mode);
	if (buf_put(b, head, strlen(head)) || put_escaped(b, f->path))
		return -1;
	if (f->type == 'l' && (buf_put_u8(b, ' ') || put_escaped(b, f->target)))
		return -1;
	if (f->type == 'f' && (buf_put_u8(b, ' ') || buf_put(b, s->parts[i], strlen(s->parts[i]))))
		return -1;
	return buf_put_u8(b, '\n');
}

static int make_manifest(struct scan *s, char **manifest, size_t *n, char digest[HASH_HEX_SIZE])
{
	struct buf b;

	buf_init(&b, TREE_MANIFEST_MAX);
	buf_put(&b, TREE_HEADER, strlen(TREE_HEADER));
	for (size_t i = 0; i < s->n; i++) {
		if (put_line(&b, s, i) == 0)
			continue;
		buf_fini(&b);
		return err_set(s->e, ERR_LIMIT, "the list of files would have more than %u bytes", TREE_MANIFEST_MAX);
	}
	*n = buf_left(&b);
	*manifest = xstrndup((const char *)buf_head(&b), *n);
	hash_hex(*manifest, *n, digest);
	buf_fini(&b);
	return 0;
}

static void scan_fini(struct scan *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].path);
		free(s->v[i].target);
		if (s->parts)
			free(s->parts[i]);
	}
	free(s->v);
	free(s->parts);
	free(s->sizes);
	free(s->pack);
	free(s->block);
	free(s->packed);
	tree_set_destroy(s->seen);
}

static int scan_content(struct scan *s, int root)
{
	s->seen = tree_set_create();
	s->parts = xcalloc(s->n ? s->n : 1, sizeof(*s->parts));
	s->sizes = xcalloc(s->n ? s->n : 1, sizeof(*s->sizes));
	s->pack = xmalloc(TREE_CHUNK_MAX);
	s->block = xmalloc(TREE_CHUNK_MAX);
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].type == 'f' && take_file(s, root, i) < 0)
			return -1;
	return close_pack(s);
}

int tree_scan(const char *dir, tree_skip_fn skip, void *skip_arg, tree_chunk_fn chunk, void *chunk_arg,
              char **manifest, size_t *manifest_n, char digest[HASH_HEX_SIZE], struct tree_stats *st,
              uint64_t *special, struct err *e)
{
	int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return err_sys(e, errno, "cannot open the folder %s", dir);
	return tree_scan_open(root, dir, skip, skip_arg, chunk, chunk_arg, manifest, manifest_n, digest, st,
	                      special, e);
}

int tree_scan_open(int root, const char *shown, tree_skip_fn skip, void *skip_arg, tree_chunk_fn chunk,
                   void *chunk_arg, char **manifest, size_t *manifest_n, char digest[HASH_HEX_SIZE],
                   struct tree_stats *st, uint64_t *special, struct err *e)
{
	struct scan s = {.skip = skip, .skip_arg = skip_arg, .chunk = chunk, .chunk_arg = chunk_arg, .e = e};
	int walk = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = -1;

	if (walk < 0)
		err_sys(e, errno, "cannot open the folder %s", shown);
	else if (walk_dir(&s, walk, "", 0) == 0) {
		if (s.n)
			qsort(s.v, s.n, sizeof(*s.v), by_path);
		if (scan_content(&s, root) == 0 && make_manifest(&s, manifest, manifest_n, digest) == 0) {
			rc = 0;
			if (st)
				*st = s.st;
			if (special)
				*special = s.special;
		}
	}
	close(root);
	scan_fini(&s);
	return rc;
}
