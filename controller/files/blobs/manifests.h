/*
 * manifests: the trees that were asked for lately, read from their blobs and parsed.
 *
 * A manifest has up to 64 MiB, and a download asks for each chunk of one tree. So a few manifests stay in
 * memory. Reading one takes long: it is for workers. Any thread may give one back.
 */
#ifndef HEARTH_CONTROLLER_FILES_BLOBS_MANIFESTS_H
#define HEARTH_CONTROLLER_FILES_BLOBS_MANIFESTS_H

#include <stddef.h>

#include "common/base/err.h"

struct blobstore;
struct manifests;

struct manifest { /* does not change */
	const char *text;
	size_t n;
};

struct manifests *manifests_create(struct blobstore *bs);
void manifests_destroy(struct manifests *ms); /* all were given back; NULL allowed */

/* NULL: the blob is missing, damaged, or no manifest. */
const struct manifest *manifests_get(struct manifests *ms, const char *digest, struct err *e);
void manifests_put(struct manifests *ms, const struct manifest *m); /* NULL allowed */
/* 1: the tree has a chunk with this digest. */
int manifest_has(const struct manifest *m, const char *digest);

#endif
