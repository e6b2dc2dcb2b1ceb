/*
 * blobstore: putting, asking, reading.
 *
 * A reference is a hard link of the blob in the owner's folder: one system call, no row to write, and any
 * thread can make and test it. Only its name is used; content is read from blobs/.
 *
 * The age of a blob, for garbage collection, is its time of modification. hearthd sets it by its own clock
 * at each put and at each question that was answered with yes.
 */
#include "controller/files/blobs/blobstore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "common/os/fsutil.h"
#include "controller/files/blobs/blobstore_int.h"

#define OWNER_MAX 64

/* ---- open ------------------------------------------------------------------------------------- */

static int sync_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0 || fsync(fd) < 0)
		rc = err_sys(e, errno, "fsync %s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* All 256 at once, so that no blob waits for a folder's name to be durable. */
static int make_fan(const char *dir, struct err *e)
{
	char path[BLOB_PATH_MAX];

	for (unsigned i = 0; i < 256; i++) {
		snprintf(path, sizeof(path), "%s/%02x", dir, i);
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return err_sys(e, errno, "make %s", path);
	}
	return sync_dir(dir, e);
}

struct blobstore *blobstore_open(const char *data_dir, const struct clock *clock, struct err *e)
{
	struct blobstore *b;

	if (strlen(data_dir) > BLOB_PATH_MAX - 512) {
		err_set(e, ERR_LIMIT, "the data folder's path is too long");
		return NULL;
	}
	b = xcalloc(1, sizeof(*b));
	b->blobs = xasprintf("%s/blobs", data_dir);
	b->owners = xasprintf("%s/blob-owners", data_dir);
	b->uploads = xasprintf("%s/uploads", data_dir);
	b->lock = xasprintf("%s/blobs.lock", data_dir);
	b->clock = clock;
	if (fs_mkdir_durable(b->blobs, 0700, e) < 0 || fs_mkdir_durable(b->owners, 0700, e) < 0 ||
	    fs_mkdir_p(b->uploads, 0700, e) < 0 || make_fan(b->blobs, e) < 0) {
		blobstore_close(b);
		return NULL;
	}
	return b;
}

void blobstore_close(struct blobstore *b)
{
	if (!b)
		return;
	free(b->blobs);
	free(b->owners);
	free(b->uploads);
	free(b->lock);
	free(b);
}

const char *blobstore_dir(const struct blobstore *b)
{
	return b->blobs;
}

int blob_lock(const struct blobstore *b, int exclusive, struct err *e)
{
	int fd = open(b->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return err_sys(e, errno, "open %s", b->lock);
	/* A descriptor of its own for each holder: threads exclude each other, too. Held for some system calls
	 * only. */
	do
		rc = flock(fd, exclusive ? LOCK_EX : LOCK_SH);
	while (rc < 0 && errno == EINTR);
	if (rc < 0) {
		err_sys(e, errno, "lock %s", b->lock);
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- names ------------------------------------------------------------------------------------ */

/* "a%40b": any owner is one proper folder name. */
static int blob_owner_name(const char *owner, char *out, size_t out_size, struct err *e)
{
	size_t n = 0;

	if (!*owner || strlen(owner) > OWNER_MAX)
		return err_set(e, ERR_INVALID, "an owner's name has 1 to %d bytes", OWNER_MAX);
	for (; *owner; owner++) {
		unsigned char c = (unsigned char)*owner;

		if (n + 4 > out_size)
			return err_set(e, ERR_LIMIT, "an owner's name is too long");
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
		    c == '_')
			out[n++] = (char)c;
		else
			n += (size_t)snprintf(out + n, out_size - n, "%%%02x", c);
	}
	out[n] = '\0';
	return 0;
}

static int check_digest(const char *digest, struct err *e)
{
	return hash_is_hex(digest)
	           ? 0
	           : err_set(e, ERR_INVALID,
	                     "invalid digest \"%.80s\"; expected 64 lower-case hexadecimal digits", digest);
}

static int blob_ref_path(const struct blobstore *b, const char *owner, const char *digest,
                         char out[BLOB_PATH_MAX], struct err *e)
{
	char name[OWNER_MAX * 3 + 4];

	if (check_digest(digest, e) < 0 || blob_owner_name(owner, name, sizeof(name), e) < 0)
		return -1;
	snprintf(out, BLOB_PATH_MAX, "%s/%s/%.2s/%s", b->owners, name, digest, digest);
	return 0;
}

static int upload_path(const struct blobstore *b, const char *owner, const char *digest,
                       char out[BLOB_PATH_MAX], struct err *e)
{
	char name[OWNER_MAX * 3 + 4];

	/* An agent's uploads: no owner's name holds an @; garbage collection passes over dots. */
	if (check_digest(digest, e) < 0 || (owner && blob_owner_name(owner, name, sizeof(name), e) < 0))
		return -1;
	snprintf(out, BLOB_PATH_MAX, "%s/%s.%s", b->uploads, owner ? name : "@agents", digest);
	return 0;
}

/* ---- references ------------------------------------------------------------------------------- */

static int has_ref(const struct blobstore *b, const char *owner, const char *digest)
{
	char path[BLOB_PATH_MAX];

	return !owner || (blob_ref_path(b, owner, digest, path, NULL) == 0 && access(path, F_OK) == 0);
}

static void touch_blob(const struct blobstore *b, const char *path)
{
	uint64_t now = clock_real_us(b->clock);
	struct timespec t[2] = {{.tv_nsec = UTIME_OMIT},
	                        {.tv_sec = (time_t)(now / 1000000), .tv_nsec = (long)(now % 1000000 * 1000)}};

	/* Only garbage collection reads it; it works on a blob that is not there, too. */
	utimensat(AT_FDCWD, path, t, 0);
}

static int make_ref(const char *blob, const char *ref, struct err *e)
{
	char dir[BLOB_PATH_MAX], *slash;
	int fd;

	if (access(ref, F_OK) == 0)
		return 0;
	snprintf(dir, sizeof(dir), "%s", ref);
	slash = strrchr(dir, '/');
	*slash = '\0';
	if (fs_mkdir_durable(dir, 0700, e) < 0)
		return -1;
	if (link(blob, ref) < 0 && errno != EEXIST) {
		/* A file system without hard links, or too many of this one: only the name counts. */
		fd = open(ref, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return err_sys(e, errno, "make %s", ref);
		close(fd);
	}
	if (sync_dir(dir, e) == 0)
		return 0;
	/* Else the next attempt would find it and believe that its name is durable. */
	unlink(ref);
	return -1;
}

/* With the lock held: puts content (NULL: it must be there, else ERR_NOT_FOUND), keeps it, and lets owner
 * have it. */
static int keep_locked(const struct blobstore *b, const char *owner, const char *digest, const void *content,
                       size_t n, struct err *e)
{
	char blob[BLOB_PATH_MAX], ref[BLOB_PATH_MAX];

	if (check_digest(digest, e) < 0 || (owner && blob_ref_path(b, owner, digest, ref, e) < 0))
		return -1;
	blob_path(b->blobs, digest, blob, sizeof(blob));
	if (content && blob_put(b->blobs, digest, content, n, e) < 0)
		return -1;
	if (!content && access(blob, F_OK) < 0)
		return err_sys(e, errno, "blob %s", digest);
	touch_blob(b, blob);
	return owner ? make_ref(blob, ref, e) : 0;
}

static int keep_blob(const struct blobstore *b, const char *owner, const char *digest, const void *content,
                     size_t n, struct err *e)
{
	int lock = blob_lock(b, 0, e), rc;

	if (lock < 0)
		return -1;
	rc = keep_locked(b, owner, digest, content, n, e);
	close(lock);
	return rc;
}

static int add_reference(const struct blobstore *b, const char *owner, const char *digest, struct err *e)
{
	return keep_blob(b, owner, digest, NULL, 0, e);
}

/* ---- asking ----------------------------------------------------------------------------------- */

int blobstore_has(struct blobstore *b, const char *owner, const char *digest)
{
	return hash_is_hex(digest) && has_ref(b, owner, digest) && blob_has(b->blobs, digest);
}

int blobstore_is_fresh(struct blobstore *b, const char *digest)
{
	uint64_t now_s = clock_real_us(b->clock) / 1000000;
	char path[BLOB_PATH_MAX];
	struct stat st;

	return blob_path(b->blobs, digest, path, sizeof(path)) == 0 && stat(path, &st) == 0 &&
	       (uint64_t)st.st_mtime + BLOB_MIN_AGE_S / 2 >= now_s;
}

int blobstore_missing(struct blobstore *b, const char *owner, const char *const *v, size_t n,
                      uint8_t *missing, struct err *e)
{
	struct err none;
	int lock;

	for (size_t i = 0; i < n; i++)
		if (check_digest(v[i], e) < 0)
			return -1;
	lock = blob_lock(b, 0, e);
	if (lock < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		missing[i] = !(has_ref(b, owner, v[i]) && keep_locked(b, owner, v[i], NULL, 0, &none) == 0);
	close(lock);
	return 0;
}

static int not_found(const char *digest, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "blob %s does not exist", digest);
}

int blobstore_open_blob(struct blobstore *b, const char *owner, const char *digest, uint64_t *size,
                        struct err *e)
{
	char path[BLOB_PATH_MAX];
	struct stat st;
	int fd;

	if (check_digest(digest, e) < 0)
		return -1;
	blob_path(b->blobs, digest, path, sizeof(path));
	fd = has_ref(b, owner, digest) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	/* One text for both cases: a user must not learn what others have. */
	if (fd < 0)
		return not_found(digest, e);
	if (fstat(fd, &st) < 0) {
		err_sys(e, errno, "blob %s", digest);
		close(fd);
		return -1;
	}
	*size = (uint64_t)st.st_size;
	return fd;
}

int blobstore_get(struct blobstore *b, const char *owner, const char *digest, char **data, size_t *n,
                  struct err *e)
{
	if (check_digest(digest, e) < 0)
		return -1;
	if (!blobstore_has(b, owner, digest))
		return not_found(digest, e);
	return blob_get(b->blobs, digest, BLOBSTORE_BLOB_MAX, data, n, e);
}

static int read_piece(int fd, uint64_t offset, char *p, size_t want, size_t *n, struct err *e)
{
	ssize_t got;

	for (*n = 0; *n < want; *n += (size_t)got) {
		got = pread(fd, p + *n, want - *n, (off_t)(offset + *n));
		if (got < 0 && errno == EINTR)
			got = 0;
		else if (got <= 0)
			return got < 0 ? err_sys(e, errno, "read a blob") : err_set(e, ERR_IO, "a blob became shorter");
	}
	return 0;
}

int blobstore_read(struct blobstore *b, const char *owner, const char *digest, uint64_t offset, size_t max,
                   char **data, size_t *n, uint64_t *total, struct err *e)
{
	cleanup_close int fd = blobstore_open_blob(b, owner, digest, total, e);
	size_t want;

	if (fd < 0)
		return -1;
	if (offset > *total)
		return err_set(e, ERR_INVALID, "blob %s has %" PRIu64 " bytes, not %" PRIu64, digest, *total, offset);
	if (offset == 0 && blob_check(b->blobs, digest, e) < 0)
		return -1;
	want = *total - offset < max ? (size_t)(*total - offset) : max;
	*data = xmalloc(want + 1);
	if (read_piece(fd, offset, *data, want, n, e) < 0) {
		free(*data);
		*data = NULL;
		return -1;
	}
	return 0;
}

/* What a manifest names; of any other blob nothing. */
static int read_contents(const struct blobstore *b, const char *digest, char ***v, size_t *n,
                         struct tree_stats *st, struct err *e)
{
	static const char head[] = "hearth-tree ";
	char *data;
	size_t len;
	int rc = 0;

	*v = NULL;
	*n = 0;
	*st = (struct tree_stats){0};
	if (blob_get(b->blobs, digest, BLOBSTORE_BLOB_MAX, &data, &len, e) < 0)
		return -1;
	if (len >= sizeof(head) - 1 && memcmp(data, head, sizeof(head) - 1) == 0)
		rc = tree_contents(data, len, v, n, st, e);
	free(data);
	return rc;
}

int blob_chunks(const struct blobstore *b, const char *digest, char ***v, size_t *n, struct err *e)
{
	struct tree_stats st;

	return read_contents(b, digest, v, n, &st, e);
}

void blob_chunks_free(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

/* A manifest may name one chunk a million times: each node would write all of it. */
static int check_size(const struct tree_stats *st, const char *manifest, uint64_t disk_bytes, struct err *e)
{
	char size[32], most[32];

	str_size(st->bytes, size, sizeof(size));
	if (disk_bytes && st->bytes > disk_bytes)
		return err_set(e, ERR_LIMIT, "the source tree %.12s has %s; resources.disk allows %s", manifest, size,
		               str_size(disk_bytes, most, sizeof(most)));
	if (st->bytes > BLOBSTORE_TREE_MAX)
		return err_set(e, ERR_LIMIT,
		               "the source tree %.12s has %s; at most %s are allowed: bring data as inputs", manifest,
		               size, str_size(BLOBSTORE_TREE_MAX, most, sizeof(most)));
	return 0;
}

int blobstore_check_tree(struct blobstore *b, const char *owner, const char *manifest, uint64_t disk_bytes,
                         struct err *e)
{
	uint8_t *absent;
	size_t n, missing = 0;
	struct tree_stats st;
	struct err none;
	char **v;
	int rc;

	if (check_digest(manifest, e) < 0)
		return -1;
	if (!has_ref(b, owner, manifest) || add_reference(b, owner, manifest, &none) < 0)
		return err_set(e, ERR_NOT_FOUND, "the source tree %s is missing; upload it first", manifest);
	if (read_contents(b, manifest, &v, &n, &st, e) < 0)
		return -1;
	absent = xcalloc(n + 1, 1);
	rc = check_size(&st, manifest, disk_bytes, e);
	if (rc == 0)
		rc = blobstore_missing(b, owner, (const char *const *)v, n, absent, e);
	for (size_t i = 0; i < n; i++)
		missing += absent[i];
	free(absent);
	if (rc == 0 && missing)
		rc = err_set(e, ERR_NOT_FOUND, "%zu of the %zu chunks of the source tree %s were not uploaded",
		             missing, n, manifest);
	blob_chunks_free(v, n);
	return rc;
}

int blobstore_give(struct blobstore *b, const char *owner, const char *digest, struct err *e)
{
	size_t n;
	char **v;
	int rc = 0;

	if (check_digest(digest, e) < 0 || blob_chunks(b, digest, &v, &n, e) < 0)
		return -1;
	/* The manifest last: a user who has it has everything. */
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_reference(b, owner, v[i], e);
	blob_chunks_free(v, n);
	return rc < 0 ? -1 : add_reference(b, owner, digest, e);
}

/* ---- uploads ---------------------------------------------------------------------------------- */

static int digest_is(const void *data, size_t n, const char *digest)
{
	char real[HASH_HEX_SIZE];

	hash_hex(data, n, real);
	return strcmp(real, digest) == 0;
}

static int check_piece(const struct blob_piece *p, struct err *e)
{
	if (p->n > BLOBSTORE_PIECE_MAX)
		return err_set(e, ERR_LIMIT, "the piece has %zu bytes; expected at most %u", p->n,
		               BLOBSTORE_PIECE_MAX);
	if (p->total > BLOBSTORE_BLOB_MAX || p->offset > BLOBSTORE_BLOB_MAX ||
	    p->offset + p->n > BLOBSTORE_BLOB_MAX)
		return err_set(e, ERR_LIMIT, "a blob has at most %u bytes", BLOBSTORE_BLOB_MAX);
	if (p->total && p->offset + p->n > p->total)
		return err_set(e, ERR_INVALID, "the piece ends at %" PRIu64 ", after the end of the blob at %" PRIu64,
		               p->offset + p->n, p->total);
	return 0;
}

/* Appends the new part of the piece. */
static int add_piece(int fd, const struct blob_piece *p, uint64_t *present, struct err *e)
{
	struct stat st;
	size_t skip;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "an upload");
	*present = (uint64_t)st.st_size;
	if (p->offset > *present)
		return err_set(e, ERR_CONFLICT, "the upload has %" PRIu64 " bytes, the piece begins at %" PRIu64,
		               *present, p->offset);
	if (p->offset + p->n <= *present)
		return 0;
	skip = (size_t)(*present - p->offset);
	if (lseek(fd, (off_t)*present, SEEK_SET) < 0)
		return err_sys(e, errno, "an upload");
	if (fs_write_all(fd, (const char *)p->data + skip, p->n - skip, e) < 0) {
		if (ftruncate(fd, (off_t)*present) < 0)
			return err_wrap(e, "upload");
		return -1;
	}
	*present = p->offset + p->n;
	return 0;
}

/* Is it whole? Then it becomes a blob. */
static int finish_upload(struct blobstore *b, const struct blob_piece *p, const char *path, uint64_t present,
                         int *complete, struct err *e)
{
	char *data;
	size_t n;
	int rc = 0;

	if (p->total && present < p->total)
		return 0;
	if (fs_read_file(path, BLOBSTORE_BLOB_MAX, &data, &n, e) < 0)
		return -1;
	if (digest_is(data, n, p->digest)) {
		rc = keep_blob(b, p->owner, p->digest, data, n, e);
		*complete = rc == 0;
		if (rc == 0)
			unlink(path);
	} else if (p->total) {
		unlink(path);
		rc = err_set(e, ERR_INVALID,
		             "the %zu bytes that came for blob %s have another digest; send it again from 0", n,
		             p->digest);
	}
	free(data);
	return rc;
}

static int put_piece(struct blobstore *b, const struct blob_piece *p, uint64_t *present, int *complete,
                     struct err *e)
{
	char path[BLOB_PATH_MAX];
	struct stat named, opened;
	int fd, rc;

	if (upload_path(b, p->owner, p->digest, path, e) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	/* The connection that had it before may have finished and removed it meanwhile. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &opened) < 0 || stat(path, &named) < 0 ||
	    named.st_ino != opened.st_ino) {
		close(fd);
		return err_set(e, ERR_BUSY, "blob %s is being uploaded by another connection", p->digest);
	}
	rc = add_piece(fd, p, present, e);
	touch_blob(b, path);
	if (rc == 0)
		rc = finish_upload(b, p, path, *present, complete, e);
	close(fd);
	return rc;
}

int blobstore_put(struct blobstore *b, const struct blob_piece *p, uint64_t *present, int *complete,
                  struct err *e)
{
	char path[BLOB_PATH_MAX];
	struct stat st;

	*present = 0;
	*complete = 0;
	if (check_digest(p->digest, e) < 0 || check_piece(p, e) < 0)
		return -1;
	if (has_ref(b, p->owner, p->digest) && blob_path(b->blobs, p->digest, path, sizeof(path)) == 0 &&
	    stat(path, &st) == 0 && add_reference(b, p->owner, p->digest, e) == 0) {
		*present = (uint64_t)st.st_size;
		*complete = 1;
		return 0;
	}
	/* The usual case: all of it in one piece, no file in between. */
	if (p->offset == 0 && (p->total ? p->total == p->n : digest_is(p->data, p->n, p->digest))) {
		if (keep_blob(b, p->owner, p->digest, p->data, p->n, e) < 0)
			return -1;
		if (upload_path(b, p->owner, p->digest, path, e) == 0)
			unlink(path);
		*present = p->n;
		*complete = 1;
		return 0;
	}
	return put_piece(b, p, present, complete, e);
}

int blobstore_present(struct blobstore *b, const char *owner, const char *digest, uint64_t *present,
                      int *complete, struct err *e)
{
	char path[BLOB_PATH_MAX];
	struct stat st;

	*present = 0;
	*complete = 0;
	if (upload_path(b, owner, digest, path, e) < 0)
		return -1;
	if (stat(path, &st) == 0)
		*present = (uint64_t)st.st_size;
	if (!blobstore_has(b, owner, digest) || blob_path(b->blobs, digest, path, sizeof(path)) < 0 ||
	    stat(path, &st) < 0)
		return 0;
	*present = (uint64_t)st.st_size;
	*complete = 1;
	return 0;
}
