/*
 * blobstore_int: what blobstore.c and blobgc.c share.
 */
#ifndef HEARTH_CONTROLLER_FILES_BLOBS_BLOBSTORE_INT_H
#define HEARTH_CONTROLLER_FILES_BLOBS_BLOBSTORE_INT_H

#include "controller/files/blobs/blobstore.h"

#define BLOB_PATH_MAX  4096
#define BLOB_MIN_AGE_S 3600 /* of what garbage collection removes */

struct blobstore {
	char *blobs, *owners, *uploads, *lock;
	const struct clock *clock;
};

/* Those who refer to blobs hold it shared for a moment, garbage collection exclusive while it removes one: so
 * nothing is removed between "it is there" and "keep it". Descriptor, to be closed; -1. */
int blob_lock(const struct blobstore *b, int exclusive, struct err *e);
/* Distinct chunks of a blob when it is a manifest; none when it is not. Free each and *v. */
int blob_chunks(const struct blobstore *b, const char *digest, char ***v, size_t *n, struct err *e);
void blob_chunks_free(char **v, size_t n);

#endif
