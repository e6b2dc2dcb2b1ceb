/*
 * blobgc: mark and sweep.
 *
 * The mark covers every root and, when it is a manifest, its chunks. The sweep removes unmarked blobs that
 * were last put or asked for before the cut-off. The age is checked again under the exclusive lock at the
 * moment of removal, so a blob that was just promised to a caller stays. A manifest that exists but cannot
 * be read ends the run: its chunks are unknown, and the sweep could remove them.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/strutil.h"
#include "common/base/xalloc.h"
#include "controller/files/blobs/blobstore_int.h"

#define UPLOAD_AGE_S 86400

struct run {
	struct blobstore *b;
	struct blobstore_gc *gc;
	uint8_t (*marks)[HASH_BYTES]; /* sorted after marking */
	size_t n, cap;
	struct err e;
	int failed;
	uint64_t cutoff_us;
};

/* ---- mark ------------------------------------------------------------------------------------- */

static void mark_one(struct run *r, const char *digest)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 1024;
		r->marks = xreallocarray(r->marks, r->cap, sizeof(*r->marks));
	}
	if (str_unhex(digest, r->marks[r->n], HASH_BYTES) == 0)
		r->n++;
}

static int mark_blob(const char *digest, void *arg)
{
	struct run *r = arg;
	size_t n = 0;
	char **v;

	/* Rows may be older than this check: a text that is not a digest names no blob. */
	if (!hash_is_hex(digest))
		return 0;
	mark_one(r, digest);
	if (blob_chunks(r->b, digest, &v, &n, &r->e) < 0) {
		if (r->e.code == ERR_NOT_FOUND) {
			r->gc->manifests_missing++;
			return 0;
		}
		r->failed = 1;
		return -1;
	}
	for (size_t i = 0; i < n; i++)
		mark_one(r, v[i]);
	blob_chunks_free(v, n);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, HASH_BYTES);
}

static int is_marked(const struct run *r, const char *digest)
{
	uint8_t key[HASH_BYTES];

	return str_unhex(digest, key, HASH_BYTES) == 0 && r->n &&
	       bsearch(key, r->marks, r->n, sizeof(*r->marks), by_bytes);
}

static int join_path(char out[BLOB_PATH_MAX], const char *dir, const char *name, struct err *e)
{
	int n = snprintf(out, BLOB_PATH_MAX, "%s/%s", dir, name);

	return n > 0 && n < BLOB_PATH_MAX ? 0 : err_set(e, ERR_LIMIT, "%s: path is too long", dir);
}

/* ---- sweep ------------------------------------------------------------------------------------ */

static uint64_t modified_us(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000 + (uint64_t)st->st_mtim.tv_nsec / 1000;
}

/* Calls fn for each entry of a folder that does not begin with a dot. A folder that is not there has none. */
static int each_entry(const char *dir, int (*fn)(struct run *r, const char *dir, const char *name),
                      struct run *r)
{
	struct dirent *d;
	DIR *dp = opendir(dir);
	int rc = 0;

	if (!dp)
		return errno == ENOENT ? 0 : err_sys(&r->e, errno, "%s", dir);
	while (rc == 0 && (d = readdir(dp)))
		if (d->d_name[0] != '.')
			rc = fn(r, dir, d->d_name);
	closedir(dp);
	return rc;
}

static int sweep_blob(struct run *r, const char *dir, const char *name)
{
	char path[BLOB_PATH_MAX];
	struct stat st;
	int lock;

	if (join_path(path, dir, name, &r->e) < 0)
		return -1;
	if (stat(path, &st) < 0)
		return 0;
	/* Not a digest: torn temporary files and damaged blobs set aside; they age like the rest. */
	if ((hash_is_hex(name) && is_marked(r, name)) || modified_us(&st) >= r->cutoff_us) {
		r->gc->kept++;
		return 0;
	}
	lock = blob_lock(r->b, 1, &r->e);
	if (lock < 0)
		return -1;
	if (stat(path, &st) == 0 && modified_us(&st) < r->cutoff_us && unlink(path) == 0) {
		r->gc->removed++;
		r->gc->removed_bytes += (uint64_t)st.st_size;
	} else {
		r->gc->kept++;
	}
	close(lock);
	return 0;
}

