/*
 * blob: content-addressed files, DIR/ab/abcdef... See tree.h. A blob is written whole or not at all, and
 * believed only when its digest was computed again after reading.
 */
#include "common/tree/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/xalloc.h"
#include "common/os/fsutil.h"

#define PATH_SIZE 4096

int blob_path(const char *blobdir, const char *digest, char *out, size_t out_size)
{
	/* The digest comes from outside and becomes part of a path. */
	if (!hash_is_hex(digest))
		return -1;
	return snprintf(out, out_size, "%s/%.2s/%s", blobdir, digest, digest) < (int)out_size ? 0 : -1;
}

int blob_has(const char *blobdir, const char *digest)
{
	char path[PATH_SIZE];
	struct stat st;

	return blob_path(blobdir, digest, path, sizeof(path)) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int write_blob(const char *blobdir, const char *digest, const void *data, size_t n, int durable,
                      struct err *e)
{
	char path[PATH_SIZE], real[HASH_HEX_SIZE], *slash;
	struct stat st;

	if (blob_path(blobdir, digest, path, sizeof(path)) < 0)
		return err_set(e, ERR_INVALID, "\"%.80s\" is not a digest", digest);
	hash_hex(data, n, real);
	if (strcmp(real, digest) != 0)
		return err_set(e, ERR_INVALID, "blob %s: content has the digest %s", digest, real);
	/* A file of another size is a torn one from before a crash. */
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == n)
		return 0;
	slash = strrchr(path, '/');
	*slash = '\0';
	if ((durable ? fs_mkdir_durable(path, 0755, e) : fs_mkdir_p(path, 0755, e)) < 0)
		return -1;
	*slash = '/';
	return durable ? fs_write_atomic(path, data, n, 0644, e) : fs_replace(path, data, n, 0644, e);
}

int blob_put(const char *blobdir, const char *digest, const void *data, size_t n, struct err *e)
{
	return write_blob(blobdir, digest, data, n, 1, e);
}

int blob_cache(const char *blobdir, const char *digest, const void *data, size_t n, struct err *e)
{
	return write_blob(blobdir, digest, data, n, 0, e);
}

static int set_damaged_aside(const char *path, const char *digest, const char *real, struct err *e)
{
	char aside[PATH_SIZE + 8];

	snprintf(aside, sizeof(aside), "%s.bad", path);
	(void)!rename(path, aside);
	return err_set(e, ERR_IO, "blob %s is damaged (its content has the digest %s)", digest, real);
}

int blob_check(const char *blobdir, const char *digest, struct err *e)
{
	char path[PATH_SIZE], real[HASH_HEX_SIZE];

	if (blob_path(blobdir, digest, path, sizeof(path)) < 0)
		return err_set(e, ERR_INVALID, "\"%.80s\" is not a digest", digest);
	if (hash_file_hex(path, real, e) < 0)
		return -1;
	return strcmp(real, digest) == 0 ? 0 : set_damaged_aside(path, digest, real, e);
}

int blob_get(const char *blobdir, const char *digest, size_t max, char **data, size_t *n, struct err *e)
{
	char path[PATH_SIZE], real[HASH_HEX_SIZE], *got;
	size_t got_n;

	if (blob_path(blobdir, digest, path, sizeof(path)) < 0)
		return err_set(e, ERR_INVALID, "\"%.80s\" is not a digest", digest);
	if (fs_read_file(path, max, &got, &got_n, e) < 0)
		return -1;
	hash_hex(got, got_n, real);
	if (strcmp(real, digest) != 0) {
		free(got);
		return set_damaged_aside(path, digest, real, e);
	}
	*data = got;
	*n = got_n;
	return 0;
}