static int sweep_fan(struct run *r, const char *dir, const char *name)
{
	char path[BLOB_PATH_MAX];

	return join_path(path, dir, name, &r->e) < 0 ? -1 : each_entry(path, sweep_blob, r);
}

/* Under the lock: a put makes blob and reference in two steps. */
static int sweep_ref(struct run *r, const char *dir, const char *name)
{
	char path[BLOB_PATH_MAX];
	int lock;

	if (join_path(path, dir, name, &r->e) < 0)
		return -1;
	if (hash_is_hex(name) && blob_has(r->b->blobs, name))
		return 0;
	lock = blob_lock(r->b, 1, &r->e);
	if (lock < 0)
		return -1;
	if (!(hash_is_hex(name) && blob_has(r->b->blobs, name)) && unlink(path) == 0)
		r->gc->references_removed++;
	close(lock);
	return 0;
}

static int sweep_ref_fan(struct run *r, const char *dir, const char *name)
{
	char path[BLOB_PATH_MAX];

	return join_path(path, dir, name, &r->e) < 0 ? -1 : each_entry(path, sweep_ref, r);
}

static int sweep_owner(struct run *r, const char *dir, const char *name)
{
	char path[BLOB_PATH_MAX];

	return join_path(path, dir, name, &r->e) < 0 ? -1 : each_entry(path, sweep_ref_fan, r);
}

/* Uploads of agents begin with a dot: not by each_entry(). */
static int sweep_uploads(struct run *r, uint64_t now_us)
{
	char path[BLOB_PATH_MAX];
	struct dirent *d;
	struct stat st;
	DIR *dp = opendir(r->b->uploads);

	if (!dp)
		return err_sys(&r->e, errno, "%s", r->b->uploads);
	while ((d = readdir(dp))) {
		if (join_path(path, r->b->uploads, d->d_name, &r->e) == 0 && stat(path, &st) == 0 &&
		    S_ISREG(st.st_mode) && modified_us(&st) + UPLOAD_AGE_S * 1000000ull < now_us && unlink(path) == 0)
			r->gc->uploads_removed++;
	}
	closedir(dp);
	return 0;
}

static int sweep_all(struct run *r, uint64_t now_us)
{
	if (r->n)
		qsort(r->marks, r->n, sizeof(*r->marks), by_bytes);
	if (each_entry(r->b->blobs, sweep_fan, r) < 0 || each_entry(r->b->owners, sweep_owner, r) < 0)
		return -1;
	return sweep_uploads(r, now_us);
}

int blobstore_gc(struct blobstore *b, struct blobstore_gc *gc, struct err *e)
{
	struct run r = {.b = b, .gc = gc};
	uint64_t now_us = clock_real_us(b->clock),
	         age_us = (gc->min_age_s ? gc->min_age_s : BLOB_MIN_AGE_S) * 1000000;
	int rc;

	gc->kept = gc->removed = gc->removed_bytes = gc->references_removed = gc->uploads_removed =
	    gc->manifests_missing = 0;
	/* Before marking: blobs that are put from now on are younger than the cut-off. */
	r.cutoff_us = now_us > age_us ? now_us - age_us : 0;
	if (gc->keep_since_us && gc->keep_since_us < r.cutoff_us)
		r.cutoff_us = gc->keep_since_us;
	rc = gc->roots(mark_blob, &r, gc->arg, e);
	if (r.failed)
		rc = err_set(e, r.e.code, "garbage collection of blobs: %s", r.e.text);
	if (rc == 0 && sweep_all(&r, now_us) < 0)
		rc = err_set(e, r.e.code, "garbage collection of blobs: %s", r.e.text);
	free(r.marks);
	if (rc == 0)
		log_info("event=blobs_swept kept=%" PRIu64 " removed=%" PRIu64 " removed_bytes=%" PRIu64
		         " references_removed=%" PRIu64 " uploads_removed=%" PRIu64,
		         gc->kept, gc->removed, gc->removed_bytes, gc->references_removed, gc->uploads_removed);
	return rc;
}
